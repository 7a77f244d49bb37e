"""The report on result files of many users, as `srs-eval report` shows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from pathlib import Path

import numpy as np

from srs_eval.benchmark.leaderboard import (
    PERCENTILES,
    WEIGHTINGS,
    Change,
    Comparison,
    Standing,
    Standings,
    compare,
    fitted_percentiles,
)
from srs_eval.benchmark.result_files import ResultFile, ResultFolder, read_folders
from srs_eval.data.errors import counted
from srs_eval.data.paths import VERSION
from srs_eval.metrics import KEYS, better
from srs_eval.report import pictures
from srs_eval.report.document import Document, Picture, Section
from srs_eval.report.pairs import SURE, pairs_of, readable_of
from srs_eval.report.table import Cell, Column, Figure, Table
from srs_eval.stats.averaging import MODES, Averages, places
from srs_eval.stats.users import CONFIDENCE, FEWEST_USERS, RESAMPLES, MeanInterval

SECONDS = "seconds"
METRICS = ("LogLoss", "RMSE(bins)", "AUC")
_LINES = 8  # of a chart
_INPUTS = "IL interval lengths, FIL fractional ones, G grades, SR same-day reviews, AT answer times"
_SET_P = "p-value of the model confidence set; below 0.01 it is not among the best"
_SPEED = "of one core, as the batch measured it"


def dataset_document(
    folders: Sequence[ResultFolder],
    comparisons: Sequence[Comparison],
    *,
    columns: Sequence[str] = METRICS,
    own_users: bool = False,
    baseline: Sequence[ResultFolder] = (),
    changes: Sequence[Change] = (),
    averages: Sequence[Sequence[Averages]] = (),
) -> Document:
    """Everything about some folders of results; `averages` are by comparison."""
    files = sum(len(folder.files) for folder in folders)
    users = max(len(comparison.users) for comparison in comparisons)
    named = [
        f"{number}-" if len(comparisons) > 1 else "" for number in range(1, len(comparisons) + 1)
    ]
    sections = [
        _comparison(comparison, columns, name, own_users, of_comparison)
        for comparison, name, of_comparison in zip(
            comparisons, named, averages or [()] * len(comparisons), strict=True
        )
    ]
    metric = comparisons[0].metric
    if baseline:
        sections.insert(0, _changes(changes, metric, folders, baseline))
    return Document(
        title=f"{counted(files, 'configuration')}, {counted(users, 'user')}",
        lead=(
            *_data_sets([*folders, *baseline]),
            *(each for comparison in comparisons for each in _lead(comparison)),
        ),
        sections=(
            *sections,
            *_median_parameters(folders),
            _card(folders, comparisons, columns, own_users, baseline),
        ),
    )


def leaderboards(folder: Path, configurations: Collection[str], users: Set[int]) -> list[Section]:
    """The first table on each set of judged reviews, of some configurations and users."""
    files = [
        _only(file, users)
        for found in read_folders([folder])
        for file in found.files
        if file.name in configurations and not users.isdisjoint(file.users.tolist())
    ]
    return [
        Section(
            _title(each),
            (_over_whom(each, False), _means(each.tables[0], each, METRICS, "", False)),
        )
        for each in compare(files)
    ]


def _only(file: ResultFile, users: Set[int]) -> ResultFile:
    """Results of some users, the rest as it is."""
    there = np.isin(file.users, list(users))
    metrics = {name: values[there] for name, values in file.metrics.items()}
    return replace(file, users=file.users[there], sizes=file.sizes[there], metrics=metrics)


def _heading(metric: str) -> str:
    """A metric as people call it."""
    return KEYS[metric].name if metric in KEYS else metric


def _arrow(metric: str) -> str:
    arrow = {"lower": " ↓", "higher": " ↑", "nearer 0": ""}[better(metric)]
    return _heading(metric) + arrow


# What it comes to


def _data_sets(folders: Sequence[ResultFolder]) -> list[str]:
    """That equal numbers of users need not be equal users."""
    known = [folder for folder in folders if folder.setup is not None]
    prints = {folder.setup["data"]["fingerprint"] for folder in known if folder.setup}
    if len(prints) < 2:
        return []
    names = _listed([_folder_name(folder.path) for folder in known])
    return [
        f"{names} are results on data sets that differ: a user's number need not mean the same "
        "person in each. Report on each alone unless you know that it does."
    ]


def _lead(comparison: Comparison) -> list[str]:
    """Who is ahead, and what that depends on."""
    by_reviews, by_users = (
        [line for line in table.lines if line.place] for table in comparison.tables
    )
    if not by_users:
        return []
    title = _title(comparison)
    firsts = [lines[0] for lines in (by_reviews, by_users)]
    same = firsts[0].file is firsts[1].file
    if len(comparison.files) == 1:
        return [f"{title}: {firsts[0].file.label} has no other to be compared with."]
    ahead = (
        f"{firsts[0].file.label} has the lowest mean log loss, by reviews and by users."
        if same
        else f"{firsts[0].file.label} has the lowest mean log loss by reviews, "
        f"{firsts[1].file.label} by users."
    )
    below = [
        f"by {weighting}"
        for weighting, table in zip(WEIGHTINGS, comparison.tables, strict=True)
        if table.lines[0].file.is_floor
    ]
    if len(by_users) == 1:
        ahead = f"{firsts[0].file.label} has no other to be compared with than the floor."
    if below:
        ahead += f" The floor has a lower mean log loss {' and '.join(below)}."
    said = [f"{title}: {ahead}"]
    users = len(comparison.users)
    if 2 * users < comparison.most_users:
        fewest = min(comparison.files, key=lambda file: len(file.users))
        why = (
            f"{fewest.label} has results of {counted(len(fewest.users), 'user')}; --users each "
            "gives means over each one's own"
            if len(fewest.users) < comparison.most_users
            else "of the others they were judged on different numbers of reviews"
        )
        said.append(
            f"This is over {counted(users, 'user')} only, of {comparison.most_users:,}, for all "
            f"models are compared on the same reviews: {why}."
        )
    said.append(_best_by(comparison))
    moved = comparison.moved
    if moved:
        said.append(
            "The order depends on whether reviews or users count the same: "
            f"{_listed([label for label, *_ in moved])} change places."
        )
    return said


def _best_by(comparison: Comparison) -> str:
    """Which models the confidence sets hold."""
    words = _heading(comparison.metric)
    if comparison.complete < FEWEST_USERS:
        return (
            f"Can't tell yet which can be the best by {words}: {comparison.complete} of "
            f"{counted(len(comparison.users), 'user')} have it for all models, and fewer than "
            f"{FEWEST_USERS} tell nothing with 99 % confidence."
        )
    by_reviews, by_users = (
        [line.file.label for line in table.lines if line.set_p_value >= SURE]
        for table in comparison.tables
    )
    same = set(by_reviews) == set(by_users)
    if same and len(by_users) == 1:
        return f"By {words} none but {by_users[0]} can be the best, with 99 % confidence."
    told = (
        _listed(by_users)
        if same
        else f"by reviews: {_listed(by_reviews)}; by users: {_listed(by_users)}"
    )
    return f"By {words} one of these is the best, with 99 % confidence: {told}."


def _title(comparison: Comparison) -> str:
    title = f"Judged on {comparison.reviews:,} {comparison.rows}"
    if comparison.learns:
        title += ": models that learn while they are judged"
    return title


def _listed(names: Sequence[str], most: int = 8) -> str:
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


# One set of judged reviews


def _comparison(
    comparison: Comparison,
    columns: Sequence[str],
    name: str,
    own_users: bool,
    averages: Sequence[Averages],
) -> Section:
    blocks: list[str | Table | Picture | Section] = [_over_whom(comparison, own_users)]
    undefined = (
        max(line.undefined["AUC"] for line in comparison.tables[1].lines) if "AUC" in columns else 0
    )
    if undefined:
        blocks.append(
            f"AUC is not defined for {counted(undefined, 'user')} with one outcome only; they are "
            "left out of its means, weight included."
        )
    for table in comparison.tables:
        blocks.append(_means(table, comparison, columns, name, own_users))
    blocks.append(_means_picture(comparison, name))
    moved = comparison.moved
    if moved:
        blocks.append(_places(moved, name))
    if len(comparison.files) > 1:
        blocks.append(pairs_of(comparison, _heading(comparison.metric), name))
    blocks += [_sizes(comparison, name), _distribution(comparison, name)]
    if averages:
        blocks.append(_averages(averages, name))
    return Section(_title(comparison), tuple(blocks))


def _over_whom(comparison: Comparison, own_users: bool) -> str:
    users = len(comparison.users)
    words = f"Means over {counted(users, 'user')}"
    if own_users:
        return (
            f"Means over each configuration's own users; pairs and confidence sets over "
            f"the {users:,} that all have, judged on the same number of reviews."
        )
    if users < comparison.most_users:
        words += (
            f" of {comparison.most_users:,}: those that all have, judged on the same number "
            "of reviews"
        )
    return (
        f"{words}, ± half of the {CONFIDENCE * 100:.0f} % interval, which need not be symmetric; "
        "differences have its ends in brackets."
    )


def _means(
    table: Standings,
    comparison: Comparison,
    columns: Sequence[str],
    name: str,
    own_users: bool,
) -> Table:
    metric = comparison.metric
    metrics = [each for each in columns if each != SECONDS]
    best = {each: table.best(each) for each in metrics}
    undefined = [each for each in metrics if _differ(table, each)]
    heads = [
        Column("model"),
        Column("place"),
        *(Column(_arrow(each)) for each in metrics),
        Column("parameters", note="trainable ones"),
        Column("input", note=_INPUTS),
        Column(f"{_heading(metric)} to the best", signed=True, note="mean paired difference"),
        Column("set p", digits=3, note=_SET_P),
        *([Column("s / 10,000 reviews", digits=3, note=_SPEED)] if SECONDS in columns else []),
        *([Column("users")] if own_users else []),
        *(Column(f"users without {_heading(each)}") for each in undefined),
    ]
    rows: list[tuple[Cell, ...]] = []
    for line in table.lines:
        file = line.file
        cells: list[Cell] = [file.label, line.place]
        cells += [_mean(line.means[each], file.label in best[each]) for each in metrics]
        cells += [file.parameter_count, file.inputs]
        cells.append(None if line.to_best is None else _difference(line.to_best))
        cells.append(Figure(line.set_p_value))
        if SECONDS in columns:
            cells.append(None if file.seconds_per_10k is None else Figure(file.seconds_per_10k))
        if own_users:
            cells.append(line.users)
        cells += [line.undefined[each] for each in undefined]
        rows.append(tuple(cells))
    title = {"reviews": "Weighted by the number of reviews", "users": "Every user counts the same"}[
        table.weighting
    ]
    floors = tuple(k for k, line in enumerate(table.lines) if line.file.is_floor)
    name = f"{name}means-by-{table.weighting}"
    return Table(name, title, tuple(heads), tuple(rows), faint=floors)


def _differ(table: Standings, metric: str) -> bool:
    """Whether a metric is not defined for some users of some models only."""
    return len({line.undefined[metric] for line in table.lines}) > 1


def _mean(interval: MeanInterval, strong: bool = False) -> Figure:
    """In the form of srs-benchmark's tables, although the interval need not be symmetric."""
    return Figure(interval.estimate, interval.half_width, strong)


