"""The system's clipboard, where there is a program for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

_SECONDS = 2.0


def copy_to_system(text: str) -> bool:
    """Hand text to the system's clipboard; False where there is none. Blocks for a moment.

    Terminals that know OSC 52 need none; many, and most multiplexers, do not.
    """
    for command in _commands():
        if shutil.which(command[0]) is None:
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                command,
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                return True
    return False


def _commands() -> list[list[str]]:
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
