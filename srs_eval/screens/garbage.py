"""Garbage is collected between two keys, not while a screen is drawn."""

from __future__ import annotations

import gc
from collections.abc import Callable

IDLE_S, BUSY_S = 1.0, 30.0  # without a key, until garbage is collected; with keys all the time
_USUAL = gc.get_threshold()
_SELDOM = 5_000, 1_000_000, 1_000_000  # of what has just been made, all by themselves


class Garbage:
    """When Python looks for it while an app runs: call `collect` every `IDLE_S` seconds.

    Textual keeps some 100,000 small objects for what it has drawn. Looking through them again
    and again for what nobody needs stops the app for up to a quarter of a second each time;
    what is new since the last time, for a tenth of that.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._touched = self._collected = monotonic()

    def begin(self) -> None:
        """From here on by `collect` alone; what there is by now is left out of it."""
        gc.set_threshold(*_SELDOM)
        gc.freeze()
        self._collected = self._monotonic()

    def touched(self) -> None:
        """The person has done something."""
        self._touched = self._monotonic()

    def collect(self) -> None:
        """Between two keys; what survives is left out of the next time."""
        now = self._monotonic()
        if now - self._touched > IDLE_S or now - self._collected > BUSY_S:
            self._collected = now
            gc.collect()
            gc.freeze()

    def let_go(self) -> None:
        """Look through everything the next time: much of it is needed no more."""
        gc.unfreeze()

    def end(self) -> None:
        """As Python does it by itself."""
        gc.set_threshold(*_USUAL)
        gc.unfreeze()
