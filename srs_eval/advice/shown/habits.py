"""What is said of how often to optimize, noise, buttons, learning steps: "Anything wrong?"."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise

from srs_eval.advice import findings as f
from srs_eval.advice import sentences as say
from srs_eval.advice.findings import Finding, of
from srs_eval.advice.sentences import Renderer, Table, percent
from srs_eval.data.errors import counted

# How often


def _often_line(findings: Sequence[Finding]) -> str:
    """ "every +25 % of reviews is as good as always: Maps; every +10 % … is safe for …: Words"."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for each in findings:
        why = "as good as always" if of(each, f.Often).says == "as good" else "safe for everybody"
        subjects.setdefault(f"{each.act} of reviews, {why}", []).append((each.subject, ""))
    return say.in_groups(subjects) if len(subjects) > 1 else next(iter(subjects))


def _often_sentences(finding: Finding) -> list[str]:
    """How often is enough, and what that is held against."""
    first, reviews = f"Optimize at {_often_line([finding])}.", counted(finding.reviews, "review")
    if not of(finding, f.Often).costs:
        return [first, f"{reviews} are too few to tell what is enough for you."]
    return [
        first,
        f"Held against optimizing at every +2 %, on the {reviews} after the first fit.",
    ]


def _often_tables(finding: Finding) -> list[Table]:
    """What each way costs."""
    rows = tuple((each.name, each.difference, each.verdict) for each in of(finding, f.Often).costs)
    title = f"{finding.subject}: optimizing less often"
    return [Table(title, ("optimizing", "minus every +2 %", "verdict"), rows)] if rows else []


# Noise


def _noise_sentences(finding: Finding) -> list[str]:
    """How many parameters are noise, and which."""
    if finding.missing is not None:
        return [f"Can't tell yet: {say.lacks(finding.missing)}."]
    noisy = [f"w{k}" for k, each in enumerate(of(finding, f.Noise).parameters) if each.is_noise]
    named = f" ({', '.join(noisy)})" if noisy else ""
    return [
        f"{finding.says} parameters are noise{named}: other days would have moved them by more "
        "than half of what learners differ by."
    ]


def _noise_tables(finding: Finding) -> list[Table]:
    """The parameters and how far they move."""
    rows = tuple(
        (f"w{k}", each.fitted, each.over_days, each.of_learners, "noise" * each.is_noise)
        for k, each in enumerate(of(finding, f.Noise).parameters)
    )
    columns = ("parameter", "fitted", "over days", "learners", "")
    title = f"{finding.subject}: parameters and their standard deviations"
    return [Table(title, columns, rows)] if rows else []


# Hard


def _hard_line(findings: Sequence[Finding]) -> str:
    """ "used as it should be"."""
    return {
        "yes": "behaves like Again: press Again for what you have forgotten",
        "no": "used as it should be",
        "seldom": "hardly ever pressed, too seldom to matter",
        f.OPEN: f"can't tell yet whether it behaves like Again ({say.lacks(findings[0].missing)})",
    }[of(findings[0], f.Hard).says]


def _hard_sentences(finding: Finding) -> list[str]:
    """Whether it behaves like Again, and how often it is pressed."""
    found = of(finding, f.Hard)
    said = [f"Hard, {percent(found.share)} of your answers to reviews: {_hard_line([finding])}."]
    if finding.interval is not None:
        gain = f"{say.better_by(finding.interval.estimate)} {say.sure(finding.interval)}"
        said.append(f"Were it Again in the past, log loss would be {gain}.")
    return said


def _hard_tables(finding: Finding) -> list[Table]:
    """What is recalled after each button."""
    rows = tuple(
        (each.button, each.bias.reviews, each.recalled, each.bias)
        for each in of(finding, f.Hard).after
    )
    columns = ("last button", "reviews", "recalled", "minus recalled")
    title = "The review after each button: recalled, and expected minus recalled"
    return [Table(title, columns, rows)] if rows else []


# Steps

_UNKNOWN = {
    "few": "too few answers",
    "alike": "the delays hardly vary",
    "no curve": "recall does not fall as on the curve",
}


def _steps_sentences(finding: Finding) -> list[str]:
    """Which steps to change and why; which to keep; of which it can't be told."""
    found = of(finding, f.Steps)
    said = []
    for says in ("longer", "shorter"):
        for each in (each for each in found.steps if each.says == says):
            until = f"{percent(found.desired, 0)} are recalled until {_until(each)}"
            yours = "" if each.step is None else f", your step is {_duration(each.step)}"
            said.append(f"{says.capitalize()} after {_article(each)}: {until}{yours}.")
    for says, words in (("as it is", "As it is"), (f.OPEN, "Can't tell")):
        after = [_article(each) for each in found.steps if each.says == says]
        said += [f"{words} after {say.listed(after)}."] if after else []
    return said or ["Can't tell: no card has been answered twice on a day."]


