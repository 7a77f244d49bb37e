"""Tell what can be done after a failed health check of FSRS: which other findings may explain it.

Anki's check fails if FSRS predicts a preset's reviews worse than those of most people, which alone
says neither why nor that another scheduler would do better. So a failed check is followed by the
questions whose answers can explain it, each with its own evidence: is Hard pressed for forgotten
cards, are there leeches, did something change at a date, do the preset's decks differ, do
good and bad spells last, are there few reviews? They are asked only after a failed check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice.buttons import assess_hard_button
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.fsrs import compare_with_sm2
from srs_eval.advice.ignore_before import assess_ignore_dates
from srs_eval.advice.leeches import find_leeches
from srs_eval.advice.split import assess_decks
from srs_eval.stats.intervals import MIN_REVIEWS

QUESTION = "failed"


def assess_health_remedies(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset."""
    for group in groups:
        (health,) = compare_with_sm2(learner, [group])
        evidence = f.get_evidence(health, f.Health)
        remedies = _find_remedies(learner, group, evidence)
        yield f.Finding(QUESTION, health.subject, reviews=remedies.reviews, evidence=remedies)


def _find_remedies(learner: Learner, group: int, health: f.Health) -> f.HealthRemedies:
    check = health.check
    reviews = len(learner.positions(group))
    if check is None:
        return f.HealthRemedies("not checked", reviews=reviews, sm2=health.sm2)
    if check.passed:
        return f.HealthRemedies("passed", check, reviews=reviews, sm2=health.sm2)
    causes = []
    hard = f.get_evidence(assess_hard_button(learner), f.HardButton)
    if hard.conclusion == "yes":
        causes.append(f.FailedCheckCause.HARD)
    date = _find_date(learner, group)
    if date is not None:
        causes.append(f.FailedCheckCause.CHANGE)
    decks = _count_differing_decks(learner, group)
    if decks:
        causes.append(f.FailedCheckCause.DECKS)
    index = learner.positions(group)
    trials = learner.trials
    leeches = find_leeches(trials.card_id[index], trials.y[index], trials.elapsed_days[index])
    if leeches:
        causes.append(f.FailedCheckCause.LEECHES)
    if learner.persistence.is_clear:
        causes.append(f.FailedCheckCause.SPELLS)
    if reviews < MIN_REVIEWS:
        causes.append(f.FailedCheckCause.FEW_REVIEWS)
    return f.HealthRemedies(
        "failed", check, tuple(causes), date, decks, len(leeches), reviews, health.sm2
    )


def _find_date(learner: Learner, group: int) -> str | None:
    """Return the date from which on reviews should count, if one is or may be better than none."""
    for finding in assess_ignore_dates(learner, [group]):
        evidence = f.get_evidence(finding, f.IgnoreBefore)
        if evidence.conclusion in ("date", "maybe") and evidence.best != evidence.current:
            return evidence.best
    return None


def _count_differing_decks(learner: Learner, group: int) -> int:
    """Return the number of the preset's decks if each needs its own parameters, else 0."""
    finding = assess_decks(learner, group)
    if finding is None or finding.recommendation != Recommendation.SPLIT:
        return 0
    return f.get_evidence(finding, f.Sharing).unit_count
