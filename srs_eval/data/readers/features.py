"""Read a user's table about cards or notes, for the user's own models: `--features FILE`.

The table is CSV or parquet with card_id or note_id, for a data set with user_id too. All other
columns of numbers are features. Content is untrusted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, printable, require
from srs_eval.data.readers.files import START_BYTES, detect_utf16
from srs_eval.data.reviews import Features, ReviewLog

_IDS = ("card_id", "note_id", "user_id")
_SAMPLE_ROWS = 1024
_ROWS_PER_BLOCK = 1 << 16  # rows of CSV that are held as text at a time
_Columns = Mapping[str, NDArray[Any]]


def add_features(log: ReviewLog, path: Path | None) -> ReviewLog:
    """Add a table's features of the cards to a log, if there is a table. Raises InputError."""
    if path is None or log.features is not None:
        return log
    features = read_features(path, log.user)
    name = printable(path.name)
    if (np.diff(features.ids) == 0).any():
        raise InputError(f"{name} names a {features.id_column} twice; keep one row of each.")
    cards = np.unique(log.reviews.card_id)
    ids = cards if features.id_column == "card_id" else log.note_of(cards)
    missing_count = int((~np.isin(ids, features.ids)).sum())
    note = ""
    if missing_count:
        note = f"{name}: {missing_count:,} of {len(cards):,} cards have no row"
    return replace(log, features=replace(features, note=note))


def add_random_features(log: ReviewLog, path: Path | None) -> ReviewLog:
    """Give each card of a log a random row of a table about other cards, and every tenth none."""
    if path is None:
        return log
    features = read_features(path, None, sample_only=True)
    cards = np.unique(log.cards.card_id)
    row_of_card = np.random.default_rng(1).integers(len(features.ids), size=len(cards))
    values = features.values[row_of_card].copy()
    values[::10] = np.nan
    return replace(log, features=replace(features, id_column="card_id", ids=cards, values=values))


def read_features(
    path: Path, user: int | None, *, needs_user_id: bool = False, sample_only: bool = False
) -> Features:
    """Read a table's features of one user's cards, by ascending id; without a user, of all cards.

    `needs_user_id`: the table must have a column user_id. `sample_only`: the first rows suffice,
    because the table may be about thousands of users. Raises InputError if it cannot be used.
    """
    columns = _read_columns(path, user, sample_only)
    name = printable(path.name)
    if "card_id" in columns:
        id_column = "card_id"
    elif "note_id" in columns:
        id_column = "note_id"
    else:
        raise InputError(f"{name} has no column card_id or note_id, by which cards are found.")
    if "user_id" not in columns and (needs_user_id or user is not None):
        raise InputError(f"{name} has no column user_id, which a table for a data set needs.")
    names = tuple(column_name for column_name in columns if column_name not in _IDS)
    if not names:
        raise InputError(f"{name} has no column of numbers besides ids.")
    if user is not None:
        is_of_user = columns["user_id"] == user
        columns = {column_name: column[is_of_user] for column_name, column in columns.items()}
    ids = columns[id_column]
    if not (np.isfinite(ids) & (ids == np.floor(ids))).all():
        raise InputError(f"{name}: a {id_column} is not a whole number.")
    order = np.argsort(ids, kind="stable")
    values = np.stack([columns[column_name][order] for column_name in names], axis=1)
    values[~np.isfinite(values)] = np.nan
    return Features(
        id_column=id_column, ids=ids[order].astype(np.int64), names=names, values=values
    )


def _read_columns(path: Path, user: int | None, sample_only: bool) -> Mapping[str, NDArray[Any]]:
    """Read the columns of numbers; from a parquet file, only the user's rows."""
    try:
        status = path.stat()
        if not is_parquet(path):
            return _read_csv_numbers(path, status.st_mtime_ns, status.st_size)
        max_rows = _SAMPLE_ROWS if sample_only else None
        return _select_numeric(read_parquet_columns(path, "user_id", user, max_rows))
    except EOFError:
        raise InputError(f"{printable(path.name)} has no rows.") from None
    except (OSError, ValueError, TypeError, NotImplementedError, csv.Error) as error:
        reason = printable(getattr(error, "strerror", None) or error, 100)
        raise InputError(f'Features cannot be read from "{printable(path)}" ({reason}).') from None


