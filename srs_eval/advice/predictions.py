"""Which model predicts best? For reviews without presets, and for predictions of others.

FSRS-6, its variants and the average are the engine's configurations on the benchmark's rows;
beside them stand the predictions that the source brings along (SuperMemo's), those of a file,
and parameters of one's own. All are evaluated on the same held-out reviews.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import ALL_REVIEWS, OPTIMIZED, Finding, Model, Models
from srs_eval.advice.parameters import OTHER_MODELS, compared
from srs_eval.data.errors import InputError, NotEnoughData, printable, require
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import rmse_bin_ids
from srs_eval.metrics import auc, rmse_bins

_REFERENCE = OPTIMIZED


def which_predicts_best(
    learner: Learner,
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
    equivalence: float,
) -> Finding:
    """One finding over all reviews.

    `lines` are FSRS-6 parameters of one's own, by name; `given` others' probabilities for the
    held-out reviews (k,), NaN where there is none. Evaluated are reviews with a prediction by all.
    """
    everything = learner.trials.test_index
    p = {}
    for name in (*learner.configurations, *learner.sm2):
        try:
            p[name] = learner.held_out(name)
        except NotEnoughData:
            continue
    p |= {name: learner.with_parameters(values, everything) for name, values in lines.items()}
    p |= given
    evaluated = np.isfinite(np.stack(list(p.values()))).all(axis=0)
    if not evaluated.any():
        raise NotEnoughData("no held-out review has a prediction by all models")
    index = everything[evaluated]
    losses = {name: learner.losses(each[evaluated], index) for name, each in p.items()}
    first = (*OTHER_MODELS, *brought_along(learner))
    found = compared(
        learner.interval, losses, index, _REFERENCE, first=first, equivalence=equivalence
    )
    trials = learner.trials
    bins = rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index])
    models = tuple(
        Model(
            name,
            found.log_loss[name],
            found.difference.get(name),
            found.says.get(name),
            rmse_bins=rmse_bins(trials.y[index], p[name][evaluated], bins),
            auc=auc(trials.y[index], p[name][evaluated]),
            is_own=name in lines or name in given,
        )
        for name in found.ordered
    )
    evidence = Models(models[0].name, models, len(everything) - len(index))
    return Finding("models", ALL_REVIEWS, reviews=len(index), evidence=evidence)


def brought_along(learner: Learner) -> dict[str, FloatArray]:
    """The source's own predictions for the held-out reviews, by name; NaN where there is none."""
    place = learner.source_place[learner.trials.test_index]
    return {name: column[place] for name, column in learner.log.predictions.items()}


# Predictions of a file

_KEYS = ("review_th", "review_id", "time_ms")  # of a review; the last one with its card


@dataclass(frozen=True, eq=False)
class Predictions:
    """One model's probabilities of recall (k,) for the answers known by `key` (k,)."""

    key: IntArray  # Unix ms of the answer, which is its id in the revlog; or its number
    numbered: bool  # by position among the reviews of the source, from 1 on
    card_id: IntArray | None
    p: FloatArray


def read_predictions(path: Path) -> dict[str, Predictions]:
    """By model, from CSV or parquet with columns review_id (or card_id and time_ms), p, model.

    review_id is that of Anki's revlog; where a source has no times, review_th is the position
    among its reviews. Without `model` the file's name is the model's. Raises
    InputError for what is not there, unreadable, or no probability.
    """
    columns = _columns(path)
    by = next((name for name in _KEYS if name in columns), "review_id")
    key = np.array(_numbers(path, columns, by, int), np.int64)
    is_card_s = by == "time_ms"
    card_id = np.array(_numbers(path, columns, "card_id", int), np.int64) if is_card_s else None
    p = np.array(_numbers(path, columns, "p", float), np.float64)
    if not len(p):
        raise InputError(f'"{path.name}" holds no predictions.')
    if not (p.min() >= 0 and p.max() <= 1):  # also true for NaN
        raise InputError(f'"{path.name}": p must be probabilities between 0 and 1.')
    models = np.array(columns.get("model", [path.stem] * len(p)), np.str_)
    found = {}
    for model in np.unique(models).tolist():
        mine = models == model
        cards = None if card_id is None else card_id[mine]
        found[model] = Predictions(key[mine], by == "review_th", cards, p[mine])
    return found


def held_out_of(learner: Learner, model: str, predictions: Predictions) -> FloatArray:
    """Its probabilities for the held-out reviews (`trials.test_index`).

    Raises InputError where a held-out review has no prediction, or two.
    """
    index = learner.trials.test_index
    if predictions.numbered:
        wanted = learner.trials.review_th[index]
    elif learner.log.entries is None:
        raise InputError(
            f"{learner.log.import_summary.path} has no times of answers: name reviews by "
            "review_th, their number in the file's order (`Results.predictions` has it)."
        )
    else:
        wanted = learner.log.entries.time_ms[learner.source_place[index]]
    order = np.argsort(predictions.key, kind="stable")
    known = predictions.key[order]
    if (np.diff(known) == 0).any():
        raise InputError(f'The predictions of "{model}" name a review twice; keep one of them.')
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = known[place] == wanted
    if predictions.card_id is not None:
        found &= predictions.card_id[order][place] == learner.trials.card_id[index]
    if not found.all():
        raise InputError(
            f'The predictions of "{model}" cover {np.count_nonzero(found):,} of the '
            f"{len(index):,} held-out reviews (--rows {learner.trials.protocol.rows}, five "
            "folds); all are needed."
        )
    return predictions.p[order][place]


def _columns(path: Path) -> Mapping[str, list[object]]:
    try:
        with path.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
        if parquet:
            require("pyarrow", printable(path.name))
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            return {name.lower(): table[name].to_pylist() for name in table.column_names}
        with path.open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.reader(text))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is neither CSV nor parquet"
        raise InputError(f'Predictions cannot be read from "{path}" ({reason}).') from None
    if not rows:
        raise InputError(f'"{path.name}" holds no predictions.')
    names = [name.strip().lower() for name in rows[0]]
    body = [row for row in rows[1:] if row]
    short = next((k for k, row in enumerate(body, start=2) if len(row) != len(names)), None)
    if short is not None:
        raise InputError(f'"{path.name}": line {short} has not as many fields as the header.')
    return {name: [row[k] for row in body] for k, name in enumerate(names)}


def _numbers(
    path: Path,
    columns: Mapping[str, list[object]],
    name: str,
    kind: Callable[[str], float],
) -> list[float]:
    """A column as integers or floats."""
    if name not in columns:
        raise InputError(
            f'"{path.name}" has no column {name}: review_id (or card_id and time_ms) and p are '
            "needed, model if there are several."
        )
    try:
        found = [kind(str(value)) for value in columns[name]]
        if kind is int:
            np.array(found, np.int64)
    except (ValueError, OverflowError):
        whole = "whole number" if kind is int else "number"
        raise InputError(
            f'"{path.name}": the column {name} holds something that is no {whole}.'
        ) from None
    return found
