"""Hold the results of each question as numbers and codes, which `advice.shown` puts into words.

A finding has a recommendation and its probability; its evidence holds the figures behind it, in a
dataclass for that question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeVar

from srs_eval.advice.workload.ranges import RangedFigure
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict

# Candidates
OPTIMIZED = "optimized"  # fitted with all reviews weighing the same
RECENCY = "recency"  # fitted like Anki's Optimize button: newer reviews weigh more
DEFAULTS = "defaults"
ONE_PER_DECK = "one per deck"  # a fit for each deck
AVERAGE = "average"  # the baseline that predicts the share recalled so far
CURRENT = "now"  # the active parameters
SM2 = "sm2"  # Anki's older scheduler
POOLED = "pooled"
SHARED = "one line"  # fitted like POOLED, but presets share everything
SEPARATE = "alone"  # fitted like POOLED, but presets share nothing
TAUGHT = "taught"  # learned from three models, too: see `srs_eval.advice.taught`
FSRS_7 = "FSRS-7"  # fitted by FSRS-7's own training, where the preset runs FSRS-6
ONE_FOR_ALL = "one for all presets"  # fitted to the reviews of all presets


class Recommendation(StrEnum):
    """What a finding recommends."""

    NONE = ""
    # for the parameters of a preset
    KEEP = "keep"
    OPTIMIZE = "optimize"
    POOLED = "pooled"
    ONE_LINE = "one line"
    TAUGHT = "taught"
    CHANGE_TO_FSRS_7 = "FSRS-7"  # and optimize it
    DEFAULTS = "defaults"
    LEFT_OUT = "left out"  # Anki does not run its parameters
    # for presets, or the decks of one
    KEEP_SHARED = "keep shared"
    SPLIT = "split"  # or POOLED
    # for the scheduler
    TURN_FSRS_ON = "turn on"
    STAY_WITH_SM2 = "SM-2"
    # for optimizing each time the reviews have grown by this share
    EVERY_10_PERCENT = "every +10 %"
    EVERY_25_PERCENT = "every +25 %"
    EVERY_50_PERCENT = "every +50 %"
    EVERY_100_PERCENT = "every +100 %"


RECOMMENDATIONS: Mapping[str, Recommendation] = {
    RECENCY: Recommendation.OPTIMIZE,
    POOLED: Recommendation.POOLED,
    SHARED: Recommendation.ONE_LINE,
    TAUGHT: Recommendation.TAUGHT,
    FSRS_7: Recommendation.CHANGE_TO_FSRS_7,
    DEFAULTS: Recommendation.DEFAULTS,
}
"""By candidate, the recommendation to use its parameters."""
SURE = 0.95  # probability from which screens say "sure"
LIKELY = 0.8  # likewise, "likely"
ALL_REVIEWS = "all reviews"  # subject of findings on all reviews
ALL_PRESETS = "all presets"  # subject of findings on several presets together
OVERALL_SUBJECTS = (ALL_PRESETS, ALL_REVIEWS)
CANT_TELL: Literal["can't tell"] = "can't tell"
MIN_REVIEWS_SHOWN = 300  # for showing a log loss by itself
MIN_DAYS_SHOWN = 10  # likewise, and for the interval of a recall group


MAX_WAIT_DAYS = 730
"""Days within which missing data have to come: no learner would wait longer for an answer."""


class Evidence:
    """Base class of the evidence for every question; saved findings name the subclass."""

    conclusion: str  # code of the result if nothing is recommended; CANT_TELL if inconclusive


@dataclass(frozen=True)
class Belief:
    """Belief about a candidate's difference in log loss on the coming reviews."""

    probability: float  # that the candidate is better
    gain: float  # expected reduction of log loss, nats
    low: float  # 95 % of the belief lies between these gains
    high: float

    def lies_within(self, margin: float) -> bool:
        """Return True if neither a gain nor a loss as large as the margin (nats) is believed."""
        return -margin < self.low and self.high < margin


@dataclass(frozen=True)
class MissingData:
    """Data still needed for a verdict; None if unknown, or if this is not what is missing."""

    reviews: int | None = None
    days: int | None = None
    date: str | None = None  # when it will be available, at the learner's pace
    out_of_reach: bool = False  # whether it takes more than MAX_WAIT_DAYS at the learner's pace

    @property
    def can_come(self) -> bool:
        """Return True if something is missing that the learner will have in time."""
        is_missing = self.reviews is not None or self.days is not None
        return is_missing and not self.out_of_reach

    def count_days_to_wait(self, reviews_per_day: float) -> float:
        """Return the days until nothing is missing, at a pace above 0."""
        return max((self.reviews or 0) / reviews_per_day, self.days or 0)

    def mark_reach(self, reviews_per_day: float) -> MissingData:
        """Return this with `out_of_reach` set or not, for a learner with this pace above 0."""
        out_of_reach = self.count_days_to_wait(reviews_per_day) > MAX_WAIT_DAYS
        return replace(self, out_of_reach=out_of_reach)


