"""Check that the ranking folds the models that Anki cannot use, and shows them when asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.cli import learner
from srs_eval.cli.main import main
from srs_eval.cli.settings import RankingOptions
from srs_eval.tui.config import load_state
from srs_eval.tui.models import _find_unusable
from srs_eval.tui.screens.details import DetailsScreen
from srs_eval.tui.widgets.ranking import FOLD_LINE, RankingTable
from tests.helpers.marks import slow_except
from tests.tui.app_world import (
    FILE,
    MODELS,
    FakeEngine,
    configurations,
    is_on_screen,
    make_app,
    make_log,
    screen_text,
    to_import_summary,
    to_results,
    wait_until,
)

USABLE = ["FSRS-6-recency", "FSRS-6", "FSRS-6-dry-run", "AVG"]
SIZE = (100, 30)


def line_ids(app: SrsEvalApp) -> list[str]:
    """Return the ids of the lines that can be chosen, from top to bottom."""
    return [option.id for option in app.screen.query_one(RankingTable).options if option.id]


async def open_ranking(pilot: Any) -> None:
    """Open the ranking while models may still run."""
    await to_import_summary(pilot)
    await pilot.press("enter")
    await wait_until(pilot, is_on_screen(pilot.app, "RunScreen"))


async def test_ranking_folds_unusable_models_until_they_are_shown(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, folds_models=True)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        assert line_ids(app) == [*USABLE, FOLD_LINE]
        text = screen_text(app)
        assert "▸ 4 models that Anki cannot use: press a to show them" in text
        assert "4 of 8" in text
        assert "8 of 8 models finished" in text
        assert "online models" not in text
        assert "Among all models, including the hidden ones: FSRS-6 recency" in " ".join(
            text.split()
        )
        assert len(app.session.models.run.results_by_name()) == len(MODELS)
        await pilot.press("a")
        assert set(line_ids(app)) == set(MODELS)
        assert "folded" not in screen_text(app)
    assert load_state(tmp_path).shows_all_models
    again = make_app(tmp_path, FILE, folds_models=True)
    async with again.run_test(size=SIZE) as pilot:
        await to_results(pilot, again)
        assert set(line_ids(again)) == set(MODELS)
        await pilot.press("a")
        assert line_ids(again) == [*USABLE, FOLD_LINE]
    assert not load_state(tmp_path).shows_all_models


async def test_enter_and_click_on_fold_line_and_a_filter_unfold(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, folds_models=True)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        await pilot.press("end")
        assert app.screen.query_one(RankingTable).chosen == FOLD_LINE
        await wait_until(pilot, lambda: "Hidden models" in screen_text(app))
        await pilot.press("enter")
        assert set(line_ids(app)) == set(MODELS)
        await pilot.press("a")
        assert line_ids(app) == [*USABLE, FOLD_LINE]
        lines = screen_text(app).splitlines()
        row = next(number for number, line in enumerate(lines) if "▸ 4 models" in line)
        await pilot.click(offset=(10, row))
        await pilot.pause()
        assert set(line_ids(app)) == set(MODELS)
        await pilot.press("a")
        await pilot.press("slash", *"dash")
        await wait_until(pilot, lambda: line_ids(app) == ["DASH"])
        assert not app.screen.check_action("fold", ())
        await pilot.press("escape")
        await wait_until(pilot, lambda: line_ids(app) == [*USABLE, FOLD_LINE])


async def test_hidden_families_unfold_the_others(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, folds_models=True)
    app.session.state = replace(app.session.state, hidden=("fsrs",))
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        assert set(line_ids(app)) == {"AVG", "MOVING-AVG", "SM2", "DASH"}


async def test_running_folded_models_are_counted(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("SM2", 2))
    app = make_app(tmp_path, FILE, folds_models=True, evaluate=engine)
    async with app.run_test(size=SIZE) as pilot:
        await open_ranking(pilot)
        await wait_until(pilot, lambda: "4 models that" in screen_text(app))
        await wait_until(
            pilot, lambda: "3 still running: press" in " ".join(screen_text(app).split())
        )
        assert "SM2" not in line_ids(app)
        assert "FSRS-6" in line_ids(app)  # it waits, and Anki can use it
        engine.go.set()
        await wait_until(pilot, lambda: "▸ 4 models that Anki cannot use: p" in screen_text(app))


async def test_details_pass_over_folded_models(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, folds_models=True)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        await pilot.press("home", "enter")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        assert isinstance(app.screen, DetailsScreen)
        seen = [app.screen.configuration]
        for _ in MODELS:
            await pilot.press("n")
            seen.append(app.screen.configuration)
        assert list(dict.fromkeys(seen)) == USABLE
        await pilot.press("escape")
        folded = next(name for name in MODELS if name not in USABLE)
        await app.push_screen(DetailsScreen(app.session.models.run, folded, frozenset(MODELS)))
        await pilot.press("n", "p")  # there is no other model to go to
        assert isinstance(app.screen, DetailsScreen)
        assert app.screen.configuration == folded


@pytest.mark.parametrize("models", slow_except({"AVG,SM2,DASH"}, ["all", "AVG,SM2,DASH"]))
async def test_nothing_is_folded_that_was_named(tmp_path: Path, models: str) -> None:
    options = AppOptions(models=models, folds_models=False)
    app = make_app(tmp_path, FILE, folds_models=True, options=options)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        assert FOLD_LINE not in line_ids(app)
        assert "DASH" in line_ids(app)


async def test_models_chosen_in_the_app_are_not_folded(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, folds_models=True)
    app.session.models.requested = "fast"
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        assert FOLD_LINE not in line_ids(app)


async def test_nothing_is_folded_for_another_program(tmp_path: Path) -> None:
    log = make_log()
    log = replace(log, import_summary=replace(log.import_summary, app_name="SuperMemo"))
    app = make_app(tmp_path, FILE, folds_models=True, load=lambda *_, **__: log)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        assert FOLD_LINE not in line_ids(app)


async def test_no_fold_line_without_unusable_models(tmp_path: Path) -> None:
    engine = FakeEngine(["AVG", "FSRS-6", "FSRS-6-recency"])
    app = make_app(tmp_path, FILE, folds_models=True, evaluate=engine)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        assert FOLD_LINE not in line_ids(app)
        assert not app.screen.check_action("fold", ())


async def test_answer_names_first_usable_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "DASH", (1.05, 0.0, False))  # the best of all
    engine = FakeEngine(["AVG", "DASH", "FSRS-6-dry-run"])
    app = make_app(tmp_path, FILE, folds_models=True, evaluate=engine)
    async with app.run_test(size=SIZE) as pilot:
        await to_results(pilot, app)
        text = " ".join(screen_text(app).split())
        first = "Of the models that Anki can use, FSRS-6 defaults comes first."
        assert f"{first} Among all models, including the hidden ones: DASH predicts best" in text


def test_find_unusable_keeps_what_a_learner_has() -> None:
    names = ["AVG", "SM2", "Anki-dry-run", "FSRS-6", "FSRS-6-own", "DASH"]
    run = configurations(names)
    assert _find_unusable(run, "Anki-dry-run") == {"SM2", "DASH"}
    assert _find_unusable(run, "DASH") == {"SM2"}
    with_short = (*run, *configurations(["AVG-short-secs", "FSRS-5-secs"]))
    assert {"AVG-short-secs", "FSRS-5-secs"} <= _find_unusable(with_short, None)


@pytest.mark.parametrize(
    ("arguments", "is_named"),
    [
        (["x.anki2"], False),
        (["demo"], False),
        (["x.anki2", "--models", "all"], True),
        (["demo", "--models", "fsrs"], True),
    ],
)
def test_option_models_names_the_models(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_named: bool
) -> None:
    rankings: list[RankingOptions] = []

    def keep(ranking: RankingOptions) -> int:
        rankings.append(ranking)
        return 0

    monkeypatch.setattr(learner, "_open_app_or_rank", keep)
    assert main(arguments) == 0
    assert [ranking.has_named_models for ranking in rankings] == [is_named]
