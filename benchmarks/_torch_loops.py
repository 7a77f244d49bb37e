"""Train models that fsrs-optimizer does not have, in torch, as srs-benchmark trains them.

They are the opponents of benchmarks/speed.py. As in srs-benchmark: every review's whole history
is a sequence of its own, padded to the longest of its batch of 512; autograd through every step;
Adam with a cosine schedule per batch; clipping after it; the loss over all batches before each
epoch and at the end decides which parameters are kept; tests are predicted in batches of 8,192.
Single precision. Initial values, bounds and the order of ties are those of srs_eval's
models; initial stabilities (FSRS v4, 4.5) are fitted by srs_eval's own function, which
takes a fraction of the time of scipy's. Sequences are made review by review, as there but
without pandas, and timed separately; LogisticRegression gets its features from srs_eval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import act_r, anki_sm2, dash, fsrs4, hlr, sm2
from srs_eval.models import logistic_regression as logistic
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import argsort_by_quicksort

Fold = Callable[[Trials, IntArray, IntArray], FloatArray]

S_MIN = 0.01  # days
S_MAX = 36500.0
NO_BOUND = float("inf")


@dataclass(frozen=True)
class Loop:
    """One model: `recall(w, sequences, lengths, delta_t)` for sequences (longest, n, ...)."""

    recall: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    sequences: Callable[[Trials], list[Tensor]]
    start: Callable[[Trials, IntArray], Sequence[float]]
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    decimals: int | None = 4  # of the kept parameters
    frozen: int = 0  # this many leading parameters have no gradient
    trained_on: Callable[[Trials, IntArray], IntArray] | None = None


@dataclass(frozen=True)
class LoopResult:
    p: FloatArray  # of the trials' test index
    wall: float  # seconds of training and prediction, all folds
    cpu: float
    features_cpu: float  # seconds of making the sequences beforehand


def run_loop(name: str, trials: Trials) -> LoopResult:
    """Train and predict five folds; KeyError if there is no such loop."""
    began = time.process_time()
    if name == "LogisticRegression":
        features = torch.tensor(logistic._features_of_trials(trials), dtype=torch.float)
        fold_of: Fold = partial(run_logistic_fold, features)
    else:
        loop = LOOPS[name]
        fold_of = partial(run_padded_fold, loop, loop.sequences(trials))
    wall = time.perf_counter()
    cpu = time.process_time()
    predictions = [fold_of(trials, fold.train, fold.test) for fold in trials.folds]
    return LoopResult(
        p=np.concatenate(predictions),
        wall=time.perf_counter() - wall,
        cpu=time.process_time() - cpu,
        features_cpu=cpu - began,
    )


# The loop


def run_padded_fold(
    loop: Loop, sequences: list[Tensor], trials: Trials, train: IntArray, test: IntArray
) -> FloatArray:
    w = torch.tensor(train_loop(loop, sequences, trials, train))
    with torch.no_grad():
        predictions = [
            loop.recall(w, *batch[:3])
            for batch in make_batches(sequences, trials, test, 8192, sort=False)
        ]
    return np.concatenate([p.double().numpy() for p in predictions])


def make_batches(
    sequences: list[Tensor], trials: Trials, rows: IntArray, size: int, sort: bool
) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Return padded sequences, lengths, intervals and outcomes, sorted by length if `sort`."""
    lengths = np.array([len(sequences[row]) for row in rows])
    if sort:
        short = lengths <= 64
        rows = rows[short]
        lengths = lengths[short]
        order = argsort_by_quicksort(lengths)
        rows = rows[order]
        lengths = lengths[order]
    padded = pad_sequence([sequences[row] for row in rows], batch_first=True)
    delta_t = torch.tensor(trials.delta_t[rows], dtype=torch.float)
    y = torch.tensor(trials.y[rows], dtype=torch.float)
    batches = []
    for k in range(0, len(rows), size):
        span = slice(k, k + size)
        longest = int(lengths[span].max())
        batch = padded[span, :longest].transpose(0, 1)
        batches.append((batch, torch.tensor(lengths[span]), delta_t[span], y[span]))
    return batches


