"""One ranking for every view: groups, the baseline, ranks, ties and their words."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
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
from srs_eval.engine import ranking
from srs_eval.engine import result as engine
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.ranking import (
    RankedResult,
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
from srs_eval.models.configurations import OWN_FSRS_6, Configuration, resolve_configurations
from srs_eval.report import formats as words
from srs_eval.report.ranking_columns import SORT_KEYS, sort_lines
from srs_eval.report.ranking_words import (
    describe_verdicts,
    format_group_title,
    list_sections,
    summarize_ranking,
)
from srs_eval.stats.persistence import PHIS, Persistence
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
    "900 reviews on 45 days are too few to tell models apart: 1,000 reviews and 20 days are needed."
)
Pair = tuple[Configuration, Result]


def resolve_pair(name: str, result: Result | None = None) -> Pair:
    (configuration,) = resolve_configurations(name)
    return configuration, result or make_result(name)


PAIRS = [resolve_pair(name) for name in MODELS]


def make_pair(name: str, p: np.ndarray, reviews: int = 2_000, first: int = 1) -> Pair:
    """Return a result of predictions p on reviews of which every fifth failed, 20 on each day."""
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
            reviews_before=1 + steps % 9,
        ),
    )
    return resolve_configurations(name)[0], result


def make_constant_pair(name: str, p: float, reviews: int = 2_000, first: int = 1) -> Pair:
    return make_pair(name, np.full(reviews, p), reviews, first)


def outline_group(group: RankingGroup) -> list[tuple[int | None, str]]:
    """Return rank and name of each line of a group."""
    return [(line.rank, line.configuration.name) for line in group.lines]


def outline(groups: list[RankingGroup]) -> list[list[tuple[int | None, str]]]:
    """Return rank and name of each line, group by group."""
    return [outline_group(group) for group in groups]


def list_lines(group: RankingGroup) -> list[RankedResult]:
    """Return the lines of a group in the order of its sections."""
    lines: list[RankedResult] = []
    for _, section in list_sections(group):
        lines += section
    return lines


def test_groups_share_reviews_and_online_models_stand_apart() -> None:
    schedulers, learners, in_seconds = rank_results(PAIRS)
    assert not schedulers.is_online
    assert {line.configuration.name for line in learners.lines} == {"MOVING-AVG"}
    assert learners.is_online
    assert [line.configuration.name for line in in_seconds.lines] == ["FSRS-5-secs"]
    assert in_seconds.lines[0].to_baseline is in_seconds.lines[0].relative_to_baseline is None
    assert (
        learners.lines[0].to_baseline is not None
    )  # the baseline was evaluated on the same reviews
    assert in_seconds.reviews < schedulers.reviews
    assert len({format_group_title(group) for group in (schedulers, learners, in_seconds)}) == 3


def test_ranks_follow_the_verdicts() -> None:
    """Rank a surely worse model below one that is worse on average, but on few days only."""
    steps = np.arange(2_000)
    well = np.where(steps % 5 > 0, 0.9, 0.4)
    now_and_then = np.where(steps // 20 % 50 == 7, 1 - well, np.minimum(well + 0.004, 0.99))
    pairs = [
        make_pair("FSRS-6", well),
        make_pair("FSRS-5", np.where(steps % 5 > 0, 0.89, 0.41)),
        make_pair("HLR", now_and_then),
    ]
    (group,) = rank_results(pairs)
    standings = [(line.configuration.name, line.rank, line.standing) for line in group.lines]
    assert standings == [
        ("FSRS-6", 1, "best"),
        ("HLR", 2, "can't tell yet"),
        ("FSRS-5", 3, "worse"),
    ]
    assert group.lines[1].log_loss.estimate > group.lines[2].log_loss.estimate
    assert list_lines(group) == list(group.lines)


def test_baseline_has_a_line_but_no_rank() -> None:
    first = rank_results(PAIRS)[0]
    figures = [line.log_loss.estimate for line in first.lines]
    assert figures == sorted(figures)
    baseline = first.baseline
    assert baseline is not None
    assert baseline.configuration.name == "AVG"
    assert baseline.standing is baseline.to_baseline is baseline.relative_to_baseline is None
    ranks = [line.rank for line in first.lines if line is not baseline]
    assert ranks == list(range(1, len(ranks) + 1))
    for line in first.lines:
        if line is not baseline:
            assert line.to_baseline is not None
            assert line.relative_to_baseline is not None
            difference = line.log_loss.estimate - baseline.log_loss.estimate
            assert line.to_baseline.estimate == pytest.approx(difference)
            assert line.relative_to_baseline == pytest.approx(
                difference / baseline.log_loss.estimate
            )


def test_lines_are_compared_with_the_best_and_the_reference() -> None:
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
def test_ranking_does_not_depend_on_the_order_of_results(pairs: list[Pair]) -> None:
    assert rank_results(pairs) == rank_results(PAIRS)


def test_ties_at_six_decimals_are_ordered_by_name() -> None:
    twins = [
        make_constant_pair("HLR", 0.81),
        make_constant_pair("DASH", 0.81),
        make_constant_pair("AVG", 0.5),
    ]
    assert outline(rank_results(twins)) == [[(1, "DASH"), (2, "HLR"), (None, "AVG")]]
    # Result files hold six decimals: equal values there are a tie here as well.
    nearly = [
        make_constant_pair("HLR", 0.81),
        make_constant_pair("DASH", 0.81 + 1e-9),
        make_constant_pair("AVG", 0.5),
    ]
    assert 0 < nearly[1][1].metrics.log_loss - nearly[0][1].metrics.log_loss < 1e-7
    assert outline(rank_results(nearly)) == outline(rank_results(twins))
    (group,) = rank_results(twins)
    assert [line.standing for line in group.lines] == ["best", "as good", None]
    assert rank_results([]) == []


def test_standings_and_summary_of_a_group() -> None:
    random = np.random.default_rng(1)
    noisy = np.clip(0.8 + 0.25 * random.standard_normal(2_000), 0.02, 0.98)
    (group,) = rank_results(
        [
            make_constant_pair("FSRS-6", 0.8),
            make_constant_pair("FSRS-6-recency", 0.801),
            make_constant_pair("HLR", 0.7),
            make_constant_pair("SM2", 0.3),
            make_pair("DASH", noisy),
            make_constant_pair("AVG", 0.65),
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
        "worse than always guessing your average: DASH and SM2."
    )
    assert format_group_title(group) == (
        "Evaluated on 2,000 reviews made on a later day than the card's previous one"
    )


def test_summary_says_why_persistent_days_make_it_less_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lasting = Persistence(tuple((PHIS == 0.97).astype(float).tolist()))
    (group,) = rank_results([make_constant_pair("HLR", 0.8), make_constant_pair("AVG", 0.6)])
    assert group.phi is None
    monkeypatch.setattr(ranking, "find_persistence", lambda result: lasting)
    assert group.phi == pytest.approx(0.97)
    assert summarize_ranking(group) == (
        "HLR predicts better than always guessing your average. "
        "Your reviews go better or worse for weeks at a time, so this is less certain than usual."
    )


@pytest.mark.parametrize(
    ("pairs", "answer"),
    [
        ([make_constant_pair("AVG", 0.8)], ""),
        ([make_constant_pair("HLR", 0.8)], "There is no other model to compare HLR with."),
        (
            [make_constant_pair("HLR", 0.8), make_constant_pair("AVG", 0.6)],
            "HLR predicts better than always guessing your average.",
        ),
        (
            [make_constant_pair("HLR", 0.8), make_constant_pair("AVG", 0.801)],
            "HLR predicts no better and no worse than always guessing your average.",
        ),
        (
            [
                make_constant_pair("HLR", 0.3),
                make_constant_pair("SM2", 0.2),
                make_constant_pair("AVG", 0.8),
            ],
            "No model predicts better than always guessing your average; HLR comes nearest to it.",
        ),
        (
            [make_constant_pair("HLR", 0.8, 900), make_constant_pair("AVG", 0.5, 900)],
            "Can't tell yet whether HLR predicts better than always guessing your average.",
        ),
        (
            [make_constant_pair("HLR", 0.8, 900), make_constant_pair("SM2", 0.5, 900)],
            "HLR has the lowest log loss, but 2 models can't be told apart; possibly worse: SM2.",
        ),
        (
            [
                make_constant_pair("HLR", 0.7, 900),
                make_constant_pair("SM2", 0.5, 900),
                make_constant_pair("AVG", 0.8, 900),
            ],
            "No model has a lower log loss than always guessing your average; HLR comes nearest to "
            "it; can't tell yet whether it differs from guessing; "
            "possibly worse: SM2.",
        ),
        (
            [
                make_constant_pair("HLR", 0.8, 900),
                make_constant_pair("SM2", 0.5, 900),
                make_constant_pair("AVG", 0.7, 900),
            ],
            "HLR has the lowest log loss, but 2 models can't be told apart; "
            "can't tell yet whether it differs from always guessing your average; "
            "possibly worse: SM2.",
        ),
        (
            [
                make_constant_pair("HLR", 0.8),
                make_constant_pair("SM2", 0.5),
                make_constant_pair("AVG", 0.801),
            ],
            "HLR predicts best; it is neither better nor worse than always guessing your average; "
            "worse than always guessing your average: SM2.",
        ),
    ],
)
def test_verdicts_and_summary_of_few_models(pairs: list[Pair], answer: str) -> None:
    group = rank_results(pairs)[0]
    assert describe_verdicts(group) == answer
    assert summarize_ranking(group) == (
        TOO_FEW if group.lines[0].log_loss.reviews < 1_000 else answer
    )


def test_online_models_are_compared_with_the_schedulers_baseline() -> None:
    """Compare with the average although it has no line in the group of online models."""
    pairs = [
        make_constant_pair("MOVING-AVG", 0.7, 900),
        make_constant_pair("RMSE-BINS-EXPLOIT", 0.5, 900),
        make_constant_pair("HLR", 0.8, 900),
        make_constant_pair("AVG", 0.8, 900),
    ]
    learners = rank_results(pairs)[1]
    assert learners.is_online
    assert describe_verdicts(learners).startswith(
        "No model has a lower log loss than always guessing your average; moving"
    )


@pytest.mark.parametrize(
    ("pairs", "answer"),
    [
        (
            [make_constant_pair(OWN_FSRS_6, 0.8), make_constant_pair("AVG", 0.6)],
            "Your parameters predict better than always guessing your average.",
        ),
        (
            [make_constant_pair(OWN_FSRS_6, 0.8, 900), make_constant_pair("AVG", 0.5, 900)],
            "Can't tell yet whether your parameters predict better than always guessing your "
            "average.",
        ),
        (
            [make_constant_pair(OWN_FSRS_6, 0.8)],
            "There is no other model to compare your parameters with.",
        ),
        (
            [
                make_constant_pair(OWN_FSRS_6, 0.8, 900),
                make_constant_pair("SM2", 0.5, 900),
                make_constant_pair("AVG", 0.7, 900),
            ],
            "Your parameters have the lowest log loss, but 2 models can't be told apart; "
            "can't tell yet whether they differ from always guessing your average; "
            "possibly worse: SM2.",
        ),
    ],
)
def test_describe_verdicts_agrees_with_plural_names(pairs: list[Pair], answer: str) -> None:
    assert describe_verdicts(rank_results(pairs)[0]) == answer


def test_relative_loss_is_undefined_when_the_average_is_perfect() -> None:
    """Rank on reviews that were all passed: the average's log loss is 2e-16, not quite 0."""
    count = 1_200
    passed = []
    for name, p in (("AVG", 1.0), ("HLR", 0.98)):
        configuration, result = make_constant_pair(name, p, count)
        y = np.ones(count)
        all_passed = replace(
            result,
            tests=replace(result.tests, y=y),
            metrics=compute_metrics(y, result.p, result.tests.bin),
        )
        passed.append((configuration, all_passed))
    assert 0 < passed[0][1].metrics.log_loss < 1e-12
    assert [line.relative_to_baseline for line in rank_results(passed)[0].lines] == [None, None]


