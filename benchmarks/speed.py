"""Compare srs-eval's speed with fsrs-optimizer, fsrs-rs and torch loops, warm and cold.

    python benchmarks/speed.py [--golden DIR] [--peer-python PY] [--peer5-python PY]
                               [--parts 1234] [--user N] [--quick]

Prints Markdown. Everything runs in one go, one thread each, one after the other, warm except
in part 4; caches of results are off. Numbers are medians in seconds of processor time, so
that other work on the machine does not count; its load is printed.

1. FSRS against fsrs-optimizer in another interpreter (version 6: --peer-python, version 5:
   --peer5-python), against fsrs-rs (`benchmark`, which predicts nothing) and, for v4 and
   4.5, against torch loops (_torch_loops.py).
2. The other trained models against torch loops. Differences of log loss to ours, and to
   the reference's published output, show that loops and models do the same.
3. Every configuration without a network on two learners, from loaded reviews to metrics.
4. Without compiled kernels: until the first results, until all, and seconds per kernel.

In 1 and 2 our time starts from trials: features, the trie of list_histories, training on five
folds, prediction of their test parts. The torch side counts training and prediction;
making its sequences has its own column and is part of the ratio for loops.
DIR is the golden data set (`dataset/`, `expected/`); without it a learner is simulated.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _peers import list_histories, run_peer
from compiling import record_compilation

from srs_eval.data.datasets import open_dataset
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.run import Finished, Started
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import Context
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.models.kinds import TrainedModel

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
LOOPS_FSRS = {"FSRSv4": 200, "FSRS-4.5": 200}  # model -> required speed ratio
LOOPS_OTHERS = {
    "HLR": 50,
    "DASH": 50,
    "DASH[MCM]": 50,
    "LogisticRegression": 50,
    "SM2-trainable": 50,
    "Anki": 50,
    "ACT-R": 20,
    "DASH[ACT-R]": 20,
}
# Required speed ratios to fsrs-rs and to fsrs-optimizer.
RUST_TIMES = 4
TORCH_TIMES = 200
# Goals with nothing compiled: seconds until the first result, and until all.
FIRST_SECONDS = 3
ALL_SECONDS = 60
# Goals for compiling all kernels, and those of FSRS-6, in processor seconds.
ALL_COMPILING = 20
ONE_COMPILING = 2.5


@dataclass(frozen=True)
class TimedLearner:
    user: int
    log: ReviewLog
    expected: Path | None  # folder of the reference's output

    def published(self, configuration: Configuration) -> float | None:
        """Return the reference's log loss."""
        if self.expected is None:
            return None
        file = self.expected / f"{configuration.name}.jsonl"
        lines = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        losses = [line["metrics"]["LogLoss"] for line in lines if line["user"] == self.user]
        return losses[0] if losses else None


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.cold_child is not None:
        run_cold_start(*options.cold_child)
        return
    if any(os.environ.get(name) != "1" for name in THREADS):  # libraries read them at start
        os.environ.update(dict.fromkeys(THREADS, "1"))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    cores = os.cpu_count()
    print(f"{cores} processor cores shared with other work, load {os.getloadavg()[0]:.1f}\n")
    repeat = 3 if options.quick else 7
    learner = load_learner(options.golden, options.user)
    if "1" in options.parts:
        compare_fsrs(learner, options.peer_python, options.peer5_python, repeat, options.quick)
    if "2" in options.parts:
        compare_others(learner, repeat)
    if "3" in options.parts:
        users = {101: 3.0, 106: 5.0} if options.golden else {options.user: 5.0}
        for user, limit in users.items():
            measure_all(load_learner(options.golden, user), limit, 2 if options.quick else 3)
    if "4" in options.parts:
        measure_cold(1 if options.quick else 2)
    print(f"Load at the end: {os.getloadavg()[0]:.1f}.")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    shared = Path(__file__).resolve().parents[2] / "shared" / "golden"
    parser = argparse.ArgumentParser(description="speed beside its peers, warm and cold")
    parser.add_argument("--golden", type=Path, default=shared if shared.is_dir() else None)
    parser.add_argument("--user", type=int, default=106, help="learner of parts 1 and 2")
    parser.add_argument("--peer-python", default=None, help="has fsrs-optimizer 6")
    parser.add_argument("--peer5-python", default=None, help="has fsrs-optimizer 5")
    parser.add_argument("--parts", default="1234", help="such as 13")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--cold-child", nargs=3, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.parts or set(options.parts) - set("1234"):
        parser.error(f"--parts is some of 1, 2, 3 and 4, not {options.parts}")
    return options


