"""Makes a model of any scikit-learn classifier and of any torch module: docs/adding-a-model.md."""

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
from srs_eval.models import ANY_FLAG, Context, Model, not_counted
from srs_eval.training import hyperparameters
from srs_eval.training.hyperparameters import Hyperparameter

_NEAREST = 0.0001
"""Probabilities stay this far from 0 and 1: a forest is sure of what all of its trees say."""
_ROWS = 8192  # that are predicted at a time
_UNTRAINED = 0.9  # where there is nothing to learn from yet
_PRETRAIN_EPOCHS, _PRETRAIN_PATIENCE = 30, 3
_REVIEWS = 4096  # of a user, in a step of a pretraining
_TUNING = 0.1  # of the learning rate, from pretrained weights: one's own reviews are few

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
    """What a card's history tells before each trial (n, 10), in the order of `CARD_FEATURES`.

    Intervals are in days; 0 stands for what is not there yet.
    """
    start, end = trials.history_start, trials.history_end
    rating = trials.history_rating

    def so_far(values: FloatArray | IntArray) -> FloatArray:
        """Sum over each trial's history (n,)."""
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return sums[end] - sums[start]

    reviews = end - start
    failed = rating == 1
    last_failure = np.maximum.accumulate(np.where(failed, np.arange(len(rating)), -1))
    return np.stack(
        [
            np.log1p(trials.delta_t),
            np.log1p(trials.history_delta_t[end - 1]),
            np.log1p(so_far(trials.history_delta_t) + trials.delta_t),
            np.log1p(reviews),
            np.log1p(so_far(failed)),
            np.log1p(end - 1 - np.maximum(last_failure[end - 1], start - 1)),
            rating[end - 1],
            np.where(reviews > 1, rating[np.maximum(end - 2, 0)], 0),
            trials.first_rating,
            so_far(rating) / reviews,
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
) -> Model:
    """A model that a classifier of scikit-learn is: one is fitted on each fold's training part.

    `make(seed=7)` returns a new classifier, which has `fit` and `predict_proba`; with other
    `settings` than the seed, it is given these by name. `features(trials)`, a module's
    function, returns what is known before each trial (n, k). `weighted`: its `fit` takes
    `sample_weight`, so that `--recency` can weight. The rest is as in `Model`.
    """

    def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> Any:
        _needs_both(trials, train)
        values = {each.name: _value(each, context) for each in settings}
        given = {"sample_weight": weights} if weighted else {}
        with _one_core(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "did not converge": the figures tell
            x = trials.derived(features)[train]
            x[:, np.isnan(x).all(axis=0)] = 0  # trees of scikit-learn fail where nothing is known
            return make(**values).fit(x, trials.y[train], **given)

    def predict(trials: Trials, fitted: Any, index: IntArray, context: Context) -> FloatArray:
        if fitted is None:
            return np.full(len(index), _UNTRAINED)
        with _one_core():
            p = fitted.predict_proba(trials.derived(features)[index])[:, 1]
        return np.clip(np.asarray(p, np.float64), _NEAREST, 1 - _NEAREST)

    flags = ANY_FLAG if weighted else ANY_FLAG - {"recency"}
    about = {"flags": flags, "packages": ("scikit-learn",), **about}
    return _model(name, fit, predict, hyperparameters=settings, **about)


def padded_histories(trials: Trials, index: IntArray) -> tuple[NDArray[Any], ...]:
    """The reviews before each of k trials, for recurrent networks, and the interval that follows.

    Returns ln(1 + days since the review before) and the rating, (k, longest, 2) with zeros after a
    history's end; the lengths of the histories (k,); ln(1 + interval) of the trials (k,).
    """
    start, length = trials.history_start[index], trials.sequence_length[index]
    place = np.arange(length.max(initial=0))
    rows = start[:, None] + np.minimum(place, length[:, None] - 1)
    steps = (np.log1p(trials.history_delta_t[rows]), trials.history_rating[rows])
    there = place < length[:, None]
    return np.stack(steps, axis=2) * there[:, :, None], length, np.log1p(trials.delta_t[index])


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
) -> Model:
    """A model that a torch module is, trained on each fold's training part; torch differentiates.

    `module()` returns a new module with random weights. It gets what `arrays(trials, index)`
    returns as tensors, whole numbers or single precision, by default `card_features`, and returns
    log-odds of recall (k,) or (k, 1). AdamW lowers the weighted log loss in shuffled batches. A
    fifth of the training part, drawn at random, is held out: the weights are those of the epoch
    that was best on it, and the training ends after `patience` epochs that were no better, or
    after `epochs`. The rest is as in `Model`.

    `srs-eval models pretrain` trains it on many users, a fifth of whom are held out; a step is on
    4,096 reviews of one. With these weights (--weights) each fit starts from them, at a tenth of
    the learning rate, and NAME-dry-run takes them as they are.
    """
    settings = (
        hyperparameters.learning_rate(learning_rate),
        hyperparameters.batch_size(batch_size),
        hyperparameters.penalty("decay", decay),
        hyperparameters.SEED,
    )
    its = _Module(module, arrays, settings, epochs, patience)
    usual = {"flags": ANY_FLAG, "needs": "torch", "uses_device": True, "pretrain": its.pretrain}
    usual["seconds_per_10k"] = 20.0  # so many takes the guide's network of eight cells
    usual["count_parameters"] = its.count_parameters
    return _model(name, its.fit, its.predict, hyperparameters=settings, **{**usual, **about})


@dataclass(frozen=True)
class _Module:
    """What `torch_model` is given."""

    make: Callable[[], Any]
    arrays: Callable[[Trials, IntArray], tuple[NDArray[Any], ...]]
    settings: tuple[Hyperparameter, ...]
    epochs: int
    patience: int

    def count_parameters(self, context: Context, log: ReviewLog | None) -> int | None:
        """Its trainable parameters; None where it cannot be made, or does not know them yet."""
        return _count_parameters(self.make)

    def fit(self, trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> Any:
        _needs_both(trials, train)
        with self._started(context) as (network, optimiser, device):

            def loss(rows: Any) -> Any:
                places = rows.numpy()
                return self._loss(network, trials, train[places], weights[places], device)

            size, long = self.settings[1].integer(context), (self.epochs, self.patience)
            return _trained(network, optimiser, loss, len(train), size, *long, context)

    def pretrain(self, learners: Sequence[Trials], context: Context) -> dict[str, NDArray[Any]]:
        import torch

        with self._started(context) as (network, optimiser, device):

            def of_one(trials: Trials) -> Any:
                n = len(trials)
                if network.training:
                    index = torch.randperm(n)[:_REVIEWS].numpy()
                else:  # the same each time
                    index = np.linspace(0, n - 1, min(n, _REVIEWS)).astype(np.int64)
                return self._loss(network, trials, index, np.ones(len(index)), device)

            def loss(users: Any) -> Any:
                return sum(of_one(learners[k]) for k in users.tolist()) / len(users)

            if context.record is not None:
                rate, _, strength = (each.number(context) for each in self.settings[:3])
                context.record.begin(
                    seed=_value(hyperparameters.SEED, context),
                    learning_rate=rate,
                    decay=strength,
                    most_epochs=_PRETRAIN_EPOCHS,
                    patience=_PRETRAIN_PATIENCE,
                    reviews_of_a_step=_REVIEWS,
                )
            long = _PRETRAIN_EPOCHS, _PRETRAIN_PATIENCE
            return _trained(network, optimiser, loss, len(learners), 1, *long, context)

    def predict(self, trials: Trials, fitted: Any, index: IntArray, context: Context) -> FloatArray:
        fitted = fitted or context.pretrained
        if not fitted:
            return np.full(len(index), _UNTRAINED)
        import torch

        from srs_eval.training.torch_networks import build, on_device

        with on_device(context) as device, torch.no_grad():
            network = build(self.make).to(device)
            _take_over(network, fitted)
            network.eval()
            parts = np.split(index, range(_ROWS, len(index), _ROWS))
            z = torch.cat([self._log_odds(network, trials, part, device) for part in parts])
            p: FloatArray = z.double().sigmoid().cpu().numpy()
        return np.clip(p, _NEAREST, 1 - _NEAREST)

    @contextmanager
    def _started(self, context: Context) -> Iterator[tuple[Any, Any, Any]]:
        """A network, its optimiser and the device; what is drawn meanwhile is of the seed."""
        import torch

        from srs_eval.training.torch_networks import on_device

        rate, _, strength = (each.number(context) for each in self.settings[:3])
        with on_device(context) as device, torch.random.fork_rng(devices=[]):
            torch.manual_seed(_value(hyperparameters.SEED, context))
            network = self.make().to(device)
            if context.pretrained:
                _take_over(network, context.pretrained)
                rate *= _TUNING
            optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=strength)
            yield network, optimiser, device

    def _loss(
        self, network: Any, trials: Trials, index: IntArray, weights: FloatArray, device: Any
    ) -> Any:
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        y, weight = _tensors((trials.y[index], weights), device)
        z = self._log_odds(network, trials, index, device)
        return cross_entropy(z, y, weight, reduction="sum") / weight.sum()

    def _log_odds(self, network: Any, trials: Trials, index: IntArray, device: Any) -> Any:
        return network(*_tensors(self.arrays(trials, index), device)).reshape(len(index))


@cache
def _count_parameters(make: Callable[[], Any]) -> int | None:
    from srs_eval.training.torch_networks import build

    try:
        parameters = list(build(make).parameters())
        return sum(each.numel() for each in parameters if each.requires_grad)
    except Exception:  # without torch, or of a lazy module, which learns its shapes from data
        return None


def _take_over(network: Any, weights: Mapping[str, NDArray[Any]]) -> None:
    import torch

    try:
        network.load_state_dict({key: torch.tensor(each) for key, each in weights.items()})
    except RuntimeError as error:
        raise InputError(f"The weights are of another module ({printable(error, 200)}).") from None


def _trained(
    network: Any,
    optimiser: Any,
    loss: Callable[[Any], Any],
    n: int,
    batch_size: int,
    epochs: int,
    patience: int,
    context: Context,
) -> dict[str, NDArray[Any]]:
    """The weights that were best on a fifth of n rows; `loss` is of rows' numbers.

    Where they start from pretrained ones, these may be the best. `context.record` gets the mean
    loss of each epoch, if there is one.
    """
    import torch

    held_out, rest = torch.randperm(n).split([-(-n // 5), n * 4 // 5])
    best: dict[str, NDArray[Any]] = {}
    best_loss, since = math.inf, 0
    for epoch in range(epochs):
        context.tick(epoch / epochs)
        network.train()
        # Batches of about equal size: of a single row no mean can be taken off.
        steps = 0 if context.pretrained and not epoch else -(-len(rest) // batch_size)
        total = 0.0
        for rows in rest[torch.randperm(len(rest))].tensor_split(steps) if steps else ():
            optimiser.zero_grad()
            of_rows = loss(rows)
            of_rows.backward()
            optimiser.step()
            if context.record is not None:
                total += float(of_rows.detach()) * len(rows)
        network.eval()
        with torch.no_grad():
            found = float(loss(held_out))
        if context.record is not None:
            context.record.add_epoch(total / len(rest) if steps else None, found)
        since += 1
        if found < best_loss or not best:
            state = network.state_dict()
            best = {key: value.cpu().numpy().copy() for key, value in state.items()}
            best_loss, since = found, 0
        if since >= patience:
            break
    return best


def _model(name: str, fit: Any, predict: Any, **about: Any) -> Model:
    usual: dict[str, Any] = {
        "family": "other",
        "inputs": "IL, G",
        "parameters": 0,
        "count_parameters": not_counted,
        "source": "a file of one's own",
        "seconds_besides": 1.5,
    }
    usual |= {"compiles": "never", **about}
    return Model(name, fit=fit, predict=predict, default=_nothing_fitted, **usual)


def _value(setting: Hyperparameter, context: Context) -> Any:
    if setting == hyperparameters.SEED:
        return context.user + setting.integer(context)
    return setting.integer(context) if setting.whole else setting.of(context)


def _nothing_fitted(context: Context) -> None:
    """The parameters where there is nothing to learn from."""


def _needs_both(trials: Trials, train: IntArray) -> None:
    if not 0 < trials.y[train].sum() < len(train):
        raise NotEnoughData("there are not both passes and failures to learn from")


def _tensors(arrays: tuple[NDArray[Any], ...], device: Any) -> list[Any]:
    import torch

    single = [each if each.dtype.kind in "iu" else each.astype(np.float32) for each in arrays]
    return [torch.tensor(each, device=device) for each in single]


def _one_core() -> Any:
    """Several jobs share the cores."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)
