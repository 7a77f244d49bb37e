"""Derived gradients: the differentiator itself, and what it makes of every model's steps."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Context, Model, _fsrs, act_r, all_models, fsrs6, fsrs7, sbd
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training import recurrent
from srs_eval.training.compile import Gradient, _compile_step
from srs_eval.training.elementwise import clamp, exp, log, maximum, minimum, power, where
from srs_eval.training.recurrent import RecurrentModel, SummedLoss
from tests.conftest import REPOSITORY
from tests.helpers.derived_gradients import derive_gradient
from tools.simulated import simulate_learner

# One adjoint written by hand, for reference


def success_adjoint(state: Any, t: Any, rating: Any, w: Any, bar: Any, w_bar: Any) -> Any:
    """Return the gradient of FSRS-6's step from its formulas: power, product and chain rule."""
    s, d = state
    base = exp(-_fsrs.LOG_09 / w[20])
    u = 1.0 + (base - 1.0) * t / s
    r = power(u, -w[20])
    gain = exp((1.0 - r) * w[10])
    plain = exp(w[8]) * power(s, -w[9])
    modifier = where(rating == 2.0, w[15], where(rating == 4.0, w[16], 1.0))
    slope = plain * (11.0 - d) * modifier
    growth = slope * (gain - 1.0)  # new S = S (1 + growth)
    new_s = s * (1.0 + growth)
    s_bar = where((new_s >= w[21]) & (new_s <= _fsrs.S_MAX), bar[0], 0.0)
    w_bar[8] += growth * s * s_bar
    w_bar[9] += -log(s) * growth * s * s_bar
    w_bar[10] += slope * gain * (1.0 - r) * s * s_bar
    w_bar[15] += where(rating == 2.0, plain * (11.0 - d) * (gain - 1.0) * s * s_bar, 0.0)
    w_bar[16] += where(rating == 4.0, plain * (11.0 - d) * (gain - 1.0) * s * s_bar, 0.0)
    r_bar = -w[10] * slope * gain * s * s_bar
    u_bar = -w[20] * r / u * r_bar
    w_bar[20] += u_bar * (t / s) * base * _fsrs.LOG_09 / (w[20] * w[20]) - r * log(u) * r_bar

    damping = (rating - 3.0) * (10.0 - d) / 9.0
    easiest = exp(3.0 * w[5])
    raw = _fsrs.raw_next_d(d, rating, w)
    d_bar = where((raw >= 1.0) & (raw <= 10.0), bar[1], 0.0)
    w_bar[4] += w[7] * d_bar
    w_bar[5] += -3.0 * w[7] * easiest * d_bar
    w_bar[6] += -damping * (1.0 - w[7]) * d_bar
    w_bar[7] += (w[4] - easiest + 1.0 - (d - w[6] * damping)) * d_bar
    return (
        s_bar * (1.0 + growth - w[9] * growth) - u_bar * (base - 1.0) * t / (s * s),
        (1.0 - w[7]) * d_bar * (1.0 + w[6] * (rating - 3.0) / 9.0)
        - plain * modifier * (gain - 1.0) * s * s_bar,
    )


