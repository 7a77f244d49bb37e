"""Files of models of one's own: what they are made from, and what their code leaves behind."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS_TO_END = 1.0
left_behind: list[threading.Thread] = []
"""Threads that did not end; Python would wait for them at the end of the program."""


@contextmanager
def no_thread_left() -> Iterator[None]:
    """Raises RuntimeError where the block has started a thread that does not end."""
    before = threading.enumerate()
    try:
        yield
    finally:
        until = time.monotonic() + _SECONDS_TO_END
        new = [each for each in threading.enumerate() if each not in before and not each.daemon]
        for each in new:
            each.join(max(0.0, until - time.monotonic()))
        still = [each for each in new if each.is_alive()]
        left_behind.extend(still)
    if still:
        raise RuntimeError("it started a thread that does not end: a daemon thread may go on")


def own_files(path: Path) -> list[Path]:
    """The file and the Python files of its folder that it imports, directly or not, by path."""
    found, open_ = set[Path](), [path]
    while open_:
        each = open_.pop()
        if each not in found:
            found.add(each)
            open_ += _imported(each, path.parent)
    return sorted(found)


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """What a file imports that lies below `root`, packages with all of their names that are
    modules; nothing where it cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked = [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = [root, *path.parents][min(node.level, len(path.parents))]
            names = [node.module or "", *(alias.name for alias in node.names)]
            asked = [(folder, ".".join(filter(None, (node.module, each)))) for each in names[1:]]
        else:
            continue
        for folder, name in asked:
            parts = name.split(".")
            if folder == root and parts[0] == "srs_eval":
                continue  # the program itself, where somebody works beside it
            for length in range(1, len(parts) + 1):
                place = folder.joinpath(*parts[:length])
                candidates = (place.with_name(f"{place.name}.py"), place / "__init__.py")
                yield from (each for each in candidates if each.is_file())
