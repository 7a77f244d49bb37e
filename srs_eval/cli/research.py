"""Commands on many users: batches, their results, reports on them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from srs_eval.cli.folders import say_environments, users_chosen
from srs_eval.cli.options import (
    FINE,
    SOME_FAILED,
    Flags,
    JobsOption,
    ModelsOption,
    NamesOption,
    Outputs,
    SetupOption,
    Source,
    names_of,
    one_of,
    option,
    output_option,
    rows_option,
)
from srs_eval.data.errors import InputError, counted, require
from srs_eval.report.console import BatchProgress, console_for, document_text, say

if TYPE_CHECKING:
    from srs_eval.batch import Keeper
    from srs_eval.benchmark.plan import BatchEvent
    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.datasets import Dataset
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models.configurations import Configuration
    from srs_eval.training.hyperparameters import Context


_UsersOption = Annotated[
    str | None, rows_option(..., "Ids and ranges, all if left out.", metavar="1-1000,1005")
]
_MaxUserOption = Annotated[
    int | None, rows_option(..., "Highest user id to include.", "--max-user-id")
]
_FreshOption = Annotated[bool, option(..., "Delete what is there first.", "--fresh")]


def keep_options(
    raw: bool = output_option(False, "Keep every prediction, as parquet.", "--raw"),
    file: bool = output_option(False, "Keep every prediction with its history, as text.", "--file"),
    plot: bool = output_option(
        False, "Keep a picture of calibration for each user and configuration.", "--plot"
    ),
) -> dict[str, Keeper]:
    """What is kept of each unit besides its results."""
    from srs_eval.benchmark.result_files import raw_parquet, raw_table
    from srs_eval.report.pictures import calibration_png

    makers: dict[str, Keeper] = {"raw": raw_parquet, "file": raw_table, "plot": calibration_png}
    if raw:
        require("pyarrow", "--raw")
    wanted = {"raw": raw, "file": file, "plot": plot}
    return {kind: make for kind, make in makers.items() if wanted[kind]}


def batch(
    flags: Flags,
    context: Context,
    keep: dict[str, Keeper],
    dataset: str | None = typer.Option(
        None,
        help="Folder in the anki-revlogs-10k layout, or the name of a downloaded data set.",
        metavar="DIR",
        show_default=False,
    ),
    users: _UsersOption = None,
    max_user_id: _MaxUserOption = None,
    models: ModelsOption = "all",
    setup: SetupOption = None,
    out: Path = output_option(Path("results"), "Folder of the results."),
    jobs: JobsOption = None,
    engine: str = option(
        "local", "Where it runs: local, dask-local or dask://HOST:PORT.", metavar="ENGINE"
    ),
    shard: str | None = rows_option(
        None,
        "Every Nth of the users only, from the Kth on: 3/16 is the third of 16 parts.",
        metavar="K/N",
    ),
    names: NamesOption = "2025",
    fresh: _FreshOption = False,
    merge: list[Path] | None = option(
        None, "Take over the results of another batch folder first; may be repeated.", metavar="DIR"
    ),
) -> int:
    """Evaluate users x configurations of a data set; a re-run does what is missing."""
    from srs_eval.batch import run_batch
    from srs_eval.benchmark.plan import is_engine
    from srs_eval.data.datasets import shard_of
    from srs_eval.models.rwkv import with_rwkv

    models = with_rwkv(models, context)
    flags = flags.set_up_by(setup, models)
    if dataset is None:
        raise InputError("Which data set? Name its folder with --dataset.")
    opened = _opened(dataset, flags)
    if not is_engine(engine):
        raise InputError(f"--engine is local, dask-local or dask://HOST:PORT, not {engine}.")
    chosen = users_chosen(opened, users, max_user_id)
    configurations = _on_a_data_set(flags, models)
    if shard is not None and not (chosen := shard_of(chosen, shard)):
        say(f"No user falls to shard {shard}: nothing to do.")
        return FINE
    events = run_batch(
        *(opened, configurations, out),
        users=chosen,
        jobs=jobs,
        engine=engine,
        keep=keep,
        fresh=fresh,
        merge=merge or (),
        context=context,
        names=names_of(names),
    )
    failed = _followed(events, out, lambda data: _say_tuned_on(flags.ledger, chosen, data))
    say_environments(out)
    if failed:
        say(f"All reasons are in {out / 'failed'}; the same command tries again.")
    _print_leaderboards(out, {each.name for each in configurations}, set(chosen))
    return SOME_FAILED if failed else FINE


def _followed(
    events: Generator[BatchEvent], out: Path, say_what_is_known: Callable[[str], None]
) -> int:
    """Do a batch, with its progress and its end on stderr; how many units have failed.

    `say_what_is_known` is given the fingerprint of the data set once that is known.
    """
    from srs_eval.benchmark.plan import Ended, Planned, UnitDone

    plan: Planned | None = None
    finished = failed = 0
    reasons: dict[str, Counter[str]] = {
        "failed": Counter(),
        "skipped": Counter(),
        "done": Counter(),
    }
    try:
        with BatchProgress() as progress, closing(events):
            for event in events:
                progress.show(event)
                match event:
                    case Planned():
                        plan = event
                        say_what_is_known(plan.data)
                    case UnitDone():
                        finished = event.finished
                        reasons[event.unit.status][event.unit.reason] += 1
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
    for status in ("failed", "skipped"):
        for reason, count in reasons[status].most_common(3):
            say(f"{status}: {count:,} x {reason}")
    return failed


def _print_leaderboards(out: Path, configurations: set[str], users: set[int]) -> None:
    """The report's first tables of what was asked for; the folder may hold more."""
    from srs_eval.report.dataset import leaderboards
    from srs_eval.report.document import Document

    if any((out / "result").glob("*.jsonl")):
        console = console_for(sys.stdout)
        document = Document("", (), tuple(leaderboards(out, configurations, users)))
        console.print(document_text(document, console.width, f"`srs-eval report {out}`"))


