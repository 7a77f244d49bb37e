"""Configurations: a model plus what its name says about the protocol.

Canonical names are those of srs-benchmark's result files, so that results are
interchangeable; order of the suffixes as there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal

from srs_eval.errors import InputError
from srs_eval.models import Model, all_models
from srs_eval.protocol import Protocol

Fit = Literal["trained", "default", "S0"]

# Suffix -> (field, value), in the order of canonical names. "fit" is the configuration's own.
SUFFIXES: dict[str, tuple[str, object]] = {
    "dry-run": ("fit", "default"),
    "pretrain": ("fit", "S0"),
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
}
SUFFIX_ALIASES = {"default": "dry-run", "S0": "pretrain", "two_buttons": "binary"}
GROUPS = ("all", "fast", "fsrs", "sm2", "history", "neural", "floor")


@dataclass(frozen=True)
class Configuration:
    """What is evaluated under one name."""

    name: str
    model: Model
    protocol: Protocol
    fit: Fit = "trained"

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
    def table(self) -> str:
        """Configurations with the same word are judged on the same rows and ranked together."""
        protocol = self.protocol
        if protocol.secs and not protocol.equalize_test_with_non_secs:
            return "secs, later days" if protocol.no_test_same_day else "secs"
        return "days"
