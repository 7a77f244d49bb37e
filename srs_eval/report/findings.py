"""Answers as sections of a report, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from srs_eval.advice import shown
from srs_eval.advice.findings import Finding
from srs_eval.advice.overview import Line
from srs_eval.advice.questions import OF_PRESETS, REGISTRY
from srs_eval.advice.sentences import parameter_line, where_to_paste
from srs_eval.advice.shown.costs import OF_DRAWS
from srs_eval.advice.tables import SHARES, is_difference
from srs_eval.advice.tables import Table as AnswerTable
from srs_eval.advice.workload.estimate import Workload
from srs_eval.report.document import Block, Code, Column, Section, Table, figure
from srs_eval.stats.intervals import Interval

_ALL = ("all presets", "all reviews")  # subjects that need no name
_OF_ROWS = {
    "anki": "Reviews are those that Anki's optimizer takes{}; a verdict speaks of reviews like "
    "these. An interval beyond 0 is none yet where several are judged together (Holm), nor below "
    "1,000 reviews or 20 days.",
    "benchmark": "Reviews are those of the benchmark{}; a verdict speaks of reviews like these. "
    "FSRS-6 is fitted to the reviews before each fold.",
}
STATE_CLOSING = (
    "STATE-FSRS-6 knows every answer before the one it predicts; a scheduler cannot. "
    "Intervals are 95 %, over days."
)


def rows_closing(rows: str, with_option: bool) -> str:
    """Of which reviews answers speak, perhaps with the option that takes them."""
    return _OF_ROWS[rows].format(f" (--rows {rows})" if with_option else "")


def presets_section(lines: Sequence[Line]) -> list[Section]:
    """What to do with each preset, with the parameters to paste."""
    lines = [line for line in lines if line.question == OF_PRESETS and line.way]
    if not lines:
        return []
    sure = Column("how sure", note="that it is at least as good as leaving things as they are")
    rows = ((line.title, line.way.capitalize(), line.text) for line in lines)
    blocks: list[Block] = [Table.of("what-to-do", "", ("preset", "what to do", sure), rows)]
    for line in lines:
        if line.parameters is not None:
            where = next(where_to_paste(each) for each in line.answers if each.parameters)
            copied = (where, Code(parameter_line(line.parameters)))
            blocks.append(Section(f"Parameters for {line.title}", copied, folded=True))
    for number, line in enumerate(lines, start=1):
        rests_on = [
            evidence(replace(answer, parameters=None), f"{answer.question}-{number}")
            for answer in line.answers
        ]
        blocks.append(Section(f"Why: {line.title}", _flat(rests_on), folded=True))
    return [Section("Your presets", tuple(blocks))]


def answers_section(
    answers: Sequence[Finding] | str, rows: str, lines: Sequence[Line], workload: Workload | str
) -> list[Section]:
    """A line for each question, opened for what it rests on."""
    if isinstance(answers, str):
        return [Section("Answers", (answers,))]
    if not answers:
        return []
    of_presets = {OF_PRESETS} if any(each.subject == "all presets" for each in answers) else set()
    said = {
        line.question: f"{line.title}: {line.text}" if line.question == "time" else line.text
        for line in lines
        if line.question in REGISTRY and line.question not in of_presets
    }
    preset_lines = [line for line in lines if line.question == OF_PRESETS and line.way]
    told = {id(answer) for line in preset_lines for answer in line.answers}
    told_of_presets = {answer.question for line in preset_lines for answer in line.answers}
    blocks: list[Block] = []
    for question, about in REGISTRY.items():
        of_question = [
            answer for answer in answers if answer.question == question and id(answer) not in told
        ]
        if not of_question:
            continue
        subject = of_question[0].subject
        first = "" if subject in _ALL or len(of_question) == 1 else f"{subject}: "
        first += "".join(shown.sentences(of_question[0])[:1]).rstrip(".")
        said_before = len(preset_lines) if question in told_of_presets else 0
        rests_on = [
            evidence(answer, f"{question}-{number}")
            for number, answer in enumerate(of_question, start=1 + said_before)
        ]
        blocks.append(
            Section(about.title, _flat(rests_on), folded=True, said=said.get(question, first))
        )
    blocks += _workload(workload)
    blocks.append(rows_closing(rows, with_option=False))
    return [Section("Answers", tuple(blocks))]


def _flat(sections: Sequence[Section]) -> tuple[Block, ...]:
    """What a single section holds, without its heading; else the sections."""
    return sections[0].blocks if len(sections) == 1 else tuple(sections)


def evidence(answer: Finding, name: str) -> Section:
    """All that an answer says and rests on; `name` begins its tables' names."""
    blocks: list[Block] = list(shown.sentences(answer))
    if answer.parameters is not None:
        blocks.append(Code(parameter_line(answer.parameters)))
    blocks += [
        figures(table, f"{name}-{number}")
        for number, table in enumerate(shown.tables(answer), start=1)
    ]
    return Section(f"{answer.subject[:1].upper()}{answer.subject[1:]}", tuple(blocks))


def figures(table: AnswerTable, name: str) -> Table:
    """An answer's table as a report's."""
    return Table(
        name,
        table.heading,
        tuple(
            Column(title, 1, by_half_width=False, percent=True)
            if title in SHARES
            else Column(title, by_half_width=False, signed=is_difference(title))
            for title in table.columns
        ),
        tuple(
            tuple(figure(c) if isinstance(c, float | Interval) else c for c in row)
            for row in table.rows
        ),
    )


def _workload(found: Workload | str) -> list[Section | str]:
    """What a desired retention costs, in a line and behind it; its table is with the picture."""
    title = REGISTRY["workload"].title
    if isinstance(found, str):
        return [Section(title, (), folded=True, said=found)] if found else []
    sentences = shown.sentences(found.finding)
    said, more = " ".join(sentences[:2]), sentences[2:]
    closing = (OF_DRAWS,) if found.drawn else ()
    return [Section(title, (*more, *closing), folded=True, said=said)]
