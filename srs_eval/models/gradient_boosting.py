"""Gradient boosting of trees on what a card's history tells: what one gets without a theory.

scikit-learn's `HistGradientBoostingClassifier`, fitted per learner on the ten features of
`models/adapters.py`. A longer interval never raises the probability; the rest it finds by itself.
Few and small trees, strongly regularised: a learner's first part has a thousand reviews or fewer.
docs/models/gradient-boosting.md.
"""

from __future__ import annotations

from typing import Any

from srs_eval.models.adapters import CARD_FEATURES, sklearn_model
from srs_eval.training import hyperparameters


def _trees(learning_rate: float, epochs: int, l2: float) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_iter=epochs,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        l2_regularization=l2,
        monotonic_cst=[-1] + [0] * (len(CARD_FEATURES) - 1),
        early_stopping=False,
    )


MODELS = (
    sklearn_model(
        "GradientBoosting",
        _trees,
        family="history",
        source="scikit-learn HistGradientBoostingClassifier (2019); features: models/adapters.py",
        settings=(
            hyperparameters.learning_rate(0.05),
            hyperparameters.epochs(50),
            hyperparameters.penalty("l2", 30.0),
        ),
        seconds_per_10k=0.27,
        seconds_besides=1.5,
        note="Trees that know nothing of memory.",
    ),
)
