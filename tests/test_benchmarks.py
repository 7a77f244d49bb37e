"""Check that benchmark scripts can be imported, take their options and are right."""

from __future__ import annotations

import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from srs_eval.data.dataset_hub import check_users
from srs_eval.data.datasets import open_dataset
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models.configurations import resolve_configurations
from tests.conftest import PATIENCE, REPOSITORY
from tools.simulated import simulate_learner, write_dataset

LOOPS = (
    "HLR",
    "FSRS-4.5",
    "DASH",
    "DASH[MCM]",
    "DASH[ACT-R]",
    "ACT-R",
    "SM2-trainable",
    "Anki",
    "FSRSv4",
    "LogisticRegression",
)


@pytest.fixture(autouse=True)
def _benchmarks_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LearnerSession:
    folder = tmp_path_factory.mktemp("learner")
    write_dataset({1: simulate_learner(3, 1_200)}, folder)
    return LearnerSession(open_dataset(folder).load(1))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_speed_takes_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    speed = module("speed")
    options = speed.parse(["--parts", "23", "--quick", "--golden", "there"])
    assert options.parts == "23"
    assert options.quick
    assert options.golden == Path("there")
    with pytest.raises(SystemExit):
        speed.parse(["--parts", "5"])
    assert "--parts" in capsys.readouterr().err


def test_act_is_right_for_the_days_to_come_and_wrong_for_the_year() -> None:
    acts = module("acts")
    record = {
        "act": "defaults",
        "probability": 0.97,
        "act gain": 0.004,
        "act gain of the year": -0.001,
        "hardly matters": False,
    }
    sure = next(iter(acts.describe_acts([record])))
    assert sure.split(" | ") == ["sure", "100 % [21, 100] of 1", "0 % [0, 79] of 1"]


def test_learners_of_all_truths_take_turns_with_the_same_sizes() -> None:
    acts = module("acts")
    tasks = acts.make_tasks(acts.parse(["--learners", "5", "--truth", "all"]))
    truths = [source.truth for source, _ in tasks]
    assert truths == ["power law", "ACT-R", "FSRS-6", "power law", "ACT-R"]
    assert [number for _, number in tasks] == [0, 0, 0, 1, 1]
    few = acts.make_tasks(acts.parse(["--learners", "1", "--sizes", "400", "900"]))
    assert few[0][0].sizes == (400, 900)


def test_scripts_can_be_imported() -> None:
    scripts = (
        "acts",
        "few_reviews",
        "speed",
        "large",
        "fidelity",
        "neural",
        "verdicts",
        "answers",
        "intervals",
        "further_questions",
        "schedulability",
        "ignore_dates",
        "_peers",
        "scale",
        "soak",
    )
    for name in scripts:
        assert module(name)


def test_simulated_answers_follow_the_stated_recall() -> None:
    verdicts = module("verdicts")
    random = np.random.default_rng(1)
    situation = verdicts.Situation(0.0, 0.85, 0.9, (500,))
    truth = verdicts.draw_true_parameters(random, situation)
    np.testing.assert_array_equal(truth[0], truth[1])
    simulation = verdicts.simulate(random, truth, 6_000, situation)
    trials = simulation.learner.trials
    assert len(simulation.recall) == len(trials) >= 6_000
    error = np.sqrt((simulation.recall * (1 - simulation.recall)).sum()) / len(trials)
    assert abs((trials.y - simulation.recall).mean()) < 4 * error
    assert np.mean(trials.partition == 0) == pytest.approx(0.85, abs=0.03)
    early = simulation.take_first(1_000).trials
    assert len(early) == 1_000
    np.testing.assert_array_equal(early.y, trials.y[:1_000])
    rows = np.arange(len(trials))
    best = simulation.compute_expected_loss(simulation.recall, rows)
    assert best < simulation.compute_expected_loss(np.clip(simulation.recall + 0.05, 0, 1), rows)
    assert best < simulation.compute_expected_loss(simulation.recall - 0.05, rows)


@pytest.mark.slow
def test_simulated_presets_differ_by_the_stated_advantage() -> None:
    verdicts = module("verdicts")
    situation = verdicts.Situation(0.01, 0.5, 0.4, (500,))
    truth = verdicts.draw_true_parameters(np.random.default_rng(1), situation)
    assert not np.allclose(truth[0], truth[1])
    advantages = [verdicts._compute_advantage(truth, situation, seed) for seed in range(3)]
    assert np.mean(advantages) == pytest.approx(0.01, abs=0.003)


