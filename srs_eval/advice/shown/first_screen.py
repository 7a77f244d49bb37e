"""The first screen in a person's words: five panes, each a question and its answer.

Findings in, small dataclasses of lines, bars and months out: app, report and command line lay the
same ones out. Numbers are "of 100" or minutes; what a pane leads to tells log losses.
"""

from __future__ import annotations

import calendar
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from rich.cells import cell_len, set_cell_size

from srs_eval.advice.findings import (
    ALL_REVIEWS,
    FEWEST_SHOWN,
    KEEP,
    LIKELY,
    OPEN,
    Check,
    Finding,
    Fit,
    LeftOut,
    Months,
    OfPreset,
    Part,
    Retention,
    Sharing,
    Standings,
    Unanswered,
)
from srs_eval.advice.sentences import by_when, dots, listed, sureness
from srs_eval.advice.shown.checks import MARKS, check_line
from srs_eval.advice.shown.parameters import is_worth, what_to_do
from srs_eval.advice.shown.predicted import standing_line
from srs_eval.advice.tables import Bar, ByMonth, FirstScreen, Heading, Item, Level, Line, Pane, Row
from srs_eval.advice.workload.estimate import GLANCED, MINUTES, TooFew, Workload
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import FEWEST_REVIEWS

WAITING = Line("…", "not yet")
TITLES = (
    "What to do",
    "Do I remember what I asked for?",
    "What would it cost? Minutes a day",
    "One preset or several?",
    "Anything wrong?",
)
_EXPECTED = "Do I remember what Anki expects?"
_BY_FSRS = "Do I remember what FSRS expects?"  # of a file that may be another program's
_COPIED = ("one line", "pooled")  # acts by which a preset gets numbers of ours
_OTHERS: Mapping[str, str] = {
    **{"optimize": "Press Optimize", "one line": "A line of numbers"},
    **{"pooled": "A line of its own", "defaults": "Default numbers"},
}
_GONE = "  Nearly all that you reviewed is suspended or deleted: this speaks of what it was."
_NAME = 20  # columns of a preset's name in a sentence
_MOST_CHECKS = 5
_PARTS = {"all": "all", "young cards": "young cards", "mature cards": "old cards"}
_POINTS = 2  # of 100: less short of what was asked for is no matter
_FEWEST_OF_MONTH = 30  # reviews for a month to be shown
_UNTOLD: Mapping[str, str] = {
    "often": "how often to optimize",
    "day": "your day",
    "time": "the latest month",
    "says": "whether 90 of 100 means 90",
    "standing": "where you stand",
}
"""Questions that no pane tells."""


@dataclass(frozen=True)
class _Known:
    """Findings by question, and which questions are still open."""

    answers: Sequence[Finding]
    waiting: Collection[str]
    checks: Sequence[Check]
    rows: str
    gone: bool
    by_question: dict[str, list[Finding]] = field(default_factory=dict)

    def of(self, question: str) -> list[Finding]:
        return self.by_question.get(question, [])

    def open(self, question: str) -> bool:
        """Whether an answer is to come; that of one preset is none yet of all."""
        if question not in self.waiting:
            return False
        stated = {each.subject for each in self.of(question)}
        return not stated & {ALL_REVIEWS, "all presets"}

    @property
    def presets(self) -> list[Finding]:
        """What to do with each, those with the most reviews first."""
        return [each for each in self.of("parameters") if isinstance(each.evidence, OfPreset)]

    @property
    def fit(self) -> Finding | None:
        return next((each for each in self.of("fit") if isinstance(each.evidence, Fit)), None)


def first_screen(
    answers: Sequence[Finding],
    waiting: Collection[str] = (),
    checks: Sequence[Check] = (),
    *,
    rows: str = "anki",
    gone: bool = False,
) -> FirstScreen:
    """The five panes of what is known; questions `waiting` have no (whole) answer yet.

    `checks`: of all answers, worst first; `rows`: which reviews it rests on, "anki" or
    "benchmark"; `gone`: nearly all that was reviewed is suspended or deleted.
    """
    known = _Known(answers, waiting, checks, rows, gone)
    for each in answers:
        known.by_question.setdefault(each.question, []).append(each)
    what_to_do, copied = _what_to_do(known)
    panes = (what_to_do, _remembered(known), _costs(known), _presets(known), _wrong(known))
    return FirstScreen(panes, tuple(_below(known)), copied)


