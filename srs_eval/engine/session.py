"""One learner in one process: configurations are fitted and evaluated on shared trials.

`Result` is what one evaluation yields, `Session` makes it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval import metrics
from srs_eval.data.errors import InputError, NotEnoughData, in_one_line, require
from srs_eval.data.memory import require_memory
from srs_eval.data.paths import VERSION, cache_dir, write_atomically
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import (
    Cards,
    FloatArray,
    ImportSummary,
    IntArray,
    Preset,
    ReadOnly,
    ReviewLog,
    Rows,
    read_only,
)
from srs_eval.data.rows import Selection, select_rows
from srs_eval.data.trials import Trials, prepare_trials, recency_weights, rmse_bin_ids
from srs_eval.metrics import Metrics, log_losses
from srs_eval.models.configurations import Configuration
from srs_eval.stats.intervals import Interval, mean_interval
from srs_eval.training.compile import changed, kernels_there, mark_kernels, program_digest
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import pretrained_for


@dataclass(frozen=True, eq=False)
class TestSet(ReadOnly):
    """k held-out reviews, fold after fold: one object for all results on them."""

    y: FloatArray  # (k,) 1.0 recalled
    review_th: IntArray  # (k,) which rows; equal for configurations that are ranked together
    fold: IntArray  # (k,) 1 ... n_splits
    partition: IntArray  # (k,)
    day: IntArray  # (k,) day number of the review; figures of one day are not independent
    bin: IntArray  # (k,) bin of RMSE(bins), as `data.trials.rmse_bin_ids` numbers them

    def __len__(self) -> int:
        return len(self.review_th)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, TestSet)
            and all(map(np.array_equal, vars(self).values(), vars(other).values()))
        )

    def __hash__(self) -> int:
        return hash(self.review_th.tobytes())


@dataclass(frozen=True, eq=False)
class Result:
    """One configuration on one learner; k evaluated reviews."""

    configuration: str
    metrics: Metrics
    tests: TestSet
    parameters: Mapping[int, Sequence[float]] | None
    """By partition (0 without partitions), fitted for the last fold; None where not listable."""
    p: FloatArray  # (k,) predicted probability of recall
    seconds: float = 0.0  # wall time of fits and predictions
    cached: bool = False
    user: int | None = None
    notes: tuple[str, ...] = ()  # e.g. a fold that fell back to the defaults
    in_sample: int = 0
    """Evaluated reviews that the parameters may have been fitted to: figures are optimistic."""
    mark: str = ""  # why its figures mean nothing, in a word or two
    lacks: int = 0  # held-out reviews without a prediction, which are not among the evaluated
    unused: int = 0  # predictions of a file that are for none of the held-out reviews
    counted_parameters: int | None = None  # where the configuration cannot say (`parameters`)

    @property
    def size(self) -> int:
        return len(self.tests)

    @property
    def y(self) -> FloatArray:
        return self.tests.y

    @property
    def review_th(self) -> IntArray:
        return self.tests.review_th

    @property
    def fold(self) -> IntArray:
        return self.tests.fold

    @property
    def day(self) -> IntArray:
        return self.tests.day

    def to_upstream(self) -> dict[str, Any]:
        """One line of srs-benchmark's result files; figures have six decimals."""
        line: dict[str, Any] = {
            "metrics": self.metrics.to_upstream(),
            "user": self.user,
            "size": self.size,
        }
        if self.parameters is not None:
            line["parameters"] = {
                str(partition): [round(float(w), 6) for w in values]
                for partition, values in self.parameters.items()
            }
        return line


def losses(result: Result) -> FloatArray:
    """Log loss of each evaluated review in nats (k,)."""
    return log_losses(result.y, result.p)


def log_loss_interval(result: Result) -> Interval:
    """Log loss with its interval; how sure it is by itself, not compared to another."""
    return mean_interval(losses(result), result.day)


def log_loss_difference(result: Result, other: Result) -> Interval | None:
    """Mean of `result`'s losses minus `other`'s on the same reviews; negative: it is better.

    Paired, so it is much narrower than the two intervals suggest. None where the two
    were not evaluated on the same reviews.
    """
    if not same_reviews(result, other):
        return None
    return mean_interval(losses(result) - losses(other), result.day)


