"""The part of a report on many users that is on one set of evaluated reviews."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np

from srs_eval.benchmark.leaderboard import PERCENTILES, WEIGHTINGS, Comparison, Standings, changes
from srs_eval.benchmark.result_files import ResultFile
from srs_eval.data.errors import counted
from srs_eval.data.reviews import FloatArray
from srs_eval.metrics import KEYS, better
from srs_eval.report import pictures
from srs_eval.report.document import (
    Block,
    Cell,
    Column,
    Figure,
    Picture,
    Section,
    Table,
    figure,
    with_ends,
    written,
)
from srs_eval.report.formats import p_value, with_sign
from srs_eval.stats import users as stats

SECONDS = "seconds"
METRICS = ("LogLoss", "RMSE(bins)", "AUC")
_LINES = 8  # of a chart
_INPUTS = "IL interval lengths, FIL fractional ones, G grades, SR same-day reviews, AT answer times"
_SET_P = "p-value of the model confidence set; below 0.01 it is not among the best"
_SPEED = "of one core, as the batch measured it"
SURE = 0.01  # p-values above it tell nothing
_WEIGHTED = {
    "reviews": "Weighted by the number of reviews",
    "users": "Every user counts the same",
    "log reviews": "Weighted by the logarithm of the number of reviews",
}
_READABLE = 12  # models of a matrix that is read without looking closely
_MEDIUM, _LARGE = 0.2, 0.5  # effect sizes from which srs-benchmark calls them so
_CAVEAT = (
    "Every user counts the same here, however many reviews they have, and a difference of any "
    "size counts as one: read how consistent a lead is, not how large. Mean differences have both."
)
_SET_UP = (
    "Intervals and tests say how sure a difference is for these set-ups. They say nothing about "
    "the quality of a set-up: a model that was trained badly loses surely (Rendle et al., 2019, On "
    "the difficulty of evaluating baselines); `srs-eval audit` tells."
)
_Square = tuple[str, float] | None
"""A text, and from 0 to 1 how good the row's model is; nan: that is not sure."""


def heading(metric: str) -> str:
    """A metric as people call it."""
    return KEYS[metric].name if metric in KEYS else metric


def _arrow(metric: str) -> str:
    arrow = {"lower": " ↓", "higher": " ↑", "nearer 0": ""}[better(metric)]
    return heading(metric) + arrow


def title_of(comparison: Comparison) -> str:
    title = f"Evaluated on {comparison.reviews:,} {comparison.rows}"
    if comparison.learns:
        title += ": online models"
    return title


def listed(names: Sequence[str], most: int = 8) -> str:
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def leaderboard(comparison: Comparison) -> Section:
    """The first table of a comparison."""
    means = _means(comparison.tables[0], comparison, METRICS, "", False)
    return Section(title_of(comparison), (_over_whom(comparison, False), means))


def comparison_section(
    comparison: Comparison,
    columns: Sequence[str],
    name: str,
    own_users: bool,
    averages: Sequence[stats.Averages],
    matrix: Sequence[str] = (),
) -> Section:
    """Everything about one set of evaluated reviews; `name` begins the names of its tables.

    `matrix` are the labels of those that matrices show.
    """
    chosen = _readable(comparison, matrix)
    blocks: list[Block] = [
        _over_whom(comparison, own_users),
        *(_means(table, comparison, columns, name, own_users) for table in comparison.tables),
        _means_picture(comparison, name),
        *([_pairs_section(comparison, name, chosen)] if len(comparison.files) > 1 else []),
        _sizes(comparison, name, chosen),
        _distribution(comparison, name),
        *([_averages(averages, name)] if averages else []),
    ]
    return Section(title_of(comparison), tuple(blocks))


def _over_whom(comparison: Comparison, own_users: bool) -> str:
    users = len(comparison.users)
    words = f"Means over {counted(users, 'user')}"
    if own_users:
        return (
            f"Means over each configuration's own users; pairs and confidence sets over "
            f"the {users:,} that all have, evaluated on the same number of reviews."
        )
    if users < comparison.most_users:
        words += (
            f" of {comparison.most_users:,}: those that all have, evaluated on the same number "
            "of reviews"
        )
    return (
        f"{words}, ± half of the {stats.CONFIDENCE * 100:.0f} % interval, which need not be "
        "symmetric; differences have its ends in brackets."
    )


