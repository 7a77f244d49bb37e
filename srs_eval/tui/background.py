"""What is done behind the screens: in threads, in a process, by the clipboard's program."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data.errors import counted, printable

if TYPE_CHECKING:
    from srs_eval.tui.session import Session

_CLIPBOARD_S = 2.0


class Background:
    """Work of one kind, in threads; what is begun takes the place of what was at work before."""

    def __init__(self, later: Callable[..., None]) -> None:
        self._later, self._cancel = later, threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(
        self,
        work: Callable[[threading.Event], Generator[Callable[[], Any]]],
        ended: Callable[[Exception | None], Any],
    ) -> None:
        """Call what `work` yields in a thread, then `ended`, both in the view's thread.

        Neither is called once something else has been begun. The event is set when `work` is to
        stop.
        """
        self.cancel()
        self._cancel = cancel = threading.Event()

        def call(callback: Callable[[], Any]) -> None:
            if cancel is self._cancel:
                callback()

        def run() -> None:
            error = None
            try:
                with contextlib.closing(work(cancel)) as steps:  # which ends the workers
                    for step in steps:
                        self._later(call, step)
                        if cancel.is_set():
                            break
            except Exception as failure:
                error = failure
            finally:
                self._later(call, partial(ended, error))

        # A daemon, so that closing the app waits for it no longer than `wait` does.
        thread = threading.Thread(target=run, daemon=True, name="background")
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

    def cancel(self) -> None:
        """Ask what is at work to stop."""
        self._cancel.set()

    @property
    def alive(self) -> bool:
        return any(each.is_alive() for each in self._threads)

    @property
    def is_busy(self) -> bool:
        """Whether something is at work that was not cancelled."""
        return self.alive and not self._cancel.is_set()

    def wait(self, until: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))


class Reports(Background):
    """Writes reports, one at a time; `said` is how far the present one is, "" without one."""

    said = ""

    def __init__(self, session: Session) -> None:
        super().__init__(session.later)
        self._view = session.view

    def write(self, task: Callable[[], Sequence[Path]], path: Path, *, in_process: bool) -> None:
        """Do `task`, which writes to `path`, in a process or in a thread, and say how it went."""

        def at(_: object, place: tuple[int, int, str]) -> None:
            self._later(self._say, f"report {place[0]} of {place[1]}")

        def work(cancel: threading.Event) -> Generator[Callable[[], Any]]:
            if not in_process:
                yield partial(written, task())
                return
            from srs_eval.engine.workers import WorkerPool

            pool = WorkerPool(1, on_message=at)
            try:
                future = pool.submit(task)
                while not future.done() and not cancel.wait(0.05):
                    pass
                if future.done():
                    yield partial(written, future.result())
            finally:
                pool.terminate_workers()

        def written(files: Sequence[Path]) -> None:
            what = f" ({counted(len(files), 'file')})" if len(files) > 1 else ""
            self._view.tell(f"Written: {printable(path)}{what}", 8)

        def ended(error: Exception | None) -> None:
            if error is not None:
                self._view.refuse("Can't write this", error, "Back", "")
            self._say("")

        self._say("report begun")
        self.begin(work, ended)

    def _say(self, text: str) -> None:
        self.said = text
        self._view.changed()


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
