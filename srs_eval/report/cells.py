"""Format the cells of tables for people: digits, signs, percent and intervals."""

from __future__ import annotations

import math

from srs_eval.report.formats import format_half_width, with_sign
from srs_eval.stats.tables import Cell, Column, Figure, Table

_MIN_DECIMALS = 3  # fewest decimals of a figure with its interval
_MAX_END_DECIMALS = 7  # most decimals of an interval's end near 0


def format_rows(table: Table) -> list[list[str]]:
    """Return the rows of a table as people read them."""
    return [list(map(format_cell, row, table.columns)) for row in table.rows]


def format_cell(cell: Cell, column: Column) -> str:
    """Format a cell for people: "0.325±0.0081", "−0.004 [−0.012, −0.001]", "–" for nothing."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case int():
            return f"{cell:,}"
    if math.isnan(cell.value):
        return "–"
    if column.format_figure is not None:
        return column.format_figure(cell)
    scale, unit = (100, " %") if column.percent else (1, "")
    value = scale * cell.value
    if cell.ends is not None and all(map(math.isfinite, cell.ends)):
        low, high = cell.ends
        return f"{_format_with_ends(value, scale * low, scale * high, column)}{unit}"
    half_width = scale * cell.known_half_width
    if column.round_by_interval and not math.isnan(half_width):
        text, half_width_text = _format_with_interval(value, half_width, column.decimals)
        return f"{with_sign(text, column.signed)}±{half_width_text}{unit}"
    text = f"{value:.{column.digits}f}"
    half_width_text = format_half_width(half_width, column.digits)
    return f"{with_sign(text, column.signed)}{half_width_text}{unit}"


def format_p_value(figure: Figure) -> str:
    """Format a p-value: "0.012", "< 0.001"; it is never written as 0."""
    return "< 0.001" if figure.value < 0.001 else f"{figure.value:.3f}"


def _format_with_ends(value: float, low: float, high: float, column: Column) -> str:
    """Format a figure with both ends of its interval: "−0.004 [−0.012, −0.001]".

    An end near 0 gets so many decimals that it does not read 0: a verdict rests on its sign.
    """
    digits = column.digits
    if column.round_by_interval:
        digits = column.decimals or _count_decimals((high - low) / 2)
    ends = [end for end in (low, high) if end]
    while digits < _MAX_END_DECIMALS and any(not round(end, digits) for end in ends):
        digits += 1
    value_text, low_text, high_text = (
        with_sign(f"{number:.{digits}f}", column.signed) for number in (value, low, high)
    )
    return f"{value_text} [{low_text}, {high_text}]"


def _format_with_interval(value: float, half_width: float, decimals: int = 0) -> tuple[str, str]:
    """Format a mean and its half-width with equal decimals, as srs-benchmark has since 2026.

    Without `decimals`, the half-width decides how many there are.
    """
    decimals = decimals or _count_decimals(half_width)
    half_width_text = f"{half_width:.{decimals}f}" if half_width else "0"
    return f"{value:.{decimals}f}", half_width_text


def _count_decimals(half_width: float) -> int:
    """Return the decimals for two significant digits of a half-width, but at least three.

    A half-width of 0 gets four.
    """
    if half_width == 0:
        return 4
    decimals = 1 - math.floor(math.log10(half_width))
    if round(half_width, decimals) >= 10 ** (2 - decimals):
        decimals -= 1  # rounding has added a digit: 0.0998 becomes 0.100
    return max(decimals, _MIN_DECIMALS)
