"""What is said about whether models can schedule."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from srs_eval.engine.schedulability import Measurement, Obstacle, RetentionFaults, Schedulability
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.schedulability import (
    build_schedulability_document,
    build_schedulability_table,
    describe_faults,
    describe_measurement,
    describe_measurement_at_length,
    format_verdict,
    list_unmeasured,
)
from tests.helpers.program import run_in_process

NO_FAULTS = RetentionFaults(
    desired_retention=0.9,
    inverted=0.0,
    again_above_hard=0.0,
    hard_above_good=0.0,
    good_above_easy=0.0,
    never_reached=0.0,
    reached_twice=0.0,
    unschedulable=0.0,
    under_a_minute=0.4,
    under_a_minute_after_pass=0.0,
    above_five_times=0.1,
)
(FSRS_6,) = resolve_configurations("FSRS-6")


def measured(
    *retentions: RetentionFaults, rising: float = 0.0, flat: float = 0.0
) -> Schedulability:
    return Schedulability("FSRS-6", 2_000, retentions, rising, flat, in_whole_days=False)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "yes"),
        (0.0001, "fails for <0.1 %"),
        (0.004, "fails for 0.4 %"),
        (0.031, "fails for 3 %"),
        (0.994, "fails for 99.4 %"),
        (1.0, "no"),
    ],
)
def test_verdict_is_never_rounded_to_yes_or_no(share: float, words: str) -> None:
    result = measured(replace(NO_FAULTS, unschedulable=share))
    assert format_verdict(Measurement(FSRS_6, result)) == words


def test_verdict_is_about_ninety_percent() -> None:
    at_70 = replace(NO_FAULTS, desired_retention=0.7, unschedulable=1.0)
    assert format_verdict(Measurement(FSRS_6, measured(at_70, NO_FAULTS))) == "yes"


def test_model_without_faults_is_described_in_one_sentence() -> None:
    assert list(describe_faults(measured(NO_FAULTS))) == [
        "Asked for 90 %, it gives each button a single interval, in the right order, after each of "
        "2,000 reviews."
    ]


def test_each_fault_has_a_sentence() -> None:
    faults = replace(
        NO_FAULTS,
        inverted=0.02,
        good_above_easy=0.02,
        never_reached=0.3,
        reached_twice=0.05,
        under_a_minute_after_pass=0.09,
        unschedulable=0.35,
    )
    sentences = list(describe_faults(measured(faults, rising=0.7)))
    assert len(sentences) == 6
    assert "most often Good and Easy" in sentences[1]
    assert all(sentence.endswith(".") for sentence in sentences)


def test_model_without_time_is_described_as_such() -> None:
    (sentence,) = describe_faults(measured(replace(NO_FAULTS, unschedulable=1.0), flat=1.0))
    assert "does not change with time" in sentence


def test_models_that_were_not_measured_are_listed_with_the_reason() -> None:
    (state,) = resolve_configurations("STATE-FSRS-6")
    measurements = [
        Measurement(state, obstacle=Obstacle.ONLINE),
        Measurement(FSRS_6, failure="too few reviews"),
        Measurement(FSRS_6, measured(NO_FAULTS)),
    ]
    online, failed = list_unmeasured(measurements)
    assert online.startswith("STATE-FSRS-6: no: it learns")
    assert failed == "FSRS-6: not known: too few reviews."
    assert [format_verdict(each) for each in measurements] == ["no", "–", "yes"]
    assert describe_measurement(measurements[2]) == "yes"
    table = build_schedulability_table(measurements)
    assert len(table.rows) == 1
    document = build_schedulability_document(measurements, [0.9])
    assert [entry["configuration"] for entry in document["models"]] == [
        "STATE-FSRS-6",
        "FSRS-6",
        "FSRS-6",
    ]
    assert document["models"][0]["obstacle"] == "online"


def test_figures_of_ankis_sm2_are_not_taken_for_anki() -> None:
    (anki,) = resolve_configurations("Anki-dry-run")
    measurement = Measurement(anki, measured(replace(NO_FAULTS, unschedulable=0.8)))
    assert format_verdict(measurement) == "–"
    (line,) = list_unmeasured([measurement])
    assert "give Good the bonus of Easy. Anki does not." in line
    (sentence,) = describe_measurement_at_length(measurement)
    assert sentence.startswith("Not known: srs-benchmark's formulas")


def test_command_prints_a_table_and_a_document(simulated_collection: Path) -> None:
    flags = ("--models", "FSRS-6-dry-run,STATE-FSRS-6", "--histories", "50")
    command = ("schedulability", simulated_collection, *flags)
    done = run_in_process(*command, "--retention", "90")
    assert done.returncode == 0, done.stderr
    assert "FSRS-6 defaults: asked for 90 %; can schedule: yes" in done.stdout
    assert "STATE-FSRS-6: no: it learns from every answer" in done.stdout
    done = run_in_process(*command, "--json", "-")
    document = json.loads(done.stdout)
    assert document["desired_retentions"] == [0.7, 0.9, 0.97]
    entries = {entry["configuration"]: entry for entry in document["models"]}
    assert entries["FSRS-6-dry-run"]["histories"] == 50
    assert len(entries["FSRS-6-dry-run"]["retentions"]) == 3
    refused = run_in_process(*command, "--retention", "200")
    assert refused.returncode == 2
    assert "shares between 0 and 1" in refused.stderr
