"""Build the part of a report on many users that covers one set of evaluated reviews."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations

import numpy as np

from srs_eval.advice.sentences import capitalize
from srs_eval.benchmark.leaderboard import (
    PERCENTILES,
    WEIGHTINGS,
    Comparison,
    GroupMeans,
    Leaderboard,
    compare_runs,
    group_by_reviews_before,
)
from srs_eval.benchmark.result_files import ResultFile
from srs_eval.benchmark.seeds import SeedSpread
from srs_eval.benchmark.user_parts import describe_other_parts
from srs_eval.data.errors import format_count
from srs_eval.data.reviews import FloatArray
from srs_eval.metrics import METRIC_BY_KEY, better_direction
from srs_eval.report import pictures
from srs_eval.report.cells import format_cell, format_p_value
from srs_eval.report.document import Block, Picture, Section
from srs_eval.report.formats import join_names, with_sign
from srs_eval.report.ranking_words import warn_of_split
from srs_eval.stats import users as stats
from srs_eval.stats.ranges import format_range
from srs_eval.stats.tables import Cell, Column, Figure, Table, make_figure, make_figure_with_ends

SECONDS_COLUMN = "seconds"
DEFAULT_METRICS = ("LogLoss", "RMSE(bins)", "AUC")
_MAX_LINES = 8  # most lines in a chart
_INPUT_NOTE = (
    "IL interval lengths, FIL fractional ones, G grades, SR same-day reviews, AT answer times"
)
_CONFIDENCE_SET_NOTE = (
    "p-value of the model confidence set; below 0.01, the model is not among the best"
)
_SPEED_NOTE = "on one core, as measured by the batch"
SIGNIFICANCE_LEVEL = 0.01  # p-values above it are inconclusive
_WEIGHTING_TITLES = {
    "reviews": "Weighted by the number of reviews",
    "users": "Every user counts the same",
    "log reviews": "Weighted by the logarithm of the number of reviews",
}
_MAX_MATRIX_MODELS = 12  # most models in a matrix that is easy to read
# Effect sizes above which srs-benchmark calls an effect medium or large.
_MEDIUM_EFFECT = 0.2
_LARGE_EFFECT = 0.5
_SUPERIORITY_CAVEAT = (
    "Every user counts the same here, however many reviews they have, and every difference counts "
    "the same, however small it is: this shows how consistent a lead is, not how large. Mean "
    "differences show both."
)
_SETUP_CAVEAT = (
    "Intervals and tests say how sure a difference is for these set-ups. They say nothing about "
    "the quality of a set-up: a badly trained model also loses beyond doubt (Rendle et al., 2019, "
    "On the difficulty of evaluating baselines). `srs-eval audit` checks the set-ups."
)
_FITS_NOTE = (
    "Each model is fitted anew before each of the five parts of a user's reviews; on average, it "
    "is fitted to about 0.6 times as many reviews as are evaluated. "
)
_SIZE_NOTE = (
    "Large and small collections belong to different people, so a model's gain over the average "
    "says more than its own log loss. Bands are 99 % intervals."
)
_REVIEWS_NOTE = (
    "All reviews of a card on one day count as one. A user's loss is the mean over their reviews "
    "in a group. Bands are 99 % intervals over users."
)
_Series = list[tuple[str, list[tuple[float, float, float]]]]
"""Name and points (estimate, low, high) of each line."""
_MatrixCell = tuple[str, float] | None
"""A text, and from 0 to 1 how good the row's model is; nan where that is not sure. None: empty."""


def metric_heading(metric: str) -> str:
    """Return a metric's name for people: "log loss" for LogLoss."""
    return METRIC_BY_KEY[metric].name if metric in METRIC_BY_KEY else metric


def _heading_with_arrow(metric: str) -> str:
    """Return a metric's name with an arrow to its better side."""
    arrow = {"lower": " ↓", "higher": " ↑", "nearer 0": ""}[better_direction(metric)]
    return metric_heading(metric) + arrow


