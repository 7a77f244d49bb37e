"""Fit and evaluate configurations on one learner in one process, with shared trials.

`LearnerSession` runs the evaluations; each returns a `Result`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from srs_eval import metrics
from srs_eval.data.errors import InputError, NotEnoughData, error_message, require
from srs_eval.data.memory import require_memory
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import (
    Cards,
    FloatArray,
    ImportSummary,
    IntArray,
    Preset,
    ReviewLog,
    Rows,
    make_read_only,
)
from srs_eval.data.rows import Selection, select_rows
from srs_eval.data.trials import Trials, compute_recency_weights, prepare_trials
from srs_eval.engine.cache import CachedResult, compute_cache_key, load_cached, save_cached
from srs_eval.engine.result import Result, have_same_reviews, make_test_set
from srs_eval.engine.shared_reviews import evaluate_external
from srs_eval.models.configurations import Configuration
from srs_eval.training.compile import has_kernels, mark_kernels
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import find_pretrained

_Prediction = tuple[FloatArray, dict[int, list[float]] | None, tuple[str, ...]]


class LearnerSession:
    """One learner in one process, with shared rows, trials and data that models derive."""

    def __init__(self, log: ReviewLog) -> None:
        self.log = log
        self._selections: dict[str, Selection] = {}
        self._trials: dict[Protocol, Trials | NotEnoughData] = {}
        self._member_results: list[tuple[Configuration, Context, Result]] = []

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
        # Upstream loses deleted cards for some models, which is part of its figures on data
        # sets. In a user's own collection, all models are evaluated on the same reviews.
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
        NotInstalled, Cancelled (from `context.tick`), or whatever a model raises.
        """
        context = context or Context()
        require(configuration.model.needs, configuration.model.name)
        require_memory(configuration.model.needs)
        trials = self.trials(configuration.protocol)
        if configuration.fit == "own":
            return self._run_preset_parameters(configuration, trials, context)
        if configuration.model.given:
            entry = self.selection(configuration.protocol).entry_index
            return evaluate_external(self.log, configuration, trials.derived(make_test_set), entry)
        use_cache = use_cache and configuration.model.has_known_code
        settings = replace(context, tick=Context().tick, hyperparameters={})
        for member, member_settings, result in self._member_results:
            if (member, member_settings) == (configuration, settings):
                return result
        key = ""
        stored = None
        if use_cache:
            key = compute_cache_key(self._fingerprint, configuration, context)
            stored = load_cached(key)
        if stored is not None and len(stored.p) == len(trials.test_index):
            return self._make_result(configuration, trials, stored, cached=True)
        start = time.perf_counter()
        if configuration.model.members:
            p, parameters, notes = self._run_ensemble(configuration, context, use_cache)
        else:
            p, parameters, notes = fit_and_predict(configuration, trials, context)
        if configuration.model.remarks is not None:
            with configuration.model.isolate_settings():
                notes += configuration.model.remarks(trials, context)
        features = self.log.features
        if configuration.model.file is not None and features is not None and features.note:
            notes += (features.note,)
        seconds = time.perf_counter() - start
        counted: int | None = None
        if configuration.parameters is None:
            counted = configuration.count_parameters(context, self.log)
        stored = CachedResult(p, parameters, notes, seconds, counted)
        result = self._make_result(configuration, trials, stored)
        self.remember_member_result(configuration, result, settings)
        if use_cache:
            save_cached(key, stored)
        return result

    def remember_member_result(
        self, configuration: Configuration, result: Result, context: Context
    ) -> None:
        """Remember a result that other models may combine, so that it is computed only once."""
        if configuration.is_member:
            self._member_results.append((configuration, context, result))

    def _run_ensemble(
        self, configuration: Configuration, context: Context, use_cache: bool
    ) -> _Prediction:
        """Run each member once and combine their predictions."""
        members = configuration.member_configurations
        combine = configuration.model.combine
        assert combine is not None
        results: list[Result] = []
        for member in members:

            def tick(fraction: float) -> None:
                context.tick((len(results) + fraction) / len(members))

            results.append(self.run(member, replace(context, tick=tick), use_cache=use_cache))
        assert all(have_same_reviews(results[0], result) for result in results)
        mark_compiled(configuration)
        notes: list[str] = []
        for member, result in zip(members, results, strict=True):
            notes += [f"{member.words}: {note}" for note in result.notes]
        with configuration.model.isolate_settings():
            combined = combine([result.p for result in results])
        return combined, None, tuple(notes)

    def _run_preset_parameters(
        self, configuration: Configuration, trials: Trials, context: Context
    ) -> Result:
        """Evaluate the parameters of the learner's presets on all held-out reviews."""
        from srs_eval.models.own_parameters import (
            describe_own_parameters,
            find_active_parameters,
            find_fsrs7_presets,
            model_name,
        )

        parameters = find_active_parameters(self.log)
        model = configuration.model
        if (model.name == "FSRS-7") != bool(find_fsrs7_presets(self.log)):
            other = "FSRS-6" if model.name == "FSRS-7" else "FSRS-7"
            raise NotEnoughData(f"the presets run {other}: take your {other} parameters")
        start = time.perf_counter()
        index = trials.test_index
        presets = trials.partition[index]
        p = np.empty(len(trials))
        for preset, positions in _split_by_partition(index, presets):
            values = parameters.get(preset, model.default(context))
            if model_name(values) != model.name:
                p[positions] = self._predict_with_fsrs6(trials, values, positions, context)
                continue
            assert model.predict is not None
            p[positions] = model.predict(trials, values, positions, context)
        mark_compiled(configuration)
        context.tick(1.0)
        entry = self.selection(configuration.protocol).entry_index[trials.review_th[index] - 1]
        notes, seen_reviews = describe_own_parameters(self.log, parameters, presets, entry)
        used = {preset: values for preset, values in parameters.items() if preset in presets}
        stored = CachedResult(p[index], used or None, notes, time.perf_counter() - start)
        result = self._make_result(configuration, trials, stored)
        return replace(result, in_sample_reviews=seen_reviews)

    def _predict_with_fsrs6(
        self, trials: Trials, values: Sequence[float], positions: IntArray, context: Context
    ) -> FloatArray:
        """Return FSRS-6's probabilities for positions in FSRS-7's trials, from whole-day intervals.

        Raises:
            NotEnoughData: The trials evaluate reviews of the same day, too.
        """
        from srs_eval.models import fsrs6

        if not trials.protocol.equalize_test_with_non_secs:
            raise NotEnoughData("a preset runs FSRS-6, which predicts reviews of later days only")
        in_days = replace(trials.protocol, secs=False, equalize_test_with_non_secs=False)
        trials_in_days = self.trials(in_days)
        positions_in_days = np.searchsorted(trials_in_days.review_th, trials.review_th[positions])
        return fsrs6.predict(trials_in_days, list(values), positions_in_days, context)

    def _make_result(
        self,
        configuration: Configuration,
        trials: Trials,
        stored: CachedResult,
        cached: bool = False,
    ) -> Result:
        p = stored.p
        if not ((p >= 0) & (p <= 1)).all():  # false for NaN
            raise ArithmeticError(
                f"{configuration.name} predicted something that is no probability"
            )
        tests = trials.derived(make_test_set)
        return Result(
            configuration=configuration.name,
            metrics=metrics.compute_metrics(tests.y, p, tests.bin),
            tests=tests,
            parameters=stored.parameters,
            p=p,
            seconds=stored.seconds,
            cached=cached,
            user=self.log.user,
            notes=stored.notes,
            counted_parameters=stored.counted_parameters,
        )

    @cached_property
    def _fingerprint(self) -> str:
        return self.log.fingerprint()


