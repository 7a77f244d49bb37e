"""Models as people write them, beside those of the guide (`documents.GUIDE`)."""

from __future__ import annotations

WORDS = '''
"""Trees that know word frequencies, of the table that --features names."""

import numpy as np

from srs_eval.models.adapters import card_features, sklearn_model


def features(trials):
    return np.column_stack([card_features(trials), trials.features])


def trees():
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_leaf_nodes=8)


MODELS = (sklearn_model("WORDS", trees, features=features, settings=()),)
'''
