"""Define errors that users can act on, and make their texts safe to show.

Names that other people chose (files, decks, models) are shown without characters that programs
would obey.
"""

from __future__ import annotations

import csv
import io
import platform
import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec

_MAX_LENGTH = 400
"""Longest message, in characters: with the name of a configuration, a line has at most 500."""


class InputError(Exception):
    """An unusable file or option. `str(error)` is one sentence for the user.

    The command line prints it to stderr and exits with code 2; the app shows it
    in a message. It says what is wrong with which file and what to do.
    """


class NotInstalled(InputError):
    """A missing optional dependency: a reason to skip what needs it."""

    def __init__(self, sentence: str, module: str = "") -> None:
        """Store the sentence, and the module to install if there is one."""
        super().__init__(sentence)
        self.module = module


class NotEnoughData(Exception):
    """Too few usable reviews, or none: a reason to skip, not a failure."""


def error_message(error: BaseException) -> str:
    """Return an exception's message as a short line that is safe to show; "" if it has none.

    User code may raise exceptions with megabytes of text, escape sequences, or no text at all.
    """
    try:
        text = str(error)
    except BaseException as failure:
        if type(failure) is KeyboardInterrupt:  # Ctrl-C; a derived class is the user code's own
            raise
        return "its text cannot be read"
    return shorten(text)


def describe_error(error: BaseException) -> str:
    """Return an exception's class and message as a short line: "KeyError: 'stability'"."""
    name = type(error).__name__
    message = error_message(error)
    return shorten(f"{name}: {message}" if message else name)


def shorten(text: str) -> str:
    """Return the beginning of a text as one line without control characters."""
    line = " ".join(text[: 10 * _MAX_LENGTH].split())  # cut first: it may have megabytes
    if len(line) > _MAX_LENGTH:
        line = f"{line[: _MAX_LENGTH - 1]}…"
    characters = []
    for character in line:
        characters.append(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}")
    return "".join(characters)


def format_count(number: int, noun: str) -> str:
    """Return a count with its noun: "1 user", "1,000 users"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# Optional dependencies: packages of the extras in pyproject.toml

EXTRAS = {
    "torch": ("PyTorch", "networks"),
    "pyarrow": ("pyarrow", "parquet"),
    "pandas": ("pandas", "notebook"),
    "distributed": ("Dask", "cluster"),
    "huggingface_hub": ("huggingface_hub", "download"),
}
"""Module -> (its display name, the extra that installs it)."""
_WITHOUT_WHEEL = {
    ("torch", "darwin", "x86_64"),
    ("torch", "win32", "ARM64"),
    ("pyarrow", "win32", "ARM64"),
}
"""(module, system, machine) for which no wheel is published; there, the extra installs nothing."""


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    return find_spec(module) is not None


def install_hint(module: str) -> str:
    """Return how to install a missing module: "PyTorch: pip install 'srs-eval[networks]'".

    Returns "" if the module is installed, or is "".
    """
    if not module or is_installed(module):
        return ""
    name, extra = EXTRAS[module]
    if (module, sys.platform, platform.machine()) in _WITHOUT_WHEEL:
        return f"{name}, which is not published for this kind of machine"
    return f"{name}: pip install 'srs-eval[{extra}]'"


def require(module: str, needed_by: str) -> None:
    """Raise NotInstalled, with the command that installs it, if a module is missing."""
    hint = install_hint(module)
    if hint:
        raise NotInstalled(f"{needed_by} needs {hint}", module)


# Text from other people

_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, invisible
    "\ud800-\udfff\U000e0000-\U000e007f]"  # undecodable bytes of a path, invisible tags
)
"""Joiners (U+200C, U+200D) stay: Persian names and emoji are written with them."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def sanitize(text: str) -> str:
    """Replace each character that a terminal would obey by U+FFFD; lines stay as they are.

    These are escape sequences and other controls, and characters that hide or reverse text.
    """
    return _CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)


def printable(text: object, limit: int | None = 300) -> str:
    """Return a name that is safe to show: sanitized, on one line, cut at `limit` characters."""
    clean = sanitize(" ".join(str(text).splitlines()).replace("\t", " "))
    if limit is None or len(clean) <= limit:
        return clean
    return clean[: limit - 1] + "…"


def format_csv(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as CSV, with None as an empty field.

    Text that a spreadsheet would take for a formula gets a ' in front. A lone "-", which stands
    for "none", is not a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        cells = (_sanitize_cell(cell) if isinstance(cell, str) else cell for cell in row)
        writer.writerow(cells)
    return text.getvalue()


def _sanitize_cell(cell: str) -> str:
    is_formula = cell.startswith(_FORMULA_STARTS) and cell != "-"
    if is_formula:
        return "'" + sanitize(cell)
    return sanitize(cell)


def escape_json(json: str) -> str:
    r"""Return equivalent JSON, with `\u` escapes for characters that a terminal would obey."""
    return _CONTROL_CHARACTERS.sub(_escape_character, json)


def _escape_character(match: re.Match[str]) -> str:
    if "\ud800" <= match[0] <= "\udfff":
        return match[0]  # a lone surrogate is not text, and programs refuse its escape
    utf16 = match[0].encode("utf-16-be")  # JSON escapes units of UTF-16, two bytes each
    starts = range(0, len(utf16), 2)
    return "".join(f"\\u{utf16[start : start + 2].hex()}" for start in starts)
