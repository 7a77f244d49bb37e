"""Findings whose evidence is English, in one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from srs_eval.advice.findings import Finding, Worded
from srs_eval.advice.sentences import (
    FITTED,
    in_groups,
    span,
    too_few_in_short,
    why_open,
)
from srs_eval.advice.tables import Cell
from srs_eval.stats.intervals import Interval, enough_to_tell

OPEN = ("can't tell", "can't tell yet")  # conclusions that are none


def of(finding: Finding) -> Worded:
    """Its evidence."""
    assert isinstance(finding.evidence, Worded)
    return finding.evidence


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


def _costs(findings: Sequence[Finding]) -> str:
    """ "Default: ~52 now; once optimized ~77 at 92 %, ~51 at 85 % (a first estimate; …)".

    With ranges "Default: ~52 now; once optimized 77 (57-101) at 92 %, … (90 % ranges, …)";
    where optimizing changes nothing "Default: ~54 at 92 % (now), ~41 at 85 % (…)".
    """
    from srs_eval.advice.workload.glance import FIRST
    from srs_eval.advice.workload.glance import NOW as AS_NOW

    finding = findings[0]
    rows = of(finding).tables[0].rows
    today = [row for row in rows if row[1] == AS_NOW]
    others = [row for row in rows if row[1] != AS_NOW]
    is_first = of(finding).says == FIRST
    known = "a first estimate, w tells more" if is_first else "90 % ranges, w tells more"
    mark = "~" * is_first

    def shown(which: Sequence[tuple[Cell, ...]]) -> list[str]:
        return [f"{mark}{reviews} at {at}" for at, _, reviews, _ in which]

    if not today:
        told = f"{', '.join(shown(others[:2]))}, were FSRS on and once optimized"
        told += f"; {of(finding).why}" if of(finding).why else ""
    elif any(row[0] == today[0][0] for row in others):
        # Today's retention first, then the one that is asked about beside it.
        ordered = sorted(others, key=lambda row: row[0] != today[0][0])
        told = f"~{today[0][2]} now; once optimized {', '.join(shown(ordered[:2]))}"
    else:
        told = f"{shown(today)[0]} (now), {', '.join(shown(others[:1]))}, once optimized"
    return f"{finding.subject}: {told} ({known})"


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
    return in_groups(shown)


def _against_what_there_was(findings: Sequence[Finding]) -> str:
    """ "better than SuperMemo SM-15 (.016 … .031 better); …, once optimized".

    Against what came with the reviews, else against SM-2, and against the floor.
    """
    from srs_eval.advice.candidates import SM2, WITHOUT_PRESETS

    table = of(findings[0]).tables[0]
    differences, verdicts = table.column("minus it"), table.column("verdict")
    brought = [name for name in differences if name not in (*WITHOUT_PRESETS, SM2)]
    said, once = [], ""
    for name in [*(brought or [SM2]), "average"]:
        difference, says = differences[name], verdicts[name]
        assert isinstance(difference, Interval)
        bounds = _open_bounds(difference) if says == "can't tell yet" else _bounds(difference)
        shown = {SM2: "SM-2", "average": "your average"}.get(name, name)
        said.append(f"{_THAN[str(says)]} {shown} {bounds}".rstrip())
        once = once if says == "can't tell yet" else ", once optimized"
    return "; ".join(said) + once


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
    "costs": _costs,
    "health": _against_older,
    "fit": _against_what_there_was,
}
"""By question; the others' lines are their findings' own words."""
