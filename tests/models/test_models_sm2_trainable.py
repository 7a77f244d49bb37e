"""SM2-trainable and Anki: gradients against torch autograd, figures against golden."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Context, all_models, anki_sm2, sm2
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.recurrent import RecurrentModel, SummedLoss
from tests.helpers.card_logs import draw_cards_rated_again_or_good, make_log
from tests.helpers.derived_gradients import derive_gradient
from tests.helpers.golden import golden_dataset, golden_lines
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner

Tensor = torch.Tensor
State = tuple[Tensor, ...]
LEAST = 0.01


def sm2_first(rating: Tensor, w: Tensor) -> State:
    start = torch.zeros_like(rating), w[2] + torch.zeros_like(rating), torch.zeros_like(rating)
    return sm2_step(start, torch.zeros_like(rating), rating, w)


def sm2_step(state: State, t: Tensor, rating: Tensor, w: Tensor) -> State:
    """Apply the formulas of SM-2 with torch's own where and clamp."""
    interval, ef, reps = state
    reps = torch.where(rating > 1, reps + 1, 1.0)
    interval = torch.where(reps == 1, w[0], torch.where(reps == 2, w[1], interval * ef))
    ef = ef - w[3] * (rating + 1 - w[4]) ** 2 + w[5]
    return interval.clamp(LEAST, 36500), ef.clamp(1.3, 10), reps


def anki_end(interval: Tensor, ease: Tensor) -> State:
    leaky = torch.nn.functional.leaky_relu(interval - 1) + 1
    return torch.max(leaky, interval).clamp(LEAST, 36500), ease.clamp(1.3, 5.5)


def anki_first(rating: Tensor, w: Tensor) -> State:
    return anki_end(torch.where(rating < 4, w[0], w[1]), w[2] + torch.zeros_like(rating))


def anki_step(state: State, t: Tensor, rating: Tensor, w: Tensor) -> State:
    """Apply Anki's review states as other.py has them, with torch's own max, where and clamp."""
    interval, ease = state
    late = t - interval
    elapsed = interval + late
    grown = torch.max(elapsed * ease, interval)
    early = [
        torch.max(elapsed * w[4], interval * w[4] / 2),
        grown * (w[3] - (w[3] - 1) / 2),
        grown,
    ]
    on_time = [interval * w[4], (interval + late) * ease * w[3], (interval + late / 2) * ease]

    def by_rating(hard: Tensor, good: Tensor, easy: Tensor) -> Tensor:
        return torch.where(rating == 2, hard, torch.where(rating == 4, easy, good))

    passed = torch.where(late < 0, by_rating(*early), by_rating(*on_time)) * w[6]
    change = torch.tensor([0, -0.2, -0.15, 0, 0.15], dtype=torch.float64)[rating.long()]
    return anki_end(torch.where(rating == 1, interval * w[5], passed), ease + change)


@dataclass(frozen=True)
class Case:
    module: Any
    recurrent: RecurrentModel
    first: Callable[..., State]
    step: Callable[..., State]
    high: tuple[float, ...]  # how far random parameters go


CASES = {
    "SM2-trainable": Case(
        sm2,
        sm2.make_recurrent(LEAST),
        sm2_first,
        sm2_step,
        (50, 50, 10, 1, 9, 0.5),
    ),
    "Anki": Case(anki_sm2, anki_sm2.RECURRENT, anki_first, anki_step, (50, 50, 5, 5, 1.3, 1, 2)),
}
KINDS = ("default", "inside", "at bounds")
for_both_models = pytest.mark.parametrize("name", CASES)


def parameters(case: Case, rng: np.random.Generator, kind: str) -> np.ndarray:
    """Draw parameters inside the bounds, or with a third of them on a bound."""
    if kind == "default":
        return np.array(case.recurrent.default)
    lower = np.maximum(np.array(case.recurrent.lower, float), -1.0)
    upper = np.minimum(np.array(case.recurrent.upper, float), 36500.0)
    w = rng.uniform(lower, case.high)
    if kind == "at bounds":
        side = rng.integers(0, 6, len(w))
        w = np.where(side == 0, lower, np.where(side == 1, np.minimum(upper, 9999), w))
    return w


