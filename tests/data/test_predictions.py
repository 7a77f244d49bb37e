"""External predictions: the cache of a fork, files of people, and faults in both."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import srs_eval
from srs_eval.data.errors import InputError
from srs_eval.data.readers import features, predictions
from srs_eval.data.reviews import ImportSummary, ReviewLog, Rows
from srs_eval.data.rows import select_decks
from tests.conftest import write_simulated_collection
from tests.helpers.anki_files import make_collection, plain_history
from tests.retrievability import FSRS, RWKV, SCHEMA, Row, make_cache

IDS = [entry[0] for entry in plain_history()]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return make_collection(tmp_path / "collection.anki2", entries=plain_history())


def make_predictions(first: int = 0, role: str = "test_fold", p: float = 0.75) -> list[Row]:
    return [(review, p, "rwkv_review", 1, role, 0) for review in IDS[first:]]


def test_held_out_predictions_of_a_cache_are_read(collection: Path) -> None:
    live = (IDS[-1], 0.5, "rwkv_review", 2, "post_optimization", -1)
    gone = (IDS[-1] + 5, 0.5, "rwkv_review", 2, "post_optimization", -1)
    make_cache(
        collection,
        {RWKV: [*make_predictions(4), *make_predictions(0, "final_fit", 0.1), live, gone]},
    )
    for path in (collection, collection.parent):  # a profile's folder, too
        external = srs_eval.load(path).external_predictions
        assert set(external) == {"RWKV-Anki"}
        expected = [np.nan] * 4 + [0.75] * (len(IDS) - 5) + [0.5]  # the newest of two counts
        np.testing.assert_array_equal(external["RWKV-Anki"].p, expected)
    note = external["RWKV-Anki"].note
    assert f"RWKV-Anki: {note}." in srs_eval.load(collection).import_summary.notes
    assert f"{len(IDS) - 4} test_fold, 2 post_optimization" in note
    assert f"those of the training sample are left out ({len(IDS)} final_fit)" in note
    assert "no review of the collection matches 1 prediction" in note


def test_collection_without_a_cache_has_no_predictions(collection: Path) -> None:
    assert srs_eval.load(collection).external_predictions == {}


def test_wal_of_an_open_cache_is_read(collection: Path) -> None:
    path = make_cache(collection, {})
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma wal_autocheckpoint=0")
        database.execute(f"insert into {RWKV} values (?, 0.5, '', 1, 'test_fold', 0)", [IDS[3]])
        before = sorted(file.name for file in collection.parent.iterdir())
        assert srs_eval.load(collection).external_predictions["RWKV-Anki"].p[3] == 0.5
        assert sorted(file.name for file in collection.parent.iterdir()) == before


def _write_loosely(**changed: str) -> Callable[[Path], None]:
    """Return a writer of a cache without the fork's checks, with the third review changed."""

    def make(collection: Path) -> None:
        path = make_cache(
            collection, {RWKV: make_predictions()}, schema=f"create table {RWKV} ({SCHEMA})"
        )
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for column, value in changed.items():
                database.execute(
                    f"update {RWKV} set {column} = {value} where revlog_id = ?", [IDS[2]]
                )

    return make


def _write_schema(schema: str) -> Callable[[Path], object]:
    return lambda collection: make_cache(collection, {}, schema=schema)


def _write_content(content: bytes) -> Callable[[Path], None]:
    def make(collection: Path) -> None:
        collection.with_suffix(".retrievability-cache.sqlite").write_bytes(content)

    return make


