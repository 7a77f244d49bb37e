"""Commands on many users: batches, their results, reports on them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from srs_eval.cli.options import (
    OUTPUT_PANEL,
    ROWS_PANEL,
    RUN_PANEL,
    CsvFolderOption,
    Flags,
    HtmlOption,
    JobsOption,
    JsonOption,
    MarkdownOption,
    ModelsOption,
    NamesOption,
    PngFolderOption,
    SetupOption,
    context_options,
    names_of,
    one_of,
    protocol_options,
    refuse_rows_of_anki,
    takes,
)
from srs_eval.cli.output import FINE, SOME_FAILED, check_targets, write, write_document
from srs_eval.data.errors import InputError

if TYPE_CHECKING:
    from srs_eval.benchmark.ledger import Ledger
    from srs_eval.data.datasets import Dataset
    from srs_eval.models.configurations import Configuration
    from srs_eval.training.context import Context


_UsersOption = Annotated[
    str | None,
    typer.Option(
        help="Ids and ranges, all if left out.",
        metavar="1-1000,1005",
        rich_help_panel=ROWS_PANEL,
    ),
]
_MaxUserOption = Annotated[
    int | None,
    typer.Option("--max-user-id", help="No users beyond.", rich_help_panel=ROWS_PANEL),
]
_FreshOption = Annotated[
    bool,
    typer.Option("--fresh", help="Delete what is there first.", rich_help_panel=RUN_PANEL),
]


@takes(flags=protocol_options, context=context_options)
def batch(
    flags: Flags,
    context: Context,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Folder in the anki-revlogs-10k layout, or the name of a downloaded data set.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    users: _UsersOption = None,
    max_user_id: _MaxUserOption = None,
    models: ModelsOption = "all",
    setup: SetupOption = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the results.", rich_help_panel=OUTPUT_PANEL)
    ] = Path("results"),
    jobs: JobsOption = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where it runs: local, dask-local or dask://HOST:PORT.",
            metavar="ENGINE",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "local",
    shard: Annotated[
        str | None,
        typer.Option(
            help="Every Nth of the users only, from the Kth on: 3/16 is the third of 16 parts.",
            metavar="K/N",
            rich_help_panel=ROWS_PANEL,
        ),
    ] = None,
    names: NamesOption = "2025",
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Keep every prediction, as parquet.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False,
    file: Annotated[
        bool,
        typer.Option(
            "--file",
            help="Keep every prediction with its history, as text.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
    plot: Annotated[
        bool,
        typer.Option(
            "--plot",
            help="Keep a picture of calibration for each user and configuration.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
    fresh: _FreshOption = False,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            help="Take over the results of another batch folder first; may be repeated.",
            metavar="DIR",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
) -> int:
    """Evaluate users x configurations of a data set; a re-run does what is missing."""
    from srs_eval.batch import Keeper, run_batch
    from srs_eval.benchmark.cluster import is_engine
    from srs_eval.benchmark.plan import Ended, Planned, UnitDone
    from srs_eval.benchmark.prediction_files import raw_parquet, raw_table
    from srs_eval.benchmark.result_files import read_results
    from srs_eval.data.datasets import shard_of
    from srs_eval.engine.ranking import mean_ranking
    from srs_eval.report.console import BatchProgress, console_for, say
    from srs_eval.report.pictures import calibration_png
    from srs_eval.report.tables import batch_table

    flags = flags.set_up_by(setup, models)
    if dataset is None:
        raise InputError("Which data set? Name its folder with --dataset.")
    opened = _opened(dataset, flags)
    if not is_engine(engine):
        raise InputError(f"--engine is local, dask-local or dask://HOST:PORT, not {engine}.")
    chosen = _chosen(opened, users, max_user_id)
    configurations = _on_a_data_set(flags, models)
    if shard is not None and not (chosen := shard_of(chosen, shard)):
        say(f"No user falls to shard {shard}: nothing to do.")
        return FINE
    makers: dict[str, Keeper] = {"raw": raw_parquet, "file": raw_table, "plot": calibration_png}
    asked_for = {"raw": raw, "file": file, "plot": plot}
    plan: Planned | None = None
    finished = failed = 0
    reasons: Counter[tuple[str, str]] = Counter()
    try:
        with (
            BatchProgress() as progress,
            closing(
                run_batch(
                    opened,
                    configurations,
                    out,
                    users=chosen,
                    jobs=jobs,
                    engine=engine,
                    keep={kind: make for kind, make in makers.items() if asked_for[kind]},
                    fresh=fresh,
                    merge=merge or (),
                    context=context,
                    names=names_of(names),
                )
            ) as events,
        ):
            for event in events:
                progress.show(event)
                match event:
                    case Planned():
                        plan = event
                        say_tuned_on(flags.ledger, chosen, plan.data)
                    case UnitDone():
                        finished = event.finished
                        if event.unit.status != "done":
                            reasons[event.unit.status, event.unit.reason] += 1
                    case Ended():
                        failed = event.failed
                        say(
                            f"{event.done:,} done, {event.skipped:,} skipped, "
                            f"{event.failed:,} failed; results are in {out / 'result'}"
                        )
    except KeyboardInterrupt:
        if plan is not None:
            say(
                f"Interrupted: {finished:,} of {plan.units:,} units are done and kept; "
                "the same command goes on from there."
            )
        raise
    for wanted in ("failed", "skipped"):
        told = [(each, count) for each, count in reasons.most_common() if each[0] == wanted]
        for (_, reason), count in told[:3]:
            say(f"{wanted}: {count:,} x {reason}")
    _say_environments(out)
    if failed:
        say(f"All reasons are in {out / 'failed'}; the same command tries again.")
    console = console_for(sys.stdout)
    asked = set(chosen)  # the folder may hold others, too
    results = {
        each.name: {
            user: line for user, line in read_results(out, each.name).items() if user in asked
        }
        for each in configurations
    }
    for group in mean_ranking(configurations, results):
        console.print(batch_table(group, console.width))
    return SOME_FAILED if failed else FINE


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of results, of `srs-eval batch` or of srs-benchmark.",
            metavar="DIR...",
            show_default=False,
        ),
    ],
    html: HtmlOption = None,
    md: MarkdownOption = None,
    csv: CsvFolderOption = None,
    png: PngFolderOption = None,
    json: JsonOption = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="Results of another run: tell what changed.",
            metavar="DIR",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
    users: Annotated[
        str,
        typer.Option(
            help="Means over the users that all have, or over each one's own.",
            metavar="common|each",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "common",
    metric: Annotated[
        str,
        typer.Option(
            help="The metric that pairs, sizes and distributions are of.",
            metavar="NAME",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "LogLoss",
    columns: Annotated[
        str,
        typer.Option(
            help="Columns of the tables: metrics of result files (ICI, smECE, ...) and seconds.",
            metavar="A,B",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "LogLoss,RMSE(bins),AUC",
    average: Annotated[
        str,
        typer.Option(
            help="Side by side: global, user, deck, card. All but user need predictions in raw/.",
            metavar="A,B",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "user",
) -> int:
    """Tables, pairs and pictures of results of many users."""
    from srs_eval.report.build import dataset_report

    check_targets([*folders, baseline], html, md, json, csv=csv, png=png)
    document = dataset_report(
        folders,
        metric=metric,
        columns=columns.split(","),
        users=one_of("--users", users, ("common", "each")),
        average=average.split(","),
        baseline=baseline,
    )
    write_document(document, html, md, csv, png, json)
    return FINE


@takes(flags=protocol_options, context=context_options)
def audit(
    dataset: Annotated[
        str,
        typer.Argument(
            help="Folder of a data set, or the name of a downloaded one.", show_default=False
        ),
    ],
    flags: Flags,
    context: Context,
    models: ModelsOption = "fast",
    trials: Annotated[
        int,
        typer.Option(
            help="Set-ups that are tried for each configuration, besides the published one.",
            min=1,
            rich_help_panel=RUN_PANEL,
        ),
    ] = 30,
    repeats: Annotated[
        int,
        typer.Option(
            help="Seeds that are judged, where a training has seeds.",
            min=1,
            rich_help_panel=RUN_PANEL,
        ),
    ] = 3,
    seed: Annotated[int, typer.Option(help="Of the search.", min=0, rich_help_panel=RUN_PANEL)] = 0,
    users: _UsersOption = None,
    max_user_id: _MaxUserOption = None,
    out: Annotated[
        Path, typer.Option(help="Folder of what is found.", rich_help_panel=OUTPUT_PANEL)
    ] = Path("audit"),
    html: HtmlOption = None,
    md: MarkdownOption = None,
    csv: CsvFolderOption = None,
    json: JsonOption = None,
    jobs: JobsOption = None,
    fresh: _FreshOption = False,
) -> int:
    """Does a ranking survive when every model's training is tuned alike?"""
    from srs_eval.batch import run_batch
    from srs_eval.benchmark.audit import Audit, run_audit
    from srs_eval.benchmark.plan import Ended, Planned, UnitDone
    from srs_eval.report.audit import audit_document
    from srs_eval.report.console import BatchProgress, say

    opened = _opened(dataset, flags)
    check_targets([out, opened.folder], html, md, json, csv=csv)
    chosen = _chosen(opened, users, max_user_id)
    found: Audit | None = None
    finished = 0
    try:
        with (
            BatchProgress() as progress,
            closing(
                run_audit(
                    opened,
                    _on_a_data_set(flags, models),
                    out,
                    evaluate=run_batch,
                    users=chosen,
                    trials=trials,
                    repeats=repeats,
                    seed=seed,
                    jobs=jobs,
                    fresh=fresh,
                    context=context,
                )
            ) as events,
        ):
            for event in events:
                match event:
                    case Audit():
                        found = event
                    case Planned() | UnitDone() | Ended():
                        finished += isinstance(event, UnitDone)
                        progress.show(event)
    except KeyboardInterrupt:
        say(f"Interrupted: {finished:,} more fits are kept; the same command goes on from there.")
        raise
    assert found is not None
    write_document(audit_document(found), html, md, csv, None, json)
    say(f"The set-ups are in {out / 'ledger.json'}, results in {out}; docs/audit.md tells more.")
    return SOME_FAILED if found.failed else FINE


