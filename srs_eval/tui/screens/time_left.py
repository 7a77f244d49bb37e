"""How long an evaluation will take still: what models usually take, against what this run shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace

from srs_eval.engine.run import LEAST_S, ModelRun, Run, Stage, usual_seconds

_WORKER_S = 0.8  # until a worker is there
_LOADING_S = 0.8  # what runs compiled kernels, once in each worker
_IMPORTING_S = 4.0  # what some networks need, once in each worker
_PRIOR_S = 0.5  # as much as this counts what was expected before anything was measured
_PRIOR_SHARE = 0.05  # the same of one model, as a share of its own work
_COMPILING_PRIOR_S = 3.0  # the same of compiling, which is expected to be as slow as the rest
_MOST_S = 1.0  # as much as this counts what one model tells, however long it takes
_SHORT_S = 0.1  # what takes less is mostly waiting until it is told and the next may begin
_SLOWEST = 10.0  # so many times as long as expected, and no longer, counts what one model took


def seconds_left(evaluation: Run, now: float) -> float | None:
    """What is expected of the rest, at the pace measured in this run; None while unknown."""
    if not evaluation.running or not evaluation.models or evaluation.seconds_gone(now) < 1:
        return None
    expected = _expected(evaluation)
    starting, least, work, compiling = _slowness_now(evaluation, expected, now)
    whole = {
        name: min(each.work, LEAST_S) * least
        + max(each.work - LEAST_S, 0.0) * work
        + each.starting * starting
        + each.compiling * compiling
        for name, each in expected.items()
    }
    free = []  # when each worker has finished what it is at
    for model in evaluation.models.values():
        if model.stage is Stage.RUNNING:
            left = model_seconds_left(model, now, expected[model.name].work * work)
            gone = now - model.started
            if left is None:  # what has taken long will take long
                left = max(whole[model.name] - gone, whole[model.name] / 2, gone / 2)
            free.append(left)
    free += [0.0] * (evaluation.lanes - len(free))
    heapify(free)
    for model in evaluation.models.values():
        if model.stage is Stage.WAITING:
            heapreplace(free, free[0] + whole[model.name])
    return max(free)


def model_seconds_left(model: ModelRun, now: float, expected: float = 0.0) -> float | None:
    """Of one model, extrapolated from its progress so far; None while there is too little.

    `expected` are the seconds that its work was thought to take before; they count as what was
    measured over `_PRIOR_SHARE` of it.
    """
    worked = model.worked()
    if model.stage is not Stage.RUNNING or worked is None:
        return None
    seconds, share = worked
    if expected:
        seconds, share = seconds + expected * _PRIOR_SHARE, share + _PRIOR_SHARE
    left = seconds * (1 - model.fraction) / share
    return max(left - (now - model.told), left / 5)


def expected_seconds(evaluation: Run) -> dict[str, float]:
    """Of each model before it has begun, by name: as it took here before, or usually takes."""
    slowness = _slowness_before(evaluation)
    found = {}
    for name, model in evaluation.models.items():
        known = _known_seconds(evaluation, model)
        usual = usual_seconds(model.configuration, evaluation.reviews or 0)
        found[name] = usual * slowness if known is None else known
    return found


def measured_pace(evaluation: Run) -> dict[str, tuple[float, int]]:
    """What this run tells of the machine, added to what was known; as `Run.known_pace`."""
    found, expected = dict(evaluation.known_pace), _expected(evaluation)
    for model in _begun(evaluation):
        if model.result is None or model.cached or model.compiles or not evaluation.reviews:
            continue
        seconds, worked = model.took, model.worked()
        if expected[model.name].starting:  # of that only what came after is its own
            seconds = worked[0] / worked[1] if worked is not None else None
        if seconds is not None:
            found[model.name] = max(round(seconds, 3), 0.001), evaluation.reviews
    return found


@dataclass(frozen=True)
class _Expected:
    """Seconds that a model should take, before anything is measured."""

    work: float
    starting: float = 0.0  # a worker, or imports that its first network needs
    compiling: float = 0.0

    @property
    def whole(self) -> float:
        return self.work + self.starting + self.compiling


def _expected(evaluation: Run) -> dict[str, _Expected]:
    """By name; what models share is expected of the first of them."""
    found, compiled = {}, set()
    slowness, works = _slowness_before(evaluation), expected_seconds(evaluation)
    first = dict.fromkeys(("worker", "kernels", "import"), evaluation.lanes)
    waiting = [model for model in evaluation.models.values() if model.stage is Stage.WAITING]
    for model in [*_begun(evaluation), *waiting]:
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
        if computes and model.compiles and of.compiled_as not in compiled:
            compiled.add(of.compiled_as)
            compiling = of.seconds_to_compile
        found[model.name] = _Expected(
            works[model.name] if computes else LEAST_S * slowness,
            starting * slowness,
            compiling * slowness,
        )
    return found


def _known_seconds(evaluation: Run, model: ModelRun) -> float | None:
    """As it took here before; None where it was never tried."""
    if model.name not in evaluation.known_pace:
        return None
    seconds, then = evaluation.known_pace[model.name]
    reviews = evaluation.reviews or 0
    of = model.configuration
    return seconds * usual_seconds(of, reviews) / usual_seconds(of, then)


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


def _slowness_before(evaluation: Run) -> float:
    """How much longer than usual everything took here."""
    known = [(_known_seconds(evaluation, model), model) for model in evaluation.models.values()]
    return _slowness(
        (seconds, usual_seconds(model.configuration, evaluation.reviews or 0))
        for seconds, model in known
        if seconds is not None
    )


def _slowness_now(
    evaluation: Run, expected: Mapping[str, _Expected], now: float
) -> tuple[float, float, float, float]:
    """How many times as long as expected it takes in this run.

    To start workers and import packages, any model at least, its work, its compiling.
    """
    begun = _begun(evaluation)
    started: list[tuple[float, float]] = []
    short: list[tuple[float, float]] = []
    over: list[tuple[float, float]] = []
    worked: list[tuple[float, float]] = []
    for model in begun:
        each, gone, known = expected[model.name], model.seconds_at(now), model.worked()
        if gone is None or each.compiling or model.compiles:
            continue  # the latter where another is at the same kernels
        if known is not None:
            worked.append((known[0], known[1] * each.work))
        elif model.took is not None or gone > each.whole:  # or at least so many
            kind = started if each.starting else short if each.work < _SHORT_S else over
            kind.append((gone, each.whole))
    # How slowly workers start says less about the rest, and the rest nothing about it. What is
    # over at once also waits until it is told, as long work does not: the rest may be faster
    # than that, hardly slower.
    starting = _slowness(started)
    least = _slowness(short, starting)
    worked += [(max(gone - LEAST_S * least, 0.0), whole - LEAST_S) for gone, whole in over]
    work = _slowness(worked, min(starting, least))
    told = _compiled(begun, expected, starting, work, now)
    return starting, least, work, _slowness(told, work, _COMPILING_PRIOR_S)


def _compiled(
    begun: Iterable[ModelRun],
    expected: Mapping[str, _Expected],
    starting: float,
    work: float,
    now: float,
) -> Iterator[tuple[float, float]]:
    """Seconds that compiling took, and those expected."""
    for model in begun:
        each = expected[model.name]
        gone = model.seconds_at(now)
        if gone is None or not each.compiling:
            continue
        gone = max(gone - each.work * work - each.starting * starting, 0.0)
        if model.took is not None or gone > each.compiling:
            yield gone, each.compiling


def _begun(evaluation: Run) -> list[ModelRun]:
    """In this run, in the order of their beginning."""
    begun = [
        model
        for model in evaluation.models.values()
        if model.stage is not Stage.WAITING and model.started >= evaluation.started
    ]
    return sorted(begun, key=lambda model: model.started)
