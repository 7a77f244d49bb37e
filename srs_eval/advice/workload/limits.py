"""Find where the limits of reviews and of new cards a day decide the figures of a simulation.

Under a limit of reviews that is often reached, minutes say how long the limit takes and not what a
desired retention costs, and cards that wait are remembered less. Such figures are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.advice.workload.simulator import SimulationResult

_BINDING_SHARE = 0.3
"""A limit of reviews determines the figures if cards wait on at least this share of the days.
Below it, minutes of simulated decks differed by less than 3 % on average from those without a
limit; where cards waited on most days, by 5 to 80 %."""

_MIN_SHARE_WAITING = 0.1
"""Share of all waiting cards that wait for a limit, from which on the limit is named."""


@dataclass(frozen=True)
class DailyLimit:
    """A preset's limit of reviews or of new cards a day."""

    preset: str
    cards: int


@dataclass(frozen=True)
class LimitEffects:
    """Effects of the daily limits in all simulations of one schedule so far."""

    waiting_shares: tuple[float, ...]
    """Share of each simulation's days on which due cards wait for the limit of reviews."""
    new_cards: tuple[int, ...]  # number of new cards that each simulation introduces

    @property
    def is_limited(self) -> bool:
        """Return True if the limit of reviews decides the figures of at least half of them."""
        return float(np.median(self.waiting_shares)) >= _BINDING_SHARE

    @property
    def mean_new_cards(self) -> float:
        return float(np.mean(self.new_cards))

    def join(self, later: LimitEffects) -> LimitEffects:
        """Return the effects in these and in later simulations."""
        return LimitEffects(
            (*self.waiting_shares, *later.waiting_shares), (*self.new_cards, *later.new_cards)
        )


def measure_effects(runs: Sequence[Sequence[SimulationResult]]) -> LimitEffects:
    """Measure the effects in the runs of a schedule; each run has a result for each preset."""
    waiting_shares = []
    new_cards = []
    for results in runs:
        waiting = np.sum([result.waiting for result in results], axis=0)
        waiting_shares.append(float((waiting > 0).mean()))
        new_cards.append(int(sum(result.new.sum() for result in results)))
    return LimitEffects(tuple(waiting_shares), tuple(new_cards))


def find_review_limits(
    limits: Sequence[DailyLimit], runs: Sequence[Sequence[SimulationResult]]
) -> tuple[DailyLimit, ...]:
    """Return the limits of reviews for which cards wait, the one for which most wait first.

    The limits and the results of each run are those of the same presets. A limit for which few of
    all waiting cards wait is left out.
    """
    waiting = np.zeros(len(limits))
    for results in runs:
        waiting += [result.waiting.sum() for result in results]
    if not waiting.any():
        return ()
    shares = waiting / waiting.sum()
    order = np.argsort(-waiting, kind="stable")
    return tuple(limits[index] for index in order if shares[index] >= _MIN_SHARE_WAITING)
