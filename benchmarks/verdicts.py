"""Check the verdicts on presets with simulated pairs of presets whose truth is known.

    python benchmarks/verdicts.py [--quick] [--jobs 2] [--pairs 200] [--pairs-only] [--seed 1]
        [--results FILE]

Memories are FSRS-6 with parameters drawn from the published population (success 0.75 to 0.97).
The memories of the two presets lie apart along a random direction, so far that separate parameters
save the wanted log loss: the expected loss with the one set of parameters that fits a history of
20,000 reviews of both best, minus that with the true ones (0: one shared memory). A memory that
cannot be moved so far is drawn again. Of 12 new cards a day one half or 85 % are the first
preset's. Cards differ as the project's simulated learners' do; recall on the logit scale is better
or worse by the day, AR(1) with phi 0.4 and standard deviation 0.4 or 0.9, half of the variance
common to both presets; 2-12 % of days are skipped, at most 250 answers are given a day; cards are
scheduled by FSRS-6 at 0.90 with parameters that are not the truth.

A learner is evaluated again and again as the number of reviews grows. The program prints, each
with its standard error over pairs:

- how often the interval of (split - shared) contains the mean over repetitions of the same learner;
- how often the verdict is "split" or "keep shared", for separate and for pooled parameters, and how
  often splitting is recommended;
- the expected log loss of the 6,000 reviews that follow, with parameters fitted on all before:
  split and pooled minus shared, and how much more the recommendation loses than the best of these;
  "trained" are the fits of FSRS-6's own training. What came of those told to split, and of those
  told to take pooled parameters beside the probability told.

With `--results` each pair's outcome is appended to FILE as it is done; a later call with the
same file only does what is missing. `--quick` uses few pairs: enough to see that everything works,
not to prove the rates.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import SEPARATE, SHARED
from srs_eval.advice.pooling import fit_one_group, fit_pooled
from srs_eval.advice.split import (
    NEGLIGIBLE_LOSS,
    SharingComparison,
    choose_sharing,
    compare_over_all_presets,
    compute_sharing_belief,
)
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.data.reviews import (
    Cards,
    Deck,
    FloatArray,
    ImportSummary,
    IntArray,
    Preset,
    ReviewLog,
    Rows,
)
from srs_eval.data.trials import Fold
from srs_eval.metrics import _EPSILON
from srs_eval.stats.intervals import Interval
from tools.pretraining.population import draw
from tools.simulated.learner import average_over_shifts
from tools.simulated.memory import (
    DEFAULT_PARAMETERS,
    SPREAD,
    first_state,
    fuzz_interval,
    interval_for,
    next_state,
    retrievability,
)

NEW_A_DAY = 12  # cards
MOST_A_DAY = 250  # answers
RETENTION = 0.90
PHI = 0.4  # correlation of the effects of successive days
# Differences between cards, as those of tools.simulated.learner.
STRENGTH = 0.35
HARDNESS = 0.8
LONGEST_DAYS = 2_000
LONG_HISTORY = 20_000  # reviews on which parameters differ as wanted
# The search for such parameters: tries, tolerated relative error, first and largest distance.
TRIES = 6
NEAR_ENOUGH = 0.1
NEAR = 3.0
FARTHEST = 6.0
FUTURE = 6_000  # number of reviews that follow
SPLIT_FROM_POOLED = "split from pooled"  # name of that difference in an outcome
CELL = ("first preset's cards", "own save", "reviews a preset", "pairs")
TRAINED = {
    "shared, trained": "one for all presets",
    "split, trained": "optimized",
}


@dataclass(frozen=True)
class Situation:
    """The questions about one learner, and the truth about them."""

    advantage: float  # of separate parameters, in log loss; 0: one memory
    larger: float  # share of new cards in the first preset
    day_effect: float
    sizes: tuple[int, ...]  # reviews of later days per preset, on average over both
    repeats: int = 0  # of the same learner with other random draws; 0: one run and its future

    @property
    def kind(self) -> str:
        return " ".join(map(str, astuple(self)))


@dataclass(frozen=True, eq=False)
class Simulated:
    """A learner's reviews, and the true probability (n,) of recalling each of them.

    `usual_recall` is that on a day like any other: the average over the effects of days.
    """

    learner: Learner
    recall: FloatArray
    usual_recall: FloatArray

    def take_first(self, count: int) -> Learner:
        """Return the learner at the time of this many reviews of later days."""
        log = self.learner.log
        assert log.rows is not None
        if count >= len(self.learner.trials):
            return self.learner
        end = int(self.learner.trials.review_th[count]) - 1
        columns = log.rows.__dict__.items()
        early: dict[str, Any] = {
            name: None if column is None else column[:end] for name, column in columns
        }
        return Learner.of(
            ReviewLog(
                log.import_summary,
                rows=Rows(**early),
                cards=log.cards,
                decks=log.decks,
                presets=log.presets,
            )
        )

    def compute_expected_loss(
        self, p: FloatArray, index: IntArray, *, on_usual_days: bool = False
    ) -> float:
        """Return the expected loss of predictions (k,), averaged over the positions (k,)."""
        p = np.clip(p, _EPSILON, 1 - _EPSILON)
        recall = self.usual_recall if on_usual_days else self.recall
        r = recall[index]
        return float(-(r * np.log(p) + (1 - r) * np.log1p(-p)).mean())

    def predict_with_own(self, by_group: Sequence[Sequence[float]], index: IntArray) -> FloatArray:
        """Predict the positions (k,), each preset with its own parameters."""
        p = np.empty(len(self.learner.trials))
        partition = self.learner.trials.partition[index]
        for group, parameters in enumerate(by_group):
            positions = index[partition == group]
            p[positions] = self.learner.predict_with_parameters(parameters, positions)
        return p[index]


def draw_true_parameters(random: np.random.Generator, situation: Situation) -> FloatArray:
    """Draw parameters of both presets (2, 21)."""
    while True:
        drawn = draw(random, "FSRS-5")
        if not 0.75 <= drawn.success <= 0.97:
            continue
        w = np.array([*drawn.parameters, random.uniform(0.0, 0.2), random.uniform(0.1, 0.45)])
        if not situation.advantage:
            return np.stack([w, w])
        direction = random.standard_normal(21) * SPREAD
        direction[19] = 0.0
        seed = int(random.integers(1 << 30))
        size = NEAR
        for _ in range(TRIES):
            truth = _move_apart(w, size * direction)
            advantage = _compute_advantage(truth, situation, seed)
            if abs(advantage / situation.advantage - 1) < NEAR_ENOUGH:
                return truth
            # The advantage grows with the square of the distance.
            size *= math.sqrt(situation.advantage / max(advantage, situation.advantage / 9))
            if size > FARTHEST:
                break


def _move_apart(w: FloatArray, step: FloatArray) -> FloatArray:
    moved = np.stack([w * np.exp(step / 2), w * np.exp(-step / 2)])
    moved[:, 4] = np.clip(moved[:, 4], 1, 10)
    moved[:, 20] = np.clip(moved[:, 20], 0.1, 0.8)
    return moved


def _compute_advantage(truth: FloatArray, situation: Situation, seed: int) -> float:
    """Return how much the true parameters save against one set for both, given many reviews."""
    history = simulate(np.random.default_rng(seed), truth, LONG_HISTORY, situation)
    positions = np.arange(len(history.learner.trials))
    shared = fit_one_group(history.learner.trials, positions)
    p = history.predict_with_own([shared, shared], positions)
    true = history.predict_with_own(truth.tolist(), positions)
    return history.compute_expected_loss(p, positions) - history.compute_expected_loss(
        true, positions
    )


def simulate(
    random: np.random.Generator, truth: FloatArray, reviews: int, situation: Situation
) -> Simulated:
    """Simulate a learner with two presets and at least this many reviews of later days in total."""
    size = NEW_A_DAY * LONGEST_DAYS
    of_second = np.floor(np.arange(size + 1) * (1 - situation.larger) + 1e-9)
    preset = np.diff(of_second).astype(np.int64)
    strength = np.exp(STRENGTH * random.standard_normal(size))
    hardness = HARDNESS * random.standard_normal(size)
    stored = np.array(DEFAULT_PARAMETERS) * np.exp(0.5 * SPREAD * random.standard_normal(21))
    believed = stored[:, None]  # the same for all cards
    s, d, bs, bd = np.zeros((4, size))
    due = np.full(size, np.iinfo(np.int64).max)
    last = np.zeros(size, np.int64)
    first = np.array([0.3, 0.08, 0.5, 0.12])
    skips = random.uniform(0.02, 0.12)
    deviation = situation.day_effect * math.sqrt(0.5)
    effect = random.standard_normal(3) * deviation  # of the first preset, the second, and both
    card_parts: list[np.ndarray] = []
    day_parts: list[np.ndarray] = []
    rating_parts: list[np.ndarray] = []
    elapsed_parts: list[np.ndarray] = []
    recall_parts: list[np.ndarray] = []
    usual_parts: list[np.ndarray] = []
    done = begun = 0
    for day in range(LONGEST_DAYS):
        effect = PHI * effect + random.standard_normal(3) * deviation * math.sqrt(1 - PHI**2)
        if random.random() < skips:
            continue
        cards = np.flatnonzero(due[:begun] <= day)[: MOST_A_DAY - NEW_A_DAY]
        elapsed = (day - last[cards]).astype(float)
        w = truth.T[:, preset[cards]]
        r = retrievability(w, s[cards] * strength[cards], elapsed)
        usual_logit = np.log(r / (1 - r))
        logit = usual_logit + effect[2] + effect[preset[cards]]
        recall = 1 / (1 + np.exp(-logit))
        forgotten = random.random(len(cards)) >= recall
        rating = np.where(forgotten, 1, random.choice([2, 3, 4], len(cards), p=[0.1, 0.8, 0.1]))
        fresh = np.arange(begun, begun + NEW_A_DAY)
        begun += len(fresh)
        start = random.choice([1, 2, 3, 4], len(fresh), p=first)
        moved = np.clip(d[cards] + hardness[cards], 1, 10)
        s[cards], after = next_state(w, s[cards], moved, rating, elapsed)
        d[cards] = np.clip(after - hardness[cards], 1, 10)
        bs[cards], bd[cards] = next_state(believed, bs[cards], bd[cards], rating, elapsed)
        s[fresh], d[fresh] = first_state(truth.T[:, preset[fresh]], start)
        bs[fresh], bd[fresh] = first_state(np.repeat(believed, len(fresh), 1), start)
        answered = np.concatenate([cards, fresh])
        wait = interval_for(believed, bs[answered], np.full(len(answered), RETENTION))
        due[answered] = day + np.maximum(fuzz_interval(random, np.maximum(wait, 1)), 1)
        last[answered] = day
        elapsed_of_all = np.concatenate([elapsed, np.full(len(fresh), -1.0)])
        card_parts.append(answered)
        day_parts.append(np.full(len(answered), day))
        rating_parts.append(np.concatenate([rating, start]))
        elapsed_parts.append(elapsed_of_all.astype(np.int64))
        first_reviews = np.full(len(fresh), math.nan)
        recall_parts.append(np.concatenate([recall, first_reviews]))
        usual_recall = average_over_shifts(usual_logit, situation.day_effect)
        usual_parts.append(np.concatenate([usual_recall, first_reviews]))
        done += len(cards)
        if done >= reviews:
            break
    else:
        raise RuntimeError(f"{LONGEST_DAYS:,} days are too few for {reviews:,} reviews")
    card = np.concatenate(card_parts)
    elapsed_days = np.concatenate(elapsed_parts)
    recalls = np.concatenate(recall_parts)
    usual_recalls = np.concatenate(usual_parts)
    card_ids = np.unique(card)
    log = ReviewLog(
        ImportSummary("", "simulated", len(card)),
        rows=Rows(
            card_id=card,
            day_offset=np.concatenate(day_parts),
            rating=np.concatenate(rating_parts),
            state=np.where(elapsed_days < 0, 0, 2),
            duration_ms=np.full(len(card), 5_000),
            elapsed_days=elapsed_days,
            elapsed_seconds=np.where(elapsed_days < 0, -1, elapsed_days * 86_400),
        ),
        cards=Cards(card_ids, card_ids, preset[card_ids], np.zeros(len(card_ids), np.bool_)),
        decks={0: Deck(0, "A", 0), 1: Deck(1, "B", 1)},
        presets={0: Preset(0, "A"), 1: Preset(1, "B")},
    )
    learner = Learner.of(log)
    row = learner.trials.review_th - 1
    return Simulated(learner, recalls[row], usual_recalls[row])


# One learner


def evaluate(task: tuple[int, int, Situation]) -> dict[str, Any]:
    """Return one learner's verdicts and the truth, as a line of JSON."""
    seed, number, situation = task
    truth = draw_true_parameters(np.random.default_rng([seed, number]), situation)
    record = {
        "kind": situation.kind,
        "seed": seed,
        "number": number,
        "situation": asdict(situation),
    }
    if situation.repeats:
        return {**record, "intervals": list(_simulate_repetitions(seed, number, situation, truth))}
    chances = np.random.default_rng([seed, number, 0])
    simulated = simulate(chances, truth, 2 * max(situation.sizes) + FUTURE, situation)
    return {
        **record,
        "sizes": {str(size): _evaluate_at_size(simulated, size) for size in situation.sizes},
    }


