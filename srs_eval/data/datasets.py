"""Read data sets of many users, one user at a time, and write new ones.

Two layouts are read:

- parquet: `{revlogs,cards,decks}/user_id=N/*.parquet`, the layout of anki-revlogs-10k (open-spaced-
  repetition/anki-revlogs-dataset-builder: build_parquet.py). anki-revlogs-10k-id has the same
  layout with Anki's own ids and one more column, review_time, which is not needed here;
- csv: `N.csv`, in `dataset/1` and `dataset/2` of FSRS-Anki-20k (its card on the hub), without
  decks and without days.

Logs of several people can be written as a data set in the first layout, with ids that reveal
nothing.
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

from srs_eval.data.errors import InputError, format_count, format_csv, printable, require
from srs_eval.data.outputs import check_outputs
from srs_eval.data.paths import DEMO_FILE, data_dir
from srs_eval.data.readers.files import START_BYTES, file_errors, read_start
from srs_eval.data.readers.table import read_table
from srs_eval.data.reviews import (
    MISSING,
    Cards,
    Deck,
    ImportSummary,
    IntArray,
    ReviewLog,
    Rows,
    make_unnamed_presets,
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
_MAX_ROWS = 50_000_000  # of one user
_ID_PATTERN = r"(0|[1-9][0-9]{0,14})"
_USER_FOLDER_PATTERN = f"user_id={_ID_PATTERN}"
_CSV_NAME_PATTERN = rf"{_ID_PATTERN}\.csv"
TABLES = ("revlogs", "cards", "decks")
Layout = Literal["parquet", "csv"]


@dataclass(frozen=True)
class PublishedDataset:
    """A data set on the Hugging Face hub, for users who accept its conditions."""

    name: str
    layout: Layout
    size: str  # in words

    @property
    def repo(self) -> str:
        return f"open-spaced-repetition/{self.name}"


# Counts and sizes: srs-benchmark's README, and FSRS-Anki-20k's card on the hub.
PUBLISHED_DATASETS = (
    PublishedDataset(
        "anki-revlogs-10k", "parquet", "10,000 users, 727 million reviews, several GB"
    ),
    PublishedDataset("FSRS-Anki-20k", "csv", "20,000 users, 1.7 billion reviews, about 20 GB"),
)
LICENCE_TERMS = "allows you to use the data but not to pass it on"
"""What each of their licences does, in words."""


def hub_url(repo: str) -> str:
    """Return the URL of a data set's page on the hub, where users accept its conditions."""
    return f"https://huggingface.co/datasets/{repo}"


