"""From results of one learner to a document: what `srs-eval export` and the app write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
) -> Document:
    """The report on one learner whose ranking is in `run`; asks the questions, too.

    `tell` hears of each question before it is worked on. `anonymous` leaves out what names the
    file; names of decks and presets are the log's (`srs_eval.data.selection.anonymous`).
    """
    from srs_eval.advice.over_time import dates, months
    from srs_eval.advice.questions import OVER_ALL, Asked, questions_for, tasks_of
    from srs_eval.advice.workload.glance import in_short
    from srs_eval.engine.ranking import own_scheduler
    from srs_eval.report.inspection import inspect_log
    from srs_eval.report.learner import Learner, learner_document
    from srs_eval.stats.intervals import calibration_graph

    asked_of = {each for task in tasks_of(log) for each in task}
    questions = [*(each for each in OVER_ALL if each in asked_of), *questions_for(log)]
    every = [*questions, "day", "workload"]

    def at(question: str) -> None:
        tell(every.index(question) + 1, len(every), question)

    asked = Asked(log, context, run.equivalence)
    answers, state = _answers(asked, questions, at), _answers(asked, ["day"], at)
    at("workload")
    costs = _workload(log, context)
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
            workload=costs,
            load=None if isinstance(costs, str) else in_short(costs, log),
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
    asked: Asked, questions: Sequence[str], at: Callable[[str], None]
) -> list[Finding] | str:
    """The answers to all questions, or why there are none."""
    from srs_eval.advice.questions import ask

    found: list[Finding] = []
    try:
        for question in questions:
            at(question)
            found += ask(question, asked)
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
) -> list[Path]:
    """Write the report on one learner in a form of `report.files.write_as`; what was written.

    Works on all questions first: call it in a worker, which is sent what a `_Told` is told.
    `anonymous` numbers decks and
    presets. Raises InputError where the files cannot be written.
    """
    from srs_eval.data.selection import anonymous as without_names
    from srs_eval.engine.workers import send
    from srs_eval.report.files import write_as

    document = learner_report(
        without_names(log) if anonymous else log,
        run,
        protocol,
        context=context,
        narrowed_to=narrowed_to,
        anonymous=anonymous,
        tell=lambda *at: send(at),
    )
    return write_as(document, form, path)


def _workload(log: ReviewLog, context: Context | None) -> Workload | str:
    """What a desired retention costs; a sentence, or none, where that cannot be told."""
    from srs_eval.advice.questions import knows_presets
    from srs_eval.advice.workload.estimate import workload

    if not knows_presets(log):
        return ""
    if log.receipt.fsrs_enabled is False:
        return "FSRS is off, so that no desired retention is in force."
    try:
        *_, found = workload(log, context=context)
    except NotEnoughData as error:
        return f"Too little data to tell what a desired retention costs: {error}."
    except InputError as error:
        return str(error).replace(
            log.receipt.path, "the file"
        )  # where it lies is nobody's business
    return found
