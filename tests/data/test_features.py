"""A person's table about cards or notes, for models of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import add_features, read_features
from srs_eval.engine.own_models import find_mistake_kind
from srs_eval.engine.session import LearnerSession
from srs_eval.models import all_models, load_model_file
from tests.helpers.marks import slow_except
from tests.helpers.program import run_in_process
from tools.simulated import SimulatedLearner, simulate_learner, write_collection, write_dataset

MODEL = """
import numpy as np
from srs_eval.models import TrainedModel

MODELS = (
    TrainedModel(
        name="TABLE", family="other", inputs="-", parameters=0, source="a test",
        predict=lambda trials, w, index, context: np.where(trials.features[index, 0] > 5, 0.8, 0.6),
    ),
)
"""


@pytest.fixture(scope="module")
def learner() -> SimulatedLearner:
    return simulate_learner(4, 600)


@pytest.mark.parametrize("by", ["card_id", "note_id"])
def test_table_is_joined_by_id_and_missing_cards_are_counted(
    by: str, learner: SimulatedLearner, tmp_path: Path
) -> None:
    log = learner.log()
    path = tmp_path / "words.parquet"
    cards = LearnerSession(log).trials(Protocol(short=True)).history_card_id
    ids = np.unique(cards if by == "card_id" else log.note_of(cards))[::2]
    table = {"text": ["x"] * len(ids), by: ids, "half": ids / 2, "n": np.arange(len(ids))}
    pq.write_table(pa.table(table), path)
    trials = LearnerSession(add_features(log, path)).trials(Protocol(short=True))
    (half,) = trials.columns("half")
    row = cards if by == "card_id" else log.note_of(cards)
    np.testing.assert_array_equal(half, np.where(np.isin(row, ids), row / 2, np.nan))
    assert trials.features.shape == (len(trials), 2)
    np.testing.assert_array_equal(trials.features[:, 0], half[trials.history_end])
    assert half.base is trials.columns("n")[0].base  # the table is gathered once for all columns
    features = trials.source[0].features
    assert features is not None
    assert features.note.startswith("words.parquet: ")
    assert features.note.endswith("cards have no row")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("card,n\n1,2\n", "no column card_id or note_id"),
        ("card_id,word\n1,a\n", "no column of numbers"),
        ("card_id,n\n", "has no rows"),
        ("card_id,n\n1.5,2\n", "a card_id is not a whole number"),
        ("card_id,n\n1,2\n1,3\n", "names a card_id twice"),
        ("card_id,n\n1\n", "line 2 has more or fewer fields"),
        ("", "has no rows"),
        (None, "No such file"),
    ],
)
def test_unusable_table_is_refused(
    content: str | None, reason: str, learner: SimulatedLearner, tmp_path: Path
) -> None:
    path = tmp_path / "words.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        add_features(learner.log(), path)


def test_csv_and_parquet_give_the_same_features(tmp_path: Path) -> None:
    table = pa.table({
        "user_id": [1, 2, 2, 2], "card_id": [7, 9, 8, 7], "n": [1.0, 2.0, None, np.inf]
    })  # fmt: skip
    pq.write_table(table, tmp_path / "words.parquet")
    (tmp_path / "words.csv").write_text(
        "user_id,card_id,n\n1,7,1\n2,9,2\n2,8,\n2,7,inf\n", encoding="utf-8"
    )
    for name in ("words.parquet", "words.csv"):
        features = read_features(tmp_path / name, 2)
        assert (features.id_column, features.names, features.ids.tolist()) == (
            "card_id",
            ("n",),
            [7, 8, 9],
        )
        np.testing.assert_array_equal(features.values[:, 0], [np.nan, np.nan, 2.0])
        assert len(read_features(tmp_path / name, 3).ids) == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r"])
def test_csv_is_read_in_utf_16_and_with_any_line_end(
    encoding: str, end: str, tmp_path: Path
) -> None:
    path = tmp_path / "words.csv"
    path.write_bytes(end.join(["card_id,note,half", "5,ö,0.5", "4,x,1.5"]).encode(encoding))
    features = read_features(path, None)
    assert (features.ids.tolist(), features.names) == ([4, 5], ("half",))
    assert features.values.tolist() == [[1.5], [0.5]]


def test_missing_value_of_a_category_column_is_nan(tmp_path: Path) -> None:
    n = pa.array(["0.5", None, "2.5"]).dictionary_encode()
    pq.write_table(pa.table({"card_id": [1, 2, 3], "n": n}), tmp_path / "words.parquet")
    features = read_features(tmp_path / "words.parquet", None)
    np.testing.assert_array_equal(features.values[:, 0], [0.5, np.nan, 2.5])


def test_ids_above_2_to_the_53_stay_distinct(tmp_path: Path) -> None:
    table = pa.table({"card_id": [2**60 + 3, 2**60 + 1, 2**60 + 2], "n": [3.0, 1.0, 2.0]})
    pq.write_table(table, tmp_path / "words.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "words.csv")
    for name in ("words.parquet", "words.csv"):
        features = read_features(tmp_path / name, None)
        assert features.ids.tolist() == [2**60 + 1, 2**60 + 2, 2**60 + 3]
        assert features.values[:, 0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.slow
def test_batch_continues_only_with_the_same_table(tmp_path: Path) -> None:
    users = {user: simulate_learner(user, 400) for user in (1, 2)}
    write_dataset(users, tmp_path / "data")
    table = tmp_path / "words.csv"
    model = tmp_path / "table.py"
    model.write_text(MODEL, encoding="utf-8")
    rows = []
    for user in users:
        rows += [f"{user},{card},{card % 10}" for card in range(50 * user)]
    table.write_text("\n".join(["user_id,card_id,n", *rows]), encoding="utf-8")
    batch = ("batch", "--dataset", str(tmp_path / "data"), "--models", "TABLE", "--jobs", "0")
    batch += ("--out", str(tmp_path / "out"), "--model-file", str(model), "--features", str(table))
    done = run_in_process(*batch)
    assert done.returncode == 0, done.stderr
    setup = json.loads((tmp_path / "out" / "setup.json").read_text("utf-8"))
    assert len(setup["options"]["features"]) == 64
    assert "not checked" not in done.stderr
    assert run_in_process(*batch).returncode == 0
    without_table = batch[:-2]
    for command in (batch, without_table):
        table.write_text(table.read_text("utf-8") + "\n2,9999,1", encoding="utf-8")
        changed = run_in_process(*command)
        assert changed.returncode == 2
        assert "features was" in changed.stderr
    table.write_text("card_id,n\n1,2\n", encoding="utf-8")
    assert "words.csv has no column user_id" in run_in_process(*batch).stderr
    features = read_features(table, None)
    assert features.names == ("n",)


@pytest.mark.slow
def test_run_reports_how_many_cards_lack_a_row(learner: SimulatedLearner, tmp_path: Path) -> None:
    write_collection(learner, tmp_path / "collection.anki2")
    table = tmp_path / "words.csv"
    model = tmp_path / "table.py"
    model.write_text(MODEL, encoding="utf-8")
    table.write_text("card_id,n\n1,2\n", encoding="utf-8")
    run = ("run", str(tmp_path / "collection.anki2"), "--models", "TABLE", "--jobs", "0")
    done = run_in_process(*run, "--model-file", str(model), "--features", str(table))
    assert done.returncode == 0, done.stderr
    assert "cards have no row" in done.stdout + done.stderr
    without = run_in_process(*run, "--model-file", str(model))
    assert without.returncode == 1
    assert "give a table with --features FILE" in without.stderr


@pytest.mark.parametrize("end", slow_except({"csv"}, ["csv", "parquet"]))
def test_model_check_uses_the_table_of_features(end: str, tmp_path: Path) -> None:
    table = tmp_path / f"words.{end}"
    model = tmp_path / "table.py"
    content = pa.table({"card_id": np.arange(2000), "n": np.arange(2000) % 10})
    if end == "csv":
        pyarrow.csv.write_csv(content, table)
    else:
        pq.write_table(content, table)
    honest = "np.where(trials.features[index, 0] > 5, 0.8, 0.6)"
    leaking = f"{honest} * (0.5 + trials.y[index] / 4)"
    for prediction, kind in ((honest, ""), (leaking, "own outcome")):
        model.write_text(MODEL.replace(honest, prediction), encoding="utf-8")
        (loaded,) = load_model_file(model)
        assert find_mistake_kind(loaded, table) == kind
        all_models().pop("TABLE")
