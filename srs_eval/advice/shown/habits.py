"""Sentences and tables about optimizing, noise, buttons, learning steps and checks."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, get_evidence
from srs_eval.advice.sentences import Renderer, format_percent
from srs_eval.advice.shown.columns import (
    EXPECTED,
    MINUS_RECALLED,
    RECALLED,
    log_loss_difference,
    make_evidence_table,
)
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Column, Table

# How often


def _frequency_line(findings: Sequence[Finding]) -> str:
    """Summarize how often to optimize, grouping presets with equal answers.

    Example: "every +25 % of reviews, as good as always: Maps; every +10 % of reviews, safe for
    everybody: Words".
    """
    subjects: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        reason = "safe for everybody"
        if get_evidence(finding, f.OptimizationFrequency).conclusion == "as good":
            reason = "as good as always"
        answer = f"{finding.recommendation} of reviews, {reason}"
        subjects.setdefault(answer, []).append((finding.subject, ""))
    return say.format_groups(subjects) if len(subjects) > 1 else next(iter(subjects))


def _frequency_sentences(finding: Finding) -> list[str]:
    """Return how often is enough, and what that is compared with."""
    advice = f"Optimize at {_frequency_line([finding])}."
    reviews = format_count(finding.reviews, "review")
    if not get_evidence(finding, f.OptimizationFrequency).costs:
        verb = "is" if finding.reviews == 1 else "are"
        return [advice, f"{reviews} {verb} too few to tell what is enough for you."]
    basis = f"Held against optimizing at every +2 %, on the {reviews} after the first fit."
    return [advice, basis]


def _frequency_tables(finding: Finding) -> list[Table]:
    """Return a table of what each frequency costs."""
    rows = tuple(
        (frequency.name, frequency.difference, frequency.verdict)
        for frequency in get_evidence(finding, f.OptimizationFrequency).costs
    )
    if not rows:
        return []
    title = f"{finding.subject}: optimizing less often"
    columns = ("optimizing", log_loss_difference("minus every +2 %"), "verdict")
    return [make_evidence_table(title, columns, rows)]


# Noise


def _noise_sentences(finding: Finding) -> list[str]:
    """Return how many parameters are noise and which, or that this cannot be told yet."""
    if finding.missing is not None:
        return [f"{say.capitalize(say.format_cant_tell(finding.missing))}."]
    parameters = get_evidence(finding, f.ParameterNoise).parameters
    noisy = [f"w{k}" for k, parameter in enumerate(parameters) if parameter.is_noise]
    names = f" ({', '.join(noisy)})" if noisy else ""
    return [
        f"{finding.conclusion} parameters are noise{names}: other days would have moved them by "
        "more than half of what learners differ by."
    ]


def _noise_tables(finding: Finding) -> list[Table]:
    """Return a table of the parameters and how far they move."""
    rows = []
    for k, parameter in enumerate(get_evidence(finding, f.ParameterNoise).parameters):
        note = "noise" if parameter.is_noise else ""
        rows.append((f"w{k}", parameter.fitted, parameter.day_sd, parameter.learner_sd, note))
    if not rows:
        return []
    columns = ("parameter", "fitted", "over days", "learners", "")
    title = f"{finding.subject}: parameters and their standard deviations"
    return [make_evidence_table(title, columns, rows)]


# Hard


def _hard_line(findings: Sequence[Finding]) -> str:
    """Summarize how the learner uses Hard, such as "used as it should be"."""
    return {
        "yes": "behaves like Again: press Again for what you have forgotten",
        "no": "used as it should be",
        "seldom": "hardly ever pressed, too seldom to matter",
        f.CANT_TELL: say.format_cant_tell(findings[0].missing, " whether it behaves like Again"),
    }[get_evidence(findings[0], f.HardButton).conclusion]


def _hard_sentences(finding: Finding) -> list[str]:
    """Return whether Hard behaves like Again, and how often it is pressed."""
    share = format_percent(get_evidence(finding, f.HardButton).share)
    sentences = [f"Hard, {share} of your answers to reviews: {_hard_line([finding])}."]
    learning = get_evidence(finding, f.HardButton).learning
    if learning is not None:
        recalled = format_percent(learning.recalled)
        unchanged = format_percent(learning.unchanged)
        sentences.append(
            f"In the reviews after a Hard you recalled {recalled}; if Hard left your memory as it "
            f"was, it would be {unchanged}."
        )
    if finding.interval is not None:
        difference = say.format_difference(finding.interval.estimate)
        interval = say.format_interval(finding.interval)
        sentences.append(f"Were it Again in the past, log loss would be {difference} {interval}.")
    return sentences


def _hard_tables(finding: Finding) -> list[Table]:
    """Return a table of what is recalled after each button."""
    rows = tuple(
        (button.button, button.bias.reviews, button.recalled, button.bias)
        for button in get_evidence(finding, f.HardButton).after
    )
    if not rows:
        return []
    columns = ("last button", "reviews", RECALLED, MINUS_RECALLED)
    title = "The review after each button: recalled, and expected minus recalled"
    return [make_evidence_table(title, columns, rows)]


# Steps

_UNKNOWN_REASONS = {
    "few": "too few answers",
    "alike": "the delays hardly vary",
    "no curve": "recall does not fall as on the curve",
    "flat": "recall is about the same at all delays",
}


def _steps_sentences(finding: Finding) -> list[str]:
    """Return which steps to change and why, which to keep, and which are inconclusive."""
    timings = get_evidence(finding, f.StepTimings)
    desired = format_percent(timings.desired, 0)
    sentences = []
    for conclusion in ("longer", "shorter"):
        for step in timings.steps:
            if step.conclusion != conclusion:
                continue
            advice = f"{conclusion.capitalize()} after {_with_article(step)}"
            delay = f"{desired} are recalled until {_format_delay(step)}"
            current = "" if step.step is None else f", your step is {_format_duration(step.step)}"
            sentences.append(f"{advice}: {delay}{current}.")
    for conclusion, words in (("as it is", "As it is"), (f.CANT_TELL, "Can't tell")):
        situations = [
            _with_article(step) for step in timings.steps if step.conclusion == conclusion
        ]
        if situations:
            sentences.append(f"{words} after {say.join_names(situations)}.")
    return sentences or ["Can't tell: no card has been answered twice on a day."]


def _format_delay(step: f.StepTiming) -> str:
    """Format the delay until which recall is as desired, as far as observed delays show it."""
    assert step.delay is not None
    assert step.observed_delays is not None
    estimate, low, high = step.delay
    shortest, longest = step.observed_delays
    if high < shortest:
        return f"less than {_format_duration(shortest)}, the shortest delays so far"
    if low > longest:
        return f"more than {_format_duration(longest)}, the longest delays so far"
    return (
        f"about {_format_duration(estimate)} ({_format_duration(low)} to {_format_duration(high)})"
    )


def _steps_tables(finding: Finding) -> list[Table]:
    """Return a table with a row for each situation."""
    timings = get_evidence(finding, f.StepTimings)
    rows = []
    for step in timings.steps:
        delay = _format_delay(step) if step.delay else _UNKNOWN_REASONS[step.unknown_reason]
        row = (
            step.situation,
            step.answers,
            _format_duration(step.usual_minutes),
            format_percent(step.recalled.estimate, 0),
            delay,
            step.conclusion,
        )
        rows.append(row)
    if not rows:
        return []
    desired = format_percent(timings.desired, 0)
    columns = ("after", "answers", "usual delay", "recalled", f"{desired} until", "step")
    title = f"{finding.subject}: when recall meets {desired} within the day"
    return [make_evidence_table(title, columns, rows)]


def _with_article(step: f.StepTiming) -> str:
    return "Again and then Good" if step.situation == "Again, then Good" else f"a {step.situation}"


def _format_duration(minutes: float) -> str:
    """Format a duration: "40 s", "1.5 min", "12 min", "3.1 h", "2.4 days"."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    if minutes < 60:
        return f"{minutes:.2g} min"
    return f"{minutes / 60:.2g} h" if minutes < 1440 else f"{minutes / 1440:,.1f} days"


