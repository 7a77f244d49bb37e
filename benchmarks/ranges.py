"""Check what is said about costs on learners whose memory is known and is not the model's.

    python benchmarks/ranges.py [--learners 100] [--assume optimized] [--jobs 2] [--results FILE]
        [--quick]

Learners of three kinds (power law, ACT-R, FSRS-6; half of them with SM-2) study for some months.
Their collection is written, read, and answered by `srs_eval.workload`. Then the same learner goes
on for a year with the true memory: once under today's schedule, and once at each desired retention
under FSRS with exactly the parameters that the program has fitted (with --assume current: under
FSRS with the learner's current parameters). Figures of that year are the truth. Cards of power-law
and ACT-R learners differ (standard deviation 0.45 logits, 22 % of speed); days shift the logit of
recall (AR(1), standard deviation 0.4, phi 0.4).

Printed are, for minutes, reviews, share remembered and cards known: how often the 95 % range holds
the truth, by desired retention and truth, how often it lies too low or too high, and the mean of
told / true; and, at equal memory, how often the sign of the difference from today's schedule is
right where its range leaves out zero. With --results each learner's figures are kept in a file,
from which an interrupted run continues.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _tables import format_wilson

from srs_eval.advice.candidates import Learner
from srs_eval.advice.workload import presets as preset_simulation
from srs_eval.advice.workload.estimate import (
    COMPARED_RETENTIONS,
    GLANCE_RETENTIONS,
    Assumption,
    Workload,
    WorkloadQuestion,
    workload,
)
from srs_eval.advice.workload.ranges import (
    KNOWN,
    MINUTES,
    RECALLED,
    REVIEWS,
    compare_schedules,
    find_ends,
)
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import LEARNING, REVIEW, FloatArray
from srs_eval.report.notebook import load
from tools.simulated import write_collection
from tools.simulated.character import FIRST_DAY_S
from tools.simulated.learner import collect_learner, study_days
from tools.simulated.memory import Moment, first_state, next_state
from tools.simulated.studying import Simulation
from tools.simulated.worlds import TRUTHS, Truth, World, draw_character

DAYS = 365
_FEWEST_ANSWERS, _MOST_ANSWERS = 4_000, 9_000  # in the months before
_MOST_ANSWERS_IN_ALL = 1_000_000  # more than a year can have
_CARD_ROOM = 12_000
_LEAST_RECALL = 0.8  # on later days; most people with Anki recall more


@dataclass(frozen=True)
class StudiedMonths:
    """A learner after some months, who can go on studying."""

    sim: Simulation
    new_per_day: int


def study(truth: Truth, seed: int) -> StudiedMonths:
    """Let a learner study for some months who recalls at least four of five cards."""
    random = np.random.default_rng((TRUTHS.index(truth), seed))
    while True:
        learner = draw_studied_months(truth, random)
        recall = np.concatenate([row["recall"] for row in learner.sim.entries])
        is_review = np.concatenate([row["kind"] for row in learner.sim.entries]) == REVIEW
        if np.nanmean(recall[is_review]) >= _LEAST_RECALL:
            return learner


def draw_studied_months(truth: Truth, random: np.random.Generator) -> StudiedMonths:
    is_fsrs = truth == "FSRS-6"
    world = World(
        truth=truth,
        scheduler="fsrs" if random.random() < 0.5 else "sm2",
        stored=("defaults", "true", "bold")[int(random.integers(3))] if is_fsrs else "defaults",
        card_shift=0.0 if is_fsrs else 0.45,
        card_speed=0.0 if is_fsrs else 0.22,
    )
    character = draw_character(world, random)
    answers = int(random.integers(_FEWEST_ANSWERS, _MOST_ANSWERS))
    sim = Simulation(random, _MOST_ANSWERS_IN_ALL, character, _CARD_ROOM)
    assert character.habits.new_per_day is not None
    study_days(sim, character.habits.new_per_day, reviews=answers)
    return StudiedMonths(sim, character.habits.new_per_day)


def follow_scheduler(sim: Simulation, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return all cards' stability and difficulty (n,) after their answers, by parameters (21,)."""
    n = sim.n
    stability = np.full(n, np.nan)
    difficulty = np.full(n, np.nan)
    last_day = np.zeros(n)
    card = np.concatenate([row["card"] for row in sim.entries])
    rating = np.concatenate([row["rating"] for row in sim.entries]).astype(np.int64)
    time_ms = np.concatenate([row["time_ms"] for row in sim.entries])
    day = np.floor((time_ms / 1000 - FIRST_DAY_S) / 86_400)
    order = np.lexsort((time_ms, card))
    card, rating, day = card[order], rating[order], day[order]
    number = np.arange(len(card)) - np.searchsorted(card, card)
    for turn in range(int(number.max()) + 1):
        at = np.flatnonzero(number == turn)
        cards = card[at]
        columns = np.tile(w[:, None], len(at))
        if turn == 0:
            stability[cards], difficulty[cards] = first_state(columns, rating[at])
        else:
            elapsed = day[at] - last_day[cards]
            stability[cards], difficulty[cards] = next_state(
                columns, stability[cards], difficulty[cards], rating[at], elapsed
            )
        last_day[cards] = day[at]
    return stability, difficulty


