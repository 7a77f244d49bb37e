"""List the entries of the package in the order of their imports."""

from __future__ import annotations

ORDER = (
    "data",
    "metrics",
    "stats",
    "anki_import",
    "training",
    "models",
    "engine",
    "advice",
    "benchmark",
    "batch",
    "report",
    "tui",
    "app",
    "cli",
    "__main__",
    "__init__",
)
"""The entries of the package, lowest first: each imports only entries before it."""
