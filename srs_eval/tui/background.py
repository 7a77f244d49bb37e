"""Run work in the background: in threads, in a process, in a clipboard program."""

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

from srs_eval.data.errors import format_count, printable

if TYPE_CHECKING:
    from srs_eval.tui.session import AppSession

_CLIPBOARD_TIMEOUT_SECONDS = 2.0


class Background:
    """Background work of one kind in threads; new work replaces the work in progress."""

    def __init__(self, call_later: Callable[..., None]) -> None:
        self._call_later = call_later
        self._cancel = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(
        self,
        work: Callable[[threading.Event], Generator[Callable[[], Any]]],
        on_end: Callable[[Exception | None], Any],
    ) -> None:
        """Run `work` in a thread; call what it yields, then `on_end`, in the view's thread.

        Neither is called once other work has begun. The event that `work` gets is set when it is
        to stop; `on_end` gets the exception that ended `work`, or None.
        """
        self.cancel()
        cancel = threading.Event()
        self._cancel = cancel

        def call(callback: Callable[[], Any]) -> None:
            if cancel is self._cancel:
                callback()

        def run() -> None:
            error = None
            try:
                # Closing the generator ends the worker processes that it has started.
                with contextlib.closing(work(cancel)) as callbacks:
                    for callback in callbacks:
                        self._call_later(call, callback)
                        if cancel.is_set():
                            break
            except Exception as failure:
                error = failure
            finally:
                self._call_later(call, partial(on_end, error))

        # A daemon thread, so that closing the app waits no longer than `wait` does.
        new_thread = threading.Thread(target=run, daemon=True, name="background")
        live_threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads = [*live_threads, new_thread]
        new_thread.start()

    def cancel(self) -> None:
        """Ask the work in progress to stop."""
        self._cancel.set()

    @property
    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    @property
    def is_busy(self) -> bool:
        """Return whether work is in progress that was not cancelled."""
        return self.is_alive and not self._cancel.is_set()

    def wait(self, deadline: float) -> None:
        """Wait for all threads, but not beyond `deadline`, a time of `time.monotonic`."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class ReportWriter(Background):
    """Writes reports, one at a time; `progress` describes the current one ("" if there is none)."""

    progress = ""

    def __init__(self, session: AppSession) -> None:
        super().__init__(session.call_in_view_thread)
        self._view = session.view

    def write(self, task: Callable[[], Sequence[Path]], path: Path, *, in_process: bool) -> None:
        """Run `task`, which writes to `path`, in a process or in a thread, and show the outcome."""

        def report_progress(_: object, progress: tuple[int, int, str]) -> None:
            step, step_count, _name = progress
            self._call_later(self._show_progress, f"report: step {step} of {step_count}")

        def work(cancel: threading.Event) -> Generator[Callable[[], Any]]:
            if not in_process:
                yield partial(show_written_files, task())
                return
            from srs_eval.engine.workers import WorkerPool

            pool = WorkerPool(1, on_message=report_progress)
            try:
                future = pool.submit(task)
                while not future.done() and not cancel.wait(0.05):
                    pass
                if future.done():
                    yield partial(show_written_files, future.result())
            finally:
                pool.terminate_workers()

        def show_written_files(files: Sequence[Path]) -> None:
            file_count = f" ({format_count(len(files), 'file')})" if len(files) > 1 else ""
            self._view.show_message(f"Written: {printable(path)}{file_count}", 8)

        def finish_writing(error: Exception | None) -> None:
            if error is not None:
                self._view.show_error("Can't write this", error, button="Back", reassurance="")
            self._show_progress("")

        self._show_progress("report started")
        self.begin(work, finish_writing)

    def _show_progress(self, text: str) -> None:
        self.progress = text
        self._view.show_changes()


def copy_to_system(text: str) -> bool:
    """Copy text to the system's clipboard; return False where no program can do it.

    This blocks for a moment. A terminal that knows the escape sequence OSC 52 copies without such a
    program, but many terminals, and most multiplexers, do not know it.
    """
    for command in _clipboard_commands():
        if shutil.which(command[0]) is None:
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process = subprocess.run(
                command,
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_CLIPBOARD_TIMEOUT_SECONDS,
                check=False,
            )
            if process.returncode == 0:
                return True
    return False


def _clipboard_commands() -> list[list[str]]:
    if sys.platform == "darwin":
        return [["pbcopy"]]
    if sys.platform == "win32":
        return [["clip"]]
    commands = []
    if "WSL_DISTRO_NAME" in os.environ:
        commands.append(["clip.exe"])
    if "WAYLAND_DISPLAY" in os.environ:
        commands.append(["wl-copy"])
    if "DISPLAY" in os.environ:
        commands.append(["xclip", "-selection", "clipboard"])
        commands.append(["xsel", "--clipboard", "--input"])
    return commands