def same_reviews(result: Result, other: Result) -> bool:
    """Whatever the partitions are."""
    return result.tests is other.tests or np.array_equal(result.review_th, other.review_th)


# --- a learner

_Predicted = tuple[FloatArray, dict[int, list[float]] | None, tuple[str, ...]]


class Session:
    """One learner in one process; rows, trials and what models derive are shared."""

    def __init__(self, log: ReviewLog) -> None:
        self.log = log
        self._selections: dict[str, Selection] = {}
        self._trials: dict[Protocol, Trials | NotEnoughData] = {}
        self._of_members: list[tuple[Configuration, Context, Result]] = []

    def selection(self, protocol: Protocol) -> Selection:
        if protocol.rows not in self._selections:
            self._selections[protocol.rows] = select_rows(self.log, protocol.rows)
        return self._selections[protocol.rows]

    def rows(self, protocol: Protocol) -> Rows:
        return self.selection(protocol).rows

    def trials(self, protocol: Protocol) -> Trials:
        """Trials under a protocol; flags that concern training only share one preparation."""
        key = self.preparation(protocol)
        if key not in self._trials:
            try:
                self._trials[key] = prepare_trials(self.log, self.rows(protocol), key)
            except NotEnoughData as reason:
                self._trials[key] = reason
        trials = self._trials[key]
        if isinstance(trials, NotEnoughData):
            raise trials
        return replace(trials, protocol=protocol)

    def preparation(self, protocol: Protocol) -> Protocol:
        """What protocols have in common that share one preparation of trials."""
        # Upstream's loss of deleted cards for some models is part of its figures on data
        # sets; in one's own collection all models are evaluated on the same reviews.
        known_decks_only = protocol.known_decks_only and self.log.user is not None
        return replace(protocol.without_training(), known_decks_only=known_decks_only)

    def forget(self, protocol: Protocol) -> None:
        """Let go of a protocol's trials, and of all that models have derived from them."""
        self._trials.pop(self.preparation(protocol), None)

    def run(
        self,
        configuration: Configuration,
        context: Context | None = None,
        *,
        use_cache: bool = False,
    ) -> Result:
        """Fit and evaluate one configuration; `context.tick` is told the part that is done.

        Raises NotEnoughData, NotInstalled, Cancelled (from `context.tick`), or whatever a model
        raises.
        """
        context = context or Context()
        require(configuration.model.needs, configuration.model.name)
        require_memory(configuration.model.needs)
        trials = self.trials(configuration.protocol)
        if configuration.fit == "own":
            return self._run_own(configuration, trials, context)
        if configuration.model.given:
            from srs_eval.engine.shared import of_given

            entry = self.selection(configuration.protocol).entry_index
            return of_given(self.log, configuration, trials.derived(_tests), entry)
        use_cache = use_cache and configuration.model.has_known_code
        settings = replace(context, tick=Context().tick, hyperparameters={})
        for *known, result in self._of_members:
            if known == [configuration, settings]:
                return result
        key = _result_key(self._fingerprint, configuration, context) if use_cache else ""
        stored = _load(key) if use_cache else None
        if stored is not None and len(stored.p) == len(trials.test_index):
            return self._result(configuration, trials, stored, cached=True)
        start = time.perf_counter()
        if configuration.model.members:
            p, parameters, notes = self._combined(configuration, context, use_cache)
        else:
            p, parameters, notes = fit_and_predict(configuration, trials, context)
        if configuration.model.remarks is not None:
            with configuration.model.code_kept_apart():
                notes += configuration.model.remarks(trials, context)
        if configuration.model.file is not None and self.log.features is not None:
            notes += tuple(filter(None, [self.log.features.about]))
        seconds = time.perf_counter() - start
        counted: int | None = None
        if configuration.parameters is None:
            counted = configuration.count_parameters(context, self.log)
        stored = _Stored(p, parameters, notes, seconds, counted)
        result = self._result(configuration, trials, stored)
        self.keep_member(configuration, result, settings)
        if use_cache:
            _save(key, stored)
        return result

    def keep_member(self, configuration: Configuration, result: Result, context: Context) -> None:
        """Remember what other models may combine, so that it is run once."""
        if configuration.is_member:
            self._of_members.append((configuration, context, result))

    def _combined(self, of: Configuration, context: Context, use_cache: bool) -> _Predicted:
        """The members, each run once, and what the model makes of them."""
        members, combine = of.members, of.model.combine
        assert combine is not None
        results: list[Result] = []
        for member in members:

            def tick(part: float) -> None:
                context.tick((len(results) + part) / len(members))

            results.append(self.run(member, replace(context, tick=tick), use_cache=use_cache))
        assert all(same_reviews(results[0], each) for each in results)
        mark_compiled(of)
        notes = (f"{m.words}: {n}" for m, r in zip(members, results, strict=True) for n in r.notes)
        with of.model.code_kept_apart():
            combined = combine([each.p for each in results])
        return combined, None, tuple(notes)

    def _run_own(self, configuration: Configuration, trials: Trials, context: Context) -> Result:
        """Evaluate the parameters of the learner's presets on all held-out reviews."""
        from srs_eval.models.own_parameters import in_force, model_of, notes_on, runs_fsrs7

        parameters, model = in_force(self.log), configuration.model
        if (model.name == "FSRS-7") != bool(runs_fsrs7(self.log)):
            other = "FSRS-6" if model.name == "FSRS-7" else "FSRS-7"
            raise NotEnoughData(f"the presets run {other}: take your {other} parameters")
        start = time.perf_counter()
        index, presets = trials.test_index, trials.partition[trials.test_index]
        p = np.empty(len(trials))
        for preset, positions in _by_partition(index, presets):
            values = parameters.get(preset, model.default(context))
            if model_of(values) != model.name:
                p[positions] = self._by_fsrs6(trials, values, positions, context)
                continue
            assert model.predict is not None
            p[positions] = model.predict(trials, values, positions, context)
        mark_compiled(configuration)
        context.tick(1.0)
        entry = self.selection(configuration.protocol).entry_index[trials.review_th[index] - 1]
        notes, seen = notes_on(self.log, parameters, presets, entry)
        shown = {preset: values for preset, values in parameters.items() if preset in presets}
        stored = _Stored(p[index], shown or None, notes, time.perf_counter() - start)
        return replace(self._result(configuration, trials, stored), in_sample=seen)

    def _by_fsrs6(
        self, trials: Trials, values: Sequence[float], positions: IntArray, context: Context
    ) -> FloatArray:
        """Probabilities of FSRS-6 for positions in FSRS-7's trials, from intervals in whole days.

        Raises NotEnoughData where these are evaluated on reviews of the same day, too.
        """
        from srs_eval.models import fsrs6

        if not trials.protocol.equalize_test_with_non_secs:
            raise NotEnoughData("a preset runs FSRS-6, which predicts reviews of later days only")
        in_days = replace(trials.protocol, secs=False, equalize_test_with_non_secs=False)
        found = self.trials(in_days)
        place = np.searchsorted(found.review_th, trials.review_th[positions])
        return fsrs6.predict(found, list(values), place, context)

    def _result(
        self, configuration: Configuration, trials: Trials, stored: _Stored, cached: bool = False
    ) -> Result:
        p = stored.p
        if not ((p >= 0) & (p <= 1)).all():  # nan is neither
            raise ArithmeticError(
                f"{configuration.name} predicted something that is no probability"
            )
        tests = trials.derived(_tests)
        summary = metrics.summary(tests.y, p, tests.bin)
        said = {"user": self.log.user, "cached": cached, **stored._asdict()}
        return Result(configuration=configuration.name, metrics=summary, tests=tests, **said)

    @cached_property
    def _fingerprint(self) -> str:
        return self.log.fingerprint()


