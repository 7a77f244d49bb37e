"""Audit a comparison: does it compare the models, or how well each one's training was tuned?

Every model's training is tuned with the same number of trials, and the models are compared again.
"On the difficulty of evaluating baselines" (Rendle, Zhang & Koren 2019, arXiv:1905.01395) shows how
rankings of years fell when that was done; docs/audit.md has the method.

A user's evaluated reviews never choose the user's set-up: the users are split into two halves, and
each half is evaluated with the set-up that the search on the other half has found. That search sees
training parts only, each split in time: it fits to the first four fifths and evaluates on the last.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np

from srs_eval.benchmark.leaderboard import Change, compare_files, compare_runs
from srs_eval.benchmark.plan import (
    WORKER_START_SECONDS,
    BatchEvent,
    CheckingModels,
    Ended,
    Planned,
    UnitDone,
    survey_dataset,
)
from srs_eval.benchmark.result_files import ResultFile, read_folders
from srs_eval.benchmark.setup import (
    LEDGER_FILE,
    SETUP_FILE,
    LedgerEntry,
    SearchResult,
    encode_json,
    list_model_remarks,
    make_setup,
    write_ledger,
)
from srs_eval.benchmark.store import (
    AUDIT_FILE,
    JOURNAL,
    PUBLISHED_FOLDER,
    TUNED_FOLDER,
    ResultStore,
    Status,
    lock_folder,
)
from srs_eval.benchmark.tuning import (
    SEARCH_FOLDER,
    STAGE_FOLDERS,
    AuditSearch,
    PastSession,
    TrainingSetup,
)
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.file_contents import write_atomically
from srs_eval.data.outputs import refuse_nested
from srs_eval.data.reviews import IntArray
from srs_eval.engine.own_models import leak_label, list_unchecked
from srs_eval.engine.ranking import assign_ranks
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import Configuration
from srs_eval.stats.users import MIN_USERS, MeanInterval, mean_intervals
from srs_eval.training.hyperparameters import Context


@dataclass(frozen=True, eq=False)
class TunedConfiguration:
    """One configuration, as published and tuned."""

    configuration: Configuration
    halves: tuple[SearchResult, ...]  # by half; () if there is nothing to tune
    best_setup: TrainingSetup
    """Of these and the published one: the least loss over all users' training rows."""
    not_searched: tuple[str, ...]  # hyperparameters without a starting point for a search
    change: Change | None  # tuned minus published, on the evaluated reviews; None without results
    spread: tuple[float, float] | None
    """Standard deviation over seeds of the mean log loss over users, published and tuned."""
    invalid_reason: str = ""  # why the results mean nothing, in a word or two

    @property
    def label(self) -> str:
        """The configuration's words, followed by the reason why its results mean nothing."""
        words = self.configuration.words
        return f"{words} ({self.invalid_reason})" if self.invalid_reason else words


@dataclass(frozen=True)
class _Pair:
    """Two configurations, the first ahead as published; differences are first minus second."""

    first: str
    second: str
    published: MeanInterval  # of log loss, every user counting the same
    tuned: MeanInterval
    users: int

    @property
    def verdict(self) -> str:
        """Effect of tuning on the lead."""
        enough_users = self.users >= MIN_USERS
        if self.tuned.estimate > 0:
            if enough_users and self.tuned.low > 0:
                return "turned round"
            return "behind, not surely"
        was_sure = self.published.high < 0
        is_sure = self.tuned.high < 0
        if enough_users and was_sure and not is_sure:
            return "no sure lead any more"
        return "kept"


@dataclass(frozen=True, eq=False)
class AuditedRanking:
    """Configurations evaluated on the same reviews, before and after tuning."""

    reviews_description: str
    users: int  # with results of all configurations, before and after
    published: tuple[str, ...]  # labels, best first by the mean over these users
    tuned: tuple[str, ...]
    pairs: tuple[_Pair, ...]


@dataclass(frozen=True, eq=False)
class Audit:
    """Results of an audit."""

    users: int
    trials: int
    repeats: int
    tuned: tuple[TunedConfiguration, ...]
    rankings: tuple[AuditedRanking, ...]
    failed: Mapping[str, int]  # number of failed fits by reason
    remarks: tuple[str, ...] = ()  # on the user's own models


_AuditEvent = BatchEvent | Audit
_RunBatch = Callable[..., Generator[BatchEvent, None, None]]
"""`srs_eval.batch.run_batch`, passed in because its module imports this layer."""


