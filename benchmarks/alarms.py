"""Check the alarms of "Anything wrong?" on simulated learners whose truth is known.

    python benchmarks/alarms.py [--learners 40] [--jobs 2] [--quick] [--results FILE]

Half of the learners of each world have about 2,000 reviews of later days, half about 6,000. Worlds
are described in tools/simulated/worlds.py; unless a row says otherwise, the memory is FSRS-6, the
scheduler FSRS-6 with the true parameters at 0.90, and days differ by 0.4 (phi 0.4) on the logit
scale. No card is suspended. A leech is recalled less by 2.3 on that scale and forgotten three times
as fast; 2 % of the cards are leeches where there are any.

The tables, with Wilson's 95 % intervals:

1. Leeches: how many learners are told of one, and what share of the leeches is found.
2. Hard: what the check and the question "Am I misusing Hard?" say, and for how many learners pane 2
   says that they remember as much as they asked for. "Honest" rows press Hard for recalled cards
   only, some more often where recall was unlikely, with growth after Hard as among 9,999 published
   users. The last lines print which share of the others a test with 2.5 % false alarms would find.
3. Mature cards: what the check says by the true gap between what the current parameters expect and
   the known probability of recall.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from _tables import format_wilson

from srs_eval.advice.buttons import assess_hard_button
from srs_eval.advice.candidates import Learner
from srs_eval.advice.checks import merge_checks, run_checks
from srs_eval.advice.findings import HardButton, Retention, get_evidence
from srs_eval.advice.leeches import find_leeches
from srs_eval.advice.over_time import assess_retention
from srs_eval.advice.shown.memory import render_retention
from tools.simulated.learner import SimulatedLearner
from tools.simulated.worlds import World, simulate_world

_ANSWERS = {"2,000": 3_800, "6,000": 11_800}  # answers with about so many reviews of later days
_MATURE_DAYS = 21
_TRUE_GAP = 0.03  # by which fewer mature cards are recalled than expected, from which it matters
_LARGE_GAP = 0.05
_FALSE_ALARM_RATE = 0.025
_PLAIN = World(stored="true", suspends_leeches=False)

LEECH_WORLDS = {
    "no leeches": _PLAIN,
    "no leeches, SM-2": replace(_PLAIN, scheduler="sm2"),
    "no leeches, days differ by 0.6 (phi 0.9)": replace(_PLAIN, day_sd=0.6, day_persistence=0.9),
    "cards differ by 0.35": replace(_PLAIN, card_shift=0.35),
    "cards differ by 0.35, SM-2": replace(_PLAIN, card_shift=0.35, scheduler="sm2"),
    "power law, cards differ by 0.45": replace(_PLAIN, truth="power law", card_shift=0.45),
    "ACT-R, cards differ by 0.45": replace(_PLAIN, truth="ACT-R", card_shift=0.45),
    "leeches": replace(_PLAIN, leeches=0.02),
    "leeches, SM-2": replace(_PLAIN, leeches=0.02, scheduler="sm2"),
    "leeches, cards differ by 0.35": replace(_PLAIN, leeches=0.02, card_shift=0.35),
}
HONEST_WORLDS = {
    "honest": replace(_PLAIN, varies_hard=True),
    "honest, Hard when unsure": replace(_PLAIN, varies_hard=True, hard_when_unsure=1.0),
    "honest, cards differ by 0.35, SM-2": replace(
        _PLAIN, varies_hard=True, hard_when_unsure=0.5, card_shift=0.35, scheduler="sm2"
    ),
    "honest, power law": replace(_PLAIN, truth="power law", hard_when_unsure=0.5, card_shift=0.35),
    "honest, ACT-R": replace(_PLAIN, truth="ACT-R", hard_when_unsure=0.5, card_shift=0.35),
}
HIDDEN_WORLDS = {
    "Hard in 30 % of lapses": replace(_PLAIN, hard_for_lapses=0.3),
    "Hard in 60 % of lapses": replace(_PLAIN, hard_for_lapses=0.6),
    "Hard in 60 % of lapses, SM-2": replace(_PLAIN, hard_for_lapses=0.6, scheduler="sm2"),
    "Hard in 60 % of lapses, power law": replace(_PLAIN, hard_for_lapses=0.6, truth="power law"),
    "Easy in 15 % of lapses": replace(_PLAIN, easy_for_lapses=0.15),
}
MATURE_CARD_WORLDS = {
    "true parameters": _PLAIN,
    "bold parameters": replace(_PLAIN, stored="bold"),
    "power law, defaults": replace(_PLAIN, truth="power law", stored="defaults"),
    "ACT-R, defaults": replace(_PLAIN, truth="ACT-R", stored="defaults"),
}


Diagnosis = TypeVar("Diagnosis", "LeechDiagnosis", "ButtonDiagnosis", "MatureCardDiagnosis")


@dataclass(frozen=True)
class LeechDiagnosis:
    """One learner: leeches among the reviewed cards, and how the named cards divide."""

    leeches: int
    named_leeches: int
    named_others: int


@dataclass(frozen=True)
class ButtonDiagnosis:
    """One learner: what is said about the buttons and about what is remembered."""

    size: str  # key of _ANSWERS
    levels: dict[str, str]  # by button
    hard_conclusion: str
    as_asked: bool  # whether pane 2 says so
    recalled: float
    true_recall: float
    chance: float  # that an honest learner's memory grows so little at Hard


@dataclass(frozen=True)
class MatureCardDiagnosis:
    """One learner: the check of mature cards, and by how much fewer are truly recalled."""

    level: str
    true_gap: float


def simulate(world: World, seed: int) -> tuple[SimulatedLearner, str]:
    size = list(_ANSWERS)[seed % len(_ANSWERS)]
    return simulate_world(world, seed, _ANSWERS[size]), size


def diagnose_leeches(world: World, seed: int) -> LeechDiagnosis:
    simulated, _ = simulate(world, seed)
    trials = Learner.of(simulated.log()).trials
    true_leeches = set(simulated.cards.card_id[simulated.cards.leech].tolist())
    named = find_leeches(trials.card_id, trials.y, trials.elapsed_days)
    named_leeches = sum(leech.card_id in true_leeches for leech in named)
    reviewed = set(trials.card_id.tolist())
    return LeechDiagnosis(len(true_leeches & reviewed), named_leeches, len(named) - named_leeches)


def diagnose_buttons(world: World, seed: int) -> ButtonDiagnosis:
    simulated, size = simulate(world, seed)
    learner = Learner.of(simulated.log())
    (group,) = learner.groups
    retention_finding = next(assess_retention(learner, [group]))
    hard_finding = assess_hard_button(learner)
    findings = [run_checks(learner.log, learner), retention_finding, hard_finding]
    checks = merge_checks(findings)
    retention = get_evidence(retention_finding, Retention)
    pane = render_retention({"Default": retention}, None, checks)
    hard = get_evidence(hard_finding, HardButton)
    return ButtonDiagnosis(
        size=size,
        levels={check.name: check.level for check in checks},
        hard_conclusion=hard.conclusion,
        as_asked=pane is not None and pane.summary.level == "fine",
        recalled=float(learner.trials.y.mean()),
        true_recall=float(np.nanmean(simulated.recall[learner.entry_index])),
        chance=1.0 if hard.learning is None else hard.learning.chance,
    )


def diagnose_mature_cards(world: World, seed: int) -> MatureCardDiagnosis | None:
    """Return what is said of a learner's mature cards; None if none has enough reviews."""
    simulated, _ = simulate(world, seed)
    learner = Learner.of(simulated.log())
    (group,) = learner.groups
    checks = merge_checks(list(assess_retention(learner, [group])))
    mature_cards = next((check for check in checks if check.name == "mature cards"), None)
    if mature_cards is None:
        return None
    assert learner.log.entries is not None
    assert learner.log.entries.interval is not None
    is_old = learner.log.entries.interval[learner.entry_index] >= _MATURE_DAYS
    index = np.flatnonzero(is_old)
    expected = learner.predict_with_parameters(learner.active_parameters(group), index)
    gap = float(np.mean(expected - simulated.recall[learner.entry_index][index]))
    return MatureCardDiagnosis(mature_cards.level, gap)


