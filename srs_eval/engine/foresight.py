"""Find models that read the future.

What may be known before review k are the reviews before it and everything of k itself but its
grade and its answer time. So a model that is trained and evaluated on the log up to k must predict
the same up to there as on the whole log: later reviews may be gone or be others, and so may the
answer to k. `fit` and `predict` together are what has to agree; fits alone are compared to say
which of the two reads too much.

Fits are kept and predictions made again with them where many places are looked at, because that is
quick. Numbers in a fit may be tied to the trials it was made on (the k-th of all decks), so what
differs there is trained anew before anything is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from srs_eval.data.errors import NotInstalled
from srs_eval.data.reviews import ReviewLog
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

_SAME = 1e-6
"""Probabilities within this are the same: sums over other rows are rounded otherwise."""
_SAME_TRAINED = 1e-3
"""The same where a model was also trained anew: training enlarges the last digits."""
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
    later = _first_difference(before, after, before.review_th < review, _SAME)
    own = _first_difference(before, after, before.review_th == review, _SAME)
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
    difference = _first_difference(with_old_fits, with_new_fits, known, _SAME_TRAINED)
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
    difference = _first_difference(before, after, unchanged, _SAME)
    if difference is not None:
        yield _finding(training, "learns", difference)


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
    """Predict with the kept fits on logs that end, or go on otherwise, after one of `cuts` reviews.

    What differs is trained anew on that log, and reported if it differs then, too.
    """
    unconfirmed = 0
    for review in _spread(training.result, cuts):
        for alter in (cut_after, with_other_future):
            session = SessionUntil(training.session, alter(training.log, review), review)
            if _replayed(training, session, review) is None:
                continue
            finding = find_future_in_training(training, review, alter)
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
    training: Training, review: int, alter: Callable[[ReviewLog, int], ReviewLog]
) -> Finding | None:
    """Train on the log as altered after a review; return what differs up to it, and its cause."""
    session = SessionUntil(training.session, alter(training.log, review), review)
    is_fitted = bool(training.fits) or training.configuration.model.members
    tolerance = _SAME_TRAINED if is_fitted else _SAME
    difference = _difference(
        training, lambda: train_again(training, session).result, review, tolerance
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
        training, lambda: train_again(training, session).result, review, _SAME_TRAINED
    )
    kind = "fit sees later" if outcomes is None else "fit sees test"
    return _finding(training, kind, difference)


def _on(training: Training, log: ReviewLog, review: int) -> _Difference | None:
    """Compare with what the kept fits predict up to a review on another log."""
    return _replayed(training, SessionUntil(training.session, log, review), review)


def _replayed(training: Training, session: Session, review: int) -> _Difference | None:
    """Compare with what the kept fits predict up to a review in another session."""
    return _difference(training, lambda: predict_again(training, session), review, _SAME)


# Layouts


def late_fold(trials: Trials) -> Folds:
    """Return one fold: trained on what the first is trained on, tested on what the last is.

    So long logs take no long training.
    """
    return (Fold(train=trials.folds[0].train, test=trials.folds[-1].test),)


def last_fold(trials: Trials) -> Folds:
    """Return the protocol's last fold alone, with the most to train on."""
    return trials.folds[-1:]


# Differences


def _spread(result: Result, count: int) -> Sequence[int]:
    """Return `count` evaluated reviews, evenly spread over all."""
    reviews = np.sort(result.review_th)
    places = (np.arange(count) + 0.5) / count * len(reviews)
    return [int(reviews[place]) for place in places.astype(np.int64)]


def _difference(
    training: Training, predicted: Callable[[], Result], review: int, tolerance: float
) -> _Difference | None:
    """Compare predictions up to a review with the training's own; an error is a difference."""
    try:
        after = predicted()
    except (NotInstalled, Cancelled, MemoryError):
        raise
    except Exception as error:
        return _Difference(review, error=in_words(error)[0])
    before = training.result
    known = before.review_th <= review
    earlier = _largest_difference(before, after, known & (before.review_th < review), tolerance)
    return earlier or _largest_difference(before, after, known, tolerance)


def _largest_difference(
    before: Result, after: Result, among: Any, tolerance: float
) -> _Difference | None:
    """Return the review whose predictions lie furthest apart, if they do.

    Reviews are compared by their numbers; `among` (k,) are those of `before` that count.
    """
    review = before.review_th[among]
    order = np.argsort(after.review_th, kind="stable")
    place = order[np.searchsorted(after.review_th[order], review)]
    expected = before.p[among]
    found = after.p[place]
    apart = np.abs(found - expected)
    if not len(apart) or apart.max() <= tolerance:
        return None
    worst = int(apart.argmax())
    return _Difference(int(review[worst]), float(found[worst]), float(expected[worst]))


def _first_difference(
    before: Result, after: Result, among: Any, tolerance: float
) -> _Difference | None:
    """Return the first review whose predictions differ; both are of the same reviews."""
    differs = (np.abs(after.p - before.p) > tolerance) & among
    if not differs.any():
        return None
    first = int(np.flatnonzero(differs)[0])
    review = int(before.review_th[first])
    return _Difference(review, float(after.p[first]), float(before.p[first]))


def _finding(training: Training, kind: str, difference: _Difference, what: str = "") -> Finding:
    return Finding(
        training.name,
        kind,
        what,
        difference.review,
        found=difference.found,
        expected=difference.expected,
    )
