"""FSRS-7 trained on which button is pressed, too: R and an ordinal head.

srs-benchmark pull request 335 (commit 9ac5ab9f0b04a76e49f9d3250457c94c11d971d2,
models/fsrs_v7_ordinal.py, on a draft of FSRS-7), here on the finished FSRS-7. If a review is
recalled, with raw = a0 + a1 logit R + a2 log s + a3 d,

    P(Good or Easy) = h = sigmoid(raw - a4)
    P(Easy) = e = sigmoid(raw - a4 - log(1 + e^a5))

-log P of the button pressed, where P(Again) = 1 - R, is added to the log loss of R, in which R
counts twice by that. Evaluated is R.

-log P is the sum of the log losses of up to three questions with yes or no: recalled (R)? if so,
better than Hard (h)? if so, Easy (e / h)? Training asks each as a trial of its own with the same
history; which one it is, is told by what is added to the interval.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Model, fsrs7
from srs_eval.training.elementwise import State, Value, exp, log, where
from srs_eval.training.recurrent import RecurrentModel, fit_recurrent, predict_recurrent

_HEAD = (0.0, 1.0, 0.0, 0.0, 0.5, 1.0)  # a0 ... a5 before training
_FSRS = len(fsrs7.DEFAULT)  # w[34] stays the least stability, which is frozen here
_BETTER_THAN_HARD, _EASY = 1, 2  # questions
_APART = 2.0**17  # days that are added to an interval for each, more than any has


def _answer(t: Value, state: State, w: Value) -> Value:
    """R(t), h or e / h, as the interval asks."""
    easy, better = t >= _EASY * _APART, t >= _BETTER_THAN_HARD * _APART
    t = t - where(easy, _EASY * _APART, where(better, _BETTER_THAN_HARD * _APART, 0.0))
    r = fsrs7.recall(t, state, w)
    s, _, d = state
    raw = w[35] + w[36] * log(r / (1.0 - r)) + w[37] * log(s) + w[38] * d - w[39]
    odds_against = 1.0 + exp(-raw)
    among_better = odds_against / (1.0 + (1.0 + exp(w[40])) * exp(-raw))
    return where(easy, among_better, where(better, 1.0 / odds_against, r))


def _recurrent(trials: Trials) -> RecurrentModel:
    base = fsrs7.recurrent(trials.protocol.secs, trials.protocol.sched_penalties)
    rest = (base.constants[0],)
    assert base.deviation is not None
    return replace(
        base,
        name="FSRS_7_ordinal",
        default=(*base.default, *rest, *_HEAD),
        lower=(*base.lower, *rest, *(-np.inf for _ in _HEAD)),
        upper=(*base.upper, *rest, *(np.inf for _ in _HEAD)),
        recall=_answer,
        constants=(),
        deviation=(*base.deviation, *(np.inf for _ in (*rest, *_HEAD))),
        frozen=(_FSRS,),
        cut=_whole_reviews,
    )


def _whole_reviews(trials: Trials, rows: IntArray, size: int) -> list[IntArray]:
    """Batches of so many reviews, cut as FSRS-7's, each with all of its questions."""
    first = rows[trials.delta_t[rows] < _APART]
    batch = np.empty(len(first), np.int64)
    batch[np.argsort(trials.sequence_length[first], kind="stable")] = np.arange(len(first)) // size
    of_row = batch[np.searchsorted(trials.review_th[first], trials.review_th[rows])]
    order = np.argsort(of_row, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(of_row[order])) + 1)


def _questions(trials: Trials, train: IntArray) -> tuple[Trials, IntArray, IntArray]:
    """A trial for each question that the reviews at `train` answer: first all of the first kind;
    the place in `train` and the kind of each."""
    button = trials.rating[train]
    places = [np.flatnonzero(button > k) for k in range(3)]
    place = np.concatenate(places)
    kind = np.repeat(np.arange(3), [len(each) for each in places])
    own: dict[str, Any] = {
        each.name: column[train[place]]
        for each in fields(trials)
        if isinstance(column := getattr(trials, each.name), np.ndarray)
        and (not each.name.startswith("history_") or each.name in ("history_start", "history_end"))
    }
    own["y"] = (button[place] > kind + 1).astype(np.float64)
    own["delta_t"] = own["delta_t"] + kind * _APART
    return replace(trials, **own), place, kind


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """FSRS-7's 34 parameters and a0 ... a5."""
    if trials.protocol.recency:
        weights = fsrs7.recency_weights(len(train))
    asked, place, kind = _questions(trials, train)
    model = _recurrent(trials)
    weights = weights[place] * np.where(kind == 0, 2.0, 1.0)
    everything = np.arange(len(asked))
    w = fit_recurrent(model, asked, everything, weights, model.default, context)
    return [*w[:_FSRS], *w[_FSRS + 1 :]]


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    del context
    model = _recurrent(trials)
    w = (*parameters[:_FSRS], model.default[_FSRS], *parameters[_FSRS:])
    return predict_recurrent(model, trials, w, index)


def buttons(trials: Trials, parameters: Any, index: IntArray) -> FloatArray:
    """P(Hard), P(Good), P(Easy) (3, k) of the reviews at `index`, if they are recalled."""
    better, easy = (
        predict(
            replace(trials, delta_t=trials.delta_t + kind * _APART), parameters, index, Context()
        )
        for kind in (_BETTER_THAN_HARD, _EASY)
    )
    return np.stack((1.0 - better, better * (1.0 - easy), better * easy))


MODELS = (
    Model(
        name="FSRS-7-ordinal",
        family="fsrs",
        inputs="FIL, G, SR",
        parameters=_FSRS + len(_HEAD),
        source="srs-benchmark pull request 335 (2026), models/fsrs_v7_ordinal.py",
        predict=predict,
        fit=fit,
        default=lambda context: [*fsrs7.DEFAULT, *_HEAD],
        configurations=(
            "FSRS-7-ordinal-short-secs-recency",
            "FSRS-7-ordinal-short-secs-recency-equalize_test_with_non_secs",
        ),
        standard="FSRS-7-ordinal-short-secs-recency",
        always_short=True,
        flags=(ANY_FLAG - {"two_buttons"}) | {"sched_penalties", "clock"},
        hyperparameters=tuple(  # its loss falls with every epoch: the last one is the best
            each for each in fsrs7.recurrent(secs=False).hyperparameters if each.name != "keep"
        ),
        seconds_per_10k=0.08,
        seconds_to_compile=4.0,
        note="Is trained on which button was pressed, too; evaluated is recall.",
        extra=True,
    ),
)
