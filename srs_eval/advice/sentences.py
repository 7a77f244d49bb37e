"""Format parts of findings for all views: figures in words, panes of the first screen."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from rich.cells import cell_len, set_cell_size

from srs_eval.advice import findings as f
from srs_eval.advice.findings import Finding, MissingData
from srs_eval.data.errors import InputError, format_count
from srs_eval.models.own_parameters import normalize_parameters
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Table

# Figures in words


def format_signed(value: float, places: int = 4) -> str:
    """Format a number with its sign: "+0.0021", "−0.0021".

    For log loss use `format_difference`, which says "lower" or "higher".
    """
    rounded = round(value, places) + 0.0  # never -0.0
    return f"{rounded:+.{places}f}".replace("-", "−")


def format_difference(difference: float, places: int = 4) -> str:
    """Format a difference in log loss: "0.0021 lower", with three places ".002 lower"."""
    return f"{_format_size(difference, places)} {_lower_or_higher(difference, places)}".rstrip()


def _format_ends(interval: Interval, places: int) -> tuple[str, str]:
    """Format both ends of a difference; the second text is "" unless it holds for both.

    Examples: ("0.0008 to 0.0034", "lower"), ("from 0.0008 lower to 0.0021 higher", "").
    """
    first = interval.low
    last = interval.high
    first_word = _lower_or_higher(first, places)
    last_word = _lower_or_higher(last, places)
    if first_word and last_word and first_word != last_word:
        return f"from {format_difference(first, places)} to {format_difference(last, places)}", ""
    if abs(last) < abs(first):
        first, last = last, first
    ends = f"{_format_size(first, places)} to {_format_size(last, places)}"
    return ends, _lower_or_higher(last, places)


def format_difference_with_range(interval: Interval, places: int = 4, than: str = "") -> str:
    """Format a difference with its ends, if it has any: "0.0021 lower (0.0008 to 0.0034)".

    `than` follows "lower", such as " than right".
    """
    estimate = f"{format_difference(interval.estimate, places)}{than}"
    if _has_no_bounds(interval):
        return estimate
    ends, word = _format_ends(interval, places)
    if word and word != _lower_or_higher(interval.estimate, places):
        ends = f"{ends} {word}"
    return f"{estimate} ({ends})"


def _format_size(difference: float, places: int) -> str:
    size = f"{abs(difference):.{places}f}"
    if places <= 3:
        return size.removeprefix("0")
    return size


def differs(difference: float, places: int = 4) -> bool:
    """Return True unless the difference rounds to zero."""
    return bool(_lower_or_higher(difference, places))


def _lower_or_higher(difference: float, places: int) -> str:
    """Return "lower", "higher", or "" if the rounded difference is zero."""
    if float(f"{abs(difference):.{places}f}") == 0:
        return ""
    return "lower" if difference < 0 else "higher"


def format_interval(interval: Interval) -> str:
    """Format the interval of a difference: "(95 % range: 0.0008 to 0.0034 lower)"."""
    if _has_no_bounds(interval):
        return "(no range: all reviews are on one day)"
    ends, word = _format_ends(interval, 4)
    return f"(95 % range: {ends} {word})" if word else f"(95 % range: {ends})"


def _has_no_bounds(interval: Interval) -> bool:
    return not math.isfinite(interval.half_width)


def capitalize(text: str) -> str:
    """Return the text with its first letter capitalized."""
    return text[:1].upper() + text[1:]


GUESS_MARK = "?"
"""Mark of a table's row whose figures are the model's guess."""


def join_names(names: Sequence[str], conjunction: Literal["and", "or"] = "and") -> str:
    """Join names as a list in English: "A", "A and B", "A, B or C"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"


def format_due_date(missing: MissingData | None) -> str:
    """Format the time when enough data will exist; "" if nothing is missing or it never will.

    Examples: "around 15 December if you keep up your pace", "after about 1,200 more reviews".
    """
    if missing is None or not missing.can_come:
        return ""
    if missing.date is not None:
        return f"{format_approximate_date(missing.date)} if you keep up your pace"
    if missing.reviews:
        return f"after about {format_count(missing.reviews, 'more review')}"
    return f"after {format_count(missing.days or 0, 'more day')}"


_WEEK_OF_PERSISTENCE = 0.85
"""Persistence from which a good or bad spell fades by two thirds in a week or more."""


