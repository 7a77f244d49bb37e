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
    whose kernels are not on disk: what compiling takes is shared among a model's configurations.
    What `workers` really take does not matter: the same arguments give the same order.
    """
    listed = list(configurations)
    sharing = Counter(each.model.name for each in listed if each.name in uncompiled)

    def seconds(each: Configuration) -> float:
        if missing(each.model.needs):
            return LEAST_S
        compiling = 0.0
        if each.name in uncompiled:
            compiling = each.model.seconds_to_compile / sharing[each.model.name]
        return usual_seconds(each, reviews) + compiling

    takes = {each.name: seconds(each) for each in listed}
    waiting = sorted(listed, key=lambda each: (each.name not in first, takes[each.name]))
    free = [0.0] * max(1, workers)  # when each worker has finished what it is at
    found = []
    while waiting:
        shortest, longest = waiting[0], max(waiting, key=lambda each: takes[each.name])
        now = free[0]
        work = fsum([*(takes[each.name] for each in waiting), *(until - now for until in free)])
        late = takes[shortest.name] + takes[longest.name] > work / len(free)
        chosen = longest if late else shortest
        waiting.remove(chosen)
        found.append(chosen)
        heapreplace(free, now + takes[chosen.name])
    return found
