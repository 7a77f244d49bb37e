"""Compare configurations over the users of result files, for `srs-eval report`.

This computes ranks, intervals, pairs, sizes and changes since another run, without any layout.
`docs/reports.md` says which users and reviews each number covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np

from srs_eval.benchmark.result_files import ResultFile, ResultFolder, batch_folder_of
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.ranking import assign_ranks, split_online
from srs_eval.engine.shared_reviews import group_by_shared_users
from srs_eval.metrics import better_direction
from srs_eval.stats.users import (
    GROUP_COLUMNS,
    MIN_USERS,
    Averages,
    MeanInterval,
    adjust_by_holm,
    average_over_groups,
    compute_bca_interval,
    compute_confidence_set,
    compute_superiority,
    mean_intervals,
    read_predictions,
    resample_means,
    t_effects,
    wilcoxon_effects,
)

_Weighting = Literal["reviews", "users", "log reviews"]
WEIGHTINGS: tuple[_Weighting, ...] = ("reviews", "users", "log reviews")
_BY_REVIEWS = WEIGHTINGS.index("reviews")
_BY_USERS = WEIGHTINGS.index("users")
_SIZE_GROUPS = 10
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


def _as_losses(metric: str, values: FloatArray) -> FloatArray:
    """Transform a metric so that lower is better; a bias counts by its distance from 0."""
    match better_direction(metric):
        case "higher":
            return -values
        case "nearer 0":
            return np.abs(values)
    return values


@dataclass(frozen=True, eq=False)
class LeaderboardRow:
    """One configuration's row of a table."""

    file: ResultFile
    rank: int | None  # from 1 by log loss; None for the baseline and for invalid results
    users: int  # number of users
    means: Mapping[str, MeanInterval]  # by metric
    undefined_users: Mapping[str, int]  # by metric, number of users without it; its mean omits them
    to_best: MeanInterval | None
    """Mean paired difference of the chosen metric (for a bias: of its absolute value) to the best
    row or the reference. None for that row itself, and if no user has every model's metric."""
    confidence_set_p_value: float
    """P-value in the model confidence set of the chosen metric: below 0.01 the model is not among
    the best. nan if fewer than MIN_USERS users have every model's metric."""


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Means under one weighting, best first."""

    weighting: _Weighting
    rows: tuple[LeaderboardRow, ...]

    def ranks_by_label(self) -> dict[str, int]:
        """Return the ranks of the files that have one."""
        return {row.file.label: row.rank for row in self.rows if row.rank is not None}

    def best_labels(self, metric: str) -> frozenset[str]:
        """Return the labels with the best mean, to the six decimals of result files."""
        valid_rows = [row for row in self.rows if not row.file.invalid_reason]
        means = {row.file.label: row.means[metric].estimate for row in valid_rows}
        losses = {
            label: round(float(_as_losses(metric, np.array(mean))), 6)
            for label, mean in means.items()
            if not np.isnan(mean)
        }
        least = min(losses.values(), default=None)
        return frozenset(label for label, loss in losses.items() if loss == least)


@dataclass(frozen=True, eq=False)
class _PairedLosses:
    """The chosen metric as losses, of the users for whom all models have it."""

    losses: FloatArray  # (users, models)
    weights: FloatArray  # (users, weightings)
    resampled: FloatArray  # mean losses (weightings, resamples, models)
    loss_sign: int  # -1 if losses are the negative metric, else 1

    def mean_losses(self, weighting: int) -> FloatArray | None:
        """Return mean losses (models,); None without users or if their weights are all 0."""
        weights = self.weights[:, weighting]
        if not weights.any():
            return None
        return (self.losses * weights[:, None]).sum(0) / weights.sum()

    def difference(self, model: int, other: int, weighting: int) -> MeanInterval:
        """Return the mean paired difference of the metric (of |bias|): `model` minus `other`."""
        differences = self.loss_sign * (self.losses[:, model] - self.losses[:, other])
        resampled = self.resampled[weighting]
        resampled_differences = self.loss_sign * (resampled[:, model] - resampled[:, other])
        weights = self.weights[:, weighting]
        return compute_bca_interval(differences, weights, resampled_differences)


@dataclass(frozen=True, eq=False)
class PairTest:
    """A paired test over users, of each pair of models (models, models); nan where it has none."""

    effects: FloatArray  # effect sizes, above 0 where the row's model is better
    p_values: FloatArray  # two-sided
    adjusted_p_values: FloatArray  # by Holm, over all pairs

    @classmethod
    def of(cls, effects: FloatArray, p_values: FloatArray) -> PairTest:
        """Return the test with its p-values adjusted."""
        return cls(effects, p_values, adjust_by_holm(p_values))


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Means over users, each of whom counts the same."""

    models: tuple[MeanInterval, ...]  # for each model
    to_baseline: tuple[MeanInterval | None, ...]
    """Mean paired difference to the average, for each model; None for the average itself and
    without it."""


