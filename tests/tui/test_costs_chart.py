"""What a desired retention costs, drawn: where today's stands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.app import App, ComposeResult

from srs_eval.advice.workload.estimate import RETENTIONS, REVIEWS
from srs_eval.report.panes import PLAIN_STYLES
from srs_eval.tui.screens.answers import _CostsChart, _make_ticks
from srs_eval.tui.widgets.facts import render_evidence
from tests.tui.app_world import make_costs


class Shown(App[None]):
    def compose(self) -> ComposeResult:
        yield _CostsChart()


def points(app: App[None]) -> dict[str, tuple[float, float]]:
    """Where each letter stands."""
    shown = app.query_one(_CostsChart).graph
    assert shown is not None
    return {each.letter: (each.x[0], each.y[0]) for each in shown.marks if each.letter}


async def test_a_dot_stands_on_the_curve_and_moves_with_what_is_known() -> None:
    first, better = make_costs(done=1), make_costs(desired=0.85, scale=0.5)
    app = Shown()
    async with app.run_test(size=(60, 40)):
        for found in (first, better):
            app.query_one(_CostsChart).show_workload(found)
            at = found.figures[RETENTIONS.index(found.desired), REVIEWS]
            assert points(app) == {"●": (found.desired, pytest.approx(at))}
        app.query_one(_CostsChart).show_workload(replace(better, schedule="SM-2"))
        assert points(app) == {}  # no retention is asked for


async def test_the_last_retentions_do_not_flatten_the_rest() -> None:
    app = Shown()
    async with app.run_test(size=(60, 40)):
        app.query_one(_CostsChart).show_workload(make_costs())
        shown = app.query_one(_CostsChart).graph
        assert shown is not None
        assert shown.y.high < 1.1 * 73  # the band at 0.97 ends at 73, at 0.99 near 10,000


@pytest.mark.parametrize("high", [3, 410, 1_100, 25_000])
def test_labels_have_room(high: float) -> None:
    ticks = _make_ticks(high)
    assert 2 <= len(ticks) <= 8
    assert all(0 <= value <= high and len(label) <= 3 for value, label in ticks)
    assert len({label for _, label in ticks}) == len(ticks)


def test_bars_with_what_they_say_come_first_then_three_sentences_then_the_rest() -> None:
    said = render_evidence(make_costs().finding, PLAIN_STYLES).draw(76).plain.splitlines()
    assert "minutes a day" in said[0]
    assert "█" in said[2]
    assert sum(each.endswith(".") for each in said[: said.index("More")]) <= 5
    assert said.index("More") < next(k for k, each in enumerate(said) if each.startswith("desired"))