def _write_cut(collection: Path) -> None:
    path = make_cache(collection, {RWKV: make_predictions()})
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (_write_content(b""), "not an SQLite database"),
        (_write_content(b"predictions"), "not an SQLite database"),
        (_write_content(b"SQLite format 3\0" + b"x" * 5000), "is damaged"),
        (_write_cut, "is damaged"),
        (lambda path: path.with_suffix(".retrievability-cache.sqlite").mkdir(), "is not a file"),
        (_write_schema("create table other (id)"), "has neither of the tables"),
        (
            _write_schema(f"create view {RWKV} as select 1 as revlog_id"),
            "has neither of the tables",
        ),
        (
            _write_schema(f"create table {RWKV} (revlog_id, prediction, source)"),
            "no column fold_index, sam",
        ),
        (_write_schema(f"create table {FSRS} ({SCHEMA})"), f"has no table {RWKV}"),
        (
            _write_schema(f"create table {RWKV} ({SCHEMA}, more as (1))"),
            "has neither of the tables",
        ),
        (_write_loosely(prediction="1.5"), "a prediction is not a probability"),
        (_write_loosely(prediction="'inf'"), "a prediction is not a number"),
        (_write_loosely(prediction="null"), "a prediction is not a number"),  # how SQLite keeps NaN
        (_write_loosely(revlog_id="'x'"), "a revlog_id is not a whole number"),
        (_write_loosely(sample_role="3"), "a sample_role is not text"),
        (_write_loosely(fold_index="0.5"), "a fold_index is not a whole number"),
        (_write_loosely(revlog_id=str(IDS[3])), f"review {IDS[3]} appears twice"),
        (_write_loosely(sample_role="'later'", revlog_id="-1"), ""),
    ],
)
def test_damaged_cache_is_left_out_with_one_sentence(
    make: Callable[[Path], object], problem: str, collection: Path
) -> None:
    make(collection)
    external = srs_eval.load(collection).external_predictions["RWKV-Anki"]
    if not problem:
        assert "1 with an unknown role are left out" in external.note
        assert np.isfinite(external.p).sum() == len(IDS) - 1
        return
    assert external.is_empty
    assert "retrievability-cache.sqlite" in external.note
    assert problem in external.note
    assert external.note.endswith("its predictions are left out")
    assert "\n" not in external.note


def test_chosen_decks_keep_their_predictions(collection: Path) -> None:
    make_cache(collection, {RWKV: make_predictions()})
    chosen = select_decks(srs_eval.load(collection), "Parent")
    assert len(chosen.external_predictions["RWKV-Anki"].p) == len(IDS)


# What Anki stores with cards


def test_memory_states_stored_with_cards_are_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    collection = write_simulated_collection(tmp_path_factory, 3, 300)
    stored = [
        '{"s": 12.5, "d": 5.5, "s_int": 9, "s_fast": 3.25, "dr": 0.87, "decay": 0.2}',
        '{"s": 99999, "d": 0, "s_int": -1, "s_fast": "x", "dr": 7, "decay": null}',
        '{"s_int": 9, "s": "", "d": 5}',
        "[" * 100_000,
    ]
    with closing(sqlite3.connect(collection, isolation_level=None)) as database:
        ids = [card_id for (card_id,) in database.execute("select id from cards order by id")]
        database.executemany(
            "update cards set data = ? where id = ?", zip(stored, ids, strict=False)
        )
    schedule = srs_eval.load(collection).schedule
    assert schedule is not None
    names = ("stability", "difficulty", "internal_stability", "fast_stability")
    columns = [getattr(schedule, name) for name in (*names, "desired_retention", "decay")]
    nan = np.nan
    assert [column[0] for column in columns] == [12.5, 5.5, 9.0, 3.25, 0.87, 0.2]
    np.testing.assert_array_equal(
        [column[1] for column in columns], [36_500.0, 1.0, nan, nan, 1.0, nan]
    )
    assert np.isnan([column[2:4] for column in columns]).all()


def test_a_file_of_many_users_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_ROWS_PER_BLOCK", 1)
    real_read = predictions.read_csv_columns
    opened: list[Path] = []

    def read(path: Path, names: Any) -> Any:
        opened.append(path)
        return real_read(path, names)

    monkeypatch.setattr(predictions, "read_csv_columns", read)
    path = tmp_path / "mine.csv"
    path.write_text("user,review_th,p,note,model\n1,1,0.5,a,Mine\n2,1,0.25,b,Mine\n")
    predictions.check_prediction_file(path)
    status = path.stat()
    columns = predictions._read_user_columns(path, status.st_mtime_ns, status.st_size)
    kinds = (np.int64, np.int64, np.float64, object)
    assert [column.dtype for column in columns.values()] == [np.dtype(kind) for kind in kinds]
    assert all(column.base is None for column in columns.values())
    assert len({id(name) for name in columns["model"]}) == 1
    row = Rows(*[np.ones(1, np.int64)] * 7)
    for user, p in ((1, 0.5), (2, 0.25)):
        log = ReviewLog(ImportSummary("", "", 1), rows=row, user=user)
        assert predictions.read_user_predictions(log, path, "Mine").p.tolist() == [p]
    assert opened == [path]


def test_times_as_review_numbers_are_refused(tmp_path: Path) -> None:
    times = pa.array([1], pa.timestamp("ns"))
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"user": [1], "review_th": times, "p": [0.5]}), path)
    log = ReviewLog(ImportSummary("", "", 1), rows=Rows(*[np.ones(1, np.int64)] * 7), user=1)
    with pytest.raises(InputError, match="column review_th holds something that is not a whole"):
        predictions.read_user_predictions(log, path, "Mine")


