"""Train a configuration, keep its fits, and predict with them again on another log.

The checks of models compare such predictions (`leakage`, `model_checks`). On a log that ends early,
a `TruncatedSession` gives trials the folds that they have on the full log. In a `ReorderedSession`,
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
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog, mark_run_starts
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.models import IN_MEMORY, Model, TrainedModel
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import Cancelled, Context

Folds = tuple[Fold, ...]
Memory = list[tuple[dict[Any, Any], dict[Any, Any]]]
"""Dicts in a model file's modules, each with a copy of its contents."""

_ORDERS = 8  # orders of histories in which the effect of rounding on predictions is measured
_TRAINING_ORDERS = 6  # orders in which its effect on trainings is measured
_SMOOTH_EFFECT = 1e-6
"""Largest effect of rounding on models without thresholds, such as those of trees."""


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A configuration that was trained and evaluated in a session."""

    configuration: Configuration
    context: Context
    session: LearnerSession
    fits: tuple[Any, ...]
    """Results of its fits in the order of calls, or the NotEnoughData that a fit raised."""
    result: Result
    memory: Memory = field(default_factory=list)
    """Contents of the dicts of the model file before the training."""

    @cached_property
    def rounding(self) -> FloatArray:
        """Return how far rounding alone moves predictions with the kept fits (orders, k)."""
        return np.stack([self._measure_shifts(predict_again, seed) for seed in range(_ORDERS)])

    @cached_property
    def rounding_of_training(self) -> FloatArray:
        """Return how far rounding alone moves predictions after retraining (orders, k).

        One order is enough for a model on which rounding has hardly any effect.
        """
        shifts = [self._measure_shifts(_retrain_and_predict, 0)]
        if max(shifts[0].max(), self.rounding.max()) > _SMOOTH_EFFECT:
            for seed in range(1, _TRAINING_ORDERS):
                shifts.append(self._measure_shifts(_retrain_and_predict, seed))
        return np.stack(shifts)

    def _measure_shifts(
        self, run: Callable[[TrainingRun, LearnerSession], Result], seed: int
    ) -> FloatArray:
        """Return how far predictions (k,) move in another order; 0 if the model fails there."""
        try:
            result = run(self, ReorderedSession(self.session, seed))
        except (NotInstalled, Cancelled, MemoryError):
            raise
        except Exception:
            return np.zeros(self.result.size)
        return np.abs(result.p - self.result.p)

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def log(self) -> ReviewLog:
        return self.session.log


def train(configuration: Configuration, session: LearnerSession, context: Context) -> TrainingRun:
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

    memory = _copy_memory(configuration.model)
    result = session.run(_replace_fits(configuration, recording), context)
    return TrainingRun(configuration, context, session, tuple(fits), result, memory)


def retrain(training: TrainingRun, session: LearnerSession) -> TrainingRun:
    """Fit and evaluate the same configuration in another session.

    Meanwhile, the dicts of the model file have the contents from before the training. So features
    that the file caches there for each learner are computed anew from the session's log.
    """
    with _restored_memory(training.memory):
        return train(training.configuration, session, training.context)


def _retrain_and_predict(training: TrainingRun, session: LearnerSession) -> Result:
    return retrain(training, session).result


def _copy_memory(model: Model) -> Memory:
    """Return the module-level dicts of a model file, with copies of their contents."""
    namespaces: list[dict[str, Any]] = []
    if model.file == IN_MEMORY:
        for name in ("fit", "predict", "online"):
            function = getattr(model, name, None)
            if function is not None:
                namespaces.append(getattr(inspect.unwrap(function), "__globals__", {}))
    elif model.file is not None:
        folder = model.file.path.parent
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and Path(file).parent == folder:
                namespaces.append(vars(module))
    dicts: dict[int, dict[Any, Any]] = {}  # by identity, since modules may share a dict
    for namespace in namespaces:
        if _is_of_package(namespace):  # its caches are left alone
            continue
        for name, value in namespace.items():
            if type(value) is dict and not name.startswith("__"):
                dicts[id(value)] = value
    return [(value, dict(value)) for value in dicts.values()]


def _is_of_package(namespace: dict[str, Any]) -> bool:
    return str(namespace.get("__name__")).partition(".")[0] == "srs_eval"


@contextmanager
def _restored_memory(memory: Memory) -> Iterator[None]:
    """Give dicts their copied contents, and their current contents again at the end."""
    current = [(target, dict(target)) for target, _ in memory]
    _fill(memory)
    try:
        yield
    finally:
        _fill(current)


def _fill(memory: Memory) -> None:
    for target, contents in memory:
        target.clear()
        target.update(contents)


def predict_again(
    training: TrainingRun,
    session: LearnerSession,
    *,
    predict: Callable[[Trials, Any, IntArray, Context], FloatArray] | None = None,
) -> Result:
    """Predict with the kept fits in another session, without training.

    `predict` takes the place of the model's own function, if it is not None.
    """
    fits = iter(training.fits)

    def replay(*arguments: Any) -> Any:
        fitted = next(fits)
        if isinstance(fitted, NotEnoughData):
            raise fitted
        return fitted

    configuration = _replace_fits(training.configuration, lambda fit: replay)
    if predict is not None:
        assert isinstance(configuration.model, TrainedModel)
        model = replace(configuration.model, predict=predict)
        configuration = replace(configuration, model=model)
    return session.run(configuration, training.context)


def _replace_fits(configuration: Configuration, wrap_fit: Callable[..., Any]) -> Configuration:
    """Return the configuration with each of its fit functions wrapped by `wrap_fit`."""
    model = configuration.model
    wrapped = {}
    for name in ("fit", "fit_s0"):
        fit = getattr(model, name, None)
        if fit is not None:
            wrapped[name] = wrap_fit(fit)
    return replace(configuration, model=replace(model, **wrapped))


class CustomFoldSession(LearnerSession):
    """A session whose trials have folds other than the protocol's."""

    def __init__(self, log: ReviewLog, choose_folds: Callable[[Trials], Folds]) -> None:
        super().__init__(log)
        self._choose_folds = choose_folds
        self._folds: dict[Protocol, Folds] = {}

    def trials(self, protocol: Protocol) -> Trials:
        """Return the trials under a protocol, with the folds that `choose_folds` returns."""
        trials = super().trials(protocol)
        key = self.preparation_key(protocol)
        if key not in self._folds:
            self._folds[key] = self._choose_folds(trials)
        return replace(trials, folds=self._folds[key])


