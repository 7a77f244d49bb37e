"""Commands on many users: their data sets, batches, folders of results, reports on them."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from srs_eval.cli.options import (
    FINE,
    SOME_FAILED,
    Flags,
    Outputs,
    Source,
    check_targets,
    command,
    json_and_console,
    say_repeated,
)
from srs_eval.data.errors import InputError, counted, require
from srs_eval.data.memory import prepare_for_evaluating
from srs_eval.report.console import (
    BatchProgress,
    console_for,
    document_text,
    say,
    share_done,
    show,
    spans,
)

if TYPE_CHECKING:
    from srs_eval.benchmark.audit import Audit
    from srs_eval.benchmark.plan import BatchEvent
    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.datasets import Dataset
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models import Model
    from srs_eval.models.configurations import Configuration, Names
    from srs_eval.training.hyperparameters import Context, TrainingRecord

    _Event = BatchEvent | Audit


def batch(
    flags: Flags,
    context: Context,
    raw: bool = False,
    file: bool = False,
    plot: bool = False,
    dataset: str | None = None,
    users: str | None = None,
    max_user_id: int | None = None,
    models: str | None = None,
    predictions: Path | None = None,
    name: str = "",
    setup: Path | None = None,
    out: Path = Path("results"),
    jobs: int | None = None,
    engine: str = "local",
    shard: str | None = None,
    names: Names = "2025",
    label: str = "",
    fresh: bool = False,
    redo: list[str] | None = None,
    merge: list[Path] | None = None,
) -> int:
    """Evaluate users x configurations of a data set; a re-run does what is missing."""
    from srs_eval.batch import others_in, run_batch
    from srs_eval.benchmark.plan import is_engine
    from srs_eval.benchmark.result_files import raw_parquet, raw_table
    from srs_eval.benchmark.setup import with_labels
    from srs_eval.data.datasets import shard_of
    from srs_eval.engine.session import Session
    from srs_eval.models.given import OF_FILE
    from srs_eval.models.rwkv import with_rwkv
    from srs_eval.report.pictures import calibration_png
    from srs_eval.training.networks import refuse_unused

    models = with_rwkv(models or ("" if predictions else "all"), context)
    flags = flags.set_up_by(setup, models)
    if dataset is None:
        raise InputError("Which data set? Name its folder with --dataset.")
    if raw:
        require("pyarrow", "--raw")
    opened = _opened(dataset, flags)
    if not is_engine(engine):
        raise InputError(f"--engine is local, dask-local or dask://HOST:PORT, not {engine}.")
    chosen = _users_chosen(opened, users, max_user_id)
    configurations = _on_a_data_set(flags, models, predictions is None) if models else []
    refuse_unused(context, {each.model.name for each in configurations})
    configurations = with_labels(configurations, label)
    others = None
    if predictions is not None or name:
        others = others_in(predictions, name, with_labels(flags.resolve(OF_FILE), label)[0])
        configurations = others.beside(configurations)
    if shard is not None and not (chosen := shard_of(chosen, shard)):
        say(f"No user falls to shard {shard}: nothing to do.")
        return FINE
    keep = {"raw": (raw, raw_parquet), "file": (file, raw_table), "plot": (plot, calibration_png)}
    events = run_batch(
        *(opened, configurations, out),
        users=chosen,
        jobs=jobs,
        engine=engine,
        keep={kind: make for kind, (wanted, make) in keep.items() if wanted},
        fresh=fresh,
        redo=_renewed(redo or (), configurations),
        merge=merge or (),
        context=context,
        names=names,
        session=others or Session,
    )
    failed = _followed_to_its_end(events, flags.ledger, chosen, out)
    _print_leaderboards(out, {each.name for each in configurations}, set(chosen))
    return SOME_FAILED if failed else FINE


def _followed_to_its_end(
    events: Generator[BatchEvent], ledger: Ledger | None, users: Sequence[int], out: Path
) -> int:
    """What became of a batch is said; how many units have failed."""
    from srs_eval.benchmark.plan import Ended, Planned, UnitDone

    failed = 0
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for event in _followed(events):
        match event:
            case Planned():
                _say_tuned_on(ledger, users, event.data)
            case UnitDone(unit=unit):
                reasons[unit.status][unit.reason] += 1
            case Ended(done=done, failed=failed, skipped=skipped):
                say(
                    f"{done:,} done, {skipped:,} skipped, {failed:,} failed; "
                    f"results are in {out / 'result'}"
                )
    for status in ("failed", "skipped"):
        for reason, count in reasons[status].most_common(3):
            say(f"{status}: {count:,} x {reason}")
    _say_environments(out)
    if failed:
        say(f"All reasons are in {out / 'failed'}; the same command tries again.")
    return failed


def _renewed(redo: Sequence[str], configurations: Sequence[Configuration]) -> set[str]:
    """Those that are to be renewed, with those on the reviews that they have; InputError."""
    from srs_eval.models.configurations import meant_by

    wanted = {meant_by(each) or each for each in redo}
    if absent := sorted(wanted - {each.name for each in configurations}):
        raise InputError(f"--redo {absent[0]}: this command does not evaluate it; name it, too.")
    on = tuple(f" on {each}" for each in wanted)
    return {each.name for each in configurations if f" {each.label}".endswith(on)} | wanted


def _followed(events: Generator[_Event]) -> Iterator[_Event]:
    """What a batch or an audit brings, with its progress on stderr."""
    with BatchProgress() as progress, closing(events):
        try:
            for event in events:
                progress.show(event)
                yield event
        except KeyboardInterrupt:
            if progress.units:
                say(
                    f"Interrupted: {progress.finished:,} of {progress.units:,} units are done and "
                    "kept; the same command goes on from there."
                )
            raise


def _print_leaderboards(out: Path, configurations: set[str], users: set[int]) -> None:
    """The report's first tables of what was asked for; the folder may hold more."""
    from srs_eval.report.dataset import leaderboards
    from srs_eval.report.document import Document

    if any((out / "result").glob("*.jsonl")):
        console = console_for(sys.stdout)
        document = Document("", (), tuple(leaderboards(out, configurations, users)))
        console.print(document_text(document, console.width, f"`srs-eval report {out}`"))


