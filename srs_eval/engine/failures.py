"""Describe errors that models and the program raise, for the people who read the results."""

from __future__ import annotations

import traceback

from srs_eval.data.errors import InputError, describe_error, error_message, shorten
from srs_eval.data.memory import is_memory_error
from srs_eval.engine.workers import WorkerDied

_MAX_TRACEBACK_CHARS = 10_000  # characters kept of its beginning, and as many of its end


def describe_failure(error: BaseException) -> tuple[str, str]:
    """Return a sentence that says why something failed, and the traceback if it was unexpected.

    The traceback is "" for unusable input, a dead worker and a lack of memory.
    """
    if isinstance(error, InputError | WorkerDied):
        return error_message(error), ""
    if is_memory_error(error):
        return "not enough memory", ""
    detail = "".join(traceback.format_exception(error)).encode("utf-8", "replace").decode()
    if len(detail) > 2 * _MAX_TRACEBACK_CHARS:
        detail = f"{detail[:_MAX_TRACEBACK_CHARS]}\n...\n{detail[-_MAX_TRACEBACK_CHARS:]}"
    description = describe_error(error)
    is_numpy_error = isinstance(error, ValueError) and "read-only" in description
    is_numba_error = "readonly array" in description
    if is_numpy_error or is_numba_error:
        description = (
            "The model writes to a read-only array. All models share the arrays that they are "
            f"given, so work on copies, as in trials.delta_t.copy() ({description})"
        )
    return shorten(description), detail