def _means(
    table: Standings, comparison: Comparison, columns: Sequence[str], name: str, own_users: bool
) -> Table:
    metrics = [each for each in columns if each != SECONDS]
    best = {each: table.best(each) for each in metrics}
    # Not defined for some users of some models only.
    uneven = [m for m in metrics if len({line.undefined[m] for line in table.lines}) > 1]
    words, to = heading(comparison.metric), comparison.reference or "the best"
    note, key = "mean paired difference", f"{words} difference"
    speed = Column("s / 10,000 reviews", digits=3, note=_SPEED, key="seconds per 10k")
    heads = (
        *("model", Column("place", in_papers=False), *map(_arrow, metrics)),
        Column("parameters", note="trainable ones; of a frozen network all"),
        Column("input", note=_INPUTS, in_papers=False),
        Column(f"{words} to {to}", signed=True, note=note, key=key),
        Column("set p", note=_SET_P, in_words=p_value, in_papers=False),
        *([speed] if SECONDS in columns else []),
        *(["users"] if own_users else []),
        *(f"users without {heading(each)}" for each in uneven),
    )
    rows = (
        (
            *(line.file.label, line.place),
            # In the form of srs-benchmark's tables, although intervals need not be symmetric.
            *(figure(line.means[each], line.file.label in best[each]) for each in metrics),
            *(line.file.parameter_count, line.file.inputs),
            *(with_ends(line.to_best), Figure(line.set_p_value)),
            *([figure(line.file.seconds_per_10k)] if SECONDS in columns else []),
            *([line.users] if own_users else []),
            *(line.undefined[each] for each in uneven),
        )
        for line in table.lines
    )
    baselines = tuple(k for k, line in enumerate(table.lines) if line.file.is_baseline)
    name = f"{name}means-by-{table.weighting.replace(' ', '-')}"
    return Table.of(name, _WEIGHTED[table.weighting], heads, rows, faint=baselines)


def _means_picture(comparison: Comparison, name: str) -> Picture:
    metric = comparison.metric
    labels = [file.label for file in comparison.files]
    series, baselines = [], []
    for table in comparison.tables[1::-1]:
        means = {line.file.label: line.means[metric] for line in table.lines}
        bounds = [(means[each].estimate, means[each].low, means[each].high) for each in labels]
        series.append((f"by {table.weighting}", bounds))
        baselines += [line.means[metric].estimate for line in table.lines if line.file.is_baseline][
            :1
        ]
    return Picture(
        f"{name}means",
        f"Mean {heading(metric)} with 99 % intervals"
        + (", the baseline as lines" if baselines else ""),
        pictures.intervals(labels, series, heading(metric), baselines),
    )


# Pairs of models: matrices, and every figure in long form


def _readable(comparison: Comparison, named: Sequence[str]) -> list[int]:
    """Positions of the models of a matrix.

    Those with the labels `named`, in that order. Where there are not two of them, all; of more
    than twelve the best twelve, one configuration of each model: that which has its name, if there
    is one. The baseline is one of them.
    """
    files = comparison.files
    labels = [file.label for file in files]
    meant = [labels.index(each) for each in named if each in labels]
    if len(meant) > 1:
        return meant
    if len(files) <= _READABLE:
        return list(range(len(files)))
    chosen: dict[str, int] = {}
    for position, file in enumerate(files):
        if (configuration := file.configuration) is None:
            model, named_so = file.name, True
        else:
            model = configuration.model.name
            named_so = file.name in (model, configuration.model.standard)
        if named_so:
            chosen[model] = position
        chosen.setdefault(model, position)
    baselines = [k for k in chosen.values() if files[k].is_baseline][:1]
    others = sorted(k for k in chosen.values() if k not in baselines)
    return sorted([*others[: _READABLE - len(baselines)], *baselines])


def _pairs_section(comparison: Comparison, name: str, chosen: Sequence[int]) -> Section:
    """Matrices of superiority, mean differences and effect sizes, of the models at `chosen`."""
    words = heading(comparison.metric)
    matrices = partial(_matrices, comparison, chosen)
    shares = stats.superiority(comparison.losses)
    title = f"Superiority: users for whom the row's model has the better {words}, in per cent"
    squares = [list(map(_share, row)) for row in shares.tolist()]
    share = Column("", 1, percent=True)
    blocks: list[Block] = [_CAVEAT, _SET_UP]
    blocks += matrices(f"{name}superiority", title, _figures(shares), share, squares)
    for weighting, differences in zip(WEIGHTINGS[:2], comparison.differences, strict=False):
        title = (
            f"Mean difference of {words}, row minus column, by {weighting}, with both ends of its "
            f"{stats.CONFIDENCE * 100:.0f} % interval"
        )
        ends = [list(map(with_ends, row)) for row in differences]
        squares = [[_gap(each, comparison.paired.sign) for each in row] for row in differences]
        named, hatched = f"{name}differences-by-{weighting}", "0 lies between them"
        blocks += matrices(named, title, ends, Column("", signed=True), squares, hatched)
    known = [("superiority", shares)]
    for kind, short, test, effects in (
        ("wilcoxon", "r", "r of Wilcoxon's signed-rank test", stats.wilcoxon_effects),
        ("cohens-d", "d", "Cohen's d of the paired t-test", stats.t_effects),
    ):
        effect, p_values = effects(comparison.losses)
        adjusted = stats.holm(p_values)
        title = f"{test} of {words}: above 0 where the row's model is better"
        squares = [list(map(_effect, *each)) for each in zip(effect, adjusted <= SURE, strict=True)]
        hatched = f"p > {SURE} (Holm, over all pairs)"
        cells = _figures(effect)
        blocks += matrices(f"{name}{kind}", title, cells, Column("", 3), squares, hatched)
        known += [(short, effect), (f"{short} p", p_values), (f"{short} p holm", adjusted)]
    return Section(f"Pairs of models by {words}", (*blocks, _long(comparison, name, known)))


