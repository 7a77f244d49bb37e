"""Find models that read the future.

Before review k, a model may know the reviews before it and everything about k itself except its
grade and its answer time. So a model that is trained and evaluated on the log up to k must predict
the same up to k as on the full log: later reviews may be missing or different, and so may the
answer to k. `fit` and `predict` must agree together; fits alone are compared only to say which of
the two reads too much.

Where many reviews are checked, fits are kept and predictions are made with them again, because that
is quick. Numbers in a fit may be tied to the trials it was made on (the k-th of all decks), so the
model is retrained where predictions differ, before any mistake is reported.

In an altered log, sums over the histories of many cards are rounded differently, and a tree may put
a review that lies at one of its edges on the other side. So a difference counts only if it exceeds
the effect of rounding alone on the model's predictions (`TrainingRun.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

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
"""Largest difference of equal probabilities: sums over other rows are rounded differently."""
_SINGLE_PRECISION_TOLERANCE = 1e-5
"""The same for networks, which calculate in single precision: the number of rows changes how a
matrix product is rounded. With another number of rows, all predictions of RWKV change, from the
first review on, by up to 1.4e-6; with as many rows, they are equal to the last digit."""
_RETRAIN_TOLERANCE = 1e-3
"""Largest such difference if the model was also retrained: training amplifies last digits."""
_CLEARLY = 2.0  # times the mean effect of rounding: a larger difference has another cause
_MUCH = 2.0  # times the largest effect of rounding
_CONFIRMED = 1.0  # times the mean effect, if predictions with kept fits already differ
_MOST_KINDS = 32  # reviews of different kinds whose answers are changed one at a time
_MAX_UNCONFIRMED = 2  # replays that differ although retraining does not: fits are no use


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
    end = np.arange(review - 1, len(require_rows(training.log)))
    finding = _find_outcome_leak(training, swap_outcomes(training.log, end), review)
    if finding is None:
        return
    # A scheduler turns an outcome into inputs of later reviews.
    if _find_outcome_leak(training, swap_grades(training.log, end), review) is None:
        schedule = "the states, scheduled intervals or ease"
        finding = replace(finding, kind="later input", what=schedule)
    yield finding


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
    """Change outcomes after the training part: no fit may change."""
    session = make_matching_session(training, _alter_end(training))
    up_to_review = training.result.review_th <= choose_late_review(training)
    with_old_fits = predict_again(training, session)
    with_new_fits = retrain(training, session).result
    difference = _find_first_difference(
        training, with_old_fits, with_new_fits, up_to_review, is_retrained=True
    )
    if difference is not None:
        yield _make_mistake(training, "fit sees test", difference)


def find_online_learning(training: TrainingRun) -> Mistakes:
    """Change answers to other cards after the training: no last-fold prediction may change.

    Only an online model may learn from them.
    """
    if isinstance(training.configuration.model, OnlineModel):
        return
    before = training.result
    card_id = require_rows(training.log).card_id
    card = card_id[before.review_th - 1]
    is_last = before.fold == before.fold.max()
    is_changed = np.isin(card_id, np.unique(card[is_last])[::2])
    is_changed[: int(before.review_th[is_last].min()) - 1] = False
    log = swap_answers(training.log, np.flatnonzero(is_changed))
    after = predict_again(training, make_matching_session(training, log))
    unchanged = is_last & ~np.isin(card, card_id[is_changed])
    difference = _find_first_difference(training, before, after, unchanged)
    if difference is not None:
        yield _make_mistake(training, "learns", difference)


# A review's own answer, in every kind of review


def find_own_answers(training: TrainingRun, rounds: int) -> Mistakes:
    """Change the answer to one evaluated review per card: no prediction up to it may change.

    This is done `rounds` times, each time for other reviews, so every evaluated review is included
    once if no card has more than `rounds` of them. For an online model, which learns from the other
    answers, the answers to single reviews of many kinds are changed instead.
    """
    if isinstance(training.configuration.model, OnlineModel):
        yield from _find_single_answers(training)
        return
    for chosen in islice(_one_of_each_card(training, training.result.fold > 0), rounds):
        if _own_difference(training, chosen) is None:
            continue
        # A review evaluated in one fold may be training data in the next, and be read there.
        for fold in np.unique(training.result.fold):
            within = chosen & (training.result.fold == fold)
            difference = _own_difference(training, within, fold)
            if difference is not None:
                yield _explained_answer(training, within, difference)
                return


def find_own_answers_in_fits(training: TrainingRun) -> Mistakes:
    """Check a training with one fold as `find_own_answers` does, but retrain the model.

    This also finds own answers in features that a fit has kept.
    """
    if isinstance(training.configuration.model, OnlineModel) or not training.fits:
        return
    evaluated = training.result.fold > 0
    for in_order in (True, False):
        chosen = next(_one_of_each_card(training, evaluated, in_order=in_order))
        log = swap_answers(training.log, _rows_of_reviews(training, chosen))
        after = retrain(training, make_matching_session(training, log)).result
        unchanged = _up_to_chosen(training, chosen)
        difference = _find_largest_difference(training, after, unchanged, is_retrained=True)
        if difference is not None:
            yield _make_mistake(training, "fit sees test", difference)
            return


def _own_difference(
    training: TrainingRun, chosen: BoolArray, fold: int | None = None
) -> _PredictionDifference | None:
    """Compare predictions after changing the answers to chosen reviews (k,), one per card."""
    log = swap_answers(training.log, _rows_of_reviews(training, chosen))
    after = predict_again(training, make_matching_session(training, log))
    unchanged = _up_to_chosen(training, chosen)
    if fold is not None:
        unchanged &= training.result.fold == fold
    return _find_largest_difference(training, after, unchanged)


def _explained_answer(
    training: TrainingRun, chosen: BoolArray, difference: _PredictionDifference
) -> Mistake:
    """Return the mistake with its cause: the own outcome or time, or an answer to another card."""
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


def _one_of_each_card(
    training: TrainingRun, among: BoolArray, *, in_order: bool = False
) -> Iterator[BoolArray]:
    """Yield masks (k,) that select one review of each card; each review `among` comes once.

    The reviews of a card come in random order, or in order of review if `in_order` is true.
    """
    positions = np.flatnonzero(among)
    if not in_order:
        positions = np.random.default_rng(1).permutation(positions)
    card_id = require_rows(training.log).card_id[training.result.review_th[positions] - 1]
    while len(positions):
        first = np.unique(card_id, return_index=True)[1]
        chosen = np.zeros(len(among), np.bool_)
        chosen[positions[first]] = True
        yield chosen
        positions = np.delete(positions, first)
        card_id = np.delete(card_id, first)


def _rows_of_reviews(training: TrainingRun, chosen: BoolArray) -> IntArray:
    """Return the positions in the log of chosen evaluated reviews (k,), in order."""
    return np.sort(training.result.review_th[chosen]) - 1


def _up_to_chosen(training: TrainingRun, chosen: BoolArray) -> BoolArray:
    """Return a mask (k,) of evaluated reviews up to the chosen one of their card.

    If no review of a card is chosen, the mask includes all of the card's reviews.
    """
    rows = training.result.review_th - 1
    card_id = require_rows(training.log).card_id[rows]
    card, number = np.unique(card_id, return_inverse=True)
    last = np.full(len(card), len(require_rows(training.log)))
    last[number[chosen]] = rows[chosen]
    return rows <= last[number]


def _find_single_answers(training: TrainingRun) -> Mistakes:
    """Change the answer to one review at a time: no prediction up to it may change."""
    for review in _of_many_kinds(training):
        log = swap_answers(training.log, np.array([review - 1]))
        after = predict_again(training, make_matching_session(training, log))
        up_to = training.result.review_th <= review
        difference = _find_largest_difference(training, after, up_to)
        if difference is None:
            continue
        if difference.review != review:
            yield _make_mistake(training, "later outcome", difference)
            return
        chosen = training.result.review_th == review
        yield _explained_answer(training, chosen, difference)
        return


def _of_many_kinds(training: TrainingRun) -> list[int]:
    """Return reviews that differ in length of history, interval, first grade, deck and state."""
    trials = training.session.trials(training.configuration.protocol)
    index = np.random.default_rng(1).permutation(trials.test_index)
    row = trials.history_end[index]
    kinds = (
        np.minimum(trials.sequence_length[index], 8),
        np.minimum(np.log2(1 + trials.delta_t[index]).astype(np.int64), 8),
        trials.first_rating[index],
        trials.columns("deck_id")[0][row],
        trials.columns("state")[0][row],
    )
    first_of_each_value = [np.unique(values, return_index=True)[1] for values in kinds]
    positions = np.unique(np.concatenate(first_of_each_value))[:_MOST_KINDS]
    return [int(review) for review in trials.review_th[index[positions]]]


def make_matching_session(training: TrainingRun, log: ReviewLog) -> LearnerSession:
    """Return a session with the training's folds, on a log with the same evaluated reviews."""
    return TruncatedSession(training.session, log, len(require_rows(log)))