def live_on(
    learner: StudiedMonths, new_a_day: int, w: FloatArray | None, retention: float
) -> tuple[float, ...]:
    """Return FIGURES of a year to come, under FSRS with parameters `w` or under today's schedule.

    There are `new_a_day` new cards for each day. The last figure, days over budget, is 0.
    """
    sim = copy.deepcopy(learner.sim)
    if w is not None:
        sim.scheduler = "fsrs"
        sim.stored_w = w[:, None]
        stability, difficulty = follow_scheduler(sim, w)
        sim.number["sched_stability"][: sim.n] = stability
        sim.number["sched_difficulty"][: sim.n] = difficulty
        sim.number["retention"][:] = retention
        (key,) = sim.presets
        sim.presets = {key: replace(sim.presets[key], desired_retention=retention)}
    past = len(sim.entries)
    introduced = 0
    for day in range(1, DAYS + 1):
        sim.day += 1
        if sim.random.random() < sim.habits.skip:
            continue
        sim.begin_day()
        new = new_a_day * day - introduced  # as many in all as without skipped days
        introduced += new
        sim.study(new)
    assert sim.answered < sim.reviews
    rows = {
        name: np.concatenate([row[name] for row in sim.entries[past:]])
        for name in ("time_ms", "card", "rating", "kind", "duration_ms")
    }
    day = np.floor((rows["time_ms"] / 1000 - FIRST_DAY_S) / 86_400)
    order = np.lexsort((rows["time_ms"], day, rows["card"]))
    card = rows["card"][order]
    is_first = np.ones(len(card), np.bool_)
    is_first[1:] = (card[1:] != card[:-1]) | (day[order][1:] != day[order][:-1])
    first = order[is_first]
    is_review = rows["kind"][first] != LEARNING
    reviews = int(is_review.sum())
    recalled = int((rows["rating"][first][is_review] > 1).sum())
    cards = np.arange(sim.n)
    cards = cards[sim.memory.seen(cards)]
    days = (sim.day - sim.integer["last_day"][cards]).astype(np.float64)
    moment = Moment(np.full(len(cards), sim.day + 0.99), days, np.maximum(days, 0.01))
    p = sim.memory.recall(cards, moment)
    p = p / (p + (1 - p) * np.exp(-sim.number["shift"][cards]))
    minutes = rows["duration_ms"].sum() / 60_000 / DAYS
    return (reviews / DAYS, float(minutes), float(p.sum()), recalled / reviews, 0.0)


