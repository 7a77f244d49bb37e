"""The answers: what a learner sees first, one line a preset and one a question."""

from __future__ import annotations

import textwrap
import time
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srs_eval.advice.overview import UNTOLD, Line, Overview
from srs_eval.advice.questions import OF_PRESETS
from srs_eval.advice.shown import sentences
from srs_eval.data.errors import counted
from srs_eval.report import formats as words
from srs_eval.tui.screens.actions import ANSWERS, bindings
from srs_eval.tui.screens.base import TOO_NARROW, AppScreen
from srs_eval.tui.widgets.chrome import ProtocolLine
from srs_eval.tui.widgets.evidence import evidence, parameters_to_paste

_ROWS: dict[str, str] = {"anki": "those of Anki's optimizer", "benchmark": "the benchmark's"}
_COPIED = "; y\N{NO-BREAK SPACE}copies\N{NO-BREAK SPACE}it"  # a question's line of parameters
_BREAKPOINTS = [*TOO_NARROW, (150, "-beside")]
"""From 150 columns on a line's evidence stands beside it, in its own words and unbroken names."""
_TITLE = 19  # columns of the questions
_NAME = 18  # at most, of a preset's name
_WAY = 16


def show_basis(screen: AppScreen) -> None:
    """In the top line: the reviews that answers rest on, which need not be the ranking's."""
    session = screen.session
    for line in screen.query(ProtocolLine):
        if session.receipt is not None:
            kept = session.receipt.rows[session.overview.rows]
            last = session.receipt.last_review
            facts = [
                f"{words.count(kept.kept)} reviews",
                *([f"last on {last[:10]}"] if last else []),
            ]
            line.show(session.file_name, *facts, f"rows: {session.overview.rows}")


class Lines(OptionList):
    """Says when it has another width: later than the screen, which lays it out."""

    class Resized(Message):
        pass

    def __init__(self) -> None:
        super().__init__(id="lines")
        self._width = 0

    def on_resize(self) -> None:
        if self.size.width != self._width:
            self._width = self.size.width
            self.post_message(self.Resized())


