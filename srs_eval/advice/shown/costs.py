"""Sentences, bars and tables about what a desired retention costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Evidence, Finding, get_evidence
from srs_eval.advice.sentences import Bar, CostCurve, Heading, PaneItem, PaneLine, Renderer
from srs_eval.advice.shown.columns import make_evidence_table
from srs_eval.advice.workload.estimate import (
    BY_GIVEN_PARAMETERS,
    GLANCE_RETENTIONS,
    Workload,
)
from srs_eval.advice.workload.ranges import (
    KNOWN,
    MINUTES,
    OVER_BUDGET,
    RECALLED,
    REVIEWS,
    EqualMemory,
    EqualMinutes,
    RangedFigure,
    ScheduleComparison,
)
from srs_eval.advice.workload.simulator import SM2
from srs_eval.advice.workload.today import MIN_MONTH_REVIEWS
from srs_eval.data.errors import format_count
from srs_eval.stats.tables import Table

DRAWS_NOTE = (
    "In brackets are 95 % ranges. A ? marks a guess: you have not had a month with this retention. "
    "A model computes the figures; they assume that you review each card on the day it is due, and "
    "that your other habits stay as they are."
)
_COVERAGE = (
    "We tested such ranges on simulated learners, most of whose memories do not follow FSRS: the "
    "ranges contained the year's true figures in 94 to 97 % of cases; for one kind of memory, in "
    "only 83 %."
)
_TWO_KINDS_OF_EQUAL = (
    "The first choice keeps your reviews as easy as with {current}. The second lets you forget "
    "more in reviews: choose it if what you know at the end is all that matters to you."
)
_COVERED_DAYS = 365  # for which the coverage was measured
_MIN_MINUTES_SHOWN = 0.05  # minutes a day; less is not mentioned
_RETENTION_DROP_ORDERS = {0.80: 4, 0.95: 2}  # without room, the extreme ones go first
_LOWER_RETENTION = 0.85  # desired retention that learners ask about most
_NEAR_SHOWN = 0.01  # a retention nearer than this to one with a bar needs no bar of its own
_MIN_CURVE_POINTS = 4  # fewest retentions of a curve of minutes
_MAX_LISTED_RETENTIONS = 3  # most retentions that a sentence lists one by one
_MAX_NAMES = 5  # most names of presets in a sentence
_MAX_TABLE_ROWS = 12  # for more retentions, the table has them in steps of 5 %
# A year differs from the last weeks if its minutes are this many times theirs, and by some minutes.
_FAR_LESS = 0.75
_FAR_MORE = 1.33
_MIN_MINUTES_APART = 1.0
_MIN_RECALL_APART = 0.03  # difference in recall that a learner would wonder about
_MIN_RECALL_ABOVE_ASKED = 0.05  # recall above the retention asked for that needs an explanation
_MIN_SHARE_DUE = 1 / 3  # of the reviews; fewer on dates that are set already explain nothing
_MIN_SHARE_OVERDUE = 0.1  # of cards, or of reviews; fewer overdue ones explain nothing
_MIN_WITHOUT_DECIMAL = 9.95  # reviews or minutes a day; fewer have a decimal


def _cost_sentences(finding: Finding) -> tuple[str, ...]:
    """Return what is known so far; the costs of the schedules come first."""
    describers = (
        _describe_assumed,
        _describe_current,
        _describe_comparison,
        _describe_lower_retention,
        _describe_sm2,
        _describe_budget,
        _describe_recent_pace,
        _describe_past_recall,
        _describe_dates_set,
        _describe_overdue_recall,
        _describe_cards,
        _describe_new_limit,
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


def _describe_assumed(workload: Workload) -> Iterator[str]:
    """Say what FSRS costs at today's desired retention, with the parameters that are assumed."""
    reviews = _format_at_desired(workload, REVIEWS)
    minutes = _format_at_desired(workload, MINUTES)
    recalled = _format_at_desired(workload, RECALLED)
    cards = f"the cards in {say.quote_name(workload.preset)}"
    if len(workload.presets) > 1:
        cards = "all your cards"
    desired = f"a desired retention of {say.format_share(workload.desired)}"
    if workload.is_fsrs_off and len(workload.presets) == 1:
        desired += " (this preset's)"
    conjunction = ", and" if workload.is_fsrs_off else " and"
    yield (
        f"With {_describe_setup(workload)}{conjunction} {desired}, {cards} take {minutes} minutes "
        f"and {reviews} reviews a day; you would get {recalled} of your reviews right."
    )


def _describe_current(workload: Workload) -> Iterator[str]:
    if workload.current_figures is None:
        return
    reviews = _format_current(workload, REVIEWS)
    minutes = _format_current(workload, MINUTES)
    recalled = _format_current(workload, RECALLED)
    yield (
        f"If you keep {workload.schedule}, your cards take {minutes} minutes and {reviews} reviews "
        f"a day; you would get {recalled} of your reviews right."
    )


def _describe_comparison(workload: Workload) -> Iterator[str]:
    """Compare FSRS as assumed with today's schedule where both remember, or take, the same."""
    if _is_decided_by_limit(workload):
        sentence = _describe_deciding_limit(workload)
        if workload.current_figures is not None:
            model = _name_scheduler(workload)
            sentence += (
                f" So srs-eval does not compare what {model} and {workload.schedule} need for the "
                "same recall."
            )
        yield sentence
        return
    if workload.comparison is not None:
        yield from _describe_schedules(workload, workload.comparison, workload.schedule)


