"""What the buttons would show, in English."""

from __future__ import annotations

from srs_eval.advice.findings import Finding, of
from srs_eval.advice.tables import Table
from srs_eval.advice.workload.preview import Buttons

_DAY_S = 86_400.0


def sentences(finding: Finding) -> tuple[str]:
    desired = of(finding, Buttons).retention
    return (
        f"What the buttons would show at the desired retention of {desired:.2f}, for a new card "
        "and for typical ones that are answered when they are due.",
    )


def tables(finding: Finding) -> tuple[Table, ...]:
    found = of(finding, Buttons)
    return tuple(
        Table(
            f"Buttons by {candidate} at {found.retention:.2f}; Anki fuzzes 3 days and more",
            ("card", "Again", "Hard", "Good", "Easy"),
            tuple(
                (
                    f"{card.kind}, {card.interval} d" if card.interval else card.kind,
                    *map(as_anki_writes, card.seconds),
                )
                for card in cards
            ),
        )
        for candidate, cards in found.by_candidate
    )


def as_anki_writes(seconds: float) -> str:
    """ "10m", "3.1h", "12d", "1.4mo", "2.1y"."""
    units = (("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", _DAY_S), ("mo", 30 * _DAY_S))
    unit, length = "y", 365 * _DAY_S
    for (smaller, small), (_, limit) in zip(units, (*units[1:], (unit, length)), strict=True):
        if seconds < limit:
            unit, length = smaller, small
            break
    places = 0 if unit in ("s", "m", "d") else 1
    shown = f"{seconds / length:.{places}f}"
    return f"{shown.removesuffix('.0')}{unit}"
