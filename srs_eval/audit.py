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
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, reduce
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np

from srs_eval import metrics
from srs_eval.across_users import FEWEST_USERS, MeanInterval, mean_intervals
from srs_eval.batch import Ended, Planned, UnitDone, expectations, make_setup, survey
from srs_eval.configurations import Configuration
from srs_eval.context import Context
from srs_eval.dataset import Dataset
from srs_eval.engine import Failed, Finished, Session, Skipped, attempt, fit_and_predict, in_words
from srs_eval.errors import InputError, NotEnoughData, NotInstalled
from srs_eval.extras import is_installed, require
from srs_eval.hyperparameters import SEED
from srs_eval.journal import append_record, hold, open_journal, read_records
from srs_eval.ledger import LAYOUT, LEDGER
from srs_eval.models import all_models
from srs_eval.protocol import Fold, Trials
from srs_eval.ranking import placed
from srs_eval.result_files import ResultFile, read_folders
from srs_eval.reviews import IntArray
from srs_eval.standings import Change, changes, compare
from srs_eval.store import (
    AUDIT,
    JOURNAL,
    PUBLISHED,
    SETUP,
    TUNED,
    ResultStore,
    Unit,
    disagreement,
    write_atomically,
)
from srs_eval.tuning import Search, Setup
from srs_eval.workers import DONE, TaskEvents, WorkerDied, WorkerPool, cores, send

HALVES = 2
HELD_OUT = 5  # a training part's last fifth judges the set-ups

Part = Literal["past", "judged"]


@dataclass(frozen=True)
class Try:
    """A configuration with one set-up of its training, on the split training parts or as judged."""

    configuration: str
    part: Part
    setup: tuple[tuple[str, float | str], ...]  # what is not as published, by name


@dataclass(frozen=True)
class Record:
    """What came of a try on one user."""

    status: Literal["done", "failed", "skipped"]
    log_loss: float = math.nan
    line: Mapping[str, Any] | None = None  # of a result file, if judged
    reason: str = ""
    seconds: float = 0.0
    lacked: str = ""  # the module that was not installed, if it was skipped for that


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


