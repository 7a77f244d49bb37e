"""Sentences about what to do after a failed health check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer
from srs_eval.advice.shown.predicted import NO_HEALTH_CHECK
from srs_eval.data.errors import format_count

_ACTIONS: Mapping[f.FailedCheckCause, str] = {
    f.FailedCheckCause.HARD: "press Again instead of Hard",
    f.FailedCheckCause.CHANGE: "ignore old cards",
    f.FailedCheckCause.DECKS: "split the preset",
    f.FailedCheckCause.LEECHES: "rewrite leeches",
    f.FailedCheckCause.SPELLS: "live with your good and bad spells",
    f.FailedCheckCause.FEW_REVIEWS: "wait for more reviews",
}


def _line(findings: Sequence[Finding]) -> str:
    """Summarize what to do, grouping presets with equal answers.

    Example: "the check passes: Words; press Again instead of Hard: Maps".
    """
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    evidence = get_evidence(finding, f.HealthRemedies)
    if evidence.conclusion == "passed":
        return "the check passes"
    if evidence.conclusion == "not checked":
        return "there is no check"
    if not evidence.causes:
        return "it fails, and srs-eval finds none of the usual causes"
    return say.join_names([_ACTIONS[cause] for cause in evidence.causes])


def _sentences(finding: Finding) -> list[str]:
    """Return whether the check fails, whether to keep FSRS, and what to do about each cause."""
    evidence = get_evidence(finding, f.HealthRemedies)
    if evidence.conclusion == "not checked":
        return [NO_HEALTH_CHECK]
    if evidence.conclusion == "passed":
        return ["Anki's health check passes, so there is nothing to do."]
    sentences = [
        "Anki's health check fails: FSRS predicts your reviews worse than those of most people."
    ]
    if evidence.sm2 is not None:
        sentences.append(_compare_with_sm2(evidence.sm2))
    sentences += [_describe_cause(cause, evidence) for cause in evidence.causes]
    if not evidence.causes:
        sentences.append(
            "srs-eval finds none of the usual causes: Hard pressed for forgotten cards, a change "
            "at some date, decks that differ, leeches, good and bad spells, or few reviews. Check "
            "again when you have 50 % more reviews."
        )
    return sentences


def _compare_with_sm2(sm2: f.Rival) -> str:
    match sm2.verdict:
        case "better":
            return "It still predicts them better than SM-2, so keep FSRS."
        case "worse":
            return "It also predicts them worse than SM-2 does."
        case "as good":
            return "It predicts them as well as SM-2 does."
    return "It is too early to tell whether SM-2 would do better."


def _describe_cause(cause: f.FailedCheckCause, evidence: f.HealthRemedies) -> str:
    match cause:
        case f.FailedCheckCause.HARD:
            return (
                "You seem to press Hard for cards that you have forgotten. Press Again for these "
                "from now on (“Am I misusing Hard?”)."
            )
        case f.FailedCheckCause.CHANGE:
            return (
                f"Something may have changed around {evidence.date}. Try that date under “Ignore "
                "cards reviewed before”, and optimize (“From which date should reviews count?”)."
            )
        case f.FailedCheckCause.DECKS:
            return (
                f"The {evidence.decks} decks of this preset differ. Give each its own preset, and "
                "optimize each (“One preset or several?”)."
            )
        case f.FailedCheckCause.LEECHES:
            cards = format_count(evidence.leeches, "card")
            verb = "is a leech" if evidence.leeches == 1 else "are leeches"
            return f"{cards} {verb}. Rewrite or suspend them (“Anything wrong?”)."
        case f.FailedCheckCause.SPELLS:
            return (
                "Your reviews go better or worse for days or weeks at a time. No scheduler can "
                "know of that beforehand, and no setting in Anki can help with it."
            )
        case f.FailedCheckCause.FEW_REVIEWS:
            reviews = format_count(evidence.reviews, "review")
            return (
                f"The check rests on only {reviews}. Optimize and check again once you have 1,000."
            )


RENDERERS: Mapping[type[f.Evidence], Renderer] = {f.HealthRemedies: Renderer(_sentences, _line)}