@dataclass(frozen=True, eq=False)
class SizeGroup:
    """Users with collections of about one size."""

    sizes: FloatArray  # (users,) numbers of evaluated reviews
    means: GroupMeans  # of the chosen metric; for a bias, differences are of its absolute value


@dataclass(frozen=True, eq=False)
class ReviewGroup:
    """Reviews with as many reviews of the card before."""

    first: int  # fewest reviews of the card before
    last: int | None  # most of them; None if open
    reviews: int
    users: int  # users with such reviews
    means: GroupMeans  # of users' log losses


@dataclass(frozen=True, eq=False)
class Comparison:
    """Configurations that were evaluated on the same reviews of the same users.

    Arrays over models are in the order of `files`.
    """

    reviews_description: str  # the evaluated reviews, in words
    is_online: bool  # whether these are the online models
    metric: str  # the chosen metric, which pairs, sizes, distributions and confidence sets show
    files: tuple[ResultFile, ...]  # best first by the mean over users
    users: IntArray  # users in all files, evaluated on equally many reviews
    sizes: FloatArray  # evaluated reviews of these users
    leaderboards: tuple[Leaderboard, ...]  # in the order of WEIGHTINGS
    paired: _PairedLosses
    reference: str = ""  # label of the file that differences refer to; "" for the best

    @property
    def review_count(self) -> int:
        """Evaluated reviews of the compared users."""
        return int(self.sizes.sum())

    @property
    def reordered_labels(self) -> list[str]:
        """Labels of the files whose ranks by reviews and by users differ."""
        ranks_by_reviews = self.leaderboards[_BY_REVIEWS].ranks_by_label()
        ranks_by_users = self.leaderboards[_BY_USERS].ranks_by_label()
        return [label for label, rank in ranks_by_reviews.items() if ranks_by_users[label] != rank]

    @property
    def max_users(self) -> int:
        """Largest number of users in any of the files."""
        return max(len(file.users) for file in self.files)

    @property
    def omitted_users(self) -> dict[tuple[str, tuple[str, ...]], list[int]]:
        """Users who are not compared, by cause and the labels of the files that cause it."""
        sizes_by_file = {file: file.sizes_by_user() for file in self.files}
        all_users: set[int] = set()
        for sizes in sizes_by_file.values():
            all_users.update(sizes)
        omitted: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        for user in sorted(all_users - set(self.users.tolist())):
            most = max(sizes.get(user, 0) for sizes in sizes_by_file.values())
            smaller = [file for file, sizes in sizes_by_file.items() if sizes.get(user, 0) != most]
            if not smaller:  # online and other models share users, but not the table
                cause = (
                    "the models in another table were evaluated on fewer of these users' reviews"
                )
            elif not all(user in sizes_by_file[file] for file in smaller):
                cause = "there are no results from"
            elif all(
                file.configuration and file.configuration.protocol.known_decks_only
                for file in smaller
            ):
                cause = "deleted cards are left out by"
            else:
                cause = "fewer reviews are evaluated by"
            labels = tuple(file.label for file in smaller)
            omitted.setdefault((cause, labels), []).append(user)
        return omitted

    @cached_property
    def values(self) -> FloatArray:
        """The chosen metric (users, models); nan where a user has none."""
        return _stack_columns(self.files, self.metric, self.users)

    @cached_property
    def differences(self) -> list[list[list[MeanInterval | None]]]:
        """Differences of the chosen metric, row minus column; None on the diagonal.

        One matrix for each of WEIGHTINGS.
        """
        models = range(len(self.files))
        matrices = []
        for weighting in range(len(WEIGHTINGS)):
            matrix: list[list[MeanInterval | None]] = [[None] * len(models) for _ in models]
            matrices.append(matrix)
            if self.paired.mean_losses(weighting) is None:
                continue
            for row, column in combinations(models, 2):
                difference = self.paired.difference(row, column, weighting)
                matrix[row][column] = difference
                matrix[column][row] = MeanInterval(
                    estimate=-difference.estimate, low=-difference.high, high=-difference.low
                )
        return matrices

    @cached_property
    def superiority(self) -> FloatArray:
        """Share of users for whom the row's model has the better metric (models, models)."""
        return compute_superiority(self.losses)

    @cached_property
    def wilcoxon_test(self) -> PairTest:
        """Wilcoxon's signed-rank test of the chosen metric, with r as the effect."""
        return PairTest.of(*wilcoxon_effects(self.losses))

    @cached_property
    def t_test(self) -> PairTest:
        """Student's paired t-test of the chosen metric, with Cohen's d as the effect."""
        return PairTest.of(*t_effects(self.losses))

    @property
    def complete_users(self) -> int:
        """Number of users for whom all models have the chosen metric."""
        return int(np.isfinite(self.values).all(axis=1).sum())

    @cached_property
    def losses(self) -> FloatArray:
        """The chosen metric, transformed so that lower is better."""
        return _as_losses(self.metric, self.values)

    @property
    def baseline(self) -> int | None:
        """Position of the average among the files; None without it."""
        positions = (position for position, file in enumerate(self.files) if file.is_baseline)
        return next(positions, None)

    @cached_property
    def size_groups(self) -> list[SizeGroup]:
        """Up to ten groups of equally many users, from the smallest collections to the largest."""
        order = np.argsort(self.sizes, kind="stable")
        members = np.array_split(order, min(_SIZE_GROUPS, len(order)))
        return [self._summarize_size(group) for group in members]

    def _summarize_size(self, users: IntArray) -> SizeGroup:
        """Summarize the chosen metric over users, given by their positions."""
        differing = self.paired.loss_sign * self.losses[users]
        means = _average_users(self.values[users], differing, self.baseline)
        return SizeGroup(self.sizes[users], means)

    @cached_property
    def percentiles(self) -> FloatArray:
        """Percentiles over users (PERCENTILES, models) of the metric; nan if no user has it."""
        percentiles = np.full((len(PERCENTILES), len(self.files)), np.nan)
        for model, values in enumerate(self.values.T):
            defined = values[np.isfinite(values)]
            if len(defined):
                percentiles[:, model] = np.percentile(defined, PERCENTILES)
        return percentiles