def _describe_lower_retention(workload: Workload) -> Iterator[str]:
    """Say what asking for 85 % would change, beside today's retention or SM-2.

    Examples: "With optimized parameters, asking for 85 % instead of 90 % would take about 2.0
    minutes a day less, and you would remember 85 % of your reviews instead of 90 %."; "With FSRS,
    asking for 85 % would take about 1.0 minutes a day less than SM-2, and you would remember 86 %
    of your reviews instead of 91 %."
    """
    if _LOWER_RETENTION not in workload.retentions or _is_decided_by_limit(workload):
        return
    lower = workload.at(_LOWER_RETENTION)
    asked_for = say.format_share(_LOWER_RETENTION)
    if workload.is_fsrs_off:
        if workload.current_figures is None or workload.is_limited[lower]:
            return
        now = workload.current_figures
        beginning = f"With {_name_scheduler(workload)}, asking for {asked_for}"
        rival = " than SM-2"
    else:
        position = workload.at(workload.desired)
        is_limited = workload.is_limited[[lower, position]].any()
        if workload.desired - _LOWER_RETENTION < _NEAR_SHOWN or is_limited:
            return
        now = tuple(workload.figures[position].tolist())
        on_average = " on average" if _differs_by_preset(workload) else ""
        desired = f"{say.format_share(workload.desired)}{on_average}"
        parameters = _name_parameters(workload)
        beginning = f"With {parameters}, asking for {asked_for} instead of {desired}"
        rival = ""
    changed = workload.figures[lower]
    extra_minutes = float(changed[MINUTES]) - now[MINUTES]
    direction = "less" if extra_minutes < 0 else "more"
    recalled = say.format_share(float(changed[RECALLED]))
    recalled_now = say.format_share(now[RECALLED])
    yield (
        f"{beginning} would take about {abs(extra_minutes):.1f} minutes a day {direction}{rival}, "
        f"and you would remember {recalled} of your reviews instead of {recalled_now}."
    )


def _describe_sm2(workload: Workload) -> Iterator[str]:
    """Describe the costs under SM-2 for a learner whose FSRS is on."""
    if workload.sm2 is None:
        return
    minutes = _format_of_sm2(workload, MINUTES)
    reviews = _format_of_sm2(workload, REVIEWS)
    recalled = _format_of_sm2(workload, RECALLED)
    yield (
        f"With FSRS off, SM-2 would take {minutes} minutes and {reviews} reviews a day; you would "
        f"get {recalled} of your reviews right."
    )
    if workload.sm2.limit_effects.is_limited and not workload.is_current_limited:
        limit = say.capitalize(_name_review_limit(workload))
        yield f"{limit} makes cards wait, so it determines the minutes of SM-2."
    if workload.sm2_comparison is not None:
        yield from _describe_schedules(workload, workload.sm2_comparison, SM2)


def _describe_schedules(
    workload: Workload, comparison: ScheduleComparison, current: str
) -> Iterator[str]:
    """Compare FSRS, with the parameters that are assumed, with the schedule `current`."""
    model = _name_scheduler(workload)
    recalled = say.format_share(comparison.recalled)
    known_now = _format_figure(KNOWN, comparison.known)
    minutes_now = _format_figure(MINUTES, comparison.minutes)
    if comparison.same_share is None:
        yield _describe_incomparable(workload, comparison.recalled, current)
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
        if _is_well_below(comparison.same_known, comparison.same_share):
            yield _TWO_KINDS_OF_EQUAL.format(current=current)
    same_minutes = comparison.same_minutes
    if same_minutes is not None and not _is_the_same(same_minutes, comparison):
        known = _format_figure(KNOWN, same_minutes.known)
        yield (
            f"If you asked {model} for {100 * same_minutes.retention:.1f} %, it would take "
            f"as long as {current} ({minutes_now} minutes a day). You would get "
            f"{100 * same_minutes.recalled:.1f} % of your reviews right instead of "
            f"{100 * comparison.recalled:.1f} %, and know {known} cards at the end instead of "
            f"{known_now}."
        )


def _is_well_below(equal: EqualMemory, other: EqualMemory | None) -> bool:
    """Return whether one asks for less than for the other, by a percentage point or more."""
    return other is not None and other.retention - equal.retention >= _NEAR_SHOWN


def _describe_incomparable(workload: Workload, recalled_now: float, current: str) -> str:
    """Say that the simulated retentions do not reach what the schedule `current` remembers.

    Example: "The retentions simulated here do not reach what you would remember with SM-2
    (93 %): even with FSRS at 91 %, you would remember less. So their minutes are not compared."
    """
    recalled = workload.figures[:, RECALLED]
    recalled_now_text = _format_figure(RECALLED, recalled_now)
    model = _name_scheduler(workload)
    index = int(np.argmin(np.abs(recalled - recalled_now)))  # the one that comes nearest
    comparative = "more" if recalled.min() > recalled_now else "less"
    nearest = f"with {model} at {say.format_share(workload.retentions[index])}"
    if comparative == "less" and recalled.max() >= recalled_now:
        return (
            f"{say.capitalize(nearest)}, you would remember about as much as with "
            f"{current} ({recalled_now_text})."
        )
    beginning = "At none of the simulated retentions would you"
    if len(workload.retentions) == 1:
        beginning = "At the one simulated retention, you would not"
    amount = "little" if comparative == "more" else "much"
    return (
        f"{beginning} remember as {amount} as with {current} ({recalled_now_text}): even "
        f"{nearest}, you would remember {comparative}. So their minutes are not compared."
    )


def _describe_equal_memory(equal: EqualMemory, model: str, minutes_now: str) -> str:
    """Describe minutes at equal memory.

    Example: "you would ask FSRS for 91.2 %: 26 minutes a day instead of 25 (0.8 more; the range
    is 0.2 less to 1.9 more)".
    """
    minutes = _format_figure(MINUTES, equal.minutes)
    instead = f" instead of {minutes_now}" if minutes != minutes_now else ", just as long"
    extra = equal.extra_minutes
    if "." in minutes and "." in minutes_now:  # the difference of the figures that are shown
        extra = replace(extra, estimate=float(minutes) - float(minutes_now))
    return (
        f"you would ask {model} for {say.format_percent(equal.retention)}: "
        f"{minutes} minutes a day{instead} ({_format_extra_minutes(extra)})"
    )


