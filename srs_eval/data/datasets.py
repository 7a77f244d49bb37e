"""Data sets of many users, read one user at a time. Two layouts:

- parquet: `{revlogs,cards,decks}/user_id=N/*.parquet`, that of anki-revlogs-10k (open-spaced-
  repetition/anki-revlogs-dataset-builder: build_parquet.py). anki-revlogs-10k-id differs in its
  ids, which are Anki's own, and has a column review_time more, which is not needed here;
- csv: `N.csv`, in `dataset/1` and `dataset/2` of FSRS-Anki-20k (its card on the hub), without
  decks and without days.

And logs of several people as a data set in the first layout, whose ids say nothing.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from srs_eval.data.errors import InputError, csv_text, printable, require
from srs_eval.data.paths import DEMO_FILE, check_outputs, data_dir
from srs_eval.data.readers.files import START_BYTES, file_errors, read_start
from srs_eval.data.readers.table import table_in
from srs_eval.data.reviews import (
    MISSING,
    Cards,
    Deck,
    ImportSummary,
    IntArray,
    ReviewLog,
    Rows,
    unnamed_presets,
)
from srs_eval.data.rows import select_rows

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
_NUMBER = r"(0|[1-9][0-9]{0,14})"
_USER = f"user_id={_NUMBER}"
_TABLE = rf"{_NUMBER}\.csv"
TABLES = ("revlogs", "cards", "decks")
Layout = Literal["parquet", "csv"]


@dataclass(frozen=True)
class Published:
    """A data set that is on the Hugging Face hub, for those who accept its conditions."""

    name: str
    layout: Layout
    size: str  # words

    @property
    def repo(self) -> str:
        return f"open-spaced-repetition/{self.name}"


# Counts and sizes: srs-benchmark's README, and FSRS-Anki-20k's card on the hub.
PUBLISHED = (
    Published("anki-revlogs-10k", "parquet", "10,000 users, 727 million reviews, several GB"),
    Published("FSRS-Anki-20k", "csv", "20,000 users, 1.7 billion reviews, about 20 GB"),
)
CONDITIONS = "lets you use the data and forbids to pass them on"
"""What the licences of these say."""


def page_of(repo: str) -> str:
    """The page of a data set on the hub, where its conditions are accepted."""
    return f"https://huggingface.co/datasets/{repo}"


@dataclass(frozen=True)
class Dataset:
    """A data-set folder. Users are read one by one, when asked for."""

    folder: Path

    @cached_property
    def layout(self) -> Layout:
        return "parquet" if any(_numbered(self.folder / "revlogs", _USER)) else "csv"

    @cached_property
    def users(self) -> list[int]:
        """Ids of the users with reviews, ascending."""
        if self.layout == "csv":
            return sorted(self._tables)
        return sorted(user for user, _ in _numbered(self.folder / "revlogs", _USER))

    def load(self, user: int) -> ReviewLog:
        """The rows, cards and decks of one user.

        Raises InputError if there is no such user or a file of theirs cannot be read. Users
        without cards or decks files have none (their reviews are MISSING in partitions).
        """
        revlogs = self.parts("revlogs", user)
        if not revlogs:
            folder = self.folder / "revlogs" / f"user_id={user}"
            if self.layout == "parquet" and folder.is_dir():
                raise InputError(f"{printable(folder)} holds no parquet file; download it again.")
            raise InputError(
                f"{printable(self.folder)} has no user {user}; it holds {_span(self.users)}."
            )
        if self.layout == "csv":
            return _load_table(revlogs[0], user)
        rows = Rows(*_read(revlogs, _ROW_COLUMNS))
        notes = []
        card, note, deck = _read(self.parts("cards", user), ("card_id", "note_id", "deck_id"))
        if not len(card):
            notes.append(_without("cards"))
        card, first = np.unique(card, return_index=True)
        columns = _read(self.parts("decks", user), ("deck_id", "parent_id", "preset_id"))
        decks = {
            key: Deck(id=key, name="", preset_id=preset, parent_id=None if parent < 0 else parent)
            for key, parent, preset in np.array(columns).T.tolist()
        }
        if not decks:
            notes.append(_without("decks"))
        return ReviewLog(
            import_summary=ImportSummary(
                path=str(revlogs[0]),
                format=f"anki-revlogs-10k, user {user}",
                entries_read=len(rows),
                notes=tuple(notes),
            ),
            rows=rows,
            cards=Cards(card, note[first], deck[first], np.zeros(len(card), np.bool_)),
            decks=decks,
            presets=unnamed_presets(decks),
            user=user,
        )

    @property
    def missing_tables(self) -> tuple[str, ...]:
        """ "cards" and "decks", as far as the data set has no folder of that name."""
        if self.layout == "csv":
            return TABLES[1:]
        return tuple(table for table in TABLES[1:] if not (self.folder / table).is_dir())

    def parts(self, table: str, user: int) -> list[Path]:
        """The files that hold one of TABLES for a user, in their order."""
        if self.layout == "csv":
            return [self._tables[user]] if table == "revlogs" and user in self._tables else []
        folder = self.folder / table / f"user_id={user}"
        with file_errors(folder):
            return sorted(folder.glob("*.parquet")) if folder.is_dir() else []

    @cached_property
    def _tables(self) -> dict[int, Path]:
        """The csv file of each user. Raises InputError where one has two."""
        found: dict[int, Path] = {}
        for home in (self.folder, self.folder / "dataset"):
            folders = [home, *(path for _, path in sorted(_numbered(home, _NUMBER)))]
            for user, path in (each for folder in folders for each in _numbered(folder, _TABLE)):
                if user in found:
                    raise InputError(
                        f"User {user} has two files, {printable(found[user])} and "
                        f"{printable(path)}; keep one of them."
                    )
                found[user] = path
        return found


def open_dataset(folder: str | Path) -> Dataset:
    """A data set by its folder, or by name if it lies in the user's data folder.

    Raises InputError if there is none, and NotInstalled if it is parquet without pyarrow.
    """
    path = Path(folder)
    with file_errors(path):
        path = path.expanduser()
        exists = path.exists()
    if not exists and re.fullmatch(r"[\w.+-]+", str(folder)):
        path = datasets_folder() / str(folder)
        if not path.is_dir():
            _refuse_not_downloaded(path, str(folder))
            raise InputError(
                f"There is no data set {printable(folder)}: neither a folder of that name here "
                f"nor {printable(path)}; give a folder in the anki-revlogs-10k layout."
            )
    if not path.is_dir():
        if not exists:
            _refuse_not_downloaded(path, str(folder))
        raise InputError(f"{printable(path)} is no folder; give the data set's folder.")
    dataset = Dataset(path)
    if dataset.users:
        if dataset.layout == "parquet":
            require("pyarrow", printable(path))
        return dataset
    if (path / "revlogs").is_dir():
        raise InputError(f"{printable(path / 'revlogs')} has no users (folders user_id=N).")
    raise InputError(
        f"{printable(path)} is no data set: it has no folder 'revlogs' with user_id=N/data.parquet "
        "in it, as in anki-revlogs-10k, and no N.csv, as in FSRS-Anki-20k."
    )


def _refuse_not_downloaded(path: Path, asked: str) -> None:
    """Raise InputError that says how to get a published data set, if it is one that is missing."""
    known = next((each for each in PUBLISHED if each.name == path.name), None)
    if known is None:
        return
    target = known.name if asked == known.name else f'"{printable(asked)}"'
    command = f"srs-eval dataset download {target}"
    raise InputError(
        f"{known.name} is not on this computer. `{command}` fetches it ({known.size}; with --users "
        f"1-100 a part of it) when you have accepted its licence on {page_of(known.repo)}, which "
        f"{CONDITIONS}. To try without it, make a data set of the simulated learner: `srs-eval "
        f'dataset make "{DEMO_FILE}" --out demo`, then `srs-eval batch --dataset demo`.'
    )


def is_dataset(folder: Path) -> bool:
    """Whether a folder looks like a data set, of whatever quality."""
    return (folder / "revlogs").is_dir() or bool(Dataset(folder).users)


def rows_in(part: Path) -> int:
    """How many rows a file holds by its own account; nothing but that is read.

    Raises InputError where that cannot be found out.
    """
    import pyarrow
    import pyarrow.parquet

    with file_errors(part), open(part, "rb") as source:
        if part.suffix == ".csv":
            lines, last = 0, b"\n"
            while block := source.read(1 << 20):
                lines, last = lines + block.count(b"\n"), block[-1:]
            return max(0, lines + (last != b"\n") - 1)
        try:
            return int(pyarrow.parquet.ParquetFile(source).metadata.num_rows)
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise _damaged(part, error) from error


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
            for column in names:
                _refuse_other_types(table.column(column).type, column, name)
            return [_integers(table.column(column)) for column in names]
        except MemoryError as error:
            raise InputError(
                f"{name} needs more memory than is free, or is damaged; fewer --jobs leave more "
                "for each."
            ) from error
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise _damaged(part, error) from error


def _damaged(part: Path, error: Exception) -> InputError:
    return InputError(
        f"{printable(part)} is damaged or no parquet file of integers "
        f"({printable(error, 100)}); download it again."
    )


def _load_table(path: Path, user: int) -> ReviewLog:
    """A user's csv file. Without a table of cards: what rests on decks is skipped."""
    name = printable(path)
    table = table_in(path, read_start(path, START_BYTES), name, of_dataset=True)
    if table is None or table.rows is None:
        raise InputError(
            f"{name} is no table of reviews as in FSRS-Anki-20k (card_id, review_th, elapsed_days, "
            "rating ...); download it again."
        )
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=f"FSRS-Anki-20k, user {user}",
            entries_read=len(table.rows) + table.left_out,
            notes=(*table.notes, _without("cards"), _without("decks")),
        ),
        rows=table.rows,
        cards=Cards.empty(),
        decks={},
        presets={},
        user=user,
    )