def _pane(number: int, items: Sequence[Item], *questions: str, subject: str = "") -> Pane:
    short = next((each for each in items if isinstance(each, Line)), WAITING)
    return Pane(TITLES[number - 1], short, tuple(items), questions, subject)


# 1 What to do


def _what_to_do(known: _Known) -> tuple[Pane, Finding | None]:
    questions = ("parameters", "health", "fit")
    if known.open("fit") or (known.open("parameters") and not known.of("split")):
        return _pane(1, [WAITING], *questions), None
    for each in known.of("parameters"):
        if isinstance(each.evidence, LeftOut):
            line = Line(each.evidence.sentence, "look", "●")
            return _pane(1, [line], *questions, subject=each.subject), None
    presets, fit = known.presets, known.fit
    if not presets:
        reasons = [e.evidence for e in known.answers if isinstance(e.evidence, Unanswered)]
        why = f": {reasons[0].reason}" if reasons else ""
        return _pane(1, [Line(f"Nothing can be told{why}.", "not yet")], *questions), None
    off = fit is not None and fit.act in ("turn on", "SM-2")
    chosen = _worth_most(presets)
    items: list[Item] = []
    if fit is not None and fit.act == "SM-2":
        chosen, items = None, [_sure("Leave FSRS off.", fit.probability)]
    elif fit is not None and off:
        do = "" if chosen is None else f" and {_do(chosen, len(presets))}"
        items = [_sure(f"Turn FSRS on{do}.", fit.probability)]
    elif chosen is not None:
        do = _do(chosen, len(presets))
        is_known = isinstance(chosen.evidence, OfPreset) and chosen.evidence.known
        do = f"{do[0].upper()}{do[1:]}" if is_known else f"With FSRS on in Anki, {do}"
        items = [_sure(f"{do}.", chosen.probability)]
    else:
        either = [each for each in presets if each.act != KEEP]
        chance = min(each.probability or 0.0 for each in either or presets)
        said = "Your parameters are as good as others would be."
        if either:
            said = "To press Optimize may help or not; neither is a mistake."
        items = [_sure("Change nothing.", chance), Line(f"  {said}", spare=1)]
    if chosen is not None:
        items += [_where(chosen, len(presets)), *_same(chosen, presets)]
    elif fit is not None and fit.act == "turn on":
        items.append(Line("  Deck options › FSRS"))
    if known.gone:
        items.append(Line(_GONE, "look", spare=1))
    subject = "" if off else (chosen or presets[0]).subject
    first = questions[1:] if off else questions
    return _pane(1, items, *first, subject=subject), chosen


def _sure(act: str, chance: float | None) -> Line:
    probability = chance or 0.0
    level: Level = "fine" if probability >= LIKELY else ""
    return Line(act, level, "●", f"{sureness(probability)} {dots(probability)}")


def _worth_most(presets: Sequence[Finding]) -> Finding | None:
    worth = [each for each in presets if is_worth(each)]
    gains = [(each.probability or 0.0) * (each.gain or 0.0) for each in worth]
    return worth[gains.index(max(gains))] if worth else None


def _named(preset: str) -> str:
    if cell_len(preset) > _NAME:
        preset = f"{set_cell_size(preset, _NAME - 1).rstrip()}…"
    return f"“{preset}”"


def _do(finding: Finding, presets: int) -> str:
    """ "press Optimize for “Maps”"; the only preset needs no name."""
    name = _named(finding.subject) if presets > 1 else ""
    if finding.act in _COPIED:
        return f"copy a line of numbers into {name or 'your preset'}"
    if finding.act == "defaults":
        return f"go back to the default numbers{name and f' in {name}'}"
    return f"press Optimize{name and f' for {name}'}"


def _same(chosen: Finding, presets: Sequence[Finding]) -> Iterator[Line]:
    """What other presets gain by: the same, or another act."""
    by_act: dict[str, list[str]] = {}
    for each in presets:
        if each is not chosen and is_worth(each):
            by_act.setdefault(each.act, []).append(_named(each.subject))
    said = [
        f"{'The same' if act == chosen.act != 'pooled' else _OTHERS[act]} for {listed(names)}."
        for act, names in sorted(by_act.items(), key=lambda each: each[0] != chosen.act)
    ]
    if said:
        yield Line(f"  {' '.join(said)}", spare=1)


