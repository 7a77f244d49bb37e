"""Which model predicts best? For reviews without presets, and for others' predictions.

FSRS-6, its variants and the floor are the engine's configurations on the benchmark's rows;
beside them stand the predictions that the source brings along (SuperMemo's), those of a file,
and parameters of one's own. All are judged on the same held-out reviews.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from srs_eval.advice.answers import Answer, Cell, Table, best, better_by, sure, what_is_missing
from srs_eval.advice.candidates import Learner
from srs_eval.data.bins import rmse_bin_ids
from srs_eval.data.errors import NotEnoughData, counted
from srs_eval.data.reviews import FloatArray
from srs_eval.metrics import auc, rmse_bins
from srs_eval.stats.intervals import Interval, Verdict, verdicts

_REFERENCE = "FSRS-6"


def which_predicts_best(
    learner: Learner,
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
    equivalence: float,
) -> Answer:
    """One answer over all reviews.

    `lines` are FSRS-6 parameters of one's own, by name; `given` others' probabilities for the
    held-out reviews (k,), NaN where there is none. Judged are reviews with a prediction by all.
    """
    everything = learner.trials.test_index
    p = {}
    for name in learner.configurations:
        try:
            p[name] = learner.held_out(name)
        except NotEnoughData:
            continue
    p |= {name: learner.with_parameters(values, everything) for name, values in lines.items()}
    p |= given
    judged = np.isfinite(np.stack(list(p.values()))).all(axis=0)
    if not judged.any():
        raise NotEnoughData("no held-out review has a prediction by all models")
    index = everything[judged]
    losses = {name: learner.losses(each[judged], index) for name, each in p.items()}
    log_loss = {name: learner.interval(each, index) for name, each in losses.items()}
    difference = {
        name: learner.interval(each - losses[_REFERENCE], index)
        for name, each in losses.items()
        if name != _REFERENCE
    }
    says = verdicts(difference, equivalence=equivalence)
    trials = learner.trials
    bins = rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index])
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            log_loss[name],
            rmse_bins(trials.y[index], p[name][judged], bins),
            auc(trials.y[index], p[name][judged]),
            difference.get(name),
            says.get(name, ""),
        )
        for name in sorted(p, key=lambda name: log_loss[name].estimate)
    ]
    ahead = best(log_loss.items())
    sentences = [
        _sentence(name, difference[name], says[name], len(difference)) for name in (*lines, *given)
    ]
    sentences.append(
        f"“{ahead}” has the lowest log loss on the {counted(len(index), 'held-out review')}, "
        f"{log_loss[ahead].estimate:.4f}."
    )
    if len(index) < len(everything):
        missing = len(everything) - len(index)
        left_out = counted(missing, "held-out review")
        sentences.append(f"Left out: {left_out} without a prediction by every model.")
    columns = ("model", "log loss", "RMSE(bins)", "AUC", f"minus {_REFERENCE}", "verdict")
    title = f"{counted(len(index), 'review')} that no fit had seen"
    table = Table(title, columns, tuple(rows))
    return Answer("models", "all reviews", ahead, tuple(sentences), (table,))


def brought_along(learner: Learner) -> dict[str, FloatArray]:
    """The source's own predictions for the held-out reviews, by name; NaN where there is none."""
    place = learner.source_place[learner.trials.test_index]
    return {name: column[place] for name, column in learner.log.predictions.items()}


def _sentence(name: str, difference: Interval, says: Verdict, asked: int) -> str:
    figures = (
        f"log loss {better_by(difference.estimate)} on "
        f"{counted(difference.reviews, 'held-out review')} {sure(difference)}"
    )
    match says:
        case "better" | "worse":
            return f"“{name}” predicts {says} than FSRS-6 fitted to these reviews: {figures}."
        case "as good":
            return f"“{name}” predicts as well as FSRS-6 fitted to these reviews: {figures}."
    return (
        f"Whether “{name}” predicts better than FSRS-6 fitted to these reviews can't be told yet: "
        f"{figures}. {what_is_missing(difference, asked)}"
    )
