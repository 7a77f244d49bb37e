"""Define the commands on many users: batches, audits, result folders and data sets."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from srs_eval.cli import options
from srs_eval.cli.exit_codes import PARTIAL_FAILURE, SUCCESS
from srs_eval.cli.outputs import (
    Outputs,
    check_targets,
    make_absolute,
    write_json_and_pick_console,
)
from srs_eval.cli.settings import (
    ProtocolFlags,
    Source,
    build_context,
    build_protocol_flags,
    prepare_to_evaluate,
    prepare_to_read,
    report_repeated_entries,
)
from srs_eval.data.errors import InputError, format_count, require
from srs_eval.data.memory import reserve_blas_memory
from srs_eval.data.protocol import Protocol
from srs_eval.report.console import (
    BatchProgress,
    get_width,
    make_console,
    progress_line,
    render_document,
    say,
    show,
)
from srs_eval.report.formats import format_ranges

if TYPE_CHECKING:
    from srs_eval.benchmark.audit import Audit
    from srs_eval.benchmark.plan import BatchEvent
    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.datasets import Dataset
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models import Model
    from srs_eval.models.configurations import Configuration
    from srs_eval.training.hyperparameters import Context, TrainingRecord

    _BatchOrAuditEvent = BatchEvent | Audit


def batch(
    rows: options.Rows = "benchmark",
    secs: options.Secs = False,
    clock: options.Clock = "seconds",
    short: options.Short = False,
    recency: options.Recency = False,
    two_buttons: options.TwoButtons = False,
    default: options.Default = False,
    S0: options.S0 = False,
    partitions: options.Partitions = "none",
    fallback_user: options.FallbackUser = False,
    train_equals_test: options.TrainEqualsTest = False,
    no_test_same_day: options.NoTestSameDay = False,
    no_train_same_day: options.NoTrainSameDay = False,
    equalize_test_with_non_secs: options.EqualizeTestWithNonSecs = False,
    disable_short_term: options.DisableShortTerm = False,
    sched_penalties: options.SchedPenalties = False,
    split: options.BatchSplit = "time",
    train_until: options.TrainUntil = "",
    train_months: options.TrainMonths = 0,
    n_splits: options.NSplits = 5,
    batch_size: options.BatchSize = 512,
    max_seq_len: options.MaxSeqLen = 64,
    gamma: options.Gamma = 1.0,
    seed: options.TrainingSeed = 0,
    seeds: options.Seeds = 1,
    sm2_target: options.Sm2Target = 0.9,
    weights: options.Weights = None,
    device: options.Device = "cpu",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    seen_users: options.SeenUsers = False,
    raw: options.Raw = False,
    file: options.File = False,
    plot: options.Plot = False,
    dataset: options.Dataset = None,
    users: options.Users = None,
    max_user_id: options.MaxUserId = None,
    models: options.BatchModels = None,
    predictions: options.BatchPredictions = None,
    name: options.Name = "",
    setup: options.Setup = None,
    out: options.BatchOut = Path("results"),
    jobs: options.Jobs = None,
    engine: options.Engine = "local",
    shard: options.Shard = None,
    names: options.Names = "2025",
    label: options.Label = "",
    fresh: options.Fresh = False,
    redo: options.Redo = None,
    merge: options.Merge = None,
) -> int:
    """Evaluate models on the users of a data set. Run it again to finish what is missing."""
    from srs_eval.batch import open_prediction_file, run_batch
    from srs_eval.benchmark.plan import is_engine
    from srs_eval.benchmark.result_files import render_raw_parquet, render_raw_table
    from srs_eval.benchmark.setup import add_labels, repeat_with_seeds
    from srs_eval.benchmark.user_parts import refuse_idle_user_split
    from srs_eval.data.datasets import select_shard
    from srs_eval.engine.session import LearnerSession
    from srs_eval.models.given import FILE_PREDICTIONS
    from srs_eval.models.rwkv import add_rwkv_models
    from srs_eval.report.pictures import render_calibration_png
    from srs_eval.training.networks import refuse_unused_weights

    prepare_to_evaluate()
    out = make_absolute(out)
    flags = build_protocol_flags(
        Protocol(
            rows=rows,
            secs=secs,
            clock=clock,
            short=short,
            recency=recency,
            two_buttons=two_buttons,
            partitions=partitions,
            fallback_user=fallback_user,
            train_equals_test=train_equals_test,
            no_test_same_day=no_test_same_day,
            no_train_same_day=no_train_same_day,
            equalize_test_with_non_secs=equalize_test_with_non_secs,
            disable_short_term=disable_short_term,
            sched_penalties=sched_penalties,
            split=split,
            train_until=train_until,
            train_months=train_months,
            n_splits=n_splits,
            batch_size=batch_size,
            max_seq_len=max_seq_len,
            gamma=gamma,
            seed=seed,
        ),
        default=default,
        S0=S0,
    )
    context = build_context(
        sm2_target=sm2_target,
        weights=weights,
        device=device,
        model_file=model_file,
        features=features,
        seen_users=seen_users,
    )
    models = add_rwkv_models(models or ("" if predictions else "all"), context)
    flags = flags.with_ledger(setup, models)
    if dataset is None:
        raise InputError("Which data set? Name its folder with --dataset.")
    if raw:
        require("pyarrow", "--raw")
    opened_dataset = _open_dataset(dataset, flags)
    if not is_engine(engine):
        raise InputError(f"--engine is local, dask-local or dask://HOST:PORT, not {engine}.")
    selected_users = _select_users(opened_dataset, users, max_user_id)
    configurations = []
    if models:

        def resolve_with_seed(seed: int) -> list[Configuration]:
            protocol = replace(flags.protocol, seed=seed)
            return _resolve_for_dataset(
                replace(flags, protocol=protocol),
                models,
                has_other_competitors=predictions is not None,
            )

        configurations = repeat_with_seeds(resolve_with_seed, label, seed, seeds)
    _check_user_split(split, shard=shard, predictions=predictions)
    refuse_idle_user_split(split, configurations)
    model_names = {configuration.model.name for configuration in configurations}
    refuse_unused_weights(context, model_names)
    prediction_file = None
    if predictions is not None or name:
        base = add_labels(flags.resolve(FILE_PREDICTIONS), label)[0]
        prediction_file = open_prediction_file(predictions, name, base)
        configurations = prediction_file.add_comparisons(configurations)
    if shard is not None:
        selected_users = select_shard(selected_users, shard)
        if not selected_users:
            say(f"Shard {shard} has no users: nothing to do.")
            return SUCCESS
    file_makers: dict[str, Callable[..., bytes]] = {}
    if raw:
        file_makers["raw"] = render_raw_parquet
    if file:
        file_makers["file"] = render_raw_table
    if plot:
        file_makers["plot"] = render_calibration_png
    events = run_batch(
        opened_dataset,
        configurations,
        out,
        users=selected_users,
        jobs=jobs,
        engine=engine,
        file_makers=file_makers,
        fresh=fresh,
        redo=_resolve_redo(redo or (), configurations),
        merge=merge or (),
        context=context,
        naming=names,
        session_factory=prediction_file or LearnerSession,
    )
    failed = _run_to_end(events, flags.ledger, selected_users, out)
    configuration_names = {configuration.name for configuration in configurations}
    _print_leaderboards(out, configuration_names, set(selected_users))
    return PARTIAL_FAILURE if failed else SUCCESS


def _check_user_split(split: str, *, shard: str | None, predictions: Path | None) -> None:
    """Raise InputError for options that do not go with `--split users`."""
    if split != "users":
        return
    if shard is not None:
        raise InputError(
            "--split users trains on the users of all parts, but --shard leaves users out: use "
            "only one of the two options."
        )
    if predictions is not None:
        raise InputError(
            "--split users and --predictions cannot be combined: run two commands, with the same "
            "--out if you like."
        )


def _run_to_end(
    events: Generator[BatchEvent], ledger: Ledger | None, users: Sequence[int], out: Path
) -> int:
    """Run a batch, print its outcome and frequent reasons, and return how many units failed.

    Warns if the users are among those that `ledger` was tuned on.
    """
    from srs_eval.benchmark.plan import Ended, Planned, UnitDone

    failed = 0
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for event in _with_progress(events):
        match event:
            case Planned():
                _warn_tuned_on(ledger, users, event.fingerprint)
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
    _warn_about_results(out)
    if failed:
        say(f"All reasons are in {out / 'failed'}; run the same command to try again.")
    return failed


def _resolve_redo(redo: Sequence[str], configurations: Sequence[Configuration]) -> set[str]:
    """Return the names of the configurations to evaluate again.

    If `redo` names external predictions, these are also the configurations that are evaluated on
    the reviews that they cover (`NAME on PREDICTIONS`). Raises InputError if this command does not
    evaluate one of `redo`.
    """
    from srs_eval.models.configurations import find_meaning

    requested = {find_meaning(name) or name for name in redo}
    absent = sorted(requested - {configuration.name for configuration in configurations})
    if absent:
        raise InputError(
            f"--redo {absent[0]}: this model is not among those of --models; add it there."
        )
    endings = tuple(f" on {name}" for name in requested)
    names = set(requested)
    for configuration in configurations:
        # A label may consist of "on NAME" alone, hence the space in front of it.
        if f" {configuration.label}".endswith(endings):
            names.add(configuration.name)
    return names


def _with_progress(events: Generator[_BatchOrAuditEvent]) -> Iterator[_BatchOrAuditEvent]:
    """Yield the events of a batch or an audit, with progress on stderr."""
    with BatchProgress() as progress, closing(events):
        try:
            for event in events:
                progress.show(event)
                yield event
        except KeyboardInterrupt:
            if progress.units:
                say(
                    f"Interrupted: {progress.finished:,} of {progress.units:,} units are finished "
                    "and kept; run the same command to continue."
                )
            raise


def _print_leaderboards(out: Path, configurations: set[str], users: set[int]) -> None:
    """Print the report's first tables, only for these configurations and users.

    The folder may hold results of others.
    """
    from srs_eval.report.dataset import build_leaderboards
    from srs_eval.report.document import Document

    if any((out / "result").glob("*.jsonl")):
        console = make_console(sys.stdout)
        sections = tuple(build_leaderboards(out, configurations, users))
        document = Document(title="", lead=(), sections=sections)
        console.print(render_document(document, get_width(console), f"`srs-eval report {out}`"))
        say("How reviews are chosen and evaluated: docs/protocol.md.")


def audit(
    *,
    rows: options.Rows = "benchmark",
    secs: options.Secs = False,
    clock: options.Clock = "seconds",
    short: options.Short = False,
    recency: options.Recency = False,
    two_buttons: options.TwoButtons = False,
    default: options.Default = False,
    S0: options.S0 = False,
    partitions: options.Partitions = "none",
    fallback_user: options.FallbackUser = False,
    train_equals_test: options.TrainEqualsTest = False,
    no_test_same_day: options.NoTestSameDay = False,
    no_train_same_day: options.NoTrainSameDay = False,
    equalize_test_with_non_secs: options.EqualizeTestWithNonSecs = False,
    disable_short_term: options.DisableShortTerm = False,
    sched_penalties: options.SchedPenalties = False,
    n_splits: options.NSplits = 5,
    batch_size: options.BatchSize = 512,
    max_seq_len: options.MaxSeqLen = 64,
    gamma: options.Gamma = 1.0,
    sm2_target: options.Sm2Target = 0.9,
    weights: options.Weights = None,
    device: options.Device = "cpu",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    seen_users: options.SeenUsers = False,
    html: options.Html = None,
    md: options.Md = None,
    csv: options.Csv = None,
    json: options.Json = None,
    open: options.Open = False,
    dataset: options.AuditDataset,
    models: options.Models = "fast",
    trials: options.Trials = 30,
    repeats: options.Repeats = 3,
    seed: options.Seed = 0,
    users: options.Users = None,
    max_user_id: options.MaxUserId = None,
    out: options.AuditOut = Path("audit"),
    jobs: options.Jobs = None,
    fresh: options.Fresh = False,
) -> int:
    """Test whether a ranking survives when every model's training is tuned alike."""
    from srs_eval.batch import run_batch
    from srs_eval.benchmark.audit import Audit, run_audit
    from srs_eval.report.audit import build_audit_document

    prepare_to_evaluate()
    out = make_absolute(out)
    outputs = Outputs(
        html=make_absolute(html),
        md=make_absolute(md),
        csv=make_absolute(csv),
        json=make_absolute(json),
        open=open,
    )
    flags = build_protocol_flags(
        Protocol(
            rows=rows,
            secs=secs,
            clock=clock,
            short=short,
            recency=recency,
            two_buttons=two_buttons,
            partitions=partitions,
            fallback_user=fallback_user,
            train_equals_test=train_equals_test,
            no_test_same_day=no_test_same_day,
            no_train_same_day=no_train_same_day,
            equalize_test_with_non_secs=equalize_test_with_non_secs,
            disable_short_term=disable_short_term,
            sched_penalties=sched_penalties,
            n_splits=n_splits,
            batch_size=batch_size,
            max_seq_len=max_seq_len,
            gamma=gamma,
        ),
        default=default,
        S0=S0,
    )
    context = build_context(
        sm2_target=sm2_target,
        weights=weights,
        device=device,
        model_file=model_file,
        features=features,
        seen_users=seen_users,
    )
    opened_dataset = _open_dataset(dataset, flags)
    outputs.check(out, opened_dataset.folder)
    selected_users = _select_users(opened_dataset, users, max_user_id)
    events = run_audit(
        opened_dataset,
        _resolve_for_dataset(flags, models),
        out,
        evaluate=run_batch,
        users=selected_users,
        trials=trials,
        repeats=repeats,
        seed=seed,
        jobs=jobs,
        fresh=fresh,
        context=context,
    )
    last_event = deque(_with_progress(events), maxlen=1).pop()
    assert isinstance(last_event, Audit)
    outputs.write(build_audit_document(last_event))
    say(f"The set-ups are in {out / 'ledger.json'}, results in {out}; docs/audit.md says more.")
    return PARTIAL_FAILURE if last_event.failed else SUCCESS


