"""FSRS-7 trained on which button is pressed, too: R and an ordinal head.

srs-benchmark pull request 335 (commit 9ac5ab9f0b04a76e49f9d3250457c94c11d971d2,
models/fsrs_v7_ordinal.py, on a draft of FSRS-7), here on the finished FSRS-7. If a review is
recalled, with raw = a0 + a1 logit R + a2 log s + a3 d,

    P(Good or Easy) = h = sigmoid(raw - a4)
    P(Easy) = e = sigmoid(raw - a4 - log(1 + e^a5))

-log P of the button pressed, where P(Again) = 1 - R, is added to the log loss of R, so that R
counts twice. Only R is evaluated.

-log P is the sum of the log losses of up to three yes-or-no questions: recalled (R)? if so, better
than Hard (h)? if so, Easy (e / h)? Training asks each question in a separate trial with the same
history; an offset that is added to the interval marks the question.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel, fsrs7
from srs_eval.training.elementwise import State, Value, exp, log, where
from srs_eval.training.recurrent import RecurrentModel, fit_recurrent, predict_recurrent

_HEAD_DEFAULTS = (0.0, 1.0, 0.0, 0.0, 0.5, 1.0)  # a0 ... a5 before training
_FSRS_7_PARAMETER_COUNT = len(fsrs7.DEFAULT)
"""w[34] stays the least stability, which is a frozen parameter here."""

# Numbers of the questions after the first, which is whether the review was recalled.
_BETTER_THAN_HARD = 1
_IS_EASY = 2
_QUESTION_OFFSET = 2.0**17  # days, times the question's number; no interval is as long


def _answer_question(t: Value, state: State, w: Value) -> Value:
    """Return R(t), h or e / h: the answer to the question that the interval's offset marks."""
    easy, better = t >= _IS_EASY * _QUESTION_OFFSET, t >= _BETTER_THAN_HARD * _QUESTION_OFFSET
    t = t - where(
        easy, _IS_EASY * _QUESTION_OFFSET, where(better, _BETTER_THAN_HARD * _QUESTION_OFFSET, 0.0)
    )
    r = fsrs7.recall(t, state, w)
    s, _, d = state
    raw = w[35] + w[36] * log(r / (1.0 - r)) + w[37] * log(s) + w[38] * d - w[39]
    odds_against = 1.0 + exp(-raw)
    among_better = odds_against / (1.0 + (1.0 + exp(w[40])) * exp(-raw))
    return where(easy, among_better, where(better, 1.0 / odds_against, r))


def _make_recurrent(trials: Trials) -> RecurrentModel:
    base = fsrs7.make_recurrent(trials.protocol.secs, trials.protocol.sched_penalties)
    least_stability = base.constants[0]
    head = len(_HEAD_DEFAULTS)
    assert base.deviation is not None
    return replace(
        base,
        name="FSRS_7_ordinal",
        default=(*base.default, least_stability, *_HEAD_DEFAULTS),
        lower=(*base.lower, least_stability, *[-np.inf] * head),
        upper=(*base.upper, least_stability, *[np.inf] * head),
        recall=_answer_question,
        constants=(),
        deviation=(*base.deviation, np.inf, *[np.inf] * head),
        frozen=(_FSRS_7_PARAMETER_COUNT,),
        make_batches=_batch_whole_reviews,
    )


def _batch_whole_reviews(trials: Trials, rows: IntArray, size: int) -> list[IntArray]:
    """Cut batches of `size` reviews like those of FSRS-7, each review with all its questions."""
    first = rows[trials.delta_t[rows] < _QUESTION_OFFSET]
    batch = np.empty(len(first), np.int64)
    batch[np.argsort(trials.sequence_length[first], kind="stable")] = np.arange(len(first)) // size
    batch_of_row = batch[np.searchsorted(trials.review_th[first], trials.review_th[rows])]
    order = np.argsort(batch_of_row, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(batch_of_row[order])) + 1)


