"""Train a configuration, keep its fits, and predict with them again on another log.

The checks of models compare such predictions (`foresight`, `conformance`). On a log that ends
early, a `SessionUntil` gives trials the folds that they have on the whole one. In a `RelaidSession`
only the rounding of sums differs.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData, NotInstalled
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, ReviewLog, run_begins
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.session import Result, Session
from srs_eval.models import MADE_HERE, Model
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import Cancelled, Context

Folds = tuple[Fold, ...]
Memory = list[tuple[dict[Any, Any], dict[Any, Any]]]
"""Dicts of a model file's modules, and a copy of what was in each."""

_LAYOUTS = 8  # in which the rounding of predictions is looked at
_TRAINED_LAYOUTS = 6  # the same of trainings
_ROUNDED = 1e-6  # predictions that rounding moves by more are those of trees and the like


@dataclass(frozen=True, eq=False)
class Training:
    """A configuration that was trained and evaluated in a session."""

    configuration: Configuration
    context: Context
    session: Session
    fits: tuple[Any, ...]
    """What its fits returned, in the order of calls; the NotEnoughData where one was raised."""
    result: Result
    memory: Memory = field(default_factory=list)
    """What the model file had in its dicts before the training."""

    @cached_property
    def rounding(self) -> FloatArray:
        """How far mere rounding moves predictions with the kept fits (layouts, k)."""
        return np.stack([self._moved(predict_again, seed) for seed in range(_LAYOUTS)])

    @cached_property
    def rounding_of_training(self) -> FloatArray:
        """The same where the model is trained anew (layouts, k)."""
        moved = [self._moved(_results_of_training, 0)]
        if max(moved[0].max(), self.rounding.max()) > _ROUNDED:
            seeds = range(1, _TRAINED_LAYOUTS)
            moved += [self._moved(_results_of_training, seed) for seed in seeds]
        return np.stack(moved)

    def _moved(self, run: Callable[[Training, Session], Result], seed: int) -> FloatArray:
        """Return how far predictions (k,) move in another layout; 0 where the model fails in it."""
        try:
            after = run(self, RelaidSession(self.session, seed))
        except (NotInstalled, Cancelled, MemoryError):
            raise
        except Exception:
            return np.zeros(self.result.size)
        return np.abs(after.p - self.result.p)

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def log(self) -> ReviewLog:
        return self.session.log


def train(configuration: Configuration, session: Session, context: Context) -> Training:
    """Fit and evaluate a configuration, and keep its fits."""
    fits: list[Any] = []

    def recording(fit: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any) -> Any:
            try:
                fitted = fit(*arguments)
            except NotEnoughData as reason:
                fits.append(reason)
                raise
            fits.append(fitted)
            return fitted

        return recorded

    memory = _memory_of(configuration.model)
    result = session.run(_with_fits(configuration, recording), context)
    return Training(configuration, context, session, tuple(fits), result, memory)


def train_again(training: Training, session: Session) -> Training:
    """Fit and evaluate the same configuration in another session.

    The model file remembers nothing of earlier ones meanwhile: features of a learner that it keeps
    by their number are computed anew.
    """
    with _remembering(training.memory):
        return train(training.configuration, session, training.context)


def _results_of_training(training: Training, session: Session) -> Result:
    return train_again(training, session).result


def _memory_of(model: Model) -> Memory:
    """Return the dicts at the level of a model file's modules, with copies of their contents."""
    namespaces = []
    if model.file == MADE_HERE:
        functions = (model.fit, model.predict, model.online)
        unwrapped = [inspect.unwrap(function) for function in functions if function is not None]
        namespaces = [getattr(function, "__globals__", {}) for function in unwrapped]
    elif model.file is not None:
        folder = model.file.path.parent
        modules = list(sys.modules.values())
        files = [getattr(module, "__file__", None) for module in modules]
        namespaces = [
            vars(module)
            for module, file in zip(modules, files, strict=True)
            if file and Path(file).parent == folder
        ]
    namespaces = [each for each in namespaces if not _is_of_package(each)]
    dicts = {
        id(value): value
        for namespace in namespaces
        for name, value in namespace.items()
        if type(value) is dict and not name.startswith("__")
    }
    return [(value, dict(value)) for value in dicts.values()]


def _is_of_package(namespace: dict[str, Any]) -> bool:
    return str(namespace.get("__name__")).partition(".")[0] == "srs_eval"


