"""Is FSRS right for me? How well it predicts, against the older scheduler, and Anki's own check.

The health check is that of Anki 26.08 (ankitects/anki: rslib/src/scheduler/fsrs/params.rs): five
time-series folds, log loss and RMSE(bins) over all of them without weights, each divided by
what is usual for that recall and number of reviews; one of the two has to be low enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.advice.candidates import BY_PRESET, NOW, OLDER, SM2, Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.predictions import brought_along
from srs_eval.advice.sentences import FITTED, figures, so_far, what_is_missing
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.bins import rmse_bin_ids
from srs_eval.data.errors import NotEnoughData, counted
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.metrics import log_losses, rmse_bins
from srs_eval.models import fsrs6
from srs_eval.models._anki import fit as anki_fit
from srs_eval.stats.intervals import Interval, Verdict, relative, verdict, verdicts

_WELL = 0.05  # so much below the average's log loss is called well
_STORED = "with your parameters"
_OLDER_IN_WORDS = "the older scheduler (SM-2)"


def how_well(learner: Learner, equivalence: float) -> Finding:
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
        f"{counted(learner.days_of(index), 'day')}; optimized means: fitted to the reviews before "
        "these."
    )
    columns = ("predicted by", "log loss", "minus it", "verdict")
    cells: list[tuple[Cell, ...]] = [
        (name, each, difference.get(name), says.get(name, "")) for name, each in rows.items()
    ]
    table = Table("FSRS-6, fitted to earlier reviews, against", columns, tuple(cells))
    return phrased("fit", "all reviews", found, tuple(sentences), (table,), difference=floor)


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
    only = "" if alone == "better" else f" ({_DEFAULTS_ALONE.get(alone, '')})"
    yet = too_few or f"so far {_percent(saved, f'{now}, your scheduler')}"
    told = {
        "better": f"Yes, {FITTED}{only}: it would predict you better than {now}, your scheduler, "
        f"{by}.",
        "worse": f"No: it would predict you worse than {now}, your scheduler, {by}.",
        "as good": f"As you like: it would predict you as well as {now}, your scheduler.",
    }.get(says, f"Can't tell yet: {yet}.")
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


_VERSION = "26.08"
_LOG_LOSS_LIMIT, _RMSE_LIMIT = 1.11, 1.53
_FEWEST_ITEMS = 300
_FOLDS = 5
SAID: Mapping[Verdict, tuple[str, str]] = {
    "better": ("yes", "FSRS predicts better than the older scheduler"),
    "worse": ("no", "FSRS predicts worse than the older scheduler"),
    "as good": ("as good", "FSRS is as good as the older scheduler"),
    "can't tell yet": (
        "can't tell",
        "Whether FSRS predicts better than the older scheduler can't be told yet",
    ),
}
"""A conclusion and its sentence, by the verdict on FSRS against the older scheduler."""


@dataclass(frozen=True)
class _HealthCheck:
    """Both ratios and what they may be at most."""

    log_loss: float
    rmse_bins: float
    log_loss_ratio: float
    rmse_ratio: float
    items: int

    @property
    def passed(self) -> bool:
        return self.log_loss_ratio <= _LOG_LOSS_LIMIT or self.rmse_ratio <= _RMSE_LIMIT


def judge_health(log_loss: float, rmse: float, recall: float, items: int) -> _HealthCheck | None:
    """The rule itself, for figures of `items` reviews with this recall; None for 300 or fewer."""
    if items <= _FEWEST_ITEMS or not 0 < recall < 1:
        return None
    usual_loss = 0.623 * (4 * recall * (1 - recall)) ** 0.738
    usual_rmse = 0.0135 / (recall**0.504 - 1.14) + 0.176 / ((items / 1000) ** 0.825 + 2.22) + 0.101
    return _HealthCheck(log_loss, rmse, log_loss / usual_loss, rmse / usual_rmse, items)


def _time_series(trials: Trials, index: IntArray, learner: Learner) -> tuple[float, float]:
    """Log loss and RMSE(bins) over five folds of the positions, fitted as Anki fits.

    What is left when they are cut into six is judged in the last fold (fsrs-rs: src/inference.rs).
    Raises NotEnoughData.
    """
    parts: list[FloatArray] = []
    tested: list[IntArray] = []
    begins = [len(index) // (_FOLDS + 1) * fold for fold in range(1, _FOLDS + 1)]
    for begin, end in zip(begins, [*begins[1:], len(index)], strict=True):
        fitted = anki_fit(trials, index[:begin], learner.context)
        parts.append(fsrs6.predict(trials, fitted, index[begin:end], learner.context))
        tested.append(index[begin:end])
    p, test = np.concatenate(parts), np.concatenate(tested)
    bins = rmse_bin_ids(trials.bin_delta_t[test], trials.bin_i[test], trials.bin_lapses[test])
    y = trials.y[test]
    return float(log_losses(y, p).mean()), rmse_bins(y, p, bins)


def check_health(learner: Learner, index: IntArray) -> _HealthCheck | None:
    """Anki's health check of the reviews at the positions; None where Anki makes none."""
    recall = float(learner.trials.y[index].mean())
    if judge_health(1.0, 1.0, recall, len(index)) is None:
        return None
    try:
        return judge_health(*_time_series(learner.trials, index, learner), recall, len(index))
    except NotEnoughData:  # rare first intervals may be all that a fold has
        return None


