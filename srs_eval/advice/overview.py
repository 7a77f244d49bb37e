"""What a learner wants to know first: answers as they come, and each of them in one line.

The questions are answered in worker processes, those whose answers share fits in one task. Where
presets are known, all rest on the reviews that Anki's optimizer takes, else on the benchmark's.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from srs_eval.advice.answers import (
    Answer,
    Cell,
    listed,
    span,
    told,
    too_few_in_short,
    why_open,
    would_tell,
)
from srs_eval.advice.calibration import does_it_mean_it
from srs_eval.advice.candidates import (
    NOW,
    OLDER,
    POOLED,
    SM2,
    TOGETHER,
    WITHOUT_PRESETS,
    Learner,
    judged_by_preset,
    knows_presets,
    too_few,
)
from srs_eval.advice.fit import FITTED, how_well
from srs_eval.advice.learner_state import MODEL, learner_state
from srs_eval.advice.months import was_i_predictable
from srs_eval.advice.noise import which_numbers_are_noise
from srs_eval.advice.over_time import in_words
from srs_eval.advice.parameters import has_a_figure
from srs_eval.advice.questions import MODELS, answering
from srs_eval.advice.workload.glance import FIRST, at_a_glance
from srs_eval.advice.workload.glance import NOW as AS_NOW
from srs_eval.advice.workload.glance import QUESTION as COSTS
from srs_eval.advice.workload.preview import what_buttons_show
from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.evaluate import in_words as reason_of
from srs_eval.engine.session import must_compile
from srs_eval.engine.workers import DONE, TaskEvents, WorkerPool, send
from srs_eval.models.configurations import resolve
from srs_eval.stats.intervals import EQUIVALENT, FEWEST_REVIEWS, Interval, enough_to_tell, verdict
from srs_eval.training.context import Cancelled, Context

TASKS = (
    ("fit",),
    ("parameters", "split"),
    ("often",),
    ("says",),
    ("time",),
    ("health",),
    ("retention",),
    ("day",),
    ("hard",),
    (COSTS,),
    ("buttons", "noise"),
)
"""Questions in the order in which they are begun; a task's questions share their fits."""
TASKS_WITHOUT_PRESETS = (("fit",), (MODELS,), ("fresh",), ("time",), ("day",))
BESIDE = {"buttons": "What the buttons would show", "noise": "Which numbers are noise?"}
"""Questions without a line of their own: they are evidence of a preset's line."""
NOT_WAITED_FOR = {*BESIDE, COSTS}
"""Questions that models need not wait for: evidence, and what compiles for long on a first run."""
_MOST_BESIDE = 6  # presets, those with the most reviews
NEEDED = f"FSRS-6,{MODEL}"  # configurations that nearly all questions rest on
_WHETHER_FSRS = ("health", MODELS)
"""Questions whose lines rest on "fit", too: that is all that the headline says."""
UNANSWERED = "no answer"  # the conclusion where a question could not be answered
OF_PRESETS = "parameters"  # the question with a line for each preset
TITLES = {
    "health": "FSRS for you?",
    MODELS: "FSRS for you?",
    "fresh": "Fitted to you",
    "split": "Split or merge?",
    COSTS: "Reviews a day",
    "often": "Optimize how often?",
    "retention": "Remembered in all",
    "says": "When FSRS says",
    "time": "Latest month",
    "day": "Your day",
    "hard": "Hard",
}
_ONE_PRESET = "only one preset has reviews: nothing to split or to merge"
_OPEN = ("can't tell", "can't tell yet")  # conclusions that are none
_MEANWHILE = "can't tell yet: leave them as they are"  # of splitting
_SHARED = "paste one line for all"  # the conclusion
_MOST_NAMED = 3  # presets that do not get the one line yet
_WAYS = {
    "optimize": "OPTIMIZE",
    "paste parameters": "PASTE THESE",
    _SHARED: "PASTE ONE LINE",
    "use the defaults": "USE DEFAULTS",
    "use one preset": "SHARE A PRESET",
    "can't tell": "can't tell yet",
}


@dataclass(frozen=True)
class Line:
    """One line of the overview: `text` says the answer with how sure it is."""

    question: str
    title: str  # the preset's name, or the question in few words
    text: str
    answers: tuple[Answer, ...]  # the evidence; () while the question is open
    way: str = ""  # what to do with a preset
    figures: tuple[Interval | None, ...] = ()
    """A preset's log loss: as it is scheduled now, optimized, pooled, and with FSRS's defaults."""

    @property
    def parameters(self) -> tuple[float, ...] | None:
        """To paste into Anki, where that is the answer."""
        return next((each.parameters for each in self.answers if each.parameters), None)


