"""Fit a model to the training part of each fold, and predict the held-out reviews.

Each kind of model (`models.kinds`) gets a `HeldOutTask` and returns a `Prediction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.data.errors import InputError, NotEnoughData, error_message
from srs_eval.data.reviews import (
    Cards,
    FloatArray,
    ImportSummary,
    IntArray,
    Preset,
    ReviewLog,
    Rows,
    make_read_only,
)
from srs_eval.data.trials import Fold, Trials, compute_recency_weights
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import find_pretrained

if TYPE_CHECKING:
    from srs_eval.engine.result import TestSet
    from srs_eval.models.configurations import Configuration
    from srs_eval.models.kinds import TrainedModel

ListedParameters = dict[int, list[float]]
"""Fitted parameters that can be listed, by partition (0 without partitions)."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of a learner's held-out reviews, and what is known about them."""

    p: FloatArray
    """Probability of recall (k,), in the order of `Trials.test_index`."""
    parameters: Mapping[int, Sequence[float]] | None = None
    """Fit of the last fold, by partition; None if it cannot be listed."""
    notes: tuple[str, ...] = ()
    has_run_all_kernels: bool = True  # False if nothing was fitted in the last fold
    in_sample_reviews: int = 0  # see `engine.result.Result`
    tests: TestSet | None = None
    """The k reviews that have a prediction; None if all held-out reviews have one."""
    unused_predictions: int = 0  # see `engine.result.Result`


def _refuse_without_session(*arguments: object) -> Prediction:
    raise RuntimeError("only LearnerSession.run can evaluate this configuration")


@dataclass(frozen=True)
class HeldOutTask:
    """What a configuration needs to predict the held-out reviews of one learner.

    The functions come from a `LearnerSession`. Without one, they raise RuntimeError; most models
    do not call them.
    """

    configuration: Configuration
    trials: Trials
    context: Context
    predict_member: Callable[[Configuration, Context], Prediction] = _refuse_without_session
    """Evaluates another configuration on the same reviews."""
    predict_with_presets: Callable[[], Prediction] = _refuse_without_session
    """Predicts with the parameters that the learner's presets hold."""
    read_external_predictions: Callable[[], Prediction] = _refuse_without_session
    """Reads the predictions that were computed elsewhere."""


def fit_and_predict_folds(model: TrainedModel, task: HeldOutTask) -> Prediction:
    """Fit the model in each fold, and predict the fold's held-out reviews.

    Raises:
        NotEnoughData: There is too little to train on, and the model has no default parameters.
        NotInstalled: All weights in --weights were trained on the learner.
    """
    return _FoldFitter(model, task).predict_all_folds()


_JOINT_FIT = "parameters of all partitions together"


