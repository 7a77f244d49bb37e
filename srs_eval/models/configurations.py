"""Configurations: a model plus what its name says about the protocol.

Canonical names are those of srs-benchmark's result files, so that results are
interchangeable; order of the suffixes as there.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.models import Context, Model, all_models
from srs_eval.training.hyperparameters import Hyperparameter, Value, refuse_unknown

Fit = Literal["trained", "default", "S0", "own"]
"""What parameters are: "own" are those that the learner's presets hold."""
Names = Literal["2025", "2026"]
NAMES: tuple[Names, ...] = get_args(Names)
"""Years of srs-benchmark that have a spelling of their own; the first is the canonical one."""

_ROWS = [
    [cell.strip() for cell in line.split("|")]
    for line in Path(__file__).with_name("suffixes.txt").read_text("utf-8").splitlines()
]
"""Suffix, flag, its value and how a person says it, if otherwise, in the order of canonical names.
"fit" is no protocol flag."""
SUFFIXES: Mapping[str, tuple[str, Any]] = {
    suffix: (flag, value == "yes" or value) for suffix, flag, value, _ in _ROWS
}
SUFFIX_ALIASES = {"default": "dry-run", "S0": "pretrain", "two_buttons": "binary"}
TUNED = "tuned"  # ends the name of what is trained as an audit's ledger says
_SUFFIX_WORDS = {suffix: words for suffix, _, _, words in _ROWS if words}
_MODEL_WORDS: Mapping[str, str] = {
    "AVG": "average",
    "MOVING-AVG": "moving average",
    "90%": "always 90 %",
}
OWN = "FSRS-6-own"
"""The parameters that the learner's presets hold, run as Anki runs them."""
OWN_7 = "FSRS-7-own-short-secs-equalize_test_with_non_secs"
"""The same where a fork of Anki runs FSRS-7, on the same reviews."""
_CONFIGURATION_WORDS: Mapping[str, str] = {
    OWN: "your parameters",
    OWN_7: "your FSRS-7 parameters",
    **{name: name for name in ("RWKV-Instant", "RWKV-Curve")},  # not as of 2025
}
_ONLY_WITH_SECS = ("equalize_test_with_non_secs", "no_test_same_day", "no_train_same_day")
# Every other flag: False
_OFF: Mapping[str, Any] = {"fit": "trained", "partitions": "none", "clock": "seconds"}
_FAMILIES = ("fsrs", "sm2", "history", "neural", "baseline", "online")
GROUPS = ("all", "fast", "learner", *_FAMILIES)
_LEARNER = (
    *("AVG", "Anki-dry-run", "FSRS-6-dry-run", OWN),
    *("FSRS-6", "FSRS-6-recency", "STATE-FSRS-6"),
)
"""What a learner knows of: schedulers in Anki, fitted or not, the average, and one's day."""
BASELINE = "AVG"
"""The model that knows the average only."""


