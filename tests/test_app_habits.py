"""What a person notices after a while: small faults that use has found, habits of the hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import OptionList, TabbedContent

from srs_eval.state import Recent, State, load_state, save_state
from srs_eval.widgets.calibration import CalibrationChart
from srs_eval.widgets.ranking import RankingTable
from tests.app_world import NOW, MadeUpEngine, make_app, on, text_of, to_receipt, until
from tests.test_app import FILE, to_results


def footer(app: object) -> list[str]:
    return [key.description for key in app.screen.query("FooterKey")]  # type: ignore[attr-defined]


async def test_a_picture_of_the_screen_without_a_folder_of_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("platformdirs.user_downloads_path", lambda: tmp_path / "Downloads")
    app = make_app(tmp_path / "state")
    async with app.run_test() as pilot:
        app.deliver_screenshot()
        await until(pilot, lambda: list(tmp_path.glob("*.svg")))


async def test_cancel_is_offered_when_the_rest_runs(tmp_path: Path) -> None:
    engine = MadeUpEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_receipt(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: engine.holding.is_set() and "Cancel" in footer(app))
        await pilot.press("c")
        await until(pilot, lambda: not app.evaluation.running)
        await until(pilot, lambda: "Cancel" not in footer(app))
        engine.holding.clear()
        await pilot.press("r")
        await until(pilot, engine.holding.is_set)
        await until(pilot, lambda: "Cancel" in footer(app))
        engine.go.set()
        await until(pilot, lambda: not app.evaluation.running)


async def test_a_narrow_table_of_calibration_tells_both_ends_of_an_interval(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await pilot.press("t")
        chart = app.screen.query_one(CalibrationChart)
        table = chart.query_one("DataTable")
        graph = app.graph(app.evaluation.ranked()[0].result)
        last = int(graph.count.nonzero()[0][-1])
        row = [str(cell) for cell in table.get_row_at(table.row_count - 1)]  # type: ignore[attr-defined]
        interval = f"{100 * graph.low[last]:.0f}–{100 * graph.high[last]:.0f}"
        assert row[2:] == [interval, str(int(graph.count[last]))]


async def test_no_figure_is_better_than_one_that_looks_the_same(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(120, 40)) as pilot:
        await to_results(pilot, app)
        await pilot.press("2")
        await until(pilot, on(app, "CompareScreen"))
        await until(pilot, lambda: "◀" in text_of(app))
        left, right = (app.evaluation.models[name] for name in app.screen.pair)  # type: ignore[attr-defined]
        assert left.result is not None
        metrics = left.result.metrics
        almost = replace(metrics, ici=metrics.ici + 1e-9, log_loss=metrics.log_loss + 1e-9)
        right.result = replace(left.result, metrics=almost)
        app.screen.update_now()  # type: ignore[attr-defined]
        await until(pilot, lambda: "◀" not in text_of(app))


async def test_compare_says_why_nothing_can_be_told(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        for name in ("FSRS-6", "FSRS-6-recency"):
            model = app.evaluation.models[name]
            assert model.result is not None
            few = {each: getattr(model.result, each)[:900] for each in ("y", "p", "day")}
            few |= {each: getattr(model.result, each)[:900] for each in ("bin", "review_th")}
            model.result = replace(model.result, size=900, **few)
        from srs_eval.screens.compare import CompareScreen

        app.push_screen(CompareScreen("FSRS-6", "FSRS-6-recency"))
        await until(pilot, lambda: "A verdict needs 1,000 such reviews" in text_of(app))


async def test_tabs_of_the_receipt_have_keys(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_receipt(pilot)
        tabs = app.screen.query_one(TabbedContent)
        seen = []
        for _ in range(4):
            await pilot.press("n")
            await pilot.pause()
            seen.append(tabs.active)
        assert seen == ["per-deck", "per-preset", "remarks", "what"]
        await pilot.press("p")
        await until(pilot, lambda: tabs.active == "remarks")


async def test_forgetting_is_offered_where_there_is_something_to_forget(tmp_path: Path) -> None:
    save_state(State(recent=(Recent(str(tmp_path / "mine.anki2"), NOW, 12),)), tmp_path)
    app = make_app(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "mine.anki2" in text_of(app))
        await until(pilot, lambda: "Forget" in footer(app))
        await pilot.press("delete")
        await until(pilot, lambda: "mine.anki2" not in text_of(app))
        await until(pilot, lambda: "Forget" not in footer(app))
        assert app.screen.query_one(OptionList).highlighted_option is not None


def keys(app: object) -> list[str]:
    """Of the ranking's rows, headings among them."""
    table = app.screen.query_one(RankingTable)  # type: ignore[attr-defined]
    return [str(row.key.value) for row in table.ordered_rows]


async def test_the_ranking_is_ordered_by_keys_and_headings(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(160, 48)) as pilot:
        await to_results(pilot, app)
        first = app.evaluation.groups()[0]
        await pilot.press("o")
        await until(pilot, lambda: app.state.order == "model")
        names = [line.configuration.name for line in first.ordered("model")]
        assert keys(app)[: len(names)] == names  # no headings: the verdict has a column
        assert "verdict" in text_of(app)
        table = app.screen.query_one(RankingTable)
        columns = list(table.columns)
        left = sum(table.columns[key].get_render_width(table) for key in columns[:-3])
        assert columns[-3].value == "RMSE(bins)"
        for backwards in (False, True):
            await pilot.click(table, offset=(left + 3, 0))
            await until(pilot, lambda: app.state.order == "RMSE(bins)")
            errors = [line.result.metrics.rmse_bins for line in first.ordered("RMSE(bins)")]
            assert errors == sorted(errors)
            names = [line.configuration.name for line in first.ordered("RMSE(bins)", backwards)]
            assert keys(app)[: len(names)] == names
    assert load_state(tmp_path).order == "RMSE(bins)"
    assert load_state(tmp_path).backwards


