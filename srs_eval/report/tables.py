"""The command line's tables: rankings of a run and of a batch, models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from srs_eval.data.dataset_check import Description
from srs_eval.data.errors import counted
from srs_eval.engine.ranking import Group, MeanGroup
from srs_eval.report import formats as words
from srs_eval.report.document import Document, Figure, Picture, Section, written
from srs_eval.report.document import Table as FiguresTable

_LONGEST_CELL = 40
_WIDE = 110  # columns from which file names and more differences are shown
_PLAIN = 80  # from which a ranking has all its columns beside names and verdicts
_BROAD = 67  # from which it has RMSE(bins) and AUC
INPUTS = {
    "IL": "interval lengths in days",
    "FIL": "interval lengths in fractions of a day",
    "G": "grades",
    "SR": "reviews of the same day",
    "AT": "answer times",
}


def run_table(group: Group, width: int) -> RenderableType:
    """The ranking on one set of reviews, the floor as a line between the places."""
    table = _table()
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold", min_width=min(18, width // 2))
    table.add_column("log loss ±", justify="right", no_wrap=True)
    if width >= _WIDE:
        table.add_column("to the best", justify="right", no_wrap=True)
    if width >= _BROAD:
        table.add_column("RMSE(bins)", justify="right", no_wrap=True)
        table.add_column("AUC", justify="right", no_wrap=True)
    if width >= _PLAIN:
        table.add_column(words.THAN_AVERAGE, justify="right", no_wrap=True)
    if width >= 50:
        table.add_column("", no_wrap=True)
    for line in group.lines:
        metrics = line.result.metrics
        name = line.configuration.title if width >= _WIDE else line.configuration.words
        cells = [
            str(line.place or "–"),
            name + ("*" if line.result.notes else ""),
            words.loss(line.log_loss, 4),
        ]
        if width >= _WIDE:
            cells.append("" if line.to_best is None else words.better(line.to_best))
        if width >= _BROAD:
            cells.append(words.metric(metrics, "rmse_bins"))
            cells.append(words.metric(metrics, "auc"))
        if width >= _PLAIN:
            cells.append(words.against_floor(line.against_floor))
        if width >= 50:
            cells.append(line.verdict_words)
        table.add_row(*map(Text, cells), style="dim" if line.is_floor else None)
    return Lines(Text(group.title, "bold"), table, Text(group.answer), "")


def batch_table(group: MeanGroup, width: int) -> RenderableType:
    """Means over users (of log loss also over reviews) of what was judged on the same reviews."""
    table = _table()
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold", min_width=min(20, width // 2))
    headings = ["log loss", "by reviews", "RMSE(bins)", "AUC", words.THAN_AVERAGE]
    for heading in headings[: 5 if width >= 70 else 3 if width >= 50 else 1]:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in group.lines:
        cells = [
            str(line.place or "–"),
            line.configuration.title if width >= _WIDE else line.configuration.words,
            f"{line.metrics['LogLoss']:.4f}",
            f"{line.log_loss_by_reviews:.4f}",
            words.percent(line.metrics["RMSE(bins)"], 2),
            "–" if math.isnan(line.metrics["AUC"]) else f"{line.metrics['AUC']:.3f}",
            "the floor" if line.place is None else words.against_floor(line.against_floor),
        ]
        shown = cells[: len(table.columns)]
        table.add_row(*map(Text, shown), style="dim" if line.place is None else None)
    users = counted(group.users, "user")
    if group.users < group.most_users:
        users += f" of {group.most_users:,}: those that all have, judged on the same reviews"
    return Lines(Text(group.title, "bold"), Text(f"Means over {users}"), table, "")


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)


def document_text(document: Document, width: int) -> RenderableType:
    """A report's sentences and tables; what is folded on a page is left out.

    Of a table that is too wide the last columns are left out, and that is told.
    """
    parts: list[RenderableType] = [Text(document.title, "bold"), ""]
    parts += [Text(sentence) for sentence in document.lead]
    for section in document.sections:
        parts += _section_text(section, width)
    return Lines(*parts)


def _section_text(section: Section, width: int) -> list[RenderableType]:
    if section.folded:
        return []
    parts: list[RenderableType] = ["", Text(section.title, "bold underline")]
    for block in section.blocks:
        if isinstance(block, str):
            parts += ["", Text(block)]
        elif isinstance(block, FiguresTable) and block.shown:
            parts += ["", *_figures(block, width)]
        elif isinstance(block, Picture) and block.table is not None:
            parts += ["", *_figures(block.table, width)]
        elif isinstance(block, Section):
            parts += _section_text(block, width)
    return parts


def _figures(figures: FiguresTable, width: int) -> list[RenderableType]:
    cells = [
        [written(cell, column) for cell, column in zip(row, figures.columns, strict=True)]
        for row in figures.rows
    ]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    room, shown = width, 0
    for k, column in enumerate(figures.columns):
        longest = max((len(row[k]) for row in cells), default=0)
        needed = min(max(len(column.title), longest), _LONGEST_CELL) + 2
        if shown >= 2 and needed > room:
            break
        room -= needed
        words = any(isinstance(row[k], str) for row in figures.rows)
        folds = longest > _LONGEST_CELL
        table.add_column(
            Text(column.title),
            justify="left" if words else "right",
            overflow="fold",
            no_wrap=not folds,
            max_width=_LONGEST_CELL if folds else None,
        )
        shown += 1
    for row, written_row in zip(figures.rows, cells, strict=True):
        strong = [isinstance(cell, Figure) and cell.strong for cell in row]
        table.add_row(
            *(
                Text(text, "bold" if bold else "")
                for text, bold in zip(written_row[:shown], strong[:shown], strict=True)
            )
        )
    parts: list[RenderableType] = [Text(figures.title, "bold")] if figures.title else []
    parts.append(table)
    if shown < len(figures.columns):
        left_out = len(figures.columns) - shown
        parts.append(Text(f"{counted(left_out, 'column')} more in --html, --md and --csv", "dim"))
    return parts


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
    table = _table()
    headings = ("model", "family", "inputs", "params", "s/10k")
    rows = [
        (
            name,
            first["family"],
            first["inputs"],
            f"{first['parameters']:,}",
            f"{first['seconds_per_10k']:g}",
            f"needs {first['needs'].partition(':')[0]} (see models {name})"
            if first["needs"]
            else ", ".join(each["words"].removeprefix(f"{name} ") for each in others),
        )
        for name, (first, *others) in _by_model(listed).items()
    ]
    room = width
    for heading, cells in zip(headings, zip(*rows, strict=True), strict=False):
        right = heading in ("params", "s/10k")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
        room -= max(map(len, (heading, *cells))) + 1
    table.add_column("also", no_wrap=True)
    for *facts, variants in rows:
        table.add_row(*map(Text, (*facts, words.cut(variants, max(room, 4)))))
    return table


def model_stories(listed: Iterable[Mapping[str, Any]]) -> RenderableType:
    """What there is to know about models, one after another."""
    stories: list[RenderableType] = []
    for name, configurations in _by_model(listed).items():
        first = configurations[0]
        inputs = [INPUTS[each] for each in first["inputs"].split(", ") if each in INPUTS]
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
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        for what, words_of_it in facts.items():
            if words_of_it:
                table.add_row(what, Text(words_of_it))
        for number, each in enumerate(configurations):
            table.add_row("" if number else "names", Text(each["title"]))
            if each["aliases"]:
                table.add_row("", Text(f"  also {', '.join(each['aliases'])}"))
        stories += [Text(name, "bold"), Padding(table, (0, 0, 1, 2))]
    return Lines(*stories)


def _by_model(listed: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    models: dict[str, list[Mapping[str, Any]]] = {}
    for each in listed:
        models.setdefault(each["model"], []).append(each)
    return models
