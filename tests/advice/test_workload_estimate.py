"""What a desired retention costs: draws, sentences, the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice.buttons import preview_typical_cards
from srs_eval.advice.questions import CHECKS, MODELS, PARAMETERS, compare, default_questions
from srs_eval.advice.saved_answers import SavedAnswers, load_answers, save_answers
from srs_eval.advice.shown import line, sentences, tables
from srs_eval.advice.shown.habits import _format_anki_interval
from srs_eval.advice.workload import estimate
from srs_eval.advice.workload.estimate import (
    ALL_PRESETS,
    FIGURES,
    GLANCE_RETENTIONS,
    KNOWN,
    MINUTES,
    OVER_BUDGET,
    RECALLED,
    REVIEWS,
    Workload,
    WorkloadQuestion,
    estimate_at_a_glance,
    workload,
    workload_document,
)
from srs_eval.advice.workload.today import (
    MIN_MONTH_REVIEWS,
    collect_todays_cards,
    count_overdue,
    measure_pace,
)
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import LEARNING, REVIEW, Entries, Preset, ReviewLog
from srs_eval.models import fsrs6
from tests.data.anki_files import make_collection, plain_history
from tools.simulated import simulate_learner, write_collection

QUICK = WorkloadQuestion(retentions=(0.75, 0.85, 0.95), days=60, new_a_day=3, draws=5, budget=3.0)


@pytest.fixture(scope="module")
def log(simulated_collection: Path) -> ReviewLog:
    return srs_eval.load(simulated_collection)


@pytest.fixture(scope="module")
def stages(log: ReviewLog) -> list[Workload]:
    return list(workload(log, question=QUICK))


@pytest.fixture(scope="module")
def off(log: ReviewLog) -> ReviewLog:
    return replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))


@pytest.fixture(scope="module")
def suspended(log: ReviewLog) -> ReviewLog:
    return replace(log, cards=replace(log.cards, suspended=np.ones(len(log.cards.card_id), bool)))


def said(found: Workload) -> str:
    return " ".join(sentences(found.finding))


def test_it_gets_known_better(stages: list[Workload]) -> None:
    assert [len(each.draws) for each in stages] == [0, 1, 2, 3, 4, 5]
    assert [each.has_all_draws for each in stages] == [False] * 5 + [True]
    first, last = stages[0], stages[-1]
    assert np.array_equal(first.estimates, last.estimates)
    assert np.shape(last.draws) == (5, len(last.retentions), len(FIGURES))
    assert set(QUICK.retentions) < {*last.retentions, last.desired}
    assert [each.progress for each in stages] == [(1 + done) / 6 for done in range(6)]
    assert stages[3].progress_text == "parameters that your reviews allow: 3 of 5"
    for each in stages:
        assert sentences(each.finding)  # each can be shown


def test_more_retention_costs_more(stages: list[Workload]) -> None:
    median = stages[-1].figures
    for figure in (REVIEWS, MINUTES, KNOWN, RECALLED):
        assert (np.diff(median[:, figure]) > 0).all(), FIGURES[figure]
    low, high = stages[-1].band
    assert (low <= median).all()
    assert (median <= high).all()
    assert (high[:, REVIEWS] > low[:, REVIEWS]).all()
    assert ((median[:, OVER_BUDGET] >= 0) & (median[:, OVER_BUDGET] <= QUICK.days)).all()


def test_the_same_question_has_the_same_answer(log: ReviewLog, stages: list[Workload]) -> None:
    question = replace(QUICK, draws=2)
    one, again = (list(workload(log, question=question)) for _ in range(2))
    assert workload_document(one[-1]) == workload_document(again[-1])
    assert np.array_equal(one[2].draws, stages[2].draws)  # the first ones of more


def test_a_notebook_can_ask(log: ReviewLog, stages: list[Workload]) -> None:
    first = next(srs_eval.workload(log, question=QUICK))
    assert np.array_equal(first.estimates, stages[0].estimates)


def test_it_can_be_ended_early(log: ReviewLog) -> None:
    events = workload(log, question=QUICK)
    first: Iterator[Workload] = events
    assert not len(next(first).draws)
    events.close()
    with pytest.raises(StopIteration):
        next(first)


# The cards that there are


def test_new_cards_are_those_that_there_are(log: ReviewLog, stages: list[Workload]) -> None:
    """However many a day: more than the deck has are neither learned nor known."""
    few, many, more = (
        next(workload(log, question=replace(QUICK, new_a_day=pace))) for pace in (0, 500, 999)
    )
    for found in (many, more):
        known = found.figures[:, KNOWN]
        assert (few.figures[:, KNOWN] < known).all()
        assert (known <= found.learned_cards + found.unseen_cards).all()
        assert f"and {found.unseen_cards} new ones; " in said(found)
    assert "and 3 new ones a day until the 179 there are have" in said(
        replace(stages[0], unseen_cards=179)
    )
    assert "and 3 new ones a day; " in said(replace(stages[0], unseen_cards=180))
    assert "no new ones" in said(few)
    assert "no new ones" in said(replace(stages[0], unseen_cards=0))


@pytest.mark.parametrize("is_off", [False, True])
def test_todays_schedule_is_said_of_the_same_cards(
    log: ReviewLog, off: ReviewLog, is_off: bool
) -> None:
    """Of who has not turned FSRS on, SM-2's: it is what they would ask before they do."""
    question = replace(QUICK, draws=1, new_a_day=500, budget=None)
    found = list(workload(off if is_off else log, question=question))[-1]
    assert found.is_fsrs_off == is_off
    now = found.current_figures
    assert now is not None
    assert found.figures[found.at(0.75), REVIEWS] < now[REVIEWS] < 2 * found.figures[-1, REVIEWS]
    assert found.learned_cards < now[KNOWN] < found.learned_cards + found.unseen_cards
    stated, known = f"{now[REVIEWS]:,.0f}", f"{now[KNOWN]:,.0f}"
    schedule = "SM-2" if is_off else "the parameters in force"
    says = f"If {schedule} go{'es' * is_off} on, they take {now[MINUTES]:.0f} minutes and {stated}"
    assert says in said(found)
    assert ("on and optimized" in said(found)) == is_off
    row = tables(found.finding)[0].rows[-1]
    assert row[:3] == ("SM-2" if is_off else f"{found.desired:.2f}", "now", stated)
    assert row[4:] == (known, f"{100 * now[RECALLED]:.0f} %")
    made = workload_document(found)
    assert made["now"]["reviews"] == now[REVIEWS]
    assert made["schedule"] == schedule


