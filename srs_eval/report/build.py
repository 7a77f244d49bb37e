"""From results of one learner to a document: what `srs-eval export` and the app write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.report.document import Document

if TYPE_CHECKING:
    from srs_eval.advice.findings import Finding
    from srs_eval.advice.questions import Asked
    from srs_eval.advice.workload.estimate import Workload
    from srs_eval.data.protocol import Protocol
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.run import Run
    from srs_eval.training.context import Context

_CALIBRATION_BINS = 20

_Told = Callable[[int, int, str], None]
"""Is told what a report is at: the number of a question, of how many, and the question."""


def _tell_nobody(number: int, of: int, question: str) -> None:
    """Progress that nobody watches."""


def learner_report(
    log: ReviewLog,
    run: Run,
    protocol: Protocol,
    *,
    context: Context | None = None,
    narrowed_to: Mapping[str, str | None] | None = None,
    anonymous: bool = False,
    tell: _Told = _tell_nobody,
    known: Sequence[Finding] = (),
    costs: Workload | None = None,
) -> Document:
    """The report on one learner whose ranking is in `run`; asks the questions, too.

    Only those of which nothing is `known`, of the same log; with any, what retentions cost is a
    first estimate, unless it is known (`costs`). `tell` hears of each question before it is worked
    on. `anonymous` leaves out what names the
    file; names of decks and presets are the log's (`srs_eval.data.selection.anonymous`).
    """
    from srs_eval.advice.over_time import dates, months
    from srs_eval.advice.questions import OVER_ALL, Asked, questions_for, rows_of, tasks_of
    from srs_eval.engine.ranking import own_scheduler
    from srs_eval.report.inspection import inspect_log
    from srs_eval.report.learner import Learner, learner_document
    from srs_eval.stats.intervals import calibration_graph

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
    name_of = dates(log, protocol)
    return learner_document(
        Learner(
            inspection=inspect_log(log),
            protocol=protocol,
            run=run,
            answers=answers,
            state=state,
            rows=rows_of(log, questions),
            workload=costs_or_why,
            calibration={
                by_name[name]: calibration_graph(
                    run.results()[name].y, run.results()[name].p, _CALIBRATION_BINS
                )
                for name in dict.fromkeys(shown)
            },
            months={by_name[name]: months(run.results()[name], name_of) for name in shown[:1]},
            narrowed_to=narrowed_to or {},
            anonymous=anonymous,
            own=own,
            fsrs_is_off=log.receipt.fsrs_enabled is False,
        )
    )


def _answers(
    asked: Asked, questions: Sequence[str], at: Callable[[str], None], known: Sequence[Finding]
) -> list[Finding] | str:
    """The answers to all questions, or why there are none."""
    from srs_eval.advice.questions import DAYS, ask

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
    worker, which is sent what a `_Told` is told. `anonymous` numbers decks and presets. Raises
    InputError where the files cannot be written.
    """
    from srs_eval.data.selection import anonymous as without_names
    from srs_eval.engine.workers import send
    from srs_eval.report.files import write_as

    if anonymous:
        numbered = without_names(log)
        log, known, costs = numbered, _without_names(known, log, numbered), None
    document = learner_report(
        log,
        run,
        protocol,
        context=context,
        narrowed_to=narrowed_to,
        anonymous=anonymous,
        tell=lambda *at: send(at),
        known=known,
        costs=costs,
    )
    return write_as(document, form, path)


def _without_names(
    known: Sequence[Finding], log: ReviewLog, numbered: ReviewLog
) -> Sequence[Finding]:
    """Findings with the names of the log `numbered`; no question that tells a name all the same."""
    from srs_eval.advice.shown import sentences, tables

    names: dict[str, str | None] = {log.receipt.path: None}
    names |= {each.search: None for each in log.presets.values() if each.search}
    names |= {log.name_of_preset(key): numbered.name_of_preset(key) for key in log.presets}
    names |= {deck.name: numbered.decks[key].name for key, deck in log.decks.items()}

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return names.get(value, value)
        if isinstance(value, tuple):
            return tuple(map(renamed, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{each: renamed(content) for each, content in vars(value).items()}
            )
        return value

    def tells(finding: Finding) -> bool:
        try:
            rows = [(table.title, *table.rows) for table in tables(finding)]
            said = f"{finding.subject} {sentences(finding)} {rows}"
        except KeyError:  # a code of its own is somebody's name, too
            return True
        return any(name in said for name in names if name not in names.values())

    found: list[Finding] = [renamed(each) for each in known]
    telling = {each.question for each in found if tells(each)}
    return [each for each in found if each.question not in telling]


def _workload(log: ReviewLog, context: Context | None, *, at_once: bool = False) -> Workload | str:
    """What a desired retention costs; a sentence, or none, where that cannot be told.

    `at_once`: a first estimate.
    """
    from srs_eval.advice.candidates import knows_presets
    from srs_eval.advice.workload.estimate import workload

    if not knows_presets(log):
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
        return str(error).replace(
            log.receipt.path, "the file"
        )  # where it lies is nobody's business
    return found
