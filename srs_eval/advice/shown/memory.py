"""Sentences, bars and tables about retention, calibration and daily state."""

from __future__ import annotations

import calendar
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import get_evidence
from srs_eval.advice.sentences import (
    Bar,
    LineLevel,
    MonthBars,
    MonthFigure,
    PaneItem,
    PaneLine,
    Renderer,
    format_percent,
)
from srs_eval.advice.shown.columns import (
    EXPECTED,
    LOG_LOSS,
    RECALLED,
    STATE,
    make_evidence_table,
)
from srs_eval.advice.shown.habits import may_hide_forgetting
from srs_eval.advice.workload.estimate import format_held_out_count
from srs_eval.data.errors import format_count
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Table

_RETENTION_WORDS = {
    "below": "less than desired",
    "no matter": "as desired",
    "above": "more than desired",
    f.CANT_TELL: "can't tell yet",
    "not asked for": "recalled",
}
"""Words for each conclusion, in the order of the line: what may call for action comes first."""
_PROBABLY_LESS = "less than desired, but perhaps not by much"
_PROBABLY_MORE = "more than desired, but perhaps not by much"
_HARD_CONDITION = "unless you press Hard for cards you forgot"
_MIN_POINTS_LEFT = 0.5  # percentage points without a cause that are mentioned
_MUCH_HARD = 0.1  # share of Hard from which it is mentioned where no retention is asked for

_CAUSE_CLAUSES = {
    f.RetentionCause.SHORTEST_INTERVAL: "because no interval is shorter than one day",
    f.RetentionCause.SCHEDULED_FOR_LESS: "because Anki aimed at a lower retention",
    f.RetentionCause.SCHEDULED_FOR_MORE: "because Anki aimed at a higher retention",
    f.RetentionCause.LATE: "because cards came late",
    f.RetentionCause.EARLY: "because cards came early",
    f.RetentionCause.EXPECTED_TOO_MUCH: "because FSRS expected too much",
    f.RetentionCause.EXPECTED_TOO_LITTLE: "because FSRS expected too little",
}
_SCHEDULING = {
    f.RetentionCause.SHORTEST_INTERVAL,
    f.RetentionCause.SCHEDULED_FOR_LESS,
    f.RetentionCause.SCHEDULED_FOR_MORE,
}
"""Causes that lie in the schedule."""
_SHORTEST_INTERVAL_EXPLANATION = (
    "Many of your cards are due after one day, and by then you remember fewer of them than you ask "
    "for. Whatever retention you ask for, Anki cannot show them sooner."
)
_SCHEDULE_EXPLANATION = (
    "Intervals are rounded to whole days, and those set before you last changed the preset's "
    "options were made for other settings."
)


def _describe_conclusion(retention: f.Retention) -> str:
    """Return the words for the conclusion, on a condition where Hard may hide lapses."""
    words = _RETENTION_WORDS[retention.conclusion]
    recalled = retention.groups[0].recalled
    if retention.conclusion == f.CANT_TELL and retention.desired is not None:
        if recalled.high < retention.desired:
            return _PROBABLY_LESS
        if recalled.low > retention.desired:
            return _PROBABLY_MORE
    if retention.conclusion in ("no matter", "above") and _presses_hard_often(retention):
        return f"{words}, {_HARD_CONDITION}"
    return words


def _presses_hard_often(retention: f.Retention) -> bool:
    return retention.hard_share >= f.MIN_HARD_SHARE


def _retention_line(findings: Sequence[f.Finding]) -> str:
    """Summarize retention, grouping presets with equal conclusions.

    Example: "less than desired: Words 84.7 % (desired 90 %); as desired: Maps 90 % (desired 91 %)".
    """
    subjects: dict[str, list[tuple[str, str]]] = {}
    below, *others = _RETENTION_WORDS.values()
    for words in (below, _PROBABLY_LESS, *others, _PROBABLY_MORE):
        subjects[words] = []
        subjects[f"{words}, {_HARD_CONDITION}"] = []
    for finding in findings:
        retention = get_evidence(finding, f.Retention)
        recalled = retention.groups[0].recalled
        notes = []
        if retention.desired is not None:
            notes.append(f"desired {format_percent(retention.desired, 0)}")
        if finding.missing is not None and not say.has_enough_to_show(recalled):
            notes.append(say.format_missing_data(finding.missing, is_short=len(findings) > 1))
        elif retention.conclusion == f.CANT_TELL:
            notes.append(say.format_share_range(recalled))
        if retention.parts and retention.desired is not None:
            notes = [": ".join([*notes, _summarize_gap(retention, retention.desired)])]
        figures = ""
        if say.has_enough_to_show(recalled):
            figures = f"{format_percent(recalled.estimate)} "
        if notes:
            figures += f"({', '.join(notes)})"
        words = _describe_conclusion(retention)
        subjects[words].append((finding.subject, figures.strip()))
    return say.format_groups({words: names for words, names in subjects.items() if names})


