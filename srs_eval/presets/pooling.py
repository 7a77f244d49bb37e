"""Parameters of each preset, drawn towards those that fit all of them.

A preset's parameters minimise its log loss, summed over its reviews, plus
1/2 sum(((x - shared) / (tau sd))^2), with x = log S0 for the four initial stabilities (sd 1) and
w for the others (sd: FSRS-6's `DEVIATION`). `shared` is the same around the defaults, tau 1.
tau, the same for all presets, maximises the evidence in Laplace's approximation (MacKay, 1992,
Neural Computation 4), summed over presets: presets that differ little share nearly
everything, presets that differ much keep what is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from srs_eval.fitting.lbfgs import minimise
from srs_eval.fitting.recurrent import loss_and_gradient
from srs_eval.models import fsrs6
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

TAUS = (0.0, 0.1, 0.2, 0.4, 0.8)
_S0 = slice(0, 4)
_DEVIATION = np.array((1.0, 1.0, 1.0, 1.0, *fsrs6.DEVIATION[4:]))
_LOWER, _UPPER = np.array(fsrs6.lower_bounds(0.001)), np.array(fsrs6.UPPER, np.float64)
_STEP = 1e-3  # of the differences that make second derivatives, in units of the prior's sd


@dataclass(frozen=True)
class Pooled:
    """Fits of one set of training reviews."""

    shared: list[float]
    by_group: Mapping[int, list[float]]
    tau: float
    """How far groups may differ, in units of the usual differences between learners."""


def pooled_fits(
    trials: Trials, by_group: Mapping[int, IntArray], taus: tuple[float, ...] = TAUS
) -> Pooled:
    """Parameters of every group, fitted on its positions in the trials (int64)."""
    default = _to_x(np.array(fsrs6.DEFAULT))
    if not by_group:
        return Pooled(list(fsrs6.DEFAULT), {}, 0.0)
    everything = np.sort(np.concatenate(list(by_group.values())))
    shared = _fit(trials, everything, default, 1.0)[0]
    best: tuple[float, float, dict[int, FloatArray]] | None = None
    for tau in taus:
        found, evidence = {}, 0.0
        for group, index in by_group.items():
            found[group], log_evidence = _fit(trials, index, shared, tau)
            evidence += log_evidence
        if best is None or evidence > best[0]:
            best = evidence, tau, found
    assert best is not None
    return Pooled(
        shared=_to_w(shared).tolist(),
        by_group={group: _to_w(x).tolist() for group, x in best[2].items()},
        tau=best[1],
    )


def _fit(
    trials: Trials, index: IntArray, centre: FloatArray, tau: float
) -> tuple[FloatArray, float]:
    """Where the penalised loss is least, as x, and the logarithm of the evidence."""
    at = loss_and_gradient(fsrs6.recurrent(0.001), trials, index)

    def in_prior_units(z: FloatArray) -> tuple[float, FloatArray]:
        x = centre + tau * _DEVIATION * z
        w = _to_w(x)
        loss, slope = at(w)
        inside = (w > _LOWER) & (w < _UPPER)
        slope = np.where(inside, slope, 0.0) * tau * _DEVIATION
        slope[_S0] *= w[_S0]
        return loss, slope

    def penalised(z: FloatArray) -> tuple[float, FloatArray]:
        loss, slope = in_prior_units(z)
        return loss + 0.5 * float(z @ z), slope + z

    zero = np.zeros(len(centre))
    if tau == 0:
        return centre, -in_prior_units(zero)[0]
    z = minimise(
        penalised, zero, iterations=40, history=10, tolerance_gradient=1e-2, tolerance_change=1e-6
    )
    value, slope = penalised(z)
    curvature = np.empty((len(z), len(z)))
    for k in range(len(z)):
        moved = z.copy()
        moved[k] += _STEP
        curvature[k] = (penalised(moved)[1] - slope) / _STEP
    eigenvalues = np.linalg.eigvalsh((curvature + curvature.T) / 2)
    return centre + tau * _DEVIATION * z, -value - 0.5 * float(
        np.log(np.maximum(eigenvalues, 1.0)).sum()
    )


def _to_x(w: FloatArray) -> FloatArray:
    x = w.copy()
    x[_S0] = np.log(w[_S0])
    return x


def _to_w(x: FloatArray) -> FloatArray:
    w = x.copy()
    w[_S0] = np.exp(np.clip(x[_S0], -20, 20))
    return np.clip(w, _LOWER, _UPPER)