def _figures(values: FloatArray) -> list[list[Figure]]:
    return [list(map(Figure, row)) for row in values.tolist()]


def _share(value: float) -> _Square:
    return (f"{100 * value:.1f}", value) if math.isfinite(value) else None


def _gap(difference: stats.MeanInterval | None, sign: int) -> _Square:
    """A difference above its two ends; `sign` is 1 where less is better."""
    if difference is None or not math.isfinite(difference.low):
        return None
    lines = written(with_ends(difference), Column("", signed=True)).replace(", ", " ").split()
    unsure, less = difference.low <= 0 <= difference.high, difference.high < 0
    shade = math.nan if unsure else 0.9 if less == (sign > 0) else 0.1
    return "\n".join(each.strip("[]") for each in lines), shade


def _effect(value: float, sure: bool) -> _Square:
    """In three sizes to either side, as srs-benchmark has it."""
    if not math.isfinite(value):
        return None
    size = (1 + (abs(value) > _MEDIUM) + (abs(value) > _LARGE)) / 6
    shade = 0.5 + math.copysign(size, value) if sure else math.nan
    return with_sign(f"{value:.2f}", signed=False), shade


def _matrices(
    comparison: Comparison,
    chosen: Sequence[int],
    name: str,
    title: str,
    cells: Sequence[Sequence[Cell]],
    column: Column,
    squares: Sequence[Sequence[_Square]],
    hatched: str = "",
) -> list[Block]:
    """What is said of pairs as a picture and a table: of chosen models and, folded, of all."""
    of_picture = f"{title}; hatched where {hatched}" if hatched else title

    def matrix(chosen: Sequence[int], name: str) -> Picture:
        labels = [comparison.files[k].label for k in chosen]
        heads = ["model", *(replace(column, title=label) for label in labels)]
        rows = [
            [label, *(cells[k][other] for other in chosen)]
            for label, k in zip(labels, chosen, strict=True)
        ]
        drawn = pictures.matrix(labels, [[squares[k][other] for other in chosen] for k in chosen])
        return Picture(name, of_picture, drawn, Table.of(name, title, heads, rows))

    made: list[Block] = [matrix(chosen, name)]
    if len(chosen) < len(comparison.files):
        every = (matrix(range(len(comparison.files)), f"{name}-all"),)
        made.append(Section(f"All {len(comparison.files)} models", every, folded=True))
    return made


def _long(comparison: Comparison, name: str, figures: Sequence[tuple[str, FloatArray]]) -> Table:
    """A row for each two models, with all that is known of them; for files only."""
    labels = [file.label for file in comparison.files]
    heads = ["model", "other", *(f"difference by {each}" for each in WEIGHTINGS)]
    rows = [
        [
            labels[row],
            labels[column],
            *(with_ends(of_pairs[row][column]) for of_pairs in comparison.differences),
            *(Figure(float(values[row, column])) for _, values in figures),
        ]
        for row, column in permutations(range(len(labels)), 2)
    ]
    heads += [each for each, _ in figures]
    return Table.of(f"{name}pairs", "Pairs of models", heads, rows, shown=False)


# Sizes and distributions


def _sizes(comparison: Comparison, name: str, chosen: Sequence[int]) -> Section:
    groups = comparison.by_size
    words = heading(comparison.metric)
    labels = [file.label for file in comparison.files]
    table = Table.of(
        f"{name}by-size",
        f"Mean {words} by size of the collection, every user counting the same",
        ("evaluated reviews", "users", *labels),
        (
            (f"{sizes.min():,.0f} to {sizes.max():,.0f}", len(sizes), *map(Figure, means.tolist()))
            for sizes, means in groups
        ),
    )
    if len(groups) < 2:
        return Section("By size of the collection", (table,))
    chosen = chosen[:_LINES]
    baseline = next((k for k, file in enumerate(comparison.files) if file.is_baseline), None)
    if baseline is not None and baseline not in chosen:
        chosen = [*chosen[: _LINES - 1], baseline]
    drawn = pictures.lines(
        [float(np.median(sizes)) for sizes, _ in groups],
        [(labels[k], [float(means[k]) for _, means in groups]) for k in chosen],
        "evaluated reviews of a user (median of each group)",
        f"mean {words}",
        logarithmic=True,
    )
    picture = Picture(table.name, f"Mean {words} over collection size", drawn, table)
    return Section("By size of the collection", (picture,))