def format_title(comparison: Comparison) -> str:
    """Return the heading of a comparison: how many reviews, and which."""
    title = f"Evaluated on {comparison.review_count:,} {comparison.reviews_description}"
    if comparison.is_online:
        title += ": online models"
    return title


def build_leaderboard_section(comparison: Comparison) -> Section:
    """Return a section with the first table of a comparison."""
    means = _build_means_table(
        comparison.leaderboards[0], comparison, DEFAULT_METRICS, prefix="", own_users=False
    )
    users = _describe_users(comparison, own_users=False)
    return Section(format_title(comparison), (users, *_warn_of_splits(comparison), means))


def build_comparison_section(
    comparison: Comparison,
    columns: Sequence[str],
    prefix: str,
    own_users: bool,
    averages: Sequence[stats.Averages],
    matrix_labels: Sequence[str] = (),
    seed_spreads: Sequence[SeedSpread] = (),
) -> Section:
    """Return everything about one set of evaluated reviews as a section.

    `prefix` begins the names of its tables. `own_users`: means are over each configuration's own
    users. `matrix_labels` are the labels of the models that matrices show.
    """
    positions = _select_matrix_models(comparison, matrix_labels)
    blocks: list[Block] = [_describe_users(comparison, own_users), *_warn_of_splits(comparison)]
    for table in comparison.leaderboards:
        blocks.append(_build_means_table(table, comparison, columns, prefix, own_users))
    blocks.append(_build_means_picture(comparison, prefix))
    blocks += build_seed_blocks(seed_spreads, comparison.metric, prefix)
    if len(comparison.files) > 1:
        blocks.append(_build_pairs_section(comparison, prefix, positions))
    blocks.append(_build_size_section(comparison, prefix, positions))
    blocks.append(_build_distribution_section(comparison, prefix))
    blocks += _build_reviews_section(averages, prefix)
    if averages:
        blocks.append(_build_averages_section(averages, prefix))
    return Section(format_title(comparison), tuple(blocks))


def _describe_users(comparison: Comparison, own_users: bool) -> str:
    users = len(comparison.users)
    words = f"Means over {format_count(users, 'user')}"
    if own_users:
        return (
            "Means are over each configuration's own users; pairs and confidence sets are over "
            f"the {format_count(users, 'user')} for whom all models were evaluated on the same "
            "number of reviews."
        )
    if users < comparison.max_users:
        words = (
            f"Means over the {users:,} of {format_count(comparison.max_users, 'user')} for whom "
            "all models were evaluated on the same number of reviews"
        )
    return (
        f"{words}, ± half of the {stats.CONFIDENCE * 100:.0f} % interval, which need not be "
        "symmetric; for differences, the ends of the interval are in brackets."
    )


def _warn_of_splits(comparison: Comparison) -> list[str]:
    """Return sentences on splits and trainings that make figures unlike published ones."""
    warnings = warn_of_split(comparison.files[0].evaluated_rows)
    labels = [
        file.label
        for file in comparison.files
        if file.configuration is not None and file.configuration.protocol.train_months
    ]
    if labels:
        verb = "is" if len(labels) == 1 else "are"
        warnings.append(
            f"{capitalize(join_names(labels))} {verb} trained only on the months before the "
            "held-out reviews; published figures are trained on everything before them."
        )
    for parts in sorted({file.user_parts for file in comparison.files} - {0}):
        labels = [file.label for file in comparison.files if file.user_parts == parts]
        verb = "was" if len(labels) == 1 else "were"
        warnings.append(
            f"{capitalize(join_names(labels))} {verb} first trained on other people: the models "
            f"for each of {parts} parts of the users were trained on {describe_other_parts(parts)}."
        )
    return warnings