def run_audit(
    dataset: Dataset,
    configurations: Sequence[Configuration],
    out: Path,
    *,
    evaluate: _RunBatch,
    users: Sequence[int] | None = None,
    trials: int = 30,
    repeats: int = 3,
    seed: int = 0,
    jobs: int | None = None,
    fresh: bool = False,
    context: Context | None = None,
) -> Generator[_AuditEvent, None, None]:
    """Tune every configuration with the same budget and compare them again.

    The search tries `trials` set-ups for each half of the users in addition to the published one;
    trainings that draw random numbers are evaluated with `repeats` seeds. Yields Planned, a
    UnitDone for each fit on a user, Ended and the Audit. Finished work is kept in `out`: a second
    run continues from it and retries what failed. The results do not depend on `jobs` or on
    interruptions. Raises InputError for an unusable set-up, and if `out` holds results that are not
    an audit's.
    """
    refuse_nested(out, dataset.folder)
    audited_users = list(dataset.users if users is None else users)
    if len(audited_users) < 2:
        raise InputError("An audit needs two users at least: the ones choose for the others.")
    for configuration in configurations:
        if configuration.protocol.train_equals_test:
            raise InputError(
                f"{configuration.name} trains on what it is evaluated on: no audit can be made."
            )
    context = context or Context()
    fingerprint, _ = survey_dataset(dataset)
    unchecked_models = list_unchecked(configurations, context.features)
    if unchecked_models:
        yield CheckingModels(unchecked_models)
    setup = make_setup(dataset, fingerprint, configurations, context, {})
    tries = AuditSearch(
        out / JOURNAL, configurations, audited_users, trials=trials, repeats=repeats, seed=seed
    )
    progress = _AuditProgress(tries, trials)
    with _lock_audit_folder(out, setup, fresh):
        for stage in tries.stages():
            batch = evaluate(
                dataset,
                stage.configurations,
                out / JOURNAL / stage.folder,
                users=stage.users,
                jobs=jobs,
                context=context,
                session=PastSession if stage.folder == SEARCH_FOLDER else LearnerSession,
            )
            with closing(batch):
                for event in batch:
                    yield from progress.translate(event)
            tries.read_results(stage)
            # From earlier rounds: the results of this one are known when the next begins.
            entries = _build_ledger_entries(tries)
            write_ledger(out / LEDGER_FILE, entries, audited_users, fingerprint)
        if progress.plan is not None and not progress.plan.units:
            yield progress.plan
        _write_results(out, setup, tries)
        yield Ended(**progress.counts)
        yield _build_audit(out, setup, tries, trials)


class _AuditProgress:
    """Progress of a whole audit, derived from the events of its batches."""

    def __init__(self, tries: AuditSearch, trials: int) -> None:
        self.plan: Planned | None = None  # remaining work, as far as it is known
        self._tries = tries
        fits = sum(tries.count_fits(name, trials) for name in tries.configurations)
        self._total_fits = len(tries.users) * fits
        self._completed_fits = 0  # made now or before
        self.counts: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}

    def translate(self, event: BatchEvent) -> Iterator[BatchEvent]:
        """Translate an event of a batch into events of the audit."""
        match event:
            case Planned():
                self._completed_fits += event.already_done + event.already_skipped
                plan_was_yielded = self.plan is not None and self.plan.units > 0
                if plan_was_yielded:
                    return
                units = 0
                if event.units:
                    units = max(self._total_fits - self._completed_fits, event.units)
                start_seconds = WORKER_START_SECONDS + event.compile_seconds
                fit_seconds = (event.expected_seconds - start_seconds) * units / max(1, event.units)
                self.plan = replace(
                    event,
                    users=len(self._tries.users),
                    configurations=tuple(self._tries.configurations),
                    units=units,
                    already_done=self._completed_fits,
                    already_skipped=0,
                    expected_seconds=fit_seconds + start_seconds,
                )
                if units:
                    yield self.plan
            case UnitDone(unit=unit):
                self._completed_fits += 1
                self.counts[unit.status] += 1
                unit = replace(unit, configuration=unit.configuration.partition("@")[0])
                share = min(self._completed_fits / self._total_fits, 1.0)
                yield UnitDone(unit, sum(self.counts.values()), share)


