"""Findings whose evidence is English, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from srs_eval.advice.findings import Finding, Worded, of
from srs_eval.advice.tables import Cell


def in_one_line(findings: Sequence[Finding]) -> str:
    """The findings to one question in a sentence."""
    first = findings[0]
    if first.question == "costs":
        return _costs(findings)
    return of(first, Worded).brief or of(first, Worded).sentences[0]


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