def _build_means_table(
    table: Leaderboard, comparison: Comparison, columns: Sequence[str], prefix: str, own_users: bool
) -> Table:
    metrics = [column for column in columns if column != SECONDS_COLUMN]
    with_seconds = SECONDS_COLUMN in columns
    # Metrics that are undefined for more users of one model than of another.
    uneven_metrics = []
    for metric in metrics:
        undefined_users = {line.undefined_users[metric] for line in table.rows}
        if len(undefined_users) > 1:
            uneven_metrics.append(metric)

    metric_name = metric_heading(comparison.metric)
    opponent = comparison.reference or "the best"
    difference = Column(
        f"{metric_name} vs {opponent}",
        signed=True,
        note="mean paired difference",
        key=f"{metric_name} difference",
    )
    heads: list[str | Column] = ["model", Column("place", in_latex=False)]
    heads += map(_heading_with_arrow, metrics)
    heads += [
        Column("parameters", note="only those that are trained; for a frozen network, all"),
        Column("input", note=_INPUT_NOTE, in_latex=False),
        difference,
        Column("set p", note=_CONFIDENCE_SET_NOTE, format_figure=format_p_value, in_latex=False),
    ]
    if with_seconds:
        heads.append(
            Column("s / 10,000 reviews", digits=3, note=_SPEED_NOTE, key="seconds per 10k")
        )
    if own_users:
        heads.append("users")
    heads += [f"users without {metric_heading(metric)}" for metric in uneven_metrics]

    best_labels = {metric: table.best_labels(metric) for metric in metrics}
    rows = []
    for line in table.rows:
        label = line.file.label
        cells: list[Cell] = [label, line.rank]
        # With half-widths, as in srs-benchmark's tables, although intervals need not be symmetric.
        cells += [
            make_figure(line.means[metric], label in best_labels[metric]) for metric in metrics
        ]
        cells += [
            line.file.parameter_count,
            line.file.inputs,
            make_figure_with_ends(line.to_best),
            Figure(line.confidence_set_p_value),
        ]
        if with_seconds:
            cells.append(make_figure(line.file.seconds_per_10k))
        if own_users:
            cells.append(line.users)
        cells += [line.undefined_users[metric] for metric in uneven_metrics]
        rows.append(cells)
    return Table.from_rows(
        f"{prefix}means-by-{table.weighting.replace(' ', '-')}",
        _WEIGHTING_TITLES[table.weighting],
        heads,
        rows,
        faint_rows=tuple(k for k, line in enumerate(table.rows) if line.file.is_baseline),
    )


def build_seed_blocks(spreads: Sequence[SeedSpread], metric: str, prefix: str = "") -> list[Block]:
    """Return a section on how far the means of a metric move from seed to seed; [] without any."""
    if not spreads:
        return []
    heads = (
        "model",
        Column("weighted by", is_shown=len({spread.weighting for spread in spreads}) > 1),
        "seeds",
        "users",
        Column(metric_heading(metric), note="mean over seeds and users"),
        Column("spread", digits=5, note="standard deviation of the mean over seeds"),
        Column("least", digits=5),
        Column("greatest", digits=5),
        Column(
            "of ±",
            digits=1,
            percent=True,
            note="spread as a share of ±",
            key="spread of half-width",
        ),
    )
    rows = (
        (
            spread.file.label,
            spread.weighting,
            len(spread.seeds),
            spread.users,
            make_figure(spread.mean),
            spread.deviation,
            float(spread.means.min()),
            float(spread.means.max()),
            spread.share_of_half_width,
        )
        for spread in spreads
    )
    table = Table.from_rows(
        f"{prefix}seeds", f"Mean {metric_heading(metric)} with other seeds", heads, rows
    )
    text = (
        "All other tables have the first seed only. Two models whose means differ by no more than "
        "about twice the spread may change places with another seed."
    )
    return [Section("Seeds", (text, table))]