@dataclass(frozen=True)
class Dataset:
    """A data-set folder, whose users are read one by one on request."""

    folder: Path

    @cached_property
    def layout(self) -> Layout:
        user_folders = _numbered_entries(self.folder / "revlogs", _USER_FOLDER_PATTERN)
        return "parquet" if any(user_folders) else "csv"

    @cached_property
    def users(self) -> list[int]:
        """Return the ids of the users with reviews, ascending."""
        if self.layout == "csv":
            return sorted(self._csv_files)
        return sorted(
            user for user, _ in _numbered_entries(self.folder / "revlogs", _USER_FOLDER_PATTERN)
        )

    def load(self, user: int) -> ReviewLog:
        """Load the rows, cards and decks of one user.

        Raises InputError if there is no such user or one of the user's files cannot be read. Users
        without files of cards or decks have none (their reviews are MISSING in partitions).
        """
        revlogs = self.table_files("revlogs", user)
        if not revlogs:
            folder = self.folder / "revlogs" / f"user_id={user}"
            if self.layout == "parquet" and folder.is_dir():
                raise InputError(f"{printable(folder)} holds no parquet file; download it again.")
            raise InputError(
                f"{printable(self.folder)} has no user {user}; "
                f"it holds {_describe_users(self.users)}."
            )
        if self.layout == "csv":
            return _load_csv(revlogs[0], user)
        rows = Rows(*_read_columns(revlogs, _ROW_COLUMNS))
        notes = []
        card, note, deck = _read_columns(
            self.table_files("cards", user), ("card_id", "note_id", "deck_id")
        )
        if not len(card):
            notes.append(_missing_table_note("cards"))
        card, first_positions = np.unique(card, return_index=True)
        columns = _read_columns(
            self.table_files("decks", user), ("deck_id", "parent_id", "preset_id")
        )
        decks = {}
        for key, parent, preset in np.array(columns).T.tolist():
            parent_id = None if parent < 0 else parent
            decks[key] = Deck(id=key, name="", preset_id=preset, parent_id=parent_id)
        if not decks:
            notes.append(_missing_table_note("decks"))
        return ReviewLog(
            import_summary=ImportSummary(
                path=str(revlogs[0]),
                format=f"anki-revlogs-10k, user {user}",
                entries_read=len(rows),
                notes=tuple(notes),
            ),
            rows=rows,
            cards=Cards(
                card_id=card,
                note_id=note[first_positions],
                deck_id=deck[first_positions],
                suspended=np.zeros(len(card), np.bool_),
            ),
            decks=decks,
            presets=make_unnamed_presets(decks),
            user=user,
        )

    @property
    def missing_tables(self) -> tuple[str, ...]:
        """Return the tables ("cards", "decks") for which the data set has no folder."""
        if self.layout == "csv":
            return TABLES[1:]
        return tuple(table for table in TABLES[1:] if not (self.folder / table).is_dir())

    def table_files(self, table: str, user: int) -> list[Path]:
        """Return the files that hold one of TABLES for a user, in their order."""
        if self.layout == "csv":
            if table != "revlogs" or user not in self._csv_files:
                return []
            return [self._csv_files[user]]
        folder = self.folder / table / f"user_id={user}"
        with file_errors(folder):
            return sorted(folder.glob("*.parquet")) if folder.is_dir() else []

    @cached_property
    def _csv_files(self) -> dict[int, Path]:
        """Return the csv file of each user. Raises InputError if a user has two."""
        files: dict[int, Path] = {}
        for home in (self.folder, self.folder / "dataset"):
            numbered_folders = sorted(_numbered_entries(home, _ID_PATTERN))
            folders = [home, *(path for _, path in numbered_folders)]
            for folder in folders:
                for user, path in _numbered_entries(folder, _CSV_NAME_PATTERN):
                    if user in files:
                        raise InputError(
                            f"User {user} has two files, {printable(files[user])} and "
                            f"{printable(path)}; keep one of them."
                        )
                    files[user] = path
        return files


