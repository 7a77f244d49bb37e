"""What is said of what is remembered, and of the learner's days."""

from __future__ import annotations

import math
from collections.abc import Sequence

from srs_eval.advice.findings import (
    OPEN,
    Calibration,
    Days,
    DayState,
    Finding,
    Habit,
    Months,
    Part,
    Retention,
    of,
)
from srs_eval.advice.sentences import (
    difference_in_words,
    has_a_figure,
    in_groups,
    lacks,
    month_in_words,
    percent,
    share_bounds,
    share_range,
    signed,
    spanned,
    what_lacks,
)
from srs_eval.advice.tables import Table
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import Interval, side

_DESIRED = {
    "below": "less than desired",
    "no matter": "as desired",
    "above": "more than desired",
    OPEN: "can't tell yet",
    "not asked for": "recalled",
}
"""By how it is said what was found, those first of which something may follow."""


def _parts(found: Retention) -> list[tuple[Interval, str]]:
    """What makes for the difference from what is desired, as far as it is known: that which lies
    beyond zero on its side."""
    if found.says not in ("below", "above"):
        return []
    late, much = ("later", "much") if found.says == "below" else ("earlier", "little")
    causes = (
        (found.timing, f"as cards came {late} than that asks for"),
        (found.expecting, f"as FSRS expects too {much}"),
    )
    return [(part, why) for part, why in causes if side(part, 0.0) == found.says]


def retention_line(findings: Sequence[Finding]) -> str:
    """ "less than desired: Words 84.7 % (desired 90 %); as desired: Maps 90 % (desired 91 %)"."""
    groups: dict[str, list[tuple[str, str]]] = {each: [] for each in _DESIRED.values()}
    for finding in findings:
        found = of(finding, Retention)
        recalled, desired = found.parts[0].recalled, found.desired
        beside = [] if desired is None else [f"desired {percent(desired, 0)}"]
        if finding.missing is not None and not has_a_figure(recalled):
            beside.append(lacks(finding.missing, is_short=len(findings) > 1))
        elif found.says == OPEN:
            beside.append(share_range(recalled))
        parts = _parts(found)
        if parts:
            lost = "less" if found.says == "below" else "more"
            said = [f"{abs(100 * part.estimate):.1f} points {lost} {why}" for part, why in parts]
            beside = [": ".join([*beside, ", ".join(said)])]
        figure = f"{percent(recalled.estimate)} " if has_a_figure(recalled) else ""
        difference_in_words = f"{figure}({', '.join(beside)})" if beside else figure
        groups[_DESIRED[found.says]].append((finding.subject, difference_in_words.strip()))
    return in_groups({says: names for says, names in groups.items() if names})


def retention_sentences(finding: Finding) -> list[str]:
    """What is recalled, why it is not what is desired, what was expected."""
    found = of(finding, Retention)
    recalled, expected = found.parts[0].recalled, percent(found.parts[0].expected)
    figures = f"{percent(recalled.estimate)} recalled on {counted(recalled.reviews, 'review')} "
    figures += spanned(*share_bounds(recalled, 1), recalled)
    who = "FSRS, which is off, would have" if found.fsrs_is_off else "The parameters in force"
    last = f"{who} expected {expected} of these."
    if found.desired is None:
        nobody = "FSRS is off, so none was asked for" if found.fsrs_is_off else "not known"
        return [f"{figures}; desired: {nobody}.", last]
    lead = _DESIRED[found.says]
    first = f"{lead[0].upper()}{lead[1:]}: {figures}, {percent(found.desired)} desired."
    if finding.missing is not None:
        return [first, what_lacks(finding.missing), last]
    parts = [f"{_points(part)} {why}" for part, why in _parts(found)]
    return (
        [first, f"Of the difference in points: {', '.join(parts)}.", last]
        if parts
        else [first, last]
    )


def _points(part: Interval) -> str:
    """ "−12.1 (−13.4 … −10.8)"."""
    estimate, low, high = (signed(100 * each, 1) for each in (part.estimate, part.low, part.high))
    return f"{estimate} ({low} … {high})"


def retention_tables(finding: Finding) -> list[Table]:
    """All reviews, young and mature cards, months."""
    parts = of(finding, Retention).parts
    return [_of_parts(f"{finding.subject}: retention", "reviews of", parts)]


def _of_parts(title: str, of: str, parts: Sequence[Part]) -> Table:
    rows = [(each.name, each.recalled.reviews, each.recalled, each.expected) for each in parts]
    return Table(title, (of, "reviews", "recalled", "expected"), tuple(rows))


# When FSRS says 90 %


def says_line(findings: Sequence[Finding]) -> str:
    """ "90 %, you recall 88 % (86 … 90 %): less than it says"."""
    found = of(findings[0], Calibration)
    if found.near is None:
        return f"can't tell yet ({lacks(findings[0].missing)})"
    recalled = found.near.recalled
    words = {
        "below": "less than it says",
        "above": "more than it says",
        "no matter": "it means what it says",
    }.get(found.says, "can't tell yet whether it means what it says")
    off = " (it is off, and would)" if found.fsrs_is_off else ""
    said = f"{percent(found.near.expected, 0)}{off}"
    return f"{said}, you recall {percent(recalled.estimate, 0)} ({share_range(recalled)}): {words}"


