"""Configurations compared over the users of result files: what `srs-eval report` tells.

Places, intervals, pairs, sizes and changes against another run; figures only, no layout.
`docs/reports.md` says what each is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np

from srs_eval.benchmark.result_files import ResultFile, ResultFolder, home_of
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.ranking import apart, placed
from srs_eval.engine.shared import evaluated_alike
from srs_eval.metrics import better
from srs_eval.stats.users import (
    COLUMNS,
    FEWEST_USERS,
    Averages,
    MeanInterval,
    averages,
    bca_interval,
    confidence_set,
    mean_intervals,
    read_predictions,
    resampled_means,
)

_Weighting = Literal["reviews", "users", "log reviews"]
WEIGHTINGS: tuple[_Weighting, ...] = ("reviews", "users", "log reviews")
_SIZE_GROUPS = 10
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


def _as_losses(metric: str, values: FloatArray) -> FloatArray:
    """A metric turned so that lower is better; a bias counts by its distance from 0."""
    match better(metric):
        case "higher":
            return -values
        case "nearer 0":
            return np.abs(values)
    return values


@dataclass(frozen=True, eq=False)
class Standing:
    """One configuration's line of a table."""

    file: ResultFile
    place: int | None  # from 1 by log loss; None for the baseline
    users: int  # compared
    means: Mapping[str, MeanInterval]
    undefined: Mapping[str, int]  # users without the figure, left out of its mean
    to_best: MeanInterval | None
    """Mean paired difference of the metric of choice (of a bias: of its size) to the best or to the
    reference; None for that one and where no user has all models' figures."""
    set_p_value: float
    """Of the model confidence set of that metric: below 0.01 it is not among the best; nan where
    fewer than FEWEST_USERS users have all models' figures."""


@dataclass(frozen=True, eq=False)
class Standings:
    """Means under one weighting, best first."""

    weighting: _Weighting
    lines: tuple[Standing, ...]

    def best(self, metric: str) -> frozenset[str]:
        """Labels of those with the best mean, to the six decimals of result files."""
        lines = [line for line in self.lines if not line.file.mark]
        means = {line.file.label: line.means[metric].estimate for line in lines}
        losses = {
            label: round(float(_as_losses(metric, np.array(mean))), 6)
            for label, mean in means.items()
            if not np.isnan(mean)
        }
        return frozenset(label for label, loss in losses.items() if loss == min(losses.values()))


