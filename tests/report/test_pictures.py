"""Pictures: where matplotlib may write, and that a narrow one can be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRAWS = """
import numpy as np
from srs_eval.report import pictures
from srs_eval.report.document import Picture

draw = pictures.lines([1, 2], [("one", [1, 2]), ("two", [2, 1])], "x", "y")
for form in ("png", "svg", "pdf"):
    assert pictures.drawn_as(form, Picture("one", "one", draw))
assert pictures.as_figure(draw).get_axes()

import matplotlib

print(matplotlib.rcParams["font.style"])
"""


def drawn_at_home(home: Path, **environment: str) -> str:
    """What the script says where `home` is the person's folder."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "MATPLOTLIBRC")
    }
    done = subprocess.run(
        [sys.executable, "-c", DRAWS],
        env={**inherited, "HOME": str(home), **environment},
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="needs a home that HOME names")
def test_matplotlib_writes_into_our_own_cache(home: Path, tmp_path: Path) -> None:
    drawn_at_home(home, SRS_EVAL_CACHE_DIR=str(tmp_path / "cache"))
    assert not list(home.iterdir())
    assert list((tmp_path / "cache" / "matplotlib").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a home that HOME names")
def test_matplotlib_writes_where_a_person_has_chosen(home: Path, tmp_path: Path) -> None:
    chosen = {"MPLCONFIGDIR": str(tmp_path / "mine"), "SRS_EVAL_CACHE_DIR": str(tmp_path / "ours")}
    drawn_at_home(home, **chosen)
    assert list((tmp_path / "mine").iterdir())
    assert not (tmp_path / "ours").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: it lies elsewhere")
def test_a_persons_settings_of_matplotlib_count(home: Path, tmp_path: Path) -> None:
    folder = home / ".config" / "matplotlib"
    folder.mkdir(parents=True)
    (folder / "matplotlibrc").write_text("font.style: italic\n")
    assert drawn_at_home(home, SRS_EVAL_CACHE_DIR=str(tmp_path / "cache")) == "italic"
    assert [path.name for path in folder.iterdir()] == ["matplotlibrc"]
