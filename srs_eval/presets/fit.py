"""How well does FSRS predict me? Against one's average, and against the older scheduler."""

from __future__ import annotations

import math

import numpy as np

from srs_eval.comparison import Interval, enough_to_tell, relative, verdicts
from srs_eval.plural import counted
from srs_eval.presets.answers import Answer, Cell, Table, what_is_missing, why_open
from srs_eval.presets.candidates import BY_PRESET, OLDER, SM2, Learner
from srs_eval.presets.predictors import brought_along

WELL = 0.05  # so much below the average's log loss is called well


def how_well(learner: Learner, equivalence: float) -> Answer:
    """One answer over all reviews: the share of log loss that FSRS-6 saves, with its interval.

    Who does not schedule with FSRS is first told whether to change to it.
    """
    by_preset = learner.trials.protocol == BY_PRESET
    fsrs, older = ("optimized", SM2) if by_preset else ("FSRS-6", OLDER)
    index = learner.trials.test_index
    p = {name: learner.held_out(name) for name in (fsrs, "average", older)}
    brought = brought_along(learner)
    now = next(iter(brought), older if learner.log.receipt.fsrs_enabled is False else None)
    of_fsrs = learner.losses(p[fsrs], index)
    rows: dict[str, Interval] = {}
    difference: dict[str, Interval] = {}
    saved: dict[str, Interval] = {}
    for name, each in (p | brought).items():
        known = np.isfinite(each)  # SuperMemo predicts most reviews, not all
        if not known.any():
            continue
        losses = learner.losses(each, index)[known]
        rows[name] = learner.interval(losses, index[known])
        if name != fsrs:
            difference[name] = learner.interval(of_fsrs[known] - losses, index[known])
            change = losses - of_fsrs[known]
            saved[name] = relative(change, losses, learner.trials.day[index[known]])
    says = verdicts(difference, equivalence=equivalence)
    enabled = learner.log.receipt.fsrs_enabled
    floor = difference["average"]
    too_few = not enough_to_tell(floor)
    sentences = [
        _headline(says["average"], saved["average"], enabled, why_open(floor) if too_few else "")
    ]
    if now in says:
        its_name = "SM-2" if now == older else now
        told = _change(says[now], saved[now], why_open(difference[now]), its_name)
        if says["average"] in ("worse", "as good"):
            no_better = "worse than" if says["average"] == "worse" else "no better than"
            told += f" But it predicts you {no_better} guessing your average does."
        elif says["average"] == "can't tell yet" and says[now] == "better":
            told += " But whether that is better than guessing your average can't be told yet."
        sentences.insert(0, told)
    if says["average"] == "can't tell yet":
        sentences.append(what_is_missing(difference["average"], len(says)))
    if now is None:
        sentences.append(f"It is {_percent(saved[older], 'the older scheduler (SM-2)')}.")
    sentences.append(
        f"Better means: less log loss on {counted(len(index), 'review')} of "
        f"{counted(len(np.unique(learner.trials.day[index])), 'day')} that it had not seen."
    )
    columns = ("predicted by", "log loss", "minus it", "verdict")
    cells: list[tuple[Cell, ...]] = [
        (name, each, difference.get(name), says.get(name, "")) for name, each in rows.items()
    ]
    table = Table("FSRS-6, fitted to earlier reviews, against", columns, tuple(cells))
    return Answer(
        "fit",
        "all reviews",
        says["average"],
        tuple(sentences),
        (table,),
        difference=difference["average"],
    )


def _change(says: str, saved: Interval, why_open: str, now: str) -> str:
    """Whether to change to FSRS from what schedules `now`."""
    by = f"by {abs(100 * saved.estimate):.0f} % {_range(saved, 1 if says == 'better' else -1)}"
    match says:
        case "better":
            told = f"Yes: it would predict you better than {now}, your scheduler, {by}."
        case "worse":
            told = f"No: it would predict you worse than {now}, your scheduler, {by}."
        case "as good":
            told = f"As you like: it would predict you as well as {now}, your scheduler."
        case _ if why_open:
            told = f"Can't tell yet, with {why_open}."
        case _:
            told = f"Can't tell yet: so far {_percent(saved, f'{now}, your scheduler')}."
    return f"Change to FSRS? {told}"


def _headline(says: str, saved: Interval, enabled: bool | None, too_few: str) -> str:
    """How well FSRS predicts; no figure of `too_few` reviews, if it says so."""
    off = enabled is False
    name, verb = ("FSRS is off; it", "would predict") if off else ("FSRS", "predicts")
    figures = _percent(saved, "guessing your average")
    match says:
        case "better" if saved.estimate >= WELL:
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
    shown = f"{abs(100 * saved.estimate):.0f} % {word} than {other}"
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
