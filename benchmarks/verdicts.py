"""Do the verdicts on presets hold? Simulated pairs of presets whose truth is known.

    python benchmarks/verdicts.py [--quick] [--jobs 2] [--pairs 200] [--seed 1]

Each learner has two presets, 6 new cards a day in each. Memories are FSRS-6 with parameters
drawn from the published population (success 0.75 to 0.97), the second preset's moved away from the
first's along a random direction until parameters of its own save the wished log loss on average
over both (0: one shared memory). Cards differ as the project's simulated learners' do; recall on
the logit scale is better or worse by the day, AR(1) with phi 0.4 and standard deviation 0.4 or 0.9,
half of the variance common to both presets; 2-12 % of days are skipped, at most 250 answers are
given a day; cards are scheduled by FSRS-6 at 0.90 with parameters that are not the truth.

Printed are, each with its standard error over pairs:

- how often the interval of (split - shared) holds the mean over repetitions of the same learner;
- how often "split", "keep shared" and "can't tell" are said, and how often pooled parameters are
  said to be better than shared ones;
- log loss on the reviews that follow, after fitting on all before: split and pooled minus shared.

`--quick` has few pairs: enough to see that all is in order, not to prove the rates.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from srs_eval.comparison import Interval, verdicts
from srs_eval.presets.candidates import POOLED, Learner
from srs_eval.presets.pooling import pooled_fits
from srs_eval.presets.split import SHARED, SPLIT, decide
from srs_eval.pretraining.population import draw
from srs_eval.protocol import Fold
from srs_eval.reviews import Cards, Deck, FloatArray, ImportReceipt, Preset, ReviewLog, Rows
from srs_eval.simulation.memory import (
    DEFAULT_PARAMETERS,
    SPREAD,
    first_state,
    fuzzed,
    interval_for,
    next_state,
    retrievability,
)

NEW_A_DAY, MOST_A_DAY, RETENTION, PHI = 6, 250, 0.90, 0.4
STRENGTH, HARDNESS = 0.35, 0.8  # how much cards differ (srs_eval.simulation.learner)
LONGEST_DAYS = 5_000
LONG_HISTORY, HALVINGS = 16_000, 6  # to find parameters that differ as wished


@dataclass(frozen=True)
class Cell:
    """One situation."""

    reviews: int  # of later days in each preset, about
    advantage: float  # of parameters of its own, in log loss; 0: one memory
    day_effect: float
    repeats: int = 1  # of the same learner with other chances, for the coverage
    future: int = 0  # reviews that follow


@dataclass(frozen=True)
class Outcome:
    decision: str
    pooled: str
    intervals: tuple[Interval, ...]  # (split - shared), one for each repetition
    split_later: float  # log loss on the reviews that follow, minus shared parameters'
    pooled_later: float


def pair(random: np.random.Generator, cell: Cell) -> FloatArray:
    """True parameters of both presets (2, 21)."""
    while True:
        drawn = draw(random, "FSRS-5")
        if 0.75 <= drawn.success <= 0.97:
            break
    w = np.array([*drawn.parameters, random.uniform(0.0, 0.2), random.uniform(0.1, 0.45)])
    if not cell.advantage:
        return np.stack([w, w])
    direction = random.standard_normal(21) * SPREAD
    direction[19] = 0.0
    low, high = 0.0, 4.0
    seed = int(random.integers(1 << 30))
    for _ in range(HALVINGS):
        size = (low + high) / 2
        if _advantage(w, size * direction, seed) < cell.advantage:
            low = size
        else:
            high = size
    return _apart(w, (low + high) / 2 * direction)


def _apart(w: FloatArray, step: FloatArray) -> FloatArray:
    moved = np.stack([w * np.exp(step / 2), w * np.exp(-step / 2)])
    moved[:, 4] = np.clip(moved[:, 4], 1, 10)
    moved[:, 20] = np.clip(moved[:, 20], 0.1, 0.8)
    return moved


def _advantage(w: FloatArray, step: FloatArray, seed: int) -> float:
    """What fits of both presets' own save against a shared one where reviews abound.

    Fitted on the first half of a long history without day effects, judged on the second.
    """
    random = np.random.default_rng(seed)
    learner = Learner.of(simulate(random, _apart(w, step), LONG_HISTORY, 0.0))
    count = len(learner.trials) // 2
    fold = Fold(np.arange(count), np.arange(count, len(learner.trials)))
    losses = [learner.losses(learner.predict(each, [fold]), fold.test) for each in (SHARED, SPLIT)]
    return float((losses[0] - losses[1]).mean())


def simulate(
    random: np.random.Generator, truth: FloatArray, reviews: int, day_effect: float
) -> ReviewLog:
    """A learner with two presets and at least so many reviews of later days in both together."""
    size = 2 * NEW_A_DAY * LONGEST_DAYS
    preset = np.arange(size) % 2
    w = truth.T[:, preset]
    strength = np.exp(STRENGTH * random.standard_normal(size))
    hardness = HARDNESS * random.standard_normal(size)
    stored = np.array(DEFAULT_PARAMETERS) * np.exp(0.5 * SPREAD * random.standard_normal(21))
    believed = np.repeat(stored[:, None], size, 1)
    s, d, bs, bd = np.zeros((4, size))
    due, last = np.full(size, np.iinfo(np.int64).max), np.zeros(size, np.int64)
    first = np.array([0.3, 0.08, 0.5, 0.12])
    skips = random.uniform(0.02, 0.12)
    effect = random.standard_normal(3) * day_effect * math.sqrt(0.5)
    columns: list[list[np.ndarray]] = [[], [], [], []]  # card, day, rating, elapsed days
    done = begun = 0
    for day in range(LONGEST_DAYS):
        shock = random.standard_normal(3) * day_effect * math.sqrt(0.5 * (1 - PHI**2))
        effect = PHI * effect + shock
        if random.random() < skips:
            continue
        cards = np.flatnonzero(due[:begun] <= day)[: MOST_A_DAY - 2 * NEW_A_DAY]
        elapsed = day - last[cards]
        r = retrievability(w[:, cards], s[cards] * strength[cards], elapsed.astype(float))
        logit = np.log(r / (1 - r)) + effect[2] + effect[preset[cards]]
        forgotten = random.random(len(cards)) >= 1 / (1 + np.exp(-logit))
        rating = np.where(forgotten, 1, random.choice([2, 3, 4], len(cards), p=[0.1, 0.8, 0.1]))
        fresh = np.arange(begun, begun + 2 * NEW_A_DAY)
        begun += len(fresh)
        start = random.choice([1, 2, 3, 4], len(fresh), p=first)
        moved = np.clip(d[cards] + hardness[cards], 1, 10)
        s[cards], after = next_state(w[:, cards], s[cards], moved, rating, elapsed.astype(float))
        d[cards] = np.clip(after - hardness[cards], 1, 10)
        bs[cards], bd[cards] = next_state(
            believed[:, cards], bs[cards], bd[cards], rating, elapsed.astype(float)
        )
        s[fresh], d[fresh] = first_state(w[:, fresh], start)
        bs[fresh], bd[fresh] = first_state(believed[:, fresh], start)
        shown = np.concatenate([cards, fresh])
        wait = interval_for(believed[:, shown], bs[shown], np.full(len(shown), RETENTION))
        due[shown] = day + np.maximum(fuzzed(random, np.maximum(wait, 1)), 1)
        last[shown] = day
        for column, values in zip(
            columns,
            (
                shown,
                np.full(len(shown), day),
                np.concatenate([rating, start]),
                np.concatenate([elapsed, np.full(len(fresh), -1)]),
            ),
            strict=True,
        ):
            column.append(values)
        done += len(cards)
        if done >= reviews:
            break
    card, days, ratings, elapsed_days = (np.concatenate(column) for column in columns)
    known = np.unique(card)
    return ReviewLog(
        ImportReceipt("", "simulated", len(card)),
        rows=Rows(
            card_id=card,
            day_offset=days,
            rating=ratings,
            state=np.where(elapsed_days < 0, 0, 2),
            duration_ms=np.full(len(card), 5_000),
            elapsed_days=elapsed_days,
            elapsed_seconds=np.where(elapsed_days < 0, -1, elapsed_days * 86_400),
        ),
        cards=Cards(known, known, known % 2, np.zeros(len(known), np.bool_)),
        decks={0: Deck(0, "A", 0), 1: Deck(1, "B", 1)},
        presets={0: Preset(0, "A"), 1: Preset(1, "B")},
    )


def judge(task: tuple[int, int, Cell]) -> Outcome:
    """One pair of presets in one situation."""
    seed, number, cell = task
    random = np.random.default_rng([seed, number])
    truth = pair(random, cell)
    intervals: list[Interval] = []
    decision = pooled = ""
    split_later = pooled_later = math.nan
    for repeat in range(cell.repeats):
        wanted = 2 * cell.reviews + (cell.future if repeat == 0 else 0)
        chances = np.random.default_rng([seed, number, repeat])
        whole = Learner.of(simulate(chances, truth, wanted, cell.day_effect))
        learner = _first(whole, 2 * cell.reviews)
        shared = learner.held_out_losses(SHARED)
        index = learner.trials.test_index
        intervals.append(learner.interval(learner.held_out_losses(SPLIT) - shared, index))
        if repeat == 0:
            both = {
                "split": intervals[0],
                "pooled": learner.interval(learner.held_out_losses(POOLED) - shared, index),
            }
            says = verdicts(both)
            decision = decide(both["split"], says["split"], 0.002)
            pooled = decide(both["pooled"], says["pooled"], 0.002)
            if cell.future:
                split_later, pooled_later = _later(whole, 2 * cell.reviews)
    return Outcome(decision, pooled, tuple(intervals), split_later, pooled_later)


def _first(learner: Learner, count: int) -> Learner:
    """The same learner when there were so many reviews of later days."""
    rows = learner.log.rows
    if count >= len(learner.trials) or rows is None:
        return learner
    end = int(learner.trials.review_th[count]) - 1
    early = Rows(
        **{k: None if column is None else column[:end] for k, column in rows.__dict__.items()}
    )
    log = ReviewLog(
        learner.log.receipt,
        rows=early,
        cards=learner.log.cards,
        decks=learner.log.decks,
        presets=learner.log.presets,
    )
    return Learner.of(log)


def _later(whole: Learner, count: int) -> tuple[float, float]:
    """Log loss after the first `count` reviews, split and pooled minus shared."""
    index = np.arange(count, len(whole.trials))
    fold = Fold(np.arange(count), index)
    shared = whole.losses(whole.predict(SHARED, [fold]), index)
    split = whole.losses(whole.predict(SPLIT, [fold]), index)
    partition = whole.trials.partition
    fits = pooled_fits(
        whole.trials, {group: fold.train[partition[:count] == group] for group in (0, 1)}
    )
    p = np.empty(len(whole.trials))
    for group in (0, 1):
        mine = index[partition[index] == group]
        p[mine] = whole.with_parameters(fits.by_group[group], mine)
    pooled = whole.losses(p[index], index)
    return float((split - shared).mean()), float((pooled - shared).mean())


def covered(outcomes: list[Outcome]) -> FloatArray:
    """For each learner, the share of repetitions whose interval holds the others' mean."""
    shares = []
    for outcome in outcomes:
        estimates = np.array([each.estimate for each in outcome.intervals])
        hits = [
            each.low <= (estimates.sum() - each.estimate) / (len(estimates) - 1) <= each.high
            for each in outcome.intervals
        ]
        shares.append(np.mean(hits))
    return np.array(shares)


