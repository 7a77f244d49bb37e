"""Measure how often intervals over days contain the truth: of plain means, and of learners.

    python benchmarks/intervals.py [--part means|learners] [--means 4000] [--learners 12]
                                   [--first 0] [--repeats 8] [--jobs 2]

Means: reviews have a mean of 0, noise of their own (standard deviation 0.35, about that of a
difference in log loss between two good models) and the effect of their day: AR(1) over days with
standard deviation 0, 0.05 or 0.3 and phi 0.4 or 0.7. About 50 reviews a day. The program prints the
share of simulated learners whose `mean_interval` contains 0; the goal is 95 %.

Learners: power-law, ACT-R and FSRS-6 memories in turn, with cards that differ and a day's shift of
the logit of recall: AR(1) with phi 0.4 (standard deviation 0.4), 0.9 or 0.97 (0.6). Each learner
lives several times, with other days and other luck. The program prints, with Wilson's 95 % interval
(which takes the repeats of a learner as independent), how often the interval contains

- other lives: the mean over the learner's other lives, with the known probabilities of recall. The
  error is divided by √(1 + 1 / (repeats - 1)), because this mean errs, too;
- same reviews: the expectation on the same reviews with the same predictions, over all days that
  might have been (the known probabilities without the day's shift, averaged over its distribution).

Both for the differences in log loss of five models from FSRS-6, for the share recalled, for
recalled minus expected by the current parameters (FSRS-6's defaults), and for FSRS-5's log loss as
a share of the average's, from which "better than N of 100" follows. "Before" is the interval of
`mean_interval` without the learner's persistence. The last columns are how much wider the interval
is, and how often it is wider and a person is told so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from _tables import format_wilson

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.result import Result, review_losses
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import _EPSILON, log_losses
from srs_eval.models.configurations import resolve_configurations
from srs_eval.stats.intervals import mean_interval, ratio_interval
from srs_eval.stats.persistence import Persistence, estimate_persistence
from tools.simulated.learner import simulate_learner
from tools.simulated.worlds import TRUTHS, World, draw_character

DAYS = (20, 30, 60, 100, 300, 1_000)
EFFECTS = ((0.0, 0.0), (0.05, 0.4), (0.3, 0.4), (0.3, 0.7))  # standard deviation, phi
CHANCE = 0.35
REVIEWS_A_DAY = 50

PERSISTENT_DAYS = ((0.4, 0.4), (0.9, 0.6), (0.97, 0.6))  # phi, standard deviation
ANSWERS = (2_600, 8_000)  # of which about 1,150 and 4,100 are evaluated
REFERENCE = "FSRS-6"
MODELS = ("FSRS-6-recency", "FSRS-6-dry-run", "FSRS-5", "DASH", "AVG")
IN_FORCE = "FSRS-6-dry-run"
RECALL = "recall"
SURPLUS = "recalled minus expected"
RATIO = "FSRS-5 / AVG"


# Plain means


def measure_coverage(days: int, effect: float, phi: float, learners: int) -> float:
    random = np.random.default_rng(0)
    hits = 0
    for _ in range(learners):
        day_effects = random.normal(0, effect, days)
        for k in range(1, days):
            day_effects[k] = phi * day_effects[k - 1] + np.sqrt(1 - phi**2) * day_effects[k]
        day = np.repeat(np.arange(days), np.maximum(random.poisson(REVIEWS_A_DAY, days), 1))
        interval = mean_interval(day_effects[day] + random.normal(0, CHANCE, len(day)), day)
        hits += interval.low <= 0 <= interval.high
    return hits / learners


def print_means(learners: int) -> None:
    print("| days | " + " | ".join(f"effect {sd}, φ {phi}" for sd, phi in EFFECTS) + " |")
    print("|" + "---|" * (len(EFFECTS) + 1))
    for days in DAYS:
        shares = (measure_coverage(days, sd, phi, learners) for sd, phi in EFFECTS)
        print(f"| {days:,} | " + " | ".join(f"{share:.0%}" for share in shares) + " |", flush=True)


# Learners


@dataclass(frozen=True)
class Estimate:
    """One figure of one life, and what it would be on average."""

    estimate: float
    half_width: float
    half_width_before: float
    expected: float  # on these reviews, with the days as they were
    expected_on_other_days: float


@dataclass(frozen=True)
class Life:
    learner: int
    reviews: int
    days: int
    persistence: Persistence
    estimates: Mapping[str, Estimate]


def live(task: tuple[int, int, float, float, int]) -> Life:
    """Simulate one life of a learner, and evaluate all models."""
    learner, repeat, phi, sd, answers = task
    world = World(
        truth=TRUTHS[learner % len(TRUTHS)],
        day_sd=sd,
        day_persistence=phi,
        card_shift=0.3,
        card_speed=0.2,
        new_per_day=(2, 6),
    )
    character = draw_character(world, np.random.default_rng(learner))
    seed = 10_000 + 100 * learner + repeat
    simulated = simulate_learner(seed, answers, incidents=False, character=character)
    session = LearnerSession(simulated.log())
    results = {}
    for name in (REFERENCE, *MODELS):
        results[name] = session.run(resolve_configurations(name)[0])
    reference = results[REFERENCE]
    selection = session.selection(resolve_configurations(REFERENCE)[0].protocol)
    entry = selection.entry_index[reference.review_th - 1]
    recall = simulated.recall[entry]
    usual = simulated.average_recall_over_days(sd)[entry]
    persistence = estimate_persistence(reference.y, reference.p, reference.day)
    y = reference.y
    in_force = results[IN_FORCE].p
    estimates = {}
    for name in MODELS:
        p = results[name].p
        estimates[name] = estimate(
            log_losses(y, p) - log_losses(y, reference.p),
            [expect_loss(r, p) - expect_loss(r, reference.p) for r in (recall, usual)],
            reference.day,
            persistence,
        )
    estimates[RECALL] = estimate(y, [recall, usual], reference.day, persistence)
    estimates[SURPLUS] = estimate(
        y - in_force, [recall - in_force, usual - in_force], reference.day, persistence
    )
    estimates[RATIO] = estimate_ratio(
        results["FSRS-5"], results["AVG"], [recall, usual], persistence
    )
    return Life(learner, len(y), len(np.unique(reference.day)), persistence, estimates)


def expect_loss(recall: FloatArray, p: FloatArray) -> FloatArray:
    """Return the expected log loss of predictions for reviews with these probabilities."""
    p = np.clip(p, _EPSILON, 1 - _EPSILON)
    result: FloatArray = -(recall * np.log(p) + (1 - recall) * np.log1p(-p))
    return result


def estimate(
    values: FloatArray, expected: Sequence[FloatArray], day: IntArray, persistence: Persistence
) -> Estimate:
    interval = mean_interval(values, day, persistence)
    before = mean_interval(values, day)
    now, usual = (float(each.mean()) for each in expected)
    return Estimate(interval.estimate, interval.half_width, before.half_width, now, usual)


def estimate_ratio(
    result: Result, average: Result, recalls: Sequence[FloatArray], persistence: Persistence
) -> Estimate:
    """Estimate a log loss as a share of the average's."""
    losses = review_losses(result)
    average_losses = review_losses(average)
    interval = ratio_interval(losses, average_losses, result.day, persistence)
    before = ratio_interval(losses, average_losses, result.day)
    now, usual = (
        float(expect_loss(recall, result.p).mean() / expect_loss(recall, average.p).mean())
        for recall in recalls
    )
    return Estimate(interval.estimate, interval.half_width, before.half_width, now, usual)