def _difference(interval: MeanInterval) -> Figure:
    """With both ends: whether 0 lies between them is what a verdict rests on."""
    return Figure(interval.estimate, ends=(interval.low, interval.high))


def _means_picture(comparison: Comparison, name: str) -> Picture:
    metric = comparison.metric
    by_reviews, by_users = (
        {line.file.label: line.means[metric] for line in table.lines} for table in comparison.tables
    )
    labels = [file.label for file in comparison.files]
    series = [
        (f"by {weighting}", [(m.estimate, m.low, m.high) for m in map(means.__getitem__, labels)])
        for weighting, means in (("users", by_users), ("reviews", by_reviews))
    ]
    floor = next(
        (by_users[file.label].estimate for file in comparison.files if file.is_floor), None
    )
    return Picture(
        f"{name}means",
        f"Mean {_heading(metric)} with 99 % intervals" + (", the floor as a line" if floor else ""),
        f"Mean {_heading(metric)} of each model by reviews and by users, as in the tables.",
        pictures.intervals(labels, series, _heading(metric), floor),
        None,
    )


def _places(moved: Sequence[tuple[str, int, int]], name: str) -> Table:
    return Table(
        f"{name}places",
        "Places by log loss that depend on what counts the same",
        (Column("model"), Column("by reviews"), Column("by users")),
        tuple(moved),
    )


