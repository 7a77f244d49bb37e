"""What the command line shows: rich tables on stdout, live progress on stderr.

Without a terminal there are no control codes and no progress, and widths are fixed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Self

from srs_eval.data.errors import counted, harmless
from srs_eval.report.formats import clock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from srs_eval.advice.findings import Finding
    from srs_eval.benchmark.plan import BatchEvent, Planned
    from srs_eval.engine.run import Event, Run

_PLAIN_WIDTH = 80
_PLAIN_SECONDS = 60.0  # between lines of progress without a terminal


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

    if stream.isatty():
        return Harmless(file=stream, highlight=False)
    return Harmless(
        file=stream,
        highlight=False,
        width=_PLAIN_WIDTH,
        force_terminal=False,
        color_system=None,
        legacy_windows=False,
    )


def say(text: str) -> None:
    """A line for the person, on stderr, made harmless."""
    print(harmless(text), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Lines of plain text on stdout, made harmless."""
    print(harmless(text))


# --- run -----------------------------------------------------------------------


def _bars(console: Console, *, left: bool = True, stays: bool = False) -> Progress:
    """A line for each task: its description, a bar, how much is done, the time, the time left.

    `stays`: the lines are not removed at the end.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        *([TextColumn("left"), TimeRemainingColumn()] if left else []),
        console=console,
        transient=not stays,
        expand=True,
        disable=not console.is_terminal,
        speed_estimate_period=300,
    )


class _Progress:
    """Lines of progress on stderr, while the block lasts; none without a terminal."""

    def __init__(self, **how: bool) -> None:
        self._progress = _bars(console_for(sys.stderr), **how)
        self._live = self._progress.console.is_terminal
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._progress.stop()

    def _begin(self, task: str, words: str, total: float) -> None:
        if self._live:
            self._progress.start()
        self._tasks[task] = self._progress.add_task(words, total=total)


class RunProgress(_Progress):
    """Follows the engine's events on stderr: one bar for all, one for each model at work."""

    def __init__(self) -> None:
        super().__init__(left=False)

    def show(self, event: Event) -> None:
        from srs_eval.engine.run import Prepared, Progress, Started

        if isinstance(event, Prepared):
            configurations = len(event.configurations)
            if not self._live:
                words = f"{counted(event.reviews, 'review')}, {event.judged:,} judged; "
                say(f"{words}{counted(configurations, 'configuration')}")
            self._begin("", f"{event.judged:,} reviews judged", configurations)
            return
        name, words = event.configuration.name, event.configuration.words
        match event:
            case Started():
                note = " (preparing, first run only)" if event.compiles else ""
                self._begin(name, words + note, 1.0)
            case Progress(fraction=fraction):
                self._progress.update(self._tasks[name], description=words, completed=fraction)
            case _:
                if name in self._tasks:
                    self._progress.remove_task(self._tasks.pop(name))
                self._progress.advance(self._tasks[""])


def show_run(run: Run, console: Console) -> None:
    """The ranking with its answer in words; notes, failures and skips on stderr."""
    from srs_eval.report.terminal import run_table

    groups = run.groups()
    for group in groups:
        console.print(run_table(group, console.width))
    notes: dict[str, list[str]] = {}
    for line in (line for group in groups for line in group.lines):
        for note in line.result.notes:
            notes.setdefault(note, []).append(line.configuration.words)
    for note, names in notes.items():
        say(f"* {', '.join(names)}: {note}.")
    if groups:
        say("± is a 95 % interval. `srs-eval models NAME` tells what to know about a model.")
    show_missing(run)


