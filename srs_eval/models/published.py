"""Translate between names of configurations and of srs-benchmark's result files, by year."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.models.configurations import (
    SUFFIXES,
    TUNED_SUFFIX,
    Configuration,
    find_meaning,
    fits_partitions,
    list_suffixes,
    parse_suffixes,
    remove_tuned,
    resolve_configurations,
)

NamingYear = Literal["2025", "2026"]
NAMING_YEARS: tuple[NamingYear, ...] = get_args(NamingYear)
"""Years whose names srs-benchmark spells differently; those of 2025 are the canonical names."""
_SUFFIXES_OF_2026 = {"dry-run": "default", "pretrain": "S0"}
_FALLBACK_DEFAULT_SUFFIX = "fallback_default"
_DURATION_SUFFIX = "duration"  # of an LSTM that knows answer times, in names of 2026
_MODELS_OF_2026 = {"GRU-503": "GRU", "GRU": "GRU-39"}
"""Models with other names in 2026: name here -> name there."""


def to_upstream_name(name: str, year: NamingYear) -> str:
    """Return a configuration's canonical name as srs-benchmark spells it in a year.

    Names of 2025 are the canonical ones. Names of 2026 follow config.py at commit
    bd9110f791e5b37282c55a9aa8db35f68f0c4aa2:

    - `-default` and `-S0` stand for `-dry-run` and `-pretrain` (but `-binary` stays).
    - `-short` is in every name whose histories hold same-day reviews.
    - `-duration` marks an LSTM that knows answer times.
    - `-preset` and `-deck` include what is `-fallback_user` here. Falling back to the defaults has
      no name there; `-fallback_default` is written for it.

    A name that has no model here is returned as it is.
    """
    base = remove_tuned(name)
    if base != name:
        return f"{to_upstream_name(base, year)}-{TUNED_SUFFIX}"
    if year == "2025" or not find_meaning(name):
        return name
    (configuration,) = resolve_configurations([name])
    flags = configuration.protocol
    suffixes = list_suffixes(configuration)
    if configuration.model.always_short and not flags.disable_short_term:
        suffixes = [suffix for suffix in SUFFIXES if suffix == "short" or suffix in suffixes]
    upstream_suffixes = [
        _SUFFIXES_OF_2026.get(suffix, suffix) for suffix in suffixes if suffix != "fallback_user"
    ]
    if configuration.model.name == "LSTM" and flags.secs:
        upstream_suffixes.insert(upstream_suffixes.index("secs") + 1, _DURATION_SUFFIX)
    if fits_partitions(configuration) and not flags.fallback_user:
        upstream_suffixes.append(_FALLBACK_DEFAULT_SUFFIX)
    model = _MODELS_OF_2026.get(configuration.model.name, configuration.model.name)
    return "-".join((model, *upstream_suffixes))


def from_upstream_name(name: str, year: NamingYear = "2025") -> Configuration | None:
    """Return the configuration in srs-benchmark's result file of this name.

    None if there is no such configuration here. Some names mean something else there:

    - A bare `NAME` has no `-short` and no `-secs`, whatever it stands for here.
    - The published files `NAME-secs` of 2025 evaluate every positive interval, which is
      `NAME-short-secs` here, although those that script.py writes evaluate later days only.
    - `NAME-secs` of 2026 leaves same-day reviews out.
    - In 2025, FSRS-rs was the FSRS-5 of fsrs-rs 0.7, and today's FSRS-rs was called FSRS-6-rs.
    - In 2026, FSRS without `-short` has no same-day reviews in its histories, and LSTM without
      `-duration` knows no answer times. For other names of 2026 see `to_upstream_name`.

    Raises InputError for a name that is not a configuration's.
    """
    base = remove_tuned(name)
    if base != name:
        untuned = from_upstream_name(base, year)
        if untuned is None:
            return None
        return replace(untuned, name=f"{untuned.name}-{TUNED_SUFFIX}")
    if year == "2025":
        if name == "FSRS-rs":
            return None
        name = {"FSRS-6-rs": "FSRS-rs"}.get(name, name)
    else:
        falls_back_to_default = name.endswith(f"-{_FALLBACK_DEFAULT_SUFFIX}")
        name = name.removesuffix(f"-{_FALLBACK_DEFAULT_SUFFIX}")
        for model_name, upstream_model_name in _MODELS_OF_2026.items():
            rest = name.removeprefix(upstream_model_name)
            if rest != name and parse_suffixes(rest) is not None:
                name = model_name + rest
                break
        without_duration = name.replace(f"-secs-{_DURATION_SUFFIX}", "-secs")
        (configuration,) = resolve_configurations([without_duration])
        if configuration.model.name == "LSTM" and without_duration == name:
            return None
        name = without_duration
        lacks_same_day = "-short" not in name and not configuration.protocol.disable_short_term
        if configuration.model.always_short and lacks_same_day:
            return None
        if fits_partitions(configuration) and not falls_back_to_default:
            name = f"{name}-fallback_user"
    (configuration,) = resolve_configurations([name])
    if configuration.protocol.secs and "-secs" not in name:
        return None
    if year == "2025" and _has_secs_only(configuration, name):
        if configuration.model.later_days_only:
            flags = Protocol(secs=True, no_test_same_day=True)
            (configuration,) = resolve_configurations([name], flags)
        elif not configuration.model.always_short:
            (configuration,) = resolve_configurations([name], Protocol(secs=True, short=True))
    return configuration


def _has_secs_only(configuration: Configuration, name: str) -> bool:
    """Return whether a name has `-secs` and nothing about same-day reviews."""
    flags = configuration.protocol
    return flags.secs and not flags.equalize_test_with_non_secs and "-short" not in name


def describe_ambiguity(name: str, year: NamingYear = "2025") -> str:
    """Return what a published file's name leaves open and what is assumed, or "" for nothing.

    Files called `NAME-secs` that srs-benchmark published in January 2025 evaluate same-day reviews,
    but its code of that month leaves them out. Some files of 2026 are older than the suffix
    `-duration` of LSTM.
    """
    try:
        (configuration,) = resolve_configurations([name])
        assumed = from_upstream_name(name, year)
    except InputError:
        return ""
    if year == "2026" and configuration.model.name == "LSTM" and assumed is None:
        return (
            f"no -{_DURATION_SUFFIX} in its name: it may know no answer times, "
            "and is not taken for LSTM"
        )
    model = configuration.model
    is_settled = model.later_days_only or model.always_short
    if year == "2026" or assumed is None or is_settled or not _has_secs_only(configuration, name):
        return ""
    return f"no -short in its name: it may leave same-day reviews out; taken for {assumed.name}"
