"""Estimate how long a learner's good and bad spells last, and what that adds to a mean's error.

On a day t all reviews are recalled more or less often than predicted, by a shift e_t of the logit:

    recalled_t - expected_t = w_t (m + e_t) + noise of variance w_t,  w_t = Σ p (1 - p) over day t
    e_t = phi^g e_{t-g} + news,  sd(e_t) = s,  g: days since the last day with reviews

The autocorrelation of recalled minus expected is far below phi, because a day's few answers are
mostly chance. Here that chance is known from p, so a Kalman filter gives the likelihood of each phi
and s; m, a lasting fault of the predictions, is integrated out.

The error of a mean of any other values on these days follows from the slowest cosine waves of their
daily sums: their covariance is that of independent reviews plus an AR(1) effect of unknown size,
which the waves themselves tell. After Müller (2014, Journal of Business & Economic Statistics 32),
but with the phi estimated above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray

PHIS: FloatArray = np.array([0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99])
"""Values of phi that are considered."""
_IS_LASTING = PHIS > 0.6  # phis with which spells last for several days
_PRIOR_OF_LASTING = 1 / 3  # probability of lasting spells before any review is seen
_SHIFTS: FloatArray = np.array([0.1, 0.2, 0.4, 0.6, 0.9, 1.3])
"""Values of s that are considered, in logits; each is equally probable."""
_WIDENING_PROBABILITY = 0.5  # of lasting spells, above which intervals are widened
_CLEAR_PROBABILITY = 0.9  # of lasting spells, from which a person is told
_MAX_WAVES = 40
_MIN_WAVE_VARIANCE = 1e-6  # relative to the largest; below, a wave is a combination of others
_EFFECT_SIZES: FloatArray = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 256]) / 1000
"""Values that are considered for the variance of the day's effect on a review, relative to that of
the review itself."""
_BISECTIONS = 30  # find a half-width to a billionth of its range


@dataclass(frozen=True)
class Persistence:
    """How probable each persistence of `PHIS` is for a learner."""

    probabilities: tuple[float, ...]

    @property
    def phi(self) -> float:
        """Return the expected persistence."""
        return float(PHIS @ np.array(self.probabilities))

    @property
    def probability_of_lasting(self) -> float:
        """Return the probability that good and bad spells last: that phi is above 0.6."""
        return float(np.array(self.probabilities)[_IS_LASTING].sum())

    @property
    def widens(self) -> bool:
        """Return whether spells last so probably that intervals have to be wider."""
        return self.probability_of_lasting > _WIDENING_PROBABILITY

    @property
    def is_clear(self) -> bool:
        """Return whether spells last beyond reasonable doubt."""
        return self.probability_of_lasting >= _CLEAR_PROBABILITY


def estimate_persistence(y: FloatArray, p: FloatArray, day: IntArray) -> Persistence:
    """Estimate the persistence from outcomes (k,) and predictions (k,) on the days (k,)."""
    days, day_index = np.unique(day, return_inverse=True)
    surplus: FloatArray = np.bincount(day_index, y - p).astype(np.float64)
    variance = np.maximum(p * (1 - p), 1e-6)
    weight: FloatArray = np.bincount(day_index, variance).astype(np.float64)
    log_likelihood = _compute_log_likelihood(surplus, weight, np.diff(days))
    by_phi = np.logaddexp.reduce(log_likelihood, axis=1)
    log_prior = np.where(
        _IS_LASTING,
        math.log(_PRIOR_OF_LASTING / _IS_LASTING.sum()),
        math.log((1 - _PRIOR_OF_LASTING) / (~_IS_LASTING).sum()),
    )
    log_posterior = by_phi + log_prior
    probability = np.exp(log_posterior - log_posterior.max())
    return Persistence(tuple((probability / probability.sum()).tolist()))


def _compute_log_likelihood(surplus: FloatArray, weight: FloatArray, gaps: IntArray) -> FloatArray:
    """Compute the log likelihood (phis, shifts) of each phi and s by a Kalman filter.

    `surplus` (D,) is recalled minus expected by day, `weight` (D,) the w of each day, and `gaps`
    (D - 1,) are the days between. The mean m is integrated out with a flat prior: the surplus is
    m times `weight` plus an error, so with innovations a of the surplus and b of `weight`, each
    over its standard deviation, -2 log likelihood is the log determinant of the innovations'
    variances + Σ a² - (Σ ab)² / Σ b² + log Σ b².
    """
    phi = np.repeat(PHIS, len(_SHIFTS))
    variance = np.tile(_SHIFTS**2, len(PHIS))
    # The filter runs for the surplus (row 0) and, side by side, for `weight` (row 1).
    state = np.zeros((2, len(phi)))  # expected e_t
    uncertainty = variance  # its variance
    log_determinant = np.zeros(len(phi))
    squares = np.zeros((2, len(phi)))  # Σ a² and Σ b²
    cross_product = np.zeros(len(phi))  # Σ ab
    decays = {gap: phi**gap for gap in np.unique(gaps).tolist()}
    previous_gaps = [0, *gaps.tolist()]
    for gap, day_surplus, day_weight in zip(
        previous_gaps, surplus.tolist(), weight.tolist(), strict=True
    ):
        if gap:
            decay = decays[gap]
            state = decay * state
            uncertainty = variance + decay * decay * (uncertainty - variance)
        innovation_variance = day_weight * (day_weight * uncertainty + 1)
        innovation = np.array([[day_surplus], [day_weight]]) - day_weight * state
        gain = day_weight * uncertainty / innovation_variance
        state = state + gain * innovation
        uncertainty = uncertainty * (1 - gain * day_weight)
        log_determinant += np.log(innovation_variance)
        scaled = innovation / innovation_variance
        squares += scaled * innovation
        cross_product += scaled[0] * innovation[1]
    surplus_square, weight_square = squares
    fit = surplus_square - cross_product**2 / weight_square
    result = -(log_determinant + fit + np.log(weight_square)) / 2
    return result.reshape(len(PHIS), len(_SHIFTS))


@dataclass(frozen=True, eq=False)
class _Waves:
    """Cosine waves over D days with reviews, and what they and the mean vary by, for each phi.

    `rotations` turn the sums of values times waves into q independent coefficients. Variances are
    relative to that of a review. If the day's effect has the relative variance v, a coefficient
    has the variance 1 + v `powers`, and the mean has `review_variance` + v `day_variances`.
    """

    waves: FloatArray  # (w, D)
    rotations: FloatArray  # (phis, q, w)
    powers: FloatArray  # (phis, q)
    review_variance: float
    day_variances: FloatArray  # (phis,)


def compute_lasting_half_width(
    daily: FloatArray, days: IntArray, counts: IntArray, persistence: Persistence
) -> float:
    """Compute the half-width of a mean's 95 % interval if the day's effect may last.

    `daily` (D,) are sums of deviations from the mean on the `days` (D,) with `counts` reviews. For
    each phi and size of the day's effect, the error of the mean follows Student's t, because the
    variance of a review is estimated from the waves. These distributions are averaged by how
    probable phi and size are.
    """
    from scipy.special import stdtr

    waves = _make_waves(days.tobytes(), counts.tobytes())  # bytes, because arrays are no keys
    coefficients = waves.rotations @ (waves.waves @ daily)  # (phis, q)
    degrees = coefficients.shape[1]  # of freedom
    spread = 1 + _EFFECT_SIZES[:, None] * waves.powers[:, None]  # (phis, sizes, q)
    square_sum = (coefficients[:, None] ** 2 / spread).sum(2)  # (phis, sizes)
    if not square_sum.min() > 0:
        return 0.0
    log_prior = np.log(np.maximum(persistence.probabilities, 1e-300))
    log_weight = log_prior[:, None] - np.log(spread).sum(2) / 2 - degrees / 2 * np.log(square_sum)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    variance = waves.review_variance + _EFFECT_SIZES * waves.day_variances[:, None]
    error = np.sqrt(square_sum / degrees * variance)
    # Find the half-width beyond which 5 % lie.
    low = 0.0
    high = 20 * float(error.max())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        outside = 2 * float((weight * stdtr(degrees, -middle / error)).sum())
        if outside > 0.05:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=32)
def _make_waves(days_bytes: bytes, counts_bytes: bytes) -> _Waves:
    """Compute the waves for the days with reviews and the number of reviews on each."""
    days = np.frombuffer(days_bytes, np.int64)
    counts = np.frombuffer(counts_bytes, np.int64).astype(np.float64)
    time = days - days[0]
    length = int(time[-1]) + 1
    review_count = counts.sum()
    wave_count = min(len(days) - 1, _MAX_WAVES)
    number = np.arange(1, wave_count + 1)[:, None]
    waves = np.cos(np.pi * number * (time + 0.5) / length)
    waves -= (waves @ counts)[:, None] / review_count  # a constant has no part in them
    # Row 0 takes the mean of the reviews, the other rows are the waves.
    with_mean = np.vstack([np.full(len(days), 1 / review_count), waves])
    weighted = with_mean * counts
    review_covariance = weighted @ with_mean.T
    # After a long pause, slow waves are alike on days with reviews: what they share counts once.
    variances, directions = np.linalg.eigh(review_covariance[1:, 1:])
    is_distinct = variances > _MIN_WAVE_VARIANCE * variances.max()
    whitening = (directions[:, is_distinct] / np.sqrt(variances[is_distinct])).T
    day_covariance = _compute_day_covariance(weighted, np.diff(days))
    whitened = whitening @ day_covariance[:, 1:, 1:] @ whitening.T
    powers, rotations = np.linalg.eigh((whitened + whitened.transpose(0, 2, 1)) / 2)
    return _Waves(
        waves=waves,
        rotations=rotations.transpose(0, 2, 1) @ whitening,
        powers=np.maximum(powers, 0.0),
        review_variance=float(review_covariance[0, 0]),
        day_variances=day_covariance[:, 0, 0],
    )


def _compute_day_covariance(weighted: FloatArray, gaps: IntArray) -> FloatArray:
    """Compute the covariance (phis, r, r) that the day's effect gives to r weighted sums.

    It is Σ phi^|t - s| times the weights (r, D) of days s and t, over all pairs of days.
    """
    rows, day_count = weighted.shape
    # Σ over s <= t of phi^(t - s) times the weight of s, for each t, phi and row
    past = np.empty((day_count, len(PHIS), rows))
    sums = np.zeros((len(PHIS), rows))
    decays = {gap: (PHIS**gap)[:, None] for gap in {0, *gaps.tolist()}}
    weights_by_day = np.ascontiguousarray(weighted.T)
    for position, gap in enumerate([0, *gaps.tolist()]):
        sums *= decays[gap]
        sums += weights_by_day[position]
        past[position] = sums
    by_phi = np.ascontiguousarray(past.transpose(1, 2, 0))  # (phis, r, D)
    earlier_or_same = by_phi @ weighted.T
    # Both orders of two days count, and a day with itself once.
    return earlier_or_same + earlier_or_same.transpose(0, 2, 1) - weighted @ weighted.T
