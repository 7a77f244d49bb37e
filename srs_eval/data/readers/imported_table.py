"""Represent the content of a review log that was read from a table or an export in text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from srs_eval.data.reviews import Entries, FloatArray, Rows


@dataclass(frozen=True)
class ImportedTable:
    """The content of a table: entries, or rows if its days are settled."""

    format: str  # in words
    entries: Entries | None = None
    rows: Rows | None = None
    excluded: int = 0  # entries with an impossible time; lines that are not reviews
    repeated: int = 0  # lines that repeat another
    app_name: str = "Anki"  # program that scheduled the reviews, "" if unknown
    source_predictions: Mapping[str, FloatArray] = field(default_factory=dict)
    """Predictions for the rows, as in `ReviewLog.source_predictions`."""
    notes: tuple[str, ...] = ()
    first_day: str | None = None  # of the rows, if dates are known
