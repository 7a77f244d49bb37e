"""Check the search for a minimum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.stats.search import find_minimum


@given(st.floats(-5, 5), st.floats(0.1, 10))
def test_minimum_of_a_parabola_is_found(where: float, scale: float) -> None:
    found = find_minimum(lambda x: scale * (x - where) ** 2, -5, 5, tolerance=1e-6)
    assert found == pytest.approx(where, abs=1e-5)


def test_minimum_at_a_bound_is_found() -> None:
    assert find_minimum(lambda x: x, -1, 2, tolerance=1e-9) == pytest.approx(-1)
    assert find_minimum(lambda x: -x, -1, 2, tolerance=1e-9) == pytest.approx(2)
