"""Check the causes of a shortfall in pane 2 on simulated learners whose truth is known.

    python benchmarks/causes.py [--learners 40] [--jobs 2] [--quick]

Each learner has one preset at desired retention 0.90 and gives 2,000 to 6,000 answers. Cards differ
by 0.3 on the logit scale, and recall is better or worse by the day (AR(1), standard deviation 0.4,
phi 0.4). Memories are FSRS-6 or ACT-R (tools/simulated/worlds.py). The scenarios:

- on time: reviews are done when they are due, with the true parameters;
- some days skipped: 5 % of the days;
- desire raised: as on time, at 0.80; the preset asks for 0.90 only now;
- late: half of the days are skipped;
- bold parameters: those in force expect too much after successes;
- ACT-R, on time: another memory than FSRS, scheduled and judged by FSRS-6's defaults.

For each scenario the program prints how often each cause is named, with Wilson's 95 % interval, and
how often "FSRS expected too much" is true where it is named: the known probability of recall,
averaged over the reviews, is then at least half a point below what the current parameters
expected. Whether reviews were late is known from the log.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from _tables import format_wilson

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Retention, RetentionCause, get_evidence
from srs_eval.advice.over_time import assess_retention
from tools.simulated.worlds import World, simulate_world

_MIN_TRUE_GAP = 0.005
"""Share of reviews from which on a wrong expectation counts as true."""


_ON_TIME = World(stored="true", skipped=0.0, card_shift=0.3, new_per_day=(8, 24))
SCENARIOS = {
    "on time": _ON_TIME,
    "some days skipped": replace(_ON_TIME, skipped=0.05),
    "desire raised": replace(_ON_TIME, retention=0.8),
    "late": replace(_ON_TIME, skipped=0.5),
    "bold parameters": replace(_ON_TIME, stored="bold"),
    "ACT-R, on time": replace(_ON_TIME, truth="ACT-R"),
}
_FEWEST_ANSWERS, _MOST_ANSWERS = 2_000, 6_000


@dataclass(frozen=True)
class Diagnosis:
    """One learner: the causes that are named, and the true size of a wrong expectation."""

    scenario: str
    causes: tuple[RetentionCause, ...]
    true_expectation_gap: float


def assess(scenario: str, seed: int) -> Diagnosis:
    """Return what pane 2 names for one learner, and the truth."""
    answers = int(np.random.default_rng(seed).integers(_FEWEST_ANSWERS, _MOST_ANSWERS))
    simulated = simulate_world(SCENARIOS[scenario], seed, answers)
    log = simulated.log()
    presets = {key: replace(preset, desired_retention=0.9) for key, preset in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    (group,) = learner.groups
    (finding,) = assess_retention(learner, [group])
    retention = get_evidence(finding, Retention)
    true_recall = simulated.recall[learner.entry_index]
    positions = np.arange(len(true_recall))
    expected = learner.predict_with_parameters(learner.active_parameters(group), positions)
    gap = float(np.nanmean(true_recall - expected))
    return Diagnosis(scenario, tuple(part.cause for part in retention.parts), gap)


def print_report(diagnoses: Sequence[Diagnosis]) -> None:
    print(
        "| scenario | late | expected too much | shortest interval | scheduled for less "
        "| too much, and true |"
    )
    print("|---|---|---|---|---|---|")
    all_named = 0
    all_true = 0
    for scenario in SCENARIOS:
        rows = [diagnosis for diagnosis in diagnoses if diagnosis.scenario == scenario]
        counts = Counter(cause for diagnosis in rows for cause in diagnosis.causes)
        accused = [row for row in rows if RetentionCause.EXPECTED_TOO_MUCH in row.causes]
        true = sum(row.true_expectation_gap <= -_MIN_TRUE_GAP for row in accused)
        all_named += len(accused)
        all_true += true
        cells = [
            scenario,
            format_wilson(counts[RetentionCause.LATE], len(rows)),
            format_wilson(counts[RetentionCause.EXPECTED_TOO_MUCH], len(rows)),
            format_wilson(counts[RetentionCause.SHORTEST_INTERVAL], len(rows)),
            format_wilson(counts[RetentionCause.SCHEDULED_FOR_LESS], len(rows)),
            format_wilson(true, len(accused)),
        ]
        print(f"| {' | '.join(cells)} |")
    print(f"\n“FSRS expected too much” is true: {format_wilson(all_true, all_named)}.")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", type=int, default=40, help="of each scenario")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="three learners of each scenario")
    options = parser.parse_args()
    learners = 3 if options.quick else options.learners
    tasks = [(scenario, seed) for scenario in SCENARIOS for seed in range(learners)]
    start = time.time()
    with ProcessPoolExecutor(options.jobs) as pool:
        diagnoses = list(pool.map(assess, *zip(*tasks, strict=True)))
    print_report(diagnoses)
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