# Sizes and distributions


def _sizes(comparison: Comparison, name: str) -> Section:
    groups = comparison.by_size
    words = _heading(comparison.metric)
    chosen = readable_of(comparison)[:_LINES]
    floor = next((k for k, file in enumerate(comparison.files) if file.is_floor), None)
    if floor is not None and floor not in chosen:
        chosen = [*chosen[: _LINES - 1], floor]

    def table(models: Sequence[int], file_name: str, shown: bool) -> Table:
        return Table(
            f"{name}{file_name}",
            f"Mean {words} by size of the collection, every user counting the same",
            (
                Column("judged reviews"),
                Column("users"),
                *(Column(comparison.files[k].label) for k in models),
            ),
            tuple(
                (
                    f"{groups.smallest[g]:,} to {groups.largest[g]:,}",
                    groups.users[g],
                    *(Figure(float(groups.means[g, k])) for k in models),
                )
                for g in range(len(groups.users))
            ),
            shown,
        )

    drawn = pictures.lines(
        groups.median,
        [(comparison.files[k].label, groups.means[:, k].tolist()) for k in chosen],
        "judged reviews of a user (median of each group)",
        f"mean {words}",
        logarithmic=True,
    )
    title = f"Mean {words} over collection size"
    told = f"{title} for {_listed([comparison.files[k].label for k in chosen])}."
    blocks: list[Table | Picture] = [table(chosen, "by-size", True)]
    if len(groups.users) > 1:
        blocks = [Picture(f"{name}by-size", title, told, drawn, table(chosen, "by-size", True))]
    if len(chosen) < len(comparison.files):
        blocks.append(table(range(len(comparison.files)), "by-size-all", False))
    return Section("By size of the collection", tuple(blocks))


