"""Which numbers are noise? How far each parameter moves when days had gone otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from srs_eval.advice.answers import Answer, Cell, Table
from srs_eval.advice.candidates import Learner
from srs_eval.data.errors import counted
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import recency_weights
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import FEWEST_DAYS, FEWEST_REVIEWS

DRAWS = 20
_NOISE = 0.5
"""A parameter is noise where it moves by more than this share of what learners differ by."""


def which_numbers_are_noise(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Answer]:
    """One answer for each preset."""
    del equivalence
    folds = [learner.fitted_before(number) for number in range(len(learner.trials.folds))]
    for group in groups:
        name = learner.name_of(group)
        index = np.flatnonzero(learner.trials.partition == group)
        days = len(np.unique(learner.trials.day[index]))
        if len(index) < FEWEST_REVIEWS or days < FEWEST_DAYS:
            sentence = (
                f"Can't tell yet: {counted(len(index), 'review')} on {counted(days, 'day')}; "
                f"{FEWEST_REVIEWS:,} on {FEWEST_DAYS} are needed."
            )
            yield Answer("noise", name, "can't tell", (sentence,))
            continue
        fitted = np.array(
            fsrs6.fit(learner.trials, index, recency_weights(len(index)), learner.context)
        )
        over_days = by_days(learner, index).std(axis=0, ddof=1)
        of_folds = np.array([each[group] for each in folds if group in each])
        over_folds = (
            of_folds.std(axis=0, ddof=1).tolist() if len(of_folds) > 1 else [None] * len(fitted)
        )
        usual = np.array(fsrs6.DEVIATION)
        noisy = over_days > _NOISE * usual
        rows: list[tuple[Cell, ...]] = [
            (
                f"w{k}",
                float(fitted[k]),
                float(over_days[k]),
                over_folds[k],
                float(usual[k]),
                "noise" if noisy[k] else "",
            )
            for k in range(len(fitted))
        ]
        count = int(noisy.sum())
        are, they = ("is", "it") if count == 1 else ("are", "they")
        named = ", ".join(f"w{k}" for k in np.flatnonzero(noisy))
        sentence = (
            f"{count} of 21 parameters {are} noise: had days gone otherwise, {they} would move by "
            f"more than half of what learners differ by ({named})."
            if count
            else "None of the 21 parameters moves by more than half of what learners differ by."
        )
        columns = ("parameter", "fitted", "over days", "over folds", "learners", "")
        title = f"{name}: parameters and their standard deviations"
        table = Table(title, columns, tuple(rows))
        yield Answer("noise", name, f"{count} of 21", (sentence,), (table,))


def by_days(learner: Learner, index: IntArray) -> FloatArray:
    """Fits (20, 21) to the reviews at the positions, their days drawn anew with replacement."""
    days, place = np.unique(learner.trials.day[index], return_inverse=True)
    draws = np.random.default_rng(0).multinomial(
        len(days), np.full(len(days), 1 / len(days)), DRAWS
    )
    fits = []
    for draw in draws:
        train = np.repeat(index, draw[place])
        fits.append(fsrs6.fit(learner.trials, train, recency_weights(len(train)), learner.context))
    return np.array(fits)
