"""Check what the questions that are answered last have in common."""

from __future__ import annotations

import itertools

import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.questions import (
    FIRST_SCREEN_QUESTIONS,
    FURTHER_QUESTIONS,
    NON_BLOCKING_QUESTIONS,
    QUESTION_REGISTRY,
    TASKS_WITH_PRESETS,
    default_questions,
)
from srs_eval.data.reviews import ReviewLog

ABOUT_FSRS_6 = [name for name in FURTHER_QUESTIONS if name not in ("next", "failed")]


def test_further_questions_hold_up_neither_the_first_screen_nor_the_models(log: ReviewLog) -> None:
    further = set(FURTHER_QUESTIONS)
    assert not further & set(FIRST_SCREEN_QUESTIONS)
    assert not further & set(default_questions(log))
    assert further <= NON_BLOCKING_QUESTIONS
    asked = list(itertools.chain.from_iterable(TASKS_WITH_PRESETS))
    assert all(asked.count(name) == 1 for name in further)
    assert all(QUESTION_REGISTRY[name].line_title for name in further)


def test_questions_of_the_first_screen_are_asked_before_all_others() -> None:
    is_later = [not set(task) & set(FIRST_SCREEN_QUESTIONS) for task in TASKS_WITH_PRESETS]
    assert is_later == sorted(is_later)


@pytest.mark.parametrize("question", ABOUT_FSRS_6)
def test_questions_about_fsrs_6_say_so_to_users_of_fsrs_7(
    question: str, log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Learner, "runs_fsrs7", lambda *_: True)
    (finding,) = srs_eval.compare(log, questions=[question])
    assert finding.conclusion == "FSRS-7"
    assert shown.line([finding]) == shown.sentences(finding)[0]
    assert "FSRS-7" in shown.line([finding])
