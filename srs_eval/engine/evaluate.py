"""Evaluate configurations on one learner and yield a stream of events, without any output.

Views (app, command line, batch) iterate over `evaluate` and show its events.
`LearnerSession` does the same work without events, in one process.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace

from srs_eval.data.errors import NotEnoughData, NotInstalled, error_message
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import add_features
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.cache import prune_cache
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.result import TestSet
from srs_eval.engine.run import (
    Checking,
    Event,
    Failed,
    FinalEvent,
    Finished,
    Prepared,
    Progress,
    Skipped,
    Started,
    plan_start_order,
)
from srs_eval.engine.session import LearnerSession, must_compile
from srs_eval.engine.workers import (
    DONE,
    TaskEvents,
    WorkerPool,
    WorkersCannotStart,
    send,
)
from srs_eval.models.configurations import (
    Configuration,
    refuse_user_split,
    resolve_configurations,
)
from srs_eval.training.hyperparameters import Cancelled, Context


def evaluate(
    log: ReviewLog,
    names: str | Iterable[str] | list[Configuration] = "all",
    protocol: Protocol | None = None,
    *,
    jobs: int = 1,
    context: Context | None = None,
    cancel: threading.Event | None = None,
    use_cache: bool = True,
    prioritized: Collection[str] = (),
) -> Iterator[Event]:
    """Evaluate configurations; yield events as they happen, with one final event for each.

    `jobs` is the number of worker processes to start (spawned); with 0, this process does the
    work. The results do not depend on it. Configurations start in the order of
    `plan_start_order`, where `prioritized` names the ones whose results are needed first. Setting
    `cancel`, or closing the iterator, ends the work and every worker.

    Raises:
        InputError: Names or flags are unusable. Raised before the first event.
    """
    protocol = protocol or Protocol()
    refuse_user_split(protocol)
    context = context or Context()
    log = add_features(log, context.features)
    if log.user is not None and not context.user:
        context = replace(context, user=log.user)  # so that seeds are the same as in a batch
    requested = names.split(",") if isinstance(names, str) else list(names)
    configurations = [item for item in requested if isinstance(item, Configuration)]
    if not configurations:
        configurations = resolve_configurations(map(str, requested), protocol)
    cancel = cancel or threading.Event()
    session = LearnerSession(log)
    try:
        evaluated = len(session.trials(replace(protocol, secs=False)).test_index)
    except NotEnoughData:
        evaluated = 0
    reviews = len(session.rows(protocol))
    uncompiled = frozenset(
        configuration.name for configuration in configurations if must_compile(configuration)
    )
    configurations = plan_start_order(configurations, reviews, jobs, prioritized)
    yield Prepared(reviews, evaluated, tuple(configurations), uncompiled)
    if jobs <= 0:
        events = _evaluate_in_process(session, configurations, context, cancel, use_cache)
    else:
        jobs = min(jobs, len(configurations))
        events = _evaluate_in_workers(log, configurations, context, cancel, use_cache, jobs)
    test_sets: dict[TestSet, TestSet] = {}  # equal test sets become one object
    with closing(events):
        for event in events:
            if isinstance(event, Finished):
                tests = test_sets.setdefault(event.result.tests, event.result.tests)
                event = replace(event, result=replace(event.result, tests=tests))
            yield event
    if use_cache:
        prune_cache()


def evaluate_safely(
    session: LearnerSession,
    configuration: Configuration,
    context: Context,
    *,
    use_cache: bool = False,
) -> FinalEvent:
    """Evaluate one configuration and return its final event, whatever its code raises.

    Raises only Cancelled and KeyboardInterrupt.
    """
    # Even SystemExit, which a user's model may raise, ends only this configuration.
    try:
        result = session.run(configuration, context, use_cache=use_cache)
        return Finished(configuration, result)
    except Cancelled:
        raise
    except BaseException as error:
        return _final_event_for_error(configuration, error)


def _final_event_for_error(configuration: Configuration, error: BaseException) -> Failed | Skipped:
    """Return the final event of a configuration that raised an error.

    KeyboardInterrupt is raised again, because the user caused it.
    """
    if type(error) is KeyboardInterrupt:
        raise error
    if isinstance(error, NotInstalled | NotEnoughData):
        return Skipped(configuration, error_message(error), getattr(error, "module", ""))
    return Failed(configuration, *describe_failure(error))


def _evaluate_in_process(
    session: LearnerSession,
    configurations: list[Configuration],
    context: Context,
    cancel: threading.Event,
    use_cache: bool,
) -> Generator[Event, None, None]:
    outer_tick = context.tick

    def tick(fraction: float) -> None:
        outer_tick(fraction)
        if cancel.is_set():
            raise Cancelled

    context = replace(context, tick=tick)
    for configuration in configurations:
        if cancel.is_set():
            return
        yield Started(configuration, must_compile(configuration))
        try:
            final = evaluate_safely(session, configuration, context, use_cache=use_cache)
            if _needs_leak_check(final, context):
                yield Checking(configuration)
            final = _flag_leak(final, context, cancel.is_set)
        except Cancelled as error:
            if cancel.is_set():
                return
            final = _final_event_for_error(configuration, error)  # raised by the model
        yield final


def warm_up_kernels(*names: str) -> WorkerPool | None:
    """Start to compile the missing kernels of configurations, in a process of low priority.

    `names` are as in `evaluate`, the ones needed soonest first; "fast" if left out. Returns the
    pool of the process, or None if no kernel is missing. Views call this while the user chooses a
    file. Call the pool's `terminate_workers` before `evaluate`: kernels that are finished are kept.

    Raises:
        InputError: A name does not exist.
    """
    configurations: dict[str, Configuration] = {}
    for name in names or ("fast",):
        for configuration in resolve_configurations(name):
            configurations[configuration.name] = configuration
    uncompiled = tuple(
        configuration for configuration in configurations.values() if must_compile(configuration)
    )
    if not uncompiled:
        return None
    pool = WorkerPool(1)
    pool.submit(_compile_and_exit, uncompiled)
    return pool


def _compile_and_exit(configurations: Iterable[Configuration]) -> None:
    if hasattr(os, "nice"):
        os.nice(10)
    session = LearnerSession(load_demo_learner(1_000))
    for configuration in configurations:
        evaluate_safely(session, configuration, Context())
    os._exit(0)  # frees the memory; no caller waits for a result


# --- worker processes ---------------------------------------------------------


def _evaluate_in_workers(
    log: ReviewLog,
    configurations: list[Configuration],
    context: Context,
    cancel: threading.Event,
    use_cache: bool,
    jobs: int,
) -> Generator[Event, None, None]:
    waiting = deque(configurations)
    members_by_name = {
        configuration.name: _collect_member_names(configuration) for configuration in configurations
    }
    member_results: list[Finished] = []  # results so far that ensembles combine
    working: dict[Future[FinalEvent], Started] = {}
    events = TaskEvents()
    pool = WorkerPool(
        jobs,
        initializer=_initialize_worker,
        initargs=(log, replace(context, tick=Context().tick), use_cache),
        on_message=events.put,
    )

    def list_startable() -> list[Configuration]:
        """Return the waiting configurations whose members, if any, have finished."""
        unfinished = {configuration.name for configuration in waiting}
        unfinished |= {started.configuration.name for started in working.values()}
        return [
            configuration
            for configuration in waiting
            if not unfinished & members_by_name[configuration.name]
        ]

    def start_next() -> Started:
        # Two workers need not compile the same kernels: soon they will be there for both.
        compiling = {
            started.configuration.model.kernel_owner
            for started in working.values()
            if started.needs_compilation
        }
        startable = list_startable()
        not_compiling = (
            configuration
            for configuration in startable
            if configuration.model.kernel_owner not in compiling
        )
        chosen = next(not_compiling, startable[0])
        waiting.remove(chosen)
        started = Started(chosen, must_compile(chosen))
        names = members_by_name[chosen.name]
        finished_members = [event for event in member_results if event.configuration.name in names]
        future = events.submit(pool, _evaluate_task, chosen, finished_members)
        working[future] = started
        return started

    with pool:
        # Each worker gets one task at a time: which is best next is known when a worker is free.
        while list_startable() and len(working) < jobs:
            yield start_next()
        for future, message in events.until_done(cancel):
            if message is DONE:
                done = working.pop(future).configuration
                error = future.exception()
                if isinstance(error, WorkersCannotStart):
                    raise error
                final = _final_event_for_error(done, error) if error else future.result()
                if isinstance(final, Finished) and done.is_member:
                    member_results.append(final)
                # Start others before the caller handles this event, so that no worker waits for it.
                newly_started: list[Started] = []
                while list_startable() and len(working) < jobs:
                    newly_started.append(start_next())
                yield final
                yield from newly_started
            elif message == _CHECKING_MESSAGE:
                yield Checking(working[future].configuration)
            else:
                yield Progress(working[future].configuration, message)


def _collect_member_names(configuration: Configuration) -> frozenset[str]:
    """Return the names of a configuration's members and of their members."""
    names: set[str] = set()
    for member in configuration.member_configurations:
        names.add(member.name)
        names |= _collect_member_names(member)
    return frozenset(names)


