"""Measure how a batch scales: rate, memory, cores, the largest learner, and cost of many learners.

    python benchmarks/scale.py [--quick] [--users 2000] [--median 4000] [--parts 12345] [--jobs 2]
                               [--largest 200000] [--data DIR]

Data sets are made by make_dataset.py (in DIR, kept there; else in a temporary folder), batches
are run by the command line. Prints Markdown.

1. Making the data set: reviews per second of processor time.
2. `--users` learners x 10 configurations: seconds of clock and of processor, evaluated reviews, the
   peak memory of a worker and of the process that writes; then the same for 20 learners
   with the same largest one: a worker's memory should be the same within 10 %.
3. One worker and two on the same 400 learners: how many times as fast two are, compared with two
   commands that share nothing and run at once: cores share memory and caches. On a machine with
   other work this measures the other work.
4. One learner with 1.94 million evaluated reviews, the most among the published ones, with all of
   `fast`: memory, below 5 GB.
5. The process that writes, by itself: listing the files of 3,000 learners, adding 50,000 results
   of one configuration and publishing them.
6. From 2 and 5: core-hours, memory and disk for 9,999, a million and ten million learners.

A warm-up on three learners loads the compiled kernels first; it is not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import make_dataset
import numpy as np

from srs_eval.benchmark.plan import survey_dataset
from srs_eval.benchmark.setup import make_setup
from srs_eval.benchmark.store import ResultStore, Unit
from srs_eval.data.datasets import Dataset
from srs_eval.metrics import Metrics
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.hyperparameters import Context

CONFIGURATIONS = "AVG,MOVING-AVG,SM2-short,HLR,DASH,FSRS-4.5,FSRS-5,FSRS-6,FSRS-6-dry-run,Anki"
PUBLISHED_USERS = 9_999
PUBLISHED_EVALUATED = 349_923_850
LARGEST_EVALUATED = 1_939_325
FEW = 20
PAIRED = 400
BASE_MB = 90  # of the process that writes, before any work
HERE = Path(__file__).resolve()


@dataclass(frozen=True)
class Run:
    """Measurements of a batch."""

    learners: int
    clock: float
    processor: float  # of the command and its workers
    worker_mb: float  # peak of any worker, including ended ones
    parent_mb: float
    evaluated: int  # reviews x configurations
    units: int
    sizes: np.ndarray  # (units,) numbers of evaluated reviews
    seconds: np.ndarray  # (units,) from `timing/`
    bytes: int  # of the folder


@dataclass(frozen=True)
class Writing:
    """Cost of the writing process per learner, or per result."""

    listing_seconds: float  # per learner, of processor time
    adding_seconds: float  # a result
    publishing_seconds: float  # a result
    publishing_kb: float  # per result of the configuration being published


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.writer is not None:
        print(json.dumps(asdict(write_many(options.writer))))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    with open_folder(options.data) as home:
        users = options.users
        many = ensure_dataset(
            home, "many", users, options.median, options.largest, "1" in options.parts
        )
        few = ensure_dataset(home, "few", FEW, options.median, options.largest)
        run_batch(few, home / "warm", CONFIGURATIONS, options.jobs, "--users", "1-3")
        runs = run_part_two(many, few, home, options) if "2" in options.parts else None
        if "3" in options.parts:
            run_part_three(many, home)
        if "4" in options.parts:
            run_part_four(home)
        writing = run_part_five(home) if "5" in options.parts else None
        if runs is not None and writing is not None:
            estimate(runs[1], writing)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="how a batch grows")
    parser.add_argument("--quick", action="store_true", help="400 learners, smaller ones")
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--median", type=int, default=4_000)
    parser.add_argument("--largest", type=int, default=200_000)
    parser.add_argument("--parts", default="12345")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--writer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick:
        options.users = 400
        options.median = 2_500
        options.largest = 100_000
    return options


@contextmanager
def open_folder(path: Path | None) -> Iterator[Path]:
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="srs-eval-scale-") as folder:
        yield Path(folder)


def ensure_dataset(
    home: Path, name: str, users: int, median: int, largest: int, tell: bool = False
) -> Path:
    """Make a data set of this shape, unless it exists, and return its folder."""
    target = home / f"{name}-{users}-{median}-{largest}"
    if (target / "revlogs").is_dir():
        return target
    begun = time.process_time()
    pool = make_dataset.make_templates(1)
    simulated = time.process_time()
    sizes = make_dataset.draw_sizes(users, 1, median, make_dataset.SMALLEST, largest)
    reviews = 0
    for user, size in enumerate(sizes.tolist(), start=1):
        reviews += make_dataset.write_user(target, user, size, pool, 1)
    seconds = time.process_time() - simulated
    if tell:
        print(
            f"Made {users:,} learners, {reviews:,} reviews: {reviews / seconds:,.0f} a second of "
            f"processor time, after {simulated - begun:.0f} s for {len(pool)} simulated learners.\n"
        )
    return target


def run_part_two(many: Path, few: Path, home: Path, options: argparse.Namespace) -> tuple[Run, Run]:
    small = run_batch(few, home / "few-out", CONFIGURATIONS, options.jobs)
    large = run_batch(many, home / "many-out", CONFIGURATIONS, options.jobs)
    count = len(resolve_configurations(CONFIGURATIONS))
    print(
        f"| learners x {count} configurations | clock | processor | evaluated reviews a second of "
        "clock | of processor | a worker | the writer |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for run in (small, large):
        print(
            f"| {run.learners:,} | {run.clock:.0f} s | {run.processor:.0f} s | "
            f"{run.evaluated / run.clock:,.0f} | {run.evaluated / run.processor:,.0f} | "
            f"{run.worker_mb:,.0f} MB | {run.parent_mb:,.0f} MB |"
        )
    change = large.worker_mb / small.worker_mb - 1
    print(
        f"\nA worker's memory: {100 * change:+.1f} % with {large.learners // small.learners} times "
        "as many learners.\n"
    )
    return small, large


def run_part_three(many: Path, home: Path) -> None:
    users = ("--users", f"1-{PAIRED}")
    one_worker = run_batch(many, home / "one-out", CONFIGURATIONS, 1, *users)
    two_workers = run_batch(many, home / "two-out", CONFIGURATIONS, 2, *users)
    with ThreadPoolExecutor(2) as side_by_side:
        apart = list(
            side_by_side.map(
                lambda name: run_batch(many, home / name, CONFIGURATIONS, 1, *users),
                ("left-out", "right-out"),
            )
        )
    speedup = one_worker.clock / two_workers.clock
    possible = 2 * one_worker.clock / max(run.clock for run in apart)
    print(
        f"{one_worker.learners} learners: {one_worker.clock:.1f} s with one worker, "
        f"{two_workers.clock:.1f} s with two, {speedup:.2f} times as fast "
        f"(processor time {one_worker.processor:.0f} and {two_workers.processor:.0f} s; "
        f"load {os.getloadavg()[0]:.1f}). Two commands of one worker, "
        f"side by side, get {possible:.2f} times as much done as one alone: the most that "
        "two processes get out of this machine.\n"
    )


def run_part_four(home: Path) -> None:
    """Measure the largest learner.

    Histories of this kind keep about half of their rows; a trial learner shows how many exactly.
    """
    trial = ensure_dataset(home, "trial", 1, 50_000, 50_000)
    share = run_batch(trial, home / "trial-out", "AVG", 1).evaluated / 50_000
    rows = int(1.02 * LARGEST_EVALUATED / share)
    target = ensure_dataset(home, "largest", 1, rows, rows)
    run = run_batch(target, home / "largest-out", "fast", 1)
    evaluated = int(run.sizes.max())
    print(
        f"One learner with {rows:,} reviews, {evaluated:,} evaluated, {run.units} configurations: "
        f"{run.clock:.0f} s of clock, {run.processor:.0f} s of processor, at most "
        f"{run.worker_mb / 1000:.2f} GB.\n"
    )
    if evaluated < LARGEST_EVALUATED:
        print(f"(Fewer than the {LARGEST_EVALUATED:,} of the largest published learner.)\n")


def run_part_five(home: Path) -> Writing:
    """Measure writing in a process of its own, whose memory is otherwise unused."""
    command = [sys.executable, str(HERE), "--writer", str(home / "writer")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    writing = Writing(**json.loads(done.stdout))
    print(
        f"The process that writes: {1000 * writing.listing_seconds:.2f} s of processor time to "
        f"list the files of 1,000 learners, {1e6 * writing.adding_seconds:.0f} us to add a result, "
        f"{1e6 * writing.publishing_seconds:.0f} us to publish it, with "
        f"{writing.publishing_kb:.1f} kB of memory for each learner of one configuration "
        "at a time.\n"
    )
    return writing


def write_many(home: Path, learners: int = 3_000, results: int = 50_000) -> Writing:
    import resource

    data = home / "data"
    for user in range(1, learners + 1):
        for table in ("revlogs", "cards", "decks"):
            target = data / table / f"user_id={user}"
            target.mkdir(parents=True, exist_ok=True)
            (target / "data.parquet").write_bytes(b"x")
    begun = time.process_time()
    survey_dataset(Dataset(data))
    listed = time.process_time()
    configuration = resolve_configurations("FSRS-6")[0]
    setup = make_setup(Dataset(data), "", [configuration], Context(), {})
    line = {
        "metrics": dict.fromkeys(Metrics.__dataclass_fields__, 0.123456),
        "size": 35_000,
        "parameters": {"0": np.full(configuration.model.parameters or 0, 0.123456).tolist()},
    }
    with ResultStore(home / "out", setup, fresh=True) as store:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        adding = time.process_time()
        for user in range(1, results + 1):
            done = {**line, "user": user}
            store.append(Unit("FSRS-6", user, "done", result_line=done, seconds=1.0, peak_mb=300.0))
        added = time.process_time()
        store.publish(everything=True)
        published = time.process_time()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Writing(
        listing_seconds=(listed - begun) / learners,
        adding_seconds=(added - adding) / results,
        publishing_seconds=(published - added) / results,
        publishing_kb=(after - before) / results,
    )


def estimate(run: Run, writing: Writing) -> None:
    """Estimate the cost of many learners: units take a + b x evaluated reviews, by least squares.

    Units are measured by the clock, so both are scaled to the processor time of the whole
    run, which also counts starting, preparing and writing.
    """
    count = len(resolve_configurations(CONFIGURATIONS))
    evaluated = PUBLISHED_EVALUATED / PUBLISHED_USERS
    weight = 1 / np.sqrt(run.sizes)
    design = np.stack([weight, weight * run.sizes], axis=1)
    a, b = np.linalg.lstsq(design, weight * run.seconds, rcond=None)[0]
    scale = run.processor / run.seconds.sum()
    a = scale * a
    b = scale * b
    per_learner = count * (a + b * evaluated)
    disk = run.bytes / run.learners
    print(
        f"A unit takes {1000 * a:.1f} ms and {1e6 * b:.2f} s a million evaluated reviews of "
        f"processor time. For {count} configurations and learners with {evaluated:,.0f} evaluated "
        "reviews each on average, as the published ones:\n"
    )
    print(
        "| learners | core-hours | hours on 2 cores | on 500 | results | the writer's memory | "
        "its listing |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for number in (PUBLISHED_USERS, 1_000_000, 10_000_000):
        hours = number * per_learner / 3600
        memory = BASE_MB / 1e3 + number * writing.publishing_kb / 1e6
        print(
            f"| {number:,} | {hours:,.1f} | {hours / 2:,.1f} | {hours / 500:,.2f} | "
            f"{number * disk / 1e9:,.2f} GB | {memory:,.1f} GB | "
            f"{number * writing.listing_seconds / 60:,.1f} min |"
        )


def run_batch(data: Path, out: Path, models: str, jobs: int, *arguments: str) -> Run:
    """Run the command from scratch and return what it took, according to the system."""
    command = [sys.executable, "-m", "srs_eval", "batch", "--dataset", str(data), "--fresh"]
    command += ["--out", str(out), "--models", models, "--jobs", str(jobs), *arguments]
    begun = time.monotonic()
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
        peak = _watch(process)
        _, status, usage = os.wait4(process.pid, 0)
    clock = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    timings = []
    for path in sorted((out / "timing").glob("*.jsonl")):
        timings += [json.loads(line) for line in path.read_text().splitlines()]
    sizes = np.array([timing["size"] for timing in timings], float)
    return Run(
        learners=len({timing["user"] for timing in timings}),
        clock=clock,
        processor=usage.ru_utime + usage.ru_stime,
        worker_mb=max(timing["peak_mb"] for timing in timings),
        parent_mb=peak,
        evaluated=int(sizes.sum()),
        units=len(timings),
        sizes=sizes,
        seconds=np.array([timing["seconds"] for timing in timings]),
        bytes=sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
    )


def _watch(process: subprocess.Popen[bytes]) -> float:
    """Return the peak memory of a process in MB when it has ended (Linux; 0 elsewhere)."""
    peak = 0.0
    status = Path(f"/proc/{process.pid}/status")
    while True:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            return peak
        peaks = [line for line in lines if line.startswith("VmHWM:")]
        if not peaks:  # it has ended
            return peak
        peak = int(peaks[0].split()[1]) / 1024
        time.sleep(0.2)


if __name__ == "__main__":
    main()
