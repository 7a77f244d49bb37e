"""Answer all questions about a learner in the background.

Worker processes answer the questions; questions that share fits are in one task.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import can_evaluate_by_preset, explain_too_few
from srs_eval.advice.findings import Finding, make_unanswered
from srs_eval.advice.over_time import STATE_MODEL
from srs_eval.advice.questions import COSTS, QuestionContext, ask, tasks_for
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.session import must_compile
from srs_eval.engine.workers import DONE, TaskEvents, WorkerPool, send
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.hyperparameters import Cancelled, Context

_MAX_EVIDENCE_PRESETS = 6  # the presets with the most reviews
NEEDED_CONFIGURATIONS = f"FSRS-6,{STATE_MODEL}"  # configurations behind nearly all answers


def stream_answers(
    log: ReviewLog,
    *,
    jobs: int = 0,
    context: Context | None = None,
    cancel: threading.Event | None = None,
    equivalence: float = EQUIVALENCE_MARGIN,
) -> Iterator[tuple[tuple[Finding, ...], tuple[str, ...]]]:
    """Yield answers as they arrive, with the questions that they settle.

    A question is settled when all its answers have arrived; with workers, its answers arrive one by
    one first, and then again, all together. `jobs` is the number of worker processes; with 0, this
    process does the work. Setting `cancel`, or closing the iterator, ends the work. A question that
    cannot be answered has an answer that says why. Differences in log loss within `equivalence`
    count as none. Raises InputError.
    """
    cancel = cancel or threading.Event()
    context = context or Context()
    tasks = tasks_for(log)
    if jobs <= 0:
        yield from _answer_in_process(_make_context(log, context, equivalence), tasks, cancel)
        return
    events = TaskEvents()
    worker_context = replace(context, tick=Context().tick)
    pool = WorkerPool(
        min(jobs, len(tasks)),
        initializer=_initialize_worker,
        initargs=(log, worker_context, equivalence),
        on_message=events.put,
    )
    working: dict[Future[list[Finding]], tuple[str, ...]] = {}  # questions not yet settled
    try:
        for number, task in enumerate(_order_for_compilation(tasks, jobs)):
            if number == 1 and jobs > 1 and must_compile(resolve_configurations(STATE_MODEL)[0]):
                working[events.submit(pool, _compile_kernels)] = ()  # beside the first task
            working[events.submit(pool, _answer_task, task)] = task
        for future, message in events.until_done(cancel):
            if message is not DONE:
                _, settled = message
                working[future] = tuple(
                    question for question in working[future] if question not in settled
                )
                yield message
                continue
            unsettled = working.pop(future)
            try:
                answers = future.result()
            except InputError:
                raise
            except Exception as error:
                reason, _ = describe_failure(error)
                answers = [make_unanswered(question, reason) for question in unsettled]
            if unsettled:
                yield tuple(answers), unsettled
    finally:
        pool.terminate_workers()


def _answer_in_process(
    question_context: QuestionContext, tasks: Sequence[tuple[str, ...]], cancel: threading.Event
) -> Iterator[tuple[tuple[Finding, ...], tuple[str, ...]]]:
    context = question_context.context or Context()

    def tick(fraction: float) -> None:
        context.tick(fraction)
        if cancel.is_set():
            raise Cancelled

    question_context = replace(question_context, context=replace(context, tick=tick))
    with suppress(Cancelled):
        for question in itertools.chain.from_iterable(tasks):
            yield tuple(answer_or_explain(question, question_context)), (question,)


def _order_for_compilation(tasks: Sequence[tuple[str, ...]], jobs: int) -> list[tuple[str, ...]]:
    """Ask the costs, or else the day, second if kernels are missing that only they need.

    One worker then compiles these while another compiles those of FSRS-6; in the usual order,
    several workers would compile FSRS-6's kernels at once and the others afterwards.
    """
    if jobs <= 1 or not any(map(must_compile, resolve_configurations(STATE_MODEL))):
        return list(tasks)
    early = COSTS if any(COSTS in task for task in tasks) else "day"
    without_early = [tuple(question for question in task if question != early) for task in tasks]
    first, *later = filter(None, without_early)
    return [first, (early,), *later]


def _make_context(log: ReviewLog, context: Context, equivalence: float) -> QuestionContext:
    return QuestionContext(
        log,
        context,
        equivalence,
        max_evidence_presets=_MAX_EVIDENCE_PRESETS,
        defers_taught=True,
    )


_worker_context: QuestionContext | None = None
"""Context shared by all tasks of a worker, so that it prepares and fits only once for all."""


def _initialize_worker(log: ReviewLog, context: Context, equivalence: float) -> None:
    global _worker_context
    _worker_context = _make_context(log, context, equivalence)


def _answer_task(questions: tuple[str, ...]) -> list[Finding]:
    """Answer questions one after another, and send each answer, and all those to a question.

    Messages are items of `stream_answers`.
    """
    assert _worker_context is not None
    all_answers = []
    for question in questions:
        answers = []
        for answer in answer_or_explain(question, _worker_context):
            answers.append(answer)
            send(((answer,), ()))
        send((tuple(answers), (question,)))
        all_answers += answers
    return all_answers


def _compile_kernels() -> list[Finding]:
    """Compile the other kernels of the first answer while its worker compiles those of its fit."""
    assert _worker_context is not None
    with suppress(NotEnoughData):
        learner = _worker_context.learner
        for candidate in (f.DEFAULTS, f.SM2):
            learner.held_out_losses(candidate)
    return []


def answer_or_explain(question: str, question_context: QuestionContext) -> Iterator[Finding]:
    """Yield the answers to a question, or one that explains why there is none."""
    try:
        yield from ask(question, question_context)
    except NotEnoughData as reason:
        explanation = str(reason)
        if can_evaluate_by_preset(question_context.log):
            explanation = explain_too_few(question_context.log, reason)
        yield make_unanswered(question, f"too little data; {explanation}")
