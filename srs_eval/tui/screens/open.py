"""Show the first screen: recent files, the Anki profiles on this machine, or a path."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
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
from srs_eval.data.errors import format_count, printable
from srs_eval.report import formats
from srs_eval.tui.background import Background
from srs_eval.tui.config import RecentFile
from srs_eval.tui.screens.base import AppScreen, HarmlessHighlighter

_MAX_CANDIDATES = 200  # entries listed from one folder
_MAX_LOCAL_FILES = 8  # files offered from the working folder
_DEMO_KEY = "demo"
_LOCAL_HEADING = "In this folder"
_NO_PROFILE_HEADING = "No Anki profile was found in"
_DOT_FOLDERS: Mapping[str, list[str]] = {".": ["./", "../"], "..": ["../"]}
"""The current folder and the one above it, by what has been typed."""


def _expand_home(path: str) -> Path:
    """Return a path with the home folder for its ~, or unchanged if there is no such user."""
    return Path(os.path.expanduser(path))


def _complete_path(typed: str) -> list[str]:
    """Return the paths that begin with `typed`: folders (with a final slash), then files.

    Only files that srs-eval can open are returned, and hidden entries only if the last part of the
    path begins with a dot. Upper and lower case are alike in the last part of a path.
    """
    if not typed:
        return []
    slashed_path = typed.replace("\\", "/") if os.name == "nt" else typed
    folder, _, start = slashed_path.rpartition("/")
    if slashed_path == "~":
        return ["~/"]
    if not folder and not slashed_path.startswith("/"):
        prefix = ""
        folder_path = Path()
    else:
        prefix = f"{folder}/"
        folder_path = _expand_home(prefix)
    from srs_eval.anki_import import EXTENSIONS

    folders = []
    files = []
    try:
        with os.scandir(folder_path) as entries:
            for entry in entries:
                if not entry.name.lower().startswith(start.lower()):
                    continue
                if entry.name.startswith(".") and not start.startswith("."):
                    continue
                if entry.is_dir():
                    folders.append(f"{prefix}{entry.name}/")
                elif entry.name.lower().endswith(EXTENSIONS):
                    files.append(f"{prefix}{entry.name}")
    except (OSError, ValueError):  # unreadable folder, null character
        return []
    dot_folders = _DOT_FOLDERS.get(slashed_path, [])
    candidates = dot_folders + sorted(folders, key=str.lower) + sorted(files, key=str.lower)
    return candidates[:_MAX_CANDIDATES]


class _PathInput(Input):
    """Input of a path.

    Tab completes what all matches share, or else moves the focus on; ↓ goes to the list.
    """

    BINDINGS: ClassVar[list[Any]] = [
        Binding("tab", "complete", "Complete", show=False),
        Binding("down", "screen.to_list", "List", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(
            placeholder="a collection.anki2, .colpkg, .apkg, .revlog, .csv or .txt",
            highlighter=HarmlessHighlighter(),
            id="path",
            select_on_focus=False,
        )

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(_clean_pasted_path(event.text))

    def action_complete(self) -> None:
        common_start = _find_common_start(_complete_path(self.value))
        if len(common_start) > len(self.value):
            self.value = common_start
            self.cursor_position = len(common_start)
        else:
            self.screen.focus_next()


def _find_common_start(texts: list[str]) -> str:
    """Return the letters with which all texts begin; "" if there are no texts."""
    common_letters = []
    for letters in zip(*texts, strict=False):
        if len(set(letters)) > 1:
            break
        common_letters.append(letters[0])
    return "".join(common_letters)


class OpenScreen(AppScreen, actions="open"):
    """The screen where the user chooses a collection."""

    takes_letters = True

    def __init__(self) -> None:
        super().__init__()
        self._profiles: list[tuple[str, Path]] = []
        self._profile_facts: dict[Path, list[str]] = {}  # by the paths of profiles
        self._local_files: list[Path] = []
        self._searched_folders: list[Path] = []  # shown only if no profile was found

    def content(self) -> ComposeResult:
        with Vertical():
            yield Static(
                Text.assemble(
                    ("What should I change in Anki?\n", "bold"),
                    ("srs-eval reads your reviews and tells you. Choose a collection: srs-eval "
                     "never changes it, and nothing leaves this computer.", "dim"),
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
        self._update_choices()
        self.query_one("#choices").focus()
        self.call_after_refresh(self.app.preload_after_first_screen)  # type: ignore[attr-defined]
        self.call_after_refresh(self._start_search)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self._update_choices()

    def _start_search(self) -> None:
        """Start the search for collections on this machine, in a thread."""
        self._work = Background(self.session.call_in_view_thread)
        self._work.begin(self._search_collections, lambda error: None)

    def _search_collections(self, _: threading.Event) -> Generator[Callable[[], None]]:
        """Yield callbacks that show the collections found, then facts about each profile.

        A large profile takes a second or so.
        """
        profiles = self.session.find_profiles()
        yield partial(self._show_collections, profiles, _find_local_files())
        for _name, path in profiles:
            facts = _describe_profile(path, self.session.now())
            yield partial(self._add_profile_facts, path, facts)

    def _add_profile_facts(self, path: Path, facts: list[str]) -> None:
        self._profile_facts[path] = facts
        self._update_choices()

    def _show_collections(self, profiles: list[tuple[str, Path]], local_files: list[Path]) -> None:
        self._profiles = profiles
        self._local_files = local_files
        self._searched_folders = [] if profiles else self.session.profile_folders()
        if not self.session.state.recent:
            self.query_one(OptionList).highlighted = None  # the list now begins with another choice
        self._update_choices()

    def _update_choices(self) -> None:
        choices = self.query_one(OptionList)
        typed = self.query_one(_PathInput).value
        option_before = choices.highlighted_option
        id_before = option_before.id if option_before else None
        if typed:
            choices.border_title = "Matches"
            choices.set_options(self._build_completions(typed))
        else:
            choices.border_title = "Or choose"
            choices.set_options(self._build_choices())
        ids = [option.id for option in choices.options]
        if id_before and id_before in ids and not typed:
            choices.highlighted = ids.index(id_before)
        else:
            choices.highlighted = None
        if choices.highlighted is None:
            choices.action_first()

    def _build_completions(self, typed: str) -> list[Option]:
        """Return the paths that begin with the typed text, or a line that says there are none."""
        matching_paths = _complete_path(typed)
        if not matching_paths:
            return [Option(Text("no match", "dim"), disabled=True)]
        return [Option(Text(printable(path)), id=f"path:{path}") for path in matching_paths]

    def _build_choices(self) -> Iterator[Option]:
        """Yield what can be opened, grouped below headings."""
        width = max(self.size.width - 10, 40)
        now = self.session.now()
        if self.session.state.recent:
            yield _make_heading("Recent")
        for recent in self.session.state.recent:
            name = _shorten_path(recent.path, width // 2)
            facts = _describe_recent(recent, now)
            yield _make_choice(f"recent:{recent.path}", name, facts, width)

        if self._profiles:
            yield _make_heading("Anki profiles on this machine")
        for name, path in self._profiles:
            facts = [*self._profile_facts.get(path, ()), _shorten_path(str(path), width // 2)]
            yield _make_choice(f"profile:{path}", name, facts, width)

        listed_files = self._local_files[:_MAX_LOCAL_FILES]
        if listed_files:
            yield _make_heading(_LOCAL_HEADING)
        for path in listed_files:
            yield _make_choice(f"here:{path}", path.name, [], width)
        unlisted_count = len(self._local_files) - len(listed_files)
        if unlisted_count:
            note = f"  … and {unlisted_count} more: type ./ to see them"
            yield Option(Text(note, "dim"), disabled=True)

        if self._searched_folders:
            yield _make_heading(_NO_PROFILE_HEADING)
        for folder in self._searched_folders:
            folder_name = _shorten_path(printable(folder), width)
            yield Option(Text(f"  {folder_name}", "dim"), disabled=True)

        yield _make_heading("No collection at hand?")
        yield _make_choice(_DEMO_KEY, "Try a simulated learner", [], width)

    def action_to_list(self) -> None:
        self.query_one(OptionList).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._selected_recent_file() is not None if action == "forget" else True

    def _selected_recent_file(self) -> str | None:
        """Return the path of the recent file under the cursor, if there is one."""
        lists = self.query(OptionList)
        option = lists.first().highlighted_option if lists else None
        if option is None or option.id is None:
            return None
        kind, _, path = option.id.partition(":")
        return path if kind == "recent" else None

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self.refresh_bindings()

    def action_forget(self) -> None:
        path = self._selected_recent_file()
        if path is not None:
            self.session.forget(path)
            self._update_choices()

    def on_key(self, event: events.Key) -> None:
        """Type into the path wherever the focus is, except for ? and the space."""
        if event.character and event.is_printable and event.character not in "? ":
            event.stop()
            event.prevent_default()
            path = self.query_one(_PathInput)
            path.focus()
            path.insert_text_at_cursor(event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Replace the typed path with pasted or dragged text."""
        path = self.query_one(_PathInput)
        path.clear()
        path.focus()
        path.on_paste(event)

    @on(Input.Changed, "#path")
    def _typed(self) -> None:
        self._update_choices()

    @on(Input.Submitted, "#path")
    def _entered(self, event: Input.Submitted) -> None:
        path = _clean_pasted_path(event.value)
        if path:
            self._open_path(path)

    @on(OptionList.OptionSelected, "#choices")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        key = event.option_id or ""
        if key == _DEMO_KEY:
            self.session.open_file(paths.DEMO_FILE)
            return
        kind, _, name = key.partition(":")
        if kind == "path" and name.endswith("/"):
            path = self.query_one(_PathInput)
            path.value = name
            path.cursor_position = len(name)
            path.focus()
        elif name:
            self._open_path(name)

    def _open_path(self, path: str) -> None:
        self.session.open_file(_expand_home(path))

    def show_reading(self, text: str) -> None:
        """Show which file is being read; the text is "" when reading is done."""
        self.query_one("#reading", Static).update(Text(text))
        self.query_one(OptionList).loading = bool(text)


