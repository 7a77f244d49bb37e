"""Check estimates of the time left of a run, on runs with recorded durations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from srs_eval.engine.run import Event, Finished, Prepared, Progress, Run, Started
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.tui.screens.ranking import estimate_seconds_left
from tests.helpers.marks import slow_except
from tests.tui.app_world import make_result

REVIEWS = 12_000
WORKER_S = 0.9
LOADING_S = 0.75
IMPORTING_S = 1.0
COMPILED_S: Mapping[str, float] = {
    "HLR": 0.5,
    "DASH": 0.1,
    "DASH[MCM]": 0.9,
    "DASH[ACT-R]": 2.4,
    "ACT-R": 1.8,
    "FSRSv1": 2.0,
    "FSRSv2": 1.9,
    "FSRSv3": 2.3,
    "FSRSv4": 2.1,
    "FSRS-4.5": 2.0,
    "FSRS-5": 1.9,
    "FSRS-6-one-step": 1.4,
    "FSRS-7": 2.9,
    "STATE-1": 0.2,
    "SBD": 2.1,
    "Anki": 1.4,
    "SM2-trainable": 1.5,
    "LogisticRegression": 7.5,
    "GRU": 6.1,
    "GRU-503": 8.2,
    "NN-17": 2.5,
    "LSTM": 6.0,
    "Transformer": 10.8,
    "STATE-FSRS-6": 6.9,
    "FSRS-6": 6.3,
}
"""Recorded processor seconds of compiling, by owner of the kernels; of all others 0.05."""
WORK_S: Mapping[str, float] = {
    "Transformer": 0.75,
    "GradientBoosting": 0.5,
    "LSTM": 0.6,
    "LSTM-fixed": 0.6,
    "GRU-503": 0.4,
    "FSRS-rs": 0.17,
    "GRU-P": 0.17,
    "FSRS-7": 0.12,
    "SBD": 0.13,
    "STATE-FSRS-6": 0.14,
    "STATE-FSRS-6+7": 0.15,
}
"""Recorded processor seconds of 12,000 reviews with two workers; of all others 0.06."""


def recorded(
    chosen: list[Configuration],
    missing: frozenset[str] = frozenset(),
    *,
    workers: int = 2,
    slowness: float = 1.0,
) -> Iterator[tuple[float, Event]]:
    """Yield the events of a run in which everything takes as long as it once did, with times."""
    chosen = sorted(chosen, key=lambda configuration: configuration.expected_seconds(REVIEWS))
    yield 0.0, Prepared(REVIEWS, REVIEWS, tuple(chosen), missing)
    waiting = deque(chosen)
    time = 0.0
    events: list[tuple[float, int, Event, bool]] = []  # time, worker, event, worker is free
    compiled: dict[str, float] = {}  # times by name
    imported = 0
    loaded = 0
    for number in range(workers):
        events.append((0.0, number, Started(waiting[0]), True))
    while events:
        events.sort(key=lambda event: event[:2])
        time, number, event, free = events.pop(0)
        if not isinstance(event, Started):
            yield time, event
        if not free or not waiting:
            continue
        configuration = waiting.popleft()
        name = configuration.model.name
        kernels = configuration.model.kernel_owner
        before = WORKER_S if time == 0 else 0.0
        if configuration.compiles:
            if loaded < workers:
                before += LOADING_S
            loaded += 1
        if configuration.model.needs:
            if imported < workers:
                before += IMPORTING_S
            imported += 1
        compiles = configuration.name in missing and time < compiled.get(kernels, time + 1)
        if compiles:  # also while another worker compiles the same kernels
            before += COMPILED_S.get(kernels, 0.05)
            compiled.setdefault(kernels, time + slowness * before)
        yield time, Started(configuration, compiles)
        begins = time + slowness * before
        work = slowness * WORK_S.get(name, 0.06)
        if work > 0.5 * slowness:
            for percent in range(1, 100):
                progress = Progress(configuration, percent / 100)
                events.append((begins + work * percent / 100, number, progress, False))
        result = replace(make_result("DASH"), configuration=configuration.name, seconds=work)
        events.append((begins + work, number, Finished(configuration, result), True))


def measure_estimates(
    evaluation: Run, events: Iterator[tuple[float, Event]]
) -> list[tuple[float, float, float]]:
    """Apply the events; return (seconds gone, estimated seconds left, seconds left).

    There are four a second, as long as a fifth of the run is left.
    """
    waiting = deque(events)
    end = waiting[-1][0]
    estimates = []
    for quarter in range(4, int(4 * end)):
        time = quarter / 4
        while waiting and waiting[0][0] <= time:
            when, event = waiting.popleft()
            evaluation.apply(event, when)
        if end - time > end / 5:
            estimate = estimate_seconds_left(evaluation, time)
            assert estimate is not None
            estimates.append((time, estimate, end - time))
    for when, event in waiting:
        evaluation.apply(event, when)
    return estimates


def all_compiled() -> frozenset[str]:
    """Return the configurations to compile in a first run.

    The answers have compiled FSRS-6 and the model of the day already.
    """
    compiled_already = ("FSRS-6", "STATE-FSRS-6")
    return frozenset(
        configuration.name
        for configuration in resolve_configurations("all")
        if configuration.compiles and configuration.model.name not in compiled_already
    )


@pytest.mark.parametrize("slowness", slow_except({2.5}, [0.5, 2.5]))
@pytest.mark.parametrize("workers", slow_except({4}, [1, 4]))
@pytest.mark.parametrize("missing", [all_compiled(), frozenset()], ids=["first", "warm"])
def test_estimates_of_recorded_runs_are_within_a_factor_of_two(
    missing: frozenset[str], workers: int, slowness: float
) -> None:
    """Check estimates from the third second on."""
    chosen = resolve_configurations("all")
    events = list(recorded(chosen, missing, workers=workers, slowness=slowness))
    estimates_from = 3 * max(slowness, 1)
    count = 0
    for time, estimate, true in measure_estimates(Run(), iter(events)):
        if time > estimates_from:
            count += 1
            assert true / 2 < estimate < true * 2, (time, estimate, true)
    end = events[-1][0]
    assert count > 5 or end < 2 * estimates_from  # a short run has ended by then
