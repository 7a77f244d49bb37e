"""What a person has settled once for all: `config.toml` in their folder of settings.

theme = "srs-light"          # one of the app's themes
rows = "anki"                # which reviews count: "benchmark" or "anki"
models = "fsrs,SM-2"         # what is evaluated unless --models says otherwise
equivalence = 0.002          # differences in log loss within this are too small to matter
reduced_motion = true        # nothing slides or fades

[keys]                       # actions of the app; `srs-eval config` lists them all
compare = "v"
cancel = "c,ctrl+x"
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
from srs_eval.data.paths import config_dir, content_of
from srs_eval.data.protocol import EQUIVALENT
from srs_eval.tui.screens.actions import SCREENS, Action, conflict

FILE = "config.toml"
_MOST_BYTES = 1 << 20
_MUST_BE = {
    "theme": "a name in quotes",
    "rows": "benchmark or anki",
    "models": "names in quotes",
    "equivalence": "a log loss from 0 to 1",
    "reduced_motion": "true or false",
    "keys": "a table of actions and their keys in quotes",
}


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
    return config_dir() / FILE


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
    return conflict(keys)
