"""Sentences and a table about cards whose difficulty is near 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer, format_percent
from srs_eval.advice.shown.columns import EXPECTED, RECALLED, make_evidence_table
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

_LIMIT = f"{f.NEAR_TEN:.0f}"


def _line(findings: Sequence[Finding]) -> str:
    """Summarize the difficulty of the presets' cards.

    Example: "few cards are near 10: Maps; can't tell yet (too few reviews): Words".
    """
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    match get_evidence(finding, f.Difficulty).conclusion:
        case "few":
            return "few cards are near 10"
        case "as expected":
            return "some cards are near 10, and you remember them as expected"
        case "below":
            return "some cards are near 10, and you remember fewer of them than expected"
        case "above":
            return "some cards are near 10, and you remember more of them than expected"
    return say.format_cant_tell(finding.missing, " whether it does harm")


def _sentences(finding: Finding) -> list[str]:
    """Return how many cards are near 10, whether that does harm, and why they are."""
    evidence = get_evidence(finding, f.Difficulty)
    cards = format_count(evidence.cards, "card")
    near_ten = f"{evidence.cards_near_ten:,} of the {cards} that you reviewed after learning them"
    verb = "has" if evidence.cards_near_ten == 1 else "have"
    if not evidence.cards_near_ten:
        return [f"None of your cards has a difficulty above {_LIMIT}.", _explain_buttons(evidence)]
    if evidence.conclusion == "few":
        return [f"Only {near_ten} {verb} a difficulty above {_LIMIT}.", _explain_buttons(evidence)]
    share = format_percent(evidence.cards_near_ten / evidence.cards, 0)
    sentences = [
        f"{near_ten} ({share}) {verb} a difficulty above {_LIMIT}. {_judge(finding, evidence)}",
        *_describe_recall(evidence),
        _explain_buttons(evidence),
    ]
    if evidence.answers is not None and evidence.other_answers is not None:
        again = format_percent(evidence.answers.again, 0)
        hard = format_percent(evidence.answers.hard, 0)
        other_again = format_percent(evidence.other_answers.again, 0)
        other_hard = format_percent(evidence.other_answers.hard, 0)
        sentences.append(
            f"Of all your answers to these cards, the first ones included, {again} are Again and "
            f"{hard} are Hard. For your other cards, {other_again} are Again and {other_hard} are "
            "Hard."
        )
    return sentences


def _judge(finding: Finding, evidence: f.Difficulty) -> str:
    """Say whether the high difficulty does harm, and what to do."""
    come = "These cards come"
    action = "Optimize"
    if evidence.fsrs_is_off:
        come = "With FSRS's defaults, these cards would come"
        action = "Turn FSRS on, and optimize at once"
    match evidence.conclusion:
        case "as expected":
            return "That does no harm, because FSRS predicts these cards well."
        case "below":
            reason = "because FSRS expects you to remember more of them than you do"
            return f"{come} too late, {reason}. {action}."
        case "above":
            reason = "because FSRS expects you to forget more of them than you do"
            return f"{come} too early, {reason}. {action}."
    return f"{say.capitalize(say.format_cant_tell(finding.missing, ' whether that does harm'))}."


def _describe_recall(evidence: f.Difficulty) -> list[str]:
    """Describe what is recalled of the cards near 10, if there are such reviews."""
    if evidence.difference is None or not evidence.groups:
        return []
    group = evidence.groups[-1]
    recalled = format_percent(group.recalled.estimate, 0)
    expected = format_percent(group.expected, 0)
    reviews = format_count(group.recalled.reviews, "review")
    source = "your current parameters"
    if evidence.fsrs_is_off:
        source = "FSRS's defaults (FSRS is off)"
    sentence = (
        f"In {reviews} of cards with a difficulty above {_LIMIT}, you remembered {recalled}; "
        f"{source} expected {expected}."
    )
    if evidence.is_unseen:
        return [sentence]
    return [f"{sentence} The parameters may have been fitted to these reviews."]


def _explain_buttons(evidence: f.Difficulty) -> str:
    """Explain what each button does to difficulty."""
    again, hard, *_ = evidence.after_answer
    count = evidence.good_to_nine
    if count is None:
        return_path = (
            "Good hardly lowers it: even after 200 Goods, a card does not get from 10 to 9"
        )
    elif count == 1:
        return_path = "Good lowers it: one Good is enough to get from near 10 to 9"
    else:
        return_path = f"Good lowers it slowly: it takes {count} Goods to get from near 10 to 9"
    return f"Again raises difficulty from 5 to {again:.1f}, and Hard to {hard:.1f}. {return_path}."


def _tables(finding: Finding) -> list[Table]:
    """Return a table of recall by difficulty."""
    evidence = get_evidence(finding, f.Difficulty)
    rows = []
    for group in evidence.groups:
        name = f"{group.low:.0f} to {group.high:.0f}"
        rows.append((name, group.recalled.reviews, group.recalled.estimate, group.expected))
    if not rows:
        return []
    columns = ("difficulty", "reviews", RECALLED, EXPECTED)
    title = f"{finding.subject}: recall by difficulty before the review"
    return [make_evidence_table(title, columns, rows)]


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Difficulty: Renderer(_sentences, _line, _tables),
}
