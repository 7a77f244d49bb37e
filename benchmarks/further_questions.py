"""Check the answers to five further questions on simulated learners whose truth is known.

    python benchmarks/further_questions.py [--learners 20] [--first 1000] [--jobs 2] [--quick]
                                           [--questions NAMES]

Each learner has one deck and gives 3,000 to 9,000 answers. Unless a row says otherwise, recall is
better or worse by the day (AR(1), standard deviation 0.4, phi 0.4), and 3 % of the days are skipped
(tools/simulated/worlds.py). Seeds from 1,000 on were used to choose no threshold. The tables, with
Wilson's 95 % intervals:

- first: how often a button's range holds the true first interval, how often an interval is called
  too short or too long, and how often that is true. The true interval is the memory's parameter, on
  a day like any other; the second column is about the interval with the same recall averaged over
  good and bad days.
- difficulty: what is said of cards near 10, by world and by the true difference: the known
  probability of recall minus what the current parameters expect, averaged over the same reviews.
- reschedule: how far the recall that is expected without rescheduling is from the true one, which
  is averaged over good and bad days, and how often "no need" is true: by the true memory, the new
  intervals change recall by less than 3 points.
- kinds: how often a preset is told to be split. Cards have one memory, and half of them (drawn by
  chance) count as another card template; or they come from two presets whose memories differ, are
  put into one preset, and those of the second count as another template; or these memories are
  far apart: first intervals of the second are four times as long, and stability grows twice as much
  at each recall.
- failed: how often Anki's health check fails, and how often each cause is named after it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _tables import format_wilson
from numpy.typing import NDArray

import srs_eval
from srs_eval.advice import findings as f
from srs_eval.advice import reschedule
from srs_eval.advice.candidates import Learner
from srs_eval.advice.card_kinds import assess_card_kinds
from srs_eval.advice.difficulty import assess_difficulty, compute_difficulties
from srs_eval.advice.first_intervals import assess_first_intervals
from srs_eval.advice.health_remedies import assess_health_remedies
from srs_eval.advice.over_time import RETENTION_TOLERANCE
from srs_eval.advice.workload.simulator import Memory
from srs_eval.advice.workload.today import collect_todays_cards, compute_memory_state
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.models.own_parameters import normalize_as_anki
from tools.simulated import write_collection
from tools.simulated.character import draw_character
from tools.simulated.learner import SimulatedLearner, average_over_shifts, simulate_learner
from tools.simulated.memory import Fsrs6, retrievability
from tools.simulated.worlds import World, simulate_world

BoolArray = NDArray[np.bool_]
_FEWEST_ANSWERS, _MOST_ANSWERS = 3_000, 9_000
_BUTTONS = ("Again", "Hard", "Good", "Easy")
_TWO_MEMORIES = "two memories"
_FAR_APART = "two memories far apart"
_TRUE = World(stored="true")
_DEFAULTS = World()
_POWER_LAW = World(truth="power law")
_ACT_R = World(truth="ACT-R")

_FIRST_WORLDS = {"true parameters": _TRUE, "defaults": _DEFAULTS}
_DIFFICULTY_WORLDS = {
    "true parameters": _TRUE,
    "bold parameters": World(stored="bold"),
    "power law, defaults": _POWER_LAW,
    "ACT-R, defaults": _ACT_R,
}
_RESCHEDULE_WORLDS = {
    "true parameters": _TRUE,
    "bold parameters": World(stored="bold"),
    "defaults": _DEFAULTS,
}
_KINDS_WORLDS = {
    "FSRS-6": _DEFAULTS,
    "power law": _POWER_LAW,
    "ACT-R": _ACT_R,
    _TWO_MEMORIES: None,  # of a learner with two presets
    _FAR_APART: None,
}
_FAILED_WORLDS = {
    "FSRS-6": _TRUE,
    "power law": _POWER_LAW,
    "ACT-R": _ACT_R,
    "days differ by 1.0, phi 0.9": replace(_TRUE, day_sd=1.0, day_persistence=0.9),
    "Hard in 60 % of lapses": replace(_TRUE, hard_for_lapses=0.6),
    "leeches": replace(_TRUE, leeches=0.02, suspends_leeches=False),
}


@dataclass(frozen=True)
class ButtonDiagnosis:
    """What is said of one button's first interval, and whether it is true."""

    conclusion: str
    holds_true: bool  # whether the range holds the true interval
    holds_average: bool  # the same for recall averaged over good and bad days
    is_right: bool  # whether the true interval is on the side that is named

    @property
    def is_called(self) -> bool:
        """Whether the interval in force is called too short or too long."""
        return self.conclusion in ("longer", "shorter")


