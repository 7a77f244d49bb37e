"""Gradient boosting of trees on features of a card's history, without a theory of memory.

    p = 1 / (1 + e^-F(x)),  F(x) = ln(m / (1 - m)) + 0.05 sum over 50 trees k of f_k(x)

with m the share of successes and x ten features of a card's history (`models/adapters.py`). Tree
k sorts the reviews into at most eight leaves of at least 50 reviews each; the value of a leaf is

    sum (y - p) / (sum p (1 - p) + 30)        p by the trees before k

but a longer interval never raises the probability: leaves that would raise it are limited to the
mean of the two sides. The model finds the rest by itself. The trees are few, small and strongly
regularised, because a learner's first part has a thousand reviews or fewer. They are those of
scikit-learn's `HistGradientBoostingClassifier`, fitted to each learner alone.
docs/models/gradient-boosting.md.
"""

from __future__ import annotations

from typing import Any

from srs_eval.models import Cost
from srs_eval.models.adapters import CARD_FEATURES, sklearn_model
from srs_eval.training import hyperparameters

_MONOTONICITY = [-1 if name == "ln(1 + interval)" else 0 for name in CARD_FEATURES]
"""The only constraint: a longer interval does not raise the probability."""


def _make_trees(learning_rate: float, epochs: int, l2: float) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_iter=epochs,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        l2_regularization=l2,
        monotonic_cst=_MONOTONICITY,
        early_stopping=False,
    )


MODELS = (
    sklearn_model(
        "GradientBoosting",
        _make_trees,
        family="history",
        source="scikit-learn HistGradientBoostingClassifier (2019); features: models/adapters.py",
        settings=(
            hyperparameters.learning_rate(0.05),
            hyperparameters.epochs(50),
            hyperparameters.penalty("l2", 30.0),
        ),
        cost=Cost(seconds_per_10k=0.27, seconds_besides=1.5),
        note="Decision trees without any model of memory.",
    ),
)
