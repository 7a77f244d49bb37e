"""The disk cache of compiled kernels is a help, never a hindrance, and never stale."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from srs_eval.training import compile as compile_module
from srs_eval.training import kernel_marks, kernel_source, simd
from srs_eval.training.kernel_source import MAKERS, kernel_digest
from srs_eval.training.local_imports import own_files
from tests.conftest import COMPILED, PATIENCE, REPOSITORY

PROGRAM = """
from srs_eval.training.compile import compiled

def double(x):
    return x + x

print(compiled(double)(2.0))
"""


def output(program: Path, cache: Path, package: Path = REPOSITORY, **settings: str) -> str:
    """What it prints, run with its kernels in `cache` and srs_eval from `package`."""
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONPATH": str(package),
            **settings,
        },
        timeout=PATIENCE,
    )
    assert not done.stderr
    return done.stdout


def empty(path: Path) -> None:
    path.write_bytes(b"")


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:30])


def block(path: Path) -> None:
    """What can neither be read nor replaced."""
    path.unlink()
    (path / "in the way").mkdir(parents=True)


@pytest.mark.parametrize("suffix", [".nbc", ".nbi"])
@pytest.mark.parametrize("damage", [empty, tear, block])
def test_a_damaged_cache_is_compiled_anew(
    damage: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PROGRAM)

    def run() -> None:
        assert output(program, cache) == "4.0\n"

    run()
    (path,) = cache.rglob(f"*{suffix}")
    whole = path.stat().st_size
    damage(path)
    run()
    if damage is not block:
        assert path.stat().st_size > 0.5 * whole  # mended
    run()


# Kernels are kept by what they are compiled from


HLR = f"""{COMPILED}
import numpy as np
from srs_eval.training import linear
from srs_eval.models.hlr import recall_and_slope

x, ones = np.ones((8, 3)), np.ones(8)
loss, slope = linear.loss_and_gradient(
    "HLR", recall_and_slope, x, ones, ones, ones, np.array([0.5, 0.1, 0.2])
)
print(any("visit_batches" in name for name in compiled), loss, *slope)
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_an_update_compiles_what_it_changed_and_nothing_else(tmp_path: Path) -> None:
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(HLR)
    first, second = tmp_path / "first", tmp_path / "second" / "elsewhere"
    for place in (first, second):
        ignored = shutil.ignore_patterns("__pycache__", "weights")
        shutil.copytree(REPOSITORY / "srs_eval", place / "srs_eval", ignore=ignored)

    def run(place: Path) -> tuple[bool, list[str]]:
        compiled, *figures = output(program, cache, place).split()
        return compiled == "True", figures

    compiled, figures = run(first)
    assert compiled

    package = second / "srs_eval"
    for path in package.rglob("*.py"):
        os.utime(path, (1e9, 1e9))
    edit(package / "data/paths.py", 'VERSION = "', 'VERSION = "9.')
    model, template = package / "models/hlr.py", package / "training/history_sweep.py"
    edit(model, "Value = Any", "\n\nUNUSED = 1.0  # moves what follows\nValue = Any")
    assert run(second) == (False, figures)

    for path, old, new in (
        (model, "p * x * LN2", "2.0 * p * x * LN2"),  # what the kernel calls
        (template, "surprise > 100.0, 100.0", "surprise > 0.01, 0.01"),  # the kernel itself
    ):
        edit(path, old, new)
        compiled, changed = run(second)
        assert compiled
        assert changed != figures
        figures = changed
    assert run(second) == (False, figures)
    assert run(first)[0] is False  # the other version's kernel is still there


PAIRS = """
from typing import NamedTuple
from srs_eval.training.compile import compiled

class Pair(NamedTuple):
    {first}: float
    {second}: float

def difference(pair):
    return pair.high - pair.low

print(compiled(difference)(Pair(high=3.0, low=1.0)))
"""


