"""Fit a model to the training part of each fold, and predict the held-out reviews.

Each kind of model (`models.kinds`) gets a `HeldOutTask` and returns a `Prediction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
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
    has_run_all_kernels: bool = True
    """False if the model is fitted, but all partitions of the last fold were too small."""
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
        InputError: Weights are damaged, or the model does not return an array of numbers.
        ArithmeticError: A fitted parameter is NaN or infinite.
        RuntimeError: The model has no function for this kind of fit.
    """
    return _FoldFitter(model, task).predict_all_folds()


@dataclass(frozen=True)
class LastFit:
    """The parameters of a model in the last fold, with which it predicts any trials."""

    model: TrainedModel
    context: Context
    parameters: Mapping[int, Any]
    """Fitted parameters by partition (0 without partitions)."""
    make_default: Callable[[], Any]
    """Returns the parameters of a partition that was not fitted."""

    def predict(self, trials: Trials, index: IntArray) -> FloatArray:
        """Return the recall of the trials `index` (k,), each by its partition's parameters."""
        if self.model.file is not None:
            trials = for_own_model(trials)
        p_by_trial = np.empty(len(trials))  # only the trials `index` are set
        for partition, positions in _split_by_partition(index, trials.partition[index]):
            parameters = self._parameters_of(partition)
            with self.model.isolate_settings():
                predicted = self.model.predict(trials, parameters, positions, self.context)
            p = check_predictions(f"{self.model.name}: predict", predicted, positions)
            p_by_trial[positions] = p
        return p_by_trial[index]

    def predict_at(
        self, trials: Trials, index: IntArray, days: FloatArray, elapsed_days: IntArray
    ) -> FloatArray:
        """Return the recall (k, t) of the trials `index` at other times.

        `days` (t,) and `elapsed_days` (k, t) are as in `TrainedModel.predict_at`, which the model
        must have.
        """
        assert self.model.predict_at is not None
        recall = np.empty(elapsed_days.shape)
        partition_of = trials.partition[index]
        for partition in np.unique(partition_of).tolist():
            own = np.flatnonzero(partition_of == partition)
            parameters = self._parameters_of(partition)
            recall[own] = self.model.predict_at(
                trials, parameters, index[own], days, elapsed_days[own], self.context
            )
        return recall

    def _parameters_of(self, partition: int) -> Any:
        if partition in self.parameters:
            return self.parameters[partition]
        return self.make_default()


def fit_last_fold(
    model: TrainedModel, task: HeldOutTask, parameters: Mapping[int, Any] | None = None
) -> LastFit:
    """Fit the model to the training part of the last fold; given `parameters`, fit nothing.

    Raises the same exceptions as `fit_and_predict_folds`.
    """
    with model.isolate_settings():
        return _FoldFitter(model, task).fit_last_fold(parameters)


def _find_other_users_weights(task: HeldOutTask) -> Path:
    """Return the file of weights that a batch trained on the users of other parts."""
    name = task.configuration.name
    path = task.context.other_users_weights.get(name)
    if path is None:
        raise InputError(f"{name} has no weights of other users: only a batch trains them.")
    return path


_JOINT_FIT = "parameters of all partitions together"


