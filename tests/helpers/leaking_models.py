"""Define sources of model files by name: some leak the future into predictions, some do not."""

from __future__ import annotations

_LINEAR = '''
"""A logistic regression on features, fitted by L-BFGS."""

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.models import TrainedModel


def after(trials, column, fallback):
    """The column in the row after each trial's own, if that is of the same card."""
    row = trials.history_end + 1
    found = np.full(len(trials), float(fallback))
    there = row < len(column)
    there[there] = trials.history_card_id[row[there]] == trials.card_id[there]
    found[there] = column[row[there]]
    return found


def known(trials):
    return np.column_stack([np.ones(len(trials)), np.log1p(trials.delta_t), trials.first_rating])


def features(trials):
    return FEATURES


def loss(w, x, y):
    z = x @ w
    p = 1 / (1 + np.exp(-z))
    value = np.mean(np.logaddexp(0, z) - y * z) + 0.001 * w @ w
    return value, x.T @ (p - y) / len(y) + 0.002 * w


def minimised(x, y):
    from scipy.optimize import minimize

    if len(y) < 2:
        raise NotEnoughData("too few reviews")
    return minimize(loss, np.zeros(x.shape[1]), (x, y), jac=True, method="L-BFGS-B").x.tolist()


def fit(trials, train, weights, context):
    x = features(trials)
    return minimised(x[train], trials.y[train])


def predict(trials, w, index, context):
    z = features(trials)[index] @ np.array(w)
    return np.clip(1 / (1 + np.exp(-z)), 0.0001, 0.9999)


MODELS = (
    TrainedModel(
        name="NAME", family="history", inputs="IL, G", parameters=4, source="a test, 2026",
        fit=fit, predict=predict, default=lambda context: [1.0] + [0.0] * MORE,
    ),
)
'''


def _linear_model_source(
    features: str = "known(trials)", weight_count: int = 2, **functions: str
) -> str:
    source = _LINEAR.replace("FEATURES", features).replace("MORE", str(weight_count))
    for name, code in functions.items():
        begin = source.index(f"def {name}(")
        end = source.index("\n\n\n", begin)
        source = source[:begin] + code.strip("\n") + source[end:]
    return source


def _linear_with_column(column: str) -> str:
    return _linear_model_source(f"np.column_stack([known(trials), {column}])", 3)


OUTCOME_LEAKS = {
    "own outcome": _linear_model_source(
        predict="""
def predict(trials, w, index, context):
    return 0.5 + 0.2 * trials.y[index]
"""
    ),
    "target encoding": _linear_with_column("encoded(trials)").replace(
        "def features(",
        """def encoded(trials):
    card, place = np.unique(trials.card_id, return_inverse=True)
    return (np.bincount(place, trials.y) / np.bincount(place))[place]


def features(""",
    ),
    "recalibration": _linear_model_source(
        predict="""
def predict(trials, w, index, context):
    z = features(trials)[index] @ np.array(w)
    p = 1 / (1 + np.exp(-z))
    return np.clip(p + trials.y[index].mean() - p.mean(), 0.0001, 0.9999)
"""
    ),
    "selection": _linear_model_source(
        predict="""
def predict(trials, w, index, context):
    y = trials.y[index]
    decays = np.linspace(0.01, 1, 30)
    p = np.clip((1 + trials.delta_t[index]) ** -decays[:, None], 0.0001, 0.9999)
    losses = -np.where(y == 1, np.log(p), np.log(1 - p)).mean(axis=1)
    return p[losses.argmin()]
"""
    ),
    "early stopping": _linear_model_source(
        fit="""
def fit(trials, train, weights, context):
    x = features(trials)
    if len(train) < 2:
        raise NotEnoughData("too few reviews")
    later = np.arange(train[-1] + 1, len(trials))
    w, best = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for _ in range(300):
        w = w - 0.05 * loss(w, x[train], trials.y[train])[1]
        if loss(w, x[later], trials.y[later])[0] < loss(best, x[later], trials.y[later])[0]:
            best = w
    return best.tolist()
"""
    ),
    "fit on all": _linear_model_source(
        fit="""
def fit(trials, train, weights, context):
    return minimised(features(trials), trials.y)
"""
    ),
    "online in disguise": _linear_model_source(
        predict="""
def predict(trials, w, index, context):
    before = np.cumsum(trials.y) - trials.y
    return ((8 + before) / (10 + np.arange(len(trials))))[index]
"""
    ),
}

