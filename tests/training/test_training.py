"""The training loop and its parts against torch, scipy and numpy themselves."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Context, fsrs6
from srs_eval.training import elementwise
from srs_eval.training.compile import Gradient, _compile_step, compile_kernel, to_function
from srs_eval.training.hyperparameters import Cancelled
from srs_eval.training.initial_stability import (
    InitialStability,
    _fill_missing_stabilities,
    _minimise,
    fit_initial_stability,
)
from srs_eval.training.optimisers import argsort_by_quicksort, draw_permutations
from srs_eval.training.packing import Int32Array, pack, unpack
from srs_eval.training.recurrent import fit_recurrent
from tests.conftest import REPOSITORY
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner


@pytest.fixture(scope="module")
def trials() -> Trials:
    return LearnerSession(simulate_learner(1, 1500).log()).trials(Protocol(short=True))


# The order of batches


@pytest.mark.parametrize("seed", [2023, 0, 2**32 - 1])
def test_permutations_equal_torchs(seed: int) -> None:
    import torch

    for n in (0, 1, 2, 3, 7, 10, 31, 64, 100, 255, 700, 1000):
        generator = torch.Generator().manual_seed(seed)
        expected = [torch.randperm(n, generator=generator).tolist() for _ in range(5)]
        assert [order.tolist() for order in islice(draw_permutations(n, seed), 5)] == expected


def pure_python_quicksort(keys: list[int]) -> list[int]:
    """Sort positions by plain quicksort, written anew from the description in words.

    Median of three (first, middle, last), partitions while a part has more than 16 elements, the
    larger part waits on the stack, insertion sort below, heapsort beyond a depth of 2 floor(log2
    n).
    """
    order = list(range(len(keys)))
    if len(keys) < 2:
        return order
    stack: list[tuple[int, int, int]] = [(0, len(keys) - 1, 2 * (len(keys).bit_length() - 1))]
    while stack:
        low, high, depth = stack.pop()
        heap = depth < 0  # looked at only when a part leaves the stack
        while high - low >= 16 and not heap:
            middle = (low + high) // 2
            for a, b in ((low, middle), (middle, high), (low, middle)):
                if keys[order[b]] < keys[order[a]]:
                    order[a], order[b] = order[b], order[a]
            pivot = keys[order[middle]]
            order[middle], order[high - 1] = order[high - 1], order[middle]
            i, j = low, high - 1
            while True:
                i = next(k for k in range(i + 1, high + 1) if keys[order[k]] >= pivot)
                j = next(k for k in range(j - 1, low - 1, -1) if keys[order[k]] <= pivot)
                if i >= j:
                    break
                order[i], order[j] = order[j], order[i]
            order[i], order[high - 1] = order[high - 1], order[i]
            depth -= 1
            if i - low < high - i:
                stack.append((i + 1, high, depth))
                high = i - 1
            else:
                stack.append((low, i - 1, depth))
                low = i + 1
        if heap:
            order[low : high + 1] = pure_python_heapsort(keys, order[low : high + 1])
            continue
        for k in range(low + 1, high + 1):
            moved = order[k]
            index = k
            while index > low and keys[moved] < keys[order[index - 1]]:
                order[index] = order[index - 1]
                index -= 1
            order[index] = moved
    return order


def pure_python_heapsort(keys: list[int], positions: list[int]) -> list[int]:
    def sift(top: int, size: int, moved: int) -> None:
        index = top
        while 2 * index + 1 < size:
            child = 2 * index + 1
            if child + 1 < size and keys[positions[child]] < keys[positions[child + 1]]:
                child += 1
            if keys[moved] >= keys[positions[child]]:
                break
            positions[index] = positions[child]
            index = child
        positions[index] = moved

    positions = list(positions)
    heapsorts.append(len(positions))
    for top in range(len(positions) // 2 - 1, -1, -1):
        sift(top, len(positions), positions[top])
    for size in range(len(positions) - 1, 0, -1):
        last, positions[size] = positions[size], positions[0]
        sift(0, size, last)
    return positions


heapsorts: list[int] = []  # sizes, which show that the test reaches the heapsort


def make_median_killer(n: int) -> list[int]:
    """Return keys on which the median of three is nearly always the smallest.

    So the depth runs out (McIlroy 1999: the adversary decides values as they are compared).
    """
    solid = 0
    values = [n] * n
    candidate = 0

    class Key:
        def __init__(self, at: int) -> None:
            self.at = at

        def __lt__(self, other: Key) -> bool:
            nonlocal solid, candidate
            x, y = self.at, other.at
            if values[x] == n and values[y] == n:
                frozen = x if x == candidate else y
                values[frozen] = solid
                solid += 1
            if values[x] == n:
                candidate = x
            elif values[y] == n:
                candidate = y
            return values[x] < values[y]

        def __ge__(self, other: Key) -> bool:
            return not self < other

        def __le__(self, other: Key) -> bool:
            return not other < self

    pure_python_quicksort([Key(k) for k in range(n)])  # type: ignore[misc]
    return values


def sort_cases() -> list[list[int]]:
    rng = np.random.default_rng(3)
    sizes = [*range(0, 40), 100, 511, 513, 2000, 4940]
    cases = []
    for n in sizes:
        cases += [rng.integers(1, most + 1, n).tolist() for most in (1, 3, 30)]
    cases += [list(range(300)), list(range(300, 0, -1)), [1] * 700, make_median_killer(600)]
    cases.append((make_median_killer(900) * 2)[:1500])
    return cases


def test_quicksort_order_equals_the_description() -> None:
    for keys in sort_cases():
        expected = pure_python_quicksort(keys)
        assert [keys[k] for k in expected] == sorted(keys)
        assert argsort_by_quicksort(np.array(keys, np.int64)).tolist() == expected
    assert max(heapsorts) > 16


@pytest.mark.starts_program
def test_quicksort_order_equals_numpy_without_simd() -> None:
    """Compare with numpy in a process that does not use its SIMD routines."""
    script = (
        "import sys, json, numpy as np\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps(np.argsort(np.array(json.loads(line), np.int64)).tolist()))\n"
    )
    cases = sort_cases()
    features = (
        "AVX512_ICL AVX512_CNL AVX512_CLX AVX512_SKX AVX512CD AVX512F AVX2 FMA3 X86_V3 X86_V4"
    )
    import json

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        input="\n".join(json.dumps(keys) for keys in cases),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": features},
    )
    if done.returncode:
        pytest.skip("needs a numpy whose SIMD routines can be switched off")
    for keys, line in zip(cases, done.stdout.splitlines(), strict=True):
        assert argsort_by_quicksort(np.array(keys, np.int64)).tolist() == json.loads(line), len(
            keys
        )


# Initial stabilities


def minimise_with_scipy(
    t: Any, recall: Any, count: Any, default: float, decay: float, low: float, pull: float
) -> tuple[float, Callable[[float], float]]:
    from scipy.optimize import minimize

    def loss(s: Any) -> Any:
        r = (1 + (0.9 ** (-1 / decay) - 1) * t / s) ** -decay
        return sum(-(recall * np.log(r) + (1 - recall) * np.log(1 - r)) * count) + (
            np.abs(s - default) * pull
        )

    bounds = ((low, 100.0),)
    options = {"maxiter": int(count.sum())}
    result = minimize(loss, x0=default, bounds=bounds, options=options)
    return float(result.x[0]), lambda s: float(loss(s))


def test_initial_stabilities_equal_scipys() -> None:
    """Check small counts, too, which stop the search early and so change the figures."""
    rng = np.random.default_rng(1)
    for _ in range(250):
        n = int(rng.integers(1, 25))
        t = np.sort(rng.choice(np.arange(1, 100), n, replace=False)).astype(float)
        count = rng.integers(1, [3, 30, 300][rng.integers(3)], n).astype(float)
        p = (1 + (0.9 ** (-1 / 0.1542) - 1) * t / np.exp(rng.normal(1.5, 2))) ** -0.1542
        recall = (rng.binomial(count.astype(int), p) + rng.uniform(0.6, 1)) / (count + 1)
        default = fsrs6.DEFAULT[rng.integers(4)]
        decay = [0.1542, 0.5, 1.0][rng.integers(3)]
        expected, loss = minimise_with_scipy(t, recall, count, default, decay, 0.001, 1 / 16)
        problem = t, recall, count, default, decay, 1 / 16
        ours = compile_kernel(_minimise)(problem, 0.001, 100.0, int(count.sum()))
        assert ours == pytest.approx(expected, rel=1e-3)
        assert loss(ours) == pytest.approx(loss(expected), abs=1e-6)


def fill_by_table(stabilities: dict[int, float]) -> list[float]:
    """Return the stabilities by the reference's table for ratings that were never used."""
    w1, w2 = 0.41, 0.54
    s = dict(stabilities)
    both = w1 + w2 - w1 * w2
    missing = {1, 2, 3, 4} - set(s)
    if missing == {2, 3}:
        s[2] = s[1] ** (w1 / both) * s[4] ** (1 - w1 / both)
        s[3] = s[1] ** (1 - w2 / both) * s[4] ** (w2 / both)
    if missing == {1, 2}:
        s[2] = s[3] ** (1 / (1 - w2)) * s[4] ** (1 - 1 / (1 - w2))
    if missing in ({2}, {2, 4}):
        s[2] = s[1] ** w1 * s[3] ** (1 - w1)
    if missing in ({3}, {1, 3}):
        s[3] = s[2] ** (1 - w2) * s[4] ** w2
    if missing == {3, 4}:
        s[3] = s[1] ** (1 - 1 / (1 - w1)) * s[2] ** (1 / (1 - w1))
    if 4 not in s:
        s[4] = s[2] ** (1 - 1 / w2) * s[3] ** (1 / w2)
    if 1 not in s:
        s[1] = s[2] ** (1 / w1) * s[3] ** (1 - 1 / w1)
    return [s[k] for k in range(1, 5)]


