"""Represent a run: its events, the order in which models start, and its results so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from srs_eval.data.errors import install_hint, printable
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.engine.ranking import REFERENCE, RankedResult, RankingGroup, rank_results
from srs_eval.engine.result import Result
from srs_eval.models.configurations import Configuration


@dataclass(frozen=True)
class Prepared:
    """The rows have been selected and counted; the configurations come next."""

    reviews: int  # rows that the protocol starts from
    evaluated: int  # rows that are evaluated with intervals in days; 0 if there are too few
    configurations: tuple[Configuration, ...]  # roughly in the order in which they start
    uncompiled: frozenset[str] = frozenset()
    """Names of configurations whose kernels are not on disk yet; some share the same kernels."""


@dataclass(frozen=True)
class Started:
    """The work on a configuration begins."""

    configuration: Configuration
    needs_compilation: bool = False
    """Kernels must be compiled before the start, as in the first run after an update."""


@dataclass(frozen=True)
class Progress:
    """A part of one configuration's work is done."""

    configuration: Configuration
    fraction: float  # of the whole configuration, 0-1


@dataclass(frozen=True)
class Checking:
    """A user's own model has predicted and is now checked, once, for reading the future."""

    configuration: Configuration


@dataclass(frozen=True)
class Finished:
    """A configuration has its result."""

    configuration: Configuration
    result: Result


@dataclass(frozen=True)
class Failed:
    """A configuration could not be evaluated because of an error."""

    configuration: Configuration
    reason: str  # one sentence
    detail: str = ""  # traceback, for a log


@dataclass(frozen=True)
class Skipped:
    """A configuration lacks data or something that must be installed, which is not a failure."""

    configuration: Configuration
    reason: str
    missing_module: str = ""  # the module that was not installed


FinalEvent = Finished | Failed | Skipped
Event = Prepared | Started | Progress | Checking | FinalEvent


def plan_start_order(
    configurations: Iterable[Configuration],
    reviews: int,
    workers: int,
    prioritized: Collection[str] = (),
) -> list[Configuration]:
    """Sort configurations into the order in which they start.

    Prioritized ones come first, and shorter ones before longer ones. But with more than two
    workers, all but two of them start with the longest configurations, prioritized or not, so that
    none of these is left to the end.
    """

    def seconds(configuration: Configuration) -> float:
        return configuration.expected_seconds(reviews)

    def is_later(configuration: Configuration) -> bool:
        return configuration.name not in prioritized

    shortest_first = sorted(configurations, key=lambda item: (is_later(item), seconds(item)))
    longest = sorted(shortest_first, key=seconds, reverse=True)[: max(0, workers - 2)]
    rest = [configuration for configuration in shortest_first if configuration not in longest]
    return longest + rest


class Stage(Enum):
    """How far the work on a configuration has come."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass
class ModelRun:
    """One configuration's progress and result."""

    configuration: Configuration
    stage: Stage = Stage.WAITING
    needs_compilation: bool = (
        False  # its kernels must be compiled, as far as known before it starts
    )
    lacks_dependency: bool = False  # something that it needs is not installed
    is_compiling: bool = False  # its kernels are being compiled
    is_checking: bool = False  # it has predicted and is being checked for reading the future
    fraction: float = 0.0
    started_at: float = 0.0
    duration_s: float | None = None  # seconds from start to end
    result: Result | None = None
    reason: str = ""
    detail: str = ""  # traceback, for a log

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def is_over(self) -> bool:
        return self.stage not in (Stage.WAITING, Stage.RUNNING)

    @property
    def is_cached(self) -> bool:
        return self.result is not None and self.result.cached

    def elapsed_seconds(self, now: float) -> float | None:
        """Return the seconds from the start until `now` or the end; None for a cached result.

        The time of a cached result says nothing about this machine.
        """
        if self.is_cached:
            return None
        if self.stage is Stage.RUNNING:
            return now - self.started_at
        return self.duration_s