def _is_the_same(equal: EqualMinutes, comparison: ScheduleComparison) -> bool:
    """Return True if at equal minutes the schedules differ in no figure that would be shown."""
    same_share = f"{100 * equal.recalled:.1f}" == f"{100 * comparison.recalled:.1f}"
    known, known_now = (_format_figure(KNOWN, value) for value in (equal.known, comparison.known))
    return same_share and known == known_now


def _name_scheduler(workload: Workload) -> str:
    """Return the name of the model that is asked about; "FSRS" if there is only one."""
    if workload.question.model == "FSRS-6" and not workload.by_fsrs7:
        return "FSRS"
    return workload.question.model


def _describe_setup(workload: Workload) -> str:
    """Say which scheduler and parameters the figures by desired retention assume.

    Examples: "FSRS on and optimized"; "FSRS on and its default parameters"; "optimized parameters
    in 2 of your 3 presets".
    """
    if not workload.is_fsrs_off:
        return _name_parameters(workload)
    model = _name_scheduler(workload)
    if workload.keeps_all:
        return f"{model} on and its default parameters"
    return f"{model} on and optimized{_count_optimized_presets(workload)}"


def _name_parameters(workload: Workload) -> str:
    """Name the parameters that the figures by desired retention assume if FSRS is on.

    Examples: "optimized parameters"; "optimized FSRS-7 parameters in 2 of your 3 presets"; "your
    current parameters".
    """
    if workload.keeps_all:
        return workload.schedule
    model = _name_scheduler(workload)
    kind = "optimized" if model == "FSRS" else f"optimized {model}"
    return f"{kind} parameters{_count_optimized_presets(workload)}"


def _count_optimized_presets(workload: Workload) -> str:
    """Say in how many presets parameters are optimized: " in 2 of your 3 presets", or "" if all."""
    if not workload.unchanged_presets:
        return ""
    count = len(workload.presets)
    return f" in {count - len(workload.unchanged_presets)} of your {count} presets"


def _format_extra_minutes(extra: RangedFigure) -> str:
    """Format the extra minutes of FSRS.

    Examples: "2.1 less; the range is 1.4 to 2.8 less"; "0.3 more; the range is 0.2 less to 0.8
    more". Without a range only the first part.
    """
    text = _format_signed_minutes(extra.estimate)
    if extra.low == extra.high:
        return text
    if extra.is_beyond_zero:
        nearest, farthest = sorted((abs(extra.low), abs(extra.high)))
        direction = "less" if extra.high < 0 else "more"
        return f"{text}; the range is {nearest:.1f} to {farthest:.1f} {direction}"
    low, high = _format_signed_minutes(extra.low), _format_signed_minutes(extra.high)
    return f"{text}; the range is {low} to {high}"


def _format_signed_minutes(minutes: float) -> str:
    return f"{abs(minutes):.1f} {'less' if minutes < 0 else 'more'}"


def _describe_recent_pace(workload: Workload) -> Iterator[str]:
    period = "day" if workload.pace_days == 1 else f"{workload.pace_days} days"
    minutes = _format_figure(MINUTES, workload.recent_minutes_a_day)
    if workload.recent_minutes_a_day >= _MIN_MINUTES_SHOWN:
        yield (
            f"In the last {period} you spent {minutes} minutes and did "
            f"{format_count(workload.recent_reviews_a_day, 'review')} a day. Several answers to "
            "a card on one day count as one review; learning steps count only towards the minutes."
        )
    reason = _explain_change(workload)
    if reason:
        yield reason


def _describe_past_recall(workload: Workload) -> Iterator[str]:
    """Say why the year's recall differs from that of all reviews until now, if it does."""
    recalled = workload.recalled_now
    until_now = workload.recalled_until_now
    if until_now is None or math.isnan(recalled):
        return
    if abs(recalled - until_now) < _MIN_RECALL_APART or _is_decided_by_limit(workload):
        return
    on_time = "assume that you review each card on the day it is due"
    if recalled > until_now and _has_fewer_new_cards(workload):
        on_time = f"include fewer new cards, and {on_time}"
        yield (
            f"Until now you remembered {say.format_share(until_now)}; many of those reviews were "
            f"of new cards. The year's figures {on_time}."
        )
        return
    yield (f"Until now you remembered {say.format_share(until_now)}. The year's figures {on_time}.")


def _describe_overdue_recall(workload: Workload) -> Iterator[str]:
    """Say why less is remembered than is asked for, if overdue cards explain it."""
    if _lowers_recall(workload):
        yield (
            f"{workload.overdue.cards:,} cards are overdue. Overdue cards are forgotten more "
            "often, so you remember less than you ask for."
        )


def _lowers_recall(workload: Workload) -> bool:
    """Return True if less is remembered than is asked for, and overdue cards explain it."""
    position = workload.at(workload.desired)
    recalled, reviews = workload.figures[position, [RECALLED, REVIEWS]]
    all_reviews = reviews * workload.question.days
    if not workload.desired - recalled >= _MIN_RECALL_APART:  # nan: no reviews
        return False
    return bool(workload.overdue.cards >= _MIN_SHARE_OVERDUE * all_reviews)


def _has_fewer_new_cards(workload: Workload) -> bool:
    """Return True if most of the recent time went to new cards, and far fewer of them come."""
    recent = workload.recent_minutes_a_day
    new_a_day = workload.new_planned / workload.question.days
    is_for_new_cards = workload.recent_minutes_on_begun_cards > 0.5 * recent
    return is_for_new_cards and new_a_day <= _FAR_LESS * workload.new_a_day


