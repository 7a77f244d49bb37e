"""Compare the speed of the workload simulation with fsrs-rs.

    python benchmarks/workload.py [--quick] [--band [--learners 100] [--jobs 2] [--results FILE]]

Prints Markdown; one thread unless stated otherwise, warm, the least processor time of several
runs, taken in turns with fsrs-rs-python. Decks are drawn from a seed.

1. 365 days of 10,000 learned cards at 0.90 with one parameter line.
2. 365 days of a new deck of 7,300 cards, 20 a day, against fsrs-rs, which takes no learned cards
   through its Python package. Without the balance of days, which it leaves to Anki.
3. The whole answer for a preset of 4,000 cards: 30 desired retentions x 50 parameter lines,
   wall-clock time on two threads, without and with 20 new cards a day.
4. The answer that a learner gets for such a preset, from when the log is loaded: until the first
   estimate, and until all draws with their fits are there. In a process that has answered before,
   so that modules and kernels are loaded.

`--band` instead checks whether the band of parameters contains the truth. Learners' memories are
FSRS-6 with parameters drawn from the published population; each has studied 20 new cards a day for
100 to 400 days, answering with the shares of many learners, scheduled at 0.90 by the defaults.
Their reviews give a fit and 50 draws of parameters; each draw is followed through every card's
history and simulated for another year. How often does the 95 % band of reviews a day contain the
average cost under the true parameters, known exactly? The goal is 80 to 97 of 100. With --results
each learner's figures are kept in a file, from which an interrupted run continues.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.advice.workload.estimate import WorkloadQuestion, workload
from srs_eval.advice.workload.presets import REPEATS
from srs_eval.advice.workload.simulator import (
    MODELS,
    Costs,
    Memory,
    SimulatedDeck,
    SimulationSettings,
    draw_memories,
    fit_memory,
    simulate,
)
from srs_eval.advice.workload.today import CardHistories, TodaysCards, compute_memory_state
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, ImportSummary, IntArray, ReviewLog, Rows
from srs_eval.engine.session import LearnerSession
from srs_eval.report.notebook import load
from tools.pretraining.population import draw
from tools.simulated import simulate_learner, write_collection
from tools.simulated.memory import fuzz_interval

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
    question = WorkloadQuestion(new_a_day=20)
    began = time.perf_counter()
    processor_began = time.process_time()
    spent: dict[str, tuple[float, float]] = {}  # by stage; seconds, and processor seconds
    for estimate in workload(log, question=question):
        stage = "all draws" if estimate.has_all_draws else "first estimate"
        seconds = time.perf_counter() - began
        processor = time.process_time() - processor_began
        spent.setdefault(stage, (seconds, processor))
    print(
        f"\n## The answer for {estimate.learned_cards:,} cards and 20 new ones a day: "
        f"{len(estimate.retentions)} x {question.draws}\n"
    )
    print("| until | seconds | processor seconds | goal | of the goal |\n|---|---|---|---|---|")
    for stage, goal in (("first estimate", FIRST_S), ("all draws", WHOLE_S)):
        seconds, processor = spent[stage]
        aim = f"{goal:g} | {seconds / goal:.2f}"
        print(f"| {stage} | {seconds:.2f} | {processor:.2f} | {aim} |")


@dataclass(frozen=True)
class StudiedYear:
    """A learner's reviews of all cards so far (n,) in order, and the true memory behind them."""

    truth: Memory
    log: ReviewLog
    deck: SimulatedDeck  # under the true parameters


