"""FSRS v1 to v5 and FSRS-6-one-step: gradients against torch autograd, figures against golden."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import (
    Context,
    all_models,
    fsrs1to3,
    fsrs4,
    fsrs5,
    fsrs6,
)
from srs_eval.models._fsrs import minimum_stability
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.recurrent import RecurrentModel, SummedLoss
from tests.helpers.card_logs import make_log
from tests.helpers.derived_gradients import derive_gradient
from tests.helpers.golden import golden_dataset, golden_lines
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner

LEAST = 0.01
S_MAX = 36500.0
Tensor = torch.Tensor
States = tuple[Tensor, ...]


# The formulas once more, in torch's own operations


def exponential_curve(t: Tensor, s: Tensor) -> Tensor:
    return torch.pow(torch.tensor(0.9, dtype=torch.float64), t / s)


def clamped(s: Tensor) -> Tensor:
    return s.clamp(LEAST, S_MAX)


def v1_first(rating: Tensor, w: Tensor) -> States:
    return (
        clamped(w[0] * 0.25 * torch.pow(2.0, rating - 1)),
        w[1] - rating + 3,
        torch.relu(2 - rating),
    )


def v1_step(state: States, t: Tensor, rating: Tensor, w: Tensor) -> States:
    s, d, lapses = state
    r = exponential_curve(t, s)
    d = torch.relu(d + r - 0.25 * torch.pow(2.0, rating - 1) + 0.1)
    growth = torch.exp(w[2]) * (d + 0.1) ** w[3] * s ** w[4] * (torch.exp((1 - r) * w[5]) - 1)
    new_s = torch.where(rating > 1, s * (1 + growth), w[0] * torch.exp(w[6] * lapses))
    return clamped(new_s), d, lapses + torch.relu(2 - rating)


def v2_first(rating: Tensor, w: Tensor) -> States:
    d = w[2] * (w[3] * (rating - 4) + 1)
    return clamped(w[0] * (w[1] * (rating - 1) + 1)), d.clamp(1, 10)


def v2_step(state: States, t: Tensor, rating: Tensor, w: Tensor) -> States:
    s, d = state
    r = exponential_curve(t, s)
    d = w[5] * (w[2] * (-w[3] + 1)) + (1 - w[5]) * (d + w[4] * (rating - 3))
    d = d.clamp(1, 10)
    growth = torch.exp(w[6]) * d ** w[7] * s ** w[8] * (torch.exp((1 - r) * w[9]) - 1)
    forgotten = w[10] * d ** w[11] * s ** w[12] * (torch.exp((1 - r) * w[13]) - 1)
    return clamped(torch.where(rating > 1, s * (1 + growth), forgotten)), d


def v3_first(rating: Tensor, w: Tensor) -> States:
    return clamped(w[0] + w[1] * (rating - 1)), (w[2] + w[3] * (rating - 3)).clamp(1, 10)


def v3_step(state: States, t: Tensor, rating: Tensor, w: Tensor) -> States:
    s, d = state
    r = exponential_curve(t, s)
    d = (w[5] * w[2] + (1 - w[5]) * (d + w[4] * (rating - 3))).clamp(1, 10)
    growth = torch.exp(w[6]) * (11 - d) * s ** w[7] * (torch.exp((1 - r) * w[8]) - 1)
    forgotten = w[9] * d ** w[10] * s ** w[11] * torch.exp((1 - r) * w[12])
    return clamped(torch.where(rating > 1, s * (1 + growth), forgotten)), d


def v4_curve(t: Tensor, s: Tensor) -> Tensor:
    return (1 + t / (9 * s)) ** -1


def v4_first(rating: Tensor, w: Tensor) -> States:
    return clamped(w[rating.long() - 1]), (w[4] - w[5] * (rating - 3)).clamp(1, 10)


def v4_success(s: Tensor, d: Tensor, r: Tensor, rating: Tensor, w: Tensor) -> Tensor:
    hard = torch.where(rating == 2, w[15], 1.0)
    easy = torch.where(rating == 4, w[16], 1.0)
    gain = torch.exp((1 - r) * w[10]) - 1
    return s * (1 + torch.exp(w[8]) * (11 - d) * s ** -w[9] * gain * hard * easy)


def v4_failure(s: Tensor, d: Tensor, r: Tensor, w: Tensor) -> Tensor:
    return w[11] * d ** -w[12] * ((s + 1) ** w[13] - 1) * torch.exp((1 - r) * w[14])


def v4_next_d(d: Tensor, rating: Tensor, w: Tensor) -> Tensor:
    return (w[7] * w[4] + (1 - w[7]) * (d - w[6] * (rating - 3))).clamp(1, 10)


def v4_step(state: States, t: Tensor, rating: Tensor, w: Tensor) -> States:
    s, d = state
    r = v4_curve(t, s)
    new_s = torch.where(rating > 1, v4_success(s, d, r, rating, w), v4_failure(s, d, r, w))
    return clamped(new_s), v4_next_d(d, rating, w)


def v45_curve(t: Tensor, s: Tensor) -> Tensor:
    return (1 + (0.9 ** (1 / -0.5) - 1) * t / s) ** -0.5


def v45_step(state: States, t: Tensor, rating: Tensor, w: Tensor) -> States:
    s, d = state
    r = v45_curve(t, s)
    forgotten = torch.minimum(v4_failure(s, d, r, w), s)
    new_s = torch.where(rating > 1, v4_success(s, d, r, rating, w), forgotten)
    return clamped(new_s), v4_next_d(d, rating, w)


def v5_first(rating: Tensor, w: Tensor) -> States:
    d = w[4] - torch.exp(w[5] * (rating - 1)) + 1
    return clamped(w[rating.long() - 1]), d.clamp(1, 10)


def v5_step(state: States, t: Tensor, rating: Tensor, w: Tensor) -> States:
    s, d = state
    r = v45_curve(t, s)
    forgotten = torch.minimum(v4_failure(s, d, r, w), s / torch.exp(w[17] * w[18]))
    later = torch.where(rating > 1, v4_success(s, d, r, rating, w), forgotten)
    same_day = s * torch.exp(w[17] * (rating - 3 + w[18]))
    d = d - w[6] * (rating - 3) * (10 - d) / 9
    d = w[7] * (w[4] - torch.exp(w[5] * 3) + 1) + (1 - w[7]) * d
    return clamped(torch.where(t < 1, same_day, later)), d.clamp(1, 10)


@dataclass(frozen=True)
class Case:
    ours: RecurrentModel
    first: Callable[[Tensor, Tensor], States]
    step: Callable[[States, Tensor, Tensor, Tensor], States]
    curve: Callable[[Tensor, Tensor], Tensor]


CASES = {
    "FSRSv1": Case(fsrs1to3._V1, v1_first, v1_step, exponential_curve),
    "FSRSv2": Case(fsrs1to3._V2, v2_first, v2_step, exponential_curve),
    "FSRSv3": Case(fsrs1to3._V3, v3_first, v3_step, exponential_curve),
    "FSRSv4": Case(fsrs4._V4, v4_first, v4_step, v4_curve),
    "FSRS-4.5": Case(fsrs4._V45, v4_first, v45_step, v45_curve),
    "FSRS-5": Case(fsrs5.RECURRENT, v5_first, v5_step, v45_curve),
}
KINDS = ("default", pytest.param("inside", marks=pytest.mark.slow), "at bounds")
for_each_model = pytest.mark.parametrize("name", CASES)
for_each_kind = pytest.mark.parametrize("kind", KINDS)


def parameters(case: Case, rng: np.random.Generator, kind: str) -> np.ndarray:
    """Return the defaults, or draw inside the bounds, or with a third of them on a bound."""
    default = np.array(case.ours.default)
    if kind == "default":
        return default
    lower = np.where(np.isfinite(case.ours.lower), case.ours.lower, LEAST)
    upper = np.where(np.isfinite(case.ours.upper), case.ours.upper, 100.0)
    w = rng.uniform(lower, np.minimum(upper, 20))
    if kind == "at bounds":
        side = rng.integers(0, 6, len(w))
        w = np.where(side == 0, lower, np.where(side == 1, upper, w))
    return w


def states(case: Case, rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Draw states, some at the bounds of stability and difficulty, so that clamps are met."""
    s = np.exp(rng.uniform(np.log(LEAST), np.log(S_MAX), n))
    d = rng.uniform(1, 10, n)
    s[: n // 8] = LEAST
    s[n // 8 : n // 4] = S_MAX
    d[::5] = 1
    d[1::5] = 10
    if case.ours.states == 2:
        return s, d
    d[::7] = 0  # v1 has no lower bound but 0, where relu's gradient is 0
    return s, d, rng.integers(0, 6, n).astype(float)


@for_each_model
@for_each_kind
@pytest.mark.parametrize("review", ["success", "failure", "same day"])
def test_steps_equal_torch(name: str, kind: str, review: str) -> None:
    case = CASES[name]
    ours = case.ours
    rng = np.random.default_rng(0)
    n = 200
    w = parameters(case, rng, kind)
    state = states(case, rng, n)
    rating = np.full(n, 1.0) if review == "failure" else rng.integers(2, 5, n).astype(float)
    t = np.floor(np.exp(rng.uniform(0, 8, n)))
    step = ours.failure if review == "failure" else ours.success
    if review == "same day":
        t = np.zeros(n)
        if ours.same_day is not None:
            rating = rng.integers(1, 5, n).astype(float)
            step = ours.same_day
    torch_state = tuple(torch.tensor(x) for x in state)
    expected = case.step(torch_state, *map(torch.tensor, (t, rating, w)))
    new = step(state, t, rating, [*w, LEAST])
    assert len(new) == len(expected) == ours.states
    for computed, reference in zip(new, expected, strict=True):
        np.testing.assert_allclose(computed, reference, rtol=1e-9)  # exp(x) - 1 cancels


@for_each_model
@for_each_kind
def test_first_review_and_forgetting_curve_equal_torch(name: str, kind: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(5)
    w = parameters(case, rng, kind)
    rating = rng.integers(1, 5, 40).astype(float)
    expected = case.first(torch.tensor(rating), torch.tensor(w))
    for computed, reference in zip(case.ours.first(rating, [*w, LEAST]), expected, strict=True):
        np.testing.assert_allclose(computed, reference, rtol=1e-14)
    state = states(case, rng, 100)
    t = np.floor(np.exp(rng.uniform(0, 7, 100)))
    curve = case.curve(torch.tensor(t), torch.tensor(state[0]))
    np.testing.assert_allclose(case.ours.recall(t, state, []), curve, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("name", ["FSRS-4.5", "FSRS-5"])
def test_gradient_of_a_failure_at_its_limit_equals_torch(name: str) -> None:
    case = CASES[name]
    w = np.array(case.ours.default)
    w[11:15] = 1, 0, 1, 0  # stability after the failure is that before it
    if name == "FSRS-5":
        w[17] = 0
    s = np.ones(1)
    d = np.full(1, 5.0)
    t = np.full(1, 3.0)
    rating = np.ones(1)
    leaves = [torch.tensor(x, requires_grad=True) for x in (s, d, w)]
    expected = case.step((leaves[0], leaves[1]), torch.tensor(t), torch.tensor(rating), leaves[2])
    gradients = torch.autograd.grad(expected[0].sum(), leaves, allow_unused=True)
    w_bar = np.zeros((len(w) + 1, 1))
    s_bar, _ = derive_gradient(case.ours.failure, ("state",), "w")(
        (s, d), t, rating, [*w, LEAST], (np.ones(1), np.zeros(1)), w_bar
    )
    np.testing.assert_allclose(s_bar, gradients[0], rtol=1e-12)
    np.testing.assert_allclose(w_bar[:-1, 0], gradients[2], rtol=1e-12, atol=1e-14)
    assert w_bar[11, 0] == pytest.approx(0.5)


# The compiled kernel over the trie


def simulated_trials(seed: int, reviews: int, protocol: Protocol | None = None) -> Trials:
    return LearnerSession(simulate_learner(seed, reviews).log()).trials(protocol or Protocol())


def torch_loss(
    case: Case, trials: Trials, rows: np.ndarray, weights: np.ndarray, w: Tensor
) -> Tensor:
    """Compute the binary cross entropy item by item, without any sharing."""
    losses = []
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        history = slice(trials.history_start[row], trials.history_end[row])
        t = torch.tensor(trials.history_delta_t[history])
        rating = torch.tensor(trials.history_rating[history].astype(float))
        state = case.first(rating[:1], w)
        for k in range(1, len(t)):
            state = case.step(state, t[k : k + 1], rating[k : k + 1], w)
        r = case.curve(torch.tensor(trials.delta_t[row : row + 1]), state[0])
        y = torch.tensor(trials.y[row : row + 1])
        losses.append(torch.nn.functional.binary_cross_entropy(r, y) * weight)
    return torch.stack(losses).sum()


@for_each_model
@pytest.mark.parametrize("kind", slow_except({"at bounds"}, ["default", "inside", "at bounds"]))
@pytest.mark.parametrize("short", slow_except({True}, [False, True]))
def test_kernel_gradient_over_the_trie_equals_torch(name: str, kind: str, short: bool) -> None:
    """Check whole histories with shared prefixes, padding, weights and same-day reviews."""
    case = CASES[name]
    trials = simulated_trials(3, 700, Protocol(short=short))
    rng = np.random.default_rng(7)
    rows = rng.permutation(len(trials))[:30]
    rows = rows[trials.sequence_length[rows] <= 15]
    assert short == bool((trials.sequence_length > trials.i - 1).any())
    weights = rng.uniform(0.25, 1, len(rows))
    w = parameters(case, rng, kind)
    leaf = torch.tensor(w, requires_grad=True)
    expected = torch_loss(case, trials, rows, weights, leaf)
    expected.backward()

    weight_of_trial = np.zeros(len(trials))
    weight_of_trial[rows] = weights
    loss = SummedLoss(case.ours, trials, rows, weight_of_trial)
    assert loss.value(w) == pytest.approx(expected.item(), rel=1e-10)
    assert leaf.grad is not None
    size = np.abs(leaf.grad.numpy()).max()
    np.testing.assert_allclose(loss.gradient(w), leaf.grad, rtol=1e-7, atol=1e-9 * max(size, 1))


# Fits


@pytest.mark.parametrize("name", slow_except({"FSRSv1", "FSRS-5"}, CASES))
def test_fits_repeat_beat_the_defaults_and_respect_bounds(name: str) -> None:
    model = all_models()[name]
    case = CASES[name]
    trials = simulated_trials(1, 2500, Protocol(short=model.always_short))
    train = trials.folds[-1].train
    equal = np.ones(len(train))
    assert model.fit is not None
    assert model.predict is not None
    w = model.fit(trials, train, equal, Context())
    assert w == model.fit(replace(trials, _derived={}), train, equal, Context())
    assert w != model.fit(trials, train, np.linspace(0.01, 1, len(train)), Context())
    assert (np.array(w) >= case.ours.lower).all()
    assert (np.array(w) <= case.ours.upper).all()

    def loss(w: list[float]) -> float:
        assert model.predict is not None
        p = model.predict(trials, w, train, Context())
        y = trials.y[train]
        return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))

    assert loss(w) < loss(model.default(Context())) - 0.001
    decimals = 6 if name == "FSRS-4.5" else 4
    trained = w[4:] if name in ("FSRSv4", "FSRS-4.5") else w
    assert trained == [round(value, decimals) for value in trained]
    assert len(w) == len(case.ours.default)


@pytest.mark.parametrize("name", ["FSRSv4", "FSRS-4.5"])
def test_initial_stabilities_are_fitted_first_and_then_held(name: str) -> None:
    """Check that training takes reviews after each card's second, and fails without any."""
    model = all_models()[name]
    case = CASES[name]
    trials = simulated_trials(1, 2500)
    train = trials.folds[-1].train
    assert model.fit is not None
    equal = np.ones(len(train))
    w = model.fit(trials, train, equal, Context())
    fit_s0 = {"FSRSv4": fsrs4._fit_s0_v4, "FSRS-4.5": fsrs4._fit_s0_v45}[name]
    start = fit_s0(trials, train, equal, Context())
    assert w[:4] == [round(value, case.ours.decimals or 0) for value in start[:4]]
    assert w[:4] != list(case.ours.default[:4])
    second = np.flatnonzero(trials.i == 2)
    with pytest.raises(NotEnoughData, match="train on"):
        model.fit(trials, second, np.ones(len(second)), Context())


@pytest.mark.parametrize("name", slow_except({"FSRSv4", "FSRS-5"}, CASES))
def test_fit_on_too_long_histories_keeps_s0_or_is_refused(name: str) -> None:
    """Check that FSRS-5 keeps the fitted S0 and that the others raise NotEnoughData."""
    model = all_models()[name]
    trials = simulated_trials(1, 1500, Protocol(short=model.always_short))
    none = replace(trials, protocol=replace(trials.protocol, max_seq_len=0))
    train = trials.folds[0].train
    equal = np.ones(len(train))
    assert model.fit is not None
    if name == "FSRS-5":
        assert model.fit(none, train, equal, Context()) == fsrs5._fit_s0(
            none, train, equal, Context()
        )
        return
    with pytest.raises(NotEnoughData):
        model.fit(none, train, equal, Context())


def test_disable_short_term_freezes_short_term_parameters() -> None:
    trials = simulated_trials(1, 2500, Protocol(short=True, disable_short_term=True))
    train = trials.folds[-1].train
    equal = np.ones(len(train))
    start = fsrs5._fit_s0(trials, train, equal, Context())
    w = fsrs5._fit(trials, train, equal, Context())
    assert start[17:] == w[17:] == [0, 0]
    assert w[:4] == [round(value, 4) for value in start[:4]]
    assert w[4:17] != start[4:17]
    index = trials.folds[-1].test
    default = fsrs5._predict(trials, list(fsrs5._DEFAULT), index, Context())
    zeroed = fsrs5._predict(trials, [*fsrs5._DEFAULT[:17], 0.0, 0.0], index, Context())
    np.testing.assert_array_equal(default, zeroed)


@pytest.mark.slow
def test_gamma_pulls_parameters_to_the_start() -> None:
    distances = []
    for gamma in (0.0, 1.0, 1e6):
        trials = simulated_trials(1, 2500, Protocol(short=True, gamma=gamma))
        train = trials.folds[-1].train
        equal = np.ones(len(train))
        start = fsrs5._fit_s0(trials, train, equal, Context())
        w = fsrs5._fit(trials, train, equal, Context())
        pull = (np.array(w) - start) / fsrs5._DEVIATION
        distances.append(float(np.sum(np.square(pull))))
    assert distances[0] > distances[1] > distances[2]


def test_later_days_only_cuts_histories_to_whole_days() -> None:
    """Check the cut where the first history of the padded tensor has intervals of 0 only."""
    protocol = Protocol(short=True, secs=True, no_test_same_day=True, later_days_only=True)
    trials = simulated_trials(2, 900, protocol)
    lengths = trials.sequence_length
    only = int(np.flatnonzero(lengths == 1)[0])
    cut = fsrs5._as_padded_tensor(trials, only)
    np.testing.assert_array_equal(cut.history_delta_t, np.floor(trials.history_delta_t))
    np.testing.assert_array_equal(cut.delta_t, trials.delta_t)
    t = trials.history_delta_t
    fractions = np.cumsum((t > 1) & (t % 1 > 0))
    longer = int(
        np.flatnonzero(
            (fractions[trials.history_end - 1] > fractions[trials.history_start])
            & (trials.delta_t > 1)
        )[0]
    )
    assert fsrs5._as_padded_tensor(trials, longer) is trials
    index = np.array([only, *range(len(trials))])
    cut_to_days = fsrs5._predict(trials, list(fsrs5._DEFAULT), index, Context())[1:]
    exact = fsrs5._predict(trials, list(fsrs5._DEFAULT), np.array([longer]), Context())
    assert cut_to_days[longer] != exact[0]
    newer = replace(trials, protocol=replace(protocol, later_days_only=False))
    assert fsrs5._as_padded_tensor(newer, only) is newer


@pytest.mark.parametrize(
    "name", slow_except({"FSRS-5"}, ["FSRSv1", "FSRSv4", "FSRS-4.5", "FSRS-5"])
)
def test_fractional_intervals_lower_the_minimum_stability(name: str) -> None:
    (configuration,) = resolve_configurations(name, Protocol(secs=True))
    result = LearnerSession(simulate_learner(2, 900).log()).run(configuration)
    assert np.isfinite(result.metrics.log_loss)
    trials = simulated_trials(2, 900, configuration.protocol)
    assert minimum_stability(trials) == 1e-6


def test_fsrs_4_5_has_other_defaults_for_fractional_intervals() -> None:
    (configuration,) = resolve_configurations("FSRS-4.5-dry-run", Protocol(secs=True))
    result = LearnerSession(simulate_learner(2, 900).log()).run(configuration)
    assert result.parameters == {0: list(fsrs4._DEFAULT_V45_SECS)}


# FSRS-6-one-step


def test_one_step_follows_the_last_transitions_gradient() -> None:
    """Compare with torch: the state before the last transition is held, and no clamp applies."""
    history = [(0.0, 3), (4.0, 3), (9.0, 2), (30.0, 4), (70.0, 1), (20.0, 3), (50.0, 3)]
    trials = LearnerSession(make_log([history] * 3)).trials(Protocol(rows="anki", short=True))
    w = torch.tensor(fsrs6.DEFAULT, dtype=torch.float64)
    start = w.numpy().copy()
    start[5:8] = 0.3, 0.5, 0.1  # so that D stays between its bounds
    for row in range(len(trials)):
        moved = start.copy()
        lower = np.full(21, -np.inf)
        fsrs6._compile_kernel()(
            trials.history_start,
            trials.history_end,
            trials.history_delta_t,
            trials.history_rating,
            trials.delta_t,
            trials.y,
            np.array([row]),
            moved,
            lower,
            -lower,
            fsrs6._LEARNING_RATE.default,
        )
        leaf = torch.tensor(start, requires_grad=True)
        s = d = torch.tensor(0.0)
        steps = range(int(trials.history_start[row]), int(trials.history_end[row]))
        decay = -leaf[20]

        def curve(t: float, s: Tensor, decay: Tensor) -> Tensor:
            return (1 + (0.9 ** (1 / decay) - 1) * t / s) ** decay

        for k in steps:
            t = float(trials.history_delta_t[k])
            rating = int(trials.history_rating[k])
            s = s.detach()
            d = d.detach()
            if k == steps[0]:
                s = leaf[rating - 1]
                d = leaf[4] - torch.exp(leaf[5] * (rating - 1)) + 1
                d = d.clamp(1, 10).detach()  # only S0 learns from a first transition
                continue
            r = curve(t, s, decay).detach()  # the decay learns from the last interval alone
            d = d - leaf[6] * (rating - 3) * (10 - d) / 9
            d = leaf[7] * (leaf[4] - torch.exp(leaf[5] * 3) + 1) + (1 - leaf[7]) * d
            assert 1 < d < 10
            both = torch.tensor(float(rating), dtype=torch.float64)
            s = v4_failure(s, d, r, leaf) if rating == 1 else v4_success(s, d, r, both, leaf)
        p = curve(float(trials.delta_t[row]), s, decay)
        y = torch.tensor(float(trials.y[row]), dtype=torch.float64)
        torch.nn.functional.binary_cross_entropy(p, y).backward()
        assert leaf.grad is not None
        gradient = leaf.grad.numpy().copy()
        if len(steps) == 1:
            gradient[:4] *= 100
        np.testing.assert_allclose((start - moved) / 1e-4, gradient, rtol=1e-6, atol=1e-9)
        assert np.abs(gradient).max() > 1e-6


ONE_STEP = {102: 0.335021, 103: 0.425773, 108: 0.232107, 111: 0.317970}
"""Log loss of upstream's own code (srs-benchmark models/fsrs_v6_one_step.py, commit
1d517ddcf823) on golden users, predictions by fsrs-optimizer 6.1.6."""


def test_one_step_figures_equal_upstream(golden_sessions: dict[int, LearnerSession]) -> None:
    (configuration,) = resolve_configurations("FSRS-6-one-step")
    for user in sorted(ONE_STEP.keys() & golden_sessions.keys()):
        result = golden_sessions[user].run(configuration)
        assert result.metrics.log_loss == pytest.approx(ONE_STEP[user], abs=2e-6)
    assert result.parameters is not None
    w = result.parameters[0]  # of user 111
    assert w[:4] == pytest.approx([0.223952, 1.643918, 2.223297, 2.873312], abs=1e-4)
    assert w[20] == pytest.approx(0.154022, abs=2e-6)


# Hostile data: figures or a clear reason, never NaN, never a warning

HOSTILE: dict[str, Sequence[Sequence[tuple[float, int]]]] = {
    "one card": [[(0, 3), *[(1 + k % 5, 1 + k % 4) for k in range(60)]]],
    "one review per card": [[(0, 3)]] * 50,
    "all passes": [[(0, 3), (1, 3), (4, 4), (9, 3)]] * 40,
    "all failures": [[(0, 1), (1, 1), (1, 1), (1, 1)]] * 40,
    "gaps of ten years": [[(0, 3), (3650, 3), (3650, 1), (3650, 2)]] * 40,
    "ten years between failures": [[(0, 1), *[(3650, 1), (3650, 4)] * 30]] * 3,
    "only same-day reviews": [[(0, 3), (0.01, 1), (0.01, 2), (0.2, 4)]] * 40,
    "zero seconds": [[(0, 3), *[(0, 1 + k % 4) for k in range(5)], (1, 3), (3, 3)]] * 20,
    "one rating never": [[(0, 3), (1, 1), (2, 3), (5, 3), (9, 1), (1, 3)]] * 30,
    "easy from the first": [[(0, 4), *[(200, 4)] * 60]] * 4,
    "too long to train on": [[(0, 3), *[(1, 3)] * 126]],
    "identical reviews": [[(0, 3), (1, 3)]] * 25_000,
}


@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize("secs", slow_except({True}, [False, True]))
def test_hostile_data_gives_finite_figures_or_a_reason(data: str, secs: bool) -> None:
    session = LearnerSession(make_log(HOSTILE[data]))
    evaluated = 0
    for name in (*CASES, "FSRS-5-disable_short_term", "FSRS-6-one-step"):
        for short in (False, True):
            (configuration,) = resolve_configurations(
                name, Protocol(rows="anki", secs=secs, short=short)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    result = session.run(configuration)
                except NotEnoughData as reason:
                    assert str(reason)  # noqa: PT017 - one of two right outcomes
                    continue
            evaluated += 1
            assert np.isfinite(result.metrics.log_loss), name
            assert ((result.p >= 0) & (result.p <= 1)).all(), name
            assert result.parameters is not None
            assert np.isfinite(list(result.parameters.values())).all(), name
    reviewed_once = data == "one review per card"
    same_day_in_days = data == "only same-day reviews" and not secs
    assert bool(evaluated) != (reviewed_once or same_day_in_days)


# Golden

GOLDEN = {
    "FSRSv1": 1e-5,
    "FSRSv2": 1e-5,
    "FSRSv3": 1e-5,
    "FSRSv4": 1e-5,
    "FSRS-4.5": 1e-5,
    "FSRS-5": 2e-5,
    "FSRS-5-dry-run": 2e-6,
    "FSRS-5-pretrain": 2e-6,
    "FSRS-5-binary": 2e-5,
    "FSRS-5-recency": 2e-5,
    "FSRS-5-preset": 2e-5,
    "FSRS-5-deck": 2e-5,
    "FSRS-5-disable_short_term": 2e-5,
    "FSRS-5-secs": 1e-5,
}
OUR_NAME = {"FSRS-5-secs": "FSRS-5-secs-no_test_same_day"}


@pytest.fixture(scope="module")
def golden_sessions() -> dict[int, LearnerSession]:
    dataset = golden_dataset()
    return {user: LearnerSession(dataset.load(user)) for user in dataset.users}


@pytest.mark.parametrize("name", slow_except(CASES.keys(), GOLDEN))
def test_figures_equal_golden(name: str, golden_sessions: dict[int, LearnerSession]) -> None:
    expected = golden_lines(name)
    (configuration,) = resolve_configurations(OUR_NAME.get(name, name))
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
        assert abs(differences[-1]) < GOLDEN[name], user
    assert len(differences) == len(expected)
    assert sorted(map(abs, differences))[-3] < 2e-6
    assert np.mean(differences) < 2e-6


# Names


def test_names_and_parameter_counts() -> None:
    table = {
        "FSRSv1": 7,
        "FSRSv2": 14,
        "FSRSv3": 13,
        "FSRSv4": 17,
        "FSRS-4.5": 17,
        "FSRS-5": 19,
        "FSRSv3-dry-run": 0,
        "FSRS-5-dry-run": 0,
        "FSRS-5-pretrain": 4,
        "FSRS-5-binary": 15,
        "FSRS-5-recency": 19,
        "FSRS-5-preset": 19,
        "FSRS-5-deck": 19,
        "FSRS-5-disable_short_term": 17,
        "FSRS-6-one-step": 21,
    }
    for name, count in table.items():
        (configuration,) = resolve_configurations(name)
        assert configuration.name == name
        assert configuration.parameters == count
    for alias, name in {
        "FSRS-5-default": "FSRS-5-dry-run",
        "fsrs-5-s0": "FSRS-5-pretrain",
        "FSRS-5-two_buttons": "FSRS-5-binary",
        "FSRS-5-short": "FSRS-5",
        "fsrsv4-default": "FSRSv4-dry-run",
    }.items():
        assert resolve_configurations(alias)[0].name == name
    for senseless in ("FSRSv4-disable_short_term", "FSRSv4-pretrain", "FSRS-6-one-step-recency"):
        with pytest.raises(InputError):
            resolve_configurations(senseless)


def test_all_leaves_out_default_parameters_of_old_versions() -> None:
    names: set[Any] = {configuration.name for configuration in resolve_configurations("fsrs")}
    assert {"FSRSv1", "FSRS-4.5", "FSRS-5-dry-run", "FSRS-6-one-step"} <= names
    assert "FSRSv1-dry-run" not in names