@dataclass
class Overview:
    """The answers so far."""

    rows: str  # which reviews they rest on: "anki" or "benchmark"
    fsrs_is_off: bool = False
    suspended: bool = False  # nearly all cards are, so that Anki's rows would be next to none
    waiting: list[str] = field(default_factory=list)  # questions without an answer yet
    answers: list[Answer] = field(default_factory=list)

    @staticmethod
    def begun(log: ReviewLog) -> Overview:
        """Before the first answer."""
        by_preset = judged_by_preset(log)
        return Overview(
            "anki" if by_preset else "benchmark",
            fsrs_is_off=log.receipt.fsrs_enabled is False,
            suspended=knows_presets(log) and not by_preset,
            waiting=asked_of(log),
        )

    def add(self, found: Sequence[Answer], questions: Sequence[str] = ()) -> None:
        """Take answers in; `questions` are settled: what was said of them before is dropped."""
        known = {(each.question, each.subject) for each in found}
        self.answers = [
            each
            for each in self.answers
            if each.question not in questions and (each.question, each.subject) not in known
        ] + list(found)
        self.waiting = [each for each in self.waiting if each not in questions]

    def of(self, question: str) -> tuple[Answer, ...]:
        return tuple(each for each in self.answers if each.question == question)

    @property
    def failed(self) -> bool:
        """Whether a question has no answer: it is worth asking again."""
        return any(each.conclusion == UNANSWERED for each in self.answers)

    @property
    def headline(self) -> str:
        """How well FSRS predicts, in one sentence; "" while that is open."""
        found = next((each.sentences[0] for each in self.of("fit")), "")
        if any(each.parameters for each in (*self.of(OF_PRESETS), *self.of("fresh"))):
            return found.replace(FITTED, "with the line below pasted")
        return found

    @property
    def lines(self) -> list[Line]:
        """Presets first, then the other questions; the text of an open one is "…".

        One line where none can be answered, for one and the same reason.
        """
        said = {(each.conclusion, each.sentences[0]) for each in self.answers}
        if not self.waiting and len(said) == 1 < len(self.answers):
            ((conclusion, sentence),) = said
            if conclusion == UNANSWERED:
                return [Line("fit", "All questions", sentence, (self.answers[0],))]
        beside = [each for question in BESIDE for each in self.of(question)]
        presets = [each for each in self.of(OF_PRESETS) if each.subject != "all presets"]
        found = [
            preset_line(
                each,
                tuple(more for more in beside if more.subject == each.subject),
                self.fsrs_is_off,
            )
            for each in presets
        ]
        found = _with_where_to_paste(found)
        if OF_PRESETS in self.waiting and not found:
            found.append(Line(OF_PRESETS, "Your presets", "…", ()))
        for question, title in TITLES.items():
            answers = self.of(question)
            if any(each.conclusion == "one preset" for each in answers):
                found.append(Line(question, title, _ONE_PRESET, answers))
                continue
            if answers and question in _WHETHER_FSRS:
                fit = self.of("fit")
                told = fit if question == MODELS and fit else answers
                found.append(Line(question, title, in_one_line(told), (*fit, *answers)))
            elif answers:
                title = _month(answers[0]) if question == "time" else title
                found.append(Line(question, title, in_one_line(answers), answers))
            elif question in self.waiting:
                found.append(Line(question, title, "…", answers))
        return list(map(_for_too_few, found)) if self.has_too_few else found

    @property
    def has_too_few(self) -> bool:
        """Whether there are too few reviews for any verdict, which the headline tells."""
        return any(
            each.difference and not enough_to_tell(each.difference) for each in self.of("fit")
        )


def _for_too_few(line: Line) -> Line:
    """What is open says no more than that: the headline has told once why, and how many it takes.

    How many each question lacks is in its evidence.
    """
    if not line.answers or any(each.conclusion not in _OPEN for each in line.answers[:1]):
        return line
    if line.question == OF_PRESETS:
        return replace(line, text="")  # its way says it
    return replace(line, text=_MEANWHILE if line.question == "split" else _OPEN[1])


