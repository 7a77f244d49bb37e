"""Screens as plain text say what the panes say."""

from __future__ import annotations

from srs_eval.advice.sentences import Bar, FirstScreen, Heading, Pane, PaneLine
from srs_eval.report.plain import write_plain_screen, write_plain_table
from srs_eval.stats.tables import Table


def test_notes_of_bars_are_written() -> None:
    bars = (
        Heading("", ("you", "asked")),
        Bar("all", ("79 %", "90 %"), 0.79, note="◀ look", level="look"),
        Bar("mature cards", ("83 %", "90 %"), 0.83, note="too few", level="not yet"),
        Bar("young cards", ("78 %", "90 %"), 0.78),
    )
    summary = PaneLine("You remember 79 %.")
    pane = Pane("How well do I remember?", summary, bars, ("retention",))
    lines = list(write_plain_screen(FirstScreen((pane,), ())))
    assert "all: you 79 %; asked 90 %, look here" in lines
    assert "mature cards: you 83 %; asked 90 %, too few" in lines
    assert "young cards: you 78 %; asked 90 %" in lines


def test_rows_by_retention_say_what_is_asked_for() -> None:
    table = Table.from_rows("", "", ("asked for", "minutes/day"), [("90 %", "1.9"), ("now", "2.3")])
    assert list(write_plain_table(table)) == [
        "asked for 90 %: minutes/day 1.9",
        "now: minutes/day 2.3",
    ]
