"""What the command line shows: rich tables on stdout, live progress on stderr.

Without a terminal there are no control codes and no progress, and widths are fixed. Rich is loaded
by what draws with it, so that a sentence on stderr waits for nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from srs_eval.data.errors import counted, harmless
from srs_eval.report.document import Column, Document, Figure, Picture, Section, Table, is_strong
from srs_eval.report.formats import clock

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as RichTable

    from srs_eval.advice.findings import Finding
    from srs_eval.benchmark.plan import Planned
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.ranking import Group as Ranking
    from srs_eval.engine.run import Event, Run

_PLAIN_WIDTH = 80
_PLAIN_SECONDS = 60.0  # between lines of progress without a terminal
_ELSEWHERE = "--html, --md and --csv"  # where columns are that do not fit
_LONGEST_CELL = 40
_LEAST_NAME, _LONGEST_WORD = 14, 18  # of a column that folds, where no word needs more
_SENTENCE_WIDTH = 80
INPUTS = {
    "IL": "interval lengths in days",
    "FIL": "interval lengths in fractions of a day",
    "G": "grades",
    "SR": "reviews of the same day",
    "AT": "answer times",
}


def console_for(stream: IO[str]) -> Console:
    """A console for stdout or stderr; plain text of fixed width where it is no terminal.

    Whatever is printed is made harmless: only rich's own control codes reach a terminal.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        def render(self, *given: Any, **options: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*given, **options):
                yield Segment(text if control else harmless(text), style, control)

    plain = {"width": _PLAIN_WIDTH, "force_terminal": False, "legacy_windows": False}
    how: dict[str, Any] = {} if stream.isatty() else {**plain, "color_system": None}
    return Harmless(file=stream, highlight=False, **how)


def say(text: str) -> None:
    """A line for the person, on stderr, made harmless."""
    print(harmless(text), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Lines of plain text on stdout, made harmless."""
    print(harmless(text))


def open_page(path: Path) -> None:
    """In the browser, if there is one."""
    import webbrowser

    page = path.expanduser().resolve()
    if not webbrowser.open(page.as_uri()):
        say(f'No browser was found: open "{page}" yourself.')


def spans(ranges: Sequence[tuple[int, int]], most: int = 5) -> str:
    """First and last ids in words: "3, 7-9 and more"."""
    named = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:most]]
    return ", ".join(named) + (" and more" if len(ranges) > most else "")


# --- tables --------------------------------------------------------------------


def document_text(document: Document, width: int, elsewhere: str = _ELSEWHERE) -> RenderableType:
    """A report's sentences and tables; what is folded on a page is left out.

    Of a table that is too wide the last columns are left out, and it is told where they are.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(document.title, "bold"), ""] if document.title else []
    parts += map(Text, document.lead)
    for section in document.sections:
        parts += _section_text(section, width, elsewhere)
    return Group(*parts)


def _section_text(section: Section, width: int, elsewhere: str) -> list[RenderableType]:
    from rich.text import Text

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


