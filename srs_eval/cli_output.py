"""What a command leaves: its exit code, and what it writes to files and to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.errors import InputError
from srs_eval.printable import harmless

if TYPE_CHECKING:
    from srs_eval.options import Source
    from srs_eval.report.document import Document

FINE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def check_targets(source: Source, *targets: str | None) -> None:
    """Refuse what cannot or must not be written, before anything is evaluated."""
    from srs_eval.report.files import check_target

    for target in targets:
        if target is not None and target != "-":
            check_target(Path(target).expanduser(), source.path)


def check_outputs(
    read: Sequence[Path],
    html: str | None,
    md: str | None,
    csv: Path | None,
    png: Path | None,
    json: str | None,
) -> None:
    """Refuse what cannot be written, or would be written into what is read, before the work."""
    from srs_eval.report.files import check_folder

    for target in (html, md, json):
        if target is None or target == "-":
            continue
        path = Path(target).expanduser()
        if path.is_dir():
            raise InputError(f'"{path}" is a folder: name a file in it.')
        if not path.parent.is_dir():
            raise InputError(f'"{path}" cannot be written: there is no folder "{path.parent}".')
        if path.exists() and path.suffix in (".jsonl", ".gz", ".anki2", ".colpkg", ".apkg"):
            raise InputError(f'"{path}" holds results and is not overwritten: name another file.')
        if any(path.resolve().is_relative_to(each.resolve()) for each in read):
            raise InputError(f'"{path}" lies in what the report is on: name a file elsewhere.')
    if [html, md, json].count("-") > 1:
        raise InputError("stdout can carry one of --html, --md and --json: give the others files.")
    for folder in (csv, png):
        if folder == Path("-"):
            raise InputError("--csv and --png take a folder: name one for the files.")
        if folder is not None:
            check_folder(folder)
        if folder is not None and any(
            folder.resolve().is_relative_to(each.resolve()) for each in read
        ):
            raise InputError(f'"{folder}" lies in what the report is on: name a folder elsewhere.')


def write_document(
    document: Document,
    html: str | None,
    md: str | None,
    csv: Path | None,
    png: Path | None,
    json: str | None,
) -> None:
    """A report in the forms that were asked for; in the terminal's where none was."""
    from srs_eval.console import console_for, say
    from srs_eval.report.files import as_text, write_as

    for form, target in (("html", html), ("md", md), ("json", json)):
        if target is not None:
            write(target, as_text(document, form))
    written: list[Path] = []
    for form, folder in (("csv", csv), ("png", png)):
        if folder is not None:
            written += write_as(document, form, folder)
    if written:
        from srs_eval.plural import counted

        say(f"{counted(len(written), 'file')} written.")
    if html is md is csv is png is json is None:
        from srs_eval.tables import document_text

        console = console_for(sys.stdout)
        console.print(document_text(document, console.width))


def write(target: str, text: str) -> None:
    """To a file, in one step, or to stdout for `-`; UTF-8 in any locale."""
    if target == "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")
        sys.stdout.write(harmless(text))
        sys.stdout.flush()
        return
    from srs_eval.store import write_atomically

    path = Path(target).expanduser()
    content = text.encode("utf-8", "replace")  # a path need not be text
    try:
        if path.exists() and (not path.is_file() or path.is_relative_to("/dev")):
            path.write_bytes(content)  # a pipe, a device, or /dev/stdout, whatever it is
        else:
            write_atomically(path.resolve(), content)
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror}).') from None
