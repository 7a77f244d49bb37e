"""RWKV: inputs, network and models, beside what the authors' own program says."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rwkv import SMALL, TINY, make_reviews, make_weights, predict_ours
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError
from srs_eval.data.paths import DEMO_FILE
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.engine.cache import compute_cache_key
from srs_eval.engine.conformance import find_mistakes
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.evaluate import evaluate_safely
from srs_eval.engine.run import Finished, Skipped
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import all_models, rwkv
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.state import _compute_learner_features, load_prior, run_filters
from srs_eval.training import rwkv_network
from srs_eval.training.hyperparameters import Cancelled, Context
from srs_eval.training.networks import read_tensors
from srs_eval.training.rwkv_inputs import Reviews, arrange_network, collect_reviews, compute_inputs
from srs_eval.training.rwkv_network import compute_predictions
from tests.cli.program import run_in_process
from tests.conftest import RWKV_WEIGHTS, shared_or_skip, write_simulated_collection
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner, write_dataset

# By the authors' program in torch, of 60 made-up reviews and made-up weights:
# python benchmarks/rwkv.py REFERENCE --oracle
INSTANT = np.fromstring(
    """
    0.788943 0.780759 0.797174 0.860313 0.870159 0.751015 0.701874 0.760077 0.687646
    0.775333 0.648879 0.947481 0.437619 0.792202 0.599610 0.411101 0.511478 0.329540
    0.516447 0.604590 0.716037 0.782282 0.925603 0.778719 0.714137 0.679710 0.918373
    0.862260 0.516462 0.910157 0.663200 0.884577 0.726035 0.681857 0.691939 0.622748
    0.650602 0.581081 0.659920 0.459031 0.626530 0.605428 0.759067 0.605893 0.508485
    0.716037 0.666968 0.724836 0.458200 0.896895 0.479200 0.611133 0.916964 0.397186
    0.513096 0.644504 0.756253 0.886585 0.457321 0.536124
    """,
    sep=" ",
)
CURVE = np.fromstring(
    """
    0.805893 0.350673 0.907107 0.719252 0.832110 0.609570 0.763266 0.613504 0.613701
    0.894953 0.428580 0.940833 0.489557 0.176632 0.791432 0.815945 0.977242 0.895187
    0.883315 0.797344 0.995128 0.271585 0.991069 0.990062 0.901185 0.529927 0.894857
    0.969431 0.335131 0.804866 0.457697 0.471693 0.722862 0.779415 0.749265 0.789102
    0.952225 0.918224 0.670634 0.707700 0.435617 0.449332 0.767176 0.528015 0.560308
    0.810797
    """,
    sep=" ",
)


def no_tick(done: float) -> None:
    """Nobody watches."""


# The network


@pytest.mark.parametrize("rows", slow_except({7}, [512, 7, 1]))
def test_the_authors_program_predicts_the_same(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are computed at once: states and norms are carried over."""
    monkeypatch.setattr(rwkv_network, "_ROWS_PER_BLOCK", rows)
    instant, curve = predict_ours(make_weights(TINY), make_reviews(60))
    np.testing.assert_allclose(instant, INSTANT, atol=5e-6)
    np.testing.assert_allclose(curve[np.isfinite(curve)], CURVE, atol=5e-6)


@pytest.mark.slow
def test_what_is_asked_changes_nothing_else() -> None:
    reviews, net = make_reviews(300), arrange_network(make_weights(SMALL), "made up")
    given = compute_inputs(reviews)
    every = compute_predictions(net, given, np.arange(300), reviews.elapsed_seconds, no_tick)
    asked = np.arange(40, 280, 7)
    seconds = reviews.elapsed_seconds[asked]
    some = compute_predictions(net, given, asked, seconds, no_tick)
    for both, few in zip(every, some, strict=True):
        np.testing.assert_allclose(few, both[asked], atol=2e-6)
    alone, nothing = compute_predictions(net, given, asked, seconds, no_tick, curve=False)
    np.testing.assert_allclose(alone, some[0], atol=2e-6)
    assert np.isnan(nothing).all()
    nothing, alone = compute_predictions(net, given, asked, seconds, no_tick, instant=False)
    np.testing.assert_allclose(alone, some[1], atol=2e-6)
    assert np.isnan(nothing).all()
    none = compute_predictions(net, given, asked[:0], seconds[:0], no_tick)
    assert [len(each) for each in none] == [0, 0]