def test_verdicts_go_on_where_they_were_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = module("verdicts")
    situations = [
        verdicts.Situation(0.0, 0.5, 0.4, (300,)),
        verdicts.Situation(0.0, 0.5, 0.4, (300,), 2),
    ]
    monkeypatch.setattr(
        verdicts, "make_tasks", lambda options: [(1, 0, situation) for situation in situations]
    )
    monkeypatch.setattr(verdicts, "ProcessPoolExecutor", ThreadPoolExecutor)
    arguments = ["--jobs", "1", "--results", str(tmp_path / "results.jsonl")]
    assert verdicts.main(arguments) == 0
    first = capsys.readouterr().out
    assert "| 50 % | 0.0 | 300 | 1 | 0 (70.7) | 0 (70.7) |" in first  # too few to say anything
    assert "| 0.4 | 300 | 1 | " in first
    monkeypatch.setattr(verdicts, "evaluate", lambda task: pytest.fail("evaluated twice"))
    assert verdicts.main(arguments) == 0
    assert capsys.readouterr().out == first
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_compute_coverage_counts_intervals_around_the_other_mean() -> None:
    verdicts = module("verdicts")
    assert verdicts.compute_coverage([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]) == pytest.approx(1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_loop_gives_our_figure(name: str, session: LearnerSession) -> None:
    pytest.importorskip("torch")
    loops = module("_torch_loops")
    (configuration,) = resolve_configurations(name)
    trials = session.trials(configuration.protocol)
    ours = session.run(configuration).metrics.log_loss
    loop = loops.run_loop(name, trials)
    assert log_loss(trials.y[trials.test_index], loop.p) == pytest.approx(ours, abs=1e-4)
    assert loop.cpu > 0


@pytest.mark.slow
def test_our_seconds_include_features_and_give_our_predictions(session: LearnerSession) -> None:
    speed = module("speed")
    (configuration,) = resolve_configurations("HLR")
    trials = session.trials(configuration.protocol)
    seconds, p = speed.measure_ours(configuration, trials, 1)
    assert seconds > 0
    np.testing.assert_array_equal(p, session.run(configuration).p)


@pytest.mark.slow
def test_large_dataset_joins_histories_of_several_learners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    large = module("large")
    monkeypatch.setattr(large, "REVIEWS", 400)
    large.make_dataset(tmp_path, 3)
    log = open_dataset(tmp_path).load(large.SIMULATED)
    assert log.rows is not None
    assert 1_000 < len(log.rows.card_id) <= 1_200  # a few entries are no reviews
    first = log.rows.elapsed_days == -1
    assert first.sum() == len(np.unique(log.rows.card_id)) > 60
    assert np.all(np.diff(log.rows.day_offset) >= 0)

    arguments = ["--data", str(tmp_path), "--models", "AVG,90%", "--repeat", "1"]
    options = large.parse(arguments)
    large.compare("Three learners", tmp_path, large.SIMULATED, options)
    table = capsys.readouterr().out
    assert "| AVG |" in table
    assert "| **all 2** |" in table
    assert "+0.0e+00, 0.000000" in table


@pytest.mark.slow
def test_make_dataset_is_deterministic_with_published_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = module("make_dataset")
    monkeypatch.setattr(make, "LEARNERS", 2)
    monkeypatch.setattr(make, "REVIEWS", 1_000)
    sizes = make.draw_sizes(9_999, 1, 12_500, 200, 500_000)
    assert sizes.min() == 200
    assert sizes.max() == 500_000
    assert np.median(sizes) == pytest.approx(12_500, rel=0.01)
    tenth, ninetieth = np.percentile(sizes, [10, 90])
    # As the published ones: 2,354 and 89,759 evaluated reviews of 12,500.
    assert tenth / 12_500 == pytest.approx(2_354 / 12_500, rel=0.02)
    assert ninetieth / 12_500 == pytest.approx(89_759 / 12_500, rel=0.02)
    for folder in (tmp_path / "one", tmp_path / "two"):
        pool = make.make_templates(1)
        assert make.write_user(folder, 7, 3_000, pool, 1) == 3_000
        make.write_user(folder, 8, 200, pool, 1)
    first, second = (open_dataset(tmp_path / name) for name in ("one", "two"))
    for user in (7, 8):
        assert first.load(user).fingerprint() == second.load(user).fingerprint()
    rows = first.load(7).rows
    assert rows is not None
    assert len(rows) == 3_000
    (check,) = check_users(first, [7])
    assert check.problems == []
    assert first.load(7).has_decks
    order = np.argsort(rows.card_id, kind="stable")
    card = rows.card_id[order]
    day = rows.day_offset[order]
    again = card[1:] == card[:-1]
    np.testing.assert_array_equal(np.diff(day)[again], rows.elapsed_days[order][1:][again])
    assert (rows.elapsed_days[order][1:][~again] == -1).all()


def test_scale_estimates_the_cost_of_many_learners(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check the table for units that take 10 ms and 2 s a million reviews."""
    scale = module("scale")
    count = len(resolve_configurations(scale.CONFIGURATIONS))
    sizes = np.repeat(np.array([1_000.0, 20_000.0, 300_000.0]), count)
    seconds = 0.010 + 2e-6 * sizes
    large = scale.Run(
        learners=3,
        clock=9.0,
        processor=1.1 * seconds.sum(),
        worker_mb=500.0,
        parent_mb=90.0,
        evaluated=int(sizes.sum()),
        units=3 * count,
        sizes=sizes,
        seconds=seconds,
        bytes=3_000_000,
    )
    scale.estimate(large, scale.Writing(3e-4, 4e-5, 5e-5, 5.0))
    table = capsys.readouterr().out
    assert "11.0 ms and 2.20 s a million" in table
    hours = 9_999 * count * 1.1 * (0.010 + 2e-6 * 349_923_850 / 9_999) / 3600
    assert f"| 9,999 | {hours:,.1f} | {hours / 2:,.1f} |" in table
    assert "10.00 GB | 0.1 GB | 0.0 min |" in table
    assert "10,000.00 GB | 50.1 GB | 50.0 min |" in table


def test_the_writer_alone_is_measured(tmp_path: Path) -> None:
    writing = module("scale").write_many(tmp_path, learners=20, results=200)
    assert writing.listing_seconds > 0
    assert writing.adding_seconds > 0
    assert len((tmp_path / "out" / "result" / "FSRS-6.jsonl").read_text().splitlines()) == 200


def test_a_seed_of_soak_gives_the_same_session_again() -> None:
    plans = module("_soak_plan")
    histories = [Path("a.anki2"), Path("b.colpkg"), Path("damaged c.anki2")]
    first = [plans.make_plan(seed, histories, 5.0) for seed in range(20)]
    again = [plans.make_plan(seed, histories, 5.0) for seed in range(20)]
    assert first == again
    assert len({plan.steps for plan in first}) == 20
    assert [plan.kind for plan in first[:4]] == ["terminal", "pilot", "terminal", "pilot"]
    kinds = set(map(type, chain.from_iterable(plan.steps for plan in first)))
    assert kinds == {*plans.Sent.__args__, plans.Resize, plans.KillWorker, plans.Pause}


def test_soak_sends_what_a_terminal_sends() -> None:
    plans = module("_soak_plan")
    sent = plans.encode_for_terminal
    assert sent(plans.Click(2, 27, times=2)) == b"\x1b[<0;3;28M\x1b[<0;3;28m" * 2
    assert sent(plans.Keys(("m", "slash", "enter", "ctrl+p"))) == b"m/\r\x10"
    assert sent(plans.Drag(((0, 0), (4, 1)))) == b"\x1b[<0;1;1M\x1b[<32;5;2M\x1b[<0;5;2m"
    assert sent(plans.Scroll(0, 9, times=1, down=True)) == b"\x1b[<65;1;10M"
    assert sent(plans.Paste("a\nb")) == b"\x1b[200~a\nb\x1b[201~"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_soak_runs_a_session_of_each_kind(tmp_path: Path) -> None:
    script = REPOSITORY / "benchmarks" / "soak.py"
    arguments = ["--sessions", "2", "--seconds", "1"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("seed")]
    assert [line.split()[2] for line in lines] == ["pilot", "terminal"]
    assert "2 sessions: nothing raised, hung, stayed or changed." in done.stdout


def test_few_reviews_counts_cards_that_were_suspended_later() -> None:
    few = module("few_reviews")
    log = simulate_learner(3, 1_800).log()
    (point,) = few.measure_points("somebody", log, (600,))
    assert 100 < point.usable < 600
    assert set(point.loss) == set(few.LINES)
    # Cards that are suspended later were there, and their reviews count.
    cards = replace(log.cards, suspended=np.ones(len(log.cards.card_id), np.bool_))
    (of_suspended,) = few.measure_points("somebody", replace(log, cards=cards), (600,))
    assert of_suspended.loss == point.loss
    assert not list(few.measure_points("somebody", log, (1_700,)))  # too few come after
