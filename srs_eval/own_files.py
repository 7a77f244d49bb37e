"""What a file of models of one's own is made from: itself, and what it imports from beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


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
