"""Files of one metric held against each other, and what is said of it."""

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
from srs_eval.report.dataset import build_results_report
from srs_eval.report.document import Column, Figure, format_cell
from srs_eval.report.export import build_report_document
from srs_eval.report.files import _render_markdown
from tests.helpers.marks import slow_except
from tests.report.helpers import many_lines, result_line, write_results


@pytest.mark.slow
def test_only_what_evaluates_the_same_reviews_is_compared(tmp_path: Path) -> None:
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
    (found,) = read_folders([folder])
    sets = compare_files(found.files)
    members = [{file.name for file in each.files} for each in sets]
    assert members == [{"AVG", "FSRS-6", "DASH"}, {"MOVING-AVG"}, {"FSRS-6-secs"}, {"SM2"}]
    assert [each.is_online for each in sets] == [False, True, False, False]
    first = sets[0]
    assert len(first.users) == 20
    assert first.max_users == 30
    assert [(each.file.name, each.rank) for each in first.leaderboards[1].rows] == [
        ("FSRS-6", 1),
        ("DASH", 2),
        ("AVG", None),
    ]
    own = compare_files(found.files, users="each")[0]
    assert {each.file.name: each.users for each in own.leaderboards[0].rows} == {
        "AVG": 30,
        "FSRS-6": 30,
        "DASH": 20,
    }
    losses = next(file for file in found.files if file.name == "FSRS-6").metrics["LogLoss"]
    assert own.leaderboards[1].rows[0].means["LogLoss"].estimate == pytest.approx(losses.mean())


def test_differences_to_the_best_are_paired(tmp_path: Path) -> None:
    spread = write_results(
        tmp_path, {"FSRS-6": many_lines(0.3, spread=0.5), "DASH": many_lines(0.32, spread=0.5)}
    )
    (found,) = read_folders([spread])
    (comparison,) = compare_files(found.files)
    worse = comparison.leaderboards[1].rows[1]
    assert worse.to_best is not None
    assert worse.to_best.low > 0  # though the means' own intervals overlap widely
    assert worse.to_best.half_width < 0.1 * worse.means["LogLoss"].half_width
    assert worse.confidence_set_p_value < 0.01


def test_what_changed_against_a_baseline(tmp_path: Path) -> None:
    before = write_results(
        tmp_path / "a", {"AVG": many_lines(0.4), "DASH": many_lines(0.35), "SM2": many_lines(0.5)}
    )
    sizes_moved = [
        result_line(user, 0.34, 51 if user < 5 else 50 + 10 * user) for user in range(30)
    ]
    now = write_results(
        tmp_path / "b", {"AVG": many_lines(0.4), "DASH": many_lines(0.3), "HLR": sizes_moved}
    )
    old, new = read_folders([before]), read_folders([now])
    found = {each.file.name: each for each in compare_runs(new[0].files, old[0].files)}
    assert set(found) == {"AVG", "DASH"}
    assert found["AVG"].verdict("users") == "unchanged"
    assert found["DASH"].verdict("users") == "better"
    back = {each.file.name: each for each in compare_runs(old[0].files, new[0].files)}
    assert back["DASH"].verdict("reviews") == "worse"
    document = build_results_report([now], baseline=before)
    text = _render_markdown(document)
    assert "Only in the baseline: SM2." in text
    assert "Not in the baseline: HLR." in text
    part = build_results_report([now], baseline=before, models="DASH,AVG", users="0-9")
    assert "Only in the baseline" not in _render_markdown(part)
    (table,) = build_report_document(part)["tables"]["changes"]["rows"][:1]
    assert (table["users"], table["only_before"]) == (10, 0)


def test_no_figure_reads_as_the_opposite_of_its_verdict(tmp_path: Path) -> None:
    """Most users gain a little, two much: half of the interval's width exceeds the mean gain."""
    before = [result_line(user, 0.5) for user in range(30)]
    after = [result_line(user, 0.4 if user < 2 else 0.498) for user in range(30)]
    old = write_results(tmp_path / "a", {"DASH": before})
    document = build_results_report([write_results(tmp_path / "b", {"DASH": after})], baseline=old)
    (table,) = (each for each in document.tables() if each.name == "changes")
    cells = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    cell = cells["log loss by users"]
    assert isinstance(cell, Figure)
    assert cell.ends is not None
    low, high = cell.ends
    assert cells["verdict by users"] == "better"
    assert (high - low) / 2 > -cell.value  # as ± it would leave room for 0
    shown = format_cell(cell, Column("log loss by users"))
    assert re.fullmatch(r"−0\.00\d+ \[−0\.0\d+, −0\.00\d+\]", shown)
    (row,) = build_report_document(document)["tables"]["changes"]["rows"]
    assert row["log_loss_by_users_high"] == pytest.approx(high, abs=1e-9)


def led(found: Path, **options: Any) -> str:
    return "\n".join(build_results_report([found], **options).lead)


