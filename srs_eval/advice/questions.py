"""Should I change anything? The questions, how each is asked, and their answers.

Where presets are known, answers rest on the reviews that Anki's optimizer takes, else on the
benchmark's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.advice import buttons, fsrs, over_time, population
from srs_eval.advice import parameters as presets
from srs_eval.advice.candidates import WHOLE, Learner, evaluated_by_preset, refuse_without_presets
from srs_eval.advice.checks import is_anything_wrong
from srs_eval.advice.findings import Finding, Missing, Month
from srs_eval.advice.model_evidence import model_evidence as model_evidence  # asked by views
from srs_eval.advice.split import split_or_merge
from srs_eval.advice.workload.estimate import COSTS, at_a_glance, workload
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.engine.shared import with_file
from srs_eval.models.configurations import meant_by
from srs_eval.models.own_parameters import as_run
from srs_eval.stats.intervals import EQUIVALENT
from srs_eval.training.hyperparameters import Context

if TYPE_CHECKING:
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.session import Result

MODELS = "models"  # the question of `compare` that can be asked where presets are not known
STANDING = "standing"  # asked of a log whole, whether presets are known or not
WRONG = "wrong"  # so is this
NEEDS_NO_PRESETS = {MODELS, STANDING, WRONG}
DAYS = ("day", "today", "hour", "session")  # the first one is asked, all are told
OF_PRESETS = "parameters"  # the question with a line for each preset


@dataclass(frozen=True, eq=False)
class Asked:
    """What questions are asked of and with.

    What their answers rest on is fitted once for all questions that are asked of one object.
    """

    log: ReviewLog
    context: Context | None = None
    equivalence: float = EQUIVALENT  # differences in log loss within it count as none
    lines: Mapping[str, Sequence[float]] | None = None  # parameters of one's own, by name
    most_beside: int | None = None
    """How many presets, those with the most reviews, questions that are evidence beside a preset's
    line (`Question.is_beside`) are asked about; None for all."""

    @cached_property
    def learner(self) -> Learner:
        """By preset. Raises NotEnoughData."""
        return Learner.of(self.log, self.context, equivalence=self.equivalence)

    @cached_property
    def whole(self) -> Learner:
        """On the benchmark's rows, presets aside. Raises NotEnoughData."""
        return Learner.of(self.log, self.context, WHOLE, self.equivalence)

    @property
    def over_all(self) -> Learner:
        """On Anki's rows where they are there to be evaluated, else on the benchmark's."""
        return self.learner if evaluated_by_preset(self.log) else self.whole

    @property
    def presets(self) -> list[int]:
        """The presets with reviews, those with the most reviews first."""
        return list(self.over_all.groups)

    def dated(self, finding: Finding) -> Finding:
        """With the date by which what is missing will be there, at the learner's pace."""
        lacks = finding.missing
        if lacks is None or lacks == Missing():
            return finding
        with contextlib.suppress(NotEnoughData):  # no preset's parameters are run, say
            return replace(finding, missing=self.over_all.dated(lacks, finding.subject))
        return finding

    def refuse_lost(self, learner: Learner) -> bool:
        """Whether a file's predictions, if there is one, cover all held-out reviews.

        Raises InputError where they cover none.
        """
        place = learner.source_place[learner.trials.test_index]
        of_file = {
            name: np.isfinite(each.p[place])
            for name, each in self.log.given.items()
            if not meant_by(name)
        }
        for name, there in of_file.items():
            if not there.any():
                raise InputError(
                    f'The predictions of "{name}" cover 0 of the {len(place):,} held-out reviews '
                    f"(--rows {learner.trials.protocol.rows}, five folds)."
                )
        return all(there.all() for there in of_file.values())

    def _costs(self) -> Iterator[Finding]:
        with contextlib.suppress(InputError):  # nobody knows how the cards are scheduled
            yield from at_a_glance(self.log, self.context)

    def _workload(self) -> Iterator[Finding]:
        with contextlib.closing(workload(self.log, context=self.context)) as coming:
            yield from (each.finding for each in coming)

    def _days(self) -> Iterator[Finding]:
        protocol = Protocol(rows="anki" if evaluated_by_preset(self.log) else "benchmark")
        yield from over_time.learner_state(self.log, protocol, self.context, self.equivalence)

    def _standing(self) -> Iterator[Finding]:
        yield from population.where_do_i_stand(self.log, self.context or Context())

    def _hard(self) -> Iterator[Finding]:
        yield buttons.am_i_misusing_hard(self.learner)

    def _wrong(self) -> Iterator[Finding]:
        try:
            yield is_anything_wrong(self.log, self.over_all)
        except NotEnoughData:
            yield is_anything_wrong(self.log, None)

    def _parameters(self) -> Iterator[Finding]:
        learner = self.over_all
        given = fsrs.given_to(learner, self.lines or ()).items()
        whole = {name: p for name, p in given if np.isfinite(p).all()}
        yield from presets.what_is_left_out(self.log)
        lines, predicted = self.lines or {}, fsrs.brought_along(learner) | whole
        yield from presets.are_my_parameters_good(learner, self.presets, lines, predicted)

    def _models(self) -> Iterator[Finding]:
        given = fsrs.brought_along(self.whole) | fsrs.given_to(self.whole, self.lines or ())
        yield from fsrs.which_predicts_best(self.whole, self.lines or {}, given)


