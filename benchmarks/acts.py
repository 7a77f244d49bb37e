"""Check the acts on parameters with simulated learners whose truth is known.

    python benchmarks/acts.py [--learners 60] [--truth TRUTH|all] [--persistence 0.4] [--day-sd 0.4]
        [--sizes 1200 3000 7000] [--jobs 2] [--seed 1] [--results FILE]

A learner's memory is that of one preset of benchmarks/verdicts.py or, with `--truth`, of
`tools.simulated.worlds`: "FSRS-6", "power law", "ACT-R" or all three in turn, where `--persistence`
is the correlation of the effects of successive days and `--day-sd` their standard deviation; the
memory before a change is then another learner's. Each learner has one of the sizes, and is given
parameters of six kinds in turn: none (FSRS's defaults), good ones (fitted to 12,000 other reviews
of the same memory), those fitted to the first half or to 19 of 20 of the learner's own reviews,
another learner's, and stale ones (fitted to 12,000 reviews before the memory changed). The advice
comes from the reviews so far. Its truth is known: the expected log loss on the 3,000 reviews that
follow, of the stored parameters minus that of the parameters recommended or, if nothing is to be
changed, of a refit. There are two truths:

- days to come: each review has the probability of recall of its own day, so that a good or bad
  spell goes on;
- year: each review has the probability averaged over the distribution of days' effects, as over a
  year in which good and bad spells take turns. Expected log loss is linear in the probability of
  recall, so that this is the expectation over all years there might be; one simulated year would
  add its own chance (at a correlation of 0.95 it has some ten spells). The reviews and their
  histories are the same as for the days to come, so that the columns differ by the days alone.

Printed are, by kind of parameters, the probability told that a refit helps beside how often it
does, and how often the true gain lies in the told interval; then, for each truth, how often acts
that are sure, likely or open are right, and how often a change that hardly matters would have
gained more than that. A line of JSON for each learner and kind is appended to `--results`; a later
call with the same file only does what is missing, and prints only what it was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _tables import format_wilson

from benchmarks.advice import cut_log
from benchmarks.verdicts import PHI, Simulated, Situation, draw_true_parameters, simulate
from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.parameters import _assess_preset
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.data.reviews import IntArray
from srs_eval.models import fsrs6
from tools.simulated.learner import simulate_learner
from tools.simulated.memory import SPREAD
from tools.simulated.worlds import TRUTHS, World, draw_character

SIZES = (1_200, 3_000, 7_000)
KINDS = ("none", "good", "own, half", "own, 19 of 20", "another's", "stale")
OTHER_REVIEWS = 12_000
FUTURE = 3_000
ONE_PRESET = Situation(advantage=0.0, larger=1.0, day_effect=0.4, sizes=())
MEMORY_CHANGE = 1.0  # in units of the spread between learners
PRESETS_OF_VERDICTS = "presets"  # name of the memories of benchmarks/verdicts.py
WORDS = (("sure", 0.95, 1.01), ("likely", 0.8, 0.95), ("open", 0.0, 0.8))


@dataclass(frozen=True, eq=False)
class LearnerWithParameters(Learner):
    """Learner whose only preset has stored parameters, fitted before the position `fitted_at`."""

    stored_parameters: tuple[float, ...] = ()
    fitted_at: int = 0

    def stored(self, group: int) -> tuple[float, ...]:
        return self.stored_parameters

    def active_parameters(self, group: int) -> list[float]:
        return list(self.stored_parameters or fsrs6.DEFAULT)

    def since_optimized(self, group: int) -> IntArray | None:
        if not self.stored_parameters:
            return super().since_optimized(group)
        return np.arange(self.fitted_at, len(self.trials))


@dataclass(frozen=True)
class Source:
    """Source of simulated learners: each number is a memory, each seed other chances of it."""

    seed: int
    world: World | None  # None: the presets of benchmarks/verdicts.py
    sizes: tuple[int, ...] = SIZES  # reviews so far, of one learner after the other

    @property
    def truth(self) -> str:
        return PRESETS_OF_VERDICTS if self.world is None else self.world.truth

    @property
    def persistence(self) -> float:
        return PHI if self.world is None else self.world.day_persistence

    @property
    def day_sd(self) -> float:
        return ONE_PRESET.day_effect if self.world is None else self.world.day_sd

    def simulate(self, number: int, chance: int, reviews: int, change: float = 0.0) -> Simulated:
        """Simulate at least so many reviews of later days; `change` moves the memory, if it can."""
        if self.world is not None:
            seed = 1_000_000 * self.seed + 1_000 * number
            character = draw_character(self.world, np.random.default_rng(seed + (change > 0)))
            entries = 2 * reviews + 2_000
            collection = simulate_learner(
                seed + chance, entries, incidents=False, character=character
            )
            learner = Learner.of(collection.log())
            return Simulated(
                learner,
                collection.recall[learner.entry_index],
                collection.average_recall_over_days(self.day_sd)[learner.entry_index],
            )
        random = np.random.default_rng([self.seed, number])
        truth = draw_true_parameters(random, ONE_PRESET)
        truth = truth * np.exp(change * SPREAD * random.standard_normal(21))
        truth[:, 4] = np.clip(truth[:, 4], 1, 10)
        truth[:, 20] = np.clip(truth[:, 20], 0.1, 0.8)
        chances = np.random.default_rng([self.seed, number, chance])
        return simulate(chances, truth, reviews, ONE_PRESET)


Task = tuple[Source, int]
"""A source of learners, and the number of one of them."""


def make_key(task: Task) -> tuple[Any, ...]:
    """Return what tells this learner from all others, as in a record of results."""
    source, number = task
    return (source.truth, source.persistence, source.day_sd, source.seed, number)


def get_key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in ("truth", "persistence", "day sd", "seed", "number"))


def evaluate(task: Task) -> list[dict[str, Any]]:
    """Return the advice and its outcome for one learner, for each kind of parameters."""
    source, number = task
    size = source.sizes[number % len(source.sizes)]
    simulated = source.simulate(number, 1, size + FUTURE)
    learner = Learner.of(cut_log(simulated.learner.log, simulated.learner, size))
    (group,) = learner.groups
    refit = fit(learner)
    records = []
    for kind in KINDS:
        parameters, fitted_at = choose_parameters(kind, source, number, learner)
        with_parameters, finding = assess_with_parameters(learner, parameters, fitted_at)
        active = with_parameters.active_parameters(group)
        recommended: Sequence[float] = refit
        if finding.recommendation == Recommendation.DEFAULTS:
            recommended = fsrs6.DEFAULT
        if finding.recommendation == Recommendation.TAUGHT:
            recommended = learner.fit_taught(np.arange(size))
        refit_gain = compute_gain(simulated, active, refit, size)
        act_gain = compute_gain(simulated, active, recommended, size)
        records.append(
            {
                "truth": source.truth,
                "persistence": source.persistence,
                "day sd": source.day_sd,
                "seed": source.seed,
                "number": number,
                "size": size,
                "kind": kind,
                "refit gain": refit_gain.coming,
                "act gain": act_gain.coming,
                "refit gain of the year": refit_gain.year,
                "act gain of the year": act_gain.year,
                "divergence": population.compute_divergence(
                    learner.predict_with_parameters(refit, np.arange(size)),
                    learner.predict_with_parameters(active, np.arange(size)),
                ),
                **describe_finding(finding),
            }
        )
    return records


@dataclass(frozen=True)
class Gain:
    """True reduction of the expected log loss by a change of parameters."""

    coming: float  # in the days that come
    year: float  # over days like all days of the learner


def compute_gain(
    simulated: Simulated, active: Sequence[float], changed: Sequence[float], size: int
) -> Gain:
    """Compute what other parameters gain on the reviews that follow the first `size`."""
    coming = np.arange(size, size + FUTURE)
    p_active = simulated.learner.predict_with_parameters(active, coming)
    p_changed = simulated.learner.predict_with_parameters(changed, coming)
    gains = []
    for on_usual_days in (False, True):
        loss, changed_loss = (
            simulated.compute_expected_loss(p, coming, on_usual_days=on_usual_days)
            for p in (p_active, p_changed)
        )
        gains.append(loss - changed_loss)
    return Gain(*gains)


def assess_with_parameters(
    learner: Learner, parameters: tuple[float, ...], fitted_at: int
) -> tuple[LearnerWithParameters, f.Finding]:
    """Return the learner with stored parameters for the only preset, and the advice on it."""
    (group,) = learner.groups
    with_parameters = LearnerWithParameters(
        **{name: getattr(learner, name) for name in ("log", "session", "trials", "context")},
        stored_parameters=parameters,
        fitted_at=fitted_at,
    )
    finding = _assess_preset(
        with_parameters,
        group,
        None,
        can_share=False,
        with_late=True,
    )
    return with_parameters, finding


def choose_parameters(
    kind: str, source: Source, number: int, learner: Learner
) -> tuple[tuple[float, ...], int]:
    """Return stored parameters of a kind, and how many of the reviews they were fitted to."""
    if kind == "none":
        return (), 0
    if kind.startswith("own"):
        share = 0.5 if kind == "own, half" else 0.95
        count = round(share * len(learner.trials))
        return tuple(fit(learner, count)), count
    change = MEMORY_CHANGE if kind == "stale" else 0.0
    whose = number + 500 if kind == "another's" else number
    other = source.simulate(whose, 2, OTHER_REVIEWS, change).learner
    return tuple(fit(other)), 0


def fit(learner: Learner, count: int | None = None) -> list[float]:
    """Fit FSRS-6 as Anki does it to the first `count` reviews."""
    from srs_eval.data.trials import compute_recency_weights

    index = np.arange(len(learner.trials) if count is None else count)
    weights = compute_recency_weights(len(index))
    return fsrs6.fit(learner.trials, index, weights, learner.context)


def describe_finding(finding: f.Finding) -> dict[str, Any]:
    """Return what the advice says about a refit and about its act."""
    evidence = f.get_evidence(finding, f.PresetParameters)
    by_name = {candidate.name: candidate for candidate in evidence.candidates}
    refit = by_name[f.RECENCY]
    belief = refit.belief
    assert belief is not None
    now = by_name[f.CURRENT].log_loss
    defaults = by_name[f.DEFAULTS].log_loss
    own = refit.difference
    return {
        "act": finding.recommendation,
        "probability": finding.probability,
        "hardly matters": finding.hardly_matters,
        "refit probability": belief.probability,
        "told": [belief.gain, belief.low, belief.high],
        "own": None if own is None else [own.estimate, own.standard_error, own.reviews],
        "ahead of defaults": None
        if now is None or defaults is None
        else defaults.estimate - now.estimate,
    }


# Output


def print_report(records: Sequence[dict[str, Any]]) -> None:
    learners = {get_key(record) for record in records}
    truths = sorted({record["truth"] for record in records})
    by_truth = []
    for truth in truths:
        count = sum(key[0] == truth for key in learners)
        by_truth.append(f"{truth} {count}")
    print(f"Learners: {', '.join(by_truth)}. Gains are those of the days to come.")
    print()
    print("| parameters | learners | P that a refit helps | it helps | gain, 0.0001 "
          "| in interval |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for kind in (*KINDS, ""):
        chosen = [record for record in records if kind in ("", record["kind"])]
        gains = np.array([record["refit gain"] for record in chosen])
        told = np.array([record["refit probability"] for record in chosen])
        low, high = np.array([record["told"][1:] for record in chosen]).T
        held = (low <= gains) & (gains <= high)
        print(
            f"| {kind or 'all'} | {len(chosen)} | {told.mean():.2f} | {(gains > 0).mean():.2f} "
            f"| {1e4 * gains.mean():.0f} | {100 * held.mean():.0f} % |"
        )
    print()
    print("| truth | act | right in the days to come | right over the year |")
    print("|---|---|---|---|")
    if len(truths) > 1:
        truths.append("")
    for truth in truths:
        chosen = [record for record in records if truth in ("", record["truth"])]
        for line in describe_acts(chosen):
            print(f"| {truth or 'all'} | {line} |")


def describe_acts(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the cells of a row for each word, and one for changes that hardly matter."""
    for word, low, high in WORDS:
        acts = [record for record in records if low <= record["probability"] < high]
        cells = []
        for gain in ("act gain", "act gain of the year"):
            right = sum(is_right(record, gain) for record in acts)
            cells.append(format_wilson(right, len(acts)))
        yield " | ".join([word, *cells])
    acts = [record for record in records if record["hardly matters"]]
    cells = []
    for gain in ("refit gain", "refit gain of the year"):
        modest = sum(record[gain] <= EQUIVALENCE_MARGIN for record in acts)
        cells.append(format_wilson(modest, len(acts)))
    yield " | ".join(["hardly matters (and no more gained)", *cells])


