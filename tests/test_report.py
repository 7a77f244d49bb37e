"""Figures over users, and the reports made of them."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval import metrics
from srs_eval.across_users import (
    bca_interval,
    confidence_set,
    mean,
    mean_intervals,
    resampled_means,
    superiority,
    t_effects,
    wilcoxon_effects,
)
from srs_eval.averaging import MODES, by_group
from srs_eval.cli import main
from srs_eval.configurations import resolve
from srs_eval.errors import InputError
from srs_eval.report.build import dataset_report
from srs_eval.report.document import (
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    rounded,
    written,
)
from srs_eval.report.files import as_csv, as_json
from srs_eval.report.markdown import markdown
from srs_eval.report.page import page
from srs_eval.report.pairs import effect_colour, share_colour
from srs_eval.report.pictures import svg
from srs_eval.result_files import read_folders
from srs_eval.standings import changes, compare
from tests.conftest import REPOSITORY, shared_or_skip

# Figures over users


def test_commands_in_sentences_are_code() -> None:
    shown = markdown(Document("t", ("See `srs-eval compare --json`, *not* `a`.",), ()))
    assert "See `srs-eval compare --json`, \\*not\\* \\`a\\`." in shown
    shown = page(Document("t", ("See `srs-eval compare --json`, <not> `a`.",), ()))
    assert "See <code>srs-eval compare --json</code>, &lt;not&gt; `a`." in shown


def test_a_user_without_a_figure_is_left_out_with_their_weight() -> None:
    values = np.array([[0.2, math.nan], [0.4, 0.6], [0.9, 0.8]])
    weights = np.array([10.0, 30.0, 60.0])
    np.testing.assert_allclose(mean(values, weights), [0.68, (0.6 * 30 + 0.8 * 60) / 90])
    (found,) = mean_intervals(values, weights[:, None], resamples=200)
    np.testing.assert_allclose([each.estimate for each in found], mean(values, weights))
    # The same users, so the same resamples and the same interval as without them.
    (alone,) = mean_intervals(values[1:, 1:], weights[1:, None], resamples=200)
    assert found[1] == alone[0]


@pytest.mark.parametrize("seed", range(3))
def test_bca_is_scipys(seed: int) -> None:
    from scipy.stats import bootstrap

    random = np.random.default_rng(seed)
    weights, values = random.lognormal(0, 1.5, 60), random.gamma(2, 0.2, 60)
    drawn = resampled_means(values[:, None], weights[:, None], resamples=20_000)[0, :, 0]
    ours = bca_interval(values, weights, drawn)
    theirs = bootstrap(
        (values, weights),
        lambda v, w, axis: (v * w).sum(axis) / w.sum(axis),
        paired=True,
        confidence_level=0.99,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.04 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.04 * width)


def test_intervals_that_do_not_exist_or_have_no_width() -> None:
    one = np.ones((1, 1))
    (((alone,),),) = [mean_intervals(one * 0.3, one, resamples=50)]
    assert alone.estimate == 0.3
    assert math.isnan(alone.half_width)
    same = np.full((20, 1), 0.25)
    ((found,),) = mean_intervals(same, np.arange(1.0, 21.0)[:, None], resamples=50)
    assert found.half_width == 0
    ((nobody,),) = mean_intervals(same * math.nan, np.ones((20, 1)), resamples=50)
    assert math.isnan(nobody.estimate)


def test_resamples_are_shared_by_columns() -> None:
    random = np.random.default_rng(0)
    values = random.random((40, 1))
    drawn = resampled_means(np.hstack([values, values + 0.1]), np.ones((40, 1)), resamples=300)
    np.testing.assert_allclose(drawn[0, :, 1] - drawn[0, :, 0], 0.1)


def test_effects_are_scipys() -> None:
    from scipy import stats

    random = np.random.default_rng(3)
    losses = random.gamma(2, 0.2, (80, 3)).round(2)  # with ties and equal pairs
    found, t_found = wilcoxon_effects(losses), t_effects(losses)
    for row, column in ((0, 1), (2, 0)):
        x, y = losses[:, row], losses[:, column]
        theirs = stats.wilcoxon(x, y, correction=False, method="approx")
        assert found.p_value[row, column] == pytest.approx(theirs.pvalue)
        r = abs(theirs.zstatistic) / math.sqrt((x != y).sum())
        assert abs(found.effect[row, column]) == pytest.approx(r)
        t = stats.ttest_rel(x, y)
        assert t_found.p_value[row, column] == pytest.approx(t.pvalue)
        d = (x - y).mean() / (x - y).std(ddof=1)
        assert t_found.effect[row, column] == pytest.approx(-d)
    better = np.column_stack([losses[:, 0], losses[:, 0] + 0.1 + losses[:, 1]])
    assert wilcoxon_effects(better).effect[0, 1] > 0.8
    assert t_effects(better).effect[0, 1] > 0.8


@given(st.integers(2, 5), st.integers(1, 12), st.randoms(use_true_random=False))
def test_pairs_mirror_each_other(models: int, users: int, random: Any) -> None:
    losses = np.array(
        [[random.choice((0.1, 0.2, 0.3)) for _ in range(models)] for _ in range(users)]
    )
    share = superiority(losses)
    off = ~np.eye(models, dtype=bool)
    np.testing.assert_allclose((share + share.T)[off], 1)
    np.testing.assert_allclose(superiority(losses * 7)[off], share[off])
    effect = wilcoxon_effects(losses).effect
    np.testing.assert_allclose(effect[off], -effect.T[off])
    assert (np.abs(effect[off]) <= 1 + 1e-12).all()


def test_the_confidence_set_holds_equals_and_drops_the_worse() -> None:
    random = np.random.default_rng(1)
    kept = 0
    for trial in range(20):
        level = random.gamma(3, 0.1, (400, 1))
        losses = level + random.normal(0, 0.02, (400, 4)) + np.array([0, 0, 0.03, 0.001])
        drawn = resampled_means(losses, np.ones((400, 1)), resamples=999, seed=trial)[0]
        p_values = confidence_set(losses.mean(0), drawn)
        assert p_values.max() == 1
        assert p_values[2] < 0.01
        kept += int((p_values[:2] >= 0.05).all())
    assert kept >= 17  # two equal best: each trial keeps both in about 95 %
    same = np.repeat(losses[:, :1], 3, axis=1)
    drawn = resampled_means(same, np.ones((400, 1)), resamples=99)[0]
    np.testing.assert_array_equal(confidence_set(same.mean(0), drawn), 1)


# Averaging


def test_figures_of_groups_are_those_of_each_alone() -> None:
    random = np.random.default_rng(5)
    y = (random.random(600) < 0.8).astype(float)
    p = random.random(600).round(1)
    group = random.integers(0, 40, 600)
    group = np.unique(group, return_inverse=True)[1]
    found = by_group(y, p, group)
    for each in range(group.max() + 1):
        of = group == each
        assert found["LogLoss"][each] == pytest.approx(metrics.log_loss(y[of], p[of]))
        assert found["RMSE"][each] == pytest.approx(metrics.rmse(y[of], p[of]))
        auc = metrics.auc(y[of], p[of])
        assert found["AUC"][each] == pytest.approx(math.nan if auc is None else auc, nan_ok=True)


def test_averaging_turns_a_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    """The case of docs/metrics.md, with what it prints there."""
    text = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8").split("## Averages")[1]
    program, printed = re.findall(r"^```(?:python)?\n(.*?)^```", text, re.M | re.S)[:2]
    names: dict[str, Any] = {}
    exec(compile(program, "metrics.md", "exec"), names)
    assert capsys.readouterr().out == printed
    first = names["found"][0]
    assert first.groups == {"global": 1100, "user": 11}
    assert "deck" not in first.means


# Result files


def line(user: int, loss: float, size: int = 100, **more: Any) -> str:
    auc = more.pop("auc", 0.7)
    known = {"RMSE": 0.3, "LogLoss": loss, "RMSE(bins)": loss / 5, "ICI": 0.01, "AUC": auc}
    return json.dumps({"metrics": known, "user": user, "size": size, **more})


def write_results(folder: Path, files: dict[str, list[str]], ending: str = ".jsonl") -> Path:
    (folder / "result").mkdir(parents=True)
    for name, lines in files.items():
        text = "".join(f"{each}\n" for each in lines).encode()
        path = folder / "result" / f"{name}{ending}"
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    return folder


def many(loss: float, users: int = 30, spread: float = 0.1, **more: Any) -> list[str]:
    random = np.random.default_rng(int(loss * 1000))
    level = np.random.default_rng(0).random(users) * spread
    losses = (loss + level + random.normal(0, 0.004, users)).round(6)
    return [line(user, losses[user], 50 + 10 * user, **more) for user in range(users)]


def test_spellings_of_both_years_are_one(tmp_path: Path) -> None:
    of_2025 = ["FSRS-6", "FSRS-6-dry-run", "FSRS-6-pretrain", "FSRS-6-binary", "FSRS-6-rs"]
    of_2026 = ["FSRS-6-short", "FSRS-6-default", "FSRS-6-S0", "FSRS-6-two_buttons"]
    lstm = "LSTM-short-secs-duration-equalize_test_with_non_secs"
    old = write_results(tmp_path / "old", {name: [line(1, 0.3)] for name in of_2025})
    new = write_results(
        tmp_path / "new",
        {name: [line(1, 0.3)] for name in [*of_2026, lstm, "RWKV-Instant"]},
        ".jsonl.gz",
    )
    first, second = read_folders([old, new])
    names = {each.name: each for each in first.files}
    assert set(names) == {"FSRS-6", "FSRS-6-dry-run", "FSRS-6-pretrain", "FSRS-6-binary", "FSRS-rs"}
    others = {each.name: each for each in second.files}
    assert set(others) == {*names} - {"FSRS-rs"} | {
        "RWKV-P",
        "LSTM-short-secs-equalize_test_with_non_secs",
    }
    assert names["FSRS-6"].label == "FSRS-6 (old)"
    assert others["FSRS-6"].label == "FSRS-6 (new)"
    assert names["FSRS-rs"].label == "FSRS-rs"
    assert names["FSRS-6-pretrain"].parameter_count == 4
    assert others["RWKV-P"].inputs == "?"


def test_what_a_name_means_depends_on_the_year(tmp_path: Path) -> None:
    """Results of 2026 tell times; `-preset` and FSRS without `-short` changed their meaning."""
    files = ["FSRS-6", "FSRS-6-short", "FSRS-6-short-preset", "FSRS-6-default-short", "AVG"]
    old = write_results(tmp_path / "old", {name: many(0.3) for name in files})
    new = write_results(tmp_path / "new", {name: many(0.3, time_ms=12.5) for name in files})
    first, second = read_folders([old, new])
    assert {each.spelled: each.name for each in first.files} == {
        "FSRS-6": "FSRS-6",
        "FSRS-6-short": "FSRS-6",
        "FSRS-6-short-preset": "FSRS-6-preset",
        "FSRS-6-default-short": "FSRS-6-dry-run",
        "AVG": "AVG",
    }
    assert {each.spelled: each.name for each in second.files} == {
        "FSRS-6": "FSRS-6 of 2026",
        "FSRS-6-short": "FSRS-6",
        "FSRS-6-short-preset": "FSRS-6-preset-fallback_user",
        "FSRS-6-default-short": "FSRS-6-dry-run",
        "AVG": "AVG",
    }
    known = {each.spelled: each.configuration for each in second.files}
    assert known["FSRS-6"] is None  # without same-day reviews: not here
    assert known["FSRS-6-short"] is not None
    text = markdown(dataset_report([old, new]))
    for label in ("FSRS-6 per preset", "FSRS-6 per preset else all together", "FSRS-6 defaults"):
        assert label in text


def test_what_lines_may_hold(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path,
        {
            "FSRS-5": [
                line(2, 0.3, auc=None, parameters={"0": [1, 2], "7": [3, 4]}),
                line(1, 0.2, parameters=[5, 6]),
                line(2, 0.4, auc=math.nan),
            ],
            "MINE-short-secs": [line(1, 0.2)],
            "AVG": [],
        },
    )
    (found,) = read_folders([folder])
    files = {each.name: each for each in found.files}
    fsrs = files["FSRS-5"]
    assert fsrs.users.tolist() == [1, 2]
    assert fsrs.metrics["LogLoss"].tolist() == [0.2, 0.4]
    assert math.isnan(fsrs.metrics["AUC"][1])
    assert fsrs.repeated == 1
    assert fsrs.parameters is not None
    assert fsrs.parameters.tolist() == [[5, 6]]
    assert files["MINE-short-secs"].rows.secs
    assert "same-day" in files["MINE-short-secs"].rows_in_words
    assert found.unread == ("AVG.jsonl is empty",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "line 1"),
        (line(1, 0.2).encode() + b'\n{"user": 2}\n', "line 2"),
        (b'{"metrics": 3, "user": 1, "size": 2}\n', "line 1"),
        (b"\xff\xfe", "AVG.jsonl"),
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    folder = write_results(tmp_path, {"AVG": []})
    (folder / "result" / "AVG.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(words)):
        read_folders([folder])


def test_a_cut_off_archive_is_told(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"{each}\n" for each in many(0.3)).encode())
    (tmp_path / "AVG.jsonl.gz").write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"cannot be read|not a result"):
        read_folders([tmp_path])


def test_only_what_judges_the_same_reviews_is_compared(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path,
        {
            "AVG": many(0.4),
            "FSRS-6": many(0.3),
            "DASH": many(0.35)[:20],
            "MOVING-AVG": many(0.32),
            "FSRS-6-secs": many(0.2),
            "SM2": [line(user, 0.5, 7) for user in range(30)],  # other numbers of reviews
        },
    )
    (found,) = read_folders([folder])
    sets = compare(found.files)
    members = [{file.name for file in each.files} for each in sets]
    assert members == [{"AVG", "FSRS-6", "DASH"}, {"MOVING-AVG"}, {"FSRS-6-secs"}, {"SM2"}]
    assert [each.learns for each in sets] == [False, True, False, False]
    first = sets[0]
    assert len(first.users) == 20
    assert first.most_users == 30
    assert [(each.file.name, each.place) for each in first.tables[1].lines] == [
        ("FSRS-6", 1),
        ("DASH", 2),
        ("AVG", None),
    ]
    own = compare(found.files, users="each")[0]
    assert {each.file.name: each.users for each in own.tables[0].lines} == {
        "AVG": 30,
        "FSRS-6": 30,
        "DASH": 20,
    }
    losses = next(file for file in found.files if file.name == "FSRS-6").metrics["LogLoss"]
    assert own.tables[1].lines[0].means["LogLoss"].estimate == pytest.approx(losses.mean())


def test_differences_to_the_best_are_paired(tmp_path: Path) -> None:
    spread = write_results(
        tmp_path, {"FSRS-6": many(0.3, spread=0.5), "DASH": many(0.32, spread=0.5)}
    )
    (found,) = read_folders([spread])
    (comparison,) = compare(found.files)
    worse = comparison.tables[1].lines[1]
    assert worse.to_best is not None
    assert worse.to_best.low > 0  # though the means' own intervals overlap widely
    assert worse.to_best.half_width < 0.1 * worse.means["LogLoss"].half_width
    assert worse.set_p_value < 0.01


def test_what_changed_against_a_baseline(tmp_path: Path) -> None:
    before = write_results(tmp_path / "a", {"AVG": many(0.4), "DASH": many(0.35), "SM2": many(0.5)})
    sizes_moved = [line(user, 0.34, 51 if user < 5 else 50 + 10 * user) for user in range(30)]
    now = write_results(tmp_path / "b", {"AVG": many(0.4), "DASH": many(0.3), "HLR": sizes_moved})
    old, new = read_folders([before]), read_folders([now])
    found = {each.file.name: each for each in changes(new[0].files, old[0].files)}
    assert set(found) == {"AVG", "DASH"}
    assert found["AVG"].verdict("users") == "unchanged"
    assert found["DASH"].verdict("users") == "better"
    back = {each.file.name: each for each in changes(old[0].files, new[0].files)}
    assert back["DASH"].verdict("reviews") == "worse"
    document = dataset_report([now], baseline=before)
    text = markdown(document)
    assert "Only in the baseline: SM2." in text
    assert "Not in the baseline: HLR." in text


def test_no_figure_reads_as_the_opposite_of_its_verdict(tmp_path: Path) -> None:
    """Most users gain a little, two much: half of the interval's width exceeds the mean gain."""
    before = [line(user, 0.5) for user in range(30)]
    after = [line(user, 0.4 if user < 2 else 0.498) for user in range(30)]
    old = write_results(tmp_path / "a", {"DASH": before})
    document = dataset_report([write_results(tmp_path / "b", {"DASH": after})], baseline=old)
    (table,) = (each for each in document.tables() if each.name == "changes")
    cells = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    cell = cells["log loss by users"]
    assert isinstance(cell, Figure)
    assert cell.ends is not None
    low, high = cell.ends
    assert cells["verdict by users"] == "better"
    assert (high - low) / 2 > -cell.value  # as ± it would leave room for 0
    shown = written(cell, Column("log loss by users"))
    assert re.fullmatch(r"−0\.00\d+ \[−0\.0\d+, −0\.00\d+\]", shown)
    (row,) = as_json(document)["tables"]["changes"]["rows"]
    assert row["log loss by users high"] == pytest.approx(high, abs=1e-9)