AuditEvent = Planned | UnitDone | Ended | Audit


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
) -> Generator[AuditEvent, None, None]:
    """Tune every configuration with the same budget and compare them again.

    `trials` set-ups are tried for each half of the users besides the published one; trainings
    that draw random numbers are judged with `repeats` seeds. Yields Planned, a UnitDone for each
    fit on a user, Ended and the Audit. What is done is kept in `out`, and a second run goes on
    from it, trying again what has failed; its figures do not depend on `jobs` or on
    interruptions. Raises InputError for an unusable set-up, and where `out` holds results that
    are not an audit's.
    """
    wanted = list(dataset.users if users is None else users)
    if len(wanted) < HALVES:
        raise InputError("An audit needs two users at least: the ones choose for the others.")
    for each in configurations:
        if each.protocol.train_equals_test:
            raise InputError(f"{each.name} trains on what it is judged on: no audit can be made.")
    context = context or Context()
    fingerprint, sizes = survey(dataset)
    setup = make_setup(dataset, fingerprint, configurations, context)
    halves = [wanted[half::HALVES] for half in range(HALVES)]
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
        for half in range(HALVES)
    }
    seconds = expectations(dataset, sizes, configurations)
    # The winners of each half are tried on the other one, too.
    fits = {
        each.name: (trials + HALVES if (each.name, 0) in searches else 0)
        + (HALVES if (each.name, 0) in searches else 1) * _seeds(each, repeats)
        for each in configurations
    }
    total = len(wanted) * sum(fits.values())
    work = sum(fits[name] * seconds(user, (name,)) for name in fits for user in wanted)
    jobs = min(cores() if jobs is None else max(1, jobs), len(wanted))
    counts: dict[str, int] = {"done": 0, "failed": 0, "skipped": 0}
    with _Records(out, setup, fresh) as records, ExitStack() as stack:

        def planned(units: int) -> Planned:
            return Planned(
                users=len(wanted),
                configurations=tuple(by_name),
                units=units,
                present=len(records),
                skipped_before=0,
                retried=records.retried,
                jobs=jobs,
                expected_seconds=work / jobs * units / total,
                damaged=0,
            )

        fitter: _Fitter | None = None
        begun = time.monotonic()
        passed = 0  # fits made, now or before
        for stage in _stages(records, configurations, halves, searches, repeats):
            fits_of_stage = list(dict.fromkeys(stage))
            missing = [each for each in fits_of_stage if each not in records]
            passed += len(fits_of_stage) - len(missing)
            if missing and fitter is None:
                yield planned(max(total - passed, len(missing)))
                fitter = _Fitter(dataset.folder, by_name, records, jobs, context)
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
    records: _Records,
    configurations: Sequence[Configuration],
    halves: Sequence[Sequence[int]],
    searches: Mapping[tuple[str, int], Search],
    repeats: int,
) -> Iterator[list[tuple[Try, int]]]:
    """The fits of a whole audit, in parts; each part has to be in the records before the next."""
    while asked := {key: setups for key, each in searches.items() if (setups := each.ask())}:
        yield [
            (Try(name, "past", _key(setup)), user)
            for (name, half), setups in asked.items()
            for setup in setups
            for user in halves[half]
        ]
        for (name, half), setups in asked.items():
            searches[name, half].tell(records.losses(name, halves[half], setups))
    # For the ledger alone: the best of each half on the other half.
    yield [
        (Try(name, "past", _key(each.best[0])), user)
        for (name, _), each in searches.items()
        for users in halves
        for user in users
    ]
    yield [
        (Try(each.name, "judged", _key({**setup, **seeded})), user)
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


# What the set-ups are chosen by


def split_past(trials: Trials) -> tuple[Fold, ...]:
    """Each fold's training part as a fold of its own: its last fifth is judged by what came before.

    Parts that are too small for that are left out.
    """
    later_only = trials.protocol.secs and (
        trials.protocol.no_test_same_day or trials.protocol.equalize_test_with_non_secs
    )

    def judged(rows: IntArray) -> IntArray:
        return rows[trials.elapsed_days[rows] > 0] if later_only else rows

    folds = []
    for fold in trials.folds:
        first = len(fold.train) - len(fold.train) // HELD_OUT
        test = judged(fold.train[first:])
        if len(test):
            folds.append(Fold(train=fold.train[:first], test=test))
    return tuple(folds)


def past_log_loss(session: Session, configuration: Configuration, context: Context) -> float:
    """Mean log loss of the held-out rows of all training parts, in nats.

    No review is used that the user is judged on after the last training part. Raises
    NotEnoughData, and ArithmeticError where predictions are no probabilities.
    """
    require(configuration.model.needs, configuration.model.name)
    trials = session.trials(configuration.protocol)
    folds = split_past(trials)
    if not folds:
        raise NotEnoughData("the training parts are too small to be split")
    split = replace(trials, folds=folds)
    p, _, _ = fit_and_predict(configuration, split, context)
    if not (np.isfinite(p).all() and ((p >= 0) & (p <= 1)).all()):
        raise ArithmeticError(f"{configuration.name} predicted something that is no probability")
    return metrics.log_loss(split.y[split.test_index], p)


# Fits in workers


def fit_user(
    folder: Path, user: int, tries: Sequence[tuple[Try, Configuration]], context: Context
) -> list[Record]:
    """What comes of some tries on one user, in this order; each record is sent on its way."""
    context = replace(context, user=user)
    try:
        session = Session(_dataset(folder).load(user))
    except Exception as error:
        return [Record("failed", reason=in_words(error)[0])] * len(tries)
    found = []
    for each, configuration in tries:
        tuned = configuration.trained_with(dict(each.setup))
        record = (
            _judged(session, tuned, context)
            if each.part == "judged"
            else _past(session, tuned, context)
        )
        send(record)
        found.append(record)
    return found


def _judged(session: Session, configuration: Configuration, context: Context) -> Record:
    start = time.perf_counter()
    match attempt(session, configuration, context):
        case Finished(result=result):
            line = result.to_upstream()
            loss = result.metrics.log_loss
            return Record("done", loss, line, seconds=time.perf_counter() - start)
        case Skipped(reason=reason, lacked=lacked):
            return Record("skipped", reason=reason, lacked=lacked)
        case Failed(reason=reason):
            return Record("failed", reason=reason)


def _past(session: Session, configuration: Configuration, context: Context) -> Record:
    start = time.perf_counter()
    try:
        loss = past_log_loss(session, configuration, context)
    except NotInstalled as reason:
        return Record("skipped", reason=str(reason), lacked=reason.module)
    except NotEnoughData as reason:
        return Record("skipped", reason=str(reason))
    except Exception as error:
        return Record("failed", reason=in_words(error)[0])
    return Record("done", loss, seconds=time.perf_counter() - start)


@cache
def _dataset(folder: Path) -> Dataset:
    return Dataset(folder)


def _import_models() -> None:
    all_models()


class _Fitter:
    """Makes fits on a pool of workers, and records them."""

    def __init__(
        self,
        folder: Path,
        configurations: Mapping[str, Configuration],
        records: _Records,
        jobs: int,
        context: Context,
    ) -> None:
        self._folder = folder
        self._configurations = configurations
        self._records = records
        self._context = context
        self._happenings = TaskEvents()
        self._pool = WorkerPool(jobs, initializer=_import_models, on_message=self._happenings.put)

    def close(self) -> None:
        """End the workers; what they had sent by then is kept."""
        self._pool.terminate_workers()

    def fit(self, missing: Iterable[tuple[Try, int]]) -> Iterator[tuple[Try, int, Record]]:
        """The new records, as they come."""
        by_user: dict[int, list[Try]] = defaultdict(list)
        for each, user in missing:
            by_user[user].append(each)
        tasks: dict[Future[list[Record]], tuple[int, list[Try]]] = {}
        for user, tries in by_user.items():
            tasks[self._submit(user, tries)] = user, tries
        while tasks:
            happening = self._happenings.next(timeout=0.5)
            if happening is None:
                continue
            future, message = happening
            user, left = tasks[future]
            if message is not DONE:
                yield self._keep(left.pop(0), user, message)
                continue
            del tasks[future]
            error = future.exception()
            if error is None:
                for record in future.result()[-len(left) :] if left else ():
                    yield self._keep(left.pop(0), user, record)
            elif isinstance(error, WorkerDied) and left:
                # What it was at work on has killed it; the rest is tried again.
                yield self._keep(left.pop(0), user, Record("failed", reason=str(error)))
                if left:
                    tasks[self._submit(user, left)] = user, left
            else:
                raise error

    def _submit(self, user: int, tries: Sequence[Try]) -> Future[list[Record]]:
        chosen = [(each, self._configurations[each.configuration]) for each in tries]
        return self._happenings.submit(
            self._pool, fit_user, self._folder, user, chosen, self._context
        )

    def _keep(self, each: Try, user: int, record: Record) -> tuple[Try, int, Record]:
        self._records.add(each, user, record)
        return each, user, record


# What is kept


class _Records:
    """The fits that are made, on disk as soon as they are; one process at a time holds them."""

    def __init__(self, out: Path, setup: Mapping[str, Any], fresh: bool) -> None:
        self._out = out
        _refuse_results_of_others(out, fresh)
        try:
            (out / JOURNAL).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f'The audit cannot be written to "{out}" ({error.strerror}): choose another --out.'
            ) from None
        self._let_go = hold(out / JOURNAL, f'Another audit is writing to "{out}": wait for it.')
        try:
            path = out / JOURNAL / "audit.jsonl"
            if fresh:
                path.unlink(missing_ok=True)
                (out / AUDIT).unlink(missing_ok=True)
            self._agree(setup)
            known = {
                _try_of(record): _record_of(record)
                for record, _ in read_records(path)
                if record is not None
            }
            self._known = {key: each for key, each in known.items() if _is_final(each)}
            self.retried = len(known) - len(self._known)
            self._handle = open_journal(path)
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> _Records:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
        self._let_go()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: tuple[Try, int]) -> bool:
        return key in self._known

    def __getitem__(self, key: tuple[Try, int]) -> Record:
        return self._known[key]

    def add(self, each: Try, user: int, record: Record) -> None:
        """Keep what came of a try on a user."""
        content: dict[str, Any] = {
            "configuration": each.configuration,
            "part": each.part,
            "hyperparameters": dict(each.setup),
            "user": user,
            "status": record.status,
        }
        if record.status == "done":
            content |= {"log_loss": record.log_loss, "seconds": round(record.seconds, 6)}
            content |= {"line": record.line} if record.line is not None else {}
        else:
            content["reason"] = record.reason
            content |= {"lacked": record.lacked} if record.lacked else {}
        append_record(self._handle, content)
        self._known[each, user] = record

    def losses(
        self, name: str, users: Sequence[int], setups: Sequence[Mapping[str, Any]]
    ) -> list[float]:
        """Mean loss of the users' training parts by set-up; inf where it fails on one of them.

        Of the users with whom the published set-up works; inf for all where there are none.
        """
        counted = self.usable(name, users)
        if not counted:
            return [math.inf] * len(setups)
        found = []
        for setup in setups:
            records = [self._known[Try(name, "past", _key(setup)), user] for user in counted]
            works = all(each.status == "done" for each in records)
            found.append(fmean(each.log_loss for each in records) if works else math.inf)
        return found

    def usable(self, name: str, users: Iterable[int]) -> list[int]:
        """Those whose training parts the published set-up can be fitted to."""
        published = Try(name, "past", ())
        return [user for user in users if self._known[published, user].status == "done"]

    def _agree(self, setup: Mapping[str, Any]) -> None:
        path = self._out / AUDIT
        if path.exists():
            try:
                stored = json.loads(path.read_text(encoding="utf-8"))
                difference = disagreement(stored, setup)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InputError(
                    f'"{path}" is damaged: start over with --fresh, or choose another --out.'
                ) from None
            if difference:
                raise InputError(
                    f'The audit in "{self._out}" does not go with this run: {difference}; '
                    "run it as before, choose another --out, or start over with --fresh."
                )
            known = {**setup["configurations"], **stored["configurations"]}
            setup = {**stored, "configurations": known}
        write_atomically(path, _as_json(setup))