def _opened(dataset: str, flags: Flags) -> Dataset:
    """A data set that the flags can be used on; raises InputError."""
    from srs_eval.data.datasets import open_dataset
    from srs_eval.report.console import say

    refuse_rows_of_anki(flags)
    opened = open_dataset(dataset)
    if opened.missing_tables:
        lacking = f"The data set has no folder {' and no folder '.join(opened.missing_tables)}"
        if flags.protocol.partitions != "none":
            raise InputError(f"{lacking}: leave --partitions {flags.protocol.partitions} out.")
        say(f"{lacking}: what rests on decks (SM2, Ebisu) is skipped for every user.")
    return opened


def _chosen(dataset: Dataset, users: str | None, max_user_id: int | None = None) -> list[int]:
    """The users that options name; says who of them is not there. Raises InputError."""
    from srs_eval.data.datasets import absent_users, select_users
    from srs_eval.report.console import say_absent_users

    chosen = select_users(dataset.users, users, max_user_id)
    if users is not None:
        say_absent_users(absent_users(dataset.users, users, max_user_id))
    return chosen


def _on_a_data_set(flags: Flags, models: str) -> list[Configuration]:
    """What is named, with the averages that several are compared to; raises InputError."""
    from srs_eval.engine.ranking import with_floors

    configurations = [each for each in flags.resolve(models) if each.fit != "own"]
    if not configurations:
        raise InputError("A data set holds no parameters of presets: evaluate a collection.")
    if len(configurations) == 1:
        return configurations
    # What is compared stands on the average. AVG-known_decks has to be named: most users
    # have no deleted cards, and srs-benchmark knows no such file.
    return with_floors(configurations, leaves_out=False)


