"""Store the results of a batch on disk: whole units only, even if the run is killed.

A unit is the outcome of one configuration on one user. Each is one line with a checksum in an
append-only journal, OUT/.journal/CONFIGURATION.jsonl. The files that people read (result/,
timing/, failed/, skipped/) are made from the journal, and each is replaced in one step. So a killed
run loses the units that it was working on and nothing else.
"""

from __future__ import annotations

import glob
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from srs_eval.benchmark.file_names import FileNaming
from srs_eval.benchmark.setup import (
    SETUP_FILE,
    encode_json,
    find_disagreement,
    merge_setup_from,
    merge_setups,
    read_setup,
)
from srs_eval.data.errors import InputError, is_installed
from srs_eval.data.file_contents import write_atomically
from srs_eval.data.outputs import JOURNAL

Status = Literal["done", "failed", "skipped"]
_READABLE_FOLDERS = ("result", "timing", "failed", "skipped")
_UNIT_FILES = {
    "raw": "raw/{configuration}/user_id={user}.parquet",
    "file": "evaluation/{configuration}/{user}.tsv",
    "plot": "evaluation/{configuration}/calibration-retention-{user}.png",
}
"""Paths of the files that a batch keeps of a unit on request, by kind."""
AUDIT_FILE = "audit.json"  # in the folder of an audit
PUBLISHED_FOLDER = "published"  # results as published, within the folder of an audit
TUNED_FOLDER = "tuned"  # results with tuned training, beside them
_AUDIT_FOLDERS = (PUBLISHED_FOLDER, TUNED_FOLDER)


@dataclass(frozen=True)
class Unit:
    """The outcome of one configuration on one user."""

    configuration: str
    user: int
    status: Status
    line: Mapping[str, Any] | None = None  # result line in srs-benchmark's form, if done
    reason: str = ""  # one sentence, if failed or skipped
    lacked: str = ""  # the module that was missing, if the unit was skipped for that
    detail: str = ""  # traceback, if failed
    seconds: float = 0.0
    cpu_seconds: float | None = None  # processor time of this process only
    peak_mb: float = 0.0
    notes: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)  # by kind, the requested files

    @property
    def log_loss(self) -> float:
        """The unit's log loss; nan if the unit is not done."""
        return math.nan if self.line is None else float(self.line["metrics"]["LogLoss"])


def _foreign_file_error(path: Path) -> InputError:
    return InputError(f'"{path}" is not from a batch in this folder: choose another --out.')


def refuse_audit_folder(folder: Path) -> None:
    """Raise InputError for a folder that an audit writes to: its journal is not a batch's."""
    path = folder.resolve()
    candidates = [path]
    for ancestor in (path, *path.parents):
        if ancestor.name in _AUDIT_FOLDERS:
            candidates.append(ancestor.parent)
    if any((candidate / AUDIT_FILE).exists() for candidate in candidates):
        raise InputError(f'"{folder}" holds an audit: choose another --out.')


