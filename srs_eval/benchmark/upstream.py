"""Which rules of srs-benchmark, at a commit or in a year, differ from those here.

Each was read in its code: of 2025 at commit 399354168d29 (January 2025), of 2026 at bd9110f791e5
(script.py, config.py, features/). How near the figures come is in docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from srs_eval.data.errors import InputError
from srs_eval.models.configurations import NAMES, Configuration, Names
from srs_eval.models.published import spelled

_COMMITS: dict[str, Names] = {
    "399354168d2924898b49babdc6104a33948c76b0": "2025",
    "bd9110f791e5b37282c55a9aa8db35f68f0c4aa2": "2026",
}


@dataclass(frozen=True)
class Difference:
    """A rule that is another one there, and the configurations that it concerns."""

    configurations: tuple[str, ...]
    words: str
    remedy: str = ""  # the option that gives upstream's rule, if there is one


@dataclass(frozen=True)
class _Rule:
    names: Names
    concerns: Callable[[Configuration], bool]
    words: str
    remedy: str = ""


def _is(*models: str) -> Callable[[Configuration], bool]:
    return lambda each: each.model.name in models


def _fitted_to_parts(each: Configuration) -> bool:
    return each.protocol.partitions != "none" and each.fit not in ("default", "own")


_RULES = (
    _Rule(
        "2025",
        lambda each: (
            each.model.name == "FSRS-5"
            and each.fit == "trained"
            # The flag of the command line reaches every configuration.
            and each.protocol.gamma != 2.0
        ),
        "the published FSRS-5 pulls twice as strongly towards the start",
        "--gamma 2",
    ),
    _Rule(
        "2025",
        lambda each: (
            each.model.name == "FSRS-5"
            and each.protocol.secs
            and not each.protocol.no_test_same_day
        ),
        "script.py judges and trains on reviews of later days only",
        "--no_test_same_day",
    ),
    _Rule(
        "2025",
        lambda each: (
            each.protocol.secs
            and not each.protocol.short
            and not each.protocol.equalize_test_with_non_secs
        ),
        "other.py judges every review with a positive interval, those of the same day too",
        "--short",
    ),
    _Rule(
        "2025",
        _is("FSRS-rs"),
        "FSRS-rs is the FSRS-5 of fsrs-rs 0.7; what is here is called FSRS-6-rs",
    ),
    _Rule(
        "2025",
        _is("FSRS-6", "FSRS-6-one-step", "FSRS-7", "LogisticRegression", "SBD", "MOVING-AVG"),
        "the model came later",
    ),
    _Rule(
        "2025",
        lambda each: _fitted_to_parts(each) and each.protocol.fallback_user,
        "a preset or deck with too little to train on gets the defaults, not the user's fit",
        "leave --fallback_user out",
    ),
    _Rule(
        "2026",
        lambda each: _fitted_to_parts(each) and not each.protocol.fallback_user,
        "a preset or deck with too little to train on gets the user's fit, not the defaults",
        "--fallback_user",
    ),
    _Rule("2026", _is("GRU", "GRU-P"), "the model is retired; GRU is another network"),
    _Rule(
        "2026",
        _is("LSTM"),
        "network and training here are those of branch lstm, commit fc8fba8505a5; those of 2026 "
        "were not compared",
    ),
    _Rule(
        "2026",
        lambda each: not _invented(each) and spelled(each.name, "2026") != each.name,
        "the name is another one",
        "--names 2026",
    ),
)


def _invented(each: Configuration) -> bool:
    """Whether it has never been upstream's."""
    return each.model.name in ("STATE-1", "STATE-FSRS-6", "Memrise", "LSTM-fixed") or (
        each.fit == "own" or each.model.file is not None or bool(each.ledger)
    )


def year_of_commit(text: str) -> Names:
    """The year that a year or the beginning of a known commit means. Raises InputError."""
    for year in NAMES:
        if text == year:
            return year
    found = {
        year for commit, year in _COMMITS.items() if len(text) >= 6 and commit.startswith(text)
    }
    if len(found) != 1:
        known = ", ".join([*NAMES, *(commit[:7] for commit in _COMMITS)])
        raise InputError(
            f'--like-upstream: the rules of "{text}" were not read; those of {known} were.'
        )
    return found.pop()


def differences(configurations: Sequence[Configuration], year: Names) -> list[Difference]:
    """What is another rule upstream, of all that concerns these configurations."""
    found = []
    never = tuple(each.name for each in configurations if _invented(each))
    if never:
        found.append(Difference(never, "upstream has no such model"))
    for rule in _RULES:
        names = tuple(
            each.name for each in configurations if rule.names == year and rule.concerns(each)
        )
        if names:
            found.append(Difference(names, rule.words, rule.remedy))
    if configurations:
        everything = tuple(each.name for each in configurations)
        found.append(Difference(everything, "it computes with 32 bits, we with 64"))
        if year == "2026":
            found.append(
                Difference(
                    everything, "result lines hold time_ms; ours is in timing/", "--names 2026"
                )
            )
    return found
