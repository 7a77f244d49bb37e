"""What a desired retention costs, in English."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Evidence, Finding, of
from srs_eval.advice.sentences import Bar, Cell, Heading, Item, Line, Renderer, Table
from srs_eval.advice.workload.estimate import (
    GLANCED,
    IN_FORCE,
    KNOWN,
    MINUTES,
    OVER,
    RECALLED,
    REVIEWS,
    Workload,
)
from srs_eval.advice.workload.today import FEWEST_IN_MONTH
from srs_eval.data.errors import counted

OF_DRAWS = (
    "Brackets: 95 % ranges. ?: no month of yours had this retention. Figures are a model's, "
    "for habits like those of so far."
)
_LEAST = 0.05  # minutes a day that are told
_MOST_NAMES = 5  # of presets in a sentence
_MOST_ROWS = 12  # of the table; with more retentions every fifth is shown


def _sentences(finding: Finding) -> tuple[str, ...]:
    """What is known so far, the answer in the first three; what is not known yet is left out."""
    of_all = (_then, _now, _budget, _lately, _cards, _overdue, _covers, _limit, _ranges, _versions)
    found = of(finding, Workload)
    return (*(each for says in of_all for each in says(found)), *found.left_out)


def _then(found: Workload) -> Iterator[str]:
    reviews, minutes = (_at_desired(found, figure) for figure in (REVIEWS, MINUTES))
    cards = "All your cards" if len(found.presets) > 1 else f"The cards of {found.preset}"
    model = found.question.model
    if model == "FSRS-6" and not found.by_fsrs7:
        model = "FSRS"
    yield (
        f"{cards} take {minutes} minutes and {reviews} reviews a day once {model} is "
        f"{'on and ' * found.is_off}optimized and asked for {100 * found.desired:.0f} of 100."
    )


def _now(found: Workload) -> Iterator[str]:
    if found.as_now is not None:
        reviews, minutes = (_number(each, found.as_now[each]) for each in (REVIEWS, MINUTES))
        yield (
            f"If {found.schedule} go{'es' * found.is_off} on, they take {minutes} minutes and "
            f"{reviews} reviews a day; you pass {100 * found.as_now[RECALLED]:.0f} of 100 reviews."
        )


def _lately(found: Workload) -> Iterator[str]:
    pace = "day" if found.pace_days == 1 else f"{found.pace_days} days"
    yield (
        f"In the last {pace} you took {_number(MINUTES, found.minutes_a_day)} minutes and did "
        f"{found.done_a_day:,} reviews a day; a card counts once a day, its learning steps only in "
        "minutes, here as above."
    )


def _cards(found: Workload) -> Iterator[str]:
    days = found.question.days
    new = f"{found.new_a_day} new ones a day"
    if not found.unseen or not found.new_a_day:
        new = "no new ones"
    elif found.unseen <= found.new_a_day:
        new = counted(found.unseen, "new one")
    elif found.new_a_day * days > found.unseen:
        new = f"{new} until the {found.unseen:,} there are have come"
    known = _at_desired(found, KNOWN)
    yield (
        f"That is the mean of the next {counted(days, 'day')} with your "
        f"{counted(found.learned, 'card')} and {new}; {known} cards are known at the end."
    )
    if len({desired for _, desired in found.presets}) > 1:
        each = say.listed([f"{100 * desired:.0f} in {name}" for name, desired in found.presets])
        yield f"At {100 * found.desired:.0f} each preset has what you ask of it now: {each}."


def _overdue(found: Workload) -> Iterator[str]:
    if found.overdue.cards:
        after = found.question.after
        then = f" after {counted(after, 'day')} without a review" if after else ""
        yield f"{say.overdue(found.overdue.cards, found.overdue.minutes)}{then}."


def _covers(found: Workload) -> Iterator[str]:
    if found.seen is None:
        yield (
            f"No month had {FEWEST_IN_MONTH} reviews: what is said of any retention is the "
            "model's guess."
        )
        return
    low, high = (f"{100 * share:.0f}" for share in found.seen)
    yield (
        f"Your months so far with at least {FEWEST_IN_MONTH} reviews had "
        f"{low if low == high else f'{low} to {high}'} % recalled. Beyond, marked with ?, figures "
        "are the model's guess."
    )


def _budget(found: Workload) -> Iterator[str]:
    budget = found.question.budget
    if budget is None or not found.drawn:
        return
    over = _at_desired(found, OVER)
    yield f"Above {budget:g} minutes: {over} of {counted(found.question.days, 'day')}."
    fits = np.flatnonzero(found.band[1][:, MINUTES] <= budget)
    if len(fits):
        yield (
            f"With {budget:g} minutes a day on average, {found.retentions[fits[-1]]:.2f} is the "
            "highest retention that is almost sure to fit."
        )


def _limit(found: Workload) -> Iterator[str]:
    if found.held_back is not None:
        retention, limit = found.held_back
        yield (
            f"From {retention:.2f} on the limit of {limit:,} reviews a day holds cards back: "
            "there, more would be asked of you, and is not done."
        )


def _ranges(found: Workload) -> Iterator[str]:
    """With what `benchmarks/workload.py --band` finds (docs/workload.md)."""
    draws = found.question.draws
    if not found.drawn:
        yield f"Ranges come with the last of {draws} sets of parameters that your reviews allow."
        return
    yield (
        f"Ranges: as 95 % of {draws} draws of parameters lie around their median, each fitted to "
        "days of yours drawn anew."
    )
    if found.question.model == "FSRS-6":
        yield "For 100 simulated learners 84 held the truth; 15 were too high."


def _versions(found: Workload) -> Iterator[str]:
    """That FSRS-6 is asked about where FSRS-7 schedules."""
    if not found.by_fsrs7:
        return
    count, presets = len(found.by_fsrs7), len(found.presets)
    if found.is_off:
        runs = "Once FSRS is on, your Anki runs FSRS-7"
    elif found.schedule != IN_FORCE:
        runs = "The parameters given are FSRS-7's"
    elif count == presets:
        runs = "Today's schedule runs FSRS-7"
    else:
        run = "runs" if count == 1 else "run"
        names = f" ({say.listed(found.by_fsrs7)})" if count <= _MOST_NAMES else ""
        runs = f"{count} of your {presets} presets {run} FSRS-7 today{names}"
    yield (
        f"{runs}; the figures by desired retention are FSRS-6's, and --model FSRS-7 asks FSRS-7."
    )


# As bars


def minutes(found: Workload, *, is_one_of_several: bool) -> tuple[Line, tuple[Item, ...]]:
    """Minutes a day by desired retention, in short and as bars: of the third pane."""
    figures, (low, high) = found.figures[:, MINUTES], (end[:, MINUTES] for end in found.band)
    now, lately = found.as_now, found.minutes_a_day
    most = max(float(high.max()), now[MINUTES] if now else 0.0, 1e-9)
    items: list[Item] = [Heading("next year", ("minutes",), spare=3)]
    for place, retention in enumerate(found.retentions):
        if found.is_off and retention not in GLANCED:  # nobody asked for it
            continue
        is_now = retention == found.desired and not found.is_off
        said, *span = (_number(MINUTES, float(each[place])) for each in (figures, low, high))
        said += f" ({'-'.join(span)})" if span[0] != span[1] else ""
        first = " of 100" if place == 0 else ""
        label = f"{say.whole_of_100(retention)}{first}{' (yours)' if is_now else ''}"
        share, until = float(figures[place]) / most, float(high[place]) / most
        spare = int(retention == GLANCED[1] and not is_now)
        items.append(Bar(label, (said,), share, until, spare=spare))
    here = found.at(found.desired)
    minutes = _number(MINUTES, float(figures[here]))
    lead = f"{say.whole_of_100(found.desired)} of 100: {minutes} minutes a day"
    if now is not None:
        name, said = "with SM-2" if found.is_off else "unchanged", _number(MINUTES, now[MINUTES])
        items.append(Bar(name, (said,), now[MINUTES] / most, level="not yet", spare=1))
        lead += f" ({name}{_by_version(found)}: {said})"
    if lately >= _LEAST:
        name = f"last {counted(found.pace_days, 'day')}"
        items.append(Bar(name, (_number(MINUTES, lately),), 0.0, level="not yet"))
    cards = counted(found.learned, "card")
    if found.unseen and found.new_a_day:
        cards += f" and {min(found.unseen, found.new_a_day * found.question.days):,} new"
    of_preset = f" of {say.quoted(found.preset)}" if is_one_of_several else ""
    items.append(Line(f"Mean of next year: {cards}{of_preset}.", spare=2))
    if found.by_fsrs7:
        items.append(Line(_whose_figures(found)))
    return Line(f"{lead}."), (Line(f"{lead}."), *items)


def _by_version(found: Workload) -> str:
    """ ", by FSRS-7": behind the name of today's schedule, where the other figures are FSRS-6's."""
    if found.is_off or not found.by_fsrs7:
        return ""
    return ", by FSRS-7" if len(found.by_fsrs7) == len(found.presets) else ", partly by FSRS-7"


def _whose_figures(found: Workload) -> str:
    """Which figures are FSRS-7's, where some presets run it and the rest is FSRS-6's."""
    count, presets = len(found.by_fsrs7), len(found.presets)
    if found.is_off:
        return "FSRS-6's figures. Once FSRS is on, your Anki runs FSRS-7."
    some = "" if count == presets else f" for {count} of {presets} presets"
    return f"“Unchanged” is FSRS-7's figure{some}; the other figures are FSRS-6's."


# As tables


def _tables(finding: Finding) -> tuple[Table]:
    """What each desired retention costs."""
    found = of(finding, Workload)
    budget, figures = found.question.budget, found.figures
    rows: list[tuple[Cell, ...]] = []
    for k in _shown(found):
        retention = found.retentions[k]
        is_guess = found.seen is None or not found.seen[0] <= retention <= found.seen[1]
        is_now = retention == found.desired and found.as_now is None
        passed = f"{100 * figures[k, RECALLED]:.0f} %"
        passed = passed if budget is None else _within(found, k, OVER)
        cells = (_within(found, k, each) for each in (REVIEWS, MINUTES))
        note, known = f"{'now' * is_now}{'?' * is_guess}", f"{figures[k, KNOWN]:,.0f}"
        rows.append((f"{retention:.2f}", note, *cells, known, passed))
    if found.as_now is not None:
        now = found.as_now
        passed = f"{100 * now[RECALLED]:.0f} %" if budget is None else f"{now[OVER]:.0f}"
        label = "SM-2" if found.is_off else f"{found.desired:.2f}"
        cells = (_number(figure, now[figure]) for figure in (REVIEWS, MINUTES, KNOWN))
        rows.append((label, "now", *cells, passed))
    last = "passed" if budget is None else f"days > {budget:g} min"
    title = f"{found.preset}: {counted(found.question.days, 'day')}, by desired retention"
    columns = ("desired", "", "reviews/day", "minutes/day", "known", last)
    return (Table(title, columns, tuple(rows)),)


def _shown(found: Workload) -> list[int]:
    """Places of the retentions that a table of few lines shows."""
    if len(found.retentions) <= _MOST_ROWS:
        return list(range(len(found.retentions)))
    every = (*(percent / 100 for percent in range(70, 100, 5)), found.desired, 0.97)
    return sorted({found.at(each) for each in every})


def _within(found: Workload, place: int, figure: int) -> str:
    """ "61 (55-70)": the estimate and where 95 % of the draws lie; "61" while draws are missing."""
    of_all = (found.figures, *found.band)
    middle, low, high = (_number(figure, each[place, figure]) for each in of_all)
    return middle if low == high else f"{middle} ({low}-{high})"


def _at_desired(found: Workload, figure: int) -> str:
    """ "61 (55 to 70)": in a sentence."""
    return _within(found, found.at(found.desired), figure).replace("-", " to ")


def _number(figure: int, value: float) -> str:
    """Few reviews and minutes with a decimal."""
    return f"{value:,.{int(figure in (REVIEWS, MINUTES) and value < 9.95)}f}"


RENDERERS: Mapping[type[Evidence], Renderer] = {Workload: Renderer(_sentences, tables=_tables)}
