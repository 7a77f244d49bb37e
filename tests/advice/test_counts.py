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
from tests.helpers.advice import find_used_presets
from tools.simulated import simulate_learner


@pytest.fixture(scope="module")
def small() -> ReviewLog:
    """Return a log of two presets, neither with enough reviews for costs."""
    return simulate_learner(3, 900).log()


def find_answers(log: ReviewLog) -> list[Finding]:
    """Return the answers behind the first screen."""
    context = QuestionContext(log)
    findings: list[Finding] = []
    for task in tasks_for(log):
        for question in task:
            if question in FIRST_SCREEN_QUESTIONS:
                findings += answer_or_explain(question, context)
    return findings


def render_first_screen(log: ReviewLog) -> str:
    return str(Overview.from_answers(log, find_answers(log)).first_screen)


def refusal_message(log: ReviewLog) -> str:
    with pytest.raises(NotEnoughData) as raised:
        next(workload(log))
    return str(raised.value)


def find_counts(text: str) -> set[str]:
    return set(re.findall(r"[\d,]+ (?:usable|held-out) reviews[^:;.()|]*", text))


def test_first_screen_and_workload_have_one_count(small: ReviewLog) -> None:
    (count,) = (count.strip() for count in find_counts(render_first_screen(small)))
    assert refusal_message(small).startswith(f"there are only {count}")


def test_faulty_list_excludes_nothing_while_fsrs_is_off(small: ReviewLog) -> None:
    first = find_used_presets(small)[0]
    faulty = replace(small.presets[first], fsrs_parameters={6: (0.5,) * 20})
    summary = replace(small.import_summary, fsrs_enabled=False)
    off = replace(small, import_summary=summary)
    with_fault = replace(off, presets={**small.presets, first: faulty})
    assert (
        find_counts(render_first_screen(with_fault))
        == find_counts(render_first_screen(off))
        == find_counts(render_first_screen(small))
    )
    assert refusal_message(with_fault) == refusal_message(off)


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_count_with_suspended_cards_has_the_same_words(small: ReviewLog, share: float) -> None:
    cards = small.cards
    index = np.arange(len(cards.card_id))
    suspended = replace(small, cards=replace(cards, suspended=index < share * len(index)))
    (count,) = find_counts(render_first_screen(suspended))
    assert count.endswith("held-out reviews, including those of suspended and deleted cards")
    assert f"(the first screen counts {count})" in refusal_message(suspended)
