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
from tests.training.derived import derive_gradient
from tools.simulated import simulate_learner

# One adjoint written by hand, for reference


def success_adjoint(state: Any, t: Any, rating: Any, w: Any, bar: Any, w_bar: Any) -> Any:
    """Of FSRS-6, from its formulas: d/dw of power, product and chain rule; no library."""
    s, d = state
    base = exp(-_fsrs.LOG_09 / w[20])
    u = 1.0 + (base - 1.0) * t / s
    r = power(u, -w[20])
    gain, plain = exp((1.0 - r) * w[10]), exp(w[8]) * power(s, -w[9])
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

    damping, easiest = (rating - 3.0) * (10.0 - d) / 9.0, exp(3.0 * w[5])
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


def test_a_derived_gradient_is_the_one_written_by_hand() -> None:
    """In a kernel and in numpy; states at bounds of clamps, too."""
    import numba

    from srs_eval.training import simd

    rng, n = np.random.default_rng(0), 80
    w = np.array([*fsrs6.DEFAULT, 1.0])
    s, d = np.exp(rng.uniform(np.log(0.001), np.log(36500), n)), rng.uniform(1, 10, n)
    s[::9], s[1::9], d[::5], d[1::5] = 0.001, 36500, 1, 10
    t, rating = np.floor(np.exp(rng.uniform(0, 8, n))), rng.integers(2, 5, n).astype(float)
    bar = rng.normal(size=(2, n))
    expected_w = np.zeros((22, n))
    expected = success_adjoint((s, d), t, rating, w, bar, expected_w)

    found_w = np.zeros((22, n))
    derived = derive_gradient(fsrs6._STEPS["success"], ("state",), "w")
    found = derived((s, d), t, rating, w.tolist(), tuple(bar), found_w)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found_w[:21], expected_w[:21], rtol=1e-9, atol=1e-12)
    assert found_w[21].any()  # the least stability, in w like the others, is a bound

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

    inputs, back, lanes = np.array([s, d, t, rating, *bar]), np.empty((2, n)), np.zeros((22, 8))
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


def computed(expression: Expression, known: dict[str, Any], kinks: list[Any] | None) -> Any:
    """Its value; adds the differences whose signs decide between formulas to `kinks`."""
    if isinstance(expression, str):
        return known[expression]
    if isinstance(expression, float):
        return expression
    name, *operands = expression
    a, *more = (plain(computed(each, known, kinks)) for each in operands)
    b: Any = more[0] if more else None
    high = b + 0.1 + more[1] * more[1] if name == "clamp" else b
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
            return exp(minimum_of(a))
        case "log":
            return log(1.5 + a * a)
        case "minimum":
            return minimum(a, b)
        case "maximum":
            return maximum(a, b)
        case "clamp":
            return clamp(a, b, high)
        case _:
            return where(a < b, more[1], more[2])


def plain(x: Any) -> Any:
    """A number of numpy's leaves no operation to what it is combined with."""
    return float(x) if isinstance(x, np.generic | np.ndarray) else x


def minimum_of(a: Any) -> Any:
    """Between -1 and 1 without a kink, so that nothing explodes."""
    return a / (1.0 + a * a)


@settings(max_examples=120)
@given(
    st.lists(st.recursive(LEAVES, larger, max_leaves=12), min_size=1, max_size=3),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.booleans(),
)
@example([("mul", "x", "x"), "x", 2.0], [1.0, 1.0, 1.0, 1.0], False)
@example([("where", "x", "y", ("mul", "a", "x"), "b")], [0.0, 1.0, 2.0, 3.0], True)
def test_gradients_of_any_expression_are_differences(
    expressions: list[Expression], at: list[float], numbers: bool
) -> None:
    """x and y are a state, a and b parameters; several results, as a step has them."""

    def step(state: Any, w: Any) -> Any:
        known = dict(zip("xyab", (*state, *w), strict=True))
        return tuple(computed(each, known, None) for each in expressions)

    def summed(at: FloatArray) -> tuple[float, FloatArray]:
        kinks: list[Any] = []
        known = dict(zip("xyab", at, strict=True))
        values = [computed(each, known, kinks) for each in expressions]
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
    found = derive_gradient(step, ("state",), "w", numbers)(
        tuple(at[:2]), tuple(at[2:]), bars, rows
    )
    np.testing.assert_allclose([*found, *rows], expected, rtol=1e-5, atol=1e-4 + 1e-9 * abs(value))


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
def test_gradients_at_kinks_are_torchs(name: str, numbers: bool) -> None:
    ours, torchs = KINKS[name]
    for x in (0.5, 1.0, 1.5, 2.0, 3.0):
        for y in (1.0, 1.5):
            leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, y)]
            expected = torch.autograd.grad(torchs(*leaves), leaves)
            found = derive_gradient(ours, ("x", "y"), None, numbers)(x, y, 1.0)
            np.testing.assert_array_equal(np.array(found, float), [float(e) for e in expected])


