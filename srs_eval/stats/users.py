"""Compute means over users with intervals, test which model is ahead, and compare averages.

The averages are over reviews, users, decks or cards. Arrays are (n, k): n users, k models. A user
whose figure is not defined (AUC with one class only) has nan there and is left out of that figure,
weight included. Users are independent of each other, so whole users are resampled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from srs_eval.data.errors import InputError, printable, require
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.metrics import log_losses
from srs_eval.stats.ranges import REVIEW_STEPS, split_by_range

CONFIDENCE = 0.99
RESAMPLES = 9_999
SEED = 0  # of the random resamples, so that a repeated report is the same
MIN_USERS = 8
"""With fewer, a lead may be due to chance even if all users share it.

2 · 0.5⁷ > 1 - 0.99 (sign test).
"""
_RESAMPLES_PER_BLOCK = 256  # resamples that are drawn at a time


@dataclass(frozen=True)
class MeanInterval:
    """A (weighted) mean over users with a 99 % interval, which need not be symmetric."""

    estimate: float  # nan without users
    low: float  # nan, like `high`, with fewer than two users
    high: float

    @property
    def half_width(self) -> float:
        """Return half of the interval's width."""
        return (self.high - self.low) / 2


# Bootstrap


def mean_intervals(
    values: FloatArray, weightings: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[list[MeanInterval]]:
    """Compute the mean of every column (n, k) under every weighting (n, w), with BCa intervals.

    Returns a list for each weighting, which holds an interval for each column. Columns that are
    defined for the same users share their resamples, and so do weightings.
    """
    models = values.shape[1]
    undefined = MeanInterval(math.nan, math.nan, math.nan)
    intervals = [[undefined] * models for _ in weightings.T]
    for users, columns in _group_by_users(values):
        defined = values[users][:, columns]
        weights = weightings[users]
        resampled = resample_means(defined, weights, resamples=resamples, seed=seed)
        for w, weighting in enumerate(weights.T):
            for position, column in enumerate(columns):
                intervals[w][column] = compute_bca_interval(
                    defined[:, position], weighting, resampled[w, :, position]
                )
    return intervals


def _group_by_users(values: FloatArray) -> Iterator[tuple[IntArray, list[int]]]:
    """Yield sets of users, each with the columns that are defined for exactly these users.

    Columns that are not defined for any user are left out.
    """
    groups: dict[bytes, list[int]] = {}
    defined = np.isfinite(values)
    for column in range(values.shape[1]):
        groups.setdefault(defined[:, column].tobytes(), []).append(column)
    for columns in groups.values():
        users = np.flatnonzero(defined[:, columns[0]])
        if len(users):
            yield users, columns


def resample_means(
    values: FloatArray, weightings: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED
) -> FloatArray:
    """Compute means of (n, k) defined values in resamples of the users: (w, resamples, k).

    A drawn user contributes figures and weights; the draws are the same for all columns and
    weightings, so that differences of columns are paired.
    """
    users, models = values.shape
    weighting_count = weightings.shape[1]
    generator = np.random.default_rng(seed)
    weighted = [values * weightings[:, w, None] for w in range(weighting_count)]
    # One matrix product sums the weighted values (k columns for each weighting) and the weights.
    columns = np.ascontiguousarray(np.concatenate([*weighted, weightings], axis=1))
    resampled = np.empty((weighting_count, resamples, models))
    counts = np.empty((_RESAMPLES_PER_BLOCK, users))  # how often each user is drawn
    for start in range(0, resamples, _RESAMPLES_PER_BLOCK):
        size = min(_RESAMPLES_PER_BLOCK, resamples - start)
        for row in range(size):
            counts[row] = np.bincount(generator.integers(0, users, users), minlength=users)
        sums = counts[:size] @ columns
        weight_sums = sums[:, weighting_count * models :]
        for w in range(weighting_count):
            with np.errstate(invalid="ignore"):  # nan if all drawn users have weight 0
                resampled[w, start : start + size] = (
                    sums[:, w * models : (w + 1) * models] / weight_sums[:, w, None]
                )
    return resampled


def compute_bca_interval(
    values: FloatArray, weights: FloatArray, resampled: FloatArray
) -> MeanInterval:
    """Compute Efron's bias-corrected and accelerated interval of a weighted mean of (n,) values.

    `resampled` are the mean's resampled values. The acceleration is the jackknife's, which for a
    weighted mean has a closed form. Efron (1987), JASA 82; as scipy.stats.bootstrap computes it.
    """
    from scipy.special import ndtr, ndtri

    total_weight = weights.sum()
    if not total_weight:
        return MeanInterval(math.nan, math.nan, math.nan)
    estimate = float((values * weights).sum() / total_weight)
    resampled = resampled[np.isfinite(resampled)]
    if len(values) < 2 or weights.max() == total_weight:  # one user has all the weight
        return MeanInterval(estimate, math.nan, math.nan)
    if np.ptp(resampled) <= 1e-14 * max(1.0, abs(estimate)):  # all users have the same figure
        return MeanInterval(estimate, estimate, estimate)
    lower = np.count_nonzero(resampled < estimate)
    lower_or_equal = np.count_nonzero(resampled <= estimate)
    bias = ndtri((lower + lower_or_equal) / 2 / len(resampled))
    leave_one_out = (total_weight * estimate - weights * values) / (total_weight - weights)
    deviations = leave_one_out.mean() - leave_one_out
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    tail = ndtri((1 - CONFIDENCE) / 2)
    levels = []  # the quantiles of `resampled` that bound the interval
    for z in (tail, -tail):
        levels.append(float(ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))))
    if not all(map(math.isfinite, levels)):
        return MeanInterval(estimate, math.nan, math.nan)
    low, high = np.quantile(resampled, levels)
    return MeanInterval(estimate, float(low), float(high))