def test_ratings_never_used_lie_between_the_others() -> None:
    values = {1: 0.4, 2: 1.1, 3: 3.0, 4: 14.0}
    for used in product([False, True], repeat=4):
        stabilities = {k: v for k, v in values.items() if used[k - 1]}
        if len(stabilities) >= 2:
            np.testing.assert_allclose(
                _fill_missing_stabilities(stabilities, fsrs6.DEFAULT[:4]),
                fill_by_table(stabilities),
                rtol=1e-12,
            )
    np.testing.assert_allclose(
        _fill_missing_stabilities({3: 2 * fsrs6.DEFAULT[2]}, fsrs6.DEFAULT[:4]),
        2 * np.array(fsrs6.DEFAULT[:4]),
    )


@settings(max_examples=20)
@given(data=st.data())
def test_initial_stabilities_are_ordered_and_bounded(trials: Trials, data: st.DataObject) -> None:
    second = np.flatnonzero(trials.i == 2)
    rows = np.array(data.draw(st.lists(st.sampled_from(second.tolist()), min_size=1, max_size=60)))
    y = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(trials), max_size=len(trials))))
    used = replace(trials, y=y.astype(float), _derived={})
    settings_ = InitialStability(default=(0.2, 1.3, 2.3, 8.3), decay=0.15, minimum=0.001)
    s = fit_initial_stability(used, rows, settings_)
    assert all(0.001 <= value <= 100 for value in s)
    seen = {int(r) for r in trials.first_rating[rows]}
    assert s[min(seen) - 1] <= s[max(seen) - 1]


