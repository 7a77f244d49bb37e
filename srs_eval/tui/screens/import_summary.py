"""The import receipt: what was read, what counts, what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, DataTable, Select, Static, TabbedContent, TabPane

from srs_eval.data.reviews import MISSING
from srs_eval.report import formats as words
from srs_eval.report.inspection import DeckReport, Inspection, PresetReport
from srs_eval.tui.screens.base import AppScreen

_NAME = 24  # columns that a name gets, however little room there is


class ReceiptScreen(AppScreen, actions="receipt"):
    """Shown after a file is read; Enter or the button starts the evaluation."""

    def content(self) -> ComposeResult:
        yield Static(id="facts")
        with TabbedContent():
            with TabPane("What counts", id="what"):
                yield DataTable(id="reasons", cursor_type="row", zebra_stripes=True)
            with TabPane("Decks", id="per-deck"):
                yield DataTable(id="decks", cursor_type="row", zebra_stripes=True)
            with TabPane("Presets", id="per-preset"):
                yield DataTable(id="presets", cursor_type="row", zebra_stripes=True)
            with TabPane("Notes", id="remarks"), VerticalScroll(id="notes"):
                yield Static(id="remarks-text")
        with Horizontal(id="choice"):
            yield Static("Models")
            yield Select(
                [(Text(words.cut(name, 24)), name) for name in self.session.models.choices()],
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
    def _receipt(self) -> Inspection:
        assert self.session.receipt is not None
        return self.session.receipt

    def _show(self) -> None:
        receipt = self._receipt
        rule = self.session.models.protocol.rows
        kept = receipt.rows[rule]
        dropped = sum(kept.dropped.values())
        span = ""
        if receipt.first_review and receipt.last_review:
            span = f", {receipt.first_review[:10]} to {receipt.last_review[:10]}"
        facts = Text.assemble(
            (f"{words.count(kept.kept)} of {words.count(receipt.entries_read)} entries", "bold"),
            f" count as reviews ({words.count(kept.cards)} cards)",
            f"; {words.count(dropped)} are left out\n" if dropped else "\n",
            (f"{receipt.format}{span}\nDays: {receipt.day_boundaries}", "dim"),
        )
        self.query_one("#facts", Static).update(facts)
        self._reasons(receipt)
        self._decks(receipt, f"{rule}_rows")
        self._presets(receipt, f"{rule}_rows")
        notes = [f"• {note}" for note in receipt.notes]
        if receipt.deleted_cards:
            notes.append(
                f"• {words.count(receipt.deleted_cards)} cards are deleted; their "
                f"{words.count(receipt.entries_of_deleted_cards)} entries are still in the file."
            )
        if receipt.fsrs_enabled is not None:
            notes.append(f"• FSRS is {'on' if receipt.fsrs_enabled else 'off'}.")
        if kept.kept < 1000:
            notes.append("• Fewer than 1,000 reviews: figures will be uncertain.")
        text = "\n".join(notes) or "Nothing out of the ordinary."
        self.query_one("#remarks-text", Static).update(Text(text))
        tabs = self.query_one(TabbedContent)
        tabs.get_tab("remarks").label = f"Notes ({len(notes)})" if notes else "Notes"

    def _fill(
        self, name: str, headings: Sequence[str], rows: list[tuple[Any, ...]], left: int = 1
    ) -> None:
        """Fill a table whose first `left` columns are aligned at their left end.

        What there is no room for can be scrolled to, so what matters most comes first.
        """
        table: DataTable[Any] = self.query_one(f"#{name}", DataTable)
        before = table.cursor_row
        texts = [tuple(Text(each, "bold") for each in headings)]
        texts += [
            tuple(each if isinstance(each, Text) else Text(str(each)) for each in row)
            for row in rows
        ]
        columns = list(zip(*texts, strict=True))
        for cell in chain(*columns[left:]):
            cell.justify = "right"
        others = sum(max(cell.cell_len for cell in column) + 2 for column in columns[1:])
        for cell in columns[0]:
            cell.plain = words.shortened(cell.plain, max(_NAME, self.app.size.width - others - 3))
        table.clear(columns=True)
        table.add_columns(*texts[0])
        table.add_rows(texts[1:])
        table.move_cursor(row=before, animate=False)

    def _reasons(self, receipt: Inspection) -> None:
        rules = list(receipt.rows)
        chosen = self.session.models.protocol.rows

        def cells(values: list[int], style: str = "") -> list[Text]:
            return [
                Text(words.count(value), style if rule == chosen else "dim")
                for rule, value in zip(rules, values, strict=True)
            ]

        found = [receipt.rows[rule] for rule in rules]
        rows: list[tuple[Any, ...]] = [
            (Text("count as reviews", "bold"), *cells([one.kept for one in found], "bold")),
            ("  of them on a later day", *cells([one.later_days for one in found])),
        ]
        reasons = dict.fromkeys(reason for one in found for reason in one.dropped)
        if reasons:
            rows.append((Text("are left out", "bold"), "", ""))
        for reason in reasons:
            rows.append((f"  {reason}", *cells([one.dropped.get(reason, 0) for one in found])))
        headings = tuple(f"{'▸' if rule == chosen else ''}{rule}" for rule in rules)
        self._fill("reasons", ("entries that", *headings), rows)

    def _decks(self, receipt: Inspection, counted: str) -> None:
        rows: list[tuple[Any, ...]] = [
            (
                deck.name or f"deck {deck.id}",
                "filtered deck" if deck.filtered else deck.preset,
                words.count(getattr(deck.counts, counted)),
                words.count(deck.counts.cards),
                words.percent(deck.desired_retention, 0) if deck.desired_retention else "",
            )
            for deck in receipt.decks
        ]
        self._fill("decks", ("deck", "preset", "reviews", "cards", "own retention"), rows, left=2)

    def _presets(self, receipt: Inspection, counted: str) -> None:
        rows: list[tuple[Any, ...]] = [
            (
                preset.name or f"preset {preset.id}",
                preset.schedules_with,
                words.count(getattr(preset.counts, counted)),
                words.percent(preset.desired_retention, 0) if preset.desired_retention else "",
                words.count(preset.counts.cards),
                preset.decks,
                preset.ignore_before or "",
            )
            for preset in receipt.presets
        ]
        headings = ("parameters", "reviews", "retention", "cards", "decks", "ignores before")
        self._fill("presets", ("preset", *headings), rows, left=2)

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

    def action_next(self) -> None:
        self._turn(1)

    def action_previous(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        tabs = self.query_one(TabbedContent)
        panes = [pane for pane in tabs.query(TabPane) if pane.id is not None]
        place = [pane.id for pane in panes].index(tabs.active)
        shown = panes[(place + step) % len(panes)]
        tabs.active = str(shown.id)
        shown.query("DataTable, VerticalScroll").first().focus()

    @on(DataTable.RowSelected)
    def _row_chosen(self, event: DataTable.RowSelected) -> None:
        """A preset's or a deck's row judges that alone; other rows evaluate what there is."""
        receipt, kind = self._receipt, event.data_table.id
        reports: Mapping[str | None, Sequence[PresetReport | DeckReport]] = {
            "presets": receipt.presets,
            "decks": receipt.decks,
        }
        if kind not in reports:
            self.action_ranking()
            return
        chosen = reports[kind][event.cursor_row]
        if chosen.id == MISSING:
            self.notify("These reviews belong to no preset or deck that still exists.", timeout=3)
            return
        one = (str(chosen.id),)
        self.session.judge_only((one, ()) if kind == "presets" else ((), one))

    @on(Button.Pressed, "#evaluate")
    def action_ranking(self) -> None:
        self.show_ranking()
