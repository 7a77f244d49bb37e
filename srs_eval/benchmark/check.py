"""Whether result folders can be trusted: of `srs-eval batch`, or in srs-benchmark's layout."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.benchmark.result_files import (
    configuration_of,
    parse_line,
    read_lines,
    result_paths,
    spelled,
    year_of,
)
from srs_eval.benchmark.setup import (
    environment,
    environments,
    file_name,
    named_by,
    read_setup,
    with_setup_of,
)
from srs_eval.benchmark.store import (
    ResultStore,
    Unit,
    damaged_lines,
    has_journal,
    refuse_audits,
    result_text,
)
from srs_eval.data.errors import InputError, counted
from srs_eval.data.protocol import Protocol
from srs_eval.models import all_models
from srs_eval.models.published import left_open

_Result = Mapping[str, Any]  # a line of a result file
_Results = dict[int, _Result]  # by user
_SHARES = ("RMSE", "RMSE(bins)", "ICI", "AUC")  # metrics that lie between 0 and 1


@dataclass(frozen=True)
class _Finding:
    """Something that is wrong with a file of results, or not certain."""

    path: Path
    what: str  # one sentence
    remedy: str = ""  # what --repair does about it; "" for nothing
    units: tuple[tuple[str, int], ...] = ()  # configuration and user whose results are worthless
    wrong: bool = True


def check(folder: Path) -> list[_Finding]:
    """What is wrong with a folder: torn, repeated, unsorted, impossible and stale lines.

    In a folder of `srs-eval batch`, the journals say what was found, and a file without one is
    held for another program's. Raises InputError where the folder holds no results at all.
    """
    paths = result_paths(folder)
    setup = read_setup(folder)
    if not paths and setup is None:
        raise InputError(f'"{folder}" holds no result files.')
    found = [] if setup is None else _stale(folder, setup)
    for path, count in damaged_lines(folder).items():
        what = "damaged: the same batch command evaluates those units again"
        found.append(_Finding(path, f"{counted(count, 'line')} {what}"))
    results: dict[Path, _Results] = {}
    for path in paths:
        ours = _ours(folder, setup, path)
        findings, results[path] = _check_file(path, ours, result_text(folder, ours) if ours else "")
        found += findings
        said = "" if setup else left_open(spelled(path), year_of(results[path].values()))
        found += [_Finding(path, said, wrong=False)] if said else []
    return found + _sizes(folder, results, setup)


def repair(folder: Path, findings: Sequence[_Finding]) -> list[_Finding]:
    """Mend what `srs-eval batch` has written; returns what is left.

    Files are written anew from the journal, and units that are worthless by the journal count as
    failed, so that the same batch command evaluates them again. Files of others stay as they are.
    """
    setup = read_setup(folder)
    mendable = [each for each in findings if each.remedy]
    if setup is not None and mendable:
        with ResultStore(folder, setup) as store:
            for each in mendable:
                for configuration, user in each.units:
                    store.append(Unit(configuration, user, "failed", reason=each.what))
            store.publish(everything=True)
    return [each for each in findings if not each.remedy]


def _ours(folder: Path, setup: Mapping[str, Any] | None, path: Path) -> str:
    """The configuration whose journal in this batch folder a file is made from; "" for none."""
    if setup is None or path.suffix == ".gz":
        return ""
    configuration = named_by(spelled(path), setup)
    return configuration if has_journal(folder, configuration) else ""


class DamagedParts(InputError):
    """Some of what is to be merged is lost; nothing has been written."""


def merge(parts: Sequence[Path], out: Path, *, take_what_is_whole: bool = False) -> tuple[int, str]:
    """One folder of several with the same set-up: units taken over, and what is lost, in words.

    `out` may be one of them: what it holds stays, and the units of the others are added. Raises
    InputError where set-ups differ, and DamagedParts where journals are damaged, unless one is to
    `take_what_is_whole`; both before anything is written.
    """
    setup: dict[str, Any] | None = None
    for part in parts:
        setup = with_setup_of(part, setup)
    assert setup is not None
    refuse_audits(out)
    lost = _damaged_parts(parts)
    if lost and not take_what_is_whole:
        raise DamagedParts(
            f"Nothing is merged, for journals are damaged: {lost}; the batch of such a part "
            "evaluates them again, and --take-what-is-whole goes on without them."
        )
    if read_setup(out) is not None:
        setup = with_setup_of(out, setup)
    with ResultStore(out, setup, fresh=None) as store:
        try:
            return sum(store.take_over(part) for part in parts), lost
        finally:
            store.publish(everything=True)


def _damaged_parts(parts: Sequence[Path]) -> str:
    """How many lines of the journals of which folder are damaged, in words; "" for none."""
    said = []
    for part in dict.fromkeys(parts):
        lines = {path.stem: count for path, count in damaged_lines(part).items()}
        if lines:
            where = ", ".join(f"{name} {count}" for name, count in lines.items())
            said.append(f'{counted(sum(lines.values()), "line")} of "{part}" ({where})')
    return "; ".join(said)


_ANEW = "written anew from the journal"
_AGAIN = "counted as failed, so that the same batch command evaluates them again"


def _check_file(path: Path, configuration: str, journal: str) -> tuple[list[_Finding], _Results]:
    """What is wrong with a file, and its results by user: by its journal where it has one."""
    try:
        found, results = _check_lines(path, read_lines(path))
    except InputError as error:
        said = str(error).removeprefix(f'"{path}" ').removesuffix(".")
        found, results = [_Finding(path, f"it {said}")], {}
    if not configuration:
        return found + _check_truth(path, results), results
    if path.read_bytes() == journal.encode():
        found = []  # what is wrong is the journal's, too
    elif not found:
        found = [_Finding(path, "it is not what its journal says")]
    results = _check_lines(path, list(map(parse_line, journal.splitlines())))[1]
    found = [replace(each, remedy=_ANEW) for each in found]
    return found + _check_truth(path, results, configuration), results


def _check_lines(path: Path, lines: Sequence[_Result | None]) -> tuple[list[_Finding], _Results]:
    """What is wrong with the order of lines and their form, and the last one of each user."""
    said = []
    if not lines:
        said.append("it is empty")
    *earlier, last = lines or [{}]
    if last is None:
        said.append("its last line is cut off or no result")
    if broken := earlier.count(None):
        said.append(f"{counted(broken, 'line')} cannot be read as results")
    users = [line["user"] for line in lines if line is not None]
    repeated = [user for user, count in Counter(users).items() if count > 1]
    if repeated:
        some = ", ".join(map(str, sorted(repeated)[:3])) + ", ..." * (len(repeated) > 3)
        said.append(f"{counted(len(repeated), 'user')} more than once ({some})")
    if users != sorted(users):
        said.append("its users are not in order")
    results = {line["user"]: line for line in lines if line is not None}
    return [_Finding(path, each) for each in said], results


def _check_truth(path: Path, results: _Results, configuration: str = "") -> list[_Finding]:
    wrong = {user: said for user, line in sorted(results.items()) if (said := _impossible(line))}
    if not wrong:
        return []
    user, said = next(iter(wrong.items()))
    what = f"{counted(len(wrong), 'line')} cannot be true (user {user}: {said})"
    units = tuple((configuration, user) for user in wrong)
    return [_Finding(path, what, _AGAIN if configuration else "", units)]


def _impossible(line: Mapping[str, Any]) -> str:
    """Why a result cannot be true; "" where it can."""
    if line["size"] < 1:
        return f"size {line['size']}"
    for name, value in line["metrics"].items():
        if value is None or (name == "AUC" and value != value):
            if name != "AUC":  # undefined where all were remembered
                return f"no {name}"
        elif not isinstance(value, int | float) or not math.isfinite(value):
            return f"{name} {value}"
        elif (name == "LogLoss" and value < 0) or (name in _SHARES and not 0 <= value <= 1):
            return f"{name} {value:g}"
    return _at_odds(line["metrics"])


def _at_odds(found: Mapping[str, float]) -> str:
    """Which metric cannot be as it is beside the RMSE; "" for none. Means and rounding considered.

    Of one review with the error e, log loss is -log(1 - e), p clipped: between 2.4554 e^2 and
    36.0437 e^2 + 0.0071 for any e. A bin's mean error is no greater than its RMSE.
    """
    rmse = found.get("RMSE")
    if rmse is None:
        return ""
    loss, binned = found.get("LogLoss", 2.4554 * rmse**2), found.get("RMSE(bins)", 0.0)
    if not 2.4554 * rmse**2 - 1e-4 <= loss <= 36.0437 * rmse**2 + 0.0072:
        return f"LogLoss {loss:g} where RMSE is {rmse:g}"
    return f"RMSE(bins) {binned:g} above RMSE {rmse:g}" if binned > rmse + 1e-5 else ""


def _sizes(
    folder: Path, results: Mapping[Path, Mapping[int, _Result]], setup: Mapping[str, Any] | None
) -> list[_Finding]:
    """Users of whom configurations on the same reviews have evaluated different numbers."""
    evaluated: dict[Protocol, dict[int, dict[Path, int]]] = defaultdict(lambda: defaultdict(dict))
    for path, of_users in results.items():
        configuration = configuration_of(spelled(path), setup, year_of(of_users.values()))
        if configuration is not None:  # a model that is not here tells nothing of its rows
            of_rows = evaluated[configuration.protocol.evaluated_rows()]
            for user, line in of_users.items():
                of_rows[user][path] = line["size"] + line.get("lacks", 0)
    different: dict[Path, list[tuple[int, str]]] = defaultdict(list)
    for of_rows in evaluated.values():
        for user, sizes in of_rows.items():
            ((usual, count), *others) = Counter(sizes.values()).most_common()
            for path, size in sizes.items():
                if size != usual and (not others or count > others[0][1]):
                    different[path].append((user, f"{size} where the others have {usual}"))
                elif others and count == others[0][1]:
                    different[path].append((user, f"sizes {sorted(set(sizes.values()))}"))
    return [
        _Finding(
            path,
            f"{counted(len(users), 'user')} with another number of reviews than other "
            f"configurations on the same ones (user {users[0][0]}: {users[0][1]})",
            _AGAIN if _ours(folder, setup, path) else "",
            tuple((_ours(folder, setup, path) or spelled(path), user) for user, _ in users),
        )
        for path, users in sorted(different.items())
    ]


def _stale(folder: Path, setup: Mapping[str, Any]) -> list[_Finding]:
    """Configurations whose model has changed, and figures of other code or other libraries."""
    found = []
    for name, made in sorted(setup["configurations"].items()):
        model, version = all_models().get(made["model"]), made["model_version"]
        if model is not None and model.version != version:
            path = folder / "result" / f"{file_name(name, setup)}.jsonl"
            what = f"made with version {version} of the model, which is at {model.version}"
            found.append(_Finding(path, f"{what}: evaluate again"))
    here = environment()
    if any(
        there.get(name, here[name]) != here[name]
        for there in environments(setup)
        for name in ("srs_eval", "code")
    ):
        what = "made by another state of srs-eval than this one; figures may have changed"
        found.append(_Finding(folder / "setup.json", what))
    return found