def _summarize_gap(retention: f.Retention, desired: float) -> str:
    """Say how far recall is from the desired retention, and why.

    Examples: "3.1 points less because cards came late", "2.3 points less, 1.3 of them because no
    interval is shorter than one day". Causes have no figures if one is as large as the whole gap.
    """
    gap = round(100 * abs(retention.groups[0].recalled.estimate - desired), 1)
    direction = "less" if retention.conclusion == "below" else "more"
    size = f"{gap:.1f} points {direction}"
    causes = [_CAUSE_CLAUSES[part.cause] for part in retention.parts]
    sizes = [round(100 * abs(part.gap.estimate), 1) for part in retention.parts]
    if max(sizes) >= gap:
        return f"{size} {say.join_names(causes)}"
    parts = [f"{part:.1f} of them {cause}" for part, cause in zip(sizes, causes, strict=True)]
    return f"{size}, {say.join_names(parts)}"


def _retention_sentences(finding: f.Finding) -> list[str]:
    """Return retention compared with the desired one, causes of a gap, and what was expected."""
    retention = get_evidence(finding, f.Retention)
    recalled = retention.groups[0].recalled
    expected = format_percent(retention.groups[0].expected)
    interval = "no range: all reviews are on one day"
    if not say.has_enough_to_show(recalled):
        interval = "too few for a range"
    elif math.isfinite(recalled.half_width):
        low, high = say.format_share_bounds(recalled, 1)
        interval = f"95 % range: {low} to {high}"
    reviews = format_count(recalled.reviews, "review")
    figures = f"you recalled {format_percent(recalled.estimate)} of {reviews} ({interval})"
    if retention.fsrs_is_off:
        expectation = f"FSRS, which is off, would have expected you to recall {expected}."
    else:
        expectation = (
            f"With the current parameters, FSRS expected you to recall {expected} of these reviews."
        )
    if retention.true_retention is not None:
        expectation += f" {_describe_true_retention(retention.true_retention)}"
    if retention.desired is None:
        reason = (
            "The desired retention is unknown, because the file lacks the options of this preset."
        )
        if retention.fsrs_is_off:
            reason = "FSRS is off, so no desired retention is in effect."
        return [f"{say.capitalize(figures)}. {reason}", expectation]
    conclusion = say.capitalize(_describe_conclusion(retention))
    answer = f"{conclusion}: {figures} and asked for {format_percent(retention.desired)}."
    if finding.missing is not None:
        return [answer, say.missing_data_sentence(finding.missing), expectation]
    if not retention.parts:
        return [answer, expectation]
    causes = [
        f"{_format_points(part.gap)} {_CAUSE_CLAUSES[part.cause]}" for part in retention.parts
    ]
    explained = sum(part.gap.estimate for part in retention.parts)
    unexplained = 100 * (recalled.estimate - retention.desired - explained)
    if abs(unexplained) >= _MIN_POINTS_LEFT:
        causes.append(f"{say.format_signed(unexplained, 1)} unexplained")
    sentences = [answer, f"The difference, in percentage points: {', '.join(causes)}."]
    causes_in_schedule = _SCHEDULING.intersection(part.cause for part in retention.parts)
    if f.RetentionCause.SHORTEST_INTERVAL in causes_in_schedule:
        sentences.append(_SHORTEST_INTERVAL_EXPLANATION)
        causes_in_schedule.remove(f.RetentionCause.SHORTEST_INTERVAL)
    if causes_in_schedule:
        sentences.append(_SCHEDULE_EXPLANATION)
    return [*sentences, expectation]


def _describe_true_retention(share: float) -> str:
    return (
        f"Anki's True Retention is {format_percent(share)} over all time: it also counts cards "
        "that you reviewed again on the same day."
    )


def _format_points(difference: Interval) -> str:
    """Format a difference in points: "−12.1 (−13.4 to −10.8)"."""
    estimate = say.format_signed(100 * difference.estimate, 1)
    low = say.format_signed(100 * difference.low, 1)
    high = say.format_signed(100 * difference.high, 1)
    return f"{estimate} ({low} to {high})"


def _retention_tables(finding: f.Finding) -> list[Table]:
    """Return a table of all reviews, young and mature cards, and months."""
    groups = get_evidence(finding, f.Retention).groups
    return [_recall_table(f"{finding.subject}: retention", "reviews of", groups)]


def _recall_table(title: str, column: str, groups: Sequence[f.RecallGroup]) -> Table:
    rows = []
    for group in groups:
        rows.append((group.name, group.recalled.reviews, group.recalled, group.expected))
    return make_evidence_table(title, (column, "reviews", RECALLED, EXPECTED), rows)


# When FSRS says 90 %

_CALIBRATION_WORDS = {
    "below": "less than it says",
    "above": "more than it says",
    "no matter": "close to what it says",
    f.CANT_TELL: "can't tell yet whether it means what it says",
}


