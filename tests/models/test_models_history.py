"""HLR, DASH, ACT-R, LogisticRegression, SBD and FSRS-rs: gradients, training, figures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, ImportSummary, ReviewLog, Rows
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import Context, act_r, dash, fsrs_rs, hlr, sbd
from srs_eval.models import logistic_regression as lr
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training import linear
from srs_eval.training.compile import compile_kernel
from srs_eval.training.linear import minimise_by_adam
from srs_eval.training.optimisers import argsort_by_quicksort, minimise_by_lbfgs
from tests.helpers.golden import golden_dataset, golden_lines, golden_log
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner

Tensor = torch.Tensor
# fmt: off
SEVENTEEN_EQUAL = [0, 14, 13, 12, 11, 10, 9, 15, 8, 6, 5, 4, 3, 2, 1, 7, 16]
FORTY_OF_THREE = [
    0, 36, 33, 30, 27, 24, 21, 18, 15, 12, 39, 9, 3, 6, 25, 37, 1, 34, 31, 28, 4, 10, 19, 16,
    13, 7, 22, 14, 35, 8, 2, 32, 23, 29, 38, 26, 20, 5, 17, 11,
]
# fmt: on
REPRODUCED = 2e-5  # log loss; the bound in golden/README.md for equal ties


@cache
def session(user: int) -> LearnerSession:
    return LearnerSession(golden_log(user))


@cache
def simulated(**flags: Any) -> Trials:
    return LearnerSession(simulate_learner(7, 1500).log()).trials(Protocol(**flags))


def tensor(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def loss_in_torch(p: Tensor, y: FloatArray, weight: FloatArray) -> Tensor:
    """Return the weighted sum of p as upstream rounds it, with the gradient of the unrounded p."""
    rounded = p + (p.detach().to(torch.float32).to(torch.float64) - p.detach())
    terms = F.binary_cross_entropy(rounded, tensor(y), reduction="none")
    return (terms * tensor(weight)).sum()


def assert_gradient(
    got: tuple[float, FloatArray], expected: Callable[[Tensor], Tensor], at: FloatArray
) -> None:
    w = tensor(at).requires_grad_()
    value = expected(w)
    value.backward()
    assert w.grad is not None
    assert got[0] == pytest.approx(value.item(), rel=1e-9)
    scale = float(w.grad.abs().max())
    np.testing.assert_allclose(got[1], w.grad.numpy(), rtol=1e-7, atol=1e-9 * scale)


def make_weights(n: int) -> FloatArray:
    return np.linspace(0.25, 1, n)


# Gradients


@pytest.mark.parametrize("scale", [0.0, 0.3, 2.0, 8.0])
@pytest.mark.parametrize("name", ["HLR", "DASH", "DASH[MCM]"])
def test_linear_gradients_equal_torch(name: str, scale: float) -> None:
    trials = simulated()
    y = trials.y
    weight = make_weights(len(trials))
    t = trials.delta_t
    start, x, model = {
        "HLR": (hlr.START, hlr._compute_features(trials), hlr._recall_and_slope),
        "DASH": (dash.START, dash.compute_features(trials), dash._recall_and_slope),
        "DASH[MCM]": (dash._START_MCM, dash._compute_mcm_features(trials), dash._recall_and_slope),
    }[name]
    w = np.array(start) + scale * np.random.default_rng(1).normal(size=len(start))
    kernel = "HLR" if name == "HLR" else "DASH"
    got = linear.loss_and_gradient(kernel, model, x, t, y, weight, w)

    def in_torch(w: Tensor) -> Tensor:
        z = tensor(x) @ w
        p = 0.5 ** (tensor(t) / 2**z) if name == "HLR" else torch.sigmoid(z)
        return loss_in_torch(p, y, weight)

    assert_gradient(got, in_torch, w)


@pytest.mark.parametrize("secs", [False, True])
@pytest.mark.parametrize(
    "w",
    [
        act_r.START,
        (0.001, 0.001, 0.5, -0.001, 0.001),
        (1.0, 1.0, 1.0, -2.0, 1.0),
        (0.3, 0.9, 0.2, -1.3, 0.004),
    ],
)
def test_act_r_gradient_equals_torch(w: tuple[float, ...], secs: bool) -> None:
    trials = simulated(short=True, secs=secs)
    rows = np.arange(0, len(trials), 25)
    weight = make_weights(len(rows))
    paths = act_r._build_path_tree(trials)
    batch = act_r._make_training_batch(paths, trials, rows, weight)
    at = np.array(w)
    got = act_r._compute_loss(batch, at), act_r._compute_gradient(batch, at)

    def in_torch(w: Tensor) -> Tensor:
        p = []
        for row in rows:
            card = slice(trials.history_start[row], trials.history_end[row] + 1)
            time = torch.cumsum(tensor(trials.history_delta_t[card]), 0)
            e_m = [tensor(0.0)]  # e^m of each review; m of the first is -infinity
            for n in range(1, len(time)):
                age = ((time[n] - time[:n]) * 86400 * w[4]).clamp_min(1)
                e_m.append((age ** -(w[1] * torch.stack(e_m) + w[0])).sum())
            p.append(1 / (1 + torch.exp((w[3] - torch.log(e_m[-1])) / w[2])))
        return loss_in_torch(torch.stack(p), trials.y[rows], weight)

    assert_gradient(got, in_torch, at)


@pytest.mark.parametrize("secs", [False, True])
@pytest.mark.parametrize(
    "w",
    [
        dash._START_ACT_R,
        (0.001, 0.001, -0.5, 0.7, 0.1),
        (2.0, 1.4, -3.0, 0.2, -1.0),  # many sums are negative and cut at 0
    ],
)
def test_dash_act_r_gradient_equals_torch(w: tuple[float, ...], secs: bool) -> None:
    trials = simulated(short=True, secs=secs)
    rows = np.arange(0, len(trials), 6)
    y = trials.y[rows]
    weight = make_weights(len(rows))
    at = np.array(w)
    sums = dash._compute_strengths(dash._build_review_ages(trials), rows, at)
    got = (
        compile_kernel(dash._act_r_loss)(sums, y, weight, at),
        compile_kernel(dash._act_r_gradient)(sums, y, weight, at),
    )

    def in_torch(w: Tensor) -> Tensor:
        p = []
        for row in rows:
            start, end = trials.history_start[row], trials.history_end[row]
            ages = np.cumsum(trials.history_delta_t[start + 1 : end + 1][::-1])[::-1]
            old = ages > 0.1
            passed = tensor(trials.history_rating[start:end][old] > 1)
            power = tensor(ages[old].copy()) ** -w[1]
            total = (power * torch.where(passed > 0, w[3], w[2])).sum().clamp_min(0)
            p.append(torch.sigmoid(w[0] * torch.log(1 + total) + w[4]))
        return loss_in_torch(torch.stack(p), y, weight)

    assert_gradient(got, in_torch, at)


def test_logistic_regression_gradient_equals_torch() -> None:
    from srs_eval.training.sweeps import _logistic_gradient as gradient

    trials = simulated(short=True, secs=True)
    x = lr._features_of_trials(trials)
    y = trials.y
    weight = make_weights(len(trials))
    rows = np.random.default_rng(2).permutation(len(trials))[:700]
    share = np.where(y > 0, weight, -weight)
    for scale in (0.0, 1.0, 20.0):
        at = lr._MEAN + scale * lr._STD * np.random.default_rng(3).normal(size=34)

        def in_torch(w: Tensor) -> Tensor:
            terms = F.binary_cross_entropy_with_logits(
                tensor(x[rows]) @ w, tensor(y[rows]), reduction="none"
            )
            return (terms * tensor(weight[rows])).sum()

        slope = compile_kernel(gradient)(x, share, rows.astype(np.uint32), at)
        assert_gradient((float(in_torch(tensor(at))), slope), in_torch, at)


def sbd_in_torch(trials: Trials, rows: np.ndarray, w: Tensor) -> Tensor:
    """Compute p of the rows by the formulas of upstream's models/sbd.py."""
    low, high = torch.cummax(w[:2], 0)[0].clamp(math.log(0.001), math.log(36500))
    ln_rho = (high - low) / 3
    root = w[2].clamp(0.5, 20)
    c = w[4].clamp(min=0)

    def shape(n: float) -> Tensor:
        delta = torch.exp(w[6].clamp(-30, 30))
        return torch.exp((w[3] + c * torch.log(delta + n)).clamp(-30, 30))

    def recall(t: float, ln_s: Tensor, g: float, n: float) -> Tensor:
        ln_b = 2 * w[5] / root - g * ln_rho
        ln_a = torch.logaddexp(math.log(max(t, 1e-9)) / root, (ln_b + ln_s) / 2)
        q = -shape(n) * torch.logaddexp(ln_a - ln_s, tensor(0.0))
        return torch.exp(q.clamp(-30, 30)).clamp(1e-6, 1 - 1e-6)

    p = []
    for row in rows:
        start, end = trials.history_start[row], trials.history_end[row]
        first = int(trials.history_rating[start])
        ln_s = low + (high - low) * (first - 1) / 3
        g = first - 1
        n = max(0.0, (3 - first) / 2)
        for at in range(start + 1, end):
            rating = int(trials.history_rating[at])
            r = recall(trials.history_delta_t[at], ln_s, g, n)
            gain = -torch.log(r) / shape(n) if rating > 1 else c * torch.log(1 - r)
            ln_s = (ln_s + gain.clamp(-30, 30)).clamp(math.log(0.001), math.log(36500))
            g = rating - 1
            n = min(50.0, n + max(0.0, (3 - rating) / 2))
        p.append(recall(trials.delta_t[row], ln_s, g, n))
    return torch.stack(p)


