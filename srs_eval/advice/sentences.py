"""What answers say: figures in words, what is missing for a verdict, answers in one line."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Mapping, Sequence

from srs_eval.advice.answers import Answer, Cell
from srs_eval.data.errors import InputError, counted
from srs_eval.models.own_parameters import as_anki_runs
from srs_eval.stats.intervals import (
    EQUIVALENT,
    FEWEST_DAYS,
    FEWEST_REVIEWS,
    TOO_MANY_MORE,
    Interval,
    enough_to_tell,
    more_reviews,
)

UNANSWERED = "no answer"  # the conclusion where a question could not be answered
OPEN = ("can't tell", "can't tell yet")  # conclusions that are none
_MOST_NAMED = 3  # presets that do not get the one line yet
MEANWHILE = "can't tell yet: leave them as they are"  # of splitting
WAYS = {
    "optimize": "OPTIMIZE",
    "paste parameters": "PASTE THESE",
    "paste one line for all": "PASTE ONE LINE",
    "use the defaults": "USE DEFAULTS",
    "use one preset": "SHARE A PRESET",
    "can't tell": "can't tell yet",
}
"""What to do with a preset, by the conclusion."""
FITTED = "with parameters fitted to you"  # what a change to FSRS has to come with
FEWEST_SHOWN, FEWEST_DAYS_SHOWN = 300, 10
"""Below either no log loss of a preset is shown where nothing beside it tells; nor, below these
days, an interval of a part of the reviews."""

# Figures in words


def signed(value: float, places: int = 4) -> str:
    """ "+0.0021", "−0.0021"; of log loss take `better_by`, which tells what is good."""
    return f"{value:+.{places}f}".replace("-", "−")


def better_by(difference: float, places: int = 4) -> str:
    """ "0.0021 better": how a difference in log loss is told; in three places, ".002 better"."""
    return f"{_size(difference, places)} {_side(difference, places)}".rstrip()


def _span(interval: Interval, places: int = 4, to: str = "to") -> str:
    """ "0.0008 to 0.0034 better", "0.0008 better to 0.0021 worse": both ends of a difference."""
    low, high = (_side(end, places) for end in (interval.low, interval.high))
    first, last = interval.low, interval.high
    if low and high and low != high:
        return f"{better_by(first, places)} {to} {better_by(last, places)}"
    if abs(last) < abs(first):
        first, last = last, first
    return f"{_size(first, places)} {to} {better_by(last, places)}"


def told(interval: Interval, places: int = 4, than: str = "") -> str:
    """ "0.0021 better than it (0.0008 … 0.0034)": a difference with both ends, if it has any."""
    said = better_by(interval.estimate, places) + than
    if _is_open(interval):
        return said
    word = _side(interval.estimate, places)
    ends = _span(interval, places, "…")
    if len(ends.split()) == 4:  # both are on one side, and so is what lies between
        ends = ends.removesuffix(f" {word}")
    return f"{said} ({ends})"


def _size(difference: float, places: int) -> str:
    shown = f"{abs(difference):.{places}f}"
    return shown if places > 3 else shown.removeprefix("0")


def _side(difference: float, places: int) -> str:
    """Whether it is better or worse, as far as so many places show it."""
    if float(f"{abs(difference):.{places}f}") == 0:
        return ""
    return "better" if difference < 0 else "worse"


def sure(interval: Interval) -> str:
    """ "(95 %: 0.0008 to 0.0034 better)"."""
    return "(one day has no interval)" if _is_open(interval) else f"(95 %: {_span(interval)})"


def spanned(low: str, high: str, interval: Interval) -> str:
    """The bounds of an interval in words of one's own, if it has any."""
    return "(one day has no interval)" if _is_open(interval) else f"(95 %: {low} to {high})"


def _is_open(interval: Interval) -> bool:
    return not math.isfinite(interval.half_width)


