"""Results of a batch on disk: whole units only, whatever happens and whenever.

A unit is one configuration on one user. Each is one line with a checksum in an
append-only journal, OUT/.journal/CONFIG.jsonl; the files that people read (result/,
timing/, failed/, skipped/) are made from the journal, each replaced in one step. So a
killed run loses the units that it was working on and nothing else.
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

from srs_eval.benchmark.setup import SETUP, as_json, disagreement, joined, read_setup, with_setup_of
from srs_eval.data.errors import InputError, is_installed
from srs_eval.data.paths import JOURNAL, write_atomically
from srs_eval.models.configurations import NAMES, Names
from srs_eval.models.published import spelled

Status = Literal["done", "failed", "skipped"]
_FOLDERS = ("result", "timing", "failed", "skipped")
_KEPT = {
    "raw": "raw/{configuration}/user_id={user}.parquet",
    "file": "evaluation/{configuration}/{user}.tsv",
    "plot": "evaluation/{configuration}/calibration-retention-{user}.png",
}
"""Where the files lie that a batch keeps of a unit when it is asked to, by kind."""
AUDIT = "audit.json"  # in the folder of an audit
PUBLISHED, TUNED = _OF_AUDIT = "published", "tuned"  # folders of results within it


@dataclass(frozen=True)
class Unit:
    """What became of one configuration on one user."""

    configuration: str
    user: int
    status: Status
    line: Mapping[str, Any] | None = None  # upstream's result line, if done
    reason: str = ""  # one sentence, if failed or skipped
    lacked: str = ""  # the module that was not installed, if it was skipped for that
    detail: str = ""  # traceback, if failed
    seconds: float = 0.0
    cpu_seconds: float | None = None  # of the processor: neighbours do not count
    peak_mb: float = 0.0
    notes: tuple[str, ...] = ()
    kept: Mapping[str, bytes] = field(default_factory=dict)  # by kind, what was asked for

    @property
    def log_loss(self) -> float:
        """nan where it is not done."""
        return math.nan if self.line is None else float(self.line["metrics"]["LogLoss"])


def _not_from_here(path: Path) -> InputError:
    return InputError(f'"{path}" is not from a batch in this folder: choose another --out.')


def refuse_audits(folder: Path) -> None:
    """Raises InputError for a folder that an audit writes to: its journal is no batch's."""
    place = folder.resolve()
    above = zip(place.parents, reversed(place.parts), strict=False)
    audits = (parent for parent, name in above if name in _OF_AUDIT)
    if any((each / AUDIT).exists() for each in (place, *audits)):
        raise InputError(f'"{folder}" holds an audit: choose another --out.')