def test_derived_gradient_equals_the_one_written_by_hand() -> None:
    """Compare in a kernel and in numpy, with states at bounds of clamps, too."""
    import numba

    from srs_eval.training import simd

    rng = np.random.default_rng(0)
    n = 80
    w = np.array([*fsrs6.DEFAULT, 1.0])
    s = np.exp(rng.uniform(np.log(0.001), np.log(36500), n))
    d = rng.uniform(1, 10, n)
    s[::9] = 0.001
    s[1::9] = 36500
    d[::5] = 1
    d[1::5] = 10
    t = np.floor(np.exp(rng.uniform(0, 8, n)))
    rating = rng.integers(2, 5, n).astype(float)
    bar = rng.normal(size=(2, n))
    expected_w = np.zeros((22, n))
    expected = success_adjoint((s, d), t, rating, w, bar, expected_w)

    gradient_w = np.zeros((22, n))
    derived = derive_gradient(fsrs6._STEPS["success"], ("state",), "w")
    gradient = derived((s, d), t, rating, w.tolist(), tuple(bar), gradient_w)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(gradient_w[:21], expected_w[:21], rtol=1e-9, atol=1e-12)
    assert gradient_w[21].any()  # the least stability, a bound, is in w, too

    adjoint: Any = _compile_step(Gradient(fsrs6._STEPS["success"], ("state",), "w", parameters=21))
    as_tuple: Any = simd.as_tuple
    load_state: Any = simd.load_state
    rows_of: Any = simd.rows_of
    store_state: Any = simd.store_state

    @numba.njit
    def run(inputs: Any, w: Any, back: Any, w_bar: Any) -> None:
        for i in range(0, inputs.shape[1], 8):
            s, d, t, rating, s_bar, d_bar = load_state(inputs, i, 6)
            old = adjoint((s, d), t, rating, as_tuple(w, 22), (s_bar, d_bar), rows_of(w_bar))
            store_state(back, i, old)

    inputs = np.array([s, d, t, rating, *bar])
    back = np.empty((2, n))
    lanes = np.zeros((22, 8))
    run(inputs, w, back, lanes)
    np.testing.assert_allclose(back, expected, rtol=1e-10, atol=1e-13)
    scale = np.abs(expected_w).sum(axis=1)[:21]  # sums of large terms cancel
    difference = np.abs(lanes.sum(axis=1) - expected_w.sum(axis=1))[:21]
    np.testing.assert_array_less(difference, 1e-12 * scale + 1e-12)
    assert not lanes[21].any()


# Random expressions against differences

Expression = Any
"""A number, the name of a variable, or an operation and its operands."""
LEAVES = st.one_of(st.sampled_from("xyab"), st.floats(-3, 3).map(lambda x: round(x, 2)))
TWO = ("add", "sub", "mul", "div", "minimum", "maximum")


def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.tuples(st.sampled_from(TWO), inner, inner),
        st.tuples(st.sampled_from(["neg", "exp", "log"]), inner),
        st.tuples(st.just("clamp"), inner, inner, inner),
        st.tuples(st.just("where"), inner, inner, inner, inner),
    )


def compute(expression: Expression, variables: dict[str, Any], kinks: list[Any] | None) -> Any:
    """Return the value; add differences whose signs decide between formulas to `kinks`."""
    if isinstance(expression, str):
        return variables[expression]
    if isinstance(expression, float):
        return expression
    name, *operands = expression
    a, *rest = (to_python(compute(operand, variables, kinks)) for operand in operands)
    b: Any = rest[0] if rest else None
    high = b + 0.1 + rest[1] * rest[1] if name == "clamp" else b
    if name in ("minimum", "maximum", "clamp", "where") and kinks is not None:
        kinks += [a - b, a - high]
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return a / (1.5 + b * b)
        case "neg":
            return -a
        case "exp":
            return exp(squash(a))
        case "log":
            return log(1.5 + a * a)
        case "minimum":
            return minimum(a, b)
        case "maximum":
            return maximum(a, b)
        case "clamp":
            return clamp(a, b, high)
        case _:
            return where(a < b, rest[1], rest[2])


def to_python(x: Any) -> Any:
    """Convert numbers of numpy, whose operations would take over, to Python's."""
    return float(x) if isinstance(x, np.generic | np.ndarray) else x


def squash(a: Any) -> Any:
    """Return a value between -1 and 1 without a kink, so that nothing explodes."""
    return a / (1.0 + a * a)