def _distribution(comparison: Comparison, name: str) -> Section:
    words = _heading(comparison.metric)
    labels = [file.label for file in comparison.files]
    table = Table(
        f"{name}percentiles",
        f"Percentiles of {words} over users",
        (
            Column("model"),
            *(
                Column(f"{percentile} %" if percentile != 50 else "median")
                for percentile in PERCENTILES
            ),
        ),
        tuple(
            (label, *(Figure(float(value)) for value in column))
            for label, column in zip(labels, comparison.percentiles.T, strict=True)
        ),
    )
    picture = Picture(
        f"{name}distribution",
        f"{words[0].upper()}{words[1:]} over users: 1 to 99 %, 5 to 95 %, 25 to 75 %, median",
        table.title,
        pictures.spreads(labels, comparison.percentiles, words),
        table,
    )
    return Section("Distribution over users", (picture,))


# Parameters, averages, changes


def _median_parameters(folders: Sequence[ResultFolder]) -> list[Section]:
    files = [
        file
        for folder in folders
        for file in folder.files
        if file.parameters is not None and file.parameter_count != 0
    ]
    if not files:
        return []
    shown: list[tuple[Cell, ...]] = []
    every: list[tuple[Cell, ...]] = []
    for file in files:
        assert file.parameters is not None
        percentiles = fitted_percentiles(file.parameters)
        shown.append(
            (file.label, len(file.parameters), ", ".join(f"{each:.4f}" for each in percentiles[1]))
        )
        every += [
            (file.label, number, *map(Figure, column.tolist()))
            for number, column in enumerate(percentiles.T)
        ]
    table = Table(
        "median-parameters",
        "Median of each fitted parameter",
        (Column("model"), Column("fits", note="users, or partitions of users"), Column("medians")),
        tuple(shown),
    )
    spread = Table(
        "parameters",
        "Fitted parameters",
        (Column("model"), Column("parameter"), Column("5 %"), Column("median"), Column("95 %")),
        tuple(every),
        shown=False,
    )
    return [Section("Median parameters", (table, spread), folded=True)]


