"""What is said of a run's time left: on runs as they were once recorded."""

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
WORKER_S, LOADING_S, IMPORTING_S = 0.9, 0.75, 3.5
COMPILED_S: Mapping[str, float] = {
    **{"HLR": 0.5, "DASH": 0.1, "DASH[MCM]": 0.9, "DASH[ACT-R]": 2.4, "ACT-R": 1.8},
    **{"FSRSv1": 2.0, "FSRSv2": 1.9, "FSRSv3": 2.3, "FSRSv4": 2.1, "FSRS-4.5": 2.0},
    **{"FSRS-5": 1.9, "FSRS-6-one-step": 1.4, "FSRS-7": 2.9, "STATE-1": 0.2, "SBD": 2.1},
    **{"Anki": 1.4, "SM2-trainable": 1.5, "LogisticRegression": 7.5, "GRU": 6.1, "GRU-503": 8.2},
    **{"NN-17": 2.5, "Transformer": 10.8, "STATE-FSRS-6": 6.9, "FSRS-6": 6.3},
}
"""Processor seconds of compiling, by what is `compiled_as`, as recorded; else 0.05."""
WORK_S: Mapping[str, float] = {
    **{"LSTM": 7.0, "LSTM-fixed": 7.0, "Transformer": 0.75, "GRU-503": 0.4, "FSRS-rs": 0.17},
    **{"GRU-P": 0.17, "FSRS-7": 0.12, "SBD": 0.13, "STATE-FSRS-6": 0.14, "STATE-FSRS-6+7": 0.15},
}
"""The same of 12,000 reviews, two at work at once; of others 0.06."""


def recorded(
    chosen: list[Configuration],
    missing: frozenset[str] = frozenset(),
    *,
    workers: int = 2,
    slowness: float = 1.0,
) -> Iterator[tuple[float, Event]]:
    """What the engine sends of a run in which everything takes what was once measured."""
    chosen = sorted(chosen, key=lambda each: each.expected_seconds(REVIEWS))
    yield 0.0, Prepared(REVIEWS, REVIEWS, tuple(chosen), missing)
    waiting, now = deque(chosen), 0.0
    events: list[tuple[float, int, Event, bool]] = []  # the last: a worker is free then
    compiled, imported, loaded = dict[str, float](), 0, 0  # the first: when
    for number in range(workers):
        events.append((0.0, number, Started(waiting[0]), True))
    while events:
        events.sort(key=lambda each: each[:2])
        now, number, event, free = events.pop(0)
        if not isinstance(event, Started):
            yield now, event
        if not free or not waiting:
            continue
        each = waiting.popleft()
        name, kernels = each.model.name, each.model.kernel_owner
        before = WORKER_S if now == 0 else 0.0
        if each.compiles:
            before, loaded = before + LOADING_S * (loaded < workers), loaded + 1
        if each.model.needs:
            before, imported = before + IMPORTING_S * (imported < workers), imported + 1
        compiles = each.name in missing and now < compiled.get(kernels, now + 1)
        if compiles:  # also where another is at the same
            before += COMPILED_S.get(kernels, 0.05)
            compiled.setdefault(kernels, now + slowness * before)
        yield now, Started(each, compiles)
        begins = now + slowness * before
        work = slowness * (WORK_S.get(name, 0.06))
        if work > 0.5 * slowness:
            for part in range(1, 100):
                stated = Progress(each, part / 100)
                events.append((begins + work * part / 100, number, stated, False))
        took = slowness * WORK_S.get(name, 0.06)
        result = replace(make_result("DASH"), configuration=each.name, seconds=took)
        events.append((begins + work, number, Finished(each, result), True))


def said(
    evaluation: Run, events: Iterator[tuple[float, Event]]
) -> list[tuple[float, float, float]]:
    """(seconds gone, said to be left, left), four times a second, while a fifth is left."""
    listed, stated = list(events), []
    end, open_ = listed[-1][0], deque(listed)
    for quarter in range(4, int(4 * end)):
        now = quarter / 4
        while open_ and open_[0][0] <= now:
            when, event = open_.popleft()
            evaluation.apply(event, when)
        if end - now > end / 5:
            left = estimate_seconds_left(evaluation, now)
            assert left is not None
            stated.append((now, left, end - now))
    while open_:
        evaluation.apply(open_[0][1], open_.popleft()[0])
    return stated


def all_compiled() -> frozenset[str]:
    """Of a first run: the answers have compiled FSRS-6 and the day's model."""
    there = ("FSRS-6", "STATE-FSRS-6")
    return frozenset(
        each.name
        for each in resolve_configurations("all")
        if each.compiles and each.model.name not in there
    )


@pytest.mark.parametrize("slowness", slow_except({2.5}, [0.5, 2.5]))
@pytest.mark.parametrize("workers", slow_except({4}, [1, 4]))
@pytest.mark.parametrize("missing", [all_compiled(), frozenset()], ids=["first", "warm"])
def test_recorded_runs_are_said_within_a_factor_of_two(
    missing: frozenset[str], workers: int, slowness: float
) -> None:
    """From the third second on."""
    events = recorded(resolve_configurations("all"), missing, workers=workers, slowness=slowness)
    stated = [each for each in said(Run(), events) if each[0] > 3 * max(slowness, 1)]
    assert len(stated) > 5
    for now, left, true in stated:
        assert true / 2 < left < true * 2, (now, left, true)
