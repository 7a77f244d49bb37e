"""The verdict on a pair is the same wherever it is told, and no figure of a few reviews is told."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import shown
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    Fit,
    Health,
    ModelComparison,
    ParameterSummary,
    PresetParameters,
)
from srs_eval.advice.fsrs import assess_fit, compare_models, compare_with_sm2
from srs_eval.advice.overview import Overview
from srs_eval.advice.parameters import assess_parameters
from srs_eval.data.reviews import ReviewLog
from tests.helpers.marks import slow_except


@pytest.fixture(scope="module")
def single(log: ReviewLog) -> ReviewLog:
    """One preset, so that a preset's reviews are all."""
    decks = {key: replace(deck, preset_id=100) for key, deck in log.decks.items()}
    return replace(log, decks=decks)


def verdicts_of(learner: Learner) -> list[dict[str, str]]:
    """On FSRS-6, fitted to earlier reviews, against the average and SM-2, as each page tells it."""
    groups = list(learner.groups)
    fit = assess_fit(learner).evidence
    (health,) = (each.evidence for each in compare_with_sm2(learner, groups))
    (found,) = compare_models(learner, {}, {})
    models = found.evidence
    (preset,) = (each.evidence for each in assess_parameters(learner, groups, {}, {}))
    assert isinstance(fit, Fit)
    assert isinstance(health, Health)
    assert isinstance(models, ModelComparison)
    assert isinstance(preset, PresetParameters | ParameterSummary)
    opposite = {"better": "worse", "worse": "better"}
    reversed_ = [  # told the other way round
        {each.name: opposite.get(each.verdict or "", each.verdict or "") for each in stated}
        for stated in (models.models, preset.held_out)
    ]
    pairs = [
        {each.name: str(each.verdict) for each in fit.rivals},
        *reversed_,
    ]
    assert health.sm2 is not None
    assert health.sm2.verdict == pairs[0]["sm2"]
    return [{name: each[name] for name in ("average", "sm2")} for each in pairs]


@pytest.mark.parametrize("equivalence", slow_except({0.002}, [0.0, 0.002, 0.02]))
def test_a_pair_has_one_verdict(single: ReviewLog, equivalence: float) -> None:
    """Also where it lies near 0: losses are moved until it does."""
    learner = Learner.of(single)
    index = learner.trials.test_index
    for move in np.linspace(-0.03, 0.06, 10):
        moved = Learner.of(single, equivalence=equivalence)
        losses = {
            name: learner.held_out_losses(name)
            for name in ("optimized", "recency", "defaults", "average", "sm2",
                         "initial stability only", "one for all presets", "one per deck")
        }  # fmt: skip
        for name in ("average", "sm2"):
            between = losses["optimized"] + (losses[name] - losses["optimized"]) * 0.3 + move
            p = np.exp(-np.clip(between, 1e-6, None))
            p = np.where(learner.trials.y[index] == 1, p, 1 - p)
            moved.compute_once(("held out", name), lambda p=p: p)
        first, *others = verdicts_of(moved)
        assert all(each == first for each in others), move


@pytest.mark.parametrize("entries", [120, 300, 900])
def test_no_share_of_a_few_reviews_is_said(log: ReviewLog, entries: int) -> None:
    assert log.entries is not None
    columns = {name: column[:entries] for name, column in vars(log.entries).items()}
    few = replace(log, entries=replace(log.entries, **columns))
    found = Overview.start(few)
    for answers, questions in stream_answers(few):
        found.add(answers, questions)
    for finding in found.answers:
        if finding.question in ("fit", "health"):
            said = " ".join(shown.sentences(finding))
            assert not re.search(r"\d % (better|worse)", said), said
    for line in found.lines:
        of_it = [each for each in line.answers if each.question == line.question]
        if of_it and of_it[0].probability is not None:
            assert shown.line(of_it) != "can't tell yet", line.question
