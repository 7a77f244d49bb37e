"""Findings whose evidence is English, in one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from srs_eval.advice.findings import Finding, Worded
from srs_eval.advice.sentences import (
    FITTED,
    has_a_figure,
    listed,
    percent,
    span,
    told,
    too_few_in_short,
    why_open,
    would_tell,
)
from srs_eval.stats.intervals import Interval, enough_to_tell

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


def of(finding: Finding) -> Worded:
    """Its evidence."""
    assert isinstance(finding.evidence, Worded)
    return finding.evidence


def of_preset(finding: Finding, fsrs_is_off: bool) -> str:
    """How sure it is what to do with a preset, or what is missing to tell."""
    if finding.interval is None:
        return of(finding).why
    if of(finding).conclusion == "can't tell":
        return would_tell(finding.interval)
    if fsrs_is_off and finding.parameters is not None:
        return f"once FSRS is on: {told(finding.interval, 3, ' than not optimized')}"
    return told(finding.interval, 3)


def also_into(others: Sequence[str], are_all: bool, waiting: Sequence[str]) -> str:
    """Into which other presets the one line goes, and into which it does not yet."""
    same = "all others" if are_all and len(others) > 1 else listed(others)
    said = f"; the same into {same}" if same else ""
    if waiting:
        names = listed(waiting) if len(waiting) <= _MOST_NAMED else "the others"
        said += f"; not yet into {names}: can't tell there"
    return said


def headline(told: str, below: bool) -> str:
    """How well FSRS predicts; parameters to paste stand `below` it, if there are any."""
    return told.replace(FITTED, "with the line below pasted") if below else told


def in_one_line(findings: Sequence[Finding]) -> str:
    """The findings to one question in a sentence, presets with the same conclusion together."""
    first = findings[0]
    made = _LINES.get(first.question)
    if made is None:
        return of(first).brief or of(first).sentences[0]
    return made(findings)


def _often(findings: Sequence[Finding]) -> str:
    """ "at 25 % more reviews than last time is enough: Maps; can't tell yet: Words (…)"."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for each in findings:
        why = of(each).why if len(findings) == 1 else too_few_in_short(of(each).why)
        says = "can't tell yet"
        if of(each).conclusion != "can't tell":
            growth = of(each).conclusion.replace("at every +", "at ")
            says = f"{growth} more reviews than last time is enough"
        subjects.setdefault(says, []).append((each.subject, f"({why})" if why else ""))
    if len(findings) == 1 or (len(subjects) == 1 and not any(of(each).why for each in findings)):
        (says,) = subjects
        return f"{says} {subjects[says][0][1] if len(findings) == 1 else ''}".rstrip()
    return _by_conclusion(subjects)


def _hard(findings: Sequence[Finding]) -> str:
    return {
        "yes": "behaves like Again: press Again for what you have forgotten",
        "no": "used as it should be",
        "seldom": "hardly ever pressed: too seldom to matter",
    }.get(of(findings[0]).conclusion, "can't tell yet whether it behaves like Again")


def _time(findings: Sequence[Finding]) -> str:
    first = findings[0]
    if first.interval is None:
        return of(first).sentences[0]
    says = of(first).conclusion
    if says == "can't tell":
        says = "can't tell yet whether more predictable than before"
    return f"{says} {_bounds(first.interval)}"


def _split(findings: Sequence[Finding]) -> str:
    finding = findings[0]
    tables = of(finding).tables[:1]
    found = [each for table in tables for row in table.rows for each in row]
    intervals = [each for each in found if isinstance(each, Interval)]
    bounds = [f" {_bounds(each)}" for each in intervals] + ["", ""]
    match of(finding).conclusion:
        case "keep shared":
            fits = "one line of parameters fits all, separate ones gain nothing"
            return f"keep them: {fits}{bounds[0]}"
        case "pooled":
            return f"keep them apart, with parameters drawn to each other: better{bounds[1]}"
        case "split":
            return f"keep them apart, each with its own parameters: better{bounds[0]}"
    why = _open_bounds(intervals[0]) if intervals else ""
    return f"{MEANWHILE} {why}".rstrip()


def _remembered(findings: Sequence[Finding]) -> str:
    """ "less than desired: Words 84.7 % (desired 90 %); as desired: Maps 90 % (desired 91 %)"."""
    shown: dict[str, list[str]] = {}
    for finding in findings:
        table, says = of(finding).tables[0], of(finding).conclusion
        recalled, desired = table.column("recalled")["all"], table.column("desired")["all"]
        assert isinstance(recalled, Interval)
        beside = [f"desired {percent(desired, 0)}"] if isinstance(desired, float) else []
        if of(finding).why and has_a_figure(recalled):
            beside = [": ".join([*beside, of(finding).why])]
        elif not enough_to_tell(recalled):
            beside.append(too_few_in_short(why_open(recalled)))
        elif says == "can't tell":
            beside.append(f"{100 * recalled.low:.0f} … {100 * min(recalled.high, 1.0):.0f} %")
        says = "can't tell yet" if says == "can't tell" else says
        figure = f" {percent(recalled.estimate)}" if has_a_figure(recalled) else ""
        why = f" ({', '.join(beside)})" if beside else ""
        shown.setdefault(says, []).append(f"{finding.subject}{figure}{why}")
    order = sorted(shown, key=lambda says: says != "less than desired")
    return "; ".join(f"{says}: {listed(shown[says])}" for says in order)


_THAN = {
    "better": "better than",
    "worse": "worse than",
    "as good": "as good as",
    "can't tell yet": "can't tell yet whether better than",
}


def _against_older(findings: Sequence[Finding]) -> str:
    """ "better than SM-2 once optimized: Maps (.011 … .037 better); can't tell yet: Words".

    With why it can't be told.
    """
    shown: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        says, bounds = "can't tell yet", ""
        table = of(finding).tables[0] if of(finding).tables else None
        if table and table.columns[0] == "against":  # else nothing is held out
            _, difference, found = table.rows[0]  # against the older scheduler
            assert isinstance(difference, Interval)
            is_open = found == says
            bounds = _open_bounds(difference) if is_open else _bounds(difference)
            if is_open and len(findings) > 1 and not enough_to_tell(difference):
                bounds = f"({too_few_in_short(why_open(difference))})"
            says = says if is_open else f"{_THAN[str(found)]} SM-2 once optimized"
        if len(findings) == 1:
            return f"{says} {bounds}".rstrip()
        shown.setdefault(says, []).append((finding.subject, bounds))
    return _by_conclusion(shown)


def _against_what_there_was(findings: Sequence[Finding]) -> str:
    """ "better than SuperMemo SM-15 (.016 … .031 better); …, once optimized".

    Against what came with the reviews, else against SM-2, and against the floor.
    """
    from srs_eval.advice.candidates import OLDER, WITHOUT_PRESETS

    table = of(findings[0]).tables[0]
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
    return f"({span(difference, 3, '…')})"


def _open_bounds(difference: Interval) -> str:
    """The same of what can't be told yet; why not, where the bounds don't show it."""
    why, bounds = why_open(difference), _bounds(difference)
    if not why:
        return bounds
    few = not enough_to_tell(difference)
    return f"({why})" if few or not bounds else f"{bounds[:-1]}: {why})"


_LINES: Mapping[str, Callable[[Sequence[Finding]], str]] = {
    "split": _split,
    "often": _often,
    "hard": _hard,
    "retention": _remembered,
    "health": _against_older,
    "fit": _against_what_there_was,
    "time": _time,
}
"""By question; the others' lines are their findings' own words."""