@dataclass(frozen=True)
class DifficultyDiagnosis:
    """What is said of a learner's cards near 10, and the true difference of their recall."""

    conclusion: str
    true_difference: float  # share of the reviews; NaN without reviews


@dataclass(frozen=True)
class RescheduleDiagnosis:
    """What is said of rescheduling, and the true recall when the cards come due."""

    conclusion: str
    expected: float  # recall without rescheduling
    true_without: float
    true_rescheduled: float


@dataclass(frozen=True)
class KindsDiagnosis:
    """What is said of splitting a preset by each division."""

    conclusion: str
    divisions: tuple[f.CardDivision, ...]


@dataclass(frozen=True)
class HealthDiagnosis:
    """Whether the health check failed, and the causes that are named."""

    conclusion: str
    causes: tuple[f.FailedCheckCause, ...]


def draw_answers(seed: int) -> int:
    return int(np.random.default_rng(seed).integers(_FEWEST_ANSWERS, _MOST_ANSWERS))


def simulate(world: World, seed: int) -> SimulatedLearner:
    return simulate_world(world, seed, draw_answers(seed))


def find_average_interval(w: FloatArray, stability: float, day_sd: float) -> float:
    """Return the days until recall, averaged over good and bad days, falls to 90 %."""
    days = stability * np.geomspace(0.5, 1.5, 400)
    recall = retrievability(w, np.full(len(days), stability), days)
    average = average_over_shifts(np.log(recall / (1 - recall)), day_sd)
    return float(np.interp(-0.9, -average, days))


def diagnose_first_intervals(name: str, seed: int) -> list[ButtonDiagnosis]:
    """Return what is said of each button with enough cards."""
    world = _FIRST_WORLDS[name]
    simulated = simulate(world, seed)
    learner = Learner.of(simulated.log())
    (group,) = learner.groups
    (finding,) = assess_first_intervals(learner, [group])
    w = np.array(simulated.memory[group])
    diagnoses = []
    for button in f.get_evidence(finding, f.ButtonIntervals).buttons:
        if button.low is None or button.high is None:
            continue
        true = float(w[_BUTTONS.index(button.button)])
        average = find_average_interval(w, true, world.day_sd)
        true_change = max(true, 1.0) - max(button.interval, 1.0)  # Anki waits at least a day
        diagnosis = ButtonDiagnosis(
            conclusion=button.conclusion,
            holds_true=button.low <= true <= button.high,
            holds_average=button.low <= average <= button.high,
            is_right=true_change > 0 if button.conclusion == "longer" else true_change < 0,
        )
        diagnoses.append(diagnosis)
    return diagnoses


def diagnose_difficulty(name: str, seed: int) -> DifficultyDiagnosis:
    simulated = simulate(_DIFFICULTY_WORLDS[name], seed)
    learner = Learner.of(simulated.log())
    (group,) = learner.groups
    (finding,) = assess_difficulty(learner, [group])
    evidence = f.get_evidence(finding, f.Difficulty)
    true_difference = float("nan")
    if evidence.difference is not None:
        is_hard = find_reviews_near_ten(learner, group)
        # The parameters are older than the first review, so that all reviews count.
        assert int(is_hard.sum()) == evidence.difference.reviews
        true_recall = simulated.recall[learner.entry_index][is_hard]
        true_difference = float(np.mean(true_recall - learner.active_predictions[is_hard]))
    return DifficultyDiagnosis(evidence.conclusion, true_difference)


