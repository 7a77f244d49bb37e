"""Answers as sections of a report, and their tables."""

from __future__ import annotations

from collections.abc import Sequence

from srs_eval.advice import shown
from srs_eval.advice.findings import Finding, OfAll, Unanswered
from srs_eval.advice.questions import OF_PRESETS, REGISTRY
from srs_eval.advice.sentences import month_in_words, parameter_line, where_to_paste
from srs_eval.advice.shown.costs import OF_DRAWS
from srs_eval.advice.shown.parameters import what_to_do
from srs_eval.advice.tables import SHARES, is_difference
from srs_eval.advice.tables import Table as AnswerTable
from srs_eval.advice.workload.estimate import Workload
from srs_eval.report.document import Block, Code, Column, Section, Table, figure
from srs_eval.stats.intervals import Interval

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


def rows_closing(rows: str, with_option: bool) -> str:
    """Of which reviews answers speak, perhaps with the option that takes them."""
    return _OF_ROWS[rows].format(f" (--rows {rows})" if with_option else "")


def presets_section(answers: Sequence[Finding]) -> list[Section]:
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


def answers_section(
    answers: Sequence[Finding], rows: str, workload: Workload | str
) -> list[Section]:
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
            rests_on = [evidence(each, f"{question}-{k}") for k, each in enumerate(found, start=1)]
            blocks.append(Section(about.title, _flat(rests_on), folded=True, said=_said(found)))
    blocks += _workload(workload)
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


def _flat(sections: Sequence[Section]) -> tuple[Block, ...]:
    """What a single section holds, without its heading; else the sections."""
    return sections[0].blocks if len(sections) == 1 else tuple(sections)


def evidence(answer: Finding, name: str) -> Section:
    """All that an answer says and rests on; `name` begins its tables' names."""
    blocks: list[Block] = list(shown.sentences(answer))
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