def _kernel_key(configuration: Configuration) -> str:
    """Return a key that configurations with the same kernels share."""
    model = configuration.model
    fit = "default" if configuration.fit == "own" else configuration.fit  # neither is fitted
    file_digest = model.file.digest[:16] if model.file else ""
    return f"{model.name} {fit}{file_digest}"


def must_compile(configuration: Configuration) -> bool:
    """Return whether kernels are not on disk yet, so that the first run takes seconds longer."""
    return configuration.compiles and not has_kernels(_kernel_key(configuration))


def estimate_compile_seconds(configurations: Iterable[Configuration]) -> float:
    """Estimate the seconds to compile kernels that are not on disk yet, each kind once."""
    seconds_by_owner: dict[str, float] = {}
    for configuration in configurations:
        if must_compile(configuration):
            model = configuration.model
            seconds_by_owner[model.kernel_owner] = model.seconds_to_compile
    return sum(seconds_by_owner.values())


def mark_compiled(configuration: Configuration) -> None:
    """Record that a configuration's kernels are on disk; call it after running all of them."""
    if configuration.compiles and configuration.model.has_known_code:
        mark_kernels(_kernel_key(configuration))


def fit_and_predict(configuration: Configuration, trials: Trials, context: Context) -> _Prediction:
    """Fit a configuration in each fold and predict the held-out reviews.

    Returns predictions in the order of `trials.test_index`, the last fold's parameters, and notes.
    To use other folds than the protocol's, pass `replace(trials, folds=...)`.
    """
    with configuration.model.isolate_settings():
        return _fit_and_predict(configuration, trials, context)


