"""Define actions and their keys; load the user's settings and the state kept between runs.

SCREEN_ACTIONS lists the actions of each screen, for bindings, footer, command palette and help.
A key means the same on every screen.

Settings are in `config.toml` in the user's settings folder:

theme = "srs-light"          # one of the app's themes
rows = "anki"                # which reviews count: "benchmark" or "anki"
models = "fsrs,SM-2"         # what is evaluated unless --models says otherwise
equivalence = 0.002          # smaller differences in log loss do not matter
fsrs_7 = true                # the program that schedules the cards can run FSRS-7
reduced_motion = true        # nothing slides or fades

[keys]                       # actions of the app; `srs-eval config` lists them all
compare = "v"
cancel = "c,ctrl+x"

The state (recent files, theme, last choices) is one small JSON file in the user's state folder.
A state file that cannot be understood is ignored, and where the folder cannot be written, nothing
is saved.
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
from srs_eval.data.file_contents import read_regular_file, write_atomically
from srs_eval.data.paths import config_dir, state_dir
from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.report.formats import FAMILIES

_CONFIG_FILE = "config.toml"
_STATE_FILE = "app.json"
DARK = "srs-dark"
LIGHT = "srs-light"
_MAX_RECENT_FILES = 8
_MAX_STATE_BYTES = 16 << 20
_MAX_UNIX_SECONDS = 253_402_300_799  # the last second of the year 9999
_MAX_CONFIG_BYTES = 1 << 20
_SETTING_DESCRIPTIONS = {
    "theme": "a name in quotes",
    "rows": "benchmark or anki",
    "models": "names in quotes",
    "equivalence": "a log loss from 0 to 1",
    "fsrs_7": "true or false",
    "reduced_motion": "true or false",
    "keys": "a table of actions and their keys in quotes",
}

_SETTING_COMMENTS = {
    "theme": "The colours: srs-dark, srs-light or a theme of Textual's, such as nord.",
    "rows": "Which reviews count: those of srs-benchmark (benchmark) or Anki's optimizer (anki).",
    "models": "The models to evaluate if --models does not name any.",
    "equivalence": "Differences in log loss up to this size do not matter.",
    "fsrs_7": "Whether your program can run FSRS-7. Forks of Anki that can run it are recognised "
    "anyway.",
    "reduced_motion": "If true, nothing slides or fades.",
}

_KEY_LABELS = {
    "question_mark": "?",
    "slash": "/",
    "escape": "Esc",
    "space": "Space",
    "enter": "Enter",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "f1": "F1",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}
"""Labels of keys whose names in Textual are unclear."""


@dataclass(frozen=True)
class Action:
    """Something the user can do on a screen."""

    name: str  # Textual's name: "evaluate" for `action_evaluate` of the screen, "app.quit"
    key: str  # Textual's names of its keys, separated by commas
    label: str  # in the footer and the palette
    help: str  # one sentence
    footer: bool = True  # False: not shown in the footer

    @property
    def id(self) -> str:
        """Return the name in config.toml, which has no prefix such as "app." or "screen."."""
        return self.name.rpartition(".")[2]

    @property
    def key_label(self) -> str:
        """Return the keys as help shows them."""
        keys = (_KEY_LABELS.get(key, key) for key in self.key.split(","))
        return " ".join(key.replace("ctrl+", "Ctrl-").replace("_", " ") for key in keys)


_CANCEL = Action("cancel", "c", "Cancel", "Stop what is still running; finished work is kept")
_EXPORT = Action("app.export", "x", "Export", "Write a report: HTML, Markdown, CSV, PNG or JSON")
_COPY = Action("copy", "y", "Copy", "Copy the parameters, ready to paste into Anki")
_TABLE = Action("table", "t", "Table", "Show the numbers behind the chart, or the chart again")
_BINS = Action("bins", "b", "Bins", "Change how many bins the calibration graph has: 10, 20 or 40")
_PREVIOUS = Action(
    "previous", "p,left_square_bracket", "Previous", "Go to the previous answer, model or tab"
)
_NEXT = Action("next", "n,right_square_bracket", "Next", "Go to the next answer, model or tab")
_SWITCH_ROWS = Action(
    "switch_rows",
    "R",
    "Reviews",
    "Switch between the benchmark's reviews and those of Anki's optimizer",
)
_FOLD = Action("fold", "a", "All or Anki's", "Show all models, or only those that Anki can use")
_COMPARE = Action(
    "compare",
    "v",
    "Compare",
    "Show two models side by side: the two marked ones, or your scheduler and this model",
)
_COMPARE_SCHEDULERS = replace(
    _COMPARE,
    label="SM-2, FSRS",
    help="Show what SM-2 and FSRS predicted, side by side",
    footer=False,
)
_OVERLAY = Action(
    "overlay", "l", "Overlay", "Draw another model's curves over these, or remove them again"
)
_BACK = Action("back", "escape", "Back", "Go back to the previous screen")

# On some screens these are left out of the footer.
_HIDDEN_EXPORT = replace(_EXPORT, footer=False)
_HIDDEN_BINS = replace(_BINS, footer=False)
_HIDDEN_PREVIOUS = replace(_PREVIOUS, footer=False)
_HIDDEN_SWITCH_ROWS = replace(_SWITCH_ROWS, footer=False)

SCREEN_ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "everywhere": (
        Action("screen.help", "question_mark,f1", "Help", "Explain this screen and its keys"),
        Action(
            "app.switch_light",
            "ctrl+t",
            "Dark or light",
            "Switch between dark and light",
            footer=False,
        ),
        Action(
            "app.command_palette",
            "ctrl+p",
            "All commands",
            "Search all commands",
            footer=False,
        ),
        Action("app.quit", "q", "Quit", "Stop everything and quit"),
    ),
    "open": (
        Action(
            "forget", "delete", "Forget", "Remove the selected file from the list of recent files"
        ),
    ),
    "answers": (
        _CANCEL,
        Action("again", "r", "Ask again", "Ask all questions again"),
        Action("details", "enter,d", "Why", "Show the evidence for the selected pane's answer"),
        _COPY,
        Action(
            "costs",
            "w",
            "Costs",
            "Show what a desired retention costs: reviews, minutes, cards known",
        ),
        Action(
            "ranking",
            "m",
            "Models",
            "Show the ranking of all models, which grows as models finish",
        ),
        _COMPARE_SCHEDULERS,
        _EXPORT,
        replace(_NEXT, label="More", help="Show the answers that have no pane, one after another"),
        Action(
            "import_summary",
            "i",
            "Import",
            "Show what was read from the file, and which reviews count",
        ),
        Action("choose", "P", "Presets", "Evaluate only some presets or decks, or all again"),
        Action(
            "untold",
            "u",
            "Not yet",
            "Show the questions that cannot be answered yet, and what is missing",
            footer=False,
        ),
        Action("close", "ctrl+o", "Open", "Close the file and choose another", footer=False),
        Action("back", "escape", "Stay", "Do nothing: the file stays open", footer=False),
    ),
    "evidence": (
        _COPY,
        replace(
            _TABLE, label="Figures", help="Show or hide the tables of figures behind the answers"
        ),
        _PREVIOUS,
        _NEXT,
        _HIDDEN_EXPORT,
        _BACK,
    ),
    "costs": (
        _HIDDEN_EXPORT,
        _BACK,
    ),
    "import_summary": (
        _CANCEL,
        Action("ranking", "m", "Models", "Let the models predict your reviews and rank the models"),
        _SWITCH_ROWS,
        _NEXT,
        _HIDDEN_PREVIOUS,
        _HIDDEN_EXPORT,
        _BACK,
    ),
    "run": (
        _CANCEL,
        Action("again", "r", "Run again", "Evaluate the models that were cancelled or failed"),
        Action("details", "enter,d", "Details", "Show everything about the selected model"),
        Action("filter", "slash", "Filter", "Show only models whose names contain what you type"),
        _FOLD,
        Action(
            "order",
            "o",
            "Order",
            "Sort by the next column; you can also click a heading",
            footer=False,
        ),
        Action(
            "families", "f", "Families", "Choose which families of models are shown", footer=False
        ),
        _HIDDEN_SWITCH_ROWS,
        Action("mark", "space", "Mark", "Mark the selected model for a comparison", footer=False),
        _COMPARE,
        _TABLE,
        _HIDDEN_BINS,
        _HIDDEN_EXPORT,
        _BACK,
    ),
    "details": (
        _CANCEL,
        _TABLE,
        _BINS,
        _HIDDEN_PREVIOUS,
        _NEXT,
        _COMPARE,
        Action(
            "errors",
            "e",
            "Errors",
            "Show where the model is wrong: by interval, lapses, hour, deck and more",
        ),
        _HIDDEN_EXPORT,
        _BACK,
    ),
    "errors": (
        _CANCEL,
        _OVERLAY,
        _HIDDEN_EXPORT,
        _BACK,
    ),
    "compare": (
        _CANCEL,
        _TABLE,
        _BINS,
        Action("swap", "s", "Swap", "Swap left and right"),
        Action("left_model", "less_than_sign", "Left", "Choose the model on the left"),
        Action("right_model", "greater_than_sign", "Right", "Choose the model on the right"),
        _HIDDEN_EXPORT,
        _BACK,
    ),
}
"""Actions by screen, in the order of footer, palette and help; screens are named as in help.md."""
GLOBAL_ACTIONS = SCREEN_ACTIONS["everywhere"]


def _collect_actions_by_id() -> dict[str, Action]:
    """Return one action for each id, by which config.toml sets the keys on all screens."""
    actions_by_id: dict[str, Action] = {}
    for actions in SCREEN_ACTIONS.values():
        for action in actions:
            actions_by_id[action.id] = action
    return actions_by_id


def _find_key_conflict(keys: Mapping[str, str]) -> str:
    """Describe two actions of one screen that would share a key; return "" where none do.

    `keys` holds the keys that differ from the defaults, by the ids of actions.
    """
    for actions in SCREEN_ACTIONS.values():
        action_by_key: dict[str, Action] = {}
        for action in (*actions, *GLOBAL_ACTIONS):
            for name in keys.get(action.id, action.key).split(","):
                key = name.strip()
                first_action = action_by_key.setdefault(key, action)
                if first_action.id != action.id:
                    return f'"{key}" is the key of both {first_action.id} and {action.id}'
    return ""


def make_bindings(actions: Iterable[Action]) -> list[Any]:
    """Return Textual's bindings for the actions."""
    from textual.binding import Binding

    return [
        Binding(
            action.key,
            action.name,
            action.label,
            show=action.footer,
            key_display=_KEY_LABELS.get(action.key.partition(",")[0]),
            id=action.id,
        )
        for action in actions
    ]