def load_learner(golden: Path | None, user: int) -> TimedLearner:
    if golden is not None:
        return TimedLearner(user, open_dataset(golden / "dataset").load(user), golden / "expected")
    from tools.simulated import simulate_learner, write_dataset

    with tempfile.TemporaryDirectory() as folder:
        write_dataset({user: simulate_learner(user, 15_000)}, Path(folder))
        return TimedLearner(user, open_dataset(Path(folder)).load(user), None)


# Timing


def measure_median(run: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Return the median processor time of `repeat` runs after a warm-up, and the last result."""
    result = run()
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        result = run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), result


def measure_ours(configuration: Configuration, trials: Trials, repeat: int) -> tuple[float, Any]:
    """Return seconds from trials without features to test predictions, and the predictions."""
    model = configuration.model
    context = Context()
    if not isinstance(model, TrainedModel) or model.fit is None or model.predict is None:
        raise ValueError(f"{model.name} is not trained")
    fit = model.fit
    predict = model.predict

    def run() -> FloatArray:
        fresh = replace(trials, _derived={})  # features and trie are computed again
        predictions = []
        for fold in fresh.folds:
            w = fit(fresh, fold.train, np.ones(len(fold.train)), context)
            predictions.append(predict(fresh, w, fold.test, context))
        return np.concatenate(predictions)

    return measure_median(run, repeat)


def measure_loop(name: str, trials: Trials, repeat: int) -> tuple[float, float, FloatArray]:
    """Return a torch loop's seconds (training and prediction; features) and its predictions."""
    import torch
    from _torch_loops import run_loop

    torch.set_num_threads(1)
    run_loop(name, trials)
    runs = [run_loop(name, trials) for _ in range(repeat)]
    cpu = statistics.median(run.cpu for run in runs)
    return cpu, statistics.median(run.features_cpu for run in runs), runs[-1].p


def measure_fsrs_rs(trials: Trials, repeat: int) -> float:
    from fsrs_rs_python import FSRS, FSRSItem, FSRSReview

    items = []
    for (intervals, ratings), delta_t, rating in zip(
        list_histories(trials), trials.delta_t, trials.rating, strict=True
    ):
        reviews = [
            FSRSReview(delta_t=earlier_delta_t, rating=earlier_rating)
            for earlier_delta_t, earlier_rating in zip(intervals, ratings, strict=True)
        ]
        reviews.append(FSRSReview(delta_t=int(delta_t), rating=int(rating)))
        items.append(FSRSItem(reviews=reviews))
    folds = []
    for fold in trials.folds:
        folds.append([items[k] for k in fold.train])
    backend = FSRS(parameters=[])
    return measure_median(lambda: [backend.benchmark(fold) for fold in folds], repeat)[0]


# Parts


def compare_fsrs(
    learner: TimedLearner, python6: str | None, python5: str | None, repeat: int, quick: bool
) -> None:
    session = LearnerSession(learner.log)
    head = ("ours s", "other", "other s", "its features s", "times", "target")
    print_header(f"FSRS, user {learner.user}", "model", *head, "log loss: other - ours")
    peers: Mapping[str, str | None] = {"FSRS-6": python6, "FSRS-5": python5}
    for name, python in peers.items():
        configuration = resolve_configurations(name)[0]
        trials = session.trials(configuration.protocol)
        ours, p = measure_ours(configuration, trials, repeat)
        if name == "FSRS-6":
            rust = measure_fsrs_rs(trials, repeat)
            row = Row(
                name=name,
                ours=ours,
                rival="fsrs-rs",
                seconds=rust,
                features=None,
                times=rust / ours,
                target=RUST_TIMES,
            )
            print_row(row, "predicts nothing")
        if python is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            answer = run_peer(python, trials, Path(folder), 1 if quick else 3)
        seconds = float(answer["cpu_seconds"])
        y = trials.y[trials.test_index]
        difference = log_loss(y, answer["p"]) - log_loss(y, p)
        row = Row(
            name=name,
            ours=ours,
            rival=str(answer["versions"]),
            seconds=seconds,
            features=None,
            times=seconds / ours,
            target=TORCH_TIMES,
        )
        print_row(row, f"{difference:+.6f}")
    for name, target in LOOPS_FSRS.items():
        compare_with_loop(learner, session, name, target, repeat, with_published=False)
    print(flush=True)


def compare_others(learner: TimedLearner, repeat: int) -> None:
    session = LearnerSession(learner.log)
    head = ("ours s", "other", "other s", "its features s", "times", "target")
    differences = ("log loss: other - ours", "other - published")
    print_header(f"Other trained models, user {learner.user}", "model", *head, *differences)
    for name, target in LOOPS_OTHERS.items():
        compare_with_loop(learner, session, name, target, repeat, with_published=True)
    print(flush=True)


def compare_with_loop(
    learner: TimedLearner,
    session: LearnerSession,
    name: str,
    target: int,
    repeat: int,
    with_published: bool,
) -> None:
    configuration = resolve_configurations(name)[0]
    trials = session.trials(configuration.protocol)
    ours, p = measure_ours(configuration, trials, repeat)
    seconds, features, loop_p = measure_loop(configuration.model.name, trials, min(repeat, 3))
    y = trials.y[trials.test_index]
    loss = log_loss(y, loop_p)
    published = learner.published(configuration)
    cells = [f"{loss - log_loss(y, p):+.6f}"]
    if with_published:
        cells.append("" if published is None else f"{loss - published:+.6f}")
    row = Row(
        name=configuration.model.name,
        ours=ours,
        rival="torch loop",
        seconds=seconds,
        features=features,
        times=(seconds + features) / ours,
        target=target,
    )
    print_row(row, *cells)


def measure_all(learner: TimedLearner, limit: float, repeat: int) -> None:
    """Measure whole evaluations: trials, fit, prediction, metrics."""
    configurations = [
        configuration
        for configuration in resolve_configurations("all")
        if configuration.model.family != "neural"
    ]
    seconds: dict[str, list[float]] = {}
    for configuration in configurations:
        seconds[configuration.name] = []
    totals = []
    for count in range(repeat + 1):
        session = LearnerSession(learner.log)
        total = 0.0
        for configuration in configurations:
            start = time.process_time()
            session.run(configuration)
            used = time.process_time() - start
            total += used
            if count:  # the first run compiles or loads kernels
                seconds[configuration.name].append(used)
        if count:
            totals.append(total)
    evaluated = len(session.trials(configurations[0].protocol).test_index)
    reviews = session.log.import_summary.entries_read
    print_header(
        f"All {len(configurations)} configurations without a network, user {learner.user}: "
        f"{reviews:,} reviews, {evaluated:,} evaluated",
        "configuration",
        "s",
        "share",
    )
    total = statistics.median(totals)
    medians = {name: statistics.median(runs) for name, runs in seconds.items()}
    for name, used in sorted(medians.items(), key=lambda item: -item[1]):
        print(f"| {name} | {used:.4f} | {used / total:.0%} |")
    print(f"| **all** (target: below {limit:g}) | **{total:.2f}** | |\n", flush=True)


def measure_cold(repeat: int) -> None:
    """Measure fresh processes with an empty cache folder, in wall time from their start."""
    from srs_eval.data.paths import DEMO_FILE

    title = "Cold: nothing compiled, demo collection of 20,000 reviews, --models fast"
    print_header(title, "", "s", "processor s", "target")
    runs = [measure_cold_start(DEMO_FILE, jobs=2) for _ in range(repeat)]
    best = min(runs, key=lambda run: run["all"])
    print(f"| first result | {best['first']:.2f} | | {FIRST_SECONDS} |")
    print(f"| all results, 2 jobs | {best['all']:.1f} | {best['cpu']:.1f} | {ALL_SECONDS} |")
    print(f"| the same again, all compiled | {best['again']:.1f} | {best['cpu again']:.1f} | |")
    alone = measure_cold_start(DEMO_FILE, jobs=0)
    compiling = sum(seconds for _, seconds in alone["kernels"])
    fsrs6 = measure_cold_start(DEMO_FILE, jobs=0, models="FSRS-6")
    of_one = sum(seconds for _, seconds in fsrs6["kernels"])
    print(f"| all results, one process | {alone['all']:.1f} | {alone['cpu']:.1f} | |")
    count = len(alone["kernels"])
    print(f"| of it compiling {count} kernels | | {compiling:.1f} | {ALL_COMPILING} |")
    print(f"| compiling FSRS-6 alone | | {of_one:.1f} | {ONE_COMPILING} |\n")
    print_header("Seconds per kernel", "kernel", "s")
    small = 0.0
    for name, seconds in sorted(alone["kernels"], key=lambda item: -item[1]):
        if seconds >= 0.3:
            print(f"| {name} | {seconds:.2f} |")
        else:
            small += seconds
    print(f"| those below 0.3 s together | {small:.2f} |\n", flush=True)


def measure_cold_start(collection: Path, jobs: int, models: str = "fast") -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "SRS_EVAL_CACHE_DIR": cache}
        environment.pop("NUMBA_CACHE_DIR", None)
        answers = []
        for _ in range(2 if jobs else 1):
            command = [sys.executable, __file__, "--cold-child", str(collection), str(jobs), models]
            environment["STARTED"] = str(time.time())
            before = read_children_seconds()
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            answer = json.loads(done.stdout.splitlines()[-1])
            answers.append({**answer, "cpu": read_children_seconds() - before})
    return {**answers[0], "again": answers[-1]["all"], "cpu again": answers[-1]["cpu"]}


