"""The last answers about a file, so that it opens with these while new ones are worked out.

Kept by the file's path, with what they rest on. They are shown as they were where neither the
reviews, the presets nor the program has changed, and as of their day otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.advice.answers import Answer, Cell, Table
from srs_eval.data.paths import content_of, state_dir
from srs_eval.data.reviews import ReviewLog
from srs_eval.stats.intervals import Interval
from srs_eval.training.compile import program_digest
from srs_eval.training.context import Context

_LAYOUT = 3
MOST = 20  # files whose answers are kept
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Kept:
    """Answers of an earlier day."""

    answers: tuple[Answer, ...]
    basis: str  # `basis` of what they rest on
    entries: int  # that the file held
    at: float  # Unix seconds


def basis(log: ReviewLog, context: Context) -> str:
    """A digest of everything that answers depend on: reviews, settings, program."""
    parts = [
        log.fingerprint(),
        program_digest(),
        repr(sorted(log.presets.items())),
        repr(sorted(log.decks.items())),
        repr((log.optimized_before_s, log.receipt.fsrs_enabled, log.day_grid)),
        json.dumps(context.settings(), sort_keys=True),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def keep(path: str, kept: Kept, folder: Path | None = None) -> None:
    """Write atomically; where that is not possible nothing is kept."""
    place = _place(path, folder)
    content = {
        "layout": _LAYOUT,
        "basis": kept.basis,
        "entries": kept.entries,
        "at": kept.at,
        "answers": [_plain(answer) for answer in kept.answers],
    }
    temporary = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
        text = json.dumps(content, default=lambda value: value.item())  # numpy's numbers
        with os.fdopen(handle, "wb") as file:
            file.write(_digest(text.encode()) + b"\n" + text.encode())
        os.replace(temporary, place)
        files = sorted(place.parent.glob("*.json"), key=lambda each: -each.stat().st_mtime)
        for old in files[MOST:]:
            old.unlink(missing_ok=True)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def improve(path: str, basis: str, better: Sequence[Answer], folder: Path | None = None) -> None:
    """Put answers in the places of those to the same questions about the same subjects.

    Those without a place are left out; so are all where what is kept has another `basis`.
    """
    kept = last(path, folder)
    if kept is None or kept.basis != basis:
        return
    known = {(each.question, each.subject): each for each in better}
    answers = tuple(known.get((each.question, each.subject), each) for each in kept.answers)
    if answers != kept.answers:
        keep(path, replace(kept, answers=answers), folder)


def last(path: str, folder: Path | None = None) -> Kept | None:
    """What was kept for a path; None where nothing is, or it is damaged."""
    try:
        digest, _, text = content_of(_place(path, folder), _MOST_BYTES).partition(b"\n")
        content = json.loads(text)
        if digest != _digest(text) or content["layout"] != _LAYOUT:
            return None
        return Kept(
            tuple(_answer(each) for each in content["answers"]),
            str(content["basis"]),
            int(content["entries"]),
            min(float(content["at"]), time.time()),
        )
    except Exception:  # a damaged file is as good as none
        return None


def _digest(text: bytes) -> bytes:
    """Of what is kept: where anything in it is not as it was written, all of it is damaged."""
    return hashlib.sha256(text).hexdigest().encode()


def _place(path: str, folder: Path | None) -> Path:
    name = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:32]
    return (folder or state_dir()) / "answers" / f"{name}.json"


def _plain(answer: Answer) -> dict[str, Any]:
    content = asdict(answer)
    content["tables"] = [
        {
            "title": table.title,
            "columns": table.columns,
            "rows": [[_plain_cell(cell) for cell in row] for row in table.rows],
        }
        for table in answer.tables
    ]
    content["difference"] = _plain_cell(answer.difference)
    return content


def _plain_cell(cell: Cell) -> Any:
    return {"interval": asdict(cell)} if isinstance(cell, Interval) else cell


def _answer(content: Mapping[str, Any]) -> Answer:
    parameters, difference = content["parameters"], _cell(content["difference"])
    return Answer(
        content["question"],
        content["subject"],
        content["conclusion"],
        tuple(content["sentences"]),
        tuple(
            Table(
                table["title"],
                tuple(table["columns"]),
                tuple(tuple(_cell(cell) for cell in row) for row in table["rows"]),
            )
            for table in content["tables"]
        ),
        None if parameters is None else tuple(map(float, parameters)),
        difference if isinstance(difference, Interval) else None,
        content["why"],
    )


def _cell(cell: Any) -> Cell:
    if not isinstance(cell, dict):
        found: Cell = cell
        return found
    interval = cell["interval"]
    errors = tuple((float(error), int(freedom)) for error, freedom in interval.pop("errors"))
    return Interval(**interval, errors=errors)