# What the buttons would show

_DAY_S = 86_400.0
_ANKI_UNITS = (
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", _DAY_S),
    ("mo", 30 * _DAY_S),
    ("y", 365 * _DAY_S),
)
"""Units of Anki's buttons, each with its seconds."""


def _preview_sentences(finding: Finding) -> tuple[str]:
    desired = get_evidence(finding, f.ButtonPreview).retention
    return (
        f"What the buttons would show at the desired retention of {desired:.2f}, for a new card "
        "and for typical ones that are answered when they are due.",
    )


def _preview_tables(finding: Finding) -> list[Table]:
    preview = get_evidence(finding, f.ButtonPreview)
    columns = ("card", "Again", "Hard", "Good", "Easy")
    tables = []
    for candidate, cards in preview.by_candidate:
        rows = []
        for card in cards:
            name = f"{card.kind}, {card.interval} d" if card.interval else card.kind
            rows.append((name, *map(_format_anki_interval, card.seconds)))
        title = f"Buttons by {candidate} at {preview.retention:.2f}; Anki fuzzes 3 days and more"
        tables.append(make_evidence_table(title, columns, rows))
    return tables


def _format_anki_interval(seconds: float) -> str:
    """Format an interval as Anki does: "10m", "3.1h", "12d", "1.4mo", "2.1y"."""
    unit, length = _ANKI_UNITS[-1]
    for shorter, longer in pairwise(_ANKI_UNITS):
        if seconds < longer[1]:
            unit, length = shorter
            break
    places = 0 if unit in ("s", "m", "d") else 1
    number = f"{seconds / length:.{places}f}"
    return f"{number.removesuffix('.0')}{unit}"


