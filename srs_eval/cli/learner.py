"""Commands on one collection: its ranking, its report, what it holds, advice; and on models."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from srs_eval.cli.options import (
    FINE,
    SOME_FAILED,
    Evaluation,
    Flags,
    Outputs,
    Running,
    Source,
    check_targets,
    json_and_console,
    write,
)
from srs_eval.cli.research import refuse_rows_of_anki, say_tuned_on_user
from srs_eval.data.errors import InputError, NotEnoughData, counted, missing
from srs_eval.report.console import (
    RunProgress,
    console_for,
    print_answers,
    say,
    share_done,
    show_missing,
    show_panes,
    show_run,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rich.console import Console

    from srs_eval.advice.findings import Finding
    from srs_eval.advice.questions import Asked
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.run import Event, Run
    from srs_eval.models.configurations import Configuration


def open_or_run(running: Running) -> int:
    """The terminal app, or `run` where stdout is no terminal or only `run` does what is asked."""
    terminal = sys.stdout.isatty() and sys.stdin.isatty()
    if terminal and running.json is running.csv is running.setup is None:
        return _open_app(running)
    return run(running)


def run(running: Running) -> int:
    """Evaluate models on one collection and print their ranking."""
    from srs_eval.advice.questions import Asked
    from srs_eval.engine.ranking import of_own_version
    from srs_eval.report.export import run_csv, run_document, to_json

    source = running.source
    flags = running.flags.set_up_by(running.setup, running.models)
    flags.resolve(running.models)  # refused before the file is read
    check_targets([source.path, running.predictions], running.json, running.csv)
    log = running.load()
    flags = _as_the_log_allows(flags, log)
    configurations = of_own_version(flags.resolve(running.models), log, flags.protocol)
    say_tuned_on_user(flags.ledger, source, log)
    console = console_for(sys.stdout)
    if running.json is running.csv is None and log.user is None and not console.is_terminal:
        asked = Asked(log, running.context, running.equivalence)
        show_panes(log, _first(asked), console)
    found, interrupted = _evaluate(log, configurations, flags, running)
    document = run_document(log, found, flags.protocol, **source.narrowed_to, names=running.names)
    if running.json is not None:
        write(running.json, to_json(document))
    if running.csv is not None:
        write(running.csv, run_csv(document, configurations, running.names))
    if "-" in (running.json, running.csv):
        show_missing(found)
    else:
        show_run(found, console, running.all_models)
    if interrupted is not None:
        raise interrupted
    return SOME_FAILED if found.failed else FINE


def export(evaluation: Evaluation, outputs: Outputs, anonymous: bool = False) -> int:
    """One report on a collection: answers, ranking, calibration, time, days, what was read."""
    from srs_eval.advice.questions import REGISTRY
    from srs_eval.engine.ranking import with_own
    from srs_eval.report.learner import learner_report

    source, flags = evaluation.source, evaluation.flags
    flags.resolve(evaluation.models)  # refused before the file is read
    outputs.check(source.path)
    log = evaluation.load()
    flags = _as_the_log_allows(flags, log)
    configurations = with_own(flags.resolve(evaluation.models), log, flags.protocol)
    run, interrupted = _evaluate(log, configurations, flags, evaluation)
    if interrupted is not None:
        raise interrupted
    say("Answering questions about settings and days ...")
    with share_done("") as tell:
        document = learner_report(
            log,
            run,
            flags.protocol,
            context=evaluation.context,
            narrowed_to=source.narrowed_to,
            anonymous=anonymous,
            tell=lambda number, of, asked: tell(REGISTRY[asked].title, (number - 1) / of),
        )
    outputs.write(document)
    return SOME_FAILED if run.failed else FINE


def inspect(source: Source, json: str | None = None) -> int:
    """Tell what a file holds and which of its entries count, and change nothing."""
    from srs_eval.report.inspection import inspect_log, render_inspection

    check_targets([source.path], json)
    inspection = inspect_log(source.read())
    if console := json_and_console(json, inspection.document()):
        console.print(render_inspection(inspection, console.width))
    return FINE


def compare(
    source: Source,
    equivalence: float,
    params: list[str] | None = None,
    predictions: Path | None = None,
    weights: Path | None = None,
    question: str = "all",
    details: bool = False,
    json: str | None = None,
) -> int:
    """Should I change anything? What to do with each preset, and how sure that is.

    One --question is answered with its evidence; so are all with --details.
    """
    from srs_eval.advice import questions
    from srs_eval.advice.candidates import and_needed, evaluated_by_preset, knows_presets, too_few
    from srs_eval.advice.population import FEWEST as STANDING_FEWEST
    from srs_eval.advice.sentences import parsed_parameters
    from srs_eval.advice.shown import documents
    from srs_eval.data.reviews import card_rules_in_words
    from srs_eval.engine.shared import with_file
    from srs_eval.models.own_parameters import why_replaced
    from srs_eval.report.export import to_json
    from srs_eval.report.learner import rows_closing
    from srs_eval.training.hyperparameters import Context, check_weights

    check_targets([source.path, predictions], json)
    check_weights(weights)
    own = {f"params {k}": parsed_parameters(text) for k, text in enumerate(params or (), start=1)}
    log, context = with_file(source.load(), predictions), Context(weights=weights)
    for each in log.given.values():
        if each.is_empty:
            say(f"{each.about}.")
    if log.card_rules:
        say(card_rules_in_words(log.card_rules))
    for sentence in why_replaced(log).values():
        say(sentence)
    wanted = questions.questions_for(log, context) if question == "all" else (question,)
    rows = questions.rows_of(log, wanted)
    if question == "all" and knows_presets(log) and not evaluated_by_preset(log):
        say(f"{too_few(log, NotEnoughData('Presets cannot be evaluated'))}.")
    try:
        coming = questions.answering(
            log, questions=wanted, parameters=own, equivalence=equivalence, context=context
        )
        console, in_short = console_for(sys.stdout), question == "all" and not details
        if json == "-" or in_short:
            with share_done("Answering"):
                answers = list(coming)
        else:
            answers = print_answers(coming, console, rows_closing(rows, with_option=True))
    except NotEnoughData as error:
        if question == "all" and not details and json is None:
            of_all = questions.Asked(log, equivalence=equivalence)
            show_panes(log, _first(of_all), console_for(sys.stdout))
        if not knows_presets(log) or not set(wanted) - questions.NEEDS_NO_PRESETS:
            raise NotEnoughData(and_needed(log, str(error))) from None
        raise _of_presets(log, error) from None
    if not answers:
        raise NotEnoughData(f"Where you stand is told from {STANDING_FEWEST} evaluated reviews on")
    if json != "-" and in_short:
        _show_compared(questions.Asked(log, context, equivalence), answers, console)
    if json is not None:
        write(json, to_json(documents(answers, rows)))
    return FINE


def _first(asked: Asked, known: Sequence[Finding] = ()) -> list[Finding]:
    """What the first screen rests on, as in the app, with progress on stderr."""
    from srs_eval.advice.overview import answers_to
    from srs_eval.advice.questions import FIRST, REGISTRY, tasks_of

    told = {each.question for each in known}
    coming = [each for task in tasks_of(asked.log) for each in task if each in FIRST]
    found = list(known)
    with share_done("") as tell:
        for number, question in enumerate(coming):
            tell(REGISTRY[question].title, number / len(coming))
            found += () if question in told else answers_to(question, asked)
    return found


def _show_compared(asked: Asked, answers: Sequence[Finding], console: Console) -> None:
    """What to do with each preset; without a terminal below the first screen's answers."""
    from srs_eval.advice.questions import MODELS
    from srs_eval.advice.sentences import listed, parameter_line
    from srs_eval.advice.shown import sentences
    from srs_eval.advice.shown.parameters import what_to_do
    from srs_eval.report.console import table_text
    from srs_eval.report.learner import of_presets, presets_table

    if not console.is_terminal:
        show_panes(asked.log, _first(asked, answers), console)
    presets = of_presets(answers)
    for part in table_text(presets_table(presets), console.width, elsewhere=None):
        console.print(part)
    by_line: dict[str, list[str]] = {}
    for each in presets:
        if each.parameters and what_to_do(each) != "leave":
            by_line.setdefault(parameter_line(each.parameters), []).append(each.subject)
    for line, names in by_line.items():
        console.print(f"\n{listed(names)}: {line}", markup=False)
    if asked.log.given or (asked.context and asked.context.weights):
        found = (each for each in answers if each.question == MODELS)
        for sentence in (sentence for each in found for sentence in sentences(each)):
            console.print(f"\n{sentence}", markup=False)
    console.print("\nWhat that rests on: --details", style="dim")


