"""Users x configurations over worker processes; a stream of events, no output.

A task is one user with all configurations that are missing, so that they share the
prepared trials. Workers compute; this process alone writes, one unit at a time
(`srs_eval.benchmark.store`).

What runs on a device (`Context.device`, `Model.uses_device`) is a task of its own, in a lane of
its own: one worker, so that the device's memory holds one learner, whatever the number of jobs.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from srs_eval.benchmark.plan import (
    BatchEvent,
    CheckingModels,
    Ended,
    Place,
    Tasks,
    ToDo,
    error_of,
    open_place,
    survey,
)
from srs_eval.benchmark.setup import check_name, labelled, make_setup, without_label
from srs_eval.benchmark.store import ResultStore, Status, Unit, refuse_audits
from srs_eval.data.dataset_hub import load_possible
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData, missing
from srs_eval.data.paths import file_digest, refuse_nested
from srs_eval.data.readers.features import read_features, with_features
from srs_eval.data.readers.predictions import of_user, refuse_unusable
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.evaluate import attempt, in_words
from srs_eval.engine.own_models import unchecked
from srs_eval.engine.run import Failed, Finished, Skipped
from srs_eval.engine.session import Result, Session
from srs_eval.engine.shared import two_on_shared_reviews
from srs_eval.engine.workers import (
    DONE,
    TaskEvents,
    WorkerDied,
    WorkerPool,
    WorkersCannotStart,
    cores,
    send,
)
from srs_eval.models import all_models
from srs_eval.models.configurations import Configuration, Names, meant_by
from srs_eval.models.given import OF_FILE
from srs_eval.training.hyperparameters import Context
from srs_eval.training.torch_networks import check_device, release_device

_PUBLISH_SECONDS = 30.0
_TRIED_USERS = 10  # of whom one has predictions, as a rule
_LOST_DEVICE = 70  # exit code of a worker whose device does not answer any more


_Keeper = Callable[[Session, Configuration, int, Result], bytes]
"""Makes a file of a unit (configuration and user); a function of a module, for workers run it."""
_SessionMaker = Callable[[ReviewLog], Session]
"""`Session`, or what evaluates on other reviews; a class of a module."""


def run_batch(
    dataset: Dataset,
    configurations: Sequence[Configuration],
    out: Path,
    *,
    users: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    jobs: int | None = None,
    engine: str = "local",
    keep: Mapping[str, _Keeper] | None = None,
    fresh: bool = False,
    redo: Collection[str] | None = None,
    merge: Sequence[Path] = (),
    context: Context | None = None,
    names: Names = "2025",
    publish_seconds: float = _PUBLISH_SECONDS,
    session: _SessionMaker | _Others = Session,
) -> Generator[BatchEvent, None, None]:
    """Evaluate what is missing in `out` of users x configurations.

    Yields Planned, a UnitDone for each unit, and Ended; first of all CheckingModels, where models
    of the person's own are checked for reading the future. The files in `out` do not depend on
    `jobs`, on interruptions or on the order of events (`timing/` apart). Closing the iterator, or
    an exception such as KeyboardInterrupt, ends all workers; what they had finished is kept.
    `users` are the same for all configurations, or by their names. `merge` names batch folders with
    the same set-up, whose units are taken over first. `engine` is that of `plan.open_place`.
    `redo` names configurations whose results are deleted first, `fresh` deletes all.
    `keep` makes files of units besides their figures, by kind, also of units that were done
    without. `names` is how the files are spelled. `session` makes what evaluates a user, or brings
    what others predicted. Raises InputError for an unusable set-up or device.
    """
    context, makers, happenings = context or Context(), keep or {}, TaskEvents()
    _refuse_unusable(out, dataset, context)
    if isinstance(session, _Others):
        session.refuse_other_reviews(dataset, users)
    jobs = cores() if jobs is None else max(1, jobs)
    fingerprint, sizes = survey(dataset)
    given = session.digests(configurations) if isinstance(session, _Others) else {}
    if names_of_models := unchecked(configurations, context.features):
        yield CheckingModels(names_of_models)
    setup = {**make_setup(dataset, fingerprint, configurations, context, given), "names": names}
    on_device = _on_device(configurations, context)
    with (
        # The device is tried before the folder is touched.
        _lane(context, happenings) if on_device and engine == "local" else nullcontext() as lane,
        ResultStore(out, setup, fresh=fresh, redo=redo) as store,
        ExitStack() as stack,
    ):
        try:
            for other in merge:
                store.take_over(other)
            wanted = dataset.users if users is None else users
            todo = ToDo(store, dataset, sizes, configurations, wanted, makers)
            there, others = _divided(todo.tasks, on_device, jobs == 1 and lane is not None)
            opening = open_place(
                engine,
                min(jobs - bool(there), len(others)),
                dataset.folder,
                all_models,  # so that what is missing is told once and not for each user
                happenings.put,
                lane=lane if there else None,
                gpus=bool(there),
            )
            place = stack.enter_context(opening) if todo.tasks else None
            yield todo.planned(fingerprint, place, others, there, engine)
            if place is not None:
                user_tasks = _UserTasks(
                    place, happenings, dataset, configurations, context, makers, session
                )
                due = time.monotonic() + publish_seconds
                try:
                    for unit in user_tasks.units(others, there):
                        done = todo.store(unit)
                        if (begun := time.monotonic()) >= due:
                            store.publish()
                            took = time.monotonic() - begun  # a small share of the time, at most
                            due = begun + took + max(publish_seconds, 20 * took)
                        yield done
                finally:
                    stack.close()
                    for unit in user_tasks.left_over():
                        todo.store(unit)
            yield Ended(**todo.counts)
        finally:
            store.publish(everything=True)


def _refuse_unusable(out: Path, dataset: Dataset, context: Context) -> None:
    refuse_audits(out)
    refuse_nested(out, dataset.folder)
    if context.features is not None:
        read_features(context.features, -1, of_users=True)


def _on_device(configurations: Sequence[Configuration], context: Context) -> frozenset[str]:
    """Names of those that run on another device than the processor."""
    if context.device == "cpu":
        return frozenset()
    return frozenset(
        each.name
        for each in configurations
        if each.model.uses_device and not missing(each.model.needs)
    )


@contextmanager
def _lane(context: Context, happenings: TaskEvents) -> Iterator[WorkerPool]:
    """A worker process for the device, which has tried it. Raises InputError."""
    with WorkerPool(1, initializer=all_models, on_message=happenings.put) as pool:
        try:
            pool.submit(check_device, context).result()
        except WorkerDied as error:
            raise InputError(
                f"The device {context.device!r} cannot be used ({error}); give cpu."
            ) from None
        yield pool


def _divided(tasks: Tasks, on_device: frozenset[str], one_process: bool) -> tuple[Tasks, Tasks]:
    """What runs on the device, and the rest; all on the device where `one_process` does both."""
    parts: tuple[Tasks, Tasks] = [], []
    for user, names in tasks:
        for part, there in zip(parts, (True, False), strict=True):
            if some := tuple(name for name in names if (name in on_device) == there):
                part.append((user, some))
    if one_process and all(parts):
        return tasks, []
    return parts


# --- tasks ---------------------------------------------------------------------


@dataclass
class _Task:
    """A user's configurations that have no unit yet."""

    user: int
    names: list[str]
    place: Place
    again: bool = False  # a worker has died over it, or over more than it


