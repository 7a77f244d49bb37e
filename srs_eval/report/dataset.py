"""The reports on many users: on result files, and on an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np

from srs_eval.benchmark import labels
from srs_eval.benchmark.audit import Audit, Ranking, Tuned
from srs_eval.benchmark.leaderboard import WEIGHTINGS, Change, Comparison, Standing, compare
from srs_eval.benchmark.result_files import ResultFile, ResultFolder, read_folders
from srs_eval.benchmark.setup import remarks
from srs_eval.data.errors import InputError, counted
from srs_eval.data.paths import VERSION
from srs_eval.report.comparison import (
    METRICS,
    SECONDS,
    SURE,
    averaged,
    changes_section,
    comparison_section,
    heading,
    leaderboard,
    listed,
    title_of,
)
from srs_eval.report.document import (
    Cell,
    Column,
    Document,
    Figure,
    Section,
    Table,
    figure,
    table_of,
    with_ends,
)
from srs_eval.stats.users import CONFIDENCE, FEWEST_USERS, MODES, RESAMPLES
from srs_eval.training.hyperparameters import setup_in_words

_NOBODY = "no user to choose by"


def dataset_report(
    paths: Sequence[Path],
    *,
    metric: str = "LogLoss",
    columns: Sequence[str] = METRICS,
    users: Literal["common", "each"] = "common",
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
    comparisons = compare(files, metric, metrics=metrics, users=users)
    sections = []
    found = zip(comparisons, averaged(folders, comparisons, modes), strict=True)
    for number, (comparison, means) in enumerate(found, start=1):
        name = f"{number}-" if len(comparisons) > 1 else ""
        sections.append(comparison_section(comparison, columns, name, users == "each", means))
    if before:
        sections.insert(0, changes_section(files, before, metric, metrics))
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


def leaderboards(folder: Path, names: Set[str], users: Set[int]) -> list[Section]:
    """The first table on each set of evaluated reviews, of some configurations and users."""
    files = []
    for file in (file for found in read_folders([folder]) for file in found.files):
        there = np.isin(file.users, list(users))
        if file.name in names and there.any():
            metrics = {name: values[there] for name, values in file.metrics.items()}
            users_there, sizes = file.users[there], file.sizes[there]
            files.append(replace(file, users=users_there, sizes=sizes, metrics=metrics))
    return [
        replace(found, blocks=(*found.blocks, *_left_out(each)))
        for each in compare(files)
        for found in [leaderboard(each)]
    ]


def _left_out(comparison: Comparison) -> Iterator[str]:
    """Which users and which reviews the means are not over, and why."""
    for (cause, names), users in comparison.left_out.items():
        who = f"{counted(len(users), 'user')} ({listed(list(map(str, users)), 5)})"
        yield f"Left out of the means: {who}: {cause} {listed(names)}."
    yield from (f"{each}." for each in _lacking(comparison.files))


def _lacking(files: Sequence[ResultFile]) -> list[str]:
    theirs = (each for each in files if not each.configuration or each.configuration.model.given)
    return [f"{file.label}: {file.lacks}" for file in theirs if file.lacks]


def _named(option: str, name: str, known: Sequence[str] | dict[str, None]) -> str:
    """The one of some names that is meant, case and spaces aside."""
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
        label = comparison.files[0].label
        return [f"{label}: its figures mean nothing and are compared with none."]
    by_reviews, by_users = (
        [line.file.label for line in table.lines if line.place] for table in comparison.tables
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
        f"by {table.weighting}" for table in comparison.tables if table.lines[0].file.is_baseline
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
                f"{fewest.label} has results of {counted(len(fewest.users), 'user')}; --users each "
                "gives means over each one's own"
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
                Column("evaluated reviews", note="of the file that has most"),
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
    counts = [f"{heading(metric)} of {counted(n, 'user')}" for metric, n in most.items() if n]
    return ", ".join(counts) or "no figure"


def _to_know(folder: ResultFolder, role: str) -> str:
    known = [role] if role else []
    if folder.setup is not None:
        data = folder.setup["data"]
        known.append(f"data set of {data.get('users', '?')} users, {data['fingerprint'][:12]}")
        known += [
            f"{key} {value}" for key, value in folder.setup["options"].items() if value is not None
        ]
        known += remarks(folder.setup)
    known += [
        f"{file.label}: {labels.in_words(settings)}"
        for file in folder.files
        if file.configuration and (settings := labels.settings_of(file.configuration))
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


# An audit


def audit_document(audit: Audit) -> Document:
    """What tuning has changed, and whether the ranking survives it."""
    failures = tuple(f"{counted(n, 'fit')}: {reason}" for reason, n in audit.failed.items())
    return Document(
        title=f"Audit of {counted(len(audit.tuned), 'configuration')} on "
        f"{counted(audit.users, 'user')}",
        lead=tuple(_audit_lead(audit)),
        sections=(
            Section("As published and tuned", (_tuned(audit), _how_to_read(audit))),
            *(_ranking(ranking, number) for number, ranking in enumerate(audit.rankings, start=1)),
            Section("Set-ups", (_setups(audit),)),
            *([Section("Failed", failures)] if failures else []),
        ),
    )


def _audit_lead(audit: Audit) -> list[str]:
    said = []
    for ranking in audit.rankings:
        over = f"{ranking.rows}, {counted(ranking.users, 'user')}"
        if ranking.survives:
            unsure = sum(pair.verdict == "no sure lead any more" for pair in ranking.pairs)
            though = f", but {counted(unsure, 'lead')} in it no longer sure" if unsure else ""
            said.append(f"Evaluated on {over}: the ranking survives tuning{though}.")
        else:
            moved = [pair for pair in ranking.pairs if pair.tuned.estimate > 0]
            surely = [pair for pair in moved if pair.verdict == "turned round"]
            said.append(
                f"Evaluated on {over}: the ranking does not survive tuning. It was "
                f"{', '.join(ranking.published)}; it is {', '.join(ranking.tuned)}. "
                f"{counted(len(moved), 'pair')} changed places, {len(surely)} of them surely."
            )
        if ranking.users < FEWEST_USERS:
            said.append(
                f"{counted(ranking.users, 'user')} are too few to be sure of any difference: "
                f"{FEWEST_USERS} are needed."
            )
    tuned = {each.configuration.words: each for each in audit.tuned}
    better = [name for name, each in tuned.items() if each.change and _verdict(each) == "better"]
    if better:
        listing = ", ".join(better)
        said.append(f"Surely better with another set-up than the published one: {listing}.")
    said += [
        f"{', '.join(each.left_out)} of {name} was not searched: it is 0 as published, and numbers "
        "are searched on a logarithmic scale."
        for name, each in tuned.items()
        if each.left_out
    ]
    edges = [name for name, each in tuned.items() if any(found.on_edge for found in each.found)]
    if edges:
        listing = ", ".join(edges)
        said.append(f"Best at an end of what was tried, so that more --trials may tell: {listing}.")
    return said


def _tuned(audit: Audit) -> Table:
    def of_change(read: Callable[[Change], Cell]) -> Callable[[Tuned], Cell]:
        return lambda each: None if each.change is None else read(each.change)

    def difference(each: Tuned) -> Figure | None:
        chosen = each.found and all(half.users for half in each.found)
        of_losses = each.change.differences["LogLoss"] if each.change and chosen else None
        return with_ends(of_losses[WEIGHTINGS.index("users")]) if of_losses else None

    spread = Column("spread, published", digits=5, note="standard deviation over seeds")
    return table_of(
        "audit",
        "Log loss on the evaluated reviews, every user counting the same",
        audit.tuned,
        (
            ("configuration", lambda each: each.configuration.words),
            ("tuning", _verdict),
            ("published", of_change(lambda c: Figure(c.before.log_loss(c.file.users).mean()))),
            ("tuned", of_change(lambda c: Figure(c.file.metrics["LogLoss"].mean()))),
            (Column("tuned − published", by_half_width=False, signed=True), difference),
            ("users", of_change(lambda change: change.users)),
            (spread, lambda each: figure(each.spread and each.spread[0])),
            (
                replace(spread, title="spread, tuned", note="the same"),
                lambda each: figure(each.spread and each.spread[1]),
            ),
        ),
    )


def _verdict(each: Tuned) -> str:
    if each.change is None:
        return "no results"
    if not each.found:
        return "nothing to tune"
    without = [half for half, found in enumerate(each.found, start=1) if not found.users]
    if without:
        return _NOBODY if len(without) == len(each.found) else f"{_NOBODY} in half {without[0]}"
    if not any(found.hyperparameters for found in each.found):
        return "found nothing better"
    return each.change.verdict("users")


def _how_to_read(audit: Audit) -> str:
    return (
        f"Each configuration had {counted(audit.trials, 'trial')} for each half of the users; a "
        "user is evaluated with the set-up that the other half's training parts chose. Differences "
        f"are paired by user, with the ends of their {CONFIDENCE * 100:.0f} % interval in "
        "brackets; verdicts go by these. Spread: the "
        f"standard deviation of the mean over {counted(audit.repeats, 'seed')}, where a training "
        "has seeds. The figures compared are of the first seed, the published one."
    )


def _ranking(ranking: Ranking, number: int) -> Section:
    moved = [pair for pair in ranking.pairs if pair.verdict != "kept"]
    table = table_of(
        f"pairs-{number}",
        f"{counted(len(ranking.pairs), 'pair')}, {len(moved)} of them changed by tuning",
        sorted(ranking.pairs, key=lambda pair: pair.verdict == "kept"),
        (
            ("ahead as published", lambda pair: pair.first),
            ("behind", lambda pair: pair.second),
            ("lead", lambda pair: pair.verdict),
            (
                Column("as published", by_half_width=False, signed=True),
                lambda pair: with_ends(pair.published),
            ),
            (Column("tuned", by_half_width=False, signed=True), lambda p: with_ends(p.tuned)),
        ),
    )
    heads = "place", "as published", "tuned"
    rows = zip(count(1), ranking.published, ranking.tuned, strict=False)
    places = Table.of(f"places-{number}", "Places by mean log loss over users", heads, rows)
    return Section(
        f"Evaluated on {ranking.rows}, {counted(ranking.users, 'user')}", (places, table)
    )


def _setups(audit: Audit) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in audit.tuned:
        for half, found in enumerate(each.found, start=1):
            rows.append(
                (
                    each.configuration.words,
                    half,
                    found.users,
                    found.trials,
                    setup_in_words(found.hyperparameters) if found.users else _NOBODY,
                    figure(found.published_log_loss),
                    figure(found.log_loss),
                    ", ".join(found.on_edge) or "none",
                )
            )
        if any(found.users for found in each.found):
            best = setup_in_words(each.best)
            rows.append((each.configuration.words, "best", None, None, best, *[None] * 3))
    tuned = Column("tuned", note="held-out training rows")
    heads = (
        *("configuration", "half", "users", "trials"),
        Column("set-up", note="what is not as published"),
        *(replace(tuned, title="published"), tuned, "on an edge"),
    )
    return Table.of("set-ups", "What each half of the users found", heads, rows)