def _where(finding: Finding, presets: int) -> Line:
    """Where in Anki; the preset has its name here if it is the only one."""
    name = "" if presets > 1 or finding.subject == ALL_REVIEWS else f"preset {finding.subject} › "
    at = f"  Deck options › FSRS › {name}"
    if finding.act in _COPIED or finding.act == "defaults":
        return Line(f"{at}FSRS parameters", key="y copies the line")
    return Line(f"{at}Optimize", key="y copies the numbers")


# 2 Do I remember what I asked for?


def _remembered(known: _Known) -> Pane:
    """Of all presets; without any against FSRS fitted to the time before, by months."""
    by_preset = {
        each.subject: each.evidence
        for each in known.of("retention")
        if isinstance(each.evidence, Retention)
    }
    found = list(by_preset.values())
    asked = [each for each in found if each.desired is not None]
    months = [each.evidence for each in known.of("time") if isinstance(each.evidence, Months)]
    title = TITLES[1] if asked else _EXPECTED
    question = "retention"
    if known.rows != "anki":
        title, question = _BY_FSRS, "time"
    parts = _together([each.parts for each in found])
    if question == "time" and months:
        of_months = [Part(each.name, each.recalled, each.predicted) for each in months[0].months]
        parts = {"all": _sum(of_months)} | {each.name: each for each in of_months}
    if not parts:
        line = WAITING if known.open(question) else Line("Too few reviews to say.", "not yet")
        title = TITLES[1] if known.open("retention") else title
        return Pane(title, line, (line,), (question,))
    counts = [each.parts[0].recalled.reviews for each in asked]
    desired = np.average([each.desired or 0.0 for each in asked], weights=counts) if asked else None
    whole = parts["all"]
    short_ones = [name for name, each in by_preset.items() if each.says == "below"]
    points = round(100 * (desired or 0.0)) - round(100 * whole.recalled.estimate)
    old = (each.level for each in known.checks if each.name == "old cards")
    looks = {"mature cards": "look" in old, "all": bool(short_ones) and points >= _POINTS}
    columns = ("you", "expected") if desired is None else ("you", "asked", "expected")
    items: list[Item] = [Heading("of 100 reviews", columns)]
    for name, label in _PARTS.items():
        if name in parts and (name != "young cards" or "mature cards" in parts):
            items.append(_bar(label, parts[name], desired, looks.get(name, False)))
    why, level = _why(found, parts, looks, points)
    if short_ones and not looks["all"]:
        worst = by_preset[short_ones[0]]
        remembered, wanted = worst.parts[0].recalled.estimate, worst.desired or 0.0
        why = (
            f"{_named(short_ones[0])} falls short: {_of_100(remembered)}, asked {_of_100(wanted)}."
        )
        level = "look"
    if whole.recalled.reviews < FEWEST_SHOWN:
        few = counted(whole.recalled.reviews, "review")
        why, level = f"Of {few} on a later day: too few to evaluate.", "not yet"
    if why:
        items.append(Line(why, level, spare=1))
    shown = tuple(
        (_month(name), round(100 * part.recalled.estimate))
        for name, part in parts.items()
        if name[-1:].isdigit() and part.recalled.reviews >= _FEWEST_OF_MONTH
    )
    if shown:
        items.append(ByMonth(shown, spare=2))
    other = f"{_of_100(whole.expected)} were expected"
    other = other if desired is None else f"you asked for {_of_100(desired)}"
    short = f"of 100 reviews you remember {_of_100(whole.recalled.estimate)}; {other}."
    return Pane(title, Line(short), tuple(items), (question,))


def _bar(label: str, part: Part, desired: float | None, is_off: bool) -> Bar:
    figures = [part.recalled.estimate, *([desired] if desired is not None else []), part.expected]
    aim = part.expected if desired is None else desired
    bar = Bar(label, tuple(map(_of_100, figures)), part.recalled.estimate, tick=aim)
    spare = 3 if label == "young cards" else 0
    return replace(bar, note="◀ look", level="look") if is_off else replace(bar, spare=spare)