def compare_files(
    files: Sequence[ResultFile],
    metric: str = "LogLoss",
    *,
    metrics: Sequence[str] = ("LogLoss", "RMSE(bins)", "AUC"),
    users: Literal["common", "each"] = "common",
    reference: str = "",
) -> list[Comparison]:
    """Group files by the reviews that they evaluate, and compare the files of each group.

    The group with the most files comes first, and each file whose results mean nothing is a group
    of its own at the end. Online models are compared apart from the other files of their group.
    Means of `metrics` are over the users that all files of a group have ("common"), or over each
    file's own ("each"); pairs, sizes and confidence sets always use the common users. Differences
    refer to the file with the label `reference` if it is in the comparison, else to the best.
    """
    comparisons = []
    shown_metrics = tuple(dict.fromkeys(("LogLoss", metric, *metrics)))
    # Files that are evaluated on what external predictions cover need the same predictions.
    valid_files = (
        (file, (file.evaluated_rows, file.predictions_digest), file.sizes_by_user())
        for file in files
        if not file.invalid_reason
    )
    groups = list(group_by_shared_users(valid_files))
    groups += [([file], file.sizes_by_user()) for file in files if file.invalid_reason]
    for members, sizes_by_user in groups:
        reviews_description = min((file.rows_description for file in members), key=len)
        common_users = np.array(sorted(sizes_by_user))
        sizes = np.array([sizes_by_user[user] for user in common_users.tolist()], dtype=float)
        for is_online, group in split_online(members, lambda file: file):
            has_reference = any(file.label == reference for file in group)
            group_reference = reference if has_reference else ""
            leaderboards, paired = _compute_leaderboards(
                group,
                metric=metric,
                shown_metrics=shown_metrics,
                common_users=common_users,
                sizes=sizes,
                own_users=users == "each",
                reference=group_reference,
            )
            comparison = Comparison(
                reviews_description=reviews_description,
                is_online=is_online,
                metric=metric,
                files=tuple(row.file for row in leaderboards[_BY_USERS].rows),
                users=common_users,
                sizes=sizes,
                leaderboards=leaderboards,
                paired=paired,
                reference=group_reference,
            )
            comparisons.append(comparison)
    return comparisons