# Anything wrong?

MARKS: Mapping[f.CheckLevel, str] = {"look": "!", "fine": "✓", "not yet": "?"}
_TWICE_RATIO = 1.75  # times as often as expected, from which it is called "twice as often"
_NEGLIGIBLE_GAIN = 0.02  # recall above expectation that does not matter


def _checks_line(findings: Sequence[Finding]) -> str:
    """Summarize what is worth a look, or say that nothing is."""
    problems = _describe_problems(findings[0])
    return "; ".join(problems) if problems else "nothing that your reviews show"


def _describe_problems(finding: Finding) -> list[str]:
    """Describe each check that is worth a look."""
    checks = get_evidence(finding, f.Checks).checks
    return [describe_check(check) for check in checks if check.level == "look"]


def _checks_sentences(finding: Finding) -> list[str]:
    """Return what is worth a look, explanations, then the checks that are not worth a look."""
    checks = get_evidence(finding, f.Checks).checks
    sentences = [f"{say.capitalize(_checks_line([finding]))}."]
    sentences += filter(None, map(_check_details, checks))
    for check in checks:
        if check.level != "look":
            sentences.append(f"{say.capitalize(describe_check(check))}.")
    return sentences


def _checks_tables(finding: Finding) -> list[Table]:
    """Return tables of all checks and of the worst leeches."""
    checks = get_evidence(finding, f.Checks).checks
    rows = []
    leech_rows = []
    for check in checks:
        row = (
            check.name,
            check.level,
            check.count,
            check.total or None,
            None if check.recalled is None else check.recalled.estimate,
            check.expected,
            check.minutes if check.name == "overdue" else None,
        )
        rows.append(row)
        for leech in check.leeches:
            usual = round(leech.usual, 1)
            leech_row = (str(leech.card_id), leech.reviews, leech.lapses, usual, leech.chance)
            leech_rows.append(leech_row)
    columns = ("check", "", "count", "of", RECALLED, EXPECTED, Column("minutes", digits=0))
    tables = [make_evidence_table("What was looked at", columns, rows)]
    if leech_rows:
        title = "Cards forgotten far too often, the worst ones (search Anki for cid:NUMBER)"
        leech_columns = ("card", "reviews", "forgotten", "usual", "chance")
        tables.append(make_evidence_table(title, leech_columns, leech_rows))
    return tables


def describe_check(check: f.Check) -> str:
    """Describe a check in at most 46 columns, without its mark."""
    is_fine = check.level == "fine"
    match check.name:
        case "overdue" if check.count:
            date = " by then" if check.last_review_date else ""
            return say.format_overdue(check.count, check.minutes or 0.0, check.total, date)
        case "overdue":
            return "no card is overdue"
        case "gap":
            return _describe_gap(check)
        case "leeches" if check.count:
            cards_are = "card is" if check.count == 1 else "cards are"
            return f"{check.count:,} {cards_are} forgotten far too often"
        case "leeches" if is_fine:
            return "no card is forgotten far too often"
        case "leeches":
            return "cards forgotten too often: too few to say"
        case "suspended" if check.count:
            count = "all" if check.count == check.total else f"{check.count:,} of"
            return f"{count} {format_count(check.total, 'card')} suspended"
        case "suspended":
            return "no card is suspended"
        case "steps" if check.problem and check.minutes is not None:
            duration = _format_duration(check.minutes)
            return f"{check.problem} step after {check.situation}: {duration}"
        case "steps" if check.problem:
            return f"steps should be {check.problem} after {check.situation}"
        case "steps":
            return f"learning steps: {'as they should be' if is_fine else 'too few to say'}"
        case "old cards":
            return _describe_old_cards(check)
    return _describe_button(check)  # the name is that of a button


def _check_details(check: f.Check) -> str:
    """Explain overdue cards that are worth a look, old cards or leeches; else return ""."""
    if check.level == "look" and check.name == "overdue":
        return (
            "Overdue are cards that were due before the day of your last review: one answer each "
            "at your usual pace, and one more after Again."
        )
    if check.name == "old cards" and check.level != "fine" and check.probability is not None:
        return _explain_old_cards(check)
    if check.leeches:
        worst = check.leeches[0]
        return (
            f"You forgot the worst card {worst.lapses} of {worst.reviews} times; {worst.usual:.1f} "
            "times would be usual after such intervals. About 2 of 100 cards named here are there "
            "by chance. Rewrite your leeches, or suspend them."
        )
    return ""