def report(
    outputs: Outputs,
    folders: list[Path] = typer.Argument(
        help="Folders of results, of `srs-eval batch` or of srs-benchmark.",
        metavar="DIR...",
        show_default=False,
    ),
    baseline: Path | None = option(
        None, "Results of another run: tell what changed.", metavar="DIR"
    ),
    users: str = option(
        "common",
        "Means over the users that all have, or over each one's own.",
        metavar="common|each",
    ),
    metric: str = option(
        "LogLoss", "The metric that pairs, sizes and distributions are of.", metavar="NAME"
    ),
    columns: str = option(
        "LogLoss,RMSE(bins),AUC",
        "Columns of the tables: metrics of result files (ICI, smECE, ...) and seconds.",
        metavar="A,B",
    ),
    average: str = option(
        "user",
        "Side by side: global, user, deck, card. All but user need predictions in raw/.",
        metavar="A,B",
    ),
) -> int:
    """Tables, pairs and pictures of results of many users."""
    from srs_eval.report.dataset import dataset_report

    outputs.check(*folders, baseline)
    document = dataset_report(
        folders,
        metric=metric,
        columns=columns.split(","),
        users=one_of("--users", users, ("common", "each")),
        average=average.split(","),
        baseline=baseline,
    )
    outputs.write(document)
    return FINE


