"""Optimisers and orders of rows as in other programs, without their libraries.

Adam: Kingma and Ba (2014), with cosine annealing (Loshchilov and Hutter 2016).
L-BFGS with a strong Wolfe line search, in the steps of torch.optim.LBFGS: Nocedal and Wright,
Numerical Optimization (2006), algorithms 3.5, 3.6 and 7.4; limits and tolerances as in
torch/optim/lbfgs.py, so that a fit takes the same path.

numpy's plain quicksort: fsrs-optimizer 5.x sorts training rows by sequence length with an
unstable sort, so that the order of ties decides which rows share a batch. That order is the one of
`numpy.argsort(kind="quicksort")` without SIMD routines (numpy/_core/src/npysort):
quicksort with a stack, median of three, insertion sort for runs of up to 16,
heapsort where a run is split too often.

torch's randperm: ATen's CPU generator is the 32-bit Mersenne Twister (Matsumoto and Nishimura
1998); randperm shuffles forward (Fisher-Yates) with `word % remaining`.

fsrs-rs uses `shuffle` of Rust's crate rand 0.10 with a seeded `StdRng`, which is ChaCha (Bernstein,
2008, Workshop Record of SASC) with 12 rounds; PCG-XSH-RR (O'Neill, 2014, HMC-CS-2014-0905) draws
its key from the seed. The shuffle is Fisher and Yates', from the front, and draws as many indices
at a time as one 32-bit word suffices for (rand: src/seq/slice.rs,
src/seq/increasing_uniform.rs, src/distr/uniform_int.rs; rand_core: `seed_from_u64`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.training.hyperparameters import SEED, Context

_ValueAndGradient = Callable[[FloatArray], tuple[float, FloatArray]]

_SHUFFLE_SEED = 2025
_SUFFICIENT_DECREASE = 1e-4  # c1
_CURVATURE = 0.9  # c2


@dataclass(frozen=True, eq=False)
class _LinePoint:
    """A point on the line: step length, value, gradient and slope along the line."""

    t: float
    f: float
    g: FloatArray
    slope: float


def anneal(rate: float, steps_done: int, steps: int) -> float:
    """Return the learning rate after `steps_done` of `steps` steps, along half a falling cosine."""
    return rate * (1.0 + np.cos(np.pi * steps_done / steps)) / 2.0


def compute_adam_step(
    rate: float, mean: Any, square: Any, bias_mean: float, bias_square: float
) -> Any:
    """Return the amount that a step of Adam subtracts from weights.

    `mean` and `square` are the running means of the gradient and of its square. The biases are
    1 - beta**steps; for the square, the root of that. Callers update the means themselves: by
    b m + (1 - b) g or by m + (1 - b)(g - m), like the program that they follow, since the two round
    differently. The function is compiled into kernels, too.
    """
    return rate / bias_mean * mean / (np.sqrt(square) / bias_square + 1e-8)


def minimise_by_lbfgs(
    objective: _ValueAndGradient,
    start: FloatArray,
    *,
    iterations: int,
    history: int,
    tolerance_gradient: float,
    tolerance_change: float,
) -> FloatArray:
    """Return the point (k,) where L-BFGS ends.

    Evaluations are limited to 1.25 * iterations, as in torch; the last line search may make one
    more.
    """
    x = start.copy()
    f, g = objective(x)
    evaluations = 1
    max_evaluations = iterations * 5 // 4
    if np.abs(g).max() <= tolerance_gradient:
        return x
    steps: list[FloatArray] = []
    changes: list[FloatArray] = []
    scale = 1.0
    direction = -g
    t = 0.0
    g_before = g
    for iteration in range(iterations):
        if iteration:
            step = direction * t
            change = g - g_before
            curvature = float(change @ step)
            if curvature > 1e-10:
                steps = [*steps, step][-history:]
                changes = [*changes, change][-history:]
                scale = curvature / float(change @ change)
            direction = _apply_inverse_hessian(-g, steps, changes, scale)
        g_before = g
        f_before = f
        t = min(1.0, 1.0 / float(np.abs(g).sum())) if not iteration else 1.0
        slope = float(g @ direction)
        if slope > -tolerance_change:
            break

        def evaluate(t: float, x: FloatArray = x, direction: FloatArray = direction) -> _LinePoint:
            f, g = objective(x + t * direction)
            return _LinePoint(t, f, g, float(g @ direction))

        end, new_evaluations = _line_search(
            evaluate,
            _LinePoint(0.0, f, g, slope),
            t,
            float(np.abs(direction).max()),
            tolerance_change,
            max_evaluations - evaluations,
        )
        t = end.t
        f = end.f
        g = end.g
        x = x + t * direction
        evaluations += new_evaluations
        if (
            evaluations >= max_evaluations
            or np.abs(g).max() <= tolerance_gradient
            or np.abs(direction * t).max() <= tolerance_change
            or abs(f - f_before) < tolerance_change
        ):
            break
    return x


def _apply_inverse_hessian(
    q: FloatArray, steps: list[FloatArray], changes: list[FloatArray], scale: float
) -> FloatArray:
    """Return the product of q and the approximate inverse Hessian, by the two-loop recursion."""
    shares = []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        share = float(step @ q) / float(change @ step)
        q = q - share * change
        shares.append(share)
    q = q * scale
    for step, change, share in zip(steps, changes, reversed(shares), strict=True):
        q = q + step * (share - float(change @ q) / float(change @ step))
    return q


def _line_search(
    evaluate: Callable[[float], _LinePoint],
    origin: _LinePoint,
    t: float,
    direction_norm: float,
    tolerance: float,
    max_evaluations: int,
) -> tuple[_LinePoint, int]:
    """Return a point with enough decrease and a flat enough slope, and the evaluations used.

    There are at most `max_evaluations` after the first one.
    """
    previous = origin
    point = evaluate(t)
    searches = 0
    bracket: list[_LinePoint] = []
    while searches < max_evaluations:
        if not _decreases_enough(point, origin) or (searches > 1 and point.f >= previous.f):
            bracket = [previous, point]
            break
        if abs(point.slope) <= -_CURVATURE * origin.slope:
            return point, searches + 1
        if point.slope >= 0:
            bracket = [previous, point]
            break
        low = point.t + 0.01 * (point.t - previous.t)
        t = _cubic_minimum(previous, point, low, point.t * 10)
        previous = point
        point = evaluate(t)
        searches += 1
    if not bracket:
        bracket = [origin, point]

    stuck = False  # the point before was close to an end of the bracket, too
    best = int(bracket[0].f > bracket[1].f)
    while searches < max_evaluations:
        low, high = sorted(end.t for end in bracket)
        if (high - low) * direction_norm < tolerance:
            break
        t = _cubic_minimum(bracket[0], bracket[1], low, high)
        margin = 0.1 * (high - low)
        if min(high - t, t - low) < margin:
            if stuck or t >= high or t <= low:
                t = high - margin if abs(t - high) < abs(t - low) else low + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        point = evaluate(t)
        searches += 1
        if not _decreases_enough(point, origin) or point.f >= bracket[best].f:
            bracket[1 - best] = point
            best = int(bracket[0].f > bracket[1].f)
        else:
            if abs(point.slope) <= -_CURVATURE * origin.slope:
                bracket[best] = point
                break
            if point.slope * (bracket[1 - best].t - bracket[best].t) >= 0:
                bracket[1 - best] = bracket[best]
            bracket[best] = point
    return bracket[best], searches + 1


def _decreases_enough(point: _LinePoint, origin: _LinePoint) -> bool:
    return point.f <= origin.f + _SUFFICIENT_DECREASE * point.t * origin.slope


def _cubic_minimum(a: _LinePoint, b: _LinePoint, low: float, high: float) -> float:
    """Return the minimum of the cubic through two points with slopes, within low ... high."""
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    if a.t > b.t:
        a, b = b, a
    rise = b.slope - a.slope + 2 * d2
    if rise == 0:
        return (low + high) / 2
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / rise)
    return min(max(t, low), high)


# Orders


def argsort_by_quicksort(keys: IntArray) -> IntArray:
    """Return positions (n,) that sort non-negative `keys`, ties in plain quicksort's order.

    The keys are sorted as times: numpy sorts numbers with SIMD routines on some processors, but
    times, which are stored like integers, by plain quicksort on all of them.
    """
    times = np.ascontiguousarray(keys, np.int64).view("timedelta64[s]")
    return np.argsort(times, kind="quicksort").astype(np.int64, copy=False)


def compute_relative_recency_weights(n: int, weight: float, degree: float) -> FloatArray:
    """Return weights of n training rows in review order, 1 + weight x^degree over their mean."""
    weights = 1.0 + weight * np.power(np.linspace(0, 1, n), degree)
    scaled: FloatArray = weights * (n / weights.sum())
    return scaled


def select_training_rows(
    trials: Trials, train: IntArray, max_reviews: int | None = None
) -> IntArray:
    """Select the rows whose histories are not too long to train on.

    A history has at most `max_reviews` reviews; None stands for the protocol's `max_seq_len`.
    Raises NotEnoughData if no row is left.
    """
    if max_reviews is None:
        max_reviews = trials.protocol.max_seq_len
    rows = train[trials.sequence_length[train] <= max_reviews]
    if not len(rows):
        raise NotEnoughData("all histories are too long to train on")
    return rows


def spread_over_trials(trials: Trials, train: IntArray, weights: FloatArray) -> FloatArray:
    """Return weights of all trials (n,): `weights` for the rows `train`, 1 for the others."""
    spread = np.ones(len(trials))
    spread[train] = weights
    return spread


def sort_by_length(trials: Trials, rows: IntArray) -> IntArray:
    """Sort rows by history length, ties in the order that fsrs-optimizer 5 gives them."""
    return rows[argsort_by_quicksort(trials.sequence_length[rows])]


def shuffle_rows(trials: Trials, train: IntArray, context: Context) -> IntArray:
    """Return the rows to train on, in random order."""
    random = np.random.RandomState(_SHUFFLE_SEED + SEED.integer_in(context))
    return select_training_rows(trials, train[random.permutation(len(train))])


def compute_batch_seed(context: Context) -> int:
    """Return the seed for the order of batches, as srs-benchmark draws it."""
    return 2023 + SEED.integer_in(context)


@cache
def _random_words_of(seed: int) -> tuple[np.random.RandomState, list[int]]:
    """Return a seed's generator and the words that it has drawn; fits with one seed share them."""
    return np.random.RandomState(seed & 0xFFFFFFFF), []


