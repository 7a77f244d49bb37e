"""Format figures for people, with their uncertainty and what they mean."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from srs_eval.data.protocol import Protocol

if TYPE_CHECKING:
    from srs_eval.metrics import Metrics
    from srs_eval.stats.intervals import Interval


def format_loss(interval: Interval, decimals: int = 3) -> str:
    """Format a mean and the half-width of its 95 % interval: "0.312 ±.011"."""
    return f"{interval.estimate:.{decimals}f}{format_half_width(interval.half_width, decimals)}"


def format_signed_difference(interval: Interval, decimals: int = 4) -> str:
    """Format a difference and the half-width of its 95 % interval: "+0.0021 ±.0012"."""
    estimate = with_sign(f"{interval.estimate:.{decimals}f}")
    return estimate + format_half_width(interval.half_width, decimals)


def with_sign(number: str, signed: bool = True) -> str:
    """Format a number with a true minus sign, and a plus sign if `signed`; 0 has no sign."""
    digits = number.removeprefix("-")
    if float(number) == 0:
        return digits
    if number.startswith("-"):
        return f"−{digits}"
    return f"+{digits}" if signed else digits


def format_half_width(width: float, decimals: int) -> str:
    """Format half the width of an interval: " ±.0012"; "" if there is none."""
    if math.isnan(width):
        return ""
    digits = f"{width:.{decimals}f}".removeprefix("0")
    return f" ±{digits}"


def format_improvement(interval: Interval) -> str:
    """Format a difference of log losses with its direction in a word: "0.0021 lower ±.0012"."""
    from srs_eval.advice.sentences import format_difference

    return format_difference(interval.estimate) + format_half_width(interval.half_width, 4)


def join_names(names: Sequence[str], limit: int = 8) -> str:
    """Join names as "A, B and C"; above `limit` names, count the rest: "A and 9 more"."""
    if len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} more"]
    if len(names) < 2:
        return ", ".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def format_relative_loss(share: float | None) -> str:
    """Format log loss relative to the average's: "13.6 % less" (better), "13.6 % more" (worse).

    `share` is (log loss - the average's) / the average's.
    """
    if share is None:
        return "–"
    if round(abs(100 * share), 1) == 0:
        return "no less"
    if abs(share) >= 9.995:
        text = ">999"
    elif abs(share) < 0.9995:
        text = f"{abs(100 * share):.1f}"
    else:
        text = f"{abs(100 * share):.0f}"
    return f"{text:>4} % {'less' if share < 0 else 'more'}"


def format_bar(fraction: float, width: int) -> str:
    """Return a progress bar of `width` characters."""
    full = round(max(0.0, min(1.0, fraction)) * width)
    return "▓" * full + "░" * (width - full)


def format_number(number: int) -> str:
    """Return a whole number with commas between thousands."""
    return f"{number:,}"


def format_ranges(ranges: Sequence[tuple[int, int]], limit: int = 5) -> str:
    """Format ranges of ids, given by first and last id: "3, 7-9 and more"."""
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:limit]]
    listing = ", ".join(texts)
    return f"{listing} and more" if len(ranges) > limit else listing


ROW_OWNERS: Mapping[str, str] = {"anki": "Anki's", "benchmark": "the benchmark's"}
"""Who counts the reviews of each rule for rows."""


def format_protocol(protocol: Protocol) -> str:
    """Return the rule for rows and every flag that differs from the default: "anki, secs"."""
    return ", ".join([protocol.rows, *list_flags(protocol)])


def list_flags(protocol: Protocol) -> list[str]:
    """List every flag that differs from the default: ["secs", "seed 7"]."""
    defaults = Protocol()
    flags = []
    for field in fields(Protocol):
        value = getattr(protocol, field.name)
        if field.name == "rows" or value == getattr(defaults, field.name):
            continue
        name = field.name.replace("_", " ")
        flags.append(name if value is True else f"{name} {value}")
    return flags


def truncate(text: str, width: int) -> str:
    """Truncate a text to `width` columns; a Chinese or Japanese character takes two."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    head = set_cell_size(text, max(width - 1, 0)).rstrip()
    return f"{head}…"


def shorten_middle(text: str, width: int) -> str:
    """Shorten a text in the middle to `width` columns, so that the end of a file name stays."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, width)
    head = (width - 1) // 2
    tail = set_cell_size(text[::-1], width - 1 - head)[::-1]
    return f"{set_cell_size(text, head)}…{tail}"


def format_metric(metrics: Metrics, field: str) -> str:
    """Format a figure of `metrics` for display."""
    from srs_eval.metrics import METRIC_INFO

    value = getattr(metrics, field)
    style = METRIC_INFO[field].style
    if value is None:
        return "–"
    if style == "%":
        return f"{100 * value:.2f} %"
    if style == "+%":
        return f"{with_sign(f'{100 * value:.2f}')} %"
    return f"{value:.{style}f}"


@dataclass(frozen=True)
class _Family:
    """A family of models that have something in common."""

    letter: str  # before the names of its models
    name: str
    meaning: str


FAMILIES: Mapping[str, _Family] = {
    "fsrs": _Family("F", "FSRS", "FSRS: difficulty, stability, retrievability"),
    "sm2": _Family("S", "SM-2", "SM-2 and its relatives"),
    "history": _Family("H", "formulas", "formulas over a card's history"),
    "neural": _Family("N", "networks", "neural networks"),
    "online": _Family("O", "learns", "learn while they are evaluated"),
    "baseline": _Family("–", "baseline", "predict without knowing the card: the baseline"),
    "other": _Family("·", "others", "others"),
}


def explain_letters(families: Collection[str]) -> str:
    """Explain the letters of some families: "F FSRS  S SM-2"."""
    explanations = []
    for key, family in FAMILIES.items():
        if key in families and family.letter.isalpha():
            explanations.append(f"{family.letter} {family.name}")
    return "  ".join(explanations)


def format_duration(seconds: float) -> str:
    """Format a duration in minutes and seconds, "1:50", with hours if there are any."""
    minutes, remaining_seconds = divmod(max(0, round(seconds)), 60)
    hours, remaining_minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{remaining_minutes:02}:{remaining_seconds:02}"
    return f"{minutes}:{remaining_seconds:02}"


def has_braille() -> bool:
    """Return whether the console's font has braille.

    Linux's own console has none, nor has the Windows console outside Windows Terminal.
    """
    if sys.platform == "win32":
        return "WT_SESSION" in os.environ or "TERM_PROGRAM" in os.environ
    return os.environ.get("TERM") != "linux"
