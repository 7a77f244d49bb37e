"""Sentences and a table about a preset's first intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer, format_percent
from srs_eval.advice.shown.columns import EXPECTED, RECALLED, make_evidence_table
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

_DAYS_SHOWN_EXACTLY = 10  # longer intervals are shown in whole days


def _line(findings: Sequence[Finding]) -> str:
    """Summarize the first intervals, grouping presets with equal answers.

    Example: "too short after Good; as your reviews suggest: Maps".
    """
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    evidence = get_evidence(finding, f.ButtonIntervals)
    if evidence.conclusion == f.CANT_TELL:
        return say.format_cant_tell(finding.missing)
    parts = []
    for conclusion, words in (("longer", "too short"), ("shorter", "too long")):
        buttons = [button.button for button in evidence.buttons if button.conclusion == conclusion]
        if buttons:
            parts.append(f"{words} after {say.join_names(buttons)}")
    return ", ".join(parts) if parts else "as your reviews suggest"


def _sentences(finding: Finding) -> list[str]:
    """Return whether the first intervals suit the learner, and what each rests on."""
    evidence = get_evidence(finding, f.ButtonIntervals)
    if evidence.conclusion == f.CANT_TELL:
        return [f"{say.capitalize(_summarize(finding))}."]
    source = "Your first intervals come from your preset's parameters"
    if not evidence.is_fitted:
        source = "Your first intervals come from FSRS's defaults, which know nothing about you"
    if evidence.fsrs_is_off:
        source = "Because FSRS is off, these are the intervals that its defaults would give"
    sentences = [_answer(finding, evidence), f"{source}."]
    desired = format_percent(evidence.desired, 0)
    sentences += [_describe_button(button, desired) for button in evidence.buttons]
    return sentences


def _answer(finding: Finding, evidence: f.ButtonIntervals) -> str:
    if evidence.conclusion == "as it is":
        return "Your own first reviews do not clearly call for other first intervals."
    answer = f"Your first interval is {_summarize(finding)}"
    if evidence.fsrs_is_off:
        answer = f"With FSRS's defaults, your first interval would be {_summarize(finding)}"
        return f"{answer}. Turn FSRS on, with the parameters that “What to do” advises."
    return f"{answer}. Optimizing should correct that."


def _describe_button(button: f.FirstInterval, desired: str) -> str:
    """Describe one button's interval and the reviews behind it."""
    cards = format_count(button.cards, "card")
    interval = _format_days(button.interval)
    rule = f"After a first {button.button}, FSRS expects you to remember {desired} after {interval}"
    if button.own is None or button.low is None or button.high is None:
        verb = "is" if button.cards == 1 else "are"
        return f"{rule}; {cards} {verb} too few to check that."
    own = _format_own(button.own, button.low, button.high)
    recalled = format_percent(button.recalled, 0)
    expected = format_percent(button.expected, 0)
    return (
        f"{rule}; your own reviews say {own}. Of {cards}, you remembered {recalled} at the first "
        f"review on a later day, and {expected} was expected."
    )


def _format_days(days: float) -> str:
    """Format an interval: "2.3 days", "27 days", "less than a day"."""
    if days < 1:
        return "less than a day"
    if days < _DAYS_SHOWN_EXACTLY:
        return f"{days:.1f} days"
    return format_count(round(days), "day")


def _format_own(days: float, low: float, high: float) -> str:
    """Format an interval by the learner's own reviews: "27 days (20 days to 35 days)".

    Where nearly all was remembered, reviews only tell that it is as long as FSRS allows, or more.
    """
    text = _format_days(days)
    if low == high and days > _DAYS_SHOWN_EXACTLY:
        return f"{text} or more"
    low_text = _format_days(low)
    high_text = _format_days(high)
    if low_text == high_text:
        return text
    return f"{text} ({low_text} to {high_text})"


def _tables(finding: Finding) -> list[Table]:
    """Return a table of the buttons."""
    evidence = get_evidence(finding, f.ButtonIntervals)
    rows: list[tuple[object, ...]] = []
    for button in evidence.buttons:
        row = (
            button.button,
            button.cards,
            button.recalled,
            button.expected,
            f"{button.interval:.1f}",
            *(
                None if days is None else f"{days:.1f}"
                for days in (button.own, button.low, button.high)
            ),
        )
        rows.append(row)
    if not rows:
        return []
    columns = ("first", "cards", RECALLED, EXPECTED, "days", "yours", "from", "to")
    desired = format_percent(evidence.desired, 0)
    title = f"{finding.subject}: days until you remember {desired}, by first answer"
    return [make_evidence_table(title, columns, rows)]


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.ButtonIntervals: Renderer(_sentences, _line, _tables),
}
