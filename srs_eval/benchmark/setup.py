"""What figures depend on: `setup.json` of a batch, `ledger.json` of an audit; docs/formats.md."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, cut, harmless
from srs_eval.data.paths import VERSION, write_atomically
from srs_eval.data.protocol import Protocol
from srs_eval.engine.own_models import doubts, in_words
from srs_eval.models.configurations import Configuration, Names, meant_by, resolve, untuned
from srs_eval.models.published import spelled
from srs_eval.training.compile import program_digest
from srs_eval.training.hyperparameters import Context, Value, setup_in_words
from srs_eval.training.networks import names_of_pretrained

SETUP = "setup.json"
SIMD = "simd"  # the key of an environment for the processor's vector features
_LIBRARIES = ("numpy", "numba", "scipy", "torch", "scikit-learn", "fsrs-rs-python", "ebisu")
_ALWAYS_TOLD = {"srs_eval", "code", "python", "machine", SIMD, *_LIBRARIES}


def make_setup(
    dataset: Dataset,
    fingerprint: str,
    configurations: Sequence[Configuration],
    context: Context,
    predictions: Mapping[str, str],
) -> dict[str, Any]:
    """What figures depend on, as `OUT/setup.json` holds it; looks at models of somebody's own.

    `predictions` are digests of files that others have made, by names of configurations.
    """
    options = context.settings()
    found = doubts(configurations, context.features)
    del options["user"]  # each unit has its own
    return {
        "srs_eval": VERSION,
        "data": {
            "folder": str(dataset.folder.absolute()),
            "users": len(dataset.users),
            "fingerprint": fingerprint,
        },
        "options": options,
        "configurations": {
            each.name: {
                "model": each.model.name,
                "model_version": each.model.version,
                **({"model_file": each.model.file.digest} if each.model.file else {}),
                **_shown(each, context),
                **({"weights": each.model.weights(context)} if each.model.weights else {}),
                "fit": each.fit,
                **_more(each, context, predictions),
                "protocol": asdict(each.protocol),
                **({"check": found[each.name]} if each.model.file else {}),
            }
            for each in configurations
        },
        "environment": {**environment(), **_versions_for(configurations)},
    }


def _shown(configuration: Configuration, context: Context) -> dict[str, Any]:
    """What reports show of a configuration and cannot find out: of a model of one's own, whose file
    they may not be given, and how many parameters a file of weights has.
    """
    shown: dict[str, Any] = {}
    if configuration.model.file is not None:
        shown = {each: getattr(configuration, each) for each in ("words", "inputs", "learns")}
    count = configuration.count_parameters(context)
    if shown or count != configuration.parameters:
        shown["parameters"] = count
    return {"shown": shown} if shown else {}


def _more(each: Configuration, context: Context, predictions: Mapping[str, str]) -> dict[str, Any]:
    """Entries that only some configurations have; empty ones are left out."""
    model = each.model
    more = {
        "pretrained": model.pretrain and names_of_pretrained(model.name, context),
        "hyperparameters": dict(each.hyperparameters),
        "ledger": each.ledger,
        "label": each.label,
        "predictions": predictions.get(each.name),
    }
    return {key: value for key, value in more.items() if value}


@cache
def environment() -> Mapping[str, str]:
    """What figures may depend on besides the set-up: this program, Python, libraries, processor."""
    return {
        "srs_eval": VERSION,
        "code": program_digest()[:16],
        "python": platform.python_version(),
        "machine": platform.machine(),
        SIMD: _vector_features(),
        **_versions(_LIBRARIES),
    }


def _versions_for(configurations: Sequence[Configuration]) -> dict[str, str]:
    """The versions of packages that only some models depend on.

    These are the packages that they name, and pandas for models of one's own: how it sorts and
    joins moves figures.
    """
    packages = {name for each in configurations for name in each.model.packages}
    if any(each.model.file is not None for each in configurations):
        packages.add("pandas")
    return _versions(sorted(packages))


def _versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those packages that are installed."""
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _vector_features() -> str:
    """The processor's vector features that numpy uses: "X86_V2 X86_V3".

    Its sort orders ties by them, and its exp and log round by them. NPY_DISABLE_CPU_FEATURES
    switches some off. "" where numpy does not tell, for it has no public way to ask.
    """
    try:
        numpy_core = import_module("numpy._core._multiarray_umath")
        known = (*numpy_core.__cpu_baseline__, *numpy_core.__cpu_dispatch__)
        return " ".join(name for name in known if numpy_core.__cpu_features__.get(name))
    except (ImportError, AttributeError):
        return ""


