"""BLEND: the mean of its members' logits, and each member run once."""

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
from srs_eval.models.blend import _average_logits
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
    """How often each configuration was fitted and evaluated."""
    counted: Counter[str] = Counter()
    real = TrainedModel.predict_held_out

    def counting(model: TrainedModel, task: HeldOutTask) -> Prediction:
        counted[task.configuration.name] += 1
        return real(model, task)

    monkeypatch.setattr(TrainedModel, "predict_held_out", counting)
    return counted


def logit(p: Any) -> Any:
    return np.log(p / (1 - np.asarray(p)))


def final(events: Iterator[Event]) -> dict[str, Finished]:
    return {each.configuration.name: each for each in events if isinstance(each, Finished)}


def test_the_mean_of_logits() -> None:
    found = _average_logits([np.array([0.5, 0.9, 0.2]), np.array([0.9, 0.9, 0.8])])
    np.testing.assert_allclose(found, [0.75, 0.9, 0.5], rtol=1e-14)  # of odds 1 and 9: 3


def test_a_certain_member_is_not_believed_without_end() -> None:
    found = _average_logits([np.array([0.0, 1.0]), np.array([0.5, 0.5])])
    np.testing.assert_allclose(logit(found), np.array([-1, 1]) * logit(1 - 1e-6) / 2, rtol=1e-6)


@pytest.mark.parametrize("flags", [{}, {"two_buttons": True}, {"rows": "anki", "n_splits": 2}])
def test_it_is_the_mean_of_its_members(learner: ReviewLog, flags: dict[str, Any]) -> None:
    """Run alone, with the members' own flags on the blend's rows."""
    protocol = Protocol(**flags)
    blend = LearnerSession(learner).run(resolve_configurations("BLEND", protocol)[0])
    members = [
        LearnerSession(learner).run(resolve_configurations(name, protocol)[0]) for name in MEMBERS
    ]
    for member in members:
        np.testing.assert_array_equal(member.review_th, blend.review_th)
    expected = np.mean([logit(each.p) for each in members], axis=0)
    np.testing.assert_allclose(logit(blend.p), expected, rtol=1e-9)


@pytest.mark.parametrize("names", [("BLEND", *MEMBERS), (*MEMBERS, "BLEND"), ("BLEND",)])
def test_no_member_is_trained_twice(
    learner: ReviewLog, runs: Counter[str], names: tuple[str, ...]
) -> None:
    session = LearnerSession(learner)
    results = {name: session.run(resolve_configurations(name)[0]) for name in names}
    assert runs == dict.fromkeys(MEMBERS, 1)
    for name in names[1:]:
        alone = LearnerSession(learner).run(resolve_configurations(name)[0])
        np.testing.assert_array_equal(results[name].p, alone.p)
        assert results[name].parameters == alone.parameters


def test_what_another_run_had_trained_is_not_taken(learner: ReviewLog, runs: Counter[str]) -> None:
    """Members of other settings, and other trainings of the same name."""
    session, fsrs7 = LearnerSession(learner), resolve_configurations(MEMBERS[1])[0]
    session.run(fsrs7, Context(user=3))
    session.run(fsrs7.with_hyperparameters({"epochs": 1}), Context(user=7))
    session.run(resolve_configurations("BLEND")[0], Context(user=7))
    assert runs == {MEMBERS[0]: 1, MEMBERS[1]: 3, MEMBERS[2]: 1}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_workers_share_the_members(learner: ReviewLog, jobs: int) -> None:
    """It begins when those in the ranking are done, and takes what they have predicted."""
    names = ["BLEND", *MEMBERS]
    events = list(evaluate(learner, names, jobs=jobs, use_cache=False))
    assert len(final(iter(events))) == len(names)
    happened = [
        (type(each), each.configuration.name)
        for each in events
        if isinstance(each, Started | Finished)
    ]
    begun = happened.index((Started, "BLEND"))
    ended = [happened.index((Finished, name)) for name in MEMBERS]
    assert max(ended[:-1]) < begun  # the last one's end is told after what it lets begin
    alone = LearnerSession(learner).run(resolve_configurations("BLEND")[0])
    np.testing.assert_array_equal(final(iter(events))["BLEND"].result.p, alone.p)


def test_a_worker_trains_no_member_that_it_is_given(
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


def test_it_is_ranked_among_the_schedulers_and_cannot_go_untrained() -> None:
    from srs_eval.data.errors import InputError

    blend = resolve_configurations("blend")[0]
    assert not blend.is_online
    assert "BLEND" in {each.name for each in resolve_configurations("all")}
    assert "BLEND" not in {each.name for each in resolve_configurations("fast")}
    assert [each.protocol.row_protocol() for each in blend.member_configurations] == [
        blend.protocol.row_protocol()
    ] * 3
    for name in ("BLEND-dry-run", "BLEND-recency"):
        with pytest.raises(InputError, match="BLEND cannot take"):
            resolve_configurations(name)


def test_without_weights_of_rwkv_it_says_so(
    learner: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_RWKV_WEIGHTS", "")
    (event,) = [e for e in evaluate(learner, "BLEND+RWKV-Curve", jobs=0) if isinstance(e, Skipped)]
    assert "srs-eval models weights" in event.reason
    assert "BLEND+RWKV-Curve" not in {each.name for each in resolve_configurations("all")}


@pytest.mark.slow
def test_half_is_rwkv_where_there_are_weights(
    learner: ReviewLog, runs: Counter[str], weights_file: Path
) -> None:
    person = replace(learner, import_summary=replace(learner.import_summary, path=""))
    names = ("BLEND+RWKV-Curve", "BLEND", "RWKV-Curve")
    assert {*names} <= {each.name for each in resolve_configurations("all")}
    found = final(evaluate(person, names, jobs=0, use_cache=False))
    both, blend, curve = (found[name].result for name in names)
    np.testing.assert_allclose(
        logit(both.p), (logit(blend.p) + logit(curve.p)) / 2, rtol=1e-9, atol=1e-12
    )
    assert runs == {**dict.fromkeys(MEMBERS, 1), "RWKV-Curve": 1}
    assert any(note.startswith("RWKV-Curve: weights mine.safetensors") for note in both.notes)
    wrong = {each.kind for each in find_mistakes([all_models()["BLEND+RWKV-Curve"]])}
    assert wrong == {"not trained", "learns"}  # as for RWKV-Curve in test_rwkv.py