def _month(answer: Answer) -> str:
    """ "This month" only while it lasts; before the answer is known, what `TITLES` says."""
    if answer.conclusion == UNANSWERED:
        return TITLES["time"]
    return "This month" if answer.subject == time.strftime("%Y-%m") else in_words(answer.subject)


def _with_where_to_paste(lines: list[Line]) -> list[Line]:
    """Those told to paste the one line say into which other presets it goes, and which wait."""
    into = [line.title for line in lines if line.way == _WAYS[_SHARED] or _is_as_good(line)]
    open_ = [line.title for line in lines if line.way == _WAYS["can't tell"]]
    waiting = [name for name in open_ if name not in into]
    leave = ""
    if waiting:
        names = listed(waiting) if len(waiting) <= _MOST_NAMED else "the others"
        leave = f"; not yet into {names}: can't tell there"
    made = []
    for line in lines:
        if line.way == _WAYS[_SHARED]:
            others = [name for name in into if name != line.title]
            same = "all others" if 1 < len(others) == len(lines) - 1 else listed(others)
            line = replace(line, text=line.text + f"; the same into {same}" * bool(same) + leave)
        made.append(line)
    return made


def _is_as_good(line: Line) -> bool:
    """Whether the line that all could share is at least as good as a preset's own of now.

    Of presets that can't be told anything else: others have advice of their own.
    """
    tables = line.answers[0].tables if line.way == _WAYS["can't tell"] else ()
    for table in tables[:1]:
        for name, _, difference, _ in table.rows:
            if name == TOGETHER and table.columns[2] == f"minus {NOW}":
                return isinstance(difference, Interval) and verdict(difference) in (
                    "better",
                    "as good",
                )
    return False


def preset_line(answer: Answer, beside: tuple[Answer, ...] = (), fsrs_is_off: bool = False) -> Line:
    """What to do with a preset, and how sure that is; `beside` is further evidence."""
    if answer.conclusion == UNANSWERED:
        return Line(OF_PRESETS, "Your presets", answer.sentences[0], (answer,))
    by_name = {row[0]: row[1] for row in answer.tables[0].rows} if answer.tables else {}
    figures = tuple(
        found if isinstance(found := by_name.get(name), Interval) and has_a_figure(found) else None
        for name in (SM2 if fsrs_is_off else NOW, "optimized", POOLED, "defaults")
    )
    difference = answer.difference
    if answer.conclusion != "can't tell":
        text = answer.why if difference is None else told(difference, 3)
        if fsrs_is_off and answer.parameters is not None:
            gain, _, bounds = text.partition(" (")
            text = f"once FSRS is on: {gain} than not optimized ({bounds}"
    else:
        text = answer.why if difference is None else would_tell(difference)
    way = _WAYS.get(answer.conclusion, answer.conclusion)
    return Line(OF_PRESETS, answer.subject, text, (answer, *beside), way, figures)


def in_one_line(answers: Sequence[Answer]) -> str:
    """The answers to one question in a sentence, presets with the same conclusion together."""
    question, first = answers[0].question, answers[0]
    if first.conclusion == UNANSWERED:
        return first.sentences[0]
    if question == "split":
        return _split(first)
    if question == "often":
        return _by_conclusion(
            answers,
            lambda says: (
                says.replace("at every +", "at ") + " more reviews than last time is enough"
                if says.startswith("at every +")
                else says
            ),
        )
    if question == COSTS:
        return _costs(first)
    if question == "hard":
        return {
            "yes": "behaves like Again: press Again for what you have forgotten",
            "no": "used as it should be",
            "seldom": "hardly ever pressed: too seldom to matter",
        }.get(first.conclusion, "can't tell yet whether it behaves like Again")
    if question == "retention":
        return _remembered(answers)
    if question == "health":
        return _against_older(answers)
    if question == "fit":
        return _against_what_there_was(first)
    if question == "says":
        return first.sentences[0].removeprefix("When it says ")
    if question == "day":
        return first.sentences[0].removeprefix("Your day ")
    if question == "time" and first.difference is not None:
        says = first.conclusion
        if says == "can't tell":
            says = "can't tell yet whether more predictable than before"
        return f"{says} {_bounds(first.difference)}"
    return first.sentences[0]


