"""Define the commands on one collection: ranking, report, import summary and advice."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import typer

from srs_eval.cli import options
from srs_eval.cli.exit_codes import PARTIAL_FAILURE, SUCCESS
from srs_eval.cli.outputs import (
    Outputs,
    check_targets,
    make_absolute,
    write_json_and_pick_console,
    write_output,
)
from srs_eval.cli.research import refuse_anki_rows, warn_tuned_on_user
from srs_eval.cli.settings import (
    EvaluationOptions,
    ProtocolFlags,
    RankingOptions,
    Source,
    build_context,
    build_protocol_flags,
    choose_equivalence,
    choose_fsrs7,
    prepare_to_evaluate,
    prepare_to_read,
)
from srs_eval.data.errors import InputError, NotEnoughData, format_count, install_hint
from srs_eval.data.protocol import Protocol
from srs_eval.report.console import (
    RunProgress,
    get_width,
    is_plain,
    make_console,
    print_answers,
    progress_line,
    say,
    show_missing,
    show_panes,
    show_run,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from srs_eval.advice.findings import Finding
    from srs_eval.advice.questions import QuestionContext
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.run import Event, Run
    from srs_eval.models.configurations import Configuration


def run(
    invocation: typer.Context,
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
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
    split: options.Split = "time",
    train_until: options.TrainUntil = "",
    train_months: options.TrainMonths = 0,
    n_splits: options.NSplits = 5,
    batch_size: options.BatchSize = 512,
    max_seq_len: options.MaxSeqLen = 64,
    gamma: options.Gamma = 1.0,
    seed: options.TrainingSeed = 0,
    sm2_target: options.Sm2Target = 0.9,
    weights: options.Weights = None,
    device: options.Device = "cpu",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    seen_users: options.SeenUsers = False,
    models: options.Models = "all",
    predictions: options.Predictions = None,
    jobs: options.Jobs = None,
    reference: options.Reference = "FSRS-6",
    no_cache: options.NoCache = False,
    equivalence: options.Equivalence = None,
    setup: options.Setup = None,
    json: options.Json = None,
    csv: options.RankingCsv = None,
    all_models: options.AllModels = False,
    names: options.Names = "2025",
) -> int:
    """Evaluate models on one collection and print their ranking."""
    from srs_eval.models.configurations import refuse_user_split

    prepare_to_evaluate()
    refuse_user_split(Protocol(split=split))
    ranking = RankingOptions(
        json=make_absolute(json),
        csv=make_absolute(csv),
        source=Source(path, user, deck, preset, timezone, rollover),
        flags=build_protocol_flags(
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
        ),
        context=build_context(
            sm2_target=sm2_target,
            weights=weights,
            device=device,
            model_file=model_file,
            features=features,
            seen_users=seen_users,
        ),
        models=models,
        predictions=predictions,
        jobs=jobs,
        reference=reference,
        no_cache=no_cache,
        equivalence=choose_equivalence(equivalence),
        setup=setup,
        all_models=all_models,
        has_named_models=_has_named_models(invocation, model_file),
        names=names,
    )
    if invocation.info_name == "open":  # the hidden command of this function, see `main`
        return _open_app_or_rank(ranking)
    return _rank(ranking)


def demo(
    invocation: typer.Context,
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
    seed: options.TrainingSeed = 0,
    sm2_target: options.Sm2Target = 0.9,
    weights: options.Weights = None,
    device: options.Device = "cpu",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    seen_users: options.SeenUsers = False,
    models: options.Models = "fast",
    jobs: options.Jobs = None,
    reference: options.Reference = "FSRS-6",
    equivalence: options.Equivalence = None,
    json: options.Json = None,
    csv: options.RankingCsv = None,
    all_models: options.AllModels = False,
) -> int:
    """Evaluate a simulated learner's collection."""
    from srs_eval.data.paths import DEMO_FILE

    prepare_to_evaluate()
    ranking = RankingOptions(
        json=make_absolute(json),
        csv=make_absolute(csv),
        source=Source(DEMO_FILE),
        flags=build_protocol_flags(
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
                seed=seed,
            ),
            default=default,
            S0=S0,
        ),
        context=build_context(
            sm2_target=sm2_target,
            weights=weights,
            device=device,
            model_file=model_file,
            features=features,
            seen_users=seen_users,
        ),
        models=models,
        jobs=jobs,
        reference=reference,
        equivalence=choose_equivalence(equivalence),
        all_models=all_models,
        has_named_models=_has_named_models(invocation, model_file),
    )
    return _open_app_or_rank(ranking)


