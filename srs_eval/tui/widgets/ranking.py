"""The ranking that fills as models finish."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Mapping
from itertools import accumulate

from rich.text import Text
from textual import events
from textual.widgets import OptionList
from textual.widgets.option_list import Option, OptionDoesNotExist

from srs_eval.engine.ranking import Group, Ranked
from srs_eval.engine.run import ModelRun, Run, Stage
from srs_eval.models.configurations import Configuration
from srs_eval.models.own_parameters import is_in_anki, remarks
from srs_eval.report import formats as words
from srs_eval.report.formats import clock
from srs_eval.tui.config import State
from srs_eval.tui.screens.themes import Palette, palette
from srs_eval.tui.widgets.plot import DOTS, Scale, common_scale

_SIZES = {
    **{"place": 3, "family": 3, "model": 0, "log loss": 13, "drawn": 0, "vs average": 13},
    **{"RMSE(bins)": 12, "AUC": 6, "params": 8, "verdict": 15},
}
"""Columns from left to right; those of 0 share what the others leave."""
_FIGURES = ("vs average", "RMSE(bins)", "AUC", "params")
_DRAWN = 70  # columns from which intervals are drawn
_LEAST_DRAWN = 24  # columns of the drawn intervals beside the shortest names
_LEAST_NAME, _LONGEST_NAME = 16, 25


class RankingTable(OptionList):
    """One line per model; the cursor stays on its model when lines move.

    A click chooses a model, a second one opens it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.chosen: str | None = None
        self.follows_best = True  # until the user moves the cursor
        self.marked: list[str] = []
        self.shown = 0  # models, after filtering
        self.heading = Text()  # of the columns
        self._rows: list[tuple[str | None, Text]] = []  # models by name; None for headings
        self._sizes: dict[str, int] = {}
        self._scale: Scale | None = None
        self._baseline: float | None = None
        self._own: str | None = None

    # --- what is shown

    def show(
        self, evaluation: Run, left: Mapping[str, float], state: State, own: str | None
    ) -> None:
        """Bring every line up to date.

        `left` are the seconds that models will take still, `own` is the learner's own scheduler.
        """
        if not self.size.width:
            return
        groups, self._own = evaluation.groups(), own
        everyone = [model.configuration for model in evaluation.models.values()]
        wanted = {each.name: each for each in everyone if _wanted(each, state)}
        self.shown = len(wanted)
        self._lay_out(groups, everyone, state)
        unfinished = [
            (model.name, self._unfinished(model, left.get(model.name, 0.0)))
            for model in evaluation.unfinished()
            if model.name in wanted
        ]
        rows = list(self._all_rows(groups, wanted, unfinished, state))
        if own in evaluation.results() and len(rows) >= self.size.height:
            self.heading = Text("\n").join([self.heading, self._finished(evaluation.line(own))])
        if rows != self._rows:
            self._rows = rows
            self._list()

    def _list(self) -> None:
        names, top = [name for name, _ in self._rows], self.scroll_offset.y
        with self.prevent(OptionList.OptionHighlighted):
            self.set_options(Option(text, id=name, disabled=not name) for name, text in self._rows)
            if self.follows_best or self.chosen not in names:
                self.chosen = next(filter(None, names), None)
            if self.chosen is not None:
                self.highlighted = names.index(self.chosen)
        self.scroll_to(y=top, animate=False, immediate=True)

    def _all_rows(
        self,
        groups: list[Group],
        wanted: Mapping[str, Configuration],
        unfinished: list[tuple[str, Text]],
        state: State,
    ) -> Iterator[tuple[str | None, Text]]:
        if not groups:
            yield from unfinished
        above: set[str] = set()  # who is ranked on shared reviews, too, can be chosen once
        for number, group in enumerate(groups):
            if number and any(line.configuration.name in wanted for line in group.lines):
                yield None, self._rule(_heading(group, groups[0]), "═", "italic")
            parts = group.ties
            if state.order != "place":
                parts = [("", group.ordered(state.order, state.backwards))]
            for verdict, members in parts:
                lines = [line for line in members if line.configuration.name in wanted]
                if len(parts) > 1 and any(line.place is not None for line in lines):
                    yield None, self._rule(verdict, "─", "dim")
                for line in lines:
                    name = line.configuration.name
                    yield None if name in above else name, self._finished(line)
                above |= {line.configuration.name for line in lines}
            if not number:
                yield from unfinished
        for remark in remarks(list(wanted.values())):
            wrapped = textwrap.wrap(remark, sum(self._sizes.values()) - 4)
            yield None, Text("   " + "\n   ".join(wrapped), "dim")

    def _lay_out(self, groups: list[Group], everyone: list[Configuration], state: State) -> None:
        """Columns, their heading, and the scale of the drawn intervals, for this width."""
        names = max((len(each.words) for each in everyone), default=0) + 2
        self._sizes = _sizes(self.size.width - 1, names, state.order)
        baseline = next((group.baseline for group in groups if group.baseline is not None), None)
        self._scale = self._baseline = None
        if "drawn" in self._sizes:
            lines = [line for group in groups for line in group.lines]
            losses = [line.log_loss for line in lines if line.standing != "below the baseline"]
            limit = None if baseline is None else baseline.log_loss
            self._scale = common_scale(losses, self._sizes["drawn"] - 2, limit)
            self._baseline = None if baseline is None else baseline.log_loss.estimate
        self.heading = self._in_columns(
            {each: self._column_heading(each, state) for each in self._sizes}
        )

    def column_at(self, x: int) -> str:
        """The column that lies so far from the left."""
        ends = zip(self._sizes, accumulate(self._sizes.values()), strict=True)
        return next((column for column, end in ends if x < end), "")

    def _column_heading(self, key: str, state: State) -> Text:
        if key == "drawn":
            if self._scale is None:
                return Text("")
            return Text.assemble(" ", self._scale.labels(self._baseline, self._palette.baseline))
        arrow = ("↑" if state.backwards else "↓") if state.order == key else ""
        text = {"place": "", "family": "", "vs average": words.THAN_AVERAGE}.get(key, key) + arrow
        if key in ("RMSE(bins)", "params"):
            text = text.rjust(_SIZES[key] - 1)
        return Text(text, "bold")

    @property
    def _palette(self) -> Palette:
        return palette(self.app.current_theme)

    # --- lines

    def _rule(self, text: str, rule: str, style: str) -> Text:
        """A heading that runs through all columns."""
        return Text(f"{rule * 2} {text} ".ljust(sum(self._sizes.values()) - 1, rule), style)

    def _begin(self, configuration: Configuration, place: str) -> dict[str, Text]:
        """Place and mark, the family's letter, and the name in words."""
        colours = self._palette
        own = configuration.name == self._own
        mark = "●" if configuration.name in self.marked else "★" if own else " "
        family = configuration.model.family
        yours = " yours" if own and configuration.fit != "own" else ""  # else the name says it
        name = words.shortened(configuration.words, self._sizes["model"] - 1 - len(yours))
        shown = Text(name, colours.yours if own and not yours else "").append(yours, colours.yours)
        return {
            "place": Text.assemble(f"{place:>2}", (mark, colours.yours if own else "")),
            "family": Text.assemble(
                (words.FAMILIES[family].letter, colours.families.get(family, "dim")),
                ("✓" if is_in_anki(configuration) else "", "dim"),
            ),
            "model": shown,
        }

    def _finished(self, line: Ranked) -> Text:
        metrics, colours = line.result.metrics, self._palette
        is_baseline = line.is_baseline
        cells = self._begin(line.configuration, str(line.place or ("═" if is_baseline else "")))
        if line.standing in ("best", "as good"):
            cells["model"].stylize("bold")
        if line.result.notes:
            cells["model"].append("*")
        family = colours.families.get(line.configuration.model.family, "")
        own = line.configuration.name == self._own
        style = colours.baseline if is_baseline else colours.yours if own else family
        if self._scale is not None:
            dot = "═" if is_baseline else DOTS[line.standing or "can't tell yet"]
            drawn = self._scale.whisker(
                line.log_loss, dot, style, self._baseline, f"dim {colours.baseline}"
            )
            cells["drawn"] = Text.assemble(" ", drawn)
        against = "the baseline" if is_baseline else words.against_baseline(line.against_baseline)
        cells |= {
            "log loss": Text(words.loss(line.log_loss)),
            "vs average": Text(against),
            "RMSE(bins)": Text(f"{words.metric(metrics, 'rmse_bins'):>11}"),
            "AUC": Text(words.metric(metrics, "auc")),
            "params": Text(f"{'–' if line.parameters is None else f'{line.parameters:,}':>7}"),
            "verdict": Text(line.verdict_words),
        }
        if is_baseline:
            for cell in cells.values():
                cell.stylize(colours.baseline)
        return self._in_columns(cells)

    def _unfinished(self, model: ModelRun, left: float) -> Text:
        cells, state = self._begin(model.configuration, ""), model.stage.value
        running, failed = model.stage is Stage.RUNNING, model.stage is Stage.FAILED
        if model.reason:  # in the place of all figures
            before = self._in_columns(cells, until="log loss")
            room = sum(self._sizes.values()) - before.cell_len
            return before.append(
                words.cut(f"{state}: {model.reason}", room), "" if failed else "dim"
            )
        roomy = "drawn" in self._sizes
        if running:
            cells["log loss"] = Text(words.bar(model.fraction, 11))
            if model.preparing:
                state = "preparing"
            elif model.is_checking:
                state = "checking"
            elif model.fraction:
                state = f"{model.fraction:.0%}"
                state += f", {clock(left)}" if roomy else ""
        else:
            cells["model"].stylize("dim")
            if model.stage is Stage.WAITING and left >= 3:
                cells["log loss"] = Text(f"about {clock(left)}", "dim")
        style = "" if running else "bold" if failed else "dim"
        cells["drawn" if roomy else "vs average"] = Text(f" {state}" if roomy else state, style)
        return self._in_columns(cells)

    def _in_columns(self, cells: Mapping[str, Text], until: str = "") -> Text:
        """A line of cells, or its beginning `until` a column."""
        line = Text()
        for key, size in self._sizes.items():
            if key == until:
                break
            cell = cells.get(key, Text()).copy()
            cell.truncate(size, pad=True)
            line.append_text(cell)
        return line

    # --- the cursor

    def choose(self, configuration: str | None) -> None:
        """Put the cursor on a model, as if the user had done it."""
        with contextlib.suppress(OptionDoesNotExist):
            self.highlighted = self.get_option_index(configuration or "")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id != self.chosen:
            self.chosen, self.follows_best = event.option_id, False

    def on_click(self, event: events.Click) -> None:
        place = event.style.meta.get("option")
        if place is not None and place != self.highlighted:
            event.prevent_default()  # which would open it, too
            if not self.options[place].disabled:
                self.highlighted = place

    def scroll_to_highlight(self, top: bool = False) -> None:
        """With the headings above the first model, and the remarks below the last one."""
        super().scroll_to_highlight(top)
        place = self.highlighted or 0
        if all(option.disabled for option in self.options[:place]):
            self.scroll_home(animate=False, immediate=True)
        elif all(option.disabled for option in self.options[place + 1 :]):
            self.scroll_end(animate=False, immediate=True)


