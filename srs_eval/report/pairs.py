"""Pairs of models on one set of evaluated reviews: matrices, and every figure in long form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

from srs_eval.benchmark.leaderboard import WEIGHTINGS, Comparison
from srs_eval.data.reviews import FloatArray
from srs_eval.report import pictures
from srs_eval.report.comparison import SURE, heading
from srs_eval.report.document import (
    Block,
    Cell,
    Column,
    Figure,
    Picture,
    Section,
    Table,
    with_ends,
    written,
)
from srs_eval.report.formats import with_sign
from srs_eval.stats.users import (
    CONFIDENCE,
    MeanInterval,
    holm,
    superiority,
    t_effects,
    wilcoxon_effects,
)

_READABLE = 12  # models of a matrix that is read without looking closely
_MEDIUM, _LARGE = 0.2, 0.5  # effect sizes from which srs-benchmark calls them so
_CAVEAT = (
    "Every user counts the same here, however many reviews they have, and a difference of any "
    "size counts as one: read how consistent a lead is, not how large. Mean differences have both."
)
_SET_UP = (
    "Intervals and tests say how sure a difference is for these set-ups. They say nothing about "
    "the quality of a set-up: a model that was trained badly loses surely (Rendle et al., 2019, On "
    "the difficulty of evaluating baselines); `srs-eval audit` tells."
)
_Square = tuple[str, float] | None
"""A text, and from 0 to 1 how good the row's model is; nan: that is not sure."""


def readable(comparison: Comparison, named: Sequence[str]) -> list[int]:
    """Positions of the models of a matrix.

    Those with the labels `named`, in that order. Where there are not two of them, all; of more
    than twelve the best twelve, one configuration of each model: that which has its name, if there
    is one. The baseline is one of them.
    """
    files = comparison.files
    labels = [file.label for file in files]
    meant = [labels.index(each) for each in named if each in labels]
    if len(meant) > 1:
        return meant
    if len(files) <= _READABLE:
        return list(range(len(files)))
    chosen: dict[str, int] = {}
    for position, file in enumerate(files):
        if (configuration := file.configuration) is None:
            model, named_so = file.name, True
        else:
            model = configuration.model.name
            named_so = file.name in (model, configuration.model.standard)
        if named_so:
            chosen[model] = position
        chosen.setdefault(model, position)
    baselines = [k for k in chosen.values() if files[k].is_baseline][:1]
    others = sorted(k for k in chosen.values() if k not in baselines)
    return sorted([*others[: _READABLE - len(baselines)], *baselines])


def pairs_section(comparison: Comparison, name: str, chosen: Sequence[int]) -> Section:
    """Matrices of superiority, mean differences and effect sizes, of the models at `chosen`."""
    words = heading(comparison.metric)
    matrices = partial(_matrices, comparison, chosen)
    shares = superiority(comparison.losses)
    title = f"Superiority: users for whom the row's model has the better {words}, in per cent"
    squares = [list(map(_share, row)) for row in shares.tolist()]
    share = Column("", 1, percent=True)
    blocks: list[Block] = [_CAVEAT, _SET_UP]
    blocks += matrices(f"{name}superiority", title, _figures(shares), share, squares)
    for weighting, differences in zip(WEIGHTINGS[:2], comparison.differences, strict=False):
        title = (
            f"Mean difference of {words}, row minus column, by {weighting}, with both ends of its "
            f"{CONFIDENCE * 100:.0f} % interval"
        )
        ends = [list(map(with_ends, row)) for row in differences]
        squares = [[_gap(each, comparison.paired.sign) for each in row] for row in differences]
        named, hatched = f"{name}differences-by-{weighting}", "0 lies between them"
        blocks += matrices(named, title, ends, Column("", signed=True), squares, hatched)
    known = [("superiority", shares)]
    for kind, short, test, effects in (
        ("wilcoxon", "r", "r of Wilcoxon's signed-rank test", wilcoxon_effects(comparison.losses)),
        ("cohens-d", "d", "Cohen's d of the paired t-test", t_effects(comparison.losses)),
    ):
        adjusted, effect = holm(effects.p_value), effects.effect
        title = f"{test} of {words}: above 0 where the row's model is better"
        squares = [list(map(_effect, *each)) for each in zip(effect, adjusted <= SURE, strict=True)]
        hatched = f"p > {SURE} (Holm, over all pairs)"
        cells = _figures(effect)
        blocks += matrices(f"{name}{kind}", title, cells, Column("", 3), squares, hatched)
        known += [(short, effect), (f"{short} p", effects.p_value), (f"{short} p holm", adjusted)]
    return Section(f"Pairs of models by {words}", (*blocks, _long(comparison, name, known)))


