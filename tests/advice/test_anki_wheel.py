"""The parameters that the app copies are stored unchanged by Anki itself (the wheel)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.advice.sentences import format_parameters
from srs_eval.advice.workload.simulator import Memory
from srs_eval.advice.workload.today import collect_todays_cards, compute_memory_state
from srs_eval.data.days import DAY_S
from srs_eval.data.reviews import ReviewLog
from srs_eval.models.own_parameters import normalize_as_anki
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


def compute_anki_state(collection: Path, card: int) -> tuple[float, float]:
    """Return the stability and difficulty that Anki computes for a card from its reviews."""
    anki = pytest.importorskip("anki.collection", reason=WHY)
    opened = anki.Collection(str(collection))
    try:
        state = opened._backend.compute_memory_state(card).state
        return state.stability, state.difficulty
    finally:
        opened.close()


def test_states_of_cards_equal_anki_also_after_hard_on_the_same_day(tmp_path: Path) -> None:
    """Check all cards whose last answers were on one day, and some others."""
    pytest.importorskip("anki.collection", reason=WHY)
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(5, 1500), path)
    log = srs_eval.load(path)
    hard_again = find_cards_with_hard_on_the_same_day(log)
    assert log.schedule is not None
    group = log.preset_of(log.deck_of(log.schedule.card_id))
    checked_hard_again = 0
    for preset in np.unique(group).tolist():
        parameters = normalize_as_anki(log.presets[preset].active_parameters)
        today = collect_todays_cards(log, preset)
        state = compute_memory_state(today, Memory("FSRS-6", tuple(parameters)))
        with_history = today.card_id[today.histories.card].tolist()
        chosen = [card for card in with_history if card in hard_again][:20]
        checked_hard_again += len(chosen)
        for card in [*chosen, *with_history[:10]]:
            (k,) = np.flatnonzero(today.card_id == card)
            assert state[:, k] == pytest.approx(compute_anki_state(path, card), rel=1e-4), card
    assert checked_hard_again >= 5


def find_cards_with_hard_on_the_same_day(log: ReviewLog) -> set[int]:
    """Return the cards of which an answer after another on the same day was Hard."""
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    day = -((log.day_grid.next_day_at_s * 1000 - entries.time_ms) // (1000 * DAY_S))
    order = np.lexsort((entries.time_ms, entries.card_id))
    card, day, rating = entries.card_id[order], day[order], entries.rating[order]
    is_same_day = (card[1:] == card[:-1]) & (day[1:] == day[:-1]) & (rating[1:] == 2)
    return set(card[1:][is_same_day].tolist())


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
