"""The part of the add-on that knows nothing of Anki: it finds the program, runs it, ends it."""

from __future__ import annotations

import os
import sys
import threading
import time
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from addon import build
from tests.conftest import PATIENCE

# By itself, for the package's __init__ needs Anki.
_spec = spec_from_file_location("program", build.SOURCE / "program.py")
program = module_from_spec(_spec)
_spec.loader.exec_module(program)

needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs scripts that start as programs")


def made_program(folder: Path, name: str, script: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any program in it."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(program, "_USUAL", (str(tmp_path / "home" / "bin"),))
    return tmp_path


@needs_posix
def test_what_is_found(nowhere: Path) -> None:
    with pytest.raises(program.NotFound, match="is not installed: see"):
        program.find([], "wheel.whl")
    with pytest.raises(program.NotFound, match='no program "mine", which the settings name'):
        program.find(["mine"], "")
    uv = made_program(nowhere / "home" / "bin", "uv")
    with pytest.raises(program.NotFound, match="name a source"):
        program.find([], "")
    words, fetches = program.find([], "wheel.whl")
    assert (words[0], words[-3:], fetches) == (str(uv), ["--from", "wheel.whl", "srs-eval"], True)
    installed = made_program(nowhere / "bin", "srs-eval")
    assert program.find([], "wheel.whl") == ([str(installed)], False)
    assert program.find(["uv", "run"], "") == (["uv", "run"], False)


REPORTS = """
import pathlib, sys
print("Evaluating ...", file=sys.stderr)
pathlib.Path(sys.argv[sys.argv.index("--html") + 1]).write_text(" ".join(sys.argv[1:]))
"""
WAITS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, file=sys.stderr, flush=True)
time.sleep(600)
"""


def evaluation(script: Path, folder: Path) -> Any:
    page = folder / "page.html"
    words = [sys.executable, str(script)]
    return program.Evaluation(words, folder / "collection.anki2", page, ["--anonymous"])


def test_a_run_makes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # of Anki's own Python
    run = evaluation(made_program(tmp_path, "reports.py", REPORTS), tmp_path)
    assert run.run()
    assert run.said == ["Evaluating ..."]
    text = run.page.read_text(encoding="utf-8")
    assert text == f"export {tmp_path / 'collection.anki2'} --html {run.page} --anonymous"


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    refuses = made_program(
        tmp_path, "refuses.py", "import sys; sys.exit('There is no collection.')"
    )
    run = evaluation(refuses, tmp_path)
    assert not run.run()
    assert run.said == ["There is no collection."]


def test_cancelling_ends_all_that_was_started(tmp_path: Path) -> None:
    run = evaluation(made_program(tmp_path, "waits.py", WAITS), tmp_path)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(run.run()))
    thread.start()
    patience = time.monotonic() + PATIENCE
    while not run.said and time.monotonic() < patience:
        time.sleep(0.01)
    run.cancel()
    thread.join(PATIENCE)
    assert ended == [False]  # the pipe is closed, so the child has ended, too


def test_what_is_cancelled_before_does_not_start(tmp_path: Path) -> None:
    run = evaluation(made_program(tmp_path, "reports.py", REPORTS), tmp_path)
    run.cancel()
    assert not run.run()
    assert not run.page.exists()


def test_on_windows_no_window_opens_and_the_tree_of_processes_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []
    simulated = SimpleNamespace(
        CREATE_NO_WINDOW=0x08000000, run=lambda words, **_: asked.append(words)
    )
    monkeypatch.setattr(program, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(program, "subprocess", simulated)
    assert program._apart() == {"creationflags": 0x08000000}
    program._end(SimpleNamespace(pid=7))
    assert asked == [["taskkill", "/T", "/F", "/PID", "7"]]


def test_the_package_is_the_same_each_time_and_has_no_settings_of_a_person(tmp_path: Path) -> None:
    one, other = (build.build(tmp_path / each) for each in "ab")
    assert one.read_bytes() == other.read_bytes()
    names = set(zipfile.ZipFile(one).namelist())
    assert names == {
        *("__init__.py", "program.py", "window.py"),
        *("manifest.json", "config.json", "config.md"),
    }