def _refuse_results_of_others(out: Path, fresh: bool) -> None:
    """Raises InputError where an audit would write over results that no audit has left."""
    if (out / AUDIT).exists():
        return
    for path in _results_in(out):
        raise InputError(f'"{path}" is not from an audit in this folder: choose another --out.')
    for path in () if fresh else (*_results_in(out / PUBLISHED), *_results_in(out / TUNED)):
        raise InputError(
            f'"{path}" is not from an audit in this folder: '
            "choose another --out, or delete it with --fresh."
        )


def _results_in(folder: Path) -> list[Path]:
    return sorted([*folder.glob("result/*.jsonl"), *folder.glob(SETUP)])


def _is_final(record: Record) -> bool:
    """Whether another run need not try again."""
    if record.lacked:
        return not is_installed(record.lacked)
    return record.status != "failed"


def _try_of(record: Mapping[str, Any]) -> tuple[Try, int]:
    key = _key(record["hyperparameters"])
    return Try(record["configuration"], record["part"], key), record["user"]


def _record_of(record: Mapping[str, Any]) -> Record:
    return Record(
        record["status"],
        record.get("log_loss", math.nan),
        record.get("line"),
        record.get("reason", ""),
        record.get("seconds", 0.0),
        record.get("lacked", ""),
    )


