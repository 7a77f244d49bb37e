"""Check one model for one kind of mistake at a time, on simulated learners.

Each check takes a configuration, or its training, and yields mistakes; docs/adding-a-model.md
lists them. `leakage` finds models that read the future, `convergence` finds models whose training
ends too early. `conformance` and `quick_check` choose checks and their order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData, NotInstalled
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import add_random_features
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog, find_arrays
from srs_eval.data.trials import Trials
from srs_eval.engine import leakage
from srs_eval.engine.altered_logs import copy_columns, replace_columns
from srs_eval.engine.convergence import can_continue_training, find_poor_training
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.gradient_check import check_gradient, check_trainer_gradients
from srs_eval.engine.model_mistakes import Mistake, Mistakes
from srs_eval.engine.replay import CustomFoldSession, Folds, TrainingRun, predict_again, train
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession, fit_and_predict
from srs_eval.models import Ensemble, Model, TrainedModel
from srs_eval.models.configurations import Configuration, list_names, resolve_configurations
from srs_eval.models.held_out import as_float_list, check_predictions
from srs_eval.training.hyperparameters import (
    Cancelled,
    Context,
    Hyperparameter,
    TrainingRecord,
    Value,
)

# With the rows that Anki's optimizer takes, outcomes have no effect on which reviews are evaluated.
# The benchmark's outlier filter uses all outcomes, so a changed outcome could change its rows.
RUN_PROTOCOL = Protocol(rows="anki")
PROTOCOL = replace(RUN_PROTOCOL, n_splits=2, batch_size=64)
"""Protocol of the short learner, on which most checks are made."""
_SAME_DAY_PROTOCOLS = (replace(PROTOCOL, short=True, secs=True), replace(PROTOCOL, short=True))
"""Protocols with same-day reviews in histories, under which users' models are checked, too."""
CONTEXT = Context(user=7)  # the number of the user is part of random seeds
_SMALL_BATCH_PROTOCOL = replace(PROTOCOL, batch_size=48)
TOLERANCE = 1e-9  # probabilities this close are equal
_ROUNDING_TOLERANCE = 1e-6  # probabilities this close are equal if sums have another order

_SHORT_LOG_REVIEWS = 300  # reviews of the learner in most checks
MEDIUM_LOG_REVIEWS = 2_000
# For models that treat long logs differently: over 5,000 reviews are evaluated or trained on.
_LONG_LOG_REVIEWS = 8_000
_ALL_LOG_REVIEWS = 1_000_000
_CUT_COUNT = 8  # cuts of the short learner's log (`leakage.find_future_inputs`)
_SAME_DAY_CUT_COUNT = 4  # the same, if same-day reviews are in histories
_ROUNDS = 8  # each changes the answer to one review per card (`leakage.find_own_answers`)
_FEW_ROUNDS = 2  # the same, where a card has too many reviews to change all answers
_PRETRAINING_LEARNERS = 3
PRETRAINING_FAILS = "pretraining fails"


# The learners: cards of the demo, with features as in the user's table if there is one

FEATURE_TABLE: ContextVar[Path | None] = ContextVar("FEATURE_TABLE", default=None)


def load_learner(reviews: int = _SHORT_LOG_REVIEWS, skip_reviews: int = 0) -> ReviewLog:
    """Return `load_demo_learner`'s log, with random rows of the feature table if there is one."""
    return add_random_features(load_demo_learner(reviews, skip_reviews), FEATURE_TABLE.get())


# Results of a training


def check_probabilities(training: TrainingRun) -> Mistakes:
    """Find predictions of 0 or 1, and trainings that were abandoned."""
    p = training.result.p
    certain = p[(p == 0) | (p == 1)]
    if len(certain):
        yield Mistake(training.name, "certain", found=float(certain[0]))
    for note in training.result.notes:
        yield Mistake(training.name, "not trained", note)


# Repeatability


def compare_predictions(
    kind: str, training: TrainingRun, other_result: Result, tolerance: float
) -> Mistakes:
    """Yield a mistake for the first review that another result predicts differently."""
    result = training.result
    differing = np.flatnonzero(np.abs(other_result.p - result.p) > tolerance)
    if len(differing):
        first = int(differing[0])
        review = int(result.review_th[first])
        found = float(other_result.p[first])
        expected = float(result.p[first])
        yield Mistake(training.name, kind, review=review, found=found, expected=expected)


