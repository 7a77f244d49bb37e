"""What is said of what is remembered, and of the learner's days."""

from __future__ import annotations

import calendar
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import of
from srs_eval.advice.sentences import Bar, ByMonth, Item, Level, Line, Renderer, Table, percent
from srs_eval.advice.workload.estimate import held_out_of_all
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import Interval, side

_DESIRED = {
    "below": "less than desired",
    "no matter": "as desired",
    "above": "more than desired",
    f.OPEN: "can't tell yet",
    "not asked for": "recalled",
}
"""By how it is said what was found, those first of which something may follow."""


def _parts(found: f.Retention) -> list[tuple[Interval, str]]:
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


def _retention_line(findings: Sequence[f.Finding]) -> str:
    """ "less than desired: Words 84.7 % (desired 90 %); as desired: Maps 90 % (desired 91 %)"."""
    groups: dict[str, list[tuple[str, str]]] = {each: [] for each in _DESIRED.values()}
    for finding in findings:
        found = of(finding, f.Retention)
        recalled, desired = found.parts[0].recalled, found.desired
        beside = [] if desired is None else [f"desired {percent(desired, 0)}"]
        if finding.missing is not None and not say.has_a_figure(recalled):
            beside.append(say.lacks(finding.missing, is_short=len(findings) > 1))
        elif found.says == f.OPEN:
            beside.append(say.share_range(recalled))
        parts = _parts(found)
        if parts:
            lost = "less" if found.says == "below" else "more"
            said = [f"{abs(100 * part.estimate):.1f} points {lost} {why}" for part, why in parts]
            beside = [": ".join([*beside, ", ".join(said)])]
        figure = f"{percent(recalled.estimate)} " if say.has_a_figure(recalled) else ""
        difference_in_words = f"{figure}({', '.join(beside)})" if beside else figure
        groups[_DESIRED[found.says]].append((finding.subject, difference_in_words.strip()))
    return say.in_groups({says: names for says, names in groups.items() if names})


def _retention_sentences(finding: f.Finding) -> list[str]:
    """What is recalled, why it is not what is desired, what was expected."""
    found = of(finding, f.Retention)
    recalled, expected = found.parts[0].recalled, percent(found.parts[0].expected)
    beside = f"95 %: {' to '.join(say.share_bounds(recalled, 1))}"
    beside = beside if math.isfinite(recalled.half_width) else "one day has no interval"
    count = counted(recalled.reviews, "review")
    figures = f"{percent(recalled.estimate)} recalled on {count} ({beside})"
    who = "FSRS, which is off, would have" if found.fsrs_is_off else "The parameters in force"
    last = f"{who} expected {expected} of these."
    if found.desired is None:
        nobody = "FSRS is off, so none was asked for" if found.fsrs_is_off else "not known"
        return [f"{figures}; desired: {nobody}.", last]
    first = f"{say.capital(_DESIRED[found.says])}: {figures}, {percent(found.desired)} desired."
    if finding.missing is not None:
        return [first, say.what_lacks(finding.missing), last]
    parts = [f"{_points(part)} {why}" for part, why in _parts(found)]
    why = [f"Of the difference in points: {', '.join(parts)}."] if parts else []
    return [first, *why, last]


def _points(part: Interval) -> str:
    """ "−12.1 (−13.4 to −10.8)"."""
    estimate, low, high = (
        say.signed(100 * each, 1) for each in (part.estimate, part.low, part.high)
    )
    return f"{estimate} ({low} to {high})"


def _retention_tables(finding: f.Finding) -> list[Table]:
    """All reviews, young and old cards, months."""
    parts = of(finding, f.Retention).parts
    return [_of_parts(f"{finding.subject}: retention", "reviews of", parts)]


def _of_parts(title: str, of: str, parts: Sequence[f.Part]) -> Table:
    rows = [
        (_ROWS.get(each.name, each.name), each.recalled.reviews, each.recalled, each.expected)
        for each in parts
    ]
    return Table(title, (of, "reviews", "recalled", "expected"), tuple(rows))


# When FSRS says 90 %


