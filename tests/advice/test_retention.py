"""Check the causes of a difference from the desired retention on learners whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    LAST_90_DAYS,
    Check,
    Finding,
    RecallGroup,
    Retention,
    RetentionCause,
    RetentionPart,
    find_retention_parts,
    get_evidence,
)
from srs_eval.advice.over_time import _split_reviews, assess_retention
from srs_eval.advice.questions import QuestionContext, ask
from srs_eval.advice.sentences import Bar, PaneLine
from srs_eval.advice.shown.memory import render_retention
from srs_eval.anki_import import load_log
from srs_eval.data.reviews import Preset, ReviewLog
from srs_eval.engine.result import find_persistence
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.fsrs6 import DEFAULT
from srs_eval.stats.intervals import Interval
from srs_eval.stats.persistence import PHIS, Persistence
from tools.simulated.character import Character, Habits, make_single_deck
from tools.simulated.files import write_collection
from tools.simulated.learner import simulate_learner
from tools.simulated.memory import Fsrs6

EASY_MEMORY = (*(4 * stability for stability in DEFAULT[:4]), *DEFAULT[4:])
"""First intervals are so long that the shortest interval of one day hardly matters."""


@cache
def make_log(
    asked: float = 0.9,
    skipped: float = 0.0,
    reviews: int = 3_000,
    memory: tuple[float, ...] = EASY_MEMORY,
) -> ReviewLog:
    """Return the log of a learner whose memory is exactly that of your current parameters.

    `skipped` is the share of days without reviews.
    """
    decks, presets, shares = make_single_deck(memory, asked, (60.0, 600.0), (600.0,))
    habits = Habits(
        first=np.array([0.2, 0.1, 0.5, 0.2]),
        hard=0.05,
        easy=0.05,
        forgets=True,
        skip=skipped,
        stop=0.0,
        seconds=6.0,
        hour=8.0,
        daily_limit=9_999,
        long_pause=0.0,
        new_per_day=12,
    )
    character = Character(
        memory=Fsrs6(np.array([memory]).T),
        habits=habits,
        scheduler="fsrs",
        decks=decks,
        presets=presets,
        shares=shares,
        spread=(0.0, 0.0),
    )
    return simulate_learner(5, reviews, incidents=False, character=character).log()


def test_lasting_spells_widen_the_intervals_and_are_in_the_finding() -> None:
    def ask_retention(phi: float) -> Finding:
        context = QuestionContext(make_log())
        probabilities = tuple((phi == PHIS).astype(float).tolist())
        vars(context.learner)["persistence"] = Persistence(probabilities)
        (finding,) = ask("retention", context)
        return finding

    usual = ask_retention(0.25)
    lasting = ask_retention(0.97)
    assert usual.phi is None
    assert lasting.phi == pytest.approx(0.97)
    retentions = [get_evidence(finding, Retention) for finding in (usual, lasting)]
    recalled, wider = (retention.groups[0].recalled for retention in retentions)
    assert wider.estimate == recalled.estimate
    assert wider.half_width > recalled.half_width
    gap, wider_gap = (retention.expectation_gap for retention in retentions)
    assert wider_gap.half_width > gap.half_width


def test_advice_and_ranking_find_the_same_persistence() -> None:
    log = make_log()
    (configuration,) = resolve_configurations("FSRS-6")
    ranked = find_persistence(LearnerSession(log).run(configuration))
    learner = QuestionContext(log).learner_without_presets
    assert learner.persistence.probabilities == pytest.approx(ranked.probabilities)


def assess(
    log: ReviewLog, change_preset: Callable[[Preset], Preset] = lambda preset: preset
) -> Retention:
    presets = {key: change_preset(preset) for key, preset in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    (finding,) = assess_retention(learner, list(learner.groups))
    return get_evidence(finding, Retention)


def list_causes(retention: Retention) -> list[RetentionCause]:
    return [part.cause for part in retention.parts]


def test_four_gaps_add_up_to_recalled_minus_desired() -> None:
    retention = assess(make_log(skipped=0.8))
    gaps = [
        retention.shortest_gap,
        retention.schedule_gap,
        retention.timing_gap,
        retention.expectation_gap,
    ]
    assert all(gap is not None for gap in gaps)
    difference = retention.groups[0].recalled.estimate - 0.9
    assert sum(gap.estimate for gap in gaps if gap) == pytest.approx(difference)


@pytest.mark.parametrize(
    ("gap", "summary"),
    [
        (0.013, "2.3 points less, 1.3 of them because no interval is shorter than one day"),
        (0.031, "2.3 points less because no interval is shorter than one day"),
    ],
)
def test_line_states_how_much_of_a_gap_has_a_cause(gap: float, summary: str) -> None:
    part = RetentionPart(RetentionCause.SHORTEST_INTERVAL, Interval(-gap, 0.002, 2_000, 60))
    group = RecallGroup("all", Interval(0.877, 0.01, 2_000, 60), 0.88)
    retention = Retention("below", (group,), 0.9, False, Interval(0.0, 0.01), parts=(part,))
    line = shown.line([Finding("retention", "Words", evidence=retention)])
    assert f"(desired 90 %: {summary})" in line


def test_punctual_learner_with_true_parameters_has_no_part_to_mend() -> None:
    retention = assess(make_log())
    assert retention.timing_gap is not None
    assert abs(retention.timing_gap.estimate) < 0.002
    assert not {RetentionCause.LATE, RetentionCause.EXPECTED_TOO_MUCH} & set(list_causes(retention))


def test_raised_desired_retention_is_no_lateness_and_no_wrong_expectation() -> None:
    retention = assess(make_log(asked=0.8), lambda preset: replace(preset, desired_retention=0.9))
    assert retention.conclusion == "below"
    assert list_causes(retention)[0] == RetentionCause.SCHEDULED_FOR_LESS
    assert not {RetentionCause.LATE, RetentionCause.EXPECTED_TOO_MUCH} & set(list_causes(retention))


def test_cards_that_fade_within_a_day_are_named() -> None:
    fading = (*(0.1 * stability for stability in DEFAULT[:4]), *DEFAULT[4:])
    retention = assess(make_log(memory=fading))
    assert retention.conclusion == "below"
    assert list_causes(retention)[0] == RetentionCause.SHORTEST_INTERVAL
    assert RetentionCause.SCHEDULED_FOR_LESS not in list_causes(retention)
    pane = render_retention({"Default": retention}, None, [])
    assert pane is not None
    lines = [item.text for item in pane.items if isinstance(item, PaneLine)]
    assert any("one day, is too long for many young cards" in line for line in lines)


def test_skipped_days_are_named_as_lateness() -> None:
    retention = assess(make_log(asked=0.95, skipped=0.8))
    assert RetentionCause.LATE in list_causes(retention)
    assert RetentionCause.EXPECTED_TOO_MUCH not in list_causes(retention)


def test_parameters_that_expect_too_much_are_named() -> None:
    bold = (*EASY_MEMORY[:8], EASY_MEMORY[8] + 1.5, *EASY_MEMORY[9:])
    retention = assess(
        make_log(reviews=6_000),
        lambda preset: replace(preset, desired_retention=0.95, fsrs_parameters={6: bold}),
    )
    assert retention.parts[0].cause == RetentionCause.EXPECTED_TOO_MUCH
    assert retention.parts[0].gap.high < 0


def test_lateness_is_unknown_if_the_log_has_no_scheduled_intervals() -> None:
    log = make_log(asked=0.95, skipped=0.8)
    assert log.entries is not None
    retention = assess(replace(log, entries=replace(log.entries, interval=None)))
    assert retention.timing_gap is None
    assert retention.schedule_gap is None
    assert RetentionCause.LATE not in list_causes(retention)


@pytest.mark.parametrize(
    ("estimate", "half_width", "is_named"),
    [(-0.03, 0.02, True), (-0.03, 0.04, False), (-0.009, 0.001, False), (0.03, 0.02, False)],
)
def test_a_part_is_named_from_a_point_on_and_beyond_its_error(
    estimate: float, half_width: float, is_named: bool
) -> None:
    retention = replace(
        assess(make_log()),
        schedule_gap=None,
        timing_gap=Interval(estimate, half_width, 1_000, 50),
        expectation_gap=Interval(0.0, 0.01, 1_000, 50),
    )
    causes = [part.cause for part in find_retention_parts([retention], "below")]
    assert causes == [RetentionCause.LATE] * is_named


def test_pane_does_not_alarm_who_only_raised_the_desired_retention() -> None:
    retention = assess(make_log(asked=0.8), lambda preset: replace(preset, desired_retention=0.9))
    pane = render_retention({"Default": retention}, None, [])
    assert pane is not None
    assert "look" not in {item.level for item in pane.items if hasattr(item, "level")}


def test_pane_names_lateness_with_its_points() -> None:
    retention = assess(make_log(asked=0.95, skipped=0.8))
    pane = render_retention({"Default": retention}, None, [])
    assert pane is not None
    texts = [item.text for item in pane.items if hasattr(item, "text")]
    assert any(text.startswith("Late reviews cost ") for text in texts)


def test_pane_begins_with_what_is_remembered_and_asked_for() -> None:
    retention = assess(make_log(skipped=0.8))
    pane = render_retention({"Default": retention}, None, [])
    assert pane is not None
    assert (
        pane.summary.text
        == "You remember 87 % (89 % in your most recent 90 days) and ask for 90 %."
    )


@pytest.mark.parametrize(
    ("share", "level", "is_fine"),
    [
        (0.09, "not yet", False),
        (0.09, "look", False),
        (0.09, "fine", True),
        (0.09, None, False),  # without the check of Hard
        (0.02, "not yet", True),
        (0.02, None, True),
    ],
)
def test_as_asked_is_withheld_while_hard_may_hide_lapses(
    share: float, level: Literal["look", "fine", "not yet"] | None, is_fine: bool
) -> None:
    recalled = Interval(0.91, 0.01, 2_000, 60)
    retention = Retention(
        "no matter",
        (RecallGroup("all", recalled, 0.9),),
        0.9,
        False,
        expectation_gap=Interval(0.01, 0.01, 2_000, 60),
        hard_share=share,
    )
    checks = [] if level is None else [Check("hard", level, round(1_000 * share), 1_000)]
    pane = render_retention({"Default": retention}, None, checks)
    assert pane is not None
    summary, items = pane.summary, pane.items
    assert (summary.level == "fine") == is_fine
    warnings = [item for item in items if hasattr(item, "text") and "Hard counts" in item.text]
    assert bool(warnings) != is_fine
    answer = Finding("retention", "Default", evidence=retention)
    assert ("unless you press Hard for cards you forgot" in shown.line([answer])) == (share > 0.03)


def test_schedule_does_not_excuse_a_larger_shortfall() -> None:
    recalled = Interval(0.84, 0.01, 2_000, 60)
    retention = Retention(
        "below",
        (RecallGroup("all", recalled, 0.86),),
        0.9,
        False,
        expectation_gap=Interval(-0.048, 0.06, 2_000, 60),
        schedule_gap=Interval(-0.012, 0.004, 2_000, 60),
        timing_gap=Interval(0.0, 0.001, 2_000, 60),
    )
    retention = replace(retention, parts=find_retention_parts([retention], "below"))
    assert list_causes(retention) == [RetentionCause.SCHEDULED_FOR_LESS]
    pane = render_retention({"Default": retention}, None, [])
    assert pane is not None
    marks = [item.level for item in pane.items if isinstance(item, Bar)]
    assert marks == ["look"]


@pytest.mark.parametrize("scheduler", ["fsrs", "sm2"])
def test_true_retention_is_that_of_anki(scheduler: Literal["fsrs", "sm2"], tmp_path: Path) -> None:
    anki = pytest.importorskip("anki.collection", reason="needs the anki wheel")
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 2_000, scheduler=scheduler), path)
    log = load_log(path)
    learner = Learner.of(log)
    findings = list(assess_retention(learner, list(learner.groups)))
    collection = anki.Collection(str(path))
    try:
        for group, finding in zip(learner.groups, findings, strict=True):
            decks = [deck.id for deck in log.decks.values() if deck.preset_id == group]
            search = " or ".join(f"did:{deck}" for deck in decks)
            graphs = collection._backend.graphs(search=search, days=0)
            counts = graphs.true_retention.all_time
            passed = counts.young_passed + counts.mature_passed
            reviews = passed + counts.young_failed + counts.mature_failed
            assert reviews > 300
            true_retention = get_evidence(finding, Retention).true_retention
            assert true_retention == pytest.approx(passed / reviews, abs=1e-12)
    finally:
        collection.close()


def test_recent_days_are_those_of_all_reviews_not_only_of_usable_ones() -> None:
    """Check that the 90 days end with the last answer, also to a card that is not evaluated."""
    log = make_log()
    assert log.entries is not None
    learner = Learner.of(log)
    (group,) = learner.groups

    def count_recent(days_later: int, rating_of_last: int = 3) -> int | None:
        """Count the recent reviews if the last answer came later; None: all of them are."""
        assert log.entries is not None
        time_ms = log.entries.time_ms.copy()
        time_ms[-1] += days_later * 86_400_000
        rating = log.entries.rating.copy()
        rating[-1] = rating_of_last
        entries = replace(log.entries, time_ms=time_ms, rating=rating)
        changed = replace(learner, log=replace(log, entries=entries))
        recent = _split_reviews(changed, learner.trials.partition == group).get(LAST_90_DAYS)
        return None if recent is None else int(recent.sum())

    assert count_recent(0) is None
    some = count_recent(60)
    assert some is not None
    assert 0 < some < len(learner.trials)
    assert count_recent(200) == 0
    assert count_recent(200, rating_of_last=0) is None  # a manual change is no answer


@pytest.mark.parametrize(("half_width", "is_sure"), [(0.04, True), (0.2, False), (math.nan, False)])
def test_recall_is_not_sure_if_its_interval_leaves_it_open(
    half_width: float, is_sure: bool
) -> None:
    group = RecallGroup("all", Interval(0.84, half_width, 1_500, 30), 0.81)
    retention = Retention("not asked for", (group,), None, True, Interval(0.0, 0.01))
    pane = render_retention({"Default": retention}, None, [])
    assert pane is not None
    (bar,) = [item for item in pane.items if isinstance(item, Bar)]
    assert (bar.note == "unclear") == (not is_sure)


def test_hard_that_hides_forgetting_is_said_beside_what_is_remembered() -> None:
    group = RecallGroup("all", Interval(0.91, 0.01, 1_500, 30), 0.93)
    retention = Retention("not asked for", (group,), None, True, Interval(0.0, 0.01))

    def is_warned(problem: Literal["", "like Again"]) -> bool:
        hard = Check("hard", "look", 300, 2_000, problem=problem)
        pane = render_retention({"Default": retention}, None, [hard])
        assert pane is not None
        texts = [item.text for item in pane.items if isinstance(item, PaneLine)]
        return (
            "You probably remember less: you seem to press Hard for cards you forgot (see 5)."
            in texts
        )

    assert is_warned("like Again")
    assert not is_warned("")
