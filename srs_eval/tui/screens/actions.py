"""Every action of the app with its key, for bindings, footer, command palette and help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Action:
    """Something the user can do on a screen."""

    name: str  # as Textual calls it: "evaluate" for `action_evaluate`
    key: str
    label: str  # in the footer and the palette
    help: str  # one sentence
    footer: bool = True
    shown_key: str = ""  # where Textual's name of the key is unclear

    @property
    def id(self) -> str:
        """What config.toml calls it: the name without where it is looked for."""
        return self.name.rpartition(".")[2]

    def on_key(self, key: str | None) -> Action:
        """The same action on another key; None leaves it as it is."""
        return self if key is None else replace(self, key=key, shown_key="")

    @property
    def key_words(self) -> str:
        """The key as shown in help."""
        words = {"question_mark": "?", "slash": "/"}
        words |= {"escape": "Esc", "space": "Space", "enter": "Enter"}
        return self.shown_key or " ".join(
            words.get(key, key.replace("ctrl+", "Ctrl-").replace("_", " "))
            for key in self.key.split(",")
        )


_HELP = Action(
    "screen.help", "question_mark,f1", "Help", "What this screen shows and its keys", True, "?"
)
QUIT = Action("app.quit", "q", "Quit", "Stop everything and leave", shown_key="q  Ctrl-C")
_SWITCH_LIGHT = Action(
    "app.switch_light", "ctrl+t", "Dark or light", "Switch between dark and light", False
)
_PALETTE = Action(
    "app.command_palette", "ctrl+p", "All commands", "Search everything you can do here", False
)
_JUMP = Action("screen.jump", "g", "Jump", "Go to a part of the screen by its letter", False)
EVERYWHERE = (_HELP, _JUMP, _SWITCH_LIGHT, _PALETTE, QUIT)

_EXPORT = Action(
    "app.export", "x", "Export", "Write a report: HTML, Markdown, CSV, PNG or JSON", False
)
_CANCEL = Action("cancel", "c", "Cancel", "Stop the models that still run; finished ones stay")
_BACK = Action("back", "escape", "Back", "Go back to the screen before")
_TABLE = Action("table", "t", "Table", "Show the numbers behind the chart, or the chart again")
_BINS = Action("bins", "b", "Bins", "Change how many bins the calibration graph has: 10, 20 or 40")
_LOG_BINS = Action(
    "log_bins", "B", "Log bins", "Make bins narrower towards 100 %, where most reviews are, or even"
)

_COPY = Action("copy", "y", "Copy", "Copy the line of parameters that Anki takes")
ANSWERS = (
    _CANCEL,
    Action("again", "r", "Ask again", "Answer what was cancelled"),
    Action("evidence", "enter,d", "Details", "What the selected answer rests on", True, "Enter d"),
    _COPY,
    Action("ranking", "m", "Models", "The ranking of all models, which fills by itself"),
    Action("costs", "w", "Costs", "What a desired retention costs: reviews, minutes, cards known"),
    Action("state", "s", "Day", "How much of your forgetting is your day, not your cards", False),
    Action("time", "t", "Time", "How predictable you were, month by month", False),
    Action("choose", "p", "Presets", "Judge only some presets or decks, or all again", False),
    replace(_EXPORT, footer=True),
    Action(
        "receipt", "i", "Receipt", "What was read from the file, and which reviews count", False
    ),
    Action("back", "escape", "Close", "Close the file and choose another"),
)
EVIDENCE = (
    _COPY,
    Action("previous", "p,left_square_bracket", "Previous", "The answer before", shown_key="p"),
    Action("next", "n,right_square_bracket", "Next", "The answer after", shown_key="n"),
    _EXPORT,
    _BACK,
)
COSTS = (_EXPORT, _BACK)


SCREENS: Mapping[str, tuple[Action, ...]] = {
    "everywhere": EVERYWHERE,
    "open": (
        Action("browse", "ctrl+o", "Type a path", "Put the cursor where a path is typed"),
        Action("forget", "delete", "Forget", "Take the selected file off the list of recent files"),
    ),
    "answers": ANSWERS,
    "evidence": EVIDENCE,
    "costs": COSTS,
    "receipt": (
        _CANCEL,
        Action("evaluate", "e", "Evaluate", "Let the models predict your reviews and rank them"),
        Action("rows", "r", "Rows", "Switch which reviews count: the benchmark's rule or Anki's"),
        Action(
            "next_tab", "n,right_square_bracket", "Next tab", "The tab to the right", shown_key="n"
        ),
        Action(
            "previous_tab",
            "p,left_square_bracket",
            "Previous tab",
            "The tab to the left",
            False,
            "p",
        ),
        _EXPORT,
        _BACK,
    ),
    "run": (
        _CANCEL,
        Action("again", "r", "Run again", "Evaluate what was cancelled or has failed"),
        Action(
            "details", "enter,d", "Details", "Everything about the selected model", True, "Enter d"
        ),
        Action(
            "filter",
            "slash",
            "Filter",
            "Show only models whose name has some words in it",
            True,
            "/",
        ),
        Action("order", "o", "Order", "Order by the next column, or click its heading", False),
        Action("families", "f", "Families", "Choose which families of models are shown", False),
        Action(
            "switch_rows", "R", "Rows", "Rank on the other rows: Anki's or the benchmark's", False
        ),
        Action("mark", "space", "Mark", "Mark the selected model for a comparison", False),
        Action("compare", "2", "Compare", "Two models side by side: the marked ones, or yours"),
        _TABLE,
        replace(_BINS, footer=False),
        replace(_LOG_BINS, footer=False),
        _EXPORT,
        _BACK,
    ),
    "details": (
        _CANCEL,
        _TABLE,
        _BINS,
        Action(
            "previous", "p,left_square_bracket", "Previous", "The model ranked before", False, "p"
        ),
        replace(_LOG_BINS, footer=False),
        Action("next", "n,right_square_bracket", "Next", "The model ranked after", shown_key="n"),
        Action("compare", "2", "Compare", "Compare this model with the best other one"),
        Action("errors", "e", "Errors", "Where it errs: by interval, lapses, hour, deck and more"),
        _EXPORT,
        _BACK,
    ),
    "errors": (
        _CANCEL,
        Action("overlay", "v", "Overlay", "Forgetting curves of another model over this one's"),
        _EXPORT,
        _BACK,
    ),
    "compare": (
        _CANCEL,
        _TABLE,
        _BINS,
        replace(_LOG_BINS, footer=False),
        Action("overlay", "v", "Overlay", "Both models in one graph, or in one each"),
        Action("swap", "s", "Swap", "Exchange left and right"),
        Action("left_model", "l", "Left", "Choose the model on the left"),
        Action("right_model", "r", "Right", "Choose the model on the right"),
        _EXPORT,
        _BACK,
    ),
}


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
            tooltip=action.help,
            key_display={"question_mark,f1": "?", "slash": "/", "enter,d": "Enter"}.get(action.key),
            id=action.id,
        )
        for action in actions
    ]
