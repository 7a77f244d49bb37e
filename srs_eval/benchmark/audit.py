"""Does a comparison of models compare the models, or how well somebody has set up their training?

Every model's training is tuned with the same number of trials, and the models are compared again.
"On the difficulty of evaluating baselines" (Rendle, Zhang & Koren 2019, arXiv:1905.01395) shows how
rankings of years fell when that was done; docs/audit.md has the method.

The reviews that a user is judged on never choose the user's set-up: the users are two halves, and
each half is judged with the set-up that the other half's search has found. That search sees
training parts only, each split in time: a fit to the first four fifths, judged on the last.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from srs_eval.benchmark.audit_fits import Fitter, Records, Try, key_of
from srs_eval.benchmark.leaderboard import Change, changes, compare
from srs_eval.benchmark.ledger import LAYOUT, LEDGER
from srs_eval.benchmark.plan import (
    START_SECONDS,
    Ended,
    Planned,
    UnitDone,
    expectations,
    make_setup,
    survey,
)
from srs_eval.benchmark.result_files import ResultFile, read_folders
from srs_eval.benchmark.store import PUBLISHED, TUNED, ResultStore, Unit, as_json
from srs_eval.benchmark.tuning import Search, Setup
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.outputs import refuse_nested, write_atomically
from srs_eval.data.reviews import IntArray
from srs_eval.engine.ranking import placed
from srs_eval.engine.session import seconds_to_compile
from srs_eval.engine.workers import cores
from srs_eval.models.configurations import Configuration
from srs_eval.stats.users import FEWEST_USERS, MeanInterval, mean_intervals
from srs_eval.training.context import Context
from srs_eval.training.hyperparameters import SEED

_HALVES = 2


@dataclass(frozen=True)
class Found:
    """What the search over one half of the users has found."""

    users: int  # whose training parts have chosen
    trials: int  # besides the published set-up
    setup: Setup
    log_loss: float  # mean over these users of the held-out training rows; nan where there are none
    published: float  # the same of the published set-up
    extended: Mapping[str, Sequence[str]]  # limits that moved, by hyperparameter
    on_edge: tuple[str, ...]  # where more trials may find a better one


@dataclass(frozen=True, eq=False)
class Tuned:
    """One configuration, as published and tuned."""

    configuration: Configuration
    found: tuple[Found, ...]  # by half; () where there is nothing to tune
    best: Setup  # of these and the published one: with the least loss over all users' training rows
    left_out: tuple[str, ...]  # hyperparameters that no search can begin from
    change: Change | None  # tuned minus published, on the judged reviews; None without results
    spread: tuple[float, float] | None
    """Standard deviation over seeds of the mean log loss over users, published and tuned."""


@dataclass(frozen=True)
class Pair:
    """Two configurations, the first one ahead as published; differences are first minus second."""

    first: str
    second: str
    published: MeanInterval  # of log loss, every user counting the same
    tuned: MeanInterval
    users: int

    @property
    def verdict(self) -> str:
        """What tuning has made of the lead."""
        enough = self.users >= FEWEST_USERS
        if self.tuned.estimate > 0:
            return "turned round" if enough and self.tuned.low > 0 else "behind, not surely"
        if enough and self.published.high < 0 and not self.tuned.high < 0:
            return "no sure lead any more"
        return "kept"


@dataclass(frozen=True, eq=False)
class Ranking:
    """Configurations judged on the same reviews, before and after."""

    rows: str
    users: int  # with results of all configurations, before and after
    published: tuple[str, ...]  # labels, best first by the mean over these users
    tuned: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def survives(self) -> bool:
        """Whether the order is the same."""
        return self.published == self.tuned


@dataclass(frozen=True, eq=False)
class Audit:
    """The end of a run."""

    users: int
    trials: int
    repeats: int
    tuned: tuple[Tuned, ...]
    rankings: tuple[Ranking, ...]
    failed: Mapping[str, int]  # reasons, and of how many fits


_AuditEvent = Planned | UnitDone | Ended | Audit


def run_audit(
    dataset: Dataset,
    configurations: Sequence[Configuration],
    out: Path,
    *,
    users: Sequence[int] | None = None,
    trials: int = 30,
    repeats: int = 3,
    seed: int = 0,
    jobs: int | None = None,
    fresh: bool = False,
    context: Context | None = None,
) -> Generator[_AuditEvent, None, None]:
    """Tune every configuration with the same budget and compare them again.

    `trials` set-ups are tried for each half of the users besides the published one; trainings
    that draw random numbers are judged with `repeats` seeds. Yields Planned, a UnitDone for each
    fit on a user, Ended and the Audit. What is done is kept in `out`, and a second run goes on
    from it, trying again what has failed; its figures do not depend on `jobs` or on
    interruptions. Raises InputError for an unusable set-up, and where `out` holds results that
    are not an audit's.
    """
    refuse_nested(out, dataset.folder)
    wanted = list(dataset.users if users is None else users)
    if len(wanted) < _HALVES:
        raise InputError("An audit needs two users at least: the ones choose for the others.")
    for each in configurations:
        if each.protocol.train_equals_test:
            raise InputError(f"{each.name} trains on what it is judged on: no audit can be made.")
    context = context or Context()
    fingerprint, sizes = survey(dataset)
    setup = make_setup(dataset, fingerprint, configurations, context)
    halves = [wanted[half::_HALVES] for half in range(_HALVES)]
    by_name = {each.name: each for each in configurations}
    searches = {
        (each.name, half): Search(
            each.tunable,
            {knob.name: knob.default_under(each.protocol) for knob in each.tunable},
            trials,
            seed,
        )
        for each in configurations
        if any(knob.searched for knob in each.tunable)
        for half in range(_HALVES)
    }
    seconds = expectations(dataset, sizes, configurations)
    # The winners of each half are tried on the other one, too.
    fits = {
        each.name: (trials + _HALVES if (each.name, 0) in searches else 0)
        + (_HALVES if (each.name, 0) in searches else 1) * _seeds(each, repeats)
        for each in configurations
    }
    total = len(wanted) * sum(fits.values())
    work = sum(fits[name] * seconds(user, (name,)) for name in fits for user in wanted)
    jobs = min(cores() if jobs is None else max(1, jobs), len(wanted))
    compiling = seconds_to_compile(configurations)
    counts: dict[str, int] = {"done": 0, "failed": 0, "skipped": 0}
    with Records(out, setup, fresh) as records, ExitStack() as stack:

        def planned(units: int) -> Planned:
            return Planned(
                users=len(wanted),
                configurations=tuple(by_name),
                data=fingerprint,
                units=units,
                present=len(records),
                skipped_before=0,
                retried=records.retried,
                jobs=jobs,
                expected_seconds=work / jobs * units / total + START_SECONDS + compiling
                if units
                else 0.0,
                compile_seconds=compiling if units else 0.0,
                damaged=0,
            )

        fitter: Fitter | None = None
        begun = time.monotonic()
        passed = 0  # fits made, now or before
        for stage in _stages(records, configurations, halves, searches, repeats):
            fits_of_stage = list(dict.fromkeys(stage))
            missing = [each for each in fits_of_stage if each not in records]
            passed += len(fits_of_stage) - len(missing)
            if missing and fitter is None:
                yield planned(max(total - passed, len(missing)))
                fitter = Fitter(dataset.folder, by_name, records, jobs, context)
                stack.callback(fitter.close)
            for made, user, record in fitter.fit(missing) if fitter else ():
                passed += 1
                counts[record.status] += 1
                unit = Unit(made.configuration, user, record.status, reason=record.reason)
                share = min(passed / total, 1.0)
                yield UnitDone(unit, sum(counts.values()), users_finished=0, share=share)
            # Of the rounds before: what this one has found is told when the next begins.
            _write_ledger(out, setup, records, by_name, halves, searches)
        if fitter is None:
            yield planned(0)
        _write_results(out, setup, records, by_name, halves, searches)
        yield Ended(seconds=time.monotonic() - begun, **counts)
        yield _audit(out, records, configurations, halves, searches, trials, repeats)


def _stages(
    records: Records,
    configurations: Sequence[Configuration],
    halves: Sequence[Sequence[int]],
    searches: Mapping[tuple[str, int], Search],
    repeats: int,
) -> Iterator[list[tuple[Try, int]]]:
    """The fits of a whole audit, in parts; each part has to be in the records before the next."""
    while asked := {key: setups for key, each in searches.items() if (setups := each.ask())}:
        yield [
            (Try(name, "past", key_of(setup)), user)
            for (name, half), setups in asked.items()
            for setup in setups
            for user in halves[half]
        ]
        for (name, half), setups in asked.items():
            searches[name, half].tell(records.losses(name, halves[half], setups))
    # For the ledger alone: the best of each half on the other half.
    yield [
        (Try(name, "past", key_of(each.best[0])), user)
        for (name, _), each in searches.items()
        for users in halves
        for user in users
    ]
    yield [
        (Try(each.name, "judged", key_of({**setup, **seeded})), user)
        for each in configurations
        for half, users in enumerate(halves)
        for setup in ({}, _chosen_for(searches, each.name, half))
        for seeded in _seedings(each, repeats)
        for user in users
    ]


def _chosen_for(searches: Mapping[tuple[str, int], Search], name: str, half: int) -> Setup:
    """The set-up that a half of the users is judged with: the other half's."""
    search = searches.get((name, 1 - half))
    return search.best[0] if search is not None else {}


