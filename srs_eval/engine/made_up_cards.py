"""Ask a fitted model for recall after answers that were never given.

Each answer to each history becomes a card of its own in a made-up collection: the card's reviews
until then, the answer, and one more review at the time in question. Models predict that review by
`TrainedModel.predict`, as they predict any held-out review.

Most models look at nothing of a review before its answer but the time since the last one. They
are asked for all times at once, on cards that share their history. Others, which count a card's
earlier trials or read the review's own row, need a collection for each time, unless they have
`TrainedModel.predict_at`. Which kind a model without it is of shows on a few cards that are asked
both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.days import DAY_S
from srs_eval.data.reviews import (
    MISSING,
    Cards,
    FloatArray,
    IntArray,
    ReviewLog,
    Rows,
    mark_run_starts,
)
from srs_eval.data.trials import TRIAL_COLUMNS, Fold, Trials
from srs_eval.models.held_out import LastFit

ANSWERS = (1, 2, 3, 4)
"""Again, Hard, Good and Easy: the order in which their intervals should grow."""
_REVIEW_STATE = 2  # see `Rows.state`
_ROWS_AT_ONCE = 200_000  # history rows of the made-up cards that are asked together
_TRIALS_AT_ONCE = 400_000
_PROBED_HISTORIES = 16
_PROBE_TOLERANCE = 1e-5  # of recall: networks compute in single precision

_BoolArray = NDArray[np.bool_]


def ask_after_answers(fit: LastFit, trials: Trials, rows: IntArray, days: FloatArray) -> FloatArray:
    """Return the recall `days` (t,) after each answer to the history rows `rows` (k,): (k, 4, t).

    Row `rows[i]` of the trials' history rows is the review whose answer is replaced.
    """
    recall = np.empty((len(rows), len(ANSWERS), len(days)))
    ask = _choose_way(fit, trials, rows, days)
    for part in _split(trials, rows, 1 if ask is _ask_each_time else len(days)):
        recall[part] = ask(fit, _MadeUpCards(trials, rows[part]), days)
    return recall


def _choose_way(
    fit: LastFit, trials: Trials, rows: IntArray, days: FloatArray
) -> Callable[[LastFit, _MadeUpCards, FloatArray], FloatArray]:
    """Return the quickest of the three functions below that is right for the model."""
    if fit.model.predict_at is not None:
        return _ask_other_times
    if _can_share_histories(fit, trials, rows, days):
        return _ask_all_times_at_once
    return _ask_each_time


def _can_share_histories(fit: LastFit, trials: Trials, rows: IntArray, days: FloatArray) -> bool:
    """Return whether a few cards have the same recall where all times share their history."""
    count = min(_PROBED_HISTORIES, len(rows))
    probed = rows[np.arange(count) * len(rows) // max(count, 1)]
    cards = _MadeUpCards(trials, probed)
    one_by_one = _ask_each_time(fit, cards, days)
    at_once = _ask_all_times_at_once(fit, cards, days)
    return bool((np.abs(at_once - one_by_one) <= _PROBE_TOLERANCE).all())


def _split(trials: Trials, rows: IntArray, times: int) -> Iterator[slice]:
    """Yield slices of `rows` (k,) whose made-up cards are few enough to be asked together."""
    lengths = rows - _find_card_starts(trials)[rows] + 2
    rows_so_far = np.cumsum(lengths * len(ANSWERS))
    trials_so_far = np.arange(1, len(rows) + 1) * len(ANSWERS) * times
    part = np.maximum(rows_so_far // _ROWS_AT_ONCE, trials_so_far // _TRIALS_AT_ONCE)
    ends = np.flatnonzero(np.diff(part, append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        yield slice(begin, end)
        begin = end


def _ask_each_time(fit: LastFit, cards: _MadeUpCards, days: FloatArray) -> FloatArray:
    """Return the recall (k, 4, t) of cards that are made up anew for each time."""
    recall = np.empty((len(cards), len(days)))
    for number, day in enumerate(days.tolist()):
        asked, index = cards.ask_at(day)
        recall[:, number] = fit.predict(asked, index)
    return recall.reshape(-1, len(ANSWERS), len(days))


def _ask_all_times_at_once(fit: LastFit, cards: _MadeUpCards, days: FloatArray) -> FloatArray:
    """Return the recall (k, 4, t) of cards whose times share one history."""
    asked = cards.ask_at_all(days)
    recall = fit.predict(asked, np.arange(len(asked)))
    return recall.reshape(-1, len(ANSWERS), len(days))


def _ask_other_times(fit: LastFit, cards: _MadeUpCards, days: FloatArray) -> FloatArray:
    """Return the recall (k, 4, t) of one collection, whose model knows about other times."""
    asked, index = cards.ask_at(float(days[0]))
    recall = fit.predict_at(asked, index, days, cards.count_days(days))
    return recall.reshape(-1, len(ANSWERS), len(days))


def _find_card_starts(trials: Trials) -> IntArray:
    """Return the first history row of each history row's card (m,)."""
    positions = np.arange(len(trials.history_card_id))
    starts: IntArray = np.maximum.accumulate(
        np.where(mark_run_starts(trials.history_card_id), positions, 0)
    )
    return starts