class _Data(TypedDict):
    fingerprint: str


class _Configuration(TypedDict):
    shown: NotRequired[dict[str, str | int | bool | None]]
    check: NotRequired[str]
    label: NotRequired[str]
    predictions: NotRequired[str]
    model: str
    model_version: int
    protocol: dict[str, Any]


class _Setup(TypedDict):
    """What has to be there; the rest is told by `docs/formats.md`."""

    srs_eval: str
    data: _Data
    options: dict[str, Any]
    configurations: dict[str, _Configuration]
    names: NotRequired[Names]
    environment: NotRequired[dict[str, str]]
    more_environments: NotRequired[list[dict[str, str]]]


def read_setup(folder: Path) -> dict[str, Any] | None:
    """What the figures of a batch folder depend on (docs/formats.md); None where it is none.

    Raises InputError where it is damaged.
    """
    try:
        setup: dict[str, Any] = json.loads((folder / SETUP).read_text(encoding="utf-8"))
        msgspec.convert(setup, _Setup)
    except FileNotFoundError:
        return None
    except (ValueError, msgspec.ValidationError):
        raise InputError(f'"{folder / SETUP}" is damaged.') from None
    return setup


def with_setup_of(other: Path, setup: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A set-up together with that of another batch folder.

    Raises InputError where that is none, or differs in what changes figures.
    """
    theirs = read_setup(other)
    if theirs is None:
        raise InputError(f'"{other}" holds no results of `srs-eval batch`.')
    if setup is None:
        return theirs
    difference = disagreement(setup, theirs)
    if difference:
        raise InputError(f'"{other}" cannot be merged: {difference}.')
    return joined(setup, theirs)


def environments(setup: Mapping[str, Any]) -> list[dict[str, str]]:
    """Programs, libraries and machines that results were made with; as a rule one."""
    first = setup.get("environment", {})
    return [each for each in (first, *setup.get("more_environments", ())) if each]


def different_environments(setup: Mapping[str, Any]) -> list[str]:
    """In what the environments of a folder's results differ, a word or two each."""
    found = environments(setup)
    names = sorted({name for each in found for name in each})
    differences = []
    for name in names:
        # Other packages are named where a model depends on them, and not missed elsewhere.
        is_always_told = name in _ALWAYS_TOLD
        values = [each.get(name, "none") for each in found if is_always_told or name in each]
        values = list(dict.fromkeys(values))
        if len(values) > 1:
            differences.append(_difference(name, values))
    return differences


def _difference(name: str, values: Sequence[str]) -> str:
    """How several environments differ in one thing: "numpy 2.3 and 2.4"."""
    if name != SIMD:
        return f"{name} {' and '.join(values)}"
    features = [set(each.split()) for each in values if each != "none"]
    if len(features) < len(values):
        return "vector features of some processors are not known"
    some = set[str]().union(*features) - features[0].intersection(*features)
    return f"vector features {', '.join(sorted(some))} on some processors only"


def joined(setup: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A set-up with the configurations and environments of another, too."""
    known = environments(setup)
    more = [each for each in environments(other) if each not in known]
    joined = {**setup, "configurations": {**other["configurations"], **setup["configurations"]}}
    if more:
        joined["environment"], *rest = [*known, *more]
        joined |= {"more_environments": rest} if rest else {}
    return joined


def remarks(setup: Mapping[str, Any]) -> list[str]:
    """What belongs beside figures of somebody's own models, a sentence each."""
    own = {name: each for name, each in setup["configurations"].items() if "model_file" in each}
    said = {name: in_words(each.get("check")) for name, each in own.items()}
    return [f"{name} {words}" for name, words in said.items() if words]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    said = "none" if value is None else str(value)
    return said[:8] if re.fullmatch("[0-9a-f]{64}", said) else said  # a digest


def disagreement(stored: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first difference between two set-ups that changes figures, in words; "" for none."""
    if stored["srs_eval"] != new["srs_eval"]:
        return f"they are of srs-eval {stored['srs_eval']}, this is {new['srs_eval']}"
    if stored["data"]["fingerprint"] != new["data"]["fingerprint"]:
        return "the data set is not the same (other users or other files)"
    for option in {**new["options"], **stored["options"]}:
        before, value = (each["options"].get(option) for each in (stored, new))
        if before != value:
            return f"{option} was {_word(before)} and is {_word(value)} now"
    for name, configuration in new["configurations"].items():
        before = stored["configurations"].get(name)
        if before is None:
            continue
        flags = configuration["protocol"]
        then, now = (
            {**each, **each["protocol"], "protocol": None, "check": None, "shown": None}
            for each in (before, configuration)
        )
        for key in sorted({*then, *now}):
            if then.get(key) != now.get(key):
                say = _training if key == "hyperparameters" else _word
                what = key if key in flags else key.replace("_", " ")
                where = " (the file, or another below its folder)" if key == "model_file" else ""
                before, value = say(then.get(key)), say(now.get(key))
                return f"{name} had {what} {before} and has {value} now{where}"
    return ""


def _training(values: Mapping[str, Any] | None) -> str:
    """Hyperparameters in words, those of the results of an audit too."""
    if not values:
        return "none"
    if any(isinstance(each, Mapping) for each in values.values()):
        return "those that the halves of an audit chose"
    return setup_in_words(values)


def as_json(content: Mapping[str, Any]) -> bytes:
    """A document for people and programs: indented, in order of its keys, without NaN."""
    return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def file_name(configuration: str, setup: Mapping[str, Any] | None) -> str:
    """What the files of a configuration are called in a batch folder with this set-up."""
    return spelled(configuration, (setup or {}).get("names", "2025"))


def named_by(file: str, setup: Mapping[str, Any]) -> str:
    """The configuration of a batch folder whose files are called so; "" for none."""
    return next((each for each in setup["configurations"] if file_name(each, setup) == file), "")


# --- set-ups that are not the published ones, in the names of configurations

_NUMBERS = ("gamma", "batch_size", "max_seq_len", "n_splits")
"""Flags that no suffix of canonical names says."""
_LONGEST = 40


def settings_in_words(configuration: Configuration) -> str:
    """Numbers among the flags that its figures depend on and that are not as by default.

    As names end with it: "gamma 0.5 n_splits 3".
    """
    flags = {name: getattr(configuration.protocol, name) for name in _NUMBERS}
    return " ".join(
        f"{name} {value:g}"
        for name, value in flags.items()
        if value != getattr(Protocol(), name) and _depends(configuration, name)
    )


def _depends(configuration: Configuration, number: str) -> bool:
    """Whether a number changes its figures; of a model of one's own nobody knows.

    An online model with parameters fits them itself, as FSRS-6 is fitted.
    """
    return (
        number in ("max_seq_len", "n_splits")  # which reviews are evaluated
        or configuration.model.file is not None
        or (configuration.model.online is not None and configuration.model.parameters > 0)
        or any(each.flag == number for each in configuration.tunable)
        or any(_depends(each, number) for each in configuration.members)
    )


def without_label(name: str, label: str) -> str:
    """The name of a configuration before it had a label."""
    return name.removesuffix(_suffix(label))


def labelled(configuration: Configuration, label: str) -> Configuration:
    """The same under a name that ends with a label, if there is one."""
    return replace(configuration, name=configuration.name + _suffix(label), label=label)


def _suffix(label: str) -> str:
    return "".join(f"-{word}" for word in label.split())


def check_name(option: str, name: str) -> None:
    """Raises InputError for what cannot be part of a file's name."""
    if not re.fullmatch(r"([\w.+=]+([ -][\w.+=]+)*)?", name) or len(name) > _LONGEST:
        raise InputError(
            f"{option} takes letters, digits and . _ + = -, {_LONGEST} at most, "
            f'not "{cut(harmless(name))}".'
        )


def with_labels(configurations: Sequence[Configuration], label: str) -> list[Configuration]:
    """The configurations, those with another set-up under a name that says so.

    A `label` ends the names of all but a baseline that it cannot differ from; without one, what is
    not as by default does: FSRS-6-gamma-0.5. Numbers among the flags that a configuration does not
    depend on are as by default. Raises InputError for a label that cannot be, or that makes the
    name of another.
    """
    check_name("--label", label)
    found = []
    for each in configurations:
        usual = {name: getattr(Protocol(), name) for name in _NUMBERS if not _depends(each, name)}
        each = replace(each, protocol=replace(each.protocol, **usual))
        settings = settings_in_words(each)
        if settings or (label and not each.is_baseline):
            each = labelled(each, label or settings)
        if each.label and (meant_by(each.name) or untuned(each.name) != each.name):
            raise InputError(f"--label {label}: {each.name} means something else here.")
        found.append(each)
    return found


# --- the ledger of an audit: the best known training set-up of each configuration

LEDGER = "ledger.json"


@dataclass(frozen=True)
class Found:
    """What the search over one half of the users has found."""

    users: int  # whose training parts have chosen
    trials: int  # besides the published set-up
    hyperparameters: Mapping[str, int | Value]  # of the best set-up: what is not as published
    log_loss: float | None  # mean over these users of the held-out training rows
    published_log_loss: float | None  # the same of the published set-up
    on_edge: tuple[str, ...]  # where more trials may find a better one


@dataclass(frozen=True)
class Entry:
    """One configuration in a ledger."""

    published: dict[str, int | Value]  # all that can be set
    best: dict[str, int | Value]  # what is not as published
    halves: tuple[Found, ...] = ()


@dataclass(frozen=True)
class _File:
    layout: Literal[1]
    configurations: dict[str, Entry]
    srs_eval: str = VERSION
    data: str = ""
    users: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ledger:
    """Set-ups to train with, by configuration."""

    path: Path
    digest: str  # of the file
    entries: Mapping[str, Entry]
    users: frozenset[int] = frozenset()  # of the audit; an older ledger does not tell
    data: str = ""  # fingerprint of their data set

    def tuned(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """The configurations, those that are named here with their set-up and as `NAME-tuned`.

        Raises InputError where a configuration is not published as it was for the audit: what is
        best beside one batch size says nothing of another.
        """
        return [self._tuned(each) if each.name in self.entries else each for each in configurations]

    def _tuned(self, configuration: Configuration) -> Configuration:
        entry = self.entries[configuration.name]
        for knob in configuration.tunable:
            now = knob.default_under(configuration.protocol)
            if knob.searched and entry.published.get(knob.name) != now:
                was = entry.published.get(knob.name, "nothing")
                raise InputError(
                    f'"{self.path}" was made where {configuration.name} has {knob.name} {was}, '
                    f"and here it has {now}: give the flags of the audit, or audit again."
                )
        return configuration.tuned_with(entry.best, self.digest)


def read_ledger(path: Path) -> Ledger:
    """The ledger in a file, or in the folder of an audit.

    Raises InputError where there is none, where it is damaged, and where it names a configuration
    that is not here or a set-up that a configuration cannot have.
    """
    if path.is_dir():
        path = path / LEDGER
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f'There is no ledger at "{path}" ({error.strerror}).') from None
    try:
        said = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f'"{path}" is no ledger of `srs-eval audit`, or damaged.') from None
    for name, entry in said.configurations.items():
        if meant_by(name) != name:
            raise InputError(
                f'"{path}" names {name}, which is no configuration here; '
                "one of a file of your own needs --model-file."
            )
        (configuration,) = resolve([name])
        configuration.trained_with(entry.best)
    digest = hashlib.sha256(content).hexdigest()
    return Ledger(path, digest, said.configurations, frozenset(said.users), said.data)


def write_ledger(path: Path, entries: Mapping[str, Entry], users: Sequence[int], data: str) -> None:
    """Renew the ledger of an audit in one step; `data` is the fingerprint of the data set."""
    file = _File(1, dict(entries), data=data, users=tuple(sorted(users)))
    write_atomically(path, as_json(asdict(file)))
