"""What the answer to a question about settings consists of, and the last answers about a file.

A file opens with its last answers while new ones are worked out. They are kept by its path, with
what they rest on: shown as they were where neither the reviews, the presets nor the program has
changed, and as of their day otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data.errors import InputError
from srs_eval.data.outputs import write_atomically
from srs_eval.data.paths import content_of, state_dir
from srs_eval.stats.intervals import Interval

if TYPE_CHECKING:
    import pandas

    from srs_eval.data.reviews import ReviewLog
    from srs_eval.training.context import Context

SHARES = {"recalled", "expected", "desired"}  # columns that hold shares, shown in percent
Cell = str | int | float | Interval | None


def is_difference(column: str) -> bool:
    """Whether it holds differences: shown with their sign, and held against zero."""
    return column.startswith("minus")


@dataclass(frozen=True)
class Table:
    """Figures behind an answer; an Interval is log loss in nats unless the column says other."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def heading(self) -> str:
        """The title; of differences in log loss it says which sign is better."""
        for column in self.columns:
            if is_difference(column) and column not in ("minus expected", "minus recalled"):
                return f"{self.title} ({column}: log loss, below zero is better)"
        return self.title

    def column(self, name: str) -> dict[str, Cell]:
        """Its cells by the first cell of their rows; none where there is no such column."""
        if name not in self.columns:
            return {}
        place = self.columns.index(name)
        return {str(row[0]): row[place] for row in self.rows}

    def frame(self) -> pandas.DataFrame:
        """One row for each row; an Interval becomes estimate, low and high."""
        import pandas as pd

        return pd.DataFrame(self.records())

    def records(self) -> list[dict[str, Any]]:
        """Rows by column name, as JSON has them; what is not known is None."""
        made = []
        for row in self.rows:
            record: dict[str, Any] = {}
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Interval):
                    record[column] = cell.estimate
                    record[f"{column} low"] = _known(cell.low)
                    record[f"{column} high"] = _known(cell.high)
                else:
                    record[column] = cell
            made.append(record)
        return made


@dataclass(frozen=True)
class Answer:
    """One question about one preset, or about all of them."""

    question: str  # of QUESTIONS
    subject: str  # the preset's name, or "all presets"
    conclusion: str  # in two or three words, e.g. "keep"
    sentences: tuple[str, ...]  # the answer, then what it rests on
    tables: tuple[Table, ...] = ()
    parameters: tuple[float, ...] | None = None  # to paste, where that is the answer
    difference: Interval | None = None  # in log loss, that the conclusion rests on
    why: str = ""
    """In a few words, why it can't be told where no difference shows it; of what is remembered,
    why it is not as much as desired; of costs, what is done so far where FSRS is off."""
    brief: str = ""  # in a line, where that is neither the first sentence nor made of figures

    def frame(self) -> pandas.DataFrame:
        """The first table's figures."""
        import pandas as pd

        return self.tables[0].frame() if self.tables else pd.DataFrame()

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "question": self.question,
            "subject": self.subject,
            "conclusion": self.conclusion,
            "sentences": list(self.sentences),
            "parameters": None if self.parameters is None else list(self.parameters),
            "tables": [{"title": table.title, "rows": table.records()} for table in self.tables],
        }


def best(estimates: Iterable[tuple[str, Interval]]) -> str:
    """The name with the least estimate, ties by name."""
    return min(estimates, key=lambda each: (each[1].estimate, each[0]))[0]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


# The last answers about a file

_MOST = 20  # files whose answers are kept
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
    from srs_eval.training.compile import program_digest

    parts = [
        log.fingerprint(),
        program_digest(),
        repr(sorted(log.presets.items())),
        repr(sorted(log.decks.items())),
        repr((log.optimized_before_s, log.receipt.fsrs_enabled, log.day_grid)),
        repr(sorted(context.settings().items())),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def keep(path: str, kept: Kept, folder: Path | None = None) -> None:
    """Write atomically; where that is not possible nothing is kept."""
    import msgspec

    place = _place(path, folder)
    content = msgspec.msgpack.encode(kept, enc_hook=lambda value: value.item())  # numpy's numbers
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, hashlib.sha256(content).digest() + content)
        files = sorted(place.parent.iterdir(), key=lambda each: -each.stat().st_mtime)
        for old in files[_MOST:]:
            old.unlink(missing_ok=True)


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
    """What was kept for a path; None where nothing is, or not a byte is as it was written."""
    import msgspec

    try:
        found = content_of(_place(path, folder), _MOST_BYTES)
        digest, content = found[:32], found[32:]
        if digest != hashlib.sha256(content).digest():
            return None
        kept = msgspec.msgpack.decode(content, type=Kept)
    except (OSError, InputError, msgspec.MsgspecError):  # damaged: as good as none
        return None
    return replace(kept, at=min(kept.at, time.time()))


def _place(path: str, folder: Path | None) -> Path:
    name = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:32]
    return (folder or state_dir()) / "answers" / name