@pytest.mark.parametrize(
    "w",
    [
        sbd._START,
        (1.0, -1.0, 1.7, -1.8, 0.5, -0.9, -1.4),  # H below L
        (-9.0, 12.0, 0.3, -1.0, -0.1, 1.0, -31.0),  # every limit
        (-1.5, 1.7, 20.0, 0.9, 2.5, -2.6, -0.5),
        (-0.1, 2.0, 1.1, -1.3, 0.4, -3.4, -1.2),
    ],
)
def test_sbd_gradient_equals_torch(w: tuple[float, ...]) -> None:
    trials = simulated(short=True, secs=True)
    rows = np.arange(0, len(trials), 40)
    y = trials.y[rows]
    weight = make_weights(len(rows))
    at = np.array(w)
    weight_of = np.zeros(len(trials))
    weight_of[rows] = weight
    got = sbd._loss_and_gradient(sbd._make_kernel_rows(trials, rows, weight_of)[0], at)

    def in_torch(w: Tensor) -> Tensor:
        terms = F.binary_cross_entropy(sbd_in_torch(trials, rows, w), tensor(y), reduction="none")
        return (terms * tensor(weight)).sum()

    assert_gradient(got, in_torch, at)


# Training


def test_argsort_by_quicksort_orders_ties_as_numpy() -> None:
    # From numpy 2.2.6 with its SIMD routines off.
    assert argsort_by_quicksort(np.zeros(16, np.int64)).tolist() == list(range(16))
    assert argsort_by_quicksort(np.zeros(17, np.int64)).tolist() == SEVENTEEN_EQUAL
    assert argsort_by_quicksort(np.arange(40) % 3).tolist() == FORTY_OF_THREE