def _seeds(configuration: Configuration, repeats: int) -> int:
    return repeats if SEED in configuration.tunable else 1


def _seedings(configuration: Configuration, repeats: int) -> list[dict[str, float]]:
    seeds = range(_seeds(configuration, repeats))
    return [{SEED.name: seed} if seed else {} for seed in seeds]


def _found(records: Records, name: str, users: Sequence[int], search: Search) -> Found:
    best, loss = search.best
    usable = len(records.usable(name, users))
    return Found(
        users=usable,
        trials=len(search.tried) - 1,
        setup=best,
        log_loss=loss if usable else math.nan,
        published=search.tried[0][1] if usable else math.nan,
        extended={each: tuple(ways) for each, ways in search.extended.items()},
        on_edge=tuple(search.on_edge()),
    )


def _best(
    records: Records, name: str, halves: Sequence[Sequence[int]], found: Sequence[Found]
) -> Setup:
    """The best known set-up: with the least mean loss over all users' training parts."""
    setups = [{}, *(each.setup for each in found)]
    users = [user for half in halves for user in half]
    known = [
        setup
        for setup in setups
        if all((Try(name, "past", key_of(setup)), user) in records for user in users)
    ]
    losses = records.losses(name, users, known) if known else [0.0]
    return known[losses.index(min(losses))] if known else {}


