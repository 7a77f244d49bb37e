"""Drive the terminal app as a person would: keys, mouse, sizes, broken files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events
from textual.widgets import Button, Input, OptionList, Select

import srs_eval
from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.ranking import add_baselines
from srs_eval.engine.run import Checking, Finished, Prepared, Progress, Run, Stage, Started
from srs_eval.models.configurations import readable_name, resolve_configurations
from srs_eval.tui.config import (
    GLOBAL_ACTIONS,
    SCREEN_ACTIONS,
    Config,
    RecentFile,
    State,
    load_state,
    save_state,
)
from srs_eval.tui.screens.base import AppScreen, TooSmall
from srs_eval.tui.screens.ranking import estimate_seconds_left
from srs_eval.tui.screens.themes import DARK_THEME, LIGHT_THEME
from srs_eval.tui.widgets.calibration import CalibrationChart
from srs_eval.tui.widgets.ranking import RankingTable
from tests.conftest import PATIENCE, SHARED
from tests.helpers.marks import slow_except
from tests.tui.app_world import (
    FILE,
    MODELS,
    FakeEngine,
    WatchedApp,
    configurations,
    is_on_screen,
    make_app,
    make_log,
    screen_text,
    to_import_summary,
    to_results,
    type_at_once,
    wait_until,
)
from tools.simulated import simulate_learner, write_collection, write_dataset


def order(app: SrsEvalApp) -> list[str]:
    """Return the models from top to bottom, without the headings between them."""
    return [
        readable_name(option.id)
        for option in app.screen.query_one(RankingTable).options
        if option.id
    ]


async def test_whole_way_by_keyboard(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await pilot.press(*"x.anki2", "enter")
        await to_import_summary(pilot)
        await wait_until(pilot, lambda: "count as reviews" in screen_text(app))
        import_summary = screen_text(app)
        assert "3,901 of 4,000 entries count as reviews (197 cards); 99 left out" in import_summary
        assert "not an answer (manual, reset or rescheduled)" in import_summary
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await wait_until(pilot, lambda: "8 of 8 models finished" in screen_text(app))
        ranked = order(app)
        assert ranked[:2] == ["FSRS-6 recency", "FSRS-6"]
        assert ranked.index("average") < ranked.index("SM2")
        assert ranked[-2:] == ["moving average", "FSRS-5 secs"]
        text = screen_text(app)
        assert "3,900 reviews · benchmark's (Anki's: 2,493)" in text
        assert "the baseline" in text
        headings = (
            "─ best ─",
            "─ worse ─",
            "═ online models, which learn from today's answers",
            "═ other reviews ═",
        )
        assert all(heading in text for heading in headings)
        await wait_until(pilot, lambda: "│ off by " in screen_text(app))

        await pilot.press("down", "enter")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await wait_until(pilot, lambda: "log loss" in screen_text(app))
        assert "place 2" in screen_text(app)
        await pilot.press("n")
        assert (
            app.screen.configuration
            == app.session.models.run.ranked_results()[2].configuration.name
        )  # type: ignore[attr-defined]
        await pilot.press("p", "escape")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        assert app.screen.query_one(RankingTable).chosen == "FSRS-6"

        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        await wait_until(pilot, lambda: "Better: " in screen_text(app))
        assert "Better: FSRS-6 recency" in screen_text(app)
        await pilot.press("s")
        assert app.screen.pair == ["FSRS-6-recency", "FSRS-6"]  # type: ignore[attr-defined]
        await pilot.press("escape", "escape")
        await wait_until(pilot, is_on_screen(app, "ImportSummaryScreen"))
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await pilot.press("ctrl+o")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        assert "x.anki2" in screen_text(app)  # among the recent files


@pytest.mark.slow
async def test_import_summary_counts_repeated_entries(tmp_path: Path) -> None:
    log = make_log()
    summary = replace(log.import_summary, entries_read=4_007, repeated=7)
    app = make_app(tmp_path, FILE, load=lambda *_, **__: replace(log, import_summary=summary))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await wait_until(pilot, lambda: "3,901 of 4,007 entries count" in screen_text(app))
        assert "106 left out" in screen_text(app)
        assert "in the file a second time" in screen_text(app)


@pytest.mark.slow
async def test_whole_way_by_mouse(tmp_path: Path) -> None:
    save_state(State(recent=(RecentFile(str(tmp_path / "mine.anki2"), 0.0, 12),)), tmp_path)
    app = make_app(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "mine.anki2" in screen_text(app))
        choices = app.screen.query_one(OptionList)
        await pilot.click(choices, offset=(5, 2))
        await to_import_summary(pilot)
        await pilot.click("#evaluate")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        table = app.screen.query_one(RankingTable)
        await wait_until(pilot, lambda: len(order(app)) == len(MODELS))
        third = app.session.models.run.ranked_results()[2].configuration.name
        offset = (8, table.get_option_index(third))
        await pilot.click(table, offset=offset)
        assert table.chosen == third
        assert not is_on_screen(app, "DetailsScreen")()
        await pilot.click(table, offset=offset)
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await pilot.click(offset=(screen_text(app).splitlines()[-1].index("Compare"), 29))
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))


@pytest.mark.slow
async def test_ranking_fills_while_models_finish(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    clock = SimpleNamespace(seconds=100.0)
    app = make_app(tmp_path, FILE, evaluate=engine, monotonic=lambda: clock.seconds)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, engine.holding.is_set)
        clock.seconds += 20
        await wait_until(pilot, lambda: "3 of 8 · 0:20 elapsed, about" in screen_text(app))
        text = screen_text(app)
        assert order(app)[:3] == ["average", "SM2", "DASH"]
        assert order(app)[-1] == "moving average"
        assert "▓▓▓▓░░░░░░░" in text
        assert "40%" in text
        assert "waiting" in text
        # The cursor stays with its model while others overtake it.
        await pilot.press("down")
        table = app.screen.query_one(RankingTable)
        assert table.chosen == "SM2"
        engine.go.set()
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await wait_until(pilot, lambda: "8 of 8" in screen_text(app))
        assert table.chosen == "SM2"
        assert table.highlighted == table.get_option_index("SM2")


@pytest.mark.parametrize("by", slow_except({"key"}, ["key", "palette"]))
async def test_cancel_keeps_what_is_done_and_runs_again(tmp_path: Path, by: str) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, engine.holding.is_set)
        await wait_until(pilot, lambda: "40%" in screen_text(app))
        if by == "key":
            await pilot.press("c")
        else:
            await pilot.press("ctrl+p")
            await wait_until(pilot, is_on_screen(app, "CommandPalette"))
            await pilot.press(*"cancel")
            await wait_until(pilot, lambda: "Stop what is still" in screen_text(app))
            await pilot.press("enter")
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        assert engine.closed.is_set()
        await wait_until(pilot, lambda: "Cancelled after" in screen_text(app))
        stages = [model.stage for model in app.session.models.run.models.values()]
        assert stages.count(Stage.DONE) == 3
        assert stages.count(Stage.CANCELLED) == 5
        engine.go.set()
        await pilot.press("r")
        await wait_until(pilot, lambda: len(app.session.models.run.results_by_name()) == 8)
        assert engine.requests[1] == list(MODELS)[3:]  # what is done is not done again


@pytest.mark.slow
async def test_an_evaluation_goes_on_behind_other_screens(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, engine.holding.is_set)
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "ImportSummaryScreen"))
        engine.go.set()
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        assert len(app.session.models.run.results_by_name()) == len(MODELS)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "8 of 8 models finished" in screen_text(app))
        assert len(engine.requests) == 1


async def test_broken_file_shows_an_error_and_another_can_be_opened(tmp_path: Path) -> None:
    broken = tmp_path / "broken.anki2"
    broken.write_bytes(b"SQLite format 3\0" + b"\x10" * 40)
    good = tmp_path / "good.anki2"
    write_collection(simulate_learner(3, 300), good)
    from srs_eval.anki_import import load_log

    app = make_app(tmp_path / "state", broken, load=load_log)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
        await wait_until(pilot, lambda: "Can't read this file" in screen_text(app))
        text = screen_text(app)
        assert "damaged" in text
        assert "Your file was not changed." in text
        assert "Traceback" not in text
        await pilot.click(Button)
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        app.screen.query_one(Input).focus()
        app.screen.query_one(Input).value = str(good)
        await pilot.press("enter")
        await to_import_summary(pilot)
    assert load_state(tmp_path / "state").recent[0].path == str(good)


BROKEN = sorted((SHARED / "anki" / "fixtures" / "broken").glob("*"))


@pytest.mark.slow
@pytest.mark.skipif(not BROKEN, reason="shared data anki/fixtures/broken is not here")
async def test_every_broken_fixture_leaves_the_app_usable(tmp_path: Path) -> None:
    from srs_eval.anki_import import load_log

    app = make_app(tmp_path, load=load_log)
    async with app.run_test(size=(80, 24)) as pilot:
        for path in BROKEN:
            if path.is_dir() or "bomb" in path.name:
                continue
            app.session.open_file(path)
            await wait_until(pilot, lambda: not is_on_screen(app, "OpenScreen")())
            if is_on_screen(app, "AnswersScreen")():  # one that Anki reads as a good collection
                await pilot.press("ctrl+o")
            else:
                assert is_on_screen(app, "ErrorDialog")(), path
                assert "unexpected" not in screen_text(app), path
                await pilot.press("escape")
            await wait_until(pilot, is_on_screen(app, "OpenScreen"))


@pytest.mark.slow
async def test_engine_that_refuses_or_breaks(tmp_path: Path) -> None:
    for error, words in (
        (InputError('There is no model "FSRS-66".'), 'There is no model "FSRS-66".'),
        (ZeroDivisionError("oops"), "Something unexpected happened (ZeroDivisionError: oops)."),
    ):
        app = make_app(tmp_path, FILE, evaluate=FakeEngine(error=error))
        async with app.run_test(size=(80, 24)) as pilot:
            await to_import_summary(pilot)
            await pilot.press("enter")
            await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
            await wait_until(pilot, lambda app=app, words=words: words in screen_text(app))
            await pilot.press("escape")
            await wait_until(pilot, is_on_screen(app, "ImportSummaryScreen"))


@pytest.mark.slow
async def test_failed_and_skipped_models_say_why(tmp_path: Path) -> None:
    engine = FakeEngine(failing=["DASH"], skipping=["SM2"])
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await wait_until(pilot, lambda: "· 1 failed · 1 skipped" in screen_text(app))
        assert order(app)[-4:] == ["SM2", "DASH", "moving average", "FSRS-5 secs"]
        await pilot.press("end", *["up"] * 2)
        await wait_until(pilot, lambda: "ZeroDivisionError" in screen_text(app))
        await pilot.press("up")
        await wait_until(pilot, lambda: "usable reviews (at" in screen_text(app))
        assert "least 6 are needed)" in screen_text(app)
        await pilot.press("enter")  # no figures, no details
        assert is_on_screen(app, "RunScreen")()


@pytest.mark.slow
async def test_marked_models_are_compared(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await pilot.press("down", "down", "space", "down", "space")
        await wait_until(pilot, lambda: "marked: FSRS-6 defaults and DASH" in screen_text(app))
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        assert app.screen.pair == ["FSRS-6-dry-run", "DASH"]  # type: ignore[attr-defined]
        app.screen.query_one("#right-model", Select).value = "FSRS-5-secs"
        await wait_until(pilot, lambda: "evaluated on different reviews" in screen_text(app))


@pytest.mark.slow
async def test_every_chart_has_a_table_and_bins_are_saved(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(120, 40)) as pilot:
        await to_results(pilot, app)
        for screen in ("RunScreen", "DetailsScreen", "CompareScreen"):
            await wait_until(pilot, is_on_screen(app, screen))
            for chart in app.screen.query(CalibrationChart):
                assert not chart.as_table
            await pilot.press("t")
            await wait_until(
                pilot, lambda: "reviews" in screen_text(app) and "95 %" in screen_text(app)
            )
            charts = list(app.screen.query(CalibrationChart))
            assert charts
            for chart in charts:
                assert chart.as_table
                assert chart.query_one("DataTable").display
            if screen == "DetailsScreen":
                await wait_until(pilot, lambda: "40 bins" in screen_text(app))
                await pilot.press("b")
                await wait_until(pilot, lambda: "10 bins" in screen_text(app))
            await pilot.press("t", "d" if screen == "RunScreen" else "v")
    assert load_state(tmp_path).bins == 10


def list_keys() -> list[str]:
    """Return the keys of all actions except `q`, and keys that move or do nothing."""
    keys = {"up", "down", "left", "right", "pageup", "pagedown", "home", "end", "tab", "shift+tab"}
    keys |= {"backspace", "1", "j", "k", "Q"}
    for action in chain.from_iterable(SCREEN_ACTIONS.values()):
        keys.update(action.key.split(","))
    return sorted(keys - {"q"})


@pytest.mark.slow
async def test_tiny_windows_ask_for_room(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(1, 1)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        for size in ((59, 16), (60, 15)):
            assert app.screen.query_one(TooSmall).display
            await pilot.resize_terminal(*size)
            await wait_until(pilot, lambda: "larger" in screen_text(app))
        await pilot.resize_terminal(80, 24)
        await wait_until(pilot, lambda: not app.screen.query_one(TooSmall).display)
        await wait_until(pilot, lambda: "models" in screen_text(app))
        await pilot.press("question_mark")
        await wait_until(pilot, is_on_screen(app, "HelpScreen"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "last"),
    [
        ("\x10", "CommandPalette"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("", "AnswersScreen"),
                ("m/a", "RunScreen"),  # in the filter, where letters are letters
                ("md?", "HelpScreen"),
                ("P", "ChooseScreen"),
                ("x", "ExportScreen"),
                ("i", "ImportSummaryScreen"),
                ("m", "RunScreen"),
                ("mf", "FamiliesScreen"),
                ("mv", "CompareScreen"),
                ("md", "DetailsScreen"),
            )
        ),
    ],
)
async def test_tiny_window_ignores_keys_except_quit(tmp_path: Path, way: str, last: str) -> None:
    """Check that other keys reach no lists that are hidden and cannot scroll."""
    app = make_app(tmp_path, FILE)
    tiny = (40, 10)
    async with app.run_test(size=(80, 24) if way else tiny) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )
        type_at_once(app, way)
        await wait_until(pilot, is_on_screen(app, last))
        await wait_until(pilot, lambda: not app._input.waiting)
        await pilot.resize_terminal(*tiny)
        await wait_until(pilot, lambda: "larger" in screen_text(app))
        stack = list(app.screen_stack)
        state = app.session.state
        for key in list_keys():
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        app.post_message(events.Paste("pasted"))
        await wait_until(pilot, lambda: not app._input.waiting)
        assert app.screen_stack == stack
        assert app.session.state == state
        assert not app._exit
        type_at_once(app, "q")
        await wait_until(pilot, lambda: app._exit)


@pytest.mark.slow
async def test_tiny_window_can_be_left_by_configured_keys(tmp_path: Path) -> None:
    for key, leaves in (("q", False), ("Q", True), ("f9", True), ("ctrl+c", True)):
        options = AppOptions(config=Config(keys={"quit": "Q,f9"}))
        app = make_app(tmp_path, options=options)
        async with app.run_test(size=(40, 10)) as pilot:
            await wait_until(pilot, is_on_screen(app, "OpenScreen"))
            await pilot.press("pagedown", key)
            assert app._exit == leaves


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [(60, 16), *(pytest.param(size, marks=pytest.mark.slow) for size in ((100, 60), (300, 20)))],
)
async def test_every_screen_draws_at_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=size) as pilot:
        await to_results(pilot, app)
        for key, name in (("d", "DetailsScreen"), ("v", "CompareScreen")):
            assert not app.screen.query_one(TooSmall).display
            await pilot.press(key)
            await wait_until(pilot, is_on_screen(app, name))
        for small in ((60, 16), (300, 20), size):
            await pilot.resize_terminal(*small)
            await wait_until(pilot, lambda: "log loss" in screen_text(app))


@pytest.mark.slow
async def test_help_and_palette_hold_every_action(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 90)) as pilot:
        await to_results(pilot, app)
        for key, name in ((None, "RunScreen"), ("d", "DetailsScreen"), ("v", "CompareScreen")):
            if key is not None:
                await pilot.press(key)
            await wait_until(pilot, is_on_screen(app, name))
            screen = app.screen
            assert isinstance(screen, AppScreen)
            commands = {command.title for command in app.get_system_commands(screen)}
            await pilot.press("question_mark")
            await wait_until(pilot, is_on_screen(app, "HelpScreen"))
            await wait_until(
                pilot, lambda screen=screen: screen.actions[-1].label in screen_text(app)
            )
            text = screen_text(app)
            for action in (*screen.actions, *GLOBAL_ACTIONS):
                assert action.label in text, action
                assert action.key_label.split()[0] in text, action
                runs = screen.check_action(action.name, ()) is not False
                if runs and action.name != "app.command_palette":
                    assert action.label in commands, action
            assert "Theme" in commands
            await pilot.press("escape")
            await wait_until(pilot, lambda screen=screen: app.screen is screen)


@pytest.mark.slow
async def test_theme_survives(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with app.run_test() as pilot:
        assert app.theme == DARK_THEME.name
        await pilot.press("ctrl+t")
        await wait_until(pilot, lambda: app.session.state.theme == LIGHT_THEME.name)
    app = make_app(tmp_path)
    assert app.theme == LIGHT_THEME.name
    async with app.run_test() as pilot:
        app.theme = "nord"
        await wait_until(pilot, lambda: app.session.state.dark_theme == "nord")
        await pilot.press("ctrl+t")
        assert app.theme == LIGHT_THEME.name
        await pilot.press("ctrl+t")
        assert app.theme == "nord"
    stored = json.loads((tmp_path / "app.json").read_text())
    stored["theme"] = "of a version to come"
    (tmp_path / "app.json").write_text(json.dumps(stored))
    assert make_app(tmp_path).theme == DARK_THEME.name


@pytest.mark.parametrize("theme", [DARK_THEME, LIGHT_THEME], ids=lambda theme: theme.name)
def test_own_themes_have_contrast(theme: Any) -> None:
    """Check the contrast that level AA of WCAG 2.1 asks of text: 4.5."""
    from textual.color import Color

    def contrast(ink_colour: str, ground_colour: str) -> float:
        light, dark = sorted((_luminance(ink_colour), _luminance(ground_colour)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    def _luminance(colour: str) -> float:
        channels = (value / 255 for value in Color.parse(colour).rgb)
        red, green, blue = (
            channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
            for channel in channels
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for ground in (theme.background, theme.surface, theme.panel):
        for ink in (theme.foreground, theme.primary, theme.secondary, theme.error):
            assert contrast(ink, ground) >= 4.5, (ink, ground)
    cursor = theme.variables
    assert contrast(cursor["block-cursor-foreground"], cursor["block-cursor-background"]) >= 4.5


@pytest.mark.slow
async def test_without_colour_the_cursor_is_still_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        assert app.no_color
        await wait_until(pilot, lambda: "│ off by " in screen_text(app))
        strips = app.screen._compositor.render_strips()
        colours = []
        for strip in strips:
            styles = [segment.style for segment in strip]
            colours.append({style.bgcolor.triplet for style in styles if style.bgcolor})
        for triplet in set.union(*colours):
            assert triplet.red == triplet.green == triplet.blue
        assert colours[3] != colours[4]  # the cursor's row, and the one after


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["q", *(pytest.param(key, marks=pytest.mark.slow) for key in ("ctrl+c", "ctrl+q"))]
)
async def test_leaving_while_models_run(tmp_path: Path, key: str) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, engine.holding.is_set)
        await pilot.press(key)
        await wait_until(pilot, lambda: app._exit)
    app.session.shut_down()
    assert engine.closed.is_set()
    assert not app.session.models.background.is_alive


async def test_interrupt_works_while_typing(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with app.run_test() as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await pilot.press("tab", "q", "question_mark")
        assert app.screen.query_one(Input).value == "q?"  # letters are letters there
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: app._exit)


async def test_paths_complete(tmp_path: Path) -> None:
    for name in ("alpha/deep", "alphabet"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "alpha" / "one.colpkg").touch()
    (tmp_path / "alpha" / "note.txt").touch()
    (tmp_path / "alpha" / "picture.png").touch()
    (tmp_path / ".hidden.colpkg").touch()
    app = make_app(tmp_path / "state")
    async with app.run_test() as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        path = app.screen.query_one(Input)
        path.focus()
        path.value = f"{tmp_path}/al"
        choices = app.screen.query_one(OptionList)

        def names() -> list[str]:
            return [option.id.rsplit("/", 1)[-1] for option in choices.options if option.id]

        await wait_until(pilot, lambda: len(names()) == 2)
        await pilot.press("end", "tab")
        await wait_until(pilot, lambda: path.value == f"{tmp_path}/alpha")
        path.value += "/"
        # deep/, then what may be read
        await wait_until(pilot, lambda: names() == ["", "note.txt", "one.colpkg"])
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: path.value == f"{tmp_path}/alpha/deep/")
        path.value = f"{tmp_path}/\0"
        await wait_until(pilot, lambda: "no match" in screen_text(app))


async def test_folders_without_a_profile_are_named(tmp_path: Path) -> None:
    folders = [tmp_path / "share" / "Anki2", tmp_path / "Documents" / "Anki"]
    app = make_app(tmp_path, profile_folders=lambda home: folders)
    async with app.run_test(size=(120, 30)) as pilot:
        await wait_until(pilot, lambda: "No Anki profile was found in" in screen_text(app))
        for folder in folders:
            assert str(folder) in screen_text(app)
        chosen = app.screen.query_one(OptionList).highlighted_option
        assert chosen is not None
        assert chosen.id == "demo"


async def test_profiles_are_offered(tmp_path: Path) -> None:
    profile = SimpleNamespace(name="User [1]", path=tmp_path / "collection.anki2")
    opened: list[Path] = []

    def load(path: Path, **_: Any) -> Any:
        opened.append(path)
        raise InputError("It is locked.")

    app = make_app(tmp_path, profiles=lambda: [profile], load=load)
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: "User [1]" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
    assert opened == [profile.path]


async def test_rows_of_a_table_cannot_be_switched(tmp_path: Path) -> None:
    from srs_eval.anki_import import load_log

    write_dataset({1: simulate_learner(1, 300)}, tmp_path / "data")
    app = make_app(tmp_path, tmp_path / "data", load=lambda path, **_: load_log(path, user=1))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("R")
        await pilot.pause()
        assert app.session.models.protocol.rows == "benchmark"
        rows = app.screen.query_one("#rows", Select)
        assert [value for _, value in rows._options] == ["benchmark"]


@pytest.mark.slow
async def test_rows_and_models_are_chosen(tmp_path: Path) -> None:
    engine = FakeEngine()
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("R")
        await wait_until(pilot, lambda: "reviews: Anki's (" in screen_text(app))
        assert app.session.models.protocol == Protocol(rows="anki")
        app.screen.query_one("#models", Select).value = "fsrs"
        await wait_until(pilot, lambda: app.session.models.requested == "fsrs")
        await pilot.press("m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
    requested = engine.requests[-1]  # all models have been asked for behind the answers
    assert "AVG" in requested  # the baseline joins
    chosen = resolve_configurations("fsrs,FSRS-6-own")  # what a preset holds joins FSRS-6
    assert sorted(requested) == sorted(
        configuration.name for configuration in add_baselines(chosen, excludes_deleted=False)
    )


@pytest.mark.slow
async def test_one_deck_only(tmp_path: Path) -> None:
    """Check `--deck` and `--no-cache` in the app; an unknown deck is an error with a suggestion."""
    requests: list[dict[str, Any]] = []
    engine = FakeEngine()

    def evaluate(log: Any, names: Any, protocol: Any, **keywords: Any) -> Any:
        requests.append({"cards": len(log.cards.card_id), **keywords})
        return engine(log, names, protocol, **keywords)

    options = AppOptions(decks=("japanese::words",), use_cache=False)
    app = make_app(tmp_path, FILE, evaluate=evaluate, options=options)
    async with app.run_test(size=(160, 40)) as pilot:
        await to_results(pilot, app)
        assert "japanese::words" in screen_text(app)
    assert requests[0]["cards"] < 190
    assert requests[0]["use_cache"] is False
    app = make_app(tmp_path, FILE, options=AppOptions(decks=("Japanesse",)))
    async with app.run_test(size=(160, 40)) as pilot:
        await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
        await wait_until(pilot, lambda: 'Did you mean "Japanese::Words"' in screen_text(app))


@pytest.mark.slow
async def test_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    app = make_app(tmp_path, tmp_path / "[red]x [b] $a.anki2")
    async with app.run_test(size=(160, 48)) as pilot:
        await to_import_summary(pilot)
        await wait_until(pilot, lambda: "[red]x [b] $a.anki2" in screen_text(app))
        tabs = app.screen.query_one("TabbedContent")
        tabs.active = "per-deck"  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: "Geography [rivers]" in screen_text(app))


@pytest.mark.slow
async def test_real_engine_gives_the_same_figures(tmp_path: Path) -> None:
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 1_500), path)
    names = "AVG,SM2,FSRS-6-dry-run"
    events = evaluate(srs_eval.load(path), names, jobs=0, use_cache=False)
    expected = {
        event.configuration.name: event.result.metrics
        for event in events
        if isinstance(event, Finished)
    }
    app = WatchedApp(
        path, AppOptions(models=names, jobs=1, folds_models=False), state_folder=tmp_path
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(
            pilot,
            lambda: is_on_screen(app, "RunScreen")() and not app.session.models.run.is_running,
        )
        await wait_until(pilot, lambda: "3 of 3 models finished" in screen_text(app))
        assert {
            name: r.metrics for name, r in app.session.models.run.results_by_name().items()
        } == expected
        for name, metrics in expected.items():
            assert readable_name(name) in order(app)
            assert f"{metrics.log_loss:.3f} ±" in screen_text(app)
    app.session.shut_down()
    assert not app.session.models.background.is_alive


@pytest.mark.slow
async def test_demo_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 300), small)
    monkeypatch.setattr("srs_eval.data.paths.DEMO_FILE", small)
    app = WatchedApp(state_folder=tmp_path, profiles=lambda: [])
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "simulated learner" in screen_text(app))
        await pilot.press("enter")
        await to_import_summary(pilot)
        await wait_until(pilot, lambda: "demo: a simulated learner" in screen_text(app))
    app.session.shut_down()
    assert load_state(tmp_path).recent == ()


@pytest.mark.slow
def test_first_screen_imports_no_heavy_packages(tmp_path: Path) -> None:
    code = textwrap.dedent(
        f"""
        import asyncio, sys
        from pathlib import Path
        from srs_eval.app import SrsEvalApp
        async def main():
            app = SrsEvalApp(state_folder=Path({str(tmp_path)!r}), profiles=lambda: [])
            async with app.run_test() as pilot:
                await pilot.pause()
        asyncio.run(main())
        heavy = "torch pandas numba sklearn scipy pyarrow".split()
        print([name for name in heavy if name in sys.modules])
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    "ending", ["ctrl-c", "closed", pytest.param("sigterm", marks=pytest.mark.slow)]
)
def test_leaving_the_app_leaves_no_process_behind(tmp_path: Path, ending: str) -> None:
    """Leave an evaluation with worker processes, in a real terminal."""
    import pty
    import select
    import signal
    import time

    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 1_500), path)
    terminal, app_side = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "LINES": "24",
        "COLUMNS": "80",
        "SRS_EVAL_STATE_DIR": str(tmp_path / "state"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "srs_eval.app", str(path)],
        stdin=app_side,
        stdout=app_side,
        stderr=app_side,
        env=environment,
        start_new_session=True,
    )
    os.close(app_side)
    seen = ""

    def read_until(words: str) -> None:
        nonlocal seen
        end = time.monotonic() + PATIENCE
        while words not in seen:
            assert time.monotonic() < end, seen[-2000:]
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 65536).decode("utf-8", "replace")

    def session() -> list[str]:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True
        )
        return listed.stdout.split()

    try:
        read_until("questions to go")
        os.write(terminal, b"m")
        read_until("waiting")
        end = time.monotonic() + PATIENCE
        while len(session()) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(session()) >= 2  # the app and its workers
        if ending == "ctrl-c":
            os.write(terminal, b"\x03")
        elif ending == "closed":  # and no signal tells so, for it does not control the process
            os.close(terminal)
        else:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        while ending != "closed" and process.poll() is None and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    os.read(terminal, 65536)
                except OSError:  # the other side is closed
                    break
        assert process.wait(timeout=PATIENCE) == 0
        end = time.monotonic() + PATIENCE
        while session() and time.monotonic() < end:
            time.sleep(0.05)
        assert session() == []
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if ending != "closed":
            os.close(terminal)


