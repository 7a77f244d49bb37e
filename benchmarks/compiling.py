"""Measure the cost of compiling the kernels from nothing, before a change and after it.

    python benchmarks/compiling.py [--before CHECKOUT] [--golden DIR] [--models NAMES]
                                   [--repeat 2] [--kernels] [--announced]

Runs twice: for all configurations that both checkouts have, except those on PyTorch, and for FSRS-6
alone. Each time a fresh process with one thread and an empty cache folder evaluates 3,000 rows of
learner 106 of the golden data set (a simulated one without `--golden`), by the code of CHECKOUT
and by that of this checkout in turn. Numbers are seconds of processor time, the least of
`--repeat` runs: of compiling, and of the whole process with its imports and the evaluation.
`--kernels` lists them one by one.

`--announced` instead compares the models' own estimates (`seconds_to_compile`) with the actual
cost: the processor time of each model's first configuration beyond that of running it again, in
the order of a run of all, including those on PyTorch. Shared kernels count for the first model.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
LEARNER = 106  # of the golden data set
ROWS = 3_000
GOALS = {"all": 0.59, "FSRS-6": 0.50}  # relative to before
TORCH = ("Transformer",)
TOLERATED_RATIO = 1.5  # of the actual cost to the estimate, and the reverse
AT_LEAST_S = 0.5  # seconds below which the ratio is ignored
NEEDED = ("FSRS-6", "STATE-FSRS-6")  # the app's answers compile them first
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.child is not None:
        if options.one_by_one:
            measure_one_by_one(options.child, options.golden)
        else:
            compile_all(options.child, options.golden)
        return
    if options.announced:
        compare_announced(
            run_with_checkout(HERE.parents[1], options.models, options.golden, "--one-by-one")
        )
        return
    checkouts = [HERE.parents[1]]
    if options.before is not None:
        checkouts.insert(0, options.before.resolve())
    names = list_without_torch(checkouts[-1], options.models)
    for checkout in checkouts[:-1]:
        older_names = list_without_torch(checkout, options.models)
        names = [name for name in names if name in older_names]
    print("| compiled | before s | after s | ratio | goal | whole process s | | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    runs = {options.models: names}
    if "FSRS-6" in names:
        runs["FSRS-6"] = ["FSRS-6"]
    for title, chosen in runs.items():
        answers_by_checkout: list[list[Any]] = [[] for _ in checkouts]
        for _ in range(options.repeat):
            for checkout, answers in zip(checkouts, answers_by_checkout, strict=True):
                answers.append(run_with_checkout(checkout, ",".join(chosen), options.golden))
        print_row(title, answers_by_checkout)
        if options.kernels:
            for checkout, answers in zip(checkouts, answers_by_checkout, strict=True):
                list_kernels(checkout, answers)
    print(f"\nLoad {os.getloadavg()[0]:.1f}.")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    shared = HERE.parents[2] / "shared" / "golden"
    parser = argparse.ArgumentParser(description="compiling everything, before and after")
    parser.add_argument("--before", type=Path, default=None, help="a checkout of the older code")
    parser.add_argument("--golden", type=Path, default=shared if shared.is_dir() else None)
    parser.add_argument("--models", default="all", help="as for `srs-eval run`")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--kernels", action="store_true", help="list each kernel's seconds")
    parser.add_argument("--announced", action="store_true", help="check `seconds_to_compile`")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--one-by-one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def print_row(title: str, measured: list[list[Any]]) -> None:
    before = measured[0]
    after = measured[-1]
    cells = [title]
    for measure in ("compiling", "process"):
        old = min(answer[measure] for answer in before)
        new = min(answer[measure] for answer in after)
        cells += [f"{old:.2f}", f"{new:.2f}", f"{new / old:.2f}"]
        if measure == "compiling":
            cells.append(f"{GOALS[title]:.2f}" if title in GOALS else "")
    print(f"| {' | '.join(cells)} |", flush=True)


def list_kernels(checkout: Path, answers: list[Any]) -> None:
    seconds: dict[str, list[float]] = {}
    for answer in answers:
        for name, used in answer["kernels"]:
            seconds.setdefault(name, []).append(used)
    print(f"\n{checkout.name}: {len(seconds)} kernels\n\n| kernel | s |\n| --- | --- |")
    for name, used in sorted(seconds.items(), key=lambda item: -min(item[1])):
        print(f"| {name} | {min(used):.2f} |")
    print(flush=True)


def compare_announced(measured: dict[str, tuple[float, float]]) -> None:
    print("| model | announced s | measured s | |\n| --- | --- | --- | --- |")
    for name, (announced, actual) in sorted(measured.items(), key=lambda item: -item[1][1]):
        tolerated = TOLERATED_RATIO * max(min(announced, actual), AT_LEAST_S / TOLERATED_RATIO)
        remark = "apart" if max(announced, actual) > tolerated else ""
        print(f"| {name} | {announced:.1f} | {actual:.1f} | {remark} |")
    announced = sum(seconds[0] for seconds in measured.values())
    actual = sum(seconds[1] for seconds in measured.values())
    print(f"| all | {announced:.1f} | {actual:.1f} | ratio {announced / actual:.2f} |")
    print(f"\nLoad {os.getloadavg()[0]:.1f}.")


# In child processes


def list_without_torch(checkout: Path, models: str) -> list[str]:
    """Return names of that checkout's configurations, except those on PyTorch."""
    code = (
        "from srs_eval.models import configurations\n"
        "resolve = getattr(configurations, 'resolve_configurations', None)\n"
        "resolve = resolve or configurations.resolve  # its name in older checkouts\n"
        f"chosen = [entry for entry in resolve({models!r}) if entry.model.name not in {TORCH!r}]\n"
        "print(*(entry.name for entry in chosen))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=checkout,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.split()


def run_with_checkout(checkout: Path, names: str, golden: Path | None, *arguments: str) -> Any:
    """Run a child process with the code of a checkout and return its output."""
    script = checkout / "benchmarks" / HERE.name  # its own, because names differ over time
    command = [sys.executable, str(script), "--child", names, *arguments]
    if golden is not None:
        command += ["--golden", str(golden.resolve())]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(checkout)}
        environment["SRS_EVAL_CACHE_DIR"] = cache
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(
            command, env=environment, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def compile_all(names: str, golden: Path | None) -> None:
    from srs_eval.engine.session import LearnerSession
    from srs_eval.models.configurations import resolve_configurations

    kernels: list[tuple[str, float]] = []
    record_compilation(kernels)
    session = LearnerSession(cut_rows(load_learner(golden), ROWS))
    for configuration in resolve_configurations(names):
        session.run(configuration)
    used = {"compiling": sum(seconds for _, seconds in kernels), "process": time.process_time()}
    print(json.dumps({**used, "kernels": kernels}))


def measure_one_by_one(names: str, golden: Path | None) -> None:
    from srs_eval.data.errors import install_hint
    from srs_eval.engine.session import LearnerSession, must_compile
    from srs_eval.models.configurations import resolve_configurations

    session = LearnerSession(cut_rows(load_learner(golden), ROWS))
    configurations = resolve_configurations(names)
    needed = [entry for entry in configurations if entry.model.name in NEEDED]
    not_needed = [entry for entry in configurations if entry.model.name not in NEEDED]
    measured: dict[str, tuple[float, float]] = {}
    for configuration in (*needed, *not_needed):
        model = configuration.model
        if install_hint(model.needs):
            continue
        compiles = must_compile(configuration)
        times = [time.process_time()]
        for _ in range(2):
            session.run(configuration)
            times.append(time.process_time())
        if compiles:
            took = 2 * times[1] - times[0] - times[2]
            announced, before = measured.get(
                model.kernel_owner, (model.cost.seconds_to_compile, 0.0)
            )
            measured[model.kernel_owner] = announced, before + max(took, 0.0)
    print(json.dumps(measured))


def load_learner(golden: Path | None) -> Any:
    from srs_eval.data.datasets import open_dataset

    if golden is not None:
        return open_dataset(golden / "dataset").load(LEARNER)
    from tools.simulated import simulate_learner, write_dataset

    with tempfile.TemporaryDirectory() as folder:
        write_dataset({LEARNER: simulate_learner(LEARNER, 2 * ROWS)}, Path(folder))
        return open_dataset(Path(folder)).load(LEARNER)


def cut_rows(log: Any, n: int) -> Any:
    """Cut the log after n rows."""
    from dataclasses import fields, replace

    rows = log.rows
    columns = {column.name: getattr(rows, column.name) for column in fields(rows)}
    cut = {name: None if values is None else values[:n] for name, values in columns.items()}
    return replace(log, rows=type(rows)(**cut))


def record_compilation(compiled: list[tuple[str, float]]) -> None:
    """Append every outermost compilation by numba: name without its hash, processor seconds."""
    from numba.core import event

    class Recorder(event.Listener):
        def __init__(self) -> None:
            self.open: list[float] = []

        def on_start(self, started: Any) -> None:
            self.open.append(time.process_time())

        def on_end(self, ended: Any) -> None:
            began = self.open.pop()
            if not self.open:
                name = ended.data["dispatcher"].py_func.__name__
                head, _, tail = name.rpartition("_")
                name = head if len(tail) == 16 else name
                compiled.append((name, time.process_time() - began))

    event.register("numba:compile", Recorder())


if __name__ == "__main__":
    main()