class ResultStore:
    """A folder of results that only one process at a time can hold.

    `statuses` returns the status of each unit, `append` writes a unit at once, and `publish` renews
    the files that people read.
    """

    def __init__(
        self,
        folder: Path,
        setup: Mapping[str, Any],
        *,
        fresh: bool | None = False,
        redo: Collection[str] | None = None,
    ) -> None:
        """Open or create a folder for a run with this set-up.

        `setup` is JSON: `srs_eval`, `data`, `options` and `configurations` (by name) must
        agree with what is stored, except that configurations may be new. `names` says how the
        readable files are spelled (`FileNaming`); if that has changed, they are written under
        their new names. Other keys are kept for information. `fresh` deletes all earlier results
        of a batch, `redo` those of these configurations; either is None if the user has no such
        option, and messages then do not suggest it. Raises InputError if the set-ups disagree, if
        a file of another origin would be replaced, or if another process is at work.
        """
        self._fresh_hint = "" if fresh is None else ", or start over with --fresh"
        self.folder = folder
        self._naming = FileNaming.of(setup)
        self.damaged_line_count = 0  # damaged or torn journal lines
        self._journal_handles: dict[str, int] = {}
        self._unpublished: set[str] = set()  # configurations with units that were just appended
        self._exit_stack = ExitStack()  # holds the lock on the folder and the open journals
        try:
            with self._report_write_errors():
                stored = self._read_stored_setup(fresh)
                self._refuse_foreign_files(setup, stored)
                (folder / JOURNAL).mkdir(parents=True, exist_ok=True)
                refusal = f'Another batch is writing to "{folder}": wait for it.'
                self._exit_stack.callback(lock_folder(folder / JOURNAL, refusal))
                if fresh:
                    self._delete_results(stored, self.configuration_names())
                    _delete([folder / SETUP_FILE])
                self._reconcile_setup(setup, redo)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the journals and unlock the folder."""
        self._exit_stack.close()
        self._journal_handles.clear()

    def statuses(self, configuration: str) -> dict[int, Status]:
        """Return the last recorded status of each user.

        Units that were skipped because a package was missing count as not recorded once it is
        installed.
        """
        return {
            user: unit.status
            for user, unit in self._load_units(configuration).items()
            if not (unit.lacked and is_installed(unit.lacked))
        }

    def append(self, unit: Unit) -> None:
        """Add a unit; it survives the end of this process as soon as this returns.

        Raises InputError if the unit cannot be written, as on a full disk; earlier and later units
        stay whole.
        """
        with self._report_write_errors():
            # Create the journal first: it shows that the files are a batch's.
            handle = self._journal_handle(unit.configuration)
            for kind, content in unit.files.items():
                path = _unit_file_path(self.folder, kind, unit.configuration, unit.user)
                write_atomically(path, content)
            _append_line(handle, _make_record(unit))
            self._unpublished.add(unit.configuration)

    def has_file(self, kind: str, configuration: str, user: int) -> bool:
        """Return whether a unit has its file of this kind (see `_UNIT_FILES`)."""
        return _unit_file_path(self.folder, kind, configuration, user).is_file()

    def merge_from(self, folder: Path) -> int:
        """Add the units of another folder with the same set-up that are missing here.

        A unit also counts as missing if it failed here or lacked a package, and did not in the
        other folder, or if it is done in both and the other folder has more of its files
        (`_UNIT_FILES`). Returns the number of added units. Raises InputError if the set-ups differ.
        """
        setup = read_setup(self.folder)
        assert setup is not None
        merged_setup = merge_setup_from(folder, setup)
        with self._report_write_errors():
            self._refuse_foreign_files(merged_setup, setup)
            self._save_setup(merged_setup)
        added = 0
        for configuration in _list_configurations(folder):
            stored_units = self._load_units(configuration)
            other_units, damaged_line_count = _read_journal(_journal_path(folder, configuration))
            self.damaged_line_count += damaged_line_count
            for user, other in sorted(other_units.items()):
                missing_files = self._read_missing_files(folder, configuration, user)
                if _is_worth_adding(other, stored_units.get(user), missing_files):
                    self.append(replace(other, files=missing_files))
                    added += 1
        return added

    def _read_missing_files(self, folder: Path, configuration: str, user: int) -> dict[str, bytes]:
        """Read those files of a unit that another folder has and this one lacks; by kind."""
        files = {}
        for kind in _UNIT_FILES:
            path = _unit_file_path(folder, kind, configuration, user)
            if path.is_file() and not self.has_file(kind, configuration, user):
                files[kind] = path.read_bytes()
        return files

    def configuration_names(self) -> list[str]:
        """Return all configurations with units here, including those of earlier runs."""
        return _list_configurations(self.folder)

    def publish(self, *, everything: bool = False) -> None:
        """Renew the readable files of configurations with new units, or of all configurations."""
        with self._report_write_errors():
            configurations = sorted(self._unpublished)
            if everything:
                configurations = self.configuration_names()
            for configuration in configurations:
                self._publish(configuration)
        self._unpublished.clear()

    # --- internals ---

    def _load_units(self, configuration: str) -> dict[int, Unit]:
        units, damaged_line_count = _read_journal(_journal_path(self.folder, configuration))
        self.damaged_line_count += damaged_line_count
        return units

    def _journal_handle(self, configuration: str) -> int:
        """Return the handle of a configuration's journal, which is opened on first use."""
        if configuration not in self._journal_handles:
            handle = _open_journal(_journal_path(self.folder, configuration))
            self._exit_stack.callback(os.close, handle)
            self._journal_handles[configuration] = handle
        return self._journal_handles[configuration]

    @contextmanager
    def _report_write_errors(self) -> Iterator[None]:
        """Report the operating system's write errors as an InputError of one sentence."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f'Results cannot be written to "{self.folder}" ({error.strerror or error}): mend '
                "that, or choose another --out; what was finished there is kept, and the same "
                "command goes on from it."
            ) from error

    def _publish(self, configuration: str) -> None:
        if configuration in self._journal_handles:
            os.fsync(self._journal_handles[configuration])  # readable files never get ahead of it
        files = _format_readable_files(self._load_units(configuration), self._naming)
        paths = self._readable_paths(configuration, self._naming)
        for path, lines in zip(paths, files.values(), strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            if not lines:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # the folder holds other files, or does not exist
                    path.parent.rmdir()
            elif not path.exists() or path.read_bytes() != content:
                write_atomically(path, content)

    def _read_stored_setup(self, fresh: bool | None = False) -> dict[str, Any] | None:
        """Return the stored set-up; None if there is none, or a damaged one that `fresh` deletes.

        Raises InputError for any other damaged one, and for one that no batch has written.
        """
        try:
            return read_setup(self.folder)
        except InputError as error:
            if fresh and self.configuration_names():
                return None
            if fresh:
                raise _foreign_file_error(self.folder / SETUP_FILE) from None
            remedy = f"choose another --out{self._fresh_hint}"
            raise InputError(f"{str(error).removesuffix('.')}: {remedy}.") from None

    def _refuse_foreign_files(
        self, setup: Mapping[str, Any], stored: Mapping[str, Any] | None
    ) -> None:
        """Raise InputError for a file that no batch has written and that would be overwritten.

        Files of a configuration belong to a batch if its journal is there.
        """
        journals = self.configuration_names()
        written_configurations = {*setup["configurations"], *journals}
        foreign_paths: set[Path] = set()  # paths to be written that do not belong to a batch
        for configuration in written_configurations:
            foreign_paths.update(self._readable_paths(configuration, self._naming))
        stored_namings = FileNaming.possible(stored)
        for configuration in journals:
            foreign_paths.difference_update(self._readable_paths(configuration, *stored_namings))
        for configuration in written_configurations.difference(journals):
            foreign_paths.update(self._unit_file_paths(configuration))
        for path in sorted(foreign_paths):
            if os.path.lexists(path):
                raise _foreign_file_error(path)

    def _readable_paths(self, configuration: str, *namings: FileNaming) -> list[Path]:
        """Return the paths of a configuration's readable files under each of the namings."""
        paths = []
        for naming in namings:
            name = naming.file_stem(configuration)
            paths += [self.folder / folder / f"{name}.jsonl" for folder in _READABLE_FOLDERS]
        return paths

    def _unit_file_paths(self, configuration: str) -> list[Path]:
        """Return the paths of all existing unit files (`_UNIT_FILES`) of a configuration."""
        name = glob.escape(configuration)
        paths: list[Path] = []
        for template in _UNIT_FILES.values():
            paths += self.folder.glob(template.format(configuration=name, user="*"))
        return paths

    def _delete_results(
        self, stored: Mapping[str, Any] | None, configurations: Iterable[str]
    ) -> None:
        """Delete all files of these configurations; `stored` is the set-up that names them."""
        for configuration in configurations:
            readable = self._readable_paths(configuration, *FileNaming.possible(stored))
            journal = _journal_path(self.folder, configuration)
            _delete([*readable, *self._unit_file_paths(configuration), journal])

    def _reconcile_setup(self, setup: Mapping[str, Any], redo: Collection[str] | None) -> None:
        """Bring the folder into line with a run's set-up, and store both set-ups merged.

        Deletes the results of `redo` and renames readable files if `names` has changed. Raises
        InputError if the run cannot continue from what is stored.
        """
        stored = self._read_stored_setup()
        if stored is None:
            if self.configuration_names():
                raise InputError(
                    f'"{self.folder / JOURNAL}" is not from a batch in this folder: '
                    f"choose another --out{self._fresh_hint}."
                )
            self._save_setup(setup)
            return
        redone = set(stored["configurations"]).intersection(redo or ())
        remaining = {
            name: entry for name, entry in stored["configurations"].items() if name not in redone
        }
        difference = find_disagreement({**stored, "configurations": remaining}, setup)
        if difference:
            # A difference of one configuration begins with "NAME had".
            name, is_of_one_configuration, _ = difference.partition(" had ")
            redo_hint = ""
            if is_of_one_configuration and redo is not None:
                redo_hint = f", renew {name} alone with --redo {name}"
            raise InputError(
                f'The results in "{self.folder}" do not go with this run: {difference}; '
                f"run it as before, choose another --out{redo_hint}{self._fresh_hint}."
            )
        self._delete_results(stored, redone)
        stored = {**stored, "configurations": remaining}
        merged_setup = merge_setups(stored, setup)
        if "names" in setup:
            merged_setup["names"] = setup["names"]
        self._save_setup(merged_setup)
        stored_naming = FileNaming.of(stored)
        if stored_naming != self._naming:
            for configuration in self.configuration_names():
                _delete(self._readable_paths(configuration, stored_naming))
            self.publish(everything=True)

    def _save_setup(self, setup: Mapping[str, Any]) -> None:
        write_atomically(self.folder / SETUP_FILE, encode_json(setup))


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _is_settled(unit: Unit) -> bool:
    """Return whether evaluating the unit again, here or elsewhere, would give the same."""
    return unit.status != "failed" and not unit.lacked


