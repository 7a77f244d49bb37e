"""Turn the entries of a revlog that count as reviews into rows, by one of two rules.

"benchmark" is the rule of the data-set builder (open-spaced-repetition/
anki-revlogs-dataset-builder: build_parquet.py), on which srs-benchmark rests. "anki" is what
Anki feeds its own optimizer (ankitects/anki: rslib/src/scheduler/fsrs/params.rs,
`reviews_for_fsrs` with training on).

Before that, a log can be restricted to some decks or presets, or anonymized.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.days import DAY_S, find_midnight_s, to_study_days
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
    mark_run_starts,
)

RowKind = Literal["benchmark", "anki"]

_DUPLICATE = "in the file a second time"
_NO_ANSWER = "not an answer (manual, reset or rescheduled)"
_PREVIEW = "filtered deck without rescheduling"
_BAD_RATING = "rating out of range"
_NO_START = "card without a learning start"
_BEFORE_START = "before the card's last learning start"
_AFTER_RESET = "card reset and not learned again"
IGNORED_DATE = "card learned before the preset's ignore-before date"
_DELETED = "deleted card"
SUSPENDED = "suspended card"

_DAY_MS = 86_400_000


@dataclass(frozen=True, eq=False)
class Selection(ReadOnly):
    """The rows that count, the reasons why other entries do not, and the origin of each row."""

    rows: Rows
    dropped: Mapping[str, int]  # reason -> entries, in the order in which reasons are applied
    entry_index: IntArray  # shape (len(rows),): position in the log's entries (or rows)


def select_rows(
    log: ReviewLog,
    kind: RowKind = "benchmark",
    *,
    include_deleted: bool | None = None,
    include_suspended: bool | None = None,
    apply_ignore_before: bool | None = None,
) -> Selection:
    """Select the rows of a log; if the log already holds rows, they are returned unchanged.

    For an option, None means: as the rule's program (the builder, or Anki) does it. "benchmark"
    keeps deleted and suspended cards and ignores ignore-before dates. "anki" keeps what Anki's
    deck-options screen searches for: existing cards that are not suspended. It also applies each
    preset's ignore-before date, which drops every card whose last learning start is before that
    date.

    Rows are in order of time; ties keep the log's order. Entries that a reader left out because the
    file holds them twice are counted as dropped, too, unless the log is a subset. Raises ValueError
    for another `kind`.
    """
    if kind not in ("benchmark", "anki"):
        raise ValueError(f"unknown kind of rows: {kind!r}")
    repeated = 0 if log.is_subset else log.import_summary.repeated
    dropped = {_DUPLICATE: repeated} if repeated else {}
    if log.rows is not None:
        return Selection(log.rows, dropped, np.arange(len(log.rows), dtype=np.int64))
    assert log.entries is not None
    assert log.day_grid is not None
    is_benchmark = kind == "benchmark"
    if include_deleted is None:
        include_deleted = is_benchmark
    if include_suspended is None:
        include_suspended = is_benchmark
    if apply_ignore_before is None:
        apply_ignore_before = not is_benchmark

    # From here on, entries are in order of card, then time.
    entries = log.entries
    order = np.argsort(entries.card_id, kind="stable")
    columns = {name: column[order] for name, column in vars(entries).items() if column is not None}
    by_card = Entries(**columns)
    reasons = _DropReasons(len(order))
    exists, suspended = _look_up_card_state(log, by_card.card_id)
    if not include_deleted:
        reasons.drop(_DELETED, ~exists)
    if not include_suspended:
        reasons.drop(SUSPENDED, suspended)
    apply_rule = _apply_builder_rule if is_benchmark else _apply_anki_rule
    last_start = apply_rule(by_card, reasons)
    if apply_ignore_before:
        # Cards without a start are dropped already; for them, any position and time will do.
        start_ms = np.where(last_start >= 0, by_card.time_ms[np.maximum(last_start, 0)], 0)
        reasons.drop(IGNORED_DATE, start_ms < _look_up_ignore_before_ms(log, by_card.card_id))

    positions = reasons.kept_positions()
    rows = _build_rows(by_card, positions, log.day_grid, is_benchmark=is_benchmark)
    entry_index = order[positions]
    time_order = np.argsort(entry_index, kind="stable")  # the log's entries are in order of time
    dropped |= reasons.counts()
    return Selection(_take_lines(rows, time_order), dropped, entry_index[time_order])


class _DropReasons:
    """The first reason why each entry is dropped."""

    def __init__(self, size: int) -> None:
        self.code = np.zeros(size, np.int8)  # 0: the entry is kept; k: dropped for names[k - 1]
        self.names: list[str] = []

    def drop(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Drop the entries of `mask` (n,) that are not dropped yet. Call it once for each name."""
        self.names.append(name)
        self.code[mask & (self.code == 0)] = len(self.names)

    def kept_positions(self) -> IntArray:
        return np.flatnonzero(self.code == 0)

    def counts(self) -> dict[str, int]:
        """Count the entries that each reason dropped, without reasons that dropped none."""
        counts_by_code = np.bincount(self.code, minlength=len(self.names) + 1)[1:].tolist()
        return {
            name: count for name, count in zip(self.names, counts_by_code, strict=True) if count
        }


