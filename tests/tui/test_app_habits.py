"""Check small faults that use has found, and habits of the hand."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events
from textual.screen import Screen
from textual.widgets import DataTable, Input, OptionList, TabbedContent

from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import FSRS_7, NON_BLOCKING_QUESTIONS
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import Preset, ReviewLog
from srs_eval.engine import result as engine
from srs_eval.engine.result import Result
from srs_eval.engine.run import Prepared
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report import formats
from srs_eval.report.ranking_columns import sort_lines
from srs_eval.tui.config import RecentFile, State, load_state, save_state
from srs_eval.tui.screens.base import Keys
from srs_eval.tui.screens.details import CompareScreen
from srs_eval.tui.screens.import_summary import ImportSummaryScreen
from srs_eval.tui.widgets.calibration import CalibrationChart
from srs_eval.tui.widgets.ranking import RankingTable
from tests.tui.app_world import (
    FILE,
    MODELS,
    NOW,
    FakeAnswers,
    FakeEngine,
    is_on_screen,
    make_answers,
    make_app,
    make_log,
    make_result,
    screen_of,
    screen_text,
    to_import_summary,
    to_results,
    type_at_once,
    wait_until,
)
from tools.simulated import simulate_learner, write_collection


def beginning(result: Result, reviews: int) -> Result:
    """Return the result of a model on its first reviews alone."""
    tests = {name: values[:reviews] for name, values in vars(result.tests).items()}
    return replace(result, p=result.p[:reviews], tests=engine.TestSet(**tests))


def footer(app: Any) -> str:
    """Return the keys in the last line."""
    return str(app.screen.query_one(Keys).render())


@pytest.mark.slow
async def test_every_footer_fits_80_columns_with_its_last_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check footers while models run, when they have Cancel too."""
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    monkeypatch.setattr(app.session, "costs", lambda: [])
    monkeypatch.setattr(app.session.models, "errors_of", lambda name: [])
    ways = {
        "AnswersScreen": (),
        "EvidenceScreen": ("enter",),
        "CostsScreen": ("escape", "w"),
        "ImportSummaryScreen": ("escape", "i"),
        "RunScreen": ("escape", "m"),
        "CompareScreen": ("v",),
        "DetailsScreen": ("escape", "enter"),
        "ErrorsScreen": ("e",),
    }
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: screen_text(app).rstrip().endswith("q Quit"))
        await wait_until(
            pilot, lambda: engine.holding.is_set() and is_on_screen(app, "AnswersScreen")()
        )
        for name, keys in ways.items():
            for key in keys:
                await pilot.press(key)
            await wait_until(pilot, is_on_screen(app, name))
            await wait_until(pilot, lambda: "Quit" in footer(app))
            assert ("Cancel" in footer(app)) == (name not in ("EvidenceScreen", "CostsScreen"))
            await wait_until(pilot, lambda: screen_text(app).rstrip().endswith("q Quit"))
        engine.go.set()
        await wait_until(pilot, lambda: not app.session.models.run.is_running)


@pytest.mark.slow
async def test_narrow_footer_has_fewer_but_complete_keys(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(60, 20)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: screen_text(app).rstrip().endswith("? Help · q Quit"))
        assert "x Export" not in screen_text(app)
        assert " reviews · " in screen_text(app).splitlines()[0]
        await pilot.resize_terminal(80, 20)
        await wait_until(
            pilot, lambda: re.search(r"x Export · (i Import · )?\? Help · q Quit", screen_text(app))
        )


