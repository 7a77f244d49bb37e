"""A report is written in another process, while the app goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.data.errors import counted
from srs_eval.data.printable import printable
from srs_eval.tui.screens.background import Background

if TYPE_CHECKING:
    from srs_eval.app import SrsEvalApp


class Reports:
    """Writes reports, one at a time; `said` is how far the present one is, "" without one."""

    def __init__(self, app: SrsEvalApp) -> None:
        self._app = app
        self.said = ""
        self.backgrounds: list[Background] = []

    @property
    def busy(self) -> bool:
        """Whether one is being written that was not cancelled."""
        return any(each.alive and not each.cancel.is_set() for each in self.backgrounds)

    def write(self, task: Callable[[], Sequence[Path]], path: Path, *, in_process: bool) -> None:
        """Do `task`, which writes to `path`, in a process or in a thread, and say how it went."""
        app = self._app

        def at(_: object, place: tuple[int, int, str]) -> None:
            app.call_later(self._say, f"report {place[0]} of {place[1]}")

        def write(cancel: threading.Event) -> Iterator[Sequence[Path]]:
            if not in_process:
                yield task()
                return
            from srs_eval.engine.workers import WorkerPool

            pool = WorkerPool(1, on_message=at)
            try:
                future = pool.submit(task)
                while not future.done() and not cancel.wait(0.05):
                    pass
                if future.done():
                    yield future.result()
            finally:
                pool.terminate_workers()

        def deliver(written: Sequence[Path]) -> None:
            what = f" ({counted(len(written), 'file')})" if len(written) > 1 else ""
            said = f"Written: {printable(path)}{what}"
            app.call_from_thread(app.notify, said, markup=False, timeout=8)

        def ended(error: Exception | None) -> None:
            if error is not None:
                with contextlib.suppress(RuntimeError):  # the app has closed in the meantime
                    app.call_from_thread(app.refuse, "Can't write this", error, "Back", "")
            if self.backgrounds[-1] is background:  # no other has been begun since
                app.call_later(self._say, "")

        self._say("report begun")
        self.backgrounds = [each for each in self.backgrounds if each.alive]
        background = Background(write, deliver, ended)
        self.backgrounds.append(background)
        background.start()

    def cancel(self) -> None:
        """Stop writing; whatever the report has answered is lost."""
        for background in self.backgrounds:
            background.cancel.set()

    def _say(self, text: str) -> None:
        """How far it is, in the top line of whatever screen is shown."""
        self.said = text
        self._app.show_export()
