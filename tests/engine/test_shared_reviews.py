"""Models and external predictions, which lack reviews, are compared on shared reviews."""

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
from srs_eval.advice.findings import ModelComparison
from srs_eval.advice.questions import compare
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.app import AppOptions
from srs_eval.batch import open_prediction_file, run_batch
from srs_eval.cli.main import main
from srs_eval.data.datasets import open_dataset
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
from srs_eval.models.given import FILE_PREDICTIONS
from srs_eval.report.ranking_words import format_group_title
from srs_eval.tui.screens.details import CompareScreen
from tests.conftest import write_simulated_collection
from tests.retrievability import FSRS, RWKV, make_cache
from tests.tui.app_world import is_on_screen, make_app, screen_text, to_import_summary, wait_until
from tools.simulated import simulate_learner, write_dataset

MODELS = "MOVING-AVG,FSRS-6-dry-run"


def read_answers(collection: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(collection)) as database:
        query = "select id, ease from revlog where ease between 1 and 4 order by id"
        return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a collection with the fork's cache: RWKV on the last 40 %, FSRS on the last 20 %."""
    path = write_simulated_collection(tmp_path_factory, 3, 3_000)
    reviews = read_answers(path)
    fitted = len(reviews) * 6 // 10
    live = len(reviews) * 8 // 10
    rwkv = []
    for k, (review, button) in enumerate(reviews):
        role = "final_fit" if k < fitted else "test_fold"
        rwkv.append((review, 0.6 + 0.09 * button, "rwkv_calibration_recompute", 1, role, -1))
    fsrs = [
        (review, 0.9, "fsrs_review", 1, "post_optimization", -1) for review, _ in reviews[live:]
    ]
    make_cache(path, {RWKV: rwkv, FSRS: fsrs})
    return path


@pytest.fixture(scope="module")
def log(collection: Path) -> ReviewLog:
    return srs_eval.load(collection)


def evaluate_models(log: ReviewLog, names: str = MODELS) -> Run:
    configurations = add_external_configurations(resolve_configurations(names), log, Protocol())
    run = Run.from_configurations(add_baselines(configurations, excludes_deleted=False))
    for event in evaluate(log, list(run.configurations), jobs=0, use_cache=False):
        run.apply(event)
    return run


def list_names(group: RankingGroup) -> set[str]:
    return {line.configuration.name for line in group.lines}


def test_external_predictions_are_ranked_on_shared_reviews(log: ReviewLog) -> None:
    run = evaluate_models(log)
    schedulers, online, shared, shared_online = run.groups()
    assert [group.is_on_shared_reviews for group in run.groups()] == [False, False, True, True]
    assert list_names(schedulers) == {"AVG", "FSRS-6-dry-run"}
    assert list_names(online) == {"MOVING-AVG"}
    assert list_names(shared) == {"AVG", "FSRS-6-dry-run", "FSRS-Anki"}
    assert list_names(shared_online) == {"MOVING-AVG", "RWKV-Anki"}
    assert format_group_title(shared).endswith("(only those that every model predicted)")
    results = run.results_by_name()
    is_shared = np.isin(results["AVG"].review_th, results["FSRS-Anki"].review_th)
    assert 0 < shared.reviews == is_shared.sum() < results["RWKV-Anki"].size < schedulers.reviews
    for group in (shared, shared_online):
        for line in group.lines:
            result = results[line.configuration.name]
            is_covered = np.isin(result.review_th, results["FSRS-Anki"].review_th)
            np.testing.assert_array_equal(line.result.p, result.p[is_covered])
            loss = log_losses(result.y[is_covered], result.p[is_covered]).mean()
            assert line.log_loss.estimate == pytest.approx(loss, abs=1e-12)
    assert run.ranked_result("FSRS-6-dry-run") is next(
        line for line in schedulers.lines if line.configuration.name == "FSRS-6-dry-run"
    )
    assert len(run.ranked_results()) == 5  # each configuration once


