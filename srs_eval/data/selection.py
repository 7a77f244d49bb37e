"""Narrow a review log to some decks or presets, or take their names away."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import Cards, Deck, Entries, IntArray, Preset, ReviewLog, Rows, Schedule

Columns = TypeVar("Columns", Entries, Rows, Cards, Schedule)


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
    receipt = replace(log.receipt, path="collection", notes=())
    return replace(log, decks=decks, presets=presets, receipt=receipt)


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

    def kept(part: Columns | None) -> Columns | None:
        return None if part is None else _where(part, keeps(part.card_id))

    reviews = log.entries if log.entries is not None else log.rows
    assert reviews is not None
    staying = keeps(reviews.card_id)
    return replace(
        log,
        entries=kept(log.entries),
        rows=kept(log.rows),
        cards=_where(log.cards, keeps(log.cards.card_id)),
        schedule=kept(log.schedule),
        predictions={name: column[staying] for name, column in log.predictions.items()},
    )


def _where(part: Columns, keep: np.ndarray) -> Columns:
    columns = {each.name: getattr(part, each.name) for each in fields(part)}
    return replace(part, **{name: c[keep] for name, c in columns.items() if c is not None})


def _unknown(what: str, name: str, known: Iterable[tuple[str, int]]) -> str:
    names = {(label or str(key)).casefold(): label or str(key) for label, key in known}
    if not names:
        return f"This file says nothing of {what}s, so --{what} cannot be used with it."
    nearest = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.3) or sorted(names)
    shown = ", ".join(f'"{names[each]}"' for each in nearest[:3])
    return f'There is no {what} "{name}". Did you mean {shown}?'
