"""Show results on the command line: rich tables on stdout, live progress on stderr.

Where there is no terminal, or a dumb one, all is plain text (`srs_eval.report.plain`) without live
progress. Functions that draw load rich themselves, so that a sentence on stderr does not wait for
it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from srs_eval.data.errors import format_count, printable, sanitize
from srs_eval.report.cells import format_rows
from srs_eval.report.document import Document, Picture, Section
from srs_eval.report.formats import format_duration
from srs_eval.stats.tables import Column, Figure, Table, is_best

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from srs_eval.advice.findings import Finding
    from srs_eval.benchmark.plan import Planned
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.ranking import RankingGroup
    from srs_eval.engine.run import Event, Run
    from srs_eval.report.inspection import Inspection

_UNWRAPPED_WIDTH = 1_000_000  # columns of plain text, whose lines are not wrapped
_PLAIN_PROGRESS_SECONDS = 60.0  # between lines of progress without a terminal
_FULL_TABLE_OPTIONS = "--html, --md and --csv"  # options that write the columns that do not fit
_MAX_CELL_WIDTH = 40
_MIN_FOLDED_WIDTH = 14  # least width of a column whose cells are folded
_MAX_WORD_WIDTH = 18  # such a column is wide enough for words up to this length
_SENTENCE_WIDTH = 80
INPUT_MEANINGS = {
    "IL": "interval lengths in days",
    "FIL": "interval lengths in fractions of a day",
    "G": "grades",
    "SR": "reviews of the same day",
    "AT": "answer times",
}


def request_plain_text() -> None:
    """Print plain text until the program ends, in its worker processes, too."""
    os.environ["TERM"] = "dumb"


def is_plain(stream: IO[str]) -> bool:
    """Return True if a stream gets plain text: it is no terminal, or a dumb one."""
    return not stream.isatty() or os.environ.get("TERM") == "dumb"


def make_console(stream: IO[str]) -> Console:
    """Return a console for stdout or stderr, which may be one of plain text (`is_plain`).

    All printed text is made harmless: only rich's own control codes reach a terminal.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        def render(self, *arguments: Any, **keywords: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*arguments, **keywords):
                yield Segment(text if control else sanitize(text), style, control)

    if not is_plain(stream):
        return Harmless(file=stream, highlight=False)
    return Harmless(
        file=stream,
        highlight=False,
        width=_UNWRAPPED_WIDTH,
        force_terminal=False,
        legacy_windows=False,
        color_system=None,
    )


def get_width(console: Console) -> int | None:
    """Return the width of a terminal in columns; None for plain text, which has none."""
    return console.width if console.is_terminal else None


