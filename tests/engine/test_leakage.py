"""Models that read the future are found by `models check` and when they first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine import altered_logs, own_models
from srs_eval.engine.altered_logs import alter_future, require_rows, truncate_and_alter
from srs_eval.engine.conformance import find_mistakes
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.leakage import find_future_fits, find_future_inputs, find_outcome_leaks
from srs_eval.engine.model_checks import CONTEXT
from srs_eval.engine.own_models import (
    describe_mistake,
    find_mistake_kind,
    find_mistake_kinds,
    leak_label,
)
from srs_eval.engine.replay import ReorderedSession, TruncatedSession, train
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Model, all_models, load_model_file
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.hyperparameters import Cancelled
from tests.conftest import PATIENCE, write_simulated_collection
from tests.helpers.leaking_models import (
    CORRECT,
    FLAG_LEAKS,
    INPUT_LEAKS,
    MORE_LEAKS,
    OUTCOME_LEAKS,
    REMEMBERING_LEAKS,
    ROUNDED_LEAKS,
    SAME_DAY_LEAKS,
    STRATIFIED_LEAKS,
)
from tests.helpers.marks import slow_except

KINDS = {
    "own outcome": "own outcome",
    "target encoding": "later outcome",
    "recalibration": "later outcome",
    "selection": "later outcome",
    "early stopping": "fit sees test",
    "fit on all": "fit sees test",
    "online in disguise": "learns",
    "next interval": "later input",
    "own answer time": "own answer time",
    "next state": "later input",
    "later count": "later input",
    "next interval in large logs": "later input",
    "tree on the next interval": "later input",
    **{name: kind for name, (kind, _) in MORE_LEAKS.items()},
}
LEAKS = OUTCOME_LEAKS | INPUT_LEAKS | {name: source for name, (_, source) in MORE_LEAKS.items()}
QUICK = {
    # One leak of each kind, most of them in fitted models, one in an online model.
    "own outcome",
    "target encoding",
    "fit on all",
    "online in disguise",
    "next interval",
    "own answer time",
    "online",
}
PROTOCOL = Protocol(rows="anki")


@pytest.fixture(autouse=True)
def patient_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give checks more than their half minute, so that no verdict depends on the machine's load."""
    monkeypatch.setattr(own_models, "LONGEST_CHECK_S", PATIENCE)


@contextmanager
def loaded(source: str, folder: Path) -> Iterator[Model]:
    path = folder / "leaking.py"
    path.write_text(source.replace("NAME", "LEAKING"), encoding="utf-8")
    (model,) = load_model_file(path)
    try:
        yield model
    finally:
        del all_models()[model.name]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", slow_except({"own outcome", "next interval", "online"}, LEAKS))
def test_find_mistakes_reports_the_leak_first(name: str, tmp_path: Path) -> None:
    with loaded(LEAKS[name], tmp_path) as model:
        finding = next(find_mistakes([model]))
    assert finding.kind == KINDS[name]
    assert leak_label(finding.kind) in ("reads outcomes", "reads the future")


@pytest.mark.parametrize("name", slow_except(QUICK, LEAKS))
def test_leak_is_marked_when_a_model_first_runs(name: str, tmp_path: Path) -> None:
    with loaded(LEAKS[name], tmp_path) as model:
        kind = find_mistake_kind(model)
    assert kind == KINDS[name]
    assert (leak_label(kind) == "reads outcomes") == (
        name in OUTCOME_LEAKS or kind in ("own outcome", "later outcome")
    )
    assert "its figures mean nothing" in describe_mistake(kind)


@pytest.mark.parametrize("name", slow_except({"online"}, CORRECT))
def test_a_correct_model_stays_unmarked(name: str, tmp_path: Path) -> None:
    with loaded(CORRECT[name], tmp_path) as model:
        assert find_mistake_kind(model) == ""