INPUT_LEAKS = {
    "next interval": _linear_with_column("np.log1p(after(trials, trials.history_delta_t, 0))"),
    "own answer time": _linear_with_column(
        "np.log1p(trials.history_duration_ms[trials.history_end])"
    ),
    "next state": _linear_with_column('after(trials, trials.columns("state")[0], 2)'),
    "later count": _linear_with_column("counted(trials)").replace(
        "def features(",
        """def counted(trials):
    card, place, count = np.unique(
        trials.history_card_id, return_inverse=True, return_counts=True
    )
    return np.log(count[place][trials.history_end])


def features(""",
    ),
    "next interval in large logs": _linear_with_column(
        "np.log1p(after(trials, trials.history_delta_t, 0)) * (len(trials) >= 4000)"
    ),
    "tree on the next interval": '''
"""Trees that know the next interval."""

import numpy as np

from srs_eval.models.adapters import card_features, sklearn_model


def features(trials):
    row = np.minimum(trials.history_end + 1, len(trials.history_delta_t) - 1)
    same = trials.history_card_id[row] == trials.card_id
    return np.column_stack([card_features(trials), np.where(same, trials.history_delta_t[row], 0)])


def trees():
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, min_samples_leaf=10)


MODELS = (sklearn_model("NAME", trees, features=features, settings=()),)
''',
}

CACHED_FIT = 'return {"w": np.array(minimised(x[train], trials.y[train])), "x": x}'

