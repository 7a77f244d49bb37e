"""Figures as people read them: a figure with its uncertainty, and what each one means."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from srs_eval.data.protocol import Protocol

if TYPE_CHECKING:
    from srs_eval.metrics import Metrics
    from srs_eval.report.document import Figure
    from srs_eval.stats.intervals import Interval


def loss(interval: Interval, places: int = 3) -> str:
    """ "0.312 ±.011": mean and half width of its 95 % interval."""
    return f"{interval.estimate:.{places}f}{half(interval.half_width, places)}"


def difference(interval: Interval, places: int = 4) -> str:
    """ "+0.0021 ±.0012": a difference and the half width of its 95 % interval."""
    return with_sign(f"{interval.estimate:.{places}f}") + half(interval.half_width, places)


def with_sign(number: str, signed: bool = True) -> str:
    """A number with a minus sign, and with a plus sign where wanted; 0 has none."""
    digits = number.removeprefix("-")
    if float(number) == 0:
        return digits
    return ("−" if number.startswith("-") else "+" if signed else "") + digits


def half(width: float, places: int) -> str:
    """ " ±.0012": half the width of an interval, "" where there is none."""
    return "" if math.isnan(width) else f" ±{f'{width:.{places}f}'.removeprefix('0')}"


def better(interval: Interval) -> str:
    """ "0.0021 better ±.0012": the same of log loss, with which side it is in a word."""
    from srs_eval.advice.sentences import better_by

    return better_by(interval.estimate) + half(interval.half_width, 4)


def p_value(figure: Figure) -> str:
    """ "0.012", "< 0.001": one that is not 0 is not written as 0."""
    return "< 0.001" if figure.value < 0.001 else f"{figure.value:.3f}"


THAN_AVERAGE = "than average"  # heads a column of `against_baseline`: "13.6 % less"


def against_baseline(share: float | None) -> str:
    """ "13.6 % less": how much less (better) or more log loss than the average has."""
    if share is None:
        return "–"
    if round(abs(100 * share), 1) == 0:
        return "no less"
    text = f"{abs(100 * share):.1f}" if abs(share) < 0.9995 else f"{abs(100 * share):.0f}"
    if abs(share) >= 9.995:
        text = ">999"
    return f"{text:>4} % {'less' if share < 0 else 'more'}"


def bar(fraction: float, width: int) -> str:
    """A progress bar of `width` characters."""
    full = round(max(0.0, min(1.0, fraction)) * width)
    return "▓" * full + "░" * (width - full)


def count(number: int) -> str:
    return f"{number:,}"


def protocol(chosen: Protocol) -> str:
    """The rule of rows and every flag that differs from the usual."""
    usual = Protocol()
    words: list[str] = [chosen.rows]
    for field in fields(Protocol):
        value = getattr(chosen, field.name)
        if field.name == "rows" or value == getattr(usual, field.name):
            continue
        name = field.name.replace("_", " ")
        words.append(name if value is True else f"{name} {value}")
    return ", ".join(words)


def cut(text: str, width: int) -> str:
    """Cut at the end, to `width` columns; a Chinese or Japanese character takes two."""
    from rich.cells import cell_len, set_cell_size

    kept = set_cell_size(text, max(width - 1, 0)).rstrip()
    return text if cell_len(text) <= width else f"{kept}…"


def shortened(text: str, width: int) -> str:
    """Cut in the middle, so that the end of a file name stays."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, width)
    head = (width - 1) // 2
    tail = set_cell_size(text[::-1], width - 1 - head)[::-1]
    return f"{set_cell_size(text, head)}…{tail}"


def metric(metrics: Metrics, field: str) -> str:
    """A figure of `metrics` as it is shown."""
    from srs_eval.metrics import FACTS

    value, style = getattr(metrics, field), FACTS[field].style
    if value is None:
        return "–"
    if style == "%":
        return f"{100 * value:.2f} %"
    if style == "+%":
        return f"{with_sign(f'{100 * value:.2f}')} %"
    return f"{value:.{style}f}"


@dataclass(frozen=True)
class _Family:
    """Models that have something in common."""

    letter: str  # before the names of its models
    name: str
    meaning: str


FAMILIES: Mapping[str, _Family] = {
    "fsrs": _Family("F", "FSRS", "FSRS: difficulty, stability, retrievability"),
    "sm2": _Family("S", "SM-2", "SM-2 and its kin"),
    "history": _Family("H", "formulas", "formulas over a card's history"),
    "neural": _Family("N", "networks", "neural networks"),
    "online": _Family("O", "learns", "learn while they are evaluated"),
    "baseline": _Family("–", "baseline", "know no card: the baseline"),
    "other": _Family("·", "others", "others"),
}


def letters(there: Collection[str]) -> str:
    """What the letters of the families that are there mean: "F FSRS  S SM-2"."""
    shown = (each for key, each in FAMILIES.items() if key in there and each.letter.isalpha())
    return "  ".join(f"{each.letter} {each.name}" for each in shown)


def clock(seconds: float) -> str:
    """Minutes and seconds, "1:50"; hours before them where there are any."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"
