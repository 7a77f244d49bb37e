"""Evaluate configurations on one learner: a stream of events, no output.

Views (app, command line, batch) iterate over `evaluate` and show what comes.
"""

from __future__ import annotations

from dataclasses import dataclass

from srs_eval.results import Result


@dataclass(frozen=True)
class Prepared:
    """Rows are chosen and counted; the configurations come next."""

    reviews: int  # rows that the protocol starts from
    judged: int  # rows that are judged without `--secs`
    configurations: tuple[str, ...]  # in the order of their start


@dataclass(frozen=True)
class Started:
    configuration: str


@dataclass(frozen=True)
class Progress:
    """A fold, or a part of one, is done."""

    configuration: str
    fraction: float  # of the whole configuration, 0-1
    fold: int  # folds finished so far
    folds: int


@dataclass(frozen=True)
class Finished:
    configuration: str
    result: Result


@dataclass(frozen=True)
class Failed:
    configuration: str
    reason: str  # one sentence
    detail: str = ""  # traceback, for a log


@dataclass(frozen=True)
class Skipped:
    """Too little data: no failure."""

    configuration: str
    reason: str


Event = Prepared | Started | Progress | Finished | Failed | Skipped