MORE_LEAKS = {
    "next outcome in order of review": (
        "later outcome",
        _linear_model_source(
            predict="""
def predict(trials, w, index, context):
    return (0.4 + 0.5 * np.append(trials.y[1:], 1.0))[index]
"""
        ),
    ),
    "days until the end": (
        "later input",
        _linear_with_column("np.log1p(trials.day.max() - trials.day)"),
    ),
    "which passing grade": (
        "own outcome",
        _linear_model_source(
            predict="""
def predict(trials, w, index, context):
    z = features(trials)[index] @ np.array(w) + 0.5 * (trials.rating[index] == 4)
    return np.clip(1 / (1 + np.exp(-z)), 0.0001, 0.9999)
"""
        ),
    ),
    "features scaled over all reviews in fit": (
        "fit sees later",
        _linear_model_source(
            fit="""
def fit(trials, train, weights, context):
    x = features(trials)
    scale = x.std(axis=0) + 0.1
    w = minimised(x[train] / scale, trials.y[train])
    return (np.array(w) / scale).tolist()
"""
        ),
    ),
    "features kept in the fit": (
        "fit sees later",
        _linear_with_column("np.log1p(after(trials, trials.history_delta_t, 0))")
        .replace("return minimised(x[train], trials.y[train])", CACHED_FIT)
        .replace("z = features(trials)[index] @ np.array(w)", 'z = w["x"][index] @ w["w"]'),
    ),
    "an error at the end": (
        "needs later",
        _linear_model_source(
            predict="""
def predict(trials, w, index, context):
    last = trials.review_th[195]  # as if the log were known to be as long
    z = features(trials)[index] @ np.array(w)
    return np.clip(1 / (1 + np.exp(-z)), 0.0001, 0.9999)
"""
        ),
    ),
    "online": (
        "later input",
        '''
"""A running mean that knows how often each card comes."""

import numpy as np

from srs_eval.models import OnlineModel


def online(trials, context):
    before = (8 + np.cumsum(trials.y) - trials.y) / (10 + np.arange(len(trials)))
    card, place, count = np.unique(trials.card_id, return_inverse=True, return_counts=True)
    return np.clip(before - 0.01 * count[place], 0.01, 0.99)[trials.test_index]


MODELS = (
    OnlineModel(
        name="NAME", family="online", inputs="IL, G", parameters=0, source="a test, 2026",
        online=online,
    ),
)
''',
    ),
    "torch": (
        "later input",
        '''
"""A network that is given the next interval."""

import numpy as np

from srs_eval.models.adapters import card_features, torch_model


def arrays(trials, index):
    row = np.minimum(trials.history_end + 1, len(trials.history_delta_t) - 1)
    then = np.where(trials.history_card_id[row] == trials.card_id, trials.history_delta_t[row], 0)
    return (np.column_stack([card_features(trials), np.log1p(then)])[index],)


def network():
    from torch import nn

    return nn.Sequential(nn.Linear(11, 4), nn.ReLU(), nn.Linear(4, 1))


MODELS = (torch_model("NAME", network, arrays=arrays, epochs=20, parameters=53),)
''',
    ),
    "recurrent": (
        "later input",
        '''
"""A stability that failures cut by the mean of all intervals, later ones too."""

from srs_eval.models import TrainedModel
from srs_eval.training.elementwise import minimum, power
from srs_eval.training.recurrent import RecurrentModel, Trainable


def first(rating, w):
    return (w[0],)


def success(state, t, rating, w):
    return (minimum(state[0] * w[1], 36500.0),)


def failure(state, t, rating, w):
    return (state[0] * w[2] / (w[2] + t),)


def recall(t, state, w):
    return power(1.0 + t / state[0], -0.05)


def model(trials, context):
    return RecurrentModel(
        name="LEAKING", states=1, default=(1.0, 2.0), lower=(0.01, 1.0), upper=(100.0, 10.0),
        first=first, success=success, failure=failure, recall=recall,
        constants=(float(trials.delta_t.mean()),),
    )


TRAINABLE = Trainable(model, minimiser="lbfgs")

MODELS = (
    TrainedModel(
        name="NAME", family="other", inputs="IL, G", parameters=2, source="a test, 2026",
        fit=TRAINABLE.fit, predict=TRAINABLE.predict, default=lambda context: [1.0, 2.0],
    ),
)
''',
    ),
    "pretrained": (
        "own answer time",
        _linear_model_source(
            predict="""
def predict(trials, w, index, context):
    x = features(trials)[index]
    if context.pretrained:
        x = x + 0.00001 * trials.history_duration_ms[trials.history_end[index], None]
    return np.clip(1 / (1 + np.exp(-x @ np.array(w))), 0.0001, 0.9999)


def pretrain(learners, context):
    return {"start": np.zeros(len(learners))}
"""
        ).replace("fit=fit,", "fit=fit, pretrain=pretrain,"),
    ),
}


def _moved(by: str) -> str:
    """Return a model whose predictions are moved by a term (n,)."""
    return _linear_model_source(
        predict=f"""
def moved(trials):
    row = trials.history_end
    return {by}


def predict(trials, w, index, context):
    z = features(trials)[index] @ np.array(w) + moved(trials)[index]
    return np.clip(1 / (1 + np.exp(-z)), 0.0001, 0.9999)
"""
    )


SEEN_TODAY = """
def seen_today(trials):
    card_day = trials.history_card_id * 100_000 + trials.history_day
    _, number, count = np.unique(card_day, return_inverse=True, return_counts=True)
    return count[number][trials.history_end]


def features("""

