"""Sentences and tables about optimizing, noise, buttons, learning steps and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

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

    Example: "after 25 % more reviews, which is as good as optimizing all the time: Maps; after 10 %
    more reviews, which is safe for everybody: Words".
    """
    subjects: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        answer = f"after {_format_growth(finding)} more reviews, {_frequency_reason(finding)}"
        subjects.setdefault(answer, []).append((finding.subject, ""))
    return say.format_groups(subjects) if len(subjects) > 1 else next(iter(subjects))


def _format_growth(finding: Finding) -> str:
    """Return by how much reviews are to grow until the next time, "25 %"."""
    return finding.recommendation.removeprefix("every +")


def _frequency_reason(finding: Finding) -> str:
    if get_evidence(finding, f.OptimizationFrequency).conclusion == "as good":
        return "which is as good as optimizing all the time"
    return "which is safe for everybody"


def _frequency_sentences(finding: Finding) -> list[str]:
    """Return how often is enough, and what that is compared with."""
    growth = _format_growth(finding)
    reason = _frequency_reason(finding)
    advice = (
        f"Optimize whenever you have {growth} more reviews than when you last optimized, {reason}."
    )
    reviews = format_count(finding.reviews, "review")
    evidence = get_evidence(finding, f.OptimizationFrequency)
    if not evidence.costs:
        verb = "is" if finding.reviews == 1 else "are"
        return [advice, f"{reviews} {verb} too few to tell how often you need to."]
    most_often = "optimizing each time you have 2 % more reviews"
    if evidence.conclusion == "as good":
        basis = f"In a simulation on {reviews} of yours, this was as good as {most_often}."
    elif evidence.costs[0].verdict == "worse":
        basis = f"In a simulation on {reviews} of yours, {most_often} was better still."
    else:
        basis = (
            f"A simulation on {reviews} of yours could not show whether {most_often} would be any "
            "better."
        )
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
    difference = log_loss_difference(
        "minus every +2 %", "log loss minus that of optimizing at every 2 % more"
    )
    columns = ("optimizing", difference, "verdict")
    return [make_evidence_table(title, columns, rows)]


# Noise


