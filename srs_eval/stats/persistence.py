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
"""Persistences that are considered, of one day to the next."""
_IS_LASTING = PHIS > 0.6
_PRIOR_OF_LASTING = 1 / 3
_SHIFTS: FloatArray = np.array([0.1, 0.2, 0.4, 0.6, 0.9, 1.3])  # s, in logits
_WIDENS = 0.5  # probability of lasting spells from which intervals are widened
_IS_CLEAR = 0.9  # probability from which a person is told
_MAX_WAVES = 40
_MIN_WAVE_VARIANCE = 1e-6  # relative to the largest; below, a wave is a combination of others
_SIZES: FloatArray = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 256]) / 1000
"""Variance of the day's effect on a review, relative to that of the review itself."""


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
        """Return the probability that good and bad spells last, that phi is above about 0.6."""
        return float(np.array(self.probabilities)[_IS_LASTING].sum())

    @property
    def widens(self) -> bool:
        """Return whether spells last so probably that intervals have to be wider."""
        return self.probability_of_lasting > _WIDENS

    @property
    def is_clear(self) -> bool:
        """Return whether spells last beyond reasonable doubt."""
        return self.probability_of_lasting >= _IS_CLEAR


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
    """Compute the log likelihood (phis, shifts), without the mean m, by a Kalman filter.

    `surplus` (D,) is recalled minus expected by day, `weight` (D,) its variance, `gaps` (D - 1,)
    the days between.
    """
    phi = np.repeat(PHIS, len(_SHIFTS))
    variance = np.tile(_SHIFTS**2, len(PHIS))
    # The filter runs for the surplus and, side by side, for what it would be if only m were 1.
    state = np.zeros((2, len(phi)))
    uncertainty = variance
    log_determinant = np.zeros(len(phi))
    products = np.zeros((3, len(phi)))  # of both innovations, over their variance
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
        products[:2] += scaled * innovation
        products[2] += scaled[0] * innovation[1]
    of_surplus, of_mean, mixed = products
    fit = of_surplus - mixed**2 / of_mean
    result = -(log_determinant + fit + np.log(of_mean)) / 2
    return result.reshape(len(PHIS), len(_SHIFTS))


@dataclass(frozen=True, eq=False)
class _Waves:
    """Cosine waves (w, D) over the days, and their covariances for each phi.

    Both parts of the covariance, of independent reviews and of the day's effect, are diagonal in
    the q coordinates of `rotations` (phis, q, w): 1 and `powers` (phis, q). The mean has the
    variances `review_variance` and `day_variances` (phis,).
    """

    waves: FloatArray
    rotations: FloatArray
    powers: FloatArray
    review_variance: float
    day_variances: FloatArray


def compute_lasting_half_width(
    daily: FloatArray, days: IntArray, counts: IntArray, persistence: Persistence
) -> float:
    """Compute the half-width of a mean's 95 % interval if the day's effect may last.

    `daily` (D,) are sums of deviations from the mean on the `days` (D,) with `counts` reviews.
    """
    from scipy.special import stdtr

    waves = _make_waves(days.tobytes(), counts.tobytes())
    coefficients = waves.rotations @ (waves.waves @ daily)  # (phis, q)
    degrees = coefficients.shape[1]
    spread = 1 + _SIZES[:, None] * waves.powers[:, None]  # (phis, sizes, q)
    scale = (coefficients[:, None] ** 2 / spread).sum(2)
    if not scale.min() > 0:
        return 0.0
    log_prior = np.log(np.maximum(persistence.probabilities, 1e-300))
    log_weight = log_prior[:, None] - np.log(spread).sum(2) / 2 - degrees / 2 * np.log(scale)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    variance = waves.review_variance + _SIZES * waves.day_variances[:, None]
    error = np.sqrt(scale / degrees * variance)
    # The half-width beyond which 5 % lie, on average over phi and the size of the effect
    low = 0.0
    high = 20 * float(error.max())
    for _ in range(30):
        middle = (low + high) / 2
        if 2 * float((weight * stdtr(degrees, -middle / error)).sum()) > 0.05:
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
    total = counts.sum()
    degrees = min(len(days) - 1, _MAX_WAVES)
    number = np.arange(1, degrees + 1)[:, None]
    waves = np.cos(np.pi * number * (time + 0.5) / length)
    waves -= (waves @ counts)[:, None] / total  # a constant has no part in them
    with_mean = np.vstack([np.full(len(days), 1 / total), waves])
    of_reviews = (with_mean * counts) @ with_mean.T
    # After a long pause, slow waves are alike on days with reviews: what they share counts once.
    variances, directions = np.linalg.eigh(of_reviews[1:, 1:])
    is_distinct = variances > _MIN_WAVE_VARIANCE * variances.max()
    whitening = (directions[:, is_distinct] / np.sqrt(variances[is_distinct])).T
    weighted = with_mean * counts
    # Σ over s <= t of phi^(t - s) times the weight of s, for each phi, wave and t
    past = np.empty((len(PHIS), degrees + 1, len(days)))
    sums = np.zeros((len(PHIS), degrees + 1))
    for position, gap in enumerate([0, *np.diff(days).tolist()]):
        sums = (PHIS**gap)[:, None] * sums + weighted[:, position]
        past[:, :, position] = sums
    from_before = past @ weighted.T
    of_days = from_before + from_before.transpose(0, 2, 1) - weighted @ weighted.T
    whitened = whitening @ of_days[:, 1:, 1:] @ whitening.T
    powers, rotations = np.linalg.eigh((whitened + whitened.transpose(0, 2, 1)) / 2)
    return _Waves(
        waves=waves,
        rotations=rotations.transpose(0, 2, 1) @ whitening,
        powers=np.maximum(powers, 0.0),
        review_variance=float(of_reviews[0, 0]),
        day_variances=of_days[:, 0, 0],
    )
