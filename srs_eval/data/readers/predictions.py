"""Read external predictions of the reviews, from a user's file or from the user's Anki.

JSchoreels' fork of Anki (and Clanki, which is based on it) records the predictions of RWKV and FSRS
before each answer, in `collection.retrievability-cache.sqlite`. A prediction's role tells its
origin: `final_fit` belongs to the sample to which the model was fitted or calibrated, `test_fold`
and `validation_fold` were held out of it, and `post_optimization` was predicted live, before the
answer. Content is untrusted.

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

from srs_eval.data.errors import InputError, format_count, printable
from srs_eval.data.readers import files
from srs_eval.data.readers.collection import list_columns, restrict_connection
from srs_eval.data.readers.features import is_parquet, read_csv_columns, read_parquet_columns
from srs_eval.data.reviews import (
    Entries,
    ExternalPredictions,
    FloatArray,
    IntArray,
    ReviewLog,
    mark_run_starts,
)

_RWKV = "RWKV-Anki"
_TABLE_OF_MODEL = {
    _RWKV: "search_stats_rwkv_review_retrievability",
    "FSRS-Anki": "search_stats_fsrs_review_retrievability",
}
"""Tables of the cache by the names of the models in `models/given.py`."""
_HELD_OUT_ROLES = ("test_fold", "validation_fold", "post_optimization")
_CACHE_SUFFIX = ".retrievability-cache.sqlite"
_REQUIRED_COLUMNS = {"revlog_id", "prediction", "source", "sample_role", "fold_index"}
_MAX_ROWS = 50_000_000
_MAX_ID = 1 << 53  # ids are Unix ms; integers up to this are exact as floats
_MAX_VALUE_BYTES = 1 << 20
_DEADLINE_S = 60.0


def read_anki_predictions(collection: Path, entries: Entries) -> dict[str, ExternalPredictions]:
    """Read the predictions beside a collection, by model.

    If they cannot be used, there are no probabilities, and the note tells why.
    """
    path = collection.resolve().with_suffix(_CACHE_SUFFIX)
    if not path.exists():
        return {}
    try:
        return _read_cache(path, entries)
    except InputError as error:
        return {_RWKV: _unusable_predictions(error, entries)}


def _unusable_predictions(error: InputError, entries: Entries) -> ExternalPredictions:
    reason = str(error).partition(";")[0].rstrip(".")  # the advice after ";" is about collections
    return ExternalPredictions(
        p=np.full(len(entries), np.nan), note=f"{reason}; its predictions are left out"
    )


def _read_cache(path: Path, entries: Entries) -> dict[str, ExternalPredictions]:
    name = printable(path.name)
    by_model = dict[str, ExternalPredictions]()
    if not files.read_start(files.resolve_file(path), 16).startswith(files.SQLITE_MAGIC):
        raise InputError(f"{name} is not an SQLite database.")
    with files.private_copy(path) as (connection, _):
        restrict_connection(connection, time.monotonic() + _DEADLINE_S)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        with files.database_errors(name):
            columns = {table: list_columns(connection, table) for table in _TABLE_OF_MODEL.values()}
        if not any(columns.values()):
            raise InputError(
                f"{name} has neither of the tables {' and '.join(_TABLE_OF_MODEL.values())}."
            )
        for model, table in _TABLE_OF_MODEL.items():
            try:
                if not columns[table]:
                    raise InputError(f"{name} has no table {table}.")
                with files.database_errors(f"{name}, {table},"):
                    predictions = _read_table(connection, table, columns[table], name, entries)
            except InputError as error:
                predictions = _unusable_predictions(error, entries)
            if predictions is not None:
                by_model[model] = predictions
    return by_model


def _read_table(
    connection: sqlite3.Connection, table: str, names: set[str], name: str, entries: Entries
) -> ExternalPredictions | None:
    """Read the latest held-out prediction of each review; None for an empty table."""
    where = f"{name}, {table}:"
    missing = sorted(_REQUIRED_COLUMNS - names)
    if missing:
        raise InputError(f"{where} there is no column {', '.join(missing)}.")
    (rows,) = connection.execute(f"select count(*) from {table}").fetchone()
    if rows > _MAX_ROWS:
        raise InputError(f"{where} {rows:,} predictions are more than one person can need.")
    if not rows:
        return None
    for fault, complaint in (
        ("typeof(revlog_id) != 'integer'", "a revlog_id is not a whole number"),
        ("typeof(prediction) not in ('real', 'integer')", "a prediction is not a number"),
        ("prediction not between 0 and 1", "a prediction is not a probability"),
        ("typeof(sample_role) != 'text'", "a sample_role is not text"),
        ("typeof(fold_index) != 'integer'", "a fold_index is not a whole number"),
    ):
        if connection.execute(f"select 1 from {table} where {fault} limit 1").fetchone():
            raise InputError(f"{where} {complaint}.")
    identity = "revlog_id, sample_role, fold_index, source"
    duplicate_query = (
        f"select revlog_id from {table} group by {identity} having count(*) > 1 limit 1"
    )
    duplicate = connection.execute(duplicate_query).fetchone()
    if duplicate:
        raise InputError(
            f"{where} review {duplicate[0]} appears twice with the same fold and source."
        )
    # Roles that are not known are counted together, as null.
    role_sql = "case sample_role when '' then 'final_fit' when 'final_fit' then 'final_fit'"
    for role in _HELD_OUT_ROLES:
        role_sql += f" when '{role}' then '{role}'"
    role_query = f"select {role_sql} end, count(*) from {table} group by 1"
    count_of_role = dict(connection.execute(role_query))
    updated_at = "updated_at" if "updated_at" in names else "0"  # it may be missing
    prediction_rows = connection.execute(
        f"select revlog_id, prediction from {table} where sample_role in (?, ?, ?) "
        f"and revlog_id between 1 and {_MAX_ID} "
        f"order by revlog_id, {updated_at} desc, fold_index desc, source",
        _HELD_OUT_ROLES,
    )
    review, p = np.fromiter(chain.from_iterable(prediction_rows), np.float64).reshape(-1, 2).T
    ids = review.astype(np.int64)
    is_latest = mark_run_starts(ids)
    ids = ids[is_latest]
    p = p[is_latest]
    position = np.searchsorted(entries.time_ms, ids)
    position[position == len(entries)] = 0  # any entry, as its id will not match
    is_matched = entries.time_ms[position] == ids
    p_of_entries = np.full(len(entries), np.nan)
    p_of_entries[position[is_matched]] = p[is_matched]
    unmatched = int((~is_matched).sum())
    return ExternalPredictions(p=p_of_entries, note=_describe_roles(count_of_role, unmatched))


def _describe_roles(count_of_role: Mapping[str, int], unmatched: int) -> str:
    """Describe the roles that were used or left out, and predictions of unknown reviews."""
    left_out = dict(count_of_role)
    held_out = [f"{left_out.pop(role):,} {role}" for role in _HELD_OUT_ROLES if role in left_out]
    held_out_words = ", ".join(held_out) or "none"
    description = f"held-out predictions of your Anki ({held_out_words})"
    fitted_count = left_out.pop("final_fit", 0)
    if fitted_count:
        description += f"; those of the training sample are left out ({fitted_count:,} final_fit)"
    unknown_count = sum(left_out.values())
    if unknown_count:
        description += f"; {unknown_count:,} with an unknown role are left out"
    if unmatched:
        count = format_count(unmatched, "prediction")
        description += f"; no review of the collection matches {count}"
    return description


# A user's file

_MAX_NAME_LENGTH = 40  # of a model's name


def make_name_unique(name: str, is_taken: Callable[[str], object]) -> str:
    """Append "(file)" to the name of a file's predictions until the name is not taken."""
    while is_taken(name):
        name += " (file)"
    return name


