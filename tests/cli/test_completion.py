"""Check what the shell offers when a word of a command line is completed."""

from __future__ import annotations

import os

import pytest

from srs_eval.cli.completion import complete_model, complete_models
from srs_eval.models.configurations import GROUPS, list_configuration_names
from tests.helpers.program import run_program


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("srs-eval comp", {"compare"}),
        ("srs-eval compare --question h", {"health", "hard"}),
        ("srs-eval run --models FSRS-6,DASH[", {"FSRS-6,DASH[ACT-R]", "FSRS-6,DASH[MCM]"}),
        ("srs-eval models GRU-P-s", {"GRU-P-short"}),
    ],
)
def test_shell_offers_what_fits(line: str, expected: set[str]) -> None:
    request = {
        "_SRS_EVAL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    completed = run_program(env={**os.environ, **request})
    assert set(completed.stdout.split()) == expected


def test_only_the_last_model_of_a_list_is_completed() -> None:
    assert set(complete_models("")) == {*GROUPS, *list_configuration_names()}
    assert complete_models("AVG,MOVING") == ["AVG,MOVING-AVG"]
    assert complete_models("AVG,nothing") == []
    assert complete_model("MOVING") == ["MOVING-AVG"]
    assert complete_model("fast") == []  # a group is no model
