"""The five panes of the first screen: one act, whole percentages, minutes, no jargon."""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from srs_eval.advice.findings import (
    RECENCY,
    Belief,
    Calibration,
    Check,
    Checks,
    ExcludedCards,
    Finding,
    Fit,
    MissingData,
    PresetParameters,
    RecallGroup,
    Recommendation,
    Retention,
    Rival,
    Sharing,
    get_evidence,
    make_unanswered,
)
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import PARAMETERS
from srs_eval.advice.sentences import (
    Bar,
    FirstScreen,
    PaneLine,
    PresetRow,
    explain_where_to_paste,
    format_gain_or_loss,
)
from srs_eval.advice.shown import document, line, sentences, tables
from srs_eval.advice.workload.estimate import TooFewForCosts
from srs_eval.report.panes import render_first_screen, render_pane
from srs_eval.stats.intervals import Interval, Verdict
from srs_eval.tui.widgets.panes import NOTE_LINES, compute_heights
from tests.helpers.advice import build_screen
from tests.tui.app_world import make_answers, make_costs

JARGON = re.compile(
    r"\b(rows|evaluated|log loss|fresh|pooled|defaults|in force|held.out|recency|[0-9.]+ %)\b"
)
NONE = Interval(0.0, 0.01)
CHINESE = "日本語の単語"


