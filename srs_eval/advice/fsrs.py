"""How well do FSRS and others predict me? FSRS against the older scheduler, and Anki's own check.

The health check is that of Anki 26.08 (ankitects/anki: rslib/src/scheduler/fsrs/params.rs): five
time-series folds, log loss and RMSE(bins) over all of them without weights, each divided by
what is usual for that recall and number of reviews; one of the two has to be low enough.

Which model predicts best is asked for reviews without presets, and for predictions of others.
FSRS-6, its variants and the average are then the engine's configurations on the benchmark's rows;
beside them stand the predictions that the source brings along (SuperMemo's), those of a file,
and parameters of one's own. All are evaluated on the same held-out reviews.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import BY_PRESET, CONFIGURATIONS, Learner
from srs_eval.advice.parameters import OTHER_MODELS, compared
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.readers.predictions import unlike
from srs_eval.data.reviews import FloatArray, Given, IntArray
from srs_eval.data.trials import Trials, rmse_bin_ids
from srs_eval.engine.shared import sharing
from srs_eval.metrics import auc, log_losses, rmse_bins
from srs_eval.models import all_models, fsrs6
from srs_eval.models.configurations import resolve
from srs_eval.models.fsrs6 import fit_as_anki as anki_fit
from srs_eval.models.rwkv import found_weights
from srs_eval.stats.intervals import Interval, Verdict, relative

_Kind = Literal["older scheduler", "average", "brought along", "FSRS"]
_WELL = 0.05  # so much below the average's log loss is called well


def how_well(learner: Learner) -> f.Finding:
    """One finding over all reviews: the share of log loss that FSRS-6 saves, with its interval.

    With the learner's own parameters, where these are known, and fitted to earlier reviews. Who
    does not schedule with FSRS is compared with what they have.
    """
    by_preset = learner.trials.protocol == BY_PRESET
    index = learner.trials.test_index
    brought = brought_along(learner)
    now = next(iter(brought), f.SM2 if learner.is_off else None)
    by = _own(learner) if now is None and by_preset else "optimized"
    beside = [f.NOW] * (by != "optimized") + [f.DEFAULTS] * (now is not None)
    rivals = (f.OPTIMIZED, "average", *learner.sm2, *beside)
    p = {name: learner.held_out(name) for name in rivals} | brought
    # SuperMemo predicts most reviews, not all.
    known = {name: np.isfinite(each) for name, each in p.items() if np.isfinite(each).any()}
    losses = {name: learner.losses(p[name], index) for name in known}

    def minus(name: str, other: str) -> Interval:
        here = known[name] & known[other]
        return learner.interval((losses[name] - losses[other])[here], index[here])

    def saves(name: str, other: str) -> Interval:
        here = known[name] & known[other]
        saved = (losses[other] - losses[name])[here]
        return relative(saved, losses[other][here], learner.trials.day[index[here]])

    log_loss = {
        name: learner.interval(each[known[name]], index[known[name]])
        for name, each in losses.items()
    }
    difference = {name: minus(f.OPTIMIZED, name) for name in known if name != f.OPTIMIZED}
    asked = {name: each for name, each in difference.items() if name not in beside}
    verdicts_ = learner.verdicts(asked)
    kinds: dict[str, _Kind] = {"average": "average", f.SM2: "older scheduler"}
    kinds |= dict.fromkeys(brought, "brought along")

    def rival(name: str, difference: Interval) -> f.Against:
        says: Verdict | Literal[""] = verdicts_.get(name, "")
        kind, saved = kinds.get(name, "FSRS"), saves(f.OPTIMIZED, name)
        return f.Against(name, kind, log_loss[name], difference, says, saved)

    against = {name: rival(name, each) for name, each in difference.items()}
    shown = f.OPTIMIZED if by == "optimized" else f.NOW
    baseline, saved = minus(shown, "average"), saves(shown, "average")
    found = learner.verdict(baseline) if by != "optimized" else verdicts_["average"]
    says = _well(found, saved)
    open_ = [baseline] if says == f.OPEN else []
    if now is not None and verdicts_[now] == "can't tell yet":
        open_ = [difference[now]]
    instead = None if now is None else against[now]
    of_defaults = None if now is None else learner.verdict(minus(f.DEFAULTS, now))
    fsrs, others = log_loss[f.OPTIMIZED], tuple(against.values())
    would_run_fsrs7 = learner.is_off and any(map(learner.runs_fsrs7, learner.groups))
    evidence = f.Fit(
        says, by, saved, fsrs, others, learner.is_off, instead, of_defaults, would_run_fsrs7
    )
    lacks = learner.missing(open_[0]) if open_ else None
    finding = f.Finding("fit", f.ALL_REVIEWS, missing=lacks, evidence=evidence)
    finding = replace(finding, interval=difference["average"], reviews=len(index))
    return _with_act(finding, difference[f.SM2], _TURN_ON) if now == f.SM2 else finding


def _with_act(finding: f.Finding, minus_sm2: Interval, act: str) -> f.Finding:
    """Whether FSRS is to schedule, with what other people gained by that."""
    prior = population.published("optimized", "sm2", max(minus_sm2.reviews, 1))
    belief = population.belief(minus_sm2, prior)
    chance = belief.probability
    act, chance = (act, chance) if belief.gain > 0 else ("SM-2", 1 - chance)
    return replace(finding, act=act, probability=chance, gain=abs(belief.gain), interval=minus_sm2)


def _well(
    found: Verdict, saved: Interval
) -> Literal["well", "a little", "no better", "worse", "can't tell"]:
    match found:
        case "better":
            return "well" if saved.estimate >= _WELL else "a little"
        case "as good":
            return "no better"
        case "worse":
            return "worse"
    return f.OPEN


def _own(learner: Learner) -> Literal["stored", "defaults", "optimized"]:
    """What the presets schedule with; "optimized" where the source does not tell."""
    presets = [learner.log.presets.get(group) for group in learner.groups]
    if not any(preset is not None and preset.is_told for preset in presets):
        return "optimized"
    stored = any(preset is not None and preset.parameters_in_force for preset in presets)
    return "stored" if stored else "defaults"


_TURN_ON = "turn on"
_VERSION = "26.08"
_LOG_LOSS_LIMIT, _RMSE_LIMIT = 1.11, 1.53
_FEWEST_ITEMS = 300
_FOLDS = 5


def _health_check(log_loss: float, rmse: float, recall: float, items: int) -> f.HealthCheck | None:
    """The rule itself, for figures of `items` reviews with this recall; None for 300 or fewer."""
    if items <= _FEWEST_ITEMS or not 0 < recall < 1:
        return None
    usual_loss = 0.623 * (4 * recall * (1 - recall)) ** 0.738
    usual_rmse = 0.0135 / (recall**0.504 - 1.14) + 0.176 / ((items / 1000) ** 0.825 + 2.22) + 0.101
    ratios = log_loss / usual_loss, rmse / usual_rmse
    return f.HealthCheck(_VERSION, log_loss, rmse, *ratios, _LOG_LOSS_LIMIT, _RMSE_LIMIT)


def _time_series(trials: Trials, index: IntArray, learner: Learner) -> tuple[float, float]:
    """Log loss and RMSE(bins) over five folds of the positions, fitted as Anki fits.

    What is left when they are cut into six is evaluated in the last fold (fsrs-rs:
    src/inference.rs).
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


