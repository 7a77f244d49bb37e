"""Commands on folders of data sets and of results: what they hold, checks, downloads, merging."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from srs_eval.cli.options import (
    FINE,
    SOME_FAILED,
    JsonOption,
    check_targets,
    json_and_console,
    one_of,
    option,
    rows_option,
)
from srs_eval.data.errors import InputError, counted
from srs_eval.report.console import console_for, say, show, spans

if TYPE_CHECKING:
    from srs_eval.data.datasets import Dataset


def results(
    action: str = typer.Argument(help="check or merge.", metavar="check|merge"),
    folders: list[Path] = typer.Argument(help="Folders with results.", metavar="DIR..."),
    out: Path | None = typer.Option(
        None, help="With merge: the folder that becomes of them.", show_default=False
    ),
    repair: bool = typer.Option(False, "--repair", help="With check: mend what can be mended."),
    take_what_is_whole: bool = typer.Option(
        False, "--take-what-is-whole", help="With merge: go on without damaged lines of journals."
    ),
) -> int:
    """Check result folders, ours or srs-benchmark's, or make one of several of ours."""
    from srs_eval.benchmark import check as results_check

    if one_of("The action of results", action, ("check", "merge")) == "check":
        if out is not None:
            raise InputError("results check writes no folder: --out is for results merge.")
        if take_what_is_whole:
            raise InputError("--take-what-is-whole is for results merge.")
    else:
        if repair:
            raise InputError("results merge mends nothing: --repair is for results check.")
        if out is None:
            raise InputError("results merge: name the folder that becomes of them with --out.")
        try:
            taken, lost = results_check.merge(folders, out, take_what_is_whole=take_what_is_whole)
        except results_check.DamagedParts as error:
            say(f"srs-eval: {error}")
            return SOME_FAILED
        say(f"{counted(taken, 'unit')} taken over; results are in {out / 'result'}")
        if lost:
            say(f"Damaged and left out: {lost}.")
        say_environments(out)
        return FINE
    left = 0
    for folder in folders:
        found = results_check.check(folder)
        remaining = results_check.repair(folder, found) if repair else found
        for each in found:
            mended = f"; {each.remedy}" if each not in remaining else ""
            hint = f" (--repair: {each.remedy})" if each.remedy and not repair else ""
            show(f"{each.path}: {each.what}{mended}{hint}")
        if not any(each.wrong for each in found):
            show(f"{folder}: nothing is wrong")
        left += sum(each.wrong for each in remaining)
    return SOME_FAILED if left else FINE


def dataset(
    action: str = typer.Argument(help="info, verify or download.", metavar="info|verify|download"),
    folder: str = typer.Argument(
        help="The data set's folder, or anki-revlogs-10k or FSRS-Anki-20k for one in your data "
        "folder.",
        metavar="DIR",
    ),
    users: str | None = rows_option(
        None, "With verify and download: ids and ranges, all if left out.", metavar="1-1000,1005"
    ),
    repo: str | None = option(
        None, "With download: its name on the Hugging Face hub.", "--from", metavar="OWNER/NAME"
    ),
    json: JsonOption = None,
) -> int:
    """Download a data set of many users, tell what a folder holds, or check every file of it."""
    one_of("The action of dataset", action, ("info", "verify", "download"))
    if repo is not None and action != "download":
        raise InputError(f"dataset {action} reads what is there: --from is for dataset download.")
    if json is not None and action != "info":
        raise InputError(f"dataset {action} has no figures to write: --json is for dataset info.")
    if action == "download":
        return _download(folder, repo, users)
    if action == "verify":
        return _verify(folder, users)
    if users is not None:
        raise InputError("dataset info tells of all users: --users is for verify and download.")
    from srs_eval.data.dataset_hub import describe
    from srs_eval.data.datasets import open_dataset
    from srs_eval.report.export import dataset_document, dataset_lines

    opened = open_dataset(folder)
    check_targets([opened.folder], json)
    found = describe(opened)
    if json_and_console(json, dataset_document(found)):
        show("\n".join(dataset_lines(found)))
    return FINE


def _download(folder: str, repo: str | None, users: str | None) -> int:
    from srs_eval.data import dataset_hub as hub
    from srs_eval.data.datasets import datasets_folder

    target = Path(folder).expanduser()
    if folder in hub.KNOWN and not target.exists():
        target = datasets_folder() / folder
    repo = hub.usual_repo(target) if repo is None else repo
    hub.refuse_misnamed(repo)
    say(
        f"{repo} goes to {target}. Its licence is between you and its owner ({hub.page_of(repo)}): "
        "it lets you use the data and forbids to pass them on."
    )
    fetched, listed = 0, None
    try:
        with (
            console_for(sys.stderr).status(f"Asking the hub for {repo} ...") as status,
            closing(hub.download(repo, target, users)) as events,
        ):
            for event in events:
                match event:
                    case hub.Listed():
                        listed = event
                        say(
                            f"{counted(len(event.users), 'user')}, "
                            f"{counted(event.files, 'file')}, {event.bytes / 1e6:,.1f} MB"
                        )
                    case hub.Fetched():
                        fetched += not event.was_there
                        status.update(
                            f"{event.files:,} of {listed.files if listed else 0:,} files, "
                            f"{event.bytes / 1e6:,.1f} MB"
                        )
    except KeyboardInterrupt:
        say("Interrupted: what has come stays, and the same command goes on from there.")
        raise
    assert listed is not None
    there = listed.files - fetched
    say(
        f"{counted(fetched, 'file')} fetched, {there:,} {'was' if there == 1 else 'were'} there; "
        "every hash is the hub's."
    )
    return FINE


def _verify(folder: str, users: str | None) -> int:
    from srs_eval.data.dataset_hub import check
    from srs_eval.data.datasets import open_dataset

    opened = open_dataset(folder)
    chosen = users_chosen(opened, users)
    damaged: list[int] = []
    hashes = 0
    with (
        console_for(sys.stderr).status("Reading ...") as status,
        closing(check(opened, chosen)) as checked,
    ):
        for done, user in enumerate(checked, start=1):
            hashes += user.hashes
            for finding in user.findings:
                show(f"{finding.path}: {finding.what}")
            if user.findings:
                damaged.append(user.user)
            status.update(f"{done:,} of {len(chosen):,} users read")
    known = f"{counted(hashes, 'file')} with the hub's hash" if hashes else "no hash to compare"
    if not damaged:
        show(f"{opened.folder}: {counted(len(chosen), 'user')} read, {known}: nothing is wrong")
        return FINE
    named = ",".join(map(str, damaged[:20])) + (",..." if len(damaged) > 20 else "")
    raise InputError(
        f"{counted(len(damaged), 'user')} of {len(chosen):,} cannot be used as they are ({known}): "
        f"`srs-eval dataset download {folder} --users {named}` fetches what is not as on the hub."
    )


def users_chosen(dataset: Dataset, users: str | None, max_user_id: int | None = None) -> list[int]:
    """The users that options name; says who of them is not there. Raises InputError."""
    from srs_eval.data.datasets import absent_users, select_users

    chosen = select_users(dataset.users, users, max_user_id)
    gaps = [] if users is None else absent_users(dataset.users, users, max_user_id)
    if gaps:
        say(f"Not in this data set, and left out: {spans(gaps)}.")
    return chosen


def say_environments(out: Path) -> None:
    """In what the parts of a folder's results differ that figures might depend on."""
    from srs_eval.benchmark.setup import different_environments, read_setup

    if different := different_environments(read_setup(out) or {}):
        say(f"These results were not all made alike: {'; '.join(different)}.")
