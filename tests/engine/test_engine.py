"""The engine: events, workers, cancelling and caching, none of which changes figures."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice.over_time import assess_learner_state
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine import cache
from srs_eval.engine.cache import prune_cache
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.run import (
    Event,
    Failed,
    Finished,
    Prepared,
    Progress,
    Skipped,
    Started,
    plan_start_order,
)
from srs_eval.engine.session import LearnerSession, fit_and_predict
from srs_eval.models import Context, TrainedModel, all_models, load_model_file
from srs_eval.models.configurations import resolve_configurations
from tests.conftest import PATIENCE
from tests.helpers.marks import slow_except
from tests.helpers.program import killing_environment
from tests.helpers.row_logs import make_log

MODELS = "AVG,SM2,SM2-short,FSRS-6-dry-run"


@pytest.fixture(scope="module")
def log(simulated_collection: Path) -> ReviewLog:
    return srs_eval.load(simulated_collection)


def collect_outcomes(events: list[Event]) -> dict[str, Finished | Failed | Skipped]:
    return {e.configuration.name: e for e in events if isinstance(e, Finished | Failed | Skipped)}


def wait_until(condition: object, seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def test_events_come_in_order(log: ReviewLog) -> None:
    events = list(evaluate(log, MODELS, jobs=1, use_cache=False))
    assert isinstance(events[0], Prepared)
    assert events[0].configurations == tuple(resolve_configurations(MODELS))
    assert events[0].evaluated > 0
    for configuration in events[0].configurations:
        its_events = [e for e in events[1:] if e.configuration == configuration]  # type: ignore[union-attr]
        assert isinstance(its_events[0], Started)
        assert isinstance(its_events[-1], Finished)
        progress = [e for e in its_events if isinstance(e, Progress)]
        assert [e.fraction for e in progress] == sorted(e.fraction for e in progress)
        assert progress[-1].fraction == 1.0
        assert len(its_events[-1].result.p) == its_events[-1].result.size == events[0].evaluated


def test_figures_do_not_depend_on_the_number_of_workers(log: ReviewLog) -> None:
    runs = [
        collect_outcomes(list(evaluate(log, MODELS, jobs=jobs, use_cache=False)))
        for jobs in (0, 1, 2)
    ]
    for name, first in runs[0].items():
        assert isinstance(first, Finished)
        for run in runs[1:]:
            outcome = run[name]
            assert isinstance(outcome, Finished)
            np.testing.assert_array_equal(first.result.p, outcome.result.p)
            assert first.result.metrics == outcome.result.metrics
            assert first.result.parameters == outcome.result.parameters
    assert not multiprocessing.active_children()


def test_user_with_too_few_reviews_is_skipped_with_the_reason() -> None:
    log = make_log([1, 1, 2], [3, 3, 3], [-1, 4, -1])
    outcome = collect_outcomes(list(evaluate(log, "AVG", jobs=0)))["AVG"]
    assert isinstance(outcome, Skipped)
    assert "usable reviews" in outcome.reason


def test_no_reviews_to_evaluate_is_skipped_not_failed() -> None:
    protocol = Protocol(secs=True, no_test_same_day=True)
    outcome = collect_outcomes(
        list(evaluate(HOSTILE["only same-day reviews"](), "FSRS-6-dry-run", protocol, jobs=0))
    )
    (only,) = outcome.values()
    assert isinstance(only, Skipped)
    assert only.reason == "no reviews of later days to evaluate"


def test_input_error_in_a_model_fails_with_its_sentence(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InputError("Something is missing; install it.")

    (configuration,) = resolve_configurations("AVG")
    refusing = replace(configuration, model=TrainedModel("AVG", predict=refuse))
    outcome = collect_outcomes(list(evaluate(log, [refusing], jobs=0, use_cache=False)))["AVG"]
    assert outcome == Failed(refusing, "Something is missing; install it.")


def test_random_streams_are_seeded_by_user_as_in_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    run = LearnerSession.run

    def spy(
        self: LearnerSession,
        configuration: object,
        context: Context,
        *arguments: object,
        **keywords: object,
    ):
        seen.append(context.user)
        return run(self, configuration, context, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(LearnerSession, "run", spy)
    log = replace(HOSTILE["all passes"](), user=107)
    list(evaluate(log, "AVG", jobs=0, use_cache=False))
    list(evaluate(log, "AVG", jobs=0, use_cache=False, context=Context(user=3)))
    list(evaluate(replace(log, user=None), "AVG", jobs=0, use_cache=False))
    assert seen == [107, 3, 0]


def test_configurations_are_pickled_by_name() -> None:
    for configuration in resolve_configurations("all"):
        assert pickle.loads(pickle.dumps(configuration)) == configuration
    (average,) = resolve_configurations("AVG")
    with pytest.raises(pickle.PicklingError, match="AVG"):
        pickle.dumps(replace(average, model=replace(average.model, version=99)))


def test_unusable_names_are_refused_before_any_event(log: ReviewLog) -> None:
    with pytest.raises(InputError):
        next(iter(evaluate(log, "no such model")))


def test_cancelling_ends_every_worker(log: ReviewLog) -> None:
    cancel = threading.Event()
    events = []
    for event in evaluate(log, "fast", jobs=2, cancel=cancel, use_cache=False):
        events.append(event)
        if isinstance(event, Started):
            cancel.set()
    assert len(collect_outcomes(events)) < len(events[0].configurations)  # type: ignore[union-attr]
    assert not multiprocessing.active_children()


def test_closing_the_iterator_ends_every_worker(log: ReviewLog) -> None:
    events = evaluate(log, MODELS, jobs=2, use_cache=False)
    for event in events:
        if isinstance(event, Started):
            break
    events.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


KILLED = """
import os, signal
from dataclasses import replace
from srs_eval.models import all_models