def test_baseline_joins_online_models_only_when_alone() -> None:
    learner = make_constant_pair("MOVING-AVG", 0.8)
    baseline = make_constant_pair("AVG", 0.7)
    assert outline(rank_results([baseline, learner])) == [[(1, "MOVING-AVG"), (None, "AVG")]]
    with_scheduler = outline(rank_results([baseline, learner, make_constant_pair("HLR", 0.8)]))
    assert with_scheduler == [[(1, "HLR"), (None, "AVG")], [(1, "MOVING-AVG")]]
    assert outline(rank_results([baseline])) == [[(None, "AVG")]]


def test_add_baselines_adds_one_for_each_set_of_reviews() -> None:
    def baselines(
        names: str, protocol: Protocol | None = None, leaves_out: bool = False
    ) -> list[str]:
        evaluated = add_baselines(
            resolve_configurations(names, protocol), excludes_deleted=leaves_out
        )
        return [configuration.name for configuration in evaluated if configuration.is_baseline]

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
    split=st.sampled_from(["time", "cards", "users"]),
    train_until=st.sampled_from(["", "20"]),
    train_months=st.sampled_from([0, 1]),
    n_splits=st.sampled_from([3, 5]),
    max_seq_len=st.sampled_from([4, 64]),
    known_decks_only=st.booleans(),
    later_days_only=st.booleans(),
)
LOG = simulate_learner(3, 900).log()
ROWS = select_rows(LOG, "benchmark").rows


