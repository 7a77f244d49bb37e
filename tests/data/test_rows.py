"""Row selection: both rules against Anki, the dataset builder and literal readings."""

from __future__ import annotations

import csv
import json
import unicodedata
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import (
    Cards,
    DayGrid,
    Deck,
    Entries,
    ImportSummary,
    Preset,
    ReviewLog,
    Rows,
)
from srs_eval.data.rows import select_decks, select_rows
from tests.conftest import shared_or_skip

DAY_S = 86_400
NEXT_DAY_AT = 1_728_385_200
COLUMNS = (
    "day_offset",
    "rating",
    "state",
    "duration_ms",
    "elapsed_days",
    "elapsed_seconds",
)


@pytest.fixture
def fixtures() -> Path:
    return shared_or_skip("anki", "fixtures")


def with_grid(log: ReviewLog, next_day_at_s: int) -> ReviewLog:
    return replace(log, day_grid=DayGrid(next_day_at_s, "test"))


@pytest.mark.parametrize("name", ["dataset.revlog", "collection.anki2", "collection.colpkg"])
def test_rows_equal_the_dataset_builders(name: str, fixtures: Path) -> None:
    rows = select_rows(load_log(fixtures / name)).rows
    with open(fixtures / "dataset-builder-rows.csv", newline="") as file:
        expected = list(csv.DictReader(file))
    for attribute, column in (
        ("card_id", "original_card_id"),
        ("day_offset", "day_offset"),
        ("rating", "rating"),
        ("state", "state"),
        ("duration_ms", "duration"),
        ("elapsed_days", "elapsed_days"),
        ("elapsed_seconds", "elapsed_seconds"),
    ):
        values = np.array([int(row[column]) for row in expected])
        np.testing.assert_array_equal(getattr(rows, attribute), values, err_msg=attribute)


@pytest.mark.parametrize("name", ["dataset.revlog", "quirks.revlog"])
def test_counts_equal_the_dataset_builders(name: str, fixtures: Path) -> None:
    expected = json.loads((fixtures / "oracle.json").read_text())["dataset_builder"][name]
    log = load_log(fixtures / name)
    selection = select_rows(log)
    rows = selection.rows
    assert log.entries is not None
    assert len(log.entries) == expected["exported_entries"]
    assert len(rows) == expected["rows_kept"]
    assert len(np.unique(rows.card_id)) == expected["cards_in_rows"]
    assert {str(k): v for k, v in Counter(rows.state.tolist()).items()} == expected["rows_by_state"]
    assert int((rows.elapsed_days > 0).sum()) == expected["rows_with_elapsed_days_gt_0"]
    assert rows.day_offset.max() == expected["day_offset_max"]
    assert rows.elapsed_days.sum() == expected["sum_elapsed_days"]
    assert rows.elapsed_seconds.sum() == expected["sum_elapsed_seconds"]
    deleted = ~np.isin(rows.card_id, log.cards.card_id)
    assert int(deleted.sum()) == expected["rows_of_deleted_cards"]
    assert sum(selection.dropped.values()) == len(log.entries) - len(rows)
    dropped = list(selection.dropped.values())
    assert len(log.entries) - sum(dropped[:2]) == expected["after_filter_revlog"]


def test_items_of_every_card_equal_ankis(fixtures: Path) -> None:
    log = load_log(fixtures / "collection.anki2")
    rows = select_rows(
        log, "anki", include_suspended=True, include_deleted=False, apply_ignore_before=False
    ).rows
    counts = Counter(rows.card_id[rows.elapsed_days > 0].tolist())
    with open(fixtures / "oracle-cards.csv", newline="") as file:
        expected = {int(row["card_id"]): int(row["fsrs_items"]) for row in csv.DictReader(file)}
    assert len(expected) == 1_181
    assert {card: counts[card] for card in expected} == expected
    assert sum(counts.values()) == 6_140


def test_special_cases_equal_anki_and_the_dataset_builder(fixtures: Path) -> None:
    """Use Anki's clock of the day on which it was asked: two entries are later."""
    oracle = json.loads((fixtures / "oracle-quirks.json").read_text())
    log = with_grid(load_log(fixtures / "quirks.anki2"), oracle["next_day_at"])
    builder = select_rows(log).rows
    anki = select_rows(log, "anki", include_deleted=True, include_suspended=True).rows
    items = Counter(anki.card_id[anki.elapsed_days > 0].tolist())
    for case in oracle["cases"]:
        card = case["card_id"]
        of_card = builder.card_id == card
        columns = [getattr(builder, name)[of_card] for name in oracle_columns(oracle)]
        assert np.stack(columns, axis=1).tolist() == case["dataset_builder_rows"], case["what"]
        if "anki_fsrs_items" in case:
            assert items[card] == case["anki_fsrs_items"], case["what"]
    assert sum(items.values()) == oracle["whole"]["empty search"]
    for words, options in (("deck:*", {}), ('preset:"Default"', {})):
        rows = select_rows(log, "anki", include_suspended=True, **options).rows
        card_ids = rows.card_id[rows.elapsed_days > 0]
        if "preset" in words:
            card_ids = card_ids[np.isin(log.preset_of(log.deck_of(card_ids)), list(log.presets))]
        assert len(card_ids) == oracle["whole"][words]