def _until(step: f.Step) -> str:
    """When recall is as desired, as far as the delays so far show."""
    assert step.delay is not None
    assert step.seen is not None
    estimate, low, high = step.delay
    if high < step.seen[0]:
        return f"less than {_duration(step.seen[0])}, the shortest delays so far"
    if low > step.seen[1]:
        return f"more than {_duration(step.seen[1])}, the longest delays so far"
    return f"about {_duration(estimate)} ({_duration(low)} to {_duration(high)})"


def _steps_tables(finding: Finding) -> list[Table]:
    """Each situation."""
    found = of(finding, f.Steps)
    rows = []
    for each in found.steps:
        until = _until(each) if each.delay else _UNKNOWN[each.unknown]
        recalled, usual = percent(each.recalled.estimate, 0), _duration(each.usual)
        rows.append((each.situation, each.answers, usual, recalled, until, each.says))
    desired = percent(found.desired, 0)
    columns = ("after", "answers", "usual delay", "recalled", f"{desired} until", "step")
    title = f"{finding.subject}: when recall meets {desired} within the day"
    return [Table(title, columns, tuple(rows))] if rows else []


def _article(step: f.Step) -> str:
    return "Again and then Good" if step.situation == "Again, then Good" else f"a {step.situation}"


def _duration(minutes: float) -> str:
    """ "40 s", "1.5 min", "12 min", "3.1 h", "2.4 days"."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    if minutes < 60:
        return f"{minutes:.2g} min"
    return f"{minutes / 60:.2g} h" if minutes < 1440 else f"{minutes / 1440:,.1f} days"


# What the buttons would show

_DAY_S = 86_400.0


def _preview_sentences(finding: Finding) -> tuple[str]:
    desired = of(finding, f.Buttons).retention
    return (
        f"What the buttons would show at the desired retention of {desired:.2f}, for a new card "
        "and for typical ones that are answered when they are due.",
    )


def _preview_tables(finding: Finding) -> list[Table]:
    found = of(finding, f.Buttons)
    made, columns = [], ("card", "Again", "Hard", "Good", "Easy")
    for candidate, cards in found.by_candidate:
        rows = []
        for each in cards:
            name = f"{each.kind}, {each.interval} d" if each.interval else each.kind
            rows.append((name, *map(_as_anki_writes, each.seconds)))
        title = f"Buttons by {candidate} at {found.retention:.2f}; Anki fuzzes 3 days and more"
        made.append(Table(title, columns, tuple(rows)))
    return made


def _as_anki_writes(seconds: float) -> str:
    """ "10m", "3.1h", "12d", "1.4mo", "2.1y"."""
    days = ("d", _DAY_S), ("mo", 30 * _DAY_S), ("y", 365 * _DAY_S)
    units = ("s", 1.0), ("m", 60.0), ("h", 3600.0), *days
    fitting = (each for each, (_, limit) in pairwise(units) if seconds < limit)
    unit, length = next(fitting, units[-1])
    places = 0 if unit in ("s", "m", "d") else 1
    shown = f"{seconds / length:.{places}f}"
    return f"{shown.removesuffix('.0')}{unit}"


# Anything wrong?

MARKS: Mapping[f.Level, str] = {"look": "!", "fine": "✓", "not yet": "?"}
_FAR = 1.75  # times as often as expected that is "twice"
_MORE = 0.02  # recalled than expected is no matter up to here


def _checks_line(findings: Sequence[Finding]) -> str:
    """What is worth a look, "nothing" where nothing is."""
    looks = [each for each in of(findings[0], f.Checks).checks if each.level == "look"]
    return "; ".join(map(check_line, looks)) or "nothing that your reviews show"


def _checks_sentences(finding: Finding) -> list[str]:
    """What is worth a look and what can be done, then all the rest."""
    checks = of(finding, f.Checks).checks
    rest = [f"{say.capital(check_line(each))}." for each in checks if each.level != "look"]
    return [f"{say.capital(_checks_line([finding]))}.", *filter(None, map(_more, checks)), *rest]


def _checks_tables(finding: Finding) -> list[Table]:
    """All checks, and the worst leeches."""
    checks = of(finding, f.Checks).checks
    rows = []
    for each in checks:
        minutes = each.minutes if each.name == "overdue" else None
        figures = each.recalled and each.recalled.estimate, each.expected, minutes
        rows.append((each.name, each.level, each.count, each.of or None, *figures))
    columns = ("check", "", "count", "of", "recalled", "expected", "minutes")
    found = [Table("What was looked at", columns, tuple(rows))]
    worst = tuple(
        (str(leech.card_id), leech.reviews, leech.lapses, round(leech.usual, 1), leech.chance)
        for each in checks
        for leech in each.leeches
    )
    of_worst = ("card", "reviews", "forgotten", "usual", "chance")
    title = "Cards forgotten far too often, the worst ones (search Anki for cid:NUMBER)"
    return [*found, Table(title, of_worst, worst)] if worst else found


def check_line(check: f.Check) -> str:
    """At most 46 columns, without the mark."""
    fine = check.level == "fine"
    match check.name:
        case "overdue":
            then = " by then" if check.since else ""
            late = say.overdue(check.count, check.minutes or 0.0, check.of, then)
            return late if check.count else "no card is overdue"
        case "gap":
            return _days_without(check)
        case "leeches" if check.count:
            are = "card is" if check.count == 1 else "cards are"
            return f"{check.count:,} {are} forgotten far too often"
        case "leeches":
            few = "cards forgotten too often: too few to say"
            return "no card is forgotten far too often" if fine else few
        case "suspended" if check.count:
            of_all = "all" if check.count == check.of else f"{check.count:,} of"
            return f"{of_all} {counted(check.of, 'card')} suspended"
        case "suspended":
            return "no card is suspended"
        case "steps" if check.says and check.minutes is not None:
            longer, _, situation = check.says.partition(" ")
            return f"{longer} step {situation}: {_duration(check.minutes)}"
        case "steps" if check.says:
            return f"steps should be {check.says}"
        case "steps":
            return f"learning steps: {'as they should be' if fine else 'too few to say'}"
        case "old cards":
            return _old_cards(check)
    return _button(check)


def _more(check: f.Check) -> str:
    """What is behind it, where it is worth a look."""
    if check.level == "look" and check.name == "overdue":
        return (
            "Overdue are cards that were due before the day of your last review: one answer each "
            "at your usual pace, and one more after Again."
        )
    if check.leeches:
        worst = check.leeches[0]
        return (
            f"The worst card was forgotten {worst.lapses} of {worst.reviews} times, where "
            f"{worst.usual:.1f} times are usual after such intervals; at most about 5 in 100 such "
            "cards are named by chance. Rewrite them, or suspend them."
        )
    return ""


def _days_without(check: f.Check) -> str:
    if check.since is not None:
        return f"no review since {_day(check.since)}"
    if check.level == "look":
        when = "in the last year" if check.until is None else f"until {_day(check.until)}"
        return f"a break of {check.count} days, {when}"
    return f"longest pause of the last year: {counted(check.count, 'day')}"


def _day(iso: str) -> str:
    """ "17 May 2023"."""
    day = date.fromisoformat(iso)
    return f"{day.day} {calendar.month_abbr[day.month]} {day.year}"


def _old_cards(check: f.Check) -> str:
    if check.level == "not yet":
        return f"old cards: {_open(check)}"
    if check.level == "fine":
        return f"old cards: {_as_expected(check)}"
    assert check.recalled is not None
    assert check.expected is not None
    if 1 - check.recalled.estimate >= _FAR * (1 - check.expected):
        return "old cards forgotten twice as often as expected"
    return f"old cards: {_of_100(check)}"


def _button(check: f.Check) -> str:
    name = check.name.capitalize()
    share = f"{name}, {round(100 * check.count / max(check.of, 1))} of 100 answers"
    if check.says == "like Again":
        return "Hard is pressed for what you have forgotten"
    if check.says == "seldom":
        return f"{name}: hardly ever pressed"
    if check.says == "too many":
        return f"{share}: too many"
    if check.level == "look":
        return f"after {name}: {_of_100(check)}"
    return f"after {name}: {_as_expected(check) if check.level == 'fine' else _open(check)}"


def _as_expected(check: f.Check) -> str:
    assert check.recalled is not None
    assert check.expected is not None
    gap = check.recalled.estimate - check.expected
    is_better = gap > max(_MORE, check.recalled.half_width)
    return f"remembered {'better than' if is_better else 'as'} expected"


def _open(check: f.Check) -> str:
    return "too few to say" if check.says == "few" else "can't tell yet"


def _of_100(check: f.Check) -> str:
    """ "81 of 100 remembered, 90 expected"."""
    assert check.recalled is not None
    assert check.expected is not None
    recalled, expected = round(100 * check.recalled.estimate), round(100 * check.expected)
    return f"{recalled} of 100 remembered, {expected} expected"


RENDERERS: Mapping[type[f.Evidence], Renderer] = {
    f.Often: Renderer(_often_sentences, _often_line, _often_tables),
    f.Noise: Renderer(_noise_sentences, tables=_noise_tables),
    f.Hard: Renderer(_hard_sentences, _hard_line, _hard_tables),
    f.Steps: Renderer(_steps_sentences, tables=_steps_tables),
    f.Buttons: Renderer(_preview_sentences, tables=_preview_tables),
    f.Checks: Renderer(_checks_sentences, _checks_line, _checks_tables),
}
