"""Render evidence, a model's figures and tables as text that fits any width.

A table of evidence has one column of intervals drawn as dots with whiskers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from srs_eval.advice.findings import CANT_TELL, Finding
from srs_eval.advice.questions import findings_heading
from srs_eval.advice.sentences import (
    Pane,
    explain_where_to_paste,
    format_parameters,
)
from srs_eval.advice.shown import are_tables_the_answer, clauses, sentences, tables
from srs_eval.advice.shown.first_screen import build_first_screen
from srs_eval.advice.shown.predicted import (
    list_loss_figures,
    make_loss_by_fold_table,
    make_loss_by_reviews_table,
)
from srs_eval.advice.workload.estimate import Workload
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.loss_breakdown import LossBreakdown
from srs_eval.engine.result import Result
from srs_eval.metrics import METRIC_INFO
from srs_eval.report.cells import format_cell, format_rows
from srs_eval.report.formats import (
    format_metric,
    truncate,
)
from srs_eval.report.panes import render_pane
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Cell, Figure, Table
from srs_eval.tui.widgets.plot import VERDICT_DOTS, fit_scale

_GAP = "  "  # between columns
_MIN_DRAWN_WIDTH = 14  # fewest columns of a drawn interval
_MAX_DRAWN_WIDTH = 48  # most columns of a drawn interval
_MAX_NAME_WIDTH = 24  # columns of a row's name where its interval is drawn below the table
_MIN_WRAPPED_WIDTH = 8  # fewest columns of cells that take several lines
_MIN_TEXT_WIDTH = 24  # a cell of this many columns is a sentence, not a figure or a name
_MIN_COLUMNS = 3  # fewest columns of a table that are shown, whatever its width
_PARAMETER_WIDTH = 13  # of a parameter with its number and a gap
_LEADING_SENTENCES = 3  # sentences below a chart; the others follow under "More"
_VERDICT_COLUMNS = {"verdict", "decision"}
_MAX_ROWS_BELOW = 10  # most rows of a table whose intervals are drawn below it


class WidthDependent(Visual):
    """Content that `draw` lays out for a width, and again only when the width changes."""

    def __init__(self, draw: Callable[[int], Text]) -> None:
        self.draw = draw
        self._cached: tuple[int, Content] | None = None

    def _content(self, width: int) -> Content:
        if self._cached is None or self._cached[0] != width:
            self._cached = width, Content.from_rich_text(self.draw(width))
        return self._cached[1]

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        return self._content(width).render_strips(width, height, style, options)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return self._content(container_width).get_optimal_width(rules, container_width)

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._content(width).get_height(rules, width)


def stack(sections: Sequence[Text | WidthDependent]) -> WidthDependent:
    """Stack sections one below another."""

    def draw(width: int) -> Text:
        texts = []
        for section in sections:
            if isinstance(section, WidthDependent):
                texts.append(section.draw(width))
            else:
                texts.append(section)
        return Text("\n").join(texts)

    return WidthDependent(draw)


def align_columns(
    rows: Sequence[Sequence[Text]],
    width: int,
    right_aligned: Collection[int] = (),
    wrapped_column: int = -1,
) -> Text:
    """Align rows of cells in columns, each as wide as its longest cell.

    Columns in `right_aligned` are aligned at their right end. If `width` is too small, cells of
    `wrapped_column` (-1 for the last) take several lines. Textual draws such a text many times as
    fast as a Rich table.
    """
    column_count = max(map(len, rows), default=0)
    if column_count == 0:
        return Text()
    widths = [0] * column_count
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], cell.cell_len)
    wrapped_column %= column_count
    other_width = sum(widths) - widths[wrapped_column] + len(_GAP) * (column_count - 1)
    room = max(width - other_width, _MIN_WRAPPED_WIDTH)
    widths[wrapped_column] = min(widths[wrapped_column], room)
    lines = []
    for row in rows:
        wrapped_cells = [
            _wrap_cell(cell, cell_width) for cell, cell_width in zip(row, widths, strict=False)
        ]
        line_count = max(map(len, wrapped_cells), default=0)
        for number in range(line_count):
            line = Text()
            for column, cell_lines in enumerate(wrapped_cells):
                text = cell_lines[number].copy() if number < len(cell_lines) else Text()
                text.align("right" if column in right_aligned else "left", widths[column])
                line.append_text(text)
                if column < len(row) - 1:
                    line.append(_GAP)
            line.rstrip()
            lines.append(line)
    return Text("\n").join(lines)


def _wrap_cell(cell: Text, width: int) -> list[Text]:
    if cell.cell_len <= width:
        return [cell]
    lines = []
    for line in cell.wrap(Console(), width):
        line.rstrip()
        lines.append(line)
    return lines


def render_metric_table(result: Result) -> WidthDependent:
    """Render each metric with its meaning beside it or, in a narrow column, below it."""
    return render_figures(
        [
            (info.name, format_metric(result.metrics, metric), info.meaning)
            for metric, info in METRIC_INFO.items()
        ]
    )


def render_figures(figures: Sequence[tuple[str, str, str]]) -> WidthDependent:
    """Render names, figures and meanings, each meaning beside its figure.

    In a narrow column, it is below it.
    """

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
        return align_columns(rows, width - len(_GAP), right_aligned=[1])  # there may be a scrollbar

    return WidthDependent(draw)


def render_loss_breakdown(breakdown: LossBreakdown) -> WidthDependent:
    """Render what a model's loss consists of: skill, parts, reviews before and history."""
    sections: list[Text | WidthDependent] = [
        Text("\nSkill, and the parts of the Brier score", "bold"),
        render_figures(list_loss_figures(breakdown)),
    ]
    for make_table in (make_loss_by_reviews_table, make_loss_by_fold_table):
        table = make_table({"": breakdown})
        if table.rows:
            sections.append(Text(f"\n{table.heading}", "bold"))
            sections.append(render_table_with_intervals(table))
    return stack(sections)