def oracle_columns(oracle: dict) -> list[str]:
    return ["duration_ms" if n == "duration" else n for n in oracle["dataset_builder_columns"]]


@pytest.mark.parametrize("number", range(6))
def test_ignore_before_dates_equal_ankis(number: int, fixtures: Path) -> None:
    """Move the log so that Anki's limit in ms falls on a midnight."""
    oracle = json.loads((fixtures / "oracle-quirks.json").read_text())
    case = oracle["ignore_before"][number]
    card = oracle["cases"][case["card"] - 1]["card_id"]
    log = load_log(fixtures / "quirks.anki2")
    assert log.entries is not None
    midnight = 1_704_067_200_000  # 2024-01-01
    moved = replace(
        log.entries,
        time_ms=log.entries.time_ms + midnight - case["ignore_revlogs_before_ms"],
    )
    shift_s = (midnight - case["ignore_revlogs_before_ms"]) // 1000
    log = replace(
        with_grid(log, oracle["next_day_at"] + shift_s),
        entries=moved,
        presets={1: Preset(1, "Default", ignore_before="2024-01-01")},
    )
    rows = select_rows(log, "anki").rows
    count = int(((rows.card_id == card) & (rows.elapsed_days > 0)).sum())
    assert count == case["anki_fsrs_items"]


def test_rows_pass_through_unchanged() -> None:
    column = np.arange(3)
    rows = Rows(*([column] * 7))
    log = ReviewLog(ImportSummary("x", "test", 3), rows=rows)
    selection = select_rows(log, "anki")
    assert selection.rows is rows
    assert selection.dropped == {}
    assert selection.entry_index.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="unknown kind"):
        select_rows(log, "other")  # type: ignore[arg-type]


def test_log_without_usable_entries_has_no_rows() -> None:
    log = make_log([(1, 10, 0, 4, 0)])
    for kind in ("benchmark", "anki"):
        selection = select_rows(log, kind)
        assert len(selection.rows) == 0
        assert sum(selection.dropped.values()) == 1


# A literal reading of each rule, entry by entry, against the vectorised one.

Raw = tuple[int, int, int, int, int]  # time (s), card, rating, kind, factor

histories = st.lists(
    st.tuples(
        st.integers(0, 40 * DAY_S),
        st.integers(1, 4),
        st.sampled_from([0, 1, 2, 3, 3, 3, 4, 5, -1]),
        st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 5]),
        st.sampled_from([0, 2500]),
    ),
    max_size=40,
)


def make_log(history: list[Raw]) -> ReviewLog:
    history = sorted(history, key=lambda entry: entry[0])
    base = NEXT_DAY_AT - 41 * DAY_S
    table = np.array(history, np.int64).reshape(-1, 5)
    entries = Entries(
        time_ms=(table[:, 0] + base) * 1000 + 137 * np.arange(len(table)) % 1000,
        card_id=table[:, 1],
        rating=table[:, 2],
        kind=table[:, 3],
        factor=table[:, 4],
        duration_ms=np.arange(len(table)),
    )
    order = np.argsort(entries.time_ms, kind="stable")
    entries = Entries(
        time_ms=entries.time_ms[order],
        card_id=entries.card_id[order],
        rating=entries.rating[order],
        kind=entries.kind[order],
        factor=entries.factor[order],
        duration_ms=entries.duration_ms[order],
    )
    cards = np.array([1, 2, 3])  # card 4 is deleted, card 2 suspended, card 3 has a date
    return ReviewLog(
        ImportSummary("x", "test", len(entries)),
        entries=entries,
        cards=Cards(cards, cards, np.array([1, 1, 2]), np.array([False, True, False])),
        decks={1: Deck(1, "A", 1), 2: Deck(2, "B", 2)},
        presets={1: Preset(1, "A"), 2: Preset(2, "B", ignore_before="2024-09-15")},
        day_grid=DayGrid(NEXT_DAY_AT, "test"),
    )


