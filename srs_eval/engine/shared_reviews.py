"""Restrict results to the reviews, or the users, that all compared models share.

External predictions, from a file or from the user's Anki, may miss some reviews. They are evaluated
on the held-out reviews that they predict (`select_held_out`), and other models are compared with
them on these reviews, too: in the ranking of one learner, in a batch and in the advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Protocol as Interface
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from srs_eval import metrics
from srs_eval.data.errors import InputError, NotInstalled, format_count
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ExternalPredictions, FloatArray, IntArray, ReviewLog
from srs_eval.engine.result import Result, TestSet
from srs_eval.models.configurations import Configuration, find_meaning, resolve_configurations
from srs_eval.models.given import FILE_PREDICTIONS


class Competitor(Interface):
    """An object that can be ranked, such as a `Configuration`."""

    @property
    def name(self) -> str: ...
    @property
    def is_baseline(self) -> bool: ...
    @property
    def is_online(self) -> bool: ...


_C = TypeVar("_C", bound=Competitor)
_Pair = tuple[Configuration, Result]


def add_external_configurations(
    configurations: Sequence[Configuration], log: ReviewLog, protocol: Protocol
) -> list[Configuration]:
    """Put configurations of the log's external predictions before the others, unless listed."""
    names = {configuration.name for configuration in configurations}
    external: list[Configuration] = []
    for name in log.external_predictions:
        with suppress(InputError):  # the flags make no sense for external predictions
            canonical_name = name if find_meaning(name) else FILE_PREDICTIONS
            (configuration,) = resolve_configurations(canonical_name, protocol)
            if configuration.name not in names:
                external.append(replace(configuration, name=name))
    return [*external, *configurations]


def add_predictions_file(log: ReviewLog, path: Path | None) -> ReviewLog:
    """Return the log with a file's predictions, if there is a file.

    Raises:
        InputError: The file cannot be used.
    """
    if path is None:
        return log
    from srs_eval.data.readers.predictions import add_predictions  # the readers take long to load

    return add_predictions(log, path, find_meaning)


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """External predictions of the k held-out reviews."""

    p: FloatArray  # (k,) predicted probability of recall; NaN where there is none
    unused: int = 0  # predictions in a file that match no held-out review

    @cached_property
    def predicted(self) -> IntArray:
        """Positions (m,) of the held-out reviews that have a prediction, ascending."""
        return find_predicted(self.p)

    @property
    def missing(self) -> int:
        """Number of held-out reviews without a prediction."""
        return len(self.p) - len(self.predicted)


def find_predicted(p: FloatArray) -> IntArray:
    """Return the positions (m,) of the reviews whose prediction (k,) is not NaN, ascending."""
    return np.flatnonzero(np.isfinite(p))


def select_held_out(external: ExternalPredictions, entry: IntArray) -> HeldOutPredictions:
    """Select the predictions of the held-out reviews.

    `entry` (k,) holds the positions of the held-out reviews among the log's entries, or among its
    rows if it has rows.
    """
    held_out = HeldOutPredictions(external.p[entry])
    if external.file_count is None:
        return held_out
    return replace(held_out, unused=external.file_count - len(held_out.predicted))


def intersect_reviews(reviews: Iterable[IntArray]) -> IntArray:
    """Return the reviews that are in each of the arrays, ascending.

    There is at least one array, and none holds a review twice.
    """
    return reduce(partial(np.intersect1d, assume_unique=True), reviews)


def evaluate_external(
    log: ReviewLog, configuration: Configuration, tests: TestSet, entry_index: IntArray
) -> Result:
    """Evaluate external predictions on the held-out reviews that they cover.

    `entry_index` (n,) holds the positions of rows among the log's entries.

    Raises:
        NotInstalled: There is no prediction for any of these reviews, which counts as a skip.
    """
    name = configuration.name
    model = configuration.model
    external = log.external_predictions.get(name) or log.external_predictions.get(model.name)
    if external is None:
        raise NotInstalled(f"no file of predictions lies beside these reviews ({model.note})")
    held_out = select_held_out(external, entry_index[tests.review_th - 1])
    notes = [external.note]
    if held_out.missing:
        notes.append(f"no prediction for {held_out.missing:,} of {len(tests):,} held-out reviews")
    if held_out.unused:
        predictions = format_count(external.file_count or 0, "prediction")
        notes.append(
            f"{held_out.unused:,} of the file's {predictions} are for reviews that are not "
            "evaluated"
        )
    if not len(held_out.predicted):
        raise NotInstalled("; ".join(notes))
    p = held_out.p
    if held_out.missing:
        tests = _select_tests(tests, held_out.predicted)
        p = p[held_out.predicted]
    return Result(
        configuration=name,
        metrics=metrics.compute_metrics(tests.y, p, tests.bin),
        tests=tests,
        parameters=None,
        p=p,
        notes=tuple(notes),
        missing_predictions=held_out.missing,
        unused_predictions=held_out.unused,
    )


