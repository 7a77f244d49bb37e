"""Fit and evaluate configurations on one learner in one process, with shared trials.

`LearnerSession` runs the evaluations; each returns a `Result`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from srs_eval import metrics
from srs_eval.data.errors import NotEnoughData, require
from srs_eval.data.memory import require_memory
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog, Rows
from srs_eval.data.rows import Selection, select_rows
from srs_eval.data.trials import Trials, prepare_trials
from srs_eval.engine.cache import CachedResult, compute_cache_key, load_cached, save_cached
from srs_eval.engine.result import Result, TestSet, make_test_set
from srs_eval.engine.shared_reviews import evaluate_external
from srs_eval.models.configurations import Configuration
from srs_eval.models.held_out import HeldOutTask, Prediction
from srs_eval.models.own_parameters import predict_with_presets
from srs_eval.training.compile import has_kernels, mark_kernels
from srs_eval.training.hyperparameters import Context


class LearnerSession:
    """One learner in one process, with shared rows, trials and data that models derive."""

    def __init__(self, log: ReviewLog) -> None:
        self.log = log
        self._selections: dict[str, Selection] = {}
        self._trials: dict[Protocol, Trials | NotEnoughData] = {}
        self._member_results: list[tuple[Configuration, Context, Result]] = []
        """Results of models whose predictions ensembles combine (their members)."""

    def selection(self, protocol: Protocol) -> Selection:
        if protocol.rows not in self._selections:
            self._selections[protocol.rows] = select_rows(self.log, protocol.rows)
        return self._selections[protocol.rows]

    def rows(self, protocol: Protocol) -> Rows:
        return self.selection(protocol).rows

    def trials(self, protocol: Protocol) -> Trials:
        """Return the trials under a protocol.

        Protocols that differ only in training flags share one preparation.
        """
        key = self.preparation_key(protocol)
        if key not in self._trials:
            try:
                self._trials[key] = prepare_trials(self.log, self.rows(protocol), key)
            except NotEnoughData as reason:
                self._trials[key] = reason
        trials = self._trials[key]
        if isinstance(trials, NotEnoughData):
            raise trials
        return replace(trials, protocol=protocol)

    def preparation_key(self, protocol: Protocol) -> Protocol:
        """Return the part of a protocol that decides how trials are prepared."""
        # For some models, upstream drops the reviews of deleted cards. We do so only on data sets,
        # to match its figures. In a user's own collection, all models get the same reviews.
        known_decks_only = protocol.known_decks_only and self.log.user is not None
        return replace(protocol.without_training_flags(), known_decks_only=known_decks_only)

    def discard_trials(self, protocol: Protocol) -> None:
        """Discard a protocol's trials and everything that models have derived from them."""
        self._trials.pop(self.preparation_key(protocol), None)

    def run(
        self,
        configuration: Configuration,
        context: Context | None = None,
        *,
        use_cache: bool = False,
    ) -> Result:
        """Fit and evaluate one configuration.

        `context.tick` is called with the fraction that is done. Raises NotEnoughData,
        NotInstalled, MemoryError, Cancelled (from `context.tick`), ArithmeticError if a prediction
        is not a probability, or whatever a model raises.
        """
        context = context or Context()
        model = configuration.model
        require(model.needs_on(context.device), model.name)
        require_memory(model.needs_on(context.device))
        trials = self.trials(configuration.protocol)
        # Progress does not change a result. Hyperparameters count only in the configuration, which
        # is compared as well: a context merely gets a copy of them for the fit.
        comparable_context = replace(context, tick=Context().tick, hyperparameters={})
        for member, member_context, result in self._member_results:
            if member == configuration and member_context == comparable_context:
                return result
        use_cache = use_cache and configuration.is_cacheable
        key = ""
        if use_cache:
            key = compute_cache_key(self._fingerprint, configuration, context)
            stored = load_cached(key)
            # The key covers all that decides the length: the check of it is only a safeguard.
            if stored is not None and len(stored.p) == len(trials.test_index):
                # The counts that are added below are 0 for every configuration that is cached.
                return self._make_result(configuration, trials, stored, cached=True)
        start = time.perf_counter()
        task = self._make_task(configuration, trials, context, use_cache)
        prediction = _predict_held_out(task)
        features = self.log.features
        notes = prediction.notes
        # Only a user's own models read the user's table of features.
        if model.file is not None and features is not None and features.note:
            notes += (features.note,)
        seconds = time.perf_counter() - start
        counted = self._count_parameters(configuration, context, prediction)
        outcome = CachedResult(prediction.p, prediction.parameters, notes, seconds, counted)
        result = self._make_result(configuration, trials, outcome, prediction.tests)
        result = replace(
            result,
            in_sample_reviews=prediction.in_sample_reviews,
            missing_predictions=len(trials.test_index) - len(prediction.p),
            unused_predictions=prediction.unused_predictions,
        )
        self.remember_member_result(configuration, result, comparable_context)
        if use_cache:
            save_cached(key, outcome)
        return result

    def remember_member_result(
        self, configuration: Configuration, result: Result, context: Context
    ) -> None:
        """Keep a result if another model combines it, so that it is computed only once."""
        if configuration.is_member:
            self._member_results.append((configuration, context, result))

    def _make_task(
        self, configuration: Configuration, trials: Trials, context: Context, use_cache: bool
    ) -> HeldOutTask:
        """Return the task, with the callbacks that some kinds of models need.

        Ensembles run their members, external models read predictions, and configurations of the
        presets' parameters predict with these.
        """

        def predict_member(member: Configuration, member_context: Context) -> Prediction:
            result = self.run(member, member_context, use_cache=use_cache)
            assert np.array_equal(result.review_th, trials.derived(make_test_set).review_th)
            return Prediction(result.p, result.parameters, result.notes)

        def predict_own() -> Prediction:
            entry_index = self.selection(configuration.protocol).entry_index
            # `task` is the one that is made below, before a model can call this.
            return predict_with_presets(task, self.log, entry_index, prepare_trials=self.trials)

        def read_external_predictions() -> Prediction:
            entry_index = self.selection(configuration.protocol).entry_index
            tests = trials.derived(make_test_set)
            result = evaluate_external(self.log, configuration, tests, entry_index)
            return Prediction(
                result.p,
                notes=result.notes,
                tests=result.tests,
                unused_predictions=result.unused_predictions,
            )

        task = HeldOutTask(
            configuration,
            trials,
            context,
            predict_member=predict_member,
            predict_with_presets=predict_own,
            read_external_predictions=read_external_predictions,
        )
        return task

    def _count_parameters(
        self, configuration: Configuration, context: Context, prediction: Prediction
    ) -> int | None:
        """Count the parameters if their number is not fixed; None if it is fixed or unknown."""
        if configuration.parameters is not None:
            return None
        counted = configuration.count_parameters(context, self.log)
        if counted is None and prediction.parameters:
            # The fits of a model's partitions may differ in length.
            counted = max(map(len, prediction.parameters.values()))
        return counted

    def _make_result(
        self,
        configuration: Configuration,
        trials: Trials,
        outcome: CachedResult,
        tests: TestSet | None = None,
        cached: bool = False,
    ) -> Result:
        """Return the result on `tests`, by default all held-out reviews."""
        p = outcome.p
        if not ((p >= 0) & (p <= 1)).all():  # false for NaN
            raise ArithmeticError(
                f"{configuration.name} predicted something that is not a probability"
            )
        if tests is None:
            tests = trials.derived(make_test_set)
        return Result(
            configuration=configuration.name,
            metrics=metrics.compute_metrics(tests.y, p, tests.bin),
            tests=tests,
            parameters=outcome.parameters,
            p=p,
            seconds=outcome.seconds,
            cached=cached,
            user=self.log.user,
            notes=outcome.notes,
            counted_parameters=outcome.counted_parameters,
        )

    @cached_property
    def _fingerprint(self) -> str:
        return self.log.fingerprint()


