"""The import contract, cheap start-up, and no paths of somebody's machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from srs_eval.training.compile import _VIEW_PACKAGES
from tests.conftest import PATIENCE, REPOSITORY

PACKAGE = REPOSITORY / "srs_eval"
ORDER = (
    *("data", "metrics", "stats", "anki_import", "training", "models", "engine", "advice"),
    *("benchmark", "batch", "report", "tui", "app", "cli", "__main__", "__init__"),
)
"""The entries of the package, lowest first: each imports those before it only."""
HEAVY = ("torch", "pandas", "numba", "sklearn", "scipy", "pyarrow", "textual", "matplotlib")


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str, *, at_start: bool = False, types: bool = True) -> set[str]:
    """What a module imports, as full names; `at_start`: only what its own import runs.

    Without `types`, what is for type checkers alone is left out.
    """
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in _nodes(_tree(path), at_start, types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base]).rstrip(".")
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _nodes(tree: ast.AST, at_start: bool, types: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.If) and for_types and (at_start or not types):
            yield from (inner for other in node.orelse for inner in ast.walk(other))
            continue
        yield node
        yield from _nodes(node, at_start, types)


def entries(names: set[str]) -> set[str]:
    """The entries of srs_eval among imported names: `srs_eval.models.fsrs6` is in `models`."""
    return {
        name.split(".")[1] for name in names if name.startswith("srs_eval.") and name.count(".")
    }


def entry_of(module: str) -> str:
    """The package's own module is above all others: nothing in it imports the whole."""
    return module.split(".")[1] if "." in module else "__init__"


SHOWN = {"findings", "shown", "sentences", "questions", "overview", "answering", "saved_answers"}
"""What views import of `advice`: findings, what makes English of them, who is asked for them."""
FIGURES = {"workload"}
"""Costs: no answer to a question of the registry."""


def test_views_see_findings_and_not_what_makes_them() -> None:
    for module in in_entry("report", "tui", "app"):
        parts = {
            name.split(".")[2] for name in imports(module) if name.startswith("srs_eval.advice.")
        }
        assert parts <= SHOWN | FIGURES, module


def test_english_about_findings_has_one_place() -> None:
    """What computes imports nothing that words, and what words computes nothing."""
    words = {"shown", "sentences"}
    for module in in_entry("advice"):
        name = module.split(".")[2] if module.count(".") > 1 else ""
        used = {
            each.split(".")[2] for each in imports(module) if each.startswith("srs_eval.advice.")
        }
        if name in words:
            assert used <= {*words, "findings", "model_evidence", "workload"}, module
        elif name != "overview":
            assert not used & words, module


def in_entry(*wanted: str) -> list[str]:
    return [name for name in MODULES if entry_of(name) in wanted]


def test_the_check_itself_sees_imports() -> None:
    assert "data" in entries(imports("srs_eval.metrics"))
    assert "srs_eval.report.notebook.load" in imports("srs_eval")  # for type checkers only
    assert "srs_eval.report.notebook.load" not in imports("srs_eval", at_start=True)
    assert in_entry("models")


def test_the_order_names_every_entry() -> None:
    assert {entry_of(name) for name in MODULES} == set(ORDER)


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_wait(module: str) -> None:
    """Allowed: textual in the app; numba in kernels, which are imported late."""
    allowed = set()
    if entry_of(module) in ("app", "tui"):
        allowed.add("textual")
    if entry_of(module) == "training" or module == "srs_eval.advice.workload.kernel":
        allowed.add("numba")
    found = {name.split(".")[0] for name in imports(module, at_start=True)}
    assert not found & (set(HEAVY) - allowed)


@pytest.mark.parametrize("module", MODULES)
def test_arrows_go_down(module: str) -> None:
    """Also those inside functions; an import for type checkers alone is none."""
    above = set(ORDER[ORDER.index(entry_of(module)) + 1 :])
    found = {
        name
        for name in imports(module, types=False)
        if entries({name}) & above or name == "srs_eval" or name.startswith("srs_eval.__")
    }
    assert not found


CIRCLES = {
    frozenset({"srs_eval.models", "srs_eval.models.configurations"}): (
        "a worker process restores a pickled model by loading its file again, and the models of a "
        "file must not have names that mean configurations"
    )
}
"""Modules that import each other, with the reason."""


def imported_modules(module: str) -> set[str]:
    """Return the modules that a module imports from, also inside functions.

    An import for type checkers alone is none.
    """
    modules = set()
    for name in imports(module, types=False):
        source = name if name in MODULES else name.rpartition(".")[0]
        if source in MODULES and source != module:
            modules.add(source)
    return modules


def find_circles(arrows: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of modules each of which imports all others of its group, if indirectly."""
    reachable: dict[str, set[str]] = {}
    for module in arrows:
        visited: set[str] = set()
        waiting = [module]
        while waiting:
            new = arrows[waiting.pop()] - visited
            visited |= new
            waiting += new
        reachable[module] = visited
    circles = set()
    for module, visited in reachable.items():
        if module in visited:
            circles.add(frozenset(other for other in visited if module in reachable[other]))
    return circles


def test_modules_import_each_other_in_listed_circles_only() -> None:
    arrows = {module: imported_modules(module) for module in MODULES}
    assert find_circles(arrows) == set(CIRCLES)


@pytest.mark.parametrize(
    "module", [name for name in MODULES if entry_of(name) not in _VIEW_PACKAGES]
)
def test_only_views_draw_and_print(module: str) -> None:
    assert not {name for name in imports(module) if name.split(".")[0] == "textual"}
    tree = _tree(MODULES[module])
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not {"print", "sys.stdout.write", "sys.stderr.write"} & set(calls)


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


def test_the_first_screen_does_without_numpy(tmp_path: Path) -> None:
    """All that reads and evaluates is loaded once the screen is there; it takes as long again."""
    script = textwrap.dedent(
        f"""
        import asyncio, sys
        from pathlib import Path
        import srs_eval.cli.main
        from srs_eval.app import SrsEvalApp
        def loaded():
            print([name for name in ("numpy", "srs_eval.engine.run") if name in sys.modules])
        async def main():
            app = SrsEvalApp(state_folder=Path({str(tmp_path)!r}), profiles=lambda: [])
            app.preload_after_first_screen = loaded
            async with app.run_test() as pilot:
                await pilot.pause()
        asyncio.run(main())
        """
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