@dataclass(frozen=True, eq=False)
class _Paired:
    """What differences are made of: the users for whom all models have the metric of choice."""

    losses: FloatArray  # (n, k)
    weightings: FloatArray  # (n, w)
    drawn: FloatArray  # (w, resamples, k)
    sign: int  # that makes the metric of a loss

    def estimates(self, w: int) -> FloatArray | None:
        """Mean losses (k,); None without users, or where they weigh nothing."""
        weights = self.weightings[:, w]
        return (self.losses * weights[:, None]).sum(0) / weights.sum() if weights.any() else None

    def difference(self, model: int, other: int, w: int) -> MeanInterval:
        """How much more of the metric a model has than another."""
        apart = self.sign * (self.losses[:, model] - self.losses[:, other])
        drawn = self.sign * (self.drawn[w][:, model] - self.drawn[w][:, other])
        return bca_interval(apart, self.weightings[:, w], drawn)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Configurations that were evaluated on the same reviews of the same users.

    Arrays over models are in the order of `files`.
    """

    rows: str  # which reviews, in words
    learns: bool  # online models
    metric: str  # of choice: pairs, sizes, distributions and sets are of it
    files: tuple[ResultFile, ...]  # best first by users
    users: IntArray  # that all have, evaluated on as many reviews
    sizes: FloatArray  # reviews of these users
    tables: tuple[Standings, ...]  # of WEIGHTINGS
    paired: _Paired
    reference: str = ""  # label of the one that differences are to; "" for the best

    @property
    def reviews(self) -> int:
        """Evaluated reviews of the users that are compared."""
        return int(self.sizes.sum())

    @property
    def moved(self) -> list[str]:
        """Labels of those whose places by reviews and by users differ."""
        by_reviews, by_users = (
            {line.file.label: line.place for line in table.lines if line.place is not None}
            for table in self.tables[:2]
        )
        return [label for label, place in by_reviews.items() if by_users[label] != place]

    @property
    def most_users(self) -> int:
        """That any of the files holds."""
        return max(len(file.users) for file in self.files)

    @property
    def left_out(self) -> dict[tuple[str, tuple[str, ...]], list[int]]:
        """Users of some of the files who are not compared, by cause and labels of these files."""
        sizes = {file: file.by_user() for file in self.files}
        causes: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        compared = set(self.users.tolist())
        for user in sorted({user for of in sizes.values() for user in of} - compared):
            most = max(of.get(user, 0) for of in sizes.values())
            odd = [file for file, of in sizes.items() if of.get(user, 0) != most]
            if not odd:  # of a set that online models share
                cause = "models of another table evaluate fewer of their reviews"
            elif not all(user in sizes[file] for file in odd):
                cause = "no result of"
            elif all(
                each.configuration and each.configuration.protocol.known_decks_only for each in odd
            ):
                cause = "deleted cards are left out by"
            else:
                cause = "fewer reviews are evaluated by"
            causes.setdefault((cause, tuple(file.label for file in odd)), []).append(user)
        return causes

    @cached_property
    def values(self) -> FloatArray:
        """The metric of choice (users, models)."""
        return _column_stack(self.files, self.metric, self.users)

    @cached_property
    def differences(self) -> list[list[list[MeanInterval | None]]]:
        """Of the metric of choice, row minus column, by weighting; None on the diagonal."""
        models = range(len(self.files))
        found = []
        for w in range(len(WEIGHTINGS)):
            empty = self.paired.estimates(w) is None
            of_pairs: list[list[MeanInterval | None]] = [[None] * len(models) for _ in models]
            for row, column in [] if empty else combinations(models, 2):
                of_pairs[row][column] = each = self.paired.difference(row, column, w)
                of_pairs[column][row] = MeanInterval(-each.estimate, -each.high, -each.low)
            found.append(of_pairs)
        return found

    @property
    def complete(self) -> int:
        """Users for whom all models have the metric of choice."""
        return int(np.isfinite(self.values).all(axis=1).sum())

    @cached_property
    def losses(self) -> FloatArray:
        """The metric of choice, turned so that lower is better."""
        return _as_losses(self.metric, self.values)

    @cached_property
    def by_size(self) -> list[tuple[FloatArray, FloatArray]]:
        """Users in ten groups of equal number, from the smallest collections to the largest.

        Of each group the users' evaluated reviews and the models' means of the metric of choice.
        """
        order = np.argsort(self.sizes, kind="stable")
        parts = np.array_split(order, min(_SIZE_GROUPS, len(order)))
        return [(self.sizes[part], _nanmean(self.values[part])) for part in parts]

    @cached_property
    def percentiles(self) -> FloatArray:
        """Of the metric over users (PERCENTILES, models); nan where nobody has it."""
        found = np.full((len(PERCENTILES), len(self.files)), np.nan)
        for model, values in enumerate(self.values.T):
            defined = values[np.isfinite(values)]
            if len(defined):
                found[:, model] = np.percentile(defined, PERCENTILES)
        return found


def compare(
    files: Sequence[ResultFile],
    metric: str = "LogLoss",
    *,
    metrics: Sequence[str] = ("LogLoss", "RMSE(bins)", "AUC"),
    users: Literal["common", "each"] = "common",
    reference: str = "",
) -> list[Comparison]:
    """Files put together by the reviews that they evaluate, the largest set first.

    Means of `metrics` are over the users that all files of a set have ("common"), or over each
    file's own ("each"); pairs, sizes and confidence sets always are over common users. Models
    that learn while they are evaluated stand apart. Differences are to the file with the label
    `reference` where it is in the set, else to the best.
    """
    found = []
    shown = tuple(dict.fromkeys(("LogLoss", metric, *metrics)))
    of_all = ((each, (each.rows, each.others), each.by_user()) for each in files if not each.mark)
    # Each alone are those whose figures mean nothing.
    alone = (([each], each.by_user()) for each in files if each.mark)
    for members, shared in (*evaluated_alike(of_all), *alone):
        rows = min((each.rows_in_words for each in members), key=len)
        common = np.array(sorted(shared))
        sizes = np.array([shared[user] for user in common.tolist()], dtype=float)
        for learns, group in apart(members, lambda each: each):
            said = reference if any(file.label == reference for file in group) else ""
            tables, paired = _tables(
                group, metric, shown, common, sizes, own_users=users == "each", reference=said
            )
            ordered = tuple(line.file for line in tables[1].lines)
            of_set = (common, sizes, tables, paired, said)
            found.append(Comparison(rows, learns, metric, ordered, *of_set))
    return found


def _tables(
    files: Sequence[ResultFile],
    metric: str,
    metrics: Sequence[str],
    common: IntArray,
    sizes: FloatArray,
    own_users: bool,
    reference: str,
) -> tuple[tuple[Standings, ...], _Paired]:
    """Means by weighting, and what pairs of files are made of, in the order by users."""
    over = [file.columns(metrics, None if own_users else common) for file in files]
    weightings, n = _weightings(sizes), len(metrics)
    of_users: dict[bytes, list[int]] = {}  # files with the same users share resamples
    for k, file in enumerate(files):
        key = file.users.tobytes() + file.sizes.tobytes() if own_users else b""
        of_users.setdefault(key, []).append(k)
    found: dict[int, list[list[MeanInterval]]] = {}
    for members in of_users.values():
        weights = _weightings(files[members[0]].sizes) if own_users else weightings
        together = mean_intervals(np.concatenate([over[k] for k in members], axis=1), weights)
        for place, k in enumerate(members):
            found[k] = [each[n * place : n * (place + 1)] for each in together]
    paired = _paired(_column_stack(files, metric, common), weightings, metric)
    labels = [file.label for file in files]
    to = labels.index(reference) if reference else None
    tables, orders = [], []
    for w, weighting in enumerate(WEIGHTINGS):
        to_one, p_values = _held_against(paired, w, to)
        means = [dict(zip(metrics, found[k][w], strict=True)) for k in range(len(files))]
        ordered = placed(
            (file, of["LogLoss"].estimate) for file, of in zip(files, means, strict=True)
        )
        orders.append([labels.index(file.label) for file, _ in ordered])
        lines = tuple(
            Standing(
                file=files[k],
                place=None if files[k].mark else place,
                users=len(over[k]),
                means=means[k],
                undefined=dict(zip(metrics, np.isnan(over[k]).sum(0).tolist(), strict=True)),
                to_best=to_one[k],
                set_p_value=float(p_values[k]),
            )
            for k, (_, place) in zip(orders[-1], ordered, strict=True)
        )
        tables.append(Standings(weighting, lines))
    by_users = orders[1]
    in_order = replace(
        paired, losses=paired.losses[:, by_users], drawn=paired.drawn[:, :, by_users]
    )
    return tuple(tables), in_order


def _weightings(sizes: FloatArray) -> FloatArray:
    """Weights of users (n, 3), in the order of WEIGHTINGS."""
    return np.column_stack([sizes, np.ones(len(sizes)), np.log(np.maximum(sizes, 1))])


def _paired(values: FloatArray, weightings: FloatArray, metric: str) -> _Paired:
    losses = _as_losses(metric, values)
    complete = np.isfinite(losses).all(axis=1)
    losses, weightings = losses[complete], weightings[complete]
    if complete.any():
        drawn = resampled_means(losses, weightings)
    else:
        drawn = np.empty((weightings.shape[1], 0, losses.shape[1]))
    return _Paired(losses, weightings, drawn, -1 if better(metric) == "higher" else 1)


def _held_against(
    paired: _Paired, w: int, to: int | None
) -> tuple[list[MeanInterval | None], FloatArray]:
    """Differences to one model, or to the best mean, and p-values of the confidence set."""
    users, models = paired.losses.shape
    nothing = np.full(models, np.nan)
    estimates = paired.estimates(w)
    if estimates is None:
        return [None] * models, nothing
    best = int(np.argmin(np.round(estimates, 6))) if to is None else to
    differences = [None if k == best else paired.difference(k, best, w) for k in range(models)]
    enough = users >= FEWEST_USERS
    return differences, confidence_set(estimates, paired.drawn[w]) if enough else nothing


def _column_stack(files: Sequence[ResultFile], metric: str, users: IntArray) -> FloatArray:
    return np.concatenate([file.columns((metric,), users) for file in files], axis=1)


def _nanmean(values: FloatArray) -> FloatArray:
    defined = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        found: FloatArray = np.where(defined, values, 0.0).sum(0) / defined.sum(0)
    return found


# Averages over reviews, users, decks or cards


def averaged(
    folders: Sequence[ResultFolder], comparisons: Sequence[Comparison], modes: Sequence[str]
) -> list[list[Averages]]:
    """By comparison: averages of those of its files that have predictions.

    Over the users of whom all of these hold every evaluated review, and no others.
    """
    if list(modes) == ["user"]:
        return [[] for _ in comparisons]
    found: list[list[Averages]] = []
    for comparison in comparisons:
        users, sizes = comparison.users, comparison.sizes
        predicted = []
        for file in comparison.files:
            predictions = read_predictions(home_of(file.path), file.name_in_raw)
            if predictions is not None:
                predicted.append(file)
                users = predictions.complete(users, sizes[np.isin(comparison.users, users)])
                if not len(users):
                    raise InputError(
                        f'--average: the predictions of {file.label} in "{home_of(file.path)}" are '
                        "not of the reviews and users that results and other predictions are of: "
                        "evaluate again with --raw."
                    )
        # Read again, for those of all files at once need not fit into memory.
        read = (
            (file, read_predictions(home_of(file.path), file.name_in_raw)) for file in predicted
        )
        found.append(
            [
                averages(file.label, those.of(users), modes, is_baseline=file.is_baseline)
                for file, those in read
                if those is not None
            ]
        )
    if not any(found):
        raise InputError(
            f"--average {','.join(modes)} needs predictions, and there are none in a folder raw "
            f'beside the results of "{folders[0].path}": evaluate with --raw.'
        )
    for mode in modes:
        if not any(mode in each.means for averaged in found for each in averaged):
            raise InputError(
                f"--average {mode}: no predictions in raw tell the {mode}s of reviews; parquet "
                f"files with a column {COLUMNS[mode]} do."
            )
    return found


# Against another run


@dataclass(frozen=True, eq=False)
class Change:
    """What became of one configuration since another run; differences are new minus old."""

    file: ResultFile
    before: ResultFile
    users: int  # compared: in both runs, evaluated on as many reviews
    only_before: int  # users
    only_now: int
    other_reviews: int  # users evaluated on another number of reviews
    differences: Mapping[str, tuple[MeanInterval, ...]]  # by metric, of WEIGHTINGS
    losses: tuple[MeanInterval, ...]
    """Of WEIGHTINGS: differences of the metric of choice, as `_as_losses` turns it."""
    evaluated: int  # users who have the metric of choice in both
    better: int  # users, by the metric of choice
    worse: int

    def verdict(self, weighting: _Weighting) -> str:
        """ "better", "worse", "unchanged" (nobody's figure moved) or "can't tell".

        Of the metric of choice; of a bias it is its size that counts.
        """
        difference = self.losses[WEIGHTINGS.index(weighting)]
        if not self.users:
            return "no common user"
        if self.evaluated and not (self.better or self.worse):
            return "unchanged"
        if not (difference.low > 0 or difference.high < 0) or self.evaluated < FEWEST_USERS:
            return "can't tell"
        return "better" if difference.high < 0 else "worse"


def changes(
    files: Sequence[ResultFile],
    baseline: Sequence[ResultFile],
    metric: str = "LogLoss",
    metrics: Sequence[str] = ("LogLoss", "RMSE(bins)", "AUC"),
) -> list[Change]:
    """Every configuration that both runs have, with paired intervals over users.

    Raises InputError where the baseline has one of them twice, as under two spellings.
    """
    before: dict[str, ResultFile] = {}
    for each in baseline:
        if each.name in before and any(file.name == each.name for file in files):
            raise InputError(
                f'--baseline: "{before[each.name].path}" and "{each.path}" are both {each.name}; '
                "take one of them away."
            )
        before[each.name] = each
    shown = tuple(dict.fromkeys((metric, *metrics)))
    found = []
    for file in files:
        if file.name not in before:
            continue
        old = before[file.name]
        both, here, there = np.intersect1d(file.users, old.users, return_indices=True)
        same = file.sizes[here] == old.sizes[there]
        alike, weight = both[same], file.sizes[here][same]
        now, then = file.columns(shown, alike), old.columns(shown, alike)
        moved = _as_losses(metric, now[:, 0]) - _as_losses(metric, then[:, 0])
        by_weighting = mean_intervals(np.column_stack([now - then, moved]), _weightings(weight))
        found.append(
            Change(
                file=file,
                before=old,
                users=len(alike),
                only_before=len(old.users) - len(both),
                only_now=len(file.users) - len(both),
                other_reviews=len(both) - len(alike),
                differences={
                    name: tuple(of_weighting[k] for of_weighting in by_weighting)
                    for k, name in enumerate(shown)
                },
                losses=tuple(of_weighting[-1] for of_weighting in by_weighting),
                evaluated=int(np.isfinite(moved).sum()),
                better=int((moved < 0).sum()),
                worse=int((moved > 0).sum()),
            )
        )
    return found
