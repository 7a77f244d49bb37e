"""Compiling ahead: which kernels are missing, and the made-up log that needs the same ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from srs_eval.engine.session import mark_compiled, must_compile
from srs_eval.models.configurations import OWN_FSRS_6, resolve_configurations
from tests.conftest import COMPILED, PATIENCE
from tools.simulated import simulate_learner, write_dataset


def test_configurations_that_compile_nothing_come_first() -> None:
    compiles = [configuration.compiles for configuration in resolve_configurations("all")]
    assert compiles == sorted(compiles)
    assert not any(
        configuration.compiles
        for configuration in resolve_configurations("AVG,SM2,Ebisu-v2,Anki-dry-run")
    )
    assert all(
        configuration.compiles
        for configuration in resolve_configurations("FSRS-6,FSRS-6-dry-run,FSRS-rs,Anki,HLR,LSTM")
    )


SCRIPT = f"""{COMPILED}
import sys
import time
from pathlib import Path
from srs_eval.data.datasets import open_dataset
from srs_eval.engine import evaluate as engine
from srs_eval.engine.run import Finished, Started
from srs_eval.engine.session import must_compile
from srs_eval.models.configurations import resolve_configurations

def main():
    names = "HLR,SM2-trainable"
    pool = engine.warm_up_kernels(names)
    assert pool is not None
    while any(map(must_compile, resolve_configurations(names))):
        time.sleep(0.1)
    pool.terminate_workers()
    assert engine.warm_up_kernels(names) is None
    log = open_dataset(Path(sys.argv[1])).load(1)
    events = list(engine.evaluate(log, names, jobs=0, use_cache=False))
    finished = [event for event in events if isinstance(event, Finished)]
    started = [event for event in events if isinstance(event, Started)]
    assert len(finished) == 2, events
    assert not any(event.needs_compilation for event in started)
    print(compiled)

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_nothing_is_compiled_after_warming_up(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    write_dataset({1: simulate_learner(1, 1_500)}, tmp_path / "data")
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "SRS_EVAL_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "data")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]"]


def test_must_compile_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (fsrs,) = resolve_configurations("FSRS-6")
    (average,) = resolve_configurations("AVG")
    assert must_compile(fsrs)
    assert not must_compile(average)


def test_own_parameters_share_kernels_with_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that compiling for one of the two makes the other's first run fast as well."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    defaults, own_parameters = resolve_configurations(f"FSRS-6-dry-run,{OWN_FSRS_6}")
    assert must_compile(defaults)
    assert must_compile(own_parameters)
    mark_compiled(own_parameters)
    assert not must_compile(defaults)
    assert not must_compile(own_parameters)
