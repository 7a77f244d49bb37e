"""The ranking that fills as models finish."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widgets import DataTable
from textual.widgets.data_table import RowDoesNotExist

from srs_eval.engine.ranking import Group, Ranked
from srs_eval.engine.run import ModelRun, Run, Stage
from srs_eval.models.configurations import SUFFIX_WORDS, Configuration
from srs_eval.report import formats as words
from srs_eval.report.formats import clock
from srs_eval.tui.screens.themes import Palette, palette
from srs_eval.tui.state import State
from srs_eval.tui.widgets.whiskers import DOTS, Scale, axis, common_scale, whisker

_COLUMN = "line"
"""A row is one cell: the table draws each cell anew after every change, and many take long."""
_SEPARATOR = "\0"  # begins the keys of rows that are no model
_COLUMNS = (
    *("place", "family", "model", "log loss", "drawn", "vs average"),
    *("RMSE(bins)", "AUC", "params", "verdict"),
)
_FALLS_BACK = f" {SUFFIX_WORDS['fallback_user']}"
_DRAWN = 70  # columns from which intervals are drawn
_LEAST_DRAWN = 26  # columns of the drawn intervals, before names get more than the usual
_LEAST_NAME, _USUAL_NAME, _LONGEST_NAME = 16, 24, 41


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

    class OrderAsked(Message):
        """A column's heading was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    class Resized(Message):
        """It has another size: later than the screen, which lays it out."""

    def __init__(self) -> None:
        super().__init__(cursor_type="row", cell_padding=0)
        self.chosen: str | None = None
        self.follows_best = True  # until the user moves the cursor
        self.marked: list[str] = []
        self.shown = 0  # models, after filtering
        self._rows: dict[str, Text] = {}
        self._kept: dict[tuple[object, ...], Text] = {}
        self._known: dict[tuple[object, ...], Text] = {}  # of the time before
        self._strips: dict[int, tuple[Text, tuple[object, ...], Strip]] = {}
        self._layout: tuple[tuple[str, int], ...] = ()
        self._columns_for = 0  # this width
        self._scale: Scale | None = None
        self._floor: float | None = None
        self._verdicts = False  # in a column, where headings don't tell them
        self._own: str | None = None
        self._pinned = False  # one's own line is first, wherever it is ranked

    # --- what is shown

    def show(
        self, evaluation: Run, left: Mapping[str, float], state: State, own: str | None
    ) -> None:
        """Bring every row up to date.

        `left` are the seconds that models will take still, `own` is the learner's own scheduler.
        """
        if not self.size.width:
            return
        self._own, self._verdicts = own, state.order != "place"
        groups = evaluation.groups()
        everyone = [model.configuration for model in evaluation.models.values()]
        wanted = {each.name for each in everyone if _wanted(each, state)}
        self.shown = len(wanted)
        self._lay_out(groups, everyone, state)
        self._known, self._kept = self._kept, {}
        rows = dict(self._all_rows(evaluation, groups, wanted, left, state))
        pinned = own in wanted and len(rows) + 1 > self.size.height - 1
        self._pinned = pinned and own in evaluation.results()
        if own is not None and self._pinned:  # the others anew: no heading is left without a line
            others = self._all_rows(evaluation, groups, wanted - {own}, left, state)
            rows = {own: self._cells(evaluation.line(own)), **dict(others)}
        self.fixed_rows = int(self._pinned)
        self._update(rows)

    def _all_rows(
        self,
        evaluation: Run,
        groups: list[Group],
        wanted: set[str],
        left: Mapping[str, float],
        state: State,
    ) -> Iterator[tuple[str, Text]]:
        unfinished = [model for model in evaluation.unfinished() if model.name in wanted]
        for number, group in enumerate(groups):
            if all(line.configuration.name not in wanted for line in group.lines):
                continue
            if number:
                yield self._heading(number, "", _heading(group, groups[0]), "═")
            if state.order == "place":
                for tie in group.ties:
                    lines = [line for line in tie.lines if line.configuration.name in wanted]
                    if len(group.ties) > 1 and any(line.place is not None for line in lines):
                        yield self._heading(number, tie.words, tie.words, "─")
                    yield from self._lines(lines)
            else:
                ordered = group.ordered(state.order, state.backwards)
                yield from self._lines(
                    line for line in ordered if line.configuration.name in wanted
                )
            if not number:
                yield from self._unfinished_rows(unfinished, left)
                unfinished = []
        yield from self._unfinished_rows(unfinished, left)

    def _lines(self, lines: Iterable[Ranked]) -> Iterator[tuple[str, Text]]:
        for line in lines:
            yield line.configuration.name, self._cells(line)

    def _unfinished_rows(
        self, models: Iterable[ModelRun], left: Mapping[str, float]
    ) -> Iterator[tuple[str, Text]]:
        for model in models:
            yield model.name, self._unfinished_cells(model, left.get(model.name, 0.0))

    def _lay_out(self, groups: list[Group], everyone: list[Configuration], state: State) -> None:
        """Columns, and the scale of the drawn intervals, for this width."""
        width = self.size.width - 1
        names = max((len(each.words) for each in everyone), default=0) + 2
        names = min(max(names, _LEAST_NAME), _LONGEST_NAME)
        fixed = [("place", 3), ("family", 2), ("log loss", 13), ("vs average", 13)]
        more = [("RMSE(bins)", 12), ("AUC", 6), ("params", 8)]
        for each in more:  # names are cut for what models are mostly compared by, not for others
            least = names if each[0] == "params" else min(names, _USUAL_NAME)
            if width - sum(size for _, size in (*fixed, each)) < least + _LEAST_DRAWN:
                break
            fixed.append(each)
        if self._verdicts:
            asked = [each for each in (*fixed[2:], *more) if each[0] == state.order]
            if width < _DRAWN:  # the verdict needs the room of what is not asked for
                fixed = [*fixed[:2], *(asked or fixed[2:3])]
            fixed += [each for each in asked if each not in fixed]
            fixed.append(("verdict", 15))
        room = max(width - sum(size for _, size in fixed), 8)
        drawn = width >= _DRAWN and room >= _LEAST_NAME + _LEAST_DRAWN
        widest = max(room - _LEAST_DRAWN, _USUAL_NAME) if drawn else room
        name = min(names, widest)
        sizes = dict(fixed) | {"model": room if not drawn else name, "drawn": room - name}
        chosen = [each for each in _COLUMNS if each in sizes and (each != "drawn" or drawn)]
        lines = [line for group in groups for line in group.lines]
        floor = next((group.floor for group in groups if group.floor is not None), None)
        self._scale = self._floor = None
        if drawn:
            limit = None if floor is None else floor.log_loss
            losses = [line.log_loss for line in lines if line.standing != "below the floor"]
            self._scale = common_scale(losses, room - name - 2, limit)
            self._floor = None if floor is None else floor.log_loss.estimate
        self._layout = tuple((each, sizes[each]) for each in chosen)
        headings = {each: self._column_heading(each, state) for each in chosen}
        heading = self._in_columns(headings)
        if width != self._columns_for:
            self._columns_for = width
            self._rows = {}
            self.clear(columns=True)
            self.add_column(heading, width=width, key=_COLUMN)
        (column,) = self.ordered_columns
        if column.label != heading or column.label.spans != heading.spans:
            column.label = heading
            self._rows = {}  # cells are drawn from a cache, and so is the heading
            self.clear()

    def place_of(self, column: str) -> int:
        """Where a column begins, from the left."""
        place = [key for key, _ in self._layout].index(column)
        return sum(size for _, size in self._layout[:place])

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        if event.y != 0 or event.x < 0:
            return
        for key, _ in reversed(self._layout):
            if event.x >= self.place_of(key):
                self.post_message(self.OrderAsked(key))
                return

    def _column_heading(self, key: str, state: State) -> Text:
        if key == "drawn":
            if self._scale is None:
                return Text("")
            return Text.assemble(" ", axis(self._scale, self._floor, self._palette.floor))
        arrow = ("↑" if state.backwards else "↓") if state.order == key else ""
        text = {"place": "", "family": "", "vs average": words.THAN_AVERAGE}.get(key, key) + arrow
        if key in ("RMSE(bins)", "params"):
            text = text.rjust(11 if key == "RMSE(bins)" else 7)
        return Text(text, "bold")

    @property
    def _palette(self) -> Palette:
        return palette(self.app.current_theme)

    # --- cells

    def _heading(self, number: int, key: str, text: str, rule: str) -> tuple[str, Text]:
        """A row that runs through all columns."""
        width = sum(size for _, size in self._layout)
        line = f"{rule * 2} {text} ".ljust(width - 1, rule)
        style = "dim" if rule == "─" else "italic"
        return f"{_SEPARATOR}{number} {key}", Text.assemble((line, style))

    def _cells(self, line: Ranked) -> Text:
        name = line.configuration.name
        # A line is kept: only few things about it can change, and drawing it takes long.
        looks = (self._scale, self._floor, self._layout, self.app.theme, self._own == name)
        changing = (line.place, line.standing, line.against_floor, name in self.marked)
        key = (name, id(line.result), changing, looks)
        cells = self._known.get(key) or self._finished_cells(line)
        self._kept[key] = cells
        return cells

    def _begin(self, configuration: Configuration, place: str) -> dict[str, Text]:
        """Place and mark, the family's letter, and the name in words."""
        colours = self._palette
        own = configuration.name == self._own
        mark = "●" if configuration.name in self.marked else "★" if own else " "
        family = configuration.model.family
        room = dict(self._layout)["model"] - 1
        yours = " yours" if own and configuration.fit != "own" else ""  # else the name says it
        name = configuration.words
        if len(name) > room - len(yours):  # names differ at their ends, but for this one
            name = words.shortened(name.removesuffix(_FALLS_BACK), room - len(yours))
        shown = Text(name, colours.yours if own and not yours else "").append(yours, colours.yours)
        return {
            "place": Text.assemble(f"{place:>2}", (mark, colours.yours if own else "")),
            "family": Text(words.FAMILIES[family].letter, colours.families.get(family, "dim")),
            "model": shown,
        }

    def _finished_cells(self, line: Ranked) -> Text:
        metrics, colours = line.result.metrics, self._palette
        is_floor = line.is_floor
        cells = self._begin(line.configuration, str(line.place or ("═" if is_floor else "")))
        if line.standing in ("best", "as good"):
            cells["model"].stylize("bold")
        if line.result.notes:
            cells["model"].append("*")
        family = colours.families.get(line.configuration.model.family, "")
        own = line.configuration.name == self._own
        style = colours.floor if is_floor else colours.yours if own else family
        if self._scale is not None:
            dot = "═" if is_floor else DOTS[line.standing or "can't tell yet"]
            drawn = whisker(
                line.log_loss, self._scale, dot, style, self._floor, f"dim {colours.floor}"
            )
            cells["drawn"] = Text.assemble(" ", drawn)
        against = "the floor" if is_floor else words.against_floor(line.against_floor)
        cells |= {
            "log loss": Text(words.loss(line.log_loss)),
            "vs average": Text(against),
            "RMSE(bins)": Text(f"{words.metric(metrics, 'rmse_bins'):>11}"),
            "AUC": Text(words.metric(metrics, "auc")),
            "params": Text(f"{line.configuration.parameters:>7,}"),
            "verdict": Text(line.verdict_words),
        }
        if is_floor:
            for cell in cells.values():
                cell.stylize(colours.floor)
        return self._in_columns(cells)

    def _unfinished_cells(self, model: ModelRun, left: float) -> Text:
        figure, state = "", model.stage.value
        if model.stage is Stage.RUNNING:
            figure = words.bar(model.fraction, 11)
            if model.preparing:
                state = "preparing"
            elif model.folds:
                state = f"fold {min(model.fold + 1, model.folds)}/{model.folds}"
                if self._scale is not None:
                    state += f", {clock(left)}"
        elif model.stage is Stage.WAITING:
            figure = f"about {clock(left)}" if left >= 3 else ""
        looks = (self._layout, self.app.theme, self._own == model.name)
        key = (model.name, model.stage, model.reason, figure, state, looks)
        cells = self._known.get(key) or self._drawn_unfinished(model, figure, state)
        self._kept[key] = cells
        return cells

    def _drawn_unfinished(self, model: ModelRun, figure: str, state: str) -> Text:
        cells = self._begin(model.configuration, "")
        running, failed = model.stage is Stage.RUNNING, model.stage is Stage.FAILED
        if model.reason:  # in the place of all figures
            before = self._in_columns(cells, until="log loss")
            room = sum(size for _, size in self._layout) - before.cell_len
            return before.append(
                words.cut(f"{state}: {model.reason}", room), "" if failed else "dim"
            )
        cells["log loss"] = Text(figure, "" if running else "dim")
        if not running:
            cells["model"].stylize("dim")
        roomy = any(key == "drawn" for key, _ in self._layout)
        style = "" if running else "bold" if failed else "dim"
        cells["drawn" if roomy else "vs average"] = Text(f" {state}" if roomy else state, style)
        return self._in_columns(cells)

    def _in_columns(self, cells: dict[str, Text], until: str = "") -> Text:
        """A line of cells, or its beginning `until` a column."""
        letters, spans = "", list[Span]()  # appending texts takes several times as long
        for key, size in self._layout:
            if key == until:
                break
            cell, begin = cells.get(key, Text()), len(letters)
            letters += set_cell_size(cell.plain, size)
            whole = [Span(0, len(cell.plain), cell.style)] if cell.style else []
            for each in (*whole, *cell.spans):
                if begin + each.start < len(letters):
                    end = min(begin + each.end, len(letters))
                    spans.append(Span(begin + each.start, end, each.style))
        return Text(letters, spans=spans)

    def _render_line(self, y: int, x1: int, x2: int, base_style: Style) -> Strip:
        """Only a line that has changed is drawn, as it is; the table would draw all, and wrap."""
        row = y - self.header_height
        if row >= self.row_count or not self.columns:
            return super()._render_line(y, x1, x2, base_style)
        row_key, _ = self._get_offsets(y)
        text = self.get_cell(row_key, _COLUMN) if row >= 0 else self.ordered_columns[0].label
        cursor, hover = row == self.cursor_row, row == self.hover_row
        looks: tuple[object, ...] = (row_key, x1, x2, base_style, self._pseudo_class_state)
        looks += (self.app.theme, cursor, hover and self._show_hover_cursor, row < self.fixed_rows)
        kept = self._strips.get(y)
        if kept is not None and kept[0] is text and kept[1] == looks:
            return kept[2]
        heading, fixed = row < 0, 0 <= row < self.fixed_rows
        style, after = self._get_styles_to_render_cell(
            heading,
            False,
            fixed,
            hover,
            cursor,
            self.show_cursor,
            self._show_hover_cursor,
            self.cursor_foreground_priority == "css",
            self.cursor_background_priority == "css",
        )
        style = self._get_row_style(row, base_style) + style
        style += Style.from_meta({"row": row, "column": 0})
        segments = Segment.apply_style(text.render(self.app.console), style, after)
        strip = Strip(segments).adjust_cell_length(self.size.width, style).crop(x1, x2).simplify()
        self._strips[y] = text, looks, strip
        return strip

    # --- rows and the cursor

    def _update(self, rows: dict[str, Text]) -> None:
        if list(rows) == list(self._rows):
            for key, line in rows.items():
                before = self._rows[key]
                if line is not before and (line != before or line.spans != before.spans):
                    self.update_cell(key, _COLUMN, line)
        else:
            scroll = self.scroll_offset
            with self.prevent(DataTable.RowHighlighted):
                self.clear()
                for key, line in rows.items():
                    self.add_row(line, key=key)
                self._back_to_chosen(rows)
            self.scroll_to(y=scroll.y, animate=False, immediate=True)
        self._rows = rows

    def _back_to_chosen(self, rows: dict[str, Text]) -> None:
        if self.chosen in rows and not self.follows_best:
            self.move_cursor(row=self.get_row_index(self.chosen), animate=False, scroll=False)
            return
        models = [key for key in rows if not key.startswith(_SEPARATOR)]
        first = next(iter(models[1:] if self._pinned else models), None)
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

    def action_cursor_down(self) -> None:
        self._step(self.cursor_row, 1)

    def action_cursor_up(self) -> None:
        self._step(self.cursor_row, -1)

    def action_scroll_top(self) -> None:
        self._step(-1, 1)

    def action_scroll_bottom(self) -> None:
        self._step(self.row_count, -1)

    def _step(self, row: int, step: int) -> None:
        """To the next row that is a model, over headings."""
        keys = list(self._rows)
        row += step
        while 0 <= row < len(keys) and keys[row].startswith(_SEPARATOR):
            row += step
        if 0 <= row < len(keys):
            self.move_cursor(row=row)
        elif step < 0:
            self.scroll_to(y=0, animate=False)  # the headings above the first model


def _wanted(configuration: Configuration, state: State) -> bool:
    if configuration.model.family in state.hidden and not configuration.is_floor:
        return False
    return all(map(configuration.matches, state.filter.split()))


def _heading(group: Group, first: Group) -> str:
    """What sets a group apart from the first one."""
    other = [] if group.rows == first.rows and group.reviews == first.reviews else ["other reviews"]
    learning = ["know how today is going (no schedulers)"] if group.learns else []
    return ", ".join([*other, *learning])
