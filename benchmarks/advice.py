"""Do the probabilities of the advice hold? Real people's later reviews are the evaluate.

    python benchmarks/advice.py HISTORIES [--by-preset] [--points] [--choose]

HISTORIES is a folder of collections, packages, CSV files or SuperMemo exports. At each boundary
of the five time-series folds the program is asked with the reviews before it alone. What it says
is evaluated on the next part: the log loss there of FSRS-6 fitted to all reviews before
(`optimized`), with newer ones weighing more (`recency`), of SM-2 and of FSRS-6's defaults. Stored
parameters are taken away first, for they know the future. With --by-preset each preset is asked
about, on the rows that Anki's optimizer takes; otherwise the whole file is, on the benchmark's,
and fits of earlier are compared with later ones.

Printed are, over all points: the log score of the probabilities (nats; less is better) beside
that of the constant rate, how often one is 90 or 70 % sure and how often that is right, and the
log loss saved by doing what is said, beside that of always changing, of the plain verdict (change
where the 95 % interval lies below zero) and of an oracle. --choose scores the shift of
`srs_eval.advice.population` on learners that were left out when it was chosen. --points prints
each.
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
from srs_eval.advice.candidates import BY_PRESET, WHOLE, Learner
from srs_eval.advice.findings import KEEP, Finding
from srs_eval.advice.parameters import are_my_parameters_good
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import Interval, verdict

PARTS = 6
FEWEST_TO_EVALUATE = 50
# What is asked: the candidate, and what it is compared with.
PAIRS: dict[str, tuple[population.Published, population.Published]] = {
    "optimized or defaults": ("optimized", "defaults"),
    "optimized as Anki does it, or defaults": ("recency", "defaults"),
    "FSRS or SM-2": ("optimized", "sm2"),
    "recency or not": ("recency", "optimized"),
}
AGAIN = "optimized again or kept"  # where parameters were fitted once
TWELFTHS_SINCE = (1, 2, 4, 6)
SHIFTS = (0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03)


@dataclass(frozen=True)
class Point:
    """What was said at a boundary, and what came."""

    learner: str
    part: int
    own: Interval  # of the learner's paired difference before
    probability: float  # that the candidate is better over the coming reviews
    follows: bool  # whether the candidate is what was recommended
    came: float  # the candidate's log loss minus the other's on the next part
    prior: population.Prior


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    points: dict[str, list[Point]] = {pair: [] for pair in (*PAIRS, AGAIN)}
    for path in sorted(options.histories.iterdir()):
        try:
            log = untouched(load_log(path))
        except InputError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        for pair, point in points_of(path.name, log, options.by_preset):
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


def untouched(log: ReviewLog) -> ReviewLog:
    """Without stored parameters, and with FSRS on."""
    presets = {key: replace(preset, fsrs_parameters={}) for key, preset in log.presets.items()}
    return replace(
        log, presets=presets, import_summary=replace(log.import_summary, fsrs_enabled=None)
    )


def points_of(name: str, log: ReviewLog, by_preset: bool) -> Iterator[tuple[str, Point]]:
    """What is said of a learner at each boundary, and what comes, by what is asked."""
    protocol = BY_PRESET if by_preset else WHOLE
    try:
        future = Learner.of(log, protocol=protocol)
    except NotEnoughData:
        return
    bounds = [round(len(future.trials) * part / PARTS) for part in range(PARTS + 1)]
    for part in range(1, PARTS):
        coming = np.arange(bounds[part], bounds[part + 1])
        past = before(log, future, bounds[part])
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
        findings = are_my_parameters_good(learner, list(learner.groups), {}, {})
        for group, finding in zip(learner.groups, findings, strict=False):
            mine = future.trials.partition[coming] == group
            if mine.sum() >= FEWEST_TO_EVALUATE:
                for pair, (candidate, other) in PAIRS.items():
                    difference = float((came[candidate] - came[other])[mine].mean())
                    yield (
                        pair,
                        said(f"{name} {group}", part, learner, group, finding, pair, difference),
                    )


def refits(name: str, log: ReviewLog) -> Iterator[Point]:
    """Of parameters fitted once, as Anki does it: whether a later fit predicts better."""
    try:
        learner = Learner.of(log, protocol=WHOLE)
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

            own = learner.interval(minus_kept(learner.renewed(since), since), since)
            prior = population.refit(len(since) / len(once))
            found = population.belief(own, prior)
            came = float(minus_kept([Fold(seen, coming)], coming).mean())
            yield Point(name, now, own, found.probability, found.gain > 0, came, prior)


def before(log: ReviewLog, learner: Learner, count: int) -> ReviewLog:
    """The log as it was when `count` of the learner's evaluated reviews had been done."""
    last = int(learner.source_place[count - 1])
    reviews = log.entries if log.entries is not None else log.rows
    assert reviews is not None
    columns = {column.name: getattr(reviews, column.name) for column in fields(reviews)}
    cut: Any = {name: None if each is None else each[: last + 1] for name, each in columns.items()}
    predictions = {name: column[: last + 1] for name, column in log.predictions.items()}
    part: Any = {"rows" if log.entries is None else "entries": replace(reviews, **cut)}
    return replace(log, predictions=predictions, **part)


def said(
    name: str,
    part: int,
    learner: Learner,
    group: int,
    finding: Finding,
    pair: str,
    came: float,
) -> Point:
    """What the finding says of a pair; of one that is not asked about, what it would say."""
    candidate, other = PAIRS[pair]
    index = learner.trials.test_index
    mine = learner.trials.partition[index] == group
    losses = learner.held_out_losses(candidate) - learner.held_out_losses(other)
    own = learner.interval(losses[mine], index[mine]) if mine.any() else Interval(0.0, math.nan)
    prior = population.published(candidate, other, max(own.reviews, 1))
    found = population.belief(own, prior)
    probability, follows = found.probability, found.gain > 0
    if other == "defaults":
        assert finding.probabilities is not None
        probability, follows = finding.probabilities[candidate], finding.act != KEEP
    return Point(name, part, own, probability, follows, came, prior)


def report(points: Sequence[Point], each: bool) -> None:
    for point in points if each else ():
        print(
            f"  {point.learner[:24]:24} part {point.part}: {point.own.reviews:6,} reviews,"
            f" own {point.own.estimate:+.4f} ±{point.own.half_width:.4f},"
            f" P {point.probability:.2f}, then {point.came:+.4f}"
        )
    came = np.array([point.came for point in points])
    p = np.array([point.probability for point in points])
    verdicts = np.array([verdict(point.own) == "better" for point in points])
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
    """The shift that suits all other learners best, for each learner."""
    people = np.array([point.learner.split()[0] for point in points])
    came = np.array([point.came for point in points])
    p = {
        shift: np.array(
            [
                population.belief(each.own, replace(each.prior, shift=shift)).probability
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
