"""Predictions that others made of the reviews: in a file of one's own, or by the person's Anki.

JSchoreels' fork of Anki (and Clanki, made of it) writes down what RWKV and FSRS said before each
answer, in `collection.retrievability-cache.sqlite`. Roles tell how: `final_fit` is of the sample
that a fit or a calibration is made on, `test_fold` and `validation_fold` were held out of it,
`post_optimization` was predicted live, before the answer. Content is untrusted.

Source: github.com/JSchoreels/anki, rslib/src/storage/revlog/mod.rs, qt/aqt/rwkv_scheduler.py.
"""

from __future__ import annotations

import csv
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, counted, printable
from srs_eval.data.readers import files
from srs_eval.data.readers.collection import columns_of, harden
from srs_eval.data.readers.features import columns_of_csv, columns_of_parquet, is_parquet
from srs_eval.data.reviews import Entries, FloatArray, Given, IntArray, ReviewLog, run_begins

_RWKV = "RWKV-Anki"
_TABLES = {
    _RWKV: "search_stats_rwkv_review_retrievability",
    "FSRS-Anki": "search_stats_fsrs_review_retrievability",
}
"""By the models of `models/adapters.py`."""
_HELD_OUT = ("test_fold", "validation_fold", "post_optimization")
_SUFFIX = ".retrievability-cache.sqlite"
_COLUMNS = {"revlog_id", "prediction", "source", "sample_role", "fold_index"}
_MOST_ROWS = 50_000_000
_MAX_ID = 1 << 53  # milliseconds of any date, exact as a float
_MAX_VALUE_BYTES = 1 << 20
_DEADLINE_S = 60.0


def beside_collection(collection: Path, entries: Entries) -> dict[str, Given]:
    """What lies beside a collection, by model; where a file is there but unusable, why."""
    path = collection.resolve().with_suffix(_SUFFIX)
    if not path.exists():
        return {}
    try:
        return _read(path, entries)
    except InputError as error:
        return {_RWKV: _refused(error, entries)}


def _refused(error: InputError, entries: Entries) -> Given:
    why = str(error).partition(";")[0].rstrip(".")  # what to do about it is said of collections
    return Given(np.full(len(entries), np.nan), f"{why}; its predictions are left out")


def _read(path: Path, entries: Entries) -> dict[str, Given]:
    name, found = printable(path.name), dict[str, Given]()
    if not files.read_start(files.resolve(path), 16).startswith(files.SQLITE_MAGIC):
        raise InputError(f"{name} is no SQLite database.")
    with files.private_copy(path) as (connection, _):
        harden(connection, time.monotonic() + _DEADLINE_S)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        with files.database_errors(name):
            columns = {table: columns_of(connection, table) for table in _TABLES.values()}
        if not any(columns.values()):
            raise InputError(f"{name} has none of the tables {' and '.join(_TABLES.values())}.")
        for model, table in _TABLES.items():
            try:
                if not columns[table]:
                    raise InputError(f"{name} has no table {table}.")
                with files.database_errors(f"{name}, {table},"):
                    given = _predictions(connection, table, columns[table], name, entries)
            except InputError as error:
                given = _refused(error, entries)
            if given is not None:
                found[model] = given
    return found


