"""BLEND: it averages its members' logits and runs each member once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.conformance import find_mistakes
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.run import Event, Finished, Skipped, Started
from srs_eval.engine.session import LearnerSession
from srs_eval.models import TrainedModel, all_models
from srs_eval.models.blend import average_logits
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.held_out import HeldOutTask, Prediction
from srs_eval.training.hyperparameters import Context

BLEND = all_models()["BLEND"]
MEMBERS = BLEND.members


@pytest.fixture
def learner() -> ReviewLog:
    return load_demo_learner(1_000)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each configuration is fitted and evaluated."""
    counted: Counter[str] = Counter()
    real = TrainedModel.predict_held_out

    def counting(model: TrainedModel, task: HeldOutTask) -> Prediction:
        counted[task.configuration.name] += 1
        return real(model, task)

    monkeypatch.setattr(TrainedModel, "predict_held_out", counting)
    return counted


def logit(p: Any) -> Any:
    return np.log(p / (1 - np.asarray(p)))


def collect_finished(events: Iterator[Event]) -> dict[str, Finished]:
    return {event.configuration.name: event for event in events if isinstance(event, Finished)}


def test_average_logits_by_hand() -> None:
    average = average_logits([np.array([0.5, 0.9, 0.2]), np.array([0.9, 0.9, 0.8])])
    np.testing.assert_allclose(average, [0.75, 0.9, 0.5], rtol=1e-14)  # of odds 1 and 9: 3


def test_average_logits_clips_certain_members() -> None:
    average = average_logits([np.array([0.0, 1.0]), np.array([0.5, 0.5])])
    np.testing.assert_allclose(logit(average), np.array([-1, 1]) * logit(1 - 1e-6) / 2, rtol=1e-6)


@pytest.mark.parametrize("flags", [{}, {"two_buttons": True}, {"rows": "anki", "n_splits": 2}])
def test_blend_is_the_mean_of_its_members_logits(learner: ReviewLog, flags: dict[str, Any]) -> None:
    """Compare with members run alone, with their own flags on the blend's rows."""
    protocol = Protocol(**flags)
    blend = LearnerSession(learner).run(resolve_configurations("BLEND", protocol)[0])
    members = [
        LearnerSession(learner).run(resolve_configurations(name, protocol)[0]) for name in MEMBERS
    ]
    for member in members:
        np.testing.assert_array_equal(member.review_th, blend.review_th)
    expected = np.mean([logit(member.p) for member in members], axis=0)
    np.testing.assert_allclose(logit(blend.p), expected, rtol=1e-9)


@pytest.mark.parametrize("names", [("BLEND", *MEMBERS), (*MEMBERS, "BLEND"), ("BLEND",)])
def test_blend_trains_no_member_twice(
    learner: ReviewLog, runs: Counter[str], names: tuple[str, ...]
) -> None:
    session = LearnerSession(learner)
    results = {name: session.run(resolve_configurations(name)[0]) for name in names}
    assert runs == dict.fromkeys(MEMBERS, 1)
    for name in names[1:]:
        alone = LearnerSession(learner).run(resolve_configurations(name)[0])
        np.testing.assert_array_equal(results[name].p, alone.p)
        assert results[name].parameters == alone.parameters


def test_blend_ignores_members_trained_with_other_settings(
    learner: ReviewLog, runs: Counter[str]
) -> None:
    """Train members for another user and with other hyperparameters before the blend."""
    session = LearnerSession(learner)
    fsrs7 = resolve_configurations(MEMBERS[1])[0]
    session.run(fsrs7, Context(user=3))
    session.run(fsrs7.with_hyperparameters({"epochs": 1}), Context(user=7))
    session.run(resolve_configurations("BLEND")[0], Context(user=7))
    assert runs == dict.fromkeys(MEMBERS, 1) | {MEMBERS[1]: 3}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_blend_in_workers_reuses_the_members_predictions(learner: ReviewLog, jobs: int) -> None:
    """Check that the blend begins when its members in the ranking are done."""
    names = ["BLEND", *MEMBERS]
    events = list(evaluate(learner, names, jobs=jobs, use_cache=False))
    assert len(collect_finished(iter(events))) == len(names)
    happened = [
        (type(event), event.configuration.name)
        for event in events
        if isinstance(event, Started | Finished)
    ]
    begun = happened.index((Started, "BLEND"))
    ended = [happened.index((Finished, name)) for name in MEMBERS]
    assert (
        max(ended[:-1]) < begun
    )  # the last member's end is reported after the start that it allows
    alone = LearnerSession(learner).run(resolve_configurations("BLEND")[0])
    np.testing.assert_array_equal(collect_finished(iter(events))["BLEND"].result.p, alone.p)


def test_worker_trains_no_member_whose_result_it_receives(
    learner: ReviewLog, runs: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from srs_eval.engine import evaluate as events

    finished = []
    for name in MEMBERS:
        configuration = resolve_configurations(name)[0]
        finished.append(Finished(configuration, LearnerSession(learner).run(configuration)))
    runs.clear()
    monkeypatch.setattr(events, "send", lambda done: None)
    events._initialize_worker(learner, Context(), False)
    done = events._evaluate_task(resolve_configurations("BLEND")[0], finished)
    assert isinstance(done, Finished)
    assert not runs


def test_blend_is_a_scheduler_and_takes_no_training_flags() -> None:
    from srs_eval.data.errors import InputError

    blend = resolve_configurations("blend")[0]
    assert not blend.is_online
    assert "BLEND" in {configuration.name for configuration in resolve_configurations("all")}
    fast = {configuration.name for configuration in resolve_configurations("fast")}
    assert "BLEND" in fast
    assert "BLEND-GRU" not in fast
    assert [
        configuration.protocol.row_protocol() for configuration in blend.member_configurations
    ] == [blend.protocol.row_protocol()] * 4
    for name in ("BLEND-dry-run", "BLEND-recency"):
        with pytest.raises(InputError, match="BLEND does not support"):
            resolve_configurations(name)


def test_blend_with_rwkv_without_weights_is_skipped(
    learner: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_RWKV_WEIGHTS", "")
    (event,) = [e for e in evaluate(learner, "BLEND+RWKV-Curve", jobs=0) if isinstance(e, Skipped)]
    assert "srs-eval models weights" in event.reason
    assert "BLEND+RWKV-Curve" not in {
        configuration.name for configuration in resolve_configurations("all")
    }


@pytest.mark.slow
def test_blend_with_rwkv_gives_it_half_of_the_weight(
    learner: ReviewLog, runs: Counter[str], weights_file: Path
) -> None:
    person = replace(learner, import_summary=replace(learner.import_summary, path=""))
    names = ("BLEND+RWKV-Curve", "BLEND", "RWKV-Curve")
    assert {*names} <= {configuration.name for configuration in resolve_configurations("all")}
    finished = collect_finished(evaluate(person, names, jobs=0, use_cache=False))
    both, blend, curve = (finished[name].result for name in names)
    np.testing.assert_allclose(
        logit(both.p), (logit(blend.p) + logit(curve.p)) / 2, rtol=1e-9, atol=1e-12
    )
    assert runs == {**dict.fromkeys(MEMBERS, 1), "RWKV-Curve": 1}
    assert any(note.startswith("RWKV-Curve: weights mine.safetensors") for note in both.notes)
    wrong = {mistake.kind for mistake in find_mistakes([all_models()["BLEND+RWKV-Curve"]])}
    assert wrong == {"not trained", "learns"}  # as for RWKV-Curve in test_rwkv.py