def _averages(averages: Sequence[Averages], name: str) -> Section:
    """Averaging modes side by side."""
    modes = [mode for mode in MODES if any(mode in each.means for each in averages)]
    if not modes:
        return Section("Averaging", ("No predictions here tell what is to be averaged over.",))
    metrics = list(dict.fromkeys(m for each in averages for of in each.means.values() for m in of))
    blocks: list[str | Table | Picture | Section] = [
        "The same predictions, averaged in different ways: over all reviews at once (global), over "
        "the figures of users, of decks or of cards. Groups for which a figure is not defined are "
        "left out of its mean (Pelánek, 2017, Measuring predictive performance of user models). "
        "Over the users of whom all models that are listed have every judged review's prediction.",
    ]
    for metric in metrics:
        by_mode = {mode: places(averages, mode, metric) for mode in modes}
        rows = tuple(
            (
                each.label,
                *(
                    cell
                    for mode in modes
                    for cell in (
                        Figure(each.means[mode][metric]) if mode in each.means else None,
                        by_mode[mode][k],
                    )
                ),
            )
            for k, each in enumerate(averages)
        )
        heads = [Column("model")]
        for mode in modes:
            heads += [Column(f"by {mode}" if mode != "global" else mode), Column(f"place, {mode}")]
        blocks.append(Table(f"{name}averages-{metric}", _arrow(metric), tuple(heads), rows))
        changing = [
            each.label
            for k, each in enumerate(averages)
            if len({by_mode[mode][k] for mode in modes if mode in each.means}) > 1
        ]
        blocks.append(
            f"Places by {_heading(metric)} that change with the averaging: {_listed(changing)}."
            if changing
            else f"No place by {_heading(metric)} changes with the averaging."
        )
    counts = Table(
        f"{name}averages-groups",
        "What is averaged over",
        (
            Column("model"),
            *(Column(mode) for mode in modes),
            *(Column(f"AUC undefined, {mode}") for mode in modes),
        ),
        tuple(
            (
                each.label,
                *(each.groups.get(mode) for mode in modes),
                *(each.undefined.get(mode, {}).get("AUC") for mode in modes),
            )
            for each in averages
        ),
    )
    return Section("Averaging", (*blocks, counts))


def _changes(
    changes: Sequence[Change],
    metric: str,
    folders: Sequence[ResultFolder],
    baseline: Sequence[ResultFolder],
) -> Section:
    heads = [
        Column("model"),
        Column("users", note="in both runs, judged on as many reviews"),
        Column("verdict by users", note=f"on {_heading(metric)}"),
        Column("by reviews"),
    ]
    metrics = list(changes[0].differences) if changes else []
    for each in metrics:
        heads += [
            Column(f"{_heading(each)} by users", signed=True),
            Column(f"{_heading(each)} by reviews", signed=True),
        ]
    heads += [
        Column("users better"),
        Column("worse"),
        Column("only before"),
        Column("only now"),
        Column("other reviews", note="users judged on another number of reviews"),
    ]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            change.file.label,
            change.users,
            change.verdict("users"),
            change.verdict("reviews"),
            *(
                _difference(interval)
                for each in metrics
                for interval in (change.differences[each][1], change.differences[each][0])
            ),
            change.better,
            change.worse,
            change.only_before,
            change.only_now,
            change.other_reviews,
        )
        for change in changes
    )
    blocks: list[str | Table | Picture | Section] = [
        "New minus old, paired by user, with the ends of the 99 % interval in brackets; a verdict "
        "needs an interval that leaves out 0."
    ]
    if rows:
        blocks.append(Table("changes", "", tuple(heads), rows))
    now = {file.name: file.label for folder in folders for file in folder.files}
    before = {file.name: file.label for folder in baseline for file in folder.files}
    for words, missing in (
        ("Only in the baseline", [before[name] for name in before if name not in now]),
        ("Not in the baseline", [now[name] for name in now if name not in before]),
    ):
        if missing:
            blocks.append(f"{words}: {_listed(sorted(missing), 20)}.")
    return Section("What changed against the baseline", tuple(blocks))


