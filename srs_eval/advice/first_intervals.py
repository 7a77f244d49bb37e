"""Tell on what a preset's first intervals rest: the first answer's button, and recall after it.

FSRS-6 has one initial stability for each button of the first answer: the days until recall of such
a card falls to 90 %. What the learner's own reviews say of it is found by maximum likelihood, from
each card's first review on a later day: the current parameters predict it with other values of the
initial stability, on a logarithmic grid. The range comes from 1,000 sets of the days, drawn with
replacement. Anki waits at least a day, so intervals below one are as good as a day.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.models import fsrs6

QUESTION = "first"
_BUTTONS = ("Again", "Hard", "Good", "Easy")
_GRID = np.geomspace(0.01, 100.0, 47)  # days; FSRS-6 allows no initial stability beyond 100
_DRAWS = 1_000
_SHOWN_SHARE = 0.95  # of the draws that lie in the range shown
_VERDICT_SHARE = 1 - 0.05 / len(_BUTTONS)
"""Share of the draws behind a verdict: the four verdicts together are wrong in 5 % of presets."""
_MIN_CARDS = 50  # with fewer, or on fewer days, nothing is said of a button
_MIN_DAYS = 10
_SECOND_REVIEW = 2  # `Trials.i` of a card's first review on a later day
_DEFAULT_RETENTION = 0.9

_Conclusion = Literal["longer", "shorter", "as it is", "can't tell"]


def assess_first_intervals(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset that runs FSRS-6."""
    groups = [group for group in groups if not learner.runs_fsrs7(group)]
    if not groups:
        yield f.make_fsrs7_finding(QUESTION)
    for group in groups:
        preset = learner.log.presets.get(group)
        desired = None if preset is None else preset.desired_retention
        positions = learner.positions(group)
        index = positions[learner.trials.i[positions] == _SECOND_REVIEW]
        buttons = _assess_buttons(learner, group, index, desired or _DEFAULT_RETENTION)
        conclusions = {button.conclusion for button in buttons} - {f.CANT_TELL}
        conclusion: Literal["longer", "shorter", "as it is", "see each button", "can't tell"]
        conclusion = "see each button"
        if not conclusions:
            conclusion = f.CANT_TELL
        elif len(conclusions) == 1:
            (conclusion,) = conclusions
        missing = None
        if conclusion == f.CANT_TELL:
            most = max((button.cards for button in buttons), default=0)
            days = learner.count_days(index)
            missing = f.count_missing_data(most, days, fewest=_MIN_CARDS, fewest_days=_MIN_DAYS)
        evidence = f.ButtonIntervals(
            conclusion,
            tuple(buttons),
            desired or _DEFAULT_RETENTION,
            is_fitted=bool(learner.stored(group)),
            fsrs_is_off=learner.is_fsrs_off,
        )
        name = learner.group_name(group)
        yield f.Finding(QUESTION, name, reviews=len(index), missing=missing, evidence=evidence)


def _assess_buttons(
    learner: Learner, group: int, index: IntArray, desired: float
) -> list[f.FirstInterval]:
    """Assess each button from the cards' first reviews on a later day, at the positions (k,)."""
    if not len(index):
        return []
    trials = learner.trials
    parameters = learner.active_parameters(group)
    days_to_desired = fsrs6.compute_days_until(desired, parameters[20])
    expected = learner.predict_with_parameters(parameters, index)
    losses = _compute_grid_losses(learner, parameters, index)
    buttons = []
    for number, name in enumerate(_BUTTONS):
        is_selected = trials.first_rating[index] == number + 1
        selected = index[is_selected]
        if not len(selected):
            continue
        interval = days_to_desired * parameters[number]
        own: float | None = None
        low: float | None = None
        high: float | None = None
        conclusion: _Conclusion = f.CANT_TELL
        if len(selected) >= _MIN_CARDS and learner.count_days(selected) >= _MIN_DAYS:
            estimate, draws = _draw_stabilities(losses[:, is_selected], trials.day[selected])
            own = days_to_desired * estimate
            low, high = _find_range(days_to_desired * draws, _SHOWN_SHARE)
            conclusion = _compare(interval, *_find_range(days_to_desired * draws, _VERDICT_SHARE))
        button = f.FirstInterval(
            button=name,
            conclusion=conclusion,
            cards=len(selected),
            share=len(selected) / len(index),
            elapsed_days=float(np.median(trials.elapsed_days[selected])),
            recalled=float(trials.y[selected].mean()),
            expected=float(expected[is_selected].mean()),
            interval=interval,
            own=own,
            low=low,
            high=high,
        )
        buttons.append(button)
    return buttons


def _compare(interval: float, low: float, high: float) -> _Conclusion:
    """Say what an interval should be by the range of what it would have to be, all in days.

    Less than a day counts as a day, because Anki waits at least a day.
    """
    waited = max(interval, 1.0)
    if waited < max(low, 1.0):
        return "longer"
    if waited > max(high, 1.0):
        return "shorter"
    return "as it is"


def _compute_grid_losses(
    learner: Learner, parameters: Sequence[float], index: IntArray
) -> FloatArray:
    """Compute the losses (grid, k) of the reviews with each initial stability of the grid.

    A review depends on the initial stability of one button only, so all four are set at once.
    """
    rows = []
    for stability in _GRID.tolist():
        values = [stability] * len(_BUTTONS) + list(parameters[len(_BUTTONS) :])
        rows.append(learner.losses(learner.predict_with_parameters(values, index), index))
    return np.array(rows)


def _draw_stabilities(losses: FloatArray, day: IntArray) -> tuple[float, FloatArray]:
    """Return the stability with the least loss (grid, k), and those of draws of days, in days.

    `day` (k,) is the day of each review.
    """
    days, day_index = np.unique(day, return_inverse=True)
    by_day = np.zeros((len(days), len(losses)))
    np.add.at(by_day, day_index, losses.T)
    estimate = _find_minima(by_day.sum(axis=0)[None])[0]
    counts = np.random.default_rng(0).multinomial(
        len(days), np.full(len(days), 1 / len(days)), _DRAWS
    )
    return math.exp(estimate), np.exp(_find_minima(counts @ by_day))


def _find_range(draws: FloatArray, share: float) -> tuple[float, float]:
    """Return the ends between which the middle share of the draws lies."""
    low, high = np.quantile(draws, ((1 - share) / 2, (1 + share) / 2))
    return float(low), float(high)


def _find_minima(losses: FloatArray) -> FloatArray:
    """Return the logarithm of the stability with the least loss, for each row (rows, grid).

    Between the points of the grid, a parabola through the least value and its neighbours is used.
    """
    log_grid = np.log(_GRID)
    step = log_grid[1] - log_grid[0]
    best = losses.argmin(axis=1)
    middle = np.clip(best, 1, len(_GRID) - 2)
    row = np.arange(len(losses))
    before, at, after = (losses[row, middle + shift] for shift in (-1, 0, 1))
    curvature = before - 2 * at + after
    shift = np.where(curvature > 0, (before - after) / (2 * np.maximum(curvature, 1e-12)), 0.0)
    minima: FloatArray = np.where(
        best == middle, log_grid[middle] + step * np.clip(shift, -0.5, 0.5), log_grid[best]
    )
    return minima
