"""Build the first screen from findings: five panes, each with a question and its answer.

The panes are small dataclasses of lines, bars and months, which the app, the report and the command
line lay out. Numbers are "of 100" or minutes; log losses are in the details that a pane opens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.sentences import FirstScreen, LineLevel, Pane, PaneItem, PaneLine, PresetRow
from srs_eval.advice.shown.costs import render_minutes
from srs_eval.advice.shown.habits import MARKS, describe_check
from srs_eval.advice.shown.memory import render_retention
from srs_eval.advice.shown.parameters import (
    HARDLY_MATTERS,
    INSTRUCTIONS,
    describe_doubt,
    lacks_own_evidence,
    preset_action,
)
from srs_eval.advice.shown.predicted import percentile_line
from srs_eval.advice.workload.estimate import TooFewForCosts, Workload
from srs_eval.data.errors import format_count
from srs_eval.stats.intervals import MIN_REVIEWS

WAITING = PaneLine("…", "not yet")
TITLES = (
    "What to do",
    "Do I remember what I asked for?",
    "What would it cost?",
    "One preset or several?",
    "Anything wrong?",
)
_TITLE_FOR_ANKI = "Do I remember what Anki expects?"
_TITLE_FOR_FSRS = "Do I remember what FSRS expects?"  # for a file that may be from another program
# Recommendations that give a preset our parameters.
_COPIED_RECOMMENDATIONS = (Recommendation.ONE_LINE, Recommendation.POOLED)
_TOO_FEW_REVIEWS = "Too few reviews to say."
_NOTHING_LEFT = "Nothing is left to schedule."
_MAX_CHECKS = 5  # most checks in the last pane
_QUESTIONS_WITHOUT_PANE: Mapping[str, str] = {
    "says": "whether FSRS is right about you",
    "standing": "where you stand",
}
"""Questions that no pane answers."""


@dataclass(frozen=True)
class _AnswersSoFar:
    """Findings so far, and the questions that are still open."""

    answers: Sequence[f.Finding]
    waiting: Collection[str]
    checks: Sequence[f.Check]
    rows: str
    excluded_note: str

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


def build_first_screen(
    answers: Sequence[f.Finding],
    waiting: Collection[str] = (),
    checks: Sequence[f.Check] = (),
    *,
    rows: str = "anki",
    excluded_note: str = "",
) -> FirstScreen:
    """Return the five panes of the answers so far; `waiting` questions lack a full answer.

    `checks` are from all answers, worst first. `rows` names the reviews behind the answers, "anki"
    or "benchmark". `excluded_note` is the sentence for a log whose cards are nearly all gone.
    """
    so_far = _AnswersSoFar(answers, waiting, checks, rows, excluded_note)
    advice_pane, copyable = _advice_pane(so_far)
    panes = (
        advice_pane,
        _retention_pane(so_far),
        _cost_pane(so_far),
        _presets_pane(so_far),
        _checks_pane(so_far),
    )
    return FirstScreen(panes, tuple(_footer_lines(so_far)), copyable)


def _make_pane(number: int, items: Sequence[PaneItem], *questions: str, subject: str = "") -> Pane:
    """Return a pane whose first line is its summary."""
    summary = next((item for item in items if isinstance(item, PaneLine)), WAITING)
    return Pane(TITLES[number - 1], summary, tuple(items), questions, subject)


# 1 What to do


def _advice_pane(so_far: _AnswersSoFar) -> tuple[Pane, f.Finding | None]:
    """Return the first pane, and the finding whose parameters it says to copy, if any."""
    questions = ("parameters", "health", "fit")
    if so_far.is_open("fit") or (so_far.is_open("parameters") and not so_far.find("split")):
        return _make_pane(1, [WAITING], *questions), None
    for finding, unsupported in so_far.with_evidence(f.UnsupportedParameters):
        line = PaneLine(unsupported.sentence, "look", "●")
        return _make_pane(1, [line], *questions, subject=finding.subject), None
    items: list[PaneItem]
    if so_far.excluded_note:
        items = [
            PaneLine("Nothing to do.", "look", "●"),
            PaneLine(f"  {so_far.excluded_note} This is about how it was."),
        ]
        return _make_pane(1, items, *questions), None
    presets = so_far.presets
    fit = so_far.fit
    if not presets:
        unanswered_findings = so_far.with_evidence(f.Unanswered)
        reason = ""
        if unanswered_findings:
            _, unanswered = unanswered_findings[0]
            reason = f": {unanswered.reason}"
        line = PaneLine(f"Nothing can be told{reason}.", "not yet")
        return _make_pane(1, [line], *questions), None
    is_fsrs_off = fit is not None and fit.recommendation in (
        Recommendation.TURN_FSRS_ON,
        Recommendation.STAY_WITH_SM2,
    )
    chosen = _most_valuable(presets)
    main_preset = presets[0]
    name = say.quote_name(chosen.subject) if chosen is not None and len(presets) > 1 else ""
    if fit is not None and fit.recommendation == Recommendation.STAY_WITH_SM2:
        chosen = None
        items = [_line_with_certainty("Leave FSRS off.", fit.probability)]
    elif fit is not None and is_fsrs_off:
        instruction = "" if chosen is None else f" and {_instruction(chosen.recommendation, name)}"
        items = [_line_with_certainty(f"Turn FSRS on{instruction}.", fit.probability)]
    elif (
        chosen is not None
        and fit is not None
        and f.get_evidence(fit, f.Fit).current_scheduler is not None
    ):
        return _other_scheduler_pane(chosen, fit, questions)
    elif chosen is not None:
        instruction = _instruction(chosen.recommendation, name)
        is_known = isinstance(chosen.evidence, f.PresetParameters) and chosen.evidence.is_known
        if is_known:
            instruction = say.capitalize(instruction)
        else:
            instruction = f"With FSRS on in Anki, {instruction}"
        items = [_line_with_certainty(f"{instruction}.", chosen.probability)]
    elif all(map(lacks_own_evidence, presets)):
        items = [
            PaneLine("Change nothing yet.", "not yet", "●"),
            PaneLine("  Too few reviews to judge your numbers by. Go on reviewing.", drop_order=1),
        ]
    else:
        undecided = [
            finding for finding in presets if finding.recommendation != Recommendation.KEEP
        ]
        main_preset = min(undecided or presets, key=lambda finding: finding.probability or 0.0)
        reason = "Your parameters are as good as others would be."
        if (main_preset.probability or 0.0) < f.LIKELY or main_preset.hardly_matters:
            reason = describe_doubt(main_preset)
            if len(presets) > 1:
                subject = say.quote_name(main_preset.subject)
                reason = f"In {subject}, {reason[0].lower()}{reason[1:]}"
        items = [
            _line_with_certainty("Change nothing.", main_preset.probability),
            PaneLine(f"  {reason}", drop_order=1),
        ]
        if main_preset.hardly_matters:
            items[0] = PaneLine("Change nothing.", "fine", "●", HARDLY_MATTERS)
    if chosen is not None:
        items.append(_location_line(chosen, len(presets)))
        items += _other_preset_lines(chosen, presets)
    elif fit is not None and fit.recommendation == Recommendation.TURN_FSRS_ON:
        items.append(PaneLine("  Deck options › FSRS"))
    if chosen is not None or is_fsrs_off:
        items.append(_claim_line(fit if is_fsrs_off else chosen))
    if is_fsrs_off:
        return _make_pane(1, items, *questions[1:]), chosen
    subject = main_preset.subject if chosen is None else chosen.subject
    return _make_pane(1, items, *questions, subject=subject), chosen


def _claim_line(finding: f.Finding | None) -> PaneLine:
    """Return the line on what the act's probability is about."""
    claim = "FSRS should then predict your coming reviews better."
    if finding is not None and finding.recommendation == Recommendation.TURN_FSRS_ON:
        claim = "FSRS should predict your coming reviews better than SM-2."
    elif finding is not None and finding.recommendation == Recommendation.STAY_WITH_SM2:
        claim = "SM-2 should predict your coming reviews better than FSRS."
    return PaneLine(f"  {claim}", drop_order=2)


