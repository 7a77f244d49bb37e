"""Is FSRS right for me? Against the older scheduler, and Anki's own health check.

The check is that of Anki 26.08 (ankitects/anki: rslib/src/scheduler/fsrs/params.rs): five
time-series folds, log loss and RMSE(bins) over all of them without weights, each divided by
what is usual for that recall and number of reviews; one of the two has to be low enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.advice.answers import Answer, Cell, Table, better_by, sure, what_is_missing
from srs_eval.advice.candidates import SM2, Learner
from srs_eval.data.bins import rmse_bin_ids
from srs_eval.data.errors import NotEnoughData, counted
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.metrics import log_losses, rmse_bins
from srs_eval.models import fsrs6
from srs_eval.models._anki import fit as anki_fit
from srs_eval.stats.intervals import Verdict, verdicts

_VERSION = "26.08"
LOG_LOSS_LIMIT, RMSE_LIMIT = 1.11, 1.53
_FEWEST_ITEMS = 300
_FOLDS = 5
SAID: Mapping[Verdict, tuple[str, str]] = {
    "better": ("yes", "FSRS predicts better than the older scheduler"),
    "worse": ("no", "FSRS predicts worse than the older scheduler"),
    "as good": ("as good", "FSRS is as good as the older scheduler"),
    "can't tell yet": (
        "can't tell",
        "Whether FSRS predicts better than the older scheduler can't be told yet",
    ),
}
"""A conclusion and its sentence, by the verdict on FSRS against the older scheduler."""


@dataclass(frozen=True)
class HealthCheck:
    """Both ratios and what they may be at most."""

    log_loss: float
    rmse_bins: float
    log_loss_ratio: float
    rmse_ratio: float
    items: int

    @property
    def passed(self) -> bool:
        return self.log_loss_ratio <= LOG_LOSS_LIMIT or self.rmse_ratio <= RMSE_LIMIT


def judge_health(log_loss: float, rmse: float, recall: float, items: int) -> HealthCheck | None:
    """The rule itself, for figures of `items` reviews with this recall; None for 300 or fewer."""
    if items <= _FEWEST_ITEMS or not 0 < recall < 1:
        return None
    usual_loss = 0.623 * (4 * recall * (1 - recall)) ** 0.738
    usual_rmse = 0.0135 / (recall**0.504 - 1.14) + 0.176 / ((items / 1000) ** 0.825 + 2.22) + 0.101
    return HealthCheck(log_loss, rmse, log_loss / usual_loss, rmse / usual_rmse, items)


def _time_series(trials: Trials, index: IntArray, learner: Learner) -> tuple[float, float]:
    """Log loss and RMSE(bins) over five folds of the positions, fitted as Anki fits.

    What is left when they are cut into six is judged in the last fold (fsrs-rs: src/inference.rs).
    Raises NotEnoughData.
    """
    parts: list[FloatArray] = []
    tested: list[IntArray] = []
    begins = [len(index) // (_FOLDS + 1) * fold for fold in range(1, _FOLDS + 1)]
    for begin, end in zip(begins, [*begins[1:], len(index)], strict=True):
        fitted = anki_fit(trials, index[:begin], learner.context)
        parts.append(fsrs6.predict(trials, fitted, index[begin:end], learner.context))
        tested.append(index[begin:end])
    p, test = np.concatenate(parts), np.concatenate(tested)
    bins = rmse_bin_ids(trials.bin_delta_t[test], trials.bin_i[test], trials.bin_lapses[test])
    y = trials.y[test]
    return float(log_losses(y, p).mean()), rmse_bins(y, p, bins)


def check_health(learner: Learner, index: IntArray) -> HealthCheck | None:
    """Anki's health check of the reviews at the positions; None where Anki makes none."""
    recall = float(learner.trials.y[index].mean())
    if judge_health(1.0, 1.0, recall, len(index)) is None:
        return None
    try:
        return judge_health(*_time_series(learner.trials, index, learner), recall, len(index))
    except NotEnoughData:  # rare first intervals may be all that a fold has
        return None


def is_fsrs_right_for_me(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Answer]:
    """One answer for each preset."""
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    fsrs = learner.held_out_losses("optimized")
    for group in groups:
        name = learner.name_of(group)
        mine = partition == group
        sentences: list[str] = []
        tables: list[Table] = []
        conclusion = "can't tell"
        if mine.any():
            differences = {
                other: learner.interval((fsrs - learner.held_out_losses(other))[mine], index[mine])
                for other in (SM2, "average")
            }
            says = verdicts(differences, equivalence=equivalence)
            conclusion, sentence = SAID[says[SM2]]
            difference = differences[SM2]
            sentences.append(
                f"{sentence}: log loss {better_by(difference.estimate)} on "
                f"{counted(difference.reviews, 'held-out review')} {sure(difference)}."
            )
            if says[SM2] == "can't tell yet":
                sentences.append(what_is_missing(difference, len(differences)))
            rows: list[tuple[Cell, ...]] = [
                (other, each, says[other]) for other, each in differences.items()
            ]
            tables.append(
                Table(f"{name}: FSRS-6 against", ("against", "minus it", "verdict"), tuple(rows))
            )
        found = check_health(learner, np.flatnonzero(learner.trials.partition == group))
        sentences.append(_health_sentence(found))
        if found is not None:
            tables.append(_health_table(name, found))
        yield Answer("health", name, conclusion, tuple(sentences), tuple(tables))


def _health_sentence(found: HealthCheck | None) -> str:
    if found is None:
        return (
            f"Anki makes no health check ({_VERSION}) here: it needs more than {_FEWEST_ITEMS} "
            "reviews, both outcomes, and first intervals that are not all rare."
        )
    result = "passes" if found.passed else "fails"
    return (
        f"Anki's health check ({_VERSION}) {result}: log loss is {found.log_loss_ratio:.2f} times "
        f"what is usual (limit {LOG_LOSS_LIMIT}), RMSE(bins) {found.rmse_ratio:.2f} times "
        f"(limit {RMSE_LIMIT}); one of both has to hold."
    )


def _health_table(name: str, found: HealthCheck) -> Table:
    return Table(
        f"{name}: Anki's health check ({_VERSION}), {found.items:,} reviews",
        ("figure", "value", "ratio", "limit", "margin"),
        (
            (
                "log loss",
                found.log_loss,
                found.log_loss_ratio,
                LOG_LOSS_LIMIT,
                LOG_LOSS_LIMIT - found.log_loss_ratio,
            ),
            (
                "RMSE(bins)",
                found.rmse_bins,
                found.rmse_ratio,
                RMSE_LIMIT,
                RMSE_LIMIT - found.rmse_ratio,
            ),
        ),
    )