def print_learners(first: int, learners: int, repeats: int, jobs: int) -> None:
    for answers in ANSWERS:
        for phi, sd in PERSISTENT_DAYS:
            tasks = []
            for learner in range(first, first + learners):
                for repeat in range(repeats):
                    tasks.append((learner, repeat, phi, sd, answers))
            with ProcessPoolExecutor(jobs) as pool:
                print_lives(phi, sd, list(pool.map(live, tasks, chunksize=4)), repeats)


def print_lives(phi: float, sd: float, lives: Sequence[Life], repeats: int) -> None:
    reviews = np.mean([life.reviews for life in lives])
    days = np.mean([life.days for life in lives])
    wider = sum(life.persistence.widens for life in lives)
    clear = sum(life.persistence.is_clear for life in lives)
    print(
        f"\nφ {phi}, standard deviation {sd}: {reviews:,.0f} reviews on {days:.0f} days;", end=" "
    )
    print(f"wider {format_wilson(wider, len(lives))}, told {format_wilson(clear, len(lives))}\n")
    print("| figure | other lives: before | now | same reviews: before | now | width x |")
    print("|---|---|---|---|---|---|")
    learner = np.array([life.learner for life in lives])
    for name in (*MODELS, RECALL, SURPLUS, RATIO):
        figures = [life.estimates[name] for life in lives]
        value = np.array([figure.estimate for figure in figures])
        expected = np.array([figure.expected for figure in figures])
        usual = np.array([figure.expected_on_other_days for figure in figures])
        width = np.array([figure.half_width for figure in figures])
        before = np.array([figure.half_width_before for figure in figures])
        total = np.array([expected[learner == number].sum() for number in learner])
        of_others = (total - expected) / (repeats - 1)
        error_to_others = np.abs(value - of_others) / np.sqrt(1 + 1 / (repeats - 1))
        error_to_usual = np.abs(value - usual)
        cells = [name]
        for error in (error_to_others, error_to_usual):
            for half_width in (before, width):
                cells.append(format_wilson(int((error <= half_width).sum()), len(lives)))
        ratio = width[before > 0] / before[before > 0]
        cells.append(f"{np.median(ratio):.2f} (mean {ratio.mean():.2f})")
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("means", "learners"), help="only this part")
    parser.add_argument("--means", type=int, default=4_000, help="means in each situation")
    parser.add_argument("--learners", type=int, default=12, help="learners in each situation")
    parser.add_argument("--first", type=int, default=0, help="seed of the first learner")
    parser.add_argument("--repeats", type=int, default=8, help="lives of each learner")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start = time.time()
    if options.part != "learners":
        print_means(options.means)
    if options.part != "means":
        print_learners(options.first, options.learners, options.repeats, options.jobs)
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