@dataclass
class _UserTasks:
    """Runs tasks on an executor and makes units of what comes."""

    place: Place
    happenings: TaskEvents
    dataset: Dataset
    configurations: Sequence[Configuration]
    context: Context
    keep: Mapping[str, _Keeper] = field(default_factory=dict)
    session: _SessionMaker = Session
    tasks: dict[Future[list[Unit]], _Task] = field(default_factory=dict)  # at work

    def units(self, tasks: Tasks, on_device: Tasks) -> Iterator[Unit]:
        """Units in the order in which they are finished.

        Neither kind of tasks waits for the other: each has its own place and its own turn.
        """
        lanes = {
            place: deque(_Task(user, list(names), place) for user, names in some)
            for place, some in ((self.place, tasks), (self.place.for_device, on_device))
            if place is not None
        }
        suspects: deque[_Task] = deque()
        while any(lanes.values()) or suspects or self.tasks:
            for place, waiting in lanes.items():
                while waiting and self._at(place) < place.ahead:
                    self._submit(waiting.popleft())
            if suspects and not self.tasks:
                self._submit(suspects.popleft())
            happening = self.happenings.next(timeout=0.5)
            if happening is None:
                continue
            future, message = happening
            if message is not DONE:
                yield from self._missing(self.tasks[future], [message])
                continue
            task = self.tasks.pop(future)
            error = error_of(future)
            if error is None:
                yield from self._missing(task, future.result())
            elif isinstance(error, WorkersCannotStart) or not isinstance(error, Exception):
                raise error
            elif task.again:
                reason, detail = in_words(error)
                for name in task.names:
                    yield Unit(name, task.user, "failed", reason=reason, detail=detail)
            else:  # what it was is found one by one; a death of another cause costs nothing
                place = task.place
                parts = (_Task(task.user, [name], place, again=True) for name in task.names)
                (suspects if place.blames_bystanders else lanes[place]).extendleft(parts)

    def left_over(self) -> Iterator[Unit]:
        """After the executor's end: what tasks had finished and nobody had read."""
        while (happening := self.happenings.next(timeout=0)) is not None:
            future, message = happening
            if message is not DONE:
                yield from self._missing(self.tasks[future], [message])
            elif error_of(future) is None:
                yield from self._missing(self.tasks[future], future.result())

    def _at(self, place: Place) -> int:
        return sum(task.place is place for task in self.tasks.values())

    def _submit(self, task: _Task) -> None:
        chosen = [each for each in self.configurations if each.name in task.names]
        folder = self.dataset.folder.absolute()  # a cluster's workers may have begun elsewhere
        given = folder, task.user, chosen, self.context, self.keep, self.session
        future = self.happenings.submit(task.place.executor, _evaluate_user, *given)
        self.tasks[future] = task

    def _missing(self, task: _Task, units: Sequence[Unit]) -> Iterator[Unit]:
        for unit in units:
            if unit.configuration in task.names:
                task.names.remove(unit.configuration)
                yield unit