def _calibration_line(findings: Sequence[f.Finding]) -> str:
    """Summarize recall where FSRS says about 90 %.

    Example: "90 %, you recall 88 % (86 to 90 %): less than it says".
    """
    calibration = get_evidence(findings[0], f.Calibration)
    if calibration.nearest_bin is None:
        return say.format_cant_tell(findings[0].missing)
    expected = format_percent(calibration.nearest_bin.expected, 0)
    recalled = calibration.nearest_bin.recalled
    recalled_range = say.format_share_range(recalled)
    conclusion = _CALIBRATION_WORDS[calibration.conclusion]
    return (
        f"{expected}, you recall {format_percent(recalled.estimate, 0)} ({recalled_range}): "
        f"{conclusion}"
    )


def _calibration_sentences(finding: f.Finding) -> list[str]:
    """Return recall where FSRS says about 90 %, recall over all reviews, and a caveat."""
    calibration = get_evidence(finding, f.Calibration)
    if calibration.nearest_bin is None:
        answer = f"{say.capitalize(say.format_missing_data(finding.missing))}."
        if finding.missing is not None and finding.missing.can_come:
            missing = say.format_missing_data(finding.missing)
            answer = f"Can't tell yet: it {missing} with a prediction near 90 %."
    else:
        says = (
            "Where FSRS, which is off, would say" if calibration.fsrs_is_off else "When FSRS says"
        )
        answer = f"{says} {_calibration_line([finding])}."
    overall = calibration.overall
    reviews = format_count(overall.recalled.reviews, "usable review")
    expected = format_percent(overall.expected)
    recalled = format_percent(overall.recalled.estimate)
    expects = "would have expected" if calibration.fsrs_is_off else "expected"
    sentences = [
        answer,
        f"Over all {reviews}, FSRS {expects} {expected}, and you recalled {recalled}.",
    ]
    if not calibration.fsrs_is_off:
        sentences.append("The current parameters may have been fitted to these reviews.")
    return sentences


def _calibration_tables(finding: f.Finding) -> list[Table]:
    """Return a table of recall by what FSRS says."""
    bins = get_evidence(finding, f.Calibration).bins
    return [_recall_table("What Anki's FSRS says and what you recall", "when it says", bins)]


# Month by month

_PREDICTABILITY_WORDS = {
    "below": "more predictable than before",
    "above": "less predictable than before",
    "no matter": "about as predictable as before",
    f.CANT_TELL: "can't tell yet whether you are more predictable than before",
}


def _months_line(findings: Sequence[f.Finding]) -> str:
    """Summarize the last month.

    Example: "less predictable than before: recalled 81.2 %, expected 88.3 %".
    """
    (finding,) = findings
    if finding.missing is not None:
        return say.format_cant_tell(finding.missing)
    months = get_evidence(finding, f.Months)
    conclusion = _PREDICTABILITY_WORDS[months.conclusion]
    if not months.tells_recall:
        return conclusion
    recalled, expected = _format_last_month(months)
    return f"{conclusion}: recalled {recalled}, expected {expected}"


def _format_last_month(months: f.Months) -> tuple[str, str]:
    """Return the shares recalled and expected in the last month: "81.2 %", "88.3 %"."""
    last_month = months.months[-1]
    return format_percent(last_month.recalled.estimate), format_percent(last_month.predicted)


def _months_sentences(finding: f.Finding) -> list[str]:
    """Return how the last month was, and how its log loss differs from the months before."""
    answer = f"{_describe_last_month(finding)}."
    if finding.interval is None:
        return [answer]
    if say.differs(finding.interval.estimate):
        difference = say.format_difference_with_range(finding.interval)
        comparison = f"{difference} than in the months before"
    else:
        comparison = f"the same as in the months before {say.format_interval(finding.interval)}"
    return [
        answer,
        f"The log loss of FSRS-6 on that month's {format_count(finding.reviews, 'review')} is "
        f"{comparison}.",
        "Log loss also falls when you simply recall more.",
    ]


def _describe_last_month(finding: f.Finding) -> str:
    """Say how the last month was.

    Example: "In October 2024, you were less predictable than before: you recalled 81.2 %, and
    FSRS-6 expected 88.3 %".
    """
    months = get_evidence(finding, f.Months)
    month = say.format_month(finding.subject)
    if finding.missing is not None or months.conclusion == f.CANT_TELL:
        return f"{month}: {_months_line([finding])}"
    preposition = "On" if month.startswith("days") else "In"
    answer = f"{preposition} {month}, you were {_PREDICTABILITY_WORDS[months.conclusion]}"
    if not months.tells_recall:
        return answer
    recalled, expected = _format_last_month(months)
    return f"{answer}: you recalled {recalled}, and FSRS-6 expected {expected}"


