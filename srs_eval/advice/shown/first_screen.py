"""Build the first screen from findings: five panes, each with a question and its answer.

The panes are small dataclasses of lines, bars and months, which the app, the report and the command
line lay out. Numbers are per cent or minutes; log losses are in the details that a pane opens.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.acts import Act, ActKind
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.sentences import FirstScreen, Pane, PaneItem, PaneLine, PresetRow
from srs_eval.advice.shown.acts import render_acts
from srs_eval.advice.shown.costs import render_minutes
from srs_eval.advice.shown.habits import (
    GRADES_SENTENCE,
    MARKS,
    describe_check,
    may_hide_forgetting,
)
from srs_eval.advice.shown.memory import RetentionPane, render_retention
from srs_eval.advice.shown.parameters import describe_single_preset, preset_action
from srs_eval.advice.shown.predicted import describe_other_scheduler
from srs_eval.advice.workload.estimate import TooFewForCosts, Workload
from srs_eval.data.errors import format_count
from srs_eval.data.reviews import NO_PRESET
from srs_eval.stats.intervals import MIN_REVIEWS

WAITING = PaneLine("…", "not yet")
TITLES = (
    "What to do",
    "How well do I remember?",
    "What would it cost?",
    "One preset or several?",
    "Anything wrong?",
)
_TOO_FEW_REVIEWS = "Too few reviews to say."
_USABLE = "a day or more after the card's previous one"
_MAX_CHECKS = 5  # most checks in the last pane
_MAX_SHARED_NAMES = 3  # most presets with one set of parameters that a sentence names
_BUTTONS = ("again", "hard", "easy")
_CHECKS_OF_ANSWERS = ("again", "hard", "easy", "mature cards", "leeches", "steps")
_QUESTIONS_OF_HABITS: Mapping[ActKind, str] = {
    ActKind.CLEAR_BACKLOG: "wrong",
    ActKind.FORGET_LESS: "wrong",
    ActKind.REVIEW_ON_TIME: "retention",
    ActKind.RAISE_REVIEW_LIMIT: "costs",
    ActKind.PRESS_AGAIN: "wrong",
    ActKind.EMPTY_IGNORE_DATE: "wrong",
}
"""Questions whose evidence stands behind acts about habits."""
_QUESTIONS_WITHOUT_PANE: Mapping[str, str] = {
    "says": "whether FSRS's predictions come true",
    "standing": "how you compare with other people",
}
"""Questions that no pane answers."""


@dataclass(frozen=True)
class _AnswersSoFar:
    """Findings so far, and the questions that are still open."""

    answers: Sequence[f.Finding]
    waiting: Collection[str]
    checks: Sequence[f.Check]
    rows: str
    excluded_cards: f.ExcludedCards | None

    def find(self, question: str) -> list[f.Finding]:
        return [finding for finding in self.answers if finding.question == question]

    def is_open(self, question: str) -> bool:
        """Return True if the answer is still to come; answers on single presets do not count."""
        if question not in self.waiting:
            return False
        subjects = {finding.subject for finding in self.find(question)}
        return not subjects & {*f.OVERALL_SUBJECTS}

    def with_evidence(self, kind: type[f.EvidenceT]) -> list[tuple[f.Finding, f.EvidenceT]]:
        """Return the findings with evidence of one type, each with its evidence."""
        return [
            (finding, finding.evidence)
            for finding in self.answers
            if isinstance(finding.evidence, kind)
        ]

    @property
    def presets(self) -> list[f.Finding]:
        """Return the findings on single presets, the presets with the most reviews first."""
        return [finding for finding, _ in self.with_evidence(f.PresetParameters)]

    @property
    def fit(self) -> f.Finding | None:
        return next((finding for finding, _ in self.with_evidence(f.Fit)), None)

    @property
    def is_fsrs_off(self) -> bool:
        return any(evidence.fsrs_is_off for _, evidence in self.with_evidence(f.Fit))


def build_first_screen(
    answers: Sequence[f.Finding],
    waiting: Collection[str] = (),
    checks: Sequence[f.Check] = (),
    acts: Sequence[Act] = (),
    *,
    rows: str = "anki",
    excluded_cards: f.ExcludedCards | None = None,
) -> FirstScreen:
    """Return the five panes of the answers so far; `waiting` questions lack a full answer.

    `checks` are from all answers, worst first; `acts` are what follows from them. `rows` names the
    reviews behind the answers, "anki" or "benchmark". `excluded_cards` are set if nearly all
    reviewed cards are gone.
    """
    so_far = _AnswersSoFar(answers, waiting, checks, rows, excluded_cards)
    advice_pane, copyable = _advice_pane(so_far, acts)
    retention = _render_retention(so_far)
    panes = (
        advice_pane,
        _retention_pane(so_far, retention),
        _cost_pane(so_far),
        _presets_pane(so_far),
        _checks_pane(so_far, retention),
    )
    return FirstScreen(panes, tuple(_footer_lines(so_far)), copyable)


def _make_pane(number: int, items: Sequence[PaneItem], *questions: str, subject: str = "") -> Pane:
    """Return a pane whose first line is its summary."""
    summary = next((item for item in items if isinstance(item, PaneLine)), WAITING)
    return Pane(TITLES[number - 1], summary, tuple(items), questions, subject)


# 1 What to do


def _advice_pane(so_far: _AnswersSoFar, acts: Sequence[Act]) -> tuple[Pane, f.Finding | None]:
    """Return the first pane, and the finding whose parameters it says to copy, if any."""
    questions: tuple[str, ...] = ("parameters", "fit")
    if so_far.is_open("fit") or (so_far.is_open("parameters") and not so_far.find("split")):
        return _make_pane(1, [WAITING], *questions), None
    excluded = so_far.excluded_cards
    questions_of_fit: tuple[str, ...] = ()
    items = list(render_acts(acts))
    if excluded is not None:
        reason = _describe_excluded(excluded)
        if so_far.fit is None:
            headline = "Too few reviews to advise you."
            reason += (
                " Come back once you have reviewed more. FSRS predicts nearly everybody's answers "
                "better than SM-2."
            )
        else:
            headline = "Nothing to change in Anki."
            if not acts:
                reason += " These answers are about your past reviews."
            if so_far.fit.recommendation == Recommendation.TURN_FSRS_ON:
                certainty = say.format_certainty(so_far.fit.probability or 0.0)
                reason += (
                    f" If you study them again, turn FSRS on and press Optimize ({certainty})."
                )
                questions_of_fit = ("fit",)
        if acts:
            reason = f"Nothing else to change in Anki. {reason}"
        else:
            items.append(PaneLine(headline, "not yet", say.ACT_MARK))
        items.append(PaneLine(f"  {reason}"))
    if not items:
        items.append(PaneLine(_nothing_known_sentence(so_far), "not yet"))
    if not acts:
        return _make_pane(1, items, *questions), None
    with_parameters = [
        act.finding for act in acts if act.finding is not None and act.finding.parameters
    ]
    copyable = with_parameters[0] if with_parameters else None
    questions_of_acts = itertools.chain.from_iterable(map(_questions_behind, acts))
    questions = tuple(dict.fromkeys([*questions_of_acts, *questions_of_fit]))
    first = acts[0].finding
    subject = ""
    if first is not None and questions[0] == "parameters":
        subject = first.subject
    check_names = tuple(act.check.name for act in acts if act.check is not None)
    pane = replace(_make_pane(1, items, *questions, subject=subject), check_names=check_names)
    return pane, copyable


def _questions_behind(act: Act) -> tuple[str, ...]:
    """Return the questions whose answers are the evidence for an act, the main one first."""
    if act.kind in _QUESTIONS_OF_HABITS:
        return (_QUESTIONS_OF_HABITS[act.kind],)
    if act.kind in (ActKind.TURN_FSRS_ON, ActKind.LEAVE_FSRS_OFF):
        return ("health", "fit")
    if act.kind in (ActKind.FIT_FSRS, ActKind.STAY_WITH_SCHEDULER, ActKind.CHANGE_TO_FSRS):
        return ("fit", "parameters")
    if act.kind == ActKind.CHANGE_TO_FSRS_7:
        return ("parameters", "fsrs-7", "fit")
    return ("parameters", "fit")


def _describe_excluded(excluded: f.ExcludedCards) -> str:
    """Say which cards are gone: "681 of your 1,006 cards are suspended."."""
    if not excluded.total:
        return "This collection has no cards left."
    if excluded.state == "deleted":
        return "Most of your reviews were of cards that you have deleted."
    if not excluded.in_use:
        return f"All your {format_count(excluded.total, 'card')} are suspended."
    return (
        f"{excluded.suspended:,} of your {format_count(excluded.total, 'card')} are suspended, "
        "and most of your reviews were of these."
    )


def _explain_no_cards(excluded: f.ExcludedCards, consequence: str) -> str:
    """Say why nothing can be said of the cards that are still in use, if there are any."""
    if not excluded.in_use:
        return f"No card is in use, so {consequence}."
    return f"Too few reviews of the {format_count(excluded.in_use, 'card')} still in use."


def _nothing_known_sentence(so_far: _AnswersSoFar) -> str:
    unanswered_findings = so_far.with_evidence(f.Unanswered)
    if not unanswered_findings:
        return "srs-eval cannot advise you on this file."
    _, unanswered = unanswered_findings[0]
    return f"No advice is possible: {unanswered.reason}."


# 2 How well do I remember?


def _render_retention(so_far: _AnswersSoFar) -> RetentionPane | None:
    """Render the retention of presets or, for the benchmark's rows, by month.

    Months are compared with FSRS-6 fitted to the reviews before.
    """
    retentions = {
        finding.subject: retention for finding, retention in so_far.with_evidence(f.Retention)
    }
    months = None
    if so_far.rows != "anki":
        months = next((evidence for _, evidence in so_far.with_evidence(f.Months)), None)
    return render_retention(
        retentions, months, so_far.checks, of_excluded_cards=so_far.excluded_cards is not None
    )


def _retention_pane(so_far: _AnswersSoFar, retention: RetentionPane | None) -> Pane:
    """Return the second pane."""
    question = "retention" if so_far.rows == "anki" else "time"
    if retention is None:
        line = WAITING if so_far.is_open(question) else PaneLine(_TOO_FEW_REVIEWS, "not yet")
        return Pane(TITLES[1], line, (line,), (question,))
    items = retention.items
    if so_far.excluded_cards is not None and so_far.excluded_cards.desired:
        recalled = retention.recalled
        items = (*items, PaneLine(_describe_desired(so_far.excluded_cards.desired, recalled)))
    phi = next((finding.phi for finding in so_far.find(question) if finding.phi is not None), None)
    if phi is not None:
        items = (*items, PaneLine(say.describe_spells(phi), drop_order=1))
    return Pane(TITLES[1], retention.summary, items, (question,))


def _describe_desired(desired: Sequence[float], recalled: float) -> str:
    """Say what the presets ask for, and whether that is more than is remembered.

    Examples: "You ask for 90 %.", "Your presets ask for 85 to 92 %: more than you remember.".
    """
    lowest, highest = say.format_share(desired[0]), say.format_share(desired[-1])
    more = ": more than you remember" if recalled < desired[0] - f.NEGLIGIBLE_POINTS / 100 else ""
    if lowest == highest:
        return f"You ask for {lowest}{more}."
    return f"Your presets ask for {lowest.removesuffix(' %')} to {highest}{more}."


# 3 What would it cost?


def _cost_pane(so_far: _AnswersSoFar) -> Pane:
    for _, workload in so_far.with_evidence(Workload):
        is_one_of_several = len(workload.presets) < len(so_far.presets)
        summary, items = render_minutes(workload, is_one_of_several=is_one_of_several)
        subject = workload.preset if len(workload.presets) == 1 else ""
        return Pane(TITLES[2], summary, items, ("costs",), subject)
    if so_far.is_open("costs"):
        return _make_pane(3, [WAITING], "costs")
    return _make_pane(3, [PaneLine(_no_costs_sentence(so_far), "not yet")], "costs")


def _no_costs_sentence(so_far: _AnswersSoFar) -> str:
    if so_far.excluded_cards is not None:
        return _explain_no_cards(so_far.excluded_cards, "no reviews will come")
    if so_far.rows != "anki":
        return "Only an Anki collection can answer this."
    finding = next((finding for finding, _ in so_far.with_evidence(TooFewForCosts)), None)
    if finding is None:
        if _is_unanswered(so_far, "parameters"):
            return _TOO_FEW_REVIEWS
        return "The file does not say how these cards are scheduled."
    missing = finding.missing
    if missing is not None and missing.date is not None:
        date = say.format_approximate_date(missing.date)
        return (
            f"{finding.reviews:,} of {MIN_REVIEWS:,} usable reviews ({_USABLE}); come back {date}."
        )
    reviews = format_count(finding.reviews, "usable review")
    return f"You have {reviews} ({_USABLE}); this needs {MIN_REVIEWS:,}."


def _is_unanswered(so_far: _AnswersSoFar, question: str) -> bool:
    return any(isinstance(finding.evidence, f.Unanswered) for finding in so_far.find(question))


# 4 One preset or several?


def _presets_pane(so_far: _AnswersSoFar) -> Pane:
    questions = ("split", "parameters")
    if any(map(so_far.is_open, questions)):
        return _make_pane(4, [WAITING], *questions)
    sharing_findings = so_far.with_evidence(f.Sharing)
    if not sharing_findings:
        if _is_unanswered(so_far, "split"):
            reason = _TOO_FEW_REVIEWS
        elif so_far.excluded_cards is not None:
            reason = _explain_no_cards(so_far.excluded_cards, "there is nothing to compare")
        else:
            reason = "This file names no presets."
        return _make_pane(4, [PaneLine(reason, "not yet")], *questions)
    finding, sharing = sharing_findings[0]
    has_new_parameters = any(
        preset.parameters and preset.recommendation == Recommendation.POOLED
        for preset in so_far.presets
    )
    answer = _sharing_sentence(finding, sharing, has_new_parameters=has_new_parameters)
    text = answer
    if finding.recommendation == Recommendation.KEEP_SHARED and sharing.unit_count > 1:
        all_of_them = "both" if sharing.unit_count == 2 else f"all {sharing.unit_count}"
        text += f" You need not merge them: keeping {all_of_them} does no harm."
    lines = [PaneLine(text)]
    if sharing.unit_count == 1:
        lines += _describe_decks(sharing_findings)
    rows: list[PresetRow] = []
    if sharing.unit_count > 1:
        presets = so_far.presets
        changed_first = sorted(presets, key=lambda preset: not preset.parameters)
        for preset in presets:  # presets to change are dropped last
            drop_order = changed_first.index(preset) + 1
            rows.append(replace(_preset_row(preset, so_far), drop_order=drop_order))
    if finding.recommendation == Recommendation.KEEP_SHARED:
        actions = {row.cells[-1] for row in rows}
        for text in _explain_different_actions(so_far, actions):
            lines.append(PaneLine(text, drop_order=len(rows) + 2))
    notes = [PaneLine(text, drop_order=len(rows) + 1) for text in _name_missing_options(so_far)]
    return Pane(TITLES[3], PaneLine(answer), (*lines, *rows, *notes), questions)


def _explain_different_actions(so_far: _AnswersSoFar, actions: Collection[str]) -> Iterator[str]:
    """Say why the advice on presets differs, although one set of parameters is enough for all.

    Example: "The parameters for “Words” and “Maps” are one set, fitted to your presets together.
    Every other preset is judged by its own reviews:".
    """
    shared = [
        preset.subject
        for preset in so_far.presets
        if preset.parameters and preset.recommendation == Recommendation.ONE_LINE
    ]
    has_others = len(shared) < len(so_far.presets)
    if not 1 < len(shared) <= _MAX_SHARED_NAMES:
        if len(actions) > 1:
            yield "What to do still differs, because each is judged by its own reviews:"
    elif has_others:
        names = say.join_names([say.quote_name(name) for name in shared])
        yield (
            f"The parameters for {names} are one set, fitted to your presets together. Every "
            "other preset is judged by its own reviews:"
        )


def _name_missing_options(so_far: _AnswersSoFar) -> Iterator[str]:
    """Say which presets have reviews, but no options in the file, if others have some."""
    retentions = [
        (finding.subject, retention)
        for finding, retention in so_far.with_evidence(f.Retention)
        if not retention.fsrs_is_off
    ]
    missing = [
        say.quote_name(name)
        for name, retention in retentions
        if retention.desired is None and name != NO_PRESET
    ]
    if missing and len(missing) < len(retentions):
        yield f"The file lacks the options of {say.join_names(missing)}."


def _describe_decks(
    sharing_findings: Sequence[tuple[f.Finding, f.Sharing]],
) -> Iterator[PaneLine]:
    """Yield a line on whether the decks of the only preset can share it, if that is known."""
    for finding, sharing in sharing_findings:
        if sharing.unit != "deck" or sharing.unit_count < 2 or finding.probability is None:
            continue
        decks = f"your {sharing.unit_count} decks"
        forget = say.choose_forget_verb(finding.probability)
        if finding.recommendation == Recommendation.KEEP_SHARED:
            yield PaneLine(
                f"One preset is enough for {decks}: you {forget} at much the same rate in them."
            )
        if finding.recommendation == Recommendation.SPLIT:
            yield PaneLine(
                f"But you {forget} differently in {decks}: each could have a preset of its own."
            )


def _describe_pooled(count: int, *, has_new_parameters: bool) -> str:
    if has_new_parameters:
        return f"Keep your {count} presets, with parameters that take account of one another."
    return f"Keep your {count} presets; it is not clear whether you forget differently in them."


def _sharing_sentence(finding: f.Finding, sharing: f.Sharing, *, has_new_parameters: bool) -> str:
    """Return the answer; `has_new_parameters` if a preset is to get pooled ones."""
    count = sharing.unit_count
    if sharing.conclusion == f.RUNS_FSRS_7:
        return f"Keep your {count} presets. Whether they could share FSRS-7 parameters is unknown."
    if count == 1:
        return describe_single_preset(finding)
    forget = say.choose_forget_verb(finding.probability or 0.0)
    match finding.recommendation:
        case Recommendation.KEEP_SHARED:
            return f"One is enough: you {forget} at much the same rate in your {count} presets."
        case Recommendation.SPLIT:
            return f"Keep them separate: you {forget} differently in your {count} presets."
        case Recommendation.POOLED:
            return _describe_pooled(count, has_new_parameters=has_new_parameters)
    return f"Keep your {count} presets. You have too few reviews to compare them."


def _preset_row(finding: f.Finding, so_far: _AnswersSoFar) -> PresetRow:
    remembered = ""
    for retention_finding, retention in so_far.with_evidence(f.Retention):
        if retention_finding.subject != finding.subject:
            continue
        all_reviews = retention.groups[0]
        remembered = say.format_share(all_reviews.recalled.estimate)
        if retention.desired is not None:
            remembered += f" (desired {say.format_share(retention.desired)})"
    stays_off = so_far.fit is not None and so_far.fit.recommendation == Recommendation.STAY_WITH_SM2
    action = "keep" if stays_off else preset_action(finding)
    return PresetRow((finding.subject, remembered, action), "" if action == "keep" else "fine")


# 5 Anything wrong?


def _checks_pane(so_far: _AnswersSoFar, retention: RetentionPane | None) -> Pane:
    if so_far.is_open("wrong") or not so_far.checks:
        return _make_pane(5, [WAITING], "wrong")
    conclusive = [check for check in so_far.checks if check.level != "not yet"]
    if not conclusive:
        return _make_pane(5, [PaneLine(_TOO_FEW_REVIEWS, "not yet")], "wrong")
    lines = [
        PaneLine(describe_check(check), check.level, MARKS[check.level]) for check in conclusive
    ]
    if not any(check.name in _CHECKS_OF_ANSWERS for check in conclusive):
        text = (
            "Too few reviews to check how you answer: at least "
            f"{f.MIN_REVIEWS_CHECKED} after a button are needed"
        )
        lines.append(PaneLine(text, "not yet", MARKS["not yet"]))
    else:
        lines += _list_uncertain(so_far.checks)
    other_scheduler = None if so_far.fit is None else describe_other_scheduler(so_far.fit)
    if other_scheduler is not None:
        problem_count = sum(line.level == "look" for line in lines)
        lines.insert(0 if other_scheduler.level == "look" else problem_count, other_scheduler)
    if retention is not None and retention.remembers_too_little:
        text = "You remember less than you ask for: see 2"
        lines.insert(0, PaneLine(text, "look", MARKS["look"]))
    hard = next((check for check in so_far.checks if check.name == "hard"), None)
    if hard is not None and may_hide_forgetting(hard) and _is_pressed_often(hard):
        problem_count = sum(line.level == "look" for line in lines)
        line = PaneLine(describe_check(hard), "not yet", MARKS["not yet"])
        lines.insert(problem_count, line)
    problems = [line.text for line in lines if line.level == "look"]
    lines = [
        replace(line, drop_order=position) for position, line in enumerate(lines[:_MAX_CHECKS])
    ]
    if any(checks.are_from_grades for _, checks in so_far.with_evidence(f.Checks)):
        lines.append(PaneLine(GRADES_SENTENCE, drop_order=len(lines)))
    if problems:
        count = f"{len(problems)} warnings: " if len(problems) > 1 else ""
        summary = PaneLine(f"{count}{' · '.join(problems)}", "look", "!")
    else:
        summary = PaneLine("Nothing that your reviews show.", "fine")
    return Pane(TITLES[4], summary, tuple(lines), ("wrong",))


def _list_uncertain(checks: Sequence[f.Check]) -> Iterator[PaneLine]:
    """Yield lines on what is rather wrong than not, and on what has too few reviews to check it."""
    for check in checks:
        # A probability above LIKELY is a warning already.
        if check.level == "not yet" and (check.probability or 0.0) > 0.5:
            yield PaneLine(describe_check(check), "not yet", MARKS["not yet"])
    unchecked = {
        check.name
        for check in checks
        if check.level == "not yet"
        and check.problem == "few"
        and check.recalled is not None  # else there may never be such reviews
    }
    names = [button.capitalize() for button in _BUTTONS if button in unchecked]
    if "mature cards" in unchecked:
        names.append("mature cards")
    if names:
        text = f"Too few reviews to check {say.join_names(names)}"
        yield PaneLine(text, "not yet", MARKS["not yet"])


def _is_pressed_often(hard: f.Check) -> bool:
    """Return True if Hard is pressed so often that recall could be well below what it seems."""
    return hard.total > 0 and hard.count >= f.MIN_HARD_SHARE * hard.total


# Below


def _footer_lines(so_far: _AnswersSoFar) -> Iterator[PaneLine]:
    """Yield the line below the panes on what has too few reviews."""
    unanswered = []
    for question, words in _QUESTIONS_WITHOUT_PANE.items():
        if so_far.is_open(question):
            continue
        if question == "says" and so_far.is_fsrs_off:
            continue  # it expects nothing
        findings = so_far.find(question)
        if findings and all(map(_needs_reviews, findings)):
            unanswered.append(words)
    if unanswered:
        yield PaneLine(f"Too few reviews to say {' · '.join(unanswered)}", "not yet")


def _needs_reviews(finding: f.Finding) -> bool:
    """Return True if there is no answer, or none for certain before there are more reviews."""
    is_lacking = finding.missing is not None and finding.missing.can_come
    return isinstance(finding.evidence, f.Unanswered) or (
        finding.conclusion == f.CANT_TELL and is_lacking
    )
