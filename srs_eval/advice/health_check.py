"""Run the health checks of Anki, for FSRS-6, and of forks of Anki, for FSRS-7.

Reviews are split into five time-series folds. Log loss and RMSE(bins) over all of them, without
weights, are each divided by the usual figure for that recall and number of reviews; one of the two
ratios has to be low enough.

Anki 26.08 checks FSRS-6 on reviews of later days (ankitects/anki: rslib/src/scheduler/fsrs/
params.rs). The forks that run FSRS-7 check it on all reviews but each card's first, those of the
same day included. Clanki has fitted its usual figures and limits to FSRS-7 (Expertium/Clanki:
rslib/src/scheduler/fsrs/params.rs, at commit 03ed30e6ee41), and JSchoreels' fork uses Anki's
(JSchoreels/anki: the same file, at commit 0d7a6e9e2d37).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials, compute_rmse_bin_ids
from srs_eval.metrics import log_losses, rmse_bins
from srs_eval.models import fsrs6, fsrs7

_MIN_ITEMS = 300  # with so many reviews or fewer there is no check
_FOLDS = 5


@dataclass(frozen=True)
class HealthRule:
    """Usual figures, by recall r and thousands of reviews c, and limits of their multiples.

    The usual log loss is scale (4 r (1 - r))^exponent, the usual RMSE(bins)
    a / (r^b + c0) + d / (c^e + g) + h.
    """

    version: str  # of the program whose rule this is
    log_loss_scale: float
    log_loss_exponent: float
    rmse: tuple[float, ...]  # a, b, c0, d, e, g, h
    log_loss_limit: float
    rmse_limit: float

    def apply(
        self, log_loss: float, rmse: float, recall: float, items: int
    ) -> f.HealthCheck | None:
        """Apply the rule to figures of `items` reviews with this recall.

        None for 300 or fewer reviews, or if all or none were recalled.
        """
        if items <= _MIN_ITEMS or not 0 < recall < 1:
            return None
        usual_loss = self.log_loss_scale * (4 * recall * (1 - recall)) ** self.log_loss_exponent
        a, b, c0, d, e, g, h = self.rmse
        usual_rmse = a / (recall**b + c0) + d / ((items / 1000) ** e + g) + h
        return f.HealthCheck(
            version=self.version,
            log_loss=log_loss,
            rmse_bins=rmse,
            log_loss_ratio=log_loss / usual_loss,
            rmse_ratio=rmse / usual_rmse,
            log_loss_limit=self.log_loss_limit,
            rmse_limit=self.rmse_limit,
        )


ANKI_RULE = HealthRule(
    "26.08", 0.623, 0.738, (0.0135, 0.504, -1.14, 0.176, 0.825, 2.22, 0.101), 1.11, 1.53
)
CLANKI_RULE = HealthRule(
    "Clanki", 0.5988, 0.7303, (0.0072, 0.9034, -1.1, 0.1578, 0.6513, 1.6275, 0.0711), 1.08, 1.34
)
FSRS_7_RULES = (CLANKI_RULE, replace(ANKI_RULE, version="JSchoreels' fork"))
"""The rules by which forks check FSRS-7."""


def check_health(learner: Learner, index: IntArray) -> f.HealthCheck | None:
    """Run Anki's health check on the reviews at the positions; None if Anki would run none."""
    recall = float(learner.trials.y[index].mean())
    if ANKI_RULE.apply(1.0, 1.0, recall, len(index)) is None:  # whatever the figures are
        return None
    trials = learner.trials

    def fit(train: IntArray) -> list[float]:
        return fsrs6.fit_as_anki(trials, train, learner.context)

    def predict(parameters: Sequence[float], test: IntArray) -> FloatArray:
        return fsrs6.ANKI_TRAINABLE.predict(trials, parameters, test, learner.context)

    try:
        test, p = _predict_time_series(index, fit, predict)
    except NotEnoughData:  # a fold may have nothing but rare first intervals
        return None
    bins = compute_rmse_bin_ids(
        trials.bin_delta_t[test], trials.bin_i[test], trials.bin_lapses[test]
    )
    y = trials.y[test]
    return ANKI_RULE.apply(
        float(log_losses(y, p).mean()), rmse_bins(y, p, bins), recall, len(index)
    )


def check_health_by_fsrs7(learner: Learner, group: int) -> tuple[f.HealthCheck, ...]:
    """Run the forks' health checks of FSRS-7 on a preset's reviews; () if they would run none."""
    trials = learner.fractional_trials.trials
    index = np.flatnonzero(trials.partition == group)
    if not len(index):
        return ()
    recall = float(trials.y[index].mean())
    if CLANKI_RULE.apply(1.0, 1.0, recall, len(index)) is None:
        return ()

    def fit(train: IntArray) -> list[float]:
        weights = fsrs7.compute_fsrs7_recency_weights(len(train))
        return fsrs7.fit(trials, train, weights, learner.context)

    def predict(parameters: Sequence[float], test: IntArray) -> FloatArray:
        return fsrs7.predict(trials, parameters, test, learner.context)

    test, p = _predict_time_series(index, fit, predict)
    y = trials.y[test]
    bins = compute_rmse_bin_ids(trials.delta_t[test], *_count_long_reviews(trials, test))
    log_loss = float(log_losses(y, p).mean())
    rmse = rmse_bins(y, p, bins)
    checks = [rule.apply(log_loss, rmse, recall, len(index)) for rule in FSRS_7_RULES]
    return tuple(check for check in checks if check is not None)


def _predict_time_series(
    index: IntArray,
    fit: Callable[[IntArray], list[float]],
    predict: Callable[[Sequence[float], IntArray], FloatArray],
) -> tuple[IntArray, FloatArray]:
    """Return the positions tested in five folds, and their probabilities.

    The last fold also evaluates the remainder of the division into six parts (fsrs-rs:
    src/inference.rs). Raises NotEnoughData.
    """
    predictions: list[FloatArray] = []
    tested: list[IntArray] = []
    begins = [len(index) // (_FOLDS + 1) * fold for fold in range(1, _FOLDS + 1)]
    ends = [*begins[1:], len(index)]
    for begin, end in zip(begins, ends, strict=True):
        test = index[begin:end]
        predictions.append(predict(fit(index[:begin]), test))
        tested.append(test)
    return np.concatenate(tested), np.concatenate(predictions)


def _count_long_reviews(trials: Trials, index: IntArray) -> tuple[IntArray, IntArray]:
    """Return how many reviews a day or more apart each card had, plus 1, and how many lapses.

    The first count includes the review at the position itself, the second does not. These are the
    bins of RMSE(bins) by which forks check FSRS-7 (fsrs-rs: src/dataset.rs, `r_matrix_index`).
    """
    is_long = trials.history_delta_t >= 1.0
    is_lapse = is_long & (trials.history_rating == 1)
    start = trials.history_start[index]
    end = trials.history_end[index]
    long_before = np.concatenate(([0], np.cumsum(is_long)))
    lapses_before = np.concatenate(([0], np.cumsum(is_lapse)))
    reviews: IntArray = long_before[end + 1] - long_before[start] + 1
    lapses: IntArray = lapses_before[end] - lapses_before[start]
    return reviews, lapses
