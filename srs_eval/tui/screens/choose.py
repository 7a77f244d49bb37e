"""Which presets and decks are judged."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.strip import Strip
from textual.widgets import Button, SelectionList, Static
from textual.widgets.selection_list import Selection

from srs_eval.data.reviews import MISSING
from srs_eval.report import formats as words
from srs_eval.report.inspection import DeckReport, GroupCounts, Inspection, PresetReport
from srs_eval.tui.screens.base import Dialog

Chosen = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids of presets and of decks; none of either means all."""


class _Ticked(SelectionList[str]):
    """Told apart without colour: only what is chosen has a mark."""

    def render_line(self, y: int) -> Strip:
        line = super().render_line(y)
        place = self.scroll_offset.y + y
        if place >= self.option_count:
            return line
        if self.get_option_at_index(place).value in self.selected:
            return line
        left, inner, *rest = line
        blank = Segment(" " * inner.cell_length, inner.style, inner.control)
        return Strip([left, blank, *rest])


class ChooseScreen(Dialog):
    """Dismissed with what is `Chosen`, or None where nothing is to change."""

    BINDINGS: ClassVar[list[Any]] = [
        ("escape", "close", "Close"),
        Binding("enter", "judge", "Judge", priority=True),
    ]

    def __init__(self, receipt: Inspection, rows: str, chosen: Chosen) -> None:
        super().__init__()
        self._receipt, self._rows, self._chosen = receipt, rows, chosen

    def content(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = "Judge only"
        box.border_subtitle = "Space chooses, Enter judges, Esc leaves all as it is"
        with box:
            yield _Ticked(
                *self._part("preset", self._receipt.presets, self._chosen[0]),
                *self._part("deck", self._receipt.decks, self._chosen[1]),
            )
            with Horizontal():
                yield Static("None chosen: all are judged.")
                yield Button("Judge", variant="primary", compact=True)

    def _part(
        self, what: str, reports: Collection[PresetReport | DeckReport], chosen: Collection[str]
    ) -> list[Selection[str]]:
        return [
            Selection(
                Text.assemble(
                    (f"{what:<7}", "dim"),
                    words.shortened(each.name or str(each.id), 40),
                    (f"  {words.count(_reviews(each.counts, self._rows))} reviews", "dim"),
                ),
                f"{what} {each.id}",
                str(each.id) in chosen,
            )
            for each in reports
            if each.id != MISSING and _reviews(each.counts, self._rows)
        ]

    def on_button_pressed(self) -> None:
        self.action_judge()

    def action_judge(self) -> None:
        found: dict[str, list[str]] = {"preset": [], "deck": []}
        for key in self.query_one(SelectionList).selected:
            what, _, number = key.partition(" ")
            found[what].append(number)
        self.dismiss((tuple(found["preset"]), tuple(found["deck"])))


def _reviews(counts: GroupCounts, rows: str) -> int:
    return counts.anki_rows if rows == "anki" else counts.benchmark_rows
