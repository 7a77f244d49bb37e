"""Acts come in the order of what they bring, each with its own probability and gain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from srs_eval.advice.acts import MAX_ACTS, Act, ActKind, find_acts
from srs_eval.advice.findings import (
    Belief,
    Check,
    Finding,
    Fit,
    PresetParameters,
    RecallGroup,
    Recommendation,
    Retention,
    RetentionCause,
    RetentionPart,
    Rival,
    get_evidence,
)
from srs_eval.advice.shown import sentences
from srs_eval.advice.shown.acts import describe_act, describe_gain, render_acts
from srs_eval.advice.workload.estimate import Workload
from srs_eval.advice.workload.limits import DailyLimit, LimitEffects
from srs_eval.advice.workload.ranges import MINUTES, RECALLED, EqualMemory, RangedFigure
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval
from tests.tui.app_world import make_answers, make_costs

BACKLOG = Check("overdue", "look", 400, 500, 3_000.0)
MANY_LAPSES = Check("again", "look", 310, 1_000, problem="too many")
FREE = LimitEffects((0.0,) * 4, (7,) * 4)
WAITING = LimitEffects((0.9,) * 4, (7,) * 4)  # cards wait on nine days of ten


def find_kinds(answers: Sequence[Finding], checks: Sequence[Check] = ()) -> list[ActKind]:
    return [act.kind for act in find_acts(answers, checks)]


def make_settings() -> list[Finding]:
    """Return the made-up answers on the scheduler and on parameters only."""
    return [finding for finding in make_answers() if finding.question in ("fit", "parameters")]


def turn_fsrs_off(answers: Sequence[Finding], belief: Belief | None = None) -> list[Finding]:
    findings = []
    for finding in answers:
        if isinstance(finding.evidence, Fit):
            evidence = replace(finding.evidence, fsrs_is_off=True)
            finding = replace(
                finding,
                recommendation=Recommendation.TURN_FSRS_ON,
                probability=0.9,
                gain=0.02,
                belief=belief,
                evidence=evidence,
            )
        findings.append(finding)
    return findings


def make_late(points: float, half_width: float = 0.01, recalled: float = 0.8) -> Finding:
    """Return recall below the 90 % that are asked for, of which late reviews cost `points`."""
    gap = Interval(-points, half_width, 1_000, 60)
    none = Interval(0.0, 0.02, 1_000, 60)
    group = RecallGroup("all", Interval(recalled, 0.02, 1_000, 60), 0.9)
    evidence = Retention(
        "below",
        (group,),
        0.9,
        False,
        expectation_gap=none,
        schedule_gap=none,
        timing_gap=gap,
        parts=(RetentionPart(RetentionCause.LATE, gap),),
    )
    return Finding("retention", "Words", reviews=1_000, evidence=evidence)


def make_workload(minutes_now: float, *, fsrs_is_off: bool = True, spread: float = 0.0) -> Finding:
    """Return costs where today's schedule has 85 % remembered in `minutes_now`; FSRS takes 1.7."""
    costs = make_costs("Default")
    now = (35.0, minutes_now, 900.0, 0.85, 0.0)
    slow = (35.0, minutes_now * (1 + spread), 900.0, 0.85, 0.0)
    quick = (35.0, minutes_now * (1 - spread), 900.0, 0.85, 0.0)
    costs = replace(
        costs,
        current_figures=now,
        current_draws=(quick, slow),
        schedule="SM-2" if fsrs_is_off else costs.schedule,
    )
    return costs.glance_finding


def test_the_act_that_brings_most_comes_first() -> None:
    answers = [*make_settings(), make_late(0.09)]
    acts = find_acts(answers, [BACKLOG, MANY_LAPSES])
    assert [act.kind for act in acts] == [
        ActKind.CLEAR_BACKLOG,
        ActKind.FORGET_LESS,
        ActKind.OPTIMIZE,
    ]
    assert [act.worth for act in acts] == [0.8, 0.31, 0.0]
    assert find_kinds(answers) == [ActKind.REVIEW_ON_TIME, ActKind.OPTIMIZE]
    small = replace(BACKLOG, count=40)
    assert find_kinds(answers, [small, MANY_LAPSES])[:2] == [
        ActKind.FORGET_LESS,
        ActKind.REVIEW_ON_TIME,
    ]


