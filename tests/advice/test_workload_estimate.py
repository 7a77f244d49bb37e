"""What a desired retention costs: draws, sentences, the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import srs_eval
import srs_eval.data.errors
from srs_eval.advice import shown
from srs_eval.advice.sentences import signed
from srs_eval.advice.workload import estimate, memories
from srs_eval.advice.workload.answers import answers, document
from srs_eval.advice.workload.estimate import (
    FIGURES,
    KNOWN,
    MINUTES,
    OVER,
    RECALLED,
    RETENTIONS,
    REVIEWS,
    Question,
    Workload,
    workload,
)
from srs_eval.advice.workload.glance import in_short
from srs_eval.advice.workload.memories import MODELS, SCHEDULERS, Memory, candidates
from srs_eval.advice.workload.preview import Preview, previews, worded
from srs_eval.advice.workload.today import todays_cards
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import LEARNING, REVIEW, Entries, Preset, ReviewLog
from tests.data.anki_files import make_collection, plain_history

QUICK = Question(retentions=(0.75, 0.85, 0.95), days=60, new_a_day=3, draws=5, budget=3.0)
FSRS6 = Memory("FSRS-6", SCHEDULERS["FSRS-6"].default)


@pytest.fixture(scope="module")
def log(simulated_collection: Path) -> ReviewLog:
    return srs_eval.load(simulated_collection)


@pytest.fixture(scope="module")
def stages(log: ReviewLog) -> Iterator[list[Workload]]:
    """With all models but LSTM, which takes longest; it is held against all in a slow test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memories, "_LONGEST_S", 1.0)
        yield list(workload(log, question=QUICK))


def test_it_gets_known_better(stages: list[Workload]) -> None:
    assert [len(each.draws) for each in stages[:6]] == [0, 1, 2, 3, 4, 5]
    first, last = stages[0], stages[-1]
    assert not first.finished
    assert last.finished
    assert np.array_equal(first.in_force, last.in_force)
    assert last.draws.shape == (5, len(last.retentions), len(FIGURES))
    assert set(QUICK.retentions) < {*last.retentions.tolist(), last.desired}
    for each in stages:
        assert shown.sentences(answers(each)[0])  # each can be shown


def test_more_retention_costs_more(stages: list[Workload]) -> None:
    median = stages[-1].median
    for figure in (REVIEWS, MINUTES, KNOWN, RECALLED):
        assert (np.diff(median[:, figure]) > 0).all(), FIGURES[figure]
    low, high = stages[-1].band
    assert (low <= median).all()
    assert (median <= high).all()
    assert (high[:, REVIEWS] > low[:, REVIEWS]).all()
    assert ((median[:, OVER] >= 0) & (median[:, OVER] <= QUICK.days)).all()
    assert stages[-1].chance[REVIEWS] > 0


def test_the_same_question_has_the_same_answer(log: ReviewLog, stages: list[Workload]) -> None:
    question = replace(QUICK, draws=2, memory="FSRS-7")
    one, again = (list(workload(log, question=question)) for _ in range(2))
    assert document(one[-1]) == document(again[-1])
    assert np.array_equal(one[2].draws, stages[2].draws)  # the first ones of more


def test_a_notebook_can_ask(log: ReviewLog, stages: list[Workload]) -> None:
    first = next(srs_eval.workload(log, question=QUICK))
    assert np.array_equal(first.in_force, stages[0].in_force)


def test_it_can_be_ended_early(log: ReviewLog) -> None:
    events = workload(log, question=QUICK)
    first: Iterator[Workload] = events
    assert not len(next(first).draws)
    events.close()
    with pytest.raises(StopIteration):
        next(first)


def test_more_new_cards_cost_more(stages: list[Workload]) -> None:
    paces = stages[-1].paces
    assert [pace for pace, _ in paces] == [0, 1, 3, 6]
    medians = np.array([np.median(figures, axis=0) for _, figures in paces])
    assert (np.diff(medians[:, [MINUTES, KNOWN]], axis=0) > 0).all()


