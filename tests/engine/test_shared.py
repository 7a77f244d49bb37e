"""Models beside the predictions of others, which lack reviews: in every view, on shared reviews."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.questions import compare
from srs_eval.app import AppOptions
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ExternalPredictions, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.ranking import RankingGroup, add_baselines
from srs_eval.engine.run import Run, Skipped
from srs_eval.engine.shared_reviews import add_external_configurations
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.ranking_words import format_group_title
from srs_eval.tui.screens.details import CompareScreen
from tests.conftest import write_simulated_collection
from tests.retrievability import FSRS, RWKV, make_cache
from tests.tui.app_world import is_on_screen, make_app, screen_text, to_import_summary, wait_until

MODELS = "MOVING-AVG,FSRS-6-dry-run"


def answers(collection: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(collection)) as database:
        query = "select id, ease from revlog where ease between 1 and 4 order by id"
        return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a cache as the fork makes it: RWKV on the last 40 %, FSRS on the last 20 %."""
    path = write_simulated_collection(tmp_path_factory, 3, 3_000)
    given = answers(path)
    fitted, live = len(given) * 6 // 10, len(given) * 8 // 10
    rwkv = [
        (review, 0.6 + 0.09 * button, "rwkv_calibration_recompute", 1, role, -1)
        for k, (review, button) in enumerate(given)
        for role in ["final_fit" if k < fitted else "test_fold"]
    ]
    fsrs = [(review, 0.9, "fsrs_review", 1, "post_optimization", -1) for review, _ in given[live:]]
    make_cache(path, {RWKV: rwkv, FSRS: fsrs})
    return path


@pytest.fixture(scope="module")
def log(collection: Path) -> ReviewLog:
    return srs_eval.load(collection)


def run_of(log: ReviewLog, names: str = MODELS) -> Run:
    configurations = add_external_configurations(resolve_configurations(names), log, Protocol())
    run = Run.from_configurations(add_baselines(configurations, excludes_deleted=False))
    for event in evaluate(log, list(run.configurations), jobs=0, use_cache=False):
        run.apply(event)
    return run


def names(group: RankingGroup) -> set[str]:
    return {line.configuration.name for line in group.lines}


def test_all_are_ranked_on_the_reviews_that_all_have(log: ReviewLog) -> None:
    run = run_of(log)
    schedulers, online, shared, shared_online = run.groups()
    assert [each.is_on_shared_reviews for each in run.groups()] == [False, False, True, True]
    assert names(schedulers) == {"AVG", "FSRS-6-dry-run"}
    assert names(online) == {"MOVING-AVG"}
    assert names(shared) == {"AVG", "FSRS-6-dry-run", "FSRS-Anki"}
    assert names(shared_online) == {"MOVING-AVG", "RWKV-Anki"}
    assert format_group_title(shared).endswith("that all have a prediction for")
    results = run.results_by_name()
    there = np.isin(results["AVG"].review_th, results["FSRS-Anki"].review_th)
    assert 0 < shared.reviews == there.sum() < results["RWKV-Anki"].size < schedulers.reviews
    for group in (shared, shared_online):
        for line in group.lines:
            whole = results[line.configuration.name]
            here = np.isin(whole.review_th, results["FSRS-Anki"].review_th)
            np.testing.assert_array_equal(line.result.p, whole.p[here])
            loss = log_losses(whole.y[here], whole.p[here]).mean()
            assert line.log_loss.estimate == pytest.approx(loss, abs=1e-12)
    assert run.ranked_result("FSRS-6-dry-run") is next(
        each for each in schedulers.lines if each.configuration.name == "FSRS-6-dry-run"
    )
    assert len(run.ranked_results()) == 5  # each once


def test_figures_of_others_stay_as_they_are_without(log: ReviewLog) -> None:
    alone = run_of(replace(log, external_predictions={})).results_by_name()
    beside = run_of(log).results_by_name()
    for name, result in alone.items():
        np.testing.assert_array_equal(result.p, beside[name].p)
        assert result.metrics == beside[name].metrics