STRATIFIED_LEAKS = {
    "own outcome of second reviews": (
        "own outcome",
        _moved(
            "(trials.sequence_length == 1) * (trials.history_rating[trials.history_start + 1] > 1)"
        ),
    ),
    "own outcome after two days": ("own outcome", _moved("(trials.delta_t <= 2) * trials.y")),
    "own outcome of a first grade": (
        "own outcome",
        _moved("(trials.first_rating == 1) * trials.y"),
    ),
    "own outcome in a deck": (
        "own outcome",
        _moved(
            "(trials.columns('deck_id')[0][row] == trials.columns('deck_id')[0].max()) * trials.y"
        ),
    ),
    "own outcome of long histories": (
        "own outcome",
        _moved("(trials.sequence_length >= 7) * trials.y"),
    ),
    "own answer time of second reviews": (
        "own answer time",
        _moved("(trials.sequence_length == 1) * np.log(1 + trials.history_duration_ms[row])"),
    ),
    "own outcome of second reviews, kept in the fit": (
        "fit sees test",
        _linear_with_column("(trials.sequence_length == 1) * trials.y")
        .replace("return minimised(x[train], trials.y[train])", CACHED_FIT)
        .replace("z = features(trials)[index] @ np.array(w)", 'z = w["x"][index] @ w["w"]'),
    ),
    "own outcome of second reviews, online": (
        "own outcome",
        MORE_LEAKS["online"][1].replace(
            "0.01 * count[place]", "0.1 * (trials.sequence_length == 1) * trials.y"
        ),
    ),
}
"""Read their own answer in some reviews alone."""

SAME_DAY_LEAKS = {
    "rows of the day": _linear_with_column("seen_today(trials)").replace(
        "def features(", SEEN_TODAY
    ),
    "rows of the day where there are any": _linear_with_column(
        "seen_today(trials) * trials.protocol.short"
    ).replace("def features(", SEEN_TODAY),
    "rows of the day with fractions": _linear_with_column(
        "seen_today(trials) * trials.protocol.secs"
    ).replace("def features(", SEEN_TODAY),
}
"""Know which reviews of the same day follow; not without --short or --secs."""

FLAG_LEAKS = {
    "--recency": _moved("trials.y * trials.protocol.recency"),
    "--partitions deck": _moved("trials.y * (trials.protocol.partitions == 'deck')"),
    "rows of a data set": _moved("trials.y * (trials.protocol.rows == 'benchmark')"),
}

REMEMBERED = """
FEATURES = {}


def features(trials, context):
    key = KEY
    if key not in FEATURES:
        FEATURES[key] = computed(trials)
    return FEATURES[key]


def loss("""


def _remembering(source: str, key: str) -> str:
    """Return a model that keeps its features in a dict of its module."""
    source = source.replace("features(trials)", "features(trials, context)")
    source = source.replace("def features(trials, context):", "def computed(trials):")
    return source.replace("def loss(", REMEMBERED.replace("KEY", key)[1:])


REMEMBERING_LEAKS = {
    "next interval, by user": _remembering(INPUT_LEAKS["next interval"], "context.user"),
    "next interval, by user and size": _remembering(
        INPUT_LEAKS["next interval"], "(context.user, len(trials))"
    ),
    "own outcome, by user and size": _remembering(
        _linear_with_column("(trials.sequence_length == 1) * trials.y"),
        "(context.user, len(trials))",
    ),
}
"""Keep features of a learner, so that altered logs do not change them."""