class _FoldFitter:
    """The training of one model on one learner, fold after fold."""

    def __init__(self, model: TrainedModel, task: HeldOutTask) -> None:
        self.model = model
        self.configuration = task.configuration
        self.notes: list[str] = []
        trials = task.trials
        hyperparameters = task.configuration.hyperparameters
        context = replace(task.context, hyperparameters=hyperparameters)
        if model.pretrain is not None:
            pretrained = find_pretrained(model.name, trials.source[0], context)
            if pretrained is not None:
                context = replace(context, pretrained=pretrained.read_arrays())
                self.notes.append(f"starts from {pretrained}{pretrained.ids_only_warning}")
        self.trials = trials if model.file is None else for_own_model(trials)
        self.context = context
        self.fit = self._choose_fit()
        # Progress is the fraction of training rows, summed over folds, that are fitted.
        self.rows_to_fit = max(sum(len(fold.train) for fold in trials.folds), 1)
        self.fitted_rows = 0

    def _choose_fit(self) -> Callable[[Trials, IntArray, FloatArray, Context], Any] | None:
        """Return the function that fits this configuration; None if nothing is fitted."""
        if self.configuration.fit == "default":
            return None
        fit = self.model.fit_s0 if self.configuration.fit == "S0" else self.model.fit
        if fit is None and self.model.parameters:
            raise RuntimeError(
                f"{self.configuration.name} is not available: it cannot be trained yet"
            )
        return fit

    def predict_all_folds(self) -> Prediction:
        """Fit and predict every fold."""
        predictions: list[FloatArray] = []
        fitted: dict[int, Any] = {}
        listable: ListedParameters = {}
        too_small: dict[int, NotEnoughData] = {}
        for number, fold in enumerate(self.trials.folds, start=1):
            default = self._make_default(fold)
            fitted, too_small = self._fit_fold(number, fold, default)
            listable = _list_parameters(self.configuration, fitted)
            predictions.append(self._predict_fold(fold, fitted, default))
            self.context.tick(self.fitted_rows / self.rows_to_fit)
        # `fitted`, `listable` and `too_small` are now those of the last fold.
        return Prediction(
            np.concatenate(predictions),
            listable if self._can_list(fitted, listable) else None,
            tuple(self.notes),
            has_run_all_kernels=self.fit is None or bool(fitted.keys() - too_small.keys()),
        )

    def _make_default(self, fold: Fold) -> Any:
        """Return the parameters for a partition that cannot be fitted, or None if there are none.

        If the model has no default parameters, they are fitted to all partitions together.
        """
        if self.model.has_default:
            return self.model.default_parameters(self.configuration.protocol, self.context)
        if self.configuration.protocol.partitions == "none":
            return None
        return self._fit_rows(fold.train, counted_rows=0)

    def _fit_fold(
        self, number: int, fold: Fold, default: Any
    ) -> tuple[dict[int, Any], dict[int, NotEnoughData]]:
        """Return the parameters of each partition, and why partitions were too small to fit."""
        fitted: dict[int, Any] = {}
        too_small: dict[int, NotEnoughData] = {}
        for partition, train in _split_by_partition(fold.train, self.trials.partition[fold.train]):
            try:
                if self.fit is None:
                    fitted[partition] = default
                else:
                    fitted[partition] = self._fit_rows(train, counted_rows=len(train))
            except NotEnoughData as reason:
                if default is None and not self.model.has_default:
                    raise
                fitted[partition] = default
                too_small[partition] = reason
            self.fitted_rows += len(train)
        replacement = "default parameters" if self.model.has_default else _JOINT_FIT
        if too_small and self.configuration.protocol.fallback_user and self.model.has_default:
            with suppress(NotEnoughData):
                fitted |= dict.fromkeys(too_small, self._fit_rows(fold.train, counted_rows=0))
                replacement = _JOINT_FIT
        for error in too_small.values():
            self.notes.append(f"fold {number}: {replacement} ({error_message(error)})")
        return fitted, too_small

    def _fit_rows(self, train: IntArray, *, counted_rows: int) -> Any:
        """Fit to the rows `train`, and report progress as for `counted_rows` rows.

        These are 0 for a fit to all partitions, whose rows count when each partition is fitted.
        """

        def tick(fraction: float) -> None:
            fitted = self.fitted_rows + fraction * counted_rows
            self.context.tick(fitted / self.rows_to_fit)

        if self.configuration.protocol.recency:
            weights = compute_recency_weights(len(train))
        else:
            weights = np.ones(len(train))
        assert self.fit is not None
        context = replace(self.context, tick=tick)
        parameters = self.fit(self.trials, train, make_read_only(weights), context)
        # The model may keep writing to the object that it returned.
        return copy(parameters) if isinstance(parameters, list | np.ndarray) else parameters

    def _predict_fold(self, fold: Fold, fitted: Mapping[int, Any], default: Any) -> FloatArray:
        """Return the predictions of a fold's held-out reviews, in their order."""
        p_by_trial = np.empty(len(self.trials))  # only the held-out trials are set
        partitions = self.trials.partition[fold.test]
        for partition, test in _split_by_partition(fold.test, partitions):
            parameters = fitted.get(partition, default)
            predicted = self.model.predict(self.trials, parameters, test, self.context)
            p_by_trial[test] = check_predictions(f"{self.model.name}: predict", predicted, test)
        return p_by_trial[fold.test]

    def _can_list(self, fitted: Mapping[int, Any], listable: ListedParameters) -> bool:
        """Return whether all parameters of a fold can be listed.

        An empty list says nothing about a model whose number of parameters is not fixed.
        """
        if self.model.parameters is None and (self.fit is None or not all(listable.values())):
            return False
        return self.model.parameters != 0 and len(listable) == len(fitted)