def _describe_dates_set(workload: Workload) -> Iterator[str]:
    """Say why far more is remembered than the lowest retention asks for, if dates explain it."""
    if _raise_recall(workload):
        yield (
            "Many of the coming reviews fall on dates that Anki has already set, so you remember "
            "more of them than you ask for."
        )


def _raise_recall(workload: Workload) -> bool:
    """Return True if more is remembered than the lowest retention asks for, as dates are set."""
    recalled, reviews = workload.figures[0, [RECALLED, REVIEWS]]
    all_reviews = reviews * workload.question.days
    if not recalled - workload.retentions[0] >= _MIN_RECALL_ABOVE_ASKED:  # nan: no reviews
        return False
    return bool(workload.cards_due >= _MIN_SHARE_DUE * all_reviews)


def _explain_recall_briefly(workload: Workload) -> Iterator[str]:
    """Say in one line of the pane why what is remembered differs from what is asked for."""
    if _raise_recall(workload):
        yield (
            "Anki has already scheduled many cards earlier than a low retention requires, so you "
            "would remember more than you ask for."
        )
    if _lowers_recall(workload):
        yield f"{workload.overdue.cards:,} overdue cards lower what you remember."


def _explain_change(workload: Workload) -> str:
    """Say why a year of today's schedule takes far fewer, or more, minutes than now.

    Examples: "Until now, most of your time went to new cards, and 246 are left in “Maps”.";
    "Until now, you reviewed fewer cards than came due: 94 are overdue." "" if they differ little,
    or if the reviews do not say why.
    """
    recent = workload.recent_minutes_a_day
    figures = workload.current_figures
    if figures is None:
        figures = workload.estimates[workload.at(workload.desired)]
    minutes = figures[MINUTES]
    if abs(minutes - recent) < _MIN_MINUTES_APART:
        return ""
    if minutes < _FAR_LESS * recent:
        if not _has_fewer_new_cards(workload):
            return ""
        left = "none are left"
        if workload.unseen_cards:
            verb = "is" if workload.unseen_cards == 1 else "are"
            left = f"{workload.unseen_cards:,} {verb} left"
        place = f" in {say.quote_name(workload.preset)}" if len(workload.presets) == 1 else ""
        return f"Until now, most of your time went to new cards, and {left}{place}."
    overdue = workload.overdue
    if minutes > _FAR_MORE * recent and overdue.cards > _MIN_SHARE_OVERDUE * overdue.learned:
        verb = "is" if overdue.cards == 1 else "are"
        return (
            f"Until now, you reviewed fewer cards than came due: {overdue.cards:,} {verb} overdue."
        )
    return ""


def _describe_cards(workload: Workload) -> Iterator[str]:
    days = workload.question.days
    new_cards = f"{workload.new_a_day} new ones a day"
    if not workload.unseen_cards or not workload.new_a_day:
        new_cards = "no new ones"
    elif workload.unseen_cards <= workload.new_a_day:
        new_cards = format_count(workload.unseen_cards, "new one")
    elif workload.new_a_day * days > workload.unseen_cards:
        new_cards = f"{new_cards} until the {workload.unseen_cards:,} that are left are used up"
    known_cards = _format_at_desired(workload, KNOWN)
    learned_cards = format_count(workload.learned_cards, "card")
    yield (
        f"These are averages over the next {format_count(days, 'day')} with your {learned_cards} "
        f"and {new_cards}. At the end, you would know {known_cards} cards "
        f"with a desired retention of {say.format_share(workload.desired)}."
    )
    if _differs_by_preset(workload):
        by_preset = say.join_names(
            [f"{say.format_share(desired)} in {name}" for name, desired in workload.presets]
        )
        yield (
            "In the row “yours”, each preset keeps the retention that you ask of it now: "
            f"{by_preset}."
        )


def _describe_overdue(workload: Workload) -> Iterator[str]:
    if workload.overdue.cards:
        cards = format_count(workload.overdue.cards, "card")
        verb = "is" if workload.overdue.cards == 1 else "are"
        work_time = say.format_work_time(workload.overdue.minutes)
        pause = ""
        if workload.question.after:
            days = format_count(workload.question.after, "day")
            pause = f" after {days} without a review"
        yield f"{cards} {verb} overdue{pause}: {work_time} of work."


def _describe_observed_range(workload: Workload) -> Iterator[str]:
    if workload.observed_retentions is None:
        yield (
            f"In no month did you do at least {MIN_MONTH_REVIEWS} reviews, so all figures are the "
            "model's guess."
        )
        return
    low, high = (f"{100 * share:.0f}" for share in workload.observed_retentions)
    observed_range = low if low == high else f"{low} to {high}"
    yield (
        f"In your months with at least {MIN_MONTH_REVIEWS} reviews, you recalled {observed_range} "
        "%. At other retentions, the figures are the model's guess."
    )


def _describe_budget(workload: Workload) -> Iterator[str]:
    budget = workload.question.budget
    if budget is None or not workload.has_all_draws:
        return
    days_over = _format_at_desired(workload, OVER_BUDGET)
    days = format_count(workload.question.days, "day")
    yield f"On {days_over} of {days}, you would need more than {budget:g} minutes."
    _, high = workload.band
    within_budget = np.flatnonzero(high[:, MINUTES] <= budget)
    if len(within_budget):
        highest = workload.retentions[within_budget[-1]]
        yield (
            f"With {budget:g} minutes a day on average, {say.format_share(highest)} is the "
            "highest retention that is almost sure to fit."
        )


def _describe_review_limit(workload: Workload) -> Iterator[str]:
    """Say at which retentions a limit of reviews is reached, if it is not said already."""
    if workload.is_limited.any() and not _is_decided_by_limit(workload):
        yield (
            f"At a desired retention of {_format_limited_retentions(workload)}, "
            f"{_name_review_limit(workload)} makes cards wait, and you remember fewer of them."
        )


