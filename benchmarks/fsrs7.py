"""What clocks, more epochs and an ordinal head make of FSRS-7, for real people.

    python benchmarks/fsrs7.py [--real DIR] [--zone Europe/Berlin]

reads every history in --real (or the environment variable SRS_EVAL_REAL). First, log loss and its
difference to FSRS-7 recency, on reviews of later days (equalized) and on all. No file names a time
zone, so study days are taken as if all lived in --zone, whose clocks change; days begin as before.

Then, for held-out reviews of later days that were recalled, -log P of the button that was pressed,
by shares and by ordinal heads on R, S and D. Shares are those of training reviews that were
recalled on later days, drawn to averages of many learners as in a workload. A head is trained with
FSRS-7 (FSRS-7-ordinal), or fitted to such reviews when FSRS-7 is. All weigh newer reviews more but
for the shares of a workload.
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
from srs_eval.engine.session import Session
from srs_eval.metrics import log_loss
from srs_eval.models import fsrs7, fsrs7_ordinal
from srs_eval.models.configurations import resolve
from srs_eval.training.hyperparameters import Context

COMPARED = ("FSRS-7", "FSRS-7 study days", "FSRS-7 whole days", "FSRS-7-100-epochs")
COMPARED += ("FSRS-7-ordinal",)
SHARES = "shares, as a workload has them"
LEAST = 1e-7  # probability
DEFAULTS_COUNT = 50  # answers that averages of many learners stand for


def in_zone(log: ReviewLog, zone: str) -> ReviewLog:
    """The same days, of 23 and 25 hours where clocks change in the zone."""
    return replace(log, day_grid=log.day_grid and replace(log.day_grid, zone=zone))


def losses(session: Session) -> dict[str, float]:
    found = {}
    for rows in (" equalized", ""):
        for name in COMPARED:
            result = session.run(resolve(f"{name}{rows}")[0], Context(), use_cache=True)
            found[f"{name}{rows}"] = log_loss(result.y, result.p)
    return found


def told(name: str, own: FloatArray, base: FloatArray) -> str:
    less = own - base
    cells = (f"{each:+.4f}" for each in (less.mean(), less.min(), less.max()))
    return f"| {name} | {own.mean():.4f} | {' | '.join(cells)} | {(less < 0).sum()} |"


# Buttons


def shares(trials: Trials, train: IntArray, weights: FloatArray) -> FloatArray:
    """Of Hard, Good and Easy (3,)."""
    seen = np.bincount(trials.rating[train], weights, minlength=5)[2:]
    seen += DEFAULTS_COUNT * weights.mean() * np.array(Costs().review_rating)
    return seen / seen.sum()


def fitted_head(
    trials: Trials, w: list[float], train: IntArray, weights: FloatArray
) -> Callable[[IntArray], FloatArray]:
    """The head that is likeliest on the reviews at `train` by FSRS-7 with w: P (3, k) at others."""
    from scipy.optimize import minimize

    def features(index: IntArray) -> FloatArray:
        # With one term of the head, P(better than Hard) is its sigmoid.
        heads = (np.eye(6)[k] for k in (1, 2, 3))
        hard = (fsrs7_ordinal.buttons(trials, [*w, *head], index)[0] for head in heads)
        odds = np.stack([np.clip(each, 1e-12, 1 - 1e-12) for each in hard])
        return np.log1p(-odds) - np.log(odds)

    known = features(train)
    middle, scale = known.mean(1, keepdims=True), known.std(1, keepdims=True) + 1e-9

    def buttons(a: FloatArray, x: FloatArray) -> FloatArray:
        raw = np.clip(a[0] + a[1:4] @ ((x - middle) / scale), -500, 500)
        better = 1 / (1 + np.exp(-raw))
        easy = 1 / (1 + np.exp(np.logaddexp(0, a[4]) - raw))
        return np.stack((1 - better, better - easy, easy))

    def loss(a: FloatArray) -> float:
        p = buttons(a, known)[trials.rating[train] - 2, np.arange(len(train))]
        return float(-np.average(np.log(np.maximum(p, LEAST)), weights=weights) + 1e-3 * a @ a)

    best = minimize(loss, [1.5, 0.0, 0.0, 0.0, 2.0], method="BFGS", options={"maxiter": 200}).x
    return lambda index: buttons(best, features(index))


def button_scores(session: Session) -> dict[str, float]:
    """Mean -log P of the button pressed."""
    trials = session.trials(resolve("FSRS-7 equalized")[0].protocol)
    found: dict[str, list[FloatArray]] = {}
    for fold in trials.folds:
        train = fold.train[(trials.elapsed_days[fold.train] > 0) & (trials.y[fold.train] > 0)]
        test = fold.test[trials.y[fold.test] > 0]
        newer, alike = fsrs7.recency_weights(len(train)), np.ones(len(train))
        w = fsrs7.fit(trials, fold.train, np.ones(len(fold.train)), Context())
        whole = fsrs7_ordinal.fit(trials, fold.train, np.ones(len(fold.train)), Context())
        every = np.ones((1, len(test)))
        for name, p in {
            SHARES: shares(trials, train, alike)[:, None] * every,
            "shares, newer reviews weigh more": shares(trials, train, newer)[:, None] * every,
            "head trained with FSRS-7": fsrs7_ordinal.buttons(trials, whole, test),
            "head fitted to FSRS-7": fitted_head(trials, w, train, alike)(test),
            "the same, newer reviews weigh more": fitted_head(trials, w, train, newer)(test),
        }.items():
            pressed = p[trials.rating[test] - 2, np.arange(len(test))]
            found.setdefault(name, []).append(-np.log(np.maximum(pressed, LEAST)))
    return {name: float(np.concatenate(each).mean()) for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--zone", default="Europe/Berlin")
    options = parser.parse_args()
    if options.real is None:
        parser.error("nobody to predict: give --real")
    paths = sorted(path for path in Path(options.real).iterdir() if path.is_file())
    sessions = [Session(in_zone(load_log(path), options.zone)) for path in paths]
    for title, asked in (("log loss", losses), ("-log P of the button", button_scores)):
        people = [asked(session) for session in sessions]
        print(f"| {title} | mean | minus the first | least | most | better |")
        print("|---|---|---|---|---|---|")
        for name in people[0]:
            first = SHARES if asked is button_scores else f"FSRS-7{' equalized' * ('eq' in name)}"
            own, base = (np.array([each[key] for each in people]) for key in (name, first))
            print(told(name, own, base))
        print()


if __name__ == "__main__":
    main()
