"""Compare the speed of the workload simulation with fsrs-rs.

    python benchmarks/workload.py [--quick]

Prints Markdown; one thread unless stated otherwise, warm, the least processor time of several
runs, taken in turns with fsrs-rs-python. Decks are drawn from a seed.

1. 365 days of 10,000 learned cards at 0.90 with one parameter line.
2. 365 days of a new deck of 7,300 cards, 20 a day, against fsrs-rs, which takes no learned cards
   through its Python package. Without the balance of days, which it leaves to Anki.
3. The whole answer for a preset of 4,000 cards: 30 desired retentions x 50 parameter lines,
   wall-clock time on two threads, without and with 20 new cards a day.
4. The answer that a learner gets for such a preset, from when the log is loaded: until the first
   estimate, and until all draws with their fits are there; first where it is known which
   parameters are advised, as in the app, and then where that is asked, too, as by the command. In a
   process that has answered before, so that modules and kernels are loaded.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import numpy as np

from srs_eval.advice.workload.estimate import WorkloadQuestion, workload
from srs_eval.advice.workload.simulator import (
    MODELS,
    Costs,
    Memory,
    SimulatedDeck,
    SimulationSettings,
    simulate,
)
from srs_eval.data.reviews import FloatArray
from srs_eval.report.notebook import load
from tools.simulated import simulate_learner, write_collection

# Goals: for one parameter line, for a whole answer, and for its first estimate.
ONE_LINE_MS = 15
WHOLE_S = 10
FIRST_S = 0.5
ANSWERS = 88_000  # of a simulated learner, whose largest preset by reviews then has 4,000 cards
NONE = np.empty(0, np.int64)


def draw_deck(cards: int, states: int, new: int = 0) -> SimulatedDeck:
    """Draw learned cards, not yet due, at random points of intervals of about a month."""
    random = np.random.default_rng(1)
    s = np.clip(np.exp(random.normal(3.5, 1.3, cards)), 0.1, 2000.0)
    interval = np.maximum(np.round(s), 1.0)
    last = -np.floor(random.random(cards) * interval).astype(np.int64)
    state = np.tile(s, (states, 1))
    state[-1] = random.uniform(2.0, 10.0, cards)
    due = last + interval.astype(np.int64)
    return SimulatedDeck(state, last, due, new)


def measure_least_ms(runs: int, *calls: Callable[[int], object]) -> list[float]:
    """Return the least processor time of each call, taken in turns after a warm-up call each."""
    for call in calls:
        call(0)
    times: FloatArray = np.empty((runs, len(calls)))
    for run in range(runs):
        for k, call in enumerate(calls):
            began = time.process_time()
            call(run)
            times[run, k] = time.process_time() - began
    return [1000.0 * float(least) for least in times.min(0)]


def measure_one_line(runs: int) -> None:
    print("## 10,000 learned cards, 365 days, 0.90\n")
    print("| model | ms | ms, intervals not balanced | goal |\n|---|---|---|---|")
    memory = Memory("FSRS-6", MODELS["FSRS-6"].default)
    deck = draw_deck(10_000, memory.state_size)
    balanced = SimulationSettings(balanced=True)
    unbalanced = SimulationSettings(balanced=False)
    balanced_ms, unbalanced_ms = measure_least_ms(
        runs,
        partial(simulate, memory, deck, Costs(), balanced),
        partial(simulate, memory, deck, Costs(), unbalanced),
    )
    print(f"| FSRS-6 | {balanced_ms:.1f} | {unbalanced_ms:.1f} | < {ONE_LINE_MS} |")


def compare_with_fsrs_rs(runs: int) -> None:
    import fsrs_rs_python as fsrs_rs

    memory = Memory("FSRS-6", MODELS["FSRS-6"].default)
    costs = Costs()
    deck = SimulatedDeck(np.empty((2, 0)), NONE, NONE, new=7300)
    print("\n## A new deck of 7,300 cards, 365 days\n")
    print("| desired retention | ours, ms | fsrs-rs, ms | ratio |\n|---|---|---|---|")
    for retention in (0.8, 0.9, 0.95):
        settings = SimulationSettings(desired_retention=retention, balanced=False)
        config = fsrs_rs.SimulatorConfig(
            7300,
            settings.days,
            1e9,
            settings.maximum_interval,
            costs.first_rating,
            costs.review_rating,
            settings.new_a_day,
            settings.reviews_a_day,
            settings.new_ignore_review_limit,
            costs.learning_steps,
            costs.relearning_steps,
            costs.seconds,
            settings.learning_steps,
            settings.relearning_steps,
        )
        ours, peer = measure_least_ms(
            runs,
            partial(simulate, memory, deck, costs, settings),
            partial(fsrs_rs.simulate, memory.parameters, retention, config),
        )
        print(f"| {retention:.2f} | {ours:.1f} | {peer:.1f} | {peer / ours:.1f} |")


def measure_answer(draws: int) -> None:
    random = np.random.default_rng(2)
    default = np.array(MODELS["FSRS-6"].default)
    lines = [
        Memory("FSRS-6", tuple(default * np.exp(random.normal(0.0, 0.02, len(default)))))
        for _ in range(draws)
    ]
    print(f"\n## 4,000 cards: 30 desired retentions x {draws} parameter lines, two threads\n")
    print("| new cards a day | seconds | processor seconds | goal |\n|---|---|---|---|")
    for new_a_day in (0, 20):
        deck = draw_deck(4000, 2, new=365 * new_a_day)
        began = time.perf_counter()
        processor_began = time.process_time()
        with ThreadPoolExecutor(2) as pool:
            courses = []
            for percent in range(70, 100):
                settings = SimulationSettings(desired_retention=percent / 100, new_a_day=new_a_day)
                for memory in lines:
                    courses.append(pool.submit(simulate, memory, deck, Costs(), settings, 1))
            wait(courses)
        seconds = time.perf_counter() - began
        processor = time.process_time() - processor_began
        print(f"| {new_a_day} | {seconds:.1f} | {processor:.1f} | < {WHOLE_S} |")


def measure_learner_answer(quick: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "collection.anki2"
        write_collection(simulate_learner(1, 20_000 if quick else ANSWERS), path)
        log = load(path)
    list(workload(log, question=WorkloadQuestion(retentions=(0.9,), days=30, draws=1)))
    for advice, unchanged_presets in (("known", ()), ("asked, too", None)):
        question = WorkloadQuestion(new_a_day=20)
        began = time.perf_counter()
        processor_began = time.process_time()
        spent: dict[str, tuple[float, float]] = {}  # by stage; seconds, and processor seconds
        estimates = workload(log, question=question, unchanged_presets=unchanged_presets)
        for estimate in estimates:
            stage = "all draws" if estimate.has_all_draws else "first estimate"
            seconds = time.perf_counter() - began
            processor = time.process_time() - processor_began
            spent.setdefault(stage, (seconds, processor))
        print(
            f"\n## The answer for {estimate.learned_cards:,} cards and 20 new ones a day: "
            f"{len(estimate.retentions)} x {question.draws}; advice on parameters {advice}\n"
        )
        print_stages(spent)


def print_stages(spent: Mapping[str, tuple[float, float]]) -> None:
    print("| until | seconds | processor seconds | goal | of the goal |\n|---|---|---|---|---|")
    for stage, goal in (("first estimate", FIRST_S), ("all draws", WHOLE_S)):
        seconds, processor = spent[stage]
        aim = f"{goal:g} | {seconds / goal:.2f}"
        print(f"| {stage} | {seconds:.2f} | {processor:.2f} | {aim} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few runs, to see that all is in order"
    )
    options = parser.parse_args()
    quick = options.quick
    print(f"Load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
    measure_one_line(3 if quick else 15)
    compare_with_fsrs_rs(3 if quick else 15)
    measure_answer(2 if quick else 50)
    measure_learner_answer(quick)


if __name__ == "__main__":
    main()