def pretrain(
    model: Model, dataset: str, users: str, out: Path, context: Context, seed: int = 0
) -> int:
    """Train a model on many users together, and write its weights to `out`.

    Raises InputError also if a seed is given to a model that does not declare SEED.
    """
    from srs_eval.benchmark.plan import survey_dataset
    from srs_eval.data.datasets import open_dataset
    from srs_eval.data.readers.features import read_features
    from srs_eval.engine.own_models import pretrain_on_users
    from srs_eval.models import TrainedModel
    from srs_eval.training.hyperparameters import SEED, TrainingRecord
    from srs_eval.training.networks import WeightsOrigin, save_pretrained

    if seed:
        if not isinstance(model, TrainedModel) or SEED not in model.hyperparameters:
            raise InputError(
                f"{model.name} has no hyperparameter SEED, so --seed would change nothing."
            )
        context = replace(context, hyperparameters={SEED.name: seed})
    reserve_blas_memory()
    opened_dataset = open_dataset(dataset)
    selected_users = _select_users(opened_dataset, users)
    check_targets([opened_dataset.folder, context.features], str(out))
    if context.features is not None:
        # No user has the id -1: this only checks the table's columns.
        read_features(context.features, -1, needs_user_id=True)
    fingerprint, _ = survey_dataset(opened_dataset)
    record = TrainingRecord(on_change=lambda record: _print_training(model, record))
    with progress_line(f"Pretraining {model.name}") as show_progress:
        training_context = replace(
            context, tick=lambda share: show_progress("", share), record=record
        )
        arrays, sketches = pretrain_on_users(
            model, opened_dataset, selected_users, training_context
        )
    origin = WeightsOrigin(users, fingerprint, sketches, record.settings, record.epochs)
    save_pretrained(out, model.name, origin, arrays)
    user_count = format_count(len(selected_users), "user")
    say(
        f"{model.name} was trained on {len(sketches):,} of {user_count} of the "
        f"data set {fingerprint[:8]}. To use these weights for other users, run: "
        f'srs-eval batch --weights "{out}"'
    )
    return SUCCESS


