"""The one review history: what an importer delivers and everything else reads.

A source holds either *entries* (Anki's raw revlog, every line with its kind) or
*rows* (the anki-revlogs-10k layout, in which the data-set builder has already
chosen; SuperMemo's exports, whose days are settled, come as rows too).
`srs_eval.data.rows` turns entries into rows; from there on there is one way.

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
"""Partition, deck or preset id of a review whose card or deck is not in the source."""


def arrays_in(value: object) -> Iterator[NDArray[Any]]:
    """Every array that a value holds, in tuples, lists, dicts and attributes, however deep."""
    waiting, seen = [value], set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, np.ndarray):
            yield each
        elif id(each) not in seen:
            seen.add(id(each))
            inside = [*each] if isinstance(each, tuple | list) else []
            inside += each.values() if isinstance(each, dict) else ()
            inside += getattr(each, "__dict__", {}).values()
            kinds = {kind for kind in set(map(type, inside)) if _may_hold_arrays(kind)}
            if kinds:
                waiting += [inner for inner in inside if type(inner) in kinds]


@cache
def _may_hold_arrays(kind: type) -> bool:
    if issubclass(kind, type | FunctionType | ModuleType):
        return False
    return issubclass(kind, np.ndarray | tuple | list | dict) or bool(kind.__dictoffset__)


def run_begins(values: NDArray[Any]) -> NDArray[np.bool_]:
    """True where a run of equal values begins (shape of `values`)."""
    begins = np.ones(len(values), np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return begins


def read_only(value: T) -> T:
    """The value, whose arrays nobody can write to any more: everybody reads the same ones."""
    for array in (value,) if isinstance(value, np.ndarray) else arrays_in(value):
        array.setflags(write=False)
    return value


class ReadOnly:
    """Columns that everybody reads: nobody can write to them, nor where they were sent to."""

    def __post_init__(self) -> None:
        read_only(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()


@dataclass(frozen=True, eq=False)
class Entries(ReadOnly):
    """Every line of a revlog, ordered by `time_ms` (shape (n,), int64 each)."""

    time_ms: IntArray  # Unix time of the answer
    card_id: IntArray
    rating: IntArray  # 1-4; 0 is no answer (manual, reset, rescheduled); others are kept as found
    kind: IntArray  # LEARNING ... RESCHEDULED
    factor: IntArray  # SM-2 ease x 1000, FSRS difficulty, or 0
    duration_ms: IntArray
    interval: IntArray | None = None
    """Days before the answer, as scheduled; 0 or below for less than one, and where not known."""

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
    time_of_day_s: IntArray | None = None  # since the day's beginning; None where unknown
    elapsed_study_days: FloatArray | None = field(default=None, kw_only=True)
    """With fractions, -1 for a first row; None where all are taken to last 24 hours."""
    # Before the answer, for `Trials.columns`; None where the source does not tell.
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


MOST_PARAMETERS = 1000
"""Readers keep so many of a preset's FSRS parameters, and one more where there are more."""

FSRS_7_PARAMETERS = 34
_USABLE_LENGTHS = (17, 19, 21, FSRS_7_PARAMETERS)  # of lists that a fork's FSRS takes

NEW_CARD, LEARNING_CARD, REVIEW_CARD, RELEARNING_CARD = range(4)  # Anki's cards.type


@dataclass(frozen=True, eq=False)
class Schedule(ReadOnly):
    """Where each existing card stands in Anki's scheduler (shape (n,), sorted by `card_id`)."""

    card_id: IntArray
    kind: IntArray  # NEW_CARD ... RELEARNING_CARD
    queue: IntArray  # Anki's cards.queue: -1 suspended, -2 and -3 buried, 4 previewed
    due_day: IntArray
    """Relative to the day that begins at `DayGrid.next_day_at_s`; 0 for new cards and for those
    that wait for a step of today."""
    interval: IntArray  # days
    ease: IntArray  # SM-2's, x 1000
    lapses: IntArray
    # As stored, by the parameters of then; NaN where none is stored.
    stability: FloatArray  # days until recall falls to 90 %
    difficulty: FloatArray  # 1-10
    internal_stability: FloatArray | None = None  # days; FSRS-7's slow one, of JSchoreels' fork
    fast_stability: FloatArray | None = None  # the same of its fast one
    desired_retention: FloatArray | None = None
    decay: FloatArray | None = None  # of the curve of then


