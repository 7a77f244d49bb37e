"""Shared data and simulated learners for all tests.

Fixtures lie in `../shared`, or in the folder that `SRS_EVAL_SHARED` names; without them their
tests are skipped, and the golden figures of four learners are those in `tests/golden`.
`SRS_EVAL_REQUIRE_SHARED=1` turns a missing file into a failure.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from tools.simulated import (
    SimulatedLearner,
    simulate_learner,
    write_collection,
    write_dataset,
)

# Compiling and lazy imports make a first example slow; how slow is nothing to fail on. The same
# examples each time: what fails, fails for everybody.
hypothesis.settings.register_profile("srs-eval", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("srs-eval")

# Looking for garbage among all that a test process imports takes a twentieth of its time.
gc.set_threshold(50_000, 20, 50)

PATIENCE = 300.0
"""Seconds that a test waits for what must come; a busy machine takes its time."""

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SRS_EVAL_SHARED", REPOSITORY.parent / "shared"))
SHARED_REQUIRED = os.environ.get("SRS_EVAL_REQUIRE_SHARED") == "1"

# Compiled kernels are kept between runs, by what they come from, and shared by workers;
# cached results are not, so that no test passes on an older version's figures. Nothing touches a
# person's own cache. Subprocesses inherit all of it.
os.environ.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".cache" / "numba"))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(REPOSITORY / ".cache" / "python"))
_folders = tempfile.TemporaryDirectory(prefix="srs-eval-tests-")
for _name in ("CACHE", "CONFIG", "DATA", "STATE"):
    os.environ[f"SRS_EVAL_{_name}_DIR"] = str(Path(_folders.name) / _name.lower())

# Weights of RWKV are a person's own: tests of them name the file, all others find none.
RWKV_WEIGHTS = os.environ.get("SRS_EVAL_RWKV_WEIGHTS", "")
os.environ["SRS_EVAL_RWKV_WEIGHTS"] = ""

# A shell without job control starts what runs in the background with Ctrl-C ignored, and programs
# that the tests start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


COMPILED = """
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
"""
"""The beginning of a script that looks at what numba compiles: names of kernels in `compiled`."""


def shared_or_skip(*names: str) -> Path:
    """Return the path of shared data; without it skip the test, or fail it if it is required."""
    path = SHARED.joinpath(*names)
    if not path.exists():
        message = f"shared data {'/'.join(names) or 'folder'} is not here"
        if SHARED_REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    return path


def pytest_unconfigure() -> None:
    """Spare pytest the five searches for garbage at its end."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for a skipped test if shared data is required.

    A test may be skipped for what the machine lacks: such reasons begin with "needs".
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not SHARED_REQUIRED or reporter is None:
        return
    skipped = []
    for report in reporter.stats.get("skipped", []):
        path, _, reason = report.longrepr
        if not reason.removeprefix("Skipped: ").startswith("needs"):
            skipped.append(f"{path}: {reason}")
    if skipped:
        reporter.write_line("")
        reporter.write_line("Skipped although shared data is required:", red=True)
        for line in sorted(set(skipped)):
            reporter.write_line(f"  {line}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def write_simulated_collection(folders: pytest.TempPathFactory, seed: int, reviews: int) -> Path:
    """Write the collection of a simulated learner into a new folder."""
    path = folders.mktemp("collection") / "collection.anki2"
    write_collection(simulate_learner(seed, reviews), path)
    return path


@pytest.fixture(scope="session")
def simulated_learner() -> SimulatedLearner:
    """Simulate the learner of `simulated_collection`: 20,000 reviews."""
    return simulate_learner(seed=1)


@pytest.fixture(scope="session")
def simulated_collection(
    simulated_learner: SimulatedLearner, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Write a collection with several decks, two presets in use and about 20,000 entries."""
    path = tmp_path_factory.mktemp("simulated") / "collection.anki2"
    write_collection(simulated_learner, path)
    return path


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """Make the tree of commands once for all tests: that takes most of a short command's time."""
    from srs_eval.cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "_make_command_group", cache(main._make_command_group))
        yield


def make_simulated_users() -> dict[int, SimulatedLearner]:
    """Simulate seven small users, several of them unusual."""
    missing = simulate_learner(6, 1000)
    random = np.random.default_rng(6)
    gone = random.random(len(missing.cards)) < 0.1
    one_deck = int(missing.cards.deck_id[0])
    return {
        1: simulate_learner(1, 1500),
        2: simulate_learner(2, 1200, scheduler="sm2", buttons=2),
        3: simulate_learner(3, 1000, new_per_day=20),  # more than half of it on the same day
        4: simulate_learner(4, 60),  # tiny
        5: simulate_learner(5, 400, forgets=False),  # one class only
        6: replace(  # cards and one deck are missing
            missing,
            cards=replace(missing.cards, deleted=missing.cards.deleted | gone),
            decks={key: deck for key, deck in missing.decks.items() if key != one_deck},
        ),
        7: simulate_learner(7, 10),  # too few reviews for any model
    }


@pytest.fixture(scope="session")
def simulated_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the users of `make_simulated_users` in the layout of anki-revlogs-10k."""
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset(make_simulated_users(), folder)
    return folder


@pytest.fixture
def weights_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write made-up weights of RWKV and let the environment name them."""
    from safetensors.numpy import save_file

    from benchmarks.rwkv import TINY, make_weights

    path = tmp_path / "mine.safetensors"
    save_file(make_weights(TINY), path)
    monkeypatch.setenv("SRS_EVAL_RWKV_WEIGHTS", str(path))
    return path
