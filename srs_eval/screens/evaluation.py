"""The state of one evaluation, updated by the engine's events; knows no widgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

from srs_eval.comparison import EQUIVALENT
from srs_eval.configurations import Configuration
from srs_eval.engine import Event, Failed, Finished, Prepared, Progress, Skipped, Started
from srs_eval.extras import missing
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
    compiles: bool = False  # its kernels are not on disk when it begins, as far as is known
    lacks: bool = False  # something that it needs is not installed
    preparing: bool = False  # its kernels are being compiled
    fraction: float = 0.0
    fold: int = 0
    folds: int = 0
    started: float = 0.0
    working_since: float | None = None  # what came before was compiling, or starting a worker
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

    def worked(self) -> tuple[float, float] | None:
        """Seconds and the share of its work that was done in them; None while that says little."""
        if self.working_since is None:
            return None
        seconds, share = self.told - self.working_since, self.fraction - self.fraction_then
        return (seconds, share) if seconds >= 0.5 and share >= 0.01 else None

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

    def seconds_left(self, now: float, expected: float = 0.0) -> float | None:
        """Extrapolated from the progress so far; None while there is too little.

        `expected` are the seconds that its work was thought to take before; they count as what
        was measured over `_PRIOR_SHARE` of it.
        """
        worked = self.worked()
        if self.stage is not Stage.RUNNING or worked is None:
            return None
        seconds, share = worked
        if expected:
            seconds, share = seconds + expected * _PRIOR_SHARE, share + _PRIOR_SHARE
        left = seconds * (1 - self.fraction) / share
        return max(left - (now - self.told), left / 5)


Pace = Mapping[str, tuple[float, int]]
"""Seconds that configurations took on this machine, by name, and on how many reviews."""
_STARTING_S = 0.05  # of any model, however cheap: loading what is compiled, metrics
_WORKER_S = 0.8  # until a worker is there
_LOADING_S = 0.8  # what runs compiled kernels, once in each worker
_IMPORTING_S = 3.0  # what some networks need, once in each worker
_PRIOR_S = 0.5  # as much as this counts what was expected before anything was measured
_PRIOR_SHARE = 0.05  # the same of one model, as a share of its own work
_COMPILING_PRIOR_S = 3.0  # the same of compiling, which is expected to be as slow as the rest
_MOST_S = 1.0  # as much as this counts what one model tells, however long it takes
_SLOWEST = 10.0  # so many times as long as expected, and no longer, counts what one model took


@dataclass(frozen=True)
class _Expected:
    """Seconds that a model should take, before anything is measured."""

    work: float
    starting: float = 0.0  # a worker, or imports that its first network needs
    compiling: float = 0.0

    @property
    def whole(self) -> float:
        return self.work + self.starting + self.compiling


def _slowness(
    told: Iterable[tuple[float, float]], before: float = 1.0, weight: float = _PRIOR_S
) -> float:
    """How many times as long as expected it takes: at most `_SLOWEST`, or what it was before.

    `told` are seconds that models took and that were expected; `before` is what is thought of it
    without them, and counts as `weight` seconds.
    """
    took, usual = before * weight, weight
    for seconds, expected in told:
        share = min(expected, _MOST_S)
        took += min(seconds / expected, _SLOWEST) * share
        usual += share
    return took / usual


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
                    lacks = bool(missing(configuration.model.needs))
                    made = ModelRun(configuration, compiles=uncompiled, lacks=lacks)
                    self.models[configuration.name] = made
            self._slowness = self._slowness_before()
            return
        name = event.configuration.name
        model = self.models.setdefault(name, ModelRun(event.configuration))
        if isinstance(event, Started):
            model.stage, model.started = Stage.RUNNING, now
            model.preparing = model.compiles = event.compiles
            self.lanes = max(self.lanes, self._at_work())
        elif isinstance(event, Progress):
            # Some compile once more, after their first steps.
            if model.fraction <= (_PRIOR_SHARE if model.compiles else 0.0):
                model.working_since, model.fraction_then = now, event.fraction
            model.preparing, model.told = False, now
            model.fraction = max(model.fraction, event.fraction)
            model.fold, model.folds = event.fold, event.folds
        elif isinstance(event, Finished):
            model.stage, model.result, model.fraction = Stage.DONE, event.result, 1.0
            model.took, model.told = now - model.started, now
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
        if known is not None:
            return known
        return self._usual_seconds(model, self.reviews or 0) * self._slowness

    def _usual_seconds(self, model: ModelRun, reviews: int) -> float:
        besides = _STARTING_S + model.configuration.model.seconds_besides
        return besides + model.configuration.expected_seconds_per_10k * reviews / 10_000

    def _known_seconds(self, model: ModelRun) -> float | None:
        """As it took here before; None where it was never tried."""
        if model.name not in self.known_pace:
            return None
        seconds, then = self.known_pace[model.name]
        reviews = self.reviews or 0
        return seconds * self._usual_seconds(model, reviews) / self._usual_seconds(model, then)

    def _slowness_before(self) -> float:
        """How much longer than usual everything took here."""
        known = [(self._known_seconds(model), model) for model in self.models.values()]
        return _slowness(
            (seconds, self._usual_seconds(model, self.reviews or 0))
            for seconds, model in known
            if seconds is not None
        )

    def seconds_left(self, now: float) -> float | None:
        """What is expected of the rest, at the pace measured in this run; None while unknown."""
        if not self.running or not self.models or self.seconds_gone(now) < 1:
            return None
        expected = self._expected()
        work, compiling = self._slowness_now(expected, now)
        whole = {
            name: (each.work + each.starting) * work + each.compiling * compiling
            for name, each in expected.items()
        }
        free = []  # when each worker has finished what it is at
        for model in self.models.values():
            if model.stage is Stage.RUNNING:
                left = model.seconds_left(now, expected[model.name].work * work)
                gone = now - model.started
                if left is None:  # what has taken long will take long
                    left = max(whole[model.name] - gone, whole[model.name] / 2, gone / 2)
                free.append(left)
        free += [0.0] * (self.lanes - len(free))
        heapify(free)
        for model in self.models.values():
            if model.stage is Stage.WAITING:
                heapreplace(free, free[0] + whole[model.name])
        return max(free)

    def _slowness_now(self, expected: Mapping[str, _Expected], now: float) -> tuple[float, float]:
        """How many times as long as expected work and compiling take in this run."""
        begun = self._begun()
        started: list[tuple[float, float]] = []
        worked: list[tuple[float, float]] = []
        for model in begun:
            each, gone, known = expected[model.name], model.seconds_at(now), model.worked()
            if gone is None or each.compiling:
                continue
            if known is not None:
                worked.append((known[0], known[1] * each.work))
            elif model.took is not None or gone > each.whole:  # or at least so many
                (started if each.starting else worked).append((gone, each.whole))
        # How slowly workers start says less about the rest.
        work = _slowness(worked, before=_slowness(started))
        told = self._compiled(begun, expected, work, now)
        return work, _slowness(told, work, _COMPILING_PRIOR_S)

    def _compiled(
        self, begun: Iterable[ModelRun], expected: Mapping[str, _Expected], work: float, now: float
    ) -> Iterator[tuple[float, float]]:
        """Seconds that compiling took, and those expected."""
        for model in begun:
            each = expected[model.name]
            gone = model.seconds_at(now)
            if gone is None or not each.compiling:
                continue
            gone = max(gone - (each.work + each.starting) * work, 0.0)
            if model.took is not None or gone > each.compiling:
                yield gone, each.compiling

    def _begun(self) -> list[ModelRun]:
        """In this run, in the order of their beginning."""
        begun = [
            model
            for model in self.models.values()
            if model.stage is not Stage.WAITING and model.started >= self.started
        ]
        return sorted(begun, key=lambda model: model.started)

    def _expected(self) -> dict[str, _Expected]:
        """By name; what models share is expected of the first of them."""
        found, compiled = {}, set()
        first = {"worker": self.lanes, "kernels": self.lanes, "import": self.lanes}
        waiting = [model for model in self.models.values() if model.stage is Stage.WAITING]
        for model in [*self._begun(), *waiting]:
            of, computes = model.configuration.model, not model.cached and not model.lacks
            starting = compiling = 0.0
            for what, seconds, wanted in (
                ("worker", _WORKER_S, True),
                ("kernels", _LOADING_S, computes and model.configuration.compiles),
                ("import", _IMPORTING_S, computes and of.needs),
            ):
                if wanted and first[what]:
                    first[what] -= 1
                    starting += seconds
            if computes and model.compiles and of.name not in compiled:
                compiled.add(of.name)
                compiling = of.seconds_to_compile
            found[model.name] = _Expected(
                self.expected_seconds(model) if computes else _STARTING_S * self._slowness,
                starting * self._slowness,
                compiling * self._slowness,
            )
        return found

    def measured_pace(self) -> dict[str, tuple[float, int]]:
        """What this run tells of the machine, added to what was known."""
        found, expected = dict(self.known_pace), self._expected()
        for model in self._begun():
            if model.result is None or model.cached or model.compiles or not self.reviews:
                continue
            seconds, worked = model.took, model.worked()
            if expected[model.name].starting:  # of that only what came after is its own
                seconds = worked[0] / worked[1] if worked is not None else None
            if seconds is not None:
                found[model.name] = max(round(seconds, 3), 0.001), self.reviews
        return found

    def _at_work(self) -> int:
        return sum(model.stage is Stage.RUNNING for model in self.models.values())
