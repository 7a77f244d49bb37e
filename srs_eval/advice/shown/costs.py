"""Sentences, bars and tables about what a desired retention costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Evidence, Finding, get_evidence
from srs_eval.advice.sentences import Bar, Heading, PaneItem, PaneLine, Renderer
from srs_eval.advice.shown.columns import make_evidence_table
from srs_eval.advice.workload.estimate import GLANCE_RETENTIONS, IN_FORCE, Workload
from srs_eval.advice.workload.ranges import (
    KNOWN,
    MINUTES,
    OVER_BUDGET,
    RECALLED,
    REVIEWS,
    EqualMemory,
    RangedFigure,
)
from srs_eval.advice.workload.today import MIN_MONTH_REVIEWS
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

DRAWS_NOTE = (
    "In brackets: 95 % ranges. ?: you have not had a month with this retention. A model computes "
    "the figures; they assume that your habits stay as they are."
)
_COVERAGE = (
    "For simulated learners, most of whom do not remember as FSRS says, such ranges held the true "
    "figures of a year in 95 to 97 of 100 cases, and in 85 where they held least."
)
_COVERED_DAYS = 365  # for which the coverage was measured
_MIN_MINUTES_SHOWN = 0.05  # minutes a day; less is not mentioned
_MAX_NAMES = 5  # most names of presets in a sentence
_MAX_TABLE_ROWS = 12  # for more retentions, the table has them in steps of 5 %


def _cost_sentences(finding: Finding) -> tuple[str, ...]:
    """Return what is known so far; the costs of the schedules come first."""
    describers = (
        _describe_optimized,
        _describe_current,
        _describe_comparison,
        _describe_budget,
        _describe_recent_pace,
        _describe_cards,
        _describe_overdue,
        _describe_observed_range,
        _describe_review_limit,
        _describe_ranges,
        _describe_fsrs_version,
    )
    workload = get_evidence(finding, Workload)
    sentences: list[str] = []
    for describe in describers:
        sentences += describe(workload)
    sentences += workload.excluded_preset_sentences
    return tuple(sentences)


def _describe_optimized(workload: Workload) -> Iterator[str]:
    reviews = _format_at_desired(workload, REVIEWS)
    minutes = _format_at_desired(workload, MINUTES)
    recalled = _format_at_desired(workload, RECALLED)
    cards = "All your cards" if len(workload.presets) > 1 else f"The cards of {workload.preset}"
    model = _name_scheduler(workload)
    condition = "on, optimized" if workload.is_fsrs_off else "optimized"
    yield (
        f"{cards} take {minutes} minutes and {reviews} reviews a day once {model} is "
        f"{condition} and asked for {100 * workload.desired:.0f} of 100; you would "
        f"remember {recalled} of 100 reviews."
    )


def _describe_current(workload: Workload) -> Iterator[str]:
    if workload.current_figures is None:
        return
    reviews = _format_current(workload, REVIEWS)
    minutes = _format_current(workload, MINUTES)
    recalled = _format_current(workload, RECALLED)
    yield (
        f"If you keep {workload.schedule}, they take {minutes} minutes and {reviews} reviews a "
        f"day; you would remember {recalled} of 100 reviews."
    )


def _describe_comparison(workload: Workload) -> Iterator[str]:
    """Compare optimized FSRS with today's schedule where both remember, or take, the same."""
    comparison = workload.comparison
    if comparison is None:
        return
    model = _name_scheduler(workload)
    current = workload.schedule
    recalled = f"{100 * comparison.recalled:.0f} of 100"
    known_now = _format_figure(KNOWN, comparison.known)
    minutes_now = _format_figure(MINUTES, comparison.minutes)
    if comparison.same_share is None:
        yield _describe_incomparable(workload, comparison.recalled)
    else:
        yield (
            f"To remember as much as with {current} ({recalled}), "
            f"{_describe_equal_memory(comparison.same_share, model, minutes_now)}."
        )
    if comparison.same_known is not None:
        yield (
            f"To know as many cards at the end as with {current} ({known_now}), "
            f"{_describe_equal_memory(comparison.same_known, model, minutes_now)}."
        )
    same_minutes = comparison.same_minutes
    if same_minutes is not None:
        known = _format_figure(KNOWN, same_minutes.known)
        yield (
            f"In the {minutes_now} minutes a day that {current} would take, {model} asked for "
            f"{100 * same_minutes.retention:.0f} of 100 would have you remember "
            f"{100 * same_minutes.recalled:.1f} of 100 reviews instead of "
            f"{100 * comparison.recalled:.1f}, and know {known} cards at the end instead of "
            f"{known_now}."
        )


