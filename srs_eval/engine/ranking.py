"""Who predicts best, on which reviews: the only place that groups, sorts and gives places.

Models are ranked together where they were evaluated on identical reviews. Online models know how
today is going, which no scheduler can; they stand apart
even on identical reviews. AVG, which knows the average only, is the baseline: a line in the
ranking, not a place. The verdict against the best decides, then log loss, to the six decimals
of result files, and the name where that ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from srs_eval.data.errors import InputError, counted
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import Result, log_loss_difference, log_loss_interval, same_reviews
from srs_eval.engine.shared import Competitor, on_shared_reviews
from srs_eval.models.configurations import BASELINE, OWN, OWN_7, Configuration, resolve
from srs_eval.models.own_parameters import fault_in, left_out, runs_fsrs7
from srs_eval.stats.intervals import (
    EQUIVALENT,
    FEWEST_DAYS,
    FEWEST_REVIEWS,
    Interval,
    verdict,
    verdicts,
)

_T = TypeVar("_T")
REFERENCE = "FSRS-6"
_Standing = Literal["best", "as good", "can't tell yet", "worse", "below the baseline"]


_HEADINGS: Mapping[_Standing, str] = {
    "best": "as good as the best",
    "as good": "as good as the best",
    "can't tell yet": "can't tell yet",
    "worse": "worse",
    "below the baseline": "worse than the average",
}
"""Of the lines of each verdict against the best."""
_NEAREST = "nearest to the average"  # heads the best alone where none is better than that


_C = TypeVar("_C", bound=Competitor)


@dataclass(frozen=True)
class Ranked:
    """One configuration's line; differences are of log loss, in nats, negative if it is better."""

    configuration: Configuration
    result: Result
    place: int | None  # from 1; None for the baseline, in-sample and marked ones
    log_loss: Interval
    standing: _Standing | None
    """The verdict against the best; "below the baseline" if it is worse than the average.
    None where there is no place."""
    to_best: Interval | None  # None for the best
    to_baseline: Interval | None  # None for the baseline and where there is none
    to_reference: Interval | None  # None for the reference and where there is none
    against_baseline: float | None
    """(log loss - the baseline's) / the baseline's; negative is better.

    None for the baseline, and like all differences where the result is marked: its figures mean
    nothing."""

    @property
    def is_baseline(self) -> bool:
        return self.configuration.is_baseline

    @property
    def parameters(self) -> int | None:
        """Number of its parameters; None where nobody knows."""
        told = self.configuration.parameters
        return self.result.counted_parameters if told is None else told

    @property
    def verdict_words(self) -> str:
        """The verdict, or why there is none: parameters have seen the held-out reviews."""
        if self.result.mark or self.standing:
            return self.result.mark or str(self.standing)
        return "the baseline" if self.is_baseline else "in-sample"


ORDERS: Mapping[str, Callable[[Ranked], Any]] = {
    "place": lambda line: line.log_loss.estimate,
    "model": lambda line: line.configuration.words.lower(),
    "family": lambda line: line.configuration.model.family,
    "vs average": lambda line: line.against_baseline,
    "RMSE(bins)": lambda line: line.result.metrics.rmse_bins,
    "AUC": lambda line: line.result.metrics.auc,
    "params": lambda line: line.parameters,
}
"""What lines can be ordered by, by the headings of columns; "place" is the ranking itself."""


