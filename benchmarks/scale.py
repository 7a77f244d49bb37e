"""How a batch grows: rate, memory, cores, the largest learner, and what many learners would cost.

    python benchmarks/scale.py [--quick] [--users 2000] [--median 4000] [--parts 12345] [--jobs 2]
                               [--largest 200000] [--data DIR]

Data sets are made by make_dataset.py (in DIR, kept there; else in a temporary folder), batches
are run by the command line. Prints Markdown.

1. Making the data set: reviews a second of processor time.
2. `--users` learners x 10 configurations: seconds of clock and of processor, evaluated reviews, the
   highest memory of a worker and of the process that writes; then the same for 20 learners
   with the same largest one: a worker's memory should be the same within 10 %.
3. One worker and two on the same 400 learners: how many times as fast two are, beside what two
   commands that share nothing get done at once: cores share memory and caches. On a machine with
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

from srs_eval.benchmark.plan import survey
from srs_eval.benchmark.setup import make_setup
from srs_eval.benchmark.store import ResultStore, Unit
from srs_eval.data.datasets import Dataset
from srs_eval.metrics import Metrics
from srs_eval.models.configurations import resolve
from srs_eval.training.hyperparameters import Context

CONFIGURATIONS = "AVG,MOVING-AVG,SM2-short,HLR,DASH,FSRS-4.5,FSRS-5,FSRS-6,FSRS-6-dry-run,Anki"
PUBLISHED_USERS, PUBLISHED_EVALUATED, LARGEST_EVALUATED = 9_999, 349_923_850, 1_939_325
FEW = 20
PAIRED = 400
BASE_MB = 90  # of the process that writes, before it has done anything
HERE = Path(__file__).resolve()


@dataclass(frozen=True)
class Run:
    """What a batch took."""

    learners: int
    clock: float
    processor: float  # of the command and its workers
    worker_mb: float  # highest of any worker, also of one that is gone
    parent_mb: float
    evaluated: int  # reviews x configurations
    units: int
    sizes: np.ndarray  # (units,) evaluated reviews
    seconds: np.ndarray  # (units,) as `timing/` has them
    bytes: int  # of the folder


@dataclass(frozen=True)
class Writing:
    """What the process that writes takes for a learner, or for one of its results."""

    listing_seconds: float  # a learner, of processor time
    adding_seconds: float  # a result
    publishing_seconds: float  # a result
    publishing_kb: float  # a result of the configuration at hand


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.writer is not None:
        print(json.dumps(asdict(write_many(options.writer))))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    with folder_for(options.data) as home:
        users = options.users
        many = made(home, "many", users, options.median, options.largest, "1" in options.parts)
        few = made(home, "few", FEW, options.median, options.largest)
        batch(few, home / "warm", CONFIGURATIONS, options.jobs, "--users", "1-3")
        runs = part_two(many, few, home, options) if "2" in options.parts else None
        if "3" in options.parts:
            part_three(many, home)
        if "4" in options.parts:
            part_four(home)
        writing = part_five(home) if "5" in options.parts else None
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
        options.users, options.median, options.largest = 400, 2_500, 100_000
    return options


@contextmanager
def folder_for(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="srs-eval-scale-") as folder:
        yield Path(folder)


def made(home: Path, name: str, users: int, median: int, largest: int, tell: bool = False) -> Path:
    """A data set of that shape, made unless it is there."""
    target = home / f"{name}-{users}-{median}-{largest}"
    if (target / "revlogs").is_dir():
        return target
    begun = time.process_time()
    pool = make_dataset.templates(1)
    simulated = time.process_time()
    sizes = make_dataset.sizes_of(users, 1, median, make_dataset.SMALLEST, largest)
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


def part_two(many: Path, few: Path, home: Path, options: argparse.Namespace) -> tuple[Run, Run]:
    small = batch(few, home / "few-out", CONFIGURATIONS, options.jobs)
    large = batch(many, home / "many-out", CONFIGURATIONS, options.jobs)
    count = len(resolve(CONFIGURATIONS))
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


def part_three(many: Path, home: Path) -> None:
    users = ("--users", f"1-{PAIRED}")
    one = batch(many, home / "one-out", CONFIGURATIONS, 1, *users)
    two = batch(many, home / "two-out", CONFIGURATIONS, 2, *users)
    with ThreadPoolExecutor(2) as side_by_side:
        apart = list(
            side_by_side.map(
                lambda name: batch(many, home / name, CONFIGURATIONS, 1, *users),
                ("left-out", "right-out"),
            )
        )
    possible = 2 * one.clock / max(each.clock for each in apart)
    print(
        f"{one.learners} learners: {one.clock:.1f} s with one worker, {two.clock:.1f} s with two, "
        f"{one.clock / two.clock:.2f} times as fast (processor time {one.processor:.0f} and "
        f"{two.processor:.0f} s; load {os.getloadavg()[0]:.1f}). Two commands of one worker, "
        f"side by side, get {possible:.2f} times as much done as one alone: the most that "
        "two processes get out of this machine.\n"
    )


def part_four(home: Path) -> None:
    """Histories of this kind keep about half of their rows; a first learner tells how many."""
    trial = made(home, "trial", 1, 50_000, 50_000)
    share = batch(trial, home / "trial-out", "AVG", 1).evaluated / 50_000
    rows = int(1.02 * LARGEST_EVALUATED / share)
    target = made(home, "largest", 1, rows, rows)
    run = batch(target, home / "largest-out", "fast", 1)
    evaluated = int(run.sizes.max())
    print(
        f"One learner with {rows:,} reviews, {evaluated:,} evaluated, {run.units} configurations: "
        f"{run.clock:.0f} s of clock, {run.processor:.0f} s of processor, at most "
        f"{run.worker_mb / 1000:.2f} GB.\n"
    )
    if evaluated < LARGEST_EVALUATED:
        print(f"(Fewer than the {LARGEST_EVALUATED:,} of the largest published learner.)\n")


def part_five(home: Path) -> Writing:
    """In a process of its own, whose memory nothing else has touched."""
    command = [sys.executable, str(HERE), "--writer", str(home / "writer")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = Writing(**json.loads(done.stdout))
    print(
        f"The process that writes: {1000 * found.listing_seconds:.2f} s of processor time to list "
        f"the files of 1,000 learners, {1e6 * found.adding_seconds:.0f} us to add a result, "
        f"{1e6 * found.publishing_seconds:.0f} us to publish it, with {found.publishing_kb:.1f} kB "
        "of memory for each learner of one configuration at a time.\n"
    )
    return found


def write_many(home: Path, learners: int = 3_000, results: int = 50_000) -> Writing:
    import resource

    data = home / "data"
    for user in range(1, learners + 1):
        for table in ("revlogs", "cards", "decks"):
            target = data / table / f"user_id={user}"
            target.mkdir(parents=True, exist_ok=True)
            (target / "data.parquet").write_bytes(b"x")
    begun = time.process_time()
    survey(Dataset(data))
    listed = time.process_time()
    configuration = resolve("FSRS-6")[0]
    setup = make_setup(Dataset(data), "", [configuration], Context(), {})
    line = {
        "metrics": dict.fromkeys(Metrics.__dataclass_fields__, 0.123456),
        "size": 35_000,
        "parameters": {"0": [0.123456] * configuration.model.parameters},
    }
    with ResultStore(home / "out", setup, fresh=True) as store:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        adding = time.process_time()
        for user in range(1, results + 1):
            done = {**line, "user": user}
            store.append(Unit("FSRS-6", user, "done", line=done, seconds=1.0, peak_mb=300.0))
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
    """Units take a + b x evaluated reviews, by least squares over the units of a run.

    Units are measured by the clock, so that both are scaled to the processor time of the whole
    run, which also counts starting, preparing and writing.
    """
    count = len(resolve(CONFIGURATIONS))
    evaluated = PUBLISHED_EVALUATED / PUBLISHED_USERS
    weight = 1 / np.sqrt(run.sizes)
    design = np.stack([weight, weight * run.sizes], axis=1)
    a, b = np.linalg.lstsq(design, weight * run.seconds, rcond=None)[0]
    scale = run.processor / run.seconds.sum()
    a, b = scale * a, scale * b
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


def batch(data: Path, out: Path, models: str, jobs: int, *more: str) -> Run:
    """Run the command from nothing, and ask the system what it took."""
    command = [sys.executable, "-m", "srs_eval", "batch", "--dataset", str(data), "--fresh"]
    command += ["--out", str(out), "--models", models, "--jobs", str(jobs), *more]
    begun = time.monotonic()
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
        peak = _watch(process)
        _, status, usage = os.wait4(process.pid, 0)
    clock = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    timing = [
        json.loads(line)
        for path in sorted((out / "timing").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    sizes = np.array([each["size"] for each in timing], float)
    return Run(
        learners=len({each["user"] for each in timing}),
        clock=clock,
        processor=usage.ru_utime + usage.ru_stime,
        worker_mb=max(each["peak_mb"] for each in timing),
        parent_mb=peak,
        evaluated=int(sizes.sum()),
        units=len(timing),
        sizes=sizes,
        seconds=np.array([each["seconds"] for each in timing]),
        bytes=sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
    )


def _watch(process: subprocess.Popen[bytes]) -> float:
    """The highest memory of a process in MB, until it ends (Linux; 0 elsewhere)."""
    peak = 0.0
    status = Path(f"/proc/{process.pid}/status")
    while True:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            return peak
        found = [line for line in lines if line.startswith("VmHWM:")]
        if not found:  # it has ended
            return peak
        peak = int(found[0].split()[1]) / 1024
        time.sleep(0.2)


if __name__ == "__main__":
    main()
