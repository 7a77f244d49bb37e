"""The state of one evaluation, updated by the engine's events; knows no widgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

from srs_eval.comparison import EQUIVALENT
from srs_eval.configurations import Configuration
from srs_eval.engine import Event, Failed, Finished, Prepared, Progress, Skipped, Started
from srs_eval.ranking import Group, Ranked, ranking
from srs_eval.results import Result

if TYPE_CHECKING:
    from srs_eval.export import Outcome


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
    must_compile: bool = False  # as far as was known when it had not begun
    preparing: bool = False  # its kernels are being compiled
    fraction: float = 0.0
    fold: int = 0
    folds: int = 0
    compiled: bool = False  # in this run, whether that is over or not
    started: float = 0.0
    working_since: float = 0.0  # what came before was compiling, or starting a worker
    fraction_then: float = 0.0
    told: float = 0.0  # when it last said how far it is
    took: float | None = None  # seconds from start to end
    result: Result | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def over(self) -> bool:
        return self.stage not in (Stage.WAITING, Stage.RUNNING)

    def seconds_left(self, now: float) -> float | None:
        """Extrapolated from the progress so far; None while there is too little."""
        gone, done = self.told - self.working_since, self.fraction - self.fraction_then
        if self.stage is not Stage.RUNNING or done < 0.01 or gone < 0.5:
            return None
        left = gone * (1 - self.fraction) / done
        return max(left - (now - self.told), left / 5)


Pace = Mapping[str, tuple[float, int]]
"""Seconds that configurations took on this machine, by name, and on how many reviews."""
_STARTING_S = 0.03  # of any model, however cheap: loading what is compiled, metrics
_WORKER_S = 0.8  # until a worker is there
_PRIOR_S = 0.5  # as much as this counts what was expected before anything was measured


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
    known_pace: Pace = field(default_factory=dict)
    lanes: int = 1  # models that were at work at once
    _slowness: float = 1.0
    _groups: list[Group] | None = None

    def apply(self, event: Event, now: float, groups: list[Group] | None = None) -> None:
        """`groups` is the ranking with a result that has come, where somebody has made it."""
        if isinstance(event, Prepared):
            self.reviews, self.judged = event.reviews, event.judged
            for configuration in event.configurations:
                kept = self.models.get(configuration.name)
                if kept is None or kept.result is None:
                    uncompiled = configuration.name in event.uncompiled
                    made = ModelRun(configuration, must_compile=uncompiled)
                    self.models[configuration.name] = made
            self._slowness = self._slowness_before()
            return
        name = event.configuration.name
        model = self.models.setdefault(name, ModelRun(event.configuration))
        if isinstance(event, Started):
            model.stage, model.started = Stage.RUNNING, now
            model.preparing = model.compiled = event.compiles
            self.lanes = max(self.lanes, self._at_work())
        elif isinstance(event, Progress):
            if not model.fraction:
                model.working_since, model.fraction_then = now, event.fraction
            model.preparing, model.told = False, now
            model.fraction = max(model.fraction, event.fraction)
            model.fold, model.folds = event.fold, event.folds
        elif isinstance(event, Finished):
            model.stage, model.result, model.fraction = Stage.DONE, event.result, 1.0
            model.took = now - model.started
            self._groups = groups
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

    def outcome(self, equivalence: float) -> Outcome:
        """What has finished so far, as documents take it."""
        from srs_eval.export import Outcome

        found = Outcome(
            [model.configuration for model in self.models.values()], equivalence=equivalence
        )
        for model in self.models.values():
            if model.result is not None:
                found.add(Finished(model.configuration, model.result))
            elif model.stage is Stage.FAILED:
                found.add(Failed(model.configuration, model.reason))
            elif model.stage is Stage.SKIPPED:
                found.add(Skipped(model.configuration, model.reason))
        return found

    def groups(self) -> list[Group]:
        """The ranking of what has finished so far."""
        if self._groups is None:
            self._groups = ranking(self.finished_pairs(), equivalence=self.equivalence)
        return self._groups

    def finished_pairs(self) -> list[tuple[Configuration, Result]]:
        """As `ranking` takes them."""
        return [
            (model.configuration, model.result)
            for model in self.models.values()
            if model.result is not None
        ]

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
        """Whether models are being compiled, which happens once after each update."""
        return any(
            model.preparing and model.stage is Stage.RUNNING for model in self.models.values()
        )

    def seconds_gone(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.started

    def expected_seconds(self, model: ModelRun) -> float:
        """Of a model before it has begun: as it took here before, or as it usually takes."""
        known = self._known_seconds(model)
        return self._usual_seconds(model) * self._slowness if known is None else known

    def _usual_seconds(self, model: ModelRun) -> float:
        per_review = model.configuration.expected_seconds_per_10k / 10_000
        return _STARTING_S + per_review * (self.reviews or 0)

    def _known_seconds(self, model: ModelRun) -> float | None:
        """As it took here before; None where it was never tried."""
        if model.name not in self.known_pace:
            return None
        seconds, then = self.known_pace[model.name]
        work = max(seconds - _STARTING_S, 0.0) * (self.reviews or 0) / max(then, 1)
        return min(seconds, _STARTING_S) + work

    def _slowness_before(self) -> float:
        """How much longer than usual everything took here."""
        known = usual = 0.0
        for model in self.models.values():
            seconds = self._known_seconds(model)
            if seconds is not None:
                known, usual = known + seconds, usual + self._usual_seconds(model)
        return known / usual if usual else 1.0

    def seconds_left(self, now: float) -> float | None:
        """What is expected of the rest, at the pace measured in this run; None while unknown."""
        if not self.running or not self.models or self.seconds_gone(now) < 1:
            return None
        expected = self._expected()
        begun = self._begun()
        took = _PRIOR_S * self._pace(begun[: self.lanes], expected, now)  # starting workers, mostly
        usual = _PRIOR_S
        pace = self._pace(begun[self.lanes :], expected, now, took, usual)
        free = []  # when each worker has finished what it is at
        for model in self.models.values():
            if model.stage is Stage.RUNNING:
                left, whole = model.seconds_left(now), expected[model.name] * pace
                gone = now - model.started  # what has taken long will take long
                free.append(max(whole - gone, whole / 2, gone / 2) if left is None else left)
        free += [0.0] * (self.lanes - len(free))
        heapify(free)
        for model in self.models.values():
            if model.stage is Stage.WAITING:
                heapreplace(free, free[0] + expected[model.name] * pace)
        return max(free)

    def _pace(
        self,
        begun: list[ModelRun],
        expected: Mapping[str, float],
        now: float,
        took: float = _PRIOR_S,
        usual: float = _PRIOR_S,
    ) -> float:
        """How many times as long as expected these models took, added to what is given."""
        for model in begun:
            if model.result is not None and model.result.cached:
                continue
            gone = now - model.started
            if model.took is not None:
                took, usual = took + model.took, usual + expected[model.name]
            elif model.stage is Stage.RUNNING and gone > expected[model.name]:
                took, usual = took + gone, usual + expected[model.name]  # at least
        return took / usual

    def _begun(self) -> list[ModelRun]:
        """In the order of their beginning."""
        begun = [model for model in self.models.values() if model.stage is not Stage.WAITING]
        return sorted(begun, key=lambda model: model.started)

    def _expected(self) -> dict[str, float]:
        """Seconds by name, with starting workers and compiling, once for all that share it."""
        found, compiled = {}, set()
        waiting = [model for model in self.models.values() if model.stage is Stage.WAITING]
        for place, model in enumerate([*self._begun(), *waiting]):
            of = model.configuration.model
            seconds = self.expected_seconds(model)
            seconds += _WORKER_S * self._slowness if place < self.lanes else 0.0
            if (model.must_compile or model.compiled) and of.name not in compiled:
                compiled.add(of.name)
                seconds += of.seconds_to_compile * self._slowness
            found[model.name] = seconds
        return found

    def measured_pace(self) -> dict[str, tuple[float, int]]:
        """What this run tells of the machine, added to what was known."""
        return {
            **self.known_pace,
            **{
                model.name: (round(model.took, 3), self.reviews)
                for model in self._begun()[self.lanes :]  # the first ones waited for workers
                if model.took is not None and not model.compiled and self.reviews
                if model.result is not None and not model.result.cached
            },
        }

    def _at_work(self) -> int:
        return sum(model.stage is Stage.RUNNING for model in self.models.values())
