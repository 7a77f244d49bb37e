"""Check pretraining on simulated learners, and the weights that are shipped."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import Trials, prepare_trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Context, gru_503, lstm
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training import networks
from tests.conftest import shared_or_skip
from tests.helpers.marks import slow_except
from tools.pretraining import train as pretraining
from tools.simulated import simulate_learner

SHIPPED = sorted(networks.SHIPPED_WEIGHTS.glob("*.safetensors"))


@cache
def each_trials(name: str) -> tuple[Trials, ...]:
    """Return the trials of three small learners for the network `name`."""
    logs = [simulate_learner(seed, 700, new_per_day=15, incidents=False).log() for seed in range(3)]
    protocol = pretraining.RECIPES[name].protocol
    return tuple(prepare_trials(log, select_rows(log).rows, protocol) for log in logs)


def train_and_validation(name: str) -> tuple[Trials, Trials]:
    learners = each_trials(name)
    return pretraining.pool(learners[:2]), pretraining.pool(learners[2:])


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many steps of training out of little data."""
    monkeypatch.setattr(pretraining, "BATCH", 50)


# The pool


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_pool_joins_the_trials_of_all_learners(name: str) -> None:
    learners = each_trials(name)
    pooled = pretraining.pool(learners)
    assert len(pooled) == sum(len(trials) for trials in learners)
    begin = 0
    for trials in learners:
        for k in (0, len(trials) // 2, len(trials) - 1):
            pooled_row = begin + k
            for column in ("history_delta_t", "history_rating", "history_duration_ms"):
                np.testing.assert_array_equal(
                    getattr(pooled, column)[
                        pooled.history_start[pooled_row] : pooled.history_end[pooled_row]
                    ],
                    getattr(trials, column)[trials.history_start[k] : trials.history_end[k]],
                )
            assert pooled.y[pooled_row] == trials.y[k]
            assert pooled.delta_t[pooled_row] == trials.delta_t[k]
        begin += len(trials)
    cards = sum(len(np.unique(trials.card_id)) for trials in learners)
    assert len(np.unique(pooled.card_id)) == cards


@pytest.mark.slow
def test_a_network_predicts_the_same_in_the_pool() -> None:
    learners = each_trials("GRU")
    pooled = pretraining.pool(learners)
    w = pretraining.gru.GRU.random_start(Context(user=1))
    apart = [
        pretraining.gru.GRU.predict(trials, w, np.arange(len(trials)), Context())
        for trials in learners
    ]
    together = pretraining.gru.GRU.predict(pooled, w, np.arange(len(pooled)), Context())
    np.testing.assert_array_equal(together, np.concatenate(apart))


@pytest.mark.slow
def test_batches_hold_every_row_once_and_whole_cards() -> None:
    trials = pretraining.pool(each_trials("GRU"))
    rows = np.arange(0, len(trials), 2)
    batches = pretraining.make_card_batches(trials, rows, 50, np.random.default_rng(0))
    assert len(batches) > 3
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), rows)
    cards = [set(trials.card_id[batch].tolist()) for batch in batches]
    assert sum(map(len, cards)) == len(set.union(*cards))
    assert max(map(len, batches)) < 100


# Training


@pytest.mark.slow
@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("name", ["GRU", "GRU-P", "NN-17", "LSTM-489", "RNN", "GRU-503"])
def test_pretraining_is_deterministic_and_learns(name: str) -> None:
    """Check that the same seed gives the same weights, better than predicting the mean."""
    train, validation = train_and_validation(name)
    settings = pretraining.Settings(seed=3, epochs=30)
    first, second = (pretraining.pretrain(name, train, validation, settings) for _ in range(2))
    assert first.log_loss == second.log_loss
    for key, tensor in first.tensors.items():
        np.testing.assert_array_equal(tensor, second.tensors[key])
    next_seed = pretraining.pretrain(name, train, validation, replace(settings, seed=4))
    assert next_seed.log_loss != first.log_loss
    p = validation.y[pretraining._select_training_rows(validation)].mean()
    constant = -(p * math.log(p) + (1 - p) * math.log(1 - p))
    assert first.log_loss < constant + 0.03