@dataclass(frozen=True)
class Part(Generic[Diagnosis]):
    """Worlds whose learners get one kind of diagnosis; None is a learner without one."""

    name: str
    kind: type[Diagnosis]
    diagnose: Callable[[World, int], Diagnosis | None]
    worlds: dict[str, World]


LEECHES = Part("leeches", LeechDiagnosis, diagnose_leeches, LEECH_WORLDS)
BUTTONS = Part("buttons", ButtonDiagnosis, diagnose_buttons, HONEST_WORLDS | HIDDEN_WORLDS)
MATURE_CARDS = Part("mature cards", MatureCardDiagnosis, diagnose_mature_cards, MATURE_CARD_WORLDS)


def print_row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |")


def print_leeches(diagnoses: dict[str, list[LeechDiagnosis]]) -> None:
    print("\n| world | learners told of a leech | named that are leeches | leeches named |")
    print("|---|---|---|---|")
    for name, rows in diagnoses.items():
        told = sum(row.named_leeches + row.named_others > 0 for row in rows)
        right = sum(row.named_leeches for row in rows)
        wrong = sum(row.named_others for row in rows)
        leeches = sum(row.leeches for row in rows)
        cells = [format_wilson(told, len(rows)), "–", "–"]
        if leeches:
            cells[1:] = [format_wilson(right, right + wrong), format_wilson(right, leeches)]
        print_row(name, *cells)