# The loop


def torch_fit(trials: Trials, train: np.ndarray, weights: np.ndarray, start: list[float]) -> Any:
    """Fit by fsrs-optimizer's loop in double precision on unshared histories."""
    import torch

    from tests.helpers.torch_fsrs6 import LOWER, UPPER, torch_curve, torch_first, torch_step

    lengths = trials.sequence_length[train]
    is_short = lengths <= trials.protocol.max_seq_len
    rows = train[is_short]
    weights = weights[is_short]
    order = np.argsort(trials.sequence_length[rows], kind="stable")
    rows = rows[order]
    weights = weights[order]
    longest = int(trials.sequence_length[rows].max())
    t = torch.zeros(longest, len(rows), dtype=torch.float64)
    rating = torch.full((longest, len(rows)), 3.0, dtype=torch.float64)
    for column, row in enumerate(rows.tolist()):
        history = slice(trials.history_start[row], trials.history_end[row])
        size = history.stop - history.start
        t[:size, column] = torch.tensor(trials.history_delta_t[history])
        rating[:size, column] = torch.tensor(trials.history_rating[history].astype(float))
    last = torch.tensor(trials.sequence_length[rows] - 1)
    due = torch.tensor(trials.delta_t[rows])
    y = torch.tensor(trials.y[rows])
    weight = torch.tensor(weights)
    first = torch.tensor(start, dtype=torch.float64)
    w = first.clone().requires_grad_()
    deviation = torch.tensor(fsrs6.DEVIATION, dtype=torch.float64)

    def loss(batch: slice) -> Any:
        state = torch_first(rating[0, batch], w)
        stabilities = [state[0]]
        for k in range(1, int(last[batch].max()) + 1):
            state = torch_step(*state, t[k, batch], rating[k, batch], w)
            stabilities.append(state[0])
        s = torch.stack(stabilities).gather(0, last[batch][None])[0]
        r = torch_curve(due[batch], s, w)
        return (torch.nn.BCELoss(reduction="none")(r, y[batch]) * weight[batch]).sum()

    def penalty() -> Any:
        return ((w - first) ** 2 / deviation**2).sum()

    n = len(rows)
    size = trials.protocol.batch_size
    batches = [slice(k, min(k + size, n)) for k in range(0, n, size)]
    adam = torch.optim.Adam([w], lr=4e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=5 * len(batches))
    generator = torch.Generator().manual_seed(2023)
    best = None
    best_loss = np.inf
    for epoch in range(6):
        with torch.no_grad():
            current = float((loss(slice(0, n)) + penalty()) / n)
        if current < best_loss:
            best = w.detach().clone()
            best_loss = current
        if epoch == 5:
            break
        for b in torch.randperm(len(batches), generator=generator).tolist():
            adam.zero_grad()
            share = (batches[b].stop - batches[b].start) / n
            (loss(batches[b]) + penalty() * share).backward()
            adam.step()
            schedule.step()
            with torch.no_grad():
                w.copy_(torch.maximum(torch.minimum(w, torch.tensor(UPPER)), torch.tensor(LOWER)))
    assert best is not None
    return best.numpy()


