"""Are my parameters good? What there is to change, how likely it is to help, how often to do it.

Candidates are compared with the current parameters on reviews that neither has seen: those since
the parameters were last changed, or all held-out ones where the defaults are in force. Candidates
are fitted anew before each of five blocks of these, as by somebody who optimizes now and then.
What that says is joined with what other people gained (`srs_eval.advice.population`).

How often to optimize is told by log loss against the age of the parameters. A parameter is noise
if other days would move it far.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import (
    ACROSS_PRESETS,
    CONFIGURATIONS,
    Learner,
    evaluated_by_preset,
    mostly_gone,
)
from srs_eval.advice.split import one_is_enough_for
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Fold, recency_weights
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models.own_parameters import why_left_out
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict

_RIVALS = (f.RECENCY, f.OPTIMIZED, f.DEFAULTS, "one for all presets", f.POOLED)
"""Verdicts on these are one question: the first is tested first, the others by Holm after it."""
OTHER_MODELS = (f.AVERAGE, f.SM2)
"""On all held-out reviews FSRS against these is one question wherever it is told, and tested apart
from what FSRS could be fitted to."""
_HELD_OUT = (*CONFIGURATIONS, f.POOLED, f.TOGETHER)
_FEWEST, _FEWEST_DAYS = 100, 5  # reviews that say something of a preset
_FEWEST_TO_FIT = 64  # below, Anki's optimizer leaves nearly all as it is
_SURE_OF_FEW = 0.9  # at most, that few reviews need no other parameters
_FITTED = 400  # reviews from which on a fit is the learner's own


@dataclass(frozen=True, eq=False)
class _Compared:
    """Candidates on the same reviews (k,), and their differences from one of them."""

    index: IntArray  # positions in the trials
    log_loss: Mapping[str, Interval]
    difference: Mapping[str, Interval]  # of each but the reference; negative: better than it
    says: Mapping[str, Verdict]

    @property
    def ordered(self) -> list[str]:
        """The candidates' names, the lowest log loss first."""
        return sorted(self.log_loss, key=lambda name: self.log_loss[name].estimate)

    def candidates(self) -> tuple[f.Candidate, ...]:
        return tuple(
            f.Candidate(name, self.log_loss[name], self.difference.get(name), self.says.get(name))
            for name in self.ordered
        )


def compared(
    learner: Learner,
    losses: Mapping[str, FloatArray],
    index: IntArray,
    reference: str = f.OPTIMIZED,
    *,
    asked: Sequence[str] | None = None,
    first: Collection[str],
) -> _Compared:
    """Intervals of all candidates, verdicts on those `asked` (default: all but the reference).

    `losses` are nats (k,) on the reviews at the positions (k,). Candidates that are tested `first`
    are a question of their own, and not held back by the others.
    """
    difference = {
        name: learner.interval(each - losses[reference], index)
        for name, each in losses.items()
        if name != reference
    }
    wanted = {name: difference[name] for name in (asked or tuple(difference)) if name in difference}
    alone = {name: each for name, each in wanted.items() if name in first}
    others = {name: each for name, each in wanted.items() if name not in first}
    log_loss = {name: learner.interval(each, index) for name, each in losses.items()}
    says = learner.verdicts(alone) | learner.verdicts(others)
    return _Compared(index, log_loss, difference, says)


def are_my_parameters_good(
    learner: Learner,
    groups: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
) -> Iterator[f.Finding]:
    """One finding for each preset, as it is known, then one over all.

    `lines` are parameters of one's own, by name; `given` others' predictions for the held-out
    reviews.
    """
    index = learner.trials.test_index
    own = {name: learner.with_parameters(values, index) for name, values in lines.items()}
    losses = {name: learner.losses(p, index) for name, p in {**own, **given}.items()}
    everything = _held_out(learner, losses)
    sharing = _that_can_share(learner, groups)
    findings = []
    for group in groups:
        findings.append(_of_preset(learner, group, everything.get(group), group in sharing))
        yield findings[-1]
    if len(groups) > 1:
        by_act: dict[str, list[str]] = {}
        for each in findings:
            by_act.setdefault(each.act if each.parameters else f.KEEP, []).append(each.subject)
        found, acts = everything[None], tuple((act, tuple(by_act[act])) for act in by_act)
        evidence = f.OfAll(acts, found.candidates())
        yield f.Finding("parameters", "all presets", reviews=len(found.index), evidence=evidence)


def _that_can_share(learner: Learner, groups: Sequence[int]) -> frozenset[int]:
    """The presets that can have one line: of those that run FSRS-6, for it is FSRS-6's."""
    others = learner.without_fsrs7()
    if others is None:
        return frozenset()
    return one_is_enough_for(others, [group for group in groups if group in others.groups])


