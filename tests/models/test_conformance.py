"""What every listed model must keep to; a new one is tested for nothing.

Shapes and range; the same figures twice, whoever ran before; no prediction that knows what
came after it; fits on next to nothing or on outcomes of one kind; and kernels compiled only by
models that say so. One small learner with same-day reviews, several decks and all buttons.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.simulated import simulate_learner
from srs_eval.data.trials import Trials
from srs_eval.engine.results import Result
from srs_eval.engine.session import Session
from srs_eval.models import all_models
from srs_eval.models.configurations import Configuration, listed_names, resolve
from srs_eval.training.context import Context
from srs_eval.training.hyperparameters import Hyperparameter, Value
from tests.conftest import PATIENCE, REPOSITORY

# Rows as Anki's optimizer takes them: which reviews are judged depends on no outcome. Upstream's
# outlier filter looks at all of them, so that a changed rating could change the rows themselves.
PROTOCOL = Protocol(rows="anki", n_splits=2, batch_size=64)
CONTEXT = Context(user=7)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

CONFIGURATIONS = {
    configuration.name: configuration
    for model in all_models().values()
    for name in listed_names(model)
    for configuration in resolve(name, PROTOCOL)
}
MODELS = {configuration.model.name: configuration for configuration in CONFIGURATIONS.values()}


@cache
def learner() -> ReviewLog:
    log = simulate_learner(3, 300).log()
    return replace(log, entries=None, day_grid=None, rows=select_rows(log).rows)


def with_ratings(change: Callable[[IntArray], IntArray]) -> ReviewLog:
    rows = learner().rows
    assert rows is not None
    return replace(learner(), rows=replace(rows, rating=change(rows.rating)))


def run(configuration: Configuration, log: ReviewLog) -> Result:
    return Session(log).run(configuration, CONTEXT)


@cache
def results(backwards: bool = False) -> dict[str, Result]:
    """Everything on one session, in order or in reverse order."""
    session = Session(learner())
    names = list(CONFIGURATIONS)[:: -1 if backwards else 1]
    return {name: session.run(CONFIGURATIONS[name], CONTEXT) for name in names}


@pytest.fixture(params=CONFIGURATIONS)
def configuration(request: pytest.FixtureRequest) -> Configuration:
    return CONFIGURATIONS[request.param]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Configuration:
    """Each model once, in its standard configuration."""
    return MODELS[request.param]


def check_probabilities(p: FloatArray) -> None:
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_every_model_is_here() -> None:
    assert set(MODELS) == set(all_models())


def test_a_probability_for_every_judged_review(configuration: Configuration) -> None:
    result = results()[configuration.name]
    trials = Session(learner()).trials(configuration.protocol)
    assert len(trials.folds) == 2
    assert result.p.shape == trials.test_index.shape
    assert result.p.dtype == np.float64
    check_probabilities(result.p)
    np.testing.assert_array_equal(result.review_th, trials.review_th[trials.test_index])
    assert not result.notes  # nothing fell back to the defaults


def test_the_same_figures_whoever_ran_before(configuration: Configuration) -> None:
    once, again = results()[configuration.name], results(backwards=True)[configuration.name]
    np.testing.assert_array_equal(once.p, again.p)
    assert once.metrics == again.metrics
    assert once.parameters == again.parameters


def test_a_model_says_whether_it_uses_the_device(model: Configuration) -> None:
    """A batch sends it where the device is."""
    if model.model.predict is None:
        assert not model.model.uses_device
        return
    trials = Session(learner()).trials(model.protocol)
    nowhere = replace(CONTEXT, device="nowhere")
    test, default = trials.folds[0].test, model.model.default(nowhere)
    if model.model.uses_device:
        with pytest.raises(InputError, match="The device 'nowhere' cannot be used"):
            model.model.predict(trials, default, test, nowhere)
    else:
        check_probabilities(model.model.predict(trials, default, test, nowhere))


# What is known when


def other_outcomes(rating: IntArray, at: IntArray) -> IntArray:
    """Passes become failures and failures passes at these rows."""
    changed = rating.copy()
    changed[at] = np.where(rating[at] == 1, 3, 1)
    return changed


def check_no_foresight(configuration: Configuration, before: Result) -> None:
    """Outcomes of a review within the last fold and of all later ones change no prediction so far.

    This holds for models that learn while they are judged, too.
    """
    order = np.sort(before.review_th)
    at = int(order[len(order) * 3 // 4])
    log = with_ratings(lambda rating: other_outcomes(rating, np.arange(at - 1, len(rating))))
    after = run(configuration, log)
    np.testing.assert_array_equal(after.review_th, before.review_th)
    known = before.review_th <= at
    assert known.any()
    assert (after.y[before.review_th == at] != before.y[before.review_th == at]).all()
    np.testing.assert_allclose(after.p[known], before.p[known], rtol=0, atol=1e-9)


def check_no_learning(configuration: Configuration, before: Result) -> None:
    """Other cards' outcomes since the training part change no prediction of the last fold."""
    rows = learner().rows
    assert rows is not None
    last = before.fold == before.fold.max()
    card = rows.card_id[before.review_th - 1]
    others = np.isin(rows.card_id, np.unique(card[last])[::2])
    others[: int(before.review_th[last].min()) - 1] = False
    log = with_ratings(lambda rating: other_outcomes(rating, np.flatnonzero(others)))
    after = run(configuration, log)
    kept = last & ~np.isin(card, rows.card_id[others])
    assert (after.y[last & ~kept] != before.y[last & ~kept]).all()
    assert kept.sum() > 10
    np.testing.assert_allclose(after.p[kept], before.p[kept], rtol=0, atol=1e-9)


