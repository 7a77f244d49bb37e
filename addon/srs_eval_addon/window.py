"""Show an evaluation in Anki: progress with Cancel, then the report."""

from __future__ import annotations

import shutil
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from aqt import gui_hooks, mw
from aqt.qt import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QProgressBar,
    Qt,
    QTimer,
    QUrl,
    QVBoxLayout,
    qconnect,
)
from aqt.utils import askUser, openLink, restoreGeom, saveGeom, showWarning
from aqt.webview import AnkiWebView

from .program import Evaluation, NotFound, find

_REPORT = "srs-eval-report"
_open: list[Window] = []  # at most one; kept here so that it is not garbage-collected


def evaluate(package: str) -> Window | None:
    """Evaluate the open collection in the background; return the window, or None if that fails."""
    if _open:
        _open[0].activateWindow()
        return _open[0]
    settings = mw.addonManager.getConfig(package) or {}
    try:
        program, fetches = find(settings.get("command") or [], settings.get("source") or "")
    except NotFound as error:
        showWarning(str(error), parent=mw, title="srs-eval")
        return None
    if fetches and not askUser(
        "srs-eval is not installed. May uv fetch it and run it? The first time this takes 0.5 GB.",
        parent=mw,
        title="srs-eval",
    ):
        return None
    window = Window(program, Path(mw.col.path), list(settings.get("options") or []))
    window.show()
    return window


class Window(QDialog):
    """Window that shows progress and Cancel first, then the report in Anki's web view."""

    def __init__(self, program: list[str], collection: Path, options: list[str]) -> None:
        super().__init__(mw, Qt.WindowType.Window)
        _open.append(self)
        self.setWindowTitle("srs-eval")
        self._folder = Path(tempfile.mkdtemp(prefix="srs-eval-addon-"))
        self.evaluation = Evaluation(program, collection, self._folder / "report.html", options)
        self._began = time.monotonic()
        self.web: AnkiWebView | None = None
        self._words = QLabel("Reading the collection ...")
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._bar = QProgressBar()
        self._bar.setRange(0, 0)  # duration unknown
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        qconnect(self._buttons.rejected, self.reject)
        layout = QVBoxLayout(self)
        for each in (self._words, self._bar, self._buttons):
            layout.addWidget(each)
        self.resize(480, 120)
        self._timer = QTimer(self)
        qconnect(self._timer.timeout, self._tell)
        self._timer.start(500)
        gui_hooks.profile_will_close.append(self.close)
        mw.taskman.run_in_background(self.evaluation.run, self._done, uses_collection=False)

    def _tell(self) -> None:
        said = self.evaluation.said[-1:] or ["Reading the collection ..."]
        self._words.setText(f"{said[0]}\n{time.monotonic() - self._began:.0f} s")

    def _done(self, future: Future) -> None:
        if self.evaluation.cancelled:  # the window is gone by now
            self._tidy()
            return
        self._timer.stop()
        try:
            made = future.result()
        except OSError as error:
            self.evaluation.said.append(str(error))
            made = False
        if made:
            self._show_report()
        else:
            said = "\n".join(self.evaluation.said[-3:]) or "It ended without a word."
            self._tidy()
            self.close()
            showWarning(said, parent=mw, title="srs-eval")

    def _show_report(self) -> None:
        self._words.hide()
        self._bar.hide()
        self.web = AnkiWebView(self)
        self.web.requiresCol = False  # undo and sync leave it as it is
        layout: Any = self.layout()
        layout.setContentsMargins(0, 0, 0, 0)
        layout.insertWidget(0, self.web, 1)
        page = QUrl.fromLocalFile(str(self.evaluation.page))
        buttons = QDialogButtonBox.StandardButton
        self._buttons.setStandardButtons(buttons.Open | buttons.Close)
        opens = self._buttons.button(buttons.Open)
        opens.setText("Open in browser")
        qconnect(opens.clicked, lambda: openLink(page))
        # Shown like Anki's own pages: links within it work, others open in the browser.
        self.web.setHtml(self.evaluation.page.read_text(encoding="utf-8"))
        self.web.set_bridge_command(lambda word: self.close() if word == "close" else None, self)
        self.resize(1000, 800)
        restoreGeom(self, _REPORT)

    def done(self, result: int) -> None:
        """End a running evaluation and delete temporary files, however the window was closed."""
        gui_hooks.profile_will_close.remove(self.close)
        self._timer.stop()
        if self in _open:
            _open.remove(self)
        if self.web is not None:
            saveGeom(self, _REPORT)
            self.web.cleanup()
            self._tidy()
        else:
            self.evaluation.cancel()  # `_done` tidies up once it has ended
        super().done(result)
        self.deleteLater()

    def _tidy(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