def _other_scheduler_pane(
    chosen: f.Finding, fit: f.Finding, questions: Sequence[str]
) -> tuple[Pane, f.Finding | None]:
    """Return the pane that compares FSRS with the current scheduler, and the finding to copy."""
    evidence = f.get_evidence(fit, f.Fit)
    scheduler = evidence.current_scheduler
    assert scheduler is not None
    if scheduler.verdict == "worse":
        advice = _line_with_certainty(f"Stay with {scheduler.name}.", f.SURE)
        return _make_pane(1, [advice], *questions), None
    if scheduler.verdict == "better" and evidence.conclusion not in ("no better", "worse"):
        advice = _line_with_certainty(
            f"Change from {scheduler.name} to FSRS, with numbers fitted to you.", f.SURE
        )
    else:
        advice = _line_with_certainty(
            "If you use FSRS, give it numbers fitted to you.", chosen.probability
        )
    location = PaneLine(
        "  They go into its field for FSRS parameters", key_hint="y copies the line"
    )
    return _make_pane(1, [advice, location], *questions, subject=chosen.subject), chosen


def _line_with_certainty(text: str, probability: float | None) -> PaneLine:
    known_probability = probability or 0.0
    level: LineLevel = "fine" if known_probability >= f.LIKELY else ""
    certainty = f"{say.describe_certainty(known_probability)} {say.format_dots(known_probability)}"
    return PaneLine(text, level, "●", certainty)


