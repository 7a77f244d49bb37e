"""The app's own colours: a dark and a light theme, which themes.toml holds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from textual.theme import BUILTIN_THEMES, Theme

from srs_eval.data.errors import InputError
from srs_eval.tui.config import DARK, LIGHT, config_path


@dataclass(frozen=True)
class Palette:
    """Colours (#rrggbb) that carry a meaning; none of them carries it alone."""

    yours: str
    baseline: str
    families: Mapping[str, str]


_FOUND = tomllib.loads((Path(__file__).parents[1] / "themes.toml").read_text("utf-8"))
_PALETTES = {name: Palette(**of.pop("palette")) for name, of in _FOUND.items()}
DARK_THEME, LIGHT_THEME = (Theme(name, **_FOUND[name]) for name in (DARK, LIGHT))


def palette(theme: Theme) -> Palette:
    """For the ground of a theme, which may be one of Textual's."""
    return _PALETTES[DARK if theme.dark else LIGHT]


def check_theme(name: str | None) -> None:
    """Raise InputError for a theme of config.toml that there is not; None is any."""
    known = [*BUILTIN_THEMES, DARK, LIGHT]
    if name is not None and name not in known:
        shown = ", ".join(known)
        raise InputError(f"{config_path()}: there is no theme {name!r}, only {shown}.")