def check_repeatability(training: TrainingRun, again: TrainingRun) -> Mistakes:
    """Compare with the same training, made after other trainings and in another session."""
    yield from compare_predictions("repeats", training, again.result, TOLERANCE)


def check_prediction_order(training: TrainingRun) -> Mistakes:
    """Predict in another order and in two parts: predictions must stay the same."""
    model = training.configuration.model
    if not isinstance(model, TrainedModel):
        return
    predict = model.predict

    def predict_shuffled_halves(
        trials: Trials, fitted: object, index: IntArray, context: Context
    ) -> FloatArray:
        shuffled = np.random.default_rng(1).permutation(len(index))
        p = np.empty(len(index))
        for positions in np.array_split(shuffled, 2):
            if len(positions):
                p[positions] = predict(trials, fitted, index[positions], context)
        return p

    session = leakage.make_matching_session(training, training.log)
    result = predict_again(training, session, predict=predict_shuffled_halves)
    yield from compare_predictions("order", training, result, _ROUNDING_TOLERANCE)


def check_array_writes(configuration: Configuration) -> Mistakes:
    """Find changes to the arrays that a model gets, including those by torch or compiled code."""
    if isinstance(configuration.model, Ensemble):  # it gets predictions
        return
    trials = LearnerSession(load_learner()).trials(configuration.protocol)
    arrays = list(find_arrays(trials))
    copies = [array.copy() for array in arrays]
    # A model without a file gets these trials themselves, not a copy of them.
    without_file = replace(configuration, model=replace(configuration.model, file=None))
    fit_and_predict(without_file, trials, CONTEXT)
    for array, unchanged in zip(arrays, copies, strict=True):
        if array.tobytes() != unchanged.tobytes():
            yield Mistake(configuration.name, "writes")
            return


# Rare cases