def _of_presets(log: ReviewLog, error: NotEnoughData) -> NotEnoughData:
    """Why there are too few reviews to ask of presets, and where to look."""
    from srs_eval.advice.candidates import and_needed, too_few
    from srs_eval.models.own_parameters import left_out

    why = too_few(log, error)
    if why != str(error) or left_out(log):
        return NotEnoughData(f"{why} (`srs-eval inspect` tells which reviews it takes)")
    return NotEnoughData(and_needed(log, f"{why} among those that Anki's optimizer takes"))


def workload(
    source: Source,
    retention: str | None = None,
    days: int = 365,
    new: int | None = None,
    after: int = 0,
    budget: float | None = None,
    params: str | None = None,
    states: Literal["history", "stored"] = "history",
    model: Literal["FSRS-6", "FSRS-7"] = "FSRS-6",
    json: str | None = None,
) -> int:
    """What does a desired retention cost? Reviews and minutes a day, and how sure that is.

    Of all presets together, or of the one named.
    """
    from srs_eval.advice import shown
    from srs_eval.advice.sentences import parsed_parameters
    from srs_eval.advice.shown.costs import OF_DRAWS
    from srs_eval.advice.workload.estimate import RETENTIONS, Question, beginning, document
    from srs_eval.advice.workload.estimate import workload as estimates

    check_targets([source.path], json)
    question = Question(
        retentions=RETENTIONS if retention is None else _retentions(retention),
        days=days,
        new_a_day=new,
        budget=budget,
        states=states,
        after=after,
        model=model,
    )
    parameters = None if params is None else parsed_parameters(params)
    found = None
    log = source.load()
    with (
        share_done(beginning()) as tell,
        closing(estimates(log, question=question, parameters=parameters)) as events,
    ):
        for found in events:
            tell(found.doing, found.share)
    assert found is not None
    made = document(found) | {"answers": [shown.document(found.finding)]}
    if console := json_and_console(json, made):
        below = f"{OF_DRAWS} --preset NAME asks about one preset (docs/workload.md)."
        print_answers([found.finding], console, below)
    return FINE