def _describe_incomparable(workload: Workload, recalled_now: float) -> str:
    """Say on which side of today's schedule all simulated retentions lie.

    Example: "Asked for 90 of 100, FSRS has you remember more than SM-2 (89 of 100)."
    """
    recalled = workload.figures[:, RECALLED]
    retention = workload.retentions[int(np.argmax(recalled))]
    which = "the best of those simulated"
    comparative = "less than"
    if recalled.min() > recalled_now:
        retention = workload.retentions[int(np.argmin(recalled))]
        which = "the least of those simulated"
        comparative = "more than"
    elif recalled.max() >= recalled_now:
        comparative = "about as much as"
    position = f", {which}," if len(workload.retentions) > 1 else ","
    return (
        f"Asked for {100 * retention:.0f} of 100{position} {_name_scheduler(workload)} has you "
        f"remember {comparative} {workload.schedule} "
        f"({_format_figure(RECALLED, recalled_now)} of 100)."
    )


def _describe_equal_memory(equal: EqualMemory, model: str, minutes_now: str) -> str:
    """Describe minutes at equal memory.

    Example: "you would ask FSRS for 91 of 100: 26 minutes a day instead of 25 (0.8 more; the range
    is 0.2 fewer to 1.9 more)".
    """
    return (
        f"you would ask {model} for {100 * equal.retention:.0f} of 100: "
        f"{_format_figure(MINUTES, equal.minutes)} minutes a day instead of {minutes_now} "
        f"({_format_extra_minutes(equal.extra_minutes)})"
    )


def _name_scheduler(workload: Workload) -> str:
    """Return the name of the model that is asked about; "FSRS" if there is only one."""
    if workload.question.model == "FSRS-6" and not workload.by_fsrs7:
        return "FSRS"
    return workload.question.model


def _format_extra_minutes(extra: RangedFigure) -> str:
    """Format the extra minutes of FSRS.

    Examples: "2.1 fewer; the range is 1.4 to 2.8 fewer"; "0.3 more; the range is 0.2 fewer to 0.8
    more". Without a range only the first part.
    """
    text = _format_signed_minutes(extra.estimate)
    if extra.low == extra.high:
        return text
    if extra.is_beyond_zero:
        nearest, farthest = sorted((abs(extra.low), abs(extra.high)))
        direction = "fewer" if extra.high < 0 else "more"
        return f"{text}; the range is {nearest:.1f} to {farthest:.1f} {direction}"
    low, high = _format_signed_minutes(extra.low), _format_signed_minutes(extra.high)
    return f"{text}; the range is {low} to {high}"


def _format_signed_minutes(minutes: float) -> str:
    return f"{abs(minutes):.1f} {'fewer' if minutes < 0 else 'more'}"


def _describe_recent_pace(workload: Workload) -> Iterator[str]:
    period = "day" if workload.pace_days == 1 else f"{workload.pace_days} days"
    minutes = _format_figure(MINUTES, workload.recent_minutes_a_day)
    yield (
        f"In the last {period} you took {minutes} minutes and did "
        f"{workload.recent_reviews_a_day:,} reviews a day; a card counts once a day, its learning "
        "steps only in minutes, here as above."
    )


