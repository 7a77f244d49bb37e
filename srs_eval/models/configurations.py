"""Resolve names to configurations: a model plus what its name says about the protocol.

Canonical names are those of srs-benchmark's result files, so that results are interchangeable; the
order of the suffixes is the same, too.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from srs_eval.data.errors import InputError, format_count
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.splits import describe_cut, describe_window
from srs_eval.models import Context, Ensemble, Model, OnlineModel, TrainedModel, all_models
from srs_eval.training.hyperparameters import SEED, Hyperparameter, Value, check_values

Fit = Literal["trained", "default", "S0", "own"]
"""Origin of the parameters; "own" means those stored in the learner's presets."""


@dataclass(frozen=True)
class Suffix:
    """The meaning of a suffix in configuration names: a flag has this value."""

    flag: str
    """Name of a flag of `Protocol`, or "fit"."""
    value: str | bool = True
    words: str = ""
    """Readable words; "" if these are the suffix itself."""


SUFFIXES: Mapping[str, Suffix] = {
    "dry-run": Suffix("fit", "default", words="defaults"),
    "pretrain": Suffix("fit", "S0", words="S0 only"),
    "own": Suffix("fit", "own", words="as stored in your presets"),
    "sched_penalties": Suffix("sched_penalties", words="sched. penalties"),
    "binary": Suffix("two_buttons", words="two buttons"),
    "short": Suffix("short"),
    "secs": Suffix("secs"),
    "recency": Suffix("recency"),
    "study_days": Suffix("clock", "study-days", words="study days"),
    "whole_days": Suffix("clock", "days", words="whole days"),
    "no_test_same_day": Suffix("no_test_same_day", words="later days"),
    "no_train_same_day": Suffix("no_train_same_day", words="fitted on later days"),
    "equalize_test_with_non_secs": Suffix("equalize_test_with_non_secs", words="equalized"),
    "train_equals_test": Suffix("train_equals_test", words="fitted on the test"),
    "disable_short_term": Suffix("disable_short_term", words="no short-term"),
    "preset": Suffix("partitions", "preset", words="per preset"),
    "deck": Suffix("partitions", "deck", words="per deck"),
    "fallback_user": Suffix("fallback_user", words="else all together"),
    "known_decks": Suffix("known_decks_only", words="known decks"),
}
"""Suffixes in the order of canonical names."""
SUFFIX_ALIASES = {"default": "dry-run", "S0": "pretrain", "two_buttons": "binary"}
TUNED_SUFFIX = "tuned"  # ends names of configurations that are trained as an audit's ledger says
_SUFFIX_WORDS = {suffix: meaning.words for suffix, meaning in SUFFIXES.items() if meaning.words}
_MODEL_WORDS: Mapping[str, str] = {
    "AVG": "average",
    "MOVING-AVG": "moving average",
    "90%": "always 90 %",
}
OWN_FSRS_6 = "FSRS-6-own"
"""The parameters stored in the learner's presets, run as Anki runs them."""
OWN_FSRS_7 = "FSRS-7-own-short-secs-equalize_test_with_non_secs"
"""The learner's stored parameters where a fork of Anki runs FSRS-7, on the same reviews."""
_CONFIGURATION_WORDS: Mapping[str, str] = {
    OWN_FSRS_6: "your parameters",
    OWN_FSRS_7: "your FSRS-7 parameters",
    # These have aliases, their names of 2025, which would otherwise be shown.
    "RWKV-Instant": "RWKV-Instant",
    "RWKV-Curve": "RWKV-Curve",
}
_ONLY_WITH_SECS = ("equalize_test_with_non_secs", "no_test_same_day", "no_train_same_day")
_FLAG_DEFAULTS: Mapping[str, Any] = {"fit": "trained", "partitions": "none", "clock": "seconds"}
"""Defaults of flags; the default of every other flag is False."""
_FAMILIES = ("fsrs", "sm2", "history", "neural", "baseline", "online")
GROUPS = ("all", "fast", "learner", *_FAMILIES)
_LEARNER_GROUP = (
    "AVG",
    "Anki-dry-run",
    "FSRS-6-dry-run",
    OWN_FSRS_6,
    "FSRS-6",
    "FSRS-6-recency",
    "STATE-FSRS-6",
)
"""Configurations that are relevant to a learner: Anki's schedulers, fitted or not, the average,
and a model that knows how the day is going."""
BASELINE = "AVG"
"""The model that knows only the average."""


