"""Read and write what results depend on: `setup.json` of a batch, `ledger.json` of an audit.

docs/formats.md describes both files.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from srs_eval.benchmark.user_parts import describe_training_users
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, sanitize, shorten
from srs_eval.data.file_contents import write_atomically
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.engine.own_models import describe_mistake, find_mistake_kinds
from srs_eval.models import OnlineModel, TrainedModel
from srs_eval.models.configurations import (
    Configuration,
    find_meaning,
    remove_tuned,
    resolve_configurations,
)
from srs_eval.models.published import NamingYear
from srs_eval.training.compile import compute_program_digest
from srs_eval.training.hyperparameters import SEED, Context, Value, describe_values
from srs_eval.training.networks import describe_pretrained

SETUP_FILE = "setup.json"
SIMD_KEY = "simd"  # key of the processor's vector features in an environment
_LIBRARIES = ("numpy", "numba", "scipy", "torch", "scikit-learn", "fsrs-rs-python", "ebisu")
_ALWAYS_COMPARED = {"srs_eval", "code", "python", "machine", SIMD_KEY, *_LIBRARIES}


def make_setup(
    dataset: Dataset,
    fingerprint: str,
    configurations: Sequence[Configuration],
    context: Context,
    prediction_digests: Mapping[str, str],
    users: Sequence[int] = (),
) -> dict[str, Any]:
    """Collect what results depend on, as `OUT/setup.json` stores it.

    Models from the user's own files are checked for mistakes first, which takes time.
    `prediction_digests` are digests of external prediction files, by configuration name. `users`
    are those of the batch, on whom models are trained with `--split users`.
    """
    options = context.settings()
    del options["user"]  # every unit has its own user
    mistakes = find_mistake_kinds(configurations, context.features)
    entries = {}
    for configuration in configurations:
        mistake = mistakes[configuration.name] if configuration.model.file else None
        entries[configuration.name] = _make_configuration_entry(
            configuration, context, prediction_digests, mistake
        )
        training_users = describe_training_users(configuration, users)
        if training_users:
            entries[configuration.name]["pretrained"] = training_users
    return {
        "srs_eval": VERSION,
        "data": {
            "folder": str(dataset.folder.absolute()),
            "users": len(dataset.users),
            "fingerprint": fingerprint,
        },
        "options": options,
        "configurations": entries,
        "environment": {**environment(), **_find_model_package_versions(configurations)},
    }


def _make_configuration_entry(
    configuration: Configuration,
    context: Context,
    prediction_digests: Mapping[str, str],
    mistake: str | None,
) -> dict[str, Any]:
    """Return a configuration's entry in `setup.json`.

    `mistake` is the kind of mistake found in the user's own model, None for other models.
    """
    model = configuration.model
    entry: dict[str, Any] = {"model": model.name, "model_version": model.version}
    if model.file:
        entry["model_file"] = model.file.digest
    entry |= _describe_model_entry(configuration, context)
    if model.weights:
        entry["weights"] = model.weights(context)
    entry["fit"] = configuration.fit
    entry |= _collect_optional_entries(configuration, context, prediction_digests)
    entry["protocol"] = asdict(configuration.protocol)
    if model.file:
        entry["check"] = mistake
    return entry


def _describe_model_entry(configuration: Configuration, context: Context) -> dict[str, Any]:
    """Return, under "shown", what reports show of a configuration but cannot find out themselves.

    For a model from the user's own file, which reports may not have, this is its description; for a
    model with a file of weights, the number of its parameters. Empty for all other models.
    """
    description: dict[str, Any] = {}
    if configuration.model.file is not None:
        description = {
            "words": configuration.words,
            "inputs": configuration.inputs,
            "learns": configuration.is_online,
        }
    count = configuration.count_parameters(context)
    if description or count != configuration.parameters:
        description["parameters"] = count
    return {"shown": description} if description else {}


def _collect_optional_entries(
    configuration: Configuration, context: Context, prediction_digests: Mapping[str, str]
) -> dict[str, Any]:
    """Return the entries that only some configurations have, without empty ones."""
    model = configuration.model
    can_pretrain = isinstance(model, TrainedModel) and model.pretrain is not None
    entries = {
        "pretrained": describe_pretrained(model.name, context) if can_pretrain else None,
        "hyperparameters": dict(configuration.hyperparameters),
        "ledger": configuration.ledger,
        "label": configuration.label,
        "predictions": prediction_digests.get(configuration.name),
    }
    return {key: value for key, value in entries.items() if value}


@cache
def environment() -> Mapping[str, str]:
    """Return the versions of srs-eval, Python and libraries, and the processor's properties.

    Results may depend on all of them.
    """
    return {
        "srs_eval": VERSION,
        "code": compute_program_digest()[:16],
        "python": platform.python_version(),
        "machine": platform.machine(),
        SIMD_KEY: _find_vector_features(),
        **_find_package_versions(_LIBRARIES),
    }


def _find_model_package_versions(configurations: Sequence[Configuration]) -> dict[str, str]:
    """Return the versions of packages that only some models depend on.

    These are the packages that the models name, and pandas for models from the user's own files,
    because its way of sorting and joining can change results.
    """
    packages: set[str] = set()
    for configuration in configurations:
        packages.update(configuration.model.packages)
        if configuration.model.file is not None:
            packages.add("pandas")
    return _find_package_versions(sorted(packages))


def _find_package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of these packages, without those that are not installed."""
    versions = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _find_vector_features() -> str:
    """Return the processor's vector features that numpy uses: "X86_V2 X86_V3".

    With other features, numpy's sort may order ties differently, and its exp and log may round
    differently. NPY_DISABLE_CPU_FEATURES switches some off. numpy has no public function for this:
    "" if its private one is not there.
    """
    try:
        numpy_core = import_module("numpy._core._multiarray_umath")
        features = (*numpy_core.__cpu_baseline__, *numpy_core.__cpu_dispatch__)
        return " ".join(name for name in features if numpy_core.__cpu_features__.get(name))
    except (ImportError, AttributeError):
        return ""


