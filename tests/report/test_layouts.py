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

from srs_eval.data.errors import format_csv
from srs_eval.report import pictures
from srs_eval.report.comparison import _effect_cell
from srs_eval.report.dataset import build_results_report
from srs_eval.report.document import (
    Code,
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    _format_with_interval,
    format_cell,
)
from srs_eval.report.export import build_report_document, flatten_table
from srs_eval.report.files import _render_markdown, render_as
from srs_eval.report.pictures import render_svg
from tests.helpers.marks import slow_except
from tests.report.helpers import check_page, many_lines, result_line, write_results


@pytest.mark.parametrize(
    ("value", "half_width", "shown"),
    [
        (0.33699, 0.00419, ("0.3370", "0.0042")),
        (0.025018, 0.000381, ("0.02502", "0.00038")),
        (0.083999999, 0.0009999999, ("0.0840", "0.0010")),
        (0.4148, 0.01164, ("0.415", "0.012")),
        (4.48, 0.13, ("4.480", "0.130")),
        (0.3, 0, ("0.3000", "0")),
    ],
)
def test_rounding_is_srs_benchmarks(
    value: float, half_width: float, shown: tuple[str, str]
) -> None:
    assert _format_with_interval(value, half_width) == shown


@given(st.floats(0.01, 10), st.floats(1e-6, 0.9))
def test_half_widths_have_two_digits(value: float, half_width: float) -> None:
    mean_shown, half_shown = _format_with_interval(value, half_width)
    assert float(half_shown) == pytest.approx(half_width, rel=0.051)
    decimals = len(half_shown.partition(".")[2])
    assert decimals == len(mean_shown.partition(".")[2])
    assert len(half_shown.replace(".", "").lstrip("0")) == 2 or decimals == 3


def test_a_matrix_has_no_minus_before_nothing(tmp_path: Path) -> None:
    after = [
        result_line(user, 0.5 + moved) for user, moved in enumerate([0.01, -0.02, -0.03, 0.04])
    ]
    folder = write_results(
        tmp_path, {"HLR": [result_line(user, 0.5) for user in range(4)], "DASH": after}
    )
    pictures = {each.name: each for each in build_results_report([folder]).pictures()}
    drawn = render_svg(pictures["wilcoxon"])[0].decode()
    assert drawn.count(">0.00<") == 2
    assert "0.00" not in drawn.replace(">0.00<", "")


def test_shades_of_grey_tell_better_from_worse() -> None:
    from matplotlib.colors import to_rgb

    effects = [_effect_cell(value, True) for value in (0.6, 0.3, 0.1, -0.1, -0.3, -0.6)]
    assert math.isnan((_effect_cell(0.9, False) or effects[0])[1])
    drawn = pictures.matrix_chart([str(k) for k in range(6)], [effects])()
    grey = [
        np.dot(to_rgb(each.get_facecolor()), (0.3, 0.59, 0.11)) for each in drawn.axes[0].patches
    ]
    assert (np.diff(grey) > 0.05).all()


NASTY = '<script>alert("1")</script> | `a` *b* & ü'


def nasty_document() -> Document:
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


ODD = {
    "one user": {"AVG": [result_line(1, 0.3)], "DASH": [result_line(1, 0.2)]},
    "the baseline alone": {"AVG": many_lines(0.3)},
    "learning while evaluated": {"MOVING-AVG": many_lines(0.3)},
    "no AUC": {"AVG": [result_line(user, 0.3 + user / 100, auc=None) for user in range(5)]},
    "no difference": {
        name: [result_line(user, 0.3) for user in range(5)] for name in ("HLR", "DASH")
    },
    "certain of all": {
        name: [result_line(user, 0.0) for user in range(3)] for name in ("HLR", "DASH")
    },
}


@pytest.mark.parametrize("files", slow_except([ODD["one user"]], ODD.values()), ids=ODD.keys())
@pytest.mark.filterwarnings("error")
def test_odd_results_have_a_report(files: dict[str, list[str]], tmp_path: Path) -> None:
    folder = write_results(tmp_path, files)
    assert "Metric card" in _render_markdown(build_results_report([folder], baseline=folder))
    document = build_results_report([folder], metric="AUC", means="each")
    check_page(render_as(document, "html"))
    json.dumps(build_report_document(document), allow_nan=False)


def test_a_page_stands_alone_and_escapes() -> None:
    text = render_as(nasty_document(), "html")
    check_page(text)
    assert "alert(" in text
    assert "<script>alert" not in text
    assert text == render_as(nasty_document(), "html")  # the same, byte for byte
    assert 'data-v="-0.01"><b>−0.0100±0.0020</b>' in text
    assert text.count("The same as a table") == 1


def test_markdown_of_anything_is_one_table_row_each() -> None:
    text = _render_markdown(nasty_document())
    rows = [each for each in text.splitlines() if each.startswith("| ")]
    assert len(rows) == 2 * 5  # the table, and the one that stands for a picture
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "\\<script\\>" in text
    assert "folded" not in text
    assert "second" not in text  # it holds a picture only


def test_what_is_enough_for_a_forum() -> None:
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
    text, html = _render_markdown(document), render_as(document, "html")
    check_page(html)
    rows = [each for each in text.splitlines() if each.startswith("| ")]
    assert rows[2:] == ["| a | 0.3000 | 1 |", "| ★ **d** | 0.3000 | 1 |"]
    assert "2 more rows are left out." in text
    assert "<details><summary>Parameters for \\<x\\></summary>\n\n```\n0.1, 2.3\n```" in text
    assert "**Hard?** used as it should be" in text
    assert "evidence" not in text
    assert "<pre>0.1, 2.3</pre>" in html
    assert html.count('<tr class="own"><td>d</td>') == 4  # in brief, and unfolded
    assert '<th scope="col" class="n minor">' in html