def test_one_setting_has_one_figure(stages: list[Workload]) -> None:
    last = stages[-1]
    here = last.at(last.desired)
    (answer,) = answers(last)
    curve, paces = shown.tables(answer)[:2]
    now = next(row for row in curve.rows if "now" in str(row[1]))
    (same,) = (row for row in paces.rows if row[0] == last.new_a_day)
    assert same[1:] == (now[2], now[3], now[4])
    assert f"take {now[2]} reviews and {now[3]} minutes a day" in shown.sentences(answer)[0]
    minutes = float(str(curve.rows[last.at(0.85)][3]).split()[0])
    difference = minutes - round(float(last.median[here, MINUTES]), 1)
    (change,) = (each for each in shown.sentences(answer) if each.startswith("Instead of"))
    assert f"0.85 {signed(difference, 1)} minutes a day" in change


def test_todays_schedule_is_told_beside_what_optimizing_makes_of_it(
    log: ReviewLog, stages: list[Workload]
) -> None:
    """From the first estimate on, with the figures of the table of schedules at the end."""
    first, last = stages[0], stages[-1]
    assert first.unchanged is not None
    assert first.unchanged == pytest.approx(last.mismatches[0].figures[last.at(last.desired)])
    now = shown.tables(in_short(last, log))[0].rows[-1]
    told = f"{first.unchanged[REVIEWS]:,.0f}"
    assert now[:3] == (f"{100 * last.desired:.0f} %", "now", told)
    assert told != shown.tables(in_short(last, log))[0].rows[-2][2]  # else one could be the other
    says = " ".join(shown.sentences(answers(last)[0]))
    assert f"While the parameters in force go on scheduling it is about {told} reviews" in says
    same = replace(last, unchanged=None)
    assert [row[1] for row in shown.tables(in_short(same, log))[0].rows].count("now") == 1
    assert "go on scheduling" not in " ".join(shown.sentences(answers(same)[0]))
    optimized = document(last)["retentions"][last.at(last.desired)]["median"]
    assert f"{document(last)['now']['reviews']:,.0f}" == told
    assert document(last)["now"] != optimized
    assert document(same)["now"] == optimized


def test_nothing_looks_surer_than_it_is_while_draws_are_missing(stages: list[Workload]) -> None:
    for each in stages[:5]:
        (answer,) = answers(each)
        source = f"{len(each.draws)} of 5 sets of parameters that your reviews allow"
        if not len(each.draws):
            source = "the parameters that fit your reviews best"
        assert shown.sentences(answer)[0].startswith(
            f"First estimate, from {source}: it may still move"
        )
        assert answer.says.startswith("about ")
        assert "(" not in "".join(str(cell) for row in shown.tables(answer)[0].rows for cell in row)
        assert not any("Instead of" in sentence for sentence in shown.sentences(answer))
    # The first figures are of the fit to one's own reviews, not of the parameters in force.
    assert np.array_equal(stages[0].median, stages[0].seeds[0])
    assert not np.array_equal(stages[0].median, stages[0].in_force)
    (answer,) = answers(stages[5])
    assert shown.sentences(answer)[0].startswith("At today's desired retention")


def test_what_is_being_done_is_told(stages: list[Workload]) -> None:
    told = [each.doing for each in stages]
    assert told[-1] is None
    shares = [each.share for each in told if each is not None]
    assert len(shares) == len(stages) - 1
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    assert told[3] is not None
    assert told[3].words == "parameters that your reviews allow: 3 of 5"
    assert len({each.words for each in told if each is not None}) == 6 + 4


def test_a_first_estimate_says_how_far_it_may_move(stages: list[Workload]) -> None:
    """Of made-up learners, whose draws deviate by 2 to 12 %, it moves by more once in ten times."""
    random = np.random.default_rng(1)
    last = stages[-1]
    here = last.at(last.desired)
    kept = {done: 0 for done in (1, 3, 10, 30)}
    for _ in range(200):
        deviation = random.uniform(0.02, 0.12)
        draws = last.median * (1 + deviation * random.standard_normal((50, 1, 1)))
        whole = replace(last, draws=draws, question=replace(QUICK, draws=50))
        for done in kept:
            early = replace(whole, draws=draws[:done])
            moved = abs(early.median[here, MINUTES] - whole.median[here, MINUTES])
            kept[done] += moved <= early.may_move(here, MINUTES)
    assert min(kept.values()) > 0.85 * 200
    assert whole.may_move(here, MINUTES) == 0


