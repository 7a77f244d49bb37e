"""Store the results of a batch on disk: whole units only, even if the run is killed.

A unit is one configuration of one user. Its outcome is one line with a checksum in an append-only
journal, OUT/.journal/CONFIGURATION.jsonl. The files that people read (result/,
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
from srs_eval.benchmark.user_parts import delete_weights
from srs_eval.data.errors import InputError, is_installed
from srs_eval.data.file_contents import write_atomically
from srs_eval.data.outputs import JOURNAL
from srs_eval.training.networks import is_pretrained_file

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
    """One configuration of one user, with its outcome."""

    configuration: str
    user: int
    status: Status
    result_line: Mapping[str, Any] | None = None  # in srs-benchmark's form, if done
    reason: str = ""  # one sentence, if failed or skipped
    missing_module: str = ""  # if the unit was skipped because this module is not installed
    detail: str = ""  # traceback, if failed
    seconds: float = 0.0
    cpu_seconds: float | None = None  # processor time of this process only
    peak_mb: float = 0.0
    notes: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)  # by kind, the requested files

    @property
    def log_loss(self) -> float:
        """The unit's log loss; nan if the unit is not done."""
        if self.result_line is None:
            return math.nan
        return float(self.result_line["metrics"]["LogLoss"])


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
    """A folder of results that only one process at a time can have open.

    `statuses` returns the status of each user's unit of one configuration, `append` writes a unit
    immediately, and `publish` renews the files that people read.
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

        `setup` is JSON: `srs_eval`, the fingerprint in `data`, `options` and `configurations` (by
        name) must agree with what is stored, except that configurations may be new. `names` says
        how the readable files are spelled (`FileNaming`); if that has changed, they are written
        under their new names, and without it the stored spelling stays. Other keys are kept for
        information.

        If `fresh` is True, all earlier results of a batch are deleted; `redo` names configurations
        whose results are deleted. None deletes nothing: it means that the user has no such option,
        and that messages do not suggest it.

        Raises InputError if the set-ups disagree, if a file of another origin would be replaced, or
        if another process is at work.
        """
        self._fresh_hint = "" if fresh is None else ", or start over with --fresh"
        self.folder = folder
        self._naming = FileNaming.of(setup)
        self._damaged_line_counts: dict[Path, int] = {}  # of each journal when it was last read
        self._journal_handles: dict[str, int] = {}
        self._unpublished: set[str] = set()  # configurations with units that were just appended
        self._exit_stack = ExitStack()  # holds the lock on the folder and the open journals
        try:
            with self._report_system_errors():
                stored = self._read_stored_setup(fresh)
                if stored is not None and "names" not in setup and not fresh:
                    self._naming = FileNaming.of(stored)
                self._refuse_foreign_files(setup, stored)
                (folder / JOURNAL).mkdir(parents=True, exist_ok=True)
                refusal = f'Another batch is writing to "{folder}": wait for it.'
                self._exit_stack.callback(lock_folder(folder / JOURNAL, refusal))
                if fresh:
                    self._delete_results(stored, self.configuration_names())
                    delete_weights(folder, (stored or {}).get("configurations", ()))
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

    @property
    def damaged_line_count(self) -> int:
        """Number of damaged or torn lines in the journals that have been read."""
        return sum(self._damaged_line_counts.values())

    def statuses(self, configuration: str) -> dict[int, Status]:
        """Return the last recorded status of each user.

        Units that were skipped because a package was missing count as not recorded once it is
        installed.
        """
        return {
            user: unit.status
            for user, unit in self._load_units(configuration).items()
            if not (unit.missing_module and is_installed(unit.missing_module))
        }

    def append(self, unit: Unit) -> None:
        """Add a unit; it survives the end of this process as soon as this returns.

        Raises InputError if the unit cannot be written, as on a full disk; earlier and later units
        stay whole.
        """
        with self._report_system_errors():
            # Create the journal first: it shows that the files are a batch's.
            handle = self._journal_handle(unit.configuration)
            for kind, content in unit.files.items():
                path = _unit_file_path(self.folder, kind, unit.configuration, unit.user)
                write_atomically(path, content)
            _append_line(handle, _make_record(unit))
            self._unpublished.add(unit.configuration)

    def save_weights(self, path: Path, content: bytes) -> None:
        """Write weights that a batch trained (`user_parts`) to a path in this folder.

        Raises InputError if they cannot be written, or if a file of another origin is there.
        """
        with self._report_system_errors():
            if path.exists() and not is_pretrained_file(path):
                raise _foreign_file_error(path)
            write_atomically(path, content)

    def has_file(self, kind: str, configuration: str, user: int) -> bool:
        """Return whether a unit has its file of this kind (see `_UNIT_FILES`)."""
        return _unit_file_path(self.folder, kind, configuration, user).is_file()

    def merge_from(self, folder: Path) -> int:
        """Add the units of another folder with the same set-up that are missing here.

        A unit counts as missing here in three cases:

        - It is not recorded here.
        - It failed here or lacked a package, and did not in the other folder.
        - It is done in both folders, and has a file (`_UNIT_FILES`) in the other that is missing
          here.

        Returns the number of added units. Raises InputError if the set-ups differ.
        """
        setup = read_setup(self.folder)
        assert setup is not None
        merged_setup = merge_setup_from(folder, setup)
        with self._report_system_errors():
            self._refuse_foreign_files(merged_setup, setup)
            self._save_setup(merged_setup)
        added = 0
        for configuration in _list_configurations(folder):
            stored_units = self._load_units(configuration)
            other_units = self._load_journal(_journal_path(folder, configuration))
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
        with self._report_system_errors():
            configurations = sorted(self._unpublished)
            if everything:
                configurations = self.configuration_names()
            for configuration in configurations:
                self._publish(configuration)
        self._unpublished.clear()

    # --- internals ---

    def _load_units(self, configuration: str) -> dict[int, Unit]:
        return self._load_journal(_journal_path(self.folder, configuration))

    def _load_journal(self, path: Path) -> dict[int, Unit]:
        """Return the units of a journal by user, and remember how many of its lines are damaged."""
        units, damaged_line_count = _read_journal(path)
        self._damaged_line_counts[path] = damaged_line_count
        return units

    def _journal_handle(self, configuration: str) -> int:
        """Return the handle of a configuration's journal, which is opened on first use."""
        if configuration not in self._journal_handles:
            handle = _open_journal(_journal_path(self.folder, configuration))
            self._exit_stack.callback(os.close, handle)
            self._journal_handles[configuration] = handle
        return self._journal_handles[configuration]

    @contextmanager
    def _report_system_errors(self) -> Iterator[None]:
        """Report every error of the operating system as an InputError about writing."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f'Results cannot be written to "{self.folder}" ({error.strerror or error}): fix '
                "that, or choose another --out. Finished results are kept; rerun the same command "
                "to resume."
            ) from error

    def _publish(self, configuration: str) -> None:
        if configuration in self._journal_handles:
            os.fsync(self._journal_handles[configuration])  # readable files never get ahead of it
        units = self._load_units(configuration)
        for folder, lines in _format_readable_lines(units, self._naming).items():
            path = self._readable_path(folder, configuration, self._naming)
            content = "".join(f"{line}\n" for line in lines).encode()
            if not lines:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # the folder holds other files, or does not exist
                    path.parent.rmdir()
            elif not path.exists() or path.read_bytes() != content:
                write_atomically(path, content)

    def _read_stored_setup(self, fresh: bool | None = False) -> dict[str, Any] | None:
        """Return the stored set-up; None if there is none.

        A damaged one counts as none if `fresh` is set and the folder has journals, which show that
        a batch wrote it: it is deleted anyway. Raises InputError for any other damaged one.
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

        A configuration's files belong to a batch if its journal is there.
        """
        journals = self.configuration_names()
        written_configurations = {*setup["configurations"], *journals}
        planned_paths: set[Path] = set()
        for configuration in written_configurations:
            planned_paths.update(self._readable_paths(configuration, self._naming))
        for configuration in written_configurations.difference(journals):
            planned_paths.update(self._unit_file_paths(configuration))
        owned_paths: set[Path] = set()  # readable files that belong to a batch
        stored_namings = FileNaming.possible(stored)
        for configuration in journals:
            owned_paths.update(self._readable_paths(configuration, *stored_namings))
        for path in sorted(planned_paths - owned_paths):
            if os.path.lexists(path):
                raise _foreign_file_error(path)

    def _readable_path(self, folder: str, configuration: str, naming: FileNaming) -> Path:
        """Return the path of a configuration's file in one of `_READABLE_FOLDERS`."""
        return self.folder / folder / f"{naming.file_stem(configuration)}.jsonl"

    def _readable_paths(self, configuration: str, *namings: FileNaming) -> list[Path]:
        """Return the paths of a configuration's readable files under each of the namings."""
        paths = []
        for naming in namings:
            for folder in _READABLE_FOLDERS:
                paths.append(self._readable_path(folder, configuration, naming))
        return paths

    def _unit_file_paths(self, configuration: str) -> list[Path]:
        """Return the paths of all existing unit files (`_UNIT_FILES`) of a configuration."""
        name = glob.escape(configuration)
        paths: list[Path] = []
        for template in _UNIT_FILES.values():
            paths += self.folder.glob(template.format(configuration=name, user="*"))
        return paths

    def _delete_results(
        self, stored: Mapping[str, Any] | None, configurations: Collection[str]
    ) -> None:
        """Delete all files of these configurations.

        The set-up `stored` decides how the files are spelled; None: try every spelling.
        """
        for configuration in configurations:
            readable = self._readable_paths(configuration, *FileNaming.possible(stored))
            journal = _journal_path(self.folder, configuration)
            _delete([*readable, *self._unit_file_paths(configuration), journal])
        delete_weights(self.folder, configurations)

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
            # If one configuration differs, `find_disagreement` begins with "NAME had".
            name, is_of_one_configuration, _ = difference.partition(" had ")
            redo_hint = ""
            if is_of_one_configuration and redo is not None:
                redo_hint = f", evaluate only {name} again with --redo {name}"
            raise InputError(
                f'The results in "{self.folder}" do not match this run: {difference}; '
                f"run the batch as before, choose another --out{redo_hint}{self._fresh_hint}."
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
    return unit.status != "failed" and not unit.missing_module


def _is_worth_adding(other: Unit, stored: Unit | None, missing_files: Mapping[str, bytes]) -> bool:
    """Return whether a unit of another folder should replace the stored one, or fill a gap.

    `missing_files` are those of its files that only the other folder has.
    """
    if stored is None:
        return True
    if _is_settled(other) and not _is_settled(stored):
        return True
    both_done = stored.status == "done" and other.status == "done"
    return both_done and bool(missing_files)


def _make_record(unit: Unit) -> dict[str, Any]:
    """Return a unit as its journal stores it; `_parse_record` reads it.

    Except for "line" and "lacked", keys are names of fields of `Unit`.
    """
    record: dict[str, Any] = {"user": unit.user, "status": unit.status}
    if unit.status == "done":
        record["line"] = unit.result_line
        record["seconds"] = round(unit.seconds, 6)
        record["peak_mb"] = round(unit.peak_mb, 1)
        if unit.cpu_seconds is not None:
            record["cpu_seconds"] = round(unit.cpu_seconds, 6)
        if unit.notes:
            record["notes"] = list(unit.notes)
        return record
    record["reason"] = unit.reason
    if unit.missing_module:
        record["lacked"] = unit.missing_module
    if unit.detail:
        record["detail"] = unit.detail
    return record


def _parse_record(configuration: str, record: Mapping[str, Any]) -> Unit:
    """Return the unit that `_make_record` made a journal's record of."""
    fields = dict(record)
    fields["result_line"] = fields.pop("line", None)
    fields["missing_module"] = fields.pop("lacked", "")
    fields["notes"] = tuple(fields.pop("notes", ()))
    return Unit(configuration, **fields)


def _journal_path(folder: Path, configuration: str) -> Path:
    return folder / JOURNAL / f"{configuration}.jsonl"


def _unit_file_path(folder: Path, kind: str, configuration: str, user: int) -> Path:
    """Return the path of a unit's file of this kind (see `_UNIT_FILES`)."""
    return folder / _UNIT_FILES[kind].format(configuration=configuration, user=user)


def _format_readable_lines(units: Mapping[int, Unit], naming: FileNaming) -> dict[str, list[str]]:
    """Return the lines of a configuration's readable files, by folder (`_READABLE_FOLDERS`)."""
    lines: dict[str, list[str]] = {folder: [] for folder in _READABLE_FOLDERS}
    for user, unit in sorted(units.items()):
        record = _make_record(unit)
        if unit.result_line is not None:
            time_ms = round(1000 * unit.seconds, 3)
            result = naming.complete_result(unit.result_line, time_ms)
            lines["result"].append(json.dumps(result))
            timing = {"user": user, "size": unit.result_line["size"]}
            for key in ("seconds", "cpu_seconds", "peak_mb", "notes"):
                if key in record:
                    timing[key] = record[key]
            timing["time_ms"] = time_ms
            lines["timing"].append(json.dumps(timing))
        else:
            keys = ("user", "reason", "detail")
            explanation = {key: record[key] for key in keys if key in record}
            lines[unit.status].append(json.dumps(explanation))
    return lines


def format_result_file(folder: Path, configuration: str) -> str:
    """Return the text of a configuration's result file, made from its journal."""
    naming = FileNaming.of(read_setup(folder))
    lines = _format_readable_lines(read_units(folder, configuration), naming)["result"]
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
    lost_users: list[set[int]] = []  # per damaged line: its users that no later line restores
    content = path.read_bytes() if path.exists() else b""
    for line in BytesIO(content):
        checksum, _, text = line.partition(b" ")
        is_whole = line.endswith(b"\n")
        if not is_whole or checksum != b"%08x" % zlib.crc32(text[:-1]):
            named_users = {int(user) for user in re.findall(rb'"user": (\d{1,18})', line)}
            lost_users.append(named_users or {-1})  # -1: a user who never gets a later unit
            continue
        record = json.loads(text)
        units[record["user"]] = _parse_record(path.name.removesuffix(".jsonl"), record)
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
    binary = getattr(os, "O_BINARY", 0)  # on Windows only: newlines are written as they are
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

    # Other people who share the folder may lock it later, and any thread may unlock it.
    lock = FileLock(folder / "lock", mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(refusal) from None
    return lock.release
