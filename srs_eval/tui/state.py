"""What the app remembers between runs: recent files, theme, last choices.

One small JSON file in the user's state folder. A damaged or foreign file counts as
none, and where the folder cannot be written, nothing is remembered.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from srs_eval.data.paths import content_of, state_dir
from srs_eval.report.formats import FAMILIES

FILE = "app.json"
RECENT_FILES = 8
_MOST_BYTES = 16 << 20
_LAST_SECOND = 253_402_300_799  # of the year 9999
_MOST = 10**12  # entries or reviews
DARK, LIGHT = "srs-dark", "srs-light"


@dataclass(frozen=True)
class Recent:
    """A file that was opened."""

    path: str
    opened: float = 0.0  # Unix seconds
    entries: int = 0


@dataclass(frozen=True)
class State:
    """Everything that is remembered; the defaults apply at the first start."""

    recent: tuple[Recent, ...] = ()  # latest first
    theme: str = DARK
    dark_theme: str = DARK  # the one that switching to dark chooses
    light_theme: str = LIGHT
    bins: int = 40  # of calibration graphs
    log_bins: bool = False  # narrower ones for higher predictions
    order: str = "place"  # of the ranking, one of `ranking.ORDERS` or what an older version wrote
    backwards: bool = False
    filter: str = ""  # words that a model's name must have in it
    hidden: tuple[str, ...] = ()  # families that are not shown
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    """Keys written by a newer version, kept when the file is rewritten."""

    def opened(self, path: Path, entries: int, now: float | None = None) -> State:
        """This state with `path` as the latest file."""
        name = str(path.absolute())
        others = [recent for recent in self.recent if recent.path != name]
        latest = Recent(name, time.time() if now is None else now, entries)
        return replace(self, recent=(latest, *others[: RECENT_FILES - 1]))

    def forgotten(self, path: str) -> State:
        """This state without `path` among the recent files."""
        return replace(self, recent=tuple(recent for recent in self.recent if recent.path != path))


def load_state(folder: Path | None = None) -> State:
    """The stored state; damaged values get their defaults."""
    try:
        raw = json.loads(content_of((folder or state_dir()) / FILE, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return State()
    if not isinstance(raw, dict):
        return State()
    state = State()
    recent = raw.pop("recent", None)
    if isinstance(recent, list):
        files = [_recent(entry) for entry in recent]
        state = replace(state, recent=tuple(each for each in files if each)[:RECENT_FILES])
    checks: dict[str, Callable[[Any], bool]] = {
        "theme": _is_name,
        "dark_theme": _is_name,
        "light_theme": _is_name,
        "bins": lambda value: type(value) is int and 2 <= value <= 100,
        "log_bins": lambda value: isinstance(value, bool),
        "order": _is_name,
        "backwards": lambda value: isinstance(value, bool),
        "filter": lambda value: isinstance(value, str) and len(value) < 100,
    }
    hidden = raw.pop("hidden", None)
    if isinstance(hidden, list):
        state = replace(state, hidden=tuple(each for each in FAMILIES if each in hidden))
    for name, valid in checks.items():
        value = raw.pop(name, None)
        if valid(value):
            state = replace(state, **{name: value})
    return replace(state, extra={key: value for key, value in raw.items() if key != "extra"})


def save_state(state: State, folder: Path | None = None) -> bool:
    """Write the state atomically; False where it cannot be written."""
    folder = folder or state_dir()
    temporary = None
    try:
        content = asdict(state)
        content = {**content.pop("extra"), **content}
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{FILE}.", dir=folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
        os.replace(temporary, folder / FILE)
    except (OSError, ValueError, RecursionError):  # a newer version's values may be nested deep
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) < 100


def _is_within(value: Any, least: float, most: float) -> bool:
    """Whether it is a number from `least` to `most`: neither NaN nor infinite."""
    return type(value) in (int, float) and least <= value <= most


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _recent(entry: Any) -> Recent | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        return None
    if not entry["path"] or "\0" in entry["path"]:
        return None
    opened, entries = entry.get("opened", 0.0), entry.get("entries", 0)
    return Recent(
        entry["path"],
        float(opened) if _is_within(opened, 0, _LAST_SECOND) else 0.0,
        entries if _is_count(entries) else 0,
    )