def read_children_seconds() -> float:
    """Return the processor time of all ended child processes."""
    times = os.times()
    return times.children_user + times.children_system


def run_cold_start(collection: str, jobs: str, models: str) -> None:
    """Run what `srs-eval run COLLECTION --models MODELS --jobs JOBS` runs, and time its stages."""
    from srs_eval.anki_import import load_log

    started = float(os.environ["STARTED"])
    log = load_log(Path(collection))
    compiled: list[tuple[str, float]] = []
    if jobs == "0":
        record_compilation(compiled)
    finished = []
    for event in evaluate(log, models, jobs=int(jobs), use_cache=False):
        if isinstance(event, Started):
            continue
        if isinstance(event, Finished):
            finished.append(time.time() - started)
    print(json.dumps({"first": finished[0], "all": finished[-1], "kernels": compiled}))


# Tables


def print_header(title: str, *columns: str) -> None:
    print(f"### {title}\n")
    print(f"| {' | '.join(columns)} |")
    print(f"|{' --- |' * len(columns)}", flush=True)


@dataclass(frozen=True)
class Row:
    """A comparison of srs-eval with a rival on one model."""

    name: str
    ours: float  # seconds
    rival: str
    seconds: float  # of the rival, for training and prediction
    features: float | None  # seconds of the rival for making its sequences
    times: float  # how many times as fast srs-eval is, features included
    target: int  # what `times` should be


def print_row(row: Row, *cells: str) -> None:
    """Print a row, with further cells at its end."""
    row_cells = [
        row.name,
        f"{row.ours:.4f}",
        row.rival,
        f"{row.seconds:.3f}",
        "" if row.features is None else f"{row.features:.3f}",
        f"{row.times:.1f}",
        str(row.target),
        *cells,
    ]
    print(f"| {' | '.join(row_cells)} |", flush=True)


if __name__ == "__main__":
    main()