def open_dataset(folder: str | Path) -> Dataset:
    """Open a data set by its folder, or by its name if it lies in the user's data folder.

    Raises InputError if there is none, and NotInstalled if it is parquet and pyarrow is missing.
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
                f"There is no data set {printable(folder)}: no folder here has that name, and "
                f"there is no folder {printable(path)}; give a folder in the anki-revlogs-10k "
                "layout."
            )
    if not path.is_dir():
        if not exists:
            _refuse_not_downloaded(path, str(folder))
        raise InputError(f"{printable(path)} is not a folder; give the data set's folder.")
    dataset = Dataset(path)
    if dataset.users:
        if dataset.layout == "parquet":
            require("pyarrow", printable(path))
        return dataset
    if (path / "revlogs").is_dir():
        raise InputError(f"{printable(path / 'revlogs')} has no users (folders user_id=N).")
    raise InputError(
        f"{printable(path)} is not a data set: it has no folder 'revlogs' with "
        "user_id=N/data.parquet in it, as in anki-revlogs-10k, and no N.csv, as in FSRS-Anki-20k."
    )


def _refuse_not_downloaded(path: Path, requested: str) -> None:
    """Raise InputError with download instructions if the missing folder is a published data set."""
    for dataset in PUBLISHED_DATASETS:
        if dataset.name == path.name:
            break
    else:
        return
    target = dataset.name if requested == dataset.name else f'"{printable(requested)}"'
    command = f"srs-eval dataset download {target}"
    raise InputError(
        f"{dataset.name} is not on this computer. `{command}` downloads it ({dataset.size}; "
        "with --users 1-100, only a part) after you have accepted its licence on "
        f"{hub_url(dataset.repo)}, which {LICENCE_TERMS}. To try without it, make a data set of "
        f'the simulated learner: `srs-eval dataset make "{DEMO_FILE}" --out demo`, then `srs-eval '
        "batch --dataset demo`."
    )


def is_dataset(folder: Path) -> bool:
    """Return whether a folder looks like a data set, even a damaged one."""
    return (folder / "revlogs").is_dir() or bool(Dataset(folder).users)


def count_rows(path: Path) -> int:
    """Return the number of rows of a file without parsing them.

    Parquet files state it; in csv files the lines below the header are counted. Raises InputError
    if the number cannot be determined.
    """
    import pyarrow
    import pyarrow.parquet

    with file_errors(path), open(path, "rb") as source:
        if path.suffix == ".csv":
            lines = 0
            last_byte = b"\n"
            while block := source.read(1 << 20):
                lines += block.count(b"\n")
                last_byte = block[-1:]
            if last_byte != b"\n":
                lines += 1
            return max(0, lines - 1)
        try:
            return int(pyarrow.parquet.ParquetFile(source).metadata.num_rows)
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise _damaged_file_error(path, error) from error


def datasets_folder() -> Path:
    """Return the folder of downloaded data sets, which may not exist."""
    return data_dir() / "datasets"


def _read_columns(files: list[Path], columns: tuple[str, ...]) -> tuple[IntArray, ...]:
    """Read the named columns of all files and join them (int64); empty if there is no file."""
    tables = [_read_file_columns(file, columns) for file in files]
    empty = np.empty(0, np.int64)  # there may be no file
    joined = []
    for position in range(len(columns)):
        columns_of_files = [table[position] for table in tables]
        joined.append(np.concatenate([empty, *columns_of_files]))
    return tuple(joined)


def _read_file_columns(path: Path, columns: tuple[str, ...]) -> list[IntArray]:
    import pyarrow
    import pyarrow.parquet

    name = printable(path)
    with file_errors(path), open(path, "rb") as source:
        try:
            file = pyarrow.parquet.ParquetFile(source)
            column_names = file.schema_arrow.names
            missing = [column for column in columns if column_names.count(column) != 1]
            if missing:
                raise InputError(
                    f"{name} lacks the column {missing[0]!r}; "
                    "expected the layout of anki-revlogs-10k."
                )
            if file.metadata.num_rows > _MAX_ROWS:
                raise InputError(f"{name} has too many rows to be one user's reviews.")
            table = file.read(columns=list(columns), use_threads=False)
            for column in columns:
                _refuse_non_numeric(table.column(column).type, column, name)
            return [_to_integers(table.column(column)) for column in columns]
        except MemoryError as error:
            raise InputError(
                f"{name} needs more memory than is free, or is damaged; give a smaller --jobs "
                "so that each worker has more memory."
            ) from error
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise _damaged_file_error(path, error) from error


def _damaged_file_error(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{printable(path)} is damaged or not a parquet file of integers "
        f"({printable(error, 100)}); download it again."
    )


def _load_csv(path: Path, user: int) -> ReviewLog:
    """Load a user's csv file. Without tables of cards and decks, what needs decks is skipped."""
    name = printable(path)
    table = read_table(path, read_start(path, START_BYTES), name, is_dataset_file=True)
    if table is None or table.rows is None:
        raise InputError(
            f"{name} is not a table of reviews as in FSRS-Anki-20k (card_id, review_th, "
            "elapsed_days, rating ...); download it again."
        )
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=f"FSRS-Anki-20k, user {user}",
            entries_read=len(table.rows) + table.excluded,
            notes=(*table.notes, _missing_table_note("cards"), _missing_table_note("decks")),
        ),
        rows=table.rows,
        cards=Cards.empty(),
        decks={},
        presets={},
        user=user,
    )


def _numbered_entries(folder: Path, pattern: str) -> Iterator[tuple[int, Path]]:
    """Yield number and path of each entry of a folder whose name matches; the folder may not exist.

    The number is the first group of the pattern.
    """
    with file_errors(folder):
        if not folder.is_dir():
            return
        for entry in folder.iterdir():
            match = re.fullmatch(pattern, entry.name)
            if match:
                yield int(match[1]), entry


