"""How well does FSRS predict me? Against one's average, and against the older scheduler."""

from __future__ import annotations

import math

import numpy as np

from srs_eval.comparison import Interval, relative, verdict
from srs_eval.plural import counted
from srs_eval.presets.answers import Answer, Cell, Table, what_is_missing
from srs_eval.presets.candidates import BY_PRESET, SM2, Learner

WELL = 0.05  # so much below the average's log loss is called well


def how_well(learner: Learner, equivalence: float) -> Answer:
    """One answer over all reviews: the share of log loss that FSRS-6 saves, with its interval."""
    by_preset = learner.trials.protocol == BY_PRESET
    fsrs, older = ("optimized", SM2) if by_preset else ("FSRS-6", "SM-2")
    index = learner.trials.test_index
    losses = {name: learner.held_out_losses(name) for name in (fsrs, "average", older)}
    rows: list[tuple[Cell, ...]] = []
    for name, each in losses.items():
        difference = learner.interval(losses[fsrs] - each, index)
        says = "" if name == fsrs else verdict(difference, equivalence=equivalence)
        shown = None if name == fsrs else difference
        rows.append((name, learner.interval(each, index), shown, says))
    difference = learner.interval(losses[fsrs] - losses["average"], index)
    says = verdict(difference, equivalence=equivalence)
    saved = relative(losses["average"] - losses[fsrs], losses["average"], learner.trials.day[index])
    against_older = relative(losses[older] - losses[fsrs], losses[older], learner.trials.day[index])
    sentences = [_headline(says, saved, learner.log.receipt.fsrs_enabled)]
    if says == "can't tell yet":
        sentences.append(what_is_missing(difference, 1))
    sentences.append(
        f"It is {_percent(against_older, 'the older scheduler (SM-2)' if by_preset else 'SM-2')}."
    )
    sentences.append(
        f"Better means: less log loss on {counted(len(index), 'review')} of "
        f"{counted(len(np.unique(learner.trials.day[index])), 'day')} that it had not seen."
    )
    columns = ("predicted by", "log loss", "minus it", "verdict")
    table = Table("FSRS-6, fitted to earlier reviews, against", columns, tuple(rows))
    return Answer("fit", "all reviews", says, tuple(sentences), (table,), difference=difference)


def _headline(says: str, saved: Interval, enabled: bool | None) -> str:
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
    return (
        f"How well FSRS {'would predict' if off else 'predicts'} you can't be told yet: {figures}."
    )


def _percent(saved: Interval, other: str) -> str:
    word = "better" if saved.estimate >= 0 else "worse"
    sign = 1 if saved.estimate >= 0 else -1
    shown = f"{abs(100 * saved.estimate):.0f} % {word} than {other}"
    if math.isnan(saved.half_width):
        return shown
    low, high = sorted((100 * sign * saved.low, 100 * sign * saved.high))
    return f"{shown} ({low:.0f} … {high:.0f} %)".replace("-", "−")
