"""In which order models begin: lines for the person who watches soon, and the end no later."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heapreplace

from srs_eval.data.errors import missing
from srs_eval.models.configurations import Configuration

_EARLY = 1.0, 1.15, 1.3, 1.5, 2.0
_MUCH_LATER = 1.03  # times the least end
LEAST_S = 0.05  # of any model, however cheap: loading what is compiled, metrics


def usual_seconds(configuration: Configuration, reviews: int) -> float:
    """What it takes of one core, in a worker that has compiled kernels and imported packages."""
    return LEAST_S + configuration.expected_seconds(reviews)


def start_order(
    configurations: Iterable[Configuration],
    reviews: int,
    workers: int,
    *,
    uncompiled: Collection[str] = (),
    first: Collection[str] = (),
) -> list[Configuration]:
    """The shortest first; what takes longest begins when waiting more would make the end later.

    That is when it would still be at work, after one more short one, while all else could be
    done; where large pieces would still end unevenly, somewhat sooner. `first` are names of those
    that come before other short ones, `uncompiled` of those whose kernels are not on disk: the
    first of those with the same kernels compiles for all, and others begin, where they can, when
    it is done. What `workers` really take does not matter: the same arguments give the same order.
    """
    listed = list(configurations)
    tried = [_order(listed, reviews, workers, uncompiled, first, early) for early in _EARLY]
    soon = _MUCH_LATER * min(each.end for each in tried)
    return min((each for each in tried if each.end <= soon), key=lambda each: each.mean).found


@dataclass(frozen=True)
class _Order:
    """With the seconds until the last and, on average, a model has finished."""

    found: list[Configuration]
    end: float
    mean: float


def _order(
    listed: list[Configuration],
    reviews: int,
    workers: int,
    uncompiled: Collection[str],
    first: Collection[str],
    early: float,
) -> _Order:
    """The longest begin as if they took `early` times as long."""
    here = {each.name for each in listed if not missing(each.model.needs)}
    compiles = {each.name for each in listed if each.name in here and each.name in uncompiled}
    sharing = Counter(each.model.compiled_as for each in listed if each.name in compiles)
    works = {
        each.name: usual_seconds(each, reviews) if each.name in here else LEAST_S for each in listed
    }
    compiled = dict[str, float]()  # when

    def takes(each: Configuration, now: float = 0.0) -> float:
        """If it begins then; what another is compiling is compiled once more."""
        alone = each.name in compiles and now < compiled.get(each.model.compiled_as, math.inf)
        return works[each.name] + (each.model.seconds_to_compile if alone else 0.0)

    def share(each: Configuration) -> float:
        """Where all bear what is compiled for all."""
        same = sharing[each.model.compiled_as]
        return works[each.name] + (takes(each) - works[each.name]) / (same or 1)

    waiting = sorted(listed, key=lambda each: (each.name not in first, share(each)))
    left = math.fsum(map(share, listed))
    free = [0.0] * max(1, workers)  # when each worker has finished what it is at
    found, ends = [], []
    while waiting:
        now = free[0]
        able = [each for each in waiting if compiled.get(each.model.compiled_as, 0.0) <= now]
        able = able or waiting
        shortest, longest = able[0], max(able, key=lambda each: takes(each, now))
        work = left + math.fsum(until - now for until in free)
        late = takes(shortest, now) + early * takes(longest, now) > work / len(free)
        chosen = longest if late else shortest
        waiting.remove(chosen)
        found.append(chosen)
        seconds = takes(chosen, now)
        left -= seconds
        if seconds > works[chosen.name]:
            compiled.setdefault(chosen.model.compiled_as, now + seconds)
        ends.append(now + seconds)
        heapreplace(free, now + seconds)
    return _Order(found, max(ends, default=0.0), math.fsum(ends) / max(len(ends), 1))