def _most_valuable(presets: Sequence[f.Finding]) -> f.Finding | None:
    """Return the preset whose new parameters have the highest expected gain; None without any."""
    with_parameters = [finding for finding in presets if finding.parameters]
    if not with_parameters:
        return None
    return max(
        with_parameters, key=lambda finding: (finding.probability or 0.0) * (finding.gain or 0.0)
    )


def _instruction(recommendation: Recommendation, name: str) -> str:
    """Return the instruction: "press Optimize for “Maps”", or "press Optimize" without a name."""
    if recommendation in _COPIED_RECOMMENDATIONS:
        return f"copy a line of numbers into {name or 'your preset'}"
    if recommendation == Recommendation.DEFAULTS:
        return (
            f"go back to the default numbers in {name}"
            if name
            else "go back to the default numbers"
        )
    instruction = INSTRUCTIONS[recommendation]
    return f"{instruction} for {name}" if name else instruction


def _other_preset_lines(chosen: f.Finding, presets: Sequence[f.Finding]) -> Iterator[PaneLine]:
    """Yield a line on what helps other presets: the same recommendation or another one."""
    by_recommendation: dict[Recommendation, list[str]] = {}
    for finding in presets:
        if finding is not chosen and finding.parameters:
            name = say.quote_name(finding.subject)
            by_recommendation.setdefault(finding.recommendation, []).append(name)
    text = ""
    # The chosen preset's recommendation comes first.
    for recommendation in sorted(
        by_recommendation, key=lambda recommendation: recommendation != chosen.recommendation
    ):
        names = say.join_names(by_recommendation[recommendation])
        # Pooled parameters differ by preset, so they are not "the same".
        if recommendation == chosen.recommendation != Recommendation.POOLED:
            text += f" The same for {names}."
        else:
            text += f" {say.capitalize(_instruction(recommendation, names))}."
    if text:
        yield PaneLine(f" {text}", drop_order=1)


def _location_line(finding: f.Finding, preset_count: int) -> PaneLine:
    """Return a line on where Anki has the setting; it names the preset if it is the only one."""
    name = ""
    if preset_count == 1 and finding.subject != f.ALL_REVIEWS:
        name = f"preset {finding.subject} › "
    path = f"  Deck options › FSRS › {name}"
    if (
        finding.recommendation in _COPIED_RECOMMENDATIONS
        or finding.recommendation == Recommendation.DEFAULTS
    ):
        return PaneLine(f"{path}FSRS parameters", key_hint="y copies the line")
    return PaneLine(f"{path}Optimize", key_hint="y copies the numbers")


# 2 Do I remember what I asked for?


def _retention_pane(so_far: _AnswersSoFar) -> Pane:
    """Return the second pane: retention of presets or, for the benchmark's rows, by month.

    Months are compared with FSRS-6 fitted to the reviews before.
    """
    retentions = {
        finding.subject: retention for finding, retention in so_far.with_evidence(f.Retention)
    }
    months = None
    if so_far.rows != "anki":
        question = "time"
        title = _TITLE_FOR_FSRS
        months = next((evidence for _, evidence in so_far.with_evidence(f.Months)), None)
    else:
        question = "retention"
        is_desired = any(retention.desired is not None for retention in retentions.values())
        title = TITLES[1] if is_desired or so_far.is_open("retention") else _TITLE_FOR_ANKI
    summary_and_items = render_retention(
        retentions, months, so_far.checks, of_excluded_cards=bool(so_far.excluded_note)
    )
    if summary_and_items is None:
        line = WAITING if so_far.is_open(question) else PaneLine(_TOO_FEW_REVIEWS, "not yet")
        return Pane(title, line, (line,), (question,))
    summary, items = summary_and_items
    phi = next((finding.phi for finding in so_far.find(question) if finding.phi is not None), None)
    if phi is not None:
        items = (*items, PaneLine(say.describe_spells(phi), drop_order=1))
    return Pane(title, summary, items, (question,))


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
    if so_far.excluded_note:
        return _NOTHING_LEFT
    if so_far.rows != "anki":
        return "Only an Anki collection tells that."
    finding = next((finding for finding, _ in so_far.with_evidence(TooFewForCosts)), None)
    if finding is None:
        if _is_unanswered(so_far, "parameters"):
            return _TOO_FEW_REVIEWS
        return "Nobody knows how these cards are scheduled."
    missing = finding.missing
    if missing is not None and missing.date is not None:
        date = say.format_approximate_date(missing.date)
        return f"{finding.reviews:,} of {MIN_REVIEWS:,} usable reviews; come back {date}."
    reviews = format_count(finding.reviews, "usable review")
    return f"You have {reviews}; this needs {MIN_REVIEWS:,}."


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
        elif so_far.excluded_note:
            reason = _NOTHING_LEFT
        else:
            reason = "This file names no presets."
        return _make_pane(4, [PaneLine(reason, "not yet")], *questions)
    finding, sharing = sharing_findings[0]
    answer = _sharing_sentence(finding, sharing)
    text = answer
    if finding.recommendation == Recommendation.KEEP_SHARED and sharing.unit_count > 1:
        text += f" Keeping {sharing.unit_count} does no harm."
    line = PaneLine(text)
    rows: list[PresetRow] = []
    if sharing.unit_count > 1:
        presets = so_far.presets
        changed_first = sorted(presets, key=lambda preset: not preset.parameters)
        for preset in presets:  # presets to change are dropped last
            drop_order = changed_first.index(preset) + 1
            rows.append(replace(_preset_row(preset, so_far), drop_order=drop_order))
    return Pane(TITLES[3], PaneLine(answer), (line, *rows), questions)


