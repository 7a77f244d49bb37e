"""What the command line prints of results, documents, models and data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich import table as rich_table
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from srs_eval.data.dataset_hub import Description
from srs_eval.data.errors import counted
from srs_eval.engine.ranking import Group
from srs_eval.report.document import Column, Document, Figure, Picture, Section, Table, table_of
from srs_eval.report.export import ranking_table

_ELSEWHERE = "--html, --md and --csv"  # where columns are that do not fit
_LONGEST_CELL = 40
_LEAST_NAME = 14  # of a column that folds
_INPUTS = {
    "IL": "interval lengths in days",
    "FIL": "interval lengths in fractions of a day",
    "G": "grades",
    "SR": "reviews of the same day",
    "AT": "answer times",
}


def run_table(group: Group, width: int) -> RenderableType:
    """The ranking on one set of reviews, the floor as a line between the places."""
    table = ranking_table(group)
    model, place, *others = table.columns
    table = replace(table, columns=(model, replace(place, title="#"), *others))
    return Lines(*table_text(table, width, gap=1), Text(group.answer), "")


def document_text(document: Document, width: int) -> RenderableType:
    """A report's sentences and tables; what is folded on a page is left out.

    Of a table that is too wide the last columns are left out, and that is told.
    """
    parts: list[RenderableType] = [Text(document.title, "bold"), ""]
    parts += [Text(sentence) for sentence in document.lead]
    for section in document.sections:
        parts += _section_text(section, width)
    return Lines(*parts)


def _section_text(
    section: Section, width: int, elsewhere: str = _ELSEWHERE
) -> list[RenderableType]:
    if section.folded:
        return []
    parts: list[RenderableType] = ["", Text(section.title, "bold underline")]
    for block in section.blocks:
        table = block.table if isinstance(block, Picture) else block
        if isinstance(table, str):
            parts += ["", Text(table)]
        elif isinstance(table, Table) and table.shown:
            parts += ["", *table_text(table, width, elsewhere=elsewhere)]
        elif isinstance(table, Section):
            parts += _section_text(table, width, elsewhere)
    return parts


def leaderboard_text(section: Section, width: int, folder: Path) -> RenderableType:
    """A section of `report.comparison.leaderboards` of a folder."""
    return Lines(*_section_text(section, width, f"`srs-eval report {folder}`"))


def table_text(
    table: Table, width: int, *, gap: int = 2, elsewhere: str | None = _ELSEWHERE
) -> list[RenderableType]:
    """A table below its title.

    Where some columns can give room they do; else the last are left out, and it is told where
    they are. Without `elsewhere` all give room.
    """
    made = rich_table.Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0)
    )
    texts, right = table.texts(), table.right
    wide = [k for k, column in enumerate(table.columns) if width >= column.from_width]
    can_give = elsewhere is None or any(table.columns[k].gives for k in wide)
    room = width
    shown: list[int] = []
    for k in wide:
        column = table.columns[k]
        longest = max((len(row[k]) for row in texts), default=0)
        room -= min(max(len(column.title), longest), _LONGEST_CELL) + gap
        if len(shown) >= 2 and room < 0 and not can_give:
            break
        folds = column.gives == "fold" or (longest > _LONGEST_CELL and not can_give)
        made.add_column(
            Text(column.title),
            justify="right" if right[k] else "left",
            overflow="fold",
            no_wrap=elsewhere is not None and not folds and not column.gives,
            min_width=min(_LEAST_NAME, width // 2) if column.gives == "fold" else None,
            max_width=_LONGEST_CELL if folds and not column.gives else None,
        )
        shown.append(k)
    cuts = [column.gives == "cut" for column in table.columns]
    for number, (row, cells) in enumerate(zip(table.rows, texts, strict=True)):
        strong = [isinstance(cell, Figure) and cell.strong for cell in row]
        made.add_row(
            *(
                Text(
                    cells[k],
                    "bold" if strong[k] else "",
                    no_wrap=cuts[k] or None,
                    overflow="ellipsis" if cuts[k] else None,
                )
                for k in shown
            ),
            style="dim" if number in table.faint else None,
        )
    parts: list[RenderableType] = [Text(table.title, "bold")] if table.title else []
    parts.append(made)
    if left_out := len(wide) - len(shown):
        parts.append(Text(f"{counted(left_out, 'column')} more in {elsewhere}", "dim"))
    return parts


def facts_text(facts: Iterable[tuple[str, str]]) -> rich_table.Table:
    """What is known of something, a line each."""
    made = rich_table.Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    for what, told in facts:
        made.add_row(what, Text(told))
    return made


def dataset_lines(found: Description) -> list[str]:
    """A data set in a few lines of plain text."""
    layout = "anki-revlogs-10k" if found.layout == "parquet" else "FSRS-Anki-20k"
    lines = [
        f"{found.folder}: {found.layout} in the layout of {layout}",
        f"users     {len(found.users):,}, {found.users[0]} to {found.users[-1]}",
    ]
    known = sorted(found.known_reviews.tolist())
    if known:
        lines.append(
            f"reviews   {sum(known):,}; a user {known[0]:,} to {known[-1]:,}, half have "
            f"{known[len(known) // 2]:,} or more"
        )
    sizes = [f"{name} {size / 1e6:,.1f} MB" for name, size in found.table_bytes.items() if size]
    lines.append(f"on disk   {', '.join(sizes)}")
    lacking = []
    if unread := len(found.users) - len(known):
        lacking.append(
            f"{counted(unread, 'user')} whose file cannot be read (`srs-eval dataset verify`)"
        )
    for table, users in found.without.items():
        if users:
            whose = "all users" if len(users) == len(found.users) else counted(len(users), "user")
            lacking.append(f"{table} of {whose}")
    if found.gaps:
        spans = [str(a) if a == b else f"{a}-{b}" for a, b in found.gaps[:5]]
        more = " and more" if len(found.gaps) > len(spans) else ""
        lacking.append(f"the ids {', '.join(spans)}{more}")
    return [*lines, f"missing   {'; '.join(lacking) or 'nothing'}"]


def models_table(listed: Iterable[Mapping[str, Any]], width: int) -> RenderableType:
    """One line for each model, cut where room ends."""

    def also(model: tuple[str, list[Mapping[str, Any]]]) -> str:
        name, (first, *others) = model
        if first["needs"]:
            return f"needs {first['needs'].partition(':')[0]} (see models {name})"
        return ", ".join(each["words"].removeprefix(f"{name} ") for each in others)

    table = table_of(
        "models",
        "",
        _by_model(listed).items(),
        (
            ("model", lambda model: model[0]),
            ("family", lambda model: model[1][0]["family"]),
            ("inputs", lambda model: model[1][0]["inputs"]),
            ("params", lambda model: model[1][0]["parameters"]),
            (
                Column("s/10k", in_words=lambda cell: f"{cell.value:g}"),
                lambda model: Figure(model[1][0]["seconds_per_10k"]),
            ),
            (Column("also", gives="cut"), also),
        ),
    )
    return Lines(*table_text(table, width, gap=1))


def model_stories(listed: Iterable[Mapping[str, Any]]) -> RenderableType:
    """What there is to know about models, one after another."""
    stories: list[RenderableType] = []
    for name, configurations in _by_model(listed).items():
        first = configurations[0]
        inputs = [_INPUTS[each] for each in first["inputs"].split(", ") if each in _INPUTS]
        facts = {
            "needs": first["needs"],
            "family": first["family"],
            "inputs": ", ".join(inputs) or "none",
            "parameters": f"{first['parameters']:,}",
            "judged on": first["judged_on"],
            "time": f"about {first['seconds_per_10k']:g} s for 10,000 reviews",
            "source": first["source"],
            "formula": first["file"],
            "to know": first["note"],
        }
        if first["learns_while_judged"]:
            facts["ranked"] = "apart: it learns from each review that it is judged on"
        told = [(what, fact) for what, fact in facts.items() if fact]
        for number, each in enumerate(configurations):
            told.append(("" if number else "names", each["title"]))
            if each["aliases"]:
                told.append(("", f"  also {', '.join(each['aliases'])}"))
        stories += [Text(name, "bold"), Padding(facts_text(told), (0, 0, 1, 2))]
    return Lines(*stories)


def _by_model(listed: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    models: dict[str, list[Mapping[str, Any]]] = {}
    for each in listed:
        models.setdefault(each["model"], []).append(each)
    return models
