"""The published files have the published figures."""

from __future__ import annotations

import re

import pytest

from srs_eval.benchmark.leaderboard import compare_files
from srs_eval.benchmark.result_files import read_folders
from srs_eval.models.configurations import readable_name
from srs_eval.report.dataset import build_results_report
from srs_eval.report.files import render_as
from tests.conftest import shared_or_skip
from tests.report.helpers import check_page


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


@pytest.mark.slow
def test_published_means_and_intervals(published_tables: dict[str, list[list[str]]]) -> None:
    (folder,) = read_folders([shared_or_skip("published")])
    (comparison,) = compare_files(folder.files)
    assert comparison.review_count == 349_923_850
    assert len(comparison.users) == 9_999
    lines = [{each.file.name: each for each in table.rows} for table in comparison.leaderboards]
    names = ("LogLoss", "RMSE(bins)", "AUC")
    weighted, unweighted, exact = (published_tables[key] for key in "012")
    for name, *figures in exact:
        for figure, (weighting, metric) in zip(
            figures, [(w, m) for w in range(2) for m in names], strict=True
        ):
            assert f"{lines[weighting][name].means[metric].estimate:.6f}" == figure, (name, metric)
        assert lines[0][name].undefined_users == {"LogLoss": 0, "RMSE(bins)": 0, "AUC": 61}
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
                decimals = len(mean_printed.partition(".")[2])
                if f"{interval.estimate:.{decimals}f}" != mean_printed:
                    off.append((weighting, name, metric))
    # The file of this row is newer than the row.
    assert off == [(1, "FSRS-5", "LogLoss"), (1, "FSRS-5", "AUC")]


@pytest.mark.slow
def test_published_report_as_a_page(published_tables: dict[str, list[list[str]]]) -> None:
    """Who changes places is told as the README's figures have it."""
    text = render_as(build_results_report([shared_or_skip("published")]), "html")
    check_page(text)
    exact = [(name, *map(float, figures)) for name, *figures in published_tables["2"]]
    by_reviews = [name for name, *_ in sorted(exact, key=lambda row: row[1])]
    by_users = [name for name, *_ in sorted(exact, key=lambda row: row[4])]
    moved = [readable_name(a) for a, b in zip(by_reviews, by_users, strict=True) if a != b]
    assert {"FSRSv4", "DASH"} <= {*moved}
    *others, last = moved
    assert f": {', '.join(others)} and {last} change places." in text
    assert "61 users" in text