@dataclass(frozen=True)
class Deck:
    id: int
    name: str  # full name, parts joined by "::"; "" where the source has none
    preset_id: int | None  # None: filtered deck
    parent_id: int | None = None
    desired_retention: float | None = None  # overrides the preset's
    filtered: bool = False


@dataclass(frozen=True)
class Preset:
    id: int
    name: str
    fsrs_parameters: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Stored lists by FSRS version (4, 5, 6, and 7 of forks); empty lists are left out. NaN is what
    was no finite number, and a list of one NaN what was no list. `own_parameters.fault_of`
    evaluates them."""
    desired_retention: float | None = None
    historical_retention: float | None = None
    ignore_before: str | None = None  # "YYYY-MM-DD", midnight UTC
    learning_steps: tuple[float, ...] = ()  # minutes
    relearning_steps: tuple[float, ...] = ()  # minutes
    maximum_interval: int | None = None  # days
    search: str | None = None
    sm2_settings: tuple[float, ...] | None = None
    """Graduating and easy interval (days), starting ease, easy bonus, and the multipliers of
    Hard, of a lapse's interval and of all intervals: what the older scheduler goes by."""
    new_a_day: int | None = None
    reviews_a_day: int | None = None
    new_ignore_review_limit: bool = False
    review_order: int = 0  # Anki's number (proto/anki/deck_config.proto, ReviewCardOrder)
    modified_s: int | None = None
    """Unix time of the last change: the parameters are not younger, but may be older."""
    chosen_version: int | None = None
    """The FSRS version that a fork of Anki runs for the preset (JSchoreels' or Clanki); None in
    Anki, which runs the newest list."""
    has_fallback: bool = True
    """Whether a fork takes an older list where the chosen one is unusable. Clanki does not."""

    @property
    def is_told(self) -> bool:
        """Whether the source tells the settings; a research export has the preset's id only."""
        return self.desired_retention is not None

    @property
    def parameters_in_force(self) -> tuple[float, ...]:
        """What Anki schedules with: the newest list stored; () means defaults.

        These are FSRS-6's, or FSRS-7's where `runs_fsrs7`. A fork runs the list of the version that
        it has chosen if that is usable, else the newest one that is (JSchoreels/anki
        rslib/src/deckconfig/mod.rs, `fsrs_params`).
        """
        newest_first = sorted(self.fsrs_parameters, reverse=True)
        if self.chosen_version is None:
            lists = (self.fsrs_parameters[version] for version in newest_first)
            return next(filter(None, lists), ())
        versions = [self.chosen_version]
        if self.has_fallback:
            versions += newest_first
        lists = (self.fsrs_parameters.get(version, ()) for version in versions)
        return next(filter(_is_usable, lists), ())

    @property
    def replaced_parameters(self) -> tuple[float, ...]:
        """The list of the chosen version where a fork does not run it; () elsewhere."""
        if self.chosen_version is None:
            return ()
        chosen = self.fsrs_parameters.get(self.chosen_version, ())
        return () if _is_usable(chosen) else chosen

    @property
    def runs_fsrs7(self) -> bool:
        """Whether a fork of Anki schedules with FSRS-7, whose defaults it takes for nothing."""
        values = self.parameters_in_force
        return self.chosen_version is not None and len(values) in (0, FSRS_7_PARAMETERS)


def _is_usable(values: tuple[float, ...]) -> bool:
    """Whether a fork's FSRS takes such a list."""
    return len(values) in _USABLE_LENGTHS and all(map(math.isfinite, values))


