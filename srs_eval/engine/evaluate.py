"""Evaluate configurations on one learner: a stream of events, no output.

Views (app, command line, batch) iterate over `evaluate` and show what comes.
`Session` is the same work without events, for one process.
"""

from __future__ import annotations

import math
import os
import threading
import time
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval import metrics
from srs_eval.data.bins import rmse_bin_ids
from srs_eval.data.errors import (
    InputError,
    NotEnoughData,
    NotInstalled,
    counted,
    cut,
    described,
    in_one_line,
    require,
)
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import (
    FloatArray,
    ImportReceipt,
    IntArray,
    ReviewLog,
    Rows,
    arrays_in,
    read_only,
)
from srs_eval.data.rows import Selection, select_rows
from srs_eval.data.trials import Trials, prepare_trials, recency_weights
from srs_eval.engine import cache
from srs_eval.engine.results import Result
from srs_eval.engine.start_order import start_order
from srs_eval.engine.workers import (
    DONE,
    TaskEvents,
    WorkerDied,
    WorkerPool,
    WorkersCannotStart,
    send,
)
from srs_eval.models import no_thread_left
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.training.compile import kernels_there, mark_kernels
from srs_eval.training.context import Cancelled, Context


@dataclass(frozen=True)
class Prepared:
    """Rows are chosen and counted; the configurations come next."""

    reviews: int  # rows that the protocol starts from
    judged: int  # rows that are judged without `--secs`; 0 where there are too few
    configurations: tuple[Configuration, ...]  # about in the order of their start
    uncompiled: frozenset[str] = frozenset()
    """Names of those whose kernels are not on disk yet; some share theirs."""


@dataclass(frozen=True)
class Started:
    configuration: Configuration
    compiles: bool = False
    """Kernels are compiled before it can begin: the first run since an update."""


@dataclass(frozen=True)
class Progress:
    """A fold, or a part of one, is done."""

    configuration: Configuration
    fraction: float  # of the whole configuration, 0-1
    fold: int  # folds finished so far
    folds: int


@dataclass(frozen=True)
class Finished:
    configuration: Configuration
    result: Result


@dataclass(frozen=True)
class Failed:
    configuration: Configuration
    reason: str  # one sentence
    detail: str = ""  # traceback, for a log


@dataclass(frozen=True)
class Skipped:
    """Too little data, or something is not installed: no failure."""

    configuration: Configuration
    reason: str
    lacked: str = ""  # the module that was not installed


_Outcome = Finished | Failed | Skipped
Event = Prepared | Started | Progress | _Outcome
_Report = Callable[[float, int, int], None]  # fraction, finished folds, folds
_Predicted = tuple[FloatArray, dict[int, list[float]] | None, tuple[str, ...]]

_MOST_OF_TRACEBACK = 10_000  # characters of its beginning, and of its end


def _no_report(fraction: float, fold: int, folds: int) -> None:
    """Progress that nobody watches."""