@dataclass(frozen=True)
class Finding:
    """Result of one question about one preset, or about all of them."""

    question: str  # key of QUESTION_REGISTRY
    subject: str  # the preset's name, ALL_PRESETS, ...
    recommendation: Recommendation = Recommendation.NONE
    probability: float | None = None  # that following it is no worse than not, on coming reviews
    gain: float | None = None  # expected reduction of log loss by the recommendation, nats
    interval: Interval | None = None  # learner's own paired difference behind the finding
    parameters: tuple[float, ...] | None = None  # to paste, if that is likely to help
    reviews: int = 0  # number of reviews behind the finding
    missing: MissingData | None = None
    probabilities: Mapping[str, float] | None = None  # by candidate, for "parameters" only
    evidence: Evidence | None = None
    phi: float | None = None
    """Persistence of the learner's good and bad spells from one day to the next, if they clearly
    last; the intervals behind the finding are then wider than usual."""
    equivalence: float = EQUIVALENCE_MARGIN
    """Smaller differences in log loss count as none."""
    belief: Belief | None = None  # about the recommended change, or the best one if none is
    hardly_matters: bool = False
    """Whether the best change surely neither gains nor loses more than `equivalence`; for
    parameters, it also has to predict the same but for half a point."""

    def __repr__(self) -> str:
        return f"Finding({self.question!r}, {self.subject!r}, says={self.conclusion!r})"

    @property
    def conclusion(self) -> str:
        """Return the code of the recommendation, or of the result if there is none."""
        if self.recommendation or self.evidence is None:
            return str(self.recommendation)
        return self.evidence.conclusion


@dataclass(frozen=True)
class Unanswered(Evidence):
    """Reason why a question could not be answered."""

    reason: str
    conclusion: str = "no answer"


@dataclass(frozen=True)
class Candidate:
    """Possible predictor of reviews, such as parameters that a preset could have."""

    name: str
    log_loss: Interval | None = None  # on reviews after its training
    difference: Interval | None = None  # on these, minus the current parameters
    verdict: Verdict | None = None
    belief: Belief | None = None  # about its gain over the current parameters


@dataclass(frozen=True)
class PresetParameters(Evidence):
    """Evidence on a preset's parameters."""

    is_fitted: bool  # False if the defaults are active
    is_known: bool  # whether the file says which parameters are active
    fsrs_is_off: bool
    candidates: tuple[Candidate, ...]  # the current parameters first
    held_out: tuple[Candidate, ...]  # on all held-out reviews, compared with OPTIMIZED
    compared_candidate: str = RECENCY
    """The best change: recommended, or not good enough to replace the current parameters."""
    search: str | None = None  # Anki's search for training reviews, if it is not the whole preset
    excluded_majority: str = ""  # "suspended" or "deleted", if nearly all reviewed cards are
    is_still_advised: bool = False
    """Whether the change is advised only because it was likely at an earlier milestone."""
    can_be_fitted: bool = True
    """False if there are so few reviews that Anki would fit next to nothing to them."""
    conclusion: str = ""


def lacks_own_evidence(finding: Finding) -> bool:
    """Return True if the learner's own reviews give no evidence on a preset's parameters."""
    evidence = finding.evidence
    if finding.recommendation != Recommendation.KEEP or not isinstance(evidence, PresetParameters):
        return False
    held_out = evidence.held_out[0].log_loss if evidence.held_out else None
    if held_out is not None and held_out.reviews >= intervals.MIN_REVIEWS:
        return False
    return all(candidate.difference is None for candidate in evidence.candidates)


@dataclass(frozen=True)
class ParameterSummary(Evidence):
    """Presets by recommendation, and candidates on the held-out reviews of all presets."""

    by_recommendation: tuple[tuple[Recommendation, tuple[str, ...]], ...]
    held_out: tuple[Candidate, ...]
    conclusion: str = "see each preset"


@dataclass(frozen=True)
class UnsupportedParameters(Evidence):
    """Sentence that explains why Anki does not run a preset's stored parameters."""

    sentence: str
    conclusion: str = ""


RUNS_FSRS_7: Literal["FSRS-7"] = "FSRS-7"
"""Conclusion for presets that run FSRS-7; whether these can share parameters is not assessed."""
Decision = Literal["keep shared", "split", "can't tell"]
SharingUnit = Literal["preset", "deck"]


@dataclass(frozen=True)
class SharingDifference:
    """Log loss on reviews of presets (or decks), by one kind of parameters minus shared ones."""

    subject: str  # the preset's name, or "all"
    parameters: str  # "split" or "pooled"
    difference: Interval
    decision: Decision


@dataclass(frozen=True)
class Sharing(Evidence):
    """Benefit of separate parameters for presets, or for the decks of one preset."""

    unit: SharingUnit
    unit_count: int  # of those with usable reviews
    differences: tuple[SharingDifference, ...] = ()  # none: too few reviews
    pairs: tuple[tuple[str, str, Interval, Verdict], ...] = ()
    """Names A and B of two presets; log loss of A's parameters on B's reviews, minus that of B's
    own; the verdict on this difference."""
    groups: tuple[tuple[str, ...], ...] = ()  # presets that could share, by the pairs
    conclusion: Literal["too few", "one preset", "FSRS-7"] = "too few"
    """The code if nothing is recommended."""
    has_unused_presets: bool = False  # whether further presets have reviews, but no usable ones
    has_unreviewed_presets: bool = False  # whether there are further presets, all without reviews


MIN_REVIEWS_TO_FIT = 64
"""Usable reviews of a preset below which Anki's optimizer gives almost the defaults."""
MIN_REVIEWS_CHECKED = 100  # fewest reviews after a button, or of mature cards, to check them
MIN_HARD_SHARE = 0.03
"""Share of Hard from which on recall can be well below what it seems: if half of these answers
were lapses, by over a point."""
LAST_90_DAYS = "last 90 days"
"""Name of the group of reviews of the 90 days before the last review."""


@dataclass(frozen=True)
class RecallGroup:
    """Group of reviews: the share recalled, and the share that the active parameters expected."""

    name: str  # "all", "young cards", LAST_90_DAYS, "2024-10", "88–92 %"
    recalled: Interval
    expected: float


