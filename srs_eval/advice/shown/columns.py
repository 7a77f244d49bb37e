"""Define the columns of the tables behind findings, and make the tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from srs_eval.stats.tables import Column, Table

RECALLED = Column("recalled", digits=1, percent=True, round_by_interval=False)
EXPECTED = Column("expected", digits=1, percent=True, round_by_interval=False)
LOG_LOSS = Column("log loss", round_by_interval=False)
MINUS_EXPECTED = Column("minus expected", signed=True, round_by_interval=False)
MINUS_RECALLED = Column("minus recalled", signed=True, round_by_interval=False)
VERDICT_OF_ACT = Column("verdict", is_shown=False)
"""A verdict in the table of an act, whose own probability people read instead."""
STATE = Column("state (logits)", round_by_interval=False)


def log_loss_difference(title: str, meaning: str = "difference in log loss") -> Column:
    """Return a column of differences in log loss, such as "minus defaults"."""
    return Column(
        title,
        signed=True,
        round_by_interval=False,
        heading_note=f"{meaning}, below zero is better",
    )


def difference_from(reference: str) -> Column:
    """Return a column of differences in log loss from one row of the table, by its name."""
    return log_loss_difference("difference", f"log loss minus that of “{reference}”")


def make_evidence_table(title: str, heads: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Table:
    """Return a table behind a finding, of heads (titles or columns) and rows.

    Floats and intervals in the rows become figures. A report names the table.
    """
    return Table.from_rows("", title, heads, rows)
