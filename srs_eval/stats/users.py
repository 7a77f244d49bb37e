"""Figures over users: means with their intervals, how sure one model is ahead of another, and
what depends on whether reviews, users, decks or cards are averaged.

Arrays are (n, k): n users, k models. A user whose figure is not defined (AUC with one class
only) holds nan and is left out of that figure, weight included. Users are independent of each
other, so whole users are resampled.
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

CONFIDENCE = 0.99
RESAMPLES = 9_999
SEED = 0  # of the resamples: a report made again is the same
FEWEST_USERS = 8
"""Below it not even a lead that all users share is surer than chance: 2 · 0.5⁷ > 1 - 0.99."""
_BLOCK = 256  # resamples that are drawn at a time


@dataclass(frozen=True)
class MeanInterval:
    """A (weighted) mean over users with a 99 % interval, which need not be symmetric."""

    estimate: float  # nan over no users
    low: float  # nan, as high is, over fewer than two users
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


# Bootstrap


def mean_intervals(
    values: FloatArray, weightings: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[list[MeanInterval]]:
    """Means of every column under every weighting (n, w), with BCa intervals: [w][k].

    Columns that are defined for the same users share their resamples, and so do weightings.
    """
    found = [[MeanInterval(math.nan, math.nan, math.nan)] * values.shape[1] for _ in weightings.T]
    for users, columns in _alike(values):
        part, weights = values[users][:, columns], weightings[users]
        drawn = resampled_means(part, weights, resamples=resamples, seed=seed)
        for number, weighting in enumerate(weights.T):
            for place, column in enumerate(columns):
                found[number][column] = bca_interval(
                    part[:, place], weighting, drawn[number, :, place]
                )
    return found


def _alike(values: FloatArray) -> Iterator[tuple[IntArray, list[int]]]:
    """The columns that are defined for the same users, with these; none without users."""
    groups: dict[bytes, list[int]] = {}
    defined = np.isfinite(values)
    for column in range(values.shape[1]):
        groups.setdefault(defined[:, column].tobytes(), []).append(column)
    for columns in groups.values():
        users = np.flatnonzero(defined[:, columns[0]])
        if len(users):
            yield users, columns


def resampled_means(
    values: FloatArray, weightings: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED
) -> FloatArray:
    """Means of (n, k) defined values in resamples of the users: (w, resamples, k).

    A drawn user brings figures and weights along; the draws are the same for all columns and
    weightings, so that differences of columns are paired.
    """
    users, models = values.shape
    kinds = weightings.shape[1]
    random = np.random.default_rng(seed)
    sums = np.concatenate([values * weightings[:, k, None] for k in range(kinds)], axis=1)
    columns = np.ascontiguousarray(np.concatenate([sums, weightings], axis=1))
    drawn = np.empty((kinds, resamples, models))
    counts = np.empty((_BLOCK, users))
    for start in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - start)
        for row in range(size):
            counts[row] = np.bincount(random.integers(0, users, users), minlength=users)
        totals = counts[:size] @ columns
        weight = totals[:, kinds * models :]
        for k in range(kinds):
            with np.errstate(invalid="ignore"):  # nan where all who are drawn weigh nothing
                drawn[k, start : start + size] = (
                    totals[:, k * models : (k + 1) * models] / weight[:, k, None]
                )
    return drawn


def bca_interval(values: FloatArray, weights: FloatArray, drawn: FloatArray) -> MeanInterval:
    """Efron's bias-corrected and accelerated interval of the weighted mean of (n,) values.

    `drawn` are its resampled values. The acceleration is the jackknife's, which for a weighted
    mean has a closed form. Efron (1987), JASA 82; as scipy.stats.bootstrap computes it.
    """
    from scipy.special import ndtr, ndtri

    total = weights.sum()
    if not total:
        return MeanInterval(math.nan, math.nan, math.nan)
    estimate = float((values * weights).sum() / total)
    drawn = drawn[np.isfinite(drawn)]
    if len(values) < 2 or weights.max() == total:
        return MeanInterval(estimate, math.nan, math.nan)
    if np.ptp(drawn) <= 1e-14 * max(1.0, abs(estimate)):  # all users have the same figure
        return MeanInterval(estimate, estimate, estimate)
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn <= estimate)) / 2
    bias = ndtri(below / len(drawn))
    without = (total * estimate - weights * values) / (total - weights)
    apart = without.mean() - without
    acceleration = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
    tail = ndtri((1 - CONFIDENCE) / 2)
    shares = [
        float(ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))) for z in (tail, -tail)
    ]
    if not all(map(math.isfinite, shares)):
        return MeanInterval(estimate, math.nan, math.nan)
    low, high = np.quantile(drawn, shares)
    return MeanInterval(estimate, float(low), float(high))


# Pairs of models. Figures are losses here: lower is better.


def superiority(losses: FloatArray) -> FloatArray:
    """Share of users for whom the row's model has the lower loss (k, k); a tie counts one half.

    Of the users for whom both are defined. nan on the diagonal and where there is no such user.
    """
    found = np.full((losses.shape[1], losses.shape[1]), np.nan)
    for row, column, difference in _pairs(losses):
        if len(difference):
            share = np.mean(difference < 0) + np.mean(difference == 0) / 2
            found[row, column], found[column, row] = share, 1 - share
    return found


_Effects = tuple[FloatArray, FloatArray]
"""Effect sizes and two-sided p-values of all pairs (k, k); positive: the row's model is better."""


