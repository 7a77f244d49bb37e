"""Tables of figures, as findings and reports hold them."""

from __future__ import annotations

import math
from dataclasses import replace

from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Column, Figure, Table

DIFFERENCE = Column("minus it", heading_note="below zero is better")


def test_from_rows_makes_figures_of_floats_and_intervals() -> None:
    row = ("name", 3, 0.5, Interval(0.25, 0.125), None, Figure(1.0, is_best=True))
    table = Table.from_rows("", "", "abcdef", [row])
    figures = ("name", 3, Figure(0.5), Figure(0.25, 0.125), None, Figure(1.0, is_best=True))
    assert table.rows == (figures,)


def test_records_have_the_ends_of_intervals() -> None:
    rows = [("a", 0.5, Interval(0.25, 0.125)), ("b", math.nan, Interval(0.25, math.nan))]
    table = Table.from_rows("", "", ("name", "share", "loss"), rows)
    assert table.records() == [
        {"name": "a", "share": 0.5, "loss": 0.25, "loss low": 0.125, "loss high": 0.375},
        {"name": "b", "share": None, "loss": 0.25, "loss low": None, "loss high": None},
    ]


def test_heading_says_how_to_read_columns() -> None:
    table = Table.from_rows("", "Against", ("model", DIFFERENCE), [])
    assert table.heading == "Against (minus it: below zero is better)"
    assert table.title == "Against"
    assert replace(table, title="").heading == ""
    assert Table.from_rows("", "Against", ("model",), []).heading == "Against"


def test_shown_leaves_out_columns_for_programs() -> None:
    hidden = Column("verdict", is_shown=False)
    table = Table.from_rows("", "", ["candidate", hidden, "reviews"], [("one", "better", 7)])
    assert [column.title for column in table.shown.columns] == ["candidate", "reviews"]
    assert table.shown.rows == (("one", 7),)
    assert table.records() == [{"candidate": "one", "verdict": "better", "reviews": 7}]
