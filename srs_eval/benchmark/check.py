"""Check and merge result folders of `srs-eval batch` or in srs-benchmark's layout."""

from __future__ import annotations

import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.benchmark.file_names import (
    FileNaming,
    find_configuration_name,
    interpret_file_name,
)
from srs_eval.benchmark.result_files import (
    find_result_files,
    parse_line,
    read_lines,
    spelled_name,
)
from srs_eval.benchmark.setup import (
    environment,
    list_environments,
    merge_setup_from,
    read_setup,
)
from srs_eval.benchmark.store import (
    ResultStore,
    count_damaged_lines,
    format_result_file,
    has_journal,
    refuse_audit_folder,
)
from srs_eval.data.errors import InputError, format_count
from srs_eval.data.protocol import Protocol
from srs_eval.models import all_models

_ResultLine = Mapping[str, Any]  # one line of a result file
_LinesByUser = dict[int, _ResultLine]
_METRICS_FROM_0_TO_1 = ("RMSE", "RMSE(bins)", "ICI", "AUC")
_MIN_LOSS_FACTOR = 2.4554  # -log(1 - e) / e^2 is least at e = 0.715
_MAX_LOSS_FACTOR = 36.0437  # -log(1 - e) of the worst error after clipping
_MAX_LOSS_OFFSET = 0.0071  # by which -log(1 - e) may exceed _MAX_LOSS_FACTOR e^2
_LOSS_TOLERANCE = 1e-4  # for rounding
_RMSE_TOLERANCE = 1e-5


@dataclass(frozen=True)
class _ResultProblem:
    """A problem, or a doubt, about a result file."""

    path: Path
    description: str  # in words, without a full stop
    remedy: str = ""  # the batch command that mends it; "" if there is none
    is_error: bool = True  # False for a doubt


def check_folder(folder: Path) -> list[_ResultProblem]:
    """Return the problems of a folder: damaged, repeated, unsorted, impossible and stale lines.

    Further problems are files that evaluate other numbers of reviews than files of the same kind,
    and names that do not say which configuration is meant. In a folder of `srs-eval batch`, a
    result file is compared with its journal; a file without a journal counts as another program's.
    Raises InputError if the folder holds no results at all.
    """
    paths = find_result_files(folder)
    setup = read_setup(folder)
    if not paths and setup is None:
        raise InputError(f'"{folder}" holds no result files.')
    problems = [] if setup is None else _find_stale_results(folder, setup)
    for path, count in count_damaged_lines(folder).items():
        description = f"{format_count(count, 'line')} damaged"
        problems.append(_ResultProblem(path, description, _EVALUATE_LOST_REMEDY))
    results: dict[Path, _LinesByUser] = {}
    for path in paths:
        configuration = _find_batch_configuration(folder, setup, path)
        journal = format_result_file(folder, configuration) if configuration else ""
        file_problems, results[path] = _check_file(path, configuration, journal)
        problems += file_problems
        meaning = interpret_file_name(spelled_name(path), setup, results[path].values())
        if meaning.ambiguity:
            problems.append(_ResultProblem(path, meaning.ambiguity, is_error=False))
    return problems + _check_sizes(folder, results, setup)


def _find_batch_configuration(folder: Path, setup: Mapping[str, Any] | None, path: Path) -> str:
    """Return the configuration from whose journal a file is made; "" if there is none."""
    if setup is None or path.suffix == ".gz":
        return ""
    configuration = find_configuration_name(spelled_name(path), setup)
    return configuration if has_journal(folder, configuration) else ""


class DamagedJournals(InputError):
    """Journals to be merged are damaged; nothing has been written."""


def merge_folders(
    folders: Sequence[Path], out: Path, *, skip_damaged: bool = False
) -> tuple[int, str]:
    """Merge folders with the same set-up; return the number of units added, and damage in words.

    `out` may be one of the folders: its contents stay, and the units of the others are added.
    Raises InputError if set-ups differ, and DamagedJournals if journals are damaged, unless
    `skip_damaged`; both before anything is written.
    """
    setup: dict[str, Any] | None = None
    for folder in folders:
        setup = merge_setup_from(folder, setup)
    assert setup is not None
    refuse_audit_folder(out)
    damage = _describe_damaged_journals(folders)
    if damage and not skip_damaged:
        raise DamagedJournals(
            f"Nothing was merged, because journals are damaged: {damage}. Run the batch of each "
            "damaged folder again, or leave the damaged lines out with --take-what-is-whole."
        )
    if read_setup(out) is not None:
        setup = merge_setup_from(out, setup)
    with ResultStore(out, setup, fresh=None) as store:
        try:
            return sum(store.merge_from(folder) for folder in folders), damage
        finally:
            store.publish(everything=True)


