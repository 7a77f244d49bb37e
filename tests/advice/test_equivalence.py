"""What does not matter is one thing everywhere: in config.toml, or by --equivalence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srs_eval.advice.saved_answers import answers_digest
from srs_eval.data.paths import config_dir
from srs_eval.training.hyperparameters import Context
from tests.cli.program import run_in_process
from tests.conftest import write_simulated_collection

LARGE = 0.02


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_collection(tmp_path_factory, 21, 4_000)


@pytest.fixture
def config() -> Iterator[Path]:
    path = config_dir() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"equivalence = {LARGE}\n", "utf-8")
    yield path
    path.unlink()


def document(*arguments: Any) -> dict[str, Any]:
    done = run_in_process(*arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verdicts_compared(path: Path, *options: Any) -> dict[tuple[str, str], list[str]]:
    """By question and subject: its sentences, and verdicts in its tables."""
    found = document("compare", path, *options)
    return {
        (each["question"], each["subject"]): each["sentences"]
        + [str(row["verdict"]) for table in each["tables"] for row in table["rows"]
           if "verdict" in row]
        for each in found["findings"]
    }  # fmt: skip


def in_tables(document: dict[str, Any], question: str) -> list[str]:
    return [
        row["verdict"]
        for name, table in document["tables"].items()
        if name.startswith(question)
        for row in table["rows"]
        if "verdict" in row
    ]


def test_the_option_and_the_file_say_the_same(made: Path, config: Path) -> None:
    asked = ("--question", "parameters")
    by_file = verdicts_compared(made, *asked)
    config.write_text("equivalence = 0.002\n", "utf-8")
    usual = verdicts_compared(made, *asked)
    assert verdicts_compared(made, *asked, "--equivalence", LARGE) == by_file != usual
    assert document("compare", made, *asked, "--equivalence", LARGE)["equivalence"] == LARGE


@pytest.mark.slow
def test_compare_and_export_agree(made: Path) -> None:
    asked = ("compare", made, "--equivalence", LARGE, "--question")
    findings = [
        each for name in ("parameters", "often") for each in document(*asked, name)["findings"]
    ]
    exported = document(
        "export", made, "--models", "FSRS-6,AVG", "--equivalence", LARGE, "--no-cache"
    )
    for question in ("parameters", "often"):
        of_compare = [
            str(row["verdict"])
            for each in findings
            if each["question"] == question
            for table in each["tables"]
            for row in table["rows"]
            if "verdict" in row
        ]
        assert of_compare
        assert sorted(in_tables(exported, question)) == sorted(of_compare), question
    acts = {
        each["subject"]: each["conclusion"]
        for each in findings
        if each["question"] == "parameters" and each["act"]
    }
    told = {row["preset"]: row["what to do"] for row in exported["tables"]["what-to-do"]["rows"]}
    assert told == {name: {"keep": "leave"}.get(act.lower(), act) for name, act in acts.items()}


def test_what_is_no_log_loss_is_refused(made: Path) -> None:
    for value in ("-0.1", "1", "nan"):
        for command in ("compare", "state", "export", "run"):
            done = run_in_process(command, made, "--equivalence", value)
            assert done.returncode == 2
            assert "--equivalence takes a log loss from 0 to 1" in done.stderr


def test_saved_answers_are_of_their_equivalence(made: Path) -> None:
    import srs_eval

    log = srs_eval.load(made)
    assert answers_digest(log, Context(), LARGE) != answers_digest(log, Context(), 0.002)