class _FoldFitter:
    """The training of one model on one learner, fold after fold."""

    def __init__(self, model: TrainedModel, task: HeldOutTask) -> None:
        self.model = model
        self.configuration = task.configuration
        self.notes: list[str] = []
        trials = task.trials
        hyperparameters = task.configuration.values_for_fit
        context = replace(task.context, hyperparameters=hyperparameters)
        if model.pretrain is not None:
            log, _ = trials.source
            own_file = None
            if task.configuration.is_trained_on_other_users:
                own_file = _find_other_users_weights(task)
            pretrained = find_pretrained(model.name, log, context, own_file)
            if pretrained is not None:
                context = replace(context, pretrained=pretrained.read_arrays())
                # The warning is for files that recognise learners only by their user numbers.
                self.notes.append(f"starts from {pretrained}{pretrained.ids_only_warning}")
        self.trials = trials if model.file is None else for_own_model(trials)
        self.context = context
        self.fit_function = self._choose_fit_function()
        # Progress is the fraction of training rows, summed over folds, that are fitted.
        self.rows_to_fit = max(sum(len(fold.train) for fold in trials.folds), 1)
        self.fitted_rows = 0

    def _choose_fit_function(self) -> Callable[[Trials, IntArray, FloatArray, Context], Any] | None:
        """Return the function that fits this configuration; None if nothing is fitted."""
        if self.configuration.fit == "default":
            return None
        fit_function = self.model.fit
        if self.configuration.fit == "S0":
            fit_function = self.model.fit_s0
        if fit_function is None and self.model.parameters:
            raise RuntimeError(
                f"{self.configuration.name} is not available: it cannot be trained yet"
            )
        return fit_function

    def predict_all_folds(self) -> Prediction:
        """Fit and predict every fold."""
        predictions: list[FloatArray] = []
        parameters_by_partition: dict[int, Any] = {}
        lists_by_partition: ListedParameters = {}
        too_small: dict[int, NotEnoughData] = {}
        for number, fold in enumerate(self.trials.folds, start=1):
            make_default = cache(partial(self._make_default, fold))  # perhaps a fit: once a fold
            parameters_by_partition, too_small = self._fit_fold(number, fold, make_default)
            lists_by_partition = _list_parameters(self.configuration, parameters_by_partition)
            predictions.append(self._predict_fold(fold, parameters_by_partition, make_default))
            self.context.tick(self.fitted_rows / self.rows_to_fit)
        # The parameters, their lists and `too_small` are now those of the last fold.
        can_list = self._can_list(parameters_by_partition, lists_by_partition)
        fitted_partitions = parameters_by_partition.keys() - too_small.keys()
        return Prediction(
            np.concatenate(predictions),
            lists_by_partition if can_list else None,
            tuple(self.notes),
            has_run_all_kernels=self.fit_function is None or bool(fitted_partitions),
        )

    def fit_last_fold(self, parameters: Mapping[int, Any] | None) -> LastFit:
        """Fit the last fold, unless its `parameters` are known."""
        folds = self.trials.folds
        make_default = cache(partial(self._make_default, folds[-1]))
        if parameters is None:
            self.rows_to_fit = max(len(folds[-1].train), 1)
            parameters, _ = self._fit_fold(len(folds), folds[-1], make_default)
        return LastFit(self.model, self.context, parameters, make_default)

    def _make_default(self, fold: Fold) -> Any:
        """Return the parameters for a partition that cannot be fitted.

        If the model has no default parameters, they are fitted to all partitions together.
        """
        if self.model.has_default:
            return self.model.default_parameters(self.configuration.protocol, self.context)
        return self._fit_rows(fold.train, counted_rows=0)

    def _fit_fold(
        self, number: int, fold: Fold, make_default: Callable[[], Any]
    ) -> tuple[dict[int, Any], dict[int, NotEnoughData]]:
        """Return the parameters of each partition, and why partitions were too small to fit."""
        parameters_by_partition: dict[int, Any] = {}
        too_small: dict[int, NotEnoughData] = {}
        for partition, train in _split_by_partition(fold.train, self.trials.partition[fold.train]):
            try:
                if self.fit_function is None:
                    parameters = make_default()
                else:
                    parameters = self._fit_rows(train, counted_rows=len(train))
            except NotEnoughData as reason:
                if not self.model.has_default and self.configuration.protocol.partitions == "none":
                    raise
                parameters = make_default()
                too_small[partition] = reason
            parameters_by_partition[partition] = parameters
            self.fitted_rows += len(train)
        replacement = "default parameters" if self.model.has_default else _JOINT_FIT
        # For a model without default parameters, `make_default` has already made the joint fit.
        if too_small and self.configuration.protocol.fallback_user and self.model.has_default:
            with suppress(NotEnoughData):
                joint_parameters = self._fit_rows(fold.train, counted_rows=0)
                parameters_by_partition |= dict.fromkeys(too_small, joint_parameters)
                replacement = _JOINT_FIT
        for error in too_small.values():
            self.notes.append(f"fold {number}: {replacement} ({error_message(error)})")
        return parameters_by_partition, too_small

    def _fit_rows(self, train: IntArray, *, counted_rows: int) -> Any:
        """Fit to the rows `train`, and report progress as for `counted_rows` rows.

        Pass 0 for a joint fit: its rows are counted when each partition is fitted.
        """

        def tick(fraction: float) -> None:
            rows_done = self.fitted_rows + fraction * counted_rows
            self.context.tick(rows_done / self.rows_to_fit)

        if self.configuration.protocol.recency:
            weights = compute_recency_weights(len(train))
        else:
            weights = np.ones(len(train))
        assert self.fit_function is not None
        context = replace(self.context, tick=tick)
        parameters = self.fit_function(self.trials, train, make_read_only(weights), context)
        # The model may keep writing to the object that it returned.
        return copy(parameters) if isinstance(parameters, list | np.ndarray) else parameters

    def _predict_fold(
        self,
        fold: Fold,
        parameters_by_partition: Mapping[int, Any],
        make_default: Callable[[], Any],
    ) -> FloatArray:
        """Return the predictions of a fold's held-out reviews, in their order."""
        p_by_trial = np.empty(len(self.trials))  # only the held-out trials are set
        partitions = self.trials.partition[fold.test]
        for partition, test in _split_by_partition(fold.test, partitions):
            if partition in parameters_by_partition:
                parameters = parameters_by_partition[partition]
            else:
                parameters = make_default()
            predicted = self.model.predict(self.trials, parameters, test, self.context)
            p_by_trial[test] = check_predictions(f"{self.model.name}: predict", predicted, test)
        return p_by_trial[fold.test]

    def _can_list(
        self, parameters_by_partition: Mapping[int, Any], lists_by_partition: ListedParameters
    ) -> bool:
        """Return whether there is something to list, and all parameters of a fold can be listed."""
        if self.model.parameters == 0:
            return False
        if len(lists_by_partition) < len(parameters_by_partition):
            return False
        if self.model.parameters is not None:
            return True
        # The lists of such a model also tell its number of parameters. A default or an empty list
        # does not tell it.
        return self.fit_function is not None and all(lists_by_partition.values())


