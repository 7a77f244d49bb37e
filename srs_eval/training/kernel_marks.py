"""Whether all that a model compiles is on disk: marks, under the digest of what it comes from.

Cheaper than the kernels' own digests, for which all would have to be imported.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from srs_eval.training.compile import kernel_folder
from srs_eval.training.installed import PACKAGE
from srs_eval.training.local_imports import own_files

_WITH_KERNELS = ("training", "models", "advice/workload")
_IMPORT = re.compile(r"^\s*from (srs_eval[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def kernels_there(name: str, file: Path) -> bool:
    """Whether `mark_kernels` was called so, and nothing has changed that they come from."""
    try:
        return _mark(name, file).exists()
    except OSError:
        return False


@cache
def mark_kernels(name: str, file: Path) -> None:
    """Remember that all that is compiled for `name`, from this Python file, is on disk."""
    try:
        mark = _mark(name, file)
        if mark.parent.is_dir():
            mark.touch()
    except OSError:
        pass  # it will be announced again


def _mark(name: str, file: Path) -> Path:
    named = hashlib.sha256(name.encode()).hexdigest()[:16]
    return kernel_folder() / f"{_sources_hash(file)}-{named}.mark"


@cache
def _sources_hash(file: Path) -> str:
    """Of a Python file and of all that kernels of its imports are made from.

    A file's change counts for all that use the file; of those of one's own, what lies beside.
    """
    found, open_ = set[Path](), [file, PACKAGE / "training" / "compile.py"]
    if PACKAGE not in file.parents:
        open_ += own_files(file)
    while open_:
        path = open_.pop()
        if path not in found:
            found.add(path)
            open_ += _content(path)[1]
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(path.name.encode() + _content(path)[0])
    return digest.hexdigest()[:16]


@cache
def _content(path: Path) -> tuple[bytes, list[Path]]:
    """A file's digest, and what it imports of the folders with kernels, also in functions."""
    content = path.read_bytes()
    modules = [
        name
        for module, names in _IMPORT.findall(content.decode("utf-8", "replace"))
        for name in (module, *(f"{module}.{each}" for each in re.findall(r"\w+", names)))
    ]
    known = _modules()
    imported = [known[each] for each in dict.fromkeys(modules) if each in known]
    return hashlib.sha256(content).digest(), imported


@cache
def _modules() -> dict[str, Path]:
    return {
        f"srs_eval.{folder.replace('/', '.')}.{path.stem}".removesuffix(".__init__"): path
        for folder in _WITH_KERNELS
        for path in (PACKAGE / folder).glob("*.py")
    }
