"""Find the first mistake that makes the figures of a user's own model meaningless.

The checks are those that a user can wait for when the model first runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from srs_eval.data.protocol import Protocol
from srs_eval.engine.model_checks import (
    CONTEXT,
    FEATURE_TABLE,
    LEAK_CHECKS,
    MEDIUM_LOG_REVIEWS,
    PRETRAINING_FAILS,
    RUN_PROTOCOL,
    CancelledByUser,
    TimeLimitReached,
    check_all_kinds_of_reviews,
    check_gradients,
    check_long_log,
    check_prediction_order,
    check_pretraining,
    check_repeatability,
    configure_under,
    load_learner,
    run_check,
    short_protocol,
    train_into,
)
from srs_eval.engine.model_mistakes import Mistake, Mistakes
from srs_eval.engine.replay import train
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Model
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import Context


def find_first_mistake(
    model: Model,
    features: Path | None = None,
    protocol: Protocol = RUN_PROTOCOL,
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
    FEATURE_TABLE.set(features)
    configuration = configure_under(short_protocol(protocol), model)
    end = time.monotonic() + seconds

    def tick(fraction: float) -> None:
        if is_cancelled():
            raise CancelledByUser
        if time.monotonic() > end:
            raise TimeLimitReached

    context = replace(CONTEXT, tick=tick)
    mistakes = _find_important_mistakes(model, configuration, context, protocol)
    try:
        return next(run_check(configuration, lambda: islice(mistakes, 1)), None)
    except TimeLimitReached:
        return Mistake(configuration.name, "unfinished")


def _find_important_mistakes(
    model: Model, configuration: Configuration, context: Context, protocol: Protocol
) -> Mistakes:
    """Yield mistakes that make figures meaningless; the quickest checks come first."""
    training = train(configuration, LearnerSession(load_learner()), context)
    repeated = train(configuration, LearnerSession(load_learner()), context)
    yield from check_repeatability(training, repeated)
    for check in LEAK_CHECKS:
        if check is not check_prediction_order:  # such a mistake makes no figure meaningless
            yield from check(training)
    # What the model remembers of one learner must not change its predictions for another.
    other_session = LearnerSession(load_learner(MEDIUM_LOG_REVIEWS // 4))
    yield from run_check(configuration, train_into, configuration, other_session, {}, context)
    repeated = train(configuration, LearnerSession(load_learner()), context)
    yield from check_repeatability(training, repeated)
    yield from check_all_kinds_of_reviews(model, context, protocol)
    yield from check_gradients(configuration, context)
    yield from check_long_log(model, context, protocol)
    for mistake in check_pretraining(model, context, configuration.protocol):
        if mistake.kind != PRETRAINING_FAILS:  # the model may need more users
            yield mistake