def test_at_most_three_acts_of_which_one_is_about_settings() -> None:
    answers = turn_fsrs_off([*make_settings(), make_late(0.09)])
    acts = find_acts(answers, [BACKLOG, MANY_LAPSES])
    assert len(acts) == MAX_ACTS
    assert acts[-1].kind == ActKind.TURN_FSRS_ON
    assert find_kinds(answers, [BACKLOG])[-1] == ActKind.TURN_FSRS_ON


def test_backlog_has_hours_and_days_at_todays_pace() -> None:
    (act,) = find_acts([], [BACKLOG])
    assert act.backlog is not None
    assert act.backlog.days is None
    assert describe_gain(act) == "50 hours of work"
    costs = make_workload(7.0)
    assert isinstance(costs.evidence, Workload)
    first = find_acts([costs], [BACKLOG])[0]
    assert first.backlog is not None
    assert first.backlog.days == 857  # 3,000 minutes at 3.5 a day
    assert describe_gain(first) == "50 hours of work, or 857 days at your usual pace"
    assert describe_act(first) == "Clear the backlog first."
    long_ago = replace(BACKLOG, last_review_date="2016-03-29")
    assert describe_gain(find_acts([costs], [long_ago])[0]) == (
        "50 hours of work as of your last review"
    )
    assert not find_acts([costs], [replace(BACKLOG, level="fine")])


def test_late_reviews_are_an_act_only_if_they_surely_cost_recall() -> None:
    (act,) = find_acts([make_late(0.09)], ())
    assert act.recall_gain == pytest.approx(0.09)
    assert (act.probability or 0.0) > 0.99
    assert describe_gain(act) == "9 % more remembered"
    assert not find_acts([make_late(0.09, half_width=0.1)], ())
    assert not find_acts([make_late(0.009, half_width=0.001)], ())
    enough = make_late(0.09, recalled=0.9)  # no shortfall, although reviews were late
    assert not find_acts([enough], ())


def test_limit_is_an_act_if_it_keeps_recall_below_what_is_asked_for() -> None:
    costs = make_workload(7.0, fsrs_is_off=False)
    assert isinstance(costs.evidence, Workload)
    figures = tuple((*row[:3], 0.76, 0.0) for row in costs.evidence.estimates)
    limited = replace(
        costs.evidence,
        estimates=figures,
        draws=(figures, figures),
        review_limits=(DailyLimit("Default", 10),),
        limit_effects=(WAITING,) * len(figures),
    )
    acts = find_acts([replace(costs, evidence=limited)], ())
    assert [act.kind for act in acts] == [ActKind.RAISE_REVIEW_LIMIT]
    assert describe_act(acts[0]) == "Raise your limit of 10 reviews a day."
    assert describe_gain(acts[0]) == "76 % remembered, 90 % asked for"
    only_highest = (*(FREE,) * (len(figures) - 1), WAITING)  # above what is asked for
    later = replace(limited, limit_effects=only_highest)
    assert not find_acts([replace(costs, evidence=later)], ())
    harmless = replace(  # 90 are remembered all the same
        costs.evidence,
        review_limits=limited.review_limits,
        limit_effects=limited.limit_effects,
    )
    assert not find_acts([replace(costs, evidence=harmless)], ())
    one_point = tuple((*row[:3], 0.89, 0.0) for row in figures)
    small = replace(limited, estimates=one_point, draws=(one_point, one_point))
    assert not find_acts([replace(costs, evidence=small)], ())
    of_one = replace(acts[0], preset_count=2, subjects=("Words",))
    assert describe_act(of_one) == "Raise the limit of 10 reviews a day of “Words”."
    both = replace(limited, review_limits=(DailyLimit("Words", 10), DailyLimit("Maps", 30)))
    (act,) = find_acts([replace(costs, evidence=both)], ())
    sentence = describe_act(replace(act, preset_count=2))
    assert sentence == "Raise the daily review limits of “Words” and “Maps”."