def test_what_is_infinite_on_the_other_side_of_a_where_stays_there() -> None:
    x = np.array([0.0, 1e-320, 2.0])

    def guarded(x: Any, w: Any) -> Any:
        root = exp(0.5 * log(x))
        inner = where(x > 1.0, w[0] / x, x)
        return where(x > 1e-300, root + 1.0 / (x * x) + log(x) * inner, 5.0 * x + w[1])

    rows = np.zeros((2, 3))
    found = derive_gradient(guarded, ("x",), "w")(x, [1.5, 7.0], np.ones(3), rows)
    at_two = 0.5 / np.sqrt(2) - 2 / 8 + 0.75 / 2 - np.log(2) * 1.5 / 4
    np.testing.assert_allclose(found, [5.0, 5.0, at_two], rtol=1e-12)
    np.testing.assert_allclose(rows, [[0, 0, np.log(2) / 2], [1, 1, 0]], rtol=1e-12)


# Every model


class Found(Exception):
    """Of a recurrent model that is about to be trained."""


def recurrent_model(model: Model, monkeypatch: pytest.MonkeyPatch) -> RecurrentModel | None:
    """The one that its `fit` trains, if it trains one; and no more of the fit."""
    found: list[RecurrentModel] = []

    def stop(*given: Any) -> Any:
        found.extend(each for each in given if isinstance(each, RecurrentModel))
        raise Found

    (configuration,) = resolve_configurations(model.name)
    trials = learner(configuration.protocol)
    assert model.fit is not None
    with monkeypatch.context() as patch:
        patch.setattr(recurrent, "_kernel_of_model", stop)
        with contextlib.suppress(Found):
            model.fit(trials, np.arange(len(trials)), np.ones(len(trials)), Context(tick=stop))
    return found[0] if found else None


@cache
def learner(protocol: Protocol) -> Trials:
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


def elsewhere(w: Any, seed: int = 1) -> FloatArray:
    """Parameters beside these, so that nothing is equal to anything by design."""
    at = np.array(w, float)
    return at + np.random.default_rng(seed).uniform(0.01, 0.05, len(at)) * np.maximum(at, 0.1)


def test_gradients_of_all_recurrent_models_are_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever model is in the registry; same-day reviews in the histories, too."""
    trials = learner(Protocol(short=True))
    index = np.arange(len(trials))
    found = set()
    for name, model in all_models().items():
        each = recurrent_model(model, monkeypatch) if model.is_trained else None
        if each is not None:
            found.add(name)
            loss, w = SummedLoss(each, trials, index), elsewhere(each.default)
            assert_differences(name, loss.value, loss.gradient(w), w)
    fsrs = {"FSRSv1", "FSRSv2", "FSRSv3", "FSRSv4", "FSRS-4.5", "FSRS-5", "FSRS-6", "FSRS-7"}
    assert found >= fsrs | {"Anki", "SM2-trainable", "NN-17"}


def test_gradients_of_other_models_are_differences() -> None:
    trials = learner(Protocol(short=True, secs=True))
    rows, weights = np.arange(len(trials)), np.linspace(0.25, 1, len(trials))
    w = elsewhere(sbd._START)
    everything, _ = sbd._make_kernel_rows(trials, rows, weights)
    gradient = sbd._loss_and_gradient(everything, w)[1]
    assert_differences("SBD", lambda w: sbd._loss_and_gradient(everything, w)[0], gradient, w)

    w = elsewhere(act_r.START)
    part, _ = act_r._make_batch(act_r._build_path_tree(trials), trials, rows, weights)
    gradient = act_r._compute_gradient(part, w)

    def unrounded(w: FloatArray) -> float:
        """Its loss is that of single precision, which has no differences."""
        act_r._compute_loss(part, w)
        p = act_r.recall(part.activation[0], w)
        return float(-np.sum(part.passes * np.log(p) + part.failures * np.log1p(-p)))

    assert_differences("ACT-R", unrounded, gradient, w)

    w = np.array([*elsewhere(fsrs7.DEFAULT), 0.0001])
    w[[7, 9, 8]] = 3.0, 2.4, 0.1  # intervals that grow
    gradient = np.zeros(len(fsrs7.DEFAULT))
    fsrs7._add_schedule_penalty(w, gradient)
    scratch = np.zeros(len(gradient))
    assert_differences("penalty", lambda w: fsrs7._add_schedule_penalty(w, scratch), gradient, w)


def test_every_use_of_a_derived_gradient_is_held_against_differences() -> None:
    """FSRS-6-one-step's moves are held against torch (test_models_fsrs.py)."""
    users = {
        path.stem
        for path in (REPOSITORY / "srs_eval").rglob("*.py")
        if re.search(r"(?<!class )\bGradient\(", path.read_text(encoding="utf-8"))
    }
    assert users == {"recurrent", "fsrs7", "sbd", "act_r", "fsrs6"}
