"""What was found: the numbers that a question returns, from which `advice.shown` makes English.

A finding says what it recommends and how sure that is; its evidence holds the figures behind it, in
a dataclass of the question's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict

OPTIMIZED, RECENCY, DEFAULTS, AVERAGE = "optimized", "recency", "defaults", "average"
TOGETHER, ALONE = "one line", "alone"  # fitted as POOLED is, but sharing all or nothing
NOW, POOLED, SM2 = "now", "pooled", "sm2"
ACTS = {RECENCY: "optimize", POOLED: "pooled", TOGETHER: "one line", DEFAULTS: "defaults"}
"""What a person can do, by the candidate whose parameters the preset then has."""
KEEP = "keep"
SURE, LIKELY = 0.95, 0.8
ALL_REVIEWS = "all reviews"  # the subject of findings on these
OPEN: Literal["can't tell"] = "can't tell"
FEWEST_SHOWN, FEWEST_DAYS_SHOWN = 300, 10
"""Below either no log loss is shown by itself; nor, below these days, an interval of a part."""


class Evidence:
    """What the evidence of every question inherits: saved findings name its subclass."""

    says: str  # a code: what was found where no act is recommended; OPEN where that can't be told


@dataclass(frozen=True)
class Belief:
    """What is known of a candidate's difference in log loss over the coming reviews."""

    probability: float  # that the candidate is better
    gain: float  # expected reduction of log loss, nats
    low: float  # 95 % of the belief lies between these gains
    high: float


@dataclass(frozen=True)
class Missing:
    """What has to be added until it can be told; None: not known, or not what is missing."""

    reviews: int | None = None
    days: int | None = None
    date: str | None = None  # when it will be there, at the learner's pace


@dataclass(frozen=True)
class Finding:
    """What was found on one question about one preset, or about all of them."""

    question: str  # of the registry
    subject: str  # the preset's name, "all presets", ...
    act: str = ""  # a code: what is recommended, "keep", say; "" where no act hangs on it
    probability: float | None = None  # that the act does no worse than none, on coming reviews
    gain: float | None = None  # expected reduction of log loss by the act, nats
    interval: Interval | None = None  # the learner's own paired difference that it rests on
    parameters: tuple[float, ...] | None = None  # to paste, where that is likely to help
    reviews: int = 0  # that it rests on
    missing: Missing | None = None
    probabilities: Mapping[str, float] | None = None  # by candidate, of "parameters" only
    evidence: Evidence | None = None
    equivalence: float = intervals.EQUIVALENT  # differences in log loss within it counted as none

    def __repr__(self) -> str:
        return f"Finding({self.question!r}, {self.subject!r}, says={self.says!r})"

    @property
    def says(self) -> str:
        """The act, or what was found where none hangs on it, as a code."""
        return self.act or ("" if self.evidence is None else self.evidence.says)


@dataclass(frozen=True)
class Unanswered(Evidence):
    """That a question could not be answered."""

    reason: str
    says: str = "no answer"


@dataclass(frozen=True)
class Candidate:
    """What reviews could be predicted with, parameters that a preset could have, say."""

    name: str
    log_loss: Interval | None = None  # on reviews that it had not seen
    difference: Interval | None = None  # on these, minus the current parameters
    verdict: Verdict | None = None
    belief: Belief | None = None  # of the coming reviews; None where it is not recommended


@dataclass(frozen=True)
class OfPreset(Evidence):
    """What is known of a preset's parameters."""

    stored: bool  # whether it was fitted once; the defaults are in force otherwise
    known: bool  # whether the file says which parameters are in force
    fsrs_is_off: bool
    candidates: tuple[Candidate, ...]  # the current parameters first
    held_out: tuple[Candidate, ...]  # on all held-out reviews, beside OPTIMIZED
    about: str = RECENCY  # the act, or what the current parameters were kept against
    search: str | None = None  # what Anki optimizes the preset on, where that is not all of it
    gone: str = ""  # "suspended" or "deleted": most of what was reviewed, where nothing is left
    says: str = ""