def _open_app_or_rank(ranking: RankingOptions) -> int:
    """Open the app; print the ranking as plain text, or with an option that needs `run`."""
    is_terminal = sys.stdin.isatty() and not is_plain(sys.stdout)
    options_of_run = (ranking.json, ranking.csv, ranking.setup)
    has_option_of_run = any(option is not None for option in options_of_run)
    # The app explains the benchmark's folds, and its answers rest on them.
    has_option_of_run = has_option_of_run or ranking.flags.protocol.has_own_split
    if is_terminal and not has_option_of_run:
        return _open_app(ranking)
    return _rank(ranking)


def _rank(ranking: RankingOptions) -> int:
    """Evaluate models on one collection and print their ranking."""
    from srs_eval.advice.questions import QuestionContext
    from srs_eval.engine.ranking import match_fsrs_version
    from srs_eval.report.export import build_run_document, format_run_csv, spell_names, to_json

    source = ranking.source
    flags = ranking.flags.with_ledger(ranking.setup, ranking.models)
    flags.resolve(ranking.models)  # so that wrong names are refused before the file is read
    check_targets([source.path, ranking.predictions], ranking.json, ranking.csv)
    log = ranking.load()
    flags = _drop_configured_rows(flags, log)
    configurations = match_fsrs_version(flags.resolve(ranking.models), log, flags.protocol)
    warn_tuned_on_user(flags.ledger, source, log)
    console = make_console(sys.stdout)
    writes_output = ranking.json is not None or ranking.csv is not None
    if not writes_output and log.user is None and not console.is_terminal:
        context = QuestionContext(log, ranking.context, ranking.equivalence)
        show_panes(log, _answer_first_screen(context), console)
    evaluated_run, interruption = _evaluate_with_progress(log, configurations, flags, ranking)
    document = build_run_document(log, evaluated_run, flags.protocol, **source.narrowed_to)
    if ranking.json is not None:
        write_output(ranking.json, to_json(spell_names(document, ranking.names)))
    if ranking.csv is not None:
        csv_text = format_run_csv(document, evaluated_run.configurations, ranking.names)
        write_output(ranking.csv, csv_text)
    if "-" in (ranking.json, ranking.csv):
        show_missing(evaluated_run)
    else:
        show_run(evaluated_run, console, ranking.all_models)
    if interruption is not None:
        raise interruption
    return PARTIAL_FAILURE if evaluated_run.failed else SUCCESS


