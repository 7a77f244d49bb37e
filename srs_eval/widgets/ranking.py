"""The ranking that fills as models finish."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.widgets import DataTable
from textual.widgets.data_table import RowDoesNotExist

from srs_eval import words
from srs_eval.configurations import Configuration
from srs_eval.ranking import Group, Ranked
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
        blanks = [Text("")] * (len(self._columns(width)) - 2)
        groups = evaluation.groups()
        for number, group in enumerate(groups or [None]):
            if group is not None and number:
                heading = Text(_heading(group, groups[0]), "italic dim")
                rows[f"{_SEPARATOR}{number}"] = (Text(""), heading, *blanks)
            for line in group.lines if group is not None else ():
                name = line.configuration.name
                # A finished model's cells are kept: only few things about it can change.
                changing = (line.place, line.standing, line.against_floor, name in self.marked)
                same = (name, id(line.result), changing, width)
                cells = self._finished.get(same) or self._finished_cells(line, width)
                finished[same] = rows[name] = cells
            if not number:
                for model in evaluation.unfinished():
                    rows[model.name] = self._unfinished_cells(model, now, width, evaluation.reviews)
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
        columns = [("", 3), ("model", 0), ("log loss", 12)]
        if width >= 60:
            columns.append(("vs average", 10))
        if width >= WIDE:
            columns += [(" RMSE(bins)", 13), ("AUC", 6)]
        if width >= WIDE + 12:
            columns.append(("params", 7))
        columns.append((" state", 16))
        room = width - 1 - sum(size for _, size in columns)
        return [(Text(heading), size or max(room, 8)) for heading, size in columns]

    def _beginning(self, configuration: Configuration, place: str, width: int) -> tuple[Text, Text]:
        """The first two cells: place and mark, and the name in words."""
        mark = "●" if configuration.name in self.marked else " "
        room = self._columns(width)[1][1]
        return Text(f"{place:>2}{mark}"), Text(words.cut(configuration.words, room - 1))

    def _finished_cells(self, line: Ranked, width: int) -> tuple[Text, ...]:
        metrics = line.result.metrics
        place, name = self._beginning(line.configuration, str(line.place or "–"), width)
        if line.standing in ("best", "as good"):
            name.stylize("bold")
        cells = [
            place,
            name,
            Text(words.loss(line.log_loss)),
            Text(words.against_floor(line.against_floor)),
            Text(f"{words.metric(metrics, 'rmse_bins', '%'):>11}"),
            Text(words.metric(metrics, "auc", "3")),
            Text(f"{line.configuration.parameters:,}"),
        ]
        state = f" {line.standing or 'the floor'}{' *' if line.result.notes else ''}"
        shown = len(self._columns(width)) - 1
        return (*cells[:shown], Text(state, "dim" if line.place is None else ""))

    def _unfinished_cells(
        self, model: ModelRun, now: float, width: int, reviews: int | None
    ) -> tuple[Text, ...]:
        place, name = self._beginning(model.configuration, "", width)
        blanks = [Text("")] * (len(self._columns(width)) - 4)
        if model.stage is Stage.RUNNING:
            state = "running"
            left = model.seconds_left(now)
            if model.preparing:
                state = "preparing"
            elif model.folds:
                state = f"fold {min(model.fold + 1, model.folds)}/{model.folds}"
                state += "" if left is None else f", {clock(left)}"
            return (place, name, Text(words.bar(model.fraction, 11)), *blanks, Text(f" {state}"))
        name.stylize("dim")
        expected = model.expected_seconds(reviews) if model.stage is Stage.WAITING else 0.0
        about = Text(f"about {clock(expected)}" if expected >= 3 else "", "dim")
        style = {Stage.FAILED: "bold", Stage.SKIPPED: "", Stage.CANCELLED: ""}.get(
            model.stage, "dim"
        )
        return (place, name, about, *blanks, Text(f" {model.stage.value}", style))


def _heading(group: Group, first: Group) -> str:
    """What sets a group apart from the first one."""
    other = [] if group.rows == first.rows and group.reviews == first.reviews else ["other reviews"]
    learning = ["learn while judged"] if group.learns else []
    return f"{', '.join([*other, *learning])}:"
