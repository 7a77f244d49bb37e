"""Configurations: a model plus what its name says about the protocol.

Canonical names are those of srs-benchmark's result files, so that results are
interchangeable; order of the suffixes as there.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, get_args

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.models import Model, all_models
from srs_eval.training.hyperparameters import Hyperparameter, Value, refuse_unknown

Fit = Literal["trained", "default", "S0", "own"]
"""What parameters are: "own" are those that the learner's presets hold."""
Names = Literal["2025", "2026"]
NAMES: tuple[Names, ...] = get_args(Names)
"""Years of srs-benchmark that have a spelling of their own; the first is the canonical one."""

# Suffix -> (flag, value), in the order of canonical names. "fit" is no protocol flag.
SUFFIXES: Mapping[str, tuple[str, Any]] = {
    "dry-run": ("fit", "default"),
    "pretrain": ("fit", "S0"),
    "own": ("fit", "own"),
    "sched_penalties": ("sched_penalties", True),
    "binary": ("two_buttons", True),
    "short": ("short", True),
    "secs": ("secs", True),
    "recency": ("recency", True),
    "no_test_same_day": ("no_test_same_day", True),
    "no_train_same_day": ("no_train_same_day", True),
    "equalize_test_with_non_secs": ("equalize_test_with_non_secs", True),
    "train_equals_test": ("train_equals_test", True),
    "disable_short_term": ("disable_short_term", True),
    "preset": ("partitions", "preset"),
    "deck": ("partitions", "deck"),
    "fallback_user": ("fallback_user", True),
    "known_decks": ("known_decks_only", True),
}
SUFFIX_ALIASES = {"default": "dry-run", "S0": "pretrain", "two_buttons": "binary"}
_SUFFIXES_OF_2026 = {"dry-run": "default", "pretrain": "S0"}
_FALLBACK_DEFAULT = "fallback_default"
_DURATION = "duration"  # of LSTM in names of 2026: it knows answer times
_TUNED = "tuned"  # ends the name of what is trained as an audit's ledger says
_MODELS_OF_2026 = {"GRU-503": "GRU", "GRU": "GRU-39"}
"""Models that are spelled otherwise in names of 2026."""
# Suffix -> how a person says it, where that is not the suffix itself.
SUFFIX_WORDS: Mapping[str, str] = {
    "dry-run": "defaults",
    "pretrain": "S0 only",
    "own": "as your presets hold it",
    "sched_penalties": "sched. penalties",
    "binary": "two buttons",
    "preset": "per preset",
    "deck": "per deck",
    "fallback_user": "else all together",
    "known_decks": "known decks",
    "no_test_same_day": "later days",
    "no_train_same_day": "fitted on later days",
    "train_equals_test": "fitted on the test",
    "disable_short_term": "no short-term",
    "equalize_test_with_non_secs": "equalized",
}
_MODEL_WORDS: Mapping[str, str] = {
    "AVG": "average",
    "MOVING-AVG": "moving average",
    "90%": "always 90 %",
}
OWN = "FSRS-6-own"
"""The parameters that the learner's presets hold, run as Anki runs them."""
_CONFIGURATION_WORDS: Mapping[str, str] = {OWN: "your parameters"}
_OFF: Mapping[str, Any] = {"fit": "trained", "partitions": "none"}  # every other flag: False
FAMILIES = ("fsrs", "sm2", "history", "neural", "floor", "online")
GROUPS = ("all", "fast", "learner", *FAMILIES)
_LEARNER = (
    *("AVG", "Anki-dry-run", "FSRS-6-dry-run", OWN),
    *("FSRS-6", "FSRS-6-recency", "STATE-FSRS-6"),
)
"""What a learner knows of: schedulers in Anki, fitted or not, the average, and one's day."""
FLOOR = "AVG"
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
    """Digest of the audit's ledger that these are from (`srs_eval.benchmark.ledger`)."""

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
        return replace(self.trained_with(values), name=f"{self.name}-{_TUNED}", ledger=ledger)

    @property
    def parameters(self) -> int:
        """Number of trainable parameters, as tables show it."""
        if self.fit == "default":
            return 0
        special = self.model.parameters_with
        if self.fit == "S0":
            return special.get("pretrain", self.model.parameters)
        for flag in ("two_buttons", "disable_short_term"):
            if getattr(self.protocol, flag) and flag in special:
                return special[flag]
        return self.model.parameters

    @property
    def compiles(self) -> bool:
        """Whether kernels may have to be compiled before the first run."""
        if self.model.compiles == "to train":
            return self.fit not in ("default", "own")
        return self.model.compiles == "always"

    @property
    def words(self) -> str:
        """The name as a person says it: "FSRS-6 defaults"."""
        return in_words(self.name)

    @property
    def title(self) -> str:
        """Words and file name: "FSRS-6 defaults (FSRS-6-dry-run)"; once where they agree."""
        words = self.words
        return words if words.replace(" ", "-") == self.name else f"{words} ({self.name})"

    @property
    def rows_in_words(self) -> str:
        """Which reviews it is judged on; see `Protocol.judged_rows`."""
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
    def is_floor(self) -> bool:
        """Whether it is the average, which others are held against."""
        return self.model.name == FLOOR

    @property
    def learns(self) -> bool:
        """Whether it learns from each review that it is judged on, as no scheduler can."""
        return self.model.online is not None and not self.is_floor

    def matches(self, text: str) -> bool:
        """Whether its name, as a person or as a file has it, or its family has `text` in it."""
        wanted = _squeezed(text)
        return any(wanted in _squeezed(each) for each in (self.words, self.name)) or (
            wanted == _squeezed(self.model.family)
        )

    @property
    def expected_seconds_per_10k(self) -> float:
        """Rough time for 10,000 reviews, to order the work and to announce it."""
        share = {"trained": 1.0, "S0": 0.6}.get(self.fit, 0.5)  # metrics are half of it
        return self.model.seconds_per_10k * share

    def expected_seconds(self, reviews: float) -> float:
        """Rough time of one core for so many reviews, kernels compiled and packages imported."""
        return self.model.seconds_besides + self.expected_seconds_per_10k * reviews / 10_000