@dataclass(frozen=True)
class Configuration:
    """A model, its protocol and its training, evaluated under one name."""

    name: str
    model: Model
    protocol: Protocol
    fit: Fit = "trained"
    hyperparameters: Mapping[str, Value] = field(default_factory=dict)
    """Hyperparameters of the training that are not as published."""
    ledger: str = ""
    """Digest of the audit's ledger that these are from (`srs_eval.benchmark.setup`); "" if none."""
    label: str = ""  # ends the name and says how its set-up differs (`benchmark.setup.add_labels`)

    @property
    def tunable_hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Hyperparameters that can be set for its training."""
        if self.fit == "trained" and isinstance(self.model, TrainedModel):
            return self.model.hyperparameters
        return ()

    @property
    def values_for_fit(self) -> Mapping[str, Value]:
        """Hyperparameters that a fit finds in its context: those set, and the protocol's seed."""
        if not self.protocol.seed or self.fit != "trained":
            return self.hyperparameters
        return {SEED.name: self.protocol.seed, **self.hyperparameters}

    def with_hyperparameters(self, values: Mapping[str, Value]) -> Configuration:
        """Return the configuration with these hyperparameters; all others are as published.

        Raises InputError for hyperparameters or values that its training does not have.
        """
        check_values(self.name, self.tunable_hyperparameters, values)
        return replace(self, hyperparameters=dict(sorted(values.items())))

    def with_ledger(self, values: Mapping[str, Value], ledger: str) -> Configuration:
        """Return the configuration `NAME-tuned`, with hyperparameters of an audit's ledger.

        `ledger` is the ledger's digest. Raises InputError for hyperparameters or values that its
        training does not have.
        """
        return replace(
            self.with_hyperparameters(values), name=f"{self.name}-{TUNED_SUFFIX}", ledger=ledger
        )

    @property
    def parameters(self) -> int | None:
        """Number of trainable parameters, as tables show it; None if its model declares none."""
        if self.fit == "default":
            return 0
        special: Mapping[str, int] = {}
        if isinstance(self.model, TrainedModel):
            special = self.model.parameters_with
        if self.fit == "S0":
            return special.get("pretrain", self.model.parameters)
        for flag in ("two_buttons", "disable_short_term"):
            if getattr(self.protocol, flag) and flag in special:
                return special[flag]
        return self.model.parameters

    def count_parameters(self, context: Context, log: ReviewLog | None = None) -> int | None:
        """Count the parameters, including those of a torch module or of a weight file.

        Returns None if the number is unknown.
        """
        if self.parameters is None and self.model.count_parameters is not None:
            with self.model.isolate_settings():
                return self.model.count_parameters(context, log)
        return self.parameters

    @property
    def compiles(self) -> bool:
        """Return whether kernels may have to be compiled before the first run."""
        cost = self.model.cost
        if cost.compiles_only_to_train and self.fit in ("default", "own"):
            return False
        return cost.seconds_to_compile > 0

    @property
    def is_cacheable(self) -> bool:
        """Return whether a later run may show its figures again instead of computing them."""
        return self.fit != "own" and self.model.is_cacheable

    @property
    def words(self) -> str:
        """Readable name, such as "FSRS-6 defaults"."""
        plain = readable_name(self.name.removesuffix(f"-{_hyphenate(self.label)}"))
        return f"{plain} {self.label}".rstrip()

    @property
    def title(self) -> str:
        """Readable and canonical name: "FSRS-6 defaults (FSRS-6-dry-run)".

        If both agree, the name appears once.
        """
        words = self.words
        return words if words.replace(" ", "-") == self.name else f"{words} ({self.name})"

    @property
    def rows_description(self) -> str:
        """Description of the reviews it is evaluated on; see `Protocol.row_protocol`."""
        return describe_rows(self.protocol)

    @property
    def inputs(self) -> str:
        """Inputs of the model as in `Model.inputs`, adjusted to the protocol's flags."""
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
        """Return whether it is the average, with which others are compared."""
        return self.model.name == BASELINE

    @property
    def is_online(self) -> bool:
        """Return whether it learns from each review it is evaluated on, as no scheduler can."""
        learns = isinstance(self.model, OnlineModel) or self.model.family == "online"
        return learns and not self.is_baseline

    @property
    def is_trained_on_other_users(self) -> bool:
        """Return whether it is first trained on the users of other parts (`--split users`)."""
        is_trained = isinstance(self.model, TrainedModel) and self.model.pretrain is not None
        return is_trained and self.protocol.split == "users"

    @property
    def member_configurations(self) -> list[Configuration]:
        """Configurations that its model combines, with its flags.

        Only members whose name says `short` have that flag.
        """
        if not isinstance(self.model, Ensemble):
            return []
        flags = replace(self.protocol, short=False)
        return resolve_configurations(self.model.members, flags)

    @property
    def is_member(self) -> bool:
        """Return whether another model combines this model, trained as published, with others."""
        if self.hyperparameters:
            return False
        return any(
            self.model.name in map(_model_name, model.members)
            for model in all_models().values()
            if isinstance(model, Ensemble)
        )

    def matches(self, text: str) -> bool:
        """Return whether `text` is part of its readable or canonical name, or is its family."""
        searched = text.lower()
        is_in_name = searched in self.words.lower() or searched in self.name.lower()
        return is_in_name or searched == self.model.family

    @property
    def expected_seconds_per_10k(self) -> float:
        """Approximate time for 10,000 reviews, to order work and estimate waiting times."""
        # Without training, half of the time is left: that of predictions and metrics.
        share = {"trained": 1.0, "S0": 0.6}.get(self.fit, 0.5)
        return self.model.cost.seconds_per_10k * share

    def expected_seconds(self, reviews: float) -> float:
        """Estimate the time on one core for a number of reviews, without compiling kernels.

        The time for importing packages is included.
        """
        seconds = self.expected_seconds_per_10k * reviews / 10_000
        return self.model.cost.seconds_besides + seconds