def listed(names: Sequence[str]) -> str:
    """ "A", "A and B", "A, B and C"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def what_is_missing(difference: Interval, asked: int, margin: float = EQUIVALENT) -> str:
    """Why one can't tell yet, in a sentence; `asked` differences are judged together (Holm).

    `margin` is what does not matter.
    """
    if not enough_to_tell(difference):
        return f"A verdict needs {FEWEST_REVIEWS:,} such reviews on {FEWEST_DAYS} days."
    more = more_reviews(difference, equivalence=margin)
    hint = "" if more is None else f"at most about {more:,} more reviews like these would tell."
    if difference.low > 0 or difference.high < 0:
        why = (
            "The interval leaves out 0, but not by enough where "
            f"{asked} differences are judged together"
        )
        return f"{why}; {hint}" if hint else f"{why}."
    if hint:
        return hint[0].upper() + hint[1:]
    return f"More reviews won't tell soon: over {TOO_MANY_MORE} times as many are needed."


def would_tell(difference: Interval) -> str:
    """What is missing for a verdict, in a few words."""
    if not enough_to_tell(difference):
        return why_open(difference)
    more = more_reviews(difference)
    return "more won't tell soon" if more is None else f"up to {more:,} more reviews"


def where_to_paste(answer: Answer) -> str:
    """Where in Anki the answer's parameters go."""
    into, preset = "", f", preset {answer.subject}"
    if answer.question != "parameters":
        into, preset = " into the presets whose own lines say so", ""
    return (
        f"Paste it in Anki{into}: deck options{preset}, FSRS parameters "
        "(newer Anki: click that field 3 times first)."
    )


_NEEDS = "needs "


def needs(found: int, needed: int, thing: str = "review") -> str:
    """How many are missing, in a few words: what to wait for."""
    return f"{_NEEDS}{counted(needed - found, f'more {thing}')}"


def _too_few_in_short(why: str) -> str:
    """ "too few reviews" for "needs 213 more reviews", where several presets stand in a line.

    How many each of them lacks differs from question to question, and is told by its own answer.
    """
    if not why.startswith(_NEEDS):
        return why
    return "too few days" if why.endswith(("day", "days")) else "too few reviews"


def so_far(difference: Interval) -> str:
    """What there is to judge and what a verdict needs; "" where there is enough."""
    if difference.reviews < FEWEST_REVIEWS:
        can = f"{counted(difference.reviews, 'review')} can be judged so far"
        return f"{can}, a verdict needs {FEWEST_REVIEWS:,}"
    if difference.days < FEWEST_DAYS:
        can = f"reviews of {counted(difference.days, 'day')} can be judged so far"
        return f"{can}, a verdict needs {FEWEST_DAYS} days"
    return ""


def why_open(difference: Interval) -> str:
    """The same in a few words; "" where the interval itself shows it, for it holds 0."""
    if difference.reviews < FEWEST_REVIEWS:
        return needs(difference.reviews, FEWEST_REVIEWS)
    if difference.days < FEWEST_DAYS:
        return needs(difference.days, FEWEST_DAYS, "day")
    if difference.low > 0 or difference.high < 0:
        return "not enough where several are judged at once"
    return ""


def figures(difference: Interval, on: str = "", than: str = "") -> str:
    """ "log loss 0.0021 better than it on 1,000 reviews (95 %: …)", reviews named by `on`."""
    of = f" on {counted(difference.reviews, on)}" if on else ""
    return f"log loss {better_by(difference.estimate)}{than}{of} {sure(difference)}"


def on_days(reviews: int, days: int) -> str:
    """ "213 reviews on 1 day"."""
    return f"{counted(reviews, 'review')} on {counted(days, 'day')}"


def percent(share: float, places: int = 1) -> str:
    """ "84.7 %"."""
    return f"{100 * share:.{places}f} %"


def share_bounds(share: Interval, places: int) -> tuple[str, str]:
    """The bounds of a share in per cent, within 0 and 100."""
    return percent(max(share.low, 0.0), places), percent(min(share.high, 1.0), places)


