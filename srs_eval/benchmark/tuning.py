"""Search the training set-ups of an audit and collect their results.

Each set-up that is tried becomes a configuration, which a batch evaluates like any other: in the
folder `search` on the last fifth of each training part, in `evaluated` by the usual protocol.
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

from srs_eval.benchmark.store import Unit, read_units
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import SEED, Hyperparameter, Value

TrainingSetup = dict[str, Value]
"""Hyperparameters that differ from the published ones, by name."""
SEARCH_FOLDER = "search"
_EVALUATION_FOLDER = "evaluated"
STAGE_FOLDERS = (SEARCH_FOLDER, _EVALUATION_FOLDER)
_HALF_COUNT = 2
_HELD_OUT_DIVISOR = 5  # the last fifth of a training part evaluates the set-ups
_ROUND_SIZE = 6  # set-ups tried at a time
_BOX_SHRINKAGE = 0.75  # factor on the size of the box, from round to round
_EDGE_SHARE = 0.15  # share of the tried range; a best value this near to an end is on the edge
_MAX_DRAWS = 20  # attempts to draw a set-up that was not tried before


class _RandomSearch:
    """Search for the set-up with the least loss: at random, in a box around the best so far.

    The published one is tried first. On a logarithmic scale, the box reaches from the best set-up
    to both sides, at first by each hyperparameter's `spread`. It moves with the best set-up, and
    shrinks after a round in which that has hardly moved. `ask` returns the set-ups of the next
    round, `tell` takes their losses (inf for one that cannot be used).
    """

    def __init__(
        self,
        hyperparameters: Sequence[Hyperparameter],
        published: Mapping[str, Value],
        trials: int,
        seed: int,
    ) -> None:
        """Prepare to try `trials` set-ups besides the published one with the values `published`."""
        self._published = dict(published)
        self._hyperparameters: list[Hyperparameter] = []
        zero_hyperparameters = []  # a logarithmic scale has no 0 to start from
        for hyperparameter in hyperparameters:
            if not hyperparameter.is_searched:
                continue
            if published[hyperparameter.name] == 0:
                zero_hyperparameters.append(hyperparameter.name)
            else:
                self._hyperparameters.append(hyperparameter)
        self.not_searched = tuple(zero_hyperparameters)
        """Names of the hyperparameters whose published value is 0."""
        self._trials_left = trials if self._hyperparameters else 0
        self._random = np.random.default_rng(seed)
        self._box_size = 1.0
        self._pending: list[TrainingSetup] = [{}]  # the published set-up is the first round
        self.tried: list[tuple[TrainingSetup, float]] = []  # with their losses

    @property
    def best(self) -> tuple[TrainingSetup, float]:
        """The set-up with the least loss, and its loss; of equals the earliest."""
        return min(self.tried, key=lambda setup_and_loss: setup_and_loss[1])

    def ask(self) -> list[TrainingSetup]:
        """Return the set-ups of the next round; none after the last trial."""
        if self.tried:
            self._pending = self._draw_setups(min(_ROUND_SIZE, self._trials_left))
        return list(self._pending)

    def tell(self, losses: Sequence[float]) -> None:
        """Record the losses of the set-ups that `ask` returned, in the same order."""
        previous_best: TrainingSetup = {}
        if self.tried:
            previous_best, _ = self.best
            self._trials_left -= len(self._pending)
        self.tried += zip(self._pending, losses, strict=True)
        best, _ = self.best
        # At most half of the way from the centre of the box to its sides.
        has_hardly_moved = all(
            abs(
                self._log_value(hyperparameter, best)
                - self._log_value(hyperparameter, previous_best)
            )
            <= self._box_size / 2 * math.log(hyperparameter.spread)
            for hyperparameter in self._numeric_hyperparameters
        )
        is_first_round = len(self.tried) == 1  # the published set-up alone
        if has_hardly_moved and not is_first_round:
            self._box_size *= _BOX_SHRINKAGE

    @property
    def on_edge(self) -> tuple[str, ...]:
        """Hyperparameters whose best value is near an end of the tried range.

        A better value may lie beyond that end.
        """
        names = []
        best_setup, _ = self.best
        for hyperparameter in self._numeric_hyperparameters:
            tried_values = [self._log_value(hyperparameter, setup) for setup, _ in self.tried]
            low = min(tried_values)
            high = max(tried_values)
            best_value = self._log_value(hyperparameter, best_setup)
            margin = _EDGE_SHARE * (high - low)
            is_at_top = best_value > high - margin and high < math.log(hyperparameter.maximum)
            is_at_bottom = best_value < low + margin and low > math.log(hyperparameter.minimum)
            if is_at_top or is_at_bottom:
                names.append(hyperparameter.name)
        return tuple(names)

    @property
    def _numeric_hyperparameters(self) -> list[Hyperparameter]:
        return [
            hyperparameter for hyperparameter in self._hyperparameters if not hyperparameter.choices
        ]

    def _log_value(self, hyperparameter: Hyperparameter, setup: Mapping[str, Value]) -> float:
        """Return the logarithm of a numeric hyperparameter's value in a set-up."""
        value = float(setup.get(hyperparameter.name, self._published[hyperparameter.name]))
        # A value that the user gave by a flag may lie outside of the range that is searched.
        value = min(max(value, hyperparameter.minimum), hyperparameter.maximum)
        return math.log(value)

    def _draw_setups(self, count: int) -> list[TrainingSetup]:
        """Draw up to `count` set-ups that were not tried before, spread over the box.

        Each hyperparameter's range is cut into `count` slices, and each set-up takes a slice that
        no other has (Latin hypercube). A set-up that was tried before is drawn again from the
        whole box, and left out after `_MAX_DRAWS` attempts.
        """
        tried_keys = {_setup_key(setup) for setup, _ in self.tried}
        slices = np.array([self._random.permutation(count) for _ in self._hyperparameters]).T
        setups = []
        for setup_slices in slices:
            dimensions = len(setup_slices)
            position = (setup_slices + self._random.random(dimensions)) / count
            for _ in range(_MAX_DRAWS):
                setup = self._setup_at(position)
                if _setup_key(setup) not in tried_keys:
                    tried_keys.add(_setup_key(setup))
                    setups.append(setup)
                    break
                position = self._random.random(dimensions)
        return setups

    def _setup_at(self, position: FloatArray) -> TrainingSetup:
        """Return the set-up at a position in the box (from 0 to 1 in each dimension).

        Values have four digits; those that equal the published ones are left out.
        """
        best, _ = self.best
        setup: TrainingSetup = {}
        for hyperparameter, coordinate in zip(
            self._hyperparameters, position.tolist(), strict=True
        ):
            value: Value
            published = self._published[hyperparameter.name]
            if hyperparameter.choices:
                value = hyperparameter.choices[int(coordinate * len(hyperparameter.choices))]
            else:
                half_width = self._box_size * math.log(hyperparameter.spread)
                center = self._log_value(hyperparameter, best)
                number = math.exp(center + half_width * (2 * coordinate - 1))
                number = min(max(number, hyperparameter.minimum), hyperparameter.maximum)
                value = _round_value(number, hyperparameter)
                published = _round_value(float(published), hyperparameter)  # to be comparable
            if value != published:
                setup[hyperparameter.name] = value
        return setup