@dataclass(frozen=True)
class Config:
    """The user's settings; a setting that config.toml lacks has its default."""

    theme: Annotated[str, msgspec.Meta(min_length=1)] | None = None  # None: the theme chosen last
    rows: Literal["benchmark", "anki"] = "benchmark"
    models: Annotated[str, msgspec.Meta(min_length=1)] = "all"
    equivalence: Annotated[float, msgspec.Meta(ge=0, lt=1)] = EQUIVALENCE_MARGIN
    fsrs_7: bool = False
    reduced_motion: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that differ from the defaults, by the ids of actions, as Textual writes them."""

    def with_keys(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """Return the actions with the keys of these settings."""
        return tuple(
            replace(action, key=self.keys.get(action.id, action.key)) for action in actions
        )

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of a config file, with every action's key and help."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name == "theme" and value is None:
                yield '# theme = "srs-dark"  (the one chosen last in the app)'
            elif setting.name != "keys":
                yield f"{setting.name} = {json.dumps(value, ensure_ascii=False)}"
        yield ""
        yield "[keys]"
        for action in self.with_keys(_collect_actions_by_id().values()):
            setting_line = f"{action.id} = {json.dumps(action.key)}"
            yield f"{setting_line:<40} # {action.help}"


def write_commented_config(path: Path) -> None:
    """Write a settings file in which every setting is explained and has its default.

    Raises InputError if there is a file already, or if it cannot be written.
    """
    if path.exists():
        raise InputError(f'"{path}" already exists; it was not changed.')
    lines = ["# The settings of srs-eval. Remove the # before a setting to change it.", ""]
    defaults = Config(theme=DARK)
    for name, comment in _SETTING_COMMENTS.items():
        value = json.dumps(getattr(defaults, name), ensure_ascii=False)
        lines += [f"# {comment}", f"# {name} = {value}", ""]
    lines += ["# Keys of the app, as Textual names them.", "[keys]"]
    for action in _collect_actions_by_id().values():
        setting_line = f"# {action.id} = {json.dumps(action.key)}"
        lines.append(f"{setting_line:<42} # {action.help}")
    text = "\n".join(lines) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode("utf-8"))
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror}).') from None


def config_path() -> Path:
    """Return the path of the user's settings file."""
    return config_dir() / _CONFIG_FILE


