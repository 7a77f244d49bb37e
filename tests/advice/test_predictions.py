"""A user's own predictions and other programs' are evaluated beside FSRS."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import AVERAGE, DEFAULTS, OPTIMIZED, ModelComparison
from srs_eval.advice.questions import compare
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.predictions import add_predictions
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import RowKind
from srs_eval.engine.shared_reviews import add_predictions_file
from srs_eval.models import fsrs6
from tools.simulated import simulate_learner, write_dataset

# A user's own predictions


def _write_predictions(learner: Learner, path: Path, header: str) -> Path:
    """Write the defaults' predictions for all reviews in any order."""
    index = np.random.default_rng(4).permutation(len(learner.trials))
    p = learner.predict_with_parameters(fsrs6.DEFAULT, index)
    time_ms = np.round(learner.time_s[index] * 1000).astype(np.int64)
    card = learner.trials.card_id[index]
    names = header.split(",")
    columns: dict[str, Any] = {"review_id": time_ms, "time_ms": time_ms, "card_id": card, "p": p}
    columns["model"] = ["mine"] * len(p)
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: columns[name] for name in names}), path)
        return path
    lines = [header]
    for row in zip(*(columns[name] for name in names), strict=True):
        lines.append(",".join(_format_cell(cell) for cell in row))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _format_cell(cell: Any) -> str:
    return repr(float(cell)) if isinstance(cell, float) else str(cell)


