"""The command line. stdout carries data only; progress and words go to stderr.

Exit codes: 0 fine, 1 some model or user failed (the rest is there), 2 bad input or usage,
130 interrupted, 129 hung up, 143 terminated. Everything heavy is imported when a command
needs it, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from srs_eval.cli.options import (
    OUTPUT_PANEL,
    ROWS_PANEL,
    RUN_PANEL,
    CsvFolderOption,
    CsvOption,
    Flags,
    HtmlOption,
    JobsOption,
    JsonOption,
    MarkdownOption,
    ModelFileOption,
    ModelsOption,
    NamesOption,
    NoCacheOption,
    PngFolderOption,
    ReferenceOption,
    SetupOption,
    Source,
    context_options,
    load_model_files,
    names_of,
    normalised,
    one_of,
    protocol_options,
    refuse_rows_of_anki,
    source_options,
    takes,
)
from srs_eval.cli.output import (
    BAD_INPUT,
    FINE,
    INTERRUPTED,
    SOME_FAILED,
    check_targets,
    write,
    write_document,
)
from srs_eval.cli.research import audit, batch, dataset, report, results, say_tuned_on
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.paths import VERSION

if TYPE_CHECKING:
    from typer.core import TyperGroup

    from srs_eval.benchmark.ledger import Ledger
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.run import Event, Run
    from srs_eval.models.configurations import Configuration
    from srs_eval.training.context import Context

_WORTH_TELLING_SECONDS = 5.0
_QUICK_SECONDS = 0.5  # below this, starting worker processes takes longer than the work

app = typer.Typer(
    name="srs-eval",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="How well do memory models predict your own forgetting?\n\n"
    "`srs-eval [PATH]` opens the terminal app; without a terminal it is the same as "
    "`srs-eval run`, whose options it takes.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code. Never a traceback for what a person did."""
    received: list[int] = []
    try:
        with _signals_interrupt(received):
            code = _end_of(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = INTERRUPTED
    return 128 + received[0] if received else code


def _end_of(given: list[str]) -> int:
    """Run a command line to its end, whichever it is: the exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show
    try:
        group = typer.main.get_group(app)
        command = _with_command(given, group)
        settled = _settled(command[0])
        code = group(args=command, prog_name="srs-eval", standalone_mode=False, default_map=settled)
        sys.stdout.flush()
        return code if isinstance(code, int) else FINE
    except InputError as error:
        return _refuse(str(error))
    except NotEnoughData as error:
        return _refuse(f"Too little data: {error}.")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        if not isinstance(end, BrokenPipeError) and not isinstance(
            end.__context__,
            BrokenPipeError,  # as typer and rich end after a closed pipe
        ):
            raise
        # The reader has what it wanted. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FINE
    except OSError as error:
        where = f' ("{error.filename}")' if error.filename else ""
        return _refuse(f"{error.strerror or error}{where}.")
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        sentence = str(message()).rstrip(".")
        return _refuse(f"{sentence}. `srs-eval --help` lists what there is.")


def _settled(command: str) -> dict[str, dict[str, Any]]:
    """Defaults of the options of the commands that config.toml has a say in."""
    if command not in ("open", "run"):
        return {}
    from srs_eval.tui.config import load_config

    config = load_config()
    return {command: {"rows": config.rows, "models": config.models}}


def _open_closed_streams() -> None:
    """A stream that the caller has closed (`>&-`) is None in Python; nothing goes there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - as long as we run
            os.set_inheritable(stream.fileno(), True)  # workers have the same streams
            setattr(sys, name, stream)


def _with_command(given: list[str], group: TyperGroup) -> list[str]:
    """The arguments with a command in front: `open` where none is named."""
    names = {name for command in group.commands.values() for p in command.params for name in p.opts}
    arguments = normalised(given, sorted(name for name in names if name.startswith("--")))
    first = arguments[0] if arguments else ""
    if first in group.commands or first in ("--help", "-h", "--version"):
        return arguments
    return ["open", *arguments]


def _refuse(sentence: str) -> int:
    from srs_eval.data.printable import printable
    from srs_eval.report.console import say

    say(f"srs-eval: {printable(sentence, None)}")
    return BAD_INPUT


def _show_version(asked: bool) -> None:
    if asked:
        print(f"srs-eval {VERSION}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Options before a command."""
    from srs_eval.data.readers.files import sweep_abandoned_copies

    sweep_abandoned_copies()


@app.command(hidden=True, name="open")
@takes(source=source_options, flags=protocol_options, context=context_options)
def _open_command(
    source: Source,
    flags: Flags,
    context: Context,
    models: ModelsOption = "all",
    setup: SetupOption = None,
    jobs: JobsOption = None,
    json: JsonOption = None,
    csv: CsvOption = None,
    reference: ReferenceOption = "FSRS-6",
    names: NamesOption = "2025",
    no_cache: NoCacheOption = False,
) -> int:
    """The terminal app, or `run` where stdout is no terminal or only `run` does what is asked."""
    flags = flags.set_up_by(setup, models)
    terminal = sys.stdout.isatty() and sys.stdin.isatty()
    if terminal and json is None and csv is None and setup is None:
        return _open_app(source, flags, context, models, jobs, not no_cache)
    return _run(source, flags, context, models, jobs, json, csv, reference, names, not no_cache)


@app.command()
@takes(source=source_options, flags=protocol_options, context=context_options)
def run(
    source: Source,
    flags: Flags,
    context: Context,
    models: ModelsOption = "all",
    setup: SetupOption = None,
    jobs: JobsOption = None,
    json: JsonOption = None,
    csv: CsvOption = None,
    reference: ReferenceOption = "FSRS-6",
    names: NamesOption = "2025",
    no_cache: NoCacheOption = False,
) -> int:
    """Evaluate models on one collection and print their ranking."""
    flags = flags.set_up_by(setup, models)
    return _run(source, flags, context, models, jobs, json, csv, reference, names, not no_cache)


app.command()(batch)


@app.command()
@takes(source=source_options, flags=protocol_options, context=context_options)
def export(
    source: Source,
    flags: Flags,
    context: Context,
    models: ModelsOption = "fast",
    html: HtmlOption = None,
    md: MarkdownOption = None,
    csv: CsvFolderOption = None,
    png: PngFolderOption = None,
    json: JsonOption = None,
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous",
            help="Number decks and presets instead of naming them, and do not name the file.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
    jobs: JobsOption = None,
    reference: ReferenceOption = "FSRS-6",
    no_cache: NoCacheOption = False,
) -> int:
    """One report on a collection: answers, ranking, calibration, time, days, what was read."""
    from srs_eval.data.selection import anonymous as without_names
    from srs_eval.engine.ranking import with_own
    from srs_eval.report.build import learner_report
    from srs_eval.report.console import ReportProgress

    configurations = flags.resolve(models)
    check_targets([source.path], html, md, json, csv=csv, png=png)
    log = source.load()
    flags = _as_the_log_allows(flags, log)
    configurations = flags.resolve(models)
    configurations = with_own(configurations, log, flags.protocol)
    if anonymous:
        log = without_names(log)
    run, interrupted = _evaluate(log, configurations, flags, context, jobs, reference, not no_cache)
    if interrupted is not None:
        raise interrupted
    with ReportProgress() as progress:
        document = learner_report(
            log,
            run,
            flags.protocol,
            context=context,
            narrowed_to=source.narrowed_to,
            anonymous=anonymous,
            tell=progress.tell,
        )
    write_document(document, html, md, csv, png, json)
    return SOME_FAILED if run.failed else FINE


app.command()(report)
app.command()(audit)


app.command()(results)
app.command()(dataset)


@app.command()
@takes(source=source_options)
def inspect(source: Source, json: JsonOption = None) -> int:
    """Tell what a file holds and which of its entries count, and change nothing."""
    from srs_eval.report.console import console_for
    from srs_eval.report.inspection import inspect_log, render_inspection

    check_targets([source.path], json)
    inspection = inspect_log(source.load())
    if json is not None:
        write(json, inspection.to_json() + "\n")
    if json != "-":
        console_for(sys.stdout).print(render_inspection(inspection))
    return FINE


@app.command()
@takes(source=source_options)
def compare(
    source: Source,
    params: Annotated[
        list[str] | None,
        typer.Option(
            help="Parameters of your own to compare, 17, 19 or 21 numbers; may be repeated.",
            metavar='"0.21, 1.29, ..."',
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="CSV or parquet with review_id (or card_id and time_ms), p, model: join in.",
            metavar="FILE",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
    question: Annotated[
        str,
        typer.Option(
            help="Which to answer.",
            metavar="parameters|split|often|health|hard|steps|noise|retention|models|all",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "all",
    json: JsonOption = None,
) -> int:
    """Should I change anything? Your presets, judged on your own reviews.

    Without presets (SuperMemo, CSV): which model predicts best.
    """
    from srs_eval.advice.candidates import too_few
    from srs_eval.advice.questions import MODELS, QUESTIONS, answering, document, questions_for
    from srs_eval.advice.stored import parsed_parameters
    from srs_eval.models.own_parameters import left_out
    from srs_eval.report.console import ANKI_ROWS, MODELS_ROWS, console_for, print_answers

    check_targets([source.path, predictions], json)
    asked = one_of("--question", question, (*QUESTIONS, MODELS, "all"))
    lines = {f"params {k}": parsed_parameters(text) for k, text in enumerate(params or (), start=1)}
    log = source.load()
    wanted = questions_for(log) if asked == "all" else (asked,)
    try:
        coming = answering(log, questions=wanted, parameters=lines, predictions=predictions)
        if json == "-":
            answers = list(coming)
        else:
            closing = MODELS_ROWS if wanted == (MODELS,) else ANKI_ROWS
            answers = print_answers(coming, console_for(sys.stdout), closing)
    except NotEnoughData as error:
        if wanted == (MODELS,):
            raise
        why = too_few(log, error)
        if why == str(error) and not left_out(log):
            why += " among those that Anki's optimizer takes"
        raise NotEnoughData(f"{why} (`srs-eval inspect` tells which reviews it takes)") from None
    if json is not None:
        from srs_eval.report.export import to_json

        write(json, to_json(document(answers)))
    return FINE


@app.command()
@takes(source=source_options)
def workload(
    source: Source,
    retention: Annotated[
        str | None,
        typer.Option(
            help="Desired retentions, 0.5 to 0.995; 0.70, 0.71 ... 0.99 if left out.",
            metavar="0.8,0.85,0.9",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="How long.", rich_help_panel=RUN_PANEL)] = 365,
    new: Annotated[
        int | None,
        typer.Option(
            help="New cards a day; as many as of late if left out.", rich_help_panel=RUN_PANEL
        ),
    ] = None,
    after: Annotated[
        int,
        typer.Option(
            help="Begin after so many days without reviews.",
            metavar="DAYS",
            rich_help_panel=RUN_PANEL,
        ),
    ] = 0,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Minutes a day: how many days take more?",
            metavar="MIN",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
    params: Annotated[
        str | None,
        typer.Option(
            help="Parameters in place of those in force, 17, 19 or 21 numbers.",
            metavar='"0.21, 1.29, ..."',
            rich_help_panel=RUN_PANEL,
        ),
    ] = None,
    states: Annotated[
        str,
        typer.Option(
            help="What you remember of each card now: from its history, or as Anki stored it.",
            metavar="history|stored",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "history",
    memory: Annotated[
        str,
        typer.Option(
            help="What your answers are drawn from, too: the model that predicts them best, or "
            "one of FSRS-5, FSRS-6, FSRS-7, GRU, GRU-P, LSTM.",
            metavar="best|NAME",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "best",
    json: JsonOption = None,
) -> int:
    """What does a desired retention cost? Reviews and minutes a day, and how sure that is.

    Of one preset: the one named, or the one with the most reviews.
    """
    from srs_eval.advice.stored import parsed_parameters
    from srs_eval.advice.workload.answers import answers, document
    from srs_eval.advice.workload.estimate import RETENTIONS, Question, beginning
    from srs_eval.advice.workload.estimate import workload as estimates
    from srs_eval.report.console import WORKLOAD, console_for, print_answers, share_done

    check_targets([source.path], json)
    chosen = one_of("--states", states, ("history", "stored"))
    question = Question(
        retentions=RETENTIONS if retention is None else _retentions(retention),
        days=days,
        new_a_day=new,
        budget=budget,
        states="stored" if chosen == "stored" else "history",
        after=after,
        memory=memory,
    )
    parameters = None if params is None else parsed_parameters(params)
    found = None
    log = source.load()
    with (
        share_done(console_for(sys.stderr), beginning().words) as tell,
        closing(estimates(log, question=question, parameters=parameters)) as events,
    ):
        for found in events:
            if found.doing is not None:
                tell(found.doing.words, found.doing.share)
    assert found is not None
    if json is not None:
        from srs_eval.report.export import to_json

        write(json, to_json(document(found)))
    if json != "-":
        print_answers(answers(found), console_for(sys.stdout), WORKLOAD)
    return FINE


@app.command()
@takes(source=source_options)
def state(
    source: Source,
    rows: Annotated[
        str,
        typer.Option(
            help="benchmark: as for the published figures. anki: as Anki's own optimizer.",
            metavar="benchmark|anki",
            rich_help_panel=ROWS_PANEL,
        ),
    ] = "benchmark",
    json: JsonOption = None,
) -> int:
    """How much is your day? What your last answers say that your cards do not."""
    from srs_eval.advice.learner_state import learner_state
    from srs_eval.data.protocol import Protocol
    from srs_eval.report.console import console_for, print_answers

    check_targets([source.path], json)
    chosen = one_of("--rows", rows, ("benchmark", "anki"))
    protocol = Protocol(rows="anki" if chosen == "anki" else "benchmark")
    found = learner_state(source.load(), protocol)
    if json is not None:
        from srs_eval.report.export import to_json

        write(json, to_json(found.document()))
    if json != "-":
        print_answers(
            found.answers,
            console_for(sys.stdout),
            "STATE-FSRS-6 knows every answer before the one it predicts; a scheduler cannot. "
            "Intervals are 95 %, over days.",
        )
    return FINE


@app.command()
def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Models to tell about; all are listed if left out.", metavar="NAME"),
    ] = None,
    json: JsonOption = None,
    model_file: ModelFileOption = None,
) -> int:
    """List every model, or tell what there is to know about one."""
    from srs_eval.models.configurations import GROUPS
    from srs_eval.report.console import console_for, say
    from srs_eval.report.export import models_document, to_json
    from srs_eval.report.tables import model_stories, models_table

    check_targets([], json)
    load_model_files(model_file)
    document = models_document(names or ())
    if json is not None:
        write(json, to_json(document))
    if json != "-":
        console = console_for(sys.stdout)
        listed = document["models"]
        shown = model_stories(listed) if names else models_table(listed, console.width)
        console.print(shown)
        if not names:
            say(
                f"--models takes groups too: {', '.join(GROUPS)} (fast: all but neural). "
                "SM2 and SM-2 are one model, sm2 is the group."
            )
    return FINE


@app.command()
def config() -> int:
    """Print where your settings are read from, and the values in force."""
    from srs_eval.report.console import show
    from srs_eval.tui.config import config_path, load_config

    path = config_path()
    there = "" if path.exists() else ", which is not there: these are the defaults"
    settled = load_config(path)
    if settled.theme is not None:
        from srs_eval.tui.screens.themes import check_theme

        check_theme(settled.theme)
    show(f"# {path}{there}")
    for line in settled.lines():
        show(line)
    return FINE


@app.command()
@takes(flags=protocol_options, context=context_options)
def demo(
    flags: Flags,
    context: Context,
    models: ModelsOption = "fast",
    jobs: JobsOption = None,
    json: JsonOption = None,
    csv: CsvOption = None,
    reference: ReferenceOption = "FSRS-6",
) -> int:
    """Evaluate a simulated learner, made as an Anki collection in a temporary folder."""
    from srs_eval.data.readers.files import DEMO_FOLDER, make_folder, remove_folder
    from srs_eval.data.simulated.files import make_demo_collection
    from srs_eval.report.console import say

    folder = make_folder(DEMO_FOLDER)
    try:
        say("Simulating a learner ...")
        source = Source(make_demo_collection(folder))
        if sys.stdout.isatty() and sys.stdin.isatty() and json is None and csv is None:
            return _open_app(source, flags, context, models, jobs, use_cache=True)
        return _run(
            source, flags, context, models, jobs, json, csv, reference, "2025", use_cache=True
        )
    finally:
        remove_folder(folder)


# --- what commands do ----------------------------------------------------------


def _run(
    source: Source,
    flags: Flags,
    context: Context,
    models: str,
    jobs: int | None,
    json: str | None,
    csv: str | None,
    reference: str,
    names: str,
    use_cache: bool,
) -> int:
    year = names_of(names)
    from srs_eval.report.console import console_for, show_missing, show_run
    from srs_eval.report.export import run_csv, run_document, to_json

    configurations = flags.resolve(models)
    check_targets([source.path], json, csv)
    log = source.load()
    flags = _as_the_log_allows(flags, log)
    configurations = flags.resolve(models)
    _say_tuned_on(flags.ledger, source, log)
    run, interrupted = _evaluate(log, configurations, flags, context, jobs, reference, use_cache)
    document = run_document(
        log,
        run,
        flags.protocol,
        **source.narrowed_to,
        names=year,
    )
    if json is not None:
        write(json, to_json(document))
    if csv is not None:
        write(csv, run_csv(document, configurations, year))
    if "-" in (json, csv):
        show_missing(run)
    else:
        show_run(run, console_for(sys.stdout))
    if interrupted is not None:
        raise interrupted
    return SOME_FAILED if run.failed else FINE


def _say_tuned_on(ledger: Ledger | None, source: Source, log: ReviewLog) -> None:
    """As a batch says it, of the one user of a data set."""
    if ledger is None or source.path is None or log.user not in ledger.users:
        return
    from srs_eval.benchmark.plan import survey
    from srs_eval.data.datasets import is_dataset, open_dataset

    # A file of one user does not tell of which data set it is.
    fingerprint = survey(open_dataset(source.path))[0] if is_dataset(source.path) else ""
    say_tuned_on(ledger, [log.user], fingerprint, "--user takes another")


def _evaluate(
    log: ReviewLog,
    configurations: list[Configuration],
    flags: Flags,
    context: Context,
    jobs: int | None,
    reference: str,
    use_cache: bool,
) -> tuple[Run, BaseException | None]:
    """What an evaluation brings, with its progress on stderr, and what interrupted it.

    Raises InputError where flags do not go with the log and where nothing can be evaluated.
    """
    from srs_eval.data.errors import counted
    from srs_eval.engine import evaluate as engine
    from srs_eval.engine.ranking import with_floors
    from srs_eval.engine.run import Run
    from srs_eval.models.configurations import untuned
    from srs_eval.report.console import RunProgress, say
    from srs_eval.report.formats import clock
    from srs_eval.tui.config import load_config

    if log.rows is not None:
        refuse_rows_of_anki(flags)
    if flags.protocol.partitions != "none" and not log.knows_decks:
        raise InputError(
            f"{log.receipt.path} says nothing of decks: "
            f"leave --partitions {flags.protocol.partitions} out."
        )
    asked = {each.name for each in configurations}
    held_against = flags.held_against(reference)
    if held_against.name in {untuned(name) for name in asked} - asked:
        configurations = [*configurations, held_against]  # as published, beside the tuned one
    evaluated = with_floors(configurations, leaves_out=log.leaves_out)
    run = Run.of(
        evaluated,
        hidden=frozenset(each.name for each in evaluated if each.name not in asked),
        reference=held_against.name,
        equivalence=load_config().equivalence,
    )
    if jobs is None:
        jobs = _sensible_jobs(evaluated, log.receipt.entries_read)
    seconds = _expected_seconds(evaluated, log.receipt.entries_read) / max(1, jobs)
    if seconds >= _WORTH_TELLING_SECONDS:
        say(f"Expected to take about {clock(seconds)} if nothing of it is in the cache.")
    interrupted: BaseException | None = None
    try:
        with (
            RunProgress() as progress,
            _closed_at_end(
                engine.evaluate(
                    log, evaluated, flags.protocol, jobs=jobs, context=context, use_cache=use_cache
                )
            ) as events,
        ):
            for event in events:
                run.apply(event)
                progress.show(event)
    except KeyboardInterrupt as interruption:
        interrupted = interruption
        missing = len(asked - {*run.results(), *run.failed, *run.skipped})
        say(f"Interrupted: {counted(missing, 'configuration')} not finished.")
    if interrupted is None and not run.results() and not run.failed:
        reasons = dict.fromkeys(each.reason for each in run.skipped.values())
        raise InputError(f"Nothing can be evaluated: {'; '.join(reasons)}.")
    return run, interrupted


def _as_the_log_allows(flags: Flags, log: ReviewLog) -> Flags:
    """Without `rows` of config.toml, which are not asked for now, where rows are chosen already."""
    from srs_eval.tui.config import load_config

    if log.rows is None or flags.protocol.rows != load_config().rows:
        return flags
    return replace(flags, protocol=replace(flags.protocol, rows="benchmark"))


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers separated by commas or blanks."""
    try:
        return tuple(float(each) for each in text.replace(",", " ").split())
    except ValueError:
        raise InputError(
            f'{option} "{text[:40]}" is no list of numbers: give them as in 0.8,0.85,0.9.'
        ) from None


def _retentions(text: str) -> tuple[float, ...]:
    """Also as the percentages that Anki shows: 85 is 0.85."""
    given = _numbers("--retention", text)
    return tuple(round(each / 100, 6) if 50 <= each < 100 else each for each in given)


def _expected_seconds(configurations: list[Configuration], entries: int) -> float:
    """Of one core, without compiling; nothing of what cannot run here."""
    from srs_eval.data.errors import missing

    return sum(
        each.expected_seconds(entries) for each in configurations if not missing(each.model.needs)
    )


def _sensible_jobs(configurations: list[Configuration], entries: int) -> int:
    from srs_eval.engine.session import must_compile
    from srs_eval.engine.workers import cores

    seconds = _expected_seconds(configurations, entries)
    quick = seconds < _QUICK_SECONDS and not any(map(must_compile, configurations))
    return 0 if quick else cores()


def _open_app(
    source: Source,
    flags: Flags,
    context: Context,
    models: str,
    jobs: int | None,
    use_cache: bool,
) -> int:
    from srs_eval.app import run_app
    from srs_eval.tui.config import load_config

    if flags.fit != "trained":
        models = ",".join(each.name for each in flags.resolve(models))
    return run_app(
        source.path,
        models=models,
        jobs=jobs,
        protocol=flags.protocol,
        timezone=source.timezone,
        rollover=source.rollover,
        user=source.user,
        decks=source.decks,
        presets=source.presets,
        context=context,
        use_cache=use_cache,
        config=load_config(),
    )


@contextmanager
def _closed_at_end(events: Iterator[Event]) -> Iterator[Iterator[Event]]:
    """Close a generator, and with it the workers behind it, however the block ends."""
    try:
        yield events
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()


@contextmanager
def _signals_interrupt(received: list[int]) -> Iterator[None]:
    """A closed terminal and `kill` interrupt as Ctrl-C does, so that everything is tidied up.

    The signals' numbers are added to `received`, for an exception can be lost on its way, and
    the exit code tells which it was. A hang-up that is to be survived (nohup) is.
    """

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        _give_up_lost_terminal()
        raise KeyboardInterrupt

    before: list[tuple[int, Any]] = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before.append((number, signal.signal(number, interrupt)))
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _give_up_lost_terminal() -> None:
    """Nothing can be said on a terminal that is closed, and to try is an error."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
