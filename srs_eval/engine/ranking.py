"""Rank configurations that were evaluated on the same reviews.

No other module groups, sorts or ranks results; `report.ranking_words` has the sentences. Models are
ranked together if they were evaluated on identical reviews. Online models know how today is going,
which no scheduler can, so they are ranked separately even on identical reviews. AVG, which knows
only the average, is the baseline: it has a line in the ranking but no rank. The verdict against the
best decides the order, then log loss to the six decimals of result files, then the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import starmap
from typing import TypeVar
from weakref import WeakKeyDictionary

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import EQUIVALENCE_MARGIN, Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.result import (
    Result,
    find_persistence,
    have_same_reviews,
    log_loss_difference,
    log_loss_interval,
)
from srs_eval.engine.shared_reviews import Competitor, restrict_to_shared_reviews
from srs_eval.models.configurations import (
    BASELINE,
    OWN_FSRS_6,
    OWN_FSRS_7,
    Configuration,
    resolve_configurations,
)
from srs_eval.models.own_parameters import find_fsrs7_presets, find_preset_fault, find_preset_faults
from srs_eval.stats.intervals import (
    MIN_DAYS,
    MIN_REVIEWS,
    Interval,
    decide_verdicts,
)

_T = TypeVar("_T")
REFERENCE = "FSRS-6"


class Standing(StrEnum):
    """Verdict on a ranked configuration, compared with the best."""

    BEST = "best"
    AS_GOOD = "as good"
    CANT_TELL = "can't tell yet"
    WORSE = "worse"
    BELOW_BASELINE = "below the baseline"  # worse than always guessing the average


_SECTION_ORDER = (
    Standing.BEST,
    Standing.CANT_TELL,
    Standing.WORSE,
    Standing.BELOW_BASELINE,
    None,
)
"""Sections of a ranking from top to bottom. The best and those as good share one; a section of None
holds the baseline if nothing else is ranked."""


_C = TypeVar("_C", bound=Competitor)


@dataclass(frozen=True)
class RankedResult:
    """One line of a ranking; differences in log loss are in nats and negative if it is better."""

    configuration: Configuration
    result: Result
    rank: int | None  # from 1; None for the baseline, in-sample and invalid results
    log_loss: Interval
    standing: Standing | None
    """The verdict against the best; None if there is no rank."""
    to_best: Interval | None  # None for the best
    to_baseline: Interval | None  # None for the baseline and if there is none
    to_reference: Interval | None  # None for the reference and if there is none
    relative_to_baseline: float | None
    """(log loss - the baseline's) / the baseline's; negative is better.

    None for the baseline itself, without a baseline or if its log loss is 0 and, like all
    differences, for an invalid result, whose metrics mean nothing."""

    @property
    def is_baseline(self) -> bool:
        return self.configuration.is_baseline

    @property
    def parameter_count(self) -> int | None:
        """Number of the model's parameters; None if it is unknown."""
        declared = self.configuration.parameters
        return self.result.counted_parameters if declared is None else declared


@dataclass(frozen=True)
class RankingGroup:
    """Configurations that were evaluated on identical reviews."""

    row_protocol: Protocol  # the flags that decide the evaluated reviews
    is_online: bool  # the group of online models
    lines: tuple[RankedResult, ...]  # best first, with the baseline wherever it ranks
    equivalence: float = EQUIVALENCE_MARGIN  # smaller differences in log loss don't matter
    is_on_shared_reviews: bool = False  # only reviews that every model predicted

    @property
    def reviews(self) -> int:
        return self.lines[0].result.size

    @property
    def best(self) -> RankedResult | None:
        return next((line for line in self.lines if line.rank == 1), None)

    @property
    def none_beats_baseline(self) -> bool:
        """Return whether not even the best has a lower log loss than the average."""
        to_baseline = None if self.best is None else self.best.to_baseline
        return to_baseline is not None and round(to_baseline.estimate, 6) >= 0

    @property
    def has_too_few_reviews(self) -> bool:
        """Return whether there are too few reviews or days for any verdict."""
        basis = self.lines[0].log_loss
        return basis.reviews < MIN_REVIEWS or basis.days < MIN_DAYS

    @property
    def phi(self) -> float | None:
        """Return the persistence of the learner's days if good and bad spells clearly last."""
        if self.best is None:
            return None
        persistence = find_persistence(self.best.result)
        return persistence.phi if persistence.is_clear else None

    @property
    def baseline(self) -> RankedResult | None:
        return next((line for line in self.lines if line.is_baseline), None)

    @property
    def sections(self) -> list[tuple[Standing | None, Sequence[RankedResult]]]:
        """Return the lines by verdict against the best, best first, each section with its standing.

        The first section is AS_GOOD if others are as good as the best, or else BEST. A line without
        a rank stays with the line above it. If only the baseline is ranked, its standing is None.
        """
        standings = (line.standing for line in self.lines if line.standing)
        first = next(map(_section_of, standings), None)
        lines_by_section: dict[Standing | None, list[RankedResult]] = {}
        for section, line in _assign_sections(self.lines, first):
            lines_by_section.setdefault(section, []).append(line)
        sections: list[tuple[Standing | None, Sequence[RankedResult]]] = []
        for section in _SECTION_ORDER:
            lines = lines_by_section.get(section)
            if not lines:
                continue
            if any(line.standing is Standing.AS_GOOD for line in lines):
                sections.append((Standing.AS_GOOD, lines))
            else:
                sections.append((section, lines))
        return sections


def _assign_sections(
    lines: Iterable[RankedResult], first: Standing | None
) -> Iterator[tuple[Standing | None, RankedResult]]:
    """Yield each line with its section in `_SECTION_ORDER`.

    A line without a rank belongs to the section of the line above it, or else to `first`.
    """
    section = first
    for line in lines:
        if line.standing:
            section = _section_of(line.standing)
        yield section, line


def _section_of(standing: Standing) -> Standing:
    return Standing.BEST if standing is Standing.AS_GOOD else standing


def rank_results(
    finished: Iterable[tuple[Configuration, Result]],
    reference: str = REFERENCE,
    equivalence: float = EQUIVALENCE_MARGIN,
) -> list[RankingGroup]:
    """Rank finished configurations in groups; those of the commonest set of reviews come first.

    The last groups rank configurations that lack predictions for some reviews together with all
    others, on the reviews that all of them have. The order of `finished` does not matter.
    `reference` is the canonical name of the configuration that `RankedResult.to_reference`
    compares with. Differences in log loss within ± `equivalence` do not matter.
    """
    sets: list[list[tuple[Configuration, Result]]] = []  # each on identical reviews
    all_pairs = sorted(finished, key=lambda pair: pair[0].name)
    for pair in all_pairs:
        result = pair[1]
        if result.missing_predictions:
            continue
        same = next((pairs for pairs in sets if have_same_reviews(pairs[0][1], result)), None)
        if same is None:
            sets.append([pair])
        else:
            same.append(pair)
    # Most configurations are evaluated on later days; of equal sets, one with AVG comes first.
    sets.sort(key=lambda pairs: (-len(pairs), not _has_plain_baseline(pairs)))
    groups: list[RankingGroup] = []
    for pairs in sets:
        groups += _group_by_learning(pairs, reference, equivalence)
    incomplete_pairs = [pair for pair in all_pairs if pair[1].missing_predictions]
    for rows in dict.fromkeys(comparison_rows(pair[0]) for pair in incomplete_pairs):
        same_rows = [pair for pair in incomplete_pairs if comparison_rows(pair[0]) == rows]
        complete_sets = (pairs for pairs in sets if _has_rows(pairs, rows))
        for pairs in restrict_to_shared_reviews(same_rows, next(complete_sets, [])):
            for group in _group_by_learning(pairs, reference, equivalence):
                groups.append(replace(group, is_on_shared_reviews=True))
    return groups


def find_average(groups: Iterable[RankingGroup], result: Result) -> Result | None:
    """Return AVG's result on the reviews of a result, from rankings; None if there is none."""
    for group in groups:
        for line in group.lines:
            if line.is_baseline and have_same_reviews(line.result, result):
                return line.result
    return None


def _has_plain_baseline(pairs: Iterable[tuple[Configuration, Result]]) -> bool:
    return any(configuration.name == BASELINE for configuration, _ in pairs)


def _has_rows(pairs: Iterable[tuple[Configuration, Result]], rows: Protocol) -> bool:
    """Return whether one of the configurations starts from the rows of `comparison_rows`."""
    return any(comparison_rows(configuration) == rows for configuration, _ in pairs)


def own_scheduler(log: ReviewLog) -> str | None:
    """Return the configuration that stands for the learner's scheduler; None if it is unknown.

    With FSRS on, this is the presets' parameters, which Anki runs as FSRS-6's, or Anki's defaults
    if no preset holds any (fsrs-rs: src/model.rs). In a fork of Anki, both may be FSRS-7's. With
    FSRS off, it is Anki's SM-2. The scheduler is also unknown if all presets hold parameters that
    Anki does not run.
    """
    if log.import_summary.fsrs_enabled is None:
        return None
    if not log.import_summary.fsrs_enabled:
        return "Anki-dry-run"
    runs_fsrs7 = bool(find_fsrs7_presets(log))
    presets = log.presets.values()
    if any(preset.active_parameters and not find_preset_fault(preset) for preset in presets):
        return OWN_FSRS_7 if runs_fsrs7 else OWN_FSRS_6
    if runs_fsrs7:
        return "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs"
    return None if find_preset_faults(log) else "FSRS-6-dry-run"


def match_fsrs_version(
    configurations: Sequence[Configuration], log: ReviewLog, protocol: Protocol
) -> list[Configuration]:
    """Return the configurations, with the presets' parameters as the learner's Anki runs them.

    That is as FSRS-6's or, in a fork of Anki, as FSRS-7's.
    """
    own = own_scheduler(log)
    if own not in (OWN_FSRS_6, OWN_FSRS_7):
        return list(configurations)
    matched: dict[str, Configuration] = {}
    for configuration in configurations:
        is_own = configuration.fit == "own" and configuration.name in (OWN_FSRS_6, OWN_FSRS_7)
        if is_own and configuration.name != own:
            match = resolve_configurations(own, protocol)[0]
        else:
            match = configuration
        matched.setdefault(match.name, match)
    return list(matched.values())


def add_own_parameters(
    configurations: Sequence[Configuration], log: ReviewLog, protocol: Protocol
) -> list[Configuration]:
    """Add the presets' own parameters if FSRS-6, which they are compared with, is evaluated.

    If the learner does not schedule with them, they are removed instead.
    """
    own = own_scheduler(log)
    if own not in (OWN_FSRS_6, OWN_FSRS_7):
        return [configuration for configuration in configurations if configuration.fit != "own"]
    matched = match_fsrs_version(configurations, log, protocol)
    names = {configuration.name for configuration in matched}
    if own in names or "FSRS-6" not in names:
        return matched
    return [*resolve_configurations(own, protocol), *matched]


def add_baselines(
    configurations: Sequence[Configuration], *, excludes_deleted: bool
) -> list[Configuration]:
    """Add AVG, before the configurations, for each set of reviews that lacks it.

    `excludes_deleted` says that some models leave out deleted cards
    (`ReviewLog.skips_deleted_cards`). AVG is then added for these models, too.
    """

    def row_protocol_of(configuration: Configuration) -> Protocol:
        if excludes_deleted:
            return configuration.protocol.row_protocol()
        return comparison_rows(configuration)

    with_baseline = {
        row_protocol_of(configuration)
        for configuration in configurations
        if configuration.is_baseline
    }
    baselines: list[Configuration] = []
    for row_protocol in dict.fromkeys(map(row_protocol_of, configurations)):
        if row_protocol in with_baseline:
            continue
        with suppress(InputError):  # AVG cannot take some flags
            for baseline in resolve_configurations(BASELINE, row_protocol):
                if row_protocol_of(baseline) == row_protocol:
                    baselines.append(baseline)
    return [*baselines, *configurations]


def comparison_rows(configuration: Configuration) -> Protocol:
    """Return the flags that decide which reviews are evaluated, without the one for deleted cards.

    In most logs, that one changes nothing, because they have no deleted cards.
    """
    return replace(configuration.protocol.row_protocol(), known_decks_only=False)


def _group_by_learning(
    pairs: list[tuple[Configuration, Result]], reference: str, equivalence: float
) -> Iterator[RankingGroup]:
    """Yield the group of schedulers and that of online models, without repeated baselines."""
    pairs = _drop_repeated_baseline(pairs)
    baselines = [pair for pair in pairs if pair[0].is_baseline]
    baseline = min((result for _, result in baselines), key=_log_loss, default=None)
    references = (
        result
        for configuration, result in pairs
        if configuration.name == reference and not result.invalid_reason
    )
    reference_result = next(references, None)
    # All have the same reviews, so the shortest description is true of all. It does not say that
    # deleted cards are left out, unless all configurations do so.
    plainest = min(
        (configuration for configuration, _ in pairs),
        key=lambda configuration: len(configuration.rows_description),
    )
    rows = plainest.protocol.row_protocol()
    for is_online, members in split_online(pairs, lambda pair: pair[0]):
        yield _make_group(members, rows, is_online, baseline, reference_result, equivalence)


def _drop_repeated_baseline(
    pairs: list[tuple[Configuration, Result]],
) -> list[tuple[Configuration, Result]]:
    """Drop the average without deleted cards if the plain average has the same reviews."""
    leaves_out_deleted = [
        configuration.protocol.known_decks_only
        for configuration, _ in pairs
        if configuration.is_baseline
    ]
    if all(leaves_out_deleted):  # it is the only one
        return pairs
    return [
        pair for pair in pairs if not (pair[0].is_baseline and pair[0].protocol.known_decks_only)
    ]


def split_online(
    members: Sequence[_T], competitor_of: Callable[[_T], Competitor]
) -> Iterator[tuple[bool, list[_T]]]:
    """Yield (False, schedulers with the baseline), then (True, online models).

    If the baseline is the only scheduler, it joins the online models.
    """
    online = [member for member in members if competitor_of(member).is_online]
    schedulers = [member for member in members if not competitor_of(member).is_online]
    if online and all(competitor_of(member).is_baseline for member in schedulers):
        yield True, [*online, *schedulers]
        return
    yield False, schedulers
    if online:
        yield True, online


def _make_group(
    members: list[tuple[Configuration, Result]],
    rows: Protocol,
    is_online: bool,
    baseline: Result | None,
    reference: Result | None,
    equivalence: float,
) -> RankingGroup:
    members = sorted(
        members,
        key=lambda pair: (bool(pair[1].invalid_reason), round(_log_loss(pair[1]), 6), pair[0].name),
    )
    rankable = [
        pair for pair in members if not (pair[1].in_sample_reviews or pair[1].invalid_reason)
    ]
    log_losses = [(configuration, _log_loss(result)) for configuration, result in rankable]
    ranks = {competitor.name: rank for competitor, rank in assign_ranks(log_losses)}
    best = next(
        (result for configuration, result in rankable if ranks[configuration.name] == 1), None
    )
    comparable = {
        configuration.name: result
        for configuration, result in members
        # An invalid result's metrics mean nothing.
        if not configuration.is_baseline and not result.invalid_reason
    }
    to_best = _compare_with(best, comparable)
    to_baseline = _compare_with(baseline, comparable)
    to_reference = _compare_with(reference, comparable)
    # `decide_verdicts` gets all at once: "worse" takes the number of comparisons into account.
    verdicts_on_best = decide_verdicts(
        {name: interval for name, interval in to_best.items() if name in ranks},
        equivalence=equivalence,
    )
    verdicts_on_baseline = decide_verdicts(
        {name: interval for name, interval in to_baseline.items() if name in ranks},
        equivalence=equivalence,
    )

    def decide_standing(name: str) -> Standing:
        if verdicts_on_baseline.get(name) == "worse":
            return Standing.BELOW_BASELINE
        verdict = verdicts_on_best.get(name)
        if verdict is None:
            return Standing.BEST
        if verdict == "better":  # only a tie in log loss with the best could get this verdict
            return Standing.AS_GOOD
        return Standing(verdict)

    def make_line(configuration: Configuration, result: Result) -> RankedResult:
        name = configuration.name
        rank = ranks.get(name)
        relative_to_baseline = None
        if baseline is not None and name in comparable:
            relative_to_baseline = _relative_difference(_log_loss(result), _log_loss(baseline))
        return RankedResult(
            configuration=configuration,
            result=result,
            rank=rank,
            log_loss=_cached_interval(result),
            standing=None if rank is None else decide_standing(name),
            to_best=to_best.get(name),
            to_baseline=to_baseline.get(name),
            to_reference=to_reference.get(name),
            relative_to_baseline=relative_to_baseline,
        )

    lines = tuple(_sort_by_verdict(starmap(make_line, members)))
    return RankingGroup(rows, is_online, lines, equivalence)


def _compare_with(other: Result | None, results: Mapping[str, Result]) -> dict[str, Interval]:
    """Return the differences in log loss from another result, by name."""
    if other is None:
        return {}
    return {
        name: _cached_interval(result, other)
        for name, result in results.items()
        if result is not other
    }


def _sort_by_verdict(lines: Iterable[RankedResult]) -> Iterator[RankedResult]:
    """Sort lines by verdict, keep their order by log loss within each, and renumber their ranks.

    A line without a rank stays with the line above it.
    """
    numbered: list[tuple[int, RankedResult]] = []  # each line with the number of its section
    for section, line in _assign_sections(lines, Standing.BEST):
        numbered.append((_SECTION_ORDER.index(section), line))
    rank = 0
    for _, line in sorted(numbered, key=lambda pair: pair[0]):
        if line.rank is None:
            yield line
        else:
            rank += 1
            yield replace(line, rank=rank)


def assign_ranks(figures: Iterable[tuple[_C, float]]) -> list[tuple[_C, int | None]]:
    """Rank competitors by their log losses, from 1 for the best; the baseline has no rank.

    Log losses are compared to six decimals; ties are sorted by name.
    """
    ranked: list[tuple[_C, int | None]] = []
    rank = 0
    for competitor, _ in sorted(figures, key=lambda pair: (round(pair[1], 6), pair[0].name)):
        if competitor.is_baseline:
            ranked.append((competitor, None))
        else:
            rank += 1
            ranked.append((competitor, rank))
    return ranked


_interval_cache: WeakKeyDictionary[Result, WeakKeyDictionary[Result, Interval]] = (
    WeakKeyDictionary()
)
"""Intervals of results and of their differences, kept as long as the results exist: a ranking is
computed anew whenever a model finishes."""


def _cached_interval(result: Result, other: Result | None = None) -> Interval:
    """Return the interval of a log loss, or of its difference from another result's."""
    intervals = _interval_cache.setdefault(result, WeakKeyDictionary())
    key = other or result
    if key not in intervals:
        interval = log_loss_difference(result, other) if other else log_loss_interval(result)
        assert interval is not None  # both are in one group
        intervals[key] = interval
    return intervals[key]


def _log_loss(result: Result) -> float:
    return result.metrics.log_loss


def _relative_difference(loss: float, baseline: float) -> float | None:
    """Return the difference as a fraction of the baseline's log loss.

    None if the baseline's log loss is 0, as it is if every review was passed.
    """
    return loss / baseline - 1 if round(baseline, 6) > 0 else None
