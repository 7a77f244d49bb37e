"""Find mistakes in a model by all checks, on simulated learners: `srs-eval models check`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.evaluate import evaluate_safely
from srs_eval.engine.model_checks import (
    CONTEXT,
    FEATURE_TABLE,
    LEAK_CHECKS,
    MEDIUM_LOG_REVIEWS,
    TOLERANCE,
    check_all_kinds_of_reviews,
    check_array_writes,
    check_few_reviews,
    check_gradients,
    check_hyperparameters,
    check_long_log,
    check_long_training,
    check_medium_log,
    check_pretraining,
    check_probabilities,
    check_repeatability,
    check_same_days,
    check_single_outcome,
    check_training,
    compare_predictions,
    load_learner,
    resolve_models,
    run_check,
    train_into,
)
from srs_eval.engine.model_mistakes import Mistake, Mistakes
from srs_eval.engine.replay import TrainingRun
from srs_eval.engine.run import FinalEvent, Finished
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.workers import WorkerPool
from srs_eval.models import Model, all_models
from srs_eval.models.configurations import Configuration


def find_mistakes(models: Iterable[Model], features: Path | None = None) -> Mistakes:
    """Yield the mistakes in models, each mistake once.

    `features` is the user's table of features, if there is one.

    Raises:
        NotInstalled: Something that a model needs is missing.
    """
    FEATURE_TABLE.set(features)
    for model in models:
        reported: set[tuple[str, str, str, int]] = set()
        for mistake in _check_model(model):
            key = (mistake.configuration, mistake.kind, mistake.what, mistake.parameter)
            if key not in reported:
                reported.add(key)
                yield mistake


def _check_model(model: Model) -> Mistakes:
    configurations = resolve_models([model])
    first = configurations[0]
    trainings: dict[str, TrainingRun] = {}
    repeated_trainings: dict[str, TrainingRun] = {}  # made in reverse order
    other_session = LearnerSession(load_learner(MEDIUM_LOG_REVIEWS // 4))
    for order, trainings_in_order in (
        (configurations, trainings),
        (configurations[::-1], repeated_trainings),
    ):
        session = LearnerSession(load_learner())
        for configuration in order:
            yield from run_check(
                configuration, train_into, configuration, session, trainings_in_order
            )
        # A run on another learner comes between the two orders.
        yield from run_check(first, train_into, first, other_session, {})
    if trainings.keys() != repeated_trainings.keys() or first.name not in trainings:
        return
    writes = list(run_check(first, check_array_writes, first))
    if writes:  # then no other check can be trusted
        yield from writes
        return
    differences: list[Mistake] = []
    for name, training in trainings.items():
        differences += check_repeatability(training, repeated_trainings[name])
    yield from differences
    has_leak = False
    for training in trainings.values():
        yield from check_probabilities(training)
        if differences:  # then every comparison differs
            continue
        for check in LEAK_CHECKS:
            mistakes = list(run_check(training.configuration, check, training))
            yield from mistakes
            if mistakes:  # other checks would report the same mistake again
                has_leak = True
                break
    if not differences:
        if not has_leak:
            yield from _check_other_learners(model, first)
        yield from run_check(first, _check_worker_process, trainings[first.name])
        yield from run_check(first, check_hyperparameters, model)
    yield from run_check(first, check_gradients, first)
    yield from run_check(first, check_training, model)
    for reviews in (0, 1, 6):
        yield from run_check(first, check_few_reviews, first, reviews)
    for rating in (1, 3):
        yield from run_check(first, check_single_outcome, first, rating)


def _check_other_learners(model: Model, first: Configuration) -> Mistakes:
    """Look for reads of the future in more cases until one is found.

    These are longer logs, more kinds of reviews, same-day reviews, and weights from pretraining.
    """
    for check in (
        check_pretraining,
        check_all_kinds_of_reviews,
        check_same_days,
        check_medium_log,
        check_long_log,
        check_long_training,
    ):
        mistakes = list(run_check(first, check, model))
        if mistakes:
            yield from mistakes
            return


def _check_worker_process(training: TrainingRun) -> Mistakes:
    """Train in a separate process, in which nothing else has run: predictions must be the same."""
    configuration = training.configuration
    with WorkerPool(1, initializer=all_models) as pool:
        event = pool.submit(_evaluate_alone, load_learner(), configuration).result()
    if isinstance(event, Finished):
        yield from compare_predictions("workers", training, event.result, TOLERANCE)
    elif event.reason:
        yield Mistake(configuration.name, "fails", event.reason)


def _evaluate_alone(log: ReviewLog, configuration: Configuration) -> FinalEvent:
    return evaluate_safely(LearnerSession(log), configuration, CONTEXT)
