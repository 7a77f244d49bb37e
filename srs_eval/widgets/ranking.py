"""The ranking that fills as models finish."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.widgets import DataTable
from textual.widgets.data_table import RowDoesNotExist

from srs_eval import words
from srs_eval.comparison import Ranked
from srs_eval.configurations import in_words
from srs_eval.screens.evaluation import Evaluation, ModelRun, Stage
from srs_eval.words import clock

_SEPARATOR = "\0group"  # prefix of the keys of rows that are no model
WIDE = 78  # columns from which more figures are shown


class RankingTable(DataTable[Any]):
    """One row per model; the cursor stays on its model when rows move."""

    DEFAULT_CSS = """
    RankingTable {
        height: 1fr;
        background: $surface;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
    }
    """

    BINDINGS: ClassVar[list[Any]] = [
        Binding("home", "scroll_top", "First", show=False),
        Binding("end", "scroll_bottom", "Last", show=False),
    ]

    class Chosen(Message):
        """The cursor has moved to another model."""

        def __init__(self, configuration: str) -> None:
            super().__init__()
            self.configuration = configuration

    def __init__(self) -> None:
        super().__init__(cursor_type="row", cell_padding=0)
        self.chosen: str | None = None
        self.follows_best = True  # until the user moves the cursor
        self.marked: list[str] = []
        self._shown: dict[str, tuple[Text, ...]] = {}
        self._finished: dict[tuple[object, ...], tuple[Text, ...]] = {}
        self._columns_for = 0

    def show(self, evaluation: Evaluation, now: float) -> None:
        """Bring every row up to date."""
        width = self.size.width
        if not width:
            return
        rows: dict[str, tuple[Text, ...]] = {}
        finished: dict[tuple[object, ...], tuple[Text, ...]] = {}
        group = 0
        for model, ranked in evaluation.in_order():
            if ranked is not None and ranked.group != group:
                group = ranked.group
                heading = Text("other reviews:", "italic dim")
                blanks = [Text("")] * (len(self._columns(width)) - 2)
                rows[f"{_SEPARATOR}{group}"] = (Text(""), heading, *blanks)
            # A finished model's cells are kept: only its place and mark can change.
            same = (model.configuration, ranked, model.configuration in self.marked, width)
            cells = self._finished.get(same) if ranked is not None else None
            if cells is None:
                cells = self._cells(model, ranked, now, width, evaluation.reviews)
            if ranked is not None:
                finished[same] = cells
            rows[model.configuration] = cells
        self._finished = finished
        if self._columns_for != width:
            self._columns_for = width
            self._shown = {}
            self.clear(columns=True)
            for heading, size in self._columns(width):
                self.add_column(heading, width=size)
        if list(rows) == list(self._shown):
            columns = list(self.columns)
            for key, cells in rows.items():
                if cells is self._shown[key]:
                    continue
                for column, cell, before in zip(columns, cells, self._shown[key], strict=True):
                    if cell != before or cell.style != before.style:
                        self.update_cell(key, column, cell)
        else:
            scroll = self.scroll_offset
            with self.prevent(DataTable.RowHighlighted):
                self.clear()
                for key, cells in rows.items():
                    self.add_row(*cells, key=key)
                self._back_to_chosen(rows)
            self.scroll_to(y=scroll.y, animate=False, immediate=True)
        self._shown = rows

    def _back_to_chosen(self, rows: dict[str, tuple[Text, ...]]) -> None:
        if self.chosen in rows and not self.follows_best:
            self.move_cursor(row=self.get_row_index(self.chosen), animate=False, scroll=False)
        else:
            first = next((key for key in rows if not key.startswith(_SEPARATOR)), None)
            if first is not None:
                self.move_cursor(row=self.get_row_index(first), animate=False, scroll=False)
                self.chosen = first

    def choose(self, configuration: str) -> None:
        """Put the cursor on a model, as if the user had done it."""
        with contextlib.suppress(RowDoesNotExist):
            self.follows_best = False
            self.move_cursor(row=self.get_row_index(configuration), animate=False)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        event.stop()
        key = event.row_key.value
        if key is None or key.startswith(_SEPARATOR) or key == self.chosen:
            return
        self.follows_best = False
        self.chosen = key
        self.post_message(self.Chosen(key))

    def _columns(self, width: int) -> list[tuple[Text, int]]:
        columns = [("", 3), ("model", 0), ("log loss", 12), ("vs average", 10), (" state", 10)]
        if width >= WIDE:
            columns[4:4] = [(" RMSE(bins)", 13), ("AUC", 6)]
        if width >= WIDE + 12:
            columns[-1:-1] = [("params", 7)]
        room = width - 1 - sum(size for _, size in columns)
        return [(Text(heading), size or max(room, 8)) for heading, size in columns]

    def _cells(
        self,
        model: ModelRun,
        ranked: Ranked | None,
        now: float,
        width: int,
        reviews: int | None,
    ) -> tuple[Text, ...]:
        sizes = [size for _, size in self._columns(width)]
        mark = "●" if model.configuration in self.marked else " "
        name = Text(words.cut(in_words(model.configuration), sizes[1] - 1))
        extra = len(sizes) - 5
        if ranked is not None and model.result is not None:
            floor = ranked.place is None
            place = "–" if floor else str(ranked.place)
            against = words.against_average(ranked)
            style = "dim" if floor else ""
            if ranked.place == 1 and ranked.group == 0:
                name.stylize("bold")
            metrics = model.result.metrics
            cells = [
                Text(f"{place:>2}{mark}"),
                name,
                Text(words.loss(ranked.log_loss)),
                Text(against, style=style),
                Text(f"{words.metric(metrics, 'rmse_bins', '%'):>11}"),
                Text(words.metric(metrics, "auc", "3")),
                Text(parameter_count(model.configuration)),
            ]
            return (*cells[: 4 + extra], Text(" done" if not model.result.notes else " done *"))
        blank = [Text("")] * extra
        if model.stage is Stage.RUNNING:
            left = model.seconds_left(now)
            fold = f"fold {min(model.fold + 1, model.folds)}/{model.folds}" if model.folds else ""
            if model.preparing:
                fold = "preparing"
            return (
                Text(f"  {mark}"),
                name,
                Text(words.bar(model.fraction, 11)),
                Text(fold),
                *blank,
                Text(f" {clock(left)} left" if left is not None else " running"),
            )
        name.stylize("dim")
        expected = model.expected_seconds(reviews) if model.stage is Stage.WAITING else 0.0
        style = {Stage.FAILED: "bold", Stage.SKIPPED: "", Stage.CANCELLED: ""}.get(
            model.stage, "dim"
        )
        return (
            Text(f"  {mark}"),
            name,
            Text(f"about {clock(expected)}" if expected >= 3 else "", "dim"),
            Text(""),
            *blank,
            Text(f" {model.stage.value}", style),
        )


@cache
def parameter_count(configuration: str) -> str:
    from srs_eval.configurations import resolve
    from srs_eval.errors import InputError

    try:
        return f"{resolve([configuration])[0].parameters:,}"
    except InputError:
        return "–"
