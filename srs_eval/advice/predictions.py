"""Which model predicts best? For reviews without presets, and for predictions of others.

FSRS-6, its variants and the average are the engine's configurations on the benchmark's rows;
beside them stand the predictions that the source brings along (SuperMemo's), those of a file,
and parameters of one's own. All are evaluated on the same held-out reviews.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import CONFIGURATIONS, Learner
from srs_eval.advice.findings import ALL_REVIEWS, OPTIMIZED, Finding, Model, Models
from srs_eval.advice.parameters import OTHER_MODELS, compared
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.readers.predictions import unlike
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import rmse_bin_ids
from srs_eval.engine.shared import sharing
from srs_eval.metrics import auc, rmse_bins
from srs_eval.models import all_models
from srs_eval.models.configurations import resolve
from srs_eval.models.rwkv import found_weights

_REFERENCE = OPTIMIZED
_CANDIDATES = {*CONFIGURATIONS, f.NOW, f.SM2, f.POOLED, f.TOGETHER, f.ALONE}


def which_predicts_best(
    learner: Learner,
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
    equivalence: float,
) -> Iterator[Finding]:
    """A finding over all reviews, or one for each of the sets in which `given` share reviews.

    `lines` are FSRS-6 parameters of one's own, by name; `given` others' probabilities for the
    held-out reviews (k,), NaN where there is none. Evaluated are reviews with a prediction by all.
    """
    covered = {name: np.flatnonzero(np.isfinite(p)) for name, p in given.items()}
    everywhere = {name for name, index in covered.items() if len(index) == len(given[name])}
    some = {name: index for name, index in covered.items() if len(index)}
    sets = sharing({name: index for name, index in some.items() if name not in everywhere})
    for number, (_, members) in enumerate(sets or [(None, [])]):
        here = {name: p for name, p in given.items() if name in everywhere or name in members}
        subject = f"reviews with {', '.join(members)}" if number else ALL_REVIEWS
        yield _on_shared(learner, lines, here, equivalence, subject)


def _on_shared(
    learner: Learner,
    lines: Mapping[str, Sequence[float]],
    given: Mapping[str, FloatArray],
    equivalence: float,
    subject: str,
) -> Finding:
    everything = learner.trials.test_index
    given = {_in_words(name): each for name, each in {**given, **_by_rwkv(learner)}.items()}
    p = {}
    for name in (*learner.configurations, *learner.sm2):
        try:
            p[name] = learner.held_out(name)
        except NotEnoughData:
            continue
    p |= {name: learner.with_parameters(values, everything) for name, values in lines.items()}
    p |= given
    evaluated = np.isfinite(np.stack(list(p.values()))).all(axis=0)
    if not evaluated.any():
        raise NotEnoughData("no held-out review has a prediction by all models")
    index = everything[evaluated]
    losses = {name: learner.losses(each[evaluated], index) for name, each in p.items()}
    first = (*OTHER_MODELS, *brought_along(learner))
    found = compared(
        learner.interval, losses, index, _REFERENCE, first=first, equivalence=equivalence
    )
    trials = learner.trials
    bins = rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index])
    models = tuple(
        Model(
            name,
            found.log_loss[name],
            found.difference.get(name),
            found.says.get(name),
            rmse_bins=rmse_bins(trials.y[index], p[name][evaluated], bins),
            auc=auc(trials.y[index], p[name][evaluated]),
            is_own=name in lines or name in given,
        )
        for name in found.ordered
    )
    evidence = Models(models[0].name, models, len(everything) - len(index))
    return Finding("models", subject, reviews=len(index), evidence=evidence)


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
    taken = {*_CANDIDATES, *lines, *learner.log.predictions}
    found = dict[str, FloatArray]()
    for name, given in learner.log.given.items():
        if np.isfinite(given.p[place]).any():
            beside = {*taken, *found, *(learner.log.given.keys() - {name})}
            found[unlike(name, beside.__contains__)] = given.p[place]
    return found


def brought_along(learner: Learner) -> dict[str, FloatArray]:
    """The source's own predictions for the held-out reviews, by name; NaN where there is none."""
    place = learner.source_place[learner.trials.test_index]
    return {name: column[place] for name, column in learner.log.predictions.items()}
