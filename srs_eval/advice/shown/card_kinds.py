"""Sentences and a table about parameters for kinds of cards within a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer
from srs_eval.advice.shown.columns import log_loss_difference, make_evidence_table
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

_HOW_TO_SPLIT: Mapping[str, str] = {
    f.BY_TEMPLATE: (
        "Move the cards of each template to a deck of their own, and give each deck a preset. For "
        "cards that you add later, set that deck in the card template window: Options, Deck "
        "Override."
    ),
    f.BY_FIRST_ANSWER: (
        "Move the cards whose first answer was Again or Hard to a deck of their own, with a preset "
        "of its own."
    ),
}


def _line(findings: Sequence[Finding]) -> str:
    """Summarize whether to split presets, grouping presets with equal answers.

    Example: "no: Words; by card template: Maps".
    """
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    evidence = get_evidence(finding, f.CardKinds)
    if evidence.conclusion == "yes":
        return f"split by {say.join_names(_names_to_split(evidence))}"
    if evidence.conclusion == "no":
        return "do not split"
    return say.format_cant_tell(finding.missing)


def _names_to_split(evidence: f.CardKinds) -> list[str]:
    return [division.name for division in evidence.divisions if division.conclusion == "yes"]


def _sentences(finding: Finding) -> list[str]:
    """Return whether to split the preset, and how the divisions compare."""
    evidence = get_evidence(finding, f.CardKinds)
    if evidence.conclusion == f.CANT_TELL:
        return [f"{say.capitalize(_summarize(finding))}.", *_describe_divisions(evidence)]
    if not evidence.divisions:
        return ["Do not split this preset: its cards are nearly all of one kind."]
    if evidence.conclusion == "no":
        answer = (
            "Do not split this preset by kinds of cards: with parameters for each kind, FSRS did "
            "not predict your reviews better."
        )
        return [answer, *_describe_divisions(evidence)]
    names = _names_to_split(evidence)
    return [
        f"Split this preset by {say.join_names(names)}: with parameters for each kind, FSRS "
        "predicted your reviews better.",
        *(_HOW_TO_SPLIT[name] for name in names),
        *_describe_divisions(evidence),
    ]


def _describe_divisions(evidence: f.CardKinds) -> list[str]:
    """Describe each division's difference in log loss."""
    sentences = []
    for division in evidence.divisions:
        difference = say.format_log_loss_difference(division.difference)
        reviews = _count_reviews(division)
        sentences.append(f"Split by {division.name} ({reviews}), log loss was {difference}.")
    return sentences


def _count_reviews(division: f.CardDivision) -> str:
    """Return the reviews of each kind: "1,200 and 340 reviews", "1,200 reviews of “Basic”, ..."."""
    if not division.kinds:
        counts = [f"{count:,}" for count in division.reviews]
        return f"{say.join_names(counts)} reviews"
    named_counts = [
        f"{format_count(count, 'review')} of {say.quote_name(name)}"
        for name, count in zip(division.kinds, division.reviews, strict=True)
    ]
    return say.join_names(named_counts)


def _tables(finding: Finding) -> list[Table]:
    """Return a table of the divisions."""
    evidence = get_evidence(finding, f.CardKinds)
    rows: list[tuple[object, ...]] = []
    for division in evidence.divisions:
        rows.append(
            (division.name, len(division.reviews), division.difference, division.conclusion)
        )
    if not rows:
        return []
    columns = ("by", "kinds", log_loss_difference("minus one set"), "decision")
    title = f"{finding.subject}: parameters for each kind of card, or one set"
    return [make_evidence_table(title, columns, rows)]


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.CardKinds: Renderer(_sentences, _line, _tables),
}