@pytest.mark.slow
async def test_wide_tables_of_the_import_summary_can_be_scrolled(tmp_path: Path) -> None:
    def load(path: Path, **_: Any) -> ReviewLog:
        log = make_log()
        words_of_it = "Vocabulary of the second year::Chapter 7, animals and their young"
        decks = log.decks | {10: replace(log.decks[10], name=words_of_it, desired_retention=0.8)}
        return replace(log, decks=decks)

    app = make_app(tmp_path, FILE, load=load)
    async with app.run_test(size=(60, 20)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("n")
        await wait_until(pilot, lambda: " preset " in screen_text(app).splitlines()[7])
        assert re.search(r"Vocab.*….*young +Default +\d+ +2,\d+", screen_text(app))
        assert "retention" not in screen_text(app)
        await pilot.press(*["right"] * 40)
        await wait_until(pilot, lambda: "retention" in screen_text(app))
        await pilot.press("n")
        await wait_until(
            pilot, lambda: re.search(r"parameters +retention +cards", screen_text(app))
        )
        await pilot.press("escape")
        await pilot.resize_terminal(140, 20)
        await pilot.press("i", "n")
        await wait_until(
            pilot, lambda: "Chapter 7, animals and their young  Default" in screen_text(app)
        )
        assert re.search("benchmark +anki +retention", screen_text(app))


@pytest.mark.slow
async def test_preset_without_reviews_is_named_in_the_error(tmp_path: Path) -> None:
    def load(path: Path, **_: Any) -> ReviewLog:
        log = make_log()
        return replace(log, presets={3: Preset(3, "Never used", {}, 0.9), **log.presets})

    app = make_app(tmp_path, FILE, load=load)
    async with app.run_test(size=(100, 30)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("n", "n")
        table = app.screen.query_one("#presets", DataTable)
        preset_names = [str(row[0]) for row in map(table.get_row_at, range(table.row_count))]
        table.move_cursor(row=preset_names.index("Never used"))
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
        await wait_until(
            pilot, lambda: 'The preset "Never used" has no reviews.' in screen_text(app)
        )


@pytest.mark.slow
async def test_cancelled_answers_can_be_asked_for_again(tmp_path: Path) -> None:
    answers = FakeAnswers(hold_at="split")
    app = make_app(tmp_path, FILE, answer=answers)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: answers.holding.is_set() and "Cancel" in footer(app))
        await pilot.press("c")
        await wait_until(pilot, lambda: "press r to start again" in screen_text(app))
        await wait_until(pilot, lambda: "Ask again" in footer(app) and "Cancel" not in footer(app))
        answers.hold_at = "fit"  # nothing is answered for now
        answers.holding.clear()
        await pilot.press("r")
        await wait_until(pilot, lambda: "Cancel" in footer(app) and "Ask again" not in footer(app))
        assert "questions to go" in screen_text(app)
        assert screen_text(app).rstrip().endswith("q Quit")
        await wait_until(pilot, answers.holding.is_set)
        answers.go.set()
        await wait_until(pilot, lambda: "answered in" in screen_text(app))


def test_letters_of_all_families_fit_the_frame_at_80_columns() -> None:
    assert (
        formats.explain_letters(formats.FAMILIES)
        == "F FSRS  S SM-2  H formulas  N networks  O learns"
    )
    assert len(formats.explain_letters(formats.FAMILIES)) <= 50


@pytest.mark.slow
async def test_narrow_calibration_table_shows_both_ends_of_intervals(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await pilot.press("t")
        chart = app.screen.query_one(CalibrationChart)
        table = chart.query_one("DataTable")
        graph = app.session.models.find_graph(app.session.models.run.ranked_results()[0].result)
        last = int(graph.count.nonzero()[0][-1])
        row = [str(cell) for cell in table.get_row_at(table.row_count - 1)]
        interval = f"{100 * graph.low[last]:.0f}–{100 * graph.high[last]:.0f}"
        assert row[2:] == [interval, str(int(graph.count[last]))]


@pytest.mark.slow
async def test_tabs_of_the_import_summary_have_keys(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        tabs = app.screen.query_one(TabbedContent)
        seen = []
        for _ in range(4):
            await pilot.press("n")
            await pilot.pause()
            seen.append(tabs.active)
        assert seen == ["per-deck", "per-preset", "remarks", "what"]
        await pilot.press("p")
        await wait_until(pilot, lambda: tabs.active == "remarks")


async def test_forget_is_offered_only_for_a_recent_file(tmp_path: Path) -> None:
    save_state(State(recent=(RecentFile(str(tmp_path / "mine.anki2"), NOW, 12),)), tmp_path)
    app = make_app(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "mine.anki2" in screen_text(app))
        await wait_until(pilot, lambda: "Forget" in footer(app))
        await pilot.press("delete")
        await wait_until(pilot, lambda: "mine.anki2" not in screen_text(app))
        await wait_until(pilot, lambda: "Forget" not in footer(app))
        assert app.screen.query_one(OptionList).highlighted_option is not None


@pytest.mark.slow
async def test_closed_screens_are_freed_from_memory(tmp_path: Path) -> None:
    """Check that nothing keeps closed screens and their drawings in memory.

    Textual remembers drawings for each widget; with them memory would grow with every screen.
    """
    app = make_app(tmp_path, FILE)
    closed_screens: list[weakref.ref[Screen]] = []
    drawn: list[weakref.ref[Any]] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await to_results(pilot, app)
        for _ in range(3):
            await pilot.press("d")
            await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
            await wait_until(pilot, lambda: "Parameters" in screen_text(app))
            closed_screens.append(weakref.ref(app.screen))
            drawn.append(weakref.ref(app.screen.query_one("#facts")._styles_cache))
            await pilot.press("escape")
            await wait_until(pilot, is_on_screen(app, "RunScreen"))
        assert gc.isenabled()
        gc.collect()
        for references in (closed_screens, drawn):
            alive = [reference for reference in references if reference() is not None]
            assert len(alive) <= 1  # Textual holds the last one
    assert not gc.get_freeze_count()


def keys(app: object) -> list[str]:
    """Return the ids of the ranking's rows, empty for headings."""
    table = app.screen.query_one(RankingTable)
    return [option.id or "" for option in table.options]


@pytest.mark.slow
async def test_the_ranking_is_ordered_by_keys_and_headings(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(160, 48)) as pilot:
        await to_results(pilot, app)
        first = app.session.models.run.groups()[0]
        await pilot.press("o")
        await wait_until(pilot, lambda: app.session.state.order == "model")
        names = [line.configuration.name for line in sort_lines(first, "model")]
        assert keys(app)[: len(names)] == names  # no headings: the verdict has a column
        assert "verdict" in screen_text(app)
        column = screen_text(app).splitlines()[2].index("RMSE(bins)")
        for backwards in (False, True):
            await pilot.click(offset=(column, 2))
            await wait_until(pilot, lambda: app.session.state.order == "RMSE(bins)")
            errors = [line.result.metrics.rmse_bins for line in sort_lines(first, "RMSE(bins)")]
            assert errors == sorted(errors)
            names = [line.configuration.name for line in sort_lines(first, "RMSE(bins)", backwards)]
            assert keys(app)[: len(names)] == names
    assert load_state(tmp_path).order == "RMSE(bins)"
    assert load_state(tmp_path).backwards


@pytest.mark.slow
async def test_ranking_filter_and_hidden_families_are_saved(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await pilot.press("slash", *"fsrs 6")
        await wait_until(pilot, lambda: "Models · 3 of 8" in screen_text(app))
        assert [key for key in keys(app) if key] == ["FSRS-6-recency", "FSRS-6", "FSRS-6-dry-run"]
        await pilot.press("enter", "down", "d")  # the list has the focus again
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await pilot.press("escape", "slash", "escape")
        await wait_until(pilot, lambda: len(keys(app)) > 8)
        await pilot.press("slash", *"sm", "enter", "escape")  # from the list, too
        await wait_until(pilot, lambda: len(keys(app)) > 8)
        assert is_on_screen(app, "RunScreen")()
        await pilot.press("f")
        await wait_until(pilot, is_on_screen(app, "FamiliesScreen"))
        await pilot.press("space", "down", "space", "escape")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: "without F S" in screen_text(app))
        assert [key for key in keys(app) if key] == ["DASH", "AVG", "MOVING-AVG"]
        await pilot.press("f", "escape")  # looking changes nothing
        await wait_until(pilot, lambda: app.session.state.hidden == ("fsrs", "sm2"))
        await pilot.press("slash", *"dash", "enter")
    assert load_state(tmp_path).filter == "dash"


@pytest.mark.slow
async def test_two_models_side_by_side(tmp_path: Path) -> None:
    """Check that figures stand below names, equal figures have no winner, and doubt says why."""
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(120, 40)) as pilot:
        await to_results(pilot, app)
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, CompareScreen.__name__))
        await wait_until(pilot, lambda: "◀" in screen_text(app))
        models = app.session.models.run.models
        left_model, right_model = (models[name] for name in screen_of(app, CompareScreen).pair)
        names = [model.configuration.words for model in (left_model, right_model)]
        await wait_until(pilot, lambda: re.search(rf"{names[0]} +{names[1]}", screen_text(app)))
        assert left_model.result is not None
        metrics = left_model.result.metrics
        almost = replace(metrics, ici=metrics.ici + 1e-9, log_loss=metrics.log_loss + 1e-9)
        right_model.result = replace(left_model.result, metrics=almost)
        app.screen.update_now()
        await wait_until(pilot, lambda: "◀" not in screen_text(app))
        left_model.result, right_model.result = (
            beginning(make_result(model.name), 900) for model in (left_model, right_model)
        )
        app.screen.update_now()
        await wait_until(pilot, lambda: "predicts better (needs " in screen_text(app))