class ResultStore:
    """One folder of results; one process at a time may hold it.

    `statuses` tells what is there, `append` adds a unit at once and for good, `publish`
    renews the files that people read.
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
        agree with what is stored, except that configurations may be new; `names` says how the
        readable files are spelled (`configurations.Names`), and where that has changed they
        are renamed; other keys are kept for information. Raises InputError where they do not,
        where a file of another origin would be replaced, or where another process is at work;
        `fresh` deletes what a batch has left, `redo` what it has left of these configurations; None
        where who asks cannot have that.
        """
        self._or_fresh = "" if fresh is None else ", or start over with --fresh"
        self.folder = folder
        self.names: Names = setup.get("names", "2025")
        self.damaged = 0  # journal lines that were not whole
        self._handles: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._open = ExitStack()  # what ends with it: the folder is held, journals are open
        try:
            with self._refusals_shown():
                stored = self._stored(fresh)
                self._refuse_others(setup, stored)
                (folder / JOURNAL).mkdir(parents=True, exist_ok=True)
                refusal = f'Another batch is writing to "{folder}": wait for it.'
                self._open.callback(hold(folder / JOURNAL, refusal))
                if fresh:
                    self._clear(stored, self.configurations())
                    _delete([folder / SETUP])
                self._agree(setup, redo)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()
        self._handles.clear()

    def statuses(self, configuration: str) -> dict[int, Status]:
        """What became of each user so far (the last word counts).

        Those are missing that were skipped for what was not installed then, and is now.
        """
        return {
            user: unit.status
            for user, unit in self._units(configuration).items()
            if not (unit.lacked and is_installed(unit.lacked))
        }

    def append(self, unit: Unit) -> None:
        """Add a unit. It survives the end of this process as soon as this returns.

        Raises InputError where it cannot be written, as on a full disk; what was added before
        stays whole, and so does what is added later.
        """
        with self._refusals_shown():
            # First, for by it all files here are known.
            handle = self._journal_of(unit.configuration)
            for kind, content in unit.kept.items():
                path = _kept_file(self.folder, kind, unit.configuration, unit.user)
                write_atomically(path, content)
            _append(handle, _record(unit))
            self._dirty.add(unit.configuration)

    def keeps(self, kind: str, configuration: str, user: int) -> bool:
        """Whether a file of KEPT is there of a unit."""
        return _kept_file(self.folder, kind, configuration, user).is_file()

    def take_over(self, other: Path) -> int:
        """Add the units of another folder with the same set-up that are missing here.

        A unit that is done in both counts as missing where the other has more files of KEPT.
        Returns the number of units. Raises InputError where the set-ups differ.
        """
        here = read_setup(self.folder)
        assert here is not None
        joined = with_setup_of(other, here)
        with self._refusals_shown():
            self._refuse_others(joined, here)
            self._save_setup(joined)
        added = 0
        for configuration in _configurations_in(other):
            mine = self._units(configuration)
            units, damaged = _read_units(_journal(other, configuration))
            self.damaged += damaged
            for user, theirs in sorted(units.items()):
                more = {
                    kind: path.read_bytes()
                    for kind in _KEPT
                    if (path := _kept_file(other, kind, configuration, user)).is_file()
                    and not self.keeps(kind, configuration, user)
                }
                before = mine.get(user)
                if (
                    before is None
                    or (_is_settled(theirs) and not _is_settled(before))
                    or (before.status == theirs.status == "done" and more)
                ):
                    self.append(replace(theirs, kept=more))
                    added += 1
        return added

    def configurations(self) -> list[str]:
        """Every configuration with units here, also of earlier runs."""
        return _configurations_in(self.folder)

    def publish(self, *, everything: bool = False) -> None:
        """Renew the readable files of configurations with new units (or of all)."""
        with self._refusals_shown():
            for configuration in self.configurations() if everything else sorted(self._dirty):
                self._publish(configuration)
        self._dirty.clear()

    # --- inside ---

    def _units(self, configuration: str) -> dict[int, Unit]:
        units, damaged = _read_units(_journal(self.folder, configuration))
        self.damaged += damaged
        return units

    def _journal_of(self, configuration: str) -> int:
        if configuration not in self._handles:
            handle = _open_journal(_journal(self.folder, configuration))
            self._open.callback(os.close, handle)
            self._handles[configuration] = handle
        return self._handles[configuration]

    @contextmanager
    def _refusals_shown(self) -> Iterator[None]:
        """Turn the operating system's refusals to write into one sentence."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f'Results cannot be written to "{self.folder}" ({error.strerror or error}): mend '
                "that, or choose another --out; what was finished there is kept, and the same "
                "command goes on from it."
            ) from error

    def _publish(self, configuration: str) -> None:
        if configuration in self._handles:
            os.fsync(self._handles[configuration])
        files = _files(self._units(configuration), self.names)
        paths = self._readable(configuration, self.names)
        for path, lines in zip(paths, files.values(), strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            if not lines:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # where others are in it, or none was
                    path.parent.rmdir()
            elif not path.exists() or path.read_bytes() != content:
                write_atomically(path, content)

    def _stored(self, fresh: bool | None = False) -> dict[str, Any] | None:
        """The set-up that is there; None where a damaged one is deleted for it is to be `fresh`.

        Raises InputError for another damaged one, and for one that no batch has left.
        """
        try:
            return read_setup(self.folder)
        except InputError as error:
            if fresh and self.configurations():
                return None
            if fresh:
                raise _not_from_here(self.folder / SETUP) from None
            remedy = f"choose another --out{self._or_fresh}"
            raise InputError(f"{str(error).removesuffix('.')}: {remedy}.") from None

    def _refuse_others(self, setup: Mapping[str, Any], stored: Mapping[str, Any] | None) -> None:
        """Raises InputError for a file that no batch has left and that would be written over.

        Files of a configuration are a batch's where its journal is.
        """
        journals = self.configurations()
        wanted = {*setup["configurations"], *journals}
        others = {path for each in wanted for path in self._readable(each, self.names)}
        others -= {path for each in journals for path in self._readable(each, *_spellings(stored))}
        others |= {path for each in wanted.difference(journals) for path in self._kept_of(each)}
        for path in sorted(others):
            if os.path.lexists(path):
                raise _not_from_here(path)

    def _readable(self, configuration: str, *names: Names) -> list[Path]:
        """The files of a configuration that people read, as they are called in some years."""
        spellings = [spelled(configuration, each) for each in names]
        return [self.folder / kind / f"{name}.jsonl" for name in spellings for kind in _FOLDERS]

    def _kept_of(self, configuration: str) -> list[Path]:
        name = glob.escape(configuration)
        patterns = (each.format(configuration=name, user="*") for each in _KEPT.values())
        return [path for pattern in patterns for path in self.folder.glob(pattern)]

    def _clear(self, stored: Mapping[str, Any] | None, configurations: Iterable[str]) -> None:
        for configuration in configurations:
            readable = self._readable(configuration, *_spellings(stored))
            journal = _journal(self.folder, configuration)
            _delete([*readable, *self._kept_of(configuration), journal])

    def _agree(self, setup: Mapping[str, Any], redo: Collection[str] | None) -> None:
        stored = self._stored()
        if stored is None:
            if self.configurations():
                raise InputError(
                    f'"{self.folder / JOURNAL}" is not from a batch in this folder: '
                    f"choose another --out{self._or_fresh}."
                )
            self._save_setup(setup)
            return
        renewed = set(stored["configurations"]).intersection(redo or ())
        kept = {k: v for k, v in stored["configurations"].items() if k not in renewed}
        difference = disagreement({**stored, "configurations": kept}, setup)
        if difference:
            name, had, _ = difference.partition(" had ")
            again = f", renew {name} alone with --redo {name}" if had and redo is not None else ""
            raise InputError(
                f'The results in "{self.folder}" do not go with this run: {difference}; '
                f"run it as before, choose another --out{again}{self._or_fresh}."
            )
        self._clear(stored, renewed)
        stored = {**stored, "configurations": kept}
        names = {"names": self.names} if "names" in setup else {}
        self._save_setup({**joined(stored, setup), **names})
        before: Names = stored.get("names", "2025")
        if before != self.names:
            for configuration in self.configurations():
                _delete(self._readable(configuration, before))
            self.publish(everything=True)

    def _save_setup(self, setup: Mapping[str, Any]) -> None:
        write_atomically(self.folder / SETUP, as_json(setup))


def _spellings(stored: Mapping[str, Any] | None) -> tuple[Names, ...]:
    """The names that a folder's files have: of both years where no set-up says which."""
    return NAMES if stored is None else (stored.get("names", "2025"),)


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _is_settled(unit: Unit) -> bool:
    """Whether it would be the same wherever it is evaluated."""
    return unit.status != "failed" and not unit.lacked