def table_text(
    table: Table, width: int, *, gap: int = 2, elsewhere: str | None = _ELSEWHERE
) -> list[RenderableType]:
    """A table below its title.

    Where some columns can give room they do; else the last are left out, and it is told where
    they are. Without `elsewhere` all give room.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(
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
            min_width=_least([row[k] for row in texts], width) if column.gives == "fold" else None,
            max_width=_LONGEST_CELL if folds and not column.gives else None,
        )
        shown.append(k)
    for number, (row, cells) in enumerate(zip(table.rows, texts, strict=True)):
        drawn = [Text(cells[k], "bold" if is_strong(row[k]) else "") for k in shown]
        for k, text in zip(shown, drawn, strict=True):
            if table.columns[k].gives == "cut":
                text.no_wrap, text.overflow = True, "ellipsis"
        made.add_row(*drawn, style="dim" if number in table.faint else None)
    parts: list[RenderableType] = [Text(table.title, "bold")] if table.title else []
    parts.append(made)
    if left_out := len(wide) - len(shown):
        parts.append(Text(f"{counted(left_out, 'column')} more in {elsewhere}", "dim"))
    return parts


def _least(cells: Sequence[str], width: int) -> int:
    """What a column that folds keeps, so that no name of a model is broken."""
    words = [len(word) for cell in cells for word in cell.split()]
    longest = max((each for each in words if each <= _LONGEST_WORD), default=0)
    return min(max(longest, _LEAST_NAME), width // 2)


def facts_text(facts: Iterable[tuple[str, str]]) -> RichTable:
    """What is known of something, a line each."""
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    for what, said in facts:
        made.add_row(what, Text(said))
    return made


# --- progress ------------------------------------------------------------------


class _Progress:
    """Lines on stderr while the block lasts: what is done, a bar, the time, the time left.

    None without a terminal. `stays`: they are not removed at the end.
    """

    def __init__(self, *, left: bool = True, stays: bool = False) -> None:
        from rich import progress

        console = console_for(sys.stderr)
        columns = [progress.TextColumn("left"), progress.TimeRemainingColumn()] if left else []
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
        self._live = console.is_terminal
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._progress.stop()

    def _begin(self, task: str, words: str, total: float = 1.0) -> None:
        self._progress.start()
        self._tasks[task] = self._progress.add_task(words, total=total)

    def _update(self, task: str, words: str, done: float) -> None:
        self._progress.update(self._tasks[task], description=words, completed=done)


def checking_in_words(models: Sequence[str]) -> str:
    """Return what is said while a person's own models are checked for reading the future."""
    from srs_eval.engine.own_models import LONGEST_CHECK_S

    each = " each" if len(models) > 1 else ""
    return (
        f"Checking whether {' and '.join(models)} can see the future: once for each version of the "
        f"file, {LONGEST_CHECK_S:.0f} seconds{each} at most ..."
    )


class RunProgress(_Progress):
    """Follows the engine's events on stderr: one bar for all, one for each model at work."""

    def __init__(self) -> None:
        super().__init__(left=False)

    def show(self, event: Event) -> None:
        from srs_eval.engine.run import Checking, Prepared, Progress, Started

        if isinstance(event, Prepared):
            configurations = len(event.configurations)
            if not self._live:
                words = f"{counted(event.reviews, 'review')}, {event.evaluated:,} evaluated; "
                say(f"{words}{counted(configurations, 'configuration')}")
            self._begin("", f"{event.evaluated:,} reviews evaluated", configurations)
            return
        name, words = event.configuration.name, event.configuration.words
        match event:
            case Started():
                self._begin(name, words + " (preparing, first run only)" * event.compiles)
            case Progress(fraction=fraction):
                self._update(name, words, fraction)
            case Checking():
                self._update(name, f"{words} (checking for leaks, first run only)", 1.0)
                if not self._live:
                    say(checking_in_words([words]))
            case _:
                if name in self._tasks:
                    self._progress.remove_task(self._tasks.pop(name))
                self._progress.advance(self._tasks[""])


class BatchProgress(_Progress):
    """Follows a batch on stderr: rate and time left; a line a minute without a terminal."""

    def __init__(self) -> None:
        super().__init__(stays=True)
        self.units = self.finished = self._failed = 0  # units: to do
        self._start = self._told = time.monotonic()

    def show(self, event: object) -> None:
        from srs_eval.benchmark.plan import CheckingModels, Planned, UnitDone

        match event:
            case CheckingModels(models=models):
                say(checking_in_words(models))
            case Planned():
                self.units, self._start = event.units, time.monotonic()
                for line in _plan_in_words(event):
                    say(line)
                if event.units:
                    self._begin("", "starting")
            case UnitDone():
                self._failed += event.unit.status == "failed"
                self.finished = event.finished
                self._advance(event.share)

    def _advance(self, share: float) -> None:
        now = time.monotonic()
        gone = max(now - self._start, 1e-9)
        words = f"{self.finished:,}/{self.units:,} units  {self.finished / gone:,.1f}/s"
        if self._failed:
            words += f"  {self._failed:,} failed"
        self._update("", words, share)
        if not self._live and now - self._told >= _PLAIN_SECONDS:
            self._told = now
            say(f"{words}  about {clock(gone * (1 - share) / max(share, 1e-9))} left")