@pytest.mark.parametrize("recency", slow_except({True}, [False, True]))
def test_fit_equals_torchs(trials: Trials, recency: bool) -> None:
    """Check batches, order, Adam, schedule, bounds, penalty and best epoch, unrounded."""
    train = trials.folds[-1].train[-450:]
    weights = np.linspace(0.25, 1, len(train)) if recency else np.ones(len(train))
    small = replace(trials, protocol=replace(trials.protocol, batch_size=100, max_seq_len=12))
    start = [1.0, 1.5, 2.0, 6.0, *fsrs6.DEFAULT[4:]]
    model = replace(fsrs6.make_recurrent(0.001), decimals=None)
    ours = fit_recurrent(model, small, train, weights, start, Context())
    expected = torch_fit(small, train, weights, start)
    assert np.abs(expected - start).max() > 0.01
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


def test_kept_parameters_are_rounded_and_frozen_ones_stay(trials: Trials) -> None:
    train = trials.folds[-1].train
    model = replace(fsrs6.make_recurrent(0.001), frozen=(17, 18), tie_order="quicksort")
    w = fit_recurrent(model, trials, train, np.ones(len(train)), fsrs6.DEFAULT, Context())
    assert w == [round(value, 4) for value in w]
    assert w[17:19] == list(fsrs6.DEFAULT[17:19])
    assert w != list(fsrs6.DEFAULT)


