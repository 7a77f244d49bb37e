"""Evaluate users x configurations in worker processes; yield events and print nothing.

A task is one user with all the configurations that have no result for this user yet: they share
the user's prepared trials. Workers compute; only this process writes, one unit at a time
(`srs_eval.benchmark.store`). Each worker whose models run on a device (`Context.device`,
`Model.uses_device`) opens the device itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path

from srs_eval.benchmark.plan import (
    Backend,
    BatchEvent,
    CheckingModels,
    Ended,
    PendingUnits,
    Tasks,
    TrainingOnOthers,
    find_error,
    open_backend,
    survey_dataset,
)
from srs_eval.benchmark.setup import add_label, check_name, make_setup, remove_label
from srs_eval.benchmark.store import ResultStore, Status, Unit, refuse_audit_folder
from srs_eval.benchmark.user_parts import PartTraining, check_user_split, plan_trainings
from srs_eval.data.dataset_hub import load_plausible
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData, install_hint, shorten
from srs_eval.data.file_contents import file_digest
from srs_eval.data.outputs import refuse_nested
from srs_eval.data.readers.features import add_features, read_features
from srs_eval.data.readers.predictions import check_prediction_file, read_user_predictions
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.evaluate import evaluate_safely
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.own_models import list_unchecked
from srs_eval.engine.result import Result
from srs_eval.engine.run import Failed, Finished, Skipped
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.shared_reviews import restrict_both_to_shared_reviews
from srs_eval.engine.workers import (
    DONE,
    TaskEvents,
    WorkerDied,
    WorkerPool,
    WorkersCannotStart,
    count_cores,
    send,
)
from srs_eval.models import ExternalModel, all_models
from srs_eval.models.configurations import Configuration, find_meaning
from srs_eval.models.given import FILE_PREDICTIONS
from srs_eval.models.published import NamingYear
from srs_eval.training.hyperparameters import Context
from srs_eval.training.torch_networks import check_device, release_device

_PUBLISH_INTERVAL_SECONDS = 30.0
_PUBLISH_PAUSE_FACTOR = 20  # pause before the next publication, in durations of the last one
_USERS_TO_CHECK = 10  # a file nearly always has predictions of one of the first ten users
_LOST_DEVICE_EXIT_CODE = 70  # exit code of a worker whose device no longer answers


_FileMaker = Callable[[LearnerSession, Configuration, int, Result], bytes]
"""Makes the content of a unit's file. Workers run it, so it has to be a module-level function."""
_SessionFactory = Callable[[ReviewLog], LearnerSession]
"""`LearnerSession`, or a module-level subclass that evaluates on other reviews."""