def _sizes(width: int, names: int, order: str) -> dict[str, int]:
    """The columns that there is room for, where names are so long, and how wide each is."""
    names = min(max(names, _LEAST_NAME), _LONGEST_NAME)
    shown = ["place", "family", "log loss", "vs average"]

    def room() -> int:
        return max(width - sum(_SIZES[each] for each in shown), 8)

    for each in _FIGURES[1:]:
        if room() - _SIZES[each] < names + _LEAST_DRAWN:
            break
        shown.append(each)
    if order != "place":  # verdicts have a column, for no headings tell them
        asked = order if order in _FIGURES else "log loss"
        shown = list(dict.fromkeys([*shown[: 2 if width < _DRAWN else None], asked, "verdict"]))
    sizes = {**_SIZES, "model": room()}
    if width >= _DRAWN and room() >= _LEAST_NAME + _LEAST_DRAWN:
        sizes["model"] = names
        sizes["drawn"] = room() - sizes["model"]
    return {
        each: size for each, size in sizes.items() if size and (each in shown or not _SIZES[each])
    }


def _wanted(configuration: Configuration, state: State) -> bool:
    if configuration.model.family in state.hidden and not configuration.is_baseline:
        return False
    return all(map(configuration.matches, state.filter.split()))


def _heading(group: Group, first: Group) -> str:
    """What sets a group apart from the first one."""
    if group.is_shared:
        other = [f"on the {group.reviews:,} reviews that all have"]
    else:
        same = group.rows == first.rows and group.reviews == first.reviews
        other = [] if same else ["other reviews"]
    learning = ["know how today is going (no schedulers)"] if group.learns else []
    return ", ".join([*other, *learning])
