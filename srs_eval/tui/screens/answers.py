"""The first screen of a file: five questions, each a pane with its answer."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Static

from srs_eval.advice.overview import CANT_TELL, Line, Overview
from srs_eval.advice.shown import first_screen
from srs_eval.data.errors import counted
from srs_eval.report import formats as words
from srs_eval.report.panes import below, needed
from srs_eval.tui.screens.base import AppScreen, ProtocolLine
from srs_eval.tui.widgets.panes import BELOW, PaneBox, heights, paint

_PANES = range(1, 6)
_FSRS = {True: "FSRS is on", False: "FSRS is off"}


def show_basis(screen: AppScreen) -> None:
    """In the top line: what the answers rest on."""
    session = screen.session
    for line in screen.query(ProtocolLine):
        if session.import_summary is not None:
            kept = session.import_summary.rows[session.overview.rows]
            last = session.import_summary.last_review
            fsrs = session.import_summary.fsrs_enabled
            facts = [
                f"{words.count(kept.kept)} reviews",
                *([f"last on {last[:10]}"] if last else []),
                *([_FSRS[fsrs]] if fsrs is not None else []),
            ]
            line.show(session.file_name, *facts)


class AnswersScreen(AppScreen, actions="answers"):
    """Shown once a file is read; fills as answers come."""

    BINDINGS: ClassVar = [
        *(Binding(str(n), f"pane({n})", "Open", show=n == 1, key_display="1-5") for n in _PANES),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self._progress_said = ""

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

    def show_protocol(self) -> None:
        show_basis(self)

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
        text = f"{self._as_of()}{text}"
        if text != self._progress_said:
            self._progress_said = text
            self.query_one("#progress", Static).update(Text(text), layout=False)

    def _as_of(self) -> str:
        """Of which day the answers are, while those of today are worked out."""
        session = self.session
        if session.earlier is None or not self.overview.waiting:
            return ""
        day = time.strftime("%Y-%m-%d", time.localtime(session.earlier.at))
        entries = session.earlier.entries
        new = 0 if session.import_summary is None else session.import_summary.entries_read - entries
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

    @on(PaneBox.Opened)
    def _opened(self, event: PaneBox.Opened) -> None:
        self.action_pane(event.number)

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
            return
        from srs_eval.tui.screens.evidence import EvidenceScreen

        self.app.push_screen(EvidenceScreen(line.question, line.title, pane))

    def action_untold(self) -> None:
        """What can't be told yet."""
        untold = (line for line in self.overview.lines if line.question == CANT_TELL)
        self._show(next(untold, None))

    def action_costs(self) -> None:
        from srs_eval.tui.screens.costs import CostsScreen

        self.app.push_screen(CostsScreen())

    def action_copy(self) -> None:
        copied = self.overview.first_screen.copied
        self.session.copy_of(
            next((line for line in self.overview.lines if copied in line.answers), None)
        )

    def action_ranking(self) -> None:
        self.show_ranking()

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
        from srs_eval.tui.screens.dialogs import ChooseScreen

        screen = ChooseScreen(session.whole[1], self.overview.rows, session.evaluated_only)
        self.app.push_screen(screen, session.evaluate_only)

    def action_import_summary(self) -> None:
        from srs_eval.tui.screens.import_summary import ImportSummaryScreen

        self.app.push_screen(ImportSummaryScreen())

    def action_again(self) -> None:
        self.session.ask()
        self.update_now()

    def action_back(self) -> None:
        self.notify("The file stays open: Ctrl-O chooses another, q leaves.", timeout=3)

    def action_close(self) -> None:
        self.close_file()
