"""Show the ranking as a table that fills as models finish."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType

from rich.text import Text
from textual import events
from textual.widgets import OptionList
from textual.widgets.option_list import Option, OptionDoesNotExist

from srs_eval.data.errors import format_count
from srs_eval.engine.ranking import RankedResult, RankingGroup, Standing
from srs_eval.engine.run import ModelRun, Run, Stage
from srs_eval.engine.schedulability import Measurement
from srs_eval.models.configurations import Configuration
from srs_eval.models.own_parameters import is_available_in_anki, make_table_remarks
from srs_eval.report import formats
from srs_eval.report.ranking_columns import APP_COLUMNS, sort_lines
from srs_eval.report.ranking_words import describe_group_differences, list_sections
from srs_eval.report.schedulability import format_verdict
from srs_eval.stats.intervals import Interval
from srs_eval.tui.config import State
from srs_eval.tui.screens.themes import Palette, find_palette
from srs_eval.tui.widgets.plot import VERDICT_DOTS, Scale, fit_scale

_FIGURE_COLUMNS = ("vs average", "RMSE(bins)", "AUC", "params", "can schedule")
_MIN_WIDTH_FOR_INTERVALS = 70  # width from which intervals are drawn
_MIN_INTERVAL_WIDTH = 24  # of the column of drawn intervals
_MIN_NAME_WIDTH = 16
_MAX_NAME_WIDTH = 25
FOLD_LINE = "folded models"
"""Id of the line that stands for the folded models; no model has this name."""


class RankingTable(OptionList):
    """One line per model; the cursor stays on its model when lines move.

    A click chooses a model, and a second click opens it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.chosen: str | None = None
        self.follows_best = True  # until the user moves the cursor
        self.marked: list[str] = []
        self.shown_count = 0  # models, after filtering
        self.heading = Text()  # of the columns; below it the learner's own line if the list scrolls
        self._rows: list[tuple[str | None, Text]] = []  # models by name; None for headings
        self._widths: dict[str, int] = {}  # by column, in order
        self._scale: Scale | None = None
        self._baseline_loss: float | None = None
        self._own_scheduler: str | None = None
        self._measurements: Mapping[str, Measurement] = {}

    # --- what is shown

    def show(
        self,
        evaluation: Run,
        seconds_left: Mapping[str, float],
        state: State,
        own_scheduler: str | None,
        folded: frozenset[str] = frozenset(),
        fold_key: str = "",
        measurements: Mapping[str, Measurement] = MappingProxyType({}),
    ) -> None:
        """Update the headings, and the list if any line of it has changed.

        `seconds_left` maps models to their remaining seconds; `own_scheduler` is the learner's. One
        line, which names `fold_key`, stands for the `folded` models. `measurements` say whether
        models can schedule, by name.
        """
        if not self.size.width:
            return
        self._own_scheduler = own_scheduler
        self._measurements = measurements
        groups = evaluation.groups()
        configurations = [model.configuration for model in evaluation.models.values()]
        visible = {
            configuration.name: configuration
            for configuration in configurations
            if _is_visible(configuration, state) and configuration.name not in folded
        }
        self.shown_count = len(visible)
        self._lay_out_columns(groups, configurations, folded, state)
        unfinished = []
        for model in evaluation.unfinished():
            if model.name in visible:
                seconds = seconds_left.get(model.name, 0.0)
                unfinished.append((model.name, self._format_unfinished(model, seconds)))
        fold_text = _describe_folded(evaluation, folded, fold_key)
        rows = list(self._build_rows(groups, visible, unfinished, fold_text, state))
        # If the list scrolls, the learner's own line stays in sight below the headings.
        if own_scheduler in evaluation.results_by_name() and len(rows) >= self.size.height:
            own_line = self._format_ranked(evaluation.ranked_result(own_scheduler))
            self.heading = Text("\n").join([self.heading, own_line])
        if rows != self._rows:
            self._rows = rows
            self._update_options()

    def _update_options(self) -> None:
        """Put the rows into the list; cursor and scroll position stay."""
        names = [name for name, _ in self._rows]
        scroll_y = self.scroll_offset.y
        with self.prevent(OptionList.OptionHighlighted):
            self.set_options(Option(text, id=name, disabled=not name) for name, text in self._rows)
            if self.follows_best or self.chosen not in names:
                self.chosen = next(filter(None, names), None)
            if self.chosen is not None:
                self.highlighted = names.index(self.chosen)
        self.scroll_to(y=scroll_y, animate=False, immediate=True)

    def _build_rows(
        self,
        groups: list[RankingGroup],
        visible: Mapping[str, Configuration],
        unfinished: list[tuple[str, Text]],
        fold_text: str,
        state: State,
    ) -> Iterator[tuple[str | None, Text]]:
        """Yield the lines of the list, each with its model's name, or None if none can be chosen.

        The `visible` models are shown; the `unfinished` ones come after the first group. If there
        is a `fold_text`, it is a line below all models, which can be chosen like one.
        """
        if not groups:
            yield from unfinished
        # A model may also be in a later group, on the reviews shared with others: it can be chosen
        # only where it comes first.
        names_above: set[str] = set()
        for group in groups:
            is_first = group is groups[0]
            is_visible = any(line.configuration.name in visible for line in group.lines)
            if is_visible and not is_first:
                differences = describe_group_differences(group, groups[0])
                yield None, self._format_rule(differences, "═", "italic")
            sections = list_sections(group)
            if state.order != "place":
                sections = [("", sort_lines(group, state.order, state.backwards))]
            for verdict, section_lines in sections:
                lines = [line for line in section_lines if line.configuration.name in visible]
                if len(sections) > 1 and any(line.rank is not None for line in lines):
                    yield None, self._format_rule(verdict, "─", "dim")
                for line in lines:
                    name = line.configuration.name
                    yield None if name in names_above else name, self._format_ranked(line)
                names_above |= {line.configuration.name for line in lines}
            if is_first:
                yield from unfinished
        text_width = sum(self._widths.values()) - 4
        if fold_text:
            yield FOLD_LINE, Text(" ▸ " + "\n   ".join(textwrap.wrap(fold_text, text_width)))
        for remark in make_table_remarks(list(visible.values())):
            wrapped = textwrap.wrap(remark, text_width)
            yield None, Text("   " + "\n   ".join(wrapped), "dim")

    def _lay_out_columns(
        self,
        groups: list[RankingGroup],
        configurations: list[Configuration],
        folded: frozenset[str],
        state: State,
    ) -> None:
        """Compute columns, their heading and the scale of the drawn intervals for this width.

        The scale leaves out the `folded` models.
        """
        names = [configuration.words for configuration in configurations]
        name_width = max(map(len, names), default=0) + 2
        self._widths = _compute_column_widths(self.size.width - 1, name_width, state.order)
        self._scale = None
        self._baseline_loss = None
        if "interval plot" in self._widths:
            losses: list[Interval] = []
            baseline_loss = None
            for group in groups:
                if baseline_loss is None and group.baseline is not None:  # the first group's
                    baseline_loss = group.baseline.log_loss
                for line in group.lines:
                    is_folded = line.configuration.name in folded
                    if line.standing is not Standing.BELOW_BASELINE and not is_folded:
                        losses.append(line.log_loss)
            self._scale = fit_scale(losses, self._widths["interval plot"] - 2, baseline_loss)
            if baseline_loss is not None:
                self._baseline_loss = baseline_loss.estimate
        headings = {column: self._format_column_heading(column, state) for column in self._widths}
        self.heading = self._join_cells(headings)

    def column_at(self, x: int) -> str:
        """Return the column that lies `x` cells from the left; "" beyond the last one."""
        ends = zip(self._widths, accumulate(self._widths.values()), strict=True)
        return next((column for column, end in ends if x < end), "")

    def _format_column_heading(self, key: str, state: State) -> Text:
        if key == "interval plot":
            if self._scale is None:
                return Text("")
            return Text.assemble(
                " ", self._scale.draw_labels(self._baseline_loss, self._palette.baseline)
            )
        column = APP_COLUMNS[key]
        text = column.heading
        if state.order == key:
            text += "↑" if state.backwards else "↓"
        if column.aligns_right:
            text = text.rjust(column.width - 1)
        return Text(text, "bold")

    @property
    def _palette(self) -> Palette:
        return find_palette(self.app.current_theme)

    # --- lines

    def _format_rule(self, text: str, rule: str, style: str) -> Text:
        """Return a heading that runs across all columns."""
        return Text(f"{rule * 2} {text} ".ljust(sum(self._widths.values()) - 1, rule), style)

    def _leading_cells(self, configuration: Configuration, rank: str) -> dict[str, Text]:
        """Return cells with the rank and a mark, the family's letter, and the name in words."""
        colours = self._palette
        is_own = configuration.name == self._own_scheduler
        own_style = colours.yours if is_own else ""
        mark = " "
        if configuration.name in self.marked:
            mark = "●"
        elif is_own:
            mark = "★"
        family = configuration.model.family
        anki_mark = "✓" if is_available_in_anki(configuration) else ""
        name_width = self._widths["model"] - 1
        if is_own and configuration.fit != "own":
            suffix = " yours"
            name = formats.shorten_middle(configuration.words, name_width - len(suffix))
            name_text = Text(name).append(suffix, own_style)
        else:  # the name of the user's own parameters says "your" already
            name_text = Text(formats.shorten_middle(configuration.words, name_width), own_style)
        return {
            "place": Text.assemble(f"{rank:>2}", (mark, own_style)),
            "family": Text.assemble(
                (formats.FAMILIES[family].letter, colours.families.get(family, "dim")),
                (anki_mark, "dim"),
            ),
            "model": name_text,
        }

    def _format_ranked(self, line: RankedResult) -> Text:
        colours = self._palette
        rank = ""
        if line.rank:
            rank = str(line.rank)
        elif line.is_baseline:
            rank = "═"
        cells = self._leading_cells(line.configuration, rank)
        if line.standing in (Standing.BEST, Standing.AS_GOOD):
            cells["model"].stylize("bold")
        if line.result.notes:
            cells["model"].append("*")
        if line.is_baseline:
            style = colours.baseline
        elif line.configuration.name == self._own_scheduler:
            style = colours.yours
        else:
            style = colours.families.get(line.configuration.model.family, "")
        if self._scale is not None:
            dot = "═" if line.is_baseline else VERDICT_DOTS[line.standing or Standing.CANT_TELL]
            interval = self._scale.draw_interval(
                line.log_loss, dot, style, self._baseline_loss, f"dim {colours.baseline}"
            )
            cells["interval plot"] = Text.assemble(" ", interval)
        for key, column in APP_COLUMNS.items():
            if column.format_cell is None:
                continue
            text = column.format_cell(line)
            if column.aligns_right:
                text = text.rjust(column.width - 1)
            cells[key] = Text(text)
        measurement = self._measurements.get(line.configuration.name)
        if measurement is not None:
            cells["can schedule"] = Text(format_verdict(measurement))
        if line.is_baseline:
            for cell in cells.values():
                cell.stylize(colours.baseline)
        return self._join_cells(cells)

    def _format_unfinished(self, model: ModelRun, seconds_left: float) -> Text:
        cells = self._leading_cells(model.configuration, "")
        state = model.stage.value
        is_running = model.stage is Stage.RUNNING
        has_failed = model.stage is Stage.FAILED
        if model.reason:  # shown instead of figures
            line = self._join_cells(cells, until="log loss")
            reason_width = sum(self._widths.values()) - line.cell_len
            reason = formats.truncate(f"{state}: {model.reason}", reason_width)
            return line.append(reason, "" if has_failed else "dim")
        has_drawn_column = "interval plot" in self._widths
        if is_running:
            style = ""
            cells["log loss"] = Text(formats.format_bar(model.fraction, 11))
            if model.is_compiling:
                state = "preparing"
            elif model.is_checking:
                state = "checking"
            elif model.fraction:
                state = f"{model.fraction:.0%}"
                if has_drawn_column:
                    state += f", {formats.format_duration(seconds_left)}"
        else:
            style = "bold" if has_failed else "dim"
            cells["model"].stylize("dim")
            if model.stage is Stage.WAITING and seconds_left >= 3:
                cells["log loss"] = Text(f"about {formats.format_duration(seconds_left)}", "dim")
        if has_drawn_column:
            cells["interval plot"] = Text(f" {state}", style)
        else:
            cells["vs average"] = Text(state, style)
        return self._join_cells(cells)

    def _join_cells(self, cells: Mapping[str, Text], until: str = "") -> Text:
        """Join cells into a line, or into its beginning up to the column `until`."""
        line = Text()
        for column, width in self._widths.items():
            if column == until:
                break
            cell = cells.get(column, Text()).copy()
            cell.truncate(width, pad=True)
            line.append_text(cell)
        return line

    # --- the cursor

    def move_cursor_to(self, configuration: str | None) -> None:
        """Move the cursor to a model, as if the user had done it."""
        with contextlib.suppress(OptionDoesNotExist):
            self.highlighted = self.get_option_index(configuration or "")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id != self.chosen:
            self.chosen = event.option_id
            self.follows_best = False

    def on_click(self, event: events.Click) -> None:
        clicked = event.style.meta.get("option")
        if clicked is None or self.options[clicked].id == FOLD_LINE:  # unfolds at the first click
            return
        if clicked != self.highlighted:
            event.prevent_default()  # which would also open it
            if not self.options[clicked].disabled:
                self.highlighted = clicked

    def scroll_to_highlight(self, top: bool = False) -> None:
        """Scroll to the cursor, with headings above the first model and remarks below the last."""
        super().scroll_to_highlight(top)
        cursor = self.highlighted or 0
        if all(option.disabled for option in self.options[:cursor]):
            self.scroll_home(animate=False, immediate=True)
        elif all(option.disabled for option in self.options[cursor + 1 :]):
            self.scroll_end(animate=False, immediate=True)