def resolve_configurations(
    names: str | Iterable[str], protocol: Protocol | None = None, fit: Fit = "trained"
) -> list[Configuration]:
    """Return the configurations for names, aliases and groups, without duplicates.

    Names may also be spelled as in tables. Configurations that compile nothing come first; then the
    cheapest come first.

    The flags of `protocol` (and `fit`) are added to every configuration that can take them. Raises
    InputError for an unknown name, for a name that contradicts a flag and for flags that make no
    sense together.
    """
    protocol = protocol or Protocol()
    _check_flags(protocol)
    if isinstance(names, str):
        names = names.split(",")
    configurations: dict[str, Configuration] = {}
    for word in (name.strip() for name in names):
        if not word:
            continue
        group = _expand_group(word)
        for name in group or (word,):
            configuration = _make_configuration(name, protocol, fit, is_named=not group)
            if configuration is not None:
                configurations.setdefault(configuration.name, configuration)
    if not configurations:
        raise InputError("No models were given: give names, or a group such as fast or all.")
    return sorted(
        configurations.values(),
        key=lambda configuration: (configuration.compiles, configuration.expected_seconds_per_10k),
    )


def describe_rows(protocol: Protocol) -> str:
    """Describe which reviews are evaluated under these flags; see `Protocol.row_protocol`."""
    return f"reviews{_describe_choice_of_rows(protocol, 'of later days')}"


def describe_review_count(count: int, protocol: Protocol) -> str:
    """Describe the reviews with their number, and say which day they are later than."""
    later_days = "made on a later day than the card's previous one"
    return f"{format_count(count, 'review')}{_describe_choice_of_rows(protocol, later_days)}"


def _describe_choice_of_rows(protocol: Protocol, later_days: str) -> str:
    rows = protocol.row_protocol()
    if not rows.secs:
        words = f" {later_days}"
    elif not rows.short:
        words = f" {later_days}, with intervals in seconds"
    elif rows.no_test_same_day:
        words = f" {later_days}, with folds that also count same-day reviews"
    else:
        words = ", including same-day reviews"
    if rows.known_decks_only:
        words += ", of cards and decks that still exist"
    if rows.split == "cards":
        words += ", of cards that are not trained on"
    if rows.train_until:
        words += f", from {describe_cut(rows)} on"
    if rows.train_months:
        words += f", trained on {describe_window(rows)} before"
    return f"{words}, which are also the training data" if rows.train_equals_test else words