_Of = Callable[[Learner, Sequence[int]], Iterator[Finding]]


def _each(answers: _Of) -> Callable[[Asked], Iterator[Finding]]:
    return lambda asked: answers(asked.learner, asked.presets)


def _beside(answers: _Of) -> Callable[[Asked], Iterator[Finding]]:
    return lambda asked: answers(asked.learner, asked.presets[: asked.most_beside])


def _whole(answer: Callable[[Learner], Finding]) -> Callable[[Asked], Iterator[Finding]]:
    return lambda asked: iter((answer(asked.over_all),))


@dataclass(frozen=True)
class Question:
    """All that is known of a question besides its answers."""

    title: str  # as a question, or what stands above its evidence
    ask: Callable[[Asked], Iterator[Finding]] | None = None  # None: another's answers tell it, too
    line: str = ""  # the heading of its line in the app, if it has one
    is_beside: bool = False  # it has no line of its own: it is evidence of a preset's


REGISTRY: Mapping[str, Question] = {
    "fit": Question("How well does FSRS predict me?", _whole(fsrs.how_well)),
    OF_PRESETS: Question("Are my parameters good?", Asked._parameters),
    "health": Question("Is FSRS right for me?", _each(fsrs.is_fsrs_right_for_me), "FSRS for you?"),
    MODELS: Question("Which model predicts best?", Asked._models, "FSRS for you?"),
    STANDING: Question("Where do I stand?", Asked._standing, "Where you stand"),
    "split": Question("Split or merge presets?", _each(split_or_merge), "Split or merge?"),
    COSTS: Question("What does a desired retention cost?", Asked._costs, "Reviews a day"),
    "often": Question(
        "How often should I optimize?", _each(presets.how_often), "Optimize how often?"
    ),
    "retention": Question(
        "Do I remember as much as I asked for?",
        _each(over_time.do_i_remember_enough),
        "Remembered in all",
    ),
    "says": Question(
        "When FSRS says 90 %, do I recall 90 %?",
        _whole(over_time.does_it_mean_it),
        "When FSRS says",
    ),
    "time": Question(
        "Was I predictable lately?", _whole(over_time.was_i_predictable), "Latest month"
    ),
    "day": Question("How much is your day?", Asked._days, "Your day"),
    "today": Question("How are you doing?"),
    "hour": Question("Does the time of day matter?"),
    "session": Question("Does the length of a session matter?"),
    "hard": Question("Am I misusing Hard?", Asked._hard, "Hard"),
    "steps": Question("Which learning steps?", _each(buttons.which_steps)),
    "noise": Question(
        "Which numbers are noise?", _beside(presets.which_numbers_are_noise), is_beside=True
    ),
    "buttons": Question(
        "What the buttons would show", _beside(buttons.what_buttons_show), is_beside=True
    ),
    WRONG: Question("Anything wrong?", Asked._wrong, "Anything wrong?"),
    "workload": Question("What does a desired retention cost?", Asked._workload),
}
"""By name, in the order of the app's lines."""
QUESTIONS = (OF_PRESETS, "split", "often", "health", "hard", "steps", "noise", "retention")
"""What `compare` answers of presets, in this order."""
TASKS = (
    *(("fit", WRONG), (OF_PRESETS, "split"), ("retention",), (COSTS,), ("hard", "steps")),
    *((STANDING,), ("often",), ("says",), ("time",), ("health",), ("day",), ("buttons", "noise")),
)
"""What the app answers, in the order in which it is begun, what the first screen shows before all
else; a task's questions share their fits."""
TASKS_WITHOUT_PRESETS = (
    *(("fit", WRONG), (OF_PRESETS,), (MODELS,), ("time",), ("day",), (STANDING,)),
)
FIRST = (
    *("fit", WRONG, OF_PRESETS, "split", "retention", COSTS, "hard", "steps", "says", "time"),
    STANDING,
)
"""What the first screen rests on."""
OVER_ALL = ("fit", OF_PRESETS, "says", "time", STANDING)  # those of a report that need no presets
NOT_WAITED_FOR = {COSTS, *(name for name, each in REGISTRY.items() if each.is_beside)}
"""Questions that models need not wait for: evidence, and what compiles for long on a first run."""