@settings(max_examples=120)
@given(
    st.lists(st.recursive(LEAVES, larger, max_leaves=12), min_size=1, max_size=3),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.booleans(),
)
@example([("mul", "x", "x"), "x", 2.0], [1.0, 1.0, 1.0, 1.0], False)
@example([("where", "x", "y", ("mul", "a", "x"), "b")], [0.0, 1.0, 2.0, 3.0], True)
def test_gradient_of_any_expression_equals_differences(
    expressions: list[Expression], at: list[float], numbers: bool
) -> None:
    """Derive steps with a state (x, y), parameters (a, b) and several results."""

    def step(state: Any, w: Any) -> Any:
        variables = dict(zip("xyab", (*state, *w), strict=True))
        return tuple(compute(expression, variables, None) for expression in expressions)

    def summed(at: FloatArray) -> tuple[float, FloatArray]:
        kinks: list[Any] = []
        variables = dict(zip("xyab", at, strict=True))
        values = [compute(expression, variables, kinks) for expression in expressions]
        return float(sum((k + 1.0) * value for k, value in enumerate(values))), np.array(kinks)

    middle = np.array(at)
    value, kinks = summed(middle)
    assume(abs(value) < 1e4)
    expected = np.empty(4)
    for k in range(4):
        moved = [middle + h * (np.arange(4) == k) for h in (-1e-5, 1e-5)]
        (low, before), (high, after) = map(summed, moved)
        assume((np.sign(before) == np.sign(after)).all())
        assume((np.abs(kinks) > 1e-12).all() or (before == after).all())
        expected[k] = (high - low) / 2e-5
    bars = tuple(float(k + 1) for k in range(len(expressions)))
    rows = np.zeros(2)
    gradient = derive_gradient(step, ("state",), "w", numbers)(
        tuple(at[:2]), tuple(at[2:]), bars, rows
    )
    np.testing.assert_allclose(
        [*gradient, *rows], expected, rtol=1e-5, atol=1e-4 + 1e-9 * abs(value)
    )


# Kinks


KINKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "minimum": (lambda x, y: minimum(x, y), torch.minimum),
    "maximum": (lambda x, y: maximum(x, y), torch.maximum),
    "least": (lambda x, y: minimum(3.0 * x, 2.0 * x + y), lambda x, y: (3 * x).min(2 * x + y)),
    "clamp": (lambda x, y: clamp(x, 1.0, 2.0) * y, lambda x, y: x.clamp(1, 2) * y),
    "bounds": (lambda x, y: clamp(x, y, 2.0 * y), lambda x, y: x.clamp(y, 2 * y)),
    "where": (
        lambda x, y: where(x < y, x * x, 3.0 * y),
        lambda x, y: torch.where(x < y, x * x, 3 * y),
    ),
}


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("name", KINKS)
def test_gradients_at_kinks_equal_torchs(name: str, numbers: bool) -> None:
    ours, torchs = KINKS[name]
    for x in (0.5, 1.0, 1.5, 2.0, 3.0):
        for y in (1.0, 1.5):
            leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, y)]
            expected = torch.autograd.grad(torchs(*leaves), leaves)
            gradient = derive_gradient(ours, ("x", "y"), None, numbers)(x, y, 1.0)
            np.testing.assert_array_equal(np.array(gradient, float), [float(e) for e in expected])


def test_infinity_in_the_other_branch_of_where_has_no_effect() -> None:
    x = np.array([0.0, 1e-320, 2.0])

    def guarded(x: Any, w: Any) -> Any:
        root = exp(0.5 * log(x))
        inner = where(x > 1.0, w[0] / x, x)
        return where(x > 1e-300, root + 1.0 / (x * x) + log(x) * inner, 5.0 * x + w[1])

    rows = np.zeros((2, 3))
    gradient = derive_gradient(guarded, ("x",), "w")(x, [1.5, 7.0], np.ones(3), rows)
    at_two = 0.5 / np.sqrt(2) - 2 / 8 + 0.75 / 2 - np.log(2) * 1.5 / 4
    np.testing.assert_allclose(gradient, [5.0, 5.0, at_two], rtol=1e-12)
    np.testing.assert_allclose(rows, [[0, 0, np.log(2) / 2], [1, 1, 0]], rtol=1e-12)


# Every model


class FitStopped(Exception):
    """Stop a fit as soon as it has shown its recurrent model."""


def find_recurrent_model(model: Model, monkeypatch: pytest.MonkeyPatch) -> RecurrentModel | None:
    """Return the recurrent model that `fit` trains, if there is one, without training it."""
    models: list[RecurrentModel] = []

    def stop(*arguments: Any) -> Any:
        models.extend(argument for argument in arguments if isinstance(argument, RecurrentModel))
        raise FitStopped

    (configuration,) = resolve_configurations(model.name)
    trials = prepare_trials(configuration.protocol)
    assert model.fit is not None
    with monkeypatch.context() as patch:
        patch.setattr(recurrent, "_kernel_of_model", stop)
        with contextlib.suppress(FitStopped):
            model.fit(trials, np.arange(len(trials)), np.ones(len(trials)), Context(tick=stop))
    return models[0] if models else None