def _describe_cards(workload: Workload) -> Iterator[str]:
    days = workload.question.days
    new_cards = f"{workload.new_a_day} new ones a day"
    if not workload.unseen_cards or not workload.new_a_day:
        new_cards = "no new ones"
    elif workload.unseen_cards <= workload.new_a_day:
        new_cards = format_count(workload.unseen_cards, "new one")
    elif workload.new_a_day * days > workload.unseen_cards:
        new_cards = f"{new_cards} until the {workload.unseen_cards:,} that are left have come"
    known_cards = _format_at_desired(workload, KNOWN)
    learned_cards = format_count(workload.learned_cards, "card")
    yield (
        f"That is the mean of the next {format_count(days, 'day')} with your {learned_cards} and "
        f"{new_cards}; {known_cards} cards are known at the end."
    )
    if len({desired for _, desired in workload.presets}) > 1:
        by_preset = say.join_names(
            [f"{100 * desired:.0f} in {name}" for name, desired in workload.presets]
        )
        yield (
            f"At {100 * workload.desired:.0f} each preset has what you ask of it now: {by_preset}."
        )


def _describe_overdue(workload: Workload) -> Iterator[str]:
    if workload.overdue.cards:
        overdue = say.format_overdue(workload.overdue.cards, workload.overdue.minutes)
        pause = ""
        if workload.question.after:
            days = format_count(workload.question.after, "day")
            pause = f" after {days} without a review"
        yield f"{overdue}{pause}."


def _describe_observed_range(workload: Workload) -> Iterator[str]:
    if workload.observed_retentions is None:
        yield (
            f"No month had {MIN_MONTH_REVIEWS} reviews: what is said of any retention is the "
            "model's guess."
        )
        return
    low, high = (f"{100 * share:.0f}" for share in workload.observed_retentions)
    observed_range = low if low == high else f"{low} to {high}"
    yield (
        f"Your months so far with at least {MIN_MONTH_REVIEWS} reviews had {observed_range} % "
        "recalled. Beyond, marked with ?, figures are the model's guess."
    )


def _describe_budget(workload: Workload) -> Iterator[str]:
    budget = workload.question.budget
    if budget is None or not workload.has_all_draws:
        return
    days_over = _format_at_desired(workload, OVER_BUDGET)
    days = format_count(workload.question.days, "day")
    yield f"Above {budget:g} minutes: {days_over} of {days}."
    _, high = workload.band
    within_budget = np.flatnonzero(high[:, MINUTES] <= budget)
    if len(within_budget):
        highest = workload.retentions[within_budget[-1]]
        yield (
            f"With {budget:g} minutes a day on average, {highest:.2f} is the highest retention "
            "that is almost sure to fit."
        )


def _describe_review_limit(workload: Workload) -> Iterator[str]:
    if workload.review_limit is not None:
        retention = workload.review_limit[0]
        yield (
            f"From {retention:.2f} on, {_name_review_limit(workload)} is often reached: some cards "
            "then wait, and are remembered less."
        )


def _name_review_limit(workload: Workload) -> str:
    """Return the name of the daily limit that is reached: "your limit of 200 reviews a day"."""
    assert workload.review_limit is not None
    owner = "your" if len(workload.presets) == 1 else "a preset's"
    return f"{owner} limit of {workload.review_limit[1]:,} reviews a day"


def _describe_ranges(workload: Workload) -> Iterator[str]:
    """Describe the ranges, citing `benchmarks/ranges.py` (docs/workload.md)."""
    draws = workload.question.draws
    if not workload.has_all_draws:
        yield f"Ranges come when all {draws} memories that your reviews allow have been simulated."
        return
    yield (
        f"The ranges come from {draws} memories that would suit your reviews, and are widened for "
        "what no model knows."
    )
    question = workload.question
    if question.model == "FSRS-6" and question.days == _COVERED_DAYS and not question.after:
        yield _COVERAGE