def what_is_left_out(log: ReviewLog) -> list[f.Finding]:
    """A finding for each preset whose stored parameters Anki does not run."""
    return [
        f.Finding("parameters", log.name_of_preset(key), "left out", evidence=f.LeftOut(sentence))
        for key, sentence in why_left_out(log).items()
    ]


def _held_out(learner: Learner, given: Mapping[str, FloatArray]) -> dict[int | None, _Compared]:
    """All candidates but the current parameters on the held-out reviews of the five folds.

    By preset, None for all. `given` are others' losses for these reviews (k,).
    """
    index = learner.trials.test_index
    names = (*_possible(_HELD_OUT, learner), *learner.sm2)
    losses = {**{name: learner.held_out_losses(name) for name in names}, **given}
    found: dict[int | None, _Compared] = {}
    for group in (None, *learner.groups):
        if group is not None and learner.runs_fsrs7(group):
            of_fsrs7 = _held_out_by_fsrs7(learner, group, given)
            if of_fsrs7 is not None:
                found[group] = of_fsrs7
            continue
        mine = learner.trials.partition[index] == group if group is not None else slice(None)
        if len(index[mine]):
            here = {name: each[mine] for name, each in losses.items()}
            found[group] = compared(learner, here, index[mine], first=OTHER_MODELS)
    return found


def _held_out_by_fsrs7(
    learner: Learner, group: int, given: Mapping[str, FloatArray]
) -> _Compared | None:
    """The same of a preset that runs FSRS-7: its fits and defaults; None for no such reviews."""
    index = learner.trials.test_index
    mine = learner.trials.partition[index] == group
    folds = []
    for fold in learner.trials.folds:
        test = fold.test[learner.trials.partition[fold.test] == group]
        if len(test):
            folds.append(replace(fold, test=test))
    if not folds:
        return None
    names = (f.OPTIMIZED, f.RECENCY, f.DEFAULTS)
    losses = {
        name: learner.losses(learner.refitted(name, group, folds), index[mine]) for name in names
    }
    for name in (f.AVERAGE, *learner.sm2):
        losses[name] = learner.held_out_losses(name)[mine]
    losses |= {name: each[mine] for name, each in given.items()}
    return compared(learner, losses, index[mine], first=OTHER_MODELS)


def _possible(candidates: Sequence[str], learner: Learner, group: int | None = None) -> list[str]:
    """Without what the learner has no configuration for, or what needs several presets.

    Nor, of a preset that runs FSRS-7, what is FSRS-6's.
    """
    single = len(learner.groups) == 1
    known = {*learner.configurations, f.POOLED, f.TOGETHER, f.SM2}
    if group is not None and learner.runs_fsrs7(group):
        known = {f.OPTIMIZED, f.RECENCY, f.DEFAULTS, f.SM2}
    return [
        name for name in candidates if name in known and not (single and name in ACROSS_PRESETS)
    ]


def _since_optimized(learner: Learner, group: int) -> _Compared | None:
    """Candidates on the reviews that the current parameters had not seen; None for too few."""
    index = learner.since_optimized(group)
    if index is None or len(index) < _FEWEST or learner.days_of(index) < _FEWEST_DAYS:
        return None
    folds = learner.renewed(index)
    losses = {f.NOW: learner.losses(learner.predict(f.NOW, folds), index)}
    for name in _possible((*_RIVALS, f.TOGETHER, f.SM2), learner, group):
        with suppress(NotEnoughData):
            losses[name] = learner.losses(learner.refitted(name, group, folds), index)
    return compared(learner, losses, index, f.NOW, asked=_RIVALS, first=(f.RECENCY,))


