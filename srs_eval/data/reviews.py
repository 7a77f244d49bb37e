"""Define the review history that importers deliver and all other code reads.

A source holds either *entries* (Anki's raw revlog, every line with its kind) or
*rows* (the anki-revlogs-10k layout, in which the data-set builder has already
chosen; SuperMemo's exports, whose days are settled, come as rows too).
`srs_eval.data.rows` turns entries into rows; from there on all sources are treated alike.

Units: milliseconds where a name ends in `_ms`, seconds in `_s`, days otherwise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from html import escape
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
T = TypeVar("T")

# Entry kinds (Anki's revlog.type); anything unknown is read as learning, as Anki does.
LEARNING, REVIEW, RELEARNING, FILTERED, MANUAL, RESCHEDULED = range(6)

MISSING = -1
"""Partition, deck or preset id of a review whose card or deck is not in the source, and any other
number that the source does not have, such as the ease before a card's first answer."""
NO_PRESET = "(no preset)"  # stands for the preset's name of cards that have none


def find_arrays(value: object) -> Iterator[NDArray[Any]]:
    """Yield every array in a value's tuples, lists, dicts and attributes, however deep."""
    pending = [value]
    seen = set[int]()
    while pending:
        item = pending.pop()
        if isinstance(item, np.ndarray):
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            members: list[object] = []
            if isinstance(item, tuple | list):
                members.extend(item)
            if isinstance(item, dict):
                members.extend(item.values())
            members.extend(getattr(item, "__dict__", {}).values())
            kinds = {kind for kind in set(map(type, members)) if _may_hold_arrays(kind)}
            if kinds:
                pending.extend(member for member in members if type(member) in kinds)


@cache
def _may_hold_arrays(kind: type) -> bool:
    if issubclass(kind, type | FunctionType | ModuleType):
        return False
    return issubclass(kind, np.ndarray | tuple | list | dict) or bool(kind.__dictoffset__)