@pytest.mark.slow
def test_pretraining_of_lstm_is_deterministic_and_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "BATCH", 100)
    train, validation = train_and_validation("LSTM")
    settings = pretraining.Settings(seed=3, epochs=3)
    first_run, second_run = (
        pretraining.pretrain("LSTM", train, validation, settings) for _ in range(2)
    )
    for key, tensor in first_run.tensors.items():
        np.testing.assert_array_equal(tensor, second_run.tensors[key])
    first_epoch = pretraining.pretrain("LSTM", train, validation, replace(settings, epochs=1))
    assert first_run.log_loss < first_epoch.log_loss - 0.02


@pytest.mark.slow
def test_transformer_learns_in_batches_of_all_kinds() -> None:
    train, validation = train_and_validation("Transformer")
    settings = pretraining.Settings(seed=3, epochs=2)
    first, second = (
        pretraining.pretrain("Transformer", train, validation, settings) for _ in range(2)
    )
    assert first.log_loss == second.log_loss
    assert math.isfinite(first.log_loss)


@pytest.mark.slow
def test_the_best_epoch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([0.5, 0.4, 0.45, math.inf])
    epochs: list[int] = []

    def course(*arguments: object) -> pretraining.Course:
        return pretraining.Course(
            epochs.append, lambda: next(losses), lambda: {"epoch": np.array([epochs[-1]])}
        )

    recipe = replace(pretraining.RECIPES["GRU"], course=course, starts=1, epochs=30)
    monkeypatch.setitem(pretraining.RECIPES, "GRU", recipe)
    train, validation = train_and_validation("GRU")
    pretrained = pretraining.pretrain("GRU", train, validation, pretraining.Settings())
    assert (pretrained.log_loss, pretrained.epochs) == (0.4, 2)
    assert pretrained.tensors["epoch"].tolist() == [1]
    assert epochs == [0, 1, 2, 3]  # and no further once it has diverged


@pytest.mark.slow
def test_training_ends_where_nothing_improves(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[int] = []

    def course(*arguments: object) -> pretraining.Course:
        return pretraining.Course(epochs.append, lambda: 0.5, dict)

    recipe = replace(pretraining.RECIPES["GRU"], course=course, starts=1, epochs=99)
    monkeypatch.setitem(pretraining.RECIPES, "GRU", recipe)
    train, validation = train_and_validation("GRU")
    assert pretraining.pretrain("GRU", train, validation, pretraining.Settings()).epochs == 1
    assert len(epochs) == 1 + pretraining.PATIENCE


# LSTM


def test_one_normalisation_is_the_same_function() -> None:
    train, validation = train_and_validation("LSTM")
    settings = pretraining.Settings(seed=1, epochs=1)
    tensors = pretraining.pretrain("LSTM", train, validation, settings).tensors
    assert abs(tensors["input_mean"][0] - tensors["input_mean"][1]) > 1
    same = pretraining.merge_normalisations(tensors)
    assert same["input_mean"][0] == same["input_mean"][1]
    rows = np.arange(len(validation))
    expected, merged = (
        lstm.predict_recall(pretraining.import_lstm(weights), validation, rows, Context())
        for weights in (tensors, same)
    )
    np.testing.assert_allclose(expected, merged, atol=2e-5)


@pytest.mark.slow
def test_normalised_inputs_have_mean_0_and_deviation_1() -> None:
    trials = train_and_validation("LSTM")[0]
    x = lstm._compute_inputs(trials, *pretraining.compute_input_normalisation(trials))[:, :2]
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(x.std(axis=0), 1, atol=1e-3)


@pytest.mark.slow
def test_meta_training_never_ends_worse_after_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "TASKS", 1)
    learners = each_trials("LSTM")
    train, validation = train_and_validation("LSTM")
    settings = pretraining.Settings(seed=1, epochs=3)
    before = pretraining.pretrain("LSTM", train, validation, settings)
    after = pretraining.meta_train(before, learners[:2], learners[2:], settings, rounds=1)
    losses = [
        pretraining.compute_tuned_loss(
            pretraining.import_lstm(pretrained.tensors), learners[2:], Context()
        )
        for pretrained in (before, after)
    ]
    assert losses[1] <= losses[0]
    assert after.tuned_log_loss == losses[1]


