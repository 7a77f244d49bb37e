"""Say whether models could schedule, for the app, reports and the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from srs_eval.advice.sentences import capitalize, format_percent
from srs_eval.data.errors import format_count
from srs_eval.engine.schedulability import (
    Measurement,
    Obstacle,
    RetentionFaults,
    Schedulability,
)
from srs_eval.stats.tables import Column, Table

HEADLINE_RETENTION = 0.9
"""Anki's default desired retention, for which one word says whether a model can schedule."""
COLUMN_TITLE = "can schedule"
_OBSTACLE_WORDS = {
    Obstacle.ONLINE: "no: it learns from every answer up to the review that it predicts, but a "
    "scheduler has to choose the day in advance",
    Obstacle.EXTERNAL: "not known: its predictions were computed elsewhere, and only for "
    "the times at which you reviewed",
}
_REMARK_BY_MODEL = {
    "Anki": "srs-benchmark's formulas for Anki's SM-2, which srs-eval follows, give Good the bonus "
    "of Easy. Anki does not."
}
"""Reasons why a model's figures say nothing about the scheduler of the same name."""
CLOSING = (
    "The answer to each review was replaced by each of the four buttons in turn, and each model "
    "was asked when recall would then fall to the desired retention. Figures are shares of "
    "reviews. docs/schedulability.md explains the columns."
)


def select_headline(schedulability: Schedulability) -> RetentionFaults:
    """Return the faults at 90 %, or at the retention that is nearest to it."""
    return min(
        schedulability.retentions,
        key=lambda faults: abs(faults.desired_retention - HEADLINE_RETENTION),
    )


def format_verdict(measurement: Measurement) -> str:
    """Format in a few words whether a model can schedule: "yes", "fails for 3 %", "no" or "–"."""
    if measurement.configuration.model.name in _REMARK_BY_MODEL:
        return "–"
    if measurement.schedulability is not None:
        headline = select_headline(measurement.schedulability)
        return _format_share_that_fails(headline.unschedulable)
    return "no" if measurement.obstacle is Obstacle.ONLINE else "–"


def _format_share_that_fails(share: float) -> str:
    if share == 0:
        return "yes"
    if share == 1:
        return "no"
    return f"fails for {_format_share(share)}"