@dataclass(frozen=True)
class Group:
    """Configurations that were evaluated on identical reviews."""

    rows: str  # which reviews, in words
    learns: bool  # online models
    lines: tuple[Ranked, ...]  # best first, the baseline where it falls
    equivalence: float = EQUIVALENT  # differences in log loss within it don't matter
    is_shared: bool = False  # those reviews alone that all have a prediction for

    @property
    def reviews(self) -> int:
        return self.lines[0].result.size

    @property
    def best(self) -> Ranked | None:
        return next((line for line in self.lines if line.place == 1), None)

    @property
    def _none_is_better(self) -> bool:
        """Whether even the best has no lower log loss than the average."""
        to_baseline = None if self.best is None else self.best.to_baseline
        return to_baseline is not None and round(to_baseline.estimate, 6) >= 0

    @property
    def baseline(self) -> Ranked | None:
        return next((line for line in self.lines if line.is_baseline), None)

    @property
    def title(self) -> str:
        """ "Evaluated on 2,143 reviews of later days"."""
        title = f"Evaluated on {counted(self.reviews, 'review')}{self.rows.removeprefix('reviews')}"
        title += " that all have a prediction for" if self.is_shared else ""
        return f"{title}: online models" if self.learns else title

    @property
    def warnings(self) -> list[str]:
        """Return a sentence about each model whose figures mean nothing."""
        return [
            f"{line.configuration.words} {line.result.mark}: its figures mean nothing."
            for line in self.lines
            if line.result.mark
        ]

    @property
    def ties(self) -> list[tuple[str, Sequence[Ranked]]]:
        """The lines by verdict against the best, with its heading; in each, best first.

        A line without a place is among those of the line above it. No heading stands over the
        baseline alone.
        """
        placed = (_HEADINGS[line.standing] for line in self.lines if line.standing)
        heading = next(placed, "")
        found: dict[str, list[Ranked]] = {each: [] for each in [*_HEADINGS.values(), heading]}
        for line in self.lines:
            heading = _HEADINGS[line.standing] if line.standing else heading
            found[heading].append(line)
        alone = {line.standing for line in found["as good as the best"]} <= {"best", None}
        best = _NEAREST if self._none_is_better else "best"
        return [
            (best if alone and "best" in words else words, lines)
            for words, lines in found.items()
            if lines
        ]

    def ordered(self, by: str, backwards: bool = False) -> tuple[Ranked, ...]:
        """The lines by one of ORDERS, what is not known last; ties as they are ranked."""
        known = [line for line in self.lines if ORDERS[by](line) is not None]
        unknown = [line for line in self.lines if ORDERS[by](line) is None]
        return (*sorted(known, key=ORDERS[by], reverse=backwards), *unknown)

    @property
    def answer(self) -> str:
        """What the ranking says; where too little is evaluated for any verdict, only that."""
        return self.doubt or self.sentence

    @property
    def doubt(self) -> str:
        """Why nothing can be told, in one sentence; empty where something can."""
        basis = self.lines[0].log_loss
        if self.best is None or (basis.reviews >= FEWEST_REVIEWS and basis.days >= FEWEST_DAYS):
            return ""
        evaluated = f"{counted(basis.reviews, 'review')} of {counted(basis.days, 'day')}"
        return (
            f"{evaluated} are too few to tell models apart: "
            f"{FEWEST_REVIEWS:,} reviews and {FEWEST_DAYS} days are needed."
        )

    @property
    def sentence(self) -> str:
        """What the ranking says, in one sentence; empty where the baseline is alone."""
        best = self.best
        if best is None:
            return ""
        name, s = best.configuration.words, "" if best.configuration.fit == "own" else "s"
        others: dict[str, list[str]] = {}
        for line in self.lines:
            if line.standing is not None and line is not best:
                others.setdefault(line.standing, []).append(line.configuration.words)
        if best.standing == "below the baseline":
            return f"None predicts better than the average; {name} come{s} nearest to it."
        if not others:
            return _alone(best, self.equivalence)
        if self._none_is_better:
            parts = [f"None has a lower log loss than the average; {name} come{s} nearest to it"]
        elif "can't tell yet" in others:
            # The best of many is picked by its figure, which makes it optimistic.
            alike = 1 + len(others["can't tell yet"]) + len(others.get("as good", ()))
            parts = [
                f"{name} ha{s or 've'} the lowest log loss, one of {alike} that can't be told apart"
            ]
        else:
            parts = [f"{name} predict{s} best"]
        said = None
        if best.to_baseline is not None:
            said = verdict(best.to_baseline, equivalence=self.equivalence)
        if said == "as good":
            parts.append("no better and no worse than the average")
        elif said == "can't tell yet":
            parts.append("can't tell yet whether it differs from the average")
        for standing, words in (
            ("as good", "as good"),
            ("can't tell yet", "can't tell yet whether worse"),
            ("worse", "worse"),
            ("below the baseline", "worse than the average"),
        ):
            if standing in others:
                parts.append(f"{words}: {_listed(others[standing])}")
        return "; ".join(parts) + "."