def is_right(record: dict[str, Any], gain: str) -> bool:
    """Return True if the act gains something or, if nothing is to be changed, a refit hardly."""
    if record["act"] == Recommendation.KEEP:
        return bool(record[gain] <= EQUIVALENCE_MARGIN)
    return bool(record[gain] > 0)


def make_tasks(options: argparse.Namespace) -> list[Task]:
    """List the learners asked for; with three truths in turn, sizes change after each three."""
    worlds: list[World | None] = [None]
    if options.truth is not None:
        truths = TRUTHS if options.truth == "all" else (options.truth,)
        worlds = [
            World(truth=truth, day_persistence=options.persistence, day_sd=options.day_sd)
            for truth in truths
        ]
    sources = [Source(options.seed, world, tuple(options.sizes)) for world in worlds]
    return [
        (sources[learner % len(sources)], learner // len(sources))
        for learner in range(options.learners)
    ]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--learners", type=int, default=60, help="number of them, of all truths")
    parser.add_argument(
        "--truth", choices=(*TRUTHS, "all"), help="a memory of tools.simulated.worlds"
    )
    parser.add_argument("--persistence", type=float, default=0.4, help="of the days' effects")
    parser.add_argument("--day-sd", type=float, default=0.4, help="of the days' effects")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="reviews so far")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="go on with this file (JSON lines)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    tasks = make_tasks(options)
    keys = {make_key(task) for task in tasks}
    records: list[dict[str, Any]] = []
    if options.results is not None and options.results.exists():
        for line in options.results.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if get_key(record) in keys:
                records.append(record)
    done = {get_key(record) for record in records}
    with (
        ProcessPoolExecutor(options.jobs) as pool,
        (options.results or Path(os.devnull)).open("a", encoding="utf-8") as file,
    ):
        futures = [pool.submit(evaluate, task) for task in tasks if make_key(task) not in done]
        for future in as_completed(futures):
            for record in future.result():
                records.append(record)
                file.write(json.dumps(record) + "\n")
            file.flush()
    print_report(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
