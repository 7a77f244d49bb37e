"""Tell when to optimize a preset next.

How often is enough is the answer to another question (`parameters.assess_optimization_frequency`):
each time the reviews have grown by some share. Here that share is applied to the reviews that the
preset had when its parameters were last set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import MissingData, Recommendation
from srs_eval.advice.parameters import assess_optimization_frequency
from srs_eval.models.own_parameters import latest_possible_fit_s

QUESTION = "next"
_GROWTH: Mapping[Recommendation, float] = {
    Recommendation.EVERY_10_PERCENT: 0.10,
    Recommendation.EVERY_25_PERCENT: 0.25,
    Recommendation.EVERY_50_PERCENT: 0.50,
    Recommendation.EVERY_100_PERCENT: 1.00,
}


def assess_next_optimization(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset."""
    for frequency in assess_optimization_frequency(learner, groups):
        group = next(key for key, name in learner.groups.items() if name == frequency.subject)
        evidence = _assess_preset(learner, group, frequency)
        yield f.Finding(
            QUESTION, frequency.subject, reviews=evidence.reviews_now, evidence=evidence
        )


def _assess_preset(learner: Learner, group: int, frequency: f.Finding) -> f.NextOptimization:
    """Apply the finding on how often to optimize to one preset."""
    growth = _GROWTH[frequency.recommendation]
    costs = f.get_evidence(frequency, f.OptimizationFrequency).costs
    index = learner.positions(group)
    count = len(index)
    name = learner.group_name(group)

    def wait_for(reviews: int) -> MissingData:
        return learner.with_due_date(MissingData(reviews=reviews), name)

    if count < f.MIN_REVIEWS_TO_FIT:
        return f.NextOptimization(
            "few reviews",
            growth,
            reviews_now=count,
            costs=costs,
        )
    preset = learner.log.presets.get(group)
    fitted_s = None if preset is None else latest_possible_fit_s(learner.log, preset)
    if fitted_s is None or not learner.stored(group):
        is_known = preset is not None and preset.has_settings
        return f.NextOptimization(
            "defaults" if is_known and not learner.stored(group) else "unknown",
            growth,
            reviews_now=count,
            missing=wait_for(math.ceil(count * growth)),
            costs=costs,
        )
    count_then = int(np.searchsorted(learner.time_s[index], fitted_s, side="right"))
    remaining = math.ceil(count_then * (1 + growth)) - count
    conclusion: Literal["now", "later", "never"] = "now"
    missing = None
    if remaining > 0:
        missing = wait_for(remaining)
        conclusion = "never" if missing.out_of_reach else "later"
    return f.NextOptimization(
        conclusion,
        growth,
        optimized_on=datetime.fromtimestamp(fitted_s, UTC).date().isoformat(),
        reviews_then=count_then,
        reviews_now=count,
        missing=missing,
        costs=costs,
    )
