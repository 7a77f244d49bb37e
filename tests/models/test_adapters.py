"""Classifiers of scikit-learn and torch modules as models."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.benchmark.setup import make_setup
from srs_eval.data.datasets import Dataset
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import MISSING
from srs_eval.data.trials import Trials
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Model, load_model_file
from srs_eval.models.adapters import (
    CARD_FEATURES,
    card_features,
    padded_histories,
    sklearn_model,
    torch_model,
)
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.training.hyperparameters import Context
from tests.helpers.program import batches_in_process


@pytest.fixture(scope="module")
def trials() -> Trials:
    return LearnerSession(load_demo_learner(600)).trials(Protocol(short=True))


def test_card_features_equal_their_definitions(trials: Trials) -> None:
    features = card_features(trials)
    assert features.shape == (len(trials), len(CARD_FEATURES))
    for k in range(0, len(trials), 7):
        rows = slice(trials.history_start[k], trials.history_end[k])
        ratings = trials.history_rating[rows].tolist()
        days = trials.history_delta_t[rows].tolist()
        in_a_row = next((n for n, r in enumerate(reversed(ratings)) if r == 1), len(ratings))
        expected = (
            math.log1p(trials.delta_t[k]),
            math.log1p(days[-1]),
            math.log1p(sum(days) + trials.delta_t[k]),
            math.log1p(len(ratings)),
            math.log1p(ratings.count(1)),
            math.log1p(in_a_row),
            ratings[-1],
            ratings[-2] if len(ratings) > 1 else 0,
            ratings[0],
            sum(ratings) / len(ratings),
        )
        np.testing.assert_allclose(features[k], expected)


def test_padded_histories_hold_each_history(trials: Trials) -> None:
    index = np.arange(5, len(trials), 3)
    steps, length, interval = padded_histories(trials, index)
    assert steps.shape == (len(index), length.max(), 2)
    np.testing.assert_allclose(np.expm1(interval), trials.delta_t[index])
    for position, k in enumerate(index):
        rows = slice(trials.history_start[k], trials.history_end[k])
        history = steps[position, : length[position]]
        np.testing.assert_allclose(np.expm1(history[:, 0]), trials.history_delta_t[rows])
        assert (history[:, 1] == trials.history_rating[rows]).all()
        assert (steps[position, length[position] :] == 0).all()


class _Noting:
    """Keep the arguments of `fit`; predict 1 for every review."""

    arguments: dict[str, Any]

    def fit(self, x: Any, y: Any, **arguments: Any) -> _Noting:
        self.arguments = arguments
        return self

    def predict_proba(self, x: Any) -> Any:
        return np.stack([np.zeros(len(x)), np.ones(len(x))], axis=1)


def _small_network() -> Any:
    from torch import nn

    return nn.Linear(len(CARD_FEATURES), 1)


def _fit(model: Model, trials: Trials, weights: Any = None, **context: Any) -> Any:
    train = trials.folds[-1].train
    assert model.fit is not None
    weights = np.ones(len(train)) if weights is None else weights
    return model.fit(trials, train, weights, Context(**context))


def test_sklearn_model_passes_weights_and_the_users_seed(trials: Trials) -> None:
    seeds = []

    def make(seed: int) -> _Noting:
        seeds.append(seed)
        return _Noting()

    weights = np.linspace(0.25, 1, len(trials.folds[-1].train))
    fitted = _fit(sklearn_model("NOTING", make), trials, weights, user=7)
    assert (fitted.arguments["sample_weight"] == weights).all()
    _fit(sklearn_model("NOTING", make), trials, user=7, hyperparameters={"seed": 3})
    assert seeds == [7, 10]
    plain = sklearn_model("PLAIN", make, weighted=False)
    assert not _fit(plain, trials).arguments
    assert "recency" not in plain.flags


def test_sklearn_model_clips_probabilities(trials: Trials) -> None:
    model = sklearn_model("NOTING", lambda seed: _Noting())
    assert model.predict is not None
    p = model.predict(trials, _fit(model, trials), trials.test_index, Context())
    assert set(p) == {0.9999}


@pytest.mark.parametrize(
    "model",
    [sklearn_model("NOTING", lambda seed: _Noting()), torch_model("LINEAR", _small_network)],
    ids=lambda model: model.name,
)
def test_adapters_without_failures_predict_the_default(model: Model) -> None:
    log = load_demo_learner(600)
    assert log.rows is not None
    passed = replace(log, rows=replace(log.rows, rating=np.full(len(log.rows), 3)))
    configuration = Configuration(model.name, model, Protocol())
    result = LearnerSession(passed).run(configuration, Context(), use_cache=False)
    assert set(result.p) == {0.9}
    assert any("passes and failures" in note for note in result.notes)


@pytest.mark.slow
def test_torch_model_stops_when_it_learns_no_more(trials: Trials) -> None:
    """Check that training ends early and leaves torch's random state alone."""
    import torch

    epochs: list[float] = []
    torch.manual_seed(5)
    fresh = torch.rand(1)
    torch.manual_seed(5)
    fitted = _fit(torch_model("LINEAR", _small_network), trials, tick=epochs.append)
    assert torch.rand(1) == fresh
    assert len(epochs) < 100
    again = _fit(torch_model("LINEAR", _small_network, patience=1000), trials)
    assert len(epochs) > 10
    assert set(fitted) == set(again) == {"weight", "bias"}
    hurried = _fit(torch_model("LINEAR", _small_network, epochs=1), trials)
    assert (hurried["weight"] != fitted["weight"]).any()


