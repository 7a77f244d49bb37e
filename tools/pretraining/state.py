"""Fit the prior of STATE-*: the distribution of the weights over other people.

    python -m tools.pretraining.state FOLDER...

reads every review history in the folders (files that `srs-eval` reads, data sets with all of
their users or those of `--users`) and writes `models/state.json`: the mean and the standard
deviation of every weight over people, nothing that could be traced to one of them. Where RWKV
has no weights (SRS_EVAL_RWKV_WEIGHTS), the prior with it is left out. The numbers come from
an expectation-maximisation (Dempster, Laird & Rubin, 1977, JRSS B 39): each learner's weights
are filtered under the prior, then the prior's mean becomes their mean, and its variance becomes
their variance plus that of each learner's own uncertainty.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.datasets import open_dataset, select_users
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import Trials, prepare_trials
from srs_eval.models import rwkv
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.state import (
    _BASE_MODELS,
    _PRIOR_FILE,
    WeightPrior,
    _compute_learner_features,
    _feature_names,
    _make_uninformed_prior,
    _run_kalman_filter,
)
from srs_eval.training.compile import compile_kernel
from srs_eval.training.hyperparameters import Context

log = logging.getLogger(__name__)

ITERATIONS = 8
DRIFT = 1e-5


def list_histories(
    folders: Sequence[Path], users: str | None = None
) -> Iterator[tuple[str, Callable[[], ReviewLog]]]:
    """Yield each learner's name, in order, and a function that reads the history.

    `users` selects users of data sets, as in "1-3,7"; all if None.
    """
    for folder in folders:
        if (folder / "revlogs").is_dir():
            dataset = open_dataset(folder)
            for user in select_users(dataset.users, users, None):
                yield f"{folder.name} {user}", partial(dataset.load, user)
            continue
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            yield path.name, partial(load_log, path)


def load_trials(history: ReviewLog) -> Trials:
    """Prepare the trials that STATE-FSRS-6 is evaluated on; raises NotEnoughData."""
    return prepare_trials(
        history, select_rows(history).rows, resolve_configurations("STATE-FSRS-6")[0].protocol
    )


def fit_prior(
    learners: Sequence[tuple[FloatArray, FloatArray]], iterations: int = ITERATIONS
) -> WeightPrior:
    """Fit means and standard deviations over learners, each given by features (n, k) and y (n,).

    Raises ValueError for fewer than two learners.
    """
    if len(learners) < 2:
        raise ValueError("a spread over people takes two people at least")
    prior = _make_uninformed_prior(learners[0][0].shape[1])
    for _ in range(iterations):
        weights = []
        variances = []
        for features, y in learners:
            *_, w, variance = compile_kernel(_run_kalman_filter)(
                features, y, prior.mean, prior.deviation**2, DRIFT, (0, 0)
            )
            weights.append(w)
            variances.append(variance)
        mean = np.mean(weights, axis=0)
        several = len(learners) / (len(learners) - 1)
        spread = several * np.mean((np.array(weights) - mean) ** 2 + np.array(variances), axis=0)
        prior = WeightPrior(mean, np.sqrt(spread))
    return prior


def build_document(learners: Sequence[Trials]) -> Mapping[str, object]:
    """Build the content of the shipped file."""
    priors = {}
    context = Context()
    for model, bases in _BASE_MODELS.items():
        if rwkv in bases and not rwkv.find_weights():
            continue
        examples = [
            (_compute_learner_features(model, trials, context), trials.y) for trials in learners
        ]
        prior = fit_prior(examples)
        priors[model] = {
            "features": list(_feature_names(model)),
            "mean": [round(value, 4) for value in prior.mean.tolist()],
            "deviation": [round(value, 4) for value in prior.deviation.tolist()],
        }
    return {
        "note": "Weights of STATE-*: mean and standard deviation over people; "
        "made by tools.pretraining.state",
        "people": len(learners),
        "priors": priors,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.pretraining.state")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--users", help="of data sets: ids and ranges, as in 1-3,7")
    parser.add_argument("--out", type=Path, default=_PRIOR_FILE, help="the file to write")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    learners = []
    for name, read in list_histories(options.folders, options.users):
        try:
            trials = load_trials(read())
        except (InputError, NotEnoughData) as reason:
            log.info("%s: left out, %s", name, reason)
            continue
        log.info("%s: %d reviews", name, len(trials))
        learners.append(trials)
    options.out.write_text(json.dumps(build_document(learners), indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