def train_loop(
    loop: Loop, sequences: list[Tensor], trials: Trials, train: IntArray, epochs: int = 5
) -> list[float]:
    w = nn.Parameter(torch.tensor(loop.start(trials, train), dtype=torch.float))
    all_batches = make_batches(sequences, trials, train, 512, sort=True)
    batches = all_batches
    if loop.trained_on is not None:
        batches = make_batches(sequences, trials, loop.trained_on(trials, train), 512, sort=True)
    optimizer = torch.optim.Adam([w], lr=0.04)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(batches) * epochs)
    loss_of = nn.BCELoss(reduction="sum")
    generator = torch.Generator()
    generator.manual_seed(2023)
    lower = torch.tensor(loop.lower)
    upper = torch.tensor(loop.upper)
    best = w.detach().clone()
    best_loss = np.inf
    for epoch in range(epochs + 1):
        with torch.no_grad():
            losses = [float(loss_of(loop.recall(w, *batch[:3]), batch[3])) for batch in all_batches]
        total = sum(losses)
        if total < best_loss:
            best = w.detach().clone()
            best_loss = total
        if epoch == epochs:
            break
        for k in torch.randperm(len(batches), generator=generator).tolist():
            optimizer.zero_grad()
            loss_of(loop.recall(w, *batches[k][:3]), batches[k][3]).backward()
            if loop.frozen and w.grad is not None:
                w.grad[: loop.frozen] = 0.0
            optimizer.step()
            schedule.step()
            if loop.lower:
                w.data = torch.minimum(torch.maximum(w.data, lower), upper)
    parameters = best.tolist()
    return parameters if loop.decimals is None else [round(x, loop.decimals) for x in parameters]


# Inputs of the models, made review by review


def _history_sequences(trials: Trials) -> Iterator[tuple[list[float], list[int], float]]:
    """Yield intervals and ratings before each trial, and its own interval."""
    delta_t = trials.history_delta_t.tolist()
    rating = trials.history_rating.tolist()
    ends = zip(trials.history_start.tolist(), trials.history_end.tolist(), strict=True)
    return ((delta_t[a:b], rating[a:b], delta_t[b]) for a, b in ends)


def _list_reviews(trials: Trials) -> list[Tensor]:
    """Return (interval, rating) of every earlier review."""
    return [
        torch.tensor((days, ratings), dtype=torch.float).transpose(0, 1)
        for days, ratings, _ in _history_sequences(trials)
    ]


def _list_times(trials: Trials) -> list[Tensor]:
    """Return the days since the first review, for every earlier review and the trial itself."""
    return [
        torch.cumsum(torch.tensor([[*days, interval]]), dim=1).transpose(0, 1)
        for days, _, interval in _history_sequences(trials)
    ]


def _list_ages(trials: Trials) -> list[Tensor]:
    """Return (passed, days ago) of every earlier review."""
    sequences = []
    for days, ratings, interval in _history_sequences(trials):
        ages = np.cumsum([*days[1:], interval][::-1])[::-1]
        sequences.append(torch.tensor(np.array([np.array(ratings) > 1, ages]).T, dtype=torch.float))
    return sequences


def _count_successes_and_failures(trials: Trials) -> list[Tensor]:
    """Return square roots of the numbers of passes and of failures."""
    sequences = []
    for _, ratings, _ in _history_sequences(trials):
        failures = ratings.count(1)
        passes = len(ratings) - failures
        sequences.append(torch.tensor([np.sqrt(passes), np.sqrt(failures)]).float())
    return sequences


def _count_in_windows(trials: Trials, decay: bool) -> list[Tensor]:
    """Return reviews and passes in DASH's four windows."""
    sequences = []
    for days, ratings, interval in _history_sequences(trials):
        ages = np.cumsum([*days[1:], interval][::-1])[::-1]
        passed = np.array(ratings) > 1
        counts = np.zeros(8)
        for k, (width, tau) in enumerate(zip(dash._WINDOWS, dash._TAU, strict=True)):
            share = np.exp(-ages / tau) if decay else np.ones_like(ages)
            is_inside = ages <= width
            counts[2 * k] = np.sum(share[is_inside])
            counts[2 * k + 1] = np.sum(passed[is_inside] * share[is_inside])
        sequences.append(torch.tensor(counts, dtype=torch.float))
    return sequences


# Recall


