"""What a `Workload` says, in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.sentences import better_by, listed, signed, sure
from srs_eval.advice.shown import document as finding_document
from srs_eval.advice.tables import Cell, Table
from srs_eval.advice.workload.estimate import (
    ENDS,
    FEWEST_IN_MONTH,
    FIGURES,
    KNOWN,
    MINUTES,
    MONTH,
    OVER,
    PER_CARD,
    RECALLED,
    RETENTIONS,
    REVIEWS,
    Workload,
)
from srs_eval.advice.workload.memories import REFERENCE
from srs_eval.data.errors import counted
from srs_eval.data.paths import VERSION
from srs_eval.data.reviews import FloatArray
from srs_eval.stats.intervals import FEWEST_REVIEWS, Interval

_QUESTION = "workload"
_OTHERS = (0.80, 0.85, 0.90, 0.95)  # desired retentions that today's is held against
_MOST_ROWS = 12  # of the table; with more retentions every fifth is shown
_LEAST_MINUTES = 1.0  # that overdue cards must cost to be more than chance
_NEAR_LIMIT = 0.75  # of the limit of reviews a day: from here on it is reached on many days
HELD = (
    "For 100 simulated learners, whose true parameters are known, such ranges held the truth 80 "
    "times; 19 times it was lower."
)
"""What `benchmarks/workload.py --band` finds (docs/workload.md)."""
_MISSED = 0.02  # of retention: from here on an expectation has not come true


@dataclass(frozen=True)
class CostTable(Table):
    """A table by desired retention whose figures can be drawn, of all retentions (r,)."""

    preset: str = ""
    retentions: tuple[float, ...] = ()
    reviews: tuple[float, ...] = ()  # a day
    low: tuple[float, ...] = ()  # ends of the reviews a day that 90 % of the draws lie between
    high: tuple[float, ...] = ()
    known: tuple[float, ...] = ()  # cards, at the end
    now: float = 0.0
    cheapest: float = 0.0  # fewest minutes per card known


def answers(found: Workload) -> list[Finding]:
    """What is known so far; sentences on what is not known yet are left out."""
    of_all = (_today, _cheapest, _data, _change, _limit, _budget, _backlog, _ranked, _wrong)
    sentences = tuple(each for says in (*of_all, _certainty) for each in says(found))
    tables: list[Table] = [_curve(found)]
    if found.paces:
        tables.append(_paces(found))
    if found.mismatches:
        tables += _models(found)
    tables += [preview.table for preview in found.previews]
    if found.months:
        tables.append(_months(found))
    return [phrased(_QUESTION, found.preset, _conclusion(found), sentences, tuple(tables))]


def _conclusion(found: Workload) -> str:
    here = found.at(found.desired)
    if not found.drawn:
        return f"about {found.median[here, MINUTES]:.0f} minutes a day"
    low, high = (f"{ends[here, MINUTES]:.0f}" for ends in found.band)
    return f"{low} minutes a day" if low == high else f"{low}-{high} minutes a day"


def _today(found: Workload) -> Iterator[str]:
    here, asked, unchanged = found.at(found.desired), found.question, found.unchanged
    reviews, minutes, known = (
        within(found, here, figure, places)
        for figure, places in ((REVIEWS, 0), (MINUTES, 1), (KNOWN, 0))
    )
    about = "" if found.drawn else "about "
    new = f"{found.new_a_day} new ones a day"
    if found.new_a_day * asked.days > found.unseen:
        new += f" (if you add them: the preset has {found.unseen:,})"
    if not found.drawn:
        yield _first_estimate(found)
    yield from of_few_reviews(found)
    yield (
        f"At today's desired retention of {found.desired:.2f}, with "
        f"{counted(found.learned, 'card')} and {new}, the next {counted(asked.days, 'day')} take "
        f"{about}{reviews} reviews and {about}{minutes} minutes a day; {about}{known} cards are "
        "known at the end."
    )
    if unchanged is not None:
        yield (
            "That is once the preset is optimized to all your reviews. While the "
            f"{found.line} go on scheduling it is about {unchanged[REVIEWS]:,.0f} reviews and "
            f"{unchanged[MINUTES]:.1f} minutes a day, with {100 * unchanged[RECALLED]:.0f} % "
            "passed."
        )
    if asked.after:
        yield (
            f"They begin after {counted(asked.after, 'day')} without a review, which leave "
            f"{counted(found.overdue, 'card')} overdue."
        )
    if found.presets > 1:
        yield f"This is one preset of {found.presets}: the one with the most reviews."
    yield from found.left_out
    if asked.new_a_day is None:
        pace = counted(found.new_a_day, "new card")
        yield f"{pace} a day: the pace of the last {of_late(found)}, rounded."
    expected = found.in_force[here, MINUTES]
    low, high = (ends[here, MINUTES] for ends in found.band)
    if found.drawn and not low <= expected <= high:
        yield f"The {found.line} expect {expected:.1f} minutes, which your reviews do not bear out."


def of_late(found: Workload) -> str:
    """The days that one's own pace was seen over: "day", "30 days"."""
    return "day" if found.pace_days == 1 else f"{found.pace_days} days"


