"""Measure lines of FSRS-6 parameters that were fitted to few reviews, on the reviews to come.

    python benchmarks/few_reviews.py [--real DIR] [--simulated 40] [--sizes 600 1500] [--points]
    python benchmarks/few_reviews.py [--real DIR] [--simulated 40] [--sizes 600 1500] --acts

The parameters are fitted to the first K entries of a history and never again; they are evaluated on
the next max(300, K / 2) reviews of later days. Compared are Anki's own optimizer, FSRS-6's
defaults, parameters fitted half to the outcomes and half to three models, and the mean of these and
Anki's, which `srs_eval.advice.taught` gives. All are fitted to the rows that Anki's optimizer would
have taken then: cards that are deleted or suspended today were there, so they count.

--real (or the environment variable SRS_EVAL_REAL) is a folder of histories; those with enough
reviews after K count. --simulated compares on so many simulated learners of each truth
(tools/simulated/worlds.py), half of them with SM-2 as their scheduler. --points prints each point.

--acts asks what the program advises after K entries, for each preset by itself, with the defaults
in force: how probable it calls its act, and what came of it on the next reviews of the preset.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.advice import FEWEST_TO_EVALUATE, remove_stored_parameters
from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    LIKELY,
    SURE,
    Finding,
    PresetParameters,
    Recommendation,
    get_evidence,
)
from srs_eval.advice.parameters import assess_parameters
from srs_eval.advice.taught import average_lines, fit_to_teacher
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import Cards, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import fsrs6
from srs_eval.training.hyperparameters import Context
from tools.simulated.worlds import TRUTHS, World, simulate_world

SIZES = (600, 1500, 4000, 12_000)
SIMULATED_SIZES = (600, 1500, 2500)
MIN_EVALUATED = 300
WORSE = 0.001  # nats by which a line has to be worse than the defaults to count
ANKI = "Anki's optimizer"
DEFAULTS = "defaults"
TEACHER = "half outcomes, half teacher"
TAUGHT = "taught: the mean of both"
LINES = (ANKI, DEFAULTS, TEACHER, TAUGHT)
PROTOCOL = Protocol(rows="anki", short=True)
FRACTIONAL = replace(PROTOCOL, secs=True, equalize_test_with_non_secs=True)


@dataclass(frozen=True)
class Point:
    """A learner's log losses after K entries."""

    learner: str
    size: int  # K
    usable: int  # reviews that the lines were fitted to
    loss: dict[str, float]  # by line
    seconds: float  # to fit with a teacher


def forget_cards(log: ReviewLog) -> ReviewLog:
    """Return the log without what is known only today: deleted or suspended cards, settings."""
    return replace(log, cards=Cards.empty(), schedule=None, decks={}, presets={}, user=None)


def cut_log(log: ReviewLog, count: int) -> ReviewLog:
    """Return the log as it was after `count` entries."""
    table = log.entries if log.entries is not None else log.rows
    assert table is not None
    columns: dict[str, Any] = {}
    for field in fields(table):
        values = getattr(table, field.name)
        columns[field.name] = None if values is None else values[:count]
    cut: Any = {"rows" if log.entries is None else "entries": replace(table, **columns)}
    return replace(log, source_predictions={}, external_predictions={}, **cut)


