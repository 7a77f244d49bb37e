"""Whether result folders can be trusted: of `srs-eval batch`, or in srs-benchmark's layout."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.cluster import environment
from srs_eval.configurations import published, resolve
from srs_eval.errors import InputError
from srs_eval.models import all_models
from srs_eval.plural import counted
from srs_eval.protocol import Protocol
from srs_eval.result_files import ENDINGS
from srs_eval.store import (
    ResultStore,
    Unit,
    damaged_lines,
    read_setup,
    result_text,
    write_atomically,
)

SHARES = ("RMSE", "RMSE(bins)", "ICI", "AUC")  # metrics that lie between 0 and 1


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a file of results."""

    path: Path
    what: str  # one sentence
    remedy: str  # what --repair does about it; "" for nothing
    units: tuple[tuple[str, int], ...] = ()  # configuration and user whose results are worthless


def check(folder: Path) -> list[Finding]:
    """What is wrong with a folder: torn, repeated, unsorted, impossible and stale lines.

    Raises InputError where it holds no results at all.
    """
    home = folder / "result" if (folder / "result").is_dir() else folder
    paths = sorted(path for path in home.iterdir() if path.name.endswith(ENDINGS))
    setup = read_setup(folder)
    if not paths and setup is None:
        raise InputError(f'"{folder}" holds no result files.')
    found = [] if setup is None else _stale(folder, setup) + _journals(folder)
    lines: dict[str, dict[int, Mapping[str, Any]]] = {}
    for path in paths:
        name = path.name.removesuffix(".gz").removesuffix(".jsonl")
        findings, lines[name] = _check_lines(path, setup is not None)
        found += findings
        if setup is not None and not findings:
            found += _differs_from_journal(folder, path)
    return found + _sizes(home, lines, ours=setup is not None)


def repair(folder: Path, findings: Sequence[Finding]) -> list[Finding]:
    """Mend what can be; returns what is left.

    Files of `srs-eval batch` are written anew from the journal, and worthless units count as
    failed, so that the same batch command evaluates them again. Of other files, the lines that
    are whole are kept, the last one of each user, sorted; the file as it was stays beside it,
    as NAME.jsonl.bak.
    """
    setup = read_setup(folder)
    mendable = [each for each in findings if each.remedy]
    if setup is None:
        for path in {each.path for each in mendable}:
            _, lines = _check_lines(path, ours=False)
            text = "".join(f"{json.dumps(lines[user])}\n" for user in sorted(lines))
            path.with_name(f"{path.name}.bak").write_bytes(path.read_bytes())
            write_atomically(path, text.encode())
    elif mendable:
        with ResultStore(folder, setup) as store:
            for each in mendable:
                for configuration, user in each.units:
                    store.append(Unit(configuration, user, "failed", reason=each.what))
            store.publish(everything=True)
    return [each for each in findings if not each.remedy]


def merge(parts: Sequence[Path], out: Path) -> int:
    """One folder of several with the same set-up; returns the number of units taken over.

    Raises InputError where set-ups differ.
    """
    setup = read_setup(parts[0])
    if setup is None:
        raise InputError(f'"{parts[0]}" holds no results of `srs-eval batch`.')
    with ResultStore(out, setup) as store:
        try:
            return sum(store.take_over(part) for part in parts)
        finally:
            store.publish(everything=True)


LEFT_OUT = "left out, or written anew from the journal where there is one"
AGAIN = "counted as failed, so that the same batch command evaluates them again"


