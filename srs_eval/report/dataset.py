"""The report on result files of many users, as `srs-eval report` shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from srs_eval.benchmark.leaderboard import (
    WEIGHTINGS,
    Change,
    Comparison,
    Standing,
    changes,
    compare,
)
from srs_eval.benchmark.result_files import ResultFile, ResultFolder, read_folders
from srs_eval.data.errors import InputError, counted
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
from srs_eval.report.document import Block, Cell, Column, Document, Section, table_of, with_ends
from srs_eval.stats.users import (
    COLUMNS,
    CONFIDENCE,
    FEWEST_USERS,
    MODES,
    RESAMPLES,
    Averages,
    averages,
    read_predictions,
)

_ChangeColumn = tuple[str | Column, Callable[[Change], Cell]]


def dataset_report(
    paths: Sequence[Path],
    *,
    metric: str = "LogLoss",
    columns: Sequence[str] = METRICS,
    users: str = "common",
    average: Sequence[str] = ("user",),
    baseline: Path | None = None,
) -> Document:
    """The report on some folders; raises InputError for what they do not hold."""
    folders = read_folders(paths)
    files = [file for folder in folders for file in folder.files]
    known = dict.fromkeys(name for file in files for name in file.metrics)
    if not known:
        raise InputError(
            f'"{paths[0]}": no line holds a metric; name a folder with results of srs-eval or '
            "srs-benchmark."
        )
    metric = _named("--metric", metric, known)
    columns = [_named("--columns", each.strip(), [*known, SECONDS]) for each in columns]
    modes = [_named("--average", each.strip(), MODES) for each in average]
    before = read_folders([baseline]) if baseline is not None else []
    metrics = [each for each in columns if each != SECONDS]
    own_users = users == "each"
    comparisons = compare(files, metric, metrics=metrics, users="each" if own_users else "common")
    sections = [
        comparison_section(
            comparison, columns, f"{number}-" if len(comparisons) > 1 else "", own_users, averages
        )
        for number, (comparison, averages) in enumerate(
            zip(comparisons, _averaged(folders, comparisons, modes), strict=True), start=1
        )
    ]
    if before:
        sections.insert(0, _changes(files, before, metric, metrics))
    most = max(len(comparison.users) for comparison in comparisons)
    return Document(
        title=f"{counted(len(files), 'configuration')}, {counted(most, 'user')}",
        lead=(
            *_data_sets([*folders, *before]),
            *(each for comparison in comparisons for each in _lead(comparison)),
        ),
        sections=(
            *sections,
            *_median_parameters(files),
            _card(folders, comparisons, columns, before),
        ),
    )


def _named(option: str, name: str, known: Sequence[str] | dict[str, None]) -> str:
    """The one of some names that is meant, case and spaces aside."""
    for each in known:
        if _plain(each) == _plain(name):
            return each
    raise InputError(f'{option} takes {", ".join(known)}, not "{name}".')


def _plain(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")


def _averaged(
    folders: Sequence[ResultFolder], comparisons: Sequence[Comparison], modes: Sequence[str]
) -> list[list[Averages]]:
    """By comparison: averages of those of its files that have predictions.

    Over the users of whom all of these hold every judged review, and no others.
    """
    if list(modes) == ["user"]:
        return [[] for _ in comparisons]
    homes = {file.path: folder.path for folder in folders for file in folder.files}
    found: list[list[Averages]] = []
    for comparison in comparisons:
        users = comparison.users
        sizes = dict(zip(users.tolist(), comparison.sizes.tolist(), strict=True))
        files = list(comparison.files)
        made: dict[str, tuple[int, Averages]] = {}  # with the number of users that it is over
        # Users only drop out, so that a second turn is needed only where some did.
        while stale := [f for f in files if f.label not in made or made[f.label][0] > len(users)]:
            for file in stale:
                predictions = read_predictions(homes[file.path], file.spelled)
                if predictions is None:
                    files.remove(file)
                    continue
                here = np.array([sizes[user] for user in users.tolist()])
                users = predictions.complete(users, here)
                if not len(users):
                    raise InputError(
                        f'--average: the predictions of {file.label} in "{homes[file.path]}" are '
                        "not of the reviews and users that results and other predictions are of: "
                        "evaluate again with --raw."
                    )
                averaged = averages(
                    file.label, predictions.of(users), modes, is_floor=file.is_floor
                )
                made[file.label] = len(users), averaged
        found.append([made[file.label][1] for file in files])
    if not any(found):
        raise InputError(
            f"--average {','.join(modes)} needs predictions, and there are none in a folder raw "
            f'beside the results of "{folders[0].path}": evaluate with --raw.'
        )
    for mode in modes:
        if not any(mode in each.means for averaged in found for each in averaged):
            raise InputError(
                f"--average {mode}: no predictions in raw tell the {mode}s of reviews; parquet "
                f"files with a column {COLUMNS[mode]} do."
            )
    return found


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
    if len(comparison.files) == 1:
        return [f"{title}: {firsts[0].file.label} has no other to be compared with."]
    labels = [first.file.label for first in firsts]
    ahead = f"{labels[0]} has the lowest mean log loss by reviews, {labels[1]} by users."
    if labels[0] == labels[1]:
        ahead = f"{labels[0]} has the lowest mean log loss, by reviews and by users."
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


def _median_parameters(files: Sequence[ResultFile]) -> list[Section]:
    fits = [
        (file.label, file.parameters)
        for file in files
        if file.parameters is not None and file.parameter_count != 0
    ]
    table = table_of(
        "median-parameters",
        "Median of each fitted parameter",
        fits,
        (
            ("model", lambda fit: fit[0]),
            (Column("fits", note="users, or partitions of users"), lambda fit: len(fit[1])),
            ("medians", lambda fit: ", ".join(f"{each:.4f}" for each in np.median(fit[1], axis=0))),
        ),
    )
    return [Section("Median parameters", (table,), folded=True)] if fits else []


def _changes(
    files: Sequence[ResultFile],
    baseline: Sequence[ResultFolder],
    metric: str,
    metrics: Sequence[str],
) -> Section:
    old = [file for folder in baseline for file in folder.files]
    found = changes(files, old, metric, metrics)
    shown = dict.fromkeys((metric, *metrics))

    def difference(metric: str, place: int) -> _ChangeColumn:
        head = Column(f"{heading(metric)} by {WEIGHTINGS[place]}", signed=True)
        return head, lambda change: with_ends(change.differences[metric][place])

    columns: list[_ChangeColumn] = [
        ("model", lambda change: change.file.label),
        (Column("users", note="in both runs, judged on as many reviews"), lambda c: c.users),
        (Column("verdict by users", note=f"on {heading(metric)}"), lambda c: c.verdict("users")),
        ("by reviews", lambda change: change.verdict("reviews")),
        *(difference(each, place) for each in shown for place in (1, 0)),
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
        *(
            f"{title_of(each)}: not defined is {_undefined(each.tables[1].lines, columns)}."
            for each in comparisons
        ),
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
    return Section("Metric card", (*lines, sources))


def _undefined(lines: Sequence[Standing], columns: Sequence[str]) -> str:
    most = {
        metric: max(line.undefined[metric] for line in lines)
        for metric in columns
        if metric != SECONDS
    }
    told = [f"{heading(metric)} of {counted(n, 'user')}" for metric, n in most.items() if n]
    return ", ".join(told) or "no figure"


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
