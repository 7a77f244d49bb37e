"""The set-ups that an audit tries: which, on whom, and what came of them.

A set-up that is tried is a configuration, and a batch evaluates it like any other: in the folder
`search` on the last fifth of each training part, in `evaluated` by the usual protocol.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from srs_eval.benchmark.store import Unit, units_of
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.evaluate import Session
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import SEED, Hyperparameter, Value

Setup = dict[str, Value]
"""Hyperparameters that are not as published, by name."""
SEARCH, _EVALUATED = PARTS = "search", "evaluated"
_HALVES = 2
_HELD_OUT = 5  # a training part's last fifth evaluates the set-ups
_ROUND = 6  # set-ups that are tried at a time
_SHRINKS = 0.75  # the box, from round to round
_NEAR = 0.15  # of the width of what was tried: so near its end is on the edge
_DRAWS = 20  # for a set-up that was not tried before


class _Search:
    """Looks for the set-up with the least loss: at random, in a box around the best so far.

    The published one is tried first. The box is logarithmic and at first as wide as each
    hyperparameter says; it follows the best and shrinks where that has hardly moved. `ask` gives
    the set-ups of the next round, `tell` takes their losses (inf: of no use).
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
        self._size = 1.0  # of the box
        self._asked: list[Setup] = [{}]
        self.tried: list[tuple[Setup, float]] = []

    @property
    def best(self) -> tuple[Setup, float]:
        """The set-up with the least loss; the earliest of equals, so the published one if none."""
        return min(self.tried, key=lambda each: each[1])

    def ask(self) -> list[Setup]:
        """The set-ups of the next round; none when all trials are made."""
        if self.tried:
            self._asked = self._drawn(min(_ROUND, self._left))
        return list(self._asked)

    def tell(self, losses: Sequence[float]) -> None:
        """The losses of what `ask` gave, in its order."""
        before = self.best[0] if self.tried else {}
        if self.tried:
            self._left -= len(self._asked)
        self.tried += zip(self._asked, losses, strict=True)
        best = self.best[0]
        hardly_moved = all(
            abs(self._log(each, best) - self._log(each, before))
            <= self._size / 2 * math.log(each.spread)
            for each in self._numbers
        )
        if len(self.tried) > 1 and hardly_moved:
            self._size *= _SHRINKS

    @property
    def on_edge(self) -> tuple[str, ...]:
        """What the best one has near an end of all that was tried: a better one may lie beyond."""
        found = []
        for each in self._numbers:
            tried = [self._log(each, setup) for setup, _ in self.tried]
            low, high, best = min(tried), max(tried), self._log(each, self.best[0])
            near = _NEAR * (high - low)
            if (best > high - near and high < math.log(each.most)) or (
                best < low + near and low > math.log(each.least)
            ):
                found.append(each.name)
        return tuple(found)

    @property
    def _numbers(self) -> list[Hyperparameter]:
        return [each for each in self._knobs if not each.choices]

    def _log(self, each: Hyperparameter, setup: Mapping[str, Value]) -> float:
        value = float(setup.get(each.name, self._published[each.name]))
        return math.log(min(max(value, each.least), each.most))  # a flag may say something beyond

    def _drawn(self, count: int) -> list[Setup]:
        """New set-ups, of each hyperparameter one of each of `count` parts of the box."""
        known = {_key(setup) for setup, _ in self.tried}
        parts = np.array([self._random.permutation(count) for _ in self._knobs]).T
        drawn = []
        for part in parts:
            place = (part + self._random.random(len(part))) / count
            for _ in range(_DRAWS):
                setup = self._setup(place)
                if _key(setup) not in known:
                    known.add(_key(setup))
                    drawn.append(setup)
                    break
                place = self._random.random(len(part))
        return drawn

    def _setup(self, place: FloatArray) -> Setup:
        """With four digits; what is as published is not named."""
        best, setup = self.best[0], Setup()
        for each, share in zip(self._knobs, place.tolist(), strict=True):
            value: Value
            published = self._published[each.name]
            if each.choices:
                value = each.choices[int(share * len(each.choices))]
            else:
                half = self._size * math.log(each.spread)
                number = math.exp(self._log(each, best) + half * (2 * share - 1))
                value = _rounded(min(max(number, each.least), each.most), each)
                published = _rounded(float(published), each)
            if value != published:
                setup[each.name] = value
        return setup