def test_a_record_with_its_fields_in_another_order_is_another_argument(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    for first, second in (("high", "low"), ("low", "high")):
        program.write_text(PAIRS.format(first=first, second=second))
        assert output(program, tmp_path / "cache") == "2.0\n"


PICK = """
import sys
import numpy as np
from srs_eval.training.compile import compiled

def pick(x, k):
    return x[k]

try:
    print(compiled(pick)(np.zeros(4)[:2], 3))
except IndexError:
    print("refused")
"""


def test_a_kernel_compiled_under_other_settings_of_numba_is_another(tmp_path: Path) -> None:
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PICK)
    assert output(program, cache) == "0.0\n"
    assert output(program, cache, NUMBA_BOUNDSCHECK="1") == "refused\n"
    assert output(program, cache) == "0.0\n"
    before = len(list(cache.rglob("*.nbc")))
    for settings in ({"NUMBA_OPT": "1"}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}):
        assert output(program, cache, **settings) == "0.0\n"
        before += 1
        assert len(list(cache.rglob("*.nbc"))) == before


BASE = """
import math
from typing import NamedTuple

class Row(NamedTuple):
    a: float
    b: int

FACTOR = 2.0
TABLE = (1, (2.0, None))
load = simd.load

def innermost(x):
    return math.sqrt(x)

def helper(x, y=1.0):
    return innermost(x) * FACTOR + y

def made(cell):
    def step(x):
        return x + cell
    return step

step = made(3.0)

def kernel(x):
    total = 0.0
    for k in range(10):
        total += helper(x) + step(x) + TABLE[0]
    return unpacked(load(x, 0), Row), [x + value for value in TABLE]
"""


def digest_of(source: str, file: str = "a.py", **given: Any) -> str | None:
    names: dict[str, Any] = {"simd": simd, "__name__": "models_of_a_test"}
    sys.modules.setdefault("models_of_a_test", type(sys)("models_of_a_test"))
    exec(compile(source, file, "exec"), names)
    return kernel_digest(names["kernel"], given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(10)", "range(11)"),  # the kernel's constants
        ("range(10)", "range(10.0)"),
        ("total += ", "total -= "),  # its code
        ("math.sqrt(x)", "math.exp(x)"),  # what it calls, and that calls
        ("y=1.0", "y=1.5"),  # a default
        ("FACTOR = 2.0", "FACTOR = 2"),
        ("FACTOR = 2.0", "FACTOR = -0.0"),
        ("(2.0, None)", "(2.5, None)"),
        ("made(3.0)", "made(4.0)"),  # a closure
        ("a: float\n    b: int", "b: int\n    a: float"),  # a record's fields
        ("b: int", "b: float"),
        ("simd.load", "simd.store"),
        ("x + value", "x * value"),  # code within code
    ],
)
def test_whatever_a_kernel_is_made_of_is_in_its_digest(old: str, new: str) -> None:
    assert BASE.count(old) == 1
    base = digest_of(BASE)
    assert base is not None
    assert digest_of(BASE.replace(old, new)) not in (base, None)


def test_what_takes_the_place_of_names_is_in_a_digest() -> None:
    digests = [
        digest_of(BASE, **given)
        for given in (
            {},
            {"FACTOR": 3},
            {"step": lambda x: x},
            {"step": lambda x: x + 1.0},
            {"step": (lambda x: x, lambda x: x)},
        )
    ]
    assert None not in digests
    assert len(set(digests)) == len(digests)


def test_where_a_kernel_stands_is_not_in_its_digest() -> None:
    assert digest_of("\n\nOTHER = 1\n" + BASE, file="b.py") == digest_of(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2.0", "class Some: value = 2.0\nFACTOR = Some()"),  # a class of one's own
        ("FACTOR = 2.0", "import srs_eval.models.hlr as FACTOR"),  # a module of ours
        ("return math.sqrt(x)", "from srs_eval.models.hlr import LN2\n    return LN2"),
    ],
)
def test_what_could_change_unseen_is_not_kept(old: str, new: str) -> None:
    assert digest_of(BASE.replace(old, new)) is None


UNKNOWN = """
import numba
from srs_eval.training.compile import compiled

KIND = numba.float64

def double(x):
    return KIND(x) + x

print(compiled(double)(2))
"""