def _is_worth_adding(other: Unit, stored: Unit | None, missing_files: Mapping[str, bytes]) -> bool:
    """Return whether `ResultStore.merge_from` adds a unit of another folder to the stored one."""
    if stored is None:
        return True
    if _is_settled(other) and not _is_settled(stored):
        return True
    both_done = stored.status == "done" and other.status == "done"
    return both_done and bool(missing_files)


def _make_record(unit: Unit) -> dict[str, Any]:
    """Return a unit as its journal stores it."""
    record: dict[str, Any] = {"user": unit.user, "status": unit.status}
    if unit.status == "done":
        record["line"] = unit.line
        record["seconds"] = round(unit.seconds, 6)
        record["peak_mb"] = round(unit.peak_mb, 1)
        if unit.cpu_seconds is not None:
            record["cpu_seconds"] = round(unit.cpu_seconds, 6)
        if unit.notes:
            record["notes"] = list(unit.notes)
        return record
    record["reason"] = unit.reason
    if unit.lacked:
        record["lacked"] = unit.lacked
    if unit.detail:
        record["detail"] = unit.detail
    return record


def _journal_path(folder: Path, configuration: str) -> Path:
    return folder / JOURNAL / f"{configuration}.jsonl"


def _unit_file_path(folder: Path, kind: str, configuration: str, user: int) -> Path:
    """Return the path of a unit's file of this kind (see `_UNIT_FILES`)."""
    return folder / _UNIT_FILES[kind].format(configuration=configuration, user=user)