def _why(
    found: Sequence[Retention], parts: Mapping[str, Part], looks: Mapping[str, bool], points: int
) -> tuple[str, Level]:
    """What makes for the difference from what was asked for, or from what was expected."""
    asked = [each for each in found if each.desired is not None]
    if looks["all"]:
        weights = [each.parts[0].recalled.reviews for each in asked]
        late = -100 * np.average([each.timing.estimate for each in asked], weights=weights)
        much = -100 * np.average([each.expecting.estimate for each in asked], weights=weights)
        said = f"Cards came late ({late:.0f} points), and FSRS expects too much ({much:.0f})."
        if late >= 3 * much:
            said = f"Most cards came late ({min(round(late), points)} of the {points} points)."
        elif much >= 3 * late:
            said = f"FSRS expects too much ({min(round(much), points)} of the {points} points)."
        return said, "look"
    old = parts.get("mature cards")
    if looks["mature cards"] and old is not None:
        times = (1 - old.recalled.estimate) / max(1 - old.expected, 0.01)
        how = "twice as often as" if 1.75 <= times < 2.5 else "more often than"
        return f"Old cards are forgotten {how} expected.", "look"
    if asked and all(each.says in ("no matter", "above") for each in found):
        return "You remember as much as you asked for.", "fine"
    return "", ""


def _together(found: Sequence[Sequence[Part]]) -> dict[str, Part]:
    """The parts of all presets, months in their order."""
    by_name: dict[str, list[Part]] = {}
    for part in (part for parts in found for part in parts):
        by_name.setdefault(part.name, []).append(part)
    return {name: _sum(by_name[name]) for name in sorted(by_name)}


def _sum(parts: Sequence[Part]) -> Part:
    first, n = parts[0], [each.recalled.reviews for each in parts]
    mean = np.average([each.recalled.estimate for each in parts], weights=n)
    half = np.average([each.recalled.half_width for each in parts], weights=n)
    expected = np.average([each.expected for each in parts], weights=n)
    recalled = type(first.recalled)(mean, half, sum(n), first.recalled.days)
    return Part(first.name, recalled, expected)


def _month(name: str) -> str:
    """ "Oct" for "2024-10", "day 31" for "days 31-60"."""
    year, _, number = name.partition("-")
    if year.isdigit() and number.isdigit():
        return calendar.month_abbr[int(number)]
    return f"day {year.removeprefix('days ')}"


def _of_100(share: float) -> str:
    return f"{100 * share:.0f}"


# 3 What would it cost?


def _costs(known: _Known) -> Pane:
    for each in known.of("costs"):
        if isinstance(each.evidence, Workload):
            return _minutes(each.evidence, known)
    if known.open("costs"):
        return _pane(3, [WAITING], "costs")
    return _pane(3, [Line(_no_costs(known), "not yet")], "costs")


def _no_costs(known: _Known) -> str:
    if known.gone:
        return "Nothing: cards suspended or deleted."
    if known.rows != "anki":
        return "Only an Anki collection tells that."
    most = max(known.of("retention"), key=lambda each: each.reviews, default=None)
    if most is not None and any(isinstance(each.evidence, TooFew) for each in known.of("costs")):
        dated = [e.missing for e in (most, *known.of("fit")) if e.missing and e.missing.date]
        when = by_when(dated[0]).removeprefix("by ").removesuffix(" at your pace") if dated else ""
        come = when and f"; come back {when}"
        return f"{most.reviews:,} of the {FEWEST_REVIEWS:,} reviews this needs{come}."
    return "Nobody knows how these cards are scheduled."


def _minutes(found: Workload, known: _Known) -> Pane:
    figures, (low, high) = found.figures[:, MINUTES], (end[:, MINUTES] for end in found.band)
    now = found.as_now
    most = max(float(high.max()), now[MINUTES] if now else 0.0, 1e-9)
    items: list[Item] = [Heading("once optimized", ("minutes",), spare=2)]
    for place, retention in enumerate(found.retentions):
        if found.is_off and retention not in GLANCED:  # nobody asked for it
            continue
        is_now = retention == found.desired and not found.is_off
        said, *span = (_minutes_in_words(float(each[place])) for each in (figures, low, high))
        said += f" ({'-'.join(span)})" if span[0] != span[1] else ""
        first = " of 100" if place == 0 else ""
        label = f"{_of_100(retention)}{first}{' (yours)' if is_now else ''}"
        share, until = float(figures[place]) / most, float(high[place]) / most
        spare = 0 if is_now or retention > 0.8 else 1
        items.append(Bar(label, (said,), share, until, spare=spare))
    here = found.at(found.desired)
    short = f"{_minutes_in_words(float(figures[here]))} at {_of_100(found.desired)} of 100"
    if now is not None:
        name = "SM-2, as now" if found.is_off else f"now, at {_of_100(found.desired)}"
        said = _minutes_in_words(now[MINUTES])
        items.append(Bar(name, (said,), now[MINUTES] / most, level="not yet"))
        short += f"; {name}: {said}"
    cards = f"{counted(found.learned, 'card')}"
    if found.unseen and found.new_a_day:
        cards += f" and {min(found.unseen, found.new_a_day * found.question.days):,} new ones"
    is_one_of_several = len(found.presets) < len(known.presets)
    of_preset = f" of {_named(found.preset)}" if is_one_of_several else ""
    lately = f"{found.done_a_day:,} reviews a day lately"
    items.append(Line(f"With your {cards}{of_preset}; {lately}.", spare=1))
    subject = found.preset if len(found.presets) == 1 else ""
    return Pane(TITLES[2], Line(f"{short}."), tuple(items), ("costs",), subject)


