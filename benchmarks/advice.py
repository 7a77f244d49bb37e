"""Check the probabilities of the advice on real people's later reviews.

    python benchmarks/advice.py HISTORIES [--by-preset] [--points] [--choose]

HISTORIES is a folder of collections, packages, CSV files or SuperMemo exports. At each boundary
of the five time-series folds the program gives advice from the reviews before it alone. The advice
is evaluated on the next part: the log loss there of FSRS-6 fitted to all reviews before
(`optimized`), with newer ones weighing more (`recency`), of SM-2 and of FSRS-6's defaults. Stored
parameters are removed first, because they know the future. With --by-preset the advice is about
each preset, on the rows that Anki's optimizer takes; otherwise it is about the whole file, on the
benchmark's rows, and earlier fits are compared with later ones.

Printed are, over all points: the log score of the probabilities (nats; less is better) next to
that of the constant rate, how often one is 90 or 70 % sure and how often that is right, and the
log loss saved by following the advice, next to that of always changing, of the plain verdict
(change where the 95 % interval lies below zero) and of an oracle; how often the gain lay within the
95 % told, and how often a change that hardly matters gained more than that. --choose scores the
shift of `srs_eval.advice.population` on learners that were left out when it was chosen. --points
prints each point.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.advice import population
from srs_eval.advice.candidates import ALL_REVIEWS_PROTOCOL, PRESET_PROTOCOL, Learner
from srs_eval.advice.findings import Belief, Finding, Recommendation
from srs_eval.advice.parameters import assess_parameters
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import Interval, decide_verdict

PARTS = 6
FEWEST_TO_EVALUATE = 50
# The pairs: the candidate, and what it is compared with.
PAIRS: dict[str, tuple[population.Published, population.Published]] = {
    "optimized or defaults": ("optimized", "defaults"),
    "optimized as Anki does it, or defaults": ("recency", "defaults"),
    "FSRS or SM-2": ("optimized", "sm2"),
    "recency or not": ("recency", "optimized"),
}
AGAIN = "optimized again or kept"  # parameters that were fitted once
TWELFTHS_SINCE = (1, 2, 4, 6)
SHIFTS = (0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03)


@dataclass(frozen=True)
class Point:
    """The advice at a boundary, and the later outcome."""

    learner: str
    period: int
    interval: Interval  # of the learner's paired difference so far
    probability: float  # that the candidate is better over the coming reviews
    follows: bool  # whether the candidate was recommended
    observed_difference: float  # the candidate's log loss minus the other's on the next part
    prior: population.GainPrior
    belief: Belief  # about the gain by the candidate


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    points: dict[str, list[Point]] = {pair: [] for pair in (*PAIRS, AGAIN)}
    for path in sorted(options.histories.iterdir()):
        try:
            log = remove_stored_parameters(load_log(path))
        except InputError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        for pair, point in collect_points(path.name, log, options.by_preset):
            points[pair].append(point)
        if not options.by_preset:
            points[AGAIN] += compare_refits(path.name, log)
    for pair, pair_points in points.items():
        if pair_points:
            learners = {point.learner for point in pair_points}
            print(f"{pair}: {len(learners)} learners, {len(pair_points)} points")
            print_report(pair_points, options.points)
            if options.choose:
                choose_shift(pair_points)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="do the probabilities of the advice hold?")
    parser.add_argument("histories", type=Path)
    parser.add_argument("--by-preset", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--choose", action="store_true")
    return parser.parse_args(arguments)


def remove_stored_parameters(log: ReviewLog) -> ReviewLog:
    """Return the log without stored parameters, and with FSRS on."""
    presets = {key: replace(preset, fsrs_parameters={}) for key, preset in log.presets.items()}
    return replace(
        log, presets=presets, import_summary=replace(log.import_summary, fsrs_enabled=None)
    )


def collect_points(name: str, log: ReviewLog, by_preset: bool) -> Iterator[tuple[str, Point]]:
    """Yield the advice at each boundary and its outcome, with the pair compared."""
    protocol = PRESET_PROTOCOL if by_preset else ALL_REVIEWS_PROTOCOL
    try:
        future = Learner.of(log, protocol=protocol)
    except NotEnoughData:
        return
    bounds = [round(len(future.trials) * period / PARTS) for period in range(PARTS + 1)]
    for period in range(1, PARTS):
        coming = np.arange(bounds[period], bounds[period + 1])
        past = cut_log(log, future, bounds[period])
        try:
            learner = Learner.of(past, protocol=protocol)
        except NotEnoughData:
            continue
        came = {
            candidate: future.losses(
                future.predict(candidate, [Fold(np.arange(bounds[period]), coming)]), coming
            )
            for candidate in ("optimized", "recency", "defaults", "sm2")
        }
        # The pairs are about other candidates than taught parameters.
        findings = assess_parameters(learner, list(learner.groups), {}, {}, with_late=False)
        for group, finding in zip(learner.groups, findings, strict=False):
            in_group = future.trials.partition[coming] == group
            if in_group.sum() >= FEWEST_TO_EVALUATE:
                for pair, (candidate, rival) in PAIRS.items():
                    difference = float((came[candidate] - came[rival])[in_group].mean())
                    yield (
                        pair,
                        make_point(
                            f"{name} {group}", period, learner, group, finding, pair, difference
                        ),
                    )


def compare_refits(name: str, log: ReviewLog) -> Iterator[Point]:
    """Yield points for parameters fitted once, as Anki does: does a later fit predict better?"""
    try:
        learner = Learner.of(log, protocol=ALL_REVIEWS_PROTOCOL)
    except NotEnoughData:
        return
    bounds = [round(len(learner.trials) * twelfth / 12) for twelfth in range(13)]
    for fitted in range(1, 11):
        once = np.arange(bounds[fitted])
        for twelfths in TWELFTHS_SINCE:
            period = fitted + twelfths
            if period > 10:
                continue
            seen = np.arange(bounds[period])
            since = seen[len(once) :]
            coming = np.arange(bounds[period], bounds[period + 2])

            def predict_after(train: IntArray, index: IntArray) -> FloatArray:
                return learner.predict("recency", [Fold(train, index)])

            def compare_losses(
                folds: Sequence[Fold], index: IntArray, once: IntArray = once
            ) -> FloatArray:
                again_p = learner.predict("recency", folds)
                once_losses = learner.losses(predict_after(once, index), index)
                return learner.losses(again_p, index) - once_losses

            interval = learner.interval(compare_losses(learner.rolling_folds(since), since), since)
            divergence = population.compute_divergence(
                predict_after(seen, seen), predict_after(once, seen)
            )
            stored = population.StoredParameters(divergence, len(seen), len(since))
            prior = population.refit_prior(stored)
            belief = population.compute_belief(interval, prior)
            came = float(compare_losses([Fold(seen, coming)], coming).mean())
            yield Point(
                name, period, interval, belief.probability, belief.gain > 0, came, prior, belief
            )


def cut_log(log: ReviewLog, learner: Learner, count: int) -> ReviewLog:
    """Return the log as it was after `count` of the learner's evaluated reviews."""
    last = int(learner.entry_index[count - 1])
    reviews = log.entries if log.entries is not None else log.rows
    assert reviews is not None
    cut: dict[str, Any] = {}
    for field in fields(reviews):
        values = getattr(reviews, field.name)
        cut[field.name] = None if values is None else values[: last + 1]
    predictions = {name: column[: last + 1] for name, column in log.source_predictions.items()}
    table: Any = {"rows" if log.entries is None else "entries": replace(reviews, **cut)}
    return replace(log, source_predictions=predictions, **table)