class AnswersScreen(AppScreen):
    """Shown once a file is read; fills as answers come."""

    actions = ANSWERS
    BINDINGS = bindings(ANSWERS)
    about = """
What your own reviews say about your settings, in one line each; Enter shows what a line \
rests on.

Log loss is the surprise per review, lower is better: 0.69 is a coin's, 0 knows every \
answer. ".024 better (.011 … .037)" is how much less of it there would be, with the 95 % \
interval: it would almost surely help. "(.004 better … .002 worse)" may be either: can't tell \
yet.

For each preset: what to do, and how likely that is to predict you at least as well as leaving \
things as they are: sure from 95 of 100, likely from 80. It joins your own reviews, those that \
neither had seen, with what 9,999 other people gained. "When FSRS says", "Remembered in all" and \
the headline take reviews that your parameters may have been fitted to.

"When FSRS says" counts the reviews of which it said about that; "Remembered in all" counts \
every review of a later day, and why it is not what you desire: cards came later (or earlier) \
than the desired retention asks for, or FSRS expects too much (or too little) of them.

Rows are the reviews that count. Of them can be judged what came on a later day than the answer \
before, but for the first sixth, which is only learned from. Anki's optimizer leaves out others \
than the benchmark of published figures does, so that each set has figures of its own.

y copies the parameters for Anki where there are better ones: paste them in the deck \
options, under FSRS. "Paste one line" means the same line for every preset that says so. w \
shows what another desired retention would cost. m shows how all models rank; that ranking \
rests on the benchmark's reviews, so that its figures compare with published ones, and the \
answers on Anki's.
"""
    passed_over = "#beside"
    HORIZONTAL_BREAKPOINTS = _BREAKPOINTS
    SAYS: ClassVar[dict[bool, str]] = {True: "cancelled", False: "answered"}

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._shown: list[Text] = []
        self._progress_said = ""

    def content(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="basis")
        with Horizontal():
            with Vertical(id="said"):
                yield Static(id="columns")
                yield Lines()
            with VerticalScroll(id="beside"):
                yield Static(id="evidence")
        yield Static(id="detail")
        yield Static(id="progress")

    @property
    def overview(self) -> Overview:
        return self.session.overview

    def on_mount(self) -> None:
        self.query_one("#beside").can_focus = False
        self.query_one("#lines").focus()
        self.set_interval(0.5, self._progress)
        self.update_now()

    @on(Lines.Resized)
    def _resized(self) -> None:
        self._shown = []
        self.update_now()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.update_now()

    def show_protocol(self) -> None:
        show_basis(self)

    def update_now(self) -> None:
        """Show the answers so far."""
        if self.lacks("#lines"):
            return
        overview, width = self.overview, self.query_one("#lines").size.width - 4
        headline = overview.headline or "How well does FSRS predict you? …"
        self.query_one("#headline", Static).update(Text(headline, "bold"))
        basis = f"Rows: {_ROWS[overview.rows]}; the ranking: {self._ranked_rows()}."
        if overview.rows == "benchmark" and not overview.gone:
            basis += " What a retention costs in reviews a day can be told of a collection only."
        if overview.gone:
            basis = f"Nearly all that you reviewed is suspended or deleted. {basis}"
        self.query_one("#basis", Static).update(Text(self._as_of() or basis, "dim"))
        self._lines = overview.lines
        name = max([6, *(len(line.title) for line in self._lines if line.way)])
        name = min(name, _NAME)
        self.query_one("#columns", Static).update(
            Text(f"{'Preset':<{name}}  {'what to do':<{_WAY}}how sure", "dim")
        )
        shown = [
            _preset(line, name, width) if line.way else _question(line, width)
            for line in self._lines
        ]
        if shown != self._shown:
            self._shown = shown
            self._list(shown)
        self._detail()
        self._progress()
        self.refresh_bindings()

    def _ranked_rows(self) -> str:
        """Which reviews the ranking rests on, and the key to it."""
        rows = self.session.models.protocol.rows
        shown = "the same" if rows == self.overview.rows else _ROWS[rows]
        return f"{shown} (m)"

    def _as_of(self) -> str:
        """Of which day the answers are, while those of today are worked out."""
        session = self.session
        if session.earlier is None or not self.overview.waiting:
            return ""
        day = time.strftime("%Y-%m-%d", time.localtime(session.earlier.at))
        entries = session.earlier.entries
        new = 0 if session.receipt is None else session.receipt.entries_read - entries
        since = f": {counted(new, 'review')} more in the file since then" if new > 0 else ""
        return f"As of {day}{since}. Today's answers replace these as they come."

    def _list(self, shown: list[Text]) -> None:
        lines = self.query_one("#lines", OptionList)
        before = lines.highlighted_option.id if lines.highlighted_option else None
        lines.clear_options()
        for place, (line, text) in enumerate(zip(self._lines, shown, strict=True)):
            if place and self._lines[place - 1].question == OF_PRESETS != line.question:
                lines.add_option(None)
            lines.add_option(Option(text, id=f"{line.question} {line.title}"))
        ids = [option.id for option in lines.options]
        lines.highlighted = ids.index(before) if before in ids else (0 if ids else None)

    def chosen(self) -> Line | None:
        """The line under the cursor."""
        found = self.query_one("#lines", OptionList).highlighted
        return self._lines[found] if found is not None and found < len(self._lines) else None

    def _detail(self) -> None:
        line = self.chosen()
        detail, beside = self.query_one("#detail", Static), self.query_one("#evidence", Static)
        detail.set_class(line is not None and line.parameters is not None, "-to-paste")
        if line is None or not line.answers:
            detail.update("")
            beside.update("")
            return
        answer = line.answers[0]
        copied = next((each for each in line.answers if each.parameters), None)
        if copied is not None:
            detail.update(parameters_to_paste(copied))
        else:
            detail.update(Text(" ".join(sentences(answer)[:2])))
        beside.update(evidence(answer))

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
        if text != self._progress_said:
            self._progress_said = text
            self.query_one("#progress", Static).update(Text(text), layout=False)

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self._detail()
        self.refresh_bindings()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_evidence()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("costs", "choose"):
            return self.overview.rows == "anki"  # else presets are not known
        if action == "cancel":
            return self.session.answers_ended is None or super().check_action(action, parameters)
        if action == "again":
            return self.session.answers_ended is not None and bool(self.overview.waiting)
        return super().check_action(action, parameters)

    def action_evidence(self) -> None:
        line = self.chosen()
        self._show(line)

    def _show(self, line: Line | None) -> None:
        if line is None or not line.answers:
            self.notify("This is not answered yet.", timeout=3)
            return
        from srs_eval.tui.screens.evidence import EvidenceScreen

        self.app.push_screen(EvidenceScreen(line.question, line.title))

    def action_costs(self) -> None:
        """Of the preset under the cursor, else of the one with the most reviews."""
        from srs_eval.tui.screens.costs import CostsScreen

        line = self.chosen()
        of_preset = line is not None and bool(line.way)
        self.app.push_screen(CostsScreen(line.title if line is not None and of_preset else None))

    def action_state(self) -> None:
        self._of("day")

    def action_time(self) -> None:
        self._of("time")

    def _of(self, question: str) -> None:
        self._show(next((line for line in self._lines if line.question == question), None))

    def action_copy(self) -> None:
        self.session.copy_of(self.chosen())

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

        screen = ChooseScreen(session.whole[1], self.overview.rows, session.judged_only)
        self.app.push_screen(screen, session.judge_only)

    def action_receipt(self) -> None:
        from srs_eval.tui.screens.import_summary import ReceiptScreen

        self.app.push_screen(ReceiptScreen())

    def action_again(self) -> None:
        self.session.ask()
        self.update_now()

    def action_back(self) -> None:
        self.close_file()


def _preset(line: Line, name: int, width: int) -> Text:
    """ "Vocabulary   optimize   ●●●●○ likely, 88 of 100"."""
    beginning = Text(f"{words.cut(line.title, name):<{name}}  ")
    beginning.append(f"{line.way:<{_WAY}}", "bold" if line.parameters else "")
    room = width - len(beginning)
    if len(line.text) <= room:
        return beginning.append(line.text)
    return beginning.append("\n").append(_wrapped(line.text, name + 2, width))


def _question(line: Line, width: int) -> Text:
    title = Text(f"{line.title:<{_TITLE}}  ", "dim")
    text = line.text.removesuffix(".") + _COPIED if line.parameters else line.text
    style = "" if line.question == UNTOLD else "not dim"
    return title.append(_wrapped(text, _TITLE + 2, width).lstrip(), style)


def _wrapped(text: str, indent: int, width: int) -> str:
    blank = " " * indent
    wrapped = textwrap.wrap(
        text, max(width, indent + 12), initial_indent=blank, subsequent_indent=blank
    )
    return "\n".join(wrapped) or blank
