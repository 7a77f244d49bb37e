"""Check the chart of what a desired retention costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.app import App, ComposeResult

from srs_eval.advice.workload.estimate import RETENTIONS
from srs_eval.advice.workload.ranges import REVIEWS
from srs_eval.report.panes import PLAIN_STYLES
from srs_eval.tui.screens.answers import _CostsChart, _make_ticks
from srs_eval.tui.widgets.facts import render_evidence
from tests.tui.app_world import make_costs


class Shown(App[None]):
    def compose(self) -> ComposeResult:
        yield _CostsChart()


def points(app: App[None]) -> dict[str, tuple[float, float]]:
    """Return the position of each mark with a letter."""
    graph = app.query_one(_CostsChart).graph
    assert graph is not None
    return {mark.letter: (mark.x[0], mark.y[0]) for mark in graph.marks if mark.letter}


async def test_costs_chart_puts_the_dot_on_the_curve() -> None:
    first = make_costs(done=1)
    better = make_costs(desired=0.85, scale=0.5)
    app = Shown()
    async with app.run_test(size=(60, 40)):
        for costs in (first, better):
            app.query_one(_CostsChart).show_workload(costs)
            at = costs.figures[RETENTIONS.index(costs.desired), REVIEWS]
            assert points(app) == {"●": (costs.desired, pytest.approx(at))}
        app.query_one(_CostsChart).show_workload(replace(better, schedule="SM-2"))
        assert points(app) == {}  # no retention is asked for


async def test_highest_retentions_do_not_flatten_the_curve() -> None:
    app = Shown()
    async with app.run_test(size=(60, 40)):
        costs = make_costs()
        app.query_one(_CostsChart).show_workload(costs)
        graph = app.query_one(_CostsChart).graph
        assert graph is not None
        end_at_97 = costs.band[1][costs.at(0.97), REVIEWS]  # at 0.99 it is near 10,000
        assert end_at_97 < graph.y.high < 1.1 * end_at_97


@pytest.mark.parametrize("high", [3, 410, 1_100, 25_000])
def test_labels_have_room(high: float) -> None:
    ticks = _make_ticks(high)
    assert 2 <= len(ticks) <= 8
    assert all(0 <= value <= high and len(label) <= 3 for value, label in ticks)
    assert len({label for _, label in ticks}) == len(ticks)


def test_costs_evidence_begins_with_bars_then_three_sentences() -> None:
    lines = render_evidence(make_costs().finding, PLAIN_STYLES).draw(76).plain.splitlines()
    assert "minutes a day" in lines[0]
    assert "█" in lines[2]
    assert sum(line.endswith(".") for line in lines[: lines.index("More")]) <= 5
    assert any(line.startswith("asked for") for line in lines[lines.index("More") :])
