"""Register the questions that srs-eval answers about a learner, and answer them.

If presets can be evaluated (`can_evaluate_by_preset`), most answers rest on the reviews that Anki's
optimizer uses, otherwise all rest on the benchmark's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.advice import (
    buttons,
    card_kinds,
    difficulty,
    first_intervals,
    fsrs,
    fsrs7_switch,
    health_remedies,
    ignore_before,
    next_optimize,
    over_time,
    population,
    reschedule,
)
from srs_eval.advice import parameters as presets
from srs_eval.advice.candidates import (
    ALL_REVIEWS_PROTOCOL,
    Learner,
    can_evaluate_by_preset,
    require_presets,
)
from srs_eval.advice.checks import complete_checks, run_checks
from srs_eval.advice.findings import Finding, Month, Unanswered
from srs_eval.advice.fsrs7_switch import find_preview as find_preview  # used by views
from srs_eval.advice.model_evidence import model_evidence as model_evidence  # used by views
from srs_eval.advice.split import assess_sharing
from srs_eval.advice.workload.estimate import COSTS, estimate_at_a_glance, workload
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import EQUIVALENCE_MARGIN, Protocol
from srs_eval.engine.shared_reviews import add_predictions_file, select_held_out
from srs_eval.models.configurations import find_meaning
from srs_eval.models.own_parameters import normalize_parameters
from srs_eval.training.hyperparameters import Context

if TYPE_CHECKING:
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.data.rows import RowKind
    from srs_eval.engine.result import Result

FIT = "fit"
PARAMETERS = "parameters"  # the question with a line for each preset
TAUGHT_PARAMETERS = "taught"
"""PARAMETERS again, with taught parameters for presets with few reviews, and with FSRS-7 where the
learner's program can run it; the app asks it late."""
HEALTH = "health"
MODELS = "models"
PERCENTILES = "standing"
PREDICTABILITY = "time"
CHECKS = "wrong"
FSRS_7 = fsrs7_switch.QUESTION
NEEDS_NO_PRESETS = {
    MODELS,
    PERCENTILES,
    CHECKS,
    FSRS_7,
}  # of the questions that `compare` answers
_OVER_DAYS = {
    FIT,
    PARAMETERS,
    "split",
    HEALTH,
    "retention",
    PREDICTABILITY,
    FSRS_7,
}
"""Questions whose answers rest on intervals over days, which lasting good and bad spells widen."""
DAY_QUESTIONS = ("day", "today", "hour", "session")  # asking the first answers all four