def _write_ledger(
    out: Path,
    setup: Mapping[str, Any],
    records: Records,
    configurations: Mapping[str, Configuration],
    halves: Sequence[Sequence[int]],
    searches: Mapping[tuple[str, int], Search],
) -> None:
    """The best known set-up of each configuration; docs/formats.md."""
    listed = {}
    for name, configuration in configurations.items():
        if (name, 0) not in searches or not searches[name, 0].tried:
            continue
        found = [
            _found(records, name, users, searches[name, half]) for half, users in enumerate(halves)
        ]
        listed[name] = {
            "published": {
                each.name: each.default_under(configuration.protocol)
                for each in configuration.tunable
                if each.searched
            },
            "best": _best(records, name, halves, found),
            "halves": [
                {
                    "users": each.users,
                    "trials": each.trials,
                    "hyperparameters": each.setup,
                    "log_loss": _rounded(each.log_loss),
                    "published_log_loss": _rounded(each.published),
                    "limits_moved": {knob: list(ways) for knob, ways in each.extended.items()},
                    "on_edge": list(each.on_edge),
                }
                for each in found
            ],
        }
    content = {
        "layout": LAYOUT,
        "srs_eval": setup["srs_eval"],
        "data": setup["data"]["fingerprint"],
        "users": sorted(itertools.chain(*halves)),
        "configurations": listed,
    }
    write_atomically(out / LEDGER, as_json(content))


def _rounded(loss: float) -> float | None:
    return round(loss, 6) if math.isfinite(loss) else None


def _write_results(
    out: Path,
    setup: Mapping[str, Any],
    records: Records,
    configurations: Mapping[str, Configuration],
    halves: Sequence[Sequence[int]],
    searches: Mapping[tuple[str, int], Search],
) -> None:
    """Two folders of results, as `srs-eval batch` has them: as published, and tuned."""
    for folder in (PUBLISHED, TUNED):
        chosen = {
            (name, half): _chosen_for(searches, name, half) if folder == TUNED else {}
            for name in configurations
            for half in range(_HALVES)
        }
        described = {name: dict(each) for name, each in setup["configurations"].items()}
        for name, each in described.items():
            if any(chosen[name, half] for half in range(_HALVES)):
                each["hyperparameters"] = {
                    f"half {half + 1}": chosen[name, half] for half in range(_HALVES)
                }
        with ResultStore(out / folder, {**setup, "configurations": described}, fresh=True) as store:
            for name, half in chosen:
                for user in halves[half]:
                    record = records[Try(name, "judged", key_of(chosen[name, half])), user]
                    store.append(
                        Unit(
                            name,
                            user,
                            record.status,
                            line=record.line,
                            reason=record.reason,
                            seconds=record.seconds,
                        )
                    )
            store.publish(everything=True)