def run_batch(
    dataset: Dataset,
    configurations: Sequence[Configuration],
    out: Path,
    *,
    users: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    jobs: int | None = None,
    engine: str = "local",
    file_makers: Mapping[str, _FileMaker] | None = None,
    fresh: bool = False,
    redo: Collection[str] | None = None,
    merge: Sequence[Path] = (),
    context: Context | None = None,
    naming: NamingYear = "2025",
    publish_seconds: float = _PUBLISH_INTERVAL_SECONDS,
    session_factory: _SessionFactory | _PredictionFile = LearnerSession,
) -> Generator[BatchEvent, None, None]:
    """Evaluate the units of users x configurations that `out` lacks.

    Yields Planned, a UnitDone for each unit, and Ended; before them CheckingModels if user-supplied
    models are checked for reading the future, and TrainingOnOthers before the first unit while
    models are trained on other users. The files in `out` (except `timing/`) do not depend
    on `jobs`, on interruptions or on the order of events. Closing the iterator, or an exception
    such as KeyboardInterrupt, ends all workers; the units that they had finished are kept.

    `users` are the same for all configurations, or given by configuration name. `engine` is an
    engine of `plan.open_backend`. `file_makers` make additional files of a unit, by kind; units
    that were done without these files are evaluated again. `fresh` deletes all earlier results
    first, and `redo` those of the named configurations. `merge` names batch folders with the same
    set-up, whose units are taken over before the batch begins. `naming` is the year whose spelling
    the names of result files follow (`models.published`). While the batch runs, the files that
    people read are renewed with pauses of at least `publish_seconds`. `session_factory` makes the
    session that evaluates a user; a file of external predictions is one, too. Raises InputError
    for an unusable set-up or device.
    """
    context = context or Context()
    file_makers = file_makers or {}
    events = TaskEvents()
    _check_batch_inputs(out, dataset, configurations, context)
    check_user_split(configurations, context, engine)
    if isinstance(session_factory, _PredictionFile):
        session_factory.check_reviews(dataset, users)
    jobs = count_cores() if jobs is None else max(1, jobs)
    fingerprint, sizes = survey_dataset(dataset)
    prediction_digests = {}
    if isinstance(session_factory, _PredictionFile):
        prediction_digests = session_factory.digests(configurations)
    all_users = _list_users(dataset, users)
    trainings = plan_trainings(configurations, all_users, out, fingerprint, context)
    unchecked_models = list_unchecked(configurations, context.features)
    if unchecked_models:
        yield CheckingModels(unchecked_models)
    setup = make_setup(dataset, fingerprint, configurations, context, prediction_digests, all_users)
    setup["names"] = naming
    if engine == "local" and _find_device_configurations(configurations, context):
        _check_device(context)  # before the folder is touched
    with (
        ResultStore(out, setup, fresh=fresh, redo=redo) as store,
        ExitStack() as stack,
    ):
        try:
            for other_folder in merge:
                store.merge_from(other_folder)
            batch_users = dataset.users if users is None else users
            pending = PendingUnits(store, dataset, sizes, configurations, batch_users, file_makers)
            backend = None
            if pending.tasks:
                opening = open_backend(
                    engine,
                    jobs=min(jobs, len(pending.tasks)),
                    folder=dataset.folder,
                    initializer=all_models,  # so that mistakes are reported once, not for each user
                    on_message=events.put,
                )
                backend = stack.enter_context(opening)
            pending_trainings = _find_pending_trainings(trainings, pending.tasks)
            yield pending.make_plan(fingerprint, backend, engine, len(pending_trainings))
            if backend is not None:
                failures = yield from _train_on_others(
                    pending_trainings, backend, events, dataset, context, store
                )
                tasks, failed_units = _split_off_failed(pending.tasks, trainings, failures)
                runner = _TaskRunner(
                    backend,
                    events,
                    dataset,
                    configurations,
                    context,
                    file_makers,
                    session_factory,
                    trainings,
                )
                next_publication = time.monotonic() + publish_seconds
                try:
                    for unit in chain(failed_units, runner.run(tasks)):
                        unit_done = pending.record(unit)
                        start = time.monotonic()
                        if start >= next_publication:
                            store.publish()
                            # In a large folder, publishing is slow, and has to be rare.
                            end = time.monotonic()
                            pause = max(publish_seconds, _PUBLISH_PAUSE_FACTOR * (end - start))
                            next_publication = end + pause
                        yield unit_done
                finally:
                    stack.close()  # ends the workers; what they have finished is kept
                    for unit in runner.collect_finished():
                        pending.record(unit)
            yield Ended(**pending.counts)
        finally:
            store.publish(everything=True)


def _check_batch_inputs(
    out: Path, dataset: Dataset, configurations: Sequence[Configuration], context: Context
) -> None:
    refuse_audit_folder(out)
    refuse_nested(out, dataset.folder)
    if any(configuration.protocol.is_until_date for configuration in configurations):
        raise InputError(
            "A data set has no dates, only days counted from each user's first review: give "
            "--train-until a number of days, such as 365."
        )
    if context.features is not None:
        # No user has the id -1: this only checks the table's columns.
        read_features(context.features, -1, needs_user_id=True)


def _find_device_configurations(
    configurations: Sequence[Configuration], context: Context
) -> frozenset[str]:
    """Return the names of the configurations that will run on a device other than the CPU."""
    if context.device == "cpu":
        return frozenset()
    return frozenset(
        configuration.name
        for configuration in configurations
        if configuration.model.uses_device
        and not install_hint(configuration.model.needs_on(context.device))
    )


