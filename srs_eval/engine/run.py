"""A run: its events, the order in which models begin, and what has come of it so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from srs_eval.data.errors import missing, printable
from srs_eval.engine.ranking import REFERENCE, Group, Ranked, ranking
from srs_eval.engine.session import Result
from srs_eval.models.configurations import Configuration
from srs_eval.stats.intervals import EQUIVALENT


@dataclass(frozen=True)
class Prepared:
    """Rows are chosen and counted; the configurations come next."""

    reviews: int  # rows that the protocol starts from
    evaluated: int  # rows that are evaluated without `--secs`; 0 where there are too few
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
    """A part is done."""

    configuration: Configuration
    fraction: float  # of the whole configuration, 0-1


@dataclass(frozen=True)
class Checking:
    """A model of the person's own has predicted, and is checked for reading the future, once."""

    configuration: Configuration


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


Final = Finished | Failed | Skipped
Event = Prepared | Started | Progress | Checking | Final


def start_order(
    configurations: Iterable[Configuration], reviews: int, workers: int, first: Collection[str] = ()
) -> list[Configuration]:
    """The shortest first, of these those that are named in `first`.

    Workers beyond two begin with what takes longest, so that nobody waits for it in the end.
    """

    def seconds(each: Configuration) -> float:
        return each.expected_seconds(reviews)

    found = sorted(configurations, key=lambda each: (each.name not in first, seconds(each)))
    longest = sorted(found, key=seconds, reverse=True)[: max(0, workers - 2)]
    return [*longest, *(each for each in found if each not in longest)]


class Stage(Enum):
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
    compiles: bool = False  # its kernels are not on disk when it begins, as far as is known
    lacks: bool = False  # something that it needs is not installed
    preparing: bool = False  # its kernels are being compiled
    is_checking: bool = False  # it has predicted, and is checked for reading the future
    fraction: float = 0.0
    started: float = 0.0
    took: float | None = None  # seconds from start to end
    result: Result | None = None
    reason: str = ""
    detail: str = ""  # traceback, for a log

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def over(self) -> bool:
        return self.stage not in (Stage.WAITING, Stage.RUNNING)

    @property
    def cached(self) -> bool:
        return self.result is not None and self.result.cached

    def seconds_at(self, now: float) -> float | None:
        """From its start until now or its end; None where that tells nothing of the machine."""
        if self.cached:
            return None
        if self.stage is Stage.RUNNING:
            return now - self.started
        return self.took