def _simulate_repetitions(
    seed: int, number: int, situation: Situation, truth: FloatArray
) -> Iterator[tuple[float, float]]:
    """Yield (split - shared) and the half-width of its interval, for each repetition."""
    (size,) = situation.sizes
    for repeat in range(situation.repeats):
        chances = np.random.default_rng([seed, number, repeat])
        learner = simulate(chances, truth, 2 * size, situation).learner
        change = learner.held_out_losses(SEPARATE) - learner.held_out_losses(SHARED)
        interval = learner.interval(change, learner.trials.test_index)
        yield interval.estimate, interval.half_width


def _evaluate_at_size(simulated: Simulated, size: int) -> dict[str, Any]:
    """Return the decisions at this many reviews a preset, and the later expected loss."""
    comparison = compare_over_all_presets(simulated.take_first(2 * size))
    intervals = {**comparison.from_shared, SPLIT_FROM_POOLED: comparison.split_from_pooled}
    trials = simulated.learner.trials
    train = np.arange(2 * size)
    after = np.arange(2 * size, 2 * size + FUTURE)
    by_group = {group: train[trials.partition[train] == group] for group in (0, 1)}
    pooled = fit_pooled(trials, by_group)
    parameters = {
        "shared": [pooled.shared, pooled.shared],
        "split": [fit_one_group(trials, by_group[group]) for group in (0, 1)],
        "pooled": [pooled.by_group[group] for group in (0, 1)],
    }
    later = {}
    for way, by_preset in parameters.items():
        later[way] = simulated.predict_with_own(by_preset, after)
    for way, candidate in TRAINED.items():
        later[way] = simulated.learner.predict(candidate, [Fold(train, after)])
    return {
        "decisions": comparison.decisions,
        "intervals": {
            way: [interval.estimate, interval.half_width, interval.standard_error, interval.reviews]
            for way, interval in intervals.items()
        },
        "later": {way: simulated.compute_expected_loss(p, after) for way, p in later.items()},
        "taus": [pooled.taus[group] for group in (0, 1)],
    }


