"""Simulate what other systems lack or do differently."""

from __future__ import annotations

import asyncio
import builtins
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from srs_eval import app, batch
from srs_eval.cli.main import main
from srs_eval.data import file_contents, outputs
from srs_eval.data.errors import InputError
from srs_eval.data.readers import files
from srs_eval.engine import workers
from srs_eval.report import formats
from srs_eval.tui import background
from srs_eval.tui.widgets import plot
from tests.conftest import PATIENCE, REPOSITORY, write_simulated_collection


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what Windows lacks: signals, fcntl, resource, sets of cores and nice."""
    monkeypatch.setattr(sys, "platform", "win32")
    for module, names in (
        (os, ("sched_getaffinity", "nice")),
        (signal, ("SIGHUP", "pthread_sigmask")),
    ):
        for name in names:
            monkeypatch.delattr(module, name, raising=False)
    for name in ("fcntl", "resource"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails


def test_cores_without_a_set_of_them(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert workers.count_cores() == 6


def test_memory_is_not_known_on_windows(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = builtins.open

    def without_proc(file: Any, *rest: Any, **named: Any) -> Any:
        if str(file).startswith("/proc"):
            raise FileNotFoundError
        return opened(file, *rest, **named)

    monkeypatch.setattr(builtins, "open", without_proc)
    batch._reset_peak_memory()
    assert batch._read_peak_mb() == 0.0


@pytest.mark.parametrize("refusals", [2, 100])
def test_write_file_waits_until_an_open_file_is_closed(
    refusals: int, windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ranking.csv"
    waited: list[float] = []
    outputs.write_folder(tmp_path, {path.name: b"old"})
    replaces = os.replace

    def refuse(source: Path, target: Path) -> None:
        if target == path and len(waited) < refusals:
            raise PermissionError(13, "The process cannot access the file")
        replaces(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(file_contents.time, "sleep", waited.append)
    if refusals > 10:
        with pytest.raises(InputError, match="cannot be written"):
            outputs.write_file(path, b"new")
        assert sum(waited) < 1
    else:
        outputs.write_file(path, b"new")
    assert path.read_bytes() == (b"old" if refusals > 10 else b"new")
    assert not list(tmp_path.glob("*.tmp"))


def test_a_copy_without_its_lock_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a copy left by a process killed on Windows, where the lock goes first."""
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / f"{files._FOLDER_PREFIX}left"
    abandoned.mkdir()
    (abandoned / files._COLLECTION_NAME).touch()
    files.sweep_abandoned_copies()
    assert not abandoned.exists()


def test_names_that_differ_in_case_may_be_one_file(tmp_path: Path) -> None:
    """Check this on every file system, as Windows and macOS need it."""
    collection = tmp_path / "Collection.anki2"
    collection.touch()
    with pytest.raises(InputError, match="is an input, and is not overwritten"):
        outputs._refuse_input(tmp_path / "collection.ANKI2", [collection], "file")


_TELLING = ("WSL_DISTRO_NAME", "WAYLAND_DISPLAY", "DISPLAY", "TERM", "WT_SESSION", "TERM_PROGRAM")


