"""The app, used by somebody who presses anything, file after file: what breaks, grows or stays.

    python benchmarks/soak.py HISTORY... [--minutes 30] [--seed 1] [--seconds 60]

Opens one history after the other, each for at most `--seconds`, in a copy of its own: presses keys
at random, writes reports, changes the terminal's size and kills worker processes (Linux). Ends
with 1 where something is raised, where memory grew by more than 300 MB since the first opening,
where a history or its folder changed, or where files of the program stay behind.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
MOST_MB = 300
KEYS = (
    *"cxytbpnRvlrdwmiPuofeazhjk/?.~12 ",
    *("escape", "enter", "tab", "shift+tab", "up", "down", "left", "right", "pageup", "pagedown"),
    *("home", "end", "space", "backspace", "delete", "f1", "ctrl+o", "ctrl+p", "ctrl+t"),
)


def resident_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def kill_a_worker(chance: random.Random) -> int:
    lists = Path("/proc/self/task").glob("*/children")
    workers = [
        int(pid)
        for each in lists
        for pid in each.read_text().split()
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    if workers:
        os.kill(chance.choice(workers), signal.SIGKILL)
    return bool(workers)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def use(path: Path, seconds: float, chance: random.Random, state: Path) -> tuple[int, int]:
    """Keys pressed and workers killed until the time is over or the file was closed."""
    from srs_eval.app import Options, SrsEvalApp

    app = SrsEvalApp(path, Options(models="fast", use_cache=False), state_folder=state)
    pressed = killed = closed = 0
    async with app.run_test(size=(100, 30)) as pilot:
        end = time.monotonic() + seconds
        while time.monotonic() < end and app.is_running and closed < 30:
            await pilot.press(chance.choice(KEYS))
            pressed += 1
            closed = closed + 1 if type(app.screen).__name__ == "OpenScreen" else 0
            if chance.random() < 0.03:
                await pilot.resize_terminal(chance.randint(10, 160), chance.randint(3, 50))
            if chance.random() < 0.02:
                killed += kill_a_worker(chance)
            await asyncio.sleep(chance.choice((0, 0, 0.02, 0.3)))
    app.session.shut_down()
    return pressed, killed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("histories", nargs="+", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    histories = [path.resolve() for path in options.histories]
    chance = random.Random(options.seed)
    began, baseline, opened = time.monotonic(), 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for part in ("temporary", "state", "work", "file"):
            (root / part).mkdir()
        os.environ["TMPDIR"] = str(root / "temporary")
        tempfile.tempdir = None
        os.chdir(root / "work")  # reports go here
        while time.monotonic() - began < 60 * options.minutes:
            original = histories[opened % len(histories)]
            path = Path(shutil.copy2(original, root / "file"))
            before = contents(root / "file")
            left = 60 * options.minutes - (time.monotonic() - began)
            pressed, killed = asyncio.run(
                use(path, min(options.seconds, left), chance, root / "state")
            )
            opened += 1
            held = resident_mb()
            print(
                f"{opened:4} {original.name:28} {pressed:5} keys, {killed} killed, {held:6.0f} MB",
                flush=True,
            )
            changed = {each for each in contents(root / "file").items() ^ before.items()}
            if changed:
                sys.exit(f"Changed or left beside the history: {sorted(p for p, _ in changed)}.")
            path.unlink()
            if opened == 1:
                baseline = held
            if held - baseline > MOST_MB:
                sys.exit(f"Memory grew by {held - baseline:.0f} MB.")
        stay = [str(each) for each in (root / "temporary").rglob("*")]
        if stay:
            sys.exit(f"Left behind: {stay}.")
        os.chdir(HERE)
    print(f"{opened} openings: nothing raised, nothing left, nothing changed.")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
