"""Measure how often the interval of a mean contains the truth, by the number of days.

    python benchmarks/intervals.py [--learners 4000]

Reviews have a mean of 0, noise of their own (standard deviation 0.35, about that of a difference
in log loss between two good models) and the effect of their day: AR(1) over days with standard
deviation 0, 0.05 or 0.3 and phi 0.4 or 0.7. About 50 reviews a day. The program prints the share of
simulated learners whose `mean_interval` contains 0; the goal is 95 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from srs_eval.stats.intervals import mean_interval

DAYS = (20, 30, 60, 100, 300, 1_000)
EFFECTS = ((0.0, 0.0), (0.05, 0.4), (0.3, 0.4), (0.3, 0.7))  # standard deviation, phi
CHANCE = 0.35
REVIEWS_A_DAY = 50


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--learners", type=int, default=4_000, help="in each situation")
    options = parser.parse_args()
    print("| days | " + " | ".join(f"effect {sd}, φ {phi}" for sd, phi in EFFECTS) + " |")
    print("|" + "---|" * (len(EFFECTS) + 1))
    for days in DAYS:
        shares = (measure_coverage(days, sd, phi, options.learners) for sd, phi in EFFECTS)
        print(f"| {days:,} | " + " | ".join(f"{share:.0%}" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main()
