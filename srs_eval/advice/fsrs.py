"""Compare FSRS with the average, the older scheduler and other models, and run Anki's health check.

Models are compared for reviews without presets, and if there are external predictions. FSRS-6, its
variants and the average are then the engine's configurations on the benchmark's rows; they are
compared with the predictions in the source (SuperMemo's), those of a file, and the user's own
parameters. All are evaluated on the same held-out reviews.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import CONFIGURATIONS, PRESET_PROTOCOL, Learner
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.health_check import check_health
from srs_eval.advice.parameters import OTHER_MODELS, compare_candidates
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import ExternalPredictions, FloatArray
from srs_eval.data.trials import compute_rmse_bin_ids
from srs_eval.engine.shared_reviews import (
    HeldOutPredictions,
    find_predicted,
    group_by_shared_reviews,
    intersect_reviews,
    select_held_out,
)
from srs_eval.metrics import auc, rmse_bins
from srs_eval.models import all_models
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.rwkv import find_weights
from srs_eval.stats.intervals import Interval, Verdict, has_enough_data, ratio_interval

_Kind = Literal["older scheduler", "average", "brought along", "FSRS"]
_GOOD_SAVING = 0.05  # share saved of the average's log loss from which FSRS predicts well


def assess_fit(learner: Learner) -> f.Finding:
    """Return one finding over all reviews: the share of log loss that FSRS-6 saves, with interval.

    FSRS-6 is evaluated with the learner's own parameters, if known, and with parameters fitted to
    earlier reviews. It is also compared with the learner's scheduler, if that is not FSRS.
    """
    index = learner.trials.test_index
    source_p = {name: held_out.p for name, held_out in source_predictions(learner).items()}
    current: str | None = None  # the scheduler in use, unless it is FSRS
    if source_p:
        current = next(iter(source_p))
    elif learner.is_fsrs_off:
        current = f.SM2
    source: Literal["stored", "defaults", "optimized"] = "optimized"
    if current is None and learner.trials.protocol == PRESET_PROTOCOL:
        source = _parameter_source(learner)
    untested = []  # compared, but not part of the question that the verdicts answer
    if source != "optimized":
        untested.append(f.CURRENT)
    if current is not None:
        untested.append(f.DEFAULTS)
    names = (f.OPTIMIZED, f.AVERAGE, *learner.sm2_candidates, *untested)
    predictions = {name: learner.held_out_predictions(name) for name in names} | source_p
    # SuperMemo predicts most reviews, not all.
    is_predicted = {name: np.isfinite(p) for name, p in predictions.items() if np.isfinite(p).any()}
    losses = {name: learner.losses(predictions[name], index) for name in is_predicted}

    # Both compare two models on the reviews that both of them predict.
    def minus(name: str, reference: str) -> Interval:
        """Return the difference in log loss."""
        both = is_predicted[name] & is_predicted[reference]
        return learner.interval((losses[name] - losses[reference])[both], index[both])

    def share_saved(name: str, reference: str) -> Interval:
        """Return the share of the reference's log loss that a model saves."""
        both = is_predicted[name] & is_predicted[reference]
        saved = (losses[reference] - losses[name])[both]
        day = learner.trials.day[index[both]]
        return ratio_interval(saved, losses[reference][both], day, learner.persistence)

    log_loss = {
        name: learner.interval(values[is_predicted[name]], index[is_predicted[name]])
        for name, values in losses.items()
    }
    differences = {name: minus(f.OPTIMIZED, name) for name in is_predicted if name != f.OPTIMIZED}
    tested = {name: difference for name, difference in differences.items() if name not in untested}
    verdicts = learner.verdicts(tested)
    kinds: dict[str, _Kind] = {f.AVERAGE: "average", f.SM2: "older scheduler"}
    kinds |= dict.fromkeys(source_p, "brought along")

    def make_rival(name: str, difference: Interval) -> f.Rival:
        return f.Rival(
            name=name,
            kind=kinds.get(name, "FSRS"),
            log_loss=log_loss[name],
            difference=difference,
            verdict=verdicts.get(name, ""),
            saved=share_saved(f.OPTIMIZED, name),
        )

    rivals = {name: make_rival(name, difference) for name, difference in differences.items()}
    evaluated = f.OPTIMIZED if source == "optimized" else f.CURRENT
    minus_average = minus(evaluated, f.AVERAGE)
    saved = share_saved(evaluated, f.AVERAGE)
    verdict = verdicts[f.AVERAGE]
    if source != "optimized":
        verdict = learner.verdict(minus_average)
    conclusion = _classify_fit(verdict, saved)
    inconclusive = minus_average if conclusion == f.CANT_TELL else None
    if current is not None and verdicts[current] == "can't tell yet":
        inconclusive = differences[current]
    evidence = f.Fit(
        conclusion=conclusion,
        parameter_source=source,
        saved=saved,
        log_loss=log_loss[f.OPTIMIZED],
        rivals=tuple(rivals.values()),
        fsrs_is_off=learner.is_fsrs_off,
        current_scheduler=None if current is None else rivals[current],
        defaults_verdict=None if current is None else learner.verdict(minus(f.DEFAULTS, current)),
        would_run_fsrs7=learner.is_fsrs_off and any(map(learner.runs_fsrs7, learner.groups)),
        excluded_majority=learner.excluded_majority,
    )
    finding = f.Finding(
        "fit",
        f.ALL_REVIEWS,
        interval=differences[f.AVERAGE],
        reviews=len(index),
        missing=None if inconclusive is None else learner.missing_data(inconclusive),
        evidence=evidence,
    )
    if current == f.SM2:
        return _with_recommendation(finding, differences[f.SM2], Recommendation.TURN_FSRS_ON)
    return finding