def _figures(values: FloatArray) -> list[list[Figure]]:
    return [list(map(Figure, row)) for row in values.tolist()]


def _share(value: float) -> _Square:
    return (f"{100 * value:.1f}", value) if math.isfinite(value) else None


def _gap(difference: MeanInterval | None, sign: int) -> _Square:
    """A difference above its two ends; `sign` is 1 where less is better."""
    if difference is None or not math.isfinite(difference.low):
        return None
    lines = written(with_ends(difference), Column("", signed=True)).replace(", ", " ").split()
    unsure, less = difference.low <= 0 <= difference.high, difference.high < 0
    shade = math.nan if unsure else 0.9 if less == (sign > 0) else 0.1
    return "\n".join(each.strip("[]") for each in lines), shade


def _effect(value: float, sure: bool) -> _Square:
    """In three sizes to either side, as srs-benchmark has it."""
    if not math.isfinite(value):
        return None
    size = (1 + (abs(value) > _MEDIUM) + (abs(value) > _LARGE)) / 6
    shade = 0.5 + math.copysign(size, value) if sure else math.nan
    return with_sign(f"{value:.2f}", signed=False), shade


def _matrices(
    comparison: Comparison,
    chosen: Sequence[int],
    name: str,
    title: str,
    cells: Sequence[Sequence[Cell]],
    column: Column,
    squares: Sequence[Sequence[_Square]],
    hatched: str = "",
) -> list[Block]:
    """What is said of pairs as a picture and a table: of chosen models and, folded, of all."""
    of_picture = f"{title}; hatched where {hatched}" if hatched else title

    def matrix(chosen: Sequence[int], name: str) -> Picture:
        labels = [comparison.files[k].label for k in chosen]
        heads = ["model", *(replace(column, title=label) for label in labels)]
        rows = [
            [label, *(cells[k][other] for other in chosen)]
            for label, k in zip(labels, chosen, strict=True)
        ]
        drawn = pictures.matrix(labels, [[squares[k][other] for other in chosen] for k in chosen])
        return Picture(name, of_picture, drawn, Table.of(name, title, heads, rows))

    made: list[Block] = [matrix(chosen, name)]
    if len(chosen) < len(comparison.files):
        every = (matrix(range(len(comparison.files)), f"{name}-all"),)
        made.append(Section(f"All {len(comparison.files)} models", every, folded=True))
    return made


def _long(comparison: Comparison, name: str, figures: Sequence[tuple[str, FloatArray]]) -> Table:
    """A row for each two models, with all that is known of them; for files only."""
    labels = [file.label for file in comparison.files]
    heads = ["model", "other", *(f"difference by {each}" for each in WEIGHTINGS)]
    rows = [
        [
            labels[row],
            labels[column],
            *(with_ends(of_pairs[row][column]) for of_pairs in comparison.differences),
            *(Figure(float(values[row, column])) for _, values in figures),
        ]
        for row, column in permutations(range(len(labels)), 2)
    ]
    heads += [each for each, _ in figures]
    return Table.of(f"{name}pairs", "Pairs of models", heads, rows, shown=False)
