"""How others train, without their libraries: steps of optimisers, orders of rows and batches.

Adam: Kingma and Ba (2014), with cosine annealing (Loshchilov and Hutter 2016).
L-BFGS with a strong Wolfe line search, in the steps of torch.optim.LBFGS: Nocedal and Wright,
Numerical Optimization (2006), algorithms 3.5, 3.6 and 7.4; limits and tolerances as in
torch/optim/lbfgs.py, so that a fit takes the same path.

numpy's plain quicksort: fsrs-optimizer 5.x sorts training rows by sequence length with an
unstable sort, and so the order of ties decides which rows share a batch. It is that of
`numpy.argsort(kind="quicksort")` without SIMD routines (numpy/_core/src/npysort):
quicksort with a stack, median of three, insertion sort for parts of up to 16,
heapsort where a part is split too often.

torch's randperm: ATen's CPU generator is the 32-bit Mersenne Twister (Matsumoto and Nishimura
1998); randperm shuffles forward (Fisher-Yates) with `word % remaining`.

fsrs-rs' `shuffle` of Rust's crate rand 0.10 with a seeded `StdRng`: that is ChaCha (Bernstein,
2008, Workshop Record of SASC) with 12 rounds, its key drawn from the seed by PCG-XSH-RR (O'Neill,
2014, HMC-CS-2014-0905); the shuffle is Fisher and Yates', from the front, and takes several
indices out of each 32-bit word as long as it suffices (rand: src/seq/slice.rs,
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

_Objective = Callable[[FloatArray], tuple[float, FloatArray]]

_SHUFFLE_SEED = 2025
_DECREASE = 1e-4  # c1
_CURVATURE = 0.9  # c2


@dataclass(frozen=True, eq=False)
class _Point:
    """A place on the line: step length, value, gradient and slope along the line."""

    t: float
    f: float
    g: FloatArray
    slope: float


def annealed(rate: float, done: int, steps: int) -> float:
    """The learning rate after `done` of `steps` steps, along half a cosine."""
    return rate * (1.0 + np.cos(np.pi * done / steps)) / 2.0


def adam_step(rate: float, mean: Any, square: Any, bias_mean: float, bias_square: float) -> Any:
    """What a step takes off weights, by the running means of the gradient and of its square.

    The biases are 1 - beta**steps, of the square its root. Callers run the means themselves: by
    b m + (1 - b) g or by m + (1 - b)(g - m), as what they follow does, which rounds differently.
    Compiled into kernels, too.
    """
    return rate / bias_mean * mean / (np.sqrt(square) / bias_square + 1e-8)


def minimise(
    objective: _Objective,
    start: FloatArray,
    *,
    iterations: int,
    history: int,
    tolerance_gradient: float,
    tolerance_change: float,
) -> FloatArray:
    """Where the search ends (k,); at most 1.25 * iterations evaluations, as in torch."""
    x = start.copy()
    f, g = objective(x)
    evaluations, most = 1, iterations * 5 // 4
    if np.abs(g).max() <= tolerance_gradient:
        return x
    steps: list[FloatArray] = []
    changes: list[FloatArray] = []
    scale = 1.0
    direction, t, before = -g, 0.0, g
    for iteration in range(iterations):
        if iteration:
            step, change = direction * t, g - before
            curvature = float(change @ step)
            if curvature > 1e-10:
                steps, changes = [*steps, step][-history:], [*changes, change][-history:]
                scale = curvature / float(change @ change)
            direction = _two_loops(-g, steps, changes, scale)
        before, f_before = g, f
        t = min(1.0, 1.0 / float(np.abs(g).sum())) if not iteration else 1.0
        slope = float(g @ direction)
        if slope > -tolerance_change:
            break

        def along(t: float, x: FloatArray = x, direction: FloatArray = direction) -> _Point:
            f, g = objective(x + t * direction)
            return _Point(t, f, g, float(g @ direction))

        found, used = _line_search(
            along,
            _Point(0.0, f, g, slope),
            t,
            float(np.abs(direction).max()),
            tolerance_change,
            most - evaluations,
        )
        t, f, g = found.t, found.f, found.g
        x = x + t * direction
        evaluations += used
        if (
            evaluations >= most
            or np.abs(g).max() <= tolerance_gradient
            or np.abs(direction * t).max() <= tolerance_change
            or abs(f - f_before) < tolerance_change
        ):
            break
    return x


def _two_loops(
    q: FloatArray, steps: list[FloatArray], changes: list[FloatArray], scale: float
) -> FloatArray:
    """The product of the inverse Hessian's approximation with q."""
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
    along: Callable[[float], _Point],
    origin: _Point,
    t: float,
    length: float,
    tolerance: float,
    most: int,
) -> tuple[_Point, int]:
    """A point with enough decrease and a flat enough slope, and the evaluations used,
    `most` after the first."""
    previous = origin
    now = along(t)
    searches = 0
    bracket: list[_Point] = []
    while searches < most:
        if not _decreases(now, origin) or (searches > 1 and now.f >= previous.f):
            bracket = [previous, now]
            break
        if abs(now.slope) <= -_CURVATURE * origin.slope:
            return now, searches + 1
        if now.slope >= 0:
            bracket = [previous, now]
            break
        low = now.t + 0.01 * (now.t - previous.t)
        t = _cubic_minimum(previous, now, low, now.t * 10)
        previous, now = now, along(t)
        searches += 1
    if not bracket:
        bracket = [origin, now]

    stuck = False
    best = int(bracket[0].f > bracket[1].f)
    while searches < most:
        left, right = sorted(point.t for point in bracket)
        if (right - left) * length < tolerance:
            break
        t = _cubic_minimum(bracket[0], bracket[1], left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = along(t)
        searches += 1
        if not _decreases(now, origin) or now.f >= bracket[best].f:
            bracket[1 - best] = now
            best = int(bracket[0].f > bracket[1].f)
        else:
            if abs(now.slope) <= -_CURVATURE * origin.slope:
                bracket[best] = now
                break
            if now.slope * (bracket[1 - best].t - bracket[best].t) >= 0:
                bracket[1 - best] = bracket[best]
            bracket[best] = now
    return bracket[best], searches + 1


def _decreases(point: _Point, origin: _Point) -> bool:
    return point.f <= origin.f + _DECREASE * point.t * origin.slope


def _cubic_minimum(a: _Point, b: _Point, low: float, high: float) -> float:
    """Least value of the cubic through two points with their slopes, within low ... high."""
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


def quicksort_order(keys: IntArray) -> IntArray:
    """Positions (n,) that sort `keys`, which are not negative, ties in plain quicksort's order.

    numpy has SIMD routines for numbers, but sorts times, which lie in memory as integers do,
    by the plain one on every processor.
    """
    times = np.ascontiguousarray(keys, np.int64).view("timedelta64[s]")
    return np.argsort(times, kind="quicksort").astype(np.int64, copy=False)


def recency(n: int, weight: float, degree: float) -> FloatArray:
    """Training weights of n rows in order of review, 1 + weight x^degree over their mean."""
    weights = 1.0 + weight * np.power(np.linspace(0, 1, n), degree)
    scaled: FloatArray = weights * (n / weights.sum())
    return scaled


def training_rows(trials: Trials, train: IntArray, longest: int | None = None) -> IntArray:
    """The rows that are trained on: those with a history that is not too long.

    Of `max_seq_len` reviews at most where `longest` is not given. Raises NotEnoughData for none.
    """
    longest = trials.protocol.max_seq_len if longest is None else longest
    rows = train[trials.sequence_length[train] <= longest]
    if not len(rows):
        raise NotEnoughData("all histories are too long to train on")
    return rows


def by_trial(trials: Trials, train: IntArray, weights: FloatArray) -> FloatArray:
    """Weights of the rows `train` at their places among all trials (n,), elsewhere 1."""
    found = np.ones(len(trials))
    found[train] = weights
    return found


def length_order(trials: Trials, rows: IntArray) -> IntArray:
    """Rows by history length, ties in the order that fsrs-optimizer 5 gives them."""
    return rows[quicksort_order(trials.sequence_length[rows])]


def shuffled_rows(trials: Trials, train: IntArray, context: Context) -> IntArray:
    """The rows that are trained on, in random order."""
    random = np.random.RandomState(_SHUFFLE_SEED + SEED.integer(context))
    return training_rows(trials, train[random.permutation(len(train))])


def batch_seed(context: Context) -> int:
    """Of the order of batches, as srs-benchmark draws it."""
    return 2023 + SEED.integer(context)


@cache
def _words_of(seed: int) -> tuple[np.random.RandomState, list[int]]:
    """The generator of a seed, and the words that it has given; fits of one seed share them."""
    return np.random.RandomState(seed & 0xFFFFFFFF), []


def permutations(n: int, seed: int) -> Iterator[IntArray]:
    """Successive `torch.randperm(n, generator=g)` of one generator g seeded with `seed`.

    Equal for n below about 2**32 / 20, where torch draws one word an element.
    """
    random, words = _words_of(seed)
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


_MASK = 0xFFFFFFFF
_ROUNDS = 12
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def shuffles(n: int, seed: int) -> Iterator[IntArray]:
    """0 ... n - 1, shuffled anew each time by one generator."""
    words = _words(_key(seed))
    while True:
        order = list(range(n))
        word, left = 0, 1  # the first index is 0 without any word
        for k in range(n):
            if not left:
                bound, left = _several(k + 1)
                word = _below(bound, words)
            left -= 1
            other = word if not left else word % (k + 1)
            word //= k + 1
            order[k], order[other] = order[other], order[k]
        yield np.array(order, np.int64)


def _several(m: int) -> tuple[int, int]:
    """The largest product m (m + 1) ... of 32 bits, and how many factors it has."""
    bound, count = m, 1
    while bound * (m + count) <= _MASK:
        bound *= m + count
        count += 1
    return bound, count


def _below(bound: int, words: Iterator[int]) -> int:
    """A number below `bound`, nearly without bias."""
    product = next(words) * bound
    high, low = product >> 32, product & _MASK
    if low > (-bound & _MASK):
        high += low + (next(words) * bound >> 32) > _MASK
    return high


def _key(seed: int) -> tuple[int, ...]:
    words = []
    for _ in range(8):
        seed = (seed * 6364136223846793005 + 11634580027462260723) % (1 << 64)
        word = ((seed >> 18 ^ seed) >> 27) & _MASK
        words.append(_rotated(word, 32 - (seed >> 59)))
    return tuple(words)


def _words(key: tuple[int, ...]) -> Iterator[int]:
    """ChaCha's output, 32 bits at a time."""
    block = 0
    while True:
        start = [*_CONSTANTS, *key, block & _MASK, block >> 32, 0, 0]
        state = start.copy()
        for _ in range(_ROUNDS // 2):
            for quarter in (*_COLUMNS, *_DIAGONALS):
                _mix(state, *quarter)
        yield from ((a + b) & _MASK for a, b in zip(state, start, strict=True))
        block += 1


def _mix(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for here, there, by, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[here] = (state[here] + state[there]) & _MASK
        state[by] = _rotated(state[by] ^ state[here], turn)


def _rotated(word: int, left: int) -> int:
    left %= 32
    return (word << left | word >> (32 - left)) & _MASK