def _is_decided_by_limit(workload: Workload) -> bool:
    """Return True if a limit of reviews decides the minutes that a learner would compare."""
    if workload.is_current_limited:
        return True
    if workload.current_figures is None or not workload.is_limited.any():
        return False
    return workload.comparison is None or workload.comparison.same_share is None


def _describe_deciding_limit(workload: Workload) -> str:
    """Say whose minutes a limit of reviews determines, instead of comparing them.

    Example: "Whatever you ask for, your limit of 10 reviews a day makes cards wait, so it
    determines these minutes."
    """
    limit = _name_review_limit(workload)
    if workload.is_limited.all():
        return f"Whatever you ask for, {limit} makes cards wait, so it determines these minutes."
    owners = []
    if workload.current_figures is not None and workload.is_current_limited:
        owners.append(f"of {workload.schedule}")
    if workload.is_limited.any():
        limited = _format_limited_retentions(workload)
        owners.append(f"of {_name_scheduler(workload)} at {limited}")
    minutes = f"the minutes {' and '.join(owners)}"
    return f"{say.capitalize(limit)} makes cards wait, so it determines {minutes}."


def _format_limited_retentions(workload: Workload) -> str:
    """Format the retentions at which a limit of reviews is reached: "95 % or 97 %".

    Many are "90 % or more": at a glance, there are too few to tell from which one on it holds.
    """
    limited = np.flatnonzero(workload.is_limited)
    lowest = say.format_share(workload.retentions[limited[0]])
    if len(limited) <= _MAX_LISTED_RETENTIONS:
        return say.join_names(
            [say.format_share(workload.retentions[index]) for index in limited], "or"
        )
    if limited[-1] == len(workload.retentions) - 1:
        return f"{lowest} or more"
    return f"{lowest} to {say.format_share(workload.retentions[limited[-1]])}"


def _name_review_limit(workload: Workload) -> str:
    """Return the name of the limit for which cards wait: "your limit of 200 reviews a day".

    Several limits have one name: "the limit of reviews a day in “Maps” and “Words”".
    """
    first = workload.review_limits[0]
    name = f"limit of {format_count(first.cards, 'review')} a day"
    if len(workload.presets) == 1:
        return f"your {name}"
    if len(workload.review_limits) == 1:
        return f"the {name} of {say.quote_name(first.preset)}"
    names = [say.quote_name(limit.preset) for limit in workload.review_limits]
    if len(names) > _MAX_NAMES:
        names = [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} more"]
    return f"the limit of reviews a day in {say.join_names(names)}"


def _describe_new_limit(workload: Workload) -> Iterator[str]:
    """Say how many new cards are left at the end, and which limit a day leaves them."""
    question = workload.question
    if question.new_a_day is not None:
        allowed = workload.new_allowed_a_day
        if allowed is not None and workload.new_planned and question.new_a_day > allowed:
            presets = "preset allows" if len(workload.presets) == 1 else "presets allow"
            yield (
                f"Your {presets} {format_count(allowed, 'new card')} a day; for "
                f"{question.new_a_day:,} you would have to raise that limit."
            )
    sentence = _explain_new_left(workload)
    if sentence:
        yield sentence


def _explain_new_left(workload: Workload) -> str:
    """Name the limit a day that leaves new cards at the end; "" if none does.

    Example: "Your limit of 20 new cards a day leaves 1,240 new cards at the end."
    """
    left = workload.new_left
    cards = f"{format_count(left, 'new card')} at the end"
    if left > workload.unseen_cards - workload.new_planned:
        if not workload.review_limits:
            return ""
        limit = say.capitalize(_name_review_limit(workload))
        return f"{limit} holds back new cards, too: it leaves {cards}."
    if not workload.new_limits or left <= 0 or workload.question.new_a_day is not None:
        return ""
    limits = []
    for new_limit in workload.new_limits:
        name = f"limit of {format_count(new_limit.cards, 'new card')} a day"
        if len(workload.presets) == 1:
            return f"Your {name} leaves {cards}."
        limits.append(
            f"{format_count(new_limit.cards, 'card')} in {say.quote_name(new_limit.preset)}"
        )
    if len(limits) > _MAX_NAMES:
        return f"Your limits of new cards a day leave {cards}."
    name = "limit" if len(limits) == 1 else "limits"
    verb = "leaves" if len(limits) == 1 else "leave"
    return f"Your {name} of new cards a day ({say.join_names(limits)}) {verb} {cards}."


def _describe_ranges(workload: Workload) -> Iterator[str]:
    """Describe the ranges, citing `benchmarks/ranges.py` (docs/workload.md)."""
    draws = workload.question.draws
    if not workload.has_all_draws:
        yield f"Ranges appear once {draws} versions of your memory have been simulated."
        return
    yield (
        f"The ranges come from {draws} versions of your memory that fit your reviews, and are "
        "widened to allow for what the model leaves out."
    )
    question = workload.question
    if question.model == "FSRS-6" and question.days == _COVERED_DAYS and not question.after:
        yield _COVERAGE


def _describe_fsrs_version(workload: Workload) -> Iterator[str]:
    """Say that the figures are for FSRS-6 if FSRS-7 schedules."""
    if not workload.by_fsrs7:
        return
    fsrs7_count = len(workload.by_fsrs7)
    preset_count = len(workload.presets)
    if workload.is_fsrs_off:
        reason = "Once FSRS is on, your Anki runs FSRS-7"
    elif workload.schedule == BY_GIVEN_PARAMETERS:
        reason = "The parameters given are FSRS-7's"
    elif fsrs7_count == preset_count:
        reason = "Today's schedule runs FSRS-7"
    else:
        verb = "runs" if fsrs7_count == 1 else "run"
        names = f" ({say.join_names(workload.by_fsrs7)})" if fsrs7_count <= _MAX_NAMES else ""
        reason = f"{fsrs7_count} of your {preset_count} presets {verb} FSRS-7 today{names}"
    yield (
        f"{reason}, but the figures by desired retention are for FSRS-6; srs-eval workload FILE "
        "--model FSRS-7 gives those for FSRS-7."
    )