def _describe_fsrs_version(workload: Workload) -> Iterator[str]:
    """Say that the figures are FSRS-6's if FSRS-7 schedules."""
    if not workload.by_fsrs7:
        return
    fsrs7_count = len(workload.by_fsrs7)
    preset_count = len(workload.presets)
    if workload.is_fsrs_off:
        reason = "Once FSRS is on, your Anki runs FSRS-7"
    elif workload.schedule != IN_FORCE:
        reason = "The parameters given are FSRS-7's"
    elif fsrs7_count == preset_count:
        reason = "Today's schedule runs FSRS-7"
    else:
        verb = "runs" if fsrs7_count == 1 else "run"
        names = f" ({say.join_names(workload.by_fsrs7)})" if fsrs7_count <= _MAX_NAMES else ""
        reason = f"{fsrs7_count} of your {preset_count} presets {verb} FSRS-7 today{names}"
    yield (
        f"{reason}; the figures by desired retention are FSRS-6's, and --model FSRS-7 asks FSRS-7."
    )


# As bars


def render_minutes(
    workload: Workload, *, is_one_of_several: bool
) -> tuple[PaneLine, tuple[PaneItem, ...]]:
    """Return the third pane, minutes a day by desired retention, as a summary and its items.

    Beside all minutes stands the share that one would remember for them.
    """
    minutes = workload.figures[:, MINUTES]
    recalled = workload.figures[:, RECALLED]
    low, high = (bound[:, MINUTES] for bound in workload.band)
    current = workload.current_figures
    shown = [
        index
        for index, retention in enumerate(workload.retentions)
        if retention in GLANCE_RETENTIONS or _is_desired_now(workload, retention)
    ]
    # Minutes of a full bar; never 0, as it divides.
    longest = max(float(high[shown].max()), 1e-9)
    if current is not None:
        longest = max(longest, float(workload.current_band[1][MINUTES]))
    columns = ("remembered", "minutes a day")
    items: list[PaneItem] = [Heading("asked for", columns, drop_order=3)]
    for index in shown:
        retention = workload.retentions[index]
        is_desired = _is_desired_now(workload, retention)
        figure = _format_figure(MINUTES, float(minutes[index]))
        low_text = _format_figure(MINUTES, float(low[index]))
        high_text = _format_figure(MINUTES, float(high[index]))
        if low_text != high_text:
            figure += f" ({low_text}-{high_text})"
        label = say.format_per_hundred(retention)
        if index == shown[0]:
            label += " of 100"
        if is_desired:
            label += " (yours)"
        bar = Bar(
            label,
            (say.format_per_hundred(float(recalled[index])), figure),
            share=float(minutes[index]) / longest,
            range_end=float(high[index]) / longest,
            drop_order=1 if retention == GLANCE_RETENTIONS[1] and not is_desired else 0,
        )
        items.append(bar)
    if current is not None:
        bar = Bar(
            _name_current(workload),
            (
                say.format_per_hundred(current[RECALLED]),
                _format_current(workload, MINUTES).replace(" to ", "-"),
            ),
            share=current[MINUTES] / longest,
            range_end=float(workload.current_band[1][MINUTES]) / longest,
            level="not yet",
            drop_order=1,
        )
        items.append(bar)
    if workload.recent_minutes_a_day >= _MIN_MINUTES_SHOWN:
        name = f"last {format_count(workload.pace_days, 'day')}"
        figure = _format_figure(MINUTES, workload.recent_minutes_a_day)
        items.append(Bar(name, ("", figure), 0.0, level="not yet"))
    cards = format_count(workload.learned_cards, "card")
    if workload.unseen_cards and workload.new_a_day:
        new = min(workload.unseen_cards, workload.new_a_day * workload.question.days)
        cards += f" and {format_count(new, 'new one')}"
    of_preset = f" of {say.quote_name(workload.preset)}" if is_one_of_several else ""
    items.append(PaneLine(f"Average over the next year, with {cards}{of_preset}.", drop_order=2))
    if workload.review_limit is not None and workload.review_limit[0] <= GLANCE_RETENTIONS[-1]:
        limited_from = say.format_per_hundred(workload.review_limit[0])
        text = f"From {limited_from} of 100 on, {_name_review_limit(workload)} is often reached."
        items.append(PaneLine(text, drop_order=2))
    if workload.by_fsrs7:
        items.append(PaneLine(_figures_by_version_sentence(workload)))
    summary = PaneLine(_summarize_minutes(workload))
    return summary, (summary, *items)


