"""Which entries of a revlog count as reviews: entries -> rows, by one of two rules.

"benchmark" is the rule of the data-set builder (open-spaced-repetition/
anki-revlogs-dataset-builder: build_parquet.py), on which srs-benchmark rests. "anki" is what
Anki feeds its own optimizer (ankitects/anki: rslib/src/scheduler/fsrs/params.rs,
`reviews_for_fsrs` with training on).

Before that, a log can be narrowed to some decks or presets, or lose their names.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.days import DAY_S, study_days
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import (
    FILTERED,
    LEARNING,
    MANUAL,
    MISSING,
    Cards,
    DayGrid,
    Deck,
    Entries,
    IntArray,
    Preset,
    ReadOnly,
    ReviewLog,
    Rows,
    Schedule,
    run_begins,
)

RowKind = Literal["benchmark", "anki"]

_REPEATED = "in the file a second time"
_NO_ANSWER = "not an answer (manual, reset or rescheduled)"
_PREVIEW = "filtered deck without rescheduling"
_BAD_RATING = "rating out of range"
_NO_START = "card without a learning start"
_BEFORE_START = "before the card's last learning start"
_AFTER_RESET = "card reset and not learned again"
_IGNORED_DATE = "card learned before the preset's ignore-before date"
_DELETED = "deleted card"
SUSPENDED = "suspended card"

_DAY_MS = 86_400_000


@dataclass(frozen=True, eq=False)
class Selection(ReadOnly):
    """The rows that count, why the other entries do not, and where the rows come from."""

    rows: Rows
    dropped: Mapping[str, int]  # reason -> entries, in the order in which reasons are applied
    entry_index: IntArray  # shape (len(rows),): place in the log's entries (or rows)


def select_rows(
    log: ReviewLog,
    kind: RowKind = "benchmark",
    *,
    include_deleted: bool | None = None,
    include_suspended: bool | None = None,
    apply_ignore_before: bool | None = None,
) -> Selection:
    """Choose the rows of a log. A log that already holds rows is returned unchanged.

    The options default to what the rule's owner does. "benchmark": deleted and suspended
    cards count, no ignore-before date. "anki": the deck-options screen's search, that is
    existing cards that are not suspended, and each preset's ignore-before date (a card that
    began before it is dropped as a whole). Rows are in order of time; ties keep the log's
    order. What a reader has left out because the file holds it twice is counted, too, as long as
    the log is not narrowed. Raises ValueError for another `kind`.
    """
    if kind not in ("benchmark", "anki"):
        raise ValueError(f"unknown kind of rows: {kind!r}")
    repeated = 0 if log.is_narrowed else log.import_summary.repeated
    dropped = {_REPEATED: repeated} if repeated else {}
    if log.rows is not None:
        return Selection(log.rows, dropped, np.arange(len(log.rows), dtype=np.int64))
    assert log.entries is not None
    assert log.day_grid is not None
    as_builder = kind == "benchmark"
    with_deleted = as_builder if include_deleted is None else include_deleted
    with_suspended = as_builder if include_suspended is None else include_suspended
    with_date = not as_builder if apply_ignore_before is None else apply_ignore_before

    # From here on: entries by card, then time. `reason[k]` says why entry k is out (0: it is in).
    entries = log.entries
    order = np.argsort(entries.card_id, kind="stable")
    columns = {name: each[order] for name, each in vars(entries).items() if each is not None}
    by_card = Entries(**columns)
    reasons = _Reasons(len(order))
    known, suspended = _card_state(log, by_card.card_id)
    if not with_deleted:
        reasons.drop(_DELETED, ~known)
    if not with_suspended:
        reasons.drop(SUSPENDED, suspended)
    start_of = (_builder_starts if as_builder else _anki_starts)(by_card, reasons)
    if with_date:
        begins = np.where(start_of >= 0, by_card.time_ms[np.maximum(start_of, 0)], 0)
        reasons.drop(_IGNORED_DATE, begins < _ignore_before_ms(log, by_card.card_id))

    kept = np.flatnonzero(reasons.code == 0)
    rows = _rows(by_card, kept, log.day_grid, as_builder)
    in_time = np.argsort(order[kept], kind="stable")  # entries are in order of time
    dropped |= reasons.counts()
    return Selection(_where(rows, in_time), dropped, order[kept][in_time])


class _Reasons:
    """The first reason why each entry is out."""

    def __init__(self, size: int) -> None:
        self.code = np.zeros(size, np.int8)
        self.names: list[str] = []

    def drop(self, name: str, mask: NDArray[np.bool_]) -> None:
        self.names.append(name)
        self.code[mask & (self.code == 0)] = len(self.names)

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        found = np.bincount(self.code, minlength=len(self.names) + 1)[1:].tolist()
        for name, count in zip(self.names, found, strict=True):
            if count:
                counts[name] = counts.get(name, 0) + count
        return counts


def _drop_non_reviews(entries: Entries, reasons: _Reasons) -> None:
    reasons.drop(_NO_ANSWER, entries.rating == 0)
    reasons.drop(_PREVIEW, (entries.kind == FILTERED) & (entries.factor == 0))
    reasons.drop(_BAD_RATING, (entries.rating < 1) | (entries.rating > 4))


def _builder_starts(entries: Entries, reasons: _Reasons) -> IntArray:
    """Drop what the builder drops; per entry the place of its card's start, or -1.

    A learn start is a learning entry whose predecessor among the card's kept entries is
    none; a card counts from its last one.
    """
    _drop_non_reviews(entries, reasons)
    kept = np.flatnonzero(reasons.code == 0)
    learning = entries.kind[kept] == LEARNING
    starts = learning.copy()
    starts[1:] &= ~learning[:-1] | run_begins(entries.card_id[kept])[1:]
    start_of = _last_of_card(entries.card_id, kept[starts])
    reasons.drop(_NO_START, start_of < 0)
    reasons.drop(_BEFORE_START, np.arange(len(start_of)) < start_of)
    return start_of


def _anki_starts(entries: Entries, reasons: _Reasons) -> IntArray:
    """Drop what Anki drops; per entry the place of its card's start, or -1.

    Going back from a card's last entry, previews are passed over; the start is the first of
    the last run of learning answers. Anything else cuts the run: a reset, a set due date, a
    reschedule, an early review. A reset after the last learning answer drops the card. From
    the start on every answer counts, whatever its kind: old programs gave ratings to manual
    entries too (rslib/src/revlog/mod.rs: has_rating_and_affects_scheduling).
    """
    preview = (entries.kind == FILTERED) & (entries.factor == 0)
    answered = (entries.rating >= 1) & (entries.rating <= 4)
    seen = np.flatnonzero(~preview)
    learning = ((entries.kind == LEARNING) & answered)[seen]
    runs = learning.copy()
    runs[1:] &= ~learning[:-1] | run_begins(entries.card_id[seen])[1:]
    start_of = _last_of_card(entries.card_id, seen[runs])
    last_learning = _last_of_card(entries.card_id, seen[learning])
    reset = (entries.kind == MANUAL) & (entries.factor == 0)
    last_reset = _last_of_card(entries.card_id, np.flatnonzero(reset))
    _drop_non_reviews(entries, reasons)
    reasons.drop(_AFTER_RESET, (last_reset > last_learning) & (last_reset >= 0))
    reasons.drop(_NO_START, start_of < 0)
    reasons.drop(_BEFORE_START, np.arange(len(start_of)) < start_of)
    return start_of


def _last_of_card(card_id: IntArray, places: IntArray) -> IntArray:
    """For each entry the last of `places` (ascending) on its card, or -1 (shape of `card_id`)."""
    if not len(places) or not len(card_id):
        return np.full(len(card_id), -1, np.int64)
    begins = np.flatnonzero(run_begins(card_id))
    ends = np.append(begins[1:], len(card_id))
    last = np.searchsorted(places, ends) - 1
    found = np.where(last >= 0, places[np.maximum(last, 0)], -1)
    return np.repeat(np.where(found >= begins, found, -1), ends - begins)


def _card_state(log: ReviewLog, card_id: IntArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each card still exists, and whether it is suspended."""
    cards = log.cards
    if not len(cards.card_id):
        none = np.zeros(len(card_id), np.bool_)
        # A source without a card table knows nothing of deleted cards.
        return ~none, none
    place = np.minimum(np.searchsorted(cards.card_id, card_id), len(cards.card_id) - 1)
    known = cards.card_id[place] == card_id
    return known, known & cards.suspended[place]