def led(found: Path, **options: Any) -> str:
    return "\n".join(dataset_report([found], **options).lead)


def test_the_lead_names_who_can_be_the_best_by_the_metric(tmp_path: Path) -> None:
    """Who leads by log loss need not be who leads by the metric of choice."""
    files = {"DASH": many(0.30, auc=0.6), "HLR": many(0.35, auc=0.8), "AVG": many(0.4, auc=0.5)}
    text = led(write_results(tmp_path / "a", files), metric="AUC")
    assert "DASH has the lowest mean log loss" in text
    assert "By AUC none but HLR can be the best" in text
    text = led(write_results(tmp_path / "b", {"AVG": many(0.2), "DASH": many(0.3)}))
    assert "than the floor. The floor has a lower mean log loss by reviews and by users." in text
    assert "By log loss none but average can be the best" in text


@pytest.mark.parametrize(("users", "told"), [(1, False), (2, False), (7, False), (8, True)])
def test_few_users_tell_nothing(users: int, told: bool, tmp_path: Path) -> None:
    files = {"DASH": many(0.3, users=users), "HLR": many(0.5, users=users)}
    folder = write_results(tmp_path / "new", files)
    text = led(folder)
    assert ("none but DASH can be the best" in text) == told
    assert ("Can't tell yet" in text) != told
    (comparison,) = compare(read_folders([folder])[0].files)
    p_values = [each.set_p_value for each in comparison.tables[0].lines]
    assert all(map(math.isnan, p_values)) != told
    old = write_results(tmp_path / "old", {"DASH": many(0.4, users=users)})
    (change,) = changes(read_folders([folder])[0].files, read_folders([old])[0].files)
    assert change.verdict("users") == ("better" if told else "can't tell")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["smECE", "AUC"])
