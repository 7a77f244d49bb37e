"""Carry out a session of `soak.py`, under Textual's pilot or in a pseudo-terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from _soak_plan import (
    CHARACTERS,
    BadBytes,
    Click,
    Drag,
    Keys,
    KillWorker,
    Paste,
    Pause,
    Plan,
    Resize,
    Scroll,
    Step,
    encode_for_terminal,
)

if TYPE_CHECKING:
    from textual import events
    from textual.pilot import Pilot

    from srs_eval.app import SrsEvalApp

LEAVING = "soak: leaving after"
"""Text that a pilot's process prints when it begins to leave the app.

The number of steps and the names of the screens that it has seen follow.
"""

MODELS = "fast"
TOKEN = "SRS_EVAL_SOAK"
"""Environment variable that all processes of a session have."""

THREADS = "threads.txt"
"""File of a session to which an aborted app writes the positions of its threads."""

_START = """
import faulthandler, sys
faulthandler.enable(open(sys.argv.pop(1), "w"))
from srs_eval.cli.main import main
sys.exit(main())
"""
_UNREAD_S = 60.0  # then an app that takes no input counts as hanging
_MOST_OUTPUT = 400_000  # bytes of a terminal's output to keep


# --- processes of a session ---------------------------------------------------------


def find_processes(token: str) -> dict[int, str]:
    """Return the command lines of all processes of a session, by their ids (Linux)."""
    commands = {}
    mark = f"{TOKEN}={token}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                if command:  # else it is a zombie
                    commands[int(folder.name)] = command.decode("utf-8", "replace").strip()
    return commands


def kill_worker(token: str) -> None:
    """Kill the first worker process of a session, if there is one."""
    workers = [pid for pid, command in find_processes(token).items() if "spawn_main" in command]
    if workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(min(workers), signal.SIGKILL)


@dataclass
class Child:
    """A process that only this program waits for, so that its memory use can be read."""

    process: subprocess.Popen[bytes]
    megabytes: float = 0.0  # the most that it held, once it has ended

    def has_ended(self) -> bool:
        """Return whether the process has ended; its exit code is then known."""
        if self.process.returncode is None:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.megabytes = used.ru_maxrss / 1024
        return self.process.returncode is not None

    def send_signal(self, number: int) -> None:
        """Send the process a signal, unless it has ended."""
        if not self.has_ended():
            os.kill(self.process.pid, number)


# --- under the pilot ----------------------------------------------------------------


def run_under_pilot(plan: Plan, folder: Path) -> None:
    """Carry out a plan in this process; exceptions of the app are raised."""
    from srs_eval.app import AppOptions, SrsEvalApp

    app = SrsEvalApp(plan.path, AppOptions(models=MODELS), state_folder=folder / "state")
    try:
        asyncio.run(_carry_out(app, plan))
    finally:
        app.session.shut_down()


async def _carry_out(app: SrsEvalApp, plan: Plan) -> None:
    screens: dict[str, None] = {}
    async with app.run_test(size=plan.size, notifications=True) as pilot:
        step_count = 0
        for step in plan.steps:
            if not app.is_running:
                break
            await _take_step(app, pilot, step)
            screens[type(app.screen).__name__] = None
            step_count += 1
        print(LEAVING, step_count, *screens, flush=True)
        if app.is_running:
            for _ in range(6):
                await pilot.press("escape")
            for event in _make_events(Keys((plan.end,))):
                app.post_message(event)
            if plan.end != "q":
                while app.is_running:
                    await asyncio.sleep(0.02)


async def _take_step(app: SrsEvalApp, pilot: Pilot[int], step: Step) -> None:
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
    elif isinstance(step, Resize):
        await pilot.resize_terminal(step.width, step.height)
    elif isinstance(step, KillWorker):
        kill_worker(os.environ[TOKEN])
    elif not isinstance(step, BadBytes):
        for event in _make_events(step):
            app.post_message(event)


def _make_events(step: Keys | Click | Drag | Scroll | Paste) -> list[events.Event]:
    """Return the events that Textual's driver makes of a step."""
    from textual import events

    def make_event(
        kind: type[events.MouseEvent], x: int, y: int, button: int = 0
    ) -> events.MouseEvent:
        return kind(
            widget=None,
            x=x,
            y=y,
            delta_x=0,
            delta_y=0,
            button=button,
            shift=False,
            meta=False,
            ctrl=False,
            screen_x=x,
            screen_y=y,
        )

    if isinstance(step, Keys):
        return [
            events.Key(name, CHARACTERS.get(name, name if len(name) == 1 else None))
            for name in step.names
        ]
    if isinstance(step, Click):
        button = 1 if step.button == "left" else 3
        clicks: list[events.Event] = []
        for _ in range(step.times):
            clicks.append(make_event(events.MouseDown, step.x, step.y, button))
            clicks.append(make_event(events.MouseUp, step.x, step.y, button))
        return clicks
    if isinstance(step, Drag):
        moves = [make_event(events.MouseMove, x, y, 1) for x, y in step.positions[1:]]
        pressed = make_event(events.MouseDown, *step.positions[0], 1)
        released = make_event(events.MouseUp, *step.positions[-1], 1)
        return [pressed, *moves, released]
    if isinstance(step, Scroll):
        kind = events.MouseScrollDown if step.down else events.MouseScrollUp
        return [make_event(kind, step.x, step.y) for _ in range(step.times)]
    return [events.Paste(step.text)]