def test_an_answer_is_not_known_before_it_is_given() -> None:
    """Neither its grade nor its time nor its kind; nor anything of later reviews."""
    reviews, at, weights = make_reviews(200), 150, make_weights(SMALL)
    instant, curve = predict_ours(weights, reviews)
    changed = [each.copy() for each in reviews]
    for column, value in ((7, 123), (8, 1 + reviews.rating[at:] % 4), (9, 2)):
        changed[column][at:] = value
    other_instant, other_curve = predict_ours(weights, Reviews(*changed))
    np.testing.assert_allclose(other_instant[: at + 1], instant[: at + 1], rtol=0, atol=0)
    np.testing.assert_allclose(other_curve[: at + 1], curve[: at + 1], rtol=0, atol=0)
    assert (np.abs(other_instant[at + 1 :] - instant[at + 1 :]) > 1e-4).mean() > 0.5


def test_a_curve_far_beyond_its_points() -> None:
    reviews = make_reviews(60)
    net = arrange_network(make_weights(TINY), "made up")
    asked = np.flatnonzero(reviews.elapsed_seconds >= 0)
    for seconds in (0, 10**10, 10**13):
        late = np.full(len(asked), seconds)
        _, p = compute_predictions(
            net, compute_inputs(reviews), asked, late, no_tick, instant=False
        )
        assert ((p >= 0) & (p <= 1)).all()


def test_it_can_be_cancelled() -> None:
    said = []

    def tick(done: float) -> None:
        said.append(done)
        if done > 0.3:
            raise Cancelled

    reviews, net = make_reviews(2_000), arrange_network(make_weights(TINY), "made up")
    with pytest.raises(Cancelled):
        compute_predictions(
            net, compute_inputs(reviews), np.arange(2_000), reviews.elapsed_seconds, tick
        )
    assert len(said) > 3
    assert said == sorted(said)
    assert said[-1] < 0.5


def test_notes_that_are_not_known_are_one_a_card() -> None:
    reviews = make_reviews(100)._replace(note=np.full(100, -1))
    apart, shared = compute_inputs(reviews), compute_inputs(reviews, note_per_card=False)
    assert len(np.unique(apart.entities[2])) == len(np.unique(reviews.card))
    assert len(np.unique(shared.entities[2])) == 1
    both = apart.at(np.arange(100), np.zeros(100, bool))
    assert (both[:, 13] == 1).all()


def test_answer_times_that_nobody_measured_are_of_mean_length() -> None:
    reviews = make_reviews(50)._replace(duration_ms=np.zeros(50, np.int64))
    assert (compute_inputs(reviews).answers[:, 8] == 0).all()


# Files


def test_files_of_torch_are_read_without_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    weights = make_weights(TINY)
    tensors = {name: torch.from_numpy(each) for name, each in weights.items()}
    # A view into a larger storage, and one that is transposed.
    tensors["p_linear.bias"] = torch.cat([torch.zeros(3), tensors["p_linear.bias"]])[3:]
    wide = tensors["w_linear.weight"]
    tensors["w_linear.weight"] = wide.T.contiguous().T
    path = tmp_path / "mine.pth"
    torch.save(tensors, path)
    found = read_tensors(path)
    assert found.keys() == weights.keys()
    for name, each in found.items():
        np.testing.assert_array_equal(each, weights[name])


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("it ran",)


