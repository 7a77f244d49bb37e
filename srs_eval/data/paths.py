"""Find the folders of this program and of Anki.

The environment variables SRS_EVAL_{CACHE,CONFIG,DATA,STATE}_DIR override this program's folders.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_NAME = "srs-eval"
VERSION = "0.9.0"
HOMEPAGE = ""
"""Address of the public repository; while it is empty, no address is shown or published."""
_FOLDER_VARIABLES = tuple(f"SRS_EVAL_{kind}_DIR" for kind in ("CACHE", "CONFIG", "DATA", "STATE"))
DEMO_FILE = Path(__file__).with_name("demo.anki2.zst")
"""A simulated learner's collection: 20,000 reviews in a year, made by `tools/simulated`."""


def cache_dir() -> Path:
    """Return the folder of results and compiled kernels, safe to delete at any time."""
    return _find_folder("SRS_EVAL_CACHE_DIR", "user_cache_path")


def data_dir() -> Path:
    """Return the folder of downloaded data sets, by name."""
    return _find_folder("SRS_EVAL_DATA_DIR", "user_data_path")


def config_dir() -> Path:
    """Return the folder of the user's settings: config.toml."""
    return _find_folder("SRS_EVAL_CONFIG_DIR", "user_config_path")


def state_dir() -> Path:
    """Return the folder of what is kept between runs: recent files, theme, saved answers."""
    return _find_folder("SRS_EVAL_STATE_DIR", "user_state_path")


def make_folders_absolute() -> None:
    """Make the folders in environment variables absolute.

    They then stay the same even if a user's code changes the working folder.
    """
    for name in (*_FOLDER_VARIABLES, "NUMBA_CACHE_DIR"):
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])


def anki_folders(home: Path) -> Iterator[Path]:
    """Yield the folders where Anki may keep its profiles.

    Sources: Anki's manual, "File locations"; the sandboxes of Flatpak and Snap.
    """
    if os.environ.get("ANKI_BASE"):
        yield Path(os.environ["ANKI_BASE"])
    if sys.platform == "win32":
        yield Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming") / "Anki2"
    elif sys.platform == "darwin":
        yield home / "Library" / "Application Support" / "Anki2"
    else:
        data_home = os.environ.get("XDG_DATA_HOME")
        if data_home:
            yield Path(data_home) / "Anki2"
        yield home / ".local" / "share" / "Anki2"
        yield home / ".var" / "app" / "net.ankiweb.Anki" / "data" / "Anki2"
        with suppress(OSError):
            yield from sorted(home.glob("snap/anki*/*/.local/share/Anki2"))
    yield home / "Documents" / "Anki"  # before Anki 2.1.5
    yield home / "Anki"


def _find_folder(variable: str, function: str) -> Path:
    """Return the folder in a variable of the environment, else by a function of platformdirs."""
    if os.environ.get(variable):
        return Path(os.environ[variable])
    import platformdirs

    path: Path = getattr(platformdirs, function)(_NAME, appauthor=False)
    return path