def test_external_predictions_change_no_other_figures(log: ReviewLog) -> None:
    alone = evaluate_models(replace(log, external_predictions={})).results_by_name()
    together = evaluate_models(log).results_by_name()
    for name, result in alone.items():
        np.testing.assert_array_equal(result.p, together[name].p)
        assert result.metrics == together[name].metrics


def test_complete_external_predictions_join_the_models_group(log: ReviewLog) -> None:
    assert log.entries is not None
    predictions = {"mine": ExternalPredictions(np.full(len(log.entries), 0.85), "of mine.csv")}
    run = evaluate_models(replace(log, external_predictions=predictions))
    assert not any(group.is_on_shared_reviews for group in run.groups())
    assert "mine" in list_names(run.groups()[0])


def test_predictions_without_shared_reviews_get_their_own_group(log: ReviewLog) -> None:
    assert log.entries is not None
    half = np.arange(len(log.entries)) < len(log.entries) // 2
    predictions = {
        "early": ExternalPredictions(np.where(half, 0.85, np.nan), ""),
        "late": ExternalPredictions(np.where(half, np.nan, 0.85), ""),
    }
    shared = [
        group
        for group in evaluate_models(replace(log, external_predictions=predictions)).groups()
        if group.is_on_shared_reviews
    ]
    of_given = [
        sorted(list_names(group) & predictions.keys()) for group in shared if not group.is_online
    ]
    assert sorted(of_given) == [["early"], ["late"]]


def test_predictions_of_few_reviews_shrink_no_other_group(log: ReviewLog) -> None:
    assert log.entries is not None
    index = np.arange(len(log.entries))
    evaluated = (
        evaluate_models(replace(log, external_predictions={})).results_by_name()["AVG"].review_th
    )
    last = select_rows(log).entry_index[evaluated[-1] - 1]
    predictions = {
        "most": ExternalPredictions(np.where(index % 10, 0.85, np.nan), ""),
        "one": ExternalPredictions(np.where(index == last, 0.85, np.nan), ""),
        "half": ExternalPredictions(np.where(index % 2, 0.85, np.nan), ""),
    }
    log = replace(log, external_predictions=predictions)
    shared = [
        group
        for group in evaluate_models(log).groups()
        if group.is_on_shared_reviews and not group.is_online
    ]
    sizes = {frozenset(list_names(group) & predictions.keys()): group.reviews for group in shared}
    assert sizes[frozenset({"one"})] == 1
    assert "Evaluated on 1 review " in " ".join(format_group_title(group) for group in shared)
    assert sizes[frozenset({"most", "half"})] > 500
    models = srs_eval.compare(log, "models")
    assert [finding.reviews for finding in models] == [*sizes.values()]
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
    findings = compare(log, questions=["models"], parameters={"params 1": fsrs6.DEFAULT})
    figures = {row["model"]: row["log loss"] for row in shown.tables(findings[0])[0].records()}
    for name in ours:
        assert figures[f"{name} (file)"] == pytest.approx(np.log(2))
        assert figures[candidate_name(name)] < np.log(2)


def test_predictions_with_a_name_that_is_shown_otherwise_keep_it(log: ReviewLog) -> None:
    assert log.entries is not None
    p = np.full(len(log.entries), 0.5)
    log = replace(log, external_predictions={"FSRS-7": ExternalPredictions(p, "of mine.csv")})
    (finding, *_) = compare(log, questions=["models"])
    models = {row["model"] for row in shown.tables(finding)[0].records()}
    assert "FSRS-7" in models
    assert candidate_name("FSRS-7") not in models


def test_unusable_predictions_are_skipped_with_a_reason(log: ReviewLog) -> None:
    assert log.entries is not None
    predictions = {
        "RWKV-Anki": ExternalPredictions(np.full(len(log.entries), np.nan), "the file is damaged")
    }
    run = evaluate_models(replace(log, external_predictions=predictions))
    assert run.skipped["RWKV-Anki"].reason.startswith("the file is damaged; no prediction for ")
    events = list(
        evaluate(replace(log, external_predictions={}), "RWKV-Anki", jobs=0, use_cache=False)
    )
    assert isinstance(events[-1], Skipped)
    assert "collection.retrievability-cache.sqlite" in events[-1].reason