class Session:
    """One learner in one process; rows, trials and what models derive are shared."""

    def __init__(self, log: ReviewLog) -> None:
        self.log = log
        self._selections: dict[str, Selection] = {}
        self._trials: dict[Protocol, Trials | NotEnoughData] = {}

    def selection(self, protocol: Protocol) -> Selection:
        if protocol.rows not in self._selections:
            self._selections[protocol.rows] = select_rows(self.log, protocol.rows)
        return self._selections[protocol.rows]

    def rows(self, protocol: Protocol) -> Rows:
        return self.selection(protocol).rows

    def trials(self, protocol: Protocol) -> Trials:
        """Trials under a protocol; flags that concern training only share one preparation."""
        key = self.preparation(protocol)
        if key not in self._trials:
            try:
                self._trials[key] = prepare_trials(self.log, self.rows(protocol), key)
            except NotEnoughData as reason:
                self._trials[key] = reason
        trials = self._trials[key]
        if isinstance(trials, NotEnoughData):
            raise trials
        return replace(trials, protocol=protocol)

    def preparation(self, protocol: Protocol) -> Protocol:
        """What protocols have in common that share one preparation of trials."""
        # Upstream's loss of deleted cards for some models is part of its figures on data
        # sets; in one's own collection all models are judged on the same reviews.
        known_decks_only = protocol.known_decks_only and self.log.user is not None
        return replace(protocol.without_training(), known_decks_only=known_decks_only)

    def forget(self, protocol: Protocol) -> None:
        """Let go of a protocol's trials, and of all that models have derived from them."""
        self._trials.pop(self.preparation(protocol), None)

    def run(
        self,
        configuration: Configuration,
        context: Context | None = None,
        report: _Report = _no_report,
        *,
        use_cache: bool = False,
    ) -> Result:
        """Fit and judge one configuration.

        Raises NotEnoughData, NotInstalled, Cancelled (from `context.tick`), or whatever a model
        raises.
        """
        context = context or Context()
        require(configuration.model.needs, configuration.model.name)
        if configuration.fit == "own":
            return self._run_own(configuration, context, report)
        trials = self.trials(configuration.protocol)
        key = ""
        if use_cache:
            key = cache.result_key(self._fingerprint, configuration, context)
            stored = cache.load(key)
            if stored is not None and len(stored.p) == len(trials.test_index):
                return _result(configuration, trials, stored, self.log.user, cached=True)
        start = time.perf_counter()
        p, parameters, notes = self.fit_and_predict(configuration, trials, context, report)
        stored = cache.Stored(p, parameters, time.perf_counter() - start, notes)
        result = _result(configuration, trials, stored, self.log.user, cached=False)
        if use_cache:
            cache.save(key, stored)
        return result

    def fit_and_predict(
        self,
        configuration: Configuration,
        trials: Trials,
        context: Context,
        report: _Report = _no_report,
    ) -> _Predicted:
        """The function of this name, on trials of this session or with other folds.

        Raises ValueError where a model of one's own has written to what is read-only, for neither
        torch nor compiled code asks. Nothing of it is kept then.
        """
        if configuration.model.file is None:
            return fit_and_predict(configuration, trials, context, report)
        watched = _Watched(trials)
        with no_thread_left():
            try:
                found = fit_and_predict(
                    configuration, replace(trials, _derived=watched), context, report
                )
            finally:
                written = watched.was_written_to()
                if written:
                    self._trials.clear()
        if written:
            raise ValueError("a read-only array was changed")
        trials._derived.update(watched)
        return found

    def _run_own(self, configuration: Configuration, context: Context, report: _Report) -> Result:
        """Judge the parameters of the learner's presets on all held-out reviews."""
        from srs_eval.models.own_parameters import in_force, left_out, may_have_seen

        parameters = in_force(self.log)
        trials = self.trials(configuration.protocol)
        start = time.perf_counter()
        default = configuration.model.default(context)
        predict = configuration.model.predict
        assert predict is not None
        index, presets = trials.test_index, trials.partition[trials.test_index]
        p = np.empty(len(trials))
        for preset, positions in _by_partition(index, presets):
            p[positions] = predict(trials, parameters.get(preset, default), positions, context)
        mark_compiled(configuration)
        report(1.0, len(trials.folds), len(trials.folds))
        names = [self.log.presets[preset].name for preset in parameters if preset in presets]
        notes = [f"as stored in {', '.join(names)}"] if names else []
        faults = left_out(self.log)
        for preset, fault in faults.items():
            those = int((presets == preset).sum())
            notes.append(
                f"defaults for {counted(those, 'review')} of {self.log.name_of_preset(preset)}: "
                f"Anki does not run its {fault}"
            )
        without = int((~np.isin(presets, [*parameters, *faults])).sum())
        if without:
            notes.append(f"defaults for {counted(without, 'review')} without stored parameters")
        entry = self.selection(configuration.protocol).entry_index[trials.review_th[index] - 1]
        seen = int(may_have_seen(self.log, presets, entry).sum())
        if seen:
            notes.append(
                f"may have been fitted to {seen:,} of these {counted(len(index), 'review')}: that "
                "flatters, by 0.002 to 0.009 of log loss; the answers judge on younger ones"
            )
        shown = {preset: values for preset, values in parameters.items() if preset in presets}
        seconds = time.perf_counter() - start
        stored = cache.Stored(p[index], shown or None, seconds, tuple(notes))
        result = _result(configuration, trials, stored, self.log.user, cached=False)
        return replace(result, flattered=seen)

    @property
    def _fingerprint(self) -> str:
        if not hasattr(self, "_fingerprint_made"):
            self._fingerprint_made = self.log.fingerprint()
        return self._fingerprint_made


