"""In which order models begin: lines for the person who watches soon, and the end no later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from heapq import heapreplace
from math import fsum

from srs_eval.configurations import Configuration
from srs_eval.extras import missing

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
    done. `first` are names of those that come before other short ones, `uncompiled` of those
    whose kernels are not on disk: the first of those with the same kernels compiles for all, and
    others begin, where they can, when it is done. What `workers` really take does not matter: the
    same arguments give the same order.
    """
    listed = list(configurations)
    here = {each.name for each in listed if not missing(each.model.needs)}
    compiles = {each.name for each in listed if each.name in here and each.name in uncompiled}
    sharing = Counter(each.model.compiled_as for each in listed if each.name in compiles)
    works = {
        each.name: usual_seconds(each, reviews) if each.name in here else LEAST_S for each in listed
    }
    compiled = dict[str, float]()  # when

    def takes(each: Configuration) -> float:
        """If it began now."""
        alone = each.name in compiles and each.model.compiled_as not in compiled
        return works[each.name] + (each.model.seconds_to_compile if alone else 0.0)

    def share(each: Configuration) -> float:
        """Where all bear what is compiled for all."""
        same = sharing[each.model.compiled_as]
        return works[each.name] + (takes(each) - works[each.name]) / (same or 1)

    waiting = sorted(listed, key=lambda each: (each.name not in first, share(each)))
    left = fsum(map(share, listed))
    free = [0.0] * max(1, workers)  # when each worker has finished what it is at
    found = []
    while waiting:
        now = free[0]
        able = [each for each in waiting if compiled.get(each.model.compiled_as, 0.0) <= now]
        able = able or waiting
        shortest, longest = able[0], max(able, key=takes)
        work = left + fsum(until - now for until in free)
        late = takes(shortest) + takes(longest) > work / len(free)
        chosen = longest if late else shortest
        waiting.remove(chosen)
        found.append(chosen)
        seconds = takes(chosen)
        left -= seconds
        if seconds > works[chosen.name]:
            compiled[chosen.model.compiled_as] = now + seconds
        heapreplace(free, now + seconds)
    return found
