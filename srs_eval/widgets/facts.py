"""A model's figures and parameters as tables that fit whatever width they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from srs_eval import words
from srs_eval.results import Result
from srs_eval.reviews import ReviewLog


@dataclass(frozen=True)
class WidthDependent:
    """Content that is laid out anew for each width."""

    draw: Callable[[int], RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.draw(options.max_width)


def metric_table(result: Result) -> WidthDependent:
    """Each metric with its meaning beside it or, in a narrow column, below it."""
    figures = [
        (name, words.metric(result.metrics, field, style), meaning)
        for field, name, style, meaning in words.METRICS
    ]

    def draw(width: int) -> RenderableType:
        if width < 56:
            lines = [
                Text.assemble(f"{name:<13}", (f"{figure:>8}", "bold"), (f"\n  {meaning}", "dim"))
                for name, figure, meaning in figures
            ]
            return Text("\n").join(lines)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(ratio=1)
        for name, figure, meaning in figures:
            table.add_row(Text(name), Text(figure, "bold"), Text(meaning, "dim"))
        return table

    return WidthDependent(draw)


def parameter_table(result: Result, log: ReviewLog | None) -> WidthDependent | Text:
    """The parameters fitted for the last fold, numbered as w0, w1 ... per partition."""
    partitions = result.parameters
    if not partitions:
        return Text("This model has no parameters that could be listed.", "dim")

    def draw(width: int) -> RenderableType:
        columns = max(1, min(7, width // 13))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for _ in range(columns):
            table.add_column(no_wrap=True, justify="right")
        for partition, values in partitions.items():
            if len(partitions) > 1:
                table.add_row(Text(partition_name(partition, log), "bold"))
            cells = [
                Text.assemble((f"w{number} ", "dim"), f"{value:.4f}")
                for number, value in enumerate(values)
            ]
            for start in range(0, len(cells), columns):
                table.add_row(*cells[start : start + columns])
        return table

    return WidthDependent(draw)


def partition_name(partition: int, log: ReviewLog | None) -> str:
    """The name of a preset or a deck."""
    if log is not None and partition in log.presets:
        return log.presets[partition].name
    if log is not None and partition in log.decks:
        return log.decks[partition].name
    return f"partition {partition}"