def _build_means_picture(comparison: Comparison, prefix: str) -> Picture:
    metric = comparison.metric
    labels = [file.label for file in comparison.files]
    series = []
    baselines = []
    by_reviews, by_users = comparison.leaderboards[:2]
    for table in (by_users, by_reviews):
        means_by_label = {line.file.label: line.means[metric] for line in table.rows}
        means = [means_by_label[label] for label in labels]
        bounds = [(mean.estimate, mean.low, mean.high) for mean in means]
        series.append((f"by {table.weighting}", bounds))
        baseline_lines = [line for line in table.rows if line.file.is_baseline]
        if baseline_lines:
            baselines.append(baseline_lines[0].means[metric].estimate)
    title = f"Mean {metric_heading(metric)} with 99 % intervals"
    if baselines:
        title += ", with the baseline as lines"
    chart = pictures.interval_chart(labels, series, metric_heading(metric), baselines)
    return Picture(f"{prefix}means", title, chart)


# Pairs of models: matrices, and every figure in long form


def _select_matrix_models(comparison: Comparison, chosen_labels: Sequence[str]) -> list[int]:
    """Return the positions of the models that a matrix shows.

    These are the models with the labels `chosen_labels`, in that order. If fewer than two of them
    exist, these are all models. Of more than twelve, these are the baseline and the best of the
    others, twelve in all, each with one configuration: the one with the model's name, if any.
    """
    files = comparison.files
    labels = [file.label for file in files]
    chosen_positions = [labels.index(label) for label in chosen_labels if label in labels]
    if len(chosen_positions) > 1:
        return chosen_positions
    if len(files) <= _MAX_MATRIX_MODELS:
        return list(range(len(files)))
    position_by_model: dict[str, int] = {}
    for position, file in enumerate(files):
        configuration = file.configuration
        if configuration is None:
            model = file.name
            has_model_name = True
        else:
            model = configuration.model.name
            has_model_name = file.name in (model, configuration.model.standard)
        if has_model_name:
            position_by_model[model] = position
        position_by_model.setdefault(model, position)
    positions = list(position_by_model.values())
    baselines = [position for position in positions if files[position].is_baseline][:1]
    rivals = sorted(position for position in positions if position not in baselines)
    return sorted([*rivals[: _MAX_MATRIX_MODELS - len(baselines)], *baselines])


def _build_pairs_section(comparison: Comparison, prefix: str, chosen: Sequence[int]) -> Section:
    """Return matrices of superiority, mean differences and effect sizes.

    They show the models at the positions `chosen`.
    """
    metric_name = metric_heading(comparison.metric)
    build_matrices = partial(_build_matrices, comparison, chosen)
    shares = comparison.superiority
    title = f"Superiority: users for whom the row's model has the better {metric_name}, in per cent"
    squares = [list(map(_superiority_cell, row)) for row in shares.tolist()]
    share = Column("", 1, percent=True)
    blocks: list[Block] = [_SUPERIORITY_CAVEAT, _SETUP_CAVEAT]
    blocks += build_matrices(f"{prefix}superiority", title, _make_figures(shares), share, squares)
    for weighting, differences in zip(WEIGHTINGS[:2], comparison.differences, strict=False):
        title = (
            f"Mean difference of {metric_name}, row minus column, by {weighting}, with both "
            f"ends of its {stats.CONFIDENCE * 100:.0f} % interval"
        )
        cells: list[list[Cell]] = []
        squares = []
        for row in differences:
            cells.append(list(map(make_figure_with_ends, row)))
            squares.append(
                [_difference_cell(difference, comparison.paired.loss_sign) for difference in row]
            )
        blocks += build_matrices(
            f"{prefix}differences-by-{weighting}",
            title,
            cells,
            Column("", signed=True),
            squares,
            "0 lies between them",
        )
    figures = [("superiority", shares)]
    for kind, symbol, title, test in (
        ("wilcoxon", "r", "r of Wilcoxon's signed-rank test", comparison.wilcoxon_test),
        ("cohens-d", "d", "Cohen's d of the paired t-test", comparison.t_test),
    ):
        is_significant = test.adjusted_p_values <= SIGNIFICANCE_LEVEL
        squares = [
            list(map(_effect_cell, effect_row, significance_row))
            for effect_row, significance_row in zip(test.effects, is_significant, strict=True)
        ]
        blocks += build_matrices(
            f"{prefix}{kind}",
            f"{title} of {metric_name}: above 0 where the row's model is better",
            _make_figures(test.effects),
            Column("", 3),
            squares,
            f"p > {SIGNIFICANCE_LEVEL} (Holm, over all pairs)",
        )
        figures += [
            (symbol, test.effects),
            (f"{symbol} p", test.p_values),
            (f"{symbol} p holm", test.adjusted_p_values),
        ]
    blocks.append(_build_pairs_table(comparison, prefix, figures))
    return Section(f"Pairs of models by {metric_name}", tuple(blocks))