def test_training_rows_can_be_chosen(trials: Trials) -> None:
    train = trials.folds[-1].train
    sizes = []

    def later(trials: Trials, rows: np.ndarray) -> np.ndarray:
        sizes.append(len(rows))
        return rows[trials.i[rows] > 2]

    def none(trials: Trials, rows: np.ndarray) -> np.ndarray:
        return rows[:0]

    def fit(model: Any) -> list[float]:
        weights = np.ones(len(train))
        return fit_recurrent(model, trials, train, weights, fsrs6.DEFAULT, Context())

    model = fsrs6.make_recurrent(0.001)
    assert fit(replace(model, select_rows=later)) != fit(model)
    assert sizes == [len(train)]
    with pytest.raises(NotEnoughData):
        fit(replace(model, select_rows=none))


def test_a_fit_reports_and_can_be_cancelled(trials: Trials) -> None:
    train = trials.folds[-1].train
    weights = np.ones(len(train))
    seen: list[float] = []
    fsrs6.fit(trials, train, weights, Context(tick=seen.append))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0

    def stop(fraction: float) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        fsrs6.fit(trials, train, weights, Context(tick=stop))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "change",
    [
        {"y": 1.0},
        {"y": 0.0},
        {"delta_t": 3650.0},
        {"delta_t": 1e-5},
        {"history_delta_t": 0.0},
        {"history_delta_t": 3650.0},
        {"history_rating": 1},
        {"history_rating": 4},
    ],
    ids=str,
)
def test_hostile_histories_give_probabilities(trials: Trials, change: dict[str, float]) -> None:
    """Check passes only, failures only, ten years between, one day only, and one rating only."""
    ((name, value),) = change.items()
    column = np.full_like(getattr(trials, name), value)
    hostile = replace(trials, _derived={}, **{name: column})
    train = trials.folds[-1].train
    w = fsrs6.fit(hostile, train, np.ones(len(train)), Context())
    lower = np.array(fsrs6.lower_bounds(0.001))
    upper = np.array(fsrs6.UPPER)
    assert np.isfinite(w).all()
    assert ((np.array(w) >= lower) & (np.array(w) <= upper)).all()
    p = fsrs6.predict(hostile, w, np.arange(len(trials)), Context())
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()


# Vectors and compiled steps


def _evaluate(function: Any, x: np.ndarray) -> np.ndarray:
    """Apply a function of the kernels to as many numbers at a time as a vector has."""
    import numba

    from srs_eval.training import simd

    load: Any = simd.load
    store: Any = simd.store
    lanes = elementwise.SINGLE_LANES if x.dtype == np.float32 else elementwise.LANES

    @numba.njit
    def run(x: Any, out: Any) -> None:
        for k in range(0, len(x), lanes):
            store(out, k, function(load(x, k)))

    out = np.empty_like(x)
    run(x, out)
    return out


def test_vector_functions_are_exact_to_a_few_last_digits() -> None:
    from srs_eval.training import simd

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-700, 700, 4000), rng.uniform(-1e-3, 1e-3, 800), [0.0] * 8])
    error = np.abs(_evaluate(simd.exp, x) / np.exp(x.astype(np.longdouble)) - 1)
    assert error.max() < 4e-16
    assert _evaluate(simd.exp, np.zeros(8)).tolist() == [1.0] * 8
    x = np.concatenate(
        [np.exp(rng.uniform(-700, 700, 4000)), 1 + rng.uniform(-0.3, 0.42, 4000), [1.0] * 8]
    )
    exact = np.log(x.astype(np.longdouble))
    got = _evaluate(simd.log, x)
    off = got != exact
    assert np.abs((got[off] - exact[off]) / exact[off]).max() < 6e-16
    assert _evaluate(simd.log, np.ones(8)).tolist() == [0.0] * 8
    assert _evaluate(simd.log, np.zeros(8))[0] < -700
    ends = _evaluate(simd.exp, np.repeat([-1e9, 1e9], 8))
    assert (ends > 0).all()
    assert np.isfinite(ends).all()


