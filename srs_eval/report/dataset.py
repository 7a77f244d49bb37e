"""The report on result files of many users, as `srs-eval report` shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from srs_eval.benchmark.leaderboard import (
    WEIGHTINGS,
    Change,
    Comparison,
    Standing,
    fitted_percentiles,
)
from srs_eval.benchmark.result_files import ResultFolder
from srs_eval.data.errors import counted
from srs_eval.data.paths import VERSION
from srs_eval.report.comparison import (
    METRICS,
    SECONDS,
    SURE,
    comparison_section,
    heading,
    listed,
    title_of,
)
from srs_eval.report.document import Block, Document, Section
from srs_eval.report.table import Cell, Column, Figure, Table, table_of, with_ends
from srs_eval.stats.users import CONFIDENCE, FEWEST_USERS, RESAMPLES, Averages

_ChangeColumn = tuple[str | Column, Callable[[Change], Cell]]


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
        comparison_section(comparison, columns, name, own_users, of_comparison)
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
    by_reviews, by_users = (
        [line for line in table.lines if line.place] for table in comparison.tables
    )
    if not by_users:
        return []
    title = title_of(comparison)
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
            f"{listed([label for label, *_ in moved])} change places."
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
        for table in comparison.tables
    )
    same = set(by_reviews) == set(by_users)
    if same and len(by_users) == 1:
        return f"By {words} none but {by_users[0]} can be the best, with 99 % confidence."
    told = (
        listed(by_users)
        if same
        else f"by reviews: {listed(by_reviews)}; by users: {listed(by_users)}"
    )
    return f"By {words} one of these is the best, with 99 % confidence: {told}."


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
    fits = [
        (file.label, file.parameters, fitted_percentiles(file.parameters))
        for file in files
        if file.parameters is not None
    ]
    table = table_of(
        "median-parameters",
        "Median of each fitted parameter",
        fits,
        (
            ("model", lambda fit: fit[0]),
            (Column("fits", note="users, or partitions of users"), lambda fit: len(fit[1])),
            ("medians", lambda fit: ", ".join(f"{each:.4f}" for each in fit[2][1])),
        ),
    )
    spread = Table(
        "parameters",
        "Fitted parameters",
        tuple(map(Column, ("model", "parameter", "5 %", "median", "95 %"))),
        tuple(
            (label, number, *map(Figure, each))
            for label, _, percentiles in fits
            for number, each in enumerate(percentiles.T.tolist())
        ),
        shown=False,
    )
    return [Section("Median parameters", (table, spread), folded=True)]


def _changes(
    changes: Sequence[Change],
    metric: str,
    folders: Sequence[ResultFolder],
    baseline: Sequence[ResultFolder],
) -> Section:
    def difference(metric: str, place: int) -> _ChangeColumn:
        head = Column(f"{heading(metric)} by {WEIGHTINGS[place]}", signed=True)
        return head, lambda change: with_ends(change.differences[metric][place])

    metrics = list(changes[0].differences) if changes else []
    columns: list[_ChangeColumn] = [
        ("model", lambda change: change.file.label),
        (Column("users", note="in both runs, judged on as many reviews"), lambda c: c.users),
        (Column("verdict by users", note=f"on {heading(metric)}"), lambda c: c.verdict("users")),
        ("by reviews", lambda change: change.verdict("reviews")),
        *(difference(each, place) for each in metrics for place in (1, 0)),
        ("users better", lambda change: change.better),
        ("worse", lambda change: change.worse),
        ("only before", lambda change: change.only_before),
        ("only now", lambda change: change.only_now),
        (
            Column("other reviews", note="users judged on another number of reviews"),
            lambda change: change.other_reviews,
        ),
    ]
    blocks: list[Block] = [
        "New minus old, paired by user, with the ends of the 99 % interval in brackets; a verdict "
        "needs an interval that leaves out 0."
    ]
    if changes:
        blocks.append(table_of("changes", "", changes, columns))
    now = {file.name: file.label for folder in folders for file in folder.files}
    before = {file.name: file.label for folder in baseline for file in folder.files}
    for words, missing in (
        ("Only in the baseline", [before[name] for name in before if name not in now]),
        ("Not in the baseline", [now[name] for name in now if name not in before]),
    ):
        if missing:
            blocks.append(f"{words}: {listed(sorted(missing), 20)}.")
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
    read = [*((folder, "") for folder in folders), *((folder, "baseline") for folder in baseline)]
    sources = table_of(
        "sources",
        "Sources",
        read,
        (
            ("folder", lambda of: _folder_name(of[0].path)),
            ("results of", lambda of: of[0].origin),
            ("configurations", lambda of: len(of[0].files)),
            ("users", lambda of: max(len(file.users) for file in of[0].files)),
            (
                Column("judged reviews", note="of the file that has most"),
                lambda of: int(max(file.sizes.sum() for file in of[0].files)),
            ),
            ("to know", lambda of: _to_know(*of)),
        ),
    )
    compared = table_of(
        "compared",
        "Compared",
        comparisons,
        (
            ("judged on", lambda of: of.rows + (", learning while judged" if of.learns else "")),
            ("configurations", lambda of: len(of.files)),
            ("users", lambda of: len(of.users)),
            ("reviews", lambda of: of.reviews),
            ("undefined figures", lambda of: _undefined(of.tables[1].lines, columns)),
        ),
    )
    return Section("Metric card", (*lines, compared, sources))


def _undefined(lines: Sequence[Standing], columns: Sequence[str]) -> str:
    most = {
        metric: max(line.undefined[metric] for line in lines)
        for metric in columns
        if metric != SECONDS
    }
    told = [f"{heading(metric)}: {counted(n, 'user')}" for metric, n in most.items() if n]
    return ", ".join(told) or "none"


def _to_know(folder: ResultFolder, role: str) -> str:
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
    return "; ".join(known)


def _folder_name(path: Path) -> str:
    """The end of a path, which tells nobody where somebody works."""
    return path.name or path.absolute().name