def _months_tables(finding: f.Finding) -> list[Table]:
    """Return a table with a row for each month."""
    months = get_evidence(finding, f.Months)
    rows: list[tuple[object, ...]] = []
    for month in months.months:
        if months.tells_recall:
            row: tuple[object, ...] = (
                month.name,
                month.reviews,
                month.recalled,
                month.predicted,
                month.log_loss,
            )
        else:
            row = (month.name, month.reviews, month.log_loss)
        rows.append(row)
    columns: tuple[object, ...] = ("month", "held-out reviews", LOG_LOSS)
    if months.tells_recall:
        columns = ("month", "reviews", RECALLED, EXPECTED, LOG_LOSS)
    return [make_evidence_table("Month by month, FSRS-6", columns, rows)]


# The learner's day

_DAYS_SHOWN = 14
_USUAL_RECALL = 0.9  # usual recall of the cards by which a state is put into words
_EFFECT_TOPICS = {"day": "your day", "hour": "the time of day", "session": "a session's length"}
_EFFECT_WORDS = {  # by question: the subject of the sentence, and what is known
    "day": ("Whether you are having a good or bad day", "knowing how your day goes"),
    "hour": ("The time of day", "knowing the time"),
    "session": ("The length of a session", "counting the day's reviews"),
}


def _effect_line(findings: Sequence[f.Finding]) -> str:
    """Summarize what it is worth to know the day, the hour or the session.

    Example: "hardly matters: knowing the time would reduce FSRS-6's error by 2.1 % (1.5 to 2.7 %)".
    """
    (finding,) = findings
    effect = get_evidence(finding, f.DayEffect)
    if effect.worth is None:
        return "cannot be judged, because this file has no times of day"
    if finding.missing is not None:
        return say.format_cant_tell(finding.missing, " whether it matters")
    estimate = f"{100 * effect.worth.estimate:.1f}".replace("-", "−")
    low = f"{100 * effect.worth.low:.1f}".replace("-", "−")
    high = format_percent(effect.worth.high).replace("-", "−")
    _, knowledge = _EFFECT_WORDS[finding.question]
    if round(100 * effect.worth.estimate, 1) <= 0:
        return f"{effect.conclusion}: {knowledge} would not reduce FSRS-6's error ({low} to {high})"
    return (
        f"{effect.conclusion}: {knowledge} would reduce FSRS-6's error by {estimate} % "
        f"({low} to {high})"
    )


def _effect_sentences(finding: f.Finding) -> list[str]:
    """Return whether the effect matters, its size in log loss, and what that means."""
    subject, knowledge = _EFFECT_WORDS[finding.question]
    answer = f"For predictions, {subject[0].lower()}{subject[1:]} {_effect_line([finding])}."
    if finding.missing is not None:
        what = f" whether {_EFFECT_TOPICS[finding.question]} matters"
        answer = f"{say.capitalize(say.format_cant_tell(finding.missing, what))}."
    if finding.interval is None or math.isnan(finding.interval.half_width):
        return [answer]
    reviews = format_count(finding.reviews, "held-out review")
    if say.differs(finding.interval.estimate):
        difference = say.format_difference_with_range(finding.interval)
        change = f"makes the log loss of {reviews} {difference}"
    else:
        interval = say.format_interval(finding.interval)
        change = f"leaves the log loss of {reviews} the same {interval}"
    return [
        answer,
        f"{say.capitalize(knowledge)} {change}.",
        "A scheduler does not know this when it sets an interval, so it cannot use it.",
    ]


def days_table(days: Sequence[f.DayState], title: str = "Your state day by day") -> Table:
    """Return a table of recall and state by day; the state is what the day adds to logits."""
    columns = ("day", "reviews", RECALLED, EXPECTED, STATE)
    rows = [(day.name, day.state.reviews, day.recalled, day.expected, day.state) for day in days]
    return make_evidence_table(title, columns, rows)


def _today_line(findings: Sequence[f.Finding]) -> str:
    """Summarize the state of the last day.

    Example: "more forgotten than usual since 1 Oct 2024: where you would usually recall 90 % of
    cards, you recalled about 81 %".
    """
    states = get_evidence(findings[0], f.DayStates)
    effect = _describe_state(states)
    if states.conclusion == "as usual":
        return f"as usual: {effect}, which is within your usual ups and downs"
    return f"{states.conclusion} than usual since {say.format_day(states.since)}: {effect}"


def _describe_state(states: f.DayStates) -> str:
    """Say what the state of the last day does to recall.

    Example: "where you would usually recall 90 % of cards, you recalled about 81 %".
    """
    # A state is added to the logit of recall.
    logit = math.log(_USUAL_RECALL / (1 - _USUAL_RECALL)) + states.days[-1].state.estimate
    recalled = format_percent(1 / (1 + math.exp(-logit)), 0)
    return f"where you would usually recall 90 % of cards, you recalled about {recalled}"