class _Watched(dict[Any, Any]):
    """What is derived from trials, with checksums of it and of the trials."""

    def __init__(self, trials: Trials) -> None:
        super().__init__(trials._derived)
        self._known = [(array, _checksum(array)) for array in arrays_in(trials)]

    def __setitem__(self, make: Any, value: Any) -> None:
        super().__setitem__(make, value)
        self._known += [(array, _checksum(array)) for array in arrays_in(value)]

    def was_written_to(self) -> bool:
        return any(_checksum(array) != before for array, before in self._known)


def _checksum(array: NDArray[Any]) -> int:
    return 0 if array.dtype.hasobject else zlib.adler32(array.tobytes())


def _kernels(configuration: Configuration) -> str:
    """What configurations that need the same kernels have in common."""
    model = configuration.model
    fit = "default" if configuration.fit == "own" else configuration.fit  # neither is fitted
    return f"{model.name} {fit}{model.file.digest[:16] if model.file else ''}"


def must_compile(configuration: Configuration) -> bool:
    """Whether its kernels are not on disk yet, so that its first run takes seconds more."""
    return configuration.compiles and not kernels_there(_kernels(configuration))


def seconds_to_compile(configurations: Iterable[Configuration]) -> float:
    """A guess for the kernels that are not on disk yet, all those of a kind once."""
    models = [each.model for each in configurations if must_compile(each)]
    return sum({each.compiled_as: each.seconds_to_compile for each in models}.values())


def mark_compiled(configuration: Configuration) -> None:
    """Remember that its kernels are on disk; for callers that have run all of them."""
    if configuration.compiles:
        mark_kernels(_kernels(configuration))


def fit_and_predict(
    configuration: Configuration,
    trials: Trials,
    context: Context,
    report: _Report = _no_report,
) -> _Predicted:
    """Predictions in the order of `trials.test_index`, last fold's parameters, notes.

    For other folds than the protocol's: those of `replace(trials, folds=...)`.
    """
    model = configuration.model
    context = replace(context, hyperparameters=configuration.hyperparameters)
    folds = len(trials.folds)
    if model.online is not None:
        p = model.online(trials, _reporting(context, report, 0.0, 1.0, 0, folds))
        p = np.array(p, np.float64)  # the model may go on writing to its own
        report(1.0, folds, folds)
        mark_compiled(configuration)
        return p, None, ()
    if model.predict is None:
        raise RuntimeError(f"{model.name} defines neither predict nor online")
    fit = {"trained": model.fit, "S0": model.fit_s0, "default": None}[configuration.fit]
    if fit is None and configuration.fit != "default" and model.parameters:
        raise RuntimeError(f"{configuration.name} is not available: it cannot be trained yet")
    default_of = model.default
    if configuration.protocol.secs and model.default_secs is not None:
        default_of = model.default_secs

    def fit_to(train: IntArray, reporting: Context) -> Any:
        newer_more = configuration.protocol.recency
        weights = recency_weights(len(train)) if newer_more else np.ones(len(train))
        assert fit is not None
        parameters = fit(trials, train, read_only(weights), reporting)
        # The model may go on writing to what it returns.
        return copy(parameters) if isinstance(parameters, list | np.ndarray) else parameters

    scratch = np.empty(len(trials))
    parts: list[FloatArray] = []
    notes: list[str] = []
    fitted: dict[int, Any] = {}
    shown: dict[int, list[float]] = {}
    # Later folds train on more, and take as much longer than what each takes anyhow.
    sizes = [len(fold.test if fit is None else fold.train) for fold in trials.folds]
    whole, besides = configuration.expected_seconds(len(trials)), model.seconds_besides
    anyhow = sum(sizes) / folds * besides / max(whole - besides, 1e-9)
    ends = np.cumsum([0, *(size + anyhow for size in sizes)])
    ends = (ends / max(ends[-1], 1)).tolist()
    for number, fold in enumerate(trials.folds, start=1):
        default = default_of(context)
        train_partition = trials.partition[fold.train]
        fitted = {}
        start = ends[number - 1]
        too_small: dict[int, NotEnoughData] = {}
        for partition, train in _by_partition(fold.train, train_partition):
            if fit is None:
                fitted[partition] = default
                continue
            width = (ends[number] - ends[number - 1]) * len(train) / len(fold.train)
            reporting = _reporting(context, report, start, width, number - 1, folds)
            start += width
            try:
                fitted[partition] = fit_to(train, reporting)
            except NotEnoughData as reason:
                fitted[partition] = default
                too_small[partition] = reason
        instead = "default parameters"
        if too_small and configuration.protocol.fallback_user:
            with suppress(NotEnoughData):
                fitted |= dict.fromkeys(too_small, fit_to(fold.train, context))
                instead = "parameters of all partitions together"
        reasons = map(in_one_line, too_small.values())
        notes += [f"fold {number}: {instead} ({reason})" for reason in reasons]
        shown = _shown(configuration, fitted)
        for partition, test in _by_partition(fold.test, trials.partition[fold.test]):
            scratch[test] = model.predict(trials, fitted.get(partition, default), test, context)
        parts.append(scratch[fold.test])
        context.tick(1.0)
        report(ends[number], number, folds)
    if fit is None or fitted.keys() - too_small.keys():
        mark_compiled(configuration)  # else nothing was fitted in the last fold
    lists_parameters = model.parameters > 0 and len(shown) == len(fitted)
    return np.concatenate(parts), shown if lists_parameters else None, tuple(notes)


