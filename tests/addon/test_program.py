"""Check how the add-on finds, runs and ends the program; this part does not need Anki."""

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
    """Make a home folder without any program in it."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(program, "_USUAL_FOLDERS", (str(tmp_path / "home" / "bin"),))
    return tmp_path


@needs_posix
def test_find_prefers_an_installed_program(nowhere: Path) -> None:
    with pytest.raises(program.NotFound, match="is not installed: see"):
        program.find([], "wheel.whl")
    with pytest.raises(program.NotFound, match='a program that does not exist: "mine"'):
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
    assert run.output_lines == ["Evaluating ..."]
    text = run.page.read_text(encoding="utf-8")
    assert text == f"export {tmp_path / 'collection.anki2'} --html {run.page} --anonymous"


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    refuses = made_program(
        tmp_path, "refuses.py", "import sys; sys.exit('There is no collection.')"
    )
    run = evaluation(refuses, tmp_path)
    assert not run.run()
    assert run.output_lines == ["There is no collection."]


def test_cancelling_ends_all_that_was_started(tmp_path: Path) -> None:
    run = evaluation(made_program(tmp_path, "waits.py", WAITS), tmp_path)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(run.run()))
    thread.start()
    patience = time.monotonic() + PATIENCE
    while not run.output_lines and time.monotonic() < patience:
        time.sleep(0.01)
    run.cancel()
    thread.join(PATIENCE)
    assert ended == [False]  # the pipe is closed, so the child has ended, too


def test_cancelled_evaluation_does_not_start(tmp_path: Path) -> None:
    run = evaluation(made_program(tmp_path, "reports.py", REPORTS), tmp_path)
    run.cancel()
    assert not run.run()
    assert not run.page.exists()


def test_windows_opens_no_window_and_ends_child_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[list[str]] = []
    simulated = SimpleNamespace(
        CREATE_NO_WINDOW=0x08000000, run=lambda words, **_: commands.append(words)
    )
    monkeypatch.setattr(program, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(program, "subprocess", simulated)
    assert program._separation_options() == {"creationflags": 0x08000000}
    program._end_with_children(SimpleNamespace(pid=7))
    assert commands == [["taskkill", "/T", "/F", "/PID", "7"]]


def test_addon_package_is_reproducible_without_personal_settings(tmp_path: Path) -> None:
    first, second = (build.build(tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    names = set(zipfile.ZipFile(first).namelist())
    assert names == {
        "__init__.py",
        "program.py",
        "window.py",
        "manifest.json",
        "config.json",
        "config.md",
    }