def describe_spells(phi: float) -> str:
    """Return the sentence for a learner whose good and bad spells last."""
    duration = "weeks" if phi >= _WEEK_OF_PERSISTENCE else "days"
    return (
        f"Your reviews go better or worse for {duration} at a time, so this is less certain than "
        "usual."
    )


def format_approximate_date(iso_date: str) -> str:
    """Format an estimated date: "around 15 December", with the year if it is not this year."""
    day = date.fromisoformat(iso_date)
    year = f" {day.year}" if day.year != date.today().year else ""
    return f"around {day.day} {calendar.month_name[day.month]}{year}"


def abbreviate_parameters(parameters: Sequence[float]) -> str:
    """Return the first and the last of the parameters, and how many there are."""
    numbers = format_parameters(parameters).split(", ")
    return f"{', '.join(numbers[:2])}, … {numbers[-1]} ({len(numbers)} numbers)"


OPTIMIZE_OVERWRITES = (
    "If you press Optimize later, it overwrites these parameters: ask srs-eval again before you do."
)


def explain_where_to_paste(answer: Finding) -> str:
    """Return the sentences that say where to paste the answer's parameters, and for how long.

    Parameters that Optimize would fit need not be pasted.
    """
    place = _explain_place(answer)
    match answer.recommendation:
        case f.Recommendation.TAUGHT:
            return f"{place} {OPTIMIZE_OVERWRITES}"
        case f.Recommendation.OPTIMIZE if answer.subject != f.ALL_REVIEWS:
            instead = place.replace("Paste the parameters in Anki:", "To paste them instead, go to")
            return f"Pressing Optimize gives roughly these parameters. {instead}"
        case f.Recommendation.CHANGE_TO_FSRS_7:
            return f"Choose FSRS-7 first. {place}"
    return place


def _explain_place(answer: Finding) -> str:
    if answer.subject == f.ALL_REVIEWS:  # presets are unknown, or not Anki's
        return "Paste the parameters into the field “FSRS parameters” (deck options, FSRS)."
    field = "FSRS parameters (in newer versions of Anki, click that field three times to edit it)."
    if answer.question == "parameters":
        return f"Paste the parameters in Anki: deck options, preset {answer.subject}, {field}"
    return (
        "Several presets can share these parameters. Paste them only into those for which “Are my "
        f"parameters good?” shows the same ones: deck options, {field}"
    )


_WILL_NOT_SETTLE = "will not settle"


def format_missing_data(missing: MissingData | None, is_short: bool = False) -> str:
    """Format the data still needed: "needs 213 more reviews", "needs 3 more days".

    What will not come in time reads "your reviews will not settle this". With `is_short` it is "too
    few reviews", without numbers: this is for several presets, whose numbers differ.
    """
    if missing is None or not missing.can_come:
        return f"your reviews {_WILL_NOT_SETTLE} this"
    if is_short:
        return "too few reviews" if missing.reviews else "too few days"
    return f"needs {_format_amounts(missing)}"


def format_cant_tell(missing: MissingData | None, what: str = "") -> str:
    """Format an open answer with the data still needed.

    Examples with `what` " whether it matters": "can't tell yet whether it matters (needs 3 more
    days)", "your reviews will not settle whether it matters".
    """
    if missing is None or not missing.can_come:
        return f"your reviews {_WILL_NOT_SETTLE}{what or ' this'}"
    return f"can't tell yet{what} ({format_missing_data(missing)})"


def _format_amounts(missing: MissingData) -> str:
    """Format what is missing: "213 more reviews on 3 more days"."""
    amounts = []
    if missing.reviews:
        amounts.append(format_count(missing.reviews, "more review"))
    if missing.days:
        amounts.append(format_count(missing.days, "more day"))
    return " on ".join(amounts)


def missing_data_sentence(missing: MissingData | None) -> str:
    """Format the data still needed as a sentence."""
    if missing is None or not missing.can_come:
        return f"{capitalize(format_missing_data(missing))}."
    return f"About {_format_amounts_of_reviews(missing)} would settle it."


def _format_amounts_of_reviews(missing: MissingData) -> str:
    """Format what is missing: "213 more reviews like these, on 3 more days"."""
    if missing.reviews and missing.days:
        reviews = format_count(missing.reviews, "more review")
        days = format_count(missing.days, "more day")
        return f"{reviews} like these, on {days},"
    return f"{_format_amounts(missing)} like these"


