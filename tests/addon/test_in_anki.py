"""The add-on in Anki itself, without a screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from addon import build
from srs_eval.data.errors import is_installed
from tests.conftest import PATIENCE, REPOSITORY
from tools.simulated import simulate_learner, write_collection

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (is_installed("aqt") and is_installed("PyQt6")),
        reason="needs srs-eval[addon]: Anki with its windows",
    ),
]


@pytest.mark.parametrize("way", ["report", "cancel"])
def test_tools_srs_eval(way: str, tmp_path: Path) -> None:
    """The report is shown, or nothing is left; reviews and the date of the collection stay."""
    base = tmp_path / "Anki2"
    collection = base / "User 1" / "collection.anki2"
    collection.parent.mkdir(parents=True)
    write_collection(simulate_learner(3, 1500), collection)
    picture = Path(os.environ.get("SRS_EVAL_ADDON_PICTURE", tmp_path / "report.png"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.addon.in_anki", way, str(base)),
            *(str(build.build(tmp_path)), str(picture)),
        ],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "QT_QPA_PLATFORM": "offscreen",
            "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu",
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(REPOSITORY),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["revlog_before"] == told["revlog_after"]
    assert told["changed_before"] == told["changed_after"]
    assert not list(temporary.glob("srs-eval-addon-*"))
    if way == "report":
        assert "What to do" in told["text"]
        assert picture.stat().st_size > 10_000  # white is smaller
    else:
        assert told["text"] is None
