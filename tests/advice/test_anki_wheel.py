"""The parameters that the app copies are stored unchanged by Anki itself (the wheel)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import srs_eval
from srs_eval.advice.sentences import format_parameters
from tests.tui.app_world import make_answers, make_app, screen_text, wait_until
from tools.simulated import simulate_learner, write_collection

WHY = "needs the anki wheel: pip install -e '.[dev]'"


def paste_parameters(collection: Path, preset: str, line: str) -> None:
    """Set a preset's parameters as Anki's deck options do.

    The field takes what stands between commas, blanks left out, as 32-bit numbers
    (ankitects/anki: ts/routes/deck-options/ParamsInput.svelte).
    """
    anki = pytest.importorskip("anki.collection", reason=WHY)
    from anki import deck_config_pb2

    opened = anki.Collection(str(collection))
    try:
        answer = opened.decks.get_deck_configs_for_update(1)
        chosen = next(
            preset_config.config
            for preset_config in answer.all_config
            if preset_config.config.name == preset
        )
        values = [float(value) for value in line.replace(" ", "").split(",") if value]
        chosen.config.ClearField("fsrs_params_6")
        chosen.config.fsrs_params_6.extend(values)
        request = deck_config_pb2.UpdateDeckConfigsRequest(
            target_deck_id=1,
            configs=[chosen],
            limits=answer.current_deck.limits,
            card_state_customizer=answer.card_state_customizer,
            new_cards_ignore_review_limit=answer.new_cards_ignore_review_limit,
            apply_all_parent_limits=answer.apply_all_parent_limits,
            fsrs=True,
        )
        opened._backend.update_deck_configs_raw(request.SerializeToString())
    finally:
        opened.close()


async def test_copied_line_is_stored_by_anki_unchanged(tmp_path: Path) -> None:
    pytest.importorskip("anki.collection", reason=WHY)
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 300), path)
    before = srs_eval.load(path)
    target = next(iter(before.presets.values()))
    copied = await copy_first_parameters(tmp_path)
    paste_parameters(path, target.name, copied)
    after = srs_eval.load(path).presets[target.id]
    assert len(after.active_parameters) == 21
    assert after.active_parameters != target.active_parameters
    assert format_parameters(after.active_parameters) == copied
    parameters = next(finding.parameters for finding in make_answers() if finding.parameters)
    assert after.active_parameters == pytest.approx(parameters, abs=5e-5)


async def copy_first_parameters(folder: Path) -> str:
    """Return what `y` on the first preset's line puts on the clipboard."""
    app: Any = make_app(folder / "state", Path("collection.anki2"))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("y")
        await wait_until(pilot, lambda: app.clipboard)
        return str(app.clipboard)
