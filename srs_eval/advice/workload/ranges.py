"""Put ranges around simulated costs, and compare two schedules at equal memory.

A range covers what is not known of the learner's memory: each draw is a memory that the reviews
allow, simulated under the same schedule. It also covers what no draw shows, because the memory is
not FSRS: see `_MISFIT`.

Schedules are compared at equal memory, because minutes can always be saved by forgetting more: at
the desired retention at which optimized FSRS has the learner remember the same share of reviews, or
know as many cards, as today's schedule. Between simulated retentions the logarithm of minutes is
interpolated linearly in that of the share forgotten, or in the number of cards known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.data.reviews import FloatArray

FIGURES = ("reviews", "minutes", "known", "recalled", "over budget")
"""Reviews and minutes a day (mean over all days), cards known at the end, share of reviews passed,
and number of days above the budget."""
REVIEWS, MINUTES, KNOWN, RECALLED, OVER_BUDGET = range(len(FIGURES))

_RANGE_QUANTILES = (0.025, 0.5, 0.975)  # of the draws: lower end, middle and upper end of a range
_QUANTILE = 1.96  # standard deviations on each side of a 95 % range


@dataclass(frozen=True)
class _Misfit:
    """Errors of a figure that no draw shows, on the scale of `_to_scale`."""

    bias: float  # mean of the true figure minus the told one
    near: float  # standard deviation if as much is remembered as under today's schedule
    per_logit: float = 0.0  # what is added, as an independent error, for each logit from there

    def find_deviation(self, logits_away: FloatArray | float) -> FloatArray:
        """Return the standard deviation so many logits of the share remembered from today."""
        return np.hypot(self.near, self.per_logit * np.asarray(logits_away))


_MISFIT = {
    REVIEWS: _Misfit(bias=0.0, near=0.045, per_logit=0.03),
    MINUTES: _Misfit(bias=0.0, near=0.06, per_logit=0.12),
    KNOWN: _Misfit(bias=-0.02, near=0.025, per_logit=0.02),
    RECALLED: _Misfit(bias=-0.05, near=0.12, per_logit=0.1),
}
"""Misfit by figure, measured on learners whose memory is a power law, ACT-R or FSRS-6, with good
and bad days (`python benchmarks/ranges.py`). The model is not the memory, answers take longer where
recall is unlikely, and some days are skipped; the farther from what a learner has lived with, the
less is known."""
_COMPARISON_MISFIT = {
    RECALLED: _Misfit(bias=0.0, near=0.06),
    KNOWN: _Misfit(bias=0.04, near=0.06),
}
"""The same of the logarithm of FSRS's minutes as a multiple of today's, at equal memory."""

_TOLERANCE = 0.01  # share by which a comparison may lie beyond the simulated retentions
_TINY = 1e-9  # keeps logarithms and divisions finite


@dataclass(frozen=True)
class RangedFigure:
    """Figure with the ends of its 95 % range; without draws, the ends are the figure itself."""

    estimate: float
    low: float
    high: float

    @property
    def is_beyond_zero(self) -> bool:
        """Return True if the range leaves out zero."""
        return self.low > 0.0 or self.high < 0.0


@dataclass(frozen=True)
class EqualMemory:
    """Optimized FSRS where it gives the same memory as today's schedule."""

    retention: float  # desired retention to ask for
    minutes: float  # a day, as the mean over the simulated days
    extra_minutes: RangedFigure  # minus those of today's schedule; negative: FSRS saves them


@dataclass(frozen=True)
class EqualMinutes:
    """Optimized FSRS where it takes as many minutes as today's schedule."""

    retention: float  # desired retention to ask for
    recalled: float  # share of reviews remembered
    known: float  # cards known at the end


@dataclass(frozen=True)
class ScheduleComparison:
    """Today's schedule beside optimized FSRS, at equal memory and at equal minutes.

    Memory has two measures: the share of reviews remembered, and the cards known at the end. They
    can disagree, because a schedule that shows well-known cards too often is passed more often. A
    part is None if fewer than two retentions are simulated, or if none comes near.
    """

    recalled: float  # share remembered under today's schedule
    minutes: float  # that it takes a day
    known: float  # cards known at the end
    same_share: EqualMemory | None
    same_known: EqualMemory | None
    same_minutes: EqualMinutes | None