def measure_points(name: str, log: ReviewLog, sizes: Sequence[int]) -> Iterator[Point]:
    """Yield a point for each size after which there are enough reviews."""
    log = forget_cards(log)
    session = LearnerSession(log)
    trials = session.trials(PROTOCOL)
    entry_index = session.selection(PROTOCOL).entry_index[trials.review_th - 1]
    for size in sizes:
        test = np.flatnonzero(entry_index >= size)
        count = max(MIN_EVALUATED, size // 2)
        if len(test) < count:
            continue
        try:
            lines, usable, seconds = fit_lines(cut_log(log, size))
        except NotEnoughData as reason:
            print(f"left out: {name} after {size:,}: {reason}", file=sys.stderr)
            continue
        yield Point(name, size, usable, evaluate_lines(trials, lines, test[:count]), seconds)


def fit_lines(log: ReviewLog) -> tuple[dict[str, list[float]], int, float]:
    """Return lines fitted to a log, the number of usable reviews, and the teacher's seconds."""
    session = LearnerSession(log)
    trials = session.trials(PROTOCOL)
    train = np.arange(len(trials))
    fractional = session.trials(FRACTIONAL)
    anki = fsrs6.fit_as_anki(trials, train, Context())
    start = time.perf_counter()
    by_teacher = fit_to_teacher(trials, train, fractional, Context())
    seconds = time.perf_counter() - start
    lines = {
        ANKI: anki,
        DEFAULTS: list(fsrs6.DEFAULT),
        TEACHER: by_teacher,
        TAUGHT: average_lines(anki, by_teacher),
    }
    return lines, len(train), seconds


def evaluate_lines(
    trials: Trials, lines: dict[str, list[float]], test: IntArray
) -> dict[str, float]:
    y = trials.y[test]
    return {
        name: log_loss(y, fsrs6.predict(trials, values, test, Context()))
        for name, values in lines.items()
    }


def print_points(points: Sequence[Point]) -> None:
    print(f"\n| learner | K | usable | {' | '.join(LINES)} | seconds |")
    print("|---" * (len(LINES) + 4) + "|")
    for point in points:
        losses = " | ".join(f"{point.loss[name]:.4f}" for name in LINES)
        print(
            f"| {point.learner} | {point.size:,} | {point.usable:,} | {losses} "
            f"| {point.seconds:.2f} |"
        )


def print_table(points: Sequence[Point]) -> None:
    """Print, for each size, how the lines compare with Anki's optimizer and with the defaults."""
    print(
        "\n| K | learners | line | minus Anki's optimizer | standard error | better for "
        "| minus defaults | worse than them by over .001 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for size in sorted({point.size for point in points}):
        of_size = [point for point in points if point.size == size]
        print_rows(f"{size:,}", of_size)
    few = [point for point in points if point.size <= 2500]
    if few:
        print_rows("up to 2,500", few)


def print_rows(size: str, points: Sequence[Point]) -> None:
    loss = {name: np.array([point.loss[name] for point in points]) for name in LINES}
    learners, learner = np.unique([point.learner for point in points], return_inverse=True)
    count = len(points)
    for name in LINES:
        difference = loss[name] - loss[ANKI]
        # A learner's points are alike: the error is that of the sum over learners.
        deviation = np.bincount(learner, difference - difference.mean())
        error = float(np.sqrt((deviation**2).sum() * len(learners) / (len(learners) - 1))) / count
        minus_defaults = loss[name] - loss[DEFAULTS]
        cells = "| | | |"
        if name != ANKI:
            cells = (
                f"| {difference.mean():+.4f} | {error:.4f} | {(difference < 0).sum()} of {count} |"
            )
        print(
            f"| {size} | {len(learners)} | {name} {cells} {minus_defaults.mean():+.4f} "
            f"| {(minus_defaults > WORSE).sum()} |"
        )


@dataclass(frozen=True)
class ActOutcome:
    """The advice on a preset after K entries, and what came of it."""

    learner: str
    candidate: str  # the best change
    is_advised: bool  # whether the change is, or to keep the defaults
    probability: float  # that the best change is better than the defaults
    loss: dict[str, float]  # on later reviews, by candidate
    candidate_without: str  # what would be advised if there were no taught parameters


def measure_acts(name: str, log: ReviewLog, sizes: Sequence[int]) -> Iterator[ActOutcome]:
    """Yield the outcome for each preset that taught parameters are a candidate for."""
    log = remove_stored_parameters(log)
    try:
        future = Learner.of(log)
    except NotEnoughData:
        return
    for size in sizes:
        coming = np.flatnonzero(future.entry_index >= size)[: max(MIN_EVALUATED, size // 2)]
        try:
            learner = Learner.of(cut_log(log, size))
        except NotEnoughData:
            continue
        groups = [group for group in learner.groups if learner.can_be_taught(group)]
        for group in groups:
            test = coming[future.trials.partition[coming] == group]
            if len(test) >= FEWEST_TO_EVALUATE:
                yield measure_act(f"{name} {group}", learner, group, future, test)


def measure_act(
    name: str, learner: Learner, group: int, future: Learner, test: IntArray
) -> ActOutcome:
    """Return what is advised for a preset, with and without teaching, and the losses on `test`."""
    by_teaching: dict[bool, Finding] = {}
    for with_taught in (True, False):
        findings = assess_parameters(learner, list(learner.groups), {}, {}, with_late=with_taught)
        by_teaching[with_taught] = next(
            finding for finding in findings if finding.subject == learner.group_name(group)
        )
    finding = by_teaching[True]
    assert finding.probabilities is not None
    candidate = get_evidence(finding, PresetParameters).compared_candidate
    without = by_teaching[False]
    candidate_without = f.DEFAULTS
    if without.recommendation != Recommendation.KEEP:
        candidate_without = get_evidence(without, PresetParameters).compared_candidate
    loss = {}
    for other in {candidate, candidate_without, f.TAUGHT, f.RECENCY, f.DEFAULTS}:
        values = learner.fit_parameters(other, group)
        assert values is not None
        p = future.predict_with_parameters(values, test)
        loss[other] = float(future.losses(p, test).mean())
    return ActOutcome(
        name,
        candidate,
        finding.recommendation != Recommendation.KEEP,
        finding.probabilities[candidate],
        loss,
        candidate_without,
    )


def print_acts(outcomes: Sequence[ActOutcome]) -> None:
    """Print how sure the acts with taught parameters were, and how often that was right."""
    taught = [
        outcome for outcome in outcomes if outcome.is_advised and outcome.candidate == f.TAUGHT
    ]
    print(f"{len(outcomes)} presets, {len(taught)} times taught parameters are advised")
    for low, high in ((0.0, LIKELY), (LIKELY, SURE), (SURE, 1.0)):
        acts = [outcome for outcome in taught if low <= outcome.probability < high]
        if not acts:
            continue
        told = np.mean([outcome.probability for outcome in acts])
        minus_defaults = np.array([o.loss[f.TAUGHT] - o.loss[f.DEFAULTS] for o in acts])
        minus_optimize = np.array([o.loss[f.TAUGHT] - o.loss[f.RECENCY] for o in acts])
        minus_before = np.array([o.loss[f.TAUGHT] - o.loss[o.candidate_without] for o in acts])
        print(
            f"  told {low:.2f} to {high:.2f} ({told:.2f}): better than the defaults "
            f"{(minus_defaults < 0).sum()} of {len(acts)} ({minus_defaults.mean():+.4f}), than "
            f"Optimize {(minus_optimize < 0).sum()} ({minus_optimize.mean():+.4f}), than what is "
            f"advised without teaching {(minus_before < 0).sum()} ({minus_before.mean():+.4f})"
        )


_Outcome = TypeVar("_Outcome", Point, ActOutcome)
_Measure = Callable[[str, ReviewLog, Sequence[int]], Iterator[_Outcome]]


def measure_simulated(
    measure: _Measure[_Outcome], count: int, sizes: Sequence[int]
) -> dict[str, list[_Outcome]]:
    """Return the outcomes of `count` simulated learners of each truth."""
    outcomes: dict[str, list[_Outcome]] = {}
    for truth in TRUTHS:
        outcomes[truth] = []
        for seed in range(400, 400 + count):
            world = World(
                truth=truth,
                scheduler="sm2" if seed % 2 else "fsrs",
                card_shift=0.35 if seed % 3 == 0 else 0.0,
            )
            log = simulate_world(world, seed, 3 * max(sizes)).log()
            outcomes[truth] += measure(f"{truth} {seed}", log, sizes)
    return outcomes


def measure_real(measure: _Measure[_Outcome], folder: Path, sizes: Sequence[int]) -> list[_Outcome]:
    """Return the outcomes of all people whose histories are in a folder."""
    outcomes: list[_Outcome] = []
    for path in sorted(folder.iterdir()):
        try:
            log = load_log(path)
        except InputError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        outcomes += measure(path.stem, log, sizes)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--simulated", type=int, metavar="LEARNERS", help="of each truth")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="K")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--acts", action="store_true")
    options = parser.parse_args()
    if options.acts:
        for truth, outcomes in measure_all(measure_acts, options).items():
            print(f"\n{truth}:" if truth else "")
            print_acts(outcomes)
        return
    by_truth = measure_all(measure_points, options)
    for truth, points in by_truth.items():
        if truth:
            print(f"\n{truth}:")
        if options.points:
            print_points(points)
        print_table(points)
    if len(by_truth) > 1:
        print("\nall truths:")
        print_table([point for points in by_truth.values() for point in points])


def measure_all(
    measure: _Measure[_Outcome], options: argparse.Namespace
) -> dict[str, list[_Outcome]]:
    """Return the outcomes by truth, for real people under ""."""
    if options.simulated:
        return measure_simulated(measure, options.simulated, options.sizes or SIMULATED_SIZES)
    if options.real is None:
        sys.exit("nobody to predict: give --real or --simulated")
    return {"": measure_real(measure, Path(options.real), options.sizes or SIZES)}


if __name__ == "__main__":
    main()