def _print_training(model: Model, record: TrainingRecord) -> None:
    """Print a pretraining's last epoch, or its settings before the first one ends."""
    from srs_eval.training.hyperparameters import describe_values

    if not record.epochs:
        say(f"{model.name}: {describe_values(record.settings)}")
        return
    epoch = record.epochs[-1]
    losses = {"log loss": epoch.loss, "held out": epoch.held_out_loss}
    texts = [f"{name} {loss:.4f}" for name, loss in losses.items() if loss is not None]
    say(f"epoch {len(record.epochs)}: {', '.join(texts)}")


def _open_dataset(dataset: str, flags: ProtocolFlags) -> Dataset:
    """Open a data set, and report what it lacks.

    Raises InputError, also if the flags cannot be used on it.
    """
    from srs_eval.data.datasets import open_dataset

    refuse_anki_rows(flags)
    opened_dataset = open_dataset(dataset)
    if opened_dataset.missing_tables:
        folders = " and no folder ".join(opened_dataset.missing_tables)
        problem = f"The data set has no folder {folders}"
        if flags.protocol.partitions != "none":
            raise InputError(f"{problem}: leave --partitions {flags.protocol.partitions} out.")
        say(f"{problem}: models that need decks (SM2, Ebisu) are skipped for every user.")
    return opened_dataset