def test_adam_equals_torch_with_a_cosine_schedule() -> None:
    a = np.array([[1.0, 0.3], [-0.2, 2.0], [0.7, 0.7]])
    start = np.array([0.5, -1.5])
    losses: list[float] = []

    def total(w: FloatArray) -> float:
        losses.append(float(np.sum((a @ w - 1) ** 4)))
        return losses[-1]

    got = minimise_by_adam(
        start,
        lambda w, batch: 4 * (a[batch] @ w - 1) ** 3 * a[batch],
        total,
        len(a),
        Context(hyperparameters={"epochs": 4}),
    )
    w = tensor(start).requires_grad_()
    optimiser = torch.optim.Adam([w], lr=0.04)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=12)
    generator = torch.Generator()
    generator.manual_seed(2023)
    for _ in range(4):
        for batch in torch.randperm(3, generator=generator).tolist():
            optimiser.zero_grad()
            ((tensor(a[batch]) @ w - 1) ** 4).backward()
            optimiser.step()
            schedule.step()
    assert len(losses) == 5
    assert losses[-1] == min(losses)
    np.testing.assert_allclose(got, w.detach().numpy(), rtol=1e-12)


def test_adam_keeps_the_start_where_training_only_harms() -> None:
    start = np.array([1.0])
    got = minimise_by_adam(
        start, lambda w, b: np.array([1.0]), lambda w: -float(w[0]), 1, Context()
    )
    assert got.tolist() == [1.0]