def say(text: str) -> None:
    """Print a line for the user on stderr, made harmless."""
    print(sanitize(text), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Print lines of plain text on stdout, made harmless."""
    print(sanitize(text))


def open_in_browser(path: Path) -> None:
    """Open a page in the browser, if there is one."""
    import webbrowser

    page = path.expanduser().resolve()
    if not webbrowser.open(page.as_uri()):
        say(f'No browser was found: open "{page}" yourself.')


# --- tables --------------------------------------------------------------------


def render_document(
    document: Document, width: int | None, full_table_hint: str = _FULL_TABLE_OPTIONS
) -> RenderableType:
    """Render a report's sentences and tables; sections that a page folds are left out.

    A table that is too wide loses its last columns, and a line below it says where they are.
    Without a `width` the report is plain text.
    """
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = []
    if document.title:
        lines += [Text(document.title, "bold"), ""]
    lines += map(Text, document.lead)
    for section in document.sections:
        lines += _render_section(section, width, full_table_hint)
    return Group(*lines)


def _render_section(
    section: Section, width: int | None, full_table_hint: str
) -> list[RenderableType]:
    from rich.text import Text

    if section.folded or section.is_for_files_only:
        return []
    lines: list[RenderableType] = ["", Text(section.title, "bold underline")]
    for block in section.blocks:
        content = block.table if isinstance(block, Picture) else block
        if isinstance(content, str):
            lines += ["", Text(content)]
        elif isinstance(content, Table) and content.is_shown:
            lines += ["", *render_table(content, width, full_table_hint=full_table_hint)]
        elif isinstance(content, Section):
            lines += _render_section(content, width, full_table_hint)
    return lines


def render_table(
    table: Table,
    width: int | None,
    *,
    gap: int = 2,
    full_table_hint: str | None = _FULL_TABLE_OPTIONS,
) -> list[RenderableType]:
    """Render a table below its title.

    Columns that overflow (`Column.overflow`) shrink to fit. If there are none, the last columns are
    left out, and a line says where they are. Without `full_table_hint` all columns shrink instead.
    Without a `width` the table is plain text.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = table.shown
    if width is None:
        from srs_eval.report.plain import write_plain_table

        return list(map(Text, write_plain_table(table)))
    rich_table = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0)
    )
    texts = format_rows(table)
    right_aligned = table.right_aligned
    candidates = [k for k, column in enumerate(table.columns) if width >= column.min_width]
    can_shrink = full_table_hint is None or any(table.columns[k].overflow for k in candidates)
    remaining_width = width
    shown: list[int] = []
    for k in candidates:
        column = table.columns[k]
        cells = [row[k] for row in texts]
        longest = max(map(len, cells), default=0)
        remaining_width -= min(max(len(column.title), longest), _MAX_CELL_WIDTH) + gap
        is_too_wide = remaining_width < 0 and len(shown) >= 2  # two columns always stay
        if is_too_wide and not can_shrink:
            break
        no_wrap = False
        min_width = None
        max_width = None
        if column.overflow == "fold":
            min_width = _min_column_width(cells, width)
        elif not column.overflow:
            if longest > _MAX_CELL_WIDTH and not can_shrink:
                max_width = _MAX_CELL_WIDTH
            else:
                no_wrap = full_table_hint is not None
        rich_table.add_column(
            Text(column.title),
            justify="right" if right_aligned[k] else "left",
            overflow="fold",
            no_wrap=no_wrap,
            min_width=min_width,
            max_width=max_width,
        )
        shown.append(k)
    for number, (row, row_texts) in enumerate(zip(table.rows, texts, strict=True)):
        row_cells = []
        for k in shown:
            text = Text(row_texts[k], "bold" if is_best(row[k]) else "")
            if table.columns[k].overflow == "cut":
                text.no_wrap = True
                text.overflow = "ellipsis"
            row_cells.append(text)
        rich_table.add_row(*row_cells, style="dim" if number in table.faint_rows else None)
    lines: list[RenderableType] = []
    if table.heading:
        lines.append(Text(table.heading, "bold"))
    lines.append(rich_table)
    omitted = len(candidates) - len(shown)
    if omitted:
        lines.append(Text(f"{format_count(omitted, 'more column')} in {full_table_hint}", "dim"))
    return lines