def _noise_sentences(finding: Finding) -> list[str]:
    """Return how many parameters are noise and which, or that this cannot be told yet."""
    if finding.missing is not None:
        return [f"{say.capitalize(say.format_cant_tell(finding.missing))}."]
    parameters = get_evidence(finding, f.ParameterNoise).parameters
    noisy = [f"w{k}" for k, parameter in enumerate(parameters) if parameter.is_noise]
    if not noisy:
        return [
            f"None of the {len(parameters)} parameters is noise: if you had reviewed on other "
            "days, each would shift by less than half of the usual difference between people."
        ]
    verb, subject = ("is", "it") if len(noisy) == 1 else ("are", "each")
    return [
        f"{finding.conclusion} parameters {verb} noise ({', '.join(noisy)}): if you had reviewed "
        f"on other days, {subject} would shift by more than half of the usual difference between "
        "people."
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
    title = f"{finding.subject}: parameters, and how much they vary (standard deviations)"
    return [make_evidence_table(title, columns, rows)]


# Hard


def _hard_line(findings: Sequence[Finding]) -> str:
    """Summarize how the learner uses Hard, such as "used as it should be"."""
    return {
        "yes": "behaves like Again, so press Again for what you have forgotten",
        "no": "used as it should be",
        "seldom": "pressed too rarely to matter",
        f.CANT_TELL: say.format_cant_tell(findings[0].missing, " whether it behaves like Again"),
    }[get_evidence(findings[0], f.HardButton).conclusion]


def _hard_sentences(finding: Finding) -> list[str]:
    """Return whether Hard behaves like Again, and how often it is pressed."""
    share = format_percent(get_evidence(finding, f.HardButton).share)
    judgement = {
        "yes": "It behaves like Again, so press Again for what you have forgotten",
        "no": "You use it as it should be used",
        "seldom": "That is too rare to matter",
        f.CANT_TELL: say.capitalize(_hard_line([finding])),
    }[get_evidence(finding, f.HardButton).conclusion]
    sentences = [f"You use Hard for {share} of your answers to reviews. {judgement}."]
    learning = get_evidence(finding, f.HardButton).learning
    if learning is not None:
        sentences.append(describe_learning_from_hard(learning))
    if finding.interval is not None:
        difference = say.format_log_loss_difference(finding.interval)
        sentence = f"If FSRS counted each past Hard as Again, its log loss would be {difference}."
        is_open = get_evidence(finding, f.HardButton).conclusion == f.CANT_TELL
        if is_open and finding.interval.low > 0:
            sentence += " That does not settle it, because FSRS adapts to how you press Hard."
        sentences.append(sentence)
    return sentences


_NEGLIGIBLE_RECALL = 0.005  # a smaller difference in recall after Hard is not called one


def describe_learning_from_hard(learning: f.LearningFromHard) -> str:
    """Compare recall after Hard with recall of cards that are no stronger after it.

    If Hard is misused, the text also says how rarely that happens to people who use it as intended.
    """
    recalled = format_percent(learning.recalled)
    unchanged = format_percent(learning.unchanged)
    reviews = format_count(learning.hard.reviews, "held-out review")
    difference = learning.recalled - learning.unchanged
    comparison = "more than" if difference > 0 else "even less than"
    if abs(difference) < _NEGLIGIBLE_RECALL:
        comparison = "about as much as"
    text = (
        f"In {reviews} after a Hard, you recalled {recalled}: {comparison} if Hard had done "
        f"nothing for your memory ({unchanged})."
    )
    if learning.is_misused:
        percent = round(100 * learning.chance)
        people = f"about {percent} %" if percent else "fewer than 1 %"
        text += (
            " Among people who press Hard only for cards that they recall, it does so little for "
            f"{people}."
        )
    return text


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

_DAY_MINUTES = 1440.0
_STEP_NAMES: Mapping[str, str] = {
    "first Again": "Learning step after Again",
    "first Hard": "Delay after a first Hard",
    "first Good": "Learning step after Good",
    "Again, then Good": "Learning step after Again and Good",
    "lapse": "Relearning step",
}
"""Names of steps by situation."""
_STEP_SETTINGS: Mapping[str, str] = {
    "first Again": "the first of the learning steps (deck options › New Cards)",
    "first Hard": "the mean of the first two learning steps (deck options › New Cards)",
    "first Good": "the second of the learning steps (deck options › New Cards)",
    "Again, then Good": "the second of the learning steps (deck options › New Cards)",
    "lapse": "the first of the relearning steps (deck options › Lapses)",
}
"""Where Anki has each step."""
_UNKNOWN_REASONS = {
    "few": "too few answers",
    "alike": "the delays hardly vary",
    "no curve": "the answers do not fit a forgetting curve",
    "flat": "recall is about the same at all delays",
}


def _steps_sentences(finding: Finding) -> list[str]:
    """Return which steps to change and why, which to keep, and which are inconclusive."""
    timings = get_evidence(finding, f.StepTimings)
    desired = format_percent(timings.desired, 0)
    sentences = []
    for conclusion in ("longer", "shorter"):
        for step in timings.steps:
            if step.conclusion == conclusion:
                sentences.append(_describe_step_change(step, desired))
    for conclusion, words in (
        ("as it is", "Keep the step"),
        (f.CANT_TELL, "Can't tell how long the step should be"),
    ):
        situations = [
            f"after {_with_article(step)}"
            for step in timings.steps
            if step.conclusion == conclusion
        ]
        if situations:
            conjunction: Literal["and", "or"] = "or" if conclusion == f.CANT_TELL else "and"
            sentences.append(f"{words} {say.join_names(situations, conjunction)}.")
    return sentences or ["Can't tell: no card was answered twice on the same day."]


def _describe_step_change(step: f.StepTiming, desired: str) -> str:
    """Say how long a step should be.

    Examples: "Learning step after Again: 1 min is too long; recall falls to 90 % after about 30 s
    (20 s to 45 s)."; "After a first Good, the next day is early enough: ...".
    """
    assert step.delay is not None
    delay = _describe_delay(step, desired)
    if step.conclusion == "longer" and step.delay[0] >= _DAY_MINUTES:
        return f"After {_with_article(step)}, the next day is early enough: {delay}."
    return f"{_name_step(step)}: {_judge_step(step)}; {delay}."


def _name_step(step: f.StepTiming) -> str:
    return _STEP_NAMES[step.situation]


def _judge_step(step: f.StepTiming) -> str:
    """Return what is wrong with a step: "1 min is too long"."""
    assert step.step is not None
    direction = "short" if step.conclusion == "longer" else "long"
    return f"{_format_duration(step.step)} is too {direction}"


def _describe_delay(step: f.StepTiming, desired: str) -> str:
    """Describe the delay at which recall falls to what is desired.

    Examples: "recall falls to 90 % after about 5 min (3 min to 9 min)"; "after 6 min, your longest
    delay so far, you still recall more than 90 %".
    """
    assert step.delay is not None
    assert step.observed_delays is not None
    _, low, high = step.delay
    shortest, longest = step.observed_delays
    if high < shortest:
        return (
            f"after {_format_duration(shortest)}, your shortest delay so far, you already recall "
            f"less than {desired}"
        )
    if low > longest:
        return (
            f"after {_format_duration(longest)}, your longest delay so far, you still recall more "
            f"than {desired}"
        )
    return f"recall falls to {desired} after {_format_delay(step)}"


def _format_delay(step: f.StepTiming) -> str:
    """Format the delay until which recall is as desired, as far as observed delays show it."""
    assert step.delay is not None
    assert step.observed_delays is not None
    estimate, low, high = step.delay
    shortest, longest = step.observed_delays
    if high < shortest:
        return f"less than {_format_duration(shortest)}"
    if low > longest:
        return f"more than {_format_duration(longest)}"
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
    title = f"{finding.subject}: when recall falls to {desired} within the day"
    return [make_evidence_table(title, columns, rows)]


def _with_article(step: f.StepTiming) -> str:
    return (
        "Again followed by Good" if step.situation == "Again, then Good" else f"a {step.situation}"
    )


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
        f"What the buttons would show at a desired retention of {100 * desired:.4g} %, for a new "
        "card and for typical ones that are answered when they are due.",
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
        title = (
            f"Intervals on the buttons with {candidate}, at {100 * preview.retention:.4g} % (Anki "
            "varies those of 3 days or more a little)"
        )
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

_CHECK_LABELS: Mapping[str, str] = {
    "overdue": "cards overdue",
    "gap": "days without reviews",
    "suspended": "cards suspended",
    "leeches": "cards forgotten far too often",
    "steps": "answers at a learning step",
    "mature cards": "reviews of mature cards",
    "again": "Again pressed",
    "hard": "Hard pressed",
    "easy": "Easy pressed",
}
"""What the count of each check counts."""
MARKS: Mapping[f.CheckLevel, str] = {"look": "!", "fine": "✓", "not yet": "?"}
_SHORTEST_PRACTICAL_STEP = 0.25  # minutes; nobody would set a shorter step
_TWICE_RATIO = 1.75  # times as many as expected, from which the ratio is shown
_FEWER_NEW_CARDS = (
    " Learning fewer new cards a day (deck options › Daily Limits) leaves you time to catch up."
)
_NEGLIGIBLE_GAIN = 0.02  # recall above expectation that does not matter


def _checks_line(findings: Sequence[Finding]) -> str:
    """Summarize what is worth a look, or say that nothing is."""
    problems = _describe_problems(findings[0])
    return " · ".join(problems) if problems else "Nothing that your reviews show"


def _describe_problems(finding: Finding) -> list[str]:
    """Describe each check that is worth a look."""
    checks = get_evidence(finding, f.Checks).checks
    return [describe_check(check) for check in checks if check.level == "look"]


GRADES_SENTENCE = "SuperMemo's grades 0 to 2 count as Again, 3 as Hard, 4 as Good and 5 as Easy."


def _checks_sentences(finding: Finding) -> list[str]:
    """Return each check, the worst first; what is worth a look is followed by an explanation."""
    checks = get_evidence(finding, f.Checks).checks
    sentences = []
    if not _describe_problems(finding):
        sentences.append(f"{_checks_line([finding])}.")
    for check in checks:
        sentences.append(f"{describe_check(check)}.")
        sentences += _explain_check(check)
    if get_evidence(finding, f.Checks).are_from_grades:
        sentences.append(GRADES_SENTENCE)
    return sentences


def _checks_tables(finding: Finding) -> list[Table]:
    """Return tables of all checks and of the worst leeches."""
    checks = get_evidence(finding, f.Checks).checks
    rows = []
    leech_rows = []
    for check in checks:
        label = _CHECK_LABELS.get(check.name, check.name)
        row = (
            f"{label}, {check.subject}" if check.subject else label,
            check.level,
            None if check.name == "steps" and not check.count else check.count,
            check.total or None,
            None if check.recalled is None else check.recalled.reviews,
            None if check.recalled is None else check.recalled.estimate,
            check.expected if check.desired is None else check.desired,
            check.minutes if check.name == "overdue" else None,
        )
        rows.append(row)
        for leech in check.leeches:
            usual = round(leech.usual, 1)
            leech_row = (str(leech.card_id), leech.reviews, leech.lapses, usual, leech.chance)
            leech_rows.append(leech_row)
    minutes = Column("minutes", digits=0)
    columns = ("check", "", "count", "of", "reviews", RECALLED, EXPECTED, minutes)
    tables = [make_evidence_table("What was checked", columns, rows)]
    if leech_rows:
        title = "Cards forgotten far too often, the worst ones (search Anki for cid:NUMBER)"
        leech_columns = ("card", "reviews", "forgotten", "usual", "chance")
        tables.append(make_evidence_table(title, leech_columns, leech_rows))
    return tables


def describe_check(check: f.Check) -> str:
    """Describe a check in at most two lines of 44 columns, without its mark and full stop."""
    is_fine = check.level == "fine"
    match check.name:
        case "overdue" if check.count:
            is_past = bool(check.last_review_date)
            return say.format_overdue(
                check.count, check.minutes or 0.0, check.total, is_past=is_past
            )
        case "overdue":
            return "No card is overdue"
        case "ignored cards":
            name = say.quote_name(check.subject)
            return f"“Ignore cards reviewed before” in {name} leaves out every card"
        case "gap":
            return _describe_gap(check)
        case "leeches" if check.count:
            cards = format_count(check.count, "card")
            return f"You forget {cards} far too often"
        case "leeches" if is_fine:
            return "No card is forgotten far too often"
        case "leeches":
            return "Cards forgotten too often: too few reviews to say"
        case "suspended":
            if check.count == check.total == 1:
                return "Your only card is suspended"
            count = "All" if check.count == check.total else f"{check.count:,} of"
            verb = "is" if check.count == 1 else "are"
            return f"{count} {format_count(check.total, 'card')} {verb} suspended"
        case "steps" if check.timing is not None:
            return _describe_step_check(check, check.timing)
        case "steps" if is_fine:
            return "No learning step is clearly wrong"
        case "steps":
            return "Learning steps: can't tell yet"
        case "mature cards":
            return _describe_mature_cards(check)
    return _describe_button(check)  # the name is that of a button


def _describe_step_check(check: f.Check, step: f.StepTiming) -> str:
    """Name a step and a better one: "Learning step after Again: 1 min is too long, try 30 s"."""
    assert check.minutes is not None
    minutes = check.minutes
    if check.problem == "shorter":
        minutes = max(minutes, _SHORTEST_PRACTICAL_STEP)
    better = _format_duration(minutes)
    if check.is_bound:
        better += " or less" if check.problem == "shorter" else " or more"
    return f"{_name_step(step)}: {_judge_step(step)}, try {better}"


def _explain_check(check: f.Check) -> list[str]:
    """Explain what is worth a look, what it rests on, and what to change; [] if nothing is."""
    if check.problem == "seldom":
        return _explain_seldom(check)
    if check.name == "mature cards" and check.level != "fine" and check.probability is not None:
        return [_explain_mature_cards(check)]
    if check.leeches:
        return [_explain_leeches(check)]
    if may_hide_forgetting(check):
        return [
            "Hard counts as remembered. If you press it for cards that you have forgotten, you "
            "remember less than the figures say: press Again for those. Your reviews so far do "
            "not show whether you do."
        ]
    if check.level != "look":
        return []
    match check.name:
        case "overdue":
            return [
                "A card is overdue if it was due before the day of your last review. The time is "
                "for one answer to each at your usual pace, and one more after Again."
                + ("" if check.last_review_date else _FEWER_NEW_CARDS)
            ]
        case "ignored cards":
            return [
                f"“Ignore cards reviewed before” is {say.format_day(check.ignore_date or '')}, and "
                "you began all cards of this preset before that date, so Optimize has no reviews "
                "to learn from. Empty it in the deck options (FSRS)."
            ]
        case "steps" if check.timing is not None:
            return [_explain_step(check, check.timing)]
        case "suspended":
            if check.count == check.total:
                return [
                    "Anki shows you none of them. To review them again, unsuspend them in Anki's "
                    "browser. The answers here are about your past reviews."
                ]
            return ["Anki's optimizer ignores suspended cards, and so do most answers here."]
        case "gap" if check.last_review_date is not None:
            last_day = say.format_day(check.last_review_date)
            return [f"As you have not reviewed since, everything here is as of {last_day}."]
        case "gap":
            return [
                "FSRS takes into account how long a card really waited, so a break calls for no "
                "change of settings. Learn no new cards in the week before the next one, and fewer "
                "reviews will wait for you."
            ]
        case "hard" if check.problem == "like Again" and check.learning is not None:
            return [describe_learning_from_hard(check.learning), _explain_button(check)]
        case "again" | "hard" | "easy":
            return [_explain_button(check)]
    return []


def _explain_step(check: f.Check, step: f.StepTiming) -> str:
    desired = format_percent(check.desired or 0.0, 0)
    answers = format_count(step.answers, "answer")
    assert check.minutes is not None
    limit = ""
    if check.problem == "shorter" and check.minutes < _SHORTEST_PRACTICAL_STEP:
        limit = f" Steps below {_format_duration(_SHORTEST_PRACTICAL_STEP)} are hardly practical."
    return (
        f"Of {answers} after {_with_article(step)}, {format_percent(step.recalled.estimate)} "
        f"were right; {_describe_delay(step, desired)}.{limit} In preset “{check.subject}” that "
        f"step is {_STEP_SETTINGS[step.situation]}."
    )


def _explain_leeches(check: f.Check) -> str:
    worst = check.leeches[0]
    return (
        f"You forgot the worst card {worst.lapses} of {worst.reviews} times; {worst.usual:.1f} "
        "times would be usual after such intervals. About 2 % of the cards listed here are not "
        "leeches, just unlucky. Rewrite your leeches, or suspend them."
    )


def _explain_seldom(check: f.Check) -> list[str]:
    """Say what it means that a button is hardly ever pressed."""
    if check.name == "again":
        return [
            "If you hardly forget anything, you review more than necessary: with FSRS on, a lower "
            "desired retention (deck options › FSRS) saves time."
        ]
    return []


def _explain_button(check: f.Check) -> str:
    """Say what to change about a button."""
    if check.problem == "like Again":
        return "Press Again for what you have forgotten; Hard is for what you recalled with effort."
    if check.problem == "too many":
        return (
            "Learn fewer new cards a day (deck options › Daily Limits), or split the cards that "
            "you keep forgetting."
        )
    match check.name:
        case "easy":
            return "Press Easy only for what you know at once: it makes intervals grow most."
        case "hard":
            return "Press Again, not Hard, for what you have forgotten."
    return (
        "Cards that you forgot come back too late: more relearning steps (deck options › Lapses) "
        "bring them back sooner."
    )


def _describe_gap(check: f.Check) -> str:
    if check.last_review_date is not None:
        return f"No review since {say.format_day(check.last_review_date)}"
    if check.level == "look":
        if check.gap_end_date is None:
            return f"A break of {check.count} days in the last year"
        return f"A break of {check.count} days until {say.format_day(check.gap_end_date)}"
    return f"Longest break in the last year: {format_count(check.count, 'day')}"


def _count_shown_shortfall(check: f.Check) -> int:
    """Return the points between the rounded shares, which stand beside it on the screen."""
    assert check.recalled is not None
    assert check.expected is not None
    return round(100 * check.expected) - round(100 * check.recalled.estimate)


def _explain_mature_cards(check: f.Check) -> str:
    """Say how likely it is that mature cards are forgotten too often, and by how many points."""
    assert check.recalled is not None
    assert check.expected is not None
    assert check.probability is not None
    shortfall = 100 * (check.expected - check.recalled.estimate)
    half_width = 100 * check.recalled.half_width
    estimate, most, least = (
        _format_shortfall(points)
        for points in (
            _count_shown_shortfall(check),
            shortfall + half_width,
            shortfall - half_width,
        )
    )
    probability = say.round_down_percent(check.probability)
    preset = f" in preset “{check.subject}”" if check.subject else ""
    explanation = (
        f"In every 100 reviews of mature cards{preset}, you recalled {estimate} than expected "
        f"({most} to {least}). The chance that the shortfall is greater than 3 is {probability} %."
    )
    if check.level == "look":
        explanation += (
            " With FSRS on, a higher desired retention (deck options › FSRS) brings them back "
            "sooner."
        )
    return explanation


def _format_shortfall(points: float) -> str:
    """Format by how many per cent recall falls short: "4 fewer", "1 more"."""
    return f"{abs(points):.0f} {'more' if points < 0 else 'fewer'}"


def _describe_mature_cards(check: f.Check) -> str:
    if check.level == "fine":
        return f"Mature cards: you remember {_describe_as_expected(check)}"
    if check.recalled is None or check.expected is None or check.probability is None:
        return f"Mature cards: {_describe_inconclusive(check)}"
    if check.level == "not yet":
        probability = say.round_down_percent(check.probability)
        return f"Mature cards: a {probability} % chance that you forget too many"
    if check.probability < f.SURE:
        fewer = _count_shown_shortfall(check)
        return f"Mature cards: you probably forget more than expected, by about {fewer} points"
    if 1 - check.recalled.estimate >= _TWICE_RATIO * (1 - check.expected):
        ratio = round((1 - check.recalled.estimate) / (1 - check.expected))
        times = "twice" if ratio == 2 else f"{ratio} times"
        return f"Mature cards: you forget {times} as many as expected"
    return f"Mature cards: {_describe_recall(check)}"


def may_hide_forgetting(check: f.Check) -> bool:
    """Return True if it is open whether cards are forgotten that are answered with Hard."""
    if check.name != "hard" or check.level != "not yet" or check.problem:
        return False
    if check.recalled is None or check.expected is None:
        return True
    return check.recalled.estimate < check.expected


def _describe_button(check: f.Check) -> str:
    name = check.name.capitalize()
    share = say.format_share(check.count / max(check.total, 1))
    if check.problem == "like Again":
        return "You probably press Hard for cards that you have forgotten"
    if may_hide_forgetting(check):
        return f"Do you press Hard ({share} of answers) for cards you forgot? Not clear yet"
    if check.problem == "seldom" and check.name == "again":
        return "You forget less than 1 %: you could review less"
    if check.problem == "seldom":
        return f"You press {name} too rarely for it to matter"
    if check.problem == "too many":
        return f"You forget {share}: too much"
    if check.level == "look":
        return f"Next review after {name}: {_describe_recall(check)}"
    if check.level == "fine":
        return f"After {name}, you remember {_describe_as_expected(check)}"
    if check.name == "again" and check.problem == "few" and check.recalled is None and check.count:
        return "Next review after Again: none to check, as you mostly relearn on the same day"
    return f"Next review after {name}: {_describe_inconclusive(check)}"


def _describe_as_expected(check: f.Check) -> str:
    assert check.recalled is not None
    assert check.expected is not None
    gap = check.recalled.estimate - check.expected
    is_better = gap > max(_NEGLIGIBLE_GAIN, check.recalled.half_width)
    return "better than expected" if is_better else "as expected"


def _describe_inconclusive(check: f.Check) -> str:
    if check.problem != "few":
        return "can't tell yet"
    reviews = 0 if check.recalled is None else check.recalled.reviews
    if check.recalled is None or not reviews:
        return "no such reviews yet"
    noun = "review" if check.name == "mature cards" else "such review"
    if reviews >= f.MIN_REVIEWS_CHECKED:
        days = format_count(check.recalled.days, "day")
        return f"{format_count(reviews, noun)} from only {days}, too few to say"
    return f"only {format_count(reviews, noun)}, too few to say"


def _describe_recall(check: f.Check) -> str:
    """Describe recall: "81 % remembered, 90 % expected"."""
    assert check.recalled is not None
    assert check.expected is not None
    recalled = say.format_share(check.recalled.estimate)
    expected = say.format_share(check.expected)
    return f"{recalled} remembered, {expected} expected"


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.OptimizationFrequency: Renderer(_frequency_sentences, _frequency_line, _frequency_tables),
    f.ParameterNoise: Renderer(_noise_sentences, tables=_noise_tables),
    f.HardButton: Renderer(_hard_sentences, _hard_line, _hard_tables),
    f.StepTimings: Renderer(_steps_sentences, tables=_steps_tables),
    f.ButtonPreview: Renderer(
        _preview_sentences, tables=_preview_tables, are_tables_the_answer=True
    ),
    f.Checks: Renderer(_checks_sentences, _checks_line, _checks_tables, _describe_problems),
}
