"""Build the report on one learner, as `srs-eval export` writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np

from srs_eval.advice import questions, shown
from srs_eval.advice.answering import answer_or_explain
from srs_eval.advice.findings import (
    OVERALL_SUBJECTS,
    DayStates,
    Finding,
    Month,
    ParameterSummary,
    RecallGroup,
    Unanswered,
    get_evidence,
)
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import PARAMETERS, QUESTION_REGISTRY, QuestionContext
from srs_eval.advice.sentences import (
    capitalize,
    explain_where_to_paste,
    format_month,
    format_parameters,
)
from srs_eval.advice.shown.costs import DRAWS_NOTE
from srs_eval.advice.shown.fsrs7_switch import describe_preview
from srs_eval.advice.shown.memory import days_table, list_recall_by_month
from srs_eval.advice.shown.parameters import preset_action
from srs_eval.advice.shown.predicted import (
    describe_skill,
    make_loss_by_fold_table,
    make_loss_by_reviews_table,
    make_loss_parts_table,
)
from srs_eval.advice.workload.estimate import Workload
from srs_eval.advice.workload.ranges import MINUTES
from srs_eval.data.errors import InputError, NotEnoughData, format_count
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import add_features
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.rows import anonymize
from srs_eval.engine.loss_breakdown import LossBreakdown, LossGroup, break_down_loss
from srs_eval.engine.ranking import (
    REFERENCE,
    RankedResult,
    RankingGroup,
    find_average,
    own_scheduler,
)
from srs_eval.engine.result import Result
from srs_eval.engine.run import Run
from srs_eval.engine.schedulability import (
    FEW_HISTORIES,
    Measurement,
    is_quick,
    measure_configurations,
)
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.workers import send
from srs_eval.report import formats as words
from srs_eval.report import pictures
from srs_eval.report.document import Block, Code, Document, Picture, Section
from srs_eval.report.export import build_ranking_table
from srs_eval.report.files import write_document
from srs_eval.report.inspection import build_summary_section, inspect_log, list_facts
from srs_eval.report.ranking_words import format_group_title, summarize_ranking
from srs_eval.stats.intervals import Interval, compute_calibration_graph
from srs_eval.stats.tables import Column, Figure, Table, make_figure
from srs_eval.training.hyperparameters import Context

_ROWS_CLOSINGS = {
    "anki": "The answers above are based on the reviews that Anki's optimizer uses. Held-out "
    "reviews are later than those to which the parameters were fitted. In the tables, a "
    "verdict of better or worse needs at least 1,000 reviews from 20 days, and a difference that "
    "chance is unlikely to explain, even allowing for how many changes were compared (Holm's "
    "method). The chances that parameters or a scheduler predict better also take "
    "into account what other people gained.",
    "benchmark": "The answers above are based on the reviews that the benchmark uses. Held-out "
    "reviews are later than those to which a model was fitted.",
}
STATE_CLOSING = (
    "These figures come from STATE-FSRS-6, a model that knows all earlier answers of the same "
    "day, which a scheduler cannot know. "
    "Intervals are 95 %, over days."
)
_PICTURES_NOTE = (
    "On the diagonal of the calibration graph, 90 % predicted is 90 % recalled; below it, a model "
    "expects too much. Bars and bands are 95 % intervals."
)
_LOSS_NOTE = (
    "Skill is the share of the average's loss that a model saves. Reliability is the squared error "
    "of calibration, and resolution is how well a model separates easy from hard reviews."
)
_Series = tuple[str, Sequence[float | FloatArray]]
"""Name and values of a line in a chart: estimates, or (estimate, low end, high end) each."""
_MONTHS_IN_BRIEF = 6  # latest months that a brief table shows
_COSTS_SUMMARY_LENGTH = 2  # sentences: what FSRS costs as advised, and what today's schedule costs


def build_learner_report(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    context: Context | None = None,
    narrowed_to: Mapping[str, str | None] | None = None,
    anonymous: bool = False,
    on_question: Callable[[int, int, str], object] = lambda *progress: send(progress),
    known: Sequence[Finding] = (),
    costs: Workload | None = None,
    measurements: Mapping[str, Measurement] = MappingProxyType({}),
) -> Document:
    """Answer the questions and return the report on a learner whose ranking is in `run`.

    Questions with answers in `known`, which are on the same log, are not asked again. If there are
    any such answers, the costs of retentions are a first estimate, unless `costs` gives them.
    Models in `measurements` are not asked again whether they can schedule.
    `on_question` is called before each question with its number, the number of questions and its
    name; by default, a worker sends these to the process that runs it. `anonymous` leaves out the
    names of decks, presets and the file, and asks all questions anew.
    """
    if anonymous:
        log = anonymize(log)
        known = ()
        costs = None
    parameter_answers = [answer for answer in known if answer.question == questions.PARAMETERS]
    question_context = QuestionContext(
        log, context, run.equivalence, parameter_answers=parameter_answers
    )
    answers = _ask_all(question_context, on_question, known, costs)
    scheduler = own_scheduler(log)
    groups = run.groups()
    main_lines = _select_main_lines(run, scheduler)
    results_by_model = {line.configuration.words: line.result for line in main_lines}
    predictor = next(iter(results_by_model), "")  # model by which months are predicted
    months: Sequence[Month] = ()
    if results_by_model:
        months = questions.result_months(log, protocol, results_by_model[predictor])
    charts = (
        *_build_calibration_pictures(results_by_model),
        *_build_recall_pictures(list_recall_by_month([*answers.on_settings, *answers.on_days])),
        *_build_costs_pictures(answers.workload),
    )
    sections = _build_presets_section(answers.on_settings)
    if charts:
        sections.append(Section("In pictures", charts, summary=_PICTURES_NOTE, side_by_side=True))
    findings = [*answers.on_settings, *answers.on_days, *answers.on_costs]
    overview = Overview.from_answers(log, findings)
    # Not `answers.on_settings`: its answer on CHECKS lacks the checks that other answers add.
    settings_questions = {finding.question for finding in answers.on_settings}
    on_settings = [
        finding for finding in overview.completed_answers if finding.question in settings_questions
    ]
    sections += _build_answers_section(on_settings, answers.rows, answers.workload)
    measurements = _measure_schedulability(log, run, context, measurements)
    preview = questions.find_preview(log, run.results_by_name(), run.equivalence)
    for number, group in enumerate(groups, start=1):
        prefix = f"{number}-" if len(groups) > 1 else ""
        remark = ""
        if number == 1 and preview is not None:
            remark = describe_preview(preview)
        sections.append(
            _build_ranking_section(
                group, prefix, run.progress_note, scheduler, measurements, remark
            )
        )
    sections += _build_loss_section(run, main_lines)
    sections += _build_months_section(predictor, months)
    sections += _build_state_section(answers.on_days)
    inspection = inspect_log(log)
    sections.append(build_summary_section(inspection, with_notes=not anonymous))
    sections.append(_build_metric_card(run, protocol))
    first_screen = overview.first_screen
    return Document(
        title=_build_title(log, narrowed_to or {}, anonymous),
        lead=tuple(
            " ".join([title, *(line.text for line in pane.answers)])
            for title, pane in first_screen.titled_panes
        ),
        sections=tuple(sections),
        panes=first_screen,
        facts=tuple(list_facts(inspection, overview.row_rule)),
    )


@dataclass(frozen=True)
class _ReportAnswers:
    """Answers that a report shows."""

    on_settings: Sequence[Finding]
    """Answers to all questions but those of `on_days` and `on_costs`: also on models and memory."""
    on_days: Sequence[Finding]  # answers to DAY_QUESTIONS
    on_costs: Sequence[Finding]  # answer to COSTS, for the first screen
    workload: Workload | str  # costs of retentions, or why they are unknown (`_estimate_costs`)
    rows: str  # the reviews behind `on_settings`: "anki" or "benchmark"


def _ask_all(
    question_context: QuestionContext,
    on_question: Callable[[int, int, str], object],
    known: Sequence[Finding],
    costs: Workload | None,
) -> _ReportAnswers:
    """Ask all questions of a report that have no answer in `known`."""
    log = question_context.log
    available: set[str] = set()
    for question_names in questions.tasks_for(log):
        available.update(question_names)
    without_presets = [
        question for question in questions.REPORT_QUESTIONS_WITHOUT_PRESETS if question in available
    ]
    last_questions = (*questions.FURTHER_QUESTIONS, questions.FSRS_7)
    further = [question for question in last_questions if question in available]
    names = list(dict.fromkeys([*without_presets, *questions.default_questions(log), *further]))
    steps = [*names, "day", "workload"]

    def announce(question: str) -> None:
        on_question(steps.index(question) + 1, len(steps), question)

    on_settings = _answer_questions(question_context, names, announce, known)
    on_days = _answer_questions(question_context, ["day"], announce, known)
    announce("workload")
    workload = costs or _estimate_costs(question_context, at_once=bool(known))
    # COSTS asks the same as "workload", but for a few retentions only ("at a glance").
    on_costs = [answer for answer in known if answer.question == questions.COSTS]
    if not on_costs and isinstance(workload, Workload):
        on_costs = [workload.glance_finding]
    elif not on_costs:
        unannounced = available & {questions.COSTS}  # to say why the costs are unknown
        on_costs = _answer_questions(question_context, unannounced, lambda _: None, known)
    rows = questions.rows_behind(log, names)
    return _ReportAnswers(on_settings, on_days, on_costs, workload, rows)


def _select_main_lines(run: Run, scheduler: str | None) -> list[RankedResult]:
    """Return the ranked results of the learner's scheduler and of FSRS.

    The scheduler comes first; it is left out if it was not evaluated. Without FSRS, the best model
    takes its place.
    """
    groups = run.groups()
    best = groups[0].best if groups else None
    lines_by_name = {line.configuration.name: line for line in run.ranked_results()}
    if REFERENCE in lines_by_name:
        rival: str | None = REFERENCE
    else:
        rival = best.configuration.name if best else None
    names = dict.fromkeys([scheduler, rival])
    return [lines_by_name[name] for name in names if name in lines_by_name]


def _answer_questions(
    question_context: QuestionContext,
    names: Iterable[str],
    announce: Callable[[str], None],
    known: Sequence[Finding],
) -> list[Finding]:
    """Return the answers to questions, the known ones or new ones.

    A question without an answer has a finding that says why.
    """
    findings: list[Finding] = []
    for name in names:
        announce(name)
        answered_questions: Sequence[str] = (name,)
        if name in questions.DAY_QUESTIONS:  # asking the first of these answers all four
            answered_questions = questions.DAY_QUESTIONS
        answers = [answer for answer in known if answer.question in answered_questions]
        findings += answers or answer_or_explain(name, question_context)
    return findings


def export_learner(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    form: str,
    path: Path,
    context: Context | None = None,
    narrowed_to: Mapping[str, str | None] | None = None,
    anonymous: bool = False,
    known: Sequence[Finding] = (),
    costs: Workload | None = None,
    measurements: Mapping[str, Measurement] = MappingProxyType({}),
) -> list[Path]:
    """Write the report in a form of `report.files.write_document`; return what was written.

    It first answers the questions that have no answer in `known`, so call it in a worker. Raises
    InputError if the files cannot be written.
    """
    document = build_learner_report(
        log,
        run,
        protocol,
        context=context,
        narrowed_to=narrowed_to,
        anonymous=anonymous,
        known=known,
        costs=costs,
        measurements=measurements,
    )
    return write_document(document, form, path)


def _estimate_costs(question_context: QuestionContext, *, at_once: bool) -> Workload | str:
    """Return what a desired retention costs; if that is unknown, a sentence that says why.

    The sentence is "" if presets cannot be evaluated: their settings are unknown, or too few of
    their reviews are left (`can_evaluate_by_preset`). With `at_once`, return the first estimate
    instead of the last.
    """
    # The benchmark's rows are behind the answers only if presets cannot be evaluated.
    if questions.rows_behind(question_context.log, (PARAMETERS,)) == "benchmark":
        return ""
    estimates = questions.ask("workload", question_context)
    if at_once:
        estimates = islice(estimates, 1)
    try:
        *_, latest = estimates
    except NotEnoughData as error:
        return f"{capitalize(str(error))}."
    except InputError as error:
        # A report may be published, and the path is private.
        return str(error).replace(question_context.log.import_summary.path, "the file")
    return get_evidence(latest, Workload)


def _build_title(log: ReviewLog, narrowed_to: Mapping[str, str | None], anonymous: bool) -> str:
    if anonymous:
        return "A collection"
    filters = [f"{kind} {name}" for kind, name in narrowed_to.items() if name]
    file_name = log.import_summary.path.replace("\\", "/").rpartition("/")[2]
    return f"{file_name}, {' and '.join(filters)}" if filters else file_name


# Ranking


def _measure_schedulability(
    log: ReviewLog, run: Run, context: Context | None, known: Mapping[str, Measurement]
) -> dict[str, Measurement]:
    """Return whether ranked models can schedule, by name; models that are slow to ask are left out.

    Those in `known` are not asked, and parameters that the run has fitted are not fitted again.
    """
    quick = [
        line.configuration
        for line in run.ranked_results()
        if is_quick(line.configuration, line.result)
        and not line.result.invalid_reason
        and line.configuration.name not in known
    ]
    features = None if context is None else context.features
    measurements = measure_configurations(
        LearnerSession(add_features(log, features)),
        quick,
        context,
        max_histories=FEW_HISTORIES,
        results=run.results_by_name(),
    )
    asked = {measurement.configuration.name: measurement for measurement in measurements}
    return {**known, **asked}


def _build_ranking_section(
    group: RankingGroup,
    prefix: str,
    progress_note: str,
    scheduler: str | None,
    measurements: Mapping[str, Measurement],
    remark: str,
) -> Section:
    """Return the section on a group; `prefix` begins the names of its tables and pictures.

    The remark, which may be "", follows the summary.
    """
    names = [line.configuration.name for line in group.lines]
    own_row = names.index(scheduler) if scheduler in names else None
    blocks: list[Block] = []
    if progress_note:
        blocks.append(f"So far: {progress_note}.")
    summary = summarize_ranking(group)
    if summary:
        blocks.append(summary)
    if remark:
        blocks.append(remark)
    table = build_ranking_table(group, own_row, measurements)
    blocks.append(replace(table, name=f"{prefix}ranking", title=""))
    if len(group.lines) > 1:
        title = "Log loss, with the average as a line"
        chart = pictures.ranking_chart(group, own_row)
        blocks.append(Picture(f"{prefix}ranking", title, chart))
    return Section(
        format_group_title(group),
        tuple(blocks),
        folded_on_page=True,
        summary="the ranking of all models, for researchers",
    )


def _interval_bounds(interval: Interval) -> tuple[float, float, float]:
    """Return estimate, low end and high end."""
    return interval.estimate, interval.low, interval.high


# Calibration, months, days


def _build_calibration_pictures(results: Mapping[str, Result]) -> list[Picture]:
    if not results:
        return []
    graphs = {
        name: compute_calibration_graph(result.y, result.p, pictures.CALIBRATION_BINS)
        for name, result in results.items()
    }
    rows = []
    for name, graph in graphs.items():
        columns = graph.predicted, graph.observed, graph.low, graph.high
        for k in np.flatnonzero(graph.count).tolist():
            low = 100 * graph.edges[k]
            high = 100 * graph.edges[k + 1]
            cells = [Figure(float(column[k])) for column in columns]
            rows.append((name, f"{low:.0f} to {high:.0f} %", int(graph.count[k]), *cells))
    titles = ("predicted", "recalled", "95 % from", "to")
    shares = [Column(title, digits=1, percent=True) for title in titles]
    heads = ("model", "predicted between", "reviews", *shares)
    table = Table.from_rows("calibration", "Recalled against predicted", heads, rows, brief_rows=())
    chart = pictures.calibration_chart(list(graphs.items()), pictures.SMALL_SIZE)
    return [Picture("calibration", "Calibration", chart, table)]


def _build_loss_section(run: Run, lines: Sequence[RankedResult]) -> list[Section]:
    """Return a section on what the losses of models consist of, beside the average's."""
    if not lines:
        return []
    breakdowns = {}
    for line in lines:
        average = find_average(run.groups(), line.result)
        breakdowns[line.configuration.words] = break_down_loss(line.result, average)
    blocks: list[Block] = [_LOSS_NOTE]
    blocks += [
        f"“{model}” may have been fitted to these reviews, which makes it look better than it is."
        for model, breakdown in breakdowns.items()
        if breakdown.in_sample_reviews
    ]
    blocks.append(replace(make_loss_parts_table(breakdowns), name="loss-parts"))
    blocks += _build_loss_pictures(breakdowns)
    return [
        Section(
            "What the log loss consists of",
            tuple(blocks),
            folded=True,
            summary=describe_skill(breakdowns),
            side_by_side=True,
        )
    ]