@dataclass(frozen=True, eq=False)
class QuestionContext:
    """Inputs shared by all questions.

    Questions asked with the same object also share their fits.
    """

    log: ReviewLog
    context: Context | None = None
    equivalence: float = EQUIVALENCE_MARGIN  # smaller differences in log loss count as none
    parameter_sets: Mapping[str, Sequence[float]] | None = None  # the user's own, by name
    max_evidence_presets: int | None = None
    """Number of presets (with the most reviews) for which to answer questions that are only
    evidence behind a preset's line (`QuestionDefinition.is_evidence_only`); None for all."""
    defers_taught: bool = False
    """Whether PARAMETERS leaves out what TAUGHT_PARAMETERS adds, because TAUGHT_PARAMETERS is also
    asked."""
    parameter_answers: list[Finding] = field(default_factory=list)
    """Answers to PARAMETERS on this log once all are given, so that COSTS need not ask again."""

    @cached_property
    def learner(self) -> Learner:
        """Learner by preset. Raises NotEnoughData."""
        return Learner.of(self.log, self.context, equivalence=self.equivalence)

    @cached_property
    def learner_without_presets(self) -> Learner:
        """Learner on the benchmark's rows, without presets. Raises NotEnoughData."""
        return Learner.of(self.log, self.context, ALL_REVIEWS_PROTOCOL, self.equivalence)

    @property
    def default_learner(self) -> Learner:
        """Return the learner on Anki's rows if they can be evaluated, else on the benchmark's."""
        return self.learner if can_evaluate_by_preset(self.log) else self.learner_without_presets

    @cached_property
    def unchanged_presets(self) -> frozenset[str]:
        """Names of the presets for which PARAMETERS advises no new parameters."""
        try:
            return presets.find_unchanged_presets(
                self.parameter_answers or self._answer_parameters()
            )
        except NotEnoughData:
            return frozenset()  # COSTS says why

    @property
    def preset_ids(self) -> list[int]:
        """Ids of the presets with reviews (a single id without presets), most reviews first."""
        return list(self.default_learner.groups)

    def with_due_date(self, finding: Finding) -> Finding:
        """Add the date when enough reviews will exist, at the learner's current pace."""
        missing = finding.missing
        if missing is None or not missing.can_come:
            return finding
        with contextlib.suppress(NotEnoughData):  # if Anki runs no preset's parameters, for example
            dated = self.default_learner.with_due_date(missing, finding.subject)
            return replace(finding, missing=dated)
        return finding

    def with_phi(self, finding: Finding) -> Finding:
        """Add the persistence of the learner's days if good and bad spells clearly last."""
        if finding.question not in _OVER_DAYS or isinstance(finding.evidence, Unanswered):
            return finding
        with contextlib.suppress(NotEnoughData):
            persistence = self.default_learner.persistence
            if persistence.is_clear:
                return replace(finding, phi=persistence.phi)
        return finding

    def check_coverage(self, learner: Learner) -> bool:
        """Return True if the external predictions cover all held-out reviews.

        Predictions under the name of a known model or group are not checked. Raises InputError if
        any others cover no review.
        """
        covers_all = True
        for name, external in self.log.external_predictions.items():
            if find_meaning(name):
                continue
            held_out = select_held_out(external, learner.held_out_entries)
            if not len(held_out.predicted):
                raise InputError(
                    f'The predictions of "{name}" cover none of the {len(held_out.p):,} held-out '
                    f"reviews (--rows {learner.trials.protocol.rows}, five folds)."
                )
            if held_out.missing:
                covers_all = False
        return covers_all

    def _answer_costs(self) -> Iterator[Finding]:
        with contextlib.suppress(InputError):  # no answer if the schedule of the cards is unknown
            yield from estimate_at_a_glance(self.log, self.context, self.unchanged_presets)

    def _answer_workload(self) -> Iterator[Finding]:
        estimates = workload(
            self.log, context=self.context, unchanged_presets=self.unchanged_presets
        )
        with contextlib.closing(estimates):
            for estimate in estimates:
                yield estimate.finding

    def _answer_days(self) -> Iterator[Finding]:
        protocol = Protocol(rows="anki" if can_evaluate_by_preset(self.log) else "benchmark")
        yield from over_time.assess_learner_state(
            self.log, protocol, self.context, self.equivalence
        )

    def _answer_percentiles(self) -> Iterator[Finding]:
        yield from population.assess_percentiles(self.log, self.context or Context())

    def _answer_fsrs7_switch(self) -> Iterator[Finding]:
        yield from fsrs7_switch.assess_switch(self.default_learner, self.preset_ids)

    def _answer_hard(self) -> Iterator[Finding]:
        yield buttons.assess_hard_button(self.learner)

    def _answer_checks(self) -> Iterator[Finding]:
        try:
            yield run_checks(self.log, self.default_learner)
        except NotEnoughData:
            yield run_checks(self.log, None)

    def _answer_parameters(self) -> Iterator[Finding]:
        answers = []
        for answer in self._assess_parameters(with_late=not self.defers_taught):
            answers.append(answer)
            yield answer
        self.parameter_answers[:] = answers

    def _answer_taught_parameters(self) -> Iterator[Finding]:
        """Answer PARAMETERS with all candidates, and COSTS again if other presets keep theirs."""
        with contextlib.suppress(NotEnoughData):  # PARAMETERS says why
            learner = self.learner
            if not any(presets.has_late_candidates(learner, group) for group in learner.groups):
                return
            answers = list(self._assess_parameters(with_late=True))
            yield from answers
            unchanged_presets = presets.find_unchanged_presets(answers)
            if unchanged_presets != self.unchanged_presets:
                with contextlib.suppress(InputError):  # as in `_answer_costs`
                    *_, last = estimate_at_a_glance(self.log, self.context, unchanged_presets)
                    yield last

    def _assess_parameters(self, *, with_late: bool) -> Iterator[Finding]:
        learner = self.default_learner
        parameter_sets = self.parameter_sets or {}
        external = fsrs.external_predictions(learner, parameter_sets)
        predictions = {name: source.p for name, source in fsrs.source_predictions(learner).items()}
        # These comparisons use all held-out reviews. Predictions that lack some reviews are
        # compared by `_answer_models`.
        for name, held_out in external.items():
            if not held_out.missing:
                predictions[name] = held_out.p
        yield from presets.find_unsupported_parameters(self.log)
        yield from presets.assess_parameters(
            learner, self.preset_ids, parameter_sets, predictions, with_late=with_late
        )

    def _answer_models(self) -> Iterator[Finding]:
        learner = self.learner_without_presets
        parameter_sets = self.parameter_sets or {}
        predictions = fsrs.source_predictions(learner)
        predictions |= fsrs.external_predictions(learner, parameter_sets)
        yield from fsrs.compare_models(learner, parameter_sets, predictions)