_worker_state: tuple[LearnerSession, Context, bool]
"""Session, context and whether the cache is used, shared by all tasks of a worker."""


def _initialize_worker(log: ReviewLog, context: Context, use_cache: bool) -> None:
    global _worker_state
    _worker_state = (LearnerSession(log), context, use_cache)


def _evaluate_task(
    configuration: Configuration, finished_members: Iterable[Finished] = ()
) -> FinalEvent:
    session, context, use_cache = _worker_state
    for event in finished_members:
        session.remember_member_result(event.configuration, event.result, context)
    reported_at = 0.0

    def tick(fraction: float) -> None:
        nonlocal reported_at
        now = time.monotonic()
        if now - reported_at >= 0.05 or fraction == 1.0:
            reported_at = now
            send(fraction)

    context = replace(context, tick=tick)
    final = evaluate_safely(session, configuration, context, use_cache=use_cache)
    if _needs_leak_check(final, context):
        send(_CHECKING_MESSAGE)
    return _flag_leak(final, context)


_CHECKING_MESSAGE = "checking"
"""Message that a worker sends before it checks a model; its other messages are fractions done."""


def _needs_leak_check(final: FinalEvent, context: Context) -> bool:
    """Return whether `_flag_leak` will have to check the model, which takes time."""
    if not isinstance(final, Finished) or final.configuration.model.file is None:
        return False
    from srs_eval.engine.own_models import is_checked

    return not is_checked(final.configuration, context.features)


def _flag_leak(
    final: FinalEvent, context: Context, is_cancelled: Callable[[], bool] = lambda: False
) -> FinalEvent:
    """Return the event; the result of a user's own model comes with a warning if it has a mistake.

    Raises:
        Cancelled: `is_cancelled` returned true.
    """
    if not isinstance(final, Finished) or final.configuration.model.file is None:
        return final
    from srs_eval.engine.own_models import add_leak_warning

    marked = add_leak_warning(final.result, final.configuration, context.features, is_cancelled)
    return replace(final, result=marked)