def results(
    action: Annotated[str, typer.Argument(help="check or merge.", metavar="check|merge")],
    folders: Annotated[list[Path], typer.Argument(help="Folders with results.", metavar="DIR...")],
    out: Annotated[
        Path | None,
        typer.Option(help="With merge: the folder that becomes of them.", show_default=False),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="With check: mend what can be mended.")
    ] = False,
    take_what_is_whole: Annotated[
        bool,
        typer.Option(
            "--take-what-is-whole", help="With merge: go on without damaged lines of journals."
        ),
    ] = False,
) -> int:
    """Check result folders, ours or srs-benchmark's, or make one of several of ours."""
    from srs_eval.benchmark import check as results_check
    from srs_eval.data.errors import counted
    from srs_eval.report.console import say, show

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
        lost = results_check.damaged_parts(folders) if take_what_is_whole else ""
        try:
            taken = results_check.merge(folders, out, take_what_is_whole=take_what_is_whole)
        except results_check.DamagedParts as error:
            say(f"srs-eval: {error}")
            return SOME_FAILED
        say(f"{counted(taken, 'unit')} taken over; results are in {out / 'result'}")
        if lost:
            say(f"Damaged and left out: {lost}.")
        _say_environments(out)
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


def say_tuned_on(
    ledger: Ledger | None, users: Sequence[int], data: str, others: str = "--users takes others"
) -> None:
    """That figures flatter on users whose training parts have chosen a ledger's set-ups.

    `data` is the fingerprint of the users' data set; `others` says how to take other users.
    """
    from srs_eval.data.errors import counted
    from srs_eval.report.console import say

    if ledger is None or not (seen := ledger.users.intersection(users)):
        return
    same = ledger.data == data
    if len(users) == 1:
        on = "this user:" if same else "a user with this number: if that is the same person,"
    else:
        share = f"{len(seen):,} of {counted(len(users), 'user')} here"
        on = f"{share}: for these,"
        if not same:
            on = f"users with the numbers of {share}: if they are the same people, for these,"
    say(f'"{ledger.path}" was tuned on {on} figures of tuned models flatter; {others}.')


