"""Soak-test the app with random input: crashes, hangs, leftovers and growing memory.

    python benchmarks/soak.py [HISTORY OR FOLDER ...] [--sessions 150] [--seconds 12]
    python benchmarks/soak.py [HISTORY OR FOLDER ...] --replay 17

Each session is one start of the app, in a process of its own. Its steps are drawn from a seed,
which is printed: bursts of keys, clicks, drags and turns of the wheel, pasted text, changes of
the terminal's size, other files to open, killed workers. Sessions with an even
seed run in a real pseudo-terminal, those with an odd seed under Textual's pilot. At the end a key
or a signal ends the app, or its terminal is closed.

The files are simulated ones, damaged ones, Anki's fixtures if there are any, and the named ones:
files, or folders of them. Sessions use copies. `--replay` repeats sessions by their seeds,
and needs the same files and the same `--seconds`.

Exits with 1 if a session raised an exception, took no more input, did not end within 30 s, left a
process or a file behind, changed a history, or held more than 1,000 MB.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from _soak_drive import (
    LEAVING,
    THREADS,
    TOKEN,
    Child,
    Hangs,
    Terminal,
    find_processes,
    make_token,
    run_under_pilot,
)
from _soak_plan import DAMAGED, Plan, make_plan

HERE = Path(__file__).resolve().parents[1]
FIXTURES = HERE.parent / "shared" / "anki" / "fixtures"
_MOST_S = 30.0  # limit for the app to end, with other work on the same machine
_MOST_MB = 1_000
# The limit for a session is a multiple of its pauses, plus some seconds.
_FACTOR = 20
_EXTRA_S = 120.0
_FINE = (0, 129, 130, 143)  # exit codes: left, hung up, interrupted, terminated
_ABORT_S = 5.0  # time for an aborted app to write where its threads are
_SHOWN = 6_000  # characters of a session's last output
_SEQUENCE = re.compile(r"\x1b(\[[0-9;?<>=$]*[a-zA-Z]|[=>78])")  # terminal escape sequence


# --- histories ----------------------------------------------------------------------


def collect_histories(paths: Iterable[Path], folder: Path) -> list[Path]:
    """Return copies of all files that sessions open, always in the same order."""
    from srs_eval.anki_import import EXTENSIONS

    copies = simulate_histories(folder)
    for source in (FIXTURES, FIXTURES / "broken", *paths):
        files = [source] if source.exists() else []
        if source.is_dir():
            files = sorted(path for path in source.iterdir() if path.is_file())
        kind = DAMAGED if source.name == "broken" else ""
        for path in files:
            if path.name.lower().endswith(EXTENSIONS) and "bomb" not in path.name:
                copies.append(folder / f"{len(copies):02} {kind} {path.name}")
                shutil.copyfile(path, copies[-1])
    return copies


def simulate_histories(folder: Path) -> list[Path]:
    """Write collections of simulated learners, and two damaged ones."""
    from tools.simulated import simulate_learner, write_collection

    paths = []
    for number, reviews in enumerate((20, 300, 1_500, 6_000, 15_000)):
        paths.append(folder / f"{number:02} simulated {reviews}.anki2")
        scheduler = "sm2" if number % 2 else "fsrs"
        write_collection(simulate_learner(number, reviews, scheduler=scheduler), paths[-1])
    content = paths[2].read_bytes()
    damaged = {"cut.anki2": content[: len(content) // 2], "empty.anki2": b""}
    for name, damaged_content in damaged.items():
        paths.append(folder / f"{len(paths):02} {DAMAGED} {name}")
        paths[-1].write_bytes(damaged_content)
    return paths


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder with their contents."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# --- one session --------------------------------------------------------------------


@dataclass
class Outcome:
    """Result of a session."""

    plan: Plan
    problems: list[str] = field(default_factory=list)
    output: str = ""  # the last part
    seconds: float = 0.0  # from its start until the exit
    ending: float = 0.0  # seconds from the exit until the app had ended
    megabytes: float = 0.0  # the most that the app's own process held
    steps_taken: int = 0  # the app may end before the last one
    screens: tuple[str, ...] = ()  # seen by a pilot


def run_session(plan: Plan, folder: Path, arguments: Sequence[str]) -> Outcome:
    """Run one session in a folder of its own.

    Args:
        plan: The plan to carry out.
        folder: The folder for the app's work, its state and its temporary files.
        arguments: The arguments of this script, for the process of a pilot.
    """
    for name in ("work", "temporary", "home", "state"):
        (folder / name).mkdir(parents=True)
    environment = make_environment(plan, folder)
    began = time.monotonic()
    if plan.kind == "terminal":
        outcome = _run_in_terminal(plan, folder, environment, began)
    else:
        outcome = _run_pilot(plan, folder, environment, [*arguments, str(folder)], began)
    _find_leftovers(outcome, folder)
    return outcome


def make_environment(plan: Plan, folder: Path) -> dict[str, str]:
    """Return the environment of a session, without the user's own settings."""
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "HOME": str(folder / "home"),
        "XDG_DATA_HOME": str(folder / "home" / "data"),
        "TMPDIR": str(folder / "temporary"),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        TOKEN: make_token(plan),
    }
    for name in ("CONFIG", "DATA", "STATE"):
        environment[f"SRS_EVAL_{name}_DIR"] = str(folder / "state" / name.lower())
    # Results are kept for later sessions, which see more screens that way.
    environment["SRS_EVAL_CACHE_DIR"] = str(folder.parent / "cache")
    for name in ("LINES", "COLUMNS", "SRS_EVAL_RWKV_WEIGHTS"):
        environment.pop(name, None)
    return environment