def _check_device(context: Context) -> None:
    """Raise InputError if the device cannot be used.

    Another process tries the device and ends, so that this process occupies no device memory.
    """
    with WorkerPool(1) as pool:
        try:
            pool.submit(check_device, context).result()
        except WorkerDied as error:
            raise InputError(
                f"The device {context.device!r} cannot be used ({error}); give cpu."
            ) from None


# --- tasks ---------------------------------------------------------------------


@dataclass
class _UserTask:
    """A user's configurations that have no unit yet."""

    user: int
    names: list[str]
    is_retry: bool = False  # split off from a task that failed, usually because its worker died


@dataclass
class _TaskRunner:
    """Submits tasks to an executor and collects their units."""

    backend: Backend
    events: TaskEvents
    dataset: Dataset
    configurations: Sequence[Configuration]
    context: Context
    file_makers: Mapping[str, _FileMaker] = field(default_factory=dict)
    session_factory: _SessionFactory = LearnerSession
    trainings: Sequence[PartTraining] = ()
    running_tasks: dict[Future[list[Unit]], _UserTask] = field(default_factory=dict)

    def run(self, tasks: Tasks) -> Iterator[Unit]:
        """Run the tasks and yield their units in the order in which they finish.

        A task that fails is split into one task for each remaining configuration; if one of these
        fails again, its unit has failed. Where a worker's death fails more tasks than the one in
        progress, these retries are suspects and run one at a time, so that a second death shows
        which unit causes it.
        """
        queue = deque(_UserTask(user, list(names)) for user, names in tasks)
        suspects: deque[_UserTask] = deque()
        while queue or suspects or self.running_tasks:
            while queue and len(self.running_tasks) < self.backend.queue_length:
                self._submit(queue.popleft())
            if suspects and not self.running_tasks:
                self._submit(suspects.popleft())
            event = self.events.next_event(timeout=0.5)
            if event is None:
                continue
            future, message = event
            if message is not DONE:
                yield from self._receive(self.running_tasks[future], [message])
                continue
            task = self.running_tasks.pop(future)
            error = find_error(future)
            if error is None:
                yield from self._receive(task, future.result())
            elif isinstance(error, WorkersCannotStart) or not isinstance(error, Exception):
                raise error  # other tasks would fail, too
            elif task.is_retry:
                reason, detail = describe_failure(error)
                for name in task.names:
                    yield Unit(name, task.user, "failed", reason=reason, detail=detail)
            else:
                retries = suspects if self.backend.loses_whole_queue else queue
                for name in task.names:
                    retries.appendleft(_UserTask(task.user, [name], is_retry=True))

    def collect_finished(self) -> Iterator[Unit]:
        """Yield the units that were finished but not yet read when the executor ended."""
        while True:
            event = self.events.next_event(timeout=0)
            if event is None:
                return
            future, message = event
            if message is not DONE:
                yield from self._receive(self.running_tasks[future], [message])
            elif find_error(future) is None:
                yield from self._receive(self.running_tasks[future], future.result())

    def _submit(self, task: _UserTask) -> None:
        configurations = [
            configuration
            for configuration in self.configurations
            if configuration.name in task.names
        ]
        future = self.events.submit(
            self.backend.executor,
            _evaluate_user,
            self.dataset.folder.absolute(),  # a cluster's workers may start in another folder
            task.user,
            configurations,
            replace(self.context, other_users_weights=_find_weights(self.trainings, task.user)),
            self.file_makers,
            self.session_factory,
        )
        self.running_tasks[future] = task

    def _receive(self, task: _UserTask, units: Sequence[Unit]) -> Iterator[Unit]:
        """Yield the units that are new, and strike their configurations off the task.

        A unit can arrive twice: as a message and in the task's result.
        """
        for unit in units:
            if unit.configuration in task.names:
                task.names.remove(unit.configuration)
                yield unit