def _fit_and_predict(configuration: Configuration, trials: Trials, context: Context) -> _Prediction:
    model = configuration.model
    context = replace(context, hyperparameters=configuration.hyperparameters)
    start = find_pretrained(model.name, trials.source[0], context) if model.pretrain else None
    if model.file is not None:
        trials = for_own_model(trials)
    if start is not None:
        context = replace(context, pretrained=start.read_arrays())
    if model.online is not None:
        predicted = model.online(trials, context)
        p = check_predictions(f"{model.name}: online", predicted, trials.test_index)
        p = p.astype(np.float64)
        context.tick(1.0)
        mark_compiled(configuration)
        return p, None, ()
    if model.predict is None:
        raise RuntimeError(f"{model.name} defines neither predict nor online")
    fit = {"trained": model.fit, "S0": model.fit_s0, "default": None}[configuration.fit]
    if fit is None and configuration.fit != "default" and model.parameters:
        raise RuntimeError(f"{configuration.name} is not available: it cannot be trained yet")
    default_of = model.default
    if configuration.protocol.secs and model.default_secs is not None:
        default_of = model.default_secs

    rows = max(sum(len(fold.train) for fold in trials.folds), 1)
    fitted_rows = 0

    def fit_to(train: IntArray, counting: int) -> Any:
        """Fit to the rows `train`; its progress counts as that of `counting` rows."""

        def tick(fraction: float) -> None:
            context.tick((fitted_rows + fraction * counting) / rows)

        if configuration.protocol.recency:
            weights = compute_recency_weights(len(train))
        else:
            weights = np.ones(len(train))
        assert fit is not None
        parameters = fit(trials, train, make_read_only(weights), replace(context, tick=tick))
        # The model may keep writing to the object that it returned.
        return copy(parameters) if isinstance(parameters, list | np.ndarray) else parameters

    scratch = np.empty(len(trials))
    predictions: list[FloatArray] = []  # of each fold
    notes: list[str] = []
    if start is not None:
        notes.append(f"starts from {start}{start.ids_only_warning}")
    fitted: dict[int, Any] = {}
    listable: dict[int, list[float]] = {}
    for number, fold in enumerate(trials.folds, start=1):
        default = default_of(context)
        fitted = {}
        too_small: dict[int, NotEnoughData] = {}
        for partition, train in _split_by_partition(fold.train, trials.partition[fold.train]):
            try:
                fitted[partition] = default if fit is None else fit_to(train, len(train))
            except NotEnoughData as reason:
                fitted[partition] = default
                too_small[partition] = reason
            fitted_rows += len(train)
        replacement = "default parameters"
        if too_small and configuration.protocol.fallback_user:
            with suppress(NotEnoughData):
                fitted |= dict.fromkeys(too_small, fit_to(fold.train, 0))
                replacement = "parameters of all partitions together"
        for error in too_small.values():
            notes.append(f"fold {number}: {replacement} ({error_message(error)})")
        listable = _listable_parameters(configuration, fitted)
        for partition, test in _split_by_partition(fold.test, trials.partition[fold.test]):
            predicted = model.predict(trials, fitted.get(partition, default), test, context)
            scratch[test] = check_predictions(f"{model.name}: predict", predicted, test)
        predictions.append(scratch[fold.test])
        context.tick(fitted_rows / rows)
    if fit is None or fitted.keys() - too_small.keys():
        mark_compiled(configuration)  # otherwise nothing was fitted in the last fold
    lists_parameters = model.parameters > 0 and len(listable) == len(fitted)
    return np.concatenate(predictions), listable if lists_parameters else None, tuple(notes)