def _run_in_terminal(
    plan: Plan, folder: Path, environment: Mapping[str, str], began: float
) -> Outcome:
    outcome = Outcome(plan)
    terminal = Terminal.start(plan, folder, environment)
    try:
        terminal.carry_out(plan)
        outcome.seconds = time.monotonic() - began
        terminal.leave(plan.end)
        left_at = time.monotonic()
        while not terminal.child.has_ended():
            terminal.listen(0.05)
            outcome.ending = time.monotonic() - left_at
            if outcome.ending > _MOST_S:
                outcome.problems.append(f"had not ended {_MOST_S:.0f} s after “{plan.end}”")
                _abort(terminal)
        outcome.ending = time.monotonic() - left_at
    except Hangs:
        outcome.problems.append("took no more input")
        _abort(terminal)
    terminal.listen(0.2)
    terminal.close()
    outcome.output = terminal.output.decode("utf-8", "replace")
    code = terminal.child.process.returncode
    if code not in _FINE and not outcome.problems:
        outcome.problems.append(f"ended with {code}")
    if "Traceback" in outcome.output:
        outcome.problems.append("printed a traceback")
    outcome.megabytes = terminal.child.megabytes
    outcome.steps_taken = terminal.steps_taken
    return outcome


def _abort(terminal: Terminal) -> None:
    """Make the app write the positions of all its threads, and end it."""
    terminal.child.send_signal(signal.SIGABRT)
    deadline = time.monotonic() + _ABORT_S
    while not terminal.child.has_ended():
        terminal.listen(0.05)
        if time.monotonic() > deadline:
            terminal.child.send_signal(signal.SIGKILL)


def _run_pilot(
    plan: Plan, folder: Path, environment: Mapping[str, str], arguments: Sequence[str], began: float
) -> Outcome:
    outcome = Outcome(plan)
    pauses = sum(getattr(step, "seconds", 0.0) for step in plan.steps)
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments, "--one", str(plan.seed)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder / "work",
        start_new_session=True,
    )
    printed: list[bytes] = []
    times: list[float] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if line.startswith(LEAVING.encode()):
                times.append(time.monotonic())
                steps_taken, *screens = line.decode().removeprefix(LEAVING).split()
                outcome.steps_taken = int(steps_taken)
                outcome.screens = tuple(screens)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    child = Child(process)
    deadline = began + _FACTOR * pauses + _EXTRA_S
    while not child.has_ended():
        time.sleep(0.02)
        clock = time.monotonic()
        if times and clock - times[0] > _MOST_S:
            outcome.problems.append(f"had not ended {_MOST_S:.0f} s after “{plan.end}”")
        elif clock > deadline:
            outcome.problems.append(f"took more than {clock - began:.0f} s")
        if outcome.problems:
            child.send_signal(signal.SIGABRT)
            time.sleep(_ABORT_S)
            child.send_signal(signal.SIGKILL)
    ended = time.monotonic()
    reader.join(2)
    left_at = times[0] if times else ended
    outcome.seconds = left_at - began
    outcome.ending = ended - left_at
    outcome.output = b"".join(printed).decode("utf-8", "replace")
    if process.returncode != 0 and not outcome.problems:
        outcome.problems.append(f"ended with {process.returncode}")
    outcome.megabytes = child.megabytes
    return outcome


