"""Build the report on result files of many users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from srs_eval.benchmark.leaderboard import (
    WEIGHTINGS,
    Comparison,
    LeaderboardRow,
    compare_files,
    compute_averages,
)
from srs_eval.benchmark.result_files import ResultFile, ResultFolder, batch_folder_of, read_folders
from srs_eval.benchmark.seeds import SeedSpread, compare_seeds, select_first_seeds
from srs_eval.benchmark.setup import describe_settings, list_model_remarks
from srs_eval.benchmark.user_parts import describe_other_parts
from srs_eval.data.datasets import select_users
from srs_eval.data.errors import InputError, format_count
from srs_eval.data.paths import VERSION
from srs_eval.models import ExternalModel
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.comparison import (
    DEFAULT_METRICS,
    SECONDS_COLUMN,
    SIGNIFICANCE_LEVEL,
    build_changes_section,
    build_comparison_section,
    build_leaderboard_section,
    build_seed_blocks,
    format_title,
    metric_heading,
)
from srs_eval.report.document import Block, Document, Picture, Section
from srs_eval.report.formats import join_names
from srs_eval.stats.tables import Column, Figure, Table, make_figure
from srs_eval.stats.users import AVERAGING_MODES, CONFIDENCE, MIN_USERS, RESAMPLES, SEED


def build_results_report(
    paths: Sequence[Path],
    *,
    metric: str = "LogLoss",
    columns: Sequence[str] = DEFAULT_METRICS,
    means: Literal["common", "each"] = "common",
    average: Sequence[str] = ("user",),
    baseline: Path | None = None,
    models: str | None = None,
    users: str | None = None,
    reference: str | None = None,
    matrix: str | None = None,
    digits: int = 0,
) -> Document:
    """Return the report on the results in some folders.

    `models`, `reference` and `matrix` name configurations as `find_files` takes them, `users` are
    ids and ranges of ids; `digits` are the decimals of figures, 0 for as many as intervals allow.
    Raises InputError for anything named that the folders do not contain.
    """
    folders = read_folders(paths)
    all_files = _collect_files(folders)
    files = all_files
    reference_files = find_files("--reference", reference, files) if reference else []
    if len(reference_files) > 1:
        labels = join_names([file.label for file in reference_files])
        raise InputError(f'--reference takes one configuration; "{reference}" means {labels}.')
    if models is not None:
        selected_files = [*find_files("--models", models, files), *reference_files]
        files = [file for file in files if file in selected_files]
    else:
        first_seeds = select_first_seeds(files)
        files = [file for file in files if file in first_seeds or file in reference_files]
    matrix_files = find_files("--matrix", matrix, files) if matrix else []
    selected_users = None
    if users is not None:
        available_users = sorted({user for file in files for user in file.users.tolist()})
        selected_users = select_users(available_users, users)
        files = restrict_files(files, selected_users)
        all_files = restrict_files(all_files, selected_users)
    available_metrics = dict.fromkeys(name for file in files for name in file.metrics)
    if not available_metrics:
        raise InputError(
            f'"{paths[0]}": no line contains a metric; name a folder with results of srs-eval or '
            "srs-benchmark."
        )
    metric = find_name("--metric", metric, available_metrics)
    available_columns = [*available_metrics, SECONDS_COLUMN]
    columns = [find_name("--columns", column.strip(), available_columns) for column in columns]
    modes = [find_name("--average", mode.strip(), AVERAGING_MODES) for mode in average]
    baseline_folders = read_folders([baseline]) if baseline is not None else []
    baseline_names = None if models is None else {file.name for file in files}
    baseline_files = _collect_files(baseline_folders, baseline_names, selected_users)
    metrics = [column for column in columns if column != SECONDS_COLUMN]
    comparisons = compare_files(
        files,
        metric,
        metrics=metrics,
        users=means,
        reference=reference_files[0].label if reference_files else "",
    )
    sections = []
    averages_of_comparisons = compute_averages(folders, comparisons, modes)
    matrix_labels = [file.label for file in matrix_files]
    own_users = means == "each"
    for number, (comparison, averages) in enumerate(
        zip(comparisons, averages_of_comparisons, strict=True), start=1
    ):
        prefix = f"{number}-" if len(comparisons) > 1 else ""
        section = build_comparison_section(
            comparison,
            columns,
            prefix,
            own_users=own_users,
            averages=averages,
            matrix_labels=matrix_labels,
            seed_spreads=_select_spreads(compare_seeds(comparison, all_files)),
        )
        caption = f"{comparison.review_count:,} {comparison.reviews_description}; "
        if not own_users:
            caption += f"n = {format_count(len(comparison.users), 'user')}; "
        sections.append(_transform_tables(section, partial(_add_caption, caption)))
    if baseline_folders:
        sections.insert(0, build_changes_section(files, baseline_files, metric, metrics))
    if digits:
        set_digits = partial(_set_digits, digits)
        sections = [_transform_tables(section, set_digits) for section in sections]
    sections += _build_parameters_section(files)
    sections.append(_build_metric_card(folders, comparisons, columns, baseline_folders))
    max_users = max(len(comparison.users) for comparison in comparisons)
    all_folders = [*folders, *baseline_folders]
    lead = _warn_different_data_sets(all_folders)
    for comparison in comparisons:
        lead += _build_lead(comparison)
    for folder in all_folders:
        if folder.setup:
            lead += [f"{remark}." for remark in list_model_remarks(folder.setup)]
    with_folder = len(folders) > 1
    return Document(
        title=f"{format_count(len(files), 'configuration')}, {format_count(max_users, 'user')}",
        lead=tuple(lead),
        sections=tuple(sections),
        names={file.label: (file.name, _format_file_name(file, with_folder)) for file in files},
    )


def build_leaderboards(folder: Path, names: Set[str], users: Set[int]) -> list[Section]:
    """Return a section with the first table for each set of evaluated reviews.

    Only the named configurations and users are in the tables.
    """
    sections = []
    files = _collect_files(read_folders([folder]), names, users)
    for comparison in compare_files(select_first_seeds(files)):
        section = build_leaderboard_section(comparison)
        spreads = _select_spreads(compare_seeds(comparison, files), (WEIGHTINGS[0],))
        blocks = (
            *section.blocks,
            *_describe_omitted_users(comparison),
            *build_seed_blocks(spreads, comparison.metric),
        )
        sections.append(replace(section, blocks=blocks))
    return sections


def _select_spreads(
    spreads: Iterable[SeedSpread], weightings: Sequence[str] = WEIGHTINGS[:2]
) -> list[SeedSpread]:
    return [spread for spread in spreads if spread.weighting in weightings]


def _collect_files(
    folders: Sequence[ResultFolder],
    names: Set[str] | None = None,
    users: Iterable[int] | None = None,
) -> list[ResultFile]:
    """Return the files of some folders, optionally with these names and these users only."""
    files = [
        file for folder in folders for file in folder.files if names is None or file.name in names
    ]
    return files if users is None else restrict_files(files, users)


def _describe_omitted_users(comparison: Comparison) -> Iterator[str]:
    """Yield sentences on the users and reviews that the means leave out, and why."""
    for (cause, names), users in comparison.omitted_users.items():
        ids = join_names([str(user) for user in users], 5)
        who = f"{format_count(len(users), 'user')} ({ids})"
        reason = f"{cause} {join_names(names)}".rstrip()
        yield f"The means leave out {who}: {reason}."
    for sentence in _describe_missing_predictions(comparison.files):
        yield f"{sentence}."


def _describe_missing_predictions(files: Sequence[ResultFile]) -> list[str]:
    """Return for each model how many external predictions are missing or not used, if any."""
    descriptions = []
    for file in files:
        if file.recorded_description:
            continue  # a model that the batch recorded, not external predictions
        if file.configuration and not isinstance(file.configuration.model, ExternalModel):
            continue
        remarks = [
            remark for remark in (file.missing_predictions, file.unused_predictions) if remark
        ]
        if remarks:
            descriptions.append(f"{file.label}: {'; '.join(remarks)}")
    return descriptions


def restrict_files(files: Iterable[ResultFile], users: Iterable[int]) -> list[ResultFile]:
    """Return the parts of files on some users, without the empty ones."""
    restricted = (_restrict_to_users(file, users) for file in files)
    return [file for file in restricted if file is not None]


def _restrict_to_users(file: ResultFile, users: Iterable[int]) -> ResultFile | None:
    """Return the part of a file on some users; None if it is empty."""
    is_selected = np.isin(file.users, list(users))
    if not is_selected.any():
        return None
    if is_selected.all():
        return file
    arrays: dict[str, Any] = {}
    for name, values in vars(file).items():
        if not isinstance(values, np.ndarray):
            continue
        # Arrays of another length are parameters of partitions, whose users are unknown.
        arrays[name] = values[is_selected] if len(values) == len(is_selected) else None
    metrics = {name: values[is_selected] for name, values in file.metrics.items()}
    return replace(file, **arrays, metrics=metrics)


def find_files(option: str, names: str, files: Sequence[ResultFile]) -> list[ResultFile]:
    """Return the files that names refer to, in the order of the names.

    Names are spelled as in tables or files, or as `--models` of other commands takes them, groups
    included. Raises InputError for a name without a file.
    """
    files_by_path: dict[Path, ResultFile] = {}
    for listed_name in names.split(","):
        name = listed_name.strip()
        if not name:
            continue
        normalized = _normalize_name(name)
        matching = [
            file
            for file in files
            if normalized in map(_normalize_name, (file.label, file.spelled_name, file.name))
        ]
        if not matching:
            try:
                canonical = {configuration.name for configuration in resolve_configurations(name)}
            except InputError:
                canonical = set()
            matching = [file for file in files if file.name in canonical]
        if not matching:
            available = join_names([file.label for file in files], 20)
            raise InputError(f'{option}: there are no results for "{name}", only for {available}.')
        files_by_path |= {file.path: file for file in matching}
    if not files_by_path:
        raise InputError(f"{option} is empty: name a configuration.")
    return list(files_by_path.values())


def _transform_tables(section: Section, transform: Callable[[Table], Table]) -> Section:
    """Return a section with all its tables transformed, also in pictures and subsections."""

    def transform_block(block: Block) -> Block:
        match block:
            case Table():
                return transform(block)
            case Picture():
                if block.table is None:
                    return block
                return replace(block, table=transform(block.table))
            case Section():
                return _transform_tables(block, transform)
        return block

    return replace(section, blocks=tuple(map(transform_block, section.blocks)))


def _set_digits(digits: int, table: Table) -> Table:
    """Return a table whose figures have `digits` decimals; shares and p-values keep their own."""
    columns = []
    for column in table.columns:
        if not column.percent and not column.format_figure:
            column = replace(column, digits=digits, decimals=digits)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _add_caption(prefix: str, table: Table) -> Table:
    cells = [cell for row in table.rows for cell in row if isinstance(cell, Figure)]
    if any(cell.ends or not math.isnan(cell.known_half_width) for cell in cells):
        caption = (
            f"{prefix}{CONFIDENCE * 100:.0f} % confidence intervals (BCa bootstrap over users, "
            f"{RESAMPLES:,} resamples, seed {SEED})"
        )
        if any(cell.is_best for cell in cells):
            caption += "; best in bold"
    else:
        caption = prefix.removesuffix("; ")
    return replace(table, caption=f"{caption}." if caption else "")


def _format_file_name(file: ResultFile, with_folder: bool) -> str:
    if not with_folder:
        return file.path.name
    return f"{_folder_name(batch_folder_of(file.path))}/{file.path.name}"


def find_name(option: str, name: str, choices: Sequence[str] | dict[str, None]) -> str:
    """Return the choice that a name refers to, ignoring case, spaces and underscores.

    Raises InputError if there is none.
    """
    for choice in choices:
        if _normalize_name(choice) == _normalize_name(name):
            return choice
    raise InputError(f'{option} takes {", ".join(choices)}, not "{name}".')


def _normalize_name(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")


# Summary


def _warn_different_data_sets(folders: Sequence[ResultFolder]) -> list[str]:
    """Return a warning if data sets differ, as a user number may then mean different people."""
    with_setup = [folder for folder in folders if folder.setup is not None]
    fingerprints = {folder.setup["data"]["fingerprint"] for folder in with_setup if folder.setup}
    if len(fingerprints) < 2:
        return []
    names = join_names([_folder_name(folder.path) for folder in with_setup])
    return [
        f"{names} are results on different data sets: the same user number need not mean the same "
        "person in each. Make a separate report on each unless you know that it does."
    ]


def _build_lead(comparison: Comparison) -> list[str]:
    """Return which model is ahead, and what that depends on; [] if no model has a rank."""
    if comparison.files[0].invalid_reason:
        return []
    by_reviews, by_users = (
        [line.file.label for line in table.rows if line.rank]
        for table in comparison.leaderboards[:2]
    )
    if not by_users:
        return []
    title = format_title(comparison)
    first = by_reviews[0]
    if len(comparison.files) == 1:
        return [f"{title}: there is no other model to compare {first} with."]
    if len(by_users) == 1:
        ahead = f"{first} can be compared only with the baseline."
    elif first == by_users[0]:
        ahead = f"{first} has the lowest mean log loss, by reviews and by users."
    else:
        ahead = f"{first} has the lowest mean log loss by reviews, and {by_users[0]} by users."
    baseline_leads = [
        f"by {table.weighting}"
        for table in comparison.leaderboards[:2]
        if table.rows[0].file.is_baseline
    ]
    if baseline_leads:
        ahead += f" The baseline has a lower mean log loss {' and '.join(baseline_leads)}."
    sentences = [f"{title}: {ahead}"]
    users = len(comparison.users)
    if 2 * users < comparison.max_users:
        fewest = min(comparison.files, key=lambda file: len(file.users))
        reason = "for the other users, the models were evaluated on different numbers of reviews"
        if len(fewest.users) < comparison.max_users:
            reason = (
                f"{fewest.label} has results of {format_count(len(fewest.users), 'user')}; "
                "--means each averages over each model's own users"
            )
        verb = "is" if users == 1 else "are"
        sentences.append(
            f"Only {users:,} of {format_count(comparison.max_users, 'user')} {verb} included, "
            f"because all models are compared on the same reviews: {reason}."
        )
    sentences.append(_describe_best(comparison))
    if comparison.reordered_labels:
        sentences.append(
            "The order depends on whether reviews or users are weighted equally: "
            f"{join_names(comparison.reordered_labels)} change places."
        )
    return sentences


def _describe_best(comparison: Comparison) -> str:
    """Return a sentence on the models that the confidence sets contain."""
    words = metric_heading(comparison.metric)
    if comparison.complete_users < MIN_USERS:
        return (
            f"Can't tell yet which model is the best by {words}: all models have this metric for "
            f"{comparison.complete_users} of {format_count(len(comparison.users), 'user')}, and "
            f"99 % confidence needs {MIN_USERS}."
        )
    by_reviews, by_users = (
        [
            line.file.label
            for line in table.rows
            if line.confidence_set_p_value >= SIGNIFICANCE_LEVEL
        ]
        for table in comparison.leaderboards[:2]
    )
    is_same_set = set(by_reviews) == set(by_users)
    if is_same_set and len(by_users) == 1:
        return f"By {words}, only {by_users[0]} can be the best, with 99 % confidence."
    names = join_names(by_users)
    if not is_same_set:
        names = f"by reviews: {join_names(by_reviews)}; by users: {names}"
    return f"By {words}, one of these is the best, with 99 % confidence: {names}."


# Parameters


def _build_parameters_section(files: Sequence[ResultFile]) -> list[Section]:
    fits = [
        (file.label, file.parameters)
        for file in files
        if file.parameters is not None and file.parameter_count != 0
    ]
    if not fits:
        return []
    rows = []
    for label, parameters in fits:
        medians = ", ".join(f"{median:.4f}" for median in np.median(parameters, axis=0))
        rows.append((label, len(parameters), medians))
    heads = ("model", Column("fits", note="users, or partitions of users"), "medians")
    table = Table.from_rows("median-parameters", "Median of each fitted parameter", heads, rows)
    return [Section("Median parameters", (table,), folded=True)]


# Metric card


def _build_metric_card(
    folders: Sequence[ResultFolder],
    comparisons: Sequence[Comparison],
    columns: Sequence[str],
    baseline: Sequence[ResultFolder],
) -> Section:
    """Return the metric card: how figures were computed, and from which results."""
    from importlib.metadata import version

    lines = [
        f"srs-eval {VERSION}, numpy {version('numpy')}, scipy {version('scipy')}. How reviews are "
        "chosen and evaluated: docs/protocol.md.",
        "The mean of a metric is over users, who are weighted equally or by their number of "
        "held-out reviews; nothing is pooled over users. Users without a figure are left out, and "
        "so is their weight.",
        f"Intervals: {100 * CONFIDENCE:.0f} %, BCa bootstrap of the mean over users, {RESAMPLES:,} "
        "resamples with a fixed seed; paired differences and confidence sets use the same "
        "resamples.",
        "Confidence set: Hansen, Lunde & Nason (2011), the test of the largest standardised "
        "difference.",
        "Log loss and AUC depend on what is recalled as well as on the model, and chance keeps log "
        "loss above 0; RMSE(bins) can be gamed (docs/metrics.md).",
    ]
    for comparison in comparisons:
        undefined = _describe_undefined(comparison.leaderboards[1].rows, columns)
        if undefined:
            lines.append(f"{format_title(comparison)}: these are undefined: {undefined}.")
    roles = [(folder, "") for folder in folders]
    roles += [(folder, "baseline") for folder in baseline]
    reviews = Column("evaluated reviews", note="in the file that has the most")
    heads = ("folder", "results of", "configurations", "users", reviews, "to know")
    rows = (
        (
            _folder_name(folder.path),
            folder.origin,
            len(folder.files),
            max(len(file.users) for file in folder.files),
            int(max(file.sizes.sum() for file in folder.files)),
            _collect_remarks(folder, role),
        )
        for folder, role in roles
    )
    sources = Table.from_rows("sources", "Sources", heads, rows)
    return Section("Metric card", (*lines, sources, _build_all_means_table(comparisons)))


def _build_all_means_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a row for each set of reviews, weighting, configuration and metric; for files only."""
    rows = (
        (
            line.file.label,
            format_title(comparison),
            table.weighting,
            metric,
            make_figure(mean),
            Figure(mean.low),
            Figure(mean.high),
            line.rank,
            line.users - line.undefined_users[metric],
        )
        for comparison in comparisons
        for table in comparison.leaderboards
        for line in table.rows
        for metric, mean in line.means.items()
    )
    heads = (
        "model",
        "evaluated on",
        "weighted by",
        "metric",
        "mean",
        "low",
        "high",
        "place",
        "users",
    )
    return Table.from_rows("results", "All means", heads, rows, is_shown=False)