def _min_column_width(cells: Sequence[str], width: int) -> int:
    """Return the least width of a folded column, at which no usual model name is broken."""
    lengths = [len(word) for cell in cells for word in cell.split()]
    longest = max((length for length in lengths if length <= _MAX_WORD_WIDTH), default=0)
    return min(max(longest, _MIN_FOLDED_WIDTH), width // 2)


def render_facts(facts: Iterable[tuple[str, str]], width: int | None) -> RenderableType:
    """Render facts, each a name and its value, one a line; plain text without a `width`."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    if width is None:
        return Group(*(Text(f"{name}: {fact}" if name else fact) for name, fact in facts))
    table = RichTable(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, fact in facts:
        table.add_row(name, Text(fact))
    return table


# --- progress ------------------------------------------------------------------


class _ProgressLines:
    """Lines on stderr while a block runs: the task, a bar, the time, optionally the time left.

    Without a terminal there are none. With `stays` they are not removed at the end.
    """

    def __init__(self, *, shows_time_left: bool = True, stays: bool = False) -> None:
        from rich import progress

        console = make_console(sys.stderr)
        columns: list[progress.ProgressColumn] = []
        if shows_time_left:
            columns += [progress.TextColumn("left"), progress.TimeRemainingColumn()]
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            *columns,
            console=console,
            transient=not stays,
            expand=True,
            disable=not console.is_terminal,
            speed_estimate_period=300,
        )
        self._is_live = console.is_terminal
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._progress.stop()

    def _start_task(self, task: str, description: str, total: float = 1.0) -> None:
        self._progress.start()
        self._tasks[task] = self._progress.add_task(description, total=total)

    def _update_task(self, task: str, description: str, fraction: float) -> None:
        self._progress.update(self._tasks[task], description=description, completed=fraction)


def describe_leak_check(models: Sequence[str]) -> str:
    """Return the message shown while user models are checked for reading the future."""
    from srs_eval.engine.own_models import LONGEST_CHECK_S

    for_each = " for each model" if len(models) > 1 else ""
    return (
        f"Checking whether {' and '.join(models)} can see the future (once for each version of the "
        f"file, at most {LONGEST_CHECK_S:.0f} seconds{for_each}) ..."
    )


class RunProgress(_ProgressLines):
    """Progress of a run on stderr: one bar for the run, one for each model at work."""

    def __init__(self) -> None:
        super().__init__(shows_time_left=False)

    def show(self, event: Event) -> None:
        from srs_eval.engine.run import Checking, Prepared, Progress, Started

        if isinstance(event, Prepared):
            configurations = len(event.configurations)
            if not self._is_live:
                say(
                    f"{format_count(event.reviews, 'review')}, {event.evaluated:,} evaluated; "
                    f"{format_count(configurations, 'model')}"
                )
            self._start_task("", f"{event.evaluated:,} reviews evaluated", configurations)
            return
        name = event.configuration.name
        words = event.configuration.words
        match event:
            case Started():
                description = words
                if event.needs_compilation:
                    description += " (preparing, first run only)"
                self._start_task(name, description)
            case Progress(fraction=fraction):
                self._update_task(name, words, fraction)
            case Checking():
                self._update_task(name, f"{words} (checking for leaks, first run only)", 1.0)
                if not self._is_live:
                    say(describe_leak_check([words]))
            case _:
                if name in self._tasks:
                    self._progress.remove_task(self._tasks.pop(name))
                self._progress.advance(self._tasks[""])


class BatchProgress(_ProgressLines):
    """Progress of a batch on stderr: rate and time left; a line a minute without a terminal."""

    def __init__(self) -> None:
        super().__init__(stays=True)
        self.units = 0  # units to evaluate
        self.finished = 0
        self._failed = 0
        self._start = time.monotonic()
        self._last_message_time = self._start

    def show(self, event: object) -> None:
        from srs_eval.benchmark.plan import CheckingModels, Planned, TrainingOnOthers, UnitDone

        match event:
            case CheckingModels(models=models):
                say(describe_leak_check(models))
            case Planned():
                self.units = event.units
                self._start = time.monotonic()
                for line in _describe_plan(event):
                    say(line)
                if event.units:
                    self._start_task("", "starting")
            case TrainingOnOthers():
                words = f"training on other users: {event.trained:,}/{event.trainings:,} runs done"
                self._show_progress(words, event.fraction_done)
                if event.trained == event.trainings:
                    self._start = time.monotonic()  # of the units
            case UnitDone():
                if event.unit.status == "failed":
                    self._failed += 1
                self.finished = event.finished_units
                self._show_rate(event.fraction_done)

    def _show_rate(self, fraction_done: float) -> None:
        elapsed = max(time.monotonic() - self._start, 1e-9)  # s; never 0, as it divides
        words = f"{self.finished:,}/{self.units:,} units  {self.finished / elapsed:,.1f}/s"
        if self._failed:
            words += f"  {self._failed:,} failed"
        self._show_progress(words, fraction_done)

    def _show_progress(self, words: str, fraction_done: float) -> None:
        """Show how much is done of what has been going on since `_start`."""
        self._update_task("", words, fraction_done)
        now = time.monotonic()
        elapsed = max(now - self._start, 1e-9)
        if not self._is_live and now - self._last_message_time >= _PLAIN_PROGRESS_SECONDS:
            self._last_message_time = now
            seconds_left = elapsed * (1 - fraction_done) / max(fraction_done, 1e-9)
            say(f"{words}  about {format_duration(seconds_left)} left")


def _describe_plan(plan: Planned) -> Iterator[str]:
    words = (
        f"{format_count(plan.users, 'user')}, "
        f"{format_count(len(plan.configurations), 'configuration')}: "
        f"{format_count(plan.units, 'unit')} to evaluate"
    )
    notes = []
    present_units = plan.already_done + plan.already_skipped
    if present_units:
        verb = "is" if present_units == 1 else "are"
        notes.append(f"{present_units:,} {verb} already done")
    if plan.retried:
        verb = "is" if plan.retried == 1 else "are"
        notes.append(f"{plan.retried:,} failed before and will be tried again")
    if notes:
        words += f" ({', '.join(notes)})"
    if plan.units:
        jobs = "one worker (the cluster has none yet)"
        if plan.jobs:
            jobs = format_count(plan.jobs, "job")
        words += f", about {format_duration(plan.expected_seconds)} with {jobs}"
    if plan.compile_seconds:
        words += (
            f", including {format_duration(plan.compile_seconds)} to compile kernels "
            "(first run only)"
        )
    yield words
    if plan.trainings:
        trainings = format_count(plan.trainings, "training run")
        yield f"before that, {trainings} on other users; how long that takes cannot be estimated"
    if plan.damaged_lines:
        lines = format_count(plan.damaged_lines, "damaged line")
        consequence = "are ignored, and their results are computed again"
        if plan.damaged_lines == 1:
            consequence = "is ignored, and its result is computed again"
        yield f"{lines} of the journal {consequence}"


@contextmanager
def progress_line(description: str) -> Iterator[Callable[[str, float], None]]:
    """Show one line of progress on stderr: the task, how much of it is done, the time left.

    Yields a function that takes a description and the fraction done (0-1).
    """
    with _ProgressLines() as progress:
        progress._start_task("", description)
        yield lambda words, fraction: progress._update_task("", words, fraction)


# --- results -------------------------------------------------------------------


def _render_ranking(
    group: RankingGroup, width: int | None, show_all: bool = True
) -> RenderableType:
    """Render the ranking on one set of reviews, or only its brief rows, and its verdicts."""
    from rich.console import Group
    from rich.text import Text

    from srs_eval.report.export import build_ranking_table
    from srs_eval.report.ranking_words import summarize_ranking

    table = build_ranking_table(group)
    omitted = 0
    if not show_all:
        omitted = len(table.rows) - len(table.brief_rows or ())
        table = table.abridged
    model, rank, *figures = table.columns
    table = replace(table, columns=(model, replace(rank, title="#"), *figures))
    lines = render_table(table, width, gap=1)
    if omitted:
        lines.append(Text(f"{format_count(omitted, 'more model')}: add --all-models", "dim"))
    return Group(*lines, Text(summarize_ranking(group)), "")


def show_panes(log: ReviewLog, findings: Sequence[Finding], console: Console) -> None:
    """Print the five questions with their answers, as on the app's first screen."""
    from srs_eval.advice.overview import Overview
    from srs_eval.report.panes import render_first_screen
    from srs_eval.report.plain import write_plain_screen

    screen = Overview.from_answers(log, findings).first_screen
    if console.is_terminal:
        console.print(render_first_screen(screen, console.width))
    else:
        for line in write_plain_screen(screen):
            console.print(line, markup=False)
    console.print()


def show_run(run: Run, console: Console, show_all: bool = True) -> None:
    """Print the rankings with their verdicts; notes, failures and skips go to stderr."""
    from srs_eval.models.own_parameters import make_table_remarks
    from srs_eval.report.ranking_words import warn_of_split

    groups = run.groups()
    names_by_note: dict[str, list[str]] = {}
    for group in groups:
        console.print(_render_ranking(group, get_width(console), show_all))
    for line in run.ranked_results():
        for note in line.result.notes:
            names_by_note.setdefault(note, []).append(line.configuration.words)
    for note, names in names_by_note.items():
        say(f"* {', '.join(names)}: {note}.")
    if groups:
        say("± is a 95 % interval. `srs-eval models NAME` describes a model.")
        for warning in warn_of_split(groups[0].row_protocol):
            say(warning)
        for remark in make_table_remarks(run.configurations):
            say(remark)
    show_missing(run)


def show_missing(run: Run) -> None:
    """Print failed and skipped configurations on stderr, each reason once."""
    for status, missing in (("failed", run.failed), ("skipped", run.skipped)):
        names_by_reason: dict[str, list[str]] = {}
        for name, model in missing.items():
            names_by_reason.setdefault(model.reason, []).append(name)
        for reason, names in names_by_reason.items():
            listing = ", ".join(names[:6])
            if len(names) > 6:
                listing += f" and {len(names) - 6} more"
            say(f"{status}: {listing}: {reason}")


def print_answers(answers: Iterable[Finding], console: Console, closing: str) -> list[Finding]:
    """Print the sentences of each answer as it comes, then the tables of all answers.

    On a terminal, lines have at most 80 columns. Returns the answers.
    """
    from rich.padding import Padding
    from rich.text import Text

    from srs_eval.advice.questions import QUESTION_REGISTRY
    from srs_eval.advice.sentences import format_parameters
    from srs_eval.advice.shown import sentences, tables

    width = get_width(console)
    if width is not None:
        width = min(width, _SENTENCE_WIDTH)
    question = None
    printed = []
    for answer in answers:
        printed.append(answer)
        if answer.question != question:
            question = answer.question
            console.print(Text(f"\n{QUESTION_REGISTRY[question].title}", "bold"))
        console.print(Text(f"\n{answer.subject}", "bold"))
        lines = list(sentences(answer))
        if answer.parameters is not None:
            lines.append(f"FSRS parameters: {format_parameters(answer.parameters)}")
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False), width=width)
    for answer in printed:
        for table in tables(answer):
            console.print()
            rendered = render_table(table, width, full_table_hint=None)
            for renderable in rendered:
                console.print(renderable, width=width)
    if printed:
        console.print(f"\n{closing}", width=width, style="dim")
    return printed


