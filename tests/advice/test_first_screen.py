"""The five panes: one act, whole numbers of 100, minutes, no jargon, whatever there is to tell."""

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
    Calibration,
    Check,
    Checks,
    Finding,
    Fit,
    MissingData,
    PresetParameters,
    RecallGroup,
    Recommendation,
    Retention,
    Rival,
    Sharing,
    make_unanswered,
)
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import PARAMETERS
from srs_eval.advice.sentences import Bar, FirstScreen, PaneLine, PresetRow, explain_where_to_paste
from srs_eval.advice.shown import line, sentences, tables
from srs_eval.advice.shown.first_screen import build_first_screen
from srs_eval.advice.workload.estimate import TooFewForCosts
from srs_eval.report.panes import render_first_screen, render_pane
from srs_eval.stats.intervals import Interval
from srs_eval.tui.widgets.panes import NOTE_LINES, compute_heights
from tests.tui.app_world import make_answers, make_costs

JARGON = re.compile(
    r"\b(rows|evaluated|log loss|fresh|pooled|defaults|in force|held.out|recency|[0-9.]+ %)\b"
)
NONE = Interval(0.0, 0.01)
CHINESE = "日本語の単語"


def text_of(screen: FirstScreen, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(render_first_screen(screen, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def changed(question: str, **changes: object) -> list[Finding]:
    """Made-up answers, those on one question changed."""
    return [
        replace(each, **changes) if each.question == question else each for each in make_answers()
    ]


def off(act: str = "turn on", answers: Sequence[Finding] = ()) -> list[Finding]:
    """The same of who schedules with SM-2."""
    found = []
    for each in answers or make_answers():
        if isinstance(each.evidence, Fit):
            evidence = replace(each.evidence, fsrs_is_off=True)
            each = replace(each, recommendation=act, probability=0.9, evidence=evidence)
        found.append(each)
    return found


def wrong() -> list[Check]:
    return [
        Check("overdue", "look", 4_339, 4_791, 1_910.0),
        Check("gap", "look", 300, last_review_date="2022-01-24"),
        Check("hard", "not yet", 4, 100, problem="few"),
    ]


WORLDS = {
    "two presets": make_answers(),
    "FSRS off": off(),
    "FSRS off, better so": off("SM-2"),
    "nothing to change": [
        each
        for each in make_answers()
        if each.question != PARAMETERS or each.recommendation == Recommendation.KEEP
    ],
    "no presets": [each for each in make_answers() if each.question in ("fit", "time")],
    "nothing": [make_unanswered("fit", "too little data, no usable reviews")],
}


@pytest.mark.parametrize("world", WORLDS)
def test_no_jargon_and_no_shares_of_one(world: str) -> None:
    said = text_of(build_first_screen(WORLDS[world], (), wrong()))
    assert not JARGON.findall(said)
    assert all(title in said for title in ("1 What to do", "2 Do I", "3 What", "4 One", "5 Any"))


@pytest.mark.parametrize("world", WORLDS)
def test_what_to_do_its_row_and_what_is_copied_are_one_finding(world: str) -> None:
    screen = build_first_screen(WORLDS[world])
    act = screen.panes[0].summary.text
    rows = {
        each.cells[0]: each.cells[-1]
        for each in screen.panes[3].items
        if isinstance(each, PresetRow)
    }
    if screen.copyable is None:
        assert not re.search("Press|Copy", act)
        assert set(rows.values()) <= {"leave"}
    else:
        assert screen.copyable.parameters is not None
        assert screen.copyable.recommendation != Recommendation.KEEP
        assert rows[screen.copyable.subject] == "optimize"
        assert "ress Optimize" in act


def test_the_act_is_the_one_that_gains_most() -> None:
    screen = build_first_screen(make_answers())
    assert screen.panes[0].summary == PaneLine(
        "Press Optimize for “Default”.", "fine", "●", "sure ●●●●●"
    )
    assert screen.copyable is make_answers()[1] or screen.copyable == make_answers()[1]
    unsure = changed(PARAMETERS, recommendation="optimize", probability=0.6, parameters=None)
    stated = build_first_screen(unsure)
    assert stated.panes[0].summary.text == "Change nothing."
    assert stated.panes[0].summary.right_text == "could go either way ●○○○○"
    assert stated.copyable is None


def test_without_a_switch_nothing_is_pressed() -> None:
    stated = build_first_screen(off()).panes[0].summary.text
    assert stated == "Turn FSRS on and press Optimize for “Default”."
    one = [each for each in off() if each.subject != "Maps"]
    assert build_first_screen(one).panes[0].summary.text == "Turn FSRS on and press Optimize."
    assert build_first_screen(off("SM-2")).panes[0].summary.text == "Leave FSRS off."


def test_what_is_open_is_grey_dots() -> None:
    screen = build_first_screen((), Overview("anki", waiting=["fit"]).waiting)
    assert screen.panes[0].summary == PaneLine("…", "not yet")
    waiting = ("fit", PARAMETERS, "retention", "costs", "split", "wrong")
    assert {pane.summary.text for pane in build_first_screen((), waiting).panes} == {"…"}
    assert not build_first_screen((), waiting).footer


def test_a_few_reviews_cost_no_minutes() -> None:
    few = Finding(*("costs", "all reviews"), reviews=122, evidence=TooFewForCosts("There are few"))
    pane = build_first_screen([few, *make_answers()[:2]]).panes[2]
    assert pane.summary.text == "You have 122 usable reviews; this needs 1,000."
    assert len(pane.items) == 1
    dated = replace(few, missing=MissingData(878, 5, f"{date.today().year + 1}-03-15"))
    assert build_first_screen([dated]).panes[2].summary.text == (
        f"122 of 1,000 usable reviews; come back about 15 March {date.today().year + 1}."
    )


def test_minutes_have_ranges_once_they_are_known() -> None:
    def pane(done: int) -> str:
        costs = make_costs("Default", done=done)
        costs = replace(costs, current_figures=(35.0, 7.0, 900.0, 0.85, 0.0), schedule="SM-2")
        answers = [costs.glance_finding if e.question == "costs" else e for e in make_answers()]
        return text_of(build_first_screen(answers))

    assert re.search(r"90 +2\.5 +█", pane(0))
    assert re.search(r"90 +2\.5 \(2\.3-2\.7\) +█+.?▒", pane(2))
    assert re.search(r"with SM-2 +7\.0", pane(2))
    assert re.search(r"last 90 days +3\.5 +│", pane(2))
    assert "90 of 100: 2.5 minutes a day (with SM-2: 7.0)." in pane(2)


def test_why_less_is_remembered_adds_up() -> None:
    def part(name: str, recalled: float, expected: float) -> RecallGroup:
        return RecallGroup(name, Interval(recalled, 0.02, 1_000, 60), expected)

    parts = (part("all", 0.79, 0.81), part("young cards", 0.82, 0.83), part("2024-05", 0.8, 0.8))
    parts += (part("mature cards", 0.6, 0.7),)
    late = Retention("below", parts, 0.92, False, Interval(-0.11, 0.01), Interval(-0.02, 0.01))
    found = [Finding("retention", "Words", reviews=1_000, evidence=late)]
    said = text_of(build_first_screen(found))
    assert "Most cards came late (11 of the 13 points)." in said
    assert re.search(r"all +79 +92 +81 .*◀ look", said)
    assert re.search(r"young cards +82 +92 +83 .*◀ look", said)
    assert re.search(r"old cards +60 +92 +70 .*◀ look", said)
    assert "May ’24 80" in said
    one_day = replace(parts[-1], recalled=Interval(0.6, math.nan, 40, 1))
    few = replace(late, groups=(*parts[:-1], one_day))
    said = text_of(build_first_screen([replace(found[0], evidence=few)]))
    assert re.search(r"old cards +60 +92 +70 .*too few", said)
    off = replace(late, conclusion="not asked for", desired=None)
    found = [replace(found[0], evidence=off)]
    assert "◀" not in text_of(build_first_screen(found))
    check = Check("old cards", "look", recalled=parts[-1].recalled, expected=0.7)
    said = text_of(build_first_screen(found, (), [check]))
    assert re.search(r"old cards .*◀ look", said)


def test_of_two_presets_the_one_that_falls_short_is_named() -> None:
    """Where the other makes up for it, all together do not."""

    def of(name: str, says: Any, recalled: float) -> Finding:
        whole = RecallGroup("all", Interval(recalled, 0.01, 2_000, 60), 0.9)
        none = Interval(0.0, 0.01)
        evidence = Retention(says, (whole,), 0.91, False, none, none)
        return Finding("retention", name, reviews=2_000, evidence=evidence)

    said = text_of(build_first_screen([of("Words", "below", 0.86), of("Maps", "above", 0.97)]))
    assert "“Words” falls short: you remember 86, asked for 91." in said
    assert "points" not in said
    assert "◀" not in said


def test_at_most_five_things_are_wrong_and_the_worst_stays() -> None:
    checks = [*wrong(), *wrong(), *wrong()]
    pane = build_first_screen((), (), checks).panes[4]
    assert len(pane.items) == 5
    assert [line.plain for line in render_pane(pane, 60, 1)] == [
        "! 4,339 of 4,791 cards overdue: 32 hours"
    ]
    fine = build_first_screen((), (), [Check("overdue", "fine", 3, 900, 5.0)]).panes[4]
    assert fine.summary.text == "Nothing that your reviews show."
    overview = Overview("anki", answers=[Finding("wrong", "", evidence=Checks("look", ()))])
    assert overview.first_screen.panes[4].summary.text == "…"


@pytest.mark.parametrize("width", [60, 78, 100])
def test_wide_characters_take_two_columns(width: int) -> None:
    names = {"Default": CHINESE * 6, "Maps": "東京"}
    answers = [replace(e, subject=names.get(e.subject, e.subject)) for e in make_answers()]
    said = text_of(build_first_screen(answers), width).splitlines()
    framed = [line for line in said if line.startswith("│")]
    assert {cell_len(line) for line in framed} == {width}
    assert any("東京" in line for line in framed)
    assert width < 78 or "Deck options" in framed[1]  # the act takes one line


@pytest.mark.parametrize("presets", [1, 5])
def test_one_preset_needs_no_rows(presets: int) -> None:
    shared = Sharing("preset", presets, conclusion="one preset")
    pane = build_first_screen(changed("split", evidence=shared, recommendation="")).panes[3]
    assert (len(pane.items) > 1) == (presets > 1)
    assert pane.summary.text == (
        "You have one. Keep it."
        if presets == 1
        else "Keep your 5; too few reviews to compare them."
    )


def test_all_panes_have_room_in_every_window() -> None:
    for width in (60, 80, 96, 140):
        for height in range(14, 60):
            beside, lines = compute_heights(width, height)
            used = lines[1] + (
                lines[2] + lines[4] if beside else sum(lines[number] for number in range(2, 6))
            )
            assert used + NOTE_LINES <= height, (width, height)
            assert min(lines.values()) >= 1
            assert not any(1 < each < 4 for each in lines.values())
    assert compute_heights(80, 22) == (False, {1: 4, 2: 6, 3: 7, 4: 1, 5: 1})
    assert compute_heights(100, 28)[0]


def test_the_file_says_which_version_is_known() -> None:
    """Of a history without presets nobody knows whether FSRS is on."""
    unknown = []
    for each in make_answers():
        if isinstance(each.evidence, PresetParameters):
            each = replace(
                each, evidence=replace(each.evidence, is_known=False), subject="all reviews"
            )
        unknown.append(each)
    stated = build_first_screen(unknown[:2], rows="benchmark").panes
    assert stated[0].summary.text == "With FSRS on in Anki, press Optimize."
    assert (
        build_first_screen(off(answers=unknown[:2]))
        .panes[0]
        .summary.text.startswith("Turn FSRS on and p")
    )
    assert "Only an Anki collection" in stated[2].summary.text
    gone = build_first_screen(unknown[:2], rows="benchmark", excluded_note="All is lost.").panes
    assert [gone[2].summary.text, gone[3].summary.text] == ["Nothing is left to schedule."] * 2
    assert gone[0].summary == PaneLine("Nothing to do.", "look", "●")
    assert "All is lost. This is about how it was." in text_of(FirstScreen(gone[:1], ()))


@pytest.mark.parametrize(
    ("verdict", "act"),
    [
        ("better", "Change from SuperMemo SM-15 to FSRS, with numbers fitted to you."),
        ("worse", "Stay with SuperMemo SM-15."),
        ("can't tell yet", "If you use FSRS, give it numbers fitted to you."),
    ],
)
def test_another_programs_user_reads_no_word_of_ankis_presets(verdict: Any, act: str) -> None:
    now = Rival("SuperMemo SM-15", "brought along", *[Interval(0.1, 0.01)] * 2, verdict, NONE)
    found = []
    for each in make_answers()[:2]:
        if isinstance(each.evidence, PresetParameters):
            evidence = replace(each.evidence, is_known=False)
            each = replace(each, subject="all reviews", evidence=evidence)
        elif isinstance(each.evidence, Fit):
            each = replace(
                each, recommendation="", evidence=replace(each.evidence, current_scheduler=now)
            )
        found.append(each)
    screen = build_first_screen(found, rows="benchmark")
    assert screen.panes[0].summary.text == act
    assert not re.search("Anki|preset", text_of(FirstScreen(screen.panes[:2], ())))
    assert (screen.copyable is None) == (verdict == "worse")
    assert screen.copyable is None or "preset" not in explain_where_to_paste(screen.copyable)


def test_too_few_is_said_of_what_more_reviews_can_tell() -> None:
    def below(missing: MissingData | None) -> str:
        evidence = Calibration(
            "can't tell", None, RecallGroup("all", Interval(0.9, 0.1), 0.9), (), False
        )
        found = Finding("says", "all presets", missing=missing, evidence=evidence)
        return " ".join(line.text for line in build_first_screen([found]).footer)

    assert below(MissingData(reviews=90)).endswith("whether FSRS is right about you")
    assert below(MissingData()) == below(None) == ""


def test_with_too_few_reviews_nothing_is_called_as_good() -> None:
    def act(reviews: int) -> list[str]:
        found = []
        for each in changed(
            PARAMETERS, recommendation=Recommendation.KEEP, probability=0.8, parameters=None
        ):
            if isinstance(each.evidence, PresetParameters):
                held_out = each.evidence.held_out[0]
                assert held_out.log_loss is not None
                few = replace(held_out, log_loss=replace(held_out.log_loss, reviews=reviews))
                none = tuple(replace(e, difference=None) for e in each.evidence.candidates)
                each = replace(
                    each, evidence=replace(each.evidence, candidates=none, held_out=(few,))
                )
            found.append(each)
        pane = build_first_screen(found).panes[0]
        assert ("likely" in pane.summary.right_text + line(found[1:2])) == (reviews >= 1_000)
        return [each.text for each in pane.items if isinstance(each, PaneLine)]

    assert "Too few reviews to judge" in act(999)[1]
    assert act(1_000)[0] == "Change nothing."


def test_too_few_remembered_is_said_in_short() -> None:
    (finding,) = (each for each in make_answers() if isinstance(each.evidence, Retention))
    assert isinstance(finding.evidence, Retention)
    (part,) = finding.evidence.groups
    few = replace(part, recalled=replace(part.recalled, reviews=11))
    found = replace(finding, evidence=replace(finding.evidence, groups=(few,)))
    said = build_first_screen([found]).panes[1].summary.text
    assert said == "Only 11 usable reviews: too few to go by."


@pytest.mark.parametrize("desired", [None, 0.9])
def test_few_reviews_are_marked_in_every_row(desired: float | None) -> None:
    (finding,) = (each for each in make_answers() if isinstance(each.evidence, Retention))
    assert isinstance(finding.evidence, Retention)

    def notes(of_all: int, of_old: int) -> list[str]:
        parts = (
            RecallGroup("all", Interval(0.80, 0.02, of_all, 60), 0.9),
            RecallGroup("mature cards", Interval(0.97, 0.02, of_old, 60), 0.87),
        )
        evidence = replace(finding.evidence, groups=parts, desired=desired)
        found = build_first_screen([replace(finding, evidence=evidence)]).panes[1].items
        return [each.note for each in found if isinstance(each, Bar)]

    assert notes(200, 32) == ["too few", "too few"]
    assert notes(2_000, 32) == ["" if desired is None else "◀ look", "too few"]
    assert notes(2_000, 900)[1] == ""


def test_while_fsrs_is_off_a_preset_has_no_sureness_of_its_own() -> None:
    finding = next(each for each in make_answers() if isinstance(each.evidence, PresetParameters))
    assert isinstance(finding.evidence, PresetParameters)
    assert line([finding]).startswith("●")
    is_off = replace(finding, evidence=replace(finding.evidence, fsrs_is_off=True))
    is_off = replace(is_off, probability=0.6, recommendation="optimize")
    assert line([is_off]) == "once FSRS is on"
    assert "of 100" not in sentences(is_off)[0]


def test_months_of_the_last_year_need_none() -> None:
    part = RecallGroup(time.strftime("%Y-%m"), Interval(0.8, 0.02, 100, 20), 0.8)
    whole = replace(part, name="all")
    evidence = Retention("no matter", (whole, part), 0.8, False, NONE, NONE)
    said = text_of(build_first_screen([Finding("retention", "Words", evidence=evidence)]))
    assert re.search(rf"months {time.strftime('%b')} 80", said)


def test_presets_stand_in_the_order_of_the_findings() -> None:
    answers = [each for each in make_answers() if each.question != PARAMETERS]
    presets = [each for each in make_answers() if each.question == PARAMETERS]
    for order in (presets, presets[::-1]):
        rows = build_first_screen([*order, *answers]).panes[3].items
        named = [each.cells[0] for each in rows if isinstance(each, PresetRow)]
        assert named == [
            each.subject for each in order if isinstance(each.evidence, PresetParameters)
        ]


def test_where_all_is_suspended_nothing_is_in_force() -> None:
    finding = next(each for each in make_answers() if isinstance(each.evidence, PresetParameters))
    assert isinstance(finding.evidence, PresetParameters)

    def first_row(gone: str) -> object:
        evidence = replace(finding.evidence, is_fitted=False, excluded_majority=gone)
        return tables(replace(finding, evidence=evidence))[0].rows[0][0]

    assert first_row("") == "FSRS's defaults, in force"
    assert first_row("suspended") != "FSRS's defaults"
    how = next(
        each
        for each in build_first_screen(make_answers(), excluded_note="Gone.").panes[0].items
        if isinstance(each, PaneLine) and "how it was" in each.text
    )
    assert how.drop_order == 0
