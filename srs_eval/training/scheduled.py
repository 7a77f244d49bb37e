"""Penalties on the schedules that parameters lead to: `--sched_penalties`.

A card that is always answered Good at its due time, ten times over, should not see an interval
of a day or more grow too much at 90 % desired retention, nor intervals of less than a day
shorter than ten minutes at 99 %. To the loss is added, for each review,

    0.5 (largest growth of an interval >= 1 day)^2
      + 0.0015 max(1 / x - 144, 0)        x: mean of the intervals < 1 day, in days

with intervals by seven steps of Newton's method in log t, kept between a second and 36,500 days,
and an eighth whose denominator counts as a constant: so the gradient is the implicit
function's. srs-benchmark at commit bd9110f791e5b37282c55a9aa8db35f68f0c4aa2,
models/fsrs_v7.py and models/fsrs_v7_interval_penalty.py; fsrs-rs src/training_v7.rs. Both have
it for FSRS-7 only; for FSRS-6 it is nothing there (fsrs-rs src/training_v6.rs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray
from srs_eval.training.compile import Gradient


@dataclass(frozen=True)
class ScheduledSteps:
    """What the penalties need of a model; steps as in `recurrent`, on numbers."""

    name: str  # an identifier, unique among models
    first: Callable[..., Any]
    success: Callable[..., Any]
    recall: Callable[..., Any]
    """What the desired retention is held against, not between bounds."""
    values: int  # parameters and constants

    def penalty(self, w: FloatArray, gradient: FloatArray) -> float:
        """The penalty on w (values,); adds its gradient by the parameters to `gradient` (p,)."""
        w_bar = np.zeros(self.values)
        found = float(_kernel(self)(w, w_bar, np.empty((10, 7))))
        if not np.isfinite(found):
            return 0.0
        gradient += np.where(np.isfinite(w_bar), w_bar, 0.0)[: len(gradient)]
        return found


@cache
def _kernel(steps: ScheduledSteps) -> Any:
    from srs_eval.training.compile import specialised
    from srs_eval.training.scheduled_kernel import penalty_pass

    return specialised(
        penalty_pass,
        steps.name,
        {
            "first": steps.first,
            "first_adjoint": Gradient(steps.first, (), "w"),
            "success": steps.success,
            "success_adjoint": Gradient(steps.success, ("state", "t"), "w"),
            "recall": steps.recall,
            "recall_slope": Gradient(steps.recall, ("t",)),
            "recall_adjoint": Gradient(steps.recall, ("state",), "w"),
        },
        {"VALUES": steps.values},
    )