def audit(
    flags: Flags,
    context: Context,
    outputs: Outputs,
    dataset: str,
    models: str = "fast",
    trials: int = 30,
    repeats: int = 3,
    seed: int = 0,
    users: str | None = None,
    max_user_id: int | None = None,
    out: Path = Path("audit"),
    jobs: int | None = None,
    fresh: bool = False,
) -> int:
    """Does a ranking survive when every model's training is tuned alike?"""
    from srs_eval.batch import run_batch
    from srs_eval.benchmark.audit import Audit, run_audit
    from srs_eval.report.audit import audit_document

    opened = _opened(dataset, flags)
    outputs.check(out, opened.folder)
    chosen = _users_chosen(opened, users, max_user_id)
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
    found = deque(_followed(events), 1).pop()
    assert isinstance(found, Audit)
    outputs.write(audit_document(found))
    say(f"The set-ups are in {out / 'ledger.json'}, results in {out}; docs/audit.md tells more.")
    return SOME_FAILED if found.failed else FINE


def pretrain(model: Model, dataset: str, users: str, out: Path, context: Context) -> int:
    """Train a model across users, and write its weights; raises InputError."""
    from srs_eval.benchmark.plan import survey
    from srs_eval.data.datasets import open_dataset
    from srs_eval.data.readers.features import read_features
    from srs_eval.engine.own_models import pretrained_on
    from srs_eval.training.hyperparameters import TrainingRecord
    from srs_eval.training.networks import Origin, save_pretrained

    prepare_for_evaluating()
    opened = open_dataset(dataset)
    chosen = _users_chosen(opened, users)
    check_targets([opened.folder, context.features], str(out))
    if context.features is not None:
        read_features(context.features, -1, of_users=True)
    fingerprint, _ = survey(opened)
    record = TrainingRecord(on_change=lambda record: _say_training(model, record))
    with share_done(f"Pretraining {model.name}") as tell:
        told = replace(context, tick=lambda part: tell("", part), record=record)
        arrays, sketches = pretrained_on(model, opened, chosen, told)
    origin = Origin(users, fingerprint, sketches, record.settings, record.epochs)
    save_pretrained(out, model.name, origin, arrays)
    say(
        f"{model.name} was trained on {len(sketches):,} of {counted(len(chosen), 'user')} of the "
        f'data set {fingerprint[:8]}. For others: srs-eval batch --weights "{out}"'
    )
    return FINE