def _compute_leaderboards(
    files: Sequence[ResultFile],
    *,
    metric: str,
    shown_metrics: Sequence[str],
    common_users: IntArray,
    sizes: FloatArray,
    own_users: bool,
    reference: str,
) -> tuple[tuple[Leaderboard, ...], _PairedLosses]:
    """Return a leaderboard for each weighting, and the files' paired losses.

    The models of the paired losses are in the order of the leaderboard by users. `metric` is the
    chosen metric; `sizes` are those of the common users; with `own_users`, means are over each
    file's own users.
    """
    averaged_users = None if own_users else common_users
    values = [file.metric_columns(shown_metrics, averaged_users) for file in files]
    common_weights = compute_weights(sizes)
    metric_count = len(shown_metrics)
    # Files with the same users share their resamples, and so they are computed together.
    files_by_users: dict[bytes, list[int]] = {}
    for index, file in enumerate(files):
        users_key = file.users.tobytes() + file.sizes.tobytes() if own_users else b""
        files_by_users.setdefault(users_key, []).append(index)
    intervals: dict[int, list[list[MeanInterval]]] = {}  # by file, then by weighting
    for members in files_by_users.values():
        weights = compute_weights(files[members[0]].sizes) if own_users else common_weights
        columns = np.concatenate([values[index] for index in members], axis=1)
        member_intervals = mean_intervals(columns, weights)
        for position, index in enumerate(members):
            start = metric_count * position
            end = metric_count * (position + 1)
            intervals[index] = [
                column_intervals[start:end] for column_intervals in member_intervals
            ]
    paired = _pair_losses(_stack_columns(files, metric, common_users), common_weights, metric)
    labels = [file.label for file in files]
    reference_index = labels.index(reference) if reference else None
    leaderboards = []
    orders = []  # indices of the files, best first, by weighting
    for weighting_index, weighting in enumerate(WEIGHTINGS):
        differences, p_values = _compare_with_reference(paired, weighting_index, reference_index)
        means = [
            dict(zip(shown_metrics, intervals[index][weighting_index], strict=True))
            for index in range(len(files))
        ]
        ranked_files = assign_ranks(
            (file, file_means["LogLoss"].estimate)
            for file, file_means in zip(files, means, strict=True)
        )
        order = [labels.index(file.label) for file, _ in ranked_files]
        orders.append(order)
        rows = []
        for index, (_, rank) in zip(order, ranked_files, strict=True):
            file = files[index]
            undefined = np.isnan(values[index]).sum(0).tolist()
            row = LeaderboardRow(
                file=file,
                rank=None if file.invalid_reason else rank,
                users=len(values[index]),
                means=means[index],
                undefined_users=dict(zip(shown_metrics, undefined, strict=True)),
                to_best=differences[index],
                confidence_set_p_value=float(p_values[index]),
            )
            rows.append(row)
        leaderboards.append(Leaderboard(weighting, tuple(rows)))
    order_by_users = orders[_BY_USERS]
    paired_in_order = replace(
        paired,
        losses=paired.losses[:, order_by_users],
        resampled=paired.resampled[:, :, order_by_users],
    )
    return tuple(leaderboards), paired_in_order


def compute_weights(sizes: FloatArray) -> FloatArray:
    """Return the weights of users (users, weightings), in the order of WEIGHTINGS."""
    return np.column_stack([sizes, np.ones(len(sizes)), np.log(np.maximum(sizes, 1))])


def _pair_losses(values: FloatArray, weights: FloatArray, metric: str) -> _PairedLosses:
    """Return the losses of users with a value of every model.

    `values` of the metric are (users, models), `weights` are (users, weightings).
    """
    losses = _as_losses(metric, values)
    complete = np.isfinite(losses).all(axis=1)
    losses = losses[complete]
    weights = weights[complete]
    if complete.any():
        resampled = resample_means(losses, weights)
    else:
        resampled = np.empty((weights.shape[1], 0, losses.shape[1]))
    loss_sign = -1 if better_direction(metric) == "higher" else 1
    return _PairedLosses(losses, weights, resampled, loss_sign)