def _split(answer: Answer) -> str:
    intervals = _first_intervals(answer)
    figures = [f" {_bounds(each)}" for each in intervals] + ["", ""]
    match answer.conclusion:
        case "keep shared":
            fits = "one line of parameters fits all, separate ones gain nothing"
            return f"keep them: {fits}{figures[0]}"
        case "pooled":
            return f"keep them apart, with parameters drawn to each other: better{figures[1]}"
        case "split":
            return f"keep them apart, each with its own parameters: better{figures[0]}"
    why = _open_bounds(intervals[0]) if intervals else ""
    return f"{_MEANWHILE} {why}".rstrip()


def _costs(answer: Answer) -> str:
    """ "Default: ~52 now; once optimized ~77 at 92 %, ~51 at 85 % (a first estimate; …)".

    With ranges "Default: ~52 now; once optimized 77 (57-101) at 92 %, … (90 % ranges, …)";
    where optimizing changes nothing "Default: ~54 at 92 % (now), ~41 at 85 % (…)".
    """
    rows = answer.tables[0].rows
    today = [row for row in rows if row[1] == AS_NOW]
    others = [row for row in rows if row[1] != AS_NOW]
    is_first = answer.conclusion == FIRST
    known = "a first estimate, w tells more" if is_first else "90 % ranges, w tells more"
    mark = "~" * is_first

    def shown(which: Sequence[tuple[Cell, ...]]) -> list[str]:
        return [f"{mark}{reviews} at {at}" for at, _, reviews, _ in which]

    if not today:
        told = f"{', '.join(shown(others[:2]))}, were FSRS on and once optimized"
        told += f"; {answer.why}" if answer.why else ""
    elif any(row[0] == today[0][0] for row in others):
        # Today's retention first, then the one that is asked about beside it.
        ordered = sorted(others, key=lambda row: row[0] != today[0][0])
        told = f"~{today[0][2]} now; once optimized {', '.join(shown(ordered[:2]))}"
    else:
        told = f"{shown(today)[0]} (now), {', '.join(shown(others[:1]))}, once optimized"
    return f"{answer.subject}: {told} ({known})"


def _remembered(answers: Sequence[Answer]) -> str:
    """ "less than desired: Words 84.7 % (desired 90 %); as desired: Maps 90 % (desired 91 %)"."""
    shown: dict[str, list[str]] = {}
    for answer in answers:
        _, _, recalled, _, desired = answer.tables[0].rows[0]  # of all its reviews
        assert isinstance(recalled, Interval)
        says = answer.conclusion
        beside = [f"desired {100 * desired:.0f} %"] if isinstance(desired, float) else []
        if answer.why and has_a_figure(recalled):
            beside = [": ".join([*beside, answer.why])]
        elif not enough_to_tell(recalled):
            beside.append(too_few_in_short(why_open(recalled)))
        elif says == "can't tell":
            beside.append(f"{100 * recalled.low:.0f} … {100 * min(recalled.high, 1.0):.0f} %")
        says = "can't tell yet" if says == "can't tell" else says
        figure = f" {100 * recalled.estimate:.1f} %" if has_a_figure(recalled) else ""
        why = f" ({', '.join(beside)})" if beside else ""
        shown.setdefault(says, []).append(f"{answer.subject}{figure}{why}")
    order = sorted(shown, key=lambda says: says != "less than desired")
    return "; ".join(f"{says}: {listed(shown[says])}" for says in order)


_THAN = {
    "better": "better than",
    "worse": "worse than",
    "as good": "as good as",
    "can't tell yet": "can't tell yet whether better than",
}


def _against_older(answers: Sequence[Answer]) -> str:
    """ "better than SM-2 once optimized: Maps (.011 … .037 better); can't tell yet: Words".

    With why it can't be told.
    """
    shown: dict[str, list[tuple[str, str]]] = {}
    for answer in answers:
        says, bounds = "can't tell yet", ""
        if answer.tables and answer.tables[0].columns[0] == "against":  # else nothing is held out
            _, difference, found = answer.tables[0].rows[0]  # against the older scheduler
            assert isinstance(difference, Interval)
            is_open = found == says
            bounds = _open_bounds(difference) if is_open else _bounds(difference)
            if is_open and len(answers) > 1 and not enough_to_tell(difference):
                bounds = f"({too_few_in_short(why_open(difference))})"
            says = says if is_open else f"{_THAN[str(found)]} SM-2 once optimized"
        if len(answers) == 1:
            return f"{says} {bounds}".rstrip()
        shown.setdefault(says, []).append((answer.subject, bounds))
    return "; ".join(f"{says}: {_together(names)}" for says, names in shown.items())


