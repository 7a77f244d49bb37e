"""How fast the simulation of the workload is, beside fsrs-rs.

    python benchmarks/workload.py [--quick]

Prints Markdown; one thread where nothing else is said, warm, the least processor time of several
runs, taken in turns with fsrs-rs-python. Decks are drawn from a seed.

1. 365 days of 10,000 learned cards at 0.90 with one parameter line, for each model.
2. 365 days of a new deck of 7,300 cards, 20 a day, beside fsrs-rs, which takes no learned cards
   through its Python package. Without the balance of days, which it leaves to Anki.
3. The whole answer for a preset of 4,000 cards: 30 desired retentions x 50 parameter lines,
   wall-clock time on two threads, without and with 20 new cards a day.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import numpy as np

from srs_eval.reviews import FloatArray
from srs_eval.workload.simulator import MODELS, Costs, Deck, Memory, Settings, simulate

ONE_LINE_MS, WHOLE_S = 15, 10  # goals
NONE = np.empty(0, np.int64)


def drawn_deck(cards: int, states: int, new: int = 0) -> Deck:
    """Learned cards with intervals of about a month, not yet due, spread over their intervals."""
    random = np.random.default_rng(1)
    s = np.clip(np.exp(random.normal(3.5, 1.3, cards)), 0.1, 2000.0)
    interval = np.maximum(np.round(s), 1.0)
    last = -np.floor(random.random(cards) * interval).astype(np.int64)
    state = np.tile(s, (states, 1))
    state[-1] = random.uniform(2.0, 10.0, cards)
    due = last + interval.astype(np.int64)
    return Deck(state, last, due, np.zeros(cards, np.int64), new)


def least_ms(runs: int, *calls: Callable[[int], object]) -> list[float]:
    """Processor time of each call, taken in turns; each is called once before."""
    for call in calls:
        call(0)
    times: FloatArray = np.empty((runs, len(calls)))
    for run in range(runs):
        for k, call in enumerate(calls):
            began = time.process_time()
            call(run)
            times[run, k] = time.process_time() - began
    return [1000.0 * float(least) for least in times.min(0)]


def one_line(runs: int) -> None:
    print("## 10,000 learned cards, 365 days, 0.90\n")
    print("| model | ms | ms, intervals not balanced | goal |\n|---|---|---|---|")
    for name, model in MODELS.items():
        memory = Memory(name, model.default)
        deck = drawn_deck(10_000, model.states)
        settings = (Settings(balanced=balanced) for balanced in (True, False))
        a, b = least_ms(
            runs, *(partial(simulate, memory, deck, Costs(), each) for each in settings)
        )
        goal = f"< {ONE_LINE_MS}" if name == "FSRS-6" else ""
        print(f"| {name} | {a:.1f} | {b:.1f} | {goal} |")


def beside_fsrs_rs(runs: int) -> None:
    import fsrs_rs_python as fsrs_rs

    memory = Memory("FSRS-6", MODELS["FSRS-6"].default)
    costs = Costs()
    deck = Deck(np.empty((2, 0)), NONE, NONE, NONE, new=7300)
    print("\n## A new deck of 7,300 cards, 365 days\n")
    print("| desired retention | ours, ms | fsrs-rs, ms | ratio |\n|---|---|---|---|")
    for retention in (0.8, 0.9, 0.95):
        settings = Settings(desired_retention=retention, balanced=False)
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
        ours, theirs = least_ms(
            runs,
            partial(simulate, memory, deck, costs, settings),
            partial(fsrs_rs.simulate, memory.parameters, retention, config),
        )
        print(f"| {retention:.2f} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.1f} |")


def whole_answer(draws: int) -> None:
    random = np.random.default_rng(2)
    default = np.array(MODELS["FSRS-6"].default)
    lines = [
        Memory("FSRS-6", tuple(default * np.exp(random.normal(0.0, 0.02, len(default)))))
        for _ in range(draws)
    ]
    print(f"\n## 4,000 cards: 30 desired retentions x {draws} parameter lines, two threads\n")
    print("| new cards a day | seconds | processor seconds | goal |\n|---|---|---|---|")
    for new_a_day in (0, 20):
        deck = drawn_deck(4000, 2, new=365 * new_a_day)
        began, processor = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(2) as pool:
            courses = [
                pool.submit(
                    simulate,
                    memory,
                    deck,
                    Costs(),
                    Settings(desired_retention=percent / 100, new_a_day=new_a_day),
                    1,
                )
                for percent in range(70, 100)
                for memory in lines
            ]
            wait(courses)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        print(f"| {new_a_day} | {seconds:.1f} | {processor:.1f} | < {WHOLE_S} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few runs, to see that all is in order"
    )
    quick = parser.parse_args().quick
    print(f"Load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
    one_line(3 if quick else 15)
    beside_fsrs_rs(3 if quick else 15)
    whole_answer(2 if quick else 50)


if __name__ == "__main__":
    main()
