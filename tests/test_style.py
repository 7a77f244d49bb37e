"""Test that the package keeps the few rules of style that a program can check.

CONTRIBUTING.md has the others. ruff checks that docstrings begin with an imperative sentence, but
accepts "Whether ..." as one.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "srs_eval"
FILES = sorted(PACKAGE.rglob("*.py"))
QUESTION = re.compile(r"(What|Of|Whether|Those|Who|Where|How|Why|Whose|Which|That which)\b")
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef)


def find_starred_literals(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of [*(a, b), c], which hides a list's layout."""
    for node in nodes:
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List):
            yield node.lineno


def find_chained_assignments(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of a = b = value."""
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            yield node.lineno


def find_conditional_products(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of "text" * (a > b), [x] * (not y) and the like: an `if` says it better."""
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        sides = [(node.left, node.right), (node.right, node.left)]
        if any(is_sequence(value) and is_condition(factor) for value, factor in sides):
            yield node.lineno


def is_sequence(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.List | ast.Tuple | ast.JoinedStr)


def is_condition(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "bool"
    is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_negation or isinstance(node, ast.Compare | ast.BoolOp)


def find_questioning_docstrings(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of functions whose docstring begins with What, Whether, Of and the like."""
    for node in nodes:
        if isinstance(node, DOCUMENTED) and QUESTION.match(ast.get_docstring(node) or ""):
            yield node.lineno


RULES = {
    "starred literal": (find_starred_literals, "x = [*(1, 2), 3]"),
    "chained assignment": (find_chained_assignments, "a = b = 1"),
    "text times a condition": (find_conditional_products, "x = 'more' * (a > b)"),
    "list times a condition": (find_conditional_products, "x = [1] * (not a)"),
    "docstring that asks": (find_questioning_docstrings, 'def f():\n    """Whether it is."""'),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule_example_is_found(rule: str) -> None:
    find, example = RULES[rule]
    assert list(find(ast.walk(ast.parse(example)))) == [1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_file_keeps_every_rule(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    broken = []
    for rule, (find, _) in RULES.items():
        broken += [f"{rule}: line {line}" for line in find(nodes)]
    assert broken == []


def test_class_names_are_unique() -> None:
    modules = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name.lstrip("_")].add(path.name)
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
