"""Translate between configurations and the names of result files.

srs-benchmark has spelled some names differently since 2026 (`models.published`). The set-up of a
batch folder records the year whose spelling its files have; srs-benchmark's own files have a time
in their lines since 2026. Code that reads or writes result files leaves spellings to this module
and works on configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from srs_eval.benchmark.setup import add_label, remove_label
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.models import ExternalModel
from srs_eval.models.configurations import (
    Configuration,
    find_meaning,
    remove_tuned,
    resolve_configurations,
)
from srs_eval.models.given import FILE_PREDICTIONS
from srs_eval.models.published import (
    NAMING_YEARS,
    NamingYear,
    describe_ambiguity,
    from_upstream_name,
    to_upstream_name,
)

_PROTOCOL_FLAGS = {field.name for field in fields(Protocol)}
_TIME_KEY = "time_ms"  # in srs-benchmark's lines since 2026


# --- writing


@dataclass(frozen=True)
class FileNaming:
    """How the names of a batch folder's readable files are spelled."""

    _year: NamingYear = "2025"

    @staticmethod
    def of(setup: Mapping[str, Any] | None) -> FileNaming:
        """Return the naming of a folder with this set-up."""
        return FileNaming((setup or {}).get("names", "2025"))

    @staticmethod
    def possible(setup: Mapping[str, Any] | None) -> tuple[FileNaming, ...]:
        """Return the naming of a folder with this set-up; without one, every naming."""
        if setup is None:
            return tuple(map(FileNaming, NAMING_YEARS))
        return (FileNaming.of(setup),)

    def file_stem(self, configuration: str) -> str:
        """Return the stem of a configuration's files."""
        return to_upstream_name(configuration, self._year)

    def complete_result(self, result: Mapping[str, Any], time_ms: float) -> dict[str, Any]:
        """Return a result line as these files have it; since 2026, with a time."""
        if self._year == "2026":
            return {**result, _TIME_KEY: time_ms}
        return dict(result)


def find_configuration_name(file_stem: str, setup: Mapping[str, Any]) -> str:
    """Return the configuration of a batch folder whose files have this stem; "" for none."""
    naming = FileNaming.of(setup)
    for name in setup["configurations"]:
        if naming.file_stem(name) == file_stem:
            return str(name)
    return ""


# --- reading


@dataclass(frozen=True)
class FileNameMeaning:
    """The meaning of a result file's name."""

    configuration: Configuration | None  # None for an unknown model
    name: str  # canonical if the configuration is known, else the file's
    ambiguity: str = ""  # what the name does not decide, in words


def interpret_file_name(
    file_stem: str, setup: Mapping[str, Any] | None, lines: Iterable[Mapping[str, Any]]
) -> FileNameMeaning:
    """Return what the name of a file with these result lines means.

    `setup` is that of a batch folder, which records how it names its files; without one, the names
    are srs-benchmark's.
    """
    year = _detect_year(lines)
    ambiguity = ""
    if setup is None:
        configuration = _find_published_configuration(file_stem, year)
        ambiguity = describe_ambiguity(file_stem, year)
    else:
        configuration = _restore_configuration(file_stem, setup)
    name = file_stem
    if configuration is not None:
        name = configuration.name
    elif find_meaning(name):
        name += f" of {year}"  # the model of this name here is another one
    return FileNameMeaning(configuration, name, ambiguity)


def _detect_year(lines: Iterable[Mapping[str, Any]]) -> NamingYear:
    """Return the naming year of a srs-benchmark file, whose lines have a time since 2026."""
    return "2026" if any(_TIME_KEY in line for line in lines) else "2025"


def _find_published_configuration(file_stem: str, year: NamingYear) -> Configuration | None:
    try:
        return from_upstream_name(file_stem, year)
    except InputError:
        return None


def _restore_configuration(file_stem: str, setup: Mapping[str, Any]) -> Configuration | None:
    """Return the configuration of a batch folder's file as its set-up records it.

    None if srs-eval does not know the model, as for a model from a file that was not loaded.
    """
    entry = find_setup_entry(file_stem, setup)
    label = entry.get("label", "")
    unlabelled_name = remove_label(canonical_name(file_stem, setup), label)
    published_name = remove_tuned(unlabelled_name)
    resolvable_name = published_name
    if entry.get("model") == FILE_PREDICTIONS:  # the name is the user's
        resolvable_name = FILE_PREDICTIONS
    try:
        (configuration,) = resolve_configurations([resolvable_name])
    except InputError:
        return None
    if isinstance(configuration.model, ExternalModel) or published_name != unlabelled_name:
        configuration = replace(configuration, name=unlabelled_name)
    flags = {
        flag: value for flag, value in entry.get("protocol", {}).items() if flag in _PROTOCOL_FLAGS
    }
    configuration = replace(configuration, protocol=replace(configuration.protocol, **flags))
    return add_label(configuration, label)


def canonical_name(file_stem: str, setup: Mapping[str, Any] | None) -> str:
    """Return the name of the configuration that a batch's file belongs to.

    For a file that the set-up does not know, return the file's stem.
    """
    if setup is None:
        return file_stem
    return find_configuration_name(file_stem, setup) or file_stem


def find_setup_entry(file_stem: str, setup: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the entry of a file's configuration in a batch's set-up; empty if there is none."""
    if setup is None:
        return {}
    entry: Mapping[str, Any] = setup["configurations"].get(canonical_name(file_stem, setup), {})
    return entry
