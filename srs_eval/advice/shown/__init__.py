"""Put findings into English: a line, sentences, tables. No other module words findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from srs_eval.advice import findings as f
from srs_eval.advice.findings import Evidence, Finding
from srs_eval.advice.sentences import (
    Renderer,
    describe_spells,
    format_due_date,
    missing_data_sentence,
    says_missing_data,
)
from srs_eval.advice.shown import (
    card_kinds,
    costs,
    difficulty,
    first_intervals,
    fsrs7_switch,
    habits,
    health_remedies,
    ignore_before,
    memory,
    next_optimize,
    parameters,
    predicted,
    reschedule,
)
from srs_eval.advice.workload.estimate import TooFewForCosts
from srs_eval.data.arguments import argument_error, check_type
from srs_eval.data.paths import VERSION
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Table


def _unanswered_sentences(finding: Finding) -> tuple[str]:
    assert isinstance(finding.evidence, f.Unanswered | TooFewForCosts)
    return (f"Can't tell: {finding.evidence.reason}.",)


def _fsrs7_sentences(_: Finding) -> tuple[str]:
    return ("srs-eval can answer this only for FSRS-6, and your presets run FSRS-7.",)


_RENDERERS: Mapping[type[Evidence], Renderer] = {
    **parameters.RENDERERS,
    **predicted.RENDERERS,
    **memory.RENDERERS,
    **habits.RENDERERS,
    **costs.RENDERERS,
    **ignore_before.RENDERERS,
    **card_kinds.RENDERERS,
    **health_remedies.RENDERERS,
    **next_optimize.RENDERERS,
    **difficulty.RENDERERS,
    **first_intervals.RENDERERS,
    **reschedule.RENDERERS,
    **fsrs7_switch.RENDERERS,
    f.OnlyFsrs7: Renderer(_fsrs7_sentences),
    **dict.fromkeys((f.Unanswered, TooFewForCosts), Renderer(_unanswered_sentences)),
}


def line(findings: Sequence[Finding]) -> str:
    """Summarize the findings on one question in a line, grouping presets with equal answers."""
    expected = "a list of what srs_eval.compare returns"
    check_type("findings", expected, findings, Sequence)
    if not findings:
        raise argument_error("findings", expected, findings)
    renderer = _find_renderer(findings[0])
    if renderer.line:
        return renderer.line(findings)
    return renderer.sentences(findings[0])[0]


_NEVER_SURE = "More reviews like yours would hardly make this more certain."


def sentences(finding: Finding) -> tuple[str, ...]:
    """Return the answer, what it rests on, and when to ask again."""
    answer = list(_find_renderer(finding).sentences(finding))
    missing = finding.missing
    probability = finding.probability or 0.0
    if missing is not None and probability < f.SURE:
        is_said = any(says_missing_data(text, missing) for text in answer)
        if not missing.can_come:
            if finding.recommendation and not is_said:
                is_likely = probability >= f.LIKELY
                answer.append(_NEVER_SURE if is_likely else missing_data_sentence(missing))
        elif missing.date or (finding.recommendation and not is_said):
            answer.append(f"This may be settled {format_due_date(missing)}.")
    if finding.phi is not None:
        answer.append(describe_spells(finding.phi))
    return tuple(answer)


def clauses(finding: Finding) -> tuple[str, ...]:
    """Return the clauses that the first sentence lists, if it lists several things."""
    return tuple(_find_renderer(finding).clauses(finding))


def tables(finding: Finding) -> tuple[Table, ...]:
    """Return the tables of figures behind a finding."""
    return tuple(_find_renderer(finding).tables(finding))


def are_tables_the_answer(finding: Finding) -> bool:
    """Return whether the tables of a finding are its answer, not the figures behind it."""
    return _find_renderer(finding).are_tables_the_answer


def document(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON-ready values; None means unknown.

    Layout: docs/formats.md, docs/findings.schema.json.
    """
    fields: dict[str, Any] = {
        "question": finding.question,
        "subject": finding.subject,
        "act": finding.recommendation or None,
        "probability": _figure(finding.probability),
        "gain": _figure(finding.gain),
        "interval": None if finding.interval is None else _interval(finding.interval),
        "parameters": list(finding.parameters) if finding.parameters else None,
        "reviews": int(finding.reviews),
        "missing": None if finding.missing is None else vars(finding.missing),
    }
    if finding.probabilities is not None:
        fields["probabilities"] = {
            candidate: _figure(probability)
            for candidate, probability in finding.probabilities.items()
        }
    if finding.belief is not None:
        belief = finding.belief
        fields["belief"] = {
            "probability": _figure(belief.probability),
            "gain": _figure(belief.gain),
            "low": _figure(belief.low),
            "high": _figure(belief.high),
            "hardly_matters": finding.hardly_matters,
        }
    if finding.phi is not None:
        fields["phi"] = _figure(finding.phi)
    fields["conclusion"] = finding.conclusion
    fields["sentences"] = list(sentences(finding))
    fields["tables"] = [
        {"title": table.title, "rows": table.records()} for table in tables(finding)
    ]
    return fields


def documents(findings: Sequence[Finding], rows: str) -> dict[str, Any]:
    """Return all findings of `compare` as JSON-ready values (layout: docs/formats.md).

    `rows` names the reviews behind them, "anki" or "benchmark".
    """
    return {
        "layout": 2,
        "srs_eval": VERSION,
        "rows": rows,
        "equivalence": findings[0].equivalence if findings else None,
        "findings": list(map(document, findings)),
    }


def state_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings on the learner's days as JSON-ready values (layout: docs/formats.md)."""
    days: list[dict[str, Any]] = []
    for finding in findings:
        if isinstance(finding.evidence, f.DayStates):
            days += memory.days_table(finding.evidence.days).records()
    return {
        "layout": 2,
        "srs_eval": VERSION,
        "model": "STATE-FSRS-6",
        "answers": list(map(document, findings)),
        "days": days,
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
    """Return a rounded figure; None if undefined, such as the interval of a single day."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def _find_renderer(finding: Finding) -> Renderer:
    check_type("finding", "one of what srs_eval.compare returns", finding, Finding)
    assert finding.evidence is not None
    return _RENDERERS[type(finding.evidence)]
