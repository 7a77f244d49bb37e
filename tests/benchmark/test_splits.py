"""Check that a split shows in names and reports, and never mixes with the benchmark's folds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.batch import run_batch
from srs_eval.benchmark.audit import run_audit
from srs_eval.benchmark.result_files import read_folders
from srs_eval.benchmark.setup import add_labels, find_disagreement
from srs_eval.cli.exit_codes import BAD_INPUT
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.engine.result import log_loss_interval, review_losses
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import describe_rows, resolve_configurations
from srs_eval.stats.intervals import mean_interval
from srs_eval.stats.persistence import estimate_persistence
from tests.helpers.batches import SETUP
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

CARDS = Protocol(split="cards")
UNTIL = Protocol(train_until="40")
MONTH = Protocol(train_months=1)


def names_of(models: str, protocol: Protocol, label: str = "") -> list[str]:
    return [item.name for item in add_labels(resolve_configurations(models, protocol), label)]


@pytest.mark.parametrize(
    ("protocol", "label", "names"),
    [
        (CARDS, "", ["AVG-split-cards", "SM2-split-cards", "FSRS-6-split-cards"]),
        (UNTIL, "", ["AVG-train_until-40", "SM2-train_until-40", "FSRS-6-train_until-40"]),
        (MONTH, "", ["AVG-train_months-1", "SM2", "FSRS-6-train_months-1"]),
        (Protocol(split="users", n_splits=3), "", ["AVG", "SM2", "FSRS-6"]),
        (CARDS, "x", ["AVG-x-split-cards", "SM2-x-split-cards", "FSRS-6-x-split-cards"]),
        (Protocol(), "x", ["AVG", "SM2-x", "FSRS-6-x"]),
        (
            Protocol(split="cards", n_splits=3, seed=2),
            "",
            [
                "AVG-split-cards-n_splits-3",
                "SM2-split-cards-n_splits-3",
                "FSRS-6-split-cards-n_splits-3-seed-2",
            ],
        ),
        (
            Protocol(train_until="2024-01-31", train_months=6),
            "",
            [
                "AVG-train_until-2024-01-31-train_months-6",
                "SM2-train_until-2024-01-31",
                "FSRS-6-train_until-2024-01-31-train_months-6",
            ],
        ),
    ],
)
def test_names_end_with_the_split(protocol: Protocol, label: str, names: list[str]) -> None:
    assert sorted(names_of("AVG,SM2,FSRS-6", protocol, label)) == sorted(names)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (CARDS, "reviews of later days, of cards that are not trained on"),
        (UNTIL, "reviews of later days, from day 40 on"),
        (Protocol(train_until="2024-01-31"), "reviews of later days, from 2024-01-31 on"),
        (MONTH, "reviews of later days, trained on the month before"),
        (
            Protocol(train_until="40", train_months=6),
            "reviews of later days, from day 40 on, trained on the 6 months before",
        ),
    ],
)
def test_evaluated_reviews_are_described_with_their_split(protocol: Protocol, words: str) -> None:
    assert describe_rows(protocol) == words
    assert protocol.row_protocol() != Protocol().row_protocol()


@pytest.mark.parametrize(
    ("models", "protocol", "sentence"),
    [
        ("STATE-1", CARDS, "STATE-1 learns from every answer, in order of time"),
        ("MOVING-AVG", MONTH, "MOVING-AVG learns from every answer"),
        ("AVG", Protocol(split="cards", train_until="9"), "--train-until splits by time"),
        ("AVG", Protocol(split="cards", train_months=2), "--train-months splits by time"),
        ("AVG", Protocol(train_until="9", n_splits=3), "--train-until makes one fold"),
        ("AVG", Protocol(split="cards", train_equals_test=True), "--train_equals_test trains on"),
        ("AVG", Protocol(train_months=-1), "--train_months must be at least 0, not -1"),
    ],
)
def test_splits_that_make_no_sense_are_refused(
    models: str, protocol: Protocol, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        resolve_configurations(models, protocol)


def test_groups_leave_out_models_that_cannot_be_split() -> None:
    online = {"MOVING-AVG", "RMSE-BINS-EXPLOIT", "STATE-1", "STATE-FSRS-6", "STATE-FSRS-6+7"}
    by_time = {item.name for item in resolve_configurations("all", UNTIL)}
    by_card = {item.name for item in resolve_configurations("all", CARDS)}
    assert by_time - by_card == online
    assert "AVG" in by_card


def test_a_split_under_the_name_of_another_set_up_is_refused() -> None:
    def setup_with(**flags: object) -> dict[str, Any]:
        entry = SETUP["configurations"]["AVG"]
        return {**SETUP, "configurations": {"AVG": {**entry, "protocol": flags}}}

    older = setup_with(gamma=1.0)
    assert not find_disagreement(older, setup_with(gamma=1.0, split="time", train_until=""))
    assert find_disagreement(older, setup_with(gamma=1.0, split="cards")) == (
        "AVG had split time and has cards now"
    )
    assert find_disagreement(
        setup_with(train_until="40"), setup_with(train_until="2024-01-31")
    ) == ("AVG had train_until 40 and has 2024-01-31 now")


def test_predictions_of_a_card_rest_on_other_cards_only() -> None:
    """Check the average, and a fit of FSRS-6 by hand to the other parts' rows."""
    log = simulate_learner(5, 3_000).log()
    session = LearnerSession(log)
    average, fsrs = (
        session.run(resolve_configurations(name, CARDS)[0]) for name in ("AVG", "FSRS-6")
    )
    (configuration,) = resolve_configurations("FSRS-6", CARDS)
    trials = session.trials(configuration.protocol)
    card_id = trials.card_id[trials.test_index]
    for fold in range(1, 6):
        in_fold = average.fold == fold
        is_other = ~np.isin(trials.card_id, card_id[in_fold])
        assert average.p[in_fold] == pytest.approx(trials.y[is_other].mean())
        train = np.flatnonzero(is_other)
        model = configuration.model
        assert isinstance(model, srs_eval.TrainedModel)
        assert model.fit is not None
        parameters = model.fit(trials, train, np.ones(len(train)), srs_eval.Context())
        p = model.predict(trials, parameters, trials.test_index[in_fold], srs_eval.Context())
        np.testing.assert_array_equal(fsrs.p[in_fold], p)