def _today_sentences(finding: f.Finding) -> list[str]:
    """Return how the last day went."""
    states = get_evidence(finding, f.DayStates)
    last_day = states.days[-1].name
    comparison = "as much as usual"
    if states.conclusion != "as usual":
        comparison = f"{states.conclusion.removesuffix(' forgotten')} than usual"
        if states.since != last_day:
            comparison += f", as you had done since {say.format_day(states.since)}"
    return [
        f"When you last reviewed ({say.format_day(last_day)}), you forgot {comparison}: "
        f"{_describe_state(states)}."
    ]


def _today_tables(finding: f.Finding) -> list[Table]:
    """Return a table of the last days."""
    days = get_evidence(finding, f.DayStates).days
    return [days_table(days[-_DAYS_SHOWN:], "Your last days")]


# The second pane

_GROUPS_WITH_BARS = ("all", "young cards", "mature cards")
_MIN_MONTH_REVIEWS = 30  # fewest reviews of a month that is shown
_MUCH_LOWER_MONTH = 10  # points below all time from which a month after a break is explained
_WIDE = 0.1  # half-width of an interval of recall that leaves open how much is remembered
_MAX_MONTHS = 12  # most months shown, the latest ones
_MARK_NOTES: Mapping[str, tuple[str, LineLevel]] = {
    "": ("", ""),
    "look": ("◀ look", "look"),
    "few": ("unclear", "not yet"),
}
"""The note at the end of a bar and its level, by the mark of the bar's group."""


@dataclass(frozen=True)
class RetentionPane:
    """The second pane, and which of its warnings belong under "Anything wrong?", too."""

    summary: PaneLine
    items: tuple[PaneItem, ...]
    recalled: float  # share of all reviews
    remembers_too_little: bool  # over all cards


def render_retention(
    retentions: Mapping[str, f.Retention],
    months: f.Months | None,
    checks: Sequence[f.Check],
    *,
    of_excluded_cards: bool = False,
) -> RetentionPane | None:
    """Return the second pane, or None without reviews.

    Retention is that of `months`, where they are given, else that of all presets.
    `of_excluded_cards`: most of the cards are suspended or deleted.
    """
    groups = _collect_groups(list(retentions.values()), months)
    if not groups:
        return None
    requested = {
        name: retention for name, retention in retentions.items() if retention.desired is not None
    }
    desired = f.average_desired(list(requested.values())) if requested else None
    overall = groups["all"]
    is_preset_short = any(retention.conclusion == "below" for retention in requested.values())
    marks = _mark_groups(groups, desired, is_preset_short, checks)
    explanation: PaneLine | None
    if marks["all"] == "look" and desired is not None:
        parts = f.find_shortfall_parts(list(requested.values()))
        level: LineLevel = "look"
        if _is_due_to_schedule(overall, desired, parts):
            # What is expected is then the yardstick, not what is asked for.
            marks = _mark_groups(groups, None, is_preset_short, checks)
            level = ""
        short = f.count_points_short(overall.recalled, desired)
        explanation = _explain_shortfall(parts, desired, short, level)
    else:
        explanation = _describe_short_preset(requested)
    if desired is None:
        columns: tuple[str, ...] = ("you", "FSRS")
        is_off = any(retention.fsrs_is_off for retention in retentions.values())
        expectation = _describe_expectation(overall, is_off=is_off, is_held_out=months is not None)
        comparison = f". {expectation}"
    else:
        columns = ("you", "asked", "expected")
        comparison = f" and ask for {say.format_share(desired)}"
        if len({retention.desired for retention in requested.values()}) > 1:
            comparison += " on average"
    summary = PaneLine(f"{_describe_recall(groups)}{comparison}.")
    hard_line = None
    if requested and all(
        retention.conclusion in ("no matter", "above") for retention in requested.values()
    ):
        hard_line = _warn_of_hard(list(requested.values()), checks, is_asked=True)
        if hard_line is None:
            summary = replace(summary, level="fine", symbol="✓")
    elif desired is None:
        hard_line = _warn_of_hard(list(retentions.values()), checks, is_asked=False)
    if any(check.name == "hard" and check.problem == "like Again" for check in checks):
        hard_line = PaneLine(
            "You probably remember less: you seem to press Hard for cards you forgot (see 5).",
            "look",
        )
    if overall.recalled.reviews < f.MIN_REVIEWS_SHOWN:
        summary = _too_few_line(
            overall.recalled.reviews,
            is_held_out=months is not None,
            of_excluded_cards=of_excluded_cards,
        )
    items: list[PaneItem] = [summary, say.Heading("", columns)]
    for name, mark in marks.items():
        items.append(_make_bar(name, groups[name], desired, mark))
    if explanation is not None:
        items.append(explanation)
    if hard_line is not None:
        items.append(hard_line)
    by_month = {month.name: month.recalled for month in _select_months(groups)}
    month_figures = _list_month_figures(by_month)
    if month_figures:
        items.append(MonthBars(month_figures, drop_order=2))
        month_after_break = _explain_month_after_break(month_figures, list(by_month)[-1], overall)
        if month_after_break is not None:
            items.append(month_after_break)
    return RetentionPane(
        summary,
        tuple(items),
        recalled=overall.recalled.estimate,
        remembers_too_little=marks["all"] == "look",
    )


