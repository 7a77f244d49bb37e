"""Who can be compared with whom: on the reviews, or the users, that all of them have.

Others' predictions, of a file or of the person's Anki, may lack reviews.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol as Interface
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from srs_eval import metrics
from srs_eval.data.errors import InputError, NotInstalled, counted
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.predictions import with_predictions
from srs_eval.data.reviews import IntArray, ReviewLog
from srs_eval.engine.session import Result, TestSet
from srs_eval.models.configurations import Configuration, meant_by, resolve
from srs_eval.models.given import OF_FILE


class Competitor(Interface):
    """What places are given to, such as a `Configuration`."""

    @property
    def name(self) -> str: ...
    @property
    def is_baseline(self) -> bool: ...
    @property
    def learns(self) -> bool: ...


_C = TypeVar("_C", bound=Competitor)
_Pair = tuple[Configuration, Result]


def with_given(
    configurations: Sequence[Configuration], log: ReviewLog, protocol: Protocol
) -> list[Configuration]:
    """The configurations, and before them what the log was given by others."""
    there, given = {each.name for each in configurations}, list[Configuration]()
    for name in log.given:
        with suppress(InputError):  # flags that make no sense for them
            (found,) = resolve(name if meant_by(name) else OF_FILE, protocol)
            given += [] if found.name in there else [replace(found, name=name)]
    return [*given, *configurations]


def with_file(log: ReviewLog, path: Path | None) -> ReviewLog:
    """The log with a file's predictions, if there is a file. Raises InputError."""
    return log if path is None else with_predictions(log, path, meant_by)


def of_given(
    log: ReviewLog, configuration: Configuration, tests: TestSet, entry: IntArray
) -> Result:
    """What somebody else predicted, evaluated on those held-out reviews that it covers.

    `entry` (n,) are the rows' places among the log's entries. Raises NotInstalled, which is a skip.
    """
    name, model = configuration.name, configuration.model
    found = log.given.get(name) or log.given.get(model.name)
    if found is None:
        raise NotInstalled(f"there is nothing beside these reviews ({model.note})")
    p = found.p[entry[tests.review_th - 1]]
    there = np.flatnonzero(np.isfinite(p))
    lacks = len(p) - len(there)
    unused = 0 if found.count is None else found.count - len(there)
    notes = [found.about]
    if lacks:
        notes.append(f"no prediction for {lacks:,} of {len(p):,} held-out reviews")
    if unused:
        notes.append(
            f"{unused:,} of the file's {counted(found.count or 0, 'prediction')} are for reviews "
            "that are not evaluated"
        )
    if not len(there):
        raise NotInstalled("; ".join(notes))
    if lacks:
        tests, p = _part(tests, there), p[there]
    summary = metrics.summary(tests.y, p, tests.bin)
    return Result(name, summary, tests, None, p, notes=tuple(notes), lacks=lacks, unused=unused)


_KEEPS = 0.1


def sharing(reviews: Mapping[str, IntArray]) -> list[tuple[IntArray, list[str]]]:
    """Names in sets, each with the reviews that all of it have; `reviews` are those of a name.

    Who has the most makes the first set. Others join a set as long as it keeps at least a tenth of
    the reviews that it began with, so that few of one leave the others theirs; else they make one.
    """
    sets: list[tuple[IntArray, list[str]]] = []
    most = list[int]()
    for name in sorted(reviews, key=lambda name: (-len(reviews[name]), name)):
        for number, (shared, members) in enumerate(sets):
            both = np.intersect1d(shared, reviews[name])
            if len(both) and len(both) >= _KEEPS * most[number]:
                sets[number] = both, [*members, name]
                break
        else:
            sets.append((reviews[name], [name]))
            most.append(len(reviews[name]))
    return sets


def on_shared_reviews(pairs: Iterable[_Pair], others: Sequence[_Pair]) -> list[list[_Pair]]:
    """Those that lack reviews beside `others`, each of the sets that are `sharing`.

    `others` are evaluated on all held-out reviews.
    """
    lacking = {each.name: (each, result) for each, result in pairs}
    sets = sharing({name: result.review_th for name, (_, result) in lacking.items()})
    return [
        [
            (each, _on(result, shared))
            for each, result in (*(lacking[name] for name in members), *others)
        ]
        for shared, members in sets
    ]


def two_on_shared_reviews(left: Result, right: Result) -> tuple[Result, Result]:
    """Both on the reviews that both have, where one lacks some and they share any."""
    shared = np.intersect1d(left.review_th, right.review_th)
    if not (left.lacks or right.lacks) or not len(shared):
        return left, right
    return _on(left, shared), _on(right, shared)


_known: WeakKeyDictionary[Result, dict[bytes, Result]] = WeakKeyDictionary()
"""A ranking that fills is made anew for each model that finishes."""


def _on(result: Result, shared: IntArray) -> Result:
    """The result on the reviews `shared` (k,), which it has."""
    known = _known.setdefault(result, {})
    if (key := shared.tobytes()) not in known:
        places = np.flatnonzero(np.isin(result.review_th, shared))
        tests, p = _part(result.tests, places), result.p[places]
        known[key] = replace(
            result,
            metrics=metrics.summary(tests.y, p, tests.bin),
            tests=tests,
            p=p,
            in_sample=min(result.in_sample, len(p)),
            lacks=result.lacks + result.size - len(p),
        )
    return known[key]


def _part(tests: TestSet, places: IntArray) -> TestSet:
    return TestSet(**{name: column[places] for name, column in vars(tests).items()})


def evaluated_alike(
    found: Iterable[tuple[_C, object, Mapping[int, int]]],
) -> list[tuple[list[_C], dict[int, int]]]:
    """Competitors that can be compared, with the users they share and these users' reviews.

    Each comes with the rows it is evaluated on (`Protocol.evaluated_rows`) and the number of
    evaluated reviews by user. Those with equal rows and users for whom these numbers agree go
    together; the largest set comes first.
    """
    # The most users first, so that who has few joins those that have many.
    ordered = sorted(found, key=lambda each: (-len(each[2]), each[0].name))
    sets: list[tuple[object, list[_C], dict[int, int]]] = []
    for competitor, rows, sizes in ordered:
        for number, (rows_of_set, members, shared) in enumerate(sets):
            if rows != rows_of_set:
                continue
            both = {user: size for user, size in shared.items() if sizes.get(user) == size}
            if both:
                sets[number] = rows, [*members, competitor], both
                break
        else:
            sets.append((rows, [competitor], dict(sizes)))
    sets.sort(key=lambda each: (-len(each[1]), not any(one.is_baseline for one in each[1])))
    return [(members, shared) for _, members, shared in sets]
