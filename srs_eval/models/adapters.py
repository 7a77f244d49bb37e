"""Turn scikit-learn classifiers and torch modules into models: docs/adding-a-model.md."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotEnoughData, printable
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel
from srs_eval.training import hyperparameters
from srs_eval.training.hyperparameters import Hyperparameter

_MIN_PROBABILITY = 0.0001
"""Probabilities stay this far from 0 and 1, which a forest predicts where all its trees agree."""
_PREDICTED_ROWS = 8192  # rows predicted at a time
_UNTRAINED_RECALL = 0.9  # recall where there is nothing to learn from yet
_PRETRAIN_EPOCHS = 30
_PRETRAIN_PATIENCE = 3  # epochs without improvement before pretraining ends
_PRETRAIN_REVIEWS = 4096  # reviews of one user in a step of pretraining
_FINE_TUNING_FACTOR = 0.1
"""Factor on the learning rate from pretrained weights, because a single user has few reviews."""

CARD_FEATURES = (
    "ln(1 + interval)",
    "ln(1 + interval before)",
    "ln(1 + days since the first review)",
    "ln(1 + reviews)",
    "ln(1 + failures)",
    "ln(1 + passes in a row)",
    "last rating",
    "rating before",
    "first rating",
    "mean rating",
)


def card_features(trials: Trials) -> FloatArray:
    """Return features of each trial and its card's history (n, 10), as `CARD_FEATURES` lists them.

    Intervals are in days; 0 stands for missing values.
    """
    start = trials.history_start
    end = trials.history_end
    rating = trials.history_rating

    def sum_over_history(values: FloatArray | IntArray) -> FloatArray:
        """Return the sum over each trial's history (n,)."""
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return sums[end] - sums[start]

    reviews = end - start
    failed = rating == 1
    # Row of the last failure up to each row, perhaps of an earlier card; -1 if there is none.
    last_failure = np.maximum.accumulate(np.where(failed, np.arange(len(rating)), -1))
    return np.stack(
        [
            np.log1p(trials.delta_t),
            np.log1p(trials.history_delta_t[end - 1]),
            np.log1p(sum_over_history(trials.history_delta_t) + trials.delta_t),
            np.log1p(reviews),
            np.log1p(sum_over_history(failed)),
            np.log1p(end - 1 - np.maximum(last_failure[end - 1], start - 1)),
            rating[end - 1],
            np.where(reviews > 1, rating[np.maximum(end - 2, 0)], 0),
            trials.first_rating,
            sum_over_history(rating) / reviews,
        ],
        axis=1,
    )


