"""In which order models begin, as the workers take them."""

from __future__ import annotations

import pytest

from srs_eval.engine.run import start_order, usual_seconds
from srs_eval.models.configurations import Configuration, resolve

REVIEWS = 12_000
LSTMS = {each.name for each in resolve("LSTM,LSTM-fixed")}
LEARNER = {each.name for each in resolve("learner")}


@pytest.fixture(autouse=True)
def with_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srs_eval.engine.start_order.missing", lambda module: "")


def ends(order: list[Configuration], workers: int, compiles: bool) -> dict[str, float]:
    """Seconds until each has finished, where everything takes what is expected of it.

    Whoever begins before another has compiled the same kernels compiles them as well.
    """
    free, found, compiled = [0.0] * workers, {}, dict[str, float]()
    for each in order:
        free.sort()
        now, kernels = free[0], each.model.compiled_as
        if compiles and each.compiles and now < compiled.get(kernels, now + 1):
            free[0] += each.model.seconds_to_compile
            compiled[kernels] = min(free[0], compiled.get(kernels, free[0]))
        free[0] += usual_seconds(each, REVIEWS)
        found[each.name] = free[0]
    return found


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("compiles", [True, False], ids=["first", "later"])
def test_lines_come_soon_and_the_end_no_later(workers: int, compiles: bool) -> None:
    chosen = resolve("all")
    missing = {each.name for each in chosen if each.compiles and compiles}
    order = start_order(chosen, REVIEWS, workers, uncompiled=missing)
    assert sorted(each.name for each in order) == sorted(each.name for each in chosen)
    finished = ends(order, workers, compiles)
    alone = {each.name: max(ends([each], 1, compiles).values()) for each in chosen}
    cannot_be_less = max(*alone.values(), max(ends(chosen, 1, compiles).values()) / workers)
    assert max(finished.values()) < 1.12 * cannot_be_less
    shortest_first = ends(sorted(chosen, key=lambda each: alone[each.name]), workers, compiles)
    assert max(finished.values()) <= max(shortest_first.values()) + 1e-9
    if workers <= 2:  # as many as there are LSTMs, which would hold them all
        assert sum(finished.values()) < 1.15 * sum(shortest_first.values())


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_a_learner_knows_of_comes_before_other_short_ones(workers: int) -> None:
    order = start_order(resolve("all"), REVIEWS, workers, first=LEARNER)
    short = [each.name for each in order if each.name not in LSTMS]
    known = LEARNER & {*short}
    assert {*short[: len(known)]} == known


def test_where_workers_are_many_the_longest_begin_at_once() -> None:
    order = start_order(resolve("all"), REVIEWS, 8, first=LEARNER)
    assert {each.name for each in order[:2]} == LSTMS


def test_what_is_not_installed_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srs_eval.engine.start_order.missing", lambda module: module)
    order = start_order(resolve("AVG,LSTM"), REVIEWS, 1)
    assert [each.model.name for each in order] == ["LSTM", "AVG"]