@dataclass(frozen=True)
class Configuration:
    """What is evaluated under one name."""

    name: str
    model: Model
    protocol: Protocol
    fit: Fit = "trained"
    hyperparameters: Mapping[str, Value] = field(default_factory=dict)
    """Of the training, what is not as published."""
    ledger: str = ""
    """Digest of the audit's ledger that these are from (`srs_eval.benchmark.setup`)."""
    label: str = ""  # ends the name and says how its set-up differs (`benchmark.setup.with_labels`)

    @property
    def tunable(self) -> tuple[Hyperparameter, ...]:
        """What its training can be set to."""
        return self.model.hyperparameters if self.fit == "trained" else ()

    def trained_with(self, values: Mapping[str, Value]) -> Configuration:
        """The same with another training; what is not named is as published.

        Raises InputError for what its training cannot be set to.
        """
        refuse_unknown(self.name, self.tunable, values)
        return replace(self, hyperparameters=dict(sorted(values.items())))

    def tuned_with(self, values: Mapping[str, Value], ledger: str) -> Configuration:
        """The same with the training that a ledger of this digest names, as `NAME-tuned`.

        Raises InputError for what its training cannot be set to.
        """
        return replace(self.trained_with(values), name=f"{self.name}-{TUNED}", ledger=ledger)

    @property
    def parameters(self) -> int | None:
        """Number of trainable parameters, as tables show it; None where its model cannot say."""
        if self.fit == "default":
            return 0
        if self.model.count_parameters is not None and not self.model.parameters:
            return None
        special = self.model.parameters_with
        if self.fit == "S0":
            return special.get("pretrain", self.model.parameters)
        for flag in ("two_buttons", "disable_short_term"):
            if getattr(self.protocol, flag) and flag in special:
                return special[flag]
        return self.model.parameters

    def count_parameters(self, context: Context, log: ReviewLog | None = None) -> int | None:
        """Count its parameters, also those of a torch module or of a file of weights.

        None where nobody knows them.
        """
        if self.parameters is None and self.model.count_parameters is not None:
            with self.model.code_kept_apart():
                return self.model.count_parameters(context, log)
        return self.parameters

    @property
    def compiles(self) -> bool:
        """Whether kernels may have to be compiled before the first run."""
        if self.model.compiles == "to train":
            return self.fit not in ("default", "own")
        return self.model.compiles == "always"

    @property
    def words(self) -> str:
        """The name as a person says it: "FSRS-6 defaults"."""
        plain = in_words(self.name.removesuffix(f"-{_hyphened(self.label)}"))
        return f"{plain} {self.label}".rstrip()

    @property
    def title(self) -> str:
        """Words and file name: "FSRS-6 defaults (FSRS-6-dry-run)"; once where they agree."""
        words = self.words
        return words if words.replace(" ", "-") == self.name else f"{words} ({self.name})"

    @property
    def rows_in_words(self) -> str:
        """Which reviews it is evaluated on; see `Protocol.evaluated_rows`."""
        return rows_in_words(self.protocol)

    @property
    def inputs(self) -> str:
        """What it knows of a review, as the model's `inputs`, its flags considered."""
        inputs = self.model.inputs
        if inputs == "-":
            return inputs
        if self.protocol.secs:
            inputs = re.sub(r"\bIL\b", "FIL", inputs)
        if self.protocol.short and "SR" not in inputs:
            inputs += ", SR"
        return inputs

    @property
    def is_baseline(self) -> bool:
        """Whether it is the average, which others are held against."""
        return self.model.name == BASELINE

    @property
    def learns(self) -> bool:
        """Whether it learns from each review that it is evaluated on, as no scheduler can."""
        return bool(self.model.online or self.model.family == "online") and not self.is_baseline

    @property
    def members(self) -> list[Configuration]:
        """What its model combines, with its flags; with `short` whoever is named so."""
        flags = replace(self.protocol, short=False)
        return resolve(self.model.members, flags) if self.model.members else []

    @property
    def is_member(self) -> bool:
        """Whether another model combines its model, trained as published, with others."""
        return not self.hyperparameters and any(
            self.model.name in map(_model_of, each.members) for each in all_models().values()
        )

    def matches(self, text: str) -> bool:
        """Whether its name, as a person or as a file has it, or its family has `text` in it."""
        wanted = text.lower()
        named = any(wanted in each.lower() for each in (self.words, self.name))
        return named or wanted == self.model.family

    @property
    def expected_seconds_per_10k(self) -> float:
        """Rough time for 10,000 reviews, to order the work and to announce it."""
        share = {"trained": 1.0, "S0": 0.6}.get(self.fit, 0.5)  # metrics are half of it
        return self.model.seconds_per_10k * share

    def expected_seconds(self, reviews: float) -> float:
        """Rough time of one core for so many reviews, kernels compiled and packages imported."""
        return self.model.seconds_besides + self.expected_seconds_per_10k * reviews / 10_000


