"""FSRS-7: its gradients against torch autograd, its figures against srs-benchmark's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol, _Clock
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Context, fsrs7, fsrs7_ordinal
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.own_parameters import normalize_parameters
from srs_eval.models.published import to_upstream_name
from srs_eval.training.packing import pack
from srs_eval.training.recurrent import SummedLoss, _kernel_of_model, _make_scratch, _new_adam_state
from srs_eval.training.trie import cut_batches, history_trie
from tests.helpers.card_logs import draw_cards_rated_again_or_good, make_log
from tests.helpers.golden import golden_log
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner

Tensor = torch.Tensor
State = tuple[Tensor, Tensor, Tensor]
LEAST = 0.0001
LOWER = np.array(fsrs7._LOWER, float)
UPPER = np.array(fsrs7._UPPER, float)
KINDS = ("default", pytest.param("inside", marks=pytest.mark.slow), "at bounds")
SECS = Protocol(short=True, secs=True)


def torch_short(t: Tensor, q: Tensor, w: Tensor) -> Tensor:
    decay = -(w[23] * q ** (w[33] - 0.3)).clamp(0.01, 0.95)
    factor = torch.exp((torch.log(w[25]) / decay).clamp(max=60)) - 1
    return (1 + t / q * factor) ** decay


def torch_curve(t: Tensor, state: State, w: Tensor) -> Tensor:
    s, q, d = state
    decay = -w[24].clamp(0.01, 0.95)
    scale = torch.exp((d - 5) * (w[32] - 0.3))
    r2 = (1 + t / s * (w[26] ** (1 / decay) - 1) * scale) ** decay
    weight1 = w[27] * q ** -w[29]
    weight2 = w[28] * s ** w[30] * torch.exp((d - 5) * (w[31] - 0.5))
    r = (weight1 * torch_short(t, q, w) + weight2 * r2) / (weight1 + weight2)
    return r * (1 - 2e-5) + 1e-5


def torch_init_d(rating: Tensor, w: Tensor) -> Tensor:
    return w[4] - torch.exp(w[5] * (rating - 1)) + 1


def torch_first(rating: Tensor, w: Tensor) -> State:
    s = w[rating.long() - 1]
    d = torch_init_d(rating, w)
    return s.clamp(LEAST, 36500), (0.8 * s).clamp(LEAST, 36500), d.clamp(1, 10)


def torch_next_s(s: Tensor, d: Tensor, r: Tensor, rating: Tensor, w: Tensor) -> Tensor:
    """Return one stability after a review; w are the eight parameters of its update."""
    hard = torch.where(rating == 2, w[6], 1.0)
    easy = torch.where(rating == 4, w[7], 1.0)
    forgotten = w[3] * ((s + 1) ** w[4] - 1) * torch.exp((1 - r) * w[5])
    failure = torch.minimum(s, forgotten)
    gain = torch.exp((1 - r) * w[2]) - 1
    increase = torch.exp(w[0] - 1.5) * (11 - d) * s ** -w[1] * gain * hard * easy + 1
    return torch.where(rating > 1, torch.maximum(failure, s * increase), failure)


def torch_step(state: State, t: Tensor, rating: Tensor, w: Tensor) -> State:
    """Apply the formulas of FSRS-7 with torch's own clamp, where, minimum and maximum."""
    s, q, d = state
    r = torch_curve(t, state, w)
    new_s = torch_next_s(s, d, r, rating, w[7:15])
    new_q = torch_next_s(q, d, torch_short(t, q, w), rating, w[15:23])
    new_q = torch.where(rating == 1, torch.minimum(new_q, 0.8 * new_s), new_q)
    delta = -w[6] * (rating - 3) * torch.where(rating == 1, r + 0.1, 1.0)
    new_d = d + delta * (10 - d) / 9
    new_d = 0.01 * torch_init_d(torch.tensor(4.0), w) + 0.99 * new_d
    return new_s.clamp(LEAST, 36500), new_q.clamp(LEAST, 36500), new_d.clamp(1, 10)