def _check_health(learner: Learner, index: IntArray) -> f.HealthCheck | None:
    """Anki's health check of the reviews at the positions; None where Anki makes none."""
    recall = float(learner.trials.y[index].mean())
    if _health_check(1.0, 1.0, recall, len(index)) is None:
        return None
    try:
        return _health_check(*_time_series(learner.trials, index, learner), recall, len(index))
    except NotEnoughData:  # rare first intervals may be all that a fold has
        return None


def is_fsrs_right_for_me(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One finding for each preset."""
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    fsrs, sm2 = (learner.held_out_losses(name) for name in (f.OPTIMIZED, f.SM2))
    act = _TURN_ON if learner.is_off else "keep"
    for group in groups:
        mine = partition == group
        here, older = index[mine], None
        if len(here):
            difference = learner.interval(fsrs[mine] - sm2[mine], here)
            older = f.Against(
                *(f.SM2, "older scheduler"),
                learner.interval(sm2[mine], here),
                difference,
                learner.verdict(difference),
                relative(sm2[mine] - fsrs[mine], sm2[mine], learner.trials.day[here]),
            )
        of_fsrs7 = learner.runs_fsrs7(group)
        check = None if of_fsrs7 else _check_health(learner, learner.positions(group))
        evidence, name = f.Health(older, check, of_fsrs7, learner.is_off), learner.name_of(group)
        found = f.Finding("health", name, reviews=len(here), evidence=evidence)
        yield found if older is None else _with_act(found, older.difference, act)


# Which model predicts best?

_CANDIDATES = {*CONFIGURATIONS, f.NOW, f.SM2, f.POOLED, f.TOGETHER, f.ALONE}


def which_predicts_best(
    learner: Learner,
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
) -> Iterator[f.Finding]:
    """A finding over all reviews, or one for each of the sets in which `given` share reviews.

    `lines` are parameters of one's own, FSRS-6's or FSRS-7's, by name; `given` others'
    probabilities for the held-out reviews (k,), NaN where there is none. Evaluated are reviews with
    a prediction by all.
    """
    covered = {name: np.flatnonzero(np.isfinite(p)) for name, p in given.items()}
    everywhere = {name for name, index in covered.items() if len(index) == len(given[name])}
    some = {name: index for name, index in covered.items() if len(index)}
    sets = sharing({name: index for name, index in some.items() if name not in everywhere})
    unused = {
        name: external.count - len(covered[name])
        for name, external in _external(learner, lines).items()
        if external.count is not None and name in covered
    }
    for number, (_, members) in enumerate(sets or [(None, [])]):
        here = {name: p for name, p in given.items() if name in everywhere or name in members}
        subject = f"reviews with {', '.join(members)}" if number else f.ALL_REVIEWS
        unused_here = {name: count for name, count in unused.items() if count and name in here}
        yield _on_shared(learner, lines, here, subject, unused_here)


def _on_shared(
    learner: Learner,
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
    subject: str,
    unused: Mapping[str, int],
) -> f.Finding:
    everything = learner.trials.test_index
    given = {_in_words(name): each for name, each in {**given, **_by_rwkv(learner)}.items()}
    p = {}
    for name in (*learner.configurations, *learner.sm2):
        with suppress(NotEnoughData):
            p[name] = learner.held_out(name)
    p |= {name: learner.with_parameters(values, everything) for name, values in lines.items()}
    p |= given
    evaluated = np.isfinite(np.stack(list(p.values()))).all(axis=0)
    if not evaluated.any():
        raise NotEnoughData("no held-out review has a prediction by all models")
    index = everything[evaluated]
    losses = {name: learner.losses(each[evaluated], index) for name, each in p.items()}
    first = (*OTHER_MODELS, *brought_along(learner))
    found = compared(learner, losses, index, first=first)
    trials = learner.trials
    bins = rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index])
    y = trials.y[index]

    def model(name: str) -> f.Model:
        known = found.log_loss[name], found.difference.get(name), found.says.get(name)
        fit, here = rmse_bins(y, p[name][evaluated], bins), auc(y, p[name][evaluated])
        is_own = name in lines or name in given
        return f.Model(name, *known, rmse_bins=fit, auc=here, is_own=is_own)

    models = tuple(map(model, found.ordered))
    evidence = f.Models(models[0].name, models, len(everything) - len(index), unused)
    return f.Finding("models", subject, reviews=len(index), evidence=evidence)


def _in_words(name: str) -> str:
    """An online model's name says so: no scheduler can do what it does."""
    model = all_models().get(name)
    return f"{name} (online)" if model is not None and model.family == "online" else name


def _by_rwkv(learner: Learner) -> dict[str, FloatArray]:
    """RWKV's for the held-out reviews, where weights of it are named."""
    if learner.context.weights is None or not found_weights(learner.context):
        return {}
    rwkv = resolve(("RWKV-Instant", "RWKV-Curve"), learner.trials.protocol)
    return {each.model.name: learner.session.run(each, learner.context).p for each in rwkv}


def given_to(learner: Learner, lines: Collection[str] = ()) -> dict[str, FloatArray]:
    """Others' predictions for the held-out reviews, by name; NaN where there is none.

    Whoever has none for any of them is left out. One that is named like a candidate, such as
    `lines`, has "(file)" behind its name.
    """
    place = learner.source_place[learner.trials.test_index]
    return {name: external.p[place] for name, external in _external(learner, lines).items()}


def _external(learner: Learner, lines: Collection[str]) -> dict[str, Given]:
    """Others' predictions that cover a held-out review, by the names of `given_to`."""
    place = learner.source_place[learner.trials.test_index]
    taken = {*_CANDIDATES, *lines, *learner.log.predictions}
    found = dict[str, Given]()
    for name, given in learner.log.given.items():
        if np.isfinite(given.p[place]).any():
            beside = {*taken, *found, *(learner.log.given.keys() - {name})}
            found[unlike(name, beside.__contains__)] = given
    return found


def brought_along(learner: Learner) -> dict[str, FloatArray]:
    """The source's own predictions for the held-out reviews, by name; NaN where there is none."""
    place = learner.source_place[learner.trials.test_index]
    return {name: column[place] for name, column in learner.log.predictions.items()}