def _kernels(configuration: Configuration) -> str:
    """What configurations that need the same kernels have in common."""
    model = configuration.model
    fit = "default" if configuration.fit == "own" else configuration.fit  # neither is fitted
    return f"{model.name} {fit}{model.file.digest[:16] if model.file else ''}"


def must_compile(configuration: Configuration) -> bool:
    """Whether its kernels are not on disk yet, so that its first run takes seconds more."""
    return configuration.compiles and not kernels_there(_kernels(configuration))


def seconds_to_compile(configurations: Iterable[Configuration]) -> float:
    """A guess for the kernels that are not on disk yet, all those of a kind once."""
    models = [each.model for each in configurations if must_compile(each)]
    return sum({each.compiled_as: each.seconds_to_compile for each in models}.values())


def mark_compiled(configuration: Configuration) -> None:
    """Remember that its kernels are on disk; for callers that have run all of them."""
    if configuration.compiles and configuration.model.has_known_code:
        mark_kernels(_kernels(configuration))


def fit_and_predict(configuration: Configuration, trials: Trials, context: Context) -> _Predicted:
    """Predictions in the order of `trials.test_index`, last fold's parameters, notes.

    For other folds than the protocol's: those of `replace(trials, folds=...)`.
    """
    with configuration.model.code_kept_apart():
        return _fit_and_predict(configuration, trials, context)