def test_average_weights_is_the_mean_of_two() -> None:
    start, end = ({"w": np.array([0, x], np.float32)} for x in (1, 4))
    assert pretraining.average_weights(start, end)["w"].tolist() == [0.0, 2.5]


@pytest.mark.slow
def test_gru_503_meta_training_continues_with_adamw(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pretraining, "BATCH", 100)
    monkeypatch.setattr(pretraining, "MIXTURE_TASKS", 6)
    learners = each_trials("GRU-503")
    train, validation = train_and_validation("GRU-503")
    settings = pretraining.Settings(seed=1, epochs=6)
    before = pretraining.pretrain("GRU-503", train, validation, settings)
    after = pretraining.meta_train_mixture(before, learners[:2], learners[2:], settings, rounds=2)
    losses = [
        pretraining.compute_tuned_mixture_loss(
            pretraining.import_mixture(pretrained.tensors), learners[2:]
        )
        for pretrained in (before, after)
    ]
    assert after.tuned_log_loss is not None
    assert after.tuned_log_loss <= losses[0]
    pretraining.write_weights(tmp_path / "GRU-503.safetensors", after.tensors, {"made_by": "test"})
    loaded = gru_503.load_pretrained(Context(weights=tmp_path))
    np.testing.assert_array_equal(loaded.values, pretraining.import_mixture(after.tensors).values)
    if after.tuned_log_loss < losses[0]:  # otherwise the weights from before, without a state
        assert loaded.adam_mean is not None
        assert loaded.adam_steps > 0


@pytest.mark.slow
def test_gru_503_is_tuned_on_usable_stretches_only() -> None:
    """Check tuning on a learner of whom many stretches hold no usable history."""
    trials = each_trials("GRU-503")[0]
    trials = replace(trials, protocol=replace(trials.protocol, max_seq_len=1))
    weights = gru_503.Gru503Weights(pretraining._draw_mixture(np.random.default_rng(4)), -1.0, 4.0)
    usable = trials.sequence_length <= 1
    assert not all(usable[k : k + 5].any() for k in range(len(trials) - 5))
    random = np.random.default_rng(0)
    for _ in range(12):
        tuned, gradient = pretraining._compute_mixture_task(weights, trials, random)
        assert (tuned.values != weights.values).any()
        assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_gradient_of_gru_503_is_the_slope_of_its_loss() -> None:
    trials = each_trials("GRU-503")[0]
    values = pretraining._draw_mixture(np.random.default_rng(4))
    weights = gru_503.Gru503Weights(values, -1.0, 4.0)
    rows = np.arange(0, len(trials), 3)
    gradient = pretraining.compute_gradient(weights, trials, rows)
    y = trials.y[rows]

    def summed_loss(moved: np.ndarray) -> float:
        p = gru_503.predict_recall(replace(weights, values=moved), trials, rows)
        return -float(np.sum(np.where(y == 1, np.log(p), np.log(1 - p))))

    for k in (*range(0, 503, 29), 502):
        step = np.zeros(503)
        step[k] = 1e-5
        slope = (summed_loss(values + step) - summed_loss(values - step)) / 2e-5
        assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-5 * np.abs(gradient).max())


# The command


