"""Code that several FSRS versions share: limits, formulas of v4 to FSRS-6, the fit of S0.

Formulas: srs-benchmark other.py, fsrs-optimizer (fsrs_optimizer.py), see the versions. Parameters
are w[0], w[1] ... as in each version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel
from srs_eval.training.elementwise import State, Value, clamp, exp, minimum, power, where
from srs_eval.training.initial_stability import InitialStability, fit_initial_stability
from srs_eval.training.recurrent import START, RecurrentModel, Trainable

LOG_09 = -0.10536051565782628  # log(0.9): R is 0.9 after s days
S_MAX = 36500.0


def minimum_stability(trials: Trials) -> float:
    """Return the minimum stability in days, which is the same up to FSRS-5.

    It is smaller where intervals are fractions of a day.
    """
    return 1e-6 if trials.protocol.secs else 0.01


def init_s(rating: Value, w: Value) -> Value:
    return where(rating == 1.0, w[0], where(rating == 2.0, w[1], where(rating == 3.0, w[2], w[3])))


def stability_after_success(s: Value, d: Value, r: Value, rating: Value, w: Value) -> Value:
    """Return the stability after a success; the formula is the same from v4 on."""
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
    """Return the stability after a failure.

    The formula is the same from v4 on, but later versions limit the result.
    """
    return w[11] * power(d, -w[12]) * (power(s + 1.0, w[13]) - 1.0) * exp((1.0 - r) * w[14])


# Difficulty in FSRS-5 and FSRS-6


def init_d(rating: Value, w: Value) -> Value:
    return w[4] - exp(w[5] * (rating - 1.0)) + 1.0


def raw_next_d(d: Value, rating: Value, w: Value) -> Value:
    """Return the difficulty after a review, before it is clamped.

    It is damped linearly towards 10 and reverts to the difficulty of a first Easy.
    """
    damped = d - w[6] * (rating - 3.0) * (10.0 - d) / 9.0
    return w[7] * (w[4] - exp(3.0 * w[5]) + 1.0) + (1.0 - w[7]) * damped


def next_d(d: Value, rating: Value, w: Value) -> Value:
    return clamp(raw_next_d(d, rating, w), 1.0, 10.0)


# Steps of v4 to FSRS-6


def _no_limit(after_failure: Value, s: Value, w: Value) -> Value:
    return after_failure


def limit_lapse_v5(after_failure: Value, s: Value, w: Value) -> Value:
    """Limit the stability after a failure to s / exp(w[17] w[18])."""
    return minimum(after_failure, s / exp(w[17] * w[18]))


def make_steps(
    minimum_index: int,
    curve: Callable[[Value, Value, Value], Value],
    init_d: Callable[[Value, Value], Value] = init_d,
    next_d: Callable[[Value, Value, Value], Value] = next_d,
    limit: Callable[[Value, Value, Value], Value] = _no_limit,
) -> dict[str, Any]:
    """Return the functions of a `RecurrentModel` with a state (s, d).

    The minimum stability is w[minimum_index], and R is curve(t, s, w). After a failure, S is
    limit(result of `stability_after_failure`, s, w).
    """

    def first(rating: Value, w: Value) -> State:
        return clamp(init_s(rating, w), w[minimum_index], S_MAX), clamp(
            init_d(rating, w), 1.0, 10.0
        )

    def success(state: State, t: Value, rating: Value, w: Value) -> State:
        s, d = state
        new_s = stability_after_success(s, d, curve(t, s, w), rating, w)
        return clamp(new_s, w[minimum_index], S_MAX), next_d(d, rating, w)

    def failure(state: State, t: Value, rating: Value, w: Value) -> State:
        s, d = state
        new_s = limit(stability_after_failure(s, d, curve(t, s, w), w), s, w)
        return clamp(new_s, w[minimum_index], S_MAX), next_d(d, rating, w)

    def recall(t: Value, state: State, w: Value) -> Value:
        return curve(t, state[0], w)

    return {"states": 2, "first": first, "success": success, "failure": failure, "recall": recall}


# Initial stabilities


def make_s0_fit(
    default: Sequence[float],
    decay: float,
    *,
    least: Callable[[Trials], float] = minimum_stability,
    default_secs: Sequence[float] | None = None,
) -> Callable[[Trials, IntArray, FloatArray, Context], list[float]]:
    """Return a `fit` that fits S0 and leaves the other parameters at their defaults.

    R(t) = (1 + factor t/S)^-decay. Fractional intervals are fitted as they are. For whole days, a
    review of average recall is added to each interval, and S0 is pulled towards the default. The
    weights of reviews are not used, nor are they upstream. `least` gives the minimum stability,
    `default_secs` the defaults for fractional intervals.
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


def make_early_version(
    name: str,
    recurrent: RecurrentModel,
    fit_s0: Callable[..., list[float]] | None = None,
    *,
    source: str,
    seconds_per_10k: float,
    note: str = "",
    default_secs: Callable[[Context], Any] | None = None,
) -> TrainedModel:
    """Return the model of an FSRS version before v5.

    `recurrent` gets its minimum stability once the trials are known. The arguments after `fit_s0`
    are those of `TrainedModel`.
    """

    def make_recurrent(trials: Trials, context: Context) -> RecurrentModel:
        return replace(recurrent, constants=(minimum_stability(trials),))

    trainable = Trainable(make_recurrent, fit_s0)
    hyperparameters = recurrent.hyperparameters
    if fit_s0 is not None:
        hyperparameters = (*hyperparameters, START)
    return TrainedModel(
        name=name,
        family="fsrs",
        inputs="IL, G",
        parameters=len(recurrent.default),
        predict=trainable.predict,
        fit=trainable.fit,
        default=lambda context: list(recurrent.default),
        default_secs=default_secs,
        hyperparameters=hyperparameters,
        source=source,
        cost=Cost(seconds_per_10k=seconds_per_10k, seconds_to_compile=1.8),
        note=note,
    )
