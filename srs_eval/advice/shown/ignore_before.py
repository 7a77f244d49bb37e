"""Sentences and a table about Anki's option "Ignore cards reviewed before"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer
from srs_eval.advice.shown.columns import LOG_LOSS, log_loss_difference, make_evidence_table
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

_OPTION = "“Ignore cards reviewed before”"


def _line(findings: Sequence[Finding]) -> str:
    """Summarize the dates, grouping presets with equal answers.

    Example: "leave it empty: Words; set it to 1 Jan 2024: Maps".
    """
    return say.summarize_presets(findings, _describe)


def _describe(finding: Finding) -> str:
    evidence = get_evidence(finding, f.IgnoreBefore)
    best, current = _format_dates(evidence)
    match evidence.conclusion:
        case "date":
            action = "keep" if evidence.best == evidence.current else "set it to"
            return f"{action} {best}"
        case "maybe":
            if evidence.best == evidence.current:
                return f"keep {best}"
            if evidence.current is not None:
                return f"{best} may be better than {current}"
            return f"leave it empty, though {best} may be better"
        case "no matter":
            return f"{current} makes no clear difference"
        case "empty" if evidence.current is not None and not evidence.dates:
            return f"empty it, because {current} leaves out every card"
        case "empty" if evidence.current is not None:
            return f"empty it, because {current} does harm"
        case "empty" | "no date to try":
            return "leave it empty"
    return say.format_cant_tell(finding.missing, " whether a date would help")


def _sentences(finding: Finding) -> list[str]:
    """Return which date to set, and what that was tested on."""
    evidence = get_evidence(finding, f.IgnoreBefore)
    best, current = _format_dates(evidence)
    if evidence.conclusion == f.CANT_TELL:
        return [f"{say.capitalize(_describe(finding))}."]
    if evidence.conclusion == "no date to try":
        return [
            f"Leave {_OPTION} empty: your reviews do not reach back far enough for a date to "
            "leave out older cards and keep enough of the later ones."
        ]
    if evidence.current is not None and not evidence.dates:
        return [
            f"Empty {_OPTION}, which is {current}: you began all your cards before that "
            "date, so Optimize has no reviews to learn from."
        ]
    sentences = [_answer(evidence)]
    reviews = format_count(finding.reviews, "review")
    sentences.append(
        f"Each date was tested on your latest {reviews}, whatever the age of the card. The "
        "parameters were fitted to earlier reviews, without the cards that Anki would ignore."
    )
    if finding.interval is not None:
        difference = say.format_log_loss_difference(finding.interval, "with all cards")
        sentences.append(f"With {best}, log loss was {difference}.")
    return sentences


def _format_dates(evidence: f.IgnoreBefore) -> tuple[str, str]:
    """Return the best date that was tried and the current one in words; "" if there is none."""
    best, current = (say.format_day(date or "") for date in (evidence.best, evidence.current))
    return best, current


def _answer(evidence: f.IgnoreBefore) -> str:
    best, current = _format_dates(evidence)
    if evidence.conclusion == "date":
        verb = "Keep" if evidence.best == evidence.current else "Set"
        preposition = "at" if evidence.best == evidence.current else "to"
        return (
            f"{verb} {_OPTION} {preposition} {best}: without the older cards, FSRS "
            "predicts your reviews better."
        )
    if evidence.conclusion == "maybe" and evidence.best == evidence.current:
        return (
            f"Keep {current} in {_OPTION}: FSRS predicted your reviews better with it, "
            "though perhaps by chance."
        )
    if evidence.conclusion == "maybe":
        action = f"Leave {_OPTION} as it is"
        if evidence.current is None:
            action = f"Leave {_OPTION} empty"
        return (
            f"{action}, unless your cards or your use of the buttons changed around "
            f"{best}: with that date, FSRS predicted your reviews better, though perhaps "
            "by chance."
        )
    if evidence.conclusion == "no matter":
        return (
            f"{current} in {_OPTION} makes no clear difference to how well FSRS predicts "
            "your reviews."
        )
    if evidence.current is not None:
        return (
            f"Empty {_OPTION}, which is {current}: with all cards, FSRS predicts your "
            "reviews better."
        )
    if len(evidence.dates) == 1:
        return (
            f"Leave {_OPTION} empty: with the one date that could be tried, FSRS did not predict "
            "your reviews clearly better."
        )
    return (
        f"Leave {_OPTION} empty: with each of the {len(evidence.dates)} dates that were tried, "
        "FSRS did not predict your reviews clearly better."
    )


def _tables(finding: Finding) -> list[Table]:
    """Return a table of the dates."""
    evidence = get_evidence(finding, f.IgnoreBefore)
    rows = []
    for candidate in evidence.dates:
        label = candidate.date
        if candidate.date == evidence.current:
            label += " (now)"
        row = (
            label,
            candidate.training_reviews,
            candidate.log_loss,
            candidate.difference,
            candidate.verdict,
        )
        rows.append(row)
    if not rows:
        return []
    columns = (
        "ignore before",
        "reviews left",
        LOG_LOSS,
        log_loss_difference("minus all cards"),
        "verdict",
    )
    total = format_count(evidence.training_reviews, "review")
    title = f"{finding.subject}: dates that were tried ({total} since {evidence.first_review})"
    return [make_evidence_table(title, columns, rows)]


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.IgnoreBefore: Renderer(_sentences, _line, _tables),
}
