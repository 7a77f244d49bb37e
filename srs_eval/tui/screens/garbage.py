"""Garbage is collected between two turns of the app, not while a screen is drawn."""

from __future__ import annotations

import gc
from collections.abc import Callable

EVERY_S = 0.1  # a look whether there is enough
AWAY_S = 10.0  # without a key, until everything is looked through
_YOUNG = 3_000  # new objects: some milliseconds
_SOME = 4  # times _YOUNG
_MANY = 80_000  # that were needed at each look so far: 30 milliseconds
_USUAL = gc.get_threshold()
_SELDOM = 50_000, 1_000_000, 1_000_000  # new objects, until Python does it by itself


class Garbage:
    """When Python looks for it while an app runs: call `collect` every `EVERY_S` seconds.

    Textual keeps some 100,000 small objects for what it has drawn. Looking through them again
    and again for what nobody needs stops the app for up to a quarter of a second each time;
    what is new since the person was away, for a tenth of that, and what has just been made, for
    less. What a screen is made of is needed until it is left, which is soon: left out are only
    `_MANY` objects that have all been needed so far. They are looked at when the person is away.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._touched = monotonic()
        self._all_seen = True  # since the person is away

    def begin(self) -> None:
        """From here on by `collect` alone; what there is by now is left out of it."""
        gc.set_threshold(*_SELDOM)
        gc.freeze()

    def touched(self) -> None:
        """The person has done something."""
        self._touched = self._monotonic()
        self._all_seen = False

    def collect(self) -> None:
        """Between two turns."""
        new, times, _ = gc.get_count()
        if not self._all_seen and self._monotonic() - self._touched > AWAY_S:
            self._all_seen = True
            gc.unfreeze()
            gc.collect()
            gc.freeze()
        elif times >= _SOME:
            self._new()
        elif new > _YOUNG:
            gc.collect(0)

    def _new(self) -> None:
        gc.collect()
        if len(gc.get_objects(generation=2)) > _MANY:
            gc.freeze()

    def end(self) -> None:
        """As Python does it by itself."""
        gc.set_threshold(*_USUAL)
        gc.unfreeze()