@cache
def readable_name(name: str) -> str:
    """Return a configuration's readable name, such as "FSRS-6 recency" or "average"."""
    if name in _CONFIGURATION_WORDS:
        return _CONFIGURATION_WORDS[name]
    base = remove_tuned(name)
    if base != name:
        return f"{readable_name(base)} {TUNED_SUFFIX}"
    for model in all_models().values():
        # The bare model name stands for the standard configuration, whose suffixes are not shown.
        if model.standard and f"{name}-".startswith(f"{model.standard}-"):
            suffixes = name.removeprefix(model.standard).split("-")
            suffix_words = [_SUFFIX_WORDS.get(suffix, suffix) for suffix in suffixes[1:]]
            readable = " ".join([model.name, *suffix_words])
            if model.aliases.get(readable, name) == name:  # not an alias of something else
                return readable
        for alias, canonical in model.aliases.items():
            if canonical == name and len(alias) < len(name):
                return alias
    words: list[str] = []
    while name not in all_models():
        last_suffix = next((suffix for suffix in SUFFIXES if name.endswith(f"-{suffix}")), None)
        if last_suffix is None:
            break
        name = name.removesuffix(f"-{last_suffix}")
        words.insert(0, _SUFFIX_WORDS.get(last_suffix, last_suffix))
    return " ".join([_MODEL_WORDS.get(name, name), *words])


def remove_tuned(name: str) -> str:
    """Return a configuration's name without `-tuned`, the suffix of training as a ledger says.

    If a model itself has a name that ends like this, the name is returned as it is.
    """
    base = _strip_tuned(name)
    return name if base == name or find_meaning(name) else base


def find_meaning(word: str) -> str:
    """Return the group or configuration that a word means, or "" for none."""
    if word.lower() in GROUPS:
        return f"the group {word.lower()}"
    try:
        configurations = resolve_configurations([word])
    except InputError:
        return ""
    return configurations[0].name


def list_names(model: Model) -> tuple[str, ...]:
    """Return the configurations of a model that the group `all` includes."""
    return model.configurations or (model.standard or model.name,)


def _hyphenate(name: str) -> str:
    """Write a name from a table with hyphens, as file names have them.

    Of a title such as "FSRS-6 defaults (FSRS-6-dry-run)", only the name in brackets is used.
    """
    return "-".join(re.sub(r".* \((.+)\)$", r"\1", name).split())


def _strip_tuned(name: str) -> str:
    return re.sub(f"[- ]{TUNED_SUFFIX}$", "", name, flags=re.IGNORECASE)


def _expand_group(word: str) -> tuple[str, ...]:
    """Return the names of a group's configurations, or () if the word is not a group."""
    if word in all_models() or word.lower() not in GROUPS:  # "SM2" is a model, "sm2" its group
        return ()
    word = word.lower()
    if word == "learner":
        return _LEARNER_GROUP
    names: list[str] = []
    for model in all_models().values():
        if model.extra:
            continue
        if model.weights is not None and not model.weights(Context()):
            continue
        is_fast = word == "fast" and model.family != "neural"
        if is_fast or word in ("all", model.family):
            names.extend(list_names(model))
    return tuple(names)