def make_point(
    name: str,
    period: int,
    learner: Learner,
    group: int,
    finding: Finding,
    pair: str,
    observed_difference: float,
) -> Point:
    """Make the point of a pair; if the finding does not cover it, compute what it would say."""
    candidate, rival = PAIRS[pair]
    index = learner.trials.test_index
    in_group = learner.trials.partition[index] == group
    losses = learner.held_out_losses(candidate) - learner.held_out_losses(rival)
    interval = Interval(0.0, math.nan)
    if in_group.any():
        interval = learner.interval(losses[in_group], index[in_group])
    prior = population.published_prior(candidate, rival, max(interval.reviews, 1))
    belief = population.compute_belief(interval, prior)
    probability = belief.probability
    follows = belief.gain > 0
    if rival == "defaults":
        assert finding.probabilities is not None
        probability = finding.probabilities[candidate]
        follows = finding.recommendation != Recommendation.KEEP
    return Point(name, period, interval, probability, follows, observed_difference, prior, belief)


def print_report(points: Sequence[Point], with_points: bool) -> None:
    printed = points if with_points else ()
    for point in printed:
        print(
            f"  {point.learner[:24]:24} part {point.period}: {point.interval.reviews:6,} reviews,"
            f" own {point.interval.estimate:+.4f} ±{point.interval.half_width:.4f},"
            f" P {point.probability:.2f}, then {point.observed_difference:+.4f}"
        )
    came = np.array([point.observed_difference for point in points])
    p = np.array([point.probability for point in points])
    verdicts = np.array([decide_verdict(point.interval) == "better" for point in points])
    print("  log score " + format_scores(p, came))
    follows = np.array([point.follows for point in points])
    gains = {
        "as said": follows,
        "always": came <= np.inf,
        "plain verdict": verdicts,
        "oracle": came < 0,
    }
    realised = (f"{name} {-(came * chosen).mean():.4f}" for name, chosen in gains.items())
    print(f"  log loss saved: {', '.join(realised)}")
    held = [point.belief.low <= -point.observed_difference <= point.belief.high for point in points]
    hardly = [-point.observed_difference for point in points if hardly_matters(point)]
    gained_more = sum(gain > EQUIVALENCE_MARGIN for gain in hardly)
    print(
        f"  gain within the 95 % told in {np.mean(held):.0%}; {len(hardly)} times it hardly "
        f"matters, and {gained_more} times more came"
    )