@pytest.mark.slow
def test_pretraining_command_writes_usable_weights(tmp_path: Path) -> None:
    options = "--models GRU,LSTM --learners 2 --validation 1 --epochs 1 --rounds 0 --seed 5"
    pretraining.main([*options.split(), "--out", str(tmp_path)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["GRU.safetensors", "LSTM-fixed.safetensors", "LSTM.safetensors"]
    header = metadata(tmp_path / "GRU.safetensors")
    assert header["model"] == "GRU"
    assert (header["seed"], header["users"]) == ("5", "2")
    assert float(header["validation_log_loss"]) > 0
    session = LearnerSession(simulate_learner(9, 400, incidents=False).log())
    for name in ("GRU", "LSTM", "LSTM-fixed"):
        (configuration,) = resolve_configurations(name)
        loss = session.run(configuration, Context(weights=tmp_path)).metrics.log_loss
        assert 0 < loss < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "GRU,SM-99"], "SM-99"),
        (["--learners", "0"], "At least one learner"),
        (["--models", "LSTM", "--learners", "1", "--device", "nowhere"], "nowhere"),
    ],
)
def test_pretraining_command_refuses_bad_options(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        pretraining.main([*arguments, "--validation", "1", "--out", str(tmp_path)])
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pretrain_refuses_an_unknown_network() -> None:
    train, validation = train_and_validation("GRU")
    with pytest.raises(InputError, match="SM-99"):
        pretraining.pretrain("SM-99", train, validation, pretraining.Settings())


# The weights that are shipped


def metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, str] = json.loads(file.read(size))["__metadata__"]
        return header


def test_every_network_is_shipped_and_they_are_small() -> None:
    expected: set[str] = set()
    for name, recipe in pretraining.RECIPES.items():
        expected.update(recipe.files or (name,))
    assert {path.stem for path in SHIPPED} == expected
    assert sum(path.stat().st_size for path in SHIPPED) < 400_000


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_weights_say_how_they_were_made(path: Path) -> None:
    header = metadata(path)
    assert header["model"] == path.stem
    assert ".pretraining --models " in header["command"]
    assert int(header["users"]) >= 100
    assert int(header["reviews"]) > 100_000
    assert 0.28 < float(header["validation_log_loss"]) < 0.5


SERVED = [
    "GRU", "RNN", "GRU-P", "GRU-P-short", "NN-17", "Transformer", "LSTM", "LSTM-fixed", "LSTM-489",
    "GRU-secs", "NN-17-secs", "GRU-P-secs", "GRU-503",
]  # fmt: skip


@pytest.mark.parametrize("name", slow_except({"GRU", "LSTM", "NN-17-secs"}, SERVED))
def test_shipped_weights_serve_and_start_well(name: str) -> None:
    """Check untuned weights on a new learner: hardly worse than predicting the mean."""
    session = LearnerSession(simulate_learner(11, 1200, incidents=False).log())
    (configuration,) = resolve_configurations(name)
    trials = session.trials(configuration.protocol)
    rows = trials.test_index
    p = configuration.model.predict(trials, (), rows, Context())  # type: ignore[misc]
    y = trials.y[rows]
    share = y.mean()
    constant = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    assert pretraining._compute_loss(y, p) < constant + 0.05


@pytest.mark.parametrize("name", slow_except({"GRU"}, ["GRU", "GRU-P", "GRU-P-short", "NN-17"]))
def test_shipped_weights_are_as_good_as_the_references(name: str) -> None:
    """Check that the mean log loss is at most 0.01 above that of the reference weights."""
    golden = shared_or_skip("golden")
    lines = (golden / "expected" / f"{name}.jsonl").read_text().splitlines()
    expected = {line["user"]: line["metrics"]["LogLoss"] for line in map(json.loads, lines)}
    (configuration,) = resolve_configurations(name)
    dataset = open_dataset(golden / "dataset")
    gaps = []
    for user in dataset.users:
        try:
            result = LearnerSession(dataset.load(user)).run(configuration, Context(user=user))
        except NotEnoughData:
            continue
        gaps.append(result.metrics.log_loss - expected[user])
    assert len(gaps) == len(expected)
    assert np.mean(gaps) < 0.01
