"""What a command leaves: its exit code, and what it writes to files and to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from srs_eval.cli.options import JsonOption, output_option
from srs_eval.data.errors import InputError, harmless

if TYPE_CHECKING:
    from rich.console import Console

    from srs_eval.report.document import Document

FINE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


_HtmlOption = Annotated[
    str | None,
    output_option(
        "Write a page that opens offline to a file, or to stdout with -.",
        "--html",
        metavar="FILE|-",
    ),
]
_MarkdownOption = Annotated[
    str | None,
    output_option("Write Markdown to a file, or to stdout with -.", "--md", metavar="FILE|-"),
]
_CsvFolderOption = Annotated[
    Path | None, output_option("Write every table to a folder.", "--csv", metavar="DIR")
]
_PngFolderOption = Annotated[
    Path | None, output_option("Write every picture to a folder.", "--png", metavar="DIR")
]


@dataclass(frozen=True)
class Outputs:
    """The forms of a report that are asked for: files, `-` for stdout, and folders."""

    html: _HtmlOption = None
    md: _MarkdownOption = None
    csv: _CsvFolderOption = None
    png: _PngFolderOption = None
    json: JsonOption = None

    def check(self, *read: Path | None) -> None:
        """Refuse what cannot be written; `read` is what the work is on. Raises InputError."""
        check_targets(read, self.html, self.md, self.json, csv=self.csv, png=self.png)

    def write(self, document: Document) -> None:
        """A report in the forms that were asked for; in the terminal's where none was."""
        from srs_eval.report.console import console_for, say
        from srs_eval.report.files import as_text, write_as

        for form, target in (("html", self.html), ("md", self.md), ("json", self.json)):
            if target is not None:
                write(target, as_text(document, form))
        written: list[Path] = []
        for form, folder in (("csv", self.csv), ("png", self.png)):
            if folder is not None:
                written += write_as(document, form, folder)
        if written:
            from srs_eval.data.errors import counted

            say(f"{counted(len(written), 'file')} written.")
        if self == Outputs():
            from srs_eval.report.terminal import document_text

            console = console_for(sys.stdout)
            console.print(document_text(document, console.width))


def table_outputs(
    html: _HtmlOption = None,
    md: _MarkdownOption = None,
    csv: _CsvFolderOption = None,
    json: JsonOption = None,
) -> Outputs:
    """The forms of a report without pictures."""
    return Outputs(html, md, csv, None, json)


def check_targets(
    read: Sequence[Path | None],
    *files: str | None,
    csv: Path | None = None,
    png: Path | None = None,
) -> None:
    """Refuse what cannot be written, or would cost a person a file, before the work.

    `read` is what the work is on. Raises InputError.
    """
    from srs_eval.data.paths import check_outputs

    if files.count("-") > 1:
        raise InputError("stdout can carry one document: give the others files.")
    folders = [(ending, path) for ending, path in (("csv", csv), ("png", png)) if path is not None]
    if Path("-") in (csv, png):
        raise InputError("--csv and --png take a folder: name one for the files.")
    named = [Path(each).expanduser() for each in files if each is not None and each != "-"]
    check_outputs(named, folders, [each for each in read if each is not None])


def json_and_console(target: str | None, document: Any) -> Console | None:
    """Write JSON if it is asked for; where the rest is shown, None where stdout has the JSON."""
    from srs_eval.report.console import console_for
    from srs_eval.report.export import to_json

    if target is not None:
        write(target, to_json(document))
    return None if target == "-" else console_for(sys.stdout)


def write(target: str, text: str) -> None:
    """To a file, in one step, or to stdout for `-`; UTF-8 in any locale."""
    if target == "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")
        sys.stdout.write(harmless(text))
        sys.stdout.flush()
        return
    from srs_eval.data.paths import write_file

    content = text.encode("utf-8", "replace")  # a path need not be text
    write_file(Path(target).expanduser(), content)