def _record(unit: Unit) -> dict[str, Any]:
    """A unit as its journal holds it."""
    record: dict[str, Any] = {"user": unit.user, "status": unit.status}
    if unit.status == "done":
        seconds, peak_mb = round(unit.seconds, 6), round(unit.peak_mb, 1)
        record |= {"line": unit.line, "seconds": seconds, "peak_mb": peak_mb}
        if unit.cpu_seconds is not None:
            record["cpu_seconds"] = round(unit.cpu_seconds, 6)
        more: dict[str, object] = {"notes": list(unit.notes)}
    else:
        record["reason"] = unit.reason
        more = {"lacked": unit.lacked, "detail": unit.detail}
    return record | {key: value for key, value in more.items() if value}


def _journal(folder: Path, configuration: str) -> Path:
    return folder / JOURNAL / f"{configuration}.jsonl"


def _kept_file(folder: Path, kind: str, configuration: str, user: int) -> Path:
    """Where a file of KEPT lies."""
    return folder / _KEPT[kind].format(configuration=configuration, user=user)


def _files(units: Mapping[int, Unit], names: Names) -> dict[str, list[str]]:
    """By folder, the lines of the files that people read.

    Results under names of 2026 tell the time, as srs-benchmark's do since then: readers know
    by it which year's names a file has (`result_files.year_of`).
    """
    files: dict[str, list[str]] = {folder: [] for folder in _FOLDERS}
    for user, unit in sorted(units.items()):
        said = _record(unit)
        if unit.line is not None:
            time_ms = {"time_ms": round(1000 * unit.seconds, 3)}  # upstream's key
            files["result"].append(
                json.dumps({**unit.line, **(time_ms if names == "2026" else {})})
            )
            timing = {"user": user, "size": unit.line["size"]}
            keys = ("seconds", "cpu_seconds", "peak_mb", "notes")
            timing |= {key: said[key] for key in keys if key in said}
            files["timing"].append(json.dumps(timing | time_ms))
        else:
            why = {key: said[key] for key in ("user", "reason", "detail") if key in said}
            files[unit.status].append(json.dumps(why))
    return files


