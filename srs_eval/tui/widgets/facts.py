"""Text that fits whatever width it is given: what an answer rests on, a model's figures, tables.

Tables have one column of intervals drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from srs_eval.advice.findings import Finding
from srs_eval.advice.questions import heading_of
from srs_eval.advice.sentences import (
    SHARES,
    Cell,
    Pane,
    Table,
    is_difference,
    parameter_line,
    percent,
    where_to_paste,
)
from srs_eval.advice.shown import sentences, tables
from srs_eval.advice.shown.first_screen import first_screen
from srs_eval.advice.workload.estimate import Workload
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import Result
from srs_eval.metrics import FACTS
from srs_eval.report.formats import count, cut, difference, loss, metric
from srs_eval.report.panes import drawn
from srs_eval.stats.intervals import Interval
from srs_eval.tui.widgets.plot import DOTS, common_scale

_GAP = "  "  # between columns
_NO: Set[str] = frozenset()
_LEAST, _MOST = 14, 48  # columns of a drawn interval
_NAME = 24  # columns of a row's name where its interval is drawn below the table
_WORDS = 24  # columns from which a cell is more than a figure or a name
_FEWEST = 3  # columns of a table
_FIRST = 3  # sentences below a chart; the others follow under "More"
_MOST_BELOW = 10  # rows of a table whose intervals are drawn below it


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
        (fact.name, metric(result.metrics, field), fact.meaning) for field, fact in FACTS.items()
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
    found = log and (log.presets.get(partition) or log.decks.get(partition))
    return found.name if found else f"partition {partition}"


def evidence(answer: Finding, paint: Mapping[str, str], above: Set[str] = _NO) -> WidthDependent:
    """Everything there is to an answer but the parameters to paste, for whatever width.

    These need the whole width of the window: a mouse selects what stands beside them, too. Costs
    are drawn first, `paint`ed by level. Sentences that stand `above` are not said again, nor is the
    heading of a question that does.
    """
    parts: list[Text | WidthDependent] = [
        Text(sentence + "\n")
        for sentence in sentences(answer)
        if not set(sentence.casefold().rstrip(".").split("; ")) <= above
    ]
    if isinstance(answer.evidence, Workload):
        pane = first_screen([answer.evidence.glance]).panes[2]
        more = Text("More", "bold")
        parts = [in_full(pane, paint), Text(""), *parts[:_FIRST], more, *parts[_FIRST:]]
    for table in tables(answer):
        parts += [Text(table.heading, "bold"), drawn_table(table), Text("")]
    page = f"Explained in the documentation, Findings: {heading_of(answer.question)}"
    return stacked([*parts, Text(page, "dim")] if answer.question not in above else parts)


def in_full(pane: Pane, paint: Mapping[str, str]) -> WidthDependent:
    """A pane of the first screen, with all that it says."""
    return WidthDependent(lambda width: Text("\n").join(drawn(pane, width, 99, paint, airy=False)))


def parameters_to_paste(answer: Finding) -> Text:
    """The line that Anki takes, and where it goes."""
    assert answer.parameters is not None
    return Text.assemble(
        (parameter_line(answer.parameters), "bold"), "\n", (where_to_paste(answer), "dim")
    )


def drawn_table(table: Table) -> WidthDependent:
    """Figures as text; one column of intervals drawn beside them, or below for want of room."""

    def draw(width: int) -> Text:
        place = _to_draw(table)
        cells = [
            [_cell(cell, name) for cell, name in zip(row, table.columns, strict=True)]
            for row in table.rows
        ]
        taken = sum(_widths(table, cells)) + 2 * len(table.columns)
        if taken - 2 > width:  # only the differences keep their intervals, rather than cut a name
            for row, texts_of_row in zip(table.rows, cells, strict=True):
                for number, cell in enumerate(row):
                    if isinstance(cell, Interval) and number != place:
                        texts_of_row[number] = texts_of_row[number].partition(" ±")[0]
        longest = _widths(table, cells)
        kept = len(longest) if place is not None else _unbroken(longest, width)
        words_only = [
            place for place in range(kept) if all(isinstance(row[place], str) for row in table.rows)
        ]
        widest = max(words_only or [0], key=lambda place: longest[place])
        numbers = set(range(kept)) - set(words_only)
        texts = [[Text(name, "bold dim") for name in table.columns[:kept]]]
        texts += [[Text(cell) for cell in row[:kept]] for row in cells]
        below: list[Text] = []
        if place is not None and width - taken < _LEAST:
            below = _drawn_below(table, place, width)
        elif place is not None:
            drawn = _drawn(table, place, width - taken)
            for line_of_row, picture in zip(texts, drawn, strict=False):
                line_of_row.append(picture)
        return Text("\n").join([in_columns(texts, width, numbers, widest), *below])

    return WidthDependent(draw)


def _drawn(table: Table, place: int, room: int) -> list[Text]:
    """An axis, then the interval of each row on it; nothing where they have no scale."""
    cells = [row[place] for row in table.rows]
    intervals = [cell for cell in cells if isinstance(cell, Interval)]
    differs = is_difference(table.columns[place])
    zero = [Interval(0.0, 0.0)] if differs and intervals else []
    scale = common_scale(intervals + zero, min(room, _MOST))
    if scale is None:
        return []
    line = 0.0 if differs else None
    heading = scale.labels(line, "dim")
    heading.stylize_before("bold")
    return [
        heading,
        *(
            scale.whisker(cell, _dot(table, row), "", line, "dim")
            if isinstance(cell, Interval)
            else Text("")
            for row, cell in zip(table.rows, cells, strict=True)
        ),
    ]


def _drawn_below(table: Table, place: int, width: int) -> list[Text]:
    """The intervals of a table that leaves no room beside it, by name; none of a long one."""
    shown = [row for row in table.rows if isinstance(row[place], Interval)]
    if len(shown) > _MOST_BELOW:
        return []
    names = [cut(str(row[0]), _NAME) for row in shown]
    taken = max(map(cell_len, names), default=0) + 2
    drawn = _drawn(replace(table, rows=tuple(shown)), place, width - taken)
    if not drawn or width - taken < _LEAST or len(set(names)) < len(names):
        return []
    lines = zip(["", *names], drawn, strict=True)
    beside = (Text.assemble(set_cell_size(name, taken), picture) for name, picture in lines)
    return [Text(""), *beside]


def _dot(table: Table, row: tuple[Cell, ...]) -> str:
    """A row's verdict; where others of the table have one and it has none, a dot of its own."""
    says = table.verdict(row)
    return "●" if says is None else DOTS.get(says, "●") if says else "·"