def _say_environments(out: Path) -> None:
    """In what the parts of a folder's results differ that figures might depend on."""
    from srs_eval.benchmark.setup import different_environments, read_setup
    from srs_eval.report.console import say

    if different := different_environments(read_setup(out) or {}):
        say(f"These results were not all made alike: {'; '.join(different)}.")


def dataset(
    action: Annotated[
        str, typer.Argument(help="info, verify or download.", metavar="info|verify|download")
    ],
    folder: Annotated[
        str,
        typer.Argument(
            help="The data set's folder, or anki-revlogs-10k or FSRS-Anki-20k for one in your data "
            "folder.",
            metavar="DIR",
        ),
    ],
    users: Annotated[
        str | None,
        typer.Option(
            help="With verify and download: ids and ranges, all if left out.",
            metavar="1-1000,1005",
            rich_help_panel=ROWS_PANEL,
        ),
    ] = None,
    repo: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="With download: its name on the Hugging Face hub.",
            metavar="OWNER/NAME",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
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
    from srs_eval.data.dataset_check import describe
    from srs_eval.data.datasets import open_dataset
    from srs_eval.report.console import show
    from srs_eval.report.export import dataset_document, to_json
    from srs_eval.report.tables import dataset_lines

    opened = open_dataset(folder)
    check_targets([opened.folder], json)
    found = describe(opened)
    if json is not None:
        write(json, to_json(dataset_document(found)))
    if json != "-":
        show("\n".join(dataset_lines(found)))
    return FINE


def _download(folder: str, repo: str | None, users: str | None) -> int:
    from srs_eval.data.dataset_hub import (
        KNOWN,
        Fetched,
        Listed,
        download,
        page_of,
        refuse_misnamed,
        usual_repo,
    )
    from srs_eval.data.datasets import datasets_folder
    from srs_eval.data.errors import counted
    from srs_eval.report.console import console_for, say

    target = Path(folder).expanduser()
    if folder in KNOWN and not target.exists():
        target = datasets_folder() / folder
    repo = usual_repo(target) if repo is None else repo
    refuse_misnamed(repo)
    say(
        f"{repo} goes to {target}. Its licence is between you and its owner ({page_of(repo)}): it "
        "lets you use the data and forbids to pass them on."
    )
    fetched, listed = 0, None
    try:
        with (
            console_for(sys.stderr).status(f"Asking the hub for {repo} ...") as status,
            closing(download(repo, target, users)) as events,
        ):
            for event in events:
                match event:
                    case Listed():
                        listed = event
                        say(
                            f"{counted(len(event.users), 'user')}, "
                            f"{counted(event.files, 'file')}, {event.bytes / 1e6:,.1f} MB"
                        )
                    case Fetched():
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
    from srs_eval.data.dataset_check import check
    from srs_eval.data.datasets import open_dataset
    from srs_eval.data.errors import counted
    from srs_eval.report.console import console_for, show

    opened = open_dataset(folder)
    chosen = _chosen(opened, users)
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
