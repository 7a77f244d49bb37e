"""Check and write the outputs of commands: files, folders, and `-` for stdout."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from srs_eval.data.errors import InputError, format_count, sanitize
from srs_eval.report.console import (
    get_width,
    make_console,
    open_in_browser,
    render_document,
    say,
)

if TYPE_CHECKING:
    from rich.console import Console

    from srs_eval.report.document import Document

_Target = TypeVar("_Target", str, Path, str | None, Path | None)


def make_absolute(target: _Target) -> _Target:
    """Return an output as an absolute path; `-` and None stay as they are.

    Commands call this before they load a model file, whose code may change the working folder.
    """
    if target is None or str(target) == "-":
        return target
    return type(target)(Path(target).expanduser().absolute())


@dataclass(frozen=True)
class Outputs:
    """Where to write a report in each form: a file, `-` for stdout, or a folder of files."""

    html: str | None = None
    md: str | None = None
    csv: Path | None = None
    png: Path | None = None
    json: str | None = None
    brief: bool = False  # --short, which is also a flag of the protocol
    open: bool = False
    tex: Path | None = None
    svg: Path | None = None
    pdf: Path | None = None
    inches: str | None = None

    @property
    def _folder_targets(self) -> dict[str, Path]:
        """Folders by the ending of the files that go there."""
        from srs_eval.report.files import FOLDER_FORMS

        targets = {form: getattr(self, form) for form in FOLDER_FORMS}
        return {form: folder for form, folder in targets.items() if folder is not None}

    @property
    def _markdown_target(self) -> str | None:
        """Target of the report's Markdown; --short prints it if no other target is given."""
        if self.md:
            return self.md
        return "-" if self.brief else None

    def check(self, *inputs: Path | None) -> None:
        """Refuse outputs that cannot be written; `inputs` are the files and folders read.

        Raises InputError.
        """
        check_targets(
            inputs, self.html, self._markdown_target, self.json, folders=self._folder_targets
        )
        self._picture_size()
        if self.open and self.html in (None, "-"):
            raise InputError("--open shows the page that --html writes: add --html FILE.")

    def _picture_size(self) -> list[float]:
        """Return the width and the height of pictures in inches, as far as they are given.

        Raises InputError.
        """
        lengths = [] if self.inches is None else self.inches.lower().split("x")
        try:
            size = list(map(float, lengths))
        except ValueError:
            size = [0.0]  # refused below
        if len(size) > 2 or not all(1 <= length <= 60 for length in size):
            raise InputError(f'--inches takes a size such as 6.5 or 6.5x4, not "{self.inches}".')
        return size

    def write(self, document: Document) -> None:
        """Write a report in the requested forms, or to the terminal if none is requested."""
        from srs_eval.report.files import render_as, write_document

        targets = {
            "html": self.html,
            "short" if self.brief else "md": self._markdown_target,
            "json": self.json,
        }
        for form, target in targets.items():
            if target is not None:
                write_output(target, render_as(document, form))
        files: list[Path] = []
        for form, folder in self._folder_targets.items():
            files += write_document(document, form, folder, self._picture_size())
        if files:
            say(f"{format_count(len(files), 'file')} written.")
        if self.open and self.html is not None:
            open_in_browser(Path(self.html))
        if self == Outputs():
            console = make_console(sys.stdout)
            console.print(render_document(document, get_width(console)))


def check_targets(
    inputs: Sequence[Path | None], *files: str | None, folders: Mapping[str, Path] | None = None
) -> None:
    """Raise InputError for outputs that cannot be written or would replace a file of the user's.

    Commands call this before their work. `inputs` are the files and folders that they read;
    `folders` maps the ending of files to their folder.
    """
    from srs_eval.data.outputs import check_outputs

    if files.count("-") > 1:
        raise InputError("Only one document can go to stdout: name files for the others.")
    folders = folders or {}
    for form, folder in folders.items():
        if folder == Path("-"):
            raise InputError(f"--{form} takes a folder: name one for the files.")
    file_paths = [Path(file).expanduser() for file in files if file is not None and file != "-"]
    input_paths = [path for path in inputs if path is not None]
    check_outputs(file_paths, list(folders.items()), input_paths)


def write_json_and_pick_console(target: str | None, document: Any) -> Console | None:
    """Write JSON if requested; return a console for text, or None if the JSON went to stdout."""
    from srs_eval.report.export import to_json

    if target is not None:
        write_output(target, to_json(document))
    return None if target == "-" else make_console(sys.stdout)


def write_output(target: str, text: str) -> None:
    """Write text in UTF-8 to a file, in one step, or to stdout for `-`."""
    if target == "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")
        sys.stdout.write(sanitize(text))
        sys.stdout.flush()
        return
    from srs_eval.data.outputs import write_file

    write_file(
        Path(target).expanduser(), text.encode("utf-8", "replace")
    )  # a path may not be UTF-8
