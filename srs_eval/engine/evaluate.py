"""Evaluate configurations on one learner: a stream of events, no output.

Views (app, command line, batch) iterate over `evaluate` and show what comes.
`Session` is the same work without events, for one process.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.errors import (
    InputError,
    NotEnoughData,
    NotInstalled,
    cut,
    described,
    in_one_line,
)
from srs_eval.data.memory import is_short_of_memory
from srs_eval.data.paths import DEMO_FILE, cache_dir
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import with_features
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.engine.run import (
    Checking,
    Event,
    Failed,
    Final,
    Finished,
    Prepared,
    Progress,
    Skipped,
    Started,
    start_order,
)
from srs_eval.engine.session import Session, TestSet, must_compile
from srs_eval.engine.workers import (
    DONE,
    TaskEvents,
    WorkerDied,
    WorkerPool,
    WorkersCannotStart,
    send,
)
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.training.hyperparameters import Cancelled, Context

_LIMIT_BYTES = 500_000_000  # of stored results
_MOST_OF_TRACEBACK = 10_000  # characters of its beginning, and of its end


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
    log = with_features(log, context.features)
    if log.user is not None and not context.user:
        context = replace(context, user=log.user)  # the seeds of a batch
    listed = names.split(",") if isinstance(names, str) else list(names)
    configurations = [each for each in listed if isinstance(each, Configuration)] or resolve(
        map(str, listed), protocol
    )
    cancel = cancel or threading.Event()
    session = Session(log)
    try:
        evaluated = len(session.trials(replace(protocol, secs=False)).test_index)
    except NotEnoughData:
        evaluated = 0
    reviews = len(session.rows(protocol))
    uncompiled = frozenset(each.name for each in configurations if must_compile(each))
    configurations = start_order(configurations, reviews, jobs, first)
    yield Prepared(reviews, evaluated, tuple(configurations), uncompiled)
    if jobs <= 0:
        events = _in_this_process(session, configurations, context, cancel, use_cache)
    else:
        jobs = min(jobs, len(configurations))
        events = _in_workers(log, configurations, context, cancel, use_cache, jobs)
    tests: dict[TestSet, TestSet] = {}  # what was made twice is shared from here on
    with closing(events):
        for event in events:
            if isinstance(event, Finished):
                shared = tests.setdefault(event.result.tests, event.result.tests)
                event = replace(event, result=replace(event.result, tests=shared))
            yield event
    if use_cache:
        prune_cache()


def prune_cache(limit_bytes: int = _LIMIT_BYTES) -> None:
    """Delete the results unused for longest while they take more than the limit."""
    try:
        files = [(path, path.stat()) for path in (cache_dir() / "results").glob("*/*")]
    except OSError:
        return
    total = sum(stat.st_size for _, stat in files)
    for path, stat in sorted(files, key=lambda item: item[1].st_mtime):
        if total <= limit_bytes:
            break
        with suppress(OSError):
            path.unlink(missing_ok=True)
            total -= stat.st_size


def attempt(
    session: Session, configuration: Configuration, context: Context, *, use_cache: bool = False
) -> Final:
    """What comes of one configuration, whatever its code raises.

    Raises Cancelled and KeyboardInterrupt only.
    """
    try:
        result = session.run(configuration, context, use_cache=use_cache)
        return Finished(configuration, result)
    except Cancelled:
        raise
    except BaseException as error:
        return _outcome_of(configuration, error)


def _outcome_of(configuration: Configuration, error: BaseException) -> Failed | Skipped:
    """What comes of a configuration that raised this: SystemExit is a failure, too.

    Raises KeyboardInterrupt, which is the person's.
    """
    if type(error) is KeyboardInterrupt:
        raise error
    if isinstance(error, NotInstalled | NotEnoughData):
        return Skipped(configuration, in_one_line(error), getattr(error, "module", ""))
    return Failed(configuration, *in_words(error))


def in_words(error: BaseException) -> tuple[str, str]:
    """Why something failed: a sentence, and the traceback where it is no person's business."""
    if isinstance(error, InputError | WorkerDied):
        return in_one_line(error), ""
    if is_short_of_memory(error):
        return "not enough memory", ""
    detail = "".join(traceback.format_exception(error)).encode("utf-8", "replace").decode()
    if len(detail) > 2 * _MOST_OF_TRACEBACK:
        detail = f"{detail[:_MOST_OF_TRACEBACK]}\n...\n{detail[-_MOST_OF_TRACEBACK:]}"
    said = described(error)
    if (isinstance(error, ValueError) and "read-only" in said) or "readonly array" in said:
        said = (
            "It writes to a read-only array; those that it is given belong to all models: work on "
            f"copies, as in trials.delta_t.copy() ({said})"
        )
    return cut(said), detail


def _in_this_process(
    session: Session,
    configurations: list[Configuration],
    context: Context,
    cancel: threading.Event,
    use_cache: bool,
) -> Generator[Event, None, None]:
    def tick(fraction: float) -> None:
        outer_tick(fraction)
        if cancel.is_set():
            raise Cancelled

    outer_tick, context = context.tick, replace(context, tick=tick)
    for configuration in configurations:
        if cancel.is_set():
            return
        yield Started(configuration, must_compile(configuration))
        try:
            outcome: Final = attempt(session, configuration, context, use_cache=use_cache)
            if _needs_check(outcome, context):
                yield Checking(configuration)
            outcome = _looked_at(outcome, context, cancel.is_set)
        except Cancelled as error:
            if cancel.is_set():
                return
            outcome = _outcome_of(configuration, error)  # nobody has, but the model
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
    return pool