def _collect_groups(
    retentions: Sequence[f.Retention], months: f.Months | None
) -> dict[str, f.RecallGroup]:
    """Return the groups of reviews by name: those of all presets, or of `months` if given."""
    if months is None:
        return _merge_presets([retention.groups for retention in retentions])
    by_month = [
        f.RecallGroup(month.name, month.recalled, month.predicted) for month in months.months
    ]
    groups = {"all": _average_groups(by_month)}
    groups |= {month.name: month for month in by_month}
    return groups


def _select_months(groups: Mapping[str, f.RecallGroup]) -> list[f.RecallGroup]:
    # Only names of months end in a digit: "2024-10", "days 31-60".
    return [group for name, group in groups.items() if name[-1:].isdigit()]


def list_recall_by_month(findings: Sequence[f.Finding]) -> list[f.RecallGroup]:
    """Return the share recalled in each month, as the second pane has it."""
    retentions = []
    months = None
    for finding in findings:
        if isinstance(finding.evidence, f.Retention):
            retentions.append(finding.evidence)
        elif isinstance(finding.evidence, f.Months) and finding.evidence.tells_recall:
            months = finding.evidence
    return _select_months(_collect_groups(retentions, None if retentions else months))


def _describe_expectation(overall: f.RecallGroup, *, is_off: bool, is_held_out: bool) -> str:
    """Say what FSRS would have expected: "FSRS, not yet optimized, would have expected 78 %".

    Held-out reviews are predicted by FSRS fitted to the reviews before them.
    """
    expected = say.format_share(overall.expected)
    condition = ", not yet optimized," if is_off else ""
    if is_held_out:
        condition = ", fitted to your earlier reviews,"
    return f"FSRS{condition} would have expected {expected}"


def _warn_of_hard(
    retentions: Sequence[f.Retention],
    checks: Sequence[f.Check],
    *,
    is_asked: bool,
) -> PaneLine | None:
    """Return a line if Hard, which counts as recalled, may hide lapses; None if it does not.

    Without the check of Hard, its share of the answers decides. If a retention is asked for
    (`is_asked`), "as desired" is withheld while the check is open, even if little is pressed.
    """
    hard = next((check for check in checks if check.name == "hard" and check.total), None)
    if hard is not None and not is_asked and not may_hide_forgetting(hard):
        return None  # as under "Anything wrong?"
    if hard is None:
        share = max((retention.hard_share for retention in retentions), default=0.0)
    else:
        share = hard.count / hard.total
        if hard.level == "fine":
            return None
    if share < (f.MIN_HARD_SHARE if is_asked else _MUCH_HARD):
        return None
    return PaneLine(
        f"Hard counts as remembered ({say.format_share(share)} of answers): if you press it for "
        "cards you forgot, you remember less.",
        "not yet",
    )


def _describe_recall(groups: Mapping[str, f.RecallGroup]) -> str:
    """Return the share recalled over all time, and in the last 90 days if these are enough."""
    recalled = say.format_share(groups["all"].recalled.estimate)
    latest = groups.get(f.LAST_90_DAYS)
    if latest is None or latest.recalled.reviews < f.MIN_REVIEWS_SHOWN:
        return f"You remember {recalled}"
    lately = say.format_share(latest.recalled.estimate)
    if lately == recalled:
        return f"You remember {recalled} (the same in your most recent 90 days)"
    return f"You remember {recalled} ({lately} in your most recent 90 days)"


def _mark_groups(
    groups: Mapping[str, f.RecallGroup],
    desired: float | None,
    is_preset_short: bool,
    checks: Sequence[f.Check],
) -> dict[str, str]:
    """Return the mark of each group that gets a bar, in the order of the bars."""
    names = [name for name in _GROUPS_WITH_BARS if name in groups]
    if names == ["all", "young cards"]:  # all cards are young
        names = ["all"]
    marks = {name: _choose_mark(groups[name], desired) for name in names}
    if marks["all"] == "look" and not is_preset_short:
        marks["all"] = "few"
    is_mature_card_problem = any(
        check.name == "mature cards" and check.level == "look" for check in checks
    )
    if is_mature_card_problem and "mature cards" in marks:
        marks["mature cards"] = "look"
    if marks["all"] == "few":  # too few in all means too few in each group
        is_unclear = {name for name, mark in marks.items() if mark or desired is None}
        marks = {name: "few" if name in is_unclear else "" for name in marks}
    return marks