def resolve(
    names: str | Iterable[str], protocol: Protocol | None = None, fit: Fit = "trained"
) -> list[Configuration]:
    """Configurations for names, aliases and groups, without doubles; names also as tables show.

    Those that compile nothing come first; then cheapest first.

    The flags of `protocol` (and `fit`) are added to every configuration that can take
    them. Raises InputError for an unknown name, for a name that contradicts a flag and
    for flags that make no sense together.
    """
    protocol = protocol or Protocol()
    _refuse_senseless_flags(protocol)
    if isinstance(names, str):
        names = names.split(",")
    found: dict[str, Configuration] = {}
    for word in (name.strip() for name in names):
        if not word:
            continue
        group = _group(word)
        for name in group or (word,):
            configuration = _configuration(name, protocol, fit, named=not group)
            if configuration is not None:
                found.setdefault(configuration.name, configuration)
    if not found:
        raise InputError("No model is named: give names, or a group such as fast or all.")
    return sorted(found.values(), key=lambda each: (each.compiles, each.expected_seconds_per_10k))


def rows_in_words(protocol: Protocol) -> str:
    """Which reviews are evaluated under these flags; see `Protocol.evaluated_rows`."""
    rows = protocol.evaluated_rows()
    if not rows.secs:
        words = "reviews of later days"
    elif not rows.short:
        words = "reviews of later days, intervals in seconds"
    elif rows.no_test_same_day:
        words = "reviews of later days, folds cut over same-day ones too"
    else:
        words = "reviews, same-day ones too"
    if rows.known_decks_only:
        words += ", of cards and decks that are known"
    return f"{words}, trained on them as well" if rows.train_equals_test else words


@cache
def in_words(name: str) -> str:
    """A configuration's name as a person says it: "FSRS-6 recency", "average"."""
    if name in _CONFIGURATION_WORDS:
        return _CONFIGURATION_WORDS[name]
    if (base := untuned(name)) != name:
        return f"{in_words(base)} {TUNED}"
    for model in all_models().values():
        if model.standard and f"{name}-".startswith(f"{model.standard}-"):
            suffixes = name.removeprefix(model.standard).split("-")
            shown = [model.name, *(_SUFFIX_WORDS.get(each, each) for each in suffixes[1:])]
            if model.aliases.get(" ".join(shown), name) == name:
                return " ".join(shown)
        for alias, canonical in model.aliases.items():
            if canonical == name and len(alias) < len(name):
                return alias
    words: list[str] = []
    while name not in all_models():
        suffix = next((each for each in SUFFIXES if name.endswith(f"-{each}")), None)
        if suffix is None:
            break
        name = name.removesuffix(f"-{suffix}")
        words.insert(0, _SUFFIX_WORDS.get(suffix, suffix))
    return " ".join([_MODEL_WORDS.get(name, name), *words])


def untuned(name: str) -> str:
    """The name of a configuration as published: without what a ledger's training adds to it."""
    base = _without_tuned(name)
    return name if base == name or meant_by(name) else base


def meant_by(word: str) -> str:
    """The group or the configuration that a word means; "" for none."""
    if word.lower() in GROUPS:
        return f"the group {word.lower()}"
    try:
        found = resolve([word])
    except InputError:
        return ""
    return found[0].name


def listed_names(model: Model) -> tuple[str, ...]:
    """The configurations that the group `all` holds for a model."""
    return model.configurations or (model.standard or model.name,)


def _hyphened(name: str) -> str:
    """A name as tables show it with the hyphens of file names; of a title what is in brackets."""
    return "-".join(re.sub(r".* \((.+)\)$", r"\1", name).split())


def _without_tuned(name: str) -> str:
    return re.sub(f"[- ]{TUNED}$", "", name, flags=re.IGNORECASE)