def test_what_is_not_kept_is_compiled_all_the_same(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(UNKNOWN)
    assert output(program, tmp_path / "cache") == "4.0\n"
    assert not list((tmp_path / "cache").iterdir())


# Every kernel here


def kernels() -> Iterator[tuple[str, FunctionType]]:
    """The functions that are compiled as they are, by the calls of `compiled` in the package."""
    for path in sorted((REPOSITORY / "srs_eval").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "compiled":
                (argument,) = node.args
                assert isinstance(argument, ast.Name)
                module = importlib.import_module(
                    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
                )
                yield argument.id, getattr(module, argument.id, None) or imported(path, argument.id)


def imported(path: Path, name: str) -> FunctionType:
    """What a function of that file imports under the name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and name in [each.name for each in node.names]:
            found: FunctionType = getattr(importlib.import_module(str(node.module)), name)
            return found
    raise AssertionError(name)


def test_every_kernel_is_kept() -> None:
    found = dict(kernels())
    assert len(found) >= 20
    assert [name for name, function in found.items() if kernel_digest(function) is None] == []

    from srs_eval.advice.workload import memories, simulator
    from srs_eval.models import act_r, fsrs6_one_step, hlr, sbd
    from srs_eval.training import linear, recurrent

    made = [act_r._kernel(), fsrs6_one_step._kernel(), sbd._kernel()]
    made += [linear._kernel("HLR", hlr.recall_and_slope, 3)]
    made += [recurrent._kernel_of(model) for model in memories.SCHEDULERS.values()]
    made += [simulator._kernel("FSRS-6", name) for name in (*memories.SCHEDULERS, "GRU-P")]
    names = [kernel.py_func.__name__ for kernel in made]
    assert [name for name in names if name.endswith("not_kept")] == []


def test_the_makers_of_kernels_use_each_other_only() -> None:
    """What else they used could change without the digests."""
    # The folder; names of types of arrays; whether the files are those that run.
    harmless = {"srs_eval", "srs_eval.data.paths", "srs_eval.data.reviews"}
    for name in MAKERS:
        path = Path(kernel_source.__file__).with_name(f"{name}.py")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("srs_eval"):
                continue
            if node.module == "srs_eval.training":
                assert {each.name for each in node.names} <= {*MAKERS, "installed"}
            elif node.module not in harmless:
                assert str(node.module).removeprefix("srs_eval.training.") in MAKERS


def test_only_what_a_model_is_made_from_makes_its_marks_stale(tmp_path: Path) -> None:
    """An update changes some files: what comes from others need not be announced again."""
    package = Path(compile_module.__file__).parents[1]

    def made_from(model: str) -> set[str]:
        found, open_ = set[Path](), [package / "models" / model]
        while open_:
            path = open_.pop()
            if path not in found:
                found.add(path)
                open_ += kernel_marks._content(path)[1]
        return {f"{path.parent.name}/{path.name}" for path in found}

    state, hlr = made_from("state.py"), made_from("hlr.py")
    assert {"models/fsrs6.py", "models/fsrs7.py", "training/recurrent_kernel.py"} <= state
    assert {
        "training/online_filter.py",
        "training/simd.py",
    } <= state  # imported within functions too
    assert {"training/history_sweep.py", "models/__init__.py"} <= hlr
    assert not {"training/online_filter.py", "models/fsrs7.py"} & hlr
    mine, helper = tmp_path / "mine.py", package / "training" / "linear.py"
    mine.write_text(
        "def fit():\n    from srs_eval.training.linear import (\n        a,\n        b,\n    )\n"
    )
    assert kernel_marks._content(mine)[1] == [helper]
    latin = tmp_path / "latin.py"
    latin.write_bytes(
        b"# -*- coding: latin-1 -*-\n# L\xe4nge\nfrom srs_eval.training import linear\n"
    )
    assert kernel_marks._content(latin)[1][-1] == helper


def test_a_change_beside_a_file_of_ones_own_makes_its_marks_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may import others of its folder, directly or not; what it does not is nothing."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    mine, first, second, other = (
        tmp_path / name for name in ("mine.py", "first.py", "second/parts.py", "other.py")
    )
    second.parent.mkdir()
    mine.write_text("import math\nfrom first import step\n")
    first.write_text("def step():\n    from second import parts\n    return parts\n")
    for path in (second, other):
        path.write_text("x = 1\n")
    assert own_files(mine) == [first, mine, second]

    def changed(path: Path) -> bool:
        for each in (kernel_marks.mark_kernels, kernel_marks._sources_hash, kernel_marks._content):
            each.cache_clear()
        kernel_marks.mark_kernels("MINE", mine)
        assert kernel_marks.kernels_there("MINE", mine)
        path.write_text(path.read_text() + "# changed\n")
        kernel_marks._sources_hash.cache_clear()
        kernel_marks._content.cache_clear()
        return not kernel_marks.kernels_there("MINE", mine)

    assert changed(mine)
    assert changed(first)
    assert changed(second)
    assert not changed(other)