def _build_loss_pictures(breakdowns: Mapping[str, LossBreakdown]) -> list[Picture]:
    """Return pictures of models' losses: by earlier reviews of the card, and part by part."""
    by_reviews = {model: part.by_reviews_before for model, part in breakdowns.items()}
    by_fold = {model: part.by_fold for model, part in breakdowns.items()}
    return [
        *_build_loss_picture(
            "loss-by-reviews",
            make_loss_by_reviews_table(breakdowns),
            by_reviews,
            "earlier reviews of the card (start of group)",
        ),
        *_build_loss_picture(
            "loss-by-history", make_loss_by_fold_table(breakdowns), by_fold, "reviews before"
        ),
    ]


def _build_loss_picture(
    name: str, table: Table, groups_by_model: Mapping[str, Sequence[LossGroup]], x_label: str
) -> list[Picture]:
    """Return a picture of the table's last column, or none without any group.

    That column is log loss minus the average's or, without the average, log loss.
    """
    firsts = sorted({group.first for groups in groups_by_model.values() for group in groups})
    if len(firsts) < 2:
        return []
    unknown = np.full(3, math.nan)
    series: list[_Series] = []
    has_average = False
    for model, groups in groups_by_model.items():
        bounds_by_first = {}
        for group in groups:
            bounds = np.array((group.log_loss, math.nan, math.nan))
            if group.difference is not None:
                bounds = np.array(_interval_bounds(group.difference))
                has_average = True
            bounds_by_first[group.first] = bounds
        series.append((model, [bounds_by_first.get(first, unknown) for first in firsts]))
    y_label = "log loss minus the average's" if has_average else "log loss"
    ticks = [f"{first:,}" for first in firsts]
    chart = pictures.line_chart(range(len(firsts)), series, x_label, y_label, ticks=ticks)
    return [Picture(name, table.title, chart, replace(table, name=name))]