@dataclass(frozen=True)
class OfAll(Evidence):
    """The presets by act, and candidates on the held-out reviews of all."""

    by_act: tuple[tuple[str, tuple[str, ...]], ...]
    held_out: tuple[Candidate, ...]
    says: str = "see each preset"


@dataclass(frozen=True)
class LeftOut(Evidence):
    """Why Anki does not run a preset's stored parameters."""

    sentence: str
    says: str = ""


RUNS_FSRS_7 = "FSRS-7"
"""Says that presets run FSRS-7, of which it is not told whether they can share parameters."""
Decision = Literal["keep shared", "split", "can't tell"]


@dataclass(frozen=True)
class Difference:
    """Log loss of some presets' (or decks') reviews: parameters of one kind minus shared ones."""

    of: str  # the preset's name, or "all"
    parameters: str  # "split" or "pooled"
    difference: Interval
    decision: Decision


@dataclass(frozen=True)
class Sharing(Evidence):
    """What parameters of their own are worth to presets, or to the decks of one."""

    part: str  # "preset" or "deck"
    parts: int
    differences: tuple[Difference, ...] = ()  # none: too few reviews
    # Parameters of the first on the second's reviews, minus the second's own:
    pairs: tuple[tuple[str, str, Interval, Verdict], ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()  # presets that could share, by these
    says: str = "too few"  # where no act is recommended


@dataclass(frozen=True)
class Part:
    """Some reviews: the share recalled, and what the parameters in force expected of them."""

    name: str  # "all", "young cards", "2024-10", "88–92 %"
    recalled: Interval
    expected: float


@dataclass(frozen=True)
class Retention(Evidence):
    """What is recalled of a preset's reviews of later days, and what was desired."""

    says: Literal["below", "above", "no matter", "can't tell", "not asked for"]
    parts: tuple[Part, ...]  # all reviews first
    desired: float | None  # None: not known, or none while FSRS is off
    fsrs_is_off: bool
    timing: Interval  # expected of the reviews when they were done, minus what is desired
    expecting: Interval  # recalled, minus that; the two add up to recalled minus desired


@dataclass(frozen=True)
class Calibration(Evidence):
    """What is recalled of the reviews of which the parameters in force say about the same."""

    says: Literal["below", "above", "no matter", "can't tell"]
    near: Part | None  # of which they say about 90 %, or what is nearest to it
    whole: Part
    bins: tuple[Part, ...]
    fsrs_is_off: bool


@dataclass(frozen=True)
class Month:
    """The held-out reviews of a calendar month, or of 30 days where there are no dates."""

    name: str  # "2024-10", "days 31-60"
    recalled: Interval  # share
    predicted: float  # mean p
    log_loss: Interval

    @property
    def reviews(self) -> int:
        return self.recalled.reviews


@dataclass(frozen=True)
class Months(Evidence):
    """FSRS-6 month by month; `says`: where the last one's log loss lies beside those before."""

    says: Literal["below", "above", "no matter", "can't tell"]
    months: tuple[Month, ...]


@dataclass(frozen=True)
class Habit(Evidence):
    """What knowing how the day goes, its hour or the session would be worth."""

    says: Literal["matters", "hardly matters", "does not matter", "can't tell", "unknown"]
    worth: Interval | None = None  # share of FSRS-6's log loss


@dataclass(frozen=True)
class DayState:
    """How a day went: `state` is what it adds to the logits of recall, 95 % band."""

    name: str  # "2024-10-01", "day 12"
    recalled: float
    expected: float  # by FSRS-6
    state: Interval


@dataclass(frozen=True)
class Days(Evidence):
    """Every day with held-out reviews; what is said of the last one holds `since` a day."""

    says: Literal["as usual", "more forgotten", "less forgotten"]
    since: str
    days: tuple[DayState, ...]


@dataclass(frozen=True)
class Against:
    """FSRS-6 fitted to earlier reviews against another prediction of the same reviews."""

    name: str
    kind: Literal["older scheduler", "average", "brought along", "FSRS"]
    log_loss: Interval  # of the other
    difference: Interval  # FSRS-6 minus it
    verdict: Verdict | Literal[""]
    saved: Interval  # the share of its log loss that FSRS-6 saves


@dataclass(frozen=True)
class Fit(Evidence):
    """How well FSRS-6 predicts, and whether to change to it."""

    says: Literal["well", "a little", "no better", "worse", "can't tell"]
    by: Literal["stored", "defaults", "optimized"]  # the parameters that `says` is of
    saved: Interval  # the share of the average's log loss that these save
    log_loss: Interval  # of FSRS-6, fitted to earlier reviews
    against: tuple[Against, ...]
    fsrs_is_off: bool
    now: Against | None = None  # what schedules in place of FSRS
    defaults: Verdict | None = None  # FSRS's defaults against that
    would_run_fsrs7: bool = False  # a fork of Anki, once FSRS is on

    def of(self, kind: str) -> list[Against]:
        """Those of a kind."""
        return [each for each in self.against if each.kind == kind]


@dataclass(frozen=True)
class HealthCheck:
    """Anki's: both ratios to what is usual, and what they may be at most."""

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
    """FSRS-6 against the older scheduler, and Anki's own check."""

    older: Against | None
    check: HealthCheck | None
    runs_fsrs7: bool = False  # so that Anki's check, which is of FSRS-6, is not made
    fsrs_is_off: bool = False
    says: str = "can't tell"  # with nothing held out


@dataclass(frozen=True)
class Model(Candidate):
    """A model's figures on the held-out reviews; its difference is from optimized FSRS-6."""

    rmse_bins: float = math.nan
    auc: float | None = None
    is_own: bool = False  # parameters or predictions that a person brought along


@dataclass(frozen=True)
class Models(Evidence):
    """Models, the best first; `says` is its name."""

    says: str
    models: tuple[Model, ...]
    left_out: int  # held-out reviews without a prediction by every model
    unused: Mapping[str, int] = field(default_factory=dict)
    """Predictions of a file that are for no held-out review, by model."""


@dataclass(frozen=True)
class Often(Evidence):
    """What optimizing less often than at every +2 % costs; `act`: how often is enough."""

    says: Literal["as good", "safe"]  # known of this learner, or safe for everybody
    costs: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Spread:
    """A fitted parameter, and its standard deviations had days gone otherwise, and of learners."""

    fitted: float
    over_days: float
    of_learners: float
    is_noise: bool


@dataclass(frozen=True)
class Noise(Evidence):
    """The parameters that move by more than half of what learners differ by."""

    says: str  # "3 of 21"
    parameters: tuple[Spread, ...] = ()


@dataclass(frozen=True)
class AfterButton:
    """Of reviews after a button: the share recalled, and what FSRS expects above it."""

    button: str
    recalled: float
    bias: Interval


@dataclass(frozen=True)
class Hard(Evidence):
    """Whether Hard behaves like Again; the finding's interval is of counting it as Again."""

    says: Literal["yes", "no", "seldom", "can't tell"]
    share: float  # of the answers to reviews
    after: tuple[AfterButton, ...] = ()


@dataclass(frozen=True)
class Step:
    """Next answers on the same day after one situation, and when recall is what is desired."""

    situation: str
    says: Literal["longer", "shorter", "as it is", "can't tell"]
    answers: int
    usual: float  # minutes, the median
    recalled: Interval
    step: float | None  # minutes; None: none within a day, or not known
    delay: tuple[float, float, float] | None = None  # minutes and its bounds
    seen: tuple[float, float] | None = None  # minutes between which nearly all delays lie
    unknown: Literal["", "few", "alike", "no curve"] = ""  # why there is no delay


@dataclass(frozen=True)
class Steps(Evidence):
    """Within a day, when recall falls to what is `desired`."""

    says: Literal["longer", "shorter", "as it is", "see each step", "can't tell"]
    desired: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Card:
    """A typical card and what the buttons give it."""

    kind: str  # "new", "young" or "mature"
    interval: int  # days
    seconds: tuple[float, ...]  # until it comes again, by button


@dataclass(frozen=True)
class Buttons(Evidence):
    """What the buttons of a preset would give."""

    retention: float
    by_candidate: tuple[tuple[str, tuple[Card, ...]], ...]  # by whose parameters
    says: str = "see figures"


@dataclass(frozen=True)
class Standing:
    """The share of published learners like one whose figure is worse; where all of theirs lie."""

    metric: str
    figure: float
    share_worse: float
    quantiles: tuple[tuple[float, float], ...]  # shares of learners, theirs below which they lie

    @property
    def of_100(self) -> int:
        """How many of 100 have a worse figure."""
        return round(100 * self.share_worse)


@dataclass(frozen=True)
class Standings(Evidence):
    """By metric, where a learner's figure lies among those of published learners like them."""

    says: str  # "better than 61 of 100"
    metrics: tuple[Standing, ...]  # log loss first


@dataclass(frozen=True)
class Leech:
    """A card forgotten more often than is usual; `chance`: of so many lapses or more."""

    card_id: int
    reviews: int
    lapses: int
    usual: float
    chance: float


Level = Literal["look", "fine", "not yet"]


@dataclass(frozen=True)
class Check:
    """What was looked at, and whether something is wrong with it; shares are from 0 to 1."""

    name: str  # "overdue", "old cards", "gap", "leeches", a button, "steps" or "suspended"
    level: Level
    count: int = 0  # of cards or answers; the longest gap in days
    of: int = 0  # the cards or answers among which these are
    minutes: float | None = None  # that overdue cards take; the best step
    since: str | None = None  # of days and overdue cards: the last review's, if none came for long
    until: str | None = None  # the day on which the longest gap ended, if dates are known
    recalled: Interval | None = None  # of old cards, or at the review after a button
    expected: float | None = None  # of these, by FSRS
    subject: str = ""  # the preset, of old cards and steps
    says: str = ""  # what is wrong, as a code; "few": too few reviews to say
    leeches: tuple[Leech, ...] = ()  # the worst ones


@dataclass(frozen=True)
class Checks(Evidence):
    """Whether anything is wrong: all checks, worst first, that the source allows."""

    says: Literal["look", "fine", "can't tell"]
    checks: tuple[Check, ...]


E = TypeVar("E", bound=Evidence)


def of(finding: Finding, kind: type[E]) -> E:
    """Its evidence, which is of that kind."""
    assert isinstance(finding.evidence, kind)
    return finding.evidence


def unanswered(question: str, reason: str) -> Finding:
    """What stands for the findings on a question that has none."""
    return Finding(question, ALL_REVIEWS, evidence=Unanswered(reason))


def missing(difference: Interval, margin: float = intervals.EQUIVALENT) -> Missing:
    """What has to be added to a difference of which nothing can be told; `margin` hardly matters.

    Nothing where reviews are not what is missing, or over 20 times as many as there are.
    """
    if not intervals.enough_to_tell(difference):
        return missing_of(difference.reviews, difference.days)
    return Missing(intervals.more_reviews(difference, equivalence=margin))


def missing_of(
    reviews: int,
    days: int,
    fewest: int = intervals.FEWEST_REVIEWS,
    fewest_days: int = intervals.FEWEST_DAYS,
) -> Missing:
    """What so many reviews of so many days lack; by default, of those that any verdict needs."""
    lack, lack_days = fewest - reviews, fewest_days - days
    return Missing(lack if lack > 0 else None, lack_days if lack_days > 0 else None)
