"""How well does FSRS predict me? Against one's average, and against the older scheduler."""

from __future__ import annotations

import math

import numpy as np

from srs_eval.advice.answers import Answer, Cell, Table, so_far, what_is_missing
from srs_eval.advice.candidates import BY_PRESET, NOW, OLDER, SM2, Learner
from srs_eval.advice.predictors import brought_along
from srs_eval.data.errors import counted
from srs_eval.stats.intervals import Interval, relative, verdict, verdicts

_WELL = 0.05  # so much below the average's log loss is called well
_STORED = "with your parameters"
_OLDER_IN_WORDS = "the older scheduler (SM-2)"


FITTED = "with parameters fitted to you"  # what a change to FSRS has to come with


def how_well(learner: Learner, equivalence: float) -> Answer:
    """One answer over all reviews: the share of log loss that FSRS-6 saves, with its interval.

    With the learner's own parameters first, where these are known, then fitted to earlier
    reviews. Who does not schedule with FSRS is first told whether to change to it.
    """
    by_preset = learner.trials.protocol == BY_PRESET
    fsrs, older = ("optimized", SM2) if by_preset else ("FSRS-6", OLDER)
    defaults = "defaults" if by_preset else "FSRS-6 defaults"
    index = learner.trials.test_index
    brought = brought_along(learner)
    enabled = learner.log.receipt.fsrs_enabled
    now = next(iter(brought), older if enabled is False else None)
    own = None if now is not None or not by_preset else _own(learner)
    beside = [NOW] * (own is not None) + [defaults] * (now is not None)
    p = {name: learner.held_out(name) for name in (fsrs, "average", older, *beside)} | brought
    losses = {name: learner.losses(each, index) for name, each in p.items()}
    # SuperMemo predicts most reviews, not all.
    known = {name: np.isfinite(each) for name, each in p.items() if np.isfinite(each).any()}
    rows = {name: learner.interval(losses[name][here], index[here]) for name, here in known.items()}

    def minus(name: str, other: str) -> Interval:
        here = known[name] & known[other]
        return learner.interval((losses[name] - losses[other])[here], index[here])

    def saves(name: str, other: str) -> Interval:
        here = known[name] & known[other]
        saved = (losses[other] - losses[name])[here]
        return relative(saved, losses[other][here], learner.trials.day[index[here]])

    difference = {name: minus(fsrs, name) for name in rows if name != fsrs}
    asked = {name: each for name, each in difference.items() if name not in beside}
    says = verdicts(asked, equivalence=equivalence)
    floor = difference["average"]
    too_few = so_far(floor)
    fitted = saves(fsrs, "average")
    if own is None:
        found, basis, then = says["average"], "optimized, ", ""
        headline = _headline(found, fitted, enabled, too_few, basis)
    else:
        found = verdict(minus(NOW, "average"), equivalence=equivalence)
        then = f", optimized {_percent(fitted, '')}"
        headline = _headline(found, saves(NOW, "average"), enabled, too_few, f"{own} ", then)
    sentences = [headline]
    if now in says:
        its_name = "SM-2" if now == older else now
        alone = verdict(minus(defaults, now), equivalence=equivalence)
        told = _change(says[now], saves(fsrs, now), so_far(difference[now]), its_name, alone)
        if says["average"] in ("worse", "as good"):
            no_better = "worse than" if says["average"] == "worse" else "no better than"
            told += f" Expect little of it: it predicts you {no_better} guessing your average does."
        sentences.insert(0, told)
    if own == _STORED:
        sentences.append("Your parameters may have been fitted to these reviews, which flatters.")
    if found == "can't tell yet":
        open_ = floor if own is None else minus(NOW, "average")
        sentences.append(what_is_missing(open_, len(says)))
    if now is None:
        sentences.append(f"Optimized, it is {_percent(saves(fsrs, older), _OLDER_IN_WORDS)}.")
    sentences.append(
        f"Better means: less log loss on {counted(len(index), 'review')} of "
        f"{counted(len(np.unique(learner.trials.day[index])), 'day')}; optimized means: fitted to "
        "the reviews before these."
    )
    columns = ("predicted by", "log loss", "minus it", "verdict")
    cells: list[tuple[Cell, ...]] = [
        (name, each, difference.get(name), says.get(name, "")) for name, each in rows.items()
    ]
    table = Table("FSRS-6, fitted to earlier reviews, against", columns, tuple(cells))
    return Answer("fit", "all reviews", found, tuple(sentences), (table,), difference=floor)