@dataclass
class Run:
    """All configurations of a run; `apply` takes the engine's events in order."""

    hidden: frozenset[str] = frozenset()
    """Configurations that are evaluated as the baseline only and not listed in documents."""
    reference: str = REFERENCE
    equivalence: float = EQUIVALENT  # differences in log loss within it don't matter
    reviews: int | None = None
    evaluated: int | None = None
    models: dict[str, ModelRun] = field(default_factory=dict)
    started: float = 0.0
    ended: float | None = None
    cancelled: bool = False
    lanes: int = 1  # models that were at work at once
    _groups: list[Group] | None = None

    @classmethod
    def of(cls, configurations: Iterable[Configuration], **settings: Any) -> Run:
        """Of what will be evaluated, before it has begun."""
        return cls(models={each.name: ModelRun(each) for each in configurations}, **settings)

    @property
    def configurations(self) -> list[Configuration]:
        return [model.configuration for model in self.models.values()]

    def apply(self, event: Event, now: float = 0.0, groups: list[Group] | None = None) -> None:
        """`groups` is the ranking with a result that has come, where somebody has made it."""
        if isinstance(event, Prepared):
            self.reviews, self.evaluated = event.reviews, event.evaluated
            for configuration in event.configurations:
                kept = self.models.get(configuration.name)
                if kept is None or kept.result is None:
                    uncompiled = configuration.name in event.uncompiled
                    lacks = bool(missing(configuration.model.needs))
                    made = ModelRun(configuration, compiles=uncompiled, lacks=lacks)
                    self.models[configuration.name] = made
            return
        name = event.configuration.name
        model = self.models.setdefault(name, ModelRun(event.configuration))
        if isinstance(event, Started):
            model.stage, model.started = Stage.RUNNING, now
            model.preparing = model.compiles = event.compiles
            at_work = sum(each.stage is Stage.RUNNING for each in self.models.values())
            self.lanes = max(self.lanes, at_work)
        elif isinstance(event, Progress):
            model.preparing = False
            model.fraction = max(model.fraction, event.fraction)
        elif isinstance(event, Checking):
            model.is_checking = True
        elif isinstance(event, Finished):
            model.stage, model.result, model.fraction = Stage.DONE, event.result, 1.0
            model.took = now - model.started
            if not event.result.cached:  # its beginning may have been told late
                model.took = max(model.took, event.result.seconds)
            self._groups = groups
        elif isinstance(event, Failed):
            model.stage, model.reason = Stage.FAILED, printable(event.reason, None)
            model.detail = event.detail
        elif isinstance(event, Skipped):
            model.stage, model.reason = Stage.SKIPPED, printable(event.reason, None)

    def end(self, now: float) -> None:
        """The engine has stopped: what has not finished counts as cancelled."""
        if self.ended is not None:
            return
        self.ended = now
        for model in self.models.values():
            if not model.over:
                model.stage = Stage.CANCELLED

    @property
    def running(self) -> bool:
        return self.ended is None

    @property
    def is_incomplete(self) -> bool:
        """Whether a model has no figures that could have some."""
        return any(model.result is None for model in self.models.values())

    @property
    def finished(self) -> int:
        """How many configurations need no more work."""
        return sum(model.over for model in self.models.values())

    def results(self) -> dict[str, Result]:
        return {
            name: model.result for name, model in self.models.items() if model.result is not None
        }

    @property
    def failed(self) -> dict[str, ModelRun]:
        return self._of(Stage.FAILED)

    @property
    def skipped(self) -> dict[str, ModelRun]:
        return self._of(Stage.SKIPPED)

    def _of(self, stage: Stage) -> dict[str, ModelRun]:
        return {name: model for name, model in self.models.items() if model.stage is stage}

    @property
    def so_far(self) -> str:
        """How much of the run the ranking rests on; "" once every configuration is settled."""
        everyone = len(self.models)
        settled = self.finished - len(self._of(Stage.CANCELLED))
        return "" if settled >= everyone else f"{settled} of {everyone} models have finished"

    def snapshot(self) -> Run:
        """As it is now, for who takes longer than until the next event."""
        models = {name: replace(model) for name, model in self.models.items()}
        return replace(self, models=models)

    def groups(self) -> list[Group]:
        """The ranking of what has finished so far."""
        if self._groups is None:
            self._groups = ranking(self.finished_pairs(), self.reference, self.equivalence)
        return self._groups

    def usual_reason(self, stage: Stage) -> str:
        """Why most of the models of a stage have no figures."""
        found = Counter(model.reason for model in self.models.values() if model.stage is stage)
        return max(found, key=lambda reason: found[reason], default="")

    def finished_pairs(self) -> list[tuple[Configuration, Result]]:
        """As `ranking` takes them."""
        return [
            (model.configuration, model.result)
            for model in self.models.values()
            if model.result is not None
        ]

    def ranked(self) -> list[Ranked]:
        """The lines of all groups, one after another, each configuration's first one."""
        found: dict[str, Ranked] = {}
        for line in (line for group in self.groups() for line in group.lines):
            found.setdefault(line.configuration.name, line)
        return list(found.values())

    def line(self, name: str) -> Ranked:
        """The line of a configuration that has finished."""
        return next(line for line in self.ranked() if line.configuration.name == name)

    def unfinished(self) -> list[ModelRun]:
        """Running models, then waiting ones, then those without a result."""
        order = (Stage.RUNNING, Stage.WAITING, Stage.CANCELLED, Stage.SKIPPED, Stage.FAILED)
        rest = [model for model in self.models.values() if model.result is None]
        return sorted(rest, key=lambda model: order.index(model.stage))

    @property
    def preparing(self) -> bool:
        """Whether models are being compiled, which happens once after each update."""
        return any(
            model.preparing and model.stage is Stage.RUNNING for model in self.models.values()
        )

    def seconds_gone(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.started
