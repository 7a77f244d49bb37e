"""FSRS-6: stability, difficulty, R(t) = (1 + factor t/s)^-w20 with R(s) = 0.9 and w20 trained.

Formulas, defaults and training: fsrs-optimizer 6.1.3 (fsrs_optimizer.py), run as
srs-benchmark's script.py does. A state is (s, d): stability in days, difficulty 1-10.
Parameters are w[0] ... w[20] as there. Two constants follow: w[21] is the least stability, w[22]
the lowest rating that never shortens the stability on the same day.

`fit_as_anki` trains it as Anki's own optimizer does: open-spaced-repetition/fsrs-rs 6.6
(src/training.rs, `compute_parameters` with the cards' ids; src/dataset.rs;
src/parameter_initialization.rs) as Anki 26.08 calls it (ankitects/anki:
rslib/src/scheduler/fsrs/params.rs). Anki's optimizer leaves out cards with rare first
intervals, keeps a card's reviews together in a batch, draws batches in another random order, trains
for eight epochs, keeps the parameters of the last one and puts the initial stabilities in order
once more. Hard never shortens the stability on the same day there (fsrs-rs pull request 376), but
may do so in fsrs-optimizer. On the same reviews the parameters agree with Anki's to four decimals.
Only the effect of more than one relearning step on the bounds of w17 and w18 is not reproduced.

FSRS-6-one-step learns online: one gradient step after each review, in one pass over the past.

    w <- w - 0.0001 dl/dw,  l = -ln R if recalled, else -ln (1 - R)

S0 is fitted first, as for FSRS-6. Then, review after review, the state before it is computed with
the current parameters, and these take a step. The gradient looks back through the last transition
only, as if the state before that were constant, and S0 moves 100 times as fast as the rest.
Predictions are those of FSRS-6.
Source: srs-benchmark models/fsrs_v6_one_step.py (commit 1d517ddcf823) and
model_processors.py `fsrs_one_step` (commit 8a8a329c902f). Its quirks are part of it: S
has no upper bound and no limit after a failure, D changes before S, gradients pass
through clamps, a same-day last review gets the gradient of one on a later day, and the
parameters of same-day reviews (w[17] to w[19]) are never trained. A failure's gradient is
written out here: after a same-day review it is not the derivative of the formula that gave S.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials, compute_recency_weights, find_first_interval_outliers
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel
from srs_eval.models._fsrs import (
    LOG_09,
    S_MAX,
    init_d,
    limit_lapse_v5,
    make_s0_fit,
    make_steps,
    next_d,
    raw_next_d,
    stability_after_failure,
    stability_after_success,
)
from srs_eval.training import hyperparameters
from srs_eval.training.compile import Gradient, specialise
from srs_eval.training.elementwise import State, Value, clamp, exp, power, where
from srs_eval.training.initial_stability import (
    InitialStability,
    count_second_reviews,
    order_and_complete,
)
from srs_eval.training.optimisers import draw_rust_shuffles
from srs_eval.training.recurrent import START, RecurrentModel, Trainable, fit_recurrent


def _forgetting_curve(t: Value, s: Value, w: Value) -> Value:
    """Return R(t) = (1 + factor t/s)^-w[20], with factor such that R(s) = 0.9."""
    factor = exp(-LOG_09 / w[20]) - 1.0
    return power(1.0 + factor * t / s, -w[20])


def compute_days_until(retention: float, decay: float) -> float:
    """Compute the days until R falls to a retention, at a stability of one day.

    `decay` is w[20]. At another stability it takes that many times as long.
    """
    return math.expm1(-math.log(retention) / decay) / math.expm1(-LOG_09 / decay)


_STEPS = make_steps(minimum_index=21, curve=_forgetting_curve, limit=limit_lapse_v5)


def _short_term_increase(s: Value, rating: Value, w: Value) -> Value:
    return exp(w[17] * (rating - 3.0 + w[18])) * power(s, -w[19])


def _same_day(state: State, t: Value, rating: Value, w: Value) -> State:
    """Return the state after a same-day review; ratings of w[22] or more never shorten S.

    Same-day means less than a day after the previous review.
    """
    s, d = state
    increase = _short_term_increase(s, rating, w)
    factor = where(rating >= w[22], where(increase < 1.0, 1.0, increase), increase)
    return clamp(s * factor, w[21], S_MAX), next_d(d, rating, w)


_MIN_STABILITY = 0.001  # days
_HARD = 2.0
_GOOD = 3.0
# fmt: off
DEFAULT = (
    0.212, 1.2931, 2.3065, 8.2956,  # S0 by first rating
    6.4133, 0.8334, 3.0194, 0.001,  # difficulty
    1.8722, 0.1666, 0.796,  # success
    1.4835, 0.0614, 0.2629, 1.6483,  # failure
    0.6014, 1.8729,  # Hard, Easy
    0.5425, 0.0912, 0.0658,  # same day
    0.1542,  # decay
)
DEVIATION = (  # of the parameters over users, which scale the pull towards the start
    6.43, 9.66, 17.58, 27.85, 0.57, 0.28, 0.6, 0.12, 0.39, 0.18, 0.33,
    0.3, 0.09, 0.16, 0.57, 0.25, 1.03, 0.31, 0.32, 0.14, 0.27,
)
UPPER = (
    100, 100, 100, 100, 10, 4, 4, 0.75, 4.5, 0.8, 3.5,
    5, 0.25, 0.9, 4, 1, 6, 2, 2, 0.8, 0.8,
)
# fmt: on


def lower_bounds(least_stability: float) -> tuple[float, ...]:
    """Return the lower bounds of the 21 parameters; initial stabilities are in days."""
    # fmt: off
    return (
        least_stability, least_stability, least_stability, least_stability,
        1, 0.001, 0.001, 0.001, 0, 0, 0.001,
        0.001, 0.001, 0.001, 0, 0, 1, 0, 0, 0, 0.1,
    )
    # fmt: on


def _minimum_stability(trials: Trials) -> float:
    """Return the minimum stability in days; smaller where intervals are fractions of a day."""
    return 1e-6 if trials.protocol.secs else _MIN_STABILITY


def make_recurrent(minimum: float, *, hard_shortens: bool = True) -> RecurrentModel:
    """Return FSRS-6 as a recurrent model with the minimum stability in days.

    On the same day, Hard may shorten the stability in fsrs-optimizer (`hard_shortens`), but not in
    Anki.
    """
    return RecurrentModel(
        name="FSRS_6",
        default=DEFAULT,
        lower=lower_bounds(minimum),
        upper=UPPER,
        **_STEPS,
        same_day=_same_day,
        constants=(minimum, _GOOD if hard_shortens else _HARD),
        deviation=DEVIATION,
    )


fit_s0 = make_s0_fit(DEFAULT, DEFAULT[20], least=_minimum_stability)
TRAINABLE = Trainable(
    lambda trials, context: make_recurrent(_minimum_stability(trials)),
    fit_s0,
    falls_back_to_start=True,
)
fit = TRAINABLE.fit
predict = TRAINABLE.predict
ANKI_TRAINABLE = Trainable(
    lambda trials, context: make_recurrent(_minimum_stability(trials), hard_shortens=False),
    fit_s0,
    falls_back_to_start=True,
)
"""FSRS-6 as Anki schedules by it: Hard on the same day does not shorten the stability."""


# As Anki's own optimizer trains it

_EPOCHS = 8
_MAX_HISTORY = 255  # reviews before the evaluated one
_MIN_TO_FIT = 8  # trials needed to fit S0
_MIN_TO_TRAIN = 64  # trials needed to train all parameters
_MIN_W19 = 0.01  # Anki's lower bound of w[19]


def fit_as_anki(trials: Trials, train: IntArray, context: Context) -> list[float]:
    """Fit the 21 parameters to the positions `train`, in review order, as Anki does.

    Newer reviews weigh more. Raises NotEnoughData if all first intervals are rare, which Anki's
    optimizer refuses, too.
    """
    train = _drop_outliers(trials, train)
    if len(train) < _MIN_TO_FIT:
        return list(DEFAULT)
    start = fit_s0(trials, train, np.ones(len(train)), context)
    # `i` is 1 for a card's first review and counts on with each review on a later day.
    only_second_reviews = (trials.i[train] == 2).all()
    if len(train) < _MIN_TO_TRAIN or only_second_reviews:
        return start
    longer = replace(trials, protocol=replace(trials.protocol, max_seq_len=_MAX_HISTORY))
    weights = compute_recency_weights(len(train))
    try:
        fitted = fit_recurrent(make_anki_recurrent(), longer, train, weights, start, context)
    except NotEnoughData:
        return start
    return order_initial_stabilities(trials, train, fitted)


def order_initial_stabilities(trials: Trials, train: IntArray, w: Sequence[float]) -> list[float]:
    """Return the 21 parameters with S0 in order, as Anki's optimizer leaves them.

    S0 of first ratings without a second review among the positions `train` follows from the others.
    Raises NotEnoughData if there is no second review.
    """
    counts = count_second_reviews(trials, train)
    first = {rating: w[rating - 1] for rating in counts}
    settings = InitialStability(default=DEFAULT[:4], decay=DEFAULT[20], minimum=_MIN_STABILITY)
    return [*order_and_complete(first, counts, settings), *w[4:]]


def _batch_by_card(trials: Trials, rows: IntArray, size: int) -> list[IntArray]:
    """Return batches of whole cards, cards with the shortest histories first.

    A batch is closed before the card with which it would have more than `size` reviews.
    """
    ordered = rows[np.argsort(trials.card_id[rows], kind="stable")]
    begins = np.flatnonzero(np.diff(trials.card_id[ordered], prepend=-1))
    ends = np.append(begins[1:], len(ordered))
    batches: list[list[IntArray]] = []
    count = 0
    for card in np.argsort(trials.sequence_length[ordered[ends - 1]], kind="stable").tolist():
        reviews = ordered[begins[card] : ends[card]]
        if not batches or count + len(reviews) > size:
            batches.append([])
            count = 0
        batches[-1].append(reviews)
        count += len(reviews)
    return [np.concatenate(batch) for batch in batches]


def make_anki_recurrent() -> RecurrentModel:
    """Return FSRS-6 with the bounds and the training of Anki's own optimizer."""
    model = make_recurrent(_MIN_STABILITY, hard_shortens=False)
    lower = list(model.lower)
    lower[19] = _MIN_W19
    return replace(
        model,
        lower=tuple(lower),
        epochs=_EPOCHS,
        decimals=None,
        keep="last",
        make_batches=_batch_by_card,
        draw_orders=draw_rust_shuffles,
        anneals_over="sizes",  # the decay of the learning rate ignores that batches are whole cards
    )


