"""See what happens to the advice on parameters of somebody who looks every week for a year.

    python benchmarks/weekly.py [--learners 12] [--truth "power law"] [--week 100] [--jobs 2]
        [--seed 7] [--kinds good "own, half" "another's"] [--no-milestones] [--results FILE]

Simulated learners (benchmarks/acts.py) begin with about 2,000 reviews and do `--week` more each
week. After each of 52 weeks they ask what to do, and change nothing whatever the answer is: their
parameters stay the same, of three kinds (good ones, those fitted to the first half of the 2,000
reviews, another learner's). So all that changes is the evidence. The advice is to keep the
parameters or to change them. With `--no-milestones` evidence is weighed after every review, so a
change is advised whenever it is likely to help (srs_eval/advice/milestones.py says what else).

Printed are, by kind of parameters: how often the advice of one week differs from that of the week
before, how many learners get an advice back that had been given up before (keep, change, keep), how
many are ever told the opposite of an earlier advice with both "sure", and, of those for whom a
refit after the year gains nothing, how many are told at least once that a change is sure, beside
how often a single look says so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from _tables import format_wilson

from benchmarks.acts import (
    FUTURE,
    Source,
    assess_with_parameters,
    choose_parameters,
    compute_gain,
    fit,
)
from benchmarks.acts import KINDS as ALL_KINDS
from benchmarks.advice import cut_log
from srs_eval.advice import findings as f
from srs_eval.advice import milestones
from srs_eval.advice.candidates import Learner
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.models import fsrs6
from tools.simulated.worlds import TRUTHS, World

WEEKS = 52
START = 2_000  # reviews before the first look
KINDS = ("good", "own, half", "another's")

Task = tuple[Source, int, int, tuple[str, ...]]
"""A source of learners, the number of one of them, the reviews of a week, kinds of parameters."""


def ignore_milestones() -> None:
    """Weigh evidence after every review, in this process from now on."""
    mock.patch.object(milestones, "_find_milestones", return_value=[]).start()


def look_weekly(task: Task) -> list[dict[str, Any]]:
    """Return the advice of each week for one learner, for each kind of parameters."""
    source, number, week, kinds = task
    last_size = START + WEEKS * week
    simulated = source.simulate(number, 1, last_size + FUTURE)
    log = simulated.learner.log
    first = Learner.of(cut_log(log, simulated.learner, START))
    after = Learner.of(cut_log(log, simulated.learner, last_size))
    refit = fit(after)
    parameters = {kind: choose_parameters(kind, source, number, first) for kind in kinds}
    advice: dict[str, list[tuple[str, float]]] = {kind: [] for kind in kinds}
    for size in range(START + week, last_size + 1, week):
        learner = Learner.of(cut_log(log, simulated.learner, size))
        for kind, (stored, fitted_at) in parameters.items():
            _, finding = assess_with_parameters(learner, stored, fitted_at)
            direction = "change" if finding.parameters else "keep"
            advice[kind].append((direction, finding.probability or 0.0))
    return [
        {
            "truth": source.truth,
            "seed": source.seed,
            "number": number,
            "week": week,
            "kind": kind,
            "advice": advice[kind],
            "gain": compute_gain(
                simulated, parameters[kind][0] or fsrs6.DEFAULT, refit, last_size
            ).year,
        }
        for kind in kinds
    ]


def comes_back(directions: Sequence[str]) -> bool:
    """Return True if an advice was given up and came back: its direction changed twice."""
    return sum(earlier != later for earlier, later in pairwise(directions)) >= 2


def is_reversed(advice: Sequence[tuple[str, float]]) -> bool:
    """Return True if both directions were sure, in whichever weeks."""
    sure = {direction for direction, probability in advice if probability >= f.SURE}
    return len(sure) == 2


def is_sure_change(direction: str, probability: float) -> bool:
    return direction == "change" and probability >= f.SURE


def print_report(records: Sequence[dict[str, Any]], kinds: Sequence[str]) -> None:
    print(
        "| parameters | learners | changes from week to week | an advice comes back | both sure | "
        "nothing to gain: sure of a change once | in a single look |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in (*kinds, ""):
        chosen = [record for record in records if kind in ("", record["kind"])]
        directions = [[look[0] for look in each["advice"]] for each in chosen]
        changes = [
            sum(earlier != later for earlier, later in pairwise(weeks)) for weeks in directions
        ]
        looks = [len(weeks) - 1 for weeks in directions]
        in_vain = [each["advice"] for each in chosen if each["gain"] <= EQUIVALENCE_MARGIN]
        single_looks = [is_sure_change(*look) for advice in in_vain for look in advice]
        ever_sure = [any(is_sure_change(*look) for look in advice) for advice in in_vain]
        cells = [
            kind or "all",
            str(len(chosen)),
            format_wilson(sum(changes), sum(looks)),
            format_wilson(sum(map(comes_back, directions)), len(chosen)),
            format_wilson(sum(is_reversed(each["advice"]) for each in chosen), len(chosen)),
            format_wilson(sum(ever_sure), len(in_vain)),
            format_wilson(sum(single_looks), len(single_looks)),
        ]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", type=int, default=12)
    parser.add_argument("--truth", choices=TRUTHS, default="power law")
    parser.add_argument("--week", type=int, default=100, help="reviews a week")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kinds", choices=ALL_KINDS, nargs="+", default=KINDS)
    parser.add_argument(
        "--no-milestones", action="store_true", help="weigh evidence after every review"
    )
    parser.add_argument("--results", type=Path, help="keep learners here, and go on from it")
    options = parser.parse_args()
    source = Source(options.seed, World(truth=options.truth))
    records: list[dict[str, Any]] = []
    if options.results is not None and options.results.exists():
        records = [json.loads(line) for line in options.results.read_text().splitlines()]
        settings = (source.truth, options.seed, options.week, not options.no_milestones)
        records = [
            record
            for record in records
            if tuple(record[name] for name in ("truth", "seed", "week", "milestones")) == settings
            and record["number"] < options.learners
            and record["kind"] in options.kinds
        ]
    numbers = [record["number"] for record in records]
    done = {number for number in numbers if numbers.count(number) == len(options.kinds)}
    records = [record for record in records if record["number"] in done]
    initializer = ignore_milestones if options.no_milestones else None
    with ProcessPoolExecutor(options.jobs, initializer=initializer) as pool:
        futures = [
            pool.submit(look_weekly, (source, number, options.week, tuple(options.kinds)))
            for number in range(options.learners)
            if number not in done
        ]
        for future in as_completed(futures):
            new_records = future.result()
            for record in new_records:
                record["milestones"] = not options.no_milestones
            records += new_records
            if options.results is not None:
                with options.results.open("a") as file:
                    file.writelines(f"{json.dumps(record)}\n" for record in new_records)
    print_report(records, options.kinds)


if __name__ == "__main__":
    main()
