"""A person's table about cards or notes, for models of their own: `--features FILE`.

CSV or parquet with card_id or note_id, for a data set with user_id too. All other columns that
hold numbers are features. Content is untrusted.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, printable, require
from srs_eval.data.readers.files import read_start
from srs_eval.data.reviews import Features, ReviewLog

_IDS = ("card_id", "note_id", "user_id")
_SOME = 1024  # rows


def with_features(log: ReviewLog, path: Path | None) -> ReviewLog:
    """The log with what a table tells of its cards, if there is a table. Raises InputError."""
    if path is None or log.features is not None:
        return log
    found, name = read_features(path, log.user), printable(path.name)
    if (np.diff(found.ids) == 0).any():
        raise InputError(f"{name} names a {found.by} twice; keep one row of each.")
    reviews = log.entries if log.entries is not None else log.rows
    assert reviews is not None
    cards = np.unique(reviews.card_id)
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
    if user is None and not len(ids):
        raise InputError(f"{name} has no rows.")
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
        if read_start(path, 4) != b"PAR1":
            return _columns_of_csv(path, about.st_mtime_ns, about.st_size)
        require("pyarrow", printable(path.name))
        import pyarrow
        import pyarrow.parquet as pq

        one = user is not None and "user_id" in pq.read_schema(path).names
        if some:
            with pq.ParquetFile(path) as file:
                batches = islice(file.iter_batches(_SOME), 1)
                table = pyarrow.Table.from_batches(batches, file.schema_arrow)
        else:
            table = pq.read_table(path, filters=[("user_id", "=", user)] if one else None)
        return _of_numbers({name: table[name].to_numpy() for name in table.column_names})
    except (OSError, ValueError, TypeError, NotImplementedError, csv.Error) as error:
        reason = printable(getattr(error, "strerror", None) or error, 100)
        raise InputError(f'Features cannot be read from "{printable(path)}" ({reason}).') from None


@lru_cache(maxsize=1)  # a batch asks for each user
def _columns_of_csv(path: Path, changed_ns: int, size: int) -> Mapping[str, NDArray[Any]]:
    with path.open(encoding="utf-8-sig", newline="") as text:
        columns = list(zip(*filter(None, csv.reader(text)), strict=True))
    return _of_numbers({name: [each or "nan" for each in rest] for name, *rest in columns})


def _of_numbers(columns: Mapping[str, object]) -> dict[str, NDArray[Any]]:
    found = dict[str, NDArray[Any]]()
    for name, values in columns.items():
        with suppress(TypeError, ValueError, OverflowError), np.errstate(invalid="ignore"):
            found[name] = np.asarray(values, np.float64)
            if name in _IDS and ((whole := np.asarray(values, np.int64)) == found[name]).all():
                found[name] = whole  # of more than 53 bits, too
    return found
