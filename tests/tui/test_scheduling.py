"""Check that the app asks models whether they could schedule, after the ranking is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from srs_eval.engine.schedulability import Measurement, Obstacle, RetentionFaults, Schedulability
from srs_eval.models.configurations import Configuration
from srs_eval.tui.screens.details import DetailsScreen
from tests.tui.app_world import (
    FILE,
    MODELS,
    FakeEngine,
    is_on_screen,
    make_app,
    screen_of,
    screen_text,
    to_import_summary,
    to_results,
    wait_until,
)

WIDE = (230, 50)


def make_measurement(configuration: Configuration, share: float = 0.034) -> Measurement:
    if configuration.model.family == "online" and not configuration.is_baseline:
        return Measurement(configuration, obstacle=Obstacle.ONLINE)
    faults = RetentionFaults(
        desired_retention=0.9,
        inverted=share,
        again_above_hard=0.0,
        hard_above_good=share,
        good_above_easy=0.0,
        never_reached=0.0,
        reached_twice=0.0,
        unschedulable=share,
        under_a_minute=None,
        under_a_minute_after_pass=None,
        above_five_times=None,
    )
    return Measurement(
        configuration,
        Schedulability(
            configuration=configuration.name,
            histories=1_000,
            retentions=(faults,),
            rising=0.0,
            flat=0.0,
            in_whole_days=True,
        ),
    )


class FakeMeasure:
    """Measures at once, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(
        self, session: Any, configurations: Sequence[Configuration], *_: Any, **__: Any
    ) -> Iterator[Measurement]:
        for configuration in configurations:
            self.asked.append(configuration.name)
            yield make_measurement(configuration)


async def test_wide_ranking_says_which_models_can_schedule(tmp_path: Path) -> None:
    measure = FakeMeasure()
    app = make_app(tmp_path, FILE, measure=measure)
    async with app.run_test(size=WIDE) as pilot:
        await to_results(pilot, app)
        await wait_until(pilot, lambda: len(app.session.models.measurements) == len(MODELS))
        await wait_until(pilot, lambda: "fails for 3 %" in screen_text(app))
        text = screen_text(app)
        assert "can schedule" in text
        assert sorted(measure.asked) == sorted(MODELS)


async def test_details_say_what_a_scheduler_would_meet(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, measure=FakeMeasure())
    async with app.run_test(size=(140, 45)) as pilot:
        await to_results(pilot, app)
        await pilot.press("d")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        details = screen_of(app, DetailsScreen)
        await wait_until(pilot, lambda: details.query_one("#schedulability").display)
        text = " ".join(str(details.query_one("#schedulability").render()).split())
        assert text.startswith(
            "Can it schedule? Asked for 90 %, it fails for 3 % of 1,000 reviews."
        )
        assert "most often Hard and Good" in text


async def test_models_are_not_asked_while_others_are_running(tmp_path: Path) -> None:
    measure = FakeMeasure()
    app = make_app(tmp_path, FILE, measure=measure, evaluate=FakeEngine(hold_at=("DASH", 1)))
    async with app.run_test(size=WIDE) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        models = app.session.models
        await wait_until(pilot, lambda: models.run.results_by_name())
        name = next(iter(models.run.results_by_name()))
        assert models.measure(models.run, name) is None
        assert measure.asked == []
