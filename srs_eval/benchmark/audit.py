"""Does a comparison of models compare the models, or how well somebody has set up their training?

Every model's training is tuned with the same number of trials, and the models are compared again.
"On the difficulty of evaluating baselines" (Rendle, Zhang & Koren 2019, arXiv:1905.01395) shows how
rankings of years fell when that was done; docs/audit.md has the method.

A user's evaluated reviews never choose the user's set-up: the users are two halves, and each half
is evaluated with the set-up that the other half's search has found. That search sees
training parts only, each split in time: a fit to the first four fifths, evaluated on the last.
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

from srs_eval.benchmark.leaderboard import Change, changes, compare
from srs_eval.benchmark.plan import (
    START_SECONDS,
    BatchEvent,
    CheckingModels,
    Ended,
    Planned,
    UnitDone,
    survey,
)
from srs_eval.benchmark.result_files import ResultFile, read_folders
from srs_eval.benchmark.setup import (
    LEDGER,
    SETUP,
    Entry,
    Found,
    as_json,
    make_setup,
    remarks,
    write_ledger,
)
from srs_eval.benchmark.store import AUDIT, JOURNAL, PUBLISHED, TUNED, ResultStore, Status, hold
from srs_eval.benchmark.tuning import PARTS, SEARCH, PastSession, Setup, Tries
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.paths import refuse_nested, write_atomically
from srs_eval.data.reviews import IntArray
from srs_eval.engine.own_models import mark, unchecked
from srs_eval.engine.ranking import placed
from srs_eval.engine.session import Session
from srs_eval.models.configurations import Configuration
from srs_eval.stats.users import FEWEST_USERS, MeanInterval, mean_intervals
from srs_eval.training.hyperparameters import Context


@dataclass(frozen=True, eq=False)
class Tuned:
    """One configuration, as published and tuned."""

    configuration: Configuration
    found: tuple[Found, ...]  # by half; () where there is nothing to tune
    best: Setup  # of these and the published one: with the least loss over all users' training rows
    left_out: tuple[str, ...]  # hyperparameters that no search can begin from
    change: Change | None  # tuned minus published, on the evaluated reviews; None without results
    spread: tuple[float, float] | None
    """Standard deviation over seeds of the mean log loss over users, published and tuned."""
    mark: str = ""  # why its figures mean nothing, in a word or two

    @property
    def label(self) -> str:
        """Return its words, with the mark behind them."""
        words = self.configuration.words
        return f"{words} ({self.mark})" if self.mark else words


@dataclass(frozen=True)
class _Pair:
    """Two configurations, the first one ahead as published; differences are first minus second."""

    first: str
    second: str
    published: MeanInterval  # of log loss, every user counting the same
    tuned: MeanInterval
    users: int

    @property
    def verdict(self) -> str:
        """What tuning has made of the lead."""
        enough = self.users >= FEWEST_USERS
        if self.tuned.estimate > 0:
            return "turned round" if enough and self.tuned.low > 0 else "behind, not surely"
        if enough and self.published.high < 0 and not self.tuned.high < 0:
            return "no sure lead any more"
        return "kept"


@dataclass(frozen=True, eq=False)
class Ranking:
    """Configurations evaluated on the same reviews, before and after."""

    rows: str
    users: int  # with results of all configurations, before and after
    published: tuple[str, ...]  # labels, best first by the mean over these users
    tuned: tuple[str, ...]
    pairs: tuple[_Pair, ...]


@dataclass(frozen=True, eq=False)
class Audit:
    """The end of a run."""

    users: int
    trials: int
    repeats: int
    tuned: tuple[Tuned, ...]
    rankings: tuple[Ranking, ...]
    failed: Mapping[str, int]  # reasons, and of how many fits
    remarks: tuple[str, ...] = ()  # on models of the person's own


_AuditEvent = BatchEvent | Audit
_Evaluate = Callable[..., Generator[BatchEvent, None, None]]
"""`srs_eval.batch.run_batch`, which lies above."""


def run_audit(
    dataset: Dataset,
    configurations: Sequence[Configuration],
    out: Path,
    *,
    evaluate: _Evaluate,
    users: Sequence[int] | None = None,
    trials: int = 30,
    repeats: int = 3,
    seed: int = 0,
    jobs: int | None = None,
    fresh: bool = False,
    context: Context | None = None,
) -> Generator[_AuditEvent, None, None]:
    """Tune every configuration with the same budget and compare them again.

    `trials` set-ups are tried for each half of the users besides the published one; trainings
    that draw random numbers are evaluated with `repeats` seeds. Yields Planned, a UnitDone for each
    fit on a user, Ended and the Audit. What is done is kept in `out`, and a second run goes on
    from it, trying again what has failed; its figures do not depend on `jobs` or on
    interruptions. Raises InputError for an unusable set-up, and where `out` holds results that
    are not an audit's.
    """
    refuse_nested(out, dataset.folder)
    wanted = list(dataset.users if users is None else users)
    if len(wanted) < 2:
        raise InputError("An audit needs two users at least: the ones choose for the others.")
    for each in configurations:
        if each.protocol.train_equals_test:
            raise InputError(
                f"{each.name} trains on what it is evaluated on: no audit can be made."
            )
    context = context or Context()
    fingerprint, _ = survey(dataset)
    if names := unchecked(configurations, context.features):
        yield CheckingModels(names)
    setup = make_setup(dataset, fingerprint, configurations, context, {})
    tries = Tries(out / JOURNAL, configurations, wanted, trials=trials, repeats=repeats, seed=seed)
    progress = _Progress(tries, trials)
    with _held(out, setup, fresh):
        for stage in tries.stages():
            batch = evaluate(
                dataset,
                stage.configurations,
                out / JOURNAL / stage.part,
                users=stage.users,
                jobs=jobs,
                context=context,
                session=PastSession if stage.part == SEARCH else Session,
            )
            with closing(batch):
                for event in batch:
                    yield from progress.of(event)
            tries.read(stage)
            # Of the rounds before: what this one has found is told when the next begins.
            write_ledger(out / LEDGER, _entries(tries), wanted, fingerprint)
        if progress.plan is not None and not progress.plan.units:
            yield progress.plan
        _write_results(out, setup, tries)
        yield Ended(**progress.counts)
        yield _audit(out, setup, tries, trials)


class _Progress:
    """Events of a whole audit, by those of the batches that it consists of."""

    def __init__(self, tries: Tries, trials: int) -> None:
        self.plan: Planned | None = None  # what there is to do, as far as it is known
        self._tries = tries
        fits = sum(tries.fits(name, trials) for name in tries.configurations)
        self._total = len(tries.users) * fits
        self._passed = 0  # fits made, now or before
        self.counts: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}

    def of(self, event: BatchEvent) -> Iterator[BatchEvent]:
        """What an event of a batch is in the audit."""
        match event:
            case Planned():
                self._passed += event.present + event.skipped_before
                said = self.plan is not None and self.plan.units > 0
                if said:
                    return
                units = max(self._total - self._passed, event.units) if event.units else 0
                besides = START_SECONDS + event.compile_seconds
                fits = (event.expected_seconds - besides) * units / max(1, event.units)
                self.plan = replace(
                    event,
                    users=len(self._tries.users),
                    configurations=tuple(self._tries.configurations),
                    units=units,
                    present=self._passed,
                    skipped_before=0,
                    expected_seconds=fits + besides,
                )
                if units:
                    yield self.plan
            case UnitDone(unit=unit):
                self._passed += 1
                self.counts[unit.status] += 1
                unit = replace(unit, configuration=unit.configuration.partition("@")[0])
                share = min(self._passed / self._total, 1.0)
                yield UnitDone(unit, sum(self.counts.values()), share)


@contextmanager
def _held(out: Path, setup: Mapping[str, Any], fresh: bool) -> Iterator[None]:
    """Hold the folder of an audit alone, which goes on from what is there or starts over."""
    _refuse_results_of_others(out)
    try:
        (out / JOURNAL).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f'The audit cannot be written to "{out}" ({error.strerror}): choose another --out.'
        ) from None
    let_go = hold(out / JOURNAL, f'Another audit is writing to "{out}": wait for it.')
    try:
        for part in PARTS:
            with ResultStore(out / JOURNAL / part, setup, fresh=fresh):
                pass  # else it says why this run cannot go on from it
        write_atomically(out / AUDIT, as_json(setup))
        yield
    finally:
        let_go()


def _refuse_results_of_others(out: Path) -> None:
    """Raises InputError where an audit would replace or delete what no audit has left."""
    if (out / JOURNAL / SEARCH).exists():
        return
    others = [each for each in (out / AUDIT, out / LEDGER) if each.exists()]
    for folder in (out, out / PUBLISHED, out / TUNED):
        others += sorted([*folder.glob("result/*.jsonl"), *folder.glob(SETUP)])
    for path in others:
        raise InputError(f'"{path}" is not from an audit in this folder: choose another --out.')


def _found(tries: Tries, name: str) -> tuple[Found, ...]:
    """By half; () where there is nothing to tune, or nothing was tried yet."""
    found = []
    for users, search in zip(tries.halves, tries.searches.get(name, ()), strict=False):
        if search.tried:
            best, loss = search.best
            usable = len(tries.usable(name, users))
            found.append(
                Found(
                    users=usable,
                    trials=len(search.tried) - 1,
                    hyperparameters=best,
                    log_loss=round(loss, 6) if usable else None,
                    published_log_loss=round(search.tried[0][1], 6) if usable else None,
                    on_edge=search.on_edge,
                )
            )
    return tuple(found)


def _best(tries: Tries, name: str, found: Sequence[Found]) -> Setup:
    """The best known set-up: with the least mean loss over all users' training parts."""
    setups = [
        setup
        for setup in ({}, *(dict(each.hyperparameters) for each in found))
        if all(tries.made(SEARCH, name, setup, user) for user in tries.users)
    ]
    losses = tries.losses(name, tries.users, setups)
    return setups[losses.index(min(losses))] if losses else {}