# As bars


def render_minutes(
    workload: Workload, *, is_one_of_several: bool
) -> tuple[PaneLine, tuple[PaneItem, ...]]:
    """Return the third pane, minutes a day by desired retention, as a summary and its items.

    Beside all minutes stands the share that one would remember for them.
    """
    summary = PaneLine(_summarize_minutes(workload))
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
    equal = _find_equal_share(workload)
    unshown = equal  # needs a row of its own
    if equal is not None and any(_shows_equal_memory(workload, index, equal) for index in shown):
        unshown = None
    format_minutes = _choose_minutes_format(workload, shown, unshown)
    bars: list[tuple[float, Bar]] = []  # each with its retention
    for index in shown:
        retention = workload.retentions[index]
        is_desired = _is_desired_now(workload, retention)
        figure = _format_range(
            MINUTES, float(minutes[index]), float(low[index]), float(high[index]), format_minutes
        )
        label = say.format_share(retention)
        if is_desired:
            label = _label_desired(workload)
        elif equal is not None and _shows_equal_memory(workload, index, equal):
            label += f" ({_name_equal(workload)})"
        bar = Bar(
            label,
            (say.format_share(float(recalled[index])), figure),
            share=float(minutes[index]) / longest,
            range_end=float(high[index]) / longest,
            drop_order=_RETENTION_DROP_ORDERS.get(retention, 0) if not is_desired else 0,
        )
        bars.append((retention, bar))
    if unshown is not None:
        bar = _make_bar_of_equal_memory(workload, unshown, longest, shown, format_minutes)
        bars.append((unshown.retention, bar))
    items: list[PaneItem] = [Heading("asked for", columns)]
    items += [bar for _, bar in sorted(bars, key=lambda pair: pair[0])]
    if current is not None:
        low_now, high_now = (bound[MINUTES] for bound in workload.current_band)
        bar = Bar(
            _name_current(workload),
            (
                say.format_share(current[RECALLED]),
                _format_range(MINUTES, current[MINUTES], low_now, high_now, format_minutes),
            ),
            share=current[MINUTES] / longest,
            range_end=float(workload.current_band[1][MINUTES]) / longest,
            level="not yet",
            drop_order=1,
        )
        items.append(bar)
    has_recent_minutes = workload.recent_minutes_a_day >= _MIN_MINUTES_SHOWN
    if has_recent_minutes:
        name = f"last {format_count(workload.pace_days, 'day')}"
        figure = _format_figure(MINUTES, workload.recent_minutes_a_day)
        items.append(Bar(name, ("", figure), 0.0, level="not yet", drop_order=2))
    for sentence in _explain_recall_briefly(workload):
        items.append(PaneLine(sentence, drop_order=3))
    if has_recent_minutes:
        reason = _explain_change(workload)
        if reason:
            items.append(PaneLine(reason, drop_order=6))
        past = _compare_with_past(workload)
        if not past or past not in summary.text:  # else the summary says it
            for sentence in _describe_past_recall(workload):
                items.append(PaneLine(sentence, drop_order=7))
    cards = format_count(workload.learned_cards, "card")
    if workload.unseen_cards and workload.new_a_day:
        new = min(workload.unseen_cards, workload.new_a_day * workload.question.days)
        cards += f" and {format_count(new, 'new one')}"
    elif workload.unseen_cards and workload.question.new_a_day is None:
        left_out = format_count(workload.unseen_cards, "new one")
        cards += f" but not your {left_out}, as you have learned none lately"
    of_preset = f" of {say.quote_name(workload.preset)}" if is_one_of_several else ""
    items.append(
        PaneLine(f"Average over the next year, with your {cards}{of_preset}.", drop_order=6)
    )
    if workload.is_limited[shown].any() and not _is_decided_by_limit(workload):
        limited = _format_limited_retentions(workload)
        text = f"At {limited}, {_name_review_limit(workload)} makes cards wait."
        items.append(PaneLine(text, drop_order=6))
    new_left = _explain_new_left(workload)
    if new_left:
        items.append(PaneLine(new_left, drop_order=6))
    if workload.by_fsrs7:
        items.append(PaneLine(_figures_by_version_sentence(workload)))
    points = sorted((float(recalled[index]), float(minutes[index])) for index in shown)
    if len(points) >= _MIN_CURVE_POINTS:
        today = None if current is None else (current[RECALLED], current[MINUTES])
        items.append(CostCurve(tuple(points), today, _name_current(workload)))
    known = [PaneLine(sentence, drop_order=3) for sentence in _summarize_known(workload)]
    return summary, (summary, *known, *items)


def _choose_minutes_format(
    workload: Workload, shown: Sequence[int], unshown: EqualMemory | None
) -> Callable[[float], str]:
    """Return how the rows show minutes: with a decimal if two retentions would look the same."""
    minutes = [float(workload.figures[index, MINUTES]) for index in shown]
    if unshown is not None:
        minutes.append(unshown.minutes)
    texts = [_format_figure(MINUTES, value) for value in minutes]
    if len(set(texts)) == len(texts):
        return partial(_format_figure, MINUTES)
    return "{:,.1f}".format


def _label_desired(workload: Workload) -> str:
    """Label the row of the retention asked for now.

    Examples: "90 % (yours)"; "yours (85-92 %)" if presets ask for different retentions.
    """
    if not _differs_by_preset(workload):
        return f"{say.format_share(workload.desired)} (yours)"
    desired = [retention for _, retention in workload.presets]
    return f"yours ({100 * min(desired):.0f}-{say.format_share(max(desired))})"