def _distribution(comparison: Comparison, name: str) -> Section:
    words = heading(comparison.metric)
    labels = [file.label for file in comparison.files]
    heads = [
        Column("median" if each == 50 else f"{each} %", key=f"percentile {each}")
        for each in PERCENTILES
    ]
    columns = zip(labels, comparison.percentiles.T.tolist(), strict=True)
    rows = ([label, *map(Figure, column)] for label, column in columns)
    title = f"Percentiles of {words} over users"
    table = Table.of(f"{name}percentiles", title, ["model", *heads], rows)
    title = f"{words[0].upper()}{words[1:]} over users: 1 to 99 %, 5 to 95 %, 25 to 75 %, median"
    drawn = pictures.spreads(labels, comparison.percentiles, words)
    return Section(
        "Distribution over users", (Picture(f"{name}distribution", title, drawn, table),)
    )


def _averages(averages: Sequence[stats.Averages], name: str) -> Section:
    """Averaging modes side by side."""
    modes = [mode for mode in stats.MODES if any(mode in each.means for each in averages)]
    metrics = list(dict.fromkeys(m for each in averages for of in each.means.values() for m in of))
    blocks: list[Block] = [
        "The same predictions, averaged in different ways: over all reviews at once (global), over "
        "the figures of users, of decks or of cards. Groups for which a figure is not defined are "
        "left out of its mean (Pelánek, 2017, Measuring predictive performance of user models). "
        "Over the users of whom all models listed have a prediction of every evaluated review."
    ]
    for metric in metrics:
        by_mode = {mode: stats.places(averages, mode, metric) for mode in modes}
        heads = ["model"]
        rows: list[list[Cell]] = [[each.label] for each in averages]
        for mode, of_mode in by_mode.items():
            heads += [mode if mode == "global" else f"by {mode}", f"place, {mode}"]
            for row, each, place in zip(rows, averages, of_mode, strict=True):
                row += [figure(each.means.get(mode, {}).get(metric)), place]
        blocks.append(Table.of(f"{name}averages-{metric}", _arrow(metric), heads, rows))
        changing = [
            each.label
            for k, each in enumerate(averages)
            if len({by_mode[mode][k] for mode in modes if mode in each.means}) > 1
        ]
        blocks.append(
            f"Places by {heading(metric)} that change with the averaging: {listed(changing)}."
            if changing
            else f"No place by {heading(metric)} changes with the averaging."
        )
    heads = ["model", *modes, *(f"AUC undefined, {mode}" for mode in modes)]
    rows = []
    for each in averages:
        undefined = (each.undefined.get(mode, {}).get("AUC") for mode in modes)
        rows.append([each.label, *map(each.groups.get, modes), *undefined])
    counts = Table.of(f"{name}averages-groups", "What is averaged over", heads, rows)
    return Section("Averaging", (*blocks, counts))


# Against a baseline


def changes_section(
    files: Sequence[ResultFile], old: Sequence[ResultFile], metric: str, metrics: Sequence[str]
) -> Section:
    found = changes(files, old, metric, metrics)
    shown = dict.fromkeys((metric, *metrics))

    of_metrics = [(metric, place) for metric in shown for place in (1, 0)]
    heads = (
        *("model", Column("users", note="in both runs, evaluated on as many reviews")),
        *(Column("verdict by users", note=f"on {heading(metric)}"), "by reviews"),
        *(Column(f"{heading(of)} by {WEIGHTINGS[k]}", signed=True) for of, k in of_metrics),
        *("users better", "worse", "only before", "only now"),
        Column("other reviews", note="users evaluated on another number of reviews"),
    )
    rows = (
        (
            *(each.file.label, each.users, each.verdict("users"), each.verdict("reviews")),
            *(with_ends(each.differences[of][k]) for of, k in of_metrics),
            *(each.better, each.worse, each.only_before, each.only_now, each.other_reviews),
        )
        for each in found
    )
    blocks: list[Block] = [
        "New minus old, paired by user, with the ends of the 99 % interval in brackets; a verdict "
        "needs an interval that leaves out 0."
    ]
    if found:
        blocks.append(Table.of("changes", "", heads, rows))
    now, before = ({file.name: file.label for file in each} for each in (files, old))
    for words, missing in (
        ("Only in the baseline", [before[name] for name in before if name not in now]),
        ("Not in the baseline", [now[name] for name in now if name not in before]),
    ):
        if missing:
            blocks.append(f"{words}: {listed(sorted(missing), 20)}.")
    return Section("What changed against the baseline", tuple(blocks))
