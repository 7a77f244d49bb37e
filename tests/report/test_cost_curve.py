"""Check the curve of minutes that a tall window shows in the third pane."""

from __future__ import annotations

import pytest

from srs_eval.advice.sentences import CostCurve, Pane, PaneLine
from srs_eval.report.panes import count_hidden_items, render_pane

POINTS = ((0.82, 2.2), (0.86, 2.7), (0.90, 3.7), (0.95, 6.2))
LINE = PaneLine("To remember as much as with SM-2 (91 %), FSRS takes 4.1 minutes a day.")


def make_pane(current: tuple[float, float] | None) -> Pane:
    curve = CostCurve(POINTS, current, "with SM-2")
    return Pane("What would it cost?", LINE, (LINE, curve), ("costs",))


@pytest.mark.parametrize("current", [(0.91, 3.6), None])
def test_curve_rises_and_todays_schedule_is_a_dot(current: tuple[float, float] | None) -> None:
    lines = [line.plain for line in render_pane(make_pane(current), 66, 14)]
    assert len(lines) == 14
    assert all(len(line) <= 66 for line in lines)
    drawn = [line for line in lines if "│ " in line or "┤ " in line]
    assert drawn[0].startswith("6.2 ┤ ")
    assert drawn[-1].startswith("  0 ┤")
    # The rightmost dots are the highest, because the most remembered cards take the most time.
    ends = [len(line.rstrip()) for line in drawn if line[6:].strip(" ●")]
    assert ends == sorted(ends, reverse=True)
    assert sum("●" in line for line in drawn) == (current is not None)
    assert ("● with SM-2" in lines[-1]) == (current is not None)
    assert "82 %" in lines[-2]
    assert "95 %" in lines[-2]


def test_curve_is_left_out_where_it_has_no_room_or_no_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pane = make_pane((0.91, 3.6))
    assert len(render_pane(pane, 66, 8)) == 2  # the sentence
    assert count_hidden_items(pane, 66, 8) == 0
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.setattr("sys.platform", "linux")
    assert len(render_pane(pane, 66, 20)) == 2
