"""Damaged content for tests with random examples.

`SRS_EVAL_FUZZ` says how many times as many examples are tried. From a hundred on, each run tries
other examples (`make fuzz`).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = int(os.environ.get("SRS_EVAL_FUZZ", "1"))


def examples(number: int) -> settings:
    """Return settings that try `number` examples, times `SRS_EVAL_FUZZ`."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=number * TIMES, derandomize=TIMES < 100, suppress_health_check=slow
    )


def damage(content: bytes, data: st.DataObject) -> bytes:
    """Return the content with flipped bits, cut, or with strange bytes inserted or written over."""
    method = data.draw(st.sampled_from(("flip", "cut", "insert", "overwrite")))
    if method == "flip":
        flipped = bytearray(content)
        positions = st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)
        for position in data.draw(positions):
            flipped[position] ^= 1 << data.draw(st.integers(0, 7))
        return bytes(flipped)
    position = data.draw(st.integers(0, len(content)))
    head = content[:position]
    if method == "cut":
        return head
    strange = data.draw(st.binary(max_size=600))
    if method == "insert":
        return head + strange + content[position:]
    return head + strange + content[position + len(strange) :]