def _too_few_line(reviews: int, *, is_held_out: bool, of_excluded_cards: bool) -> PaneLine:
    """Return the line that says that there are too few reviews."""
    if of_excluded_cards:
        return PaneLine(f"Only {format_held_out_count(reviews)}: too few.", "not yet")
    if is_held_out:
        return PaneLine(
            f"Only {format_count(reviews, 'review')} could be checked: too few.", "not yet"
        )
    count = format_count(reviews, "review")
    text = f"Only {count} came a day or more after the card's previous one: too few."
    return PaneLine(text, "not yet")


def _choose_mark(group: f.RecallGroup, desired: float | None) -> str:
    """Return "look" if too little is remembered, "few" if that cannot be told yet, else ""."""
    recalled = group.recalled
    aim = group.expected if desired is None else desired
    is_off_aim = abs(f.count_points_short(recalled, aim)) >= f.NEGLIGIBLE_POINTS
    if recalled.reviews < f.MIN_REVIEWS_SHOWN and is_off_aim:
        return "few"
    if desired is None and not recalled.half_width <= _WIDE:  # nan: too few days
        return "few"
    if desired is None or f.count_points_short(recalled, desired) < f.NEGLIGIBLE_POINTS:
        return ""
    return "look" if f.falls_short(recalled, desired) else "few"


def _make_bar(label: str, group: f.RecallGroup, desired: float | None, mark: str) -> Bar:
    if desired is None:
        shares = [group.recalled.estimate, group.expected]
    else:
        shares = [group.recalled.estimate, desired, group.expected]
    note, level = _MARK_NOTES[mark]
    if label == "young cards":
        drop_order = 3
    elif label == "all":
        drop_order = 1
    else:
        drop_order = 2 if mark == "few" else 0
    return Bar(
        label,
        tuple(map(say.format_share, shares)),
        share=group.recalled.estimate,
        marker=group.expected if desired is None else desired,
        note=note,
        level=level,
        drop_order=drop_order,
    )


def _explain_shortfall(
    parts: Sequence[f.RetentionPart], desired: float, short: int, level: LineLevel
) -> PaneLine | None:
    """Return a line on the causes of a shortfall over all presets; None if none is known.

    `short` is the whole shortfall in percentage points.
    """
    if not parts:
        return None
    clauses = [_describe_part(part, desired) for part in parts]
    unexplained = short - sum(_count_points(part, desired) for part in parts)
    if unexplained >= f.NEGLIGIBLE_POINTS:
        clauses.append(f"{unexplained} points are unexplained")
    return PaneLine(f"{say.capitalize('; '.join(clauses))}.", level)


def _count_points(part: f.RetentionPart, desired: float) -> int:
    """Return a part's percentage points, of the figures that are shown."""
    if part.cause == f.RetentionCause.SCHEDULED_FOR_LESS:
        return round(100 * desired) - round(100 * (desired + part.gap.estimate))
    return max(1, round(100 * abs(part.gap.estimate)))


def _describe_short_preset(requested: Mapping[str, f.Retention]) -> PaneLine | None:
    """Return a line on the first preset that falls short.

    It calls for a look unless the schedule alone explains it.
    """
    for name, retention in requested.items():
        if retention.conclusion != "below" or retention.desired is None:
            continue
        all_reviews = retention.groups[0]
        is_schedule = _is_due_to_schedule(all_reviews, retention.desired, retention.parts)
        recalled = say.format_share(all_reviews.recalled.estimate)
        desired = say.format_share(retention.desired)
        text = f"{say.quote_name(name)} falls short: you remember {recalled} and ask for {desired}."
        return PaneLine(text, "" if is_schedule else "look")
    return None


def _is_due_to_schedule(
    group: f.RecallGroup, desired: float, parts: Sequence[f.RetentionPart]
) -> bool:
    """Return whether the schedule alone explains a shortfall; the learner has nothing to mend then.

    Less than a shortfall that matters is left if recall is compared with what was scheduled for.
    """
    if not parts or any(part.cause not in _SCHEDULING for part in parts):
        return False
    scheduled = desired + sum(part.gap.estimate for part in parts)
    return f.count_points_short(group.recalled, scheduled) < f.NEGLIGIBLE_POINTS


def _describe_part(part: f.RetentionPart, desired: float) -> str:
    points = format_count(_count_points(part, desired), "point")
    match part.cause:
        case f.RetentionCause.LATE:
            return f"late reviews cost {points}"
        case f.RetentionCause.EXPECTED_TOO_MUCH:
            return f"FSRS's estimate was {points} too high"
        case f.RetentionCause.SHORTEST_INTERVAL:
            return (
                "Anki's shortest review interval, one day, is too long for many young cards: this "
                f"costs {points}"
            )
        case f.RetentionCause.SCHEDULED_FOR_LESS:
            scheduled = say.format_share(desired + part.gap.estimate)
            return f"Anki's intervals aimed at only {scheduled}"
    raise ValueError(f"{part.cause} does not make recall fall short")


