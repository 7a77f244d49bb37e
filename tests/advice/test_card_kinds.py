"""Check whether a preset should be split by kinds of cards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import card_kinds, shown
from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.card_kinds import (
    _decide,
    _find_kinds,
    _find_places,
    _find_templates,
    assess_card_kinds,
)
from srs_eval.advice.findings import get_evidence
from srs_eval.data.reviews import CardTemplates, IntArray, ReviewLog
from srs_eval.stats.intervals import Interval, Verdict


@pytest.fixture(scope="module")
def learner(log: ReviewLog) -> Learner:
    """Return the learner with all reviews in one preset."""
    decks = {key: replace(deck, preset_id=100) for key, deck in log.decks.items()}
    return Learner.of(replace(log, decks=decks))


def with_notes(learner: Learner, note_id: IntArray) -> Learner:
    cards = replace(learner.log.cards, note_id=note_id)
    return replace(learner, log=replace(learner.log, cards=cards, templates=None), _memo={})


def test_find_places_counts_the_cards_of_a_note_in_order(learner: Learner) -> None:
    card_id = learner.log.cards.card_id
    note_id = np.arange(len(card_id)) // 4  # four cards a note
    place = _find_places(with_notes(learner, note_id))
    number = np.searchsorted(card_id, learner.trials.card_id)
    assert np.array_equal(place, np.minimum(number % 4 + 1, 3))


def test_find_kinds_leaves_out_divisions_without_two_large_kinds(learner: Learner) -> None:
    index = learner.positions(100)
    single = with_notes(learner, learner.log.cards.card_id)
    assert set(_find_kinds(single, index)) == {f.BY_FIRST_ANSWER}
    pairs = with_notes(learner, np.arange(len(learner.log.cards.card_id)) // 2)
    kinds = _find_kinds(pairs, index)
    assert set(kinds) == {f.BY_TEMPLATE, f.BY_FIRST_ANSWER}
    good = learner.trials.first_rating >= 3
    assert np.array_equal(kinds[f.BY_FIRST_ANSWER] == 1, good)


def test_small_kinds_go_with_the_largest(learner: Learner) -> None:
    count = len(learner.log.cards.card_id)
    note_id = np.arange(count) // 2
    note_id[-9:] = note_id[-9]  # a note with nine cards, most of them in the third place
    kinds = _find_kinds(with_notes(learner, note_id), learner.positions(100))
    assert set(np.unique(kinds[f.BY_TEMPLATE])) == {1, 2}


@pytest.mark.parametrize(
    ("estimate", "half_width", "verdict", "decision"),
    [
        (-0.01, 0.005, "better", "yes"),
        (-0.0005, 0.001, "as good", "no"),
        (0.001, 0.008, "can't tell yet", "no"),
        (-0.001, 0.008, "can't tell yet", "can't tell"),
    ],
)
def test_kinds_have_to_prove_themselves(
    learner: Learner, estimate: float, half_width: float, verdict: Verdict, decision: str
) -> None:
    difference = Interval(estimate, half_width, 2_000, 100)
    assert _decide(learner, difference, verdict) == decision


def test_templates_with_very_different_memories_are_split(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    paired = with_notes(learner, np.arange(len(learner.log.cards.card_id)) // 2)
    is_second = _find_places(paired) == 2
    chance = np.where(is_second, 0.6, 0.98)
    y = (np.random.default_rng(1).random(len(chance)) < chance).astype(np.float64)
    different = replace(paired, trials=replace(paired.trials, y=y, _derived={}))
    (finding,) = assess_card_kinds(different, [100])
    evidence = f.get_evidence(finding, f.CardKinds)
    by_name = {division.name: division for division in evidence.divisions}
    assert by_name[f.BY_TEMPLATE].conclusion == "yes"
    assert by_name[f.BY_TEMPLATE].difference.high < 0
    assert shown.line([finding]).startswith("split by card template")
    assert "Deck Override" in shown.sentences(finding)[1]


def test_one_memory_is_not_split(learner: Learner) -> None:
    paired = with_notes(learner, np.arange(len(learner.log.cards.card_id)) // 2)
    (finding,) = assess_card_kinds(paired, [100])
    assert finding.conclusion != "yes"
    assert finding.interval is None
    assert len(shown.tables(finding)[0].rows) == 2


def test_kinds_of_few_reviews_cannot_be_told(learner: Learner) -> None:
    partition = np.arange(len(learner.trials)) % 9
    few = replace(learner, trials=replace(learner.trials, partition=partition), _memo={})
    finding = card_kinds._assess_preset(few, 0)
    assert finding.conclusion == f.CANT_TELL
    assert finding.missing is not None
    assert finding.missing.reviews


def test_templates_are_named_where_the_source_has_them(learner: Learner) -> None:
    card_id = learner.log.cards.card_id
    template = np.arange(len(card_id)) % 2
    templates = CardTemplates(card_id, template, ("Basic: Forwards", "Basic: Backwards"))
    named = replace(learner, log=replace(learner.log, templates=templates), _memo={})
    (finding,) = assess_card_kinds(named, [100])
    division = next(
        division
        for division in get_evidence(finding, f.CardKinds).divisions
        if division.name == f.BY_TEMPLATE
    )
    assert division.kinds == ("Basic: Forwards", "Basic: Backwards")
    assert sum(division.reviews) == len(named.positions(100))
    assert any("reviews of “Basic: Forwards” and" in text for text in shown.sentences(finding))


def test_card_whose_template_is_unknown_is_a_kind_of_its_own(learner: Learner) -> None:
    card_id = learner.log.cards.card_id
    templates = CardTemplates(card_id[::2], np.zeros(len(card_id[::2]), np.int64), ("Basic",))
    partly = replace(learner, log=replace(learner.log, templates=templates), _memo={})
    found = _find_templates(partly)
    is_known = np.isin(learner.trials.card_id, card_id[::2])
    assert np.array_equal(found, np.where(is_known, 0, -1))