@pytest.mark.parametrize(("user", "reason"), [(1, "user holds"), (None, "neither CSV nor parquet")])
def test_parquet_that_pyarrow_refuses_is_an_input_error(
    user: int | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    (tmp_path / "mine.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(predictions, "read_parquet_columns", refuse)
    with pytest.raises(InputError, match=reason):
        predictions._read_columns(tmp_path / "mine.parquet", user)


# Outcomes and cards in a file of predictions


def _log_of_user(user: int = 3) -> ReviewLog:
    """Return eight reviews of four cards; only the third and the sixth were forgotten."""
    day = np.arange(8)
    card_id = np.array([11, 12, 13, 14, 11, 12, 13, 14])
    rating = np.array([3, 4, 1, 3, 2, 1, 3, 3])
    elapsed = np.where(day < 4, -1, 4)
    rows = Rows(card_id, day, rating, day * 0 + 2, day * 0, elapsed, elapsed)
    return ReviewLog(ImportSummary("data", "", 8), rows=rows, user=user)


def _write(path: Path, **columns: list[object]) -> Path:
    """Write a CSV or a parquet file, as the path ends."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return path
    lines = [",".join(columns)]
    lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("review_th", "details", "problem"),
    [
        ([2, 3, 6], {"y": [1, 1, 0]}, "at review_th 3 it has y 1, but the review has y 0"),
        ([6, 3, 2], {"Y": [True, False, True]}, "at review_th 6 it has y 1, but the review has y"),
        ([3, 6], {"card_id": [13, 11]}, "at review_th 6 it has card_id 11, but the review has car"),
        ([3, 6], {"card_id": [14, 11], "y": [1, 0]}, "at review_th 3 it has card_id 14, but the"),
        ([3, 6], {"card_id": ["", "11.0"]}, "at review_th 6 it has card_id 11, but the review has"),
        ([3, 6], {"y": [0.5, 1.0]}, "the column y holds something that is neither 0 nor 1"),
        ([3, 6], {"y": ["no", "yes"]}, "the column y holds something that is neither 0 nor 1"),
        ([3, 6], {"card_id": ["a", "b"]}, "the column card_id holds something that is not a whole"),
        (
            [3, 6],
            {"card_id": [13.0, 12.5]},
            "the column card_id holds something that is not a whole",
        ),
    ],
)
def test_predictions_with_another_outcome_or_card_are_refused(
    review_th: list[object],
    details: dict[str, list[object]],
    problem: str,
    ending: str,
    tmp_path: Path,
) -> None:
    count = len(review_th)
    path = tmp_path / f"mine.{ending}"
    _write(path, user=[3] * count, review_th=review_th, p=[0.5] * count, **details)
    with pytest.raises(InputError) as refused:
        predictions.read_user_predictions(_log_of_user(), path, "Mine")
    assert problem in str(refused.value)
    assert str(refused.value).startswith(f'"mine.{ending}"')


@pytest.mark.parametrize(("shift", "words"), [(-1, "one higher"), (1, "one lower")])
def test_predictions_shifted_by_one_get_a_hint(shift: int, words: str, tmp_path: Path) -> None:
    log = _log_of_user()
    review_th = np.arange(1, 9)
    y = (log.reviews.rating > 1).astype(int)
    columns = {"user": [3] * 8, "p": [0.5] * 8, "y": y.tolist()}
    right = _write(tmp_path / "right.csv", review_th=review_th.tolist(), **columns)
    assert np.isfinite(predictions.read_user_predictions(log, right, "Mine").p).all()
    wrong = _write(tmp_path / "wrong.csv", review_th=(review_th + shift).tolist(), **columns)
    with pytest.raises(InputError, match=f"review_th were {words}, .* off by one") as refused:
        predictions.read_user_predictions(log, wrong, "Mine")
    assert "user 3" in str(refused.value)


def test_predictions_in_mixed_order_get_no_hint(tmp_path: Path) -> None:
    columns = {"user": [3] * 4, "p": [0.5] * 4, "review_th": [1, 2, 3, 4], "y": [0, 0, 0, 0]}
    path = _write(tmp_path / "mine.csv", **columns)
    with pytest.raises(InputError, match="at review_th 1 it has y 0") as refused:
        predictions.read_user_predictions(_log_of_user(), path, "Mine")
    assert "off by one" not in str(refused.value)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("review_th", "problem"),
    [
        ([0, 1, 2], "review_th 0 is not a review: user 3 has reviews 1 to 8"),
        ([-1, 1, 2], "review_th -1 is not a review: user 3 has reviews 1 to 8"),
        ([1, 9, 900], "review_th 9 is not a review: user 3 has reviews 1 to 8"),
        ([9, 0], "review_th 9 is not a review: user 3 has reviews 1 to 8"),
        ([900], "review_th 900 is not a review: user 3 has reviews 1 to 8"),
    ],
)
def test_predictions_for_missing_reviews_are_refused(
    review_th: list[object], problem: str, ending: str, tmp_path: Path
) -> None:
    count = len(review_th)
    path = tmp_path / f"mine.{ending}"
    _write(path, user=[3] * count, review_th=review_th, p=[0.5] * count)
    with pytest.raises(InputError) as refused:
        predictions.read_user_predictions(_log_of_user(), path, "Mine")
    assert str(refused.value).startswith(f'"mine.{ending}": {problem}')


def test_review_numbers_from_0_get_the_off_by_one_hint(tmp_path: Path) -> None:
    columns = {"user": [3] * 8, "p": [0.5] * 8}
    for first, hinted in ((0, True), (2, False), (-1, False)):
        path = _write(tmp_path / "mine.csv", review_th=[*range(first, first + 8)], **columns)
        with pytest.raises(InputError) as refused:
            predictions.read_user_predictions(_log_of_user(), path, "Mine")
        assert ("off by one" in str(refused.value)) == hinted


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["review_th", "card_id"])
def test_whole_floats_count_and_fractions_are_refused(
    name: str, ending: str, tmp_path: Path
) -> None:
    """Check floats, which pandas writes for whole numbers if some are missing."""
    numbers: dict[str, list[object]] = {"review_th": [1.0, 2.0, 3.0], "card_id": [11.0, 12.0, 13.0]}
    same: dict[str, list[object]] = {"user": [3] * 3, "p": [0.5, 0.25, 0.75]}
    path = tmp_path / f"mine.{ending}"
    external = predictions.read_user_predictions(
        _log_of_user(), _write(path, **same, **numbers), "Mine"
    )
    assert external.p[:3].tolist() == [0.5, 0.25, 0.75]
    for wrong in (2.5, float("inf")):
        broken = {**numbers, name: [*numbers[name][:2], wrong]}
        with pytest.raises(InputError, match=f"column {name} holds something that is not a whole"):
            predictions.read_user_predictions(
                _log_of_user(), _write(path, **same, **broken), "Mine"
            )


def test_floats_beyond_whole_numbers_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "mine.csv", user=[3], p=[0.5], review_th=[2.0**53])
    with pytest.raises(InputError, match="column review_th holds something that is not a whole"):
        predictions.read_user_predictions(_log_of_user(), path, "Mine")


def test_file_count_includes_reviews_that_are_not_evaluated(tmp_path: Path) -> None:
    y: list[object] = [1, "", 0, "nan"]
    columns = {"user": [3, 3, 3, 3], "p": [0.5] * 4, "review_th": [1, 2, 3, 8], "y": y}
    path = _write(tmp_path / "mine.csv", **columns)
    external = predictions.read_user_predictions(_log_of_user(), path, "Mine")
    assert external.file_count == 4
    assert np.isfinite(external.p).sum() == 4


def test_outcomes_in_a_file_for_a_collection_are_compared(collection: Path, tmp_path: Path) -> None:
    log = srs_eval.load(collection)
    assert log.entries is not None
    rated = np.flatnonzero((log.entries.rating >= 1) & (log.entries.rating <= 4))
    y = (log.entries.rating[rated] > 1).astype(int)
    columns = {
        "review_id": log.entries.time_ms[rated].tolist(),
        "p": [0.5] * len(rated),
        "card_id": log.entries.card_id[rated].tolist(),
    }
    right = _write(tmp_path / "right.csv", **columns, y=y.tolist())
    external = predictions.add_predictions(log, right, lambda name: "").external_predictions[
        "right"
    ]
    assert external.file_count == len(rated)
    y[2] = 1 - y[2]
    wrong = _write(tmp_path / "wrong.csv", **columns, y=y.tolist())
    with pytest.raises(InputError, match=f"at review_id {columns['review_id'][2]} it has y {y[2]}"):
        predictions.add_predictions(log, wrong, lambda name: "")
