"""Binary cross entropy as torch computes it, limits included (compiled into kernels).

torch.nn.functional.binary_cross_entropy: aten/src/ATen/native/Loss.cpp.
"""

from __future__ import annotations

import math

import numpy as np


def single(p: float) -> float:
    """p rounded to single precision, in which upstream computes.

    All else is double; this rounding alone decides where p is 0 or 1 and so the limits
    below, and with it the figures agree to six decimals even for chaotic fits.
    """
    return float(np.float32(p))


def loss_of(p: float, y: float) -> float:
    """-log of the probability of what happened, at most 100."""
    likelihood = p if y > 0 else 1 - p
    if likelihood <= 0:
        return 100.0
    return min(-math.log(likelihood), 100.0)


def slope_of(p: float, y: float) -> float:
    """Derivative of the loss in p; unlike the loss it has no limit but that of p (1 - p)."""
    return (p - y) / max(p * (1 - p), 1e-12)
