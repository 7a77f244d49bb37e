"""The report on one learner, as `srs-eval export` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srs_eval import __version__, words
from srs_eval.comparison import Interval
from srs_eval.console import ANKI_ROWS, MODELS_ROWS, QUESTION_TITLES, WORKLOAD
from srs_eval.export import Outcome
from srs_eval.inspection import Inspection
from srs_eval.metrics import CalibrationGraph
from srs_eval.over_time import Month
from srs_eval.plural import counted
from srs_eval.presets import MODELS, Answer
from srs_eval.presets.answers import Cell as AnswerCell
from srs_eval.presets.answers import Table as AnswerTable
from srs_eval.presets.stored import parameter_line
from srs_eval.protocol import Protocol
from srs_eval.ranking import Group
from srs_eval.report import pictures
from srs_eval.report.document import Cell, Column, Document, Figure, Picture, Section, Table
from srs_eval.workload.answers import answers as answers_of
from srs_eval.workload.estimate import MINUTES, Workload

Block = str | Table | Picture | Section
LEADING = ("fit", "parameters", "split", MODELS)  # questions whose answers come first
MOST_LEADING = 6
STATE_CLOSING = (
    "STATE-FSRS-6 knows every answer before the one it predicts; a scheduler cannot. "
    "Intervals are 95 %, over days."
)


@dataclass(frozen=True)
class Learner:
    """What a report on a learner tells; a sentence where something could not be found out."""

    inspection: Inspection
    protocol: Protocol
    outcome: Outcome
    answers: Sequence[Answer] | str
    state: Sequence[Answer] | str
    days: AnswerTable | None
    workload: Workload | str  # of the preset with the most reviews
    calibration: Mapping[str, CalibrationGraph]  # by words of a configuration
    months: Mapping[str, Sequence[Month]]  # of the model in words that predicts
    narrowed_to: Mapping[str, str | None]
    anonymous: bool


def learner_document(learner: Learner) -> Document:
    """Answers first, then what they rest on."""
    groups = learner.outcome.groups()
    sections = [
        *_answers(learner.answers),
        *(
            _group(group, number, len(groups), learner.outcome.so_far)
            for number, group in enumerate(groups, start=1)
        ),
        *_calibration(learner.calibration),
        *_months(learner.months),
        *_workload(learner.workload),
        *_state(learner.state, learner.days),
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
    lead = (
        []
        if isinstance(learner.answers, str)
        else [
            f"{answer.subject[0].upper()}{answer.subject[1:]}: {answer.sentences[0]}"
            for answer in learner.answers
            if answer.question in LEADING and answer.sentences
        ]
    )
    if len(lead) > MOST_LEADING:
        lead = [*lead[:MOST_LEADING], "More presets are below."]
    so_far = f" (so far: {learner.outcome.so_far})" if learner.outcome.so_far else ""
    ranked = (f"{group.title}{so_far}: {group.answer}" for group in groups[:1] if group.answer)
    return [*lead, *ranked]


# Answers


def _answers(answers: Sequence[Answer] | str) -> list[Section]:
    if isinstance(answers, str):
        return [Section("Answers", (answers,))]
    rows = MODELS_ROWS if all(each.question == MODELS for each in answers) else ANKI_ROWS
    sections = _by_question(answers)
    return [Section("Answers", (*sections, rows))] if sections else []


def _by_question(answers: Sequence[Answer]) -> list[Section]:
    made = []
    for question in dict.fromkeys(answer.question for answer in answers):
        of_question = [answer for answer in answers if answer.question == question]
        blocks: list[Block] = []
        for number, answer in enumerate(of_question, start=1):
            subject = f"{answer.subject[:1].upper()}{answer.subject[1:]}"
            blocks.append(Section(subject, tuple(_one_answer(answer, number))))
        made.append(Section(QUESTION_TITLES[question], tuple(blocks)))
    return made


def _one_answer(answer: Answer, number: int) -> list[Block]:
    blocks: list[Block] = list(answer.sentences)
    if answer.parameters is not None:
        blocks.append(f"FSRS parameters: {parameter_line(answer.parameters)}")
    if answer.tables:
        tables = tuple(
            figures(table, f"{answer.question}-{number}-{k}")
            for k, table in enumerate(answer.tables, start=1)
        )
        blocks.append(Section("The figures", tables, folded=True))
    return blocks


def figures(table: AnswerTable, name: str) -> Table:
    """An answer's table as a report's."""
    return Table(
        name,
        table.heading,
        tuple(
            Column(title, by_half_width=False, signed=title.startswith("minus"))
            for title in table.columns
        ),
        tuple(tuple(map(_figure, row)) for row in table.rows),
    )


def _figure(cell: AnswerCell) -> Cell:
    match cell:
        case Interval():
            return Figure(cell.estimate, cell.half_width)
        case float():
            return Figure(cell)
    return cell


# Ranking


def _group(group: Group, number: int, groups: int, so_far: str) -> Section:
    name = f"{number}-" if groups > 1 else ""
    heads = (
        Column("model"),
        Column("place"),
        Column("log loss", by_half_width=False, note="with its 95 % interval over days"),
        Column(
            "to the best",
            by_half_width=False,
            signed=True,
            note="paired difference; less is better",
        ),
        Column("verdict"),
        Column("RMSE(bins)", percent=True, digits=2),
        Column("AUC", digits=3),
        Column("against the average", percent=True, digits=1, signed=True),
        Column("parameters"),
    )
    rows = []
    for line in group.lines:
        metrics = line.result.metrics
        rows.append(
            (
                line.configuration.words,
                line.place,
                Figure(line.log_loss.estimate, line.log_loss.half_width, line.place == 1),
                None
                if line.to_best is None
                else Figure(line.to_best.estimate, line.to_best.half_width),
                line.verdict_words,
                Figure(metrics.rmse_bins),
                None if metrics.auc is None else Figure(metrics.auc),
                None if line.against_floor is None else Figure(line.against_floor),
                line.configuration.parameters,
            )
        )
    drawn = pictures.intervals(
        [line.configuration.words for line in group.lines],
        [("log loss", [_bounds(line.log_loss) for line in group.lines])],
        "log loss, 95 % intervals",
        None if group.floor is None else group.floor.log_loss.estimate,
    )
    blocks: list[Block] = [f"So far: {so_far}."] if so_far else []
    blocks += [group.answer] if group.answer else []
    blocks.append(Table(f"{name}ranking", "", heads, tuple(rows)))
    if len(group.lines) > 1:
        told = "Log loss of each model with its interval, as in the table."
        blocks.append(
            Picture(f"{name}ranking", "Log loss, the average as a line", told, drawn, None)
        )
    return Section(group.title, tuple(blocks))


def _bounds(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


# Calibration, months, days


def _calibration(graphs: Mapping[str, CalibrationGraph]) -> list[Section]:
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
    )
    told = f"Calibration of {' and '.join(graphs)}: recalled over predicted recall."
    drawn = pictures.calibration(list(graphs.items()))
    said = "When a model says 90 %, is it 90 %? On the diagonal it is; below it expects too much."
    return [Section("Calibration", (said, Picture("calibration", table.title, told, drawn, table)))]


def _months(by_model: Mapping[str, Sequence[Month]]) -> list[Section]:
    made: list[Block] = []
    for name, months in by_model.items():
        table = Table(
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
        )
        if len(months) < 2:
            return [Section("Over time", (table,))]
        x, ticks = list(range(len(months))), [month.name for month in months]
        recalled = pictures.lines(
            x,
            [
                ("recalled", [100 * month.recalled.estimate for month in months]),
                (f"predicted by {name}", [100 * month.predicted for month in months]),
            ],
            "",
            "per cent",
            ticks=ticks,
            half_widths={"recalled": [100 * month.recalled.half_width for month in months]},
        )
        loss = pictures.lines(
            x,
            [("log loss", [month.log_loss.estimate for month in months])],
            "",
            "log loss",
            ticks=ticks,
            half_widths={"log loss": [month.log_loss.half_width for month in months]},
        )
        made += [
            Picture("recall-by-month", "Recalled and predicted", f"{table.title}.", recalled, None),
            Picture(
                "loss-by-month",
                "Log loss: was I predictable?",
                f"Log loss month by month, by {name}.",
                loss,
                table,
            ),
        ]
    return [Section("Over time", tuple(made))] if made else []


def _workload(found: Workload | str) -> list[Section]:
    title = "What a desired retention costs"
    if isinstance(found, str):
        return [Section(title, (found,))] if found else []
    (answer,) = answers_of(found)
    low, high = found.band
    ticks = [f"{100 * each:.0f} %" for each in found.retentions]
    drawn = pictures.band(
        list(
            zip(
                found.median[:, MINUTES].tolist(),
                low[:, MINUTES].tolist(),
                high[:, MINUTES].tolist(),
                strict=True,
            )
        ),
        ticks,
        "minutes a day",
        mark=found.at(found.desired),
    )
    curve, *others = (
        figures(table, f"workload-{k}") for k, table in enumerate(answer.tables, start=1)
    )
    picture = Picture(
        "workload",
        f"{found.preset}: minutes a day by desired retention, 90 % of the draws; today's as a line",
        f"Minutes a day by desired retention for {found.preset}.",
        drawn,
        curve,
    )
    more = Section("More figures", tuple(others), folded=True)
    blocks: list[Block] = [*answer.sentences, picture]
    return [Section(title, (*blocks, *([more] if others else []), WORKLOAD))]


def _state(state: Sequence[Answer] | str, days: AnswerTable | None) -> list[Section]:
    if isinstance(state, str):
        return [Section("Your days", (state,))] if state else []
    blocks: list[Block] = list(_by_question(state))
    if days is not None and len(days.rows) > 1:
        states = [row[-1] for row in days.rows]
        drawn = pictures.band(
            [_bounds(each) for each in states if isinstance(each, Interval)],
            [str(row[0]) for row in days.rows],
            "state in logits",
            zero=True,
        )
        told = "Your state on each day with reviews: above 0 you recalled more than usual."
        blocks.append(
            Picture("state", "Your state, day by day", told, drawn, figures(days, "days"))
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
    kinds = list(inspection.rows)
    reasons = dict.fromkeys(r for counts in inspection.rows.values() for r in counts.dropped)
    of_kinds = list(inspection.rows.values())
    rows: list[tuple[Cell, ...]] = [
        ("kept", *(counts.kept for counts in of_kinds)),
        ("of them on a later day", *(counts.later_days for counts in of_kinds)),
    ]
    for reason in reasons:
        rows.append((reason, *(counts.dropped.get(reason, 0) for counts in of_kinds)))
    count = Table(
        "rows", "Which entries count", (Column("entries"), *map(Column, kinds)), tuple(rows)
    )
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
                parameter_line(preset.parameters) if preset.parameters else "defaults",
            )
            for preset in inspection.presets
        ),
    )
    notes = () if learner.anonymous else inspection.notes
    blocks: list[Block] = [*facts, count]
    if inspection.presets:
        blocks.append(Section("Presets", (presets,), folded=True))
    return Section("What was read", (*blocks, *notes))


def _card(learner: Learner) -> Section:
    from importlib.metadata import version

    outcome = learner.outcome
    prepared = outcome.prepared
    facts = [
        f"srs-eval {__version__}, numpy {version('numpy')}. Rows and flags of the ranking: "
        f"{words.protocol(learner.protocol)}.",
        "Every figure of the ranking is over held-out reviews: five folds in order of time, each "
        "model fitted on what came before. Intervals are 95 %, over days; verdicts on one question "
        "are held to 5 % together (Holm).",
    ]
    if prepared is not None:
        facts.append(
            f"{prepared.reviews:,} rows, {prepared.judged:,} judged on later days; "
            f"{counted(len(outcome.results), 'configuration')} evaluated."
        )
    reasons: dict[str, list[str]] = {}
    for name, reason in (
        *((name, failed.reason) for name, failed in outcome.failed.items()),
        *((name, skipped.reason) for name, skipped in outcome.skipped.items()),
    ):
        reasons.setdefault(reason, []).append(name)
    facts += [
        f"Not evaluated: {', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in reasons.items()
    ]
    facts.append("Definitions: docs/metrics.md and docs/verdicts.md of srs-eval.")
    return Section("Metric card", tuple(facts))