def for_own_model(trials: Trials) -> Trials:
    """Return a copy of the trials for a user's own model.

    The model may write to the copy, also from torch or compiled code. The copy's log holds nothing
    from after the reviews (`without_today`).
    """
    if trials.log is not None and trials.rows is not None:
        trials = replace(trials, log=without_today(trials.log, trials.rows))
    return deepcopy(trials)


def without_today(log: ReviewLog, rows: Rows) -> ReviewLog:
    """Return a log of these rows without anything that a source knows from after its reviews.

    It leaves out raw entries, cards without reviews, the current schedules and suspensions of
    cards, the settings of decks and presets, the day of the export, and all predictions. The notes,
    decks and presets of reviewed cards stay, by number and name.
    """
    cards = log.cards
    is_reviewed = np.isin(cards.card_id, rows.card_id)
    reviewed = Cards(
        card_id=cards.card_id[is_reviewed],
        note_id=cards.note_id[is_reviewed],
        deck_id=cards.deck_id[is_reviewed],
        suspended=np.zeros(int(is_reviewed.sum()), np.bool_),
    )
    summary = ImportSummary(
        log.import_summary.path,
        log.import_summary.format,
        entries_read=len(rows),
        app_name=log.import_summary.app_name,
    )
    return replace(
        log,
        import_summary=summary,
        entries=None,
        rows=rows,
        cards=reviewed,
        schedule=None,
        decks={key: replace(deck, desired_retention=None) for key, deck in log.decks.items()},
        presets={key: Preset(preset.id, preset.name) for key, preset in log.presets.items()},
        day_grid=None,
        optimized_before_s=None,
        source_predictions={},
        external_predictions={},
        card_rule_count=0,
    )


def check_predictions(function: str, predicted: object, index: IntArray) -> FloatArray:
    """Return a model's predictions for the trials `index` if they are an array of real numbers.

    Raises:
        InputError: The predictions are a number, a list, an array of another shape, or an array
            of text, objects or complex numbers.
    """
    kind = type(predicted).__name__
    if isinstance(predicted, np.ndarray):
        kind = f"array of {predicted.dtype}"
        if predicted.shape != index.shape:
            kind = f"array of shape {predicted.shape}"
        elif predicted.dtype.kind in _REAL:
            return predicted
    raise InputError(
        f"{function} returns the wrong thing ({kind}): it must return an array of numpy of shape "
        f"{index.shape}, a probability for each trial."
    )


_REAL = "fiub"
"""NumPy's kinds of real numbers: floats, integers, unsigned integers and booleans."""


def _listable_parameters(
    configuration: Configuration, fitted: Mapping[int, Any]
) -> dict[int, list[float]]:
    """Return the parameters that can be listed, by partition.

    Raises:
        ArithmeticError: A parameter is NaN or infinite.
    """
    listable: dict[int, list[float]] = {}
    for partition, parameters in fitted.items():
        values = listed(parameters)
        if values is not None:
            listable[partition] = values
    for values in listable.values():
        if not all(map(math.isfinite, values)):
            raise ArithmeticError(
                f"{configuration.name} was fitted to parameters that are no finite numbers"
            )
    return listable


def listed(parameters: object) -> list[float] | None:
    """Return fitted parameters as a list; None if they are no list, tuple or array of numbers."""
    if isinstance(parameters, np.ndarray):
        is_row = parameters.ndim == 1 and parameters.dtype.kind in _REAL
        return parameters.astype(np.float64).tolist() if is_row else None
    if not isinstance(parameters, list | tuple):
        return None
    if any(isinstance(value, str) or _has_axes(value) for value in parameters):
        return None
    try:
        return [float(value) for value in parameters]
    except (TypeError, ValueError, RuntimeError):  # such as a tensor of several numbers
        return None


def _has_axes(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _split_by_partition(index: IntArray, partition: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield the positions of each partition, in order of first appearance."""
    values, first = np.unique(partition, return_index=True)
    for value in values[np.argsort(first)].tolist():
        yield value, make_read_only(index[partition == value])