def has_a_figure(found: Interval) -> bool:
    """Whether a log loss rests on so much that it is shown where nothing beside it tells."""
    return found.reviews >= FEWEST_SHOWN and found.days >= FEWEST_DAYS_SHOWN


# Parameters as a person writes them


def parsed_parameters(text: str) -> list[float]:
    """A parameter line as Anki shows it: numbers separated by commas or blanks."""
    try:
        values = [float(each) for each in text.replace(",", " ").strip(" []").split()]
    except ValueError:
        raise InputError(
            f'"{text[:40]}" is no list of FSRS parameters: give numbers separated by commas.'
        ) from None
    if not values:
        raise InputError("--params is empty: give 17, 19 or 21 numbers separated by commas.")
    return as_anki_runs(values)


def parameter_line(values: Sequence[float]) -> str:
    """A list as it can be pasted into Anki's deck options."""
    return ", ".join(f"{value:.4f}" for value in values)


def month_in_words(month: str) -> str:
    """ "October 2024" for "2024-10"; what is no calendar month as it is."""
    year, _, number = month.partition("-")
    if not (year.isdigit() and number.isdigit()):
        return month
    return f"{calendar.month_name[int(number)]} {year}"


# An answer in one line


def of_preset(answer: Answer, fsrs_is_off: bool) -> str:
    """How sure it is what to do with a preset, or what is missing to tell."""
    if answer.difference is None:
        return answer.why
    if answer.conclusion == "can't tell":
        return would_tell(answer.difference)
    if fsrs_is_off and answer.parameters is not None:
        return f"once FSRS is on: {told(answer.difference, 3, ' than not optimized')}"
    return told(answer.difference, 3)


def also_into(others: Sequence[str], are_all: bool, waiting: Sequence[str]) -> str:
    """Into which other presets the one line goes, and into which it does not yet."""
    same = "all others" if are_all and len(others) > 1 else listed(others)
    said = f"; the same into {same}" if same else ""
    if waiting:
        names = listed(waiting) if len(waiting) <= _MOST_NAMED else "the others"
        said += f"; not yet into {names}: can't tell there"
    return said


def headline(fit: Answer, below: bool) -> str:
    """How well FSRS predicts; parameters to paste stand `below` it, if there are any."""
    told = fit.sentences[0]
    return told.replace(FITTED, "with the line below pasted") if below else told


def unanswered(question: str, reason: str) -> Answer:
    """What stands for the answers to a question that has none."""
    return Answer(question, "all reviews", UNANSWERED, (f"Can't tell: {reason}.",))


def in_one_line(answers: Sequence[Answer]) -> str:
    """The answers to one question in a sentence, presets with the same conclusion together."""
    first = answers[0]
    made = _LINES.get(first.question)
    if made is None or first.conclusion == UNANSWERED:
        return first.brief or first.sentences[0]
    return made(answers)


