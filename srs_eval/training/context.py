"""What a run may set besides the protocol, and how a fit reports on itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from srs_eval.data.paths import content_digest


class Cancelled(Exception):
    """Raised by `Context.tick` when the person has cancelled."""


def _no_tick(fraction: float) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Context:
    """Settings of a run that are no rule of the protocol."""

    sm2_target: float = 0.9  # retention that SM-2's intervals are taken to aim at
    weights: Path | None = None  # folder of pretrained network weights, or RWKV's file
    device: str = "cpu"
    user: int = 0  # seeds the random streams of networks
    hyperparameters: Mapping[str, float | str] = field(default_factory=dict)
    """Of the model's training, what is not as by default: the engine sets it from
    `Configuration.hyperparameters`, of which they are."""
    tick: Callable[[float], None] = _no_tick
    """Call it often with the fraction done of this fit; it may raise Cancelled."""

    def settings(self) -> dict[str, float | int | str | None]:
        """All that figures of every configuration may depend on, by name.

        Of the weights, what is in the files.
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        del found["tick"], found["hyperparameters"]
        if self.weights is not None:
            is_folder = self.weights.is_dir()
            inside = self.weights.iterdir() if is_folder else [self.weights]
            folder = self.weights if is_folder else self.weights.parent
            found["weights"] = content_digest(folder, (path for path in inside if path.is_file()))
        return found