@dataclass
class Run:
    """The state of all configurations in a run; `apply` takes the engine's events in order."""

    hidden_configurations: frozenset[str] = frozenset()
    """Configurations that are evaluated only as the baseline and not listed in documents."""
    reference: str = REFERENCE
    equivalence: float = EQUIVALENCE_MARGIN  # smaller differences in log loss don't matter
    reviews: int | None = None
    evaluated: int | None = None
    models: dict[str, ModelRun] = field(default_factory=dict)
    started_at: float = 0.0
    ended_at: float | None = None
    cancelled: bool = False
    peak_parallel_models: int = 1  # the most models that ran at once
    _groups: list[RankingGroup] | None = None

    @classmethod
    def from_configurations(
        cls,
        configurations: Iterable[Configuration],
        *,
        hidden_configurations: frozenset[str] = frozenset(),
        reference: str = REFERENCE,
        equivalence: float = EQUIVALENCE_MARGIN,
    ) -> Run:
        """Create a run of configurations, before any has started."""
        return cls(
            hidden_configurations=hidden_configurations,
            reference=reference,
            equivalence=equivalence,
            models={
                configuration.name: ModelRun(configuration) for configuration in configurations
            },
        )

    @property
    def configurations(self) -> list[Configuration]:
        return [model.configuration for model in self.models.values()]

    def apply(
        self, event: Event, now: float = 0.0, groups: list[RankingGroup] | None = None
    ) -> None:
        """Update the state with an event that occurs at `now`.

        `groups` is the ranking that includes the event's result, if the caller has computed it.
        """
        if isinstance(event, Prepared):
            self.reviews = event.reviews
            self.evaluated = event.evaluated
            for configuration in event.configurations:
                earlier_run = self.models.get(configuration.name)
                # Only a configuration that already has its result keeps its state.
                if earlier_run is None or earlier_run.result is None:
                    self.models[configuration.name] = ModelRun(
                        configuration,
                        needs_compilation=configuration.name in event.uncompiled,
                        lacks_dependency=bool(install_hint(configuration.model.needs)),
                    )
            return
        name = event.configuration.name
        model = self.models.setdefault(name, ModelRun(event.configuration))
        if isinstance(event, Started):
            model.stage = Stage.RUNNING
            model.started_at = now
            model.needs_compilation = event.needs_compilation
            model.is_compiling = event.needs_compilation
            running = len(self._in_stage(Stage.RUNNING))
            self.peak_parallel_models = max(self.peak_parallel_models, running)
        elif isinstance(event, Progress):
            model.is_compiling = False
            model.fraction = max(model.fraction, event.fraction)
        elif isinstance(event, Checking):
            model.is_checking = True
        elif isinstance(event, Finished):
            model.stage = Stage.DONE
            model.result = event.result
            model.fraction = 1.0
            model.duration_s = now - model.started_at
            if not event.result.cached:  # its start may have been reported late
                model.duration_s = max(model.duration_s, event.result.seconds)
            self._groups = groups  # None: ranked again when needed
        elif isinstance(event, Failed):
            model.stage = Stage.FAILED
            model.reason = printable(event.reason, limit=None)
            model.detail = event.detail
        elif isinstance(event, Skipped):
            model.stage = Stage.SKIPPED
            model.reason = printable(event.reason, limit=None)

    def end(self, now: float) -> None:
        """Record that the engine has stopped; unfinished configurations count as cancelled."""
        if self.ended_at is not None:
            return
        self.ended_at = now
        for model in self.models.values():
            if not model.is_over:
                model.stage = Stage.CANCELLED

    @property
    def is_running(self) -> bool:
        return self.ended_at is None

    @property
    def has_missing_results(self) -> bool:
        """Return whether any model has no results."""
        return any(model.result is None for model in self.models.values())

    @property
    def finished_count(self) -> int:
        """Return the number of configurations that need no more work."""
        return sum(model.is_over for model in self.models.values())

    def results_by_name(self) -> dict[str, Result]:
        return {
            name: model.result for name, model in self.models.items() if model.result is not None
        }

    @property
    def failed(self) -> dict[str, ModelRun]:
        return self._in_stage(Stage.FAILED)

    @property
    def skipped(self) -> dict[str, ModelRun]:
        return self._in_stage(Stage.SKIPPED)

    def _in_stage(self, stage: Stage) -> dict[str, ModelRun]:
        return {name: model for name, model in self.models.items() if model.stage is stage}

    @property
    def progress_note(self) -> str:
        """Return how much of the run the ranking covers; "" once every configuration is settled."""
        count = len(self.models)
        settled = self.finished_count - len(self._in_stage(Stage.CANCELLED))
        return "" if settled >= count else f"{settled} of {count} models have finished"

    def snapshot(self) -> Run:
        """Return a copy of the current state, for callers that need it beyond the next event."""
        models = {name: replace(model) for name, model in self.models.items()}
        return replace(self, models=models)

    def groups(self) -> list[RankingGroup]:
        """Return the ranking of the configurations that have finished so far."""
        if self._groups is None:
            self._groups = rank_results(self.finished_results(), self.reference, self.equivalence)
        return self._groups

    def most_common_reason(self, stage: Stage) -> str:
        """Return the most common reason why models in a stage have no results, "" for no model."""
        counts = Counter(model.reason for model in self.models.values() if model.stage is stage)
        return max(counts, key=lambda reason: counts[reason], default="")

    def finished_results(self) -> list[tuple[Configuration, Result]]:
        """Return the finished configurations with their results, as `rank_results` takes them."""
        return [
            (model.configuration, model.result)
            for model in self.models.values()
            if model.result is not None
        ]

    def ranked_results(self) -> list[RankedResult]:
        """Return the lines of all groups in order, only the first one of each configuration.

        A configuration may be in several groups: where others lack predictions for some reviews, a
        further group ranks all of them on the reviews that they share.
        """
        lines_by_name: dict[str, RankedResult] = {}
        for group in self.groups():
            for line in group.lines:
                lines_by_name.setdefault(line.configuration.name, line)
        return list(lines_by_name.values())

    def ranked_result(self, name: str) -> RankedResult:
        """Return the line of a configuration that has finished."""
        return next(line for line in self.ranked_results() if line.configuration.name == name)

    def unfinished(self) -> list[ModelRun]:
        """Return models without results: running, waiting, cancelled, skipped, then failed ones."""
        order = (Stage.RUNNING, Stage.WAITING, Stage.CANCELLED, Stage.SKIPPED, Stage.FAILED)
        without_result = [model for model in self.models.values() if model.result is None]
        return sorted(without_result, key=lambda model: order.index(model.stage))

    @property
    def is_compiling(self) -> bool:
        """Return whether models are being compiled, which happens once after each update."""
        return any(
            model.is_compiling and model.stage is Stage.RUNNING for model in self.models.values()
        )

    def elapsed_seconds(self, now: float) -> float:
        end = now if self.ended_at is None else self.ended_at
        return end - self.started_at