def _entries(tries: Tries) -> dict[str, Entry]:
    """The best known set-up of each configuration that is tuned; docs/formats.md."""
    return {
        name: Entry(
            published={
                each.name: each.default_under(configuration.protocol)
                for each in configuration.tunable
                if each.searched
            },
            best=_best(tries, name, found),
            halves=found,
        )
        for name, configuration in tries.configurations.items()
        if (found := _found(tries, name))
    }


def _write_results(out: Path, setup: Mapping[str, Any], tries: Tries) -> None:
    """Two folders of results, as `srs-eval batch` has them: as published, and tuned."""
    for folder in (PUBLISHED, TUNED):
        described = {name: dict(each) for name, each in setup["configurations"].items()}
        chosen = {
            name: [tries.chosen_for(name, half) if folder == TUNED else {} for half in (0, 1)]
            for name in described
        }
        for name, setups in chosen.items():
            if any(setups):
                by_half = {f"half {half}": each for half, each in enumerate(setups, start=1)}
                described[name]["hyperparameters"] = by_half
        with ResultStore(out / folder, {**setup, "configurations": described}, fresh=True) as store:
            for name, setups in chosen.items():
                for users, each in zip(tries.halves, setups, strict=True):
                    for user in users:
                        store.append(replace(tries.evaluated(name, each, user), configuration=name))
            store.publish(everything=True)


