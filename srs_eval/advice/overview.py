"""Answer all questions about a learner in the background, and summarize each answer in one line.

Worker processes answer the questions; questions that share fits are in one task.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import (
    can_evaluate_by_preset,
    explain_too_few,
    has_known_presets,
    has_no_cards,
)
from srs_eval.advice.checks import merge_checks
from srs_eval.advice.findings import ALL_PRESETS, Evidence, Finding, make_unanswered
from srs_eval.advice.over_time import STATE_MODEL
from srs_eval.advice.questions import (
    CHECKS,
    COSTS,
    MODELS,
    PARAMETERS,
    QUESTION_REGISTRY,
    QuestionContext,
    ask,
    tasks_for,
)
from srs_eval.advice.sentences import FirstScreen, format_month
from srs_eval.advice.shown.first_screen import build_first_screen
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.paths import read_regular_file, state_dir, write_atomically
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.failures import describe_failure as reason_of
from srs_eval.engine.session import must_compile
from srs_eval.engine.workers import DONE, TaskEvents, WorkerPool, send
from srs_eval.models.configurations import resolve_configurations
from srs_eval.stats.intervals import EQUIVALENCE_MARGIN
from srs_eval.training.hyperparameters import Cancelled, Context

_MAX_EVIDENCE_PRESETS = 6  # the presets with the most reviews
NEEDED_CONFIGURATIONS = f"FSRS-6,{STATE_MODEL}"  # configurations behind nearly all answers
INCONCLUSIVE_LINE = "open"  # the line of inconclusive answers


@dataclass(frozen=True)
class AnswerLine:
    """Answers that belong together: to one question, or about one preset."""

    question: str
    title: str  # the preset's name, or the question in a few words
    answers: tuple[Finding, ...]  # the evidence; () until the question is answered

    @property
    def parameters(self) -> tuple[float, ...] | None:
        """Parameters to paste into Anki, if the answers have any."""
        for answer in self.answers:
            if answer.parameters:
                return answer.parameters
        return None


@dataclass
class Overview:
    """Answers that have arrived so far, and the questions still waiting."""

    rows: str  # the reviews behind the answers: "anki" or "benchmark"
    excluded_note: str = ""  # sentence for a log whose reviewed cards are nearly all gone
    is_from_earlier: bool = False  # answers of an earlier day are shown until new ones arrive
    waiting: list[str] = field(default_factory=list)  # questions without an answer yet
    answers: list[Finding] = field(default_factory=list)

    @staticmethod
    def start(log: ReviewLog) -> Overview:
        """Create an overview before the first answer."""
        by_preset = can_evaluate_by_preset(log)
        note = ""
        if has_no_cards(log):
            note = "This collection has no cards left."
        elif has_known_presets(log) and not by_preset:
            note = "Nearly all your cards are suspended or deleted."
        waiting: list[str] = []
        for questions in tasks_for(log):
            waiting += questions
        return Overview("anki" if by_preset else "benchmark", excluded_note=note, waiting=waiting)

    @staticmethod
    def from_answers(log: ReviewLog, answers: Sequence[Finding]) -> Overview:
        """Create an overview from all answers."""
        overview = replace(Overview.start(log), waiting=[])
        overview.add(answers)
        return overview

    def add(self, new_answers: Sequence[Finding], settled_questions: Sequence[str] = ()) -> None:
        """Add answers; a new answer replaces the earlier one about the same thing.

        Earlier answers to the settled questions are dropped.
        """
        new_by_key = {_answer_key(answer): answer for answer in new_answers}
        answers = []
        for answer in self.answers:
            if answer.question not in settled_questions and _answer_key(answer) not in new_by_key:
                answers.append(answer)
        self.answers = [*answers, *new_by_key.values()]
        self.waiting = [question for question in self.waiting if question not in settled_questions]

    def find_answers(self, question: str) -> tuple[Finding, ...]:
        return tuple(answer for answer in self.answers if answer.question == question)

    @property
    def has_failed(self) -> bool:
        """Return True if a question could not be answered, so that asking again is worthwhile."""
        return any(isinstance(answer.evidence, f.Unanswered) for answer in self.answers)

    @property
    def first_screen(self) -> FirstScreen:
        """Answers as five panes."""
        waiting = () if self.is_from_earlier else tuple(self.waiting)
        checks = merge_checks(self.answers)
        return build_first_screen(
            self.answers, waiting, checks, rows=self.rows, excluded_note=self.excluded_note
        )

    @property
    def lines(self) -> list[AnswerLine]:
        """Lines of the presets first, then of the other questions.

        There is a single line if no question can be answered, all for the same reason.
        """
        if not self.waiting and len(self.answers) > 1 and self._has_single_reason():
            return [AnswerLine("fit", "All questions", (self.answers[0],))]
        return [*self._preset_lines(), *_merge_inconclusive(list(self._question_lines()))]

    def _has_single_reason(self) -> bool:
        """Return True if no question could be answered, and all for the same reason."""
        reasons = set()
        for answer in self.answers:
            if answer.question == CHECKS:  # which always has an answer
                continue
            if not isinstance(answer.evidence, f.Unanswered):
                return False
            reasons.add(answer.evidence)
        return len(reasons) == 1

    def _preset_lines(self) -> list[AnswerLine]:
        only_evidence = [
            answer for answer in self.answers if QUESTION_REGISTRY[answer.question].is_evidence_only
        ]
        lines = []
        for answer in self.find_answers(PARAMETERS):
            if isinstance(answer.evidence, f.Unanswered):
                lines.append(AnswerLine(PARAMETERS, "Your presets", (answer,)))
            elif answer.subject != ALL_PRESETS:
                about_preset = [other for other in only_evidence if other.subject == answer.subject]
                lines.append(AnswerLine(PARAMETERS, answer.subject, (answer, *about_preset)))
        if PARAMETERS in self.waiting and not lines:
            return [AnswerLine(PARAMETERS, "Your presets", ())]
        return lines

    def _question_lines(self) -> Iterator[AnswerLine]:
        for question, definition in QUESTION_REGISTRY.items():
            answers = self.find_answers(question)
            title = definition.line_title
            if not title or not (answers or question in self.waiting):
                continue
            if answers and question in ("health", MODELS):  # "fit" also answers these
                answers = (*self.find_answers("fit"), *answers)
            elif answers and question == "time" and isinstance(answers[0].evidence, f.Months):
                month = answers[0].subject
                is_current = month == time.strftime("%Y-%m")
                title = "This month" if is_current else format_month(month)
            yield AnswerLine(question, title, answers)


def _answer_key(finding: Finding) -> tuple[str, str, str]:
    """Return a key that no two answers share; a preset's decks have a separate answer."""
    unit = finding.evidence.unit if isinstance(finding.evidence, f.Sharing) else ""
    return finding.question, finding.subject, unit