def _ignore_before_ms(log: ReviewLog, card_id: IntArray) -> IntArray:
    """Each card's ignore-before date as Unix ms (midnight UTC), 0 where it has none."""
    preset_of = log.preset_of(log.deck_of(card_id))
    limits = np.zeros(len(card_id), np.int64)
    for preset in log.presets.values():
        if preset.ignore_before:
            midnight = datetime.fromisoformat(preset.ignore_before).replace(tzinfo=UTC)
            limits[preset_of == preset.id] = int(midnight.timestamp()) * 1000
    return limits


def _rows(entries: Entries, kept: IntArray, grid: DayGrid, as_builder: bool) -> Rows:
    """Rows of the kept entries, by card, then time."""
    time_ms, card_id = entries.time_ms[kept], entries.card_id[kept]
    next_day_at_s, study_day = grid.next_day_at_s, study_days(time_ms, grid)
    if as_builder:
        # Milliseconds, cut toward zero: day 0 is two days wide for entries in the future.
        late = time_ms - next_day_at_s * 1000
        day = np.sign(late) * (np.abs(late) // _DAY_MS)
    else:
        # Whole seconds; entries in the future belong to today.
        day = -np.maximum((next_day_at_s - time_ms // 1000) // DAY_S, 0)
    first = run_begins(card_id)
    elapsed_days = np.diff(day, prepend=0)
    elapsed_seconds = np.diff(time_ms, prepend=0) // 1000
    elapsed_days[first] = -1
    elapsed_seconds[first] = -1
    if study_day is not None:
        study_day = np.where(first, -1.0, np.diff(study_day, prepend=0.0))
    days, factor = entries.interval, entries.factor
    left = np.where(run_begins(entries.card_id), MISSING, np.roll(factor, 1))
    return Rows(
        card_id,
        day - (day.min() if len(day) else 0),
        entries.rating[kept],
        np.where(first, 0, entries.kind[kept] + 1),
        entries.duration_ms[kept],
        elapsed_days,
        elapsed_seconds,
        (time_ms // 1000 - next_day_at_s) % DAY_S,
        elapsed_study_days=study_day,
        scheduled_interval=None if days is None else np.where(days < 0, -days / DAY_S, days)[kept],
        ease=left[kept] if factor.any() else None,
    )


# Some decks or presets

_Columns = TypeVar("_Columns", Entries, Rows, Cards, Schedule)


def only_deck(log: ReviewLog, *names: str) -> ReviewLog:
    """The reviews of existing cards whose home deck is one of `names` or below it.

    Case does not matter; a deck's id will do, which is all that data sets have. Raises
    InputError with the nearest names for an unknown deck, for a filtered one, which is no
    card's home, and for one without reviews.
    """
    return _only(log, set().union(*(_deck_ids(log, name) for name in names)), "deck", names)


def anonymous(log: ReviewLog) -> ReviewLog:
    """The same reviews; decks and presets are numbered, and no path, search or note tells more."""
    decks = {
        key: replace(deck, name=f"deck {number}")
        for number, (key, deck) in enumerate(sorted(log.decks.items()), start=1)
    }
    presets = {
        key: replace(preset, name=f"preset {number}", search=None)
        for number, (key, preset) in enumerate(sorted(log.presets.items()), start=1)
    }
    import_summary = replace(log.import_summary, path="collection", notes=())
    return replace(log, decks=decks, presets=presets, import_summary=import_summary)


def _deck_ids(log: ReviewLog, name: str) -> set[int]:
    decks = {deck.id for deck in log.decks.values() if _is_called(deck, name)}
    homes = [deck for deck in log.decks.values() if not deck.filtered]
    if not decks:
        raise InputError(_unknown("deck", name, ((deck.name, deck.id) for deck in homes)))
    if decks.isdisjoint(deck.id for deck in homes):
        raise InputError(
            f'"{name}" is a filtered deck: reviews belong to the decks that its cards were '
            "taken from; name one of those."
        )
    found = 0
    while found != len(decks):  # as many rounds as decks are deep
        found = len(decks)
        decks |= {deck.id for deck in log.decks.values() if deck.parent_id in decks}
    prefix = f"{_folded(name)}::"  # a deck whose parent is missing is below all the same
    return decks | {deck.id for deck in log.decks.values() if _folded(deck.name).startswith(prefix)}


def only_preset(log: ReviewLog, *names: str) -> ReviewLog:
    """The reviews of existing cards in decks with one of the presets `names` (or such an id).

    Raises InputError as `only_deck` does.
    """
    presets: set[int] = set()
    for name in names:
        found = {preset.id for preset in log.presets.values() if _is_called(preset, name)}
        gone = [deck.name for deck in log.decks.values() if str(deck.preset_id) == name]
        if gone and log.presets and not found:
            shown = ", ".join(f'"{deck}"' for deck in gone[:3])
            raise InputError(
                f"The preset {name} is gone, though decks still name it, and Anki schedules these "
                f"with its own defaults. Use --deck instead: {shown}."
            )
        if not found:
            known = ((preset.name, preset.id) for preset in log.presets.values())
            raise InputError(_unknown("preset", name, known))
        presets |= found
    decks = {deck.id for deck in log.decks.values() if deck.preset_id in presets}
    return _only(log, decks, "preset", names)


def _is_called(thing: Deck | Preset, name: str) -> bool:
    return str(thing.id) == name or (name != "" and _folded(thing.name) == _folded(name))


def _folded(name: str) -> str:
    """Without case, and composed as Anki stores names, whatever the keyboard sends."""
    return unicodedata.normalize("NFC", name).casefold()


def without_presets(log: ReviewLog, presets: Collection[int]) -> ReviewLog:
    """All but the cards of some presets (ids) and their reviews."""
    of_these = np.isin(log.preset_of(log.cards.deck_id), list(presets))
    gone = log.cards.card_id[of_these]
    return _of_cards(log, lambda card_id: ~np.isin(card_id, gone))


def _only(log: ReviewLog, decks: Collection[int], what: str, names: Sequence[str]) -> ReviewLog:
    cards = log.cards.card_id[np.isin(log.cards.deck_id, sorted(decks))]
    narrowed = _of_cards(log, lambda card_id: np.isin(card_id, cards))
    if not (narrowed.entries or narrowed.rows):
        things: Mapping[int, Deck | Preset] = log.decks if what == "deck" else log.presets
        called = {str(thing.id): thing.name for thing in things.values() if thing.name}
        shown = " and ".join(f'"{called.get(name, name)}"' for name in names)
        raise InputError(
            f"The {what} {shown} has no reviews."
            if len(names) == 1
            else f"The {what}s {shown} have no reviews."
        )
    return narrowed


def _of_cards(log: ReviewLog, keeps: Callable[[IntArray], np.ndarray]) -> ReviewLog:
    """The cards that `keeps` tells by their ids (k,) to stay, with all that is known of them."""

    def kept(part: _Columns | None) -> _Columns | None:
        return None if part is None else _where(part, keeps(part.card_id))

    staying = keeps(log.reviews.card_id)
    return replace(
        log,
        entries=kept(log.entries),
        rows=kept(log.rows),
        cards=_where(log.cards, keeps(log.cards.card_id)),
        schedule=kept(log.schedule),
        predictions={name: column[staying] for name, column in log.predictions.items()},
        given={name: replace(each, p=each.p[staying]) for name, each in log.given.items()},
        is_narrowed=True,
    )


def _where(part: _Columns, keep: np.ndarray) -> _Columns:
    columns = {each.name: getattr(part, each.name) for each in fields(part)}
    return replace(part, **{name: c[keep] for name, c in columns.items() if c is not None})


def _unknown(what: str, name: str, known: Iterable[tuple[str, int]]) -> str:
    names = {(label or str(key)).casefold(): label or str(key) for label, key in known}
    if not names:
        return f"This file says nothing of {what}s, so --{what} cannot be used with it."
    nearest = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.3) or sorted(names)
    shown = ", ".join(f'"{names[each]}"' for each in nearest[:3])
    return f'There is no {what} "{name}". Did you mean {shown}?'
