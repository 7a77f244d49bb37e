"""What is said of a run's time left: on recorded runs, and for whatever the engine may send."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.engine.run import (
    Event,
    Failed,
    Finished,
    Prepared,
    Progress,
    Run,
    Started,
    start_order,
)
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.tui.screens.time_left import _expected, expected_seconds, measured_pace, seconds_left
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
    telling: float = 0.0,
) -> Iterator[tuple[float, Event]]:
    """What the engine sends of a run in which everything takes what was once measured.

    `telling` seconds more pass until a worker has told of a model and begins the next.
    """
    known = {each.name for each in resolve("learner")}
    chosen = start_order(chosen, REVIEWS, workers, uncompiled=missing, first=known)
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
        name, kernels = each.model.name, each.model.compiled_as
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
        work = slowness * (WORK_S.get(name, 0.06) + telling)
        if work > 0.5 * slowness:
            for part in range(1, 100):
                told = Progress(each, part / 100, part // 20, 5)
                events.append((begins + work * part / 100, number, told, False))
        took = slowness * WORK_S.get(name, 0.06)
        result = replace(make_result("DASH"), configuration=each.name, seconds=took)
        events.append((begins + work, number, Finished(each, result), True))


def said(
    evaluation: Run, events: Iterator[tuple[float, Event]]
) -> list[tuple[float, float, float]]:
    """(seconds gone, said to be left, left), four times a second, while a fifth is left."""
    listed, told = list(events), []
    end, open_ = listed[-1][0], deque(listed)
    for quarter in range(4, int(4 * end)):
        now = quarter / 4
        while open_ and open_[0][0] <= now:
            when, event = open_.popleft()
            evaluation.apply(event, when)
        if end - now > end / 5:
            left = seconds_left(evaluation, now)
            assert left is not None
            told.append((now, left, end - now))
    while open_:
        evaluation.apply(open_[0][1], open_.popleft()[0])
    return told


def all_compiled() -> frozenset[str]:
    """Of a first run: the answers have compiled FSRS-6 and the day's model."""
    there = ("FSRS-6", "STATE-FSRS-6")
    return frozenset(
        each.name for each in resolve("all") if each.compiles and each.model.name not in there
    )