def _resolve_for_dataset(
    flags: ProtocolFlags, models: str, *, has_other_competitors: bool = False
) -> list[Configuration]:
    """Return the named configurations, with the average as baseline if several are compared.

    `has_other_competitors` says that they are compared with predictions from a file, too. Raises
    InputError.
    """
    from srs_eval.engine.ranking import add_baselines

    configurations = [
        configuration for configuration in flags.resolve(models) if configuration.fit != "own"
    ]
    if not configurations:
        raise InputError("A data set holds no parameters of presets: evaluate a collection.")
    if len(configurations) == 1 and not has_other_competitors:
        return configurations
    # AVG-known_decks is added only if it is named: most users have no deleted cards, and
    # srs-benchmark has no such file.
    return add_baselines(configurations, excludes_deleted=False)


def _warn_tuned_on(
    ledger: Ledger | None,
    users: Sequence[int],
    fingerprint: str,
    hint: str = "choose others with --users",
) -> None:
    """Warn that figures are optimistic for users whom the set-ups of a ledger were tuned on.

    `fingerprint` is that of the users' data set; `hint` says how to choose other users.
    """
    if ledger is None or ledger.data != fingerprint:
        return
    tuned_users = ledger.users.intersection(users)
    if not tuned_users:
        return
    if len(users) == 1:
        subject = "this user"
    else:
        user_count = format_count(len(users), "user")
        subject = f"{len(tuned_users):,} of {user_count} here"
    say(
        f'The set-ups in "{ledger.path}" were tuned on {subject}, for whom figures of tuned models '
        f"are optimistic; {hint}."
    )


