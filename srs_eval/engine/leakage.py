"""Find models that read the future.

Before review k, a model may know the reviews before it and everything about k itself except its
grade and its answer time. So a model that is trained and evaluated on the log up to k must predict
the same up to k as on the full log: later reviews may be missing or different, and so may the
answer to k. `fit` and `predict` are judged together, by their predictions; they are told apart only
to say which of the two reads too much. A review is identified by its number, from 1
(`Trials.review_th`); in shapes, k is the number of evaluated reviews.

Most checks do not retrain: they predict again with the fits that the training made, which is quick.
On a log that is cut off or goes on differently, such a fit may predict something else without
reading the future, because it may refer to its own trials (such as the k-th of all decks). There,
the model is retrained before a mistake is reported.

In an altered log, sums over the histories of many cards are rounded differently, and a tree may put
a review near one of its thresholds on the other side. So a difference counts only if it exceeds the
effect of rounding alone on the model's predictions (`TrainingRun.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import NotInstalled
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog, Rows
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.altered_logs import (
    LATER_INPUTS,
    alter_future,
    change_answer_time,
    require_rows,
    swap_answers,
    swap_grades,
    swap_outcomes,
    truncate_after,
    truncate_and_alter,
)
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.model_mistakes import Mistake, Mistakes
from srs_eval.engine.replay import (
    Folds,
    TrainingRun,
    TruncatedSession,
    predict_again,
    retrain,
)
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Ensemble, OnlineModel
from srs_eval.training.hyperparameters import Cancelled, Context

BoolArray = NDArray[np.bool_]

_REPLAY_TOLERANCE = 1e-6
"""Probabilities this close are equal: sums over other rows are rounded differently."""
_SINGLE_PRECISION_TOLERANCE = 1e-5
"""The same for networks, which calculate in single precision: the number of rows changes how a
matrix product is rounded. With another number of rows, all predictions of RWKV change, from the
first review on, by up to 1.4e-6; with the same number of rows, they are equal to the last digit."""
_RETRAIN_TOLERANCE = 1e-3
"""The same if the model was also retrained: training amplifies last digits."""

# A difference has another cause than rounding if it is so many times larger than rounding's effect.
_MEAN_FACTOR = 2.0  # for the mean difference
_MEAN_FACTOR_TO_CONFIRM = 1.0  # for the mean difference, if predictions with kept fits differ, too
_LARGEST_FACTOR = 2.0  # for the largest difference

_MAX_SINGLE_ANSWERS = 32  # reviews whose answers are changed one at a time
_MAX_UNCONFIRMED = 2
"""Differences that retraining does not confirm: after this many, kept fits prove nothing."""


@dataclass(frozen=True)
class _PredictionDifference:
    """A review whose prediction differs between two logs, or the error that one of them caused."""

    review: int
    predicted: float = np.nan
    expected: float = np.nan
    error: str = ""


# Effects of outcomes


def find_outcome_leaks(training: TrainingRun) -> Mistakes:
    """Change all outcomes from a late review on: no prediction up to that review may change.

    This also holds for models that learn while they are evaluated.
    """
    review = choose_late_review(training)
    late_rows = np.arange(review - 1, len(require_rows(training.log)))
    mistake = _find_outcome_leak(training, swap_outcomes(training.log, late_rows), review)
    if mistake is None:
        return
    # `swap_outcomes` also changes later states and intervals, as a scheduler would. If the grades
    # alone make no difference, the model reads these.
    if _find_outcome_leak(training, swap_grades(training.log, late_rows), review) is None:
        schedule = "the states, scheduled intervals or ease"
        mistake = replace(mistake, kind="later input", what=schedule)
    yield mistake


def _find_outcome_leak(training: TrainingRun, log: ReviewLog, review: int) -> Mistake | None:
    """Return a mistake if other outcomes from a review on change a prediction up to it."""
    before = training.result
    after = predict_again(training, make_matching_session(training, log))
    earlier_difference = _find_first_difference(training, before, after, before.review_th < review)
    own_difference = _find_first_difference(training, before, after, before.review_th == review)
    if earlier_difference is not None:
        return _make_mistake(training, "later outcome", earlier_difference)
    if own_difference is not None:
        return _make_mistake(training, "own outcome", own_difference)
    return None


def find_leaky_fits(training: TrainingRun) -> Mistakes:
    """Retrain with other outcomes after the training parts: the fits must predict the same."""
    review = choose_late_review(training)
    late_rows = np.arange(review - 1, len(require_rows(training.log)))
    session = make_matching_session(training, swap_outcomes(training.log, late_rows))
    up_to_review = training.result.review_th <= review
    with_old_fits = predict_again(training, session)
    with_new_fits = retrain(training, session).result
    difference = _find_first_difference(
        training, with_old_fits, with_new_fits, up_to_review, is_retrained=True
    )
    if difference is not None:
        yield _make_mistake(training, "fit sees test", difference)


def find_online_learning(training: TrainingRun) -> Mistakes:
    """Change the answers to half of the last fold's cards: predictions for the others must stay.

    Only an online model may learn from answers that come after its training.
    """
    if isinstance(training.configuration.model, OnlineModel):
        return
    before = training.result
    card_of_row = require_rows(training.log).card_id
    card_of_review = card_of_row[before.review_th - 1]
    in_last_fold = before.fold == before.fold.max()
    changed_cards = np.unique(card_of_review[in_last_fold])[::2]
    is_changed_row = np.isin(card_of_row, changed_cards)
    first_row_of_fold = int(before.review_th[in_last_fold].min()) - 1
    is_changed_row[:first_row_of_fold] = False
    log = swap_answers(training.log, np.flatnonzero(is_changed_row))
    after = predict_again(training, make_matching_session(training, log))
    must_stay = in_last_fold & ~np.isin(card_of_review, card_of_row[is_changed_row])
    difference = _find_first_difference(training, before, after, must_stay)
    if difference is not None:
        yield _make_mistake(training, "learns", difference)


# A review's own answer, in every kind of review


def find_own_answers(training: TrainingRun, rounds: int) -> Mistakes:
    """Change the answer to one evaluated review per card: no prediction up to it may change.

    This is done `rounds` times, each time for other reviews, so every evaluated review has its turn
    if no card has more than `rounds` of them. An online model learns from the answers to other
    cards, so for such a model, the answers to single reviews of many kinds are changed instead.
    """
    if isinstance(training.configuration.model, OnlineModel):
        yield from _find_single_answers(training)
        return
    for chosen in islice(_choose_one_of_each_card(training), rounds):
        if _find_own_difference(training, chosen) is None:
            continue
        # A review that one fold evaluates may be training data of the next fold, which `predict`
        # may read there. So the answers of one fold at a time are changed.
        for fold in np.unique(training.result.fold):
            chosen_of_fold = chosen & (training.result.fold == fold)
            difference = _find_own_difference(training, chosen_of_fold, fold)
            if difference is not None:
                yield _explain_difference(training, chosen_of_fold, difference)
                return


def find_own_answers_in_fits(training: TrainingRun) -> Mistakes:
    """Check a training with one fold as `find_own_answers` does, but retrain the model.

    This also finds answers that a fit has stored, for example in features, and that `predict` reads
    there.
    """
    if isinstance(training.configuration.model, OnlineModel) or not training.fits:
        return
    for in_order in (True, False):
        chosen = next(_choose_one_of_each_card(training, in_order=in_order))
        log = swap_answers(training.log, _rows_of_reviews(training, chosen))
        after = retrain(training, make_matching_session(training, log)).result
        must_stay = _mark_up_to_chosen(training, chosen)
        difference = _find_largest_difference(training, after, must_stay, is_retrained=True)
        if difference is not None:
            yield _make_mistake(training, "fit sees test", difference)
            return


def _find_own_difference(
    training: TrainingRun, chosen: BoolArray, fold: int | None = None
) -> _PredictionDifference | None:
    """Return a prediction that changes with the answers to chosen reviews (k,), one per card.

    Only predictions up to the chosen review of a card count; with `fold`, only those of this fold.
    """
    log = swap_answers(training.log, _rows_of_reviews(training, chosen))
    after = predict_again(training, make_matching_session(training, log))
    must_stay = _mark_up_to_chosen(training, chosen)
    if fold is not None:
        must_stay &= training.result.fold == fold
    return _find_largest_difference(training, after, must_stay)


def _explain_difference(
    training: TrainingRun, chosen: BoolArray, difference: _PredictionDifference
) -> Mistake:
    """Return the mistake, named after its cause.

    The cause is the review's own outcome or answer time, an earlier answer to another card, or a
    later answer.
    """
    review_th = training.result.review_th
    is_own = review_th == difference.review
    log = training.log
    changes = {
        "own outcome": swap_grades(log, np.array([difference.review - 1])),
        "own answer time": change_answer_time(log, difference.review),
    }
    for kind, altered in changes.items():
        after = predict_again(training, make_matching_session(training, altered))
        own_difference = _find_largest_difference(training, after, is_own)
        if own_difference is not None:
            return _make_mistake(training, kind, own_difference)
    earlier = chosen & (review_th < difference.review)
    altered = swap_answers(log, _rows_of_reviews(training, earlier))
    after = predict_again(training, make_matching_session(training, altered))
    kind = "later outcome"
    if earlier.any() and _find_largest_difference(training, after, is_own) is not None:
        kind = "learns"
    return _make_mistake(training, kind, difference)


def _choose_one_of_each_card(
    training: TrainingRun, *, in_order: bool = False
) -> Iterator[BoolArray]:
    """Yield masks (k,) that select one evaluated review of each card, until each was selected.

    The reviews of a card are selected in random order, or as they are evaluated if `in_order` is
    true.
    """
    positions = np.arange(training.result.size)
    if not in_order:
        positions = np.random.default_rng(1).permutation(positions)
    card_id = require_rows(training.log).card_id[training.result.review_th[positions] - 1]
    while len(positions):
        first_of_card = np.unique(card_id, return_index=True)[1]
        chosen = np.zeros(training.result.size, np.bool_)
        chosen[positions[first_of_card]] = True
        yield chosen
        positions = np.delete(positions, first_of_card)
        card_id = np.delete(card_id, first_of_card)


def _rows_of_reviews(training: TrainingRun, chosen: BoolArray) -> IntArray:
    """Return the positions in the log of chosen evaluated reviews (k,), in order."""
    return np.sort(training.result.review_th[chosen]) - 1


def _mark_up_to_chosen(training: TrainingRun, chosen: BoolArray) -> BoolArray:
    """Return a mask (k,) of evaluated reviews up to the chosen one of their card.

    If no review of a card is chosen, the mask includes all of the card's reviews.
    """
    rows = training.result.review_th - 1
    card_id = require_rows(training.log).card_id[rows]
    cards, card_number = np.unique(card_id, return_inverse=True)
    last_row = np.full(len(cards), len(require_rows(training.log)))
    last_row[card_number[chosen]] = rows[chosen]
    return rows <= last_row[card_number]


def _find_single_answers(training: TrainingRun) -> Mistakes:
    """Change the answer to one review at a time: no prediction up to it may change."""
    for review in _choose_varied_reviews(training):
        log = swap_answers(training.log, np.array([review - 1]))
        after = predict_again(training, make_matching_session(training, log))
        up_to_review = training.result.review_th <= review
        difference = _find_largest_difference(training, after, up_to_review)
        if difference is None:
            continue
        if difference.review != review:
            yield _make_mistake(training, "later outcome", difference)
            return
        chosen = training.result.review_th == review
        yield _explain_difference(training, chosen, difference)
        return


def _choose_varied_reviews(training: TrainingRun) -> list[int]:
    """Return reviews that differ in length of history, interval, first grade, deck and state."""
    trials = training.session.trials(training.configuration.protocol)
    index = np.random.default_rng(1).permutation(trials.test_index)
    row = trials.history_end[index]  # the review itself comes after its history
    properties = (
        np.minimum(trials.sequence_length[index], 8),
        np.minimum(np.log2(1 + trials.delta_t[index]).astype(np.int64), 8),
        trials.first_rating[index],
        trials.columns("deck_id")[0][row],
        trials.columns("state")[0][row],
    )
    first_of_each_value = [np.unique(values, return_index=True)[1] for values in properties]
    positions = np.unique(np.concatenate(first_of_each_value))[:_MAX_SINGLE_ANSWERS]
    return [int(review) for review in trials.review_th[index[positions]]]


def make_matching_session(training: TrainingRun, log: ReviewLog) -> LearnerSession:
    """Return a session with the training's folds, on a log with the same evaluated reviews."""
    return TruncatedSession(training.session, log, len(require_rows(log)))  # all of its reviews


