"""One set of predictions, averaged in several ways: over reviews, users, decks or cards.

Which of them is meant decides figures and at times the ranking; who does not say it says little.
Pelánek (2017), Measuring predictive performance of user models: the details matter, UMAP;
docs/metrics.md shows a ranking that turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.metrics import log_losses

MODES = ("global", "user", "deck", "card")
_METRICS = ("LogLoss", "RMSE", "AUC")
COLUMNS = {"deck": "deck_id", "card": "card_id"}  # that groups have in parquet files


@dataclass(frozen=True, eq=False)
class _Predictions:
    """k judged reviews with one model's predictions."""

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

    def of(self, users: IntArray) -> _Predictions:
        """Those of some users."""
        inside = np.isin(self.groups["user"], users)
        groups = {mode: group[inside] for mode, group in self.groups.items()}
        return _Predictions(self.p[inside], self.y[inside], groups)


@dataclass(frozen=True, eq=False)
class Averages:
    """One configuration's figures by mode; a mode whose groups are not known is left out."""

    label: str
    means: Mapping[str, Mapping[str, float]]  # mode -> metric; nan where it is not defined at all
    groups: Mapping[str, int]  # mode -> number averaged over; reviews for "global"
    undefined: Mapping[str, Mapping[str, int]]  # mode -> metric -> groups left out
    is_floor: bool = False


def averages(
    label: str, found: _Predictions, modes: Sequence[str] = MODES, *, is_floor: bool = False
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
        figures = by_group(found.y, found.p, group)
        groups[mode] = len(found.p) if mode == "global" else int(group.max(initial=-1)) + 1
        undefined[mode] = {name: int(np.isnan(each).sum()) for name, each in figures.items()}
        means[mode] = {
            name: float(np.mean(each[~np.isnan(each)])) if not np.isnan(each).all() else np.nan
            for name, each in figures.items()
        }
    return Averages(label, means, groups, undefined, is_floor)


def by_group(y: FloatArray, p: FloatArray, group: IntArray) -> dict[str, FloatArray]:
    """LogLoss, RMSE and AUC of each group (g,); `group` (k,) counts from 0. AUC nan: one class."""
    count = np.bincount(group)
    loss = np.bincount(group, log_losses(y, p)) / count
    rmse = np.sqrt(np.bincount(group, (p - y) ** 2) / count)
    return {"LogLoss": loss, "RMSE": rmse, "AUC": _auc(y, p, group, len(count))}


def _auc(y: FloatArray, p: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Mann-Whitney statistic of each group over its pairs; equal p share their ranks."""
    order = np.lexsort((p, group))
    group, p, y = group[order], p[order], y[order]
    new = np.r_[True, (group[1:] != group[:-1]) | (p[1:] != p[:-1])]
    tie = np.cumsum(new) - 1
    start = np.flatnonzero(new)
    size = np.diff(np.r_[start, len(p)])
    first = np.searchsorted(group, np.arange(groups))
    rank = (start + (size - 1) / 2)[tie] - first[group] + 1
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

    None for the floor and without a mean.
    """
    sign = -1 if metric == "AUC" else 1
    losses = [
        np.nan if each.is_floor or mode not in each.means else sign * each.means[mode][metric]
        for each in found
    ]
    known = sorted(round(loss, 6) for loss in losses if not np.isnan(loss))
    return [None if np.isnan(loss) else 1 + known.index(round(loss, 6)) for loss in losses]


# Files


def read_predictions(folder: Path, name: str) -> _Predictions | None:
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


def _from_parquet(raw: Path, tables: Sequence[Path], name: str) -> _Predictions | None:
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
    return _Predictions(_checked(values["p"], raw), _checked(values["y"], raw), groups)


def _within(user: IntArray, group: IntArray) -> IntArray:
    """Numbers of groups that are told apart by user."""
    _, inner = np.unique(group, return_inverse=True)
    user = np.unique(user, return_inverse=True)[1]
    return user * (int(inner.max(initial=0)) + 1) + inner


def _from_lists(path: Path) -> _Predictions:
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
    return _Predictions(_checked(whole_p, path), _checked(whole_y, path), {"user": user})


def _checked(values: FloatArray, path: Path) -> FloatArray:
    values = np.asarray(values, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f'"{path}": p and y must lie between 0 and 1.')
    return values