def resolve(
    names: str | Iterable[str],
    protocol: Protocol | None = None,
    fit: Fit = "trained",
) -> list[Configuration]:
    """Configurations for names, aliases and groups, without doubles.

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
    """Which reviews are judged under these flags; see `Protocol.judged_rows`."""
    rows = protocol.judged_rows()
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
        return f"{in_words(base)} {_TUNED}"
    for model in all_models().values():
        if model.standard and f"{name}-".startswith(f"{model.standard}-"):
            suffixes = name.removeprefix(model.standard).split("-")
            return " ".join([model.name, *(SUFFIX_WORDS.get(each, each) for each in suffixes[1:])])
        for alias, canonical in model.aliases.items():
            # Aliases that only spell a suffix in another way are no shorter names.
            spelled = alias.endswith(tuple(f"-{each}" for each in SUFFIX_ALIASES))
            if canonical == name and len(alias) < len(name) and not spelled:
                return alias
    words: list[str] = []
    while name not in all_models():
        suffix = next((each for each in SUFFIXES if name.endswith(f"-{each}")), None)
        if suffix is None:
            break
        name = name.removesuffix(f"-{suffix}")
        words.insert(0, SUFFIX_WORDS.get(suffix, suffix))
    return " ".join([_MODEL_WORDS.get(name, name), *words])


def spelled(name: str, names: Names) -> str:
    """A configuration's canonical name as srs-benchmark of a year spells it.

    2025 is the canonical spelling. Of 2026 is config.py at commit
    bd9110f791e5b37282c55a9aa8db35f68f0c4aa2: `-default` and `-S0` (but still `-binary`), `-short`
    wherever histories hold same-day reviews, and `-duration` for answer times. `-preset` and
    `-deck` stand for what is `-fallback_user` here; falling back to the defaults, which has no
    name there any more, is `-fallback_default`. A model that is not here keeps its name.
    """
    if (base := untuned(name)) != name:
        return f"{spelled(base, names)}-{_TUNED}"
    if names == "2025" or not meant_by(name):
        return name
    (found,) = resolve([name])
    flags = found.protocol
    suffixes = _suffixes(found)
    if found.model.always_short and not flags.disable_short_term:
        suffixes = [each for each in SUFFIXES if each == "short" or each in suffixes]
    written = [_SUFFIXES_OF_2026.get(each, each) for each in suffixes if each != "fallback_user"]
    if found.model.name == "LSTM" and flags.secs:
        written.insert(written.index("secs") + 1, _DURATION)
    if _fits_parts(found) and not flags.fallback_user:
        written.append(_FALLBACK_DEFAULT)
    model = _MODELS_OF_2026.get(found.model.name, found.model.name)
    return "-".join((model, *written))


def published(name: str, names: Names = "2025") -> Configuration | None:
    """What srs-benchmark's result file of this name holds; None for what there is not here.

    Some spellings mean something else there. A bare `NAME` has no `-short` and no `-secs` there,
    whatever it stands for here. `NAME-secs` of 2026 leaves same-day reviews out; those of 2025 that
    were published judge every positive interval: `NAME-short-secs` here; script.py's judge later
    days only. FSRS-rs was the FSRS-5 of fsrs-rs 0.7; in 2025, today's was called FSRS-6-rs. Of 2026
    see `spelled`; FSRS without `-short` has no same-day reviews in its histories there, LSTM
    without `-duration` no answer times. Raises InputError for a name that is none.
    """
    if (base := untuned(name)) != name:
        of_base = published(base, names)
        return of_base and replace(of_base, name=f"{of_base.name}-{_TUNED}")
    if names == "2025":
        if name == "FSRS-rs":
            return None
        name = {"FSRS-6-rs": "FSRS-rs"}.get(name, name)
    else:
        to_default = name.endswith(f"-{_FALLBACK_DEFAULT}")
        name = name.removesuffix(f"-{_FALLBACK_DEFAULT}")
        for here, there in _MODELS_OF_2026.items():
            rest = name.removeprefix(there)
            if rest != name and _parse_suffixes(_squeezed(rest)) is not None:
                name = here + rest
                break
        without_duration = name.replace(f"-secs-{_DURATION}", "-secs")
        (found,) = resolve([without_duration])
        if found.model.name == "LSTM" and without_duration == name:
            return None
        name = without_duration
        same_day_unknown = "-short" not in name and not found.protocol.disable_short_term
        if found.model.always_short and same_day_unknown:
            return None
        if _fits_parts(found) and not to_default:
            name = f"{name}-fallback_user"
    (found,) = resolve([name])
    if found.protocol.secs and "-secs" not in name:
        return None
    if names == "2025" and _secs_alone(found, name):
        if found.model.later_days_only:
            (found,) = resolve([name], Protocol(secs=True, no_test_same_day=True))
        elif not found.model.always_short:
            (found,) = resolve([name], Protocol(secs=True, short=True))
    return found


def _secs_alone(found: Configuration, name: str) -> bool:
    """Whether a name says `-secs` and nothing of same-day reviews."""
    flags = found.protocol
    return flags.secs and not flags.equalize_test_with_non_secs and "-short" not in name


def left_open(name: str, names: Names = "2025") -> str:
    """What the name of a published file does not decide, and what is assumed; "" for nothing.

    Files called `NAME-secs` that srs-benchmark published in January 2025 judge same-day reviews,
    its code of that month leaves them out. LSTM says `-duration` since some day of 2026.
    """
    try:
        (found,) = resolve([name])
        taken = published(name, names)
    except InputError:
        return ""
    if names == "2026" and found.model.name == "LSTM" and taken is None:
        return (
            f"no -{_DURATION} in its name: it may know no answer times, and is not taken for LSTM"
        )
    decided = found.model.later_days_only or found.model.always_short
    if names == "2026" or taken is None or decided or not _secs_alone(found, name):
        return ""
    return f"no -short in its name: it may leave same-day reviews out; taken for {taken.name}"


def untuned(name: str) -> str:
    """The name of a configuration as published: without what a ledger's training adds to it."""
    base = _without_tuned(name)
    return name if base == name or meant_by(name) else base


