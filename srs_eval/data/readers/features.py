"""A person's table about cards or notes, for models of their own: `--features FILE`.

CSV or parquet with card_id or note_id, for a data set with user_id too. All other columns that
hold numbers are features. Content is untrusted.
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
from srs_eval.data.readers.files import START_BYTES, utf16_of
from srs_eval.data.reviews import Features, ReviewLog

_IDS = ("card_id", "note_id", "user_id")
_SOME = 1024  # rows
_BLOCK = 1 << 16  # rows of CSV that are text at a time
_ByName = Mapping[str, NDArray[Any]]


def with_features(log: ReviewLog, path: Path | None) -> ReviewLog:
    """The log with what a table tells of its cards, if there is a table. Raises InputError."""
    if path is None or log.features is not None:
        return log
    found, name = read_features(path, log.user), printable(path.name)
    if (np.diff(found.ids) == 0).any():
        raise InputError(f"{name} names a {found.by} twice; keep one row of each.")
    cards = np.unique(log.reviews.card_id)
    ids = cards if found.by == "card_id" else log.note_of(cards)
    lacking = int((~np.isin(ids, found.ids)).sum())
    about = f"{name}: {lacking:,} of {len(cards):,} cards have no row" if lacking else ""
    return replace(log, features=replace(found, about=about))


def with_made_up_features(log: ReviewLog, path: Path | None) -> ReviewLog:
    """The log, each of its cards with a row of a table about others, every tenth with none."""
    if path is None:
        return log
    found, cards = read_features(path, None, some=True), np.unique(log.cards.card_id)
    of_card = np.random.default_rng(1).integers(len(found.ids), size=len(cards))
    values = found.values[of_card].copy()
    values[::10] = np.nan
    return replace(log, features=replace(found, by="card_id", ids=cards, values=values))


def read_features(
    path: Path, user: int | None, *, of_users: bool = False, some: bool = False
) -> Features:
    """What a table tells of one user's cards, by ascending id; of all without a user.

    `of_users`: it has to tell users apart. `some`: the first rows will do, for it may be one of
    thousands of users. Raises InputError where it cannot be used.
    """
    columns, name = _columns(path, user, some), printable(path.name)
    by = next((each for each in _IDS[:2] if each in columns), None)
    if by is None:
        raise InputError(f"{name} has no column card_id or note_id, which tells whose rows it has.")
    if "user_id" not in columns and (of_users or user is not None):
        raise InputError(f"{name} has no column user_id, which a table for a data set needs.")
    names = tuple(each for each in columns if each not in _IDS)
    if not names:
        raise InputError(f"{name} has no column of numbers besides ids.")
    if user is not None:
        its = columns["user_id"] == user
        columns = {each: column[its] for each, column in columns.items()}
    ids = columns[by]
    if not (np.isfinite(ids) & (ids == np.floor(ids))).all():
        raise InputError(f"{name}: a {by} is no whole number.")
    order = np.argsort(ids, kind="stable")
    values = np.stack([columns[each][order] for each in names], axis=1)
    values[~np.isfinite(values)] = np.nan
    return Features(by, ids[order].astype(np.int64), names, values)


def _columns(path: Path, user: int | None, some: bool) -> Mapping[str, NDArray[Any]]:
    """The columns of numbers; of a parquet file those of the user's rows only."""
    try:
        about = path.stat()
        if not is_parquet(path):
            return _numbers_of_csv(path, about.st_mtime_ns, about.st_size)
        return _of_numbers(columns_of_parquet(path, "user_id", user, _SOME if some else None))
    except EOFError:
        raise InputError(f"{printable(path.name)} has no rows.") from None
    except (OSError, ValueError, TypeError, NotImplementedError, csv.Error) as error:
        reason = printable(getattr(error, "strerror", None) or error, 100)
        raise InputError(f'Features cannot be read from "{printable(path)}" ({reason}).') from None


@lru_cache(maxsize=1)  # a batch asks for each user
def _numbers_of_csv(path: Path, changed_ns: int, size: int) -> Mapping[str, NDArray[Any]]:
    columns = columns_of_csv(path)
    return _of_numbers({name: np.where(each == "", "nan", each) for name, each in columns.items()})


def is_parquet(path: Path) -> bool:
    """Raises OSError."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def columns_of_csv(
    path: Path, kept: Callable[[_ByName], _ByName] = lambda columns: columns
) -> dict[str, NDArray[Any]]:
    """The columns as text, by name, or what is `kept` of them, some rows at a time.

    Raises InputError for a line of another length than the header's, EOFError where there is none
    below it, and what files and csv raise.
    """
    with path.open("rb") as file:
        encoding = utf16_of(file.read(START_BYTES)) or "utf-8"
    with path.open(encoding=encoding, newline="") as text:
        reader = csv.reader(text)
        names = [name.removeprefix("\ufeff").strip() for name in next(reader, [])]
        parts = list[_ByName]()

        def checked() -> Iterator[list[str]]:
            for row in filter(None, reader):
                if len(row) != len(names):
                    raise InputError(
                        f'"{path.name}": line {reader.line_num} has not as many fields as the '
                        "header."
                    )
                yield row

        lines = checked()
        while rows := list(islice(lines, _BLOCK)):
            columns = np.array(rows, object).reshape(-1, len(names)).T
            parts.append(kept(dict(zip(names, columns, strict=True))))
    if not parts:
        raise EOFError
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def columns_of_parquet(
    path: Path, key: str, user: int | None, most: int | None = None
) -> Mapping[str, NDArray[Any]]:
    """The columns by name: with a user those rows that have it at `key`, in whatever case.

    At most `most` rows, if it is given. Raises NotInstalled, EOFError where there are no rows at
    all, and what pyarrow raises.
    """
    require("pyarrow", printable(path.name))
    import pyarrow
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            raise EOFError
        its = [(n, "=", user) for n in file.schema_arrow.names if n.lower() == key]
        if most is not None:
            batches = islice(file.iter_batches(most), 1)
            table = pyarrow.Table.from_batches(batches, file.schema_arrow)
        else:
            table = pq.read_table(path, filters=its if its and user is not None else None)
    found = dict[str, NDArray[Any]]()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pyarrow.types.is_dictionary(column.type):  # a null would be its last entry
            column = column.cast(column.type.value_type)
        found[name] = column.to_numpy()
    return found


def _of_numbers(columns: Mapping[str, object]) -> dict[str, NDArray[Any]]:
    found = dict[str, NDArray[Any]]()
    for name, values in columns.items():
        with suppress(TypeError, ValueError, OverflowError), np.errstate(invalid="ignore"):
            found[name] = np.asarray(values, np.float64)
            if name in _IDS and ((whole := np.asarray(values, np.int64)) == found[name]).all():
                found[name] = whole  # of more than 53 bits, too
    return found