def choose_late_review(training: TrainingRun) -> int:
    """Return the first of the last quarter of reviews whose card is reviewed again.

    If there is none, this is the quarter's first review. With two folds, all of this quarter is in
    the last one, so no fit has seen it.
    """
    result = training.result
    card_id = require_rows(training.log).card_id
    late_reviews = np.sort(result.review_th)[result.size * 3 // 4 :]
    for review in late_reviews:
        if card_id[review - 1] in card_id[review:]:
            return int(review)
    return int(late_reviews[0])


# Later reviews, and a review's own answer


def find_future_inputs(training: TrainingRun, cuts: int) -> Mistakes:
    """Predict with the kept fits on logs that end or go on differently after certain reviews.

    These reviews are those of `_choose_cuts`. If predictions differ, the model is retrained on that
    log, and a mistake is reported if they still differ.
    """
    unconfirmed = 0
    for review in _choose_cuts(training, cuts):
        for alter in (truncate_and_alter, alter_future):
            session = TruncatedSession(training.session, alter(training.log, review), review)
            if _compare_replay(training, session, review) is None:
                continue
            mistake = diagnose_altered_training(
                training, review, alter, mean_factor=_MEAN_FACTOR_TO_CONFIRM
            )
            if mistake is not None:
                yield mistake
                return
            unconfirmed += 1
            if unconfirmed == _MAX_UNCONFIRMED:
                return


def find_future_fits(training: TrainingRun, limit: int = 3) -> Mistakes:
    """Retrain on logs that end or go on differently soon after a training part ends.

    At most `limit` such logs are tried.
    """
    for reviews, alter in islice(_plan_retrainings(training.result), limit):
        review = int(reviews[len(reviews) // 5])
        mistake = diagnose_altered_training(training, review, alter)
        if mistake is not None:
            yield mistake
            return


def _plan_retrainings(result: Result) -> Iterator[tuple[IntArray, Callable[..., ReviewLog]]]:
    """Yield reviews of the last or first fold, and the function that alters the log there."""
    folds = np.unique(result.fold)
    last_fold_reviews = np.sort(result.review_th[result.fold == folds[-1]])
    yield last_fold_reviews, alter_future
    yield last_fold_reviews, truncate_and_alter
    if len(folds) > 1:
        first_fold_reviews = np.sort(result.review_th[result.fold == folds[0]])
        yield first_fold_reviews, truncate_and_alter


def diagnose_altered_training(
    training: TrainingRun,
    review: int,
    alter: Callable[[ReviewLog, int], ReviewLog],
    *,
    mean_factor: float = _MEAN_FACTOR,
) -> Mistake | None:
    """Train on the log altered after a review; return a mistake if predictions up to it differ."""
    session = TruncatedSession(training.session, alter(training.log, review), review)
    is_retrained = bool(training.fits) or isinstance(training.configuration.model, Ensemble)
    difference = _compare_up_to(
        training,
        lambda: retrain(training, session).result,
        review,
        is_retrained=is_retrained,
        mean_factor=mean_factor,
    )
    if difference is None:
        return None
    return _diagnose(training, review, session, difference)


def _diagnose(
    training: TrainingRun, review: int, session: LearnerSession, difference: _PredictionDifference
) -> Mistake:
    """Return the mistake, named after its cause: a fit, outcome, own answer time or later input."""
    # The cause is looked for even if the time for the check is up.
    training = replace(training, context=replace(training.context, tick=Context().tick))
    if difference.error:
        return _make_mistake(training, "needs later", difference, difference.error)
    if training.fits and _compare_replay(training, session, review) is None:
        return _diagnose_fit(training, review, difference)
    log = training.log
    own_row = np.array([review - 1])
    later_rows = np.arange(review, len(require_rows(log)))
    by_own_outcome = _compare_on_log(training, swap_grades(log, own_row), review)
    if by_own_outcome is not None:
        kind = "own outcome" if by_own_outcome.review == review else "later outcome"
        return _make_mistake(training, kind, by_own_outcome)
    by_later_outcomes = _compare_on_log(training, swap_grades(log, later_rows), review)
    if by_later_outcomes is not None:
        return _make_mistake(training, "later outcome", by_later_outcomes)
    by_answer_time = _compare_on_log(training, change_answer_time(log, review), review)
    if by_answer_time is not None and by_answer_time.review == review:
        return _make_mistake(training, "own answer time", by_answer_time)
    for input_name, change in LATER_INPUTS.items():
        by_input = _compare_on_log(training, change(log, review), review)
        if by_input is not None:
            return _make_mistake(training, "later input", by_input, f"the {input_name}")
    by_number = _compare_on_log(training, truncate_after(log, review), review)
    if by_number is not None:
        return _make_mistake(training, "later input", by_number, "the number")
    # What is left is the own grade: only `truncate_and_alter` gives another passing grade.
    return _make_mistake(training, "own outcome", difference)


def _diagnose_fit(training: TrainingRun, review: int, difference: _PredictionDifference) -> Mistake:
    """Decide whether a fit depends on outcomes after its training part or on something else."""
    log = swap_grades(training.log, np.arange(review - 1, len(require_rows(training.log))))
    session = TruncatedSession(training.session, log, review)
    by_outcomes = _compare_up_to(
        training, lambda: retrain(training, session).result, review, is_retrained=True
    )
    kind = "fit sees later" if by_outcomes is None else "fit sees test"
    return _make_mistake(training, kind, difference)


def _compare_on_log(
    training: TrainingRun, log: ReviewLog, review: int
) -> _PredictionDifference | None:
    """Compare predictions up to a review with those of the kept fits on another log."""
    return _compare_replay(training, TruncatedSession(training.session, log, review), review)


def _compare_replay(
    training: TrainingRun, session: LearnerSession, review: int
) -> _PredictionDifference | None:
    """Compare predictions up to a review with those of the kept fits in another session."""
    return _compare_up_to(training, lambda: predict_again(training, session), review)


# Folds of long logs


def choose_late_fold(trials: Trials) -> Folds:
    """Return one fold, with the training part of the first fold and the test part of the last.

    This keeps the training short on long logs.
    """
    return (Fold(train=trials.folds[0].train, test=trials.folds[-1].test),)


def choose_wide_fold(trials: Trials) -> Folds:
    """Return one fold, with the training part of the first fold and all test parts.

    After one short training, all kinds of reviews are then predicted, also a card's early ones.
    """
    return (Fold(train=trials.folds[0].train, test=np.unique(trials.test_index)),)


def choose_last_fold(trials: Trials) -> Folds:
    """Return only the protocol's last fold, which has the most training data."""
    return trials.folds[-1:]


# Differences


def _choose_cuts(training: TrainingRun, count: int) -> list[int]:
    """Return evaluated reviews after which a log is cut.

    These are `count`, evenly spread, and half as many whose card comes again on the same day.
    The latter are only failures, if there are any: later reviews on the same day reveal them.
    """
    rows = require_rows(training.log)
    reviews = np.sort(training.result.review_th)
    repeated = reviews[_mark_repeated_on_the_day(rows)[reviews - 1]]
    repeated_failures = repeated[rows.rating[repeated - 1] == 1]
    if len(repeated_failures):
        repeated = repeated_failures
    cuts = set(_spread_reviews(reviews, count))
    cuts.update(_spread_reviews(repeated, (count + 1) // 2))
    return sorted(cuts)


def _mark_repeated_on_the_day(rows: Rows) -> BoolArray:
    """Return a mask of rows whose card comes again on the same day."""
    order = np.argsort(rows.card_id, kind="stable")
    card_id = rows.card_id[order]
    day = rows.day_offset[order]
    is_repeated = np.zeros(len(order), np.bool_)
    is_repeated[order[:-1]] = (card_id[1:] == card_id[:-1]) & (day[1:] == day[:-1])
    return is_repeated


def _spread_reviews(reviews: IntArray, count: int) -> list[int]:
    """Return up to `count` of these reviews, evenly spread over all."""
    if not len(reviews):
        return []
    positions = (np.arange(count) + 0.5) / count * len(reviews)
    return [int(review) for review in np.unique(reviews[positions.astype(np.int64)])]


def _compare_up_to(
    training: TrainingRun,
    predict: Callable[[], Result],
    review: int,
    *,
    is_retrained: bool = False,
    mean_factor: float = _MEAN_FACTOR,
) -> _PredictionDifference | None:
    """Compare predictions up to a review with the training's; an error counts as a difference."""
    try:
        after = predict()
    except (NotInstalled, Cancelled, MemoryError):
        raise
    except Exception as error:
        return _PredictionDifference(review, error=describe_failure(error)[0])
    review_th = training.result.review_th
    # A difference before the review is reported rather than the review's own.
    for among in (review_th < review, review_th <= review):
        difference = _find_largest_difference(
            training, after, among, is_retrained=is_retrained, mean_factor=mean_factor
        )
        if difference is not None:
            return difference
    return None


def _find_largest_difference(
    training: TrainingRun,
    after: Result,
    among: BoolArray,
    *,
    is_retrained: bool = False,
    mean_factor: float = _MEAN_FACTOR,
) -> _PredictionDifference | None:
    """Return the review whose predictions differ most, if they differ.

    Reviews are matched by their numbers; `among` (k,) is a mask of the training's reviews that
    count.
    """
    before = training.result
    review = before.review_th[among]
    order = np.argsort(after.review_th, kind="stable")
    positions = order[np.searchsorted(after.review_th[order], review)]
    expected = before.p[among]
    predicted = after.p[positions]
    differences = np.abs(predicted - expected)
    if not len(differences):
        return None
    if differences.max() <= _limit_of_rounding(
        training, differences, among, is_retrained=is_retrained, mean_factor=mean_factor
    ):
        return None
    largest = int(differences.argmax())
    return _PredictionDifference(
        review=int(review[largest]),
        predicted=float(predicted[largest]),
        expected=float(expected[largest]),
    )


def _find_first_difference(
    training: TrainingRun,
    before: Result,
    after: Result,
    among: BoolArray,
    *,
    is_retrained: bool = False,
) -> _PredictionDifference | None:
    """Return the first review whose predictions differ; both results are on the same reviews."""
    differences = np.where(among, np.abs(after.p - before.p), 0.0)
    limit = _limit_of_rounding(training, differences[among], among, is_retrained=is_retrained)
    differing = np.flatnonzero(differences > limit)
    if not len(differing):
        return None
    first = int(differing[0])
    return _PredictionDifference(
        review=int(before.review_th[first]),
        predicted=float(after.p[first]),
        expected=float(before.p[first]),
    )


def _replay_tolerance(training: TrainingRun) -> float:
    """Return how far predictions with the same fits may differ through the rounding of sums."""
    model = training.configuration.model
    is_network = model.family == "neural" or model.weights is not None
    return _SINGLE_PRECISION_TOLERANCE if is_network else _REPLAY_TOLERANCE


def _limit_of_rounding(
    training: TrainingRun,
    differences: FloatArray,
    among: BoolArray,
    *,
    is_retrained: bool,
    mean_factor: float = _MEAN_FACTOR,
) -> float:
    """Return the largest difference in a prediction that rounding may explain.

    `differences` (j,) holds those of the reviews `among` (k,). If their mean is more than
    `mean_factor` times the mean effect of rounding, it explains only those within the tolerance.
    Otherwise, it also explains single differences that are not much larger than its own largest
    effect. After retraining, it then explains any difference.
    """
    tolerance = _RETRAIN_TOLERANCE if is_retrained else _replay_tolerance(training)
    if not len(differences) or differences.max() <= tolerance:
        return tolerance
    rounding = training.rounding_of_training if is_retrained else training.rounding
    rounding = rounding[:, among]
    if rounding.max() <= tolerance:
        return tolerance
    if differences.mean() > mean_factor * rounding.mean(axis=1).max():
        return tolerance
    return np.inf if is_retrained else _LARGEST_FACTOR * float(rounding.max())


def _make_mistake(
    training: TrainingRun, kind: str, difference: _PredictionDifference, what: str = ""
) -> Mistake:
    return Mistake(
        training.name,
        kind,
        what,
        difference.review,
        found=difference.predicted,
        expected=difference.expected,
    )