def _drop_outliers(trials: Trials, train: IntArray) -> IntArray:
    """Drop the rows of cards whose first interval is rare for their first rating."""
    second = train[trials.i[train] == 2]  # each card's first review on a later day
    rare = find_first_interval_outliers(
        trials.first_rating[second], trials.elapsed_days[second], as_fsrs_rs=True
    )
    return train[~np.isin(trials.card_id[train], trials.card_id[second[rare]])]


# Online learning


_LEARNING_RATE = hyperparameters.learning_rate(1e-4)
_S0_FACTOR = 100.0
_R_MIN = 1e-9  # R is kept this far from 0 and 1, since the gradient is divided by R (1 - R)

# Gradients of steps. These names are only read in `_descend`, which is never run as it stands:
# `specialise` compiles it with the entries of the same names in `_compile_kernel`.
_curve_adjoint: Any = None
_success_adjoint: Any = None
_difficulty_adjoint: Any = None


def _bounded_d(d: float) -> float:
    return clamp(d, 1.0, 10.0)


def _descend(
    history_start: IntArray,
    history_end: IntArray,
    history_delta_t: FloatArray,
    history_rating: IntArray,
    delta_t: FloatArray,
    y: FloatArray,
    train: IntArray,
    w: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rate: float,
) -> None:
    """Move w by one gradient step for each training row on a later day than its history."""
    for row in train:
        t = delta_t[row]
        if t < 1.0:
            continue
        # After the loop, (s, d) is the state before the row, and (last_s, last_d) is the state
        # before that, from which the last transition led there, with last_t and rating.
        s, d, last_s, last_d, last_t, rating = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(history_start[row], history_end[row]):
            last_s, last_d = s, d
            last_t, rating = history_delta_t[k], float(history_rating[k])
            if k == history_start[row]:
                s = w[history_rating[k] - 1]
                d = _bounded_d(init_d(rating, w))
            elif last_t < 1.0:
                increase = _short_term_increase(s, rating, w)
                s *= max(increase, 1.0) if rating >= 3.0 else increase
                d = next_d(d, rating, w)
            else:
                r = _forgetting_curve(last_t, s, w)
                d = next_d(d, rating, w)
                if rating == 1.0:
                    s = stability_after_failure(s, d, r, w)
                else:
                    s = stability_after_success(s, d, r, rating, w)
            s = max(s, _MIN_STABILITY)
        if s <= _MIN_STABILITY:
            continue

        # An adjoint takes the derivative of the loss by its step's result, adds those by w to
        # `gradient`, and returns those by the arguments that `_compile_kernel` names for it: s_bar
        # is dl/ds, d_bar is dl/dd.
        gradient = np.zeros(21)
        r = min(max(_forgetting_curve(t, s, w), _R_MIN), 1.0 - _R_MIN)
        s_bar = _curve_adjoint(t, s, w, (r - y[row]) / (r * (1.0 - r)), gradient)
        if history_end[row] - history_start[row] == 1:
            gradient[history_rating[history_start[row]] - 1] = _S0_FACTOR * s_bar
        else:
            last_r = _forgetting_curve(last_t, last_s, w)
            if rating == 1.0:
                # Derivatives of the formula for later days, with an s that may not come from it.
                grown = (last_s + 1.0) ** w[13]
                factor = w[11] * d ** -w[12] * np.exp((1.0 - last_r) * w[14])
                gradient[11] += s / w[11] * s_bar
                gradient[12] += -np.log(d) * s * s_bar
                gradient[13] += factor * grown * np.log(last_s + 1.0) * s_bar
                gradient[14] += (1.0 - last_r) * s * s_bar
                d_bar = -w[12] * s / d * s_bar
            else:
                d_bar = _success_adjoint(last_s, d, last_r, rating, w, s_bar, gradient)
            _difficulty_adjoint(last_d, rating, w, d_bar, gradient)
        for k in range(21):
            w[k] = min(max(w[k] - rate * gradient[k], lower[k]), upper[k])


