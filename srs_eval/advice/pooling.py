"""Parameters of each preset, drawn towards those that fit all of them.

A preset's parameters minimise its log loss, summed over its reviews, plus
1/2 sum(((x - shared) / (tau sd))^2), with x = log S0 for the four initial stabilities (sd 1) and
w for the others (sd: FSRS-6's `DEVIATION`). `shared` is the same around the defaults, tau 1.
tau comes from the evidence in Laplace's approximation (MacKay, 1992, Neural Computation 4):
presets that differ little share nearly everything, presets that differ much keep what is theirs.
It is what all presets' evidence asks for or what the preset's own does, whichever is larger: a
large preset near the shared parameters would hold a small, very different one back, and a small
preset that is not sure by itself profits from others that are.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import fsrs6
from srs_eval.training.optimisers import minimise
from srs_eval.training.recurrent import SummedLoss

_TAUS = (0.0, 0.1, 0.2, 0.4, 0.8)
_S0 = slice(0, 4)
_DEVIATION = np.array((1.0, 1.0, 1.0, 1.0, *fsrs6.DEVIATION[4:]))
_LOWER, _UPPER = np.array(fsrs6.lower_bounds(0.001)), np.array(fsrs6.UPPER, np.float64)
_NOT_WORSE = 1.0  # evidence in nats that is no reason yet to share more
_STEP = 1e-3  # of the differences that make second derivatives, in units of the prior's sd


@dataclass(frozen=True)
class Pooled:
    """Fits of one set of training reviews."""

    shared: list[float]
    by_group: Mapping[int, list[float]]
    taus: Mapping[int, float]
    """How far each group may differ, in units of the usual differences between learners."""
    tau: float
    """The same by the evidence of all groups: for those that had no reviews yet."""


def fitted(trials: Trials, index: IntArray) -> list[float]:
    """Parameters for these positions (int64) alone, fitted as the shared ones are for all."""
    return _to_w(_Penalised(trials, index).fit(_DEFAULT, 1.0)).tolist()


def pooled_fits(
    trials: Trials,
    by_group: Mapping[int, IntArray],
    settled: Pooled | None = None,
    wanted: Container[int] | None = None,
) -> Pooled:
    """Parameters of every group, fitted on its positions in the trials (int64).

    With earlier fits in which it was `settled` how far groups may differ, that stays, and only
    the `wanted` groups (default: all) are fitted.
    """
    if not by_group:
        return Pooled(list(fsrs6.DEFAULT), {}, {}, 0.0)
    everything = np.sort(np.concatenate(list(by_group.values())))
    shared = _Penalised(trials, everything).fit(_DEFAULT, 1.0)
    found: dict[int, FloatArray] = {}
    if settled is not None:
        tau = settled.tau
        taus = {group: settled.taus.get(group, tau) for group in by_group}
        for group, index in by_group.items():
            if wanted is None or group in wanted:
                found[group] = _Penalised(trials, index).fit(shared, taus[group])
    else:
        fits: dict[int, list[FloatArray]] = {}
        evidence: dict[int, FloatArray] = {}  # of each of TAUS
        for group, index in by_group.items():
            penalised = _Penalised(trials, index)
            fits[group] = [penalised.fit(shared, each) for each in _TAUS]
            of_taus = zip(_TAUS, fits[group], strict=True)
            evidence[group] = np.array([penalised.log_evidence(shared, *each) for each in of_taus])
        common = _chosen(np.sum(list(evidence.values()), axis=0))
        chosen = {group: max(common, _chosen(each)) for group, each in evidence.items()}
        found = {group: fits[group][place] for group, place in chosen.items()}
        tau, taus = _TAUS[common], {group: _TAUS[place] for group, place in chosen.items()}
    parameters = {group: _to_w(x).tolist() for group, x in found.items()}
    return Pooled(_to_w(shared).tolist(), parameters, taus, tau)


def _chosen(evidence: FloatArray) -> int:
    """The place in TAUS: the largest that is hardly less likely than the best, unless that is 0.

    The evidence is shy of differences; where there are some, too small a tau costs more than
    one too large.
    """
    best = int(evidence.argmax())
    return best and int(np.flatnonzero(evidence >= evidence[best] - _NOT_WORSE)[-1])


class _Penalised:
    """The summed log loss of some positions, with the penalty of a prior around a centre.

    z is the distance from the centre in units of the prior's standard deviations (21,).
    """

    def __init__(self, trials: Trials, index: IntArray) -> None:
        self.summed = SummedLoss(fsrs6.recurrent(0.001), trials, index)

    def fit(self, centre: FloatArray, tau: float) -> FloatArray:
        """Where it is least, as x."""
        if tau == 0:
            return centre

        def objective(z: FloatArray) -> tuple[float, FloatArray]:
            return self._value(centre, tau, z), self._slope(centre, tau, z)

        z = minimise(
            objective,
            np.zeros(len(centre)),
            iterations=40,
            history=10,
            tolerance_gradient=1e-2,
            tolerance_change=1e-6,
        )
        return centre + tau * _DEVIATION * z

    def log_evidence(self, centre: FloatArray, tau: float, fitted: FloatArray) -> float:
        """Laplace's approximation to its logarithm, around the fit x."""
        if tau == 0:
            return -self._value(centre, tau, np.zeros(len(centre)))
        z = (fitted - centre) / (tau * _DEVIATION)
        slope = self._slope(centre, tau, z)
        curvature = np.empty((len(z), len(z)))
        for k in range(len(z)):
            moved = z.copy()
            moved[k] += _STEP
            curvature[k] = (self._slope(centre, tau, moved) - slope) / _STEP
        eigenvalues = np.linalg.eigvalsh((curvature + curvature.T) / 2)
        volume = 0.5 * float(np.log(np.maximum(eigenvalues, 1.0)).sum())
        return -self._value(centre, tau, z) - volume

    def _value(self, centre: FloatArray, tau: float, z: FloatArray) -> float:
        w = _to_w(centre + tau * _DEVIATION * z)
        return self.summed.value(w) + 0.5 * float(z @ z)

    def _slope(self, centre: FloatArray, tau: float, z: FloatArray) -> FloatArray:
        w = _to_w(centre + tau * _DEVIATION * z)
        slope = np.where((w > _LOWER) & (w < _UPPER), self.summed.gradient(w), 0.0)
        slope[_S0] *= w[_S0]
        slope *= tau * _DEVIATION
        return slope + z


def _to_w(x: FloatArray) -> FloatArray:
    w = x.copy()
    w[_S0] = np.exp(np.minimum(x[_S0], 20))
    return np.minimum(np.maximum(w, _LOWER), _UPPER)


_DEFAULT = np.array(fsrs6.DEFAULT)
_DEFAULT[_S0] = np.log(_DEFAULT[_S0])
