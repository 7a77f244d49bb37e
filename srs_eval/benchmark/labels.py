"""Set-ups that are not the published ones, in the names of configurations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from srs_eval.benchmark.setup import read_setup
from srs_eval.data.errors import InputError, cut, harmless
from srs_eval.data.protocol import Protocol
from srs_eval.models.configurations import Configuration, meant_by, untuned

_NUMBERS = ("gamma", "batch_size", "max_seq_len", "n_splits")
"""Flags that no suffix of canonical names says."""
_LONGEST = 40


def settings_of(configuration: Configuration) -> dict[str, float]:
    """Numbers among the flags that its figures depend on and that are not as by default."""
    flags = {name: getattr(configuration.protocol, name) for name in _NUMBERS}
    return {
        name: value
        for name, value in flags.items()
        if value != getattr(Protocol(), name) and _depends(configuration, name)
    }


def _depends(configuration: Configuration, number: str) -> bool:
    """Whether a number changes its figures; of a model of one's own nobody knows.

    An online model with parameters fits them itself, as FSRS-6 is fitted.
    """
    return (
        number in ("max_seq_len", "n_splits")  # which reviews are evaluated
        or configuration.model.file is not None
        or (configuration.model.online is not None and configuration.parameters > 0)
        or any(each.flag == number for each in configuration.tunable)
        or any(_depends(each, number) for each in configuration.members)
    )


def in_words(settings: dict[str, float]) -> str:
    """As names end with it: "gamma 0.5 n_splits 3"."""
    return " ".join(f"{name} {value:g}" for name, value in settings.items())


def without(name: str, label: str) -> str:
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


def with_labels(
    configurations: Sequence[Configuration], label: str, folders: Sequence[Path] = ()
) -> list[Configuration]:
    """The configurations, those with another set-up under a name that says so.

    A `label` ends the names of all but a baseline that it cannot differ from; without one, what is
    not as by default does: FSRS-6-gamma-0.5. Numbers among the flags that a configuration does not
    depend on are as by default. What one of these batch folders holds under its plain name keeps
    it. Raises InputError for a label that cannot be, or that makes the name of another.
    """
    check_name("--label", label)
    before: dict[str, Any] = {}
    for folder in folders:
        with suppress(InputError, OSError):  # whoever opens a damaged one tells of it
            before |= (read_setup(folder) or {}).get("configurations", {})
    found = []
    for each in configurations:
        settings = settings_of(each)
        if label or before.get(each.name, {}).get("protocol") != asdict(each.protocol):
            usual = {name: getattr(Protocol(), name) for name in _NUMBERS if name not in settings}
            each = replace(each, protocol=replace(each.protocol, **usual))
            if settings or (label and not each.is_baseline):
                each = labelled(each, label or in_words(settings))
        if each.label and (meant_by(each.name) or untuned(each.name) != each.name):
            raise InputError(f"--label {label}: {each.name} means something else here.")
        found.append(each)
    return found