def for_own_model(trials: Trials) -> Trials:
    """Return a copy of the trials for a user's own model.

    The model may write to the copy, also from torch or compiled code. The copy's log holds nothing
    from after the reviews (`without_today`).
    """
    if trials.log is not None and trials.rows is not None:
        trials = replace(trials, log=without_today(trials.log, trials.rows))
    return deepcopy(trials)


def without_today(log: ReviewLog, rows: Rows) -> ReviewLog:
    """Return a log of these rows without anything that the source recorded after its reviews.

    It leaves out raw entries, cards without reviews, the current schedules and suspensions of
    cards, the settings of decks and presets, the day of the export, and all predictions. The notes,
    decks and presets of reviewed cards stay, by number and name.
    """
    cards = log.cards
    is_reviewed = np.isin(cards.card_id, rows.card_id)
    reviewed = Cards(
        card_id=cards.card_id[is_reviewed],
        note_id=cards.note_id[is_reviewed],
        deck_id=cards.deck_id[is_reviewed],
        suspended=np.zeros(int(is_reviewed.sum()), np.bool_),
    )
    summary = ImportSummary(
        log.import_summary.path,
        log.import_summary.format,
        entries_read=len(rows),
        app_name=log.import_summary.app_name,
    )
    return replace(
        log,
        import_summary=summary,
        entries=None,
        rows=rows,
        cards=reviewed,
        schedule=None,
        decks={key: replace(deck, desired_retention=None) for key, deck in log.decks.items()},
        presets={key: Preset(preset.id, preset.name) for key, preset in log.presets.items()},
        day_grid=None,
        optimized_before_s=None,
        source_predictions={},
        external_predictions={},
        card_rule_count=0,
    )


def check_predictions(function: str, predicted: object, index: IntArray) -> FloatArray:
    """Return a model's predictions for the trials `index` if they are an array of real numbers.

    Raises:
        InputError: The predictions are a number, a list, an array of another shape, or an array
            of text, objects or complex numbers.
    """
    kind = type(predicted).__name__
    if isinstance(predicted, np.ndarray):
        kind = f"array of {predicted.dtype}"
        if predicted.shape != index.shape:
            kind = f"array of shape {predicted.shape}"
        elif predicted.dtype.kind in _REAL_KINDS:
            return predicted
    raise InputError(
        f"{function} returns the wrong thing ({kind}): it must return an array of numpy of shape "
        f"{index.shape}, a probability for each trial."
    )


_REAL_KINDS = "fiub"
"""NumPy's kinds of real numbers: floats, integers, unsigned integers and booleans."""


def _list_parameters(configuration: Configuration, fitted: Mapping[int, Any]) -> ListedParameters:
    """Return the parameters that can be listed, by partition.

    Raises:
        ArithmeticError: A parameter is NaN or infinite.
    """
    listable: ListedParameters = {}
    for partition, parameters in fitted.items():
        values = listed(parameters)
        if values is not None:
            listable[partition] = values
    for values in listable.values():
        if not all(map(math.isfinite, values)):
            raise ArithmeticError(
                f"{configuration.name} was fitted to parameters that are not finite numbers"
            )
    return listable


def listed(parameters: object) -> list[float] | None:
    """Return fitted parameters as a list; None if they are not a list or row of numbers."""
    if isinstance(parameters, np.ndarray):
        is_row = parameters.ndim == 1 and parameters.dtype.kind in _REAL_KINDS
        return parameters.astype(np.float64).tolist() if is_row else None
    if not isinstance(parameters, list | tuple):
        return None
    if any(isinstance(value, str) or _has_axes(value) for value in parameters):
        return None
    try:
        return [float(value) for value in parameters]
    except (TypeError, ValueError, RuntimeError):  # such as a tensor of several numbers
        return None


def _has_axes(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _split_by_partition(index: IntArray, partition: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield the positions of each partition, in order of first appearance."""
    values, first = np.unique(partition, return_index=True)
    for value in values[np.argsort(first)].tolist():
        yield value, make_read_only(index[partition == value])
