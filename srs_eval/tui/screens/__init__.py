"""Screens of the terminal app."""

import importlib
import threading

_NEXT = (
    "scipy.special",  # intervals
    *(
        f"srs_eval.tui.screens.{each}"
        for each in (
            *("evidence", "ranking", "details", "compare", "costs", "import_summary"),
            *("dialogs"),
        )
    ),
)


def import_ahead() -> None:
    """Import the answers' screen, and, while the person looks at it, what the next ones need."""
    importlib.import_module("srs_eval.tui.screens.answers")

    def others() -> None:
        for name in _NEXT:
            importlib.import_module(name)

    threading.Thread(target=others, daemon=True, name="imports").start()
