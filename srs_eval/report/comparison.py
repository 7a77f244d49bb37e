"""The part of a report on many users that is on one set of evaluated reviews."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from srs_eval.benchmark.leaderboard import (
    PERCENTILES,
    WEIGHTINGS,
    Change,
    Comparison,
    Standing,
    Standings,
    changes,
)
from srs_eval.benchmark.result_files import ResultFile, ResultFolder, home_of
from srs_eval.data.errors import InputError, counted
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
    table_of,
    with_ends,
)
from srs_eval.report.formats import p_value
from srs_eval.stats import users as stats
from srs_eval.stats.users import CONFIDENCE, read_predictions

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


_StandingColumn = tuple[str | Column, Callable[[Standing], Cell]]
_ChangeColumn = tuple[str | Column, Callable[[Change], Cell]]


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
    from srs_eval.report.pairs import pairs_section, readable

    chosen = readable(comparison, matrix)
    blocks: list[Block] = [
        _over_whom(comparison, own_users),
        *(_means(table, comparison, columns, name, own_users) for table in comparison.tables),
        _means_picture(comparison, name),
        *([pairs_section(comparison, name, chosen)] if len(comparison.files) > 1 else []),
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
        f"{words}, ± half of the {CONFIDENCE * 100:.0f} % interval, which need not be symmetric; "
        "differences have its ends in brackets."
    )


def _means(
    table: Standings, comparison: Comparison, columns: Sequence[str], name: str, own_users: bool
) -> Table:
    def mean(metric: str) -> _StandingColumn:
        """In the form of srs-benchmark's tables, although intervals need not be symmetric."""
        best = table.best(metric)
        return _arrow(metric), lambda line: figure(line.means[metric], line.file.label in best)

    def without(metric: str) -> _StandingColumn:
        return f"users without {heading(metric)}", lambda line: line.undefined[metric]

    metrics = [each for each in columns if each != SECONDS]
    to = comparison.reference or "the best"
    to_best = f"{heading(comparison.metric)} to {to}"
    shown: list[_StandingColumn] = [
        ("model", lambda line: line.file.label),
        (Column("place", in_papers=False), lambda line: line.place),
        *map(mean, metrics),
        (Column("parameters", note="trainable ones"), lambda line: line.file.parameter_count),
        (Column("input", note=_INPUTS, in_papers=False), lambda line: line.file.inputs),
        (
            Column(
                to_best,
                signed=True,
                note="mean paired difference",
                key=f"{heading(comparison.metric)} difference",
            ),
            lambda line: with_ends(line.to_best),
        ),
        (
            Column("set p", note=_SET_P, in_words=p_value, in_papers=False),
            lambda line: Figure(line.set_p_value),
        ),
    ]
    if SECONDS in columns:
        speed = Column("s / 10,000 reviews", digits=3, note=_SPEED, key="seconds per 10k")
        shown.append((speed, lambda line: figure(line.file.seconds_per_10k)))
    if own_users:
        shown.append(("users", lambda line: line.users))
    # Not defined for some users of some models only.
    shown += [without(m) for m in metrics if len({line.undefined[m] for line in table.lines}) > 1]
    baselines = tuple(k for k, line in enumerate(table.lines) if line.file.is_baseline)
    name = f"{name}means-by-{table.weighting.replace(' ', '-')}"
    return table_of(name, _WEIGHTED[table.weighting], table.lines, shown, faint=baselines)


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


def averaged(
    folders: Sequence[ResultFolder], comparisons: Sequence[Comparison], modes: Sequence[str]
) -> list[list[stats.Averages]]:
    """By comparison: averages of those of its files that have predictions.

    Over the users of whom all of these hold every evaluated review, and no others.
    """
    if list(modes) == ["user"]:
        return [[] for _ in comparisons]
    found: list[list[stats.Averages]] = []
    for comparison in comparisons:
        users, sizes = comparison.users, comparison.sizes
        predicted = []
        for file in comparison.files:
            predictions = read_predictions(home_of(file.path), file.spelled)
            if predictions is not None:
                predicted.append(file)
                users = predictions.complete(users, sizes[np.isin(comparison.users, users)])
                if not len(users):
                    raise InputError(
                        f'--average: the predictions of {file.label} in "{home_of(file.path)}" are '
                        "not of the reviews and users that results and other predictions are of: "
                        "evaluate again with --raw."
                    )
        # Read again, for those of all files at once need not fit into memory.
        read = ((file, read_predictions(home_of(file.path), file.spelled)) for file in predicted)
        found.append(
            [
                stats.averages(file.label, those.of(users), modes, is_baseline=file.is_baseline)
                for file, those in read
                if those is not None
            ]
        )
    if not any(found):
        raise InputError(
            f"--average {','.join(modes)} needs predictions, and there are none in a folder raw "
            f'beside the results of "{folders[0].path}": evaluate with --raw.'
        )
    for mode in modes:
        if not any(mode in each.means for averaged in found for each in averaged):
            raise InputError(
                f"--average {mode}: no predictions in raw tell the {mode}s of reviews; parquet "
                f"files with a column {stats.COLUMNS[mode]} do."
            )
    return found


# Against a baseline


def changes_section(
    files: Sequence[ResultFile],
    old: Sequence[ResultFile],
    metric: str,
    metrics: Sequence[str],
) -> Section:
    found = changes(files, old, metric, metrics)
    shown = dict.fromkeys((metric, *metrics))

    def difference(metric: str, place: int) -> _ChangeColumn:
        head = Column(f"{heading(metric)} by {WEIGHTINGS[place]}", signed=True)
        return head, lambda change: with_ends(change.differences[metric][place])

    columns: list[_ChangeColumn] = [
        ("model", lambda change: change.file.label),
        (Column("users", note="in both runs, evaluated on as many reviews"), lambda c: c.users),
        (Column("verdict by users", note=f"on {heading(metric)}"), lambda c: c.verdict("users")),
        ("by reviews", lambda change: change.verdict("reviews")),
        *(difference(each, place) for each in shown for place in (1, 0)),
        ("users better", lambda change: change.better),
        ("worse", lambda change: change.worse),
        ("only before", lambda change: change.only_before),
        ("only now", lambda change: change.only_now),
        (
            Column("other reviews", note="users evaluated on another number of reviews"),
            lambda change: change.other_reviews,
        ),
    ]
    blocks: list[Block] = [
        "New minus old, paired by user, with the ends of the 99 % interval in brackets; a verdict "
        "needs an interval that leaves out 0."
    ]
    if found:
        blocks.append(table_of("changes", "", found, columns))
    now, before = ({file.name: file.label for file in each} for each in (files, old))
    for words, missing in (
        ("Only in the baseline", [before[name] for name in before if name not in now]),
        ("Not in the baseline", [now[name] for name in now if name not in before]),
    ):
        if missing:
            blocks.append(f"{words}: {listed(sorted(missing), 20)}.")
    return Section("What changed against the baseline", tuple(blocks))