def _drop_non_reviews(entries: Entries, reasons: _DropReasons) -> None:
    reasons.drop(_NO_ANSWER, entries.rating == 0)
    reasons.drop(_PREVIEW, _mark_previews(entries))
    reasons.drop(_BAD_RATING, (entries.rating < 1) | (entries.rating > 4))


def _mark_previews(entries: Entries) -> NDArray[np.bool_]:
    """Mark answers in a filtered deck that does not reschedule: Anki gives them the factor 0."""
    is_preview: NDArray[np.bool_] = (entries.kind == FILTERED) & (entries.factor == 0)
    return is_preview


def _apply_builder_rule(entries: Entries, reasons: _DropReasons) -> IntArray:
    """Drop what the builder drops; return its card's last learning start for each entry.

    The result is a position in the entries, or -1 without a start.
    A learning start is the first entry of a run of learning entries among the card's reviews. A
    card counts from its last learning start.
    """
    _drop_non_reviews(entries, reasons)
    positions = reasons.kept_positions()
    is_learning = entries.kind[positions] == LEARNING
    is_start = _mark_learning_starts(is_learning, entries.card_id[positions])
    last_start = _find_last_of_card(entries.card_id, positions[is_start])
    reasons.drop(_NO_START, last_start < 0)
    reasons.drop(_BEFORE_START, np.arange(len(last_start)) < last_start)
    return last_start


def _apply_anki_rule(entries: Entries, reasons: _DropReasons) -> IntArray:
    """Drop what Anki drops; return its card's last learning start for each entry.

    The result is a position in the entries, or -1 without a start. Anki walks backwards from a
    card's last entry and ignores previews; the start is the first entry of the run of learning
    answers that it meets first. Any other entry ends the run: a reset, a set due date, a
    reschedule, an early review. A reset after the last learning answer drops the card. From
    the start on every answer counts, whatever its kind: old programs gave ratings to manual
    entries too (rslib/src/revlog/mod.rs: has_rating_and_affects_scheduling).
    """
    # Find starts before anything is dropped: dropped entries, such as resets, end a run, too.
    is_answer = (entries.rating >= 1) & (entries.rating <= 4)
    positions = np.flatnonzero(~_mark_previews(entries))
    is_learning = ((entries.kind == LEARNING) & is_answer)[positions]
    is_start = _mark_learning_starts(is_learning, entries.card_id[positions])
    last_start = _find_last_of_card(entries.card_id, positions[is_start])
    last_learning = _find_last_of_card(entries.card_id, positions[is_learning])
    is_reset = (entries.kind == MANUAL) & (entries.factor == 0)
    last_reset = _find_last_of_card(entries.card_id, np.flatnonzero(is_reset))
    _drop_non_reviews(entries, reasons)
    reasons.drop(_AFTER_RESET, last_reset > last_learning)
    reasons.drop(_NO_START, last_start < 0)
    reasons.drop(_BEFORE_START, np.arange(len(last_start)) < last_start)
    return last_start


def _mark_learning_starts(is_learning: NDArray[np.bool_], card_id: IntArray) -> NDArray[np.bool_]:
    """Mark the first entry of each run of learning entries of a card (shape of `card_id`)."""
    follows_learning = np.zeros(len(card_id), np.bool_)
    follows_learning[1:] = is_learning[:-1] & ~mark_run_starts(card_id)[1:]
    return is_learning & ~follows_learning


