"""What findings say in English: a line, sentences, tables. No other module words findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srs_eval.advice.findings import Evidence, Finding, Unanswered, Worded
from srs_eval.advice.parameters import LeftOut, OfAll, OfPreset
from srs_eval.advice.shown import parameters, sharing, standing, worded
from srs_eval.advice.split import Sharing
from srs_eval.advice.standing import Standings
from srs_eval.advice.tables import Table
from srs_eval.stats.intervals import Interval


@dataclass(frozen=True)
class _Renderer:
    """What evidence of one kind says."""

    line: Callable[[Sequence[Finding]], str]
    sentences: Callable[[Finding], Sequence[str]]
    tables: Callable[[Finding], Sequence[Table]]
    conclusion: Callable[[Finding], str]


def _unanswered(finding: Finding) -> tuple[str]:
    assert isinstance(finding.evidence, Unanswered)
    return (f"Can't tell: {finding.evidence.reason}.",)


_PARAMETERS = _Renderer(
    parameters.in_line, parameters.sentences, parameters.tables, parameters.conclusion
)
_RENDERERS: Mapping[type[Evidence], _Renderer] = {
    OfPreset: _PARAMETERS,
    Sharing: _Renderer(sharing.in_line, sharing.sentences, sharing.tables, sharing.conclusion),
    OfAll: _PARAMETERS,
    LeftOut: _PARAMETERS,
    Standings: _Renderer(
        standing.in_line, standing.sentences, standing.tables, standing.conclusion
    ),
    Worded: _Renderer(
        worded.in_one_line,
        lambda finding: worded.of(finding).sentences,
        lambda finding: worded.of(finding).tables,
        lambda finding: worded.of(finding).conclusion,
    ),
    Unanswered: _Renderer(
        lambda findings: _unanswered(findings[0])[0],
        _unanswered,
        lambda _: (),
        lambda _: "no answer",
    ),
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


def conclusion(finding: Finding) -> str:
    """The answer in two or three words, e.g. "keep"."""
    return _of(finding).conclusion(finding)


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
        "conclusion": conclusion(finding),
        "sentences": list(sentences(finding)),
        "tables": [{"title": table.title, "rows": table.records()} for table in tables(finding)],
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