def _without_tuned(name: str) -> str:
    """Also as tables say it: "FSRS-6 tuned"."""
    return re.sub(rf"[- ]{_TUNED}$", "", name, flags=re.IGNORECASE)


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


def _group(word: str) -> tuple[str, ...]:
    if word in all_models():  # "SM2" is the model, "sm2" its group
        return ()
    word = word.lower()
    if word not in GROUPS:
        return ()
    if word == "learner":
        return _LEARNER
    return tuple(
        name
        for model in all_models().values()
        if not model.extra
        and (word in ("all", model.family) or (word == "fast" and model.family != "neural"))
        for name in listed_names(model)
    )


def _squeezed(name: str) -> str:
    """What is compared of a name: "FSRS-6", "fsrs 6" and "FSRS v6" are one."""
    letters = "".join(c for c in name.lower() if c.isalnum())
    return re.sub(r"(?<=[a-z])v(?=\d)", "", letters)


def _aliases() -> dict[str, str]:
    return {
        _squeezed(alias): name
        for model in all_models().values()
        for alias, name in model.aliases.items()
    }


def _configuration(name: str, protocol: Protocol, fit: Fit, named: bool) -> Configuration | None:
    """The configuration of one name; None where a member of a group contradicts a flag."""
    in_title = re.fullmatch(r"[^()]*\(([^()]+)\)", name)  # "FSRS-6 defaults (FSRS-6-dry-run)"
    canonical = in_title[1] if in_title else name
    canonical = _aliases().get(_squeezed(canonical), canonical)
    model, in_name = _parse(canonical, shown=name)
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
    if flags["equalize_test_with_non_secs"] and not flags["secs"]:
        if "equalize_test_with_non_secs" in in_name:
            raise InputError(f'"{name}" makes no sense without -secs.')
        flags["equalize_test_with_non_secs"] = False
    if flags["equalize_test_with_non_secs"]:
        flags["no_test_same_day"] = False  # none is judged anyway
    if flags["fallback_user"] and (flags["partitions"] == "none" or flags["fit"] == "default"):
        if "fallback_user" in in_name:
            raise InputError(
                f'"{name}" makes no sense: nothing is fitted to each preset or deck that could '
                "fall back."
            )
        flags["fallback_user"] = False
    for flag in ("no_test_same_day", "no_train_same_day"):
        if flags[flag] and not flags["secs"]:
            if flag in in_name:
                raise InputError(f'"{name}" makes no sense without -secs.')
            flags[flag] = False
    suffixes = [
        suffix
        for suffix, (flag, value) in SUFFIXES.items()
        if flags[flag] == value
        and not (flag == "short" and model.always_short and "-short" not in model.standard)
    ]
    fitted: Fit = flags.pop("fit")
    if model.always_short:
        flags["short"] = True
    if model.known_decks_only:
        flags["known_decks_only"] = True
    if fitted == "own":
        flags["partitions"] = "preset"
    later_days_only = model.later_days_only and flags["secs"] and flags["no_test_same_day"]
    return Configuration(
        name="-".join((model.name, *suffixes)),
        model=model,
        protocol=replace(
            protocol,
            **flags,
            later_days_only=later_days_only,
        ),
        fit=fitted,
    )