def test_single_vector_functions_are_exact_to_a_last_digit() -> None:
    from srs_eval.training import simd

    rng = np.random.default_rng(0)
    uniform = [rng.uniform(-87, 88, 4000), rng.uniform(-1e-3, 1e-3, 800), np.zeros(16)]
    x = np.concatenate(uniform).astype(np.float32)
    error = np.abs(_evaluate(simd.exp, x) / np.exp(x.astype(np.float64)) - 1)
    assert error.max() < 2e-7
    positive = [np.exp(rng.uniform(-87, 88, 4000)), 1 + rng.uniform(-0.3, 0.42, 4000), np.ones(16)]
    x = np.concatenate(positive).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    got = _evaluate(simd.log, x)
    off = got != exact
    assert np.abs((got[off] - exact[off]) / exact[off]).max() < 2e-7
    assert _evaluate(simd.log, np.zeros(16, np.float32))[0] < -80
    np.testing.assert_array_equal(_evaluate(simd.sqrt, x), np.sqrt(x))
    ends = _evaluate(simd.exp, np.repeat(np.float32([-1e9, 1e9]), 16))
    assert (ends > 0).all()
    assert np.isfinite(ends).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_of_matrices_equal_numpy(dtype: type) -> None:
    import numba

    from srs_eval.training import simd

    add_products: Any = simd.add_products
    add_outer_products: Any = simd.add_outer_products
    rows_of: Any = simd.rows_of

    @numba.njit
    def run(y: Any, w: Any, x: Any, sums: Any) -> None:
        add_products(rows_of(y), 1, w.ravel(), 4, 4, 1, rows_of(x), 2, 4, 3)
        add_products(rows_of(y), 5, w.ravel(), 0, 1, 4, rows_of(x), 0, 5, 2)
        add_outer_products(rows_of(sums), 1, 4, rows_of(y), 1, 2, rows_of(x), 0, 3, 2, 2, 3)

    rng = np.random.default_rng(1)
    lanes = elementwise.LANES if dtype is np.float64 else elementwise.SINGLE_LANES
    y, x, sums = (rng.normal(size=(n, lanes)).astype(dtype) for n in (7, 6, 9))
    w = rng.normal(size=(5, 4)).astype(dtype)
    expected_y, expected_sums = y.copy(), sums.copy()
    expected_y[1:4] += w[1:4] @ x[2:6]
    expected_y[5:7] += w.T[:2] @ x[:5]
    for r in range(2):
        for j in range(2):
            expected_sums[1 + 4 * j : 4 + 4 * j] += expected_y[1 + 2 * r + j] * x[3 * r : 3 * r + 3]
    run(y, w, x, sums)
    accuracy = 1e-13 if dtype is np.float64 else 2e-6
    np.testing.assert_allclose(y, expected_y, rtol=accuracy, atol=accuracy)
    np.testing.assert_allclose(sums, expected_sums, rtol=accuracy, atol=accuracy)


def mixed(x: Any) -> Any:
    held = elementwise.clamp(x, -0.5, 0.5)
    low = elementwise.minimum(x, 0.25) - 1.0 / (3.0 + x * x)
    high = elementwise.maximum(elementwise.where(x < 0.1, -x, 2.0 * x), 0.5)
    return held * high - low * elementwise.power(x * x + 1.0, 0.3)


def test_compiled_operations_equal_numpys() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=64)
    x[:8] = 0.5
    x[8:16] = -0.5
    np.testing.assert_allclose(_evaluate(_compile_step(mixed), x), mixed(x), rtol=1e-14)


def test_a_step_on_numbers_agrees_with_one_on_vectors() -> None:
    import numba

    step = _compile_step(mixed)

    @numba.njit
    def one_by_one(x: Any, out: Any) -> None:
        for k in range(len(x)):
            out[k] = step(x[k])

    x = np.random.default_rng(0).normal(size=64)
    alone = np.empty(64)
    one_by_one(x, alone)
    np.testing.assert_allclose(alone, _evaluate(step, x), rtol=1e-14)


def test_results_that_depend_on_no_vector_become_vectors() -> None:
    def constant(x: Any) -> Any:
        return 2.0

    assert _evaluate(_compile_step(constant), np.zeros(8)).tolist() == 8 * [2.0]


def test_zero_keeps_its_sign_in_a_step() -> None:
    def signs(x: Any) -> Any:
        return elementwise.where(1.0 / (x * 0.0) > 0.0, 1.0, 1.0 / (x * -0.0))

    values = _evaluate(_compile_step(signs), np.repeat([-1.0, 1.0], 8))
    assert values.tolist() == 8 * [np.inf] + 8 * [1.0]


