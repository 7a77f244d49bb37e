"""Evidence on where a model errs counts each review once and shows a planted error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice.model_evidence import _stability_from_recall, model_evidence
from srs_eval.advice.shown.predicted import CurvesTable, error_tables
from srs_eval.app import AppOptions
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve_configurations
from srs_eval.stats.tables import Table
from srs_eval.training.hyperparameters import Context
from srs_eval.tui.widgets.calibration import CurvesChart
from tests.conftest import write_simulated_collection
from tests.tui.app_world import WatchedApp, is_on_screen, screen_text, wait_until

(CONFIGURATION,) = resolve_configurations("FSRS-6-dry-run")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_collection(tmp_path_factory, 5, 2_000)


@pytest.fixture(scope="module")
def session(path: Path) -> LearnerSession:
    return LearnerSession(srs_eval.load(path))


@pytest.fixture(scope="module")
def result(session: LearnerSession) -> Result:
    return session.run(CONFIGURATION, Context(), use_cache=False)


def build_tables(session: LearnerSession, result: Result) -> dict[str, Table]:
    trials = session.trials(CONFIGURATION.protocol)
    tables = error_tables(model_evidence(session.log, trials, CONFIGURATION, result))
    return {table.title.split(",")[0].split(":")[0]: table for table in tables}


def test_tables_of_errors_count_every_review_once(session: LearnerSession, result: Result) -> None:
    tables = build_tables(session, result)
    titles = [
        "By days since the previous review",
        "By earlier reviews of the card",
        "By earlier lapses of the card",
        "By hours since the day began",
        "By deck",
        "Forgetting curves",
        "Forgetting curves by stability",
        "Parameters of the last fold",
    ]
    assert list(tables) == titles[: len(tables)]
    for title in list(tables)[:4]:
        rows = tables[title].records()
        assert sum(row["reviews"] for row in rows) == result.size
        recalled = sum(row["reviews"] * row["recalled"] for row in rows)
        assert recalled == pytest.approx(result.y.sum())
        loss = sum(row["reviews"] * row["log loss"] for row in rows) / result.size
        assert loss == pytest.approx(result.metrics.log_loss, abs=1e-6)
        for row in rows:
            assert row["minus expected"] == pytest.approx(row["recalled"] - row["expected"])
            assert (row["minus expected low"] is None) == (row["reviews"] < 30)
    assert sum(row["reviews"] for row in tables["By deck"].records()) <= result.size
    seconds = session.trials(CONFIGURATION.protocol)
    second = int((seconds.i[seconds.test_index] == 2).sum())
    assert sum(row["reviews"] for row in tables["Forgetting curves"].records()) == second
    of_stability = tables["Forgetting curves by stability"].records()
    assert sum(row["reviews"] for row in of_stability) == result.size


def test_forgetting_curves_draw_the_rows_of_their_table(
    session: LearnerSession, result: Result
) -> None:
    """Check that curves have the points of 30 reviews and more, days ascending."""
    tables = build_tables(session, result)
    for title in ("Forgetting curves", "Forgetting curves by stability"):
        table = tables[title]
        assert isinstance(table, CurvesTable)
        enough = [row for row in table.records() if row["reviews"] >= 30]
        points = []
        for curve in table.curves:
            points += [
                (curve.name, interval.reviews, interval.estimate, expected)
                for interval, expected in zip(curve.recalled, curve.expected, strict=True)
            ]
        by = table.columns[0].title
        assert points == [
            (row[by], row["reviews"], row["recalled"], row["expected"]) for row in enough
        ]
        for curve in table.curves:
            assert list(curve.days) == sorted(set(curve.days))
    trials = session.trials(CONFIGURATION.protocol)
    p = fsrs6.predict(trials, list(fsrs6.DEFAULT), trials.test_index, Context())
    days = trials.elapsed_days[trials.test_index]
    decay = fsrs6.DEFAULT[20]
    stability = _stability_from_recall(days, p, decay)
    factor = 0.9 ** (-1 / decay) - 1  # FSRS-6: R = (1 + factor t / S)^-decay
    assert (1 + factor * days / stability) ** -decay == pytest.approx(p)


def test_error_planted_at_long_intervals_is_shown_there(
    session: LearnerSession, result: Result
) -> None:
    """Check predictions that are right on average but for intervals of more than 30 days."""
    trials = session.trials(CONFIGURATION.protocol)
    days = trials.elapsed_days[trials.test_index]
    rate = float(result.y.mean())
    p = np.where(days >= 30, 0.02, rate)
    table = build_tables(session, replace(result, p=p))["By days since the previous review"]
    for row in table.records():
        fewest_days = row["days"].split("-")[0].split(" ")[0]
        if int(fewest_days) >= 30:
            assert row["minus expected"] > 0.2


def test_evidence_of_another_results_trials_is_refused(
    session: LearnerSession, result: Result
) -> None:
    with pytest.raises(ValueError, match="not evaluated on these trials"):
        build_tables(
            session, replace(result, tests=replace(result.tests, review_th=result.review_th + 1))
        )


def test_table_of_parameters_has_meanings_and_defaults(session: LearnerSession) -> None:
    (configuration,) = resolve_configurations("FSRS-6")
    trials = session.trials(configuration.protocol)
    run_result = session.run(CONFIGURATION, Context(), use_cache=False)
    fitted = replace(run_result, parameters={0: [0.5 + k for k in range(21)]})
    table = error_tables(model_evidence(session.log, trials, configuration, fitted))[-1]
    records = table.records()
    assert [row["parameter"] for row in records] == [f"w{k}" for k in range(21)]
    assert records[20]["meaning"] == "decay of the forgetting curve"
    assert records[20]["fitted"] == 20.5
    assert records[20]["default"] == pytest.approx(configuration.model.default(Context())[20])


def test_tables_of_own_parameters_are_named_by_preset(session: LearnerSession) -> None:
    (own_configuration,) = resolve_configurations("FSRS-6-own")
    presets = {key: replace(p, name=f"P{key}") for key, p in session.log.presets.items()}
    stored = {key: [0.5 + position] * 21 for position, key in enumerate([*presets, 77])}
    log = replace(session.log, presets=presets)
    result = session.run(CONFIGURATION, Context(), use_cache=False)
    trials = session.trials(CONFIGURATION.protocol)
    tables = error_tables(
        model_evidence(log, trials, own_configuration, replace(result, parameters=stored))
    )
    parameter_tables = [table for table in tables if table.title.startswith("Parameters")]
    names = [*(f"P{key}" for key in presets), "preset 77"]
    assert [table.title for table in parameter_tables] == [
        f"Parameters stored in Anki: {n}" for n in names
    ]
    first_values = [values[0] for values in stored.values()]
    assert [table.records()[0]["in Anki"] for table in parameter_tables] == first_values


@pytest.mark.slow
async def test_app_shows_tables_and_curves_of_errors(path: Path, tmp_path: Path) -> None:
    app = WatchedApp(path, AppOptions(models="AVG,FSRS-6-dry-run", jobs=0), state_folder=tmp_path)
    async with app.run_test(size=(100, 40)) as pilot:
        await wait_until(pilot, lambda: app.session.log is not None)
        app.session.models.start()
        await wait_until(
            pilot,
            lambda: (
                not app.session.models.run.is_running and app.session.models.run.results_by_name()
            ),
        )
        from srs_eval.tui.screens.details import DetailsScreen

        app.push_screen(DetailsScreen(app.session.models.run, "FSRS-6-dry-run"))
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await pilot.press("e")
        await wait_until(pilot, is_on_screen(app, "ErrorsScreen"))
        await wait_until(pilot, lambda: "By days since the previous review" in screen_text(app))
        assert "minus expected" in screen_text(app)
        await wait_until(pilot, lambda: len(app.screen.query(CurvesChart)) == 2)
        chart = app.screen.query(CurvesChart).first()
        chart.scroll_visible(animate=False)
        await wait_until(pilot, lambda: "lines: expected" in screen_text(app))
        assert "∘" not in screen_text(app)
        await pilot.press("home")  # where no curve is seen
        await wait_until(pilot, lambda: "lines: expected" not in screen_text(app))
        await pilot.press("l")  # with what the average expected
        await wait_until(pilot, lambda: "∘ by average" in screen_text(app))
        assert "∘ in the curves: average" in screen_text(app)
        assert screen_text(app).count("∘") > 2  # more than in the title and in the key
        await pilot.press("l")
        await wait_until(pilot, lambda: "∘" not in screen_text(app))
    app.session.shut_down()