def of_few_reviews(found: Workload) -> Iterator[str]:
    """What is to be said where few reviews speak for the figures."""
    if found.reviews < FEWEST_REVIEWS:
        yield (
            f"Only {counted(found.reviews, 'review')} speak for these figures, fewer than "
            f"{FEWEST_REVIEWS:,}: ranges tell less than what is not known."
        )


def _first_estimate(found: Workload) -> str:
    done, of_all = len(found.draws), found.question.draws
    source = f"{done} of {of_all} sets of parameters that your reviews allow"
    if not done:
        source = "the parameters that fit your reviews best"
    move = found.may_move(found.at(found.desired), MINUTES)
    return (
        f"First estimate, from {source}: it may still move by up to {max(move, 0.1):.1f} minutes a "
        "day. Ranges come with the last one."
    )


def _cheapest(found: Workload) -> Iterator[str]:
    if not found.drawn or len(found.retentions) < 2:
        return
    least, low, high = found.cheapest
    range_ = f"{low:.2f} to {high:.2f}" if low != high else f"{least:.2f} in all draws"
    edge = " or below" if least == found.retentions[0] else ""
    made = f"Fewest minutes per card known: at {least:.2f}{edge} ({range_})."
    if found.question.retentions != RETENTIONS:
        asked = f"Of the retentions asked about, {least:.2f} takes"
        made = f"{asked} the fewest minutes per card known ({range_})."
    if least < found.desired:
        made += " Cheap is not wise: more is forgotten between reviews there"
        made += ", and you have no month like that." if _is_guess(found, least) else "."
    yield made


def _data(found: Workload) -> Iterator[str]:
    if found.seen is None:
        yield (
            f"No month had {FEWEST_IN_MONTH} reviews: what is said of any retention is the "
            "model's guess."
        )
        return
    low, high = (f"{100 * share:.0f}" for share in found.seen)
    recalled = low if low == high else f"{low} to {high}"
    yield (
        f"Your months so far with at least {FEWEST_IN_MONTH} reviews had {recalled} % recalled. "
        "Beyond, marked with ?, figures are the model's guess."
    )


def _change(found: Workload) -> Iterator[str]:
    """What other retentions change: of figures as the table shows them, so that the reader finds
    the same."""
    here, parts = found.at(found.desired), []
    shown_minutes, shown_known = found.median[:, MINUTES].round(1), found.median[:, KNOWN].round()
    for other in _OTHERS if found.drawn else ():
        there = found.at(other)
        if there == here or abs(found.retentions[there] - other) > 1e-9:
            continue
        minutes = found.draws[:, there, MINUTES] - found.draws[:, here, MINUTES]
        low, high = np.quantile(minutes, ENDS)
        parts.append(
            f"{other:.2f} {signed(shown_minutes[there] - shown_minutes[here], 1)} minutes a day "
            f"({signed(low, 1)} to {signed(high, 1)}) and "
            f"{signed(shown_known[there] - shown_known[here], 0)} cards known"
        )
    if parts:
        yield f"Instead of {found.desired:.2f}: {'; '.join(parts)}."


def _budget(found: Workload) -> Iterator[str]:
    budget = found.question.budget
    if budget is None or not found.drawn:
        return
    over = within(found, found.at(found.desired), OVER, 0)
    yield f"Above {budget:g} minutes: {over} of {counted(found.question.days, 'day')}."
    fits = np.flatnonzero(found.band[1][:, MINUTES] <= budget)
    if len(fits):
        yield (
            f"With {budget:g} minutes a day on average, {found.retentions[fits[-1]]:.2f} is the "
            "highest retention that is almost sure to fit."
        )


def _backlog(found: Workload) -> Iterator[str]:
    if found.backlog is not None:
        reviews, minutes = found.backlog
        days = min(MONTH, found.question.days)
        cost = f"{reviews:,.0f} reviews and {minutes:,.0f} minutes of the first {days} days."
        if minutes < _LEAST_MINUTES:
            cost = "not enough to be felt."
        yield f"{counted(found.overdue, 'overdue card')}: {cost}"


def _limit(found: Workload) -> Iterator[str]:
    near = found.median[:, REVIEWS] > _NEAR_LIMIT * found.limit
    if near.any():
        yield (
            f"From {found.retentions[np.argmax(near)]:.2f} on the preset's limit of "
            f"{found.limit:,} reviews a day holds cards back: there, more would be asked of you, "
            "and is not done."
        )