_AnswerByPreset = Callable[[Learner, Sequence[int]], Iterator[Finding]]


# These turn a function of a learner into the function of a context that a definition needs.


def _for_each_preset(answer: _AnswerByPreset) -> Callable[[QuestionContext], Iterator[Finding]]:
    return lambda context: answer(context.learner, context.preset_ids)


def _for_largest_presets(answer: _AnswerByPreset) -> Callable[[QuestionContext], Iterator[Finding]]:
    return lambda context: answer(
        context.learner, context.preset_ids[: context.max_evidence_presets]
    )


def _for_all_reviews(
    answer: Callable[[Learner], Finding],
) -> Callable[[QuestionContext], Iterator[Finding]]:
    return lambda context: iter((answer(context.default_learner),))


@dataclass(frozen=True)
class QuestionDefinition:
    """Title of a question, the function that answers it, and its line in the app."""

    title: str  # a question, or the heading above its evidence
    answer: Callable[[QuestionContext], Iterator[Finding]] | None = None
    """None if another question answers it."""
    line_title: str = ""  # the heading of its line in the app, if it has one
    is_evidence_only: bool = False  # without a line of its own: evidence for a preset's line


QUESTION_REGISTRY: Mapping[str, QuestionDefinition] = {
    FIT: QuestionDefinition(
        "How well does FSRS predict my answers?", _for_all_reviews(fsrs.assess_fit)
    ),
    PARAMETERS: QuestionDefinition("Are my parameters good?", QuestionContext._answer_parameters),
    TAUGHT_PARAMETERS: QuestionDefinition(
        "Are my parameters good?", QuestionContext._answer_taught_parameters
    ),
    HEALTH: QuestionDefinition(
        "Is FSRS right for me?", _for_each_preset(fsrs.compare_with_sm2), "FSRS for you?"
    ),
    MODELS: QuestionDefinition(
        "Which model predicts best?", QuestionContext._answer_models, "FSRS for you?"
    ),
    PERCENTILES: QuestionDefinition(
        "Where do I stand?", QuestionContext._answer_percentiles, "Where you stand"
    ),
    "split": QuestionDefinition(
        "One preset or several?", _for_each_preset(assess_sharing), "One preset or several?"
    ),
    COSTS: QuestionDefinition(
        "What does a desired retention cost?", QuestionContext._answer_costs, "Reviews a day"
    ),
    "often": QuestionDefinition(
        "How often should I optimize?",
        _for_each_preset(presets.assess_optimization_frequency),
        "Optimize how often?",
    ),
    "retention": QuestionDefinition(
        "Do I remember as much as I asked for?",
        _for_each_preset(over_time.assess_retention),
        "Remembered in all",
    ),
    "says": QuestionDefinition(
        "When FSRS says 90 %, do I recall 90 %?",
        _for_all_reviews(over_time.assess_calibration),
        "When FSRS says",
    ),
    PREDICTABILITY: QuestionDefinition(
        "Was I predictable lately?",
        _for_all_reviews(over_time.assess_predictability),
        "Latest month",
    ),
    "day": QuestionDefinition(
        "Do some days go better than others?", QuestionContext._answer_days, "Your day"
    ),
    "today": QuestionDefinition("How did my last day go?"),
    "hour": QuestionDefinition("Does the time of day matter?"),
    "session": QuestionDefinition("Does the length of a session matter?"),
    "hard": QuestionDefinition("Am I misusing Hard?", QuestionContext._answer_hard, "Hard"),
    "steps": QuestionDefinition("Which learning steps?", _for_each_preset(buttons.assess_steps)),
    "noise": QuestionDefinition(
        "Which FSRS parameters are mostly noise?",
        _for_largest_presets(presets.assess_parameter_noise),
        is_evidence_only=True,
    ),
    "buttons": QuestionDefinition(
        "What the buttons would show",
        _for_largest_presets(buttons.preview_buttons),
        is_evidence_only=True,
    ),
    ignore_before.QUESTION: QuestionDefinition(
        "From which date should reviews count?",
        _for_largest_presets(ignore_before.assess_ignore_dates),
        "Ignore reviews before",
    ),
    reschedule.QUESTION: QuestionDefinition(
        "Reschedule after optimizing?",
        _for_largest_presets(reschedule.assess_rescheduling),
        "Reschedule?",
    ),
    first_intervals.QUESTION: QuestionDefinition(
        "Why is my first interval so long or short?",
        _for_largest_presets(first_intervals.assess_first_intervals),
        "First intervals",
    ),
    difficulty.QUESTION: QuestionDefinition(
        "Is a difficulty near 10 a problem?",
        _for_largest_presets(difficulty.assess_difficulty),
        "Difficulty",
    ),
    next_optimize.QUESTION: QuestionDefinition(
        "When should I optimize next?",
        _for_each_preset(next_optimize.assess_next_optimization),
        "Optimize next",
    ),
    health_remedies.QUESTION: QuestionDefinition(
        "What should I do after a failed health check?",
        _for_each_preset(health_remedies.assess_health_remedies),
        "After a failed check",
    ),
    card_kinds.QUESTION: QuestionDefinition(
        "Split by card template or first answer?",
        _for_largest_presets(card_kinds.assess_card_kinds),
        "Split by card?",
    ),
    FSRS_7: QuestionDefinition(
        "What would I gain from FSRS-7?", QuestionContext._answer_fsrs7_switch, "FSRS-7"
    ),
    CHECKS: QuestionDefinition(
        "Anything wrong?", QuestionContext._answer_checks, "Anything wrong?"
    ),
    "workload": QuestionDefinition(  # COSTS in full, at every retention
        "What does a desired retention cost?", QuestionContext._answer_workload
    ),
}
"""Questions by name, in the order of the app's lines."""
COMPARE_QUESTIONS = (PARAMETERS, "split", "often", HEALTH, "hard", "steps", "noise", "retention")
"""Questions about presets that `compare` answers, in this order."""
_SOURCES_OF_CHECKS = ("retention", "steps")  # questions whose answers add checks
FURTHER_QUESTIONS = (
    ignore_before.QUESTION,
    reschedule.QUESTION,
    first_intervals.QUESTION,
    difficulty.QUESTION,
    next_optimize.QUESTION,
    health_remedies.QUESTION,
    card_kinds.QUESTION,
)
"""Questions that reports answer and the app answers last; `compare` answers them only by name."""
NAMED_QUESTIONS = (
    *COMPARE_QUESTIONS,
    *FURTHER_QUESTIONS,
    FSRS_7,
    MODELS,
    PERCENTILES,
    CHECKS,
)
"""Questions that `compare` answers by name, in this order."""


