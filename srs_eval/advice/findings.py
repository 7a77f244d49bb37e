"""What was found: the numbers that a question returns, from which `advice.shown` makes English.

A finding says what it recommends and how sure that is; its evidence holds the figures behind it, in
a dataclass of the question's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from srs_eval.advice.tables import Table
from srs_eval.stats.intervals import Interval


class Evidence:
    """What the evidence of every question inherits: saved findings name its subclass."""


@dataclass(frozen=True)
class Missing:
    """What has to be added until it can be told; None: not known, or not what is missing."""

    reviews: int | None = None
    days: int | None = None


@dataclass(frozen=True)
class Finding:
    """What was found on one question about one preset, or about all of them."""

    question: str  # of the registry
    subject: str  # the preset's name, "all presets", ...
    act: str = ""  # a code: what is recommended, "keep", say; "" where no act hangs on it
    probability: float | None = None
    """That the act is at least as good as doing nothing, over the coming reviews."""
    gain: float | None = None  # expected reduction of log loss by the act, nats
    interval: Interval | None = None  # the learner's own paired difference that it rests on
    parameters: tuple[float, ...] | None = None  # to paste, where that is the act
    reviews: int = 0  # that it rests on
    missing: Missing | None = None
    probabilities: Mapping[str, float] | None = None  # by candidate, of "parameters" only
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Unanswered(Evidence):
    """That a question could not be answered."""

    reason: str


@dataclass(frozen=True)
class Worded(Evidence):
    """Evidence in English: of questions that return no numbers yet."""

    conclusion: str  # in two or three words, e.g. "keep"
    sentences: tuple[str, ...]  # the answer, then what it rests on
    tables: tuple[Table, ...] = ()
    why: str = ""
    """In a few words, why it can't be told where no difference shows it."""
    brief: str = ""  # in a line, where that is neither the first sentence nor made of figures


def phrased(
    question: str,
    subject: str,
    conclusion: str,
    sentences: tuple[str, ...],
    tables: tuple[Table, ...] = (),
    parameters: tuple[float, ...] | None = None,
    difference: Interval | None = None,
    why: str = "",
    brief: str = "",
) -> Finding:
    """A finding whose evidence is English."""
    evidence = Worded(conclusion, sentences, tables, why, brief)
    return Finding(question, subject, interval=difference, parameters=parameters, evidence=evidence)


def unanswered(question: str, reason: str) -> Finding:
    """What stands for the findings on a question that has none."""
    return Finding(question, "all reviews", evidence=Unanswered(reason))


def best(estimates: Iterable[tuple[str, Interval]]) -> str:
    """The name with the least estimate, ties by name."""
    return min(estimates, key=lambda each: (each[1].estimate, each[0]))[0]