def hardly_matters(point: Point) -> bool:
    return point.belief.lies_within(EQUIVALENCE_MARGIN)


def format_scores(p: FloatArray, came: FloatArray) -> str:
    better = came < 0
    rate = min(max(float(better.mean()), 1e-9), 1 - 1e-9)
    constant = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    right = (p > 0.5) == better
    sentences = []
    for low, high in ((0.9, 1.0), (0.7, 0.9)):
        sureness = np.maximum(p, 1 - p)
        in_range = (sureness >= low) & ((sureness < high) | (high == 1))
        share = right[in_range].mean() if in_range.any() else math.nan
        sentences.append(
            f"{low:.0%} to {high:.0%} sure in {in_range.mean():.0%}, right in {share:.0%}"
        )
    score = -np.log(np.where(better, p, 1 - p)).mean()
    return f"{score:.3f} (constant rate {constant:.3f}); {'; '.join(sentences)}"


def choose_shift(points: Sequence[Point]) -> None:
    """Choose the shift that suits all other learners best, for each learner."""
    people = np.array([point.learner.split()[0] for point in points])
    came = np.array([point.observed_difference for point in points])
    p = {shift: predict_with_shift(points, shift) for shift in SHIFTS}
    score = {
        shift: -np.log(np.where(came < 0, shifted_p, 1 - shifted_p))
        for shift, shifted_p in p.items()
    }
    probability = np.empty(len(points))
    chosen = {}
    for person in np.unique(people).tolist():
        is_other = people != person
        chosen[person] = min(SHIFTS, key=lambda shift: score[shift][is_other].mean())
        probability[~is_other] = p[chosen[person]][~is_other]
    best = min(SHIFTS, key=lambda shift: score[shift].mean())
    shifts = sorted(set(chosen.values()))
    print(f"  chosen without the learner ({shifts}): {format_scores(probability, came)}")
    print(f"  best for all: {best} ({score[best].mean():.3f})")


def predict_with_shift(points: Sequence[Point], shift: float) -> FloatArray:
    """Predict whether each point's candidate is better, with another shift of its prior."""
    beliefs = [
        population.compute_belief(point.interval, replace(point.prior, shift=shift))
        for point in points
    ]
    return np.array([belief.probability for belief in beliefs])


if __name__ == "__main__":
    main()