# The card


def _card(
    folders: Sequence[ResultFolder],
    comparisons: Sequence[Comparison],
    columns: Sequence[str],
    own_users: bool,
    baseline: Sequence[ResultFolder],
) -> Section:
    """Exactly what was computed over what."""
    from importlib.metadata import version

    lines = [
        f"srs-eval {VERSION}, numpy {version('numpy')}, scipy {version('scipy')}.",
        "A mean of a metric is over users, weighted by each user's judged reviews or all alike; "
        "nothing is pooled over users. Users without a figure are left out of it, weight "
        "included.",
        f"Intervals: {100 * CONFIDENCE:.0f} %, BCa bootstrap of the mean over users, {RESAMPLES:,} "
        "resamples with a fixed seed; paired differences and confidence sets use the same "
        "resamples.",
        "Confidence set: Hansen, Lunde & Nason (2011), the test of the largest standardised "
        "difference.",
        "Log loss and AUC depend on what is recalled as well as on the model; RMSE(bins) can be "
        "gamed (docs/metrics.md).",
        "Users: each configuration's own."
        if own_users
        else "Users: those that all configurations of a table have, judged on the same number of "
        "reviews.",
    ]
    rows = [_source(folder, "") for folder in folders]
    rows += [_source(folder, "baseline") for folder in baseline]
    sources = Table(
        "sources",
        "Sources",
        (
            Column("folder"),
            Column("results of"),
            Column("configurations"),
            Column("users"),
            Column("judged reviews", note="of the file that has most"),
            Column("to know"),
        ),
        tuple(rows),
    )
    compared = Table(
        "compared",
        "Compared",
        (
            Column("judged on"),
            Column("configurations"),
            Column("users"),
            Column("reviews"),
            Column("undefined figures"),
        ),
        tuple(
            (
                comparison.rows + (", learning while judged" if comparison.learns else ""),
                len(comparison.files),
                len(comparison.users),
                comparison.reviews,
                _undefined(comparison.tables[1].lines, columns),
            )
            for comparison in comparisons
        ),
    )
    return Section("Metric card", (*lines, compared, sources))


def _undefined(lines: Sequence[Standing], columns: Sequence[str]) -> str:
    most = {
        metric: max(line.undefined[metric] for line in lines)
        for metric in columns
        if metric != SECONDS
    }
    told = [f"{_heading(metric)}: {counted(n, 'user')}" for metric, n in most.items() if n]
    return ", ".join(told) or "none"


def _source(folder: ResultFolder, role: str) -> tuple[str, str, int, int, int, str]:
    known = [role] if role else []
    if folder.setup is not None:
        data = folder.setup["data"]
        known.append(f"data set of {data.get('users', '?')} users, {data['fingerprint'][:12]}")
        known += [
            f"{key} {value}" for key, value in folder.setup["options"].items() if value is not None
        ]
    known += folder.unread
    known += [
        f"{file.label}: {counted(file.repeated, 'line')} of a user who had one before"
        for file in folder.files
        if file.repeated
    ]
    known += [f"{file.spelled}: {file.left_open}" for file in folder.files if file.left_open]
    return (
        _folder_name(folder.path),
        folder.origin,
        len(folder.files),
        max(len(file.users) for file in folder.files),
        int(max(file.sizes.sum() for file in folder.files)),
        "; ".join(known),
    )


def _folder_name(path: Path) -> str:
    """The end of a path, which tells nobody where somebody works."""
    return path.name or path.absolute().name