def test_who_has_all_reviews_is_among_the_others(log: ReviewLog) -> None:
    assert log.entries is not None
    given = {"mine": ExternalPredictions(np.full(len(log.entries), 0.85), "of mine.csv")}
    run = run_of(replace(log, external_predictions=given))
    assert not any(each.is_on_shared_reviews for each in run.groups())
    assert "mine" in names(run.groups()[0])


def test_who_shares_no_review_stands_apart(log: ReviewLog) -> None:
    assert log.entries is not None
    half = np.arange(len(log.entries)) < len(log.entries) // 2
    given = {
        "early": ExternalPredictions(np.where(half, 0.85, np.nan), ""),
        "late": ExternalPredictions(np.where(half, np.nan, 0.85), ""),
    }
    shared = [
        each
        for each in run_of(replace(log, external_predictions=given)).groups()
        if each.is_on_shared_reviews
    ]
    of_given = [sorted(names(each) & given.keys()) for each in shared if not each.is_online]
    assert sorted(of_given) == [["early"], ["late"]]


def test_few_reviews_of_one_leave_the_others_theirs(log: ReviewLog) -> None:
    assert log.entries is not None
    place = np.arange(len(log.entries))
    evaluated = run_of(replace(log, external_predictions={})).results_by_name()["AVG"].review_th
    last = select_rows(log).entry_index[evaluated[-1] - 1]
    given = {
        "most": ExternalPredictions(np.where(place % 10, 0.85, np.nan), ""),
        "one": ExternalPredictions(np.where(place == last, 0.85, np.nan), ""),
        "half": ExternalPredictions(np.where(place % 2, 0.85, np.nan), ""),
    }
    log = replace(log, external_predictions=given)
    shared = [
        each for each in run_of(log).groups() if each.is_on_shared_reviews and not each.is_online
    ]
    sizes = {frozenset(names(each) & given.keys()): each.reviews for each in shared}
    assert sizes[frozenset({"one"})] == 1
    assert "Evaluated on 1 review " in " ".join(format_group_title(each) for each in shared)
    assert sizes[frozenset({"most", "half"})] > 500
    models = srs_eval.compare(log, "models")
    assert [each.reviews for each in models] == [*sizes.values()]
    assert models[1].subject == "reviews with one"
    for finding in models:
        shown.sentences(finding)
        shown.tables(finding)


def test_predictions_named_like_a_candidate_stand_beside_it(log: ReviewLog) -> None:
    assert log.entries is not None
    p = np.full(len(log.entries), 0.5)
    ours = ("optimized", "recency", "defaults", "params 1")
    log = replace(
        log, external_predictions={name: ExternalPredictions(p, "of mine.csv") for name in ours}
    )
    found = compare(log, questions=["models"], parameters={"params 1": fsrs6.DEFAULT})
    figures = {row["model"]: row["log loss"] for row in shown.tables(found[0])[0].records()}
    for name in ours:
        assert figures[f"{name} (file)"] == pytest.approx(np.log(2))
        assert figures[name] < np.log(2)


def test_what_cannot_be_used_is_skipped_with_its_sentence(log: ReviewLog) -> None:
    assert log.entries is not None
    given = {
        "RWKV-Anki": ExternalPredictions(np.full(len(log.entries), np.nan), "the file is damaged")
    }
    run = run_of(replace(log, external_predictions=given))
    assert run.skipped["RWKV-Anki"].reason.startswith("the file is damaged; no prediction for ")
    events = list(
        evaluate(replace(log, external_predictions={}), "RWKV-Anki", jobs=0, use_cache=False)
    )
    assert isinstance(events[-1], Skipped)
    assert "collection.retrievability-cache.sqlite" in events[-1].reason


# On the command line


def _file(collection: Path, path: Path, every: int) -> Path:
    rows = [(review, 0.9) for review, _ in answers(collection)[::every]]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("review_id", "p"), *rows])
    return path