@contextmanager
def _lock_audit_folder(out: Path, setup: Mapping[str, Any], fresh: bool) -> Iterator[None]:
    """Lock the folder of an audit, which continues from what is there or starts over."""
    _refuse_foreign_results(out)
    try:
        (out / JOURNAL).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f'The audit cannot be written to "{out}" ({error.strerror}): choose another --out.'
        ) from None
    unlock = lock_folder(out / JOURNAL, f'Another audit is writing to "{out}": wait for it.')
    try:
        for folder in STAGE_FOLDERS:
            with ResultStore(out / JOURNAL / folder, setup, fresh=fresh):
                pass  # only checks that this run can continue from it, else it raises
        write_atomically(out / AUDIT_FILE, encode_json(setup))
        yield
    finally:
        unlock()


def _refuse_foreign_results(out: Path) -> None:
    """Raise InputError if an audit would replace or delete files that no audit has written."""
    if (out / JOURNAL / SEARCH_FOLDER).exists():
        return
    foreign = [path for path in (out / AUDIT_FILE, out / LEDGER_FILE) if path.exists()]
    for folder in (out, out / PUBLISHED_FOLDER, out / TUNED_FOLDER):
        foreign += sorted([*folder.glob("result/*.jsonl"), *folder.glob(SETUP_FILE)])
    for path in foreign:
        raise InputError(f'"{path}" is not from an audit in this folder: choose another --out.')


def _collect_search_results(tries: AuditSearch, name: str) -> tuple[SearchResult, ...]:
    """Return the search results by half; () if nothing can be tuned or nothing was tried yet."""
    results = []
    for users, search in zip(tries.halves, tries.searches.get(name, ()), strict=False):
        if search.tried:
            best, loss = search.best
            usable = len(tries.usable_users(name, users))
            results.append(
                SearchResult(
                    users=usable,
                    trials=len(search.tried) - 1,
                    hyperparameters=best,
                    log_loss=round(loss, 6) if usable else None,
                    published_log_loss=round(search.tried[0][1], 6) if usable else None,
                    on_edge=search.on_edge,
                )
            )
    return tuple(results)


def _select_best_setup(
    tries: AuditSearch, name: str, search_results: Sequence[SearchResult]
) -> TrainingSetup:
    """Return the best known set-up: the least mean loss over all users' training parts."""
    candidates: list[TrainingSetup] = [{}]
    candidates += [dict(result.hyperparameters) for result in search_results]
    setups = [
        setup
        for setup in candidates
        if all(tries.find_unit(SEARCH_FOLDER, name, setup, user) for user in tries.users)
    ]
    losses = tries.mean_losses(name, tries.users, setups)
    if not losses:
        return {}
    return setups[losses.index(min(losses))]


def _build_ledger_entries(tries: AuditSearch) -> dict[str, LedgerEntry]:
    """Return the best known set-up of each tuned configuration (docs/formats.md)."""
    entries = {}
    for name, configuration in tries.configurations.items():
        search_results = _collect_search_results(tries, name)
        if not search_results:
            continue
        published = {
            hyperparameter.name: hyperparameter.default_under(configuration.protocol)
            for hyperparameter in configuration.tunable_hyperparameters
            if hyperparameter.is_searched
        }
        best_setup = _select_best_setup(tries, name, search_results)
        entries[name] = LedgerEntry(published, best_setup, search_results)
    return entries


def _write_results(out: Path, setup: Mapping[str, Any], tries: AuditSearch) -> None:
    """Write two folders of results, laid out as by `srs-eval batch`: as published, and tuned."""
    for folder in (PUBLISHED_FOLDER, TUNED_FOLDER):
        entries = {name: dict(entry) for name, entry in setup["configurations"].items()}
        setups_by_name: dict[str, list[TrainingSetup]] = {}
        for name in entries:
            if folder == TUNED_FOLDER:
                setups_by_name[name] = [tries.setup_for(name, half) for half in (0, 1)]
            else:
                setups_by_name[name] = [{}, {}]
        for name, half_setups in setups_by_name.items():
            if any(half_setups):
                entries[name]["hyperparameters"] = {
                    f"half {number}": half_setup
                    for number, half_setup in enumerate(half_setups, start=1)
                }
        with ResultStore(out / folder, {**setup, "configurations": entries}, fresh=True) as store:
            for name, half_setups in setups_by_name.items():
                for users, half_setup in zip(tries.halves, half_setups, strict=True):
                    for user in users:
                        unit = tries.evaluated_unit(name, half_setup, user)
                        store.append(replace(unit, configuration=name))
            store.publish(everything=True)


# The results of an audit


