"""Lines of result files: the one place that says which line is a result, ours or srs-benchmark's.

A file holds one JSON line a user with `metrics`, `user` and `size`, at times `parameters`; it is
named after the configuration, `.jsonl` or `.jsonl.gz`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srs_eval.data.errors import InputError

ENDINGS = (".jsonl", ".jsonl.gz")


def spelled(path: Path) -> str:
    """The configuration's name as a result file spells it."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def read_lines(path: Path) -> list[dict[str, Any] | None]:
    """Every line of a result file, in its order; None for one that is no result.

    Raises InputError where the file cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is cut off or damaged"
        raise InputError(f'"{path}" cannot be read ({reason}).') from None
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [parse_line(line) for line in lines]


def parse_line(text: bytes | str) -> dict[str, Any] | None:
    """A result; None where the text is none: other JSON, none at all, or fields of other kinds."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if (
        isinstance(line, dict)
        and isinstance(line.get("metrics"), dict)
        and _is_count(line.get("user"))
        and _is_count(line.get("size"))
        and _are_parameters(line.get("parameters"))
    ):
        return line
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _are_parameters(value: object) -> bool:
    """Whether these are none, a list of numbers, or such lists by partition."""
    lists = list(value.values()) if isinstance(value, Mapping) else [[] if value is None else value]
    return all(isinstance(each, list) and all(map(_is_number, each)) for each in lists)