def test_the_pace_of_new_cards_is_of_the_days_that_there_are(log: ReviewLog) -> None:
    assert log.entries is not None
    assert log.day_grid is not None
    question = replace(QUICK, new_a_day=None)
    usual = next(workload(log, question=question))
    assert usual.pace_days == 90
    since_ms = 1000 * (log.day_grid.next_day_at_s - 30 * 86_400)
    late = log.entries.time_ms >= since_ms
    columns = {each.name: getattr(log.entries, each.name)[late] for each in fields(log.entries)}
    young = replace(log, entries=Entries(**columns), predictions={})
    found = next(workload(young, question=question))
    assert found.pace_days == 30
    group = next(key for key in log.presets if log.presets[key].name == found.preset)
    mine = log.preset_of(log.deck_of(columns["card_id"])) == group
    begun = np.unique(columns["card_id"][mine & (columns["kind"] == LEARNING)])
    assert found.new_a_day == round(len(begun) / 30) > round(len(begun) / 90)
    done = int((mine & (columns["kind"] == REVIEW)).sum())
    assert found.done_a_day == round(done / 30) > 0
    said = f"{found.new_a_day} new cards a day: the pace of the last 30 days, rounded."
    assert said in shown.sentences(answers(found)[0])


def test_new_cards_that_one_would_have_to_add_are_said(stages: list[Workload]) -> None:
    last = replace(stages[-1], unseen=2)
    assert (
        "3 new ones a day (if you add them: the preset has 2)"
        in shown.sentences(answers(last)[0])[0]
    )
    enough = replace(last, unseen=3 * QUICK.days)
    assert "if you add them" not in shown.sentences(answers(enough)[0])[0]


def test_one_retention_is_not_called_the_cheapest(stages: list[Workload]) -> None:
    last = stages[-1]
    alone = replace(
        last,
        retentions=last.retentions[:1],
        desired=float(last.retentions[0]),
        in_force=last.in_force[:1],
        draws=last.draws[:, :1],
        seeds=last.seeds[:, :1],
        mismatches=(),
    )
    assert "per card known" not in " ".join(shown.sentences(answers(alone)[0]))


def test_the_cheapest_is_of_those_asked_about(stages: list[Workload]) -> None:
    def said(found: Workload) -> str:
        (sentence,) = (
            each for each in shown.sentences(answers(found)[0]) if "per card known" in each
        )
        return sentence

    last = stages[-1]
    assert said(last).startswith("Of the retentions asked about, ")
    assert "or below" not in said(last)
    usual = replace(last, question=replace(QUICK, retentions=RETENTIONS))
    assert said(usual).startswith("Fewest minutes per card known: at ")
    lived = replace(last, months=(("2026-01", 500, 0.5), ("2026-02", 500, 0.95)))
    assert "you have no month like that" not in said(lived)
    never = replace(last, months=(("2026-01", 500, 0.94), ("2026-02", 500, 0.95)))
    assert "you have no month like that" in said(never)


def test_a_preset_that_nobody_named_is_said_to_be_one_of_several(
    log: ReviewLog, stages: list[Workload]
) -> None:
    said = "one preset of 3: the one with the most reviews"
    assert said in " ".join(shown.sentences(answers(replace(stages[-1], presets=3))[0]))
    named = next(workload(log, stages[-1].preset, QUICK))
    assert named.presets == 1


