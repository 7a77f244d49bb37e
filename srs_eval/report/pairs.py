"""Pairs of models in the report on many users: who is better for how many, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from srs_eval.benchmark.leaderboard import Comparison
from srs_eval.data.reviews import FloatArray
from srs_eval.report import pictures
from srs_eval.report.document import Picture, Section
from srs_eval.report.table import Column, Figure, Table, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_READABLE = 12  # models of a matrix that is read without looking closely
SURE = 0.01  # p-values above it tell nothing
MEDIUM, LARGE = 0.2, 0.5  # effect sizes from which srs-benchmark calls them so
_WORSE_COLOURS = ("coral", "red", "darkred")
_BETTER_COLOURS = ("limegreen", "#199819", "darkgreen")
_UNSURE_COLOUR = "silver"
_EFFECT = Column("effect size", digits=2)

_CAVEAT = (
    "Every user counts the same here, however many reviews they have, and a difference of any "
    "size counts as one: read how consistent a lead is, not how large."
)
_SET_UP = (
    "Intervals and tests say how sure a difference is for these set-ups. They say nothing about "
    "the quality of a set-up: a model that was trained badly loses surely (Rendle et al., 2019, On "
    "the difficulty of evaluating baselines); `srs-eval audit` tells."
)


def pairs_of(comparison: Comparison, words: str, name: str) -> Section:
    """Matrices of superiority and effect sizes of each pair; `words` is the metric for people.

    Tables and pictures have names that begin with `name`.
    """
    readable = readable_of(comparison)
    blocks: list[str | Table | Picture | Section] = [_CAVEAT, _SET_UP]
    kinds: list[tuple[str, str, str, FloatArray, FloatArray | None, Callable[[float], str]]] = [
        (
            "superiority",
            f"Superiority: users for whom the row's model has the better {words}, in per cent",
            f"Share of users for whom one model has the better {words} than another.",
            comparison.superiority,
            None,
            lambda value: f"{100 * value:.1f}",
        ),
        *(
            (
                kind,
                f"{title} of {words}: green where the row's model is better, grey where p > {SURE}",
                f"{title} of {words} for each pair of models.",
                effects.effect,
                effects.p_value,
                lambda value: written(Figure(value), _EFFECT),
            )
            for kind, title, effects in (
                ("wilcoxon", "r of Wilcoxon's signed-rank test", comparison.wilcoxon),
                ("cohens-d", "Cohen's d of the paired t-test", comparison.t_test),
            )
        ),
    ]
    for kind, title, told, values, p_values, text in kinds:
        whole = list(range(len(comparison.files)))
        for chosen, suffix in ((readable, ""), (whole, "-all")):
            if suffix and len(readable) == len(whole):
                continue
            picture = Picture(
                f"{name}{kind}{suffix}",
                title,
                told,
                _matrix(comparison, chosen, values, p_values, text),
                _matrix_table(
                    comparison,
                    chosen,
                    values,
                    f"{name}{kind}{suffix}",
                    title,
                    shares=p_values is None,
                ),
            )
            blocks.append(
                Section(f"All {len(whole)} models", (picture,), folded=True) if suffix else picture
            )
        if p_values is not None:
            blocks.append(_p_values(comparison, p_values, f"{name}{kind}-p"))
    return Section(f"Pairs of models by {words}", tuple(blocks))


def readable_of(comparison: Comparison) -> list[int]:
    """Positions of the best configuration of each model, the floor among them, at most twelve."""
    files = comparison.files
    if len(files) <= _READABLE:
        return list(range(len(files)))
    chosen: dict[str, int] = {}
    for position, file in enumerate(files):
        model = file.configuration.model.name if file.configuration else file.name
        chosen.setdefault(model, position)
    floors = [k for k in chosen.values() if files[k].is_floor][:1]
    others = [k for k in chosen.values() if k not in floors][: _READABLE - len(floors)]
    return sorted([*others, *floors])


def _matrix(
    comparison: Comparison,
    chosen: Sequence[int],
    values: FloatArray,
    p_values: FloatArray | None,
    text: Callable[[float], str],
) -> Callable[[pictures.Palette], Drawing]:
    part = values[np.ix_(chosen, chosen)]
    p_part = None if p_values is None else p_values[np.ix_(chosen, chosen)]

    def colour(row: int, column: int) -> str:
        if p_part is None:
            return share_colour(float(part[row, column]))
        return effect_colour(float(part[row, column]), float(p_part[row, column]))

    labels = [comparison.files[k].label for k in chosen]
    return pictures.matrix(labels, part, colour, text)


def share_colour(share: float) -> str:
    """From red (0) to green (1), bright between, as in srs-benchmark's superiority matrix."""
    parts = (
        round(math.sqrt(share * green**2 + (1 - share) * red**2))
        for red, green in ((255, 45), (0, 180), (0, 0))
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


def effect_colour(effect: float, p_value: float) -> str:
    """Greens for better, reds for worse, grey where p tells nothing, as srs-benchmark has it."""
    if not p_value <= SURE:
        return _UNSURE_COLOUR
    size = (abs(effect) > MEDIUM) + (abs(effect) > LARGE)
    return (_BETTER_COLOURS if effect > 0 else _WORSE_COLOURS)[size]


def _matrix_table(
    comparison: Comparison,
    chosen: Sequence[int],
    values: FloatArray,
    name: str,
    title: str,
    shares: bool = False,
) -> Table:
    digits = 1 if shares else 3
    labels = [comparison.files[k].label for k in chosen]
    return Table(
        name,
        title,
        (Column("model"), *(Column(label, digits, percent=shares) for label in labels)),
        tuple(
            (label, *(None if math.isnan(value) else Figure(float(value)) for value in row))
            for label, row in zip(labels, values[np.ix_(chosen, chosen)], strict=True)
        ),
    )


def _p_values(comparison: Comparison, values: FloatArray, name: str) -> Table:
    whole = range(len(comparison.files))
    return replace(_matrix_table(comparison, whole, values, name, "p-values"), shown=False)