def name_command(question: str) -> str:
    """Return the command that answers a question, without the file: "compare --question hard"."""
    if question in (COSTS, "workload"):
        return "workload"
    if question in DAY_QUESTIONS:
        return "state"
    if question == TAUGHT_PARAMETERS:
        question = PARAMETERS
    if question in NAMED_QUESTIONS:
        return f"compare --question {question}"
    return "compare --details"


TASKS_WITH_PRESETS = (
    (FIT, CHECKS),
    (PARAMETERS, COSTS),
    ("split",),
    ("retention",),
    ("hard", "steps"),
    (PERCENTILES,),
    ("says",),
    (PREDICTABILITY,),
    ("often", next_optimize.QUESTION),
    (HEALTH, health_remedies.QUESTION),
    ("day",),
    (TAUGHT_PARAMETERS,),
    ("buttons", "noise"),
    (reschedule.QUESTION, first_intervals.QUESTION, difficulty.QUESTION),
    (ignore_before.QUESTION,),
    (card_kinds.QUESTION,),
)
"""Tasks of the app, in the order in which they start: those of the first screen come first. A task
is a group of questions that share their fits, so that one worker process answers them all."""
TASKS_WITHOUT_PRESETS = (
    (FIT, CHECKS),
    (PARAMETERS,),
    (MODELS,),
    (PREDICTABILITY,),
    ("day",),
    (PERCENTILES,),
)
FIRST_SCREEN_QUESTIONS = (
    FIT,
    CHECKS,
    PARAMETERS,
    "split",
    "retention",
    COSTS,
    "hard",
    "steps",
    "says",
    PREDICTABILITY,
    PERCENTILES,
)
"""Questions behind the first screen."""
REPORT_QUESTIONS_WITHOUT_PRESETS = (FIT, PARAMETERS, "says", PREDICTABILITY, PERCENTILES)
"""Questions in reports on a log without presets."""
NON_BLOCKING_QUESTIONS = {
    COSTS,
    TAUGHT_PARAMETERS,
    *FURTHER_QUESTIONS,
    FSRS_7,
} | {name for name, definition in QUESTION_REGISTRY.items() if definition.is_evidence_only}
"""Questions that may still be open when the app begins to evaluate models: evidence behind other
answers, those answered last, and costs, whose kernels take long to compile the first time."""