# On the command line


def write_predictions(collection: Path, path: Path, every: int) -> Path:
    rows = [(review, 0.9) for review, _ in read_answers(collection)[::every]]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("review_id", "p"), *rows])
    return path


def test_run_and_its_json_report_shared_reviews(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_predictions(collection, tmp_path / "FSRS-6.csv", 3)
    target = tmp_path / "run.json"
    arguments = ["run", str(collection), "--models", MODELS, "--jobs", "1"]  # in another process
    assert main([*arguments, "--predictions", str(path), "--json", str(target)]) == 0
    out, err = capsys.readouterr()
    assert "only those that every model predicted" in " ".join(out.split())
    assert "RWKV-Anki: held-out predictions of your Anki (" in err
    assert "test_fold); those of the training sample are left out" in err
    assert "FSRS-6 (file): no prediction for" in err
    document = json.loads(target.read_text())
    (from_file,) = (row for row in document["results"] if row["configuration"] == "FSRS-6 (file)")
    count = len(read_answers(collection)[::3])
    unused = from_file["predictions_unused"]
    assert 0 < unused < count
    words = f"{unused:,} of the file's {count:,} predictions are for reviews that are not evaluated"
    assert f"* FSRS-6 (file): {words}." in err
    assert words in from_file["notes"]
    shared = [k for k, group in enumerate(document["groups"]) if group["is_shared"]]
    lines = [row for row in document["results"] if row["group"] in shared]
    assert {row["configuration"] for row in lines} >= {"FSRS-6 (file)", "RWKV-Anki", "FSRS-Anki"}
    assert len({row["size"] for row in lines}) == 1
    assert all(row["reviews_left_out"] for row in lines)


def test_run_csv_has_a_line_for_skipped_external_predictions(
    collection: Path, tmp_path: Path
) -> None:
    reviews = [review for review, _ in read_answers(collection)]
    rows = [("early", reviews[0]), *(("late", review) for review in reviews[-200:])]
    path = tmp_path / "two.csv"
    lines = [f"{review},0.8,{model}" for model, review in rows]
    path.write_text("\n".join(["review_id,p,model", *lines]))
    target = tmp_path / "run.csv"
    arguments = ["run", str(collection), "--models", "AVG", "--csv", str(target)]
    assert main([*arguments, "--predictions", str(path)]) == 0
    with target.open(newline="") as file:
        status = {line["configuration"]: line["status"] for line in csv.DictReader(file)}
    assert (status["early"], status["late"]) == ("skipped", "done")


def test_compare_reports_shared_reviews(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_predictions(collection, tmp_path / "mine.csv", 3)
    arguments = ["compare", str(collection), "--question", "models", "--predictions", str(path)]
    assert main(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name in ("mine", "RWKV-Anki (online)", "FSRS-Anki"):
        assert f"“{name}” predicts" in printed or f"“{name}” has" in printed
    assert "held-out reviews that not every model predicted" in printed
    assert "predictions by “mine” are for reviews that are not held out." in printed


@pytest.mark.slow
def test_export_reports_shared_reviews(collection: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    arguments = ["export", str(collection), "--models", MODELS, "--md", str(target)]
    assert main(arguments) == 0
    text = target.read_text(encoding="utf-8")
    assert "(only those that every model predicted): online models" in text
    assert "RWKV-Anki" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("review_id,p\n1,0.5\n", "cover none of the"),
        ("review_id,q\n1,0.5\n", "has no column p"),
        ("review_id,p\n1,nan\n", "between 0 and 1"),
    ],
)
@pytest.mark.parametrize("command", ["run", "export", "compare"])
def test_unusable_predictions_file_is_refused(
    command: str,
    content: str,
    message: str,
    collection: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content)
    assert main([command, str(collection), "--predictions", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_external_predictions_have_the_same_figures_in_run_batch_and_advice(
    tmp_path: Path,
) -> None:
    dataset = tmp_path / "dataset"
    write_dataset({1: simulate_learner(3, 1_500)}, dataset)
    log = srs_eval.load(dataset, user=1)
    assert log.rows is not None
    file = tmp_path / "Mine.csv"
    predictions = [f"1,{th},0.8{th % 10}" for th in range(1, len(log.rows) + 1) if th % 3]
    file.write_text("\n".join(["user,review_th,p", *predictions]))

    results = srs_eval.evaluate(log, "AVG,FSRS-6-dry-run", predictions=file, use_cache=False)
    mine = results["Mine"]
    held_out = results["AVG"]
    assert mine.size == np.count_nonzero(held_out.review_th % 3) < held_out.size
    in_run = {"Mine": mine.metrics.log_loss}
    for name in ("AVG", "FSRS-6-dry-run"):
        is_shared = np.isin(results[name].review_th, mine.review_th)
        losses = log_losses(results[name].y[is_shared], results[name].p[is_shared])
        in_run[name] = losses.mean()

    (base,) = resolve_configurations(FILE_PREDICTIONS)
    prediction_file = open_prediction_file(file, "Mine", base)
    configurations = prediction_file.add_comparisons(resolve_configurations("AVG,FSRS-6-dry-run"))
    out = tmp_path / "out"
    for _ in run_batch(
        open_dataset(dataset), configurations, out, jobs=1, session_factory=prediction_file
    ):
        pass
    in_batch = {}
    for name in ("Mine", "AVG-on-Mine", "FSRS-6-dry-run-on-Mine"):
        line = json.loads((out / "result" / f"{name}.jsonl").read_text())
        assert line["size"] == mine.size
        in_batch[name.removesuffix("-on-Mine")] = line["metrics"]["LogLoss"]
    line = json.loads((out / "result" / "Mine.jsonl").read_text())
    assert (line["lacks"], line["unused"]) == (mine.missing_predictions, mine.unused_predictions)

    (answer,) = compare(log, questions=["models"], predictions=file)
    assert isinstance(answer.evidence, ModelComparison)
    assert answer.reviews == mine.size
    assert answer.evidence.excluded_reviews == mine.missing_predictions > 0
    assert answer.evidence.unused_predictions == {"Mine": mine.unused_predictions}
    log_loss = {model.name: model.log_loss.estimate for model in answer.evidence.models}
    in_advice = {
        "Mine": log_loss["Mine"],
        "AVG": log_loss["average"],
        "FSRS-6-dry-run": log_loss["defaults"],
    }
    assert in_batch == pytest.approx(in_run, abs=1e-6)  # its files have six decimals
    assert in_advice == pytest.approx(in_run, abs=1e-12)


def test_refused_clock_is_spelled_as_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x", "--clock", "nix"]) == 2
    assert "is not one of 'seconds', 'study-days', 'days'." in capsys.readouterr().err


def test_predictions_without_a_file_name_are_refused(log: ReviewLog) -> None:
    with pytest.raises(InputError, match="name one"):
        srs_eval.compare(log, "models", predictions="")


@pytest.mark.slow
async def test_the_app_ranks_on_shared_reviews(
    log: ReviewLog, collection: Path, tmp_path: Path
) -> None:
    def load(*_: object, **__: object) -> ReviewLog:
        return log

    predictions = write_predictions(collection, tmp_path / "mine.csv", 2)
    options = AppOptions(models=MODELS, jobs=0, predictions=predictions)
    app = make_app(
        tmp_path, Path("collection.anki2"), evaluate=evaluate, load=load, options=options
    )
    async with app.run_test(size=(100, 40)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await wait_until(
            pilot, lambda: "reviews that all models share, online models, which" in screen_text(app)
        )
        assert all(name in screen_text(app) for name in ("RWKV-Anki", "FSRS-Anki", "mine"))
        shared = app.session.models.run.results_by_name()["FSRS-Anki"].size  # that these two have
        app.push_screen(CompareScreen(app.session.models.run, "FSRS-Anki", "FSRS-6-dry-run"))
        await wait_until(
            pilot, lambda: f"on {shared:,} reviews from" in " ".join(screen_text(app).split())
        )
