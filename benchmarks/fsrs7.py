"""Measure the effect of clocks, more epochs and an ordinal head on FSRS-7, for real people.

    python benchmarks/fsrs7.py [--real DIR] [--zone Europe/Berlin]

reads every history in --real (or the environment variable SRS_EVAL_REAL). First, log loss and its
difference to FSRS-7 recency, on reviews of later days (equalized) and on all. No file names a time
zone, so study days are computed as if all lived in --zone, whose clocks change; days begin as
before.

Then, for held-out reviews of later days that were recalled, -log P of the pressed button,
by shares and by ordinal heads on R, S and D. Shares are those of training reviews that were
recalled on later days, shrunk towards averages of many learners as in a workload. A head is trained
with FSRS-7 (FSRS-7-ordinal), or fitted to such reviews when FSRS-7 is. All weigh newer reviews
more, except the shares of a workload.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from srs_eval.advice.workload.simulator import Costs
from srs_eval.anki_import import load_log
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import fsrs7, fsrs7_ordinal
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.hyperparameters import Context

COMPARED = (
    "FSRS-7",
    "FSRS-7 study days",
    "FSRS-7 whole days",
    "FSRS-7-100-epochs",
    "FSRS-7-ordinal",
)
SHARES = "shares, as a workload has them"
LEAST = 1e-7  # probability
DEFAULTS_COUNT = 50  # number of answers that averages of many learners count as


def move_to_zone(log: ReviewLog, zone: str) -> ReviewLog:
    """Return the log with days of 23 and 25 hours where clocks change in the zone."""
    return replace(log, day_grid=log.day_grid and replace(log.day_grid, time_zone=zone))


def compute_losses(session: LearnerSession) -> dict[str, float]:
    losses_by_name = {}
    for rows in (" equalized", ""):
        for name in COMPARED:
            result = session.run(
                resolve_configurations(f"{name}{rows}")[0], Context(), use_cache=True
            )
            losses_by_name[f"{name}{rows}"] = log_loss(result.y, result.p)
    return losses_by_name


def format_row(name: str, figures: FloatArray, base: FloatArray) -> str:
    differences = figures - base
    summary = (differences.mean(), differences.min(), differences.max())
    cells = " | ".join(f"{figure:+.4f}" for figure in summary)
    return f"| {name} | {figures.mean():.4f} | {cells} | {(differences < 0).sum()} |"


# Buttons


def compute_button_shares(trials: Trials, train: IntArray, weights: FloatArray) -> FloatArray:
    """Return the shares of Hard, Good and Easy (3,)."""
    seen = np.bincount(trials.rating[train], weights, minlength=5)[2:]
    seen += DEFAULTS_COUNT * weights.mean() * np.array(Costs().review_rating)
    return seen / seen.sum()


def fit_head(
    trials: Trials, w: list[float], train: IntArray, weights: FloatArray
) -> Callable[[IntArray], FloatArray]:
    """Fit the likeliest head on `train` by FSRS-7 with `w`; return P (3, k) at other reviews."""
    from scipy.optimize import minimize

    def compute_features(index: IntArray) -> FloatArray:
        # With one term of the head, P(better than Hard) is its sigmoid.
        heads = (np.eye(6)[k] for k in (1, 2, 3))
        hard = (fsrs7_ordinal.predict_buttons(trials, [*w, *head], index)[0] for head in heads)
        odds = np.stack([np.clip(probability, 1e-12, 1 - 1e-12) for probability in hard])
        return np.log1p(-odds) - np.log(odds)

    train_features = compute_features(train)
    middle = train_features.mean(1, keepdims=True)
    scale = train_features.std(1, keepdims=True) + 1e-9

    def predict_buttons(a: FloatArray, x: FloatArray) -> FloatArray:
        raw = np.clip(a[0] + a[1:4] @ ((x - middle) / scale), -500, 500)
        better = 1 / (1 + np.exp(-raw))
        easy = 1 / (1 + np.exp(np.logaddexp(0, a[4]) - raw))
        return np.stack((1 - better, better - easy, easy))

    def compute_loss(a: FloatArray) -> float:
        p = predict_buttons(a, train_features)[trials.rating[train] - 2, np.arange(len(train))]
        return float(-np.average(np.log(np.maximum(p, LEAST)), weights=weights) + 1e-3 * a @ a)

    best = minimize(
        compute_loss, [1.5, 0.0, 0.0, 0.0, 2.0], method="BFGS", options={"maxiter": 200}
    ).x
    return lambda index: predict_buttons(best, compute_features(index))


def compute_button_losses(session: LearnerSession) -> dict[str, float]:
    """Return mean -log P of the pressed button, by method."""
    trials = session.trials(resolve_configurations("FSRS-7 equalized")[0].protocol)
    losses_by_method: dict[str, list[FloatArray]] = {}
    for fold in trials.folds:
        train = fold.train[(trials.elapsed_days[fold.train] > 0) & (trials.y[fold.train] > 0)]
        test = fold.test[trials.y[fold.test] > 0]
        newer = fsrs7.compute_fsrs7_recency_weights(len(train))
        alike = np.ones(len(train))
        w = fsrs7.fit(trials, fold.train, np.ones(len(fold.train)), Context())
        ordinal = fsrs7_ordinal.fit(trials, fold.train, np.ones(len(fold.train)), Context())
        shares = compute_button_shares(trials, train, alike)
        newer_shares = compute_button_shares(trials, train, newer)
        every = np.ones((1, len(test)))
        predictions = {
            SHARES: shares[:, None] * every,
            "shares, newer reviews weigh more": newer_shares[:, None] * every,
            "head trained with FSRS-7": fsrs7_ordinal.predict_buttons(trials, ordinal, test),
            "head fitted to FSRS-7": fit_head(trials, w, train, alike)(test),
            "the same, newer reviews weigh more": fit_head(trials, w, train, newer)(test),
        }
        for name, p in predictions.items():
            pressed = p[trials.rating[test] - 2, np.arange(len(test))]
            losses_by_method.setdefault(name, []).append(-np.log(np.maximum(pressed, LEAST)))
    return {name: float(np.concatenate(losses).mean()) for name, losses in losses_by_method.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--zone", default="Europe/Berlin")
    options = parser.parse_args()
    if options.real is None:
        parser.error("nobody to predict: give --real")
    paths = sorted(path for path in Path(options.real).iterdir() if path.is_file())
    sessions = [LearnerSession(move_to_zone(load_log(path), options.zone)) for path in paths]
    tables = (("log loss", compute_losses), ("-log P of the button", compute_button_losses))
    for title, score in tables:
        people = [score(session) for session in sessions]
        print(f"| {title} | mean | minus the first | least | most | better |")
        print("|---|---|---|---|---|---|")
        for name in people[0]:
            if score is compute_button_losses:
                first = SHARES
            elif "eq" in name:
                first = "FSRS-7 equalized"
            else:
                first = "FSRS-7"
            figures = np.array([scores[name] for scores in people])
            base_figures = np.array([scores[first] for scores in people])
            print(format_row(name, figures, base_figures))
        print()


if __name__ == "__main__":
    main()