def _recall_by_hlr(w: Tensor, x: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
    half_life = 2 ** nn.functional.linear(x.transpose(0, 1), w[None, :2], w[2:]).squeeze(1)
    return 0.5 ** (t / half_life)


def _recall_by_dash(w: Tensor, x: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
    features = torch.log(x.transpose(0, 1) + 1)
    return torch.sigmoid(nn.functional.linear(features, w[None, :8], w[8:])).squeeze(1)


def _recall_by_dash_act_r(w: Tensor, x: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
    age = x[:, :, 1].clamp_min(0.1)
    power = torch.where(age == 0.1, 0, age ** -w[1])
    strength = torch.sum(power * torch.where(x[:, :, 0] == 0, w[2], w[3]), dim=0)
    return torch.sigmoid(w[0] * torch.log(1 + strength.clamp_min(0)) + w[4])


def _recall_by_act_r(w: Tensor, x: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
    m = torch.zeros_like(x, dtype=torch.float)
    m[0] = -torch.inf
    for k in range(1, len(x)):
        scaled = ((x[k] - x[:k]) * 86400 * w[4]).clamp_min(1)
        m[k] = torch.log(torch.sum(scaled ** -(w[1] * torch.exp(m[:k]) + w[0]), dim=0))
    p = 1 / (1 + torch.exp((w[3] - m[1:]) / w[2]))
    return p[lengths - 2, torch.arange(x.shape[1]), 0]


Step = Callable[[Tensor, Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
First = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def _make_recurrent(
    first: First, step: Step, curve: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return recall from a state that starts with a stability and is stepped along the sequence."""

    def recall(w: Tensor, x: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
        state = first(w, x[0, :, 1])
        outputs = [torch.stack(state, dim=1)]
        for review in x[1:]:
            state = step(w, review[:, 0], review[:, 1], outputs[-1].unbind(1))
            outputs.append(torch.stack(state, dim=1))
        stability = torch.stack(outputs)[lengths - 1, torch.arange(x.shape[1]), 0]
        return curve(t, stability)

    return recall


def _make_fsrs4(decay: float, capped: bool) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return FSRS v4 (decay 1) or 4.5 (decay 0.5; a failure never lengthens the stability)."""
    factor = 0.9 ** (-1 / decay) - 1

    def curve(t: Tensor, s: Tensor) -> Tensor:
        return (1 + factor * t / s) ** -decay

    def first(w: Tensor, rating: Tensor) -> tuple[Tensor, ...]:
        s = w[(rating - 1).clamp_min(0).long()]
        d = w[4] - w[5] * (rating - 3)
        return s.clamp(S_MIN, S_MAX), d.clamp(1, 10)

    def step(w: Tensor, t: Tensor, rating: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        s, d = state
        r = curve(t, s)
        hard = torch.where(rating == 2, w[15], 1)
        easy = torch.where(rating == 4, w[16], 1)
        gain = torch.exp((1 - r) * w[10]) - 1
        growth = torch.exp(w[8]) * (11 - d) * torch.pow(s, -w[9]) * gain * hard * easy
        failed = torch.pow(s + 1, w[13]) - 1
        failed = w[11] * torch.pow(d, -w[12]) * failed * torch.exp((1 - r) * w[14])
        if capped:
            failed = torch.minimum(failed, s)
        new_s = torch.where(rating > 1, s * (1 + growth), failed)
        new_d = w[7] * w[4] + (1 - w[7]) * (d - w[6] * (rating - 3))
        return new_s.clamp(S_MIN, S_MAX), new_d.clamp(1, 10)

    return _make_recurrent(first, step, curve)


def _recall_by_interval(t: Tensor, interval: Tensor) -> Tensor:
    return 0.9 ** (t / interval)


def _make_sm2() -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    def step(w: Tensor, t: Tensor, rating: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        interval, ease, count = state
        count = torch.where(rating > 1, count + 1, torch.ones_like(count))
        later = torch.where(count == 2, w[1] * torch.ones_like(interval), interval * ease)
        interval = torch.where(count == 1, w[0] * torch.ones_like(interval), later)
        ease = ease - w[3] * (rating + 1 - w[4]) ** 2 + w[5]
        return interval.clamp(S_MIN, S_MAX), ease.clamp(1.3, 10.0), count

    def first(w: Tensor, rating: Tensor) -> tuple[Tensor, ...]:
        zero = torch.zeros_like(rating)
        return step(w, zero, rating, (zero, w[2] + zero, zero))

    return _make_recurrent(first, step, _recall_by_interval)


def _make_anki() -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    def limited(interval: Tensor) -> Tensor:
        soft = nn.functional.leaky_relu(interval - 1) + 1
        return torch.max(soft, interval).clamp(S_MIN, S_MAX)

    def first(w: Tensor, rating: Tensor) -> tuple[Tensor, ...]:
        interval = torch.where(rating < 4, w[0], w[1])
        return limited(interval), (torch.ones_like(interval) * w[2]).clamp(1.3, 5.5)

    def step(w: Tensor, t: Tensor, rating: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        interval, ease = state
        hard = rating == 2
        easy = rating == 4
        grown = torch.max(t * ease, interval)
        early = torch.where(
            hard,
            torch.max(t * w[4], interval * w[4] / 2),
            torch.where(easy, grown, grown * (w[3] - (w[3] - 1) / 2)),
        )
        late = torch.where(
            hard,
            interval * w[4],
            torch.where(easy, (interval + (t - interval) / 2) * ease, t * ease * w[3]),
        )
        passed = torch.where(t < interval, early, late) * w[6]
        ease = torch.where(
            rating == 1,
            ease - 0.2,
            torch.where(hard, ease - 0.15, torch.where(easy, ease + 0.15, ease)),
        )
        new = torch.where(rating == 1, interval * w[5], passed)
        return limited(new), ease.clamp(1.3, 5.5)

    return _make_recurrent(first, step, _recall_by_interval)


def _start_at(start: Any) -> Callable[[Trials, IntArray], list[float]]:
    return lambda trials, train: list(start)


def _start_dash(trials: Trials, train: IntArray) -> list[float]:
    return list(dash._START_SHORT if trials.protocol.short else dash.START)


LOOPS = {
    "FSRSv4": Loop(
        _make_fsrs4(1.0, capped=False),
        _list_reviews,
        lambda trials, train: fsrs4._fit_s0_v4(trials, train, np.ones(len(train)), Context()),
        list(fsrs4._V4.lower),
        list(fsrs4._V4.upper),
        frozen=4,
        trained_on=fsrs4._select_after_second_review,
    ),
    "FSRS-4.5": Loop(
        _make_fsrs4(0.5, capped=True),
        _list_reviews,
        lambda trials, train: fsrs4._fit_s0_v45(trials, train, np.ones(len(train)), Context()),
        list(fsrs4._V45.lower),
        list(fsrs4._V45.upper),
        decimals=6,
        frozen=4,
        trained_on=fsrs4._select_after_second_review,
    ),
    "HLR": Loop(
        _recall_by_hlr,
        _count_successes_and_failures,
        _start_at(hlr.START),
        decimals=None,
    ),
    "DASH": Loop(
        _recall_by_dash,
        lambda trials: _count_in_windows(trials, decay=False),
        _start_dash,
        decimals=None,
    ),
    "DASH[MCM]": Loop(
        _recall_by_dash,
        lambda trials: _count_in_windows(trials, decay=True),
        _start_at(dash._START_MCM),
        decimals=None,
    ),
    "DASH[ACT-R]": Loop(
        _recall_by_dash_act_r,
        _list_ages,
        _start_at(dash._START_ACT_R),
        [0.001, 0.001, *[-NO_BOUND] * 3],
        [NO_BOUND] * 5,
    ),
    "ACT-R": Loop(
        _recall_by_act_r,
        _list_times,
        _start_at(act_r.START),
        act_r._LOWER.tolist(),
        act_r._UPPER.tolist(),
    ),
    "SM2-trainable": Loop(
        _make_sm2(),
        _list_reviews,
        _start_at(sm2.DEFAULT),
        list(sm2.make_recurrent(S_MIN).lower),
        list(sm2.make_recurrent(S_MIN).upper),
    ),
    "Anki": Loop(
        _make_anki(),
        _list_reviews,
        _start_at(anki_sm2.DEFAULTS),
        list(anki_sm2.RECURRENT.lower),
        list(anki_sm2.RECURRENT.upper),
    ),
}


def run_logistic_fold(
    features: Tensor, trials: Trials, train: IntArray, test: IntArray
) -> FloatArray:
    """Train LogisticRegression: no sequences; ten epochs of AdamW, shuffled batches of 2,048."""
    x = features[torch.tensor(train)]
    y = torch.tensor(trials.y[train], dtype=torch.float)
    weight = 0.1 + 0.9 * torch.linspace(0, 1, len(train)) ** 4
    mean, std = (torch.tensor(a, dtype=torch.float) for a in (logistic._MEAN, logistic._STD))
    residual = nn.Parameter(torch.zeros(len(mean)))
    optimizer = torch.optim.AdamW(
        [residual],
        lr=float(logistic._RATE.default),
        betas=(0.0, logistic._BETA),
        weight_decay=float(logistic._DECAY.default),
    )
    batches = -(-len(train) // int(logistic._BATCH.default))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=batches * int(logistic._EPOCHS.default)
    )
    loss_of = nn.BCEWithLogitsLoss(reduction="none")
    generator = torch.Generator()
    generator.manual_seed(logistic._SEED)
    for _ in range(int(logistic._EPOCHS.default)):
        for rows in torch.randperm(len(train), generator=generator).split(
            int(logistic._BATCH.default)
        ):
            optimizer.zero_grad()
            z = x[rows] @ (residual * std + mean)
            (loss_of(z, y[rows]) * weight[rows]).sum().backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        z = features[torch.tensor(test)] @ (residual * std + mean)
        p: FloatArray = torch.sigmoid(z).double().numpy()
    return p
