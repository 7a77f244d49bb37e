"""The import summary: what was read, what counts, what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, DataTable, Select, Static, TabbedContent, TabPane

from srs_eval.data.reviews import MISSING
from srs_eval.models.configurations import GROUPS
from srs_eval.report import formats as words
from srs_eval.report.document import Table
from srs_eval.report.inspection import DeckReport, Inspection, PresetReport, summary_tables
from srs_eval.tui.screens.base import AppScreen

_NAME = 14  # columns that a name gets, however little room there is
_TABLES = {
    "reasons": ("What counts", "what"),
    "decks": ("Decks", "per-deck"),
    "presets": ("Presets", "per-preset"),
}
_NO = {"", "–"}  # cells that say nothing


class ImportSummaryScreen(AppScreen, actions="import_summary"):
    """Shown after a file is read; Enter or the button starts the evaluation."""

    def content(self) -> ComposeResult:
        yield Static(id="facts")
        with TabbedContent():
            for name, (title, tab) in _TABLES.items():
                with TabPane(title, id=tab):
                    yield DataTable(id=name, cursor_type="row", zebra_stripes=True)
            with TabPane("Notes", id="remarks"), VerticalScroll(id="notes"):
                yield Static(id="remarks-text")
        with Horizontal(id="choice"):
            yield Static("Models")
            names = dict.fromkeys([self.session.options.models, *GROUPS])
            yield Select(
                [(Text(words.cut(name, 24)), name) for name in names],
                value=self.session.models.asked,
                allow_blank=False,
                compact=True,
                id="models",
            )
            yield Static("Rows")
            yield Select(
                [("benchmark", "benchmark"), ("anki", "anki")],
                value=self.session.models.protocol.rows,
                allow_blank=False,
                compact=True,
                id="rows",
            )
            yield Button("Evaluate", variant="primary", compact=True, id="evaluate")

    def on_mount(self) -> None:
        self._show()
        self.query_one("#reasons").focus()

    @property
    def _import_summary(self) -> Inspection:
        assert self.session.import_summary is not None
        return self.session.import_summary

    def _show(self) -> None:
        read = self._import_summary
        kept = read.rows[self.session.models.protocol.rows]
        dropped = sum(kept.dropped.values())
        span = f", {read.span}" if read.span else ""
        facts = Text.assemble(
            (f"{kept.kept:,} of {read.entries_read:,} entries", "bold"),
            f" count as reviews ({kept.cards:,} cards)",
            f"; {dropped:,} left out\n" if dropped else "\n",
            (f"{read.format}{span}\nDays: {read.day_boundaries}", "dim"),
        )
        self.query_one("#facts", Static).update(facts)
        for name, table in zip(_TABLES, summary_tables(read), strict=True):
            self._fill(self.query_one(f"#{name}", DataTable), table)
        notes = [f"• {note}" for note in read.notes]
        if read.deleted_cards:
            entries = f"their {read.entries_of_deleted_cards:,} entries are still there"
            notes.append(f"• {read.deleted_cards:,} cards are deleted; {entries}.")
        if read.fsrs_enabled is not None:
            notes.append(f"• FSRS is {'on' if read.fsrs_enabled else 'off'}.")
        if kept.kept < 1000:
            notes.append("• Fewer than 1,000 reviews: figures will be uncertain.")
        text = "\n".join(notes) or "Nothing out of the ordinary."
        self.query_one("#remarks-text", Static).update(Text(text))
        tabs = self.query_one(TabbedContent)
        tabs.get_tab("remarks").label = f"Notes ({len(notes)})" if notes else "Notes"

    def _fill(self, shown: DataTable[Any], table: Table) -> None:
        """Without columns that say nothing; names are cut, what is left over can be scrolled to."""
        before, texts = shown.cursor_row, table.texts()
        kept = [k for k in range(len(table.columns)) if k == 0 or {row[k] for row in texts} - _NO]
        sides: list[Any] = ["right" if table.right[k] else "left" for k in kept]
        titles = [table.columns[k].title for k in kept]
        rows = [[words.shortened(row[k], _NAME) for k in kept[1:]] for row in texts]
        others = sum(max(map(cell_len, each)) + 2 for each in zip(titles[1:], *rows, strict=True))
        room = max(_NAME, self.app.size.width - others - 3)
        shown.clear(columns=True)
        for title, side in zip(titles, sides, strict=True):
            shown.add_column(Text(title, "bold", justify=side))
        for (name, *_), cells in zip(texts, rows, strict=True):
            row = zip([words.shortened(name, room), *cells], sides, strict=True)
            shown.add_row(*(Text(cell, justify=side) for cell, side in row))
        shown.move_cursor(row=before, animate=False)

    @on(Select.Changed, "#rows")
    def _rows_chosen(self, event: Select.Changed) -> None:
        rows: Literal["benchmark", "anki"] = "anki" if event.value == "anki" else "benchmark"
        if rows != self.session.models.protocol.rows:
            self.session.models.protocol = replace(self.session.models.protocol, rows=rows)
            self._show()
            self.show_protocol()

    @on(Select.Changed, "#models")
    def _models_chosen(self, event: Select.Changed) -> None:
        if isinstance(event.value, str):
            self.session.models.asked = event.value

    def action_switch_rows(self) -> None:
        rows = self.query_one("#rows", Select)
        rows.value = "anki" if rows.value == "benchmark" else "benchmark"

    def move(self, step: int) -> None:
        tabs = self.query_one(TabbedContent)
        panes = list(tabs.query(TabPane))
        shown = panes[([pane.id for pane in panes].index(tabs.active) + step) % len(panes)]
        tabs.active = str(shown.id)
        shown.query("DataTable, VerticalScroll").first().focus()

    @on(DataTable.RowSelected)
    def _row_chosen(self, event: DataTable.RowSelected) -> None:
        """A preset's or a deck's row evaluates that alone; other rows evaluate what there is."""
        is_preset = event.data_table.id == "presets"
        if event.data_table.id == "reasons":
            self.action_ranking()
            return
        reports: Sequence[PresetReport | DeckReport] = (
            self._import_summary.presets if is_preset else self._import_summary.decks
        )
        chosen = reports[event.cursor_row]
        if chosen.id == MISSING:
            self.notify("These reviews belong to no preset or deck that still exists.", timeout=3)
            return
        one = (str(chosen.id),)
        self.session.evaluate_only((one, ()) if is_preset else ((), one))

    def on_button_pressed(self) -> None:
        self.action_ranking()
