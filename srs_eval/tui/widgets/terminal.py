"""Writing to a terminal that may be closed at any moment."""

from __future__ import annotations

import contextlib
from typing import Any

from textual.driver import Driver


def lasting(driver: type[Driver]) -> type[Driver]:
    """A driver of Textual's whose output never fails.

    Textual writes in a thread through a queue of 30 places. Where the terminal is gone, that
    thread ends with an error, and as soon as the queue is full the app waits for it for ever.
    """

    class Lasting(driver):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if getattr(self, "_file", None) is not None:
                self._file: Any = _Unfailing(self._file)

    return Lasting


class _Unfailing:
    """A text file that takes whatever is written, also when nobody can read it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