def simulate_year(random: np.random.Generator) -> StudiedYear:
    """Simulate a learner who has studied for 100 to 400 days."""
    while True:
        person = draw(random, "FSRS-5")
        if 0.75 <= person.success <= 0.97:
            break
    shapes = random.uniform(0.0, 0.2), random.uniform(0.1, 0.45)
    truth = Memory("FSRS-6", (*person.parameters.tolist(), *shapes))
    w = truth.values
    planned = np.array(MODELS["FSRS-6"].default)
    model = MODELS["FSRS-6"]
    costs = Costs()
    settings = SimulationSettings()
    days = int(random.integers(100, 400))
    size = settings.new_a_day * days
    s, d, believed_s, believed_d = np.ones((4, size))
    due = np.full(size, days + 1)
    last = np.zeros(size, np.int64)
    columns: list[tuple[IntArray, IntArray, FloatArray, IntArray]] = []

    def answer(cards: IntArray, rating: FloatArray, kind: str, day: int) -> None:
        step = getattr(model, kind)
        elapsed = (day - last[cards]).astype(float)
        if kind == "first":
            s[cards], d[cards] = step(rating, w)
            believed_s[cards], believed_d[cards] = step(rating, [*planned, 0.001])
        else:
            old = s[cards], d[cards]
            s[cards], d[cards] = step(old, elapsed, rating, w)
            old = believed_s[cards], believed_d[cards]
            believed_s[cards], believed_d[cards] = step(old, elapsed, rating, [*planned, 0.001])
        seen = np.full(len(cards), -1) if kind == "first" else day - last[cards]
        columns.append((cards, np.full(len(cards), day), rating, seen))
        last[cards] = day

    def take_steps(
        cards: IntArray, rating: FloatArray, needed: IntArray, shares: Any, day: int
    ) -> None:
        passed = np.zeros(len(cards), np.int64)
        for _ in range(5):
            going = (passed < needed) & (rating < 4)
            cards, rating, needed, passed = (x[going] for x in (cards, rating, needed, passed))
            if not len(cards):
                return
            added = np.cumsum(np.array(shares)[rating.astype(int) - 1], axis=1)
            u = random.random(len(cards)) * added[:, -1]
            rating = 1.0 + (u[:, None] >= added).sum(1)
            answer(cards, rating, "same_day", day)
            passed = np.where(rating > 2, passed + 1, np.where(rating == 1, 0, passed))

    for day in range(days):
        cards = np.flatnonzero(due <= day)
        r = model.recall((day - last[cards]).astype(float), (s[cards], d[cards]), w)
        recalled = random.random(len(cards)) < r
        rating = random.choice([2.0, 3.0, 4.0], recalled.sum(), p=costs.review_rating)
        answer(cards[recalled], rating, "success", day)
        again = cards[~recalled]
        answer(again, np.ones(len(again)), "failure", day)
        once = np.ones(len(again), int)
        take_steps(again, np.ones(len(again)), once, costs.relearning_steps, day)
        fresh = np.arange(day * settings.new_a_day, (day + 1) * settings.new_a_day)
        rating = random.choice([1.0, 2.0, 3.0, 4.0], len(fresh), p=costs.first_rating)
        answer(fresh, rating, "first", day)
        take_steps(fresh, rating, np.where(rating > 2, 1, 2), costs.learning_steps, day)
        answered = np.concatenate([cards, fresh])
        # At 0.90 the interval is the stability.
        interval = fuzz_interval(random, np.maximum(believed_s[answered], 1.0))
        due[answered] = day + np.maximum(interval, 1)
    card, day_of, ratings, elapsed = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    seconds = np.where(elapsed > 0, elapsed * 86_400, np.where(elapsed == 0, 600, -1))
    rows = Rows(
        card_id=card,
        day_offset=day_of,
        rating=ratings.astype(np.int64),
        state=np.where(elapsed < 0, 0, 2),
        duration_ms=np.full(len(card), 5000),
        elapsed_days=elapsed,
        elapsed_seconds=seconds,
    )
    deck = SimulatedDeck(np.stack([s, d]), last - days, due - days, new=7300)
    return StudiedYear(truth, ReviewLog(ImportSummary("", "simulated", len(card)), rows=rows), deck)


def replay_states(memories: Sequence[Memory], learner: StudiedYear) -> FloatArray:
    """Return the cards' states after their histories under other parameters (memories, 2, n)."""
    rows = learner.log.rows
    n = len(learner.deck)
    assert rows is not None
    order = np.argsort(rows.card_id, kind="stable")
    card = rows.card_id[order]
    count = np.bincount(card, minlength=n)
    number = np.arange(len(card)) - np.searchsorted(card, card)
    longest = np.argsort(-count, kind="stable")
    rank = np.argsort(longest)
    order = order[np.lexsort((rank[card], number))]
    days = np.maximum(rows.elapsed_days[order], 0).astype(float)
    histories = CardHistories(
        card=longest,
        round_start=np.concatenate(([0], np.cumsum(np.bincount(number)))),
        rating=rows.rating[order].astype(float),
        days=days,
        fraction=days,
        last_day=learner.deck.last_day[longest],
    )
    today = TodaysCards(
        card_id=np.arange(n),
        due_day=learner.deck.due_day,
        interval=learner.deck.due_day - learner.deck.last_day,
        ease=np.full(n, 2.5),
        stored=np.full((2, n), np.nan),
        stored_fsrs7=np.full((2, n), np.nan),
        in_steps=np.zeros(n, np.bool_),
        histories=histories,
        new=learner.deck.new,
        historical_retention=0.9,
    )
    return np.stack([compute_memory_state(today, memory) for memory in memories])