@lru_cache(maxsize=1)  # a batch asks for each user
def _read_csv_numbers(path: Path, modified_ns: int, size: int) -> Mapping[str, NDArray[Any]]:
    """Read the columns of numbers; date and size make the cache forget an older content."""
    columns = read_csv_columns(path)
    filled = {name: np.where(column == "", "nan", column) for name, column in columns.items()}
    return _select_numeric(filled)


def is_parquet(path: Path) -> bool:
    """Return whether a file is parquet. Raises OSError."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def read_csv_columns(
    path: Path, convert: Callable[[_Columns], _Columns] = lambda columns: columns
) -> dict[str, NDArray[Any]]:
    """Read the columns as text, by name, and `convert` them, some rows at a time.

    Raises InputError for a line of another length than the header's, EOFError if there is no line
    below it, and all errors of files and csv.
    """
    with path.open("rb") as file:
        encoding = detect_utf16(file.read(START_BYTES)) or "utf-8"
    with path.open(encoding=encoding, newline="") as text:
        reader = csv.reader(text)
        names = [name.removeprefix("\ufeff").strip() for name in next(reader, [])]
        blocks = list[_Columns]()

        def iterate_checked_rows() -> Iterator[list[str]]:
            for row in reader:
                if not row:
                    continue
                if len(row) != len(names):
                    raise InputError(
                        f'"{path.name}": line {reader.line_num} has more or fewer fields than the '
                        "header."
                    )
                yield row

        checked_rows = iterate_checked_rows()
        while rows := list(islice(checked_rows, _ROWS_PER_BLOCK)):
            columns = np.array(rows, object).reshape(-1, len(names)).T
            blocks.append(convert(dict(zip(names, columns, strict=True))))
    if not blocks:
        raise EOFError
    joined = {}
    for name in blocks[0]:
        joined[name] = np.concatenate([block[name] for block in blocks])
    return joined


def read_parquet_columns(
    path: Path, user_column: str, user: int | None, max_rows: int | None = None
) -> Mapping[str, NDArray[Any]]:
    """Read the columns by name; with a user, only the user's rows, if there is a `user_column`.

    The case of that column's name does not matter. Reads at most `max_rows` rows, if that is given.
    Raises NotInstalled, EOFError if there are no rows at all, and all errors of pyarrow.
    """
    require("pyarrow", printable(path.name))
    import pyarrow
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            raise EOFError
        names = file.schema_arrow.names
        filters = [(name, "=", user) for name in names if name.lower() == user_column]
        if max_rows is not None:
            batches = islice(file.iter_batches(max_rows), 1)
            table = pyarrow.Table.from_batches(batches, file.schema_arrow)
        else:
            has_filters = bool(filters) and user is not None
            table = pq.read_table(path, filters=filters if has_filters else None)
    arrays = dict[str, NDArray[Any]]()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pyarrow.types.is_dictionary(column.type):  # else a null becomes the last entry
            column = column.cast(column.type.value_type)
        arrays[name] = column.to_numpy()
    return arrays


def _select_numeric(columns: Mapping[str, object]) -> dict[str, NDArray[Any]]:
    """Return the columns that consist of numbers, as floats; ids as integers where possible."""
    numeric = dict[str, NDArray[Any]]()
    for name, values in columns.items():
        with suppress(TypeError, ValueError, OverflowError), np.errstate(invalid="ignore"):
            numeric[name] = np.asarray(values, np.float64)
            if name in _IDS:
                integers = np.asarray(values, np.int64)
                if (integers == numeric[name]).all():
                    numeric[name] = integers  # keeps ids of more than 53 bits
    return numeric