def _compare_with_reference(
    paired: _PairedLosses, weighting: int, reference: int | None
) -> tuple[list[MeanInterval | None], FloatArray]:
    """Return each model's difference to the reference, and its p-value in the confidence set.

    `weighting` and `reference` are indices; without a reference, differences are to the best mean.
    """
    user_count, model_count = paired.losses.shape
    p_values = np.full(model_count, np.nan)
    mean_losses = paired.mean_losses(weighting)
    if mean_losses is None:
        return [None] * model_count, p_values
    if reference is None:
        reference = int(np.argmin(np.round(mean_losses, 6)))  # to the digits of result files
    differences = [
        None if model == reference else paired.difference(model, reference, weighting)
        for model in range(model_count)
    ]
    if user_count >= MIN_USERS:
        p_values = compute_confidence_set(mean_losses, paired.resampled[weighting])
    return differences, p_values


def _average_users(values: FloatArray, differing: FloatArray, baseline: int | None) -> GroupMeans:
    """Average values (users, models) over users.

    Differences to the baseline are those of `differing` (users, models); without a baseline, there
    are none. Means and differences rest on the same resamples of users.
    """
    model_count = values.shape[1]
    no_weights = np.ones((len(values), 1))
    if baseline is None:
        (intervals,) = mean_intervals(values, no_weights)
        return GroupMeans(tuple(intervals), (None,) * model_count)
    differences = differing - differing[:, [baseline]]
    (intervals,) = mean_intervals(np.concatenate([values, differences], axis=1), no_weights)
    to_baseline: list[MeanInterval | None] = list(intervals[model_count:])
    to_baseline[baseline] = None
    return GroupMeans(tuple(intervals[:model_count]), tuple(to_baseline))


def _stack_columns(files: Sequence[ResultFile], metric: str, users: IntArray) -> FloatArray:
    """Return a metric of these users in each file (users, files)."""
    return np.concatenate([file.metric_columns((metric,), users) for file in files], axis=1)


# Averages over reviews, users, decks or cards


def compute_averages(
    folders: Sequence[ResultFolder], comparisons: Sequence[Comparison], modes: Sequence[str]
) -> list[list[Averages]]:
    """Average predictions over `modes` (user, deck, ...); return each comparison's averages.

    They are those of the files with predictions, and cover the users for whom all of these files
    hold every evaluated review. Raises InputError if no folder has predictions, or none for a mode.
    """
    if list(modes) == ["user"]:
        return [[] for _ in comparisons]
    averages: list[list[Averages]] = []
    for comparison in comparisons:
        users = comparison.users
        files_with_predictions = []
        for file in comparison.files:
            folder = batch_folder_of(file.path)
            predictions = read_predictions(folder, file.name_in_raw)
            if predictions is None:
                continue
            files_with_predictions.append(file)
            sizes = comparison.sizes[np.isin(comparison.users, users)]
            users = predictions.complete_users(users, sizes)
            if not len(users):
                raise InputError(
                    f'--average: the predictions of {file.label} in "{folder}" do '
                    "not cover the same reviews and users as the results and the other "
                    "predictions: evaluate again with --raw."
                )
        file_averages = []
        for file in files_with_predictions:
            # Read again, because the predictions of all files together may not fit into memory.
            predictions = read_predictions(batch_folder_of(file.path), file.name_in_raw)
            if predictions is not None:
                predictions = predictions.select_users(users)
                file_averages.append(
                    average_over_groups(
                        file.label, predictions, modes, is_baseline=file.is_baseline
                    )
                )
        averages.append(file_averages)
    if not any(averages):
        raise InputError(
            f"--average {','.join(modes)} needs predictions, but there is no folder raw with any "
            f'beside the results of "{folders[0].path}": evaluate with --raw.'
        )
    modes_with_means: set[str] = set()
    for file_averages in averages:
        for average in file_averages:
            modes_with_means.update(average.means)
    for mode in modes:
        if mode not in modes_with_means:
            raise InputError(
                f"--average {mode}: no predictions in raw say which {mode} a review belongs "
                f"to; parquet files with a column {GROUP_COLUMNS[mode]} are needed."
            )
    return averages