# What it comes to


def _audit(out: Path, setup: Mapping[str, Any], tries: Tries, trials: int) -> Audit:
    evaluated = [
        (name, each) for name in tries.configurations for each in tries.all_evaluated(name)
    ]
    try:
        published, tuned = (read_folders([out / name])[0].files for name in (PUBLISHED, TUNED))
    except InputError:
        none = "it has some as published, none as tuned"
        ((reason, _),) = Counter(unit.reason or none for _, unit in evaluated).most_common(1)
        raise NotEnoughData(
            f"no model has results of any user, mostly for this: {reason}"
        ) from None
    changed = {each.file.name: each for each in changes(tuned, published)}
    lines = []
    for name, configuration in tries.configurations.items():
        found = _found(tries, name)
        lines.append(
            Tuned(
                configuration=configuration,
                found=found,
                best=_best(tries, name, found) if found else {},
                left_out=tries.searches[name][0].left_out if found else (),
                change=changed.get(name),
                spread=_spread(tries, name),
                mark=mark(setup["configurations"][name].get("check", "")),
            )
        )
    failed = (f"{name}: {unit.reason}" for name, unit in evaluated if unit.status == "failed")
    return Audit(
        users=len(tries.users),
        trials=trials,
        repeats=tries.repeats,
        tuned=tuple(lines),
        rankings=tuple(_rankings(published, tuned)),
        failed=Counter(failed),
        remarks=tuple(remarks(setup)),
    )


def _spread(tries: Tries, name: str) -> tuple[float, float] | None:
    """Over seeds, of the mean over users who have a figure with each; published and tuned."""
    seedings = tries.seedings(name)
    if len(seedings) < 2:
        return None
    spreads = []
    for tuned in (False, True):
        losses = np.array(
            [
                [tries.evaluated(name, {**setup, **seeded}, user).log_loss for seeded in seedings]
                for half, users in enumerate(tries.halves)
                for setup in [tries.chosen_for(name, half) if tuned else {}]
                for user in users
            ]
        )
        complete = losses[~np.isnan(losses).any(axis=1)]
        spreads.append(stdev(complete.mean(axis=0).tolist()) if len(complete) else math.nan)
    return spreads[0], spreads[1]


def _rankings(published: Sequence[ResultFile], tuned: Sequence[ResultFile]) -> Iterator[Ranking]:
    """Of each set of reviews, with the baseline in its place."""
    after = {each.name: each for each in tuned}
    for comparison in compare([each for each in published if each.name in after]):
        if len(comparison.files) < 2:
            continue
        files = [after[each.name] for each in comparison.files]
        users = reduce(np.intersect1d, [each.users for each in files], comparison.users)
        if not len(users):
            continue
        yield Ranking(
            rows=comparison.rows,
            users=len(users),
            published=_order(comparison.files, users),
            tuned=_order(files, users),
            pairs=tuple(_pairs(comparison.files, after, users)),
        )


def _order(files: Sequence[ResultFile], users: IntArray) -> tuple[str, ...]:
    means = [(each, float(each.log_loss(users).mean())) for each in files]
    return tuple(each.label for each, _ in placed(means))


def _pairs(
    files: Sequence[ResultFile], after: Mapping[str, ResultFile], users: IntArray
) -> Iterator[_Pair]:
    before = {each.label: each.log_loss(users) for each in files}
    now = {each.label: after[each.name].log_loss(users) for each in files}
    pairs = list(itertools.combinations(before, 2))
    weights = np.ones((len(users), 1))
    intervals = [
        mean_intervals(np.column_stack([loss[a] - loss[b] for a, b in pairs]), weights)[0]
        for loss in (before, now)
    ]
    for (first, second), published, tuned in zip(pairs, *intervals, strict=True):
        yield _Pair(first, second, published, tuned, len(users))