def findings_heading(question: str) -> str:
    """Return the heading in docs/findings.md that explains a question."""
    if question in DAY_QUESTIONS:
        question = "day"
    return QUESTION_REGISTRY[question].title


def ask(question: str, question_context: QuestionContext) -> Iterator[Finding]:
    """Yield the answers to one question of QUESTION_REGISTRY. Raises NotEnoughData."""
    answer = QUESTION_REGISTRY[question].answer
    findings = iter(()) if answer is None else answer(question_context)
    for finding in findings:
        finding = replace(finding, equivalence=question_context.equivalence)
        yield question_context.with_phi(question_context.with_due_date(finding))


def tasks_for(log: ReviewLog) -> Sequence[tuple[str, ...]]:
    """Return the tasks (groups of questions) that the app runs for a log.

    What the learner would gain from FSRS-7 is asked last, and only where their program can run it.
    """
    if not can_evaluate_by_preset(log):
        return TASKS_WITHOUT_PRESETS
    if log.can_run_fsrs7:
        return (*TASKS_WITH_PRESETS, (FSRS_7,))
    return TASKS_WITH_PRESETS


def answer_questions(
    log: ReviewLog,
    *,
    questions: Iterable[str] | None = None,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: Path | None = None,
    equivalence: float = EQUIVALENCE_MARGIN,
    context: Context | None = None,
) -> Iterator[Finding]:
    """Yield answers to questions about a learner's presets, from the reviews that Anki would use.

    Without `questions`, those of `default_questions` are answered; for a log without presets, or
    with rows that Anki's rule did not select, only PARAMETERS, MODELS, PERCENTILES and CHECKS can
    be answered, on the benchmark's rows.

    Each answer comes as soon as it is known: the questions in the order of COMPARE_QUESTIONS and
    FURTHER_QUESTIONS, then MODELS, PERCENTILES and CHECKS; for each question the preset with the
    most reviews first. Presets whose stored parameters Anki does not run are left out of all
    answers; each is named first, as an answer to PARAMETERS, if any question about presets is
    asked. Closing the iterator ends the work between two answers; `context.tick` is called more
    often and may raise Cancelled.

    `log` may be restricted to some decks or presets first. `parameters` are the user's own lists by
    name, with 17, 19 or 21 values each, or FSRS-7's 34; `predictions` is a file with external
    predictions (`srs_eval.data.readers.predictions`). If these lack some reviews, MODELS is
    answered too, on the reviews that all models have. Differences in log loss within `equivalence`
    count as none. Raises, before the first answer, NotEnoughData for too few reviews and InputError
    for an unknown question, or for one that needs presets if there are none.
    """
    log = add_predictions_file(log, predictions)
    chosen = set(default_questions(log, context) if questions is None else questions)
    for question in sorted(chosen.difference(NAMED_QUESTIONS)):
        raise InputError(
            f'There is no question "{question}": choose from {", ".join(NAMED_QUESTIONS)}.'
        )
    about_presets = chosen - NEEDS_NO_PRESETS
    if about_presets - {PARAMETERS}:
        require_presets(log)
    parameter_sets = {
        name: normalize_parameters(values) for name, values in (parameters or {}).items()
    }
    question_context = QuestionContext(log, context, equivalence, parameter_sets)
    if about_presets and not question_context.check_coverage(question_context.default_learner):
        chosen.add(MODELS)
    if MODELS in chosen:  # for the errors that this may raise
        question_context.check_coverage(question_context.learner_without_presets)

    def answer() -> Iterator[Finding]:
        if about_presets and PARAMETERS not in chosen:
            yield from presets.find_unsupported_parameters(log)
        answers: list[Finding] = []
        for question in NAMED_QUESTIONS:
            if question not in chosen:
                continue
            for finding in ask(question, question_context):
                if question == CHECKS:
                    yield _complete_checks(finding, answers, question_context)
                else:
                    answers.append(finding)
                    yield finding

    return answer()