@pytest.mark.slow
def test_the_first_screen_has_the_same_figures(log: ReviewLog, off: ReviewLog) -> None:
    """At once and once ranges are known, and whatever retentions are asked about."""
    for each in (log, off):
        first, glance = estimate_at_a_glance(each)
        *_, found = workload(each, question=WorkloadQuestion(retentions=(0.7, *GLANCE_RETENTIONS)))
        assert found.glance_finding == glance
        rows = {row[0]: row for row in tables(glance)[0].rows}
        begun = {row[0]: row for row in tables(first)[0].rows}
        assert {*rows} >= {"0.80", "0.85", "0.90", "0.95"}
        for row, early in zip(rows.values(), begun.values(), strict=True):
            assert [str(cell).partition(" (")[0] for cell in row[2:5]] == [*early[2:5]]
        assert "(" in str(rows["0.85"][3])


def test_a_glance_is_kept_as_it_was(stages: list[Workload], tmp_path: Path) -> None:
    for found in (stages[0], stages[-1]):
        save_answers(
            "file", SavedAnswers((found.glance_finding,), "these reviews", 4_000, 1.0), tmp_path
        )
        kept = load_answers("file", tmp_path)
        assert kept is not None
        assert kept.findings == (found.glance_finding,)


def test_overdue_cards_are_said_with_what_they_cost(log: ReviewLog, stages: list[Workload]) -> None:
    """The same cards and minutes as under "Anything wrong?"."""
    later = next(workload(log, question=replace(QUICK, after=30)))
    assert later.overdue.cards > stages[0].overdue.cards
    assert later.learned_cards == stages[0].learned_cards
    cards, minutes = later.overdue.cards, later.overdue.minutes
    says = f"{cards:,} cards overdue: {minutes:.0f} minutes after 30 days without a review."
    assert says in said(later)
    assert workload_document(later)["overdue_minutes"] == minutes
    assert stages[0].overdue == count_overdue(log)