def _build_audit(out: Path, setup: Mapping[str, Any], tries: AuditSearch, trials: int) -> Audit:
    named_units = []
    for name in tries.configurations:
        named_units += [(name, unit) for unit in tries.evaluated_units(name)]
    try:
        published = read_folders([out / PUBLISHED_FOLDER])[0].files
        tuned = read_folders([out / TUNED_FOLDER])[0].files
    except InputError:
        usual_reason = "it has some as published, none as tuned"
        reasons = Counter(unit.reason or usual_reason for _, unit in named_units)
        ((reason, _),) = reasons.most_common(1)
        raise NotEnoughData(
            f"no model has results of any user, mostly for this: {reason}"
        ) from None
    changes = {change.file.name: change for change in compare_runs(tuned, published)}
    tuned_configurations = []
    for name, configuration in tries.configurations.items():
        search_results = _collect_search_results(tries, name)
        best_setup: TrainingSetup = {}
        not_searched: tuple[str, ...] = ()
        if search_results:
            best_setup = _select_best_setup(tries, name, search_results)
            not_searched = tries.searches[name][0].not_searched
        tuned_configurations.append(
            TunedConfiguration(
                configuration=configuration,
                halves=search_results,
                best_setup=best_setup,
                not_searched=not_searched,
                change=changes.get(name),
                spread=_compute_seed_spread(tries, name),
                invalid_reason=leak_label(setup["configurations"][name].get("check", "")),
            )
        )
    failed = (f"{name}: {unit.reason}" for name, unit in named_units if unit.status == "failed")
    return Audit(
        users=len(tries.users),
        trials=trials,
        repeats=tries.repeats,
        tuned=tuple(tuned_configurations),
        rankings=tuple(_compare_rankings(published, tuned)),
        failed=Counter(failed),
        remarks=tuple(list_model_remarks(setup)),
    )


def _compute_seed_spread(tries: AuditSearch, name: str) -> tuple[float, float] | None:
    """Return the spread over seeds of the mean log loss, published and tuned.

    The means are over users who have a log loss with every seed. None if there is only one seed.
    """
    seed_setups = tries.seed_setups(name)
    if len(seed_setups) < 2:
        return None
    spreads = []
    for tuned in (False, True):
        losses_of_users = []  # by user, then by seed
        for half, users in enumerate(tries.halves):
            setup = tries.setup_for(name, half) if tuned else {}
            for user in users:
                units = [
                    tries.evaluated_unit(name, {**setup, **seed_setup}, user)
                    for seed_setup in seed_setups
                ]
                losses_of_users.append([unit.log_loss for unit in units])
        losses = np.array(losses_of_users)
        complete = losses[~np.isnan(losses).any(axis=1)]
        if len(complete):
            spreads.append(stdev(complete.mean(axis=0).tolist()))
        else:
            spreads.append(math.nan)
    return spreads[0], spreads[1]


def _compare_rankings(
    published_files: Sequence[ResultFile], tuned_files: Sequence[ResultFile]
) -> Iterator[AuditedRanking]:
    """Compare the rankings on each set of reviews, including the baseline."""
    tuned_by_name = {file.name: file for file in tuned_files}
    files_in_both = [file for file in published_files if file.name in tuned_by_name]
    for comparison in compare_files(files_in_both):
        if len(comparison.files) < 2:
            continue
        files = [tuned_by_name[file.name] for file in comparison.files]
        users = reduce(np.intersect1d, [file.users for file in files], comparison.users)
        if not len(users):
            continue
        yield AuditedRanking(
            reviews_description=comparison.reviews_description,
            users=len(users),
            published=_rank_labels(comparison.files, users),
            tuned=_rank_labels(files, users),
            pairs=tuple(_compare_pairs(comparison.files, tuned_by_name, users)),
        )


def _rank_labels(files: Sequence[ResultFile], users: IntArray) -> tuple[str, ...]:
    means = [(file, float(file.log_losses(users).mean())) for file in files]
    return tuple(file.label for file, _ in assign_ranks(means))


def _compare_pairs(
    files: Sequence[ResultFile], tuned_by_name: Mapping[str, ResultFile], users: IntArray
) -> Iterator[_Pair]:
    published_losses = {file.label: file.log_losses(users) for file in files}
    tuned_losses = {file.label: tuned_by_name[file.name].log_losses(users) for file in files}
    pairs = list(itertools.combinations(published_losses, 2))
    weights = np.ones((len(users), 1))
    intervals = []
    for losses in (published_losses, tuned_losses):
        differences = np.column_stack([losses[first] - losses[second] for first, second in pairs])
        intervals.append(mean_intervals(differences, weights)[0])
    for (first, second), published, tuned in zip(pairs, *intervals, strict=True):
        yield _Pair(first, second, published, tuned, len(users))