def test_what_cannot_be_used_is_said_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import zipfile

    weights = make_weights(TINY)
    path = tmp_path / "evil.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps({"prehead_norm.weight": Evil()}))
    for wrong in (path, tmp_path / "absent.safetensors", tmp_path / "absent.pth"):
        with pytest.raises(InputError, match="cannot be read as network weights"):
            read_tensors(wrong)
    assert capsys.readouterr().out == ""
    torch = pytest.importorskip("torch", reason="needs torch")
    content = io.BytesIO()
    torch.save({"x": torch.zeros(4)}, content)
    (tmp_path / "cut.pth").write_bytes(content.getvalue()[:-200])
    with pytest.raises(InputError, match="cannot be read"):
        read_tensors(tmp_path / "cut.pth")

    def refused(words: str, **changed: np.ndarray) -> None:
        made = {name.replace("__", "."): each for name, each in changed.items()}
        with pytest.raises(InputError, match=words):
            arrange_network({**weights, **made}, "mine")

    refused("p_linear.weight", p_linear__weight=np.zeros((5, 64), np.float32))
    refused("features2card.0.weight", features2card__0__weight=np.zeros((64, 91), np.float32))
    refused("a further tensor, more", more=np.zeros(1, np.float32))
    refused("float64", prehead_norm__bias=np.zeros(16))
    refused("head_w.2", head_w__2__bias=np.full(16, np.nan, np.float32))
    with pytest.raises(InputError, match="lacks the tensor prehead_norm"):
        arrange_network({}, "mine")


# The models


@pytest.mark.slow
def test_models_keep_to_the_rules(weights_file: Path) -> None:
    """But one: the network is told of other cards between a card's answers."""
    models = [all_models()[name] for name in ("RWKV-Instant", "RWKV-Curve")]
    found = {(each.configuration, each.kind) for each in find_mistakes(models)}
    notes = {(model.name, "not trained") for model in models}  # which weights they are
    assert found - notes == {("RWKV-Curve", "learns")}


def test_without_weights_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {each.name for each in resolve_configurations("all,online,neural,fast")}
    assert not any(name.startswith("RWKV") for name in names)
    (instant,) = resolve_configurations("RWKV-P")
    assert instant.name == instant.words == "RWKV-Instant"
    session = LearnerSession(load_demo_learner(2_000))
    for configuration in resolve_configurations("RWKV,RWKV-Instant"):
        outcome = evaluate_safely(session, configuration, Context())
        assert isinstance(outcome, Skipped)
        assert "srs-eval models weights" in outcome.reason
    said = run_in_process("models")
    assert said.stdout.count("needs weights of") == 4  # two are blends


def test_weights_that_are_found_or_given(weights_file: Path, tmp_path: Path) -> None:
    assert {"RWKV-Instant", "RWKV-Curve"} <= {each.name for each in resolve_configurations("all")}
    assert rwkv.find_weights()[0].path == weights_file
    assert [each.path for each in rwkv.find_weights(Context(weights=weights_file))] == [
        weights_file
    ]
    folder = tmp_path / "some"
    folder.mkdir()
    assert rwkv.find_weights(Context(weights=folder))[0].path == weights_file
    weights_file.rename(folder / "RWKV_small.safetensors")
    (found,) = rwkv.find_weights(Context(weights=folder))
    assert found.public_file is None
    said = run_in_process("models", "weights")
    assert said.returncode == 0
    assert "No weights of RWKV were found" in said.stdout
    for each in rwkv.PUBLIC_WEIGHTS:
        assert each.sha256 in said.stdout.split()
        assert each.url in said.stdout.split()
    assert run_in_process("models", "weights", "--json").returncode == 2


