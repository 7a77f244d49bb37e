"""The command palette: everything that can be done, what is possible on this screen first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from textual.app import SystemCommand
from textual.command import DiscoveryHit, Hits
from textual.screen import Screen
from textual.system_commands import SystemCommandsProvider

from srs_eval.tui.screens.actions import Action

_SHOWN_AS_ACTIONS = ("Quit", "Keys")  # Textual's own commands that are actions or help here


class Commands(SystemCommandsProvider):
    """The palette's list: what is possible here first, not by the alphabet."""

    async def discover(self) -> Hits:
        for title, help_, callback, discover in self.app.get_system_commands(self.screen):
            if discover:
                yield DiscoveryHit(title, callback, help=help_)


def commands(
    screen: Screen[Any],
    here: Iterable[Action],
    everywhere: Iterable[Action],
    textuals: Iterable[SystemCommand],
) -> Iterator[SystemCommand]:
    """The screen's actions as far as they are possible, those of all screens, Textual's own."""
    for where, group in (("Here", here), ("Everywhere", everywhere)):
        for action in group:
            if action.name == "app.command_palette":
                continue
            if screen.check_action(action.name, ()) is False:
                continue
            yield SystemCommand(
                action.label,
                f"{where}: {action.help} ({action.key_words})",
                _runner(screen, action.name),
            )
    for title, help_, callback, *rest in textuals:
        if title not in _SHOWN_AS_ACTIONS:
            yield SystemCommand(title, f"Everywhere: {help_}", callback, *rest)


def _runner(screen: Screen[Any], action: str) -> Callable[[], Any]:
    return lambda: screen.app.call_later(screen.run_action, action)