@pytest.mark.parametrize("name", slow_except({"numpy and scipy"}, CORRECT))
def test_find_mistakes_of_a_correct_model_is_empty(name: str, tmp_path: Path) -> None:
    with loaded(CORRECT[name], tmp_path) as model:
        assert list(find_mistakes([model])) == []


@pytest.mark.parametrize("name", slow_except({"own outcome of second reviews"}, STRATIFIED_LEAKS))
def test_leak_in_some_reviews_only_is_found(name: str, tmp_path: Path) -> None:
    kind, source = STRATIFIED_LEAKS[name]
    with loaded(source, tmp_path) as model:
        assert next(find_mistakes([model])).kind == kind
        assert find_mistake_kind(model) == kind


FLAGS = {
    "rows of the day": Protocol(short=True),
    "rows of the day where there are any": Protocol(short=True),
    "rows of the day with fractions": Protocol(short=True, secs=True),
    "--recency": Protocol(recency=True),
    "--partitions deck": Protocol(partitions="deck"),
    "rows of a data set": Protocol(rows="benchmark"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME_DAY_LEAKS)
def test_leak_of_later_rows_of_the_day_is_found(name: str, tmp_path: Path) -> None:
    with loaded(SAME_DAY_LEAKS[name], tmp_path) as model:
        assert leak_label(next(find_mistakes([model])).kind)
        assert find_mistake_kind(model) == ""
        assert leak_label(find_mistake_kind(model, protocol=FLAGS[name]))
        assert find_mistake_kind(model) == ""  # each verdict is cached with its flags


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAG_LEAKS)
def test_leak_under_a_flag_is_found_in_runs_with_the_flag(name: str, tmp_path: Path) -> None:
    with loaded(FLAG_LEAKS[name], tmp_path) as model:
        assert find_mistake_kind(model, protocol=PROTOCOL) == ""
        assert find_mistake_kind(model, protocol=FLAGS[name]) == "own outcome"


def test_run_checks_a_model_under_its_flags(tmp_path: Path) -> None:
    with loaded(SAME_DAY_LEAKS["rows of the day"], tmp_path):
        results = srs_eval.evaluate(load_demo_learner(600), "LEAKING,LEAKING-short")
    assert results["LEAKING"].invalid_reason == ""
    assert results["LEAKING-short"].invalid_reason


@pytest.mark.parametrize(
    "name", slow_except({"next interval, by user and size"}, REMEMBERING_LEAKS)
)
def test_leak_in_remembered_features_is_found(name: str, tmp_path: Path) -> None:
    with loaded(REMEMBERING_LEAKS[name], tmp_path) as model:
        assert leak_label(find_mistake_kind(model))


@pytest.mark.parametrize("name", slow_except({"target encoding"}, ROUNDED_LEAKS))
def test_leak_in_rounded_features_is_found(name: str, tmp_path: Path) -> None:
    with loaded(ROUNDED_LEAKS[name], tmp_path) as model:
        assert leak_label(find_mistake_kind(model))


