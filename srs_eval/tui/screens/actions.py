"""Every action of the app with its key, for bindings, footer, command palette and help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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


_TABLE = """
common
  c | cancel | Cancel | Stop the models that still run; finished ones stay
  x | app.export | Export | Write a report: HTML, Markdown, CSV, PNG or JSON
  y | copy | Copy | Copy the line of parameters that Anki takes
  t | table | Table | Show the numbers behind the chart, or the chart again
  b | bins | Bins | Change how many bins the calibration graph has: 10, 20 or 40
  B | log_bins | Log bins | Make bins narrower towards 100 %, where most reviews are, or even
  p,left_square_bracket | previous | Previous | The one before: an answer, a model, a tab
  n,right_square_bracket | next | Next | The one after
  R | switch_rows | Rows | The other reviews: those of Anki's optimizer, or the benchmark's
  v | compare | Compare | Two models side by side: the marked ones, or yours and this one
  l | overlay | Overlay | What two models say in one graph, or in one each
  escape | back | Back | Go back to the screen before
everywhere
  question_mark,f1 | screen.help | Help | What this screen shows and its keys
  g | screen.jump | (Jump) | Go to a part of the screen by its letter
  ctrl+t | app.switch_light | (Dark or light) | Switch between dark and light
  ctrl+p | app.command_palette | (All commands) | Search everything you can do here
  q | app.quit | Quit | Stop everything and leave
open
  delete | forget | Forget | Take the selected file off the list of recent files
answers
  cancel
  r | again | Ask again | Answer what was cancelled
  copy
  w | costs | Costs | What a desired retention costs: reviews, minutes, cards known
  m | ranking | Models | The ranking of all models, which fills by itself
  i | receipt | Import | What was read from the file, and which reviews count
  P | choose | Presets | Judge only some presets or decks, or all again
  app.export
  enter,d | evidence | Why | What the answer of the chosen pane rests on
  u | untold | (Not yet) | What can't be told yet, and what each of these lacks
  ctrl+o | close | (Open) | Close the file and choose another
  escape | back | (Stay) | Nothing: the file stays open
evidence
  copy
  previous
  next
  (app.export)
  back
costs
  (app.export)
  back
receipt
  cancel
  m | ranking | Models | Let the models predict your reviews and rank them
  switch_rows
  next
  (previous)
  (app.export)
  back
run
  cancel
  r | again | Run again | Evaluate what was cancelled or has failed
  enter,d | details | Details | Everything about the selected model
  slash | filter | Filter | Show only models whose name has some words in it
  o | order | (Order) | Order by the next column, or click its heading
  f | families | (Families) | Choose which families of models are shown
  (switch_rows)
  space | mark | (Mark) | Mark the selected model for a comparison
  compare
  table
  (bins)
  (log_bins)
  (app.export)
  back
details
  cancel
  table
  bins
  (previous)
  (log_bins)
  next
  compare
  e | errors | Errors | Where it errs: by interval, lapses, hour, deck and more
  (app.export)
  back
errors
  cancel
  overlay
  (app.export)
  back
compare
  cancel
  table
  bins
  (log_bins)
  overlay
  s | swap | Swap | Exchange left and right
  less_than_sign | left_model | Left | Choose the model on the left
  greater_than_sign | right_model | Right | Choose the model on the right
  (app.export)
  back
"""
"""Of each screen: keys, action, label and help; those in brackets are not in the footer."""


def _screens(table: str) -> Iterator[tuple[str, tuple[Action, ...]]]:
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


SCREENS: Mapping[str, tuple[Action, ...]] = dict(list(_screens(_TABLE))[1:])
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
            key_display={"question_mark,f1": "?", "slash": "/", "enter,d": "Enter"}.get(action.key),
            id=action.id,
        )
        for action in actions
    ]


ANSWERS, EVIDENCE = SCREENS["answers"], SCREENS["evidence"]
