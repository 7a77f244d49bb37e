"""One deck or preset out of a log."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import Cards, Deck, ImportSummary, Preset, ReviewLog, Rows
from srs_eval.data.rows import select_decks, select_presets


def make_log(decks: list[Deck], presets: list[Preset] | None = None) -> ReviewLog:
    """Return a log with one card in each deck, whose id is the deck's id times ten."""
    card = np.array(sorted(deck.id * 10 for deck in decks), np.int64)
    unit = np.ones(len(card), np.int64)
    return ReviewLog(
        ImportSummary("made", "made", len(card)),
        rows=Rows(card, unit, 3 * unit, unit, unit, -unit, -unit),
        cards=Cards(card, card, card // 10, np.zeros(len(card), np.bool_)),
        decks={deck.id: deck for deck in decks},
        presets={preset.id: preset for preset in presets or []},
    )


def kept_decks(log: ReviewLog) -> list[int]:
    assert log.rows is not None
    return (log.rows.card_id // 10).tolist()


NAMED = make_log(
    [
        Deck(1, "Spanish", 1),
        Deck(2, "spanish::Verbs", 1, parent_id=1),
        Deck(3, "Spanish2", 1),
        Deck(4, "Lost::Deep::Down", 1),
        Deck(5, unicodedata.normalize("NFC", "Español 🎉 100%_*\"'"), 1),
        Deck(6, "7", 1),
        Deck(7, "seven", 1),
    ]
)


@pytest.mark.parametrize(
    ("name", "decks"),
    [
        ("Spanish", [1, 2]),
        ("SPANISH::VERBS", [2]),
        ("1", [1, 2]),
        ("Lost::Deep::Down", [4]),
        (unicodedata.normalize("NFD", "ESPAÑOL 🎉 100%_*\"'"), [5]),
        ("7", [6, 7]),
    ],
)
def test_select_decks_includes_decks_below(name: str, decks: list[int]) -> None:
    assert kept_decks(select_decks(NAMED, name)) == decks


def test_decks_without_names_go_by_their_parents() -> None:
    log = make_log(
        [
            Deck(0, "", 1),
            Deck(1, "", 1, parent_id=0),
            Deck(2, "", 1, parent_id=1),
            Deck(3, "", 1),
            Deck(4, "", 1, parent_id=5),  # a circle
            Deck(5, "", 1, parent_id=4),
        ]
    )
    assert kept_decks(select_decks(log, "0")) == [0, 1, 2]
    assert kept_decks(select_decks(log, "4")) == [4, 5]
    assert kept_decks(select_decks(log, "3")) == [3]


@pytest.mark.parametrize("choose", [select_decks, select_presets])
def test_empty_name_selects_nothing(choose: object) -> None:
    log = make_log([Deck(0, "", 0), Deck(1, "", 1)], [Preset(0, ""), Preset(1, "")])
    with pytest.raises(InputError, match="There is no"):
        choose(log, "")  # type: ignore[operator]


def test_deleted_preset_is_refused_with_its_decks() -> None:
    log = make_log([Deck(1, "Spanish", 1), Deck(2, "Old", 77)], [Preset(1, "Default")])
    with pytest.raises(InputError, match=r'Preset 77 was deleted.*--deck instead: "Old"'):
        select_presets(log, "77")
    with pytest.raises(InputError, match='There is no preset "78"'):
        select_presets(log, "78")


def test_filtered_deck_is_refused() -> None:
    log = make_log([Deck(1, "Spanish", 1), Deck(2, "Spanish today", None, filtered=True)])
    with pytest.raises(InputError, match="is a filtered deck"):
        select_decks(log, "spanish today")
    with pytest.raises(InputError, match="Did you mean") as caught:
        select_decks(log, "spanish todays")
    assert "today" not in str(caught.value).partition("Did")[2]