def _build_recall_pictures(months: Sequence[RecallGroup]) -> list[Picture]:
    """Return a picture of the share recalled by month, which is that of the first screen."""
    if len(months) < 2:
        return []
    series: list[_Series] = [
        ("recalled", [100 * np.clip(_interval_bounds(month.recalled), 0, 1) for month in months]),
        ("expected by FSRS", [100 * month.expected for month in months]),
    ]
    title = "Month by month: recalled, and expected by FSRS"
    return [_build_month_picture("recall-by-month", title, months, series, "per cent")]


def _build_month_picture(
    name: str,
    title: str,
    months: Sequence[Month] | Sequence[RecallGroup],
    series: Sequence[_Series],
    unit: str,
    table: Table | None = None,
) -> Picture:
    names = [month.name for month in months]
    chart = pictures.line_chart(range(len(months)), series, "", unit, ticks=names)
    return Picture(name, title, chart, table)


def _build_months_section(name: str, months: Sequence[Month]) -> list[Section]:
    if not months:
        return []
    recalled = Column("recalled", digits=1, percent=True, round_by_interval=False)
    loss = Column("log loss", round_by_interval=False)
    heads = ("month", "reviews", recalled, replace(recalled, title="predicted"), loss)
    rows = (
        (
            month.name,
            month.reviews,
            make_figure(month.recalled),
            make_figure(month.predicted),
            make_figure(month.log_loss),
        )
        for month in months
    )
    latest = tuple(range(len(months))[-_MONTHS_IN_BRIEF:])
    table = Table.from_rows(
        "months",
        f"Month by month, by {name}",
        heads,
        rows,
        brief_rows=latest,
        # The picture of recall by month is about all reviews, and these are the evaluated ones: two
        # different shares recalled in one month would confuse people.
        is_shown=False,
    )
    title = "Log loss: was I predictable?"
    losses = [np.maximum(_interval_bounds(month.log_loss), 0) for month in months]
    picture = _build_month_picture(
        "loss-by-month", title, months, [("log loss", losses)], "log loss", table
    )
    block = picture if len(months) > 1 else table
    return [Section("Over time", (block,), side_by_side=True)]


