"""The search for a better training set-up: random points, then steps from the best, in rounds.

Numbers are searched on a logarithmic scale (one whose published value is 0, such as a penalty that
is switched off, has no place there and stays as it is), within limits that move: where the best
value found so far lies near a limit, the limit moves outwards before the next round, and a point is
tried beyond the old one. Random search: Bergstra & Bengio (2012), Journal of Machine Learning
Research 13; the moving limits follow what Rendle, Zhang & Koren (2019) ask of a grid.

What is proposed depends on the losses of whole rounds and the seed alone, never on their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srs_eval.training.hyperparameters import Hyperparameter, Value

Setup = dict[str, Value]
"""Hyperparameters that are not as published, by name."""

_ROUND = 6  # set-ups that are tried at a time
_NEAR = 0.15  # of the width between two limits: so near, a limit moves
_FURTHER = 0.5  # by so much of the width that it had at first
STEP, SHRINKS = (
    0.25,
    0.75,
)  # standard deviation of steps in widths, and its factor from round to round
_TRIES = 20  # for a set-up that was not tried before


@dataclass
class _Limits:
    """Of a number's logarithm."""

    low: float
    high: float
    width: float  # at first
    old_low: float  # before the last round
    old_high: float


class Search:
    """Looks for the set-up with the least loss; the published one is tried first.

    `ask` gives the set-ups of the next round, `tell` takes their losses (inf: of no use).
    """

    def __init__(
        self,
        knobs: Sequence[Hyperparameter],
        published: Mapping[str, Value],
        trials: int,
        seed: int,
    ) -> None:
        """`trials` set-ups are tried besides the published one, whose values are `published`."""
        self._published = dict(published)
        searched = [each for each in knobs if each.searched]
        self._knobs = [each for each in searched if published[each.name] != 0]
        self.left_out = tuple(each.name for each in searched if published[each.name] == 0)
        """Names of numbers that are 0 as published."""
        self._left = trials if self._knobs else 0
        self._random = np.random.default_rng(seed)
        self._asked: list[Setup] = [{}]
        self._before: Setup = {}  # the best before the last round
        self._round = 0
        self._settled = 0  # rounds since a limit moved: the best is within, and steps get smaller
        self.tried: list[tuple[Setup, float]] = []
        self.extended: dict[str, list[Literal["lower", "higher"]]] = {}
        """Limits that moved, by name."""
        self._limits = {
            each.name: _limits(each, self._number(each, {}))
            for each in self._knobs
            if not each.choices
        }

    @property
    def best(self) -> tuple[Setup, float]:
        """The set-up with the least loss; the earliest of equals, so the published one if none."""
        return min(self.tried, key=lambda each: each[1])

    def ask(self) -> list[Setup]:
        """The set-ups of the next round; none when all trials are made."""
        if self._round and not self._asked:
            self._asked = self._proposed()
        return list(self._asked)

    def tell(self, losses: Sequence[float]) -> None:
        """The losses of what `ask` gave, in its order."""
        if self._round:
            self._left -= len(self._asked)
            self._before, _ = self.best
        self.tried += zip(self._asked, losses, strict=True)
        self._asked = []
        self._round += 1
        self._move_limits()

    def on_edge(self) -> list[str]:
        """What the best set-up has near a limit still: a better one may lie beyond."""
        return [each.name for each in self._knobs if self._has_moved(each)]

    def _number(self, each: Hyperparameter, setup: Mapping[str, Value]) -> float:
        value = setup.get(each.name, self._published[each.name])
        assert not isinstance(value, str)
        return min(max(float(value), each.least), each.most)  # a flag may say something beyond

    def _move_limits(self) -> None:
        best, _ = self.best
        for each in self._knobs:
            if each.choices:
                continue
            limits = self._limits[each.name]
            limits.old_low, limits.old_high = limits.low, limits.high
            place = math.log(self._number(each, best))
            near = _NEAR * (limits.high - limits.low)
            further = _FURTHER * limits.width
            if place > limits.high - near and limits.high < math.log(each.most):
                limits.high = min(limits.high + further, math.log(each.most))
                self.extended.setdefault(each.name, []).append("higher")
            elif place < limits.low + near and limits.low > math.log(each.least):
                limits.low = max(limits.low - further, math.log(each.least))
                self.extended.setdefault(each.name, []).append("lower")
        moved = any(self._has_moved(each) for each in self._knobs)
        self._settled = 0 if moved else self._settled + 1

    def _proposed(self) -> list[Setup]:
        count = min(_ROUND, self._left)
        best, _ = self.best
        spread = self._spread(count)
        proposed: list[Setup] = []
        if self._round > 1:
            beyond = [self._beyond(each, best) for each in self._knobs if self._has_moved(each)]
            around = [self._step(best) for _ in range(count)]
            onward = [] if self._before == best else [self._onward(best)]
            # What lies beyond a moved limit first, then on where the last round went; one in three
            # anywhere, so that no corner is never looked at; the rest near the best.
            spread = [*beyond[: count // 2], *onward, *spread[: count // 3], *around]
        known = {_key(setup) for setup, _ in self.tried}
        for setup in spread:
            for _ in range(_TRIES):
                if _key(setup) not in known:
                    break
                setup = self._step(best)
            if _key(setup) not in known and len(proposed) < count:
                known.add(_key(setup))
                proposed.append(setup)
        if not proposed:
            self._left = 0  # everything was tried
        return proposed

    def _spread(self, count: int) -> list[Setup]:
        """Points anywhere within the limits, in each dimension one of each of `count` parts."""
        setups: list[Setup] = [{} for _ in range(count)]
        for each in self._knobs:
            parts = (self._random.permutation(count) + self._random.random(count)) / max(count, 1)
            for setup, part in zip(setups, parts.tolist(), strict=True):
                if each.choices:
                    self._set(setup, each, each.choices[int(part * len(each.choices))])
                else:
                    limits = self._limits[each.name]
                    self._set(setup, each, math.exp(limits.low + part * (limits.high - limits.low)))
        return setups

    def _step(self, best: Setup) -> Setup:
        """The best one, about half of its values moved a little."""
        setup = dict(best)
        moved = self._random.random(len(self._knobs)) < 0.5
        moved[self._random.integers(len(self._knobs))] = True
        size = STEP * SHRINKS**self._settled
        for each, moves in zip(self._knobs, moved.tolist(), strict=True):
            if not moves:
                continue
            if each.choices:
                self._set(setup, each, each.choices[self._random.integers(len(each.choices))])
                continue
            limits = self._limits[each.name]
            place = math.log(self._number(each, best)) + limits.width * size * self._random.normal()
            self._set(setup, each, math.exp(min(max(place, limits.low), limits.high)))
        return setup

    def _onward(self, best: Setup) -> Setup:
        """As far again as the last round has moved the best one, and in the same direction.

        Such pattern moves are of Hooke & Jeeves (1961), Journal of the ACM 8.
        """
        setup = dict(best)
        for each in self._knobs:
            if each.choices:
                continue
            limits = self._limits[each.name]
            here, there = (math.log(self._number(each, one)) for one in (best, self._before))
            if here == there:
                continue
            place = min(max(2 * here - there, limits.low), limits.high)
            self._set(setup, each, math.exp(place))
        return setup

    def _has_moved(self, each: Hyperparameter) -> bool:
        if each.choices:
            return False
        limits = self._limits[each.name]
        return (limits.low, limits.high) != (limits.old_low, limits.old_high)

    def _beyond(self, each: Hyperparameter, best: Setup) -> Setup:
        """The best one, with a value beyond the limit that has moved."""
        limits = self._limits[each.name]
        higher = limits.high > limits.old_high
        low, high = (limits.old_high, limits.high) if higher else (limits.low, limits.old_low)
        setup = dict(best)
        self._set(setup, each, math.exp(self._random.uniform(low, high)))
        return setup

    def _set(self, setup: Setup, each: Hyperparameter, value: Value) -> None:
        """With four digits; what is as published is not named."""
        published = self._published[each.name]
        if not isinstance(value, str):
            value = min(max(value, each.least), each.most)
            value = _rounded(value, each)
            assert not isinstance(published, str)
            published = _rounded(published, each)
        setup.pop(each.name, None)
        if value != published:
            setup[each.name] = value


def _rounded(value: float, each: Hyperparameter) -> float:
    return round(value) if each.whole else float(f"{value:.4g}")


def _limits(each: Hyperparameter, published: float) -> _Limits:
    low = math.log(max(published / each.spread, each.least))
    high = math.log(min(published * each.spread, each.most))
    return _Limits(low, high, high - low, low, high)


def _key(setup: Setup) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(setup.items()))