def ask(
    learner: StudiedMonths, seed: int, assume: Assumption = "optimized"
) -> tuple[Workload, FloatArray]:
    """Return the program's answer, and the parameters that it assumes."""
    sim = copy.deepcopy(learner.sim)
    unseen = DAYS * learner.new_per_day
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "collection.anki2"
        write_collection(collect_learner(sim, seed, unseen=unseen, set_aside=False), path)
        log = load(path)
    question = WorkloadQuestion(retentions=COMPARED_RETENTIONS, assume=assume)
    *_, last = workload(log, question=question)
    by_preset = Learner.of(log)
    (group,) = by_preset.groups
    if assume == "current":
        return last, np.array(by_preset.active_parameters(group))
    cards = preset_simulation.prepare_preset(by_preset, group, DAYS, 0, None, is_off=False)
    best = next(preset_simulation.fit_and_draw(by_preset, cards, 1, "FSRS-6"))
    return last, np.array(best.parameters)


def check_learner(truth: Truth, seed: int, assume: Assumption) -> dict[str, Any]:
    """Return what is told of one learner, and what is true."""
    learner = study(truth, seed)
    told, w = ask(learner, seed, assume)
    true = [
        live_on(learner, told.new_a_day, w, retention) if retention in GLANCE_RETENTIONS else None
        for retention in told.retentions
    ]
    current = told.current_figures
    true_current = None
    if current is not None:
        true_current = live_on(learner, told.new_a_day, None, told.desired)
    return {
        "truth": truth,
        "seed": seed,
        "assume": assume,
        "schedule": told.schedule,
        "reviews": told.reviews,
        "desired": told.desired,
        "cards": told.learned_cards + told.unseen_cards,
        "retentions": told.retentions,
        "estimates": told.estimates,
        "draws": told.draws,
        "true": true,
        "current": current,
        "current_draws": told.current_draws,
        "true_current": true_current,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", type=int, default=100, help="of each truth")
    parser.add_argument("--first", type=int, default=0, help="seed of the first learner")
    parser.add_argument("--assume", choices=("optimized", "current"), default="optimized")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, help="keep learners here, and go on from it")
    parser.add_argument("--quick", action="store_true", help="two learners of each truth")
    options = parser.parse_args()
    learners = 2 if options.quick else options.learners
    done: dict[tuple[str, int], dict[str, Any]] = {}
    if options.results is not None and options.results.exists():
        for line in options.results.read_text().splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                if record.get("assume", "optimized") == options.assume:
                    done[record["truth"], record["seed"]] = record
    tasks = [
        (truth, seed) for seed in range(options.first, options.first + learners) for truth in TRUTHS
    ]
    start = time.time()
    with ProcessPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(check_learner, *task, options.assume) for task in tasks if task not in done
        ]
        for future in as_completed(running):
            try:
                record = future.result()
            except NotEnoughData:  # a learner who forgets nearly nothing
                continue
            done[record["truth"], record["seed"]] = record
            print(record["truth"], record["seed"], f"{time.time() - start:.0f} s", file=sys.stderr)
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    print_report([done[task] for task in tasks if task in done])
    return 0


def print_report(records: Sequence[dict[str, Any]]) -> None:
    figures = {"minutes": MINUTES, "reviews": REVIEWS, "remembered": RECALLED, "known": KNOWN}
    print(f"{len(records)} learners.\n")
    for name, figure in figures.items():
        print(f"## {name}\n")
        print("| asked for | range holds the truth | too low | too high | told / true |")
        print("|---|---|---|---|---|")
        rows: list[RangeOutcome] = []
        for retention in (*GLANCE_RETENTIONS, None):
            outcomes = [judge_range(record, retention, figure) for record in records]
            present = [outcome for outcome in outcomes if outcome is not None]
            label = "unchanged, SM-2" if retention is None else f"{retention:.2f}"
            print_outcomes(label, present)
            rows += present
        print_outcomes("**all**", rows)
        for truth in TRUTHS:
            print_outcomes(truth, [row for row in rows if row.truth == truth])
        print()
    print("## FSRS's minutes at equal memory, as a multiple of today's\n")
    print(
        "| equal | range holds the truth | range leaves out 1 | sign is right there | mean error |"
    )
    print("|---|---|---|---|---|")
    for name in ("same_share", "same_known"):
        print_comparisons(name, [judge_comparison(record, name) for record in records])
        for truth in TRUTHS:
            of_truth = [record for record in records if record["truth"] == truth]
            print_comparisons(truth, [judge_comparison(record, name) for record in of_truth])