def _make_figures(values: FloatArray) -> list[list[Figure]]:
    return [list(map(Figure, row)) for row in values.tolist()]


def _superiority_cell(value: float) -> _MatrixCell:
    return (f"{100 * value:.1f}", value) if math.isfinite(value) else None


def _difference_cell(difference: stats.MeanInterval | None, sign: int) -> _MatrixCell:
    """Return a difference with its two ends on the lines below it.

    `sign` is 1 where less is better, else -1.
    """
    if difference is None or not math.isfinite(difference.low):
        return None
    text = format_cell(make_figure_with_ends(difference), Column("", signed=True))
    words = text.replace(", ", " ").split()
    lines = "\n".join(word.strip("[]") for word in words)
    if difference.low <= 0 <= difference.high:
        return lines, math.nan
    is_less = difference.high < 0
    less_is_better = sign > 0
    return lines, 0.9 if is_less == less_is_better else 0.1


def _effect_cell(value: float, is_significant: bool) -> _MatrixCell:
    """Return an effect in one of three shades for either direction, as in srs-benchmark."""
    if not math.isfinite(value):
        return None
    text = with_sign(f"{value:.2f}", signed=False)
    if not is_significant:
        return text, math.nan
    size = 1
    if abs(value) > _MEDIUM_EFFECT:
        size = 2
    if abs(value) > _LARGE_EFFECT:
        size = 3
    return text, 0.5 + math.copysign(size / 6, value)


def _build_matrices(
    comparison: Comparison,
    chosen: Sequence[int],
    name: str,
    title: str,
    cells: Sequence[Sequence[Cell]],
    column: Column,
    squares: Sequence[Sequence[_MatrixCell]],
    hatching_note: str = "",
) -> list[Block]:
    """Return a picture with a table of pairs of the chosen models and, folded, one of all models.

    `cells` are the table's and `squares` the picture's, both for all models.
    """
    picture_title = f"{title}; hatched where {hatching_note}" if hatching_note else title

    def build_matrix(positions: Sequence[int], name: str) -> Picture:
        labels = [comparison.files[position].label for position in positions]
        heads = ["model", *(replace(column, title=label) for label in labels)]
        rows = []
        shown_squares = []
        for label, row in zip(labels, positions, strict=True):
            rows.append([label, *(cells[row][rival] for rival in positions)])
            shown_squares.append([squares[row][rival] for rival in positions])
        chart = pictures.matrix_chart(labels, shown_squares)
        return Picture(name, picture_title, chart, Table.from_rows(name, title, heads, rows))

    blocks: list[Block] = [build_matrix(chosen, name)]
    count = len(comparison.files)
    if len(chosen) < count:
        all_models = build_matrix(range(count), f"{name}-all")
        blocks.append(Section(f"All {count} models", (all_models,), folded=True))
    return blocks