@pytest.mark.parametrize(
    ("configuration", "label"),
    [
        ("AVG", "average"),
        ("FSRS-6-recency", "FSRS-6 recency"),
        ("FSRS-6-dry-run", "FSRS-6 defaults"),
        ("FSRS-6-binary-deck", "FSRS-6 two buttons per deck"),
        ("FSRS-7-short-secs-recency", "FSRS-7"),
        ("FSRS-7-short-secs-recency-equalize_test_with_non_secs", "FSRS-7 equalized"),
        ("Anki-dry-run", "Anki-SM-2"),
        ("unheard-of", "unheard-of"),
    ],
)
def test_readable_name_of_configurations(configuration: str, label: str) -> None:
    assert readable_name(configuration) == label


def test_run_app_refuses_unknown_models() -> None:
    from srs_eval.app import run_app

    with pytest.raises(InputError, match="FSRS-66"):
        run_app(models="FSRS-66")


def test_compilation_is_shown_and_part_of_the_estimate() -> None:
    average, fsrs = configurations(["AVG", "FSRS-6"])
    evaluation = Run()
    evaluation.apply(Prepared(100, 50, (average, fsrs), frozenset({fsrs.name})), 0.0)
    evaluation.apply(Started(fsrs, needs_compilation=True), 0.0)
    assert evaluation.is_compiling
    assert estimate_seconds_left(evaluation, 0.5) is None  # nothing is known of this machine yet
    soon = estimate_seconds_left(evaluation, 1.0)
    usual = Run()
    usual.apply(Prepared(100, 50, (average, fsrs)), 0.0)
    usual.apply(Started(fsrs), 0.0)
    without = estimate_seconds_left(usual, 1.0)
    assert soon is not None
    assert without is not None
    assert soon > without + fsrs.model.cost.seconds_to_compile / 2
    evaluation.apply(Progress(fsrs, 0.5), 31.0)
    assert not evaluation.is_compiling
    assert estimate_seconds_left(evaluation, 32.0) is not None
    evaluation.apply(Checking(fsrs), 32.0)
    assert evaluation.models[fsrs.name].is_checking
