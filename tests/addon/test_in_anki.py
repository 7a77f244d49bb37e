"""Check the add-on in Anki itself, without a screen."""

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
def test_menu_shows_a_report_or_is_cancelled(way: str, tmp_path: Path) -> None:
    """Check that the report is shown, or nothing left, and that the collection does not change."""
    base = tmp_path / "Anki2"
    collection = base / "User 1" / "collection.anki2"
    collection.parent.mkdir(parents=True)
    write_collection(simulate_learner(3, 1500), collection)
    picture = Path(os.environ.get("SRS_EVAL_ADDON_PICTURE", tmp_path / "report.png"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "tests.addon.in_anki", way, str(base)]
    done = subprocess.run(
        [*command, str(build.build(tmp_path)), str(picture)],
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
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["revlog_before"] == report["revlog_after"]
    assert report["changed_before"] == report["changed_after"]
    assert not list(temporary.glob("srs-eval-addon-*"))
    if way == "report":
        assert "What to do" in report["text"]
        assert report["title"] == "User 1 – srs-eval"
        assert picture.stat().st_size > 10_000  # white is smaller
    else:
        assert report["text"] is None
