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
from dataclasses import replace
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


def with_predictions(log: ReviewLog, path: Path, known: Callable[[str], str]) -> ReviewLog:
    """The log with a file's predictions as `given`, by model.

    Columns are review_id (or card_id and time_ms), p, model. review_id is that of Anki's revlog;
    where a source has no times, review_th is the position among its reviews. Without `model` the
    file's name is the model's; one that is `known` as a model here gets "(file)" behind it. Raises
    InputError for what is not there, unreadable, no probability, of no review, or ambiguous.
    """
    if path == Path():
        raise InputError("Predictions are read from a file: name one.")
    columns = _columns(path)
    review, card_id, what = _reviews(log, path, columns)
    p = _probabilities(path, columns)
    if not len(p):
        raise InputError(f'"{path.name}" holds no predictions.')
    models = np.array(columns.get("model", [path.stem] * len(p)), np.str_)
    given = dict[str, Given]()
    for model in np.unique(models).tolist():
        mine = models == model
        name = unlike(
            printable(model, _MOST_LETTERS) or printable(path.stem, _MOST_LETTERS),
            lambda name: known(name) or name in log.given,
        )
        if name in given:
            raise InputError(f'"{path.name}": two models are "{name}" here; rename one of them.')
        cards = None if card_id is None else card_id[mine]
        found = _of_reviews(log, model, review[mine], cards, p[mine], what)
        given[name] = Given(found, f"of {printable(path.name, 60)}")
    return replace(log, given={**log.given, **given})


def of_user(log: ReviewLog, path: Path, model: str) -> Given:
    """Of the user of a data set, those in a file of many: columns user, review_th and p.

    Where the file tells a `model`, those that are of this one. Raises InputError.
    """
    columns = _columns(path, log.user)
    review, card_id, what = _reviews(log, path, columns)
    p = _probabilities(path, columns)
    about = f"of {printable(path.name, 60)}"
    if "model" in columns:
        mine = np.array([str(each) == model for each in columns["model"].tolist()], np.bool_)
        review, p = review[mine], p[mine]
    if not len(p):
        return Given(np.full(len(log.reviews), np.nan), about)
    return Given(_of_reviews(log, model, review, card_id, p, what), about)


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


def _reviews(
    log: ReviewLog, path: Path, columns: Mapping[str, NDArray[Any]]
) -> tuple[IntArray, IntArray | None, str]:
    """What names the reviews of a file: times or numbers (n,), with the cards' ids or None."""

    def whole(name: str) -> IntArray:
        return np.array(_numbers(path, columns, name, int), np.int64)

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
        return whole("review_th"), None, "review_th"
    if "review_id" in columns:
        return whole("review_id"), None, "review_id"
    if "time_ms" in columns:
        return whole("time_ms"), whole("card_id"), "time_ms"
    if "review_th" in columns:
        raise InputError(
            f'"{path.name}": review_th is for sources without times of answers; here name reviews '
            "by review_id (`Results.predictions` has it), or by card_id and time_ms."
        )
    return whole("review_id"), None, "review_id"


def _of_reviews(
    log: ReviewLog,
    model: str,
    review: IntArray,
    card_id: IntArray | None,
    p: FloatArray,
    what: str,
) -> FloatArray:
    """One model's for each entry or row, NaN where there is none."""
    reviews = log.reviews
    wanted = np.arange(1, len(reviews) + 1) if log.entries is None else log.entries.time_ms
    # Without cards in the file, times (or numbers) alone tell reviews apart.
    cards = reviews.card_id if card_id is not None else np.zeros_like(wanted)
    of_card = np.zeros_like(review) if card_id is None else card_id
    p_of = dict(zip(zip(of_card.tolist(), review.tolist(), strict=True), p.tolist(), strict=True))
    if len(p_of) < len(p):
        raise InputError(f'The predictions of "{model}" name a review twice; keep one of them.')
    found = np.array(
        [p_of.get(each, np.nan) for each in zip(cards.tolist(), wanted.tolist(), strict=True)]
    )
    there = np.isfinite(found)
    if what == "review_id" and (np.diff(wanted[there]) == 0).any():
        raise InputError(
            f'The predictions of "{model}" name several reviews by one review_id, for cards share '
            "times here; name reviews by card_id and time_ms."
        )
    if not there.any():
        raise InputError(f'The predictions of "{model}" cover 0 of the {len(reviews):,} reviews.')
    return found


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
                kept[name] = np.array(_numbers(path, columns, name, int), np.int64)
            case "p":
                kept[name] = np.array(_numbers(path, columns, name, float), np.float64)
            case "model":
                kept[name] = np.array(list(map(sys.intern, column)), object)
    return kept


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
        if kind is int:
            np.array(found, np.int64)
    except (ValueError, OverflowError):
        raise _no_number(path, name, "whole number" if kind is int else "number") from None
    return found


def _no_number(path: Path, name: str, kind: str) -> InputError:
    return InputError(f'"{path.name}": the column {name} holds something that is no {kind}.')