def export(
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
    rows: options.Rows = "benchmark",
    secs: options.Secs = False,
    clock: options.Clock = "seconds",
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
    seed: options.TrainingSeed = 0,
    sm2_target: options.Sm2Target = 0.9,
    weights: options.Weights = None,
    device: options.Device = "cpu",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    seen_users: options.SeenUsers = False,
    models: options.Models = "all",
    predictions: options.Predictions = None,
    jobs: options.Jobs = None,
    reference: options.Reference = "FSRS-6",
    no_cache: options.NoCache = False,
    equivalence: options.Equivalence = None,
    html: options.Html = None,
    md: options.Md = None,
    csv: options.Csv = None,
    png: options.Png = None,
    json: options.Json = None,
    brief: options.Brief = False,
    open: options.Open = False,
    anonymous: options.Anonymous = False,
) -> int:
    """Write a report on one collection: answers, ranking, calibration, good and bad days."""
    from srs_eval.advice.questions import QUESTION_REGISTRY
    from srs_eval.engine.ranking import add_own_parameters
    from srs_eval.report.learner import build_learner_report

    prepare_to_evaluate()
    outputs = Outputs(
        html=make_absolute(html),
        md=make_absolute(md),
        csv=make_absolute(csv),
        png=make_absolute(png),
        json=make_absolute(json),
        brief=brief,
        open=open,
    )
    source = Source(path, user, deck, preset, timezone, rollover)
    evaluation = EvaluationOptions(
        source=source,
        flags=build_protocol_flags(
            Protocol(
                rows=rows,
                secs=secs,
                clock=clock,
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
                seed=seed,
            ),
            default=default,
            S0=S0,
        ),
        context=build_context(
            sm2_target=sm2_target,
            weights=weights,
            device=device,
            model_file=model_file,
            features=features,
            seen_users=seen_users,
        ),
        models=models,
        predictions=predictions,
        jobs=jobs,
        reference=reference,
        no_cache=no_cache,
        equivalence=choose_equivalence(equivalence),
    )
    flags = evaluation.flags
    flags.resolve(evaluation.models)  # so that wrong names are refused before the file is read
    outputs.check(source.path)
    log = evaluation.load()
    flags = _drop_configured_rows(flags, log)
    configurations = add_own_parameters(flags.resolve(evaluation.models), log, flags.protocol)
    run, interruption = _evaluate_with_progress(log, configurations, flags, evaluation)
    if interruption is not None:
        raise interruption
    say("Answering questions about settings and days ...")
    with progress_line("") as show_progress:

        def show_question(number: int, count: int, question: str) -> None:
            show_progress(QUESTION_REGISTRY[question].title, (number - 1) / count)

        document = build_learner_report(
            log,
            run,
            flags.protocol,
            context=evaluation.context,
            narrowed_to=source.narrowed_to,
            anonymous=anonymous,
            on_question=show_question,
        )
    outputs.write(document)
    return PARTIAL_FAILURE if run.failed else SUCCESS


def inspect(
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
    json: options.Json = None,
) -> int:
    """Show what a file contains and which reviews are used."""
    from srs_eval.report.console import render_inspection
    from srs_eval.report.inspection import inspect_log

    prepare_to_read()
    json = make_absolute(json)
    source = Source(path, user, deck, preset, timezone, rollover)
    check_targets([source.path], json)
    inspection = inspect_log(source.read())
    console = write_json_and_pick_console(json, inspection.to_document())
    if console:
        console.print(render_inspection(inspection, get_width(console)))
    return SUCCESS


