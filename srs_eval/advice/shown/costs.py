"""Sentences, bars and tables about what a desired retention costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Evidence, Finding, get_evidence
from srs_eval.advice.sentences import Bar, Cell, FindingTable, Heading, PaneItem, PaneLine, Renderer
from srs_eval.advice.workload.estimate import (
    GLANCE_RETENTIONS,
    IN_FORCE,
    KNOWN,
    MINUTES,
    OVER_BUDGET,
    RECALLED,
    REVIEWS,
    Workload,
)
from srs_eval.advice.workload.today import MIN_MONTH_REVIEWS
from srs_eval.data.errors import format_count

DRAWS_NOTE = (
    "Brackets: 95 % ranges. ?: no month of yours had this retention. Figures are a model's, "
    "for habits like those of so far."
)
_MIN_MINUTES_SHOWN = 0.05  # minutes a day; less is not mentioned
_MAX_NAMES = 5  # most names of presets in a sentence
_MAX_TABLE_ROWS = 12  # for more retentions, the table has them in steps of 5 %


def _cost_sentences(finding: Finding) -> tuple[str, ...]:
    """Return what is known so far; the costs of the schedules come first."""
    describers = (
        _describe_optimized,
        _describe_current,
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
    cards = "All your cards" if len(workload.presets) > 1 else f"The cards of {workload.preset}"
    model = workload.question.model
    if model == "FSRS-6" and not workload.by_fsrs7:
        model = "FSRS"
    condition = "on and optimized" if workload.is_fsrs_off else "optimized"
    yield (
        f"{cards} take {minutes} minutes and {reviews} reviews a day once {model} is "
        f"{condition} and asked for {100 * workload.desired:.0f} of 100."
    )


def _describe_current(workload: Workload) -> Iterator[str]:
    if workload.current_figures is None:
        return
    reviews = _format_figure(REVIEWS, workload.current_figures[REVIEWS])
    minutes = _format_figure(MINUTES, workload.current_figures[MINUTES])
    recalled = 100 * workload.current_figures[RECALLED]
    verb = "goes" if workload.is_fsrs_off else "go"
    yield (
        f"If {workload.schedule} {verb} on, they take {minutes} minutes and {reviews} reviews a "
        f"day; you pass {recalled:.0f} of 100 reviews."
    )


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
        new_cards = f"{new_cards} until the {workload.unseen_cards:,} there are have come"
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
        retention, limit = workload.review_limit
        yield (
            f"From {retention:.2f} on the limit of {limit:,} reviews a day holds cards back: "
            "there, more would be asked of you, and is not done."
        )


def _describe_ranges(workload: Workload) -> Iterator[str]:
    """Describe the ranges, citing `benchmarks/workload.py --band` (docs/workload.md)."""
    draws = workload.question.draws
    if not workload.has_all_draws:
        yield f"Ranges come with the last of {draws} sets of parameters that your reviews allow."
        return
    yield (
        f"Ranges: as 95 % of {draws} draws of parameters lie around their median, each fitted to "
        "days of yours drawn anew."
    )
    if workload.question.model == "FSRS-6":
        yield "For 100 simulated learners 84 held the truth; 15 were too high."


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
    """Return the third pane, minutes a day by desired retention, as a summary and its items."""
    minutes = workload.figures[:, MINUTES]
    low, high = (bound[:, MINUTES] for bound in workload.band)
    current = workload.current_figures
    # Minutes of a full bar; never 0, as it divides.
    longest = max(float(high.max()), current[MINUTES] if current else 0.0, 1e-9)
    items: list[PaneItem] = [Heading("next year", ("minutes",), drop_order=3)]
    for index, retention in enumerate(workload.retentions):
        if workload.is_fsrs_off and retention not in GLANCE_RETENTIONS:  # the user never chose it
            continue
        is_current = retention == workload.desired and not workload.is_fsrs_off
        figure = _format_figure(MINUTES, float(minutes[index]))
        low_text = _format_figure(MINUTES, float(low[index]))
        high_text = _format_figure(MINUTES, float(high[index]))
        if low_text != high_text:
            figure += f" ({low_text}-{high_text})"
        label = say.format_per_hundred(retention)
        if index == 0:
            label += " of 100"
        if is_current:
            label += " (yours)"
        bar = Bar(
            label,
            (figure,),
            share=float(minutes[index]) / longest,
            range_end=float(high[index]) / longest,
            drop_order=1 if retention == GLANCE_RETENTIONS[1] and not is_current else 0,
        )
        items.append(bar)
    minutes_at_desired = _format_figure(MINUTES, float(minutes[workload.at(workload.desired)]))
    lead = f"{say.format_per_hundred(workload.desired)} of 100: {minutes_at_desired} minutes a day"
    if current is not None:
        name = "with SM-2" if workload.is_fsrs_off else "unchanged"
        figure = _format_figure(MINUTES, current[MINUTES])
        share = current[MINUTES] / longest
        items.append(Bar(name, (figure,), share, level="not yet", drop_order=1))
        lead += f" ({name}{_version_note(workload)}: {figure})"
    if workload.recent_minutes_a_day >= _MIN_MINUTES_SHOWN:
        name = f"last {format_count(workload.pace_days, 'day')}"
        figure = _format_figure(MINUTES, workload.recent_minutes_a_day)
        items.append(Bar(name, (figure,), 0.0, level="not yet"))
    cards = format_count(workload.learned_cards, "card")
    if workload.unseen_cards and workload.new_a_day:
        new = min(workload.unseen_cards, workload.new_a_day * workload.question.days)
        cards += f" and {new:,} new"
    of_preset = f" of {say.quote_name(workload.preset)}" if is_one_of_several else ""
    items.append(PaneLine(f"Mean of next year: {cards}{of_preset}.", drop_order=2))
    if workload.by_fsrs7:
        items.append(PaneLine(_figures_by_version_sentence(workload)))
    return PaneLine(f"{lead}."), (PaneLine(f"{lead}."), *items)


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


def _cost_tables(finding: Finding) -> tuple[FindingTable]:
    """Return a table of what each desired retention costs."""
    workload = get_evidence(finding, Workload)
    budget = workload.question.budget
    figures = workload.figures
    rows: list[tuple[Cell, ...]] = []
    for k in _select_rows(workload):
        retention = workload.retentions[k]
        note = ""
        if retention == workload.desired and workload.current_figures is None:
            note += "now"
        if not _is_observed(workload, retention):
            note += "?"
        if budget is None:
            passed_or_over = f"{100 * figures[k, RECALLED]:.0f} %"
        else:
            passed_or_over = _format_with_range(workload, k, OVER_BUDGET)
        row = (
            f"{retention:.2f}",
            note,
            _format_with_range(workload, k, REVIEWS),
            _format_with_range(workload, k, MINUTES),
            f"{figures[k, KNOWN]:,.0f}",
            passed_or_over,
        )
        rows.append(row)
    if workload.current_figures is not None:
        rows.append(_current_row(workload, workload.current_figures))
    last_column = "passed" if budget is None else f"days > {budget:g} min"
    days = format_count(workload.question.days, "day")
    title = f"{workload.preset}: {days}, by desired retention"
    columns = ("desired", "", "reviews/day", "minutes/day", "known", last_column)
    return (FindingTable(title, columns, tuple(rows)),)


def _is_observed(workload: Workload, retention: float) -> bool:
    """Return True if the retention lies within what the learner's months had."""
    if workload.observed_retentions is None:
        return False
    low, high = workload.observed_retentions
    return low <= retention <= high


