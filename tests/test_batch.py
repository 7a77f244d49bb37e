"""Check that batches write the same files whatever happens, and leave no process behind."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas
import pytest

from srs_eval import batch, metrics
from srs_eval.batch import _evaluate_user, run_batch
from srs_eval.benchmark import plan, setup
from srs_eval.benchmark.check import check_folder
from srs_eval.benchmark.leaderboard import compare_files
from srs_eval.benchmark.plan import Backend, Ended, Planned, is_engine
from srs_eval.benchmark.result_files import read_folders
from srs_eval.benchmark.setup import add_labels
from srs_eval.benchmark.store import Unit
from srs_eval.data.dataset_hub import check_users as verify
from srs_eval.data.datasets import find_missing_id_ranges, open_dataset, select_shard, select_users
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.workers import TaskEvents
from srs_eval.models import all_models
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.report.console import BatchProgress
from srs_eval.training.hyperparameters import Context
from tests.conftest import PATIENCE
from tests.helpers.batches import MODELS, PROGRAM, batch_command, read_lines, read_outcomes
from tests.helpers.golden import golden_dataset, golden_folder
from tests.helpers.marks import slow_except
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

USERS = 12
TINY = 20
POISONED = 21
COMPILED = ("HLR", "DASH[MCM]")

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="reads the process table of Linux"
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write users 1 to 12, one with too little data, and one whose file is no parquet."""
    folder = tmp_path_factory.mktemp("dataset")
    learners = {user: simulate_learner(user, 600 + 20 * user) for user in range(1, USERS + 1)}
    write_dataset({**learners, TINY: simulate_learner(3, 4)}, folder)
    poisoned = folder / "revlogs" / f"user_id={POISONED}" / "data.parquet"
    poisoned.parent.mkdir()
    poisoned.write_bytes(b"PAR1 but nothing else")
    return folder


