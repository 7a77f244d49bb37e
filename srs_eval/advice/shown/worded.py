"""Findings whose evidence is English, in one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from srs_eval.advice.findings import Finding, Worded, of
from srs_eval.advice.sentences import (
    listed,
    span,
    told,
    why_open,
    would_tell,
)
from srs_eval.advice.tables import Cell
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


def of_preset(finding: Finding, fsrs_is_off: bool) -> str:
    """How sure it is what to do with a preset, or what is missing to tell."""
    if finding.interval is None:
        return of(finding, Worded).why
    if of(finding, Worded).says == "can't tell":
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


def in_one_line(findings: Sequence[Finding]) -> str:
    """The findings to one question in a sentence, presets with the same conclusion together."""
    first = findings[0]
    made = _LINES.get(first.question)
    if made is None:
        return of(first, Worded).brief or of(first, Worded).sentences[0]
    return made(findings)


def _split(findings: Sequence[Finding]) -> str:
    finding = findings[0]
    tables = of(finding, Worded).tables[:1]
    found = [each for table in tables for row in table.rows for each in row]
    intervals = [each for each in found if isinstance(each, Interval)]
    bounds = [f" {_bounds(each)}" for each in intervals] + ["", ""]
    match of(finding, Worded).says:
        case "keep shared":
            fits = "one line of parameters fits all, separate ones gain nothing"
            return f"keep them: {fits}{bounds[0]}"
        case "pooled":
            return f"keep them apart, with parameters drawn to each other: better{bounds[1]}"
        case "split":
            return f"keep them apart, each with its own parameters: better{bounds[0]}"
    why = _open_bounds(intervals[0]) if intervals else ""
    return f"{MEANWHILE} {why}".rstrip()


def _costs(findings: Sequence[Finding]) -> str:
    """ "Default: ~52 now; once optimized ~77 at 92 %, ~51 at 85 % (a first estimate; …)".

    With ranges "Default: ~52 now; once optimized 77 (57-101) at 92 %, … (90 % ranges, …)";
    where optimizing changes nothing "Default: ~54 at 92 % (now), ~41 at 85 % (…)".
    """
    from srs_eval.advice.workload.glance import FIRST
    from srs_eval.advice.workload.glance import NOW as AS_NOW

    finding = findings[0]
    rows = of(finding, Worded).tables[0].rows
    today = [row for row in rows if row[1] == AS_NOW]
    others = [row for row in rows if row[1] != AS_NOW]
    is_first = of(finding, Worded).says == FIRST
    known = "a first estimate, w tells more" if is_first else "90 % ranges, w tells more"
    mark = "~" * is_first

    def shown(which: Sequence[tuple[Cell, ...]]) -> list[str]:
        return [f"{mark}{reviews} at {at}" for at, _, reviews, _ in which]

    if not today:
        told = f"{', '.join(shown(others[:2]))}, were FSRS on and once optimized"
        told += f"; {of(finding, Worded).why}" if of(finding, Worded).why else ""
    elif any(row[0] == today[0][0] for row in others):
        # Today's retention first, then the one that is asked about beside it.
        ordered = sorted(others, key=lambda row: row[0] != today[0][0])
        told = f"~{today[0][2]} now; once optimized {', '.join(shown(ordered[:2]))}"
    else:
        told = f"{shown(today)[0]} (now), {', '.join(shown(others[:1]))}, once optimized"
    return f"{finding.subject}: {told} ({known})"


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
    "costs": _costs,
}
"""By question; the others' lines are their findings' own words."""