def _predictions(
    connection: sqlite3.Connection, table: str, names: set[str], name: str, entries: Entries
) -> Given | None:
    """The latest that was held out of each review; None for a table that is empty."""
    where = f"{name}, {table}:"
    if lacks := sorted(_COLUMNS - names):
        raise InputError(f"{where} there is no column {', '.join(lacks)}.")
    (rows,) = connection.execute(f"select count(*) from {table}").fetchone()
    if rows > _MOST_ROWS:
        raise InputError(f"{where} {rows:,} predictions are more than one person's reviews.")
    if not rows:
        return None
    for fault, words in (
        ("typeof(revlog_id) != 'integer'", "a revlog_id is no whole number"),
        ("typeof(prediction) not in ('real', 'integer')", "a prediction is no number"),
        ("prediction not between 0 and 1", "a prediction is no probability"),
        ("typeof(sample_role) != 'text'", "a sample_role is no text"),
        ("typeof(fold_index) != 'integer'", "a fold_index is no whole number"),
    ):
        if connection.execute(f"select 1 from {table} where {fault} limit 1").fetchone():
            raise InputError(f"{where} {words}.")
    key = "revlog_id, sample_role, fold_index, source"
    twice = f"select revlog_id from {table} group by {key} having count(*) > 1 limit 1"
    if found := connection.execute(twice).fetchone():
        raise InputError(f"{where} review {found[0]} is there twice, from one fold and source.")
    role = "case sample_role when '' then 'final_fit' when 'final_fit' then 'final_fit'"
    role += "".join(f" when '{each}' then '{each}'" for each in _HELD_OUT)
    by_role = dict(connection.execute(f"select {role} end, count(*) from {table} group by 1"))
    latest = "updated_at" if "updated_at" in names else "0"
    asked = connection.execute(
        f"select revlog_id, prediction from {table} where sample_role in (?, ?, ?) "
        f"and revlog_id between 1 and {_MAX_ID} "
        f"order by revlog_id, {latest} desc, fold_index desc, source",
        _HELD_OUT,
    )
    review, p = np.fromiter(chain.from_iterable(asked), np.float64).reshape(-1, 2).T
    ids = review.astype(np.int64)
    first = run_begins(ids)
    ids, p = ids[first], p[first]
    place = np.searchsorted(entries.time_ms, ids)
    place[place == len(entries)] = 0
    known = entries.time_ms[place] == ids
    given = np.full(len(entries), np.nan)
    given[place[known]] = p[known]
    return Given(given, _about(by_role, int((~known).sum())))


def _about(by_role: dict[str, int], unknown: int) -> str:
    """Which roles were taken, which were not, and what is of no review here."""
    taken = [f"{by_role.pop(role):,} {role}" for role in _HELD_OUT if role in by_role]
    listed = ", ".join(taken) or "nothing held out"
    said = f"as your Anki computed it, before each answer: {listed}"
    if fitted := by_role.pop("final_fit", 0):
        said += f"; left out are those of the training sample ({fitted:,} final_fit)"
    if others := sum(by_role.values()):
        said += f"; left out are {others:,} of a role that is not known"
    if unknown:
        said += f"; {counted(unknown, 'prediction')} of reviews that the collection does not have"
    return said


# A file of one's own

_MOST_LETTERS = 40  # of a model's name


def unlike(name: str, taken: Callable[[str], object]) -> str:
    """The name of predictions of a file, with "(file)" behind it as long as it is `taken`."""
    while taken(name):
        name += " (file)"
    return name


@dataclass(frozen=True)
class _Predicted:
    """The n rows of a file: which review each is of, and what the file says of that review."""

    path: Path
    key: str  # the column that names reviews: review_id, time_ms (with card_id) or review_th
    review: IntArray  # (n,) values of that column
    card_id: IntArray | None  # (n,) where reviews are named by card_id and time_ms
    p: FloatArray  # (n,)
    told: Mapping[str, FloatArray] = field(default_factory=dict)
    """The columns of _COMPARED that the file has (n,); NaN where a field is empty."""

    def only(self, chosen: NDArray[np.bool_]) -> _Predicted:
        """Return the `chosen` rows (n,)."""
        return replace(
            self,
            review=self.review[chosen],
            card_id=None if self.card_id is None else self.card_id[chosen],
            p=self.p[chosen],
            told={name: column[chosen] for name, column in self.told.items()},
        )

    def name_of(self, row: int) -> str:
        """Name the review of a row as the file does: "review_th 12"."""
        name = f"{self.key} {self.review[row]}"
        return name if self.card_id is None else f"card_id {self.card_id[row]}, {name}"


_COMPARED = ("card_id", "y")
"""Columns that a file need not have, and that are compared with the reviews where it has them."""


def with_predictions(log: ReviewLog, path: Path, known: Callable[[str], str]) -> ReviewLog:
    """The log with a file's predictions as `given`, by model.

    Columns are review_id (or card_id and time_ms), p, model. review_id is that of Anki's revlog;
    where a source has no times, review_th is the position among its reviews. The columns y and
    card_id are compared with the reviews if they are there. Without `model` the file's name is the
    model's; one that is `known` as a model here gets "(file)" behind it. Raises InputError for what
    is not there, unreadable, no probability, of another review, or ambiguous, for a review_th that
    is no review's, and where no review is covered.
    """
    if path == Path():
        raise InputError("Predictions are read from a file: name one.")
    columns = _columns(path)
    predicted = _predicted(log, path, columns)
    if not len(predicted.p):
        raise InputError(f'"{path.name}" holds no predictions.')
    models = np.array(columns.get("model", [path.stem] * len(predicted.p)), np.str_)
    given = dict[str, Given]()
    for model in np.unique(models).tolist():
        name = unlike(
            printable(model, _MOST_LETTERS) or printable(path.stem, _MOST_LETTERS),
            lambda name: known(name) or name in log.given,
        )
        if name in given:
            raise InputError(f'"{path.name}": two models are "{name}" here; rename one of them.')
        given[name] = _given_by(log, model, predicted.only(models == model))
    return replace(log, given={**log.given, **given})


