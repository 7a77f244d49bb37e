"""Names of the months on the first screen."""

from __future__ import annotations

import time

import pytest

from srs_eval.advice.sentences import MonthBars, Pane, PaneLine
from srs_eval.advice.shown.memory import _list_month_figures
from srs_eval.report.panes import render_pane
from srs_eval.stats.intervals import Interval


@pytest.mark.parametrize(
    ("months", "year"),
    [
        (("2026-09", "2026-10"), ""),
        (("2024-09", "2024-10"), "’24"),
        (("2027-09", "2028-01"), "’27"),
    ],
)
def test_months_far_from_today_have_years(
    months: tuple[str, ...], year: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "2026-11")
    recalled = {month: Interval(0.9, 0.02, 200, 20) for month in months}
    assert _list_month_figures(recalled)[0].year == year


def test_months_between_are_gaps_and_the_last_one_is_always_there() -> None:
    recalled = {
        "2023-10": Interval(0.84, 0.02, 29, 5),  # too few, and not the last
        "2023-11": Interval(0.83, 0.02, 400, 20),
        "2024-01": Interval(0.88, 0.02, 200, 20),
        "2024-03": Interval(0.35, 0.1, 17, 2),
    }
    figures = _list_month_figures(recalled)
    labels = [month.label for month in figures]
    assert labels == ["Nov ’23", "Dec ’23", "Jan ’24", "Feb ’24", "Mar ’24"]
    assert [month.remembered for month in figures] == [83, None, 88, None, 35]
    assert [month.has_few_reviews for month in figures] == [False, False, False, False, True]
    assert not _list_month_figures({"2024-03": recalled["2024-03"]})


def test_low_bars_of_months_have_their_scale_beside_them() -> None:
    recalled = {"2024-01": Interval(0.75, 0.02, 200, 20), "2024-02": Interval(1.0, 0.02, 170, 20)}
    bars = MonthBars(_list_month_figures(recalled))
    pane = Pane("How well do I remember?", PaneLine(""), (bars,), ())
    lines = [line.plain.rstrip() for line in render_pane(pane, 60, 3)]
    assert lines == ["50-100 ┤ ▄▄▄ ███", "     %   75  100", "’24      Jan Feb"]


def test_months_are_drawn_on_one_scale_with_gaps() -> None:
    recalled = {
        "2023-11": Interval(1.0, 0.0, 400, 20),
        "2024-01": Interval(0.75, 0.02, 200, 20),
        "2024-02": Interval(0.9, 0.02, 17, 2),
        "2024-03": Interval(0.5, 0.02, 17, 2),
    }
    bars = MonthBars(_list_month_figures(recalled))
    pane = Pane("How well do I remember?", PaneLine(""), (bars,), ())
    lines = [line.plain.rstrip() for line in render_pane(pane, 60, 6)]
    assert lines == [
        "100 ┤ ███",
        "    │ ███",
        "    │ ███     ███",
        " 50 ┤ ███     ███",
        "  %   100 –   75  few 50?",
        "’23   Nov Dec ’24 Feb Mar",
    ]


def test_month_below_the_scale_has_an_arrow() -> None:
    recalled = {"2024-01": Interval(0.75, 0.02, 200, 20), "2024-02": Interval(0.35, 0.02, 170, 20)}
    bars = MonthBars(_list_month_figures(recalled))
    pane = Pane("How well do I remember?", PaneLine(""), (bars,), ())
    lines = [line.plain.rstrip() for line in render_pane(pane, 60, 5)]
    assert lines[2:] == [" 50 ┤ ███ ↓↓↓", "  %   75  35", "’24   Jan Feb"]
