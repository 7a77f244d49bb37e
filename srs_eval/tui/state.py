"""What the app remembers between runs: recent files, theme, last choices.

One small JSON file in the user's state folder. A damaged or foreign file counts as
none, and where the folder cannot be written, nothing is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from srs_eval.data.paths import content_of, state_dir, write_atomically
from srs_eval.report.formats import FAMILIES

FILE = "app.json"
DARK, LIGHT = "srs-dark", "srs-light"
_RECENT_FILES = 8
_MOST_BYTES = 16 << 20
_LAST_SECOND = 253_402_300_799  # of the year 9999


@dataclass(frozen=True)
class Recent:
    """A file that was opened."""

    path: Annotated[str, msgspec.Meta(pattern=r"^[^\0]+$")]
    opened: Annotated[float, msgspec.Meta(ge=0, le=_LAST_SECOND)] = 0.0  # Unix seconds
    entries: Annotated[int, msgspec.Meta(ge=0)] = 0


@dataclass(frozen=True)
class State:
    """Everything that is remembered; the defaults apply at the first start."""

    recent: tuple[Recent, ...] = ()  # latest first
    theme: str = DARK
    dark_theme: str = DARK  # the one that switching to dark chooses
    light_theme: str = LIGHT
    bins: Annotated[int, msgspec.Meta(ge=2, le=100)] = 40  # of calibration graphs
    log_bins: bool = False  # narrower ones for higher predictions
    order: str = "place"  # of the ranking, one of `ranking.ORDERS` or what an older version wrote
    backwards: bool = False
    filter: str = ""  # words that a model's name must have in it
    hidden: tuple[str, ...] = ()  # families that are not shown

    def opened(self, path: Path, entries: int, now: float) -> State:
        """This state with `path` as the latest file."""
        name = str(path.absolute())
        others = self.forgotten(name).recent[: _RECENT_FILES - 1]
        return replace(self, recent=(Recent(name, now, entries), *others))

    def forgotten(self, path: str) -> State:
        """This state without `path` among the recent files."""
        return replace(self, recent=tuple(recent for recent in self.recent if recent.path != path))


def load_state(folder: Path | None = None) -> State:
    """The stored state, or the defaults."""
    try:
        content = content_of((folder or state_dir()) / FILE, _MOST_BYTES)
        state = msgspec.json.decode(content, type=State)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return State()
    return replace(state, hidden=tuple(each for each in FAMILIES if each in state.hidden))


def save_state(state: State, folder: Path | None = None) -> bool:
    """Write the state atomically; False where it cannot be written."""
    try:
        write_atomically((folder or state_dir()) / FILE, msgspec.json.encode(state), lasting=False)
    except (OSError, ValueError):  # also of a path that is no text
        return False
    return True
