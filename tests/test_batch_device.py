"""A lane of its own for what runs on a device; tried with a device that is the processor.

"cpu:0" is a device for torch, and for the batch another one than "cpu".
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from srs_eval.benchmark.plan import open_backend
from srs_eval.data.errors import InputError
from tests.cli.program import run_in_process
from tests.conftest import PATIENCE
from tests.test_batch import command, lines, needs_proc
from tools.simulated import simulate_learner, write_dataset

DEVICE = ("--device", "cpu:0")
POISONED = 7


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users 1 to 6, and one whose file is no parquet."""
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset({user: simulate_learner(user, 200 + 20 * user) for user in range(1, 7)}, folder)
    poisoned = folder / "revlogs" / f"user_id={POISONED}" / "data.parquet"
    poisoned.parent.mkdir()
    poisoned.write_bytes(b"PAR1 but nothing else")
    return folder


def run(
    dataset: Path, out: Path, *more: str, models: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(dataset, out, *more, models=models),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


def results(out: Path) -> dict[str, bytes]:
    return {
        f"{kind}/{path.name}": path.read_bytes()
        for kind in ("result", "skipped", "failed")
        for path in sorted((out / kind).glob("*"))
    }


@pytest.mark.slow
@needs_proc
def test_one_process_has_the_device_and_the_others_go_on(dataset: Path, tmp_path: Path) -> None:
    """The same files as without a lane."""
    models, met, out = "AVG,HERE,THERE,LSTM-dry-run", tmp_path / "met", tmp_path / "lane"
    met.mkdir()
    environment = {"TEST_ON_DEVICE": "THERE", "TEST_MEETING": str(met)}
    done = run(dataset, out, *DEVICE, "--jobs", "3", models=models, **environment)
    assert done.returncode == 1, done.stderr  # the poisoned user
    assert "with 3 jobs" in done.stderr

    def processes(name: str) -> set[int]:
        return {int(each.read_text()) for each in met.glob(f"{name}-*")}

    assert len(processes("THERE")) == 1
    assert not processes("THERE") & processes("HERE")
    run(dataset, tmp_path / "plain", *DEVICE, "--jobs", "1", models=models)
    assert results(out) == results(tmp_path / "plain")
    for name in ("HERE", "THERE"):
        assert list(lines(out / "result" / f"{name}.jsonl")) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_what_goes_wrong_on_the_device_costs_one_unit(dataset: Path, tmp_path: Path) -> None:
    models = "AVG,KILLED,RAISING,LOSING,SLOW"
    done = run(
        dataset,
        tmp_path,
        *DEVICE,
        *("--users", "1-6"),
        models=models,
        TEST_ON_DEVICE="KILLED,RAISING,LOSING,SLOW",
        TEST_MISBEHAVE="1",
    )
    assert done.returncode == 1, done.stderr
    failed = {path.stem: lines(path) for path in (tmp_path / "failed").iterdir()}
    assert {name: list(users) for name, users in failed.items()} == {
        "KILLED": [2],
        "RAISING": [3],
        "LOSING": [4],
    }
    assert "killed (signal 9)" in failed["KILLED"][2]["reason"]
    assert "unspecified launch failure" in failed["LOSING"][4]["reason"]
    for name in ("AVG", "SLOW"):
        assert len(lines(tmp_path / "result" / f"{name}.jsonl")) == 6


@pytest.mark.slow
def test_a_device_that_is_not_there_is_said_before_anything(dataset: Path, tmp_path: Path) -> None:
    some = ("batch", "--dataset", dataset, "--out", tmp_path, "--models", "AVG")
    assert run_in_process(*some, "--users", "1-3").returncode == 0
    before = results(tmp_path)
    refused = run_in_process(*some[:-1], "AVG,LSTM", "--device", "cuda:999", "--fresh")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "The device 'cuda:999' cannot be used" in refused.stderr
    for name in ("gpu", "cuda:x", "cuda:"):
        unknown = run_in_process(*some, "--device", name)
        assert unknown.returncode == 2
        assert "--device takes" in unknown.stderr
    assert results(tmp_path) == before
    unused = run_in_process(*some, "--device", "cuda:999", "--fresh", "--users", "1")
    assert unused.returncode == 0, unused.stderr


@pytest.mark.slow
def test_a_device_may_be_spelled_large(dataset: Path, tmp_path: Path) -> None:
    large = ("--device", "CPU:0", "--users", "1-2", "--jobs", "1")
    done = run(dataset, tmp_path, *large, models="AVG,THERE", TEST_ON_DEVICE="THERE")
    assert done.returncode == 0, done.stderr
    assert list(lines(tmp_path / "result" / "THERE.jsonl")) == [1, 2]


@contextmanager
def dask_cluster(*resources: dict[str, int]) -> Iterator[str]:
    """The address of a cluster with one worker for each of these."""
    distributed = pytest.importorskip("distributed")
    workers = {
        number: {
            "cls": distributed.Nanny,
            "options": {"nthreads": 1, "resources": each, "dashboard_address": None},
        }
        for number, each in enumerate(resources)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": None}}
    with distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


@pytest.mark.slow
def test_on_dask_the_workers_with_a_gpu_get_what_runs_on_it(tmp_path: Path) -> None:
    def place(address: str, lane: bool):  # type: ignore[no-untyped-def]
        return open_backend(address, 1, tmp_path, int, lambda *_: None, use_gpus=lane)

    with dask_cluster({"GPU": 1}, {}) as address, place(address, lane=True) as everywhere:
        on_gpu = everywhere.device_backend
        assert on_gpu is not None
        assert (everywhere.jobs, on_gpu.jobs) == (2, 1)
        futures = [on_gpu.executor.submit(os.getpid) for _ in range(8)]
        assert len({each.result() for each in futures}) == 1
    with dask_cluster({}) as address:
        with place(address, lane=False) as everywhere:
            assert everywhere.device_backend is None
        with (
            pytest.raises(InputError, match="has the resource GPU"),
            place(address, lane=True),
        ):
            pytest.fail("no worker has a GPU")