def test_lbfgs_takes_the_steps_of_torch() -> None:
    scale = np.array([1.0, 10.0, 0.3])

    def value(w: Any, xp: Any) -> Any:
        rosenbrock = 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
        return rosenbrock + scale[2] * (w[2] - w[0]) ** 2 + xp.exp(-w[1])

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        x = tensor(w).requires_grad_()
        f = value(x, torch)
        f.backward()
        assert x.grad is not None
        return f.item(), x.grad.numpy()

    start = np.array([-1.2, 1.0, 3.0])
    for iterations in (1, 3, 10, 60):
        got = minimise_by_lbfgs(
            objective,
            start,
            iterations=iterations,
            history=20,
            tolerance_gradient=1e-7,
            tolerance_change=1e-9,
        )
        w = tensor(start).requires_grad_()
        optimiser = torch.optim.LBFGS(
            [w],
            lr=1.0,
            max_iter=iterations,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-7,
            tolerance_change=1e-9,
        )

        def closure(w: Tensor = w, optimiser: torch.optim.Optimizer = optimiser) -> Tensor:
            optimiser.zero_grad()
            f: Tensor = value(w, torch)
            f.backward()
            return f

        optimiser.step(closure)
        np.testing.assert_allclose(got, w.detach().numpy(), rtol=1e-6)


def test_torch_and_numpy_draw_the_same_permutation() -> None:
    torch.manual_seed(lr._SEED)
    n = 50
    expected = torch.randperm(n).numpy()
    words = np.random.RandomState(lr._SEED).randint(0, 2**32, n - 1, np.uint32)
    order = np.arange(n)
    for k, word in enumerate(words.tolist()):
        swapped = k + word % (n - k)
        order[[k, swapped]] = order[[swapped, k]]
    assert order.tolist() == expected.tolist()


# Features


def test_dash_counts_by_hand() -> None:
    # Reviews 40, 8, 7 and 1 days ago: Good, Again, Good, Easy.
    delta_t = np.array([0.0, 32.0, 1.0, 6.0, 1.0])
    rating = np.array([3, 1, 3, 4, 3])
    counts = compile_kernel(dash._count_in_windows)(
        delta_t, rating, np.array([0]), np.array([4]), False
    )
    assert counts.tolist() == [[1, 1, 2, 2, 3, 2, 4, 3]]
    decayed = compile_kernel(dash._count_in_windows)(
        delta_t, rating, np.array([0]), np.array([4]), True
    )
    age = np.array([40, 8, 7, 1])
    assert decayed[0, 0] == pytest.approx(math.exp(-1 / 0.2434))
    assert decayed[0, 6] == pytest.approx(np.exp(-age / 129.8426).sum())
    assert decayed[0, 7] == pytest.approx(np.exp(-age[[0, 2, 3]] / 129.8426).sum())


def test_hlr_features_by_hand() -> None:
    trials = simulated()
    row = int(np.argmax(trials.sequence_length))
    rating = trials.history_rating[trials.history_start[row] : trials.history_end[row]]
    expected = [math.sqrt((rating > 1).sum()), math.sqrt((rating == 1).sum()), 1]
    assert hlr._compute_features(trials)[row].tolist() == expected


def test_logistic_regression_features_by_hand() -> None:
    # Good; 10 minutes later Again; 2 days later Hard; now 3 days later.
    minutes = 10 / 1440
    x = compile_kernel(lr._compute_features)(
        np.array([True, False, False]),
        np.array([3, 1, 2]),
        np.array([minutes, 2.0, 30.0]),
        np.array([0, 2, 30]),
        np.array([0, 1, 2]),  # the trials that are asked about, and the days
        np.array([minutes, 2.0, 3.0]),
        np.array([0, 2, 3]),
    )

    def scaled(t: float) -> float:
        return (math.log(t + 1e-5) + 1.3) / 5

    names = lr.LogisticFeature
    ln2 = math.log(2)
    first = np.zeros(len(names))
    first[[names.TIME, names.TIME_AFTER_GOOD]] = scaled(minutes)
    first[names.TIME_FIRST_TRIAL_ABOVE_HARD] = scaled(minutes)
    first[[names.INTERCEPT, names.LAST_GOOD, names.FIRST_GOOD, names.FIRST_TRIAL_GOOD]] = 1
    first[[names.EVER_PASSED, names.SAME_DAY]] = 1
    first[[names.INTERVAL_BEFORE, names.TIME_SINCE_LAPSE]] = scaled(0)
    first[names.TIME_SINCE_FIRST_TRIAL] = scaled(0)
    first[names.FIRST_PASSED_SAME_DAY_INTERVALS] = ln2
    np.testing.assert_allclose(x[0], first, atol=1e-7)
    last = np.zeros(len(names))
    last[[names.TIME, names.TIME_AFTER_HARD]] = scaled(3)
    last[[names.TIME_SAME_DAY_FAILURES, names.TIME_OTHER_DAY_PASSES]] = ln2 * scaled(3)
    last[[names.INTERCEPT, names.LAST_HARD, names.FIRST_GOOD, names.EVER_PASSED]] = 1
    last[[names.SAME_DAY_FAILURES, names.FIRST_PASSED_SAME_DAY_FAILURES]] = ln2
    last[[names.OTHER_DAY_PASSES, names.OTHER_DAY_PASSES_ON_LATER_DAY]] = ln2
    last[names.FIRST_PASSED_OTHER_DAY_INTERVALS] = ln2
    last[names.INTERVAL_BEFORE] = scaled(2)
    last[names.TIME_SINCE_LAPSE] = scaled(2)
    last[names.TIME_SINCE_FIRST_TRIAL] = scaled(2 + minutes)
    last[names.FIRST_PASSED_SAME_DAY_INTERVALS] = math.log(3)
    np.testing.assert_allclose(x[2], last, atol=1e-6)


