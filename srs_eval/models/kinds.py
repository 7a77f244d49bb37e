"""Define the four kinds of memory models, and what all kinds have in common.

    TrainedModel   is fitted to some reviews, if it has parameters, and predicts later ones
    OnlineModel    learns from each review while it is evaluated
    Ensemble       combines the predictions of other configurations
    ExternalModel  stands for predictions that were computed elsewhere

Each kind implements `predict_held_out`, which the engine calls. A model file defines `MODELS`, a
tuple of such models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.models.held_out import (
    HeldOutTask,
    Prediction,
    check_predictions,
    fit_and_predict_folds,
    for_own_model,
)
from srs_eval.training.hyperparameters import Context, Hyperparameter
from srs_eval.training.own_code import isolate_settings

if TYPE_CHECKING:
    from typing import Self

Family = Literal["baseline", "online", "sm2", "history", "other", "fsrs", "neural"]

ANY_FLAG = frozenset((
    "short", "secs", "two_buttons", "recency", "partitions", "train_equals_test",
    "no_test_same_day", "no_train_same_day", "equalize_test_with_non_secs",
))  # fmt: skip
"""The flags that a trained model can usually take; the class `Protocol` has more flags."""

UNTRAINED_FLAGS = ANY_FLAG - {"recency", "partitions", "train_equals_test", "no_train_same_day"}


@dataclass(frozen=True)
class ModelFile:
    """A Python file with user models, as it was when it was loaded."""

    path: Path
    digest: str  # of its content and the other files of its folder (`data.model_folder`)
    code_digest: str  # digest of the Python files alone
    is_complete: bool  # whether the digest covers every change in the folder


IN_MEMORY = ModelFile(Path(), "", "", is_complete=False)
"""Stands in for the file of a model that exists only in this process."""


@dataclass(frozen=True)
class Cost:
    """Time of a model on one core of a laptop, to order the work and estimate waiting times."""

    seconds_per_10k: float = 0.1
    """For 10,000 reviews, metrics included, once warmed up."""
    seconds_besides: float = 0.0
    """Fixed time on top, such as for importing packages."""
    seconds_to_compile: float = 0.0
    """For compiling its kernels in the first run after an update; 0 if it has none."""
    compiles_only_to_train: bool = False
    """Whether predictions with the default parameters need no kernels."""
    kernels_of: str = ""
    """Name of a model with the same kernels; whichever runs first compiles for all."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """The fields that every kind of model has; a model itself is one of the four kinds."""

    name: str = field(kw_only=False)
    family: Family = "other"
    inputs: str = "-"
    """What the model reads, as srs-benchmark writes it, such as "IL, G, SR"; "-" for nothing.

    IL are intervals in days, FIL fractional ones, G grades, SR same-day reviews, AT answer times.
    """
    parameters: int | None = None
    """Number of trainable parameters, as tables show it. None means that it is not fixed: then
    `count_parameters` counts, or else the length of the fitted list."""
    count_parameters: Callable[[Context, ReviewLog | None], int | None] | None = None
    """Counts the parameters of a torch module or of a weight file (for the given learner, if any);
    returns None if their number is unknown."""
    source: str = ""  # where the formula is from: paper, or repository and path
    note: str = ""  # one sentence to show next to the figures
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of configurations: alias -> configuration name."""
    configurations: tuple[str, ...] = ()
    """Names of the configurations that the group `all` includes; () for the standard configuration
    only."""
    standard: str = ""
    """The configuration that the bare model name stands for; "" if it stands for itself."""
    extra: bool = False  # not part of the group `all`
    flags: frozenset[str] = ANY_FLAG  # protocol flags it can take
    always_short: bool = False  # same-day reviews are always in the histories
    known_decks_only: bool = False  # has the flag `Protocol.known_decks_only` always
    later_days_only: bool = False
    """Has the flag `Protocol.later_days_only` with `secs` and `no_test_same_day`."""
    needs: str = ""
    """Module of `srs_eval.data.errors.EXTRAS` that the model requires everywhere; "" for none."""
    packages: tuple[str, ...] = ()
    """Packages whose versions affect the figures, by their pip names; `needs` covers torch."""
    weights: Callable[[Context], str] | None = None
    """Returns a digest of the weight files that the user must provide, or "" if they are absent. A
    model whose weight files are absent is left out of all groups."""
    uses_device: bool = False  # whether it runs on `Context.device`
    cost: Cost = Cost()
    version: int = 1  # raise it when figures change: cached results become stale
    file: ModelFile | None = None
    """File that the model was loaded from, if it is not part of this package."""

    def __new__(cls, *arguments: object, **fields: object) -> Self:
        """Refuse the base class itself, which model files used before there were four kinds."""
        if cls is Model:
            raise InputError(
                "Model is only the base of all kinds of models: use TrainedModel(...) for fit and "
                "predict, OnlineModel(...) for online, or Ensemble(...) for members"
            )
        return super().__new__(cls)

    def predict_held_out(self, task: HeldOutTask) -> Prediction:
        """Predict the held-out reviews of one learner."""
        raise NotImplementedError

    @property
    def is_trained(self) -> bool:
        """Return whether the model is fitted before it predicts."""
        return False

    @property
    def is_cacheable(self) -> bool:
        """Return whether a later run may show its figures again instead of computing them."""
        return self.has_known_code

    def needs_on(self, device: str) -> str:
        """Return the module of `EXTRAS` that the model requires on a device, "" for none.

        Devices other than "cpu" are torch's.
        """
        return "torch" if self.uses_device and device != "cpu" else self.needs

    @property
    def kernel_owner(self) -> str:
        """Name shared by models that use the same kernels."""
        return self.cost.kernels_of or self.name

    @property
    def has_known_code(self) -> bool:
        """Return whether any change to the model's code is noticed, so its figures can be kept."""
        return self.file is None or self.file.is_complete

    def isolate_settings(self) -> AbstractContextManager[None]:
        """Return a context in which to call the model's functions.

        Changes of the process's settings inside it are undone on exit, so they do not affect other
        models.
        """
        if self.file is None:
            return nullcontext()
        return isolate_settings(None if self.file == IN_MEMORY else self.file.path)


