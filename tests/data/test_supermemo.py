"""SuperMemo's exports: a literal reading of fsrs-vs-sm15's rules, and its published figures."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.checks import run_checks
from srs_eval.advice.findings import Checks, get_evidence
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError
from srs_eval.data.readers.supermemo import SM15, SM16, SM17, read_history
from srs_eval.data.rows import select_rows
from srs_eval.report.inspection import inspect_log, list_facts
from tests.helpers.anki_files import folder_state
from tests.helpers.supermemo_files import (
    FIRST_DATE,
    HISTORY,
    Repetition,
    format_history,
    format_repetition,
)

# Three learners' evaluated repetitions and SM-15's log loss (fsrs-vs-sm15: result/*.json).
PUBLISHED = {(4522, 0.244662671), (19577, 0.297717424), (6449, 0.381725485)}


def test_history_becomes_rows_and_predictions(tmp_path: Path) -> None:
    path = tmp_path / "Repetition History.txt"
    path.write_bytes(format_history(HISTORY).encode())
    before = folder_state(tmp_path)
    log = load_log(path)
    assert folder_state(tmp_path) == before
    rows = log.rows
    assert rows is not None
    assert rows.card_id.tolist() == [4, 4, 7, 4, 7]
    assert rows.day_offset.tolist() == [0, 3, 5, 29, 49]
    assert log.first_day == (FIRST_DATE + timedelta(1)).isoformat()
    assert rows.rating.tolist() == [4, 1, 2, 2, 3]
    assert rows.state.tolist() == [0, 2, 0, 2, 2]
    assert rows.elapsed_days.tolist() == [-1, 3, -1, 26, 44]
    assert rows.elapsed_seconds.tolist() == [-1, 3 * 86400, -1, 26 * 86400, 44 * 86400]
    np.testing.assert_allclose(log.source_predictions[SM15], [0.94, 0.9, np.nan, 0.75, 0.91])
    assert log.import_summary.entries_read == 7
    assert "2 repetitions are left out: an item's first one" in log.import_summary.notes[0]
    inspection = inspect_log(log)
    assert inspection.decks == ()
    last_date = (FIRST_DATE + timedelta(50)).isoformat()
    assert (inspection.first_review, inspection.last_review) == (log.first_day, last_date)
    assert list_facts(inspection, "benchmark") == ["5 reviews", "last on 20 Feb 2022"]
    (gap,) = [
        check for check in get_evidence(run_checks(log, None), Checks).checks if check.name == "gap"
    ]
    assert (gap.level, gap.last_review_date) == ("look", last_date)
    with pytest.raises(InputError, match="days"):
        load_log(path, timezone="UTC")


def test_topics_are_left_out_and_missing_hours_are_read(tmp_path: Path) -> None:
    lines = [
        format_repetition((4, 0, 1, 0, 8, 99)),
        format_repetition((4, 1, 2, 0, 5, 6), "25.5"),
        format_repetition((4, 2, 3, 0, 5, 6), "1.0"),
        format_repetition((4, 9, 4, 0, 5, 6)).replace(" Hour=17.75", ""),
    ]
    topic = [format_repetition((5, 0, 1, 0, 8, 99)), format_repetition((5, 4, 2, 0, 4, 30))]
    path = tmp_path / "a.txt"
    path.write_text(
        "\n".join(["Item #4: Grüße", *lines[::-1], "Topic #5: x", *topic]), encoding="latin-1"
    )
    rows = load_log(path).rows
    assert rows is not None
    assert rows.card_id.tolist() == [4, 4, 4]
    assert rows.elapsed_days.tolist() == [-1, 1, 7]
    # The later day's repetition came at an earlier hour than 25.5.
    assert rows.elapsed_seconds.tolist() == [-1, 1, 7 * 86400 + 39600]


@pytest.mark.parametrize("bad", ["Date=32.01.2022", "Grade=good", "Rep="])
def test_bad_lines_are_named(bad: str, tmp_path: Path) -> None:
    key = bad.partition("=")[0]
    path = tmp_path / "a.txt"
    path.write_text(re.sub(rf"{key}=\S+", bad, format_history(HISTORY), count=2))
    with pytest.raises(InputError, match=r"line \d+ is not a repetition"):
        load_log(path)
    path.write_text("Repetition history backup (SuperMemo 18)\n")
    with pytest.raises(InputError, match="no reviews"):
        load_log(path)


def select_literally(records: list[Repetition]) -> list[tuple[int, int, int]]:
    """Return (item, day, grade) of the repetitions that count, by the script's steps in turn."""
    counted = []
    for item in sorted({record[0] for record in records}):
        # The file has the newest first; sorting by day keeps that order within a day.
        repetitions = sorted(
            (r for r in records[::-1] if r[0] == item), key=lambda record: record[1]
        )
        if (repetitions[0][2], repetitions[0][3]) != (1, 0):
            continue
        repetitions = [record for record in repetitions if (record[2], record[3]) != (1, 0)]
        if any(record[4] > 5 or record[5] == 100 for record in repetitions):
            continue
        seen: set[int] = set()
        for record in repetitions:
            if record[1] not in seen:
                seen.add(record[1])
                counted.append((item, record[1], record[4]))
    return counted


records = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.integers(0, 20),
        st.sampled_from([1, 2, 2, 3]),
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from([0, 1, 2, 3, 4, 5, 5, 8]),
        st.sampled_from([None, 1, 50, 99, 99, 100]),
    ),
    max_size=25,
)


@given(drawn=records, starts=st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_read_history_equals_a_literal_reading_of_the_rules(
    drawn: list[Repetition], starts: bool
) -> None:
    first = [(item, 0, 1, 0, 8, 99) for item in (1, 2, 3, 4) if starts]
    history = [*first, *sorted(drawn, key=lambda record: record[1])]
    table = read_history(format_history(history).encode(), "a.txt")
    assert table.rows is not None
    expected = select_literally(history)
    assert len(table.rows) + table.excluded == len(history)
    grades = np.array([1, 1, 1, 2, 3, 4])
    rows = sorted(zip(table.rows.card_id, table.rows.day_offset, table.rows.rating, strict=True))
    first_day = min((day for _, day, _ in expected), default=0)
    assert rows == sorted((item, day - first_day, grades[grade]) for item, day, grade in expected)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_history_in_utf_16_is_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    path.write_bytes(format_history(HISTORY).encode(encoding))
    log = load_log(path)
    table = read_history(format_history(HISTORY).encode(), "history.txt")
    assert log.rows is not None
    assert table.rows is not None
    assert log.rows.card_id.tolist() == table.rows.card_id.tolist()


def test_log_loss_equals_the_published_figures() -> None:
    """Compare sizes and log loss with fsrs-vs-sm15, from the files behind them."""
    folder = os.environ.get("SRS_EVAL_REAL")
    if not folder:
        pytest.skip("needs SRS_EVAL_REAL, a folder with real exports")
    figures = set()
    for path in Path(folder).glob("supermemo-*.txt"):
        log = load_log(path)
        assert log.rows is not None
        evaluated = log.rows.elapsed_days > 0
        p = np.clip(log.source_predictions[SM15][evaluated], 1e-15, 1 - 1e-15)
        loss = -np.where(log.rows.rating[evaluated] > 1, np.log(p), np.log(1 - p)).mean()
        figures.add((int(evaluated.sum()), round(float(loss), 9)))
    assert figures
    assert figures <= PUBLISHED


COLUMNS = "Date,Title,Element No,Used interval,R (SM16),R (SM17)(exp),R (SM17),Grade,Success"


@pytest.mark.parametrize(
    "dates",
    [
        ("Dec 05 2021 10:00:00", "Dec 15 2021 11:00:00", "Mar 05 2022 10:00:00"),
        ("Dez 05 2021 10:00:00", "dez. 15 2021 11:00:00", "Mär 05 2022 10:00:00"),
        ("dez 05 2021 10:00:00", "dez 15 2021 11:00:00", "mar. 05 2022 10:00:00"),
        ("12月 05 2021 10:00:00", "12 15 2021 11:00:00", "3月 05 2022 10:00:00"),
    ],
)
def test_comparison_of_sm16_and_sm17_is_read(dates: tuple[str, str, str], tmp_path: Path) -> None:
    lines = [
        f" {COLUMNS} ",
        f'{dates[2]},"secret, too",7,80,0.7,0.1,0.6,2,0',
        f"{dates[0]},,7,0,0.9,0.1,0.9,4,1",  # the first repetition has no interval
        f"{dates[0]},,7,3,0.95,0.1,0.92,4,1",
        f"{dates[1]},,7,10,0.9,0.1,0.85,5,1",
        f"{dates[1]},,8,12,0.8,0.1,0.75,3,1",
        f"{dates[1]},,8,12,1.2,0.1,0.75,3,1",  # no probability
        "someday,,8,12,0.9,0.1,0.75,3,1",
    ]
    path = tmp_path / "SM16-v-SM17.csv"
    path.write_text("\n".join(lines) + "\n", encoding="gbk" if "月" in dates[0] else "utf-8")
    log = load_log(path)
    assert log.rows is not None
    assert log.rows.card_id.tolist() == [7, 7, 8, 7]
    assert log.rows.elapsed_days.tolist() == [-1, 10, -1, 80]
    assert log.rows.day_offset.tolist() == [0, 10, 10, 90]
    assert log.first_day == "2021-12-05"
    assert log.rows.rating.tolist() == [3, 4, 2, 1]
    np.testing.assert_allclose(log.source_predictions[SM16], [0.95, 0.9, 0.8, 0.7])
    np.testing.assert_allclose(log.source_predictions[SM17], [0.92, 0.85, 0.75, 0.6])
    assert log.import_summary.notes == (
        "2 repetitions are left out: without a readable date, grade or prediction.",
        "1 repetition is left out: without an interval.",
    )
    assert select_rows(log).entry_index.tolist() == [0, 1, 2, 3]


def long_history() -> list[Repetition]:
    """Return 200 items with seven repetitions each."""
    random = np.random.default_rng(3)
    history: list[Repetition] = []
    for item in range(1, 201):
        day = item // 10
        history.append((item, day, 1, 0, 8, 99))
        for repetition in range(2, 8):
            day += 2**repetition // 2
            grade = int(random.choice([1, 3, 4, 4, 5]))
            history.append((item, day, repetition, 0, grade, int(random.integers(5, 40))))
    return sorted(history, key=lambda record: record[1])


def test_supermemo_is_compared_with_fsrs(tmp_path: Path) -> None:
    path = tmp_path / "Repetition History.txt"
    path.write_text(format_history(long_history()))
    _, finding, *_ = srs_eval.compare(srs_eval.load(path))
    frame = srs_eval.tables(finding)[0].frame()
    assert len(frame) >= 2
    assert frame["log loss"].between(0.1, 2).all()
    text = f"{srs_eval.sentences(finding)} {frame.to_string()}"
    assert "SuperMemo" in text
    assert "FSRS-6" in text
    assert "log loss" in text


def test_models_that_use_decks_evaluate_supermemo(tmp_path: Path) -> None:
    """Check SM2 and Ebisu, which need decks only in data sets."""
    path = tmp_path / "a.txt"
    path.write_text(format_history(long_history()))
    results = srs_eval.evaluate(load_log(path), models=["AVG", "SM2", "Ebisu-v2"], use_cache=False)
    assert not results.failed
    assert set(results) == {"AVG", "SM2", "Ebisu-v2"}


def test_ankis_sm2_is_no_rival_where_it_never_scheduled(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(format_history(long_history()))
    log = load_log(path)
    assert log.import_summary.app_name == "SuperMemo"
    findings = [*srs_eval.compare(log)]
    text = " ".join(
        f"{shown.line([finding])} {' '.join(shown.sentences(finding))} {srs_eval.tables(finding)}"
        for finding in findings
    )
    assert "SuperMemo" in text
    assert "SM-2" not in text


def test_checks_say_which_grades_count_as_which_button(tmp_path: Path) -> None:
    path = tmp_path / "Repetition History.txt"
    path.write_bytes(format_history(HISTORY).encode())
    finding = run_checks(load_log(path), None)
    assert get_evidence(finding, Checks).are_from_grades
    assert shown.sentences(finding)[-1].startswith("SuperMemo's grades 0 to 2 count as Again")