def _make_bar_of_equal_memory(
    workload: Workload,
    equal: EqualMemory,
    longest: float,
    shown: Sequence[int],
    format_minutes: Callable[[float], str],
) -> Bar:
    """Return the bar of the retention at which FSRS remembers as much as today's schedule."""
    assert workload.comparison is not None
    retention = say.format_share(equal.retention)
    other_rows = [workload.retentions[index] for index in shown]
    if _differs_by_preset(workload):
        other_rows = [other for other in other_rows if not _is_desired_now(workload, other)]
    if retention in map(say.format_share, other_rows):
        retention = say.format_percent(equal.retention)  # 90.4 %, beside 90 %
    return Bar(
        f"{retention} ({_name_equal(workload)})",
        (say.format_share(workload.comparison.recalled), format_minutes(equal.minutes)),
        share=min(equal.minutes / longest, 1.0),
        drop_order=2,
    )


def _shows_equal_memory(workload: Workload, index: int, equal: EqualMemory) -> bool:
    """Return True if the row of a retention shows the memory and the minutes of the summary."""
    comparison = workload.comparison
    if comparison is None or abs(workload.retentions[index] - equal.retention) >= _NEAR_SHOWN:
        return False
    recalled = float(workload.figures[index, RECALLED])
    minutes = float(workload.figures[index, MINUTES])
    return say.format_share(recalled) == say.format_share(comparison.recalled) and (
        _format_figure(MINUTES, minutes) == _format_figure(MINUTES, equal.minutes)
    )


def _find_equal_share(workload: Workload) -> EqualMemory | None:
    """Return where FSRS remembers as much as today's schedule; None if nothing is compared."""
    if _is_decided_by_limit(workload) or workload.comparison is None:
        return None
    return workload.comparison.same_share


def _name_equal(workload: Workload) -> str:
    """Say what a row remembers as much as, by the label of the row for today's schedule."""
    return "as SM-2" if workload.is_fsrs_off else "as today"


def _is_desired_now(workload: Workload, retention: float) -> bool:
    """Return True if the learner asks for this retention now."""
    return retention == workload.desired and not workload.is_fsrs_off


def _name_current(workload: Workload) -> str:
    """Return the name of today's schedule beside FSRS as assumed."""
    return "with SM-2" if workload.is_fsrs_off else "today's settings"


def _summarize_minutes(workload: Workload) -> str:
    """Say what is remembered in how many minutes, and what today's schedule takes for as much.

    Examples: "To remember as much next year as with SM-2 (92 %), FSRS takes 21 minutes a day
    instead of 25."; "To remember as much next year as with SM-2 (92 %), FSRS takes 26 minutes a day
    instead of 25, which is too close to call."; "To remember as much next year as with SM-2 (92 %),
    FSRS takes just as long: 21 minutes a day."; "With optimized parameters, you would remember
    89 % in 17 minutes a day."
    """
    if _is_decided_by_limit(workload):
        return _describe_deciding_limit(workload)
    comparison = workload.comparison
    if comparison is None or comparison.same_share is None:
        return _summarize_at_desired(workload)
    same_share = comparison.same_share
    assumed = "FSRS takes"
    current = "with SM-2"
    if not workload.is_fsrs_off:
        assumed = f"{_name_parameters(workload)} take"
        current = f"with today's settings{_version_note(workload)}"
    minutes = _format_figure(MINUTES, same_share.minutes)
    now_minutes = _format_figure(MINUTES, comparison.minutes)
    recalled = say.format_share(comparison.recalled)
    is_settled = same_share.extra_minutes.is_beyond_zero
    text = f"To remember as much next year as {current} ({recalled}), {assumed}"
    past = _compare_with_past(workload)
    if past:
        text = (
            f"{say.capitalize(current)}, you would remember {recalled} next year{past}. To "
            f"remember as much, {assumed}"
        )
    is_open = workload.has_all_draws and not is_settled
    if minutes == now_minutes:
        as_long = " just as long:" if is_open else ""
        text += f"{as_long} {minutes} minutes a day."
    else:
        doubt = ": too close to call" if is_open else ""
        text += f" {minutes} minutes a day instead of {now_minutes}{doubt}."
    return text


def _compare_with_past(workload: Workload) -> str:
    """Say why the year's recall is above that until now; "" if it is not, or by little.

    Examples: " (79 % until now, with more new cards)"; " if always on time (78 % until now)".
    """
    until_now = workload.recalled_until_now
    if until_now is None or not workload.recalled_now - until_now >= _MIN_RECALL_APART:
        return ""
    past = f"{say.format_share(until_now)} until now"
    if _has_fewer_new_cards(workload):
        return f" ({past}, with more new cards)"
    return f" if always on time ({past})"


def _summarize_known(workload: Workload) -> Iterator[str]:
    """Say what knowing as many cards as with today's schedule takes, if that clearly differs.

    Example: "If you care only about knowing as many cards after a year as with SM-2, ask for 85 %:
    18 minutes instead of 25, and you get 87 % of your reviews right."
    """
    comparison = workload.comparison
    if _is_decided_by_limit(workload) or comparison is None or comparison.same_share is None:
        return
    same_known = comparison.same_known
    if same_known is None or not workload.has_all_draws:
        return
    minutes = _format_figure(MINUTES, same_known.minutes)
    is_told_already = minutes == _format_figure(MINUTES, comparison.same_share.minutes)
    if same_known.extra_minutes.is_beyond_zero and not is_told_already:
        now_minutes = _format_figure(MINUTES, comparison.minutes)
        retention = same_known.retention
        recalled = np.interp(retention, workload.retentions, workload.figures[:, RECALLED])
        current = "with SM-2" if workload.is_fsrs_off else "with today's settings"
        yield (
            f"If you care only about knowing as many cards after a year as {current}, ask for "
            f"{say.format_share(retention)}: {minutes} minutes instead of {now_minutes}, and you "
            f"get {say.format_share(recalled)} of your reviews right."
        )