def of_user(log: ReviewLog, path: Path, model: str) -> Given:
    """Of the user of a data set, those in a file of many: columns user, review_th and p.

    Where the file tells a `model`, those that are of this one. The columns y and card_id are
    compared with the reviews if they are there. Raises InputError.
    """
    columns = _columns(path, log.user)
    predicted = _predicted(log, path, columns)
    if "model" in columns:
        mine = np.array([str(each) == model for each in columns["model"].tolist()], np.bool_)
        predicted = predicted.only(mine)
    return _given_by(log, model, predicted)


def refuse_unusable(path: Path) -> None:
    """Raises InputError for a file that does not tell what `of_user` needs."""
    columns = _columns(path, -1)
    if lacks := [each for each in ("review_th", "p") if each not in columns]:
        raise InputError(
            f'"{path.name}" has no column {" and no column ".join(lacks)}: user, review_th and p '
            "are needed, model if there are several."
        )


def _probabilities(path: Path, columns: Mapping[str, NDArray[Any]]) -> FloatArray:
    p = np.array(_numbers(path, columns, "p", float), np.float64)
    if len(p) and not (p.min() >= 0 and p.max() <= 1):  # also true for NaN
        raise InputError(f'"{path.name}": p must be probabilities between 0 and 1.')
    return p


def _predicted(log: ReviewLog, path: Path, columns: Mapping[str, NDArray[Any]]) -> _Predicted:
    """The rows of a file, as it names the reviews of this log. Raises InputError."""
    key = _key_of(log, path, columns)
    review = _whole_numbers(path, columns, key)
    card_id = _whole_numbers(path, columns, "card_id") if key == "time_ms" else None
    compared = [name for name in _COMPARED if name in columns]
    if card_id is not None:  # it names the reviews
        compared.remove("card_id")
    told = {name: _values_told(path, columns, name) for name in compared}
    return _Predicted(path, key, review, card_id, _probabilities(path, columns), told)


def _key_of(log: ReviewLog, path: Path, columns: Mapping[str, NDArray[Any]]) -> str:
    """The column that names the reviews of this log. Raises InputError where there is none."""
    if log.entries is None:
        if "review_th" not in columns:
            raise InputError(
                f"{log.import_summary.path} has no times of answers: name reviews by "
                "review_th, their number in the file's order (`Results.predictions` has it)."
            )
        if log.is_narrowed:
            raise InputError(
                f'"{path.name}": review_th numbers the reviews of the whole file: leave out '
                "--deck and --preset."
            )
        return "review_th"
    if "review_id" in columns:
        return "review_id"
    if "time_ms" in columns:
        return "time_ms"
    if "review_th" in columns:
        raise InputError(
            f'"{path.name}": review_th is for sources without times of answers; here name reviews '
            "by review_id (`Results.predictions` has it), or by card_id and time_ms."
        )
    return "review_id"


def _given_by(log: ReviewLog, model: str, predicted: _Predicted) -> Given:
    """One model's predictions for each entry or row, NaN where there is none. InputError."""
    about = f"of {printable(predicted.path.name, 60)}"
    count = len(predicted.p)
    if not count:
        return Given(np.full(len(log.reviews), np.nan), about)
    row = _rows_of_reviews(log, model, predicted)
    _refuse_other_reviews(log, predicted, row)
    if predicted.key == "review_th":
        _refuse_numbers_of_no_review(log, predicted)
    covered = row >= 0
    if not covered.any():
        raise InputError(
            f'The predictions of "{model}" cover 0 of the {len(log.reviews):,} reviews.'
        )
    return Given(np.where(covered, predicted.p[row], np.nan), about, count)


