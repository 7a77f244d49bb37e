"""The first screen of a file: five questions, each a pane with its answer; what these rest on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from srs_eval.advice.findings import ALL_REVIEWS
from srs_eval.advice.overview import CANT_TELL, Line, Overview
from srs_eval.advice.questions import OF_PRESETS, REGISTRY
from srs_eval.advice.shown import first_screen
from srs_eval.advice.workload.estimate import REVIEWS, Workload, beginning
from srs_eval.data.errors import NotEnoughData, counted
from srs_eval.engine.evaluate import in_words
from srs_eval.report import formats as words
from srs_eval.report.panes import below, needed
from srs_eval.tui.background import Background
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.screens.dialogs import ChooseScreen, Question
from srs_eval.tui.screens.import_summary import ImportSummaryScreen
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.calibration import chart_colours
from srs_eval.tui.widgets.facts import (
    WidthDependent,
    evidence,
    in_full,
    parameters_to_paste,
    stacked,
)
from srs_eval.tui.widgets.panes import BELOW, PaneBox, heights, paint

_PANES = range(1, 6)
_FSRS = {True: "FSRS is on", False: "FSRS is off"}
_HIGHEST = 0.97  # above, reviews grow so fast that they would flatten the rest
_THOUSAND = 1_000  # from here on labels count in thousands
_NOW = "●"
_BEGINNING = "Your cards of today are reviewed day by day, at one desired retention after another."


class _Answering(AppScreen):
    """A screen whose top line says what the answers rest on."""

    is_live = True

    def facts(self) -> list[str]:
        read = self.session.import_summary
        if read is None:
            return []
        return [
            f"{read.rows[self.session.overview.rows].kept:,} reviews",
            f"last on {read.last_review[:10]}" if read.last_review else "",
            "" if read.fsrs_enabled is None else _FSRS[read.fsrs_enabled],
        ]


class AnswersScreen(_Answering, actions="answers"):
    """Shown once a file is read; fills as answers come."""

    BINDINGS: ClassVar = [
        *(Binding(str(n), f"pane({n})", "Open", show=n == 1, key_display="1-5") for n in _PANES)
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()

    def content(self) -> ComposeResult:
        yield PaneBox(1)
        with Horizontal(classes="row"):
            yield PaneBox(2)
            yield PaneBox(3)
        with Horizontal(classes="row"):
            yield PaneBox(4)
            yield PaneBox(5)
        yield Static(id="below")
        yield Static(id="progress")

    @property
    def overview(self) -> Overview:
        return self.session.overview

    def on_mount(self) -> None:
        self.query_one("#pane-1").focus()
        self.set_interval(0.5, self._progress)
        self.update_now()

    def on_resize(self, event: events.Resize) -> None:
        self.update_now()

    def _arrange(self, width: int, height: int) -> None:
        """Give each pane its lines; what stands above and below has one each."""
        boxes = self.query(PaneBox)
        little = {box.number: box.little(width) for box in boxes if box.little(width)}
        act = needed(boxes.first().pane, width - 4)
        beside, lines = heights(width, height - 2, little, act)
        self.set_class(not beside, "-stacked")
        for box in boxes:
            box.give(lines[box.number])

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.update_now()

    def update_now(self) -> None:
        """Show the answers so far."""
        if self.lacks("#progress"):
            return
        found, size = self.overview.first_screen, self.app.size
        if self._shown != (found, size, self.app.theme):
            self._shown = found, size, self.app.theme
            for box, pane in zip(self.query(PaneBox), found.panes, strict=True):
                box.show(pane)
            self._arrange(*size)
            said = "\n".join(below(found, size.width, BELOW - 1))
            self.query_one("#below", Static).update(Text(said, paint(self.app)["not yet"]))
        self._progress()
        self.refresh_bindings()

    def _progress(self) -> None:
        if self.lacks("#progress"):
            return
        session = self.session
        gone = words.clock((session.answers_ended or session.monotonic()) - session.answers_began)
        if session.answers_ended is None:
            text = f"{counted(len(self.overview.waiting), 'question')} open · {gone} gone"
            if session.compiles:
                text += " · models are compiled first, this once"
        elif self.overview.waiting:
            text = f"cancelled after {gone}; r asks again"
        else:
            text = f"answered in {gone}"
        evaluation = session.models.of_open_file
        if evaluation.models:
            text += f" · models: {evaluation.finished} of {len(evaluation.models)}"
        self.query_one("#progress", Static).update(Text(f"{self._as_of()}{text}"), layout=False)

    def _as_of(self) -> str:
        """Of which day the answers are, while those of today are worked out."""
        earlier, read = self.session.earlier, self.session.import_summary
        if earlier is None or read is None or not self.overview.waiting:
            return ""
        day = time.strftime("%Y-%m-%d", time.localtime(earlier.at))
        new = read.entries_read - earlier.entries
        since = f", {counted(new, 'review')} ago" if new > 0 else ""
        return f"As of {day}{since} · "

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("costs", "choose"):
            return self.overview.rows == "anki"  # else presets are not known
        if action == "cancel":
            return self.session.answers_ended is None or super().check_action(action, parameters)
        if action == "again":
            return self.session.answers_ended is not None and bool(self.overview.waiting)
        return super().check_action(action, parameters)

    def action_details(self) -> None:
        self.action_pane(self.focused.number if isinstance(self.focused, PaneBox) else 1)

    def action_pane(self, number: int) -> None:
        """What a pane's answer rests on."""
        self.query_one(f"#pane-{number}").focus()
        pane = self.overview.first_screen.panes[number - 1]
        untold = pane.items == (pane.short,) and pane.short.level == "not yet"
        rests_on = (
            line
            for question in pane.questions[: 1 if untold else None]
            for line in self.overview.lines
            for each in line.answers
            if each.question == question and pane.subject in ("", each.subject)
        )
        line = next(rests_on, Line("", pane.title, ()))
        self._show(None if pane.short == first_screen.WAITING else line, number)

    def _show(self, line: Line | None, pane: int | None = None) -> None:
        if line is None:
            self.notify("This is not answered yet.", timeout=3)
        else:
            self.app.push_screen(EvidenceScreen(line.question, line.title, pane))

    def action_untold(self) -> None:
        """What can't be told yet."""
        untold = (line for line in self.overview.lines if line.question == CANT_TELL)
        self._show(next(untold, None))

    def action_costs(self) -> None:
        self.app.push_screen(CostsScreen())

    def action_copy(self) -> None:
        copied = self.overview.first_screen.copied
        self.session.copy_of(
            next((line for line in self.overview.lines if copied in line.answers), None)
        )

    def action_cancel(self) -> None:
        if self.session.answers_ended is None and not self.session.reports.said:
            self.session.cancel_answers()
            self.update_now()
        else:
            super().action_cancel()

    def action_choose(self) -> None:
        session = self.session
        if session.whole is None or not session.whole[1].presets:
            self.notify("This file says nothing of presets and decks.", timeout=3)
            return
        screen = ChooseScreen(session.whole[1], self.overview.rows, session.evaluated_only)
        self.app.push_screen(screen, session.evaluate_only)

    def action_import_summary(self) -> None:
        self.app.push_screen(ImportSummaryScreen())

    def action_again(self) -> None:
        self.session.ask()
        self.update_now()

    def action_back(self) -> None:
        self.notify("The file stays open: Ctrl-O chooses another, q leaves.", timeout=3)

    def action_close(self) -> None:
        """Back to the first screen; asks first where that stops what a person waits for."""

        def close(stop: bool | None) -> None:
            if stop:
                self.session.close_file()
                while len(self.app.screen_stack) > 1:  # whatever has opened over this screen, too
                    self.app.pop_screen()

        session = self.session
        answers = session.answers_ended is None and session.overview.waiting
        if answers or (session.models.can_cancel and session.models.wanted):
            question = Question(
                "Stop what still runs?",
                "Models that have finished are kept on disk and need not be done again; answers "
                "are kept once there are all of them.",
                "Stop and close",
                "Keep running",
            )
            self.app.push_screen(question, close)
        else:
            close(True)