def draw_permutations(n: int, seed: int) -> Iterator[IntArray]:
    """Yield the permutations that torch.randperm(n) returns, call after call, from one seed.

    This holds for n below about 2**32 / 20, where torch draws one word per element.
    """
    random, words = _random_words_of(seed)
    used = 0
    while True:
        if used + n > len(words):
            words += random.randint(2**32, size=n + 1_000, dtype=np.uint32).tolist()
        order = list(range(n))
        for k in range(n - 1):
            other = k + words[used + k] % (n - k)
            order[k], order[other] = order[other], order[k]
        used += max(n - 1, 0)
        yield np.array(order, np.int64)


# Rust's shuffle

_MASK = 0xFFFFFFFF  # 32 bits
_ROUNDS = 12
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def draw_rust_shuffles(n: int, seed: int) -> Iterator[IntArray]:
    """Yield 0 ... n - 1 as fsrs-rs shuffles them, again and again with one generator."""
    words = _chacha_words(_derive_chacha_key(seed))
    while True:
        order = list(range(n))
        word = 0
        indices_left = 1  # the first index is 0 without any word
        for k in range(n):
            if indices_left == 0:
                bound, indices_left = _batch_bounds(k + 1)
                word = _draw_below(bound, words)
            indices_left -= 1
            other = word if indices_left == 0 else word % (k + 1)
            word //= k + 1
            order[k], order[other] = order[other], order[k]
        yield np.array(order, np.int64)


