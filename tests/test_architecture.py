"""Check the imports between packages, the cheap start-up, and paths of machines."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from srs_eval.training.compile import _VIEW_PACKAGES
from tests.conftest import REPOSITORY
from tests.helpers.packages import ORDER
from tests.helpers.program import run_script

PACKAGE = REPOSITORY / "srs_eval"
HEAVY = ("torch", "pandas", "numba", "sklearn", "scipy", "pyarrow", "textual", "matplotlib")


def module_name(path: Path) -> str:
    names = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str, *, at_start: bool = False, types: bool = True) -> set[str]:
    """Return what a module imports, as full names.

    With `at_start`, only imports that run when it is imported; without `types`, none that are
    for type checkers alone.
    """
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names = set()
    for node in _nodes(_tree(path), at_start, types):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base]).rstrip(".")
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _nodes(tree: ast.AST, at_start: bool, types: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.If) and for_types and (at_start or not types):
            for branch in node.orelse:
                yield from ast.walk(branch)
            continue
        yield node
        yield from _nodes(node, at_start, types)


def entries(names: set[str]) -> set[str]:
    """Return the entries of the package among names: `srs_eval.models.fsrs6` is in `models`."""
    return {
        name.split(".")[1] for name in names if name.startswith("srs_eval.") and name.count(".")
    }


def entry_of(module: str) -> str:
    """Return the entry of a module; the package's own module is the highest, `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


SHOWN = {"findings", "shown", "sentences", "questions", "overview", "answering", "saved_answers"}
"""What views import of `advice`: findings, what makes English of them, who is asked for them."""
FIGURES = {"workload"}
"""Costs: no answer to a question of the registry."""


def test_views_import_findings_and_sentences_only() -> None:
    for module in in_entry("report", "tui", "app"):
        modules = {
            name.split(".")[2] for name in imports(module) if name.startswith("srs_eval.advice.")
        }
        assert modules <= SHOWN | FIGURES, module


def test_advice_modules_either_compute_or_word() -> None:
    """Check that modules of `advice` either compute or word, but import nothing of the other."""
    words = {"shown", "sentences"}
    for module in in_entry("advice"):
        name = module.split(".")[2] if module.count(".") > 1 else ""
        used = {
            imported.split(".")[2]
            for imported in imports(module)
            if imported.startswith("srs_eval.advice.")
        }
        if name in words:
            assert used <= {*words, "acts", "findings", "model_evidence", "workload"}, module
        elif name != "overview":
            assert not used & words, module


def in_entry(*names: str) -> list[str]:
    """Return the modules of the named entries."""
    return [module for module in MODULES if entry_of(module) in names]


def test_the_check_itself_sees_imports() -> None:
    assert "data" in entries(imports("srs_eval.metrics"))
    assert "srs_eval.report.notebook.load" in imports("srs_eval")  # for type checkers only
    assert "srs_eval.report.notebook.load" not in imports("srs_eval", at_start=True)
    assert in_entry("models")


def test_the_order_names_every_entry() -> None:
    assert {entry_of(name) for name in MODULES} == set(ORDER)


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_heavy_packages_late(module: str) -> None:
    """Check imports at start: the app may import textual, kernels numba."""
    allowed = set()
    if entry_of(module) in ("app", "tui"):
        allowed.add("textual")
    if entry_of(module) == "training" or module == "srs_eval.advice.workload.kernel":
        allowed.add("numba")
    packages = {name.split(".")[0] for name in imports(module, at_start=True)}
    assert not packages & (set(HEAVY) - allowed)


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_lower_entries_only(module: str) -> None:
    """Check imports, also inside functions, unless they are for type checkers alone."""
    above = set(ORDER[ORDER.index(entry_of(module)) + 1 :])
    imports_above = {
        name
        for name in imports(module, types=False)
        if entries({name}) & above or name == "srs_eval" or name.startswith("srs_eval.__")
    }
    assert not imports_above


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
            circle = {neighbour for neighbour in visited if module in reachable[neighbour]}
            circles.add(frozenset(circle))
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
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    if command == ["--version"]:
        assert re.search(r"\d+\.\d+\.\d+", done.stdout)


def test_answers_do_without_the_readers_of_files() -> None:
    """Check that workers, which get what was read, load no readers."""
    script = (
        "import sys\n"
        "import srs_eval.advice.answering\n"
        "print([name for name in sys.modules if name.startswith('srs_eval.data.readers')])\n"
    )
    done = run_script(script)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_first_screen_does_without_numpy(tmp_path: Path) -> None:
    """Check that reading and evaluating are loaded after the first screen has appeared."""
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
    done = run_script(script)
    assert done.stdout.strip() == "[]", done.stderr


def test_no_paths_of_a_machine() -> None:
    """Check that no file depends on, or tells, where somebody works."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs a git checkout")
    folders = ("work", "root", "home/[a-z]", "farm", "Users/[a-z]")
    pattern = re.compile(r"(?<![\w.~$}*-])/(?:" + "|".join(folders) + r")[\w/.-]*")
    paths = []
    for name in filter(None, listed.stdout.split("\0")):
        path = REPOSITORY / name
        if path.suffix in {".png", ".svg", ".raw"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        paths += [f"{name}: {match[0]}" for match in pattern.finditer(text)]
    assert not paths