@given(FLAGS)
def test_row_protocol_decides_the_evaluated_rows(protocol: Protocol) -> None:
    if protocol.no_test_same_day and not protocol.secs:
        protocol = replace(protocol, no_test_same_day=False)  # refused by `resolve`
    evaluated, expected = (
        prepare_trials(LOG, ROWS, variant) for variant in (protocol, protocol.row_protocol())
    )
    assert np.array_equal(
        evaluated.review_th[evaluated.test_index], expected.review_th[expected.test_index]
    )
    assert protocol.row_protocol().row_protocol() == protocol.row_protocol()


# --- a learner whose deleted cards some models leave out ------------------------------


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two users: user 1 has deleted cards, which SM2 leaves out; user 2 has none."""
    folder = tmp_path_factory.mktemp("dataset")
    with_all_cards = simulate_learner(6, 1_500)
    with_all_cards = replace(
        with_all_cards,
        cards=replace(with_all_cards.cards, deleted=np.zeros_like(with_all_cards.cards.deleted)),
    )
    write_dataset({1: simulate_learner(4, 1_500), 2: with_all_cards}, folder)
    return folder


def test_models_evaluated_on_other_reviews_get_their_own_group(dataset: Path) -> None:
    results = srs_eval.evaluate(
        open_dataset(str(dataset)).load(1), "SM2,Memrise,90%", jobs=0, use_cache=False
    )
    common, without_deleted = results.groups
    assert {name for _, name in outline([common])[0]} == {"Memrise", "90%", "AVG"}
    assert {name for _, name in outline([without_deleted])[0]} == {"SM2", "AVG-known_decks"}
    assert without_deleted.reviews < common.reviews
    (sm2,) = (line for line in without_deleted.lines if not line.is_baseline)
    assert sm2.to_baseline is not None
    assert without_deleted.baseline is not None
    assert np.array_equal(sm2.result.review_th, without_deleted.baseline.result.review_th)
    assert "still exist" in format_group_title(without_deleted)
    assert "still exist" not in format_group_title(common)
    assert set(results) == {"SM2", "Memrise", "90%"}  # the average was not asked for


@pytest.mark.slow
@pytest.mark.parametrize("user", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_every_view_shows_the_same_ranks(
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
    flat = []
    for group, rows in enumerate(expected):
        flat += [(group, rank, name) for rank, name in rows]
    assert flat == [
        (row["group"], row["place"], row["configuration"]) for row in document["results"]
    ]
    assert flat == [
        (int(line["group"]), int(line["place"]) if line["place"] else None, line["configuration"])
        for line in lines
    ]
    frame = notebook.frame()
    assert flat == [
        (row["group"], None if rank_is_missing(row["place"]) else row["place"], name)
        for name, row in frame.iterrows()
    ]
    assert list(notebook) == [name for _, _, name in flat]
    app = WatchedApp(
        dataset,
        AppOptions(models=models, jobs=0, user=user, folds_models=False),
        state_folder=tmp_path / "state",
    )
    async with app.run_test(size=(160, 48)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        await wait_until(pilot, lambda: app.screen.query_one(RankingTable).chosen is not None)
        widget = app.screen.query_one(RankingTable)
        in_app = set()
        for row in widget.options:
            if row.id:
                rank = str(row.prompt)[:2].strip()
                in_app.add((int(rank) if rank.isdigit() else None, row.id))
    assert in_app == {(rank, name) for _, rank, name in flat}
    for printed in (table, summary_of_batch):
        assert read_ranks(printed, [name for _, _, name in flat]) == [
            (rank, name) for _, rank, name in flat
        ]


def rank_is_missing(rank: object) -> bool:
    import pandas as pd

    return bool(pd.isna(rank))


def read_ranks(table: str, names: list[str]) -> list[tuple[int | None, str]]:
    """Return ranks and names of the lines of a printed table, group after group."""
    by_words = {resolve_configurations(name)[0].words: name for name in names}
    ranks: list[tuple[int | None, str]] = []
    for line in table.splitlines():
        words, _, rest = line.partition(": ")
        if words in by_words and "log loss" in rest.lower():
            rank = re.search(r"^(?:#|place) (\d+);", rest)
            ranks.append((None if rank is None else int(rank.group(1)), by_words[words]))
    return ranks


# --- users of a data set --------------------------------------------------------------


def test_users_evaluated_on_other_reviews_are_not_compared() -> None:
    rows = Protocol().row_protocol()
    sm2, memrise = resolve_configurations("SM2,Memrise")
    sizes = [(sm2, rows, {101: 505, 102: 90}), (memrise, rows, {101: 560, 102: 90, 103: 7})]
    assert group_by_shared_users(sizes) == [([memrise, sm2], {102: 90})]
    apart = [(model, rows, {101: users[101]}) for model, rows, users in sizes]
    assert group_by_shared_users(apart) == [([memrise], {101: 560}), ([sm2], {101: 505})]
    assert group_by_shared_users([]) == []


def test_one_user_has_the_same_groups_as_a_run() -> None:
    names = "SM2,SM2-short,Memrise,AVG,AVG-known_decks,MOVING-AVG,90%,RMSE-BINS-EXPLOIT"
    apart = []
    for user in sorted({101, 102, 111} & set(golden_users())):
        results = srs_eval.evaluate(golden_log(user), names, jobs=0, use_cache=False)
        sizes = [
            (
                configuration,
                comparison_rows(configuration),
                {user: results[configuration.name].size},
            )
            for configuration in resolve_configurations(names)
            if configuration.name in results
        ]
        alike = []
        for configurations, _ in group_by_shared_users(sizes):
            alike.append({configuration.name for configuration in configurations})
        groups: dict[int, set[str]] = {}
        for group in results.groups:
            members_of_group = groups.setdefault(group.reviews, set())
            members_of_group |= {line.configuration.name for line in group.lines}
        for members in groups.values():
            assert any(members <= comparable for comparable in alike)
        assert all(group.baseline is not None for group in results.groups if not group.is_online)
        if len(groups) > 1:
            apart.append(user)
    assert apart == [111]  # SM2 is evaluated on 445 of its 665 reviews


def test_baseline_without_deleted_cards_has_the_reviews_of_sm2() -> None:
    log = golden_log(111)
    results = srs_eval.evaluate(log, "SM2,Ebisu-v2,FSRS-6-dry-run", jobs=0, use_cache=False)
    (group,) = (group for group in results.groups if "still exist" in format_group_title(group))
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
    ("share", "text"),
    [
        (None, "–"),
        (-0.136, "13.6 % less"),
        (3.44, " 344 % more"),
        (1e15, ">999 % more"),
        (0.0, "no less"),
    ],
)
def test_format_relative_loss_says_less_or_more(share: float | None, text: str) -> None:
    assert words.format_relative_loss(share) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "has_baseline"), [("90%,Memrise", True), ("90%", False), ("AVG", True)]
)
def test_batch_adds_the_average_to_compared_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: str, has_baseline: bool
) -> None:
    write_dataset({1: simulate_learner(1, 300)}, tmp_path / "data")
    batch = ["batch", "--dataset", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    assert main([*batch, "--models", models, "--jobs", "1"]) == 0
    assert ("\naverage" in capsys.readouterr().out) == has_baseline
    assert (tmp_path / "out" / "result" / "AVG.jsonl").exists() == has_baseline


@pytest.mark.slow
def test_batch_summarizes_the_requested_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset({k: simulate_learner(k, 300) for k in (1, 2)}, tmp_path / "data")
    batch = ["batch", "--dataset", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    batch += ["--models", "AVG", "--jobs", "1"]
    for users, words_of_it in ((["--users", "1-2"], "2 users"), (["--users", "2"], "1 user")):
        assert main([*batch, *users]) == 0
        assert f"Means over {words_of_it}, " in capsys.readouterr().out


def test_sections_hold_every_line_once_under_its_verdict() -> None:
    for group in rank_results(PAIRS):
        assert sorted(list_lines(group), key=lambda line: line.configuration.name) == sorted(
            group.lines, key=lambda line: line.configuration.name
        )
        for _, lines in list_sections(group):
            standings = {line.standing for line in lines} - {None}
            assert len(standings) == 1 or standings == {"best", "as good"}
    first = rank_results(PAIRS)[0]
    assert [words for words, _ in list_sections(first)] == ["best", "worse"]
    # SM2 is worse than the best, and not shown to be worse than the average that it is below.
    assert [line.configuration.name for line in list_sections(first)[1][1]][-2:] == ["AVG", "SM2"]


def test_sections_put_the_baseline_in_its_order() -> None:
    few = [
        make_constant_pair("HLR", 0.7, 900),
        make_constant_pair("SM2", 0.5, 900),
        make_constant_pair("AVG", 0.79, 900),
    ]
    assert [words for words, _ in list_sections(rank_results(few)[0])] == [
        "nearest to the baseline",
        "can't tell yet",
    ]
    names = [line.configuration.name for line in list_lines(rank_results(few)[0])]
    assert names == ["AVG", "HLR", "SM2"]
    assert [
        words for words, _ in list_sections(rank_results([make_constant_pair("AVG", 0.8)])[0])
    ] == [""]


@given(st.sampled_from(sorted(SORT_KEYS)), st.booleans())
def test_sort_lines_by_any_column(by: str, backwards: bool) -> None:
    undefined = replace(PAIRS[2][1], metrics=replace(PAIRS[2][1].metrics, auc=None))
    for group in rank_results([*PAIRS[:2], (PAIRS[2][0], undefined), *PAIRS[3:]]):
        lines = sort_lines(group, by, backwards)
        assert len(lines) == len(group.lines)
        values = [SORT_KEYS[by](line) for line in lines]
        defined = [value for value in values if value is not None]
        assert values[len(defined) :] == [None] * (len(values) - len(defined))
        assert defined == sorted(defined, reverse=backwards)


@pytest.mark.parametrize(
    ("enabled", "presets", "scheduler"),
    [
        (None, {}, None),
        (False, {1: Preset(1, "A", {6: (1.0,) * 21})}, "Anki-dry-run"),
        (True, {1: Preset(1, "A")}, "FSRS-6-dry-run"),
        (True, {1: Preset(1, "A"), 2: Preset(2, "B", {5: (1.0,) * 19})}, "FSRS-6-own"),
    ],
)
def test_own_scheduler_by_presets(
    enabled: bool | None, presets: dict[int, Preset], scheduler: str | None
) -> None:
    made_up = make_log()
    import_summary = replace(made_up.import_summary, fsrs_enabled=enabled)
    log = replace(made_up, import_summary=import_summary, presets=presets)
    assert own_scheduler(log) == scheduler
    assert scheduler is None or resolve_configurations(scheduler)[0].name == scheduler


def test_results_on_the_same_reviews_share_their_test_set() -> None:
    log = simulate_learner(3, 1_500).log()
    for jobs in (0, 2):
        events = evaluate(log, "AVG,90%,AVG-short", jobs=jobs, use_cache=False)
        results = [event.result for event in events if isinstance(event, Finished)]
        sets = {id(result.tests) for result in results}
        assert len(results) == 3
        assert len(sets) == len({result.tests for result in results})
        assert all(not result.y.flags.writeable for result in results)
    assert results[0].tests == pickle.loads(pickle.dumps(results[0])).tests
