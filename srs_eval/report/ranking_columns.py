"""Lay out the columns of a ranking, shared by reports and the app."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from srs_eval.engine.ranking import RankedResult, RankingGroup
from srs_eval.engine.schedulability import Measurement
from srs_eval.models.own_parameters import is_available_in_anki
from srs_eval.report.formats import (
    format_improvement,
    format_loss,
    format_metric,
    format_relative_loss,
)
from srs_eval.report.ranking_words import describe_standing
from srs_eval.report.schedulability import COLUMN_TITLE, format_verdict
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Cell, Column, Figure, make_figure

# Minimum terminal widths for optional columns.
_WIDTH_FOR_DETAILS = 115
_WIDTH_FOR_RELATIVE_LOSS = 80
_WIDTH_FOR_METRICS = 70
_WIDTH_FOR_PLACE = 52
_WIDTH_FOR_VERDICT = 50
_RELATIVE_LOSS_HEADING = "than average"  # of the column "vs average"; over "13.6 % less"


@dataclass(frozen=True)
class ReportColumn:
    """Column of a ranking in reports: its heading, and the function that makes its cells."""

    column: Column
    make_cell: Callable[[RankedResult], Cell]


@dataclass(frozen=True)
class AppColumn:
    """Column of a ranking in the app."""

    width: int  # 0: the app gives it a share of the remaining width
    heading: str = ""
    format_cell: Callable[[RankedResult], str] | None = None  # None: the app draws its cells
    aligns_right: bool = False


@dataclass(frozen=True)
class RankingColumn:
    """Column of a ranking in the app, in reports or in both.

    `sort_key` is None if lines cannot be sorted by it.
    """

    app: AppColumn | None = None
    report: ReportColumn | None = None
    sort_key: Callable[[RankedResult], Any] | None = None


def _format_relative_loss(line: RankedResult) -> str:
    if line.is_baseline:
        return "the baseline"
    return format_relative_loss(line.relative_to_baseline)


def _format_parameter_count(line: RankedResult) -> str:
    return "–" if line.parameter_count is None else f"{line.parameter_count:,}"


def _format_improvement_figure(figure: Figure) -> str:
    """Format the cell that `make_figure` made of an interval."""
    return format_improvement(Interval(figure.value, figure.known_half_width))


RANKING_COLUMNS: Mapping[str, RankingColumn] = {
    "place": RankingColumn(
        AppColumn(3),
        ReportColumn(Column("place", min_width=_WIDTH_FOR_PLACE), make_cell=lambda line: line.rank),
        sort_key=lambda line: line.log_loss.estimate,  # so "log loss" needs no sort key of its own
    ),
    "model": RankingColumn(
        AppColumn(0, "model"),
        ReportColumn(
            Column("model", overflow="fold"), make_cell=lambda line: line.configuration.words
        ),
        sort_key=lambda line: line.configuration.words.lower(),
    ),
    "family": RankingColumn(
        AppColumn(3),
        sort_key=lambda line: line.configuration.model.family,
    ),
    "log loss": RankingColumn(
        AppColumn(13, "log loss", format_cell=lambda line: format_loss(line.log_loss)),
        ReportColumn(
            # All with the same digits, so that readers can compare them line by line.
            Column("log loss", round_by_interval=False, note="with its 95 % interval over days"),
            make_cell=lambda line: make_figure(line.log_loss, is_best=line.rank == 1),
        ),
    ),
    "interval plot": RankingColumn(AppColumn(0)),
    "to best": RankingColumn(
        report=ReportColumn(
            Column(
                "to the best",
                format_figure=_format_improvement_figure,
                note="paired difference in log loss",
                minor=True,
                min_width=_WIDTH_FOR_DETAILS,
            ),
            make_cell=lambda line: make_figure(line.to_best),
        ),
    ),
    "vs average": RankingColumn(
        AppColumn(13, _RELATIVE_LOSS_HEADING, format_cell=_format_relative_loss),
        ReportColumn(
            Column(
                _RELATIVE_LOSS_HEADING,
                format_figure=lambda figure: format_relative_loss(figure.value).strip(),
                note="log loss compared with the average's",
                plain_title="log loss against average",
                minor=True,
                min_width=_WIDTH_FOR_RELATIVE_LOSS,
            ),
            make_cell=lambda line: make_figure(line.relative_to_baseline),
        ),
        sort_key=lambda line: line.relative_to_baseline,
    ),
    "RMSE(bins)": RankingColumn(
        AppColumn(
            12,
            "RMSE(bins)",
            format_cell=lambda line: format_metric(line.result.metrics, "rmse_bins"),
            aligns_right=True,
        ),
        ReportColumn(
            Column("RMSE(bins)", digits=2, percent=True, minor=True, min_width=_WIDTH_FOR_METRICS),
            make_cell=lambda line: make_figure(line.result.metrics.rmse_bins),
        ),
        sort_key=lambda line: line.result.metrics.rmse_bins,
    ),
    "AUC": RankingColumn(
        AppColumn(6, "AUC", format_cell=lambda line: format_metric(line.result.metrics, "auc")),
        ReportColumn(
            Column("AUC", digits=3, minor=True, min_width=_WIDTH_FOR_METRICS),
            make_cell=lambda line: make_figure(line.result.metrics.auc),
        ),
        sort_key=lambda line: line.result.metrics.auc,
    ),
    "params": RankingColumn(
        AppColumn(8, "params", format_cell=_format_parameter_count, aligns_right=True),
        ReportColumn(
            Column("parameters", minor=True, min_width=_WIDTH_FOR_DETAILS),
            make_cell=lambda line: line.parameter_count,
        ),
        sort_key=lambda line: line.parameter_count,
    ),
    "can schedule": RankingColumn(AppColumn(16, COLUMN_TITLE)),  # the app asks models later
    "verdict": RankingColumn(
        AppColumn(15, "verdict", format_cell=describe_standing),
        ReportColumn(
            Column("verdict", min_width=_WIDTH_FOR_VERDICT, overflow="fold"),
            make_cell=describe_standing,
        ),
    ),
    "Anki": RankingColumn(
        report=ReportColumn(
            Column("Anki", note="whether Anki can schedule with it", min_width=_WIDTH_FOR_DETAILS),
            make_cell=lambda line: "✓" if is_available_in_anki(line.configuration) else "",
        ),
    ),
}
"""Columns by key, in the order in which the app cycles through those that it can sort by.