@dataclass(frozen=True)
class _PredictionRows:
    """The n rows of a file: the review of each row, and the file's values for that review."""

    path: Path
    key: str  # the column that names reviews: review_id, time_ms (with card_id) or review_th
    review: IntArray  # (n,) values of that column
    card_id: IntArray | None  # (n,) if reviews are named by card_id and time_ms
    p: FloatArray  # (n,)
    compared_columns: Mapping[str, FloatArray] = field(default_factory=dict)
    """The columns of _COMPARED_COLUMNS that the file has (n,); NaN where a field is empty."""

    def select(self, mask: NDArray[np.bool_]) -> _PredictionRows:
        """Return the rows where `mask` (n,) is True."""
        return replace(
            self,
            review=self.review[mask],
            card_id=None if self.card_id is None else self.card_id[mask],
            p=self.p[mask],
            compared_columns={name: column[mask] for name, column in self.compared_columns.items()},
        )

    def name_of(self, row: int) -> str:
        """Name the review of a row as the file does: "review_th 12"."""
        name = f"{self.key} {self.review[row]}"
        return name if self.card_id is None else f"card_id {self.card_id[row]}, {name}"


_COMPARED_COLUMNS = ("card_id", "y")
"""Optional columns of a file, which are compared with the reviews."""


def add_predictions(log: ReviewLog, path: Path, find_model: Callable[[str], str]) -> ReviewLog:
    """Add a file's predictions to the log as `external_predictions`, by model.

    Columns are review_id (or card_id and time_ms), p, model. review_id is the id in Anki's revlog;
    if a source has no times, review_th is the number of a review in the file's order, from 1. The
    columns y and card_id are compared with the reviews if they exist. Without a column `model`, the
    model has the file's name; a name that `find_model` knows gets "(file)" appended.

    Raises InputError if the file is missing or unreadable, if it covers no review, and if a
    prediction is not a probability or cannot be assigned to one review.
    """
    if path == Path():
        raise InputError("Predictions are read from a file: name one.")
    columns = _read_columns(path)
    predicted = _parse_rows(log, path, columns)
    if not len(predicted.p):
        raise InputError(f'"{path.name}" holds no predictions.')
    models = np.array(columns.get("model", [path.stem] * len(predicted.p)), np.str_)
    predictions = dict[str, ExternalPredictions]()
    for model in np.unique(models).tolist():
        name = make_name_unique(
            printable(model, _MAX_NAME_LENGTH) or printable(path.stem, _MAX_NAME_LENGTH),
            lambda name: find_model(name) or name in log.external_predictions,
        )
        if name in predictions:
            raise InputError(f'"{path.name}": two models are called "{name}"; rename one of them.')
        predictions[name] = _match_predictions(log, model, predicted.select(models == model))
    return replace(log, external_predictions={**log.external_predictions, **predictions})


