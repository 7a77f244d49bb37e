"""Check batches with models on a device, with a device that is the processor.

"cpu:0" is a device for torch, and for the batch another one than "cpu".
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PATIENCE
from tests.helpers.batches import batch_command, read_lines, read_outcomes
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

DEVICE = ("--device", "cpu:0")
POISONED = 7


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write users 1 to 6, and one whose file is no parquet."""
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset({user: simulate_learner(user, 200 + 20 * user) for user in range(1, 7)}, folder)
    poisoned = folder / "revlogs" / f"user_id={POISONED}" / "data.parquet"
    poisoned.parent.mkdir()
    poisoned.write_bytes(b"PAR1 but nothing else")
    return folder


def run(
    dataset: Path, out: Path, *options: str, models: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        batch_command(dataset, out, *options, models=models),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


@pytest.mark.slow
def test_batch_results_on_a_device_do_not_depend_on_jobs(dataset: Path, tmp_path: Path) -> None:
    for jobs in ("1", "3"):
        done = run(
            dataset, tmp_path / jobs, *DEVICE, "--jobs", jobs, models="AVG,LSTM-dry-run,SLOW"
        )
        assert done.returncode == 1, done.stderr  # the poisoned user
    assert read_outcomes(tmp_path / "3") == read_outcomes(tmp_path / "1")
    result_files = sorted((tmp_path / "3" / "result").iterdir())
    assert len(result_files) == 3
    for path in result_files:
        assert list(read_lines(path)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_failure_on_a_device_costs_one_unit(dataset: Path, tmp_path: Path) -> None:
    models = "AVG,KILLED,RAISING,LOSING,SLOW"
    done = run(
        dataset,
        tmp_path,
        *DEVICE,
        "--users",
        "1-6",
        models=models,
        TEST_ON_DEVICE="KILLED,RAISING,LOSING,SLOW",
        TEST_MISBEHAVE="1",
    )
    assert done.returncode == 1, done.stderr
    failed = {path.stem: read_lines(path) for path in (tmp_path / "failed").iterdir()}
    assert {name: list(users) for name, users in failed.items()} == {
        "KILLED": [2],
        "RAISING": [3],
        "LOSING": [4],
    }
    assert "killed (signal 9)" in failed["KILLED"][2]["reason"]
    assert "unspecified launch failure" in failed["LOSING"][4]["reason"]
    for name in ("AVG", "SLOW"):
        assert len(read_lines(tmp_path / "result" / f"{name}.jsonl")) == 6


@pytest.mark.slow
def test_missing_device_is_refused_before_any_work(dataset: Path, tmp_path: Path) -> None:
    arguments = ("batch", "--dataset", dataset, "--out", tmp_path, "--models", "AVG")
    assert run_in_process(*arguments, "--users", "1-3").returncode == 0
    before = read_outcomes(tmp_path)
    refused = run_in_process(*arguments[:-1], "AVG,LSTM", "--device", "cuda:999", "--fresh")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "The device 'cuda:999' cannot be used" in refused.stderr
    for name in ("gpu", "cuda:x", "cuda:"):
        unknown = run_in_process(*arguments, "--device", name)
        assert unknown.returncode == 2
        assert "--device takes" in unknown.stderr
    assert read_outcomes(tmp_path) == before
    unused = run_in_process(*arguments, "--device", "cuda:999", "--fresh", "--users", "1")
    assert unused.returncode == 0, unused.stderr


@pytest.mark.slow
def test_a_device_may_be_spelled_large(dataset: Path, tmp_path: Path) -> None:
    large = ("--device", "CPU:0", "--users", "1-2", "--jobs", "1")
    done = run(dataset, tmp_path, *large, models="AVG,SLOW", TEST_ON_DEVICE="SLOW")
    assert done.returncode == 0, done.stderr
    assert list(read_lines(tmp_path / "result" / "SLOW.jsonl")) == [1, 2]