class EvidenceScreen(_Answering, actions="evidence"):
    """The answers of one line, one below another; above them the `pane` that led here."""

    def __init__(self, question: str, title: str, pane: int | None = None) -> None:
        super().__init__()
        self._key = question, title
        self._pane = pane

    def content(self) -> ComposeResult:
        box = VerticalScroll(id="box")
        with box:
            yield Static(id="all")
        yield Static(id="paste")

    def on_mount(self) -> None:
        self.query_one("#box").focus()
        self.update_now()

    def line(self) -> Line | None:
        """The line shown, as it is now."""
        lines = self.session.overview.lines
        return next((each for each in lines if (each.question, each.title) == self._key), None)

    def update_now(self) -> None:
        """Show the answers of the line."""
        line, colours = self.line(), paint(self.app)
        if (line is None and self._pane is None) or not self.query("#box"):
            return
        question, title = self._key
        answers = () if line is None else line.answers
        if question not in ("", OF_PRESETS, CANT_TELL):
            title = REGISTRY[question].title
        parts: list[Text | WidthDependent] = []
        above: set[str] = set()
        if self._pane is not None:
            pane = self.session.overview.first_screen.panes[self._pane - 1]
            is_named = question == OF_PRESETS and title != ALL_REVIEWS
            title = f"{pane.title}: {title}" if is_named else pane.title
            if question == CANT_TELL:  # the others of that line are not this pane's
                answers = tuple(each for each in answers if each.question in pane.questions)
            if not any(isinstance(each.evidence, Workload) for each in answers):  # has its bars
                above = {getattr(each, "text", "").strip(" .").casefold() for each in pane.items}
                parts = [in_full(pane, colours), Text("")]
        self.query_one("#box").border_title = title
        for number, answer in enumerate(answers, start=1):
            about = REGISTRY[answer.question]
            if about.is_beside or question == CANT_TELL:
                parts.append(Text(about.title, "bold underline"))
            elif len(answers) > 1 and question != OF_PRESETS:
                parts.append(Text(answer.subject, "bold underline"))
            follow = {each.question for each in answers[number:]}
            parts.append(evidence(answer, colours, above | follow))
        self.query_one("#all", Static).update(stacked(parts))
        paste = self.query_one("#paste", Static)
        copied = next((each for each in answers if each.parameters), None)
        paste.display = copied is not None
        if copied is not None:
            paste.update(parameters_to_paste(copied))
        self.refresh_bindings()

    def move(self, step: int) -> None:
        lines = [each for each in self.session.overview.lines if each.answers]
        keys = [(each.question, each.title) for each in lines]
        place = keys.index(self._key) + step if self._key in keys else 0
        if 0 <= place < len(keys):
            self._key, self._pane = keys[place], None
            self.update_now()
            self.query_one("#box").scroll_home(animate=False)

    def action_copy(self) -> None:
        self.session.copy_of(self.line())