def read_user_predictions(log: ReviewLog, path: Path, model: str) -> ExternalPredictions:
    """Read the predictions of a data set's user from a file of many users.

    The file has the columns user, review_th and p. If it has a column `model`, only the rows of
    this model count. The columns y and card_id are compared with the reviews if they exist. Raises
    InputError.
    """
    columns = _read_columns(path, log.user)
    predicted = _parse_rows(log, path, columns)
    if "model" in columns:
        names = columns["model"].tolist()
        is_of_model = np.array([str(name) == model for name in names], np.bool_)
        predicted = predicted.select(is_of_model)
    return _match_predictions(log, model, predicted)


def check_prediction_file(path: Path) -> None:
    """Raise InputError for a file without the columns that `read_user_predictions` needs."""
    columns = _read_columns(path, -1)
    missing = [column for column in ("review_th", "p") if column not in columns]
    if missing:
        raise InputError(
            f'"{path.name}" has no column {" and no column ".join(missing)}: user, review_th and p '
            "are needed, as is model if there is more than one model."
        )


def _read_probabilities(path: Path, columns: Mapping[str, NDArray[Any]]) -> FloatArray:
    p = np.array(_read_numbers(path, columns, "p", float), np.float64)
    if len(p) and not (p.min() >= 0 and p.max() <= 1):  # also true for NaN
        raise InputError(f'"{path.name}": p must be probabilities between 0 and 1.')
    return p


