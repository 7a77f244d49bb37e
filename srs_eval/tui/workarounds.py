"""What Textual 8.2 does otherwise than a person would want, and what is done about it."""

from __future__ import annotations

from textual._styles_cache import StylesCache


class Forgetful:
    """A screen that takes all its lines along when it goes.

    Textual remembers colours with the widget that they were asked for, the last 1,024 of them,
    and so all lines that these have drawn: hundreds of MB after some hundred keys.
    https://github.com/Textualize/textual/issues/6665
    """

    def on_unmount(self) -> None:
        StylesCache.get_inner_outer.cache_clear()