@cache
def _compile_kernel() -> Any:
    steps: dict[str, Any] = {
        "_bounded_d": _bounded_d,
        "_forgetting_curve": _forgetting_curve,
        "init_d": init_d,
        "next_d": next_d,
        "_short_term_increase": _short_term_increase,
        "stability_after_failure": stability_after_failure,
        "stability_after_success": stability_after_success,
        "_curve_adjoint": Gradient(_forgetting_curve, ("s",), "w"),
        "_success_adjoint": Gradient(stability_after_success, ("d",), "w"),
        "_difficulty_adjoint": Gradient(raw_next_d, (), "w"),
    }
    return specialise(_descend, "FSRS_6", steps, {})


def _fit_one_step(
    trials: Trials, train: IntArray, weights: FloatArray, context: Context
) -> list[float]:
    """Return the 21 parameters after the last training review, not rounded."""
    w = np.array(fit_s0(trials, train, weights, context))
    _compile_kernel()(
        trials.history_start,
        trials.history_end,
        trials.history_delta_t,
        trials.history_rating,
        trials.delta_t,
        trials.y,
        train,
        w,
        np.array(lower_bounds(_MIN_STABILITY), np.float64),
        np.array(UPPER, np.float64),
        _LEARNING_RATE.number_in(context),
    )
    context.tick(1.0)
    fitted: list[float] = w.tolist()
    return fitted


