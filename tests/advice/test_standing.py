"""The answer to "Where do I stand?": percentiles among published learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import population, shown
from srs_eval.advice.findings import Finding, Percentile, Percentiles
from srs_eval.advice.overview import Overview
from srs_eval.advice.population import MIN_EVALUATED_REVIEWS, compute_percentiles
from srs_eval.advice.questions import PERCENTILES, compare
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.run import Run
from srs_eval.report.files import render_as
from srs_eval.report.learner import build_learner_report
from srs_eval.report.notebook import evaluate
from tests.helpers.advice import build_overview, keep_first_entries
from tests.helpers.marks import slow_except
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_collection


def test_percentiles_have_the_figures_of_an_fsrs_5_run(log: ReviewLog) -> None:
    (finding,) = compare(log, questions=(PERCENTILES,))
    run = evaluate(log, ["FSRS-5", "AVG"], use_cache=False)
    result = run["FSRS-5"]
    assert isinstance(finding.evidence, Percentiles)
    figures = {percentile.metric: percentile.figure for percentile in finding.evidence.metrics}
    assert figures == {
        metric: result.metrics.to_upstream()[metric] for metric in ("LogLoss", "RMSE(bins)", "AUC")
    }
    assert finding.reviews == result.size
    assert (finding.recommendation, finding.probability) == ("", None)


def test_better_figures_have_a_higher_percentile() -> None:
    users = population._load_users()
    average = float(np.median(users["average"]))
    good = {"LogLoss": average - 0.1, "RMSE(bins)": 0.02, "AUC": 0.85}
    bad = {"LogLoss": average + 0.1, "RMSE(bins)": 0.2, "AUC": 0.5}
    for better, worse in zip(
        compute_percentiles(good, average, 5_000),
        compute_percentiles(bad, average, 5_000),
        strict=True,
    ):
        assert better.share_worse > 0.8 > 0.2 > worse.share_worse
        assert list(better.quantiles) == sorted(better.quantiles)


def test_half_of_the_published_learners_are_above_the_middle() -> None:
    """Check that percentiles are uniform, and independent of how much a learner recalls."""
    from scipy.stats import spearmanr

    users = population._load_users()
    is_counted = np.isfinite(users["auc"]) & (users["reviews"] > MIN_EVALUATED_REVIEWS)
    user_index = np.flatnonzero(is_counted)[::25]
    shares = np.array([compute_shares_worse(users, k) for k in user_index])
    assert abs(np.median(shares, axis=0) - 0.5).max() < 0.05
    assert abs((shares < 0.25).mean(axis=0) - 0.25).max() < 0.05
    assert abs(spearmanr(shares[:, 0], users["average"][user_index])[0]) < 0.1


@pytest.mark.parametrize(
    ("column", "low", "high"), [("reviews", 300, 1_500), ("average", 0.7, 1.0)]
)
def test_standing_is_in_the_middle_at_the_edges_of_the_population(
    column: str, low: float, high: float
) -> None:
    """Without the local line the means are 0.44 and 0.60."""
    users = population._load_users()
    is_counted = np.isfinite(users["auc"]) & (users["reviews"] >= MIN_EVALUATED_REVIEWS)
    is_at_edge = is_counted & (users[column] >= low) & (users[column] < high)
    user_index = np.flatnonzero(is_at_edge)[::4]
    shares = np.array([compute_shares_worse(users, k)[0] for k in user_index])
    assert abs(shares.mean() - 0.5) < 0.05


def test_wider_bounds_of_log_loss_give_a_wider_range() -> None:
    users = population._load_users()
    average = float(np.median(users["average"]))
    figure = float(np.median(users["optimized"]))
    ranges = []
    for half_width in (0.005, 0.02):
        bounds = (figure - half_width, figure + half_width)
        (percentile,) = compute_percentiles({"LogLoss": figure}, average, 5_000, bounds)
        assert percentile.share_worse_range is not None
        low, high = percentile.share_worse_range
        assert low < percentile.share_worse < high
        ranges.append(high - low)
    assert ranges[1] > 2 * ranges[0]
    (percentile,) = compute_percentiles({"LogLoss": figure}, average, 5_000)
    assert percentile.people_worse_range == (percentile.people_worse_of_100,) * 2


def compute_shares_worse(users: Mapping[str, np.ndarray], k: int) -> list[float]:
    """Compute a published learner's share of worse learners, metric by metric."""
    columns = {"LogLoss": "optimized", "RMSE(bins)": "rmse_bins", "AUC": "auc"}
    percentiles = compute_percentiles(
        {metric: float(users[name][k]) for metric, name in columns.items()},
        float(users["average"][k]),
        int(users["reviews"][k]),
    )
    return [percentile.share_worse for percentile in percentiles]


