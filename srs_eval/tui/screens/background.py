"""Runs the engine in a thread, so that the screen never freezes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from srs_eval.advice.answers import Answer
    from srs_eval.advice.saved_answers import Kept
    from srs_eval.engine.ranking import Group
    from srs_eval.engine.run import Event

EvaluateFunction = Callable[..., Iterator["Event"]]
"""Called like `engine.evaluate`: (log, names, protocol, *, jobs, context, cancel, use_cache)."""

AnswerFunction = Callable[..., Iterator[tuple[tuple["Answer", ...], tuple[str, ...]]]]
"""Called like `overview.overview`: (log, *, jobs, context, cancel)."""


class EngineEvent(Message):
    """Carries an event of the engine, posted from its thread; a result with the ranking then."""

    def __init__(self, run: int, event: Event, groups: list[Group] | None = None) -> None:
        super().__init__()
        self.run, self.event, self.groups = run, event, groups


class EngineEnded(Message):
    """The engine has ended, with an error or without."""

    def __init__(self, run: int, error: Exception | None) -> None:
        super().__init__()
        self.run, self.error = run, error


class Answered(Message):
    """Answers have come, and all to these questions."""

    def __init__(self, run: int, answers: tuple[Answer, ...], questions: tuple[str, ...]) -> None:
        super().__init__()
        self.run, self.answers, self.questions = run, answers, questions


class Remembered(Message):
    """What was answered before about the same file, some of which may be out of date."""

    def __init__(self, run: int, kept: Kept) -> None:
        super().__init__()
        self.run, self.kept = run, kept


class AllAnswered(Message):
    """No more answers come, because of an error or because there are no more."""

    def __init__(self, run: int, error: Exception | None) -> None:
        super().__init__()
        self.run, self.error = run, error


class Background:
    """Consumes what the engine yields in a thread of its own, in which `deliver` is called."""

    def __init__(
        self,
        events: Callable[[threading.Event], Iterator[Any]],
        deliver: Callable[[Any], None],
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