def states(name: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Draw states, some at the bounds, with intervals whose half is an elapsed time."""
    interval = np.exp(rng.uniform(np.log(0.5), np.log(36500), n))
    interval[::7] = 1.0
    interval[1::7] = 36500.0
    interval[2::7] = np.floor(interval[2::7]) + 1
    ease = rng.uniform(1.3, 5.5, n)
    ease[::5] = 1.3
    ease[1::5] = 5.5
    return (interval, ease, rng.integers(1, 4, n).astype(float))[: CASES[name].recurrent.states]


@for_both_models
@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_gradients_equal_torch(name: str, kind: str) -> None:
    """Check ties too: intervals of a day, reviews on time, both sides of a maximum equal."""
    case = CASES[name]
    rng = np.random.default_rng(0)
    n = 210
    w = parameters(case, rng, kind)
    p = len(w)
    full = [*w, *case.recurrent.constants]
    for step, low, high in ((case.recurrent.success, 2, 5), (case.recurrent.failure, 1, 2)):
        old = states(name, rng, n)
        rating = rng.integers(low, high, n).astype(float)
        t = np.floor(np.exp(rng.uniform(0, 8, n)))
        t[::3] = old[0][::3] / 2
        t[1::4] = old[0][1::4]
        bar = rng.normal(size=(len(old), n))
        leaves = [torch.tensor(x, requires_grad=True) for x in (*old, w)]
        expected = case.step(leaves[:-1], torch.tensor(t), torch.tensor(rating), leaves[-1])
        new = step(old, t, rating, full)
        for computed, reference in zip(new, expected, strict=True):
            np.testing.assert_allclose(computed, reference.detach(), rtol=1e-12)
        loss = sum((value * torch.tensor(b)).sum() for value, b in zip(expected, bar, strict=True))
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        w_bar = np.zeros((len(full), n))
        adjoints = derive_gradient(step, ("state",), "w")(old, t, rating, full, tuple(bar), w_bar)
        for computed, reference in zip(adjoints, gradients, strict=False):
            expected_bar = np.zeros(n) if reference is None else reference.numpy()
            np.testing.assert_allclose(computed, expected_bar, rtol=1e-9, atol=1e-12)
        scale = np.abs(w_bar).sum(axis=1)[:p]
        difference = w_bar.sum(axis=1)[:p] - gradients[-1].numpy()
        np.testing.assert_array_less(np.abs(difference), 1e-12 * scale + 1e-12)
        assert scale.any()


@for_both_models
@pytest.mark.parametrize("kind", KINDS)
def test_first_review_equals_torch(name: str, kind: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(5)
    w = parameters(case, rng, kind)
    rating = rng.integers(1, 5, 40).astype(float)
    expected = case.first(torch.tensor(rating), torch.tensor(w))
    new = case.recurrent.first(rating, [*w, *case.recurrent.constants])
    for computed, reference in zip(new, expected, strict=True):
        np.testing.assert_allclose(computed, reference, rtol=1e-14)


def torch_loss(case: Case, trials: Trials, rows: np.ndarray, w: Tensor) -> Tensor:
    """Compute the binary cross entropy item by item, without any sharing."""
    losses = []
    for row in rows.tolist():
        history = slice(trials.history_start[row], trials.history_end[row])
        t = torch.tensor(trials.history_delta_t[history])
        rating = torch.tensor(trials.history_rating[history].astype(float))
        state = case.first(rating[:1], w)
        for k in range(1, len(t)):
            state = case.step(state, t[k : k + 1], rating[k : k + 1], w)
        r = 0.9 ** (torch.tensor(trials.delta_t[row : row + 1]) / state[0])
        y = torch.tensor(trials.y[row : row + 1])
        losses.append(torch.nn.functional.binary_cross_entropy(r, y))
    return torch.stack(losses).sum()


def trials_of(seed: int, reviews: int, protocol: Protocol | None = None) -> Trials:
    return LearnerSession(simulate_learner(seed, reviews).log()).trials(protocol or Protocol())


@for_both_models
@pytest.mark.parametrize("kind", slow_except({"at bounds"}, KINDS))
def test_kernel_gradient_over_the_trie_equals_torch(name: str, kind: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(7)
    trials = trials_of(3, 900)
    rows = rng.permutation(len(trials))[:60]
    w = parameters(case, rng, kind)
    leaf = torch.tensor(w, requires_grad=True)
    expected = torch_loss(case, trials, rows, leaf)
    expected.backward()

    loss = SummedLoss(case.recurrent, trials, rows)
    assert loss.value(w) == pytest.approx(expected.item(), rel=1e-12)
    assert leaf.grad is not None
    np.testing.assert_allclose(loss.gradient(w), leaf.grad, rtol=1e-8, atol=1e-9)


@for_both_models
def test_predictions_equal_the_formulas_for_any_parameters(name: str) -> None:
    """Check default parameters too, which Anki evaluates without the kernel."""
    case = CASES[name]
    model = all_models()[name]
    trials = trials_of(4, 600)
    rows = np.arange(len(trials))[::5]
    for kind in KINDS[:2]:
        w = parameters(case, np.random.default_rng(1), kind)
        assert model.predict is not None
        p = model.predict(trials, w.tolist(), rows, Context())
        losses = -np.where(trials.y[rows] == 1, np.log(p), np.log1p(-p))
        assert losses.sum() == pytest.approx(
            torch_loss(case, trials, rows, torch.tensor(w)).item(), rel=1e-9
        )
        assert len(model.predict(trials, w.tolist(), rows[:0], Context())) == 0


@for_both_models
def test_target_changes_the_fit_and_is_checked(name: str) -> None:
    trials = trials_of(4, 600)
    model = all_models()[name]
    train = trials.folds[-1].train
    assert model.fit is not None
    fits = [model.fit(trials, train, np.ones(len(train)), Context(t)) for t in (0.9, 0.9, 0.7)]
    assert fits[0] == fits[1] != fits[2]
    with pytest.raises(InputError, match="between 0 and 1"):
        model.fit(trials, train, np.ones(len(train)), Context(sm2_target=90.0))


HOSTILE: dict[str, Callable[[np.random.Generator], list[list[tuple[float, int]]]]] = {
    "one card": lambda rng: [[(0, 3), *[(1 + k % 5, 1 + k % 4) for k in range(60)]]],
    "all passes": lambda rng: [[(0, 3), (1, 3), (4, 4), (9, 3)] for _ in range(40)],
    "all failures": lambda rng: [[(0, 1), (1, 1), (1, 1), (1, 1)] for _ in range(40)],
    "gaps of ten years": lambda rng: [[(0, 3), (3650, 3), (3650, 1), (3650, 2)]] * 40,
    "one rating never": draw_cards_rated_again_or_good,
    "too long to train on": lambda rng: [[(0, 3), *[(1, 3)] * 126]],
    "very long": lambda rng: [[(0, 4), *[(40, 4)] * 100], [(0, 1), *[(1, 1)] * 100]] * 3,
}


@for_both_models
@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize("secs", [False, True])
def test_hostile_data_gives_finite_figures(name: str, data: str, secs: bool) -> None:
    cards = HOSTILE[data](np.random.default_rng(0))
    protocol = Protocol(rows="anki", secs=secs)
    (configuration,) = resolve_configurations(name, protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = LearnerSession(make_log(cards)).run(configuration)  # type: ignore[arg-type]
    assert np.isfinite(result.metrics.log_loss)
    assert np.isfinite(result.p).all()
    assert result.parameters is not None
    assert np.isfinite(list(result.parameters.values())).all()


@pytest.fixture(scope="module")
def golden_sessions() -> dict[int, LearnerSession]:
    dataset = golden_dataset()
    return {user: LearnerSession(dataset.load(user)) for user in dataset.users}


@for_both_models
def test_figures_equal_golden(name: str, golden_sessions: dict[int, LearnerSession]) -> None:
    expected = golden_lines(name)
    (configuration,) = resolve_configurations(name)
    differences = []
    for user, session in golden_sessions.items():
        if user not in expected:
            with pytest.raises(NotEnoughData):
                session.run(configuration)
            continue
        result = session.run(configuration)
        golden = expected[user]
        assert result.size == golden["size"]
        p = np.clip(result.p, 1e-15, 1 - 1e-15)
        log_loss = -np.mean(result.y * np.log(p) + (1 - result.y) * np.log(1 - p))
        differences.append(log_loss - golden["metrics"]["LogLoss"])
        # one fit of SM2-trainable (user 111) is led elsewhere by single precision
        assert abs(differences[-1]) < 1e-4, user
    assert len(differences) == len(expected)
    assert sorted(map(abs, differences))[-2] < 2e-6
    assert np.mean(differences) < 1e-6


def test_names_and_parameter_counts() -> None:
    assert (
        resolve_configurations("Anki")[0].name
        == resolve_configurations("anki-sm-2-trainable")[0].name
        == "Anki"
    )
    assert resolve_configurations("Anki")[0].parameters == 7
    assert resolve_configurations("Anki-SM-2")[0].name == "Anki-dry-run"
    assert resolve_configurations("SM2-trainable")[0].parameters == 6
    assert {"Anki", "Anki-dry-run", "SM2-trainable"} <= {
        configuration.name for configuration in resolve_configurations("sm2")
    }
