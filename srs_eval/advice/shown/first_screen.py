"""The first screen in a person's words: five panes, each a question and its answer.

Findings in, small dataclasses of lines, bars and months out: app, report and command line lay the
same ones out. Numbers are "of 100" or minutes; what a pane leads to tells log losses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.sentences import FirstScreen, Item, Level, Line, Pane, Row
from srs_eval.advice.shown.costs import minutes
from srs_eval.advice.shown.habits import MARKS, check_line
from srs_eval.advice.shown.memory import remembered
from srs_eval.advice.shown.parameters import DO, is_unjudged, what_to_do
from srs_eval.advice.shown.predicted import standing_line
from srs_eval.advice.workload.estimate import TooFew, Workload
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import FEWEST_REVIEWS

WAITING = Line("…", "not yet")
TITLES = (
    *("What to do", "Do I remember what I asked for?", "What would it cost?"),
    *("One preset or several?", "Anything wrong?"),
)
_EXPECTED = "Do I remember what Anki expects?"
_BY_FSRS = "Do I remember what FSRS expects?"  # of a file that may be another program's
_COPIED = ("one line", "pooled")  # acts by which a preset gets numbers of ours
_FEW = "Too few reviews to say."
_NOTHING_LEFT = "Nothing is left to schedule."
_MOST_CHECKS = 5
_UNTOLD: Mapping[str, str] = {
    "says": "whether FSRS is right about you",
    "standing": "where you stand",
}
"""Questions that no pane tells."""


@dataclass(frozen=True)
class _Known:
    """Findings, and which questions are still open."""

    answers: Sequence[f.Finding]
    waiting: Collection[str]
    checks: Sequence[f.Check]
    rows: str
    gone: str

    def of(self, question: str) -> list[f.Finding]:
        return [each for each in self.answers if each.question == question]

    def open(self, question: str) -> bool:
        """Whether an answer is to come; that of one preset is none yet of all."""
        if question not in self.waiting:
            return False
        subjects = {each.subject for each in self.of(question)}
        return not subjects & {f.ALL_REVIEWS, "all presets"}

    def told(self, kind: type[f.E]) -> list[tuple[f.Finding, f.E]]:
        """Those with evidence of a kind, which it stands beside."""
        return [(e, e.evidence) for e in self.answers if isinstance(e.evidence, kind)]

    @property
    def presets(self) -> list[f.Finding]:
        """What to do with each, those with the most reviews first."""
        return [each for each, _ in self.told(f.OfPreset)]

    @property
    def fit(self) -> f.Finding | None:
        return next((each for each, _ in self.told(f.Fit)), None)


def first_screen(
    answers: Sequence[f.Finding],
    waiting: Collection[str] = (),
    checks: Sequence[f.Check] = (),
    *,
    rows: str = "anki",
    gone: str = "",
) -> FirstScreen:
    """The five panes of what is known; questions `waiting` have no (whole) answer yet.

    `checks`: of all answers, worst first; `rows`: which reviews it rests on, "anki" or
    "benchmark"; `gone`: what is said of nearly all cards, where they are no longer there.
    """
    known = _Known(answers, waiting, checks, rows, gone)
    what_to_do, copied = _what_to_do(known)
    panes = (what_to_do, _remembered(known), _costs(known), _presets(known), _wrong(known))
    return FirstScreen(panes, tuple(_below(known)), copied)


def _pane(number: int, items: Sequence[Item], *questions: str, subject: str = "") -> Pane:
    short = next((each for each in items if isinstance(each, Line)), WAITING)
    return Pane(TITLES[number - 1], short, tuple(items), questions, subject)


# 1 What to do


def _what_to_do(known: _Known) -> tuple[Pane, f.Finding | None]:
    questions = ("parameters", "health", "fit")
    if known.open("fit") or (known.open("parameters") and not known.of("split")):
        return _pane(1, [WAITING], *questions), None
    for each, left_out in known.told(f.LeftOut):
        line = Line(left_out.sentence, "look", "●")
        return _pane(1, [line], *questions, subject=each.subject), None
    items: list[Item]
    if known.gone:
        was = Line(f"  {known.gone} This is about how it was.")
        return _pane(1, [Line("Nothing to do.", "look", "●"), was], *questions), None
    presets, fit = known.presets, known.fit
    if not presets:
        reasons = known.told(f.Unanswered)
        why = f": {reasons[0][1].reason}" if reasons else ""
        return _pane(1, [Line(f"Nothing can be told{why}.", "not yet")], *questions), None
    off = fit is not None and fit.act in ("turn on", "SM-2")
    chosen, about = _worth_most(presets), presets[0]
    name = say.quoted(chosen.subject) if chosen is not None and len(presets) > 1 else ""
    if fit is not None and fit.act == "SM-2":
        chosen, items = None, [_sure("Leave FSRS off.", fit.probability)]
    elif fit is not None and off:
        do = "" if chosen is None else f" and {_do(chosen.act, name)}"
        items = [_sure(f"Turn FSRS on{do}.", fit.probability)]
    elif chosen is not None and fit is not None and f.of(fit, f.Fit).now is not None:
        return _of_another_program(chosen, fit, questions)
    elif chosen is not None:
        do = _do(chosen.act, name)
        is_known = isinstance(chosen.evidence, f.OfPreset) and chosen.evidence.known
        do = say.capital(do) if is_known else f"With FSRS on in Anki, {do}"
        items = [_sure(f"{do}.", chosen.probability)]
    elif all(map(is_unjudged, presets)):
        said = "Too few reviews to judge your numbers by. Go on reviewing."
        items = [Line("Change nothing yet.", "not yet", "●"), Line(f"  {said}", spare=1)]
    else:
        either = [each for each in presets if each.act != f.KEEP]
        about = min(either or presets, key=lambda each: each.probability or 0.0)
        said = "Your parameters are as good as others would be."
        if either:
            said = "Optimizing may help or not; neither is a mistake."
        items = [_sure("Change nothing.", about.probability), Line(f"  {said}", spare=1)]
    if chosen is not None:
        items += [_where(chosen, len(presets)), *_same(chosen, presets)]
    elif fit is not None and fit.act == "turn on":
        items.append(Line("  Deck options › FSRS"))
    subject = "" if off else (chosen or about).subject
    first = questions[1:] if off else questions
    return _pane(1, items, *first, subject=subject), chosen


def _of_another_program(
    chosen: f.Finding, fit: f.Finding, questions: Sequence[str]
) -> tuple[Pane, f.Finding | None]:
    """FSRS against what schedules now."""
    now = f.of(fit, f.Fit).now
    assert now is not None
    if now.verdict == "worse":
        return _pane(1, [_sure(f"Stay with {now.name}.", f.SURE)], *questions), None
    items: list[Item] = [
        _sure("If you use FSRS, give it numbers fitted to you.", chosen.probability)
    ]
    if now.verdict == "better" and f.of(fit, f.Fit).says not in ("no better", "worse"):
        items = [_sure(f"Change from {now.name} to FSRS, with numbers fitted to you.", f.SURE)]
    items.append(Line("  They go into its field for FSRS parameters", key="y copies the line"))
    return _pane(1, items, *questions, subject=chosen.subject), chosen


def _sure(act: str, chance: float | None) -> Line:
    probability = chance or 0.0
    level: Level = "fine" if probability >= f.LIKELY else ""
    return Line(act, level, "●", f"{say.sureness(probability)} {say.dots(probability)}")


def _worth_most(presets: Sequence[f.Finding]) -> f.Finding | None:
    worth = [each for each in presets if each.parameters]
    gains = [(each.probability or 0.0) * (each.gain or 0.0) for each in worth]
    return worth[gains.index(max(gains))] if worth else None


def _do(act: str, name: str) -> str:
    """ "press Optimize for “Maps”"; the only preset needs no name."""
    if act in _COPIED:
        return f"copy a line of numbers into {name or 'your preset'}"
    if act == "defaults":
        return f"go back to the default numbers{name and f' in {name}'}"
    return f"{DO[act]}{name and f' for {name}'}"


def _same(chosen: f.Finding, presets: Sequence[f.Finding]) -> Iterator[Line]:
    """What other presets gain by: the same, or another act."""
    by_act: dict[str, list[str]] = {}
    for each in presets:
        if each is not chosen and each.parameters:
            by_act.setdefault(each.act, []).append(say.quoted(each.subject))
    said = ""
    for act in sorted(by_act, key=lambda act: act != chosen.act):
        names = say.listed(by_act[act])
        same = act == chosen.act != "pooled"
        said += f" The same for {names}." if same else f" {say.capital(_do(act, names))}."
    if said:
        yield Line(f" {said}", spare=1)


def _where(finding: f.Finding, presets: int) -> Line:
    """Where in Anki; the preset has its name here if it is the only one."""
    name = "" if presets > 1 or finding.subject == f.ALL_REVIEWS else f"preset {finding.subject} › "
    at = f"  Deck options › FSRS › {name}"
    if finding.act in _COPIED or finding.act == "defaults":
        return Line(f"{at}FSRS parameters", key="y copies the line")
    return Line(f"{at}Optimize", key="y copies the numbers")


# 2 Do I remember what I asked for?


def _remembered(known: _Known) -> Pane:
    """Of all presets; without any against FSRS fitted to the time before, by months."""
    found = {each.subject: evidence for each, evidence in known.told(f.Retention)}
    is_asked = any(each.desired is not None for each in found.values())
    question, title = "retention", TITLES[1] if is_asked or known.open("retention") else _EXPECTED
    months = None
    if known.rows != "anki":
        question, title = "time", _BY_FSRS
        months = next((evidence for _, evidence in known.told(f.Months)), None)
    made = remembered(found, months, known.checks, of_gone_cards=bool(known.gone))
    if made is None:
        line = WAITING if known.open(question) else Line(_FEW, "not yet")
        return Pane(title, line, (line,), (question,))
    return Pane(title, made[0], made[1], (question,))


# 3 What would it cost?


def _costs(known: _Known) -> Pane:
    for _, found in known.told(Workload):
        is_part = len(found.presets) < len(known.presets)
        short, items = minutes(found, is_one_of_several=is_part)
        subject = found.preset if len(found.presets) == 1 else ""
        return Pane(TITLES[2], short, items, ("costs",), subject)
    if known.open("costs"):
        return _pane(3, [WAITING], "costs")
    return _pane(3, [Line(_no_costs(known), "not yet")], "costs")


def _no_costs(known: _Known) -> str:
    if known.gone:
        return _NOTHING_LEFT
    if known.rows != "anki":
        return "Only an Anki collection tells that."
    few = next((each for each, _ in known.told(TooFew)), None)
    if few is None:
        unknown = "Nobody knows how these cards are scheduled."
        return _FEW if _is_unanswered(known, "parameters") else unknown
    said = f"You have {counted(few.reviews, 'usable review')}; this needs {FEWEST_REVIEWS:,}"
    if few.missing is not None and few.missing.date is not None:
        when = say.by_when(few.missing).removeprefix("by ").removesuffix(" at your pace")
        said = f"{few.reviews:,} of {FEWEST_REVIEWS:,} usable reviews; come back {when}"
    return f"{said}."


def _is_unanswered(known: _Known, question: str) -> bool:
    return any(isinstance(each.evidence, f.Unanswered) for each in known.of(question))


# 4 One preset or several?


def _presets(known: _Known) -> Pane:
    questions = ("split", "parameters")
    split = known.told(f.Sharing)
    if any(map(known.open, questions)):
        return _pane(4, [WAITING], *questions)
    if not split:
        why = _NOTHING_LEFT if known.gone else "This file names no presets."
        why = _FEW if _is_unanswered(known, "split") else why
        return _pane(4, [Line(why, "not yet")], *questions)
    finding, sharing = split[0]
    first = Line(_sharing(finding, sharing))
    rows: list[Row] = []
    if sharing.parts > 1:  # those to change stay longest
        kept = sorted(known.presets, key=lambda each: not each.parameters)
        rows = [replace(_row(e, known), spare=kept.index(e) + 1) for e in known.presets]
    short = Line(first.text.partition(" Keeping")[0])
    return Pane(TITLES[3], short, (first, *rows), questions)


def _sharing(finding: f.Finding, evidence: f.Sharing) -> str:
    n = evidence.parts
    if evidence.says == f.RUNS_FSRS_7:
        return f"Keep your {n}; whether they could share FSRS-7 parameters is not told."
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


def _row(finding: f.Finding, known: _Known) -> Row:
    said = ""
    for found in (e for each, e in known.told(f.Retention) if each.subject == finding.subject):
        part, desired = found.parts[0], found.desired
        said = say.whole_of_100(part.recalled.estimate)
        aim = "expected" if desired is None else "asked"
        said += f", {aim} {say.whole_of_100(part.expected if desired is None else desired)}"
    stays_off = known.fit is not None and known.fit.act == "SM-2"
    act = "leave" if stays_off else what_to_do(finding)
    return Row((finding.subject, said, act), "" if act == "leave" else "fine")


# 5 Anything wrong?


def _wrong(known: _Known) -> Pane:
    if known.open("wrong") or not known.checks:
        return _pane(5, [WAITING], "wrong")
    told = [each for each in known.checks if each.level != "not yet"]
    if not told:
        return _pane(5, [Line(_FEW, "not yet")], "wrong")
    shown = [
        Line(check_line(each), each.level, MARKS[each.level], spare=place)
        for place, each in enumerate(told[:_MOST_CHECKS])
    ]
    looks = "; ".join(check_line(each) for each in known.checks if each.level == "look")
    short = Line(looks, "look", "!") if looks else Line("Nothing that your reviews show.", "fine")
    return Pane(TITLES[4], short, tuple(shown), ("wrong",))


# Below


def _below(known: _Known) -> Iterable[Line]:
    for each, _ in known.told(f.Standings):
        yield Line(f"Where you stand: {standing_line([each])}.")
    untold = []
    for question, words in _UNTOLD.items():
        found = [] if known.open(question) else known.of(question)
        untold += [words] * bool(found and all(map(_needs_reviews, found)))
    if untold:
        yield Line(f"Too few reviews to say yet: {' · '.join(untold)}", "not yet")


def _needs_reviews(finding: f.Finding) -> bool:
    """Whether it can be told with more reviews alone."""
    is_lacking = finding.missing is not None and finding.missing != f.Missing()
    return isinstance(finding.evidence, f.Unanswered) or (finding.says == f.OPEN and is_lacking)
