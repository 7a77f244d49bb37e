"""Sentences and a table about when to optimize next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer, format_percent
from srs_eval.advice.shown.columns import log_loss_difference, make_evidence_table
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table


def _line(findings: Sequence[Finding]) -> str:
    """Summarize when to optimize, grouping presets with equal answers.

    Example: "it is time: Words; by about 15 December at your pace: Maps".
    """
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    evidence = get_evidence(finding, f.NextOptimization)
    match evidence.conclusion:
        case "now":
            return "it is time to check your parameters again"
        case "later":
            return say.format_due_date(evidence.missing)
        case "never":
            return "not in the next two years"
        case "defaults":
            return "you have not optimized yet"
        case "few reviews":
            return "too few reviews to optimize"
    return f"after {format_percent(evidence.growth, 0)} more reviews"


def _sentences(finding: Finding) -> list[str]:
    """Return when to optimize next, and how many reviews that is."""
    evidence = get_evidence(finding, f.NextOptimization)
    growth = format_percent(evidence.growth, 0)
    rule = f"It is enough to optimize each time you have {growth} more reviews"
    if evidence.conclusion == "few reviews":
        reviews = format_count(evidence.reviews_now, "usable review")
        verb = "is" if evidence.reviews_now == 1 else "are"
        answer = f"{reviews} {verb} too few to optimize: wait for {f.MIN_REVIEWS_TO_FIT} of them."
        return [answer]
    if evidence.conclusion == "defaults":
        return [
            "You have not optimized yet. “What to do” says whether you should.",
            f"Once you have optimized, {rule[0].lower()}{rule[1:]}. {_describe_next(evidence)}",
        ]
    if evidence.conclusion == "unknown":
        return [
            f"{rule}. {_describe_next(evidence)}",
            "The file does not say when you last optimized.",
        ]
    day = say.format_day(evidence.optimized_on)
    history = (
        f"{rule}. You had {evidence.reviews_then:,} reviews when you last changed the preset, "
        f"on {day}, and have {evidence.reviews_now:,} now."
    )
    if evidence.conclusion == "now":
        return [
            f"You have done enough reviews since {day} to check your parameters again. “What to "
            "do” says whether optimizing would help now.",
            history,
        ]
    if evidence.conclusion == "never":
        return ["At your pace, you need not optimize again in the next two years.", history]
    return [f"Optimize again {_describe_wait(evidence.missing)}.", history]


def _describe_next(evidence: f.NextOptimization) -> str:
    """Say when there will be enough reviews again, if the learner optimizes today."""
    if evidence.missing is None or not evidence.missing.can_come:
        return "If you optimize today, that will take over two years at your pace."
    return f"If you optimize today, that will be {_describe_wait(evidence.missing)}."


def _describe_wait(missing: f.MissingData | None) -> str:
    """Describe the wait: "after 300 more reviews (about 15 December at your pace)"."""
    if missing is None or missing.date is None or not missing.reviews:
        return say.format_due_date(missing)
    reviews = format_count(missing.reviews, "more review")
    return f"after {reviews} ({say.format_approximate_date(missing.date)} at your pace)"


def _tables(finding: Finding) -> list[Table]:
    """Return a table of what optimizing less often costs."""
    rows = tuple(
        (frequency.name, frequency.difference, frequency.verdict)
        for frequency in get_evidence(finding, f.NextOptimization).costs
    )
    if not rows:
        return []
    title = f"{finding.subject}: optimizing less often"
    difference = log_loss_difference("minus every +2 %")
    return [make_evidence_table(title, ("optimizing", difference, "verdict"), rows)]


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.NextOptimization: Renderer(_sentences, _line, _tables),
}