def test_a_metric_that_not_all_models_have(metric: str, tmp_path: Path) -> None:
    with_it = [
        json.dumps({"metrics": {"LogLoss": 0.3, "smECE": 0.1}, "user": user, "size": 9})
        for user in range(9)
    ]
    files = {"DASH": with_it, "HLR": [line(user, 0.4, 9, auc=0.7) for user in range(9)]}
    text = led(write_results(tmp_path, files), metric=metric)
    assert f"which can be the best by {metric}: 0 of 9 users have it for all models" in text


def test_few_shared_users_are_told_first(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"DASH": many(0.3), "HLR": many(0.4), "AVG": many(0.5)[:1]})
    assert "over 1 user only, of 30" in led(folder)
    assert "average has results of 1 user;" in led(folder)
    other = [line(user, 0.4, 55 + 10 * user) for user in range(1, 30)]
    folder = write_results(tmp_path / "b", {"DASH": many(0.3), "HLR": [*many(0.4)[:1], *other]})
    assert "over 1 user only, of 30" in led(folder)
    assert "different numbers of reviews" in led(folder)


@pytest.mark.parametrize("fingerprint", ["a" * 64, "b" * 64])
def test_results_on_data_sets_that_differ_are_told(fingerprint: str, tmp_path: Path) -> None:
    folders = []
    for name, of in (("a", "a" * 64), ("b", fingerprint)):
        folder = write_results(tmp_path / name, {"DASH": many(0.3), "HLR": many(0.4)})
        setup = {
            "srs_eval": "1.0",
            "data": {"users": 30, "fingerprint": of},
            "options": {},
            "configurations": {
                name: {"model": name, "model_version": 1, "protocol": {}}
                for name in ("DASH", "HLR")
            },
        }
        (folder / "setup.json").write_text(json.dumps(setup))
        folders.append(folder)
    lead = dataset_report(folders).lead
    assert ("data sets that differ" in lead[0]) == (fingerprint[0] == "b")
    lead = dataset_report(folders[:1], baseline=folders[1]).lead
    assert ("data sets that differ" in lead[0]) == (fingerprint[0] == "b")


