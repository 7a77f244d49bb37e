"""What is said of overdue cards, months without reviews, buttons, leeches: "Anything wrong?"."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from datetime import date

from srs_eval.advice.findings import Check, Checks, Finding, Level, of
from srs_eval.advice.sentences import capital, overdue
from srs_eval.advice.shown.habits import duration
from srs_eval.advice.tables import Table
from srs_eval.data.errors import counted

MARKS: Mapping[Level, str] = {"look": "!", "fine": "✓", "not yet": "?"}
_FAR = 1.75  # times as often as expected that is "twice"
_MORE = 0.02  # recalled than expected is no matter up to here


def in_line(findings: Sequence[Finding]) -> str:
    """What is worth a look, "nothing" where nothing is."""
    looks = [each for each in of(findings[0], Checks).checks if each.level == "look"]
    return "; ".join(map(check_line, looks)) or "nothing that your reviews show"


def sentences(finding: Finding) -> list[str]:
    """What is worth a look and what can be done, then all the rest."""
    checks = of(finding, Checks).checks
    rest = [f"{capital(check_line(each))}." for each in checks if each.level != "look"]
    return [f"{capital(in_line([finding]))}.", *filter(None, map(_more, checks)), *rest]


def tables(finding: Finding) -> list[Table]:
    """All checks, and the worst leeches."""
    checks = of(finding, Checks).checks
    rows = tuple(
        (
            each.name,
            each.level,
            each.count,
            each.of or None,
            each.recalled and each.recalled.estimate,
            each.expected,
            each.minutes if each.name == "overdue" else None,
        )
        for each in checks
    )
    columns = ("check", "", "count", "of", "recalled", "expected", "minutes")
    found = [Table("What was looked at", columns, rows)]
    worst = tuple(
        (str(leech.card_id), leech.reviews, leech.lapses, round(leech.usual, 1), leech.chance)
        for each in checks
        for leech in each.leeches
    )
    of_worst = ("card", "reviews", "forgotten", "usual", "chance")
    title = "Cards forgotten far too often, the worst ones (search Anki for cid:NUMBER)"
    return [*found, Table(title, of_worst, worst)] if worst else found


def check_line(check: Check) -> str:
    """At most 46 columns, without the mark."""
    fine = check.level == "fine"
    match check.name:
        case "overdue":
            then = " by then" if check.since else ""
            late = overdue(check.count, check.minutes or 0.0, check.of, then)
            return late if check.count else "no card is overdue"
        case "gap":
            return _days_without(check)
        case "leeches" if check.count:
            are = "card is" if check.count == 1 else "cards are"
            return f"{check.count:,} {are} forgotten far too often"
        case "leeches":
            few = "cards forgotten too often: too few to say"
            return "no card is forgotten far too often" if fine else few
        case "suspended" if check.count:
            of_all = "all" if check.count == check.of else f"{check.count:,} of"
            return f"{of_all} {counted(check.of, 'card')} suspended"
        case "suspended":
            return "no card is suspended"
        case "steps" if check.says and check.minutes is not None:
            longer, _, situation = check.says.partition(" ")
            return f"{longer} step {situation}: {duration(check.minutes)}"
        case "steps" if check.says:
            return f"steps should be {check.says}"
        case "steps":
            return f"learning steps: {'as they should be' if fine else 'too few to say'}"
        case "old cards":
            return _old_cards(check)
    return _button(check)


def _more(check: Check) -> str:
    """What is behind it, where it is worth a look."""
    if check.level == "look" and check.name == "overdue":
        return (
            "Overdue are cards that were due before the day of your last review: one answer each "
            "at your usual pace, and one more after Again."
        )
    if check.leeches:
        worst = check.leeches[0]
        return (
            f"The worst card was forgotten {worst.lapses} of {worst.reviews} times, where "
            f"{worst.usual:.1f} times are usual after such intervals; at most about 5 in 100 such "
            "cards are named by chance. Rewrite them, or suspend them."
        )
    return ""


def _days_without(check: Check) -> str:
    if check.since is not None:
        return f"no review since {_day(check.since)}"
    if check.level == "look":
        when = "in the last year" if check.until is None else f"until {_day(check.until)}"
        return f"a break of {check.count} days, {when}"
    return f"longest pause of the last year: {counted(check.count, 'day')}"


def _day(iso: str) -> str:
    """ "17 May 2023"."""
    day = date.fromisoformat(iso)
    return f"{day.day} {calendar.month_abbr[day.month]} {day.year}"


def _old_cards(check: Check) -> str:
    if check.level == "not yet":
        return f"old cards: {_open(check)}"
    if check.level == "fine":
        return f"old cards: {_as_expected(check)}"
    assert check.recalled is not None
    assert check.expected is not None
    if 1 - check.recalled.estimate >= _FAR * (1 - check.expected):
        return "old cards forgotten twice as often as expected"
    return f"old cards: {_of_100(check)}"


def _button(check: Check) -> str:
    name = check.name.capitalize()
    share = f"{name}, {round(100 * check.count / max(check.of, 1))} of 100 answers"
    if check.says == "like Again":
        return "Hard is pressed for what you have forgotten"
    if check.says == "seldom":
        return f"{name}: hardly ever pressed"
    if check.says == "too many":
        return f"{share}: too many"
    if check.level == "look":
        return f"after {name}: {_of_100(check)}"
    return f"after {name}: {_as_expected(check) if check.level == 'fine' else _open(check)}"


def _as_expected(check: Check) -> str:
    assert check.recalled is not None
    assert check.expected is not None
    gap = check.recalled.estimate - check.expected
    is_better = gap > max(_MORE, check.recalled.half_width)
    return f"remembered {'better than' if is_better else 'as'} expected"


def _open(check: Check) -> str:
    return "too few to say" if check.says == "few" else "can't tell yet"


def _of_100(check: Check) -> str:
    """ "81 of 100 remembered, 90 expected"."""
    assert check.recalled is not None
    assert check.expected is not None
    recalled, expected = round(100 * check.recalled.estimate), round(100 * check.expected)
    return f"{recalled} of 100 remembered, {expected} expected"
