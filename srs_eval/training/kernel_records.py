"""Records that a recurrent model and its kernel share."""

from __future__ import annotations

from typing import NamedTuple

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.packing import Int32Array


class AdamState(NamedTuple):
    """The state and the settings of Adam (arrays of p parameters)."""

    lower: FloatArray
    upper: FloatArray
    start: FloatArray  # what `pull` pulls the parameters to
    pull: FloatArray  # gamma / deviation^2
    slope: FloatArray  # (p,) gradient of the model's own penalty, for each item
    penalised: int  # whether the model has a penalty
    free: FloatArray  # factor on the gradient: 0.0 for frozen parameters, else 1.0
    mean: FloatArray  # running mean of the gradient
    square: FloatArray  # running mean of its square
    share: FloatArray  # (b,) items of each batch / items in all
    rate: float
    steps: int  # in all, for the cosine schedule
    beta_mean: float
    beta_square: float
    not_below: IntArray  # (pairs, 2): parameter, and the one that it is raised to
    pairs: int
    idle: Int32Array  # (b, p) 1 where a batch skips a parameter; empty if no batch does
    any_idle: int
    passed_by: IntArray  # (p,) steps skipped so far


class RecurrentScratch(NamedTuple):
    """The memory that the passes of a kernel share, for `room` nodes."""

    state: FloatArray  # (states, room)
    bar: FloatArray  # (states, room)
    room: int
    w_bar: FloatArray  # (p, LANES)
    recall: FloatArray  # (targets,) of the batches last visited
    tape: FloatArray  # values that the steps of a batch save for their gradients
