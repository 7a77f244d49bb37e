"""Put ranges around simulated costs, and compare two schedules at equal memory.

A range covers what is not known of the learner's memory: each draw is a memory that the reviews
allow, simulated under the same schedule. It also covers what no draw shows, because the memory is
not FSRS: see `_MISFIT`.

Schedules are compared at equal memory, because minutes can always be saved by forgetting more: at
the desired retention at which optimized FSRS has the learner remember the same share of reviews, or
know as many cards, as today's schedule. Between simulated retentions log(minutes) is interpolated
linearly in log(share forgotten), or in the number of cards known. Beyond the simulated retentions
nothing is compared.

The last axis of an array of figures has the order of `FIGURES`.
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
"""Positions of the figures."""

_RANGE_QUANTILES = (0.025, 0.5, 0.975)  # of the draws: lower end, middle and upper end of a range
_QUANTILE = 1.96  # standard deviations on each side of a 95 % range


@dataclass(frozen=True)
class _Misfit:
    """Errors of an estimate that no draw shows, on the scale of `_to_range_scale`.

    The share remembered, as a logit, may lie away from that under today's schedule. The farther it
    lies, the larger are the errors.
    """

    bias: float  # mean of the true figure minus the estimate
    near: float  # standard deviation if as much is remembered as today
    per_logit: float = 0.0  # standard deviation of a further, independent error for each logit away
    bias_per_logit: float = 0.0  # added to the bias for each logit above today

    def compute_deviation(self, logits_away: FloatArray) -> FloatArray:
        """Return the standard deviation of all errors."""
        return np.hypot(self.near, self.per_logit * logits_away)


_MISFIT = {
    REVIEWS: _Misfit(bias=0.0, near=0.045, per_logit=0.03),
    MINUTES: _Misfit(bias=-0.02, near=0.055, per_logit=0.06, bias_per_logit=-0.06),
    KNOWN: _Misfit(bias=-0.015, near=0.012, per_logit=0.04),
    RECALLED: _Misfit(bias=-0.05, near=0.12, per_logit=0.1),
}
"""Misfit by figure, measured on learners whose memory is a power law, ACT-R or FSRS-6, with good
and bad days (`python benchmarks/ranges.py`). The model is not the memory, answers take longer where
recall is unlikely, and some days are skipped; the farther from what a learner has experienced,
the less is known."""
_COMPARISON_MISFIT = {
    RECALLED: _Misfit(bias=0.0, near=0.06),
    KNOWN: _Misfit(bias=0.0, near=0.06),
}
"""Misfit of the logarithm of FSRS's minutes as a multiple of today's, by the measure of memory in
which both are equal."""
_KNOWN_PER_LOGIT = 0.016
"""What FSRS-6 misses of log(cards known at the end) when recall falls by a logit below today's:
in the next year, more is forgotten than it predicts. Measured as the mean over three kinds of
memory (`python benchmarks/ranges.py`): power laws and ACT-R lose more, FSRS-6 itself nothing."""

_SHARE_LIMITS = (0.01, 0.999)  # keep logits of shares remembered finite
_MIN_COMPARED_DRAWS = 0.9
"""Share of the draws in which the simulated retentions have to reach today's memory. The others say
nothing about equal memory, and are left out of the range."""
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
    part is None if the simulated retentions do not lie on both sides of today's schedule.
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
    """Return the lower and upper ends of 95 % ranges around figures (..., 5) from n draws of them.

    The draws are (n, ..., 5), and `limits` (5,) are the largest possible figures. `recalled_now` is
    the share remembered under today's schedule. Days over budget have no range: both ends are the
    figure.
    """
    lower_end = figures.copy()
    upper_end = figures.copy()
    logits_above = _logit(figures[..., RECALLED]) - _logit(recalled_now)
    logits_above = np.nan_to_num(logits_above)  # shares are nan if there are no reviews
    for figure, misfit in _MISFIT.items():
        low, high = _find_ends_on_scale(
            _to_range_scale(figure, figures[..., figure]),
            _to_range_scale(figure, draws[..., figure]),
            misfit.bias + misfit.bias_per_logit * logits_above,
            misfit.compute_deviation(np.abs(logits_above)),
        )
        lower_end[..., figure] = _from_range_scale(figure, low)
        upper_end[..., figure] = _from_range_scale(figure, high)
    lower_end = np.maximum(lower_end, 0.0)
    upper_end = np.minimum(upper_end, limits)
    # A biased range may leave out its figure, which would look like a mistake.
    return np.minimum(lower_end, figures), np.maximum(upper_end, figures)


def _find_ends_on_scale(
    estimate: float | FloatArray,
    draws: FloatArray,
    bias: float | FloatArray,
    deviation: float | FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a 95 % range around an estimate, all on a scale with symmetric errors.

    The spread of the draws (n, ...) around their median and the misfit, of which `bias` and
    `deviation` are given, add up as independent errors.
    """
    low, median, high = np.quantile(draws, _RANGE_QUANTILES, axis=0)
    misfit_half_width = _QUANTILE * np.asarray(deviation)
    centre = np.asarray(estimate) + bias
    lower_end: FloatArray = centre - np.hypot(median - low, misfit_half_width)
    upper_end: FloatArray = centre + np.hypot(high - median, misfit_half_width)
    return lower_end, upper_end