def _find_leftovers(outcome: Outcome, folder: Path) -> None:
    """Add the processes and files that a session left behind."""
    token = make_token(outcome.plan)
    deadline = time.monotonic() + _MOST_S
    while (leftovers := find_processes(token)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid, command in leftovers.items():
        outcome.problems.append(f"left process {pid} behind: {command[:100]}")
        os.kill(pid, signal.SIGKILL)
    files = [str(path.relative_to(folder)) for path in (folder / "temporary").rglob("*")]
    if files:
        outcome.problems.append(f"left files behind: {', '.join(sorted(files)[:5])}")
    if outcome.megabytes > _MOST_MB:
        outcome.problems.append(f"held {outcome.megabytes:.0f} MB")


# --- all sessions -------------------------------------------------------------------


def format_outcome(outcome: Outcome) -> str:
    """Return the line that reports a session."""
    plan = outcome.plan
    path = "no file" if plan.path is None else plan.path.name
    verdict = "; ".join(outcome.problems) or "fine"
    if outcome.screens:
        verdict += f" ({len(outcome.screens)} screens)"
    return (
        f"seed {plan.seed:4} {plan.kind:8} {path[:34]:34} {plan.size[0]:3}x{plan.size[1]:<2} "
        f"{outcome.steps_taken:3} of {len(plan.steps):3} steps, {outcome.seconds:5.1f} s, "
        f"{plan.end:23} ended in {outcome.ending:4.1f} s, {outcome.megabytes:4.0f} MB: {verdict}"
    )


def format_story(outcome: Outcome, folder: Path) -> str:
    """Return a session's last output, and the thread positions if it was aborted."""
    text = _SEQUENCE.sub("", outcome.output)
    errors = [text.find(word) for word in ("Traceback", "Fatal Python error") if word in text]
    excerpt = text[min(errors) :][:_SHOWN] if errors else text[-_SHOWN:]
    threads = folder / THREADS
    return f"{excerpt}\n{threads.read_text()}" if threads.exists() else excerpt


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("histories", nargs="*", type=Path, help="files, or folders of them")
    parser.add_argument("--sessions", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=12.0, help="of pauses in each session")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--replay", type=int, nargs="+", default=[], help="only these seeds")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:  # a pilot's process
        *_, files, folder = options.histories
        plan = make_plan(options.one, sorted(files.iterdir()), options.seconds)
        run_under_pilot(plan, folder)
        return
    seeds = options.replay or range(options.seed, options.seed + options.sessions)
    failed = []
    screens: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        root = Path(name).resolve()
        files = root / "files"
        files.mkdir()
        histories = collect_histories([path.resolve() for path in options.histories], files)
        print(f"{len(histories)} files", flush=True)
        before = read_folder(files)
        arguments = ["--seconds", str(options.seconds), str(files)]
        for seed in seeds:
            plan = make_plan(seed, histories, options.seconds)
            folder = root / f"session {seed}"
            outcome = run_session(plan, folder, arguments)
            if read_folder(files) != before:
                outcome.problems.append("changed a history, or left a file beside one")
            print(format_outcome(outcome), flush=True)
            screens.update(outcome.screens)
            if outcome.problems:
                failed.append(seed)
                print(format_story(outcome, folder), flush=True)
                for path in files.iterdir():
                    path.unlink()
                for file_name, content in before.items():
                    (files / file_name).write_bytes(content)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"Pilots saw {len(screens)} screens: {', '.join(sorted(screens))}.")
    if failed:
        sys.exit(f"{len(failed)} of {len(seeds)} sessions found something: seeds {failed}.")
    print(f"{len(seeds)} sessions: nothing raised, hung, stayed or changed.")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