def ranking(
    finished: Iterable[tuple[Configuration, Result]],
    reference: str = REFERENCE,
    equivalence: float = EQUIVALENT,
) -> list[Group]:
    """Groups of finished configurations; those of the largest set of reviews come first.

    Last come those that lack reviews, beside all others, on the reviews that all have.
    The order of `finished` does not matter. `reference` is the canonical name of the
    configuration that `Ranked.to_reference` is held against; differences in log loss within
    ± `equivalence` do not matter.
    """
    sets: list[list[tuple[Configuration, Result]]] = []
    everyone = sorted(finished, key=lambda pair: pair[0].name)
    for pair in everyone:
        if pair[1].lacks:
            continue
        same = next((each for each in sets if same_reviews(each[0][1], pair[1])), None)
        if same is None:
            sets.append([pair])
        else:
            same.append(pair)
    # Most configurations are evaluated on later days; the baseline decides between equal numbers.
    sets.sort(key=lambda pairs: (-len(pairs), all(each.name != BASELINE for each, _ in pairs)))
    found = [group for pairs in sets for group in _groups(pairs, reference, equivalence)]
    lacking = [pair for pair in everyone if pair[1].lacks]
    for rows in dict.fromkeys(rows_of(each) for each, _ in lacking):
        mine = [pair for pair in lacking if rows_of(pair[0]) == rows]
        whole = (pairs for pairs in sets if any(rows_of(each) == rows for each, _ in pairs))
        for pairs in on_shared_reviews(mine, next(whole, [])):
            alike = _groups(pairs, reference, equivalence)
            found += [replace(group, is_shared=True) for group in alike]
    return found


def own_scheduler(log: ReviewLog) -> str | None:
    """The configuration that stands for what the learner schedules with; None if unknown.

    With FSRS on that are the presets' parameters, which Anki runs as FSRS-6's, or its defaults
    where no preset holds any (fsrs-rs: src/model.rs); else Anki's SM-2. In a fork of Anki these
    may be FSRS-7's. Unknown is also what Anki does with cards whose presets all hold what it does
    not run.
    """
    if log.import_summary.fsrs_enabled is None:
        return None
    if not log.import_summary.fsrs_enabled:
        return "Anki-dry-run"
    by_fsrs7, presets = bool(runs_fsrs7(log)), log.presets.values()
    if any(preset.parameters_in_force and not fault_in(preset) for preset in presets):
        return OWN_7 if by_fsrs7 else OWN
    if by_fsrs7:
        return "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs"
    return None if left_out(log) else "FSRS-6-dry-run"


def of_own_version(
    configurations: Sequence[Configuration], log: ReviewLog, protocol: Protocol
) -> list[Configuration]:
    """The configurations; the presets' own parameters by the version of FSRS that runs them."""
    own = own_scheduler(log)
    if own not in (OWN, OWN_7):
        return list(configurations)
    found: dict[str, Configuration] = {}
    for each in configurations:
        of_other = each.fit == "own" and each.name != own and each.name in (OWN, OWN_7)
        kept = resolve(own, protocol)[0] if of_other else each
        found.setdefault(kept.name, kept)
    return list(found.values())


