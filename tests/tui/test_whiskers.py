"""Check intervals as dots with whiskers: one scale, in order, nothing lost at the edges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.advice.shown.columns import (
    EXPECTED,
    RECALLED,
    log_loss_difference,
    make_evidence_table,
)
from srs_eval.report.cells import format_rows
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Column, Figure, Table
from srs_eval.tui.widgets.facts import _draw_intervals, render_table_with_intervals
from srs_eval.tui.widgets.plot import fit_scale

losses = st.floats(0.05, 3.0)
halves = st.floats(0.0, 0.5) | st.just(math.nan)
intervals = st.builds(Interval, losses, halves)


@given(st.lists(intervals, min_size=1, max_size=12), st.integers(8, 80), st.booleans())
def test_every_line_has_the_width_of_the_scale(
    drawn: list[Interval], width: int, has_baseline: bool
) -> None:
    baseline = drawn[0] if has_baseline else None
    scale = fit_scale(drawn, width, baseline)
    assert scale is not None
    line = None if baseline is None else baseline.estimate
    assert len(scale.draw_labels(line, "").plain) == width
    for interval in drawn:
        text = scale.draw_interval(interval, "●", "", line, "").plain
        assert len(text) == width
        assert ("●" in text) != ("▸" in text)  # where it lies, or that it lies beyond


@given(st.lists(intervals, min_size=2, max_size=12), st.integers(8, 80))
def test_dots_keep_their_order(drawn: list[Interval], width: int) -> None:
    scale = fit_scale(drawn, width)
    assert scale is not None
    drawn.sort(key=lambda interval: interval.estimate)
    dots = [scale.draw_interval(interval, "●", "", None, "").plain.index("●") for interval in drawn]
    assert dots == sorted(dots)


def test_scale_marks_the_baseline_and_omits_distant_intervals() -> None:
    baseline = Interval(0.5, 0.02)
    best = Interval(0.4, 0.02)
    lost = Interval(3.0, 0.1)
    scale = fit_scale([best, baseline, lost], 40, baseline)
    assert scale is not None
    assert scale.high < 0.6
    text = scale.draw_interval(best, "●", "", baseline.estimate, "").plain
    assert text.index("├") < text.index("●") < text.index("┤") < text.index("┊")
    assert text.index("┊") == scale.column(0.5)
    assert scale.draw_interval(lost, "●", "", None, "").plain.strip() == "▸"


def test_scale_fits_the_data_and_shows_a_crossed_baseline() -> None:
    baseline = Interval(0.36, 0.03)
    best = Interval(0.31, 0.017)
    worse = Interval(0.40, 0.03)
    crossing = Interval(0.35, 0.02)
    scale = fit_scale([best, worse, crossing, baseline], 40, baseline)
    assert scale is not None
    drawn = scale.draw_interval(best, "●", "", baseline.estimate, "").plain
    assert drawn.index("┤") - drawn.index("├") >= 13
    assert len(scale.draw_labels(baseline.estimate, "").plain.replace("┊", " ").split()) >= 4
    assert (
        scale.draw_interval(crossing, "●", "", baseline.estimate, "").plain[scale.column(0.36)]
        == "┼"
    )
    assert "▸" in scale.draw_interval(worse, "×", "", baseline.estimate, "").plain


@pytest.mark.parametrize(("low", "high"), [(0.36, 0.52), (0.1, 2.5), (0.4361, 0.4372), (12, 99)])
def test_labels_say_where_they_stand(low: float, high: float) -> None:
    scale = fit_scale([Interval(low, 0.0), Interval(high, 0.0)], 40)
    assert scale is not None
    labels = scale.draw_labels(None, "").plain
    assert len(labels.split()) >= 2
    for label in labels.split():
        middle = labels.index(label) + len(label) // 2
        assert abs(scale.column(float(label)) - middle) <= 1


def test_nothing_to_draw() -> None:
    assert fit_scale([], 40) is None
    assert fit_scale([Interval(0.4, 0.1)], 5) is None


def test_intervals_without_room_are_drawn_below_their_table() -> None:
    rows = (("now", Interval(0.0, math.nan), "–"), ("pooled", Interval(-0.02, 0.01), "better"))
    columns = ("candidate", log_loss_difference("minus now"), "verdict")
    table = make_evidence_table("held out", columns, rows)
    wide, narrow = (
        render_table_with_intervals(table).draw(width).plain.splitlines() for width in (80, 40)
    )
    assert len(wide) == 3
    assert "●" in wide[2]
    assert "better" in narrow[2]
    assert "●" not in narrow[2]
    assert narrow[-1].startswith("pooled  ")
    assert "●" in narrow[-1]
    assert max(map(len, narrow)) <= 40


def test_cells_read_as_in_reports() -> None:
    rows = (("all", 4398, Interval(0.884, 0.026), 0.879), ("old", 921, None, 0.89))
    table = make_evidence_table("", ("reviews of", "reviews", RECALLED, EXPECTED), rows)
    lines = render_table_with_intervals(table).draw(120).plain.splitlines()
    for row, line in zip(format_rows(table), lines[1:], strict=True):
        assert all(cell in line for cell in row)
    assert "88.4 ±2.6 %" in lines[1]


def test_one_value_has_one_label() -> None:
    scale = fit_scale([Interval(0.7272, math.nan)], 40)
    assert scale is not None
    assert scale.draw_labels(None, "").plain.split() == [".73"]


def test_intervals_of_shares_are_drawn_within_0_and_100_percent() -> None:
    def end_of_axis(*, percent: bool) -> str:
        table = Table.from_rows("", "", (Column("x", percent=percent),), ((Figure(0.84, 0.38),),))
        heading, _ = _draw_intervals(table, 0, 40)
        return heading.plain.split()[-1]

    assert float(end_of_axis(percent=True)) <= 1.0
    assert float(end_of_axis(percent=False)) > 1.0