def test_few_reviews_are_said_in_a_sentence(
    log: ReviewLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.anki2"
    write_collection(simulate_learner(3, 700), path)
    few = srs_eval.load(path)
    with pytest.raises(NotEnoughData, match="can be told from 1,000 on"):
        workload(few)
    (glance,) = estimate_at_a_glance(few)
    assert glance.missing is not None
    assert glance.reviews + (glance.missing.reviews or 0) == 1_000
    assert (glance.conclusion, tables(glance)) == ("can't tell", ())
    text = line([glance])
    assert "what it costs can be told from 1,000 on" in text
    assert "at 90 %" not in text
    assert main(["workload", str(path)]) == 2
    out, error = capsys.readouterr()
    assert "can be told from 1,000 on" in error
    assert len(error.strip().splitlines()) == 1
    assert not out


def test_suspended_cards_have_one_rule(suspended: ReviewLog) -> None:
    """Presets are not evaluated; the models are, on the benchmark's rows, as the app does."""
    assert default_questions(suspended) == (PARAMETERS, MODELS, CHECKS)
    assert {each.question for each in compare(suspended)} == {PARAMETERS, MODELS, CHECKS}
    with pytest.raises(NotEnoughData, match="all your cards are suspended"):
        workload(suspended)


# What is said


def test_one_setting_has_one_figure(stages: list[Workload]) -> None:
    last = stages[-1]
    stated = last.finding
    rows = {row[0]: row for row in reversed(tables(stated)[0].rows)}
    row = rows[f"{last.desired:.2f}"]
    assert (
        f"take {row[3]} minutes and {row[2]} reviews a day".replace("-", " to ")
        in (sentences(stated)[0])
    )
    figures = {f"{each.figures[last.at(0.9), MINUTES]:.1f}" for each in stages}
    assert figures == {str(row[3]).split()[0]}


def test_the_schedule_that_is_optimized_is_now(stages: list[Workload]) -> None:
    same = replace(stages[-1], current_figures=None)
    assert [row[1] for row in tables(same.glance_finding)[0].rows].count("now") == 1
    assert "go on" not in said(same)
    optimized = workload_document(same)["retentions"][same.at(same.desired)]["estimate"]
    assert workload_document(same)["now"] == optimized
    assert workload_document(stages[-1])["now"] != optimized


def test_nothing_looks_surer_than_it_is_while_draws_are_missing(stages: list[Workload]) -> None:
    for each in stages[:5]:
        stated = each.finding
        assert sentences(stated)[-1].startswith("Ranges come with the last of 5 ")
        assert stated.conclusion == "see figures"
        assert "(" not in "".join(str(cell) for row in tables(stated)[0].rows for cell in row)
    assert "(" in sentences(stages[5].finding)[0]


def test_the_pace_is_of_the_days_that_there_are(log: ReviewLog, stages: list[Workload]) -> None:
    assert log.entries is not None
    assert log.day_grid is not None
    group = next(key for key in log.presets if log.presets[key].name == stages[0].presets[0][0])
    per_day, done_a_day, minutes, days = measure_pace(log, group)
    assert days == 90
    usual = next(workload(log, str(group), replace(QUICK, new_a_day=None)))
    assert usual.new_a_day == round(per_day)
    assert (usual.recent_reviews_a_day, usual.pace_days) == (round(done_a_day), days)
    lately = (
        f"In the last 90 days you took {minutes:.1f} minutes and did {done_a_day:.0f} reviews a"
    )
    assert lately in said(usual)
    since_ms = 1000 * (log.day_grid.next_day_at_s - 30 * 86_400)
    late = log.entries.time_ms >= since_ms
    columns = {each.name: getattr(log.entries, each.name)[late] for each in fields(log.entries)}
    mine = log.preset_of(log.deck_of(columns["card_id"])) == group
    begun = np.unique(columns["card_id"][mine & (columns["kind"] == LEARNING)])
    is_done = mine & (columns["kind"] == REVIEW)
    day = (columns["time_ms"][is_done] - since_ms) // 86_400_000
    done = len({*zip(columns["card_id"][is_done].tolist(), day.tolist(), strict=True)})
    spent = columns["duration_ms"][mine & (columns["rating"] > 0)].sum() / 60_000
    assert round(done / 30) > 0
    assert round(len(begun) / 30) > round(len(begun) / 90)
    young = replace(log, entries=Entries(**columns), source_predictions={})
    assert measure_pace(young, group)[1:] == (done / 30, pytest.approx(spent / 30), 30)
    assert round(measure_pace(young, group)[0]) == round(len(begun) / 30)


def test_the_cards_of_all_presets_are_summed(log: ReviewLog) -> None:
    """Each by its own settings; at the mean of what is desired each has what it desires."""
    question = replace(QUICK, draws=1, new_a_day=None, budget=None)
    *_, both = workload(log, question=question)
    each = [list(workload(log, name, question))[-1] for name, _ in both.presets]
    assert len(each) == 2
    assert both.preset == ALL_PRESETS
    assert {part.preset: part.desired for part in each} == dict(both.presets)
    assert both.learned_cards == sum(part.learned_cards for part in each)
    assert both.unseen_cards == sum(part.unseen_cards for part in each)
    assert both.overdue.cards == sum(part.overdue.cards for part in each)
    for figure in (REVIEWS, MINUTES, KNOWN):
        summed = sum(part.figures[part.at(0.85), figure] for part in each)
        assert both.figures[both.at(0.85), figure] == pytest.approx(summed, rel=0.02)
        own = sum(part.figures[part.at(part.desired), figure] for part in each)
        assert both.figures[both.at(both.desired), figure] == pytest.approx(own, rel=0.02)
    assert said(both).startswith("All your cards take")
    assert f"At {100 * both.desired:.0f} each preset has what you ask of it now: " in said(both)
    assert said(each[0]).startswith(f"The cards of {each[0].preset} take")
    named = next(workload(log, both.presets[0][0], replace(question, new_a_day=7)))
    assert named.new_a_day == 7
    few = next(workload(log, question=replace(question, new_a_day=7)))
    assert few.new_a_day == 7  # in all, not of each


def test_parameters_of_ones_own_stand_in_for_those_in_force(
    log: ReviewLog, off: ReviewLog, stages: list[Workload]
) -> None:
    forgetful = [value / 4 if k < 4 else value for k, value in enumerate(fsrs6.DEFAULT)]
    for each in (log, off):
        found = next(workload(each, question=QUICK, parameters=forgetful))
        assert found.current_figures is not None
        assert stages[0].current_figures is not None
        assert found.current_figures[REVIEWS] > stages[0].current_figures[REVIEWS]
        assert "If the parameters given go on, they take" in said(found)
    with pytest.raises(InputError, match="17, 19 or 21"):
        next(workload(log, question=QUICK, parameters=forgetful[:5]))


def test_the_words_hold_the_figures(stages: list[Workload]) -> None:
    last = stages[-1]
    here = last.at(last.desired)
    assert f"{last.figures[here, REVIEWS]:.0f} " in said(last)
    assert f"{last.figures[here, MINUTES]:.1f} " in said(last)
    assert "95 % of 5 draws" in said(last)
    rows = tables(last.finding)[0].rows
    curve = rows[:-1]  # below it is today's schedule
    assert [row[0] for row in curve] == [f"{each:.2f}" for each in last.retentions]
    # A retention that no month came near is marked as the model's guess.
    assert last.observed_retentions is not None
    low, high = last.observed_retentions
    assert f"{100 * low:.0f} to {100 * high:.0f} % recalled" in said(last)
    marks = {float(str(row[0])): "?" in str(row[1]) for row in curve}
    assert marks == {each: not low <= each <= high for each in marks}
    never = replace(last, observed_retentions=None)
    assert f"No month had {MIN_MONTH_REVIEWS} reviews" in said(never)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retentions": (1.2,)}, "cannot be asked for"),
        ({"retentions": ()}, "is empty"),
        ({"days": 0}, "--days 0"),
        ({"new_a_day": -1}, "--new -1"),
        ({"budget": 0.0}, "--budget 0"),
        ({"after": -1}, "--after -1"),
        ({"draws": 0}, "0 draws"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    log: ReviewLog, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        workload(log, question=replace(QUICK, **changes))  # type: ignore[arg-type]


def test_what_cannot_be_answered_is_refused(log: ReviewLog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="when cards are due"):
        workload(replace(log, schedule=None), question=QUICK)
    with pytest.raises(InputError, match="Did you mean"):
        workload(log, "no such preset", QUICK)
    few = srs_eval.load(make_collection(tmp_path / "few.anki2", entries=plain_history(6)[:2]))
    with pytest.raises(NotEnoughData):
        workload(few, question=QUICK)


# What the buttons would give


def test_buttons_are_ankis(log: ReviewLog) -> None:
    group = next(key for key in log.presets if (log.preset_of(log.cards.deck_id) == key).any())
    today = collect_todays_cards(log, group)
    steps = Preset(1, "P", learning_steps=(1.0, 10.0), relearning_steps=(10.0,))

    def shown(preset: Preset, retention: float) -> dict[str, tuple[float, ...]]:
        cards = preview_typical_cards(fsrs6.DEFAULT, today, preset, retention)
        return {each.kind: each.seconds for each in cards}

    lines = shown(steps, 0.9)
    # FSRS-6's defaults at 0.90: intervals are stabilities; Easy begins at 8.2956 days.
    assert lines["new"] == (60.0, 330.0, 600.0, 8 * 86_400.0)
    for seconds in lines.values():
        assert sorted(seconds) == list(seconds)
    none = shown(Preset(1, "P"), 0.9)
    days = [each / 86_400 for each in none["new"]]
    assert days == [round(max(1, fsrs6.DEFAULT[k])) for k in range(4)]
    shorter = shown(replace(steps, maximum_interval=30), 0.9)
    assert max(max(seconds) for seconds in shorter.values()) == 30 * 86_400
    for some, more in zip(shown(steps, 0.8).values(), lines.values(), strict=True):
        assert some[3] >= more[3]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "59s"),
        (600, "10m"),
        (3600, "1h"),
        (5400, "1.5h"),
        (86_400 * 12, "12d"),
        (86_400 * 30, "1mo"),
        (86_400 * 42, "1.4mo"),
        (86_400 * 730, "2y"),
    ],
)
def test_intervals_are_written_as_anki_does(seconds: float, words: str) -> None:
    assert _format_anki_interval(seconds) == words


