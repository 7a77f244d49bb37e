"""What a desired retention costs, drawn: where today's and the cheapest retention stand."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from srs_eval.advice.workload.answers import CostTable
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.costs import CostsChart, _ticks

RETENTIONS = tuple(percent / 100 for percent in range(70, 100))


def costs(now: float, cheapest: float, scale: float = 100.0) -> CostTable:
    """Reviews a day grow with the retention, and from 0.97 on beyond all measure."""
    reviews = tuple(scale * (each if each <= 0.971 else 90 * each) for each in RETENTIONS)
    return CostTable(
        "Words: 365 days",
        ("desired",),
        (),
        preset="Words",
        retentions=RETENTIONS,
        reviews=reviews,
        low=tuple(0.9 * each for each in reviews),
        high=tuple(1.1 * each for each in reviews),
        known=tuple(5_000 + 1_000 * each for each in RETENTIONS),
        now=now,
        cheapest=cheapest,
    )


class Shown(App[None]):
    def __init__(self, found: CostTable) -> None:
        super().__init__()
        self.found = found

    def compose(self) -> ComposeResult:
        yield CostsChart(self.found)


def points(app: App[None], graph: str) -> dict[str, tuple[float, float]]:
    """Where each letter stands."""
    shown = app.query_one(f"#{graph}", plot.Plot)._graph
    assert shown is not None
    return {
        each.letter: (each.x[0], each.y[0]) for each in shown.marks if isinstance(each, plot.Points)
    }


async def test_dots_stand_on_the_curve_and_move_with_what_is_known() -> None:
    first, better = costs(0.9, 0.75), costs(0.85, 0.7, scale=50.0)
    app = Shown(first)
    async with app.run_test(size=(60, 40)):
        for found in (first, better):
            app.query_one(CostsChart).show(found)
            for graph, values in (("reviews", found.reviews), ("known", found.known)):
                at = {each: values[RETENTIONS.index(each)] for each in (found.now, found.cheapest)}
                assert points(app, graph) == {
                    "●": (found.now, pytest.approx(at[found.now])),
                    "○": (found.cheapest, pytest.approx(at[found.cheapest])),
                }


async def test_the_last_retentions_do_not_flatten_the_rest() -> None:
    app = Shown(costs(0.9, 0.75))
    async with app.run_test(size=(60, 40)):
        shown = app.query_one("#reviews", plot.Plot)._graph
        assert shown is not None
        assert shown.y.high < 1.1 * 110  # the band at 0.97 ends at 107, at 0.99 near 10,000


@pytest.mark.parametrize(("low", "high"), [(0, 3), (12, 410), (4_900, 6_100), (900, 25_000)])
def test_labels_have_room(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert 2 <= len(ticks) <= 8
    assert all(low <= value <= high and len(label) <= 3 for value, label in ticks)
    assert len({label for _, label in ticks}) == len(ticks)