class RetentionCause(StrEnum):
    """A reason why the share recalled differs from the desired retention."""

    SHORTEST_INTERVAL = "shortest interval"
    """Cards due after one day, Anki's shortest interval, of which the active parameters expect less
    than the desired retention on that day."""
    SCHEDULED_FOR_LESS = "scheduled for less"
    """On the due days of the other cards, the active parameters expect less than the desired
    retention: intervals are rounded to days, and some were set by earlier settings."""
    SCHEDULED_FOR_MORE = "scheduled for more"
    LATE = "late"
    EARLY = "early"
    EXPECTED_TOO_MUCH = "expected too much"
    EXPECTED_TOO_LITTLE = "expected too little"


@dataclass(frozen=True)
class RetentionPart:
    """The part of a difference from the desired retention that has one cause."""

    cause: RetentionCause
    gap: Interval  # share of reviews; negative if less is recalled because of it


@dataclass(frozen=True)
class Retention(Evidence):
    """Share recalled in a preset's reviews of later days, and today's desired retention.

    The four gaps add up to recalled minus desired.
    """

    conclusion: Literal["below", "above", "no matter", "can't tell", "not asked for"]
    groups: tuple[RecallGroup, ...]  # all reviews first
    desired: float | None  # None if unknown, and while FSRS is off
    fsrs_is_off: bool
    expectation_gap: Interval  # recalled minus expected when the reviews were done
    shortest_gap: Interval | None = None
    """Shortfall of the cards of `RetentionCause.SHORTEST_INTERVAL`, averaged over all reviews; None
    if desired retention or the due days are unknown."""
    schedule_gap: Interval | None = None
    """Recall expected on the due days, minus desired retention, with `shortest_gap` removed;
    None if either is unknown."""
    timing_gap: Interval | None = None
    """Recall expected when the reviews were done, minus that on the due days; None if unknown."""
    parts: tuple[RetentionPart, ...] = ()
    """Parts of the difference that are certain and large enough to matter, the largest first."""
    true_retention: float | None = None
    """Share that Anki calls True Retention, over all time; None if intervals are unknown."""
    hard_share: float = 0.0
    """Share of Hard among the answers to reviews: it counts as recalled, and may hide lapses."""


_CAUSES = {
    "shortest_gap": (RetentionCause.SHORTEST_INTERVAL, None),
    "schedule_gap": (RetentionCause.SCHEDULED_FOR_LESS, RetentionCause.SCHEDULED_FOR_MORE),
    "timing_gap": (RetentionCause.LATE, RetentionCause.EARLY),
    "expectation_gap": (RetentionCause.EXPECTED_TOO_MUCH, RetentionCause.EXPECTED_TOO_LITTLE),
}
"""Causes of each gap of `Retention` below and above zero; None if it is never on that side."""
_MIN_PART = 0.01  # share of reviews; a smaller part is not worth naming


def find_retention_parts(
    retentions: Sequence[Retention], side: Literal["below", "above"]
) -> tuple[RetentionPart, ...]:
    """Return the parts of a difference from the desired retention, averaged over presets.

    Only parts on the same side as the difference are returned, if their interval excludes zero and
    they are at least a percentage point. The largest part comes first.
    """
    reviews = [retention.groups[0].recalled.reviews for retention in retentions]
    parts = []
    for name, (cause_below, cause_above) in _CAUSES.items():
        gaps = [getattr(retention, name) for retention in retentions]
        if None in gaps:
            continue
        gap = _average_gaps(gaps, reviews)
        if side == "below" and gap.high < 0 and gap.estimate <= -_MIN_PART:
            parts.append(RetentionPart(cause_below, gap))
        if side == "above" and cause_above and gap.low > 0 and gap.estimate >= _MIN_PART:
            parts.append(RetentionPart(cause_above, gap))
    return tuple(sorted(parts, key=lambda part: -abs(part.gap.estimate)))


NEGLIGIBLE_POINTS = 2  # percentage points; a smaller shortfall does not matter


def count_points_short(recalled: Interval, desired: float) -> int:
    """Return the shortfall in percentage points, computed from the rounded figures."""
    return round(100 * desired) - round(100 * recalled.estimate)


def falls_short(recalled: Interval, desired: float) -> bool:
    """Return True if recall surely falls short of the desired retention, and noticeably."""
    has_enough_reviews = recalled.reviews >= MIN_REVIEWS_SHOWN
    is_noticeable = count_points_short(recalled, desired) >= NEGLIGIBLE_POINTS
    return has_enough_reviews and is_noticeable and recalled.high < desired


def find_shortfall_parts(retentions: Sequence[Retention]) -> tuple[RetentionPart, ...]:
    """Return the causes of a shortfall over all presets, the largest first; () if there is none."""
    requested = [retention for retention in retentions if retention.desired is not None]
    if not any(retention.conclusion == "below" for retention in requested):
        return ()
    recalled = [retention.groups[0].recalled for retention in requested]
    overall = _average_gaps(recalled, [interval.reviews for interval in recalled])
    if not falls_short(overall, average_desired(requested)):
        return ()
    return find_retention_parts(requested, "below")


def average_desired(retentions: Sequence[Retention]) -> float:
    """Return the desired retention of presets that have one, averaged by reviews."""
    total = sum(retention.groups[0].recalled.reviews for retention in retentions)
    return sum(
        (retention.desired or 0.0) * retention.groups[0].recalled.reviews / total
        for retention in retentions
    )


