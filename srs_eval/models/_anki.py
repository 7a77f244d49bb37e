"""FSRS-6 as Anki's own optimizer trains it, batch by batch.

open-spaced-repetition/fsrs-rs 6.6 (src/training.rs, `compute_parameters` with the cards' ids;
src/dataset.rs; src/parameter_initialization.rs) as Anki 26.08 calls it (ankitects/anki:
rslib/src/scheduler/fsrs/params.rs). It differs from FSRS-6 here: cards with rare first intervals
are left out, a card's reviews stay together in a batch, batches come in another random order,
eight epochs, the last one's parameters are kept, and the initial stabilities are put in order
once more. On the same reviews the parameters agree with Anki's to four decimals.

Not followed is what more than one relearning step does to the bounds of w17 and w18.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import IntArray
from srs_eval.data.trials import Trials, first_interval_outliers, recency_weights
from srs_eval.models import fsrs6
from srs_eval.training.hyperparameters import Context
from srs_eval.training.initial_stability import (
    InitialStability,
    ordered_and_complete,
    second_reviews,
)
from srs_eval.training.optimisers import shuffles
from srs_eval.training.recurrent import RecurrentModel, fit_recurrent

_EPOCHS = 8
_LONGEST = 255  # reviews before the one that is judged
FEWEST, FEWEST_TO_TRAIN = 8, 64  # below, the defaults; below, only initial stabilities are fitted
_LEAST_W19 = 0.01


def fit(trials: Trials, train: IntArray, context: Context) -> list[float]:
    """The 21 parameters for the positions `train`, in review order.

    Newer reviews weigh more. Raises NotEnoughData where all first intervals are rare, which
    Anki's optimizer refuses too.
    """
    train = _without_outliers(trials, train)
    if len(train) < FEWEST:
        return list(fsrs6.DEFAULT)
    start = fsrs6.fit_s0(trials, train, np.ones(len(train)), context)
    if len(train) < FEWEST_TO_TRAIN or (trials.i[train] == 2).all():
        return start
    longer = replace(trials, protocol=replace(trials.protocol, max_seq_len=_LONGEST))
    weights = recency_weights(len(train))
    try:
        fitted = fit_recurrent(_model(), longer, train, weights, start, context)
    except NotEnoughData:
        return start
    counts = second_reviews(trials, train)
    first = {rating: fitted[rating - 1] for rating in counts}
    settings = InitialStability(default=fsrs6.DEFAULT[:4], decay=fsrs6.DEFAULT[20], minimum=0.001)
    return [*ordered_and_complete(first, counts, settings), *fitted[4:]]


def _by_card(trials: Trials, rows: IntArray, size: int) -> list[IntArray]:
    """Batches of whole cards, those with the shortest histories first.

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


def _model() -> RecurrentModel:
    model = fsrs6.recurrent(0.001)
    lower = list(model.lower)
    lower[19] = _LEAST_W19
    return replace(
        model,
        lower=tuple(lower),
        epochs=_EPOCHS,
        decimals=None,
        keep="last",
        cut=_by_card,
        orders=shuffles,
        anneals_over="sizes",
    )


def _without_outliers(trials: Trials, train: IntArray) -> IntArray:
    """Without cards whose first interval is rare for their first rating."""
    second = train[trials.i[train] == 2]
    rare = first_interval_outliers(
        trials.first_rating[second], trials.elapsed_days[second], as_fsrs_rs=True
    )
    return train[~np.isin(trials.card_id[train], trials.card_id[second[rare]])]
