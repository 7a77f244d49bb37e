"""The first screen: recent files, the Anki profiles on this machine, or a path."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from srs_eval.data import paths
from srs_eval.data.errors import counted, printable
from srs_eval.report import formats as words
from srs_eval.tui.background import Background
from srs_eval.tui.config import Recent
from srs_eval.tui.screens.base import AppScreen, Harmless

_MOST = 200  # entries listed of one folder
_MOST_HERE = 8  # files offered of the working folder
_DEMO, _HERE = "demo", "In this folder"
_NO_PROFILE = "No Anki profile was found in"


def _expanded(path: str) -> Path:
    """Return a path with the home folder for its ~; as it is where there is no such person."""
    return Path(os.path.expanduser(path))


def _candidates(typed: str) -> list[str]:
    """Folders (with a final slash) and readable files whose paths begin with `typed`."""
    if not typed:
        return []
    folder, _, start = typed.replace("\\", "/" if os.name == "nt" else "\\").rpartition("/")
    if not folder and not typed.startswith(("/", "~", ".")):
        folder_path, prefix = Path(), ""
    else:
        prefix = f"{folder}/"
        folder_path = _expanded(prefix)
    from srs_eval.anki_import import ENDINGS

    folders, files = [], []
    try:
        with os.scandir(folder_path) as entries:
            for entry in entries:
                if not entry.name.lower().startswith(start.lower()):
                    continue
                if entry.name.startswith(".") and not start.startswith("."):
                    continue
                if entry.is_dir():
                    folders.append(f"{prefix}{entry.name}/")
                elif entry.name.lower().endswith(ENDINGS):
                    files.append(f"{prefix}{entry.name}")
    except (OSError, ValueError):  # unreadable, null character
        return []
    return [*sorted(folders, key=str.lower), *sorted(files, key=str.lower)][:_MOST]


class _PathInput(Input):
    """Tab completes what all that fits has in common, then goes on; ↓ goes to the list."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("tab", "complete", "Complete", show=False),
        Binding("down", "screen.to_list", "List", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(
            placeholder="a collection.anki2, .colpkg, .apkg, .revlog, .csv or .txt",
            highlighter=Harmless(),
            id="path",
            select_on_focus=False,
        )

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(_path_of(event.text))

    def action_complete(self) -> None:
        letters = zip(*_candidates(self.value), strict=False)
        common = "".join(each[0] for each in takewhile(lambda each: len({*each}) == 1, letters))
        if len(common) > len(self.value):
            self.value = common
            self.cursor_position = len(common)
        else:
            self.screen.focus_next()


class OpenScreen(AppScreen, actions="open"):
    """Lets the user choose a collection."""

    takes_letters = True

    def __init__(self) -> None:
        super().__init__()
        self._profiles: list[tuple[str, Path]] = []
        self._facts: dict[Path, list[str]] = {}  # about profiles
        self._here: list[Path] = []
        self._searched: list[Path] = []  # folders without an Anki profile, if none was found

    def content(self) -> ComposeResult:
        with Vertical():
            yield Static(
                Text.assemble(
                    ("How well can your forgetting be predicted?\n", "bold"),
                    ("Memory models are tried on your own reviews. Choose a collection: "
                     "it is only read, and nothing leaves this machine.", "dim"),
                ),
                id="welcome",
            )  # fmt: skip
            path = _PathInput()
            path.border_title = "Path"
            yield path
            choices = OptionList(id="choices")
            choices.border_title = "Or choose"
            yield choices
            yield Static("", id="reading")

    def on_mount(self) -> None:
        self._list()
        self.query_one("#choices").focus()
        self.call_after_refresh(self.app.first_screen_is_there)  # type: ignore[attr-defined]
        self.call_after_refresh(self._look_around)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self._list()

    def _look_around(self) -> None:
        """Look for collections on this machine, in a thread."""
        self._work = Background(self.session.later)
        self._work.begin(self._collections, lambda error: None)

    def _collections(self, _: threading.Event) -> Generator[Callable[[], None]]:
        """Find them, and what each profile's holds, which takes a second or so for a large one."""
        profiles = self.session.find_profiles()
        yield partial(self._found, profiles, _files_here())
        for _name, path in profiles:
            facts = _facts(path, self.session.now())
            yield partial(self._told, path, facts)

    def _told(self, path: Path, facts: list[str]) -> None:
        self._facts[path] = facts
        self._list()

    def _found(self, profiles: list[tuple[str, Path]], here: list[Path]) -> None:
        self._profiles, self._here = profiles, here
        self._searched = [] if profiles else self.session.profile_folders()
        if not self.session.state.recent:
            self.query_one(OptionList).highlighted = None  # the list begins with another choice now
        self._list()

    def _list(self) -> None:
        choices = self.query_one(OptionList)
        typed = self.query_one(_PathInput).value
        before = choices.highlighted_option.id if choices.highlighted_option else None
        choices.border_title = "What fits" if typed else "Or choose"
        found = [Option(Text(printable(path)), id=f"path:{path}") for path in _candidates(typed)]
        none = Option(Text("nothing here begins so", "dim"), disabled=True)
        choices.set_options((found or [none]) if typed else self._choices())
        ids = [option.id for option in choices.options]
        choices.highlighted = ids.index(before) if before and before in ids and not typed else None
        if choices.highlighted is None:
            choices.action_first()

    def _choices(self) -> Iterator[Option]:
        """What can be opened, below headings."""
        width, now = max(self.size.width - 10, 40), self.session.now()
        below: dict[str, list[tuple[str, str, list[str]]]] = {
            "Recent": [
                (f"recent:{each.path}", _tail(each.path, width // 2), _facts_of(each, now))
                for each in self.session.state.recent
            ],
            "Anki profiles on this machine": [
                (f"profile:{at}", name, [*self._facts.get(at, ()), _tail(str(at), width // 2)])
                for name, at in self._profiles
            ],
            _HERE: [(f"here:{path}", path.name, []) for path in self._here[:_MOST_HERE]],
            _NO_PROFILE: [],
            "No collection at hand?": [(_DEMO, "Try a simulated learner", [])],
        }
        for heading, choices in below.items():
            searched = self._searched if heading == _NO_PROFILE else []
            if choices or searched:
                yield Option(Text(heading, "bold dim"), disabled=True)
            for folder in searched:
                yield Option(Text(f"  {_tail(printable(folder), width)}", "dim"), disabled=True)
            for key, name, facts in choices:
                note = words.shortened(printable(" · ".join(facts)), 2 * width // 3)
                shown = words.shortened(printable(name), width - cell_len(note) - 6)
                yield Option(Text.assemble(f"  {shown}   ", (note, "dim")), id=key)
            if heading == _HERE and (more := len(self._here) - len(choices)):
                said = f"  … and {more} more: type ./ to see them"
                yield Option(Text(said, "dim"), disabled=True)

    def action_to_list(self) -> None:
        self.query_one(OptionList).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._recent() is not None if action == "forget" else True

    def _recent(self) -> str | None:
        """The path of the recent file under the cursor, if there is one."""
        lists = self.query(OptionList)
        option = lists.first().highlighted_option if lists else None
        kind, _, path = ((option and option.id) or "").partition(":")
        return path if kind == "recent" else None

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self.refresh_bindings()

    def action_forget(self) -> None:
        path = self._recent()
        if path is not None:
            self.session.forget(path)
            self._list()

    def on_key(self, event: events.Key) -> None:
        """What is typed is a path, wherever the focus is, but for ?."""
        if event.character and event.is_printable and event.character not in "? ":
            event.stop()
            event.prevent_default()
            path = self.query_one(_PathInput)
            path.focus()
            path.insert_text_at_cursor(event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Also of what is dragged here: another path than was typed."""
        path = self.query_one(_PathInput)
        path.clear()
        path.focus()
        path.on_paste(event)

    @on(Input.Changed, "#path")
    def _typed(self) -> None:
        self._list()

    @on(Input.Submitted, "#path")
    def _entered(self, event: Input.Submitted) -> None:
        if text := _path_of(event.value):
            self._open(text)

    @on(OptionList.OptionSelected, "#choices")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        key = event.option_id or ""
        if key == _DEMO:
            self.session.open_file(paths.DEMO_FILE)
            return
        kind, _, name = key.partition(":")
        if kind == "path" and name.endswith("/"):
            path = self.query_one(_PathInput)
            path.value = name
            path.cursor_position = len(name)
            path.focus()
        elif name:
            self._open(name)

    def _open(self, path: str) -> None:
        self.session.open_file(_expanded(path))

    def reading(self, words_: str) -> None:
        """Show what is being read; "" when done."""
        self.query_one("#reading", Static).update(Text(words_))
        self.query_one(OptionList).loading = bool(words_)


def _path_of(text: str) -> str:
    """The path that a terminal or a file manager means by what was pasted or dragged."""
    text = next(iter(text.strip().splitlines()), "").strip()
    if text.startswith("file://"):
        return unquote(text.removeprefix("file://"))
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    escaped = os.name != "nt" and not os.path.exists(text)
    return re.sub(r"\\(.)", r"\1", text) if escaped else text


def _facts_of(recent: Recent, now: float) -> list[str]:
    entries = [f"{words.count(recent.entries)} entries"] if recent.entries else []
    return [*entries, f"opened {_ago(now - recent.opened)}"]


def _facts(path: Path, now: float) -> list[str]:
    """How many reviews a profile's collection holds, and when it was used last."""
    from srs_eval.anki_import import glimpse

    seen = glimpse(path)
    if seen is None:
        return []
    last = [] if seen.last is None else [f"last {_ago(now - seen.last.timestamp())}"]
    return [counted(seen.reviews, "review"), *last]


def _files_here() -> list[Path]:
    """Anki's files in the working folder, the last changed first."""
    from srs_eval.anki_import import OWN_ENDINGS

    try:
        found = [Path(name) for name in _candidates("./") if name.lower().endswith(OWN_ENDINGS)]
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _tail(path: str, width: int) -> str:
    """The end of a path, which tells files and profiles apart."""
    home = str(Path.home())
    if home != "/" and path.startswith(f"{home}{os.sep}"):
        path = f"~{path[len(home) :]}"
    return path if cell_len(path) <= width else "…" + set_cell_size(path[::-1], width - 1)[::-1]


def _ago(seconds: float) -> str:
    days = int(seconds // 86_400)
    if days < 2:
        return "yesterday" if days == 1 else "today"
    if days < 60:
        return f"{days} days ago"
    return time.strftime("%Y-%m-%d", time.localtime(time.time() - seconds))