def refuse_anki_rows(flags: ProtocolFlags) -> None:
    """Raise InputError if `--rows` asks for other rows than the benchmark's."""
    if flags.protocol.rows != "benchmark":
        raise InputError(
            f"The rows of data sets and tables have already been chosen by the benchmark's rule: "
            f"leave out --rows {flags.protocol.rows}."
        )


def warn_tuned_on_user(ledger: Ledger | None, source: Source, log: ReviewLog) -> None:
    """Warn, as a batch does, if the user that was chosen from a data set is one of a ledger's."""
    from srs_eval.benchmark.plan import survey_dataset
    from srs_eval.data.datasets import is_dataset, open_dataset

    if ledger is None or source.path is None or log.user not in ledger.users:
        return
    if is_dataset(source.path):  # a single user's file does not tell its data set
        fingerprint, _ = survey_dataset(open_dataset(source.path))
        _warn_tuned_on(ledger, [log.user], fingerprint, "--user takes another")


# --- folders of results and data sets: `srs-eval results ...` and `srs-eval dataset ...`


results_app = typer.Typer(help="Check result folders, or merge several into one.")
dataset_app = typer.Typer(help="Download, make, describe or check a data set.")


@results_app.command("check")
def _check(folders: options.ResultFolders) -> int:
    """Check result folders of srs-eval or srs-benchmark."""
    from srs_eval.benchmark import check

    prepare_to_read()
    has_errors = False
    for folder in folders:
        problems = check.check_folder(folder)
        for problem in problems:
            note = f"; {problem.remedy}" if problem.remedy else ""
            show(f"{problem.path}: {problem.description}{note}")
        if any(problem.is_error for problem in problems):
            has_errors = True
        elif problems:
            show(f"{folder}: no errors")
        else:
            show(f"{folder}: nothing is wrong")
    return PARTIAL_FAILURE if has_errors else SUCCESS


