"""One thing, several things."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """ "1 user", "1,000 users"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