def _shown(configuration: Configuration, fitted: Mapping[int, Any]) -> dict[int, list[float]]:
    """The parameters that can be listed, by partition. Raises ArithmeticError for NaN and inf."""
    shown = {
        partition: [float(w) for w in parameters]
        for partition, parameters in fitted.items()
        if isinstance(parameters, (list, tuple, np.ndarray))
    }
    if not all(math.isfinite(w) for parameters in shown.values() for w in parameters):
        raise ArithmeticError(
            f"{configuration.name} was fitted to parameters that are no finite numbers"
        )
    return shown


def _reporting(
    context: Context, report: _Report, start: float, width: float, fold: int, folds: int
) -> Context:
    """The context with a tick that also reports, as the part `width` from `start` on."""

    def tick(fraction: float) -> None:
        context.tick(fraction)
        report(start + width * fraction, fold, folds)

    return replace(context, tick=tick)


def _by_partition(index: IntArray, partition: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The positions of each partition, in order of first appearance."""
    values, first = np.unique(partition, return_index=True)
    for value in values[np.argsort(first)].tolist():
        yield value, read_only(index[partition == value])


def _bins(trials: Trials) -> IntArray:
    """The bin for RMSE(bins) of each judged review, in the order of `trials.test_index`."""
    index = trials.test_index
    return rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index])


def _result(
    configuration: Configuration,
    trials: Trials,
    stored: cache.Stored,
    user: int | None,
    cached: bool,
) -> Result:
    index = trials.test_index
    y = trials.y[index]
    if not (np.isfinite(stored.p).all() and ((stored.p >= 0) & (stored.p <= 1)).all()):
        raise ArithmeticError(f"{configuration.name} predicted something that is no probability")
    return Result(
        configuration=configuration.name,
        metrics=metrics.summary(y, stored.p, trials.derived(_bins)),
        size=len(index),
        parameters=stored.parameters,
        p=stored.p,
        y=y,
        review_th=trials.review_th[index],
        fold=np.repeat(
            np.arange(1, len(trials.folds) + 1), [len(fold.test) for fold in trials.folds]
        ),
        partition=trials.partition[index],
        day=trials.day[index],
        bin=trials.derived(_bins),
        seconds=stored.seconds,
        cached=cached,
        user=user,
        notes=stored.notes,
    )


def evaluate(
    log: ReviewLog,
    names: str | Iterable[str] | list[Configuration] = "all",
    protocol: Protocol | None = None,
    *,
    jobs: int = 1,
    context: Context | None = None,
    cancel: threading.Event | None = None,
    use_cache: bool = True,
    first: Collection[str] = (),
) -> Iterator[Event]:
    """Evaluate configurations; yields events as they happen, one final event for each.

    `jobs` worker processes are started (spawned); 0 works in this process. The figures
    do not depend on it. They begin in the order of `start_order`, where `first` are names of
    those to be known soonest. Setting `cancel`, or closing the iterator, ends the work and
    every worker. Raises InputError for unusable names or flags before the first event.
    """
    protocol = protocol or Protocol()
    context = context or Context()
    if log.user is not None and not context.user:
        context = replace(context, user=log.user)  # the seeds of a batch
    configurations = _as_configurations(names, protocol)
    cancel = cancel or threading.Event()
    session = Session(log)
    try:
        judged = len(session.trials(replace(protocol, secs=False)).test_index)
    except NotEnoughData:
        judged = 0
    reviews = len(session.rows(protocol))
    uncompiled = frozenset(each.name for each in configurations if must_compile(each))
    configurations = start_order(configurations, reviews, jobs, uncompiled=uncompiled, first=first)
    yield Prepared(reviews, judged, tuple(configurations), uncompiled)
    if jobs <= 0:
        yield from _in_this_process(session, configurations, context, cancel, use_cache)
    else:
        jobs = min(jobs, len(configurations))
        yield from _in_workers(log, configurations, context, cancel, use_cache, jobs)
    if use_cache:
        cache.prune()


def _as_configurations(
    names: str | Iterable[str] | list[Configuration], protocol: Protocol
) -> list[Configuration]:
    if isinstance(names, str):
        return resolve(names, protocol)
    listed = list(names)
    configurations = [each for each in listed if isinstance(each, Configuration)]
    if configurations and len(configurations) == len(listed):
        return configurations
    return resolve([str(each) for each in listed], protocol)


def attempt(
    session: Session,
    configuration: Configuration,
    context: Context,
    report: _Report = _no_report,
    *,
    use_cache: bool = False,
) -> _Outcome:
    """What comes of one configuration, whatever its code raises.

    Raises Cancelled and KeyboardInterrupt only.
    """
    try:
        result = session.run(configuration, context, report, use_cache=use_cache)
        return Finished(configuration, result)
    except Cancelled:
        raise
    except BaseException as error:
        return outcome_of(configuration, error)


def outcome_of(configuration: Configuration, error: BaseException) -> Failed | Skipped:
    """What comes of a configuration that raised this: SystemExit is a failure, too.

    Raises KeyboardInterrupt, which is the person's.
    """
    if type(error) is KeyboardInterrupt:
        raise error
    if isinstance(error, NotInstalled):
        module = getattr(error, "module", "")
        return Skipped(configuration, in_one_line(error), module if type(module) is str else "")
    if isinstance(error, NotEnoughData):
        return Skipped(configuration, in_one_line(error))
    return Failed(configuration, *in_words(error))


def in_words(error: BaseException) -> tuple[str, str]:
    """Why something failed: a sentence, and the traceback where it is no person's business."""
    if isinstance(error, InputError | WorkerDied):
        return in_one_line(error), ""
    detail = _traceback(error)
    if isinstance(error, MemoryError):
        return "not enough memory", detail
    told = described(error)
    if (isinstance(error, ValueError) and "read-only" in told) or "readonly array" in told:
        told = (
            "It writes to a read-only array; those that it is given belong to all models: work on "
            f"copies, as in trials.delta_t.copy() ({told})"
        )
    return cut(told), detail


def _traceback(error: BaseException) -> str:
    """As Python prints it, without the middle of what is very long."""
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:  # what an exception consists of can be anything
        return ""
    if len(lines) > 2 * _MOST_OF_TRACEBACK:
        lines = f"{lines[:_MOST_OF_TRACEBACK]}\n...\n{lines[-_MOST_OF_TRACEBACK:]}"
    return lines.encode("utf-8", "replace").decode()


def _in_this_process(
    session: Session,
    configurations: list[Configuration],
    context: Context,
    cancel: threading.Event,
    use_cache: bool,
) -> Iterator[Event]:
    pending: deque[Progress] = deque()
    outer_tick = context.tick
    cancelled = False

    def tick(fraction: float) -> None:
        nonlocal cancelled
        try:
            outer_tick(fraction)
            if cancel.is_set():
                raise Cancelled
        except Cancelled:
            cancelled = True
            raise

    context = replace(context, tick=tick)
    for configuration in configurations:
        if cancel.is_set():
            return
        yield Started(configuration, must_compile(configuration))

        def report(
            fraction: float, fold: int, folds: int, configuration: Configuration = configuration
        ) -> None:
            pending.append(Progress(configuration, fraction, fold, folds))

        try:
            outcome = attempt(session, configuration, context, report, use_cache=use_cache)
        except Cancelled as error:
            if cancelled:
                return
            outcome = outcome_of(configuration, error)  # nobody has, but the model
        yield from pending
        pending.clear()
        yield outcome


def warm_up(*names: str) -> WorkerPool | None:
    """Compile, in a process of low priority, what configurations need and is not on disk.

    Names as `evaluate` takes them, what is needed soonest first; "fast" if left out. For a view,
    while a person chooses a file; None if nothing is missing. Call its `terminate_workers`
    before `evaluate`: kernels that are done are kept. Raises InputError for names that there
    are not.
    """
    wanted = {each.name: each for some in names or ("fast",) for each in resolve(some)}
    missing = tuple(each for each in wanted.values() if must_compile(each))
    if not missing:
        return None
    pool = WorkerPool(1)
    pool.submit(_warm_up, missing)
    pool.shutdown(wait=False)
    return pool


def _warm_up(configurations: Iterable[Configuration]) -> None:
    if hasattr(os, "nice"):
        os.nice(10)
    session = Session(_some_log())
    for configuration in configurations:
        attempt(session, configuration, Context())


def _some_log() -> ReviewLog:
    """Cards reviewed on every second day, all buttons and same-day reviews among them."""
    cards, days = 240, 12  # fewer than 20 cards of a first rating would be outliers
    number = np.arange(cards * days * 2)
    card, day, again = number % cards, number // (2 * cards) * 2, number // cards % 2
    keep = (again == 0) | ((card + day) % 3 == 0)
    card, day, again, number = card[keep], day[keep], again[keep], number[keep]
    order = np.lexsort((number, card))
    days_before, seconds_before = np.full(len(card), -1), np.full(len(card), -1)
    time_s = day * 86_400 + again * 600 + card
    same = card[order][1:] == card[order][:-1]
    days_before[order[1:][same]] = np.diff(day[order])[same]
    seconds_before[order[1:][same]] = np.diff(time_s[order])[same]
    rows = Rows(
        card_id=card,
        day_offset=day,
        rating=(card * 7 + number // cards * 5) % 4 + 1,
        state=np.where(days_before < 0, 0, 2),
        duration_ms=np.full(len(card), 5_000),
        elapsed_days=days_before,
        elapsed_seconds=seconds_before,
    )
    return ReviewLog(ImportReceipt("", "made up", len(card)), rows=rows)


# --- worker processes ---------------------------------------------------------


def _in_workers(
    log: ReviewLog,
    configurations: list[Configuration],
    context: Context,
    cancel: threading.Event,
    use_cache: bool,
    jobs: int,
) -> Iterator[Event]:
    waiting = deque(configurations)
    working: dict[Future[_Outcome], Started] = {}
    happenings = TaskEvents()
    pool = WorkerPool(
        jobs,
        initializer=_share,
        initargs=(log, replace(context, tick=Context().tick), use_cache),
        on_message=happenings.put,
    )

    def start_next() -> Started:
        # What another worker is compiling will soon be there for both.
        compiling = {
            each.configuration.model.compiled_as for each in working.values() if each.compiles
        }
        able = (each for each in waiting if each.model.compiled_as not in compiling)
        chosen = next(able, waiting[0])
        waiting.remove(chosen)
        started = Started(chosen, must_compile(chosen))
        working[happenings.submit(pool, _evaluate_shared, chosen)] = started
        return started

    try:
        while working or waiting:
            # One a worker, and not more: which is best next shows when a worker is free.
            while waiting and len(working) < jobs:
                yield start_next()
            happening = happenings.next(timeout=0.05)
            if cancel.is_set():
                return
            if happening is None:
                continue
            future, message = happening
            if message is DONE:
                done = working.pop(future).configuration
                # The worker need not wait until the caller has dealt with this.
                begun = [start_next()] if waiting else []
                yield _outcome(done, future)
                yield from begun
            else:
                yield Progress(working[future].configuration, *message)
    finally:
        pool.terminate_workers()


def _outcome(configuration: Configuration, future: Future[_Outcome]) -> _Outcome:
    try:
        return future.result()
    except WorkersCannotStart:
        raise
    except Exception as error:
        return outcome_of(configuration, error)


@dataclass(frozen=True)
class _Shared:
    """What all tasks of a worker have in common."""

    session: Session
    context: Context
    use_cache: bool


_shared: _Shared | None = None


def _share(log: ReviewLog, context: Context, use_cache: bool) -> None:
    global _shared
    _shared = _Shared(Session(log), context, use_cache)


def _evaluate_shared(configuration: Configuration) -> _Outcome:
    assert _shared is not None
    reported = (0.0, -1)  # time and fold of the last report

    def report(fraction: float, fold: int, folds: int) -> None:
        nonlocal reported
        now = time.monotonic()
        if now - reported[0] >= 0.05 or fold != reported[1]:
            reported = now, fold
            send((fraction, fold, folds))

    return attempt(
        _shared.session, configuration, _shared.context, report, use_cache=_shared.use_cache
    )