def _build_costs_pictures(workload: Workload | str) -> list[Picture]:
    """Return a picture of minutes a day by desired retention, if they are known."""
    if isinstance(workload, str):
        return []
    estimate_and_bounds = (workload.figures, *workload.band)
    minutes = np.stack([figures[:, MINUTES] for figures in estimate_and_bounds], axis=1)
    ticks = [f"{100 * retention:.0f} %" for retention in workload.retentions]
    title = f"Minutes a day by desired retention, {workload.preset}"
    mark = None
    if not workload.is_fsrs_off:
        title += "; the line marks today's desired retention"
        mark = workload.at(workload.desired)  # position of today's retention among the ticks
    chart = pictures.band_chart(minutes.tolist(), ticks, "minutes a day", mark=mark)
    table = replace(shown.tables(workload.finding)[0], name="workload-1")
    return [Picture("workload", title, chart, table)]


def _build_state_section(day_findings: Sequence[Finding]) -> list[Section]:
    blocks: list[Block] = []
    for number, answer in enumerate(day_findings, start=1):
        summary, *evidence = _build_evidence_section(answer, f"{answer.question}-{number}").blocks
        assert isinstance(summary, str)  # the first sentence
        title = QUESTION_REGISTRY[answer.question].title
        blocks.append(Section(title, tuple(evidence), folded=True, summary=summary))
    for answer in day_findings:
        if not isinstance(answer.evidence, DayStates):
            continue
        days = answer.evidence.days
        if len(days) < 2:
            continue
        bounds = [_interval_bounds(day.state) for day in days]
        names = [day.name for day in days]
        chart = pictures.band_chart(bounds, names, "state in logits", zero=True)
        table = replace(days_table(days), name="days", brief_rows=())
        blocks.append(Picture("state", "Your state, day by day", chart, table))
    return [Section("Your days", (*blocks, STATE_CLOSING))]


