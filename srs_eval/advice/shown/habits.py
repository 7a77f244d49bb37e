"""What is said of how often to optimize, of noise, buttons and learning steps."""

from __future__ import annotations

from collections.abc import Sequence

from srs_eval.advice.findings import OPEN, Buttons, Finding, Hard, Noise, Often, Step, Steps, of
from srs_eval.advice.sentences import better_by, in_groups, lacks, listed, percent, sure
from srs_eval.advice.tables import Table
from srs_eval.data.errors import counted

# How often


def often_line(findings: Sequence[Finding]) -> str:
    """ "every +25 % of reviews is as good as always: Maps; every +10 % … is safe for …: Words"."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for each in findings:
        why = "as good as always" if of(each, Often).says == "as good" else "safe for everybody"
        subjects.setdefault(f"{each.act} of reviews, {why}", []).append((each.subject, ""))
    return in_groups(subjects) if len(subjects) > 1 else next(iter(subjects))


def often_sentences(finding: Finding) -> list[str]:
    """How often is enough, and what that is held against."""
    first, reviews = f"Optimize at {often_line([finding])}.", counted(finding.reviews, "review")
    if not of(finding, Often).costs:
        return [first, f"{reviews} are too few to tell what is enough for you."]
    return [
        first,
        f"Held against optimizing at every +2 %, on the {reviews} after the first fit.",
    ]


def often_tables(finding: Finding) -> list[Table]:
    """What each way costs."""
    rows = tuple((each.name, each.difference, each.verdict) for each in of(finding, Often).costs)
    title = f"{finding.subject}: optimizing less often"
    return [Table(title, ("optimizing", "minus every +2 %", "verdict"), rows)] if rows else []


# Noise


def noise_sentences(finding: Finding) -> list[str]:
    """How many parameters are noise, and which."""
    if finding.missing is not None:
        return [f"Can't tell yet: {lacks(finding.missing)}."]
    noisy = [f"w{k}" for k, each in enumerate(of(finding, Noise).parameters) if each.is_noise]
    named = f" ({', '.join(noisy)})" if noisy else ""
    return [
        f"{finding.says} parameters are noise{named}: other days would have moved them by more "
        "than half of what learners differ by."
    ]


def noise_tables(finding: Finding) -> list[Table]:
    """The parameters and how far they move."""
    rows = tuple(
        (f"w{k}", each.fitted, each.over_days, each.of_learners, "noise" * each.is_noise)
        for k, each in enumerate(of(finding, Noise).parameters)
    )
    columns = ("parameter", "fitted", "over days", "learners", "")
    title = f"{finding.subject}: parameters and their standard deviations"
    return [Table(title, columns, rows)] if rows else []


# Hard


def hard_line(findings: Sequence[Finding]) -> str:
    """ "used as it should be"."""
    return {
        "yes": "behaves like Again: press Again for what you have forgotten",
        "no": "used as it should be",
        "seldom": "hardly ever pressed, too seldom to matter",
        OPEN: f"can't tell yet whether it behaves like Again ({lacks(findings[0].missing)})",
    }[of(findings[0], Hard).says]


def hard_sentences(finding: Finding) -> list[str]:
    """Whether it behaves like Again, and how often it is pressed."""
    found = of(finding, Hard)
    said = [f"Hard, {percent(found.share)} of your answers to reviews: {hard_line([finding])}."]
    if finding.interval is not None:
        gain = f"{better_by(finding.interval.estimate)} {sure(finding.interval)}"
        said.append(f"Were it Again in the past, log loss would be {gain}.")
    return said


def hard_tables(finding: Finding) -> list[Table]:
    """What is recalled after each button."""
    rows = tuple(
        (each.button, each.bias.reviews, each.recalled, each.bias)
        for each in of(finding, Hard).after
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


def steps_sentences(finding: Finding) -> list[str]:
    """Which steps to change and why; which to keep; of which it can't be told."""
    found = of(finding, Steps)
    said = []
    for says in ("longer", "shorter"):
        for each in (each for each in found.steps if each.says == says):
            until = f"{percent(found.desired, 0)} are recalled until {_until(each)}"
            yours = "" if each.step is None else f", your step is {duration(each.step)}"
            said.append(f"{says.capitalize()} after {_article(each)}: {until}{yours}.")
    for says, words in (("as it is", "As it is"), (OPEN, "Can't tell")):
        after = [_article(each) for each in found.steps if each.says == says]
        said += [f"{words} after {listed(after)}."] if after else []
    return said or ["Can't tell: no card has been answered twice on a day."]


def _until(step: Step) -> str:
    """When recall is as desired, as far as the delays so far show."""
    assert step.delay is not None
    assert step.seen is not None
    estimate, low, high = step.delay
    if high < step.seen[0]:
        return f"less than {duration(step.seen[0])}, the shortest delays so far"
    if low > step.seen[1]:
        return f"more than {duration(step.seen[1])}, the longest delays so far"
    return f"about {duration(estimate)} ({duration(low)} to {duration(high)})"


def steps_tables(finding: Finding) -> list[Table]:
    """Each situation."""
    found = of(finding, Steps)
    rows = tuple(
        (
            each.situation,
            each.answers,
            duration(each.usual),
            percent(each.recalled.estimate, 0),
            _until(each) if each.delay else _UNKNOWN[each.unknown],
            each.says,
        )
        for each in found.steps
    )
    desired = percent(found.desired, 0)
    columns = ("after", "answers", "usual delay", "recalled", f"{desired} until", "step")
    title = f"{finding.subject}: when recall meets {desired} within the day"
    return [Table(title, columns, rows)] if rows else []


def _article(step: Step) -> str:
    return "Again and then Good" if step.situation == "Again, then Good" else f"a {step.situation}"


def duration(minutes: float) -> str:
    """ "40 s", "1.5 min", "12 min", "3.1 h", "2.4 days"."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    if minutes < 60:
        return f"{minutes:.2g} min"
    return f"{minutes / 60:.2g} h" if minutes < 1440 else f"{minutes / 1440:,.1f} days"


# What the buttons would show

_DAY_S = 86_400.0


def preview_sentences(finding: Finding) -> tuple[str]:
    desired = of(finding, Buttons).retention
    return (
        f"What the buttons would show at the desired retention of {desired:.2f}, for a new card "
        "and for typical ones that are answered when they are due.",
    )


def preview_tables(finding: Finding) -> tuple[Table, ...]:
    found = of(finding, Buttons)
    return tuple(
        Table(
            f"Buttons by {candidate} at {found.retention:.2f}; Anki fuzzes 3 days and more",
            ("card", "Again", "Hard", "Good", "Easy"),
            tuple(
                (
                    f"{card.kind}, {card.interval} d" if card.interval else card.kind,
                    *map(as_anki_writes, card.seconds),
                )
                for card in cards
            ),
        )
        for candidate, cards in found.by_candidate
    )


def as_anki_writes(seconds: float) -> str:
    """ "10m", "3.1h", "12d", "1.4mo", "2.1y"."""
    units = (("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", _DAY_S), ("mo", 30 * _DAY_S))
    unit, length = "y", 365 * _DAY_S
    for (smaller, small), (_, limit) in zip(units, (*units[1:], (unit, length)), strict=True):
        if seconds < limit:
            unit, length = smaller, small
            break
    places = 0 if unit in ("s", "m", "d") else 1
    shown = f"{seconds / length:.{places}f}"
    return f"{shown.removesuffix('.0')}{unit}"