def render_text(screen: FirstScreen, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(render_first_screen(screen, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def change_answers(question: str, **changes: object) -> list[Finding]:
    """Return made-up answers, with those to one question changed."""
    return [
        replace(finding, **changes) if finding.question == question else finding
        for finding in make_answers()
    ]


def turn_fsrs_off(act: str = "turn on", answers: Sequence[Finding] = ()) -> list[Finding]:
    """Return the made-up answers for a user who schedules with SM-2."""
    findings = []
    for finding in answers or make_answers():
        if isinstance(finding.evidence, Fit):
            evidence = replace(finding.evidence, fsrs_is_off=True)
            finding = replace(finding, recommendation=act, probability=0.9, evidence=evidence)
        findings.append(finding)
    return findings


def make_checks() -> list[Check]:
    return [
        Check("overdue", "look", 4_339, 4_791, 1_910.0),
        Check("gap", "look", 300, last_review_date="2022-01-24"),
        Check("hard", "not yet", 4, 100, problem="few"),
    ]


WORLDS = {
    "two presets": make_answers(),
    "FSRS off": turn_fsrs_off(),
    "FSRS off, better so": turn_fsrs_off("SM-2"),
    "nothing to change": [
        finding
        for finding in make_answers()
        if finding.question != PARAMETERS or finding.recommendation == Recommendation.KEEP
    ],
    "no presets": [finding for finding in make_answers() if finding.question in ("fit", "time")],
    "nothing": [make_unanswered("fit", "too little data; no usable reviews")],
}


@pytest.mark.parametrize("world", WORLDS)
def test_first_screen_has_five_titles_and_no_jargon(world: str) -> None:
    text = render_text(build_screen(WORLDS[world], (), make_checks()))
    assert not JARGON.findall(text)
    assert all(title in text for title in ("1 What to do", "2 How", "3 What", "4 One", "5 Any"))


def without_habits(answers: Sequence[Finding]) -> list[Finding]:
    """Leave out the answers that acts about habits rest on."""
    return [finding for finding in answers if finding.question != "retention"]


@pytest.mark.parametrize("world", WORLDS)
def test_act_row_and_copied_parameters_are_one_finding(world: str) -> None:
    screen = build_screen(WORLDS[world])
    acts = " ".join(line.text for line in screen.panes[0].answers)
    rows = {
        item.cells[0]: item.cells[-1]
        for item in screen.panes[3].items
        if isinstance(item, PresetRow)
    }
    if screen.copyable is None:
        assert not re.search("Press|Paste", acts)
        assert set(rows.values()) <= {"keep"}
    else:
        assert screen.copyable.parameters is not None
        assert screen.copyable.recommendation != Recommendation.KEEP
        assert rows[screen.copyable.subject] == "optimize"
        assert "ress Optimize" in acts


def test_act_of_two_presets_is_the_larger_gain() -> None:
    screen = build_screen(without_habits(make_answers()))
    assert screen.panes[0].summary == PaneLine(
        "Press Optimize for “Default”.", "fine", "●", "sure ●●●●●  better predictions"
    )
    assert screen.copyable is make_answers()[1] or screen.copyable == make_answers()[1]
    unsure = change_answers(PARAMETERS, recommendation="optimize", probability=0.6, parameters=None)
    stated = build_screen(without_habits(unsure))
    assert stated.panes[0].summary.text == "Change nothing."
    assert stated.panes[0].summary.right_text == "not sure ●○○○○"
    assert stated.panes[0].summary.level == "fine"
    assert stated.copyable is None


def read_acts(answers: Sequence[Finding]) -> list[str]:
    return [line.text for line in build_screen(answers).panes[0].answers]


def test_acts_while_fsrs_is_off_turn_it_on_and_optimize() -> None:
    off = without_habits(turn_fsrs_off())
    assert read_acts(off) == ["Turn FSRS on.", "Then press Optimize for “Default”."]
    assert read_acts([finding for finding in off if finding.subject != "Maps"]) == [
        "Turn FSRS on.",
        "Then press Optimize.",
    ]
    assert read_acts(without_habits(turn_fsrs_off("SM-2"))) == ["Leave FSRS off."]


def test_open_questions_are_shown_as_dots() -> None:
    screen = build_screen((), Overview("anki", waiting=["fit"]).waiting)
    assert screen.panes[0].summary == PaneLine("…", "not yet")
    waiting = ("fit", PARAMETERS, "retention", "costs", "split", "wrong")
    assert {pane.summary.text for pane in build_screen((), waiting).panes} == {"…"}
    assert not build_screen((), waiting).footer


def test_few_reviews_show_no_minutes_but_what_is_missing() -> None:
    evidence = TooFewForCosts("There are few")
    few = Finding("costs", "all reviews", reviews=122, evidence=evidence)
    pane = build_screen([few, *make_answers()[:2]]).panes[2]
    usable = "(a day or more after the card's previous one)"
    assert pane.summary.text == f"You have 122 usable reviews {usable}; this needs 1,000."
    assert len(pane.items) == 1
    dated = replace(few, missing=MissingData(878, 5, f"{date.today().year + 1}-03-15"))
    assert build_screen([dated]).panes[2].summary.text == (
        f"122 of 1,000 usable reviews {usable}; come back around 15 March {date.today().year + 1}."
    )


def test_minutes_have_ranges_once_all_draws_are_done() -> None:
    def pane(done: int) -> str:
        costs = make_costs("Default", done=done)
        costs = replace(
            costs,
            current_figures=(35.0, 7.0, 900.0, 0.85, 0.0),
            current_draws=((35.0, 7.0, 900.0, 0.85, 0.0),) * done,
            schedule="SM-2",
        )
        answers = [costs.glance_finding if e.question == "costs" else e for e in make_answers()]
        return render_text(build_screen(answers))

    assert re.search(r"90 % +90 % +2\.5 +█", pane(0))
    assert re.search(r"90 % +90 % +2\.5 \(\d\.\d-\d\.\d\) +█", pane(2))
    assert re.search(r"95 % +95 % +5\.0 \(\d\.\d-\d\.\d\) +█+.?▒", pane(2))
    assert re.search(r"with SM-2 +85 % +7\.0 \(\d\.\d-\d\.\d\)", pane(2))
    assert re.search(r"last 90 days +3\.5 +│", pane(2))
    assert "To remember as much next year as with SM-2 (85 %), FSRS takes 1.7" in pane(2)


def test_reasons_for_less_recall_add_up_in_points() -> None:
    def make_group(name: str, recalled: float, expected: float) -> RecallGroup:
        return RecallGroup(name, Interval(recalled, 0.02, 1_000, 60), expected)

    groups = (
        make_group("all", 0.79, 0.81),
        make_group("young cards", 0.82, 0.83),
        make_group("2024-05", 0.8, 0.8),
        make_group("mature cards", 0.6, 0.7),
    )
    late = Retention(
        "below",
        groups,
        0.92,
        False,
        expectation_gap=Interval(-0.02, 0.01),
        timing_gap=Interval(-0.11, 0.01),
    )
    findings = [Finding("retention", "Words", reviews=1_000, evidence=late)]
    text = render_text(build_screen(findings))
    assert "Late reviews cost 11 points; FSRS's estimate was 2 points too high." in text
    assert re.search(r"all +79 % +92 % +81 % .*◀ look", text)
    assert re.search(r"young cards +82 % +92 % +83 % .*◀ look", text)
    assert re.search(r"mature cards +60 % +92 % +70 % .*◀ look", text)
    assert "May ’24 80" in text
    fine = Check("gap", "fine", 3)
    warning, _, unchecked = build_screen(findings, (), [fine]).panes[4].items
    assert unchecked == PaneLine(
        "Too few reviews to check how you answer: at least 100 after a button are needed",
        "not yet",
        "?",
        drop_order=2,
    )
    assert warning == PaneLine("You remember less than you ask for: see 2", "look", "!")
    as_asked = replace(late, conclusion="no matter", desired=0.79)
    first, _ = build_screen([replace(findings[0], evidence=as_asked)], (), [fine]).panes[4].items
    assert first.level == "fine"
    one_day = replace(groups[-1], recalled=Interval(0.6, math.nan, 40, 1))
    few = replace(late, groups=(*groups[:-1], one_day))
    text = render_text(build_screen([replace(findings[0], evidence=few)]))
    assert re.search(r"mature cards +60 % +92 % +70 % .*unclear", text)
    off = replace(late, conclusion="not asked for", desired=None)
    findings = [replace(findings[0], evidence=off)]
    assert "◀" not in render_text(build_screen(findings))
    check = Check("mature cards", "look", recalled=groups[-1].recalled, expected=0.7)
    text = render_text(build_screen(findings, (), [check]))
    assert re.search(r"mature cards .*◀ look", text)


def test_preset_below_its_desired_retention_is_named() -> None:
    """Check two presets where the other makes up for the shortfall."""

    def make_finding(name: str, conclusion: Any, recalled: float) -> Finding:
        group = RecallGroup("all", Interval(recalled, 0.01, 2_000, 60), 0.9)
        none = Interval(0.0, 0.01)
        evidence = Retention(conclusion, (group,), 0.91, False, none)
        return Finding("retention", name, reviews=2_000, evidence=evidence)

    findings = [make_finding("Words", "below", 0.86), make_finding("Maps", "above", 0.97)]
    text = render_text(build_screen(findings))
    assert "“Words” falls short: you remember 86 % and ask for 91 %." in text
    assert "points" not in text
    assert "◀" not in text


def test_lasting_spells_are_said_below_recall() -> None:
    group = RecallGroup("all", Interval(0.9, 0.01, 2_000, 60), 0.9)
    evidence = Retention("no matter", (group,), 0.9, False, Interval(0.0, 0.01))
    finding = Finding("retention", "Words", reviews=2_000, evidence=evidence)
    assert "less certain" not in render_text(build_screen([finding]))
    lasting = replace(finding, phi=0.94)
    text = " ".join(render_text(build_screen([lasting]), width=120).split())
    sentence = (
        "Your reviews go better or worse for weeks at a time, so this is less certain than usual."
    )
    assert sentence in text
    assert sentences(lasting)[-1] == sentence
    assert document(lasting)["phi"] == 0.94
    assert "phi" not in document(finding)
    assert "for days at a time, so" in sentences(replace(finding, phi=0.8))[-1]


def test_pane_of_checks_shows_five_and_the_worst_in_one_line() -> None:
    checks = [*make_checks(), *make_checks(), *make_checks()]
    pane = build_screen((), (), checks).panes[4]
    assert len(pane.items) == 5
    assert [line.plain for line in render_pane(pane, 60, 1)] == [
        "! 4,339 of 4,791 cards are overdue (32 hours of work)"
    ]
    fine = build_screen((), (), [Check("overdue", "fine", 3, 900, 5.0)]).panes[4]
    assert fine.summary.text == "Nothing that your reviews show."
    overview = Overview("anki", answers=[Finding("wrong", "", evidence=Checks("look", ()))])
    assert overview.first_screen.panes[4].summary.text == "…"


@pytest.mark.parametrize("width", [60, 78, 100])
def test_frames_align_with_wide_characters(width: int) -> None:
    names = {"Default": CHINESE * 6, "Maps": "東京"}
    answers = [replace(e, subject=names.get(e.subject, e.subject)) for e in make_answers()]
    lines = render_text(build_screen(answers), width).splitlines()
    framed = [line for line in lines if line.startswith("│")]
    assert {cell_len(line) for line in framed} == {width}
    assert any("東京" in line for line in framed)
    late, *_ = (line for line in framed if "Review cards when they are due." in line)
    assert ("3 % more remembered" in late) == (width >= 78)  # in one line if it fits
    assert any("sure ●●●●●  3 % more remembered" in line for line in framed)


@pytest.mark.parametrize("presets", [1, 5])
def test_single_preset_has_no_rows(presets: int) -> None:
    shared = Sharing("preset", presets, conclusion="one preset")
    pane = build_screen(change_answers("split", evidence=shared, recommendation="")).panes[3]
    assert (len(pane.items) > 1) == (presets > 1)
    expected = "You have one. Keep it."
    if presets > 1:
        expected = "Keep your 5 presets. You have too few reviews to compare them."
    assert pane.summary.text == expected


def test_single_preset_is_enough_for_its_decks_if_they_are_alike() -> None:
    presets = Sharing("preset", 1, conclusion="one preset")
    decks = Sharing("deck", 22)
    answers = [
        *change_answers("split", evidence=presets, recommendation=""),
        Finding(
            "split",
            "French",
            evidence=decks,
            recommendation=Recommendation.KEEP_SHARED,
            probability=0.96,
        ),
    ]
    lines = [item.text for item in build_screen(answers).panes[3].items if hasattr(item, "text")]
    assert lines == [
        "You have one. Keep it.",
        "One preset is enough for your 22 decks: you forget at much the same rate in them.",
    ]


def test_presets_without_usable_reviews_are_not_denied() -> None:
    shared = Sharing("preset", 1, conclusion="one preset", has_unused_presets=True)
    answers = change_answers("split", evidence=shared, recommendation="", subject="French")
    pane = build_screen(answers).panes[3]
    assert pane.summary.text == (
        "Only “French” has usable reviews, so there is nothing to compare yet."
    )


def test_heights_of_panes_fit_every_window() -> None:
    for width in (60, 80, 96, 140):
        for height in range(14, 60):
            is_wide, lines = compute_heights(width, height)
            used = lines[1] + lines[2] + lines[4] if is_wide else sum(lines.values())
            assert used + NOTE_LINES <= height, (width, height)
            assert min(lines.values()) >= 1
            assert not any(1 < count < 4 for count in lines.values())
    assert compute_heights(80, 22) == (False, {1: 4, 2: 6, 3: 7, 4: 1, 5: 1})
    assert compute_heights(100, 28)[0]


def test_screen_of_a_history_without_presets_knows_no_settings() -> None:
    unknown = []
    for finding in make_answers():
        if isinstance(finding.evidence, PresetParameters):
            finding = replace(
                finding, evidence=replace(finding.evidence, is_known=False), subject="all reviews"
            )
        unknown.append(finding)
    stated = build_screen(unknown[:2], rows="benchmark").panes
    assert stated[0].summary.text == "If FSRS is on in Anki, press Optimize."
    assert read_acts(turn_fsrs_off(answers=unknown[:2]))[0] == "Turn FSRS on."
    assert "Only an Anki collection" in stated[2].summary.text
    suspended = ExcludedCards("suspended", 1_006, 1_006)
    gone = build_screen(unknown[:2], rows="benchmark", excluded_cards=suspended).panes
    assert [gone[2].summary.text, gone[3].summary.text] == [
        "No card is in use, so no reviews will come.",
        "No card is in use, so there is nothing to compare.",
    ]
    assert gone[0].summary == PaneLine("Nothing to change in Anki.", "not yet", "●")
    text = render_text(FirstScreen(gone[:1], ()), width=120)
    assert "All your 1,006 cards are suspended. These answers are about your past reviews." in text


def test_screen_of_deleted_cards_with_few_reviews_gives_no_advice() -> None:
    unanswered = [make_unanswered("fit", "too little data; no usable reviews")]
    deleted = ExcludedCards("deleted", 0, 274)
    text = render_text(build_screen(unanswered, rows="benchmark", excluded_cards=deleted))
    assert "Too few reviews to advise you." in text
    assert "Most of your reviews were of cards that you have deleted." in text
    assert "These answers are about your past reviews" not in text


@pytest.mark.parametrize(
    ("desired", "sentence"),
    [
        ((), ""),
        ((0.8,), "You ask for 80 %."),
        ((0.9,), "You ask for 90 %: more than you remember."),
        ((0.85, 0.92), "Your presets ask for 85 to 92 %."),
    ],
)
def test_second_pane_says_what_was_asked_for_cards_out_of_use(
    desired: tuple[float, ...], sentence: str
) -> None:
    months = [finding for finding in make_answers() if finding.question == "time"]
    excluded = ExcludedCards("suspended", 1_006, 1_006, desired)
    pane = build_screen(months, rows="benchmark", excluded_cards=excluded).panes[1]
    texts = [item.text for item in pane.items if isinstance(item, PaneLine)]
    assert ("ask for" in " ".join(texts)) == bool(sentence)
    assert not sentence or texts[-1] == sentence


def test_second_pane_names_an_average_where_presets_ask_for_different_retentions() -> None:
    answers = change_answers("retention")
    (finding,) = (answer for answer in answers if answer.question == "retention")
    evidence = get_evidence(finding, Retention)
    other = replace(finding, subject="Maps", evidence=replace(evidence, desired=0.8))
    alike = build_screen([finding]).panes[1].summary.text
    mixed = build_screen([finding, other]).panes[1].summary.text
    assert "ask for 90 %." in alike
    assert "ask for 85 % on average." in mixed


def test_second_pane_warns_of_hard_while_fsrs_is_off() -> None:
    (finding,) = (answer for answer in make_answers() if answer.question == "retention")
    evidence = replace(
        get_evidence(finding, Retention),
        conclusion="not asked for",
        desired=None,
        fsrs_is_off=True,
        hard_share=0.2,
    )
    off = replace(finding, evidence=evidence)
    text = render_text(build_screen([off]))
    assert "Hard counts as remembered (20 % of answers): if you press it for cards" in text
    fine = [Check("hard", "fine", 200, 1_000, recalled=Interval(0.9, 0.01), expected=0.9)]
    assert "Hard counts" not in render_text(build_screen([off], checks=fine))
    seldom = replace(off, evidence=replace(evidence, hard_share=0.05))
    assert "Hard counts" not in render_text(build_screen([seldom]))


@pytest.mark.parametrize(
    ("verdict", "act"),
    [
        ("better", "Change from SuperMemo SM-15 to FSRS."),
        ("worse", "Stay with SuperMemo SM-15."),
        ("can't tell yet", "Stay with SuperMemo SM-15 for now."),
    ],
)
def test_supermemo_user_reads_no_word_of_ankis_presets(verdict: Any, act: str) -> None:
    loss = Interval(0.1, 0.01)
    current = Rival("SuperMemo SM-15", "brought along", loss, loss, verdict, NONE)
    findings = []
    for finding in make_answers()[:2]:
        if isinstance(finding.evidence, PresetParameters):
            evidence = replace(finding.evidence, is_known=False)
            finding = replace(finding, subject="all reviews", evidence=evidence)
        elif isinstance(finding.evidence, Fit):
            finding = replace(
                finding,
                recommendation="",
                evidence=replace(finding.evidence, current_scheduler=current),
            )
        findings.append(finding)
    screen = build_screen(findings, rows="benchmark")
    assert screen.panes[0].summary.text == act
    text = render_text(FirstScreen(screen.panes[:2], ()))
    assert "preset" not in text
    assert ("Anki" in text) == (verdict != "worse")  # where FSRS is
    assert (screen.copyable is None) == (verdict == "worse")
    assert screen.copyable is None or "preset" not in explain_where_to_paste(screen.copyable)


def test_footer_names_only_what_more_reviews_can_tell() -> None:
    def below(missing: MissingData | None) -> str:
        evidence = Calibration(
            "can't tell", None, RecallGroup("all", Interval(0.9, 0.1), 0.9), (), False
        )
        few_finding = Finding("says", "all presets", missing=missing, evidence=evidence)
        return " ".join(line.text for line in build_screen([few_finding]).footer)

    assert below(MissingData(reviews=90)).endswith("whether FSRS's predictions come true")
    assert below(MissingData()) == below(None) == ""
    assert below(MissingData(reviews=60_000, out_of_reach=True)) == ""


def test_act_below_1000_reviews_claims_no_likelihood() -> None:
    def act(reviews: int) -> list[str]:
        findings = []
        for finding in change_answers(
            PARAMETERS, recommendation=Recommendation.KEEP, probability=0.8, parameters=None
        ):
            if isinstance(finding.evidence, PresetParameters):
                held_out = finding.evidence.held_out[0]
                assert held_out.log_loss is not None
                few = replace(held_out, log_loss=replace(held_out.log_loss, reviews=reviews))
                none = tuple(replace(e, difference=None) for e in finding.evidence.candidates)
                finding = replace(
                    finding, evidence=replace(finding.evidence, candidates=none, held_out=(few,))
                )
            findings.append(finding)
        pane = build_screen(without_habits(findings)).panes[0]
        assert ("likely" in pane.summary.right_text + line(findings[1:2])) == (reviews >= 1_000)
        return [item.text for item in pane.items if isinstance(item, PaneLine)]

    assert "too few reviews to judge" in act(999)[1]
    assert act(1_000)[0] == "Change nothing."


def test_recall_of_eleven_reviews_is_too_few_to_go_by() -> None:
    (finding,) = (finding for finding in make_answers() if isinstance(finding.evidence, Retention))
    assert isinstance(finding.evidence, Retention)
    (group,) = finding.evidence.groups
    few = replace(group, recalled=replace(group.recalled, reviews=11))
    few_finding = replace(finding, evidence=replace(finding.evidence, groups=(few,)))
    text = build_screen([few_finding]).panes[1].summary.text
    assert text == "Only 11 reviews came a day or more after the card's previous one: too few."


@pytest.mark.parametrize("desired", [None, 0.9])
def test_rows_of_few_reviews_are_marked_as_unsure(desired: float | None) -> None:
    (finding,) = (finding for finding in make_answers() if isinstance(finding.evidence, Retention))
    assert isinstance(finding.evidence, Retention)

    def notes(of_all: int, of_old: int) -> list[str]:
        groups = (
            RecallGroup("all", Interval(0.80, 0.02, of_all, 60), 0.9),
            RecallGroup("mature cards", Interval(0.97, 0.02, of_old, 60), 0.87),
        )
        evidence = replace(finding.evidence, groups=groups, desired=desired)
        items = build_screen([replace(finding, evidence=evidence)]).panes[1].items
        return [item.note for item in items if isinstance(item, Bar)]

    assert notes(200, 32) == ["unclear", "unclear"]
    assert notes(2_000, 32) == ["" if desired is None else "◀ look", "unclear"]
    assert notes(2_000, 900)[1] == ""


def make_doubtful_preset(
    belief: Belief, *, recommendation: str = "optimize", hardly_matters: bool = False
) -> Finding:
    """Return a preset's finding whose best change, to optimize, is not sure to help."""
    finding = next(
        finding for finding in make_answers() if isinstance(finding.evidence, PresetParameters)
    )
    assert isinstance(finding.evidence, PresetParameters)
    candidates = tuple(
        replace(candidate, belief=belief) if candidate.name == RECENCY else candidate
        for candidate in finding.evidence.candidates
    )
    return replace(
        finding,
        recommendation=recommendation,
        probability=0.7,
        parameters=None,
        belief=belief,
        hardly_matters=hardly_matters,
        evidence=replace(finding.evidence, candidates=candidates),
    )


@pytest.mark.parametrize("recommendation", ["keep", "optimize"])
def test_doubtful_act_says_how_likely_it_helps_and_how_much(recommendation: str) -> None:
    belief = Belief(0.578, 0.003, low=-0.0024, high=0.0091)
    finding = make_doubtful_preset(belief, recommendation=recommendation)
    pane = build_screen([finding]).panes[0]
    assert pane.summary.text == "Change nothing."
    text = render_text(FirstScreen((pane,), ()), width=120)
    assert "the chance that it helps at all is 57 %." in text
    first, *_ = sentences(finding)
    assert (
        "optimizing could lower log loss by up to 0.009 or raise it by up to 0.002 (not sure"
        in first
    )
    assert "mistake" not in first


@pytest.mark.parametrize("recommendation", [Recommendation.POOLED, Recommendation.ONE_LINE])
def test_doubtful_parameters_are_not_to_be_pasted_from_below(recommendation: str) -> None:
    belief = Belief(0.578, 0.003, low=-0.0024, high=0.0091)
    first, *_ = sentences(make_doubtful_preset(belief, recommendation=recommendation))
    assert first.startswith("Leave the parameters as they are: ")
    assert "below" not in first


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (-0.002, 0.009, "lower log loss by up to 0.009 or raise it by up to 0.002"),
        (0.001, 0.009, "lower log loss by 0.001 to 0.009"),
        (-0.009, -0.001, "raise log loss by 0.001 to 0.009"),
    ],
)
def test_gain_or_loss_names_only_what_is_possible(low: float, high: float, outcome: str) -> None:
    assert format_gain_or_loss(Belief(0.5, 0.0, low, high)) == outcome


@pytest.mark.parametrize("recommendation", ["keep", "optimize"])
def test_change_that_hardly_matters_is_called_so(recommendation: str) -> None:
    belief = Belief(0.6, 0.0003, low=-0.0011, high=0.0017)
    assert belief.lies_within(0.002)
    assert not belief.lies_within(0.0015)
    finding = make_doubtful_preset(belief, recommendation=recommendation, hardly_matters=True)
    pane = build_screen([finding]).panes[0]
    assert (pane.summary.text, pane.summary.right_text) == ("Change nothing.", "it hardly matters")
    text = render_text(FirstScreen((pane,), ()))
    assert "Optimizing would hardly change how well FSRS predicts your answers." in text
    assert "optimizing would hardly matter (" in sentences(finding)[0]
    assert line([finding]) == "it hardly matters"


@pytest.mark.parametrize(
    ("is_off", "expected"),
    [
        (False, "●●○○○ not sure, 74 % chance that optimizing helps, too low to advise it"),
        (
            True,
            "once FSRS is on: not sure, 74 % chance that optimizing helps, too low to advise it",
        ),
    ],
)
def test_line_of_a_preset_to_leave_says_what_the_chance_is_of(is_off: bool, expected: str) -> None:
    belief = Belief(0.74, 0.005, low=-0.011, high=0.024)
    finding = make_doubtful_preset(belief, recommendation="optimize")
    finding = replace(finding, probability=0.74)
    assert not finding.parameters
    assert isinstance(finding.evidence, PresetParameters)
    finding = replace(finding, evidence=replace(finding.evidence, fsrs_is_off=is_off))
    assert line([finding]) == expected


def test_line_of_a_preset_while_fsrs_is_off_is_about_its_defaults() -> None:
    finding = next(
        finding for finding in make_answers() if isinstance(finding.evidence, PresetParameters)
    )
    assert isinstance(finding.evidence, PresetParameters)
    assert line([finding]).startswith("●")
    is_off = replace(finding, evidence=replace(finding.evidence, fsrs_is_off=True))
    is_off = replace(is_off, probability=0.6, recommendation="optimize")
    assert line([is_off]) == "once FSRS is on: best bet, 60 %"
    assert (
        "that this improves the predictions of your future reviews compared with FSRS's defaults"
        in sentences(is_off)[0]
    )


@pytest.mark.parametrize(
    ("last_month", "share", "is_explained"),
    [("2024-08", 0.35, True), ("2024-08", 0.8, False), ("2024-03", 0.35, False)],
)
def test_bad_month_after_a_break_is_explained(
    last_month: str, share: float, is_explained: bool
) -> None:
    overall = RecallGroup("all", Interval(0.85, 0.02, 900, 60), 0.85)
    usual = [
        RecallGroup(f"2024-0{number}", Interval(0.86, 0.02, 400, 20), 0.85) for number in (1, 2)
    ]
    last = RecallGroup(last_month, Interval(share, 0.02, 100, 20), 0.85)
    evidence = Retention("not asked for", (overall, *usual, last), None, True, NONE)
    text = " ".join(
        render_text(build_screen([Finding("retention", "", evidence=evidence)])).split()
    )
    assert ("August 2024 came after 5 months without reviews." in text) == is_explained


@pytest.mark.parametrize("share", [0.12, 0.05])
def test_hard_that_may_hide_forgetting_is_in_both_panes(share: float) -> None:
    group = RecallGroup("all", Interval(0.85, 0.02, 900, 60), 0.85)
    evidence = Retention("not asked for", (group,), None, True, NONE)
    finding = Finding("retention", "Words", evidence=evidence)
    hard = Check("hard", "not yet", round(1_000 * share), 1_000)
    fine = Check("leeches", "fine", 0, 900)
    panes = build_screen([finding], (), [hard, fine]).panes
    percent = f"{100 * share:.0f} %"
    lines = [item.text for item in panes[1].items if isinstance(item, PaneLine)]
    text = f"Hard counts as remembered ({percent} of answers)"
    assert any(line.startswith(text) for line in lines) == (share > 0.1)
    last_lines = [item.text for item in panes[4].items if isinstance(item, PaneLine)]
    assert f"Do you press Hard ({percent} of answers) for cards you forgot? Not clear yet" in (
        last_lines
    )


def test_months_of_this_year_are_named_without_the_year() -> None:
    month = RecallGroup(time.strftime("%Y-%m"), Interval(0.8, 0.02, 100, 20), 0.8)
    all_reviews = replace(month, name="all")
    evidence = Retention("no matter", (all_reviews, month), 0.8, False, NONE)
    text = render_text(build_screen([Finding("retention", "Words", evidence=evidence)]))
    assert re.search(rf"months {time.strftime('%b')} 80", text)


def test_rows_of_presets_keep_the_findings_order() -> None:
    answers = [finding for finding in make_answers() if finding.question != PARAMETERS]
    presets = [finding for finding in make_answers() if finding.question == PARAMETERS]
    for order in (presets, presets[::-1]):
        rows = build_screen([*order, *answers]).panes[3].items
        named = [item.cells[0] for item in rows if isinstance(item, PresetRow)]
        assert named == [
            finding.subject for finding in order if isinstance(finding.evidence, PresetParameters)
        ]


def test_defaults_are_not_in_force_with_all_cards_suspended() -> None:
    finding = next(
        finding for finding in make_answers() if isinstance(finding.evidence, PresetParameters)
    )
    assert isinstance(finding.evidence, PresetParameters)

    def first_row(gone: str) -> object:
        evidence = replace(finding.evidence, is_fitted=False, excluded_majority=gone)
        return tables(replace(finding, evidence=evidence))[0].rows[0][0]

    assert first_row("") == "FSRS's defaults (current)"
    assert first_row("suspended") != "FSRS's defaults"
    items = (
        build_screen(make_answers(), excluded_cards=ExcludedCards("deleted", 0, 1)).panes[0].items
    )
    lines = [item for item in items if isinstance(item, PaneLine)]
    note = next(item for item in lines if "cards that you have deleted" in item.text)
    assert note.drop_order == 0


@pytest.mark.parametrize(
    ("verdict", "text", "level"),
    [
        ("better", "Optimized FSRS predicts your answers 12 % better than SM-2", "fine"),
        ("as good", "Optimized FSRS predicts your answers as well as SM-2", "fine"),
        ("worse", "SM-2 would predict your answers better than FSRS", "look"),
        ("can't tell yet", "", ""),
    ],
)
@pytest.mark.parametrize("is_off", [False, True])
def test_fifth_pane_compares_fsrs_with_sm2_while_fsrs_is_on(
    verdict: Verdict, text: str, level: str, is_off: bool
) -> None:
    figure = Interval(0.12, 0.02, 3_000, 90)
    sm2 = Rival("SM-2 as scheduled", "older scheduler", figure, figure, verdict, figure)
    fit = Fit("well", "stored", figure, figure, (sm2,), is_off)
    finding = Finding("fit", "all reviews", reviews=3_000, evidence=fit)
    checks = [Check("leeches", "fine"), Check("easy", "fine", 0, 900, problem="seldom")]
    pane = build_screen([finding], checks=checks).panes[4]
    lines = [item for item in pane.items if isinstance(item, PaneLine)]
    beside_sm2 = [line for line in lines if "SM-2" in line.text]
    if is_off or not text:
        assert not beside_sm2
    else:
        (line,) = beside_sm2
        assert (line.text, line.level) == (text, level)
        assert (pane.summary.text == text) == (level == "look")  # in one line, where room is short
        assert lines[0] == line


@pytest.mark.parametrize(
    ("verdict", "saved", "text", "level"),
    [
        (
            "better",
            0.2,
            "Optimized FSRS predicts your answers 20 % better than SuperMemo SM-15",
            "fine",
        ),
        ("worse", -0.1, "SuperMemo SM-15 would predict your answers better than FSRS", "look"),
        (
            "can't tell yet",
            0.2,
            "Optimized FSRS predicts your answers 20 % better than SuperMemo SM-15, which may be "
            "luck",
            "not yet",
        ),
        (
            "can't tell yet",
            -0.1,
            "Optimized FSRS predicts your answers 10 % worse than SuperMemo SM-15, which may be "
            "luck",
            "not yet",
        ),
    ],
)
def test_fifth_pane_compares_fsrs_with_another_programs_scheduler(
    verdict: Verdict, saved: float, text: str, level: str
) -> None:
    figure = Interval(0.3, 0.02, 3_000, 90)
    share_saved = Interval(saved, 0.05, 3_000, 90)
    scheduler = Rival("SuperMemo SM-15", "brought along", figure, figure, verdict, share_saved)
    fit = Fit("well", "optimized", figure, figure, (scheduler,), False, scheduler)
    finding = Finding("fit", "all reviews", reviews=3_000, evidence=fit)
    pane = build_screen([finding], checks=[Check("leeches", "fine")]).panes[4]
    lines = [item for item in pane.items if isinstance(item, PaneLine)]
    (line,) = [line for line in lines if "SM-15" in line.text]
    assert (line.text, line.level) == (text, level)


def test_fifth_pane_compares_fsrs_with_sm2_where_no_card_is_in_use() -> None:
    figure = Interval(0.12, 0.02, 3_000, 90)
    sm2 = Rival("sm2", "older scheduler", figure, figure, "better", figure)
    fit = Fit("well", "stored", figure, figure, (sm2,), True, sm2, excluded_majority="suspended")
    finding = Finding("fit", "all reviews", reviews=3_000, evidence=fit)
    lines = build_screen([finding], checks=[Check("leeches", "fine")]).panes[4].items
    assert "Optimized FSRS predicts your answers 12 % better than SM-2" in [
        line.text for line in lines if isinstance(line, PaneLine)
    ]


@pytest.mark.parametrize(("days", "verdict"), [(14, "too few days"), (60, "can't tell yet")])
def test_verdict_that_only_lacks_days_says_so(days: int, verdict: str) -> None:
    loss = Interval(0.25, 0.01, 1_400, days)
    clear = Interval(-0.07, 0.01, 1_400, days)
    sm2 = Rival("sm2", "older scheduler", loss, clear, "can't tell yet", loss)
    fit = Fit("can't tell", "optimized", loss, loss, (sm2,), False)
    (table,) = tables(Finding("fit", "all reviews", reviews=1_400, evidence=fit))
    assert verdict in table.rows[1]


def test_pane_of_checks_names_what_has_too_few_reviews() -> None:
    checks = [
        Check("leeches", "fine"),
        Check("mature cards", "not yet", problem="few", recalled=Interval(0.9, 0.2, 30, 9)),
        Check("easy", "not yet", problem="few", recalled=Interval(0.9, 0.2, 30, 9)),
        Check("again", "not yet", problem="few"),  # relearned on the same day
        Check("hard", "not yet", problem="few", recalled=Interval(0.9, 0.2, 30, 9)),
    ]
    *_, last = build_screen([], (), checks).panes[4].items
    assert isinstance(last, PaneLine)
    assert last.text == "Too few reviews to check Hard, Easy and mature cards"
    assert last.level == "not yet"


def test_advice_on_suspended_cards_has_its_probability_and_evidence() -> None:
    answers = turn_fsrs_off()
    excluded = ExcludedCards("suspended", 10, 10)
    hard = Check("hard", "look", 20, 100, problem="like Again")
    pane = build_screen(answers, (), [hard], excluded_cards=excluded).panes[0]
    assert pane.questions[0] == "wrong"
    assert pane.questions[-1] == "fit"
    assert pane.check_names == ("hard",)
    reason = pane.items[-1]
    assert isinstance(reason, PaneLine)
    assert re.search(r"turn FSRS on and press Optimize \((sure|likely), \d+ %\)", reason.text)


def test_presets_without_options_are_named_if_others_have_some() -> None:
    group = RecallGroup("all", Interval(0.9, 0.02, 900, 60), 0.9)
    known = Retention("no matter", (group,), 0.9, False, NONE)
    unknown = replace(known, conclusion="not asked for", desired=None)
    note = "The file lacks the options of “preset 7”."

    def is_named(*retentions: Retention) -> bool:
        findings = [
            Finding("retention", name, evidence=retention)
            for name, retention in zip(("Words", "preset 7"), retentions, strict=True)
        ]
        items = build_screen([*make_answers(), *findings]).panes[3].items
        return any(isinstance(item, PaneLine) and item.text == note for item in items)

    assert is_named(known, unknown)
    assert not is_named(known, known)


def test_presets_that_can_be_one_say_why_their_advice_differs() -> None:
    note = "What to do still differs, because each is judged by its own reviews:"
    shared_note = (
        "The parameters for “A” and “B” are one set, fitted to your presets together. Every "
        "other preset is judged by its own reviews:"
    )
    of_preset = next(answer for answer in make_answers() if answer.question == PARAMETERS)

    def is_noted(*recommendations: Recommendation, note: str = note) -> bool:
        presets = [
            replace(
                of_preset,
                subject=name,
                recommendation=recommendation,
                parameters=None if recommendation == Recommendation.KEEP else (0.1,) * 21,
            )
            for name, recommendation in zip("ABC", recommendations, strict=False)
        ]
        shared = [
            replace(answer, recommendation=Recommendation.KEEP_SHARED)
            for answer in make_answers()
            if answer.question == "split"
        ]
        items = build_screen([*presets, *shared]).panes[3].items
        return any(isinstance(item, PaneLine) and item.text == note for item in items)

    assert is_noted(Recommendation.OPTIMIZE, Recommendation.KEEP)
    assert is_noted(Recommendation.ONE_LINE, Recommendation.KEEP)
    assert not is_noted(Recommendation.KEEP, Recommendation.KEEP)
    two_of_three = (Recommendation.ONE_LINE, Recommendation.ONE_LINE, Recommendation.TAUGHT)
    assert is_noted(*two_of_three, note=shared_note)
    assert not is_noted(*two_of_three)


def test_presets_that_all_stay_as_they_are_have_no_note_on_differing_advice() -> None:
    answers = turn_fsrs_off(Recommendation.STAY_WITH_SM2)
    shared = [
        replace(answer, recommendation=Recommendation.KEEP_SHARED)
        if answer.question == "split"
        else answer
        for answer in answers
    ]
    items = build_screen(shared).panes[3].items
    assert {item.cells[-1] for item in items if isinstance(item, PresetRow)} == {"keep"}
    texts = [item.text for item in items if isinstance(item, PaneLine)]
    assert not any("still differs" in text for text in texts)


@pytest.mark.parametrize("is_off", [False, True])
def test_rule_is_told_by_which_an_unlikely_change_is_advised_or_not(is_off: bool) -> None:
    finding = next(
        answer for answer in make_answers() if isinstance(answer.evidence, PresetParameters)
    )
    assert isinstance(finding.evidence, PresetParameters)
    unlikely = replace(
        finding,
        recommendation=Recommendation.OPTIMIZE,
        probability=0.66,
        parameters=(0.1,) * 21 if is_off else None,
        evidence=replace(finding.evidence, fsrs_is_off=is_off),
    )
    text = " ".join(sentences(unlikely))
    assert ("srs-eval names the better bet of the two" in text) == is_off
    assert ("only if the chance is at least 80 %" in text) != is_off