def _rounded(value: float, each: Hyperparameter) -> float:
    return round(value) if each.whole else float(f"{value:.4g}")


def _key(setup: Mapping[str, Value]) -> str:
    return json.dumps(setup, sort_keys=True)


# What the set-ups are chosen by


def _split_past(trials: Trials) -> tuple[Fold, ...]:
    """Each fold's training part as a fold of its own: what came before predicts its last fifth.

    Parts that are too small for that are left out.
    """
    later_only = trials.protocol.secs and (
        trials.protocol.no_test_same_day or trials.protocol.equalize_test_with_non_secs
    )

    def evaluated(rows: IntArray) -> IntArray:
        return rows[trials.elapsed_days[rows] > 0] if later_only else rows

    folds = []
    for fold in trials.folds:
        first = len(fold.train) - len(fold.train) // _HELD_OUT
        test = evaluated(fold.train[first:])
        if len(test):
            folds.append(Fold(train=fold.train[:first], test=test))
    return tuple(folds)


class PastSession(Session):
    """Evaluates on held-out rows of training parts; sees none of the user's evaluated reviews."""

    def trials(self, protocol: Protocol) -> Trials:
        """The trials with other folds. Raises NotEnoughData where no training part can be split."""
        trials = super().trials(protocol)
        folds = _split_past(trials)
        if not folds:
            raise NotEnoughData("the training parts are too small to be split")
        return replace(trials, folds=folds)


# All fits of an audit


@dataclass(frozen=True)
class _Stage:
    """Fits that can be made at once."""

    part: str  # of PARTS
    configurations: list[Configuration]  # trained with a set-up each, with names of their own
    users: dict[str, list[int]]  # who is to be evaluated, by these names