def _format_share(share: float) -> str:
    """Format a share as "3 %"; small ones have a decimal, and none is rounded to 0 or 100 %."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    near_an_end = share < 0.0095 or share >= 0.9905
    return format_percent(share, 1 if near_an_end and 0 < share < 1 else 0)


def describe_measurement(measurement: Measurement) -> str:
    """Describe in one line whether a configuration can schedule."""
    remark = _REMARK_BY_MODEL.get(measurement.configuration.model.name)
    if remark is not None:
        return f"not known: {remark.removesuffix('.')}"
    if measurement.schedulability is not None:
        verdict = format_verdict(measurement)
        return verdict if verdict in ("yes", "no") else f"{verdict} of reviews"
    if measurement.obstacle is not None:
        return _OBSTACLE_WORDS[measurement.obstacle]
    return f"not known: {measurement.failure}"


def describe_faults(schedulability: Schedulability) -> Iterator[str]:
    """Yield sentences about what a scheduler would meet; none about what never happens."""
    headline = select_headline(schedulability)
    desired = _format_share(headline.desired_retention)
    reviews = format_count(schedulability.histories, "review")
    if schedulability.flat == 1:
        yield (
            "Its prediction does not change with time, so recall never falls to the desired "
            "retention."
        )
        return
    if headline.unschedulable == 0:
        yield (
            f"Asked for {desired}, it gives each button a single interval, in the right order, "
            f"after each of {reviews}."
        )
    else:
        share = _format_share(headline.unschedulable)
        yield f"Asked for {desired}, it fails for {share} of {reviews}."
    for faults in schedulability.retentions:
        asked = _format_share(faults.desired_retention)
        if faults.inverted:
            yield (
                f"At {asked}, a worse answer would get a longer interval for "
                f"{_format_share(faults.inverted)} of reviews{_name_inverted_buttons(faults)}."
            )
        if faults.never_reached:
            share = _format_share(faults.never_reached)
            yield f"For {share} of reviews, recall never falls to {asked}."
        if faults.reached_twice:
            share = _format_share(faults.reached_twice)
            yield f"For {share} of reviews, recall falls to {asked} and rises above it again."
        if faults.under_a_minute_after_pass:
            yield (
                f"At {asked}, a card that you have just recalled would come back within a "
                f"minute for {_format_share(faults.under_a_minute_after_pass)} of reviews."
            )
    if schedulability.rising:
        share = _format_share(schedulability.rising)
        yield f"For {share} of reviews, the forgetting curve rises with time."


def describe_measurement_at_length(measurement: Measurement) -> list[str]:
    """Return sentences about whether a configuration can schedule, or why that is not known."""
    has_remark = measurement.configuration.model.name in _REMARK_BY_MODEL
    if measurement.schedulability is not None and not has_remark:
        return list(describe_faults(measurement.schedulability))
    return [f"{capitalize(describe_measurement(measurement))}."]


def _name_inverted_buttons(faults: RetentionFaults) -> str:
    """Return which buttons change places most often: " (most often Hard and Good)"."""
    share_by_pair = {
        "Again and Hard": faults.again_above_hard,
        "Hard and Good": faults.hard_above_good,
        "Good and Easy": faults.good_above_easy,
    }
    return f" (most often {max(share_by_pair, key=lambda pair: share_by_pair[pair])})"


def build_schedulability_table(measurements: Sequence[Measurement]) -> Table:
    """Return a table with a row for each measured configuration and desired retention."""
    heads = [
        Column("model", overflow="fold"),
        Column("asked for", percent=True, digits=0),
        Column(COLUMN_TITLE),
        Column("wrong order", percent=True, digits=1, note="a worse answer gets a longer interval"),
        Column("never", percent=True, digits=1, note="recall never falls to the retention"),
        Column("twice", percent=True, digits=1, note="recall falls to it and rises again"),
        Column("< 1 min", percent=True, digits=1, note="after any answer"),
        Column("< 1 min, known", percent=True, digits=1, note="after Hard, Good or Easy"),
        Column(
            "> 5 times", percent=True, digits=1, note="after Good, compared with the last interval"
        ),
        Column("rises", percent=True, digits=1, note="a curve rises within 100 years"),
    ]
    rows = []
    for measurement in measurements:
        schedulability = measurement.schedulability
        if schedulability is None:
            continue
        for faults in schedulability.retentions:
            rows.append(
                [
                    measurement.configuration.words,
                    faults.desired_retention,
                    _format_share_that_fails(faults.unschedulable),
                    faults.inverted,
                    faults.never_reached,
                    faults.reached_twice,
                    faults.under_a_minute,
                    faults.under_a_minute_after_pass,
                    faults.above_five_times,
                    schedulability.rising,
                ]
            )
    return Table.from_rows("schedulability", "Can it schedule?", heads, rows)


def list_unmeasured(measurements: Sequence[Measurement]) -> list[str]:
    """Return a line about each configuration whose figures are missing or need a remark."""
    return [
        f"{measurement.configuration.words}: {describe_measurement(measurement)}."
        for measurement in measurements
        if measurement.schedulability is None
        or measurement.configuration.model.name in _REMARK_BY_MODEL
    ]


def build_schedulability_document(
    measurements: Sequence[Measurement], desired_retentions: Sequence[float]
) -> dict[str, Any]:
    """Return the measurements as JSON-ready values (layout: docs/formats.md)."""
    models = []
    for measurement in measurements:
        entry: dict[str, Any] = {"configuration": measurement.configuration.name}
        if measurement.schedulability is not None:
            entry |= asdict(measurement.schedulability)
        else:
            obstacle = measurement.obstacle
            entry["obstacle"] = None if obstacle is None else obstacle.value
            entry["failure"] = measurement.failure or None
        models.append(entry)
    return {"layout": 1, "desired_retentions": list(desired_retentions), "models": models}