def _plan_in_words(plan: Planned) -> Iterator[str]:
    there = plan.present + plan.skipped_before
    words = (
        f"{counted(plan.users, 'user')}, {counted(len(plan.configurations), 'configuration')}: "
        f"{counted(plan.units, 'unit')} to evaluate"
    )
    notes = [f"{there:,} are there"] if there else []
    if plan.retried:
        notes.append(f"{plan.retried:,} failed before and are tried again")
    if notes:
        words += f" ({', '.join(notes)})"
    if plan.units:
        jobs = counted(plan.jobs, "job") if plan.jobs else "one worker (the cluster has none yet)"
        words += f", about {clock(plan.expected_seconds)} with {jobs}"
    if plan.compile_seconds:
        words += f"; kernels are compiled first, once: {clock(plan.compile_seconds)} of it"
    yield words
    if plan.damaged:
        are = "is" if plan.damaged == 1 else "are"
        lines = counted(plan.damaged, "damaged line")
        yield f"{lines} of the journal {are} ignored and evaluated again"


@contextmanager
def share_done(words: str) -> Iterator[Callable[[str, float], None]]:
    """One line of progress on stderr: what is being done, how much of it, the time left.

    Gives a function of these words and the share (0-1) that lies behind.
    """
    with _Progress() as progress:
        progress._begin("", words)
        yield lambda words, share: progress._update("", words, share)


# --- what was found ------------------------------------------------------------


def _run_table(group: Ranking, width: int, whole: bool = True) -> RenderableType:
    """The ranking on one set of reviews, or its first ten, the baseline between the places."""
    from rich.console import Group
    from rich.text import Text

    from srs_eval.report.export import ranking_table

    table = ranking_table(group)
    left_out = 0 if whole else len(table.rows) - len(table.brief or ())
    more = [Text(f"{left_out} more: --all-models", "dim")] if left_out else []
    table = table if whole else table.in_brief
    model, place, *others = table.columns
    table = replace(table, columns=(model, replace(place, title="#"), *others))
    return Group(*table_text(table, width, gap=1), *more, Text(group.answer), "")


def show_panes(log: ReviewLog, findings: Sequence[Finding], console: Console) -> None:
    """The five questions with their answers, as the app's first screen has them."""
    from srs_eval.advice.overview import Overview
    from srs_eval.report.panes import as_text

    console.print(as_text(Overview.answered(log, findings).first_screen, console.width))
    console.print()


def show_run(run: Run, console: Console, whole: bool = True) -> None:
    """The ranking with its answer in words; notes, failures and skips on stderr."""
    from srs_eval.models.own_parameters import remarks

    groups = run.groups()
    notes: dict[str, list[str]] = {}
    for group in groups:
        console.print(_run_table(group, console.width, whole))
    for line in run.ranked():
        for note in line.result.notes:
            notes.setdefault(note, []).append(line.configuration.words)
    for note, names in notes.items():
        say(f"* {', '.join(names)}: {note}.")
    if groups:
        say("± is a 95 % interval. `srs-eval models NAME` tells what to know about a model.")
        for remark in remarks(run.configurations):
            say(remark)
    show_missing(run)


