"""One ranking for every view: groups, the baseline, places, ties and what they say."""

from __future__ import annotations

import csv
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srs_eval
from srs_eval.app import AppOptions
from srs_eval.cli.main import main
from srs_eval.data.datasets import open_dataset
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import Preset
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import prepare_trials
from srs_eval.engine import result as engine
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.ranking import (
    RankingGroup,
    add_baselines,
    comparison_rows,
    own_scheduler,
    rank_results,
)
from srs_eval.engine.result import Result
from srs_eval.engine.run import Finished
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.shared_reviews import group_by_shared_users
from srs_eval.metrics import compute_metrics
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.report import formats as words
from srs_eval.report.ranking_columns import SORT_KEYS, sort_lines
from srs_eval.report.ranking_words import (
    describe_verdicts,
    format_group_title,
    list_sections,
    summarize_ranking,
)
from srs_eval.tui.widgets.ranking import RankingTable
from tests.helpers.golden import golden_log, golden_users
from tests.tui.app_world import (
    MODELS,
    WatchedApp,
    is_on_screen,
    make_log,
    make_result,
    to_import_summary,
    wait_until,
)
from tools.simulated import simulate_learner, write_dataset

TOO_FEW = (
    "900 reviews of 45 days are too few to tell models apart: 1,000 reviews and 20 days are needed."
)
Pair = tuple[Configuration, Result]


def pair(name: str, result: Result | None = None) -> Pair:
    (configuration,) = resolve_configurations(name)
    return configuration, result or make_result(name)


PAIRS = [pair(name) for name in MODELS]


def guessing(name: str, p: np.ndarray, reviews: int = 2_000, first: int = 1) -> Pair:
    """A model that said p on reviews of which every fifth was forgotten, 20 on each day."""
    y = (np.arange(reviews) % 5 > 0).astype(np.float64)
    steps = np.arange(reviews)
    bins = np.zeros(reviews, np.int64)
    result = Result(
        configuration=name,
        metrics=compute_metrics(y, p, bins),
        parameters=None,
        p=p,
        tests=engine.TestSet(
            y=y,
            review_th=first + steps,
            fold=np.ones(reviews, np.int64),
            partition=np.zeros(reviews, np.int64),
            day=steps // 20,
            bin=bins,
        ),
    )
    return resolve_configurations(name)[0], result


def constant(name: str, p: float, reviews: int = 2_000, first: int = 1) -> Pair:
    return guessing(name, np.full(reviews, p), reviews, first)


def outline(groups: list[RankingGroup]) -> list[list[tuple[int | None, str]]]:
    return [[(line.rank, line.configuration.name) for line in group.lines] for group in groups]


def test_groups_are_identical_reviews_and_learners_stand_apart() -> None:
    schedulers, learners, others = rank_results(PAIRS)
    assert not schedulers.is_online
    assert {line.configuration.name for line in learners.lines} == {"MOVING-AVG"}
    assert learners.is_online
    assert [line.configuration.name for line in others.lines] == ["FSRS-5-secs"]
    assert others.lines[0].to_baseline is others.lines[0].relative_to_baseline is None
    assert (
        learners.lines[0].to_baseline is not None
    )  # the baseline was evaluated on the same reviews
    assert others.reviews < schedulers.reviews
    assert len({format_group_title(group) for group in (schedulers, learners, others)}) == 3


