"""What one answer rests on, in full."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from srs_eval.advice.overview import CANT_TELL, Line
from srs_eval.advice.questions import OF_PRESETS, REGISTRY
from srs_eval.tui.screens.answers import show_basis
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.evidence import evidence, parameters_to_paste
from srs_eval.tui.widgets.facts import WidthDependent, stacked
from srs_eval.tui.widgets.panes import paint


class EvidenceScreen(AppScreen, actions="evidence"):
    """The answers of one line, one below another."""

    def __init__(self, question: str, title: str) -> None:
        super().__init__()
        self._key = question, title

    def content(self) -> ComposeResult:
        box = VerticalScroll(id="box")
        with box:
            yield Static(id="all")
        yield Static(id="paste")

    def show_protocol(self) -> None:
        show_basis(self)

    def on_mount(self) -> None:
        self.query_one("#box").focus()
        self.update_now()

    def line(self) -> Line | None:
        """The line shown, as it is now."""
        lines = self.session.overview.lines
        return next((each for each in lines if (each.question, each.title) == self._key), None)

    def update_now(self) -> None:
        """Show the answers of the line."""
        line = self.line()
        if line is None or not self.query("#box"):
            return
        by_name = line.question in (OF_PRESETS, CANT_TELL)
        title = line.title if by_name else REGISTRY[line.question].title
        self.query_one("#box").border_title = title
        parts: list[Text | WidthDependent] = []
        for answer in line.answers:
            about = REGISTRY[answer.question]
            if about.is_beside or line.question == CANT_TELL:
                parts.append(Text(about.title, "bold underline"))
            elif len(line.answers) > 1 and line.question != OF_PRESETS:
                parts.append(Text(answer.subject, "bold underline"))
            parts.append(evidence(answer, paint(self.app)))
        self.query_one("#all", Static).update(stacked(parts))
        paste = self.query_one("#paste", Static)
        copied = next((each for each in line.answers if each.parameters), None)
        paste.display = copied is not None
        if copied is not None:
            paste.update(parameters_to_paste(copied))
        self.refresh_bindings()

    def _move(self, step: int) -> None:
        lines = [each for each in self.session.overview.lines if each.answers]
        keys = [(each.question, each.title) for each in lines]
        place = keys.index(self._key) + step if self._key in keys else 0
        if 0 <= place < len(keys):
            self._key = keys[place]
            self.update_now()
            self.query_one("#box").scroll_home(animate=False)

    def action_previous(self) -> None:
        self._move(-1)

    def action_next(self) -> None:
        self._move(1)

    def action_copy(self) -> None:
        self.session.copy_of(self.line())
