"""The same review twice in a file: equal entries count once, a contradiction is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from srs_eval.anki_import import load_log
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError
from srs_eval.data.readers.repeats import mark_first_occurrences
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_decks, select_rows
from srs_eval.report.console import render_inspection
from srs_eval.report.inspection import build_summary_section, inspect_log
from tests.helpers.anki_files import DAY_MS, make_collection, make_revlog, plain_history

HISTORY = plain_history()
OVERLAP = 7
NEXT_DAY_AT = HISTORY[-1][0] // 1000 + 86_400


def raw_lines() -> list[str]:
    lines = [f"{e[0]},{e[1]},-1,{e[2]},{e[3]},{e[4]},{e[5]},{e[6]},{e[7]}" for e in HISTORY]
    return ["id,cid,usn,ease,ivl,lastIvl,factor,time,type", *lines]


def bare_lines() -> list[str]:
    return ["card_id,review_rating,review_time", *(f"{e[1]},{e[2]},{e[0]}" for e in HISTORY)]


def py_fsrs_lines() -> list[str]:
    lines = ["card_id,rating,review_datetime,review_duration"]
    for time_ms, card, rating, *_ in HISTORY:
        lines.append(f"{card},{rating},{datetime.fromtimestamp(time_ms / 1000, UTC)},4000")
    return lines


def undated_lines() -> list[str]:
    last: dict[int, int] = {}
    lines = ["card_id,review_th,delta_t,rating"]
    for number, (time_ms, card, rating, *_) in enumerate(HISTORY, 1):
        days = -1 if card not in last else (time_ms - last[card]) // DAY_MS
        last[card] = time_ms
        lines.append(f"{card},{number},{days},{rating}")
    return lines


def fsrs_anki_20k_lines() -> list[str]:
    lines = ["card_id,review_th,elapsed_days,elapsed_seconds,rating,state,duration"]
    for line in undated_lines()[1:]:
        card, number, days, rating = map(int, line.split(","))
        state = 2 if days > 0 else 0
        lines.append(f"{card},{number},{days},{days * 86_400},{rating},{state},4000")
    return lines


def sm17_lines() -> list[str]:
    lines = ["Date,Title,Element No,Used interval,R (SM16),R (SM17)(exp),R (SM17),Grade,Success"]
    for number in range(20):
        lines.append(f"Dec {number + 1:02} 2021 10:00:00,,{number % 3},{number + 1},0.9,0,0.8,4,1")
    return lines


LAYOUTS = {
    "raw": raw_lines,
    "bare": bare_lines,
    "py-fsrs": py_fsrs_lines,
    "undated": undated_lines,
    "FSRS-Anki-20k": fsrs_anki_20k_lines,
    "SM-17": sm17_lines,
}
WITH_ONE_IDENTITY = {
    "raw": "id",
    "bare": "card and time",
    "py-fsrs": "card and time",
    "undated": "card_id and review_th",
    "FSRS-Anki-20k": "card_id and review_th",
}


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def overlap(lines: Sequence[str]) -> list[str]:
    """Return the header and the rows of two exports that have the middle rows in common."""
    middle = len(lines) // 2
    return [*lines[: middle + OVERLAP], *lines[middle:]]


def have_same_reviews(first: ReviewLog, second: ReviewLog) -> bool:
    return all(
        np.array_equal(getattr(first.reviews, name), getattr(second.reviews, name))
        for name, column in vars(first.reviews).items()
        if column is not None
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_overlapping_exports_are_the_whole_history(layout: str, tmp_path: Path) -> None:
    lines = LAYOUTS[layout]()
    once = load_log(write_lines(tmp_path / "once.csv", lines))
    twice = load_log(write_lines(tmp_path / "twice.csv", overlap(lines)))
    assert have_same_reviews(once, twice)
    assert once.import_summary.repeated == 0
    assert twice.import_summary.repeated == OVERLAP
    read = twice.import_summary.entries_read
    assert read == once.import_summary.entries_read + OVERLAP == len(overlap(lines)) - 1
    assert set(twice.import_summary.notes) - set(once.import_summary.notes) == {
        "7 entries repeat earlier entries; the repeats were left out."
    }
    reason = "in the file a second time"
    assert select_rows(twice).dropped == {reason: OVERLAP, **select_rows(once).dropped}


@pytest.mark.parametrize("layout", WITH_ONE_IDENTITY)
def test_lines_that_contradict_each_other_are_both_named(layout: str, tmp_path: Path) -> None:
    header, *rows = LAYOUTS[layout]()
    name = {"raw": "ease", "bare": "review_rating"}.get(layout, "rating")
    rating = header.split(",").index(name)
    fields = rows[4].split(",")
    fields[rating] = "2"
    lines = [header, *rows[:10], "", ",".join(fields), *rows[10:]]  # an empty line counts
    with pytest.raises(InputError) as refusal:
        load_log(write_lines(tmp_path / "a.csv", lines))
    assert str(refusal.value) == (
        f"Lines 6 and 13 of {tmp_path / 'a.csv'} have the same {WITH_ONE_IDENTITY[layout]} "
        "but differ; delete the wrong one."
    )


# Days without times of day


def format_days(days: Sequence[str]) -> dict[str, list[str]]:
    """Return a card's Again and Good on each day, in the two layouts without ids."""
    bare = ["card_id,review_rating,review_time"]
    py_fsrs = ["card_id,rating,review_datetime"]
    for day in days:
        moment = datetime.fromisoformat(day)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_ms = round(moment.timestamp() * 1000)
        bare += [f"7,{rating},{time_ms}" for rating in (1, 3, 3)]
        py_fsrs += [f"7,{rating},{day}" for rating in (1, 3, 3)]
    return {"bare": bare, "py-fsrs": py_fsrs}