def _make_configuration(
    name: str, protocol: Protocol, fit: Fit, is_named: bool
) -> Configuration | None:
    """Return the configuration of one name, or None if a group's member contradicts a flag.

    `is_named` says that the user gave the name itself, not a group.
    """
    canonical_by_alias: dict[str, str] = {}
    for candidate in all_models().values():
        for alias, canonical in candidate.aliases.items():
            canonical_by_alias[_hyphenate(alias).lower()] = canonical
    canonical_name = canonical_by_alias.get(_hyphenate(name).lower(), name)
    model, flags_in_name = _parse_name(canonical_name, shown_name=name)
    refusal = _refuse_split(model, protocol)
    if refusal:
        if not is_named:
            return None
        raise InputError(refusal)
    requested: dict[str, Any] = {
        "fit": fit,
        **{flag: getattr(protocol, flag) for flag in _list_flags()},
    }
    flags: dict[str, Any] = {}
    for flag, requested_value in requested.items():
        default = _FLAG_DEFAULTS.get(flag, False)
        value = flags_in_name.get(flag, default)
        if flag in flags_in_name and not _can_take(model, flag, value):
            raise InputError(
                f'"{name}" makes no sense: {model.name} does not support {_describe_flag(flag)}.'
            )
        if requested_value != default and _can_take(model, flag, requested_value):
            if flag in flags_in_name and requested_value != value:
                if not is_named:
                    return None
                raise InputError(
                    f'The name "{name}" contradicts the option for {_describe_flag(flag)}: '
                    "leave one out."
                )
            value = requested_value
        flags[flag] = value
    if flags["fit"] in ("default", "own"):
        # Nothing is trained.
        flags["recency"] = False
        flags["sched_penalties"] = False
    if flags["fit"] == "own":
        if "partitions" in flags_in_name:
            raise InputError(
                f'"{name}" makes no sense: it uses the parameters of each preset anyway.'
            )
        flags["partitions"] = "none"  # set again below: the name does not say "preset"
    for flag in (*_ONLY_WITH_SECS, "clock"):
        default = _FLAG_DEFAULTS.get(flag, False)
        if flags[flag] != default and not flags["secs"]:
            if flag in flags_in_name:
                raise InputError(f'"{name}" makes no sense without -secs.')
            flags[flag] = default
    if flags["equalize_test_with_non_secs"]:
        flags["no_test_same_day"] = False  # none is evaluated anyway
    if flags["fallback_user"] and (flags["partitions"] == "none" or flags["fit"] == "default"):
        if "fallback_user" in flags_in_name:
            raise InputError(
                f'"{name}" makes no sense: it fits no parameters to single presets or decks, so '
                "there is nothing to fall back from."
            )
        flags["fallback_user"] = False
    # The name of a model that is always "short" says so only if its standard configuration does.
    hides_short = model.always_short and "-short" not in model.standard
    suffixes = [
        suffix
        for suffix, meaning in SUFFIXES.items()
        if flags[meaning.flag] == meaning.value and not (suffix == "short" and hides_short)
    ]
    fit_of_configuration: Fit = flags.pop("fit")
    flags["short"] = flags["short"] or model.always_short
    flags["known_decks_only"] = flags["known_decks_only"] or model.known_decks_only
    if fit_of_configuration == "own":
        flags["partitions"] = "preset"
    later_days_only = model.later_days_only and flags["secs"] and flags["no_test_same_day"]
    return Configuration(
        name="-".join((model.name, *suffixes)),
        model=model,
        protocol=replace(protocol, **flags, later_days_only=later_days_only),
        fit=fit_of_configuration,
    )


def fits_partitions(configuration: Configuration) -> bool:
    """Return whether parameters are fitted to each preset or deck.

    Some presets or decks may then have too few reviews and fall back to other parameters.
    """
    fitted = configuration.fit not in ("default", "own")
    return configuration.protocol.partitions != "none" and fitted


def list_suffixes(configuration: Configuration) -> list[str]:
    """Return the suffixes of the canonical name, in their order."""
    text = configuration.name.removeprefix(configuration.model.name)
    return [suffix for suffix in SUFFIXES if f"-{suffix}-" in f"{text}-"]


def _list_flags() -> tuple[str, ...]:
    flags = dict.fromkeys(meaning.flag for meaning in SUFFIXES.values())
    return tuple(flag for flag in flags if flag != "fit")


def _can_take(model: Model, flag: str, value: Any) -> bool:
    """Return whether a model can be evaluated with this value of a flag."""
    if flag == "fit":
        return _can_take_fit(model, value)
    if flag == "short" and model.always_short:
        return True
    if flag == "fallback_user":
        return "partitions" in model.flags
    return flag in model.flags


def _can_take_fit(model: Model, fit: Fit) -> bool:
    if fit == "trained":
        return True
    if not isinstance(model, TrainedModel):
        return False
    if fit == "S0":
        return model.fit_s0 is not None
    if fit == "own":
        return model.name in ("FSRS-6", "FSRS-7")
    has_parameters = bool(model.parameters) or model.pretrain is not None
    return has_parameters and model.has_default


def _refuse_split(model: Model, protocol: Protocol) -> str:
    """Return why a model cannot be evaluated on a split of reviews; "" if it can.

    The average, though an online model, is computed from each fold's training part.
    """
    if not isinstance(model, OnlineModel) or model.name == BASELINE:
        return ""
    learns = f"{model.name} learns from every answer, in order of time"
    if protocol.split == "cards":
        return f"{learns}, so it has seen every card: drop the model, or drop --split cards."
    if protocol.train_months:
        return f"{learns}, whatever it is trained on: drop the model, or drop --train-months."
    return ""


def _describe_flag(flag: str) -> str:
    return "parameters that are not fitted" if flag == "fit" else flag


