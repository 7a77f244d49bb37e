"""Measure whether models could schedule real people's cards, and how long asking them takes.

    python benchmarks/schedulability.py --real DIR [--models A,B] [--histories 2000]
        [--weights champ_h2k16.safetensors]

asks models about every history in --real (or the environment variable SRS_EVAL_REAL) and prints a
table for each desired retention: means over people, in per cent of reviews. The columns are those
of docs/schedulability.md. The last table has the seconds for 10,000 histories, without the fit: the
median over people, each time scaled by the histories that were asked.

Then it prints what FSRS-7 schedules after first answers: its defaults, and the draft of
srs-benchmark issue 313, whose formulas are in tests/helpers/fsrs7_draft.py.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.engine.schedulability import (
    RetentionFaults,
    Schedulability,
    compute_intervals,
    find_obstacle,
    measure_schedulability,
)
from srs_eval.engine.session import LearnerSession
from srs_eval.models import fsrs7
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.training.hyperparameters import Context
from tests.helpers import fsrs7_draft

MODELS = (
    "FSRS-6-dry-run,FSRS-6,FSRS-6-recency,FSRS-rs,FSRS-5,"
    "FSRS-7-short-secs-recency,FSRS-7-short-secs-recency-equalize_test_with_non_secs,"
    "LogisticRegression,SBD,BLEND,GRU,GRU-P,NN-17,DASH,ACT-R,HLR,SM2,Anki-dry-run,Anki,Ebisu-v2,"
    "90%,AVG"
)
COLUMNS = (
    "unschedulable",
    "inverted",
    "again_above_hard",
    "hard_above_good",
    "good_above_easy",
    "never_reached",
    "reached_twice",
    "under_a_minute",
    "under_a_minute_after_pass",
    "above_five_times",
)


def measure_person(
    session: LearnerSession, configuration: Configuration, context: Context, histories: int
) -> tuple[Schedulability, float]:
    """Return the schedulability, and the seconds for 10,000 histories without the fit."""
    result = session.run(configuration, context, use_cache=True)
    results = {configuration.name: result}
    for member in configuration.member_configurations:
        results[member.name] = session.run(member, context, use_cache=True)
    measure_schedulability(session, configuration, context, max_histories=20, results=results)
    start = time.process_time()
    measured = measure_schedulability(
        session, configuration, context, max_histories=histories, results=results
    )
    seconds = time.process_time() - start
    return measured, seconds * 10_000 / measured.histories


def format_share(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * np.mean(known):.1f}" if known else "–"


def print_tables(
    measured: dict[str, list[Schedulability]], seconds: dict[str, list[float]]
) -> None:
    first_person = next(iter(measured.values()))[0]
    retentions = [faults.desired_retention for faults in first_person.retentions]
    for number, retention in enumerate(retentions):
        print(f"\n## Asked for {100 * retention:.0f} %\n")
        print(f"| model | people | people with any | {' | '.join(COLUMNS)} | rising |")
        print("|---" * (len(COLUMNS) + 4) + "|")
        for name, people in measured.items():
            faults: list[RetentionFaults] = [each.retentions[number] for each in people]
            cells = [format_share([getattr(each, column) for each in faults]) for column in COLUMNS]
            some = sum(each.unschedulable > 0 for each in faults)
            rising = format_share([each.rising for each in people])
            print(f"| {name} | {len(people)} | {some} | {' | '.join(cells)} | {rising} |")
    print("\n## Seconds for 10,000 histories\n")
    for name, times in seconds.items():
        print(f"| {name} | {np.median(times):.2f} |")


def print_first_answers() -> None:
    """Print the seconds after which recall falls to 90 % after a first answer, by FSRS-7."""
    days = 2.0 ** np.arange(0, 40, 0.01) / 86_400
    w = np.array([*fsrs7.DEFAULT, fsrs7.MIN_STABILITY])
    print("\n## FSRS-7 after a first answer, asked for 90 %\n")
    for rating, button in enumerate(("Again", "Hard", "Good", "Easy"), start=1):
        draft = compute_intervals(
            fsrs7_draft.recall(days, fsrs7_draft.PARAMETERS[rating - 1]), days, 0.9
        )
        finished = compute_intervals(
            np.array([fsrs7.recall(day, fsrs7.first(float(rating), w), w) for day in days]),
            days,
            0.9,
        )
        print(f"| {button} | draft {draft * 86_400:.0f} s | finished {finished * 86_400:.0f} s |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--histories", type=int, default=2_000)
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    measured: dict[str, list[Schedulability]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    context = Context(weights=options.weights)
    files = sorted(Path(options.real).iterdir()) if options.real else []
    for file in files:
        try:
            session = LearnerSession(load_log(file))
        except InputError:
            continue  # not a history
        for configuration in resolve_configurations(options.models):
            if find_obstacle(configuration) is not None:
                continue
            try:
                person, time_s = measure_person(session, configuration, context, options.histories)
            except (InputError, NotEnoughData) as error:
                print(f"{file.name}: {configuration.words}: {error}")
                continue
            measured[configuration.words].append(person)
            seconds[configuration.words].append(time_s)
    if measured:
        print_tables(measured, seconds)
    print_first_answers()


if __name__ == "__main__":
    main()