# What it comes to


def _audit(
    out: Path,
    records: Records,
    configurations: Sequence[Configuration],
    halves: Sequence[Sequence[int]],
    searches: Mapping[tuple[str, int], Search],
    trials: int,
    repeats: int,
) -> Audit:
    try:
        published, tuned = (read_folders([out / name])[0].files for name in (PUBLISHED, TUNED))
    except InputError:
        raise NotEnoughData("no user has enough reviews for any of the models") from None
    changed = {each.file.name: each for each in changes(tuned, published)}
    lines = []
    failed: dict[str, int] = defaultdict(int)
    for each in configurations:
        found = tuple(
            _found(records, each.name, users, searches[each.name, half])
            for half, users in enumerate(halves)
            if (each.name, half) in searches
        )
        lines.append(
            Tuned(
                configuration=each,
                found=found,
                best=_best(records, each.name, halves, found) if found else {},
                left_out=searches[each.name, 0].left_out if found else (),
                change=changed.get(each.name),
                spread=_spread(records, each, halves, found, repeats),
            )
        )
        for half, users in enumerate(halves):
            # Once where the chosen one is the published one.
            for key in dict.fromkeys(map(key_of, ({}, _chosen_for(searches, each.name, half)))):
                for user in users:
                    record = records[Try(each.name, "judged", key), user]
                    if record.status == "failed":
                        failed[f"{each.name}: {record.reason}"] += 1
    return Audit(
        users=sum(map(len, halves)),
        trials=trials,
        repeats=repeats,
        tuned=tuple(lines),
        rankings=tuple(_rankings(published, tuned)),
        failed=dict(failed),
    )


def _spread(
    records: Records,
    configuration: Configuration,
    halves: Sequence[Sequence[int]],
    found: Sequence[Found],
    repeats: int,
) -> tuple[float, float] | None:
    seedings = _seedings(configuration, repeats)
    if len(seedings) < 2:
        return None
    spreads = []
    for tuned in (False, True):
        by_seed = []
        for seeded in seedings:
            losses = []
            for half, users in enumerate(halves):
                setup = found[1 - half].setup if tuned and found else {}
                for user in users:
                    made = [
                        records[Try(configuration.name, "judged", key_of({**setup, **each})), user]
                        for each in seedings
                    ]
                    if all(each.status == "done" for each in made):
                        losses.append(made[seedings.index(seeded)].log_loss)
            by_seed.append(fmean(losses) if losses else math.nan)
        spreads.append(stdev(by_seed))
    return spreads[0], spreads[1]


def _rankings(published: Sequence[ResultFile], tuned: Sequence[ResultFile]) -> Iterator[Ranking]:
    """Of each set of reviews, with the floor in its place."""
    after = {each.name: each for each in tuned}
    for comparison in compare([each for each in published if each.name in after]):
        if len(comparison.files) < 2:
            continue
        files = [after[each.name] for each in comparison.files]
        users = reduce(np.intersect1d, [each.users for each in files], comparison.users)
        if not len(users):
            continue
        yield Ranking(
            rows=comparison.rows,
            users=len(users),
            published=_order(comparison.files, users),
            tuned=_order(files, users),
            pairs=tuple(_pairs(comparison.files, after, users)),
        )


def _order(files: Sequence[ResultFile], users: IntArray) -> tuple[str, ...]:
    means = [(each, float(each.of(users)["LogLoss"].mean())) for each in files]
    return tuple(each.label for each, _ in placed(means))


def _pairs(
    files: Sequence[ResultFile], after: Mapping[str, ResultFile], users: IntArray
) -> Iterator[Pair]:
    before = {each.label: each.of(users)["LogLoss"] for each in files}
    now = {each.label: after[each.name].of(users)["LogLoss"] for each in files}
    pairs = list(itertools.combinations(before, 2))
    weights = np.ones((len(users), 1))
    intervals = [
        mean_intervals(np.column_stack([loss[a] - loss[b] for a, b in pairs]), weights)[0]
        for loss in (before, now)
    ]
    for (first, second), published, tuned in zip(pairs, *intervals, strict=True):
        yield Pair(first, second, published, tuned, len(users))


__all__ = ("FEWEST_USERS", "Audit", "Found", "Pair", "Ranking", "Tuned", "run_audit")
