"""The state of one evaluation, fed by the engine's events. No widgets here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from srs_eval.comparison import Ranked, ranking
from srs_eval.configurations import SUFFIX_ALIASES, SUFFIXES
from srs_eval.engine import Event, Failed, Finished, Prepared, Progress, Skipped, Started
from srs_eval.results import Result

EvaluateFunction = Callable[..., Iterator[Event]]
"""Called like `engine.evaluate`: (log, names, protocol, *, jobs, context, cancel, use_cache)."""


class Stage(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass
class ModelRun:
    """One configuration under way."""

    configuration: str
    weight: float = 1.0  # expected share of the work
    stage: Stage = Stage.WAITING
    preparing: bool = False  # its kernels are being compiled
    fraction: float = 0.0
    fold: int = 0
    folds: int = 0
    started: float = 0.0
    result: Result | None = None
    reason: str = ""

    @property
    def over(self) -> bool:
        return self.stage not in (Stage.WAITING, Stage.RUNNING)

    def expected_seconds(self, reviews: int | None) -> float:
        """Before it has begun, on a core of a usual computer."""
        return self.weight * (reviews or 0) / 10_000

    def seconds_left(self, now: float) -> float | None:
        """From the pace so far; None before there is one."""
        gone = now - self.started
        if self.stage is not Stage.RUNNING or self.fraction < 0.05 or gone < 0.5:
            return None
        return gone * (1 - self.fraction) / self.fraction


@dataclass
class Evaluation:
    """All configurations of a run; `apply` takes the engine's events in their order."""

    names: Sequence[str] = ()
    reviews: int | None = None
    judged: int | None = None
    models: dict[str, ModelRun] = field(default_factory=dict)
    started: float = 0.0
    ended: float | None = None
    cancelled: bool = False
    _ranking: list[Ranked] | None = None

    def apply(self, event: Event, now: float) -> None:
        if isinstance(event, Prepared):
            self.reviews, self.judged = event.reviews, event.judged
            weights = expected_work(event.configurations)
            for name in event.configurations:
                kept = self.models.get(name)
                if kept is None or kept.result is None:
                    self.models[name] = ModelRun(name, weights[name])
            return
        model = self.models.setdefault(event.configuration, ModelRun(event.configuration))
        if isinstance(event, Started):
            model.stage, model.started = Stage.RUNNING, now
            model.preparing = event.compiles
        elif isinstance(event, Progress):
            model.preparing = False
            model.fraction = max(model.fraction, event.fraction)
            model.fold, model.folds = event.fold, event.folds
        elif isinstance(event, Finished):
            model.stage, model.result, model.fraction = Stage.DONE, event.result, 1.0
            self._ranking = None
        elif isinstance(event, Failed):
            model.stage, model.reason = Stage.FAILED, event.reason
        elif isinstance(event, Skipped):
            model.stage, model.reason = Stage.SKIPPED, event.reason

    def end(self, now: float) -> None:
        """No more events come: what has not finished never will."""
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
    def finished(self) -> int:
        """Configurations that need no more work."""
        return sum(model.over for model in self.models.values())

    def results(self) -> dict[str, Result]:
        return {
            name: model.result for name, model in self.models.items() if model.result is not None
        }

    def ranking(self) -> list[Ranked]:
        if self._ranking is None:
            self._ranking = ranking(self.results().values())
        return self._ranking

    def in_order(self) -> list[tuple[ModelRun, Ranked | None]]:
        """Finished models as ranked, then running, waiting, and those without a result.

        Those that were judged on other reviews than most come last.
        """
        ranked = [(self.models[row.configuration], row) for row in self.ranking()]
        order = (Stage.RUNNING, Stage.WAITING, Stage.CANCELLED, Stage.SKIPPED, Stage.FAILED)
        rest = [model for model in self.models.values() if model.result is None]
        rest.sort(key=lambda model: order.index(model.stage))
        return [
            *((model, row) for model, row in ranked if row.group == 0),
            *((model, None) for model in rest),
            *((model, row) for model, row in ranked if row.group > 0),
        ]

    @property
    def preparing(self) -> bool:
        """Whether models are being compiled, which happens once and says nothing of the pace."""
        return any(
            model.preparing and model.stage is Stage.RUNNING for model in self.models.values()
        )

    def seconds_gone(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.started

    def seconds_left(self, now: float) -> float | None:
        """Rough, from the share of the expected work that is done; None while unknown."""
        total = sum(model.weight for model in self.models.values())
        done = sum(
            model.weight * (1.0 if model.over else model.fraction) for model in self.models.values()
        )
        gone = self.seconds_gone(now)
        if not self.running or self.preparing or not total or done / total < 0.02 or gone < 1:
            return None
        return gone * (total - done) / done


def expected_work(names: Iterable[str]) -> dict[str, float]:
    """Each configuration's share of the work, relative; 1 where the model is unknown."""
    from srs_eval.configurations import resolve
    from srs_eval.errors import InputError

    weights = {}
    for name in names:
        try:
            # Every model costs a little, however cheap its formula is.
            weights[name] = 0.02 + resolve([name])[0].expected_seconds_per_10k
        except InputError:
            weights[name] = 1.0
    return weights


class Background:
    """The engine's iterator in a thread of its own; `deliver` is called in that thread."""

    def __init__(
        self,
        events: Callable[[threading.Event], Iterator[Event]],
        deliver: Callable[[Event], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self.cancel = threading.Event()
        self._events, self._deliver, self._ended = events, deliver, ended
        # A daemon: leaving the app never waits for it longer than `stop` does.
        self._thread = threading.Thread(target=self._run, daemon=True, name="evaluation")

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 0.0) -> bool:
        """Ask it to end and wait that long; True when it has."""
        self.cancel.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        error = None
        iterator = None
        try:
            iterator = self._events(self.cancel)
            for event in iterator:
                self._deliver(event)
                if self.cancel.is_set():
                    break
        except Exception as failure:
            error = failure
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()  # ends the workers
            self._ended(error)


_SUFFIX_WORDS = {
    "dry-run": "defaults",
    "pretrain": "S0 only",
    "binary": "2 buttons",
    "preset": "per preset",
    "deck": "per deck",
    "no_test_same_day": "later days",
    "no_train_same_day": "fitted on later days",
    "train_equals_test": "fitted on the test",
    "disable_short_term": "no short-term",
    "equalize_test_with_non_secs": "equalized",
}
_NAMES = {"AVG": "average", "MOVING-AVG": "moving average", "90%": "always 90 %"}


@cache
def label(configuration: str) -> str:
    """A configuration's name in words: "FSRS-6 recency", "average"."""
    from srs_eval.models import all_models

    for model in all_models().values():
        if model.standard and f"{configuration}-".startswith(f"{model.standard}-"):
            rest = configuration.removeprefix(model.standard)
            more = [_SUFFIX_WORDS.get(word, word) for word in rest.split("-") if word]
            return " ".join([model.name, *more])
        for alias, name in model.aliases.items():
            # Aliases that only spell a suffix in another way are no shorter names.
            spelled = alias.endswith(tuple(f"-{each}" for each in SUFFIX_ALIASES))
            if name == configuration and len(alias) < len(name) and not spelled:
                return alias
    words: list[str] = []
    rest = configuration
    while rest not in _NAMES:
        for suffix in SUFFIXES:
            if rest.endswith(f"-{suffix}"):
                rest = rest.removesuffix(f"-{suffix}")
                words.insert(0, _SUFFIX_WORDS.get(suffix, suffix))
                break
        else:
            break
    return " ".join([_NAMES.get(rest, rest), *words])


def clock(seconds: float) -> str:
    """Minutes and seconds, "1:50"; hours before them where there are any."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"
