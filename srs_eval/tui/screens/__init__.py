"""Screens of the terminal app."""

import importlib
import threading

_NEXT = ("evidence", "ranking", "details", "compare", "costs", "import_summary", "dialogs")


def import_ahead() -> None:
    """Import the answers' screen, and, while the person looks at it, what the next ones need."""
    importlib.import_module("srs_eval.tui.screens.answers")

    def others() -> None:
        importlib.import_module("scipy.special")  # of intervals
        for name in _NEXT:
            importlib.import_module(f"srs_eval.tui.screens.{name}")

    threading.Thread(target=others, daemon=True, name="imports").start()
