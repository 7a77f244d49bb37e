"""Every action of the app with its key, for bindings, footer, command palette and help.

keys.txt has them screen by screen: a key means one thing on all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_SHOWN = {
    **{"question_mark": "?", "slash": "/", "escape": "Esc", "space": "Space", "enter": "Enter"},
    **{"left_square_bracket": "[", "right_square_bracket": "]", "f1": "F1"},
    **{"less_than_sign": "<", "greater_than_sign": ">"},
}
"""Keys whose names in Textual are unclear."""


@dataclass(frozen=True)
class Action:
    """Something the user can do on a screen."""

    name: str  # as Textual calls it: "evaluate" for `action_evaluate`
    key: str
    label: str  # in the footer and the palette
    help: str  # one sentence
    footer: bool = True

    @property
    def id(self) -> str:
        """What config.toml calls it: the name without where it is looked for."""
        return self.name.rpartition(".")[2]

    @property
    def key_words(self) -> str:
        """The key as shown in help."""
        keys = (_SHOWN.get(key, key) for key in self.key.split(","))
        return " ".join(key.replace("ctrl+", "Ctrl-").replace("_", " ") for key in keys)


def _screens(table: str) -> Iterator[tuple[str, tuple[Action, ...]]]:
    """Of each screen: keys, action, label and help; those in brackets are not in the footer."""
    common: dict[str, Action] = {}
    for screen in table.strip().replace("\n  ", "\t").splitlines():
        name, *lines = screen.split("\t")
        found = []
        for line in lines:
            *cells, label, help_ = line.split(" | ") if "|" in line else (line, "")
            bare = label.strip("()")
            action = Action(cells[1], cells[0], bare, help_) if cells else common[bare]
            found.append(replace(action, footer=bare == label))
        common = common or {action.name: action for action in found}
        yield name, tuple(found)


SCREENS: Mapping[str, tuple[Action, ...]] = dict(
    list(_screens((Path(__file__).parents[1] / "keys.txt").read_text("utf-8")))[1:]
)
EVERYWHERE = SCREENS["everywhere"]


def conflict(keys: Mapping[str, str]) -> str:
    """Which two actions of a screen would have one key; empty where none do.

    `keys` are those of actions, by their ids, that are not the usual ones.
    """
    for actions in SCREENS.values():
        taken: dict[str, Action] = {}
        for action in dict.fromkeys((*actions, *EVERYWHERE)):
            for key in keys.get(action.id, action.key).split(","):
                other = taken.setdefault(key.strip(), action)
                if other.id != action.id:
                    return f'"{key.strip()}" would be the key of {other.id} and of {action.id}'
    return ""


def bindings(actions: Iterable[Action]) -> list[Any]:
    """Textual's bindings for the actions."""
    from textual.binding import Binding

    return [
        Binding(
            action.key,
            action.name,
            action.label,
            show=action.footer,
            key_display=_SHOWN.get(action.key.partition(",")[0]),
            id=action.id,
        )
        for action in actions
    ]