The app stores the key that lines are sorted by: if it is renamed, the user's order is lost."""
_ORDER_IN_APP = (
    "place",
    "family",
    "model",
    "log loss",
    "interval plot",
    "vs average",
    "RMSE(bins)",
    "AUC",
    "params",
    "can schedule",
    "verdict",
)
_ORDER_IN_REPORTS = (
    "model",
    "place",
    "log loss",
    "to best",
    "RMSE(bins)",
    "AUC",
    "vs average",
    "params",
    "verdict",
    "Anki",
)


def _list_app_columns() -> Iterator[tuple[str, AppColumn]]:
    for key in _ORDER_IN_APP:
        layout = RANKING_COLUMNS[key].app
        if layout is not None:
            yield key, layout


def _list_report_columns() -> Iterator[ReportColumn]:
    for key in _ORDER_IN_REPORTS:
        layout = RANKING_COLUMNS[key].report
        if layout is not None:
            yield layout


APP_COLUMNS: Mapping[str, AppColumn] = dict(_list_app_columns())
"""Columns of the app by key, from left to right."""
REPORT_COLUMNS: tuple[ReportColumn, ...] = tuple(_list_report_columns())
"""Columns of reports, from left to right."""
SORT_KEYS: Mapping[str, Callable[[RankedResult], Any]] = {
    key: column.sort_key for key, column in RANKING_COLUMNS.items() if column.sort_key is not None
}
"""Sort keys of lines by column, in the order in which the app cycles through them.

That of "place" is log loss. When sorted by "place", the app ignores this key and shows the
ranking in sections by verdict."""


def make_schedulability_column(measurements: Mapping[str, Measurement]) -> ReportColumn:
    """Return the column of reports that says whether models can schedule, asked for 90 %.

    Lines without one of the `measurements`, which are by configuration name, have no cell.
    """

    def make_cell(line: RankedResult) -> Cell:
        measurement = measurements.get(line.configuration.name)
        return None if measurement is None else format_verdict(measurement)

    note = "share of reviews after which it cannot schedule at 90 %"
    return ReportColumn(
        Column(COLUMN_TITLE, note=note, minor=True, min_width=_WIDTH_FOR_DETAILS), make_cell
    )


def sort_lines(group: RankingGroup, column: str, reverse: bool = False) -> tuple[RankedResult, ...]:
    """Return a group's lines sorted by one of SORT_KEYS.

    Lines without a value come last; ties keep the order of the ranking.
    """
    sort_key = SORT_KEYS[column]
    with_value = [line for line in group.lines if sort_key(line) is not None]
    without_value = [line for line in group.lines if sort_key(line) is None]
    return (*sorted(with_value, key=sort_key, reverse=reverse), *without_value)