def test_logistic_regression_predicts_at_other_times() -> None:
    trials = simulated(short=True, secs=True)
    coefficients = lr.fit(trials, np.arange(200), np.ones(200), Context())
    is_later_day = trials.elapsed_days > 0
    index = np.flatnonzero(is_later_day)[::3]
    usual = lr._predict(trials, coefficients, index, Context())
    days = trials.delta_t[index]
    assert lr.predict_at(trials, coefficients, index, days).tolist() == usual.tolist()
    twice = lr.predict_at(trials, coefficients, index, 2 * days)
    for position, p in zip(index[:20], twice, strict=False):
        delta_t = trials.delta_t.copy()
        delta_t[position] *= 2  # later reviews of the card change, too, but not this one's history
        altered = replace(trials, delta_t=delta_t)
        assert lr._predict(altered, coefficients, np.array([position]), Context()) == [p]


def test_act_r_path_tree_shares_equal_beginnings() -> None:
    trials = simulated(short=True)
    paths = act_r._build_path_tree(trials)
    beginnings = set()
    for start, end in zip(trials.history_start, trials.history_end, strict=True):
        for row in range(start, end + 1):
            beginnings.add(tuple(trials.history_delta_t[start + 1 : row + 1]))
    assert len(paths.depth) == len(beginnings)


# Figures


@pytest.mark.parametrize(
    "name",
    ["HLR", "HLR-short", "DASH", "DASH-short", "DASH[MCM]", "DASH[ACT-R]", "ACT-R", "FSRS-rs"],
)
def test_figures_equal_golden(name: str) -> None:
    file = "FSRS-6-rs" if name == "FSRS-rs" else name
    golden = golden_lines(file)
    (configuration,) = resolve_configurations(name)
    for user in golden_dataset().users:
        if user not in golden:
            with pytest.raises(NotEnoughData):
                session(user).run(configuration)
            continue
        result = session(user).run(configuration)
        assert result.size == golden[user]["size"]
        expected = golden[user]["metrics"]
        assert result.metrics.log_loss == pytest.approx(expected["LogLoss"], abs=REPRODUCED), user
        assert result.metrics.rmse == pytest.approx(expected["RMSE"], abs=REPRODUCED), user
        assert result.parameters is not None
        np.testing.assert_allclose(result.parameters[0], golden[user]["parameters"]["0"], atol=2e-4)