def audit(
    flags: Flags,
    context: Context,
    outputs: Outputs,
    dataset: str = typer.Argument(
        help="Folder of a data set, or the name of a downloaded one.", show_default=False
    ),
    models: ModelsOption = "fast",
    trials: int = option(
        30, "Set-ups that are tried for each configuration, besides the published one.", min=1
    ),
    repeats: int = option(3, "Seeds that are evaluated, where a training has seeds.", min=1),
    seed: int = option(0, "Random seed of the search.", min=0),
    users: _UsersOption = None,
    max_user_id: _MaxUserOption = None,
    out: Path = output_option(Path("audit"), "Folder of what is found."),
    jobs: JobsOption = None,
    fresh: _FreshOption = False,
) -> int:
    """Does a ranking survive when every model's training is tuned alike?"""
    from srs_eval.batch import run_batch
    from srs_eval.benchmark.audit import Audit, run_audit
    from srs_eval.benchmark.plan import Ended, Planned, UnitDone
    from srs_eval.report.dataset import audit_document

    opened = _opened(dataset, flags)
    outputs.check(out, opened.folder)
    chosen = users_chosen(opened, users, max_user_id)
    found: Audit | None = None
    finished = 0
    events = run_audit(
        *(opened, _on_a_data_set(flags, models), out),
        evaluate=run_batch,
        users=chosen,
        trials=trials,
        repeats=repeats,
        seed=seed,
        jobs=jobs,
        fresh=fresh,
        context=context,
    )
    try:
        with BatchProgress() as progress, closing(events):
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
    outputs.write(audit_document(found))
    say(f"The set-ups are in {out / 'ledger.json'}, results in {out}; docs/audit.md tells more.")
    return SOME_FAILED if found.failed else FINE


def _opened(dataset: str, flags: Flags) -> Dataset:
    """A data set that the flags can be used on; raises InputError."""
    from srs_eval.data.datasets import open_dataset

    refuse_rows_of_anki(flags)
    opened = open_dataset(dataset)
    if opened.missing_tables:
        lacking = f"The data set has no folder {' and no folder '.join(opened.missing_tables)}"
        if flags.protocol.partitions != "none":
            raise InputError(f"{lacking}: leave --partitions {flags.protocol.partitions} out.")
        say(f"{lacking}: what rests on decks (SM2, Ebisu) is skipped for every user.")
    return opened


def _on_a_data_set(flags: Flags, models: str) -> list[Configuration]:
    """What is named, with the averages that several are compared to; raises InputError."""
    from srs_eval.engine.ranking import with_baselines

    configurations = [each for each in flags.resolve(models) if each.fit != "own"]
    if not configurations:
        raise InputError("A data set holds no parameters of presets: evaluate a collection.")
    if len(configurations) == 1:
        return configurations
    # What is compared stands on the average. AVG-known_decks has to be named: most users
    # have no deleted cards, and srs-benchmark knows no such file.
    return with_baselines(configurations, leaves_out=False)


def _say_tuned_on(
    ledger: Ledger | None, users: Sequence[int], data: str, others: str = "--users takes others"
) -> None:
    """That figures are optimistic on users whose training parts have chosen a ledger's set-ups.

    `data` is the fingerprint of the users' data set; `others` says how to take other users.
    """

    seen = ledger.users.intersection(users) if ledger is not None and ledger.data == data else ()
    if ledger is not None and seen:
        on = f"{len(seen):,} of {counted(len(users), 'user')} here: for these,"
        on = "this user:" if len(users) == 1 else on
        say(f'"{ledger.path}" was tuned on {on} figures of tuned models are optimistic; {others}.')


def refuse_rows_of_anki(flags: Flags) -> None:
    if flags.protocol.rows != "benchmark":
        raise InputError(
            f"The rows of data sets and tables are chosen already, as the benchmark does: "
            f"leave --rows {flags.protocol.rows} out."
        )


def say_tuned_on_user(ledger: Ledger | None, source: Source, log: ReviewLog) -> None:
    """As a batch says it, of the one user of a data set."""
    from srs_eval.benchmark.plan import survey
    from srs_eval.data.datasets import is_dataset, open_dataset

    if ledger is None or source.path is None or log.user not in ledger.users:
        return
    if is_dataset(source.path):  # a file of one user does not tell of which data set it is
        fingerprint = survey(open_dataset(source.path))[0]
        _say_tuned_on(ledger, [log.user], fingerprint, "--user takes another")