def _check_lines(path: Path, ours: bool) -> tuple[list[Finding], dict[int, Mapping[str, Any]]]:
    """What is wrong with the lines of a file, and those that are whole, the last of each user."""
    found: list[Finding] = []
    whole: dict[int, Mapping[str, Any]] = {}
    users: list[int] = []
    packed = path.suffix == ".gz"
    content = (gzip.decompress if packed else bytes)(path.read_bytes()).split(b"\n")
    last = content.pop()
    if last:
        found.append(Finding(path, "its last line is cut off", LEFT_OUT))
    broken = 0
    for text in content:
        try:
            line = json.loads(text)
            user = int(line["user"])
            line["metrics"].items()
            int(line["size"])
        except (ValueError, KeyError, TypeError, AttributeError):
            broken += 1
            continue
        users.append(user)
        whole[user] = line
    if broken:
        found.append(
            Finding(
                path,
                f"{counted(broken, 'line')} cannot be read as results",
                LEFT_OUT,
            )
        )
    repeated = [user for user, count in Counter(users).items() if count > 1]
    if repeated:
        found.append(
            Finding(
                path,
                f"{counted(len(repeated), 'user')} more than once ({_some(repeated)})",
                "the last line of each is kept",
            )
        )
    if users != sorted(users):
        found.append(Finding(path, "its users are not in order", "sorted"))
    wrong = {user: told for user, line in whole.items() if (told := _impossible(line))}
    if wrong:
        user, told = next(iter(sorted(wrong.items())))
        found.append(
            Finding(
                path,
                f"{counted(len(wrong), 'line')} cannot be true (user {user}: {told})",
                AGAIN if ours else "",
                tuple((path.stem, user) for user in sorted(wrong)),
            )
        )
    if packed:
        found = [replace(each, remedy="") for each in found]
    return found, whole


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
        elif (name == "LogLoss" and value < 0) or (name in SHARES and not 0 <= value <= 1):
            return f"{name} {value:g}"
    return ""


def _sizes(
    home: Path, lines: Mapping[str, Mapping[int, Mapping[str, Any]]], ours: bool
) -> list[Finding]:
    """Users of whom configurations on the same reviews have judged different numbers."""
    judged: dict[Protocol, dict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for name, of_users in lines.items():
        with suppress(InputError):  # a model that is not here tells nothing of its rows
            configuration = resolve(name)[0] if ours else published(name)
            if configuration is not None:
                for user, line in of_users.items():
                    judged[configuration.protocol.judged_rows()][user][name] = int(line["size"])
    different: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for of_rows in judged.values():
        for user, sizes in of_rows.items():
            ((usual, count), *others) = Counter(sizes.values()).most_common()
            for name, size in sizes.items():
                if size != usual and (not others or count > others[0][1]):
                    different[name].append((user, f"{size} where the others have {usual}"))
                elif others and count == others[0][1]:
                    different[name].append((user, f"sizes {sorted(set(sizes.values()))}"))
    return [
        Finding(
            home / f"{name}.jsonl",
            f"{counted(len(users), 'user')} with another number of reviews than other "
            f"configurations on the same ones (user {users[0][0]}: {users[0][1]})",
            AGAIN if ours else "",
            tuple((name, user) for user, _ in users),
        )
        for name, users in sorted(different.items())
    ]


def _stale(folder: Path, setup: Mapping[str, Any]) -> list[Finding]:
    """Configurations whose model has changed, and figures of other code or other libraries."""
    found = []
    for name, made in sorted(setup["configurations"].items()):
        model = all_models().get(made["model"])
        if model is not None and model.version != made["model_version"]:
            found.append(
                Finding(
                    folder / "result" / f"{name}.jsonl",
                    f"made with version {made['model_version']} of the model, which is at "
                    f"{model.version}: evaluate again",
                    "",
                )
            )
    here, there = environment(), setup.get("environment", {})
    changed = [name for name in ("srs_eval", "code") if there.get(name, here[name]) != here[name]]
    if changed:
        found.append(
            Finding(
                folder / "setup.json",
                "made by another state of srs-eval than this one; figures may have changed",
                "",
            )
        )
    return found


def _journals(folder: Path) -> list[Finding]:
    return [
        Finding(
            path,
            f"{counted(count, 'line')} damaged: the same batch command evaluates those units again",
            "",
        )
        for path, count in damaged_lines(folder).items()
        if count
    ]


def _differs_from_journal(folder: Path, path: Path) -> list[Finding]:
    if path.read_text(encoding="utf-8") == result_text(folder, path.stem):
        return []
    return [Finding(path, "it is not what its journal says", "written anew from the journal")]


def _some(users: Sequence[int]) -> str:
    shown = ", ".join(map(str, sorted(users)[:3]))
    return shown if len(users) <= 3 else f"{shown}, ..."