def _evaluate_user(
    folder: Path,
    user: int,
    configurations: Sequence[Configuration],
    context: Context,
    file_makers: Mapping[str, _FileMaker],
    session_factory: _SessionFactory = LearnerSession,
) -> list[Unit]:
    """Evaluate configurations on one user and return the units, with files by `file_makers`.

    Workers run this as one task. Each unit is also sent as a message as soon as it is done.
    Configurations that share prepared trials run one after the other, and these trials are
    discarded before the next ones are prepared: that halves the memory for the largest users.
    """
    try:
        log = load_plausible(_open_dataset(folder), user)
        session = session_factory(add_features(log, context.features))
    except Exception as error:
        status: Status
        if isinstance(error, NotEnoughData):
            status = "skipped"
            reason = str(error)
            detail = ""
        else:
            status = "failed"
            reason, detail = describe_failure(error)
        return [
            Unit(configuration.name, user, status, reason=reason, detail=detail)
            for configuration in configurations
        ]
    device_names = _find_device_configurations(configurations, context)
    user_context = replace(context, user=user)
    units = []
    keys = [session.preparation_key(configuration.protocol) for configuration in configurations]
    for preparation_key in dict.fromkeys(keys):
        for configuration, key in zip(configurations, keys, strict=True):
            if key != preparation_key:
                continue
            unit = _evaluate_unit(session, configuration, user, user_context, file_makers)
            units.append(unit)
            send(unit)
            if configuration.name in device_names and not release_device(context):
                os._exit(_LOST_DEVICE_EXIT_CODE)  # the pool starts a new worker
        session.discard_trials(preparation_key)
    return units


@cache
def _open_dataset(folder: Path) -> Dataset:
    return Dataset(folder)


def _evaluate_unit(
    session: LearnerSession,
    configuration: Configuration,
    user: int,
    context: Context,
    file_makers: Mapping[str, _FileMaker],
) -> Unit:
    _reset_peak_memory()
    start = time.perf_counter()
    cpu_start = time.process_time()
    match evaluate_safely(session, configuration, context):
        case Finished(result=result):
            line = {**result.to_upstream(), "user": user}
            if result.missing_predictions:
                line["lacks"] = result.missing_predictions
            if result.unused_predictions:
                line["unused"] = result.unused_predictions
            return Unit(
                configuration.name,
                user,
                "done",
                result_line=line,
                seconds=time.perf_counter() - start,
                cpu_seconds=time.process_time() - cpu_start,
                peak_mb=_read_peak_mb(),
                notes=tuple(result.notes),
                files={
                    kind: make_file(session, configuration, user, result)
                    for kind, make_file in file_makers.items()
                },
            )
        case Skipped(reason=reason, missing_module=module):
            return Unit(configuration.name, user, "skipped", reason=reason, missing_module=module)
        case Failed(reason=reason, detail=detail):
            return Unit(configuration.name, user, "failed", reason=reason, detail=detail)


