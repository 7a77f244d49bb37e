"""Try what `compare --question fsrs-7` says: on real people, on simulated ones, and its speed.

    python benchmarks/fsrs7_switch.py [--real FOLDER] [--simulated 30] [--answers 130000]

reads every history in --real (or the environment variable SRS_EVAL_REAL). For each: log loss of
optimized FSRS-7 minus that of FSRS-6, the chance by the first half of the held-out reviews that it
predicts better, the same difference on the second half, minutes at equal memory as a multiple of
FSRS-6's if memory follows FSRS-7 and if it follows FSRS-6, and cards that would come back only
after ten years.

Then the verdicts on simulated learners, whose memory is FSRS-6: FSRS-7 cannot be better by more
than chance.

Then seconds until the answer about a collection of a simulated learner with --answers answers, in a
process whose kernels are loaded, on as many threads as there are cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import fsrs7_switch, population
from srs_eval.advice.candidates import ALL_REVIEWS_PROTOCOL, Learner, can_evaluate_by_preset
from srs_eval.anki_import import load_log
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import ReviewLog
from srs_eval.stats.intervals import Interval
from tools.simulated import simulate_learner, write_collection

_SIMULATED_ANSWERS = 6_000
_GOAL_S = 5.0  # for cards that move and come due, 10,000 of them


@dataclass(frozen=True)
class Trial:
    """What the question says about one person, and what came of it on the second half."""

    reviews: int
    difference: Interval
    chance: float  # by the first half of the held-out reviews
    second_half: float  # difference in log loss
    switch: f.Fsrs7Switch


def make_learner(log: ReviewLog) -> Learner:
    if can_evaluate_by_preset(log):
        return Learner.of(log)
    return Learner.of(log, None, ALL_REVIEWS_PROTOCOL)


def try_person(log: ReviewLog) -> Trial:
    learner = make_learner(log)
    index = learner.trials.test_index
    losses = learner.held_out_losses(f.FSRS_7) - learner.held_out_losses(f.RECENCY)
    half = len(index) // 2
    first = learner.interval(losses[:half], index[:half])
    belief = population.compute_belief(first, population.fsrs7_prior(half))
    finding = next(fsrs7_switch.assess_switch(learner, list(learner.groups)))
    return Trial(
        reviews=len(index),
        difference=learner.interval(losses, index),
        chance=belief.probability,
        second_half=float(losses[half:].mean()),
        switch=f.get_evidence(finding, f.Fsrs7Switch),
    )


def format_ratio(switch: f.Fsrs7Switch, memory: str) -> str:
    for row in switch.minutes:
        if row.schedule == f.BY_FSRS_6 and row.memory == memory and row.change is not None:
            assert row.extra_minutes is not None
            low, high = (
                1 + end / row.minutes for end in (row.extra_minutes.low, row.extra_minutes.high)
            )
            return f"{1 + row.change:.2f} ({low:.2f} to {high:.2f})"
    return ""


def print_people(folder: Path) -> None:
    print(
        "| reviews | FSRS-7 minus FSRS-6 | verdict | chance by half | second half "
        "| minutes, memory FSRS-7 | FSRS-6 | cards | after ten years | health checks |"
    )
    print(f"|{'---|' * 10}")
    trials = []
    for path in sorted(folder.iterdir()):
        try:
            trial = try_person(load_log(path))
        except NotEnoughData:
            continue
        trials.append(trial)
        switch = trial.switch
        half_width = trial.difference.half_width
        moves = switch.moves
        checks = ", ".join("passes" if check.passed else "fails" for check in switch.checks)
        print(
            f"| {trial.reviews:,} | {trial.difference.estimate:+.4f} ± {half_width:.4f} "
            f"| {switch.conclusion} | {trial.chance:.2f} | {trial.second_half:+.4f} "
            f"| {format_ratio(switch, f.BY_FSRS_7)} | {format_ratio(switch, f.BY_FSRS_6)} "
            f"| {moves.cards if moves else ''} | {switch.cards_beyond_ten_years if moves else ''} "
            f"| {checks} |"
        )
    better = sum(trial.difference.estimate < 0 for trial in trials)
    mean = np.mean([trial.difference.estimate for trial in trials])
    chances = np.array([trial.chance for trial in trials])
    came_true = np.array([trial.second_half < 0 for trial in trials])
    print(f"\n{len(trials)} people: better for {better}, by {-mean:.4f} on average.")
    print(f"Chance by half: {chances.mean():.2f} on average; true for {came_true.sum()}.")


def print_simulated(count: int) -> None:
    verdicts: Counter[str] = Counter()
    differences = []
    chances = []
    for seed in range(1, count + 1):
        learner = make_learner(simulate_learner(seed, _SIMULATED_ANSWERS).log())
        finding = next(fsrs7_switch.assess_switch(learner, list(learner.groups)))
        verdicts[finding.conclusion] += 1
        if finding.interval is not None and finding.probability is not None:
            differences.append(finding.interval.estimate)
            chances.append(finding.probability)
    told = ", ".join(f"{verdict} {number}" for verdict, number in verdicts.most_common())
    print(
        f"\n{count} simulated learners with an FSRS-6 memory: {told}; FSRS-7 minus FSRS-6 "
        f"{np.mean(differences):+.4f} on average, the chance {np.mean(chances):.2f}."
    )


def print_speed(answers: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "collection.anki2"
        write_collection(simulate_learner(5, answers, incidents=False), path)
        log = load_log(path)
    make = Learner.of
    learner = make(log)
    list(fsrs7_switch.assess_switch(learner, list(learner.groups)))  # loads kernels

    def measure(answer: Callable[[Learner], object]) -> float:
        learner = make(log)
        begin = time.perf_counter()
        answer(learner)
        return time.perf_counter() - begin

    groups = list(learner.groups)
    cards = fsrs7_switch._reschedule_all(learner, groups)
    count = sum(len(some.last_day) for some in cards if not isinstance(some, str))
    moving = measure(lambda learner: fsrs7_switch._reschedule_all(learner, groups))
    minutes = measure(fsrs7_switch.estimate_minutes)
    whole = measure(lambda learner: list(fsrs7_switch.assess_switch(learner, groups)))
    print(
        f"\n{count:,} cards in review, {len(learner.trials):,} reviews of later days: {moving:.1f} "
        f"s for fitting FSRS-7 and for cards that move and come due (goal: {_GOAL_S:.0f}), "
        f"{minutes:.1f} s for minutes, {whole:.1f} s for the whole answer."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="try the answers about FSRS-7")
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--simulated", type=int, default=30)
    parser.add_argument("--answers", type=int, default=130_000)
    options = parser.parse_args()
    if options.real is not None:
        print_people(Path(options.real))
    if options.simulated:
        print_simulated(options.simulated)
    if options.answers:
        print_speed(options.answers)


if __name__ == "__main__":
    main()