def _average_gaps(gaps: Sequence[Interval], reviews: Sequence[int]) -> Interval:
    """Return the gaps' average, weighted by reviews.

    Their half-widths are averaged, too, as if all gaps erred in the same direction.
    """
    total = sum(reviews)
    weights = [count / total for count in reviews]
    estimate = sum(weight * gap.estimate for weight, gap in zip(weights, gaps, strict=True))
    half_width = sum(weight * gap.half_width for weight, gap in zip(weights, gaps, strict=True))
    return replace(gaps[0], estimate=estimate, half_width=half_width, reviews=total)


@dataclass(frozen=True)
class Calibration(Evidence):
    """Share recalled among reviews for which the active parameters predict about the same."""

    conclusion: Literal["below", "above", "no matter", "can't tell"]
    nearest_bin: RecallGroup | None
    """Predictions of about 90 %, or the nearest to it with enough reviews."""
    overall: RecallGroup
    bins: tuple[RecallGroup, ...]
    fsrs_is_off: bool


@dataclass(frozen=True)
class Month:
    """Held-out reviews of a calendar month, or of 30 days if there are no dates."""

    name: str  # "2024-10", "days 31-60"
    recalled: Interval  # share
    predicted: float  # mean p
    log_loss: Interval

    @property
    def reviews(self) -> int:
        return self.recalled.reviews


@dataclass(frozen=True)
class Months(Evidence):
    """FSRS-6 by month; `conclusion` compares the last month's log loss with the months before."""

    conclusion: Literal["below", "above", "no matter", "can't tell"]
    months: tuple[Month, ...]
    tells_recall: bool = True
    """Whether to show recall here. If presets can be evaluated, `Retention` shows it for all
    reviews, so that of held-out reviews is omitted."""


@dataclass(frozen=True)
class DayEffect(Evidence):
    """Benefit of knowing how the day goes, the time of day or the session."""

    conclusion: Literal["matters", "hardly matters", "does not matter", "can't tell", "unknown"]
    worth: Interval | None = None  # share of FSRS-6's log loss


@dataclass(frozen=True)
class DayState:
    """Recall on one day; `state` is what the day adds to the logit of recall, with a 95 % band."""

    name: str  # "2024-10-01", "day 12"
    recalled: float
    expected: float  # by FSRS-6
    state: Interval


@dataclass(frozen=True)
class DayStates(Evidence):
    """Days with held-out reviews; from the day `since` on, all states have the last one's sign."""

    conclusion: Literal["as usual", "more forgotten", "less forgotten"]
    since: str
    days: tuple[DayState, ...]


@dataclass(frozen=True)
class Rival:
    """Comparison of FSRS-6, fitted to earlier reviews, with a rival on the same reviews."""

    name: str
    kind: Literal["older scheduler", "average", "brought along", "FSRS"]
    log_loss: Interval  # of the rival
    difference: Interval  # FSRS-6 minus the rival
    verdict: Verdict | Literal[""]  # on FSRS-6: "worse" if the rival predicts better
    saved: Interval  # share of the rival's log loss that FSRS-6 saves


@dataclass(frozen=True)
class Fit(Evidence):
    """Quality of FSRS-6's predictions, and whether to switch to it."""

    conclusion: Literal["well", "a little", "no better", "worse", "can't tell"]
    parameter_source: Literal["stored", "defaults", "optimized"]
    """The parameters that `conclusion` is about."""
    saved: Interval  # share of the average's log loss that these save
    log_loss: Interval  # of FSRS-6, fitted to earlier reviews
    rivals: tuple[Rival, ...]
    fsrs_is_off: bool
    current_scheduler: Rival | None = None  # scheduler in use instead of FSRS
    defaults_verdict: Verdict | None = None  # FSRS's defaults compared with it
    would_run_fsrs7: bool = False  # a fork of Anki would run FSRS-7, once FSRS is on
    excluded_majority: str = ""  # "suspended" or "deleted", if nearly all reviewed cards are

    @property
    def seems_to_beat_average(self) -> bool:
        """Return whether FSRS predicts at least as well as guessing the average, as far as known.

        Without that, a better log loss than another scheduler's is no reason to change to it.
        """
        return self.conclusion not in ("no better", "worse") and not self.saved.estimate < 0

    @property
    def has_older_scheduler(self) -> bool:
        """Return whether SM-2, Anki's older scheduler, predicted these reviews, too.

        They have to be enough for showing a log loss by itself.
        """
        has_enough = self.log_loss.reviews >= MIN_REVIEWS_SHOWN
        return has_enough and self.sm2 is not None

    @property
    def sm2(self) -> Rival | None:
        """Return SM-2, Anki's older scheduler, if it predicted these reviews, too."""
        return next(iter(self.rivals_of_kind("older scheduler")), None)

    def rivals_of_kind(self, kind: str) -> list[Rival]:
        """Return the rivals of one kind."""
        return [rival for rival in self.rivals if rival.kind == kind]


@dataclass(frozen=True)
class HealthCheck:
    """Anki's health check: both ratios to the usual figures, and their limits."""

    version: str
    log_loss: float
    rmse_bins: float
    log_loss_ratio: float
    rmse_ratio: float
    log_loss_limit: float
    rmse_limit: float

    @property
    def passed(self) -> bool:
        return self.log_loss_ratio <= self.log_loss_limit or self.rmse_ratio <= self.rmse_limit


@dataclass(frozen=True)
class Health(Evidence):
    """Comparison of FSRS-6 with the older scheduler, and Anki's own health check."""

    sm2: Rival | None
    check: HealthCheck | None
    runs_fsrs7: bool = False  # Anki's check is then skipped, because it is for FSRS-6
    fsrs_is_off: bool = False
    conclusion: str = "can't tell"  # if no reviews are held out