def _refuse_non_numeric(kind: pyarrow.DataType, column: str, name: str) -> None:
    """Raise InputError for types that a cast would turn into numbers: booleans, text, dates."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        content = "true and false" if types.is_boolean(kind) else f"values of the type {kind}"
        raise InputError(
            f"{name} holds {content} in its column {column!r}, where whole numbers belong; save "
            "that column as integers."
        )


def _to_integers(column: pyarrow.ChunkedArray) -> IntArray:
    import pyarrow

    if column.null_count:
        raise ValueError("a value is missing")
    integers = column.cast(pyarrow.int64())  # refuses fractions and overflow
    return np.array(integers.to_numpy(), dtype=np.int64)


def _missing_table_note(table: str) -> str:
    return (
        f"There is no table of {table} for this user: everything that needs decks (SM2, Ebisu, "
        "--partitions) is skipped."
    )


def _describe_users(users: list[int]) -> str:
    if len(users) <= 5:
        return "users " + ", ".join(map(str, users))
    return f"{len(users):,} users, {users[0]} to {users[-1]}"


# Selections of users


def select_users(
    available: Sequence[int],
    ranges: str | None = None,
    max_user_id: int | None = None,
    *,
    option: str = "--users",
) -> list[int]:
    """Return the users selected by ranges such as `1-1000,1005` and an upper bound, ascending.

    A range selects the ids that exist in it. `option` is what errors call the ranges. Raises
    InputError for a single id that does not exist, and for a selection without any user.
    """
    selected = set(available)
    if ranges is not None:
        spans = parse_id_ranges(ranges)
        for first, last in spans:
            if first == last and first not in selected:
                raise InputError(f"{option}: there is no user {first} in this data set.")
        ordered = sorted(available)
        selected = set()
        for first, last in spans:
            selected.update(_ids_between(ordered, first, last))
    if max_user_id is not None:
        selected = {user for user in selected if user <= max_user_id}
    if not selected:
        raise InputError(
            f"No user is selected: the data set has {format_count(len(available), 'user')}, "
            f"with ids {min(available)} to {max(available)}."
        )
    return sorted(selected)


def select_shard(users: Sequence[int], shard: str) -> list[int]:
    """Return the users of part K of N, given as "K/N".

    These are every Nth user from the Kth on, so that the parts are similar. The list is empty if
    there are fewer than K users. Raises InputError for text that does not name a part.
    """
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", shard)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f'--shard takes a part such as 3/16, from 1/16 to 16/16, not "{shard}".')
    return list(users)[int(match[1]) - 1 :: int(match[2])]


def find_missing_id_ranges(
    available: Sequence[int], ranges: str, max_user_id: int | None = None
) -> list[tuple[int, int]]:
    """Return the gaps between `available` ids in ranges such as `1-1000,1005`, ascending.

    A gap is a pair: the first and the last missing id.
    """
    spans: list[tuple[int, int]] = []  # ascending, without overlaps
    for first, last in sorted(parse_id_ranges(ranges)):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    gaps = []
    ordered = sorted(available)
    for first, last in spans:
        if max_user_id is not None:
            last = min(last, max_user_id)
        borders = [first - 1, *_ids_between(ordered, first, last), last + 1]
        for lower, upper in itertools.pairwise(borders):
            if upper - lower > 1:
                gaps.append((lower + 1, upper - 1))
    return gaps


def _ids_between(ordered: Sequence[int], first: int, last: int) -> Sequence[int]:
    return ordered[bisect.bisect_left(ordered, first) : bisect.bisect_right(ordered, last)]


def parse_id_ranges(ranges: str) -> list[tuple[int, int]]:
    """Return first and last id of each part of `1-1000,1005`. Raises InputError for other text."""
    spans = []
    for text in ranges.split(","):
        match = re.fullmatch(r"\s*(\d{1,15})\s*(?:-\s*(\d{1,15})\s*)?", text)
        if not match:
            raise InputError(
                f'--users takes ids and ranges such as 1-1000,1005; "{text.strip()}" is neither.'
            )
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first:
            raise InputError(f'--users: "{text.strip()}": the end of the range is below its start.')
        spans.append((first, last))
    return spans


def format_id_ranges(ids: Iterable[int]) -> str:
    """Return ids as `parse_id_ranges` reads them, ascending: `1-1000,1005`."""
    spans: list[tuple[int, int]] = []
    for number in sorted(ids):
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return ",".join(texts)


# Writing a data set


def make_dataset(logs: Iterable[tuple[Path, ReviewLog]], out: Path) -> tuple[int, Path]:
    """Write the logs of some files as users 1, 2 ... of a new folder.

    Returns the number of reviews, and the mapping file. That file lies beside the folder, as
    OUT-mapping.csv: it lists each user's file, and the original ids behind the numbers of cards,
    notes, decks and presets. Raises InputError if the folder or the mapping file exists, if a file
    cannot be used, or if two files hold the same reviews; then nothing is left.
    """
    mapping = out.with_name(f"{out.name}-mapping.csv")
    for path in (out, mapping):
        if os.path.lexists(path):
            raise InputError(f'"{path}" exists already: name a new folder with --out.')
    check_outputs([mapping])
    lines: list[tuple[object, ...]] = [("user", "kind", "number", "original")]
    path_of_log = dict[str, Path]()  # by the log's fingerprint
    review_count = 0
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".srs-eval-") as workspace:
            dataset_folder = Path(workspace, "made")
            for user, (path, log) in enumerate(logs, start=1):
                fingerprint = log.fingerprint()
                if fingerprint in path_of_log:
                    earlier_path = path_of_log[fingerprint]
                    raise InputError(
                        f'"{printable(path)}" and "{printable(earlier_path)}" hold the same '
                        "reviews: leave one of them out."
                    )
                path_of_log[fingerprint] = path
                lines.append((user, "file", None, str(path)))
                user_review_count, original_ids = write_user(dataset_folder, user, log)
                if not user_review_count:
                    raise InputError(f'"{printable(path)}" has no usable review: leave it out.')
                review_count += user_review_count
                for kind, ids in original_ids.items():
                    for number, original_id in enumerate(ids):
                        lines.append((user, kind, number, original_id))
            temporary_mapping = Path(workspace, "mapping")
            temporary_mapping.write_text(format_csv(lines), encoding="utf-8")
            temporary_mapping.rename(mapping)
            dataset_folder.rename(out)
    except OSError as error:
        raise InputError(f'"{out}" cannot be written ({error.strerror or error}).') from None
    return review_count, mapping


def write_user(folder: Path, user: int, log: ReviewLog) -> tuple[int, Mapping[str, list[int]]]:
    """Write a user's log as `{revlogs,cards,decks}/user_id=N/data.parquet`.

    Returns the number of reviews, and by kind the original ids behind the numbers 0, 1, 2 ...
    Rows are chosen by the data-set builder's rule (`data.rows`), and no time, name or setting is
    written. As in the builder's data, filtered decks are left out and a deck without a parent has
    parent -1.
    """
    import pyarrow
    import pyarrow.parquet

    rows = select_rows(log, "benchmark").rows
    decks = []
    for deck in log.decks.values():
        if not deck.filtered:
            parent = MISSING if deck.parent_id is None else deck.parent_id
            preset = MISSING if deck.preset_id is None else deck.preset_id
            decks.append((deck.id, parent, preset))
    deck_columns = np.array(decks, np.int64).reshape(-1, 3).T
    tables: dict[str, dict[str, IntArray]] = {
        # _ROW_COLUMNS are the first fields of `Rows`, in the same order.
        "revlogs": dict(zip(_ROW_COLUMNS, vars(rows).values(), strict=False)),
        "cards": {name: getattr(log.cards, name) for name in ("card_id", "note_id", "deck_id")},
        "decks": dict(zip(("deck_id", "parent_id", "preset_id"), deck_columns, strict=True)),
    }
    # Replace all ids of a kind by the numbers 0, 1, 2 ..., the same ones in all tables.
    original_ids = {}
    for kind in ("card", "note", "deck", "preset"):
        names = [f"{kind}_id"]
        if kind == "deck":
            names.append("parent_id")
        id_columns = []
        for table in tables.values():
            id_columns += [(table, name) for name in table if name in names]
        ids = np.unique(np.concatenate([table[name] for table, name in id_columns]))
        ids = ids[ids != MISSING]
        for table, name in id_columns:
            number = np.searchsorted(ids, table[name])
            table[name] = np.where(table[name] == MISSING, MISSING, number)
        original_ids[kind] = ids.tolist()
    for name, table in tables.items():
        if name == "revlogs" or log.has_decks:
            target = folder / name / f"user_id={user}"
            target.mkdir(parents=True, exist_ok=True)
            pyarrow.parquet.write_table(pyarrow.table(table), target / "data.parquet")
    return len(rows), original_ids
