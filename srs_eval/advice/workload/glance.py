"""What another desired retention would cost, at a glance: the answer of one line, or a few."""

from __future__ import annotations

from collections.abc import Sequence

from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.tables import Cell, Table
from srs_eval.advice.workload.answers import HELD, of_few_reviews, of_late, within
from srs_eval.advice.workload.estimate import MINUTES, REVIEWS, Question, Workload, workload
from srs_eval.data.errors import counted
from srs_eval.data.reviews import ReviewLog
from srs_eval.models import fsrs6
from srs_eval.training.context import Context

QUESTION = "costs"
_ASKED = (0.85, 0.90)  # desired retentions, beside today's
NOW = "now"  # marks the row of today's schedule; one of its own where optimizing changes it
FIRST = "a first estimate"  # the conclusion while there is one course of events, without a range


def at_a_glance(log: ReviewLog, context: Context | None = None) -> Finding:
    """About how many reviews a day the preset with the most reviews takes, at some retentions.

    Where FSRS is off, were it on. Raises InputError and NotEnoughData as `workload` does.
    """
    question = Question(retentions=_ASKED)
    coming = workload(log, question=question, parameters=were_it_on(log), context=context)
    try:
        return in_short(next(coming), log)
    finally:
        coming.close()


def were_it_on(log: ReviewLog) -> Sequence[float] | None:
    """The parameters to ask about: None, those in force; where FSRS is off, what it begins with."""
    return fsrs6.DEFAULT if log.receipt.fsrs_enabled is False else None


def in_short(found: Workload, log: ReviewLog) -> Finding:
    """What is known so far at some retentions: a first estimate, ranges once all draws are there.

    `found` is what `workload` tells of `log` with the parameters of `were_it_on`.
    """
    is_off = log.receipt.fsrs_enabled is False
    about = "" if found.drawn else "about "
    today = round(found.desired, 2)
    unchanged = None if is_off else found.unchanged
    rows: list[tuple[Cell, ...]] = []
    for retention in sorted({*_ASKED, today}):
        reviews, minutes = (
            within(found, found.at(retention), figure, 0) for figure in (REVIEWS, MINUTES)
        )
        now = NOW if retention == today and not is_off and unchanged is None else ""
        rows.append((f"{100 * retention:.0f} %", now, reviews, minutes))
    said = ", ".join(
        f"{reviews} at {retention}{' as it is now' * bool(now)}"
        for retention, now, reviews, _ in rows
    )
    says = f"{'were FSRS on, ' * is_off}{about}{said}, once optimized to all your reviews"
    if unchanged is not None:
        as_now = (f"{unchanged[figure]:,.0f}" for figure in (REVIEWS, MINUTES))
        rows.append((f"{100 * today:.0f} %", NOW, *as_now))
        says = (
            f"about {rows[-1][2]} at {rows[-1][0]} while the parameters in force go on "
            f"scheduling; {says}"
        )
    says = (
        f"{says}: reviews a day of {found.preset} "
        f"over the next {counted(found.question.days, 'day')}, with "
        f"{counted(found.new_a_day, 'new card')} a day as of late."
    )
    sentences = [says[0].upper() + says[1:]]
    done = ""
    if is_off:
        done = f"you did ~{found.done_a_day:,} a day of late"
        sentences.append(
            f"In the last {of_late(found)} you did about {found.done_a_day:,} a day, learning not "
            "counted."
        )
    if found.drawn:
        sentences += of_few_reviews(found)
        sentences.append(
            f"Ranges hold 90 % of {len(found.draws)} draws of parameters that your reviews allow; "
            f"w shows every retention. {HELD}"
        )
    else:
        sentences.append("It is one course of events, a first estimate, which may be a third off.")
    if found.presets > 1:
        sentences.append(f"Of {found.presets} presets this one has the most reviews.")
    columns = ("desired retention", "", "reviews a day", "minutes a day")
    table = Table(f"{found.preset}: what a desired retention costs", columns, tuple(rows))
    conclusion = "ranges" if found.drawn else FIRST
    return phrased(QUESTION, found.preset, conclusion, tuple(sentences), (table,), why=done)