@cache
def prepare_trials(protocol: Protocol) -> Trials:
    return LearnerSession(simulate_learner(3, 600).log()).trials(protocol)


def assert_differences(
    name: str, value: Callable[[FloatArray], float], gradient: FloatArray, at: FloatArray
) -> None:
    expected = np.empty(len(gradient))
    for k in range(len(gradient)):
        h = 1e-5 * max(abs(at[k]), 0.1)
        low, high = (value(at + side * h * (np.arange(len(at)) == k)) for side in (-1, 1))
        expected[k] = (high - low) / (2 * h)
    assert np.abs(expected).max() > 1e-3, name
    scale = np.abs(expected).max()
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6 * scale, err_msg=name)


def shift(w: Any, seed: int = 1) -> FloatArray:
    """Return parameters near these, so that no two values are equal by design."""
    at = np.array(w, float)
    return at + np.random.default_rng(seed).uniform(0.01, 0.05, len(at)) * np.maximum(at, 0.1)


def test_gradients_of_recurrent_models_equal_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check every model in the registry, on histories with same-day reviews."""
    trials = prepare_trials(Protocol(short=True))
    index = np.arange(len(trials))
    names = set()
    for name, model in all_models().items():
        if model.family == "neural" and name != "NN-17":
            continue  # to find out that they are not recurrent would train them
        trained = find_recurrent_model(model, monkeypatch) if model.is_trained else None
        if trained is not None:
            names.add(name)
            loss = SummedLoss(trained, trials, index)
            w = shift(trained.default)
            assert_differences(name, loss.value, loss.gradient(w), w)
    fsrs = {"FSRSv1", "FSRSv2", "FSRSv3", "FSRSv4", "FSRS-4.5", "FSRS-5", "FSRS-6", "FSRS-7"}
    assert names >= fsrs | {"Anki", "SM2-trainable", "NN-17"}


def test_gradients_of_other_models_equal_differences() -> None:
    trials = prepare_trials(Protocol(short=True, secs=True))
    rows = np.arange(len(trials))
    weights = np.linspace(0.25, 1, len(trials))
    w = shift(sbd._START)
    kernel_rows, _ = sbd._make_kernel_rows(trials, rows, weights)
    gradient = sbd._loss_and_gradient(kernel_rows, w)[1]
    assert_differences("SBD", lambda w: sbd._loss_and_gradient(kernel_rows, w)[0], gradient, w)

    w = shift(act_r.START)
    batch = act_r._make_training_batch(act_r._build_path_tree(trials), trials, rows, weights)
    gradient = act_r._compute_gradient(batch, w)

    def unrounded(w: FloatArray) -> float:
        """Return the loss in double precision; the model's own is in single precision."""
        act_r._compute_loss(batch, w)
        p = act_r.recall(batch.activation[0], w)
        return float(-np.sum(batch.passes * np.log(p) + batch.failures * np.log1p(-p)))

    assert_differences("ACT-R", unrounded, gradient, w)

    w = np.array([*shift(fsrs7.DEFAULT), 0.0001])
    w[[7, 9, 8]] = 3.0, 2.4, 0.1  # intervals that grow
    gradient = np.zeros(len(fsrs7.DEFAULT))
    fsrs7._add_schedule_penalty(w, gradient)
    scratch = np.zeros(len(gradient))
    assert_differences("penalty", lambda w: fsrs7._add_schedule_penalty(w, scratch), gradient, w)


def test_every_module_with_a_gradient_is_tested_here() -> None:
    """Check all but FSRS-6-one-step, which is compared with torch (test_models_fsrs.py)."""
    users = {
        path.stem
        for path in (REPOSITORY / "srs_eval").rglob("*.py")
        if re.search(r"(?<!class )\bGradient\(", path.read_text(encoding="utf-8"))
    }
    assert users == {"recurrent", "fsrs7", "sbd", "act_r", "fsrs6"}