def _describe_undefined(lines: Sequence[LeaderboardRow], columns: Sequence[str]) -> str:
    descriptions = []
    for metric in dict.fromkeys(columns):
        if metric == SECONDS_COLUMN:
            continue
        users = max(line.undefined_users[metric] for line in lines)
        if users:
            descriptions.append(f"{metric_heading(metric)} of {format_count(users, 'user')}")
    return ", ".join(descriptions)


def _collect_remarks(folder: ResultFolder, role: str) -> str:
    remarks = [role] if role else []
    if folder.setup is not None:
        data = folder.setup["data"]
        remarks.append(f"data set of {data.get('users', '?')} users, {data['fingerprint'][:12]}")
        remarks += [
            f"{key} {value}" for key, value in folder.setup["options"].items() if value is not None
        ]
    for file in folder.files:
        if file.user_parts:
            others = describe_other_parts(file.user_parts)
            remarks.append(f"{file.label}: trained on the users of {others}")
        settings = describe_settings(file.configuration) if file.configuration else ""
        if settings:
            remarks.append(f"{file.label}: {settings}")
    remarks += _describe_missing_predictions(folder.files)
    remarks += folder.unread_files
    remarks += [
        f"{file.label}: {format_count(file.repeated_lines, 'line')} not used, because a later line "
        "is for the same user"
        for file in folder.files
        if file.repeated_lines
    ]
    remarks += [
        f"{file.spelled_name}: {file.name_ambiguity}"
        for file in folder.files
        if file.name_ambiguity
    ]
    return "; ".join(remarks)


def _folder_name(path: Path) -> str:
    """Return the last part of a path; the rest would reveal where the user works."""
    return path.name or path.absolute().name
