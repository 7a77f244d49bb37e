"""Names of the months on the first screen."""

from __future__ import annotations

import time

import pytest

from srs_eval.advice.shown.memory import _list_month_figures
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