def _round_value(value: float, hyperparameter: Hyperparameter) -> float:
    """Round to a whole number if the hyperparameter is one, else to four digits."""
    return round(value) if hyperparameter.is_integer else float(f"{value:.4g}")


def _setup_key(setup: Mapping[str, Value]) -> str:
    """Return a text that is the same for equal set-ups, in any order."""
    return json.dumps(setup, sort_keys=True)


# How the set-ups are chosen


def _split_training_parts(trials: Trials) -> tuple[Fold, ...]:
    """Turn each fold's training part into a fold: the earlier rows predict its last fifth.

    Same-day reviews are not predicted if the protocol does not evaluate them. Parts that are too
    small to be split are left out.
    """
    excludes_same_day = trials.protocol.secs and (
        trials.protocol.no_test_same_day or trials.protocol.equalize_test_with_non_secs
    )

    folds = []
    for fold in trials.folds:
        train_count = len(fold.train) - len(fold.train) // _HELD_OUT_DIVISOR
        test = fold.train[train_count:]
        if excludes_same_day:
            test = test[trials.elapsed_days[test] > 0]
        if len(test):
            folds.append(Fold(train=fold.train[:train_count], test=test))
    return tuple(folds)


class PastSession(LearnerSession):
    """Session that evaluates on the end of training parts, never on the user's test parts."""

    def trials(self, protocol: Protocol) -> Trials:
        """Return the trials with the folds of `_split_training_parts`.

        Raises NotEnoughData if no training part can be split.
        """
        trials = super().trials(protocol)
        folds = _split_training_parts(trials)
        if not folds:
            raise NotEnoughData("the training parts are too small to be split")
        return replace(trials, folds=folds)