def _build_pairs_table(
    comparison: Comparison, prefix: str, figures: Sequence[tuple[str, FloatArray]]
) -> Table:
    """Return a row with all figures for each ordered pair of models; for files only."""
    labels = [file.label for file in comparison.files]
    heads = ["model", "other"]
    heads += [f"difference by {weighting}" for weighting in WEIGHTINGS]
    heads += [title for title, _ in figures]
    rows = []
    for row, column in permutations(range(len(labels)), 2):
        cells: list[Cell] = [labels[row], labels[column]]
        for differences in comparison.differences:
            cells.append(make_figure_with_ends(differences[row][column]))
        for _, values in figures:
            cells.append(Figure(float(values[row, column])))
        rows.append(cells)
    return Table.from_rows(f"{prefix}pairs", "Pairs of models", heads, rows, is_shown=False)


# Sizes and distributions


def _build_size_section(comparison: Comparison, prefix: str, chosen: Sequence[int]) -> Section:
    """Return a section on the metric by size of the collection: a learning curve over users.

    Pictures show the models at the positions `chosen`.
    """
    metric_name = metric_heading(comparison.metric)
    baseline = comparison.baseline
    positions = list(chosen[:_MAX_LINES])
    if baseline is not None and baseline not in positions:
        positions = [*positions[: _MAX_LINES - 1], baseline]
    groups = comparison.size_groups
    curves = _GroupCurves(
        name=f"{prefix}by-size",
        metric_name=metric_name,
        title="by size of the collection",
        labels=[file.label for file in comparison.files],
        heads=("evaluated reviews", "users"),
        starts=[
            (f"{group.sizes.min():,.0f} to {group.sizes.max():,.0f}", len(group.sizes))
            for group in groups
        ],
        means=[group.means for group in groups],
        drawn=positions,
    )
    medians = [float(np.median(group.sizes)) for group in groups]
    x_label = "evaluated reviews of a user (median of each group)"
    fits = "" if comparison.files[0].evaluated_rows.has_own_split else _FITS_NOTE
    blocks: list[Block] = [f"This is a learning curve over users. {fits}{_SIZE_NOTE}"]
    for table, series, y_label in curves.list_tables():
        if len(groups) < 2:
            blocks.append(table)
            continue
        chart = pictures.line_chart(
            medians, series, x_label, y_label, logarithmic=True, has_bands=True
        )
        blocks.append(Picture(table.name, table.title, chart, table))
    return Section("By size of the collection", tuple(blocks))


def _build_reviews_section(averages: Sequence[stats.Averages], prefix: str) -> list[Section]:
    """Return a section on log loss by earlier reviews of the card; [] if these are unknown."""
    groups = group_by_reviews_before(averages)
    if not groups:
        return []
    curves = _GroupCurves(
        name=f"{prefix}by-reviews-before",
        metric_name=metric_heading("LogLoss"),
        title="by earlier reviews of the card",
        labels=[average.label for average in averages],
        heads=("before", "reviews", "users"),
        starts=[
            (format_range(group.first, group.last), group.reviews, group.users) for group in groups
        ],
        means=[group.means for group in groups],
        drawn=range(len(averages))[:_MAX_LINES],
    )
    ticks = [f"{group.first}" for group in groups]
    x_label = "earlier reviews of the card (start of group)"
    blocks: list[Block] = [_REVIEWS_NOTE]
    for table, series, y_label in curves.list_tables():
        chart = pictures.line_chart(
            range(len(groups)), series, x_label, y_label, ticks=ticks, has_bands=True
        )
        blocks.append(Picture(table.name, table.title, chart, table))
    return [Section("By earlier reviews of the card", tuple(blocks), side_by_side=True)]