def _batch_bounds(m: int) -> tuple[int, int]:
    """Return the largest product m (m + 1) ... that fits in 32 bits, and its number of factors.

    A number below the product gives an index below each factor.
    """
    bound = m
    count = 1
    while bound * (m + count) <= _MASK:
        bound *= m + count
        count += 1
    return bound, count


def _draw_below(bound: int, words: Iterator[int]) -> int:
    """Draw a number below `bound` by Canon's method, nearly without bias."""
    product = next(words) * bound
    high = product >> 32
    low = product & _MASK
    if low > (-bound & _MASK):
        carries = low + (next(words) * bound >> 32) > _MASK
        if carries:
            high += 1
    return high


def _derive_chacha_key(seed: int) -> tuple[int, ...]:
    """Return the key (8 words) that rand's `seed_from_u64` derives from a seed."""
    words = []
    for _ in range(8):
        seed = (seed * 6364136223846793005 + 11634580027462260723) % (1 << 64)
        word = ((seed >> 18 ^ seed) >> 27) & _MASK
        words.append(_rotate_left(word, 32 - (seed >> 59)))
    return tuple(words)


def _chacha_words(key: tuple[int, ...]) -> Iterator[int]:
    """Yield ChaCha's output, 32 bits at a time."""
    block = 0
    while True:
        start = [*_CONSTANTS, *key, block & _MASK, block >> 32, 0, 0]
        state = start.copy()
        for _ in range(_ROUNDS // 2):
            for quarter in (*_COLUMNS, *_DIAGONALS):
                _mix_quarter(state, *quarter)
        yield from ((a + b) & _MASK for a, b in zip(state, start, strict=True))
        block += 1


def _mix_quarter(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """Apply ChaCha's quarter round to the words a, b, c and d of the state."""
    for target, addend, mixed, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[target] = (state[target] + state[addend]) & _MASK
        state[mixed] = _rotate_left(state[mixed] ^ state[target], bits)


def _rotate_left(word: int, bits: int) -> int:
    bits %= 32
    return (word << bits | word >> (32 - bits)) & _MASK
