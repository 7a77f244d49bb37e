"""What is said of overdue cards, months without reviews, buttons, leeches: "Anything wrong?"."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from datetime import date

from srs_eval.advice.findings import Check, Checks, Finding, Level, of
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted

MARKS: Mapping[Level, str] = {"look": "!", "fine": "✓", "not yet": "?"}
_FAR = 1.75  # times as often as expected that is "twice"


def in_line(findings: Sequence[Finding]) -> str:
    """What is worth a look, "nothing" where nothing is."""
    looks = [each for each in of(findings[0], Checks).checks if each.level == "look"]
    return "; ".join(map(check_line, looks)) or "nothing that your reviews show"


def sentences(finding: Finding) -> list[str]:
    """What is worth a look, then all the rest."""
    return [f"{_upper(in_line([finding]))}."] + [
        said for check in of(finding, Checks).checks for said in check_sentences(check)
    ]


def tables(finding: Finding) -> list[Table]:
    """All checks, and the worst leeches."""
    checks = of(finding, Checks).checks
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            each.name,
            each.level,
            each.count,
            each.of or None,
            None if each.recalled is None else each.recalled.estimate,
            each.expected,
            each.minutes,
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
    match check.name:
        case "overdue":
            return _overdue(check)
        case "gap":
            return _days_without(check)
        case "leeches":
            return _leeches(check)
        case "suspended":
            of_all = "all" if check.count == check.of else f"{check.count:,} of"
            found = f"{of_all} {counted(check.of, 'card')} suspended"
            return found if check.count else "no card is suspended"
        case "steps":
            return _steps(check)
        case "old cards":
            return _old_cards(check)
    return _button(check)


def check_sentences(check: Check) -> tuple[str, ...]:
    """What stands behind Enter."""
    where = f" ({check.subject})" if check.subject else ""
    said = [f"{_upper(check_line(check))}{where}."]
    match check.name:
        case "overdue" if check.count:
            said.append(
                "That is one answer each at your usual pace, and a step for those forgotten, on "
                "the day after your last review."
            )
        case "leeches" if check.count:
            worst = check.leeches[0]
            said.append(
                f"The worst was forgotten {worst.lapses} of {worst.reviews} times, where "
                f"{worst.usual:.1f} times are usual after such intervals. At most about 5 "
                "in 100 such cards are named by chance. Rewrite them, or suspend them."
            )
        case "hard" if check.says == "like Again":
            said.append("Press Again for what you have forgotten: FSRS takes Hard as remembered.")
        case "old cards" if check.recalled is not None:
            said.append(f"These had rested for 21 days or more. {_of_100(check)}.")
        case "again" | "hard" | "easy" if check.recalled is not None:
            said.append(f"At the review after it: {_of_100(check)}.")
    return tuple(said)


def _overdue(check: Check) -> str:
    if not check.count:
        return "no card is overdue"
    minutes = round(check.minutes or 0.0)
    if minutes >= 120:
        time = f"{round(minutes / 60):,} hours"
    else:
        time = counted(max(minutes, 1), "minute")
    return f"{check.count:,} of {counted(check.of, 'card')} overdue: {time}"


def _days_without(check: Check) -> str:
    if check.since is not None:
        day = date.fromisoformat(check.since)
        return f"no review since {day.day} {calendar.month_abbr[day.month]} {day.year}"
    if check.level == "look":
        return f"{check.count} days without reviews in the last year"
    if not check.count:
        return "reviews on every day of late"
    return f"never over {counted(check.count, 'day')} without reviews of late"


def _leeches(check: Check) -> str:
    if check.level == "look":
        are = "card is" if check.count == 1 else "cards are"
        return f"{check.count:,} {are} forgotten far too often"
    fine = "no card is forgotten far too often"
    return fine if check.level == "fine" else "leeches: too few reviews to say"


def _steps(check: Check) -> str:
    if check.level == "look":
        return f"learning steps: {check.says}"
    fine = check.level == "fine"
    return "learning steps: as they should be" if fine else "learning steps: too few answers to say"


def _old_cards(check: Check) -> str:
    if check.level == "not yet":
        return f"old cards: {_open(check)}"
    if check.level == "fine":
        return "old cards: remembered as expected"
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
    return f"{share}: {'then as expected' if check.level == 'fine' else _open(check)}"


def _open(check: Check) -> str:
    return "too few to say" if check.says == "few" else "can't tell yet"


def _of_100(check: Check) -> str:
    """ "81 of 100 remembered, 90 expected"."""
    assert check.recalled is not None
    assert check.expected is not None
    recalled, expected = round(100 * check.recalled.estimate), round(100 * check.expected)
    return f"{recalled} of 100 remembered, {expected} expected"


def _upper(said: str) -> str:
    return said[:1].upper() + said[1:]