_MIN_SHARED_FRACTION = 0.1  # of the reviews that a group began with


def group_by_shared_reviews(reviews: Mapping[str, IntArray]) -> list[tuple[IntArray, list[str]]]:
    """Group names by shared reviews; `reviews` holds the reviews of each name.

    Each group comes with the reviews that all its names have. The name with the most reviews starts
    the first group. Another name joins the first group that would keep at least a tenth of the
    reviews that it began with, so that a name with few reviews does not take the others' away. If
    there is no such group, the name starts one.
    """
    groups: list[tuple[IntArray, list[str]]] = []
    initial_sizes: list[int] = []
    for name in sorted(reviews, key=lambda name: (-len(reviews[name]), name)):
        for number, (shared, members) in enumerate(groups):
            still_shared = intersect_reviews((shared, reviews[name]))
            min_size = _MIN_SHARED_FRACTION * initial_sizes[number]
            if len(still_shared) and len(still_shared) >= min_size:
                groups[number] = (still_shared, [*members, name])
                break
        else:
            groups.append((reviews[name], [name]))
            initial_sizes.append(len(reviews[name]))
    return groups


def restrict_to_shared_reviews(
    incomplete_pairs: Iterable[_Pair], complete_pairs: Sequence[_Pair]
) -> list[list[_Pair]]:
    """Restrict results that lack some reviews to shared ones, and complete results likewise.

    There is one list for each group of `group_by_shared_reviews`. Each includes all of
    `complete_pairs`, which are evaluated on all held-out reviews.
    """
    incomplete_by_name = {pair[0].name: pair for pair in incomplete_pairs}
    reviews = {name: result.review_th for name, (_, result) in incomplete_by_name.items()}
    restricted_lists: list[list[_Pair]] = []
    for shared, names in group_by_shared_reviews(reviews):
        pairs = [incomplete_by_name[name] for name in names]
        pairs += complete_pairs
        restricted_lists.append(
            [(configuration, _restrict_result(result, shared)) for configuration, result in pairs]
        )
    return restricted_lists


def restrict_both_to_shared_reviews(left: Result, right: Result) -> tuple[Result, Result]:
    """Restrict both results to their shared reviews if one lacks some and they share any.

    Otherwise, they are returned as they are.
    """
    shared = intersect_reviews((left.review_th, right.review_th))
    if not (left.missing_predictions or right.missing_predictions) or not len(shared):
        return left, right
    return _restrict_result(left, shared), _restrict_result(right, shared)


_restricted_results: WeakKeyDictionary[Result, dict[bytes, Result]] = WeakKeyDictionary()
"""Restricted results, kept because a ranking is computed anew whenever a model finishes."""


def _restrict_result(result: Result, review_th: IntArray) -> Result:
    """Restrict a result to the reviews `review_th` (k,), all of which it has."""
    restricted = _restricted_results.setdefault(result, {})
    key = review_th.tobytes()
    if key not in restricted:
        positions = np.flatnonzero(np.isin(result.review_th, review_th))
        tests = _select_tests(result.tests, positions)
        p = result.p[positions]
        restricted[key] = replace(
            result,
            metrics=metrics.compute_metrics(tests.y, p, tests.bin),
            tests=tests,
            p=p,
            in_sample_reviews=min(result.in_sample_reviews, len(p)),
            missing_predictions=result.missing_predictions + result.size - len(p),
        )
    return restricted[key]


def _select_tests(tests: TestSet, positions: IntArray) -> TestSet:
    return TestSet(**{name: column[positions] for name, column in vars(tests).items()})


def group_by_shared_users(
    competitors: Iterable[tuple[_C, object, Mapping[int, int]]],
) -> list[tuple[list[_C], dict[int, int]]]:
    """Group competitors that can be compared, and return each group with its common users.

    Each competitor is given with the flags that decide its reviews (`Protocol.row_protocol`) and
    the number of evaluated reviews by user. Competitors are grouped if these flags are equal and
    there are users for whom these numbers agree. The common users of a group come with their number
    of reviews; the largest group comes first.
    """
    # Most users first, so that competitors with few users join groups with many.
    ordered = sorted(competitors, key=lambda item: (-len(item[2]), item[0].name))
    groups: list[tuple[object, list[_C], dict[int, int]]] = []
    for competitor, rows, sizes in ordered:
        for number, (group_rows, members, shared) in enumerate(groups):
            if rows != group_rows:
                continue
            still_shared = {user: size for user, size in shared.items() if sizes.get(user) == size}
            if still_shared:
                groups[number] = (rows, [*members, competitor], still_shared)
                break
        else:
            groups.append((rows, [competitor], dict(sizes)))

    def sort_key(members: list[_C]) -> tuple[int, bool]:
        has_baseline = any(member.is_baseline for member in members)
        return -len(members), not has_baseline

    groups.sort(key=lambda group: sort_key(group[1]))
    return [(members, shared) for _, members, shared in groups]
