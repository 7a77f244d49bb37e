"""Where do I stand: one's own figures among published learners' of like size and recall."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import population, shown
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.findings import Percentiles
from srs_eval.advice.overview import Overview
from srs_eval.advice.population import MIN_EVALUATED_REVIEWS, compute_percentiles
from srs_eval.advice.questions import PERCENTILES, compare
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.run import Run
from srs_eval.report.files import _render_markdown
from srs_eval.report.learner import build_learner_report
from srs_eval.report.notebook import evaluate
from tests.cli.program import run_in_process
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner, write_collection


def with_first(log: ReviewLog, count: int) -> ReviewLog:
    assert log.entries is not None
    columns = {name: column[:count] for name, column in vars(log.entries).items()}
    return replace(log, entries=replace(log.entries, **columns))


def test_figures_are_those_of_a_run_with_fsrs_5(log: ReviewLog) -> None:
    (finding,) = compare(log, questions=(PERCENTILES,))
    run = evaluate(log, ["FSRS-5", "AVG"], use_cache=False)
    own = run["FSRS-5"]
    assert isinstance(finding.evidence, Percentiles)
    said = {each.metric: each.figure for each in finding.evidence.metrics}
    assert said == {
        metric: own.metrics.to_upstream()[metric] for metric in ("LogLoss", "RMSE(bins)", "AUC")
    }
    assert finding.reviews == own.size
    assert (finding.recommendation, finding.probability) == ("", None)


def test_better_figures_stand_before_more_learners() -> None:
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


def test_half_of_the_published_learners_stand_above_the_middle() -> None:
    """Whoever recalls more is not told to be predicted better for it."""
    from scipy.stats import spearmanr

    users = population._load_users()
    places = np.flatnonzero(np.isfinite(users["auc"]) & (users["reviews"] > MIN_EVALUATED_REVIEWS))[
        ::25
    ]
    columns = {"LogLoss": "optimized", "RMSE(bins)": "rmse_bins", "AUC": "auc"}
    shares = np.array(
        [
            [
                each.share_worse
                for each in compute_percentiles(
                    {metric: float(users[name][k]) for metric, name in columns.items()},
                    float(users["average"][k]),
                    int(users["reviews"][k]),
                )
            ]
            for k in places
        ]
    )
    assert abs(np.median(shares, axis=0) - 0.5).max() < 0.05
    assert abs((shares < 0.25).mean(axis=0) - 0.25).max() < 0.05
    assert abs(spearmanr(shares[:, 0], users["average"][places])[0]) < 0.1


def test_sentence_and_table(log: ReviewLog) -> None:
    (finding,) = compare(log, questions=(PERCENTILES,))
    assert isinstance(finding.evidence, Percentiles)
    share = round(100 * finding.evidence.metrics[0].share_worse)
    first = f"FSRS predicts you better than it does {share} of 100 people with as many reviews."
    assert shown.sentences(finding)[0] == first
    assert shown.line([finding]) == first.rstrip(".")
    (table,) = shown.tables(finding)
    assert table.columns == (
        "metric", "yours", "10 %", "25 %", "50 %", "75 %", "90 %", "less well",
    )  # fmt: skip
    assert [row[0] for row in table.rows] == ["log loss", "RMSE(bins)", "AUC"]


def test_nothing_below_300_evaluated_reviews(log: ReviewLog, tmp_path: Path) -> None:
    for count in (8, 450):
        assert compare(with_first(log, count), questions=(PERCENTILES,)) == []
    found = Overview.start(with_first(log, 450))
    for answers, questions in stream_answers(with_first(log, 450)):
        found.add(answers, questions)
    assert PERCENTILES not in {line.question for line in found.lines} | set(found.waiting)
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(3, 300), path)
    done = run_in_process("compare", path, "--question", PERCENTILES)
    assert done.returncode == 2
    assert done.stdout.strip() == ""
    assert "300 evaluated reviews" in done.stderr


def test_the_command_and_the_app_say_the_same(collection: Path) -> None:
    done = run_in_process("compare", collection, "--question", PERCENTILES)
    assert done.returncode == 0, done.stderr
    log = srs_eval.load(collection)
    found = Overview.start(log)
    found.add(compare(log, questions=(PERCENTILES,)), (PERCENTILES,))
    (line,) = (line for line in found.lines if line.question == PERCENTILES)
    assert line.title == "Where you stand"
    assert shown.line(line.answers) in " ".join(done.stdout.split())
    assert "Where do I stand?" in done.stdout
    assert "--rows benchmark" in done.stdout


@pytest.mark.parametrize("presets", slow_except({False}, [True, False]))
def test_a_report_has_it(log: ReviewLog, presets: bool) -> None:
    log = with_first(log, 2_500)
    if not presets:
        log = replace(log, decks={}, presets={})
    text = _render_markdown(build_learner_report(log, Run(), Protocol()))
    (finding,) = compare(log, questions=(PERCENTILES,))
    assert "Where do I stand?" in text
    assert shown.sentences(finding)[0].rstrip(".") in text