DAYS = {
    "dates": ["2024-01-01", "2024-01-05", "2024-01-09"],
    "midnights, with summer time": ["2024-01-05T00:00+01:00", "2024-07-05T00:00+02:00"],
    "noons": ["2024-01-01T12:00+00:00", "2024-01-09T12:00+00:00"],
    "one day": ["2024-01-01T00:00+00:00"],
}
BY_DAY = "The file has days without times of day: several answers to a card on one day all count, "


@pytest.mark.parametrize("days", DAYS)
@pytest.mark.parametrize("layout", ["bare", "py-fsrs"])
def test_answers_of_one_day_all_count_in_order_of_the_file(
    layout: str, days: str, tmp_path: Path
) -> None:
    dates = DAYS[days]
    log = load_log(write_lines(tmp_path / "a.csv", format_days(dates)[layout]), timezone="UTC")
    assert log.entries is not None
    assert log.entries.rating.tolist() == [1, 3, 3] * len(dates)
    assert log.import_summary.repeated == 0
    (note,) = (note for note in log.import_summary.notes if note.startswith(BY_DAY))
    assert note == f"{BY_DAY}in the order of the file, even if they are equal."


def test_days_with_one_answer_of_each_card_need_no_note(tmp_path: Path) -> None:
    lines = ["card_id,rating,review_datetime", *(f"{card},3,2024-01-01" for card in (1, 2))]
    log = load_log(write_lines(tmp_path / "a.csv", lines))
    assert len(log.reviews) == 2
    assert not [note for note in log.import_summary.notes if note.startswith(BY_DAY)]


def test_dates_with_one_time_of_day_must_not_contradict(tmp_path: Path) -> None:
    lines = format_days(DAYS["noons"])["py-fsrs"]
    with pytest.raises(InputError, match=r"Lines 2 and 3 of .* have the same card and time"):
        load_log(write_lines(tmp_path / "a.csv", [*lines, "8,3,2024-01-02T09:30+00:00"]))


def test_ids_at_one_time_of_day_are_not_dates(tmp_path: Path) -> None:
    lines = raw_lines()[:1]
    lines += [f"{1_704_067_200_000 + k * DAY_MS},7,-1,3,1,1,2500,4000,1" for k in range(3)]
    log = load_log(write_lines(tmp_path / "a.csv", [*lines, lines[2]]))
    assert (len(log.reviews), log.import_summary.repeated) == (3, 1)


# Files joined with `cat`


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_repeated_header_is_left_out_and_mentioned(layout: str, end: str, tmp_path: Path) -> None:
    header, *rows = LAYOUTS[layout]()
    once = load_log(write_lines(tmp_path / "once.csv", [header, *rows]))
    middle = len(rows) // 2
    lines = [header, *rows[:middle], "\ufeff" + header, *rows[middle:], header]
    twice = tmp_path / "twice.csv"
    twice.write_bytes(end.join([*lines, ""]).encode())
    log = load_log(twice)
    assert have_same_reviews(log, once)
    assert log.import_summary.entries_read == once.import_summary.entries_read
    assert set(log.import_summary.notes) - set(once.import_summary.notes) == {
        "2 lines repeat the header (as happens when files are joined) and were skipped."
    }


def test_lines_are_numbered_with_repeated_headers(tmp_path: Path) -> None:
    header, *rows = bare_lines()
    different = rows[4].replace(",1,", ",2,").replace(",3,", ",2,")
    with pytest.raises(InputError, match="Lines 6 and 13 of"):
        load_log(write_lines(tmp_path / "a.csv", [header, *rows[:10], header, different]))