def test_intervals_do_not_depend_on_the_order_of_reviews() -> None:
    """Check results whose days are not in order, as parts of cards are evaluated one by one."""
    session = LearnerSession(simulate_learner(5, 3_000).log())
    result = session.run(resolve_configurations("90%", CARDS)[0])
    assert (np.diff(result.day) < 0).any()
    losses = review_losses(result)
    order = np.argsort(result.day, kind="stable")
    in_order = estimate_persistence(result.y[order], result.p[order], result.day[order])
    expected = mean_interval(losses[order], result.day[order], in_order)
    interval = log_loss_interval(result)
    assert interval.estimate == pytest.approx(expected.estimate)
    assert interval.half_width == pytest.approx(expected.half_width)


def test_an_audit_of_another_split_is_refused(dataset: Path, tmp_path: Path) -> None:
    configurations = resolve_configurations("AVG", CARDS)
    events = run_audit(open_dataset(dataset), configurations, tmp_path, evaluate=run_batch)
    with pytest.raises(
        InputError, match="an audit tunes how models are trained, on the benchmark's folds"
    ):
        next(events)


# --- batches


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data set") / "data"
    write_dataset({user: simulate_learner(user, 1_500) for user in range(1, 4)}, folder)
    return folder


def call_batch(dataset: Path, out: Path, *options: str, models: str = "FSRS-6,HLR,AVG") -> Any:
    return run_in_process(
        "batch", "--dataset", dataset, "--out", out, "--models", models, "--jobs", "1", *options
    )