def _ranked(found: Workload) -> Iterator[str]:
    """Which model predicts the preset's reviews, and by how much better than the schedule's."""
    rivals = [each for each in found.scores if each.difference is not None]
    if not rivals:
        return
    best, rival = found.scores[0], rivals[0]
    assert rival.difference is not None
    reviews = counted(best.log_loss.reviews, "held-out review")
    difference = f"{better_by(rival.difference.estimate)} {sure(rival.difference)}"
    compared = f", {difference} than {REFERENCE}: {rival.verdict}."
    if len(found.scores) == 2:
        loss = f"a log loss of {rival.log_loss.estimate:.4f}"
        yield f"On {reviews} of this preset, {rival.model} has {loss}{compared}"
        return
    if best is not rival:
        compared = f". Next is {rival.model}, {difference}: {rival.verdict}."
    yield (
        f"Of the {len(found.scores)} models that can be simulated, {best.model} predicts this "
        f"preset's reviews best: log loss {best.log_loss.estimate:.4f} on {reviews}{compared}"
    )


def _wrong(found: Workload) -> Iterator[str]:
    here = found.at(found.desired)
    own, made = found.in_force[here, RECALLED], []
    for wrong in found.mismatches:
        recalled = wrong.figures[here, RECALLED]
        if np.isfinite(recalled):
            side = "less" if recalled < own else "more"
            verdict = f"{side} than that" if abs(recalled - own) > _MISSED else "as expected"
            made.append(f"{wrong.name} {100 * recalled:.0f} % ({verdict})")
    if made:
        yield (
            f"Does {found.desired:.2f} come true? The {found.line} expect {100 * own:.0f} % of "
            "reviews to be passed. If your memory is another model's, it is: "
            f"{listed(made)}."
        )


def _certainty(found: Workload) -> Iterator[str]:
    if found.finished:
        chance, both = found.chance[REVIEWS], found.spread[REVIEWS]
        yield (
            f"Ranges hold 90 % of {len(found.draws)} draws of parameters, each fitted to days of "
            f"yours drawn anew. They vary by {100 * both:.1f} %, of which chance, the same "
            f"parameters simulated again, makes {100 * chance:.1f} %. {HELD}"
        )


# Tables


def _shown(found: Workload) -> np.ndarray:
    """Places of the retentions that a table of few lines shows."""
    if len(found.retentions) <= _MOST_ROWS:
        return np.arange(len(found.retentions))
    every = {found.at(percent / 100) for percent in range(70, 100, 5)}
    return np.array(
        sorted(every | {found.at(found.desired), found.at(found.cheapest[0]), found.at(0.97)})
    )


def _curve(found: Workload) -> CostTable:
    budget, median, (low, high) = found.question.budget, found.median, found.band

    def row(k: int) -> tuple[Cell, ...]:
        retention = float(found.retentions[k])
        passed = f"{100 * median[k, RECALLED]:.0f} %"
        return (
            f"{retention:.2f}",
            _mark(found, retention),
            within(found, k, REVIEWS, 0),
            within(found, k, MINUTES, 1),
            f"{median[k, KNOWN]:,.0f}",
            f"{median[k, PER_CARD]:.2f}",
            passed if budget is None else within(found, k, OVER, 0),
        )

    last = "passed" if budget is None else f"days > {budget:g} min"
    return CostTable(
        f"{found.preset}: {counted(found.question.days, 'day')}, by desired retention",
        ("desired", "", "reviews/day", "minutes/day", "known", "min/card", last),
        tuple(map(row, _shown(found).tolist())),
        preset=found.preset,
        retentions=tuple(found.retentions.tolist()),
        reviews=tuple(median[:, REVIEWS].tolist()),
        low=tuple(low[:, REVIEWS].tolist()),
        high=tuple(high[:, REVIEWS].tolist()),
        known=tuple(median[:, KNOWN].tolist()),
        now=found.desired,
        cheapest=found.cheapest[0],
    )


def _mark(found: Workload, retention: float) -> str:
    today = abs(retention - found.desired) < 0.005
    return ("now" if today else "") + ("?" if _is_guess(found, retention) else "")


def _is_guess(found: Workload, retention: float) -> bool:
    """Whether no month of the learner's came near a retention."""
    return found.seen is None or not found.seen[0] <= retention <= found.seen[1]


def _paces(found: Workload) -> Table:
    return Table(
        f"{found.preset}: new cards a day, at {found.desired:.2f}",
        ("new/day", "reviews/day", "minutes/day", "known"),
        tuple(
            (
                pace,
                _spread(figures[:, REVIEWS], 0),
                _spread(figures[:, MINUTES], 1),
                f"{np.median(figures[:, KNOWN]):,.0f}",
            )
            for pace, figures in found.paces
        ),
    )


