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
    KEEP,
    Against,
    Calibration,
    Check,
    Checks,
    Finding,
    Fit,
    Missing,
    OfPreset,
    Part,
    Retention,
    Sharing,
    unanswered,
)
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import OF_PRESETS
from srs_eval.advice.sentences import Bar, FirstScreen, Line, Row, where_to_paste
from srs_eval.advice.shown import line, sentences, tables
from srs_eval.advice.shown.first_screen import first_screen
from srs_eval.advice.workload.estimate import TooFew
from srs_eval.report.panes import as_text, drawn
from srs_eval.stats.intervals import Interval
from srs_eval.tui.widgets.panes import BELOW, heights
from tests.tui.app_world import make_answers, make_costs

JARGON = re.compile(
    r"\b(rows|evaluated|log loss|fresh|pooled|defaults|in force|held.out|recency|[0-9.]+ %)\b"
)
NONE = Interval(0.0, 0.01)
CHINESE = "日本語の単語"


def text_of(screen: FirstScreen, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(as_text(screen, width))
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
            each = replace(each, act=act, probability=0.9, evidence=evidence)
        found.append(each)
    return found


def wrong() -> list[Check]:
    return [
        Check("overdue", "look", 4_339, 4_791, 1_910.0),
        Check("gap", "look", 300, since="2022-01-24"),
        Check("hard", "not yet", 4, 100, says="few"),
    ]


WORLDS = {
    "two presets": make_answers(),
    "FSRS off": off(),
    "FSRS off, better so": off("SM-2"),
    "nothing to change": [
        each for each in make_answers() if each.question != OF_PRESETS or each.act == KEEP
    ],
    "no presets": [each for each in make_answers() if each.question in ("fit", "time")],
    "nothing": [unanswered("fit", "too little data, no usable reviews")],
}


@pytest.mark.parametrize("world", WORLDS)
def test_no_jargon_and_no_shares_of_one(world: str) -> None:
    said = text_of(first_screen(WORLDS[world], (), wrong()))
    assert not JARGON.findall(said)
    assert all(title in said for title in ("1 What to do", "2 Do I", "3 What", "4 One", "5 Any"))


@pytest.mark.parametrize("world", WORLDS)
def test_what_to_do_its_row_and_what_is_copied_are_one_finding(world: str) -> None:
    screen = first_screen(WORLDS[world])
    act = screen.panes[0].short.text
    rows = {
        each.cells[0]: each.cells[-1] for each in screen.panes[3].items if isinstance(each, Row)
    }
    if screen.copied is None:
        assert not re.search("Press|Copy", act)
        assert set(rows.values()) <= {"leave"}
    else:
        assert screen.copied.parameters is not None
        assert screen.copied.act != KEEP
        assert rows[screen.copied.subject] == "optimize"
        assert "ress Optimize" in act


def test_the_act_is_the_one_that_gains_most() -> None:
    screen = first_screen(make_answers())
    assert screen.panes[0].short == Line("Press Optimize for “Default”.", "fine", "●", "sure ●●●●●")
    assert screen.copied is make_answers()[1] or screen.copied == make_answers()[1]
    unsure = changed(OF_PRESETS, act="optimize", probability=0.6, parameters=None)
    stated = first_screen(unsure)
    assert stated.panes[0].short.text == "Change nothing."
    assert stated.panes[0].short.right == "could go either way ●○○○○"
    assert stated.copied is None


def test_without_a_switch_nothing_is_pressed() -> None:
    stated = first_screen(off()).panes[0].short.text
    assert stated == "Turn FSRS on and press Optimize for “Default”."
    one = [each for each in off() if each.subject != "Maps"]
    assert first_screen(one).panes[0].short.text == "Turn FSRS on and press Optimize."
    assert first_screen(off("SM-2")).panes[0].short.text == "Leave FSRS off."


def test_what_is_open_is_grey_dots() -> None:
    screen = first_screen((), Overview("anki", waiting=["fit"]).waiting)
    assert screen.panes[0].short == Line("…", "not yet")
    waiting = ("fit", OF_PRESETS, "retention", "costs", "split", "wrong")
    assert {pane.short.text for pane in first_screen((), waiting).panes} == {"…"}
    assert not first_screen((), waiting).below


def test_a_few_reviews_cost_no_minutes() -> None:
    few = Finding(*("costs", "all reviews"), reviews=122, evidence=TooFew("There are few"))
    pane = first_screen([few, *make_answers()[:2]]).panes[2]
    assert pane.short.text == "You have 122 usable reviews; this needs 1,000."
    assert len(pane.items) == 1
    dated = replace(few, missing=Missing(878, 5, f"{date.today().year + 1}-03-15"))
    assert first_screen([dated]).panes[2].short.text == (
        f"122 of 1,000 usable reviews; come back about 15 March {date.today().year + 1}."
    )


def test_minutes_have_ranges_once_they_are_known() -> None:
    def pane(done: int) -> str:
        costs = make_costs("Default", done=done)
        costs = replace(costs, as_now=(35.0, 7.0, 900.0, 0.85, 0.0), schedule="SM-2")
        answers = [costs.glance if e.question == "costs" else e for e in make_answers()]
        return text_of(first_screen(answers))

    assert re.search(r"90 +2\.5 +█", pane(0))
    assert re.search(r"90 +2\.5 \(2\.3-2\.7\) +█+.?▒", pane(2))
    assert re.search(r"with SM-2 +7\.0", pane(2))
    assert re.search(r"last 90 days +3\.5 +│", pane(2))
    assert "90 of 100: 2.5 minutes a day (with SM-2: 7.0)." in pane(2)


def test_why_less_is_remembered_adds_up() -> None:
    def part(name: str, recalled: float, expected: float) -> Part:
        return Part(name, Interval(recalled, 0.02, 1_000, 60), expected)

    parts = (part("all", 0.79, 0.81), part("young cards", 0.82, 0.83), part("2024-05", 0.8, 0.8))
    parts += (part("mature cards", 0.6, 0.7),)
    late = Retention("below", parts, 0.92, False, Interval(-0.11, 0.01), Interval(-0.02, 0.01))
    found = [Finding("retention", "Words", reviews=1_000, evidence=late)]
    said = text_of(first_screen(found))
    assert "Most cards came late (11 of the 13 points)." in said
    assert re.search(r"all +79 +92 +81 .*◀ look", said)
    assert re.search(r"young cards +82 +92 +83 .*◀ look", said)
    assert re.search(r"old cards +60 +92 +70 .*◀ look", said)
    assert "May ’24 80" in said
    one_day = replace(parts[-1], recalled=Interval(0.6, math.nan, 40, 1))
    few = replace(late, parts=(*parts[:-1], one_day))
    said = text_of(first_screen([replace(found[0], evidence=few)]))
    assert re.search(r"old cards +60 +92 +70 .*too few", said)
    off = replace(late, says="not asked for", desired=None)
    found = [replace(found[0], evidence=off)]
    assert "◀" not in text_of(first_screen(found))
    check = Check("old cards", "look", recalled=parts[-1].recalled, expected=0.7)
    said = text_of(first_screen(found, (), [check]))
    assert re.search(r"old cards .*◀ look", said)


def test_of_two_presets_the_one_that_falls_short_is_named() -> None:
    """Where the other makes up for it, all together do not."""

    def of(name: str, says: Any, recalled: float) -> Finding:
        whole = Part("all", Interval(recalled, 0.01, 2_000, 60), 0.9)
        none = Interval(0.0, 0.01)
        evidence = Retention(says, (whole,), 0.91, False, none, none)
        return Finding("retention", name, reviews=2_000, evidence=evidence)

    said = text_of(first_screen([of("Words", "below", 0.86), of("Maps", "above", 0.97)]))
    assert "“Words” falls short: you remember 86, asked for 91." in said
    assert "points" not in said
    assert "◀" not in said


def test_at_most_five_things_are_wrong_and_the_worst_stays() -> None:
    checks = [*wrong(), *wrong(), *wrong()]
    pane = first_screen((), (), checks).panes[4]
    assert len(pane.items) == 5
    assert [line.plain for line in drawn(pane, 60, 1)] == [
        "! 4,339 of 4,791 cards overdue: 32 hours"
    ]
    fine = first_screen((), (), [Check("overdue", "fine", 3, 900, 5.0)]).panes[4]
    assert fine.short.text == "Nothing that your reviews show."
    overview = Overview("anki", answers=[Finding("wrong", "", evidence=Checks("look", ()))])
    assert overview.first_screen.panes[4].short.text == "…"


@pytest.mark.parametrize("width", [60, 78, 100])
def test_wide_characters_take_two_columns(width: int) -> None:
    names = {"Default": CHINESE * 6, "Maps": "東京"}
    answers = [replace(e, subject=names.get(e.subject, e.subject)) for e in make_answers()]
    said = text_of(first_screen(answers), width).splitlines()
    framed = [line for line in said if line.startswith("│")]
    assert {cell_len(line) for line in framed} == {width}
    assert any("東京" in line for line in framed)
    assert width < 78 or "Deck options" in framed[1]  # the act takes one line


@pytest.mark.parametrize("presets", [1, 5])
def test_one_preset_needs_no_rows(presets: int) -> None:
    shared = Sharing("preset", presets, says="one preset")
    pane = first_screen(changed("split", evidence=shared, act="")).panes[3]
    assert (len(pane.items) > 1) == (presets > 1)
    assert pane.short.text == (
        "You have one. Keep it."
        if presets == 1
        else "Keep your 5; too few reviews to compare them."
    )


def test_all_panes_have_room_in_every_window() -> None:
    for width in (60, 80, 96, 140):
        for height in range(14, 60):
            beside, lines = heights(width, height)
            used = lines[1] + (
                lines[2] + lines[4] if beside else sum(lines[number] for number in range(2, 6))
            )
            assert used + BELOW <= height, (width, height)
            assert min(lines.values()) >= 1
            assert not any(1 < each < 4 for each in lines.values())
    assert heights(80, 22) == (False, {1: 4, 2: 6, 3: 7, 4: 1, 5: 1})
    assert heights(100, 28)[0]


def test_the_file_says_which_version_is_known() -> None:
    """Of a history without presets nobody knows whether FSRS is on."""
    unknown = []
    for each in make_answers():
        if isinstance(each.evidence, OfPreset):
            each = replace(
                each, evidence=replace(each.evidence, known=False), subject="all reviews"
            )
        unknown.append(each)
    stated = first_screen(unknown[:2], rows="benchmark").panes
    assert stated[0].short.text == "With FSRS on in Anki, press Optimize."
    assert (
        first_screen(off(answers=unknown[:2])).panes[0].short.text.startswith("Turn FSRS on and p")
    )
    assert "Only an Anki collection" in stated[2].short.text
    gone = first_screen(unknown[:2], rows="benchmark", gone="All is lost.").panes
    assert [gone[2].short.text, gone[3].short.text] == ["Nothing is left to schedule."] * 2
    assert gone[0].short == Line("Nothing to do.", "look", "●")
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
    now = Against("SuperMemo SM-15", "brought along", *[Interval(0.1, 0.01)] * 2, verdict, NONE)
    found = []
    for each in make_answers()[:2]:
        if isinstance(each.evidence, OfPreset):
            evidence = replace(each.evidence, known=False)
            each = replace(each, subject="all reviews", evidence=evidence)
        elif isinstance(each.evidence, Fit):
            each = replace(each, act="", evidence=replace(each.evidence, now=now))
        found.append(each)
    screen = first_screen(found, rows="benchmark")
    assert screen.panes[0].short.text == act
    assert not re.search("Anki|preset", text_of(FirstScreen(screen.panes[:2], ())))
    assert (screen.copied is None) == (verdict == "worse")
    assert screen.copied is None or "preset" not in where_to_paste(screen.copied)


def test_too_few_is_said_of_what_more_reviews_can_tell() -> None:
    def below(missing: Missing | None) -> str:
        evidence = Calibration("can't tell", None, Part("all", Interval(0.9, 0.1), 0.9), (), False)
        found = Finding("says", "all presets", missing=missing, evidence=evidence)
        return " ".join(line.text for line in first_screen([found]).below)

    assert below(Missing(reviews=90)).endswith("whether FSRS is right about you")
    assert below(Missing()) == below(None) == ""


def test_with_too_few_reviews_nothing_is_called_as_good() -> None:
    def act(reviews: int) -> list[str]:
        found = []
        for each in changed(OF_PRESETS, act=KEEP, probability=0.8, parameters=None):
            if isinstance(each.evidence, OfPreset):
                held_out = each.evidence.held_out[0]
                assert held_out.log_loss is not None
                few = replace(held_out, log_loss=replace(held_out.log_loss, reviews=reviews))
                none = tuple(replace(e, difference=None) for e in each.evidence.candidates)
                each = replace(
                    each, evidence=replace(each.evidence, candidates=none, held_out=(few,))
                )
            found.append(each)
        pane = first_screen(found).panes[0]
        assert ("likely" in pane.short.right + line(found[1:2])) == (reviews >= 1_000)
        return [each.text for each in pane.items if isinstance(each, Line)]

    assert "Too few reviews to judge" in act(999)[1]
    assert act(1_000)[0] == "Change nothing."


def test_too_few_remembered_is_said_in_short() -> None:
    (finding,) = (each for each in make_answers() if isinstance(each.evidence, Retention))
    assert isinstance(finding.evidence, Retention)
    (part,) = finding.evidence.parts
    few = replace(part, recalled=replace(part.recalled, reviews=11))
    found = replace(finding, evidence=replace(finding.evidence, parts=(few,)))
    said = first_screen([found]).panes[1].short.text
    assert said == "Only 11 usable reviews: too few to go by."


@pytest.mark.parametrize("desired", [None, 0.9])
def test_few_reviews_are_marked_in_every_row(desired: float | None) -> None:
    (finding,) = (each for each in make_answers() if isinstance(each.evidence, Retention))
    assert isinstance(finding.evidence, Retention)

    def notes(of_all: int, of_old: int) -> list[str]:
        parts = (
            Part("all", Interval(0.80, 0.02, of_all, 60), 0.9),
            Part("mature cards", Interval(0.97, 0.02, of_old, 60), 0.87),
        )
        evidence = replace(finding.evidence, parts=parts, desired=desired)
        found = first_screen([replace(finding, evidence=evidence)]).panes[1].items
        return [each.note for each in found if isinstance(each, Bar)]

    assert notes(200, 32) == ["too few", "too few"]
    assert notes(2_000, 32) == ["" if desired is None else "◀ look", "too few"]
    assert notes(2_000, 900)[1] == ""


def test_while_fsrs_is_off_a_preset_has_no_sureness_of_its_own() -> None:
    finding = next(each for each in make_answers() if isinstance(each.evidence, OfPreset))
    assert isinstance(finding.evidence, OfPreset)
    assert line([finding]).startswith("●")
    is_off = replace(finding, evidence=replace(finding.evidence, fsrs_is_off=True))
    is_off = replace(is_off, probability=0.6, act="optimize")
    assert line([is_off]) == "once FSRS is on"
    assert "of 100" not in sentences(is_off)[0]


def test_months_of_the_last_year_need_none() -> None:
    part = Part(time.strftime("%Y-%m"), Interval(0.8, 0.02, 100, 20), 0.8)
    whole = replace(part, name="all")
    evidence = Retention("no matter", (whole, part), 0.8, False, NONE, NONE)
    said = text_of(first_screen([Finding("retention", "Words", evidence=evidence)]))
    assert re.search(rf"months {time.strftime('%b')} 80", said)


def test_presets_stand_in_the_order_of_the_findings() -> None:
    answers = [each for each in make_answers() if each.question != OF_PRESETS]
    presets = [each for each in make_answers() if each.question == OF_PRESETS]
    for order in (presets, presets[::-1]):
        rows = first_screen([*order, *answers]).panes[3].items
        named = [each.cells[0] for each in rows if isinstance(each, Row)]
        assert named == [each.subject for each in order if isinstance(each.evidence, OfPreset)]


def test_where_all_is_suspended_nothing_is_in_force() -> None:
    finding = next(each for each in make_answers() if isinstance(each.evidence, OfPreset))
    assert isinstance(finding.evidence, OfPreset)

    def first_row(gone: str) -> object:
        evidence = replace(finding.evidence, stored=False, gone=gone)
        return tables(replace(finding, evidence=evidence))[0].rows[0][0]

    assert first_row("") == "FSRS's defaults, in force"
    assert first_row("suspended") != "FSRS's defaults"
    how = next(
        each
        for each in first_screen(make_answers(), gone="Gone.").panes[0].items
        if isinstance(each, Line) and "how it was" in each.text
    )
    assert how.spare == 0