def _fits_parts(configuration: Configuration) -> bool:
    """Whether presets or decks have parameters of their own, so that one may have to fall back."""
    fitted = configuration.fit not in ("default", "own")
    return configuration.protocol.partitions != "none" and fitted


def _suffixes(configuration: Configuration) -> list[str]:
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
            return model.name == "FSRS-6"
        return value == "trained" or (model.parameters > 0 and model.online is None)
    if flag == "short" and model.always_short:
        return True
    if flag == "fallback_user":
        flag = "partitions"
    return flag in model.flags


def _shown(flag: str) -> str:
    return "parameters that are not fitted" if flag == "fit" else flag


def _parse(name: str, shown: str) -> tuple[Model, dict[str, Any]]:
    """Model and flags of a name, however it is spelled; the longest model that fits wins."""
    models = all_models()
    squeezed = _squeezed(name)
    spellings = {_squeezed(words): models[model] for model, words in _MODEL_WORDS.items()}
    spellings |= {_squeezed(model.name): model for model in models.values()}
    for spelling in sorted(spellings, key=len, reverse=True):
        if not squeezed.startswith(spelling):
            continue
        model = spellings[spelling]
        flags = _parse_suffixes(squeezed[len(spelling) :])
        if flags is None:
            continue
        standard = _parse_suffixes(_squeezed(model.standard[len(model.name) :])) or {}
        if not set(standard) & set(flags):  # else the name says itself what it means
            flags = {**standard, **flags}
        return model, flags
    known = [
        *(alias for model in models.values() for alias in model.aliases),
        *(name for model in models.values() for name in (model.name, *listed_names(model))),
        *GROUPS,
    ]
    base = _without_tuned(shown)
    if base != shown and (meant := meant_by(base)):
        raise InputError(
            f'"{shown}" is {meant} trained as the ledger of an audit says: '
            "give the ledger, too, with --setup LEDGER."
        )
    by_lower = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(shown.lower(), by_lower, n=3, cutoff=0.4)
    hint = ", ".join(by_lower[each] for each in nearest)
    raise InputError(
        f'There is no model "{shown}".'
        + (f" Did you mean {hint}?" if hint else " `srs-eval models` lists them all.")
    )


