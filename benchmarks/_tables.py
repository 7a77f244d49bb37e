"""Format the cells of the tables that benchmarks print."""

from __future__ import annotations

import math


def format_wilson(count: int, total: int) -> str:
    """Format a share with Wilson's 95 % interval: "95 % [84, 99] of 40"."""
    if not total:
        return "–"
    z = 1.96
    share = count / total
    centre = (share + z**2 / (2 * total)) / (1 + z**2 / total)
    spread = math.sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    half_width = z * spread / (1 + z**2 / total)
    low = max(100 * (centre - half_width), 0.0)
    high = 100 * (centre + half_width)
    return f"{100 * share:.0f} % [{low:.0f}, {high:.0f}] of {total}"