def _minutes_in_words(minutes: float) -> str:
    return f"{minutes:,.0f}" if minutes >= 9.95 else f"{minutes:.1f}"


# 4 One preset or several?


def _presets(known: _Known) -> Pane:
    questions = ("split", "parameters")
    split = next((e for e in known.of("split") if isinstance(e.evidence, Sharing)), None)
    if any(map(known.open, questions)):
        return _pane(4, [WAITING], *questions)
    if split is None or not isinstance(split.evidence, Sharing):
        why = "All are suspended or deleted." if known.gone else "This file names no presets."
        return _pane(4, [Line(why, "not yet")], *questions)
    first = Line(_sharing(split, split.evidence))
    rows: list[Row] = []
    if split.evidence.parts > 1:  # those to change stay longest
        found = sorted(known.presets, key=lambda each: not is_worth(each))
        rows = [replace(_row(each, known), spare=k) for k, each in enumerate(found, start=1)]
    short = Line(first.text.partition(" Keeping")[0])
    return Pane(TITLES[3], short, (first, *rows), questions)


def _sharing(finding: Finding, evidence: Sharing) -> str:
    n = evidence.parts
    if n == 1:
        return "You have one. Keep it."
    match finding.act:
        case "keep shared":
            return f"Your {n} presets forget alike: one is enough. Keeping {n} does no harm."
        case "split":
            return f"Your {n} presets forget differently: keep them apart."
        case "pooled":
            return f"Too close to call: keep your {n}, with numbers drawn to each other."
    return f"Keep your {n}; too few reviews to compare them."


def _row(finding: Finding, known: _Known) -> Row:
    stated = next((e for e in known.of("retention") if e.subject == finding.subject), None)
    remembered = ""
    if stated is not None and isinstance(stated.evidence, Retention):
        part, desired = stated.evidence.parts[0], stated.evidence.desired
        remembered = f"{_of_100(part.recalled.estimate)} of {_of_100(desired or part.expected)}"
    stays_off = known.fit is not None and known.fit.act == "SM-2"
    act = "leave" if stays_off else what_to_do(finding)
    return Row((finding.subject, remembered, act), "" if act == "leave" else "fine")


# 5 Anything wrong?


def _wrong(known: _Known) -> Pane:
    if known.open("wrong") or not known.checks:
        return _pane(5, [WAITING], "wrong")
    shown = [
        Line(check_line(each), each.level, MARKS[each.level], spare=place)
        for place, each in enumerate(known.checks[:_MOST_CHECKS])
    ]
    looks = "; ".join(check_line(each) for each in known.checks if each.level == "look")
    short = Line(looks, "look", "!") if looks else Line("Nothing that your reviews show.", "fine")
    return Pane(TITLES[4], short, tuple(shown), ("wrong",))


# Below


def _below(known: _Known) -> Iterable[Line]:
    for each in known.of("standing"):
        if isinstance(each.evidence, Standings):
            yield Line(f"Where you stand: {standing_line([each])}.".replace(" learners", ""))
    untold = [
        words
        for question, words in _UNTOLD.items()
        if known.of(question)
        and not known.open(question)
        and all(each.says in (OPEN, "no answer") for each in known.of(question))
    ]
    if untold:
        yield Line(f"Not enough reviews to say yet: {' · '.join(untold)}", "not yet")
