"""The import contract, cheap start-up, and no paths of somebody's machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srs_eval.engine.cache import VIEWS
from tests.conftest import PATIENCE, REPOSITORY

PACKAGE = REPOSITORY / "srs_eval"
HEAVY = ("torch", "pandas", "numba", "sklearn", "scipy", "pyarrow", "textual", "matplotlib")


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str, *, at_start: bool = False) -> set[str]:
    """What a module imports, as full names; `at_start`: only what its own import runs."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8")), at_start):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base]).rstrip(".")
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def _nodes(tree: ast.AST, at_start: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if at_start and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from (inner for other in node.orelse for inner in ast.walk(other))
            continue
        yield node
        yield from _nodes(node, at_start)


def rooms(names: set[str]) -> set[str]:
    """The rooms of srs_eval among imported names: `srs_eval.models.fsrs6` is in `models`."""
    return {
        name.split(".")[1] for name in names if name.startswith("srs_eval.") and name.count(".")
    }


def in_room(*wanted: str) -> list[str]:
    return [name for name in MODULES if (name + ".").split(".")[1] in wanted]


def test_the_check_itself_sees_imports() -> None:
    assert "reviews" in rooms(imports("srs_eval.data.trials"))
    assert "srs_eval.report.notebook.load" in imports("srs_eval")  # for type checkers only
    assert "srs_eval.report.notebook.load" not in imports("srs_eval", at_start=True)
    assert in_room("models")


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_wait(module: str) -> None:
    """Allowed: textual in the app; numba in kernels, which are imported late."""
    allowed = set()
    if module in in_room("app", "screens", "widgets"):
        allowed.add("textual")
    if module in [*in_room("fitting"), "srs_eval.advice.workload.kernel"]:
        allowed.add("numba")
    found = {name.split(".")[0] for name in imports(module, at_start=True)}
    assert not found & (set(HEAVY) - allowed)


@pytest.mark.parametrize("module", [name for name in MODULES if name not in in_room(*VIEWS)])
def test_only_views_import_views(module: str) -> None:
    found = imports(module)
    assert not rooms(found) & VIEWS
    assert not {name for name in found if name.split(".")[0] == "textual"}


def test_reviews_stand_alone() -> None:
    assert rooms(imports("srs_eval.data.reviews")) <= {"errors"}
    assert rooms(imports("srs_eval.data.errors")) == set()
    ours = {name for name in imports("srs_eval.data.reviews") if name.startswith("srs_eval")}
    others = {name.split(".")[0] for name in imports("srs_eval.data.reviews") - ours}
    assert others - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.parametrize(
    ("room", "never"),
    [
        ("protocol", {"models", "engine", "batch", "results", "metrics"}),
        ("rows", {"protocol", "models", "engine"}),
        ("importing", {"protocol", "models", "engine", "batch"}),
        ("anki_import", {"protocol", "models", "engine", "batch"}),
        ("dataset", {"protocol", "models", "engine", "batch"}),
        ("metrics", {"protocol", "models", "engine", "batch", "importing"}),
        ("workers", {"protocol", "models", "engine", "batch", "results", "importing", "dataset"}),
        ("fitting", {"models", "engine", "batch", "results", "importing", "dataset"}),
        ("models", {"engine", "batch", "results", "importing", "dataset"}),
        ("engine", {"batch", "importing", "anki_import", "dataset", "comparison"}),
        ("simulation", {"protocol", "models", "engine", "importing", "batch"}),
    ],
)
def test_the_way_has_one_direction(room: str, never: set[str]) -> None:
    for module in in_room(room):
        assert not rooms(imports(module)) & never, module


@pytest.mark.parametrize("module", [name for name in MODULES if name not in in_room(*VIEWS)])
def test_only_views_print(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    writes = {"print", "sys.stdout.write", "sys.stderr.write"}
    assert not writes & set(calls)


@pytest.mark.parametrize("command", [[], ["--version"], ["--help"]], ids=str)
def test_start_up_imports_nothing_heavy(command: list[str]) -> None:
    script = (
        "import sys\n"
        "import srs_eval, srs_eval.cli.main\n"
        f"sys.argv = ['srs-eval', *{command!r}]\n"
        "try:\n"
        f"    {command!r} and srs_eval.cli.main.main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    if command == ["--version"]:
        assert re.search(r"\d+\.\d+\.\d+", done.stdout)


def test_the_first_screen_does_without_numpy() -> None:
    """All that reads and judges is loaded once the screen is there; it takes as long again."""
    script = (
        "import sys\n"
        "import srs_eval.cli.main, srs_eval.app, srs_eval.tui.screens.open\n"
        "app = srs_eval.app.SrsEvalApp()\n"
        "print([name for name in ('numpy', 'srs_eval.engine.evaluate') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_no_paths_of_a_machine() -> None:
    """Nothing in the project depends on, or tells about, where somebody works."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs a git checkout")
    folders = ("work", "root", "home/[a-z]", "farm", "Users/[a-z]")
    pattern = re.compile(r"(?<![\w.~$}*-])/(?:" + "|".join(folders) + r")[\w/.-]*")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = REPOSITORY / name
        if path.suffix in {".png", ".svg", ".raw"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {match[0]}" for match in pattern.finditer(text)]
    assert not found