def _build_metric_card(run: Run, protocol: Protocol) -> Section:
    from importlib.metadata import version

    facts = [
        f"srs-eval {VERSION}, numpy {version('numpy')}. Rows and flags of the ranking: "
        f"{words.format_protocol(protocol)}.",
        "Every figure of the ranking is for held-out reviews: there are five folds in order of "
        "time, and each model is fitted to the reviews before the fold. Intervals are 95 %, over "
        "days; the verdicts on one question have a joint error rate of at most 5 % (Holm).",
    ]
    if run.reviews is not None:
        facts.append(
            f"{format_count(run.reviews, 'review')}, of which {run.evaluated:,} are evaluated "
            f"(reviews of later days); {format_count(len(run.results_by_name()), 'model')} "
            "evaluated."
        )
    names_by_reason: dict[str, list[str]] = {}
    for name, model in {**run.failed, **run.skipped}.items():
        names_by_reason.setdefault(model.reason.rstrip("."), []).append(name)
    facts += [
        f"Not evaluated: {', '.join(names)}: {reason}." for reason, names in names_by_reason.items()
    ]
    facts.append(
        "The documentation of srs-eval explains how reviews are chosen and evaluated (protocol.md) "
        "and what the metrics and verdicts mean (metrics.md)."
    )
    return Section("Metric card", tuple(facts))