def _kernel_key(configuration: Configuration) -> str:
    """Return the key of a model and its fit, under which their kernels are recorded.

    The digest tells versions of a user's model file apart.
    """
    model = configuration.model
    fit = "default" if configuration.fit == "own" else configuration.fit  # neither is fitted
    file_digest = model.file.digest[:16] if model.file else ""
    return f"{model.name} {fit}{file_digest}"


def must_compile(configuration: Configuration) -> bool:
    """Return whether kernels must be compiled first, which makes this run seconds longer."""
    return configuration.compiles and not has_kernels(_kernel_key(configuration))


def estimate_compile_seconds(configurations: Iterable[Configuration]) -> float:
    """Estimate the seconds to compile kernels that are not on disk yet.

    Models that share kernels count once.
    """
    seconds_by_owner: dict[str, float] = {}
    for configuration in configurations:
        if must_compile(configuration):
            model = configuration.model
            seconds_by_owner[model.kernel_owner] = model.cost.seconds_to_compile
    return sum(seconds_by_owner.values())


def mark_compiled(configuration: Configuration) -> None:
    """Record that a configuration's kernels are on disk; call it after all of them have run.

    Nothing is recorded of a model whose code may change unnoticed: its key would stay the same.
    """
    if configuration.compiles and configuration.model.has_known_code:
        mark_kernels(_kernel_key(configuration))


def fit_and_predict(configuration: Configuration, trials: Trials, context: Context) -> Prediction:
    """Fit a configuration in each fold and predict the held-out reviews.

    To use other folds than the protocol's, pass `replace(trials, folds=...)`.
    """
    return _predict_held_out(HeldOutTask(configuration, trials, context))


def _predict_held_out(task: HeldOutTask) -> Prediction:
    prediction = task.configuration.model.predict_held_out(task)
    if prediction.has_run_all_kernels:
        mark_compiled(task.configuration)
    return prediction