def compare(
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
    equivalence: options.Equivalence = None,
    params: options.ComparedParams = None,
    predictions: options.Predictions = None,
    weights: options.Weights = None,
    question: options.Question = "all",
    fsrs_7: options.HasFsrs7 = None,
    details: options.Details = False,
    json: options.Json = None,
) -> int:
    """Recommend what to do with each preset, and say how certain that is.

    --question answers one question with its evidence; --details shows the evidence for all of them.
    """
    from srs_eval.advice import questions
    from srs_eval.advice.candidates import (
        add_required_amount,
        can_evaluate_by_preset,
        explain_too_few,
        has_known_presets,
    )
    from srs_eval.advice.population import MIN_EVALUATED_REVIEWS
    from srs_eval.advice.sentences import parse_parameters
    from srs_eval.advice.shown import documents
    from srs_eval.data.reviews import describe_card_rules
    from srs_eval.engine.shared_reviews import add_predictions_file
    from srs_eval.models.own_parameters import why_replaced
    from srs_eval.report.export import to_json
    from srs_eval.report.learner import format_rows_closing
    from srs_eval.training.hyperparameters import Context, check_weights

    prepare_to_evaluate()
    json = make_absolute(json)
    source = Source(path, user, deck, preset, timezone, rollover)
    equivalence = choose_equivalence(equivalence)
    check_targets([source.path, predictions], json)
    check_weights(weights)
    own_parameters = {
        f"params {number}": parse_parameters(text)
        for number, text in enumerate(params or (), start=1)
    }
    log = add_predictions_file(source.load(), predictions)
    log = replace(log, user_has_fsrs7=choose_fsrs7(fsrs_7))
    context = Context(weights=weights)
    for external in log.external_predictions.values():
        if external.is_empty:
            say(f"{external.note}.")
    if log.card_rule_count:
        say(describe_card_rules(log.card_rule_count))
    for sentence in why_replaced(log).values():
        say(sentence)
    is_all = question == "all"
    is_summary = is_all and not details  # what to do, without the evidence
    requested = questions.default_questions(log, context) if is_all else (question,)
    rows = questions.rows_behind(log, requested)
    notice = ""
    if is_all and has_known_presets(log) and not can_evaluate_by_preset(log):
        notice = f"{explain_too_few(log, NotEnoughData('Presets cannot be evaluated'))}."
    try:
        findings = _say_before_first(
            notice,
            questions.answer_questions(
                log,
                questions=requested,
                parameters=own_parameters,
                equivalence=equivalence,
                context=context,
            ),
        )
        console = make_console(sys.stdout)
        if json == "-" or is_summary:
            with progress_line("Answering"):
                answers = list(findings)
        else:
            answers = print_answers(findings, console, format_rows_closing(rows))
    except NotEnoughData as error:
        if is_summary and json is None:
            question_context = questions.QuestionContext(log, equivalence=equivalence)
            show_panes(log, _answer_first_screen(question_context), make_console(sys.stdout))
        needs_presets = bool(set(requested) - questions.NEEDS_NO_PRESETS)
        if needs_presets and has_known_presets(log):
            raise _explain_missing_presets(log, error) from None
        raise NotEnoughData(add_required_amount(log, str(error))) from None
    if not answers:
        raise NotEnoughData(
            f"to compare you with other people, srs-eval needs {MIN_EVALUATED_REVIEWS} held-out "
            "reviews"
        )
    if json != "-" and is_summary:
        _show_comparison(questions.QuestionContext(log, context, equivalence), answers, console)
    if json is not None:
        write_output(json, to_json(documents(answers, rows)))
    return SUCCESS