def print_comparisons(label: str, compared: Sequence[ComparedOutcome | None]) -> None:
    pairs = [pair for pair in compared if pair is not None]
    holds = sum(pair.holds for pair in pairs)
    decided = [pair for pair in pairs if pair.is_decided]
    right = sum(pair.has_right_sign for pair in decided)
    error = np.mean([pair.log_error for pair in pairs]) if pairs else math.nan
    print(
        f"| {label} | {format_wilson(holds, len(pairs))} | {len(decided)} | "
        f"{format_wilson(right, len(decided))} | {100 * error:+.1f} % |"
    )


@dataclass(frozen=True)
class RangeOutcome:
    """A range that was told, and the truth."""

    truth: str
    told: float
    low: float
    high: float
    true: float


def judge_range(
    record: dict[str, Any], retention: float | None, figure: int
) -> RangeOutcome | None:
    """Return the range of a figure at a desired retention, or under today's schedule (None)."""
    if retention is None:
        if record["current"] is None:
            return None
        told = np.array(record["current"])
        draws = np.array(record["current_draws"])
        true = record["true_current"]
    else:
        position = record["retentions"].index(retention)
        told = np.array(record["estimates"][position])
        draws = np.array(record["draws"])[:, position]
        true = record["true"][position]
    limits = (math.inf, math.inf, record["cards"], 1.0, DAYS)
    now = record["current"]
    if now is None:
        now = record["estimates"][record["retentions"].index(record["desired"])]
    low, high = find_ends(told, draws, limits, now[RECALLED])
    return RangeOutcome(
        record["truth"],
        float(told[figure]),
        float(low[figure]),
        float(high[figure]),
        float(true[figure]),
    )


def print_outcomes(label: str, rows: Sequence[RangeOutcome]) -> None:
    holds = sum(row.low <= row.true <= row.high for row in rows)
    too_low = sum(row.high < row.true for row in rows)
    too_high = sum(row.low > row.true for row in rows)
    ratio = np.mean([row.told / row.true for row in rows]) if rows else math.nan
    print(f"| {label} | {format_wilson(holds, len(rows))} | {too_low} | {too_high} | {ratio:.2f} |")


@dataclass(frozen=True)
class ComparedOutcome:
    """What was told of FSRS's minutes at equal memory, beside the truth."""

    holds: bool
    is_decided: bool  # the range leaves out that both take as long
    has_right_sign: bool
    log_error: float


def judge_comparison(record: dict[str, Any], name: str) -> ComparedOutcome | None:
    """Judge the comparison `same_share` or `same_known`; None where there is none."""
    if record["current"] is None:
        return None
    told = compare_schedules(
        np.array(record["retentions"]),
        np.array(record["estimates"]),
        np.array(record["current"]),
        np.array(record["draws"]),
        np.array(record["current_draws"]),
    )
    lived = [k for k, figures in enumerate(record["true"]) if figures is not None]
    true = compare_schedules(
        np.array(record["retentions"])[lived],
        np.array([record["true"][k] for k in lived]),
        np.array(record["true_current"]),
        None,
        None,
        by_model=False,
    )
    equal = getattr(told, name)
    true_equal = getattr(true, name)
    if equal is None or true_equal is None:
        return None
    extra = equal.extra_minutes
    true_share = true_equal.minutes / true.minutes - 1.0
    return ComparedOutcome(
        holds=extra.low <= true_share * told.minutes <= extra.high,
        is_decided=extra.is_beyond_zero,
        has_right_sign=(extra.estimate > 0) == (true_share > 0),
        log_error=math.log(equal.minutes / told.minutes) - math.log1p(true_share),
    )


if __name__ == "__main__":
    sys.exit(main())
