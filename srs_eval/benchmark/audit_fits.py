"""Fits of an audit: on split training parts or judged, in workers, kept in a journal.

A try is a configuration with one set-up; what came of it on a user is a record, which is on disk
before anything else is made of it, so that no fit is made twice.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from srs_eval import metrics
from srs_eval.benchmark.journal import append_record, hold, open_journal, read_records
from srs_eval.benchmark.ledger import LEDGER
from srs_eval.benchmark.store import AUDIT, JOURNAL, PUBLISHED, SETUP, TUNED, as_json, disagreement
from srs_eval.data.dataset_check import load_possible
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData, is_installed, require
from srs_eval.data.outputs import write_atomically
from srs_eval.data.reviews import IntArray
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.evaluate import attempt, in_words, outcome_of
from srs_eval.engine.run import Failed, Finished, Skipped
from srs_eval.engine.session import Session
from srs_eval.engine.workers import DONE, TaskEvents, WorkerDied, WorkerPool, send
from srs_eval.models import all_models
from srs_eval.models.configurations import Configuration
from srs_eval.training.context import Context

_HELD_OUT = 5  # a training part's last fifth judges the set-ups

_Part = Literal["past", "judged"]


@dataclass(frozen=True)
class Try:
    """A configuration with one set-up of its training, on the split training parts or as judged."""

    configuration: str
    part: _Part
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
        first = len(fold.train) - len(fold.train) // _HELD_OUT
        test = judged(fold.train[first:])
        if len(test):
            folds.append(Fold(train=fold.train[:first], test=test))
    return tuple(folds)


def _past_log_loss(session: Session, configuration: Configuration, context: Context) -> float:
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
    p, _, _ = session.fit_and_predict(configuration, split, context)
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
        session = Session(load_possible(_dataset(folder), user))
    except NotEnoughData as reason:
        return [Record("skipped", reason=str(reason))] * len(tries)
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
        case Skipped() | Failed() as outcome:
            return _unfinished(outcome)


def _unfinished(outcome: Skipped | Failed) -> Record:
    if isinstance(outcome, Skipped):
        return Record("skipped", reason=outcome.reason, lacked=outcome.lacked)
    return Record("failed", reason=outcome.reason)


def _past(session: Session, configuration: Configuration, context: Context) -> Record:
    start = time.perf_counter()
    try:
        loss = _past_log_loss(session, configuration, context)
    except BaseException as error:
        return _unfinished(outcome_of(configuration, error))
    return Record("done", loss, seconds=time.perf_counter() - start)


@cache
def _dataset(folder: Path) -> Dataset:
    return Dataset(folder)


def _import_models() -> None:
    all_models()


class Fitter:
    """Makes fits on a pool of workers, and records them."""

    def __init__(
        self,
        folder: Path,
        configurations: Mapping[str, Configuration],
        records: Records,
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


class Records:
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
                (out / AUDIT).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
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

    def __enter__(self) -> Records:
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
            records = [self._known[Try(name, "past", key_of(setup)), user] for user in counted]
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
        write_atomically(path, as_json(setup))


def _refuse_results_of_others(out: Path, fresh: bool) -> None:
    """Raises InputError where an audit would replace or delete what no audit has left."""
    if (out / JOURNAL / "audit.jsonl" if fresh else out / AUDIT).exists():
        return
    others = [each for each in (out / AUDIT, out / LEDGER) if each.exists()]
    for folder in (out, out / PUBLISHED, out / TUNED):
        others += _results_in(folder)
    for path in others:
        raise InputError(f'"{path}" is not from an audit in this folder: choose another --out.')


def _results_in(folder: Path) -> list[Path]:
    return sorted([*folder.glob("result/*.jsonl"), *folder.glob(SETUP)])


def _is_final(record: Record) -> bool:
    """Whether another run need not try again."""
    if record.lacked:
        return not is_installed(record.lacked)
    return record.status != "failed"


def _try_of(record: Mapping[str, Any]) -> tuple[Try, int]:
    key = key_of(record["hyperparameters"])
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


def key_of(setup: Mapping[str, float | str]) -> tuple[tuple[str, float | str], ...]:
    """A set-up as a part of a try."""
    return tuple(sorted(setup.items()))