# --- in a pseudo-terminal -----------------------------------------------------------


class Hangs(Exception):
    """The app takes no more input."""


@dataclass
class Terminal:
    """A pseudo-terminal with the app in it."""

    child: Child
    master: int
    output: bytes = b""
    closed: bool = False
    steps_taken: int = 0

    @classmethod
    def start(cls, plan: Plan, folder: Path, environment: Mapping[str, str]) -> Terminal:
        """Start the app as a user does, in a terminal of the plan's size.

        Without a controlling terminal no signal would tell the app that its terminal has gone.
        """
        master, slave = pty.openpty()
        _set_size(slave, *plan.size)
        is_controlling = plan.end != "closed without a signal"

        def take_terminal() -> None:
            os.setsid()
            if is_controlling:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        arguments = ["--models", MODELS]
        if plan.path is not None:
            arguments.append(str(plan.path))
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(folder / THREADS), *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=folder / "work",
            preexec_fn=take_terminal,
        )
        os.close(slave)
        os.set_blocking(master, False)
        return cls(Child(process), master)

    def carry_out(self, plan: Plan) -> None:
        """Take all steps of a plan while the app runs. Raises Hangs."""
        self._wait_for(b"\x1b[?1049h")  # the alternate screen: the app is up
        for step in plan.steps:
            if self.child.has_ended():
                return
            if isinstance(step, Pause):
                self.listen(step.seconds)
            elif isinstance(step, Resize):
                _set_size(self.master, step.width, step.height)
            elif isinstance(step, KillWorker):
                kill_worker(make_token(plan))
            else:
                self.send(encode_for_terminal(step))
            self.steps_taken += 1

    def leave(self, end: str) -> None:
        """Leave the app, or take its terminal away."""
        if end in ("closed", "closed without a signal"):
            self.close()
        elif end.startswith("SIG"):
            self.child.send_signal(getattr(signal, end))
        else:
            escape = encode_for_terminal(Keys(("escape",)))
            for _ in range(6):
                self.send(escape)
                self.listen(0.2)
            key = "ctrl+q" if end == "q" else end  # a letter may be typed into a path
            self.send(encode_for_terminal(Keys((key,))))

    def close(self) -> None:
        """Close the terminal, as its window is closed."""
        if not self.closed:
            self.closed = True
            os.close(self.master)

    def send(self, data: bytes) -> None:
        """Send all the data and read what the app draws meanwhile. Raises Hangs."""
        deadline = time.monotonic() + _UNREAD_S
        while data and not self.child.has_ended():
            readable, writable, _ = select.select([self.master], [self.master], [], 0.1)
            if readable:
                self._read()
            if writable:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self.master, data) :]
                    continue
            if time.monotonic() > deadline:
                raise Hangs

    def listen(self, seconds: float) -> None:
        """Read what the app draws for this many seconds."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            if self.closed:
                time.sleep(min(remaining, 0.05))
                return
            if select.select([self.master], [], [], remaining)[0] and not self._read():
                time.sleep(min(remaining, 0.05))  # the other end is closed
                return

    def _read(self) -> bool:
        """Return whether there was something to read."""
        try:
            data = os.read(self.master, 65_536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.output = (self.output + data)[-_MOST_OUTPUT:]
        return bool(data)

    def _wait_for(self, data: bytes) -> None:
        deadline = time.monotonic() + _UNREAD_S
        while data not in self.output and not self.child.has_ended():
            if time.monotonic() > deadline:
                raise Hangs
            self.listen(0.1)


def make_token(plan: Plan) -> str:
    """Return the text that marks the processes of a session."""
    return f"{os.getpid()}-{plan.seed}"


def _set_size(terminal: int, width: int, height: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