def _pretend(
    module: ModuleType, platform: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a module see another system and other variables."""
    for name in _TELLING:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "sys", SimpleNamespace(platform=platform))


@pytest.mark.parametrize(
    ("platform", "variables", "programs"),
    [
        ("darwin", {}, ["pbcopy"]),
        ("win32", {}, ["clip"]),
        ("linux", {"WSL_DISTRO_NAME": "Debian"}, ["clip.exe"]),
        ("linux", {"WAYLAND_DISPLAY": "0", "DISPLAY": ":0"}, ["wl-copy", "xclip", "xsel"]),
        ("linux", {}, []),
    ],
)
def test_the_clipboard_of_each_system(
    platform: str, variables: dict[str, str], programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(background, platform, variables, monkeypatch)
    assert [words[0] for words in background._clipboard_commands()] == programs
    monkeypatch.setattr(background.shutil, "which", lambda _: None)
    assert not background.copy_to_system("w = 0.2, 1.3")


@pytest.mark.parametrize(
    ("platform", "variables", "has"),
    [
        ("linux", {"TERM": "xterm-256color"}, True),
        ("linux", {"TERM": "linux"}, False),
        ("darwin", {}, True),
        ("win32", {}, False),
        ("win32", {"WT_SESSION": "1"}, True),
        ("win32", {"TERM_PROGRAM": "vscode"}, True),
    ],
)
def test_graphs_without_braille_are_drawn_in_blocks(
    platform: str, variables: dict[str, str], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(formats, platform, variables, monkeypatch)
    axis = plot.Axis(0.0, 1.0)
    marks = (plot.GraphMark([0.0, 1.0], [0.0, 1.0], ""), plot.GraphMark([0.5], [0.5], "", "●"))
    drawn = plot.draw_graph(plot.PlotGraph(marks, axis, axis, ""), 17, 7)
    letters = set(drawn.plain) - set("\n │└─●")
    assert letters
    assert all("\u2800" <= letter < "\u2900" for letter in letters) == has
    assert (letters <= set("▀▄█")) != has


def test_a_program_without_signals_of_posix(
    windows: None, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture
) -> None:
    collection = write_simulated_collection(tmp_path_factory, 3, 300)
    assert main(["run", str(collection), "--models", "AVG", "--json"]) == 0
    assert '"AVG"' in capsys.readouterr().out


async def test_the_app_runs_where_a_loop_takes_no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []

    def refuse(loop: asyncio.AbstractEventLoop, number: int, *arguments: Any) -> None:
        numbers.append(number)
        asyncio.AbstractEventLoop.add_signal_handler(loop, number, *arguments)

    monkeypatch.setattr(type(asyncio.get_running_loop()), "add_signal_handler", refuse)
    tested_app = app.SrsEvalApp()
    async with tested_app.run_test():
        await tested_app.action_quit()
    assert signal.SIGTERM in numbers
    assert tested_app.return_code == 0


CLOSED = """
import socket, sys

def refuse(*_, **__):
    raise AssertionError("the network is used")

class Closed(socket.socket):
    def connect(self, address):
        refuse() if self.family != getattr(socket, "AF_UNIX", None) else super().connect(address)
    connect_ex = bind = connect

socket.socket = Closed
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("demo", "--models", "AVG,HLR", "--jobs", "2", "--json", "-"),
        ("compare", "FILE", "--json", "-"),
        ("workload", "FILE", "--json", "-"),
        ("state", "FILE", "--json", "-"),
        ("inspect", "FILE", "--json", "-"),
        ("export", "FILE", "--models", "AVG,FSRS-6", "--html", "PAGE"),
        ("models", "weights"),
        ("batch", "--dataset", "DATA", "--models", "AVG", "--jobs", "2", "--out", "OUT"),
    ],
    ids=lambda words: words[0],
)
def test_commands_work_without_network(
    words: tuple[str, ...], simulated_collection: Path, simulated_dataset: Path, tmp_path: Path
) -> None:
    """Check worker processes too: Python runs sitecustomize in each."""
    (tmp_path / "sitecustomize.py").write_text(CLOSED, encoding="utf-8")
    meant = {"FILE": simulated_collection, "DATA": simulated_dataset}
    meant |= {name: tmp_path / name.lower() for name in ("PAGE", "OUT")}
    search = os.pathsep.join([str(tmp_path), str(REPOSITORY)])
    done = subprocess.run(
        [sys.executable, "-m", "srs_eval", *(str(meant.get(word, word)) for word in words)],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "the network is used" not in done.stderr


def test_closed_sockets_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CLOSED, encoding="utf-8")
    script = "import socket; socket.create_connection(('localhost', 1))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "the network is used" in done.stderr