class _DataEntry(TypedDict):
    fingerprint: str


class _ConfigurationEntry(TypedDict):
    shown: NotRequired[dict[str, str | int | bool | None]]
    check: NotRequired[str]
    label: NotRequired[str]
    predictions: NotRequired[str]
    model: str
    model_version: int
    protocol: dict[str, Any]


class _SetupFile(TypedDict):
    """Required keys; `docs/formats.md` describes the rest."""

    srs_eval: str
    data: _DataEntry
    options: dict[str, Any]
    configurations: dict[str, _ConfigurationEntry]
    names: NotRequired[NamingYear]
    environment: NotRequired[dict[str, str]]
    more_environments: NotRequired[list[dict[str, str]]]


def read_setup(folder: Path) -> dict[str, Any] | None:
    """Read the set-up of a batch folder (docs/formats.md); None if it is not one.

    Raises InputError if the file is damaged.
    """
    try:
        setup: dict[str, Any] = json.loads((folder / SETUP_FILE).read_text(encoding="utf-8"))
        msgspec.convert(setup, _SetupFile)
    except FileNotFoundError:
        return None
    except (ValueError, msgspec.ValidationError):
        raise InputError(f'"{folder / SETUP_FILE}" is damaged.') from None
    return setup


def merge_setup_from(folder: Path, setup: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a set-up merged with that of a batch folder; without one, return the folder's.

    Raises InputError if the folder has no set-up, or one that differs in what changes results.
    """
    other_setup = read_setup(folder)
    if other_setup is None:
        raise InputError(f'"{folder}" holds no results of `srs-eval batch`.')
    if setup is None:
        return other_setup
    difference = find_disagreement(setup, other_setup)
    if difference:
        raise InputError(f'"{folder}" cannot be merged: {difference}.')
    return merge_setups(setup, other_setup)


def list_environments(setup: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return all environments (see `environment`) in which results were made; usually one."""
    environments = [setup.get("environment", {}), *setup.get("more_environments", ())]
    return [recorded for recorded in environments if recorded]


def describe_environment_differences(setup: Mapping[str, Any]) -> list[str]:
    """Describe the differences between the environments of results, in a few words each."""
    environments = list_environments(setup)
    names: set[str] = set()
    for recorded in environments:
        names.update(recorded)
    differences = []
    for name in sorted(names):
        # Other packages are recorded only for models that need them. That one environment does
        # not name such a package is no difference.
        is_always_compared = name in _ALWAYS_COMPARED
        values = [
            recorded.get(name, "none")
            for recorded in environments
            if is_always_compared or name in recorded
        ]
        unique_values = list(dict.fromkeys(values))
        if len(unique_values) > 1:
            differences.append(_describe_difference(name, unique_values))
    return differences


def _describe_difference(name: str, values: Sequence[str]) -> str:
    """Describe how environments differ in one value: "numpy 2.3 and 2.4"."""
    if name != SIMD_KEY:
        return f"{name} {' and '.join(values)}"
    features = [set(value.split()) for value in values if value != "none"]
    if len(features) < len(values):
        return "unknown vector features on some processors"
    in_any = set[str]().union(*features)
    in_all = features[0].intersection(*features)
    return f"vector features {', '.join(sorted(in_any - in_all))} on some processors only"


def merge_setups(setup: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the configurations and environments of two set-ups; all else is the first one's."""
    environments = list_environments(setup)
    new_environments = [
        recorded for recorded in list_environments(other) if recorded not in environments
    ]
    merged = {**setup, "configurations": {**other["configurations"], **setup["configurations"]}}
    if new_environments:
        first, *rest = [*environments, *new_environments]
        merged["environment"] = first
        if rest:
            merged["more_environments"] = rest
    return merged


def list_model_remarks(setup: Mapping[str, Any]) -> list[str]:
    """Return a sentence (without its full stop) for each doubtful model of the user's own."""
    remarks = []
    for name, entry in setup["configurations"].items():
        if "model_file" in entry:
            description = describe_mistake(entry.get("check"))
            if description:
                remarks.append(f"{name} {description}")
    return remarks


def _format_value(value: object) -> str:
    """Return a value as messages show it; of a digest only the beginning."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    text = shorten(str(value))
    is_digest = re.fullmatch("[0-9a-f]{64}", text)
    return text[:8] if is_digest else text


def find_disagreement(stored: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the first difference between two set-ups that changes results; "" for none."""
    if stored["srs_eval"] != new["srs_eval"]:
        return f"they were made by srs-eval {stored['srs_eval']}, and this is {new['srs_eval']}"
    if stored["data"]["fingerprint"] != new["data"]["fingerprint"]:
        return "the data set is not the same (other users or other files)"
    for option in {**new["options"], **stored["options"]}:
        old_value = stored["options"].get(option)
        new_value = new["options"].get(option)
        if old_value != new_value:
            return f"{option} was {_format_value(old_value)} and is {_format_value(new_value)} now"
    for name, new_entry in new["configurations"].items():
        old_entry = stored["configurations"].get(name)
        if old_entry is None:
            continue
        old_values = _flatten_entry(old_entry)
        new_values = _flatten_entry(new_entry)
        for key in sorted({*old_values, *new_values}):
            if old_values.get(key) == new_values.get(key):
                continue
            format_value = _describe_training if key == "hyperparameters" else _format_value
            old_text = format_value(old_values.get(key))
            new_text = format_value(new_values.get(key))
            is_flag = key in new_entry["protocol"]
            label = key if is_flag else key.replace("_", " ")
            where = " (that file or another one in its folder)" if key == "model_file" else ""
            return f"{name} had {label} {old_text} and has {new_text} now{where}"
    return ""


def _flatten_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's values that change results, with the protocol's flags among them.

    Values that change nothing are None. A flag that the entry lacks came later and had its default.
    """
    flags = {**asdict(Protocol()), **entry["protocol"]}
    return {**entry, **flags, "protocol": None, "check": None, "shown": None}


def _describe_training(values: Mapping[str, Any] | None) -> str:
    """Describe a configuration's hyperparameters, which in an audit's results differ by half."""
    if not values:
        return "none"
    if any(isinstance(value, Mapping) for value in values.values()):
        return "those chosen by an audit"
    return describe_values(values)


def encode_json(content: Mapping[str, Any]) -> bytes:
    """Encode JSON for people and programs: indented, with sorted keys. NaN is not allowed."""
    return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


# --- names of configurations whose set-up is not the published one

_SPLIT_FLAGS = ("split", "train_until", "train_months")
_UNNAMED_FLAGS = ("gamma", "batch_size", "max_seq_len", *_SPLIT_FLAGS, "n_splits", SEED.name)
"""Flags that no suffix of canonical names expresses, in the order of names."""
_MAX_NAME_LENGTH = 40


def describe_settings(configuration: Configuration) -> str:
    """Describe the flags without a suffix that affect the results and differ from their defaults.

    Names of configurations end with these words: "gamma 0.5 n_splits 3".
    """
    return _describe_flags(configuration, _UNNAMED_FLAGS)


def _describe_flags(configuration: Configuration, flags: Iterable[str]) -> str:
    """Describe those of the flags that affect the results and differ from their defaults."""
    words = []
    for name in flags:
        value = getattr(configuration.protocol, name)
        if value != getattr(Protocol(), name) and _depends_on(configuration, name):
            words.append(f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}")
    return " ".join(words)


def describe_seed(seed: int) -> str:
    """Return the words for a seed at the end of labels, "" for the published seed, 0."""
    return f"{SEED.name} {seed}" if seed else ""


def remove_seed(name: str, label: str, seed: int) -> str:
    """Return the name that a configuration with this label has with the published seed."""
    words = label.split()
    seed_words = describe_seed(seed).split()
    for start in range(len(words) - 1):
        if seed_words and words[start : start + 2] == seed_words:
            del words[start : start + 2]
            break
    return remove_label(name, label) + _label_suffix(" ".join(words))


def repeat_with_seeds(
    resolve: Callable[[int], Sequence[Configuration]], label: str, first: int, count: int
) -> list[Configuration]:
    """Return what `resolve` makes of each of `count` seeds, from `first` on, with labels.

    Configurations that no seed changes are returned once.
    """
    by_name: dict[str, Configuration] = {}
    for seed in range(first, first + count):
        for configuration in add_labels(resolve(seed), label):
            by_name.setdefault(configuration.name, configuration)
    return list(by_name.values())


def _depends_on(configuration: Configuration, flag: str) -> bool:
    """Return whether one of `_UNNAMED_FLAGS` may change a configuration's results.

    Any of them may change those of the user's own model, and of an online model with parameters:
    it fits them itself, in the way that FSRS-6 is fitted. Only the seed has to be declared (SEED).
    """
    if configuration.protocol.split == "users" and flag in ("split", "n_splits"):
        return configuration.is_trained_on_other_users
    return (
        # these decide which reviews are evaluated
        flag in ("max_seq_len", "n_splits", "split", "train_until")
        or (flag == "train_months" and _is_fitted(configuration))
        or (configuration.model.file is not None and flag != SEED.name)
        or (isinstance(configuration.model, OnlineModel) and bool(configuration.model.parameters))
        or any(
            hyperparameter.flag == flag for hyperparameter in configuration.tunable_hyperparameters
        )
        or any(_depends_on(member, flag) for member in configuration.member_configurations)
    )


def _is_fitted(configuration: Configuration) -> bool:
    """Return whether a configuration's predictions depend on the training parts of folds."""
    is_trained = configuration.model.is_trained and configuration.fit in ("trained", "S0")
    return is_trained or configuration.is_baseline


def remove_label(name: str, label: str) -> str:
    """Return the name that a configuration had before it got its label."""
    return name.removesuffix(_label_suffix(label))


def add_label(configuration: Configuration, label: str) -> Configuration:
    """Return the configuration with the label at the end of its name, if there is a label."""
    return replace(configuration, name=configuration.name + _label_suffix(label), label=label)


def _label_suffix(label: str) -> str:
    return "".join(f"-{word}" for word in label.split())


def check_name(option: str, name: str) -> None:
    """Raise InputError if a text (the value of `option`) may not be part of a file name.

    An empty text is allowed.
    """
    if not re.fullmatch(r"([\w.+=]+([ -][\w.+=]+)*)?", name) or len(name) > _MAX_NAME_LENGTH:
        raise InputError(
            f"{option} takes letters, digits and . _ + = -, {_MAX_NAME_LENGTH} at most, "
            f'not "{shorten(sanitize(name))}".'
        )


def add_labels(configurations: Sequence[Configuration], label: str) -> list[Configuration]:
    """Return the configurations with labels, which tell different set-ups apart by name.

    A `label` ends the name of every configuration, except of a baseline whose settings are the
    defaults. Without a label, the settings that differ from their defaults end the name:
    FSRS-6-gamma-0.5. A split other than the five folds and a seed other than 0 follow a label, too:
    FSRS-6-LABEL-split-cards-seed-1. Those of these flags that a configuration does not depend on
    are set to their defaults. Raises InputError for an invalid label, or one that produces the name
    of another configuration.
    """
    check_name("--label", label)
    labelled = []
    for configuration in configurations:
        default_flags = {
            name: getattr(Protocol(), name)
            for name in _UNNAMED_FLAGS
            if not _depends_on(configuration, name)
        }
        protocol = replace(configuration.protocol, **default_flags)
        configuration = replace(configuration, protocol=protocol)
        settings = describe_settings(configuration)
        if settings or (label and not configuration.is_baseline):
            words = settings
            if label:
                split = _describe_flags(configuration, _SPLIT_FLAGS)
                seed = describe_seed(configuration.protocol.seed)
                words = " ".join(f"{label} {split} {seed}".split())
            configuration = add_label(configuration, words)
        name = configuration.name
        if configuration.label and (find_meaning(name) or remove_tuned(name) != name):
            raise InputError(f"--label {label}: {name} means something else here.")
        labelled.append(configuration)
    return labelled


# --- the ledger of an audit: the best known training set-up of each configuration

LEDGER_FILE = "ledger.json"


@dataclass(frozen=True)
class SearchResult:
    """Result of the search over one half of the users."""

    users: int  # number of users whose training parts chose the set-up
    trials: int  # in addition to the published set-up
    hyperparameters: Mapping[str, int | Value]  # the best set-up: values that are not published
    log_loss: float | None  # mean over these users, on the held-out training rows
    published_log_loss: float | None  # the same for the published set-up
    on_edge: tuple[str, ...]  # hyperparameters whose best value is near an end of the tried range


@dataclass(frozen=True)
class LedgerEntry:
    """One configuration's entry in a ledger."""

    published: dict[str, int | Value]  # values of all hyperparameters that are searched
    best: dict[str, int | Value]  # values that differ from the published ones
    halves: tuple[SearchResult, ...] = ()


@dataclass(frozen=True)
class _LedgerFile:
    """Content of `ledger.json`, with the keys that docs/formats.md describes."""

    layout: Literal[1]
    configurations: dict[str, LedgerEntry]
    srs_eval: str = VERSION
    data: str = ""
    users: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ledger:
    """The training set-ups that an audit has found."""

    path: Path
    digest: str  # of the file
    entries: Mapping[str, LedgerEntry]  # by configuration
    users: frozenset[int] = frozenset()  # of the audit; empty for older ledgers
    data: str = ""  # fingerprint of the users' data set

    def apply_to(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Return the configurations, tuned and called `NAME-tuned` if the ledger has a set-up.

        Raises InputError if a configuration's published set-up is not the one in the audit: what is
        best with one batch size says nothing about another.
        """
        return [
            self._apply_to_one(configuration)
            if configuration.name in self.entries
            else configuration
            for configuration in configurations
        ]

    def _apply_to_one(self, configuration: Configuration) -> Configuration:
        entry = self.entries[configuration.name]
        for hyperparameter in configuration.tunable_hyperparameters:
            if not hyperparameter.is_searched:
                continue
            name = hyperparameter.name
            value = hyperparameter.default_under(configuration.protocol)
            if entry.published.get(name) != value:
                audited_value = entry.published.get(name, "nothing")
                raise InputError(
                    f'"{self.path}" was made with {name} {audited_value} for '
                    f"{configuration.name}, but here {name} is {value}: give the flags of the "
                    "audit, or audit again."
                )
        return configuration.with_ledger(entry.best, self.digest)


def read_ledger(path: Path) -> Ledger:
    """Read the ledger from a file or from the folder of an audit.

    Raises InputError if there is none, if it is damaged, or if it names an unknown configuration or
    a set-up that a configuration cannot have.
    """
    if path.is_dir():
        path = path / LEDGER_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f'There is no ledger at "{path}" ({error.strerror}).') from None
    try:
        ledger = msgspec.json.decode(content, type=_LedgerFile)
    except (msgspec.DecodeError, RecursionError):
        raise InputError(
            f'"{path}" is not a ledger of `srs-eval audit`, or it is damaged.'
        ) from None
    for name, entry in ledger.configurations.items():
        if find_meaning(name) != name:
            raise InputError(
                f'"{path}" names {name}, which is not a configuration here; '
                "if it is in a file of your own, name that file with --model-file."
            )
        (configuration,) = resolve_configurations([name])
        configuration.with_hyperparameters(entry.best)
    digest = hashlib.sha256(content).hexdigest()
    return Ledger(path, digest, ledger.configurations, frozenset(ledger.users), ledger.data)


def write_ledger(
    path: Path, entries: Mapping[str, LedgerEntry], users: Sequence[int], data: str
) -> None:
    """Replace the ledger of an audit in one step; `data` is the fingerprint of the data set."""
    file = _LedgerFile(1, dict(entries), data=data, users=tuple(sorted(users)))
    write_atomically(path, encode_json(asdict(file)))