# Answers


def format_rows_closing(rows: str) -> str:
    """Say which reviews the answers are about."""
    return _ROWS_CLOSINGS[rows]


def _build_presets_section(answers: Sequence[Finding]) -> list[Section]:
    """Return a section on what to do with each preset, with the parameters to paste."""
    findings = select_preset_findings(answers)
    if not findings:
        return []
    blocks: list[Block] = [build_presets_table(findings)]
    for finding in findings:
        if finding.parameters is None:
            continue
        explanation = explain_where_to_paste(finding)
        parameters = Code(format_parameters(finding.parameters))
        title = f"Parameters for {finding.subject}"
        blocks.append(Section(title, (explanation, parameters), folded=True))
    return [Section("Your presets", tuple(blocks))]


def select_preset_findings(answers: Sequence[Finding]) -> list[Finding]:
    """Return the findings on each preset, including presets with unsupported parameters."""
    return [
        answer
        for answer in answers
        if answer.question == PARAMETERS
        and not isinstance(answer.evidence, ParameterSummary | Unanswered)
    ]


def build_presets_table(presets: Sequence[Finding]) -> Table:
    """Return a table of what to do with each preset and how sure that is.

    On PARAMETERS, `shown.line` says only how sure it is; `preset_action` says what to do.
    """
    certainty = Column("how sure", note="that the advice in this row is right")
    rows = ((finding.subject, preset_action(finding), shown.line([finding])) for finding in presets)
    return Table.from_rows("what-to-do", "", ("preset", "what to do", certainty), rows)