def _is_desired_now(workload: Workload, retention: float) -> bool:
    """Return True if the learner asks for this retention now."""
    return retention == workload.desired and not workload.is_fsrs_off


def _name_current(workload: Workload) -> str:
    """Return the name of today's schedule beside optimized FSRS."""
    return "with SM-2" if workload.is_fsrs_off else "unchanged"


def _summarize_minutes(workload: Workload) -> str:
    """Say what is remembered in how many minutes, and what today's schedule takes for as much.

    Examples: "To remember as much as with SM-2 (92 of 100), FSRS takes 21 minutes a day instead of
    25. To know as many cards at the end, FSRS takes 18."; "To remember as much as with SM-2 (92 of
    100), FSRS takes about as long: 26 minutes a day instead of 25."; "Optimized, you would remember
    89 of 100 in 17 minutes a day."
    """
    comparison = workload.comparison
    if comparison is None or comparison.same_share is None:
        return _summarize_at_desired(workload)
    same_share = comparison.same_share
    optimized = "FSRS takes"
    current = "with SM-2"
    if not workload.is_fsrs_off:
        optimized = "optimized parameters take"
        current = f"you would unchanged{_version_note(workload)}"
    minutes = _format_figure(MINUTES, same_share.minutes)
    now_minutes = _format_figure(MINUTES, comparison.minutes)
    recalled = say.format_per_hundred(comparison.recalled)
    is_settled = same_share.extra_minutes.is_beyond_zero
    text = f"To remember as much as {current} ({recalled} of 100), {optimized}"
    if workload.has_all_draws and not is_settled:
        text += " about as long:"
    text += f" {minutes} minutes a day"
    if minutes != now_minutes:
        text += f" instead of {now_minutes}"
    text += "."
    same_known = comparison.same_known
    if not workload.has_all_draws:  # it is told only if it surely differs
        same_known = None
    if same_known is not None and same_known.extra_minutes.is_beyond_zero:
        known_minutes = _format_figure(MINUTES, same_known.minutes)
        if known_minutes != minutes:
            text += f" To know as many cards at the end, {optimized} {known_minutes}."
    return text


def _summarize_at_desired(workload: Workload) -> str:
    index = workload.at(workload.desired)
    recalled = say.format_per_hundred(float(workload.figures[index, RECALLED]))
    minutes = _format_figure(MINUTES, float(workload.figures[index, MINUTES]))
    text = f"Optimized, you would remember {recalled} of 100 in {minutes} minutes a day"
    current = workload.current_figures
    if current is None:
        return f"{text}."
    now = say.format_per_hundred(current[RECALLED])
    now_minutes = _format_figure(MINUTES, current[MINUTES])
    name = f"{_name_current(workload)}{_version_note(workload)}"
    return f"{text} ({name}: {now} in {now_minutes})."


def _version_note(workload: Workload) -> str:
    """Return a note on the FSRS version of today's schedule if it differs from the other figures.

    Examples: ", by FSRS-7"; "", where all figures are FSRS-6's.
    """
    if workload.is_fsrs_off or not workload.by_fsrs7:
        return ""
    if len(workload.by_fsrs7) == len(workload.presets):
        return ", by FSRS-7"
    return ", partly by FSRS-7"


def _figures_by_version_sentence(workload: Workload) -> str:
    """Say which figures are FSRS-7's and which FSRS-6's if some presets run FSRS-7."""
    if workload.is_fsrs_off:
        return "FSRS-6's figures. Once FSRS is on, your Anki runs FSRS-7."
    fsrs7_count = len(workload.by_fsrs7)
    preset_count = len(workload.presets)
    presets = ""
    if fsrs7_count != preset_count:
        presets = f" for {fsrs7_count} of {preset_count} presets"
    return f"“Unchanged” is FSRS-7's figure{presets}; the other figures are FSRS-6's."


# As tables


