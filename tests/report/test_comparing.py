"""Comparisons of result files by one metric, and their sentences."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from srs_eval.benchmark.leaderboard import compare_files, compare_runs
from srs_eval.benchmark.result_files import read_folders
from srs_eval.data.errors import InputError
from srs_eval.report.cells import format_cell
from srs_eval.report.dataset import build_results_report
from srs_eval.report.export import build_report_document
from srs_eval.report.files import render_as
from srs_eval.stats.tables import Column, Figure
from tests.helpers.marks import slow_except
from tests.helpers.reports import many_lines, result_line, write_results


@pytest.mark.slow
def test_files_of_other_reviews_are_compared_apart(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path,
        {
            "AVG": many_lines(0.4),
            "FSRS-6": many_lines(0.3),
            "DASH": many_lines(0.35)[:20],
            "MOVING-AVG": many_lines(0.32),
            "FSRS-6-secs": many_lines(0.2),
            "SM2": [result_line(user, 0.5, 7) for user in range(30)],  # other numbers of reviews
        },
    )
    (results,) = read_folders([folder])
    sets = compare_files(results.files)
    members = []
    for file_set in sets:
        members.append({file.name for file in file_set.files})
    assert members == [{"AVG", "FSRS-6", "DASH"}, {"MOVING-AVG"}, {"FSRS-6-secs"}, {"SM2"}]
    assert [file_set.is_online for file_set in sets] == [False, True, False, False]
    first = sets[0]
    assert len(first.users) == 20
    assert first.max_users == 30
    assert [(row.file.name, row.rank) for row in first.leaderboards[1].rows] == [
        ("FSRS-6", 1),
        ("DASH", 2),
        ("AVG", None),
    ]
    by_each = compare_files(results.files, users="each")[0]
    assert {row.file.name: row.users for row in by_each.leaderboards[0].rows} == {
        "AVG": 30,
        "FSRS-6": 30,
        "DASH": 20,
    }
    losses = next(file for file in results.files if file.name == "FSRS-6").metrics["LogLoss"]
    assert by_each.leaderboards[1].rows[0].means["LogLoss"].estimate == pytest.approx(losses.mean())


def test_difference_to_the_best_is_paired(tmp_path: Path) -> None:
    spread = write_results(
        tmp_path, {"FSRS-6": many_lines(0.3, spread=0.5), "DASH": many_lines(0.32, spread=0.5)}
    )
    (results,) = read_folders([spread])
    (comparison,) = compare_files(results.files)
    worse = comparison.leaderboards[1].rows[1]
    assert worse.to_best is not None
    assert worse.to_best.low > 0  # though the means' own intervals overlap widely
    assert worse.to_best.half_width < 0.1 * worse.means["LogLoss"].half_width
    assert worse.confidence_set_p_value < 0.01


def test_changes_against_a_baseline_have_a_verdict(tmp_path: Path) -> None:
    before = write_results(
        tmp_path / "a", {"AVG": many_lines(0.4), "DASH": many_lines(0.35), "SM2": many_lines(0.5)}
    )
    sizes_moved = [
        result_line(user, 0.34, 51 if user < 5 else 50 + 10 * user) for user in range(30)
    ]
    after = write_results(
        tmp_path / "b", {"AVG": many_lines(0.4), "DASH": many_lines(0.3), "HLR": sizes_moved}
    )
    old = read_folders([before])
    new = read_folders([after])
    changes = {change.file.name: change for change in compare_runs(new[0].files, old[0].files)}
    assert set(changes) == {"AVG", "DASH"}
    assert changes["AVG"].verdict("users") == "unchanged"
    assert changes["DASH"].verdict("users") == "better"
    back = {change.file.name: change for change in compare_runs(old[0].files, new[0].files)}
    assert back["DASH"].verdict("reviews") == "worse"
    document = build_results_report([after], baseline=before)
    text = render_as(document, "md")
    assert "Only in the baseline: SM2." in text
    assert "Not in the baseline: HLR." in text
    subset = build_results_report([after], baseline=before, models="DASH,AVG", users="0-9")
    assert "Only in the baseline" not in render_as(subset, "md")
    (table,) = build_report_document(subset)["tables"]["changes"]["rows"][:1]
    assert (table["users"], table["only_before"]) == (10, 0)


def test_range_of_a_change_agrees_with_its_verdict(tmp_path: Path) -> None:
    """Check many users with a small gain and two with a large one: the range is skewed."""
    before = [result_line(user, 0.5) for user in range(30)]
    after = [result_line(user, 0.4 if user < 2 else 0.498) for user in range(30)]
    old = write_results(tmp_path / "a", {"DASH": before})
    document = build_results_report([write_results(tmp_path / "b", {"DASH": after})], baseline=old)
    (table,) = (table for table in document.tables() if table.name == "changes")
    cells = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    cell = cells["log loss by users"]
    assert isinstance(cell, Figure)
    assert cell.ends is not None
    low, high = cell.ends
    assert cells["verdict by users"] == "better"
    assert (high - low) / 2 > -cell.value  # with ± it would include 0
    text = format_cell(cell, Column("log loss by users"))
    assert re.fullmatch(r"−0\.00\d+ \[−0\.0\d+, −0\.00\d+\]", text)
    (row,) = build_report_document(document)["tables"]["changes"]["rows"]
    assert row["log_loss_by_users_high"] == pytest.approx(high, abs=1e-9)


def build_lead(folder: Path, **options: Any) -> str:
    return "\n".join(build_results_report([folder], **options).lead)


def test_lead_names_the_best_by_the_chosen_metric(tmp_path: Path) -> None:
    """Check that the best by log loss and the best by the chosen metric may differ."""
    files = {
        "DASH": many_lines(0.30, auc=0.6),
        "HLR": many_lines(0.35, auc=0.8),
        "AVG": many_lines(0.4, auc=0.5),
    }
    text = build_lead(write_results(tmp_path / "a", files), metric="AUC")
    assert "DASH has the lowest mean log loss" in text
    assert "By AUC, only HLR can be the best" in text
    text = build_lead(
        write_results(tmp_path / "b", {"AVG": many_lines(0.2), "DASH": many_lines(0.3)})
    )
    assert (
        "with the baseline. The baseline has a lower mean log loss by reviews and by users." in text
    )
    assert "By log loss, only average can be the best" in text
    text = build_lead(
        write_results(tmp_path / "c", {"DASH": many_lines(0.3), "HLR": many_lines(0.35, users=8)})
    )
    assert "HLR has results of 8 users; --means each" in text


@pytest.mark.parametrize(
    ("users", "is_enough"),
    slow_except({(8, True)}, [(1, False), (2, False), (7, False), (8, True)]),
)
def test_lead_of_few_users_names_no_best(users: int, is_enough: bool, tmp_path: Path) -> None:
    files = {"DASH": many_lines(0.3, users=users), "HLR": many_lines(0.5, users=users)}
    folder = write_results(tmp_path / "new", files)
    text = build_lead(folder)
    assert ("only DASH can be the best" in text) == is_enough
    assert ("Can't tell yet" in text) != is_enough
    (comparison,) = compare_files(read_folders([folder])[0].files)
    p_values = [row.confidence_set_p_value for row in comparison.leaderboards[0].rows]
    assert all(map(math.isnan, p_values)) != is_enough
    old = write_results(tmp_path / "old", {"DASH": many_lines(0.4, users=users)})
    (change,) = compare_runs(read_folders([folder])[0].files, read_folders([old])[0].files)
    assert change.verdict("users") == ("better" if is_enough else "can't tell")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["smECE", "AUC"])
def test_lead_says_that_not_all_models_have_the_metric(metric: str, tmp_path: Path) -> None:
    with_it = [
        json.dumps({"metrics": {"LogLoss": 0.3, "smECE": 0.1}, "user": user, "size": 9})
        for user in range(9)
    ]
    files = {"DASH": with_it, "HLR": [result_line(user, 0.4, 9, auc=0.7) for user in range(9)]}
    text = build_lead(write_results(tmp_path, files), metric=metric)
    assert f"best by {metric}: all models have this metric for 0 of 9 users" in text


@pytest.mark.slow
def test_lead_warns_of_few_shared_users(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path, {"DASH": many_lines(0.3), "HLR": many_lines(0.4), "AVG": many_lines(0.5)[:1]}
    )
    assert "Only 1 of 30 users is included" in build_lead(folder)
    assert "average has results of 1 user;" in build_lead(folder)
    other_sizes = [result_line(user, 0.4, 55 + 10 * user) for user in range(1, 30)]
    folder = write_results(
        tmp_path / "b", {"DASH": many_lines(0.3), "HLR": [*many_lines(0.4)[:1], *other_sizes]}
    )
    assert "Only 1 of 30 users is included" in build_lead(folder)
    assert "different numbers of reviews" in build_lead(folder)


@pytest.mark.slow
@pytest.mark.parametrize("fingerprint", ["a" * 64, "b" * 64])
def test_lead_warns_of_data_sets_that_differ(fingerprint: str, tmp_path: Path) -> None:
    folders = []
    for name, data_fingerprint in (("a", "a" * 64), ("b", fingerprint)):
        folder = write_results(tmp_path / name, {"DASH": many_lines(0.3), "HLR": many_lines(0.4)})
        setup = {
            "srs_eval": "1.0",
            "data": {"users": 30, "fingerprint": data_fingerprint},
            "options": {},
            "configurations": {
                name: {"model": name, "model_version": 1, "protocol": {}}
                for name in ("DASH", "HLR")
            },
        }
        (folder / "setup.json").write_text(json.dumps(setup))
        folders.append(folder)
    lead = build_results_report(folders).lead
    assert ("different data sets" in lead[0]) == (fingerprint[0] == "b")
    lead = build_results_report(folders[:1], baseline=folders[1]).lead
    assert ("different data sets" in lead[0]) == (fingerprint[0] == "b")


@pytest.mark.filterwarnings("error")
def test_users_without_reviews_have_no_weight(tmp_path: Path) -> None:
    lines = [result_line(user, 0.3 + user / 99, 0) for user in range(9)]
    nobody = {"DASH": lines, "HLR": lines}
    assert "Evaluated on 0" in build_lead(write_results(tmp_path / "a", nobody))
    nobody_but_one = {name: [*lines[1:], result_line(9, 0.4, 70)] for name, lines in nobody.items()}
    (comparison,) = compare_files(
        read_folders([write_results(tmp_path / "b", nobody_but_one)])[0].files
    )
    means = [table.rows[0].means["LogLoss"] for table in comparison.leaderboards]
    assert means[0].estimate == 0.4
    assert math.isnan(means[0].low)
    assert means[1].low < means[1].estimate < means[1].high


def test_change_of_bias_is_judged_by_its_size(tmp_path: Path) -> None:
    def biased(bias: float) -> list[str]:
        return [
            json.dumps(
                {"metrics": {"LogLoss": 0.3, "MBE": bias + user / 999}, "user": user, "size": 9}
            )
            for user in range(9)
        ]

    new = write_results(tmp_path / "new", {"DASH": biased(-0.02)})
    old = write_results(tmp_path / "old", {"DASH": biased(-0.1)})
    files = [read_folders([folder])[0].files for folder in (new, old)]
    assert compare_runs(*files, metric="MBE")[0].verdict("users") == "better"
    assert compare_runs(*files[::-1], metric="MBE")[0].verdict("reviews") == "worse"
    assert (
        compare_runs(*files, metric="ICI")[0].verdict("users") == "can't tell"
    )  # no file has this metric


def test_baseline_with_one_model_twice_is_refused(tmp_path: Path) -> None:
    new = write_results(tmp_path / "new", {"FSRS-6-dry-run": many_lines(0.3)})
    two = {"FSRS-6-dry-run": many_lines(0.3), "FSRS-6-default": many_lines(0.4)}
    old = write_results(tmp_path / "old", two)
    with pytest.raises(InputError, match="are both FSRS-6-dry-run"):
        build_results_report([new], baseline=old)