@dataclass(frozen=True)
class ComparedModel(Candidate):
    """Figures of a model on the held-out reviews; its difference is from optimized FSRS-6."""

    rmse_bins: float = math.nan
    auc: float | None = None
    is_own: bool = False  # parameters or predictions supplied by the user


@dataclass(frozen=True)
class ModelComparison(Evidence):
    """Compared models, the best first; `conclusion` is the name of the best."""

    conclusion: str
    models: tuple[ComparedModel, ...]
    excluded_reviews: int  # held-out reviews without a prediction by every model
    unused_predictions: Mapping[str, int] = field(default_factory=dict)
    """Number of predictions in a file that belong to no held-out review, by model."""


@dataclass(frozen=True)
class OptimizationFrequency(Evidence):
    """Cost of optimizing less often than at every +2 % reviews.

    The finding's `recommendation` says how often is enough.
    """

    conclusion: Literal["as good", "safe"]  # shown for this learner, or safe for everyone
    costs: tuple[Candidate, ...] = ()  # for each lower frequency; their differences are the costs


@dataclass(frozen=True)
class ParameterSpread:
    """Fitted parameter with its standard deviations: over resampled days, and between learners."""

    fitted: float
    day_sd: float
    learner_sd: float
    is_noise: bool


@dataclass(frozen=True)
class ParameterNoise(Evidence):
    """Parameters with their spreads.

    A parameter is noise if it moves by more than half of the spread between learners.
    """

    conclusion: str  # "3 of 21", or CANT_TELL
    parameters: tuple[ParameterSpread, ...] = ()


@dataclass(frozen=True)
class RecallAfterButton:
    """Share recalled at reviews after a button, and by how much FSRS expects more."""

    button: str
    recalled: float
    bias: Interval  # expected minus recalled


_MAX_HONEST_CHANCE = 0.04
"""Hard counts as misused if honest use would show so little growth with at most this chance."""
_SMALL_W15 = 0.056
"""One published user in ten has a smaller growth after Hard, relative to Good's."""


@dataclass(frozen=True)
class LearningFromHard:
    """Growth of memory at reviews answered with Hard, on held-out reviews after them."""

    recalled: float  # share of the reviews after Hard
    unchanged: float  # what it would be if Hard left memory as it was
    hard: Interval  # logarithm of the factor on stability at a review answered with Hard
    good: Interval  # the same with Good or Easy
    chance: float  # that somebody who presses Hard for recalled cards shows so little growth

    @property
    def is_misused(self) -> bool:
        """Return whether Hard is most likely pressed for forgotten cards."""
        return self.hard.days >= intervals.MIN_DAYS and self.chance <= _MAX_HONEST_CHANCE

    @property
    def is_honest(self) -> bool:
        """Return whether memory surely grows at Hard, and not only a little."""
        return self.hard.days >= intervals.MIN_DAYS and self.hard.low > self._little_growth

    @property
    def _little_growth(self) -> float:
        """Growth at Hard up to which memory grows only a little, as a logarithm like `hard`."""
        growth = math.exp(max(self.good.estimate, 0.0)) - 1
        return math.log1p(_SMALL_W15 * growth)

    def estimate_missing_data(self, reviews: int, days: int) -> MissingData:
        """Return the data still needed to tell whether Hard is misused, after so many reviews.

        More reviews tell if memory seems to shrink at Hard, or to grow by more than a little; if it
        grows by a little, as it does for some honest learners, they do not.
        """
        if not intervals.has_enough_data(replace(self.hard, reviews=reviews, days=days)):
            return count_missing_data(reviews, days)
        effect = 0.0
        if self.hard.estimate < 0.0:
            effect = self.hard.estimate
        elif self.hard.estimate > self._little_growth:
            effect = self.hard.estimate - self._little_growth
        if effect == 0.0:
            return MissingData()
        growth = replace(self.hard, estimate=effect, reviews=reviews, days=days)
        more_reviews = intervals.estimate_more_reviews(growth, equivalence=0.0)
        return MissingData(more_reviews).mark_reach(reviews / days)


@dataclass(frozen=True)
class HardButton(Evidence):
    """Evidence on whether Hard behaves like Again.

    The finding's interval is the change in log loss if Hard counts as Again.
    """

    conclusion: Literal["yes", "no", "seldom", "can't tell"]
    share: float  # of the answers to reviews
    after: tuple[RecallAfterButton, ...] = ()
    learning: LearningFromHard | None = None  # None without reviews after Hard


@dataclass(frozen=True)
class StepTiming:
    """Next answers on the same day after one situation, and the delay until recall is as desired.

    A situation is an answer that a learning or relearning step follows, such as "first Hard".
    """

    situation: str
    conclusion: Literal["longer", "shorter", "as it is", "can't tell"]
    answers: int
    usual_minutes: float  # median delay, minutes
    recalled: Interval
    step: float | None  # minutes; None if none is within a day, or unknown
    delay: tuple[float, float, float] | None = None
    """Minutes until recall falls to the desired retention, with their lower and upper bound."""
    observed_delays: tuple[float, float] | None = None  # minutes, the range of nearly all delays
    unknown_reason: Literal["", "few", "alike", "no curve", "flat"] = ""
    """Why there is no delay: few answers, delays too much alike, no curve fits the answers, or
    recall does not surely fall with the delay."""


@dataclass(frozen=True)
class StepTimings(Evidence):
    """Times within a day at which recall falls to the `desired` retention, by situation."""

    conclusion: Literal["longer", "shorter", "as it is", "see each step", "can't tell"]
    desired: float
    steps: tuple[StepTiming, ...]


@dataclass(frozen=True)
class TypicalCard:
    """Card with the median interval and state of its kind, and its next intervals by button."""

    kind: str  # "new", "young" or "mature"
    interval: int  # days
    seconds: tuple[float, ...]  # until the card comes again, by button