def for_own_model(trials: Trials) -> Trials:
    """Return a copy of the trials for a user's own model.

    The copy is read-only, too. Torch and compiled code ignore that, but reach only the copy. Its
    log holds nothing from after the reviews (`without_current_state`).
    """
    if trials.log is not None and trials.rows is not None:
        trials = replace(trials, log=without_current_state(trials.log, trials.rows))
    return deepcopy(trials)


def without_current_state(log: ReviewLog, rows: Rows) -> ReviewLog:
    """Return a log of these rows without anything that the source recorded after its reviews.

    It leaves out raw entries, cards without reviews, the current schedules and suspensions of
    cards, the settings of decks and presets, the day of the export, and all predictions. All decks
    and presets stay, by number and name, and so does each reviewed card's note number.
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
        templates=None,
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
    kind = f"a value of type {type(predicted).__name__}"
    if isinstance(predicted, np.ndarray):
        kind = f"an array of {predicted.dtype}"
        if predicted.shape != index.shape:
            kind = f"an array of shape {predicted.shape}"
        elif predicted.dtype.kind in _REAL_KINDS:
            return predicted
    raise InputError(
        f"{function} returned {kind}; it must return a NumPy array of shape "
        f"{index.shape}, a probability for each trial."
    )


_REAL_KINDS = "fiub"
"""NumPy's kinds of real numbers: floats, integers, unsigned integers and booleans."""


def _list_parameters(
    configuration: Configuration, parameters_by_partition: Mapping[int, Any]
) -> ListedParameters:
    """Return the parameters that can be listed, by partition.

    Raises:
        ArithmeticError: A parameter is NaN or infinite.
    """
    lists_by_partition: ListedParameters = {}
    for partition, parameters in parameters_by_partition.items():
        values = as_float_list(parameters)
        if values is not None:
            lists_by_partition[partition] = values
    for values in lists_by_partition.values():
        if not all(map(math.isfinite, values)):
            raise ArithmeticError(
                f"{configuration.name} ended up with parameters that are not finite numbers"
            )
    return lists_by_partition


def as_float_list(parameters: object) -> list[float] | None:
    """Return parameters as a list; None if they are not a list, tuple or 1-D array of numbers."""
    if isinstance(parameters, np.ndarray):
        is_row = parameters.ndim == 1 and parameters.dtype.kind in _REAL_KINDS
        return parameters.astype(np.float64).tolist() if is_row else None
    if not isinstance(parameters, list | tuple):
        return None
    # `float` would also accept text such as "1.5", and an array that holds a single number.
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