def find_reviews_near_ten(learner: Learner, group: int) -> BoolArray:
    """Mark the reviews (n,) of cards with a difficulty near 10 before them."""
    w = np.array(normalize_as_anki(learner.active_parameters(group)))
    after = compute_difficulties(learner.trials, w)
    is_near_ten: BoolArray = after[learner.trials.history_end - 1] > f.NEAR_TEN
    return is_near_ten


def diagnose_rescheduling(name: str, seed: int) -> RescheduleDiagnosis | None:
    """Return what is said of rescheduling; None if there are too few cards."""
    world = _RESCHEDULE_WORLDS[name]
    simulated = simulate(world, seed)
    with TemporaryDirectory() as folder:
        path = Path(folder, "collection.anki2")
        write_collection(simulated, path)
        log = srs_eval.load(path)  # due days are known of collections only
    learner = Learner.of(log)
    (group,) = learner.groups
    (finding,) = reschedule.assess_rescheduling(learner, [group])
    evidence = f.get_evidence(finding, f.Reschedule)
    if evidence.without is None:
        return None
    today = collect_todays_cards(log, group)
    last_day = reschedule._find_last_days(learner, today)
    is_moved = last_day < 0
    last_day = last_day[is_moved]
    fitted = learner.fit_parameters(f.RECENCY, group)
    assert fitted is not None
    maximum = log.presets[group].maximum_interval or 36_500
    stability = compute_memory_state(today, Memory("FSRS-6", tuple(fitted)))[0, is_moved]
    interval = reschedule.compute_intervals(stability[None], fitted, evidence.desired, maximum)
    (true_parameters,) = simulated.memory.values()
    true_stability = compute_memory_state(today, Memory("FSRS-6", true_parameters))[0, is_moved]

    def average_true_recall(due_day: IntArray) -> float:
        days = np.maximum(np.maximum(due_day, 0) - last_day, 1).astype(np.float64)
        recall = retrievability(np.array(true_parameters), true_stability, days)
        return float(average_over_shifts(np.log(recall / (1 - recall)), world.day_sd).mean())

    return RescheduleDiagnosis(
        conclusion=evidence.conclusion,
        expected=evidence.without.recall,
        true_without=average_true_recall(today.due_day[is_moved]),
        true_rescheduled=average_true_recall(last_day + interval),
    )


def make_second_template(log: ReviewLog, is_second: BoolArray) -> ReviewLog:
    """Make the selected cards (n,) another card template.

    Each gets a note of its own, with an unreviewed card before it.
    """
    cards = log.cards
    note_id = np.where(is_second, -cards.card_id, cards.note_id)
    siblings = np.arange(1, is_second.sum() + 1)
    with_siblings = replace(
        cards,
        card_id=np.concatenate([siblings, cards.card_id]),
        note_id=np.concatenate([note_id[is_second], note_id]),
        deck_id=np.concatenate([cards.deck_id[is_second], cards.deck_id]),
        suspended=np.concatenate([np.zeros(len(siblings), bool), cards.suspended]),
    )
    return replace(log, cards=with_siblings)


def simulate_one_memory(world: World, seed: int) -> ReviewLog:
    """Simulate a learner; half of the cards, drawn by chance, are another template."""
    log = simulate(world, seed).log()
    is_second = np.random.default_rng(seed).random(len(log.cards.card_id)) < 0.5
    return make_second_template(log, is_second)