def test_turning_fsrs_on_and_optimizing_are_two_acts_with_their_own_badges() -> None:
    acts = find_acts(turn_fsrs_off(make_settings()), ())
    assert [(act.kind, act.probability) for act in acts] == [
        (ActKind.TURN_FSRS_ON, 0.9),
        (ActKind.OPTIMIZE, 0.97),
    ]
    lines = [line for line in render_acts(acts) if line.symbol]
    assert [line.text for line in lines] == ["Turn FSRS on.", "Then press Optimize for “Default”."]
    assert [line.right_text.split()[0] for line in lines] == ["likely", "sure"]


@pytest.mark.parametrize(
    ("minutes_now", "spread", "gain"),
    [
        (7.0, 0.0, "5.3 minutes a day less for the same memory"),
        (1.7, 0.0, "better predictions, about the same minutes at 85 % retention"),
        (0.5, 0.0, "better predictions, but 1.2 minutes a day more"),
        (7.0, 0.95, "better predictions, about the same minutes at 85 % retention"),
    ],
)
def test_minutes_are_a_gain_only_if_they_surely_differ(
    minutes_now: float, spread: float, gain: str
) -> None:
    answers = [*turn_fsrs_off(make_settings()), make_workload(minutes_now, spread=spread)]
    act = find_acts(answers, ())[0]
    assert act.kind == ActKind.TURN_FSRS_ON
    assert describe_gain(act) == gain
    assert (act.worth > 0) == ("less" in gain)
    details = [line.text.strip() for line in render_acts([act])]
    is_open = "about the same minutes" in gain
    advice = (
        "Set desired retention to 85 % to remember as much as with SM-2. FSRS takes about 1.7 "
        f"minutes a day for that, SM-2 {minutes_now}{': too close to call' if is_open else ''}."
    )
    if minutes_now == 1.7:
        advice = (
            "Set desired retention to 85 % to remember as much as with SM-2; it also takes as "
            "long: about 1.7 minutes a day."
        )
    assert advice in details


def test_change_that_hardly_matters_says_so() -> None:
    small = Belief(0.9, 0.0005, 0.0001, 0.0009)
    acts = find_acts(turn_fsrs_off(make_settings(), belief=small), ())
    assert describe_gain(acts[0]) == "it hardly matters"
    large = Belief(0.9, 0.02, 0.001, 0.04)
    acts = find_acts(turn_fsrs_off(make_settings(), belief=large), ())
    assert describe_gain(acts[0]) == "better predictions"


def test_nothing_to_change_is_green_and_gives_way_to_habits() -> None:
    keeping = [
        replace(finding, recommendation=Recommendation.KEEP, parameters=None)
        if isinstance(finding.evidence, PresetParameters)
        else finding
        for finding in make_settings()
    ]
    (line, *_) = render_acts(find_acts(keeping, ()))
    assert (line.text, line.level) == ("Change nothing.", "fine")
    texts = [line.text for line in render_acts(find_acts(keeping, [BACKLOG])) if line.symbol]
    assert texts == ["Clear the backlog first.", "Leave the settings as they are."]


def test_presets_share_an_act_if_they_are_equally_sure() -> None:
    fit, *presets = make_settings()
    sure, likely, also_sure = (
        replace(
            presets[0],
            subject=name,
            recommendation=Recommendation.POOLED,
            probability=probability,
            gain=gain,
            parameters=fsrs6.DEFAULT,
        )
        for name, probability, gain in (("A", 0.96, 0.01), ("B", 0.9, 0.1), ("C", 0.99, 0.05))
    )
    acts = find_acts([fit, sure, likely, also_sure], ())
    assert [(act.subjects, act.probability) for act in acts] == [(("B",), 0.9), (("C", "A"), 0.96)]
    assert acts[0].finding is likely
    assert describe_act(acts[1]) == "Paste new parameters into “C” and “A”."