def rate(hits: list[bool]) -> str:
    share = float(np.mean(hits))
    error = math.sqrt(max(share * (1 - share), 0.25 / len(hits)) / len(hits))
    return f"{100 * share:5.1f} % (SE {100 * error:.1f})"


def mean(values: list[float]) -> str:
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{np.mean(values):+.4f} (SE {error:.4f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few pairs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=200, help="in each situation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pairs = 12 if options.quick else options.pairs
    sizes = (1_500, 3_000) if options.quick else (500, 1_500, 3_000, 6_000, 20_000)
    learners, repeats = (6, 6) if options.quick else (20, 20)
    future = 1_500 if options.quick else 6_000
    start = time.time()
    with ProcessPoolExecutor(options.jobs) as pool:
        print("Coverage of the interval of (split - shared), in each preset so many reviews")
        for effect in (0.4,) if options.quick else (0.4, 0.9):
            for size in sizes[:1] if options.quick else (1_500, 6_000):
                cell = Cell(size, 0.0, effect, repeats=repeats)
                tasks = [(options.seed, 10_000 + k, cell) for k in range(learners)]
                shares = covered(list(pool.map(judge, tasks)))
                error = shares.std(ddof=1) / math.sqrt(len(shares))
                print(
                    f"  {size:6,} reviews, day effect {effect}: {100 * shares.mean():.1f} % "
                    f"(SE {100 * error:.1f})",
                    flush=True,
                )
        for advantage in (0.0, 0.01) if options.quick else (0.0, 0.003, 0.005, 0.01, 0.02):
            print(f"Parameters of its own save {advantage}, day effect 0.4")
            for size in sizes:
                count = max(pairs, 600) if size == 6_000 and not advantage else pairs
                cell = Cell(size, advantage, 0.4, future=future)
                outcomes = list(pool.map(judge, [(options.seed, k, cell) for k in range(count)]))
                decisions = [each.decision for each in outcomes]
                print(f"  {size:6,} reviews in each preset, {count} pairs")
                for word in ("split", "keep shared", "can't tell"):
                    print(f"    {word:12} {rate([each == word for each in decisions])}")
                pooled = [each.pooled for each in outcomes]
                print(f"    pooled better {rate([each == 'split' for each in pooled])}")
                print(f"    pooled shared {rate([each == 'keep shared' for each in pooled])}")
                print(f"    later, split - shared:  {mean([o.split_later for o in outcomes])}")
                print(
                    f"    later, pooled - shared: {mean([o.pooled_later for o in outcomes])}",
                    flush=True,
                )
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
