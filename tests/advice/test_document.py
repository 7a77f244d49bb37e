"""`compare --json`: what is written is what docs/findings.schema.json says."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import srs_eval
from srs_eval.advice.findings import (
    Finding,
    MissingData,
    ParameterNoise,
    ParameterSpread,
    Unanswered,
)
from srs_eval.advice.questions import COMPARE_QUESTIONS
from srs_eval.advice.shown import documents as document
from srs_eval.report.export import to_json
from srs_eval.stats.intervals import Interval
from tests.advice.helpers import FIXTURES
from tests.cli.program import run_in_process
from tests.conftest import REPOSITORY, shared_or_skip

SCHEMA = json.loads((REPOSITORY / "docs" / "findings.schema.json").read_text("utf-8"))
KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
    "null": type(None),
}  # fmt: skip
CHECKED = {
    "$ref", "type", "const", "enum", "anyOf", "minimum", "maximum", "pattern", "required",
    "properties", "additionalProperties", "items", "minItems", "maxItems",
}  # fmt: skip


def faults(value: Any, schema: dict[str, Any], where: str = "") -> list[str]:
    """What a value has against a schema, of which only CHECKED may be used."""
    unknown = set(schema) - CHECKED - {"$schema", "$defs", "title"}
    assert not unknown, f"the schema uses {unknown}, which is not checked"
    if "$ref" in schema:
        return faults(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "anyOf" in schema:
        each = [faults(value, option, where) for option in schema["anyOf"]]
        return [] if [] in each else min(each, key=len)
    found = []
    kinds = schema.get("type", list(KINDS))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(value, tuple(KINDS[kind] for kind in kinds)) or isinstance(value, bool):
        return [f"{where} is {value!r}, not {kinds}"]
    if "const" in schema and value != schema["const"]:
        found.append(f"{where} is {value!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} is {value!r}")
    if isinstance(value, int | float):
        inside = schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf)
        if not (inside and math.isfinite(value)):
            found.append(f"{where} is {value}")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{where} is {value!r}")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
            found.append(f"{where} has {len(value)} items")
        for place, item in enumerate(value):
            found += faults(item, schema.get("items", {}), f"{where}[{place}]")
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        found += [f"{where} lacks {key}" for key in schema.get("required", ()) if key not in value]
        for key, item in value.items():
            if key not in known and more is False:
                found.append(f"{where} has {key}")
            else:
                found += faults(item, known.get(key, more or {}), f"{where}.{key}")
    return found


def compared(path: Path, *options: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} in JSON")

    done = run_in_process("compare", path, *options, "--json", "-")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout, parse_constant=refuse)
    return found


def test_a_wrong_document_is_said_from_a_right_one() -> None:
    evidence = Unanswered("so it is")
    missing = MissingData(300, None, "2026-12-15")
    unsure = Interval(-0.01, math.nan, 40, 1)
    finding = Finding("parameters", "Maps", "keep", 0.5, 0.0, unsure, missing=missing)
    right = document([replace(finding, evidence=evidence)], "anki")
    assert faults(right, SCHEMA) == []
    assert right["findings"][0]["interval"]["low"] is None
    assert right["findings"][0]["missing"] == {"reviews": 300, "days": None, "date": "2026-12-15"}
    for changes in (
        {"probability": 1.2},
        {"parameters": [1.0] * 17},
        {"act": 3},
        {"interval": {"estimate": 0.0}},
        {"missing": {"reviews": 1, "days": 0, "date": None}},
        {"missing": {"reviews": 1, "days": 2, "date": "soon"}},
        {"probabilities": {"sm2": "likely"}},
        {"sentences": []},
    ):
        wrong = {**right, "findings": [right["findings"][0] | changes]}
        assert faults(wrong, SCHEMA), changes


def test_what_is_not_defined_is_null() -> None:
    nan = math.nan
    evidence = ParameterNoise("0 of 21", (ParameterSpread(nan, nan, 0.1, False),))
    found = document([Finding("noise", "Maps", "", nan, nan, evidence=evidence)], "anki")
    (finding,) = json.loads(to_json(found))["findings"]
    assert finding["act"] is finding["probability"] is finding["gain"] is None
    (row,) = finding["tables"][0]["rows"]
    assert row["fitted"] is row["over days"] is None
    assert row["learners"] == 0.1


@pytest.mark.slow
def test_a_collections_document() -> None:
    path = shared_or_skip(FIXTURES, "collection.anki2")
    found = compared(path)
    assert faults(found, SCHEMA) == []
    assert found["rows"] == "anki"
    assert {each["question"] for each in found["findings"]} == {*COMPARE_QUESTIONS, "wrong"}
    of_presets = [
        each
        for each in found["findings"]
        if each["question"] == "parameters" and each["subject"] != "all presets"
    ]
    assert {each["subject"] for each in of_presets} > {"Vocabulary", "Sentences"}
    candidates = {"optimized", "recency", "defaults", "sm2", "pooled", "one line"}
    for each in of_presets:
        if each["act"] == "left out":
            continue
        assert each["act"] in {"keep", "optimize", "pooled", "one line", "defaults"}
        assert 0 < each["probability"] < 1
        assert set(each["probabilities"]) >= candidates
        is_worth = each["act"] != "keep" and each["probability"] >= 0.8
        assert (each["parameters"] is not None) == is_worth
        assert each["gain"] == 0 if each["act"] == "keep" else each["gain"] > 0


def test_a_document_without_presets(tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    lines = [
        f"{card},{1_600_000_000_000 + (day * 86_400 + card) * 1000},{1 + (card + day) % 3}"
        for day in range(6)
        for card in range(120)
    ]
    table.write_text("\n".join(["card_id,review_time,review_rating", *lines]))
    found = compared(table)
    assert faults(found, SCHEMA) == []
    assert found["rows"] == "benchmark"
    assert [each["question"] for each in found["findings"]] == ["parameters", "models", "wrong"]
    whole = found["findings"][0]
    assert whole["subject"] == "all reviews"
    assert {"optimized", "recency", "defaults", "sm2"} <= set(whole["probabilities"])
    finding = srs_eval.compare(srs_eval.load(table), "parameters")[0]
    assert finding.recommendation == whole["act"]
    assert finding.probability == pytest.approx(whole["probability"], abs=1e-6)