def _rows_of_reviews(log: ReviewLog, model: str, predicted: _Predicted) -> IntArray:
    """The file's row for each review of the log, -1 where it has none. Raises InputError."""
    reviews = log.reviews
    wanted = np.arange(1, len(reviews) + 1) if log.entries is None else log.entries.time_ms
    # Without cards in the file, times (or numbers) alone tell reviews apart.
    cards = np.zeros_like(wanted) if predicted.card_id is None else reviews.card_id
    of_card = np.zeros_like(predicted.review) if predicted.card_id is None else predicted.card_id
    named = zip(of_card.tolist(), predicted.review.tolist(), strict=True)
    row_of = {name: row for row, name in enumerate(named)}
    if len(row_of) < len(predicted.p):
        raise InputError(f'The predictions of "{model}" name a review twice; keep one of them.')
    names = zip(cards.tolist(), wanted.tolist(), strict=True)
    rows = np.array([row_of.get(name, -1) for name in names], np.int64)
    if predicted.key == "review_id" and (np.diff(wanted[rows >= 0]) == 0).any():
        raise InputError(
            f'The predictions of "{model}" name several reviews by one review_id, for cards share '
            "times here; name reviews by card_id and time_ms."
        )
    return rows


def _refuse_other_reviews(log: ReviewLog, predicted: _Predicted, row: IntArray) -> None:
    """Raise InputError where a row's y or card_id is not that of the review that it names.

    `row` is the file's row for each review of the log, -1 where it has none.
    """
    review = np.flatnonzero(row >= 0)
    row = row[review]
    first, sentence = len(predicted.p), ""
    for name, column in predicted.told.items():
        of_review = _values_of_reviews(log, name)[review]
        wrong = np.flatnonzero(_differ(column[row], of_review))
        if not len(wrong):
            continue
        place = wrong[np.argmin(row[wrong])]
        if row[place] < first:
            first = int(row[place])
            sentence = (
                f"at {predicted.name_of(first)} it has {name} {column[first]:.0f}, but the review "
                f"has {name} {of_review[place]:.0f}"
            )
    if not sentence:
        return
    whose = "" if log.user is None else f" of user {log.user}"
    raise InputError(
        f'"{predicted.path.name}" predicts other reviews than those{whose} that it names: '
        f"{sentence}.{_hint_of_shift(log, predicted)}"
    )


def _refuse_numbers_of_no_review(log: ReviewLog, predicted: _Predicted) -> None:
    """Raise InputError where a review_th is below 1 or above the last review."""
    last = len(log.reviews)
    outside = np.flatnonzero((predicted.review < 1) | (predicted.review > last))
    if not len(outside):
        return
    whose = "the source" if log.user is None else f"user {log.user}"
    hint = ""
    if predicted.review.min() == 0 and predicted.review.max() < last:
        hint = " Are the numbers off by one? The first review has review_th 1."
    raise InputError(
        f'"{predicted.path.name}": {predicted.name_of(int(outside[0]))} is no review: {whose} has '
        f"reviews 1 to {last}.{hint}"
    )


def _hint_of_shift(log: ReviewLog, predicted: _Predicted) -> str:
    """Say that the numbers of reviews seem to be off by one; "" where that explains nothing."""
    if predicted.key != "review_th":
        return ""
    for shift, words in ((1, "one higher"), (-1, "one lower")):
        review = predicted.review - 1 + shift
        row = np.flatnonzero((review >= 0) & (review < len(log.reviews)))
        review = review[row]
        compared, differing = 0, 0
        for name, column in predicted.told.items():
            of_review = _values_of_reviews(log, name)[review]
            compared += int(np.isfinite(column[row] + of_review).sum())
            differing += int(_differ(column[row], of_review).sum())
        if compared and not differing:
            return (
                f" With each review_th {words} all would agree: are the numbers off by one? The "
                "first review has review_th 1."
            )
    return ""


def _values_of_reviews(log: ReviewLog, name: str) -> FloatArray:
    """The values of one of _COMPARED for each entry or row, NaN for what is no answer."""
    if name == "card_id":
        return log.reviews.card_id.astype(np.float64)
    rating = log.reviews.rating
    return np.where((rating >= 1) & (rating <= 4), rating > 1, np.nan)


def _differ(told: FloatArray, of_review: FloatArray) -> NDArray[np.bool_]:
    """Where both say something (shape of both), and not the same."""
    return np.isfinite(told) & np.isfinite(of_review) & (told != of_review)