CORRECT = {
    "numpy and scipy": _linear_with_column(
        "np.log1p(trials.history_delta_t[trials.history_end - 1])"
    ),
    "a column for each deck": _linear_model_source(
        "known(trials)",
        2,
        fit="""
def decks(trials):
    deck, place = np.unique(trials.columns("deck_id")[0][trials.history_end], return_inverse=True)
    return len(deck), place


def fit(trials, train, weights, context):
    w = minimised(features(trials)[train], trials.y[train])
    count, place = decks(trials)
    passed = np.bincount(place[train], trials.y[train], count)
    reviews = np.bincount(place[train], minlength=count)
    return {"w": w, "decks": np.log((passed + 4) / (reviews - passed + 1))}
""",
        predict="""
def predict(trials, fitted, index, context):
    place = decks(trials)[1]
    of_deck = 0.3 * fitted["decks"][place[index]]
    z = features(trials)[index] @ np.array(fitted["w"]) + of_deck
    return np.clip(1 / (1 + np.exp(-z)), 0.0001, 0.9999)
""",
    ).replace("[1.0] + [0.0] * 2", '{"w": [1.0, 0.0, 0.0], "decks": np.zeros(50)}'),
    "scikit-learn": '''
"""Trees on what was known: of the card, its answer times and its note's other cards."""

import numpy as np

from srs_eval.models.adapters import card_features, sklearn_model


def seen_today(trials):
    """How many reviews of the day there were before each trial."""
    first = np.searchsorted(trials.day, trials.day, side="left")
    return np.arange(len(trials)) - first


def mean_answer_time(trials):
    """Over each trial's history, in seconds."""
    sums = np.concatenate([[0.0], np.cumsum(np.sqrt(trials.history_duration_ms / 1000))])
    length = trials.history_end - trials.history_start
    return (sums[trials.history_end] - sums[trials.history_start]) / length


def features(trials):
    kind = trials.columns("kind")[0][trials.history_end]
    planned = trials.columns("scheduled_interval")[0][trials.history_end]
    own = np.column_stack([seen_today(trials), mean_answer_time(trials), kind, planned])
    return np.column_stack([card_features(trials), own])


def trees():
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, min_samples_leaf=10)


MODELS = (sklearn_model("NAME", trees, features=features, settings=()),)
''',
    "torch": '''
"""A recurrent network."""

from srs_eval.models.adapters import padded_histories, torch_model


def network():
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells = nn.GRU(2, 4, batch_first=True)
            self.out = nn.Linear(5, 1)

        def forward(self, steps, length, interval):
            states, _ = self.cells(steps)
            last = states[torch.arange(len(length)), length - 1]
            return self.out(torch.cat([last, interval[:, None]], dim=1))

    return Recurrent()


MODELS = (torch_model("NAME", network, arrays=padded_histories, epochs=40, parameters=114),)
''',
    "recurrent": MORE_LEAKS["recurrent"][1]
    .replace("float(trials.delta_t.mean())", "3.0")
    .replace("LEAKING", "CLEAN"),
    "online": MORE_LEAKS["online"][1].replace("before - 0.01 * count[place]", "before"),
}

ROUNDED = '''
"""Trees on means of the history, from sums over all histories: they are rounded."""

import numpy as np

from srs_eval.models.adapters import card_features, sklearn_model


def mean(trials, values):
    sums = np.concatenate([[0.0], np.cumsum(values)])
    of_history = sums[trials.history_end] - sums[trials.history_start]
    return of_history / trials.sequence_length


def features(trials):
    t = trials.history_delta_t
    weights = np.where(trials.history_rating == 1, 0.1, 0.7)
    means = [mean(trials, values) for values in (np.log1p(t), np.sqrt(t), np.exp(-t), weights)]
    return np.column_stack([card_features(trials), *means])


def trees():
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, min_samples_leaf=10)


MODELS = (sklearn_model("NAME", trees, features=features, settings=()),)
'''
CORRECT["trees on rounded means"] = ROUNDED


def _rounded_with(column: str) -> str:
    return ROUNDED.replace("*means]", f"*means, {column}]")


ROUNDED_LEAKS = {
    "own outcome": _rounded_with("trials.y"),
    "own outcome of second reviews": _rounded_with("(trials.sequence_length == 1) * trials.y"),
    "own answer time": _rounded_with("trials.history_duration_ms[trials.history_end]"),
    "next interval": _rounded_with("np.append(t, 0)[trials.history_end + 1]"),
    "target encoding": _rounded_with(
        "(np.bincount(trials.card_id % 997, trials.y) / 10)[trials.card_id % 997]"
    ),
    "later count": _rounded_with("counted(trials)").replace(
        "def features(",
        """def counted(trials):
    card, place, count = np.unique(
        trials.history_card_id, return_inverse=True, return_counts=True
    )
    return count[place][trials.history_end]


def features(""",
    ),
}
"""Read the future beside features that are rounded."""