def _numbered(folder: Path, pattern: str) -> Iterator[tuple[int, Path]]:
    """The entries of a folder whose name holds a number; none where there is no such folder."""
    with file_errors(folder):
        for entry in folder.iterdir() if folder.is_dir() else ():
            if number := re.fullmatch(pattern, entry.name):
                yield int(number[1]), entry


def _refuse_other_types(kind: pyarrow.DataType, column: str, name: str) -> None:
    """Raise InputError for what only looks like a number where it is cast: true, text, dates."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        shown = "true and false" if types.is_boolean(kind) else f"values of the type {kind}"
        raise InputError(
            f"{name} holds {shown} in its column {column!r}, where whole numbers belong; write "
            "that column as integers."
        )


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


# Some of the users


def select_users(
    available: Sequence[int], ranges: str | None = None, max_user_id: int | None = None
) -> list[int]:
    """The users that `1-1000,1005` and an upper bound leave, ascending.

    A range takes what there is in it; a single id that is not there raises InputError, and
    so does a selection without anyone.
    """
    chosen = set(available)
    if ranges is not None:
        spans = id_spans(ranges)
        for first, last in spans:
            if first == last and first not in chosen:
                raise InputError(f"--users: there is no user {first} in this data set.")
        ordered = sorted(available)
        chosen = {user for span in spans for user in _within(ordered, *span)}
    if max_user_id is not None:
        chosen = {user for user in chosen if user <= max_user_id}
    if not chosen:
        raise InputError(
            f"No user is selected: the data set has {len(available)}, "
            f"ids {min(available)} to {max(available)}."
        )
    return sorted(chosen)


def shard_of(users: Sequence[int], shard: str) -> list[int]:
    """The users of part K of N, given as "K/N": every Nth from the Kth on, so that parts are alike.

    None where there are fewer users than that. Raises InputError for what is no part.
    """
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", shard)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f'--shard takes a part such as 3/16, from 1/16 to 16/16, not "{shard}".')
    return list(users)[int(match[1]) - 1 :: int(match[2])]


def absent_users(
    available: Sequence[int], ranges: str, max_user_id: int | None = None
) -> list[tuple[int, int]]:
    """First and last id of each gap that the data set has in `1-1000,1005`, ascending."""
    spans: list[tuple[int, int]] = []  # without overlaps
    for first, last in sorted(id_spans(ranges)):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    gaps = []
    ordered = sorted(available)
    for first, last in spans:
        if max_user_id is not None:
            last = min(last, max_user_id)
        borders = [first - 1, *_within(ordered, first, last), last + 1]
        gaps += [(a + 1, b - 1) for a, b in itertools.pairwise(borders) if b - a > 1]
    return gaps


def _within(ordered: Sequence[int], first: int, last: int) -> Sequence[int]:
    return ordered[bisect.bisect_left(ordered, first) : bisect.bisect_right(ordered, last)]


def id_spans(ranges: str) -> list[tuple[int, int]]:
    """First and last id of each part of `1-1000,1005`; raises InputError for other words."""
    spans = []
    for part in ranges.split(","):
        match = re.fullmatch(r"\s*(\d{1,15})\s*(?:-\s*(\d{1,15})\s*)?", part)
        if not match:
            raise InputError(
                f'--users takes ids and ranges such as 1-1000,1005; "{part.strip()}" is neither.'
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f'--users: "{part.strip()}" ends before it begins.')
        spans.append((first, last))
    return spans


# A data set of one's own


def make_dataset(logs: Iterable[tuple[Path, ReviewLog]], out: Path) -> tuple[int, Path]:
    """Write the logs of some files as users 1, 2 ... of a new folder; reviews, and a mapping file.

    The mapping file lies beside the folder, as OUT-mapping.csv: each user's file, and what the
    numbers of cards, notes, decks and presets stand for. Raises InputError where either is there
    already, where a file cannot be used, and where two hold the same reviews; then nothing is left.
    """
    mapping = out.with_name(f"{out.name}-mapping.csv")
    for path in (out, mapping):
        if os.path.lexists(path):
            raise InputError(f'"{path}" is there already: name a new folder with --out.')
    check_outputs([mapping])
    lines: list[tuple[object, ...]] = [("user", "kind", "number", "original")]
    seen, reviews = dict[str, Path](), 0
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".srs-eval-") as place:
            made = Path(place, "made")
            for user, (path, log) in enumerate(logs, start=1):
                same = seen.setdefault(log.fingerprint(), path)
                if len(seen) < user:
                    raise InputError(
                        f'"{printable(path)}" and "{printable(same)}" hold the same reviews: '
                        "leave one of them out."
                    )
                lines.append((user, "file", None, str(path)))
                written, known = write_user(made, user, log)
                if not written:
                    raise InputError(
                        f'"{printable(path)}" has no review that counts: leave it out.'
                    )
                reviews += written
                for kind, ids in known.items():
                    lines += ((user, kind, number, each) for number, each in enumerate(ids))
            Path(place, "mapping").write_text(csv_text(lines), encoding="utf-8")
            Path(place, "mapping").rename(mapping)
            made.rename(out)
    except OSError as error:
        raise InputError(f'"{out}" cannot be written ({error.strerror or error}).') from None
    return reviews, mapping


def write_user(folder: Path, user: int, log: ReviewLog) -> tuple[int, Mapping[str, list[int]]]:
    """Write `{revlogs,cards,decks}/user_id=N/data.parquet`; reviews, what 0, 1, 2 ... stand for.

    Rows are chosen by the data-set builder's rule (`data.rows`), and no moment, name or setting is
    written. As there, filtered decks are left out and a deck without a parent has parent -1.
    """
    import pyarrow
    import pyarrow.parquet

    rows = select_rows(log, "benchmark").rows
    decks = ((d.id, d.parent_id, d.preset_id) for d in log.decks.values() if not d.filtered)
    told = [[MISSING if each is None else each for each in deck] for deck in decks]
    columns = np.array(told, np.int64).reshape(-1, 3).T
    tables: dict[str, dict[str, IntArray]] = {
        "revlogs": dict(zip(_ROW_COLUMNS, vars(rows).values(), strict=False)),
        "cards": {name: getattr(log.cards, name) for name in ("card_id", "note_id", "deck_id")},
        "decks": dict(zip(("deck_id", "parent_id", "preset_id"), columns, strict=True)),
    }
    known = {}
    for kind in ("card", "note", "deck", "preset"):
        ids = [
            (table, name)
            for table in tables.values()
            for name in table
            if name == f"{kind}_id" or (kind, name) == ("deck", "parent_id")
        ]
        found = np.unique(np.concatenate([table[name] for table, name in ids]))
        found = found[found != MISSING]
        for table, name in ids:
            number = np.searchsorted(found, table[name])
            table[name] = np.where(table[name] == MISSING, MISSING, number)
        known[kind] = found.tolist()
    for name, table in tables.items():
        if name == "revlogs" or log.knows_decks:
            target = folder / name / f"user_id={user}"
            target.mkdir(parents=True, exist_ok=True)
            pyarrow.parquet.write_table(pyarrow.table(table), target / "data.parquet")
    return len(rows), known