@pytest.mark.slow
def test_parameters_are_those_of_the_weights(weights_file: Path, tmp_path: Path) -> None:
    """In a run and in the report on a batch, which knows no weights."""
    count = sum(tensor.size for tensor in read_tensors(weights_file).values())
    (curve,) = resolve_configurations("RWKV-Curve")
    assert curve.parameters is None
    assert curve.count_parameters(Context()) == count
    result = LearnerSession(load_demo_learner(600)).run(curve, Context())
    assert result.counted_parameters == count
    dataset, out = tmp_path / "data", tmp_path / "out"
    write_dataset({1: simulate_learner(1, 400)}, dataset)
    flags = ("--models", "RWKV-Curve", "--weights", weights_file, "--out", out)
    done = run_in_process("batch", "--dataset", dataset, *flags)
    assert done.returncode == 0, done.stderr
    weights_file.unlink()
    said = run_in_process("report", out, "--md", "-", "--tex", tmp_path / "tables")
    assert f"| {count:,} |" in said.stdout
    table = (tmp_path / "tables" / "1-means-by-reviews.tex").read_text("utf-8")
    assert f"& {count} &" in table


def test_parameters_of_weights_that_are_not_there_are_not_known() -> None:
    (curve,) = resolve_configurations("RWKV-Curve")
    assert curve.count_parameters(Context()) is None


def test_stored_answers_go_with_the_weights(weights_file: Path) -> None:
    """Also those of who combines RWKV with others."""
    names = "RWKV-Instant,RWKV-Curve,BLEND+RWKV-Curve,STATE-FSRS-6+7+RWKV"
    for context in (Context(), Context(weights=weights_file)):
        before = {
            each.name: compute_cache_key("a", each, context)
            for each in resolve_configurations(names)
        }
        assert before == {
            each.name: compute_cache_key("a", each, context)
            for each in resolve_configurations(names)
        }
        weights_file.write_bytes(weights_file.read_bytes() + b" ")
        after = {
            each.name: compute_cache_key("a", each, context)
            for each in resolve_configurations(names)
        }
        assert len({*before.values(), *after.values()}) == 8


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_folder_without_weights_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no weights")
    said = run_in_process(command, DEMO_FILE, "--weights", tmp_path)
    assert said.returncode == 2
    assert "there are no weights (.safetensors or .pth)" in said.stderr
    assert said.stdout == ""