def check_few_reviews(configuration: Configuration, reviews: int) -> Mistakes:
    """Fit to hardly any reviews: the fit must return usable parameters or raise NotEnoughData."""
    model = configuration.model
    if not isinstance(model, TrainedModel):
        return
    trials = LearnerSession(load_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train[:reviews]
    test = trials.folds[-1].test
    for fit in (model.fit, model.fit_s0):
        if fit is None:
            continue
        try:
            fitted = fit(trials, train, np.ones(len(train)), CONTEXT)
            if not np.isfinite(as_float_list(fitted) or [0.0]).all():
                raise ArithmeticError("parameters that are not finite numbers")
            predicted = model.predict(trials, fitted, test, CONTEXT)
            p = check_predictions(f"{model.name}: predict", predicted, test)
            if not ((p >= 0) & (p <= 1)).all():
                raise ArithmeticError("predictions that are not probabilities")
        except NotEnoughData:
            continue
        except Exception as error:
            yield Mistake(
                configuration.name, "few reviews", describe_failure(error)[0], found=reviews
            )


def check_single_outcome(configuration: Configuration, rating: int) -> Mistakes:
    """Evaluate on a log in which all reviews failed (1) or all passed (3)."""
    rating_of_all = np.full_like(copy_columns(load_learner())["rating"], rating)
    log = replace_columns(load_learner(), {"rating": rating_of_all})
    try:
        LearnerSession(log).run(configuration, CONTEXT)
    except Exception as error:
        yield Mistake(configuration.name, "one outcome", describe_failure(error)[0], found=rating)


# Hyperparameters

_Setting = tuple[str, Value]
"""Name and value of a hyperparameter."""


def _pick_other_value(hyperparameter: Hyperparameter) -> Value:
    """Return a value far enough from the default for its effect to be seen."""
    if hyperparameter.choices:
        default = hyperparameter.default
        return next(choice for choice in hyperparameter.choices if choice != default)
    if hyperparameter.name == "batch_size":
        return 32
    if hyperparameter.name == "iterations":
        return 2
    number = hyperparameter.default_under(_SMALL_BATCH_PROTOCOL)
    assert not isinstance(number, str)
    return number + 3 if hyperparameter.is_integer else number * 5


def check_hyperparameters(model: Model) -> Mistakes:
    """Set each hyperparameter: its default must change no prediction, another value must do so."""
    if not isinstance(model, TrainedModel) or not model.hyperparameters:
        return
    (published,) = resolve_configurations(model.name, _SMALL_BATCH_PROTOCOL)
    reviews = _SHORT_LOG_REVIEWS if model.needs else 2 * _SHORT_LOG_REVIEWS
    session = LearnerSession(load_learner(reviews))
    defaults = {
        hyperparameter.name: hyperparameter.default_under(_SMALL_BATCH_PROTOCOL)
        for hyperparameter in published.tunable_hyperparameters
    }

    @cache
    def predict_with(settings: tuple[_Setting, ...]) -> FloatArray:
        return session.run(published.with_hyperparameters(dict(settings)), CONTEXT).p

    published_p = session.run(published, CONTEXT).p
    if (predict_with(tuple(defaults.items())) != published_p).any():
        wrong = ", ".join(defaults)
        for setting in defaults.items():
            if (predict_with((setting,)) != published_p).any():
                wrong = setting[0]
                break
        yield Mistake(published.name, "default", wrong)
    for hyperparameter in published.tunable_hyperparameters:
        setting = (hyperparameter.name, _pick_other_value(hyperparameter))
        has_effect = False
        for other_settings in _settings_to_try_with(hyperparameter.name, defaults):
            changed = predict_with((*other_settings, setting))
            if (changed != predict_with(other_settings)).any():
                has_effect = True
                break
        if not has_effect:
            kind = "idle seed" if hyperparameter.name == "seed" else "hyperparameter"
            yield Mistake(published.name, kind, hyperparameter.name)


def _settings_to_try_with(name: str, defaults: Mapping[str, Value]) -> list[tuple[_Setting, ...]]:
    """Return settings of other hyperparameters under which a hyperparameter may have an effect.

    `keep` has no effect if the last epoch is the best, and `seed` has none if there is one batch.
    Combinations with hyperparameters that the model lacks are left out.
    """
    rate = float(defaults.get("learning_rate", 1))
    combinations: list[tuple[_Setting, ...]] = [()]
    if name == "keep":
        learning_rates = [("learning_rate", factor * rate) for factor in (1, 10, 100)]
        combinations = [(learning_rate,) for learning_rate in learning_rates]
        combinations += [(learning_rate, ("batch_size", 16)) for learning_rate in learning_rates]
    elif name == "seed":
        combinations.append((("batch_size", 32),))
    return [settings for settings in combinations if dict(settings).keys() <= defaults.keys()]


# Gradients


def check_gradients(configuration: Configuration, context: Context = CONTEXT) -> Mistakes:
    """Check the gradients that `fit` gives to a trainer, and the one of `TrainedModel.loss`."""
    model = configuration.model
    if not isinstance(model, TrainedModel) or model.fit is None:
        return
    trials = LearnerSession(load_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train
    weights = np.ones(len(train))
    wrong_gradients = check_trainer_gradients(model.fit, trials, train, weights, context)
    loss = model.loss
    if loss is not None:

        def objective(w: FloatArray) -> tuple[float, FloatArray]:
            return loss(trials, w, train, weights, context)

        if model.has_default:
            start = model.default_parameters(configuration.protocol, context)
        else:
            start = model.fit(trials, train, weights, context)
        wrong_gradient = check_gradient("TrainedModel.loss", objective, start)
        if wrong_gradient is not None:
            wrong_gradients.append(wrong_gradient)
    for source, parameter, slope, difference in wrong_gradients:
        yield Mistake(
            configuration.name,
            "gradient",
            source,
            parameter=parameter,
            found=slope,
            expected=difference,
        )


# Quality of training


def check_training(model: Model) -> Mistakes:
    """Find poor training under the protocol of a run, on all reviews of the demo.

    Models without a list of parameters are only compared with the average, on fewer reviews.
    """
    configuration = resolve_models([model], Protocol())[0]
    session = LearnerSession(load_learner(MEDIUM_LOG_REVIEWS))
    if can_continue_training(configuration, session, CONTEXT):
        session = LearnerSession(load_learner(_ALL_LOG_REVIEWS))
    yield from find_poor_training(configuration, session, CONTEXT)


# Other learners


def check_same_days(model: Model) -> Mistakes:
    """Look for reads of the future where same-day reviews are in histories, or evaluated, too."""
    if model.file is None:  # models of the package list configurations with these flags themselves
        return
    checked_protocols = [resolve_models([model])[0].protocol]
    for protocol in _SAME_DAY_PROTOCOLS:
        (configuration,) = resolve_configurations(model.name, protocol)
        if configuration.protocol in checked_protocols:
            continue
        checked_protocols.append(configuration.protocol)
        # The model finds the benchmark's rows in its protocol, in case it leaks only with these.
        as_benchmark = replace(configuration.protocol, rows="benchmark")
        training = train(
            configure_under(as_benchmark, model), LearnerSession(load_learner()), CONTEXT
        )
        for check in _SAME_DAY_CHECKS:
            mistakes = list(check(training))
            if mistakes:
                yield from mistakes
                return


def check_all_kinds_of_reviews(
    model: Model, context: Context = CONTEXT, protocol: Protocol = RUN_PROTOCOL
) -> Mistakes:
    """Look for reads of a review's own answer that occur only in some kinds of reviews."""
    session = CustomFoldSession(load_learner(MEDIUM_LOG_REVIEWS), leakage.choose_wide_fold)
    training = train(configure_under(protocol, model), session, context)
    yield from leakage.find_own_answers(training, _ROUNDS)
    yield from leakage.find_own_answers_in_fits(training)


def check_medium_log(model: Model) -> Mistakes:
    """Look for reads of the future under the protocol of a run."""
    configuration = resolve_models([model], RUN_PROTOCOL)[0]
    training = train(configuration, LearnerSession(load_learner(MEDIUM_LOG_REVIEWS)), CONTEXT)
    yield from leakage.find_future_inputs(training, cuts=3)


def check_long_log(
    model: Model, context: Context = CONTEXT, protocol: Protocol = RUN_PROTOCOL
) -> Mistakes:
    """Look for reads of the future by models that treat long logs differently."""
    training = _train_on_long_log(model, leakage.choose_late_fold, context, protocol)
    yield from leakage.find_own_answers(training, _FEW_ROUNDS)
    yield from leakage.find_future_inputs(training, cuts=2)
    yield from leakage.find_future_fits(training)


def check_long_training(model: Model) -> Mistakes:
    """Look for reads of the future by models that treat much training data differently."""
    training = _train_on_long_log(model, leakage.choose_last_fold, CONTEXT)
    yield from leakage.find_future_inputs(training, cuts=2)
    if training.fits:
        yield from leakage.find_future_fits(training, limit=1)


def _train_on_long_log(
    model: Model,
    choose_folds: Callable[[Trials], Folds],
    context: Context,
    protocol: Protocol = RUN_PROTOCOL,
) -> TrainingRun:
    configuration = configure_under(protocol, model)
    return train(
        configuration, CustomFoldSession(load_learner(_LONG_LOG_REVIEWS), choose_folds), context
    )


def check_pretraining(
    model: Model, context: Context = CONTEXT, protocol: Protocol = PROTOCOL
) -> Mistakes:
    """Look for reads of the future if a model starts from weights of other learners.

    The model is checked with a training of its own and without.
    """
    if not isinstance(model, TrainedModel) or model.pretrain is None:
        return
    sessions: list[LearnerSession] = []  # of other learners
    for number in range(1, _PRETRAINING_LEARNERS + 1):
        learner = load_learner(_SHORT_LOG_REVIEWS, skip_reviews=number * _SHORT_LOG_REVIEWS)
        sessions.append(LearnerSession(learner))
    try:
        recording = replace(context, record=TrainingRecord())
        weights = model.pretrain([session.trials(protocol) for session in sessions], recording)
    except (Cancelled, NotInstalled):
        raise
    except Exception as error:
        reason = describe_failure(error)[0]
        yield Mistake(model.name, PRETRAINING_FAILS, reason, found=len(sessions))
        return
    for name in (model.name, f"{model.name}-dry-run"):
        (configuration,) = resolve_configurations(name, protocol)
        # The weights come with the context, not from files (`models.held_out`).
        without_pretraining = replace(model, pretrain=None)
        training = train(
            replace(configuration, model=without_pretraining),
            LearnerSession(load_learner()),
            replace(context, pretrained=weights),
        )
        mistakes = list(leakage.find_outcome_leaks(training))
        mistakes += leakage.find_future_inputs(training, cuts=3)
        if training.fits:
            mistakes += leakage.find_leaky_fits(training)
            mistakes += leakage.find_future_fits(training)
        if mistakes:
            yield mistakes[0]
            return


# All checks


def resolve_models(models: Iterable[Model], protocol: Protocol = PROTOCOL) -> list[Configuration]:
    """Return all configurations of these models that the group `all` includes."""
    configurations: list[Configuration] = []
    for model in models:
        for name in list_names(model):
            configurations += resolve_configurations(name, protocol)
    return configurations


def short_protocol(protocol: Protocol) -> Protocol:
    """Return a protocol with the folds, batches and lengths that suit the short learner's log.

    The folds are in order of time, as the checks take for granted.
    """
    return replace(
        protocol.with_published_split(),
        n_splits=2,
        batch_size=64,
        max_seq_len=64,
        train_equals_test=False,
    )


def configure_under(protocol: Protocol, model: Model) -> Configuration:
    """Return the first configuration of a model under a protocol.

    Its trials are prepared with Anki's rows, but the model still finds the protocol's `rows` in
    `trials.protocol`.
    """
    configuration = resolve_models([model])[0]
    prepared = replace(protocol.with_published_split(), rows="anki", train_equals_test=False)
    for flag in fields(Protocol):  # a model may need some, as LogisticRegression needs --secs
        needed = getattr(configuration.protocol, flag.name)
        if needed != getattr(PROTOCOL, flag.name):
            prepared = replace(prepared, **{flag.name: needed})
    if protocol.rows != prepared.rows:
        configuration = replace(configuration, model=_with_stated_rows(model, protocol))
    return replace(configuration, protocol=prepared)


def _with_stated_rows(model: Model, protocol: Protocol) -> Model:
    """Return a model whose functions find the `rows` of a protocol in `trials.protocol`."""

    def with_rows(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(trials: Trials, *arguments: Any) -> Any:
            seen_protocol = replace(trials.protocol, rows=protocol.rows)
            return function(replace(trials, protocol=seen_protocol), *arguments)

        return wrapped

    changed: dict[str, Any] = {}
    for name in ("fit", "fit_s0", "predict", "online", "loss"):
        function = getattr(model, name, None)
        if function is not None:
            changed[name] = with_rows(function)
    return replace(model, **changed)


# Checks of one training for reads of the future and for predictions that depend on their order
LEAK_CHECKS: tuple[Callable[[TrainingRun], Mistakes], ...] = (
    leakage.find_outcome_leaks,
    leakage.find_leaky_fits,
    leakage.find_online_learning,
    lambda training: leakage.find_own_answers(training, _ROUNDS),
    check_prediction_order,
    lambda training: leakage.find_future_inputs(training, _CUT_COUNT),
    leakage.find_future_fits,
)


_SAME_DAY_CHECKS: tuple[Callable[[TrainingRun], Mistakes], ...] = (
    leakage.find_outcome_leaks,
    leakage.find_online_learning,
    lambda training: leakage.find_own_answers(training, _FEW_ROUNDS),
    lambda training: leakage.find_future_inputs(training, _SAME_DAY_CUT_COUNT),
    lambda training: leakage.find_future_fits(training, limit=1),
)


class TimeLimitReached(Cancelled):
    """A check has reached its time limit."""


class CancelledByUser(Cancelled):
    """The user has cancelled the run that a check is part of."""


def train_into(
    configuration: Configuration,
    session: LearnerSession,
    trainings: dict[str, TrainingRun],
    context: Context = CONTEXT,
) -> Mistakes:
    """Train a configuration and add its run to `trainings`; no mistake is yielded."""
    trainings[configuration.name] = train(configuration, session, context)
    yield from ()


def run_check(
    configuration: Configuration, check: Callable[..., Iterator[Mistake]], *arguments: object
) -> Mistakes:
    """Yield the mistakes that a check finds; an error that it raises is a mistake, too.

    Warnings are not shown, as in a run: checks try rare cases, such as a fit to no reviews, where
    numpy's warnings matter only if a prediction is wrong.

    Raises:
        NotInstalled: Something that the model needs is missing.
        Cancelled: The time is up, or the user has cancelled.
    """
    try:
        with warnings.catch_warnings(), configuration.model.isolate_settings():
            warnings.simplefilter("ignore")
            mistakes = list(check(*arguments))
    except BaseException as error:
        if isinstance(error, NotInstalled | KeyboardInterrupt | TimeLimitReached | CancelledByUser):
            raise
        kind = "no probability" if type(error) is ArithmeticError else "fails"
        mistakes = [Mistake(configuration.name, kind, describe_failure(error)[0])]
    yield from mistakes
