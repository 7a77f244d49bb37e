"""The order of batches in fsrs-rs."""

from __future__ import annotations

import numpy as np
import pytest

from srs_eval.training import optimisers as orders


def test_chacha_words_equal_the_published_vectors() -> None:
    """Compare with TC1 of draft-strombergson-chacha-test-vectors-01, which has a zero key.

    RFC 8439, 2.3.2, has vectors for 20 rounds only, the draft for 8, 12 and 20.
    """
    words = orders._chacha_words((0,) * 8)
    first = b"".join(next(words).to_bytes(4, "little") for _ in range(16))
    assert first.hex().startswith(
        "9bf49a6a0755f953811fce125f2683d50429c3bb49e074147e0089a52eae155f"
    )


@pytest.mark.parametrize("n", [0, 1, 2, 3, 12, 40, 300])
def test_every_shuffle_is_a_permutation(n: int) -> None:
    shuffles = orders.draw_rust_shuffles(n, 2023)
    drawn = [next(shuffles) for _ in range(20)]
    assert all(np.array_equal(np.sort(order), np.arange(n)) for order in drawn)
    if n >= 12:
        assert len({order.tobytes() for order in drawn}) == 20
    assert all(
        np.array_equal(a, b)
        for a, b in zip(drawn, orders.draw_rust_shuffles(n, 2023), strict=False)
    )


def test_all_orders_are_about_as_frequent() -> None:
    shuffles = orders.draw_rust_shuffles(4, 7)
    counts: dict[bytes, int] = {}
    for _ in range(4_800):
        key = next(shuffles).tobytes()
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 24
    chi_square = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert chi_square < 49.7  # 23 degrees of freedom: exceeded in one of 1,000 cases


def test_batch_bound_uses_a_whole_word() -> None:
    bound, count = orders._batch_bounds(2)
    assert bound == np.prod(np.arange(2, 2 + count, dtype=np.float64))
    assert bound <= 0xFFFFFFFF < bound * (2 + count)
