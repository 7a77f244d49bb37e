"""Estimates with their intervals drawn as dots with whiskers, one below another on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from srs_eval.stats.intervals import Interval

DOTS = {"best": "●", "as good": "●", "can't tell yet": "◌", "worse": "○", "below the floor": "×"}
"""A verdict's dot: none rests on colour."""
_STEPS = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """Which values the first and the last of `width` columns stand for."""

    low: float
    high: float
    width: int

    def column(self, value: float) -> int:
        """Where a value lies; beyond 0 ... width - 1 if it is not on the scale."""
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))


def common_scale(
    intervals: Iterable[Interval], width: int, reference: Interval | None = None
) -> Scale | None:
    """A scale for all intervals; None without any.

    One that lies well beyond `reference` (the floor, say) is left off, for it would press all
    others together.
    """
    shown = [each for each in intervals if math.isfinite(each.estimate)]
    if not shown or width < 8:
        return None
    best = min(shown, key=lambda each: each.estimate)
    if reference is not None:
        reach = 1.15 * max(reference.estimate - best.estimate, reference.half_width or 0.0)
        shown = [each for each in shown if each.estimate <= best.estimate + reach] or [best]
        shown.append(reference)
    ends = [end for each in shown for end in _ends(each)]
    low, high = min(ends), max(ends)
    room = max(high - low, 1e-6) * 0.02
    return Scale(low - room, high + room, width)


def whisker(
    interval: Interval, scale: Scale, dot: str, style: str, line: float | None, line_style: str
) -> Text:
    """ "├──●──┤" on the scale, with a vertical line at `line` behind it, crossed as "┼"."""
    cells = [" "] * scale.width
    styles = [""] * scale.width
    if line is not None and 0 <= scale.column(line) < scale.width:
        cells[scale.column(line)], styles[scale.column(line)] = "┊", line_style
    low, high = (scale.column(end) for end in _ends(interval))
    middle = scale.column(interval.estimate)
    last = scale.width - 1
    for column in range(max(low, 0), min(high, last) + 1):
        cells[column], styles[column] = "┼" if cells[column] == "┊" else "─", style
    if low != high:
        for column, end in ((low, "├"), (high, "┤")):
            if 0 <= column <= last:
                cells[column] = end
    if 0 <= middle <= last:
        cells[middle], styles[middle] = dot, style
    elif low > last or middle > last:
        cells[last], styles[last] = "▸", style
    runs = groupby(zip(cells, styles, strict=True), key=lambda each: each[1])
    return Text.assemble(*(("".join(cell for cell, _ in run), style) for style, run in runs))


def axis(scale: Scale, line: float | None, line_style: str) -> Text:
    """Labels of the scale, for a column's heading."""
    span = scale.high - scale.low
    least = span * 5.5 / scale.width  # a label and some room
    power = 10 ** math.floor(math.log10(least))
    step = next(power * each for each in _STEPS if power * each >= least * (1 - 1e-9))
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    cells = [" "] * scale.width
    value = math.ceil(scale.low / step) * step
    while value <= scale.high:
        label = f"{value:.{places}f}".replace("0.", ".", 1) if places else f"{value:.0f}"
        start = scale.column(value) - len(label) // 2
        if start >= 0 and start + len(label) <= scale.width:
            cells[start : start + len(label)] = label
        value += step
    text = Text("".join(cells), "dim")
    if line is not None and 0 <= scale.column(line) < scale.width:
        column = scale.column(line)
        if cells[column] == " ":
            return Text.assemble(text[:column], ("┊", line_style), text[column + 1 :])
    return text


def _ends(interval: Interval) -> tuple[float, float]:
    half = 0.0 if math.isnan(interval.half_width) else interval.half_width
    return interval.estimate - half, interval.estimate + half