def show_missing(run: Run) -> None:
    """Failed and skipped configurations, on stderr; equal reasons are told once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, failed in run.failed.items():
        groups.setdefault(("failed", failed.reason), []).append(name)
    for name, skipped in run.skipped.items():
        groups.setdefault(("skipped", skipped.reason), []).append(name)
    for (what, reason), names in groups.items():
        listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        say(f"{what}: {listed}: {reason}")


# --- batch ---------------------------------------------------------------------


def say_absent_users(gaps: Sequence[tuple[int, int]], shown: int = 5) -> None:
    """Which of the users that were asked for are not there."""
    if gaps:
        named = [str(first) if first == last else f"{first}-{last}" for first, last in gaps[:shown]]
        more = " and more" if len(gaps) > shown else ""
        say(f"Not in this data set, and left out: {', '.join(named)}{more}.")


class BatchProgress(_Progress):
    """Follows a batch on stderr: rate and time left; a line a minute without a terminal."""

    def __init__(self) -> None:
        super().__init__(stays=True)
        self._units = self._failed = 0
        self._start = self._told = time.monotonic()

    def show(self, event: BatchEvent) -> None:
        from srs_eval.benchmark.plan import Planned, UnitDone

        match event:
            case Planned():
                self._say(event)
            case UnitDone():
                self._failed += event.unit.status == "failed"
                self._advance(event.finished, event.share)

    def _say(self, plan: Planned) -> None:
        self._units, self._start = plan.units, time.monotonic()
        before = plan.present + plan.skipped_before
        words = (
            f"{counted(plan.users, 'user')}, "
            f"{counted(len(plan.configurations), 'configuration')}: "
            f"{counted(plan.units, 'unit')} to evaluate"
        )
        notes = [f"{before:,} are there"] if before else []
        if plan.retried:
            notes.append(f"{plan.retried:,} failed before and are tried again")
        if notes:
            words += f" ({', '.join(notes)})"
        if plan.units:
            jobs = (
                counted(plan.jobs, "job") if plan.jobs else "one worker (the cluster has none yet)"
            )
            words += f", about {clock(plan.expected_seconds)} with {jobs}"
        if plan.compile_seconds:
            words += f"; kernels are compiled first, once: {clock(plan.compile_seconds)} of it"
        say(words)
        if plan.damaged:
            are = "is" if plan.damaged == 1 else "are"
            lines = counted(plan.damaged, "damaged line")
            say(f"{lines} of the journal {are} ignored and evaluated again")
        if plan.units:
            self._begin("", "starting", 1.0)

    def _advance(self, finished: int, share: float) -> None:
        now = time.monotonic()
        gone = max(now - self._start, 1e-9)
        words = f"{finished:,}/{self._units:,} units  {finished / gone:,.1f}/s"
        if self._failed:
            words += f"  {self._failed:,} failed"
        if self._live:
            self._progress.update(self._tasks[""], completed=share, description=words)
        elif now - self._told >= _PLAIN_SECONDS:
            self._told = now
            say(f"{words}  about {clock(gone * (1 - share) / max(share, 1e-9))} left")


@contextmanager
def share_done(console: Console, words: str) -> Iterator[Callable[[str, float], None]]:
    """One line of progress on a terminal: what is being done, how much of it, the time left.

    Gives a function of these words and the share (0-1) that lies behind.
    """
    with _bars(console) as progress:
        task = progress.add_task(words, total=1.0)

        def tell(words: str, share: float) -> None:
            progress.update(task, description=words, completed=share)

        yield tell


# --- compare -------------------------------------------------------------------

ANKI_ROWS = (
    "Reviews are those that Anki's optimizer takes (--rows anki); "
    "a verdict speaks of reviews like these. An interval beyond 0 is none yet where "
    "several are judged together (Holm), nor below 1,000 reviews or 20 days."
)
MODELS_ROWS = (
    "Reviews are those of the benchmark (--rows benchmark); a verdict speaks of reviews like "
    "these. FSRS-6 is fitted to the reviews before each fold."
)
STATE_CLOSING = (
    "STATE-FSRS-6 knows every answer before the one it predicts; a scheduler cannot. "
    "Intervals are 95 %, over days."
)
_SENTENCE_WIDTH = 80


def print_answers(
    answers: Iterable[Finding], console: Console, closing: str = ANKI_ROWS
) -> list[Finding]:
    """Sentences as each answer comes, then the figures behind them in tables of 80 columns.

    Returns the answers.
    """
    from rich.padding import Padding
    from rich.text import Text

    from srs_eval.advice.questions import REGISTRY
    from srs_eval.advice.sentences import parameter_line
    from srs_eval.advice.shown import sentences, tables
    from srs_eval.report.findings import figures
    from srs_eval.report.terminal import table_text

    width = min(console.width, _SENTENCE_WIDTH)
    question = None
    shown = []
    for answer in answers:
        shown.append(answer)
        if answer.question != question:
            question = answer.question
            console.print(Text(f"\n{REGISTRY[question].title}", "bold"))
        console.print(Text(f"\n{answer.subject}", "bold"))
        for sentence in sentences(answer):
            console.print(Padding(Text(sentence), (0, 0, 0, 2), expand=False), width=width)
        if answer.parameters is not None:
            line = Text(f"FSRS parameters: {parameter_line(answer.parameters)}")
            console.print(Padding(line, (0, 0, 0, 2), expand=False), width=width)
    for answer in shown:
        for table in tables(answer):
            console.print()
            for part in table_text(figures(table, ""), width, elsewhere=None):
                console.print(part, width=width)
    if shown:
        console.print(f"\n{closing}", width=width, style="dim")
    return shown