def _of_preset(
    learner: Learner, group: int, held_out: _Compared | None, can_share: bool
) -> f.Finding:
    preset = learner.log.presets.get(group)
    unseen = learner.since_optimized(group)
    since = _since_optimized(learner, group)
    count = len(learner.positions(group))
    stored = bool(learner.stored(group))
    growth = None
    if stored and unseen is not None:
        # A fit to few reviews is as good as none: it stays where it began.
        growth = len(unseen) / max(count - len(unseen), _FITTED)
    candidates = [f.Candidate(f.NOW, None if since is None else since.log_loss[f.NOW])]
    found = {each.name: each for each in since.candidates()} if since else {}
    names = _possible((*f.ACTS, f.OPTIMIZED, "one for all presets", f.SM2), learner, group)
    for name in names:
        prior = _prior(name, stored, growth, max(count * 5 // 6, 1))
        each = found.get(name, f.Candidate(name))
        if prior is not None:
            each = replace(each, belief=population.belief(each.difference, prior))
        candidates.append(each)
    candidates += [each for name, each in found.items() if name not in {c.name for c in candidates}]
    worth = learner.equivalence / 2  # to gain by a change, and by pasting over the button
    best = _best(candidates, can_share, worth)
    if best.name == f.POOLED and learner.fitted(f.POOLED, group) == learner.fitted(
        f.TOGETHER, group
    ):
        # Presets that hardly differ are drawn all the way.
        best = next(each for each in candidates if each.name == f.TOGETHER)
    belief = best.belief
    assert belief is not None
    is_change = belief.gain >= worth and count >= _FEWEST_TO_FIT
    if not is_change:
        prior = _prior(best.name, stored, growth, max(count * 5 // 6, 1))
        if prior is None or count < _FEWEST_TO_FIT:
            prior = population.refit(0.0)
        belief = population.belief(best.difference, prior, -learner.equivalence)
    own, chance = best.difference, belief.probability
    if not is_change:  # of few reviews of one's own nothing but other people's experience is sure
        chance = min(1 - chance, 1.0 if count >= f.FEWEST_SHOWN else _SURE_OF_FEW)
    gone = "" if evaluated_by_preset(learner.log) else mostly_gone(learner.log)[1]
    is_change = is_change and not gone
    # Where FSRS is turned on, it has to begin with some parameters.
    is_worth = is_change and (learner.is_off or chance >= f.LIKELY)
    fitted = learner.fitted(best.name, group) if is_worth else None
    evidence = f.OfPreset(
        stored=stored,
        known=preset is not None and preset.is_told,
        fsrs_is_off=learner.is_off,
        candidates=tuple(each for each in candidates if each.name != f.SM2 or learner.sm2),
        held_out=() if held_out is None else held_out.candidates(),
        about=best.name,
        search=None if preset is None else preset.search,
        gone=gone,
    )
    return f.Finding(
        "parameters",
        learner.name_of(group),
        f.ACTS[best.name] if is_change else f.KEEP,
        probability=None if gone else chance,
        gain=belief.gain if is_change else 0.0,
        interval=own,
        parameters=None if fitted is None else tuple(fitted),
        reviews=0 if since is None else len(since.index),
        missing=learner.still_missing(own) if own and intervals.enough_to_tell(own) else None,
        probabilities={
            each.name: 0.0 if each.belief is None else each.belief.probability
            for each in candidates
            if each.belief or each.name == f.DEFAULTS
        },
        evidence=evidence,
    )


def _prior(
    candidate: str, stored: bool, growth: float | None, reviews: int
) -> population.Prior | None:
    """What other people's experience says of a candidate against the parameters in force.

    Those that are `stored` stand for a fit of earlier; otherwise the defaults are in force, and
    nothing is said of these against themselves.
    """
    match candidate, stored:
        case "sm2", _:
            return population.published("sm2", "optimized" if stored else "defaults", reviews)
        case "defaults", _:
            return population.published("defaults", "optimized", reviews) if stored else None
        case _, True:
            return population.refit(growth)
        case "recency", False:
            return population.published("recency", "defaults", reviews)
    return population.published("optimized", "defaults", reviews)


def _best(candidates: Sequence[f.Candidate], can_share: bool, worth: float) -> f.Candidate:
    """The change with the least expected loss.

    The button comes first, for it is no work: anything else has to gain more than it, and to be
    as likely to. Where presets can share one line, that goes before a line for each.
    """
    beliefs = {each.name: each.belief for each in candidates if each.belief}
    button = beliefs[f.RECENCY].probability
    gains = {
        name: each.gain
        for name, each in beliefs.items()
        if name in f.ACTS and (name != f.TOGETHER or can_share) and each.probability >= button
    }
    if can_share and f.TOGETHER in gains:
        gains.pop(f.POOLED, None)
    chosen = max(gains, key=lambda name: gains[name] - worth * (name != f.RECENCY))
    return next(each for each in candidates if each.name == chosen)


# How often, and which numbers are noise?

_GROWTHS = (0.02, 0.10, 0.25, 0.50, 1.00)
"""Optimizing again whenever there are so many more reviews; the first is the yardstick."""
_NEVER = "once, then never"
_START = 6  # the first fit has a sixth of the reviews, as the first of five folds has
_SAFE = "+10 %"  # for everybody: its mean cost was 0.0001 to 0.0006 in simulations
_CANDIDATE = f.RECENCY  # what Anki's optimizer fits


def how_often(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One finding for each preset."""
    for group in groups:
        evaluated = len(_evaluated(learner, group))
        act, evidence = f"every {_SAFE}", f.Often("safe")
        if evaluated >= intervals.FEWEST_REVIEWS:
            cost = _staleness_of(learner, group)
            says = learner.verdicts(cost)
            costs = [f.Candidate(name, difference=cost[name], verdict=says[name]) for name in cost]
            # The first that costs something ends the search: what passes after it is chance.
            enough = list(takewhile(lambda each: each.verdict in ("as good", "better"), costs[:-1]))
            act = enough[-1].name if enough else act
            evidence = f.Often("as good" if enough else "safe", tuple(costs))
        yield f.Finding("often", learner.name_of(group), act, reviews=evaluated, evidence=evidence)


def _refits(index: IntArray, growth: float | None) -> tuple[Fold, ...]:
    """Fits at a sixth of the positions and whenever these have grown; None: never again."""
    sizes = [len(index) // _START]
    while growth is not None:
        larger = max(sizes[-1] + 1, round(sizes[-1] * (1 + growth)))
        if larger >= len(index):
            break
        sizes.append(larger)
    return tuple(
        Fold(train=index[:begin], test=index[begin:end])
        for begin, end in zip(sizes, [*sizes[1:], len(index)], strict=True)
    )


def _staleness_of(learner: Learner, group: int) -> dict[str, Interval]:
    """What optimizing a preset less often than at every 2 % costs, in log loss."""
    index = learner.positions(group)
    evaluated = _evaluated(learner, group)
    often = learner.refitted(_CANDIDATE, group, _refits(index, _GROWTHS[0]))
    always = learner.losses(often, evaluated)
    found = {}
    for growth in (*_GROWTHS[1:], None):
        name = _NEVER if growth is None else f"every +{100 * growth:.0f} %"
        p = learner.refitted(_CANDIDATE, group, _refits(index, growth))
        found[name] = learner.interval(learner.losses(p, evaluated) - always, evaluated)
    return found


def _evaluated(learner: Learner, group: int) -> IntArray:
    """Positions of the reviews after the first fit."""
    index = learner.positions(group)
    return index[len(index) // _START :]


# Which numbers are noise?

_DRAWS = 20
_NOISE = 0.5
"""A parameter is noise where it moves by more than this share of what learners differ by."""


def which_numbers_are_noise(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One finding for each preset."""
    for group in groups:
        name = learner.name_of(group)
        index = learner.positions(group)
        lacks = f.missing_of(len(index), learner.days_of(index))
        if lacks != f.Missing():
            evidence = f.Noise(f.OPEN)
            yield f.Finding("noise", name, reviews=len(index), missing=lacks, evidence=evidence)
            continue
        deviation: Sequence[float]
        if learner.runs_fsrs7(group):
            fitted, by_days = _fits_of_fsrs7(learner, group)
            deviation = fsrs7.DEVIATION
        else:
            fitted, by_days = _fitted(learner, index), _by_days(learner, index)
            deviation = fsrs6.DEVIATION
        columns = fitted, by_days.std(axis=0, ddof=1).tolist(), deviation
        spreads = tuple(
            f.Spread(value, spread, usual, spread > _NOISE * usual)
            for value, spread, usual in zip(*columns, strict=True)
        )
        says = f"{sum(each.is_noise for each in spreads)} of {len(spreads)}"
        yield f.Finding("noise", name, reviews=len(index), evidence=f.Noise(says, spreads))


def _by_days(learner: Learner, index: IntArray) -> FloatArray:
    """Fits (20, 21) to the reviews at the positions, their days drawn anew with replacement."""
    return _drawn_fits(learner.trials.day[index], index, partial(_fitted, learner))


def _fitted(learner: Learner, train: IntArray) -> list[float]:
    """As Anki's optimizer fits, newer reviews weighing more."""
    return fsrs6.fit(learner.trials, train, recency_weights(len(train)), learner.context)


def _fits_of_fsrs7(learner: Learner, group: int) -> tuple[list[float], FloatArray]:
    """FSRS-7 fitted to a preset's reviews, and (20, 34) to these with their days drawn anew."""
    trials = learner.fractional.trials
    index = np.flatnonzero(trials.partition == group)

    def fitted(train: IntArray) -> list[float]:
        weights = fsrs7.recency_weights(len(train))
        return fsrs7.fit(trials, train, weights, learner.context)

    return fitted(index), _drawn_fits(trials.day[index], index, fitted)


def _drawn_fits(
    day: IntArray, index: IntArray, fit: Callable[[IntArray], list[float]]
) -> FloatArray:
    """Fits (20, parameters) to the positions of reviews whose days (k,) are drawn anew."""
    days, place = np.unique(day, return_inverse=True)
    draws = np.random.default_rng(0).multinomial(
        len(days), np.full(len(days), 1 / len(days)), _DRAWS
    )
    return np.array([fit(np.repeat(index, draw[place])) for draw in draws])
