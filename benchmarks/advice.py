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
(change where the 95 % interval lies below zero) and of an oracle. --choose scores the shift of
`srs_eval.advice.population` on learners that were left out when it was chosen. --points prints
each point.
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
from srs_eval.advice.findings import Finding, Recommendation
from srs_eval.advice.parameters import assess_parameters
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError, NotEnoughData
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
    own: Interval  # of the learner's paired difference so far
    probability: float  # that the candidate is better over the coming reviews
    follows: bool  # whether the candidate was recommended
    observed_difference: float  # the candidate's log loss minus the other's on the next part
    prior: population.GainPrior


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    points: dict[str, list[Point]] = {pair: [] for pair in (*PAIRS, AGAIN)}
    for path in sorted(options.histories.iterdir()):
        try:
            log = without_stored_parameters(load_log(path))
        except InputError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        for pair, point in collect_points(path.name, log, options.by_preset):
            points[pair].append(point)
        if not options.by_preset:
            points[AGAIN] += refits(path.name, log)
    for pair, found in points.items():
        if found:
            print(f"{pair}: {len({each.learner for each in found})} learners, {len(found)} points")
            report(found, options.points)
            if options.choose:
                choose(found)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="do the probabilities of the advice hold?")
    parser.add_argument("histories", type=Path)
    parser.add_argument("--by-preset", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--choose", action="store_true")
    return parser.parse_args(arguments)


def without_stored_parameters(log: ReviewLog) -> ReviewLog:
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
    bounds = [round(len(future.trials) * part / PARTS) for part in range(PARTS + 1)]
    for part in range(1, PARTS):
        coming = np.arange(bounds[part], bounds[part + 1])
        past = log_before(log, future, bounds[part])
        try:
            learner = Learner.of(past, protocol=protocol)
        except NotEnoughData:
            continue
        came = {
            candidate: future.losses(
                future.predict(candidate, [Fold(np.arange(bounds[part]), coming)]), coming
            )
            for candidate in ("optimized", "recency", "defaults", "sm2")
        }
        findings = assess_parameters(learner, list(learner.groups), {}, {})
        for group, finding in zip(learner.groups, findings, strict=False):
            mine = future.trials.partition[coming] == group
            if mine.sum() >= FEWEST_TO_EVALUATE:
                for pair, (candidate, other) in PAIRS.items():
                    difference = float((came[candidate] - came[other])[mine].mean())
                    yield (
                        pair,
                        make_point(
                            f"{name} {group}", part, learner, group, finding, pair, difference
                        ),
                    )


def refits(name: str, log: ReviewLog) -> Iterator[Point]:
    """Yield points for parameters fitted once, as Anki does: does a later fit predict better?"""
    try:
        learner = Learner.of(log, protocol=ALL_REVIEWS_PROTOCOL)
    except NotEnoughData:
        return
    bounds = [round(len(learner.trials) * part / 12) for part in range(13)]
    for fitted in range(1, 11):
        once = np.arange(bounds[fitted])
        for now in (fitted + since for since in TWELFTHS_SINCE if fitted + since <= 10):
            seen = np.arange(bounds[now])
            since, coming = seen[len(once) :], np.arange(bounds[now], bounds[now + 2])

            def minus_kept(
                folds: Sequence[Fold], index: IntArray, once: IntArray = once
            ) -> FloatArray:
                kept = learner.predict("recency", [Fold(once, index)])
                again = learner.predict("recency", folds)
                return learner.losses(again, index) - learner.losses(kept, index)

            own = learner.interval(minus_kept(learner.rolling_folds(since), since), since)
            prior = population.refit_prior(len(since) / len(once))
            found = population.compute_belief(own, prior)
            came = float(minus_kept([Fold(seen, coming)], coming).mean())
            yield Point(name, now, own, found.probability, found.gain > 0, came, prior)


def log_before(log: ReviewLog, learner: Learner, count: int) -> ReviewLog:
    """Return the log as it was after `count` of the learner's evaluated reviews."""
    last = int(learner.entry_index[count - 1])
    reviews = log.entries if log.entries is not None else log.rows
    assert reviews is not None
    columns = {column.name: getattr(reviews, column.name) for column in fields(reviews)}
    cut: Any = {name: None if each is None else each[: last + 1] for name, each in columns.items()}
    predictions = {name: column[: last + 1] for name, column in log.source_predictions.items()}
    part: Any = {"rows" if log.entries is None else "entries": replace(reviews, **cut)}
    return replace(log, source_predictions=predictions, **part)


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
    candidate, other = PAIRS[pair]
    index = learner.trials.test_index
    mine = learner.trials.partition[index] == group
    losses = learner.held_out_losses(candidate) - learner.held_out_losses(other)
    own = learner.interval(losses[mine], index[mine]) if mine.any() else Interval(0.0, math.nan)
    prior = population.published_prior(candidate, other, max(own.reviews, 1))
    found = population.compute_belief(own, prior)
    probability, follows = found.probability, found.gain > 0
    if other == "defaults":
        assert finding.probabilities is not None
        probability, follows = (
            finding.probabilities[candidate],
            finding.recommendation != Recommendation.KEEP,
        )
    return Point(name, period, own, probability, follows, observed_difference, prior)


def report(points: Sequence[Point], each: bool) -> None:
    for point in points if each else ():
        print(
            f"  {point.learner[:24]:24} part {point.period}: {point.own.reviews:6,} reviews,"
            f" own {point.own.estimate:+.4f} ±{point.own.half_width:.4f},"
            f" P {point.probability:.2f}, then {point.observed_difference:+.4f}"
        )
    came = np.array([point.observed_difference for point in points])
    p = np.array([point.probability for point in points])
    verdicts = np.array([decide_verdict(point.own) == "better" for point in points])
    print("  log score " + scores(p, came))
    follows = np.array([point.follows for point in points])
    gains = {
        "as said": follows,
        "always": came <= np.inf,
        "plain verdict": verdicts,
        "oracle": came < 0,
    }
    realised = (f"{name} {-(came * chosen).mean():.4f}" for name, chosen in gains.items())
    print(f"  log loss saved: {', '.join(realised)}")


def scores(p: FloatArray, came: FloatArray) -> str:
    better = came < 0
    rate = min(max(float(better.mean()), 1e-9), 1 - 1e-9)
    constant = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    right = (p > 0.5) == better
    said = []
    for low, high in ((0.9, 1.0), (0.7, 0.9)):
        sureness = np.maximum(p, 1 - p)
        here = (sureness >= low) & ((sureness < high) | (high == 1))
        share = right[here].mean() if here.any() else math.nan
        said.append(f"{low:.0%} to {high:.0%} sure in {here.mean():.0%}, right in {share:.0%}")
    score = -np.log(np.where(better, p, 1 - p)).mean()
    return f"{score:.3f} (constant rate {constant:.3f}); {'; '.join(said)}"


def choose(points: Sequence[Point]) -> None:
    """Choose the shift that suits all other learners best, for each learner."""
    people = np.array([point.learner.split()[0] for point in points])
    came = np.array([point.observed_difference for point in points])
    p = {
        shift: np.array(
            [
                population.compute_belief(each.own, replace(each.prior, shift=shift)).probability
                for each in points
            ]
        )
        for shift in SHIFTS
    }
    score = {shift: -np.log(np.where(came < 0, each, 1 - each)) for shift, each in p.items()}
    found, chosen = np.empty(len(points)), {}
    for person in np.unique(people).tolist():
        others = people != person
        chosen[person] = min(SHIFTS, key=lambda shift: score[shift][others].mean())
        found[~others] = p[chosen[person]][~others]
    best = min(SHIFTS, key=lambda shift: score[shift].mean())
    print(f"  chosen without the learner ({sorted(set(chosen.values()))}): {scores(found, came)}")
    print(f"  best for all: {best} ({score[best].mean():.3f})")


if __name__ == "__main__":
    main()
