"""Where do I stand? One's own figures among those of published learners.

Like with like: FSRS-5 on the benchmark's reviews, as everybody's figures were published.
"""

from __future__ import annotations

from collections.abc import Iterator

from srs_eval.advice.findings import Finding, Standings
from srs_eval.advice.population import standings
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import Session, log_loss_interval
from srs_eval.models.configurations import resolve
from srs_eval.training.hyperparameters import Context

FEWEST = 300  # evaluated reviews: below these, a figure is mostly chance
_MODEL, _AVERAGE = "FSRS-5", "AVG"


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
    says = f"better than {found[0].of_100} of 100"
    yield Finding(
        "standing", "all reviews", reviews=own.size, evidence=Standings(says, tuple(found))
    )