def result_text(folder: Path, configuration: str) -> str:
    """What a configuration's result file says by its journal."""
    names: Names = (read_setup(folder) or {}).get("names", "2025")
    lines = _files(units_of(folder, configuration), names)["result"]
    return "".join(f"{line}\n" for line in lines)


def units_of(folder: Path, configuration: str) -> dict[int, Unit]:
    """What became of a configuration's users, by the journal of a batch folder."""
    return _read_units(_journal(folder, configuration))[0]


def has_journal(folder: Path, configuration: str) -> bool:
    """Whether a batch folder has units of a configuration."""
    return bool(configuration) and _journal(folder, configuration).is_file()


def damaged_lines(folder: Path) -> dict[Path, int]:
    """Journals with lines that are damaged or torn, and how many."""
    paths = [_journal(folder, configuration) for configuration in _configurations_in(folder)]
    return {path: count for path in paths if (count := _read_units(path)[1])}


def _configurations_in(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".jsonl") for path in (folder / JOURNAL).glob("*.jsonl"))


def _read_units(path: Path) -> tuple[dict[int, Unit], int]:
    """Last unit of each user in a journal, and the number of lines that are damaged or torn.

    A line is a checksum and a JSON object. A damaged one no longer counts once every user that it
    names has a later unit.
    """
    units: dict[int, Unit] = {}
    lost: list[set[int]] = []  # the users that each damaged line names and that wait for a unit
    for line in BytesIO(path.read_bytes() if path.exists() else b""):
        checksum, _, text = line.partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text[:-1]):
            lost.append({int(user) for user in re.findall(rb'"user": (\d{1,18})', line)} or {-1})
            continue
        record = json.loads(text)
        notes = tuple(record.pop("notes", ()))
        units[record["user"]] = Unit(path.name.removesuffix(".jsonl"), **record, notes=notes)
        for users in lost:
            users.discard(record["user"])
    return units, sum(map(bool, lost))


def _append(handle: int, record: Mapping[str, Any]) -> None:
    """Add a line to a journal. It survives the end of this process as soon as this returns.

    Raises OSError, as on a full disk; the journal is as before then.
    """
    text = json.dumps(record, allow_nan=False).encode()
    line = b"%08x %s\n" % (zlib.crc32(text), text)
    end = os.lseek(handle, 0, os.SEEK_END)
    try:
        while line:
            line = line[os.write(handle, line) :]
    except OSError:
        os.ftruncate(handle, end)  # what is written later must not be glued to half a line
        raise


def _open_journal(path: Path) -> int:
    """A handle to append to; a torn last line is cut off first."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.ftruncate(handle, whole)
    return handle


def hold(folder: Path, refusal: str) -> Callable[[], None]:
    """Hold a folder alone; returns what lets go. The system lets go when a process ends.

    Raises InputError with the refusal where another process holds it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock", mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(refusal) from None
    return lock.release
