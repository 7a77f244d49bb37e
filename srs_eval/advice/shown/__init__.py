"""What findings say in English: a line, sentences, tables. No other module words findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srs_eval.advice.findings import (
    Calibration,
    Checks,
    Days,
    Evidence,
    Finding,
    Fit,
    Habit,
    Hard,
    Health,
    LeftOut,
    Models,
    Months,
    Noise,
    OfAll,
    OfPreset,
    Often,
    Retention,
    Sharing,
    Standings,
    Steps,
    Unanswered,
    of,
)
from srs_eval.advice.shown import (
    buttons,
    checks,
    costs,
    habits,
    memory,
    parameters,
    predicted,
    sharing,
    standing,
)
from srs_eval.advice.tables import Table
from srs_eval.advice.workload.estimate import TooFew, Workload
from srs_eval.advice.workload.preview import Buttons
from srs_eval.data.paths import VERSION
from srs_eval.stats.intervals import Interval


@dataclass(frozen=True)
class _Renderer:
    """What evidence of one kind says."""

    line: Callable[[Sequence[Finding]], str]
    sentences: Callable[[Finding], Sequence[str]]
    tables: Callable[[Finding], Sequence[Table]]


def _first(
    of: Callable[[Finding], Sequence[str]],
) -> Callable[[Sequence[Finding]], str]:
    return lambda findings: of(findings[0])[0]


def _unanswered(finding: Finding) -> tuple[str]:
    return (f"Can't tell: {of(finding, Unanswered).reason}.",)


_PARAMETERS = _Renderer(parameters.in_line, parameters.sentences, parameters.tables)
_RENDERERS: Mapping[type[Evidence], _Renderer] = {
    OfPreset: _PARAMETERS,
    Sharing: _Renderer(sharing.in_line, sharing.sentences, sharing.tables),
    OfAll: _PARAMETERS,
    LeftOut: _PARAMETERS,
    Standings: _Renderer(standing.in_line, standing.sentences, standing.tables),
    Workload: _Renderer(costs.in_line, costs.sentences, costs.tables),
    TooFew: _Renderer(_first(costs.too_few), costs.too_few, lambda _: ()),
    Buttons: _Renderer(_first(buttons.sentences), buttons.sentences, buttons.tables),
    Unanswered: _Renderer(_first(_unanswered), _unanswered, lambda _: ()),
    Retention: _Renderer(
        memory.retention_line, memory.retention_sentences, memory.retention_tables
    ),
    Calibration: _Renderer(memory.says_line, memory.says_sentences, memory.says_tables),
    Months: _Renderer(memory.time_line, memory.time_sentences, memory.time_tables),
    Habit: _Renderer(memory.habit_line, memory.habit_sentences, lambda _: ()),
    Fit: _Renderer(predicted.fit_line, predicted.fit_sentences, predicted.fit_tables),
    Health: _Renderer(predicted.health_line, predicted.health_sentences, predicted.health_tables),
    Models: _Renderer(
        _first(predicted.models_sentences), predicted.models_sentences, predicted.models_tables
    ),
    Often: _Renderer(habits.often_line, habits.often_sentences, habits.often_tables),
    Noise: _Renderer(_first(habits.noise_sentences), habits.noise_sentences, habits.noise_tables),
    Hard: _Renderer(habits.hard_line, habits.hard_sentences, habits.hard_tables),
    Steps: _Renderer(_first(habits.steps_sentences), habits.steps_sentences, habits.steps_tables),
    Checks: _Renderer(checks.in_line, checks.sentences, checks.tables),
    Days: _Renderer(memory.today_line, memory.today_sentences, memory.today_tables),
}


def line(findings: Sequence[Finding]) -> str:
    """The findings on one question in a line, presets of which the same is said together."""
    return _of(findings[0]).line(findings)


def sentences(finding: Finding) -> tuple[str, ...]:
    """The answer, then what it rests on."""
    return tuple(_of(finding).sentences(finding))


def tables(finding: Finding) -> tuple[Table, ...]:
    """The figures behind it."""
    return tuple(_of(finding).tables(finding))


def act(finding: Finding) -> str:
    """What is recommended of a preset's parameters, in two or three words."""
    return parameters.ACTS.get(finding.act, finding.says)


def document(finding: Finding) -> dict[str, Any]:
    """As JSON has it (layout: docs/formats.md, docs/findings.schema.json); None is not known."""
    found: dict[str, Any] = {
        "question": finding.question,
        "subject": finding.subject,
        "act": finding.act or None,
        "probability": _figure(finding.probability),
        "gain": _figure(finding.gain),
        "interval": None if finding.interval is None else _interval(finding.interval),
        "parameters": list(finding.parameters) if finding.parameters else None,
        "reviews": int(finding.reviews),
        "missing": None if finding.missing is None else vars(finding.missing),
    }
    if finding.probabilities is not None:
        chances = finding.probabilities.items()
        found["probabilities"] = {candidate: _figure(each) for candidate, each in chances}
    return found | {
        "conclusion": finding.says,
        "sentences": list(sentences(finding)),
        "tables": [{"title": table.title, "rows": table.records()} for table in tables(finding)],
    }


def documents(findings: Sequence[Finding], rows: str) -> dict[str, Any]:
    """All that `compare` finds, as JSON has it (layout: docs/formats.md).

    `rows`: which reviews that rests on, "anki" or "benchmark".
    """
    return {
        "layout": 2,
        "srs_eval": VERSION,
        "rows": rows,
        "equivalence": next((each.equivalence for each in findings), None),
        "findings": list(map(document, findings)),
    }


def state_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """What the learner's days tell, as JSON has it (layout: docs/formats.md)."""
    by_day = [each.evidence.days for each in findings if isinstance(each.evidence, Days)]
    return {
        "layout": 2,
        "srs_eval": VERSION,
        "model": "STATE-FSRS-6",
        "answers": list(map(document, findings)),
        "days": [record for days in by_day for record in memory.days_table(days).records()],
    }


def _interval(interval: Interval) -> dict[str, float | int | None]:
    return {
        "estimate": _figure(interval.estimate),
        "low": _figure(interval.low),
        "high": _figure(interval.high),
        "reviews": int(interval.reviews),
        "days": int(interval.days),
    }


def _figure(value: float | None) -> float | None:
    """None for what is not defined, such as the interval of a single day."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def _of(finding: Finding) -> _Renderer:
    assert finding.evidence is not None
    return _RENDERERS[type(finding.evidence)]