def _parse_rows(log: ReviewLog, path: Path, columns: Mapping[str, NDArray[Any]]) -> _PredictionRows:
    """Parse the rows of a file, by its names for the reviews of this log. Raises InputError."""
    key = _find_key_column(log, path, columns)
    review = _read_integers(path, columns, key)
    card_id = _read_integers(path, columns, "card_id") if key == "time_ms" else None
    compared = [name for name in _COMPARED_COLUMNS if name in columns]
    if card_id is not None:  # it names the reviews
        compared.remove("card_id")
    compared_columns = {name: _read_compared_values(path, columns, name) for name in compared}
    return _PredictionRows(
        path=path,
        key=key,
        review=review,
        card_id=card_id,
        p=_read_probabilities(path, columns),
        compared_columns=compared_columns,
    )


def _find_key_column(log: ReviewLog, path: Path, columns: Mapping[str, NDArray[Any]]) -> str:
    """Find the column that names the reviews of this log. Raises InputError if there is none."""
    if log.entries is None:
        if "review_th" not in columns:
            raise InputError(
                f"{log.import_summary.path} has no times of answers: name reviews by "
                "review_th, their number in the file's order (`Results.predictions` has it)."
            )
        if log.is_subset:
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


def _match_predictions(
    log: ReviewLog, model: str, predicted: _PredictionRows
) -> ExternalPredictions:
    """Match one model's predictions to entries or rows, NaN without one. Raises InputError."""
    note = f"of {printable(predicted.path.name, 60)}"
    count = len(predicted.p)
    if not count:
        return ExternalPredictions(p=np.full(len(log.reviews), np.nan), note=note)
    row_of_review = _find_rows_of_reviews(log, model, predicted)
    _refuse_mismatched_reviews(log, predicted, row_of_review)
    if predicted.key == "review_th":
        _refuse_unknown_review_numbers(log, predicted)
    is_covered = row_of_review >= 0
    if not is_covered.any():
        raise InputError(
            f'The predictions of "{model}" cover none of the {len(log.reviews):,} reviews.'
        )
    p = np.where(is_covered, predicted.p[row_of_review], np.nan)
    return ExternalPredictions(p=p, note=note, file_count=count)


def _find_rows_of_reviews(log: ReviewLog, model: str, predicted: _PredictionRows) -> IntArray:
    """Find the file's row for each review of the log, -1 if it has none. Raises InputError."""
    reviews = log.reviews
    keys = np.arange(1, len(reviews) + 1) if log.entries is None else log.entries.time_ms
    if predicted.card_id is None:
        # The column review_id or review_th alone identifies a review.
        cards = np.zeros_like(keys)
        cards_of_rows = np.zeros_like(predicted.review)
    else:
        cards = reviews.card_id
        cards_of_rows = predicted.card_id
    names_of_rows = zip(cards_of_rows.tolist(), predicted.review.tolist(), strict=True)
    row_of = {name: row for row, name in enumerate(names_of_rows)}
    if len(row_of) < len(predicted.p):
        raise InputError(f'The predictions of "{model}" name a review twice; keep one of them.')
    names_of_reviews = zip(cards.tolist(), keys.tolist(), strict=True)
    rows = np.array([row_of.get(name, -1) for name in names_of_reviews], np.int64)
    if predicted.key == "review_id" and (np.diff(keys[rows >= 0]) == 0).any():
        raise InputError(
            f'The predictions of "{model}" name several reviews by one review_id, because cards '
            "share times here; name reviews by card_id and time_ms."
        )
    return rows


