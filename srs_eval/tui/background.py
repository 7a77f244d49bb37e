"""What is done behind the screens: in threads, in a process, by the clipboard's program."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data.errors import counted, printable

if TYPE_CHECKING:
    from srs_eval.tui.session import Session

_CLIPBOARD_S = 2.0


class Background:
    """Consumes what `events` yields in a thread of its own, in which `deliver` is called."""

    def __init__(
        self,
        events: Callable[[threading.Event], Iterator[Any]],
        deliver: Callable[[Any], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self.cancel = threading.Event()
        self._events, self._deliver, self._ended = events, deliver, ended
        # A daemon, so that closing the app waits for it no longer than `stop` does.
        self._thread = threading.Thread(target=self._run, daemon=True, name="background")

    def start(self) -> Background:
        self._thread.start()
        return self

    def stop(self, seconds: float = 0.0) -> None:
        """Ask it to end, and wait up to `seconds`."""
        self.cancel.set()
        self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        error = None
        iterator = None
        try:
            iterator = self._events(self.cancel)
            for event in iterator:
                self._deliver(event)
                if self.cancel.is_set():
                    break
        except Exception as failure:
            error = failure
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()  # ends the workers
            self._ended(error)


class Reports:
    """Writes reports, one at a time; `said` is how far the present one is, "" without one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.said = ""
        self.backgrounds: list[Background] = []

    @property
    def busy(self) -> bool:
        """Whether one is being written that was not cancelled."""
        return any(each.alive and not each.cancel.is_set() for each in self.backgrounds)

    def write(self, task: Callable[[], Sequence[Path]], path: Path, *, in_process: bool) -> None:
        """Do `task`, which writes to `path`, in a process or in a thread, and say how it went."""
        later, view = self._session.later, self._session.view

        def at(_: object, place: tuple[int, int, str]) -> None:
            later(self._say, f"report {place[0]} of {place[1]}")

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

        def deliver(files: Sequence[Path]) -> None:
            what = f" ({counted(len(files), 'file')})" if len(files) > 1 else ""
            later(view.tell, f"Written: {printable(path)}{what}", 8)

        def ended(error: Exception | None) -> None:
            if error is not None:
                later(view.refuse, "Can't write this", error, "Back", "")
            if self.backgrounds[-1] is background:  # no other has been begun since
                later(self._say, "")

        self._say("report begun")
        background = Background(write, deliver, ended)
        self.backgrounds = [*(each for each in self.backgrounds if each.alive), background]
        background.start()

    def cancel(self) -> None:
        """Stop writing; whatever the report has answered is lost."""
        for background in self.backgrounds:
            background.cancel.set()

    def _say(self, text: str) -> None:
        self.said = text
        self._session.view.export_changed()


def copy_to_system(text: str) -> bool:
    """Hand text to the system's clipboard; False where there is no program for it. Blocks a moment.

    Terminals that know OSC 52 need none; many, and most multiplexers, do not.
    """
    for command in _clipboards():
        if shutil.which(command[0]) is None:
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                command,
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_CLIPBOARD_S,
                check=False,
            )
            if done.returncode == 0:
                return True
    return False


def _clipboards() -> list[list[str]]:
    if sys.platform == "darwin":
        return [["pbcopy"]]
    if sys.platform == "win32":
        return [["clip"]]
    found = [["clip.exe"]] if "WSL_DISTRO_NAME" in os.environ else []
    if "WAYLAND_DISPLAY" in os.environ:
        found.append(["wl-copy"])
    if "DISPLAY" in os.environ:
        found += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return found