@pytest.mark.filterwarnings("error")
def test_users_without_reviews_weigh_nothing(tmp_path: Path) -> None:
    nobody = {
        name: [line(user, 0.3 + user / 99, 0) for user in range(9)] for name in ("DASH", "HLR")
    }
    assert "Judged on 0" in led(write_results(tmp_path / "a", nobody))
    one = {name: [*lines[1:], line(9, 0.4, 70)] for name, lines in nobody.items()}
    (comparison,) = compare(read_folders([write_results(tmp_path / "b", one)])[0].files)
    means = [table.lines[0].means["LogLoss"] for table in comparison.tables]
    assert means[0].estimate == 0.4
    assert math.isnan(means[0].low)
    assert means[1].low < means[1].estimate < means[1].high


def test_a_bias_is_judged_by_its_size(tmp_path: Path) -> None:
    def biased(bias: float) -> list[str]:
        return [
            json.dumps(
                {"metrics": {"LogLoss": 0.3, "MBE": bias + user / 999}, "user": user, "size": 9}
            )
            for user in range(9)
        ]

    new = write_results(tmp_path / "new", {"DASH": biased(-0.02)})
    old = write_results(tmp_path / "old", {"DASH": biased(-0.1)})
    of = [read_folders([each])[0].files for each in (new, old)]
    assert changes(*of, metric="MBE")[0].verdict("users") == "better"
    assert changes(*of[::-1], metric="MBE")[0].verdict("reviews") == "worse"
    assert changes(*of, metric="ICI")[0].verdict("users") == "can't tell"  # nobody has it


def test_a_baseline_with_one_model_twice_is_refused(tmp_path: Path) -> None:
    new = write_results(tmp_path / "new", {"FSRS-6-dry-run": many(0.3)})
    two = {"FSRS-6-dry-run": many(0.3), "FSRS-6-default": many(0.4)}
    old = write_results(tmp_path / "old", two)
    with pytest.raises(InputError, match="are both FSRS-6-dry-run"):
        dataset_report([new], baseline=old)


# Layouts


@pytest.mark.parametrize(
    ("value", "half_width", "shown"),
    [
        (0.084111111, 0.0010011111, ("0.084", "0.0010")),
        (0.083999999, 0.0009999999, ("0.084", "0.0010")),
        (0.4148, 0.01164, ("0.41", "0.012")),
        (4.48, 0.13, ("4.5", "0.13")),
        (132.4, 21.7, ("132", "22")),
        (0.3, 0, ("0.3000", "0")),
    ],
)
def test_rounding_is_srs_benchmarks(
    value: float, half_width: float, shown: tuple[str, str]
) -> None:
    assert rounded(value, half_width) == shown


@given(st.floats(0.01, 10), st.floats(1e-6, 0.9))
def test_half_widths_have_two_digits(value: float, half_width: float) -> None:
    mean_shown, half_shown = rounded(value, half_width)
    assert float(half_shown) == pytest.approx(half_width, rel=0.051)
    assert len(half_shown.replace(".", "").lstrip("0")) == 2
    assert len(half_shown.partition(".")[2]) == len(mean_shown.partition(".")[2]) + 1