def _describe_damaged_journals(folders: Sequence[Path]) -> str:
    """Describe how many journal lines are damaged in which folder; "" for none."""
    descriptions = []
    for folder in dict.fromkeys(folders):
        counts = {path.stem: count for path, count in count_damaged_lines(folder).items()}
        if counts:
            journals = ", ".join(f"{name} {count}" for name, count in counts.items())
            lines = format_count(sum(counts.values()), "line")
            descriptions.append(f'{lines} of "{folder}" ({journals})')
    return "; ".join(descriptions)


_REWRITE_REMEDY = "run the same batch command again to write the file anew"
_EVALUATE_LOST_REMEDY = "run the same batch command again to evaluate these units anew"


def _format_redo_remedy(configuration: str) -> str:
    """Return the remedy for results that are wrong in their journal, too.

    "" if `configuration` is "", which says that there is no journal.
    """
    if not configuration:
        return ""
    return f"run the same batch command with --redo {shlex.quote(configuration)}"


def _check_file(
    path: Path, configuration: str, journal: str
) -> tuple[list[_ResultProblem], _LinesByUser]:
    """Return a file's problems, and the last line of each user.

    `journal` is what the file should contain according to the journal of `configuration`; both are
    "" without a journal. With one, the lines are the journal's.
    """
    try:
        problems, results = _check_lines(path, read_lines(path))
    except InputError as error:
        description = str(error).removeprefix(f'"{path}" ').removesuffix(".")
        problems = [_ResultProblem(path, f"it {description}")]
        results = {}
    if not configuration:
        return problems + _check_plausibility(path, results), results
    if path.read_bytes() == journal.encode():
        problems = []  # writing the file again would change nothing
    elif not problems:
        problems = [_ResultProblem(path, "it differs from its journal")]
    _, results = _check_lines(path, list(map(parse_line, journal.splitlines())))
    problems = [replace(problem, remedy=_REWRITE_REMEDY) for problem in problems]
    return problems + _check_plausibility(path, results, configuration), results


def _check_lines(
    path: Path, lines: Sequence[_ResultLine | None]
) -> tuple[list[_ResultProblem], _LinesByUser]:
    """Return problems with the order and form of the lines, and the last line of each user."""
    descriptions = []
    if not lines:
        descriptions.append("it is empty")
    elif lines[-1] is None:
        descriptions.append("its last line is cut off or not a result")
    unreadable_count = lines[:-1].count(None)
    if unreadable_count:
        descriptions.append(f"{format_count(unreadable_count, 'line')} cannot be read as results")
    users = [line["user"] for line in lines if line is not None]
    repeated = [user for user, count in Counter(users).items() if count > 1]
    if repeated:
        examples = ", ".join(map(str, sorted(repeated)[:3]))
        if len(repeated) > 3:
            examples += ", ..."
        verb = "appears" if len(repeated) == 1 else "appear"
        users_in_words = format_count(len(repeated), "user")
        descriptions.append(f"{users_in_words} {verb} more than once ({examples})")
    if users != sorted(users):
        descriptions.append("its users are not in order")
    results = {line["user"]: line for line in lines if line is not None}
    return [_ResultProblem(path, description) for description in descriptions], results


def _check_plausibility(
    path: Path, results: _LinesByUser, configuration: str = ""
) -> list[_ResultProblem]:
    """Return a problem if figures are impossible; `configuration` has the file's journal."""
    reasons: dict[int, str] = {}  # by user
    for user, line in sorted(results.items()):
        reason = _explain_impossible(line)
        if reason:
            reasons[user] = reason
    if not reasons:
        return []
    first_user, first_reason = next(iter(reasons.items()))
    lines = format_count(len(reasons), "line")
    verb = "has" if len(reasons) == 1 else "have"
    description = f"{lines} {verb} impossible values (user {first_user}: {first_reason})"
    return [_ResultProblem(path, description, _format_redo_remedy(configuration))]