# The command line


def question_with_draws(count: int) -> type[WorkloadQuestion]:
    """The class of questions, with few draws by default."""

    @dataclass(frozen=True)
    class Quick(WorkloadQuestion):
        draws: int = count

    return Quick


def test_the_command_answers(
    simulated_collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(estimate, "WorkloadQuestion", question_with_draws(3))
    target = tmp_path / "workload.json"
    status = main(
        [
            *("workload", str(simulated_collection), "--retention", "80,0.9", "--days", "30"),
            *("--new", "2", "--budget", "5", "--json", str(target)),
        ]
    )
    out, error = capsys.readouterr()
    assert status == 0, error
    assert max(map(len, out.splitlines())) <= 80
    assert "What does a desired retention cost?" in out
    assert "days > 5 min" in out
    found = json.loads(target.read_text())
    assert found["layout"] == 3
    assert found["draws"] == 3
    assert {each["desired"] for each in found["retentions"]} >= {0.8, 0.9}
    for each in found["retentions"]:
        assert each["low"]["reviews"] <= each["estimate"]["reviews"] <= each["high"]["reviews"]


def test_the_command_answers_where_fsrs_is_off(
    off: ReviewLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(estimate, "WorkloadQuestion", question_with_draws(2))
    monkeypatch.setattr("srs_eval.cli.settings.Source.load", lambda self: off)
    assert main(["workload", "somebody.anki2", "--retention", "90", "--days", "30"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "a day once FSRS is on and optimized and asked for 91 of 100." in out
    assert "If SM-2 goes on, they take" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retention", "ninety"], "is no list of numbers"),
        (["--retention", "9"], "cannot be asked for"),
        (["--params", "1, 2, 3"], "17, 19 or 21"),
        (["--states", "guess"], "--states"),
        (["--preset", "nowhere"], "no preset"),
    ],
)
def test_bad_input_is_one_sentence(
    simulated_collection: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["workload", str(simulated_collection), *arguments]) == 2
    out, error = capsys.readouterr()
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not out
