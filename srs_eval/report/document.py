"""What a report consists of: sections of sentences, tables and pictures, without a layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srs_eval.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Code:
    """A line to copy as it is."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart. Its table stands folded below it on a page, and in its place elsewhere."""

    name: str  # of its file, without the ending
    title: str
    told: str  # the same in words, for who does not see it
    draw: Callable[[], Drawing]
    table: Table | None  # None where a table beside it shows the same


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False  # opened by a click on a page; elsewhere only lines to copy are kept
    said: str = ""  # what it says in one line, beside the title
    side_by_side: bool = False  # its pictures, where there is room


Block = str | Table | Picture | Code | Section


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    lead: tuple[str, ...]  # the answer, before everything else
    sections: tuple[Section, ...]

    def tables(self) -> Iterator[Table]:
        """All tables, folded and unshown ones too."""
        return (each for each in _all_blocks(self.sections) if isinstance(each, Table))

    def pictures(self) -> Iterator[Picture]:
        """All pictures."""
        return (each for each in _all_blocks(self.sections) if isinstance(each, Picture))


def _all_blocks(sections: tuple[Block, ...]) -> Iterator[str | Table | Picture | Code]:
    for each in sections:
        if isinstance(each, Section):
            yield from _all_blocks(each.blocks)
            continue
        yield each
        if isinstance(each, Picture) and each.table is not None:
            yield each.table


def with_commands(text: str) -> Iterator[tuple[str, bool]]:
    """A sentence in parts, and which of them are commands of ours (between backticks).

    Other backticks are somebody's: names of decks and files may hold anything.
    """
    for place, part in enumerate(re.split(r"`(srs-eval [^`|]*)`", text)):
        if part:
            yield part, bool(place % 2)
