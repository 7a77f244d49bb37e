"""Audit a comparison: does it compare the models, or how well each one's training was tuned?

Every model's training is tuned with the same number of trials, and the models are compared again.
"On the difficulty of evaluating baselines" (Rendle, Zhang & Koren 2019, arXiv:1905.01395) shows
that rankings which had stood for years did not survive this; docs/audit.md describes the method.

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
    """The set-up, among these and the published one, with the least loss on all users' training
    parts."""
    not_searched: tuple[str, ...]  # hyperparameters without a starting point for a search
    change: Change | None  # tuned minus published, on the evaluated reviews; None without results
    spread: tuple[float, float] | None
    """Standard deviation over seeds of the users' mean log loss, published and tuned; None with one
    seed."""
    invalid_reason: str = ""  # why the results mean nothing, in a word or two

    @property
    def label(self) -> str:
        """The configuration's words, followed by the reason why its results mean nothing."""
        words = self.configuration.words
        return f"{words} ({self.invalid_reason})" if self.invalid_reason else words


@dataclass(frozen=True)
class _Pair:
    """Two configurations, of which the first is ahead with published set-ups."""

    first: str  # label
    second: str
    published: MeanInterval  # log loss of the first minus that of the second; users count equally
    tuned: MeanInterval
    users: int  # number of users

    @property
    def verdict(self) -> str:
        """Effect of tuning on the first one's lead, in words."""
        enough_users = self.users >= MIN_USERS
        if self.tuned.estimate > 0:
            if enough_users and self.tuned.low > 0:
                return "turned round"
            return "behind, not clearly"
        was_sure = self.published.high < 0
        is_sure = self.tuned.high < 0
        if enough_users and was_sure and not is_sure:
            return "no longer clear"
        return "kept"


@dataclass(frozen=True, eq=False)
class AuditedRanking:
    """Configurations evaluated on the same reviews, before and after tuning."""

    reviews_description: str
    users: int  # number of users with results of all configurations, before and after
    published: tuple[str, ...]  # labels, best first by mean log loss over these users
    tuned: tuple[str, ...]
    pairs: tuple[_Pair, ...]


@dataclass(frozen=True, eq=False)
class Audit:
    """Results of an audit."""

    users: int  # number of users
    trials: int
    repeats: int
    tuned: tuple[TunedConfiguration, ...]  # every configuration, even if nothing could be tuned
    rankings: tuple[AuditedRanking, ...]
    failed: Mapping[str, int]  # number of users on whom an evaluation failed, by "NAME: reason"
    remarks: tuple[str, ...] = ()  # on the user's own models


_AuditEvent = BatchEvent | Audit
_RunBatch = Callable[..., Generator[BatchEvent, None, None]]
"""`srs_eval.batch.run_batch`, an argument because its module imports this package."""


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
        raise InputError(
            "An audit needs at least two users, because each half's set-ups are chosen on the "
            "other half."
        )
    for configuration in configurations:
        if configuration.protocol.train_equals_test:
            raise InputError(
                f"{configuration.name} trains on what it is evaluated on: no audit can be made."
            )
        if configuration.protocol.has_own_split or configuration.is_trained_on_other_users:
            raise InputError(
                f"{configuration.name}: an audit tunes how models are trained, on the "
                "benchmark's folds; leave other splits out."
            )
    context = context or Context()
    fingerprint, _ = survey_dataset(dataset)
    unchecked_models = list_unchecked(configurations, context.features)
    if unchecked_models:
        yield CheckingModels(unchecked_models)
    setup = make_setup(dataset, fingerprint, configurations, context, {})
    audit_search = AuditSearch(
        out / JOURNAL, configurations, audited_users, trials=trials, repeats=repeats, seed=seed
    )
    progress = _AuditProgress(audit_search, trials)
    with _open_audit_folder(out, setup, fresh):
        for stage in audit_search.stages():
            # The search never sees the evaluated reviews.
            is_search = stage.folder == SEARCH_FOLDER
            batch = evaluate(
                dataset,
                stage.configurations,
                out / JOURNAL / stage.folder,
                users=stage.users,
                jobs=jobs,
                context=context,
                session_factory=PastSession if is_search else LearnerSession,
            )
            with closing(batch):
                for event in batch:
                    yield from progress.translate(event)
            audit_search.read_results(stage)
            # Without the results of this stage: the searches learn them when the next one begins.
            entries = _build_ledger_entries(audit_search)
            write_ledger(out / LEDGER_FILE, entries, audited_users, fingerprint)
        if progress.plan is not None and not progress.plan.units:
            yield progress.plan  # nothing was left to do, so no plan has been yielded yet
        _write_results(out, setup, audit_search)
        yield Ended(**progress.counts)
        yield _build_audit(out, setup, audit_search, trials)