def render_parameter_table(result: Result, log: ReviewLog | None) -> WidthDependent | Text:
    """Render the parameters fitted for the last fold, numbered w0, w1 ... per partition."""
    partitions = result.parameters
    if not partitions:
        return Text("This model has no parameters that can be listed.", "dim")

    def draw(width: int) -> Text:
        columns = max(1, min(7, width // _PARAMETER_WIDTH))
        rows = []
        for partition, values in partitions.items():
            if len(partitions) > 1:
                rows.append([Text(_find_partition_name(partition, log), "bold")])
            cells = [
                Text.assemble((f"w{number} ", "dim"), f"{value:.4f}")
                for number, value in enumerate(values)
            ]
            rows += [cells[start : start + columns] for start in range(0, len(cells), columns)]
        return align_columns(rows, width, right_aligned=range(columns))

    return WidthDependent(draw)


def _find_partition_name(partition: int, log: ReviewLog | None) -> str:
    """Return the name of the preset or deck, or else the partition's number."""
    if log is not None and partition in log.presets:
        return log.presets[partition].name
    if log is not None and partition in log.decks:
        return log.decks[partition].name
    return f"partition {partition}"


def render_evidence(
    answer: Finding,
    styles: Mapping[str, str],
    shown_lines: Iterable[str] = (),
    later_questions: Collection[str] = (),
    *,
    shows_tables: bool = True,
) -> WidthDependent:
    """Render all evidence of an answer, for any width, except the parameters to paste.

    The parameters are shown elsewhere, over the whole width of the window, because a mouse would
    also select what stands beside them. Costs begin with the bars of their pane, in `styles` by
    level. `shown_lines` stand above the evidence and are not repeated in it. `later_questions` are
    those of the answers that follow: the documentation is named only after the last answer to a
    question. Without `shows_tables`, there are only tables that are the answer themselves.
    """
    shown_statements = set(map(_normalize_statement, shown_lines))
    remaining_sentences = list(sentences(answer))
    listed_statements = set(map(_normalize_statement, clauses(answer)))
    if listed_statements and listed_statements <= shown_statements:
        remaining_sentences.pop(0)  # the sentence that lists them
    new_sentences = []
    for sentence in remaining_sentences:
        if _normalize_statement(sentence) not in shown_statements:
            new_sentences.append(Text(sentence + "\n"))
    sections: list[Text | WidthDependent] = []
    if isinstance(answer.evidence, Workload):
        _, _, pane, _, _ = build_first_screen([answer.evidence.glance_finding]).panes
        sections.append(render_full_pane(pane, styles))
        sections.append(Text(""))
        sections.extend(new_sentences[:_LEADING_SENTENCES])
        sections.append(Text("More", "bold"))
        sections.extend(new_sentences[_LEADING_SENTENCES:])
    else:
        sections.extend(new_sentences)
    shown_tables: Sequence[Table] = ()
    if shows_tables or are_tables_the_answer(answer):
        shown_tables = tables(answer)
    for table in shown_tables:
        sections.append(Text(table.heading, "bold"))
        sections.append(render_table_with_intervals(table))
        sections.append(Text(""))
    if answer.question not in later_questions:
        heading = findings_heading(answer.question)
        sections.append(
            Text(f"Explained in the documentation, “Findings”, under “{heading}”", "dim")
        )
    return stack(sections)


def count_foldable_tables(answer: Finding) -> int:
    """Return how many tables of an answer hold figures behind it, not the answer itself."""
    return 0 if are_tables_the_answer(answer) else len(tables(answer))


def has_more_evidence(answer: Finding, shown_lines: Iterable[str]) -> bool:
    """Return whether an answer has sentences or tables besides the lines that are shown already."""
    shown_statements = set(map(_normalize_statement, shown_lines))
    statements = set(map(_normalize_statement, sentences(answer)))
    return not statements <= shown_statements or any(tables(answer))


def _normalize_statement(text: str) -> str:
    """Return what a sentence and a line of a pane have in common if they say the same."""
    return text.strip(" .").casefold()


def render_full_pane(pane: Pane, styles: Mapping[str, str]) -> WidthDependent:
    """Render a pane of the first screen in full: 99 lines are more than it needs."""
    return WidthDependent(
        lambda width: Text("\n").join(render_pane(pane, width, 99, styles, spacious=False))
    )


def render_parameters_to_paste(answer: Finding) -> Text:
    """Render the line that Anki takes, and where to paste it."""
    assert answer.parameters is not None
    return Text.assemble(
        (format_parameters(answer.parameters), "bold"),
        "\n",
        (explain_where_to_paste(answer), "dim"),
    )


def render_table_with_intervals(table: Table) -> WidthDependent:
    """Render a table as text, and draw one of its columns of intervals beside it.

    Where there is too little room beside it, the intervals are drawn below.
    """
    table = table.shown

    def draw(width: int) -> Text:
        drawn_column = _find_drawn_column(table)
        text_rows = format_rows(table)
        # With a gap after each column; the last one is needed only before drawn intervals.
        full_width = sum(_measure_columns(table, text_rows)) + len(_GAP) * len(table.columns)
        if full_width - len(_GAP) > width:
            # Only the drawn column keeps its intervals, so that no name is cut.
            text_rows = format_rows(_remove_intervals(table, drawn_column))
        widths = _measure_columns(table, text_rows)
        column_count = len(widths)
        is_too_wide = _is_too_wide(widths, _find_widest_words(table, widths), width)
        if drawn_column is None or is_too_wide:
            column_count = _count_fitting_columns(widths, width)
        widths = widths[:column_count]
        number_columns = [column for column in range(column_count) if table.right_aligned[column]]
        widest_column = _find_widest_words(table, widths)

        rows = [[Text(column.title, "bold dim") for column in table.columns[:column_count]]]
        for text_row in text_rows:
            rows.append([Text(cell) for cell in text_row[:column_count]])
        intervals_below: list[Text] = []
        if drawn_column is not None and width - full_width < _MIN_DRAWN_WIDTH:
            intervals_below = _draw_intervals_below(table, drawn_column, width)
        elif drawn_column is not None:
            intervals = _draw_intervals(table, drawn_column, width - full_width)
            for row_with_heading, interval in zip(rows, intervals, strict=False):
                row_with_heading.append(interval)
        aligned_table = align_columns(rows, width, number_columns, widest_column)
        return Text("\n").join([aligned_table, *intervals_below])

    return WidthDependent(draw)


def _remove_intervals(table: Table, drawn_column: int | None) -> Table:
    """Return the table with intervals in the drawn column only."""

    def remove(cell: Cell, column: int) -> Cell:
        if isinstance(cell, Figure) and column != drawn_column:
            return Figure(cell.value)
        return cell

    rows = (tuple(remove(cell, column) for column, cell in enumerate(row)) for row in table.rows)
    return replace(table, rows=tuple(rows))


def _get_interval(cell: Cell) -> Interval | None:
    """Return the interval of a cell, which may be unknown; None if it has none."""
    if not isinstance(cell, Figure) or not cell.has_interval:
        return None
    return Interval(cell.value, cell.known_half_width)


def _draw_intervals(table: Table, column_index: int, width: int) -> list[Text]:
    """Draw an axis, then the interval of each row on it; return [] where there is no scale."""
    intervals = [_get_interval(row[column_index]) for row in table.rows]
    known_intervals = [interval for interval in intervals if interval is not None]
    has_differences = table.columns[column_index].signed
    if has_differences and known_intervals:
        known_intervals.append(Interval(0.0, 0.0))  # so that zero lies on the scale
    scale = fit_scale(known_intervals, min(width, _MAX_DRAWN_WIDTH))
    if scale is None:
        return []
    if table.columns[column_index].percent and not has_differences:
        scale = replace(scale, low=max(scale.low, 0.0), high=min(scale.high, 1.0))  # of shares
    line = 0.0 if has_differences else None
    heading = scale.draw_labels(line, "dim")
    heading.stylize_before("bold")
    texts = [heading]
    for row, interval in zip(table.rows, intervals, strict=True):
        if interval is None:
            texts.append(Text(""))
        else:
            texts.append(scale.draw_interval(interval, _choose_dot(table, row), "", line, "dim"))
    return texts


def _draw_intervals_below(table: Table, column_index: int, width: int) -> list[Text]:
    """Draw the intervals, by name, below a table that leaves no room beside it.

    Return [] for a long table, for names that would look alike, and without room below.
    """
    rows = tuple(row for row in table.rows if _get_interval(row[column_index]) is not None)
    if len(rows) > _MAX_ROWS_BELOW:
        return []
    first_column = table.columns[0]
    names = [truncate(format_cell(row[0], first_column), _MAX_NAME_WIDTH) for row in rows]
    name_width = max(map(cell_len, names), default=0) + 2
    drawn_width = width - name_width
    intervals = _draw_intervals(replace(table, rows=rows), column_index, drawn_width)
    if not intervals or drawn_width < _MIN_DRAWN_WIDTH or len(set(names)) < len(names):
        return []
    lines = [Text("")]
    for name, interval in zip(["", *names], intervals, strict=True):
        lines.append(Text.assemble(set_cell_size(name, name_width), interval))
    return lines


def _choose_dot(table: Table, row: tuple[Cell, ...]) -> str:
    """Return the dot of a row's verdict; "·" if it has none, "●" if no row of the table has one."""
    for column, cell in zip(table.columns, row, strict=True):
        if column.title not in _VERDICT_COLUMNS:
            continue
        if cell == CANT_TELL:
            cell = "can't tell yet"
        return VERDICT_DOTS.get(str(cell), "●") if cell else "·"
    return "●"


def _measure_columns(table: Table, text_rows: list[list[str]]) -> list[int]:
    """Return the width of each column; a Chinese or Japanese character is two cells wide."""
    titles = [column.title for column in table.columns]
    return [max(map(cell_len, cells)) for cells in zip(titles, *text_rows, strict=True)]


def _count_fitting_columns(widths: list[int], width: int) -> int:
    """Count the first columns that fit: all if there are sentences, which can be wrapped."""
    count = len(widths)
    if max(widths) < _MIN_TEXT_WIDTH:
        while count > _MIN_COLUMNS and sum(widths[:count]) + len(_GAP) * (count - 1) > width:
            count -= 1
    return count


def _find_widest_words(table: Table, widths: Sequence[int]) -> int:
    """Return the widest of the first columns that holds words; without any, the first column."""
    is_of_numbers = table.right_aligned
    word_columns = [column for column in range(len(widths)) if not is_of_numbers[column]]
    return max(word_columns or [0], key=lambda column: widths[column])


def _is_too_wide(widths: list[int], wrapped_column: int, width: int) -> bool:
    """Return whether columns do not fit even if one of them is wrapped as far as it can be."""
    narrowest = min(widths[wrapped_column], _MIN_WRAPPED_WIDTH)
    other_width = sum(widths) - widths[wrapped_column]
    return narrowest + other_width + len(_GAP) * (len(widths) - 1) > width


def _find_drawn_column(table: Table) -> int | None:
    """Return the first column of intervals that are differences, else the first of any intervals.

    Return None if the table has no intervals.
    """
    interval_columns = []
    for k in range(len(table.columns)):
        if any(_get_interval(row[k]) is not None for row in table.rows):
            interval_columns.append(k)
    for k in interval_columns:
        if table.columns[k].signed:
            return k
    return interval_columns[0] if interval_columns else None