# Pairs of models. Figures are losses here: lower is better.


def compute_superiority(losses: FloatArray) -> FloatArray:
    """Compute the share of users for whom the row's model has the lower loss (k, k).

    A tie counts one half. Only users for whom both losses are defined count; nan on the diagonal
    and where there is no such user.
    """
    models = losses.shape[1]
    superiority = np.full((models, models), np.nan)
    for row, column, difference in _iterate_pairs(losses):
        if len(difference):
            share = np.mean(difference < 0) + np.mean(difference == 0) / 2
            superiority[row, column] = share
            superiority[column, row] = 1 - share
    return superiority


_Effects = tuple[FloatArray, FloatArray]
"""Effect sizes and two-sided p-values of all pairs (k, k); positive: the row's model is better."""


def wilcoxon_effects(losses: FloatArray) -> _Effects:
    """Run Wilcoxon's signed-rank test of all pairs; the effect is r = z / √n.

    n counts the users for whom the two losses differ; the others are left out. Normal approximation
    with average ranks and without correction for continuity. Wilcoxon (1945), Biometrics Bulletin
    1; r: Rosenthal (1991).
    """
    from scipy.special import ndtr
    from scipy.stats import wilcoxon

    def effect(difference: FloatArray) -> tuple[float, float]:
        difference = difference[difference != 0]
        n = len(difference)
        if not n:
            return 0.0, 1.0
        # One-sided, because the z of the two-sided test has no sign.
        result = wilcoxon(-difference, method="approx", alternative="greater")
        z = float(result.zstatistic)
        return z / math.sqrt(n), 2 * float(ndtr(-abs(z)))

    return _effects_of_pairs(losses, effect)


def t_effects(losses: FloatArray) -> _Effects:
    """Run Student's paired t-test of all pairs; the effect is Cohen's d.

    That is mean / SD of differences. Cohen (1988), Statistical Power Analysis for the Behavioral
    Sciences, d_z.
    """
    from scipy.stats import ttest_1samp

    def effect(difference: FloatArray) -> tuple[float, float]:
        n = len(difference)
        if n < 2:
            return math.nan, math.nan
        spread = float(difference.std(ddof=1))
        if spread <= 1e-14:  # all users have the same difference, up to rounding
            return (0.0, 1.0) if abs(difference[0]) <= 1e-14 else (math.nan, 0.0)
        return -float(difference.mean()) / spread, float(ttest_1samp(difference, 0.0).pvalue)

    return _effects_of_pairs(losses, effect)


def _effects_of_pairs(
    losses: FloatArray, effect: Callable[[FloatArray], tuple[float, float]]
) -> _Effects:
    """Compute `effect`, which returns effect size and p-value, for the differences of each pair."""
    models = losses.shape[1]
    effects, p_values = np.full((2, models, models), np.nan)
    for row, column, difference in _iterate_pairs(losses):
        effect_size, p_value = effect(difference)
        effects[row, column] = effect_size
        effects[column, row] = -effect_size
        p_values[row, column] = p_value
        p_values[column, row] = p_value
    return effects, p_values


