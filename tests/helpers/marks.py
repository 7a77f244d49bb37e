"""Mark the cases of a test."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest


def slow_except(fast: Collection[object], cases: Iterable[object]) -> list[object]:
    """Mark all cases slow except the fast ones.

    A case is the value of one argument, or a tuple with one value for each.
    """
    marked: list[object] = []
    for case in cases:
        if case in fast:
            marked.append(case)
        else:
            arguments = case if isinstance(case, tuple) else (case,)
            marked.append(pytest.param(*arguments, marks=pytest.mark.slow))
    return marked