def state(
    source: Source,
    equivalence: float,
    rows: Literal["benchmark", "anki"] = "benchmark",
    json: str | None = None,
) -> int:
    """How much is your day? What your last answers say that your cards do not."""
    from srs_eval.advice.over_time import learner_state
    from srs_eval.advice.shown import state_document
    from srs_eval.data.protocol import Protocol
    from srs_eval.report.learner import STATE_CLOSING

    check_targets([source.path], json)
    found = learner_state(source.load(), Protocol(rows=rows), equivalence=equivalence)
    if console := json_and_console(json, state_document(found)):
        print_answers(found, console, STATE_CLOSING)
    return FINE


def demo(running: Running, models: str = "fast") -> int:
    """Evaluate a simulated learner's collection."""
    from srs_eval.data.paths import DEMO_FILE

    return open_or_run(replace(running, source=Source(DEMO_FILE), models=models))


# --- what commands do ----------------------------------------------------------


def _evaluate(
    log: ReviewLog, configurations: list[Configuration], flags: Flags, evaluation: Evaluation
) -> tuple[Run, BaseException | None]:
    """What an evaluation brings, with its progress on stderr, and what interrupted it.

    Raises InputError where flags do not go with the log and where nothing can be evaluated.
    """
    from srs_eval.advice.candidates import and_needed
    from srs_eval.engine import evaluate as engine
    from srs_eval.engine.ranking import with_baselines
    from srs_eval.engine.run import Run
    from srs_eval.engine.shared import with_given
    from srs_eval.models.configurations import untuned
    from srs_eval.training.networks import refuse_unused

    if log.rows is not None:
        refuse_rows_of_anki(flags)
    if flags.protocol.partitions != "none" and not log.knows_decks:
        raise InputError(
            f"{log.import_summary.path} says nothing of decks: "
            f"leave --partitions {flags.protocol.partitions} out."
        )
    configurations = with_given(configurations, log, flags.protocol)
    refuse_unused(evaluation.context, {each.model.name for each in configurations})
    asked = {each.name for each in configurations}
    held_against = flags.held_against(evaluation.reference)
    if held_against.name in {untuned(name) for name in asked} - asked:
        configurations = [*configurations, held_against]  # as published, beside the tuned one
    evaluated = with_baselines(configurations, leaves_out=log.leaves_out)
    run = Run.of(
        evaluated,
        hidden=frozenset(each.name for each in evaluated if each.name not in asked),
        reference=held_against.name,
        equivalence=evaluation.equivalence,
    )
    jobs = evaluation.jobs
    if jobs is None:
        jobs = _sensible_jobs(evaluated, log.import_summary.entries_read)
    coming = engine.evaluate(
        *(log, evaluated, flags.protocol),
        jobs=jobs,
        context=evaluation.context,
        use_cache=not evaluation.no_cache,
    )
    interrupted: BaseException | None = None
    try:
        # Closing it ends the workers behind it.
        with RunProgress() as progress, closing(cast("Generator[Event]", coming)) as events:
            for event in events:
                run.apply(event)
                progress.show(event)
    except KeyboardInterrupt as interruption:
        interrupted = interruption
        missing = len(asked - {*run.results(), *run.failed, *run.skipped})
        say(f"Interrupted: {counted(missing, 'configuration')} not finished.")
    if interrupted is None and not run.results() and not run.failed:
        reasons = dict.fromkeys(each.reason for each in run.skipped.values())
        raise InputError(f"Nothing can be evaluated: {and_needed(log, '; '.join(reasons))}.")
    return run, interrupted


