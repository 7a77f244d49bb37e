"""What several FSRS versions share: limits, formulas of v4 to FSRS-6, the fit of S0.

Formulas: srs-benchmark other.py, fsrs-optimizer (fsrs_optimizer.py), see the versions.
Parameters are w[0], w[1] ... as in every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Model
from srs_eval.training.elementwise import State, Value, clamp, exp, minimum, power, where
from srs_eval.training.initial_stability import InitialStability, fit_initial_stability
from srs_eval.training.recurrent import START, RecurrentModel, Trainable

LOG_09 = -0.10536051565782628  # log(0.9): R is 0.9 after s days
S_MAX = 36500.0


def least_stability(trials: Trials) -> float:
    """In days; smaller where intervals are fractions of a day. The same up to FSRS-5."""
    return 1e-6 if trials.protocol.secs else 0.01


def init_s(rating: Value, w: Value) -> Value:
    return where(rating == 1.0, w[0], where(rating == 2.0, w[1], where(rating == 3.0, w[2], w[3])))


def stability_after_success(s: Value, d: Value, r: Value, rating: Value, w: Value) -> Value:
    """The same from v4 on."""
    hard_penalty = where(rating == 2.0, w[15], 1.0)
    easy_bonus = where(rating == 4.0, w[16], 1.0)
    return s * (
        1.0
        + exp(w[8])
        * (11.0 - d)
        * power(s, -w[9])
        * (exp((1.0 - r) * w[10]) - 1.0)
        * hard_penalty
        * easy_bonus
    )


def stability_after_failure(s: Value, d: Value, r: Value, w: Value) -> Value:
    """The same from v4 on, but later versions set it a limit."""
    return w[11] * power(d, -w[12]) * (power(s + 1.0, w[13]) - 1.0) * exp((1.0 - r) * w[14])


# Difficulty in FSRS-5 and FSRS-6


def init_d(rating: Value, w: Value) -> Value:
    return w[4] - exp(w[5] * (rating - 1.0)) + 1.0


def raw_next_d(d: Value, rating: Value, w: Value) -> Value:
    """Linear damping towards 10, reversion to the difficulty of a first Easy."""
    damped = d - w[6] * (rating - 3.0) * (10.0 - d) / 9.0
    return w[7] * (w[4] - exp(3.0 * w[5]) + 1.0) + (1.0 - w[7]) * damped


def next_d(d: Value, rating: Value, w: Value) -> Value:
    return clamp(raw_next_d(d, rating, w), 1.0, 10.0)


# Steps of v4 to FSRS-6


def _no_limit(forgotten: Value, s: Value, w: Value) -> Value:
    return forgotten


def limit_of_v5(forgotten: Value, s: Value, w: Value) -> Value:
    """What w[17] and w[18] make of S; a failure leaves no more than that."""
    return minimum(forgotten, s / exp(w[17] * w[18]))


def steps(
    least: int,
    curve: Callable[[Value, Value, Value], Value],
    init_d: Callable[[Value, Value], Value] = init_d,
    next_d: Callable[[Value, Value, Value], Value] = next_d,
    limit: Callable[[Value, Value, Value], Value] = _no_limit,
) -> dict[str, Any]:
    """The functions of a `RecurrentModel` with a state (s, d), whose least stability is w[least].

    R is curve(t, s, w); after a failure, S is limit(what the formula gives, s, w).
    """

    def first(rating: Value, w: Value) -> State:
        return clamp(init_s(rating, w), w[least], S_MAX), clamp(init_d(rating, w), 1.0, 10.0)

    def success(state: State, t: Value, rating: Value, w: Value) -> State:
        s, d = state
        new_s = stability_after_success(s, d, curve(t, s, w), rating, w)
        return clamp(new_s, w[least], S_MAX), next_d(d, rating, w)

    def failure(state: State, t: Value, rating: Value, w: Value) -> State:
        s, d = state
        new_s = limit(stability_after_failure(s, d, curve(t, s, w), w), s, w)
        return clamp(new_s, w[least], S_MAX), next_d(d, rating, w)

    def recall(t: Value, state: State, w: Value) -> Value:
        return curve(t, state[0], w)

    return {"states": 2, "first": first, "success": success, "failure": failure, "recall": recall}


# Initial stabilities


def s0_fit(
    default: Sequence[float],
    decay: float,
    *,
    least: Callable[[Trials], float] = least_stability,
    default_secs: Sequence[float] | None = None,
) -> Callable[[Trials, IntArray, FloatArray, Context], list[float]]:
    """A `fit` that gives the default parameters with S0 fitted; `default_secs`: see `Model`.

    R(t) = (1 + factor t/S)^-decay. Fractions of a day are fitted as they are, whole days
    with a review of average recall added to each interval and a pull to the default. The
    weights are not used, as upstream.
    """

    def fit_s0(
        trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        del weights, context
        secs = trials.protocol.secs
        w = default_secs if secs and default_secs is not None else default
        settings = InitialStability(
            default=(w[0], w[1], w[2], w[3]),
            decay=decay,
            minimum=least(trials),
            smoothing=0.0 if secs else 1.0,
            pull=0.0 if secs else 1 / 16,
        )
        return [*fit_initial_stability(trials, train, settings), *w[4:]]

    return fit_s0


# Whole models


def early_version(
    name: str,
    recurrent: RecurrentModel,
    fit_s0: Callable[..., list[float]] | None = None,
    **more: Any,
) -> Model:
    """FSRS before v5; `more` of its `Model`."""

    def of_trials(trials: Trials, context: Context) -> RecurrentModel:
        return replace(recurrent, constants=(least_stability(trials),))

    trainable = Trainable(of_trials, fit_s0)
    start = (START,) if fit_s0 else ()
    return Model(
        name=name,
        family="fsrs",
        inputs="IL, G",
        parameters=len(recurrent.default),
        predict=trainable.predict,
        fit=trainable.fit,
        default=lambda context: list(recurrent.default),
        hyperparameters=(*recurrent.hyperparameters, *start),
        **more,
    )