def _models(found: Workload) -> list[Table]:
    """What becomes of the schedule of the parameters in force, remembered by several models: today,
    and of each desired retention."""
    here = found.at(found.desired)
    models = {f"the {found.line}": found.in_force}
    models |= {wrong.name: wrong.figures for wrong in found.mismatches}
    return [
        Table(
            f"{found.preset}: your schedule at {found.desired:.2f}, if memory is as ... has it",
            ("model of your memory", "reviews/day", "minutes/day", "known", "passed"),
            tuple(
                (
                    name,
                    f"{figures[here, REVIEWS]:.0f}",
                    f"{figures[here, MINUTES]:.1f}",
                    f"{figures[here, KNOWN]:,.0f}",
                    _percent(figures[here, RECALLED]),
                )
                for name, figures in models.items()
            ),
        ),
        Table(
            f"{found.preset}: reviews passed under your schedule, if memory is as ... has it",
            ("desired", *models),
            tuple(
                (
                    f"{found.retentions[k]:.2f}",
                    *(_percent(figures[k, RECALLED]) for figures in models.values()),
                )
                for k in _shown(found).tolist()
            ),
        ),
    ]


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.0f} %"


def _months(found: Workload) -> Table:
    return Table(
        f"{found.preset}: what you recalled",
        ("month", "reviews", "recalled"),
        tuple((month, count, f"{100 * share:.1f} %") for month, count, share in found.months),
    )


def within(found: Workload, place: int, figure: int, places: int) -> str:
    """ "61 (55-70)"; "61" while draws are missing."""
    if not found.drawn:
        return f"{found.median[place, figure]:,.{places}f}"
    return _spread(found.draws[:, place, figure], places)


def _spread(of_draws: FloatArray, places: int) -> str:
    """ "61 (55-70)": the median of the draws (draws,) and where 90 % of them lie."""
    low, middle, high = (
        f"{each:,.{places}f}" for each in np.quantile(of_draws, (ENDS[0], 0.5, ENDS[1]))
    )
    return middle if low == high else f"{middle} ({low}-{high})"


# Files


def document(found: Workload) -> dict[str, Any]:
    """As JSON has it (layout: docs/formats.md)."""
    low, high = found.band
    parts = {"median": found.median, "low": low, "high": high, "in force": found.in_force}
    parts |= {wrong.name: wrong.figures for wrong in found.mismatches}
    now, backlog = found.unchanged, found.backlog
    return {
        "layout": 1,
        "srs_eval": VERSION,
        "preset": found.preset,
        "question": asdict(found.question),
        "desired_retention": found.desired,
        "cards": {"learned": found.learned, "new": found.unseen, "overdue": found.overdue},
        "new_a_day": found.new_a_day,
        "draws": len(found.draws),
        "retentions": [
            {
                "desired": float(retention),
                **{name: _named(figures[place]) for name, figures in parts.items()},
            }
            for place, retention in enumerate(found.retentions)
        ],
        "relative_deviation": {
            "chance": _named(found.chance),
            "parameters and chance": _named(found.spread),
        },
        "cheapest": dict(zip(("median", "low", "high"), found.cheapest, strict=True)),
        "recalled_by_month": [
            {"month": month, "reviews": count, "recalled": share}
            for month, count, share in found.months
        ],
        "memories": [
            {
                "model": each.model,
                "log_loss": each.log_loss.estimate,
                "reviews": each.log_loss.reviews,
                **_difference(each.difference),
                "verdict": each.verdict,
            }
            for each in found.scores
        ],
        "now": _named(found.median[found.at(found.desired)] if now is None else now),
        "backlog": backlog and {"reviews": backlog[0], "minutes": backlog[1]},
        "new_cards": [
            {
                "new_a_day": pace,
                "reviews": float(np.median(figures[:, REVIEWS])),
                "minutes": float(np.median(figures[:, MINUTES])),
                "known": float(np.median(figures[:, KNOWN])),
            }
            for pace, figures in found.paces
        ],
        "intervals": [record for preview in found.previews for record in preview.records],
        "answers": [finding_document(each) for each in answers(found)],
    }


def _difference(difference: Interval | None) -> dict[str, float | None]:
    names = {"difference": "estimate", "low": "low", "high": "high"}
    return {
        name: None if difference is None else _known(getattr(difference, end))
        for name, end in names.items()
    }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _named(figures: np.ndarray) -> dict[str, float | None]:
    names = (name.replace(" ", "_") for name in FIGURES)
    return dict(zip(names, map(_known, figures), strict=True))