# All fits of an audit


@dataclass(frozen=True)
class _FitStage:
    """Fits that can run at the same time."""

    folder: str  # one of STAGE_FOLDERS
    configurations: list[Configuration]  # each with one set-up, under a name of its own
    users: dict[str, list[int]]  # users to evaluate, by the names of these configurations


class AuditSearch:
    """All trials of an audit, stage by stage, and their results."""

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
        """Prepare the searches; `folder` holds a batch folder for each of STAGE_FOLDERS."""
        self._folder = folder
        self.configurations = {
            configuration.name: configuration for configuration in configurations
        }
        self.users = tuple(users)
        self.halves = [self.users[half::_HALF_COUNT] for half in range(_HALF_COUNT)]
        self.repeats = repeats
        self._units: dict[tuple[str, str], Mapping[int, Unit]] = {}
        """Units by folder and configuration name, and then by user."""
        self.searches: dict[str, list[_RandomSearch]] = {}
        """A search for each half of the users, by name of the configuration."""
        for configuration in configurations:
            hyperparameters = configuration.tunable_hyperparameters
            if any(hyperparameter.is_searched for hyperparameter in hyperparameters):
                published = {
                    hyperparameter.name: hyperparameter.default_under(configuration.protocol)
                    for hyperparameter in hyperparameters
                }
                self.searches[configuration.name] = [
                    _RandomSearch(hyperparameters, published, trials, seed) for _ in self.halves
                ]

    def stages(self) -> Iterator[_FitStage]:
        """Yield the fits in stages; call `read_results` after each."""
        while True:
            next_round = self._ask_searches()
            if not next_round:
                break
            requests = []
            for name, half, setups in next_round:
                requests += [(name, self.halves[half], setup) for setup in setups]
            yield self._make_stage(SEARCH_FOLDER, requests)
            for name, half, setups in next_round:
                losses = self.mean_losses(name, self.halves[half], setups)
                self.searches[name][half].tell(losses)
        # For the ledger only: the best of each half, on all users.
        requests = []
        for name, searches in self.searches.items():
            requests += [(name, self.users, search.best[0]) for search in searches]
        if requests:
            yield self._make_stage(SEARCH_FOLDER, requests)
        yield self._make_stage(_EVALUATION_FOLDER, self._list_evaluations())

    def _ask_searches(self) -> list[tuple[str, int, list[TrainingSetup]]]:
        """Return the set-ups of the next round, by configuration name and half."""
        next_round = []
        for name, searches in self.searches.items():
            for half, search in enumerate(searches):
                setups = search.ask()
                if setups:
                    next_round.append((name, half, setups))
        return next_round

    def _list_evaluations(self) -> list[tuple[str, Sequence[int], TrainingSetup]]:
        """Return the set-ups to evaluate, published and tuned, by configuration name and users."""
        evaluations: list[tuple[str, Sequence[int], TrainingSetup]] = []
        for name in self.configurations:
            for half, users in enumerate(self.halves):
                for setup in ({}, self.setup_for(name, half)):
                    for seed_setup in self.seed_setups(name):
                        evaluations.append((name, users, {**setup, **seed_setup}))
        return evaluations

    def count_fits(self, name: str, trials: int) -> int:
        """Return the largest number of fits of a configuration to a user's reviews."""
        seeds = len(self.seed_setups(name))
        if name not in self.searches:
            return seeds
        search_fits = 1 + trials + 1  # the published set-up, the trials, the other half's best one
        return search_fits + 2 * seeds  # evaluated as published and as tuned

    def read_results(self, stage: _FitStage) -> None:
        """Read the results of a stage."""
        for name in stage.users:
            self._units[stage.folder, name] = read_units(self._folder / stage.folder, name)

    def find_unit(
        self, folder: str, name: str, setup: Mapping[str, Value], user: int
    ) -> Unit | None:
        """Return the unit of a set-up on a user; None if none was read from this folder."""
        trial_name = _trial_configuration(self.configurations[name], setup).name
        return self._units.get((folder, trial_name), {}).get(user)

    def evaluated_unit(self, name: str, setup: Mapping[str, Value], user: int) -> Unit:
        """Return the unit of a set-up on the evaluated reviews of a user."""
        unit = self.find_unit(_EVALUATION_FOLDER, name, setup, user)
        assert unit is not None
        return unit

    def evaluated_units(self, name: str) -> list[Unit]:
        """Return the evaluated units of all users: as published, and as tuned if that differs.

        Those of additional seeds are left out.
        """
        units = []
        for half, users in enumerate(self.halves):
            units += [self.evaluated_unit(name, {}, user) for user in users]
            tuned_setup = self.setup_for(name, half)
            if tuned_setup:
                units += [self.evaluated_unit(name, tuned_setup, user) for user in users]
        return units

    def setup_for(self, name: str, half: int) -> TrainingSetup:
        """Return the set-up that evaluates one half of the users: the other half's best one."""
        if name not in self.searches:
            return {}
        best_setup, _ = self.searches[name][1 - half].best
        return best_setup

    def seed_setups(self, name: str) -> list[TrainingSetup]:
        """Return the additions to a set-up, one for each evaluated seed; {} stands for seed 0."""
        seeds = self.repeats if SEED in self.configurations[name].tunable_hyperparameters else 1
        return [{SEED.name: seed} if seed else {} for seed in range(seeds)]

    def mean_losses(
        self, name: str, users: Sequence[int], setups: Sequence[Mapping[str, Value]]
    ) -> list[float]:
        """Return each set-up's mean loss on the users' training parts; inf if it fails on any user.

        Only users for whom the published set-up works count; without any, all losses are inf.
        """
        usable_users = self.usable_users(name, users)
        means = []
        for setup in setups:
            units = [self.find_unit(SEARCH_FOLDER, name, setup, user) for user in usable_users]
            losses = [unit.log_loss if unit else math.nan for unit in units]
            is_usable = bool(losses) and not any(map(math.isnan, losses))
            means.append(fmean(losses) if is_usable else math.inf)
        return means

    def usable_users(self, name: str, users: Iterable[int]) -> list[int]:
        """Return the users whose training parts the published set-up can be fitted to."""
        usable_users = []
        for user in users:
            unit = self.find_unit(SEARCH_FOLDER, name, {}, user)
            if unit is not None and unit.status == "done":
                usable_users.append(user)
        return usable_users

    def _make_stage(
        self, folder: str, requests: Iterable[tuple[str, Sequence[int], TrainingSetup]]
    ) -> _FitStage:
        """Return a stage of fits, each given by configuration name, users and set-up.

        A set-up that is requested twice is one configuration with the users of both requests.
        """
        configurations: dict[str, Configuration] = {}
        users_by_name: dict[str, dict[int, None]] = defaultdict(dict)
        for name, users, setup in requests:
            configuration = _trial_configuration(self.configurations[name], setup)
            configurations[configuration.name] = configuration
            users_by_name[configuration.name] |= dict.fromkeys(users)
        return _FitStage(
            folder,
            list(configurations.values()),
            {name: list(users) for name, users in users_by_name.items()},
        )


def _trial_configuration(configuration: Configuration, setup: Mapping[str, Value]) -> Configuration:
    """Return the configuration with a set-up under a unique name, NAME@...

    Without a set-up, it stays as published and keeps its name.
    """
    if not setup:
        return configuration
    digest = hashlib.sha256(_setup_key(setup).encode()).hexdigest()[:12]
    return replace(configuration.with_hyperparameters(setup), name=f"{configuration.name}@{digest}")
