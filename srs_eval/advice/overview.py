"""What a learner wants to know first: answers as they come, and each of them in one line.

The questions are answered in worker processes, those whose answers share fits in one task.
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
from srs_eval.advice.candidates import evaluated_by_preset, has_no_cards, knows_presets, too_few
from srs_eval.advice.checks import together
from srs_eval.advice.findings import Evidence, Finding, unanswered
from srs_eval.advice.over_time import MODEL
from srs_eval.advice.questions import (
    COSTS,
    MODELS,
    OF_PRESETS,
    REGISTRY,
    WRONG,
    Asked,
    ask,
    tasks_of,
)
from srs_eval.advice.sentences import FirstScreen, month_in_words
from srs_eval.advice.shown.first_screen import first_screen
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.paths import content_of, state_dir, write_atomically
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.evaluate import in_words as reason_of
from srs_eval.engine.session import must_compile
from srs_eval.engine.workers import DONE, TaskEvents, WorkerPool, send
from srs_eval.models.configurations import resolve
from srs_eval.stats.intervals import EQUIVALENT
from srs_eval.training.hyperparameters import Cancelled, Context

_MOST_BESIDE = 6  # presets, those with the most reviews
NEEDED = f"FSRS-6,{MODEL}"  # configurations that nearly all questions rest on


CANT_TELL = "open"  # the line of what can't be told yet


@dataclass(frozen=True)
class Line:
    """Answers that belong together: those on a question, or on a preset."""

    question: str
    title: str  # the preset's name, or the question in few words
    answers: tuple[Finding, ...]  # the evidence; () while the question is open

    @property
    def parameters(self) -> tuple[float, ...] | None:
        """To paste into Anki, where that is the answer."""
        return next((each.parameters for each in self.answers if each.parameters), None)


@dataclass
class Overview:
    """The answers so far."""

    rows: str  # which reviews they rest on: "anki" or "benchmark"
    gone: str = ""  # what is said where nearly all that was reviewed is no longer Anki's to take
    earlier: bool = False  # whether answers of an earlier day stand for those to come
    waiting: list[str] = field(default_factory=list)  # questions without an answer yet
    answers: list[Finding] = field(default_factory=list)

    @staticmethod
    def begun(log: ReviewLog) -> Overview:
        """Before the first answer."""
        by_preset, gone = evaluated_by_preset(log), ""
        if has_no_cards(log):
            gone = "This collection has no cards left."
        elif knows_presets(log) and not by_preset:
            gone = "Nearly all your cards are suspended or deleted."
        waiting = [each for task in tasks_of(log) for each in task]
        return Overview("anki" if by_preset else "benchmark", gone=gone, waiting=waiting)

    @staticmethod
    def answered(log: ReviewLog, answers: Sequence[Finding]) -> Overview:
        """Of all answers."""
        found = replace(Overview.begun(log), waiting=[])
        found.add(answers)
        return found

    def add(self, found: Sequence[Finding], questions: Sequence[str] = ()) -> None:
        """Take answers in, of two to the same the later one; `questions` are settled: what was
        said of them before is dropped."""
        known = {_about(each): each for each in found}
        self.answers = [
            each
            for each in self.answers
            if each.question not in questions and _about(each) not in known
        ] + list(known.values())
        self.waiting = [each for each in self.waiting if each not in questions]

    def of(self, question: str) -> tuple[Finding, ...]:
        return tuple(each for each in self.answers if each.question == question)

    @property
    def failed(self) -> bool:
        """Whether a question has no answer: it is worth asking again."""
        return any(isinstance(each.evidence, f.Unanswered) for each in self.answers)

    @property
    def first_screen(self) -> FirstScreen:
        """The answers as five panes."""
        waiting = () if self.earlier else tuple(self.waiting)
        checks = together(self.answers)
        return first_screen(self.answers, waiting, checks, rows=self.rows, gone=self.gone)

    @property
    def lines(self) -> list[Line]:
        """Presets first, then the other questions.

        One line where none can be answered, for one and the same reason.
        """
        reasons = {
            each.evidence if isinstance(each.evidence, f.Unanswered) else None
            for each in self.answers
            if each.question != WRONG  # which has always an answer
        }
        if not self.waiting and len(self.answers) > 1 and len(reasons) == 1 and None not in reasons:
            return [Line("fit", "All questions", (self.answers[0],))]
        return [*self._of_presets(), *_open_at_the_end(list(self._of_questions()))]

    def _of_presets(self) -> list[Line]:
        beside = [each for each in self.answers if REGISTRY[each.question].is_beside]
        found = []
        for each in self.of(OF_PRESETS):
            if isinstance(each.evidence, f.Unanswered):
                found.append(Line(OF_PRESETS, "Your presets", (each,)))
            elif each.subject != "all presets":
                more = (other for other in beside if other.subject == each.subject)
                found.append(Line(OF_PRESETS, each.subject, (each, *more)))
        if OF_PRESETS in self.waiting and not found:
            return [Line(OF_PRESETS, "Your presets", ())]
        return found

    def _of_questions(self) -> Iterator[Line]:
        for question, about in REGISTRY.items():
            answers = self.of(question)
            if not about.line or not (answers or question in self.waiting):
                continue
            title = about.line
            if answers and question in ("health", MODELS):  # "fit" tells it, too
                answers = (*self.of("fit"), *answers)
            elif answers and question == "time" and isinstance(answers[0].evidence, f.Months):
                month = answers[0].subject  # "this" only while it lasts
                is_now = month == time.strftime("%Y-%m")
                title = "This month" if is_now else month_in_words(month)
            yield Line(question, title, answers)


def _about(finding: Finding) -> tuple[str, str, str]:
    """What no two answers are about; of one preset its decks are asked about, too."""
    part = finding.evidence.part if isinstance(finding.evidence, f.Sharing) else ""
    return finding.question, finding.subject, part


def _open_at_the_end(lines: Sequence[Line]) -> list[Line]:
    """Those of which nothing can be told are one line, the last: no act hangs on them."""
    told: list[Line] = []
    untold: list[Finding] = []
    for line in lines:
        own = [each for each in line.answers if each.question == line.question]
        if not line.answers or any(each.says != f.OPEN for each in own):
            told.append(line)
        else:
            untold += own
    if untold:
        told.append(Line(CANT_TELL, "Can't tell yet", tuple(untold)))
    return told


# The work


def overview(
    log: ReviewLog,
    *,
    jobs: int = 0,
    context: Context | None = None,
    cancel: threading.Event | None = None,
    equivalence: float = EQUIVALENT,
) -> Iterator[tuple[tuple[Finding, ...], tuple[str, ...]]]:
    """Answers as they come, with the questions that are settled by them.

    `jobs` worker processes; 0 works in this process. Setting `cancel`, or closing the iterator,
    ends the work. What cannot be answered has an answer that says why. Differences in log loss
    within `equivalence` count as none.
    """
    cancel = cancel or threading.Event()
    context = context or Context()
    tasks = tasks_of(log)
    if jobs <= 0:
        yield from _in_this_process(_asked(log, context, equivalence), tasks, cancel)
        return
    events = TaskEvents()
    shared = log, replace(context, tick=Context().tick), equivalence
    pool = WorkerPool(
        min(jobs, len(tasks)), initializer=_share, initargs=shared, on_message=events.put
    )
    working: dict[Future[list[Finding]], tuple[str, ...]] = {}
    try:
        for k, task in enumerate(_to_compile_side_by_side(tasks, jobs)):
            if k == 1 and jobs > 1 and must_compile(resolve(MODEL)[0]):
                working[events.submit(pool, _compile_beside)] = ()
            working[events.submit(pool, _answer_shared, task)] = task
        for future, message in events.until_done(cancel):
            if message is not DONE:
                yield (message,), ()
                continue
            task = working.pop(future)
            try:
                found = future.result()
            except InputError:
                raise
            except Exception as error:
                found = [unanswered(question, reason_of(error)[0]) for question in task]
            yield tuple(found), task
    finally:
        pool.terminate_workers()


def _in_this_process(
    asked: Asked, tasks: Sequence[tuple[str, ...]], cancel: threading.Event
) -> Iterator[tuple[tuple[Finding, ...], tuple[str, ...]]]:
    context = asked.context or Context()

    def tick(fraction: float) -> None:
        context.tick(fraction)
        if cancel.is_set():
            raise Cancelled

    asked = replace(asked, context=replace(context, tick=tick))
    with suppress(Cancelled):
        for task in tasks:
            yield tuple(_answers(asked, task)), task


def _to_compile_side_by_side(tasks: Sequence[tuple[str, ...]], jobs: int) -> list[tuple[str, ...]]:
    """Costs (or the day) come second where kernels are missing that no other question needs.

    One worker then compiles them while another compiles FSRS-6's; in the usual order, several
    would compile FSRS-6's at once and these after it.
    """
    early = [each for each in tasks if each in ((COSTS,), ("day",))][:1] if jobs > 1 else []
    if not early or not any(map(must_compile, resolve(MODEL))):
        return list(tasks)
    return [tasks[0], *early, *(each for each in tasks[1:] if each not in early)]


def _asked(log: ReviewLog, context: Context, equivalence: float) -> Asked:
    return Asked(log, context, equivalence, most_beside=_MOST_BESIDE)


_shared: Asked | None = None
"""What all tasks of a worker ask, so that it prepares and fits for all of them once."""


def _share(log: ReviewLog, context: Context, equivalence: float) -> None:
    global _shared
    _shared = _asked(log, context, equivalence)


def _answer_shared(questions: tuple[str, ...]) -> list[Finding]:
    assert _shared is not None
    found = []
    for answer in _answers(_shared, questions):
        found.append(answer)
        send(answer)
    return found


def _compile_beside() -> list[Finding]:
    """Kernels that the first answer needs, while another worker compiles those of its fit."""
    assert _shared is not None
    with suppress(NotEnoughData):
        learner = _shared.learner
        for candidate in (f.DEFAULTS, f.SM2):
            learner.held_out_losses(candidate)
    return []


def _answers(asked: Asked, questions: tuple[str, ...]) -> Iterator[Finding]:
    """One after another."""
    for question in questions:
        yield from answers_to(question, asked)


def answers_to(question: str, asked: Asked) -> Iterator[Finding]:
    """The answers to a question, or one that says why there is none."""
    try:
        yield from ask(question, asked)
    except NotEnoughData as reason:
        why = too_few(asked.log, reason) if evaluated_by_preset(asked.log) else str(reason)
        yield unanswered(question, f"too little data, {why}")


# The last findings about a file, by its path

_MOST = 20  # files whose findings are kept
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Kept:
    """Findings of an earlier day.

    A file opens with them while new ones are worked out: as they were where neither the reviews,
    the presets nor the program has changed, and as of their day otherwise.
    """

    findings: tuple[Finding, ...]
    basis: str  # `basis` of what they rest on
    entries: int  # that the file held
    at: float  # Unix seconds


def basis(log: ReviewLog, context: Context, equivalence: float) -> str:
    """A digest of everything that findings depend on: reviews, settings, program."""
    from srs_eval.training.compile import program_digest

    known = log.optimized_before_s, log.import_summary.fsrs_enabled, log.day_grid
    maps = (sorted(each.items()) for each in (log.presets, log.decks, context.settings()))
    parts = [log.fingerprint(), program_digest(), *map(repr, (*maps, known, equivalence))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def keep(path: str, kept: Kept, folder: Path | None = None) -> None:
    """Write atomically; where that is not possible nothing is kept."""
    import msgspec

    place = _place(path, folder)
    findings = [_tagged(each) for each in kept.findings]
    content = msgspec.msgpack.encode(
        {**vars(kept), "findings": findings},
        enc_hook=lambda value: value.item(),  # numpy's numbers
    )
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, hashlib.sha256(content).digest() + content)
        files = sorted(place.parent.iterdir(), key=lambda each: -each.stat().st_mtime)
        for old in files[_MOST:]:
            old.unlink(missing_ok=True)


def last(path: str, folder: Path | None = None) -> Kept | None:
    """What was kept for a path; None where nothing is, or not a byte is as it was written."""
    import msgspec

    try:
        found = content_of(_place(path, folder), _MOST_BYTES)
        digest, content = found[:32], found[32:]
        if digest != hashlib.sha256(content).digest():
            return None
        kept = msgspec.msgpack.decode(content, type=Kept, dec_hook=_untagged)
    except (OSError, InputError, msgspec.MsgspecError):  # damaged: as good as none
        return None
    return replace(kept, at=min(kept.at, time.time()))


def _tagged(finding: Finding) -> dict[str, Any]:
    """Its evidence with the name of its kind."""
    return {**vars(finding), "evidence": (type(finding.evidence).__name__, finding.evidence)}


def _untagged(expected: type, found: tuple[str, Any]) -> Evidence | None:
    """The evidence; ValueError for a kind that there is not."""
    import msgspec

    kinds = {each.__name__: each for each in Evidence.__subclasses__()}
    name, content = found
    if content is None:
        return None
    if expected is not Evidence or name not in kinds:
        raise ValueError(name)
    return msgspec.convert(content, kinds[name])


def _place(path: str, folder: Path | None) -> Path:
    name = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:32]
    return (folder or state_dir()) / "answers" / name