def test_percentiles_have_a_sentence_and_a_table(log: ReviewLog) -> None:
    (finding,) = compare(log, questions=(PERCENTILES,))
    assert isinstance(finding.evidence, Percentiles)
    fewest, most = finding.evidence.metrics[0].people_worse_range
    assert fewest < finding.evidence.metrics[0].people_worse_of_100 < most
    side = "easier"
    if fewest + most < 100:
        side = "harder"
        fewest, most = 100 - most, 100 - fewest
    first = (
        f"You are {side} to predict than {fewest} to {most} % of people with about as many reviews "
        "and similar recall."
    )
    assert shown.sentences(finding)[0] == first
    assert shown.line([finding]) == first.rstrip(".")
    wide = replace(finding.evidence.metrics[0], share_worse_range=(0.01, 0.99))
    evidence = replace(finding.evidence, metrics=(wide, *finding.evidence.metrics[1:]))
    assert shown.line([replace(finding, evidence=evidence)]).startswith(
        "Your reviews do not show yet how predictable you are"
    )
    (table,) = shown.tables(finding)
    assert [column.title for column in table.columns] == [
        "metric", "yours", "10 %", "25 %", "50 %", "75 %", "90 %", "less well",
    ]  # fmt: skip
    assert [row[0] for row in table.rows] == ["log loss", "RMSE(bins)", "AUC"]


def test_percentiles_need_300_evaluated_reviews(log: ReviewLog, tmp_path: Path) -> None:
    for count in (8, 450):
        assert compare(keep_first_entries(log, count), questions=(PERCENTILES,)) == []
    overview = build_overview(keep_first_entries(log, 450))
    assert PERCENTILES not in {line.question for line in overview.lines} | set(overview.waiting)
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(3, 300), path)
    done = run_in_process("compare", path, "--question", PERCENTILES)
    assert done.returncode == 2
    assert done.stdout.strip() == ""
    assert "300 held-out reviews" in done.stderr


def test_command_and_overview_have_the_same_line(collection: Path) -> None:
    done = run_in_process("compare", collection, "--question", PERCENTILES)
    assert done.returncode == 0, done.stderr
    log = srs_eval.load(collection)
    overview = Overview.start(log)
    overview.add(compare(log, questions=(PERCENTILES,)), (PERCENTILES,))
    (line,) = (line for line in overview.lines if line.question == PERCENTILES)
    assert line.title == "Where you stand"
    assert shown.line(line.answers) in " ".join(done.stdout.split())
    assert "Where do I stand?" in done.stdout
    assert "based on the reviews that the benchmark uses" in done.stdout


@pytest.mark.parametrize("presets", slow_except({False}, [True, False]))
def test_report_has_the_percentiles(log: ReviewLog, presets: bool) -> None:
    log = keep_first_entries(log, 2_500)
    if not presets:
        log = replace(log, decks={}, presets={})
    text = render_as(build_learner_report(log, Run(), Protocol()), "md")
    (finding,) = compare(log, questions=(PERCENTILES,))
    assert "Where do I stand?" in text
    assert shown.sentences(finding)[0].rstrip(".") in text


def test_standing_with_hardly_any_range_left_out_is_no_standing() -> None:
    quantiles = ((0.5, 0.3),)
    wide = Percentile("LogLoss", 0.3, 0.5, quantiles, share_worse_range=(0.01, 0.99))
    narrow = replace(wide, share_worse_range=(0.4, 0.6))
    unknown = replace(wide, share_worse_range=None)

    def describe(percentile: Percentile) -> tuple[str, ...]:
        return shown.sentences(Finding("standing", "all", evidence=Percentiles("", (percentile,))))

    assert "easier to predict than 1 to 99 % of those" in describe(wide)[0]
    assert describe(wide)[0].startswith("Your reviews do not show yet")
    assert "easier to predict than 40 to 60 % of people" in describe(narrow)[0]
    hard = replace(wide, share_worse_range=(0.25, 0.37))
    assert "harder to predict than 63 to 75 % of people" in describe(hard)[0]
    assert "If you had reviewed on other days" in describe(narrow)[1]
    assert "If you had reviewed on other days" not in describe(unknown)[1]