def _as_the_log_allows(flags: Flags, log: ReviewLog) -> Flags:
    """Without `rows` of config.toml, which are not asked for now, where rows are chosen already."""
    from srs_eval.tui.config import load_config

    if log.rows is None or flags.protocol.rows != load_config().rows:
        return flags
    return replace(flags, protocol=replace(flags.protocol, rows="benchmark"))


def _retentions(text: str) -> tuple[float, ...]:
    """Separated by commas or blanks; also as the percentages that Anki shows: 85 is 0.85."""
    try:
        given = [float(each) for each in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(
            f'--retention "{text[:40]}" is no list of numbers: give them as in 0.8,0.85,0.9.'
        ) from None
    return tuple(round(each / 100, 6) if 50 <= each < 100 else each for each in given)


def _sensible_jobs(configurations: list[Configuration], entries: int) -> int:
    from srs_eval.engine.session import must_compile
    from srs_eval.engine.workers import cores

    can_run = [each for each in configurations if not missing(each.model.needs)]
    seconds = sum(each.expected_seconds(entries) for each in can_run)
    # Below half a second, starting worker processes takes longer than the work.
    quick = seconds < 0.5 and not any(map(must_compile, configurations))
    return 0 if quick else cores()


def _open_app(running: Running) -> int:
    from srs_eval.app import run_app
    from srs_eval.tui.config import load_config

    source, flags, models = running.source, running.flags, running.models
    if flags.fit != "trained":
        models = ",".join(each.name for each in flags.resolve(models))
    return run_app(
        source.path,
        models=models,
        jobs=running.jobs,
        protocol=flags.protocol,
        timezone=source.timezone,
        rollover=source.rollover,
        user=source.user,
        decks=source.deck or (),
        presets=source.preset or (),
        predictions=running.predictions,
        context=running.context,
        use_cache=not running.no_cache,
        config=replace(load_config(), equivalence=running.equivalence),
    )