def _with_recommendation(
    finding: f.Finding, minus_sm2: Interval, recommendation: Recommendation
) -> f.Finding:
    """Replace the finding's recommendation: the given one, or to stay with SM-2 if that is better.

    It rests on the learner's own difference, FSRS minus SM-2, and on the gains of other people.
    """
    prior = population.published_prior("optimized", "sm2", max(minus_sm2.reviews, 1))
    belief = population.compute_belief(minus_sm2, prior)
    probability = belief.probability
    if not belief.gain > 0:
        recommendation = Recommendation.STAY_WITH_SM2
        probability = 1 - probability
    if not has_enough_data(minus_sm2):
        probability = population.limit_without_evidence(probability)
    return replace(
        finding,
        recommendation=recommendation,
        probability=probability,
        gain=abs(belief.gain),
        belief=belief,
        interval=minus_sm2,
    )


def _classify_fit(
    verdict: Verdict, saved: Interval
) -> Literal["well", "a little", "no better", "worse", "can't tell"]:
    match verdict:
        case "better":
            return "well" if saved.estimate >= _GOOD_SAVING else "a little"
        case "as good":
            return "no better"
        case "worse":
            return "worse"
    return f.CANT_TELL


def _parameter_source(learner: Learner) -> Literal["stored", "defaults", "optimized"]:
    """Return the kind of parameters in use; "optimized" if the source does not say."""
    presets = [learner.log.presets.get(group) for group in learner.groups]
    if not any(preset is not None and preset.has_settings for preset in presets):
        return "optimized"
    if any(preset is not None and preset.active_parameters for preset in presets):
        return "stored"
    return "defaults"


