"""Exit codes of commands."""

from __future__ import annotations

SUCCESS = 0
PARTIAL_FAILURE = 1
"""Some models or users failed; the other results exist."""
BAD_INPUT = 2
INTERRUPTED = 130