def _parse_suffixes(text: str) -> dict[str, Any] | None:
    """Flags of suffixes, squeezed and one after another; None for anything else.

    Of several readings the one with the longest suffixes first: "defaultsecs" is default, secs.
    """
    spellings = {
        **{_squeezed(suffix): meaning for suffix, meaning in SUFFIXES.items()},
        **{_squeezed(alias): SUFFIXES[name] for alias, name in SUFFIX_ALIASES.items()},
        **{_squeezed(words): SUFFIXES[name] for name, words in SUFFIX_WORDS.items()},
    }
    for spelling in sorted(spellings, key=len, reverse=True):
        if text.startswith(spelling):
            flag, value = spellings[spelling]
            rest = _parse_suffixes(text[len(spelling) :])
            if rest is not None and flag not in rest:
                return {flag: value, **rest}
    return None if text else {}


def _refuse_senseless_flags(protocol: Protocol) -> None:
    if not protocol.secs:
        for flag in ("equalize_test_with_non_secs", "no_test_same_day", "no_train_same_day"):
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
    if protocol.n_splits < 2:
        raise InputError(f"--n_splits must be at least 2, not {protocol.n_splits}.")
    if protocol.batch_size < 1:
        raise InputError(f"--batch_size must be at least 1, not {protocol.batch_size}.")
    if not (protocol.gamma >= 0 and math.isfinite(protocol.gamma)):
        raise InputError(f"--gamma must be 0 or more, not {protocol.gamma:g}.")
    if protocol.max_seq_len < 1:
        raise InputError(f"--max_seq_len must be at least 1, not {protocol.max_seq_len}.")


__all__: Sequence[str] = (
    "FAMILIES",
    "FLOOR",
    "GROUPS",
    "Configuration",
    "Fit",
    "in_words",
    "listed_names",
    "published",
    "resolve",
)