def _current_row(workload: Workload, current_figures: Sequence[float]) -> tuple[Cell, ...]:
    """Return the table's row of the current schedule."""
    if workload.question.budget is None:
        passed_or_over = f"{100 * current_figures[RECALLED]:.0f} %"
    else:
        passed_or_over = f"{current_figures[OVER_BUDGET]:.0f}"
    return (
        "SM-2" if workload.is_fsrs_off else f"{workload.desired:.2f}",
        "now",
        _format_figure(REVIEWS, current_figures[REVIEWS]),
        _format_figure(MINUTES, current_figures[MINUTES]),
        _format_figure(KNOWN, current_figures[KNOWN]),
        passed_or_over,
    )


def _select_rows(workload: Workload) -> list[int]:
    """Return the indices of the retentions that the table shows."""
    if len(workload.retentions) <= _MAX_TABLE_ROWS:
        return list(range(len(workload.retentions)))
    retentions = [percent / 100 for percent in range(70, 100, 5)]
    retentions += [workload.desired, 0.97]
    return sorted({workload.at(retention) for retention in retentions})


def _format_with_range(workload: Workload, index: int, figure: int) -> str:
    """Format the estimate and the range of 95 % of the draws.

    Examples: "61 (55-70)"; "61" while draws are missing.
    """
    estimate, low, high = (
        _format_figure(figure, values[index, figure])
        for values in (workload.figures, *workload.band)
    )
    return estimate if low == high else f"{estimate} ({low}-{high})"


def _format_at_desired(workload: Workload, figure: int) -> str:
    """Format a figure at the desired retention for a sentence: "61 (55 to 70)"."""
    return _format_with_range(workload, workload.at(workload.desired), figure).replace("-", " to ")


def _format_figure(figure: int, value: float) -> str:
    """Format a figure, with a decimal for fewer than ten reviews or minutes."""
    has_decimal = figure in (REVIEWS, MINUTES) and value < 9.95
    return f"{value:,.1f}" if has_decimal else f"{value:,.0f}"


RENDERERS: Mapping[type[Evidence], Renderer] = {
    Workload: Renderer(_cost_sentences, tables=_cost_tables)
}