def _merge_inconclusive(lines: Sequence[AnswerLine]) -> list[AnswerLine]:
    """Merge inconclusive answers into one last line; they recommend nothing."""
    merged: list[AnswerLine] = []
    inconclusive: list[Finding] = []
    for line in lines:
        answers = [answer for answer in line.answers if answer.question == line.question]
        if not line.answers or any(answer.conclusion != f.CANT_TELL for answer in answers):
            merged.append(line)
        else:
            inconclusive += answers
    if inconclusive:
        merged.append(AnswerLine(INCONCLUSIVE_LINE, "Can't tell yet", tuple(inconclusive)))
    return merged


# The work


def stream_answers(
    log: ReviewLog,
    *,
    jobs: int = 0,
    context: Context | None = None,
    cancel: threading.Event | None = None,
    equivalence: float = EQUIVALENCE_MARGIN,
) -> Iterator[tuple[tuple[Finding, ...], tuple[str, ...]]]:
    """Yield answers as they arrive, with the questions that they settle.

    `jobs` is the number of worker processes; with 0, this process does the work. Setting `cancel`,
    or closing the iterator, ends the work. A question that cannot be answered has an answer that
    says why. Differences in log loss within `equivalence` count as none.
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
    working: dict[Future[list[Finding]], tuple[str, ...]] = {}
    try:
        for k, task in enumerate(_order_for_compilation(tasks, jobs)):
            if k == 1 and jobs > 1 and must_compile(resolve_configurations(STATE_MODEL)[0]):
                working[events.submit(pool, _compile_kernels)] = ()
            working[events.submit(pool, _answer_task, task)] = task
        for future, message in events.until_done(cancel):
            if message is not DONE:
                yield (message,), ()
                continue
            task = working.pop(future)
            try:
                answers = future.result()
            except InputError:
                raise
            except Exception as error:
                answers = [make_unanswered(question, reason_of(error)[0]) for question in task]
            yield tuple(answers), task
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
        for task in tasks:
            yield tuple(_answer_all(question_context, task)), task


def _order_for_compilation(tasks: Sequence[tuple[str, ...]], jobs: int) -> list[tuple[str, ...]]:
    """Move costs (or the day) to second place if kernels are missing that only they need.

    One worker then compiles these while another compiles those of FSRS-6; in the usual order,
    several workers would compile FSRS-6's kernels at once and the others afterwards.
    """
    if jobs <= 1:
        return list(tasks)
    early = next((task for task in tasks if task in ((COSTS,), ("day",))), None)
    if early is None or not any(map(must_compile, resolve_configurations(STATE_MODEL))):
        return list(tasks)
    later = [task for task in tasks[1:] if task != early]
    return [tasks[0], early, *later]


def _make_context(log: ReviewLog, context: Context, equivalence: float) -> QuestionContext:
    return QuestionContext(log, context, equivalence, max_evidence_presets=_MAX_EVIDENCE_PRESETS)


_worker_context: QuestionContext | None = None
"""Context shared by all tasks of a worker, so that it prepares and fits only once for all."""


def _initialize_worker(log: ReviewLog, context: Context, equivalence: float) -> None:
    global _worker_context
    _worker_context = _make_context(log, context, equivalence)


def _answer_task(questions: tuple[str, ...]) -> list[Finding]:
    assert _worker_context is not None
    answers = []
    for answer in _answer_all(_worker_context, questions):
        answers.append(answer)
        send(answer)
    return answers


def _compile_kernels() -> list[Finding]:
    """Compile kernels for the first answer while another worker compiles those of its fit."""
    assert _worker_context is not None
    with suppress(NotEnoughData):
        learner = _worker_context.learner
        for candidate in (f.DEFAULTS, f.SM2):
            learner.held_out_losses(candidate)
    return []


def _answer_all(question_context: QuestionContext, questions: tuple[str, ...]) -> Iterator[Finding]:
    """Answer the questions one after another."""
    for question in questions:
        yield from answer_or_explain(question, question_context)


def answer_or_explain(question: str, question_context: QuestionContext) -> Iterator[Finding]:
    """Yield the answers to a question, or one that explains why there is none."""
    try:
        yield from ask(question, question_context)
    except NotEnoughData as reason:
        explanation = str(reason)
        if can_evaluate_by_preset(question_context.log):
            explanation = explain_too_few(question_context.log, reason)
        yield make_unanswered(question, f"too little data, {explanation}")


# Saved findings about a file, by its path

_MAX_SAVED_FILES = 20  # files with saved findings
_MAX_FILE_BYTES = 64 << 20


@dataclass(frozen=True)
class SavedAnswers:
    """Findings saved on an earlier day.

    A file opens with them while new ones are computed. They are shown as current if the reviews,
    the presets and the program are unchanged, otherwise as findings of their day.
    """

    findings: tuple[Finding, ...]
    inputs_digest: str  # `answers_digest` of the inputs behind the findings
    entry_count: int  # in the file
    saved_at_s: float  # Unix seconds


def answers_digest(log: ReviewLog, context: Context, equivalence: float) -> str:
    """Return a digest of everything that findings depend on: reviews, settings, program."""
    from srs_eval.training.compile import compute_program_digest

    anki_facts = (log.optimized_before_s, log.import_summary.fsrs_enabled, log.day_grid)
    inputs = [
        log.fingerprint(),
        compute_program_digest(),
        repr(sorted(log.presets.items())),
        repr(sorted(log.decks.items())),
        repr(sorted(context.settings().items())),
        repr(anki_facts),
        repr(equivalence),
    ]
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()


def save_answers(path: str, saved: SavedAnswers, folder: Path | None = None) -> None:
    """Save answers atomically; if that is impossible, save nothing."""
    import msgspec

    file = _answers_path(path, folder)
    findings = [_encode_finding(finding) for finding in saved.findings]
    content = msgspec.msgpack.encode(
        {**vars(saved), "findings": findings},
        enc_hook=lambda value: value.item(),  # numpy's numbers
    )
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, hashlib.sha256(content).digest() + content)
        newest_first = sorted(file.parent.iterdir(), key=lambda other: -other.stat().st_mtime)
        for old in newest_first[_MAX_SAVED_FILES:]:
            old.unlink(missing_ok=True)


def load_answers(path: str, folder: Path | None = None) -> SavedAnswers | None:
    """Return the answers saved for a path; None if there are none or the file is damaged."""
    import msgspec

    try:
        stored = read_regular_file(_answers_path(path, folder), _MAX_FILE_BYTES)
        digest = stored[:32]
        content = stored[32:]
        if digest != hashlib.sha256(content).digest():
            return None
        saved = msgspec.msgpack.decode(content, type=SavedAnswers, dec_hook=_decode_evidence)
    except (OSError, InputError, msgspec.MsgspecError):  # a damaged file counts as none
        return None
    return replace(saved, saved_at_s=min(saved.saved_at_s, time.time()))


def _encode_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding's fields, its evidence together with the name of its class."""
    return {**vars(finding), "evidence": (type(finding.evidence).__name__, finding.evidence)}


def _decode_evidence(expected: type, tagged: tuple[str, Any]) -> Evidence | None:
    """Return the evidence. Raises ValueError for an unknown class name."""
    import msgspec

    evidence_types = {
        evidence_type.__name__: evidence_type for evidence_type in Evidence.__subclasses__()
    }
    name, content = tagged
    if content is None:
        return None
    if expected is not Evidence or name not in evidence_types:
        raise ValueError(name)
    return msgspec.convert(content, evidence_types[name])


def _answers_path(path: str, folder: Path | None) -> Path:
    name = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:32]
    return (folder or state_dir()) / "answers" / name
