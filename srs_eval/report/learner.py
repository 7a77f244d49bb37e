"""The report on one learner, as `srs-eval export` writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.advice import questions, shown
from srs_eval.advice.findings import Days, Finding, Month, OfAll, Unanswered, of
from srs_eval.advice.overview import Overview, answers_to
from srs_eval.advice.questions import OF_PRESETS, REGISTRY, Asked
from srs_eval.advice.sentences import (
    SHARES,
    capital,
    is_difference,
    month_in_words,
    parameter_line,
    where_to_paste,
)
from srs_eval.advice.sentences import Table as AnswerTable
from srs_eval.advice.shown.costs import OF_DRAWS
from srs_eval.advice.shown.memory import days_table
from srs_eval.advice.shown.parameters import what_to_do
from srs_eval.advice.workload.estimate import MINUTES, Workload
from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import anonymous as without_names
from srs_eval.engine.ranking import Group, own_scheduler
from srs_eval.engine.run import Run
from srs_eval.engine.session import Result
from srs_eval.engine.workers import send
from srs_eval.report import formats as words
from srs_eval.report import pictures
from srs_eval.report.document import (
    Block,
    Cell,
    Code,
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
from srs_eval.report.inspection import inspect_log, summary_section
from srs_eval.stats.intervals import Interval, calibration_graph
from srs_eval.training.hyperparameters import Context

_ALL = ("all presets", "all reviews")  # subjects that need no name
_OF_ROWS = {
    "anki": "Reviews are those that Anki's optimizer takes{}; a verdict speaks of reviews like "
    "these. An interval beyond 0 is none yet where several are tested together (Holm), nor below "
    "1,000 reviews or 20 days.",
    "benchmark": "Reviews are those of the benchmark{}; a verdict speaks of reviews like these. "
    "FSRS-6 is fitted to the reviews before each fold.",
}
STATE_CLOSING = (
    "STATE-FSRS-6 knows every answer before the one it predicts; a scheduler cannot. "
    "Intervals are 95 %, over days."
)
_PICTURED = (
    "On the diagonal of the calibration, 90 % predicted is 90 % recalled; below it a model expects "
    "too much. Bars and bands are 95 % intervals."
)
_MONTHS_IN_BRIEF = 6  # the latest, in a forum


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
    asked_of = {each for task in questions.tasks_of(log) for each in task}
    over_all = [each for each in questions.OVER_ALL if each in asked_of]
    wanted = list(dict.fromkeys([*over_all, *questions.questions_for(log)]))
    every = [*wanted, "day", "workload"]

    def at(question: str) -> None:
        tell(every.index(question) + 1, len(every), question)

    asked = Asked(log, context, run.equivalence)
    answers, state = _answers(asked, wanted, at, known), _answers(asked, ["day"], at, known)
    at("workload")
    costs_or_why = costs or _workload(asked, at_once=bool(known))
    at_a_glance = [each for each in known if each.question == questions.COSTS]
    if not at_a_glance and isinstance(costs_or_why, Workload):
        at_a_glance = [costs_or_why.glance]
    elif not at_a_glance:
        at_a_glance = _answers(asked, asked_of & {questions.COSTS}, lambda _: None, known)
    screen = Overview.answered(log, [*answers, *state, *at_a_glance]).first_screen
    groups, results, own = run.groups(), run.results(), own_scheduler(log)
    best = groups[0].best if groups else None
    by_name = {each.name: each.words for each in run.configurations}
    names = [own, best.configuration.name if best else None]
    chosen = {by_name[name]: results[name] for name in names if name in results}
    of_months: Sequence[Month] = ()
    predictor = next(iter(chosen), "")
    if chosen:
        of_months = questions.months_of(log, protocol, chosen[predictor])
    drawn = (*_calibration(chosen), *_recall_by_month(predictor, of_months), *_curve(costs_or_why))
    return Document(
        _title(log, narrowed_to or {}, anonymous),
        tuple(f"{each.title} {each.short.text}" for each in screen.panes),
        (
            *_presets_section(answers),
            *([Section("In pictures", drawn, said=_PICTURED, side_by_side=True)] if drawn else []),
            *_answers_section(answers, questions.rows_of(log, wanted), costs_or_why),
            *(
                _group(group, f"{number}-" if len(groups) > 1 else "", run.so_far, own)
                for number, group in enumerate(groups, start=1)
            ),
            *_over_time(predictor, of_months),
            *_state(state),
            summary_section(inspect_log(log), with_notes=not anonymous),
            _card(run, protocol),
        ),
        screen,
    )


def _answers(
    asked: Asked, wanted: Iterable[str], at: Callable[[str], None], known: Sequence[Finding]
) -> list[Finding]:
    """The answers to all questions, or why there are none."""
    found: list[Finding] = []
    for question in wanted:
        at(question)
        told_by = questions.DAYS if question in questions.DAYS else (question,)
        answers = [each for each in known if each.question in told_by]
        found += answers or answers_to(question, asked)
    return found


def export_learner(
    log: ReviewLog, run: Run, protocol: Protocol, *, form: str, path: Path, **how: Any
) -> list[Path]:
    """Write `learner_report` in a form of `report.files.write_as`; what was written.

    Works first on the questions of which nothing is `known`: call it in a worker. Raises
    InputError where the files cannot be written.
    """
    return write_as(learner_report(log, run, protocol, **how), form, path)


def _workload(asked: Asked, *, at_once: bool) -> Workload | str:
    """What a desired retention costs; a sentence, or none, where that cannot be told.

    `at_once`: a first estimate.
    """
    if questions.rows_of(asked.log, (OF_PRESETS,)) == "benchmark":
        return ""
    coming = questions.ask("workload", asked)
    try:
        *_, found = islice(coming, 1) if at_once else coming
    except NotEnoughData as error:
        return f"Too little data to tell what a desired retention costs: {error}."
    except InputError as error:
        # Where it lies is nobody's business.
        return str(error).replace(asked.log.import_summary.path, "the file")
    return of(found, Workload)


def _title(log: ReviewLog, narrowed_to: Mapping[str, str | None], anonymous: bool) -> str:
    if anonymous:
        return "A collection"
    only = [f"{what} {name}" for what, name in narrowed_to.items() if name]
    name = log.import_summary.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}, {' and '.join(only)}" if only else name


# Ranking


def _group(group: Group, prefix: str, so_far: str, scheduler: str | None) -> Section:
    names = [line.configuration.name for line in group.lines]
    own = names.index(scheduler) if scheduler in names else None
    drawn = pictures.ranking(group, own)
    blocks: list[Block] = [f"So far: {so_far}."] if so_far else []
    blocks += [group.answer] if group.answer else []
    table = ranking_table(group, own)
    blocks.append(replace(table, name=f"{prefix}ranking", title=""))
    if len(group.lines) > 1:
        title = "Log loss, the average as a line"
        blocks.append(Picture(f"{prefix}ranking", title, drawn))
    return Section(group.title, tuple(blocks))


def _bounds(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


# Calibration, months, days


def _calibration(results: Mapping[str, Result]) -> list[Picture]:
    if not results:
        return []
    graphs = {
        name: calibration_graph(result.y, result.p, pictures.CALIBRATION_BINS)
        for name, result in results.items()
    }
    rows = []
    for name, graph in graphs.items():
        columns = graph.predicted, graph.observed, graph.low, graph.high
        for k in np.flatnonzero(graph.count).tolist():
            low, high = 100 * graph.edges[k], 100 * graph.edges[k + 1]
            cells = (Figure(float(each[k])) for each in columns)
            rows.append((name, f"{low:.0f} to {high:.0f} %", int(graph.count[k]), *cells))
    shares = ("predicted", "recalled", "95 % from", "to")
    heads = (Column(each, digits=1, percent=True) for each in shares)
    about = ("model", "predicted between", "reviews", *heads)
    table = Table.of("calibration", "Recalled over predicted recall", about, rows, brief=())
    drawn = pictures.calibration(list(graphs.items()), pictures.SMALL)
    return [Picture("calibration", "Calibration", drawn, table)]


def _recall_by_month(name: str, months: Sequence[Month]) -> list[Picture]:
    if len(months) < 2:
        return []
    series: list[tuple[str, list[Any]]] = [
        ("recalled", [100 * np.clip(_bounds(month.recalled), 0, 1) for month in months]),
        (f"predicted by {name}", [100 * month.predicted for month in months]),
    ]
    title = "Month by month: recalled and predicted"
    return [_by_month("recall-by-month", title, months, series, "per cent")]


def _by_month(
    name: str,
    title: str,
    months: Sequence[Month],
    series: Sequence[tuple[str, Sequence[Any]]],
    unit: str,
    table: Table | None = None,
) -> Picture:
    names = [month.name for month in months]
    drawn = pictures.lines(range(len(months)), series, "", unit, ticks=names)
    return Picture(name, title, drawn, table)


def _over_time(name: str, months: Sequence[Month]) -> list[Section]:
    if not months:
        return []
    recalled = Column("recalled", digits=1, percent=True, by_half_width=False)
    loss = Column("log loss", by_half_width=False)
    heads = ("month", "reviews", recalled, replace(recalled, title="predicted"), loss)
    rows = (
        (
            *(each.name, each.reviews, figure(each.recalled)),
            *(figure(each.predicted), figure(each.log_loss)),
        )
        for each in months
    )
    brief = tuple(range(len(months))[-_MONTHS_IN_BRIEF:])
    table = Table.of("months", f"Month by month, by {name}", heads, rows, brief=brief)
    title = "Log loss: was I predictable?"
    losses = [np.maximum(_bounds(month.log_loss), 0) for month in months]
    picture = _by_month("loss-by-month", title, months, [("log loss", losses)], "log loss", table)
    return [Section("Over time", (picture if len(months) > 1 else table,), side_by_side=True)]


def _curve(found: Workload | str) -> list[Picture]:
    """Minutes a day by desired retention."""
    if isinstance(found, str):
        return []
    minutes = np.stack([each[:, MINUTES] for each in (found.figures, *found.band)], axis=1)
    ticks = [f"{100 * each:.0f} %" for each in found.retentions]
    mark = None if found.is_off else found.at(found.desired)
    drawn = pictures.band(minutes.tolist(), ticks, "minutes a day", mark=mark)
    todays = "" if found.is_off else "; the line is today's"
    title = f"Minutes a day by desired retention, {found.preset}{todays}"
    return [
        Picture("workload", title, drawn, figures(shown.tables(found.finding)[0], "workload-1"))
    ]


def _state(state: Sequence[Finding]) -> list[Section]:
    blocks: list[Block] = []
    for number, answer in enumerate(state, start=1):
        rests_on = _evidence(answer, f"{answer.question}-{number}").blocks[1:]
        title = REGISTRY[answer.question].title
        blocks.append(Section(title, rests_on, folded=True, said=shown.sentences(answer)[0]))
    by_day = [each.evidence.days for each in state if isinstance(each.evidence, Days)]
    for days in (each for each in by_day if len(each) > 1):
        bounds = [_bounds(each.state) for each in days]
        drawn = pictures.band(bounds, [each.name for each in days], "state in logits", zero=True)
        table = replace(figures(days_table(days), "days"), brief=())
        blocks.append(Picture("state", "Your state, day by day", drawn, table))
    return [Section("Your days", (*blocks, STATE_CLOSING))]


def _card(run: Run, protocol: Protocol) -> Section:
    from importlib.metadata import version

    facts = [
        f"srs-eval {VERSION}, numpy {version('numpy')}. Rows and flags of the ranking: "
        f"{words.protocol(protocol)}.",
        "Every figure of the ranking is over held-out reviews: five folds in order of time, each "
        "model fitted on what came before. Intervals are 95 %, over days; verdicts on one question "
        "are held to 5 % together (Holm).",
    ]
    if run.reviews is not None:
        facts.append(
            f"{run.reviews:,} rows, {run.evaluated:,} evaluated on later days; "
            f"{counted(len(run.results()), 'configuration')} evaluated."
        )
    reasons: dict[str, list[str]] = {}
    for name, without in {**run.failed, **run.skipped}.items():
        reasons.setdefault(without.reason.rstrip("."), []).append(name)
    facts += [f"Not evaluated: {', '.join(each)}: {why}." for why, each in reasons.items()]
    facts.append("What the metrics and verdicts mean is defined in the documentation of srs-eval.")
    return Section("Metric card", tuple(facts))


# Answers


def rows_closing(rows: str, with_option: bool) -> str:
    """Of which reviews answers speak, perhaps with the option that takes them."""
    return _OF_ROWS[rows].format(f" (--rows {rows})" if with_option else "")


def _presets_section(answers: Sequence[Finding]) -> list[Section]:
    """What to do with each preset, with the parameters to paste."""
    presets = of_presets(answers)
    copied = [
        Section(
            f"Parameters for {each.subject}",
            (where_to_paste(each), Code(parameter_line(each.parameters))),
            folded=True,
        )
        for each in presets
        if each.parameters is not None
    ]
    return [Section("Your presets", (presets_table(presets), *copied))] if presets else []


def of_presets(answers: Sequence[Finding]) -> list[Finding]:
    """What to do with each preset, and what is left out."""
    of_all = (OfAll, Unanswered)
    found = [each for each in answers if each.question == OF_PRESETS]
    return [each for each in found if not isinstance(each.evidence, of_all)]


def presets_table(presets: Sequence[Finding]) -> Table:
    """What to do with each, and how sure that is."""
    sure = Column("how sure", note="that it is at least as good as leaving things as they are")
    rows = ((each.subject, what_to_do(each), shown.line([each])) for each in presets)
    return Table.of("what-to-do", "", ("preset", "what to do", sure), rows)


def _answers_section(answers: Sequence[Finding], rows: str, costs: Workload | str) -> list[Section]:
    """A line for each question, opened for what it rests on."""
    if not answers:
        return []
    blocks: list[Block] = []
    untold: dict[str, list[str]] = {}
    for question, about in REGISTRY.items():
        found = [each for each in answers if each.question == question]
        if found and isinstance(found[0].evidence, Unanswered):
            untold.setdefault(shown.sentences(found[0])[0], []).append(about.title)
        elif found:
            each_of = [_evidence(each, f"{question}-{k}") for k, each in enumerate(found, start=1)]
            rests_on = each_of[0].blocks if len(each_of) == 1 else tuple(each_of)
            blocks.append(Section(about.title, rests_on, folded=True, said=_said(found)))
    blocks += _costs(costs)
    blocks += [f"{why} {' '.join(titles)}" for why, titles in untold.items()]
    blocks.append(rows_closing(rows, with_option=False))
    return [Section("Answers", tuple(blocks))]


def _said(found: Sequence[Finding]) -> str:
    """All that is found on a question, in a line."""
    question, subject = found[0].question, found[0].subject
    if question == "time":
        return f"{month_in_words(subject)}: {shown.line(found)}"
    if REGISTRY[question].line and question != OF_PRESETS:
        return shown.line(found)
    whole = next((each for each in found if each.subject in _ALL), found[0])
    first = "" if whole.subject in _ALL or len(found) == 1 else f"{subject}: "
    return first + "".join(shown.sentences(whole)[:1]).rstrip(".")


def _evidence(answer: Finding, name: str) -> Section:
    """All that an answer says and rests on; `name` begins its tables' names."""
    blocks: list[Block] = list(shown.sentences(answer))
    blocks += [
        figures(table, f"{name}-{number}")
        for number, table in enumerate(shown.tables(answer), start=1)
    ]
    return Section(capital(answer.subject), tuple(blocks))


def figures(table: AnswerTable, name: str) -> Table:
    """An answer's table as a report's."""

    def column(title: str) -> Column:
        share = title in SHARES
        signed = is_difference(title)
        return Column(title, 1 if share else 4, by_half_width=False, percent=share, signed=signed)

    def cell(of: Any) -> Cell:
        return figure(of) if isinstance(of, float | Interval) else of

    rows = (map(cell, row) for row in table.rows)
    return Table.of(name, table.heading, map(column, table.columns), rows)


def _costs(found: Workload | str) -> list[Section | str]:
    """What a desired retention costs, in a line and behind it; its table is with the picture."""
    title = REGISTRY["workload"].title
    if isinstance(found, str):
        return [Section(title, (), folded=True, said=found)] if found else []
    sentences = shown.sentences(found.finding)
    said, more = " ".join(sentences[:2]), sentences[2:]
    closing = (OF_DRAWS,) if found.drawn else ()
    return [Section(title, (*more, *closing), folded=True, said=said)]
