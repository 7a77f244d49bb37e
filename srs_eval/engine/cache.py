"""Predictions kept on disk, so that a collection evaluated before opens at once.

A key covers everything that figures depend on. What can be derived from the trials
(labels, rows, folds) is not stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from srs_eval.data.outputs import write_atomically
from srs_eval.data.paths import VERSION, cache_dir
from srs_eval.data.reviews import FloatArray
from srs_eval.models.configurations import Configuration
from srs_eval.training.compile import changed, program_digest
from srs_eval.training.context import Context

_LIMIT_BYTES = 500_000_000


@dataclass(frozen=True, eq=False)
class Stored:
    p: FloatArray
    parameters: Mapping[int, Sequence[float]] | None
    seconds: float
    notes: tuple[str, ...]


def result_key(log_fingerprint: str, configuration: Configuration, context: Context) -> str:
    """Data, protocol, program and settings, as one hexadecimal digest."""
    model = configuration.model
    parts = {
        "program": VERSION,
        "code": program_digest(),
        "data": log_fingerprint,
        "configuration": configuration.name,
        "fit": configuration.fit,
        "hyperparameters": dict(configuration.hyperparameters),
        "protocol": asdict(configuration.protocol),
        "model": [model.name, model.version, model.file and model.file.digest],
        "settings": context.settings(),
        "packages": _versions(model.name, model.family == "neural"),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _versions(model: str, neural: bool) -> list[str]:
    """Versions of the packages that this model's figures come from."""
    from importlib.metadata import version

    names = (["torch"] if neural else []) + (["fsrs-rs-python"] if model == "FSRS-rs" else [])
    return [f"{name} {version(name)}" for name in names]


def load(key: str) -> Stored | None:
    """What was stored under the key; None where nothing is, or it is damaged."""
    try:
        with np.load(_path(key), allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            p = file["p"]
        with contextlib.suppress(OSError):
            os.utime(_path(key))  # `prune` goes by the last use
        parameters = about["parameters"] and {int(k): w for k, w in about["parameters"].items()}
        return Stored(p, parameters, about["seconds"], tuple(about["notes"]))
    except Exception:  # a damaged cache file is as good as none
        return None


def save(key: str, stored: Stored) -> None:
    """Store atomically; a full or read-only disk only means no cache, and so does an update
    of the program since it was started.
    """
    if changed():
        return
    parameters = stored.parameters and {k: [*map(float, w)] for k, w in stored.parameters.items()}
    about = {"parameters": parameters, "seconds": stored.seconds, "notes": stored.notes}
    content = io.BytesIO()
    np.savez(content, p=stored.p, about=np.array(json.dumps(about)))
    with contextlib.suppress(OSError):
        write_atomically(_path(key), content.getvalue(), lasting=False)


def prune(limit_bytes: int = _LIMIT_BYTES) -> None:
    """Delete the results unused for longest while they take more than the limit."""
    try:
        files = [(path, path.stat()) for path in (cache_dir() / "results").glob("*/*")]
    except OSError:
        return
    total = sum(stat.st_size for _, stat in files)
    for path, stat in sorted(files, key=lambda item: item[1].st_mtime):
        if total <= limit_bytes:
            break
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            total -= stat.st_size


def _path(key: str) -> Path:
    return cache_dir() / "results" / key[:2] / f"{key}.npz"
