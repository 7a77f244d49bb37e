"""The report on one learner, as `srs-eval export` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from srs_eval.advice.findings import Days, Month
from srs_eval.advice.overview import Line, Overview
from srs_eval.advice.questions import MODELS, REGISTRY, Finding
from srs_eval.advice.sentences import parameter_line
from srs_eval.advice.shown import sentences, tables
from srs_eval.advice.shown.memory import days_table
from srs_eval.advice.workload.estimate import MINUTES, Workload
from srs_eval.data.errors import counted
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.engine.ranking import Group
from srs_eval.engine.run import Run
from srs_eval.report import formats as words
from srs_eval.report import pictures
from srs_eval.report.console import STATE_CLOSING
from srs_eval.report.document import Block, Cell, Column, Document, Figure, Picture, Section, Table
from srs_eval.report.export import ranking_table
from srs_eval.report.findings import (
    answers_section,
    evidence,
    figures,
    presets_section,
)
from srs_eval.report.inspection import Inspection, entries_table
from srs_eval.stats.intervals import CalibrationGraph, Interval

_FIRST_ROWS = 15  # of a ranking in a forum, with one's own and the average
_PICTURED = (
    "On the diagonal of the calibration, 90 % predicted is 90 % recalled; below it a model expects "
    "too much. Bars and bands are 95 % intervals, of the workload 90 % of the draws."
)
_MONTHS_IN_BRIEF = 6  # the latest, in a forum


@dataclass(frozen=True)
class Learner:
    """What a report on a learner tells; a sentence where something could not be found out."""

    inspection: Inspection
    protocol: Protocol
    run: Run
    rows: str  # which reviews answers rest on: "anki" or "benchmark"
    answers: Sequence[Finding] | str
    state: Sequence[Finding] | str
    workload: Workload | str  # of the preset with the most reviews
    calibration: Mapping[str, CalibrationGraph]  # by words of a configuration
    months: Mapping[str, Sequence[Month]]  # of the model in words that predicts
    narrowed_to: Mapping[str, str | None]
    anonymous: bool
    own: str | None = None  # the configuration that stands for the learner's scheduler
    fsrs_is_off: bool = False


def learner_document(learner: Learner) -> Document:
    """Answers first, then what they rest on."""
    groups = learner.run.groups()
    lines = _lines(learner)
    sections = [
        *presets_section(lines),
        *_in_pictures(learner),
        *answers_section(learner.answers, learner.rows, lines, learner.workload),
        *(
            _group(group, number, len(groups), learner)
            for number, group in enumerate(groups, start=1)
        ),
        *_over_time(learner.months),
        *_state(learner.state),
        _receipt(learner),
        _card(learner),
    ]
    return Document(_title(learner), tuple(_lead(learner, groups)), tuple(sections))


def _title(learner: Learner) -> str:
    only = [f"{what} {name}" for what, name in learner.narrowed_to.items() if name]
    if learner.anonymous:
        return "A collection"
    name = learner.inspection.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}, {' and '.join(only)}" if only else name


def _lead(learner: Learner, groups: Sequence[Group]) -> list[str]:
    """How well FSRS predicts, and which model predicts best."""
    overview = _overview(learner)
    lead = []
    if overview is not None:
        models = (sentences(each)[0] for each in overview.of(MODELS))
        lead = [each for each in (overview.headline, *models) if each]
    so_far = learner.run.so_far
    so_far = f" (so far: {so_far})" if so_far else ""
    ranked = (f"{group.title}{so_far}: {group.answer}" for group in groups[:1] if group.answer)
    return [*lead, *ranked]


# Answers


def _overview(learner: Learner) -> Overview | None:
    """The answers as the app has them."""
    if isinstance(learner.answers, str):
        return None
    return Overview(learner.rows, learner.fsrs_is_off, answers=list(learner.answers))


def _lines(learner: Learner) -> list[Line]:
    """The answers in one line each, presets first, as the app shows them."""
    overview = _overview(learner)
    return [] if overview is None else overview.lines


# Ranking


def _group(group: Group, number: int, groups: int, learner: Learner) -> Section:
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
        told = "Log loss of each model with its interval, as in the table."
        title = "Log loss, the average as a line"
        blocks.append(Picture(f"{name}ranking", title, told, drawn, None))
    return Section(group.title, tuple(blocks))


def _bounds(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


# Calibration, months, days


def _in_pictures(learner: Learner) -> list[Section]:
    drawn = (
        *_calibration(learner.calibration),
        *_recall_by_month(learner.months),
        *_curve(learner.workload),
    )
    return [Section("In pictures", drawn, said=_PICTURED, side_by_side=True)] if drawn else []


def _calibration(graphs: Mapping[str, CalibrationGraph]) -> list[Picture]:
    if not graphs:
        return []
    rows: list[tuple[Cell, ...]] = []
    for name, graph in graphs.items():
        rows += [
            (
                name,
                f"{100 * graph.edges[k]:.0f} to {100 * graph.edges[k + 1]:.0f} %",
                int(graph.count[k]),
                Figure(float(graph.predicted[k])),
                Figure(float(graph.observed[k])),
                Figure(float(graph.low[k])),
                Figure(float(graph.high[k])),
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
            Column("predicted", digits=1, percent=True),
            Column("recalled", digits=1, percent=True),
            Column("95 % from", digits=1, percent=True),
            Column("to", digits=1, percent=True),
        ),
        tuple(rows),
        brief=(),
    )
    told = f"Calibration of {' and '.join(graphs)}: recalled over predicted recall."
    drawn = pictures.calibration(list(graphs.items()), pictures.SMALL)
    return [Picture("calibration", "Calibration", told, drawn, table)]


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
                Figure(month.recalled.estimate, month.recalled.half_width),
                Figure(month.predicted),
                Figure(month.log_loss.estimate, month.log_loss.half_width),
            )
            for month in months
        ),
        brief=tuple(range(len(months))[-_MONTHS_IN_BRIEF:]),
    )


def _recall_by_month(by_model: Mapping[str, Sequence[Month]]) -> list[Picture]:
    made = []
    for name, months in by_model.items():
        if len(months) < 2:
            continue
        drawn = pictures.lines(
            list(range(len(months))),
            [
                ("recalled", [100 * month.recalled.estimate for month in months]),
                (f"predicted by {name}", [100 * month.predicted for month in months]),
            ],
            "",
            "per cent",
            ticks=[month.name for month in months],
            half_widths={"recalled": [100 * month.recalled.half_width for month in months]},
            size=pictures.SMALL,
        )
        told = f"Recalled and predicted month by month, by {name}."
        title = "Month by month: recalled and predicted"
        made.append(Picture("recall-by-month", title, told, drawn, None))
    return made


def _over_time(by_model: Mapping[str, Sequence[Month]]) -> list[Section]:
    made: list[Block] = []
    for name, months in by_model.items():
        table = _months_table(name, months)
        if len(months) < 2:
            made.append(table)
            continue
        drawn = pictures.lines(
            list(range(len(months))),
            [("log loss", [month.log_loss.estimate for month in months])],
            "",
            "log loss",
            ticks=[month.name for month in months],
            half_widths={"log loss": [month.log_loss.half_width for month in months]},
            size=pictures.SMALL,
        )
        told = f"Log loss month by month, by {name}."
        made.append(Picture("loss-by-month", "Log loss: was I predictable?", told, drawn, table))
    return [Section("Over time", tuple(made), side_by_side=True)] if made else []


def _curve(found: Workload | str) -> list[Picture]:
    """Minutes a day by desired retention."""
    if isinstance(found, str):
        return []
    low, high = found.band if found.drawn else (found.median, found.median)
    band = ", 90 % of the draws as a band" if found.drawn else ", a first estimate"
    drawn = pictures.band(
        list(
            zip(
                found.median[:, MINUTES].tolist(),
                low[:, MINUTES].tolist(),
                high[:, MINUTES].tolist(),
                strict=True,
            )
        ),
        [f"{100 * each:.0f} %" for each in found.retentions],
        "minutes a day",
        mark=found.at(found.desired),
        size=pictures.SMALL,
    )
    return [
        Picture(
            "workload",
            f"Minutes a day by desired retention, {found.preset}; the line is today's",
            f"Minutes a day by desired retention for {found.preset}{band}.",
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
            size=pictures.SMALL,
        )
        told = "Your state on each day with reviews: above 0 you recalled more than usual."
        blocks.append(
            Picture(
                "state",
                "Your state, day by day",
                told,
                drawn,
                replace(figures(days_table(days), "days"), brief=()),
            )
        )
    return [Section("Your days", (*blocks, STATE_CLOSING))]


# What was read, and the card


def _receipt(learner: Learner) -> Section:
    inspection = learner.inspection
    span = [each[:10] for each in (inspection.first_review, inspection.last_review) if each]
    facts = [
        f"{inspection.format}, {inspection.entries_read:,} entries"
        + (f", {span[0]} to {span[1]}" if len(span) == 2 else "")
        + f", {counted(inspection.days, 'day')} from first to last.",
        f"Days begin as: {inspection.day_boundaries}.",
    ]
    presets = Table(
        "presets",
        "Presets",
        tuple(map(Column, ("preset", "decks", "cards", "entries", "parameters"))),
        tuple(
            (
                preset.name or str(preset.id),
                preset.decks,
                preset.counts.cards,
                preset.counts.entries,
                parameter_line(preset.parameters) if preset.parameters else preset.schedules_with,
            )
            for preset in inspection.presets
        ),
    )
    notes = () if learner.anonymous else inspection.notes
    blocks: list[Block] = [*facts, entries_table(inspection)]
    if inspection.presets:
        blocks.append(Section("Presets", (presets,), folded=True))
    return Section("What was read", (*blocks, *notes))


def _card(learner: Learner) -> Section:
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
    for name, reason in (
        *((name, failed.reason) for name, failed in run.failed.items()),
        *((name, skipped.reason) for name, skipped in run.skipped.items()),
    ):
        reasons.setdefault(reason, []).append(name)
    facts += [
        f"Not evaluated: {', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in reasons.items()
    ]
    facts.append("What the metrics and verdicts mean is defined in the documentation of srs-eval.")
    return Section("Metric card", tuple(facts))