def _evaluate_user(
    folder: Path,
    user: int,
    configurations: Sequence[Configuration],
    context: Context,
    keep: Mapping[str, _Keeper],
    make_session: _SessionMaker = Session,
) -> list[Unit]:
    """All units of one user, with what `keep` makes; a task of any executor.

    Configurations that share a preparation come one after the other, and what they share goes
    before the next is made: that halves the memory that the largest users take. On its way it
    sends each unit.
    """
    try:
        session = make_session(
            with_features(load_possible(_dataset(folder), user), context.features)
        )
    except Exception as error:
        status: Status = "skipped" if isinstance(error, NotEnoughData) else "failed"
        reason, detail = (str(error), "") if status == "skipped" else in_words(error)
        return [
            Unit(each.name, user, status, reason=reason, detail=detail) for each in configurations
        ]
    on_device = _on_device(configurations, context)
    units = []
    preparations = [session.preparation(each.protocol) for each in configurations]
    for preparation in dict.fromkeys(preparations):
        for configuration, its in zip(configurations, preparations, strict=True):
            if its == preparation:
                own = replace(context, user=user)
                units.append(_evaluate_unit(session, configuration, user, own, keep))
                send(units[-1])
                if configuration.name in on_device and not release_device(context):
                    os._exit(_LOST_DEVICE)  # another process takes this one's place
        session.forget(preparation)
    return units


@cache
def _dataset(folder: Path) -> Dataset:
    return Dataset(folder)


def _evaluate_unit(
    session: Session,
    configuration: Configuration,
    user: int,
    context: Context,
    keep: Mapping[str, _Keeper],
) -> Unit:
    _forget_peak()
    start, cpu_start = time.perf_counter(), time.process_time()
    match attempt(session, configuration, context):
        case Finished(result=result):
            counts = {"lacks": result.lacks, "unused": result.unused}
            of_file = {name: count for name, count in counts.items() if count}
            return Unit(
                *(configuration.name, user, "done"),
                line={**result.to_upstream(), "user": user, **of_file},
                seconds=time.perf_counter() - start,
                cpu_seconds=time.process_time() - cpu_start,
                peak_mb=_peak_mb(),
                notes=tuple(result.notes),
                kept={
                    kind: make(session, configuration, user, result) for kind, make in keep.items()
                },
            )
        case Skipped(reason=reason, lacked=lacked):
            return Unit(configuration.name, user, "skipped", reason=reason, lacked=lacked)
        case Failed(reason=reason, detail=detail):
            return Unit(configuration.name, user, "failed", reason=reason, detail=detail)


