"""Find mistakes in a model on simulated learners: `srs-eval models check`.

Each check takes a configuration, or its training, and yields mistakes; docs/adding-a-model.md
lists them. `foresight` finds models that read the future, `convergence` finds models that are
hardly trained.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData, NotInstalled
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import add_random_features
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog, find_arrays
from srs_eval.data.trials import Trials
from srs_eval.engine import foresight
from srs_eval.engine.altered_logs import copy_columns, replace_columns
from srs_eval.engine.convergence import can_continue_training, find_poor_training
from srs_eval.engine.evaluate import describe_failure, evaluate, load_demo_learner
from srs_eval.engine.gradient_check import check_gradient, check_trainer_gradients
from srs_eval.engine.model_findings import Mistake, Mistakes
from srs_eval.engine.replay import CustomFoldSession, Folds, TrainingRun, predict_again, train
from srs_eval.engine.run import Failed, Finished, Skipped
from srs_eval.engine.session import (
    LearnerSession,
    Result,
    check_predictions,
    fit_and_predict,
    listed,
)
from srs_eval.models import Model
from srs_eval.models.configurations import Configuration, list_names, resolve_configurations
from srs_eval.training.hyperparameters import Cancelled, Context, Hyperparameter, Value

# Anki's optimizer takes these rows; which reviews are evaluated depends on no outcome. The
# benchmark's outlier filter uses all outcomes, so a changed outcome could change the rows.
_RUN_PROTOCOL = Protocol(rows="anki")
PROTOCOL = replace(_RUN_PROTOCOL, n_splits=2, batch_size=64)
"""Protocol of the short learner, on which most checks are made."""
_SAME_DAYS = (replace(PROTOCOL, short=True, secs=True), replace(PROTOCOL, short=True))
"""Protocols with same-day reviews in histories, under which users' models are checked, too."""
CONTEXT = Context(user=7)
_SMALL_BATCH_PROTOCOL = replace(PROTOCOL, batch_size=48)
_TOLERANCE = 1e-9  # probabilities this close are equal
_ROUNDING_TOLERANCE = 1e-6  # probabilities this close are equal if sums have another order

_SHORT_LOG_REVIEWS = 300  # reviews of the learner in most checks
_MEDIUM_LOG_REVIEWS = 2_000
# For models that treat long logs differently: over 5,000 reviews are evaluated or trained on.
_LONG_LOG_REVIEWS = 8_000
_ALL_LOG_REVIEWS = 1_000_000
_CUT_COUNT = 8  # cuts of the short learner's log, and half as many within days
_CUTS_OF_SAME_DAYS = 4  # the same, if same-day reviews are in histories
_ROUNDS_OF_LONG_LOGS = 2  # like `_ROUNDS`, if cards have too many reviews to change all
_ROUNDS = 8  # each changes the answer to one review per card
_PRETRAINING_LEARNERS = 3
_PRETRAINING_FAILS = "pretraining fails"


# The learners: the demo's cards, with the user's table of features if there is one

_FEATURE_TABLE: ContextVar[Path | None] = ContextVar("_FEATURE_TABLE", default=None)


def _learner(reviews: int = _SHORT_LOG_REVIEWS, after: int = 0) -> ReviewLog:
    return add_random_features(load_demo_learner(reviews, after), _FEATURE_TABLE.get())


# Results of a training


def _check_probabilities(training: TrainingRun) -> Mistakes:
    """Find predictions of 0 or 1, and trainings that were abandoned."""
    p = training.result.p
    certain = p[(p == 0) | (p == 1)]
    if len(certain):
        yield Mistake(training.name, "certain", found=float(certain[0]))
    for note in training.result.notes:
        yield Mistake(training.name, "not trained", note)


# Repeatability


