"""Show a file's answers in five panes, the evidence for them, and the costs of retention."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from srs_eval.advice.findings import ALL_REVIEWS, Checks, Finding, Fit, Sharing
from srs_eval.advice.overview import INCONCLUSIVE_LINE, AnswerLine, Overview
from srs_eval.advice.questions import PARAMETERS, QUESTION_REGISTRY, name_command
from srs_eval.advice.sentences import FirstScreen, Pane, PaneLine, capitalize, format_day
from srs_eval.advice.shown import first_screen
from srs_eval.advice.shown.fsrs7_switch import describe_preview
from srs_eval.advice.workload.estimate import Workload, describe_beginning
from srs_eval.advice.workload.ranges import REVIEWS
from srs_eval.data.errors import NotEnoughData, format_count
from srs_eval.data.paths import DEMO_FILE
from srs_eval.engine.failures import describe_failure
from srs_eval.report import formats
from srs_eval.report.inspection import list_facts
from srs_eval.report.panes import count_needed_lines, wrap_notes
from srs_eval.tui.background import Background
from srs_eval.tui.models import SM2_AND_FSRS
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.screens.dialogs import ChooseScreen, ConfirmDialog
from srs_eval.tui.screens.import_summary import ImportSummaryScreen
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.calibration import chart_colours
from srs_eval.tui.widgets.facts import (
    WidthDependent,
    count_foldable_tables,
    has_more_evidence,
    render_evidence,
    render_full_pane,
    render_parameters_to_paste,
    stack,
)
from srs_eval.tui.widgets.panes import NOTE_LINES, PaneBox, compute_heights, theme_styles

_MAX_SCALED_RETENTION = 0.97  # above this, reviews grow so fast that they would flatten the rest
_THOUSAND = 1_000  # an axis that reaches it has labels in thousands
_TODAY_MARK = "●"
_COSTS_INTRODUCTION = (
    "srs-eval simulates your current cards day by day, for one desired retention after another."
)


_PANE_OF_ACTS = 1


def _find_line_to_copy(overview: Overview) -> AnswerLine | None:
    """Return the line with the parameters of the first act that has some; None if none has."""
    answer = overview.first_screen.copyable
    lines = (line for line in overview.lines if answer in line.answers)
    return next(lines, None)


class _AnswerScreenBase(AppScreen):
    """Base of screens of answers; the top line shows which reviews these rest on."""

    follows_changes = True

    def facts(self) -> list[str]:
        summary = self.session.import_summary
        if summary is None:
            return []
        return list_facts(summary, self.session.overview.row_rule)


class AnswersScreen(_AnswerScreenBase, actions="answers"):
    """The first screen of an open file, which fills as answers come."""

    BINDINGS: ClassVar = [
        # The footer shows the first of the five keys, as "1-5".
        Binding(str(number), f"pane({number})", "Open", show=number == 1, key_display="1-5")
        for number in range(1, 6)
    ]

    def __init__(self) -> None:
        super().__init__()
        self._drawn_state: tuple[object, ...] = ()  # nothing is drawn again until this changes
        self._note = ""  # stands in place of the notes below the panes for some seconds
        self._note_timer: Timer | None = None
        self._awaits_comparison = False  # it opens once SM-2 and FSRS have their figures

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
        self.set_interval(0.5, self._update_progress)
        self.update_now()

    def on_resize(self, event: events.Resize) -> None:
        self.update_now()

    def _size_panes(self, width: int, height: int, note_lines: int) -> None:
        """Set the height of each pane; the top line and the line of keys take one line each.

        `note_lines` is the number of lines below the panes.
        """
        boxes = self.query(PaneBox)
        short_panes = {}
        for box in boxes:
            line_count = box.unframed_lines(width)
            if line_count:
                short_panes[box.number] = line_count
        action_lines = count_needed_lines(boxes.first().pane, width - 4)  # within the frame
        lower_lines = max(
            count_needed_lines(box.pane, width // 2 - 4) for box in boxes if box.number > 3
        )
        is_side_by_side, heights = compute_heights(
            width, height - 2, short_panes, action_lines, lower_lines, note_lines
        )
        self.set_class(not is_side_by_side, "-stacked")
        for box in boxes:
            box.set_lines(heights[box.number])

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.update_now()

    def update_now(self) -> None:
        """Show the answers so far."""
        if self.is_missing("#progress"):
            return
        screen = self.overview.first_screen
        size = self.app.size
        hint = self._comparison_hint()
        state = (screen, size, self.app.theme, self._note, hint)
        if state != self._drawn_state:
            self._drawn_state = state
            for box, pane in zip(self.query(PaneBox), screen.panes, strict=True):
                box.show(pane, hint if box.number == _PANE_OF_ACTS else "")
            note_lines = self._draw_notes(screen, size.width)
            self._size_panes(*size, note_lines)
        self._update_progress()
        self.refresh_bindings()

    @property
    def _can_compare_schedulers(self) -> bool:
        """Return whether SM-2 can be compared with FSRS on these reviews."""
        for answer in self.overview.answers:
            if isinstance(answer.evidence, Fit) and answer.evidence.has_older_scheduler:
                return self.session.models.can_compare_schedulers
        return False

    def _comparison_hint(self) -> str:
        """Return what the key of the comparison shows; "" if there is nothing to compare."""
        if not self._can_compare_schedulers:
            return ""
        return f"{self.key_of('compare')} shows what SM-2 and FSRS predicted, side by side"

    def _draw_notes(self, screen: FirstScreen, width: int) -> int:
        """Draw the notes below the panes, or a message in the lines of notes and progress.

        Return how many lines notes and progress, or the message, take.
        """
        below = self.query_one("#below", Static)
        has_message = bool(self._note)
        self.query_one("#progress").display = not has_message
        if has_message:
            message = replace(screen, footer=(PaneLine(self._note),))
            lines = wrap_notes(message, width, NOTE_LINES)
            below.update(Text("\n".join(lines), "bold"))
        else:
            lines = wrap_notes(screen, width, NOTE_LINES - 1)
            below.update(Text("\n".join(lines), theme_styles(self.app)["not yet"]))
        below.display = bool(lines)
        below.styles.height = len(lines)
        return len(lines) if has_message else len(lines) + 1

    def show_note(self, message: str, seconds: float) -> None:
        """Show a message in place of the notes and the progress for some seconds."""
        self._note = message
        if self._note_timer is not None:
            self._note_timer.stop()
        self._note_timer = self.set_timer(seconds, self._clear_note)
        self.update_now()

    def _clear_note(self) -> None:
        self._note = ""
        self.update_now()

    def _update_progress(self) -> None:
        if self.is_missing("#progress"):
            return
        self._open_awaited_comparison()
        session = self.session
        end = session.answers_ended_at or session.monotonic()
        duration = formats.format_duration(end - session.answers_started_at)
        if session.answers_ended_at is None:
            question_count = format_count(len(self.overview.waiting), "question")
            text = f"{question_count} to go · {duration} elapsed"
            if session.compiles:
                text += " · compiling models (first run only)"
        elif self.overview.waiting:
            text = f"cancelled after {duration}; press r to start again"
        else:
            text = f"answered in {duration}"
        evaluation = session.models.run_of_open_file
        if self._awaits_comparison:
            text = "SM-2 and FSRS will open side by side once both are evaluated"
        if evaluation.models:
            text += f" · models: {evaluation.finished_count} of {len(evaluation.models)}"
        self.query_one("#progress", Static).update(
            Text(f"{self._describe_saved_date()}{text}"), layout=False
        )

    def _describe_saved_date(self) -> str:
        """Return the date of saved answers while new ones are computed, else ""."""
        saved_answers = self.session.saved_answers
        summary = self.session.import_summary
        if saved_answers is None or summary is None or not self.overview.waiting:
            return ""
        day = format_day(date.fromtimestamp(saved_answers.saved_at_s).isoformat())
        new_entries = summary.entries_read - saved_answers.entry_count
        if new_entries > 0:
            noun = "entry" if new_entries == 1 else "entries"
            return f"Answers saved on {day}; {new_entries:,} new {noun} since · "
        return f"Answers saved on {day} · "

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("costs", "choose"):
            # By another rule, presets are unknown or hardly have reviews.
            return self.overview.row_rule == "anki"
        if action == "compare":
            return self._can_compare_schedulers
        if action == "cancel":
            return self.session.answers_ended_at is None or super().check_action(action, parameters)
        if action == "again":
            return self.session.answers_ended_at is not None and bool(self.overview.waiting)
        return super().check_action(action, parameters)

    def action_details(self) -> None:
        self.action_pane(self.focused.number if isinstance(self.focused, PaneBox) else 1)

    def action_pane(self, number: int) -> None:
        """Show the evidence for a pane's answer."""
        self.query_one(f"#pane-{number}").focus()
        pane = self.overview.first_screen.panes[number - 1]
        if pane.summary == first_screen.WAITING:
            self._show_evidence(None, number)
            return
        line = self._find_evidence_line(pane)
        if line is None:
            line = AnswerLine(question="", title=pane.title, answers=())
        self._show_evidence(line, number)

    def _find_evidence_line(self, pane: Pane) -> AnswerLine | None:
        """Return the first line on which a pane's answer rests."""
        questions = pane.questions
        # If a pane only says that its main question is not settled, nothing else explains that.
        if pane.items == (pane.summary,) and pane.summary.level == "not yet":
            questions = questions[:1]
        for question in questions:
            for line in self.overview.lines:
                for answer in line.answers:
                    if answer.question == question and pane.subject in ("", answer.subject):
                        return line
        return None

    def _show_evidence(self, line: AnswerLine | None, pane_number: int | None = None) -> None:
        """Show the evidence of a line, if there is one, below the pane that led to it."""
        if line is None:
            self.notify("There is no further answer yet.", timeout=3)
        else:
            self.app.push_screen(EvidenceScreen(line.question, line.title, pane_number))

    def move(self, step: int) -> None:
        """Show the first answer that is behind no pane; `n` leads to the next ones there."""
        behind_panes: set[str] = set()
        for pane in self.overview.first_screen.panes:
            behind_panes.update(pane.questions)
        further = (line for line in self.overview.lines if line.question not in behind_panes)
        self._show_evidence(next((line for line in further if line.answers), None))

    def action_untold(self) -> None:
        """Show the questions that can't be answered yet."""
        lines = [line for line in self.overview.lines if line.question == INCONCLUSIVE_LINE]
        if lines:
            self._show_evidence(lines[0])
        else:
            self.notify("No question needs more reviews or days.", timeout=3)

    def action_costs(self) -> None:
        self.app.push_screen(CostsScreen())

    def action_compare(self) -> None:
        """Show SM-2 and FSRS side by side; evaluate the models first unless that is done."""
        if not self.session.models.has_both_schedulers:
            self.session.models.ensure_started()
        self._awaits_comparison = True
        self._update_progress()

    def _open_awaited_comparison(self) -> None:
        """Open the comparison that the user waits for, or say why it will not come."""
        models = self.session.models
        run = models.run_of_open_file
        if not self._awaits_comparison or not self.is_current:
            return
        if models.has_both_schedulers:
            self._awaits_comparison = False
            self.compare(run, *SM2_AND_FSRS, folds_metrics=True)
        elif not models.can_cancel or not self._can_compare_schedulers:
            self._awaits_comparison = False
            self.show_note(
                "SM-2 and FSRS have not both been evaluated, so there is nothing to compare.", 4
            )

    def on_screen_suspend(self, event: events.ScreenSuspend) -> None:
        self._awaits_comparison = False  # it would open over what the user looks at now

    def action_copy(self) -> None:
        self.session.copy_parameters(_find_line_to_copy(self.overview))

    def action_cancel(self) -> None:
        if self.session.answers_ended_at is None and not self.session.reports.progress:
            self.session.cancel_answers()
            self.update_now()
        else:
            super().action_cancel()

    def action_choose(self) -> None:
        session = self.session
        summary = None if session.unfiltered is None else session.unfiltered[1]
        if summary is None or not summary.presets:
            self.notify("This file says nothing about presets or decks.", timeout=3)
            return
        screen = ChooseScreen(summary, self.overview.row_rule, session.chosen_ids)
        self.app.push_screen(screen, session.restrict_to)

    def action_import_summary(self) -> None:
        self.app.push_screen(ImportSummaryScreen())

    def action_again(self) -> None:
        self.session.ask_questions()
        self.update_now()

    def action_back(self) -> None:
        self.notify("The file stays open: Ctrl-O chooses another, q quits.", timeout=3)

    def action_close(self) -> None:
        """Close the file; ask first if that stops work that the user is waiting for."""

        def close(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self.session.close_file()
                while len(self.app.screen_stack) > 1:  # also screens that have opened over this one
                    self.app.pop_screen()

        session = self.session
        is_answering = session.answers_ended_at is None and bool(session.overview.waiting)
        is_evaluating = session.models.can_cancel and session.models.is_requested_by_user
        if is_answering or is_evaluating:
            question = ConfirmDialog(
                "Stop what is still running?",
                "Finished models are saved and will not be evaluated again. Answers are saved "
                "when all of them are complete.",
                "Stop and close",
                "Keep running",
            )
            self.app.push_screen(question, close)
        else:
            close(True)


def _name_subject(answer: Finding) -> str:
    """Return what an answer is about: a preset, or the decks of a preset."""
    if isinstance(answer.evidence, Sharing) and answer.evidence.unit == "deck":
        return f"{answer.subject}, deck by deck"
    return answer.subject


class EvidenceScreen(_AnswerScreenBase, actions="evidence"):
    """The answers of one line, one below another.

    `pane_number` is the pane that led here, if any; it stands above the answers.
    """

    def __init__(self, question: str, title: str, pane_number: int | None = None) -> None:
        super().__init__()
        self._line_key = question, title
        self._pane_number = pane_number
        self._shown_answers: tuple[Finding, ...] = ()
        self._table_count = 0  # tables of figures that can be shown or hidden

    def content(self) -> ComposeResult:
        box = VerticalScroll(id="box")
        with box:
            yield Static(id="all")
        yield Static(id="paste")

    def on_mount(self) -> None:
        self.query_one("#box").focus()
        self.update_now()

    def current_line(self) -> AnswerLine | None:
        """Return the line as it is now; None if it no longer exists."""
        for line in self.session.overview.lines:
            if (line.question, line.title) == self._line_key:
                return line
        return None

    def update_now(self) -> None:
        """Show the answers of the line."""
        line = self.current_line()
        styles = theme_styles(self.app)
        if (line is None and self._pane_number is None) or self.is_missing("#box"):
            return
        question, _ = self._line_key
        answers = () if line is None else line.answers
        sections: list[Text | WidthDependent] = []
        pane_lines: list[str] = []
        pane = None
        if self._pane_number is not None:
            pane = self.session.overview.first_screen.panes[self._pane_number - 1]
            if question == INCONCLUSIVE_LINE:  # the line's other answers belong to other panes
                answers = tuple(answer for answer in answers if answer.question in pane.questions)
            # The evidence of costs draws the pane's bars itself.
            if not any(isinstance(answer.evidence, Workload) for answer in answers):
                for item in pane.items:
                    if isinstance(item, PaneLine):
                        pane_lines.append(item.text)
                sections = [render_full_pane(pane, styles), Text("")]
        box = self.query_one("#box")
        box.border_title = Content(self._format_title(pane))
        box.border_subtitle = Content(f"srs-eval {name_command(question)} {self._name_file()}")
        other_answers: tuple[Finding, ...] = ()
        if self._pane_number == _PANE_OF_ACTS and pane is not None:
            other_answers = self._find_answers_behind_acts(pane, answers)
            other_answers = tuple(_keep_checks(answer, pane) for answer in other_answers)
            answers = (*(_keep_checks(answer, pane) for answer in answers), *other_answers)
        self._shown_answers = answers
        copyable_answer = next((answer for answer in answers if answer.parameters), None)
        if self._pane_number == _PANE_OF_ACTS:
            copyable_answer = self.session.overview.first_screen.copyable
        questions = [answer.question for answer in answers]
        for number, answer in enumerate(answers, start=1):
            answer_question = QUESTION_REGISTRY[answer.question]
            is_of_other_line = answer_question.is_evidence_only or answer in other_answers
            if is_of_other_line or question == INCONCLUSIVE_LINE:
                title = answer_question.title
                if question == INCONCLUSIVE_LINE and questions.count(answer.question) > 1:
                    title += f" ({_name_subject(answer)})"
                if answer in other_answers and answer.parameters and answer != copyable_answer:
                    title += f" “{answer.subject}” (for its parameters, press n)"
                sections.append(Text(title, "bold underline"))
            elif (
                len(answers) > 1
                and question != PARAMETERS
                and has_more_evidence(answer, pane_lines)
            ):
                sections.append(Text(_name_subject(answer), "bold underline"))
            later_questions = {later_answer.question for later_answer in answers[number:]}
            sections.append(
                render_evidence(
                    answer,
                    styles,
                    pane_lines,
                    later_questions,
                    shows_tables=self.session.shows_tables,
                )
            )
        self._table_count = sum(map(count_foldable_tables, answers))
        if self._table_count and not self.session.shows_tables:
            tables = format_count(self._table_count, "table")
            hint = f"{self.key_of('table')} shows the figures behind this: {tables}"
            sections += [Text(""), Text(hint, styles["not yet"])]
        if self._pane_number == _PANE_OF_ACTS:
            preview = self.session.models.find_fsrs7_preview()
            if preview is not None:
                sections += [Text(""), Text(describe_preview(preview), styles["not yet"])]
        self.query_one("#all", Static).update(stack(sections))
        paste = self.query_one("#paste", Static)
        paste.display = copyable_answer is not None
        if copyable_answer is not None:
            paste.update(render_parameters_to_paste(copyable_answer))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "table":
            return self._table_count > 0
        return super().check_action(action, parameters)

    def action_table(self) -> None:
        self.session.shows_tables = not self.session.shows_tables
        self.update_now()

    def _find_answers_behind_acts(
        self, pane: Pane, first_answers: Sequence[Finding]
    ) -> tuple[Finding, ...]:
        """Return the answers behind all acts but the first, whose answers are given.

        Of the answers about parameters, those count that have some to copy.
        """
        answers: list[Finding] = []
        for question in pane.questions:
            for line in self.session.overview.lines:
                for answer in line.answers:
                    is_act = question != PARAMETERS or answer.parameters is not None
                    is_known = answer in first_answers or answer in answers
                    if answer.question == question and is_act and not is_known:
                        answers.append(answer)
        return tuple(answers)

    def _name_file(self) -> str:
        """Return the file as a command line takes it; FILE for the demo, which has a command."""
        log = self.session.log
        path = None if log is None else Path(log.import_summary.path)
        if path is None or path == DEMO_FILE:
            return "FILE"
        return shlex.quote(path.name)

    def _format_title(self, pane: Pane | None) -> str:
        """Return the title of the pane, which a preset's name may follow, or else of the line."""
        question, title = self._line_key
        if pane is not None:
            is_about_preset = question == PARAMETERS and title != ALL_REVIEWS
            return f"{pane.title}: {title}" if is_about_preset else pane.title
        if question in ("", PARAMETERS, INCONCLUSIVE_LINE):
            return title
        return QUESTION_REGISTRY[question].title

    def move(self, step: int) -> None:
        lines = [line for line in self.session.overview.lines if line.answers]
        keys = [(line.question, line.title) for line in lines]
        index = keys.index(self._line_key) + step if self._line_key in keys else 0
        if self._pane_number == _PANE_OF_ACTS and step > 0:
            # Acts rest on several lines: the first line comes next of which no answer is shown.
            index = len(lines)
            for position, line in enumerate(lines):
                if not any(answer in self._shown_answers for answer in line.answers):
                    index = position
                    break
        if 0 <= index < len(keys):
            self._line_key = keys[index]
            self._pane_number = None
            self.update_now()
            self.query_one("#box").scroll_home(animate=False)

    def action_copy(self) -> None:
        line = self.current_line()
        if self._pane_number == _PANE_OF_ACTS:
            line = _find_line_to_copy(self.session.overview)
        self.session.copy_parameters(line)


def _keep_checks(answer: Finding, pane: Pane) -> Finding:
    """Return an answer with only those checks that the acts of a pane follow from."""
    if not isinstance(answer.evidence, Checks):
        return answer
    checks = tuple(check for check in answer.evidence.checks if check.name in pane.check_names)
    return replace(answer, evidence=replace(answer.evidence, checks=checks))


class CostsScreen(_AnswerScreenBase, actions="costs"):
    """Costs of desired retentions: today's cards are simulated day by day."""

    def __init__(self) -> None:
        super().__init__()
        self.workload: Workload | None = None

    def content(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(id="box"):
                yield Static(_COSTS_INTRODUCTION, id="all")
            yield _CostsChart(id="drawn")

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = "What a desired retention costs"
        box.focus()
        box.border_subtitle = describe_beginning()
        self._work = Background(self.session.call_in_view_thread)
        estimates = self.session.costs()
        self._work.begin(partial(self._compute_costs, estimates), self._finish_costs)

    def on_unmount(self) -> None:
        self._work.cancel()

    def _compute_costs(
        self, estimates: Iterator[Workload], _: threading.Event
    ) -> Generator[Callable[[], None]]:
        """Yield callbacks that show estimates, each more exact than the one before."""
        for workload in estimates:
            yield partial(self._show_costs, workload)

    def _show_costs(self, workload: Workload) -> None:
        """Show an estimate as text, with curves beside it if the window is wide enough."""
        if not self.is_missing("#drawn"):
            self.workload = workload
            self.query_one("#box").border_subtitle = workload.progress_text
            self.update_now()

    def update_now(self) -> None:
        if self.workload is not None and not self.is_missing("#drawn"):
            heading = Text(self.workload.preset, "bold underline")
            evidence = render_evidence(self.workload.finding, theme_styles(self.app))
            self.query_one("#all", Static).update(stack([heading, evidence]))
            self.query_one(_CostsChart).show_workload(self.workload)

    def _finish_costs(self, error: Exception | None) -> None:
        """Mark the estimate as final, or show why computing it failed."""
        if self.is_missing("#all"):
            return
        self.query_one("#box").border_subtitle = ""
        if error is not None:
            message = describe_failure(error)[0]
            if isinstance(error, NotEnoughData):
                message = f"{capitalize(str(error))}."
            self.query_one("#all", Static).update(Text(message))


class _CostsChart(plot.Plot):
    """Chart of reviews a day by desired retention; a dot and a line mark today's retention."""

    def on_mount(self) -> None:
        self.border_title = "Reviews a day, with 95 % ranges"

    def show_workload(self, workload: Workload) -> None:
        """Draw the reviews a day in the colours of the theme."""
        self.add_class("-known")
        retentions = workload.retentions
        reviews = workload.figures[:, REVIEWS].tolist()
        lower_ends, upper_ends = (ends[:, REVIEWS].tolist() for ends in workload.band)
        primary, secondary, faint = chart_colours(self.app)
        scaled_ends = [
            end
            for retention, end in zip(retentions, upper_ends, strict=True)
            if retention <= _MAX_SCALED_RETENTION + 1e-9  # whatever its last digits are
        ]
        high = 1.06 * max(scaled_ends or upper_ends)  # some room above the curves
        if high == 0:
            high = 1.0
        marks = [
            plot.GraphMark(retentions, lower_ends, faint),
            plot.GraphMark(retentions, upper_ends, faint),
            plot.GraphMark(retentions, reviews, primary),
        ]
        self.border_subtitle = "→ desired retention, %"
        if not workload.is_fsrs_off:
            today_index = workload.at(workload.desired)
            retention = retentions[today_index]
            today_reviews = reviews[today_index]
            marks.insert(0, plot.GraphMark([retention, retention], [0.0, high], faint))
            marks.append(
                plot.GraphMark([retention], [today_reviews], f"bold {secondary}", _TODAY_MARK)
            )
            self.border_subtitle += f"   {_TODAY_MARK} today's"
        ticks = [(percent / 100, f"{percent}") for percent in range(70, 100, 5)]
        x_axis = plot.Axis(retentions[0] - 0.005, retentions[-1] + 0.005, ticks)
        y_axis = plot.Axis(0.0, high, _make_ticks(high))
        self.graph = plot.PlotGraph(marks, x_axis, y_axis, faint)


def _make_ticks(high: float) -> Sequence[tuple[float, str]]:
    """Return evenly spaced values from zero with labels of at most three characters."""
    in_thousands = high >= _THOUSAND
    step = plot.even_step(max(high / 6, _THOUSAND if in_thousands else 0.1))
    values = plot.even_values(0.0, high, step)
    if in_thousands:
        return [(value, f"{value / _THOUSAND:.0f}k") for value in values]
    decimals = 1 if step < 1 else 0
    return [(value, f"{value:.{decimals}f}") for value in values]