class _MadeUpCards:
    """Cards with a real past, an answer that was not given, and one coming review.

    There are c = 4k cards for k histories, with m rows. The rows lie card by card; a card's last
    one is the coming review, whose time `ask_at` sets. Arrays are (m,) unless they say otherwise.
    """

    def __init__(self, trials: Trials, answered_rows: IntArray) -> None:
        """Make up four cards for each of the real history rows (k,), one for each answer."""
        answered = np.repeat(answered_rows, len(ANSWERS))
        first = _find_card_starts(trials)[answered]
        lengths = answered - first + 2
        ends = np.cumsum(lengths)
        self._real = trials
        self._start: IntArray = ends - lengths  # (c,) first row of each card
        self._coming: IntArray = ends - 1  # (c,) row of each card's coming review
        self._card = np.repeat(np.arange(len(answered)), lengths)
        position = np.arange(len(self._card)) - self._start[self._card]
        self._is_first = position == 0
        # The real history row that each row repeats; the coming review repeats the answered one.
        self._source = np.minimum(first[self._card] + position, answered[self._card])
        self._real_card_id = trials.history_card_id[answered]  # (c,)
        self._clock_s = trials.history_time_of_day_s[answered]  # (c,) when the answer was given
        self._rating = self._replace_answers(ends - 2)
        self._trial_rows = np.flatnonzero(self._mark_trials())  # (n,)
        self._coming_trials = np.searchsorted(self._trial_rows, self._coming)  # (c,)
        self._first_trials = self._make_trials()

    def __len__(self) -> int:
        return len(self._coming)

    def ask_at(self, day: float) -> tuple[Trials, IntArray]:
        """Return trials with the coming reviews `day` days later, and their positions (c,)."""
        first = self._first_trials
        coming = self._coming
        seconds = round(day * DAY_S)
        whole_days = _count_days(np.full(len(coming), day), self._clock_s)
        clock_s = np.where(self._clock_s == MISSING, MISSING, (self._clock_s + seconds) % DAY_S)
        history: dict[str, Any] = {
            "history_delta_t": _with_values(first.history_delta_t, coming, day),
            "history_elapsed_days": _with_values(first.history_elapsed_days, coming, whole_days),
            "history_elapsed_s": _with_values(first.history_elapsed_s, coming, seconds),
            "history_day": _with_values(
                first.history_day, coming, first.history_day[coming - 1] + whole_days
            ),
            "history_time_of_day_s": _with_values(first.history_time_of_day_s, coming, clock_s),
        }
        number = first.i[self._coming_trials] - (whole_days == 0)
        row = self._trial_rows
        number_of_trial = _with_values(first.i, self._coming_trials, number)
        asked = replace(
            first,
            **history,
            day=history["history_day"][row],
            delta_t=history["history_delta_t"][row],
            elapsed_days=history["history_elapsed_days"][row],
            i=number_of_trial,
            bin_i=number_of_trial,
            bin_delta_t=history["history_delta_t"][row],
        )
        if first.log is not None and first.rows is not None:
            rows = self._date_rows(first.rows, asked, day)
            asked = replace(asked, rows=rows, log=replace(first.log, rows=rows))
        return asked, self._coming_trials

    def ask_at_all(self, days: FloatArray) -> Trials:
        """Return trials of the coming reviews alone, at each of the `days` (t,): card by card.

        Their histories are shared, and so are their own rows, which are right for one time only.
        """
        first = self._first_trials
        times = len(days)
        columns: dict[str, Any] = {}
        for name in TRIAL_COLUMNS:
            columns[name] = np.repeat(getattr(first, name)[self._coming_trials], times)
        delta_t = np.tile(days, len(self))
        whole_days = _count_days(delta_t, np.repeat(self._clock_s, times))
        answer_day = first.history_day[self._coming - 1]
        columns["day"] = np.repeat(answer_day, times) + whole_days
        columns["delta_t"] = delta_t
        columns["bin_delta_t"] = delta_t
        columns["elapsed_days"] = whole_days
        columns["i"] = columns["i"] - (whole_days == 0)
        columns["bin_i"] = columns["i"]
        return replace(first, **columns, folds=_make_test_fold(len(delta_t)))

    def count_days(self, days: FloatArray) -> IntArray:
        """Return how many days begin within each of the `days` (t,) after the answers: (c, t)."""
        counted = _count_days(np.tile(days, len(self)), np.repeat(self._clock_s, len(days)))
        return counted.reshape(-1, len(days))

    def _replace_answers(self, answered: IntArray) -> IntArray:
        """Return the ratings, those of the rows `answered` (c,) being the possible answers."""
        rating: IntArray = self._real.history_rating[self._source]
        answers = np.array(ANSWERS)
        if self._real.protocol.two_buttons:
            answers = np.where(answers == 1, 1, 3)
        rating[answered] = np.tile(answers, len(answered) // len(ANSWERS))
        return rating

    def _mark_trials(self) -> _BoolArray:
        """Mark the rows that are trials, as far as the protocol would evaluate them."""
        protocol = self._real.protocol
        elapsed = self._real.history_elapsed_days
        if protocol.secs and not protocol.later_days_only:
            elapsed = self._real.history_elapsed_s
        is_trial: _BoolArray = (elapsed[self._source] > 0) & ~self._is_first
        is_trial[self._coming] = True
        return is_trial

    def _make_trials(self) -> Trials:
        """Return the trials with every coming review on a later day; `ask_at` sets its time."""
        real = self._real
        source = self._source
        row = self._trial_rows
        card = self._card[row]
        elapsed_days = real.history_elapsed_days[source]
        elapsed_days[self._coming] = 1
        days = real.history_day[source]
        days[self._coming] += 1
        later_days = np.cumsum((elapsed_days > 0) & ~self._is_first)
        number = later_days[row] - later_days[self._start[card]] + 1
        failures = np.cumsum(self._rating == 1) - (self._rating == 1)
        delta_t = real.history_delta_t[source]
        log = None
        rows = None
        if real.log is not None and real.rows is not None:
            rows = self._make_rows(real.rows, days)
            log = self._make_log(real.log, rows)
        return Trials(
            review_th=row + 1,
            card_id=card,
            day=days[row],
            rating=self._rating[row],
            y=(self._rating[row] > 1).astype(np.float64),
            i=number,
            delta_t=delta_t[row],
            elapsed_days=elapsed_days[row],
            first_rating=self._rating[self._start[card]],
            partition=self._find_partitions()[card],
            history_start=self._start[card],
            history_end=row,
            bin_delta_t=delta_t[row],
            bin_i=number,
            bin_lapses=failures[row] - failures[self._start[card]],
            history_delta_t=delta_t,
            history_rating=self._rating,
            history_elapsed_days=elapsed_days,
            history_duration_ms=real.history_duration_ms[source],
            history_review_th=np.arange(len(source)) + 1,
            history_card_id=self._card,
            history_day=days,
            history_elapsed_s=real.history_elapsed_s[source],
            history_time_of_day_s=real.history_time_of_day_s[source],
            folds=_make_test_fold(len(row)),
            protocol=real.protocol,
            log=log,
            rows=rows,
        )

    def _find_partitions(self) -> IntArray:
        """Return the partition of each card (c,)."""
        partitions = self._real.protocol.partitions
        if partitions == "none" or self._real.log is None:
            return np.zeros(len(self), np.int64)
        deck = self._real.log.deck_of(self._real_card_id)
        return deck if partitions == "deck" else self._real.log.preset_of(deck)

    def _make_rows(self, real: Rows, days: IntArray) -> Rows:
        """Return the made-up cards' rows, as `Trials.columns` looks them up."""
        review = self._real.history_review_th[self._source] - 1
        state = real.state[review]
        state[self._coming] = _REVIEW_STATE
        columns = {}
        for name in ("time_of_day_s", "elapsed_study_days", "scheduled_interval", "ease"):
            column = getattr(real, name)
            columns[name] = None if column is None else column[review]
        elapsed_days = self._real.history_elapsed_days[self._source]
        elapsed_s = self._real.history_elapsed_s[self._source]
        return Rows(
            card_id=self._card,
            day_offset=days,
            rating=self._rating,
            state=state,
            duration_ms=real.duration_ms[review],
            elapsed_days=np.where(self._is_first, -1, elapsed_days),
            elapsed_seconds=np.where(self._is_first, -1, elapsed_s),
            **columns,
        )

    def _date_rows(self, rows: Rows, asked: Trials, day: float) -> Rows:
        """Return the rows with every coming review at its time in `asked`, as it was scheduled."""
        coming = self._coming
        days = asked.history_elapsed_days[coming]
        seconds = asked.history_elapsed_s[coming]
        columns: dict[str, Any] = {
            "day_offset": asked.history_day,
            "elapsed_days": _with_values(rows.elapsed_days, coming, days),
            "elapsed_seconds": _with_values(rows.elapsed_seconds, coming, seconds),
        }
        if rows.time_of_day_s is not None:
            columns["time_of_day_s"] = asked.history_time_of_day_s
        for name in ("elapsed_study_days", "scheduled_interval"):
            column = getattr(rows, name)
            if column is not None:
                columns[name] = _with_values(column, coming, day)
        return replace(rows, **columns)

    def _make_log(self, real: ReviewLog, rows: Rows) -> ReviewLog:
        """Return a log of the made-up cards, each in the deck and of the note of its real card."""
        number = np.arange(len(self))
        cards = real.cards
        if len(cards.card_id):
            cards = Cards(
                card_id=number,
                note_id=real.note_of(self._real_card_id),
                deck_id=real.deck_of(self._real_card_id),
                suspended=np.zeros(len(number), np.bool_),
            )
        features = real.features
        if features is not None:
            values = real.features_of(self._real_card_id)
            features = replace(features, id_column="card_id", ids=number, values=values)
        return replace(
            real,
            entries=None,
            rows=rows,
            cards=cards,
            schedule=None,
            templates=None,
            day_grid=None,
            features=features,
            source_predictions={},
            external_predictions={},
        )


def _make_test_fold(trials: int) -> tuple[Fold, ...]:
    everything = np.arange(trials)
    return (Fold(train=everything[:0], test=everything),)


def _with_values(column: NDArray[Any], positions: IntArray, values: Any) -> NDArray[Any]:
    """Return a copy of the column with other values at some positions."""
    changed = column.copy()
    changed[positions] = values
    return changed


def _count_days(days: FloatArray, clock_s: IntArray) -> IntArray:
    """Return how many days begin within `days` (k,) after the time of day `clock_s` (k,).

    Where the time of day is not known, whole days since the answer count.
    """
    begun_s = np.where(clock_s == MISSING, 0, clock_s)
    whole_days: IntArray = np.floor(days + begun_s / DAY_S).astype(np.int64)
    # In whole days, as in `days` of 1.0, a day is a day whatever the clock says.
    is_whole = days == np.floor(days)
    return np.where(is_whole, days.astype(np.int64), whole_days)
