"""A model's figures and parameters as tables that fit whatever width they are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rich.console import Console
from rich.text import Text
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import Result
from srs_eval.metrics import FACTS
from srs_eval.report import formats as words

_GAP = "  "  # between columns


class WidthDependent(Visual):
    """Content that is laid out anew for each width, and only for that."""

    def __init__(self, draw: Callable[[int], Text]) -> None:
        self.draw = draw
        self._drawn: tuple[int, Content] | None = None

    def _content(self, width: int) -> Content:
        if self._drawn is None or self._drawn[0] != width:
            self._drawn = width, Content.from_rich_text(self.draw(width))
        return self._drawn[1]

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        return self._content(width).render_strips(width, height, style, options)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return self._content(container_width).get_optimal_width(rules, container_width)

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._content(width).get_height(rules, width)


def stacked(parts: Sequence[Text | WidthDependent]) -> WidthDependent:
    """One below another."""

    def draw(width: int) -> Text:
        return Text("\n").join(
            each.draw(width) if isinstance(each, WidthDependent) else each for each in parts
        )

    return WidthDependent(draw)


def in_columns(
    rows: Sequence[Sequence[Text]], width: int, right: Collection[int] = (), wraps: int = -1
) -> Text:
    """Rows of cells below each other, as wide as their longest.

    Columns `right` are aligned at their right end. Where `width` is too little, the column
    `wraps` takes several lines (-1 for the last). Textual draws rows of text many times as
    fast as a rich table.
    """
    columns = max(map(len, rows), default=0)
    if not columns:
        return Text()
    wraps %= columns
    widths = [
        max((row[place].cell_len for row in rows if place < len(row)), default=0)
        for place in range(columns)
    ]
    others = sum(widths) - widths[wraps] + len(_GAP) * (columns - 1)
    widths[wraps] = min(widths[wraps], max(width - others, 8))
    lines = []
    for row in rows:
        wrapped = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=False)]
        for number in range(max(map(len, wrapped), default=0)):
            line = Text()
            for place, cell in enumerate(wrapped):
                text = cell[number].copy() if number < len(cell) else Text()
                text.align("right" if place in right else "left", widths[place])
                line.append_text(text).append(_GAP if place < len(row) - 1 else "")
            line.rstrip()
            lines.append(line)
    return Text("\n").join(lines)


def _wrapped(cell: Text, width: int) -> list[Text]:
    if cell.cell_len <= width:
        return [cell]
    lines = []
    for line in cell.wrap(Console(), width):
        line.rstrip()
        lines.append(line)
    return lines


def metric_table(result: Result) -> WidthDependent:
    """Each metric with its meaning beside it or, in a narrow column, below it."""
    figures = [
        (fact.name, words.metric(result.metrics, field), fact.meaning)
        for field, fact in FACTS.items()
    ]

    def draw(width: int) -> Text:
        if width < 56:
            lines = [
                Text.assemble(f"{name:<13}", (f"{figure:>8}", "bold"), (f"\n  {meaning}", "dim"))
                for name, figure, meaning in figures
            ]
            return Text("\n").join(lines)
        rows = [
            (Text(name), Text(figure, "bold"), Text(meaning, "dim"))
            for name, figure, meaning in figures
        ]
        return in_columns(rows, width - len(_GAP), right=[1])  # there may be a scrollbar

    return WidthDependent(draw)


def parameter_table(result: Result, log: ReviewLog | None) -> WidthDependent | Text:
    """The parameters fitted for the last fold, numbered as w0, w1 ... per partition."""
    partitions = result.parameters
    if not partitions:
        return Text("This model has no parameters that could be listed.", "dim")

    def draw(width: int) -> Text:
        columns = max(1, min(7, width // 13))
        rows = []
        for partition, values in partitions.items():
            if len(partitions) > 1:
                rows.append([Text(_partition_name(partition, log), "bold")])
            cells = [
                Text.assemble((f"w{number} ", "dim"), f"{value:.4f}")
                for number, value in enumerate(values)
            ]
            rows += [cells[start : start + columns] for start in range(0, len(cells), columns)]
        return in_columns(rows, width, right=range(columns))

    return WidthDependent(draw)


def _partition_name(partition: int, log: ReviewLog | None) -> str:
    """The name of a preset or a deck."""
    if log is not None and partition in log.presets:
        return log.presets[partition].name
    if log is not None and partition in log.decks:
        return log.decks[partition].name
    return f"partition {partition}"