def print_buttons(diagnoses: dict[str, list[ButtonDiagnosis]]) -> None:
    print("\n| world | reviews | Hard: look | Hard: fine | question: yes | question: no |", end="")
    print(" Again: look | Easy: look | “as asked” | recalled | truly |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, rows in diagnoses.items():
        for size in _ANSWERS:
            of_size = [row for row in rows if row.size == size]
            counts = [
                sum(row.levels["hard"] == "look" for row in of_size),
                sum(row.levels["hard"] == "fine" for row in of_size),
                sum(row.hard_conclusion == "yes" for row in of_size),
                sum(row.hard_conclusion == "no" for row in of_size),
                sum(row.levels["again"] == "look" for row in of_size),
                sum(row.levels["easy"] == "look" for row in of_size),
                sum(row.as_asked for row in of_size),
            ]
            cells = [format_wilson(count, len(of_size)) for count in counts]
            recalled = np.mean([row.recalled for row in of_size])
            true_recall = np.mean([row.true_recall for row in of_size])
            print_row(name, size, *cells, f"{100 * recalled:.1f}", f"{100 * true_recall:.1f}")
    print(f"\nWith false alarms for {100 * _FALSE_ALARM_RATE:.1f} % of the honest, found would be:")
    for size in _ANSWERS:
        honest = _list_chances(diagnoses, list(HONEST_WORLDS), size)
        critical = np.quantile(honest, _FALSE_ALARM_RATE)
        for name in HIDDEN_WORLDS:
            if name.startswith("Hard"):
                chances = _list_chances(diagnoses, [name], size)
                found = sum(bool(chance < critical) for chance in chances)
                print(f"- {name}, {size} reviews: {format_wilson(found, len(chances))}")


def _list_chances(
    diagnoses: dict[str, list[ButtonDiagnosis]], names: Sequence[str], size: str
) -> list[float]:
    return [row.chance for name in names for row in diagnoses[name] if row.size == size]


def print_mature_cards(diagnoses: dict[str, list[MatureCardDiagnosis]]) -> None:
    rows = [row for world_rows in diagnoses.values() for row in world_rows]
    print("\n| mature cards are truly recalled less by | look | fine | not yet |")
    print("|---|---|---|---|")
    limits = (-1.0, 0.01, _TRUE_GAP, _LARGE_GAP, 1.0)
    names = ("under 1 point", "1 to 3 points", "3 to 5 points", "over 5 points")
    for name, low, high in zip(names, limits[:-1], limits[1:], strict=True):
        in_range = [row for row in rows if low <= row.true_gap < high]
        counts = [
            sum(row.level == level for row in in_range) for level in ("look", "fine", "not yet")
        ]
        print_row(name, *(format_wilson(count, len(in_range)) for count in counts))


class KeptDiagnoses:
    """Diagnoses that are kept in a file as they come, so that a long run can go on from it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.done: dict[tuple[str, str, int], dict[str, Any] | None] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                with suppress(ValueError):  # the last line of a run that was killed
                    part, world, seed, diagnosis = json.loads(line)
                    self.done[part, world, seed] = diagnosis

    def add(self, part: str, world: str, seed: int, diagnosis: dict[str, Any] | None) -> None:
        self.done[part, world, seed] = diagnosis
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([part, world, seed, diagnosis]) + "\n")


def diagnose_all(
    part: Part[Diagnosis], learners: int, pool: ProcessPoolExecutor, kept: KeptDiagnoses
) -> dict[str, list[Diagnosis]]:
    """Return the diagnoses of each world's learners, without those that have none."""
    running = {}
    for seed in range(learners):
        for name, world in part.worlds.items():
            if (part.name, name, seed) not in kept.done:
                running[pool.submit(part.diagnose, world, seed)] = name, seed
    for future in as_completed(running):
        diagnosis = future.result()
        record = None if diagnosis is None else asdict(diagnosis)
        kept.add(part.name, *running[future], record)
    diagnoses: dict[str, list[Diagnosis]] = {}
    for name in part.worlds:
        records = [kept.done[part.name, name, seed] for seed in range(learners)]
        diagnoses[name] = [part.kind(**record) for record in records if record is not None]
    return diagnoses


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", type=int, default=40, help="of each world")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two learners of each world")
    parser.add_argument("--parts", default="123", help="which of the three tables")
    parser.add_argument("--results", type=Path, help="keep learners here, and go on from it")
    options = parser.parse_args()
    learners = 2 if options.quick else options.learners
    kept = KeptDiagnoses(options.results)
    start = time.time()
    with ProcessPoolExecutor(options.jobs) as pool:
        if "1" in options.parts:
            print_leeches(diagnose_all(LEECHES, learners, pool, kept))
        if "2" in options.parts:
            print_buttons(diagnose_all(BUTTONS, learners, pool, kept))
        if "3" in options.parts:
            print_mature_cards(diagnose_all(MATURE_CARDS, learners, pool, kept))
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