def _key(setup: Mapping[str, float | str]) -> tuple[tuple[str, float | str], ...]:
    return tuple(sorted(setup.items()))


def _as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _seeds(configuration: Configuration, repeats: int) -> int:
    return repeats if SEED in configuration.tunable else 1


def _seedings(configuration: Configuration, repeats: int) -> list[dict[str, float]]:
    seeds = range(_seeds(configuration, repeats))
    return [{SEED.name: seed} if seed else {} for seed in seeds]


def _found(records: _Records, name: str, users: Sequence[int], search: Search) -> Found:
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
    records: _Records, name: str, halves: Sequence[Sequence[int]], found: Sequence[Found]
) -> Setup:
    """The best known set-up: with the least mean loss over all users' training parts."""
    setups = [{}, *(each.setup for each in found)]
    users = [user for half in halves for user in half]
    known = [
        setup
        for setup in setups
        if all((Try(name, "past", _key(setup)), user) in records for user in users)
    ]
    losses = records.losses(name, users, known) if known else [0.0]
    return known[losses.index(min(losses))] if known else {}


def _write_ledger(
    out: Path,
    setup: Mapping[str, Any],
    records: _Records,
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
        "configurations": listed,
    }
    write_atomically(out / LEDGER, _as_json(content))


def _rounded(loss: float) -> float | None:
    return round(loss, 6) if math.isfinite(loss) else None


def _write_results(
    out: Path,
    setup: Mapping[str, Any],
    records: _Records,
    configurations: Mapping[str, Configuration],
    halves: Sequence[Sequence[int]],
    searches: Mapping[tuple[str, int], Search],
) -> None:
    """Two folders of results, as `srs-eval batch` has them: as published, and tuned."""
    for folder in (PUBLISHED, TUNED):
        chosen = {
            (name, half): _chosen_for(searches, name, half) if folder == TUNED else {}
            for name in configurations
            for half in range(HALVES)
        }
        described = {name: dict(each) for name, each in setup["configurations"].items()}
        for name, each in described.items():
            if any(chosen[name, half] for half in range(HALVES)):
                each["hyperparameters"] = {
                    f"half {half + 1}": chosen[name, half] for half in range(HALVES)
                }
        with ResultStore(out / folder, {**setup, "configurations": described}, fresh=True) as store:
            for name, half in chosen:
                for user in halves[half]:
                    record = records[Try(name, "judged", _key(chosen[name, half])), user]
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
    records: _Records,
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
            for key in dict.fromkeys(map(_key, ({}, _chosen_for(searches, each.name, half)))):
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
    records: _Records,
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
                        records[Try(configuration.name, "judged", _key({**setup, **each})), user]
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


__all__ = ("FEWEST_USERS", "Audit", "Found", "Pair", "Ranking", "Tuned", "run_audit", "split_past")