def _fit_and_predict(configuration: Configuration, trials: Trials, context: Context) -> _Predicted:
    model = configuration.model
    context = replace(context, hyperparameters=configuration.hyperparameters)
    start = pretrained_for(model.name, trials.source[0], context) if model.pretrain else None
    if model.file is not None:
        trials = for_own_model(trials)
    if start is not None:
        context = replace(context, pretrained=start.arrays())
    if model.online is not None:
        predicted = model.online(trials, context)
        p = require_array(f"{model.name}: online", predicted, trials.test_index)
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

    rows, fitted_rows = max(sum(len(fold.train) for fold in trials.folds), 1), 0

    def fit_to(train: IntArray, counting: int) -> Any:
        """Its progress is that of so many rows."""

        def tick(part: float) -> None:
            context.tick((fitted_rows + part * counting) / rows)

        newer_more = configuration.protocol.recency
        weights = recency_weights(len(train)) if newer_more else np.ones(len(train))
        assert fit is not None
        parameters = fit(trials, train, read_only(weights), replace(context, tick=tick))
        # The model may go on writing to what it returns.
        return copy(parameters) if isinstance(parameters, list | np.ndarray) else parameters

    scratch = np.empty(len(trials))
    parts: list[FloatArray] = []
    notes = [] if start is None else [f"starts from {start}{start.doubt}"]
    fitted: dict[int, Any] = {}
    shown: dict[int, list[float]] = {}
    for number, fold in enumerate(trials.folds, start=1):
        default = default_of(context)
        fitted = {}
        too_small: dict[int, NotEnoughData] = {}
        for partition, train in _by_partition(fold.train, trials.partition[fold.train]):
            try:
                fitted[partition] = default if fit is None else fit_to(train, len(train))
            except NotEnoughData as reason:
                fitted[partition] = default
                too_small[partition] = reason
            fitted_rows += len(train)
        instead = "default parameters"
        if too_small and configuration.protocol.fallback_user:
            with suppress(NotEnoughData):
                fitted |= dict.fromkeys(too_small, fit_to(fold.train, 0))
                instead = "parameters of all partitions together"
        reasons = map(in_one_line, too_small.values())
        notes += [f"fold {number}: {instead} ({reason})" for reason in reasons]
        shown = _shown(configuration, fitted)
        for partition, test in _by_partition(fold.test, trials.partition[fold.test]):
            predicted = model.predict(trials, fitted.get(partition, default), test, context)
            scratch[test] = require_array(f"{model.name}: predict", predicted, test)
        parts.append(scratch[fold.test])
        context.tick(fitted_rows / rows)
    if fit is None or fitted.keys() - too_small.keys():
        mark_compiled(configuration)  # else nothing was fitted in the last fold
    lists_parameters = model.parameters > 0 and len(shown) == len(fitted)
    return np.concatenate(parts), shown if lists_parameters else None, tuple(notes)


def for_own_model(trials: Trials) -> Trials:
    """Return a copy of the trials for a model of the person's own.

    It may write to the copy, by torch or compiled code, and finds nothing in its log that comes
    from after the reviews (`without_today`).
    """
    if trials.log is not None and trials.rows is not None:
        trials = replace(trials, log=without_today(trials.log, trials.rows))
    return deepcopy(trials)


def without_today(log: ReviewLog, rows: Rows) -> ReviewLog:
    """Return a log of these rows, without what a source knows of later than its reviews.

    Gone are raw entries, cards without reviews, where cards stand and which are suspended, the
    settings of decks and presets, the day of the export, and what others have predicted. Notes,
    decks and presets of the reviewed cards stay, by number and name.
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
        predictions={},
        given={},
        card_rules=0,
    )


def require_array(function: str, predicted: object, index: IntArray) -> FloatArray:
    """Return what a model's function predicted for the trials `index`, if it is such an array.

    Raises:
        InputError: It is a number, a list, an array of another shape, or one of text, objects or
            complex numbers.
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
"""Kinds of numpy's types that are numbers: floating, whole, whole without a sign, true or false."""