@pytest.mark.parametrize("bad", ["1,x,1704067200000", "1,3", "1,3.5,1704067200000"])
def test_bad_line_is_named_by_its_number(bad: str, tmp_path: Path) -> None:
    header, *rows = bare_lines()
    lines = [header, rows[0], "", header, rows[1], bad, rows[2]]
    with pytest.raises(InputError, match=r"review log \(line 6: .*\); correct it"):
        load_log(write_lines(tmp_path / "a.csv", lines))


def test_cards_answered_in_the_same_millisecond_are_two_reviews(tmp_path: Path) -> None:
    lines = ["card_id,review_rating,review_time", *(f"{card},3,1700000000123" for card in (1, 2))]
    log = load_log(write_lines(tmp_path / "a.csv", lines))
    assert len(log.reviews) == 2
    assert log.import_summary.repeated == 0


def test_impossible_times_contradict_nothing(tmp_path: Path) -> None:
    lines = [*raw_lines(), "0,5,-1,3,0,0,0,0,0", "0,6,-1,4,0,0,0,0,0"]
    summary = load_log(write_lines(tmp_path / "a.csv", lines)).import_summary
    assert summary.repeated == 0
    assert summary.notes == ("2 entries with an impossible time were left out.",)


def test_research_export_with_entries_twice_counts_them_once(tmp_path: Path) -> None:
    once = tmp_path / "once.revlog"
    twice = tmp_path / "twice.revlog"
    once.write_bytes(make_revlog(HISTORY, NEXT_DAY_AT))
    twice.write_bytes(once.read_bytes() * 2)  # protobuf takes it as one message
    log = load_log(twice)
    assert have_same_reviews(log, load_log(once))
    assert log.import_summary.repeated == len(HISTORY)
    different = (HISTORY[3][0], HISTORY[3][1], 4, *HISTORY[3][3:])
    once.write_bytes(make_revlog([*HISTORY, different], NEXT_DAY_AT))
    with pytest.raises(
        InputError, match=f"the id {different[0]} .its entries 13 and 14.; export it again"
    ):
        load_log(once)


def test_collection_without_a_primary_key_is_damaged(tmp_path: Path) -> None:
    path = make_collection(tmp_path / "collection.anki2", entries=HISTORY)
    with closing(sqlite3.connect(path)) as connection:
        columns = "id, cid, usn, ease, ivl, lastIvl, factor, time, type"
        rows = connection.execute(f"select {columns} from revlog").fetchall()
        connection.execute("drop table revlog")
        connection.execute(f"create table revlog ({columns})")
        marks = ",".join("?" * 9)
        connection.executemany(f"insert into revlog values ({marks})", [*rows, *rows[:3]])
        connection.commit()
        log = load_log(path)
        assert (len(log.reviews), log.import_summary.repeated) == (len(HISTORY), 3)
        connection.execute("update revlog set ease = 2 where rowid = 1")
        connection.commit()
    with pytest.raises(InputError, match=f"damaged .two of its reviews have the id {rows[0][0]}"):
        load_log(path)


def test_data_set_keeps_repeated_rows(tmp_path: Path) -> None:
    lines = overlap(fsrs_anki_20k_lines())
    write_lines(tmp_path / "7.csv", lines)
    log = open_dataset(tmp_path).load(7)
    assert len(log.reviews) == len(lines) - 1
    assert log.import_summary.repeated == 0


def test_repeats_are_shown_in_every_summary(tmp_path: Path) -> None:
    log = load_log(write_lines(tmp_path / "a.csv", overlap(raw_lines())))
    inspection = inspect_log(log)
    assert inspection.to_document()["repeated"] == OVERLAP
    for rows in inspection.rows.values():
        assert rows.kept + sum(rows.dropped.values()) == inspection.entries_read
    output = StringIO()
    Console(width=100, file=output).print(render_inspection(inspection, 100))
    assert "in the file a second time" in output.getvalue()
    assert "in the file a second time" in str(build_summary_section(inspection, with_notes=False))


def test_selected_decks_count_no_repeats(tmp_path: Path) -> None:
    path = tmp_path / "twice.revlog"
    path.write_bytes(make_revlog(HISTORY, NEXT_DAY_AT) * 2)
    log = load_log(path)
    assert sum(select_rows(log).dropped.values()) == len(HISTORY)
    assert select_rows(select_decks(log, "2")).dropped == {}


def test_mark_first_occurrences_marks_the_first_of_each() -> None:
    identity = np.array([3, 1, 3, 2, 1, 3])
    content = np.zeros(6)
    is_first = mark_first_occurrences([identity], [content])
    assert is_first.tolist() == [True, True, False, True, False, False]
    assert mark_first_occurrences([identity[:0]], [content[:0]]).tolist() == []
