"""Measure how long the app keeps the user waiting: its first picture, and its longest pause.

    python benchmarks/app.py [--models fast] [--reviews 12000] [--starts 7] [--file F] [--cold]

First paint: from starting the program in a terminal to the first screen, the least of several
(the files of the program are then in memory). The goal is 0.7 s.

Longest pause: while questions are answered and models evaluated in worker processes, and keys
are pressed on every screen, how long the loop that draws and listens was away before its next turn.
Its own computing is separated from waiting for a core by its thread's processor
time: on a machine with other work only the former is the app's. The goal is 100 ms.

When each question is answered, how long a report takes after that, and how the ranking's estimates
of the time left compare with the actual time left, from the third second until a fifth of the
total is left: right within 2. `--cold` adds a first run, with nothing compiled, before the usual
one; `--file` uses a learner's file.
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

from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.tui.screens.ranking import estimate_seconds_left
from srs_eval.tui.session import ExportRequest
from tools.simulated import simulate_learner, write_collection

FIRST_PAINT_S = 0.7
PAUSE_S = 0.1
WITHIN = 2.0  # tolerated ratio of estimated to actual time left
KEYS = ("down", "down", "o", "o", "d", "t", "b", "n", "escape", "v", "s", "escape", "end", "home")
_TURN_S = 0.002


def measure_first_paint(environment: dict[str, str]) -> tuple[float, float]:
    """Return seconds of clock and of processor until the first screen of a start without a file."""
    terminal, app_side = pty.openpty()
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "srs_eval"],
        stdin=app_side,
        stdout=app_side,
        stderr=app_side,
        env=environment,
        start_new_session=True,
    )
    os.close(app_side)
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
    """Waiting times that a user would have noticed while models were evaluated."""

    wall: float = 0.0  # the longest turn of the loop, s
    computed: float = 0.0  # the longest by processor time of the loop's own thread, s
    screen: str = ""  # the screen at that time
    finished: int = 0  # models
    answered: dict[str, float] = field(default_factory=dict)  # s until a question's answer
    estimates: list[tuple[float, float]] = field(default_factory=list)
    """Seconds elapsed, and the estimate at that time of the seconds left."""
    report: float = 0.0  # s for a page once all is answered and evaluated

    def compute_shares_of_time_left(self, total: float) -> list[float]:
        """Return estimates of the time left, as shares of the actual time left.

        Only estimates made while a fifth of the total or more was left count.
        """
        shares = []
        for elapsed, estimate in self.estimates:
            actual = total - elapsed
            if elapsed > 3 and actual > total / 5:
                shares.append(estimate / actual)
        return shares


async def use_app(path: Path, models: str, folder: Path) -> Waits:
    """Open a file, walk through its answers, and through the ranking while it fills."""
    app = SrsEvalApp(path, AppOptions(models=models, use_cache=False), state_folder=folder)
    waits = Waits()

    async def watch() -> None:
        while True:
            start = time.perf_counter()
            thread_start = time.thread_time()
            await asyncio.sleep(_TURN_S)
            waits.wall = max(waits.wall, time.perf_counter() - start - _TURN_S)
            computed = time.thread_time() - thread_start
            if computed > waits.computed:
                waits.computed = computed
                waits.screen = type(app.screen).__name__

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
        while app.session.models.run.is_running:
            for key in KEYS:
                if key != "escape" or not shows("RunScreen"):
                    await pilot.press(key)
                await asyncio.sleep(0.05)
                clock = app.session.monotonic()
                seconds_left = estimate_seconds_left(app.session.models.run, clock)
                if seconds_left is not None:
                    elapsed = app.session.models.run.elapsed_seconds(clock)
                    waits.estimates.append((elapsed, seconds_left))
            if len(app.session.models.run.results_by_name()) < 2:
                await asyncio.sleep(0.5)
        watching.cancel()
        waits.finished = len(app.session.models.run.results_by_name())
        total = app.session.models.run.elapsed_seconds(app.session.monotonic())
        waits.estimates = [estimate for estimate in waits.estimates if estimate[0] < total]
        waits.estimates.append((total, 0.0))
        began = time.perf_counter()
        app.session.export(ExportRequest("html", folder / "report.html", anonymous=False))
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
        paints = [measure_first_paint(environment) for _ in range(options.starts)]
        wall = min(clock for clock, _ in paints)
        computed = min(processor for _, processor in paints)
        print(
            f"first paint: {wall:.2f} s, of which the app itself computed {computed:.2f} s "
            f"(the least of {len(paints)} each); aim {FIRST_PAINT_S} s, "
            f"ratio {computed / FIRST_PAINT_S:.2f}"
        )
        path = folder / "collection.anki2"
        write_collection(simulate_learner(6, options.reviews), path)
        if options.file is not None:
            path = options.file
        runs = ["warm"]
        if options.cold:
            runs.insert(0, "nothing compiled")
        for run in runs:
            if options.cold:
                os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
            gc.collect()  # garbage of the earlier run must not slow this one
            print_report(run, asyncio.run(use_app(path, options.models, folder)))


def print_report(name: str, waits: Waits) -> None:
    print(
        f"{name}: longest pause over {waits.finished} models: {1000 * waits.wall:.0f} ms, of which "
        f"the app itself computed at most {1000 * waits.computed:.0f} ms (on {waits.screen}); "
        f"aim {1000 * PAUSE_S:.0f} ms, ratio {waits.computed / PAUSE_S:.2f}"
    )
    answered = sorted(waits.answered.items(), key=lambda pair: pair[1])
    times = ", ".join(f"{question} {seconds:.1f} s" for question, seconds in answered)
    print(f"  answered: {times}")
    print(f"  report: {waits.report:.1f} s")
    total = waits.estimates[-1][0]
    shares = waits.compute_shares_of_time_left(total)
    if shares:
        print(
            f"  time left, of {total:.0f} s: said {min(shares):.2f} to {max(shares):.2f} times "
            f"what was left; aim {1 / WITHIN:.2f} to {WITHIN:.2f}"
        )


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Help formatter that keeps the lines of the description."""


if __name__ == "__main__":
    main()
