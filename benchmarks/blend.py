"""Measure averages of models: log loss minus that of FSRS-6-recency.

    python benchmarks/blend.py [--real DIR] [--weights FILE] [--choose] [--simulated 16]

reads every history in --real (or the environment variable SRS_EVAL_REAL). Without --weights, or a
file of RWKV's in the usual places, RWKV is left out. --choose selects BLEND's members again: for
every person it reports the result of the members that are best for all others. --simulated compares
mixtures on so many simulated learners of each truth (tools/simulated/worlds.py), of 2,500, 6,000
and 12,000 answers, with FSRS or SM-2 as their scheduler.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models.blend import average_logits
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.rwkv import find_weights
from srs_eval.training.hyperparameters import Context
from tools.simulated.worlds import TRUTHS, World, simulate_world

REFERENCE = "FSRS-6-recency"
FSRS7 = "FSRS-7-short-secs-recency-equalize_test_with_non_secs"
GRU = "GRU-503-short-secs-equalize_test_with_non_secs"
REGRESSION = "LogisticRegression-short-secs-equalize_test_with_non_secs"
SBD = "SBD-short-secs-equalize_test_with_non_secs"
SHIPPED = (FSRS7, "GradientBoosting", "BLEND", "BLEND-GRU", "STATE-FSRS-6+7")
MIXTURES = {
    "FSRS-6, FSRS-7": (REFERENCE, FSRS7),
    "FSRS-6, FSRS-7, GRU-503 (BLEND-GRU)": (REFERENCE, FSRS7, GRU),
    "FSRS-6, FSRS-7, LogisticRegression": (REFERENCE, FSRS7, REGRESSION),
    "FSRS-6, FSRS-7, SBD": (REFERENCE, FSRS7, SBD),
    "FSRS-6, FSRS-7, LogisticRegression, SBD (BLEND)": (REFERENCE, FSRS7, REGRESSION, SBD),
}
WITH_RWKV = ("RWKV-Curve", "RWKV-Instant", "BLEND+RWKV-Curve", "STATE-FSRS-6+7+RWKV")
CANDIDATES = (REFERENCE, FSRS7, "GRU-P-short", "GRU-P", "DASH", "DASH-short", "GRU-503", "LSTM")
SIZES = (2, 3, 4)
_SIMULATED_ANSWERS = (2_500, 6_000, 12_000)


def evaluate_person(path: Path, names: Sequence[str], context: Context) -> dict[str, Result]:
    return evaluate_learner(load_log(path), names, context, use_cache=True)


def evaluate_learner(
    log: ReviewLog, names: Sequence[str], context: Context, use_cache: bool = False
) -> dict[str, Result]:
    session = LearnerSession(log)
    return {
        name: session.run(resolve_configurations(name)[0], context, use_cache=use_cache)
        for name in names
    }


def print_mixtures(learners: Sequence[dict[str, Result]]) -> None:
    """Print what each mixture's log loss is minus that of FSRS-6-recency."""
    print("| mixture | mean | standard error | better for | worst |")
    print("|---|---|---|---|---|")
    for name, members in MIXTURES.items():
        losses = compute_differences(learners, members)
        error = losses.std(ddof=1) / len(losses) ** 0.5
        print(
            f"| {name} | {losses.mean():+.4f} | {error:.4f} | {(losses < 0).sum()} of "
            f"{len(losses)} | {losses.max():+.4f} |"
        )


def compare_on_simulated(count: int) -> None:
    """Print the mixtures' log losses for `count` simulated learners of each truth."""
    names = tuple(dict.fromkeys(name for members in MIXTURES.values() for name in members))
    learners = []
    for truth in TRUTHS:
        of_truth = []
        for seed in range(100, 100 + count):
            world = World(
                truth=truth,
                scheduler="sm2" if seed % 2 else "fsrs",
                card_shift=0.35 if seed % 3 == 0 else 0.0,
            )
            log = simulate_world(world, seed, _SIMULATED_ANSWERS[seed % 3]).log()
            of_truth.append(evaluate_learner(log, names, Context()))
        print(f"\n{truth}:\n")
        print_mixtures(of_truth)
        learners += of_truth
    print("\nall truths:\n")
    print_mixtures(learners)


def compute_differences(people: Sequence[dict[str, Result]], members: Sequence[str]) -> FloatArray:
    """Return log loss of the mean of the members' logits minus FSRS-6-recency's, by person."""
    losses = []
    for results in people:
        reference = results[REFERENCE]
        p = average_logits([results[name].p for name in members])
        losses.append(log_loss(reference.y, p) - log_loss(reference.y, reference.p))
    return np.array(losses)


def format_result(name: str, losses: FloatArray) -> str:
    cells = " | ".join(f"{loss:+.4f}" for loss in (*losses, losses.mean()))
    return f"| {name} | {cells} | {(losses < 0).sum()} of {len(losses)} |"


def choose_members(people: Sequence[dict[str, Result]], candidates: Sequence[str]) -> None:
    groups: list[tuple[str, ...]] = []
    for size in SIZES:
        groups += combinations(candidates, size)
    table = np.array([compute_differences(people, group) for group in groups])
    left_out = []
    chosen: Counter[str] = Counter()
    for person in range(len(people)):
        best = int(np.delete(table, person, axis=1).mean(axis=1).argmin())
        left_out.append(table[best, person])
        chosen[" + ".join(groups[best])] += 1
    print(f"\nfrom {', '.join(candidates)}, each person left out of the choice:")
    print(format_result("chosen", np.array(left_out)))
    for words, times in chosen.most_common():
        print(f"  {times} times {words}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--simulated", type=int, metavar="LEARNERS", help="of each truth")
    options = parser.parse_args()
    if options.simulated:
        compare_on_simulated(options.simulated)
        return
    if options.real is None:
        parser.error("nobody to predict: give --real")
    context = Context(weights=options.weights)
    listed = [REFERENCE, *SHIPPED]
    if find_weights(context):
        listed += WITH_RWKV
    names = dict.fromkeys([*listed, GRU, REGRESSION, SBD])
    if options.choose:
        names |= dict.fromkeys(CANDIDATES)
    paths = sorted(path for path in Path(options.real).iterdir() if path.is_file())
    people = [evaluate_person(path, tuple(names), context) for path in paths]
    print(f"| | {' | '.join(path.stem for path in paths)} | mean | better |")
    print("|---" * (len(paths) + 3) + "|")
    references = [results[REFERENCE] for results in people]
    base = np.array([log_loss(reference.y, reference.p) for reference in references])
    cells = " | ".join(f"{loss:.4f}" for loss in (*base, base.mean()))
    print(f"| {REFERENCE} | {cells} | |")
    for name in listed[1:]:
        print(format_result(name, compute_differences(people, [name])))
    print("\nmixtures:\n")
    print_mixtures(people)
    if options.choose:
        choose_members(people, CANDIDATES)
        choose_members(people, [name for name in CANDIDATES if name != "LSTM"])


if __name__ == "__main__":
    main()
