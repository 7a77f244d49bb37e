"""Collect the answers about a learner as they arrive, and group them into lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from srs_eval.advice import findings as f
from srs_eval.advice.acts import find_acts
from srs_eval.advice.candidates import can_evaluate_by_preset, find_excluded_cards
from srs_eval.advice.checks import complete_checks, merge_checks
from srs_eval.advice.findings import ALL_PRESETS, Finding
from srs_eval.advice.questions import (
    CHECKS,
    FIT,
    HEALTH,
    MODELS,
    PARAMETERS,
    PREDICTABILITY,
    QUESTION_REGISTRY,
    TAUGHT_PARAMETERS,
    tasks_for,
)
from srs_eval.advice.sentences import FirstScreen, format_month
from srs_eval.advice.shown.first_screen import build_first_screen
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import RowKind

INCONCLUSIVE_LINE = "open"
"""Value of `AnswerLine.question` for the line of inconclusive answers; it is not a question."""


@dataclass(frozen=True)
class AnswerLine:
    """Answers that belong together: to one question, or about one preset."""

    question: str  # key of QUESTION_REGISTRY, or INCONCLUSIVE_LINE
    title: str  # the preset's name, or the question in a few words
    answers: tuple[Finding, ...]  # () until the question is answered

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

    row_rule: RowKind  # which rule selected the reviews behind the answers
    excluded_cards: f.ExcludedCards | None = None  # set if nearly all reviewed cards are gone
    shows_saved_answers: bool = False
    """Set once saved answers about an earlier state of the file have been added."""
    late_keys: frozenset[tuple[str, str, str]] = frozenset()
    """Keys of the answers to TAUGHT_PARAMETERS once it is settled: they replace others about the
    same thing, whichever come first."""
    waiting: list[str] = field(default_factory=list)  # questions not settled yet
    answers: list[Finding] = field(default_factory=list)

    @staticmethod
    def start(log: ReviewLog) -> Overview:
        """Create an overview before the first answer."""
        by_preset = can_evaluate_by_preset(log)
        waiting: list[str] = []
        for questions in tasks_for(log):
            waiting += questions
        return Overview(
            "anki" if by_preset else "benchmark",
            excluded_cards=find_excluded_cards(log),
            waiting=waiting,
        )

    @staticmethod
    def from_answers(log: ReviewLog, answers: Sequence[Finding]) -> Overview:
        """Create an overview from all answers."""
        overview = replace(Overview.start(log), waiting=[])
        overview.add(answers)
        return overview

    def add(self, new_answers: Sequence[Finding], settled_questions: Sequence[str] = ()) -> None:
        """Add answers; a new answer replaces the earlier one about the same thing.

        A question is settled if no more answers to it will come: `new_answers` then holds all its
        answers, and earlier ones are dropped.
        """
        new_by_key = {_answer_key(answer): answer for answer in new_answers}
        remaining = []
        for answer in self.answers:
            key = _answer_key(answer)
            if key in self.late_keys:
                new_by_key.pop(key, None)  # it knows less
                remaining.append(answer)
            elif answer.question not in settled_questions and key not in new_by_key:
                remaining.append(answer)
        if TAUGHT_PARAMETERS in settled_questions:
            self.late_keys = frozenset(new_by_key)
        self.answers = [*remaining, *new_by_key.values()]
        self.waiting = [question for question in self.waiting if question not in settled_questions]

    def find_answers(self, question: str) -> tuple[Finding, ...]:
        return tuple(answer for answer in self.answers if answer.question == question)

    @property
    def has_unanswered(self) -> bool:
        """Return True if a question could not be answered; the answers are then not saved."""
        return any(isinstance(answer.evidence, f.Unanswered) for answer in self.answers)

    @property
    def first_screen(self) -> FirstScreen:
        """Answers as five panes."""
        waiting = tuple(self.waiting)
        if self.shows_saved_answers:
            waiting = ()  # the saved answers are shown as if they were complete
        checks = merge_checks(self.answers)
        acts = find_acts(self.answers, checks, has_active_cards=self.excluded_cards is None)
        return build_first_screen(
            self.answers,
            waiting,
            checks,
            acts,
            rows=self.row_rule,
            excluded_cards=self.excluded_cards,
        )

    @property
    def completed_answers(self) -> list[Finding]:
        """Answers, of which that to CHECKS has also the checks from other answers."""
        return [complete_checks(answer, self.answers) for answer in self.answers]

    @property
    def lines(self) -> list[AnswerLine]:
        """Lines of the presets first, then of the other questions.

        There is a single line if no question but CHECKS can be answered, all for the same reason.
        """
        if not self.waiting and len(self.answers) > 1 and self._has_single_reason():
            # All but CHECKS give the same reason: one line, filed under FIT, stands for all.
            return [AnswerLine(FIT, "All questions", (self.answers[0],))]
        return [*self._preset_lines(), *_merge_inconclusive(list(self._question_lines()))]

    def _has_single_reason(self) -> bool:
        """Return True if no question but CHECKS could be answered, and all for the same reason."""
        reasons = set()
        for answer in self.answers:
            if answer.question == CHECKS:  # it always has an answer
                continue
            if not isinstance(answer.evidence, f.Unanswered):
                return False
            reasons.add(answer.evidence)
        return len(reasons) == 1

    def _preset_lines(self) -> list[AnswerLine]:
        evidence_answers = [
            answer for answer in self.answers if QUESTION_REGISTRY[answer.question].is_evidence_only
        ]
        lines = []
        for answer in self.find_answers(PARAMETERS):
            if isinstance(answer.evidence, f.Unanswered):
                lines.append(AnswerLine(PARAMETERS, "Your presets", (answer,)))
            elif answer.subject != ALL_PRESETS:  # it sums up these lines and has none of its own
                about_preset = [
                    other for other in evidence_answers if other.subject == answer.subject
                ]
                lines.append(AnswerLine(PARAMETERS, answer.subject, (answer, *about_preset)))
        if PARAMETERS in self.waiting and not lines:
            return [AnswerLine(PARAMETERS, "Your presets", ())]
        return lines

    def _question_lines(self) -> Iterator[AnswerLine]:
        for question, definition in QUESTION_REGISTRY.items():
            answers = self.find_answers(question)
            title = definition.line_title
            is_shown = bool(answers) or question in self.waiting
            if not title or not is_shown:
                continue
            if answers and question in (HEALTH, MODELS):  # FIT, without its own line, belongs here
                answers = (*self.find_answers(FIT), *answers)
            elif question == CHECKS:
                answers = tuple(complete_checks(answer, self.answers) for answer in answers)
            elif question == PREDICTABILITY and _is_about_month(answers):
                month = answers[0].subject  # a month's name: see `assess_predictability`
                is_current = month == time.strftime("%Y-%m")
                title = "This month" if is_current else format_month(month)
            yield AnswerLine(question, title, answers)


def _is_about_month(answers: Sequence[Finding]) -> bool:
    return bool(answers) and isinstance(answers[0].evidence, f.Months)


def _answer_key(finding: Finding) -> tuple[str, str, str]:
    """Return a key for answers about the same thing.

    Two answers on sharing, for presets and for the decks of one preset, may have the same subject;
    the unit keeps them apart.
    """
    unit = finding.evidence.unit if isinstance(finding.evidence, f.Sharing) else ""
    return finding.question, finding.subject, unit


def _merge_inconclusive(lines: Sequence[AnswerLine]) -> list[AnswerLine]:
    """Merge lines with only inconclusive answers into one last line."""
    merged: list[AnswerLine] = []
    inconclusive: list[Finding] = []
    for line in lines:
        # FIT is added to the lines of other questions, and does not count here.
        answers = [answer for answer in line.answers if answer.question == line.question]
        if not line.answers or any(answer.conclusion != f.CANT_TELL for answer in answers):
            merged.append(line)
        else:
            inconclusive += answers
    if inconclusive:
        merged.append(AnswerLine(INCONCLUSIVE_LINE, "Can't tell yet", tuple(inconclusive)))
    return merged
