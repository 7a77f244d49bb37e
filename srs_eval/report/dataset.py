"""The report on result files of many users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from srs_eval.benchmark.leaderboard import Comparison, Standing, averaged, compare
from srs_eval.benchmark.result_files import ResultFile, ResultFolder, home_of, read_folders
from srs_eval.benchmark.setup import remarks, settings_in_words
from srs_eval.data.datasets import select_users
from srs_eval.data.errors import InputError, counted
from srs_eval.data.paths import VERSION
from srs_eval.models.configurations import resolve
from srs_eval.report.comparison import (
    METRICS,
    SECONDS,
    SURE,
    changes_section,
    comparison_section,
    heading,
    leaderboard,
    listed,
    title_of,
)
from srs_eval.report.document import (
    Block,
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    figure,
)
from srs_eval.stats.users import CONFIDENCE, FEWEST_USERS, MODES, RESAMPLES, SEED


def dataset_report(
    paths: Sequence[Path],
    *,
    metric: str = "LogLoss",
    columns: Sequence[str] = METRICS,
    means: Literal["common", "each"] = "common",
    average: Sequence[str] = ("user",),
    baseline: Path | None = None,
    models: str | None = None,
    users: str | None = None,
    reference: str | None = None,
    matrix: str | None = None,
    digits: int = 0,
) -> Document:
    """The report on some folders; raises InputError for what they do not hold.

    `models`, `reference` and `matrix` name configurations as `_meant` takes them, `users` are ids
    and ranges of ids; `digits` are the decimals of figures, 0 for as many as intervals allow.
    """
    folders = read_folders(paths)
    files, taken = _files(folders), None
    held_against = _meant("--reference", reference, files) if reference else []
    if len(held_against) > 1:
        several = listed([file.label for file in held_against])
        raise InputError(f'--reference takes one configuration; "{reference}" is {several}.')
    if models is not None:
        chosen = [*_meant("--models", models, files), *held_against]
        files = [file for file in files if file in chosen]
    in_matrix = _meant("--matrix", matrix, files) if matrix else []
    if users is not None:
        there = sorted({user for file in files for user in file.users.tolist()})
        taken = select_users(there, users)
        files = [part for file in files if (part := _of_users(file, taken))]
    known = dict.fromkeys(name for file in files for name in file.metrics)
    if not known:
        raise InputError(
            f'"{paths[0]}": no line holds a metric; name a folder with results of srs-eval or '
            "srs-benchmark."
        )
    metric = named("--metric", metric, known)
    columns = [named("--columns", each.strip(), [*known, SECONDS]) for each in columns]
    modes = [named("--average", each.strip(), MODES) for each in average]
    before = read_folders([baseline]) if baseline is not None else []
    old = _files(before, None if models is None else {file.name for file in files}, taken)
    metrics = [each for each in columns if each != SECONDS]
    comparisons = compare(
        files,
        metric,
        metrics=metrics,
        users=means,
        reference=held_against[0].label if held_against else "",
    )
    sections = []
    found = zip(comparisons, averaged(folders, comparisons, modes), strict=True)
    shown = [file.label for file in in_matrix]
    for number, (comparison, averages) in enumerate(found, start=1):
        name = f"{number}-" if len(comparisons) > 1 else ""
        own = means == "each"
        section = comparison_section(comparison, columns, name, own, averages, shown)
        over = "" if own else f"n = {counted(len(comparison.users), 'user')}; "
        sections.append(_with_tables(section, partial(_with_caption, over)))
    if before:
        sections.insert(0, changes_section(files, old, metric, metrics))
    if digits:
        sections = [_with_tables(each, partial(_with_digits, digits)) for each in sections]
    most = max(len(comparison.users) for comparison in comparisons)
    return Document(
        title=f"{counted(len(files), 'configuration')}, {counted(most, 'user')}",
        lead=(
            *_data_sets([*folders, *before]),
            *(each for comparison in comparisons for each in _lead(comparison)),
            *(f"{each}." for of in [*folders, *before] if of.setup for each in remarks(of.setup)),
        ),
        sections=(
            *sections,
            *_median_parameters(files),
            _card(folders, comparisons, columns, before),
        ),
        names={file.label: (file.name, _file_name(file, len(folders) > 1)) for file in files},
    )


def leaderboards(folder: Path, names: Set[str], users: Set[int]) -> list[Section]:
    """The first table on each set of evaluated reviews, of some configurations and users."""
    return [
        replace(found, blocks=(*found.blocks, *_left_out(each)))
        for each in compare(_files(read_folders([folder]), names, users))
        for found in [leaderboard(each)]
    ]


def _files(
    folders: Sequence[ResultFolder],
    names: Set[str] | None = None,
    users: Iterable[int] | None = None,
) -> list[ResultFile]:
    """The files of some folders; perhaps only of these names, and what they hold of these users."""
    read = (file for folder in folders for file in folder.files)
    kept = [file for file in read if names is None or file.name in names]
    return kept if users is None else [each for file in kept if (each := _of_users(file, users))]


def _left_out(comparison: Comparison) -> Iterator[str]:
    """Which users and which reviews the means are not over, and why."""
    for (cause, names), users in comparison.left_out.items():
        who = f"{counted(len(users), 'user')} ({listed(list(map(str, users)), 5)})"
        yield f"Left out of the means: {who}: {f'{cause} {listed(names)}'.rstrip()}."
    yield from (f"{each}." for each in _lacking(comparison.files))


def _lacking(files: Sequence[ResultFile]) -> list[str]:
    """Say of external predictions how many are missing, and how many are not used."""
    own = [each for each in files if not each.shown]  # of a model file's the other files tell
    theirs = (each for each in own if not each.configuration or each.configuration.model.given)
    return [
        f"{file.label}: {'; '.join(filter(None, (file.lacks, file.unused)))}"
        for file in theirs
        if file.lacks or file.unused
    ]


def _of_users(file: ResultFile, users: Iterable[int]) -> ResultFile | None:
    """What a file holds of some users; None for nothing."""
    there = np.isin(file.users, list(users))
    if there.all() or not there.any():
        return file if there.any() else None
    # With partitions nobody can tell whose parameters these are.
    taken: dict[str, Any] = {
        name: each[there] if len(each) == len(there) else None
        for name, each in vars(file).items()
        if isinstance(each, np.ndarray)
    }
    metrics = {name: values[there] for name, values in file.metrics.items()}
    return replace(file, **taken, metrics=metrics)


def _meant(option: str, names: str, files: Sequence[ResultFile]) -> list[ResultFile]:
    """The files that names mean, in their order: as tables or files spell them, or as `--models`
    of other commands takes them, groups too. Raises InputError for a name of none.
    """
    found: dict[Path, ResultFile] = {}
    for word in filter(None, (each.strip() for each in names.split(","))):
        spelled = [f for f in files if _plain(word) in map(_plain, (f.label, f.spelled, f.name))]
        if not spelled:
            try:
                known = {each.name for each in resolve(word)}
            except InputError:
                known = set()
            spelled = [file for file in files if file.name in known]
        if not spelled:
            there = listed([file.label for file in files], 20)
            raise InputError(f'{option}: there are no results of "{word}", but of {there}.')
        found |= {file.path: file for file in spelled}
    if not found:
        raise InputError(f"{option} names no configuration.")
    return list(found.values())


def _with_tables(section: Section, change: Callable[[Table], Table]) -> Section:
    """A section with all its tables changed, those of pictures and of sections in it too."""

    def changed(block: Block) -> Block:
        match block:
            case Table():
                return change(block)
            case Picture():
                return replace(block, table=block.table and change(block.table))
            case Section():
                return _with_tables(block, change)
        return block

    return replace(section, blocks=tuple(map(changed, section.blocks)))


def _with_digits(digits: int, table: Table) -> Table:
    """A table whose figures have so many decimals; shares and p-values have their own."""
    columns = (
        each if each.percent or each.in_words else replace(each, digits=digits, decimals=digits)
        for each in table.columns
    )
    return replace(table, columns=tuple(columns))


def _with_caption(over: str, table: Table) -> Table:
    cells = [cell for row in table.rows for cell in row if isinstance(cell, Figure)]
    with_interval = any(cell.ends or cell.half_width >= 0 for cell in cells)
    said = (
        f"{over}{CONFIDENCE * 100:.0f} % confidence intervals (BCa bootstrap over users, "
        f"{RESAMPLES:,} resamples, seed {SEED}){'; best in bold' * any(c.strong for c in cells)}"
    )
    said = said if with_interval else over.removesuffix("; ")
    return replace(table, caption=f"{said}." if said else "")


def _file_name(file: ResultFile, with_folder: bool) -> str:
    folder = _folder_name(home_of(file.path))
    return f"{folder}/{file.path.name}" if with_folder else file.path.name


def named(option: str, name: str, known: Sequence[str] | dict[str, None]) -> str:
    """The one of some names that is meant, case and spaces aside; raises InputError."""
    for each in known:
        if _plain(each) == _plain(name):
            return each
    raise InputError(f'{option} takes {", ".join(known)}, not "{name}".')


def _plain(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")


# What it comes to


def _data_sets(folders: Sequence[ResultFolder]) -> list[str]:
    """That equal numbers of users need not be equal users."""
    known = [folder for folder in folders if folder.setup is not None]
    prints = {folder.setup["data"]["fingerprint"] for folder in known if folder.setup}
    if len(prints) < 2:
        return []
    names = listed([_folder_name(folder.path) for folder in known])
    return [
        f"{names} are results on data sets that differ: a user's number need not mean the same "
        "person in each. Report on each alone unless you know that it does."
    ]


def _lead(comparison: Comparison) -> list[str]:
    """Who is ahead, and what that depends on."""
    if comparison.files[0].mark:
        return []
    by_reviews, by_users = (
        [line.file.label for line in table.lines if line.place] for table in comparison.tables[:2]
    )
    if not by_users:
        return []
    title, first = title_of(comparison), by_reviews[0]
    if len(comparison.files) == 1:
        return [f"{title}: {first} has no other to be compared with."]
    if len(by_users) == 1:
        ahead = f"{first} has no other to be compared with than the baseline."
    elif first == by_users[0]:
        ahead = f"{first} has the lowest mean log loss, by reviews and by users."
    else:
        ahead = f"{first} has the lowest mean log loss by reviews, {by_users[0]} by users."
    below = [
        f"by {table.weighting}"
        for table in comparison.tables[:2]
        if table.lines[0].file.is_baseline
    ]
    if below:
        ahead += f" The baseline has a lower mean log loss {' and '.join(below)}."
    said = [f"{title}: {ahead}"]
    users = len(comparison.users)
    if 2 * users < comparison.most_users:
        fewest = min(comparison.files, key=lambda file: len(file.users))
        why = "of the others they were evaluated on different numbers of reviews"
        if len(fewest.users) < comparison.most_users:
            why = (
                f"{fewest.label} has results of {counted(len(fewest.users), 'user')}; --means each "
                "gives means over each one's own"
            )
        said.append(
            f"This is over {counted(users, 'user')} only, of {comparison.most_users:,}, for all "
            f"models are compared on the same reviews: {why}."
        )
    said.append(_best_by(comparison))
    if moved := comparison.moved:
        said.append(
            "The order depends on whether reviews or users count the same: "
            f"{listed(moved)} change places."
        )
    return said


def _best_by(comparison: Comparison) -> str:
    """Which models the confidence sets hold."""
    words = heading(comparison.metric)
    if comparison.complete < FEWEST_USERS:
        return (
            f"Can't tell yet which can be the best by {words}: {comparison.complete} of "
            f"{counted(len(comparison.users), 'user')} have it for all models, and fewer than "
            f"{FEWEST_USERS} tell nothing with 99 % confidence."
        )
    by_reviews, by_users = (
        [line.file.label for line in table.lines if line.set_p_value >= SURE]
        for table in comparison.tables[:2]
    )
    same = set(by_reviews) == set(by_users)
    if same and len(by_users) == 1:
        return f"By {words} none but {by_users[0]} can be the best, with 99 % confidence."
    names = "" if same else f"by reviews: {listed(by_reviews)}; by users: "
    names += listed(by_users)
    return f"By {words} one of these is the best, with 99 % confidence: {names}."


# Parameters


def _median_parameters(files: Sequence[ResultFile]) -> list[Section]:
    fits = [
        (file.label, file.parameters)
        for file in files
        if file.parameters is not None and file.parameter_count != 0
    ]
    rows = (
        (label, len(fitted), ", ".join(f"{each:.4f}" for each in np.median(fitted, axis=0)))
        for label, fitted in fits
    )
    heads = ("model", Column("fits", note="users, or partitions of users"), "medians")
    table = Table.of("median-parameters", "Median of each fitted parameter", heads, rows)
    return [Section("Median parameters", (table,), folded=True)] if fits else []


# The card


def _card(
    folders: Sequence[ResultFolder],
    comparisons: Sequence[Comparison],
    columns: Sequence[str],
    baseline: Sequence[ResultFolder],
) -> Section:
    """Exactly what was computed over what."""
    from importlib.metadata import version

    lines = [
        f"srs-eval {VERSION}, numpy {version('numpy')}, scipy {version('scipy')}.",
        "A mean of a metric is over users, weighted by each user's evaluated reviews or all alike; "
        "nothing is pooled over users. Users without a figure are left out of it, weight "
        "included.",
        f"Intervals: {100 * CONFIDENCE:.0f} %, BCa bootstrap of the mean over users, {RESAMPLES:,} "
        "resamples with a fixed seed; paired differences and confidence sets use the same "
        "resamples.",
        "Confidence set: Hansen, Lunde & Nason (2011), the test of the largest standardised "
        "difference.",
        "Log loss and AUC depend on what is recalled as well as on the model, and chance keeps log "
        "loss above 0; RMSE(bins) can be gamed (docs/metrics.md).",
        *(
            f"{title_of(each)}: not defined is {undefined}."
            for each in comparisons
            if (undefined := _undefined(each.tables[1].lines, columns))
        ),
    ]
    read = [*((folder, "") for folder in folders), *((folder, "baseline") for folder in baseline)]
    largest = Column("evaluated reviews", note="of the file that has most")
    heads = ("folder", "results of", "configurations", "users", largest, "to know")
    rows = (
        (
            *(_folder_name(of.path), of.origin, len(of.files)),
            max(len(file.users) for file in of.files),
            int(max(file.sizes.sum() for file in of.files)),
            _to_know(of, role),
        )
        for of, role in read
    )
    sources = Table.of("sources", "Sources", heads, rows)
    return Section("Metric card", (*lines, sources, _long(comparisons)))


def _long(comparisons: Sequence[Comparison]) -> Table:
    """A row for each set of reviews, weighting, configuration and metric; for files only."""
    about = ("model", "evaluated on", "weighted by", "metric")
    rows = (
        (
            *(line.file.label, title_of(each), table.weighting, metric),
            *(figure(mean), Figure(mean.low), Figure(mean.high)),
            *(line.place, line.users - line.undefined[metric]),
        )
        for each in comparisons
        for table in each.tables
        for line in table.lines
        for metric, mean in line.means.items()
    )
    heads = (*about, "mean", "low", "high", "place", "users")
    return Table.of("results", "All means", heads, rows, shown=False)


def _undefined(lines: Sequence[Standing], columns: Sequence[str]) -> str:
    most = {
        metric: max(line.undefined[metric] for line in lines)
        for metric in columns
        if metric != SECONDS
    }
    return ", ".join(
        f"{heading(metric)} of {counted(n, 'user')}" for metric, n in most.items() if n
    )


def _to_know(folder: ResultFolder, role: str) -> str:
    known = [role] if role else []
    if folder.setup is not None:
        data = folder.setup["data"]
        known.append(f"data set of {data.get('users', '?')} users, {data['fingerprint'][:12]}")
        known += [
            f"{key} {value}" for key, value in folder.setup["options"].items() if value is not None
        ]
    known += [
        f"{file.label}: {settings}"
        for file in folder.files
        if file.configuration and (settings := settings_in_words(file.configuration))
    ]
    known += _lacking(folder.files)
    known += folder.unread
    known += [
        f"{file.label}: {counted(file.repeated, 'line')} of a user who had one before"
        for file in folder.files
        if file.repeated
    ]
    known += [f"{file.spelled}: {file.left_open}" for file in folder.files if file.left_open]
    return "; ".join(known)


def _folder_name(path: Path) -> str:
    """The end of a path, which tells nobody where somebody works."""
    return path.name or path.absolute().name