@pytest.mark.parametrize(
    ("file", "header", "model"),
    [
        ("mine.csv", "review_id,p", "mine"),
        ("others.csv", "p,card_id,time_ms,model", "mine"),
        ("mine.parquet", "review_id,p", "mine"),
    ],
)
def test_own_predictions_are_evaluated_beside_the_models(
    file: str, header: str, model: str, log: ReviewLog, learner: Learner, tmp_path: Path
) -> None:
    path = _write_predictions(learner, tmp_path / file, header)
    answers = srs_eval.compare(log, "parameters", predictions=path)
    figures = {row["candidate"]: row["log loss"] for row in shown.tables(answers[-1])[0].records()}
    assert figures[model] == pytest.approx(figures["FSRS's defaults"], abs=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no predictions"),
        ("review_id,p\n", "holds no predictions"),
        ("review_id,q\n1,0.5\n", "has no column p"),
        ("card_id,p\n1,0.5\n", "has no column review_id"),
        ("time_ms,p\n1,0.5\n", "has no column card_id"),
        ("review_id,p\n1,1.5\n", "between 0 and 1"),
        ("review_id,p\n1,nan\n", "between 0 and 1"),
        ("review_id,p\n1,much\n", "not a number"),
        ("review_id,p\nx,0.5\n", "not a whole number"),
        ("review_id,p\n1,0.5,3\n", "line 2"),
        ("review_id,p\n1,0.5\n1,0.6\n", "twice"),
        ("review_id,p\n1,0.5\n", "cover none of the"),
    ],
)
def test_unusable_predictions_are_refused_with_a_reason(
    text: str, message: str, log: ReviewLog, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        srs_eval.compare(log, "parameters", predictions=path)


def test_missing_file_of_predictions_is_refused(log: ReviewLog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        srs_eval.compare(log, "parameters", predictions=tmp_path / "none.csv")


def test_predictions_of_a_run_are_added_to_the_log(log: ReviewLog, tmp_path: Path) -> None:
    path = tmp_path / "again.csv"
    kinds: tuple[RowKind, ...] = ("anki", "benchmark")
    for rows in kinds:
        results = srs_eval.evaluate(
            log, ["FSRS-6-dry-run"], Protocol(rows=rows, short=True), use_cache=False
        )
        frame = results.predictions()
        frame = frame[frame["configuration"] == next(iter(results))].assign(model="again")
        frame.to_csv(path, index=False)  # with review_th, which is of `rows`
        p = add_predictions(log, path, lambda name: "").external_predictions["again"].p
        assert log.entries is not None
        is_predicted = np.isfinite(p)
        assert log.entries.time_ms[is_predicted].tolist() == sorted(frame["review_id"])


def test_review_th_is_refused_for_reviews_with_times(log: ReviewLog, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("review_th,p\n1,0.5\n")
    with pytest.raises(InputError, match="name reviews by review_id"):
        srs_eval.compare(log, "parameters", predictions=path)


def test_names_of_predictions_that_collide_are_refused(log: ReviewLog, tmp_path: Path) -> None:
    assert log.entries is not None
    review = log.entries.time_ms[0]
    path = tmp_path / "mine.csv"
    for names in (("x" * 45, "x" * 46), ("AVG", "AVG (file)")):
        path.write_text("review_id,p,model\n" + "".join(f"{review},0.5,{name}\n" for name in names))
        with pytest.raises(InputError, match="rename one of them"):
            add_predictions_file(log, path)


def test_cards_that_share_a_time_need_their_card_id(log: ReviewLog, tmp_path: Path) -> None:
    assert log.entries is not None
    time_ms = log.entries.time_ms.copy()
    time_ms[1] = time_ms[0]
    card_id = log.entries.card_id.copy()
    card_id[1] = card_id[0] + 1
    entries = replace(log.entries, time_ms=time_ms, card_id=card_id)
    both = replace(log, entries=entries)
    path = tmp_path / "mine.csv"
    pairs = "".join(f"{card_id[k]},{time_ms[k]},0.{k + 5}\n" for k in (0, 1))
    path.write_text("card_id,time_ms,p\n" + pairs)
    assert add_predictions_file(both, path).external_predictions["mine"].p[
        :3
    ].tolist() == pytest.approx([0.5, 0.6, np.nan], nan_ok=True)
    path.write_text("card_id,time_ms,p\n" + pairs + pairs)
    with pytest.raises(InputError, match="twice"):
        add_predictions_file(both, path)
    path.write_text(f"review_id,p\n{time_ms[0]},0.5\n")
    with pytest.raises(InputError, match="by card_id and time_ms"):
        add_predictions_file(both, path)


# Logs without presets


@pytest.fixture(scope="module")
def supermemo(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    """Return a simulated learner's rows, with made-up predictions of another program."""
    folder = tmp_path_factory.mktemp("rows")
    write_dataset({1: simulate_learner(3, 3_000)}, folder)
    read = srs_eval.load(folder, user=1)
    assert read.rows is not None
    predictions = np.random.default_rng(8).uniform(0.7, 0.99, len(read.rows))
    predictions[::50] = np.nan
    return replace(read, user=None, source_predictions={"SuperMemo SM-15": predictions})


def test_other_programs_predictions_are_ranked_beside_fsrs(supermemo: ReviewLog) -> None:
    first, answer, *_ = compare(supermemo, parameters={"mine": fsrs6.DEFAULT})
    assert [first.question, answer.question] == ["parameters", "models"]
    rows = {row["model"]: row for row in shown.tables(answer)[0].records()}
    result = srs_eval.evaluate(supermemo, models=["FSRS-6"], use_cache=False)["FSRS-6"]
    predictions = supermemo.source_predictions["SuperMemo SM-15"][result.review_th - 1]
    both = np.isfinite(predictions)
    assert isinstance(answer.evidence, ModelComparison)
    assert answer.evidence.excluded_reviews == np.count_nonzero(~both)
    assert (
        f"Left out: {answer.evidence.excluded_reviews} held-out reviews"
        in shown.sentences(answer)[-1]
    )
    for name, p in ((candidate_name(OPTIMIZED), result.p), ("SuperMemo SM-15", predictions)):
        likelihood = np.where(result.y == 1, p, 1 - p)[both]
        assert rows[name]["log loss"] == pytest.approx(-np.log(likelihood).mean(), abs=1e-9)
    assert rows["mine"]["log loss"] == rows[candidate_name(DEFAULTS)]["log loss"]
    assert rows["SuperMemo SM-15"]["verdict"] == "worse"
    assert "“SuperMemo SM-15” predicts worse than FSRS-6" in " ".join(shown.sentences(answer))


def test_review_th_is_taken_for_reviews_without_times(supermemo: ReviewLog, tmp_path: Path) -> None:
    result = srs_eval.evaluate(supermemo, models=["FSRS-6"], use_cache=False)["FSRS-6"]
    path = tmp_path / "mine.csv"
    lines = [f"{th},{p!r}" for th, p in zip(result.review_th, result.p.tolist(), strict=True)]
    path.write_text("\n".join(["review_th,p", *lines]))
    _, answer, *_ = compare(supermemo, predictions=path)
    rows = {row["model"]: row for row in shown.tables(answer)[0].records()}
    assert rows["mine"]["log loss"] == pytest.approx(
        rows[candidate_name(OPTIMIZED)]["log loss"], abs=1e-12
    )
    path.write_text("review_id,p\n1,0.5\n")
    with pytest.raises(InputError, match="name reviews by review_th"):
        compare(supermemo, predictions=path)


def test_review_th_is_refused_for_a_subset_of_decks(supermemo: ReviewLog, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("review_th,p\n1,0.5\n")
    narrowed = replace(supermemo, is_subset=True)
    with pytest.raises(InputError, match="leave out --deck and --preset"):
        compare(narrowed, predictions=path)


def test_supermemo_on_real_histories_predicts_worse_than_fsrs() -> None:
    folder = os.environ.get("SRS_EVAL_REAL")
    if not folder:
        pytest.skip("needs SRS_EVAL_REAL, a folder with real histories")
    files = sorted(Path(folder).glob("supermemo-*.txt"))
    assert files
    for file in files:
        (answer,) = compare(srs_eval.load(file), questions=["models"])
        rows = {row["model"]: row for row in shown.tables(answer)[0].records()}
        assert {"SuperMemo SM-15", candidate_name(OPTIMIZED), candidate_name(AVERAGE)} <= set(rows)
        assert rows["SuperMemo SM-15"]["difference low"] > 0