def _say_training(model: Model, record: TrainingRecord) -> None:
    """Print what a pretraining has just written down: its settings, or its last epoch."""
    from srs_eval.training.hyperparameters import setup_in_words

    if not record.epochs:
        say(f"{model.name}: {setup_in_words(record.settings)}")
        return
    epoch = record.epochs[-1]
    losses = {"log loss": epoch.loss, "held out": epoch.held_out_loss}
    texts = [f"{name} {loss:.4f}" for name, loss in losses.items() if loss is not None]
    say(f"epoch {len(record.epochs)}: {', '.join(texts)}")


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


def _on_a_data_set(flags: Flags, models: str, alone: bool = True) -> list[Configuration]:
    """What is named, with the averages that several are compared to; raises InputError.

    Whoever is not `alone` is compared to others that are not named here.
    """
    from srs_eval.engine.ranking import with_baselines

    configurations = [each for each in flags.resolve(models) if each.fit != "own"]
    if not configurations:
        raise InputError("A data set holds no parameters of presets: evaluate a collection.")
    if alone and len(configurations) == 1:
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


# --- folders of results and of data sets


results = typer.Typer(help="Check result folders, or make one of several.")
dataset = typer.Typer(help="Download or make a data set, say what a folder holds, or check it.")


def _check(folders: list[Path], repair: bool = False) -> int:
    """Check result folders, ours or srs-benchmark's."""
    from srs_eval.benchmark import check

    left = 0
    for folder in folders:
        found = check.check(folder)
        remaining = check.repair(folder, found) if repair else found
        for each in found:
            mended = f"; {each.remedy}" if each not in remaining else ""
            hint = f" (--repair: {each.remedy})" if each.remedy and not repair else ""
            show(f"{each.path}: {each.what}{mended}{hint}")
        if not any(each.wrong for each in found):
            show(f"{folder}: nothing is wrong")
        left += sum(each.wrong for each in remaining)
    return SOME_FAILED if left else FINE


def _merge(folders: list[Path], out: Path, take_what_is_whole: bool = False) -> int:
    """Make one folder of several of `srs-eval batch`, with the same settings."""
    from srs_eval.benchmark.check import DamagedParts, merge

    try:
        taken, lost = merge(folders, out, take_what_is_whole=take_what_is_whole)
    except DamagedParts as error:
        say(f"srs-eval: {error}")
        return SOME_FAILED
    say(f"{counted(taken, 'unit')} taken over; results are in {out / 'result'}")
    if lost:
        say(f"Damaged and left out: {lost}.")
    _say_environments(out)
    return FINE


def _info(folder: str, json: str | None = None) -> int:
    """Say what a data set's folder holds."""
    from srs_eval.data.dataset_hub import describe
    from srs_eval.data.datasets import open_dataset
    from srs_eval.report.export import dataset_document, dataset_lines

    opened = open_dataset(folder)
    check_targets([opened.folder], json)
    found = describe(opened)
    if json_and_console(json, dataset_document(found)):
        show("\n".join(dataset_lines(found)))
    return FINE