def _iterate_pairs(losses: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield the row and column of every pair of models, with the row's losses minus the column's.

    Differences are those of the users for whom both losses are defined.
    """
    for column, row in combinations(range(losses.shape[1]), 2):
        difference = losses[:, row] - losses[:, column]
        yield row, column, difference[np.isfinite(difference)]


def adjust_by_holm(p_values: FloatArray) -> FloatArray:
    """Adjust p-values of pairs (k, k) to hold for all pairs together; nan stays nan.

    Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6.
    """
    row, column = np.triu_indices(len(p_values), 1)
    is_defined = np.isfinite(p_values[row, column])
    row = row[is_defined]
    column = column[is_defined]
    order = np.argsort(p_values[row, column], kind="stable")
    row = row[order]
    column = column[order]
    rising = np.maximum.accumulate(p_values[row, column] * np.arange(len(row), 0, -1))
    capped = np.minimum(rising, 1.0)
    adjusted = np.full(p_values.shape, np.nan)
    adjusted[row, column] = capped
    adjusted[column, row] = capped
    return adjusted


# Model confidence set


def compute_confidence_set(estimates: FloatArray, drawn: FloatArray) -> FloatArray:
    """Compute p-values (k,) of the model confidence set of mean losses (k,).

    `drawn` (b, k) are resampled means. A model is in the set of confidence c if its p-value is at
    least 1 - c: with probability c the set contains the best model.

    The test statistic is the largest standardised difference from the mean of the remaining models
    (T_max). The worst model is removed until one is left, whose p-value is 1. A removed model's
    p-value is the largest of the tests so far.
    Hansen, Lunde & Nason (2011), The model confidence set, Econometrica 79.
    """
    remaining = list(range(len(estimates)))
    p_values = np.ones(len(estimates))
    largest = 0.0
    while len(remaining) > 1:
        estimates_left = estimates[remaining]
        drawn_left = drawn[:, remaining]
        differences = estimates_left - estimates_left.mean()
        resampled = drawn_left - drawn_left.mean(axis=1, keepdims=True) - differences
        errors = np.sqrt(np.mean(resampled**2, axis=0))
        if not errors.any():  # the models do not differ, or there is only one user
            if not differences.any():
                break
            worst = int(np.argmax(differences))
            p_value = 0.0
        else:
            errors = np.maximum(errors, 1e-12 * errors.max())  # avoids divisions by 0
            statistics = differences / errors
            worst = int(np.argmax(statistics))
            p_value = float(np.mean((resampled / errors).max(axis=1) >= statistics[worst]))
        largest = max(largest, p_value)
        p_values[remaining.pop(worst)] = largest
    return p_values


# One set of predictions, averaged over reviews, users, decks or cards. This choice determines the
# figures and at times the ranking, so it has to be stated. Pelánek (2017), Measuring predictive
# performance of user models: the details matter, UMAP; docs/metrics.md shows a ranking that is
# reversed.

AVERAGING_MODES = ("global", "user", "deck", "card")
GROUP_COLUMNS = {"deck": "deck_id", "card": "card_id"}  # of the groups in parquet files
_REVIEWS_BEFORE = "reviews_before"  # column of the card's reviews before in parquet files


@dataclass(frozen=True, eq=False)
class Predictions:
    """k evaluated reviews with one model's predictions."""

    p: FloatArray  # (k,)
    y: FloatArray  # (k,) 1.0 recalled
    groups: Mapping[str, IntArray]
    """Arrays (k,) by averaging mode. "user" has the ids of users; "deck" and "card", which may be
    missing, have numbers that no two users share."""
    reviews_before: IntArray | None = None  # (k,) reviews of the card before; None if unknown

    def complete_users(self, users: IntArray, sizes: FloatArray) -> IntArray:
        """Return the users who have as many reviews here as `sizes` states for them."""
        present_users, counts = np.unique(self.groups["user"], return_counts=True)
        count_of = dict(zip(present_users.tolist(), counts.tolist(), strict=True))
        is_complete = []
        for user, size in zip(users, sizes, strict=True):
            is_complete.append(count_of.get(user) == size)
        complete_users: IntArray = users[np.array(is_complete, dtype=bool)]
        return complete_users

    def select_users(self, users: IntArray) -> Predictions:
        """Return the predictions of some users."""
        is_selected = np.isin(self.groups["user"], users)
        groups = {mode: group[is_selected] for mode, group in self.groups.items()}
        reviews_before = None
        if self.reviews_before is not None:
            reviews_before = self.reviews_before[is_selected]
        return Predictions(self.p[is_selected], self.y[is_selected], groups, reviews_before)


@dataclass(frozen=True, eq=False)
class Averages:
    """One configuration's figures by averaging mode, without modes whose groups are unknown."""

    label: str
    means: Mapping[str, Mapping[str, float]]  # mode -> metric; nan if no group defines it
    groups: Mapping[str, int]  # mode -> number averaged over; reviews for "global"
    undefined: Mapping[str, Mapping[str, int]]  # mode -> metric -> groups left out
    is_baseline: bool = False
    by_reviews_before: tuple[UserLosses, ...] = ()  # () if the reviews before are unknown


@dataclass(frozen=True, eq=False)
class UserLosses:
    """Each user's mean log loss over reviews with as many reviews of the card before."""

    first: int  # fewest reviews of the card before
    last: int | None  # most of them; None if open
    reviews: int  # of all users
    log_loss: FloatArray  # (users,) ascending by user; nan for users without such reviews


def average_over_groups(
    label: str,
    predictions: Predictions,
    modes: Sequence[str] = AVERAGING_MODES,
    *,
    is_baseline: bool = False,
) -> Averages:
    """Compute means of LogLoss, RMSE and AUC over groups, with equal weight for each group.

    In the mode "global", the figures are those of all reviews together.
    """
    means: dict[str, dict[str, float]] = {}
    groups: dict[str, int] = {}
    undefined: dict[str, dict[str, int]] = {}
    for mode in modes:
        if mode == "global":
            group = np.zeros(len(predictions.p), dtype=np.int64)  # all reviews in one group
            groups[mode] = len(predictions.p)
        elif mode in predictions.groups:
            group = np.unique(predictions.groups[mode], return_inverse=True)[1]
            groups[mode] = int(group.max(initial=-1)) + 1
        else:
            continue
        means[mode] = {}
        undefined[mode] = {}
        figures = _metrics_by_group(predictions.y, predictions.p, group)
        for metric, values in figures.items():
            defined = values[~np.isnan(values)]
            means[mode][metric] = float(np.mean(defined)) if len(defined) else np.nan
            undefined[mode][metric] = len(values) - len(defined)
    by_reviews = tuple(_split_by_reviews_before(predictions))
    return Averages(label, means, groups, undefined, is_baseline, by_reviews)


def _split_by_reviews_before(predictions: Predictions) -> Iterator[UserLosses]:
    """Yield users' mean log losses by ranges of the card's reviews before, if these are known."""
    if predictions.reviews_before is None:
        return
    users, user = np.unique(predictions.groups["user"], return_inverse=True)
    losses = log_losses(predictions.y, predictions.p)
    for first, last, positions in split_by_range(predictions.reviews_before, REVIEW_STEPS):
        reviews = np.bincount(user[positions], minlength=len(users))
        sums = np.bincount(user[positions], losses[positions], len(users))
        with np.errstate(invalid="ignore"):
            yield UserLosses(first, last, len(positions), sums / reviews)


def _metrics_by_group(y: FloatArray, p: FloatArray, group: IntArray) -> dict[str, FloatArray]:
    """Compute LogLoss, RMSE and AUC of each group (g,); AUC is nan if it has only one class.

    `group` (k,) counts from 0.
    """
    count = np.bincount(group)
    loss = np.bincount(group, log_losses(y, p)) / count
    rmse = np.sqrt(np.bincount(group, (p - y) ** 2) / count)
    return {"LogLoss": loss, "RMSE": rmse, "AUC": _auc_by_group(y, p, group, len(count))}


def _auc_by_group(y: FloatArray, p: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Compute the AUC of each group (`groups`,): the Mann-Whitney statistic over its pairs."""
    from scipy.stats import rankdata

    _, p_rank = np.unique(p, return_inverse=True)
    count = np.bincount(group, minlength=groups)
    # Ranks within groups, because all reviews of a group come before the next group's.
    rank = rankdata(group * len(p) + p_rank) - (np.cumsum(count) - count)[group]
    recalled = np.bincount(group, y, groups)
    forgotten = np.bincount(group, 1 - y, groups)
    pairs = recalled * forgotten
    rank_sum = np.bincount(group, rank * y, groups)
    with np.errstate(invalid="ignore"):
        lower_pairs = rank_sum - recalled * (recalled + 1) / 2
        auc: FloatArray = lower_pairs / np.where(pairs > 0, pairs, np.nan)
    return auc


def compute_ranks(configurations: Sequence[Averages], mode: str, metric: str) -> list[int | None]:
    """Rank the averages by a metric's mean, from 1; equal means share a rank.

    None for the baseline and for averages without a mean.
    """
    sign = -1 if metric == "AUC" else 1
    losses = []
    for averages in configurations:
        if averages.is_baseline or mode not in averages.means:
            losses.append(np.nan)
        else:
            losses.append(sign * averages.means[mode][metric])
    sorted_losses = sorted(round(loss, 6) for loss in losses if not np.isnan(loss))
    ranks: list[int | None] = []
    for loss in losses:
        ranks.append(None if np.isnan(loss) else 1 + sorted_losses.index(round(loss, 6)))
    return ranks


# Files


def read_predictions(folder: Path, name: str) -> Predictions | None:
    """Read a configuration's predictions from a folder's `raw/`; None if there are none.

    Reads srs-benchmark's `raw/NAME.jsonl`, with lists `p` and `y` for each user, or else parquet
    files: those of `srs-eval batch --raw`, or any with the columns `user`, `configuration`, `p` and
    `y`. Averages by deck and by card also need the columns `deck_id` and `card_id`, and losses by
    the card's reviews before need `reviews_before`.
    """
    raw = folder / "raw"
    list_file = raw / f"{name}.jsonl"
    if list_file.is_file():
        return _read_jsonl(list_file)
    configuration_folder = raw / name
    folder_of_tables = configuration_folder if configuration_folder.is_dir() else raw
    tables = sorted(folder_of_tables.rglob("*.parquet"))
    return _read_parquet(raw, tables, name) if tables else None


def _read_parquet(raw: Path, tables: Sequence[Path], name: str) -> Predictions | None:
    require("pyarrow", printable(raw))
    import pyarrow
    import pyarrow.compute
    import pyarrow.dataset

    try:
        dataset = pyarrow.dataset.dataset([str(path) for path in tables], format="parquet")
        missing = {"user", "configuration", "p", "y"} - set(dataset.schema.names)
        if missing:
            raise InputError(f'"{raw}": the predictions have no column {min(missing)}.')
        columns = [
            column
            for column in ("user", "p", "y", *GROUP_COLUMNS.values(), _REVIEWS_BEFORE)
            if column in dataset.schema.names
        ]
        table = dataset.to_table(
            columns=columns, filter=pyarrow.compute.field("configuration") == name
        )
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f'"{raw}" cannot be read ({str(error).splitlines()[0]}).') from None
    if not table.num_rows:
        return None
    values = {column: table[column].to_numpy() for column in columns}
    groups = {"user": np.asarray(values["user"], dtype=np.int64)}
    for mode, column in GROUP_COLUMNS.items():
        if column in values:
            groups[mode] = _number_within_users(values["user"], values[column])
    p = _check_probabilities(values["p"], raw)
    y = _check_probabilities(values["y"], raw)
    reviews_before = None
    if _REVIEWS_BEFORE in values and not table[_REVIEWS_BEFORE].null_count:
        reviews_before = np.asarray(values[_REVIEWS_BEFORE], dtype=np.int64)
    return Predictions(p, y, groups, reviews_before)


def _number_within_users(user: IntArray, group: IntArray) -> IntArray:
    """Return group numbers that no two users share, even if they share ids of groups."""
    _, user_number = np.unique(user, return_inverse=True)
    _, group_number = np.unique(group, return_inverse=True)
    group_count = int(group_number.max(initial=0)) + 1
    return user_number * group_count + group_number


def _read_jsonl(path: Path) -> Predictions:
    columns_of_user: dict[int, tuple[FloatArray, FloatArray]] = {}  # p and y
    line_number = 0
    try:
        with open(path, encoding="utf-8") as file:
            for text in file:
                line_number += 1
                line = json.loads(text)
                p = np.array(line["p"], dtype=float)
                y = np.array(line["y"], dtype=float)
                if p.ndim != 1 or p.shape != y.shape or not isinstance(line["user"], int):
                    raise ValueError
                columns_of_user[line["user"]] = p, y  # a user's last line counts
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f'"{path}", line {line_number}: a user, and lists p and y of equal length, are needed.'
        ) from None
    if not columns_of_user:
        raise InputError(f'"{path}" is empty: delete it, or evaluate again.')
    sizes = [len(p) for p, _ in columns_of_user.values()]
    user = np.repeat(np.array(list(columns_of_user)), sizes)
    all_p = np.concatenate([p for p, _ in columns_of_user.values()])
    all_y = np.concatenate([y for _, y in columns_of_user.values()])
    return Predictions(
        _check_probabilities(all_p, path), _check_probabilities(all_y, path), {"user": user}
    )


def _check_probabilities(values: FloatArray, path: Path) -> FloatArray:
    """Return values as floats. Raises InputError unless all lie between 0 and 1."""
    values = np.asarray(values, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f'"{path}": p and y must lie between 0 and 1.')
    return values