def _build_answers_section(
    answers: Sequence[Finding], rows: str, costs: Workload | str
) -> list[Section]:
    """Return a section with a line for each question, which opens to show the evidence."""
    if not answers:
        return []
    blocks: list[Block] = []
    unanswered_titles: dict[str, list[str]] = {}  # by reason
    for name, question in QUESTION_REGISTRY.items():
        findings = [answer for answer in answers if answer.question == name]
        if not findings:
            continue
        if isinstance(findings[0].evidence, Unanswered):
            reason = shown.sentences(findings[0])[0]
            unanswered_titles.setdefault(reason, []).append(question.title)
            continue
        sections = [
            _build_evidence_section(finding, f"{name}-{number}")
            for number, finding in enumerate(findings, start=1)
        ]
        evidence = sections[0].blocks if len(sections) == 1 else tuple(sections)
        summary = _summarize_answers(findings)
        blocks.append(Section(question.title, evidence, folded=True, summary=summary))
    blocks += _build_costs_section(costs)
    blocks += [f"{reason} {' '.join(titles)}" for reason, titles in unanswered_titles.items()]
    blocks.append(format_rows_closing(rows))
    return [Section("Answers", tuple(blocks))]


def _summarize_answers(answers: Sequence[Finding]) -> str:
    """Summarize the answers to a question in a line.

    Without a line of its own, a question has the first sentence on all reviews or presets or, if
    there is none, on the first subject. So has PARAMETERS: its line says only how sure the
    recommendation is, not what it is.
    """
    question = answers[0].question
    subject = answers[0].subject
    if question == "time":
        return f"{format_month(subject)}: {shown.line(answers)}"
    if QUESTION_REGISTRY[question].line_title and question != PARAMETERS:
        return shown.line(answers)
    overall = [answer for answer in answers if answer.subject in OVERALL_SUBJECTS]
    answer = overall[0] if overall else answers[0]
    sentence = "".join(shown.sentences(answer)[:1]).rstrip(".")
    if overall or len(answers) == 1:
        return sentence
    return f"{subject}: {sentence}"


def _build_evidence_section(answer: Finding, name: str) -> Section:
    """Return an answer's sentences and tables; `name` begins the names of the tables."""
    blocks: list[Block] = list(shown.sentences(answer))
    blocks += [
        replace(table, name=f"{name}-{number}")
        for number, table in enumerate(shown.tables(answer), start=1)
    ]
    return Section(capitalize(answer.subject), tuple(blocks))


def _build_costs_section(workload: Workload | str) -> list[Section | str]:
    """Return a folded section on the costs of retentions, or none; the picture has the table."""
    title = QUESTION_REGISTRY["workload"].title
    if isinstance(workload, str):
        return [Section(title, (), folded=True, summary=workload)] if workload else []
    sentences = shown.sentences(workload.finding)
    summary = " ".join(sentences[:_COSTS_SUMMARY_LENGTH])
    blocks = list(sentences[_COSTS_SUMMARY_LENGTH:])
    if workload.has_all_draws:
        blocks.append(DRAWS_NOTE)
    return [Section(title, tuple(blocks), folded=True, summary=summary)]