def no_parameters(context: Context) -> list[float]:
    """Return an empty list, which tells `predict` to use pretrained weights or its own defaults."""
    return []


@dataclass(frozen=True, kw_only=True)
class TrainedModel(Model):
    """A model that is fitted to the training part of each fold, or that has nothing to fit.

    `fit(trials, train, weights, context)` returns the parameters fitted on the positions `train`
    (int64, review order) with training weights `weights` (same shape). Parameters are a list of
    floats where they can be shown, else any picklable object. `fit` raises `NotEnoughData` where
    upstream falls back to the defaults; the engine then uses them.

    `predict(trials, parameters, index, context)` returns the probability of recall of the trials
    `index` (float64, same shape).
    """

    predict: Callable[[Trials, Any, IntArray, Context], FloatArray]
    fit: Callable[[Trials, IntArray, FloatArray, Context], Any] | None = None
    fit_s0: Callable[[Trials, IntArray, FloatArray, Context], Any] | None = None
    """Fits only the initial stabilities (`-pretrain`)."""
    default: Callable[[Context], Any] | None = None
    """Returns the parameters used without training (`-dry-run`) and where there is too little to
    train on. Without it, a learner with too few reviews is skipped, and a preset or deck with too
    few takes parameters that are fitted to all presets or decks together."""
    default_secs: Callable[[Context], Any] | None = None
    """Returns the default parameters with `--secs`, if they differ there."""
    parameters_with: Mapping[str, int] = field(default_factory=dict)
    """Number of parameters with "pretrain", "two_buttons" or "disable_short_term".

    "pretrain" is the suffix of configurations that `fit_s0` fits, not the field `pretrain`."""
    hyperparameters: tuple[Hyperparameter, ...] = ()
    """Settings of `fit` that the context can change; includes SEED where `fit` draws random
    numbers."""
    loss: (
        Callable[[Trials, FloatArray, IntArray, FloatArray, Context], tuple[float, FloatArray]]
        | None
    ) = None
    """`loss(trials, parameters, train, weights, context)` returns the loss that `fit` reduces, and
    its gradient. Only `models check` uses it, for a user's training whose gradient is written by
    hand."""
    pretrain: Callable[[Sequence[Trials], Context], Mapping[str, NDArray[Any]]] | None = None
    """Trains on many users (`srs-eval models pretrain`). The first argument is a lazy sequence: its
    element i loads the trials of user i. With --weights, `fit` and `predict` find
    the returned weights in `context.pretrained`."""
    remarks: Callable[[Trials, Context], tuple[str, ...]] | None = None
    """Returns remarks to show next to a learner's figures."""
    recall_after_answers: Callable[[Trials, IntArray, FloatArray, Context], FloatArray] | None = (
        None
    )
    """`recall_after_answers(trials, review_th, days, context)` returns the recall (k, 4, t) at the
    times `days` (t,) after each of the four answers to the reviews `review_th` (k,). Only models
    that read the reviews of other cards need it: `engine.schedulability` asks all others by
    `predict`, with histories of single cards."""
    predict_at: (
        Callable[[Trials, Any, IntArray, FloatArray, IntArray, Context], FloatArray] | None
    ) = None
    """`predict_at(trials, parameters, index, days, elapsed_days, context)` returns the recall
    (k, t) that `predict` would return for the trials `index` (k,) if they came at other times:
    `days` (t,) after their last review, which is `elapsed_days` (k, t) whole days. It saves time
    where `predict` reads more of a trial's time than `Trials.delta_t`, so that
    `engine.schedulability` would have to call it once for each time."""

    @property
    def is_trained(self) -> bool:
        return self.fit is not None

    @property
    def has_default(self) -> bool:
        """Return whether the model can predict without having been fitted."""
        return self.default is not None or self.fit is None

    def default_parameters(self, protocol: Protocol, context: Context) -> Any:
        """Return the parameters without training; an empty list if there are none."""
        if protocol.secs and self.default_secs is not None:
            return self.default_secs(context)
        return no_parameters(context) if self.default is None else self.default(context)

    def predict_held_out(self, task: HeldOutTask) -> Prediction:
        """Fit and predict each fold, or predict with the parameters of the learner's presets."""
        if task.configuration.fit == "own":
            return task.predict_with_presets()
        with self.isolate_settings():
            prediction = fit_and_predict_folds(self, task)
            return _add_remarks(prediction, self, task)


