"""Find models that read the future.

What may be known before review k are the reviews before it and everything of k itself but its
grade and its answer time. So a model that is trained and evaluated on the log up to k must predict
the same up to there as on the whole log: later reviews may be gone or be others, and so may the
answer to k. `fit` and `predict` together are what has to agree; fits alone are compared to say
which of the two reads too much.

Fits are kept and predictions made again with them where many places are looked at, because that is
quick. Numbers in a fit may be tied to the trials it was made on (the k-th of all decks), so what
differs there is trained anew before anything is said.

Where a log is altered, sums over histories of many cards are rounded otherwise, and a tree may put
a review that lies at one of its edges on the other side. So a difference counts only where it
exceeds what mere rounding does to the model's predictions (`Training.rounding`).
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
    cut_after,
    ending_with,
    rows_of,
    with_other_answer_time,
    with_other_answers,
    with_other_future,
    with_other_grades,
    with_other_outcomes,
)
from srs_eval.engine.evaluate import in_words
from srs_eval.engine.model_findings import Finding, Findings
from srs_eval.engine.replay import (
    Folds,
    SessionUntil,
    Training,
    predict_again,
    train_again,
)
from srs_eval.engine.session import Result, Session
from srs_eval.training.hyperparameters import Cancelled, Context

BoolArray = NDArray[np.bool_]

_SAME = 1e-6
"""Probabilities within this are the same: sums over other rows are rounded otherwise."""
_SAME_SINGLE = 1e-5
"""The same of networks, in single precision: the number of rows changes how a matrix product is
rounded. All predictions of RWKV move then, from the first review on, by up to 1.4e-6; they are
equal to the last digit where another log has as many rows."""
_SAME_TRAINED = 1e-3
"""The same where a model was also trained anew: training enlarges the last digits."""
_CLEARLY = 2.0  # times what rounding does on average: something else makes a larger difference
_MUCH = 2.0  # the same of the largest difference
_CONFIRMED = 1.0  # the same on average, where predictions with the kept fits differ already
_MOST_KINDS = 32  # of reviews whose answers are changed one at a time
_MOST_UNCONFIRMED = 2  # replays that differ though trainings do not: the model's fits are no use


@dataclass(frozen=True)
class _Difference:
    """A review whose prediction differs between two logs, or the error that one of them brought."""

    review: int
    found: float = np.nan
    expected: float = np.nan
    error: str = ""


# What outcomes may change


def find_outcome_leaks(training: Training) -> Findings:
    """Change the outcomes of a late review and of all later ones: no prediction so far may differ.

    This holds for models that learn while they are evaluated, too.
    """
    review = late_review(training)
    end = np.arange(review - 1, len(rows_of(training.log)))
    finding = _own_or_later(training, with_other_outcomes(training.log, end), review)
    if finding is None:
        return
    # What a scheduler makes of an outcome is an input of later reviews.
    if _own_or_later(training, with_other_grades(training.log, end), review) is None:
        schedule = "the states, scheduled intervals or ease"
        finding = replace(finding, kind="later input", what=schedule)
    yield finding


def _own_or_later(training: Training, log: ReviewLog, review: int) -> Finding | None:
    """Say whether predictions up to a review differ on a log with other outcomes from there on."""
    before = training.result
    after = predict_again(training, session_like(training, log))
    later = _first_difference(training, before, after, before.review_th < review)
    own = _first_difference(training, before, after, before.review_th == review)
    if later is not None:
        return _finding(training, "later outcome", later)
    if own is not None:
        return _finding(training, "own outcome", own)
    return None


def find_leaky_fits(training: Training) -> Findings:
    """Change outcomes after the training part: no fit may differ."""
    session = session_like(training, _with_another_end(training))
    known = training.result.review_th <= late_review(training)
    with_old_fits = predict_again(training, session)
    with_new_fits = train_again(training, session).result
    difference = _first_difference(training, with_old_fits, with_new_fits, known, is_trained=True)
    if difference is not None:
        yield _finding(training, "fit sees test", difference)


def find_learning(training: Training) -> Findings:
    """Change answers to other cards since the training: no prediction of the last fold may differ.

    Only an online model may learn from them.
    """
    if training.configuration.model.online is not None:
        return
    before = training.result
    card_id = rows_of(training.log).card_id
    card = card_id[before.review_th - 1]
    is_last = before.fold == before.fold.max()
    is_changed = np.isin(card_id, np.unique(card[is_last])[::2])
    is_changed[: int(before.review_th[is_last].min()) - 1] = False
    log = with_other_answers(training.log, np.flatnonzero(is_changed))
    after = predict_again(training, session_like(training, log))
    unchanged = is_last & ~np.isin(card, card_id[is_changed])
    difference = _first_difference(training, before, after, unchanged)
    if difference is not None:
        yield _finding(training, "learns", difference)


# The own answer, in every kind of review


def find_own_answers(training: Training, rounds: int) -> Findings:
    """Change the answers of one evaluated review of each card: none may be predicted otherwise.

    So many times, each time of other reviews: every evaluated review is once among them where no
    card has more. Of an online model, which learns from the others, the answers of single reviews
    of many kinds are changed.
    """
    if training.configuration.model.online is not None:
        yield from _find_single_answers(training)
        return
    for chosen in islice(_one_of_each_card(training, training.result.fold > 0), rounds):
        worst = _own_difference(training, chosen)
        if worst is None:
            continue
        # What is evaluated in one fold may be trained on in the next, and be read there.
        for fold in np.unique(training.result.fold):
            within = chosen & (training.result.fold == fold)
            difference = _own_difference(training, within, fold)
            if difference is not None:
                yield _explained_answer(training, within, difference)
                return


def find_own_answers_in_fits(training: Training) -> Findings:
    """As `find_own_answers`, of a training with one fold, where the model is trained anew.

    So the own answer is found in features that a fit has kept, too.
    """
    if training.configuration.model.online is not None or not training.fits:
        return
    evaluated = training.result.fold > 0
    for in_order in (True, False):
        chosen = next(_one_of_each_card(training, evaluated, in_order=in_order))
        log = with_other_answers(training.log, _rows_of_reviews(training, chosen))
        after = train_again(training, session_like(training, log)).result
        unchanged = _up_to_chosen(training, chosen)
        difference = _largest_difference(training, after, unchanged, is_trained=True)
        if difference is not None:
            yield _finding(training, "fit sees test", difference)
            return


def _own_difference(
    training: Training, chosen: BoolArray, fold: int | None = None
) -> _Difference | None:
    """Compare predictions where the answers of chosen reviews (k,), one a card, are others."""
    log = with_other_answers(training.log, _rows_of_reviews(training, chosen))
    after = predict_again(training, session_like(training, log))
    unchanged = _up_to_chosen(training, chosen)
    if fold is not None:
        unchanged &= training.result.fold == fold
    return _largest_difference(training, after, unchanged)


def _explained_answer(training: Training, chosen: BoolArray, difference: _Difference) -> Finding:
    """Say which answer makes the difference: the own outcome or time, or one of another card."""
    review_th = training.result.review_th
    own = review_th == difference.review
    log = training.log
    changes = {
        "own outcome": with_other_grades(log, np.array([difference.review - 1])),
        "own answer time": with_other_answer_time(log, difference.review),
    }
    for kind, altered in changes.items():
        after = predict_again(training, session_like(training, altered))
        single = _largest_difference(training, after, own)
        if single is not None:
            return _finding(training, kind, single)
    earlier = chosen & (review_th < difference.review)
    altered = with_other_answers(log, _rows_of_reviews(training, earlier))
    after = predict_again(training, session_like(training, altered))
    kind = "later outcome"
    if earlier.any() and _largest_difference(training, after, own) is not None:
        kind = "learns"
    return _finding(training, kind, difference)


def _one_of_each_card(
    training: Training, among: BoolArray, *, in_order: bool = False
) -> Iterator[BoolArray]:
    """Yield reviews (k,), one of each card that has some `among`, each review once.

    They come in a random order, or in order of review.
    """
    places = np.flatnonzero(among)
    if not in_order:
        places = np.random.default_rng(1).permutation(places)
    card_id = rows_of(training.log).card_id[training.result.review_th[places] - 1]
    while len(places):
        first = np.unique(card_id, return_index=True)[1]
        chosen = np.zeros(len(among), np.bool_)
        chosen[places[first]] = True
        yield chosen
        places = np.delete(places, first)
        card_id = np.delete(card_id, first)


def _rows_of_reviews(training: Training, chosen: BoolArray) -> IntArray:
    """Return the rows of the log that chosen evaluated reviews (k,) are, in order."""
    return np.sort(training.result.review_th[chosen]) - 1


def _up_to_chosen(training: Training, chosen: BoolArray) -> BoolArray:
    """Return whether evaluated reviews (k,) come before the chosen one of their card, or are it.

    All are where a card has none that is chosen.
    """
    rows = training.result.review_th - 1
    card_id = rows_of(training.log).card_id[rows]
    card, number = np.unique(card_id, return_inverse=True)
    last = np.full(len(card), len(rows_of(training.log)))
    last[number[chosen]] = rows[chosen]
    return rows <= last[number]


def _find_single_answers(training: Training) -> Findings:
    """Change the answer of one review at a time: up to it, nothing may be predicted otherwise."""
    for review in _of_many_kinds(training):
        log = with_other_answers(training.log, np.array([review - 1]))
        after = predict_again(training, session_like(training, log))
        up_to = training.result.review_th <= review
        difference = _largest_difference(training, after, up_to)
        if difference is None:
            continue
        if difference.review != review:
            yield _finding(training, "later outcome", difference)
            return
        chosen = training.result.review_th == review
        yield _explained_answer(training, chosen, difference)
        return


def _of_many_kinds(training: Training) -> list[int]:
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
    chosen = [np.unique(values, return_index=True)[1] for values in kinds]
    places = np.unique(np.concatenate(chosen))[:_MOST_KINDS]
    return [int(review) for review in trials.review_th[index[places]]]


def session_like(training: Training, log: ReviewLog) -> Session:
    """Return a session on a log with the same evaluated reviews, which has the training's folds."""
    return SessionUntil(training.session, log, len(rows_of(log)))