def _forget_peak() -> None:
    """Linux can start its record of the highest memory use anew."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak_mb() -> float:
    """Highest resident memory in MB, since `_forget_peak` on Linux, else since the start."""
    with suppress(OSError), open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:"))
    with suppress(ImportError):  # Windows has none
        import resource

        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return 0.0


# --- predictions that were made elsewhere, of many users: result lines as of any model
#
# They may lack reviews. So what they are held against is evaluated twice: on all reviews, and as
# `NAME-on-THEIRS` on those that they have.


@dataclass(frozen=True)
class _Others:
    """Predictions of a file under a name; makes the sessions of a batch that know them."""

    path: Path
    name: str
    digest: str  # of the file
    of_file: Configuration

    def __call__(self, log: ReviewLog) -> Session:
        return _WithOthers(log, self)

    def beside(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Themselves, and the others, each also on the reviews that they have."""
        return [self.of_file, *(one for each in configurations for one in self._twice(each))]

    def _twice(self, configuration: Configuration) -> Iterator[Configuration]:
        yield configuration
        plain = without_label(configuration.name, configuration.label)
        label = f"{configuration.label} on {self.name}".lstrip()
        yield labelled(replace(configuration, name=plain), label)

    def digests(self, configurations: Sequence[Configuration]) -> dict[str, str]:
        """The file's digest by the name of each whose figures depend on it."""
        return {each.name: self.digest for each in configurations if self.concerns(each)}

    def refuse_other_reviews(
        self, dataset: Dataset, users: Sequence[int] | Mapping[str, Sequence[int]] | None
    ) -> None:
        """Raise InputError where the file predicts other reviews of the first users that it has.

        Most mistakes concern all users: a batch need not begin then. Of later users the unit fails.
        """
        if isinstance(users, Mapping):
            users = sorted({user for some in users.values() for user in some})
        for user in (dataset.users if users is None else users)[:_TRIED_USERS]:
            try:
                log = load_possible(dataset, user)
            except (InputError, NotEnoughData):
                continue  # it is told when the user's turn comes
            if of_user(log, self.path, self.name).count is not None:
                return

    def concerns(self, configuration: Configuration) -> bool:
        """Whether its figures depend on the file."""
        on_theirs = f" {configuration.label}".endswith(f" on {self.name}")
        return configuration.model.name == OF_FILE or on_theirs


def others_in(path: Path | None, name: str, of_file: Configuration) -> _Others:
    """What a file holds; `of_file` is the configuration of OF_FILE. Raises InputError."""
    if path is None or not name:
        raise InputError("--predictions FILE and --name NAME, what they are called, go together.")
    check_name("--name", name)
    if meant_by(name):
        raise InputError(f"--name {name}: {meant_by(name)} is computed here; take another name.")
    refuse_unusable(path)
    named = of_file.name.replace(OF_FILE, name, 1)
    return _Others(path.absolute(), name, file_digest(path), replace(of_file, name=named))


class _WithOthers(Session):
    def __init__(self, log: ReviewLog, others: _Others) -> None:
        super().__init__(log)
        self._others = others
        self._last: tuple[str, Result] | None = None  # it is wanted once more, as a rule next

    def run(
        self, configuration: Configuration, context: Context | None = None, **how: Any
    ) -> Result:
        others = self._others
        if configuration.model.name == OF_FILE and not self.log.given:
            given = of_user(self.log, others.path, others.name)
            self.log = replace(self.log, given={OF_FILE: given})
        if configuration.model.given or not others.concerns(configuration):
            self._last = configuration.name, super().run(configuration, context, **how)
            return self._last[1]
        name = without_label(configuration.name, f"on {others.name}")
        known = self._last and self._last[0] == name and self._last[1]
        mine = known or self.run(replace(configuration, name=name, label=""), context, **how)
        theirs = self.run(replace(others.of_file, protocol=configuration.protocol), context)
        return two_on_shared_reviews(mine, theirs)[0]