@pytest.mark.parametrize("slowness", [1.0, 2.5])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("first_run", [True, False], ids=["first", "warm"])
def test_recorded_runs_are_told_within_half(
    first_run: bool, workers: int, slowness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the third second on, or the first on a machine like that of the recording."""
    monkeypatch.setattr("srs_eval.engine.run.missing", lambda module: "")
    monkeypatch.setattr("srs_eval.engine.start_order.missing", lambda module: "")
    missing = all_compiled() if first_run else frozenset[str]()
    events = recorded(resolve("all"), missing, workers=workers, slowness=slowness)
    told = said(Run(), events)
    assert len(told) > 20
    for now, left, true in told:
        if slowness == 1 or now > 3 * slowness:
            assert true / 1.5 < left < true * 1.5, (now, left, true)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_short_models_that_are_told_late_make_the_long_ones_no_slower(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.engine.run.missing", lambda module: "")
    monkeypatch.setattr("srs_eval.engine.start_order.missing", lambda module: "")
    told = said(Run(), recorded(resolve("all"), workers=workers, telling=0.09))
    assert len(told) > 20
    for now, left, true in told:
        assert true / 1.5 < left < true * 1.5, (now, left, true)


def test_compiling_what_another_compiles_says_nothing_of_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("srs_eval.engine.run.missing", lambda module: "")
    names = "AVG", "90%", "HLR", "DASH", "GRU", "GRU-P", "LSTM"
    *before, gru, gru_p, lstm = chosen = [resolve(name)[0] for name in names]
    evaluation = Run()
    evaluation.apply(Prepared(REVIEWS, REVIEWS, tuple(chosen), frozenset({"GRU", "GRU-P"})), 0.0)
    for pair, begins, ends in (
        (before[:2], 0.1, 1.0),
        (before[2:], 1.0, 1.9),
        ((gru, gru_p), 2.0, 8.0),
    ):
        for each in pair:
            evaluation.apply(Started(each, compiles=each in (gru, gru_p)), begins)
        for each in pair:
            result = replace(make_result("DASH"), configuration=each.name)
            evaluation.apply(Finished(each, result), ends)
    evaluation.apply(Started(lstm), 8.0)
    left = seconds_left(evaluation, 8.1)
    assert left is not None
    assert left < 1.5 * (expected_seconds(evaluation)[lstm.name] + IMPORTING_S)


def test_kernels_that_were_kept_make_the_rest_no_faster() -> None:
    """Said to be missing, and there: work takes what it takes."""
    chosen = resolve("FSRSv1,FSRSv2,FSRSv3,FSRSv4,FSRS-4.5,SBD,GRU-503")
    evaluation = Run()
    missing = frozenset(each.name for each in chosen)
    evaluation.apply(Prepared(1_000_000, 1, tuple(chosen), missing), 0.0)
    before, now = seconds_left(evaluation, 1.0), 0.8
    assert before is not None
    for each in chosen[:-1]:
        evaluation.apply(Started(each, compiles=True), now)
        now += expected_seconds(evaluation)[each.name]
        result = replace(make_result("DASH"), configuration=each.name)
        evaluation.apply(Finished(each, result), now)
    left = seconds_left(evaluation, now)
    last = expected_seconds(evaluation)[chosen[-1].name]
    assert left is not None
    assert last / 1.2 < left < before
    assert left < last + chosen[-1].model.seconds_to_compile


@given(st.floats(0.001, 0.01), st.integers(1, 4))
def test_one_odd_pace_says_little_of_the_rest(seconds: float, models: int) -> None:
    """However fast some cheap models once were."""
    chosen = resolve("all")
    usual = Run()
    usual.apply(Prepared(REVIEWS, 1, tuple(chosen)), 0.0)
    known = {each.name: (seconds, 1_000_000) for each in chosen[:models]}
    odd = Run(known_pace=known)
    odd.apply(Prepared(REVIEWS, 1, tuple(chosen)), 0.0)
    told, expected = seconds_left(odd, 1.0), seconds_left(usual, 1.0)
    assert told is not None
    assert expected is not None
    assert expected / 2 < told <= expected


def test_without_what_networks_need_nothing_is_expected_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = resolve("AVG,LSTM")

    def left(lacking: str) -> float:
        monkeypatch.setattr("srs_eval.engine.run.missing", lambda module: lacking)
        evaluation = Run()
        evaluation.apply(Prepared(REVIEWS, 1, tuple(chosen)), 0.0)
        told = seconds_left(evaluation, 1.0)
        assert told is not None
        return told

    assert left("") > 5
    assert left("PyTorch: not there") < 2


CHOSEN = resolve("AVG,SM2,Ebisu-v2,LSTM,HLR,FSRS-6,FSRS-6-dry-run,FSRSv4,GRU-503,Transformer")
KNOWN = st.dictionaries(
    st.sampled_from([each.name for each in CHOSEN]),
    st.tuples(st.floats(0.001, 1e4), st.integers(100, 1_000_000)),
    max_size=3,
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, 0.4, 3.0, 50.0]),  # seconds until it happens
        st.integers(0, 2),  # to which of the models at work
        st.sampled_from(["progress", "progress", "cached", "done", "failed"]),
        st.floats(0, 1),
        st.booleans(),  # whether the next model's kernels are missing still
    ),
    max_size=30,
)


@given(st.integers(1, 3), st.integers(0, 300_000), KNOWN, st.booleans(), STEPS)
def test_whatever_happens_the_figure_keeps_within_reason(
    workers: int,
    reviews: int,
    known: dict[str, tuple[float, int]],
    compile_first: bool,
    steps: list[tuple[float, int, str, float, bool]],
) -> None:
    """Finite, never negative, at most ten times what was expected beside what was measured.

    What comes from the cache tells nothing of the machine.
    """
    missing = frozenset(each.name for each in CHOSEN if each.compiles and compile_first)
    evaluation = Run(known_pace=known)
    evaluation.apply(Prepared(reviews, 1, tuple(CHOSEN), missing), 0.0)
    expected = sum(each.whole for each in _expected(evaluation).values())
    expected *= workers + 1  # each worker starts
    waiting, working, now = deque(CHOSEN), list[Configuration](), 0.0
    steps = [*steps, *([(0.4, 0, "done", 0.0, True)] * len(CHOSEN))]
    for seconds, which, what, share, compiles in steps:
        while waiting and len(working) < workers:
            working.append(waiting.popleft())
            is_first_run = working[-1].name in missing and compiles
            evaluation.apply(Started(working[-1], is_first_run), now)
        if not working:
            break
        now += seconds
        each, before = working[which % len(working)], seconds_left(evaluation, now)
        if what == "progress":
            evaluation.apply(Progress(each, share, 0, 5), now)
        else:
            working.remove(each)
            result = replace(make_result("DASH"), configuration=each.name, cached=what == "cached")
            ended = Failed(each, "odd") if what == "failed" else Finished(each, result)
            evaluation.apply(ended, now)
        left = seconds_left(evaluation, now)
        if left is None:
            assert now < 1
            continue
        assert math.isfinite(left)
        assert 0 <= left <= 10 * expected + 100 * now
        if what == "cached" and before is not None:
            assert left <= before + 10 * expected
    assert not evaluation.unfinished() or seconds_left(evaluation, max(now, 1.0)) == 0
    assert all(each > 0 for pair in measured_pace(evaluation).values() for each in pair)


def test_what_was_kept_makes_no_jump() -> None:
    """Results from the cache leave what is expected of the others as it was."""
    chosen = resolve("fast")
    evaluation = Run()
    evaluation.apply(Prepared(REVIEWS, 1, tuple(chosen)), 0.0)
    before = expected_seconds(evaluation)[chosen[-1].name]
    now = 1.0
    for each in chosen[:-1]:
        evaluation.apply(Started(each), now)
        result = replace(make_result("DASH"), configuration=each.name, cached=True)
        evaluation.apply(Finished(each, result), now)
        now += 0.001
    left = seconds_left(evaluation, now)
    assert left is not None
    assert before <= left <= before + LOADING_S + 0.1
