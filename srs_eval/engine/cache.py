"""Store predictions on disk, so that models need not run again on the same collection.

What follows from the trials (labels, rows, folds) is not stored.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srs_eval.data.file_contents import write_atomically
from srs_eval.data.paths import VERSION, cache_dir
from srs_eval.data.reviews import FloatArray
from srs_eval.models.configurations import Configuration
from srs_eval.training.compile import compute_program_digest, is_program_changed
from srs_eval.training.hyperparameters import Context

_CACHE_LIMIT_BYTES = 500_000_000  # of stored results


class CachedResult(NamedTuple):
    """The part of a result that is stored."""

    p: FloatArray
    parameters: Mapping[int, Sequence[float]] | None
    notes: tuple[str, ...]
    seconds: float
    counted_parameters: int | None = None


def compute_cache_key(log_fingerprint: str, configuration: Configuration, context: Context) -> str:
    """Return one hexadecimal digest of the data, protocol, program and settings."""
    model = configuration.model
    packages = list(model.packages)
    if model.needs_on(context.device) == "torch":
        packages.append("torch")
    contents = {
        "program": VERSION,
        "code": compute_program_digest(),
        "data": log_fingerprint,
        "configuration": configuration.name,
        "fit": configuration.fit,
        "hyperparameters": dict(configuration.hyperparameters),
        "protocol": asdict(configuration.protocol),
        "model": [model.name, model.version, None if model.file is None else model.file.digest],
        "settings": context.settings(),
        "packages": _package_versions(*packages),
    }
    if model.weights is not None:
        contents["weights"] = model.weights(context)
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


@cache
def _package_versions(*packages: str) -> list[str]:
    """Return each package with its version."""
    from importlib.metadata import version

    return [f"{name} {version(name)}" for name in packages]


def load_cached(key: str) -> CachedResult | None:
    """Return the result stored under the key; None if there is none or it is damaged."""
    try:
        with np.load(_cache_path(key), allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            p = file["p"]
        with suppress(OSError):
            os.utime(_cache_path(key))  # `prune_cache` takes this as the time of the last use
        parameters = about["parameters"]
        if parameters is not None:
            parameters = {int(partition): values for partition, values in parameters.items()}
        return CachedResult(
            p=p,
            parameters=parameters,
            notes=tuple(about["notes"]),
            seconds=about["seconds"],
            counted_parameters=about["counted_parameters"],
        )
    except Exception:  # a damaged cache file is as good as none
        return None


def save_cached(key: str, stored: CachedResult) -> None:
    """Store a result under its key, atomically.

    Nothing is stored if the disk is full or read-only, or if the program was updated after it was
    started, because the key then belongs to the new program.
    """
    if is_program_changed():
        return
    parameters: dict[int, list[float]] | None = None
    if stored.parameters is not None:
        parameters = {}
        for partition, values in stored.parameters.items():
            parameters[partition] = [float(value) for value in values]
    about = {
        "parameters": parameters,
        "seconds": stored.seconds,
        "notes": stored.notes,
        "counted_parameters": stored.counted_parameters,
    }
    content = io.BytesIO()
    np.savez(content, p=stored.p, about=np.array(json.dumps(about)))
    with suppress(OSError):
        write_atomically(_cache_path(key), content.getvalue(), durable=False, private=True)


def prune_cache(limit_bytes: int = _CACHE_LIMIT_BYTES) -> None:
    """Delete the least recently used results until the others fit within the limit."""
    try:
        files = [(path, path.stat()) for path in (cache_dir() / "results").glob("*/*")]
    except OSError:
        return
    total_bytes = sum(stat.st_size for _, stat in files)
    for path, stat in sorted(files, key=lambda item: item[1].st_mtime):
        if total_bytes <= limit_bytes:
            break
        with suppress(OSError):
            path.unlink(missing_ok=True)
            total_bytes -= stat.st_size


def _cache_path(key: str) -> Path:
    return cache_dir() / "results" / key[:2] / f"{key}.npz"
