"""The state of one evaluation, updated by the engine's events; knows no widgets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from srs_eval.comparison import EQUIVALENT
from srs_eval.configurations import Configuration
from srs_eval.engine import Event, Failed, Finished, Prepared, Progress, Skipped, Started
from srs_eval.ranking import Group, Ranked, ranking
from srs_eval.results import Result


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
    preparing: bool = False  # its kernels are being compiled
    fraction: float = 0.0
    fold: int = 0
    folds: int = 0
    started: float = 0.0
    result: Result | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def weight(self) -> float:
        """Expected share of the work."""
        # Every model takes some time, however cheap its formula.
        return 0.02 + self.configuration.expected_seconds_per_10k

    @property
    def over(self) -> bool:
        return self.stage not in (Stage.WAITING, Stage.RUNNING)

    def expected_seconds(self, reviews: int | None) -> float:
        """Estimate before it has begun, on one core of an ordinary computer."""
        return self.weight * (reviews or 0) / 10_000

    def seconds_left(self, now: float) -> float | None:
        """Extrapolated from the progress so far; None while there is too little."""
        gone = now - self.started
        if self.stage is not Stage.RUNNING or self.fraction < 0.05 or gone < 0.5:
            return None
        return gone * (1 - self.fraction) / self.fraction


@dataclass
class Evaluation:
    """All configurations of a run; `apply` takes the engine's events in order."""

    reviews: int | None = None
    judged: int | None = None
    models: dict[str, ModelRun] = field(default_factory=dict)
    started: float = 0.0
    ended: float | None = None
    cancelled: bool = False
    equivalence: float = EQUIVALENT  # differences in log loss within it don't matter
    _groups: list[Group] | None = None

    def apply(self, event: Event, now: float) -> None:
        if isinstance(event, Prepared):
            self.reviews, self.judged = event.reviews, event.judged
            for configuration in event.configurations:
                kept = self.models.get(configuration.name)
                if kept is None or kept.result is None:
                    self.models[configuration.name] = ModelRun(configuration)
            return
        name = event.configuration.name
        model = self.models.setdefault(name, ModelRun(event.configuration))
        if isinstance(event, Started):
            model.stage, model.started = Stage.RUNNING, now
            model.preparing = event.compiles
        elif isinstance(event, Progress):
            model.preparing = False
            model.fraction = max(model.fraction, event.fraction)
            model.fold, model.folds = event.fold, event.folds
        elif isinstance(event, Finished):
            model.stage, model.result, model.fraction = Stage.DONE, event.result, 1.0
            self._groups = None
        elif isinstance(event, Failed):
            model.stage, model.reason = Stage.FAILED, event.reason
        elif isinstance(event, Skipped):
            model.stage, model.reason = Stage.SKIPPED, event.reason

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

    def groups(self) -> list[Group]:
        """The ranking of what has finished so far."""
        if self._groups is None:
            finished = [
                (model.configuration, model.result)
                for model in self.models.values()
                if model.result is not None
            ]
            self._groups = ranking(finished, equivalence=self.equivalence)
        return self._groups

    def ranked(self) -> list[Ranked]:
        """The lines of all groups, one after another."""
        return [line for group in self.groups() for line in group.lines]

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
        """Whether models are being compiled: happens once, and says nothing about the speed."""
        return any(
            model.preparing and model.stage is Stage.RUNNING for model in self.models.values()
        )

    def seconds_gone(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.started

    def seconds_left(self, now: float) -> float | None:
        """Rough estimate from the share of the expected work done; None while unknown."""
        total = sum(model.weight for model in self.models.values())
        done = sum(
            model.weight * (1.0 if model.over else model.fraction) for model in self.models.values()
        )
        gone = self.seconds_gone(now)
        if not self.running or self.preparing or not total or done / total < 0.02 or gone < 1:
            return None
        return gone * (total - done) / done
