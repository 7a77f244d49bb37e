"""Define the parts of a report: sections of sentences, tables and pictures, without a layout.

The renderers are `console` and `files` (page, Markdown, CSV, JSON, LaTeX). Tables are those of
`srs_eval.stats.tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from srs_eval.stats.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from srs_eval.advice.sentences import FirstScreen


@dataclass(frozen=True)
class Code:
    """A line to copy as it is."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart; its table is folded below it on a page and replaces it elsewhere."""

    name: str  # of its file, without the extension
    title: str
    draw: Callable[[], Drawing]
    table: Table | None = None  # None if a table beside it shows the same


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
    """Shown by a click on a page. Markdown keeps its summary and its lines to copy; a terminal
    leaves it out."""
    folded_on_page: bool = False  # shown by a click on a page, and in full elsewhere
    summary: str = ""  # one line beside the title
    side_by_side: bool = False  # whether pictures stand side by side, if there is room

    @property
    def is_for_files_only(self) -> bool:
        """Return True if the section shows nothing: its tables are all in files for programs."""
        if self.summary:
            return False
        return all(isinstance(block, Table) and not block.is_shown for block in self.blocks)

    def iter_blocks(self) -> Iterator[str | Table | Picture | Code]:
        """Yield all blocks, also those of subsections and the tables of pictures."""
        for block in self.blocks:
            if isinstance(block, Section):
                yield from block.iter_blocks()
                continue
            yield block
            if isinstance(block, Picture) and block.table is not None:
                yield block.table


Block = str | Table | Picture | Code | Section


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    lead: tuple[str, ...]  # the answer, before everything else
    sections: tuple[Section, ...]
    panes: FirstScreen | None = None  # in place of the lead, in pages and Markdown
    facts: tuple[str, ...] = ()  # about what was read, in a few words each
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Configuration and file by each model's label, in reports on many users. With them, columns of
    CSV and JSON have names for programs ("log_loss_low") instead of titles for people."""

    def tables(self) -> Iterator[Table]:
        """Return all tables, including those in folded sections and those for files only."""
        return (block for block in self._iter_blocks() if isinstance(block, Table))

    def pictures(self) -> Iterator[Picture]:
        """Return all pictures."""
        return (block for block in self._iter_blocks() if isinstance(block, Picture))

    def _iter_blocks(self) -> Iterator[str | Table | Picture | Code]:
        return Section(self.title, self.sections).iter_blocks()