def test_places_are_in_the_order_of_verdicts() -> None:
    """What is surely a bit worse comes below what is worse on average, on few days."""
    steps = np.arange(2_000)
    well = np.where(steps % 5 > 0, 0.9, 0.4)
    now_and_then = np.where(steps // 20 % 50 == 7, 1 - well, np.minimum(well + 0.004, 0.99))
    pairs = [
        guessing("FSRS-6", well),
        guessing("FSRS-5", np.where(steps % 5 > 0, 0.89, 0.41)),
        guessing("HLR", now_and_then),
    ]
    (group,) = rank_results(pairs)
    said = [(line.configuration.name, line.rank, line.standing) for line in group.lines]
    assert said == [
        ("FSRS-6", 1, "best"),
        ("HLR", 2, "can't tell yet"),
        ("FSRS-5", 3, "worse"),
    ]
    assert group.lines[1].log_loss.estimate > group.lines[2].log_loss.estimate
    assert [line for _, lines in list_sections(group) for line in lines] == list(group.lines)


def test_the_baseline_is_a_line_and_no_place() -> None:
    first = rank_results(PAIRS)[0]
    figures = [line.log_loss.estimate for line in first.lines]
    assert figures == sorted(figures)
    baseline = first.baseline
    assert baseline is not None
    assert baseline.configuration.name == "AVG"
    assert baseline.standing is baseline.to_baseline is baseline.relative_to_baseline is None
    places = [line.rank for line in first.lines if line is not baseline]
    assert places == list(range(1, len(places) + 1))
    for line in first.lines:
        if line is not baseline:
            assert line.to_baseline is not None
            assert line.relative_to_baseline is not None
            difference = line.log_loss.estimate - baseline.log_loss.estimate
            assert line.to_baseline.estimate == pytest.approx(difference)
            assert line.relative_to_baseline == pytest.approx(
                difference / baseline.log_loss.estimate
            )


def test_each_is_held_against_the_best_and_the_reference() -> None:
    first = rank_results(PAIRS, reference="SM2")[0]
    by_name = {line.configuration.name: line for line in first.lines}
    assert first.best is not None
    assert first.best.to_best is None
    assert first.best.standing == "best"
    assert by_name["SM2"].to_reference is None
    for line in first.lines:
        if line.rank not in (None, 1):
            assert line.to_best is not None
            assert line.to_best.estimate >= 0
    assert by_name["DASH"].to_reference is not None
    difference = by_name["DASH"].log_loss.estimate - by_name["SM2"].log_loss.estimate
    assert by_name["DASH"].to_reference.estimate == pytest.approx(difference)
    assert all(line.to_reference is None for line in rank_results(PAIRS, "HLR")[0].lines)


@given(st.permutations(PAIRS))
def test_the_order_of_finishing_does_not_matter(pairs: list[Pair]) -> None:
    assert rank_results(pairs) == rank_results(PAIRS)


def test_ties_go_by_name_as_six_decimals_tell_them() -> None:
    twins = [constant("HLR", 0.81), constant("DASH", 0.81), constant("AVG", 0.5)]
    assert outline(rank_results(twins)) == [[(1, "DASH"), (2, "HLR"), (None, "AVG")]]
    # Result files hold six decimals: what they cannot tell apart is a tie here as well.
    nearly = [constant("HLR", 0.81), constant("DASH", 0.81 + 1e-9), constant("AVG", 0.5)]
    assert 0 < nearly[1][1].metrics.log_loss - nearly[0][1].metrics.log_loss < 1e-7
    assert outline(rank_results(nearly)) == outline(rank_results(twins))
    (group,) = rank_results(twins)
    assert [line.standing for line in group.lines] == ["best", "as good", None]
    assert rank_results([]) == []


def test_standings_and_the_answer_in_words() -> None:
    random = np.random.default_rng(1)
    noisy = np.clip(0.8 + 0.25 * random.standard_normal(2_000), 0.02, 0.98)
    (group,) = rank_results(
        [
            constant("FSRS-6", 0.8),
            constant("FSRS-6-recency", 0.801),
            constant("HLR", 0.7),
            constant("SM2", 0.3),
            guessing("DASH", noisy),
            constant("AVG", 0.65),
        ]
    )
    standings = {line.configuration.name: line.standing for line in group.lines}
    assert standings["FSRS-6"] == "best"
    assert standings["FSRS-6-recency"] == "as good"
    assert standings["HLR"] == "worse"
    assert standings["SM2"] == standings["DASH"] == "below the baseline"
    assert standings["AVG"] is None
    assert summarize_ranking(group) == (
        "FSRS-6 predicts best; as good: FSRS-6 recency; worse: HLR; "
        "worse than the average: DASH and SM2."
    )
    assert format_group_title(group) == "Evaluated on 2,000 reviews of later days"


@pytest.mark.parametrize(
    ("pairs", "answer"),
    [
        ([constant("AVG", 0.8)], ""),
        ([constant("HLR", 0.8)], "HLR has no other to be compared with."),
        (
            [constant("HLR", 0.8), constant("AVG", 0.6)],
            "HLR predicts better than the average.",
        ),
        (
            [constant("HLR", 0.8), constant("AVG", 0.801)],
            "HLR predicts no better and no worse than the average.",
        ),
        (
            [constant("HLR", 0.3), constant("SM2", 0.2), constant("AVG", 0.8)],
            "None predicts better than the average; HLR comes nearest to it.",
        ),
        (
            [constant("HLR", 0.8, 900), constant("AVG", 0.5, 900)],
            "Can't tell yet whether HLR predicts better than the average.",
        ),
        (
            [constant("HLR", 0.8, 900), constant("SM2", 0.5, 900)],
            "HLR has the lowest log loss, one of 2 that can't be told apart; "
            "can't tell yet whether worse: SM2.",
        ),
        (
            [constant("HLR", 0.7, 900), constant("SM2", 0.5, 900), constant("AVG", 0.8, 900)],
            "None has a lower log loss than the average; HLR comes nearest to it; "
            "can't tell yet whether it differs from the average; "
            "can't tell yet whether worse: SM2.",
        ),
        (
            [constant("HLR", 0.8, 900), constant("SM2", 0.5, 900), constant("AVG", 0.7, 900)],
            "HLR has the lowest log loss, one of 2 that can't be told apart; "
            "can't tell yet whether it differs from the average; "
            "can't tell yet whether worse: SM2.",
        ),
        (
            [constant("HLR", 0.8), constant("SM2", 0.5), constant("AVG", 0.801)],
            "HLR predicts best; no better and no worse than the average; "
            "worse than the average: SM2.",
        ),
    ],
)
def test_answers_about_few(pairs: list[Pair], answer: str) -> None:
    group = rank_results(pairs)[0]
    assert describe_verdicts(group) == answer
    assert summarize_ranking(group) == (
        TOO_FEW if group.lines[0].log_loss.reviews < 1_000 else answer
    )


def test_models_that_learn_are_held_against_the_baseline_beside_the_schedulers() -> None:
    """The average has no line among them, yet may have the lowest log loss."""
    pairs = [
        constant("MOVING-AVG", 0.7, 900),
        constant("RMSE-BINS-EXPLOIT", 0.5, 900),
        constant("HLR", 0.8, 900),
        constant("AVG", 0.8, 900),
    ]
    learners = rank_results(pairs)[1]
    assert learners.is_online
    assert describe_verdicts(learners).startswith(
        "None has a lower log loss than the average; moving"
    )


def test_nothing_is_a_share_of_an_average_that_loses_nothing() -> None:
    """Where all was passed the average's log loss is the clip's 2e-16, not quite 0."""
    count = 1_200
    passed = []
    for name, p in (("AVG", 1.0), ("HLR", 0.98)):
        configuration, result = constant(name, p, count)
        y = np.ones(count)
        made = replace(
            result,
            tests=replace(result.tests, y=y),
            metrics=compute_metrics(y, result.p, result.tests.bin),
        )
        passed.append((configuration, made))
    assert 0 < passed[0][1].metrics.log_loss < 1e-12
    assert [line.relative_to_baseline for line in rank_results(passed)[0].lines] == [None, None]


def test_the_baseline_stands_once_and_joins_learners_that_are_alone() -> None:
    learner, baseline = constant("MOVING-AVG", 0.8), constant("AVG", 0.7)
    assert outline(rank_results([baseline, learner])) == [[(1, "MOVING-AVG"), (None, "AVG")]]
    with_scheduler = outline(rank_results([baseline, learner, constant("HLR", 0.8)]))
    assert with_scheduler == [[(1, "HLR"), (None, "AVG")], [(1, "MOVING-AVG")]]
    assert outline(rank_results([baseline])) == [[(None, "AVG")]]


def test_an_average_joins_each_set_of_reviews() -> None:
    def baselines(
        names: str, protocol: Protocol | None = None, leaves_out: bool = False
    ) -> list[str]:
        evaluated = add_baselines(
            resolve_configurations(names, protocol), excludes_deleted=leaves_out
        )
        return [each.name for each in evaluated if each.is_baseline]

    assert baselines("FSRS-6,SM2,MOVING-AVG") == ["AVG"]
    assert baselines("FSRS-6,AVG,FSRS-7") == ["AVG-short-secs", "AVG"]
    assert baselines("FSRS-6", Protocol(n_splits=3)) == ["AVG"]
    both = baselines("FSRS-6,SM2,Ebisu-v2", leaves_out=True)
    assert sorted(both) == ["AVG", "AVG-known_decks"]
    assert baselines("SM2", leaves_out=True) == ["AVG-known_decks"]
    assert baselines("SM2-short,AVG-known_decks", leaves_out=True) == ["AVG-known_decks"]
    (average, _) = add_baselines(
        resolve_configurations("FSRS-6", Protocol(n_splits=3)), excludes_deleted=False
    )
    assert average.protocol.n_splits == 3


FLAGS = st.builds(
    Protocol,
    short=st.booleans(),
    secs=st.booleans(),
    two_buttons=st.booleans(),
    recency=st.booleans(),
    partitions=st.sampled_from(["none", "deck"]),
    train_equals_test=st.booleans(),
    no_test_same_day=st.booleans(),
    no_train_same_day=st.booleans(),
    equalize_test_with_non_secs=st.booleans(),
    disable_short_term=st.booleans(),
    n_splits=st.sampled_from([3, 5]),
    max_seq_len=st.sampled_from([4, 64]),
    known_decks_only=st.booleans(),
    later_days_only=st.booleans(),
)
LOG = simulate_learner(3, 900).log()
ROWS = select_rows(LOG, "benchmark").rows


@given(FLAGS)
def test_rows_are_what_the_protocol_says_decides_them(protocol: Protocol) -> None:
    if protocol.no_test_same_day and not protocol.secs:
        protocol = replace(protocol, no_test_same_day=False)  # refused by `resolve`
    evaluated, expected = (
        prepare_trials(LOG, ROWS, each) for each in (protocol, protocol.row_protocol())
    )
    assert np.array_equal(
        evaluated.review_th[evaluated.test_index], expected.review_th[expected.test_index]
    )
    assert protocol.row_protocol().row_protocol() == protocol.row_protocol()


# --- a learner whose deleted cards some models leave out ------------------------------


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """User 1 has deleted cards, whose reviews SM2 is not evaluated on; user 2 has all."""
    folder = tmp_path_factory.mktemp("dataset")
    whole = simulate_learner(6, 1_500)
    whole = replace(whole, cards=replace(whole.cards, deleted=np.zeros_like(whole.cards.deleted)))
    write_dataset({1: simulate_learner(4, 1_500), 2: whole}, folder)
    return folder


def test_models_evaluated_on_other_reviews_are_not_ranked_together(dataset: Path) -> None:
    found = srs_eval.evaluate(
        open_dataset(str(dataset)).load(1), "SM2,Memrise,90%", jobs=0, use_cache=False
    )
    common, without_deleted = found.groups
    assert {name for _, name in outline([common])[0]} == {"Memrise", "90%", "AVG"}
    assert {name for _, name in outline([without_deleted])[0]} == {"SM2", "AVG-known_decks"}
    assert without_deleted.reviews < common.reviews
    (sm2,) = (line for line in without_deleted.lines if not line.is_baseline)
    assert sm2.to_baseline is not None
    assert without_deleted.baseline is not None
    assert np.array_equal(sm2.result.review_th, without_deleted.baseline.result.review_th)
    assert "known" in format_group_title(without_deleted)
    assert "known" not in format_group_title(common)
    assert set(found) == {"SM2", "Memrise", "90%"}  # the average was not asked for


@pytest.mark.slow
@pytest.mark.parametrize("user", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_every_view_shows_the_same_places(
    user: int, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = "SM2,SM2-short,Memrise,90%,MOVING-AVG,FSRS-6-dry-run,AVG,AVG-known_decks"
    run = ["run", str(dataset), "--user", str(user), "--models", models, "--jobs", "0"]
    assert main([*run, "--no-cache"]) == 0
    table = capsys.readouterr().out
    assert main([*run, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main([*run, "--csv", "-"]) == 0
    lines = csv.DictReader(io.StringIO(capsys.readouterr().out))
    notebook = srs_eval.evaluate(open_dataset(str(dataset)).load(user), models, jobs=0)
    batch = ["batch", "--dataset", str(dataset), "--users", str(user), "--models", models]
    assert main([*batch, "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    summary_of_batch = capsys.readouterr().out

    expected = outline(list(notebook.groups))
    assert len(expected) == (3 if user == 1 else 2)
    flat = [(group, place, name) for group, rows in enumerate(expected) for place, name in rows]
    assert flat == [
        (each["group"], each["place"], each["configuration"]) for each in document["results"]
    ]
    assert flat == [
        (int(line["group"]), int(line["place"]) if line["place"] else None, line["configuration"])
        for line in lines
    ]
    frame = notebook.frame()
    assert flat == [
        (row["group"], None if place_is_missing(row["place"]) else row["place"], name)
        for name, row in frame.iterrows()
    ]
    assert list(notebook) == [name for _, _, name in flat]
    app = WatchedApp(
        dataset, AppOptions(models=models, jobs=0, user=user), state_folder=tmp_path / "state"
    )
    async with app.run_test(size=(160, 48)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await wait_until(pilot, lambda: app.screen.query_one(RankingTable).chosen is not None)
        widget = app.screen.query_one(RankingTable)
        in_app = {
            (int(place) if (place := str(row.prompt)[:2].strip()).isdigit() else None, row.id)
            for row in widget.options
            if row.id
        }
    assert in_app == {(place, name) for _, place, name in flat}
    for shown in (table, summary_of_batch):
        assert places_in(shown, [each for _, _, each in flat]) == [
            (place, name) for _, place, name in flat
        ]


def place_is_missing(place: object) -> bool:
    import pandas as pd

    return bool(pd.isna(place))


def places_in(table: str, names: list[str]) -> list[tuple[int | None, str]]:
    """Places and names of the lines of a printed table, group after group."""
    by_words = {resolve_configurations(name)[0].words: name for name in names}
    found: list[tuple[int | None, str]] = []
    for line in map(str.strip, table.splitlines()):
        place, _, rest = line.partition(" ")
        comes_first = place.isdigit() or place == "–"  # in a leaderboard the model does
        named = f"{rest.strip() if comes_first else line} "
        words = max(
            (each for each in by_words if named.startswith(f"{each} ")), key=len, default=""
        )
        if not comes_first:
            place = named[len(words) :].strip().partition(" ")[0]
        if words and (place.isdigit() or place == "–"):
            found.append((int(place) if place.isdigit() else None, by_words[words]))
    return found


# --- users of a data set --------------------------------------------------------------


def test_users_evaluated_on_other_reviews_are_not_compared() -> None:
    rows = Protocol().row_protocol()
    one, other = resolve_configurations("SM2,Memrise")
    sizes = [(one, rows, {101: 505, 102: 90}), (other, rows, {101: 560, 102: 90, 103: 7})]
    assert group_by_shared_users(sizes) == [([other, one], {102: 90})]
    apart = [(each, rows, {101: users[101]}) for each, rows, users in sizes]
    assert group_by_shared_users(apart) == [([other], {101: 560}), ([one], {101: 505})]
    assert group_by_shared_users([]) == []


def test_one_user_has_the_same_groups_as_a_run() -> None:
    names = "SM2,SM2-short,Memrise,AVG,AVG-known_decks,MOVING-AVG,90%,RMSE-BINS-EXPLOIT"
    apart = []
    for user in sorted({101, 102, 111} & set(golden_users())):
        found = srs_eval.evaluate(golden_log(user), names, jobs=0, use_cache=False)
        sizes = [
            (each, comparison_rows(each), {user: found[each.name].size})
            for each in resolve_configurations(names)
            if each.name in found
        ]
        alike = {
            frozenset(each.name for each in members) for members, _ in group_by_shared_users(sizes)
        }
        groups: dict[int, set[str]] = {}
        for group in found.groups:
            there = groups.setdefault(group.reviews, set())
            there |= {line.configuration.name for line in group.lines}
        assert all(any(names <= each for each in alike) for names in groups.values())
        assert all(group.baseline is not None for group in found.groups if not group.is_online)
        if len(groups) > 1:
            apart.append(user)
    assert apart == [111]  # SM2 is evaluated on 445 of its 665 reviews


def test_the_baseline_without_deleted_cards_is_evaluated_on_the_reviews_of_sm2() -> None:
    log = golden_log(111)
    found = srs_eval.evaluate(log, "SM2,Ebisu-v2,FSRS-6-dry-run", jobs=0, use_cache=False)
    (group,) = (each for each in found.groups if "known" in format_group_title(each))
    names = {line.configuration.name for line in group.lines}
    assert names == {"SM2", "Ebisu-v2", "AVG-known_decks"}
    assert group.reviews == 445
    assert group.baseline is not None
    baseline = group.baseline.result
    assert all(np.array_equal(line.result.review_th, baseline.review_th) for line in group.lines)
    trials = LearnerSession(log).trials(group.baseline.configuration.protocol)
    expected = [np.full(len(fold.test), trials.y[fold.train].mean()) for fold in trials.folds]
    np.testing.assert_array_equal(baseline.p, np.concatenate(expected))
    assert all((line.relative_to_baseline is None) == line.is_baseline for line in group.lines)


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "–"),
        (-0.136, "13.6 % less"),
        (3.44, " 344 % more"),
        (1e15, ">999 % more"),
        (0.0, "no less"),
    ],
)
def test_a_share_of_the_average_says_which_way_it_is(share: float | None, shown: str) -> None:
    assert words.format_relative_loss(share) == shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "has_baseline"), [("90%,Memrise", True), ("90%", False), ("AVG", True)]
)
def test_what_a_batch_compares_stands_on_the_average(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: str, has_baseline: bool
) -> None:
    write_dataset({1: simulate_learner(1, 300)}, tmp_path / "data")
    batch = ["batch", "--dataset", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    assert main([*batch, "--models", models, "--jobs", "1"]) == 0
    assert ("\naverage" in capsys.readouterr().out) == has_baseline
    assert (tmp_path / "out" / "result" / "AVG.jsonl").exists() == has_baseline


@pytest.mark.slow
def test_a_batch_tells_of_the_users_that_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset({k: simulate_learner(k, 300) for k in (1, 2)}, tmp_path / "data")
    batch = ["batch", "--dataset", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    batch += ["--models", "AVG", "--jobs", "1"]
    for users, words_of_it in ((["--users", "1-2"], "2 users"), (["--users", "2"], "1 user")):
        assert main([*batch, *users]) == 0
        assert f"Means over {words_of_it}, " in capsys.readouterr().out


def test_ties_hold_every_line_once_under_its_verdict() -> None:
    for group in rank_results(PAIRS):
        held = [line for _, lines in list_sections(group) for line in lines]
        assert sorted(held, key=lambda line: line.configuration.name) == sorted(
            group.lines, key=lambda line: line.configuration.name
        )
        for _, lines in list_sections(group):
            standings = {line.standing for line in lines} - {None}
            assert len(standings) == 1 or standings == {"best", "as good"}
    first = rank_results(PAIRS)[0]
    assert [words for words, _ in list_sections(first)] == ["best", "worse"]
    # SM2 is worse than the best, and not shown to be worse than the average that it is below.
    assert [line.configuration.name for line in list_sections(first)[1][1]][-2:] == ["AVG", "SM2"]


def test_the_baseline_stands_where_it_falls() -> None:
    few = [constant("HLR", 0.7, 900), constant("SM2", 0.5, 900), constant("AVG", 0.79, 900)]
    assert [words for words, _ in list_sections(rank_results(few)[0])] == [
        "nearest to the average",
        "can't tell yet",
    ]
    names = [
        line.configuration.name
        for _, lines in list_sections(rank_results(few)[0])
        for line in lines
    ]
    assert names == ["AVG", "HLR", "SM2"]
    assert [words for words, _ in list_sections(rank_results([constant("AVG", 0.8)])[0])] == [""]


@given(st.sampled_from(sorted(SORT_KEYS)), st.booleans())
def test_lines_are_ordered_by_any_column(by: str, backwards: bool) -> None:
    undefined = replace(PAIRS[2][1], metrics=replace(PAIRS[2][1].metrics, auc=None))
    for group in rank_results([*PAIRS[:2], (PAIRS[2][0], undefined), *PAIRS[3:]]):
        lines = sort_lines(group, by, backwards)
        assert len(lines) == len(group.lines)
        values = [SORT_KEYS[by](line) for line in lines]
        known = [value for value in values if value is not None]
        assert values[len(known) :] == [None] * (len(values) - len(known))
        assert known == sorted(known, reverse=backwards)


@pytest.mark.parametrize(
    ("enabled", "presets", "own"),
    [
        (None, {}, None),
        (False, {1: Preset(1, "A", {6: (1.0,) * 21})}, "Anki-dry-run"),
        (True, {1: Preset(1, "A")}, "FSRS-6-dry-run"),
        (True, {1: Preset(1, "A"), 2: Preset(2, "B", {5: (1.0,) * 19})}, "FSRS-6-own"),
    ],
)
def test_what_the_learner_schedules_with(
    enabled: bool | None, presets: dict[int, Preset], own: str | None
) -> None:
    made_up = make_log()
    import_summary = replace(made_up.import_summary, fsrs_enabled=enabled)
    log = replace(made_up, import_summary=import_summary, presets=presets)
    assert own_scheduler(log) == own
    assert own is None or resolve_configurations(own)[0].name == own


def test_results_on_the_same_reviews_share_them_wherever_they_were_made() -> None:
    log = simulate_learner(3, 1_500).log()
    for jobs in (0, 2):
        events = evaluate(log, "AVG,90%,AVG-short", jobs=jobs, use_cache=False)
        found = [each.result for each in events if isinstance(each, Finished)]
        sets = {id(each.tests) for each in found}
        assert len(found) == 3
        assert len(sets) == len({each.tests for each in found})
        assert all(not each.y.flags.writeable for each in found)
    assert found[0].tests == pickle.loads(pickle.dumps(found[0])).tests