def with_own(
    configurations: Sequence[Configuration], log: ReviewLog, protocol: Protocol
) -> list[Configuration]:
    """The configurations, and the presets' own parameters where FSRS-6 is to be held against."""
    own = own_scheduler(log)
    if own not in (OWN, OWN_7):
        return [each for each in configurations if each.fit != "own"]
    found = of_own_version(configurations, log, protocol)
    names = {each.name for each in found}
    if own in names or "FSRS-6" not in names:
        return found
    return [*resolve(own, protocol), *found]


def with_baselines(
    configurations: Sequence[Configuration], *, leaves_out: bool
) -> list[Configuration]:
    """The configurations, and AVG before them for each set of reviews that lacks it.

    `leaves_out`: deleted cards are left out for some models (`ReviewLog.leaves_out`). AVG joins
    these, too.
    """

    def rows(configuration: Configuration) -> Protocol:
        return configuration.protocol.evaluated_rows() if leaves_out else rows_of(configuration)

    there = {rows(each) for each in configurations if each.is_baseline}
    baselines: list[Configuration] = []
    for wanted in dict.fromkeys(map(rows, configurations)):
        if wanted not in there:
            with suppress(InputError):  # AVG cannot take some flags
                baselines += [each for each in resolve(BASELINE, wanted) if rows(each) == wanted]
    return [*baselines, *configurations]


def rows_of(configuration: Configuration) -> Protocol:
    """What decides the evaluated reviews, deleted cards apart: mostly there are none."""
    return replace(configuration.protocol.evaluated_rows(), known_decks_only=False)


def _groups(
    pairs: list[tuple[Configuration, Result]], reference: str, equivalence: float
) -> Iterator[Group]:
    """Schedulers, then online models; the baseline's line stands once."""
    pairs = _without_repeated_baseline(pairs)
    baselines = [pair for pair in pairs if pair[0].is_baseline]
    baseline = min((result for _, result in baselines), key=_loss, default=None)
    unmarked = (pair for pair in pairs if not pair[1].mark)
    compared = next((result for each, result in unmarked if each.name == reference), None)
    # Where deleted cards are nobody's, leaving them out changes no rows and is not told.
    rows = min((each.rows_in_words for each, _ in pairs), key=len)
    for learns, members in apart(pairs, lambda pair: pair[0]):
        yield _group(members, rows, learns, baseline, compared, equivalence)


def _without_repeated_baseline(
    pairs: list[tuple[Configuration, Result]],
) -> list[tuple[Configuration, Result]]:
    """Without the average that leaves deleted cards out, where the plain one is evaluated alike."""
    baselines = [each.protocol.known_decks_only for each, _ in pairs if each.is_baseline]
    if all(baselines):  # it is the only one
        return pairs
    return [
        pair for pair in pairs if not (pair[0].is_baseline and pair[0].protocol.known_decks_only)
    ]


def apart(
    members: Sequence[_T], competitor_of: Callable[[_T], Competitor]
) -> Iterator[tuple[bool, list[_T]]]:
    """Schedulers with the baseline, then (True) the online models."""
    learners = [each for each in members if competitor_of(each).learns]
    schedulers = [each for each in members if not competitor_of(each).learns]
    if learners and all(competitor_of(each).is_baseline for each in schedulers):
        yield True, [*learners, *schedulers]
        return
    yield False, schedulers
    if learners:
        yield True, learners