def _own(learner: Learner) -> str | None:
    """What the presets schedule with, in words; None where the source does not tell."""
    presets = [learner.log.presets.get(group) for group in learner.groups]
    if not any(preset is not None and preset.is_told for preset in presets):
        return None
    stored = any(preset is not None and preset.parameters_in_force for preset in presets)
    return _STORED if stored else "with its defaults"


def _change(says: str, saved: Interval, too_few: str, now: str, alone: str) -> str:
    """Whether to change to FSRS from what schedules `now`, and how.

    `alone` is the verdict on the defaults against `now`: what FSRS does before it is fitted.
    """
    by = f"by {abs(100 * saved.estimate):.0f} % {_range(saved, 1 if says == 'better' else -1)}"
    match says:
        case "better":
            only = "" if alone == "better" else f" ({_DEFAULTS_ALONE[alone]})"
            told = (
                f"Yes, {FITTED}{only}: it would predict you better than {now}, your scheduler, "
                f"{by}."
            )
        case "worse":
            told = f"No: it would predict you worse than {now}, your scheduler, {by}."
        case "as good":
            told = f"As you like: it would predict you as well as {now}, your scheduler."
        case _ if too_few:
            told = f"Can't tell yet: {too_few}."
        case _:
            told = f"Can't tell yet: so far {_percent(saved, f'{now}, your scheduler')}."
    return f"Change to FSRS? {told}"


_DEFAULTS_ALONE = {
    "worse": "its defaults alone would be worse",
    "as good": "its defaults alone would be no better",
    "can't tell yet": "its defaults alone may be no better",
}


def _headline(
    says: str, saved: Interval, enabled: bool | None, too_few: str, basis: str, then: str = ""
) -> str:
    """How well FSRS predicts, by which parameters; no figure of `too_few` reviews, if it says so.

    `basis` comes before the figures, `then` after them.
    """
    off = enabled is False
    name, verb = ("FSRS is off; it", "would predict") if off else ("FSRS", "predicts")
    figures = f"{basis}{_percent(saved, 'guessing your average')}{then}"
    match says:
        case "better" if saved.estimate >= _WELL:
            return f"{name} {verb} you well: {figures}."
        case "better":
            return f"{name} {verb} you a little better than your average does: {figures}."
        case "as good":
            return f"{name} {verb} you no better than your average does: {figures}."
        case "worse":
            return f"{name} {verb} you worse than your average does: {figures}."
    told = too_few or figures
    return f"How well FSRS {'would predict' if off else 'predicts'} you can't be told yet: {told}."


def _percent(saved: Interval, other: str) -> str:
    word = "better" if saved.estimate >= 0 else "worse"
    sign = 1 if saved.estimate >= 0 else -1
    shown = f"{abs(100 * saved.estimate):.0f} % {word}" + f" than {other}" * bool(other)
    return f"{shown} {_range(saved, sign)}".rstrip()


def _range(saved: Interval, sign: int) -> str:
    """ "(7 … 16 %)", "(15 % worse … 16 % better)"; "" where there is no interval."""
    if math.isnan(saved.half_width):
        return ""
    # Nobody saves more than all; the interval of a ratio does not know.
    low, high = sorted(100 * sign * min(each, 1.0) for each in (saved.low, saved.high))
    if round(low) < 0 < round(high):
        less, more = ("worse", "better")[::sign]
        return f"({-low:.0f} % {less} … {high:.0f} % {more})"
    return f"({low:.0f} … {high:.0f} %)".replace("-", "−")