def load_config(path: Path | None = None) -> Config:
    """Load the settings of a file, by default the user's; defaults apply if it is missing.

    Raises:
        InputError: The file is not valid; the message names it and says what is wrong.
    """
    path = path or config_path()
    try:
        content = read_regular_file(path, _MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); fix or delete it.") from None
    try:
        settings = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # invalid TOML or UTF-8, thousands of digits
        raise InputError(f"{path} is not TOML ({error}); fix or delete it.") from None
    for name, value in settings.items():
        problem = _find_setting_error(name, value)
        if problem:
            raise InputError(f"{path}: {problem}.")
    return Config(**settings)


def _find_setting_error(name: str, value: Any) -> str:
    """Describe what is wrong with a setting; return "" if it is valid."""
    from srs_eval.models.configurations import resolve_configurations

    if name not in _SETTING_DESCRIPTIONS:
        return f"there is no setting {reprlib.repr(name)}, only {', '.join(_SETTING_DESCRIPTIONS)}"
    setting_types = get_type_hints(Config, include_extras=True)
    try:
        msgspec.convert(value, setting_types[name])
        if name == "models":
            resolve_configurations(value)
    except msgspec.ValidationError:
        return f"{name} must be {_SETTING_DESCRIPTIONS[name]}, not {reprlib.repr(value)}"
    except InputError as error:
        return f"models: {str(error).rstrip('.?')}"
    if name == "keys":
        return _find_key_error(value)
    return ""