def _against_what_there_was(fit: Answer) -> str:
    """ "better than SuperMemo SM-15 (.016 … .031 better); …, once optimized".

    Against what came with the reviews, else against SM-2, and against the floor.
    """
    rows = {str(row[0]): row for row in fit.tables[0].rows}
    brought = [name for name in rows if name not in WITHOUT_PRESETS]
    said, once = [], ""
    for name in [*(brought or [OLDER]), "average"]:
        *_, difference, says = rows[name]
        assert isinstance(difference, Interval)
        bounds = _open_bounds(difference) if says == "can't tell yet" else _bounds(difference)
        shown = {OLDER: "SM-2", "average": "your average"}.get(name, name)
        said.append(f"{_THAN[str(says)]} {shown} {bounds}".rstrip())
        once = once if says == "can't tell yet" else ", once optimized"
    return "; ".join(said) + once


def _by_conclusion(answers: Sequence[Answer], words: Callable[[str], str]) -> str:
    """Names behind what was concluded of them, with why it can't be told where that is known."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for each in answers:
        says = "can't tell yet" if each.conclusion == "can't tell" else each.conclusion
        why = each.why if len(answers) == 1 else too_few_in_short(each.why)
        subjects.setdefault(says, []).append((each.subject, f"({why})" if why else ""))
    if len(answers) == 1 or (len(subjects) == 1 and not any(each.why for each in answers)):
        (says,) = subjects
        return f"{words(says)} {subjects[says][0][1] if len(answers) == 1 else ''}".rstrip()
    return "; ".join(f"{words(says)}: {_together(names)}" for says, names in subjects.items())


def _together(subjects: Sequence[tuple[str, str]]) -> str:
    """ "A (.01 … .03 better), B and C (too few reviews)": names with what is said of them."""
    by_reason: dict[str, list[str]] = {}
    for name, why in subjects:
        by_reason.setdefault(why, []).append(name)
    said = [f"{listed(names)} {why}".rstrip() for why, names in by_reason.items()]
    return listed(said) if len(subjects) == len(said) else ", ".join(said)


def _first_intervals(answer: Answer) -> list[Interval]:
    """That of each row of the first table."""
    rows = answer.tables[0].rows if answer.tables else ()
    return [cell for row in rows for cell in row if isinstance(cell, Interval)]


def _bounds(difference: Interval) -> str:
    """ "(.011 … .037 better)", "(.004 better … .002 worse)": the 95 % interval, if there is one."""
    if not math.isfinite(difference.half_width):
        return ""
    return f"({span(difference, 3, '…')})"


def _open_bounds(difference: Interval) -> str:
    """The same of what can't be told yet; why not, where the bounds don't show it."""
    why, bounds = why_open(difference), _bounds(difference)
    if not why:
        return bounds
    few = not enough_to_tell(difference)
    return f"({why})" if few or not bounds else f"{bounds[:-1]}: {why})"


# The work


def overview(
    log: ReviewLog,
    *,
    jobs: int = 0,
    context: Context | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[tuple[tuple[Answer, ...], tuple[str, ...]]]:
    """Answers as they come, with the questions that are settled by them.

    `jobs` worker processes; 0 works in this process. Setting `cancel`, or closing the iterator,
    ends the work. What cannot be answered has an answer that says why.
    """
    cancel = cancel or threading.Event()
    context = context or Context()
    tasks = _tasks(log)
    if jobs <= 0:
        yield from _in_this_process(log, tasks, context, cancel)
        return
    happenings = TaskEvents()
    pool = WorkerPool(
        min(jobs, len(tasks)),
        initializer=_share,
        initargs=(log, replace(context, tick=Context().tick)),
        on_message=happenings.put,
    )
    working: dict[Future[list[Answer]], tuple[str, ...]] = {}
    try:
        for task in _to_compile_side_by_side(tasks, jobs):
            working[happenings.submit(pool, _answer_shared, task)] = task
        while working:
            happening = happenings.next(timeout=0.05)
            if cancel.is_set():
                return
            if happening is None:
                continue
            future, message = happening
            if message is not DONE:
                yield (message,), ()
                continue
            task = working.pop(future)
            try:
                found = future.result()
            except InputError:
                raise
            except Exception as error:
                found = [_unanswered(question, reason_of(error)[0]) for question in task]
            yield tuple(found), task
    finally:
        pool.terminate_workers()


def _in_this_process(
    log: ReviewLog,
    tasks: Sequence[tuple[str, ...]],
    context: Context,
    cancel: threading.Event,
) -> Iterator[tuple[tuple[Answer, ...], tuple[str, ...]]]:
    outer = context.tick

    def tick(fraction: float) -> None:
        outer(fraction)
        if cancel.is_set():
            raise Cancelled

    for task in tasks:
        try:
            yield tuple(_answers(log, task, replace(context, tick=tick))), task
        except Cancelled:
            return


def _to_compile_side_by_side(tasks: Sequence[tuple[str, ...]], jobs: int) -> list[tuple[str, ...]]:
    """The day comes second where its kernels are missing, which no other question needs.

    One worker then compiles them while another compiles FSRS-6's; in the usual order, several
    would compile FSRS-6's at once and the day's at the very end.
    """
    early = [each for each in tasks if each == ("day",)] if jobs > 1 else []
    if not early or not any(map(must_compile, resolve(MODEL))):
        return list(tasks)
    return [tasks[0], *early, *(each for each in tasks[1:] if each not in early)]


def asked_of(log: ReviewLog) -> list[str]:
    """The questions that are answered of a log."""
    return [each for task in _tasks(log) for each in task]


def _tasks(log: ReviewLog) -> Sequence[tuple[str, ...]]:
    return TASKS if judged_by_preset(log) else TASKS_WITHOUT_PRESETS


_shared: tuple[ReviewLog, Context] | None = None


def _share(log: ReviewLog, context: Context) -> None:
    global _shared
    _shared = log, context


def _answer_shared(questions: tuple[str, ...]) -> list[Answer]:
    assert _shared is not None
    found = []
    for answer in _answers(_shared[0], questions, _shared[1]):
        found.append(answer)
        send(answer)
    return found


def _answers(log: ReviewLog, questions: tuple[str, ...], context: Context) -> Iterator[Answer]:
    """One after another; a question without enough reviews gets an answer that says so."""
    try:
        for question in questions:
            if question == "day":
                protocol = Protocol(rows="anki") if judged_by_preset(log) else Protocol()
                yield from learner_state(log, protocol, context).answers
            elif question == COSTS:
                with contextlib.suppress(InputError):  # nobody knows how the cards are scheduled
                    yield at_a_glance(log, context)
            elif question in OVER_ALL:
                yield OVER_ALL[question](Learner.over_all(log, context))
        if BESIDE.keys() & set(questions):
            learner = Learner.of(log, context)
            groups = list(learner.groups)[:_MOST_BESIDE]
            yield from what_buttons_show(learner, groups)
            yield from which_numbers_are_noise(learner, groups, EQUIVALENT)
            return
        others = ("day", COSTS, *OVER_ALL)
        asked = [each for each in questions if each not in others]
        if asked:
            found = answering(log, questions=asked, context=context)
            yield from (each for each in found if each.question in asked)
    except NotEnoughData as reason:
        for question in questions:
            why = too_few(log, reason) if judged_by_preset(log) else str(reason)
            yield _unanswered(question, f"too little data, {why}")


def _fresh(learner: Learner) -> Answer:
    """What FSRS would start with, were it fitted to these reviews today."""
    if len(learner.trials.test_index) < FEWEST_REVIEWS:
        few = counted(len(learner.trials), "review")
        keep = (
            "Too few reviews to fit FSRS to: keep the defaults until there are more.",
            f"There are {few} of later days, and {FEWEST_REVIEWS:,} that can be judged are needed.",
        )
        return Answer("fresh", "all reviews", "too few", keep, ())
    fitted = learner.fitted("FSRS-6 recency", int(learner.trials.partition[0]))
    sentences = (
        f"parameters for Anki, fitted to all your {len(learner.trials):,} reviews of later days.",
    )
    return Answer(
        "fresh", "all reviews", "copy", sentences, (), None if fitted is None else tuple(fitted)
    )


OVER_ALL: dict[str, Callable[[Learner], Answer]] = {
    "fit": lambda learner: how_well(learner, EQUIVALENT),
    "says": does_it_mean_it,
    "time": was_i_predictable,
    "fresh": _fresh,
}


def _unanswered(question: str, reason: str) -> Answer:
    sentence = f"Can't tell: {reason}."
    return Answer(question, "all reviews", UNANSWERED, (sentence,))
