"""Check that several events in one burst, as a terminal sends them to a busy app, do no harm."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual import events
from textual.widgets import OptionList
from textual.widgets._toast import Toast

from srs_eval.data.errors import InputError
from srs_eval.engine.run import ModelRun
from srs_eval.stats.tables import Table
from srs_eval.tui.config import RecentFile, State, save_state
from srs_eval.tui.screens.details import DetailsScreen
from srs_eval.tui.screens.dialogs import ConfirmDialog
from srs_eval.tui.widgets.ranking import RankingTable
from tests.helpers.marks import slow_except
from tests.tui.app_world import (
    FILE,
    MODELS,
    NOW,
    FakeAnswers,
    FakeEngine,
    click_at_once,
    is_on_screen,
    make_app,
    mouse,
    screen_of,
    screen_text,
    to_results,
    type_at_once,
    wait_until,
)


async def test_two_clicks_beside_the_palette_close_it_only(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        type_at_once(app, "\x10")
        await wait_until(pilot, is_on_screen(app, "CommandPalette"))
        click_at_once(app, 2, 22, times=2)
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        assert app.is_running


@pytest.mark.slow
async def test_three_clicks_on_a_command_run_it_once(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )
        type_at_once(app, "\x10help")
        await wait_until(pilot, lambda: "Explain this screen" in screen_text(app))
        lines = screen_text(app).splitlines()
        row = next(number for number, line in enumerate(lines) if "Help" in line)
        click_at_once(app, 30, row, times=3)
        await wait_until(pilot, is_on_screen(app, "HelpScreen"))
        assert app.opened.count("HelpScreen") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "screen", "keys"),
    [
        ("d", "DetailsScreen", "pnbtt\x14\x14cv"),
        ("de", "ErrorsScreen", "l\x14\x14l"),
        ("v", "CompareScreen", "sbtt\x14\x14"),
        ("", "RunScreen", " ofRR/a\x1b\rdv\x14\x14"),
    ],
)
async def test_screens_survive_a_cancelled_and_restarted_ranking(
    tmp_path: Path, way: str, screen: str, keys: str
) -> None:
    """Check keys on a screen whose ranking was cancelled and then started again by the answers."""
    engine = FakeEngine(hold_at=("DASH", 3))
    answers = FakeAnswers(hold_at="split")
    app = make_app(tmp_path, FILE, evaluate=engine, answer=answers)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await wait_until(
            pilot, lambda: answers.holding.is_set() and is_on_screen(app, "AnswersScreen")()
        )
        type_at_once(app, "m")
        await wait_until(
            pilot, lambda: engine.holding.is_set() and is_on_screen(app, "RunScreen")()
        )
        before = app.session.models.run
        await wait_until(pilot, lambda: app.screen.query_one(RankingTable).chosen is not None)
        type_at_once(app, way)
        await wait_until(pilot, is_on_screen(app, screen))
        await wait_until(pilot, lambda: not app._input.waiting)
        type_at_once(app, "c")
        await wait_until(pilot, lambda: not before.is_running)
        engine.hold_at = ("AVG", 1)
        engine.holding.clear()
        answers.go.set()
        await wait_until(pilot, engine.holding.is_set)
        assert not app.session.models.run.results_by_name()
        type_at_once(app, keys)
        await wait_until(pilot, lambda: not app._input.waiting)
        assert app.is_running
        engine.go.set()
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        type_at_once(app, "\x1b" * 4 + "m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))


@pytest.mark.slow
async def test_details_keep_the_models_they_were_opened_with(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        names = [line.configuration.name for line in app.session.models.run.ranked_results()]
        await pilot.press("d")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        details = screen_of(app, DetailsScreen)
        app.session.models.start()
        await pilot.press("n", "n", "p")
        assert details.configuration == names[1]
        await wait_until(pilot, lambda: "place 2" in screen_text(app))


@pytest.mark.parametrize("key", slow_except({"?"}, ["\x10", "?", "x", "P", "i", "m", "w"]))
async def test_screen_closed_twice_closes_no_other(tmp_path: Path, key: str) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        app.push_screen(ConfirmDialog("Sure?", "It is a question.", "Yes", "No"))
        type_at_once(app, "n" + key)
        await wait_until(pilot, lambda: len(app.screen_stack) == 3 and not app._input.waiting)
        screen = app.screen
        screen.dismiss()
        screen.dismiss()
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        app.screen_stack[0].dismiss()  # the first screen stays, too
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))


async def test_two_clicks_on_a_key_of_the_footer_open_one_screen(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "m Models" in screen_text(app))
        *_, last = screen_text(app).splitlines()
        click_at_once(app, last.index("Models"), 23, times=2)
        await wait_until(pilot, lambda: not app._input.waiting and is_on_screen(app, "RunScreen")())
        assert app.opened.count("RunScreen") == 1


@pytest.mark.parametrize("is_pressed_before", [True, False])
async def test_a_drag_over_a_toast_that_goes_selects_nothing(
    tmp_path: Path, is_pressed_before: bool
) -> None:
    app = make_app(tmp_path)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        app.notify("something is said", timeout=600)
        await wait_until(pilot, lambda: "something is said" in screen_text(app))
        (toast,) = app.screen.query(Toast)
        x, y = (int(coordinate) for coordinate in toast.region.center)
        if is_pressed_before:
            app.post_message(mouse(events.MouseDown, x, y))
            await wait_until(pilot, lambda: not app._input.waiting)
        await toast.remove()
        assert app.get_widget_at(x, y)[0] is toast  # where it was drawn
        if not is_pressed_before:
            app.screen._forward_event(mouse(events.MouseDown, x, y))
        for step in range(5):
            app.screen._forward_event(mouse(events.MouseMove, x - step, y - step))
        app.screen._forward_event(mouse(events.MouseUp, x - 4, y - 4))
        await pilot.pause()
        assert app.is_running


@pytest.mark.slow
@pytest.mark.parametrize("way", slow_except({"m/a"}, ["", "\x10", "m/a", "md?", "x"]))
async def test_tiny_window_can_be_left_by_ctrl_q(tmp_path: Path, way: str) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )
        type_at_once(app, way)
        await wait_until(pilot, lambda: not app._input.waiting)
        await pilot.resize_terminal(59, 15)
        await wait_until(pilot, lambda: "larger" in screen_text(app))
        app.post_message(events.Key("ctrl+q", None))
        await wait_until(pilot, lambda: app._exit)
    assert app.return_code == 0


@pytest.mark.slow
async def test_leaving_does_not_wait_for_tables_of_errors(tmp_path: Path) -> None:
    """Check that errors are computed by a daemon thread, for which Python does not wait."""
    app = make_app(tmp_path, FILE)
    threads: list[threading.Thread] = []
    go = threading.Event()

    def errors_of(model: ModelRun) -> list[Table]:
        threads.append(threading.current_thread())
        go.wait()
        return []

    app.session.models.errors_of = errors_of  # type: ignore[method-assign]
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        type_at_once(app, "de")
        await wait_until(pilot, lambda: threads)
        assert threads[0].daemon
        type_at_once(app, "q")
        await wait_until(pilot, lambda: app._exit)
    go.set()


@pytest.mark.slow
async def test_missing_error_tables_are_explained(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)

    def errors_of(model: ModelRun) -> list[Table]:
        raise InputError("There is nothing to compare.")

    app.session.models.errors_of = errors_of  # type: ignore[method-assign]
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        type_at_once(app, "de")
        await wait_until(pilot, is_on_screen(app, "ErrorsScreen"))
        await wait_until(pilot, lambda: "There is nothing to compare." in screen_text(app))


@pytest.mark.slow
async def test_closing_a_file_closes_the_screens_above_it(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, engine.holding.is_set)
        type_at_once(app, "m\x1b\x0f")
        await wait_until(pilot, is_on_screen(app, "ConfirmDialog"))
        question = app.screen
        question.dismiss(True)
        app.show_error("Can't answer this", InputError("Something."))
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        assert len(app.screen_stack) == 1
    app.session.shut_down()


@pytest.mark.slow
@pytest.mark.parametrize("key", slow_except({"pageup"}, ["pageup", "pagedown"]))
async def test_paging_a_hidden_list_does_nothing(tmp_path: Path, key: str) -> None:
    """Check the list of the palette, which is hidden where nothing matches."""
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        type_at_once(app, "\x10")
        await wait_until(pilot, is_on_screen(app, "CommandPalette"))
        hidden = app.screen.query_one(OptionList)
        hidden.display = False
        await wait_until(pilot, lambda: not hidden.region)
        hidden.set_options(["one", "two"])
        hidden.highlighted = 0
        app.post_message(events.Key(key, None))
        await wait_until(pilot, lambda: not app._input.waiting)
        assert app.is_running


@pytest.mark.slow
async def test_path_in_an_unknown_home_is_refused(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        type_at_once(app, "~nobody-has-this-name/")
        await wait_until(pilot, lambda: "no match" in screen_text(app))
        type_at_once(app, "\r")
        await wait_until(pilot, lambda: not app._input.waiting)
        assert app.is_running


async def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    from srs_eval.anki_import import load_log

    save_state(State(recent=(RecentFile(str(tmp_path / "mine.anki2"), NOW, 12),)), tmp_path)
    app = make_app(tmp_path, load=load_log)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        app.post_message(events.Paste("x" * 5_000))
        type_at_once(app, "\r")
        await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
