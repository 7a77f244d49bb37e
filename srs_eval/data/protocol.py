"""Define the flags of an evaluation; unlike the code that uses them, this module loads no numpy."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Literal, get_args

from srs_eval.data.arguments import (
    argument_error,
    check_choice,
    check_flag,
    check_number,
    check_whole_number,
)

_Rows = Literal["benchmark", "anki"]
_Clock = Literal["seconds", "study-days", "days"]
"""How intervals are measured with `secs`: seconds / 86,400 (srs-benchmark); study days with
fractions, each from one local roll-over to the next (ts-fsrs, fsrs-rs); whole days."""

_Partitions = Literal["none", "deck", "preset"]
_Split = Literal["time", "cards", "users"]
"""What is dealt into parts: reviews by time (srs-benchmark), cards at random, or users at random.

With "users", a model is first trained on the users of the other parts; each user's own reviews are
then split by time into five folds, as without it."""

_CHOICES = {
    "rows": get_args(_Rows),
    "clock": get_args(_Clock),
    "partitions": get_args(_Partitions),
    "split": get_args(_Split),
}

EQUIVALENCE_MARGIN = 0.002
"""Differences in log loss up to this size do not matter, unless the user sets another margin."""


@dataclass(frozen=True)
class Protocol:
    """The flags of an evaluation, with upstream's names and defaults."""

    rows: _Rows = "benchmark"
    short: bool = False  # same-day reviews are part of the histories
    secs: bool = False  # intervals in fractions of a day
    clock: _Clock = "seconds"  # for FSRS-7
    two_buttons: bool = False  # Hard and Easy count as Good
    recency: bool = False  # newer reviews weigh more in training
    partitions: _Partitions = "none"
    fallback_user: bool = False
    """A partition with too few reviews for training gets the whole user's fit (upstream 2026)."""
    train_equals_test: bool = False
    no_test_same_day: bool = False
    no_train_same_day: bool = False
    equalize_test_with_non_secs: bool = False
    disable_short_term: bool = False
    sched_penalties: bool = False  # training penalises unwieldy schedules (FSRS-7)
    split: _Split = "time"
    train_until: str = ""
    """Train before this day and evaluate from it on, in one fold: a date ("2024-01-31"), or a
    number of days since the learner's first review ("365"). Numbers and dates are taken, too."""
    train_months: int = 0  # train only on so many months before the evaluated reviews; 0: on all
    n_splits: int = 5  # folds or, with `split="users"`, parts of users
    batch_size: int = 512
    max_seq_len: int = 64
    gamma: float = 1.0  # strength of the pull towards the start (FSRS-5, FSRS-6, FSRS-7)
    seed: int = 0
    """Added to the seeds of trainings that draw random numbers (`training.hyperparameters.SEED`);
    with 0, these are as published."""
    known_decks_only: bool = False
    """Drop reviews whose card or deck is gone, as upstream does for SM-2 and Ebisu."""
    later_days_only: bool = False
    """With `secs`: evaluate and train on reviews of later days only (upstream until 2025)."""

    def __post_init__(self) -> None:
        """Check all flags. Raises InputError for a value of another type or an unknown choice."""
        for flag in fields(self):
            value = getattr(self, flag.name)
            if flag.name == "train_until":
                object.__setattr__(self, flag.name, _read_day(value))
            elif flag.name in _CHOICES:
                check_choice(flag.name, value, _CHOICES[flag.name])
            elif isinstance(flag.default, bool):
                check_flag(flag.name, value)
            elif isinstance(flag.default, int):
                check_whole_number(flag.name, value)
                object.__setattr__(self, flag.name, int(value))  # it may be one of NumPy's
            else:
                check_number(flag.name, value)
                object.__setattr__(self, flag.name, float(value))

    def row_protocol(self) -> Protocol:
        """Return the flags that decide which reviews are evaluated, all others at their defaults.

        Configurations for which this is equal are evaluated on the same reviews of a log, after
        trainings on reviews of the same time. Which other users a model was trained on changes
        neither.
        """
        folds = self.without_user_split()
        # Equalized tests evaluate the same reviews as a protocol without `secs`.
        secs = self.secs and not self.equalize_test_with_non_secs
        # If histories do not hold same-day reviews, these are gone before folds are cut.
        keeps_same_day = secs and self.short and not self.later_days_only
        return Protocol(
            rows=self.rows,
            short=keeps_same_day,
            secs=secs,
            train_equals_test=self.train_equals_test,
            no_test_same_day=keeps_same_day and self.no_test_same_day,
            split=folds.split,
            train_until=self.train_until,
            train_months=self.train_months,
            n_splits=folds.n_splits,
            max_seq_len=self.max_seq_len,
            known_decks_only=self.known_decks_only and not secs,
        )

    @property
    def has_own_split(self) -> bool:
        """Return whether reviews are split differently from srs-benchmark's."""
        folds = self.without_user_split()
        return folds != folds.with_published_split()

    @property
    def is_until_date(self) -> bool:
        """Return whether `train_until` is a date, not a number of days."""
        return "-" in self.train_until

    def with_published_split(self) -> Protocol:
        """Return the protocol with folds by time, each trained on everything before it."""
        folds = self.without_user_split()
        return replace(folds, split="time", train_until="", train_months=0)

    def without_user_split(self) -> Protocol:
        """Return the protocol of the folds into which each user's own reviews are split."""
        if self.split != "users":
            return self
        return replace(self, split="time", n_splits=Protocol.n_splits)

    def without_training_flags(self) -> Protocol:
        """Return the protocol with all flags that only affect training at their defaults.

        Protocols for which this is equal share their trials.
        """
        defaults = Protocol()
        return replace(
            self.without_user_split(),
            recency=defaults.recency,
            gamma=defaults.gamma,
            batch_size=defaults.batch_size,
            seed=defaults.seed,
            disable_short_term=defaults.disable_short_term,
            sched_penalties=defaults.sched_penalties,
            fallback_user=defaults.fallback_user,
        )


def _read_day(value: object) -> str:
    """Return a date or a number of days in its one spelling; "" for none."""
    expected = "a date such as '2024-01-31' or a number of days such as 365"
    if value == "":
        return ""
    if isinstance(value, date):
        return value.isoformat()[:10]
    text = str(value)
    if not isinstance(value, bool | float) and re.fullmatch("[0-9]{1,6}", text) and int(text):
        return str(int(text))
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
    raise argument_error("train_until", expected, value)