def heading_of(question: str) -> str:
    """Under what docs/findings.md, the page Findings, explains a question of REGISTRY."""
    return REGISTRY["day" if question in DAYS else question].title


def ask(question: str, asked: Asked) -> Iterator[Finding]:
    """The answers to one question of REGISTRY as they are known. Raises NotEnoughData."""
    answers = REGISTRY[question].ask
    found = iter(()) if answers is None else answers(asked)
    return (asked.dated(replace(each, equivalence=asked.equivalence)) for each in found)


def tasks_of(log: ReviewLog) -> Sequence[tuple[str, ...]]:
    """What the app answers of a log."""
    return TASKS if evaluated_by_preset(log) else TASKS_WITHOUT_PRESETS


def answering(
    log: ReviewLog,
    *,
    questions: Iterable[str] | None = None,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: Path | None = None,
    equivalence: float = EQUIVALENT,
    context: Context | None = None,
) -> Iterator[Finding]:
    """Answers to questions about a learner's presets, from the reviews that Anki would take.

    Without `questions` those of `questions_for`; of a log without presets, or with rows that
    Anki's rule did not choose, only OF_PRESETS, MODELS, STANDING and WRONG can be answered, on
    the benchmark's rows. Each answer comes as soon as it is known: question by question in the
    order of QUESTIONS, preset by preset, those with the most reviews first. Before them each is
    named whose stored parameters Anki does not run, an answer to "parameters" whatever is asked of
    presets: it is left out of all of them. Closing the iterator ends the work between two answers;
    `context.tick` is called more often and may raise Cancelled.

    `log` may be narrowed to some decks or presets first. `parameters` are lists of one's own,
    by name, 17, 19 or 21 values each, or FSRS-7's 34; `predictions` a file with others' predictions
    (`srs_eval.data.readers.predictions`); where these lack reviews, MODELS is answered, too, on
    those that all have. Differences in log loss within `equivalence` count as
    none. Raises, before the first answer, NotEnoughData for too few reviews and InputError for
    an unknown question and for one that needs presets where there are none.
    """
    every = (*QUESTIONS, MODELS, STANDING, WRONG)
    log = with_file(log, predictions)
    wanted = set(questions_for(log, context) if questions is None else questions)
    for question in sorted(wanted.difference(every)):
        raise InputError(f'There is no question "{question}": choose among {", ".join(every)}.')
    of_presets = wanted - NEEDS_NO_PRESETS
    if of_presets - {OF_PRESETS}:
        refuse_without_presets(log)
    lines = {name: as_run(values) for name, values in (parameters or {}).items()}
    asked = Asked(log, context, equivalence, lines)
    if of_presets:
        whole = asked.refuse_lost(asked.over_all)
        wanted |= set() if whole else {MODELS}
    if MODELS in wanted:
        asked.refuse_lost(asked.whole)

    def answers() -> Iterator[Finding]:
        if of_presets and OF_PRESETS not in wanted:
            yield from presets.what_is_left_out(log)
        for question in every:
            if question in wanted:
                yield from ask(question, asked)

    return answers()


def questions_for(log: ReviewLog, context: Context | None = None) -> tuple[str, ...]:
    """What is answered unless a person asks for something else.

    MODELS where presets are not known, and where there is more to compare than FSRS: others'
    predictions, or weights of RWKV that are named.
    """
    usual = QUESTIONS if evaluated_by_preset(log) else (OF_PRESETS, MODELS)
    more = [each for each in log.given.values() if not each.is_empty]
    models = (MODELS,) if more or (context and context.weights) else ()
    return tuple(dict.fromkeys((*usual, *models, WRONG)))


def compare(log: ReviewLog, **options: Any) -> list[Finding]:
    """All that `answering` has to say; the options and what it raises are its."""
    return list(answering(log, **options))


def rows_of(log: ReviewLog, questions: Iterable[str]) -> str:
    """Which reviews the findings on some questions rest on: "anki" or "benchmark"."""
    return (
        "anki" if evaluated_by_preset(log) and set(questions) - {MODELS, STANDING} else "benchmark"
    )


def months_of(log: ReviewLog, protocol: Protocol, result: Result) -> list[Month]:
    """The figures of any model by month, in order of time."""
    return over_time.months(result, over_time.dates(log, protocol))