@pytest.mark.slow
def test_rounding_is_no_leak(tmp_path: Path) -> None:
    """Check trees on sums that round differently when histories lie in another order."""
    with loaded(CORRECT["trees on rounded means"], tmp_path) as model:
        (configuration,) = resolve_configurations(model.name, PROTOCOL)
        training = train(configuration, LearnerSession(load_demo_learner()), CONTEXT)
        assert training.rounding.max() > 1e-6
        assert list(find_outcome_leaks(training)) == []
        assert list(find_future_inputs(training, cuts=8)) == []
        assert list(find_future_fits(training)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_model_stays_unmarked_with_same_day_reviews(name: str, tmp_path: Path) -> None:
    with loaded(CORRECT[name], tmp_path) as model:
        for protocol in (Protocol(short=True), Protocol(short=True, secs=True)):
            assert find_mistake_kind(model, protocol=protocol) == ""


def test_relaid_session_keeps_each_history() -> None:
    session = LearnerSession(load_demo_learner())
    trials = session.trials(PROTOCOL)
    relaid = ReorderedSession(session, seed=1).trials(PROTOCOL)
    assert (relaid.history_start != trials.history_start).any()
    np.testing.assert_array_equal(relaid.sequence_length, trials.sequence_length)
    for name in ("history_delta_t", "history_rating", "history_card_id", "history_review_th"):
        for k in range(len(trials)):
            history = slice(trials.history_start[k], trials.history_end[k] + 1)
            relaid_history = slice(relaid.history_start[k], relaid.history_end[k] + 1)
            np.testing.assert_array_equal(
                getattr(trials, name)[history], getattr(relaid, name)[relaid_history]
            )


def test_check_that_takes_too_long_is_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_models, "LONGEST_CHECK_S", 0.0)
    with loaded(INPUT_LEAKS["next interval"], tmp_path) as model:
        assert find_mistake_kind(model) == "unfinished"
        monkeypatch.undo()
        monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))
        assert find_mistake_kind(model) == "unfinished"  # it is kept, so that no run waits again
    assert not leak_label("unfinished")
    assert "did not finish" in describe_mistake("unfinished")


def test_check_in_a_process_past_its_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_models, "LONGEST_CHECK_S", 0.0)
    monkeypatch.setattr(own_models, "_GRACE_S", 0.0)
    with loaded(CORRECT["numpy and scipy"], tmp_path) as model:
        assert find_mistake_kinds(resolve_configurations(model.name), None) == {
            "LEAKING": "unfinished"
        }


def test_cancelled_check_is_not_cached(tmp_path: Path) -> None:
    with loaded(INPUT_LEAKS["next interval"], tmp_path) as model:
        with pytest.raises(Cancelled):
            find_mistake_kind(model, is_cancelled=lambda: True)
        assert find_mistake_kind(model) == "later input"


# Logs that end, or go on otherwise


@pytest.mark.parametrize("alter", [truncate_and_alter, alter_future])
@pytest.mark.parametrize("review", [120, 200, 290])
def test_altered_logs_agree_up_to_a_review(
    alter: Callable[[ReviewLog, int], ReviewLog], review: int
) -> None:
    log = load_demo_learner()
    altered = require_rows(alter(log, review))
    row = review - 1
    for name, column in altered_logs.copy_columns(log).items():
        changed = getattr(altered, name)
        np.testing.assert_array_equal(changed[:row], column[:row])
        assert (changed[row] != column[row]) == (name in ("rating", "duration_ms"))
    assert (altered.rating[row] > 1) != (
        require_rows(log).rating[row] > 1
    ) or alter is truncate_and_alter


def test_alter_future_changes_everything_but_the_cards() -> None:
    log = load_demo_learner()
    review = 200
    later = require_rows(alter_future(log, review))
    for name, column in altered_logs.copy_columns(log).items():
        after = column[review:]
        changed = getattr(later, name)[review:]
        if name == "card_id":
            np.testing.assert_array_equal(changed, after)
            continue
        is_first = require_rows(log).elapsed_days[review:] < 0
        stays = is_first & (name in ("state", "elapsed_days", "elapsed_seconds"))
        stays |= is_first & (name == "elapsed_study_days")
        # An interval between two later reviews of one day is still one of no days.
        same_day = (name.startswith("elapsed")) & (require_rows(log).elapsed_days[review:] == 0)
        assert ((changed != after) | stays | same_day).all(), name


def test_truncated_session_keeps_the_folds() -> None:
    log = load_demo_learner(2_000)
    session = LearnerSession(log)
    folds = session.trials(PROTOCOL).folds
    review_th = session.trials(PROTOCOL).review_th
    review = int(review_th[folds[2].test[10]])
    trials = TruncatedSession(session, truncate_and_alter(log, review), review).trials(PROTOCOL)
    assert len(trials.folds) == 3
    for cut_fold, fold in zip(trials.folds[:2], folds, strict=False):
        np.testing.assert_array_equal(cut_fold.train, fold.train)
        np.testing.assert_array_equal(cut_fold.test, fold.test)
    np.testing.assert_array_equal(trials.folds[2].test, folds[2].test[:11])
    assert trials.review_th[-1] == review