def find_ends(
    figures: FloatArray, draws: FloatArray, limits: Sequence[float], recalled_now: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends (..., FIGURES) of 95 % ranges around figures, from draws (n, ..., FIGURES).

    `limits` are the largest possible figures (FIGURES,), and `recalled_now` is the share remembered
    under today's schedule. Days over budget have no range: their ends are the figure.
    """
    lower_end = figures.copy()
    upper_end = figures.copy()
    logits_away = np.abs(_logit(figures[..., RECALLED]) - _logit(recalled_now))
    logits_away = np.nan_to_num(logits_away)  # shares are nan if there are no reviews
    for figure, misfit in _MISFIT.items():
        low, high = _find_ends_on_scale(
            _to_scale(figure, figures[..., figure]),
            _to_scale(figure, draws[..., figure]),
            misfit.bias,
            misfit.find_deviation(logits_away),
        )
        lower_end[..., figure] = _from_scale(figure, low)
        upper_end[..., figure] = _from_scale(figure, high)
    # A biased range may leave out its figure, which would look like a mistake.
    lower_end = np.minimum(np.maximum(lower_end, 0.0), figures)
    upper_end = np.maximum(np.minimum(upper_end, limits), figures)
    return lower_end, upper_end


def _find_ends_on_scale(
    estimate: float | FloatArray,
    draws: FloatArray,
    bias: float,
    deviation: float | FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a 95 % range on the scale of `_to_scale`.

    The spread of the draws (n, ...) around their median and the misfit, with its bias and standard
    deviation, add up as independent errors.
    """
    low, middle, high = np.quantile(draws, _RANGE_QUANTILES, axis=0)
    of_misfit = _QUANTILE * np.asarray(deviation)
    centre = np.asarray(estimate) + bias
    lower_end: FloatArray = centre - np.hypot(middle - low, of_misfit)
    upper_end: FloatArray = centre + np.hypot(high - middle, of_misfit)
    return lower_end, upper_end


def _logit(share: float | FloatArray) -> FloatArray:
    share = np.clip(share, 0.01, 0.999)
    result: FloatArray = np.log(share / (1.0 - share))
    return result


def _to_scale(figure: int, values: FloatArray) -> FloatArray:
    """Return logarithms; of a share remembered minus the logarithm of the share forgotten."""
    if figure == RECALLED:
        return -np.log(np.maximum(1.0 - values, _TINY))
    result: FloatArray = np.log(np.maximum(values, _TINY))
    return result


def _from_scale(figure: int, scaled: FloatArray) -> FloatArray:
    """Undo `_to_scale`."""
    if figure == RECALLED:
        return 1.0 - np.exp(-scaled)
    result: FloatArray = np.exp(scaled)
    return result


def compare_schedules(
    retentions: FloatArray,
    figures: FloatArray,
    current: FloatArray,
    draws: FloatArray | None,
    current_draws: FloatArray | None,
) -> ScheduleComparison:
    """Compare FSRS at r desired retentions with today's schedule.

    `figures` (r, FIGURES) and `current` (FIGURES,) are estimates; the draws (n, r, FIGURES) and
    (n, FIGURES) belong together, memory by memory.
    """
    pairs = None
    if draws is not None and current_draws is not None:
        pairs = list(zip(draws, current_draws, strict=True))
    return ScheduleComparison(
        recalled=float(current[RECALLED]),
        minutes=float(current[MINUTES]),
        known=float(current[KNOWN]),
        same_share=_compare_at_equal(RECALLED, retentions, figures, current, pairs),
        same_known=_compare_at_equal(KNOWN, retentions, figures, current, pairs),
        same_minutes=_compare_at_equal_minutes(retentions, figures, current),
    )


def _compare_at_equal(
    measure: int,
    retentions: FloatArray,
    figures: FloatArray,
    current: FloatArray,
    pairs: Sequence[tuple[FloatArray, FloatArray]] | None,
) -> EqualMemory | None:
    """Compare minutes where FSRS and today's schedule are equal in RECALLED or KNOWN.

    None for fewer than two retentions, or if none of them comes near.
    """
    rising = _select_rising(measure, figures)
    values = figures[rising, measure]
    if len(values) < 2:  # nothing to interpolate between
        return None
    margin = _TOLERANCE * float(values.max())
    is_within = values.min() - margin <= current[measure] <= values.max() + margin
    minutes = float(current[MINUTES])
    if not is_within or minutes <= 0.0:
        return None
    extra = _find_extra_log_minutes(measure, figures, current)
    ends = (extra, extra)
    if pairs is not None:
        by_draw = np.array([_find_extra_log_minutes(measure, *pair) for pair in pairs])
        misfit = _COMPARISON_MISFIT[measure]
        low, high = _find_ends_on_scale(extra, by_draw, misfit.bias, misfit.near)
        ends = (float(low), float(high))
    return EqualMemory(
        retention=_interpolate(
            _scale(measure, current[measure]), _scale(measure, values), retentions[rising]
        ),
        minutes=minutes * math.exp(extra),
        extra_minutes=RangedFigure(*(minutes * math.expm1(log) for log in (extra, *ends))),
    )


def _compare_at_equal_minutes(
    retentions: FloatArray, figures: FloatArray, current: FloatArray
) -> EqualMinutes | None:
    # Below some retention, forgetting costs more time than it saves: from there on minutes rise.
    rising = slice(int(np.argmin(figures[:, MINUTES])), None)
    minutes = figures[rising, MINUTES]
    if len(minutes) < 2 or not minutes[0] <= current[MINUTES] <= minutes[-1] or minutes[0] <= 0.0:
        return None
    at = math.log(float(current[MINUTES]))
    log_forgotten = _interpolate(at, np.log(minutes), _scale(RECALLED, figures[rising, RECALLED]))
    return EqualMinutes(
        retention=_interpolate(at, np.log(minutes), retentions[rising]),
        recalled=1.0 - math.exp(log_forgotten),
        known=_interpolate(at, np.log(minutes), figures[rising, KNOWN]),
    )


def _find_extra_log_minutes(measure: int, figures: FloatArray, current: FloatArray) -> float:
    """Return the logarithm of FSRS's minutes at equal memory, as a multiple of today's."""
    figures = figures[_select_rising(measure, figures)]
    log_minutes = np.log(np.maximum(figures[:, MINUTES], _TINY))
    at = _scale(measure, current[measure])
    at_equal_memory = _interpolate(at, _scale(measure, figures[:, measure]), log_minutes)
    return at_equal_memory - math.log(max(float(current[MINUTES]), _TINY))


def _select_rising(measure: int, figures: FloatArray) -> slice:
    """Return the retentions up to the one with the best memory.

    Beyond it, daily limits leave more cards undone than a higher retention makes up for.
    """
    return slice(0, int(np.argmax(figures[:, measure])) + 1)


def _scale(measure: int, values: float | FloatArray) -> FloatArray:
    """Return the measure on a scale on which log minutes are nearly linear."""
    values = np.asarray(values, np.float64)
    if measure == RECALLED:
        values = np.log(np.maximum(1.0 - values, _TINY))
    return values


def _interpolate(x: float | FloatArray, xs: FloatArray, ys: FloatArray) -> float:
    """Interpolate linearly at x; beyond the ends of xs, go on along the nearest two points."""
    if len(xs) == 1:
        return float(ys[0])
    order = np.argsort(xs, kind="stable")
    xs, ys = xs[order], ys[order]
    right = int(np.clip(np.searchsorted(xs, x), 1, len(xs) - 1))
    width = max(float(xs[right] - xs[right - 1]), _TINY)
    share = (float(x) - float(xs[right - 1])) / width
    return float(ys[right - 1] + share * (ys[right] - ys[right - 1]))