def test_run_and_its_json_tell_of_shared_reviews(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(collection, tmp_path / "FSRS-6.csv", 3)
    target = tmp_path / "run.json"
    arguments = ["run", str(collection), "--models", MODELS, "--jobs", "1"]  # in another process
    assert main([*arguments, "--predictions", str(path), "--json", str(target)]) == 0
    out, err = capsys.readouterr()
    assert "that all have a prediction for" in " ".join(out.split())
    assert "RWKV-Anki: as your Anki computed it" in err
    assert "test_fold; left out are those of the training sample" in err
    assert "FSRS-6 (file): no prediction for" in err
    document = json.loads(target.read_text())
    (mine,) = (each for each in document["results"] if each["configuration"] == "FSRS-6 (file)")
    count = len(answers(collection)[::3])
    unused = mine["predictions_unused"]
    assert 0 < unused < count
    words = f"{unused:,} of the file's {count:,} predictions are for reviews that are not evaluated"
    assert f"* FSRS-6 (file): {words}." in err
    assert words in mine["notes"]
    shared = [k for k, group in enumerate(document["groups"]) if group["is_shared"]]
    lines = [each for each in document["results"] if each["group"] in shared]
    assert {each["configuration"] for each in lines} >= {"FSRS-6 (file)", "RWKV-Anki", "FSRS-Anki"}
    assert len({each["size"] for each in lines}) == 1
    assert all(each["reviews_left_out"] for each in lines)


def test_compare_tells_of_shared_reviews(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(collection, tmp_path / "mine.csv", 3)
    arguments = ["compare", str(collection), "--question", "models", "--predictions", str(path)]
    assert main(arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in ("mine", "RWKV-Anki (online)", "FSRS-Anki"):
        assert f"“{name}” predicts" in said or f"“{name}” has" in said
    assert "held-out reviews without a prediction by every model" in said
    assert "predictions of “mine” are for reviews that are not evaluated." in said


@pytest.mark.slow
def test_the_report_has_them(collection: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    arguments = ["export", str(collection), "--models", MODELS, "--md", str(target)]
    assert main(arguments) == 0
    text = target.read_text(encoding="utf-8")
    assert "that all have a prediction for: online models" in text
    assert "RWKV-Anki" in text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("review_id,p\n1,0.5\n", "cover 0 of the"),
        ("review_id,q\n1,0.5\n", "has no column p"),
        ("review_id,p\n1,nan\n", "between 0 and 1"),
    ],
)
@pytest.mark.parametrize("command", ["run", "export", "compare"])
def test_a_file_that_cannot_be_used_is_refused(
    command: str,
    content: str,
    says: str,
    collection: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content)
    assert main([command, str(collection), "--predictions", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_what_is_refused_is_spelled_as_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x", "--clock", "nix"]) == 2
    assert "is not one of 'seconds', 'study-days', 'days'." in capsys.readouterr().err


def test_a_file_without_a_name_is_refused(log: ReviewLog) -> None:
    with pytest.raises(InputError, match="name one"):
        srs_eval.compare(log, "models", predictions="")


@pytest.mark.slow
async def test_the_app_ranks_on_shared_reviews(
    log: ReviewLog, collection: Path, tmp_path: Path
) -> None:
    def load(*_: object, **__: object) -> ReviewLog:
        return log

    mine = _file(collection, tmp_path / "mine.csv", 2)
    options = AppOptions(models=MODELS, jobs=0, predictions=mine)
    app = make_app(
        tmp_path, Path("collection.anki2"), evaluate=evaluate, load=load, options=options
    )
    async with app.run_test(size=(100, 40)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await wait_until(
            pilot, lambda: "reviews that all have, know how today is" in screen_text(app)
        )
        assert all(name in screen_text(app) for name in ("RWKV-Anki", "FSRS-Anki", "mine"))
        shared = app.session.models.run.results_by_name()["FSRS-Anki"].size  # that these two have
        app.push_screen(CompareScreen(app.session.models.run, "FSRS-Anki", "FSRS-6-dry-run"))
        await wait_until(pilot, lambda: f"on {shared:,} reviews of" in screen_text(app))