def test_the_lead_names_who_can_be_the_best_by_the_metric(tmp_path: Path) -> None:
    """Who leads by log loss need not be who leads by the metric of choice."""
    files = {
        "DASH": many_lines(0.30, auc=0.6),
        "HLR": many_lines(0.35, auc=0.8),
        "AVG": many_lines(0.4, auc=0.5),
    }
    text = led(write_results(tmp_path / "a", files), metric="AUC")
    assert "DASH has the lowest mean log loss" in text
    assert "By AUC none but HLR can be the best" in text
    text = led(write_results(tmp_path / "b", {"AVG": many_lines(0.2), "DASH": many_lines(0.3)}))
    assert (
        "than the baseline. The baseline has a lower mean log loss by reviews and by users." in text
    )
    assert "By log loss none but average can be the best" in text
    text = led(
        write_results(tmp_path / "c", {"DASH": many_lines(0.3), "HLR": many_lines(0.35, users=8)})
    )
    assert "HLR has results of 8 users; --means each" in text


@pytest.mark.parametrize(
    ("users", "said"), slow_except({(8, True)}, [(1, False), (2, False), (7, False), (8, True)])
)
def test_few_users_tell_nothing(users: int, said: bool, tmp_path: Path) -> None:
    files = {"DASH": many_lines(0.3, users=users), "HLR": many_lines(0.5, users=users)}
    folder = write_results(tmp_path / "new", files)
    text = led(folder)
    assert ("none but DASH can be the best" in text) == said
    assert ("Can't tell yet" in text) != said
    (comparison,) = compare_files(read_folders([folder])[0].files)
    p_values = [each.confidence_set_p_value for each in comparison.leaderboards[0].rows]
    assert all(map(math.isnan, p_values)) != said
    old = write_results(tmp_path / "old", {"DASH": many_lines(0.4, users=users)})
    (change,) = compare_runs(read_folders([folder])[0].files, read_folders([old])[0].files)
    assert change.verdict("users") == ("better" if said else "can't tell")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["smECE", "AUC"])
def test_a_metric_that_not_all_models_have(metric: str, tmp_path: Path) -> None:
    with_it = [
        json.dumps({"metrics": {"LogLoss": 0.3, "smECE": 0.1}, "user": user, "size": 9})
        for user in range(9)
    ]
    files = {"DASH": with_it, "HLR": [result_line(user, 0.4, 9, auc=0.7) for user in range(9)]}
    text = led(write_results(tmp_path, files), metric=metric)
    assert f"which can be the best by {metric}: 0 of 9 users have it for all models" in text


@pytest.mark.slow
def test_few_shared_users_are_said_first(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path, {"DASH": many_lines(0.3), "HLR": many_lines(0.4), "AVG": many_lines(0.5)[:1]}
    )
    assert "over 1 user only, of 30" in led(folder)
    assert "average has results of 1 user;" in led(folder)
    other = [result_line(user, 0.4, 55 + 10 * user) for user in range(1, 30)]
    folder = write_results(
        tmp_path / "b", {"DASH": many_lines(0.3), "HLR": [*many_lines(0.4)[:1], *other]}
    )
    assert "over 1 user only, of 30" in led(folder)
    assert "different numbers of reviews" in led(folder)


@pytest.mark.slow
@pytest.mark.parametrize("fingerprint", ["a" * 64, "b" * 64])
def test_results_on_data_sets_that_differ_are_said(fingerprint: str, tmp_path: Path) -> None:
    folders = []
    for name, of in (("a", "a" * 64), ("b", fingerprint)):
        folder = write_results(tmp_path / name, {"DASH": many_lines(0.3), "HLR": many_lines(0.4)})
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
    lead = build_results_report(folders).lead
    assert ("data sets that differ" in lead[0]) == (fingerprint[0] == "b")
    lead = build_results_report(folders[:1], baseline=folders[1]).lead
    assert ("data sets that differ" in lead[0]) == (fingerprint[0] == "b")


@pytest.mark.filterwarnings("error")
def test_users_without_reviews_weigh_nothing(tmp_path: Path) -> None:
    nobody = {
        name: [result_line(user, 0.3 + user / 99, 0) for user in range(9)]
        for name in ("DASH", "HLR")
    }
    assert "Evaluated on 0" in led(write_results(tmp_path / "a", nobody))
    one = {name: [*lines[1:], result_line(9, 0.4, 70)] for name, lines in nobody.items()}
    (comparison,) = compare_files(read_folders([write_results(tmp_path / "b", one)])[0].files)
    means = [table.rows[0].means["LogLoss"] for table in comparison.leaderboards]
    assert means[0].estimate == 0.4
    assert math.isnan(means[0].low)
    assert means[1].low < means[1].estimate < means[1].high


def test_a_bias_is_evaluated_by_its_size(tmp_path: Path) -> None:
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
    assert compare_runs(*of, metric="MBE")[0].verdict("users") == "better"
    assert compare_runs(*of[::-1], metric="MBE")[0].verdict("reviews") == "worse"
    assert compare_runs(*of, metric="ICI")[0].verdict("users") == "can't tell"  # nobody has it


def test_a_baseline_with_one_model_twice_is_refused(tmp_path: Path) -> None:
    new = write_results(tmp_path / "new", {"FSRS-6-dry-run": many_lines(0.3)})
    two = {"FSRS-6-dry-run": many_lines(0.3), "FSRS-6-default": many_lines(0.4)}
    old = write_results(tmp_path / "old", two)
    with pytest.raises(InputError, match="are both FSRS-6-dry-run"):
        build_results_report([new], baseline=old)
