"""Fit parameters of each preset, shrunk towards the parameters shared by all presets.

A preset's parameters minimise its log loss, summed over its reviews, plus
1/2 sum(((x - shared) / (tau sd))^2), with x = log S0 for the four initial stabilities (sd 1) and
w for the others (sd: FSRS-6's `DEVIATION`). `shared` is fitted the same way around the defaults,
with tau 1. tau comes from the evidence in Laplace's approximation (MacKay, 1992, Neural Computation
4): presets that differ little share nearly everything, presets that differ much keep their own
parameters. tau is the larger of two values, from the evidence of all presets and from that of the
preset itself. Otherwise a large preset near the shared parameters would hold back a small, very
different one; and a small preset with little evidence of its own profits from that of the others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import fsrs6
from srs_eval.training.optimisers import minimise_by_lbfgs
from srs_eval.training.recurrent import SummedLoss

_TAUS = (0.0, 0.1, 0.2, 0.4, 0.8)
_S0 = slice(0, 4)  # the initial stabilities
_DEVIATION = np.array((1.0, 1.0, 1.0, 1.0, *fsrs6.DEVIATION[4:]))
_LOWER = np.array(fsrs6.lower_bounds(0.001))
_UPPER = np.array(fsrs6.UPPER, np.float64)
_EVIDENCE_TOLERANCE = 1.0  # nats of evidence within which a larger tau counts as good as the best
_STEP = 1e-3  # for finite-difference second derivatives, in units of the prior's sd


@dataclass(frozen=True)
class PooledFits:
    """Shared and pooled parameters fitted to one set of training reviews.

    A tau is an allowed deviation, in units of the usual differences between learners.
    """

    shared: list[float]
    by_group: Mapping[int, list[float]]  # pooled
    taus: Mapping[int, float]  # by group
    tau: float  # by the evidence of all groups; for groups that had no reviews yet


def fit_one_group(trials: Trials, index: IntArray) -> list[float]:
    """Fit parameters to these positions (int64) alone, by the method for shared parameters."""
    return _to_parameters(_PenalisedLoss(trials, index).fit(_DEFAULT, 1.0)).tolist()


def fit_pooled(
    trials: Trials,
    by_group: Mapping[int, IntArray],
    earlier: PooledFits | None = None,
    groups_to_fit: Container[int] | None = None,
) -> PooledFits:
    """Fit the shared parameters, and those of every group to its positions in the trials (int64).

    With `earlier` fits, the taus stay as chosen there, and only `groups_to_fit` (default: all) get
    parameters of their own; without, `groups_to_fit` is ignored.
    """
    if not by_group:
        return PooledFits(list(fsrs6.DEFAULT), {}, {}, 0.0)
    all_positions = np.sort(np.concatenate(list(by_group.values())))
    shared = _PenalisedLoss(trials, all_positions).fit(_DEFAULT, 1.0)
    fits: dict[int, FloatArray] = {}
    if earlier is not None:
        tau = earlier.tau
        taus = {group: earlier.taus.get(group, tau) for group in by_group}
        for group, index in by_group.items():
            if groups_to_fit is None or group in groups_to_fit:
                fits[group] = _PenalisedLoss(trials, index).fit(shared, taus[group])
    else:
        fits_by_tau: dict[int, list[FloatArray]] = {}
        evidence: dict[int, FloatArray] = {}  # for each of _TAUS
        for group, index in by_group.items():
            penalised = _PenalisedLoss(trials, index)
            group_fits = [penalised.fit(shared, candidate) for candidate in _TAUS]
            fits_by_tau[group] = group_fits
            evidence[group] = np.array(
                [
                    penalised.log_evidence(shared, candidate, fit)
                    for candidate, fit in zip(_TAUS, group_fits, strict=True)
                ]
            )
        common_index = _choose_tau_index(np.sum(list(evidence.values()), axis=0))
        tau = _TAUS[common_index]
        taus = {}
        for group in by_group:
            tau_index = max(common_index, _choose_tau_index(evidence[group]))
            taus[group] = _TAUS[tau_index]
            fits[group] = fits_by_tau[group][tau_index]
    parameters = {group: _to_parameters(x).tolist() for group, x in fits.items()}
    return PooledFits(_to_parameters(shared).tolist(), parameters, taus, tau)


def _choose_tau_index(evidence: FloatArray) -> int:
    """Return the index in _TAUS of the largest tau that is hardly less likely than the best.

    If the best is 0, it stays 0. The evidence prefers small differences; if there are any, too
    small a tau costs more than one that is too large.
    """
    best = int(evidence.argmax())
    if best == 0:
        return 0
    is_likely = evidence >= evidence[best] - _EVIDENCE_TOLERANCE
    return int(np.flatnonzero(is_likely)[-1])


class _PenalisedLoss:
    """Summed log loss of some positions, plus the penalty of a prior around a centre.

    The centre and the fit are in the form x of the module's docstring; z (21,) is the distance from
    the centre in units of the prior's standard deviations.
    """

    def __init__(self, trials: Trials, index: IntArray) -> None:
        self.loss = SummedLoss(fsrs6.make_recurrent(0.001), trials, index)

    def fit(self, centre: FloatArray, tau: float) -> FloatArray:
        """Return the x with the least value; the centre if tau is 0."""
        if tau == 0:
            return centre

        def objective(z: FloatArray) -> tuple[float, FloatArray]:
            return self._value(centre, tau, z), self._gradient(centre, tau, z)

        z = minimise_by_lbfgs(
            objective,
            np.zeros(len(centre)),
            iterations=40,
            history=10,
            tolerance_gradient=1e-2,
            tolerance_change=1e-6,
        )
        return centre + tau * _DEVIATION * z

    def log_evidence(self, centre: FloatArray, tau: float, fitted: FloatArray) -> float:
        """Return Laplace's approximation to the log evidence of tau, around its fit x."""
        if tau == 0:
            return -self._value(centre, tau, np.zeros(len(centre)))
        z = (fitted - centre) / (tau * _DEVIATION)
        slope = self._gradient(centre, tau, z)
        curvature = np.empty((len(z), len(z)))
        for k in range(len(z)):
            moved = z.copy()
            moved[k] += _STEP
            curvature[k] = (self._gradient(centre, tau, moved) - slope) / _STEP
        eigenvalues = np.linalg.eigvalsh((curvature + curvature.T) / 2)
        volume = 0.5 * float(np.log(np.maximum(eigenvalues, 1.0)).sum())
        return -self._value(centre, tau, z) - volume

    def _value(self, centre: FloatArray, tau: float, z: FloatArray) -> float:
        w = _to_parameters(centre + tau * _DEVIATION * z)
        return self.loss.value(w) + 0.5 * float(z @ z)

    def _gradient(self, centre: FloatArray, tau: float, z: FloatArray) -> FloatArray:
        w = _to_parameters(centre + tau * _DEVIATION * z)
        # At a bound, x changes nothing. For x = log S0 the chain rule has the factor S0.
        slope = np.where((w > _LOWER) & (w < _UPPER), self.loss.gradient(w), 0.0)
        slope[_S0] *= w[_S0]
        slope *= tau * _DEVIATION
        return slope + z


def _to_parameters(x: FloatArray) -> FloatArray:
    """Return the parameters w, within their bounds, from x."""
    w = x.copy()
    w[_S0] = np.exp(np.minimum(x[_S0], 20))  # without overflow
    return np.minimum(np.maximum(w, _LOWER), _UPPER)


_DEFAULT = np.array(fsrs6.DEFAULT)  # as x
_DEFAULT[_S0] = np.log(_DEFAULT[_S0])