def late_review(training: Training) -> int:
    """Return a review within the last fold, which no fit knows, of a card that comes again."""
    result = training.result
    card_id = rows_of(training.log).card_id
    late = np.sort(result.review_th)[result.size * 3 // 4 :]
    for review in late:
        if card_id[review - 1] in card_id[review:]:
            return int(review)
    return int(late[0])


def _with_another_end(training: Training) -> ReviewLog:
    """Return the log with other outcomes of the late review and of all later ones."""
    end = np.arange(late_review(training) - 1, len(rows_of(training.log)))
    return with_other_outcomes(training.log, end)


# What comes later, and the own answer


def find_future_inputs(training: Training, cuts: int) -> Findings:
    """Predict with the kept fits on logs that end, or go on otherwise, after one of some reviews.

    These are `cuts` of all, and half as many whose card comes again on the same day.
    What differs is trained anew on that log, and reported if it differs then, too.
    """
    unconfirmed = 0
    for review in _cuts(training, cuts):
        for alter in (cut_after, with_other_future):
            session = SessionUntil(training.session, alter(training.log, review), review)
            if _replayed(training, session, review) is None:
                continue
            finding = find_future_in_training(training, review, alter, _CONFIRMED)
            if finding is not None:
                yield finding
                return
            unconfirmed += 1
            if unconfirmed == _MOST_UNCONFIRMED:
                return


def find_future_fits(training: Training, most: int = 3) -> Findings:
    """Train anew on logs that end, or go on otherwise, soon after a training part ends.

    At most so many times.
    """
    for fold, alter in islice(_folds_to_train(training.result), most):
        review = int(fold[len(fold) // 5])
        finding = find_future_in_training(training, review, alter)
        if finding is not None:
            yield finding
            return


def _folds_to_train(result: Result) -> Iterator[tuple[Any, Callable[..., ReviewLog]]]:
    """Yield the reviews of the first and the last fold, and how the log is altered in them."""
    folds = np.unique(result.fold)
    yield np.sort(result.review_th[result.fold == folds[-1]]), with_other_future
    yield np.sort(result.review_th[result.fold == folds[-1]]), cut_after
    if len(folds) > 1:
        yield np.sort(result.review_th[result.fold == folds[0]]), cut_after


def find_future_in_training(
    training: Training,
    review: int,
    alter: Callable[[ReviewLog, int], ReviewLog],
    clearly: float = _CLEARLY,
) -> Finding | None:
    """Train on the log as altered after a review; return what differs up to it, and its cause."""
    session = SessionUntil(training.session, alter(training.log, review), review)
    is_trained = bool(training.fits) or bool(training.configuration.model.members)
    difference = _difference(
        training,
        lambda: train_again(training, session).result,
        review,
        is_trained=is_trained,
        clearly=clearly,
    )
    if difference is None:
        return None
    return _explained(training, review, session, difference)


def _explained(
    training: Training, review: int, session: Session, difference: _Difference
) -> Finding:
    """Say what makes the difference: a fit, an outcome, the own answer time or a later input."""
    training = replace(training, context=replace(training.context, tick=Context().tick))
    if difference.error:
        return _finding(training, "needs later", difference, difference.error)
    if training.fits and _replayed(training, session, review) is None:
        return _explained_by_fit(training, review, difference)
    log = training.log
    own = np.array([review - 1])
    later = np.arange(review, len(rows_of(log)))
    outcome = _on(training, with_other_grades(log, own), review)
    if outcome is not None:
        kind = "own outcome" if outcome.review == review else "later outcome"
        return _finding(training, kind, outcome)
    outcome = _on(training, with_other_grades(log, later), review)
    if outcome is not None:
        return _finding(training, "later outcome", outcome)
    time = _on(training, with_other_answer_time(log, review), review)
    if time is not None and time.review == review:
        return _finding(training, "own answer time", time)
    for what, change in LATER_INPUTS.items():
        later_input = _on(training, change(log, review), review)
        if later_input is not None:
            return _finding(training, "later input", later_input, f"the {what}")
    number = _on(training, ending_with(log, review), review)
    if number is not None:
        return _finding(training, "later input", number, "the number")
    return _finding(training, "own outcome", difference)  # which of the three passing grades


def _explained_by_fit(training: Training, review: int, difference: _Difference) -> Finding:
    """Say whether a fit depends on outcomes after its training part, or on something else."""
    log = with_other_grades(training.log, np.arange(review - 1, len(rows_of(training.log))))
    session = SessionUntil(training.session, log, review)
    outcomes = _difference(
        training, lambda: train_again(training, session).result, review, is_trained=True
    )
    kind = "fit sees later" if outcomes is None else "fit sees test"
    return _finding(training, kind, difference)


def _on(training: Training, log: ReviewLog, review: int) -> _Difference | None:
    """Compare with what the kept fits predict up to a review on another log."""
    return _replayed(training, SessionUntil(training.session, log, review), review)


def _replayed(training: Training, session: Session, review: int) -> _Difference | None:
    """Compare with what the kept fits predict up to a review in another session."""
    return _difference(training, lambda: predict_again(training, session), review)


# Layouts


def late_fold(trials: Trials) -> Folds:
    """Return one fold: trained on what the first is trained on, tested on what the last is.

    So long logs take no long training.
    """
    return (Fold(train=trials.folds[0].train, test=trials.folds[-1].test),)


def wide_fold(trials: Trials) -> Folds:
    """Return one fold: trained on what the first is trained on, tested on what all are.

    So reviews of all kinds are predicted, also early ones of cards, after a short training.
    """
    return (Fold(train=trials.folds[0].train, test=np.unique(trials.test_index)),)


def last_fold(trials: Trials) -> Folds:
    """Return the protocol's last fold alone, with the most to train on."""
    return trials.folds[-1:]


# Differences


def _cuts(training: Training, count: int) -> list[int]:
    """Return evaluated reviews behind which a log is cut.

    These are `count`, evenly spread, and half as many whose card comes again on the same day.
    Among the latter are failures only, if there are any: what follows on the day tells of them.
    """
    rows = rows_of(training.log)
    reviews = np.sort(training.result.review_th)
    follows = reviews[_is_followed_on_the_day(rows)[reviews - 1]]
    failed = follows[rows.rating[follows - 1] == 1]
    behind = failed if len(failed) else follows
    return sorted({*_spread(reviews, count), *_spread(behind, (count + 1) // 2)})


def _is_followed_on_the_day(rows: Rows) -> BoolArray:
    """Return whether the card of each row comes again on the same day."""
    order = np.argsort(rows.card_id, kind="stable")
    card_id = rows.card_id[order]
    day = rows.day_offset[order]
    is_followed = np.zeros(len(order), np.bool_)
    is_followed[order[:-1]] = (card_id[1:] == card_id[:-1]) & (day[1:] == day[:-1])
    return is_followed


def _spread(reviews: IntArray, count: int) -> list[int]:
    """Return up to `count` of these reviews, evenly spread over all."""
    if not len(reviews):
        return []
    places = (np.arange(count) + 0.5) / count * len(reviews)
    return [int(review) for review in np.unique(reviews[places.astype(np.int64)])]


def _difference(
    training: Training,
    predicted: Callable[[], Result],
    review: int,
    *,
    is_trained: bool = False,
    clearly: float = _CLEARLY,
) -> _Difference | None:
    """Compare predictions up to a review with the training's own; an error is a difference."""
    try:
        after = predicted()
    except (NotInstalled, Cancelled, MemoryError):
        raise
    except Exception as error:
        return _Difference(review, error=in_words(error)[0])
    review_th = training.result.review_th
    for among in (review_th < review, review_th <= review):
        difference = _largest_difference(
            training, after, among, is_trained=is_trained, clearly=clearly
        )
        if difference is not None:
            return difference
    return None


def _largest_difference(
    training: Training,
    after: Result,
    among: BoolArray,
    *,
    is_trained: bool = False,
    clearly: float = _CLEARLY,
) -> _Difference | None:
    """Return the review whose predictions lie furthest apart, if they do.

    Reviews are compared by their numbers; `among` (k,) are those of the training that count.
    """
    before = training.result
    review = before.review_th[among]
    order = np.argsort(after.review_th, kind="stable")
    place = order[np.searchsorted(after.review_th[order], review)]
    expected = before.p[among]
    found = after.p[place]
    apart = np.abs(found - expected)
    if not len(apart) or apart.max() <= _edge(training, apart, among, is_trained, clearly):
        return None
    worst = int(apart.argmax())
    return _Difference(int(review[worst]), float(found[worst]), float(expected[worst]))


def _first_difference(
    training: Training,
    before: Result,
    after: Result,
    among: BoolArray,
    *,
    is_trained: bool = False,
) -> _Difference | None:
    """Return the first review whose predictions differ; both are of the same reviews."""
    apart = np.where(among, np.abs(after.p - before.p), 0.0)
    edge = _edge(training, apart[among], among, is_trained)
    differs = np.flatnonzero(apart > edge)
    if not len(differs):
        return None
    first = int(differs[0])
    review = int(before.review_th[first])
    return _Difference(review, float(after.p[first]), float(before.p[first]))


def _tolerance_of_predictions(training: Training) -> float:
    """Return how far predictions with the same fits may lie apart by the rounding of sums alone."""
    model = training.configuration.model
    is_network = model.family == "neural" or model.weights is not None
    return _SAME_SINGLE if is_network else _SAME


def _edge(
    training: Training,
    apart: FloatArray,
    among: BoolArray,
    is_trained: bool,
    clearly: float = _CLEARLY,
) -> float:
    """Return the difference above which a prediction differs by more than rounding.

    `apart` (j,) are the differences of the reviews `among` (k,). Where their mean is `clearly`
    larger than what rounding makes of it, all above the tolerance count. Else single ones count
    that are much larger; none does after a training, in which any may be large.
    """
    tolerance = _SAME_TRAINED if is_trained else _tolerance_of_predictions(training)
    if not len(apart) or apart.max() <= tolerance:
        return tolerance
    moved = training.rounding_of_training if is_trained else training.rounding
    moved = moved[:, among]
    if moved.max() <= tolerance:
        return tolerance
    if apart.mean() > clearly * moved.mean(axis=1).max():
        return tolerance
    return np.inf if is_trained else _MUCH * float(moved.max())


def _finding(training: Training, kind: str, difference: _Difference, what: str = "") -> Finding:
    return Finding(
        training.name,
        kind,
        what,
        difference.review,
        found=difference.found,
        expected=difference.expected,
    )