def _parse_name(name: str, shown_name: str) -> tuple[Model, dict[str, Any]]:
    """Return the model and the flags of a canonical name or of a name as tables show it.

    If several models match, the one with the longest name is meant. `shown_name` is the name in
    error messages.
    """
    models = all_models()
    models_by_spelling = {_hyphenate(model_name): model for model_name, model in models.items()}
    for model_name, words in _MODEL_WORDS.items():
        models_by_spelling[_hyphenate(words)] = models[model_name]
    name = _hyphenate(name)
    for spelling in sorted(models_by_spelling, key=len, reverse=True):
        start = name[: len(spelling)]
        if start.lower() != spelling.lower():
            continue
        flags = parse_suffixes(name[len(spelling) :])
        if flags is None:
            continue
        model = models_by_spelling[spelling]
        standard = parse_suffixes(model.standard[len(model.name) :]) or {}
        # A suffix that the standard configuration has, too, says that the name is complete.
        if not set(standard) & set(flags):
            flags = {**standard, **flags}
        return model, flags
    base = _strip_tuned(shown_name)
    meaning = find_meaning(base) if base != shown_name else ""
    if meaning:
        raise InputError(
            f'"{shown_name}" is {meaning}, trained with the hyperparameters in an audit\'s ledger: '
            "name the ledger with --setup LEDGER."
        )
    raise InputError(f'There is no model "{shown_name}".{_suggest_names(shown_name)}')


def list_configuration_names() -> list[str]:
    """List the names of all models and of their configurations."""
    names: list[str] = []
    for model in all_models().values():
        names.append(model.name)
        names.extend(list_names(model))
    return list(dict.fromkeys(names))


def _suggest_names(name: str) -> str:
    """Return a sentence that names the configurations and groups spelled most like `name`."""
    configuration_names = list_configuration_names()
    by_lower = {known_name.lower(): known_name for known_name in (*configuration_names, *GROUPS)}
    for configuration_name in configuration_names:
        by_lower[readable_name(configuration_name).lower()] = configuration_name
    nearest = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.4)
    if not nearest:
        return " `srs-eval models` lists them all."
    suggestions = dict.fromkeys(by_lower[spelling] for spelling in nearest)
    return f" Did you mean {', '.join(suggestions)}?"


@cache
def _model_name(name: str) -> str:
    """Return the name of a configuration's model."""
    return _parse_name(name, name)[0].name


def parse_suffixes(suffixes: str) -> dict[str, Any] | None:
    """Return the flags of suffixes, as in "-short-secs"; None if the text is anything else."""
    if not suffixes:
        return {}
    suffix_by_spelling = dict(SUFFIX_ALIASES)
    for suffix, words in _SUFFIX_WORDS.items():
        suffix_by_spelling[_hyphenate(words)] = suffix
    for spelling in (*SUFFIXES, *suffix_by_spelling):
        start = f"-{spelling}".lower()
        rest = suffixes[len(start) :]
        if suffixes.lower().startswith(start) and rest[:1] in ("", "-"):
            meaning = SUFFIXES[suffix_by_spelling.get(spelling, spelling)]
            flags_of_rest = parse_suffixes(rest)
            if flags_of_rest is not None and meaning.flag not in flags_of_rest:
                return {meaning.flag: meaning.value, **flags_of_rest}
    return None


def _check_flags(protocol: Protocol) -> None:
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
    _check_split(protocol)
    for name, least in (
        ("n_splits", 2),
        ("batch_size", 1),
        ("max_seq_len", 1),
        ("seed", 0),
        ("train_months", 0),
    ):
        value = getattr(protocol, name)
        if value < least:
            raise InputError(f"--{name} must be at least {least}, not {value}.")
    if not (protocol.gamma >= 0 and math.isfinite(protocol.gamma)):
        raise InputError(f"--gamma must be 0 or more, not {protocol.gamma:g}.")


def refuse_user_split(protocol: Protocol) -> None:
    """Raise InputError for a split by users where only one user is evaluated."""
    if protocol.split == "users":
        raise InputError(
            "--split users trains models on other people, so it needs a data set of many users: "
            "`srs-eval batch` has it."
        )


def _check_split(protocol: Protocol) -> None:
    """Raise InputError for flags that say nothing about a split, or contradict it."""
    if not protocol.has_own_split:
        return
    if protocol.split == "cards":
        for flag in ("train_until", "train_months"):
            if getattr(protocol, flag):
                raise InputError(
                    f"--{flag.replace('_', '-')} splits by time and --split cards by card: leave "
                    "one out."
                )
    if protocol.train_until and protocol.without_user_split().n_splits != Protocol.n_splits:
        raise InputError("--train-until makes one fold: leave --n_splits out.")
    if protocol.train_equals_test:
        raise InputError(
            "--train_equals_test trains on the reviews that are evaluated: leave --split, "
            "--train-until and --train-months out."
        )