def _refuse_mismatched_reviews(
    log: ReviewLog, predicted: _PredictionRows, row_of_review: IntArray
) -> None:
    """Raise InputError if a row's y or card_id is not that of the review that it names.

    `row_of_review` is the file's row for each review of the log, -1 if it has none.
    """
    review = np.flatnonzero(row_of_review >= 0)
    row = row_of_review[review]
    first_row = len(predicted.p)  # the first row of the file that differs, so far
    sentence = ""
    for name, column in predicted.compared_columns.items():
        value_of_review = _values_of_reviews(log, name)[review]
        differing = np.flatnonzero(_differ(column[row], value_of_review))
        if not len(differing):
            continue
        earliest = differing[np.argmin(row[differing])]
        if row[earliest] < first_row:
            first_row = int(row[earliest])
            sentence = (
                f"at {predicted.name_of(first_row)} it has {name} {column[first_row]:.0f}, but the "
                f"review has {name} {value_of_review[earliest]:.0f}"
            )
    if not sentence:
        return
    whose = "" if log.user is None else f" of user {log.user}"
    raise InputError(
        f'"{predicted.path.name}" does not match the reviews{whose} that it names: '
        f"{sentence}.{_describe_shift(log, predicted)}"
    )


def _refuse_unknown_review_numbers(log: ReviewLog, predicted: _PredictionRows) -> None:
    """Raise InputError if a review_th is below 1 or above the last review."""
    review_count = len(log.reviews)
    outside = np.flatnonzero((predicted.review < 1) | (predicted.review > review_count))
    if not len(outside):
        return
    whose = "the source" if log.user is None else f"user {log.user}"
    hint = ""
    if predicted.review.min() == 0 and predicted.review.max() < review_count:
        hint = " Are the numbers off by one? The first review has review_th 1."
    name = predicted.name_of(int(outside[0]))
    raise InputError(
        f'"{predicted.path.name}": {name} is not a review: {whose} has '
        f"reviews 1 to {review_count}.{hint}"
    )


def _describe_shift(log: ReviewLog, predicted: _PredictionRows) -> str:
    """Say that the numbers of reviews seem to be off by one; "" if that explains nothing."""
    if predicted.key != "review_th":
        return ""
    for shift, direction in ((1, "one higher"), (-1, "one lower")):
        review = predicted.review - 1 + shift
        row = np.flatnonzero((review >= 0) & (review < len(log.reviews)))
        review = review[row]
        compared = 0
        differing = 0
        for name, column in predicted.compared_columns.items():
            value_of_review = _values_of_reviews(log, name)[review]
            is_comparable = np.isfinite(column[row]) & np.isfinite(value_of_review)
            compared += int(is_comparable.sum())
            differing += int(_differ(column[row], value_of_review).sum())
        if compared and not differing:
            return (
                f" If every review_th were {direction}, all would agree: are the numbers off "
                "by one? The first review has review_th 1."
            )
    return ""


def _values_of_reviews(log: ReviewLog, name: str) -> FloatArray:
    """Return one of _COMPARED_COLUMNS for each entry or row; y is NaN if it is not an answer."""
    if name == "card_id":
        return log.reviews.card_id.astype(np.float64)
    rating = log.reviews.rating
    return np.where((rating >= 1) & (rating <= 4), rating > 1, np.nan)


def _differ(stated: FloatArray, actual: FloatArray) -> NDArray[np.bool_]:
    """Mark where both have a value and the values differ (shape of both)."""
    differs: NDArray[np.bool_] = np.isfinite(stated) & np.isfinite(actual) & (stated != actual)
    return differs


def _read_columns(path: Path, user: int | None = None) -> Mapping[str, NDArray[Any]]:
    """Read the columns by name, in lower case; from a file of many users, one user's rows."""
    try:
        if is_parquet(path):
            columns = read_parquet_columns(path, "user", user)
        elif user is None:
            columns = read_csv_columns(path)
        else:
            status = path.stat()
            columns = _read_user_columns(path, status.st_mtime_ns, status.st_size)
    except EOFError:
        raise InputError(f'"{path.name}" holds no predictions.') from None
    except (OSError, csv.Error, ValueError, KeyError, NotImplementedError) as error:
        if user is not None and isinstance(error, NotImplementedError):  # the column is text
            raise _not_a_number_error(path, "user", "whole number") from None
        reason = getattr(error, "strerror", None) or "it is neither CSV nor parquet"
        raise InputError(f'Predictions cannot be read from "{path}" ({reason}).') from None
    by_lower_name = {name.lower(): column for name, column in columns.items()}
    if user is None:
        return by_lower_name
    if "user" not in by_lower_name:
        raise InputError(f'"{path.name}" has no column user, which is needed for a data set.')
    is_of_user = by_lower_name["user"] == user
    return {name: column[is_of_user] for name, column in by_lower_name.items()}