def _find_last_of_card(card_id: IntArray, positions: IntArray) -> IntArray:
    """Return, for each entry, the last of `positions` that is on the entry's card, or -1.

    `card_id` (n,) is sorted and `positions` ascend; the result has the shape of `card_id`.
    """
    if not len(positions) or not len(card_id):
        return np.full(len(card_id), -1, np.int64)
    card_starts = np.flatnonzero(mark_run_starts(card_id))
    card_ends = np.append(card_starts[1:], len(card_id))
    index = np.searchsorted(positions, card_ends) - 1  # of the last position before each card's end
    last_positions = np.where(index >= 0, positions[np.maximum(index, 0)], -1)
    last_of_card = np.where(last_positions >= card_starts, last_positions, -1)
    return np.repeat(last_of_card, card_ends - card_starts)


def _look_up_card_state(
    log: ReviewLog, card_id: IntArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether each card still exists, and whether it is suspended."""
    cards = log.cards
    if not len(cards.card_id):
        # A source without a table of cards does not tell which ones are deleted or suspended.
        return np.ones(len(card_id), np.bool_), np.zeros(len(card_id), np.bool_)
    index = np.minimum(np.searchsorted(cards.card_id, card_id), len(cards.card_id) - 1)
    exists = cards.card_id[index] == card_id
    return exists, exists & cards.suspended[index]


def _look_up_ignore_before_ms(log: ReviewLog, card_id: IntArray) -> IntArray:
    """Return each card's ignore-before date as Unix ms (midnight UTC), 0 if it has none."""
    preset_of = log.preset_of(log.deck_of(card_id))
    limits = np.zeros(len(card_id), np.int64)
    for preset in log.presets.values():
        if preset.ignore_before:
            limits[preset_of == preset.id] = find_midnight_s(preset.ignore_before) * 1000
    return limits


def _build_rows(
    entries: Entries, positions: IntArray, grid: DayGrid, *, is_benchmark: bool
) -> Rows:
    """Build the rows of the entries at `positions`, in order of card, then time."""
    time_ms = entries.time_ms[positions]
    card_id = entries.card_id[positions]
    next_day_at_s = grid.next_day_at_s
    study_day = to_study_days(time_ms, grid)  # None unless the user named a time zone
    if is_benchmark:
        # Truncation toward zero puts tomorrow's entries on day 0 (today), as in the builder.
        since_next_day_ms = time_ms - next_day_at_s * 1000
        day = np.sign(since_next_day_ms) * (np.abs(since_next_day_ms) // _DAY_MS)
    else:
        # As in Anki, whole seconds count, and entries in the future belong to today.
        day = -np.maximum((next_day_at_s - time_ms // 1000) // DAY_S, 0)
    is_first = mark_run_starts(card_id)
    elapsed_days = np.diff(day, prepend=0)
    elapsed_seconds = np.diff(time_ms, prepend=0) // 1000
    elapsed_days[is_first] = -1
    elapsed_seconds[is_first] = -1
    elapsed_study_days = None
    if study_day is not None:
        elapsed_study_days = np.where(is_first, -1.0, np.diff(study_day, prepend=0.0))
    scheduled_interval = None
    if entries.interval is not None:
        interval = entries.interval[positions]
        # Anki stores intervals below a day as negative seconds.
        scheduled_interval = np.where(interval < 0, -interval / DAY_S, interval)
    ease = None  # where the source has none, all factors are 0
    if entries.factor.any():
        # The ease (with FSRS: difficulty) before an answer is that of the card's previous entry,
        # even if this is dropped.
        starts_card = mark_run_starts(entries.card_id)
        previous_factor = np.where(starts_card, MISSING, np.roll(entries.factor, 1))
        ease = previous_factor[positions]
    first_day = day.min() if len(day) else 0
    return Rows(
        card_id=card_id,
        day_offset=day - first_day,
        rating=entries.rating[positions],
        # As in data sets: 0 is new, and the others are the revlog's kinds plus 1.
        state=np.where(is_first, 0, entries.kind[positions] + 1),
        duration_ms=entries.duration_ms[positions],
        elapsed_days=elapsed_days,
        elapsed_seconds=elapsed_seconds,
        time_of_day_s=(time_ms // 1000 - next_day_at_s) % DAY_S,
        elapsed_study_days=elapsed_study_days,
        scheduled_interval=scheduled_interval,
        ease=ease,
    )


def find_first_date(log: ReviewLog, kind: RowKind = "benchmark") -> date | None:
    """Return the date of day 0 of a log's rows (`Rows.day_offset`); None if there are no dates.

    `kind` is that of `select_rows`.
    """
    if log.first_day is not None:
        return date.fromisoformat(log.first_day)
    if log.entries is None:
        return None
    selection = select_rows(log, kind)
    rows = selection.rows
    if rows.time_of_day_s is None or not len(rows):
        return None
    first_review_s = int(log.entries.time_ms[selection.entry_index[0]]) // 1000
    day_start_s = first_review_s - int(rows.time_of_day_s[0])
    # Ten hours after the start of a day, its date in UTC is the same for nearly all time zones.
    day_zero_s = day_start_s - int(rows.day_offset[0]) * DAY_S + 36_000
    return datetime.fromtimestamp(day_zero_s, UTC).date()


# Selections of decks or presets

_CardTable = TypeVar("_CardTable", Entries, Rows, Cards, Schedule)


def select_decks(log: ReviewLog, *names: str) -> ReviewLog:
    """Return the reviews of existing cards whose home deck is one of `names` or below it.

    Case does not matter. A deck's id works, too, because the decks of data sets have no names.
    Raises InputError for an unknown deck (with the nearest names), for a filtered deck (it is not
    the home of any card), and for decks without reviews.
    """
    decks: set[int] = set()
    for name in names:
        decks |= _find_deck_tree(log, name)
    return _select_cards_in_decks(log, decks, "deck", names)


def anonymize(log: ReviewLog) -> ReviewLog:
    """Replace the names of decks and presets by numbers, and the path by "collection".

    Searches of presets and notes of the import are removed.
    """
    decks = {}
    for number, (key, deck) in enumerate(sorted(log.decks.items()), start=1):
        decks[key] = replace(deck, name=f"deck {number}")
    presets = {}
    for number, (key, preset) in enumerate(sorted(log.presets.items()), start=1):
        presets[key] = replace(preset, name=f"preset {number}", search=None)
    import_summary = replace(log.import_summary, path="collection", notes=())
    return replace(log, decks=decks, presets=presets, import_summary=import_summary)


def _find_deck_tree(log: ReviewLog, name: str) -> set[int]:
    """Return the ids of the decks of this name (or id) and of all decks below them."""
    decks = {deck.id for deck in log.decks.values() if _has_name(deck, name)}
    homes = [deck for deck in log.decks.values() if not deck.filtered]
    if not decks:
        choices = ((deck.name, deck.id) for deck in homes)
        raise InputError(_unknown_name_message("deck", name, choices))
    if decks.isdisjoint(deck.id for deck in homes):
        raise InputError(
            f'"{name}" is a filtered deck: reviews belong to the decks that its cards were '
            "taken from; name one of those."
        )
    deck_count = 0
    while deck_count != len(decks):  # until no subdeck is added
        deck_count = len(decks)
        decks |= {deck.id for deck in log.decks.values() if deck.parent_id in decks}
    prefix = f"{_fold_case(name)}::"  # also finds subdecks whose parent deck is missing
    return decks | {
        deck.id for deck in log.decks.values() if _fold_case(deck.name).startswith(prefix)
    }


def select_presets(log: ReviewLog, *names: str) -> ReviewLog:
    """Return the reviews of existing cards in decks with one of the presets `names` (or its id).

    Raises InputError as `select_decks` does.
    """
    presets: set[int] = set()
    for name in names:
        matching = {preset.id for preset in log.presets.values() if _has_name(preset, name)}
        if not matching:
            raise InputError(_unknown_preset_message(log, name))
        presets |= matching
    decks = {deck.id for deck in log.decks.values() if deck.preset_id in presets}
    return _select_cards_in_decks(log, decks, "preset", names)


def _unknown_preset_message(log: ReviewLog, name: str) -> str:
    orphaned_decks = [deck.name for deck in log.decks.values() if str(deck.preset_id) == name]
    if orphaned_decks and log.presets:
        deck_words = ", ".join(f'"{deck}"' for deck in orphaned_decks[:3])
        return (
            f"Preset {name} was deleted but decks still refer to it; Anki uses default options "
            f"for those decks. Use --deck instead: {deck_words}."
        )
    choices = ((preset.name, preset.id) for preset in log.presets.values())
    return _unknown_name_message("preset", name, choices)


def _has_name(deck_or_preset: Deck | Preset, name: str) -> bool:
    return str(deck_or_preset.id) == name or (
        name != "" and _fold_case(deck_or_preset.name) == _fold_case(name)
    )


def _fold_case(name: str) -> str:
    """Fold the case of a name after NFC normalization (Anki stores names in NFC)."""
    return unicodedata.normalize("NFC", name).casefold()


def exclude_presets(log: ReviewLog, presets: Collection[int]) -> ReviewLog:
    """Return the log without the cards of some presets (ids) and without their reviews."""
    is_excluded = np.isin(log.preset_of(log.cards.deck_id), list(presets))
    excluded_cards = log.cards.card_id[is_excluded]
    return _select_cards(log, lambda card_id: ~np.isin(card_id, excluded_cards))


def _select_cards_in_decks(
    log: ReviewLog, decks: Collection[int], kind: Literal["deck", "preset"], names: Sequence[str]
) -> ReviewLog:
    """Return the log of the cards in some decks (ids); `kind` and `names` are for its errors."""
    cards = log.cards.card_id[np.isin(log.cards.deck_id, sorted(decks))]
    narrowed = _select_cards(log, lambda card_id: np.isin(card_id, cards))
    if not len(narrowed.reviews):
        choices: Mapping[int, Deck | Preset] = log.decks if kind == "deck" else log.presets
        # The user may have named decks or presets by their ids.
        name_by_id = {str(choice.id): choice.name for choice in choices.values() if choice.name}
        name_words = " and ".join(f'"{name_by_id.get(name, name)}"' for name in names)
        if len(names) == 1:
            raise InputError(f"The {kind} {name_words} has no reviews.")
        raise InputError(f"The {kind}s {name_words} have no reviews.")
    return narrowed


def _select_cards(log: ReviewLog, is_selected: Callable[[IntArray], np.ndarray]) -> ReviewLog:
    """Keep the cards for which `is_selected(card_ids)` is True, with all their data."""

    def narrow(table: _CardTable | None) -> _CardTable | None:
        return None if table is None else _take_lines(table, is_selected(table.card_id))

    is_kept = is_selected(log.reviews.card_id)
    return replace(
        log,
        entries=narrow(log.entries),
        rows=narrow(log.rows),
        cards=_take_lines(log.cards, is_selected(log.cards.card_id)),
        schedule=narrow(log.schedule),
        source_predictions={
            name: column[is_kept] for name, column in log.source_predictions.items()
        },
        external_predictions={
            name: replace(predictions, p=predictions.p[is_kept])
            for name, predictions in log.external_predictions.items()
        },
        is_subset=True,
    )


def _take_lines(table: _CardTable, selector: np.ndarray) -> _CardTable:
    """Return a table with some of its lines: those of a mask, or at positions, in their order."""
    selected = {}
    for column in fields(table):
        values = getattr(table, column.name)
        if values is not None:
            selected[column.name] = values[selector]
    return replace(table, **selected)


def _unknown_name_message(kind: str, name: str, choices: Iterable[tuple[str, int]]) -> str:
    """Return a message that proposes the nearest of the choices, which are pairs of name and id."""
    names: dict[str, str] = {}  # names to show, by folded name
    for choice_name, choice_id in choices:
        choice = choice_name or str(choice_id)
        names[_fold_case(choice)] = choice
    if not names:
        return f"This file contains no {kind}s, so --{kind} cannot be used with it."
    nearest = difflib.get_close_matches(_fold_case(name), names, n=3, cutoff=0.3)
    proposals = nearest or sorted(names)[:3]
    choice_words = ", ".join(f'"{names[folded_name]}"' for folded_name in proposals)
    if nearest:
        return f'There is no {kind} "{name}". Did you mean {choice_words}?'
    if len(names) > len(proposals):
        choice_words += f" and {len(names) - len(proposals):,} more"
    return f'There is no {kind} "{name}". This file has: {choice_words}.'