def _format_readable_files(units: Mapping[int, Unit], naming: FileNaming) -> dict[str, list[str]]:
    """Return the lines of the readable files, by folder."""
    files: dict[str, list[str]] = {folder: [] for folder in _READABLE_FOLDERS}
    for user, unit in sorted(units.items()):
        record = _make_record(unit)
        if unit.line is not None:
            time_ms = round(1000 * unit.seconds, 3)
            files["result"].append(json.dumps(naming.complete_result(unit.line, time_ms)))
            timing = {"user": user, "size": unit.line["size"]}
            for key in ("seconds", "cpu_seconds", "peak_mb", "notes"):
                if key in record:
                    timing[key] = record[key]
            timing["time_ms"] = time_ms
            files["timing"].append(json.dumps(timing))
        else:
            keys = ("user", "reason", "detail")
            explanation = {key: record[key] for key in keys if key in record}
            files[unit.status].append(json.dumps(explanation))
    return files


def format_result_file(folder: Path, configuration: str) -> str:
    """Return the text of a configuration's result file, made from its journal."""
    naming = FileNaming.of(read_setup(folder))
    lines = _format_readable_files(read_units(folder, configuration), naming)["result"]
    return "".join(f"{line}\n" for line in lines)


def read_units(folder: Path, configuration: str) -> dict[int, Unit]:
    """Return the units of a configuration by user, from the journal of a batch folder."""
    return _read_journal(_journal_path(folder, configuration))[0]


