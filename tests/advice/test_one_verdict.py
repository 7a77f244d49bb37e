"""A pair of models has the same verdict on every page, and few reviews have no figure."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    Fit,
    Health,
    ModelComparison,
    ParameterSummary,
    PresetParameters,
)
from srs_eval.advice.fsrs import assess_fit, compare_models, compare_with_sm2
from srs_eval.advice.parameters import assess_parameters
from srs_eval.data.reviews import ReviewLog
from tests.helpers.advice import build_overview
from tests.helpers.marks import slow_except


@pytest.fixture(scope="module")
def single(log: ReviewLog) -> ReviewLog:
    """Return a log of one preset, whose reviews are all reviews."""
    decks = {key: replace(deck, preset_id=100) for key, deck in log.decks.items()}
    return replace(log, decks=decks)


def collect_pair_verdicts(learner: Learner) -> list[dict[str, str]]:
    """Return the verdicts of each page on FSRS-6 against the average and SM-2."""
    groups = list(learner.groups)
    fit = assess_fit(learner).evidence
    (health,) = (finding.evidence for finding in compare_with_sm2(learner, groups))
    (comparison,) = compare_models(learner, {}, {})
    models = comparison.evidence
    (preset,) = (finding.evidence for finding in assess_parameters(learner, groups, {}, {}))
    assert isinstance(fit, Fit)
    assert isinstance(health, Health)
    assert isinstance(models, ModelComparison)
    assert isinstance(preset, PresetParameters | ParameterSummary)
    # These two pages compare the rivals with FSRS-6, not FSRS-6 with the rivals.
    opposite = {"better": "worse", "worse": "better"}
    pairs = [{rival.name: str(rival.verdict) for rival in fit.rivals}]
    for compared in (models.models, preset.held_out):
        verdicts = {candidate.name: candidate.verdict or "" for candidate in compared}
        pairs.append({name: opposite.get(verdict, verdict) for name, verdict in verdicts.items()})
    assert health.sm2 is not None
    assert health.sm2.verdict == pairs[0]["sm2"]
    return [{"average": verdicts["average"], "sm2": verdicts["sm2"]} for verdicts in pairs]


@pytest.mark.parametrize("equivalence", slow_except({0.002}, [0.0, 0.002, 0.02]))
def test_verdict_of_a_pair_is_the_same_everywhere(single: ReviewLog, equivalence: float) -> None:
    """Check verdicts near 0 too: losses are moved until they lie there."""
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
        first, *more_verdicts = collect_pair_verdicts(moved)
        assert all(verdicts == first for verdicts in more_verdicts), move


@pytest.mark.parametrize("entries", [120, 300, 900])
def test_few_reviews_have_no_share_in_the_sentences(log: ReviewLog, entries: int) -> None:
    assert log.entries is not None
    columns = {name: column[:entries] for name, column in vars(log.entries).items()}
    few = replace(log, entries=replace(log.entries, **columns))
    overview = build_overview(few)
    for finding in overview.answers:
        if finding.question in ("fit", "health"):
            text = " ".join(shown.sentences(finding))
            assert not re.search(r"\d % (better|worse)", text), text
    for line in overview.lines:
        of_it = [finding for finding in line.answers if finding.question == line.question]
        if of_it and of_it[0].probability is not None:
            assert shown.line(of_it) != "can't tell yet", line.question