@dataclass(frozen=True, kw_only=True)
class OnlineModel(Model):
    """A model that learns from each review while it is evaluated."""

    online: Callable[[Trials, Context], FloatArray]
    """`online(trials, context)` returns the probabilities of recall for `trials.test_index`. Each
    may depend on all outcomes before it."""
    remarks: Callable[[Trials, Context], tuple[str, ...]] | None = None
    """Returns remarks to show next to a learner's figures."""

    def predict_held_out(self, task: HeldOutTask) -> Prediction:
        """Run the model over the reviews in order, and check its predictions."""
        trials = task.trials if self.file is None else for_own_model(task.trials)
        hyperparameters = task.configuration.values_for_fit
        context = replace(task.context, hyperparameters=hyperparameters)
        with self.isolate_settings():
            predicted = self.online(trials, context)
            p = check_predictions(f"{self.name}: online", predicted, trials.test_index)
            prediction = Prediction(p.astype(np.float64))
            context.tick(1.0)
            return _add_remarks(prediction, self, task)


def _add_remarks(
    prediction: Prediction, model: TrainedModel | OnlineModel, task: HeldOutTask
) -> Prediction:
    if model.remarks is None:
        return prediction
    # A user's own model gets a fresh copy: it may have written to the one that it predicted on.
    trials = task.trials if model.file is None else for_own_model(task.trials)
    remarks = model.remarks(trials, task.context)
    return replace(prediction, notes=(*prediction.notes, *remarks))


@dataclass(frozen=True, kw_only=True)
class Ensemble(Model):
    """A model that merges the predictions of other configurations into one."""

    members: tuple[str, ...]
    """Names of the configurations whose predictions `combine` merges; the engine runs them."""
    combine: Callable[[Sequence[FloatArray]], FloatArray]
    """Merges the predictions of the members, (k,) each, into one array (k,)."""

    def predict_held_out(self, task: HeldOutTask) -> Prediction:
        """Run each member once and combine their predictions."""
        members = task.configuration.member_configurations
        predictions: list[Prediction] = []
        notes: list[str] = []
        for member in members:

            def tick(fraction: float) -> None:
                task.context.tick((len(predictions) + fraction) / len(members))

            prediction = task.predict_member(member, replace(task.context, tick=tick))
            predictions.append(prediction)
            notes += [f"{member.words}: {note}" for note in prediction.notes]
        with self.isolate_settings():
            combined = self.combine([prediction.p for prediction in predictions])
        return Prediction(combined, notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class ExternalModel(Model):
    """Predictions that were computed elsewhere: the log's `external_predictions`.

    Reviews without a prediction are not evaluated.
    """

    @property
    def is_cacheable(self) -> bool:
        return False  # the log holds the predictions: a cache would save no time

    def predict_held_out(self, task: HeldOutTask) -> Prediction:
        """Read the predictions that the log holds for the held-out reviews."""
        return task.read_external_predictions()
