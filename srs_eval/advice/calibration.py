"""When Anki says 90 %, do I recall 90 %? What the parameters in force say, and what came of it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from srs_eval.advice.answers import RECALL_NO_MATTER, Answer, Cell, Table
from srs_eval.advice.candidates import NOW, Learner
from srs_eval.data.errors import counted
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import FEWEST_DAYS, Interval, side

_ASKED = 0.9  # the retention that Anki asks for, unless told otherwise
_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.96, 1.0)
_FEWEST_OF_A_BIN = 100
_FEWEST_DAYS_SHOWN = 10  # below, no interval is shown


def does_it_mean_it(learner: Learner) -> Answer:
    """One answer over all reviews of later days, by what the parameters in force say of them.

    They may have been fitted to these reviews.
    """
    everything = np.arange(len(learner.trials))
    p = learner.predict(NOW, [Fold(everything[:0], everything)])
    rows: list[tuple[Cell, ...]] = []
    said: dict[float, tuple[float, Interval]] = {}
    for low, high in pairwise(_EDGES):
        index = np.flatnonzero((p >= low) & ((p < high) | (high == 1.0)))
        if not len(index):
            continue
        recalled = learner.interval(learner.trials.y[index], index)
        if recalled.days < _FEWEST_DAYS_SHOWN:
            recalled = replace(recalled, half_width=math.nan)
        mean = float(p[index].mean())
        rows.append((f"{100 * low:.0f}–{100 * high:.0f} %", len(index), mean, recalled))
        if len(index) >= _FEWEST_OF_A_BIN and recalled.days >= FEWEST_DAYS:
            said[low] = mean, recalled
    columns = ("when it says", "reviews", "expected", "recalled")
    table = Table("What Anki's FSRS says and what you recall", columns, tuple(rows))
    if not said:
        sentence = (
            f"Can't tell yet: {_FEWEST_OF_A_BIN} reviews on {FEWEST_DAYS} days with about the same "
            "prediction are needed."
        )
        return Answer("says", "all presets", "can't tell", (sentence,), (table,))
    nearest = min(said, key=lambda low: (abs(said[low][0] - _ASKED), low))
    mean, recalled = said[nearest]
    off = replace(recalled, estimate=recalled.estimate - mean)
    conclusion, words = {
        "below": ("less than it says", "less than it says"),
        "above": ("more than it says", "more than it says"),
        "no matter": ("means it", "it means what it says"),
        "open": ("can't tell", "can't tell yet whether it means what it says"),
    }[side(off, RECALL_NO_MATTER)]
    share = 100 * recalled.reviews / len(p)
    sentences = (
        f"When it says {100 * mean:.0f} %{_while_off(learner)}, you recall {_percent(recalled)} on "
        f"these {share:.0f} % of your reviews: {words}.",
        f"Of these {counted(recalled.reviews, 'review')} of {counted(recalled.days, 'day')} it "
        f"said about {100 * mean:.0f} %. Over all {counted(len(p), 'review')} of later days, of "
        f"which it said more or less, it expected {100 * float(p.mean()):.1f} %, and you recalled "
        f"{100 * float(learner.trials.y.mean()):.1f} %. It is judged with the parameters in force, "
        "which may have been fitted to these reviews.",
    )
    return Answer("says", "all presets", conclusion, sentences, (table,))


def _while_off(learner: Learner) -> str:
    """Which parameters speak where FSRS is off."""
    if learner.log.receipt.fsrs_enabled is not False:
        return ""
    presets = [learner.log.presets.get(group) for group in learner.groups]
    stored = any(preset is not None and preset.parameters_in_force for preset in presets)
    return f" (FSRS is off; {'the parameters stored' if stored else 'its defaults'} would)"


def _percent(recalled: Interval) -> str:
    low, high = max(recalled.low, 0.0), min(recalled.high, 1.0)
    return f"{100 * recalled.estimate:.0f} % ({100 * low:.0f} … {100 * high:.0f} %)"
