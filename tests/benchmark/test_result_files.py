"""Check how result files are read: names, lines, damage."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path

import pytest

from srs_eval.benchmark.result_files import read_folders
from srs_eval.data.errors import InputError
from srs_eval.report.dataset import build_results_report
from srs_eval.report.files import render_as
from tests.helpers.reports import many_lines, result_line, write_results


def test_spellings_of_both_years_are_one(tmp_path: Path) -> None:
    of_2025 = ["FSRS-6", "FSRS-6-dry-run", "FSRS-6-pretrain", "FSRS-6-binary", "FSRS-6-rs"]
    of_2025.append("RWKV-P")
    of_2026 = ["FSRS-6-short", "FSRS-6-default", "FSRS-6-S0", "FSRS-6-two_buttons"]
    lstm = "LSTM-short-secs-duration-equalize_test_with_non_secs"
    old = write_results(tmp_path / "old", {name: [result_line(1, 0.3)] for name in of_2025})
    new = write_results(
        tmp_path / "new",
        {name: [result_line(1, 0.3)] for name in [*of_2026, lstm, "RWKV-Instant"]},
        ".jsonl.gz",
    )
    first, second = read_folders([old, new])
    old_files = {file.name: file for file in first.files}
    of_fsrs = {"FSRS-6", "FSRS-6-dry-run", "FSRS-6-pretrain", "FSRS-6-binary", "FSRS-rs"}
    assert set(old_files) == of_fsrs | {"RWKV-Instant"}
    new_files = {file.name: file for file in second.files}
    assert set(new_files) == {*old_files} - {"FSRS-rs"} | {
        "LSTM-short-secs-equalize_test_with_non_secs"
    }
    assert old_files["FSRS-6"].label == "FSRS-6 (old)"
    assert new_files["FSRS-6"].label == "FSRS-6 (new)"
    assert old_files["FSRS-rs"].label == "FSRS-rs"
    assert old_files["FSRS-6-pretrain"].parameter_count == 4
    assert new_files["RWKV-Instant"].inputs == "FIL, G, SR, AT"


def test_meaning_of_a_name_depends_on_the_year(tmp_path: Path) -> None:
    """Tell years apart by times; `-preset` and FSRS without `-short` changed their meaning."""
    files = ["FSRS-6", "FSRS-6-short", "FSRS-6-short-preset", "FSRS-6-default-short", "AVG"]
    old = write_results(tmp_path / "old", {name: many_lines(0.3) for name in files})
    new = write_results(tmp_path / "new", {name: many_lines(0.3, time_ms=12.5) for name in files})
    first, second = read_folders([old, new])
    assert {file.spelled_name: file.name for file in first.files} == {
        "FSRS-6": "FSRS-6",
        "FSRS-6-short": "FSRS-6",
        "FSRS-6-short-preset": "FSRS-6-preset",
        "FSRS-6-default-short": "FSRS-6-dry-run",
        "AVG": "AVG",
    }
    assert {file.spelled_name: file.name for file in second.files} == {
        "FSRS-6": "FSRS-6 of 2026",
        "FSRS-6-short": "FSRS-6",
        "FSRS-6-short-preset": "FSRS-6-preset-fallback_user",
        "FSRS-6-default-short": "FSRS-6-dry-run",
        "AVG": "AVG",
    }
    configurations = {file.spelled_name: file.configuration for file in second.files}
    assert configurations["FSRS-6"] is None  # without same-day reviews: not here
    assert configurations["FSRS-6-short"] is not None
    text = render_as(build_results_report([old, new]), "md")
    for label in ("FSRS-6 per preset", "FSRS-6 per preset else all together", "FSRS-6 defaults"):
        assert label in text


def test_read_folders_accepts_optional_fields_of_lines(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path,
        {
            "FSRS-5": [
                result_line(2, 0.3, auc=None, parameters={"0": [1, 2], "7": [3, 4]}),
                result_line(1, 0.2, parameters=[5, 6]),
                result_line(2, 0.4, auc=math.nan),
            ],
            "MINE-short-secs": [result_line(1, 0.2)],
            "AVG": [],
        },
    )
    (results,) = read_folders([folder])
    files = {file.name: file for file in results.files}
    fsrs = files["FSRS-5"]
    assert fsrs.users.tolist() == [1, 2]
    assert fsrs.metrics["LogLoss"].tolist() == [0.2, 0.4]
    assert math.isnan(fsrs.metrics["AUC"][1])
    assert fsrs.repeated_lines == 1
    assert fsrs.parameters is not None
    assert fsrs.parameters.tolist() == [[5, 6]]
    assert files["MINE-short-secs"].evaluated_rows.secs
    assert "same-day" in files["MINE-short-secs"].rows_description
    assert results.unread_files == ("AVG.jsonl is empty",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "line 1"),
        (result_line(1, 0.2).encode() + b'\n{"user": 2}\n', "line 2"),
        (b'{"metrics": 3, "user": 1, "size": 2}\n', "line 1"),
        (b"\xff\xfe", "AVG.jsonl"),
    ],
)
def test_a_damaged_file_is_said(tmp_path: Path, content: bytes, words: str) -> None:
    folder = write_results(tmp_path, {"AVG": []})
    (folder / "result" / "AVG.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(words)):
        read_folders([folder])


def test_a_cut_off_archive_is_said(tmp_path: Path) -> None:
    archive = gzip.compress("".join(f"{line}\n" for line in many_lines(0.3)).encode())
    (tmp_path / "AVG.jsonl.gz").write_bytes(archive[:-30])
    with pytest.raises(InputError, match=r"cannot be read|not a result"):
        read_folders([tmp_path])


def test_a_torn_line_names_the_check(tmp_path: Path) -> None:
    (tmp_path / "FSRS-6.jsonl").write_text('{"user": 1, "size": 3, "metr')
    with pytest.raises(InputError, match=r"line 1: .*`srs-eval results check .*` lists such lines"):
        read_folders([tmp_path])