@cache
def demo_learner(reviews: int = 300, after: int = 0) -> ReviewLog:
    """Return the demo's first cards, those of `after` reviews left out.

    They have same-day reviews, several decks and all buttons.
    """
    log = _demo()
    rows = select_rows(log).rows
    card, begins, count = np.unique(rows.card_id, return_index=True, return_counts=True)
    order = np.argsort(begins)
    reviews_so_far = np.cumsum(count[order])
    is_chosen = (reviews_so_far > after) & (reviews_so_far <= after + reviews)
    chosen = card[order][is_chosen]
    kept = np.flatnonzero(np.isin(rows.card_id, chosen))
    columns = {name: column for name, column in vars(rows).items() if column is not None}
    rows = replace(rows, **{name: column[kept] for name, column in columns.items()})
    return replace(log, rows=rows)


@cache
def _demo() -> ReviewLog:
    """Return the rows of the demo's collection."""
    log = load_log(DEMO_FILE)
    rows = select_rows(log).rows
    return replace(log, entries=None, schedule=None, day_grid=None, rows=rows)


def _warm_up(configurations: Iterable[Configuration]) -> None:
    if hasattr(os, "nice"):
        os.nice(10)
    session = Session(demo_learner(1_000))
    for configuration in configurations:
        attempt(session, configuration, Context())
    os._exit(0)  # the memory goes back, though nobody asks


# --- worker processes ---------------------------------------------------------


def _in_workers(
    log: ReviewLog,
    configurations: list[Configuration],
    context: Context,
    cancel: threading.Event,
    use_cache: bool,
    jobs: int,
) -> Generator[Event, None, None]:
    waiting = deque(configurations)
    members = {each.name: _members_within(each) for each in configurations}
    finished: list[Finished] = []  # what others combine
    working: dict[Future[Final], Started] = {}
    events = TaskEvents()
    pool = WorkerPool(
        jobs,
        initializer=_share,
        initargs=(log, replace(context, tick=Context().tick), use_cache),
        on_message=events.put,
    )

    def can_start() -> list[Configuration]:
        begun = (each.configuration for each in working.values())
        missing = {each.name for each in (*waiting, *begun)}
        return [each for each in waiting if not missing & members[each.name]]

    def start_next() -> Started:
        # What another worker is compiling will soon be there for both.
        compiling = {
            each.configuration.model.compiled_as for each in working.values() if each.compiles
        }
        ready = can_start()
        able = (each for each in ready if each.model.compiled_as not in compiling)
        chosen = next(able, ready[0])
        waiting.remove(chosen)
        started = Started(chosen, must_compile(chosen))
        known = [each for each in finished if each.configuration.name in members[chosen.name]]
        working[events.submit(pool, _evaluate_shared, chosen, known)] = started
        return started

    with pool:
        # One a worker, and not more: which is best next shows when a worker is free.
        while can_start() and len(working) < jobs:
            yield start_next()
        for future, message in events.until_done(cancel):
            if message is DONE:
                done = working.pop(future).configuration
                error = future.exception()
                if isinstance(error, WorkersCannotStart):
                    raise error
                final = _outcome_of(done, error) if error else future.result()
                if isinstance(final, Finished) and done.is_member:
                    finished.append(final)
                # Workers need not wait until the caller has dealt with this.
                begun = []
                while can_start() and len(working) < jobs:
                    begun.append(start_next())
                yield final
                yield from begun
            elif message == _CHECKING:
                yield Checking(working[future].configuration)
            else:
                yield Progress(working[future].configuration, message)


def _members_within(configuration: Configuration) -> frozenset[str]:
    """Names of its members, and of theirs."""
    names = (frozenset({each.name}) | _members_within(each) for each in configuration.members)
    return frozenset().union(*names)


_shared: tuple[Session, Context, bool]
"""What all tasks of a worker have in common: with whether the cache is used."""


def _share(log: ReviewLog, context: Context, use_cache: bool) -> None:
    global _shared
    _shared = Session(log), context, use_cache


def _evaluate_shared(configuration: Configuration, known: Iterable[Finished] = ()) -> Final:
    session, context, use_cache = _shared
    for each in known:
        session.keep_member(each.configuration, each.result, context)
    reported = 0.0

    def tick(fraction: float) -> None:
        nonlocal reported
        now = time.monotonic()
        if now - reported >= 0.05 or fraction == 1.0:
            reported = now
            send(fraction)

    context = replace(context, tick=tick)
    final = attempt(session, configuration, context, use_cache=use_cache)
    if _needs_check(final, context):
        send(_CHECKING)
    return _looked_at(final, context)


_CHECKING = "checking"
"""What a worker sends before it checks a model; else it sends parts that are done."""


def _needs_check(final: Final, context: Context) -> bool:
    """Whether `_looked_at` will take its time."""
    if not isinstance(final, Finished) or final.configuration.model.file is None:
        return False
    from srs_eval.engine.own_models import is_checked

    return not is_checked(final.configuration, context.features)


def _looked_at(
    final: Final, context: Context, is_cancelled: Callable[[], bool] = lambda: False
) -> Final:
    """Mark the result of a person's own model if it reads the future.

    Raises:
        Cancelled: `is_cancelled` was true.
    """
    if not isinstance(final, Finished) or final.configuration.model.file is None:
        return final
    from srs_eval.engine.own_models import with_doubt

    marked = with_doubt(final.result, final.configuration, context.features, is_cancelled)
    return replace(final, result=marked)