@results_app.command("merge")
def _merge(
    folders: options.ResultFolders,
    out: options.MergeOut,
    take_what_is_whole: options.TakeWhatIsWhole = False,
) -> int:
    """Merge several folders of `srs-eval batch` with the same settings into one."""
    from srs_eval.benchmark.check import DamagedJournals, merge_folders

    prepare_to_read()
    out = make_absolute(out)
    try:
        unit_count, damaged = merge_folders(folders, out, skip_damaged=take_what_is_whole)
    except DamagedJournals as error:
        say(f"srs-eval: {error}")
        return PARTIAL_FAILURE
    say(f"{format_count(unit_count, 'unit')} taken over; results are in {out / 'result'}")
    if damaged:
        say(f"Damaged and left out: {damaged}.")
    _warn_about_results(out)
    return SUCCESS


@dataset_app.command("info")
def _info(
    folder: options.DatasetFolder,
    json: options.Json = None,
) -> int:
    """Describe what a data set's folder contains."""
    from srs_eval.data.dataset_hub import describe_dataset
    from srs_eval.data.datasets import open_dataset
    from srs_eval.report.export import build_dataset_document, format_dataset

    prepare_to_read()
    json = make_absolute(json)
    opened_dataset = open_dataset(folder)
    check_targets([opened_dataset.folder], json)
    description = describe_dataset(opened_dataset)
    if write_json_and_pick_console(json, build_dataset_document(description)):
        show("\n".join(format_dataset(description)))
    return SUCCESS


@dataset_app.command("verify")
def _verify(
    folder: options.DatasetFolder,
    users: options.Users = None,
) -> int:
    """Check every file of a data set."""
    from srs_eval.data.dataset_hub import check_users
    from srs_eval.data.datasets import open_dataset

    prepare_to_read()
    opened_dataset = open_dataset(folder)
    selected_users = _select_users(opened_dataset, users)
    user_count = len(selected_users)
    damaged_users: list[int] = []
    hashed_file_count = 0
    with (
        progress_line("Reading") as show_progress,
        closing(check_users(opened_dataset, selected_users)) as checked_users,
    ):
        for number, checked_user in enumerate(checked_users, start=1):
            hashed_file_count += checked_user.hashed_files
            for problem in checked_user.problems:
                show(problem)
            if checked_user.problems:
                damaged_users.append(checked_user.user)
            show_progress(f"{number:,} of {user_count:,} users read", number / user_count)
    hashes = "no hash to compare"
    if hashed_file_count:
        hashes = f"{format_count(hashed_file_count, 'file')} with the hub's hash"
    if not damaged_users:
        read_users = format_count(user_count, "user")
        show(f"{opened_dataset.folder}: {read_users} read, {hashes}: nothing is wrong")
        return SUCCESS
    ids = ",".join(map(str, damaged_users[:20]))
    if len(damaged_users) > 20:
        ids += ",..."
    damaged_count = format_count(len(damaged_users), "user")
    raise InputError(
        f"{damaged_count} of {user_count:,} cannot be used as they are ({hashes}): "
        f"`srs-eval dataset download {folder} --users {ids}` replaces files that differ from "
        "the hub's."
    )