def _describe_gap(check: f.Check) -> str:
    if check.last_review_date is not None:
        return f"no review since {_format_day(check.last_review_date)}"
    if check.level == "look":
        if check.gap_end_date is None:
            return f"a break of {check.count} days, in the last year"
        return f"a break of {check.count} days, until {_format_day(check.gap_end_date)}"
    return f"longest pause of the last year: {format_count(check.count, 'day')}"


def _format_day(iso: str) -> str:
    """Format a day, "2023-05-17": "17 May 2023"."""
    day = date.fromisoformat(iso)
    return f"{day.day} {calendar.month_abbr[day.month]} {day.year}"


def _explain_old_cards(check: f.Check) -> str:
    """Say how likely it is that old cards are forgotten too often, and by how many points."""
    assert check.recalled is not None
    assert check.expected is not None
    assert check.probability is not None
    shortfall = 100 * (check.expected - check.recalled.estimate)
    half_width = 100 * check.recalled.half_width
    estimate, most, least = (
        _format_shortfall(points)
        for points in (shortfall, shortfall + half_width, shortfall - half_width)
    )
    probability = say.round_down_percent(check.probability)
    return (
        f"Of 100 old cards you recalled {estimate} than expected ({most} to {least}). The chance "
        f"that you recall over 3 fewer is {probability} of 100."
    )


def _format_shortfall(points: float) -> str:
    """Format by how many of 100 cards recall falls short: "4 fewer", "1 more"."""
    return f"{abs(points):.0f} {'more' if points < 0 else 'fewer'}"


def _describe_old_cards(check: f.Check) -> str:
    if check.level == "fine":
        return f"old cards: {_describe_as_expected(check)}"
    if check.recalled is None or check.expected is None or check.probability is None:
        return f"old cards: {_describe_inconclusive(check)}"
    if check.level == "not yet":
        probability = say.round_down_percent(check.probability)
        return f"old cards: forgotten too often? {probability} of 100"
    if check.probability < f.SURE:
        fewer = round(100 * (check.expected - check.recalled.estimate))
        return f"old cards: likely {fewer} of 100 too few recalled"
    if 1 - check.recalled.estimate >= _TWICE_RATIO * (1 - check.expected):
        return "old cards forgotten twice as often as expected"
    return f"old cards: {_describe_recall(check)}"


def _describe_button(check: f.Check) -> str:
    name = check.name.capitalize()
    share = f"{name}, {round(100 * check.count / max(check.total, 1))} of 100 answers"
    if check.problem == "like Again":
        return "Hard is pressed for what you have forgotten"
    if check.name == "hard" and check.level == "not yet" and not check.problem:
        return f"{share}: may hide forgetting"
    if check.problem == "seldom":
        return f"{name}: hardly ever pressed"
    if check.problem == "too many":
        return f"{share}: too many"
    if check.level == "look":
        return f"after {name}: {_describe_recall(check)}"
    if check.level == "fine":
        return f"after {name}: {_describe_as_expected(check)}"
    return f"after {name}: {_describe_inconclusive(check)}"


def _describe_as_expected(check: f.Check) -> str:
    assert check.recalled is not None
    assert check.expected is not None
    gap = check.recalled.estimate - check.expected
    is_better = gap > max(_NEGLIGIBLE_GAIN, check.recalled.half_width)
    return f"remembered {'better than' if is_better else 'as'} expected"


def _describe_inconclusive(check: f.Check) -> str:
    return "too few to say" if check.problem == "few" else "can't tell yet"


def _describe_recall(check: f.Check) -> str:
    """Describe recall: "81 of 100 remembered, 90 expected"."""
    assert check.recalled is not None
    assert check.expected is not None
    recalled = round(100 * check.recalled.estimate)
    expected = round(100 * check.expected)
    return f"{recalled} of 100 remembered, {expected} expected"


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.OptimizationFrequency: Renderer(_frequency_sentences, _frequency_line, _frequency_tables),
    f.ParameterNoise: Renderer(_noise_sentences, tables=_noise_tables),
    f.HardButton: Renderer(_hard_sentences, _hard_line, _hard_tables),
    f.StepTimings: Renderer(_steps_sentences, tables=_steps_tables),
    f.ButtonPreview: Renderer(_preview_sentences, tables=_preview_tables),
    f.Checks: Renderer(_checks_sentences, _checks_line, _checks_tables, _describe_problems),
}
