"""`compare --json` writes what docs/findings.schema.json says."""

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
from tests.conftest import REPOSITORY, shared_or_skip
from tests.helpers.advice import FIXTURES, write_small_table
from tests.helpers.program import run_in_process

SCHEMA = json.loads((REPOSITORY / "docs" / "findings.schema.json").read_text("utf-8"))
KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
    "boolean": bool, "null": type(None),
}  # fmt: skip
CHECKED = {
    "$ref", "type", "const", "enum", "anyOf", "minimum", "maximum", "pattern", "required",
    "properties", "additionalProperties", "items", "minItems", "maxItems",
}  # fmt: skip


def find_faults(value: Any, schema: dict[str, Any], where: str = "") -> list[str]:
    """Return a value's faults by a schema, of which only CHECKED may be used."""
    unknown = set(schema) - CHECKED - {"$schema", "$defs", "title"}
    assert not unknown, f"the schema uses {unknown}, which is not checked"
    if "$ref" in schema:
        return find_faults(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "anyOf" in schema:
        faults_of_options = [find_faults(value, option, where) for option in schema["anyOf"]]
        return [] if [] in faults_of_options else min(faults_of_options, key=len)
    errors = []
    kinds = schema.get("type", list(KINDS))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    is_wrong_flag = isinstance(value, bool) and "boolean" not in kinds
    if is_wrong_flag or not isinstance(value, tuple(KINDS[kind] for kind in kinds)):
        return [f"{where} is {value!r}, not {kinds}"]
    if "const" in schema and value != schema["const"]:
        errors.append(f"{where} is {value!r}")
    if "enum" in schema and value not in schema["enum"]:
        errors.append(f"{where} is {value!r}")
    if isinstance(value, int | float):
        inside = schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf)
        if not (inside and math.isfinite(value)):
            errors.append(f"{where} is {value}")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        errors.append(f"{where} is {value!r}")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
            errors.append(f"{where} has {len(value)} items")
        for position, item in enumerate(value):
            errors += find_faults(item, schema.get("items", {}), f"{where}[{position}]")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties", {})
        required = schema.get("required", ())
        errors += [f"{where} lacks {key}" for key in required if key not in value]
        for key, item in value.items():
            if key not in properties and additional is False:
                errors.append(f"{where} has {key}")
            else:
                errors += find_faults(item, properties.get(key, additional or {}), f"{where}.{key}")
    return errors


def run_compare(path: Path, *options: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} in JSON")

    done = run_in_process("compare", path, *options, "--json", "-")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout, parse_constant=refuse)
    return content


def test_schema_accepts_a_right_document_and_refuses_wrong_ones() -> None:
    evidence = Unanswered("so it is")
    missing = MissingData(300, None, "2026-12-15")
    unsure = Interval(-0.01, math.nan, 40, 1)
    finding = Finding("parameters", "Maps", "keep", 0.5, 0.0, unsure, missing=missing)
    right = document([replace(finding, evidence=evidence)], "anki")
    assert find_faults(right, SCHEMA) == []
    assert right["findings"][0]["interval"]["low"] is None
    assert right["findings"][0]["missing"] == {
        "reviews": 300,
        "days": None,
        "date": "2026-12-15",
        "out_of_reach": False,
    }
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
        assert find_faults(wrong, SCHEMA), changes


def test_undefined_figures_are_null() -> None:
    nan = math.nan
    evidence = ParameterNoise("0 of 21", (ParameterSpread(nan, nan, 0.1, False),))
    document_of_nan = document([Finding("noise", "Maps", "", nan, nan, evidence=evidence)], "anki")
    (finding,) = json.loads(to_json(document_of_nan))["findings"]
    assert finding["act"] is finding["probability"] is finding["gain"] is None
    (row,) = finding["tables"][0]["rows"]
    assert row["fitted"] is row["over days"] is None
    assert row["learners"] == 0.1


@pytest.mark.slow
def test_document_of_a_collection_follows_the_schema() -> None:
    path = shared_or_skip(FIXTURES, "collection.anki2")
    content = run_compare(path)
    assert find_faults(content, SCHEMA) == []
    assert content["rows"] == "anki"
    assert {finding["question"] for finding in content["findings"]} == {*COMPARE_QUESTIONS, "wrong"}
    of_presets = [
        finding
        for finding in content["findings"]
        if finding["question"] == "parameters" and finding["subject"] != "all presets"
    ]
    assert {finding["subject"] for finding in of_presets} > {"Vocabulary", "Sentences"}
    candidates = {"optimized", "recency", "defaults", "sm2", "pooled", "one line"}
    for finding in of_presets:
        if finding["act"] == "left out":
            continue
        assert finding["act"] in {"keep", "optimize", "taught", "pooled", "one line", "defaults"}
        assert 0 < finding["probability"] < 1
        assert set(finding["probabilities"]) >= candidates
        is_worth = finding["act"] != "keep" and finding["probability"] >= 0.8
        assert (finding["parameters"] is not None) == is_worth
        assert finding["gain"] == 0 if finding["act"] == "keep" else finding["gain"] > 0


def test_document_without_presets_follows_the_schema(tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    write_small_table(table)
    content = run_compare(table)
    assert find_faults(content, SCHEMA) == []
    assert content["rows"] == "benchmark"
    assert [finding["question"] for finding in content["findings"]] == [
        "parameters",
        "models",
        "wrong",
    ]
    finding_of_all = content["findings"][0]
    assert finding_of_all["subject"] == "all reviews"
    assert {"optimized", "recency", "defaults", "sm2"} <= set(finding_of_all["probabilities"])
    finding = srs_eval.compare(srs_eval.load(table), "parameters")[0]
    assert finding.recommendation == finding_of_all["act"]
    assert finding.probability == pytest.approx(finding_of_all["probability"], abs=1e-6)


@pytest.mark.parametrize("has_presets", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_document_about_fsrs7_follows_the_schema(has_presets: bool, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    if has_presets:
        path = shared_or_skip(FIXTURES, "collection.anki2")
    else:
        write_small_table(path)
    content = run_compare(path, "--question", "fsrs-7")
    assert find_faults(content, SCHEMA) == []
    for finding in content["findings"]:
        assert finding["conclusion"] in {"better", "as good", "worse", "can't tell"}
        assert finding["act"] is None
        assert set(finding["belief"]) >= {"probability", "gain"}
    assert (len(content["findings"]) > 1) == has_presets