def _make_heading(heading: str) -> Option:
    return Option(Text(heading, "bold dim"), disabled=True)


def _make_choice(key: str, name: str, facts: list[str], width: int) -> Option:
    """Return a line of the list that can be chosen: a name, and facts in grey beside it."""
    note = formats.shorten_middle(printable(" · ".join(facts)), 2 * width // 3)
    shown_name = formats.shorten_middle(printable(name), width - cell_len(note) - 6)
    return Option(Text.assemble(f"  {shown_name}   ", (note, "dim")), id=key)


def _clean_pasted_path(text: str) -> str:
    """Return the path that a terminal or a file manager means by pasted or dragged text."""
    lines = text.strip().splitlines()
    if not lines:
        return ""
    path = lines[0].strip()
    if path.startswith("file://"):
        return unquote(path.removeprefix("file://"))
    if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"":
        return path[1:-1]
    if os.name != "nt" and not os.path.exists(path):
        return re.sub(r"\\(.)", r"\1", path)  # the terminal has escaped it with backslashes
    return path


def _describe_recent(recent: RecentFile, now: float) -> list[str]:
    facts = []
    if recent.entries:
        noun = "entry" if recent.entries == 1 else "entries"
        facts.append(f"{formats.format_number(recent.entries)} {noun}")
    facts.append(f"opened {_format_past_day(recent.opened, now)}")
    return facts


def _describe_profile(path: Path, now: float) -> list[str]:
    """Describe how many reviews a profile's collection holds and when it was last used."""
    from srs_eval.anki_import import preview_collection

    preview = preview_collection(path)
    if preview is None:
        return []
    facts = [format_count(preview.reviews, "review")]
    if preview.last is not None:
        facts.append(f"last review {_format_past_day(preview.last.timestamp(), now)}")
    return facts


def _find_local_files() -> list[Path]:
    """Return Anki's files in the working folder, most recently changed first."""
    from srs_eval.anki_import import ANKI_EXTENSIONS

    names = [name for name in _complete_path("./") if name.lower().endswith(ANKI_EXTENSIONS)]
    try:
        return sorted(map(Path, names), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _shorten_path(path: str, width: int) -> str:
    """Return a path with ~ for the home folder, cut at its start to `width` columns.

    The end of a path tells files and profiles apart.
    """
    home = str(Path.home())
    if home != "/" and path.startswith(f"{home}{os.sep}"):
        path = f"~{path[len(home) :]}"
    if cell_len(path) <= width:
        return path
    reversed_end = set_cell_size(path[::-1], width - 1)  # reversed, as it cuts texts at their ends
    return "…" + reversed_end[::-1]


def _format_past_day(moment_s: float, now_s: float) -> str:
    """Return how many days ago a moment (in Unix seconds) was, or its date after 60 days."""
    days = int((now_s - moment_s) // 86_400)
    if days < 2:
        return "yesterday" if days == 1 else "today"
    if days < 60:
        return f"{days} days ago"
    return time.strftime("%Y-%m-%d", time.localtime(moment_s))