def show_missing(run: Run) -> None:
    """Failed and skipped configurations, on stderr; equal reasons are told once."""
    for what, missing in (("failed", run.failed), ("skipped", run.skipped)):
        reasons: dict[str, list[str]] = {}
        for name, model in missing.items():
            reasons.setdefault(model.reason, []).append(name)
        for reason, names in reasons.items():
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            say(f"{what}: {', '.join(names[:6])}{more}: {reason}")


def print_answers(answers: Iterable[Finding], console: Console, closing: str) -> list[Finding]:
    """Sentences as each answer comes, then the figures behind them in tables of 80 columns.

    Returns the answers.
    """
    from rich.padding import Padding
    from rich.text import Text

    from srs_eval.advice.questions import REGISTRY
    from srs_eval.advice.sentences import parameter_line
    from srs_eval.advice.shown import sentences, tables
    from srs_eval.report.learner import figures

    width = min(console.width, _SENTENCE_WIDTH)
    question = None
    shown = []
    for answer in answers:
        shown.append(answer)
        if answer.question != question:
            question = answer.question
            console.print(Text(f"\n{REGISTRY[question].title}", "bold"))
        console.print(Text(f"\n{answer.subject}", "bold"))
        lines = list(sentences(answer))
        if answer.parameters is not None:
            lines.append(f"FSRS parameters: {parameter_line(answer.parameters)}")
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False), width=width)
    for table in (table for answer in shown for table in tables(answer)):
        console.print()
        for part in table_text(figures(table, ""), width, elsewhere=None):
            console.print(part, width=width)
    if shown:
        console.print(f"\n{closing}", width=width, style="dim")
    return shown


# --- models --------------------------------------------------------------------


def models_table(listed: Iterable[Mapping[str, Any]], width: int) -> RenderableType:
    """One line for each model, cut where room ends."""

    def also(model: list[Mapping[str, Any]]) -> str:
        first, *others = model
        if first["needs"]:
            return f"needs {first['needs'].partition(':')[0]} (see models {first['model']})"
        return ", ".join(each["words"].removeprefix(f"{first['model']} ") for each in others)

    seconds = Column("s/10k", in_words=lambda cell: f"{cell.value:g}")
    heads = ("model", "family", "inputs", "params", seconds, Column("also", gives="cut"))
    rows = (
        (
            *(each[0][key] for key in ("model", "family", "inputs", "parameters")),
            *(Figure(each[0]["seconds_per_10k"]), also(each)),
        )
        for each in _by_model(listed)
    )
    table = Table.of("models", "", heads, rows)
    return table_text(table, width, gap=1)[0]


def model_stories(listed: Iterable[Mapping[str, Any]]) -> RenderableType:
    """What there is to know about models, one after another."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    stories: list[RenderableType] = []
    for first, *others in _by_model(listed):
        inputs = [INPUTS[each] for each in first["inputs"].split(", ") if each in INPUTS]
        apart = "apart: it learns from each review that it is evaluated on"
        facts = {
            "needs": first["needs"],
            "family": first["family"],
            "inputs": ", ".join(inputs) or "none",
            "parameters": "–" if first["parameters"] is None else f"{first['parameters']:,}",
            "evaluated on": first["evaluated_on"],
            "time": f"about {first['seconds_per_10k']:g} s for 10,000 reviews",
            "source": first["source"],
            "formula": first["file"],
            "to know": first["note"],
            "ranked": apart if first["is_online"] else "",
        }
        said = [(what, fact) for what, fact in facts.items() if fact]
        for each in (first, *others):
            said.append(("names" if each is first else "", each["title"]))
            if more := [name for name in each["aliases"] if name != each["words"]]:
                said.append(("", f"  also {', '.join(more)}"))
        stories += [Text(first["model"], "bold"), Padding(facts_text(said), (0, 0, 1, 2))]
    return Group(*stories)


def _by_model(listed: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    models: dict[str, list[Mapping[str, Any]]] = {}
    for each in listed:
        models.setdefault(each["model"], []).append(each)
    return list(models.values())