@pytest.mark.slow
def test_torch_model_without_gain_keeps_its_first_epoch(trials: Trials) -> None:
    wild = torch_model("WILD", _small_network, learning_rate=1e3, patience=2)
    fitted = _fit(wild, trials)
    first = _fit(torch_model("WILD", _small_network, learning_rate=1e3, epochs=1), trials)
    assert all((fitted[key] == first[key]).all() for key in first)
    assert wild.predict is not None
    p = wild.predict(trials, fitted, trials.test_index, Context())
    assert ((p >= 0.0001) & (p <= 0.9999)).all()


def test_columns_give_note_deck_and_preset_of_each_row(simulated_collection: Path) -> None:
    log = srs_eval.load(simulated_collection)
    trials = LearnerSession(log).trials(Protocol())
    note, deck, preset, state = trials.columns("note_id", "deck_id", "preset_id", "state")
    cards = log.cards
    of_card = {
        card: (note, deck)
        for card, note, deck in zip(
            cards.card_id.tolist(), cards.note_id.tolist(), cards.deck_id.tolist(), strict=True
        )
    }
    pairs = [of_card.get(card, (MISSING, MISSING)) for card in trials.history_card_id.tolist()]
    assert list(zip(note.tolist(), deck.tolist(), strict=True)) == pairs
    preset_ids = [
        log.decks[deck_id].preset_id if deck_id in log.decks else MISSING
        for deck_id in deck.tolist()
    ]
    assert preset.tolist() == preset_ids
    rows = trials.source[1]
    assert (state == rows.state[trials.history_review_th - 1]).all()
    assert (rows.card_id[trials.history_review_th - 1] == trials.history_card_id).all()
    with pytest.raises(ValueError, match="no column 'grade'; there are note_id, deck_id"):
        trials.columns("grade")


def test_torch_model_makes_no_batch_of_a_single_row(trials: Trials) -> None:
    def normalised() -> Any:
        from torch import nn

        return nn.Sequential(nn.BatchNorm1d(len(CARD_FEATURES)), nn.Linear(len(CARD_FEATURES), 1))

    trained = len(trials.folds[-1].train) * 4 // 5
    _fit(torch_model("NORMALISED", normalised, batch_size=trained - 1, epochs=2), trials)


# How many parameters tables show


def _linear() -> Any:
    torch = pytest.importorskip("torch", reason="needs torch")
    frozen = torch.nn.Linear(10, 10)
    frozen.requires_grad_(False)
    return torch.nn.Sequential(frozen, torch.nn.Linear(10, 1))


def _lazy() -> Any:
    return pytest.importorskip("torch", reason="needs torch").nn.LazyLinear(1)


def _trees(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=3, random_state=seed)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (torch_model("T", _linear), 11),
        (torch_model("T", _linear, parameters=7), 7),
        (torch_model("T", _lazy), None),
        (sklearn_model("S", _trees), None),
        (sklearn_model("S", _trees, parameters=15), 15),
    ],
)
def test_count_parameters_of_modules_and_trees(model: Model, count: int | None) -> None:
    configuration = Configuration("T", model, Protocol())
    assert configuration.count_parameters(Context()) == count
    untrained = replace(configuration, fit="default")
    assert untrained.count_parameters(Context()) == 0


def test_count_parameters_leaves_torchs_random_state_alone() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    before = torch.random.get_rng_state()
    Configuration("T", torch_model("T", lambda: _linear()), Protocol()).count_parameters(Context())
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.slow
def test_counted_parameters_are_shown_and_cached(tmp_path: Path) -> None:
    log = load_demo_learner(600)
    file = tmp_path / "mine.py"
    file.write_text(
        "from srs_eval.models.adapters import torch_model\n\n\n"
        "def module():\n    import torch\n\n    return torch.nn.Linear(10, 1)\n\n\n"
        "MODELS = (torch_model('COUNTED', module, epochs=1),)\n"
    )
    with batches_in_process():
        load_model_file(file)
        for cached in (False, True):
            results = srs_eval.evaluate(log, "COUNTED,GradientBoosting,FSRS-6-dry-run")
            frame = results.frame()["parameters"]
            assert results["COUNTED"].cached == cached
            assert frame["COUNTED"] == 11
            assert frame["FSRS-6-dry-run"] == 0
            assert frame.isna()["GradientBoosting"]
        entry = make_setup(Dataset(tmp_path), "", resolve_configurations("COUNTED"), Context(), {})
        assert entry["configurations"]["COUNTED"]["shown"]["parameters"] == 11
        rows = [row.split("</td><td>") for row in results._repr_html_().split("</tr>")]
        cells_of_model = {row[0].removeprefix("<tr><td>"): row for row in rows}
        assert "–" in cells_of_model["GradientBoosting"]
