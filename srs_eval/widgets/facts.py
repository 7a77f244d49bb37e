"""A model's figures and parameters as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from srs_eval.results import Result
from srs_eval.reviews import ReviewLog
from srs_eval.widgets import words


def metric_table(results: Sequence[Result], explained: bool = True) -> Table:
    """One column of figures per result, and what each figure says."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    for _ in results:
        table.add_column(no_wrap=True, justify="right")
    if explained:
        table.add_column(ratio=1)
    for field, name, style, meaning in words.METRICS:
        figures = [words.metric(result.metrics, field, style) for result in results]
        cells = [Text(name), *(Text(figure, "bold") for figure in figures)]
        if explained:
            cells.append(Text(meaning, "dim"))
        table.add_row(*cells)
    return table


def parameter_table(results: Sequence[Result], log: ReviewLog | None) -> Table | Text:
    """The parameters fitted for the last fold, numbered as w0, w1 ... per partition."""
    result = results[0]
    if not result.parameters:
        return Text("This model has no parameters that could be listed.", "dim")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), title_justify="left")
    for _ in range(4):
        table.add_column(no_wrap=True, justify="right")
    for partition, values in result.parameters.items():
        if len(result.parameters) > 1:
            table.add_row(Text(partition_name(partition, log), "bold"))
        cells = [
            Text.assemble((f"w{number} ", "dim"), f"{value:.4f}")
            for number, value in enumerate(values)
        ]
        for start in range(0, len(cells), 4):
            table.add_row(*cells[start : start + 4])
    return table


def partition_name(partition: int, log: ReviewLog | None) -> str:
    if log is not None and partition in log.presets:
        return log.presets[partition].name
    if log is not None and partition in log.decks:
        return log.decks[partition].name
    return f"partition {partition}"