def _reset_peak_memory() -> None:
    """Reset the record of the highest memory use, on Linux only."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _read_peak_mb() -> float:
    """Return the highest resident memory in MB; 0 on Windows.

    On Linux it is the highest since `_reset_peak_memory`, elsewhere since the process started.
    """
    with suppress(OSError), open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:"))
    with suppress(ImportError):  # not on Windows
        import resource

        units_per_mb = 1 << 20 if sys.platform == "darwin" else 1 << 10  # bytes or kilobytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / units_per_mb
    return 0.0


# --- training on the users of other parts (`benchmark.user_parts`)


def _list_users(
    dataset: Dataset, users: Sequence[int] | Mapping[str, Sequence[int]] | None
) -> list[int]:
    """Return the users of a batch, ascending."""
    if users is None:
        return sorted(dataset.users)
    if isinstance(users, Mapping):
        users = list(set().union(*users.values()))
    return sorted(map(int, users))


def _find_weights(trainings: Sequence[PartTraining], user: int) -> dict[str, Path]:
    """Return the files of weights that were not trained on a user, by configuration."""
    return {
        training.configuration.name: training.path
        for training in trainings
        if user in training.evaluated_users
    }


def _find_pending_trainings(trainings: Sequence[PartTraining], tasks: Tasks) -> list[PartTraining]:
    """Return the trainings whose weights are missing, and which some task needs.

    Configurations may share weights. A model that lacks a package is skipped, and not trained.
    """
    pending: dict[Path, PartTraining] = {}
    for training in trainings:
        configuration = training.configuration
        is_needed = any(
            user in training.evaluated_users and configuration.name in names
            for user, names in tasks
        )
        can_run = not install_hint(configuration.model.needs)
        if is_needed and can_run and training.path not in pending and not training.is_done:
            pending[training.path] = training
    return list(pending.values())


def _train_on_others(
    trainings: Sequence[PartTraining],
    backend: Backend,
    events: TaskEvents,
    dataset: Dataset,
    context: Context,
    store: ResultStore,
) -> Generator[BatchEvent, None, dict[Path, tuple[str, str]]]:
    """Train in workers, and store each file of weights as soon as it is trained.

    Returns why trainings failed, by the path of their weights: a sentence, and a traceback if the
    failure was unexpected.
    """
    failures: dict[Path, tuple[str, str]] = {}
    folder = dataset.folder.absolute()
    running: dict[Future[bytes], PartTraining] = {}
    for training in trainings:
        future = events.submit(backend.executor, _train_part, folder, training, context)
        running[future] = training
    fractions = dict.fromkeys(running, 0.0)
    while running:
        event = events.next_event(timeout=0.5)
        if event is None:
            continue
        future, message = event
        if message is DONE:
            training = running.pop(future)
            fractions[future] = 1.0
            error = find_error(future)
            if error is None:
                store.save_weights(training.path, future.result())
            elif isinstance(error, WorkersCannotStart) or not isinstance(error, Exception):
                raise error
            else:
                failures[training.path] = describe_failure(error)
        else:
            fractions[future] = message
        yield TrainingOnOthers(
            len(trainings) - len(running),
            len(trainings),
            sum(fractions.values()) / len(trainings),
        )
    return failures


def _train_part(folder: Path, training: PartTraining, context: Context) -> bytes:
    """Train for one part, and return the content of the file of weights; a worker runs this."""
    try:
        return training.run(_open_dataset(folder), context)
    finally:
        if context.device != "cpu" and not release_device(context):
            os._exit(_LOST_DEVICE_EXIT_CODE)


def _split_off_failed(
    tasks: Tasks, trainings: Sequence[PartTraining], failures: Mapping[Path, tuple[str, str]]
) -> tuple[Tasks, list[Unit]]:
    """Return the tasks that can run, and the failed units of those that lack weights.

    `failures` are from `_train_on_others`.
    """
    if not failures:
        return tasks, []
    remaining_tasks: Tasks = []
    units = []
    for user, names in tasks:
        weights = _find_weights(trainings, user)
        remaining_names = []
        for name in names:
            path = weights.get(name)
            if path is None or path not in failures:
                remaining_names.append(name)
                continue
            reason, detail = failures[path]
            reason = shorten(f"training on other users failed: {reason}")
            units.append(Unit(name, user, "failed", reason=reason, detail=detail))
        if remaining_names:
            remaining_tasks.append((user, tuple(remaining_names)))
    return remaining_tasks, units


# --- external predictions of many users
#
# A file of predictions is evaluated like a model, but it may lack predictions of some reviews. So
# each configuration that is compared with the file is evaluated twice: on all reviews, and, as
# `CONFIGURATION-on-NAME`, on the reviews that the file called NAME covers.


@dataclass(frozen=True)
class _PredictionFile:
    """A file of external predictions; called with a log, it makes a session that knows them."""

    path: Path
    name: str  # that the user gives the predictions
    digest: str  # of the file's content
    file_configuration: Configuration  # which stands for the file among the configurations

    def __call__(self, log: ReviewLog) -> LearnerSession:
        return _SessionWithPredictions(log, self)

    def add_comparisons(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Return the file's configuration, and each other one with its twin.

        The twin is evaluated on the reviews that the file covers.
        """
        compared = [self.file_configuration]
        for configuration in configurations:
            compared.append(configuration)
            plain_name = remove_label(configuration.name, configuration.label)
            label = f"{configuration.label} on {self.name}".lstrip()
            compared.append(add_label(replace(configuration, name=plain_name), label))
        return compared

    def digests(self, configurations: Sequence[Configuration]) -> dict[str, str]:
        """Return the file's digest by the name of each configuration that depends on the file."""
        return {
            configuration.name: self.digest
            for configuration in configurations
            if self.affects(configuration)
        }

    def check_reviews(
        self, dataset: Dataset, users: Sequence[int] | Mapping[str, Sequence[int]] | None
    ) -> None:
        """Raise InputError if the first user with predictions has other reviews in the data.

        Most mistakes concern all users: a batch does not even begin then. It looks for a user with
        predictions among the first few only. If only later users have a mistake, their units fail.
        """
        if users is None:
            users = dataset.users
        elif isinstance(users, Mapping):
            users = sorted(set().union(*users.values()))
        for user in users[:_USERS_TO_CHECK]:
            try:
                log = load_plausible(dataset, user)
            except (InputError, NotEnoughData):
                continue  # reported when the user's turn comes
            if read_user_predictions(log, self.path, self.name).file_count is not None:
                return

    def affects(self, configuration: Configuration) -> bool:
        """Return whether the configuration's figures depend on the file."""
        if configuration.model.name == FILE_PREDICTIONS:
            return True
        # A label may consist of "on NAME" alone, hence the space in front of it.
        return f" {configuration.label}".endswith(f" on {self.name}")