def test_a_matrix_has_no_minus_before_nothing(tmp_path: Path) -> None:
    after = [line(user, 0.5 + moved) for user, moved in enumerate([0.01, -0.02, -0.03, 0.04])]
    folder = write_results(tmp_path, {"HLR": [line(user, 0.5) for user in range(4)], "DASH": after})
    pictures = {each.name: each for each in dataset_report([folder]).pictures()}
    drawn = svg(pictures["wilcoxon"], "p")
    assert drawn.count(">0.00<") == 2
    assert "0.00" not in drawn.replace(">0.00<", "")


def test_colours() -> None:
    assert share_colour(0.0) == "#ff0000"
    assert share_colour(1.0) == "#2db400"
    assert effect_colour(0.6, 0.001) == "darkgreen"
    assert effect_colour(-0.3, 0.001) == "red"
    assert effect_colour(0.9, 0.02) == "silver"
    assert effect_colour(0.1, math.nan) == "silver"


NASTY = '<script>alert("1")</script> | `a` *b* & ü'


def nasty_document() -> Document:
    from srs_eval.report import pictures

    draw = pictures.intervals([NASTY, "b"], [("x", [(1, 0.5, 1.5), (2, 1, 3)])], "u", floor=1.2)
    table = Table(
        "t",
        NASTY,
        (Column(NASTY), Column("share", percent=True, digits=1), Column("difference", signed=True)),
        (
            (NASTY, Figure(0.123), Figure(-0.01, 0.002, strong=True)),
            ("b", Figure(math.nan), Figure(0.0)),
            ("c", 1000, None),
        ),
    )
    return Document(
        NASTY,
        (NASTY,),
        (
            Section(NASTY, (NASTY, table, Picture("p", NASTY, NASTY, draw, table))),
            Section("second", (Picture("q", "again", "again", draw, None),)),
            Section("folded", (Section("inner", (table,)),), folded=True),
        ),
    )


ODD = {
    "one user": {"AVG": [line(1, 0.3)], "DASH": [line(1, 0.2)]},
    "the floor alone": {"AVG": many(0.3)},
    "learning while judged": {"MOVING-AVG": many(0.3)},
    "no AUC": {"AVG": [line(user, 0.3 + user / 100, auc=None) for user in range(5)]},
    "no difference": {name: [line(user, 0.3) for user in range(5)] for name in ("HLR", "DASH")},
    "certain of all": {name: [line(user, 0.0) for user in range(3)] for name in ("HLR", "DASH")},
}


@pytest.mark.parametrize("files", ODD.values(), ids=ODD.keys())
@pytest.mark.filterwarnings("error")
def test_odd_results_have_a_report(files: dict[str, list[str]], tmp_path: Path) -> None:
    folder = write_results(tmp_path, files)
    assert "Metric card" in markdown(dataset_report([folder], baseline=folder))
    document = dataset_report([folder], metric="AUC", users="each")
    check_page(page(document))
    json.dumps(as_json(document), allow_nan=False)


