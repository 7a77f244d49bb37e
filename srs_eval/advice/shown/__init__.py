"""What findings say in English: a line, sentences, tables. No other module words findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srs_eval.advice.findings import Evidence, Finding, Unanswered, Worded
from srs_eval.advice.shown import buttons, costs, worded
from srs_eval.advice.tables import Table
from srs_eval.advice.workload.estimate import Workload
from srs_eval.advice.workload.preview import Buttons


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


_RENDERERS: Mapping[type[Evidence], _Renderer] = {
    Worded: _Renderer(
        worded.in_one_line,
        lambda finding: worded.of(finding).sentences,
        lambda finding: worded.of(finding).tables,
        lambda finding: worded.of(finding).conclusion,
    ),
    Workload: _Renderer(costs.line, costs.sentences, costs.tables, costs.conclusion),
    Buttons: _Renderer(
        lambda findings: buttons.sentences(findings[0])[0],
        buttons.sentences,
        buttons.tables,
        lambda _: "see figures",
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
    """As JSON has it (layout: docs/formats.md)."""
    return {
        "question": finding.question,
        "subject": finding.subject,
        "conclusion": conclusion(finding),
        "sentences": list(sentences(finding)),
        "parameters": None if finding.parameters is None else list(finding.parameters),
        "tables": [{"title": table.title, "rows": table.records()} for table in tables(finding)],
    }


def _of(finding: Finding) -> _Renderer:
    assert finding.evidence is not None
    return _RENDERERS[type(finding.evidence)]