# --- an import ----------------------------------------------------------------


def render_inspection(inspection: Inspection, width: int | None = 80) -> RenderableType:
    """Render facts and tables for a terminal; plain text without a `width`."""
    from rich.console import Group
    from rich.text import Text

    from srs_eval.report.inspection import build_summary_tables, find_largest_groups, limit_rows

    noun = "entry" if inspection.entries_of_deleted_cards == 1 else "entries"
    cards = (
        f"{inspection.cards:,}, {inspection.suspended_cards:,} suspended; "
        f"{format_count(inspection.deleted_cards, 'deleted card')} with "
        f"{inspection.entries_of_deleted_cards:,} {noun}"
    )
    reviewed = format_count(inspection.days, "day")
    if inspection.date_range:
        reviewed = f"{inspection.date_range}, {reviewed}"
    facts = {
        "file": printable(inspection.path, None),
        "format": inspection.format,
        "entries": f"{inspection.entries_read:,}",
        "reviewed": reviewed,
        "days": inspection.day_boundaries,
        "cards": cards if inspection.cards else "unknown",
        "FSRS": {True: "on", False: "off", None: "unknown"}[inspection.fsrs_enabled],
    }
    lines: list[RenderableType] = [render_facts(facts.items(), width)]
    entries, decks, presets = build_summary_tables(inspection)
    if entries.rows:
        lines += ["", *render_table(entries, width)]
    for table, groups in ((decks, inspection.decks), (presets, inspection.presets)):
        if not table.rows:
            continue
        largest = find_largest_groups(groups)
        lines += ["", *render_table(limit_rows(table, largest), width)]
        hidden = len(groups) - len(largest)
        if hidden:
            kind = "deck" if table is decks else "preset"
            others = format_count(hidden, f"more {kind}")
            lines.append(Text(f"--json also lists {others} with fewer entries.", "dim"))
    lines += [Text(f"• {note}") for note in inspection.notes]
    return Group(*lines)