def _logit(share: float | FloatArray) -> FloatArray:
    share = np.clip(share, *_SHARE_LIMITS)
    result: FloatArray = np.log(share / (1.0 - share))
    return result


def _to_range_scale(figure: int, values: FloatArray) -> FloatArray:
    """Return log(figures); for a share remembered, -log(1 - share)."""
    if figure == RECALLED:
        return -np.log(np.maximum(1.0 - values, _TINY))
    result: FloatArray = np.log(np.maximum(values, _TINY))
    return result


def _from_range_scale(figure: int, scaled: FloatArray) -> FloatArray:
    """Undo `_to_range_scale`."""
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
    *,
    by_model: bool = True,
) -> ScheduleComparison:
    """Compare FSRS at r desired retentions with today's schedule.

    The retentions must ascend: a range of them is cut out where memory is best or minutes are
    fewest. `figures` (r, 5) and `current` (5,) are estimates; the draws (n, r, 5) and (n, 5) are of
    the same n memories. Without draws, the ends of ranges are the estimates. `by_model` is False
    for figures that are known and not computed by FSRS-6, which expects too many known cards.
    """
    pairs = None
    if draws is not None and current_draws is not None:
        pairs = list(zip(draws, current_draws, strict=True))
    by_known = figures
    pairs_by_known = pairs
    if by_model:
        by_known = _correct_known(figures, current)
        if pairs is not None:
            pairs_by_known = [(_correct_known(drawn, now), now) for drawn, now in pairs]
    return ScheduleComparison(
        recalled=float(current[RECALLED]),
        minutes=float(current[MINUTES]),
        known=float(current[KNOWN]),
        same_share=_compare_at_equal(RECALLED, retentions, figures, current, pairs),
        same_known=_compare_at_equal(KNOWN, retentions, by_known, current, pairs_by_known),
        same_minutes=_compare_at_equal_minutes(retentions, figures, current),
    )


def _correct_known(figures: FloatArray, current: FloatArray) -> FloatArray:
    """Return the figures (r, 5) with as many known cards as there will be beside today's."""
    logits_above = _logit(figures[:, RECALLED]) - _logit(current[RECALLED])
    corrected = figures.copy()
    corrected[:, KNOWN] *= np.exp(_KNOWN_PER_LOGIT * np.nan_to_num(logits_above))
    return corrected