def card_rules_in_words(rules: int) -> str:
    """A sentence about `ReviewLog.card_rules`, of which there are some."""
    some = "1 rule of an add-on gives" if rules == 1 else f"{rules:,} rules of an add-on give"
    return (
        f"{some} single cards other FSRS parameters (fsrsPresetOverlay). Which cards depends on "
        "searches in what is on cards, which srs-eval does not read: here every card has the "
        "parameters of its deck's preset."
    )


def unnamed_presets(decks: Mapping[int, Deck]) -> dict[int, Preset]:
    """The presets of these decks, for a source that tells their ids alone."""
    ids = (deck.preset_id for deck in decks.values())
    return {key: Preset(key, "") for key in ids if key is not None}


@dataclass(frozen=True)
class DayGrid:
    """Where days begin: one rigid 86,400 s grid through `next_day_at_s` (Unix seconds)."""

    next_day_at_s: int
    source: str  # words for the import summary, e.g. "collection: rollover 4:00, UTC-7"
    number: int | None = None
    """Anki's number of the day that begins then: days since the collection was created."""
    zone: str | None = None  # IANA name, where a person gave one: it tells when clocks change


@dataclass(frozen=True, eq=False)
class Given(ReadOnly):
    """Recall as somebody else predicted it before each answer."""

    p: FloatArray  # one for each entry (or row) of a log; NaN where there is none
    about: str  # what belongs beside its figures; where there are none, why
    count: int | None = None
    """Predictions that a file has, also for what is no entry (or row); None where none is read."""

    @property
    def is_empty(self) -> bool:
        return not np.isfinite(self.p).any()


@dataclass(frozen=True, eq=False)
class Features(ReadOnly):
    """What a person's table tells of cards or notes."""

    by: str  # card_id or note_id
    ids: IntArray  # (k,) ascending
    names: tuple[str, ...]
    values: FloatArray  # (k, names); NaN where there is none
    about: str = ""  # how many cards have no row


@dataclass(frozen=True)
class ImportSummary:
    """What was read and what was kept, for `inspect` and the app."""

    path: str
    format: str  # words, e.g. "Anki collection (schema 18)"
    entries_read: int
    notes: tuple[str, ...] = ()  # one sentence each, worth a person's attention
    fsrs_enabled: bool | None = None
    app_name: str = "Anki"  # what scheduled the reviews; "" where that is not known
    repeated: int = 0  # entries that were left out because the file holds them twice