def wilcoxon_effects(losses: FloatArray) -> _Effects:
    """Wilcoxon's signed-rank test of all pairs: r = z / √n over the n users who differ.

    Normal approximation with average ranks and without correction for continuity, pairs
    without a difference left out. Wilcoxon (1945), Biometrics Bulletin 1; r: Rosenthal (1991).
    """
    from scipy.special import ndtr
    from scipy.stats import wilcoxon

    def effect(difference: FloatArray) -> tuple[float, float]:
        difference = difference[difference != 0]
        n = len(difference)
        if not n:
            return 0.0, 1.0
        # One-sided, for the z of its two-sided test has no sign.
        found = wilcoxon(-difference, method="approx", alternative="greater")
        z = float(found.zstatistic)
        return z / math.sqrt(n), 2 * float(ndtr(-abs(z)))

    return _effects(losses, effect)


def t_effects(losses: FloatArray) -> _Effects:
    """Student's paired t-test of all pairs; the effect is Cohen's d, mean / SD of differences.

    Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, d_z.
    """
    from scipy.stats import ttest_1samp

    def effect(difference: FloatArray) -> tuple[float, float]:
        n = len(difference)
        if n < 2:
            return math.nan, math.nan
        spread = float(difference.std(ddof=1))
        if spread <= 1e-14:
            return (0.0, 1.0) if abs(difference[0]) <= 1e-14 else (math.nan, 0.0)
        return -float(difference.mean()) / spread, float(ttest_1samp(difference, 0.0).pvalue)

    return _effects(losses, effect)


def _effects(losses: FloatArray, effect: Callable[[FloatArray], tuple[float, float]]) -> _Effects:
    effects, p_values = np.full((2, losses.shape[1], losses.shape[1]), np.nan)
    for row, column, difference in _pairs(losses):
        found, p_value = effect(difference)
        effects[row, column], effects[column, row] = found, -found
        p_values[row, column] = p_values[column, row] = p_value
    return effects, p_values