def test_what_anki_lets_the_learner_mend_is_an_act() -> None:
    hard = Check("hard", "look", 300, 2_000, problem="like Again")
    ignored = Check("ignored cards", "look", 90, 100, subject="Maps", ignore_date="2030-01-01")
    acts = find_acts([], [hard, ignored, replace(hard, problem="few")])
    assert [act.kind for act in acts] == [ActKind.EMPTY_IGNORE_DATE, ActKind.PRESS_AGAIN]
    assert describe_act(acts[0]) == "Empty “Ignore cards reviewed before” in “Maps”."
    assert describe_gain(acts[0]) == "it leaves out every card"
    assert describe_act(acts[1]) == "Press Again for what you have forgotten."
    assert describe_gain(acts[1]) == "Hard is 15 % of your answers"
    (habit,) = find_acts([], [hard, ignored], has_active_cards=False)
    assert habit.kind == ActKind.PRESS_AGAIN


@pytest.mark.parametrize(("scale", "is_told"), [(1.5, True), (1.02, False)])
def test_new_parameters_tell_what_the_same_desire_costs(scale: float, is_told: bool) -> None:
    costs = make_costs()
    position = costs.at(costs.desired)
    now = list(costs.estimates[position])
    now[MINUTES] /= scale
    now[RECALLED] = 0.82
    costs = replace(costs, current_figures=tuple(now), current_draws=(tuple(now),) * 2)
    settings = [finding for finding in make_settings() if finding.subject != "Maps"]
    asked = Finding("costs", "all presets", evidence=costs)
    lines = [line.text.strip() for line in render_acts(find_acts([*settings, asked], ()))]
    told = [
        line
        for line in lines
        if line.startswith("If you kept asking for 90 %, you would spend about")
    ]
    assert len(told) == is_told
    if is_told:
        minutes = costs.estimates[position][MINUTES]
        assert f"about {minutes:.1f} minutes a day instead of {minutes / scale:.1f}, and" in told[0]
        assert told[0].endswith("remember 90 % instead of 82 %.")


def test_minutes_at_the_same_desire_need_new_parameters() -> None:
    costs = make_costs()
    half = tuple(figure / 2 for figure in costs.estimates[costs.at(costs.desired)])
    costs = replace(costs, current_figures=half, current_draws=(half, half))
    asked = Finding("costs", "all presets", evidence=costs)
    fit, changed, kept = make_settings()
    assert changed.parameters
    assert not kept.parameters

    def is_told(*presets: Finding) -> bool:
        acts = find_acts([fit, *presets, asked], ())
        return any(act.at_same_desire is not None for act in acts)

    assert is_told(changed)
    assert not is_told(replace(changed, recommendation=Recommendation.DEFAULTS))
    # The costs are those of the advice if the preset that keeps its parameters has them there, too.
    by_preset = ((changed.subject, 0.9), (kept.subject, 0.8))
    asked = replace(asked, evidence=replace(costs, presets=by_preset))
    assert not is_told(changed, kept)
    asked = replace(
        asked, evidence=replace(costs, presets=by_preset, unchanged_presets=(kept.subject,))
    )
    assert is_told(changed, kept)
    changed_too = replace(
        kept, recommendation=Recommendation.OPTIMIZE, probability=0.9, parameters=fsrs6.DEFAULT
    )
    assert not is_told(changed, changed_too)
    lines = [line.text for line in render_acts(find_acts([fit, changed, kept, asked], ()))]
    condition = "  If you kept asking for 90 % on average, you would spend"
    assert any(line.startswith(condition) for line in lines)