def _compare_predictions(
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


def _check_repeatability(training: TrainingRun, again: TrainingRun) -> Mistakes:
    """Compare with a training made after other trainings and in another session."""
    yield from _compare_predictions("repeats", training, again.result, _TOLERANCE)


def _check_prediction_order(training: TrainingRun) -> Mistakes:
    """Predict in another order and in two parts: predictions must stay the same."""
    predict = training.configuration.model.predict
    if predict is None:
        return

    def predict_shuffled_halves(
        trials: Trials, fitted: object, index: IntArray, context: Context
    ) -> FloatArray:
        shuffled = np.random.default_rng(1).permutation(len(index))
        p = np.empty(len(index))
        for positions in np.array_split(shuffled, 2):
            if len(positions):
                p[positions] = predict(trials, fitted, index[positions], context)
        return p

    session = foresight.make_matching_session(training, training.log)
    result = predict_again(training, session, predict=predict_shuffled_halves)
    yield from _compare_predictions("order", training, result, _ROUNDING_TOLERANCE)


def _check_worker_process(training: TrainingRun) -> Mistakes:
    """Train in a separate process, in which nothing else has run."""
    configuration = training.configuration
    events = evaluate(_learner(), [configuration], jobs=1, context=CONTEXT, use_cache=False)
    for event in events:
        if isinstance(event, Finished):
            yield from _compare_predictions("workers", training, event.result, _TOLERANCE)
        elif isinstance(event, Failed | Skipped) and event.reason:
            yield Mistake(configuration.name, "fails", event.reason)


def _check_array_writes(configuration: Configuration) -> Mistakes:
    """Find changes to the arrays that a model gets, including those by torch or compiled code."""
    if configuration.model.members:  # it gets predictions
        return
    trials = LearnerSession(_learner()).trials(configuration.protocol)
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


def _check_few_reviews(configuration: Configuration, reviews: int) -> Mistakes:
    """Fit to hardly any reviews: the fit must return usable parameters or raise NotEnoughData."""
    model = configuration.model
    if model.predict is None:
        return
    trials = LearnerSession(_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train[:reviews]
    test = trials.folds[-1].test
    for fit in (model.fit, model.fit_s0):
        if fit is None:
            continue
        try:
            fitted = fit(trials, train, np.ones(len(train)), CONTEXT)
            if not np.isfinite(listed(fitted) or [0.0]).all():
                raise ArithmeticError("parameters that are no finite numbers")
            predicted = model.predict(trials, fitted, test, CONTEXT)
            p = check_predictions(f"{model.name}: predict", predicted, test)
            if not ((p >= 0) & (p <= 1)).all():
                raise ArithmeticError("predictions that are no probabilities")
        except NotEnoughData:
            continue
        except Exception as error:
            yield Mistake(
                configuration.name, "few reviews", describe_failure(error)[0], found=reviews
            )


def _check_single_outcome(configuration: Configuration, rating: int) -> Mistakes:
    """Evaluate on a log in which all reviews failed (1) or all passed (3)."""
    rating_of_all = np.full_like(copy_columns(_learner())["rating"], rating)
    log = replace_columns(_learner(), {"rating": rating_of_all})
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


def _check_hyperparameters(model: Model) -> Mistakes:
    """Set each hyperparameter: its default must change no prediction, another value must."""
    if not model.hyperparameters:
        return
    (plain,) = resolve_configurations(model.name, _SMALL_BATCH_PROTOCOL)
    reviews = _SHORT_LOG_REVIEWS if model.needs else 2 * _SHORT_LOG_REVIEWS
    session = LearnerSession(_learner(reviews))
    defaults = {
        hyperparameter.name: hyperparameter.default_under(_SMALL_BATCH_PROTOCOL)
        for hyperparameter in plain.tunable_hyperparameters
    }

    @cache
    def predictions(settings: tuple[_Setting, ...]) -> FloatArray:
        return session.run(plain.with_hyperparameters(dict(settings)), CONTEXT).p

    as_published = session.run(plain, CONTEXT).p
    if (predictions(tuple(defaults.items())) != as_published).any():
        wrong = ", ".join(defaults)
        for setting in defaults.items():
            if (predictions((setting,)) != as_published).any():
                wrong = setting[0]
                break
        yield Mistake(plain.name, "default", wrong)
    for hyperparameter in plain.tunable_hyperparameters:
        setting = (hyperparameter.name, _pick_other_value(hyperparameter))
        has_effect = False
        for other_settings in _settings_to_try_with(hyperparameter.name, defaults):
            changed = predictions((*other_settings, setting))
            if (changed != predictions(other_settings)).any():
                has_effect = True
                break
        if not has_effect:
            kind = "idle seed" if hyperparameter.name == "seed" else "hyperparameter"
            yield Mistake(plain.name, kind, hyperparameter.name)


def _settings_to_try_with(name: str, defaults: Mapping[str, Value]) -> list[tuple[_Setting, ...]]:
    """Return settings of other hyperparameters under which a hyperparameter may have an effect.

    `keep` has none if the last epoch is the best, `seed` none if there is one batch. Settings of
    hyperparameters that the model lacks, which have no default, are left out.
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


def _check_gradients(configuration: Configuration, context: Context = CONTEXT) -> Mistakes:
    """Check gradients of the losses that `fit` gives to a trainer, and of `Model.loss`."""
    model = configuration.model
    if model.fit is None:
        return
    trials = LearnerSession(_learner()).trials(configuration.protocol)
    train = trials.folds[-1].train
    weights = np.ones(len(train))
    wrong_gradients = check_trainer_gradients(model.fit, trials, train, weights, context)
    loss = model.loss
    if loss is not None:

        def objective(w: FloatArray) -> tuple[float, FloatArray]:
            return loss(trials, w, train, weights, context)

        wrong_gradient = check_gradient("Model.loss", objective, model.default(context))
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


def _check_training(model: Model) -> Mistakes:
    """Find poor training under the protocol of a run, on all reviews of the demo.

    Models without a list of parameters are only compared with the average, on fewer reviews.
    """
    configuration = _resolve_models([model], Protocol())[0]
    session = LearnerSession(_learner(_MEDIUM_LOG_REVIEWS))
    if can_continue_training(configuration, session, CONTEXT):
        session = LearnerSession(_learner(_ALL_LOG_REVIEWS))
    yield from find_poor_training(configuration, session, CONTEXT)


# Other learners


def _with_same_days(model: Model) -> Mistakes:
    """Look for reads of the future if same-day reviews are in histories or evaluated."""
    if model.file is None:  # the package's models have such configurations if they take the flags
        return
    checked_protocols = [_resolve_models([model])[0].protocol]
    for protocol in _SAME_DAYS:
        (configuration,) = resolve_configurations(model.name, protocol)
        if configuration.protocol in checked_protocols:
            continue
        checked_protocols.append(configuration.protocol)
        as_benchmark = replace(configuration.protocol, rows="benchmark")
        training = train(_under(as_benchmark, model), LearnerSession(_learner()), CONTEXT)
        for check in _OF_SAME_DAYS:
            mistakes = list(check(training))
            if mistakes:
                yield from mistakes
                return


def _in_all_kinds_of_reviews(
    model: Model, context: Context = CONTEXT, protocol: Protocol = _RUN_PROTOCOL
) -> Mistakes:
    """Look for reads of the own answer that occur only in some kinds of reviews."""
    session = CustomFoldSession(_learner(_MEDIUM_LOG_REVIEWS), foresight.wide_fold)
    training = train(_under(protocol, model), session, context)
    yield from foresight.find_own_answers(training, _ROUNDS)
    yield from foresight.find_own_answers_in_fits(training)


def _check_medium_log(model: Model) -> Mistakes:
    """Look for reads of the future under the protocol of a run."""
    configuration = _resolve_models([model], _RUN_PROTOCOL)[0]
    training = train(configuration, LearnerSession(_learner(_MEDIUM_LOG_REVIEWS)), CONTEXT)
    yield from foresight.find_future_inputs(training, cuts=3)


def _check_long_log(
    model: Model, context: Context = CONTEXT, protocol: Protocol = _RUN_PROTOCOL
) -> Mistakes:
    """Look for reads of the future by models that treat long logs differently."""
    training = _train_on_long_log(model, foresight.choose_late_fold, context, protocol)
    yield from foresight.find_own_answers(training, _ROUNDS_OF_LONG_LOGS)
    yield from foresight.find_future_inputs(training, cuts=2)
    yield from foresight.find_future_fits(training)


def _check_long_training(model: Model) -> Mistakes:
    """Look for reads of the future by models that treat much training data differently."""
    training = _train_on_long_log(model, foresight.choose_last_fold, CONTEXT)
    yield from foresight.find_future_inputs(training, cuts=2)
    if training.fits:
        yield from foresight.find_future_fits(training, limit=1)


def _train_on_long_log(
    model: Model,
    choose_folds: Callable[[Trials], Folds],
    context: Context,
    protocol: Protocol = _RUN_PROTOCOL,
) -> TrainingRun:
    configuration = _under(protocol, model)
    return train(
        configuration, CustomFoldSession(_learner(_LONG_LOG_REVIEWS), choose_folds), context
    )


def _check_pretraining(
    model: Model, context: Context = CONTEXT, protocol: Protocol = PROTOCOL
) -> Mistakes:
    """Look for reads of the future if a model starts from weights of other learners.

    Its predictions without a training of its own are checked, too.
    """
    if model.pretrain is None:
        return
    sessions: list[LearnerSession] = []  # of other learners
    for number in range(1, _PRETRAINING_LEARNERS + 1):
        learner = _learner(_SHORT_LOG_REVIEWS, after=number * _SHORT_LOG_REVIEWS)
        sessions.append(LearnerSession(learner))
    try:
        weights = model.pretrain([session.trials(protocol) for session in sessions], context)
    except (Cancelled, NotInstalled):
        raise
    except Exception as error:
        reason = describe_failure(error)[0]
        yield Mistake(model.name, _PRETRAINING_FAILS, reason, found=len(sessions))
        return
    for name in (model.name, f"{model.name}-dry-run"):
        (configuration,) = resolve_configurations(name, protocol)
        # The context has the weights already.
        without_pretraining = replace(configuration.model, pretrain=None)
        training = train(
            replace(configuration, model=without_pretraining),
            LearnerSession(_learner()),
            replace(context, pretrained=weights),
        )
        mistakes = list(foresight.find_outcome_leaks(training))
        mistakes += foresight.find_future_inputs(training, cuts=3)
        if training.fits:
            mistakes += foresight.find_leaky_fits(training)
            mistakes += foresight.find_future_fits(training)
        if mistakes:
            yield mistakes[0]
            return


# All checks


def _resolve_models(models: Iterable[Model], protocol: Protocol = PROTOCOL) -> list[Configuration]:
    """Return all configurations of these models that the group `all` includes."""
    configurations: list[Configuration] = []
    for model in models:
        for name in list_names(model):
            configurations += resolve_configurations(name, protocol)
    return configurations


def short_protocol(protocol: Protocol) -> Protocol:
    """Return the short learner's protocol with the flags of another protocol."""
    return replace(protocol, n_splits=2, batch_size=64, max_seq_len=64, train_equals_test=False)


def _under(protocol: Protocol, model: Model) -> Configuration:
    """Return the first configuration of a model under a protocol.

    Its trials are prepared with Anki's rows. The model still sees the rows that the protocol names.
    """
    configuration = _resolve_models([model])[0]
    prepared = replace(protocol, rows="anki", train_equals_test=False)
    for flag in fields(Protocol):  # a model may need some, as LogisticRegression needs --secs
        needed = getattr(configuration.protocol, flag.name)
        if needed != getattr(PROTOCOL, flag.name):
            prepared = replace(prepared, **{flag.name: needed})
    if protocol.rows != prepared.rows:
        configuration = replace(configuration, model=_told_rows(model, protocol))
    return replace(configuration, protocol=prepared)


def _told_rows(model: Model, protocol: Protocol) -> Model:
    """Return a model whose functions find the `rows` of a protocol in `trials.protocol`."""

    def with_rows(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(trials: Trials, *arguments: Any) -> Any:
            seen_protocol = replace(trials.protocol, rows=protocol.rows)
            return function(replace(trials, protocol=seen_protocol), *arguments)

        return wrapped

    changed: dict[str, Any] = {}
    for name in ("fit", "fit_s0", "predict", "online", "loss"):
        function = getattr(model, name)
        if function is not None:
            changed[name] = with_rows(function)
    return replace(model, **changed)


def find_mistakes(models: Iterable[Model], features: Path | None = None) -> Mistakes:
    """Find mistakes in models, checking each alone, with a table of features.

    Raises:
        NotInstalled: Something that a model needs is missing.
    """
    _FEATURE_TABLE.set(features)
    for model in models:
        reported: set[tuple[str, str, str, int]] = set()
        for mistake in _check_model(model):
            key = (mistake.configuration, mistake.kind, mistake.what, mistake.parameter)
            if key not in reported:
                reported.add(key)
                yield mistake


def _check_model(model: Model) -> Mistakes:
    configurations = _resolve_models([model])
    first = configurations[0]
    trainings: dict[str, TrainingRun] = {}
    repeated_trainings: dict[str, TrainingRun] = {}  # in reverse order
    other_session = LearnerSession(_learner(_MEDIUM_LOG_REVIEWS // 4))
    for order, results in (
        (configurations, trainings),
        (configurations[::-1], repeated_trainings),
    ):
        session = LearnerSession(_learner())
        for configuration in order:
            yield from _run_check(configuration, _train_into, configuration, session, results)
        # A run on another learner comes between the two orders.
        yield from _run_check(first, _train_into, first, other_session, {})
    if trainings.keys() != repeated_trainings.keys() or first.name not in trainings:
        return
    writes = list(_run_check(first, _check_array_writes, first))
    if writes:  # then no other check can be trusted
        yield from writes
        return
    differences: list[Mistake] = []
    for name, training in trainings.items():
        differences += _check_repeatability(training, repeated_trainings[name])
    yield from differences
    has_leak = False
    for training in trainings.values():
        yield from _check_probabilities(training)
        if differences:  # then every comparison differs
            continue
        for check in _LEAK_CHECKS:
            mistakes = list(_run_check(training.configuration, check, training))
            yield from mistakes
            if mistakes:  # other checks would report the same mistake again
                has_leak = True
                break
    if not differences:
        if not has_leak:
            yield from _check_other_learners(model, first)
        yield from _run_check(first, _check_worker_process, trainings[first.name])
        yield from _run_check(first, _check_hyperparameters, model)
    yield from _run_check(first, _check_gradients, first)
    yield from _run_check(first, _check_training, model)
    for reviews in (0, 1, 6):
        yield from _run_check(first, _check_few_reviews, first, reviews)
    for rating in (1, 3):
        yield from _run_check(first, _check_single_outcome, first, rating)


_LEAK_CHECKS: tuple[Callable[[TrainingRun], Mistakes], ...] = (
    foresight.find_outcome_leaks,
    foresight.find_leaky_fits,
    foresight.find_online_learning,
    lambda training: foresight.find_own_answers(training, _ROUNDS),
    _check_prediction_order,
    lambda training: foresight.find_future_inputs(training, _CUT_COUNT),
    foresight.find_future_fits,
)


_OF_SAME_DAYS: tuple[Callable[[TrainingRun], Mistakes], ...] = (
    foresight.find_outcome_leaks,
    foresight.find_online_learning,
    lambda training: foresight.find_own_answers(training, _ROUNDS_OF_LONG_LOGS),
    lambda training: foresight.find_future_inputs(training, _CUTS_OF_SAME_DAYS),
    lambda training: foresight.find_future_fits(training, limit=1),
)


def _check_other_learners(model: Model, first: Configuration) -> Mistakes:
    """Look for reads of the future in other logs until one is found.

    Logs are longer, follow a pretraining, or have same-day reviews.
    """
    for check in (
        _check_pretraining,
        _in_all_kinds_of_reviews,
        _with_same_days,
        _check_medium_log,
        _check_long_log,
        _check_long_training,
    ):
        mistakes = list(_run_check(first, check, model))
        if mistakes:
            yield from mistakes
            return


class _TimeLimitReached(Cancelled):
    """A check has reached its time limit."""


class _CancelledByUser(Cancelled):
    """The user has cancelled the run that a check is part of."""


def find_first_mistake(
    model: Model,
    features: Path | None = None,
    protocol: Protocol = _RUN_PROTOCOL,
    *,
    seconds: float = math.inf,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Mistake | None:
    """Look for a mistake that makes figures meaningless, and return the first one found.

    Such mistakes are reads of the future, a wrong gradient, or NaN. `protocol` has the flags of the
    run. Returns a mistake of the kind "unfinished" if `seconds` pass before the checks end.

    Raises:
        NotInstalled: Something that the model needs is missing.
        Cancelled: `is_cancelled` returned true.
    """
    _FEATURE_TABLE.set(features)
    configuration = _under(short_protocol(protocol), model)
    end = time.monotonic() + seconds

    def tick(fraction: float) -> None:
        if is_cancelled():
            raise _CancelledByUser
        if time.monotonic() > end:
            raise _TimeLimitReached

    context = replace(CONTEXT, tick=tick)
    mistakes = _find_important_mistakes(model, configuration, context, protocol)
    try:
        return next(_run_check(configuration, lambda: islice(mistakes, 1)), None)
    except _TimeLimitReached:
        return Mistake(configuration.name, "unfinished")


def _find_important_mistakes(
    model: Model, configuration: Configuration, context: Context, protocol: Protocol
) -> Mistakes:
    """Yield mistakes that a few trainings reveal; the quickest checks come first."""
    training = train(configuration, LearnerSession(_learner()), context)
    repeated = train(configuration, LearnerSession(_learner()), context)
    yield from _check_repeatability(training, repeated)
    for check in _LEAK_CHECKS:
        if check is not _check_prediction_order:  # such a mistake makes no figure meaningless
            yield from check(training)
    # Data that the model keeps of one learner must not be used for another.
    other_session = LearnerSession(_learner(_MEDIUM_LOG_REVIEWS // 4))
    yield from _run_check(configuration, _train_into, configuration, other_session, {}, context)
    repeated = train(configuration, LearnerSession(_learner()), context)
    yield from _check_repeatability(training, repeated)
    yield from _in_all_kinds_of_reviews(model, context, protocol)
    yield from _check_gradients(configuration, context)
    yield from _check_long_log(model, context, protocol)
    for mistake in _check_pretraining(model, context, configuration.protocol):
        if mistake.kind != _PRETRAINING_FAILS:  # the model may need more users
            yield mistake


def _train_into(
    configuration: Configuration,
    session: LearnerSession,
    trainings: dict[str, TrainingRun],
    context: Context = CONTEXT,
) -> Mistakes:
    trainings[configuration.name] = train(configuration, session, context)
    yield from ()


def _run_check(
    configuration: Configuration, check: Callable[..., Iterator[Mistake]], *arguments: object
) -> Mistakes:
    """Yield the mistakes that a check finds; an error that it raises is a mistake, too.

    Warnings are not shown, as in a run: checks try rare cases, such as a fit to no reviews, and
    numpy's warnings in these are a mistake only if a prediction shows it.

    Raises:
        NotInstalled: Something that the model needs is missing.
        Cancelled: The time is up, or the user has cancelled.
    """
    try:
        with warnings.catch_warnings(), configuration.model.isolate_settings():
            warnings.simplefilter("ignore")
            mistakes = list(check(*arguments))
    except BaseException as error:
        if isinstance(
            error, NotInstalled | KeyboardInterrupt | _TimeLimitReached | _CancelledByUser
        ):
            raise
        kind = "no probability" if type(error) is ArithmeticError else "fails"
        mistakes = [Mistake(configuration.name, kind, describe_failure(error)[0])]
    yield from mistakes