# --- models --------------------------------------------------------------------


def render_models_table(models: Iterable[Mapping[str, Any]], width: int | None) -> RenderableType:
    """Render a table with one line for each model; its last column is cut off at the width."""
    from rich.console import Group

    seconds = Column("s/10k", format_figure=lambda cell: f"{cell.value:g}")
    heads = ("model", "family", "inputs", "params", seconds, Column("also", overflow="cut"))
    rows = []
    for standard, *variants in _group_by_model(models):
        model = standard["model"]
        if standard["needs"]:
            also = f"needs {standard['needs'].partition(':')[0]} (see `srs-eval models {model}`)"
        else:
            also = ", ".join(variant["words"].removeprefix(f"{model} ") for variant in variants)
        rows.append(
            (
                model,
                standard["family"],
                standard["inputs"],
                standard["parameters"],
                Figure(standard["seconds_per_10k"]),
                also,
            )
        )
    table = Table.from_rows("models", "", heads, rows)
    return Group(*render_table(table, width, gap=1))


def render_model_details(models: Iterable[Mapping[str, Any]], width: int | None) -> RenderableType:
    """Render all facts about models, one model after another; plain text without a `width`."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    lines: list[RenderableType] = []
    for configurations in _group_by_model(models):
        model = configurations[0]
        inputs = [
            INPUT_MEANINGS[code] for code in model["inputs"].split(", ") if code in INPUT_MEANINGS
        ]
        rank_note = ""
        if model["is_online"]:
            rank_note = "separately: it learns from each review that it is evaluated on"
        facts = {
            "needs": model["needs"],
            "family": model["family"],
            "inputs": ", ".join(inputs) or "none",
            "parameters": "–" if model["parameters"] is None else f"{model['parameters']:,}",
            "evaluated on": model["evaluated_on"],
            "time": f"about {model['seconds_per_10k']:g} s for 10,000 reviews",
            "source": model["source"],
            "formula": model["file"],
            "note": model["note"],
            "ranked": rank_note,
        }
        shown_facts = [(name, fact) for name, fact in facts.items() if fact]
        for number, configuration in enumerate(configurations):
            shown_facts.append(("names" if number == 0 else "", configuration["title"]))
            aliases = [
                alias for alias in configuration["aliases"] if alias != configuration["words"]
            ]
            if aliases:
                shown_facts.append(("", f"  also {', '.join(aliases)}"))
        lines.append(Text(model["model"], "bold"))
        rendered_facts = render_facts(shown_facts, width)
        if width is None:
            lines += [rendered_facts, ""]
        else:
            lines.append(Padding(rendered_facts, (0, 0, 1, 2)))
    return Group(*lines)


def _group_by_model(entries: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_model.setdefault(entry["model"], []).append(entry)
    return list(by_model.values())