class Tries:
    """What is tried in an audit, stage by stage, and what came of it."""

    def __init__(
        self,
        folder: Path,
        configurations: Sequence[Configuration],
        users: Sequence[int],
        *,
        trials: int,
        repeats: int,
        seed: int,
    ) -> None:
        """`folder` holds a batch folder for each of PARTS."""
        self._folder = folder
        self.configurations = {each.name: each for each in configurations}
        self.users = tuple(users)
        self.halves = [self.users[half::_HALVES] for half in range(_HALVES)]
        self.repeats = repeats
        self._made: dict[tuple[str, str], Mapping[int, Unit]] = {}
        self.searches = {
            each.name: [
                _Search(
                    each.tunable,
                    {knob.name: knob.default_under(each.protocol) for knob in each.tunable},
                    trials,
                    seed,
                )
                for _ in self.halves
            ]
            for each in configurations
            if any(knob.searched for knob in each.tunable)
        }

    def stages(self) -> Iterator[_Stage]:
        """The fits in parts; `read` has to follow each."""
        while asked := [
            (name, half, setups)
            for name, searches in self.searches.items()
            for half, search in enumerate(searches)
            if (setups := search.ask())
        ]:
            tried = ((name, self.halves[half], each) for name, half, some in asked for each in some)
            yield self._stage(SEARCH, tried)
            for name, half, setups in asked:
                self.searches[name][half].tell(self.losses(name, self.halves[half], setups))
        # For the ledger alone: the best of each half on the other half.
        searches = [(name, each) for name, some in self.searches.items() for each in some]
        if searches:
            best = ((name, self.users, search.best[0]) for name, search in searches)
            yield self._stage(SEARCH, best)
        evaluated = (
            (name, users, {**setup, **seeded})
            for name in self.configurations
            for half, users in enumerate(self.halves)
            for setup in ({}, self.chosen_for(name, half))
            for seeded in self.seedings(name)
        )
        yield self._stage(_EVALUATED, evaluated)

    def fits(self, name: str, trials: int) -> int:
        """How many a user needs at most: the winners of each half are tried on the other, too."""
        searched = name in self.searches
        evaluated = (_HALVES if searched else 1) * len(self.seedings(name))
        return evaluated + (trials + _HALVES if searched else 0)

    def read(self, stage: _Stage) -> None:
        """Look up what came of a stage."""
        for name in stage.users:
            self._made[stage.part, name] = units_of(self._folder / stage.part, name)

    def made(self, part: str, name: str, setup: Mapping[str, Value], user: int) -> Unit | None:
        """What came of a set-up on a user; None where it was not tried."""
        tried = _tried(self.configurations[name], setup).name
        return self._made.get((part, tried), {}).get(user)

    def evaluated(self, name: str, setup: Mapping[str, Value], user: int) -> Unit:
        """What came of a set-up on the evaluated reviews of a user."""
        unit = self.made(_EVALUATED, name, setup, user)
        assert unit is not None
        return unit

    def all_evaluated(self, name: str) -> list[Unit]:
        """As published, and as tuned where that is something else."""
        return [
            self.evaluated(name, setup, user)
            for half, users in enumerate(self.halves)
            for setup in ({}, *filter(None, [self.chosen_for(name, half)]))
            for user in users
        ]

    def chosen_for(self, name: str, half: int) -> Setup:
        """The set-up that a half of the users is evaluated with: the other half's."""
        return self.searches[name][1 - half].best[0] if name in self.searches else {}

    def seedings(self, name: str) -> list[Setup]:
        """What is added to a set-up for each seed that is evaluated."""
        seeds = self.repeats if SEED in self.configurations[name].tunable else 1
        return [{SEED.name: seed} if seed else {} for seed in range(seeds)]

    def losses(
        self, name: str, users: Sequence[int], setups: Sequence[Mapping[str, Value]]
    ) -> list[float]:
        """Mean loss of the users' training parts by set-up; inf where it fails on one of them.

        Of the users with whom the published set-up works; inf for all where there are none.
        """
        counted = self.usable(name, users)
        found = []
        for setup in setups:
            units = [self.made(SEARCH, name, setup, user) for user in counted]
            lost = [unit.log_loss if unit else math.nan for unit in units]
            works = bool(lost) and not any(map(math.isnan, lost))
            found.append(fmean(lost) if works else math.inf)
        return found

    def usable(self, name: str, users: Iterable[int]) -> list[int]:
        """Those whose training parts the published set-up can be fitted to."""
        tried = ((user, self.made(SEARCH, name, {}, user)) for user in users)
        return [user for user, unit in tried if unit is not None and unit.status == "done"]

    def _stage(self, part: str, wanted: Iterable[tuple[str, Sequence[int], Setup]]) -> _Stage:
        """Each configuration once, with all users that it is wanted for."""
        tried: dict[str, Configuration] = {}
        users: dict[str, dict[int, None]] = defaultdict(dict)
        for name, some, setup in wanted:
            configuration = _tried(self.configurations[name], setup)
            tried[configuration.name] = configuration
            users[configuration.name] |= dict.fromkeys(some)
        return _Stage(part, [*tried.values()], {name: [*some] for name, some in users.items()})


def _tried(configuration: Configuration, setup: Mapping[str, Value]) -> Configuration:
    """With a name that only this set-up has, NAME@...; as published it keeps its own."""
    if not setup:
        return configuration
    digest = hashlib.sha256(_key(setup).encode()).hexdigest()[:12]
    return replace(configuration.trained_with(setup), name=f"{configuration.name}@{digest}")
