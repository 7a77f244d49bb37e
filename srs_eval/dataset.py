"""The anki-revlogs-10k layout: `{revlogs,cards,decks}/user_id=N/*.parquet`, one user at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from srs_eval.errors import InputError
from srs_eval.importing.files import file_errors, printable
from srs_eval.places import data_dir
from srs_eval.reviews import Cards, Deck, ImportReceipt, IntArray, Preset, ReviewLog, Rows

if TYPE_CHECKING:
    import pyarrow

_ROW_COLUMNS = (
    "card_id",
    "day_offset",
    "rating",
    "state",
    "duration",
    "elapsed_days",
    "elapsed_seconds",
)
_MAX_ROWS = 50_000_000


@dataclass(frozen=True)
class Dataset:
    """A data-set folder. Users are read one by one, when asked for."""

    folder: Path

    @cached_property
    def users(self) -> list[int]:
        """Ids of the users with reviews, ascending."""
        with file_errors(self.folder / "revlogs"):
            names = [entry.name for entry in (self.folder / "revlogs").iterdir()]
        numbers = [re.fullmatch(r"user_id=(0|[1-9][0-9]{0,14})", name) for name in names]
        return sorted(int(number[1]) for number in numbers if number)

    def load(self, user: int) -> ReviewLog:
        """The rows, cards and decks of one user.

        Raises InputError if there is no such user or a file of theirs cannot be read. Users
        without cards or decks files have none (their reviews are MISSING in partitions).
        """
        revlogs = self._parts("revlogs", user)
        if not revlogs:
            folder = self.folder / "revlogs" / f"user_id={user}"
            if folder.is_dir():
                raise InputError(f"{printable(folder)} holds no parquet file; download it again.")
            raise InputError(
                f"{printable(self.folder)} has no user {user}; it holds {_span(self.users)}."
            )
        rows = Rows(*_read(revlogs, _ROW_COLUMNS))
        notes = []
        card, note, deck = _read(self._parts("cards", user), ("card_id", "note_id", "deck_id"))
        if not len(card):
            notes.append(_without("cards"))
        card, first = np.unique(card, return_index=True)
        decks = {
            key: Deck(id=key, name="", preset_id=preset, parent_id=None if parent < 0 else parent)
            for key, parent, preset in zip(
                *(
                    column.tolist()
                    for column in _read(
                        self._parts("decks", user), ("deck_id", "parent_id", "preset_id")
                    )
                ),
                strict=True,
            )
        }
        if not decks:
            notes.append(_without("decks"))
        return ReviewLog(
            receipt=ImportReceipt(
                path=str(revlogs[0]),
                format=f"anki-revlogs-10k, user {user}",
                entries_read=len(rows),
                notes=tuple(notes),
            ),
            rows=rows,
            cards=Cards(card, note[first], deck[first], np.zeros(len(card), np.bool_)),
            decks=decks,
            presets={
                deck.preset_id: Preset(deck.preset_id, "")
                for deck in decks.values()
                if deck.preset_id is not None
            },
            user=user,
        )

    @property
    def missing_tables(self) -> tuple[str, ...]:
        """ "cards" and "decks", as far as the data set has no folder of that name."""
        return tuple(table for table in ("cards", "decks") if not (self.folder / table).is_dir())

    def _parts(self, table: str, user: int) -> list[Path]:
        folder = self.folder / table / f"user_id={user}"
        with file_errors(folder):
            return sorted(folder.glob("*.parquet")) if folder.is_dir() else []


def open_dataset(folder: str | Path) -> Dataset:
    """A data set by its folder, or by name if it lies in the user's data folder.

    Raises InputError if there is none.
    """
    path = Path(folder)
    with file_errors(path):
        path = path.expanduser()
        exists = path.exists()
    if not exists and re.fullmatch(r"[\w.+-]+", str(folder)):
        path = datasets_folder() / str(folder)
        if not path.is_dir():
            raise InputError(
                f"There is no data set {printable(folder)}: neither a folder of that name here "
                f"nor {printable(path)}; give a folder in the anki-revlogs-10k layout."
            )
    if not path.is_dir():
        raise InputError(f"{printable(path)} is no folder; give the data set's folder.")
    if not (path / "revlogs").is_dir():
        raise InputError(
            f"{printable(path)} is no data set: it has no folder 'revlogs' with "
            "user_id=N/data.parquet in it, as in anki-revlogs-10k."
        )
    dataset = Dataset(path)
    if not dataset.users:
        raise InputError(f"{printable(path / 'revlogs')} has no users (folders user_id=N).")
    return dataset


def datasets_folder() -> Path:
    """Where downloaded data sets lie (may not exist)."""
    return data_dir() / "datasets"


def _read(parts: list[Path], names: tuple[str, ...]) -> tuple[IntArray, ...]:
    """The named columns of all parts, joined, int64; empty if there is no part."""
    tables = [_read_part(part, names) for part in parts]
    none = np.empty(0, np.int64)
    return tuple(
        np.concatenate([none, *(table[place] for table in tables)]) for place in range(len(names))
    )


def _read_part(part: Path, names: tuple[str, ...]) -> list[IntArray]:
    import pyarrow
    import pyarrow.parquet

    name = printable(part)
    with file_errors(part), open(part, "rb") as source:
        try:
            file = pyarrow.parquet.ParquetFile(source)
            found = file.schema_arrow.names
            missing = [column for column in names if found.count(column) != 1]
            if missing:
                raise InputError(
                    f"{name} lacks the column {missing[0]!r}; "
                    "expected the layout of anki-revlogs-10k."
                )
            if file.metadata.num_rows > _MAX_ROWS:
                raise InputError(f"{name} has too many rows to be one user's reviews.")
            table = file.read(columns=list(names), use_threads=False)
            return [_integers(table.column(column)) for column in names]
        except (pyarrow.ArrowException, ValueError, OSError, MemoryError) as error:
            raise InputError(
                f"{name} is damaged or no parquet file of integers "
                f"({printable(error, 100)}); download it again."
            ) from error


def _integers(column: pyarrow.ChunkedArray) -> IntArray:
    import pyarrow

    if column.null_count:
        raise ValueError("a value is missing")
    whole = column.cast(pyarrow.int64())  # refuses fractions and overflow
    return np.array(whole.to_numpy(), dtype=np.int64)


def _without(table: str) -> str:
    return (
        f"There is no table of {table} for this user: what rests on decks (SM2, Ebisu, "
        "--partitions) is skipped."
    )


def _span(users: list[int]) -> str:
    if len(users) <= 5:
        return "users " + ", ".join(map(str, users))
    return f"{len(users):,} users, {users[0]} to {users[-1]}"