def test_a_break_leaves_more_overdue(log: ReviewLog, stages: list[Workload]) -> None:
    later = next(workload(log, question=replace(QUICK, after=30)))
    assert later.overdue > stages[0].overdue
    assert later.learned == stages[0].learned
    here = later.at(later.desired)
    assert later.in_force[here, RECALLED] < stages[0].in_force[here, RECALLED]
    assert "after 30 days without a review" in " ".join(shown.sentences(answers(later)[0]))


def test_the_schedule_is_tried_on_the_best_of_the_other_models(stages: list[Workload]) -> None:
    last = stages[-1]
    losses = [each.log_loss.estimate for each in last.scores]
    reviews = last.scores[0].log_loss.reviews * 6 // 5  # judged are five parts of six
    assert sorted(each.model for each in last.scores) == sorted(candidates(reviews))
    assert len(last.scores) == len(MODELS) - 1
    assert losses == sorted(losses)
    assert len({each.log_loss.reviews for each in last.scores}) == 1  # the same reviews
    best = next(each for each in last.scores if each.model != "FSRS-6")
    assert best.difference is not None
    (fsrs6,) = (each for each in last.scores if each.model == "FSRS-6")
    expected = best.log_loss.estimate - fsrs6.log_loss.estimate
    assert best.difference.estimate == pytest.approx(expected)
    assert [each.model for each in last.mismatches] == ["FSRS-6", best.model]
    for each in last.mismatches:
        figures = each.figures
        assert figures.shape == (len(last.retentions), len(FIGURES))
        assert (np.diff(figures[:, RECALLED]) > 0).all()
        assert ((figures[:, RECALLED] > 0.5) & (figures[:, RECALLED] < 1)).all()
    (answer,) = answers(last)
    (said,) = (each for each in shown.sentences(answer) if "models that can be simulated" in each)
    assert f"{losses[0]:.4f}" in said
    assert best.model in said
    (table,) = (each for each in shown.tables(answer) if "under your schedule" in each.title)
    assert table.columns[2:] == ("FSRS-6, optimized", f"{best.model}, optimized")
    for row, k in zip(table.rows, range(len(last.retentions)), strict=True):
        assert row[1:] == tuple(
            f"{100 * each[k, RECALLED]:.0f} %"
            for each in (last.in_force, *(wrong.figures for wrong in last.mismatches))
        )


@pytest.mark.slow
def test_lstm_is_among_the_models_that_are_judged(log: ReviewLog) -> None:
    question = replace(QUICK, retentions=(0.9,), draws=1)
    last = list(workload(log, question=question))[-1]
    assert sorted(each.model for each in last.scores) == sorted(MODELS)
    assert len({each.log_loss.reviews for each in last.scores}) == 1


def test_a_memory_can_be_named(log: ReviewLog, stages: list[Workload]) -> None:
    question = replace(QUICK, retentions=(0.9,), draws=1, memory="gru-p")
    last = list(workload(log, question=question))[-1]
    assert {each.model for each in last.scores} == {"FSRS-6", "GRU-P"}
    assert last.mismatches[-1].name == "GRU-P, optimized"
    among = {each.model: each.log_loss.estimate for each in stages[-1].scores}
    assert {each.model: each.log_loss.estimate for each in last.scores}.items() <= among.items()
    said = [each for each in shown.sentences(answers(last)[0]) if "GRU-P has a log loss" in each]
    assert len(said) == 1
    assert document(last)["question"]["memory"] == "GRU-P"
    with pytest.raises(InputError, match="FSRS-5, FSRS-6, FSRS-7, GRU, GRU-P, LSTM"):
        workload(log, question=replace(QUICK, memory="Transformer"))


def test_a_slow_model_is_asked_by_name(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "_LONGEST_S", 5.0)
    assert candidates(5000) == MODELS
    assert {*MODELS} - {*candidates(10_000)} == {"LSTM"}
    monkeypatch.setattr(srs_eval.data.errors, "is_installed", lambda module: False)
    assert "LSTM" not in candidates(5000)
    with pytest.raises(InputError, match="--memory LSTM needs PyTorch: pip install"):
        workload(log, question=replace(QUICK, memory="lstm"))