def _group(word: str) -> tuple[str, ...]:
    if word in all_models() or word.lower() not in GROUPS:  # "SM2" is a model, "sm2" its group
        return ()
    word = word.lower()
    if word == "learner":
        return _LEARNER
    return tuple(
        name
        for model in all_models().values()
        if not model.extra
        and (model.weights is None or model.weights(Context()))
        and (word in ("all", model.family) or (word == "fast" and model.family != "neural"))
        for name in listed_names(model)
    )


def _configuration(name: str, protocol: Protocol, fit: Fit, named: bool) -> Configuration | None:
    """The configuration of one name; None where a member of a group contradicts a flag."""
    models = all_models().values()
    aliases = {_hyphened(a).lower(): of for model in models for a, of in model.aliases.items()}
    model, in_name = _parse(aliases.get(_hyphened(name).lower(), name), shown=name)
    asked: dict[str, Any] = {"fit": fit, **{flag: getattr(protocol, flag) for flag in _flags()}}
    flags: dict[str, Any] = {}
    for flag, asked_value in asked.items():
        value = in_name.get(flag, _OFF.get(flag, False))
        if flag in in_name and not _can_take(model, flag, value):
            raise InputError(f'"{name}" makes no sense: {model.name} cannot take {_shown(flag)}.')
        if asked_value != _OFF.get(flag, False) and _can_take(model, flag, asked_value):
            if flag in in_name and asked_value != value:
                if not named:
                    return None
                raise InputError(
                    f'The name "{name}" contradicts the option for {_shown(flag)}: leave one out.'
                )
            value = asked_value
        flags[flag] = value
    if flags["fit"] in ("default", "own"):
        flags["recency"] = flags["sched_penalties"] = False  # nothing is trained
    if flags["fit"] == "own":
        if "partitions" in in_name:
            raise InputError(f'"{name}" makes no sense: it goes by presets anyway.')
        flags["partitions"] = "none"  # in the name
    for flag in (*_ONLY_WITH_SECS, "clock"):
        if flags[flag] != _OFF.get(flag, False) and not flags["secs"]:
            if flag in in_name:
                raise InputError(f'"{name}" makes no sense without -secs.')
            flags[flag] = _OFF.get(flag, False)
    if flags["equalize_test_with_non_secs"]:
        flags["no_test_same_day"] = False  # none is evaluated anyway
    if flags["fallback_user"] and (flags["partitions"] == "none" or flags["fit"] == "default"):
        if "fallback_user" in in_name:
            raise InputError(
                f'"{name}" makes no sense: nothing is fitted to each preset or deck that could '
                "fall back."
            )
        flags["fallback_user"] = False
    suffixes = [
        suffix
        for suffix, (flag, value) in SUFFIXES.items()
        if flags[flag] == value
        and not (flag == "short" and model.always_short and "-short" not in model.standard)
    ]
    fitted: Fit = flags.pop("fit")
    flags["short"] = flags["short"] or model.always_short
    flags["known_decks_only"] = flags["known_decks_only"] or model.known_decks_only
    if fitted == "own":
        flags["partitions"] = "preset"
    later_days_only = model.later_days_only and flags["secs"] and flags["no_test_same_day"]
    return Configuration(
        name="-".join((model.name, *suffixes)),
        model=model,
        protocol=replace(protocol, **flags, later_days_only=later_days_only),
        fit=fitted,
    )


def fits_parts(configuration: Configuration) -> bool:
    """Whether presets or decks have parameters of their own, so that one may have to fall back."""
    fitted = configuration.fit not in ("default", "own")
    return configuration.protocol.partitions != "none" and fitted


def suffixes_of(configuration: Configuration) -> list[str]:
    """The suffixes of a canonical name, in their order."""
    text = configuration.name.removeprefix(configuration.model.name)
    return [each for each in SUFFIXES if f"-{each}-" in f"{text}-"]


def _flags() -> tuple[str, ...]:
    return tuple(dict.fromkeys(flag for flag, _ in SUFFIXES.values() if flag != "fit"))