def says_sentences(finding: Finding) -> list[str]:
    """The same of what is nearest to 90 %, and of all reviews."""
    found = of(finding, Calibration)
    if found.near is None:
        first = f"Can't tell yet: it {lacks(finding.missing)} with about the same prediction."
    else:
        first = f"When it says {says_line([finding])}."
    whole = found.whole
    return [
        first,
        f"Over all {counted(whole.recalled.reviews, 'review')} of later days it expected "
        f"{percent(whole.expected)}, and you recalled {percent(whole.recalled.estimate)}.",
        "The parameters in force may have been fitted to these reviews.",
    ]


def says_tables(finding: Finding) -> list[Table]:
    """By what it says."""
    bins = of(finding, Calibration).bins
    return [_of_parts("What Anki's FSRS says and what you recall", "when it says", bins)]


# Month by month

_PREDICTABLE = {
    "below": "more predictable than before",
    "above": "less predictable than before",
    "no matter": "about as predictable as before",
    OPEN: "can't tell yet whether more predictable than before",
}


def time_line(findings: Sequence[Finding]) -> str:
    """ "less predictable than before: recalled 81.2 %, expected 88.3 %"."""
    (finding,) = findings
    if finding.missing is not None:
        return f"can't tell yet ({lacks(finding.missing)})"
    found = of(finding, Months)
    last = found.months[-1]
    figures = f"recalled {percent(last.recalled.estimate)}, expected {percent(last.predicted)}"
    return f"{_PREDICTABLE[found.says]}: {figures}"


def time_sentences(finding: Finding) -> list[str]:
    """How the last month was, and by how much log loss differs from the months before."""
    first = f"{month_in_words(finding.subject)}: {time_line([finding])}."
    if finding.interval is None:
        return [first]
    return [
        first,
        f"The log loss of FSRS-6 on its {counted(finding.reviews, 'review')} is "
        f"{difference_in_words(finding.interval, 3)} than that of the months before.",
        "The more is recalled, the lower log loss is anyway.",
    ]


def time_tables(finding: Finding) -> list[Table]:
    """Month by month."""
    rows = [
        (each.name, each.reviews, each.recalled, each.predicted, each.log_loss)
        for each in of(finding, Months).months
    ]
    columns = ("month", "reviews", "recalled", "expected", "log loss")
    return [Table("Month by month, FSRS-6", columns, tuple(rows))]


# The learner's day

_DAYS_SHOWN = 14
_USUAL_RECALL = 0.9  # the card by which a state is put into words
_KNOWING = {
    "day": ("Your day", "knowing how it goes"),
    "hour": ("The time of day", "knowing it"),
    "session": ("The length of a session", "counting the day's reviews"),
}


def habit_line(findings: Sequence[Finding]) -> str:
    """ "hardly matters: knowing how it goes spares 2.1 % (1.5 … 2.7 %) of FSRS-6's error"."""
    (finding,) = findings
    found = of(finding, Habit)
    if found.worth is None:
        return "is unknown, this source has no clock times"
    ends = [f"{100 * e:.1f}".replace("-", "−") for e in (found.worth.estimate, found.worth.low)]
    high = percent(found.worth.high).replace("-", "−")
    spares = (
        f"{_KNOWING[finding.question][1]} spares {ends[0]} % ({ends[1]} … {high}) of FSRS-6's error"
    )
    if finding.missing is None:
        return f"{found.says}: {spares}"
    return f"can't tell yet whether it matters: {spares}; {lacks(finding.missing)}"


def habit_sentences(finding: Finding) -> list[str]:
    """Whether it matters, in log loss, and what that means."""
    colon = "" if finding.missing is None else ":"
    first = f"{_KNOWING[finding.question][0]}{colon} {habit_line([finding])}."
    if finding.interval is None:
        return [first]
    return [
        first,
        f"That makes the log loss of {counted(finding.reviews, 'held-out review')} "
        f"{difference_in_words(finding.interval)}.",
        "It says that errors come together, not why; no scheduler can know it ahead.",
    ]


def days_table(days: Sequence[DayState], title: str = "Your state day by day") -> Table:
    """The state of days: what it adds to the logits of recall."""
    columns = ("day", "reviews", "recalled", "expected", "state (logits)")
    rows = [
        (each.name, each.state.reviews, each.recalled, each.expected, each.state) for each in days
    ]
    return Table(title, columns, tuple(rows))


def today_line(findings: Sequence[Finding]) -> str:
    """ "more forgotten than usual since 2024-10-01: of what is usually recalled at 90 %, 81 %"."""
    found = of(findings[0], Days)
    odds = math.log(_USUAL_RECALL / (1 - _USUAL_RECALL)) + found.days[-1].state.estimate
    of_usual = f"of cards recalled at 90 % otherwise, about {percent(1 / (1 + math.exp(-odds)), 0)}"
    if found.says == "as usual":
        return f"as usual: {of_usual}"
    return f"{found.says} than usual since {found.since}: {of_usual}"


def today_sentences(finding: Finding) -> list[str]:
    """How the last day went."""
    return [f"On {of(finding, Days).days[-1].name}, your last day, {today_line([finding])}."]


def today_tables(finding: Finding) -> list[Table]:
    """The last days."""
    return [days_table(of(finding, Days).days[-_DAYS_SHOWN:], "Your last days")]