def _pairs(losses: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
    """Two models each, with the differences of the users for whom both are defined."""
    for row, column in combinations(range(losses.shape[1]), 2):
        difference = losses[:, column] - losses[:, row]
        yield column, row, difference[np.isfinite(difference)]


def holm(p_values: FloatArray) -> FloatArray:
    """p-values of pairs (k, k) that hold for all pairs together; nan ones are of no pair.

    Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6.
    """
    row, column = np.triu_indices(len(p_values), 1)
    known = np.isfinite(p_values[row, column])
    row, column = row[known], column[known]
    order = np.argsort(p_values[row, column], kind="stable")
    row, column = row[order], column[order]
    rising = np.maximum.accumulate(p_values[row, column] * np.arange(len(row), 0, -1))
    found = np.full(p_values.shape, np.nan)
    found[row, column] = found[column, row] = np.minimum(rising, 1.0)
    return found


# Model confidence set


def confidence_set(estimates: FloatArray, drawn: FloatArray) -> FloatArray:
    """p-values (k,) of the model confidence set of mean losses (k,) with resampled ones (b, k).

    A model is in the set of confidence c if its p-value is at least 1 - c: with probability c
    the set holds the best. While the models that are left differ by the test of the largest
    standardised difference from their mean (T_max), the worst of them is taken out; its p-value
    is the largest so far, that of the last is 1.
    Hansen, Lunde & Nason (2011), The model confidence set, Econometrica 79.
    """
    left = list(range(len(estimates)))
    p_values = np.ones(len(estimates))
    largest = 0.0
    while len(left) > 1:
        differences = estimates[left] - estimates[left].mean()
        resampled = drawn[:, left] - drawn[:, left].mean(axis=1, keepdims=True) - differences
        errors = np.sqrt(np.mean(resampled**2, axis=0))
        if not errors.any():  # models without a difference between them, or of one user
            if not differences.any():
                break
            worst = int(np.argmax(differences))
            p_value = 0.0
        else:
            errors = np.maximum(errors, 1e-12 * errors.max())
            statistics = differences / errors
            worst = int(np.argmax(statistics))
            p_value = float(np.mean((resampled / errors).max(axis=1) >= statistics[worst]))
        largest = max(largest, p_value)
        p_values[left.pop(worst)] = largest
    return p_values


# One set of predictions, averaged over reviews, users, decks or cards. Which of them is meant
# decides figures and at times the ranking; who does not say it says little. Pelánek (2017),
# Measuring predictive performance of user models: the details matter, UMAP; docs/metrics.md shows a
# ranking that turns.

MODES = ("global", "user", "deck", "card")
COLUMNS = {"deck": "deck_id", "card": "card_id"}  # that groups have in parquet files


@dataclass(frozen=True, eq=False)
class Predictions:
    """k evaluated reviews with one model's predictions."""

    p: FloatArray  # (k,)
    y: FloatArray  # (k,) 1.0 recalled
    groups: Mapping[str, IntArray]
    """(k,) ids of the users, and numbers of deck and card as far as these are known, unlike
    between users."""

    def complete(self, users: IntArray, sizes: FloatArray) -> IntArray:
        """Those of some users who have as many reviews here as are named for them."""
        known, counts = np.unique(self.groups["user"], return_counts=True)
        here = dict(zip(known.tolist(), counts.tolist(), strict=True))
        alike = [here.get(user) == size for user, size in zip(users, sizes, strict=True)]
        return users[np.array(alike, dtype=bool)]

    def of(self, users: IntArray) -> Predictions:
        """Those of some users."""
        inside = np.isin(self.groups["user"], users)
        groups = {mode: group[inside] for mode, group in self.groups.items()}
        return Predictions(self.p[inside], self.y[inside], groups)


@dataclass(frozen=True, eq=False)
class Averages:
    """One configuration's figures by mode; a mode whose groups are not known is left out."""

    label: str
    means: Mapping[str, Mapping[str, float]]  # mode -> metric; nan where it is not defined at all
    groups: Mapping[str, int]  # mode -> number averaged over; reviews for "global"
    undefined: Mapping[str, Mapping[str, int]]  # mode -> metric -> groups left out
    is_baseline: bool = False


def averages(
    label: str, found: Predictions, modes: Sequence[str] = MODES, *, is_baseline: bool = False
) -> Averages:
    """Means of LogLoss, RMSE and AUC over groups, each group counting the same."""
    means: dict[str, dict[str, float]] = {}
    groups: dict[str, int] = {}
    undefined: dict[str, dict[str, int]] = {}
    for mode in modes:
        if mode == "global":
            group = np.zeros(len(found.p), dtype=np.int64)
        elif mode in found.groups:
            group = np.unique(found.groups[mode], return_inverse=True)[1]
        else:
            continue
        figures = _by_group(found.y, found.p, group)
        groups[mode] = len(found.p) if mode == "global" else int(group.max(initial=-1)) + 1
        undefined[mode] = {name: int(np.isnan(each).sum()) for name, each in figures.items()}
        means[mode] = {
            name: float(np.mean(each[~np.isnan(each)])) if not np.isnan(each).all() else np.nan
            for name, each in figures.items()
        }
    return Averages(label, means, groups, undefined, is_baseline)


def _by_group(y: FloatArray, p: FloatArray, group: IntArray) -> dict[str, FloatArray]:
    """LogLoss, RMSE and AUC of each group (g,); `group` (k,) counts from 0. AUC nan: one class."""
    count = np.bincount(group)
    loss = np.bincount(group, log_losses(y, p)) / count
    rmse = np.sqrt(np.bincount(group, (p - y) ** 2) / count)
    return {"LogLoss": loss, "RMSE": rmse, "AUC": _auc(y, p, group, len(count))}


def _auc(y: FloatArray, p: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Mann-Whitney statistic of each group over its pairs; equal p share their ranks."""
    from scipy.stats import rankdata

    _, place = np.unique(p, return_inverse=True)
    count = np.bincount(group, minlength=groups)
    # Within groups, for all of a group come before those of the next.
    rank = rankdata(group * len(p) + place) - (np.cumsum(count) - count)[group]
    recalled = np.bincount(group, y, groups)
    forgotten = np.bincount(group, 1 - y, groups)
    pairs = recalled * forgotten
    with np.errstate(invalid="ignore"):
        found: FloatArray = (
            np.bincount(group, rank * y, groups) - recalled * (recalled + 1) / 2
        ) / np.where(pairs > 0, pairs, np.nan)
    return found


def places(found: Sequence[Averages], mode: str, metric: str) -> list[int | None]:
    """The place of each by a metric's mean, from 1, equal ones sharing theirs.

    None for the baseline and without a mean.
    """
    sign = -1 if metric == "AUC" else 1
    losses = [
        np.nan if each.is_baseline or mode not in each.means else sign * each.means[mode][metric]
        for each in found
    ]
    known = sorted(round(loss, 6) for loss in losses if not np.isnan(loss))
    return [None if np.isnan(loss) else 1 + known.index(round(loss, 6)) for loss in losses]


# Files


def read_predictions(folder: Path, name: str) -> Predictions | None:
    """A configuration's predictions in a folder's `raw/`; None where there are none.

    Parquet as `srs-eval batch --raw` writes it, or in any arrangement with `user`,
    `configuration`, `p` and `y` and, for the other modes, `deck_id` and `card_id`; or
    srs-benchmark's `raw/NAME.jsonl` with lists `p` and `y` by user.
    """
    raw = folder / "raw"
    lists = raw / f"{name}.jsonl"
    if lists.is_file():
        return _from_lists(lists)
    own = raw / name
    tables = sorted((own if own.is_dir() else raw).rglob("*.parquet"))
    return _from_parquet(raw, tables, name) if tables else None


def _from_parquet(raw: Path, tables: Sequence[Path], name: str) -> Predictions | None:
    require("pyarrow", printable(raw))
    import pyarrow
    import pyarrow.compute
    import pyarrow.dataset

    try:
        found = pyarrow.dataset.dataset([str(path) for path in tables], format="parquet")
        missing = {"user", "configuration", "p", "y"} - set(found.schema.names)
        if missing:
            raise InputError(f'"{raw}": the predictions have no column {min(missing)}.')
        columns = [
            each for each in ("user", "p", "y", *COLUMNS.values()) if each in found.schema.names
        ]
        table = found.to_table(
            columns=columns, filter=pyarrow.compute.field("configuration") == name
        )
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f'"{raw}" cannot be read ({str(error).splitlines()[0]}).') from None
    if not table.num_rows:
        return None
    values = {each: table[each].to_numpy() for each in columns}
    groups = {"user": np.asarray(values["user"], dtype=np.int64)}
    for mode, column in COLUMNS.items():
        if column in values:
            groups[mode] = _within(values["user"], values[column])
    return Predictions(_checked(values["p"], raw), _checked(values["y"], raw), groups)


def _within(user: IntArray, group: IntArray) -> IntArray:
    """Numbers of groups that are told apart by user."""
    _, inner = np.unique(group, return_inverse=True)
    user = np.unique(user, return_inverse=True)[1]
    return user * (int(inner.max(initial=0)) + 1) + inner


def _from_lists(path: Path) -> Predictions:
    of_users: dict[int, tuple[FloatArray, FloatArray]] = {}  # of a repeated user the last counts
    count = 0  # lines read
    try:
        with open(path, encoding="utf-8") as file:
            for text in file:
                count += 1
                line = json.loads(text)
                p, y = (np.array(line[key], dtype=float) for key in ("p", "y"))
                if p.ndim != 1 or p.shape != y.shape or not isinstance(line["user"], int):
                    raise ValueError
                of_users[line["user"]] = p, y
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f'"{path}", line {count}: lists p and y of one length and a user are needed.'
        ) from None
    if not of_users:
        raise InputError(f'"{path}" is empty: take it away, or evaluate again.')
    user = np.repeat(np.array(list(of_users)), [len(p) for p, _ in of_users.values()])
    whole_p, whole_y = map(np.concatenate, zip(*of_users.values(), strict=True))
    return Predictions(_checked(whole_p, path), _checked(whole_y, path), {"user": user})


def _checked(values: FloatArray, path: Path) -> FloatArray:
    values = np.asarray(values, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f'"{path}": p and y must lie between 0 and 1.')
    return values
