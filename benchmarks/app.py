"""How long the app keeps a person waiting: its first picture, and its longest pause at work.

    python benchmarks/app.py [--models fast] [--reviews 12000] [--starts 7] [--file F] [--cold]

First paint: from starting the program in a terminal to the first screen, the least of several
(the files of the program are then in memory). The aim is 0.7 s.

Longest pause: while questions are answered and models evaluated in worker processes, and keys
are pressed on every screen, how long the loop that draws and listens was away from its next turn.
What it computed itself is told apart from what it waited for a core, by its thread's processor
time: on a machine with other work to do only the former is the app's. The aim is 100 ms.

When each question is answered, how long a report takes after that, and what the ranking says of the
time left against what then was left, from the third second until a fifth of the whole is left:
right within 2. `--cold` makes a first run, with nothing compiled, before the usual one; `--file`
takes a learner's file.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from srs_eval.app import Options, SrsEvalApp
from srs_eval.tui.screens.ranking import seconds_left
from srs_eval.tui.session import Wanted
from tools.simulated import simulate_learner, write_collection

FIRST_PAINT_S, PAUSE_S, WITHIN = 0.7, 0.1, 2.0
KEYS = ("down", "down", "o", "o", "d", "t", "b", "n", "escape", "v", "s", "escape", "end", "home")
_TURN_S = 0.002


def first_paint(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until the first screen of a start without a file is there, and of a processor."""
    terminal, theirs = pty.openpty()
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "srs_eval"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        while b"simulated learner" not in seen:
            if not select.select([terminal], [], [], 30)[0]:
                raise SystemExit("The app shows nothing.")
            seen += os.read(terminal, 65536)
        seconds = time.perf_counter() - begin
    finally:
        process.kill()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        os.close(terminal)
    return seconds, usage.ru_utime + usage.ru_stime


@dataclass
class Waits:
    """What a person would have noticed, while models were evaluated."""

    wall: float = 0.0  # the longest turn of the loop, s
    own: float = 0.0  # the longest by processor time of the loop's own thread, s
    screen: str = ""  # where that was
    finished: int = 0  # models
    answered: dict[str, float] = field(default_factory=dict)  # s until a question's answer
    left: list[tuple[float, float]] = field(default_factory=list)  # (s gone, s said to be left)
    report: float = 0.0  # s that a page takes once all is answered and evaluated

    def said_of_the_rest(self, total: float) -> list[float]:
        """Said to be left, as a share of what was left; while a fifth or more was."""
        rest = [(left, total - gone) for gone, left in self.left if gone > 3]
        return [left / true for left, true in rest if true > total / 5]


async def use_it(path: Path, models: str, folder: Path) -> Waits:
    """Open a file, walk through its answers, and through the ranking while it fills."""
    app = SrsEvalApp(path, Options(models=models, use_cache=False), state_folder=folder)
    waits = Waits()

    async def watch() -> None:
        while True:
            before, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_TURN_S)
            waits.wall = max(waits.wall, time.perf_counter() - before - _TURN_S)
            own = time.thread_time() - used
            if own > waits.own:
                waits.own, waits.screen = own, type(app.screen).__name__

    def shows(name: str) -> bool:
        return type(app.screen).__name__ == name

    async with app.run_test(size=(160, 48)) as pilot:
        while not shows("AnswersScreen"):
            await asyncio.sleep(0.05)
        began = time.perf_counter()
        watching = asyncio.create_task(watch())
        while app.session.overview.waiting:
            open_ = set(app.session.overview.waiting)
            await pilot.press("down")
            await asyncio.sleep(0.2)
            for question in open_ - set(app.session.overview.waiting):
                waits.answered[question] = time.perf_counter() - began
        await pilot.press("m")
        while app.session.models.run.running:
            for key in KEYS:
                if key != "escape" or not shows("RunScreen"):
                    await pilot.press(key)
                await asyncio.sleep(0.05)
                now = app.session.monotonic()
                left = seconds_left(app.session.models.run, now)
                if left is not None:
                    waits.left.append((app.session.models.run.seconds_gone(now), left))
            if len(app.session.models.run.results()) < 2:
                await asyncio.sleep(0.5)
        watching.cancel()
        waits.finished = len(app.session.models.run.results())
        total = app.session.models.run.seconds_gone(app.session.monotonic())
        waits.left = [(gone, left) for gone, left in waits.left if gone < total]
        waits.left.append((total, 0.0))
        began = time.perf_counter()
        app.session.export(Wanted("html", folder / "report.html", anonymous=False))
        while app.session.reports.is_busy:
            await asyncio.sleep(0.05)
        waits.report = time.perf_counter() - began
    app.session.shut_down()
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--models", default="fast")
    parser.add_argument("--reviews", type=int, default=12_000)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "LINES": "24",
            "COLUMNS": "80",
            "SRS_EVAL_STATE_DIR": str(folder / "state"),
        }
        paints = [first_paint(environment) for _ in range(options.starts)]
        wall, own = min(each[0] for each in paints), min(each[1] for each in paints)
        print(
            f"first paint: {wall:.2f} s, of which the app itself computed {own:.2f} s "
            f"(the least of {len(paints)} each); aim {FIRST_PAINT_S} s, "
            f"ratio {own / FIRST_PAINT_S:.2f}"
        )
        path = folder / "collection.anki2"
        write_collection(simulate_learner(6, options.reviews), path)
        if options.file is not None:
            path = options.file
        for name in ("nothing compiled", "warm")[not options.cold :]:
            if options.cold:
                os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
            gc.collect()  # what the run before has left is nothing that this one keeps waiting for
            report(name, asyncio.run(use_it(path, options.models, folder)))


def report(name: str, waits: Waits) -> None:
    print(
        f"{name}: longest pause over {waits.finished} models: {1000 * waits.wall:.0f} ms, of which "
        f"the app itself computed at most {1000 * waits.own:.0f} ms (on {waits.screen}); "
        f"aim {1000 * PAUSE_S:.0f} ms, ratio {waits.own / PAUSE_S:.2f}"
    )
    answered = sorted(waits.answered.items(), key=lambda pair: pair[1])
    print("  answered: " + ", ".join(f"{each} {seconds:.1f} s" for each, seconds in answered))
    print(f"  report: {waits.report:.1f} s")
    total = waits.left[-1][0]
    said = waits.said_of_the_rest(total)
    if said:
        print(
            f"  time left, of {total:.0f} s: said {min(said):.2f} to {max(said):.2f} times what "
            f"was left; aim {1 / WITHIN:.2f} to {WITHIN:.2f}"
        )


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