def _complete_checks(
    finding: Finding, answers: Sequence[Finding], question_context: QuestionContext
) -> Finding:
    """Add to the finding on checks what answers to other questions say, asking these if needed."""
    answered = {answer.question for answer in answers}
    sources = list(answers)
    for question in _SOURCES_OF_CHECKS:
        if question not in answered and can_evaluate_by_preset(question_context.log):
            with contextlib.suppress(NotEnoughData):
                sources += ask(question, question_context)
    return complete_checks(finding, sources)


def default_questions(log: ReviewLog, context: Context | None = None) -> tuple[str, ...]:
    """Return the questions that are answered unless others are chosen.

    MODELS is among them if presets cannot be evaluated, and if there is more to compare than FSRS:
    external predictions, or RWKV weights that the user named.
    """
    questions = [PARAMETERS, MODELS]
    if can_evaluate_by_preset(log):
        questions = list(COMPARE_QUESTIONS)
    has_predictions = any(not external.is_empty for external in log.external_predictions.values())
    has_weights = context is not None and bool(context.weights)
    if (has_predictions or has_weights) and MODELS not in questions:
        questions.append(MODELS)
    questions.append(CHECKS)
    return tuple(questions)


def compare(
    log: ReviewLog,
    *,
    questions: Iterable[str] | None = None,
    parameters: Mapping[str, Sequence[float]] | None = None,
    predictions: Path | None = None,
    equivalence: float = EQUIVALENCE_MARGIN,
    context: Context | None = None,
) -> list[Finding]:
    """Return all answers of `answer_questions`, with the same options and exceptions."""
    answers = answer_questions(
        log,
        questions=questions,
        parameters=parameters,
        predictions=predictions,
        equivalence=equivalence,
        context=context,
    )
    return list(answers)


def rows_behind(log: ReviewLog, questions: Iterable[str]) -> RowKind:
    """Return the rule that selected the rows behind the findings on some questions."""
    may_use_anki_rows = set(questions) - {MODELS, PERCENTILES}
    if can_evaluate_by_preset(log) and may_use_anki_rows:
        return "anki"
    return "benchmark"


def result_months(log: ReviewLog, protocol: Protocol, result: Result) -> list[Month]:
    """Return the figures of any model by month, in chronological order."""
    return over_time.monthly_figures(result, over_time.make_date_formatter(log, protocol))
