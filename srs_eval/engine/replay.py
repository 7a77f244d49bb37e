"""Train a configuration, keep its fits, and predict with them again on another log.

The checks of models compare such predictions (`foresight`, `conformance`). On a log that ends
early, a `SessionUntil` gives trials the folds that they have on the whole one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.session import Result, Session
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import Context

Folds = tuple[Fold, ...]


@dataclass(frozen=True, eq=False)
class Training:
    """A configuration that was trained and evaluated in a session."""

    configuration: Configuration
    context: Context
    session: Session
    fits: tuple[Any, ...]
    """What its fits returned, in the order of calls; the NotEnoughData where one was raised."""
    result: Result

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

    result = session.run(_with_fits(configuration, recording), context)
    return Training(configuration, context, session, tuple(fits), result)


def train_again(training: Training, session: Session) -> Training:
    """Fit and evaluate the same configuration in another session."""
    return train(training.configuration, session, training.context)


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
