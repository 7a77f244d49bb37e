"""The orders of rows and batches in which others train, without their libraries.

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

from collections.abc import Iterator
from functools import cache

import numpy as np

from srs_eval.data.reviews import IntArray


def quicksort_order(keys: IntArray) -> IntArray:
    """Positions (n,) that sort `keys`, which are not negative, ties in plain quicksort's order.

    numpy has SIMD routines for numbers, but sorts times, which lie in memory as integers do,
    by the plain one on every processor.
    """
    times = np.ascontiguousarray(keys, np.int64).view("timedelta64[s]")
    return np.argsort(times, kind="quicksort").astype(np.int64, copy=False)


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
    words = _random_words(seed)
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


def _random_words(seed: int) -> Iterator[int]:
    """What StdRng gives from a seed, 32 bits at a time."""
    return _words(_key(seed))


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
