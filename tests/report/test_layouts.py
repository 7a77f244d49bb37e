"""Documents as pages, Markdown, CSV and text."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.advice.sentences import Bar
from srs_eval.data.errors import format_csv
from srs_eval.report import pictures
from srs_eval.report.cells import _format_with_interval, format_cell
from srs_eval.report.comparison import _effect_cell
from srs_eval.report.dataset import build_results_report
from srs_eval.report.document import Code, Document, Picture, Section
from srs_eval.report.export import build_report_document, flatten_table
from srs_eval.report.files import _render_html_row, render_as
from srs_eval.report.pictures import render_svg
from srs_eval.stats.tables import Column, Figure, Table
from tests.helpers.marks import slow_except
from tests.helpers.reports import check_page, many_lines, result_line, write_results


@pytest.mark.parametrize(
    ("value", "half_width", "expected"),
    [
        (0.33699, 0.00419, ("0.3370", "0.0042")),
        (0.025018, 0.000381, ("0.02502", "0.00038")),
        (0.083999999, 0.0009999999, ("0.0840", "0.0010")),
        (0.4148, 0.01164, ("0.415", "0.012")),
        (4.48, 0.13, ("4.480", "0.130")),
        (0.3, 0, ("0.3000", "0")),
    ],
)
def test_figures_are_rounded_as_by_srs_benchmark(
    value: float, half_width: float, expected: tuple[str, str]
) -> None:
    assert _format_with_interval(value, half_width) == expected


@given(st.floats(0.01, 10), st.floats(1e-6, 0.9))
def test_half_widths_have_two_significant_digits(value: float, half_width: float) -> None:
    mean_shown, half_shown = _format_with_interval(value, half_width)
    assert float(half_shown) == pytest.approx(half_width, rel=0.051)
    decimals = len(half_shown.partition(".")[2])
    assert decimals == len(mean_shown.partition(".")[2])
    assert len(half_shown.replace(".", "").lstrip("0")) == 2 or decimals == 3


def test_matrix_shows_zero_without_a_sign(tmp_path: Path) -> None:
    after = [
        result_line(user, 0.5 + moved) for user, moved in enumerate([0.01, -0.02, -0.03, 0.04])
    ]
    folder = write_results(
        tmp_path, {"HLR": [result_line(user, 0.5) for user in range(4)], "DASH": after}
    )
    pictures = {picture.name: picture for picture in build_results_report([folder]).pictures()}
    drawn = render_svg(pictures["wilcoxon"])[0].decode()
    assert drawn.count(">0.00<") == 2
    assert "0.00" not in drawn.replace(">0.00<", "")


def test_matrix_in_grey_orders_the_effects() -> None:
    from matplotlib.colors import to_rgb

    effects = [_effect_cell(value, True) for value in (0.6, 0.3, 0.1, -0.1, -0.3, -0.6)]
    assert math.isnan((_effect_cell(0.9, False) or effects[0])[1])
    drawn = pictures.matrix_chart([str(k) for k in range(6)], [effects])()
    grey = [
        np.dot(to_rgb(patch.get_facecolor()), (0.3, 0.59, 0.11)) for patch in drawn.axes[0].patches
    ]
    assert (np.diff(grey) > 0.05).all()


NASTY = '<script>alert("1")</script> | `a` *b* & ü'


def make_nasty_document() -> Document:
    draw = pictures.interval_chart(
        [NASTY, "b"], [("x", [(1, 0.5, 1.5), (2, 1, 3)])], "u", baselines=[1.2]
    )
    table = Table(
        "t",
        NASTY,
        (Column(NASTY), Column("share", percent=True, digits=1), Column("difference", signed=True)),
        (
            (NASTY, Figure(0.123), Figure(-0.01, 0.002, is_best=True)),
            ("b", Figure(math.nan), Figure(0.0)),
            ("c", 1000, None),
        ),
    )
    return Document(
        NASTY,
        (NASTY,),
        (
            Section(NASTY, (NASTY, table, Picture("p", NASTY, draw, table))),
            Section("second", (Picture("q", "again", draw),)),
            Section("folded", (Section("inner", (table,)),), folded=True),
        ),
    )


def make_same_lines(loss: float, users: int) -> list[str]:
    return [result_line(user, loss) for user in range(users)]


ODD = {
    "one user": {"AVG": [result_line(1, 0.3)], "DASH": [result_line(1, 0.2)]},
    "the baseline alone": {"AVG": many_lines(0.3)},
    "learning while evaluated": {"MOVING-AVG": many_lines(0.3)},
    "no AUC": {"AVG": [result_line(user, 0.3 + user / 100, auc=None) for user in range(5)]},
    "no difference": {"HLR": make_same_lines(0.3, 5), "DASH": make_same_lines(0.3, 5)},
    "certain of all": {"HLR": make_same_lines(0.0, 3), "DASH": make_same_lines(0.0, 3)},
}


@pytest.mark.parametrize("files", slow_except([ODD["one user"]], ODD.values()), ids=ODD.keys())
@pytest.mark.filterwarnings("error")
def test_report_of_odd_results_is_complete(files: dict[str, list[str]], tmp_path: Path) -> None:
    folder = write_results(tmp_path, files)
    assert "Metric card" in render_as(build_results_report([folder], baseline=folder), "md")
    document = build_results_report([folder], metric="AUC", means="each")
    check_page(render_as(document, "html"))
    json.dumps(build_report_document(document), allow_nan=False)


def test_page_is_self_contained_and_escapes_text() -> None:
    text = render_as(make_nasty_document(), "html")
    check_page(text)
    assert "alert(" in text
    assert "<script>alert" not in text
    assert text == render_as(make_nasty_document(), "html")  # the same, byte for byte
    assert 'data-v="-0.01"><b>−0.0100±0.0020</b>' in text
    assert text.count("The same as a table") == 1


def test_markdown_keeps_one_line_a_row_and_escapes_text() -> None:
    text = render_as(make_nasty_document(), "md")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 * 5  # the table, and the table in place of a picture
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "\\<script\\>" in text
    assert "folded" not in text
    assert "second" not in text  # the section has a picture only


def test_markdown_for_a_forum_is_brief_beside_the_page() -> None:
    table = Table(
        "t",
        "",
        (Column("model"), Column("loss"), Column("parameters", minor=True)),
        tuple((name, Figure(0.3), 1) for name in "abcd"),
        own_row=3,
        brief_rows=(0, 3),
    )
    paste = Section("Parameters for <x>", ("said", Code("0.1, 2.3")), folded=True)
    answer = Section("Hard?", ("evidence", table), folded=True, summary="used as it should be")
    document = Document("d", (), (Section("s", (table, paste, answer)),))
    text = render_as(document, "md")
    html = render_as(document, "html")
    check_page(html)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[2:] == ["| a | 0.3000 | 1 |", "| ★ **d** | 0.3000 | 1 |"]
    assert "2 more rows are left out." in text
    assert "<details><summary>Parameters for \\<x\\></summary>\n\n```\n0.1, 2.3\n```" in text
    assert "**Hard?** used as it should be" in text
    assert "evidence" not in text
    assert "<pre>0.1, 2.3</pre>" in html
    assert html.count('<tr class="own"><td>d</td>') == 4  # in brief, and unfolded
    assert '<th scope="col" class="n minor">' in html


def test_outlying_model_does_not_stretch_the_axis() -> None:
    values = [(0.3 + k / 100, 0.28 + k / 100, 0.32 + k / 100) for k in range(6)]
    labels = [str(number) for number in range(7)]
    drawn = pictures.interval_chart(labels, [("log loss", [*values, (7.0, 6.5, 7.5)])], "log loss")
    axes = drawn().axes[0]
    assert 0.37 < axes.get_xlim()[1] < 1
    assert "7.00 →" in [text.get_text() for text in axes.texts]
    near = pictures.interval_chart(labels[:6], [("log loss", values)], "log loss")
    assert not near().axes[0].texts


def test_csv_has_all_digits() -> None:
    table = make_nasty_document().sections[0].blocks[1]
    assert isinstance(table, Table)
    header, first, second, third = csv.reader(format_csv(flatten_table(table, {})).splitlines())
    assert header == [NASTY, "share", "difference", "difference half-width"]
    assert first == [NASTY, "0.123", "-0.01", "0.002"]
    assert second == ["b", "", "0.0", ""]
    assert third == ["c", "1000", "", ""]


def test_cells_have_signs_digits_and_ranges() -> None:
    signed = Column("d", signed=True)
    assert format_cell(Figure(-0.0021, 0.0008), signed) == "−0.00210±0.00080"
    assert format_cell(Figure(0.0021, 0.0008), signed) == "+0.00210±0.00080"
    assert format_cell(Figure(-0.00001), Column("d", digits=3)) == "0.000"
    assert format_cell(Figure(0.5), Column("s", percent=True, digits=1)) == "50.0 %"
    assert format_cell(Figure(-0.0021, ends=(-0.0103, -0.00001)), signed) == (
        "−0.00210 [−0.01030, −0.00001]"
    )
    fixed_digits = Column("d", digits=4, round_by_interval=False, signed=True)
    assert (
        format_cell(Figure(0.0021, ends=(-0.0103, 0.0131)), fixed_digits)
        == "+0.0021 [−0.0103, +0.0131]"
    )
    assert format_cell(Figure(0.0, ends=(0.0, 0.0)), fixed_digits) == "0.0000 [0.0000, 0.0000]"
    assert format_cell(Figure(0.25, ends=(math.nan, math.nan)), fixed_digits) == "+0.2500"
    assert format_cell(None, signed) == "–"
    assert format_cell(349923850, signed) == "349,923,850"


def test_commands_in_sentences_are_rendered_as_code() -> None:
    text = render_as(Document("t", ("See `srs-eval compare --json`, *not* `a`.",), ()), "md")
    assert "See `srs-eval compare --json`, \\*not\\* \\`a\\`." in text
    text = render_as(Document("t", ("See `srs-eval compare --json`, <not> `a`.",), ()), "html")
    assert "See <code>srs-eval compare --json</code>, &lt;not&gt; `a`." in text


def test_picture_of_means_has_a_baseline_by_weighting(tmp_path: Path) -> None:
    baseline = [result_line(user, 0.6 + 0.05 * user, size=1_000 * (1 + user)) for user in range(4)]
    model_lines = [result_line(user, 0.5, size=1_000 * (1 + user)) for user in range(4)]
    folder = write_results(tmp_path, {"AVG": baseline, "DASH": model_lines})
    (picture,) = (
        picture for picture in build_results_report([folder]).pictures() if picture.name == "means"
    )
    figure = picture.draw()
    lines = figure.axes[0].lines
    baselines = [line for line in lines if line.get_linestyle() == "--"]
    by_users, by_reviews = (float(line.get_xdata()[0]) for line in baselines)
    assert by_users == pytest.approx(0.675)
    assert by_reviews == pytest.approx(0.7)
    assert len({line.get_color() for line in baselines}) == 2
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"baseline by users", "baseline by reviews"} < {*legend}


def test_best_figure_follows_the_direction_of_its_metric(tmp_path: Path) -> None:
    """Check that tables, arrows and best figures take one direction for every metric."""
    from srs_eval.benchmark.leaderboard import compare_files
    from srs_eval.benchmark.result_files import read_folders
    from srs_eval.metrics import METRIC_BY_KEY
    from srs_eval.report.comparison import _heading_with_arrow

    def lines_of(value: float) -> list[str]:
        metrics = dict.fromkeys(METRIC_BY_KEY, value)
        return [json.dumps({"metrics": metrics, "user": user, "size": 9}) for user in range(3)]

    folder = write_results(tmp_path, {"HLR": lines_of(0.2), "DASH": lines_of(0.4)})
    (comparison,) = compare_files(read_folders([folder])[0].files, metrics=tuple(METRIC_BY_KEY))
    for key, fact in METRIC_BY_KEY.items():
        best = {"higher": "DASH", "lower": "HLR", "nearer 0": "HLR"}[fact.better]
        assert comparison.leaderboards[0].best_labels(key) == {best}, key
        column = _heading_with_arrow(key)
        arrow = {"higher": "↑", "lower": "↓", "nearer 0": ""}[fact.better]
        assert (column if isinstance(column, str) else column.title).endswith(arrow)


def test_html_bar_of_nothing_keeps_its_marker_and_note() -> None:
    nothing = _render_html_row(Bar("all", ("0 %", "90 %"), 0.0, marker=0.9, note="look"))
    assert '<i style="--at:90.0%;' in nothing
    assert "look</td>" in nothing
    without_marker = _render_html_row(Bar("last 90 days", ("", "8.2"), 0.0))
    assert "<i" not in without_marker
