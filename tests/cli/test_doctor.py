"""Check that `srs-eval doctor` prints what a bug report needs, and nobody's name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from srs_eval.cli import doctor
from srs_eval.cli.main import main
from srs_eval.data.paths import VERSION
from tests.conftest import PATIENCE
from tools.simulated import simulate_learner, write_collection


@pytest.mark.slow
def test_doctor_prints_versions_without_names_and_compiles(tmp_path: Path) -> None:
    home = tmp_path / "Anna Lena"
    base = home / "Anki2"
    (base / "Annas Profil").mkdir(parents=True)
    write_collection(simulate_learner(1, 20), base / "Annas Profil" / "collection.anki2")
    folders = {f"SRS_EVAL_{name}_DIR": str(home / name.lower()) for name in ("CACHE", "CONFIG")}
    done = subprocess.run(
        [sys.executable, "-m", "srs_eval", "doctor"],
        env={**os.environ, **folders, "HOME": str(home), "ANKI_BASE": str(base), "TERM": "xterm"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"srs-eval {VERSION}, Python 3.")
    for words in ("numba ", "llvmlite ", "Cache: ~", "TERM=xterm", "Anki: 1 profile\n"):
        assert words in done.stdout
    assert re.search(
        r"Compiling: HLR took \d+\.\d s; its log loss on the demo is 0\.\d+", done.stdout
    )
    assert "anna" not in (done.stdout + done.stderr).lower()


def test_doctor_reports_a_failed_compilation_without_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/people/anna"))

    message = "OSError: no LLVM in /people/anna/.local/lib, nor in /media/anna/lib\n"
    failed = SimpleNamespace(returncode=1, stdout="", stderr=message)
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: failed)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "Compiling: OSError: no LLVM in ~/.local/lib, nor in /media/NAME/lib" in out
    assert "anna" not in out


def test_a_folder_of_windows_is_nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    class WindowsHome(type(Path())):  # a path of Windows, spelled as there
        def __str__(self) -> str:
            return r"C:\Users\Anna"

        def resolve(self, strict: bool = False) -> Path:
            return self

        name = "Anna"

    monkeypatch.setattr(Path, "home", lambda: WindowsHome())
    assert doctor._anonymize(r"c:\users\ANNA\AppData\Local\srs-eval") == r"~\AppData\Local\srs-eval"
    assert doctor._anonymize(r"D:\Anna\cache") == r"D:\NAME\cache"