def choose_late_review(training: TrainingRun) -> int:
    """Return a review in the last fold, which no fit knows, whose card is reviewed again."""
    result = training.result
    card_id = require_rows(training.log).card_id
    late = np.sort(result.review_th)[result.size * 3 // 4 :]
    for review in late:
        if card_id[review - 1] in card_id[review:]:
            return int(review)
    return int(late[0])


def _alter_end(training: TrainingRun) -> ReviewLog:
    """Return the log with other outcomes from the late review on."""
    end = np.arange(choose_late_review(training) - 1, len(require_rows(training.log)))
    return swap_outcomes(training.log, end)


# Later reviews, and a review's own answer


def find_future_inputs(training: TrainingRun, cuts: int) -> Mistakes:
    """Predict with the kept fits on logs that end or go on differently after certain reviews.

    These are `cuts` of all reviews, and half as many whose card comes again on the same day.
    If predictions differ, the model is retrained on that log, and a mistake is reported if they
    still differ.
    """
    unconfirmed = 0
    for review in _cuts(training, cuts):
        for alter in (truncate_and_alter, alter_future):
            session = TruncatedSession(training.session, alter(training.log, review), review)
            if _compare_replay(training, session, review) is None:
                continue
            finding = diagnose_altered_training(training, review, alter, _CONFIRMED)
            if finding is not None:
                yield finding
                return
            unconfirmed += 1
            if unconfirmed == _MAX_UNCONFIRMED:
                return


def find_future_fits(training: TrainingRun, limit: int = 3) -> Mistakes:
    """Retrain on logs that end or go on differently soon after a training part ends.

    The model is retrained at most `limit` times.
    """
    for reviews, alter in islice(_folds_to_train(training.result), limit):
        review = int(reviews[len(reviews) // 5])
        finding = diagnose_altered_training(training, review, alter)
        if finding is not None:
            yield finding
            return


def _folds_to_train(result: Result) -> Iterator[tuple[Any, Callable[..., ReviewLog]]]:
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
    clearly: float = _CLEARLY,
) -> Mistake | None:
    """Train on the log altered after a review; return a mistake if predictions up to it differ."""
    session = TruncatedSession(training.session, alter(training.log, review), review)
    is_retrained = bool(training.fits) or isinstance(training.configuration.model, Ensemble)
    difference = _compare_up_to(
        training,
        lambda: retrain(training, session).result,
        review,
        is_retrained=is_retrained,
        clearly=clearly,
    )
    if difference is None:
        return None
    return _diagnose(training, review, session, difference)


def _diagnose(
    training: TrainingRun, review: int, session: LearnerSession, difference: _PredictionDifference
) -> Mistake:
    """Return the mistake with its cause: a fit, outcome, own answer time or later input."""
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
    return _make_mistake(training, "own outcome", difference)  # which of the three passing grades


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


# Layouts


def choose_late_fold(trials: Trials) -> Folds:
    """Return one fold, with the training part of the first fold and the test part of the last.

    This keeps the training short on long logs.
    """
    return (Fold(train=trials.folds[0].train, test=trials.folds[-1].test),)


def wide_fold(trials: Trials) -> Folds:
    """Return one fold, with the training part of the first fold and all test parts.

    So all kinds of reviews are predicted, including early ones of cards, after a short training.
    """
    return (Fold(train=trials.folds[0].train, test=np.unique(trials.test_index)),)


def choose_last_fold(trials: Trials) -> Folds:
    """Return only the protocol's last fold, which has the most training data."""
    return trials.folds[-1:]


# Differences


def _cuts(training: TrainingRun, count: int) -> list[int]:
    """Return evaluated reviews after which a log is cut.

    These are `count`, evenly spread, and half as many whose card comes again on the same day.
    The latter are only failures, if there are any: later reviews on the same day reveal them.
    """
    rows = require_rows(training.log)
    reviews = np.sort(training.result.review_th)
    followed = reviews[_is_followed_on_the_day(rows)[reviews - 1]]
    followed_failures = followed[rows.rating[followed - 1] == 1]
    if len(followed_failures):
        followed = followed_failures
    cuts = set(_spread_reviews(reviews, count))
    cuts.update(_spread_reviews(followed, (count + 1) // 2))
    return sorted(cuts)


def _is_followed_on_the_day(rows: Rows) -> BoolArray:
    """Return a mask of rows whose card comes again on the same day."""
    order = np.argsort(rows.card_id, kind="stable")
    card_id = rows.card_id[order]
    day = rows.day_offset[order]
    is_followed = np.zeros(len(order), np.bool_)
    is_followed[order[:-1]] = (card_id[1:] == card_id[:-1]) & (day[1:] == day[:-1])
    return is_followed


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
    clearly: float = _CLEARLY,
) -> _PredictionDifference | None:
    """Compare predictions up to a review with the training's; an error counts as a difference."""
    try:
        after = predict()
    except (NotInstalled, Cancelled, MemoryError):
        raise
    except Exception as error:
        return _PredictionDifference(review, error=describe_failure(error)[0])
    review_th = training.result.review_th
    for among in (review_th < review, review_th <= review):
        difference = _find_largest_difference(
            training, after, among, is_retrained=is_retrained, clearly=clearly
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
    clearly: float = _CLEARLY,
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
    if differences.max() <= _edge(training, differences, among, is_retrained, clearly):
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
    edge = _edge(training, differences[among], among, is_retrained)
    differing = np.flatnonzero(differences > edge)
    if not len(differing):
        return None
    first = int(differing[0])
    return _PredictionDifference(
        review=int(before.review_th[first]),
        predicted=float(after.p[first]),
        expected=float(before.p[first]),
    )


def _tolerance_of_predictions(training: TrainingRun) -> float:
    """Return how far predictions with the same fits may differ through the rounding of sums."""
    model = training.configuration.model
    is_network = model.family == "neural" or model.weights is not None
    return _SINGLE_PRECISION_TOLERANCE if is_network else _REPLAY_TOLERANCE


def _edge(
    training: TrainingRun,
    differences: FloatArray,
    among: BoolArray,
    is_retrained: bool,
    clearly: float = _CLEARLY,
) -> float:
    """Return the difference above which a prediction differs by more than rounding.

    `differences` (j,) holds those of the reviews `among` (k,). If their mean is more than `clearly`
    times the mean effect of rounding, all differences above the tolerance count.
    Otherwise, only single differences much larger than rounding count, and none counts after
    retraining, because rounding may make any of them large.
    """
    tolerance = _RETRAIN_TOLERANCE if is_retrained else _tolerance_of_predictions(training)
    if not len(differences) or differences.max() <= tolerance:
        return tolerance
    rounding = training.rounding_of_training if is_retrained else training.rounding
    rounding = rounding[:, among]
    if rounding.max() <= tolerance:
        return tolerance
    if differences.mean() > clearly * rounding.mean(axis=1).max():
        return tolerance
    return np.inf if is_retrained else _MUCH * float(rounding.max())


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