def test_no_prediction_knows_its_own_outcome_or_a_later_one(configuration: Configuration) -> None:
    check_no_foresight(configuration, results()[configuration.name])


def test_only_declared_models_learn_while_they_are_judged(configuration: Configuration) -> None:
    if configuration.model.online is None:
        check_no_learning(configuration, results()[configuration.name])


def test_the_checks_find_what_they_look_for() -> None:
    def peeking(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
        return np.where(trials.y[index] == 1, 0.9, 0.1)

    def learning(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
        return ((np.cumsum(trials.y) - trials.y + 1) / np.arange(2, len(trials) + 2))[index]

    def made_up(predict: Callable[..., FloatArray]) -> tuple[Configuration, Result]:
        plain = CONFIGURATIONS["90%"]
        configuration = replace(plain, model=replace(plain.model, predict=predict))
        return configuration, run(configuration, learner())

    with pytest.raises(AssertionError):
        check_no_foresight(*made_up(peeking))
    check_no_foresight(*made_up(learning))
    with pytest.raises(AssertionError):
        check_no_learning(*made_up(learning))


# Fits on next to nothing


def check_fit(configuration: Configuration, reviews: int) -> None:
    """A fit ends with usable parameters, or says that there is not enough data."""
    trials = Session(learner()).trials(configuration.protocol)
    train, test = trials.folds[-1].train[:reviews], trials.folds[-1].test
    model = configuration.model
    assert model.predict is not None
    for fit in filter(None, (model.fit, model.fit_s0)):
        try:
            fitted = fit(trials, train, np.ones(len(train)), CONTEXT)
        except NotEnoughData:
            continue
        if isinstance(fitted, list):
            assert np.isfinite(fitted).all()
        p = model.predict(trials, fitted, test, CONTEXT)
        assert p.shape == test.shape
        check_probabilities(p)


@pytest.mark.parametrize("reviews", [0, 1, 6])
def test_a_fit_on_hardly_any_reviews(model: Configuration, reviews: int) -> None:
    if model.model.online is None:
        check_fit(model, reviews)


@pytest.mark.parametrize("rating", [1, 3], ids=["all failed", "all passed"])
def test_outcomes_of_one_kind(model: Configuration, rating: int) -> None:
    log = with_ratings(lambda ratings: np.full_like(ratings, rating))
    check_probabilities(run(model, log).p)


# What a training can be set to


TRAINED = [name for name, model in all_models().items() if model.hyperparameters]
SMALL_BATCHES = replace(PROTOCOL, batch_size=48)


@cache
def practised_learner() -> Session:
    """Reviews for several batches."""
    return Session(simulate_learner(3, 1_200).log())


def other_value(each: Hyperparameter) -> Value:
    """Another than the default, far enough from it to be seen."""
    if each.choices:
        return next(choice for choice in each.choices if choice != each.default)
    if each.name in ("batch_size", "iterations"):
        return {"batch_size": 32, "iterations": 2}[each.name]
    number = each.default_under(SMALL_BATCHES)
    assert not isinstance(number, str)
    return number + 3 if each.whole else number * 5


@pytest.mark.parametrize("name", TRAINED)
def test_every_hyperparameter_is_what_it_says(name: str) -> None:
    """Its default changes no figure, and another value changes some."""
    (plain,) = resolve(name, SMALL_BATCHES)
    session = Session(learner()) if plain.model.needs else practised_learner()
    defaults = {each.name: each.default_under(SMALL_BATCHES) for each in plain.tunable}
    assert len(defaults) == len(plain.tunable)

    @cache
    def predictions(values: tuple[tuple[str, Value], ...]) -> FloatArray:
        return session.run(plain.trained_with(dict(values)), CONTEXT).p

    as_published = session.run(plain, CONTEXT).p
    np.testing.assert_array_equal(predictions(tuple(defaults.items())), as_published)
    # The last epoch of a calm training is its best, and the order of one batch is no order.
    wild = [
        ("learning_rate", faster * float(defaults.get("learning_rate", 1)))
        for faster in (1, 10, 100)
    ]
    besides = {"keep": [(each,) for each in wild], "seed": [(), (("batch_size", 32),)]}
    for each in plain.tunable:
        value = (each.name, other_value(each))
        assert any(
            (predictions((*others, value)) != predictions(others)).any()
            for others in besides.get(each.name, [()])
            if {name for name, _ in others} <= set(defaults)
        ), each.name


def test_every_training_can_be_set() -> None:
    trained = {name for name, model in all_models().items() if model.trained}
    assert trained - set(TRAINED) == {"FSRS-rs"}  # whose package takes no settings


def test_a_training_is_set_to_what_there_is_only() -> None:
    fsrs6, untrained, average = resolve("FSRS-6,FSRS-6-dry-run,AVG", PROTOCOL)[::-1]
    for values, words in (
        ({"rate": 0.1}, "FSRS-6 has no hyperparameter rate; it has learning_rate, epochs"),
        ({"keep": "worst"}, "FSRS-6: keep is one of best, last, not worst"),
        ({"learning_rate": -1.0}, "learning_rate is a number from"),
        ({"learning_rate": "fast"}, "learning_rate is a number from"),
        ({"epochs": 2.5}, "epochs is a whole number, not 2.5"),
    ):
        with pytest.raises(InputError, match=words):
            fsrs6.trained_with(values)
    for nothing_trained in (untrained, average):
        with pytest.raises(InputError, match="it has none"):
            nothing_trained.trained_with({"epochs": 3})


# Who compiles

SPY = """
import json, sys
from srs_eval.training import compile

used, kernels = [], []

def spied(make):
    made = {}
    def wrapper(function, *arguments, **keywords):
        used.append(function)
        key = (function, *arguments[:1], repr(keywords))
        if key not in made:
            made[key] = make(function, *arguments, **keywords)
            kernels.append(made[key])
        return made[key]
    return wrapper

compile.compiled, compile.specialised = spied(compile.compiled), spied(compile.specialised)
from tests.models import test_conformance as here

def forget():
    for name, module in list(sys.modules.items()):
        if name.startswith("srs_eval.training.") and module is not compile:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

found = {}
for configuration in sorted(here.with_untrained(), key=lambda each: each.compiles):
    if configuration.compiles and "numba" not in found:
        found["numba"] = "numba" in sys.modules
    forget()
    used.clear()
    here.run(configuration, here.learner())
    found[configuration.name] = bool(used)
found["twice"] = []
for kernel in kernels:
    kinds = [tuple(str(each).replace("readonly ", "") for each in s) for s in kernel.signatures]
    if len(set(kinds)) < len(kinds):
        found["twice"].append(kernel.py_func.__name__)
print(json.dumps(found))
"""


def with_untrained() -> list[Configuration]:
    trained = [each.model.name for each in CONFIGURATIONS.values() if each.model.trained]
    untrained = [each for name in trained for each in resolve(f"{name}-dry-run", PROTOCOL)]
    return [*CONFIGURATIONS.values(), *untrained]


def test_models_compile_when_they_say_so() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SPY],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found.pop("numba")  # nothing that compiles nothing has imported it
    # Where an array is read-only at one call and not at another, a kernel is compiled for both.
    assert found.pop("twice") == []
    assert found == {each.name: each.compiles for each in with_untrained()}