def _columns(path: Path, user: int | None = None) -> Mapping[str, NDArray[Any]]:
    """By name, in small letters; of a file of many users those of one."""
    try:
        if is_parquet(path):
            columns = columns_of_parquet(path, "user", user)
        elif user is None:
            columns = columns_of_csv(path)
        else:
            about = path.stat()
            columns = _columns_of_users(path, about.st_mtime_ns, about.st_size)
    except EOFError:
        raise InputError(f'"{path.name}" holds no predictions.') from None
    except (OSError, csv.Error, ValueError, KeyError, NotImplementedError) as error:
        if user is not None and isinstance(error, NotImplementedError):  # it compares no text
            raise _no_number(path, "user", "whole number") from None
        reason = getattr(error, "strerror", None) or "it is neither CSV nor parquet"
        raise InputError(f'Predictions cannot be read from "{path}" ({reason}).') from None
    found = {name.lower(): column for name, column in columns.items()}
    if user is None:
        return found
    if "user" not in found:
        raise InputError(f'"{path.name}" has no column user, which predictions of many need.')
    its = found["user"] == user
    return {name: column[its] for name, column in found.items()}


@lru_cache(maxsize=1)  # a batch asks for each user
def _columns_of_users(path: Path, changed_ns: int, size: int) -> Mapping[str, NDArray[Any]]:
    """What `of_user` needs of a CSV file, in few bytes, for it may be one of gigabytes."""
    return columns_of_csv(path, partial(_of_users, path))


def _of_users(path: Path, columns: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    kept = dict[str, NDArray[Any]]()
    for name, column in columns.items():
        match name.lower():
            case "user" | "review_th":
                kept[name] = _whole_numbers(path, columns, name)
            case "p":
                kept[name] = np.array(_numbers(path, columns, name, float), np.float64)
            case "card_id":
                kept[name] = _values_told(path, columns, name)
            case "y":
                kept[name] = _values_told(path, columns, name).astype(np.float32)
            case "model":
                kept[name] = np.array(list(map(sys.intern, column)), object)
    return kept


def _whole_numbers(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> IntArray:
    """Return a column as integers; floats such as 12.0 count. Raises InputError for others."""
    return np.array(_numbers(path, columns, name, _whole_number), np.int64)


def _whole_number(text: str) -> int:
    """Read "12" and "12.0". Raises ValueError for others, and for floats that may be rounded."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer() or abs(value) >= _MAX_ID:
            raise
        return int(value)


_TRUTHS = {"true": 1.0, "false": 0.0, "": np.nan, "none": np.nan}


def _values_told(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> FloatArray:
    """One of _COMPARED as numbers, NaN where a field is empty. Raises InputError for others."""
    column = columns[name]
    try:
        if column.dtype.kind in "mM":
            raise ValueError("a time")
        values = _as_floats(column)
    except (ValueError, TypeError, OverflowError):
        values = np.full(1, np.inf)
    told = values[~np.isnan(values)]
    if name == "y" and not np.isin(told, (0, 1)).all():
        raise InputError(f'"{path.name}": the column y holds something that is neither 0 nor 1.')
    if not (np.isfinite(told) & (told == np.floor(told))).all():
        raise _no_number(path, name, "whole number")
    return values


def _as_floats(column: NDArray[Any]) -> FloatArray:
    """A column of numbers or of their text, NaN where it is empty. Raises ValueError."""
    try:
        return column.astype(np.float64)
    except (ValueError, TypeError):
        texts = (str(value).strip().lower() for value in column.tolist())
        return np.array([_TRUTHS[text] if text in _TRUTHS else float(text) for text in texts])


def _numbers(
    path: Path,
    columns: Mapping[str, NDArray[Any]],
    name: str,
    kind: Callable[[str], float],
) -> list[float]:
    """A column as integers or floats."""
    if name not in columns:
        raise InputError(
            f'"{path.name}" has no column {name}: review_id (or card_id and time_ms) and p are '
            "needed, model if there are several."
        )
    try:
        if columns[name].dtype.kind in "mM":
            raise ValueError("a time, which would count as nanoseconds")
        found = [kind(str(value)) for value in columns[name].tolist()]
        if kind is _whole_number:
            np.array(found, np.int64)
    except (ValueError, OverflowError):
        what = "whole number" if kind is _whole_number else "number"
        raise _no_number(path, name, what) from None
    return found


def _no_number(path: Path, name: str, kind: str) -> InputError:
    return InputError(f'"{path.name}": the column {name} holds something that is no {kind}.')
