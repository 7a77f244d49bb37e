"""What the app copies is what Anki stores: the line is pasted through Anki itself (the wheel)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import srs_eval
from srs_eval.advice.sentences import format_parameters
from tests.tui.app_world import make_answers, make_app, screen_text, wait_until
from tools.simulated import simulate_learner, write_collection

WHY = "needs the anki wheel: pip install -e '.[dev]'"


def paste(collection: Path, preset: str, line: str) -> None:
    """Set a preset's parameters as Anki's deck options do.

    The field takes what stands between commas, blanks left out, as 32-bit numbers
    (ankitects/anki: ts/routes/deck-options/ParamsInput.svelte).
    """
    anki = pytest.importorskip("anki.collection", reason=WHY)
    from anki import deck_config_pb2

    opened = anki.Collection(str(collection))
    try:
        known = opened.decks.get_deck_configs_for_update(1)
        chosen = next(each.config for each in known.all_config if each.config.name == preset)
        values = [float(each) for each in line.replace(" ", "").split(",") if each]
        chosen.config.ClearField("fsrs_params_6")
        chosen.config.fsrs_params_6.extend(values)
        request = deck_config_pb2.UpdateDeckConfigsRequest(
            target_deck_id=1,
            configs=[chosen],
            limits=known.current_deck.limits,
            card_state_customizer=known.card_state_customizer,
            new_cards_ignore_review_limit=known.new_cards_ignore_review_limit,
            apply_all_parent_limits=known.apply_all_parent_limits,
            fsrs=True,
        )
        opened._backend.update_deck_configs_raw(request.SerializeToString())
    finally:
        opened.close()


async def test_the_copied_line_is_stored_unchanged(tmp_path: Path) -> None:
    pytest.importorskip("anki.collection", reason=WHY)
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 300), path)
    before = srs_eval.load(path)
    target = next(iter(before.presets.values()))
    copied = await copied_line(tmp_path)
    paste(path, target.name, copied)
    after = srs_eval.load(path).presets[target.id]
    assert len(after.active_parameters) == 21
    assert after.active_parameters != target.active_parameters
    assert format_parameters(after.active_parameters) == copied
    given = next(each.parameters for each in make_answers() if each.parameters)
    assert after.active_parameters == pytest.approx(given, abs=5e-5)


async def copied_line(folder: Path) -> str:
    """What `y` on the first preset's line puts on the clipboard."""
    app: Any = make_app(folder / "state", Path("collection.anki2"))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("y")
        await wait_until(pilot, lambda: app.clipboard)
        return str(app.clipboard)
