"""The report on one learner, as `srs-eval export` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from srs_eval.advice.findings import Days, Month
from srs_eval.advice.over_time import dates, months
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import (
    DAYS,
    MODELS,
    OF_PRESETS,
    OVER_ALL,
    REGISTRY,
    Asked,
    Finding,
    ask,
    questions_for,
    rows_of,
    tasks_of,
)
from srs_eval.advice.shown import sentences, tables
from srs_eval.advice.shown.memory import days_table
from srs_eval.advice.workload.estimate import MINUTES, Workload, workload
from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import anonymous as without_names
from srs_eval.engine.ranking import Group, own_scheduler
from srs_eval.engine.run import Run
from srs_eval.engine.workers import send
from srs_eval.report import formats as words
from srs_eval.report import pictures
from srs_eval.report.console import STATE_CLOSING
from srs_eval.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    figure,
)
from srs_eval.report.export import ranking_table
from srs_eval.report.files import write_as
from srs_eval.report.findings import (
    answers_section,
    evidence,
    figures,
    presets_section,
)
from srs_eval.report.inspection import Inspection, inspect_log, summary_section
from srs_eval.stats.intervals import CalibrationGraph, Interval, calibration_graph
from srs_eval.training.hyperparameters import Context

_FIRST_ROWS = 15  # of a ranking in a forum, with one's own and the average
_PICTURED = (
    "On the diagonal of the calibration, 90 % predicted is 90 % recalled; below it a model expects "
    "too much. Bars and bands are 95 % intervals, of the workload 90 % of the draws."
)
_CALIBRATION_BINS = 20
_MONTHS_IN_BRIEF = 6  # the latest, in a forum


@dataclass(frozen=True)
class _Learner:
    """What a report on a learner tells; a sentence where something could not be found out."""

    inspection: Inspection
    protocol: Protocol
    run: Run
    rows: str  # that the answers rest on
    answers: Sequence[Finding] | str
    state: Sequence[Finding] | str
    workload: Workload | str  # of the preset with the most reviews
    calibration: Mapping[str, CalibrationGraph]  # by words of a configuration
    predictor: str  # in words: the model whose months are told
    months: Sequence[Month]
    narrowed_to: Mapping[str, str | None]
    anonymous: bool
    own: str | None = None  # the configuration that stands for the learner's scheduler


def learner_report(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    context: Context | None = None,
    narrowed_to: Mapping[str, str | None] | None = None,
    anonymous: bool = False,
    tell: Callable[[int, int, str], object] = lambda *at: send(at),
    known: Sequence[Finding] = (),
    costs: Workload | None = None,
) -> Document:
    """The report on one learner whose ranking is in `run`; asks the questions, too.

    Only those of which nothing is `known` of the same log; with any, what retentions cost is a
    first estimate, unless it is known (`costs`). `tell` hears of each question before it is worked
    on: its number, of how many, and its name; in a worker, whoever runs that does. `anonymous`
    leaves out names of decks, presets and the file, and asks all anew.
    """
    if anonymous:
        log, known, costs = without_names(log), (), None
    asked_of = {each for task in tasks_of(log) for each in task}
    over_all = [each for each in OVER_ALL if each in asked_of]
    questions = list(dict.fromkeys([*over_all, *questions_for(log)]))
    every = [*questions, "day", "workload"]

    def at(question: str) -> None:
        tell(every.index(question) + 1, len(every), question)

    asked = Asked(log, context, run.equivalence)
    answers, state = _answers(asked, questions, at, known), _answers(asked, ["day"], at, known)
    at("workload")
    costs_or_why = costs or _workload(log, context, at_once=bool(known))
    groups = run.groups()
    best = groups[0].best if groups else None
    own = own_scheduler(log)
    shown = [name for name in (own, best and best.configuration.name) if name in run.results()]
    by_name = {each.name: each.words for each in run.configurations}
    return _learner_document(
        _Learner(
            inspection=inspect_log(log),
            protocol=protocol,
            run=run,
            rows=rows_of(log, questions),
            answers=answers,
            state=state,
            workload=costs_or_why,
            calibration={
                by_name[name]: calibration_graph(
                    run.results()[name].y, run.results()[name].p, _CALIBRATION_BINS
                )
                for name in dict.fromkeys(shown)
            },
            predictor=by_name[shown[0]] if shown else "",
            months=months(run.results()[shown[0]], dates(log, protocol)) if shown else (),
            narrowed_to=narrowed_to or {},
            anonymous=anonymous,
            own=own,
        )
    )


def _answers(
    asked: Asked, questions: Sequence[str], at: Callable[[str], None], known: Sequence[Finding]
) -> list[Finding] | str:
    """The answers to all questions, or why there are none."""
    found: list[Finding] = []
    try:
        for question in questions:
            at(question)
            told_by = DAYS if question in DAYS else (question,)
            found += [each for each in known if each.question in told_by] or ask(question, asked)
    except NotEnoughData as error:
        return f"Too little data to answer: {error}."
    return found


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
) -> list[Path]:
    """Write the report on one learner in a form of `report.files.write_as`; what was written.

    Works first on the questions of which nothing is `known` (`learner_report`): call it in a
    worker. Raises InputError where the files cannot be written.
    """
    document = learner_report(
        *(log, run, protocol),
        context=context,
        narrowed_to=narrowed_to,
        anonymous=anonymous,
        known=known,
        costs=costs,
    )
    return write_as(document, form, path)


def _workload(log: ReviewLog, context: Context | None, *, at_once: bool = False) -> Workload | str:
    """What a desired retention costs; a sentence, or none, where that cannot be told.

    `at_once`: a first estimate.
    """
    if rows_of(log, (OF_PRESETS,)) == "benchmark":
        return ""
    try:
        coming = workload(log, context=context)
        with closing(coming):
            if at_once:
                return next(coming)
            *_, found = coming
    except NotEnoughData as error:
        return f"Too little data to tell what a desired retention costs: {error}."
    except InputError as error:
        # Where it lies is nobody's business.
        return str(error).replace(log.receipt.path, "the file")
    return found


def _learner_document(learner: _Learner) -> Document:
    """Answers first, then what they rest on."""
    groups = learner.run.groups()
    overview = _overview(learner)
    lines = [] if overview is None else overview.lines
    sections = [
        *presets_section(lines),
        *_in_pictures(learner),
        *answers_section(learner.answers, learner.rows, lines, learner.workload),
        *(
            _group(group, number, len(groups), learner)
            for number, group in enumerate(groups, start=1)
        ),
        *_over_time(learner.predictor, learner.months),
        *_state(learner.state),
        summary_section(learner.inspection, with_notes=not learner.anonymous),
        _card(learner),
    ]
    return Document(_title(learner), tuple(_lead(learner.run, overview)), tuple(sections))


def _title(learner: _Learner) -> str:
    only = [f"{what} {name}" for what, name in learner.narrowed_to.items() if name]
    if learner.anonymous:
        return "A collection"
    name = learner.inspection.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}, {' and '.join(only)}" if only else name


def _lead(run: Run, overview: Overview | None) -> list[str]:
    """How well FSRS predicts, and which model predicts best."""
    lead = []
    if overview is not None:
        models = (sentences(each)[0] for each in overview.of(MODELS))
        lead = [each for each in (overview.headline, *models) if each]
    so_far = f" (so far: {run.so_far})" if run.so_far else ""
    groups = run.groups()[:1]
    return [*lead, *(f"{each.title}{so_far}: {each.answer}" for each in groups if each.answer)]


# Answers


def _overview(learner: _Learner) -> Overview | None:
    """The answers as the app has them."""
    if isinstance(learner.answers, str):
        return None
    return Overview(learner.rows, answers=list(learner.answers))


# Ranking


def _group(group: Group, number: int, groups: int, learner: _Learner) -> Section:
    so_far = learner.run.so_far
    name = f"{number}-" if groups > 1 else ""
    names = [line.configuration.name for line in group.lines]
    own = names.index(learner.own) if learner.own in names else None
    floor = None if group.floor is None else names.index(group.floor.configuration.name)
    brief = sorted({*range(min(_FIRST_ROWS, len(names))), *({own, floor} - {None})})
    drawn = pictures.intervals(
        [line.configuration.words for line in group.lines],
        [("log loss", [_bounds(line.log_loss) for line in group.lines])],
        "log loss, 95 % intervals",
        [] if group.floor is None else [group.floor.log_loss.estimate],
        own=own,
        width=pictures.SMALL[0],
    )
    blocks: list[Block] = [f"So far: {so_far}."] if so_far else []
    blocks += [group.answer] if group.answer else []
    table = ranking_table(group)
    blocks.append(replace(table, name=f"{name}ranking", title="", own=own, brief=tuple(brief)))
    if len(group.lines) > 1:
        title = "Log loss, the average as a line"
        blocks.append(Picture(f"{name}ranking", title, drawn))
    return Section(group.title, tuple(blocks))


def _bounds(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


# Calibration, months, days


def _in_pictures(learner: _Learner) -> list[Section]:
    drawn = (
        *_calibration(learner.calibration),
        *_recall_by_month(learner.predictor, learner.months),
        *_curve(learner.workload),
    )
    return [Section("In pictures", drawn, said=_PICTURED, side_by_side=True)] if drawn else []


def _calibration(graphs: Mapping[str, CalibrationGraph]) -> list[Picture]:
    if not graphs:
        return []
    rows: list[tuple[Cell, ...]] = []
    for name, graph in graphs.items():
        columns = graph.predicted, graph.observed, graph.low, graph.high
        rows += [
            (
                name,
                f"{100 * graph.edges[k]:.0f} to {100 * graph.edges[k + 1]:.0f} %",
                int(graph.count[k]),
                *(Figure(float(each[k])) for each in columns),
            )
            for k in range(len(graph.count))
            if graph.count[k]
        ]
    table = Table(
        "calibration",
        "Recalled over predicted recall",
        (
            Column("model"),
            Column("predicted between"),
            Column("reviews"),
            *(
                Column(each, digits=1, percent=True)
                for each in ("predicted", "recalled", "95 % from", "to")
            ),
        ),
        tuple(rows),
        brief=(),
    )
    drawn = pictures.calibration(list(graphs.items()), pictures.SMALL)
    return [Picture("calibration", "Calibration", drawn, table)]


def _months_table(name: str, months: Sequence[Month]) -> Table:
    return Table(
        "months",
        f"Month by month, by {name}",
        (
            Column("month"),
            Column("reviews"),
            Column("recalled", digits=1, percent=True, by_half_width=False),
            Column("predicted", digits=1, percent=True),
            Column("log loss", by_half_width=False),
        ),
        tuple(
            (
                month.name,
                month.reviews,
                figure(month.recalled),
                figure(month.predicted),
                figure(month.log_loss),
            )
            for month in months
        ),
        brief=tuple(range(len(months))[-_MONTHS_IN_BRIEF:]),
    )


def _recall_by_month(name: str, months: Sequence[Month]) -> list[Picture]:
    if len(months) < 2:
        return []
    drawn = pictures.lines(
        range(len(months)),
        [
            ("recalled", [100 * month.recalled.estimate for month in months]),
            (f"predicted by {name}", [100 * month.predicted for month in months]),
        ],
        "",
        "per cent",
        ticks=[month.name for month in months],
        half_widths={"recalled": [100 * month.recalled.half_width for month in months]},
    )
    title = "Month by month: recalled and predicted"
    return [Picture("recall-by-month", title, drawn)]


def _over_time(name: str, months: Sequence[Month]) -> list[Section]:
    if not months:
        return []
    table = _months_table(name, months)
    made: Block = table
    if len(months) > 1:
        drawn = pictures.lines(
            range(len(months)),
            [("log loss", [month.log_loss.estimate for month in months])],
            "",
            "log loss",
            ticks=[month.name for month in months],
            half_widths={"log loss": [month.log_loss.half_width for month in months]},
        )
        made = Picture("loss-by-month", "Log loss: was I predictable?", drawn, table)
    return [Section("Over time", (made,), side_by_side=True)]


def _curve(found: Workload | str) -> list[Picture]:
    """Minutes a day by desired retention."""
    if isinstance(found, str):
        return []
    low, high = found.band if found.drawn else (found.median, found.median)
    minutes = np.stack([each[:, MINUTES] for each in (found.median, low, high)], axis=1)
    drawn = pictures.band(
        minutes.tolist(),
        [f"{100 * each:.0f} %" for each in found.retentions],
        "minutes a day",
        mark=found.at(found.desired),
    )
    return [
        Picture(
            "workload",
            f"Minutes a day by desired retention, {found.preset}; the line is today's",
            drawn,
            figures(tables(found.finding)[0], "workload-1"),
        )
    ]


def _state(state: Sequence[Finding] | str) -> list[Section]:
    if isinstance(state, str):
        return [Section("Your days", (state,))] if state else []
    blocks: list[Block] = []
    for number, answer in enumerate(state, start=1):
        rests_on = evidence(answer, f"{answer.question}-{number}").blocks[1:]
        title = REGISTRY[answer.question].title
        blocks.append(Section(title, rests_on, folded=True, said=sentences(answer)[0]))
    by_day = [each.evidence.days for each in state if isinstance(each.evidence, Days)]
    for days in by_day:
        if len(days) < 2:
            continue
        drawn = pictures.band(
            [_bounds(each.state) for each in days],
            [each.name for each in days],
            "state in logits",
            zero=True,
        )
        blocks.append(
            Picture(
                "state",
                "Your state, day by day",
                drawn,
                replace(figures(days_table(days), "days"), brief=()),
            )
        )
    return [Section("Your days", (*blocks, STATE_CLOSING))]


def _card(learner: _Learner) -> Section:
    from importlib.metadata import version

    run = learner.run
    facts = [
        f"srs-eval {VERSION}, numpy {version('numpy')}. Rows and flags of the ranking: "
        f"{words.protocol(learner.protocol)}.",
        "Every figure of the ranking is over held-out reviews: five folds in order of time, each "
        "model fitted on what came before. Intervals are 95 %, over days; verdicts on one question "
        "are held to 5 % together (Holm).",
    ]
    if run.reviews is not None:
        facts.append(
            f"{run.reviews:,} rows, {run.judged:,} judged on later days; "
            f"{counted(len(run.results()), 'configuration')} evaluated."
        )
    reasons: dict[str, list[str]] = {}
    for name, without in {**run.failed, **run.skipped}.items():
        reasons.setdefault(without.reason, []).append(name)
    facts += [
        f"Not evaluated: {', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in reasons.items()
    ]
    facts.append("What the metrics and verdicts mean is defined in the documentation of srs-eval.")
    return Section("Metric card", tuple(facts))