def mark_run_starts(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark where a run of equal values begins (shape of `values`)."""
    is_start = np.ones(len(values), np.bool_)
    is_start[1:] = values[1:] != values[:-1]
    return is_start


def make_read_only(value: T) -> T:
    """Make all arrays in a value read-only, because they are shared, and return the value."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
        return value
    for array in find_arrays(value):
        array.setflags(write=False)
    return value


class ReadOnly:
    """Base of classes with shared columns, which stay read-only in other processes, too."""

    def __post_init__(self) -> None:
        make_read_only(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()


@dataclass(frozen=True, eq=False)
class Entries(ReadOnly):
    """Every line of a revlog, ordered by `time_ms` (shape (n,), int64 each)."""

    time_ms: IntArray  # Unix time of the answer
    card_id: IntArray
    rating: IntArray  # 1-4; 0: not an answer (manual, reset, rescheduled); others are kept as found
    kind: IntArray  # LEARNING ... RESCHEDULED
    factor: IntArray  # SM-2 ease x 1000, FSRS difficulty, or 0
    duration_ms: IntArray
    interval: IntArray | None = None
    """Scheduled interval before the answer: days, or negative seconds if it was below a day; 0 if
    unknown."""

    def __len__(self) -> int:
        return len(self.time_ms)


@dataclass(frozen=True, eq=False)
class Rows(ReadOnly):
    """Reviews in the anki-revlogs-10k layout, in order of review (shape (n,), int64 each).

    A card's first row has elapsed_days = elapsed_seconds = -1.
    """

    card_id: IntArray
    day_offset: IntArray
    rating: IntArray
    state: IntArray  # 0 learn start, else entry kind + 1
    duration_ms: IntArray
    elapsed_days: IntArray
    elapsed_seconds: IntArray
    time_of_day_s: IntArray | None = None  # since the day's beginning; None if unknown
    elapsed_study_days: FloatArray | None = field(default=None, kw_only=True)
    """With fractions, -1 for a card's first row; None if the time zone of the days is unknown."""
    # Before the answer, for `Trials.columns`; None if the source lacks them.
    scheduled_interval: FloatArray | None = field(default=None, kw_only=True)
    ease: IntArray | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.card_id)


@dataclass(frozen=True, eq=False)
class Cards(ReadOnly):
    """The cards that still exist (shape (n,), sorted by `card_id`)."""

    card_id: IntArray
    note_id: IntArray
    deck_id: IntArray  # home deck, also for a card that sits in a filtered deck
    suspended: NDArray[np.bool_]

    @staticmethod
    def empty() -> Cards:
        none = np.empty(0, np.int64)
        return Cards(none, none, none, np.empty(0, np.bool_))


@dataclass(frozen=True, eq=False)
class CardTemplates(ReadOnly):
    """The card templates of the cards that still exist (shape (n,), sorted by `card_id`)."""

    card_id: IntArray
    template: IntArray  # position in `names`
    names: tuple[str, ...]  # "Basic", "Basic (and reversed card): Card 1"


MAX_PARAMETERS = 1000
"""Readers keep at most this many of a preset's FSRS parameters, plus one if there are more."""

FSRS_7_PARAMETER_COUNT = 34
_USABLE_LENGTHS = (17, 19, 21, FSRS_7_PARAMETER_COUNT)  # of lists that a fork's FSRS accepts

NEW_CARD, LEARNING_CARD, REVIEW_CARD, RELEARNING_CARD = range(4)  # Anki's cards.type


@dataclass(frozen=True, eq=False)
class Schedule(ReadOnly):
    """State of each existing card in Anki's scheduler (shape (n,), sorted by `card_id`)."""

    card_id: IntArray
    kind: IntArray  # NEW_CARD ... RELEARNING_CARD
    queue: IntArray  # Anki's cards.queue: -1 suspended, -2 and -3 buried, 4 previewed
    due_day: IntArray
    """Relative to the day that begins at `DayGrid.next_day_at_s`; 0 for new cards and for cards
    with a step due today."""
    interval: IntArray  # days
    ease: IntArray  # SM-2's, x 1000
    lapses: IntArray
    # As stored, by the parameters of that time; NaN if none is stored.
    stability: FloatArray  # days until recall falls to 90 %
    difficulty: FloatArray  # 1-10
    internal_stability: FloatArray | None = None  # days; slow one of FSRS-7 in JSchoreels' fork
    fast_stability: FloatArray | None = None  # days; its fast one
    desired_retention: FloatArray | None = None
    decay: FloatArray | None = None  # of the forgetting curve of that time


@dataclass(frozen=True)
class Deck:
    """A deck of a collection."""

    id: int
    name: str  # full name, parts joined by "::"; "" where the source has none
    preset_id: int | None  # None: filtered deck
    parent_id: int | None = None
    desired_retention: float | None = None  # overrides the preset's
    filtered: bool = False


@dataclass(frozen=True)
class Preset:
    """An options preset of a collection, with its settings for FSRS and learning steps."""

    id: int
    name: str
    fsrs_parameters: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Stored lists by FSRS version (4, 5, 6, and 7 of forks); empty lists are left out. NaN stands
    for a value that is not a finite number, and a list of one NaN for a value that is not a list.
    `own_parameters.find_fault` checks them."""
    desired_retention: float | None = None
    historical_retention: float | None = None
    ignore_before: str | None = None  # "YYYY-MM-DD", midnight UTC
    learning_steps: tuple[float, ...] = ()  # minutes
    relearning_steps: tuple[float, ...] = ()  # minutes
    maximum_interval: int | None = None  # days
    search: str | None = None
    sm2_settings: tuple[float, ...] | None = None
    """Settings of the older scheduler: graduating and easy interval (days), starting ease, easy
    bonus, and the multipliers of Hard, of a lapse's interval and of all intervals."""
    new_a_day: int | None = None
    reviews_a_day: int | None = None
    new_ignore_review_limit: bool = False
    review_order: int = 0  # Anki's number (proto/anki/deck_config.proto, ReviewCardOrder)
    modified_s: int | None = None
    """Unix time of the last change: the parameters are not newer, but may be older."""
    chosen_version: int | None = None
    """The FSRS version that a fork of Anki runs for the preset (JSchoreels' or Clanki); None in
    Anki, which runs the newest list."""
    has_fallback: bool = True
    """True if a fork takes an older list when the chosen one is unusable. Clanki does not."""

    @property
    def has_settings(self) -> bool:
        """Return whether the source has the settings; a research export has only preset ids."""
        return self.desired_retention is not None

    @property
    def active_parameters(self) -> tuple[float, ...]:
        """Return the parameters that Anki schedules with: the newest list, or () for defaults.

        The defaults are FSRS-6's, or FSRS-7's if `runs_fsrs7`. A fork runs the list of its chosen
        version if that list is usable, else the newest usable one (JSchoreels/anki
        rslib/src/deckconfig/mod.rs, `fsrs_params`).
        """
        newest_first = sorted(self.fsrs_parameters, reverse=True)
        if self.chosen_version is None:
            for version in newest_first:
                if self.fsrs_parameters[version]:
                    return self.fsrs_parameters[version]
            return ()
        versions = [self.chosen_version]
        if self.has_fallback:
            versions += newest_first
        for version in versions:
            parameters = self.fsrs_parameters.get(version, ())
            if _is_usable(parameters):
                return parameters
        return ()

    @property
    def replaced_parameters(self) -> tuple[float, ...]:
        """Return the list of the chosen version if a fork does not run it, else ()."""
        if self.chosen_version is None:
            return ()
        parameters = self.fsrs_parameters.get(self.chosen_version, ())
        return () if _is_usable(parameters) else parameters

    @property
    def runs_fsrs7(self) -> bool:
        """Return whether a fork of Anki schedules with FSRS-7.

        Without any parameters a fork takes the defaults of FSRS-7.
        """
        values = self.active_parameters
        return self.chosen_version is not None and len(values) in (0, FSRS_7_PARAMETER_COUNT)


def _is_usable(values: tuple[float, ...]) -> bool:
    """Return whether a fork's FSRS accepts such a list."""
    return len(values) in _USABLE_LENGTHS and all(map(math.isfinite, values))


def describe_card_rules(count: int) -> str:
    """Return a sentence about the `ReviewLog.card_rule_count` rules, at least one."""
    subject = "1 rule of an add-on gives" if count == 1 else f"{count:,} rules of an add-on give"
    return (
        f"{subject} individual cards other FSRS parameters (fsrsPresetOverlay). Which cards these "
        "are depends on searches in the text of cards, which srs-eval does not read, so it "
        "gives every card the parameters of its deck's preset."
    )


def make_unnamed_presets(decks: Mapping[int, Deck]) -> dict[int, Preset]:
    """Make the presets of these decks, for a source that has only their ids."""
    ids = (deck.preset_id for deck in decks.values())
    return {key: Preset(key, "") for key in ids if key is not None}


@dataclass(frozen=True)
class DayGrid:
    """The beginnings of days: one rigid 86,400 s grid through `next_day_at_s` (Unix seconds)."""

    next_day_at_s: int
    description: str  # words for the import summary, e.g. "collection: rollover 4:00, UTC-7"
    anki_day_number: int | None = None
    """Anki's number of the day that begins then: days since the collection was created."""
    time_zone: str | None = None  # IANA name, if the user gave one: it tells when clocks change


@dataclass(frozen=True, eq=False)
class ExternalPredictions(ReadOnly):
    """Probabilities of recall that another program predicted before each answer."""

    p: FloatArray  # one for each entry (or row) of a log; NaN where there is none
    note: str  # note beside its figures; if there are none, the reason
    file_count: int | None = None
    """Number of a file's predictions, even if they match no entry (or row); None without a file."""

    @property
    def is_empty(self) -> bool:
        return not np.isfinite(self.p).any()


@dataclass(frozen=True, eq=False)
class Features(ReadOnly):
    """User-supplied features of cards or notes."""

    id_column: str  # card_id or note_id
    ids: IntArray  # (k,) ascending
    names: tuple[str, ...]
    values: FloatArray  # (k, names); NaN where there is none
    note: str = ""  # how many cards have no row


@dataclass(frozen=True)
class ImportSummary:
    """Summary of what was read and what was kept, for `inspect` and the app."""

    path: str
    format: str  # words, e.g. "Anki collection (schema 18)"
    entries_read: int
    notes: tuple[str, ...] = ()  # one sentence each, worth the user's attention
    fsrs_enabled: bool | None = None
    app_name: str = "Anki"  # program that scheduled the reviews; "" if unknown
    repeated: int = 0  # entries that were left out because the file holds them twice


@dataclass(frozen=True, eq=False)
class ReviewLog(ReadOnly):
    """One learner's review history. Exactly one of `entries` and `rows` is set."""

    import_summary: ImportSummary
    entries: Entries | None = None
    rows: Rows | None = None
    cards: Cards = field(default_factory=Cards.empty)
    schedule: Schedule | None = None  # of collections and packages
    templates: CardTemplates | None = None  # of all cards of collections and packages
    decks: Mapping[int, Deck] = field(default_factory=dict)
    presets: Mapping[int, Preset] = field(default_factory=dict)
    day_grid: DayGrid | None = None  # set with entries
    first_day: str | None = None  # date of the rows' day 0, if it is known
    user: int | None = None  # user id, for data sets
    optimized_before_s: int | None = None
    """Unix time of the end of the day of the last "Optimize all presets"; None if unknown."""
    source_predictions: Mapping[str, FloatArray] = field(default_factory=dict)
    """Probabilities of recall that the source contains, by the name of the predictor: one for each
    entry (or row), NaN where there is none."""
    external_predictions: Mapping[str, ExternalPredictions] = field(default_factory=dict)
    """External predictions in the ranking, by name: from a file, or from the user's Anki."""
    features: Features | None = None
    card_rule_count: int = 0
    """Number of rules by which an add-on gives single cards other FSRS parameters (a fork's
    `fsrsPresetOverlay`). Their matches depend on the content of cards, which is not read."""
    is_subset: bool = False  # holds only some of the source's cards
    user_has_fsrs7: bool = False
    """Whether the user says that the program which schedules these cards can run FSRS-7."""

    def __post_init__(self) -> None:
        if (self.entries is None) == (self.rows is None):
            raise ValueError("a ReviewLog has either entries or rows")
        columns = list(self.source_predictions.values())
        columns += [predictions.p for predictions in self.external_predictions.values()]
        if any(len(column) != len(self.reviews) for column in columns):
            raise ValueError("there must be a prediction for each entry or row")
        super().__post_init__()

    def __repr__(self) -> str:
        return f"ReviewLog({Path(self.import_summary.path).name!r}, {self._counts})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        summary = self.import_summary
        notes = "".join(f"<li>{escape(note)}</li>" for note in summary.notes)
        name = escape(Path(summary.path).name)
        format_name = escape(summary.format)
        return f"<p><b>{name}</b>, {format_name}: {self._counts}</p><ul>{notes}</ul>"

    @property
    def reviews(self) -> Entries | Rows:
        """Return the entries, or the rows if there are no entries."""
        reviews = self.rows if self.entries is None else self.entries
        assert reviews is not None
        return reviews

    @property
    def can_run_fsrs7(self) -> bool:
        """Return whether the program that schedules these cards can run FSRS-7.

        A fork of Anki that can leaves its fields in a collection (`Preset.chosen_version`).
        Otherwise only the user knows.
        """
        is_from_fork = any(preset.chosen_version is not None for preset in self.presets.values())
        return is_from_fork or self.user_has_fsrs7

    @property
    def _counts(self) -> str:
        counts = {
            "entries": len(self.entries or ()),
            "reviews": len(self.rows or ()),
            "cards": len(self.cards.card_id),
            "decks": len(self.decks),
            "presets": len(self.presets),
        }
        return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)

    def fingerprint(self) -> str:
        """Compute the SHA-256 of everything that figures depend on (not names, not the path)."""
        digest = hashlib.sha256()
        for table in (self.entries, self.rows, self.cards):
            if table is not None:
                for column in fields(table):
                    values = getattr(table, column.name)
                    if values is None:
                        continue
                    array = np.ascontiguousarray(values)
                    digest.update(f"{column.name}:{array.dtype}:{len(array)};".encode())
                    digest.update(array.tobytes())
        for deck in sorted(self.decks.values(), key=lambda deck: deck.id):
            digest.update(f"deck {deck.id} {deck.preset_id} {deck.parent_id};".encode())
        for preset in sorted(self.presets.values(), key=lambda preset: preset.id):
            digest.update(f"preset {preset.id} {preset.ignore_before};".encode())
        if self.day_grid is not None:
            digest.update(
                f"grid {self.day_grid.next_day_at_s}{self.day_grid.time_zone or ''}".encode()
            )
        return digest.hexdigest()

    @property
    def has_decks(self) -> bool:
        """Return whether the source has the decks of cards and the presets of decks."""
        return bool(len(self.cards.card_id) and self.decks)

    @property
    def skips_deleted_cards(self) -> bool:
        """Return whether models that need decks are not evaluated on deleted cards.

        This is so in data sets, where it is part of upstream's figures. In a user's own collection
        all models are evaluated alike.
        """
        return self.user is not None and self.has_decks

    def preset_name(self, preset_id: int) -> str:
        """Return a preset's name; if several presets share it, the id is added."""
        if preset_id == MISSING:
            return NO_PRESET
        preset = self.presets.get(preset_id)
        if preset is None or not preset.name:
            return f"preset {preset_id}"
        names = [other_preset.name for other_preset in self.presets.values()]
        return f"{preset.name} ({preset_id})" if names.count(preset.name) > 1 else preset.name

    def deck_of(self, card_id: IntArray) -> IntArray:
        """Return the home deck of each card, MISSING if the card is gone (shape of `card_id`)."""
        return self._look_up(self.cards.deck_id, card_id)

    def note_of(self, card_id: IntArray) -> IntArray:
        """Return the note of each card, MISSING if the card is gone (shape of `card_id`)."""
        return self._look_up(self.cards.note_id, card_id)

    def features_of(self, card_id: IntArray) -> FloatArray:
        """Return the user's features of each card (k, names), NaN if the table lacks it.

        A table of notes is looked up by the card's note. Raises InputError if there is no table.
        """
        table = self.features
        if table is None:
            raise InputError("A model needs features: give a table with --features FILE.")
        ids = card_id if table.id_column == "card_id" else self.note_of(card_id)
        has_features = np.isin(ids, table.ids)
        features = np.full((len(ids), len(table.names)), np.nan)
        features[has_features] = table.values[np.searchsorted(table.ids, ids[has_features])]
        return features

    def _look_up(self, ids: IntArray, card_id: IntArray) -> IntArray:
        """Return the `ids` (one for each of `self.cards`) of some cards; MISSING if it is gone."""
        if not len(self.cards.card_id):
            return np.full(len(card_id), MISSING, np.int64)
        position = np.searchsorted(self.cards.card_id, card_id)
        position[position == len(self.cards.card_id)] = 0  # any card, as none will be equal
        return np.where(self.cards.card_id[position] == card_id, ids[position], MISSING)

    def preset_of(self, deck_id: IntArray) -> IntArray:
        """Return the preset of each deck, MISSING if the deck is gone or has none."""
        unique_decks, inverse = np.unique(deck_id, return_inverse=True)
        presets = np.full(len(unique_decks), MISSING, np.int64)
        for index, deck in enumerate(unique_decks.tolist()):
            preset = self.decks[deck].preset_id if deck in self.decks else None
            if preset is not None:
                presets[index] = preset
        return presets[inverse]