async def test_the_ranking_is_filtered_and_stays_so(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await pilot.press("slash", *"fsrs 6")
        await until(pilot, lambda: "Models · 3 of 8" in text_of(app))
        assert [key for key in keys(app) if key[0] != "\0"] == [
            *("FSRS-6-recency", "FSRS-6", "FSRS-6-dry-run")
        ]
        await pilot.press("enter", "down", "d")  # the list has the focus again
        await until(pilot, on(app, "DetailsScreen"))
        await pilot.press("escape", "slash", "escape")
        await until(pilot, lambda: len(keys(app)) > 8)
        await pilot.press("slash", *"dash", "enter")
    assert load_state(tmp_path).filter == "dash"


async def test_families_are_hidden_but_never_the_floor(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        await pilot.press("f")
        await until(pilot, on(app, "FamiliesScreen"))
        await pilot.press("space", "down", "space", "escape")
        await until(pilot, on(app, "RunScreen"))
        await until(pilot, lambda: "without F S" in text_of(app))
        assert [key for key in keys(app) if key[0] != "\0"] == ["DASH", "AVG", "MOVING-AVG"]
        await pilot.press("f", "escape")  # looking changes nothing
        await until(pilot, lambda: app.state.hidden == ("fsrs", "sm2"))


async def test_ones_own_scheduler_is_starred_pinned_and_compared_first(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        assert app.own_scheduler == "FSRS-6"
        assert "★F FSRS-6 yours" in text_of(app)
        assert text_of(app).count("yours") == 1
        await pilot.resize_terminal(80, 18)  # more rows than there is room for
        await until(pilot, lambda: text_of(app).count("yours") == 2)
        table = app.screen.query_one(RankingTable)
        await pilot.press("end")
        await until(pilot, lambda: table.chosen == "FSRS-5-secs")
        assert "yours" in text_of(app).splitlines()[3]  # below the headings of the columns
        table.choose("SM2")
        await pilot.press("2")
        await until(pilot, on(app, "CompareScreen"))
        assert app.screen.pair == ["FSRS-6", "SM2"]  # type: ignore[attr-defined]


async def test_intervals_are_drawn_where_there_is_room(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await to_results(pilot, app)
        await until(pilot, lambda: text_of(app).count("●") >= 3)
        drawn = [line for line in text_of(app).splitlines() if "├" in line and "┤" in line]
        assert len(drawn) == 8
        floor = next(line for line in drawn if "the floor" in line).index("═", 30)
        assert drawn[0][floor] == "┊"
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "├" not in text_of(app).split("╮")[0])


async def test_escape_asks_before_it_stops_a_run(tmp_path: Path) -> None:
    engine = MadeUpEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, on(app, "AnswersScreen"))
        await pilot.press("m")
        await until(pilot, lambda: engine.holding.is_set() and on(app, "RunScreen")())
        await pilot.press("escape")  # it goes on behind the answers
        await until(pilot, on(app, "AnswersScreen"))
        for answer in ("escape", "enter"):  # the harmless answer has the focus
            await pilot.press("escape")
            await until(pilot, on(app, "Question"))
            await pilot.press(answer)
            await until(pilot, on(app, "AnswersScreen"))
        assert app.evaluation.running
        await pilot.press("escape", "y")
        await until(pilot, on(app, "OpenScreen"))
        await until(pilot, engine.closed.is_set)
    app.shut_down()


async def test_after_cancelling_the_footer_offers_to_go_on(tmp_path: Path) -> None:
    engine = MadeUpEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_receipt(pilot)
        await pilot.press("enter")
        await until(pilot, engine.holding.is_set)
        await pilot.press("d")  # the best one so far; what runs can be cancelled there, too
        await until(pilot, on(app, "DetailsScreen"))
        await until(pilot, lambda: "Cancel" in footer(app))
        await pilot.press("c")
        await until(pilot, lambda: not app.evaluation.running)
        await pilot.press("escape")
        await until(pilot, lambda: "Run again" in footer(app) and "Cancel" not in footer(app))
        engine.go.set()
        await pilot.press("r")
        await until(pilot, lambda: len(app.evaluation.results()) == 8)
        await until(pilot, lambda: "Run again" not in footer(app))


async def test_lines_by_j_and_k_and_parts_by_letters(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await to_results(pilot, app)
        table = app.screen.query_one(RankingTable)
        await pilot.press("j", "j", "k")
        assert table.chosen == app.evaluation.ranked()[1].configuration.name
        await pilot.press("escape")
        await until(pilot, on(app, "ReceiptScreen"))
        await pilot.press("g")
        await until(pilot, on(app, "JumpScreen"))
        targets = list(app.screen._targets.items())  # type: ignore[attr-defined]
        assert all(f" {letter} " in text_of(app) for letter, _ in targets)
        letter, widget = next(each for each in targets if each[1].id == "models")
        await pilot.press(letter)
        await until(pilot, lambda: app.screen.focused is widget)
        await pilot.press("g", "escape")
        await until(pilot, lambda: app.screen.focused is widget)