def _shown(configuration: Configuration, fitted: Mapping[int, Any]) -> dict[int, list[float]]:
    """Return the parameters that can be listed, by partition.

    Raises:
        ArithmeticError: A parameter is NaN or infinite.
    """
    shown = {}
    for partition, parameters in fitted.items():
        values = listed(parameters)
        if values is not None:
            shown[partition] = values
    if not all(math.isfinite(w) for parameters in shown.values() for w in parameters):
        raise ArithmeticError(
            f"{configuration.name} was fitted to parameters that are no finite numbers"
        )
    return shown


def listed(parameters: object) -> list[float] | None:
    """Return what a fit returned as numbers; None where it is no list, tuple or array of these."""
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


def _by_partition(index: IntArray, partition: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The positions of each partition, in order of first appearance."""
    values, first = np.unique(partition, return_index=True)
    for value in values[np.argsort(first)].tolist():
        yield value, read_only(index[partition == value])


def _tests(trials: Trials) -> TestSet:
    index = trials.test_index
    sizes = [len(fold.test) for fold in trials.folds]
    return TestSet(
        y=trials.y[index],
        review_th=trials.review_th[index],
        fold=np.repeat(np.arange(1, len(sizes) + 1), sizes),
        partition=trials.partition[index],
        day=trials.day[index],
        bin=rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index]),
    )


# --- predictions kept on disk, so that a collection evaluated before opens at once; what can be
# derived from the trials (labels, rows, folds) is not stored


class _Stored(NamedTuple):
    p: FloatArray
    parameters: Mapping[int, Sequence[float]] | None
    notes: tuple[str, ...]
    seconds: float
    counted_parameters: int | None = None


def _result_key(log_fingerprint: str, configuration: Configuration, context: Context) -> str:
    """Data, protocol, program and settings, as one hexadecimal digest."""
    model = configuration.model
    parts = {
        "program": VERSION,
        "code": program_digest(),
        "data": log_fingerprint,
        "configuration": configuration.name,
        "fit": configuration.fit,
        "hyperparameters": dict(configuration.hyperparameters),
        "protocol": asdict(configuration.protocol),
        "model": [model.name, model.version, model.file and model.file.digest],
        "settings": context.settings(),
        "packages": _versions(*model.packages, *("torch",) * (model.needs == "torch")),
    }
    if model.weights is not None:
        parts["weights"] = model.weights(context)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _versions(*packages: str) -> list[str]:
    """Versions of the packages that a model's figures come from."""
    from importlib.metadata import version

    return [f"{name} {version(name)}" for name in packages]


def _load(key: str) -> _Stored | None:
    """What was stored under the key; None where nothing is, or it is damaged."""
    try:
        with np.load(_cached_at(key), allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            p = file["p"]
        with suppress(OSError):
            os.utime(_cached_at(key))  # `evaluate.prune_cache` goes by the last use
        parameters = about["parameters"] and {int(k): w for k, w in about["parameters"].items()}
        count = about["counted_parameters"]
        return _Stored(p, parameters, tuple(about["notes"]), about["seconds"], count)
    except Exception:  # a damaged cache file is as good as none
        return None


def _save(key: str, stored: _Stored) -> None:
    """Store atomically; a full or read-only disk only means no cache, and so does an update
    of the program since it was started.
    """
    if changed():
        return
    parameters = stored.parameters and {k: [*map(float, w)] for k, w in stored.parameters.items()}
    about = {
        "parameters": parameters,
        "seconds": stored.seconds,
        "notes": stored.notes,
        "counted_parameters": stored.counted_parameters,
    }
    content = io.BytesIO()
    np.savez(content, p=stored.p, about=np.array(json.dumps(about)))
    with suppress(OSError):
        write_atomically(_cached_at(key), content.getvalue(), lasting=False, private=True)


def _cached_at(key: str) -> Path:
    return cache_dir() / "results" / key[:2] / f"{key}.npz"