@dataclass(frozen=True)
class ButtonPreview(Evidence):
    """Next intervals that the buttons of a preset would show, by candidate parameters."""

    retention: float
    by_candidate: tuple[tuple[str, tuple[TypicalCard, ...]], ...]  # by name of the parameters
    conclusion: str = "see figures"


@dataclass(frozen=True)
class Percentile:
    """Share of similar published learners with a worse figure, and quantiles of their figures."""

    metric: str
    figure: float
    share_worse: float
    quantiles: tuple[tuple[float, float], ...]  # (share of learners, figure below which they lie)
    share_worse_range: tuple[float, float] | None = None
    """95 % interval of `share_worse`, as the learner's days vary; None if unknown."""

    @property
    def people_worse_of_100(self) -> int:
        """Number of people out of 100 with a worse figure."""
        return round(100 * self.share_worse)

    @property
    def people_worse_range(self) -> tuple[int, int]:
        """Fewest and most people out of 100 with a worse figure; equal if unknown."""
        low, high = self.share_worse_range or (self.share_worse, self.share_worse)
        return round(100 * low), round(100 * high)


@dataclass(frozen=True)
class Percentiles(Evidence):
    """Position of a learner's figures among those of similar published learners, by metric."""

    conclusion: str  # "better than 61 of 100"
    metrics: tuple[Percentile, ...]  # log loss first


@dataclass(frozen=True)
class Leech:
    """Card forgotten far more often than cards ordinarily differ."""

    card_id: int
    reviews: int
    lapses: int
    usual: float  # lapses of the learner's other cards after such intervals
    chance: float  # at most so likely is it that an ordinary card is forgotten like this


CheckLevel = Literal["look", "fine", "not yet"]
CheckProblem = Literal["", "few", "like Again", "too many", "seldom", "longer", "shorter"]
"""Code of what a check found; "few": too few reviews to tell."""


@dataclass(frozen=True)
class Check:
    """One check and whether it found a problem; shares are from 0 to 1."""

    name: str
    """One of `checks._CHECK_ORDER`: "overdue", "leeches", a button, ..."""
    level: CheckLevel
    count: int = 0  # of cards or answers; the longest gap in days
    total: int = 0  # all cards or answers
    minutes: float | None = None  # minutes that overdue cards take, or the best step
    is_bound: bool = False  # whether the best step is known only to lie beyond `minutes`
    last_review_date: str | None = None  # for gap and overdue: day of the last review, if long ago
    gap_end_date: str | None = None  # day on which the longest gap ended, if dates are known
    recalled: Interval | None = None  # for mature cards, or at the review after a button
    expected: float | None = None  # recall expected by FSRS
    subject: str = ""  # the preset, for ignored and mature cards, and for steps
    ignore_date: str | None = None  # before which Anki ignores cards, if it ignores all of a preset
    problem: CheckProblem = ""
    timing: StepTiming | None = None  # for steps: the one that the problem is about
    desired: float | None = None  # for steps: the retention at which a card should come again
    probability: float | None = None
    """For mature cards: that recall is over three points below what the parameters expect."""
    leeches: tuple[Leech, ...] = ()  # the worst ones
    learning: LearningFromHard | None = None  # for Hard


@dataclass(frozen=True)
class Checks(Evidence):
    """All checks that the source allows, worst first."""

    conclusion: Literal["look", "fine", "can't tell"]
    checks: tuple[Check, ...]
    are_from_grades: bool = False  # whether buttons stand for SuperMemo's grades


# Questions that are answered last

DateConclusion = Literal["date", "maybe", "empty", "no matter", "no date to try", "can't tell"]


@dataclass(frozen=True)
class DateCandidate:
    """Parameters fitted without the cards that were learned before a date."""

    date: str  # "2024-01-01"
    training_reviews: int  # that the date leaves today
    log_loss: Interval  # on the held-out reviews
    difference: Interval  # minus that of parameters fitted to all cards
    verdict: Verdict


@dataclass(frozen=True)
class IgnoreBefore(Evidence):
    """Dates that a preset could have, the earliest first.

    `conclusion` is "date" if `best` predicts better than no date, and "maybe" if it is ahead by
    more than what counts as equal, but by chance perhaps. Else it is "empty" if no date is set, or
    if the one that is set predicts worse; "no matter" if that predicts about as well; and "no date
    to try" if the reviews do not reach back far enough.
    """

    conclusion: DateConclusion
    dates: tuple[DateCandidate, ...] = ()
    current: str | None = None  # the preset's date now, if it leaves out any card
    best: str | None = None
    first_review: str = ""  # day of the first review of a later day
    training_reviews: int = 0  # of all cards


LOAD_DAYS = 30  # days for which the cards that come due are counted


@dataclass(frozen=True)
class DueCards:
    """Review cards as they come due, each once."""

    due_at_once: int  # today or before
    by_day: tuple[int, ...]  # on each of the 30 days, those due at once on the first
    recall: float
    """Mean recall that the new parameters expect when the cards are due, or today if that is
    later."""