def _say_before_first(notice: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, and print a notice before the first; an error says the same itself."""
    for position, finding in enumerate(findings):
        if notice and position == 0:
            say(notice)
        yield finding


def _answer_first_screen(
    context: QuestionContext, known_answers: Sequence[Finding] = ()
) -> list[Finding]:
    """Return `known_answers` and the other answers that the app's first screen shows.

    Progress goes to stderr.
    """
    from srs_eval.advice.answering import answer_or_explain
    from srs_eval.advice.questions import FIRST_SCREEN_QUESTIONS, QUESTION_REGISTRY, tasks_for

    known_questions = {finding.question for finding in known_answers}
    questions: list[str] = []
    for task in tasks_for(context.log):
        questions += [question for question in task if question in FIRST_SCREEN_QUESTIONS]
    findings = list(known_answers)
    with progress_line("") as show_progress:
        for number, question in enumerate(questions):
            show_progress(QUESTION_REGISTRY[question].title, number / len(questions))
            if question not in known_questions:
                findings += answer_or_explain(question, context)
    return findings


def _show_comparison(
    context: QuestionContext, answers: Sequence[Finding], console: Console
) -> None:
    """Print what to do with each preset; without a terminal, print the first screen above it."""
    from srs_eval.advice.questions import MODELS
    from srs_eval.advice.sentences import format_parameters, join_names
    from srs_eval.advice.shown import sentences
    from srs_eval.advice.shown.parameters import preset_action
    from srs_eval.report.console import render_table
    from srs_eval.report.learner import build_presets_table, select_preset_findings

    if not console.is_terminal:
        show_panes(context.log, _answer_first_screen(context, answers), console)
    preset_findings = select_preset_findings(answers)
    table = build_presets_table(preset_findings)
    for renderable in render_table(table, get_width(console), full_table_hint=None):
        console.print(renderable)
    names_by_parameters: dict[str, list[str]] = {}
    for finding in preset_findings:
        if finding.parameters and preset_action(finding) != "keep":
            parameters = format_parameters(finding.parameters)
            names_by_parameters.setdefault(parameters, []).append(finding.subject)
    for parameters, names in names_by_parameters.items():
        console.print(f"\n{join_names(names)}: {parameters}", markup=False)
    has_weights = context.context is not None and context.context.weights is not None
    if context.log.external_predictions or has_weights:  # the user wants to know how they compare
        for finding in answers:
            if finding.question != MODELS:
                continue
            for sentence in sentences(finding):
                console.print(f"\n{sentence}", markup=False)
    console.print("\nFor the evidence, add --details.", style="dim")


def _explain_missing_presets(log: ReviewLog, error: NotEnoughData) -> NotEnoughData:
    """Return an error that says why presets have too few reviews, and what to do about it."""
    from srs_eval.advice.candidates import add_required_amount, explain_too_few
    from srs_eval.models.own_parameters import find_preset_faults

    reason = explain_too_few(log, error)
    if reason != str(error) or find_preset_faults(log):
        return NotEnoughData(f"{reason} (`srs-eval inspect` shows which reviews are used)")
    reason = f"{reason} (counting only the reviews that Anki's optimizer uses)"
    return NotEnoughData(add_required_amount(log, reason))


def workload(
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
    retention: options.Retention = None,
    days: options.Days = 365,
    new: options.New = None,
    after: options.After = 0,
    budget: options.Budget = None,
    params: options.Params = None,
    states: options.States = "history",
    assume: options.Assume = "advised",
    model: options.WorkloadModel = "FSRS-6",
    json: options.Json = None,
) -> int:
    """Estimate the reviews and minutes a day that a desired retention costs, with their ranges.

    The estimate is for all presets together, or for the one that --preset names.
    """
    from srs_eval.advice import shown
    from srs_eval.advice.sentences import parse_parameters
    from srs_eval.advice.shown.costs import DRAWS_NOTE
    from srs_eval.advice.workload.estimate import (
        RETENTIONS,
        WorkloadQuestion,
        describe_beginning,
        workload_document,
    )
    from srs_eval.advice.workload.estimate import workload as estimate_workload

    prepare_to_evaluate()
    json = make_absolute(json)
    source = Source(path, user, deck, preset, timezone, rollover)
    check_targets([source.path], json)
    question = WorkloadQuestion(
        retentions=RETENTIONS if retention is None else _parse_retentions(retention),
        days=days,
        new_a_day=new,
        budget=budget,
        states=states,
        after=after,
        model=model,
        with_sm2=True,
        assume=assume,
    )
    parameters = None if params is None else parse_parameters(params)
    estimate = None
    log = source.load()
    with (
        progress_line(describe_beginning()) as show_progress,
        closing(estimate_workload(log, question=question, parameters=parameters)) as estimates,
    ):
        for estimate in estimates:
            show_progress(estimate.progress_text, estimate.progress)
    assert estimate is not None
    document = workload_document(estimate) | {"answers": [shown.document(estimate.finding)]}
    console = write_json_and_pick_console(json, document)
    if console:
        closing_line = f"{DRAWS_NOTE} Add --preset NAME to see one preset (docs/workload.md)."
        print_answers([estimate.finding], console, closing_line)
    return SUCCESS


def state(
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
    equivalence: options.Equivalence = None,
    rows: options.Rows = "benchmark",
    json: options.Json = None,
) -> int:
    """Show how much your recall depends on the day, beyond what your cards predict."""
    from srs_eval.advice.over_time import assess_learner_state
    from srs_eval.advice.shown import state_document
    from srs_eval.report.learner import STATE_CLOSING

    prepare_to_evaluate()
    json = make_absolute(json)
    source = Source(path, user, deck, preset, timezone, rollover)
    equivalence = choose_equivalence(equivalence)
    check_targets([source.path], json)
    findings = assess_learner_state(source.load(), Protocol(rows=rows), equivalence=equivalence)
    console = write_json_and_pick_console(json, state_document(findings))
    if console:
        print_answers(findings, console, STATE_CLOSING)
    return SUCCESS


def schedulability(
    path: options.CollectionPath = None,
    user: options.User = None,
    deck: options.Decks = None,
    preset: options.Presets = None,
    timezone: options.Timezone = None,
    rollover: options.Rollover = None,
    rows: options.Rows = "benchmark",
    models: options.Models = "fast",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    weights: options.Weights = None,
    retention: options.ScheduledRetention = None,
    histories: options.Histories = 10_000,
    json: options.Json = None,
) -> int:
    """Measure whether models could schedule your cards, and what would go wrong."""
    from srs_eval.data.readers.features import add_features
    from srs_eval.engine.ranking import add_own_parameters
    from srs_eval.engine.schedulability import DESIRED_RETENTIONS, measure_configurations
    from srs_eval.engine.session import LearnerSession
    from srs_eval.models.configurations import resolve_configurations
    from srs_eval.report.console import render_table
    from srs_eval.report.schedulability import (
        CLOSING,
        build_schedulability_document,
        build_schedulability_table,
        list_unmeasured,
    )

    prepare_to_evaluate()
    json = make_absolute(json)
    source = Source(path, user, deck, preset, timezone, rollover)
    check_targets([source.path], json)
    context = build_context(weights=weights, model_file=model_file, features=features)
    retentions = DESIRED_RETENTIONS if retention is None else _parse_retentions(retention)
    if not retentions or not all(0 < desired < 1 for desired in retentions):
        raise InputError("--retention takes shares between 0 and 1, for example 0.7,0.9,0.97.")
    log = add_features(source.load(), context.features)
    protocol = Protocol(rows=rows)
    configurations = resolve_configurations(models, protocol)
    configurations = add_own_parameters(configurations, log, protocol)
    measurements = []
    with progress_line("Asking models") as show_progress:
        for measurement in measure_configurations(
            LearnerSession(log),
            configurations,
            context,
            desired_retentions=retentions,
            max_histories=histories,
        ):
            measurements.append(measurement)
            words = measurement.configuration.words
            show_progress(words, len(measurements) / len(configurations))
    document = build_schedulability_document(measurements, retentions)
    console = write_json_and_pick_console(json, document)
    if console:
        table = build_schedulability_table(measurements)
        if table.rows:
            for renderable in render_table(table, get_width(console), full_table_hint=None):
                console.print(renderable)
        for line in list_unmeasured(measurements):
            console.print(line, markup=False)
        console.print(f"\n{CLOSING}", style="dim")
    return SUCCESS


# --- steps of these commands -------------------------------------------------------


def _evaluate_with_progress(
    log: ReviewLog,
    configurations: list[Configuration],
    flags: ProtocolFlags,
    evaluation: EvaluationOptions,
) -> tuple[Run, BaseException | None]:
    """Evaluate with progress on stderr; return the run, and the exception if one interrupted it.

    Raises InputError if flags do not fit the log, or if nothing can be evaluated.
    """
    from srs_eval.advice.candidates import add_required_amount
    from srs_eval.engine import evaluate as engine
    from srs_eval.engine.ranking import add_baselines
    from srs_eval.engine.run import Run
    from srs_eval.engine.shared_reviews import add_external_configurations
    from srs_eval.models.configurations import remove_tuned
    from srs_eval.training.networks import refuse_unused_weights

    if log.rows is not None:
        refuse_anki_rows(flags)
    if flags.protocol.partitions != "none" and not log.has_decks:
        raise InputError(
            f"{log.import_summary.path} contains no decks: "
            f"leave --partitions {flags.protocol.partitions} out."
        )
    configurations = add_external_configurations(configurations, log, flags.protocol)
    model_names = {configuration.model.name for configuration in configurations}
    refuse_unused_weights(evaluation.context, model_names)
    requested = {configuration.name for configuration in configurations}
    reference = flags.resolve_reference(evaluation.reference)
    published_of_tuned = {remove_tuned(name) for name in requested} - requested
    if reference.name in published_of_tuned:
        configurations = [*configurations, reference]  # compared with its own tuned form
    evaluated = add_baselines(configurations, excludes_deleted=log.skips_deleted_cards)
    evaluated_names = {configuration.name for configuration in evaluated}
    run = Run.from_configurations(
        evaluated,
        hidden_configurations=frozenset(evaluated_names - requested),
        reference=reference.name,
        equivalence=evaluation.equivalence,
    )
    jobs = evaluation.jobs
    if jobs is None:
        jobs = _choose_job_count(evaluated, log.import_summary.entries_read)
    engine_events = engine.evaluate(
        log,
        evaluated,
        flags.protocol,
        jobs=jobs,
        context=evaluation.context,
        use_cache=not evaluation.no_cache,
    )
    interruption: BaseException | None = None
    try:
        # Closing the generator ends its workers.
        with RunProgress() as progress, closing(cast("Generator[Event]", engine_events)) as events:
            for event in events:
                run.apply(event)
                progress.show(event)
    except KeyboardInterrupt as error:
        interruption = error
        finished = {*run.results_by_name(), *run.failed, *run.skipped}
        missing = format_count(len(requested - finished), "configuration")
        say(f"Interrupted: {missing} had not finished.")
    if interruption is None and not run.results_by_name() and not run.failed:
        reasons = dict.fromkeys(skip.reason for skip in run.skipped.values())
        explanation = add_required_amount(log, "; ".join(reasons))
        raise InputError(f"Nothing can be evaluated: {explanation}.")
    return run, interruption


def _drop_configured_rows(flags: ProtocolFlags, log: ReviewLog) -> ProtocolFlags:
    """Ignore `rows` of config.toml if the log's rows are already chosen.

    A value that differs from config.toml comes from the command line, and stays (to be refused).
    """
    from srs_eval.tui.config import load_config

    if log.rows is None or flags.protocol.rows != load_config().rows:
        return flags
    return replace(flags, protocol=replace(flags.protocol, rows="benchmark"))


def _parse_retentions(text: str) -> tuple[float, ...]:
    """Parse retentions separated by commas or blanks; 85 means 85 %, that is 0.85.

    Raises InputError if the text is not a list of numbers.
    """
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(
            f'--retention "{text[:40]}" is not a list of numbers: give them as in 0.8,0.85,0.9.'
        ) from None
    return tuple(round(number / 100, 6) if 50 <= number < 100 else number for number in numbers)


def _choose_job_count(configurations: list[Configuration], entries: int) -> int:
    """Return the number of worker processes; 0 means that this process evaluates."""
    from srs_eval.engine.session import must_compile
    from srs_eval.engine.workers import count_cores

    runnable = [
        configuration
        for configuration in configurations
        if not install_hint(configuration.model.needs)
    ]
    seconds = sum(configuration.expected_seconds(entries) for configuration in runnable)
    # For less than half a second of work, starting worker processes takes longer than they save.
    if seconds < 0.5 and not any(map(must_compile, configurations)):
        return 0
    return count_cores()


def _open_app(ranking: RankingOptions) -> int:
    from srs_eval.app import run_app
    from srs_eval.tui.config import load_config

    source = ranking.source
    flags = ranking.flags
    models = ranking.models
    if (
        flags.fit != "trained"
    ):  # the app takes no --default or --S0, but names such as FSRS-6-dry-run
        models = ",".join(configuration.name for configuration in flags.resolve(models))
    return run_app(
        source.path,
        models=models,
        jobs=ranking.jobs,
        protocol=flags.protocol,
        timezone=source.timezone,
        rollover=source.rollover,
        user=source.user,
        decks=source.deck or (),
        presets=source.preset or (),
        predictions=ranking.predictions,
        context=ranking.context,
        use_cache=not ranking.no_cache,
        folds_models=not ranking.has_named_models,
        config=replace(load_config(), equivalence=ranking.equivalence),
    )


def _has_named_models(invocation: typer.Context, model_file: list[Path] | None) -> bool:
    """Return whether the user has named models: in an option, in config.toml or in a file."""
    from srs_eval.tui.config import Config, load_config

    source = invocation.get_parameter_source("models")
    is_option = source is not None and source.name == "COMMANDLINE"
    return is_option or bool(model_file) or load_config().models != Config.models
