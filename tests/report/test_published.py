"""A report of the published files has the published figures."""

from __future__ import annotations

import itertools
import re

import pytest

from srs_eval.benchmark.leaderboard import compare_files
from srs_eval.benchmark.result_files import read_folders
from srs_eval.models.configurations import readable_name
from srs_eval.report.dataset import build_results_report
from srs_eval.report.files import render_as
from tests.conftest import shared_or_skip
from tests.helpers.reports import check_page


@pytest.fixture(scope="module")
def published_tables() -> dict[str, list[list[str]]]:
    """Return the tables of the published files' README, by their number."""
    text = (shared_or_skip("published") / "README.md").read_text(encoding="utf-8")
    tables: dict[str, list[list[str]]] = {}
    for block in re.split(r"\n\n", text):
        rows = [
            line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| ")
        ]
        if rows and rows[0][0] == "file":
            tables[str(len(tables))] = rows[2:]
    return tables


@pytest.mark.slow
def test_means_and_intervals_equal_the_published_ones(
    published_tables: dict[str, list[list[str]]],
) -> None:
    (folder,) = read_folders([shared_or_skip("published")])
    (comparison,) = compare_files(folder.files)
    assert comparison.review_count == 349_923_850
    assert len(comparison.users) == 9_999
    lines = []
    for leaderboard in comparison.leaderboards:
        lines.append({row.file.name: row for row in leaderboard.rows})
    names = ("LogLoss", "RMSE(bins)", "AUC")
    weighted, unweighted, exact = (published_tables[key] for key in "012")
    columns = list(itertools.product(range(2), names))
    for name, *figures in exact:
        for figure, (weighting, metric) in zip(figures, columns, strict=True):
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
def test_page_of_published_files_names_models_that_change_places(
    published_tables: dict[str, list[list[str]]],
) -> None:
    """Check the sentence against the README's figures."""
    text = render_as(build_results_report([shared_or_skip("published")]), "html")
    check_page(text)
    exact = [(name, *map(float, figures)) for name, *figures in published_tables["2"]]
    by_reviews = [name for name, *_ in sorted(exact, key=lambda row: row[1])]
    by_users = [name for name, *_ in sorted(exact, key=lambda row: row[4])]
    moved = [readable_name(a) for a, b in zip(by_reviews, by_users, strict=True) if a != b]
    assert {"FSRSv4", "DASH"} <= {*moved}
    *all_but_last, last = moved
    assert f": {', '.join(all_but_last)} and {last} change places." in text
    assert "61 users" in text
