"""What another desired retention would cost, at a glance: one course of events, without a range."""

from __future__ import annotations

from srs_eval.context import Context
from srs_eval.models import fsrs6
from srs_eval.plural import counted
from srs_eval.presets.answers import Answer, Table
from srs_eval.reviews import ReviewLog
from srs_eval.workload.estimate import MINUTES, REVIEWS, Question, workload

QUESTION = "costs"
ASKED = (0.85, 0.90)  # desired retentions, beside today's


def at_a_glance(log: ReviewLog, context: Context | None = None) -> Answer:
    """About how many reviews a day the preset with the most reviews takes, at some retentions.

    Where FSRS is off, were it on. Raises InputError and NotEnoughData as `workload` does.
    """
    is_off = log.receipt.fsrs_enabled is False
    coming = workload(
        log,
        question=Question(retentions=ASKED),
        parameters=fsrs6.DEFAULT if is_off else None,
        context=context,
    )
    try:
        found = next(coming)
    finally:
        coming.close()
    rows = []
    for place, retention in enumerate(found.retentions.tolist()):
        now = "now" if retention == round(found.desired, 2) and not is_off else ""
        reviews, minutes = found.median[place, [REVIEWS, MINUTES]].tolist()
        rows.append((f"{100 * retention:.0f} %", now, round(reviews), f"{minutes:.0f}"))
    said = ", ".join(
        f"{reviews} at {retention}{' as it is now' * bool(now)}"
        for retention, now, reviews, _ in rows
    )
    sentences = [
        f"{'Were FSRS on, about' if is_off else 'About'} {said}: reviews a day of {found.preset}, "
        "once optimized to all your reviews, "
        f"over the next {counted(found.question.days, 'day')}, with "
        f"{counted(found.new_a_day, 'new card')} a day as of late.",
        "It is one course of events, a first estimate, which may be a third off.",
    ]
    if found.presets > 1:
        sentences.append(f"Of {found.presets} presets this one has the most reviews.")
    columns = ("desired retention", "", "reviews a day", "minutes a day")
    table = Table(f"{found.preset}: what a desired retention costs", columns, tuple(rows))
    return Answer(QUESTION, found.preset, "a first estimate", tuple(sentences), (table,))
