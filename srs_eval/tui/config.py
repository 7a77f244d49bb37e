"""Every action with its key; what a person has settled; what the app remembers between runs.

keys.txt has the actions screen by screen, for bindings, footer, command palette and help: a key
means one thing on all of them.

What is settled is in `config.toml` in their folder of settings:

theme = "srs-light"          # one of the app's themes
rows = "anki"                # which reviews count: "benchmark" or "anki"
models = "fsrs,SM-2"         # what is evaluated unless --models says otherwise
equivalence = 0.002          # differences in log loss within this are too small to matter
reduced_motion = true        # nothing slides or fades

[keys]                       # actions of the app; `srs-eval config` lists them all
compare = "v"
cancel = "c,ctrl+x"

What is remembered (recent files, theme, last choices) is one small JSON file in their folder of
state. A damaged or foreign file counts as none, and where the folder cannot be written, nothing is
remembered.
"""

from __future__ import annotations

import json
import reprlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from srs_eval.data.errors import InputError
from srs_eval.data.paths import config_dir, content_of, state_dir, write_atomically
from srs_eval.data.protocol import EQUIVALENT
from srs_eval.report.formats import FAMILIES

_FILE, _STATE_FILE = "config.toml", "app.json"
DARK, LIGHT = "srs-dark", "srs-light"
_RECENT_FILES = 8
_MOST_STATE_BYTES = 16 << 20
_LAST_SECOND = 253_402_300_799  # of the year 9999
_MOST_BYTES = 1 << 20
_MUST_BE = {
    "theme": "a name in quotes",
    "rows": "benchmark or anki",
    "models": "names in quotes",
    "equivalence": "a log loss from 0 to 1",
    "reduced_motion": "true or false",
    "keys": "a table of actions and their keys in quotes",
}

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
    list(_screens((Path(__file__).with_name("keys.txt")).read_text("utf-8")))[1:]
)
EVERYWHERE = SCREENS["everywhere"]


def _conflict(keys: Mapping[str, str]) -> str:
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


@dataclass(frozen=True)
class Config:
    """Values in force; the defaults are those without a file."""

    theme: Annotated[str, msgspec.Meta(min_length=1)] | None = None  # None: the one chosen last
    rows: Literal["benchmark", "anki"] = "benchmark"
    models: Annotated[str, msgspec.Meta(min_length=1)] = "all"
    equivalence: Annotated[float, msgspec.Meta(ge=0, lt=1)] = EQUIVALENT
    reduced_motion: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of actions, as Textual writes them, where they are not the usual ones."""

    def on_keys(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions on the keys that they have here."""
        return tuple(
            replace(action, key=self.keys.get(action.id, action.key)) for action in actions
        )

    def lines(self) -> Iterator[str]:
        """As a file has it, every action's key with what it does."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "theme" and value is None:
                yield '# theme = "srs-dark"  (the one chosen last in the app)'
            elif each.name != "keys":
                yield f"{each.name} = {json.dumps(value, ensure_ascii=False)}"
        yield ""
        yield "[keys]"
        actions = {action.id: action for each in SCREENS.values() for action in each}
        for action in self.on_keys(actions.values()):
            yield f"{f'{action.id} = {json.dumps(action.key)}':<40} # {action.help}"


def config_path() -> Path:
    return config_dir() / _FILE


def load_config(path: Path | None = None) -> Config:
    """The values of a file (the person's own if left out); the defaults where there is none.

    Raises InputError, naming the file and what is wrong with it.
    """
    path = path or config_path()
    try:
        content = content_of(path, _MOST_BYTES)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); mend or delete it.") from None
    try:
        given = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of thousands of digits
        raise InputError(f"{path} is no TOML ({error}); mend or delete it.") from None
    for name, value in given.items():
        if wrong := _wrong(name, value):
            raise InputError(f"{path}: {wrong}.")
    return Config(**given)


def _wrong(name: str, value: Any) -> str:
    """What is wrong with a setting; empty where nothing is."""
    from srs_eval.models.configurations import resolve

    if name not in _MUST_BE:
        return f"there is no setting {reprlib.repr(name)}, only {', '.join(_MUST_BE)}"
    try:
        msgspec.convert(value, get_type_hints(Config, include_extras=True)[name])
        if name == "models":
            resolve(value)
    except msgspec.ValidationError:
        return f"{name} must be {_MUST_BE[name]}, not {reprlib.repr(value)}"
    except InputError as error:
        return f"models: {str(error).rstrip('.?')}"
    return _wrong_keys(value) if name == "keys" else ""


def _wrong_keys(keys: Mapping[str, str]) -> str:
    actions = {action.id: action for each in SCREENS.values() for action in each}
    for name, key in keys.items():
        if name not in actions:
            return f"there is no action {name}, only {', '.join(actions)}"
        if not all(part.strip() for part in key.split(",")):
            return f"the key of {name} must be a name in quotes such as {actions[name].key!r}"
    return _conflict(keys)


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
        content = content_of((folder or state_dir()) / _STATE_FILE, _MOST_STATE_BYTES)
        state = msgspec.json.decode(content, type=State)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return State()
    return replace(state, hidden=tuple(each for each in FAMILIES if each in state.hidden))


def save_state(state: State, folder: Path | None = None) -> bool:
    """Write the state atomically; False where it cannot be written."""
    try:
        write_atomically(
            (folder or state_dir()) / _STATE_FILE, msgspec.json.encode(state), lasting=False
        )
    except (OSError, ValueError):  # also of a path that is no text
        return False
    return True