@lru_cache(maxsize=1)  # a batch asks for each user
def _read_user_columns(path: Path, modified_ns: int, size: int) -> Mapping[str, NDArray[Any]]:
    """Read a CSV file for `read_user_predictions`, in little memory: it may have gigabytes.

    Date and size make the cache forget an older content.
    """
    return read_csv_columns(path, partial(_convert_user_columns, path))


def _convert_user_columns(
    path: Path, columns: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    converted = dict[str, NDArray[Any]]()
    for name, column in columns.items():
        match name.lower():
            case "user" | "review_th":
                converted[name] = _read_integers(path, columns, name)
            case "p":
                converted[name] = np.array(_read_numbers(path, columns, name, float), np.float64)
            case "card_id":
                converted[name] = _read_compared_values(path, columns, name)
            case "y":
                converted[name] = _read_compared_values(path, columns, name).astype(np.float32)
            case "model":
                converted[name] = np.array(list(map(sys.intern, column)), object)
    return converted


def _read_integers(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> IntArray:
    """Return a column as integers; floats such as 12.0 count. Raises InputError for others."""
    return np.array(_read_numbers(path, columns, name, _parse_whole_number), np.int64)


def _parse_whole_number(text: str) -> int:
    """Parse "12" or "12.0". Raises ValueError for others, and for floats that may be rounded."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer() or abs(value) >= _MAX_ID:
            raise
        return int(value)


_NUMBER_OF_WORD = {"true": 1.0, "false": 0.0, "": np.nan, "none": np.nan}


def _read_compared_values(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> FloatArray:
    """Return one of _COMPARED_COLUMNS as numbers, NaN where a field is empty.

    Raises InputError for other values.
    """
    column = columns[name]
    try:
        if column.dtype.kind in "mM":
            raise ValueError("a time")
        values = _parse_floats(column)
    except (ValueError, TypeError, OverflowError):
        values = np.full(1, np.inf)  # neither 0 nor 1, nor a whole number: refused below
    stated = values[~np.isnan(values)]
    if name == "y" and not np.isin(stated, (0, 1)).all():
        raise InputError(f'"{path.name}": the column y holds something that is neither 0 nor 1.')
    if not (np.isfinite(stated) & (stated == np.floor(stated))).all():
        raise _not_a_number_error(path, name, "whole number")
    return values


def _parse_floats(column: NDArray[Any]) -> FloatArray:
    """Convert a column of numbers or text to floats, NaN where it is empty. Raises ValueError."""
    try:
        return column.astype(np.float64)
    except (ValueError, TypeError):
        numbers = []
        for value in column.tolist():
            text = str(value).strip().lower()
            numbers.append(_NUMBER_OF_WORD[text] if text in _NUMBER_OF_WORD else float(text))
        return np.array(numbers)


def _read_numbers(
    path: Path,
    columns: Mapping[str, NDArray[Any]],
    name: str,
    parse: Callable[[str], float],
) -> list[float]:
    """Return a column as integers or floats, parsed by `parse`. Raises InputError."""
    if name not in columns:
        raise InputError(
            f'"{path.name}" has no column {name}: review_id (or card_id and time_ms) and p are '
            "needed, as is model if there is more than one model."
        )
    try:
        if columns[name].dtype.kind in "mM":
            raise ValueError("a time, which would count as nanoseconds")
        numbers = [parse(str(value)) for value in columns[name].tolist()]
        if parse is _parse_whole_number:
            np.array(numbers, np.int64)  # raises OverflowError beyond 64 bits
    except (ValueError, OverflowError):
        kind = "whole number" if parse is _parse_whole_number else "number"
        raise _not_a_number_error(path, name, kind) from None
    return numbers


def _not_a_number_error(path: Path, name: str, kind: str) -> InputError:
    return InputError(f'"{path.name}": the column {name} holds something that is not a {kind}.')