def group_by_reviews_before(averages: Sequence[Averages]) -> list[ReviewGroup]:
    """Compare models' log loss by reviews of the card before.

    Return [] if these are unknown for a model, or not the same for all.
    """
    ranges = {
        tuple((losses.first, losses.last, losses.reviews) for losses in average.by_reviews_before)
        for average in averages
    }
    if len(ranges) != 1 or ranges == {()}:
        return []
    baselines = [position for position, average in enumerate(averages) if average.is_baseline]
    baseline = baselines[0] if baselines else None
    groups = []
    for losses_of_group in zip(*(average.by_reviews_before for average in averages), strict=True):
        losses = np.column_stack([losses.log_loss for losses in losses_of_group])
        group = ReviewGroup(
            first=losses_of_group[0].first,
            last=losses_of_group[0].last,
            reviews=losses_of_group[0].reviews,
            users=int(np.isfinite(losses[:, 0]).sum()),
            means=_average_users(losses, losses, baseline),
        )
        groups.append(group)
    return groups


# Against another run


@dataclass(frozen=True, eq=False)
class Change:
    """Change of one configuration since another run; differences are new minus old."""

    file: ResultFile
    old_file: ResultFile
    users: int  # number of users compared: in both runs, evaluated on equally many reviews
    users_only_before: int
    users_only_now: int
    users_with_other_reviews: int  # in both runs, on a different number of reviews
    differences: Mapping[str, tuple[MeanInterval, ...]]  # by metric, in the order of WEIGHTINGS
    loss_differences: tuple[MeanInterval, ...]
    """Differences of the chosen metric as `_as_losses` transforms it, ordered as WEIGHTINGS."""
    users_with_metric: int  # users who have the chosen metric in both runs
    users_better: int  # by the chosen metric
    users_worse: int

    def verdict(self, weighting: _Weighting) -> str:
        """Return "better", "worse", "unchanged", "can't tell" or "no common user".

        The verdict is about the chosen metric, for a bias about its absolute value. "unchanged"
        says that no user's value has changed.
        """
        difference = self.loss_differences[WEIGHTINGS.index(weighting)]
        if not self.users:
            return "no common user"
        if self.users_with_metric and not (self.users_better or self.users_worse):
            return "unchanged"
        if not (difference.low > 0 or difference.high < 0) or self.users_with_metric < MIN_USERS:
            return "can't tell"
        return "better" if difference.high < 0 else "worse"


def compare_runs(
    files: Sequence[ResultFile],
    baseline_files: Sequence[ResultFile],
    metric: str = "LogLoss",
    metrics: Sequence[str] = ("LogLoss", "RMSE(bins)", "AUC"),
) -> list[Change]:
    """Compare every configuration that both runs have, with paired intervals over users.

    Raises InputError if the baseline has one of them twice, such as under two spellings.
    """
    baseline_by_name: dict[str, ResultFile] = {}
    for baseline_file in baseline_files:
        name = baseline_file.name
        if name in baseline_by_name and any(file.name == name for file in files):
            raise InputError(
                f'--baseline: "{baseline_by_name[name].path}" and "{baseline_file.path}" are '
                f"both {name}; remove one of them."
            )
        baseline_by_name[name] = baseline_file
    shown_metrics = tuple(dict.fromkeys((metric, *metrics)))
    changes = []
    for file in files:
        if file.name not in baseline_by_name:
            continue
        old_file = baseline_by_name[file.name]
        common_users, rows, old_rows = np.intersect1d(
            file.users, old_file.users, return_indices=True
        )
        same_size = file.sizes[rows] == old_file.sizes[old_rows]
        users = common_users[same_size]
        sizes = file.sizes[rows][same_size]
        values = file.metric_columns(shown_metrics, users)
        old_values = old_file.metric_columns(shown_metrics, users)
        loss_changes = _as_losses(metric, values[:, 0]) - _as_losses(metric, old_values[:, 0])
        intervals_by_weighting = mean_intervals(
            np.column_stack([values - old_values, loss_changes]), compute_weights(sizes)
        )
        differences = {}
        for column, name in enumerate(shown_metrics):
            differences[name] = tuple(intervals[column] for intervals in intervals_by_weighting)
        change = Change(
            file=file,
            old_file=old_file,
            users=len(users),
            users_only_before=len(old_file.users) - len(common_users),
            users_only_now=len(file.users) - len(common_users),
            users_with_other_reviews=len(common_users) - len(users),
            differences=differences,
            loss_differences=tuple(intervals[-1] for intervals in intervals_by_weighting),
            users_with_metric=int(np.isfinite(loss_changes).sum()),
            users_better=int((loss_changes < 0).sum()),
            users_worse=int((loss_changes > 0).sum()),
        )
        changes.append(change)
    return changes