class Strict(HTMLParser):
    """What a page holds; fails on elements that are not closed in order."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str) -> Strict:
    """Well-formed, self-contained, without a request, with names that are unique."""
    parser = Strict()
    parser.feed(text)
    assert not parser.open
    identities = [each["id"] for _, each in parser.elements if "id" in each]
    assert len(identities) == len(set(identities))
    for name, attributes in parser.elements:
        assert name not in ("img", "iframe", "object", "image")
        for key in ("src", "href", "action"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:")), (name, value)
            if value and value.startswith("#"):
                assert value[1:] in identities
    assert [name for name, _ in parser.elements].count("script") == 1
    outside = set(re.findall(r"https?://[^\"'\s<)]+", text)) - {"http://www.w3.org/2000/svg"}
    assert not outside
    assert "@import" not in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(drawing)
        assert "var(--ink)" in drawing
        assert "#0102" not in drawing
        assert "#0103" not in drawing
    return parser


def test_a_page_stands_alone_and_escapes() -> None:
    text = page(nasty_document())
    check_page(text)
    assert "alert(" in text
    assert "<script>alert" not in text
    assert text == page(nasty_document())  # the same, byte for byte
    assert 'data-v="-0.01"><b>−0.0100±0.0020</b>' in text.replace("−0.010±", "−0.0100±")
    assert text.count("The same as a table") == 1


def test_markdown_of_anything_is_one_table_row_each() -> None:
    text = markdown(nasty_document())
    rows = [each for each in text.splitlines() if each.startswith("| ")]
    assert len(rows) == 2 * 5  # the table, and the one that stands for a picture
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "\\<script\\>" in text
    assert "folded" not in text
    assert "second" not in text  # it holds a picture only


def test_csv_has_every_digit() -> None:
    table = nasty_document().sections[0].blocks[1]
    assert isinstance(table, Table)
    header, first, second, third = csv.reader(as_csv(table).splitlines())
    assert header == [NASTY, "share", "difference", "difference half-width"]
    assert first == [NASTY, "0.123", "-0.01", "0.002"]
    assert second == ["b", "", "0.0", ""]
    assert third == ["c", "1000", "", ""]


def test_figures_as_people_read_them() -> None:
    signed = Column("d", signed=True)
    assert written(Figure(-0.0021, 0.0008), signed) == "−0.0021±0.00080"
    assert written(Figure(0.0021, 0.0008), signed) == "+0.0021±0.00080"
    assert written(Figure(-0.00001), Column("d", digits=3)) == "0.000"
    assert written(Figure(0.5), Column("s", percent=True, digits=1)) == "50.0 %"
    assert written(Figure(-0.0021, ends=(-0.0103, -0.00001)), signed) == (
        "−0.00210 [−0.01030, −0.00001]"
    )
    whole = Column("d", digits=4, by_half_width=False, signed=True)
    assert written(Figure(0.0021, ends=(-0.0103, 0.0131)), whole) == "+0.0021 [−0.0103, +0.0131]"
    assert written(Figure(0.0, ends=(0.0, 0.0)), whole) == "0.0000 [0.0000, 0.0000]"
    assert written(Figure(0.25, ends=(math.nan, math.nan)), whole) == "+0.2500"
    assert written(None, signed) == "–"
    assert written(349923850, signed) == "349,923,850"


# The command


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "srs_eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_batch_and_its_report(simulated_dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    batch = run(
        *("batch", "--dataset", simulated_dataset, "--models", "AVG,90%,SM2,MOVING-AVG"),
        *("--out", out, "--jobs", "1"),
    )
    assert batch.returncode == 0, batch.stderr
    made = {name: tmp_path / name for name in ("r.html", "r.md", "csv", "png")}
    done = run(
        *("report", out, "--baseline", out, "--columns", "logloss,ICI,smECE,seconds"),
        *("--html", made["r.html"], "--md", made["r.md"]),
        *("--csv", made["csv"], "--png", made["png"]),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    html = made["r.html"].read_text(encoding="utf-8")
    check_page(html)
    assert str(tmp_path) not in html
    text = made["r.md"].read_text(encoding="utf-8")
    assert "smECE" in text
    assert "s / 10,000 reviews" in text
    assert "unchanged" in text
    assert "srs-eval " in text.split("Metric card")[1]
    means = list(csv.DictReader((made["csv"] / "1-means-by-users.csv").open(encoding="utf-8")))
    results = [json.loads(each) for each in (out / "result" / "AVG.jsonl").open()]
    shared = {each["user"] for each in results}
    for name in ("90%", "SM2"):
        sizes = {
            each["user"]: each["size"]
            for each in map(json.loads, (out / "result" / f"{name}.jsonl").open())
        }
        alike = {each["user"] for each in results if sizes.get(each["user"]) == each["size"]}
        shared = shared & alike or shared  # else it stands in a table of its own
    expected = np.mean([each["metrics"]["LogLoss"] for each in results if each["user"] in shared])
    (average,) = (each for each in means if each["model"] == "average")
    assert float(average["log loss ↓"]) == pytest.approx(expected)
    assert average["place"] == ""
    pictures = sorted(made["png"].glob("*.png"))
    assert pictures
    assert all(each.read_bytes().startswith(b"\x89PNG") for each in pictures)


def test_the_terminal_shows_what_fits(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path / "r", {"AVG": many(0.4), "FSRS-6": many(0.3), "DASH": many(0.35)}
    )
    done = run("report", folder)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "FSRS-6 has the lowest mean log loss" in done.stdout.replace("\n", " ")
    assert "Metric card" in done.stdout
    assert "columns more" in done.stdout


def test_averages_of_a_batch(
    simulated_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas

    out = tmp_path / "out"
    batch = ["batch", "--dataset", str(simulated_dataset), "--models", "AVG,90%,MOVING-AVG"]
    assert main([*batch, "--out", str(out), "--jobs", "1"]) == 0
    capsys.readouterr()
    report = ["report", str(out), "--average", ",".join(MODES), "--csv", str(tmp_path / "csv")]
    assert main(report) == 2
    assert "evaluate with --raw" in capsys.readouterr().err
    assert main([*batch, "--out", str(out), "--jobs", "1", "--raw"]) == 0
    assert main(report) == 0
    path = tmp_path / "csv" / "1-averages-LogLoss.csv"
    (average,) = (
        each for each in csv.DictReader(path.open(encoding="utf-8")) if each["model"] == "average"
    )
    rows = pandas.read_parquet(out / "raw" / "AVG")
    loss = pandas.Series(-np.log(np.where(rows.y == 1, rows.p, 1 - rows.p).clip(2e-16, 1)))
    assert float(average["global"]) == pytest.approx(loss.mean(), abs=1e-6)
    for mode, keys in (("deck", ["user", "deck_id"]), ("card", ["user", "card_id"])):
        by_group = loss.groupby([rows[key] for key in keys]).mean()
        assert float(average[f"by {mode}"]) == pytest.approx(by_group.mean(), abs=1e-6)
    # By users it is the table's own figure, as models that learn while judged stand apart.
    means = csv.DictReader((tmp_path / "csv" / "1-means-by-users.csv").open(encoding="utf-8"))
    (of_table,) = (each for each in means if each["model"] == "average")
    assert float(average["by user"]) == pytest.approx(float(of_table["log loss ↓"]), abs=1e-6)
    assert "moving average" not in path.read_text(encoding="utf-8")


def test_srs_benchmarks_predictions_are_read(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"AVG": [line(1, 0.4, 2), line(2, 0.3, 1)]})
    (folder / "raw").mkdir()
    lines = [{"user": 1, "p": [0.5, 0.9], "y": [0, 1]}, {"user": 2, "p": [0.8], "y": [1]}]
    text = "".join(f"{json.dumps(each)}\n" for each in lines)
    (folder / "raw" / "AVG.jsonl").write_text(text)
    tables = {t.name: t for t in dataset_report([folder], average=["global", "user"]).tables()}
    assert [column.title for column in tables["averages-groups"].columns][1:3] == ["global", "user"]
    assert tables["averages-groups"].rows[0][1:3] == (3, 2)
    again = json.dumps({"user": 1, "p": [0.5], "y": [0]}) + "\n" + text
    (folder / "raw" / "AVG.jsonl").write_text(again)  # of a repeated user the last line counts
    tables = {t.name: t for t in dataset_report([folder], average=["global", "user"]).tables()}
    assert tables["averages-groups"].rows[0][1:3] == (3, 2)
    (folder / "raw" / "AVG.jsonl").write_text(text.replace("0.9", "1.9"))
    with pytest.raises(InputError, match="between 0 and 1"):
        dataset_report([folder], average=["global"])
    for p, y in ((0.5, 1), ([[0.5]], [[1]]), ([0.5], [1, 0]), (["a"], [1])):
        (folder / "raw" / "AVG.jsonl").write_text(json.dumps({"user": 1, "p": p, "y": y}))
        with pytest.raises(InputError, match="line 1: lists p and y of one length"):
            dataset_report([folder], average=["global"])


@pytest.mark.parametrize("text", ["{}\n", "[]\n", '{"size": "a", "seconds": 1}\n'])
def test_damaged_timings_cost_the_speed_alone(tmp_path: Path, text: str) -> None:
    folder = write_results(tmp_path, {"AVG": [line(1, 0.4), line(2, 0.3)]})
    (folder / "timing").mkdir(exist_ok=True)
    (folder / "timing" / "AVG.jsonl").write_text(text)
    ((file,),) = (found.files for found in read_folders([folder]))
    assert file.seconds_per_10k is None


def predicted(users: dict[int, int], p: float, **more: Any) -> str:
    """Lists of predictions: users with their numbers of reviews, of which all but one recall."""
    lines = [
        {"user": user, "p": [p] * size, "y": [0] + [1] * (size - 1), **more}
        for user, size in users.items()
    ]
    return "".join(f"{json.dumps(each)}\n" for each in lines)


def test_averages_are_over_the_same_users(tmp_path: Path) -> None:
    """Not over those that each happens to have predictions of, nor over parts of their reviews."""
    sizes = {1: 10, 2: 20, 3: 30}
    lines = [line(user, 0.3, size) for user, size in sizes.items()]
    folder = write_results(tmp_path, {"AVG": lines, "DASH": lines, "HLR": lines, "SM2": lines})
    raw = folder / "raw"
    raw.mkdir()
    (raw / "AVG.jsonl").write_text(predicted(sizes, 0.8))
    (raw / "DASH.jsonl").write_text(predicted({1: 10, 2: 20, 3: 29}, 0.8))
    (raw / "HLR.jsonl").write_text(predicted({2: 20, 3: 30}, 0.7))
    report = dataset_report([folder], average=["user", "global"])
    tables = {each.name: each for each in report.tables()}
    groups = {row[0]: row[1:3] for row in tables["averages-groups"].rows}
    assert set(groups.values()) == {(20, 1)}
    assert len(groups) == 3  # SM2 has none
    loss = {row[0]: row[1:] for row in tables["averages-LogLoss"].rows}
    assert loss["average"][1] is None  # the floor has no place
    assert [loss[name][1] for name in ("DASH", "HLR")] == [1, 2]
    assert loss["average"][0] == loss["DASH"][0]
    (raw / "HLR.jsonl").write_text(predicted({2: 19, 3: 29}, 0.7))
    with pytest.raises(InputError, match="are not of the reviews"):
        dataset_report([folder], average=["global"])


def test_lists_know_no_decks(tmp_path: Path) -> None:
    import pandas

    folder = write_results(tmp_path, {"DASH": [line(1, 0.3, 4)], "HLR": [line(1, 0.4, 4)]})
    (folder / "raw").mkdir()
    (folder / "raw" / "DASH.jsonl").write_text(predicted({1: 4}, 0.8))
    with pytest.raises(InputError, match="--average deck: no predictions"):
        dataset_report([folder], average=["deck"])
    rows = {"user": 1, "configuration": "HLR", "p": 0.7, "y": [0, 1, 1, 1], "deck_id": [1, 1, 2, 2]}
    pandas.DataFrame(rows).to_parquet(folder / "raw" / "others.parquet")
    report = dataset_report([folder], average=["user", "deck"])
    tables = {each.name: each for each in report.tables()}
    found = {row[0]: row[1:] for row in tables["averages-LogLoss"].rows}
    assert found["DASH"][2:] == (None, None)
    assert found["HLR"][3] == 1
    assert "average" in markdown(report)


def test_a_folder_named_twice_is_one(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", {"DASH": many(0.3), "HLR": many(0.4)})
    (tmp_path / "again").symlink_to(folder)
    (found,) = read_folders([folder, tmp_path / "again", folder / "result", folder])
    assert [each.label for each in found.files] == ["DASH", "HLR"]


def test_results_without_metrics_are_told(tmp_path: Path) -> None:
    bare = json.dumps({"metrics": {}, "user": 1, "size": 2})
    with pytest.raises(InputError, match="no line holds a metric"):
        dataset_report([write_results(tmp_path, {"DASH": [bare]})])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--out", "x"], "--out is for results merge"),
        (["merge", "--repair", "--out", "x"], "--repair is for results check"),
    ],
)
def test_options_of_the_other_action_are_refused(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path, {"DASH": many(0.3)})
    assert main(["results", arguments[0], str(folder), *arguments[1:]]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{r}", "--metric", "loss"], "--metric takes"),
        (["{r}", "--columns", "LogLoss,speed"], "--columns takes"),
        (["{r}", "--average", "week"], "--average takes"),
        (["{r}", "--users", "all"], "--users takes"),
        (["{r}/none"], "is no folder"),
        (["{t}"], "holds no result files"),
        (["{r}", "--html", "{t}/no/x.html"], "there is no folder"),
        (["{r}", "--html", "{r}/result/AVG.jsonl"], "not overwritten"),
        (["{r}", "--html", "-", "--md", "-"], "stdout can carry one"),
        (["{r}", "--csv", "{r}"], "lies in what the report is on"),
        (["{r}", "--png", "{r}/raw"], "lies in what the report is on"),
        (["{r}", "--json", "{r}/setup.json"], "lies in what the report is on"),
        (["{r}", "--csv"], "take a folder"),
    ],
)
def test_bad_input_is_told_in_a_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "r", {"AVG": many(0.4)})
    given_ = [each.format(r=folder, t=tmp_path) for each in arguments]
    assert main(["report", *given_]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


# One learner


def test_a_learners_report_in_every_form_without_names(tmp_path: Path) -> None:
    from srs_eval.anki_import import load_log
    from srs_eval.simulation import simulate_learner, write_collection

    collection = tmp_path / "somebody.anki2"
    write_collection(simulate_learner(1, 4_000), collection)
    exported = tmp_path / "exported"
    exported.mkdir()
    done = run(
        *("export", collection, "--models", "AVG,FSRS-6-dry-run,SM2", "--anonymous"),
        *("--html", exported / "r.html", "--md", exported / "r.md", "--json", exported / "r.json"),
        *("--csv", exported / "csv", "--png", exported / "png"),
    )
    assert done.returncode == 0, done.stderr
    html = (exported / "r.html").read_text(encoding="utf-8")
    check_page(html)
    for title in ("Answers", "Calibration", "Over time", "Your days", "What was read"):
        assert f">{title}<" in html
    text = (exported / "r.md").read_text(encoding="utf-8")
    assert text.index("## Answers") < text.index("Judged on") or "Judged on" in text.split("##")[0]
    assert text.rstrip().split("## ")[-1].startswith("Metric card")
    tables = json.loads((exported / "r.json").read_text(encoding="utf-8"))["tables"]
    rows = {each["model"]: each for each in tables["ranking"]["rows"]}
    assert rows["average"]["place"] is None
    written_rows = list(csv.DictReader((exported / "csv" / "ranking.csv").open(encoding="utf-8")))
    assert [each["model"] for each in written_rows] == list(rows)
    assert float(written_rows[0]["log loss"]) == rows[written_rows[0]["model"]]["log loss"]
    recalled = tables["months"]["rows"]
    judged = re.search(r"Judged on ([\d,]+) reviews", html)
    assert judged
    assert sum(each["reviews"] for each in recalled) == int(judged[1].replace(",", ""))
    assert {each.stem for each in (exported / "png").iterdir()} >= {"ranking", "calibration"}
    log = load_log(collection)
    names = {deck.name for deck in log.decks.values()} | {p.name for p in log.presets.values()}
    names |= {part for name in names for part in name.split("::")} - {"Default"}
    for path in [*exported.glob("r.*"), *exported.glob("csv/*")]:
        shown = path.read_text(encoding="utf-8")
        for name in filter(None, {*names, "somebody", str(tmp_path)}):
            assert not re.search(rf"(?<!\w){re.escape(name)}\b", shown), (path.name, name)
    assert "preset 1" in html.lower()


def test_months_add_up() -> None:
    from srs_eval.engine import evaluate
    from srs_eval.export import Outcome
    from srs_eval.over_time import dates, months
    from srs_eval.protocol import Protocol
    from srs_eval.simulation import simulate_learner

    configurations = resolve("AVG")
    outcome = Outcome(configurations)
    log = simulate_learner(5, 3000).log()
    for event in evaluate(log, configurations, use_cache=False, jobs=0):
        outcome.add(event)
    result = outcome.results["AVG"]
    found = months(result, dates(log, Protocol()))
    assert len(found) > 1
    assert sum(each.reviews for each in found) == result.size
    weights = [each.reviews for each in found]
    loss = np.average([each.log_loss.estimate for each in found], weights=weights)
    assert loss == pytest.approx(result.metrics.log_loss)
    predicted = np.average([each.predicted for each in found], weights=weights)
    assert predicted == pytest.approx(result.p.mean())
    assert len({each.name for each in found}) == len(found)


def test_a_ranking_of_what_has_finished_so_far_says_so() -> None:
    from srs_eval.engine import evaluate
    from srs_eval.export import Outcome
    from srs_eval.inspection import inspect_log
    from srs_eval.protocol import Protocol
    from srs_eval.report.learner import Learner, learner_document
    from srs_eval.simulation import simulate_learner

    log = simulate_learner(5, 3000).log()
    outcome = Outcome(resolve("AVG,90%,MOVING-AVG"))
    told = "so far: 2 of 3 models have finished"

    def report() -> str:
        inspection = inspect_log(log)
        learner = Learner(inspection, Protocol(), outcome, "", "", None, "", {}, {}, {}, True)
        return markdown(learner_document(learner))

    for event in evaluate(log, resolve("AVG,MOVING-AVG"), use_cache=False, jobs=0):
        outcome.add(event)
    lead, _, ranked = report().lower().partition("\n## ")
    assert told in lead
    assert told in ranked
    for event in evaluate(log, resolve("90%"), use_cache=False, jobs=0):
        outcome.add(event)
    assert "so far" not in report().lower()


def test_too_little_is_told_in_the_report(tmp_path: Path) -> None:
    from srs_eval.simulation import simulate_learner, write_collection

    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(4, 300), path)
    done = run("export", path, "--models", "AVG,90%", "--md", "-")
    assert done.returncode == 0, done.stderr
    assert "collection.anki2" in done.stdout.splitlines()[0]
    assert "Traceback" not in done.stderr


# The published files


@pytest.fixture(scope="module")
def published_tables() -> dict[str, list[list[str]]]:
    """The tables of the published files' README, by heading."""
    text = (shared_or_skip("published") / "README.md").read_text(encoding="utf-8")
    found: dict[str, list[list[str]]] = {}
    for block in re.split(r"\n\n", text):
        rows = [
            each.strip("| ").split(" | ") for each in block.splitlines() if each.startswith("| ")
        ]
        if rows and rows[0][0] == "file":
            found[str(len(found))] = rows[2:]
    return found


