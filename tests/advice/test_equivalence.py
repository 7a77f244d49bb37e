"""One equivalence applies everywhere, from config.toml or from --equivalence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srs_eval.advice.saved_answers import answers_digest
from srs_eval.data.paths import config_dir
from srs_eval.training.hyperparameters import Context
from tests.conftest import write_simulated_collection
from tests.helpers.program import run_in_process

LARGE = 0.02


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_collection(tmp_path_factory, 21, 4_000)


@pytest.fixture
def config() -> Iterator[Path]:
    path = config_dir() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"equivalence = {LARGE}\n", "utf-8")
    yield path
    path.unlink()


def run_as_document(*arguments: Any) -> dict[str, Any]:
    done = run_in_process(*arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def find_verdicts(path: Path, *options: Any) -> dict[tuple[str, str], list[str]]:
    """Return, by question and subject, the sentences and the verdicts in the tables."""
    content = run_as_document("compare", path, *options)
    verdicts = {}
    for finding in content["findings"]:
        key = (finding["question"], finding["subject"])
        verdicts[key] = finding["sentences"] + collect_verdicts(finding["tables"])
    return verdicts


def collect_verdicts(tables: Iterable[dict[str, Any]]) -> list[str]:
    """Return the verdicts in the tables' rows."""
    verdicts = []
    for table in tables:
        verdicts += [str(row["verdict"]) for row in table["rows"] if "verdict" in row]
    return verdicts


def find_exported_verdicts(document: dict[str, Any], question: str) -> list[str]:
    tables = document["tables"].items()
    return collect_verdicts(table for name, table in tables if name.startswith(question))


def test_equivalence_by_option_or_file_gives_the_same_verdicts(
    simulated: Path, config: Path
) -> None:
    options = ("--question", "parameters")
    by_file = find_verdicts(simulated, *options)
    config.write_text("equivalence = 0.002\n", "utf-8")
    usual = find_verdicts(simulated, *options)
    assert find_verdicts(simulated, *options, "--equivalence", LARGE) == by_file != usual
    assert (
        run_as_document("compare", simulated, *options, "--equivalence", LARGE)["equivalence"]
        == LARGE
    )


@pytest.mark.slow
def test_compare_and_export_give_the_same_verdicts(simulated: Path) -> None:
    options = ("compare", simulated, "--equivalence", LARGE, "--question")
    findings = []
    for name in ("parameters", "often"):
        findings += run_as_document(*options, name)["findings"]
    exported = run_as_document(
        "export", simulated, "--models", "FSRS-6,AVG", "--equivalence", LARGE, "--no-cache"
    )
    for question in ("parameters", "often"):
        of_compare = []
        for finding in findings:
            if finding["question"] == question:
                of_compare += collect_verdicts(finding["tables"])
        assert of_compare
        assert sorted(find_exported_verdicts(exported, question)) == sorted(of_compare), question
    acts = {
        finding["subject"]: finding["conclusion"]
        for finding in findings
        if finding["question"] == "parameters" and finding["act"]
    }
    actions = {row["preset"]: row["what to do"] for row in exported["tables"]["what-to-do"]["rows"]}
    assert actions == {name: act.lower() for name, act in acts.items()}


def test_equivalence_that_is_no_log_loss_is_refused(simulated: Path) -> None:
    for value in ("-0.1", "1", "nan"):
        for command in ("compare", "state", "export", "run"):
            done = run_in_process(command, simulated, "--equivalence", value)
            assert done.returncode == 2
            assert "--equivalence takes a log loss from 0 to 1" in done.stderr


def test_digest_of_answers_depends_on_the_equivalence(simulated: Path) -> None:
    import srs_eval

    log = srs_eval.load(simulated)
    assert answers_digest(log, Context(), LARGE) != answers_digest(log, Context(), 0.002)