# Output


def compute_coverage(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the share of repetitions whose interval contains the mean of the others."""
    estimate, half_width = np.array(intervals).T
    mean_of_others = (estimate.sum() - estimate) / (len(estimate) - 1)
    return float((np.abs(mean_of_others - estimate) <= half_width).mean())


def print_report(records: Iterable[dict[str, Any]]) -> None:
    """Print all results as Markdown, each number followed by its standard error."""
    pairs: dict[tuple[float, float, float], dict[int, list[dict[str, Any]]]] = {}
    coverage: dict[tuple[float, int], list[float]] = defaultdict(list)
    for record in records:
        situation = record["situation"]
        if situation["repeats"]:
            cell = situation["day_effect"], situation["sizes"][0]
            coverage[cell].append(compute_coverage(record["intervals"]))
        else:
            key = situation["larger"], situation["advantage"], situation["day_effect"]
            by_size = pairs.setdefault(key, defaultdict(list))
            for size, outcome in record["sizes"].items():
                by_size[int(size)].append(outcome)
    print("Intervals of (split - shared) that hold the mean over repetitions, in %\n")
    print_table(
        ("day effect", "reviews a preset", "learners", "cover"),
        (
            (str(day_effect), f"{size:,}", str(len(shares)), format_mean(shares, 0.01, 1))
            for (day_effect, size), shares in sorted(coverage.items())
        ),
    )
    print("\nWhat is said, in % of the pairs; the last two where the following reviews tell")
    print("that it was wrong\n")
    rate_rows = []
    regrets: list[float] = []
    loss_rows = []
    for key, by_size in sorted(pairs.items()):
        for size, outcomes in sorted(by_size.items()):
            situation_cells = format_situation(key, size, outcomes)
            rate_rows.append((*situation_cells, *format_rates(outcomes)))
            figures, pair_regrets = compute_losses(outcomes)
            loss_rows.append((*situation_cells, *figures))
            regrets += pair_regrets
    print_table(
        (
            *CELL,
            "split",
            "recommended",
            "keep shared",
            "pooled better",
            "pooled: keep",
            "split loses",
            "keep loses",
        ),
        rate_rows,
    )
    print("\nExpected log loss of the reviews that follow minus that of shared parameters, in")
    print("units of 0.0001; the last column: what is recommended minus the best of the three\n")
    print_table((*CELL, "split", "pooled", *TRAINED, "recommended - best"), loss_rows)
    if regrets:
        print(f"\nRecommended minus the best over all these: {format_mean(regrets, 1e-4, 1)}")
        outcomes = []
        for by_size in pairs.values():
            for of_size in by_size.values():
                outcomes += of_size
        for line in describe_recommendations(outcomes):
            print(line)


def describe_recommendations(outcomes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what came of the pairs told to split, and of those told to take pooled parameters."""
    split = [outcome["later"] for outcome in outcomes if recommend(outcome) == "split"]
    if split:
        fits = [later["split"] - later["pooled"] for later in split]
        trained = [later["split, trained"] - later["pooled"] for later in split]
        yield (
            f"Split in {len(split)}: separate minus pooled {format_mean(fits, 1e-4, 0)}, by Anki's "
            f"button minus pooled {format_mean(trained, 1e-4, 0)}"
        )
    told = []
    harmless = []
    for outcome in outcomes:
        if recommend(outcome) == "pooled":
            difference = load_intervals(outcome)["pooled"]
            told.append(compute_sharing_belief(difference).probability)
            later = outcome["later"]
            harmless.append(later["pooled"] - later["shared"] < NEGLIGIBLE_LOSS)
    if told:
        yield (
            f"Pooled in {len(told)}: told {np.mean(told):.2f} that it is no worse than shared, "
            f"true in {np.mean(harmless):.0%}"
        )


def format_situation(
    key: tuple[float, float, float], size: int, outcomes: Sequence[dict[str, Any]]
) -> tuple[str, ...]:
    larger, advantage, _ = key
    return f"{100 * larger:.0f} %", str(advantage), f"{size:,}", str(len(outcomes))


def format_rates(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """Return how often each verdict occurs and how often it is wrong."""
    split = [outcome["decisions"]["split"] for outcome in outcomes]
    pooled = [outcome["decisions"]["pooled"] for outcome in outcomes]
    gains = [outcome["later"]["shared"] - outcome["later"]["split"] for outcome in outcomes]
    evaluated = list(zip(split, gains, strict=True))
    hits_by_column = (
        [verdict == "split" for verdict in split],
        [recommend(outcome) == "split" for outcome in outcomes],
        [verdict == "keep shared" for verdict in split],
        [verdict == "split" for verdict in pooled],
        [verdict == "keep shared" for verdict in pooled],
        [verdict == "split" and gain < 0 for verdict, gain in evaluated],
        [verdict == "keep shared" and gain > EQUIVALENCE_MARGIN for verdict, gain in evaluated],
    )
    return [format_rate(hits) for hits in hits_by_column]


def compute_losses(outcomes: Sequence[dict[str, Any]]) -> tuple[list[str], list[float]]:
    """Return the later losses, and the regret of the recommendation for each pair.

    The losses are relative to shared parameters. Regret is the loss of the recommended parameters
    minus that of the best ones.
    """
    later = {}
    for way in outcomes[0]["later"]:
        later[way] = np.array([outcome["later"][way] for outcome in outcomes])
    best = np.min([later[way] for way in ("shared", "split", "pooled")], 0)
    recommended = []
    for outcome in outcomes:
        way = recommend(outcome).removeprefix("keep ")
        recommended.append(outcome["later"][way])
    regrets = recommended - best
    figures = [later[way] - later["shared"] for way in later if way != "shared"]
    cells = [format_mean(losses, 1e-4, 0) for losses in (*figures, regrets)]
    return cells, regrets.tolist()


def recommend(outcome: dict[str, Any]) -> str:
    """Apply the current rule for recommendations to the differences of a pair."""
    intervals = load_intervals(outcome)
    split_from_pooled = intervals.pop(SPLIT_FROM_POOLED)
    return choose_sharing(SharingComparison(intervals, outcome["decisions"], split_from_pooled))


def load_intervals(outcome: dict[str, Any]) -> dict[str, Interval]:
    """Return the differences of a pair, by name."""
    return {
        way: Interval(estimate, half_width, reviews, errors=((error, 1),))
        for way, (estimate, half_width, error, reviews) in outcome["intervals"].items()
    }


def format_rate(hits: Sequence[bool]) -> str:
    """Format a rate in %, with its standard error (for no or only hits, that of half a hit)."""
    share = float(np.mean(hits))
    error = math.sqrt(max(share * (1 - share), 0.5 / len(hits)) / len(hits))
    return f"{100 * share:.0f} ({100 * error:.1f})"


def format_mean(values: Sequence[float] | FloatArray, unit: float, digits: int) -> str:
    """Format the mean with its standard error."""
    scaled = np.array(values) / unit
    error = scaled.std(ddof=1) / math.sqrt(len(scaled)) if len(scaled) > 1 else math.nan
    return f"{scaled.mean():.{digits}f} ({error:.1f})"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def make_tasks(options: argparse.Namespace) -> list[tuple[int, int, Situation]]:
    """List all simulations; each situation's first pairs come first."""
    sizes = (1_500, 3_000) if options.quick else (500, 1_500, 3_000, 6_000)
    advantages = (0.0, 0.01) if options.quick else (0.0, 0.003, 0.005, 0.01, 0.02)
    pairs = 12 if options.quick else options.pairs
    learners, repeats = (6, 8) if options.quick else (5, 25)  # for each advantage
    plans: list[tuple[range, Situation]] = []
    for advantage in advantages:
        plans.append((range(pairs), Situation(advantage, 0.5, 0.4, sizes)))
        plans.append((range(pairs // 4), Situation(advantage, 0.85, 0.4, sizes)))
        if not options.quick:  # nearly certain cases
            plans.append((range(pairs // 4), Situation(advantage, 0.5, 0.4, (20_000,))))
    for day_effect in (0.4,) if options.quick else (0.4, 0.9):
        repeated_sizes: tuple[int, ...] = sizes[:1] if options.quick else (1_500, 6_000)
        if options.pairs_only:
            repeated_sizes = ()
        for size in repeated_sizes:
            plans += [
                (range(learners), Situation(advantage, 0.5, day_effect, (size,), repeats))
                for advantage in advantages
            ]
    if not options.quick:  # one memory for both at 6,000 needs more precision
        plans.append((range(pairs, 3 * pairs), Situation(0.0, 0.5, 0.4, (6_000,))))
    # Interleaved, so that an interrupted run covers all situations.
    tasks = []
    for numbers, situation in plans:
        for position, number in enumerate(numbers):
            tasks.append((position / len(numbers), (options.seed, number, situation)))
    tasks.sort(key=lambda item: item[0])
    return [task for _, task in tasks]


def load_outcomes(path: Path | None) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Load outcomes of earlier calls, by situation, seed and number."""
    if path is None or not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return {(record["kind"], record["seed"], record["number"]): record for record in records}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few pairs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=200, help="in each situation")
    parser.add_argument("--pairs-only", action="store_true", help="no intervals of repetitions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="go on with this file (JSON lines)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    start = time.time()
    records = load_outcomes(options.results)
    tasks = {(task[2].kind, task[0], task[1]): task for task in make_tasks(options)}
    missing = [task for key, task in tasks.items() if key not in records]
    with (
        ProcessPoolExecutor(options.jobs) as pool,
        (options.results or Path(os.devnull)).open("a", encoding="utf-8") as file,
    ):
        for done in as_completed([pool.submit(evaluate, task) for task in missing]):
            record = done.result()
            records[record["kind"], record["seed"], record["number"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    print_report(records[key] for key in tasks)
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