@contextmanager
def _remembering(memory: Memory) -> Iterator[None]:
    """Give dicts the contents of then, and at the end those that they have now."""
    now = [(target, dict(target)) for target, _ in memory]
    _fill(memory)
    try:
        yield
    finally:
        _fill(now)


def _fill(memory: Memory) -> None:
    for target, contents in memory:
        target.clear()
        target.update(contents)


def predict_again(training: Training, session: Session, **changes: Any) -> Result:
    """Predict with the kept fits in another session, where nothing is trained.

    `changes` replace fields of the model, such as `predict`.
    """
    fits = iter(training.fits)

    def replay(*arguments: Any) -> Any:
        fitted = next(fits)
        if isinstance(fitted, NotEnoughData):
            raise fitted
        return fitted

    replayed = _with_fits(training.configuration, lambda fit: replay)
    changed = replace(replayed, model=replace(replayed.model, **changes))
    return session.run(changed, training.context)


def _with_fits(configuration: Configuration, change: Callable[..., Any]) -> Configuration:
    """Return the configuration with other functions in place of those that fit."""
    model = configuration.model
    changed = {}
    for name in ("fit", "fit_s0"):
        fit = getattr(model, name)
        if fit is not None:
            changed[name] = change(fit)
    return replace(configuration, model=replace(model, **changed))


class FoldedSession(Session):
    """A session whose trials have other folds than the protocol's."""

    def __init__(self, log: ReviewLog, folds_of: Callable[[Trials], Folds]) -> None:
        super().__init__(log)
        self._folds_of = folds_of
        self._folds: dict[Protocol, Folds] = {}

    def trials(self, protocol: Protocol) -> Trials:
        """Return the trials under a protocol, with the folds that `folds_of` chooses for them."""
        trials = super().trials(protocol)
        key = self.preparation(protocol)
        if key not in self._folds:
            self._folds[key] = self._folds_of(trials)
        return replace(trials, folds=self._folds[key])


class SessionUntil(FoldedSession):
    """A session on a log that agrees with another session's up to a review.

    Its trials have the other one's folds up to there, so that a model which uses nothing of what
    comes later predicts the same.
    """

    def __init__(self, whole: Session, log: ReviewLog, review: int) -> None:
        super().__init__(log, self._folds_until)
        self._whole = whole
        self._review = review

    def _folds_until(self, trials: Trials) -> Folds:
        whole = self._whole.trials(trials.protocol)
        count = int(np.searchsorted(whole.review_th, self._review, side="right"))
        if not np.array_equal(trials.review_th[:count], whole.review_th[:count]):
            raise RuntimeError("the two logs do not agree in which reviews are evaluated")
        folds = []
        for fold in whole.folds:
            test = fold.test[fold.test < count]
            if len(test):
                folds.append(Fold(train=fold.train[fold.train < count], test=test))
        return tuple(folds)


class RelaidSession(FoldedSession):
    """A session whose histories lie in another order of cards, with the folds of another session.

    All that a model may use is the same. Sums over the histories of many cards are rounded
    otherwise, as they are where a log is altered.
    """

    def __init__(self, like: Session, seed: int) -> None:
        super().__init__(like.log, lambda trials: like.trials(trials.protocol).folds)
        self._seed = seed
        self._relaid: dict[Protocol, Trials] = {}

    def trials(self, protocol: Protocol) -> Trials:
        """Return the trials under a protocol, whose histories lie in an order of this session."""
        if protocol not in self._relaid:
            self._relaid[protocol] = _relaid(super().trials(protocol), self._seed)
        return self._relaid[protocol]


def _relaid(trials: Trials, seed: int) -> Trials:
    """Return trials whose histories lie in a random order of cards."""
    begins = np.flatnonzero(run_begins(trials.history_card_id))
    histories = np.split(np.arange(len(trials.history_card_id)), begins[1:])
    order = np.random.default_rng(seed).permutation(len(histories))
    rows = np.concatenate([histories[number] for number in order])
    position = np.empty_like(rows)
    position[rows] = np.arange(len(rows))
    columns = {
        name: column[rows]
        for name, column in vars(trials).items()
        if name.startswith("history_") and name not in ("history_start", "history_end")
    }
    return replace(
        trials,
        history_start=position[trials.history_start],
        history_end=position[trials.history_end],
        **columns,
    )
