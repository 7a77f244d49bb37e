"""Load the app's own colours, a dark and a light theme, from themes.toml."""

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
    """Colours (#rrggbb) with a meaning, which letters or marks show as well."""

    yours: str
    baseline: str
    families: Mapping[str, str]


_THEME_DATA = tomllib.loads((Path(__file__).parents[1] / "themes.toml").read_text("utf-8"))
# Without the palette, a theme's data are the arguments of Textual's class.
_PALETTES = {name: Palette(**theme.pop("palette")) for name, theme in _THEME_DATA.items()}
DARK_THEME, LIGHT_THEME = (Theme(name, **_THEME_DATA[name]) for name in (DARK, LIGHT))


def find_palette(theme: Theme) -> Palette:
    """Return the palette for the background of a theme, which may be one of Textual's."""
    return _PALETTES[DARK if theme.dark else LIGHT]


def check_theme(name: str | None) -> None:
    """Raise InputError if the theme named in config.toml does not exist; None if it names none."""
    theme_names = [*BUILTIN_THEMES, DARK, LIGHT]
    if name is not None and name not in theme_names:
        listed_names = ", ".join(theme_names)
        raise InputError(f"{config_path()}: there is no theme {name!r}, only {listed_names}.")