def test_published_means_and_intervals(published_tables: dict[str, list[list[str]]]) -> None:
    (folder,) = read_folders([shared_or_skip("published")])
    (comparison,) = compare(folder.files)
    assert comparison.reviews == 349_923_850
    assert len(comparison.users) == 9_999
    lines = [{each.file.name: each for each in table.lines} for table in comparison.tables]
    names = ("LogLoss", "RMSE(bins)", "AUC")
    weighted, unweighted, exact = (published_tables[key] for key in "012")
    for name, *figures in exact:
        for figure, (weighting, metric) in zip(
            figures, [(w, m) for w in range(2) for m in names], strict=True
        ):
            assert f"{lines[weighting][name].means[metric].estimate:.6f}" == figure, (name, metric)
        assert lines[0][name].undefined == {"LogLoss": 0, "RMSE(bins)": 0, "AUC": 61}
    off = []
    for weighting, table in enumerate((weighted, unweighted)):
        for name, parameters, *cells in table:
            assert lines[weighting][name].file.parameter_count == int(parameters)
            for metric, cell in zip(names, cells, strict=True):
                mean_printed, half_printed = cell.split("±")
                interval = lines[weighting][name].means[metric]
                digit = 10.0 ** -len(half_printed.partition(".")[2]) / 2
                printed = float(half_printed)
                assert 0.95 * (printed - digit) <= interval.half_width <= 1.05 * (printed + digit)
                shown = rounded(interval.estimate, interval.half_width)[0]
                if shown != mean_printed:
                    off.append((weighting, name, metric))
    # The file of this row is newer than the row.
    assert off == [(1, "FSRS-5", "LogLoss"), (1, "FSRS-5", "AUC")]


def test_published_report_as_a_page(tmp_path: Path) -> None:
    text = page(dataset_report([shared_or_skip("published")]))
    check_page(text)
    assert "FSRSv4 and DASH change places" in text
    assert "61 users" in text