def test_presets_come_in_the_order_of_what_they_save_over_all_their_reviews() -> None:
    fit, *presets = make_settings()
    small, large = (
        replace(
            presets[0],
            subject=name,
            recommendation=Recommendation.OPTIMIZE,
            probability=probability,
            gain=gain,
            reviews=reviews,
            evidence=replace(get_evidence(presets[0], PresetParameters), held_out=()),
            parameters=fsrs6.DEFAULT,
        )
        for name, probability, gain, reviews in (
            ("small", 0.97, 0.03, 800),
            ("large", 0.9, 0.02, 2_000),
        )
    )
    acts = find_acts([fit, small, large], ())
    assert [act.subjects for act in acts] == [("large",), ("small",)]


def test_minutes_of_ranges_decide_what_is_sure() -> None:
    def make_act(*extra_minutes: float) -> Act:
        equal_memory = EqualMemory(0.9, 20.0, RangedFigure(*extra_minutes))
        return Act(ActKind.TURN_FSRS_ON, equal_memory=equal_memory)

    act = make_act(-2.0, -3.0, -1.0)
    assert act.saves_minutes
    assert not act.costs_minutes
    assert make_act(2.0, 1.0, 3.0).costs_minutes
    open_range = make_act(-2.0, -3.0, 1.0)
    assert not open_range.saves_minutes
    assert not open_range.costs_minutes


@pytest.mark.parametrize(("half_width", "is_settled"), [(0.02, True), (0.1, False)])
def test_fsrs_is_better_for_most_people_where_own_reviews_do_not_settle_it(
    half_width: float, is_settled: bool
) -> None:
    difference = Interval(-0.05, half_width, 3_000, 90)
    settings = [replace(finding, interval=difference) for finding in turn_fsrs_off(make_settings())]
    act = next(act for act in find_acts(settings, ()) if act.kind == ActKind.TURN_FSRS_ON)
    words = "better predictions" if is_settled else "better predictions for nearly everybody"
    assert describe_gain(act) == words


@pytest.mark.parametrize(("saved", "changes"), [(0.02, True), (-0.03, False)])
def test_other_scheduler_is_kept_if_fsrs_seems_worse_than_the_average(
    saved: float, changes: bool
) -> None:
    loss = Interval(0.3, 0.02, 3_000, 90)
    scheduler = Rival("SuperMemo SM-15", "brought along", loss, loss, "better", loss)
    settings = []
    for finding in make_settings():
        if isinstance(finding.evidence, Fit):
            evidence = replace(
                finding.evidence,
                conclusion="can't tell",
                saved=Interval(saved, 0.05, 3_000, 90),
                current_scheduler=scheduler,
            )
            finding = replace(finding, recommendation="", evidence=evidence)
        settings.append(finding)
    (act,) = find_acts(settings, ())
    assert act.kind == (ActKind.CHANGE_TO_FSRS if changes else ActKind.FIT_FSRS)
    (fit,) = [finding for finding in settings if isinstance(finding.evidence, Fit)]
    answer = "Change to FSRS? Yes" if changes else "Change to FSRS? Not yet"
    assert sentences(fit)[0].startswith(answer)


def test_fsrs_is_to_be_turned_on_first_if_the_file_does_not_say_whether_it_is() -> None:
    answers = []
    for finding in make_settings():
        if isinstance(finding.evidence, PresetParameters):
            finding = replace(finding, evidence=replace(finding.evidence, is_known=False))
        answers.append(finding)

    def tell(*findings: Finding) -> list[str]:
        return [line.text.strip() for line in render_acts(find_acts(findings, ()))]

    advice = [line for line in tell(*answers) if line.startswith("If FSRS is off, turn it on")]
    assert len(advice) == 1
    assert re.search(r"\d+ % better than SM-2", advice[0])
    assert not any("If FSRS is off" in line for line in tell(*make_settings()))
