"""Where a learner stands, in English."""

from __future__ import annotations

from collections.abc import Sequence

from srs_eval.advice.findings import Finding, Standings, of
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted

_WORDS = {"LogLoss": "log loss"}


def in_line(findings: Sequence[Finding]) -> str:
    """ "61 of 100 learners with as many reviews are predicted less well"."""
    return sentences(findings[0])[0].rstrip(".")


def sentences(finding: Finding) -> tuple[str, ...]:
    """By log loss, and what the figures are of."""
    less_well = of(finding, Standings).metrics[0].of_100
    are = "is" if less_well == 1 else "are"
    return (
        f"{less_well} of 100 learners with as many reviews {are} predicted less well.",
        f"By log loss, FSRS-5 on your {counted(finding.reviews, 'evaluated review')} against "
        "9,999 published learners, of whom those count most who have about as many reviews and "
        "recall about as much.",
    )


def tables(finding: Finding) -> tuple[Table, ...]:
    """Each metric among those of the others."""
    metrics = of(finding, Standings).metrics
    levels = (f"{100 * level:.0f} %" for level, _ in metrics[0].quantiles)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            _WORDS.get(each.metric, each.metric),
            each.figure,
            *(value for _, value in each.quantiles),
            each.of_100,
        )
        for each in metrics
    )
    title = "So many of theirs lie below; less well: how many of 100 are"
    return (Table(title, ("metric", "yours", *levels, "less well"), rows),)