def _widths(table: Table, cells: list[list[str]]) -> list[int]:
    """What each column of a table takes; a Chinese or Japanese character takes two."""
    rows = zip(table.columns, *cells, strict=True)
    return [max(map(cell_len, column)) for column in rows]


def _unbroken(widths: list[int], width: int) -> int:
    """How many columns are shown: rather fewer than broken figures. Words may be broken."""
    kept = len(widths)
    if max(widths) < _WORDS:
        while kept > _FEWEST and sum(widths[:kept]) + 2 * (kept - 1) > width:
            kept -= 1
    return kept


def _to_draw(table: Table) -> int | None:
    """The column of differences, else the first one of intervals."""
    columns = enumerate(zip(*table.rows, strict=True))
    places = [at for at, cells in columns if any(isinstance(cell, Interval) for cell in cells)]
    return min(places, key=lambda at: not is_difference(table.columns[at]), default=None)


def _cell(cell: Cell, column: str) -> str:
    match cell:
        case None:
            return "–"
        case Interval() if column in SHARES:
            half = f" ±{100 * cell.half_width:.0f}" if cell.half_width == cell.half_width else ""
            return f"{100 * cell.estimate:.1f} %{half}"
        case Interval() if is_difference(column) or column in ("your day", "cards"):
            return difference(cell)
        case Interval():
            return loss(cell, 4)
        case float():
            if column in SHARES:
                return percent(cell)
            return f"{cell:,.0f}" if column == "minutes" else f"{cell:.4f}"
        case int():
            return count(cell)
    return cell
