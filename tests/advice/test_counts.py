"""One file has one count of usable reviews, or the difference is named in the same words."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice.answering import answer_or_explain
from srs_eval.advice.findings import Finding
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import FIRST_SCREEN_QUESTIONS, QuestionContext, tasks_for
from srs_eval.advice.workload.estimate import workload
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import ReviewLog
from tools.simulated import simulate_learner


@pytest.fixture(scope="module")
def small() -> ReviewLog:
    """Two presets, of which neither has enough reviews for costs."""
    return simulate_learner(3, 900).log()


def answers(log: ReviewLog) -> list[Finding]:
    """What the first screen rests on."""
    asked = QuestionContext(log)
    questions = [each for task in tasks_for(log) for each in task if each in FIRST_SCREEN_QUESTIONS]
    return [found for question in questions for found in answer_or_explain(question, asked)]


def first_screen(log: ReviewLog) -> str:
    return str(Overview.from_answers(log, answers(log)).first_screen)


def refusal(log: ReviewLog) -> str:
    with pytest.raises(NotEnoughData) as raised:
        next(workload(log))
    return str(raised.value)


def counts(text: str) -> set[str]:
    return set(re.findall(r"[\d,]+ (?:usable|held-out) reviews[^:;.)|]*", text))


def used_presets(log: ReviewLog) -> list[int]:
    return [each for each in np.unique(log.preset_of(log.cards.deck_id)).tolist() if each >= 0]


def test_first_screen_and_workload_have_one_count(small: ReviewLog) -> None:
    (count,) = counts(first_screen(small))
    assert refusal(small).startswith(f"There are {count}")


def test_while_fsrs_is_off_a_faulty_list_leaves_nothing_out(small: ReviewLog) -> None:
    first = used_presets(small)[0]
    faulty = replace(small.presets[first], fsrs_parameters={6: (0.5,) * 20})
    summary = replace(small.import_summary, fsrs_enabled=False)
    off = replace(small, import_summary=summary)
    with_fault = replace(off, presets={**small.presets, first: faulty})
    assert (
        counts(first_screen(with_fault)) == counts(first_screen(off)) == counts(first_screen(small))
    )
    assert refusal(with_fault) == refusal(off)


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_what_is_counted_of_suspended_cards_is_named_alike(small: ReviewLog, share: float) -> None:
    cards = small.cards
    places = np.arange(len(cards.card_id))
    suspended = replace(small, cards=replace(cards, suspended=places < share * len(places)))
    (count,) = counts(first_screen(suspended))
    assert count.endswith("held-out reviews, also of suspended and deleted cards")
    assert f"(the first screen counts {count})" in refusal(suspended)
