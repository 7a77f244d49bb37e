"""Where a learner stands, in English."""

from __future__ import annotations

from collections.abc import Sequence

from srs_eval.advice.findings import Finding
from srs_eval.advice.population import LEVELS, Standing
from srs_eval.advice.standing import Standings
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted

_WORDS = {"LogLoss": "log loss"}


def in_line(findings: Sequence[Finding]) -> str:
    """ "61 of 100 learners with as many reviews are predicted less well"."""
    return sentences(findings[0])[0].rstrip(".")


def conclusion(finding: Finding) -> str:
    """ "better than 61 of 100"."""
    return f"better than {_of_100(_metrics(finding)[0])} of 100"


def sentences(finding: Finding) -> tuple[str, ...]:
    """By log loss, and what the figures are of."""
    less_well = _of_100(_metrics(finding)[0])
    are = "is" if less_well == 1 else "are"
    return (
        f"{less_well} of 100 learners with as many reviews {are} predicted less well.",
        f"By log loss, FSRS-5 on your {counted(finding.reviews, 'evaluated review')} against "
        "9,999 published learners, of whom those count most who have about as many reviews and "
        "recall about as much.",
    )


def tables(finding: Finding) -> tuple[Table, ...]:
    """Each metric among those of the others."""
    columns = ("metric", "yours", *(f"{100 * level:.0f} %" for level in LEVELS), "less well")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (_WORDS.get(each.metric, each.metric), each.figure, *each.quantiles, _of_100(each))
        for each in _metrics(finding)
    )
    title = "So many of theirs lie below; less well: how many of 100 are"
    return (Table(title, columns, rows),)


def _of_100(standing: Standing) -> int:
    return round(100 * standing.share_worse)


def _metrics(finding: Finding) -> tuple[Standing, ...]:
    assert isinstance(finding.evidence, Standings)
    return finding.evidence.metrics