def has_journal(folder: Path, configuration: str) -> bool:
    """Return whether a batch folder has a journal of a configuration; "" never has one."""
    return bool(configuration) and _journal_path(folder, configuration).is_file()


def count_damaged_lines(folder: Path) -> dict[Path, int]:
    """Return the number of damaged or torn lines of each journal that has some."""
    counts = {}
    for configuration in _list_configurations(folder):
        path = _journal_path(folder, configuration)
        _, count = _read_journal(path)
        if count:
            counts[path] = count
    return counts


def _list_configurations(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".jsonl") for path in (folder / JOURNAL).glob("*.jsonl"))


def _read_journal(path: Path) -> tuple[dict[int, Unit], int]:
    """Return the last unit of each user in a journal, and the number of damaged or torn lines.

    A line is a checksum and a JSON object. A damaged one no longer counts once every user that it
    names has a later unit.
    """
    units: dict[int, Unit] = {}
    lost_users: list[set[int]] = []  # by damaged line, the users named there without a later unit
    content = path.read_bytes() if path.exists() else b""
    for line in BytesIO(content):
        checksum, _, text = line.partition(b" ")
        is_whole = line.endswith(b"\n")
        if not is_whole or checksum != b"%08x" % zlib.crc32(text[:-1]):
            named_users = {int(user) for user in re.findall(rb'"user": (\d{1,18})', line)}
            lost_users.append(named_users or {-1})  # -1: a user who never gets a later unit
            continue
        record = json.loads(text)
        notes = tuple(record.pop("notes", ()))
        units[record["user"]] = Unit(path.name.removesuffix(".jsonl"), **record, notes=notes)
        for users in lost_users:
            users.discard(record["user"])
    damaged_line_count = sum(1 for users in lost_users if users)
    return units, damaged_line_count


def _append_line(handle: int, record: Mapping[str, Any]) -> None:
    """Add a line to a journal; it survives the end of this process as soon as this returns.

    Raises OSError, as on a full disk; the journal is then as it was before.
    """
    text = json.dumps(record, allow_nan=False).encode()
    line = b"%08x %s\n" % (zlib.crc32(text), text)
    end = os.lseek(handle, 0, os.SEEK_END)
    try:
        while line:
            line = line[os.write(handle, line) :]
    except OSError:
        os.ftruncate(handle, end)  # otherwise the next line would continue half a line
        raise


def _open_journal(path: Path) -> int:
    """Open a journal for appending and return the handle; a torn last line is cut off first."""
    binary = getattr(os, "O_BINARY", 0)  # on Windows only
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | binary, 0o666)
    content = path.read_bytes()
    end_of_last_line = content.rfind(b"\n") + 1
    if end_of_last_line < len(content):
        os.ftruncate(handle, end_of_last_line)
    return handle


def lock_folder(folder: Path, refusal: str) -> Callable[[], None]:
    """Lock a folder and return the function that unlocks it.

    The system unlocks the folder when the process ends. Raises InputError with the refusal if
    another process holds the lock.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock", mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(refusal) from None
    return lock.release