@dataclass(frozen=True, eq=False)
class ReviewLog(ReadOnly):
    """One learner's review history. Exactly one of `entries` and `rows` is set."""

    import_summary: ImportSummary
    entries: Entries | None = None
    rows: Rows | None = None
    cards: Cards = field(default_factory=Cards.empty)
    schedule: Schedule | None = None  # of collections and packages
    decks: Mapping[int, Deck] = field(default_factory=dict)
    presets: Mapping[int, Preset] = field(default_factory=dict)
    day_grid: DayGrid | None = None  # set with entries
    first_day: str | None = None  # date of the rows' day 0, if it is known
    user: int | None = None  # user id, for data sets
    optimized_before_s: int | None = None
    """Unix time of the end of the day of the last "Optimize all presets"; None if unknown."""
    predictions: Mapping[str, FloatArray] = field(default_factory=dict)
    """Probabilities of recall that the source brings along, by the name of who predicted them:
    one for each entry (or row), NaN where there is none."""
    given: Mapping[str, Given] = field(default_factory=dict)
    """Others' predictions that stand in the ranking, by name: of a file, of the person's Anki."""
    features: Features | None = None
    card_rules: int = 0
    """Rules by which an add-on gives single cards other FSRS parameters (a fork's
    `fsrsPresetOverlay`). Which cards they find depends on what is on cards, which is not read."""
    is_narrowed: bool = False  # to some cards of those that the source has

    def __post_init__(self) -> None:
        if (self.entries is None) == (self.rows is None):
            raise ValueError("a ReviewLog has either entries or rows")
        columns = [*self.predictions.values(), *(each.p for each in self.given.values())]
        if any(len(column) != len(self.reviews) for column in columns):
            raise ValueError("predictions are as many as entries or rows")
        super().__post_init__()

    def __repr__(self) -> str:
        return f"ReviewLog({Path(self.import_summary.path).name!r}, {self._counts})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        summary = self.import_summary
        notes = "".join(f"<li>{escape(each)}</li>" for each in summary.notes)
        name, form = escape(Path(summary.path).name), escape(summary.format)
        return f"<p><b>{name}</b>, {form}: {self._counts}</p><ul>{notes}</ul>"

    @property
    def reviews(self) -> Entries | Rows:
        """The entries, or the rows where there are none."""
        found = self.rows if self.entries is None else self.entries
        assert found is not None
        return found

    @property
    def _counts(self) -> str:
        counts = {"entries": len(self.entries or ()), "reviews": len(self.rows or ())}
        counts |= {"cards": len(self.cards.card_id), "decks": len(self.decks)}
        counts["presets"] = len(self.presets)
        return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)

    def fingerprint(self) -> str:
        """SHA-256 over everything that figures depend on (not names, not the path)."""
        digest = hashlib.sha256()
        for part in (self.entries, self.rows, self.cards):
            if part is not None:
                for column in fields(part):
                    values = getattr(part, column.name)
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
            digest.update(f"grid {self.day_grid.next_day_at_s}{self.day_grid.zone or ''}".encode())
        return digest.hexdigest()

    @property
    def knows_decks(self) -> bool:
        """Whether the source tells which decks cards are in, and which presets decks have."""
        return bool(len(self.cards.card_id) and self.decks)

    @property
    def leaves_out(self) -> bool:
        """Whether models that rest on decks are not evaluated on deleted cards: in data sets, where
        that is part of upstream's figures. In one's own collection all are evaluated alike."""
        return self.user is not None and self.knows_decks

    def name_of_preset(self, preset_id: int) -> str:
        """No two have the same name: where Anki's names leave that open, the id tells."""
        if preset_id == MISSING:
            return "no preset"
        preset = self.presets.get(preset_id)
        if preset is None or not preset.name:
            return f"preset {preset_id}"
        names = [each.name for each in self.presets.values()]
        return f"{preset.name} ({preset_id})" if names.count(preset.name) > 1 else preset.name

    def deck_of(self, card_id: IntArray) -> IntArray:
        """Home deck of each card, MISSING where the card is gone (shape of `card_id`)."""
        return self._of_cards(self.cards.deck_id, card_id)

    def note_of(self, card_id: IntArray) -> IntArray:
        """Note of each card, MISSING where the card is gone (shape of `card_id`)."""
        return self._of_cards(self.cards.note_id, card_id)

    def features_of(self, card_id: IntArray) -> FloatArray:
        """The person's table at each card (k, names), NaN where it has no such card or note.

        Raises InputError where there is no table.
        """
        table = self.features
        if table is None:
            raise InputError("A model asks for features: give a table with --features FILE.")
        ids = card_id if table.by == "card_id" else self.note_of(card_id)
        known = np.isin(ids, table.ids)
        found = np.full((len(ids), len(table.names)), np.nan)
        found[known] = table.values[np.searchsorted(table.ids, ids[known])]
        return found

    def _of_cards(self, ids: IntArray, card_id: IntArray) -> IntArray:
        if not len(self.cards.card_id):
            return np.full(len(card_id), MISSING, np.int64)
        place = np.searchsorted(self.cards.card_id, card_id)
        place[place == len(self.cards.card_id)] = 0
        return np.where(self.cards.card_id[place] == card_id, ids[place], MISSING)

    def preset_of(self, deck_id: IntArray) -> IntArray:
        """Preset of each deck, MISSING where the deck is gone or has none."""
        known, inverse = np.unique(deck_id, return_inverse=True)
        presets = np.full(len(known), MISSING, np.int64)
        for place, deck in enumerate(known.tolist()):
            preset = self.decks[deck].preset_id if deck in self.decks else None
            if preset is not None:
                presets[place] = preset
        return presets[inverse]
