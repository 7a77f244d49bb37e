"""Check what is said of "Ignore cards reviewed before" on simulated learners of known truth.

    python benchmarks/ignore_dates.py [--learners 20] [--jobs 2] [--worlds NAME] [--quick]

Half of the learners of each world have about 3,000 reviews of later days, half about 8,000, in
somewhat over a year; 3,000 answers follow that the program does not see. What changes, changes
after a third of the answers: the memory, which is another learner's from then on for old and new
cards (or differs three times as much), or the habit of pressing Hard for 60 or 95 % of the lapses,
which ends.

Printed is how often a date is named, and how often it is said that one may be better ("maybe").
Beside it stands the true gain of these dates on the
answers that follow: the expected log loss, by the known probability of recall, with parameters
fitted to all cards minus that with parameters fitted without the older ones. The last columns are
the gain of the best date that was tried, named or not, and the share of learners for whom that is
above 0.002.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from _tables import format_wilson

from benchmarks.advice import cut_log
from srs_eval.advice import findings as f
from srs_eval.advice import ignore_before
from srs_eval.advice.candidates import Learner
from srs_eval.data.days import find_midnight_s
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold
from srs_eval.metrics import log_losses
from tools.simulated.learner import collect_learner, study_days
from tools.simulated.memory import SPREAD, Fsrs6
from tools.simulated.studying import Simulation
from tools.simulated.worlds import World, draw_character

_SIZES = (6_000, 14_000)  # answers with about so many reviews of later days: half of them
_COMING = 3_000  # answers
_DAYS = 450


@dataclass(frozen=True)
class Case:
    """A world, and what changes after a third of the answers."""

    world: World
    change: Callable[[Simulation], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """What is said about one learner, and the true gains of dates on later answers (nats)."""

    conclusion: str
    gain: float  # of the date that is named or may be better; 0 if there is none
    best_gain: float  # of the best one tried


def change_memory(sim: Simulation, size: float = 1.0) -> None:
    """Move the memory by as much as learners differ, or `size` times that."""
    assert isinstance(sim.memory, Fsrs6)
    w = sim.memory.w * np.exp(size * SPREAD[:, None] * sim.random.standard_normal((21, 1)))
    w[4] = np.clip(w[4], 1, 10)
    w[20] = np.clip(w[20], 0.1, 0.8)
    sim.memory.w = w


def end_misuse(sim: Simulation) -> None:
    sim.habits = replace(sim.habits, hard_for_lapses=0.0)


_PLAIN = World()
CASES = {
    "nothing changes": Case(_PLAIN),
    "nothing changes, power law": Case(World(truth="power law")),
    "nothing changes, ACT-R": Case(World(truth="ACT-R")),
    "nothing changes, phi 0.9": Case(World(day_sd=0.6, day_persistence=0.9)),
    "memory changes": Case(_PLAIN, change_memory),
    "memory changes a lot": Case(_PLAIN, partial(change_memory, size=3.0)),
    "Hard for 60 % of lapses ends": Case(World(hard_for_lapses=0.6), end_misuse),
    "Hard for 95 % of lapses ends": Case(World(hard_for_lapses=0.95), end_misuse),
}


def simulate(case: Case, seed: int) -> tuple[Learner, FloatArray, int]:
    """Return a learner, the true recall of each review, and how many reviews are seen."""
    seen_answers = _SIZES[seed % 2]
    reviews = seen_answers + _COMING
    random = np.random.default_rng(seed)
    character = draw_character(case.world, random)
    sim = Simulation(random, reviews, character)
    plan = [] if case.change is None else [(seen_answers // 3, case.change)]
    new_per_day = round(reviews / _DAYS / 5)  # a card has about five answers
    study_days(sim, max(new_per_day, 2), reviews=reviews, plan=plan)
    simulated = collect_learner(sim, seed)
    learner = Learner.of(simulated.log())
    seen = int((learner.entry_index < seen_answers).sum())
    return learner, simulated.recall[learner.entry_index], seen


def evaluate(task: tuple[str, int]) -> Outcome:
    """Return what is said of a learner's reviews so far, and what each date gains later."""
    name, seed = task
    whole, recall, seen = simulate(CASES[name], seed)
    learner = Learner.of(cut_log(whole.log, whole, seen))
    (finding,) = ignore_before.assess_ignore_dates(learner, list(learner.groups))
    evidence = f.get_evidence(finding, f.IgnoreBefore)
    coming = np.arange(seen, len(whole.trials))
    started_s = ignore_before._find_learning_starts(whole)

    def expected_loss(train: IntArray) -> float:
        p = whole.predict(f.RECENCY, [Fold(train=train, test=coming)])
        losses = recall[coming] * log_losses(np.ones(len(p)), p)
        losses += (1 - recall[coming]) * log_losses(np.zeros(len(p)), p)
        return float(losses.mean())

    earlier = np.arange(seen)
    without = expected_loss(earlier)
    gains = {}
    for candidate in evidence.dates:
        is_left = started_s[earlier] >= find_midnight_s(candidate.date)
        gains[candidate.date] = without - expected_loss(earlier[is_left])
    gain = 0.0 if evidence.best is None else gains[evidence.best]
    return Outcome(evidence.conclusion, gain, max(gains.values(), default=0.0))


def print_outcomes(name: str, outcomes: list[Outcome]) -> None:
    total = len(outcomes)
    by_conclusion = {
        conclusion: [outcome for outcome in outcomes if outcome.conclusion == conclusion]
        for conclusion in ("date", "maybe")
    }
    named = [*by_conclusion["date"], *by_conclusion["maybe"]]
    helped = sum(outcome.gain > 0 for outcome in named)
    missed = sum(outcome.best_gain > EQUIVALENCE_MARGIN for outcome in outcomes)
    gain = f"{np.mean([outcome.gain for outcome in named]):+.4f}" if named else "–"
    best = np.mean([outcome.best_gain for outcome in outcomes])
    cells = (
        name,
        *(format_wilson(len(rows), total) for rows in by_conclusion.values()),
        format_wilson(helped, len(named)),
        gain,
        f"{best:+.4f}",
        format_wilson(missed, total),
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", type=int, default=20, help="of each world")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worlds", help="only those whose name has this in it", default="")
    parser.add_argument("--quick", action="store_true", help="two learners of each world")
    options = parser.parse_args()
    learners = 2 if options.quick else options.learners
    start = time.time()
    print("| world | a date | maybe | it helps | gain | gain of the best date | above 0.002 |")
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in CASES:
            if options.worlds not in name:
                continue
            tasks = [(name, seed) for seed in range(learners)]
            print_outcomes(name, list(pool.map(evaluate, tasks)))
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