MODELS = (
    TrainedModel(
        name="FSRS-6",
        family="fsrs",
        inputs="IL, G, SR",  # intervals in days, grades, same-day reviews
        parameters=21,
        source="fsrs-optimizer 6.1.3 (2025), src/fsrs_optimizer/fsrs_optimizer.py",
        cost=Cost(seconds_per_10k=0.0105, seconds_to_compile=6.0),
        configurations=(
            "FSRS-6",
            "FSRS-6-dry-run",
            "FSRS-6-pretrain",
            "FSRS-6-binary",
            "FSRS-6-recency",
            "FSRS-6-preset",
            "FSRS-6-deck",
        ),
        aliases={"your parameters": "FSRS-6-own"},
        parameters_with={"pretrain": 4, "two_buttons": 17},
        always_short=True,  # same-day reviews are always in the histories
        predict=predict,
        fit=fit,
        fit_s0=fit_s0,
        default=lambda context: list(DEFAULT),
        hyperparameters=(*make_recurrent(_MIN_STABILITY).hyperparameters, START),
    ),
    TrainedModel(
        name="FSRS-6-one-step",
        family="fsrs",
        inputs="IL, G, SR",
        parameters=21,
        source="srs-benchmark models/fsrs_v6_one_step.py (2025), commit 1d517ddcf823",
        note="Gives every review the same weight and uses it once; made for updates on the fly.",
        cost=Cost(seconds_per_10k=0.015, seconds_to_compile=1.8),
        parameters_with={"two_buttons": 17},
        always_short=True,
        predict=predict,
        fit=_fit_one_step,
        default=lambda context: list(DEFAULT),
        flags=ANY_FLAG - {"recency"},
        hyperparameters=(_LEARNING_RATE,),
    ),
)