@dataclass(frozen=True)
class _GroupCurves:
    """Means of models over groups of users or reviews, as tables and as lines."""

    name: str
    metric_name: str
    title: str  # by what it is grouped
    labels: Sequence[str]  # of models
    heads: Sequence[str]  # of the columns that come before the models'
    starts: Sequence[Sequence[Cell]]  # their cells, for each group
    means: Sequence[GroupMeans]  # for each group
    drawn: Sequence[int]  # positions of the models in pictures

    def list_tables(self) -> list[tuple[Table, _Series, str]]:
        """Return tables with the lines of their pictures and the label of their axis.

        They are of the means and, with the average, of what models gain on it.
        """
        title = f"Mean {self.metric_name} {self.title}, every user counting the same"
        cells = [list(map(make_figure, means.models)) for means in self.means]
        tables = [
            (
                self._make_table(self.name, title, cells, signed=False),
                self._list_series([means.models for means in self.means]),
                f"mean {self.metric_name}",
            )
        ]
        if any(self.means[0].to_baseline):
            title = f"Mean {self.metric_name} minus the average's, {self.title}"
            differences = [means.to_baseline for means in self.means]
            cells = [list(map(make_figure_with_ends, row)) for row in differences]
            table = self._make_table(f"{self.name}-to-average", title, cells, signed=True)
            y_label = f"{self.metric_name} minus the average's"
            tables.append((table, self._list_series(differences), y_label))
        return tables

    def _make_table(
        self, name: str, title: str, cells: Sequence[Sequence[Cell]], *, signed: bool
    ) -> Table:
        """Return a row for each group, with a cell for each model that has any."""
        models = range(len(self.labels))
        shown = [model for model in models if any(row[model] is not None for row in cells)]
        columns = [Column(self.labels[model], signed=signed) for model in shown]
        rows = [
            (*start, *(row[model] for model in shown))
            for start, row in zip(self.starts, cells, strict=True)
        ]
        return Table.from_rows(name, title, (*self.heads, *columns), rows)

    def _list_series(self, intervals: Sequence[Sequence[stats.MeanInterval | None]]) -> _Series:
        """Return the line of each drawn model that has intervals, which are by group and model."""
        series = []
        for model in self.drawn:
            bounds = []
            for row in intervals:
                interval = row[model]
                if interval is not None:
                    bounds.append((interval.estimate, interval.low, interval.high))
            if bounds:
                series.append((self.labels[model], bounds))
        return series


def _build_distribution_section(comparison: Comparison, prefix: str) -> Section:
    metric_name = metric_heading(comparison.metric)
    labels = [file.label for file in comparison.files]
    heads: list[str | Column] = ["model"]
    for percentile in PERCENTILES:
        title = "median" if percentile == 50 else f"{percentile} %"
        heads.append(Column(title, key=f"percentile {percentile}"))
    values_by_model = zip(labels, comparison.percentiles.T.tolist(), strict=True)
    rows = ([label, *map(Figure, values)] for label, values in values_by_model)
    title = f"Percentiles of {metric_name} over users"
    table = Table.from_rows(f"{prefix}percentiles", title, heads, rows)
    title = f"{capitalize(metric_name)} over users: 1 to 99 %, 5 to 95 %, 25 to 75 %, median"
    chart = pictures.distribution_chart(labels, comparison.percentiles, metric_name)
    picture = Picture(f"{prefix}distribution", title, chart, table)
    return Section("Distribution over users", (picture,))