@pytest.fixture(scope="module")
def out(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluate five folds, and every other split, into one folder."""
    folder = tmp_path_factory.mktemp("results")
    for options in (
        [],
        ["--split", "cards"],
        ["--train-until", "40"],
        ["--train-until", "40", "--train-months", "1"],
    ):
        done = call_batch(dataset, folder, *options)
        assert done.returncode == 0, done.stderr
        is_warned = "This is not the benchmark's split" in " ".join(done.stdout.split())
        assert is_warned == bool(options)
    return folder


@pytest.mark.slow
def test_splits_of_a_batch_are_set_ups_of_their_own(dataset: Path, out: Path) -> None:
    names = {path.stem for path in (out / "result").iterdir()}
    endings = ("", "-split-cards", "-train_until-40", "-train_until-40-train_months-1")
    assert names == {f"{model}{end}" for model in ("FSRS-6", "HLR", "AVG") for end in endings}
    assert "nothing is wrong" in run_in_process("results", "check", out).stdout
    again = call_batch(dataset, out, "--split", "cards")
    assert "0 units to evaluate" in again.stderr
    setup = json.loads((out / "setup.json").read_text())["configurations"]
    assert setup["FSRS-6-split-cards"]["protocol"]["split"] == "cards"
    # All reviews are evaluated by card, but not the first sixth of the folds by time.
    frame = srs_eval.read_results(out).set_index(["configuration", "user"])["size"]
    by_time = frame["FSRS-6"]
    by_card = frame["FSRS-6-split-cards"]
    assert (by_time == by_card // 6 * 5).all()


@pytest.mark.slow
def test_report_never_puts_two_splits_into_one_table(out: Path) -> None:
    report = run_in_process("report", out, "--json", "-")
    document = json.loads(report.stdout)
    results = document["tables"]["results"]["rows"]
    groups: dict[str, set[str]] = {}
    for row in results:
        groups.setdefault(row["evaluated_on"], set()).add(row["model"])
    for title, models in groups.items():
        is_by_card = "of cards that are not trained on" in title
        is_from_day = "from day 40 on" in title
        for model in models:
            assert ("split cards" in model) == is_by_card
            assert ("train_until 40" in model) == is_from_day
    assert len(groups) == 3
    # Windows of training are compared on the same reviews.
    from_day = next(models for title, models in groups.items() if "from day 40 on" in title)
    assert {"FSRS-6 train_until 40", "FSRS-6 train_until 40 train_months 1"} <= from_day
    sources = document["tables"]["sources"]["rows"][0]["to_know"]
    assert "FSRS-6 split cards: split cards" in sources
    page = run_in_process("report", out, "--md", "-").stdout
    text = " ".join(page.split())
    assert text.count("This is not the benchmark's split") == 2
    assert "are trained only on the months before the held-out reviews" in text


@pytest.mark.slow
def test_a_model_that_is_not_loaded_keeps_its_split(out: Path, tmp_path: Path) -> None:
    """Check results of an own model whose file a report does not have."""
    copy = tmp_path / "copy"
    (copy / "result").mkdir(parents=True)
    setup = json.loads((out / "setup.json").read_text())
    entries = setup["configurations"]
    entries["Mine-split-cards"] = {**entries["AVG-split-cards"], "model": "Mine"}
    (copy / "setup.json").write_text(json.dumps(setup))
    content = (out / "result" / "AVG-split-cards.jsonl").read_bytes()
    (copy / "result" / "Mine-split-cards.jsonl").write_bytes(content)
    (folder,) = read_folders([copy])
    (file,) = folder.files
    assert file.configuration is None
    assert file.evaluated_rows == CARDS.row_protocol()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--train-until", "2024-01-31"], "A data set has no dates, only days counted from each"),
        (["--train-until", "31.1.2024"], "train_until must be a date such as"),
        (["--split", "cards", "--train-months", "3"], "--train-months splits by time"),
        (["--split", "decks"], "'decks' is not one of 'time', 'cards', 'users'"),
    ],
)
def test_batch_refuses_in_one_sentence(
    dataset: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    done = call_batch(dataset, tmp_path / "out", *options, models="AVG")
    assert done.returncode == BAD_INPUT
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_notebook_evaluates_splits(dataset: Path, out: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="A data set has no dates"):
        srs_eval.evaluate_dataset(dataset, "AVG", Protocol(train_until="2024-01-31"), out=tmp_path)
    frame = srs_eval.evaluate_dataset(
        dataset,
        "FSRS-6",
        UNTIL,
        users="1,2",
        out=tmp_path,
        jobs=1,
        on_event=lambda event: None,
    )
    assert set(frame["configuration"]) == {"AVG-train_until-40", "FSRS-6-train_until-40"}
    files = srs_eval.read_results(out)
    same = frame.merge(files, on=["configuration", "user"], suffixes=("", "_of_batch"))
    assert len(same) == 4
    np.testing.assert_array_equal(same["LogLoss"], same["LogLoss_of_batch"])
    log = srs_eval.load(dataset, user=1)
    for protocol in (CARDS, UNTIL):
        (name,) = names_of("FSRS-6", protocol)
        results = srs_eval.evaluate(log, "FSRS-6", protocol, jobs=0)
        of_batch = files[files["configuration"] == name].set_index("user")
        loss = results["FSRS-6"].metrics.log_loss
        assert loss == pytest.approx(of_batch.loc[1, "LogLoss"], abs=1e-6)


def test_run_batch_refuses_a_date(dataset: Path, tmp_path: Path) -> None:
    configurations = resolve_configurations("AVG", Protocol(train_until="2024-01-31"))
    with pytest.raises(InputError, match="no dates"):
        next(run_batch(open_dataset(dataset), configurations, tmp_path))


# --- one collection


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--split", "cards"], "of cards that are not trained on"),
        (["--train-until", "40"], "from day 40 on"),
        (["--train-months", "1"], "trained on the month before"),
    ],
)
def test_run_says_which_split_it_ranks_on(dataset: Path, options: list[str], words: str) -> None:
    done = run_in_process(
        *("run", dataset, "--user", "1", "--models", "FSRS-6,AVG", "--jobs", "0", *options)
    )
    assert done.returncode == 0, done.stderr
    text = " ".join((done.stdout + done.stderr).split())
    assert words in text
    assert "This is not the benchmark's split: published figures cannot be compared" in text