def _make_questions(trials: Trials, train: IntArray) -> tuple[Trials, IntArray, IntArray]:
    """Return a trial for each question that the reviews at `train` answer.

    The trials are in the order of the questions' numbers. Also returned are the position in `train`
    and the question's number of each trial.
    """
    button = trials.rating[train]
    positions_of_questions = [np.flatnonzero(button > k) for k in range(3)]
    position = np.concatenate(positions_of_questions)
    number = np.repeat(np.arange(3), [len(positions) for positions in positions_of_questions])
    columns: dict[str, Any] = {}
    for field in fields(trials):
        column = getattr(trials, field.name)
        is_per_history_row = field.name.startswith("history_") and field.name not in (
            "history_start",
            "history_end",
        )
        if isinstance(column, np.ndarray) and not is_per_history_row:
            columns[field.name] = column[train[position]]
    columns["y"] = (button[position] > number + 1).astype(np.float64)
    columns["delta_t"] = columns["delta_t"] + number * _QUESTION_OFFSET
    return replace(trials, **columns), position, number


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit FSRS-7's 34 parameters and a0 ... a5."""
    if trials.protocol.recency:
        weights = fsrs7.compute_fsrs7_recency_weights(len(train))
    questions, position, number = _make_questions(trials, train)
    model = _make_recurrent(trials)
    weights = weights[position] * np.where(number == 0, 2.0, 1.0)  # R counts twice
    rows = np.arange(len(questions))
    w = fit_recurrent(model, questions, rows, weights, model.default, context)
    return [*w[:_FSRS_7_PARAMETER_COUNT], *w[_FSRS_7_PARAMETER_COUNT + 1 :]]


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """Return the probability of recall of the trials `index`, as in `TrainedModel.predict`."""
    del context
    model = _make_recurrent(trials)
    w = (
        *parameters[:_FSRS_7_PARAMETER_COUNT],
        model.default[_FSRS_7_PARAMETER_COUNT],
        *parameters[_FSRS_7_PARAMETER_COUNT:],
    )
    return predict_recurrent(model, trials, w, index)


def predict_buttons(trials: Trials, parameters: Any, index: IntArray) -> FloatArray:
    """Return P(Hard), P(Good), P(Easy) (3, k) of the reviews at `index`, if recalled."""
    better, easy = (
        predict(
            replace(trials, delta_t=trials.delta_t + question * _QUESTION_OFFSET),
            parameters,
            index,
            Context(),
        )
        for question in (_BETTER_THAN_HARD, _IS_EASY)
    )
    return np.stack((1.0 - better, better * (1.0 - easy), better * easy))


MODELS = (
    TrainedModel(
        name="FSRS-7-ordinal",
        family="fsrs",
        inputs="FIL, G, SR",
        parameters=_FSRS_7_PARAMETER_COUNT + len(_HEAD_DEFAULTS),
        source="srs-benchmark pull request 335 (2026), models/fsrs_v7_ordinal.py",
        predict=predict,
        fit=fit,
        default=lambda context: [*fsrs7.DEFAULT, *_HEAD_DEFAULTS],
        configurations=(
            "FSRS-7-ordinal-short-secs-recency",
            "FSRS-7-ordinal-short-secs-recency-equalize_test_with_non_secs",
        ),
        standard="FSRS-7-ordinal-short-secs-recency",
        always_short=True,
        flags=(ANY_FLAG - {"two_buttons"}) | {"sched_penalties", "clock"},
        hyperparameters=tuple(  # its loss falls with every epoch: the last one is the best
            setting
            for setting in fsrs7.make_recurrent(secs=False).hyperparameters
            if setting.name != "keep"
        ),
        cost=Cost(seconds_per_10k=0.08, seconds_to_compile=4.0),
        note="It is also trained on which button was pressed, but only recall is evaluated.",
        extra=True,
    ),
)
