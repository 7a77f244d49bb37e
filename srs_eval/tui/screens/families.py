"""Which families of models the ranking shows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

from srs_eval.report import formats as words
from srs_eval.tui.screens.base import Dialog


class FamiliesScreen(Dialog):
    """Dismissed with the families that are not to be shown, or None."""

    BINDINGS: ClassVar[list[Any]] = [("escape,enter,f", "close", "Close")]

    def __init__(self, there: Collection[str], hidden: tuple[str, ...]) -> None:
        super().__init__()
        self._there, self._hidden = there, hidden

    def content(self) -> ComposeResult:
        box = Vertical()
        box.border_title = "Families of models"
        box.border_subtitle = "Space chooses, Esc closes"
        with box:
            yield SelectionList[str](
                *(
                    Selection(
                        Text(f"{each.letter}  {each.meaning}"), family, family not in self._hidden
                    )
                    for family, each in words.FAMILIES.items()
                    if family in self._there and family != "floor"
                )
            )
            yield Static("The letters stand before the models' names. The floor is always shown.")

    def action_close(self) -> None:
        chosen = self.query_one(SelectionList).selected
        hidden = [each for each in words.FAMILIES if each in self._there and each != "floor"]
        kept = [each for each in self._hidden if each not in self._there]
        self.dismiss((*kept, *(each for each in hidden if each not in chosen)))