def _group(
    members: list[tuple[Configuration, Result]],
    rows: str,
    learns: bool,
    baseline: Result | None,
    reference: Result | None,
    equivalence: float,
) -> Group:
    members = sorted(
        members, key=lambda pair: (bool(pair[1].mark), round(_loss(pair[1]), 6), pair[0].name)
    )
    fair = [pair for pair in members if not (pair[1].in_sample or pair[1].mark)]
    places = {each.name: k for each, k in placed((each, _loss(result)) for each, result in fair)}
    best = next((result for each, result in fair if places[each.name] == 1), None)
    compared = {
        each.name: result
        for each, result in members
        if not (each.is_baseline or result.mark)  # whose figures mean nothing
    }
    to_best, to_baseline, to_reference = (
        {
            name: _interval(result, other)
            for name, result in compared.items()
            if other is not None and result is not other
        }
        for other in (best, baseline, reference)
    )
    # Many are compared at once: what is called worse takes that into account.
    beside_best, beside_baseline = (
        verdicts(
            {name: interval for name, interval in each.items() if name in places},
            equivalence=equivalence,
        )
        for each in (to_best, to_baseline)
    )

    def line(configuration: Configuration, result: Result) -> Ranked:
        name, place = configuration.name, places.get(configuration.name)
        standing: _Standing | None = None
        if place is not None:
            said = beside_best.get(name)
            # Nothing is better than the best; only a tie could be called so.
            standing = "best" if said is None else "as good" if said == "better" else said
            if beside_baseline.get(name) == "worse":
                standing = "below the baseline"
        held = None if configuration.is_baseline or result.mark else baseline
        return Ranked(
            configuration=configuration,
            result=result,
            place=place,
            log_loss=_interval(result),
            standing=standing,
            to_best=to_best.get(name),
            to_baseline=to_baseline.get(name),
            to_reference=to_reference.get(name),
            against_baseline=None if held is None else _share(_loss(result), _loss(held)),
        )

    return Group(rows, learns, tuple(_by_verdict(starmap(line, members))), equivalence)


def _by_verdict(lines: Iterable[Ranked]) -> Iterator[Ranked]:
    """Lines that come by log loss, verdict by verdict, with places in this order.

    A line without a place stays with the one above it.
    """
    headings = list(dict.fromkeys(_HEADINGS.values()))
    of: list[tuple[int, Ranked]] = []
    for line in lines:
        above = of[-1][0] if of else 0
        of.append((headings.index(_HEADINGS[line.standing]) if line.standing else above, line))
    place = 0
    for _, line in sorted(of, key=lambda each: each[0]):
        place += line.place is not None
        yield line if line.place is None else replace(line, place=place)


def placed(figures: Iterable[tuple[_C, float]]) -> list[tuple[_C, int | None]]:
    """Competitors with their log losses, best first, with places from 1; the baseline has none.

    To six decimals, then by name.
    """
    found: list[tuple[_C, int | None]] = []
    place = 0
    for competitor, _ in sorted(figures, key=lambda each: (round(each[1], 6), each[0].name)):
        place += not competitor.is_baseline
        found.append((competitor, None if competitor.is_baseline else place))
    return found


_intervals: WeakKeyDictionary[Result, WeakKeyDictionary[Result, Interval]] = WeakKeyDictionary()
"""Of a result and of its differences, for as long as the results are there: a ranking that
fills is made anew for each model that finishes."""


def _interval(result: Result, other: Result | None = None) -> Interval:
    """Of a log loss, or of its difference from another's."""
    known = _intervals.setdefault(result, WeakKeyDictionary())
    key = other or result
    if key not in known:
        found = log_loss_difference(result, other) if other else log_loss_interval(result)
        assert found is not None  # they are of one group
        known[key] = found
    return known[key]


def _loss(result: Result) -> float:
    return result.metrics.log_loss


def _share(loss: float, baseline: float) -> float | None:
    """Of the baseline's log loss; None where that is 0, as where every review was passed."""
    return loss / baseline - 1 if round(baseline, 6) > 0 else None


def _alone(line: Ranked, equivalence: float) -> str:
    """The sentence about the only model of a group."""
    name = line.configuration.words
    if line.to_baseline is None:
        return f"{name} has no other to be compared with."
    said = verdict(line.to_baseline, equivalence=equivalence)
    if said == "better":
        return f"{name} predicts better than the average."
    if said == "as good":
        return f"{name} predicts no better and no worse than the average."
    return f"Can't tell yet whether {name} predicts better than the average."


def _listed(names: list[str]) -> str:
    """ "A, B and C"; of many the first three and the number of the rest."""
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