def simulate_two_memories(seed: int, *, far_apart: bool) -> ReviewLog:
    """Simulate a learner with two presets, put into one; cards of the second are a template."""
    character = draw_character(np.random.default_rng(seed), "fsrs", buttons=4, forgets=True)
    if far_apart:
        assert isinstance(character.memory, Fsrs6)
        second_w = character.memory.w[:, -1]
        second_w[:4] *= 4
        second_w[8] += np.log(2)
    simulated = simulate_learner(seed, draw_answers(seed), incidents=False, character=character)
    log = simulated.log()
    preset = log.preset_of(log.deck_of(log.cards.card_id))
    first, second = np.unique(preset[preset > 1])[:2].tolist()
    decks = {key: replace(deck, preset_id=first) for key, deck in log.decks.items()}
    return make_second_template(replace(log, decks=decks), preset == second)


def diagnose_kinds(name: str, seed: int) -> KindsDiagnosis:
    world = _KINDS_WORLDS[name]
    if world is None:
        log = simulate_two_memories(seed, far_apart=name == _FAR_APART)
    else:
        log = simulate_one_memory(world, seed)
    learner = Learner.of(log)
    (group,) = learner.groups
    (finding,) = assess_card_kinds(learner, [group])
    evidence = f.get_evidence(finding, f.CardKinds)
    return KindsDiagnosis(evidence.conclusion, evidence.divisions)


def diagnose_health(name: str, seed: int) -> HealthDiagnosis:
    learner = Learner.of(simulate(_FAILED_WORLDS[name], seed).log())
    (group,) = learner.groups
    (finding,) = assess_health_remedies(learner, [group])
    evidence = f.get_evidence(finding, f.HealthRemedies)
    return HealthDiagnosis(evidence.conclusion, evidence.causes)


def print_header(title: str, *columns: str) -> None:
    print(f"\n| {' | '.join([title, *columns])} |")
    print("|---" * (len(columns) + 1) + "|")


def print_row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_first_intervals(diagnoses: Mapping[str, Sequence[list[ButtonDiagnosis]]]) -> None:
    print_header(
        "first: parameters in force",
        "range holds the true interval",
        "the same, averaged over days",
        "called too short or long",
        "and is",
        "learners with such a call",
    )
    for name, learners in diagnoses.items():
        buttons = [button for learner in learners for button in learner]
        called = [button for button in buttons if button.is_called]
        with_call = [learner for learner in learners if any(row.is_called for row in learner)]
        print_row(
            name,
            format_wilson(sum(button.holds_true for button in buttons), len(buttons)),
            format_wilson(sum(button.holds_average for button in buttons), len(buttons)),
            format_wilson(len(called), len(buttons)),
            format_wilson(sum(button.is_right for button in called), len(called)),
            format_wilson(len(with_call), len(learners)),
        )


def print_difficulty(diagnoses: Mapping[str, Sequence[DifficultyDiagnosis]]) -> None:
    conclusions = ("below", "above", "as expected", f.CANT_TELL, "few")
    columns = ("too late", "too early", "no harm", "can't tell", "few cards near 10")
    print_header("difficulty: world", *columns)
    for name, learners in diagnoses.items():
        counts = Counter(learner.conclusion for learner in learners)
        print_row(name, *(format_wilson(counts[key], len(learners)) for key in conclusions))
    print_header("difficulty: true difference (points), more than a few near 10", *columns[:-1])
    learners = [row for rows in diagnoses.values() for row in rows if row.conclusion != "few"]
    edges = (-np.inf, -0.05, -0.03, -0.01, 0.01, 0.03, np.inf)
    names = ("below -5", "-5 to -3", "-3 to -1", "-1 to 1", "1 to 3", "above 3")
    for name, low, high in zip(names, edges[:-1], edges[1:], strict=True):
        in_range = [row for row in learners if low <= row.true_difference < high]
        counts = Counter(row.conclusion for row in in_range)
        print_row(name, *(format_wilson(counts[key], len(in_range)) for key in conclusions[:-1]))