def predict(*_):
    os.kill(os.getpid(), signal.SIGKILL)


MODELS = (replace(all_models()["SM2"], name="KILLED", predict=predict),)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_killed_worker_fails_its_configuration_only(log: ReviewLog, tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    load_model_file(tmp_path / "killed.py")
    try:
        chosen = resolve_configurations("KILLED,AVG,SM2")
        outcomes = collect_outcomes(
            list(evaluate(log, chosen, jobs=1, use_cache=False, prioritized={"KILLED"}))
        )
    finally:
        del all_models()["KILLED"]
    lost = outcomes.pop("KILLED")
    assert isinstance(lost, Failed)
    assert "killed" in lost.reason
    assert len(outcomes) == 2
    assert all(isinstance(outcome, Finished) for outcome in outcomes.values())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_worker_killed_at_its_start_costs_no_result(
    log: ReviewLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in killing_environment(tmp_path, 1).items():
        monkeypatch.setenv(name, value)
    outcomes = collect_outcomes(list(evaluate(log, MODELS, jobs=1, use_cache=False)))
    assert (tmp_path / "0").exists()
    assert [type(outcome) for outcome in outcomes.values()] == [Finished] * 4


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to see processes")
def test_no_worker_outlives_a_killed_parent(simulated_collection: Path, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, srs_eval, time
            from srs_eval.engine.evaluate import evaluate
            from srs_eval.engine.run import Started
            if __name__ == "__main__":
                log = srs_eval.load({str(simulated_collection)!r})
                for event in evaluate(log, "AVG,SM2", jobs=2, use_cache=False):
                    if isinstance(event, Started):
                        while len(children := multiprocessing.active_children()) < 2:
                            time.sleep(0.01)
                        print(*(child.pid for child in children), flush=True)
                        time.sleep(6_000)
            """
        )
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()

    def gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    assert wait_until(lambda: all(gone(pid) for pid in pids))


def test_a_second_evaluation_comes_from_the_cache(log: ReviewLog) -> None:
    first = collect_outcomes(list(evaluate(log, "SM2,AVG", jobs=0)))
    second = collect_outcomes(list(evaluate(log, "SM2,AVG", jobs=0)))
    for name, outcome in second.items():
        before = first[name]
        assert isinstance(outcome, Finished)
        assert isinstance(before, Finished)
        assert outcome.result.cached
        np.testing.assert_array_equal(outcome.result.p, before.result.p)
        assert outcome.result.metrics == before.result.metrics
        assert outcome.result.parameters == before.result.parameters


def test_cache_key_covers_data_protocol_model_and_settings(log: ReviewLog) -> None:
    (sm2,) = resolve_configurations("SM2")
    (three_splits,) = resolve_configurations("SM2", Protocol(n_splits=3))
    raised = replace(sm2, model=replace(sm2.model, version=sm2.model.version + 1))
    keys = {
        cache.compute_cache_key("a", sm2, Context()),
        cache.compute_cache_key("b", sm2, Context()),
        cache.compute_cache_key("a", three_splits, Context()),
        cache.compute_cache_key("a", raised, Context()),
        cache.compute_cache_key("a", sm2, Context(sm2_target=0.8)),
    }
    assert len(keys) == 5


def test_cache_key_covers_the_code(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    (sm2,) = resolve_configurations("SM2")
    before = cache.compute_cache_key("a", sm2, Context())
    assert cache.compute_cache_key("a", sm2, Context()) == before
    monkeypatch.setattr(cache, "compute_program_digest", lambda: "another rule")
    assert cache.compute_cache_key("a", sm2, Context()) != before


def test_a_damaged_cache_file_is_ignored(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path))
    (configuration,) = resolve_configurations("AVG")
    session = LearnerSession(log)
    result = session.run(configuration, use_cache=True)
    files = list((tmp_path / "results").glob("*/*.npz"))
    assert len(files) == 1
    files[0].write_bytes(files[0].read_bytes()[:100])
    again = session.run(configuration, use_cache=True)
    assert not again.cached
    assert again.metrics == result.metrics
    prune_cache(limit_bytes=0)
    assert not list((tmp_path / "results").glob("*/*.npz"))


def test_small_partition_falls_back_to_the_fit_of_all_reviews(log: ReviewLog) -> None:
    """Compare upstream's rule of 2026 (script.py, bd9110f) with that of 2025: the defaults."""
    (alone,) = resolve_configurations("FSRS-6")
    (old,) = resolve_configurations("FSRS-6-preset")
    (new,) = resolve_configurations("FSRS-6-preset-fallback_user")
    trials = LearnerSession(log).trials(old.protocol)
    # A third review of a card, early: nothing that initial stabilities could be fitted to.
    small = int(np.flatnonzero(trials.i == 3)[0])
    fold = trials.folds[-1]
    assert small in fold.train
    partition = np.zeros(len(trials), dtype=np.int64)
    partition[small] = 1
    partition[fold.test[::2]] = 1
    partition[fold.test[1::5]] = 2  # nothing of it is in the past
    divided = replace(trials, partition=partition, folds=(fold,))
    together = replace(trials, partition=np.zeros_like(partition), folds=(fold,))
    together_p = fit_and_predict(alone, together, Context()).p
    (defaults,) = resolve_configurations("FSRS-6-dry-run")
    untrained = fit_and_predict(defaults, together, Context()).p
    without_fallback = fit_and_predict(old, divided, Context())
    with_fallback = fit_and_predict(new, divided, Context())
    old_p, old_notes = without_fallback.p, without_fallback.notes
    new_p, new_notes = with_fallback.p, with_fallback.notes
    in_small, unseen = (partition[fold.test] == k for k in (1, 2))
    np.testing.assert_array_equal(old_p[in_small], untrained[in_small])
    np.testing.assert_array_equal(new_p[in_small], together_p[in_small])
    np.testing.assert_array_equal(new_p[unseen], untrained[unseen])
    np.testing.assert_array_equal(new_p[~in_small], old_p[~in_small])
    assert old_notes[0].startswith("fold 1: default parameters (")
    assert new_notes[0].startswith("fold 1: parameters of all partitions together (")


def test_partitions_are_fitted_apart(log: ReviewLog) -> None:
    (configuration,) = resolve_configurations("FSRS-6-preset")
    result = LearnerSession(log).run(configuration)
    assert result.parameters is not None
    assert len(result.parameters) >= 2
    assert all(len(parameters) == 21 for parameters in result.parameters.values())


def test_kernels_are_marked_as_compiled_after_a_fit(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check fits of models and of advice; a fit without training rows marks nothing."""
    marked: list[str] = []
    monkeypatch.setattr("srs_eval.engine.session.mark_kernels", marked.append)
    (configuration,) = resolve_configurations("FSRS-6")
    trials = LearnerSession(log).trials(configuration.protocol)
    last = trials.folds[-1]
    nothing = replace(last, train=last.train[:0])
    fit_and_predict(configuration, replace(trials, folds=(nothing,)), Context())
    assert marked == []
    fit_and_predict(configuration, replace(trials, folds=(last,)), Context())
    assert marked == ["FSRS-6 trained"]
    assess_learner_state(log)
    assert marked[1:] == ["STATE-FSRS-6 trained"]


def test_evaluate_in_a_notebook_gives_frame_and_predictions(simulated_collection: Path) -> None:
    log = srs_eval.load(simulated_collection)
    results = srs_eval.evaluate(log, models=["SM2", "AVG", "FSRS-6-dry-run"])
    frame = results.frame()
    assert list(frame["LogLoss"]) == sorted(frame["LogLoss"])
    assert frame.loc["FSRS-6-dry-run", "parameters"] == 0
    predictions = results.predictions()
    assert set(predictions["configuration"]) == {"SM2", "AVG", "FSRS-6-dry-run"}
    assert predictions["p"].between(0, 1).all()
    assert results["fsrs-6-default"] is results["FSRS-6-dry-run"]
    with pytest.raises(KeyError, match="no result for"):
        results["FSRS-66"]
    assert not results.failed
    assert not results.skipped


HOSTILE = {
    "one card": lambda: make_log([1] * 60, [3, 1] * 30, [-1] + [2] * 59),
    "one review per card": lambda: make_log(list(range(60)), [3] * 60, [-1] * 60),
    "all passes": lambda: make_log(list(range(40)) * 4, [3] * 160, [-1] * 40 + [4] * 120),
    "all failures": lambda: make_log(list(range(40)) * 4, [1] * 160, [-1] * 40 + [4] * 120),
    "only same-day reviews": lambda: make_log(
        list(range(40)) * 4, [3] * 160, [-1] * 40 + [0] * 120, [-1] * 40 + [60] * 120
    ),
    "gaps of ten years": lambda: make_log(
        list(range(40)) * 6, [3, 1, 3] * 80, [-1] * 40 + [4] * 40 + [3653] * 160
    ),
    "zero seconds": lambda: make_log(
        list(range(40)) * 4, [3, 1] * 80, [-1] * 40 + [5] * 120, [-1] * 40 + [0] * 120
    ),
    "Easy never used, mostly Again": lambda: make_log(
        list(range(40)) * 5, [1, 1, 2, 3] * 50, [-1] * 40 + [1] * 40 + [0] * 40 + [9] * 80
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", slow_except({"gaps of ten years", "zero seconds"}, HOSTILE))
def test_hostile_histories_give_figures_or_reasons(kind: str) -> None:
    log = HOSTILE[kind]()
    session = LearnerSession(log)
    for model in all_models().values():
        if model.family == "neural":
            continue
        for configuration in resolve_configurations(
            model.configurations or (model.standard or model.name,)
        ):
            outcome = next(
                event
                for event in evaluate(log, [configuration], jobs=0, use_cache=False)
                if isinstance(event, Finished | Failed | Skipped)
            )
            assert not isinstance(outcome, Failed), outcome
            if isinstance(outcome, Finished):
                assert np.isfinite(outcome.result.p).all()
                assert np.isfinite(outcome.result.metrics.log_loss)
    assert session.log is log


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_plan_start_order_gives_long_runs_the_workers_beyond_two(
    workers: int,
) -> None:
    chosen = resolve_configurations("all")
    compiled = {"FSRS-6", "LSTM"}
    order = plan_start_order(chosen, 12_000, workers, compiled)
    assert {configuration.name for configuration in order} == {
        configuration.name for configuration in chosen
    }
    beyond = max(0, workers - 2)
    longest = order[:beyond]
    rest = order[beyond:]
    seconds = [configuration.expected_seconds(12_000) for configuration in longest]
    assert all(
        configuration.expected_seconds(12_000) <= min(seconds, default=1e9)
        for configuration in rest
    )
    compiled_first = [configuration for configuration in rest if configuration.name in compiled]
    assert rest[: len(compiled_first)] == compiled_first
    later_seconds = [
        configuration.expected_seconds(12_000) for configuration in rest[len(compiled_first) :]
    ]
    assert later_seconds == sorted(later_seconds)