class TruncatedSession(CustomFoldSession):
    """A session on a log that agrees with another session's log up to a review.

    Its trials have the other session's folds up to that review, so a model that uses nothing later
    predicts the same.
    """

    def __init__(self, full_session: LearnerSession, log: ReviewLog, review: int) -> None:
        super().__init__(log, self._truncate_folds)
        self._full_session = full_session
        self._review = review

    def _truncate_folds(self, trials: Trials) -> Folds:
        full_trials = self._full_session.trials(trials.protocol)
        count = int(np.searchsorted(full_trials.review_th, self._review, side="right"))
        if not np.array_equal(trials.review_th[:count], full_trials.review_th[:count]):
            raise RuntimeError("the two logs do not agree on which reviews are evaluated")
        folds = []
        for fold in full_trials.folds:
            test = fold.test[fold.test < count]
            if len(test):
                folds.append(Fold(train=fold.train[fold.train < count], test=test))
        return tuple(folds)


class ReorderedSession(CustomFoldSession):
    """A session like another one, with the cards' histories in another order.

    Everything that a model may use is the same. Sums over the histories of many cards are rounded
    differently, as they are in an altered log.
    """

    def __init__(self, session: LearnerSession, seed: int) -> None:
        super().__init__(session.log, lambda trials: session.trials(trials.protocol).folds)
        self._seed = seed
        self._reordered: dict[Protocol, Trials] = {}

    def trials(self, protocol: Protocol) -> Trials:
        """Return the trials under a protocol, with histories in this session's order."""
        if protocol not in self._reordered:
            self._reordered[protocol] = _shuffle_histories(super().trials(protocol), self._seed)
        return self._reordered[protocol]


def _shuffle_histories(trials: Trials, seed: int) -> Trials:
    """Return the same trials with the cards' histories in a random order."""
    starts = np.flatnonzero(mark_run_starts(trials.history_card_id))
    histories = np.split(np.arange(len(trials.history_card_id)), starts[1:])
    order = np.random.default_rng(seed).permutation(len(histories))
    rows = np.concatenate([histories[number] for number in order])
    position = np.empty_like(rows)
    position[rows] = np.arange(len(rows))
    columns: dict[str, Any] = {}
    for name, column in vars(trials).items():
        if name.startswith("history_") and name not in ("history_start", "history_end"):
            columns[name] = column[rows]
    return replace(
        trials,
        history_start=position[trials.history_start],
        history_end=position[trials.history_end],
        **columns,
    )