def test_compare_has_rwkv_where_weights_are_named(
    weights_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_simulated_collection(tmp_path_factory, 3, 1_500)
    said = run_in_process("compare", path, "--question", "models", "--weights", weights_file)
    assert said.returncode == 0, said.stderr
    rows = [line.split("  ")[0] for line in said.stdout.splitlines()]
    assert {"RWKV-Curve", "RWKV-Instant"} <= {row.split(" ")[0] for row in rows}


def test_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SRS_EVAL_RWKV_WEIGHTS")
    monkeypatch.setenv("SRS_EVAL_DATA_DIR", str(tmp_path / "data"))
    base = tmp_path / "Anki2"
    monkeypatch.setenv("ANKI_BASE", str(base))
    addon = base / "addons21" / "rwkv4anki" / "vendor" / "rwkv_srs" / "pretrained"
    for folder in (addon, tmp_path / "data" / "rwkv", base / "User 1"):
        folder.mkdir(parents=True)
    (base / "User 1" / "collection.anki2").touch()
    (addon / "RWKV_trained_on_101_4999.safetensors").write_bytes(b"one")
    (tmp_path / "data" / "rwkv" / "mine.pth").write_bytes(b"two")
    (tmp_path / "data" / "rwkv" / "other.pth").write_bytes(b"three")
    (tmp_path / "data" / "rwkv" / "readme.txt").write_bytes(b"two")
    fork = tmp_path / "fork.pth"
    fork.write_bytes(b"four")
    monkeypatch.setenv("ANKI_RWKV_MODEL_PATH", str(fork))
    digests = [hashlib.sha256(each).hexdigest() for each in (b"four", b"one", b"two")]
    known = tuple(rwkv.PublicWeights("", each, 1, range(1), "") for each in digests)
    monkeypatch.setattr(rwkv, "PUBLIC_WEIGHTS", known)
    found = [each.path.name for each in rwkv.find_weights()]
    assert found == ["fork.pth", "RWKV_trained_on_101_4999.safetensors", "mine.pth"]


def test_a_user_of_its_training_is_refused(
    weights_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine,) = rwkv.find_weights()
    users = range(101, 5000)
    known = rwkv.PublicWeights("mine", mine.sha256, 1, users, "")
    monkeypatch.setattr(rwkv, "PUBLIC_WEIGHTS", (known,))
    for user, seen in ((101, True), (4999, True), (5000, False), (None, False)):
        log = replace(load_demo_learner(2_000), user=user)
        outcome = evaluate_safely(
            LearnerSession(log), resolve_configurations("RWKV-Curve")[0], Context()
        )
        assert isinstance(outcome, Skipped if seen else Finished)
        if isinstance(outcome, Skipped):
            assert outcome.reason.endswith(f"trained on user {user}: take weights that have not")


def test_the_demo_says_why_it_has_none(weights_file: Path) -> None:
    outcome = evaluate_safely(
        LearnerSession(load_log(DEMO_FILE)), resolve_configurations("RWKV-Curve")[0], Context()
    )
    assert isinstance(outcome, Skipped)
    assert "simulated" in outcome.reason


def test_results_say_what_the_source_lacks(weights_file: Path) -> None:
    log = load_demo_learner(2_000)
    (configuration,) = resolve_configurations("RWKV-Instant")
    notes = LearnerSession(log).run(configuration).notes
    assert len(notes) == 1
    assert notes[0].startswith("weights mine.safetensors, unknown to srs-eval")
    rows = select_rows(log).rows
    bare = ReviewLog(
        log.import_summary, rows=replace(rows, duration_ms=np.zeros(len(rows), np.int64))
    )
    result = LearnerSession(bare).run(configuration)
    assert "without answer times, notes, decks, presets" in result.notes[1]


def test_state_takes_its_logit_and_runs_it_once(
    weights_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = load_demo_learner(2_000)
    session = LearnerSession(log)
    instant, state = resolve_configurations("RWKV-Instant,STATE-FSRS-6+7+RWKV")
    assert state.is_online
    p = session.run(instant).p
    monkeypatch.setattr(rwkv, "compute_predictions", None)
    trials = session.trials(state.protocol)
    features = _compute_learner_features(state.name, trials, Context())
    logit = (features[:, -1] + features[:, 0])[trials.test_index]
    np.testing.assert_allclose(logit, np.log(p / (1 - p)).clip(-6, 6), atol=1e-12)
    found = run_filters(features, trials.y, load_prior(state.name))
    np.testing.assert_array_equal(session.run(state).p, found.p[trials.test_index])


@pytest.mark.slow
def test_run_takes_a_file(
    weights_file: Path, simulated_collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_RWKV_WEIGHTS", "")
    done = run_in_process(
        *("run", str(simulated_collection), "--weights", str(weights_file)),
        *("--models", "AVG", "--jobs", "0", "--json", "-"),
    )
    assert done.returncode == 0, done.stderr
    found = {each["configuration"]: each for each in json.loads(done.stdout)["results"]}
    assert set(found) == {"AVG", "RWKV-Instant", "RWKV-Curve"}


# With real weights


@pytest.fixture(scope="module")
def golden() -> tuple[ReviewLog, Any]:
    said = json.loads(shared_or_skip("golden", "rwkv-101.json").read_text())
    return load_log(shared_or_skip("golden", "dataset"), user=101), said


def test_inputs_of_the_golden_learner(golden: tuple[ReviewLog, Any]) -> None:
    log, said = golden
    given = compute_inputs(collect_reviews(log, select_rows(log).rows))
    for row, expected in said["features"]["rows"].items():
        for kind, values in expected.items():
            found = given.at(np.array([int(row)]), np.array([kind == "query"]))[0]
            np.testing.assert_allclose(found, values, rtol=0, atol=1e-6)


def test_predictions_for_the_golden_learner(golden: tuple[ReviewLog, Any]) -> None:
    log, said = golden
    path = Path(RWKV_WEIGHTS)
    if not RWKV_WEIGHTS or not path.is_file():
        pytest.skip("needs RWKV's weights: SRS_EVAL_RWKV_WEIGHTS names champ_h2k16.safetensors")
    rows, (weights,) = select_rows(log).rows, rwkv.find_weights(Context(weights=path))
    assert weights.sha256 == said["weights_sha256"]
    net, reviews = arrange_network(read_tensors(path), path.name), collect_reviews(log, rows)
    asked = np.array([each["review_th"] for each in said["predictions"]]) - 1
    for seed, suffix in ((2025, ""), (5489, "_seed_5489")):
        found = compute_predictions(
            net, compute_inputs(reviews, seed), asked, rows.elapsed_seconds[asked], no_tick
        )
        for name, p in zip(("Instant", "Curve"), found, strict=True):
            expected = [each[name + suffix] for each in said["predictions"]]
            np.testing.assert_allclose(p, expected, rtol=0, atol=5e-6)
    trials = LearnerSession(log).trials(Protocol())
    for name in ("Instant", "Curve"):
        (configuration,) = resolve_configurations(f"RWKV-{name}")
        result = LearnerSession(log).run(configuration, Context(weights=path))
        y = trials.y[trials.test_index]
        assert log_loss(y, result.p) == pytest.approx(said["log_loss"][name], abs=2e-6)


def test_frozen_figures_of_a_large_network(tmp_path: Path) -> None:
    """Of github.com/zaguk/rwkv-srs, tests/release: weights, reviews and figures are made up there.

    Its days begin at 0 and go on at 100: the slip of the authors' program."""
    folder = os.environ.get("SRS_EVAL_RWKV_FIXTURE")
    if not folder:
        pytest.skip("needs tests/release of zaguk/rwkv-srs: SRS_EVAL_RWKV_FIXTURE names it")
    path = tmp_path / "large.safetensors"
    make = [sys.executable, str(Path(folder) / "model_fixture.py"), "--output", str(path)]
    subprocess.run(make, check=True, capture_output=True)
    net = arrange_network(read_tensors(path), path.name)
    given = json.loads((Path(folder) / "fixtures" / "reviews.json").read_text())
    expected = json.loads((Path(folder) / "fixtures" / "expected_outputs.json").read_text())

    def reviews(rows: list[dict[str, float]]) -> Reviews:
        names = ("card_id", "note_id", "deck_id", "preset_id", "day_offset", "elapsed_days")
        names += ("elapsed_seconds", "duration", "rating", "state")
        values = [[-1 if row.get(name) is None else row[name] for row in rows] for name in names]
        columns = [
            np.array(each, float if "d" in name else int)
            for name, each in zip(names, values, strict=True)
        ]
        columns[4][0] = 0
        return Reviews(*columns)  # its days have fractions

    done = given["process_rows"]
    first = reviews(done)
    found = compute_predictions(
        net, compute_inputs(first, given["seed"]), np.arange(8), first.elapsed_seconds, no_tick
    )[0]
    np.testing.assert_allclose(found, expected["default_simd"]["scalar_process"], atol=5e-5)
    later = []
    for row in given["prediction_rows"]:
        more = reviews([*done, row])
        asked = np.array([8])
        later.append(
            compute_predictions(
                net,
                compute_inputs(more, given["seed"]),
                asked,
                more.elapsed_seconds[asked],
                no_tick,
            )[0][0]
        )
    np.testing.assert_allclose(later, expected["default_simd"]["scalar_predictions"], atol=5e-5)