def says_missing_data(text: str, missing: MissingData) -> bool:
    """Return True if a text already says which data are missing, or that they won't come."""
    if not missing.can_come:
        return _WILL_NOT_SETTLE in text
    return _format_amounts(missing) in text or _format_amounts_of_reviews(missing) in text


def format_overdue(cards: int, minutes: float, total: int, *, is_past: bool = False) -> str:
    """Format overdue cards: "94 of 396 cards are overdue (16 minutes of work)".

    If the learner stopped long ago, "94 of 396 cards were overdue when you last reviewed (16
    minutes)".
    """
    amount = f"{cards:,} of {format_count(total, 'card')}"
    work_time = format_work_time(minutes)
    if is_past:
        verb = "was" if cards == 1 else "were"
        return f"{amount} {verb} overdue when you last reviewed ({work_time})"
    verb = "is" if cards == 1 else "are"
    return f"{amount} {verb} overdue ({work_time} of work)"


def format_work_time(minutes: float) -> str:
    """Format how long something takes: "16 minutes", from two hours on "3 hours"."""
    if minutes >= 120:
        return f"{minutes / 60:,.0f} hours"
    return format_count(max(round(minutes), 1), "minute")


def summarize_presets(findings: Sequence[Finding], summarize: Callable[[Finding], str]) -> str:
    """Join the short answers on several presets, those with equal answers together.

    Example: "no need: Words and Maps; can't tell yet (too few reviews): Facts". With one preset it
    is the answer alone.
    """
    if len(findings) == 1:
        return summarize(findings[0])
    subjects: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        answer = summarize(finding)
        if finding.conclusion == f.CANT_TELL and finding.missing is not None:
            answer = format_missing_data(finding.missing, is_short=True)
            if finding.missing.can_come:
                answer = f"can't tell yet ({answer})"
        subjects.setdefault(answer, []).append((finding.subject, ""))
    return format_groups(subjects) if len(subjects) > 1 else next(iter(subjects))