@dataclass(frozen=True)
class Reschedule(Evidence):
    """Effects of rescheduling a preset's cards by the parameters that Optimize would fit.

    `conclusion` is "no need" if the cards are hardly recalled more or less because of it, "yes" if
    they are, and "backlog" if many more cards would then be due at once.
    """

    conclusion: Literal["yes", "no need", "backlog", "few reviews", "few cards", "no schedule"]
    cards: int = 0  # review cards with a review
    sooner: int = 0  # cards whose interval gets shorter by a day and 10 % or more
    later: int = 0
    days_moved: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Days by which cards move: 10 % move by less (below 0: sooner), the median, 10 % by more."""
    desired: float = 0.9
    fsrs_is_off: bool = False
    reviews_a_day: float = 0.0  # the learner's pace
    without: DueCards | None = None
    rescheduled: DueCards | None = None

    @property
    def added_at_once(self) -> int:
        """Number of cards that are due at once because of rescheduling."""
        assert self.without is not None
        assert self.rescheduled is not None
        return self.rescheduled.due_at_once - self.without.due_at_once


@dataclass(frozen=True)
class FirstInterval:
    """First interval after one button: that of the parameters, and that of the reviews alone.

    Intervals are days until recall falls to the desired retention.
    """

    button: str
    conclusion: Literal["longer", "shorter", "as it is", "can't tell"]
    """What the interval should be, judging by the reviews."""
    cards: int  # first answers with this button that a review on a later day followed
    share: float  # of all first answers that such a review followed
    elapsed_days: float  # until that review, the median
    recalled: float  # share recalled at it
    expected: float  # by the current parameters
    interval: float  # by the current parameters
    own: float | None = None  # by the learner's first reviews alone; None for too few
    low: float | None = None  # 95 % of the drawn sets are between these
    high: float | None = None


@dataclass(frozen=True)
class ButtonIntervals(Evidence):
    """First intervals by button; `conclusion` is that of the buttons, if they agree."""

    conclusion: Literal["longer", "shorter", "as it is", "see each button", "can't tell"]
    buttons: tuple[FirstInterval, ...] = ()
    desired: float = 0.9
    is_fitted: bool = False  # False if the defaults are in force
    fsrs_is_off: bool = False


NEAR_TEN = 9.0  # a difficulty above this counts as near 10


@dataclass(frozen=True)
class AnswerShares:
    """Shares of Again and Hard among the answers to some cards."""

    again: float
    hard: float


@dataclass(frozen=True)
class DifficultyGroup:
    """Reviews of cards whose difficulty before the review was in a range."""

    low: float
    high: float
    recalled: Interval
    expected: float  # by the current parameters


@dataclass(frozen=True)
class Difficulty(Evidence):
    """Cards with a difficulty near 10, why they have it, and how they are recalled.

    `conclusion` is "few" if few cards are near 10. Otherwise it compares what is recalled of these
    cards with what is expected: "as expected", "below" or "above".
    """

    conclusion: Literal["few", "as expected", "below", "above", "can't tell"]
    cards: int = 0
    cards_near_ten: int = 0
    answers: AnswerShares | None = None  # to the cards near 10; None without any
    other_answers: AnswerShares | None = None  # to the others
    after_first: tuple[float, ...] = ()  # difficulty after a first Again, Hard, Good, Easy
    after_answer: tuple[float, ...] = ()  # of a card of difficulty 5, after each button
    good_to_nine: int | None = None
    """Number of Goods that bring a typical card near 10 down to 9; None if more than 200."""
    difference: Interval | None = None  # recalled minus expected, of reviews of cards near 10
    groups: tuple[DifficultyGroup, ...] = ()
    is_unseen: bool = False  # whether the parameters cannot have been fitted to these reviews
    fsrs_is_off: bool = False


@dataclass(frozen=True)
class NextOptimization(Evidence):
    """When a preset has grown enough to be optimized again.

    `conclusion` is "now" if it has, "later" if not, and "never" if that takes over two years; it is
    "defaults" if it was not optimized yet, "unknown" if the source does not say when, and "few
    reviews" if Anki can fit next to nothing to them.
    """

    conclusion: Literal["now", "later", "never", "defaults", "unknown", "few reviews"]
    growth: float = 0.1  # share by which the reviews should grow
    optimized_on: str = ""  # day on which the preset was last changed
    reviews_then: int = 0
    reviews_now: int = 0
    missing: MissingData | None = None  # until the next time, or after optimizing today
    costs: tuple[Candidate, ...] = ()  # of optimizing less often, as under "often"


class FailedCheckCause(StrEnum):
    """A possible reason why FSRS predicts a preset's reviews worse than usual."""

    HARD = "Hard"  # pressed for forgotten cards
    CHANGE = "change"  # of the memory or the use of buttons, at a date
    DECKS = "decks"  # that differ within the preset
    LEECHES = "leeches"
    SPELLS = "spells"  # good and bad ones that last
    FEW_REVIEWS = "few reviews"


@dataclass(frozen=True)
class HealthRemedies(Evidence):
    """Possible causes of a failed check, in the order of `FailedCheckCause`."""

    conclusion: Literal["passed", "failed", "not checked"]
    check: HealthCheck | None = None
    causes: tuple[FailedCheckCause, ...] = ()
    date: str | None = None  # for CHANGE: the date for "Ignore cards reviewed before"
    decks: int = 0  # for DECKS: how many differ
    leeches: int = 0
    reviews: int = 0  # that the check rests on
    sm2: Rival | None = None  # the older scheduler, compared with FSRS on these reviews


BY_FSRS_6 = "FSRS-6"
BY_FSRS_7 = "FSRS-7"
BY_TODAY = "today"
"""Schedules and memories of `SwitchMinutes`."""


@dataclass(frozen=True)
class Fsrs7Rival:
    """Optimized FSRS-7 compared with a rival on the same reviews, which neither has seen."""

    name: str  # RECENCY: FSRS-6, optimized; CURRENT or SM2: today's scheduler
    log_loss: Interval  # of the rival
    fsrs7_log_loss: Interval
    difference: Interval  # FSRS-7 minus the rival
    verdict: Verdict  # on FSRS-7
    saved: Interval  # share of the rival's log loss that FSRS-7 saves


