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

_GEOMETRY_KEY = "srs-eval-report"  # under which Anki remembers the size of the report's window
_FIRST_LINE = "Reading the collection ..."
_open_windows: list[Window] = []  # at most one; kept here so that it is not garbage-collected


def evaluate(package: str) -> Window | None:
    """Evaluate the open collection in the background, and return the window.

    If a window is open already, show that one. Return None if srs-eval is not found, or if the user
    does not want uv to fetch it. `package` is the add-on's name, under which Anki has its settings.
    """
    if _open_windows:
        _open_windows[0].activateWindow()
        return _open_windows[0]
    settings = mw.addonManager.getConfig(package) or {}
    try:
        program, fetches = find(settings.get("command") or [], settings.get("source") or "")
    except NotFound as error:
        showWarning(str(error), parent=mw, title="srs-eval")
        return None
    if fetches and not askUser(
        "srs-eval is not installed. May uv download and run it? The first download is 0.5 GB.",
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
        _open_windows.append(self)
        self.setWindowTitle(f"{mw.pm.name} – srs-eval")
        self._folder = Path(tempfile.mkdtemp(prefix="srs-eval-addon-"))
        self.evaluation = Evaluation(program, collection, self._folder / "report.html", options)
        self._started_at = time.monotonic()
        self.web: AnkiWebView | None = None  # the report, once it is there
        self._label = QLabel(_FIRST_LINE)
        self._label.setWordWrap(True)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._bar = QProgressBar()
        self._bar.setRange(0, 0)  # duration unknown
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        qconnect(self._buttons.rejected, self.reject)
        layout = QVBoxLayout(self)
        for widget in (self._label, self._bar, self._buttons):
            layout.addWidget(widget)
        self.resize(480, 120)
        self._timer = QTimer(self)
        qconnect(self._timer.timeout, self._show_progress)
        self._timer.start(500)  # milliseconds
        gui_hooks.profile_will_close.append(self.close)
        mw.taskman.run_in_background(self.evaluation.run, self._finish, uses_collection=False)

    def _show_progress(self) -> None:
        lines = self.evaluation.output_lines
        line = lines[-1] if lines else _FIRST_LINE
        self._label.setText(f"{line}\n{time.monotonic() - self._started_at:.0f} s")

    def _finish(self, future: Future) -> None:
        """Show the report, or why there is none."""
        if self.evaluation.cancelled:  # the window is gone by now
            self._delete_folder()
            return
        self._timer.stop()
        try:
            has_page = future.result()
        except OSError as error:
            self.evaluation.output_lines.append(str(error))
            has_page = False
        if has_page:
            self._show_report()
        else:
            last_lines = self.evaluation.output_lines[-3:]
            message = "\n".join(last_lines) or "srs-eval ended without a message."
            self._delete_folder()
            self.close()
            showWarning(message, parent=mw, title="srs-eval")

    def _show_report(self) -> None:
        self._label.hide()
        self._bar.hide()
        self.web = AnkiWebView(self)
        self.web.requiresCol = False  # so that undo and sync leave it as it is
        layout: Any = self.layout()
        layout.setContentsMargins(0, 0, 0, 0)
        layout.insertWidget(0, self.web, 1)
        page = QUrl.fromLocalFile(str(self.evaluation.page))
        buttons = QDialogButtonBox.StandardButton
        self._buttons.setStandardButtons(buttons.Open | buttons.Close)
        open_button = self._buttons.button(buttons.Open)
        open_button.setText("Open in browser")
        qconnect(open_button.clicked, lambda: openLink(page))
        # Shown like Anki's own pages: links within it work, others open in the browser.
        self.web.setHtml(self.evaluation.page.read_text(encoding="utf-8"))
        self.web.set_bridge_command(self._obey_page, self)
        self.resize(1000, 800)
        restoreGeom(self, _GEOMETRY_KEY)

    def _obey_page(self, command: str) -> None:
        """Close the window if the web view sends "close"."""
        if command == "close":
            self.close()

    def done(self, result: int) -> None:
        """End a running evaluation and delete temporary files, however the window was closed.

        Qt calls this method in every case.
        """
        gui_hooks.profile_will_close.remove(self.close)
        self._timer.stop()
        if self in _open_windows:
            _open_windows.remove(self)
        if self.web is not None:
            saveGeom(self, _GEOMETRY_KEY)
            self.web.cleanup()
            self._delete_folder()
        else:
            self.evaluation.cancel()  # `_finish` deletes the folder once it has ended
        super().done(result)
        self.deleteLater()

    def _delete_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
