"""Pretraining on simulated learners, and the weights that are shipped."""

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
    """Three small learners as the network `name` sees them."""
    logs = [simulate_learner(seed, 700, new_per_day=15, incidents=False).log() for seed in range(3)]
    protocol = pretraining.RECIPES[name].protocol
    return tuple(prepare_trials(log, select_rows(log).rows, protocol) for log in logs)


def train_and_validation(name: str) -> tuple[Trials, Trials]:
    each = each_trials(name)
    return pretraining.pool(each[:2]), pretraining.pool(each[2:])


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps of training for little data."""
    monkeypatch.setattr(pretraining, "BATCH", 50)


# The pool


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_pooled_trials_are_everyones(name: str) -> None:
    each = each_trials(name)
    pooled = pretraining.pool(each)
    assert len(pooled) == sum(len(trials) for trials in each)
    begin = 0
    for trials in each:
        for k in (0, len(trials) // 2, len(trials) - 1):
            here, there = begin + k, k
            for column in ("history_delta_t", "history_rating", "history_duration_ms"):
                np.testing.assert_array_equal(
                    getattr(pooled, column)[pooled.history_start[here] : pooled.history_end[here]],
                    getattr(trials, column)[
                        trials.history_start[there] : trials.history_end[there]
                    ],
                )
            assert pooled.y[here] == trials.y[there]
            assert pooled.delta_t[here] == trials.delta_t[there]
        begin += len(trials)
    cards = sum(len(np.unique(trials.card_id)) for trials in each)
    assert len(np.unique(pooled.card_id)) == cards


@pytest.mark.slow
def test_a_network_predicts_the_same_in_the_pool() -> None:
    each = each_trials("GRU")
    pooled = pretraining.pool(each)
    w = pretraining.gru.GRU.random_start(Context(user=1))
    apart = [
        pretraining.gru.GRU.predict(trials, w, np.arange(len(trials)), Context()) for trials in each
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
def test_training_teaches_the_same_every_time(name: str) -> None:
    """Validation loss falls below that of always predicting the mean; same seed, same weights."""
    train, validation = train_and_validation(name)
    settings = pretraining.Settings(seed=3, epochs=30)
    one, two = (pretraining.pretrain(name, train, validation, settings) for _ in range(2))
    assert one.log_loss == two.log_loss
    for key, tensor in one.tensors.items():
        np.testing.assert_array_equal(tensor, two.tensors[key])
    other = pretraining.pretrain(name, train, validation, replace(settings, seed=4))
    assert other.log_loss != one.log_loss
    p = validation.y[pretraining._select_training_rows(validation)].mean()
    constant = -(p * math.log(p) + (1 - p) * math.log(1 - p))
    assert one.log_loss < constant + 0.03


@pytest.mark.slow
def test_lstm_learns_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "BATCH", 100)
    train, validation = train_and_validation("LSTM")
    settings = pretraining.Settings(seed=3, epochs=3)
    one, two = (pretraining.pretrain("LSTM", train, validation, settings) for _ in range(2))
    for key, tensor in one.tensors.items():
        np.testing.assert_array_equal(tensor, two.tensors[key])
    first = pretraining.pretrain("LSTM", train, validation, replace(settings, epochs=1))
    assert one.log_loss < first.log_loss - 0.02


@pytest.mark.slow
def test_transformer_learns_in_batches_of_all_kinds() -> None:
    train, validation = train_and_validation("Transformer")
    settings = pretraining.Settings(seed=3, epochs=2)
    one, two = (pretraining.pretrain("Transformer", train, validation, settings) for _ in range(2))
    assert one.log_loss == two.log_loss
    assert math.isfinite(one.log_loss)


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
    found = pretraining.pretrain("GRU", train, validation, pretraining.Settings())
    assert (found.log_loss, found.epochs) == (0.4, 2)
    assert found.tensors["epoch"].tolist() == [1]
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
    one, two = (
        lstm.predict_recall(pretraining.import_lstm(each), validation, rows, Context())
        for each in (tensors, same)
    )
    np.testing.assert_allclose(one, two, atol=2e-5)


@pytest.mark.slow
def test_normalised_inputs_have_mean_0_and_deviation_1() -> None:
    trials = train_and_validation("LSTM")[0]
    x = lstm._compute_inputs(trials, *pretraining.compute_input_normalisation(trials))[:, :2]
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(x.std(axis=0), 1, atol=1e-3)


@pytest.mark.slow
def test_meta_training_never_ends_worse_after_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "TASKS", 1)
    each = each_trials("LSTM")
    train, validation = train_and_validation("LSTM")
    settings = pretraining.Settings(seed=1, epochs=3)
    before = pretraining.pretrain("LSTM", train, validation, settings)
    after = pretraining.meta_train(before, each[:2], each[2:], settings, rounds=1)
    losses = [
        pretraining.compute_tuned_loss(pretraining.import_lstm(found.tensors), each[2:], Context())
        for found in (before, after)
    ]
    assert losses[1] <= losses[0]
    assert after.tuned_log_loss == losses[1]


def test_halfway_is_the_mean_of_two() -> None:
    one, other = ({"w": np.array([0, x], np.float32)} for x in (1, 4))
    assert pretraining.average_weights(one, other)["w"].tolist() == [0.0, 2.5]


@pytest.mark.slow
def test_gru_503_is_meta_trained_and_adamw_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pretraining, "BATCH", 100)
    monkeypatch.setattr(pretraining, "MIXTURE_TASKS", 6)
    each = each_trials("GRU-503")
    train, validation = train_and_validation("GRU-503")
    settings = pretraining.Settings(seed=1, epochs=6)
    before = pretraining.pretrain("GRU-503", train, validation, settings)
    after = pretraining.meta_train_mixture(before, each[:2], each[2:], settings, rounds=2)
    losses = [
        pretraining.compute_tuned_mixture_loss(pretraining.import_mixture(found.tensors), each[2:])
        for found in (before, after)
    ]
    assert after.tuned_log_loss is not None
    assert after.tuned_log_loss <= losses[0]
    pretraining.write_weights(tmp_path / "GRU-503.safetensors", after.tensors, {"made_by": "test"})
    found = gru_503.load_pretrained(Context(weights=tmp_path))
    np.testing.assert_array_equal(found.values, pretraining.import_mixture(after.tensors).values)
    if after.tuned_log_loss < losses[0]:  # otherwise the weights from before, without a state
        assert found.adam_mean is not None
        assert found.adam_steps > 0


@pytest.mark.slow
def test_gru_503_is_tuned_on_beginnings_that_can_be_tuned_on() -> None:
    """Stretches of a learner may hold nothing but histories that are too long."""
    trials = each_trials("GRU-503")[0]
    trials = replace(trials, protocol=replace(trials.protocol, max_seq_len=1))
    weights = gru_503.Gru503Weights(pretraining._draw_mixture(np.random.default_rng(4)), -1.0, 4.0)
    usable = trials.sequence_length <= 1
    assert not all(usable[k : k + 5].any() for k in range(len(trials) - 5))
    random = np.random.default_rng(0)
    for _ in range(12):
        tuned, gradient = pretraining._mixture_task(weights, trials, random)
        assert (tuned.values != weights.values).any()
        assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_gradient_of_gru_503_is_the_slope_of_its_loss() -> None:
    trials = each_trials("GRU-503")[0]
    values = pretraining._draw_mixture(np.random.default_rng(4))
    weights = gru_503.Gru503Weights(values, -1.0, 4.0)
    rows = np.arange(0, len(trials), 3)
    gradient = pretraining.gradient(weights, trials, rows)
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
def test_the_command_writes_weights_that_serve(tmp_path: Path) -> None:
    options = "--models GRU,LSTM --learners 2 --validation 1 --epochs 1 --rounds 0 --seed 5"
    pretraining.main([*options.split(), "--out", str(tmp_path)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["GRU.safetensors", "LSTM-fixed.safetensors", "LSTM.safetensors"]
    about = metadata(tmp_path / "GRU.safetensors")
    assert about["model"] == "GRU"
    assert (about["seed"], about["users"]) == ("5", "2")
    assert float(about["validation_log_loss"]) > 0
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
def test_the_command_refuses_what_it_cannot_do(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        pretraining.main([*arguments, "--validation", "1", "--out", str(tmp_path)])
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unknown_network() -> None:
    train, validation = train_and_validation("GRU")
    with pytest.raises(InputError, match="SM-99"):
        pretraining.pretrain("SM-99", train, validation, pretraining.Settings())


# The weights that are shipped


def metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        found: dict[str, str] = json.loads(file.read(size))["__metadata__"]
        return found


def test_every_network_is_shipped_and_they_are_small() -> None:
    expected = {
        file for name, recipe in pretraining.RECIPES.items() for file in recipe.files or (name,)
    }
    assert {path.stem for path in SHIPPED} == expected
    assert sum(path.stat().st_size for path in SHIPPED) < 400_000


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_weights_say_how_they_were_made(path: Path) -> None:
    about = metadata(path)
    assert about["model"] == path.stem
    assert ".pretraining --models " in about["command"]
    assert int(about["users"]) >= 100
    assert int(about["reviews"]) > 100_000
    assert 0.28 < float(about["validation_log_loss"]) < 0.5


SERVED = [
    "GRU", "RNN", "GRU-P", "GRU-P-short", "NN-17", "Transformer", "LSTM", "LSTM-fixed", "LSTM-489",
    "GRU-secs", "NN-17-secs", "GRU-P-secs", "GRU-503",
]  # fmt: skip


@pytest.mark.parametrize("name", slow_except({"GRU", "LSTM", "NN-17-secs"}, SERVED))
def test_shipped_weights_serve_and_start_well(name: str) -> None:
    """Untuned, on a learner never seen: no worse than half a decent model."""
    session = LearnerSession(simulate_learner(11, 1200, incidents=False).log())
    (configuration,) = resolve_configurations(name)
    trials = session.trials(configuration.protocol)
    rows = trials.test_index
    p = configuration.model.predict(trials, (), rows, Context())  # type: ignore[misc]
    y = trials.y[rows]
    share = y.mean()
    constant = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    assert pretraining._loss(y, p) < constant + 0.05


@pytest.mark.parametrize("name", slow_except({"GRU"}, ["GRU", "GRU-P", "GRU-P-short", "NN-17"]))
def test_as_good_as_the_references_weights(name: str) -> None:
    """Mean log loss over the golden users at most 0.01 above that with the reference's weights."""
    golden = shared_or_skip("golden")
    lines = (golden / "expected" / f"{name}.jsonl").read_text().splitlines()
    expected = {line["user"]: line["metrics"]["LogLoss"] for line in map(json.loads, lines)}
    (configuration,) = resolve_configurations(name)
    dataset = open_dataset(golden / "dataset")
    gaps = []
    for user in dataset.users:
        try:
            found = LearnerSession(dataset.load(user)).run(configuration, Context(user=user))
        except NotEnoughData:
            continue
        gaps.append(found.metrics.log_loss - expected[user])
    assert len(gaps) == len(expected)
    assert np.mean(gaps) < 0.01