def check_band(task: tuple[int, int]) -> tuple[int, float, float, float]:
    """Return one learner's number of fittable reviews, the truth, and the ends of the band."""
    learner = simulate_year(np.random.default_rng(task))
    trials = LearnerSession(learner.log).trials(Protocol(short=True))
    settings = SimulationSettings()
    costs = Costs()

    def simulate_reviews_a_day(memory: Memory, deck: SimulatedDeck, seed: int) -> float:
        return float(simulate(memory, deck, costs, settings, seed).reviews.mean())

    truth = np.mean(
        [simulate_reviews_a_day(learner.truth, learner.deck, seed) for seed in range(20)]
    )
    assert np.allclose(replay_states([learner.truth], learner)[0], learner.deck.state)
    positions = np.arange(len(trials))
    drawn = [fit_memory(trials, positions), *draw_memories(trials, positions, 50, seed=1)]
    best, *decks = (replace(learner.deck, state=state) for state in replay_states(drawn, learner))
    estimate = np.mean([simulate_reviews_a_day(drawn[0], best, seed) for seed in range(REPEATS)])
    costs_of_draws = [
        simulate_reviews_a_day(memory, deck, seed)
        for seed, (memory, deck) in enumerate(zip(drawn[1:], decks, strict=True))
    ]
    low, middle, high = np.quantile(costs_of_draws, [0.025, 0.5, 0.975])
    return (
        len(trials),
        float(truth),
        float(estimate + low - middle),
        float(estimate + high - middle),
    )


def load_finished(results: Path | None) -> dict[int, tuple[float, ...]]:
    """Load figures by learner of an interrupted run; an incomplete line does not count."""
    figures = {}
    if results is not None and results.exists():
        for line in results.read_text().splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                figures[int(record["learner"])] = tuple(record["figures"])
    return figures


def measure_band(learners: int, jobs: int, results: Path | None) -> None:
    done = {number: row for number, row in load_finished(results).items() if number < learners}
    missing = [number for number in range(learners) if number not in done]
    with ProcessPoolExecutor(jobs) as pool:
        results_of_missing = pool.map(check_band, [(1, number) for number in missing])
        for number, figures in zip(missing, results_of_missing, strict=True):
            done[number] = figures
            count, truth, low, high = figures
            line = f"{count} reviews: truth {truth:.2f}, band {low:.2f} to {high:.2f}"
            print(line, file=sys.stderr, flush=True)
            if results is not None:
                with results.open("a") as file:
                    file.write(json.dumps({"learner": number, "figures": figures}) + "\n")
    table = np.array([done[number] for number in range(learners)])
    count, truth, low, high = table.T
    inside = (low <= truth) & (truth <= high)
    print(
        f"The 95 % band of reviews a day holds the truth for {inside.sum()} of {learners} learners"
    )
    print(f"(too low {np.sum(truth > high)}, too high {np.sum(truth < low)}).")
    print(f"Reviews to fit to: {count.min():.0f} to {count.max():.0f}.")
    width = np.median((high - low) / truth)
    print(f"Half of the bands are narrower than {100 * width:.0f} % of the truth.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few runs, to see that all is in order"
    )
    parser.add_argument("--band", action="store_true", help="whether the band holds the truth")
    parser.add_argument("--learners", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--results", type=Path, help="keep learners' figures here, and go on from it"
    )
    options = parser.parse_args()
    quick = options.quick
    if options.band:
        measure_band(8 if quick else options.learners, options.jobs, options.results)
        return
    print(f"Load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
    measure_one_line(3 if quick else 15)
    compare_with_fsrs_rs(3 if quick else 15)
    measure_answer(2 if quick else 50)
    measure_learner_answer(quick)


if __name__ == "__main__":
    main()
