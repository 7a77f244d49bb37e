"""Where do I stand? One's own figures among those of published learners.

Like with like: FSRS-5 on the benchmark's reviews, as everybody's figures were published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from srs_eval.advice.findings import Evidence, Finding
from srs_eval.advice.population import Standing, standings
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.results import log_loss_interval
from srs_eval.engine.session import Session
from srs_eval.models.configurations import resolve
from srs_eval.training.context import Context

FEWEST = 300  # evaluated reviews: below these, a figure is mostly chance
_MODEL, _AVERAGE = "FSRS-5", "AVG"


@dataclass(frozen=True)
class Standings(Evidence):
    """By metric, where a learner's figure lies among those of learners like them."""

    metrics: tuple[Standing, ...]  # log loss first


def where_do_i_stand(log: ReviewLog, context: Context) -> Iterator[Finding]:
    """One finding over all reviews; none below FEWEST evaluated reviews."""
    session = Session(log)
    try:
        own, average = (session.run(resolve(name)[0], context) for name in (_MODEL, _AVERAGE))
    except NotEnoughData:
        return
    if own.size < FEWEST:
        return
    figures = own.metrics.to_upstream()
    found = standings(figures, log_loss_interval(average).estimate, own.size)
    yield Finding(
        "standing", "all reviews", reviews=own.size, evidence=Standings(metrics=tuple(found))
    )