def run_with_workers(
    dataset: Path, out: Path, *options: str, models: str = MODELS, misbehave: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a batch in another process, whose models misbehave if they may."""
    environment = {**os.environ, "TEST_MISBEHAVE": "1" if misbehave else "0"}
    return subprocess.run(
        batch_command(dataset, out, *options, models=models),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
    )


def run_without_workers(
    dataset: Path, out: Path, *options: str, models: str = MODELS
) -> subprocess.CompletedProcess[str]:
    """Run the same batch in this process, for tests that are not about processes."""
    arguments = ("--dataset", dataset, "--out", out, "--models", models)
    return run_in_process("batch", *arguments, *options)


@pytest.fixture(scope="module")
def undisturbed(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    done = run_without_workers(dataset, out)
    assert done.returncode == 1, done.stderr  # the poisoned user
    assert done.stderr.endswith("evaluated: docs/protocol.md.\n")
    return out


def test_files_of_a_batch(undisturbed: Path) -> None:
    names = [configuration.name for configuration in resolve_configurations(MODELS)]
    assert sorted(path.stem for path in (undisturbed / "result").iterdir()) == sorted(names)
    for name in names:
        result = read_lines(undisturbed / "result" / f"{name}.jsonl")
        assert list(result) == list(range(1, USERS + 1))
        assert list(read_lines(undisturbed / "timing" / f"{name}.jsonl")) == list(result)
        assert list(read_lines(undisturbed / "skipped" / f"{name}.jsonl")) == [TINY]
        failed = read_lines(undisturbed / "failed" / f"{name}.jsonl")
        assert list(failed) == [POISONED]
        assert "damaged" in failed[POISONED]["reason"]
        assert list(result[1])[:3] == ["metrics", "user", "size"]
        assert result[1]["size"] > 10


@pytest.mark.slow
def test_batch_uses_names_of_2026_for_files_only(dataset: Path, tmp_path: Path) -> None:
    chosen = ("--users", "1-3", "--names", "2026")
    done = run_without_workers(dataset, tmp_path, *chosen, models="FSRS-6-dry-run,AVG")
    assert done.returncode == 0, done.stderr
    assert "FSRS-6 defaults" in done.stdout
    names = {"AVG.jsonl", "FSRS-6-default-short.jsonl"}
    assert {path.name for path in (tmp_path / "result").iterdir()} == names
    assert {path.name for path in (tmp_path / "timing").iterdir()} == names
    new = read_outcomes(tmp_path)
    timing = read_lines(tmp_path / "timing" / "AVG.jsonl")
    assert timing[1]["time_ms"] == pytest.approx(1000 * timing[1]["seconds"])
    assert timing[1]["cpu_seconds"] >= 0
    assert check_folder(tmp_path) == []
    (folder,) = read_folders([tmp_path])
    assert {file.name for file in folder.files} == {"AVG", "FSRS-6-dry-run"}
    again = run_without_workers(dataset, tmp_path, *chosen[:3], "2025", models="FSRS-6-dry-run,AVG")
    assert "6 done" not in again.stderr  # renamed, not evaluated again
    old = read_outcomes(tmp_path)
    renamed = {
        name.replace("6-default-short", "6-dry-run"): content for name, content in new.items()
    }
    without_times = {
        name: re.sub(rb', "time_ms": [0-9.]+}\n', b"}\n", content)
        for name, content in renamed.items()
    }
    assert without_times == old != renamed


@pytest.mark.slow
def test_jobs_and_order_change_nothing(dataset: Path, undisturbed: Path, tmp_path: Path) -> None:
    run_with_workers(dataset, tmp_path, "--users", "7-12,20,21")  # two workers
    run_without_workers(dataset, tmp_path, "--users", "1-9")
    assert read_outcomes(tmp_path) == read_outcomes(undisturbed)


def test_a_second_run_does_only_what_failed(
    dataset: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    before = (out / "timing" / "AVG.jsonl").read_bytes()
    again = run_without_workers(dataset, out)
    assert again.returncode == 1
    assert "6 units to evaluate (78 are already done, 6 failed before" in again.stderr
    assert read_outcomes(out) == read_outcomes(undisturbed)
    assert (out / "timing" / "AVG.jsonl").read_bytes() == before
    nothing = run_without_workers(dataset, out, "--users", "1-20")
    assert nothing.returncode == 0
    assert "0 units to evaluate" in nothing.stderr


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_kill_9_at_any_moment_loses_nothing(
    times: int, dataset: Path, undisturbed: Path, tmp_path: Path
) -> None:
    chance = random.Random(7)
    kills = 0
    for _ in range(times):
        process = subprocess.Popen(
            batch_command(dataset, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _wait_for_growth(process, tmp_path, units=chance.randint(1, 12))
        time.sleep(chance.random() * 0.02)
        workers = _children(process.pid)
        kills += process.poll() is None
        process.kill()
        process.wait()
        _assert_gone(workers)
    assert kills >= 1
    last = run_with_workers(dataset, tmp_path)
    assert last.returncode == 1, last.stderr
    assert read_outcomes(tmp_path) == read_outcomes(undisturbed)


def _wait_for_growth(process: subprocess.Popen[bytes], out: Path, units: int) -> None:
    def count() -> int:
        journals = (out / ".journal").glob("*.jsonl")
        return sum(journal.read_bytes().count(b"\n") for journal in journals)

    goal = count() + units
    until = time.monotonic() + PATIENCE
    while process.poll() is None and count() < goal:
        assert time.monotonic() < until
        time.sleep(0.005)


def _children(parent: int) -> list[int]:
    processes = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after_name = stat.read_text().rpartition(")")[2].split()
            if int(after_name[1]) == parent:
                processes.append(int(stat.parent.name))
    return processes


def _assert_gone(processes: Sequence[int]) -> None:
    until = time.monotonic() + PATIENCE
    running = list(processes)
    while running and time.monotonic() < until:
        running = [process for process in running if _alive(process)]
        time.sleep(0.02)
    assert not running


def _alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@needs_proc
@pytest.mark.parametrize(
    ("number", "code"),
    slow_except(
        {(signal.SIGINT, 130)}, [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
    ),
)
def test_signals_leave_no_worker_and_all_results(
    dataset: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        batch_command(dataset, tmp_path, models="AVG,STUCK"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _wait_for_growth(process, tmp_path, units=2)  # one AVG of each worker
    assert process.stderr is not None
    stated = ""
    while stated.count("must not reach stdout") < 2:  # now both are stuck
        assert process.poll() is None
        stated += process.stderr.readline()
    workers = _children(process.pid)
    assert len(workers) >= 2
    second = run_without_workers(dataset, tmp_path, models="AVG")
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert "Another batch is writing" in second.stderr
    assert process.poll() is None
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C in a terminal: to everyone
    else:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    stderr = stated + stderr
    assert process.returncode == code
    _assert_gone(workers)
    assert stdout == ""
    assert "Traceback" not in stderr
    if number != signal.SIGKILL:
        assert "2 of" in stderr
        assert len(read_lines(tmp_path / "result" / "AVG.jsonl")) == 2


@pytest.mark.slow
def test_a_dying_worker_is_recorded(dataset: Path, tmp_path: Path) -> None:
    done = run_with_workers(
        dataset, tmp_path, "--users", "1-5", models="AVG,KILLED", misbehave=True
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    killed = read_lines(tmp_path / "failed" / "KILLED.jsonl")
    assert list(killed) == [2]
    assert "killed (signal 9)" in killed[2]["reason"]
    assert list(read_lines(tmp_path / "result" / "KILLED.jsonl")) == [1, 3, 4, 5]
    assert list(read_lines(tmp_path / "result" / "AVG.jsonl")) == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("dask-local", marks=pytest.mark.slow)])
def test_unit_of_a_killed_worker_is_tried_again(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if engine != "local":
        pytest.importorskip("distributed")
    monkeypatch.setenv("TEST_MEETING", str(tmp_path))
    options = ("--users", "1-3", "--engine", engine)
    out = tmp_path / "out"
    done = run_with_workers(dataset, out, *options, models="AVG,ONCE", misbehave=True)
    assert (tmp_path / "killed").exists()
    assert done.returncode == 0, done.stderr
    assert list(read_lines(out / "result" / "ONCE.jsonl")) == [1, 2, 3]
    assert list(read_lines(out / "result" / "AVG.jsonl")) == [1, 2, 3]
    assert not list(out.glob("failed/*"))


@pytest.mark.slow
def test_audit_reports_a_dead_worker_in_one_sentence(dataset: Path, tmp_path: Path) -> None:
    audit = ["audit", str(dataset), "--models", "AVG,KILLED", "--users", "1-3", "--jobs", "2"]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *audit, "--out", str(tmp_path / "audit")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "TEST_MISBEHAVE": "1"},
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "1 fit: KILLED: the worker process was killed (signal 9)" in done.stdout


def test_a_raising_model_is_recorded_and_tried_again(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a failed attempt to add predictions loses no result."""
    average = all_models()["AVG"]

    def raising(trials: Trials, context: Context) -> FloatArray:
        if context.user == 3:
            raise ValueError("no such memory")
        assert average.online is not None
        return average.online(trials, context)

    def batch(*options: str, raises: bool) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patched:
            if raises:
                patched.setitem(all_models(), "AVG", replace(average, online=raising))
            return run_without_workers(
                dataset, tmp_path, "--users", "1-4", *options, models="AVG,90%"
            )

    done = batch(raises=True)
    assert done.returncode == 1
    assert "failed: 1 x ValueError: no such memory" in done.stderr
    assert "average" in done.stdout  # the others are told as ever
    raised = read_lines(tmp_path / "failed" / "AVG.jsonl")
    assert list(raised) == [3]
    assert raised[3]["reason"] == "ValueError: no such memory"
    assert "Traceback" in raised[3]["detail"]
    assert list(read_lines(tmp_path / "result" / "AVG.jsonl")) == [1, 2, 4]
    assert list(read_lines(tmp_path / "result" / "90%.jsonl")) == [1, 2, 3, 4]
    assert "1 unit to" in batch(raises=False).stderr
    assert list(read_lines(tmp_path / "result" / "AVG.jsonl")) == [1, 2, 3, 4]
    assert not (tmp_path / "failed").exists()
    before = read_outcomes(tmp_path)
    assert batch("--raw", raises=True).returncode == 1
    assert read_outcomes(tmp_path) == before
    assert "1 unit to" in batch("--raw", raises=False).stderr


@needs_proc
@pytest.mark.slow
def test_dask_batch_with_killed_worker_writes_the_same_files(dataset: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    models = "AVG,SLOW,SM2-short"
    process = subprocess.Popen(
        batch_command(dataset, tmp_path / "dask", "--engine", "dask-local", models=models),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for_growth(process, tmp_path / "dask", units=1)
    workers = [
        child
        for child in _children(process.pid)
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    assert process.poll() is None
    os.kill(workers[-1], signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, errors  # the poisoned file
    assert "Traceback" not in errors
    run_with_workers(dataset, tmp_path / "local", models=models)
    assert read_outcomes(tmp_path / "dask") == read_outcomes(tmp_path / "local")
    _assert_gone(workers)


@pytest.mark.slow
def test_dask_batch_loses_only_the_unit_that_kills_workers(dataset: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    models = "AVG,KILLED,RAISING"
    on_dask = ("--engine", "dask-local")
    with socket.socket() as occupied:
        with contextlib.suppress(OSError):  # then it is taken already
            occupied.bind(("", 8787))  # where Dask's own page would be
            occupied.listen()
        done = run_with_workers(
            dataset, tmp_path, "--users", "1-5", *on_dask, models=models, misbehave=True
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "8787" not in done.stderr
    killed = read_lines(tmp_path / "failed" / "KILLED.jsonl")
    assert list(killed) == [2]
    assert killed[2]["reason"] == "the worker died while it worked on this task alone"
    assert list(read_lines(tmp_path / "failed" / "RAISING.jsonl")) == [3]
    assert list(read_lines(tmp_path / "result" / "KILLED.jsonl")) == [1, 3, 4, 5]
    assert list(read_lines(tmp_path / "result" / "AVG.jsonl")) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_worker_with_another_environment_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    planned = {**plan.environment(), "folder": str(tmp_path)}
    assert plan._run_checked(planned, int, ("3",), {}) == 3
    for name, words in (("code", "another srs-eval"), ("numpy", "numpy 1.0.0")):
        with pytest.raises(InputError, match=words):
            plan._run_checked({**planned, name: "1.0.0"}, pytest.fail, (), {})
    other_processor = {**planned, "simd": "MMX"}
    assert plan._run_checked(other_processor, int, ("3",), {}) == 3
    other_folder = {**planned, "folder": str(tmp_path / "gone")}
    with pytest.raises(InputError, match="no folder"):
        plan._run_checked(other_folder, pytest.fail, (), {})


def test_a_batch_goes_on_with_another_processor(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--users", "1", "--jobs", "1")
    elsewhere = {**setup.environment(), "simd": "X86_V2 AVX_OTHER"}
    with monkeypatch.context() as patched:
        patched.setattr(setup, "environment", lambda: elsewhere)
        assert run_without_workers(dataset, tmp_path, *flags, models="AVG").returncode == 0
    done = run_without_workers(dataset, tmp_path, *flags, models="AVG,90%")
    assert done.returncode == 0, done.stderr
    assert "not all made in the same way: vector features " in done.stderr
    assert "AVX_OTHER" in done.stderr
    stored = json.loads((tmp_path / "setup.json").read_text("utf-8"))
    assert stored["environment"] == elsewhere
    assert stored["more_environments"] == [setup.environment()]
    assert "nothing is wrong" in run_in_process("results", "check", tmp_path).stdout


@pytest.mark.slow
def test_setup_names_vector_features_and_pandas_for_own_models(
    dataset: Path, tmp_path: Path
) -> None:
    simd = setup.environment()["simd"].split()
    cpu_features = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__
    assert simd
    assert all(cpu_features[name] for name in simd)
    model = tmp_path / "mine.py"
    model.write_text(
        "from srs_eval.models import TrainedModel\n"
        "MODELS = (TrainedModel('MINE', parameters=0,\n"
        "    predict=lambda trials, parameters, index, context: index * 0 + 0.8),)\n"
    )
    flags = ("--users", "1", "--jobs", "1")
    for models, options, is_named in (
        ("AVG", (), False),
        ("AVG,MINE", ("--model-file", model), True),
    ):
        done = run_without_workers(dataset, tmp_path / "out", *flags, *options, models=models)
        assert done.returncode == 0, done.stderr
        assert "not all made in the same way" not in done.stderr
        stored = json.loads((tmp_path / "out" / "setup.json").read_text("utf-8"))
        environments = [stored["environment"], *stored.get("more_environments", [])]
        versions = [environment.get("pandas") for environment in environments]
        assert (pandas.__version__ in versions) == is_named


def test_unknown_engine_is_refused(dataset: Path, tmp_path: Path) -> None:
    done = run_without_workers(dataset, tmp_path, "--engine", "spark")
    assert done.returncode == 2
    assert "dask://HOST:PORT" in done.stderr
    assert "Traceback" not in done.stderr
    assert all(map(is_engine, ("local", "dask-local", "dask://a.b:87")))
    assert not is_engine("dask://a")


@pytest.mark.slow
def test_raw_predictions(dataset: Path, tmp_path: Path) -> None:
    """Check that predictions give the figures, can be added later, and are merged."""
    models = "AVG,SM2-short"
    users = ("--users", "1-3,20")
    assert run_without_workers(dataset, tmp_path / "one", *users, models=models).returncode == 0
    assert not (tmp_path / "one" / "raw").exists()
    again = run_without_workers(dataset, tmp_path / "one", *users, "--raw", models=models)
    assert "6 units to evaluate" in again.stderr
    complete = run_without_workers(dataset, tmp_path / "one", *users, "--raw", models=models)
    assert "0 units" in complete.stderr
    merge = ("--merge", str(tmp_path / "one"))
    run_without_workers(dataset, tmp_path / "two", *users, "--raw", *merge, models=models)
    assert read_outcomes(tmp_path / "two") == read_outcomes(tmp_path / "one")
    for name in models.split(","):
        frame = pandas.read_parquet(tmp_path / "two" / "raw" / name)
        assert list(frame["user"].unique()) == [1, 2, 3]
        assert set(frame["configuration"]) == {name}
        assert frame["fold"].between(1, 5).all()
        assert (frame["preset_id"] >= 0).any()
        for user, line in read_lines(tmp_path / "two" / "result" / f"{name}.jsonl").items():
            user_rows = frame[frame["user"] == user]
            assert len(user_rows) == line["size"]
            loss = metrics.log_loss(user_rows["y"].to_numpy(float), user_rows["p"].to_numpy())
            assert loss == pytest.approx(line["metrics"]["LogLoss"], abs=6e-7)
            assert user_rows["review_th"].is_unique
    assert "raw" in {path.name for path in (tmp_path / "two").iterdir()}
    run_without_workers(dataset, tmp_path / "two", *users, "--fresh", models=models)
    assert not list((tmp_path / "two" / "raw").rglob("*.parquet"))


SMALL_DISK = r"""
mount -t tmpfs -o size=$1 srs-eval "$2" || exit 99
shift; out=$1; shift; after=$1; shift
"$@"; first=$?
mount -o remount,$after srs-eval "$out" || exit 99
"$@"; second=$?
cp -r "$out/." "$out.kept"
exit $((16 * first + second))
"""


def on_small_disk(
    dataset: Path, out: Path, size: str, after: str
) -> subprocess.CompletedProcess[str]:
    """Run a batch twice, on a small disk that is mounted anew between the runs."""
    out.mkdir()
    start = ["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", size, str(out), after]
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [*start, *batch_command(dataset, out)], capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode != 99 and "unshare" not in done.stderr:
            return done
    pytest.skip("nobody but root may mount a small disk here")


@pytest.mark.slow
@needs_proc
def test_full_disk_loses_no_finished_unit(dataset: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = on_small_disk(dataset, out, size="48k", after="size=50m")
    assert divmod(done.returncode, 16) == (2, 1), done.stderr  # 1: the poisoned user
    assert "Traceback" not in done.stderr
    assert done.stderr.count("cannot be written") == 1
    assert "No space left on device" in done.stderr
    planned = re.findall(r"(\d+) units to evaluate", done.stderr)
    assert int(planned[1]) < int(planned[0])  # what was finished is not done again
    assert read_outcomes(tmp_path / "out.kept") == read_outcomes(undisturbed)


@needs_proc
@pytest.mark.slow
def test_a_read_only_folder_is_said(dataset: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = on_small_disk(dataset, out, size="50m", after="ro")
    assert divmod(done.returncode, 16) == (1, 2), done.stderr
    assert done.stderr.splitlines()[-1].count("cannot be written") == 1
    assert "Read-only file system" in done.stderr
    assert read_outcomes(tmp_path / "out.kept") == read_outcomes(undisturbed)


@needs_proc
@pytest.mark.slow
def test_a_worker_without_memory_fails_one_unit(dataset: Path, tmp_path: Path) -> None:
    users = ("--users", "1-6", "--jobs", "1")
    done = run_with_workers(dataset, tmp_path, *users, models="AVG,HUNGRY,90%", misbehave=True)
    assert done.returncode == 1, done.stderr
    failed = read_lines(tmp_path / "failed" / "HUNGRY.jsonl")
    assert list(failed) == [4]
    assert failed[4]["reason"] == "not enough memory"
    assert "failed: 1 x not enough memory" in done.stderr
    assert list(read_lines(tmp_path / "result" / "HUNGRY.jsonl")) == [1, 2, 3, 5, 6]
    assert len(read_lines(tmp_path / "result" / "90%.jsonl")) == 6
    again = run_with_workers(dataset, tmp_path, *users, models="AVG,HUNGRY,90%")
    assert again.returncode == 0, again.stderr
    assert "1 unit to evaluate" in again.stderr


def test_one_preparation_at_a_time_is_in_memory(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check this in any order of configurations, with the same results."""
    configurations = resolve_configurations("AVG,AVG-short-secs,90%,SM2-short,MOVING-AVG,SM2")
    held: list[int] = []
    evaluated = batch._evaluate_unit

    def watched(session: LearnerSession, *arguments: Any) -> Unit:
        unit = evaluated(session, *arguments)
        held.append(len(session._trials))
        return unit

    monkeypatch.setattr(batch, "_evaluate_unit", watched)
    units = batch._evaluate_user(dataset, 5, configurations, Context(), {})
    assert held == [1] * len(configurations)
    assert {unit.configuration for unit in units} == {
        configuration.name for configuration in configurations
    }
    alone = [
        batch._evaluate_user(dataset, 5, [configuration], Context(), {})[0].result_line
        for configuration in configurations
    ]
    by_name = {unit.configuration: unit.result_line for unit in units}
    assert [by_name[configuration.name] for configuration in configurations] == alone


@pytest.mark.slow
def test_tables_and_pictures(dataset: Path, tmp_path: Path) -> None:
    """Check that `--file` writes the rows of `--raw` as upstream does, and `--plot` pictures."""
    models = "AVG,SM2-short"
    users = ("--users", "3,20")
    assert run_without_workers(dataset, tmp_path, *users, "--raw", models=models).returncode == 0
    done = run_without_workers(dataset, tmp_path, *users, "--file", "--plot", models=models)
    assert "2 units to evaluate" in done.stderr
    done = run_without_workers(
        dataset, tmp_path, *users, "--file", "--plot", "--raw", models=models
    )
    assert "0 units" in done.stderr
    for name in models.split(","):
        for user in (3,):
            table = pandas.read_csv(tmp_path / "evaluation" / name / f"{user}.tsv", sep="\t")
            rows = pandas.read_parquet(tmp_path / "raw" / name / f"user_id={user}.parquet")
            for column in ("review_th", "card_id", "fold", "y"):
                assert (table[column] == rows[column]).all()
            assert table["p"].tolist() == rows["p"].tolist()
            reviews = pandas.read_parquet(dataset / "revlogs" / f"user_id={user}")
            evaluated = reviews.iloc[table["review_th"] - 1]
            for column in ("card_id", "rating", "elapsed_days"):
                assert evaluated[column].tolist() == table[column].tolist()
            assert ((table["rating"] > 1) == table["y"]).all()
            first = table["r_history"].astype(str).str[0].astype(int)
            assert (first == table["first_rating"]).all()
            for _, row in table.iterrows():
                ratings = str(row["r_history"]).split(",")
                earlier = reviews.iloc[: row["review_th"] - 1]
                ratings_before = earlier.loc[earlier["card_id"] == row["card_id"], "rating"]
                assert len(ratings) == len(str(row["t_history"]).split(","))
                assert set(ratings) <= set(ratings_before.astype(str))
            plot = tmp_path / "evaluation" / name / f"calibration-retention-{user}.png"
            assert plot.read_bytes().startswith(b"\x89PNG")
    run_without_workers(dataset, tmp_path, *users, "--fresh", models=models)
    assert not [path for path in (tmp_path / "evaluation").rglob("*") if path.is_file()]


def test_shards_divide_the_users() -> None:
    users = list(range(10, 33))
    shards = [select_shard(users, f"{k}/4") for k in range(1, 5)]
    assert sorted(chain.from_iterable(shards)) == users
    assert {len(shard) for shard in shards} <= {5, 6}
    for wrong in ("0/4", "5/4", "3", "a/b", "1/0"):
        with pytest.raises(InputError, match="--shard"):
            select_shard(users, wrong)
    assert select_shard([1, 2], "3/3") == []


def test_a_shard_without_users_is_no_mistake(dataset: Path, tmp_path: Path) -> None:
    """Check an array job that has more parts than there are users."""
    done = run_without_workers(dataset, tmp_path / "out", "--users", "1-3", "--shard", "4/5")
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr == "Shard 4/5 has no users: nothing to do.\n"
    assert not (tmp_path / "out").exists()


def test_another_set_up_is_refused(dataset: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    refused = run_without_workers(dataset, out, "--sm2-target", "0.8")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "sm2_target was 0.9 and is 0.8 now" in refused.stderr
    assert read_outcomes(out) == read_outcomes(undisturbed)
    data = tmp_path / "data"
    shutil.copytree(dataset, data)
    shutil.rmtree(data / "revlogs" / f"user_id={POISONED}")
    changed = run_without_workers(data, out)
    assert changed.returncode == 2
    assert "data set is not the same" in changed.stderr
    fresh = run_without_workers(data, out, "--fresh", models="AVG")
    assert fresh.returncode == 0, fresh.stderr
    assert sorted(read_outcomes(out)) == ["result/AVG.jsonl", "skipped/AVG.jsonl"]


def test_fitted_online_models_follow_the_protocol_flags() -> None:
    configurations = add_labels(
        resolve_configurations("STATE-1,MOVING-AVG,FSRS-6-dry-run", Protocol(gamma=0.5)), ""
    )
    gammas = {model.name: model.protocol.gamma for model in configurations}
    assert gammas == {"STATE-1-gamma-0.5": 0.5, "MOVING-AVG": 1.0, "FSRS-6-dry-run": 1.0}


@pytest.mark.slow
def test_changed_flags_appear_in_names_and_report(dataset: Path, tmp_path: Path) -> None:
    """Check that flags are in the names of the models that depend on them, and in the report."""
    sweep = tmp_path / "sweep"
    weaker = ("--gamma", "0.5", "--label")
    for flags in (
        (),
        weaker[:2],
        (*weaker, "weak pull"),
        (*weaker, "version 2"),
        (*weaker, "on x"),
    ):
        done = run_without_workers(
            dataset, sweep, "--users", "1,2", *flags, models="AVG,FSRS-6-recency"
        )
        assert done.returncode == 0, done.stderr
    names = ["", "-gamma-0.5", "-on-x", "-version-2", "-weak-pull"]
    files = {path.stem: path for path in (sweep / "result").iterdir()}
    assert files.keys() == {"AVG", *(f"FSRS-6-recency{name}" for name in names)}
    plain, *weaker_losses = (
        read_lines(files[f"FSRS-6-recency{name}"])[1]["metrics"]["LogLoss"] for name in names
    )
    assert {plain} != set(weaker_losses) == {weaker_losses[0]}
    # From Python names are as they are given, whatever the set-up.
    old = tmp_path / "old"
    configurations = resolve_configurations("FSRS-6-recency", Protocol(gamma=0.5))
    list(run_batch(open_dataset(dataset), configurations, old, users=[1], jobs=1))
    read = read_folders([sweep, old])
    files_read = chain.from_iterable(folder.files for folder in read)
    assert sorted(file.label for file in files_read) == [
        "FSRS-6 recency",
        "FSRS-6 recency gamma 0.5 (old)",
        "FSRS-6 recency gamma 0.5 (sweep)",
        "FSRS-6 recency on x",
        "FSRS-6 recency version 2",
        "FSRS-6 recency weak pull",
        "average",
    ]
    report = run_in_process("report", sweep, "--md", "-").stdout
    assert "FSRS-6 recency weak pull: gamma 0.5" in report
    assert "nothing is wrong" in run_in_process("results", "check", sweep).stdout
    for label, words in (("a/b", "--label takes letters"), ("dry-run", "means something else")):
        refused = run_without_workers(dataset, sweep, "--label", label, models="FSRS-6-recency")
        assert refused.returncode == 2
        assert words in refused.stderr


@pytest.mark.slow
def test_predictions_made_elsewhere(dataset: Path, tmp_path: Path) -> None:
    """Check figures from a file against those of the model that made it, on its reviews."""
    raw_folder = tmp_path / "made"
    run_without_workers(dataset, raw_folder, "--users", "1-3", "--raw", models="FSRS-6-dry-run")
    rows = pandas.read_parquet(raw_folder / "raw" / "FSRS-6-dry-run")[["user", "review_th", "p"]]
    partial = rows[(rows.user == 1) | ((rows.user == 2) & (rows.review_th % 3 > 0))]
    files = {"full": rows, "parquet": partial, "csv": partial}
    for kind, table in files.items():
        to_file = table.to_csv if kind == "csv" else table.to_parquet
        to_file(tmp_path / f"file.{kind}", index=False)

    def evaluated(kind: str, out: str, *options: str) -> Path:
        flags = ("--predictions", tmp_path / f"file.{kind}", "--name", "Mine", "--users", "1-3")
        done = run_without_workers(
            dataset, tmp_path / out, *flags, "--jobs", "1", *options, models="FSRS-6-dry-run"
        )
        assert done.returncode == 0, done.stderr
        return tmp_path / out

    def figures(out: Path, name: str) -> dict[int, dict]:
        of_users = read_lines(out / "result" / f"{name}.jsonl")
        return {user: {**line, "parameters": None} for user, line in of_users.items()}

    full = evaluated("full", "full")
    assert figures(full, "Mine") == figures(full, "FSRS-6-dry-run")
    (folder,) = read_folders([tmp_path / "full"])
    assert [file.label for file in folder.files] == ["average", "FSRS-6 defaults", "Mine"]
    run_without_workers(dataset, tmp_path / "some", "--users", "1-3", models="FSRS-6-dry-run")
    partial_folder = evaluated("parquet", "some")  # what is there is not written anew
    own_lines = figures(partial_folder, "Mine")
    assert figures(partial_folder, "FSRS-6-dry-run-on-Mine") == own_lines
    model_lines = figures(partial_folder, "FSRS-6-dry-run")
    assert own_lines[1] == model_lines[1]
    assert own_lines[2]["size"] + own_lines[2]["lacks"] == model_lines[2]["size"]
    assert 3 not in own_lines
    alike, of_all = compare_files(read_folders([partial_folder])[0].files)
    assert alike.users.tolist() == [1, 2]
    assert {file.label for file in alike.files} == {
        "Mine",
        "FSRS-6 defaults on Mine",
        "average on Mine",
    }
    assert {file.label for file in of_all.files} == {"FSRS-6 defaults", "average"}
    report = run_in_process("report", partial_folder, "--md", "-").stdout
    assert f"Mine: no prediction for {own_lines[2]['lacks']} reviews of 1 user" in report
    assert "nothing is wrong" in run_in_process("results", "check", partial_folder).stdout
    full_predictions = ("--predictions", str(tmp_path / "file.full"), "--name", "Mine")
    changed = run_without_workers(dataset, partial_folder, *full_predictions, models="90%")
    assert changed.returncode == 2
    assert "Mine had predictions" in changed.stderr
    for out, kind, options in (
        ("two", "csv", ("--jobs", "2")),
        ("dask", "parquet", ("--engine", "dask-local")),
    ):
        text = evaluated(kind, out, *options)
        expected = {
            name: content.replace(b"parquet", kind.encode())
            for name, content in read_outcomes(partial_folder).items()
        }
        assert read_outcomes(text) == expected


@pytest.mark.parametrize("kind", slow_except({"csv"}, ["csv", "parquet"]))
def test_predictions_of_other_reviews_stop_a_batch(
    kind: str, dataset: Path, tmp_path: Path
) -> None:
    """Number the reviews of `raw/` from 0: the batch suggests the right numbers."""
    raw_folder = tmp_path / "made"
    file = tmp_path / f"mine.{kind}"
    run_without_workers(dataset, raw_folder, "--users", "2-3", "--raw", models="AVG")
    rows = pandas.read_parquet(raw_folder / "raw" / "AVG").drop(columns="configuration")
    rows["review_th"] -= 1
    if kind == "csv":
        rows.to_csv(file, index=False)
    else:
        rows.to_parquet(file, index=False)
    flags = ("--predictions", file, "--name", "Mine", "--users", "1-3")
    refused = run_without_workers(dataset, tmp_path / "out", *flags, models="AVG")
    assert refused.returncode == 2
    assert f'"mine.{kind}" does not match the reviews of user 2' in refused.stderr
    assert "If every review_th were one higher, all would agree" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_predictions_of_other_reviews_fail_a_later_user(dataset: Path, tmp_path: Path) -> None:
    raw_folder = tmp_path / "made"
    file = tmp_path / "mine.parquet"
    run_without_workers(dataset, raw_folder, "--users", "1-3", "--raw", models="AVG")
    rows = pandas.read_parquet(raw_folder / "raw" / "AVG").drop(columns="configuration")
    rows["y"] = rows["y"].where(rows["user"] != 2, 1 - rows["y"])
    rows.to_parquet(file, index=False)
    flags = ("--predictions", file, "--name", "Mine", "--users", "1-3")
    done = run_without_workers(dataset, tmp_path / "out", *flags, models="AVG")
    assert done.returncode == 1
    assert "does not match the reviews of user 2 that it names" in done.stderr
    assert [*read_lines(tmp_path / "out" / "result" / "Mine.jsonl")] == [1, 3]


@pytest.mark.slow
def test_unused_predictions_are_counted(dataset: Path, tmp_path: Path) -> None:
    """Check that a file may predict every review, and that batch and report count the unused."""
    tables = [pandas.read_parquet(dataset / "revlogs" / f"user_id={user}") for user in (1, 2)]
    counts = {user: len(table) for user, table in enumerate(tables, start=1)}
    rows = []
    for user, count in counts.items():
        rows += [(user, number, 0.8) for number in range(1, count + 1)]
    pandas.DataFrame(rows, columns=["user", "review_th", "p"]).to_csv(tmp_path / "mine.csv")
    flags = ("--predictions", tmp_path / "mine.csv", "--name", "Mine", "--users", "1-2")
    done = run_without_workers(dataset, tmp_path / "out", *flags, models="AVG")
    assert done.returncode == 0, done.stderr
    own_lines = read_lines(tmp_path / "out" / "result" / "Mine.jsonl")
    assert {user: line["size"] + line["unused"] for user, line in own_lines.items()} == counts
    assert all("lacks" not in line for line in own_lines.values())
    unused = sum(line["unused"] for line in own_lines.values())
    words = f"Mine: {unused:,} predictions of 2 users are for reviews that are not evaluated"
    assert words in " ".join(done.stdout.split())
    report = run_in_process("report", tmp_path / "out", "--md", "-").stdout
    assert words in report
    heads, _, *rows = (line.split("|") for line in report.splitlines() if line.startswith("|"))
    row = next(row for row in rows if row[1] == " Mine ")
    assert row[heads.index(" parameters ")] == " – ", "nobody knows how many it has"
    assert "unused" not in read_lines(tmp_path / "out" / "result" / "AVG.jsonl")[1]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("review_th,p\n1,0.5\n", "Mine", "has no column user"),
        ("user,p\n1,0.5\n", "Mine", "has no column review_th"),
        ("user,review_th,p\n\n1,1\n", "Mine", "line 3 has more or fewer fields"),
        ("user,review_th,p\n", "Mine", "holds no predictions"),
        (
            "user,review_th,p\n1,1,0.5\n1.5,2,0.5\n",
            "Mine",
            "user holds something that is not a whole",
        ),
        ("user,review_th,p\n1,1,0.5\n", "", "--name NAME"),
        ("user,review_th,p\n1,1,0.5\n", "avg", "this already means AVG"),
        ("user,review_th,p\n1,1,0.5\n", "a/b", "--name takes letters"),
    ],
)
def test_predictions_that_cannot_be_used(
    dataset: Path, tmp_path: Path, content: str, name: str, words: str
) -> None:
    csv = tmp_path / "file.csv"
    parquet = tmp_path / "file.parquet"
    csv.write_text(content)
    kinds = {"user": str} if "1.5" in content else None
    pandas.read_csv(csv, dtype=kinds).to_parquet(parquet)
    files = [csv]
    if "fields" not in words:
        files.append(parquet)
    for file in files:
        flags = ("--predictions", file, "--name", name)
        refused = run_in_process("batch", "--dataset", dataset, "--out", tmp_path / "out", *flags)
        assert refused.returncode == 2
        assert words in refused.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_one_configuration_of_a_folder_is_renewed(dataset: Path, tmp_path: Path) -> None:
    """Edit an own model: the other results of the folder stay unchanged."""
    model = tmp_path / "mine.py"
    out = tmp_path / "out"
    flags = ("--users", "1,2", "--raw", "--jobs", "1", "--model-file", str(model))
    text = (
        "import numpy as np\nfrom srs_eval.models import TrainedModel\n\n\n"
        "def p(trials, parameters, index, context):\n    return np.full(len(index), 0.8)\n\n\n"
        'MODELS = (TrainedModel(name="Mine", family="other", parameters=0, inputs="-", source="",\n'
        "    default=lambda context: None, predict=p),)\n"
    )

    def batch(*options: str, value: str) -> subprocess.CompletedProcess[str]:
        model.write_text(text.replace("0.8", value))
        return run_with_workers(dataset, out, *flags, *options, models="Mine,90%")

    assert batch(value="0.8").returncode == 0
    before = read_outcomes(out)
    refused = batch(value="0.7")
    assert refused.returncode == 2
    assert re.search("Mine had model file [0-9a-f]{8} and has [0-9a-f]{8} now", refused.stderr)
    assert "evaluate only Mine again with --redo Mine, or start over with --fresh" in refused.stderr
    assert batch("--redo", "GRU", value="0.7").returncode == 2
    assert batch("--redo", "Mine", "--sm2-target", "0.8", value="0.7").returncode == 2
    assert read_outcomes(out) == before
    done = batch("--redo", "mine", value="0.7")
    assert done.returncode == 0, done.stderr
    assert "2 units to evaluate (4 are already done)" in done.stderr
    after = read_outcomes(out)
    assert after.pop("result/Mine.jsonl") != before.pop("result/Mine.jsonl")
    assert after == before
    assert set(pandas.read_parquet(out / "raw" / "Mine")["p"]) == {0.7}
    assert "0 units" in batch(value="0.7").stderr


@pytest.mark.slow
def test_parts_of_a_cluster_merge(dataset: Path, undisturbed: Path, tmp_path: Path) -> None:
    for users, name in (("1-6", "a"), ("7-21", "b")):
        run_without_workers(dataset, tmp_path / name, "--users", users)
    merged = run_without_workers(
        dataset, tmp_path / "all", "--merge", str(tmp_path / "a"), "--merge", str(tmp_path / "b")
    )
    assert "6 units to evaluate (78 are already done" in merged.stderr
    assert read_outcomes(tmp_path / "all") == read_outcomes(undisturbed)


IMPOSSIBLE = {
    "rating": lambda column: replaced(column, 5),
    "state": lambda column: replaced(column, 9),
    "duration": lambda column: replaced(column, -1),
    "elapsed_days": lambda column: replaced(column, -2),
    "elapsed_seconds": lambda column: replaced(column, -7),
    "day_offset": lambda column: column.iloc[::-1].to_numpy(),
}


def replaced(column: pandas.Series, value: int) -> pandas.Series:
    return column.where(column.index != 5, value)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write users with one impossible value each, except 1, and 9 with a rating of 0."""
    folder = tmp_path_factory.mktemp("odd")
    users = [1, 9, *range(2, 2 + len(IMPOSSIBLE))]
    write_dataset(dict.fromkeys(users, simulate_learner(2, 600)), folder)
    changes = {2 + k: change for k, change in enumerate(IMPOSSIBLE.items())}
    changes[9] = ("rating", lambda column: replaced(column, 0))
    for user, (name, change) in changes.items():
        path = folder / "revlogs" / f"user_id={user}" / "data.parquet"
        table = pandas.read_parquet(path)
        table[name] = change(table[name])
        table.to_parquet(path)
    return folder


@pytest.mark.slow
def test_batch_skips_users_that_verify_rejects_with_its_reason(odd: Path, tmp_path: Path) -> None:
    data = open_dataset(odd)
    problems = {}
    for check in verify(data, data.users):
        reasons = [problem.partition("data.parquet: ")[2] for problem in check.problems]
        problems[check.user] = reasons
    rejected = {user: stated for user, stated in problems.items() if stated}
    assert list(rejected) == list(range(2, 2 + len(IMPOSSIBLE)))
    for name, stated in zip(IMPOSSIBLE, rejected.values(), strict=True):
        assert (f"impossible {name}" in stated[0]) != (name == "day_offset")
    done = run_without_workers(odd, tmp_path, models="AVG,SM2-short")
    assert done.returncode == 0, done.stderr
    for name in ("AVG", "SM2-short"):
        assert list(read_lines(tmp_path / "result" / f"{name}.jsonl")) == [1, 9]
        skipped = read_lines(tmp_path / "skipped" / f"{name}.jsonl")
        reasons = {user: line["reason"] for user, line in skipped.items()}
        assert reasons == {
            user: f"its content is impossible: {'; '.join(stated)}"
            for user, stated in rejected.items()
        }
        assert not (tmp_path / "failed" / f"{name}.jsonl").exists()
    again = run_without_workers(odd, tmp_path, models="AVG,SM2-short")
    assert "0 units to evaluate" in again.stderr


@pytest.mark.skipif(os.name != "posix", reason="makes a broken link")
def test_broken_link_fails_its_user_alone(tmp_path: Path) -> None:
    write_dataset({1: simulate_learner(1, 300)}, tmp_path / "data")
    folder = tmp_path / "data" / "revlogs" / "user_id=2"
    folder.mkdir()
    (folder / "data.parquet").symlink_to(tmp_path / "nothing")
    done = run_without_workers(tmp_path / "data", tmp_path / "out", models="AVG")
    assert done.returncode == 1, done.stderr
    assert list(read_lines(tmp_path / "out" / "result" / "AVG.jsonl")) == [1]
    assert "does not exist" in read_lines(tmp_path / "out" / "failed" / "AVG.jsonl")[2]["reason"]


def test_run_batch_yields_plan_units_and_end(dataset: Path, tmp_path: Path) -> None:
    events = list(
        run_batch(
            open_dataset(dataset), resolve_configurations("AVG,90%"), tmp_path, users=[1, 2], jobs=5
        )
    )
    plan, *units, end = events
    assert isinstance(plan, Planned)
    assert (plan.users, plan.units, plan.jobs) == (2, 4, 2)
    assert plan.expected_seconds > 0
    assert [unit.finished_units for unit in units] == [1, 2, 3, 4]
    shares = [unit.fraction_done for unit in units]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert isinstance(end, Ended)
    assert (end.done, end.failed, end.skipped) == (4, 0, 0)


def planned(dataset: Path, chosen: list[Configuration], out: Path, jobs: int) -> Planned:
    run = run_batch(open_dataset(dataset), chosen, out, users=[1], jobs=jobs)
    with contextlib.closing(run) as events:
        plan = next(events)
    assert isinstance(plan, Planned)
    return plan


def test_plan_includes_time_that_does_not_depend_on_reviews(dataset: Path, tmp_path: Path) -> None:
    chosen = resolve_configurations("GradientBoosting,GradientBoosting-short")
    plan = planned(dataset, chosen, tmp_path, 1)
    fixed_seconds = sum(configuration.model.cost.seconds_besides for configuration in chosen)
    assert fixed_seconds > 1
    assert plan.expected_seconds > fixed_seconds


@pytest.mark.parametrize("is_compiled", [True, False])
def test_plan_announces_compilation(
    dataset: Path,
    tmp_path: Path,
    is_compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("srs_eval.engine.session.has_kernels", lambda name: is_compiled)
    chosen = resolve_configurations("AVG,HLR,HLR-short,DASH[MCM]")
    plan = planned(dataset, chosen, tmp_path, 3)
    BatchProgress().show(plan)
    message = capsys.readouterr().err
    seconds = 0
    if not is_compiled:
        seconds = sum(all_models()[name].cost.seconds_to_compile for name in COMPILED)
    assert plan.compile_seconds == seconds
    assert plan.expected_seconds > seconds
    assert ("to compile kernels (first run only)" in message) is not is_compiled
    assert " with 1 job" in message
    assert "1 jobs" not in message
    BatchProgress().show(replace(plan, jobs=0))  # workers of a cluster that are to come
    assert "with one worker (the cluster has none yet)" in capsys.readouterr().err


def test_tasks_run_on_any_executor(dataset: Path, undisturbed: Path) -> None:
    """Check tasks without the messages of the pool: they return everything."""
    data = open_dataset(dataset)
    names = MODELS.split(",")
    with ThreadPoolExecutor(2) as threads:
        backend = Backend(threads, jobs=2, queue_length=3)
        tasks = batch._TaskRunner(
            backend, TaskEvents(), data, resolve_configurations(names), Context()
        )
        units = list(tasks.run([(user, names) for user in data.users]))
    done = {name: read_lines(undisturbed / "result" / f"{name}.jsonl") for name in names}
    assert len(units) == len(data.users) * len(names)
    for unit in units:
        stored = done[unit.configuration].get(unit.user)
        assert stored == (json.loads(json.dumps(unit.result_line)) if unit.result_line else None)
    failed = {unit.user for unit in units if unit.status == "failed"}
    assert failed == {POISONED}


def test_skipped_unit_names_the_missing_module(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the record by which a later batch tries again (`ResultStore.statuses`)."""
    monkeypatch.setattr("srs_eval.data.errors.is_installed", lambda module: module != "torch")
    networks = resolve_configurations("Transformer")
    average = resolve_configurations("AVG")
    units = _evaluate_user(dataset, 1, [*networks, *average], Context(), {})
    assert [(unit.status, unit.missing_module) for unit in units] == [
        ("skipped", "torch"),
        ("done", ""),
    ]
    (tiny,) = _evaluate_user(dataset, TINY, average, Context(), {})
    assert (tiny.status, tiny.missing_module) == ("skipped", "")


def test_closing_the_iterator_keeps_what_is_done(dataset: Path, tmp_path: Path) -> None:
    events = run_batch(
        open_dataset(dataset), resolve_configurations("AVG"), tmp_path, users=[1, 2, 3], jobs=1
    )
    next(events)
    next(events)
    events.close()
    assert read_lines(tmp_path / "result" / "AVG.jsonl")


@pytest.mark.parametrize(
    ("ranges", "highest", "expected"),
    [
        (None, None, [1, 2, 5, 9]),
        ("1-5", None, [1, 2, 5]),
        ("9,1 - 2", None, [1, 2, 9]),
        ("1-999999999999", 5, [1, 2, 5]),
        (None, 2, [1, 2]),
    ],
)
def test_select_users(ranges: str | None, highest: int | None, expected: list[int]) -> None:
    assert select_users([1, 2, 5, 9], ranges, highest) == expected


@pytest.mark.parametrize("ranges", ["", "a", "1-", "-3", "5-1", "4", "3-4", "1,,2", "1;2"])
def test_select_users_refuses(ranges: str) -> None:
    with pytest.raises(InputError):
        select_users([1, 2, 5, 9], ranges)


@pytest.mark.parametrize(
    ("ranges", "highest", "expected"),
    [
        ("1-3", None, [(3, 3)]),
        ("1-2,5", None, []),
        ("4-12,1-6", None, [(3, 4), (6, 8), (10, 12)]),
        ("4-12", 7, [(4, 4), (6, 7)]),
        ("1-999999999999", None, [(3, 4), (6, 8), (10, 999_999_999_999)]),
        ("9", 2, []),
    ],
)
def test_find_missing_id_ranges(
    ranges: str, highest: int | None, expected: list[tuple[int, int]]
) -> None:
    assert find_missing_id_ranges([1, 2, 5, 9], ranges, highest) == expected


def test_batch_names_users_that_are_missing(dataset: Path, tmp_path: Path) -> None:
    done = run_without_workers(dataset, tmp_path, "--users", "11-14,20", models="AVG")
    assert done.returncode == 0
    assert "Not in this data set, and left out: 13-14." in done.stderr


def test_golden_results_of_a_batch_are_the_references(tmp_path: Path) -> None:
    golden = golden_folder()
    users = golden_dataset().users
    names = ["AVG", "90%", "Anki-dry-run", "SM2-short"]
    models = ",".join([*names, "MOVING-AVG"])
    done = run_without_workers(golden / "dataset", tmp_path, models=models)
    assert done.returncode == 0, done.stderr
    for name in names:
        expected = read_lines(golden / "expected" / f"{name}.jsonl")
        ours = read_lines(tmp_path / "result" / f"{name}.jsonl")
        assert list(ours) == sorted(expected)
        for user, line in expected.items():
            assert ours[user]["size"] == line["size"]
            for metric in ("LogLoss", "RMSE(bins)"):
                value = line["metrics"][metric]
                assert ours[user]["metrics"][metric] == pytest.approx(value, abs=2e-6)
        if 112 in expected:
            assert ours[112]["metrics"]["AUC"] is None  # never fails
        too_few_reviews = sorted(set(users) - set(expected))
        if too_few_reviews:
            assert sorted(read_lines(tmp_path / "skipped" / f"{name}.jsonl")) == too_few_reviews
    printed = " ".join(done.stdout.split())
    left_out = "The means leave out 1 user (111): "
    assert f"{left_out}deleted cards are left out by SM2" in printed
    assert (
        f"{left_out}the models in another table were evaluated on fewer of these users' reviews."
        in printed
    )
