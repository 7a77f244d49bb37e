"""Start Anki without a screen and use the menu of the add-on, for `test_in_anki`.

python -m tests.addon.in_anki report|cancel BASE ADDON PICTURE
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any
from unittest.mock import patch

import aqt
from aqt.profiles import ProfileManager

REVLOG = "select count(), total(id), total(ivl), total(time) from revlog"
PATIENCE = 280.0


def wait(app: Any, until: Any) -> None:
    """Let Qt work until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not until():
        if time.monotonic() > end:
            raise TimeoutError
        app.processEvents()
        time.sleep(0.02)


def main(way: str, base: str, package: str, picture: str) -> None:
    # Which language is asked at the first start, in a dialog that waits for a person.
    patch.object(ProfileManager, "setDefaultLang", lambda self, _: self.setLang("en")).start()
    app = aqt._run(["anki", "-b", base, "-p", "User 1", "-l", "en"], exec=False)
    assert app is not None
    from aqt import mw

    wait(app, lambda: mw.col is not None and mw.state == "deckBrowser")
    installed = mw.addonManager.install(package)
    assert not hasattr(installed, "errmsg"), installed.errmsg
    words = [sys.executable, "-m", "srs_eval"]
    settings = {"command": words, "source": "", "options": ["--models", "AVG,FSRS-6"]}
    mw.addonManager.writeConfig("srs_eval_addon", settings)
    mw.addonManager.loadAddons()
    from srs_eval_addon import window  # as Anki imports it

    report: dict[str, Any] = {"text": None}
    report["revlog_before"] = mw.col.db.first(REVLOG)
    report["changed_before"] = mw.col.mod
    (action,) = [entry for entry in mw.form.menuTools.actions() if entry.text() == "srs-eval"]
    action.trigger()
    (opened,) = window._open_windows
    action.trigger()
    assert window._open_windows == [opened]
    folder = opened.evaluation.page.parent
    if way == "cancel":
        wait(app, lambda: opened.evaluation.output_lines)
        opened._buttons.button(opened._buttons.StandardButton.Cancel).click()
    else:
        wait(app, lambda: opened.web is not None)
        report["title"] = opened.windowTitle()

        def ask() -> bool:
            opened.web.page().toPlainText(lambda text: report.update(text=text))
            return bool(report["text"])

        wait(app, ask)
        for _ in range(50):  # until it is painted
            app.processEvents()
            time.sleep(0.02)
        opened.grab().save(picture)
        opened.close()
    wait(app, lambda: not folder.exists())
    assert not window._open_windows
    report["revlog_after"] = mw.col.db.first(REVLOG)
    report["changed_after"] = mw.col.mod
    print(json.dumps(report), flush=True)
    os._exit(0)  # Qt without a screen takes its time to end


if __name__ == "__main__":
    main(*sys.argv[1:])