def _summarize_at_desired(workload: Workload) -> str:
    index = workload.at(workload.desired)
    recalled = say.format_share(float(workload.figures[index, RECALLED]))
    minutes = _format_figure(MINUTES, float(workload.figures[index, MINUTES]))
    setup = _describe_setup(workload)
    text = f"With {setup}, you would remember {recalled} in {minutes} minutes a day"
    current = workload.current_figures
    if current is None:
        return f"{text}."
    now = say.format_share(current[RECALLED])
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
    """Say which figures are for FSRS-7 and which for FSRS-6 if some presets run FSRS-7."""
    if workload.is_fsrs_off:
        return "These figures are for FSRS-6, but your Anki will run FSRS-7 once FSRS is on."
    fsrs7_count = len(workload.by_fsrs7)
    preset_count = len(workload.presets)
    presets = ""
    if fsrs7_count != preset_count:
        presets = f" in {fsrs7_count} of {preset_count} presets"
    return (
        f"The row “today's settings” is for FSRS-7{presets}; the figures by desired retention "
        "are for FSRS-6."
    )


# As tables


def _cost_tables(finding: Finding) -> tuple[Table]:
    """Return a table of what each desired retention costs."""
    workload = get_evidence(finding, Workload)
    budget = workload.question.budget
    rows: list[tuple[object, ...]] = []
    for k in _select_rows(workload):
        retention = workload.retentions[k]
        notes = []
        if retention == workload.desired and workload.current_figures is None:
            notes.append("now")
        if not _is_observed(workload, retention):
            notes.append(say.GUESS_MARK)
        row = [
            _format_row_label(workload, retention),
            "".join(notes),
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
    if workload.sm2 is not None:
        rows.append(_sm2_row(workload))
    days = format_count(workload.question.days, "day")
    title = f"{workload.preset}: {days}, by desired retention"
    columns = ["asked for", "", "remembered", "minutes/day", "reviews/day", "known"]
    if budget is not None:
        columns.append(f"days > {budget:g} min")
    return (make_evidence_table(title, columns, rows),)


def _format_row_label(workload: Workload, retention: float) -> str:
    """Format the retention asked for, or "yours" if presets have it only on average."""
    if retention == workload.desired and _differs_by_preset(workload):
        return "yours"
    return f"{100 * retention:.4g} %"


def _differs_by_preset(workload: Workload) -> bool:
    return len({desired for _, desired in workload.presets}) > 1


def _is_observed(workload: Workload, retention: float) -> bool:
    """Return True if the retention lies within what the learner's months had."""
    if workload.observed_retentions is None:
        return False
    low, high = workload.observed_retentions
    return low <= retention <= high


def _current_row(workload: Workload) -> tuple[object, ...]:
    """Return the table's row of the current schedule."""
    row: list[object] = ["now", ""]
    if workload.is_fsrs_off:
        row = [SM2, "now"]
    elif workload.schedule == BY_GIVEN_PARAMETERS:
        row = ["given", ""]
    shown = [RECALLED, MINUTES, REVIEWS, KNOWN]
    if workload.question.budget is not None:
        shown.append(OVER_BUDGET)
    row += [_format_current(workload, figure).replace(" to ", "-") for figure in shown]
    return tuple(row)


def _sm2_row(workload: Workload) -> tuple[object, ...]:
    """Return the table's row of SM-2 for a learner whose FSRS is on."""
    shown = [RECALLED, MINUTES, REVIEWS, KNOWN]
    if workload.question.budget is not None:
        shown.append(OVER_BUDGET)
    figures = [_format_of_sm2(workload, figure).replace(" to ", "-") for figure in shown]
    return (SM2, "", *figures)


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


def _format_of_sm2(workload: Workload, figure: int) -> str:
    """Format a figure of SM-2 with its range for a sentence, like `_format_current`."""
    assert workload.sm2 is not None
    low, high = workload.sm2_band
    text = _format_range(figure, workload.sm2.figures[figure], low[figure], high[figure])
    return text.replace("-", " to ")


def _format_range(
    figure: int,
    estimate: float,
    low: float,
    high: float,
    format_estimate: Callable[[float], str] | None = None,
) -> str:
    """Format an estimate and its range: "61 (55-70)", "90 % (87-92)".

    `format_estimate` formats the estimate if that is to have other digits than the range.
    """
    format_bound = partial(_format_figure, figure)
    text = (format_estimate or format_bound)(estimate)
    low_text, high_text = format_bound(low), format_bound(high)
    if low_text == high_text:
        return text
    return f"{text} ({low_text.removesuffix(' %')}-{high_text.removesuffix(' %')})"


def _format_at_desired(workload: Workload, figure: int) -> str:
    """Format a figure at the desired retention for a sentence: "61 (55 to 70)"."""
    return _format_with_range(workload, workload.at(workload.desired), figure).replace("-", " to ")


def _format_figure(figure: int, value: float) -> str:
    """Format a figure: shares in per cent, and a decimal for fewer than ten reviews or minutes.

    A share of no reviews, which is nan, is "?".
    """
    if math.isnan(value):
        return "?"
    if figure == RECALLED:
        return say.format_share(value)
    has_decimal = figure in (REVIEWS, MINUTES) and value < _MIN_WITHOUT_DECIMAL
    return f"{value:,.1f}" if has_decimal else f"{value:,.0f}"


RENDERERS: Mapping[type[Evidence], Renderer] = {
    Workload: Renderer(_cost_sentences, tables=_cost_tables)
}