def _explain_impossible(line: Mapping[str, Any]) -> str:
    """Explain why a result cannot be true; "" if it can."""
    if line["size"] < 1:
        return f"size {line['size']}"
    for name, value in line["metrics"].items():
        is_undefined = value is None or value != value  # null or NaN
        if name == "AUC" and is_undefined:
            continue  # as it should be if every review was remembered, or none
        if value is None:
            return f"no {name}"
        if not isinstance(value, int | float) or not math.isfinite(value):
            return f"{name} {value}"
        if name == "LogLoss":
            if value < 0:
                return f"{name} {value:g}"
        elif name in _METRICS_FROM_0_TO_1 and not 0 <= value <= 1:
            return f"{name} {value:g}"
    return _find_contradiction(line["metrics"])


def _find_contradiction(metrics: Mapping[str, float]) -> str:
    """Describe the metric that contradicts the RMSE; "" for none.

    For one review with the error e = |p - y|, the log loss is -log(1 - e), with p clipped. It lies
    between 2.4554 e^2 and 36.0437 e^2 + 0.0071 for any e, and so do the means over reviews: log
    loss and RMSE^2. A bin's mean error is not greater than its RMSE.
    """
    rmse = metrics.get("RMSE")
    if rmse is None:
        return ""
    least_loss = _MIN_LOSS_FACTOR * rmse**2
    greatest_loss = _MAX_LOSS_FACTOR * rmse**2 + _MAX_LOSS_OFFSET
    loss = metrics.get("LogLoss", least_loss)
    binned_rmse = metrics.get("RMSE(bins)", 0.0)
    if not least_loss - _LOSS_TOLERANCE <= loss <= greatest_loss + _LOSS_TOLERANCE:
        return f"a log loss of {loss:g} cannot go with an RMSE of {rmse:g}"
    if binned_rmse > rmse + _RMSE_TOLERANCE:
        return f"RMSE(bins) {binned_rmse:g} above RMSE {rmse:g}"
    return ""


def _check_sizes(
    folder: Path, results: Mapping[Path, Mapping[int, _ResultLine]], setup: Mapping[str, Any] | None
) -> list[_ResultProblem]:
    """Find users whose review counts differ between configurations on the same reviews."""
    # Review counts by evaluated rows, user and file.
    sizes_by_rows: dict[Protocol, dict[int, dict[Path, int]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for path, lines in results.items():
        meaning = interpret_file_name(spelled_name(path), setup, lines.values())
        configuration = meaning.configuration
        if configuration is not None:  # the rows of an unknown model are unknown
            sizes_by_user = sizes_by_rows[configuration.protocol.row_protocol()]
            for user, line in lines.items():
                sizes_by_user[user][path] = line["size"] + line.get("lacks", 0)
    differences: dict[Path, list[tuple[int, str]]] = defaultdict(list)
    for sizes_by_user in sizes_by_rows.values():
        for user, sizes in sizes_by_user.items():
            (usual_size, file_count), *rarer = Counter(sizes.values()).most_common()
            if not rarer:
                continue
            _, second_file_count = rarer[0]
            is_tie = file_count == second_file_count
            for path, size in sizes.items():
                if is_tie:
                    differences[path].append((user, f"sizes {sorted(set(sizes.values()))}"))
                elif size != usual_size:
                    differences[path].append((user, f"{size} where the others have {usual_size}"))
    problems = []
    for path, user_differences in sorted(differences.items()):
        first_user, first_difference = user_differences[0]
        users = format_count(len(user_differences), "user")
        verb = "has" if len(user_differences) == 1 else "have"
        description = (
            f"{users} {verb} a different number of reviews than in other "
            f"configurations on the same reviews (user {first_user}: {first_difference})"
        )
        batch_configuration = _find_batch_configuration(folder, setup, path)
        problems.append(_ResultProblem(path, description, _format_redo_remedy(batch_configuration)))
    return problems


def _find_stale_results(folder: Path, setup: Mapping[str, Any]) -> list[_ResultProblem]:
    """Find configurations whose model has changed since, and results of other code."""
    problems = []
    naming = FileNaming.of(setup)
    for name, entry in sorted(setup["configurations"].items()):
        model = all_models().get(entry["model"])
        version = entry["model_version"]
        if model is not None and model.version != version:
            path = folder / "result" / f"{naming.file_stem(name)}.jsonl"
            description = (
                f"made with version {version} of the model; the current one is {model.version}"
            )
            problems.append(_ResultProblem(path, f"{description}: evaluate again"))
    current = environment()
    is_from_other_code = False
    for recorded in list_environments(setup):
        for name in ("srs_eval", "code"):
            if recorded.get(name, current[name]) != current[name]:
                is_from_other_code = True
    if is_from_other_code:
        description = "made by a different build of srs-eval; figures may have changed"
        problems.append(_ResultProblem(folder / "setup.json", description))
    return problems