def _find_key_error(keys: Mapping[str, str]) -> str:
    """Describe what is wrong with the keys of actions; return "" if they are valid."""
    actions_by_id = _collect_actions_by_id()
    for action_id, action_keys in keys.items():
        if action_id not in actions_by_id:
            return f"there is no action {action_id}, only {', '.join(actions_by_id)}"
        if not all(key.strip() for key in action_keys.split(",")):
            example = actions_by_id[action_id].key
            return f"the key of {action_id} must be a name in quotes such as {example!r}"
    return _find_key_conflict(keys)


@dataclass(frozen=True)
class RecentFile:
    """A file that was opened."""

    path: Annotated[str, msgspec.Meta(pattern=r"^[^\0]+$")]
    opened: Annotated[float, msgspec.Meta(ge=0, le=_MAX_UNIX_SECONDS)] = 0.0  # Unix seconds
    entries: Annotated[int, msgspec.Meta(ge=0)] = 0


@dataclass(frozen=True)
class State:
    """Everything that is kept between runs; the defaults apply at the first start."""

    recent: tuple[RecentFile, ...] = ()  # latest first
    theme: str = DARK
    dark_theme: str = DARK  # the theme that switching to dark chooses
    light_theme: str = LIGHT
    bins: Annotated[int, msgspec.Meta(ge=2, le=100)] = 40  # of calibration graphs
    order: str = "place"  # one of `ranking_columns.SORT_KEYS`, or an older version's
    backwards: bool = False
    filter: str = ""  # words that a model's name must contain
    hidden: tuple[str, ...] = ()  # families that are not shown
    shows_all_models: bool = False  # False: models that Anki cannot use are folded

    def with_opened(self, path: Path, entries: int, now: float) -> State:
        """Return this state with `path` as the latest file."""
        name = str(path.absolute())
        older_files = self.without_file(name).recent[: _MAX_RECENT_FILES - 1]
        return replace(self, recent=(RecentFile(name, now, entries), *older_files))

    def without_file(self, path: str) -> State:
        """Return this state without `path` among the recent files."""
        return replace(self, recent=tuple(file for file in self.recent if file.path != path))


def load_state(folder: Path | None = None) -> State:
    """Return the stored state, or the defaults where it cannot be read."""
    try:
        content = read_regular_file((folder or state_dir()) / _STATE_FILE, _MAX_STATE_BYTES)
        state = msgspec.json.decode(content, type=State)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return State()
    # Another version may have hidden families that this version does not know.
    return replace(state, hidden=tuple(family for family in FAMILIES if family in state.hidden))


def save_state(state: State, folder: Path | None = None) -> bool:
    """Write the state atomically; return whether that was possible."""
    try:
        path = (folder or state_dir()) / _STATE_FILE
        write_atomically(path, msgspec.json.encode(state), durable=False)
    except (OSError, ValueError):  # ValueError: a path is not valid text
        return False
    return True
