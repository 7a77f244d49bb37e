"""What others have named (files, decks, presets, models), without what programs would obey."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

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
    """CSV, None as an empty field; text that a spreadsheet takes for a formula begins with '."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(_as_text(cell) if isinstance(cell, str) else cell for cell in row)
    return text.getvalue()


def _as_text(cell: str) -> str:
    return ("'" if cell.startswith(_FORMULA) else "") + harmless(cell)


def escaped(json: str) -> str:
    """JSON that means the same, with `\\u` escapes for what a terminal would obey."""
    return _OBEYED.sub(_as_escape, json)


def _as_escape(found: re.Match[str]) -> str:
    if "\ud800" <= found[0] <= "\udfff":
        return found[0]  # alone it is no text, and programs refuse its escape
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2))
