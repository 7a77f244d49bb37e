"""How long the app keeps a person waiting: its first picture, and its longest pause at work.

    python benchmarks/app.py [--models fast] [--reviews 12000] [--starts 7]

First paint: from starting the program in a terminal to the first screen, the least of several
(the files of the program are then in memory). The aim is 0.7 s.

Longest pause: while models are evaluated in worker processes and a simulated learner's keys are
pressed on every screen, how long the loop that draws and listens was away from its next turn.
What it computed itself is told apart from what it waited for a core, by its thread's processor
time: on a machine with other work to do only the former is the app's. The aim is 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from srs_eval.app import Options, SrsEvalApp
from srs_eval.simulation import simulate_learner, write_collection

FIRST_PAINT_S, PAUSE_S = 0.7, 0.05
KEYS = ("down", "down", "o", "o", "d", "t", "b", "n", "escape", "2", "s", "escape", "end", "home")
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


async def longest_pause(path: Path, models: str, folder: Path) -> tuple[float, float, int]:
    """(wall, own processor time) of the longest turns of the event loop in s, and the models."""
    app = SrsEvalApp(path, Options(models=models, use_cache=False), state_folder=folder)
    wall = own = 0.0

    async def watch() -> None:
        nonlocal wall, own
        while True:
            before, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_TURN_S)
            wall = max(wall, time.perf_counter() - before - _TURN_S)
            own = max(own, time.thread_time() - used)

    async with app.run_test(size=(160, 48)) as pilot:
        while type(app.screen).__name__ != "ReceiptScreen":
            await pilot.pause(0.05)
        await pilot.press("e")
        watching = asyncio.create_task(watch())
        while app.evaluation.running:
            for key in KEYS:
                await pilot.press(key)
                await asyncio.sleep(0.05)
            if len(app.evaluation.results()) < 2:
                await asyncio.sleep(0.5)
        watching.cancel()
        finished = len(app.evaluation.results())
    app.shut_down()
    return wall, own, finished


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--models", default="fast")
    parser.add_argument("--reviews", type=int, default=12_000)
    parser.add_argument("--starts", type=int, default=7)
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
        wall, own, finished = asyncio.run(longest_pause(path, options.models, folder))
        print(
            f"longest pause over {finished} models: {1000 * wall:.0f} ms, of which the app itself "
            f"computed at most {1000 * own:.0f} ms; aim {1000 * PAUSE_S:.0f} ms, "
            f"ratio {own / PAUSE_S:.2f}"
        )


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