def compare_with_sm2(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset: FSRS compared with SM-2, and Anki's health check."""
    test_index = learner.trials.test_index
    partition = learner.trials.partition[test_index]
    fsrs_losses = learner.held_out_losses(f.OPTIMIZED)
    sm2_losses = learner.held_out_losses(f.SM2)
    recommendation = Recommendation.KEEP
    if learner.is_fsrs_off:
        recommendation = Recommendation.TURN_FSRS_ON
    for group in groups:
        in_preset = partition == group
        index = test_index[in_preset]
        sm2: f.Rival | None = None
        if len(index):
            fsrs_loss = fsrs_losses[in_preset]
            sm2_loss = sm2_losses[in_preset]
            difference = learner.interval(fsrs_loss - sm2_loss, index)
            sm2 = f.Rival(
                name=f.SM2,
                kind="older scheduler",
                log_loss=learner.interval(sm2_loss, index),
                difference=difference,
                verdict=learner.verdict(difference),
                saved=ratio_interval(
                    sm2_loss - fsrs_loss, sm2_loss, learner.trials.day[index], learner.persistence
                ),
            )
        runs_fsrs7 = learner.runs_fsrs7(group)
        check = None
        if not runs_fsrs7:
            check = learner.compute_once(
                ("health check", group), partial(check_health, learner, learner.positions(group))
            )
        evidence = f.Health(sm2, check, runs_fsrs7, learner.is_fsrs_off)
        finding = f.Finding(
            "health", learner.group_name(group), reviews=len(index), evidence=evidence
        )
        if sm2 is not None:
            finding = _with_recommendation(finding, sm2.difference, recommendation)
        yield finding


# Which model predicts best?

_CANDIDATES = {*CONFIGURATIONS, f.CURRENT, f.SM2, f.POOLED, f.SHARED, f.SEPARATE}


def compare_models(
    learner: Learner,
    parameter_sets: Mapping[str, Sequence[float]],
    predictions: Mapping[str, HeldOutPredictions],
) -> Iterator[f.Finding]:
    """Yield a finding over all reviews, or one for each set of `predictions` that share reviews.

    `parameter_sets` are the user's own parameters of FSRS-6 or FSRS-7, by name; `predictions` are
    external, by name. A finding evaluates only the reviews that all its models predict.
    """
    incomplete = {
        name: held_out.predicted
        for name, held_out in predictions.items()
        if held_out.missing and len(held_out.predicted)
    }
    name_sets = [names for _, names in group_by_shared_reviews(incomplete)]
    if not name_sets:
        name_sets = [[]]
    for number, members in enumerate(name_sets):
        in_set = {
            name: held_out
            for name, held_out in predictions.items()
            if not held_out.missing or name in members
        }
        subject = f.ALL_REVIEWS  # the name of the first set, whatever reviews it has
        if number:
            subject = f"reviews with {', '.join(members)}"
        yield _compare_on_shared_reviews(learner, parameter_sets, in_set, subject)


def _compare_on_shared_reviews(
    learner: Learner,
    parameter_sets: Mapping[str, Sequence[float]],
    predictions: Mapping[str, HeldOutPredictions],
    subject: str,
) -> f.Finding:
    test_index = learner.trials.test_index
    external = {name: held_out.p for name, held_out in predictions.items()}
    external |= _predict_with_rwkv(learner)
    external = {_label_online(name): p for name, p in external.items()}
    p_by_name = {}
    for name in (*learner.configurations, *learner.sm2_candidates):
        with suppress(NotEnoughData):
            p_by_name[name] = learner.held_out_predictions(name)
    for name, values in parameter_sets.items():
        p_by_name[name] = learner.predict_with_parameters(values, test_index)
    p_by_name |= external
    shared = intersect_reviews(map(find_predicted, p_by_name.values()))
    if not len(shared):
        raise NotEnoughData("there is no held-out review that every model predicted")
    index = test_index[shared]
    p_by_name = {name: p[shared] for name, p in p_by_name.items()}
    losses = {name: learner.losses(p, index) for name, p in p_by_name.items()}
    tested_separately = (*OTHER_MODELS, *learner.log.source_predictions)
    comparison = compare_candidates(learner, losses, index, tested_separately=tested_separately)
    trials = learner.trials
    bins = compute_rmse_bin_ids(
        trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index]
    )
    y = trials.y[index]
    models = []
    for name in comparison.ordered:
        p = p_by_name[name]
        model = f.ComparedModel(
            name=name,
            log_loss=comparison.log_loss[name],
            difference=comparison.difference.get(name),
            verdict=comparison.verdicts.get(name),
            rmse_bins=rmse_bins(y, p, bins),
            auc=auc(y, p),
            is_own=name in parameter_sets or name in external,
        )
        models.append(model)
    excluded = len(test_index) - len(index)
    unused = {name: held_out.unused for name, held_out in predictions.items() if held_out.unused}
    evidence = f.ModelComparison(models[0].name, tuple(models), excluded, unused)
    return f.Finding("models", subject, reviews=len(index), evidence=evidence)


def _label_online(name: str) -> str:
    """Add "(online)" to the name of an online model: no scheduler can do what it does."""
    model = all_models().get(name)
    return f"{name} (online)" if model is not None and model.family == "online" else name


def _predict_with_rwkv(learner: Learner) -> dict[str, FloatArray]:
    """Predict the held-out reviews with RWKV; empty unless its weights were named."""
    if learner.context.weights is None or not find_weights(learner.context):
        return {}
    configurations = resolve_configurations(("RWKV-Instant", "RWKV-Curve"), learner.trials.protocol)
    return {
        configuration.model.name: learner.session.run(configuration, learner.context).p
        for configuration in configurations
    }


def external_predictions(
    learner: Learner, reserved_names: Collection[str] = ()
) -> dict[str, HeldOutPredictions]:
    """Return external predictions of the held-out reviews, by name.

    Predictors without any held-out prediction are omitted. If a name is that of a candidate or one
    of `reserved_names`, "(file)" is added to it.
    """
    reserved = {*_CANDIDATES, *reserved_names, *learner.log.source_predictions}
    in_file = learner.log.external_predictions
    if not in_file:
        return {}
    from srs_eval.data.readers.predictions import make_name_unique  # the readers take long to load

    predictions: dict[str, HeldOutPredictions] = {}
    for name, external in in_file.items():
        held_out = select_held_out(external, learner.held_out_entries)
        if len(held_out.predicted):
            taken = {*reserved, *predictions, *(in_file.keys() - {name})}
            predictions[make_name_unique(name, taken.__contains__)] = held_out
    return predictions


def source_predictions(learner: Learner) -> dict[str, HeldOutPredictions]:
    """Return the source's own predictions of the held-out reviews, by name."""
    return {
        name: select_held_out(ExternalPredictions(column, note=""), learner.held_out_entries)
        for name, column in learner.log.source_predictions.items()
    }
