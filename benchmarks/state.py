"""Measure what knowing the learner's day is worth: STATE-* against FSRS-6-recency, and its cost.

    python benchmarks/state.py [--golden DIR] [--real DIR] [--speed]

Every real learner (golden 101, and the files of --real or of the environment variable
SRS_EVAL_REAL) is predicted with a prior made from the other real ones; simulated learners with
one made from all real ones. A gain is the log loss of FSRS-6-recency minus the model's, with its
95 % interval over days. With weights of RWKV (SRS_EVAL_RWKV_WEIGHTS), STATE-FSRS-6+7+RWKV is one
of the models. --speed prints milliseconds of CPU for 10,000 evaluated reviews, features
and filters without FSRS's own fits, and the time for the 350 million of anki-revlogs-10k.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.models import rwkv
from srs_eval.models.state import (
    _BASE_MODELS,
    _STATE_1_RATE,
    WeightPrior,
    _make_uninformed_prior,
    _run_offset,
    compute_features,
    predict_base_logits,
    run_filters,
)
from srs_eval.stats.intervals import mean_interval
from srs_eval.training.compile import compile_kernel
from srs_eval.training.hyperparameters import Context
from srs_eval.training.state_features import FEATURE_COUNT, build_timeline, compute_state_features
from tools.pretraining.state import fit_prior, load_trials

REAL_IN_GOLDEN = 101
ALL_EVALUATED = 350e6  # evaluated reviews of anki-revlogs-10k
MODELS = [name for name, bases in _BASE_MODELS.items() if rwkv not in bases or rwkv.find_weights()]
COLUMNS = ("STATE-1", "no prior", *MODELS)


class PreparedLearner:
    """One learner's trials, the bases' logits and the features."""

    def __init__(self, name: str, trials: Trials, real: bool) -> None:
        self.name = name
        self.trials = trials
        self.real = real
        context = Context()
        self.logits = [
            predict_base_logits(trials, base, context) for base in _BASE_MODELS[MODELS[-1]]
        ]
        self.features = compute_features(trials, self.logits)

    def compute_gain(self, p: FloatArray) -> FloatArray:
        """Return FSRS-6-recency's loss minus that of p, for each evaluated review."""
        index = self.trials.test_index
        y = self.trials.y[index]
        base = 1 / (1 + np.exp(-self.logits[0]))

        def compute_losses(probability: FloatArray) -> FloatArray:
            return -np.log(np.where(y == 1, probability[index], 1 - probability[index]))

        return compute_losses(base) - compute_losses(p)

    def compute_log_loss(self) -> float:
        index = self.trials.test_index
        z = self.logits[0][index]
        y = self.trials.y[index]
        return float(np.mean(np.log1p(np.exp(np.where(y == 1, -z, z)))))


def load_histories(golden: Path | None, real: Path | None) -> Iterator[tuple[str, ReviewLog, bool]]:
    if real is not None:
        for path in sorted(path for path in real.iterdir() if path.is_file()):
            try:
                yield path.name[:20], load_log(path), True
            except InputError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
    if golden is not None:
        dataset = open_dataset(golden / "dataset")
        for user in dataset.users:
            yield f"golden {user}", dataset.load(user), user == REAL_IN_GOLDEN


def print_gains(learners: list[PreparedLearner]) -> None:
    people = [learner for learner in learners if learner.real]
    print(f"{'learner':21}{'evaluated':>7} {'FSRS-6':>7}", *(f"{name:>17}" for name in COLUMNS))
    estimates: dict[str, list[list[float]]] = {"real": [], "simulated": []}
    for learner in learners:
        trials = learner.trials
        y = trials.y
        rest = [person for person in people if person is not learner]
        predictions = [
            compile_kernel(_run_offset)(learner.logits[0], y, _STATE_1_RATE),
            run_filters(learner.features[:, :FEATURE_COUNT].copy(), y, _make_uninformed_prior()).p,
        ]
        for width in range(FEATURE_COUNT, FEATURE_COUNT + len(MODELS)):
            prior = fit_prior_to_people(rest, width)
            predictions.append(run_filters(learner.features[:, :width].copy(), y, prior).p)
        day = trials.day[trials.test_index]
        intervals = [mean_interval(learner.compute_gain(p), day) for p in predictions]
        print(
            f"{learner.name:21}{len(day):7,} {learner.compute_log_loss():7.4f}",
            *(f"{interval.estimate:+9.4f} ±{interval.half_width:.4f}" for interval in intervals),
        )
        kind = "real" if learner.real else "simulated"
        estimates[kind].append([interval.estimate for interval in intervals])
    for kind, rows in estimates.items():
        if rows:
            table = np.array(rows)
            for word, figures in (
                ("mean", table.mean(axis=0)),
                ("least", table.min(axis=0)),
            ):
                label = f"{kind} ({len(rows)}), {word}"
                print(f"{label:36}", *(f"{figure:+9.4f}        " for figure in figures))


def fit_prior_to_people(people: list[PreparedLearner], width: int) -> WeightPrior:
    """Fit the prior to these people.

    With fewer than two, it is the one without data, around FSRS's own weights.
    """
    if len(people) < 2:
        return _make_uninformed_prior(width)
    return fit_prior([(person.features[:, :width].copy(), person.trials.y) for person in people])


def print_speed(learners: list[PreparedLearner]) -> None:
    learner = max(learners, key=lambda candidate: len(candidate.trials))
    trials = learner.trials
    z = learner.logits[0]
    answers = build_timeline(trials)
    features = learner.features[:, :FEATURE_COUNT].copy()
    prior = _make_uninformed_prior()
    steps = {
        "features": lambda: compile_kernel(compute_state_features)(
            answers, z, np.zeros_like(features)
        ),
        "filters and mixture": lambda: run_filters(features, trials.y, prior),
    }
    total = 0.0
    for name, step in steps.items():
        step()
        seconds = []
        for _ in range(7):
            start = time.process_time()
            step()
            seconds.append(time.process_time() - start)
        milliseconds = 1e4 * 1000 * min(seconds) / len(trials.test_index)
        total += milliseconds
        print(f"{name}: {milliseconds:.0f} ms for 10,000 evaluated reviews ({learner.name})")
    hours = total / 1000 / 1e4 * ALL_EVALUATED / 3600
    print(f"together {total:.0f} ms; 350 million evaluated reviews: {hours:.1f} core-hours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    variable = os.environ.get("SRS_EVAL_REAL")
    real = options.real or (Path(variable) if variable else None)
    learners = []
    for name, log, is_real in load_histories(options.golden, real):
        try:
            learners.append(PreparedLearner(name, load_trials(log), is_real))
        except NotEnoughData as reason:
            print(f"{name}: {reason}", file=sys.stderr)
    if not learners:
        parser.error("nobody to predict: give --golden or --real")
    if options.speed:
        print_speed(learners)
    else:
        print_gains(learners)


if __name__ == "__main__":
    main()
