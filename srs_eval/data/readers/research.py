"""The research export (.revlog): protobuf anki.stats.Dataset (anki: proto/anki/stats.proto)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.readers import proto
from srs_eval.data.readers.collection import entries_from_columns
from srs_eval.data.reviews import Cards, Deck, Entries, IntArray, Preset

MAX_BYTES = 256 << 20
# A review takes 30 to 40 bytes; shorter records on average only swell when they are decoded.
_MIN_RECORD_BYTES = 16
_MAX_SHORT_RECORDS = 100_000


@dataclass(frozen=True)
class _ResearchExport:
    entries: Entries
    unreadable: int
    cards: Cards
    decks: Mapping[int, Deck]
    presets: Mapping[int, Preset]
    next_day_at_s: int


def read_research_export(content: bytes, name: str) -> _ResearchExport:
    """Decode a .revlog file; InputError if it is none, cut short or empty."""
    complaint = f"{name} is no collection, package, review-log table or .revlog file, or is damaged"
    most = _MAX_SHORT_RECORDS + len(content) // _MIN_RECORD_BYTES
    if proto.count_fields(content, most) > most:
        raise InputError(f"{complaint}; export it again from Anki.")
    dataset = proto.parse("Dataset", content, complaint)
    if not 0 < dataset.next_day_at < 1 << 40:
        # The field comes last, so a file cut between two records parses but lacks it.
        raise InputError(f"{name} is cut short or no .revlog file; export it again from Anki.")
    columns = (
        _column(dataset.revlogs, field)
        for field in ("id", "cid", "button_chosen", "review_kind", "ease_factor", "taken_millis")
    )
    entries, unreadable = entries_from_columns(*columns)
    cards = [_column(dataset.cards, field) for field in ("id", "note_id", "deck_id")]
    cards_once, first = np.unique(cards[0], return_index=True)
    decks = {
        deck.id: Deck(
            id=deck.id, name="", preset_id=deck.preset_id, parent_id=deck.parent_id or None
        )
        for deck in dataset.decks
    }
    return _ResearchExport(
        entries=entries,
        unreadable=unreadable,
        cards=Cards(
            cards_once, cards[1][first], cards[2][first], np.zeros(len(cards_once), np.bool_)
        ),
        decks=decks,
        presets={
            deck.preset_id: Preset(deck.preset_id, "")
            for deck in decks.values()
            if deck.preset_id is not None
        },
        next_day_at_s=dataset.next_day_at,
    )


def _column(messages: Any, field: str) -> IntArray:
    return np.fromiter(map(attrgetter(field), messages), np.int64, len(messages))
