"""FSRS-6 in plain Python, written from its formulas, as an adapter of check_vectors.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import exp
from zoneinfo import ZoneInfo

NAME = "plain FSRS-6"
MODELS = ("FSRS-6",)
HIGHEST = 36500.0
"""The highest stability."""
LOWEST_KEPT = 2
"""The lowest rating that never shortens the stability on the same day."""


def clip(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


def compute_states(
    model: str, w: Sequence[float], reviews: Sequence[tuple[int, float]]
) -> list[tuple[float, float]]:
    """Return stability and difficulty after each review, as Anki computes them."""
    rating, _ = reviews[0]
    s = clip(w[rating - 1], 0.001, HIGHEST)
    d = clip(w[4] - exp(w[5] * (rating - 1)) + 1, 1, 10)
    states = [(s, d)]
    for rating, days in reviews[1:]:
        s = clip(compute_stability(w, s, d, rating, days), 0.001, HIGHEST)
        damped = d - w[6] * (rating - 3) * (10 - d) / 9
        d = clip(w[7] * (w[4] - exp(3 * w[5]) + 1) + (1 - w[7]) * damped, 1, 10)
        states.append((s, d))
    return states


def compute_stability(w: Sequence[float], s: float, d: float, rating: int, days: float) -> float:
    """Return the next stability, not yet clipped."""
    if days < 1:
        increase = exp(w[17] * (rating - 3 + w[18])) * s ** -w[19]
        if rating >= LOWEST_KEPT:
            increase = max(increase, 1.0)
        return s * increase
    r = (1 + (0.9 ** (-1 / w[20]) - 1) * days / s) ** -w[20]
    if rating == 1:
        forgotten = w[11] * d ** -w[12] * ((s + 1) ** w[13] - 1) * exp((1 - r) * w[14])
        return min(forgotten, s / exp(w[17] * w[18]))
    factor = {2: w[15], 3: 1.0, 4: w[16]}[rating]
    growth = exp(w[8]) * (11 - d) * s ** -w[9] * (exp((1 - r) * w[10]) - 1)
    return s * (1 + growth * factor)


def compute_intervals(
    model: str,
    w: Sequence[float],
    reviews: Sequence[tuple[int, float]],
    desired_retention: float,
) -> list[float]:
    days = (desired_retention ** (-1 / w[20]) - 1) / (0.9 ** (-1 / w[20]) - 1)
    return [s * days for s, _ in compute_states(model, w, reviews)]


def count_days(
    model: str, times: Sequence[str], time_zone: str, day_begins_at_hour: int
) -> list[int]:
    """Count days of 24 hours; they begin where they do at the last review's offset from UTC."""
    moments = [datetime.fromisoformat(time) for time in times]
    offset = moments[-1].astimezone(ZoneInfo(time_zone)).utcoffset()
    assert offset is not None
    shift = offset - timedelta(hours=day_begins_at_hour)
    days = [(moment + shift).date().toordinal() for moment in moments]
    previous = [days[0], *days[:-1]]
    return [day - before for day, before in zip(days, previous, strict=True)]