def print_rescheduling(diagnoses: Mapping[str, Sequence[RescheduleDiagnosis | None]]) -> None:
    print_header(
        "reschedule: parameters in force",
        "learners",
        "points off on average",
        "at most",
        "“no need”",
        "and is",
        "“yes” or “not all at once”",
        "and is",
    )
    every = [row for rows in diagnoses.values() for row in rows if row is not None]
    by_world = {name: [row for row in rows if row] for name, rows in diagnoses.items()}
    for name, rows in (by_world | {"all": every}).items():
        errors = [100 * abs(row.expected - row.true_without) for row in rows]
        no_need = [row for row in rows if row.conclusion == "no need"]
        others = [row for row in rows if row.conclusion != "no need"]
        cells: list[object] = [name, len(rows), "–", "–"]
        if rows:
            cells[2:] = [f"{np.mean(errors):.1f}", f"{max(errors):.1f}"]
        print_row(
            *cells,
            format_wilson(len(no_need), len(rows)),
            format_wilson(sum(not is_needed(row) for row in no_need), len(no_need)),
            format_wilson(len(others), len(rows)),
            format_wilson(sum(is_needed(row) for row in others), len(others)),
        )


def is_needed(row: RescheduleDiagnosis) -> bool:
    """Return whether rescheduling truly changes recall by 3 points."""
    return abs(row.true_rescheduled - row.true_without) >= RETENTION_TOLERANCE


def print_kinds(diagnoses: Mapping[str, Sequence[KindsDiagnosis]]) -> None:
    divisions = (f.BY_TEMPLATE, f.BY_FIRST_ANSWER)
    columns = [column for name in divisions for column in (f"by {name}", "estimated gain")]
    print_header("kinds: memory", "split", *columns)
    for world, learners in diagnoses.items():
        count = sum(row.conclusion == "yes" for row in learners)
        cells = [world, format_wilson(count, len(learners))]
        for name in divisions:
            rows = [part for row in learners for part in row.divisions if part.name == name]
            gains = [-part.difference.estimate for part in rows]
            cells.append(format_wilson(sum(part.conclusion == "yes" for part in rows), len(rows)))
            cells.append(f"{np.mean(gains):+.4f}" if gains else "–")
        print_row(*cells)


def print_health(diagnoses: Mapping[str, Sequence[HealthDiagnosis]]) -> None:
    print_header("failed: world", "fails", "causes named", "no cause named")
    all_rows = [row for rows in diagnoses.values() for row in rows]
    for name, rows in ({**diagnoses, "all": all_rows}).items():
        failed = [row for row in rows if row.conclusion == "failed"]
        counts = Counter(cause for row in failed for cause in row.causes)
        causes = ", ".join(f"{cause} {count}" for cause, count in counts.items()) or "–"
        unexplained = sum(not row.causes for row in failed)
        print_row(name, format_wilson(len(failed), len(rows)), causes, unexplained)


QUESTIONS: Mapping[
    str, tuple[Callable[[str, int], Any], Callable[[Any], None], Mapping[str, Any]]
] = {
    "first": (diagnose_first_intervals, print_first_intervals, _FIRST_WORLDS),
    "difficulty": (diagnose_difficulty, print_difficulty, _DIFFICULTY_WORLDS),
    "reschedule": (diagnose_rescheduling, print_rescheduling, _RESCHEDULE_WORLDS),
    "kinds": (diagnose_kinds, print_kinds, _KINDS_WORLDS),
    "failed": (diagnose_health, print_health, _FAILED_WORLDS),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", type=int, default=20, help="of each world")
    parser.add_argument("--first", type=int, default=1_000, help="seed of the first learner")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--questions", default=",".join(QUESTIONS), help="comma-separated")
    parser.add_argument("--quick", action="store_true", help="two learners of each world")
    options = parser.parse_args()
    learners = 2 if options.quick else options.learners
    seeds = range(options.first, options.first + learners)
    start = time.time()
    with ProcessPoolExecutor(options.jobs) as pool:
        for question in options.questions.split(","):
            diagnose, print_diagnoses, worlds = QUESTIONS[question]
            diagnoses = {name: pool.map(partial(diagnose, name), seeds) for name in worlds}
            print_diagnoses({name: list(rows) for name, rows in diagnoses.items()})
            print(f"{question}: {time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