# Inputs of model files


def test_model_file_sees_nothing_from_after_the_reviews(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = CORRECT["online"].replace(
        "    before =",
        """    log = trials.log
    assert log.schedule is None
    assert log.entries is None
    assert log.day_grid is None
    assert log.optimized_before_s is None
    assert log.card_rule_count == 0
    assert not log.cards.suspended.any()
    assert len(log.cards.card_id)
    assert np.isin(log.cards.card_id, log.rows.card_id).all()
    assert log.presets
    for preset in log.presets.values():
        assert not preset.fsrs_parameters
        assert preset.modified_s is None
        assert preset.desired_retention is None
    assert log.decks
    assert all(deck.desired_retention is None for deck in log.decks.values())
    assert log.import_summary.entries_read == len(log.rows)
    assert not log.import_summary.notes
    trials.columns("deck_id", "note_id", "state", "scheduled_interval")
    before =""",
    )
    log = srs_eval.load(write_simulated_collection(tmp_path_factory, seed=1, reviews=3_000))
    suspended = np.ones(len(log.cards.card_id), np.bool_)
    log = replace(log, cards=replace(log.cards, suspended=suspended))
    with loaded(source, tmp_path):
        results = srs_eval.evaluate(log, "LEAKING")
    assert not results.failed
    assert results["LEAKING"].invalid_reason == ""


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("0.8", "LEAKING: predict returned a value of type float; it must"),
        ("[0.8] * len(index)", "LEAKING: predict returned a value of type list; it must"),
        ("np.full((len(index), 1), 0.8)", "returned an array of shape ("),
        ("np.full(len(index), '0.8')", "returned an array of <U3; it must"),
        ("np.full(len(index), 0.8, object)", "returned an array of object; it must"),
        ("np.full(len(index), 0.8 + 0j)", "returned an array of complex128; it must"),
    ],
)
def test_predict_without_an_array_of_probabilities_is_refused(
    returned: str, message: str, tmp_path: Path
) -> None:
    code = f"def predict(trials, w, index, context):\n    return {returned}\n\n\ndef unused("
    source = CORRECT["numpy and scipy"].replace("def predict(", code)
    with loaded(source, tmp_path) as model:
        reasons = [srs_eval.evaluate(load_demo_learner(600), "LEAKING").failed["LEAKING"]]
        reasons += [finding.what for finding in find_mistakes([model])]
    assert len(reasons) > 1
    for reason in reasons:
        assert message in reason
        assert "it must return a NumPy array of shape" in reason


@pytest.mark.slow
def test_fit_may_return_parameters_of_any_form(tmp_path: Path) -> None:
    for fitted in ("(np.array([1.0, 0.1]), np.array([0.2]))", "[np.array([1.0, 0.1]), 0.2]"):
        source = (
            CORRECT["numpy and scipy"]
            .replace("return minimised(x[train], trials.y[train])", f"return {fitted}")
            .replace("features(trials)[index] @ np.array(w)", "np.full(len(index), w[0][0])")
            .replace("[1.0] + [0.0] * 3", "(np.array([1.0]), 0.0)")
        )
        with loaded(source, tmp_path) as model:
            result = srs_eval.evaluate(load_demo_learner(600), "LEAKING")["LEAKING"]
            assert result.parameters is None
            assert {finding.kind for finding in find_mistakes([model])} <= {"worse than average"}


def test_online_with_a_wrong_number_of_probabilities_is_refused(tmp_path: Path) -> None:
    source = CORRECT["online"].replace("[trials.test_index]", "")
    session = LearnerSession(load_demo_learner(600))
    with loaded(source, tmp_path):
        (configuration,) = resolve_configurations("LEAKING")
        with pytest.raises(InputError, match="LEAKING: online returned a"):
            session.run(configuration)
