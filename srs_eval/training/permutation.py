"""The order of batches: torch.randperm of a seeded CPU generator, without torch.

ATen's CPU generator is the 32-bit Mersenne Twister (Matsumoto and Nishimura 1998);
randperm shuffles forward (Fisher-Yates) with `word % remaining`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from srs_eval.data.reviews import IntArray

_SIZE = 624
_SHIFT = 397


class _Words:
    """The generator's 32-bit words from one seed on, kept as they are asked for."""

    def __init__(self, seed: int) -> None:
        state = [seed & 0xFFFFFFFF]
        for k in range(1, _SIZE):
            before = state[-1]
            state.append((1812433253 * (before ^ (before >> 30)) + k) & 0xFFFFFFFF)
        self._state = state
        self._words: list[int] = []

    def __getitem__(self, index: int) -> int:
        while index >= len(self._words):
            self._next_block()
        return self._words[index]

    def _next_block(self) -> None:
        state = self._state
        for k in range(_SIZE):
            mixed = (state[k] & 0x80000000) | (state[(k + 1) % _SIZE] & 0x7FFFFFFF)
            twisted = state[(k + _SHIFT) % _SIZE] ^ (mixed >> 1)
            state[k] = twisted ^ 0x9908B0DF if mixed & 1 else twisted
        for word in state:
            word ^= word >> 11
            word ^= (word << 7) & 0x9D2C5680
            word ^= (word << 15) & 0xEFC60000
            self._words.append(word ^ (word >> 18))


@cache
def _words(seed: int) -> _Words:
    return _Words(seed)


def permutations(n: int, seed: int) -> Iterator[IntArray]:
    """Successive `torch.randperm(n, generator=g)` of one generator g seeded with `seed`.

    Equal for n below about 2**32 / 20, where torch draws one word an element.
    """
    words = _words(seed)
    used = 0
    while True:
        order = list(range(n))
        for k in range(n - 1):
            other = k + words[used] % (n - k)
            used += 1
            order[k], order[other] = order[other], order[k]
        yield np.array(order, np.int64)