def _often(answers: Sequence[Answer]) -> str:
    """ "at 25 % more reviews than last time is enough: Maps; can't tell yet: Words (…)"."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for each in answers:
        why = each.why if len(answers) == 1 else _too_few_in_short(each.why)
        says = "can't tell yet"
        if each.conclusion != "can't tell":
            growth = each.conclusion.replace("at every +", "at ")
            says = f"{growth} more reviews than last time is enough"
        subjects.setdefault(says, []).append((each.subject, f"({why})" if why else ""))
    if len(answers) == 1 or (len(subjects) == 1 and not any(each.why for each in answers)):
        (says,) = subjects
        return f"{says} {subjects[says][0][1] if len(answers) == 1 else ''}".rstrip()
    return _by_conclusion(subjects)


def _hard(answers: Sequence[Answer]) -> str:
    return {
        "yes": "behaves like Again: press Again for what you have forgotten",
        "no": "used as it should be",
        "seldom": "hardly ever pressed: too seldom to matter",
    }.get(answers[0].conclusion, "can't tell yet whether it behaves like Again")


def _time(answers: Sequence[Answer]) -> str:
    first = answers[0]
    if first.difference is None:
        return first.sentences[0]
    says = first.conclusion
    if says == "can't tell":
        says = "can't tell yet whether more predictable than before"
    return f"{says} {_bounds(first.difference)}"


def _split(answers: Sequence[Answer]) -> str:
    answer = answers[0]
    tables = answer.tables[:1]
    found = [each for table in tables for row in table.rows for each in row]
    intervals = [each for each in found if isinstance(each, Interval)]
    bounds = [f" {_bounds(each)}" for each in intervals] + ["", ""]
    match answer.conclusion:
        case "keep shared":
            fits = "one line of parameters fits all, separate ones gain nothing"
            return f"keep them: {fits}{bounds[0]}"
        case "pooled":
            return f"keep them apart, with parameters drawn to each other: better{bounds[1]}"
        case "split":
            return f"keep them apart, each with its own parameters: better{bounds[0]}"
    why = _open_bounds(intervals[0]) if intervals else ""
    return f"{MEANWHILE} {why}".rstrip()


def _costs(answers: Sequence[Answer]) -> str:
    """ "Default: ~52 now; once optimized ~77 at 92 %, ~51 at 85 % (a first estimate; …)".

    With ranges "Default: ~52 now; once optimized 77 (57-101) at 92 %, … (90 % ranges, …)";
    where optimizing changes nothing "Default: ~54 at 92 % (now), ~41 at 85 % (…)".
    """
    from srs_eval.advice.workload.answers import FIRST
    from srs_eval.advice.workload.answers import NOW as AS_NOW

    answer = answers[0]
    if not answer.tables:  # too few reviews
        return answer.sentences[0]
    rows = answer.tables[0].rows
    today = [row for row in rows if row[1] == AS_NOW]
    others = [row for row in rows if row[1] != AS_NOW]
    is_first = answer.conclusion == FIRST
    known = "a first estimate, w tells more" if is_first else "90 % ranges, w tells more"
    mark = "~" * is_first

    def shown(which: Sequence[tuple[Cell, ...]]) -> list[str]:
        return [f"{mark}{reviews} at {at}" for at, _, reviews, _ in which]

    if not today:
        told = f"{', '.join(shown(others[:2]))}, were FSRS on and once optimized"
        told += f"; {answer.why}" if answer.why else ""
    elif any(row[0] == today[0][0] for row in others):
        # Today's retention first, then the one that is asked about beside it.
        ordered = sorted(others, key=lambda row: row[0] != today[0][0])
        told = f"~{today[0][2]} now; once optimized {', '.join(shown(ordered[:2]))}"
    else:
        told = f"{shown(today)[0]} (now), {', '.join(shown(others[:1]))}, once optimized"
    return f"{answer.subject}: {told} ({known})"


def _remembered(answers: Sequence[Answer]) -> str:
    """ "less than desired: Words 84.7 % (desired 90 %); as desired: Maps 90 % (desired 91 %)"."""
    shown: dict[str, list[str]] = {}
    for answer in answers:
        table, says = answer.tables[0], answer.conclusion
        recalled, desired = table.column("recalled")["all"], table.column("desired")["all"]
        assert isinstance(recalled, Interval)
        beside = [f"desired {percent(desired, 0)}"] if isinstance(desired, float) else []
        if answer.why and has_a_figure(recalled):
            beside = [": ".join([*beside, answer.why])]
        elif not enough_to_tell(recalled):
            beside.append(_too_few_in_short(why_open(recalled)))
        elif says == "can't tell":
            beside.append(f"{100 * recalled.low:.0f} … {100 * min(recalled.high, 1.0):.0f} %")
        says = "can't tell yet" if says == "can't tell" else says
        figure = f" {percent(recalled.estimate)}" if has_a_figure(recalled) else ""
        why = f" ({', '.join(beside)})" if beside else ""
        shown.setdefault(says, []).append(f"{answer.subject}{figure}{why}")
    order = sorted(shown, key=lambda says: says != "less than desired")
    return "; ".join(f"{says}: {listed(shown[says])}" for says in order)


_THAN = {
    "better": "better than",
    "worse": "worse than",
    "as good": "as good as",
    "can't tell yet": "can't tell yet whether better than",
}


def _against_older(answers: Sequence[Answer]) -> str:
    """ "better than SM-2 once optimized: Maps (.011 … .037 better); can't tell yet: Words".

    With why it can't be told.
    """
    shown: dict[str, list[tuple[str, str]]] = {}
    for answer in answers:
        says, bounds = "can't tell yet", ""
        table = answer.tables[0] if answer.tables else None
        if table and table.columns[0] == "against":  # else nothing is held out
            _, difference, found = table.rows[0]  # against the older scheduler
            assert isinstance(difference, Interval)
            is_open = found == says
            bounds = _open_bounds(difference) if is_open else _bounds(difference)
            if is_open and len(answers) > 1 and not enough_to_tell(difference):
                bounds = f"({_too_few_in_short(why_open(difference))})"
            says = says if is_open else f"{_THAN[str(found)]} SM-2 once optimized"
        if len(answers) == 1:
            return f"{says} {bounds}".rstrip()
        shown.setdefault(says, []).append((answer.subject, bounds))
    return _by_conclusion(shown)


def _against_what_there_was(answers: Sequence[Answer]) -> str:
    """ "better than SuperMemo SM-15 (.016 … .031 better); …, once optimized".

    Against what came with the reviews, else against SM-2, and against the floor.
    """
    from srs_eval.advice.candidates import OLDER, WITHOUT_PRESETS

    table = answers[0].tables[0]
    differences, verdicts = table.column("minus it"), table.column("verdict")
    brought = [name for name in differences if name not in WITHOUT_PRESETS]
    said, once = [], ""
    for name in [*(brought or [OLDER]), "average"]:
        difference, says = differences[name], verdicts[name]
        assert isinstance(difference, Interval)
        bounds = _open_bounds(difference) if says == "can't tell yet" else _bounds(difference)
        shown = {OLDER: "SM-2", "average": "your average"}.get(name, name)
        said.append(f"{_THAN[str(says)]} {shown} {bounds}".rstrip())
        once = once if says == "can't tell yet" else ", once optimized"
    return "; ".join(said) + once


def _by_conclusion(subjects: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """ "better: A (.01 … .03 better); can't tell yet: B": what is said, and of what."""
    return "; ".join(f"{says}: {_together(names)}" for says, names in subjects.items())


def _together(subjects: Sequence[tuple[str, str]]) -> str:
    """ "A (.01 … .03 better), B and C (too few reviews)": names with what is said of them."""
    by_reason: dict[str, list[str]] = {}
    for name, why in subjects:
        by_reason.setdefault(why, []).append(name)
    said = [f"{listed(names)} {why}".rstrip() for why, names in by_reason.items()]
    return listed(said) if len(subjects) == len(said) else ", ".join(said)


def _bounds(difference: Interval) -> str:
    """ "(.011 … .037 better)", "(.004 better … .002 worse)": the 95 % interval, if there is one."""
    if not math.isfinite(difference.half_width):
        return ""
    return f"({_span(difference, 3, '…')})"


def _open_bounds(difference: Interval) -> str:
    """The same of what can't be told yet; why not, where the bounds don't show it."""
    why, bounds = why_open(difference), _bounds(difference)
    if not why:
        return bounds
    few = not enough_to_tell(difference)
    return f"({why})" if few or not bounds else f"{bounds[:-1]}: {why})"


_LINES: Mapping[str, Callable[[Sequence[Answer]], str]] = {
    "split": _split,
    "often": _often,
    "costs": _costs,
    "hard": _hard,
    "retention": _remembered,
    "health": _against_older,
    "fit": _against_what_there_was,
    "time": _time,
}
"""By question; the others' lines are their answers' own words."""
