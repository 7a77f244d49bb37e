"""The import receipt: what was read, what counts, what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, DataTable, Select, Static, TabbedContent, TabPane

from srs_eval.data.reviews import MISSING
from srs_eval.report import formats as words
from srs_eval.report.inspection import DeckReport, Inspection, PresetReport
from srs_eval.tui.screens.actions import RECEIPT, bindings
from srs_eval.tui.screens.base import AppScreen

_NAME = 20  # columns that a deck's or a preset's name gets before a column of figures goes


class ReceiptScreen(AppScreen):
    """Shown after a file is read; Enter or the button starts the evaluation."""

    actions = RECEIPT
    BINDINGS = bindings(RECEIPT)
    about = """
What was read from the file, and which of its entries count as reviews.

Two rules are on offer. "benchmark" keeps what the public benchmark keeps, so that \
figures compare with published ones. "anki" keeps what Anki's own optimizer uses: \
cards that still exist and are not suspended, after the preset's ignore-before date. \
Judged are reviews on a later day than the card's review before.

Decks and Presets tell where the reviews are; Enter on one judges it alone. \
"parameters" names the FSRS version whose parameters a preset holds.
"""

    def __init__(self) -> None:
        super().__init__()
        self._shown_at = 0  # columns of the window that the tables are made for

    def content(self) -> ComposeResult:
        yield Static(id="facts")
        with TabbedContent():
            with TabPane("What counts", id="what"):
                yield self._table("reasons")
            with TabPane("Decks", id="per-deck"):
                yield self._table("decks")
            with TabPane("Presets", id="per-preset"):
                yield self._table("presets")
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

    def _table(self, name: str) -> DataTable[Any]:
        return DataTable(id=name, cursor_type="row", zebra_stripes=True)

    def on_mount(self) -> None:
        receipt = self.session.receipt
        assert receipt is not None
        self._show(receipt)
        self._shown_at = self.app.size.width
        self.query_one("#reasons").focus()

    def on_resize(self) -> None:
        receipt, width = self.session.receipt, self.app.size.width
        if receipt is not None and width != self._shown_at:
            self._shown_at = width
            self._show(receipt)

    def _show(self, receipt: Inspection) -> None:
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
        self._decks(receipt)
        self._presets(receipt)
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
        self,
        name: str,
        headings: tuple[str, ...],
        rows: list[tuple[Any, ...]],
        left: int = 1,
        may_go: tuple[str, ...] = (),
    ) -> None:
        """Fill a table with as many of its columns as there is room for.

        Names, in the first column, are cut before a column goes. Of those that `may_go` the
        first goes first; `left` columns are aligned at their left end.
        """
        table: DataTable[Any] = self.query_one(f"#{name}", DataTable)
        texts = [
            [each if isinstance(each, Text) else Text(str(each)) for each in row] for row in rows
        ]
        padding = 2 * table.cell_padding
        sizes = [
            max([len(heading), *(row[place].cell_len for row in texts)]) + padding
            for place, heading in enumerate(headings)
        ]
        width = self.app.size.width - 1  # for a scrollbar
        shown = list(range(len(headings)))
        for heading in may_go:
            others = sum(sizes[place] for place in shown[1:])
            if others + min(sizes[0], _NAME + padding) <= width:
                break
            shown.remove(headings.index(heading))
        room = width - sum(sizes[place] for place in shown[1:]) - padding
        before = table.cursor_row
        table.clear(columns=True)
        for place in shown:
            justify: Literal["left", "right"] = "left" if place < left else "right"
            table.add_column(Text(headings[place], justify=justify))
            for row in texts:
                row[place].justify = justify
        for row in texts:
            first = row[0]
            if first.cell_len > room:
                row[0] = Text(words.shortened(first.plain, max(room, 8)), first.style)
            table.add_row(*(row[place] for place in shown))
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

    def _decks(self, receipt: Inspection) -> None:
        anki = self.session.models.protocol.rows == "anki"
        rows: list[tuple[Any, ...]] = []
        for deck in receipt.decks:
            counts = deck.counts
            retention = deck.desired_retention
            rows.append(
                (
                    deck.name or f"deck {deck.id}",
                    "filtered deck" if deck.filtered else deck.preset,
                    words.count(counts.cards),
                    words.count(counts.anki_rows if anki else counts.benchmark_rows),
                    words.percent(retention, 0) if retention else "",
                )
            )
        headings = ("deck", "preset", "cards", "reviews", "own retention")
        self._fill("decks", headings, rows, left=2, may_go=("cards", "own retention", "preset"))

    def _presets(self, receipt: Inspection) -> None:
        anki = self.session.models.protocol.rows == "anki"
        rows: list[tuple[Any, ...]] = []
        for preset in receipt.presets:
            counts = preset.counts
            retention = preset.desired_retention
            rows.append(
                (
                    preset.name or f"preset {preset.id}",
                    preset.schedules_with,
                    preset.decks,
                    words.count(counts.cards),
                    words.count(counts.anki_rows if anki else counts.benchmark_rows),
                    words.percent(retention, 0) if retention else "",
                    preset.ignore_before or "",
                )
            )
        headings = (
            "preset",
            "parameters",
            "decks",
            "cards",
            "reviews",
            "retention",
            "ignores before",
        )
        may_go = ("cards", "decks", "ignores before", "parameters")
        self._fill("presets", headings, rows, left=2, may_go=may_go)

    @on(Select.Changed, "#rows")
    def _rows_chosen(self, event: Select.Changed) -> None:
        rows: Literal["benchmark", "anki"] = "anki" if event.value == "anki" else "benchmark"
        if rows != self.session.models.protocol.rows:
            self.session.models.protocol = replace(self.session.models.protocol, rows=rows)
            receipt = self.session.receipt
            if receipt is not None:
                self._show(receipt)
            self.show_protocol()

    @on(Select.Changed, "#models")
    def _models_chosen(self, event: Select.Changed) -> None:
        if isinstance(event.value, str):
            self.session.models.asked = event.value

    def action_rows(self) -> None:
        rows = self.query_one("#rows", Select)
        rows.value = "anki" if rows.value == "benchmark" else "benchmark"

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
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
        receipt, kind = self.session.receipt, event.data_table.id
        reports: Sequence[PresetReport | DeckReport] = ()
        if receipt is not None and kind in ("presets", "decks"):
            reports = receipt.presets if kind == "presets" else receipt.decks
        if not reports:
            self.action_evaluate()
            return
        chosen = reports[event.cursor_row]
        if chosen.id == MISSING:
            self.notify("These reviews belong to no preset or deck that still exists.", timeout=3)
            return
        one = (str(chosen.id),)
        self.session.judge_only((one, ()) if kind == "presets" else ((), one))

    @on(Button.Pressed, "#evaluate")
    def _go(self) -> None:
        self.action_evaluate()

    def action_evaluate(self) -> None:
        self.show_ranking()