def format_groups(subjects: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Format subjects, each with a reason or "", by verdict.

    Example: "better: A (.01 to .03 lower); can't tell yet: B".
    """
    return "; ".join(f"{verdict}: {_format_group(group)}" for verdict, group in subjects.items())


def _format_group(subjects: Sequence[tuple[str, str]]) -> str:
    """Join names with their reasons: "A (.01 to .03 lower), B and C (too few reviews)"."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in subjects:
        by_reason.setdefault(reason, []).append(name)
    groups = [f"{join_names(names)} {reason}".rstrip() for reason, names in by_reason.items()]
    if len(groups) == len(subjects):
        return join_names(groups)
    return ", ".join(groups)


def format_log_loss_difference(difference: Interval, rival: str = "") -> str:
    """Format a difference as what a log loss was: "0.0021 lower than that of it (95 % range: …)".

    Here `rival` is "that of it". A difference that rounds to zero is "the same as that of it (95 %
    range: …)".
    """
    interval = format_interval(difference)
    if not differs(difference.estimate):
        comparison = f" as {rival}" if rival else ""
        return f"the same{comparison} {interval}"
    comparison = f" than {rival}" if rival else ""
    return f"{format_difference(difference.estimate)}{comparison} {interval}"


def format_percent(share: float, places: int = 1) -> str:
    """Format a share in per cent: "84.7 %"."""
    return f"{100 * share:.{places}f} %"


def format_share_bounds(share: Interval, places: int) -> tuple[str, str]:
    """Format the bounds of a share in per cent, limited to 0 and 100."""
    return format_percent(max(share.low, 0.0), places), format_percent(min(share.high, 1.0), places)


def format_share_range(share: Interval) -> str:
    """Format the range of a share: "86 to 90 %"."""
    low = format_share(max(share.low, 0.0)).removesuffix(" %")
    _, high = format_share_bounds(share, 0)
    return f"{low} to {high}"


def has_enough_to_show(log_loss: Interval) -> bool:
    """Return True if there are enough reviews to show a log loss without context."""
    return log_loss.reviews >= f.MIN_REVIEWS_SHOWN and log_loss.days >= f.MIN_DAYS_SHOWN


_MAX_NAME_WIDTH = 20  # maximum width of a preset's name in a sentence


def quote_name(name: str) -> str:
    """Quote a preset's name, shortened if it is long: "“Vocabulary”"."""
    if cell_len(name) > _MAX_NAME_WIDTH:
        name = f"{set_cell_size(name, _MAX_NAME_WIDTH - 1).rstrip()}…"
    return f"“{name}”"


def format_share(share: float) -> str:
    """Format a share in per cent: "79 %" for 0.79."""
    return f"{100 * share:.0f} %"


# Certainty

_DOT_COUNT = 5
_EVEN = 0.5  # a choice with a larger probability is better than the alternative


def describe_certainty(probability: float, *, has_to_choose: bool = False) -> str:
    """Describe a probability as "sure", "likely" or "not sure".

    If the learner `has_to_choose`, as parameters once FSRS is on, or if a change is still advised,
    what is rather better than the alternative is the "best bet".
    """
    if probability >= f.SURE:
        return "sure"
    if probability >= f.LIKELY:
        return "likely"
    return "best bet" if has_to_choose and probability > _EVEN else "not sure"


def choose_forget_verb(probability: float) -> str:
    """Return "forget", or "seem to forget" where that is not sure."""
    return "forget" if probability >= f.SURE else "seem to forget"


def format_dots(probability: float) -> str:
    """Draw a probability as dots, "●●●●○"; 50 % or less has none, and what is sure has all."""
    full = round(_DOT_COUNT * max(2 * probability - 1, 0.0))
    if probability >= f.SURE:
        full = _DOT_COUNT
    return "●" * full + "○" * (_DOT_COUNT - full)


def round_down_percent(probability: float) -> int:
    """Round a probability down to a number of per cent, so that nothing below 95 % reads 95."""
    return math.floor(100 * probability + 1e-9)  # 100 * 0.29 is 28.999…


def format_certainty(probability: float, claim: str = "", *, has_to_choose: bool = False) -> str:
    """Format a probability in words and numbers: "likely, 88 %".

    With the claim "that it helps" it is "likely; the chance that it helps is 88 %".
    """
    certainty = describe_certainty(probability, has_to_choose=has_to_choose)
    percent = round_down_percent(probability)
    if claim:
        return f"{certainty}; the chance {claim} is {percent} %"
    return f"{certainty}, {percent} %"


def format_gain_or_loss(belief: f.Belief) -> str:
    """Format the range of a gain: "lower log loss by up to 0.009 or raise it by up to 0.002"."""
    gain = f"{belief.high:.3f}"
    loss = f"{-belief.low:.3f}"
    if belief.low >= 0:
        return f"lower log loss by {-float(loss):.3f} to {gain}"
    if belief.high <= 0:
        return f"raise log loss by {-float(gain):.3f} to {loss}"
    return f"lower log loss by up to {gain} or raise it by up to {loss}"


# Parameters in the form that users write


def parse_parameters(text: str) -> list[float]:
    """Parse parameters as Anki shows them: numbers separated by commas or blanks."""
    try:
        values = [float(number) for number in text.replace(",", " ").strip(" []").split()]
    except ValueError:
        raise InputError(
            f'"{text[:40]}" is not a list of FSRS parameters: give numbers separated by commas.'
        ) from None
    if not values:
        raise InputError("--params is empty: give 17, 19 or 21 numbers, or FSRS-7's 34.")
    return normalize_parameters(values)


def format_parameters(values: Sequence[float]) -> str:
    """Format parameters to be pasted into Anki's deck options."""
    return ", ".join(f"{value:.4f}" for value in values)


def format_month(month: str) -> str:
    """Format a calendar month: "October 2024" for "2024-10"; other text is unchanged."""
    year, _, number = month.partition("-")
    if not (year.isdigit() and number.isdigit()):
        return month
    return f"{calendar.month_name[int(number)]} {year}"


def format_day(iso: str) -> str:
    """Format a day, "2023-05-17": "17 May 2023"; other text is unchanged."""
    try:
        day = date.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{day.day} {calendar.month_abbr[day.month]} {day.year}"


# Renderers


@dataclass(frozen=True)
class Renderer:
    """Functions that format findings with one type of evidence.

    Without `line`, the first of the sentences is the line. The tables are figures behind the
    sentences, which an app may fold, unless `are_tables_the_answer`.
    """

    sentences: Callable[[Finding], Sequence[str]]
    line: Callable[[Sequence[Finding]], str] | None = None
    tables: Callable[[Finding], Sequence[Table]] = lambda _: ()
    clauses: Callable[[Finding], Sequence[str]] = lambda _: ()  # see `shown.clauses`
    are_tables_the_answer: bool = False


# Panes

LineLevel = f.CheckLevel | Literal[""]
"""Level that sets the colour: green for "fine", yellow for "look", grey for "not yet"."""


ACT_MARK = "●"
"""Symbol of a line that says what to do."""


@dataclass(frozen=True)
class PaneLine:
    """Line with a sentence, `symbol` before it and `right_text` at its right end."""

    text: str
    level: LineLevel = ""
    symbol: str = ""
    right_text: str = ""
    key_hint: str = ""  # hint about a key of the app, at the end of the line
    drop_order: int = 0  # if room is short, the largest is dropped first; 0 stays


@dataclass(frozen=True)
class Bar:
    """Bar with its figures: filled up to `share`, a range up to `range_end`, and a `marker`."""

    label: str
    figures: tuple[str, ...]
    share: float
    range_end: float = 0.0
    marker: float | None = None
    note: str = ""
    level: LineLevel = ""
    drop_order: int = 0


@dataclass(frozen=True)
class Heading:
    """Heading above the figures of bars."""

    label: str
    figures: tuple[str, ...]
    drop_order: int = 0


@dataclass(frozen=True)
class PresetRow:
    """Row of a preset: its name, the share remembered, what to do."""

    cells: tuple[str, ...]
    level: LineLevel = ""
    drop_order: int = 0


@dataclass(frozen=True)
class MonthFigure:
    """Reviews remembered in a month, in per cent; None in a month with too few reviews, or none."""

    name: str  # "Jul"
    year: str  # "’24" if one of the months is long ago, else ""
    remembered: int | None
    has_few_reviews: bool = False  # the last month is shown however few its reviews are

    @property
    def figure(self) -> str:
        """Return what stands below the month's bar: "91", "91?", "few", or "–" without reviews."""
        if self.remembered is None:
            return "few" if self.has_few_reviews else "–"
        return f"{self.remembered}{'?' if self.has_few_reviews else ''}"

    @property
    def label(self) -> str:
        return f"{self.name} {self.year}".strip()


@dataclass(frozen=True)
class MonthBars:
    """Reviews remembered by month, the latest last; a month with too few reviews is a gap."""

    months: tuple[MonthFigure, ...]
    drop_order: int = 0


@dataclass(frozen=True)
class CostCurve:
    """Minutes a day by the share remembered, for a window with room to draw it."""

    points: tuple[tuple[float, float], ...]  # shares remembered and minutes a day, shares rising
    current: tuple[float, float] | None  # today's schedule, if it is another one
    current_name: str
    drop_order: int = 9


PaneItem = PaneLine | Bar | Heading | PresetRow | MonthBars | CostCurve


@dataclass(frozen=True)
class Pane:
    """Question with its answer; `summary` replaces the items if there is room for one line."""

    title: str
    summary: PaneLine
    items: tuple[PaneItem, ...]
    questions: tuple[str, ...]  # questions whose findings it shows, the main one first
    subject: str = ""  # subject of the main finding, if there are several
    check_names: tuple[str, ...] = ()  # checks that acts follow from; the others are no evidence

    @property
    def answers(self) -> tuple[PaneLine, ...]:
        """Lines that answer the question by themselves: all acts, or else the summary."""
        acts = [
            item for item in self.items if isinstance(item, PaneLine) and item.symbol == ACT_MARK
        ]
        return tuple(acts) or (self.summary,)


@dataclass(frozen=True)
class FirstScreen:
    """First screen: five panes and the grey lines below them."""

    panes: tuple[Pane, ...]
    footer: tuple[PaneLine, ...]
    copyable: Finding | None = None  # the finding whose parameters pane 1 is about

    @property
    def titled_panes(self) -> list[tuple[str, Pane]]:
        """Return each pane with its title: "2 How well do I remember?".

        The number is part of it, because panes refer to one another ("see 2").
        """
        return [(f"{number} {pane.title}", pane) for number, pane in enumerate(self.panes, start=1)]