class _AuditProgress:
    """Progress of a whole audit, derived from the events of its batches."""

    def __init__(self, audit_search: AuditSearch, trials: int) -> None:
        self.plan: Planned | None = None  # of the first batch with work, else of the latest
        self._search = audit_search
        fits = sum(audit_search.count_fits(name, trials) for name in audit_search.configurations)
        self._total_fits = len(audit_search.users) * fits  # at most
        self._completed_fits = 0  # now or in earlier runs
        self.counts: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}

    def translate(self, event: BatchEvent) -> Iterator[BatchEvent]:
        """Translate an event of a batch into events of the audit.

        Only the first plan with work is passed on, scaled to the whole audit. Ended and
        CheckingModels are left out: the audit has its own.
        """
        match event:
            case Planned():
                self._completed_fits += event.already_done + event.already_skipped
                plan_was_yielded = self.plan is not None and self.plan.units > 0
                if plan_was_yielded:
                    return
                units = 0
                if event.units:
                    units = max(self._total_fits - self._completed_fits, event.units)
                # Assume that the audit's fits take as long, on average, as those of this batch.
                start_seconds = WORKER_START_SECONDS + event.compile_seconds
                fit_seconds = (event.expected_seconds - start_seconds) * units / max(1, event.units)
                self.plan = replace(
                    event,
                    users=len(self._search.users),
                    configurations=tuple(self._search.configurations),
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
                # A set-up that is tried is named NAME@...; see `tuning`.
                unit = replace(unit, configuration=unit.configuration.partition("@")[0])
                fraction = min(self._completed_fits / self._total_fits, 1.0)
                yield UnitDone(unit, sum(self.counts.values()), fraction)


@contextmanager
def _open_audit_folder(out: Path, setup: Mapping[str, Any], fresh: bool) -> Iterator[None]:
    """Prepare the folder of an audit and keep it locked during the block.

    Earlier work is deleted if `fresh`. Raises InputError if the audit cannot continue from it, or
    if another audit is at work.
    """
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
                pass  # opening it checks the set-up, and deletes if `fresh`
        write_atomically(out / AUDIT_FILE, encode_json(setup))
        yield
    finally:
        unlock()


def _refuse_foreign_results(out: Path) -> None:
    """Raise InputError if an audit would replace or delete files that no audit has written."""
    if (out / JOURNAL / SEARCH_FOLDER).exists():
        return
    foreign_paths = [path for path in (out / AUDIT_FILE, out / LEDGER_FILE) if path.exists()]
    for folder in (out, out / PUBLISHED_FOLDER, out / TUNED_FOLDER):
        foreign_paths += sorted([*folder.glob("result/*.jsonl"), *folder.glob(SETUP_FILE)])
    if foreign_paths:
        raise InputError(
            f'"{foreign_paths[0]}" is not from an audit in this folder: choose another --out.'
        )


def _collect_search_results(audit_search: AuditSearch, name: str) -> tuple[SearchResult, ...]:
    """Return the search results by half; () if nothing can be tuned or nothing was tried yet."""
    if name not in audit_search.searches:
        return ()
    results = []
    for users, search in zip(audit_search.halves, audit_search.searches[name], strict=True):
        if not search.tried:
            continue
        best_setup, loss = search.best
        _, published_loss = search.tried[0]
        user_count = len(audit_search.usable_users(name, users))
        results.append(
            SearchResult(
                users=user_count,
                trials=len(search.tried) - 1,  # the first was the published set-up
                hyperparameters=best_setup,
                log_loss=round(loss, 6) if user_count else None,
                published_log_loss=round(published_loss, 6) if user_count else None,
                on_edge=search.on_edge,
            )
        )
    return tuple(results)


def _select_best_setup(
    audit_search: AuditSearch, name: str, search_results: Sequence[SearchResult]
) -> TrainingSetup:
    """Return the set-up with the least mean loss over all users' training parts.

    The candidates are the published set-up and the best one of each half, as far as they were
    tried on all users.
    """
    candidates: list[TrainingSetup] = [{}]  # {} is the published set-up
    candidates += [dict(result.hyperparameters) for result in search_results]
    setups = [
        setup
        for setup in candidates
        if all(
            audit_search.find_unit(SEARCH_FOLDER, name, setup, user) for user in audit_search.users
        )
    ]
    losses = audit_search.mean_losses(name, audit_search.users, setups)
    if not losses:
        return {}
    return setups[losses.index(min(losses))]


def _build_ledger_entries(audit_search: AuditSearch) -> dict[str, LedgerEntry]:
    """Return the ledger's entry (docs/formats.md) of each configuration that can be tuned."""
    entries = {}
    for name, configuration in audit_search.configurations.items():
        search_results = _collect_search_results(audit_search, name)
        if not search_results:
            continue
        published = {
            hyperparameter.name: hyperparameter.default_under(configuration.protocol)
            for hyperparameter in configuration.tunable_hyperparameters
            if hyperparameter.is_searched
        }
        best_setup = _select_best_setup(audit_search, name, search_results)
        entries[name] = LedgerEntry(published, best_setup, search_results)
    return entries


def _write_results(out: Path, setup: Mapping[str, Any], audit_search: AuditSearch) -> None:
    """Write two folders of results, laid out as by `srs-eval batch`: as published, and tuned."""
    for folder in (PUBLISHED_FOLDER, TUNED_FOLDER):
        entries = {name: dict(entry) for name, entry in setup["configurations"].items()}
        setups_by_name: dict[str, list[TrainingSetup]] = {}
        for name in entries:
            if folder == TUNED_FOLDER:
                setups_by_name[name] = [audit_search.setup_for(name, half) for half in (0, 1)]
            else:
                setups_by_name[name] = [{}, {}]  # nothing differs from the published set-up
        for name, half_setups in setups_by_name.items():
            if any(half_setups):
                entries[name]["hyperparameters"] = {
                    f"half {number}": half_setup
                    for number, half_setup in enumerate(half_setups, start=1)
                }
        with ResultStore(out / folder, {**setup, "configurations": entries}, fresh=True) as store:
            for name, half_setups in setups_by_name.items():
                for users, half_setup in zip(audit_search.halves, half_setups, strict=True):
                    for user in users:
                        unit = audit_search.evaluated_unit(name, half_setup, user)
                        store.append(replace(unit, configuration=name))
            store.publish(everything=True)


# The results of an audit


def _build_audit(
    out: Path, setup: Mapping[str, Any], audit_search: AuditSearch, trials: int
) -> Audit:
    """Build the audit from the results that `_write_results` wrote to `out`.

    Raises NotEnoughData if no configuration has results as published, or none has them as tuned.
    """
    named_units = []
    for name in audit_search.configurations:
        named_units += [(name, unit) for unit in audit_search.evaluated_units(name)]
    try:
        published = read_folders([out / PUBLISHED_FOLDER])[0].files
        tuned = read_folders([out / TUNED_FOLDER])[0].files
    except InputError:
        other_reason = "it has results as published but none as tuned"
        reasons = Counter(unit.reason or other_reason for _, unit in named_units)
        ((reason, _),) = reasons.most_common(1)
        raise NotEnoughData(
            f"no model has results for any user; the most common reason: {reason}"
        ) from None
    changes = {change.file.name: change for change in compare_runs(tuned, published)}
    tuned_configurations = []
    for name, configuration in audit_search.configurations.items():
        search_results = _collect_search_results(audit_search, name)
        best_setup: TrainingSetup = {}
        not_searched: tuple[str, ...] = ()
        if search_results:
            best_setup = _select_best_setup(audit_search, name, search_results)
            not_searched = audit_search.searches[name][0].not_searched
        tuned_configurations.append(
            TunedConfiguration(
                configuration=configuration,
                halves=search_results,
                best_setup=best_setup,
                not_searched=not_searched,
                change=changes.get(name),
                spread=_compute_seed_spread(audit_search, name),
                invalid_reason=leak_label(setup["configurations"][name].get("check", "")),
            )
        )
    failed = (f"{name}: {unit.reason}" for name, unit in named_units if unit.status == "failed")
    return Audit(
        users=len(audit_search.users),
        trials=trials,
        repeats=audit_search.repeats,
        tuned=tuple(tuned_configurations),
        rankings=tuple(_compare_rankings(published, tuned)),
        failed=Counter(failed),
        remarks=tuple(list_model_remarks(setup)),
    )


def _compute_seed_spread(audit_search: AuditSearch, name: str) -> tuple[float, float] | None:
    """Return the standard deviation over seeds of the mean log loss, published and tuned.

    The means are over users who have a log loss with every seed; nan if no user has. None if there
    is only one seed.
    """
    seed_setups = audit_search.seed_setups(name)
    if len(seed_setups) < 2:
        return None
    spreads = []
    for is_tuned in (False, True):
        losses_of_users = []  # by user, then by seed
        for half, users in enumerate(audit_search.halves):
            setup = audit_search.setup_for(name, half) if is_tuned else {}
            for user in users:
                units = [
                    audit_search.evaluated_unit(name, {**setup, **seed_setup}, user)
                    for seed_setup in seed_setups
                ]
                losses_of_users.append([unit.log_loss for unit in units])
        losses = np.array(losses_of_users)
        complete_losses = losses[~np.isnan(losses).any(axis=1)]
        if len(complete_losses):
            spreads.append(stdev(complete_losses.mean(axis=0).tolist()))
        else:
            spreads.append(math.nan)
    return spreads[0], spreads[1]


def _compare_rankings(
    published_files: Sequence[ResultFile], tuned_files: Sequence[ResultFile]
) -> Iterator[AuditedRanking]:
    """Compare rankings before and after tuning, for each set of files on the same reviews."""
    tuned_by_name = {file.name: file for file in tuned_files}
    files_in_both = [file for file in published_files if file.name in tuned_by_name]
    for comparison in compare_files(files_in_both):
        if len(comparison.files) < 2:
            continue
        tuned_counterparts = [tuned_by_name[file.name] for file in comparison.files]
        tuned_users = [file.users for file in tuned_counterparts]
        users = reduce(np.intersect1d, tuned_users, comparison.users)
        if not len(users):
            continue
        yield AuditedRanking(
            reviews_description=comparison.reviews_description,
            users=len(users),
            published=_rank_labels(comparison.files, users),
            tuned=_rank_labels(tuned_counterparts, users),
            pairs=tuple(_compare_pairs(comparison.files, tuned_by_name, users)),
        )


def _rank_labels(files: Sequence[ResultFile], users: IntArray) -> tuple[str, ...]:
    """Return the files' labels, best first by mean log loss over these users."""
    means = [(file, float(file.log_losses(users).mean())) for file in files]
    return tuple(file.label for file, _ in assign_ranks(means))


def _compare_pairs(
    files: Sequence[ResultFile], tuned_by_name: Mapping[str, ResultFile], users: IntArray
) -> Iterator[_Pair]:
    """Compare every two files, as published and tuned; the file that comes first is the first."""
    published_losses = {file.label: file.log_losses(users) for file in files}
    tuned_losses = {file.label: tuned_by_name[file.name].log_losses(users) for file in files}
    pairs = list(itertools.combinations(published_losses, 2))
    equal_weights = np.ones((len(users), 1))
    intervals = []  # of each pair, published and tuned
    for losses in (published_losses, tuned_losses):
        differences = np.column_stack([losses[first] - losses[second] for first, second in pairs])
        (pair_intervals,) = mean_intervals(differences, equal_weights)
        intervals.append(pair_intervals)
    for (first, second), published, tuned in zip(pairs, *intervals, strict=True):
        yield _Pair(first, second, published, tuned, len(users))
