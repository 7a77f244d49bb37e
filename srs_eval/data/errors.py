"""What a person is told: errors that they can do something about, what sentences about them are
made of, and what others have named (files, decks, models) without what programs would obey.
"""

from __future__ import annotations

import csv
import io
import platform
import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec

_MOST_CHARACTERS = 400
"""Of a reason, so that a line with it and the name of a configuration has at most 500."""


class InputError(Exception):
    """A file or an option is unusable. `str(error)` is one sentence for the person.

    The command line prints it to stderr and exits with code 2; the app shows it
    in a message. It says what is wrong with which file and what to do.
    """


class NotInstalled(InputError):
    """Something that this program can do without is not there. A skip with a reason."""

    def __init__(self, sentence: str, module: str = "") -> None:
        """`module` is what has to be installed, if it is one."""
        super().__init__(sentence)
        self.module = module


class NotEnoughData(Exception):
    """There are too few reviews that can be used, if any. A skip with a reason, no failure."""


def in_one_line(error: BaseException) -> str:
    """What an exception says, as a short line that can be shown anywhere; "" for nothing.

    Code of one's own may raise what has megabytes of text, escape sequences, or no text at all.
    """
    try:
        text = str(error)
    except BaseException as failure:
        if type(failure) is KeyboardInterrupt:  # Ctrl-C; what is derived from it is not
            raise
        return "its text cannot be read"
    return cut(text)


def described(error: BaseException) -> str:
    """The same with the kind of exception: "KeyError: 'stability'"."""
    return cut(": ".join(filter(None, (type(error).__name__, in_one_line(error)))))


def cut(text: str) -> str:
    """The beginning of a text in one line, without control characters."""
    line = " ".join(text[: 10 * _MOST_CHARACTERS].split())
    line = line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)


def counted(number: int, thing: str) -> str:
    """ "1 user", "1,000 users"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


# What this program can do without: packages of the extras in pyproject.toml

EXTRAS = {
    "torch": ("PyTorch", "networks"),
    "pyarrow": ("pyarrow", "parquet"),
    "pandas": ("pandas", "notebook"),
    "distributed": ("Dask", "cluster"),
    "huggingface_hub": ("huggingface_hub", "download"),
}
"""Module -> (its name for people, the extra that brings it)."""
_NOT_BUILT = {
    ("torch", "darwin", "x86_64"),
    ("torch", "win32", "ARM64"),
    ("pyarrow", "win32", "ARM64"),
}
"""Module, system, machine: no wheel is published, and the extra is empty."""


def is_installed(module: str) -> bool:
    """Whether a module can be imported; nothing is imported."""
    return find_spec(module) is not None


def missing(module: str) -> str:
    """ "PyTorch: pip install 'srs-eval[networks]'"; "" where the module is there, or is ""."""
    if not module or is_installed(module):
        return ""
    name, extra = EXTRAS[module]
    if (module, sys.platform, platform.machine()) in _NOT_BUILT:
        return f"{name}, which is not published for this kind of machine"
    return f"{name}: pip install 'srs-eval[{extra}]'"


def require(module: str, wanted_by: str) -> None:
    """Raises NotInstalled, with the command that adds it, where a module is not there."""
    if wanted := missing(module):
        raise NotInstalled(f"{wanted_by} needs {wanted}", module)


# Text that others have written

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # order, hidden marks
    "\ud800-\udfff\U000e0000-\U000e007f]"  # bytes of a path that are no text, hidden letters
)
"""Joiners (U+200C, U+200D) stay: Persian names and emoji are written with them."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(text: str) -> str:
    """`text`, its lines as they are, with U+FFFD for each character that a terminal would obey.

    These are escape sequences and other controls, and what hides or reverses text.
    """
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", text)


def printable(text: object, limit: int | None = 300) -> str:
    """A name as it can be shown: `harmless`, on one line, cut at `limit` characters."""
    clean = harmless(" ".join(str(text).splitlines()).replace("\t", " "))
    return clean if limit is None or len(clean) <= limit else clean[: limit - 1] + "…"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """CSV, None as an empty field; text that a spreadsheet takes for a formula begins with '.

    A lone "-", which stands for "none", is no formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(_as_text(cell) if isinstance(cell, str) else cell for cell in row)
    return text.getvalue()


def _as_text(cell: str) -> str:
    is_formula = cell.startswith(_FORMULA) and cell != "-"
    return ("'" if is_formula else "") + harmless(cell)


def escaped(json: str) -> str:
    """JSON that means the same, with `\\u` escapes for what a terminal would obey."""
    return _OBEYED.sub(_as_escape, json)


def _as_escape(found: re.Match[str]) -> str:
    if "\ud800" <= found[0] <= "\udfff":
        return found[0]  # alone it is no text, and programs refuse its escape
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2))
