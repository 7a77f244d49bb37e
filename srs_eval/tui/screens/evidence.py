"""What one answer rests on, in full."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from srs_eval.advice.findings import ALL_REVIEWS
from srs_eval.advice.overview import CANT_TELL, Line
from srs_eval.advice.questions import OF_PRESETS, REGISTRY
from srs_eval.advice.workload.estimate import Workload
from srs_eval.tui.screens.answers import show_basis
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.evidence import evidence, in_full, parameters_to_paste
from srs_eval.tui.widgets.facts import WidthDependent, stacked
from srs_eval.tui.widgets.panes import paint


class EvidenceScreen(AppScreen, actions="evidence"):
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

    def _move(self, step: int) -> None:
        lines = [each for each in self.session.overview.lines if each.answers]
        keys = [(each.question, each.title) for each in lines]
        place = keys.index(self._key) + step if self._key in keys else 0
        if 0 <= place < len(keys):
            self._key, self._pane = keys[place], None
            self.update_now()
            self.query_one("#box").scroll_home(animate=False)

    def action_previous(self) -> None:
        self._move(-1)

    def action_next(self) -> None:
        self._move(1)

    def action_copy(self) -> None:
        self.session.copy_of(self.line())
