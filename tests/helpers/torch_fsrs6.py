"""FSRS-6 in torch, written from its formulas, as a reference for figures and gradients."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from srs_eval.models import fsrs6

LEAST = 0.001
"""The least stability."""
LOWER = np.array(fsrs6.lower_bounds(LEAST))
UPPER = np.array(fsrs6.UPPER, float)


def torch_curve(t: Tensor, s: Tensor, w: Tensor) -> Tensor:
    """Return the probability of recall after t days at stability s."""
    decay = -w[20]
    return (1 + (0.9 ** (1 / decay) - 1) * t / s) ** decay


def torch_first(rating: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return stability and difficulty after the first review."""
    d = w[4] - torch.exp(w[5] * (rating - 1)) + 1
    return w[rating.long() - 1].clamp(LEAST, 36500), d.clamp(1, 10)


def torch_step(s: Tensor, d: Tensor, t: Tensor, rating: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return stability and difficulty after a later review, with torch's own clamp and where."""
    r = torch_curve(t, s, w)
    hard = torch.where(rating == 2, w[15], 1.0)
    easy = torch.where(rating == 4, w[16], 1.0)
    gain = torch.exp((1 - r) * w[10]) - 1
    success = s * (1 + torch.exp(w[8]) * (11 - d) * s ** -w[9] * gain * hard * easy)
    forgotten = w[11] * d ** -w[12] * ((s + 1) ** w[13] - 1) * torch.exp((1 - r) * w[14])
    failure = torch.minimum(forgotten, s / torch.exp(w[17] * w[18]))
    increase = torch.exp(w[17] * (rating - 3 + w[18])) * s ** -w[19]
    same_day = s * torch.where(rating >= 3, increase.clamp(min=1), increase)
    new_s = torch.where(t < 1, same_day, torch.where(rating > 1, success, failure))
    new_d = d - w[6] * (rating - 3) * (10 - d) / 9
    new_d = w[7] * (w[4] - torch.exp(w[5] * 3) + 1) + (1 - w[7]) * new_d
    return new_s.clamp(LEAST, 36500), new_d.clamp(1, 10)
