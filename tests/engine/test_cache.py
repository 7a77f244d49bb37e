"""Cached results are not used after a change of code or settings that figures depend on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from srs_eval.engine import cache
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training import compile as program
from srs_eval.training.hyperparameters import Context, TrainingRecord
from tests.conftest import PATIENCE


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy the program's source into a folder where it may be edited."""
    copy = tmp_path / "program" / "srs_eval"
    shutil.copytree(program._PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def edit(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n# another rule\n")


def digest(package: Path) -> str:
    program.compute_program_digest.cache_clear()
    return program.compute_program_digest(package)


@pytest.mark.slow
def test_program_digest_covers_every_file_but_views(package: Path) -> None:
    before = digest(package)
    assert before == digest(program._PACKAGE)
    for path in sorted(package.rglob("*.*")):
        content = path.read_bytes()
        edit(path)
        view = path.relative_to(package).parts[0].removesuffix(".py") in program._VIEW_PACKAGES
        assert (digest(package) == before) == view, path.name
        path.write_bytes(content)
    shutil.move(package / "models" / "hlr.py", package / "hlr.py")
    assert digest(package) != before


WHILE_IT_RUNS = """
import sys
from pathlib import Path
import numpy as np
from srs_eval.engine import cache
from srs_eval.training.compile import compile_kernel, is_program_changed, compute_program_digest
from srs_eval.training.initial_stability import __file__ as rule

def kernel(x):
    return x + 1.0

before = is_program_changed()
if sys.argv[1] == "updated":
    Path(rule).write_bytes(Path(rule).read_bytes() + b"# another rule")
assert compile_kernel(kernel)(1.0) == 2.0
key = compute_program_digest()
cache.save_cached(key, cache.CachedResult(np.zeros(3), None, (), 1.0))
print(before, is_program_changed(), cache.load_cached(key) is not None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("change", ["updated", "as it was"])
def test_cache_stores_nothing_after_an_update_during_the_run(
    package: Path, tmp_path: Path, change: str
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SRS_EVAL_CACHE_DIR": str(tmp_path / "cache"),
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    program = tmp_path / "program.py"
    program.write_text(WHILE_IT_RUNS)
    done = subprocess.run(
        [sys.executable, str(program), change], env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    updated = change == "updated"
    assert done.stdout.split() == ["False", str(updated), str(not updated)]
    suffixes = [path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert (".nbc" in suffixes) == (not updated)


def test_view_packages_exist() -> None:
    modules = {path.name.removesuffix(".py") for path in program._PACKAGE.iterdir()}
    assert modules >= program._VIEW_PACKAGES


@pytest.mark.slow
def test_cache_misses_after_edited_rules_but_not_views(
    package: Path, simulated_collection: Path, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "SRS_EVAL_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = (sys.executable, "-m", "srs_eval", "run", str(simulated_collection))

    def cached() -> bool:
        done = subprocess.run(
            [*command, "--models", "AVG", "--jobs", "0", "--json"],
            cwd=package.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        (result,) = json.loads(done.stdout)["results"]
        answer: bool = result["cached"]
        return answer

    assert not cached()
    assert cached()
    edit(package / "report" / "console.py")
    assert cached()
    edit(package / "engine" / "evaluate.py")
    assert not cached()
    assert cached()


def test_cache_key_covers_every_setting_but_the_tick(tmp_path: Path) -> None:
    """Check every field of Context, so that a new one must be put on one side or the other."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "LSTM.pth").write_bytes(b"1")
    (tmp_path / "words.csv").write_text("card_id,length\n1,3\n")
    settings = {
        "sm2_target": 0.8,
        "weights": tmp_path / "weights",
        "features": tmp_path / "words.csv",
        "seen_users": True,
        "device": "cuda",
        "user": 3,
        "pretrained": {"w": 1.0},
        "other_users_weights": {"OWN": tmp_path / "weights"},
        "hyperparameters": {"epochs": 3},
        "record": TrainingRecord({"seed": 1}),
        "tick": print,
    }
    assert set(settings) == {field.name for field in fields(Context)}
    (sm2,) = resolve_configurations("SM2")
    base = cache.compute_cache_key("data", sm2, Context())
    for name, value in settings.items():
        changed = replace(Context(), **{name: value})  # type: ignore[arg-type]
        same = cache.compute_cache_key("data", sm2, changed) == base
        # The configuration holds the hyperparameters, the weights what was pretrained.
        irrelevant = ("tick", "hyperparameters", "pretrained", "other_users_weights", "record")
        assert same == (name in irrelevant), name


def test_cache_key_depends_on_hyperparameters() -> None:
    (hlr,) = resolve_configurations("HLR")
    keys = {
        cache.compute_cache_key("data", hlr.with_hyperparameters(values), Context())
        for values in ({}, {"epochs": 5}, {"epochs": 6}, {"seed": 1})
    }
    assert len(keys) == 4
    assert cache.compute_cache_key("data", hlr, Context()) in keys


def test_weights_are_keyed_by_content_not_by_folder(tmp_path: Path) -> None:
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "GRU.pth").write_bytes(content)
    a, b, c = (Context(weights=tmp_path / name).settings()["weights"] for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_cached_predictions_are_readable_by_their_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path))
    before = os.umask(0)
    try:
        cache.save_cached("ab" * 32, cache.CachedResult(np.zeros(3), None, (), 1.0))
    finally:
        os.umask(before)
    (file,) = tmp_path.rglob("*.npz")
    assert file.stat().st_mode & 0o777 == 0o600
    assert cache.load_cached("ab" * 32) is not None
