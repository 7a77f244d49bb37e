"""Runs the engine in a thread, so that the screen never freezes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from textual.message import Message

from srs_eval.engine import Event

EvaluateFunction = Callable[..., Iterator[Event]]
"""Called like `engine.evaluate`: (log, names, protocol, *, jobs, context, cancel, use_cache)."""


class EngineEvent(Message):
    """Carries an event of the engine, posted from the engine's thread."""

    def __init__(self, run: int, event: Event) -> None:
        super().__init__()
        self.run, self.event = run, event


class EngineEnded(Message):
    """The engine has ended, with an error or without."""

    def __init__(self, run: int, error: Exception | None) -> None:
        super().__init__()
        self.run, self.error = run, error


class Background:
    """Consumes the engine's events in a thread of its own; `deliver` is called in that thread."""

    def __init__(
        self,
        events: Callable[[threading.Event], Iterator[Event]],
        deliver: Callable[[Event], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self.cancel = threading.Event()
        self._events, self._deliver, self._ended = events, deliver, ended
        # A daemon, so that closing the app waits for it no longer than `stop` does.
        self._thread = threading.Thread(target=self._run, daemon=True, name="evaluation")

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 0.0) -> bool:
        """Ask it to end and wait up to `seconds`; True if it has ended."""
        self.cancel.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        error = None
        iterator = None
        try:
            iterator = self._events(self.cancel)
            for event in iterator:
                self._deliver(event)
                if self.cancel.is_set():
                    break
        except Exception as failure:
            error = failure
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()  # ends the workers
            self._ended(error)