@pytest.mark.slow
async def test_own_scheduler_is_starred_pinned_and_compared_first(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, evaluate=FakeEngine([*MODELS, "FSRS-6-own"]))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        assert app.session.models.own_scheduler == "FSRS-6-own"
        assert "  ★F✓ your parameters" in screen_text(
            app
        )  # fitted to some of these: without a place
        assert screen_text(app).count("★F") == 1
        await pilot.resize_terminal(80, 18)  # more rows than there is room for
        await wait_until(
            pilot, lambda: "★" in screen_text(app).splitlines()[3]
        )  # below the headings
        table = app.screen.query_one(RankingTable)
        assert table.chosen == "FSRS-6-recency"  # the best one, not one's own
        await pilot.press("end")
        await wait_until(pilot, lambda: table.chosen == "FSRS-5-secs")
        assert "★" in screen_text(app).splitlines()[3]
        table.move_cursor_to("FSRS-6-own")
        await pilot.press("d")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await wait_until(pilot, lambda: "not ranked: the parameters may" in screen_text(app))
        assert "fitted to these reviews" in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        table.move_cursor_to("SM2")
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        assert screen_of(app, CompareScreen).pair == ["FSRS-6-own", "SM2"]


@pytest.mark.slow
async def test_intervals_are_drawn_where_there_is_room(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await to_results(pilot, app)
        await wait_until(pilot, lambda: screen_text(app).count("●") >= 3)
        drawn = [line for line in screen_text(app).splitlines() if "├" in line and "┤" in line]
        assert len(drawn) == 8
        baseline = next(line for line in drawn if "the baseline" in line).index("═", 30)
        assert drawn[0][baseline] == "┊"
        await pilot.resize_terminal(80, 24)
        await wait_until(pilot, lambda: "├" not in screen_text(app).split("╮")[0])


@pytest.mark.slow
async def test_names_are_short_and_common_notes_stand_below(tmp_path: Path) -> None:
    assert max(len(configuration.words) for configuration in resolve_configurations("all")) <= 24
    name = "FSRS-7-short-secs-equalize_test_with_non_secs-preset-fallback_user"
    engine = FakeEngine(skipping=["DASH", "SM2"])

    def evaluate(*arguments: Any, **keywords: Any) -> Iterator[Any]:
        for event in engine(*arguments, **keywords):
            if isinstance(event, Prepared):
                event = replace(
                    event, configurations=(*event.configurations, *resolve_configurations(name))
                )
            yield event

    app = make_app(tmp_path, FILE, evaluate=evaluate)
    async with app.run_test(size=(160, 48)) as pilot:
        await to_results(pilot, app)
        await wait_until(pilot, lambda: "F  FSRS-7 per preset" in screen_text(app))
        assert "F✓ FSRS-6 recency" in screen_text(app)
        assert "✓ Anki can use FSRS-6 (from 25.07)." in screen_text(app)
        assert "Fitted on intervals in seconds: FSRS-5, FSRS-7." in screen_text(app)
        assert "skipped: only 3 usable reviews (at least 6 are needed)" in screen_text(app)
        await wait_until(pilot, lambda: "2 skipped: only 3 usable reviews (at" in screen_text(app))
        await pilot.resize_terminal(60, 20)
        await wait_until(
            pilot, lambda: re.search(r"2 skipped:\s+only 3\s+usable\s+reviews", screen_text(app))
        )
        assert "Fitted on" not in screen_text(app)
        await pilot.press("end")
        await wait_until(pilot, lambda: "Fitted on intervals" in screen_text(app))


@pytest.mark.slow
async def test_ranking_of_few_reviews_states_only_that_they_are_few(
    tmp_path: Path,
) -> None:
    app = make_app(tmp_path, FILE, evaluate=FakeEngine([*MODELS, "FSRS-6-own"]))
    async with app.run_test(size=(60, 20)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: len(app.session.models.run.results_by_name()) == 9)
        for model in app.session.models.run.models.values():
            assert model.result is not None
            model.result = beginning(model.result, 301)
        app.session.models.run._groups = None
        await pilot.press("m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: "models finished" in screen_text(app))
        *_, first, second, _, _ = screen_text(app).splitlines()
        assert first.strip().startswith("301 reviews on 11 days are too few to tell models apart:")
        assert second.strip() == "1,000 reviews and 20 days are needed."


@pytest.mark.slow
async def test_escape_asks_before_it_stops_a_run(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await pilot.press("m")
        await wait_until(
            pilot, lambda: engine.holding.is_set() and is_on_screen(app, "RunScreen")()
        )
        await pilot.press("escape")  # it goes on behind the answers
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        for answer in ("escape", "enter"):  # the harmless answer has the focus
            await pilot.press("ctrl+o")
            await wait_until(pilot, is_on_screen(app, "ConfirmDialog"))
            await pilot.press(answer)
            await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        assert app.session.models.run.is_running
        await pilot.press("ctrl+o", "y")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await wait_until(pilot, engine.closed.is_set)
    app.session.shut_down()


async def test_keys_typed_while_a_screen_opens_reach_it(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        type_at_once(app, "m/FSRS")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: app.screen.query_one(Input).value == "FSRS")
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        type_at_once(app, "-6\rv\x1b")  # to the list, to Compare, and back
        await wait_until(
            pilot, lambda: app.opened[-1] == "CompareScreen" and is_on_screen(app, "RunScreen")()
        )
        assert app.session.state.filter == "FSRS-6"
        type_at_once(app, "\x1b\x1bP")  # all models, the answers, which presets
        await wait_until(pilot, is_on_screen(app, "ChooseScreen"))
        assert app.session.state.filter == ""
    assert app.opened == ["AnswersScreen", "RunScreen", "CompareScreen", "ChooseScreen"]


async def test_stuck_key_does_not_block_later_keys(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        app._input.waiting.append(events.Key("x", "x"))
        app._input.started_at = app.session.monotonic() - 1
        type_at_once(app, "m")
        await pilot.pause(0.1)
        assert is_on_screen(app, "AnswersScreen")()
        app._input.started_at -= 10
        type_at_once(app, "q")
        await wait_until(
            pilot, lambda: not app.is_running or not is_on_screen(app, "AnswersScreen")()
        )


@pytest.mark.slow
@pytest.mark.parametrize("error", [None, NotEnoughData("no review is left")])
async def test_rows_without_results_are_explained_and_can_be_left(
    tmp_path: Path, error: Exception | None
) -> None:
    """Check rows without any usable review, and rows that the engine refuses."""
    of_benchmark = FakeEngine()
    of_anki = FakeEngine(skipping=MODELS, error=error)

    def evaluate(log: ReviewLog, names: Any, protocol: Protocol, **options: Any) -> Iterator[Any]:
        engine = of_anki if protocol.rows == "anki" else of_benchmark
        return engine(log, names, protocol, **options)

    app = make_app(tmp_path, FILE, evaluate=evaluate)
    async with app.run_test(size=(120, 40)) as pilot:
        await to_results(pilot, app)
        await pilot.press("R")
        if error is None:
            await wait_until(pilot, lambda: "on Anki's reviews" in screen_text(app))
            await wait_until(pilot, lambda: not app.session.models.run.is_running)
            assert not app.session.models.run.results_by_name()
            assert "3 usable reviews" in screen_text(app)
            await pilot.press("R")
        else:
            await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
            await wait_until(pilot, lambda: "no review is left" in screen_text(app))
            await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: "on the benchmark's reviews" in screen_text(app))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )


@pytest.mark.slow
async def test_a_screen_opens_with_its_footer(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await app.push_screen(ImportSummaryScreen())  # not a moment more
        assert all(label in footer(app) for label in ("Models", "Reviews", "Back", "Quit"))


@pytest.mark.slow
async def test_answers_fit_a_window_narrowed_under_a_dialog(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(160, 48)) as pilot:
        await wait_until(pilot, lambda: "models: 8 of 8" in screen_text(app))
        await pilot.press("x")
        await wait_until(pilot, is_on_screen(app, "ExportScreen"))
        await pilot.resize_terminal(80, 32)
        await wait_until(pilot, lambda: "What to do" in screen_text(app))


@pytest.mark.slow
async def test_a_screen_may_be_left_before_it_is_drawn(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        for milliseconds in (0, 8, 16, 40, 80):
            await app.push_screen(CompareScreen(app.session.models.run, "FSRS-6", "DASH"))
            await asyncio.sleep(milliseconds / 1000)
            await app.pop_screen()
        await wait_until(pilot, is_on_screen(app, "RunScreen"))


async def test_no_heading_of_the_ranking_is_empty(tmp_path: Path) -> None:
    """Check headings where the user's own line, drawn first in a long ranking, is the only best."""
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 16)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await pilot.press("m")
        await wait_until(
            pilot,
            lambda: not app.session.models.run.is_running and is_on_screen(app, "RunScreen")(),
        )
        best = app.session.models.run.ranked_results()[0].configuration.name
        table = app.screen.query_one(RankingTable)
        table.show(app.session.models.run, {}, app.session.state, best)
        assert "★" in table.heading.plain
        rows = [(option.id, str(option.prompt)) for option in table.options]
        below = zip(rows, [*rows[1:], (None, "")], strict=True)
        verdicts = [after for (name, text), after in below if name is None and text[0] == "─"]
        assert verdicts
        assert all(name is not None for name, _ in verdicts)


@pytest.mark.slow
async def test_cancelled_run_can_be_continued_from_the_footer(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, engine.holding.is_set)
        await pilot.press("d")  # the best one so far; what runs can be cancelled there, too
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await wait_until(pilot, lambda: "Cancel" in footer(app))
        await pilot.press("c")
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Run again" in footer(app) and "Cancel" not in footer(app))
        engine.go.set()
        await pilot.press("r")
        await wait_until(
            pilot, lambda: "Cancel" in footer(app) or not app.session.models.run.is_running
        )
        await wait_until(pilot, lambda: len(app.session.models.run.results_by_name()) == 8)
        await wait_until(pilot, lambda: "Run again" not in footer(app))


@pytest.mark.slow
async def test_lines_by_j_and_k(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        table = app.screen.query_one(RankingTable)
        await pilot.press("j", "j", "k")
        assert table.chosen == app.session.models.run.ranked_results()[1].configuration.name


async def test_profiles_show_counts_and_local_files_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name / "collection.anki2" for name in ("User 1", "User 2")]
    folders[0].parent.mkdir()
    write_collection(simulate_learner(3, 300), folders[0])
    with contextlib.closing(sqlite3.connect(folders[0])) as database:
        (answers,) = database.execute("select count(*) from revlog where ease > 0").fetchone()
    folders[1].parent.mkdir()
    folders[1].write_bytes(b"no database")
    working_folder = tmp_path / "here"
    working_folder.mkdir()
    (working_folder / "deck.apkg").touch()
    (working_folder / "picture.png").touch()
    monkeypatch.chdir(working_folder)
    profiles = [SimpleNamespace(name=path.parent.name, path=path) for path in folders]
    app = make_app(tmp_path, profiles=lambda: profiles)
    async with app.run_test(size=(120, 30)) as pilot:
        await wait_until(pilot, lambda: f"{answers:,} reviews" in screen_text(app))
        lines = screen_text(app).splitlines()
        first = next(line for line in lines if "User 1" in line)
        assert " · last " in first
        assert "reviews" not in next(line for line in lines if "  User 2" in line)
        assert "deck.apkg" in screen_text(app)
        assert "picture.png" not in screen_text(app)
    before = {path.name for path in folders[0].parent.iterdir()}
    assert before == {"collection.anki2"}  # looked at, never written


async def test_eight_local_files_are_offered_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working_folder = tmp_path / "here"
    working_folder.mkdir()
    for number in range(15):
        (working_folder / f"file{number:02}.colpkg").touch()
        os.utime(working_folder / f"file{number:02}.colpkg", (NOW, NOW + number % 4 * 60 + number))
    monkeypatch.chdir(working_folder)
    app = make_app(tmp_path)
    async with app.run_test(size=(160, 48)) as pilot:
        await wait_until(pilot, lambda: "… and 7 more: type ./ to see them" in screen_text(app))
        ids = [option.id or "" for option in app.screen.query_one(OptionList).options]
        files = [key.removeprefix("here:") for key in ids if key.startswith("here:")]
        changed = [(working_folder / file).stat().st_mtime for file in files]
        assert (
            changed
            == sorted((path.stat().st_mtime for path in working_folder.iterdir()), reverse=True)[:8]
        )
        assert "Try a simulated learner" in screen_text(app)


async def test_paths_are_told_apart_by_their_ends(tmp_path: Path) -> None:
    paths = [f"/a/folder/of/many/{name}/Anki2/User {name}/collection.anki2" for name in "xy"]
    save_state(State(recent=tuple(RecentFile(path, NOW, 12) for path in paths)), tmp_path)
    app = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "User x/collection.anki2" in screen_text(app))
        assert "User y/collection.anki2" in screen_text(app)


async def test_models_begin_before_the_previews_are_there(tmp_path: Path) -> None:
    """Check that the ranking does not wait for evidence without a line on the first screen."""
    go = threading.Event()

    def answer(log: ReviewLog, *, cancel: threading.Event, **_: Any) -> Iterator[Any]:
        answers = make_answers()
        questions = set(Overview.start(log).waiting) - NON_BLOCKING_QUESTIONS
        yield (
            tuple(finding for finding in answers if finding.question in questions),
            tuple(questions),
        )
        while not go.wait(0.01) and not cancel.is_set():
            pass
        rest = tuple(finding for finding in answers if finding.question in NON_BLOCKING_QUESTIONS)
        yield rest, tuple(NON_BLOCKING_QUESTIONS)

    engine = FakeEngine()
    app = make_app(tmp_path, FILE, answer=answer, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: len(app.session.models.run.results_by_name()) == 8)
        # FSRS_7 is asked only where the learner's program can run it.
        assert sorted(app.session.overview.waiting) == sorted(NON_BLOCKING_QUESTIONS - {FSRS_7})
        go.set()
        await wait_until(pilot, lambda: app.session.answers_ended_at is not None)
        assert len(engine.requests) == 1


@pytest.mark.slow
async def test_typed_pasted_and_dragged_text_is_a_path(tmp_path: Path) -> None:
    """Check all focuses of the first screen: none of its letters is a key."""
    app = make_app(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await wait_until(pilot, lambda: "^q Quit" in footer(app) and " q " not in footer(app))
        path = app.screen.query_one(Input)
        choices = app.screen.query_one(OptionList)
        for typed in ("/quit", "~/x", "jq"):
            path.clear()
            choices.focus()
            type_at_once(app, typed)
            await wait_until(pilot, lambda typed=typed: path.value == typed)
        for pasted, meant in (
            ("/a/b.colpkg", "/a/b.colpkg"),
            ("'/a folder/b.colpkg' \n", "/a folder/b.colpkg"),
            (r"/a\ folder/b\(1\).colpkg", "/a folder/b(1).colpkg"),
            ("file:///a%20folder/%E5%8D%95.colpkg", "/a folder/单.colpkg"),
        ):
            for focused in (choices, path):
                path.clear()
                focused.focus()
                app.post_message(events.Paste(pasted))
                await wait_until(pilot, lambda meant=meant: path.value == meant)
        assert app.is_running
        await pilot.press("ctrl+q")
        await wait_until(pilot, lambda: app._exit)
