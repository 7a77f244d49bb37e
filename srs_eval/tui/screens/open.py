"""The first screen: recent files, the Anki profiles on this machine, or a path."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from srs_eval.data.errors import counted
from srs_eval.data.printable import harmless, printable
from srs_eval.report import formats as words
from srs_eval.tui.screens.actions import OPEN, bindings
from srs_eval.tui.screens.base import AppScreen, Harmless
from srs_eval.tui.state import Recent

_MOST = 200  # entries listed of one folder
_FEWEST_HERE = 3  # files of the working folder, in however low a window
_DEMO = "demo"


def _candidates(typed: str) -> list[str]:
    """Folders (with a final slash) and readable files whose paths begin with `typed`."""
    if not typed:
        return []
    folder, _, start = typed.replace("\\", "/" if os.name == "nt" else "\\").rpartition("/")
    if not folder and not typed.startswith(("/", "~", ".")):
        folder_path, prefix = Path(), ""
    else:
        prefix = f"{folder}/"
        folder_path = Path(prefix).expanduser()
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
    except (OSError, RuntimeError, ValueError):  # unreadable, unknown ~user, null character
        return []
    return [*sorted(folders, key=str.lower), *sorted(files, key=str.lower)][:_MOST]


class _PathSuggester(Suggester):
    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        for candidate in _candidates(value):
            if candidate.startswith(value) and value != candidate == harmless(candidate):
                return candidate
        return None


def _common_start(one: str, other: str) -> str:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return one[:place]
    return min(one, other, key=len)


class PathInput(Input):
    """Tab and → accept the suggestion; ↓ goes to the list."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("tab", "complete", "Complete", show=False),
        Binding("down", "screen.to_list", "List", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(
            placeholder="a collection.anki2, .colpkg, .apkg, .revlog, .csv or .txt",
            suggester=_PathSuggester(),
            highlighter=Harmless(),
            id="path",
            select_on_focus=False,
        )

    def action_complete(self) -> None:
        found = _candidates(self.value)
        # The common prefix of all is that of the first and the last in order.
        common = _common_start(min(found), max(found)) if found else ""
        if len(common) > len(self.value):
            self.value = common
            self.cursor_position = len(common)
        elif found and self._suggestion and self._suggestion != self.value:
            self.value = self._suggestion
            self.cursor_position = len(self.value)
        else:
            self.screen.focus_next()


class OpenScreen(AppScreen):
    """Lets the user choose a collection."""

    actions = OPEN
    BINDINGS = bindings(OPEN)
    about = """
Choose a collection. It is only read, never changed, and it may be open in Anki.

Recent files and the Anki profiles on this machine are in the list; ↑ ↓ and Enter \
or a click open one. Or type a path: Tab completes it, the list shows what fits, \
Enter opens it. Nothing leaves this machine, and card contents are not read.
"""

    def __init__(self) -> None:
        super().__init__()
        self._profiles: list[_Found] = []
        self._here: list[_Found] = []
        self._reading = False

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
            path = PathInput()
            path.border_title = "Path"
            yield path
            choices = OptionList(id="choices")
            choices.border_title = "Or choose"
            yield choices
            yield Static("", id="reading")

    def on_mount(self) -> None:
        self._list()
        self.query_one("#choices").focus()
        self.call_after_refresh(self._is_there)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self._list()

    def on_resize(self) -> None:
        if self._here:  # how many of them are listed
            self.call_after_refresh(self._list)

    def _is_there(self) -> None:
        self._find_profiles()
        self.app.first_screen_is_there()  # type: ignore[attr-defined]

    @work(thread=True, exit_on_error=False, group="profiles")
    def _find_profiles(self) -> None:
        found = [_Found(name, path) for name, path in self.session.find_profiles()]
        here = [_Found(path.name, path) for path in _files_here()]
        self.app.call_from_thread(self._found, found, here)
        for place, profile in enumerate(found):  # a second or so for a large collection
            found[place] = replace(profile, facts=_facts(profile.path, self.session.now()))
            self.app.call_from_thread(self._found, list(found), here)

    def _found(self, found: list[_Found], here: list[_Found]) -> None:
        first = not self._profiles
        self._profiles, self._here = found, here
        if not first:
            self._list()
            return
        if not self.session.state.recent:
            self.query_one(OptionList).highlighted = None  # the list begins with another choice now
        self._list()

    def _list(self) -> None:
        choices = self.query_one(OptionList)
        typed = self.query_one(PathInput).value
        highlighted = choices.highlighted_option.id if choices.highlighted_option else None
        choices.clear_options()
        if typed:
            choices.border_title = "What fits"
            found = _candidates(typed)
            choices.add_options(
                Option(Text(printable(candidate)), id=f"path:{candidate}") for candidate in found
            )
            if not found:
                choices.add_option(Option(Text("nothing here begins so", "dim"), disabled=True))
        else:
            choices.border_title = "Or choose"
            choices.add_options(self._choices(choices.size.height))
        if highlighted is not None and not typed:
            for place, option in enumerate(choices.options):
                if option.id == highlighted:
                    choices.highlighted = place
        if choices.highlighted is None:
            choices.action_first()

    def _choices(self, height: int) -> Iterable[Option | None]:
        """What can be opened, without scrolling where that can be, in a list of this height."""
        width = max(self.size.width - 10, 40)
        latest: dict[str, Recent] = {}
        for each in self.session.state.recent:
            latest.setdefault(_whose(each.path), each)
        recents = list(latest.values())
        if recents:
            yield Option(Text("Recent", "bold dim"), disabled=True)
            names = told_apart([_home(recent.path) for recent in recents], width // 2)
            for recent, name in zip(recents, names, strict=True):
                facts = [f"{words.count(recent.entries)} entries"] if recent.entries else []
                facts.append(f"opened {_ago(self.session.now() - recent.opened)}")
                yield self._option(f"recent:{recent.path}", name, facts, width)
        if self._profiles:
            yield Option(Text("Anki profiles on this machine", "bold dim"), disabled=True)
            paths = [_home(str(profile.path)) for profile in self._profiles]
            for profile, path in zip(self._profiles, told_apart(paths, width // 2), strict=True):
                facts = [*profile.facts, path]
                yield self._option(f"profile:{profile.path}", profile.name, facts, width)
        if self._here:
            yield Option(Text("In this folder", "bold dim"), disabled=True)
            parts = [part for part in (recents, self._profiles) if part]
            free = height - sum(1 + len(part) for part in parts) - 3  # headings, and the demo
            most = max(free, _FEWEST_HERE)
            shown = self._here if len(self._here) <= most else self._here[: most - 1]
            for file in shown:
                yield self._option(f"here:{file.path}", file.name, list(file.facts), width)
            if len(shown) < len(self._here):
                more = f"  … and {len(self._here) - len(shown)} more: type ./ to see them"
                yield Option(Text(more, "dim"), disabled=True)
        yield Option(Text("No collection at hand?", "bold dim"), disabled=True)
        yield Option(Text("  Try a simulated learner"), id=_DEMO)

    def _option(self, key: str, name: str, facts: list[str], width: int) -> Option:
        note = printable(" · ".join(facts))
        note = words.shortened(note, max(2 * width // 3, 12))
        name = words.shortened(printable(_home(name)), width - len(note) - 6)
        return Option(Text.assemble(f"  {name}   ", (note, "dim")), id=key)

    def action_browse(self) -> None:
        self.query_one(PathInput).focus()

    def action_to_list(self) -> None:
        self.query_one(OptionList).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._recent() is not None if action == "forget" else True

    def _recent(self) -> str | None:
        """The path of the recent file under the cursor, if there is one."""
        lists = self.query(OptionList)
        option = lists.first().highlighted_option if lists else None
        kind, _, path = (option.id or "").partition(":") if option is not None else ("", "", "")
        return path if kind == "recent" else None

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self.refresh_bindings()

    def action_forget(self) -> None:
        path = self._recent()
        if path is not None:
            self.session.forget(path)
            self._list()

    @on(Input.Changed, "#path")
    def _typed(self) -> None:
        self._list()

    @on(Input.Submitted, "#path")
    def _entered(self, event: Input.Submitted) -> None:
        text = event.value.strip().strip('"').removeprefix("file://")
        if text:
            self._open(Path(text).expanduser() if text.startswith("~") else Path(text))

    @on(OptionList.OptionSelected, "#choices")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        key = event.option_id or ""
        if key == _DEMO:
            self.session.open_demo()
            return
        kind, _, name = key.partition(":")
        if kind == "path" and name.endswith("/"):
            path = self.query_one(PathInput)
            path.value = name
            path.cursor_position = len(name)
            path.focus()
        elif name:
            self._open(Path(name).expanduser() if name.startswith("~") else Path(name))

    def _open(self, path: Path) -> None:
        self.session.open_file(path)

    def reading(self, words_: str) -> None:
        """Show what is being read; "" when done."""
        self.query_one("#reading", Static).update(Text(words_))
        self.query_one(OptionList).loading = bool(words_)


@dataclass(frozen=True)
class _Found:
    """A collection that is offered."""

    name: str
    path: Path
    facts: tuple[str, ...] = ()


def _whose(path: str) -> str:
    """The profile's folder: it may be opened by that, or by its collection."""
    return path.removesuffix(f"{os.sep}collection.anki2")


def _facts(path: Path, now: float) -> tuple[str, ...]:
    """How many reviews a profile's collection holds, and when it was used last."""
    from srs_eval.anki_import import glimpse

    seen = glimpse(path)
    if seen is None:
        return ()
    last = () if seen.last is None else (f"last {_ago(now - seen.last.timestamp())}",)
    return (counted(seen.reviews, "review"), *last)


def _files_here() -> list[Path]:
    """Anki's files in the working folder, the last changed first."""
    from srs_eval.anki_import import OWN_ENDINGS

    try:
        found = [Path(name) for name in _candidates("./") if name.lower().endswith(OWN_ENDINGS)]
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def told_apart(paths: Sequence[str], width: int) -> list[str]:
    """Paths cut to `width`, so that no two different ones look the same where that can be."""
    shown = [words.shortened(path, width) for path in paths]
    for place, path in enumerate(paths):
        alike = [o for o in paths if o != path and words.shortened(o, width) == shown[place]]
        if alike:  # they differ in what was cut away
            differ = min(len(_common_start(path, other)) for other in alike)
            begin = path.rfind(os.sep, 0, differ) + 1
            shown[place] = words.shortened(f"…{os.sep}{path[begin:]}", width)
    return shown


def _home(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}{os.sep}") else path


def _ago(seconds: float) -> str:
    days = int(seconds // 86_400)
    if days < 1:
        return "today"
    if days == 1:
        return "yesterday"
    return (
        f"{days} days ago"
        if days < 60
        else time.strftime("%Y-%m-%d", time.localtime(time.time() - seconds))
    )