def _compare_at_equal(
    measure: int,
    retentions: FloatArray,
    figures: FloatArray,
    current: FloatArray,
    pairs: Sequence[tuple[FloatArray, FloatArray]] | None,
) -> EqualMemory | None:
    """Compare minutes where FSRS and today's schedule have the same memory.

    `measure` of memory is RECALLED or KNOWN; `pairs` are the draws of `figures` and `current`.
    Return None if the retentions do not reach today's schedule, by the estimate or by too many
    draws.
    """
    up_to_best = _select_up_to_best(measure, figures)
    memory = figures[up_to_best, measure]
    minutes_now = float(current[MINUTES])
    log_ratio = _find_log_minutes_ratio(measure, figures, current)
    if log_ratio is None or minutes_now <= 0.0:
        return None
    low = log_ratio
    high = log_ratio
    if pairs is not None:
        log_ratios = []
        for drawn_figures, drawn_current in pairs:
            drawn_ratio = _find_log_minutes_ratio(measure, drawn_figures, drawn_current)
            if drawn_ratio is not None:
                log_ratios.append(drawn_ratio)
        if len(log_ratios) < _MIN_COMPARED_DRAWS * len(pairs):
            return None
        misfit = _COMPARISON_MISFIT[measure]
        lower_end, upper_end = _find_ends_on_scale(
            log_ratio, np.array(log_ratios), misfit.bias, misfit.near
        )
        low = float(lower_end)
        high = float(upper_end)
    memory_now = _to_memory_scale(measure, current[measure])
    return EqualMemory(
        retention=_interpolate(
            memory_now, _to_memory_scale(measure, memory), retentions[up_to_best]
        ),
        minutes=minutes_now * math.exp(log_ratio),
        extra_minutes=RangedFigure(
            estimate=minutes_now * math.expm1(log_ratio),
            low=minutes_now * math.expm1(low),
            high=minutes_now * math.expm1(high),
        ),
    )


def _compare_at_equal_minutes(
    retentions: FloatArray, figures: FloatArray, current: FloatArray
) -> EqualMinutes | None:
    """Return where FSRS takes today's minutes; None if it does so at no simulated retention."""
    # Below some retention, forgetting costs more time than it saves: from there on minutes rise.
    from_cheapest = slice(int(np.argmin(figures[:, MINUTES])), None)
    minutes = figures[from_cheapest, MINUTES]
    if len(minutes) < 2 or not minutes[0] <= current[MINUTES] <= minutes[-1] or minutes[0] <= 0.0:
        return None
    log_minutes = np.log(minutes)
    log_minutes_now = math.log(float(current[MINUTES]))
    log_forgotten = _to_memory_scale(RECALLED, figures[from_cheapest, RECALLED])
    return EqualMinutes(
        retention=_interpolate(log_minutes_now, log_minutes, retentions[from_cheapest]),
        recalled=1.0 - math.exp(_interpolate(log_minutes_now, log_minutes, log_forgotten)),
        known=_interpolate(log_minutes_now, log_minutes, figures[from_cheapest, KNOWN]),
    )


def _find_log_minutes_ratio(measure: int, figures: FloatArray, current: FloatArray) -> float | None:
    """Return log(FSRS's minutes / today's minutes) at equal memory.

    None if the retentions do not lie on both sides of today's schedule.
    """
    figures = figures[_select_up_to_best(measure, figures)]
    values = figures[:, measure]
    if not values.min() <= current[measure] <= values.max():
        return None
    log_minutes = np.log(np.maximum(figures[:, MINUTES], _TINY))
    memory_now = _to_memory_scale(measure, current[measure])
    log_minutes_now = math.log(max(float(current[MINUTES]), _TINY))
    at_equal_memory = _interpolate(memory_now, _to_memory_scale(measure, values), log_minutes)
    return at_equal_memory - log_minutes_now


def _select_up_to_best(measure: int, figures: FloatArray) -> slice:
    """Return the positions of the retentions up to the one with the best memory.

    Beyond it, daily limits leave more cards undone than a higher retention makes up for.
    """
    return slice(0, int(np.argmax(figures[:, measure])) + 1)


def _to_memory_scale(measure: int, values: float | FloatArray) -> FloatArray:
    """Return a measure of memory on a scale in which log minutes are nearly linear.

    That is the logarithm of the share forgotten, or the number of cards known.
    """
    values = np.asarray(values, np.float64)
    if measure == RECALLED:
        values = np.log(np.maximum(1.0 - values, _TINY))
    return values


def _interpolate(x: float | FloatArray, xs: FloatArray, ys: FloatArray) -> float:
    """Interpolate linearly at x, which lies between the smallest and the largest of xs.

    The xs are sorted first: shares forgotten descend where retentions ascend.
    """
    order = np.argsort(xs, kind="stable")
    return float(np.interp(float(x), xs[order], ys[order]))
