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

import reprlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from srs_eval.data.errors import InputError
from srs_eval.data.paths import config_dir, content_of
from srs_eval.data.protocol import EQUIVALENT
from srs_eval.tui.screens.actions import SCREENS, Action, conflict

FILE = "config.toml"
_MOST_BYTES = 1 << 20
_MOST_TOLD = 500  # letters about what is wrong


@dataclass(frozen=True)
class Config:
    """Values in force; the defaults are those without a file."""

    theme: str | None = None  # None: the one chosen last
    rows: str = "benchmark"
    models: str = "all"
    equivalence: float = EQUIVALENT
    reduced_motion: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of actions, as Textual writes them, where they are not the usual ones."""

    def on_keys(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions on the keys that they have here."""
        return tuple(action.on_key(self.keys.get(action.id)) for action in actions)

    def lines(self) -> Iterator[str]:
        """As a file has it, every action's key with what it does."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "theme" and value is None:
                yield '# theme = "srs-dark"  (the one chosen last in the app)'
            elif each.name != "keys":
                yield f"{each.name} = {_toml(value)}"
        yield ""
        yield "[keys]"
        told = set()
        for actions in SCREENS.values():
            for action in actions:
                if action.id not in told:
                    told.add(action.id)
                    key = self.keys.get(action.id, action.key)
                    yield f"{f'{action.id} = {_toml(key)}':<40} # {action.help}"


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
        wrong = _wrong(name, value)
        if wrong:
            raise InputError(f"{path}: {wrong[:_MOST_TOLD]}.")
    return Config(**given)


def _wrong(name: str, value: Any) -> str:
    """What is wrong with a setting; empty where nothing is."""
    known = [each.name for each in fields(Config)]
    if name not in known:
        return f"there is no setting {name}, only {', '.join(known)}"
    if name == "rows" and value not in ("benchmark", "anki"):
        return f"rows must be benchmark or anki, not {_shown(value)}"
    if name in ("theme", "models") and not (isinstance(value, str) and value):
        return f"{name} must be a name in quotes, not {_shown(value)}"
    if name == "models":
        from srs_eval.models.configurations import resolve

        try:
            resolve(value)
        except InputError as error:
            return f"models: {str(error).rstrip('.?')}"
    if name == "equivalence":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < 1:  # as no NaN is
            return f"equivalence must be a log loss from 0 to 1, not {_shown(value)}"
    if name == "reduced_motion" and not isinstance(value, bool):
        return f"reduced_motion must be true or false, not {_shown(value)}"
    return _wrong_keys(value) if name == "keys" else ""


def _shown(value: Any) -> str:
    """A value as Python writes it, its middle left out where it is long."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no number of so many digits
        return "a number of thousands of digits"


def _wrong_keys(value: Any) -> str:
    if not isinstance(value, dict):
        return "[keys] must be a table of actions and their keys"
    actions = {action.id: action for each in SCREENS.values() for action in each}
    for name, key in value.items():
        if name not in actions:
            return f"there is no action {name}, only {', '.join(actions)}"
        if not isinstance(key, str) or not all(part.strip() for part in key.split(",")):
            return f"the key of {name} must be a name in quotes such as {actions[name].key!r}"
    return conflict(value)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