def test_a_step_with_a_branch_is_refused() -> None:
    def branch(x: Any) -> Any:
        return x if x > 0.0 else -x

    with pytest.raises(Exception, match="a step has no branches"):
        _evaluate(_compile_step(branch), np.zeros(8))


def test_a_step_with_functions_of_math_is_refused() -> None:
    def step(x: Any) -> Any:
        return math.exp(x)

    with pytest.raises(Exception, match="elementwise, not with math"):
        _evaluate(_compile_step(step), np.zeros(8))


@pytest.mark.parametrize("change", [{"first": lambda rating, w: w[0]}, {"states": 3}])
def test_step_that_does_not_return_its_states_is_refused(
    change: dict[str, Any], trials: Trials
) -> None:
    model = replace(fsrs6.make_recurrent(0.001), name="REFUSED", **change)
    train = np.arange(64)
    with pytest.raises(TypeError, match="does not return a tuple of"):
        fit_recurrent(model, trials, train, np.ones(64), model.default, Context())


def add_to_gradient(x: Any, w: Any, w_bar: Any) -> None:
    w_bar[1] += w[0] * x
    w_bar[1] += 1.0


def test_gradients_are_added_in_memory() -> None:
    import numba

    from srs_eval.training import simd

    step = _compile_step(add_to_gradient)
    rows_of: Any = simd.rows_of
    load: Any = simd.load
    as_tuple: Any = simd.as_tuple

    @numba.njit
    def run(x: Any, w: Any, w_bar: Any) -> None:
        step(load(x, 0), as_tuple(w, 2), rows_of(w_bar))

    x = np.arange(8.0)
    w_bar = np.ones((2, 8))
    run(x, np.array([3.0, 0.0]), w_bar)
    np.testing.assert_array_equal(w_bar, [np.ones(8), 2.0 + 3.0 * x])


SCRIPT = """
import numpy as np
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Context, fsrs6
from srs_eval.training.compile import compile_kernel
from srs_eval.data.protocol import Protocol
from tools.simulated import simulate_learner
from srs_eval.training.recurrent import _kernel_of_model
trials = LearnerSession(simulate_learner(1, 300).log()).trials(Protocol(short=True))
train = trials.folds[-1].train
print(fsrs6.fit(trials, train, np.ones(len(train)), Context()))
kernel = _kernel_of_model(fsrs6.make_recurrent(0.001))
print(sum(kernel.stats.cache_misses.values()), sum(kernel.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_kernels_are_compiled_once_for_all_processes() -> None:
    """Check that the second process finds them on disk, named by their sources' digest."""
    answers = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.splitlines())
    assert answers[0][0] == answers[1][0]
    assert answers[1][1] == "0 1"
    from srs_eval.training.recurrent import _kernel_of_model

    kernel = _kernel_of_model(fsrs6.make_recurrent(0.001))
    digest = kernel.py_func.__name__.removeprefix("recurrent_pass_FSRS_6_")
    assert len(digest) == 16
    assert set(digest) <= set("0123456789abcdef")


# Records


class Columns(NamedTuple):
    rows: int
    number: IntArray
    small: Int32Array
    value: FloatArray
    factor: float


def add_up(table: IntArray, out: FloatArray) -> None:
    columns = unpack(table, Columns)
    for k in range(columns.rows):
        columns.value[k] += columns.factor * columns.number[k] + columns.small[k]
        out[0] += columns.value[k]


def test_kernel_reads_and_writes_the_arrays_of_a_record() -> None:
    columns = Columns(3, np.arange(3), np.full(3, 7, np.int32), np.ones(3), -0.5)
    out = np.zeros(1)
    compile_kernel(add_up)(pack(columns), out)  # type: ignore[arg-type]
    assert columns.value.tolist() == [8.0, 7.5, 7.0]
    assert out[0] == 22.5