def test_parameters_of_ones_own_stand_in_for_those_in_force(
    log: ReviewLog, stages: list[Workload]
) -> None:
    forgetful = [value / 4 if place < 4 else value for place, value in enumerate(FSRS6.parameters)]
    found = next(workload(log, question=QUICK, parameters=forgetful))
    here = found.at(found.desired)
    assert found.in_force[here, REVIEWS] != stages[0].in_force[here, REVIEWS]
    with pytest.raises(InputError, match="17, 19 or 21"):
        next(workload(log, question=QUICK, parameters=forgetful[:5]))


def test_the_words_hold_the_figures(stages: list[Workload]) -> None:
    last = stages[-1]
    (answer,) = answers(last)
    here = last.at(last.desired)
    text = " ".join(shown.sentences(answer))
    assert f"{last.median[here, REVIEWS]:.0f} " in text
    assert f"{last.median[here, MINUTES]:.1f} " in text
    assert "Cheap is not wise" in text
    assert "90 % of 5 draws" in text
    curve = shown.tables(answer)[0]
    assert len(curve.rows) == len(last.retentions)
    assert [row[0] for row in curve.rows] == [f"{each:.2f}" for each in last.retentions]
    # A retention that no month came near is marked as the model's guess.
    assert last.seen is not None
    low, high = last.seen
    marks = {float(str(row[0])): "?" in str(row[1]) for row in curve.rows}
    assert marks == {each: not low <= each <= high for each in marks}


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
    off = replace(log, receipt=replace(log.receipt, fsrs_enabled=False))
    with pytest.raises(InputError, match="FSRS is off"):
        workload(off, question=QUICK)
    next(workload(off, question=QUICK, parameters=[]))  # the defaults, asked for
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
    today = todays_cards(log, group)
    steps = Preset(1, "P", learning_steps=(1.0, 10.0), relearning_steps=(10.0,))

    def preview(preset: Preset, retention: float) -> Preview:
        (shown,) = previews({"defaults": FSRS6.parameters}, today, preset, retention)
        return shown

    shown = preview(steps, 0.9)
    lines = dict(shown.lines)
    # FSRS-6's defaults at 0.90: intervals are stabilities; Easy begins at 8.2956 days.
    assert lines["new"] == (60.0, 330.0, 600.0, 8 * 86_400.0)
    for seconds in lines.values():
        assert sorted(seconds) == list(seconds)
    none = preview(Preset(1, "P"), 0.9)
    days = [each / 86_400 for each in dict(none.lines)["new"]]
    assert days == [round(max(1, FSRS6.parameters[k])) for k in range(4)]
    shorter = preview(replace(steps, maximum_interval=30), 0.9)
    assert max(max(seconds) for _, seconds in shorter.lines) == 30 * 86_400
    for (_, some), (_, more) in zip(preview(steps, 0.8).lines, shown.lines, strict=True):
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
    assert worded(seconds) == words


# The command line


def test_the_command_answers(
    simulated_collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(estimate, "Question", partial(Question, draws=3))
    target = tmp_path / "workload.json"
    status = main(
        [
            *("workload", str(simulated_collection), "--retention", "80,0.9", "--days", "30"),
            *("--new", "2", "--budget", "5", "--memory", "FSRS-6", "--json", str(target)),
        ]
    )
    out, error = capsys.readouterr()
    assert status == 0, error
    assert max(map(len, out.splitlines())) <= 80
    assert "What does a desired retention cost?" in out
    assert "days > 5 min" in out
    found = json.loads(target.read_text())
    assert found["layout"] == 1
    assert found["draws"] == 3
    assert {each["desired"] for each in found["retentions"]} >= {0.8, 0.9}
    for each in found["retentions"]:
        assert each["low"]["reviews"] <= each["median"]["reviews"] <= each["high"]["reviews"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retention", "ninety"], "is no list of numbers"),
        (["--retention", "9"], "cannot be asked for"),
        (["--params", "1, 2, 3"], "17, 19 or 21"),
        (["--states", "guess"], "--states"),
        (["--memory", "Transformer"], "--memory Transformer"),
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