def _can_take(model: Model, flag: str, value: Any) -> bool:
    if flag == "fit":
        if value == "S0":
            return model.fit_s0 is not None
        if value == "own":
            return model.name in ("FSRS-6", "FSRS-7")
        has_some = model.parameters > 0 or model.pretrain is not None
        return value == "trained" or (has_some and not (model.online or model.members))
    if flag == "short" and model.always_short:
        return True
    return ("partitions" if flag == "fallback_user" else flag) in model.flags


def _shown(flag: str) -> str:
    return "parameters that are not fitted" if flag == "fit" else flag


def _parse(name: str, shown: str) -> tuple[Model, dict[str, Any]]:
    """Model and flags of a name, also as tables show it; the longest model that fits wins."""
    models = all_models()
    spelled = {_hyphened(each): models[each] for each in models}
    spelled |= {_hyphened(words): models[each] for each, words in _MODEL_WORDS.items()}
    name = _hyphened(name)
    for known in sorted(spelled, key=len, reverse=True):
        start, rest = name[: len(known)], name[len(known) :]
        model = spelled[known]
        if start.lower() == known.lower() and (flags := flags_of(rest)) is not None:
            standard = flags_of(model.standard[len(model.name) :]) or {}
            if not set(standard) & set(flags):  # else the name says itself what it means
                flags = {**standard, **flags}
            return model, flags
    base = _without_tuned(shown)
    if base != shown and (meant := meant_by(base)):
        raise InputError(
            f'"{shown}" is {meant} trained as the ledger of an audit says: '
            "give the ledger, too, with --setup LEDGER."
        )
    listed = [name for model in models.values() for name in (model.name, *listed_names(model))]
    by_lower = {each.lower(): each for each in (*listed, *GROUPS)}
    by_lower |= {in_words(each).lower(): each for each in listed}
    nearest = difflib.get_close_matches(shown.lower(), by_lower, n=3, cutoff=0.4)
    hint = ", ".join(dict.fromkeys(by_lower[each] for each in nearest))
    raise InputError(
        f'There is no model "{shown}".'
        + (f" Did you mean {hint}?" if hint else " `srs-eval models` lists them all.")
    )


@cache
def _model_of(name: str) -> str:
    """The name of a configuration's model."""
    return _parse(name, name)[0].name


def flags_of(suffixes: str) -> dict[str, Any] | None:
    """Flags of suffixes, each behind its dash; None for anything else."""
    if not suffixes:
        return {}
    spelled = {**SUFFIX_ALIASES, **{_hyphened(words): of for of, words in _SUFFIX_WORDS.items()}}
    for suffix in (*SUFFIXES, *spelled):
        start = f"-{suffix}".lower()
        rest = suffixes[len(start) :]
        if suffixes.lower().startswith(start) and rest[:1] in ("", "-"):
            flag, value = SUFFIXES[spelled.get(suffix, suffix)]
            others = flags_of(rest)
            if others is not None and flag not in others:
                return {flag: value, **others}
    return None


def _refuse_senseless_flags(protocol: Protocol) -> None:
    if not protocol.secs:
        for flag in _ONLY_WITH_SECS:
            if getattr(protocol, flag):
                raise InputError(f"--{flag} makes no sense without --secs.")
    if protocol.fallback_user and protocol.partitions == "none":
        raise InputError(
            "--fallback_user makes no sense without --partitions preset or --partitions deck."
        )
    if protocol.equalize_test_with_non_secs and protocol.no_test_same_day:
        raise InputError(
            "--no_test_same_day adds nothing to --equalize_test_with_non_secs: leave one out."
        )
    for name, least in (("n_splits", 2), ("batch_size", 1), ("max_seq_len", 1)):
        if (value := getattr(protocol, name)) < least:
            raise InputError(f"--{name} must be at least {least}, not {value}.")
    if not (protocol.gamma >= 0 and math.isfinite(protocol.gamma)):
        raise InputError(f"--gamma must be 0 or more, not {protocol.gamma:g}.")