def open_prediction_file(
    path: Path | None, name: str, file_configuration: Configuration
) -> _PredictionFile:
    """Open a file of predictions that get a name.

    `file_configuration` is the configuration of FILE_PREDICTIONS, which gets this name, too. Raises
    InputError if the file or the name cannot be used.
    """
    if path is None or not name:
        raise InputError("--predictions FILE and --name NAME must be given together.")
    check_name("--name", name)
    if find_meaning(name):
        raise InputError(
            f"--name {name}: this already means {find_meaning(name)}; choose another name."
        )
    check_prediction_file(path)
    configuration_name = file_configuration.name.replace(FILE_PREDICTIONS, name, 1)
    return _PredictionFile(
        path.absolute(),
        name,
        file_digest(path),
        replace(file_configuration, name=configuration_name),
    )


class _SessionWithPredictions(LearnerSession):
    """Session of a user for whom a file may hold predictions."""

    def __init__(self, log: ReviewLog, file: _PredictionFile) -> None:
        super().__init__(log)
        self._file = file
        self._last_result: tuple[str, Result] | None = None
        """Name and result of the last plain configuration; its variant usually comes next."""

    def run(
        self,
        configuration: Configuration,
        context: Context | None = None,
        *,
        use_cache: bool = False,
    ) -> Result:
        """Evaluate a configuration, on the shared reviews if it is a twin (`add_comparisons`)."""
        file = self._file
        if configuration.model.name == FILE_PREDICTIONS and not self.log.external_predictions:
            predictions = read_user_predictions(self.log, file.path, file.name)
            self.log = replace(self.log, external_predictions={FILE_PREDICTIONS: predictions})
        if isinstance(configuration.model, ExternalModel) or not file.affects(configuration):
            result = super().run(configuration, context, use_cache=use_cache)
            self._last_result = (configuration.name, result)
            return result
        # A twin: restrict the results of the plain configuration to the reviews in the file.
        plain_name = remove_label(configuration.name, f"on {file.name}")
        if self._last_result is not None and self._last_result[0] == plain_name:
            result = self._last_result[1]
        else:
            plain_configuration = replace(configuration, name=plain_name, label="")
            result = self.run(plain_configuration, context, use_cache=use_cache)
        file_configuration = replace(file.file_configuration, protocol=configuration.protocol)
        file_result = self.run(file_configuration, context)
        return restrict_both_to_shared_reviews(result, file_result)[0]