def _format_download_size(files: int, size: int) -> str:
    """Return the number of files and their size in bytes as "3 files, 1.2 MB"."""
    return f"{format_count(files, 'file')}, {size / 1e6:,.1f} MB"


@dataset_app.command("download")
def _download(
    folder: options.DatasetFolder,
    users: options.Users = None,
    repo: options.Repo = None,
) -> int:
    """Download a data set of many users, or those of its files that are missing."""
    from srs_eval.data import dataset_hub as hub
    from srs_eval.data.datasets import LICENCE_TERMS, datasets_folder, hub_url

    prepare_to_read()
    target = Path(folder).expanduser()
    if folder in hub.PUBLISHED_NAMES and not target.exists():
        target = datasets_folder() / folder
    repo = hub.resolve_repo(target, repo)
    say(
        f"{repo} will be downloaded to {target}. The licence is between you and the owner of the "
        f"data ({hub_url(repo)}): it {LICENCE_TERMS}."
    )
    fetched_count = 0
    plan = None
    try:
        with (
            progress_line(f"Asking the hub for {repo} ...") as show_progress,
            closing(hub.download(repo, target, users)) as events,
        ):
            for event in events:
                if isinstance(event, hub.DownloadPlan):
                    plan = event
                    size = _format_download_size(event.files, event.bytes)
                    say(f"{format_count(len(event.users), 'user')}, {size}")
                elif plan is not None:
                    if not event.was_present:
                        fetched_count += 1
                    size = _format_download_size(event.files_done, event.bytes_done)
                    show_progress(size, event.files_done / plan.files)
    except KeyboardInterrupt:
        say("Interrupted. Finished files are kept; run the same command to continue.")
        raise
    assert plan is not None
    present_count = plan.files - fetched_count
    verb = "was" if present_count == 1 else "were"
    say(
        f"{format_count(fetched_count, 'file')} downloaded, {present_count:,} {verb} already here; "
        "every hash matches the hub's."
    )
    return SUCCESS


@dataset_app.command("make")
def _make(
    files: options.ParticipantFiles,
    out: options.DatasetOut,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
) -> int:
    """Make a data set from participants' files, without names, dates and contents."""
    from srs_eval.anki_import import load_log
    from srs_eval.data.datasets import make_dataset

    prepare_to_read()
    out = make_absolute(out)
    require("pyarrow", "A data set")

    def read() -> Iterator[tuple[Path, ReviewLog]]:
        for path in files:
            log = load_log(path, timezone=timezone, rollover=rollover)
            report_repeated_entries(log, f"{path}: ")
            yield path, log

    with make_console(sys.stderr).status("Reading ..."):
        reviews, mapping = make_dataset(read(), out)
    show(f"{format_count(len(files), 'user')}, {format_count(reviews, 'review')}: {out}")
    show(f"{mapping} records which file became which user. Keep it, and do not publish it.")
    return SUCCESS


def _select_users(dataset: Dataset, users: str | None, max_user_id: int | None = None) -> list[int]:
    """Return the data set's users that options select, and report ids that it does not have.

    Raises InputError.
    """
    from srs_eval.data.datasets import find_missing_id_ranges, select_users

    selected_users = select_users(dataset.users, users, max_user_id)
    if users is not None:
        missing_ranges = find_missing_id_ranges(dataset.users, users, max_user_id)
        if missing_ranges:
            say(f"Not in this data set, and left out: {format_ranges(missing_ranges)}.")
    return selected_users


def _warn_about_results(out: Path) -> None:
    """Warn if a folder's results were made in different environments or with doubtful models."""
    from srs_eval.benchmark.setup import (
        describe_environment_differences,
        list_model_remarks,
        read_setup,
    )

    setup = read_setup(out)
    if setup:
        for remark in list_model_remarks(setup):
            say(f"{remark}.")
    differences = describe_environment_differences(setup or {})
    if differences:
        say(f"These results were not all made in the same way: {'; '.join(differences)}.")