def test_a_model_far_off_does_not_stretch_the_axis() -> None:
    values = [(0.3 + k / 100, 0.28 + k / 100, 0.32 + k / 100) for k in range(6)]
    labels = [str(number) for number in range(7)]
    drawn = pictures.interval_chart(labels, [("log loss", [*values, (7.0, 6.5, 7.5)])], "log loss")
    axes = drawn().axes[0]
    assert 0.37 < axes.get_xlim()[1] < 1
    assert "7.00 →" in [each.get_text() for each in axes.texts]
    near = pictures.interval_chart(labels[:6], [("log loss", values)], "log loss")
    assert not near().axes[0].texts


def test_csv_has_every_digit() -> None:
    table = nasty_document().sections[0].blocks[1]
    assert isinstance(table, Table)
    header, first, second, third = csv.reader(format_csv(flatten_table(table, {})).splitlines())
    assert header == [NASTY, "share", "difference", "difference half-width"]
    assert first == [NASTY, "0.123", "-0.01", "0.002"]
    assert second == ["b", "", "0.0", ""]
    assert third == ["c", "1000", "", ""]


def test_figures_as_people_read_them() -> None:
    signed = Column("d", signed=True)
    assert format_cell(Figure(-0.0021, 0.0008), signed) == "−0.00210±0.00080"
    assert format_cell(Figure(0.0021, 0.0008), signed) == "+0.00210±0.00080"
    assert format_cell(Figure(-0.00001), Column("d", digits=3)) == "0.000"
    assert format_cell(Figure(0.5), Column("s", percent=True, digits=1)) == "50.0 %"
    assert format_cell(Figure(-0.0021, ends=(-0.0103, -0.00001)), signed) == (
        "−0.00210 [−0.01030, −0.00001]"
    )
    whole = Column("d", digits=4, round_by_interval=False, signed=True)
    assert (
        format_cell(Figure(0.0021, ends=(-0.0103, 0.0131)), whole) == "+0.0021 [−0.0103, +0.0131]"
    )
    assert format_cell(Figure(0.0, ends=(0.0, 0.0)), whole) == "0.0000 [0.0000, 0.0000]"
    assert format_cell(Figure(0.25, ends=(math.nan, math.nan)), whole) == "+0.2500"
    assert format_cell(None, signed) == "–"
    assert format_cell(349923850, signed) == "349,923,850"


def test_commands_in_sentences_are_code() -> None:
    shown = _render_markdown(Document("t", ("See `srs-eval compare --json`, *not* `a`.",), ()))
    assert "See `srs-eval compare --json`, \\*not\\* \\`a\\`." in shown
    shown = render_as(Document("t", ("See `srs-eval compare --json`, <not> `a`.",), ()), "html")
    assert "See <code>srs-eval compare --json</code>, &lt;not&gt; `a`." in shown


def test_each_weighting_has_a_baseline_of_its_own(tmp_path: Path) -> None:
    baseline = [result_line(user, 0.6 + 0.05 * user, size=1_000 * (1 + user)) for user in range(4)]
    others = [result_line(user, 0.5, size=1_000 * (1 + user)) for user in range(4)]
    folder = write_results(tmp_path, {"AVG": baseline, "DASH": others})
    (picture,) = (
        each for each in build_results_report([folder]).pictures() if each.name == "means"
    )
    figure = picture.draw()
    lines = figure.axes[0].lines
    baselines = [each for each in lines if each.get_linestyle() == "--"]
    by_users, by_reviews = (float(each.get_xdata()[0]) for each in baselines)
    assert by_users == pytest.approx(0.675)
    assert by_reviews == pytest.approx(0.7)
    assert len({each.get_color() for each in baselines}) == 2
    legend = [each.get_text() for each in figure.legends[0].get_texts()]
    assert {"baseline by users", "baseline by reviews"} < {*legend}


def test_the_best_share_of_precision_is_the_highest(tmp_path: Path) -> None:
    """Tables, arrows and what is called the best go by one direction for every metric."""
    from srs_eval.benchmark.leaderboard import compare_files
    from srs_eval.benchmark.result_files import read_folders
    from srs_eval.metrics import METRIC_BY_KEY
    from srs_eval.report.comparison import _heading_with_arrow

    low, high = (
        [
            json.dumps({"metrics": dict.fromkeys(METRIC_BY_KEY, x), "user": k, "size": 9})
            for k in range(3)
        ]
        for x in (0.2, 0.4)
    )
    folder = write_results(tmp_path, {"HLR": low, "DASH": high})
    (comparison,) = compare_files(read_folders([folder])[0].files, metrics=tuple(METRIC_BY_KEY))
    for key, fact in METRIC_BY_KEY.items():
        best = {"higher": "DASH", "lower": "HLR", "nearer 0": "HLR"}[fact.better]
        assert comparison.leaderboards[0].best_labels(key) == {best}, key
        column = _heading_with_arrow(key)
        arrow = {"higher": "↑", "lower": "↓", "nearer 0": ""}[fact.better]
        assert (column if isinstance(column, str) else column.title).endswith(arrow)