# Log loss of upstream's code at the commits named in the models' docstrings, run on golden users
# (random stream of LogisticRegression seeded at each fit).
UPSTREAM = {
    "LogisticRegression": {102: (1830, 0.271510), 103: (6260, 0.336449), 108: (4255, 0.193027)},
    "SBD": {102: (1830, 0.267228), 103: (6260, 0.336526), 108: (4255, 0.190909)},
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_figures_equal_upstream(name: str) -> None:
    (configuration,) = resolve_configurations(name)
    for user in sorted(UPSTREAM[name].keys() & set(golden_dataset().users)):
        size, expected = UPSTREAM[name][user]
        result = session(user).run(configuration)
        assert result.size == size
        assert result.metrics.log_loss == pytest.approx(expected, abs=REPRODUCED), user


@pytest.mark.parametrize("name", ["LogisticRegression", "SBD"])
def test_names_and_evaluated_rows(name: str) -> None:
    (configuration,) = resolve_configurations(name)
    assert configuration.name == f"{name}-short-secs-recency"
    equalized = resolve_configurations(f"{name}-short-secs-recency-equalize_test_with_non_secs")[0]
    simulated_session = LearnerSession(simulate_learner(3, 1200).log())
    in_days = simulated_session.run(resolve_configurations("HLR")[0])
    result = simulated_session.run(equalized)
    assert result.review_th.tolist() == in_days.review_th.tolist()


def test_logistic_regression_without_seconds_is_refused() -> None:
    with pytest.raises(InputError, match="--secs"):
        lr.fit(simulated(), np.arange(50), np.ones(50), Context())


@pytest.mark.parametrize(
    "name",
    slow_except({"DASH", "ACT-R"}, ["DASH", "DASH[MCM]", "HLR", "ACT-R", "DASH[ACT-R]", "SBD"]),
)
def test_training_lowers_the_loss_and_repeats(name: str) -> None:
    (configuration,) = resolve_configurations(name)
    log = simulate_learner(11, 1500).log()
    first = LearnerSession(log).run(configuration)
    again = LearnerSession(log).run(configuration)
    assert first.p.tolist() == again.p.tolist()
    model = configuration.model
    trials = LearnerSession(log).trials(configuration.protocol)
    assert model.fit is not None
    assert model.predict is not None
    every = np.arange(len(trials))

    def loss(parameters: Any) -> float:
        p = model.predict(trials, parameters, every, Context())  # type: ignore[misc]
        return log_loss(trials.y, p)

    trained = loss(model.fit(trials, every, np.ones(len(trials)), Context()))
    assert trained < loss(model.default(Context())) - 0.001


def test_defaults_of_dash_depend_on_same_day_reviews() -> None:
    for short, start in ((False, dash.START), (True, dash._START_SHORT)):
        trials = simulated(short=short)
        index = np.arange(20)
        default = dash._DASH.predict(trials, [], index, Context())
        assert (
            default.tolist() == dash._DASH.predict(trials, list(start), index, Context()).tolist()
        )


# Unusual data


def make_log_of_rows(card_id: Any, rating: Any, elapsed_days: Any) -> ReviewLog:
    card, rating, days = (np.array(column, np.int64) for column in (card_id, rating, elapsed_days))
    n = len(card)
    seconds = np.where(days < 0, -1, np.maximum(days, 0) * 86_400 + 60)
    rows = Rows(card, np.arange(n), rating, np.zeros(n, np.int64), np.full(n, 900), days, seconds)
    return ReviewLog(ImportSummary("", "made", n), rows=rows)


def test_fsrs_rs_gives_a_reason_where_the_package_would_abort(
    capfd: pytest.CaptureFixture[str],
) -> None:
    # Every card's only later review comes after 70 same-day ones: no item is short enough.
    cards = np.repeat(np.arange(30), 72)
    rating = np.tile(np.array([3] * 72), 30)
    days = np.tile(np.array([-1] + [0] * 70 + [4]), 30)
    result = LearnerSession(make_log_of_rows(cards, rating, days)).run(
        resolve_configurations("FSRS-rs")[0]
    )
    assert any("first review on a later day" in note for note in result.notes)
    assert np.isfinite(result.p).all()
    printed = capfd.readouterr()
    assert not printed.out
    assert not printed.err


def test_fsrs_rs_items_are_histories_with_their_own_review() -> None:
    trials = simulated(short=True)
    items = fsrs_rs._make_items(trials)
    row = int(np.argmax(trials.sequence_length))
    reviews = items[row].reviews
    assert len(reviews) == trials.sequence_length[row] + 1
    last_review = f"rating: {trials.rating[row]}, delta_t: {trials.elapsed_days[row]}"
    assert last_review in str(reviews[-1])
    assert "delta_t: 0" in str(reviews[0])


@pytest.mark.parametrize("name", [*UPSTREAM, "HLR", "DASH", "DASH[ACT-R]", "ACT-R", "FSRS-rs"])
def test_fifty_thousand_identical_reviews_are_predicted_alike(name: str) -> None:
    n = 25_000
    log = make_log_of_rows(np.tile(np.arange(n), 2), np.full(2 * n, 3), np.repeat([-1, 7], n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = LearnerSession(log).run(resolve_configurations(name)[0])
    assert np.isfinite(result.p).all()
    assert np.ptp(result.p[-100:]) == 0
    assert result.metrics.log_loss < 0.1