def parameters(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Draw parameters inside the bounds, or with a third of them on a bound."""
    if kind == "default":
        return np.array(fsrs7.DEFAULT)
    w = rng.uniform(LOWER, UPPER)
    if kind == "at bounds":
        side = rng.integers(0, 6, len(w))
        w = np.where(side == 0, LOWER, np.where(side == 1, UPPER, w))
    return w


def states(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Draw states, some at the bounds of stability and difficulty, so that clamps are met."""
    s = np.exp(rng.uniform(np.log(LEAST), np.log(36500), n))
    q = np.exp(rng.uniform(np.log(LEAST), np.log(36500), n))
    d = rng.uniform(1, 10, n)
    s[: n // 8] = LEAST
    s[n // 8 : n // 4] = 36500
    q[3::9] = LEAST
    q[4::9] = 36500
    d[::5] = 1
    d[1::5] = 10
    return s, q, d


def intervals(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw intervals of a second to ten years; some are 0, where stabilities equal their limits."""
    t = np.exp(rng.uniform(np.log(1 / 86_400), np.log(3650), n))
    t[::6] = 0
    return t


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failed", [False, True])
def test_steps_equal_torch(failed: bool, kind: str) -> None:
    rng = np.random.default_rng(0)
    n = 240
    step = fsrs7._failure if failed else fsrs7.success
    w = parameters(rng, kind)
    old = states(rng, n)
    t = intervals(rng, n)
    rating = np.full(n, 1.0) if failed else rng.integers(2, 5, n).astype(float)
    state = tuple(torch.tensor(x) for x in old)
    expected = torch_step(state, *map(torch.tensor, (t, rating, w)))  # type: ignore[arg-type]
    for computed, reference in zip(step(old, t, rating, [*w, LEAST]), expected, strict=True):
        np.testing.assert_allclose(computed, reference, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_first_review_and_forgetting_curve_equal_torch(kind: str) -> None:
    rng = np.random.default_rng(5)
    w = parameters(rng, kind)
    rating = rng.integers(1, 5, 40).astype(float)
    expected = torch_first(torch.tensor(rating), torch.tensor(w))
    for computed, reference in zip(fsrs7.first(rating, [*w, LEAST]), expected, strict=True):
        np.testing.assert_allclose(computed, reference, rtol=1e-14)
    state = states(rng, 200)
    t = intervals(rng, 200)
    torch_state = tuple(torch.tensor(x) for x in state)
    curve = torch_curve(torch.tensor(t), torch_state, torch.tensor(w))  # type: ignore[arg-type]
    np.testing.assert_allclose(fsrs7.recall(t, state, w), curve, rtol=1e-11)


def assert_equal_but_for_rounding(
    computed: np.ndarray, reference: Tensor, terms: np.ndarray
) -> None:
    """Compare but for rounding; terms (p, n) are the summands, which cancel."""
    scale = np.abs(terms).sum(axis=1)
    np.testing.assert_array_less(np.abs(computed - reference.numpy()), 1e-9 * scale + 1e-12)


# States after a card's reviews (grade, days since the last one) at the default parameters, and
# R after 0.01, 1 and 30 days, by fsrs-rs src/model_v7.rs (commit 114cafffadd2) in float32.
FSRS_RS = {
    "easy life": (
        [(3, 0), (3, 4), (3, 15), (4, 40), (3, 200)],
        (156.776, 2200.65, 1.0),
        (0.999958, 0.998459, 0.990775),
    ),
    "same day": (
        [(1, 0), (3, 0.007), (2, 0.02), (3, 1), (3, 3.5), (1, 12)],
        (1.71378, 0.909302, 9.32012),
        (0.895215, 0.786817, 0.612242),
    ),
    "hard": (
        [(2, 0), (1, 2.2), (1, 0.01), (3, 0.05), (2, 1), (2, 3), (4, 6)],
        (4.13784, 98.7145, 9.4708),
        (0.988295, 0.897257, 0.715759),
    ),
    "leech": (
        [(4, 0), (1, 30), (1, 1), (1, 1), (3, 0.5), (1, 2)],
        (0.487423, 0.348865, 9.78794),
        (0.790827, 0.623007, 0.466644),
    ),
}


@pytest.mark.parametrize("card", FSRS_RS)
def test_states_equal_fsrs_rs(card: str) -> None:
    (reviews, expected, recalled) = FSRS_RS[card]
    w = (*fsrs7.DEFAULT, LEAST)
    state = fsrs7.first(reviews[0][0], w)
    for grade, days in reviews[1:]:
        step = fsrs7._failure if grade == 1 else fsrs7.success
        state = step(state, days, grade, w)
    assert state == pytest.approx(expected, rel=1e-4)
    for days, r in zip((0.01, 1.0, 30.0), recalled, strict=True):
        assert fsrs7.recall(days, state, w) == pytest.approx(r, abs=2e-5)


def torch_due(state: State, retention: float, w: Tensor) -> Tensor:
    """Return the days until R falls to `retention`: bisected, then a step with a gradient."""

    def recall(days: Tensor) -> Tensor:
        return (torch_curve(days, state, w) - 1e-5) / (1 - 2e-5)

    low, high = np.log(1 / 86_400), np.log(36_500)
    for _ in range(60):
        middle = (low + high) / 2
        above = recall(torch.tensor(np.exp(middle))).item() > retention
        low, high = (middle, high) if above else (low, middle)
    days = torch.tensor(np.exp(low), requires_grad=True)
    (slope,) = torch.autograd.grad(recall(days), days)
    days = days.detach()
    steepness = (slope * days).detach().clamp(max=-1e-9)
    inside = np.log(1 / 86_400) + 1e-9 < low < np.log(36_500) - 1e-9
    return torch.exp(torch.log(days) - (recall(days) - retention) / steepness * inside)


def torch_penalty(w: Tensor) -> Tensor:
    total = torch.zeros(())
    for retention in (0.9, 0.99):
        good = torch.tensor(3.0)
        state = torch_first(good, w)
        due = []
        for _ in range(10):
            due.append(torch_due(state, retention, w))
            state = torch_step(state, due[-1], good, w)
        days = torch.stack(due)
        if retention == 0.9:
            growth = (days[1:] / days[:-1])[days[:-1] >= 1]
            total = total + (0.5 * growth.max() ** 2 if len(growth) else 0.0)
        elif (days < 1).any():
            total = total + 0.0015 * (1 / days[days < 1].mean() - 144).clamp(min=0)
    return total


@pytest.mark.parametrize(
    "kind", slow_except({"leaps"}, ["default", "leaps", "seconds", "never a day"])
)
def test_schedule_penalty_and_gradient_equal_torch(kind: str) -> None:
    values = np.array([*fsrs7.DEFAULT, LEAST])
    if kind == "leaps":
        values[[7, 9, 8]] = 3.0, 2.4, 0.1
    elif kind == "seconds":
        values[:3] = 0.004, 0.004, 0.004
    elif kind == "never a day":
        values[:3] = 0.0005, 0.0005, 0.0005
        values[[7, 15]] = 0.0, 0.0
    w = torch.tensor(values, requires_grad=True)
    expected = torch_penalty(w)
    expected.backward()
    assert w.grad is not None
    gradient = np.zeros(len(fsrs7.DEFAULT))
    penalty = fsrs7._add_schedule_penalty(values, gradient)
    assert penalty == pytest.approx(expected.item(), rel=1e-7)
    reference = w.grad.numpy()[:-1]
    np.testing.assert_allclose(gradient, reference, rtol=1e-5, atol=1e-6 * np.abs(reference).max())
    assert (penalty > 0) == (kind != "never a day" or expected.item() > 0)


def test_schedule_penalty_makes_intervals_grow_less() -> None:
    fits = {}
    for penalised in (False, True):
        trials = trials_of(5, 1500, replace(SECS, sched_penalties=penalised))
        train = trials.folds[-1].train
        fits[penalised] = fsrs7.fit(trials, train, np.ones(len(train)), Context())
    penalties = {
        penalised: fsrs7._add_schedule_penalty(np.array([*w, LEAST]), np.zeros(len(w)))
        for penalised, w in fits.items()
    }
    assert penalties[True] < 0.8 * penalties[False]


def trials_of(seed: int, reviews: int, protocol: Protocol = SECS) -> Trials:
    return LearnerSession(simulate_learner(seed, reviews).log()).trials(protocol)


def torch_loss(trials: Trials, rows: np.ndarray, weights: np.ndarray, w: Tensor) -> Tensor:
    """Compute the binary cross entropy item by item, without any sharing."""
    losses = []
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        history = slice(trials.history_start[row], trials.history_end[row])
        t = torch.tensor(trials.history_delta_t[history])
        rating = torch.tensor(trials.history_rating[history].astype(float))
        state = torch_first(rating[:1], w)
        for k in range(1, len(t)):
            state = torch_step(state, t[k : k + 1], rating[k : k + 1], w)
        r = torch_curve(torch.tensor(trials.delta_t[row : row + 1]), state, w)
        y = torch.tensor(trials.y[row : row + 1])
        losses.append(torch.nn.functional.binary_cross_entropy(r, y) * weight)
    return torch.stack(losses).sum()


@pytest.mark.parametrize("kind", slow_except({"at bounds"}, ["default", "inside", "at bounds"]))
def test_kernel_gradient_over_the_trie_equals_torch(kind: str) -> None:
    """Check whole histories with fractional intervals, shared prefixes, padding and weights."""
    trials = trials_of(3, 700)
    rng = np.random.default_rng(7)
    rows = rng.permutation(len(trials))[:60]
    rows = rows[trials.sequence_length[rows] <= 20]
    weights = rng.uniform(0.25, 1, len(rows))
    w = parameters(rng, kind)
    leaf = torch.tensor(w, requires_grad=True)
    expected = torch_loss(trials, rows, weights, leaf)
    expected.backward()

    model = fsrs7.make_recurrent(secs=True)
    everyone = np.zeros(len(trials))
    everyone[rows] = weights
    batch = cut_batches(history_trie(trials, model.same_day is not None), trials, [rows], everyone)
    idle = _new_adam_state(np.zeros(34), np.ones(1), rate=0.0, steps=1)
    scratch = _make_scratch(model, (batch,))
    tables = pack(batch), pack(idle), pack(scratch)
    full = np.array([*w, LEAST])
    first_batch = np.zeros(1, np.int64)
    loss = _kernel_of_model(model)(first_batch, -1, full, *tables)
    _kernel_of_model(model)(first_batch, 0, full, *tables)
    assert loss == pytest.approx(expected.item(), rel=1e-11)
    assert leaf.grad is not None
    assert_equal_but_for_rounding(scratch.w_bar.sum(axis=1), leaf.grad, scratch.w_bar)


def test_fit_respects_bounds_and_the_order_of_parameters() -> None:
    """Fit cards that differ in their first rating so that S0 of better ratings would cross."""
    cards = [[(0, 1), *[(9, 3)] * 4]] * 60
    for rating in (2, 3, 4):
        cards += [[(0, rating), *[(9, 1)] * 4]] * 60
    trials = LearnerSession(make_log(cards)).trials(Protocol(rows="anki", short=True, secs=True))
    train = np.arange(len(trials))
    w = fsrs7.fit(trials, train, np.ones(len(train)), Context())
    assert (np.array(w) >= LOWER).all()
    assert (np.array(w) <= UPPER).all()
    assert w[0] <= w[1] <= w[2] <= w[3]
    assert w[25] <= w[26]
    assert w[1] < fsrs7.DEFAULT[1]
    assert w[0] > fsrs7.DEFAULT[0]


def test_recency_uses_the_models_own_weights() -> None:
    weights = fsrs7.compute_fsrs7_recency_weights(4)
    np.testing.assert_allclose(weights, 0.0667 + 0.9333 * np.array([0, 0.25, 0.5, 0.75]) ** 11.25)
    assert len(fsrs7.compute_fsrs7_recency_weights(0)) == 0
    plain, recent = (
        trials_of(5, 1500, Protocol(short=True, secs=True, recency=recency))
        for recency in (False, True)
    )
    train = plain.folds[-1].train
    equal = np.ones(len(train))
    fitted = fsrs7.fit(recent, train, equal, Context())
    assert fitted == fsrs7.fit(
        plain, train, fsrs7.compute_fsrs7_recency_weights(len(train)), Context()
    )
    assert fitted != fsrs7.fit(plain, train, equal, Context())


def test_fits_are_identical_from_run_to_run() -> None:
    fits = []
    for _ in range(2):
        trials = trials_of(5, 1500)
        train = trials.folds[-1].train
        fits.append(fsrs7.fit(trials, train, np.ones(len(train)), Context()))
    assert fits[0] == fits[1]
    assert fits[0] == [round(value, 6) for value in fits[0]]


@pytest.mark.parametrize("value", [0.0, 3.0, 100.0, -5.0])
def test_parameters_that_give_no_probabilities_are_refused(value: float) -> None:
    """Check lists beyond their limits, which a user's list is moved to first."""
    trials = trials_of(4, 600)
    index = np.arange(len(trials))
    with pytest.raises(InputError, match=r"not be a probability \(for example, w"):
        fsrs7.predict(trials, [value] * 34, index, Context())
    p = fsrs7.predict(trials, normalize_parameters([value] * 34), index, Context())
    assert ((p > 0) & (p < 1)).all()


def test_predictions_do_not_depend_on_other_rows() -> None:
    trials = trials_of(4, 600)
    w = list(fsrs7.DEFAULT)
    all_predictions = fsrs7.predict(trials, w, np.arange(len(trials)), Context())
    assert ((all_predictions >= 1e-5) & (all_predictions <= 1 - 1e-5)).all()
    every_seventh = np.arange(len(trials))[::7]
    np.testing.assert_array_equal(
        fsrs7.predict(trials, w, every_seventh, Context()), all_predictions[every_seventh]
    )


HOSTILE: dict[str, Callable[[np.random.Generator], list[list[tuple[float, int]]]]] = {
    "one card": lambda rng: [[(0, 3), *[(1 + k % 5, 1 + k % 4) for k in range(60)]]],
    "all passes": lambda rng: [[(0, 3), (1, 3), (4, 4), (9, 3)] for _ in range(40)],
    "all failures": lambda rng: [[(0, 1), (1, 1), (1, 1), (1, 1)] for _ in range(40)],
    "same day only": lambda rng: [[(0, 3), (0.01, 1), (0.2, 3), (0.3, 2)] for _ in range(40)],
    "zero seconds": lambda rng: [[(0, 3), (0, 3), (0, 1), (1, 3), (0, 4), (3, 2)]] * 40,
    "gaps of ten years": lambda rng: [[(0, 3), (3650, 3), (3650, 1), (3650, 2)]] * 40,
    "a rating never": draw_cards_rated_again_or_good,
    "very long": lambda rng: [[(0, 4), *[(40, 4)] * 100], [(0, 1), *[(1, 1)] * 100]] * 3,
}


@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize("name", ["FSRS-7", "FSRS-7-short", "FSRS-7-dry-run"])
def test_hostile_data_gives_finite_figures_or_a_reason(name: str, data: str) -> None:
    log = make_log(HOSTILE[data](np.random.default_rng(0)))
    (configuration,) = resolve_configurations(name, Protocol(rows="anki"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if data == "same day only" and name == "FSRS-7-short":
            with pytest.raises(NotEnoughData, match="no usable reviews"):
                LearnerSession(log).run(configuration)
            return
        result = LearnerSession(log).run(configuration)
    assert np.isfinite(result.metrics.log_loss)
    assert ((result.p >= 1e-5 - 1e-15) & (result.p <= 1 - 1e-5 + 1e-15)).all()
    assert result.parameters is not None
    assert np.isfinite(list(result.parameters.values())).all()


def test_fit_on_too_long_histories_has_not_enough_data() -> None:
    log = make_log([[(0, 3), *[(1, 3)] * 120]])
    trials = LearnerSession(log).trials(Protocol(rows="anki", short=True, secs=True))
    long = np.flatnonzero(trials.sequence_length > 64)
    with pytest.raises(NotEnoughData, match="too long"):
        fsrs7.fit(trials, long, np.ones(len(long)), Context())


def test_names_flags_and_parameter_counts() -> None:
    (standard,) = resolve_configurations("FSRS-7")
    assert standard.name == "FSRS-7-short-secs-recency"
    assert standard.parameters == 34
    assert standard.protocol.short
    assert standard.protocol.secs
    assert standard.protocol.recency
    assert (
        standard.protocol.row_protocol()
        == resolve_configurations("FSRS-6-secs")[0].protocol.row_protocol()
    )
    equalized = "FSRS-7-short-secs-recency-equalize_test_with_non_secs"
    days = resolve_configurations("FSRS-6")[0].protocol.row_protocol()
    assert (
        resolve_configurations(equalized)[0].protocol.row_protocol()
        == days
        != standard.protocol.row_protocol()
    )
    assert {standard.name, equalized} <= {
        configuration.name for configuration in resolve_configurations("fsrs")
    }
    assert resolve_configurations("FSRS-7-default")[0].name == "FSRS-7-dry-run-short-secs"
    assert resolve_configurations("FSRS-7-dry-run")[0].parameters == 0
    assert resolve_configurations("FSRS-7-binary")[0].parameters == 28
    named = "FSRS-7-sched_penalties-short-secs-equalize_test_with_non_secs"
    (penalised,) = resolve_configurations(
        "FSRS-7-short-secs-equalize_test_with_non_secs-sched_penalties"
    )
    assert penalised.name == to_upstream_name(penalised.name, "2026") == named
    assert penalised.protocol.sched_penalties
    flagged = resolve_configurations("FSRS-7,FSRS-6", Protocol(sched_penalties=True))
    assert {configuration.name for configuration in flagged} == {
        "FSRS-6",
        "FSRS-7-sched_penalties-short-secs-recency",
    }
    by_clock = resolve_configurations("FSRS-7,FSRS-6", Protocol(clock="study-days"))
    assert {configuration.words for configuration in by_clock} == {"FSRS-6", "FSRS-7 study days"}
    assert resolve_configurations("FSRS-7 whole days equalized")[0].name == (
        "FSRS-7-short-secs-recency-whole_days-equalize_test_with_non_secs"
    )
    with pytest.raises(InputError, match="FSRS-6 does not support sched_penalties"):
        resolve_configurations("FSRS-6-sched_penalties")
    listed = {
        to_upstream_name(configuration.name, "2026")
        for configuration in resolve_configurations("fsrs")
    }
    assert {  # files of srs-benchmark's table
        "FSRS-7-default-short-secs-equalize_test_with_non_secs",
        "FSRS-7-short-secs-equalize_test_with_non_secs-preset",
        "FSRS-7-short-secs-equalize_test_with_non_secs-deck",
    } <= listed


def test_clock_decides_how_intervals_are_measured() -> None:
    """Compare the intervals of the same reviews by seconds, study days and whole days."""
    log = simulate_learner(5, 1500).log()
    assert log.day_grid is not None
    log = replace(log, day_grid=replace(log.day_grid, time_zone="Europe/Berlin"))
    clocks: tuple[_Clock, ...] = ("seconds", "study-days", "days")
    by_seconds, by_days, by_whole_days = (
        LearnerSession(log).trials(replace(SECS, clock=clock)) for clock in clocks
    )
    assert np.array_equal(by_seconds.review_th, by_whole_days.review_th)
    assert np.array_equal(by_whole_days.delta_t, by_whole_days.elapsed_days)
    apart = np.abs(by_days.delta_t - by_seconds.delta_t)
    assert 0.02 < apart.max() < 0.05  # an hour, where clocks changed between two reviews
    assert np.median(apart) < 2 / 86_400


# Figures of srs-benchmark's own code (fsrs-optimizer 6.1.6, torch 2.13, pandas 2.2.3) on
# golden's data: evaluated reviews, log loss and AUC; then five parameters of the last fold.
EQUALIZED = "FSRS-7-short-secs-recency-equalize_test_with_non_secs"
FIGURES = {
    ("FSRS-7-short-secs-recency", 102): (1830, 0.263817, 0.748788),
    ("FSRS-7-short-secs-recency", 105): (2155, 0.20215, 0.753284),
    ("FSRS-7-short-secs-recency", 110): (1060, 0.195282, 0.793181),
    (EQUALIZED, 102): (1155, 0.336099, 0.678085),
    (EQUALIZED, 105): (1580, 0.249333, 0.73106),
    (EQUALIZED, 110): (630, 0.254506, 0.761445),
    ("FSRS-7-short-secs", 102): (1830, 0.262986, 0.752321),
    ("FSRS-7-short-secs", 105): (2155, 0.193749, 0.787609),
    ("FSRS-7-short-secs", 110): (1060, 0.191571, 0.806525),
    ("FSRS-7-dry-run-short-secs", 102): (1830, 0.27471, 0.718908),
    ("FSRS-7-dry-run-short-secs", 105): (2155, 0.212738, 0.76894),
    ("FSRS-7-dry-run-short-secs", 110): (1060, 0.210616, 0.774874),
}
FITTED = {0: 0.216008, 8: 0.021532, 22: 1.098811, 23: 0.179545, 33: 0.24551}  # the first


@pytest.mark.parametrize("user", [102, 105, 110])
def test_figures_equal_the_reference(user: int) -> None:
    session = LearnerSession(golden_log(user))
    for name in dict.fromkeys(name for name, _ in FIGURES):
        (configuration,) = resolve_configurations(name)
        assert configuration.name == name
        result = session.run(configuration)
        size, log_loss, auc = FIGURES[name, user]
        assert result.size == size, name
        assert result.metrics.log_loss == pytest.approx(log_loss, abs=3e-6), name
        assert result.metrics.auc == pytest.approx(auc, abs=1e-4), name
        if (name, user) == ("FSRS-7-short-secs-recency", 102):
            assert result.parameters is not None
            fitted = {k: result.parameters[0][k] for k in FITTED}
            assert fitted == pytest.approx(FITTED, abs=5e-5)


def test_ordinal_head_loss_equals_the_loss_of_four_buttons() -> None:
    """Compare the sum over yes-or-no questions with srs-benchmark's loss of four buttons."""
    trials = trials_of(5, 400)
    train = np.arange(0, len(trials), 7)
    questions, position, kind = fsrs7_ordinal._make_questions(trials, train)
    assert (np.bincount(position) == np.minimum(trials.rating[train], 3)).all()
    model = fsrs7_ordinal._make_recurrent(trials)
    rng = np.random.default_rng(2)
    head = np.array([0.3, 0.8, -0.2, 0.1, 0.4, 0.9]) + rng.normal(0, 0.1, 6)
    w = torch.tensor([*fsrs7.DEFAULT, LEAST, *head], dtype=torch.float64, requires_grad=True)
    expected = torch.zeros(())
    shares = []
    for row in train.tolist():
        history = slice(trials.history_start[row], trials.history_end[row])
        t = trials.history_delta_t[history]
        rating = torch.tensor(trials.history_rating[history])
        state = torch_first(rating[:1], w)
        for k in range(1, len(t)):
            state = torch_step(state, torch.tensor(t[k : k + 1]), rating[k : k + 1], w)
        r = torch_curve(torch.tensor(trials.delta_t[row : row + 1]), state, w)
        a = w[35:]
        s, _, d = state
        raw = a[0] + a[1] * torch.logit(r) + a[2] * torch.log(s) + a[3] * d
        h = torch.sigmoid(raw - a[4])
        e = torch.sigmoid(raw - a[4] - torch.nn.functional.softplus(a[5]))
        p = torch.cat([1 - r, r * (1 - h), r * (h - e), r * e])
        expected = expected - torch.log(p[trials.rating[row] - 1])
        shares.append((p[1:] / r).detach().numpy())
    expected.backward()
    loss = SummedLoss(model, questions, np.arange(len(questions)))
    assert loss.value(w.detach().numpy()) == pytest.approx(expected.item(), rel=1e-9)
    assert w.grad is not None
    np.testing.assert_allclose(loss.gradient(w.detach().numpy()), w.grad, rtol=1e-6, atol=1e-8)
    predicted = fsrs7_ordinal.predict_buttons(trials, [*fsrs7.DEFAULT, *head], train)
    np.testing.assert_allclose(predicted, np.transpose(shares), rtol=1e-7)  # intervals are shifted
    batches = fsrs7_ordinal._batch_whole_reviews(questions, np.arange(len(questions)), 16)
    assert sorted(np.concatenate(batches)) == list(range(len(questions)))
    assert all(len(np.unique(position[batch])) == 16 for batch in batches[:-1])
    assert (np.bincount(kind, minlength=3)[1:] > 0).all()


# Intervals


@pytest.mark.parametrize("retention", [0.7, 0.9, 0.97])
def test_days_until_a_retention_are_when_recall_has_fallen_to_it(retention: float) -> None:
    random = np.random.default_rng(3)
    s = np.exp(random.normal(2.0, 2.0, 200))
    state = (s, s * random.uniform(0.2, 3.0, 200), random.uniform(1.0, 10.0, 200))
    days = fsrs7.compute_days_until(retention, state, fsrs7.DEFAULT)
    is_reached = (days > 1.01 * fsrs7.MIN_INTERVAL) & (days < 0.99 * fsrs7.MAX_INTERVAL)
    assert is_reached.sum() > 100
    recall = fsrs7.recall(days, state, fsrs7.DEFAULT)
    np.testing.assert_allclose(recall[is_reached], retention, atol=1e-9)
    # Beyond the limits, recall has fallen before them, or not yet.
    np.testing.assert_array_less(recall[days <= fsrs7.MIN_INTERVAL * 1.01], retention)
    np.testing.assert_array_less(retention, recall[days >= fsrs7.MAX_INTERVAL * 0.99])


def test_days_until_several_retentions_fall_with_the_retention() -> None:
    state = tuple(np.array([[value], [2 * value]]) for value in (5.0, 4.0, 3.0))
    days = fsrs7.compute_days_until((0.7, 0.9, 0.97), state, fsrs7.DEFAULT)
    assert days.shape == (2, 3)
    assert (np.diff(days, axis=1) < 0).all()
