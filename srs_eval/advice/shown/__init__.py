"""What findings say in English: a line, sentences, tables. No other module words findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from srs_eval.advice import findings as f
from srs_eval.advice.findings import Evidence, Finding, Missing
from srs_eval.advice.sentences import Renderer, Table, by_when
from srs_eval.advice.shown import costs, habits, memory, parameters, predicted
from srs_eval.advice.workload.estimate import TooFew
from srs_eval.data.arguments import check_type, refuse
from srs_eval.data.paths import VERSION
from srs_eval.stats.intervals import Interval


def _unanswered(finding: Finding) -> tuple[str]:
    assert isinstance(finding.evidence, f.Unanswered | TooFew)
    return (f"Can't tell: {finding.evidence.reason}.",)


_RENDERERS: Mapping[type[Evidence], Renderer] = {
    **parameters.RENDERERS,
    **predicted.RENDERERS,
    **memory.RENDERERS,
    **habits.RENDERERS,
    **costs.RENDERERS,
    **dict.fromkeys((f.Unanswered, TooFew), Renderer(_unanswered)),
}


def line(findings: Sequence[Finding]) -> str:
    """The findings on one question in a line, presets of which the same is said together."""
    words = "a list of what srs_eval.compare returns"
    check_type("findings", words, findings, Sequence)
    if not findings:
        raise refuse("findings", words, findings)
    renderer = _of(findings[0])
    return renderer.line(findings) if renderer.line else renderer.sentences(findings[0])[0]


def sentences(finding: Finding) -> tuple[str, ...]:
    """The answer, what it rests on, and when to ask again."""
    said, lack = list(_of(finding).sentences(finding)), finding.missing
    is_sure = finding.probability is not None and finding.probability >= f.SURE
    if lack is not None and lack != Missing() and not is_sure and (lack.date or finding.act):
        said.append(f"Ask again {by_when(lack)}.")
    return tuple(said)


def tables(finding: Finding) -> tuple[Table, ...]:
    """The figures behind it."""
    return tuple(_of(finding).tables(finding))


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
    by_day = [each.evidence.days for each in findings if isinstance(each.evidence, f.Days)]
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


def _of(finding: Finding) -> Renderer:
    check_type("finding", "one of what srs_eval.compare returns", finding, Finding)
    assert finding.evidence is not None
    return _RENDERERS[type(finding.evidence)]
