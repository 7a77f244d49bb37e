"""Add Tools > srs-eval to Anki, which reads the open collection and never writes to it."""

from aqt import mw
from aqt.qt import QAction, qconnect


def _evaluate() -> None:
    from .window import evaluate

    evaluate(__name__)


if mw is not None:
    action = QAction("srs-eval", mw)
    qconnect(action.triggered, _evaluate)
    mw.form.menuTools.addAction(action)
