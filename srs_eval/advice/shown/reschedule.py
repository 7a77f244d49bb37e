"""Sentences and a table about rescheduling cards after optimizing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer, format_percent
from srs_eval.advice.shown.columns import make_evidence_table
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

_NEXT_REVIEW = "Without rescheduling, each card gets its new interval at its next review."
_PERIODS = ((1, 7), (7, 14), (14, 21), (21, f.LOAD_DAYS))
"""Days of the table after the first, which is today: the first and the one after the last."""


def _line(findings: Sequence[Finding]) -> str:
    """Summarize whether to reschedule, grouping presets with equal answers.

    Example: "no need: Words; reschedule: Maps".
    """
    return say.summarize_presets(findings, _summarize)


def _summarize(finding: Finding) -> str:
    return {
        "yes": "reschedule",
        "no need": "no need",
        "backlog": "do not reschedule: too many cards would be due",
        "few reviews": "too few reviews to optimize",
        "few cards": "too few cards",
        "no schedule": "the file does not say when cards are due",
    }[get_evidence(finding, f.Reschedule).conclusion]


def _sentences(finding: Finding) -> list[str]:
    """Return whether to reschedule, which cards would move, and what comes due."""
    evidence = get_evidence(finding, f.Reschedule)
    if evidence.conclusion == "no schedule":
        return [
            "The file does not say when cards are due, so nothing can be said about rescheduling."
        ]
    if evidence.conclusion == "few reviews":
        return ["You have too few reviews to optimize, so there is nothing to reschedule for."]
    if evidence.without is None or evidence.rescheduled is None:
        return ["There are too few review cards to say what rescheduling would change."]
    moment = "turn FSRS on" if evidence.fsrs_is_off else "optimize"
    condition = []
    if evidence.fsrs_is_off:
        condition = [
            "The following holds if you keep the desired retention of "
            f"{format_percent(evidence.desired, 0)} that is stored in the preset. If you set "
            "another one, as “What to do” may advise, cards would move differently."
        ]
    return [
        *condition,
        *advise_on_rescheduling(evidence, evidence.without, evidence.rescheduled, moment),
        *describe_moves(evidence, evidence.without, evidence.rescheduled),
    ]


def describe_moves(
    evidence: f.Reschedule, without: f.DueCards, rescheduled: f.DueCards
) -> list[str]:
    """Say how many cards would move, how far, and what comes due."""
    cards = format_count(evidence.cards, "review card")
    return [
        f"Rescheduling would make {evidence.sooner:,} of your {cards} due earlier and "
        f"{evidence.later:,} later. {_describe_moves(evidence.days_moved)}",
        f"In the next {f.LOAD_DAYS} days, {sum(rescheduled.by_day):,} review cards would be due "
        f"with rescheduling and {sum(without.by_day):,} without it; today alone, "
        f"{rescheduled.due_at_once:,} instead of {without.due_at_once:,}.",
    ]


def advise_on_rescheduling(
    evidence: f.Reschedule, without: f.DueCards, rescheduled: f.DueCards, moment: str
) -> list[str]:
    """Say whether to reschedule at a moment, such as "optimize"."""
    asked = format_percent(evidence.desired, 0)
    now = format_percent(without.recall, 0)
    after = format_percent(rescheduled.recall, 0)
    asks = "the preset asks" if evidence.fsrs_is_off else "you ask"
    when_due = f"you would remember {now} of them when they come up, but {asks} for {asked}."
    match evidence.conclusion:
        case "no need":
            without_it = " with or without rescheduling"
            if after != now:
                without_it = f" with rescheduling, and {now} without it"
            return [
                f"There is no need to reschedule when you {moment}: you would remember {after} of "
                f"your cards when they come up{without_it}.",
                _NEXT_REVIEW,
            ]
        case "backlog":
            added = format_count(evidence.added_at_once, "more card")
            pace = max(round(evidence.reviews_a_day), 1)
            return [
                f"Do not reschedule when you {moment}: {added} would be due "
                f"today, and you do about {format_count(pace, 'review')} a day.",
                "According to the optimized parameters, your cards are scheduled too late: "
                f"{when_due}",
                _NEXT_REVIEW,
            ]
    direction = "early" if without.recall > rescheduled.recall else "late"
    return [
        f"Reschedule when you {moment}: your cards are scheduled too {direction}.",
        f"According to the optimized parameters, {when_due}",
        _NEXT_REVIEW,
    ]


def _describe_moves(days_moved: tuple[float, float, float]) -> str:
    """Describe how far cards move: "Most would be due between 3 days earlier and 8 days later."."""
    low, median, high = (round(days) for days in days_moved)
    if low == high == 0:
        return "Most would not move."
    if low == high:
        return f"Most would be due {_format_move(median)}."
    return f"Most would be due between {_format_move(low)} and {_format_move(high)}."


def _format_move(days: int) -> str:
    if days == 0:
        return "the same day"
    return f"{format_count(abs(days), 'day')} {'earlier' if days < 0 else 'later'}"


def _tables(finding: Finding) -> list[Table]:
    return make_load_tables(finding.subject, get_evidence(finding, f.Reschedule))


def make_load_tables(subject: str, evidence: f.Reschedule) -> list[Table]:
    """Return a table of the cards due in the next days, if any are known."""
    without = evidence.without
    rescheduled = evidence.rescheduled
    if without is None or rescheduled is None:
        return []
    rows = [("today, overdue cards included", without.by_day[0], rescheduled.by_day[0])]
    for first, end in _PERIODS:
        name = f"days {first + 1} to {end}"
        rows.append((name, sum(without.by_day[first:end]), sum(rescheduled.by_day[first:end])))
    columns = ("due", "without", "rescheduled")
    return [make_evidence_table(f"{subject}: cards due", columns, rows)]


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Reschedule: Renderer(_sentences, _line, _tables),
}