def _merge_presets(groups_by_preset: Sequence[Sequence[f.RecallGroup]]) -> dict[str, f.RecallGroup]:
    """Merge the groups of all presets by name, with months in order."""
    by_name: dict[str, list[f.RecallGroup]] = {}
    for groups in groups_by_preset:
        for group in groups:
            by_name.setdefault(group.name, []).append(group)
    return {name: _average_groups(by_name[name]) for name in sorted(by_name)}


def _average_groups(groups: Sequence[f.RecallGroup]) -> f.RecallGroup:
    """Return the groups' averages, weighted by reviews, with the name and days of the first."""
    reviews = [group.recalled.reviews for group in groups]
    mean = np.average([group.recalled.estimate for group in groups], weights=reviews)
    half_width = np.average([group.recalled.half_width for group in groups], weights=reviews)
    expected = np.average([group.expected for group in groups], weights=reviews)
    first_interval = groups[0].recalled
    recalled = Interval(mean, half_width, sum(reviews), first_interval.days)
    return f.RecallGroup(groups[0].name, recalled, expected)


def _list_month_figures(recalled_by_month: Mapping[str, Interval]) -> tuple[MonthFigure, ...]:
    """Return the figures of the latest months; there are none if all have too few reviews.

    Months without reviews are among them. The last month has a figure however few its reviews are.
    """
    if all(recalled.reviews < _MIN_MONTH_REVIEWS for recalled in recalled_by_month.values()):
        return ()
    months = _fill_in_months(list(recalled_by_month))[-_MAX_MONTHS:]
    current_year, _, current_month = time.strftime("%Y-%m").partition("-")
    # As text, "days 31-60" comes after every date.
    is_old = months[0] <= f"{int(current_year) - 1}-{current_month}"
    is_in_future = months[-1] > f"{current_year}-{current_month}"  # a clock was wrong
    figures = []
    for month in months:
        recalled = recalled_by_month.get(month)
        fewest = 1 if month == months[-1] else _MIN_MONTH_REVIEWS
        remembered = None
        if recalled is not None and recalled.reviews >= fewest:
            remembered = round(100 * recalled.estimate)
        has_few_reviews = recalled is not None and recalled.reviews < _MIN_MONTH_REVIEWS
        name, year = _name_month(month)
        if not (is_old or is_in_future):
            year = ""
        figures.append(MonthFigure(name, year, remembered, has_few_reviews))
    while figures[0].remembered is None:
        del figures[0]
    return tuple(figures)


def _explain_month_after_break(
    months: Sequence[MonthFigure], last_month_name: str, overall: f.RecallGroup
) -> PaneLine | None:
    """Say that the last month followed a break, if it did and much was forgotten; else None."""
    last_month = months[-1]
    months_without_reviews = 0
    for month in reversed(months[:-1]):
        if month.remembered is not None or month.has_few_reviews:
            break
        months_without_reviews += 1
    if months_without_reviews == 0 or last_month.remembered is None:
        return None
    points_below = 100 * overall.recalled.estimate - last_month.remembered
    if points_below < _MUCH_LOWER_MONTH:
        return None
    break_length = format_count(months_without_reviews, "month")
    return PaneLine(
        f"{say.format_month(last_month_name)} came after {break_length} without reviews.",
        drop_order=1,
    )


def _fill_in_months(names: Sequence[str]) -> list[str]:
    """Return the months from the first to the last, with those between that have no reviews.

    Periods without dates ("days 31-60") stay as they are.
    """
    years_and_months = [name.partition("-")[::2] for name in names]
    if not all(year.isdigit() and month.isdigit() for year, month in years_and_months):
        return list(names)
    numbers = [12 * int(year) + int(month) - 1 for year, month in years_and_months]
    filled_in = []
    for number in range(numbers[0], numbers[-1] + 1):
        year, month = divmod(number, 12)
        filled_in.append(f"{year:04}-{month + 1:02}")
    return filled_in


def _name_month(month: str) -> tuple[str, str]:
    """Return the name and the year of a month, as in "Oct" and "’24".

    The name of "days 31-60" is "month 2", and its year is empty.
    """
    year, _, number = month.partition("-")
    if not (year.isdigit() and number.isdigit()):
        return f"month {int(number) // 30}", ""
    return calendar.month_abbr[int(number)], f"’{year[2:]}"


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Retention: Renderer(_retention_sentences, _retention_line, _retention_tables),
    f.Calibration: Renderer(_calibration_sentences, _calibration_line, _calibration_tables),
    f.Months: Renderer(_months_sentences, _months_line, _months_tables),
    f.DayEffect: Renderer(_effect_sentences, _effect_line),
    f.DayStates: Renderer(_today_sentences, _today_line, _today_tables, are_tables_the_answer=True),
}