def _says_line(findings: Sequence[f.Finding]) -> str:
    """ "90 %, you recall 88 % (86 to 90 %): less than it says"."""
    found = of(findings[0], f.Calibration)
    if found.near is None:
        return f"can't tell yet ({say.lacks(findings[0].missing)})"
    recalled = found.near.recalled
    means = "it means what it says"
    words = {"below": "less than it says", "above": "more than it says", "no matter": means}
    says = words.get(found.says, f"can't tell yet whether {means}")
    off = " (it is off, and would)" if found.fsrs_is_off else ""
    said = f"{percent(found.near.expected, 0)}{off}"
    return (
        f"{said}, you recall {percent(recalled.estimate, 0)} ({say.share_range(recalled)}): {says}"
    )


def _says_sentences(finding: f.Finding) -> list[str]:
    """The same of what is nearest to 90 %, and of all reviews."""
    found = of(finding, f.Calibration)
    if found.near is None:
        first = f"Can't tell yet: it {say.lacks(finding.missing)} with about the same prediction."
    else:
        first = f"When it says {_says_line([finding])}."
    whole = found.whole
    return [
        first,
        f"Over all {counted(whole.recalled.reviews, 'usable review')} it expected "
        f"{percent(whole.expected)}, and you recalled {percent(whole.recalled.estimate)}.",
        "The parameters in force may have been fitted to these reviews.",
    ]


def _says_tables(finding: f.Finding) -> list[Table]:
    """By what it says."""
    bins = of(finding, f.Calibration).bins
    return [_of_parts("What Anki's FSRS says and what you recall", "when it says", bins)]


# Month by month

_PREDICTABLE = {
    "below": "more predictable than before",
    "above": "less predictable than before",
    "no matter": "about as predictable as before",
    f.OPEN: "can't tell yet whether more predictable than before",
}


def _time_line(findings: Sequence[f.Finding]) -> str:
    """ "less predictable than before: recalled 81.2 %, expected 88.3 %"."""
    (finding,) = findings
    if finding.missing is not None:
        return f"can't tell yet ({say.lacks(finding.missing)})"
    found = of(finding, f.Months)
    last = found.months[-1]
    figures = f"recalled {percent(last.recalled.estimate)}, expected {percent(last.predicted)}"
    return f"{_PREDICTABLE[found.says]}: {figures}"


def _time_sentences(finding: f.Finding) -> list[str]:
    """How the last month was, and by how much log loss differs from the months before."""
    first = f"{say.month_in_words(finding.subject)}: {_time_line([finding])}."
    if finding.interval is None:
        return [first]
    return [
        first,
        f"The log loss of FSRS-6 on its {counted(finding.reviews, 'review')} is "
        f"{say.difference_in_words(finding.interval, 3)} than that of the months before.",
        "The more is recalled, the lower log loss is anyway.",
    ]


