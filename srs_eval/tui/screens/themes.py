"""The app's own colours: a dark and a light theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.theme import BUILTIN_THEMES, Theme

from srs_eval.data.errors import InputError
from srs_eval.tui.config import DARK, LIGHT, config_path

_BEHIND_SCROLLBARS = (
    *("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active"),
    "scrollbar-corner-color",
)
DARK_THEME = Theme(
    name=DARK,
    primary="#7FD1C0",
    secondary="#E0B972",
    accent="#E0B972",
    warning="#E8B15A",
    error="#F08A8A",
    success="#8FD694",
    foreground="#DCE3E8",
    background="#11171C",
    surface="#161E25",
    panel="#202B34",
    dark=True,
    variables={
        "footer-key-foreground": "#7FD1C0",
        "scrollbar": "#35504F",
        **dict.fromkeys(_BEHIND_SCROLLBARS, "#161E25"),
        "block-cursor-background": "#2C5A57",
        "block-cursor-foreground": "#F2F7F7",
        "block-cursor-blurred-background": "#24383D",
        "block-cursor-blurred-foreground": "#DCE3E8",
    },
)
LIGHT_THEME = Theme(
    name=LIGHT,
    primary="#0B6B60",
    secondary="#8A5A00",
    accent="#8A5A00",
    warning="#8A5A00",
    error="#A8262F",
    success="#1D6B2A",
    foreground="#1E262B",
    background="#F6F4EE",
    surface="#FDFCF8",
    panel="#E6E3D8",
    dark=False,
    variables={
        "footer-key-foreground": "#0B6B60",
        "scrollbar": "#A9C9C2",
        **dict.fromkeys(_BEHIND_SCROLLBARS, "#ECE9DF"),
        "block-cursor-background": "#BFE0D9",
        "block-cursor-foreground": "#10211F",
        "block-cursor-blurred-background": "#DCE9E5",
        "block-cursor-blurred-foreground": "#1E262B",
    },
)


@dataclass(frozen=True)
class Palette:
    """Colours (#rrggbb) that carry a meaning; none of them carries it alone."""

    yours: str
    floor: str
    families: Mapping[str, str]


# Okabe & Ito's colours, which stay apart for the colour-blind, lightened or darkened to be read.
_ON_DARK = Palette(
    yours="#F2C94C",
    floor="#B7A6F5",
    families={
        "fsrs": "#6EC1F0",
        "sm2": "#E9A13B",
        "history": "#3CC39B",
        "neural": "#E094BF",
        "online": "#E8E06A",
    },
)
_ON_LIGHT = Palette(
    yours="#7A5200",
    floor="#5B3FB0",
    families={
        "fsrs": "#005F99",
        "sm2": "#8A4B00",
        "history": "#00644A",
        "neural": "#95316F",
        "online": "#635B00",
    },
)


def palette(theme: Theme) -> Palette:
    """For the ground of a theme, which may be one of Textual's."""
    return _ON_DARK if theme.dark else _ON_LIGHT


def check_theme(name: str | None) -> None:
    """Raise InputError for a theme of config.toml that there is not; None is any."""
    known = [*BUILTIN_THEMES, DARK_THEME.name, LIGHT_THEME.name]
    if name is not None and name not in known:
        shown = ", ".join(known)
        raise InputError(f"{config_path()}: there is no theme {name!r}, only {shown}.")