def _download(folder: str, users: str | None = None, repo: str | None = None) -> int:
    """Download a data set of many users, or what of it is not there."""
    from srs_eval.data import dataset_hub as hub
    from srs_eval.data.datasets import CONDITIONS, datasets_folder, page_of

    target = Path(folder).expanduser()
    if folder in hub.KNOWN and not target.exists():
        target = datasets_folder() / folder
    repo = hub.repo_of(target, repo)
    say(
        f"{repo} goes to {target}. Its licence is between you and its owner ({page_of(repo)}): it "
        f"{CONDITIONS}."
    )
    fetched, listed = 0, None
    try:
        with (
            share_done(f"Asking the hub for {repo} ...") as tell,
            closing(hub.download(repo, target, users)) as events,
        ):
            for event in events:
                size = f"{counted(event.files, 'file')}, {event.bytes / 1e6:,.1f} MB"
                if isinstance(event, hub.Listed):
                    listed = event
                    say(f"{counted(len(event.users), 'user')}, {size}")
                elif listed is not None:
                    fetched += not event.was_there
                    tell(size, event.files / listed.files)
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


def _make(
    files: list[Path], out: Path, timezone: str | None = None, rollover: int | None = None
) -> int:
    """Make a data set of participants' files, without names, dates and contents."""
    from srs_eval.anki_import import load_log
    from srs_eval.data.datasets import make_dataset

    require("pyarrow", "A data set")

    def read() -> Iterator[tuple[Path, ReviewLog]]:
        for path in files:
            log = load_log(path, timezone=timezone, rollover=rollover)
            say_repeated(log, f"{path}: ")
            yield path, log

    with console_for(sys.stderr).status("Reading ..."):
        reviews, mapping = make_dataset(read(), out)
    show(f"{counted(len(files), 'user')}, {counted(reviews, 'review')}: {out}")
    show(f"{mapping} tells whose is whose. Keep it, and do not publish it.")
    return FINE


def _verify(folder: str, users: str | None = None) -> int:
    """Check every file of a data set."""
    from srs_eval.data.dataset_hub import check
    from srs_eval.data.datasets import open_dataset

    opened = open_dataset(folder)
    chosen = _users_chosen(opened, users)
    damaged: list[int] = []
    hashes = 0
    with share_done("Reading") as tell, closing(check(opened, chosen)) as checked:
        for done, user in enumerate(checked, start=1):
            hashes += user.hashes
            for finding in user.findings:
                show(finding)
            if user.findings:
                damaged.append(user.user)
            tell(f"{done:,} of {len(chosen):,} users read", done / len(chosen))
    known = f"{counted(hashes, 'file')} with the hub's hash" if hashes else "no hash to compare"
    if not damaged:
        show(f"{opened.folder}: {counted(len(chosen), 'user')} read, {known}: nothing is wrong")
        return FINE
    named = ",".join(map(str, damaged[:20])) + (",..." if len(damaged) > 20 else "")
    raise InputError(
        f"{counted(len(damaged), 'user')} of {len(chosen):,} cannot be used as they are ({known}): "
        f"`srs-eval dataset download {folder} --users {named}` fetches what is not as on the hub."
    )


for _group, _commands in (
    (results, (_check, _merge)),
    (dataset, (_info, _verify, _download, _make)),
):
    for _command in _commands:
        _group.command(_command.__name__.lstrip("_"))(command(_command, evaluates=False))


def _users_chosen(dataset: Dataset, users: str | None, max_user_id: int | None = None) -> list[int]:
    """The users that options name; says who of them is not there. Raises InputError."""
    from srs_eval.data.datasets import absent_users, select_users

    chosen = select_users(dataset.users, users, max_user_id)
    gaps = [] if users is None else absent_users(dataset.users, users, max_user_id)
    if gaps:
        say(f"Not in this data set, and left out: {spans(gaps)}.")
    return chosen


def _say_environments(out: Path) -> None:
    """In what the parts of a folder's results differ, and what is wrong with somebody's models."""
    from srs_eval.benchmark.setup import different_environments, read_setup, remarks

    setup = read_setup(out)
    for remark in remarks(setup) if setup else ():
        say(f"{remark}.")
    if different := different_environments(setup or {}):
        say(f"These results were not all made alike: {'; '.join(different)}.")