def literal_rows(log: ReviewLog, kind: str) -> list[tuple[int, ...]]:
    """Return (index of the entry, day, state, elapsed days, elapsed seconds) of each row."""
    entries = log.entries
    assert entries is not None
    chosen: list[list[int]] = []
    for card in np.unique(entries.card_id).tolist():
        indices = np.flatnonzero(entries.card_id == card).tolist()
        if kind == "benchmark":
            chosen.append(select_as_builder(entries, indices))
        else:
            chosen.append(select_as_anki(entries, indices, card))
    days = {}
    for index in chain.from_iterable(chosen):
        ms = int(entries.time_ms[index])
        if kind == "benchmark":
            days[index] = int((ms / 1000 - NEXT_DAY_AT) / DAY_S)
        else:
            days[index] = -max(0, int((NEXT_DAY_AT - ms // 1000) / DAY_S))
    first_day = min(days.values(), default=0)
    rows = []
    for indices in chosen:
        for before, index in zip([None, *indices], indices, strict=False):
            elapsed = (-1, -1)
            if before is not None:
                ms = int(entries.time_ms[index] - entries.time_ms[before])
                elapsed = (days[index] - days[before], ms // 1000)
            state = 0 if before is None else int(entries.kind[index]) + 1
            rows.append((index, days[index] - first_day, state, *elapsed))
    return sorted(rows)


def select_as_builder(entries: Entries, indices: list[int]) -> list[int]:
    answers = [
        index
        for index in indices
        if 1 <= entries.rating[index] <= 4
        and not (entries.kind[index] == 3 and entries.factor[index] == 0)
    ]
    start = None
    for number, index in enumerate(answers):
        if entries.kind[index] == 0 and (number == 0 or entries.kind[answers[number - 1]] != 0):
            start = number
    return [] if start is None else answers[start:]


def select_as_anki(entries: Entries, indices: list[int], card: int) -> list[int]:
    if card in (2, 4):
        return []
    start = None
    for number in reversed(range(len(indices))):
        index = indices[number]
        if entries.kind[index] == 3 and entries.factor[index] == 0:
            continue
        if 1 <= entries.rating[index] <= 4 and entries.kind[index] == 0:
            start = number
            continue
        if start is not None or (entries.kind[index] == 4 and entries.factor[index] == 0):
            break
    if start is None:
        return []
    if card == 3 and entries.time_ms[indices[start]] < 1_726_358_400_000:
        return []
    return [
        index
        for index in indices[start:]
        if 1 <= entries.rating[index] <= 4
        and not (entries.kind[index] == 3 and entries.factor[index] == 0)
    ]


@pytest.mark.parametrize("kind", [4, 5])
def test_rated_manual_entries_are_answers_to_anki(kind: int) -> None:
    log = make_log([(0, 1, 3, 0, 0), (2 * DAY_S, 1, 3, 1, 2500), (5 * DAY_S, 1, 3, kind, 2500)])
    rows = select_rows(log, "anki").rows
    assert rows.elapsed_days.tolist() == [-1, 2, 3]
    assert rows.state[-1] == kind + 1


@pytest.mark.parametrize("kind", ["benchmark", "anki"])
@given(history=histories)
def test_select_rows_equals_a_literal_reading_of_the_rules(kind: str, history: list[Raw]) -> None:
    log = make_log(history)
    assert log.entries is not None
    selection = select_rows(log, kind)
    rows = selection.rows
    actual = list(
        zip(
            selection.entry_index.tolist(),
            rows.day_offset.tolist(),
            rows.state.tolist(),
            rows.elapsed_days.tolist(),
            rows.elapsed_seconds.tolist(),
            strict=True,
        )
    )
    assert actual == literal_rows(log, kind)
    assert len(rows) + sum(selection.dropped.values()) == len(log.entries)
    for name in ("card_id", "rating", "duration_ms"):
        expected = getattr(log.entries, name)[selection.entry_index]
        np.testing.assert_array_equal(getattr(rows, name), expected)


def test_study_days_are_as_long_as_the_zone_has_them() -> None:
    """Check Berlin's day that began on 26 October 2024 at 4:00 and had 25 hours."""
    end = 1_730_084_400  # 28 October 2024, 4:00
    # The day of 25 hours begins 49 hours before the end.
    seconds = [end - 49 * 3600, end - 48 * 3600, end - 25 * 3600, end - 13 * 3600, end - 1]
    entries = [(1000 * second, 1, 3) for second in seconds]
    table = np.array(entries, np.int64).T
    kind = np.array([0, 1, 1, 1, 1])
    log = ReviewLog(
        import_summary=ImportSummary("made", "made", len(entries)),
        entries=Entries(*table, kind, 0 * kind, 0 * kind),
        day_grid=DayGrid(end, "made", time_zone="Europe/Berlin"),
    )
    rows = select_rows(log).rows
    expected = [-1, 1 / 25, 23 / 25, 1 / 25 + 11 / 24, (13 * 3600 - 1) / DAY_S]
    assert rows.elapsed_study_days == pytest.approx(expected, abs=1e-9)
    assert select_rows(with_grid(log, end)).rows.elapsed_study_days is None


def test_a_decomposed_name_gets_the_nearest_deck_proposed() -> None:
    none = np.zeros(0, np.int64)
    log = ReviewLog(
        ImportSummary("x", "test", 0),
        entries=Entries(none, none, none, none, none, none),
        decks={1: Deck(1, "한국어", 1)},
    )
    with pytest.raises(InputError, match='Did you mean "한국어"'):
        select_decks(log, unicodedata.normalize("NFD", "한국"))