def sklearn_model(
    name: str,
    make: Callable[..., Any],
    *,
    features: Callable[[Trials], FloatArray] = card_features,
    weighted: bool = True,
    settings: tuple[Hyperparameter, ...] = (hyperparameters.SEED,),
    **about: Any,
) -> TrainedModel:
    """Return a model that fits a scikit-learn classifier to each fold's training part.

    `make(seed=7)` returns a new classifier, which has `fit` and `predict_proba`; with other
    `settings` than the seed, it gets these by name. `features(trials)`, a function at the top of a
    module, returns what is known before each trial (n, k). `weighted` says that the classifier's
    `fit` takes `sample_weight`, which `--recency` needs. The other arguments are fields of
    `TrainedModel`.
    """

    def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> Any:
        _require_both_outcomes(trials, train)
        values = {setting.name: _setting_value(setting, context) for setting in settings}
        fit_arguments = {"sample_weight": weights} if weighted else {}
        with _limit_to_one_core(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "did not converge": the figures show it
            x = trials.derived(features)[train]
            x[:, np.isnan(x).all(axis=0)] = 0  # scikit-learn's trees fail on columns without values
            return make(**values).fit(x, trials.y[train], **fit_arguments)

    def predict(trials: Trials, fitted: Any, index: IntArray, context: Context) -> FloatArray:
        if fitted is None:
            return np.full(len(index), _UNTRAINED_RECALL)
        with _limit_to_one_core():
            p = fitted.predict_proba(trials.derived(features)[index])[:, 1]
        return np.clip(np.asarray(p, np.float64), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)

    flags = ANY_FLAG if weighted else ANY_FLAG - {"recency"}
    about = {"flags": flags, "packages": ("scikit-learn",), **about}
    return _make_model(name, fit, predict, hyperparameters=settings, **about)


def padded_histories(trials: Trials, index: IntArray) -> tuple[NDArray[Any], ...]:
    """Return the histories of k trials as recurrent networks need them, and the trials' intervals.

    The three arrays hold, for each review of a history, ln(1 + days since the previous review) and
    the rating, with zeros after its end (k, longest, 2); the length of each history (k,); and
    ln(1 + interval) of each trial (k,).
    """
    start = trials.history_start[index]
    length = trials.sequence_length[index]
    step = np.arange(length.max(initial=0))
    rows = start[:, None] + np.minimum(step, length[:, None] - 1)  # after its end, its last row
    reviews = np.stack(
        (np.log1p(trials.history_delta_t[rows]), trials.history_rating[rows]), axis=2
    )
    is_in_history = step < length[:, None]
    return reviews * is_in_history[:, :, None], length, np.log1p(trials.delta_t[index])


def _card_arrays(trials: Trials, index: IntArray) -> tuple[NDArray[Any], ...]:
    return (trials.derived(card_features)[index],)


def torch_model(
    name: str,
    module: Callable[[], Any],
    *,
    arrays: Callable[[Trials, IntArray], tuple[NDArray[Any], ...]] = _card_arrays,
    learning_rate: float = 0.01,
    epochs: int = 100,
    batch_size: int = 256,
    decay: float = 0.01,
    patience: int = 10,
    **about: Any,
) -> TrainedModel:
    """Return a model that trains a torch module on each fold's training part.

    `module()` returns a new module with random weights. It gets what `arrays(trials, index)`
    returns (by default `card_features`) as tensors, whole numbers or single precision, and returns
    log-odds of recall (k,) or (k, 1); torch differentiates. AdamW lowers the weighted log loss in
    shuffled batches. A fifth of the training part, drawn at random, is held out: the weights of the
    epoch that was best on it are kept, and training ends after `patience` epochs without
    improvement, or after `epochs`. The other arguments are fields of
    `TrainedModel`.

    `srs-eval models pretrain` trains the module on many users, a fifth of whom are held out; each
    step takes 4,096 reviews of one user. With these weights (--weights) each fit starts from them,
    at a tenth of the learning rate, and NAME-dry-run uses them unchanged.
    """
    settings = (
        hyperparameters.learning_rate(learning_rate),
        hyperparameters.batch_size(batch_size),
        hyperparameters.penalty("decay", decay),
        hyperparameters.SEED,
    )
    torch_module = _TorchModule(module, arrays, settings, epochs, patience)
    fields = {
        "flags": ANY_FLAG,
        "needs": "torch",
        "uses_device": True,
        "pretrain": torch_module.pretrain,
        "cost": Cost(seconds_per_10k=20.0, seconds_besides=1.5),  # the guide's network of 8 cells
        "count_parameters": torch_module.count_parameters,
        **about,
    }
    return _make_model(
        name, torch_module.fit, torch_module.predict, hyperparameters=settings, **fields
    )


@dataclass(frozen=True)
class _TorchModule:
    """The arguments of `torch_model`, and the model's functions."""

    make: Callable[[], Any]
    arrays: Callable[[Trials, IntArray], tuple[NDArray[Any], ...]]
    settings: tuple[Hyperparameter, ...]  # learning rate, batch size, decay and seed
    epochs: int
    patience: int

    def count_parameters(self, context: Context, log: ReviewLog | None) -> int | None:
        """Count the trainable parameters; None if the module cannot be built or has no shapes.

        A lazy module has no shapes before it has seen data.
        """
        return _count_parameters(self.make)

    def fit(self, trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> Any:
        _require_both_outcomes(trials, train)
        with self._prepare_training(context) as (network, optimiser, device):

            def loss(numbers: Any) -> Any:
                positions = numbers.numpy()
                return self._compute_loss(
                    network, trials, train[positions], weights[positions], device
                )

            return _train(
                network,
                optimiser,
                loss,
                n=len(train),
                batch_size=self.settings[1].integer_in(context),
                epochs=self.epochs,
                patience=self.patience,
                context=context,
            )

    def pretrain(self, learners: Sequence[Trials], context: Context) -> dict[str, NDArray[Any]]:
        import torch

        with self._prepare_training(context) as (network, optimiser, device):

            def loss_of_learner(trials: Trials) -> Any:
                n = len(trials)
                if network.training:
                    index = torch.randperm(n)[:_PRETRAIN_REVIEWS].numpy()
                else:  # the same rows each time
                    index = np.linspace(0, n - 1, min(n, _PRETRAIN_REVIEWS)).astype(np.int64)
                return self._compute_loss(network, trials, index, np.ones(len(index)), device)

            def loss(numbers: Any) -> Any:
                losses = (loss_of_learner(learners[k]) for k in numbers.tolist())
                return sum(losses) / len(numbers)

            if context.record is not None:
                rate, _, decay = (setting.number_in(context) for setting in self.settings[:3])
                context.record.begin(
                    seed=_setting_value(hyperparameters.SEED, context),
                    learning_rate=rate,
                    decay=decay,
                    most_epochs=_PRETRAIN_EPOCHS,
                    patience=_PRETRAIN_PATIENCE,
                    reviews_of_a_step=_PRETRAIN_REVIEWS,
                )
            return _train(
                network,
                optimiser,
                loss,
                n=len(learners),
                batch_size=1,
                epochs=_PRETRAIN_EPOCHS,
                patience=_PRETRAIN_PATIENCE,
                context=context,
            )

    def predict(self, trials: Trials, fitted: Any, index: IntArray, context: Context) -> FloatArray:
        fitted = fitted or context.pretrained
        if not fitted:
            return np.full(len(index), _UNTRAINED_RECALL)
        import torch

        from srs_eval.training.torch_networks import build_network, use_device

        with use_device(context) as device, torch.no_grad():
            network = build_network(self.make).to(device)
            _load_state(network, fitted)
            network.eval()
            batches = np.split(index, range(_PREDICTED_ROWS, len(index), _PREDICTED_ROWS))
            z = torch.cat(
                [self._compute_log_odds(network, trials, rows, device) for rows in batches]
            )
            p: FloatArray = z.double().sigmoid().cpu().numpy()
        return np.clip(p, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)

    @contextmanager
    def _prepare_training(self, context: Context) -> Iterator[tuple[Any, Any, Any]]:
        """Yield a network, its optimiser and the device; the seed determines all random draws."""
        import torch

        from srs_eval.training.torch_networks import use_device

        rate, _, decay = (setting.number_in(context) for setting in self.settings[:3])
        with use_device(context) as device, torch.random.fork_rng(devices=[]):
            torch.manual_seed(_setting_value(hyperparameters.SEED, context))
            network = self.make().to(device)
            if context.pretrained:
                _load_state(network, context.pretrained)
                rate *= _FINE_TUNING_FACTOR
            optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
            yield network, optimiser, device

    def _compute_loss(
        self, network: Any, trials: Trials, index: IntArray, weights: FloatArray, device: Any
    ) -> Any:
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        y, weight = _to_tensors((trials.y[index], weights), device)
        z = self._compute_log_odds(network, trials, index, device)
        return cross_entropy(z, y, weight, reduction="sum") / weight.sum()

    def _compute_log_odds(self, network: Any, trials: Trials, index: IntArray, device: Any) -> Any:
        return network(*_to_tensors(self.arrays(trials, index), device)).reshape(len(index))


@cache
def _count_parameters(make: Callable[[], Any]) -> int | None:
    from srs_eval.training.torch_networks import build_network

    try:
        parameters = list(build_network(make).parameters())
        return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    except Exception:  # no torch, or a lazy module, which learns its shapes from data
        return None


def _load_state(network: Any, weights: Mapping[str, NDArray[Any]]) -> None:
    import torch

    try:
        network.load_state_dict({key: torch.tensor(values) for key, values in weights.items()})
    except RuntimeError as error:
        raise InputError(
            f"The weights belong to another module ({printable(error, 200)})."
        ) from None


def _train(
    network: Any,
    optimiser: Any,
    loss: Callable[[Any], Any],
    n: int,
    batch_size: int,
    epochs: int,
    patience: int,
    context: Context,
) -> dict[str, NDArray[Any]]:
    """Train the network and return the weights that were best on a held-out fifth of the data.

    The data are n trials or learners; `loss` takes the numbers of some of them, from 0. If training
    starts from pretrained weights, these may be the best. `context.record`, if there is one, gets
    the mean loss of each epoch.
    """
    import torch

    n_held_out = math.ceil(n / 5)
    held_out, rest = torch.randperm(n).split([n_held_out, n - n_held_out])
    best: dict[str, NDArray[Any]] = {}
    best_loss = math.inf
    epochs_since_best = 0
    for epoch in range(epochs):
        context.tick(epoch / epochs)
        network.train()
        # The first epoch only evaluates pretrained weights as they are.
        is_start = context.pretrained and epoch == 0
        steps = 0 if is_start else math.ceil(len(rest) / batch_size)
        # Batches have about equal sizes: in a batch of one, batch normalization fails.
        batches = rest[torch.randperm(len(rest))].tensor_split(steps) if steps else ()
        summed_loss = 0.0
        for numbers in batches:
            optimiser.zero_grad()
            batch_loss = loss(numbers)
            batch_loss.backward()
            optimiser.step()
            if context.record is not None:
                summed_loss += float(batch_loss.detach()) * len(numbers)
        network.eval()
        with torch.no_grad():
            held_out_loss = float(loss(held_out))
        if context.record is not None:
            mean_loss = summed_loss / len(rest) if steps else None
            context.record.add_epoch(mean_loss, held_out_loss)
        epochs_since_best += 1
        if held_out_loss < best_loss or not best:
            state = network.state_dict()
            best = {key: value.cpu().numpy().copy() for key, value in state.items()}
            best_loss = held_out_loss
            epochs_since_best = 0
        if epochs_since_best >= patience:
            break
    return best


def _make_model(name: str, fit: Any, predict: Any, **about: Any) -> TrainedModel:
    fields: dict[str, Any] = {
        "inputs": "IL, G",
        "source": "a user's own file",
        "cost": Cost(seconds_besides=1.5),
        **about,
    }
    return TrainedModel(name, fit=fit, predict=predict, default=_no_parameters, **fields)


def _setting_value(setting: Hyperparameter, context: Context) -> Any:
    if setting == hyperparameters.SEED:
        return context.user + setting.integer_in(context)
    return setting.integer_in(context) if setting.is_integer else setting.value_in(context)


def _no_parameters(context: Context) -> None:
    """Return None, which stands for a classifier or network that has learned nothing."""


def _require_both_outcomes(trials: Trials, train: IntArray) -> None:
    if not 0 < trials.y[train].sum() < len(train):
        raise NotEnoughData("there are not both passes and failures to learn from")


def _to_tensors(arrays: tuple[NDArray[Any], ...], device: Any) -> list[Any]:
    import torch

    tensors = []
    for array in arrays:
        is_integer = array.dtype.kind in "iu"
        values = array if is_integer else array.astype(np.float32)
        tensors.append(torch.tensor(values, device=device))
    return tensors


def _limit_to_one_core() -> Any:
    """Return a context that limits threads to one, because several jobs share the cores."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)