def _build_averages_section(averages: Sequence[stats.Averages], prefix: str) -> Section:
    """Return a section that shows the averaging modes side by side."""
    modes = [
        mode for mode in stats.AVERAGING_MODES if any(mode in model.means for model in averages)
    ]
    metrics = list(
        dict.fromkeys(
            metric for model in averages for means in model.means.values() for metric in means
        )
    )
    blocks: list[Block] = [
        "The same predictions, averaged in different ways: over all reviews at once (global), or "
        "over the figures of users, of decks or of cards. Groups for which a figure is undefined "
        "are left out of its mean (Pelánek, 2017, Measuring predictive performance of user "
        "models). Only users for whom every listed model predicted every held-out review are "
        "included."
    ]
    for metric in metrics:
        ranks_by_mode = {mode: stats.compute_ranks(averages, mode, metric) for mode in modes}
        heads = ["model"]
        rows: list[list[Cell]] = [[model.label] for model in averages]
        for mode, ranks in ranks_by_mode.items():
            heads += [mode if mode == "global" else f"by {mode}", f"place, {mode}"]
            for row, model, rank in zip(rows, averages, ranks, strict=True):
                row += [make_figure(model.means.get(mode, {}).get(metric)), rank]
        blocks.append(
            Table.from_rows(f"{prefix}averages-{metric}", _heading_with_arrow(metric), heads, rows)
        )
        changing = []
        for position, model in enumerate(averages):
            ranks_of_model = {
                ranks_by_mode[mode][position] for mode in modes if mode in model.means
            }
            if len(ranks_of_model) > 1:
                changing.append(model.label)
        metric_name = metric_heading(metric)
        if changing:
            blocks.append(
                f"Models whose place by {metric_name} depends on how it is averaged: "
                f"{join_names(changing)}."
            )
        else:
            blocks.append(f"No model's place by {metric_name} depends on how it is averaged.")
    heads = ["model", *modes, *(f"AUC undefined, {mode}" for mode in modes)]
    rows = []
    for model in averages:
        undefined = (model.undefined.get(mode, {}).get("AUC") for mode in modes)
        rows.append([model.label, *map(model.groups.get, modes), *undefined])
    counts = Table.from_rows(
        f"{prefix}averages-groups",
        "How many reviews, users, decks or cards are averaged",
        heads,
        rows,
    )
    return Section("Averaging", (*blocks, counts))


# Against a baseline


def build_changes_section(
    files: Sequence[ResultFile],
    baseline_files: Sequence[ResultFile],
    metric: str,
    metrics: Sequence[str],
) -> Section:
    """Return a section that compares the models of a run with an earlier run."""
    changes = compare_runs(files, baseline_files, metric, metrics)
    heads: list[str | Column] = [
        "model",
        Column("users", note="evaluated on the same number of reviews in both runs"),
        Column("verdict by users", note=f"on {metric_heading(metric)}"),
        "by reviews",
    ]
    # Every user counting the same first, then weighted by reviews.
    differences = [
        (shown_metric, weighting)
        for shown_metric in dict.fromkeys((metric, *metrics))
        for weighting in (WEIGHTINGS.index("users"), WEIGHTINGS.index("reviews"))
    ]
    for shown_metric, weighting in differences:
        title = f"{metric_heading(shown_metric)} by {WEIGHTINGS[weighting]}"
        heads.append(Column(title, signed=True))
    heads += [
        "users better",
        "worse",
        "only before",
        "only now",
        Column("other reviews", note="users with another number of held-out reviews"),
    ]
    rows = []
    for change in changes:
        cells: list[Cell] = [
            change.file.label,
            change.users,
            change.verdict("users"),
            change.verdict("reviews"),
        ]
        for shown_metric, weighting in differences:
            cells.append(make_figure_with_ends(change.differences[shown_metric][weighting]))
        cells += [
            change.users_better,
            change.users_worse,
            change.users_only_before,
            change.users_only_now,
            change.users_with_other_reviews,
        ]
        rows.append(cells)
    blocks: list[Block] = [
        "Differences are new minus old, paired by user, with the ends of the 99 % interval in "
        "brackets; a verdict needs an interval that excludes 0."
    ]
    if changes:
        blocks.append(Table.from_rows("changes", "", heads, rows))
    labels = {file.name: file.label for file in files}
    baseline_labels = {file.name: file.label for file in baseline_files}
    for words, missing in (
        (
            "Only in the baseline",
            [label for name, label in baseline_labels.items() if name not in labels],
        ),
        (
            "Not in the baseline",
            [label for name, label in labels.items() if name not in baseline_labels],
        ),
    ):
        if missing:
            blocks.append(f"{words}: {join_names(sorted(missing), 20)}.")
    return Section("What changed since the baseline", tuple(blocks))