class CostsScreen(_Answering, actions="costs"):
    """The cards there are, played forward day by day."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Workload | None = None

    def content(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(id="box"):
                yield Static(_BEGINNING, id="all")
            yield _CostsChart(id="drawn")

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = "What a desired retention costs"
        box.focus()
        box.border_subtitle = beginning()
        coming = (partial(self._costed, found) for found in self.session.costs())
        self._work = Background(self.session.later)
        self._work.begin(lambda _: coming, self._all_costed)

    def on_unmount(self) -> None:
        self._work.cancel()

    def _costed(self, found: Workload) -> None:
        """Text, and the curves beside it where the window is wide enough."""
        if not self.lacks("#drawn"):
            self.found = found
            self.query_one("#box").border_subtitle = found.doing
            self.update_now()

    def update_now(self) -> None:
        if self.found is not None and not self.lacks("#drawn"):
            head = Text(self.found.preset, "bold underline")
            shown = evidence(self.found.finding, paint(self.app))
            self.query_one("#all", Static).update(stacked([head, shown]))
            self.query_one(_CostsChart).draw(self.found)

    def _all_costed(self, error: Exception | None) -> None:
        """It won't be known better, or can't be told."""
        if self.lacks("#all"):
            return
        self.query_one("#box").border_subtitle = ""
        if error is not None:
            said = in_words(error)[0]
            if isinstance(error, NotEnoughData):
                said = f"Too little data to tell what a desired retention costs: {error}."
            self.query_one("#all", Static).update(Text(said))


class _CostsChart(plot.Plot):
    """Reviews a day by desired retention; a dot tells today's."""

    def on_mount(self) -> None:
        self.border_title = "Reviews a day, with 95 % ranges"

    def draw(self, found: Workload) -> None:
        """In the colours of the theme."""
        self.add_class("-known")
        at = found.retentions
        reviews = found.figures[:, REVIEWS].tolist()
        low_end, high_end = (end[:, REVIEWS].tolist() for end in found.band)
        primary, secondary, faint = chart_colours(self.app)
        inside = [end for each, end in zip(at, high_end, strict=True) if each <= _HIGHEST + 1e-9]
        high = 1.06 * max(inside or high_end) or 1.0
        marks = [
            plot.Mark(at, low_end, faint),
            plot.Mark(at, high_end, faint),
            plot.Mark(at, reviews, primary),
        ]
        self.border_subtitle = "→ desired retention, %"
        if not found.is_off:
            now = found.at(found.desired)
            marks.insert(0, plot.Mark([at[now], at[now]], [0.0, high], faint))
            marks.append(plot.Mark([at[now]], [reviews[now]], f"bold {secondary}", _NOW))
            self.border_subtitle += f"   {_NOW} today's"
        percents = [(p / 100, f"{p}") for p in range(70, 100, 5)]
        x_axis = plot.Axis(at[0] - 0.005, at[-1] + 0.005, percents)
        y_axis = plot.Axis(0.0, high, _ticks(high))
        self.graph = plot.Graph(marks, x_axis, y_axis, faint)


def _ticks(high: float) -> Sequence[tuple[float, str]]:
    """Some even steps from zero, with labels of three characters at most."""
    in_thousands = high >= _THOUSAND
    step = plot.even_step(max(high / 6, _THOUSAND if in_thousands else 0.1))
    values = plot.even_values(0.0, high, step)
    if in_thousands:
        return [(value, f"{value / _THOUSAND:.0f}k") for value in values]
    return [(value, f"{value:.{int(step < 1)}f}") for value in values]