def _compute_column_widths(width: int, name_width: int, order: str) -> dict[str, int]:
    """Return the columns that fit beside names of `name_width` cells, with their widths."""
    name_width = min(max(name_width, _MIN_NAME_WIDTH), _MAX_NAME_WIDTH)
    columns = ["place", "family", "log loss", "vs average"]

    def remaining_width() -> int:
        return max(width - sum(APP_COLUMNS[column].width for column in columns), 8)

    for column in _FIGURE_COLUMNS[1:]:  # the first one is always there
        if remaining_width() - APP_COLUMNS[column].width < name_width + _MIN_INTERVAL_WIDTH:
            break
        columns.append(column)
    if order != "place":  # verdicts get a column, because there are no headings that show them
        if width < _MIN_WIDTH_FOR_INTERVALS:
            columns = ["place", "family"]
        order_column = order if order in _FIGURE_COLUMNS else "log loss"
        if order_column not in columns:
            columns.append(order_column)
        columns.append("verdict")
    widths = {column: layout.width for column, layout in APP_COLUMNS.items()}
    widths["model"] = remaining_width()
    has_room_for_intervals = remaining_width() >= _MIN_NAME_WIDTH + _MIN_INTERVAL_WIDTH
    if width >= _MIN_WIDTH_FOR_INTERVALS and has_room_for_intervals:
        widths["model"] = name_width
        widths["interval plot"] = remaining_width() - name_width
    return {
        column: column_width
        for column, column_width in widths.items()
        if column_width and (column in columns or not APP_COLUMNS[column].width)
    }


def _is_visible(configuration: Configuration, state: State) -> bool:
    if configuration.model.family in state.hidden and not configuration.is_baseline:
        return False
    return all(map(configuration.matches, state.filter.split()))


def _describe_folded(evaluation: Run, folded: frozenset[str], key: str) -> str:
    """Return the line that stands for the folded models; "" if none are folded."""
    if not folded:
        return ""
    text = f"{format_count(len(folded), 'model')} that Anki cannot use"
    unfinished_count = sum(not evaluation.models[name].is_over for name in folded)
    if evaluation.is_running and unfinished_count:
        text += f", {unfinished_count} still running"
    pronoun = "it" if len(folded) == 1 else "them"
    return f"{text}: press {key} to show {pronoun}"