def _sharing_sentence(finding: f.Finding, sharing: f.Sharing) -> str:
    count = sharing.unit_count
    if sharing.conclusion == f.RUNS_FSRS_7:
        return f"Keep your {count}; whether they could share FSRS-7 parameters is not told."
    if count == 1:
        return "You have one. Keep it."
    match finding.recommendation:
        case Recommendation.KEEP_SHARED:
            return f"Your {count} presets forget alike: one is enough."
        case Recommendation.SPLIT:
            return f"Your {count} presets forget differently: keep them apart."
        case Recommendation.POOLED:
            return f"Too close to call: keep your {count}, with numbers drawn to each other."
    return f"Keep your {count}; too few reviews to compare them."


def _preset_row(finding: f.Finding, so_far: _AnswersSoFar) -> PresetRow:
    remembered = ""
    for retention_finding, retention in so_far.with_evidence(f.Retention):
        if retention_finding.subject != finding.subject:
            continue
        all_reviews = retention.groups[0]
        remembered = say.format_per_hundred(all_reviews.recalled.estimate)
        if retention.desired is None:
            remembered += f", expected {say.format_per_hundred(all_reviews.expected)}"
        else:
            remembered += f", asked {say.format_per_hundred(retention.desired)}"
    stays_off = so_far.fit is not None and so_far.fit.recommendation == Recommendation.STAY_WITH_SM2
    action = "leave" if stays_off else preset_action(finding)
    return PresetRow((finding.subject, remembered, action), "" if action == "leave" else "fine")


# 5 Anything wrong?


def _checks_pane(so_far: _AnswersSoFar) -> Pane:
    if so_far.is_open("wrong") or not so_far.checks:
        return _make_pane(5, [WAITING], "wrong")
    conclusive = [check for check in so_far.checks if check.level != "not yet"]
    if not conclusive:
        return _make_pane(5, [PaneLine(_TOO_FEW_REVIEWS, "not yet")], "wrong")
    lines = [
        PaneLine(describe_check(check), check.level, MARKS[check.level], drop_order=position)
        for position, check in enumerate(conclusive[:_MAX_CHECKS])
    ]
    problems = [describe_check(check) for check in so_far.checks if check.level == "look"]
    if problems:
        summary = PaneLine("; ".join(problems), "look", "!")
    else:
        summary = PaneLine("Nothing that your reviews show.", "fine")
    return Pane(TITLES[4], summary, tuple(lines), ("wrong",))


# Below


def _footer_lines(so_far: _AnswersSoFar) -> Iterator[PaneLine]:
    """Yield the lines below the panes: the learner's standing, and what has too few reviews."""
    for finding, _ in so_far.with_evidence(f.Percentiles):
        yield PaneLine(f"Where you stand: {percentile_line([finding])}.")
    unanswered = []
    for question, words in _QUESTIONS_WITHOUT_PANE.items():
        if so_far.is_open(question):
            continue
        findings = so_far.find(question)
        if findings and all(map(_needs_reviews, findings)):
            unanswered.append(words)
    if unanswered:
        yield PaneLine(f"Too few reviews to say yet: {' · '.join(unanswered)}", "not yet")


def _needs_reviews(finding: f.Finding) -> bool:
    """Return True if there is no answer, or none for certain before there are more reviews."""
    is_lacking = finding.missing is not None and finding.missing.can_come
    return isinstance(finding.evidence, f.Unanswered) or (
        finding.conclusion == f.CANT_TELL and is_lacking
    )