def _cost_tables(finding: Finding) -> tuple[Table]:
    """Return a table of what each desired retention costs."""
    workload = get_evidence(finding, Workload)
    budget = workload.question.budget
    rows: list[tuple[str, ...]] = []
    for k in _select_rows(workload):
        retention = workload.retentions[k]
        note = ""
        if retention == workload.desired and workload.current_figures is None:
            note += "now"
        if not _is_observed(workload, retention):
            note += "?"
        row = [
            f"{retention:.2f}",
            note,
            _format_with_range(workload, k, RECALLED),
            _format_with_range(workload, k, MINUTES),
            _format_with_range(workload, k, REVIEWS),
            _format_with_range(workload, k, KNOWN),
        ]
        if budget is not None:
            row.append(_format_with_range(workload, k, OVER_BUDGET))
        rows.append(tuple(row))
    if workload.current_figures is not None:
        rows.append(_current_row(workload))
    days = format_count(workload.question.days, "day")
    title = f"{workload.preset}: {days}, by desired retention"
    columns = ["asked for", "", "remembered", "minutes/day", "reviews/day", "known"]
    if budget is not None:
        columns.append(f"days > {budget:g} min")
    return (make_evidence_table(title, columns, rows),)


def _is_observed(workload: Workload, retention: float) -> bool:
    """Return True if the retention lies within what the learner's months had."""
    if workload.observed_retentions is None:
        return False
    low, high = workload.observed_retentions
    return low <= retention <= high


def _current_row(workload: Workload) -> tuple[str, ...]:
    """Return the table's row of the current schedule."""
    row = ["SM-2" if workload.is_fsrs_off else f"{workload.desired:.2f}", "now"]
    shown = [RECALLED, MINUTES, REVIEWS, KNOWN]
    if workload.question.budget is not None:
        shown.append(OVER_BUDGET)
    row += [_format_current(workload, figure).replace(" to ", "-") for figure in shown]
    return tuple(row)


def _select_rows(workload: Workload) -> list[int]:
    """Return the indices of the retentions that the table shows."""
    if len(workload.retentions) <= _MAX_TABLE_ROWS:
        return list(range(len(workload.retentions)))
    retentions = [percent / 100 for percent in range(70, 100, 5)]
    retentions += [workload.desired, 0.97]
    return sorted({workload.at(retention) for retention in retentions})


def _format_with_range(workload: Workload, index: int, figure: int) -> str:
    """Format the estimate and its range at one of the retentions.

    Examples: "61 (55-70)"; "61" while draws are missing.
    """
    low, high = workload.band
    return _format_range(
        figure, workload.figures[index, figure], low[index, figure], high[index, figure]
    )


def _format_current(workload: Workload, figure: int) -> str:
    """Format a figure of today's schedule with its range for a sentence: "61 (55 to 70)"."""
    assert workload.current_figures is not None
    low, high = workload.current_band
    text = _format_range(figure, workload.current_figures[figure], low[figure], high[figure])
    return text.replace("-", " to ")


def _format_range(figure: int, estimate: float, low: float, high: float) -> str:
    text, low_text, high_text = (_format_figure(figure, value) for value in (estimate, low, high))
    return text if low_text == high_text else f"{text} ({low_text}-{high_text})"


def _format_at_desired(workload: Workload, figure: int) -> str:
    """Format a figure at the desired retention for a sentence: "61 (55 to 70)"."""
    return _format_with_range(workload, workload.at(workload.desired), figure).replace("-", " to ")


def _format_figure(figure: int, value: float) -> str:
    """Format a figure: shares of 100, and a decimal for fewer than ten reviews or minutes.

    A share of no reviews, which is nan, is "?".
    """
    if math.isnan(value):
        return "?"
    if figure == RECALLED:
        return f"{100 * value:.0f}"
    has_decimal = figure in (REVIEWS, MINUTES) and value < 9.95
    return f"{value:,.1f}" if has_decimal else f"{value:,.0f}"


RENDERERS: Mapping[type[Evidence], Renderer] = {
    Workload: Renderer(_cost_sentences, tables=_cost_tables)
}