def is_fsrs_right_for_me(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One answer for each preset."""
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    fsrs = learner.held_out_losses("optimized")
    for group in groups:
        name = learner.name_of(group)
        mine = partition == group
        sentences: list[str] = []
        tables: list[Table] = []
        conclusion = "can't tell"
        if mine.any():
            differences = {
                other: learner.interval((fsrs - learner.held_out_losses(other))[mine], index[mine])
                for other in (SM2, "average")
            }
            says = verdicts(differences, equivalence=equivalence)
            conclusion, sentence = SAID[says[SM2]]
            difference = differences[SM2]
            sentences.append(f"{sentence}: {figures(difference, 'held-out review')}.")
            if says[SM2] == "can't tell yet":
                sentences.append(what_is_missing(difference, len(differences)))
            rows: list[tuple[Cell, ...]] = [
                (other, each, says[other]) for other, each in differences.items()
            ]
            tables.append(
                Table(f"{name}: FSRS-6 against", ("against", "minus it", "verdict"), tuple(rows))
            )
        found = check_health(learner, np.flatnonzero(learner.trials.partition == group))
        sentences.append(_health_sentence(found))
        if found is not None:
            tables.append(_health_table(name, found))
        yield phrased("health", name, conclusion, tuple(sentences), tuple(tables))


def _health_sentence(found: _HealthCheck | None) -> str:
    if found is None:
        return (
            f"Anki makes no health check ({_VERSION}) here: it needs more than {_FEWEST_ITEMS} "
            "reviews, both outcomes, and first intervals that are not all rare."
        )
    result = "passes" if found.passed else "fails"
    return (
        f"Anki's health check ({_VERSION}) {result}: log loss is {found.log_loss_ratio:.2f} times "
        f"what is usual (limit {_LOG_LOSS_LIMIT}), RMSE(bins) {found.rmse_ratio:.2f} times "
        f"(limit {_RMSE_LIMIT}); one of both has to hold."
    )


def _health_table(name: str, found: _HealthCheck) -> Table:
    return Table(
        f"{name}: Anki's health check ({_VERSION}), {found.items:,} reviews",
        ("figure", "value", "ratio", "limit", "margin"),
        tuple(
            (name, value, ratio, limit, limit - ratio)
            for name, value, ratio, limit in (
                ("log loss", found.log_loss, found.log_loss_ratio, _LOG_LOSS_LIMIT),
                ("RMSE(bins)", found.rmse_bins, found.rmse_ratio, _RMSE_LIMIT),
            )
        ),
    )