def _time_tables(finding: f.Finding) -> list[Table]:
    """Month by month."""
    rows = [
        (each.name, each.reviews, each.recalled, each.predicted, each.log_loss)
        for each in of(finding, f.Months).months
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


def _habit_line(findings: Sequence[f.Finding]) -> str:
    """ "hardly matters: knowing how it goes spares 2.1 % (1.5 to 2.7 %) of FSRS-6's error"."""
    (finding,) = findings
    found = of(finding, f.Habit)
    if found.worth is None:
        return "is unknown, this source has no clock times"
    if finding.missing is not None:
        return f"can't tell yet whether it matters ({say.lacks(finding.missing)})"
    ends = [f"{100 * e:.1f}".replace("-", "−") for e in (found.worth.estimate, found.worth.low)]
    high = percent(found.worth.high).replace("-", "−")
    spares = f"{_KNOWING[finding.question][1]} spares {ends[0]} % ({ends[1]} to {high})"
    spares += " of FSRS-6's error"
    return f"{found.says}: {spares}"


def _habit_sentences(finding: f.Finding) -> list[str]:
    """Whether it matters, in log loss, and what that means."""
    colon = "" if finding.missing is None else ":"
    first = f"{_KNOWING[finding.question][0]}{colon} {_habit_line([finding])}."
    if finding.interval is None or math.isnan(finding.interval.half_width):
        return [first]
    return [
        first,
        f"That makes the log loss of {counted(finding.reviews, 'evaluated review')} "
        f"{say.difference_in_words(finding.interval)}.",
        "It says that errors come together, not why; no scheduler can know it ahead.",
    ]


def days_table(days: Sequence[f.DayState], title: str = "Your state day by day") -> Table:
    """The state of days: what it adds to the logits of recall."""
    columns = ("day", "reviews", "recalled", "expected", "state (logits)")
    rows = [
        (each.name, each.state.reviews, each.recalled, each.expected, each.state) for each in days
    ]
    return Table(title, columns, tuple(rows))


def _today_line(findings: Sequence[f.Finding]) -> str:
    """ "more forgotten than usual since 2024-10-01: of what is usually recalled at 90 %, 81 %"."""
    found = of(findings[0], f.Days)
    odds = math.log(_USUAL_RECALL / (1 - _USUAL_RECALL)) + found.days[-1].state.estimate
    of_usual = f"of cards recalled at 90 % otherwise, about {percent(1 / (1 + math.exp(-odds)), 0)}"
    if found.says == "as usual":
        return f"as usual: {of_usual}"
    return f"{found.says} than usual since {found.since}: {of_usual}"


def _today_sentences(finding: f.Finding) -> list[str]:
    """How the last day went."""
    return [f"On {of(finding, f.Days).days[-1].name}, your last day, {_today_line([finding])}."]


def _today_tables(finding: f.Finding) -> list[Table]:
    """The last days."""
    return [days_table(of(finding, f.Days).days[-_DAYS_SHOWN:], "Your last days")]


# The second pane

_ROWS = {"all": "all", "young cards": "young cards", "mature cards": "old cards"}
_POINTS = 2  # of 100: less short of what was asked for is no matter
_FEWEST_OF_MONTH, _MOST_MONTHS = 30, 12  # reviews for a month to be shown; the last of these
_NOTES: Mapping[str, tuple[str, Level]] = {
    "": ("", ""),
    "look": ("◀ look", "look"),
    "few": ("too few", "not yet"),
}


def remembered(
    found: Mapping[str, f.Retention],
    months: f.Months | None,
    checks: Sequence[f.Check],
    *,
    of_gone_cards: bool = False,
) -> tuple[Line, tuple[Item, ...]] | None:
    """What is remembered in short and as bars, by preset or by months; None of nothing.

    `of_gone_cards`: most of it is of cards that are suspended or deleted.
    """
    parts = _all_together([each.parts for each in found.values()])
    if months is not None:
        by_month = [f.Part(each.name, each.recalled, each.predicted) for each in months.months]
        parts = {"all": _sum(by_month)} | {each.name: each for each in by_month}
    if not parts:
        return None
    asked = {name: each for name, each in found.items() if each.desired is not None}
    weights = [each.parts[0].recalled.reviews for each in asked.values()]
    desires = [each.desired or 0.0 for each in asked.values()]
    desired = float(np.average(desires, weights=weights)) if asked else None
    whole = parts["all"]
    rows = [name for name in _ROWS if name in parts]
    if rows == ["all", "young cards"]:  # they are all
        rows.pop()
    marks = {name: _mark(parts[name], desired) for name in rows}
    short = [name for name, each in asked.items() if each.says == "below"]
    if marks["all"] == "look" and not short:
        marks["all"] = "few"
    are_old_off = any(each.name == "old cards" and each.level == "look" for each in checks)
    if are_old_off and "mature cards" in marks:
        marks["mature cards"] = "look"
    if marks["all"] == "few":  # what is too few in all is too few in part
        marks = {name: mark and "few" for name, mark in marks.items()}
    columns = ("you", "expected") if desired is None else ("you", "asked", "expected")
    other = f"; {say.whole_of_100(whole.expected)} were expected"
    other = other if desired is None else f" and asked for {say.whole_of_100(desired)}"
    lead = Line(f"You remember {say.whole_of_100(whole.recalled.estimate)} of 100{other}.")
    if asked and all(each.says in ("no matter", "above") for each in asked.values()):
        lead = replace(lead, level="fine", mark="✓")
    if whole.recalled.reviews < f.FEWEST_SHOWN:
        few = counted(
            whole.recalled.reviews, "usable review" if months is None else "held-out review"
        )
        said = f"Only {few}: too few to go by."
        if of_gone_cards:
            said = f"Only {held_out_of_all(whole.recalled.reviews)}: too few."
        lead = Line(said, "not yet")
    bars = [_bar(_ROWS[name], parts[name], desired, marks[name]) for name in rows]
    items: list[Item] = [lead, say.Heading("of 100 reviews", columns), *bars]
    items += _why(asked, whole, marks["all"], short, desired)
    shown = {
        name: round(100 * part.recalled.estimate)
        for name, part in parts.items()
        if name[-1:].isdigit() and part.recalled.reviews >= _FEWEST_OF_MONTH
    }
    items += [ByMonth(_of_months(shown), spare=2)] if shown else []
    return lead, tuple(items)


def _mark(part: f.Part, desired: float | None) -> str:
    """Whether too little is remembered of what was asked for: "look", or "few" to say so by."""
    aim = part.expected if desired is None else desired
    if part.recalled.reviews < f.FEWEST_SHOWN and abs(_short_of(part, aim)) >= _POINTS:
        return "few"
    if desired is None or _short_of(part, desired) < _POINTS:
        return ""
    return "look" if part.recalled.high < desired else "few"


def _short_of(part: f.Part, desired: float) -> int:
    """Points, as the rounded figures have it."""
    return round(100 * desired) - round(100 * part.recalled.estimate)


def _bar(label: str, part: f.Part, desired: float | None, mark: str) -> Bar:
    figures = [part.recalled.estimate, *([desired] if desired is not None else []), part.expected]
    aim = part.expected if desired is None else desired
    note, level = _NOTES[mark]
    spare = {"young cards": 3, "all": 1}.get(label, 2 if mark == "few" else 0)
    said = tuple(map(say.whole_of_100, figures))
    return Bar(label, said, part.recalled.estimate, 0.0, aim, note, level, spare)


def _why(
    asked: Mapping[str, f.Retention],
    whole: f.Part,
    mark: str,
    short: Sequence[str],
    desired: float | None,
) -> Iterator[Line]:
    """What makes for the difference from what was asked for."""
    if mark == "look" and desired is not None:
        points = _short_of(whole, desired)
        weights = [each.parts[0].recalled.reviews for each in asked.values()]
        causes = [(each.timing.estimate, each.expecting.estimate) for each in asked.values()]
        late, much = -100 * np.average(causes, axis=0, weights=weights)
        said = f"Cards came late ({late:.0f} points), and FSRS expected too much ({much:.0f})."
        if late >= 3 * much:
            said = f"Most cards came late ({min(round(late), points)} of the {points} points)."
        elif much >= 3 * late:
            said = f"FSRS expected too much ({min(round(much), points)} of the {points} points)."
        yield Line(said, "look")
    elif short:
        worst = asked[short[0]]
        you = say.whole_of_100(worst.parts[0].recalled.estimate)
        wanted = say.whole_of_100(worst.desired or 0.0)
        said = f"{say.quoted(short[0])} falls short: you remember {you}, asked for {wanted}."
        yield Line(said, "look")


def _all_together(found: Sequence[Sequence[f.Part]]) -> dict[str, f.Part]:
    """The parts of all presets, months in their order."""
    by_name: dict[str, list[f.Part]] = {}
    for part in (part for parts in found for part in parts):
        by_name.setdefault(part.name, []).append(part)
    return {name: _sum(by_name[name]) for name in sorted(by_name)}


def _sum(parts: Sequence[f.Part]) -> f.Part:
    first, n = parts[0], [each.recalled.reviews for each in parts]
    mean = np.average([each.recalled.estimate for each in parts], weights=n)
    half = np.average([each.recalled.half_width for each in parts], weights=n)
    expected = np.average([each.expected for each in parts], weights=n)
    recalled = type(first.recalled)(mean, half, sum(n), first.recalled.days)
    return f.Part(first.name, recalled, expected)


def _of_months(shown: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """ "Oct" for "2024-10" of the last twelve months, "Oct ’24" of others; "month 2" for "days
    31-60"."""
    latest = list(shown)[-_MOST_MONTHS:]
    year, _, month = time.strftime("%Y-%m").partition("-")
    is_old = latest[0] <= f"{int(year) - 1}-{month}"
    names = []
    for name in latest:
        year, _, number = name.partition("-")
        if year.isdigit() and number.isdigit():
            names.append(calendar.month_abbr[int(number)] + f" ’{year[2:]}" * is_old)
        else:
            names.append(f"month {int(number) // 30}")
    return tuple(zip(names, (shown[name] for name in latest), strict=True))


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Retention: Renderer(_retention_sentences, _retention_line, _retention_tables),
    f.Calibration: Renderer(_says_sentences, _says_line, _says_tables),
    f.Months: Renderer(_time_sentences, _time_line, _time_tables),
    f.Habit: Renderer(_habit_sentences, _habit_line),
    f.Days: Renderer(_today_sentences, _today_line, _today_tables),
}