@pytest.mark.parametrize("wrong", [np.arange(3.0), np.arange(6)[::2], np.arange(3, dtype=np.int32)])
def test_pack_refuses_arrays_of_another_type(wrong: Any) -> None:
    with pytest.raises(TypeError, match="number must be a contiguous array of int64"):
        pack(Columns(3, wrong, np.zeros(3, np.int32), np.ones(3), 1.0))


@pytest.mark.slow
def test_exp_and_log_of_many_values_equal_single_ones() -> None:
    from srs_eval.training import simd

    x = np.random.default_rng(0).normal(size=64)

    def many(x: Any) -> Any:
        exps = [elementwise.exp(x * k) for k in range(1, 8)]
        logs = [elementwise.log(elementwise.exp(x) + k) for k in range(3)]
        return (*exps, *logs)

    results = _evaluate_all(_compile_step(many), x, 10)
    for k in range(1, 8):
        np.testing.assert_array_equal(results[k - 1], _evaluate(simd.exp, x * k))
    for k in range(3):
        np.testing.assert_array_equal(
            results[7 + k], _evaluate(simd.log, _evaluate(simd.exp, x) + k)
        )


def _evaluate_all(function: Any, x: np.ndarray, results: int) -> np.ndarray:
    import numba

    from srs_eval.training import simd

    load: Any = simd.load
    store_state: Any = simd.store_state

    @numba.njit
    def run(x: Any, out: Any) -> None:
        for i in range(0, len(x), 8):
            store_state(out, i, function(load(x, i)))

    out = np.empty((results, len(x)))
    run(x, out)
    return out


def growth(state: Any, t: Any, rating: Any, w: Any) -> Any:
    s, d = state
    return s * elementwise.power(1.0 + t / s, w[0]) + rating, elementwise.exp(-w[1]) * d


@pytest.mark.parametrize("in_order", [True, False], ids=["as it was left", "left by another"])
def test_gradient_reads_the_tape_of_its_own_step(in_order: bool) -> None:
    import numba

    from srs_eval.training import simd
    from srs_eval.training.tracing import compute_tape_length, trace_with_tape

    gradient = Gradient(growth, ("state",), "w")
    derived = to_function(gradient)
    assert compute_tape_length(growth, derived, (2, 0, 0), 2) == 2  # log and exp
    step, adjoint = trace_with_tape(growth, derived)
    alone: Any = _compile_step(gradient)
    as_tuple: Any = simd.as_tuple
    load_state: Any = simd.load_state
    rows_from: Any = simd.rows_from
    rows_of: Any = simd.rows_of
    store_state: Any = simd.store_state

    @numba.njit
    def run(inputs: Any, w: Any, back: Any, w_bar: Any, tape: Any, slots: Any) -> None:
        values = as_tuple(w, 2)
        for i in range(2):
            s, d, t, rating = load_state(inputs, 8 * i, 4)
            step((s, d), t, rating, values, rows_from(tape, 16 * i))
        for i in range(2):
            s, d, t, rating = load_state(inputs, 8 * i, 4)
            recorded = rows_from(tape, 16 * slots[i])
            store_state(
                back, 8 * i, adjoint((s, d), t, rating, values, (t, d), rows_of(w_bar), recorded)
            )

    @numba.njit
    def run_alone(inputs: Any, w: Any, back: Any, w_bar: Any) -> None:
        for i in range(2):
            s, d, t, rating = load_state(inputs, 8 * i, 4)
            store_state(
                back, 8 * i, alone((s, d), t, rating, as_tuple(w, 2), (t, d), rows_of(w_bar))
            )

    inputs = np.random.default_rng(0).uniform(1.0, 5.0, (4, 16))
    w = np.array([0.3, 0.7])
    actual = np.empty((2, 16))
    exact = np.empty((2, 16))
    w_bar = np.zeros((2, 8))
    exact_w_bar = np.zeros((2, 8))
    slots = np.array([0, 1] if in_order else [1, 0])
    run(inputs, w, actual, w_bar, np.empty(32), slots)
    run_alone(inputs, w, exact, exact_w_bar)
    assert np.allclose(actual, exact, rtol=1e-14) == in_order
    assert np.allclose(w_bar, exact_w_bar, rtol=1e-14) == in_order
