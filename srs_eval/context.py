"""What a run may set besides the protocol, and how a fit reports on itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class Cancelled(Exception):
    """Raised by `Context.tick` when the person has cancelled."""


def _no_tick(fraction: float) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Context:
    """Settings of a run that are no rule of the protocol."""

    sm2_target: float = 0.9  # retention that SM-2's intervals are taken to aim at
    weights: Path | None = None  # folder of pretrained network weights
    device: str = "cpu"
    user: int = 0  # seeds the random streams of networks
    tick: Callable[[float], None] = _no_tick
    """Call it often with the fraction done of this fit; it may raise Cancelled."""