@dataclass(frozen=True)
class SwitchMinutes:
    """Minutes a day under FSRS-7's schedule and another one, where memory is equal.

    `memory` is the model that the simulated memory follows.
    """

    schedule: str  # BY_FSRS_6 or BY_TODAY
    memory: str  # BY_FSRS_7 or BY_FSRS_6
    minutes: float  # of the other schedule
    recalled: float  # share of the reviews remembered under it
    known: float  # cards known at the end
    extra_minutes: RangedFigure | None
    """FSRS-7's minutes minus these, to remember the same share; None if that is out of reach."""
    extra_minutes_same_known: RangedFigure | None  # to know as many cards

    @property
    def change(self) -> float | None:
        """The extra minutes to remember the same share, as a share of the other schedule's."""
        if self.extra_minutes is None or not self.minutes > 0.0:
            return None
        return self.extra_minutes.estimate / self.minutes


@dataclass(frozen=True)
class Fsrs7Switch(Evidence):
    """What a learner would gain from FSRS-7, and what it would cost.

    `conclusion` compares it with FSRS-6, both optimized.
    """

    conclusion: Literal["better", "as good", "worse", "can't tell"]
    can_run: bool  # whether the learner's program can run FSRS-7
    runs_it: bool  # whether FSRS-7 already schedules all of the presets
    fsrs_is_off: bool = False
    rivals: tuple[Fsrs7Rival, ...] = ()  # FSRS-6 first; () without held-out reviews
    is_about_minutes: bool = False
    """False for one of several presets, whose minutes are simulated together with the others'."""
    minutes: tuple[SwitchMinutes, ...] = ()
    moves: Reschedule | None = None  # None for presets that FSRS-7 schedules already
    cards_beyond_ten_years: int = 0
    """Cards that FSRS-7 would show again only after ten years or more."""
    checks: tuple[HealthCheck, ...] = ()
    """The forks' health checks of FSRS-7; () where they make none, for several presets together,
    and for reviews that are not Anki's."""


@dataclass(frozen=True)
class Fsrs7Preview:
    """FSRS-7 beside FSRS-6 in the ranking, both optimized."""

    verdict: Verdict  # on FSRS-7
    saved: Interval  # share of FSRS-6's log loss that FSRS-7 saves


@dataclass(frozen=True)
class OnlyFsrs7(Evidence):
    """No answer, because it would be about FSRS-6 and all presets run FSRS-7."""

    conclusion: str = RUNS_FSRS_7


BY_TEMPLATE = "card template"
BY_FIRST_ANSWER = "first answer"
YesNo = Literal["yes", "no", "can't tell"]


@dataclass(frozen=True)
class CardDivision:
    """Log loss with parameters for each kind of a preset's cards, minus that with one set."""

    name: str  # BY_TEMPLATE or BY_FIRST_ANSWER
    reviews: tuple[int, ...]  # of each kind
    difference: Interval
    conclusion: YesNo  # whether the kinds should have their own parameters
    kinds: tuple[str, ...] = ()  # names of the kinds, if they are known


@dataclass(frozen=True)
class CardKinds(Evidence):
    """Divisions of a preset's cards by kind; "no" also if there are no two kinds to compare."""

    conclusion: YesNo
    divisions: tuple[CardDivision, ...] = ()


EvidenceT = TypeVar("EvidenceT", bound=Evidence)


def get_evidence(finding: Finding, kind: type[EvidenceT]) -> EvidenceT:
    """Return the finding's evidence, which must be of the given type."""
    assert isinstance(finding.evidence, kind)
    return finding.evidence


def make_unanswered(question: str, reason: str) -> Finding:
    """Return a finding that stands for a question without an answer."""
    return Finding(question, ALL_REVIEWS, evidence=Unanswered(reason))


def make_fsrs7_finding(question: str) -> Finding:
    """Return a finding for a question about FSRS-6, if all presets run FSRS-7."""
    return Finding(question, ALL_PRESETS, evidence=OnlyFsrs7())


def estimate_missing_data(difference: Interval, margin: float = EQUIVALENCE_MARGIN) -> MissingData:
    """Return the data still needed for a verdict on an inconclusive difference.

    Differences within `margin` hardly matter. The result is empty if more reviews would not help,
    or if over 20 times as many as now would be needed. What cannot come in time even with reviews
    on every day is marked as out of reach.
    """
    if not intervals.has_enough_data(difference):
        return count_missing_data(difference.reviews, difference.days)
    missing = MissingData(intervals.estimate_more_reviews(difference, equivalence=margin))
    return missing.mark_reach(difference.reviews / difference.days)


def count_missing_data(
    reviews: int,
    days: int,
    fewest: int = intervals.MIN_REVIEWS,
    fewest_days: int = intervals.MIN_DAYS,
) -> MissingData:
    """Return the reviews and days missing from the minimum, by default that of any verdict."""
    missing_reviews = fewest - reviews
    missing_days = fewest_days - days
    return MissingData(
        reviews=missing_reviews if missing_reviews > 0 else None,
        days=missing_days if missing_days > 0 else None,
    )


@dataclass(frozen=True)
class ExcludedCards:
    """Cards that are gone, to which most reviews belong, so that presets cannot be evaluated."""

    state: Literal["deleted", "suspended"]
    suspended: int  # cards
    total: int  # cards that the collection still has
    desired: tuple[float, ...] = ()
    """Desired retentions of the presets that have cards, in order; empty while FSRS is off."""

    @property
    def in_use(self) -> int:
        """Number of cards that are neither deleted nor suspended."""
        return self.total - self.suspended
