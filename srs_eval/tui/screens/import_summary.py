"""Show the import summary: what was read, what counts, what was left out and why."""

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

from srs_eval.data.errors import format_count
from srs_eval.data.reviews import MISSING
from srs_eval.models.configurations import GROUPS
from srs_eval.report import formats
from srs_eval.report.cells import format_rows
from srs_eval.report.inspection import (
    EXPLANATION_OF_RULES,
    DeckReport,
    Inspection,
    PresetReport,
    build_summary_tables,
)
from srs_eval.stats.tables import Table
from srs_eval.tui.screens.base import AppScreen

_MIN_NAME_WIDTH = 14  # columns of a name, however little room there is
_MAX_FIGURE_WIDTH = 14  # columns of any other cell
# Titles and ids of the tabs, by the ids of their tables.
_TABLES = {
    "reasons": ("What counts", "what"),
    "decks": ("Decks", "per-deck"),
    "presets": ("Presets", "per-preset"),
}
_EMPTY_CELLS = {"", "–"}


class ImportSummaryScreen(AppScreen, actions="import_summary"):
    """Summary of the file that was read; Enter or the button starts the evaluation."""

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
                [(Text(formats.truncate(name, 24)), name) for name in names],
                value=self.session.models.requested,
                allow_blank=False,
                compact=True,
                id="models",
            )
            yield Static("Reviews")
            yield Select(
                [(rows, rows) for rows in self._import_summary.rows],
                value=self.session.models.protocol.rows,
                allow_blank=False,
                compact=True,
                id="rows",
            )
            yield Button("Evaluate", variant="primary", compact=True, id="evaluate")

    def on_mount(self) -> None:
        self._show_summary()
        self.query_one("#reasons").focus()

    @property
    def _import_summary(self) -> Inspection:
        assert self.session.import_summary is not None
        return self.session.import_summary

    def _show_summary(self) -> None:
        summary = self._import_summary
        row_counts = summary.rows[self.session.models.protocol.rows]
        dropped_count = sum(row_counts.dropped.values())
        date_range = f", {summary.date_range}" if summary.date_range else ""
        facts = Text.assemble(
            (f"{row_counts.kept:,} of {summary.entries_read:,} entries", "bold"),
            f" count as reviews ({format_count(row_counts.cards, 'card')})",
            f"; {dropped_count:,} left out\n" if dropped_count else "\n",
            (f"{summary.format}{date_range}\nDays: {summary.day_boundaries}", "dim"),
        )
        self.query_one("#facts", Static).update(facts)
        for name, table in zip(_TABLES, build_summary_tables(summary), strict=True):
            self._fill_table(self.query_one(f"#{name}", DataTable), table)
        notes = [f"• {note}" for note in summary.notes]
        if len(summary.rows) > 1:
            notes.append(f"• {EXPLANATION_OF_RULES}")
        if summary.deleted_cards == 1:
            notes.append("• 1 card was deleted; its entries are still there.")
        elif summary.deleted_cards:
            notes.append(
                f"• {summary.deleted_cards:,} cards were deleted; "
                f"their {summary.entries_of_deleted_cards:,} entries are still there."
            )
        if summary.fsrs_enabled is not None:
            notes.append(f"• FSRS is {'on' if summary.fsrs_enabled else 'off'}.")
        if row_counts.kept < 1000:
            notes.append("• Fewer than 1,000 reviews: figures will be uncertain.")
        text = "\n".join(notes) or "Nothing out of the ordinary."
        self.query_one("#remarks-text", Static).update(Text(text))
        tabs = self.query_one(TabbedContent)
        tabs.get_tab("remarks").label = f"Notes ({len(notes)})" if notes else "Notes"

    def _fill_table(self, widget: DataTable[Any], table: Table) -> None:
        """Fill a table, without its empty columns.

        Names are cut so that all columns fit; if even short names leave too little room, users can
        scroll.
        """
        cursor_row = widget.cursor_row
        rows = format_rows(table)
        shown_columns = [
            index
            for index in range(len(table.columns))
            if index == 0 or not _is_column_empty(rows, index)
        ]
        figure_columns = shown_columns[1:]
        justifications: list[Any] = [
            "right" if table.right_aligned[index] else "left" for index in shown_columns
        ]

        figures_width = 0
        for index in figure_columns:
            figures = [formats.shorten_middle(row[index], _MAX_FIGURE_WIDTH) for row in rows]
            figures_width += max(map(cell_len, [table.columns[index].title, *figures])) + 2
        name_width = max(_MIN_NAME_WIDTH, self.app.size.width - figures_width - 3)

        widget.clear(columns=True)
        for index, justify in zip(shown_columns, justifications, strict=True):
            widget.add_column(Text(table.columns[index].title, "bold", justify=justify))
        for row in rows:
            cells = [formats.shorten_middle(row[0], name_width)]
            for index in figure_columns:
                cells.append(formats.shorten_middle(row[index], _MAX_FIGURE_WIDTH))
            texts = [
                Text(cell, justify=justify)
                for cell, justify in zip(cells, justifications, strict=True)
            ]
            widget.add_row(*texts)
        widget.move_cursor(row=cursor_row, animate=False)

    @on(Select.Changed, "#rows")
    def _rows_chosen(self, event: Select.Changed) -> None:
        rows: Literal["benchmark", "anki"] = "anki" if event.value == "anki" else "benchmark"
        if rows != self.session.models.protocol.rows:
            self.session.models.protocol = replace(self.session.models.protocol, rows=rows)
            self._show_summary()
            self.update_top_line()

    @on(Select.Changed, "#models")
    def _models_chosen(self, event: Select.Changed) -> None:
        if isinstance(event.value, str):
            self.session.models.requested = event.value

    def action_switch_rows(self) -> None:
        rows = self.query_one("#rows", Select)
        rows.value = "anki" if rows.value == "benchmark" else "benchmark"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "switch_rows":
            return len(self._import_summary.rows) > 1  # whoever wrote a table chose its rows
        return super().check_action(action, parameters)

    def move(self, step: int) -> None:
        tabs = self.query_one(TabbedContent)
        panes = list(tabs.query(TabPane))
        current = [pane.id for pane in panes].index(tabs.active)
        new_pane = panes[(current + step) % len(panes)]
        tabs.active = str(new_pane.id)
        new_pane.query("DataTable, VerticalScroll").first().focus()

    @on(DataTable.RowSelected)
    def _row_chosen(self, event: DataTable.RowSelected) -> None:
        """Evaluate only the preset or deck of a row; in the first tab, show the ranking."""
        if event.data_table.id == "reasons":
            self.action_ranking()
            return
        is_preset = event.data_table.id == "presets"
        reports: Sequence[PresetReport | DeckReport] = self._import_summary.decks
        if is_preset:
            reports = self._import_summary.presets
        report = reports[event.cursor_row]
        if report.id == MISSING:
            self.notify("These reviews belong to no preset or deck that still exists.", timeout=3)
            return
        chosen_ids = (str(report.id),)
        if is_preset:
            self.session.restrict_to((chosen_ids, ()))
        else:
            self.session.restrict_to(((), chosen_ids))

    def on_button_pressed(self) -> None:
        self.action_ranking()


def _is_column_empty(rows: Sequence[Sequence[str]], index: int) -> bool:
    return all(row[index] in _EMPTY_CELLS for row in rows)
