"""`srs-eval report` on folders, as a user runs it."""

from __future__ import annotations

import csv
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from srs_eval.benchmark.result_files import read_folders
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError
from srs_eval.report.dataset import build_results_report
from srs_eval.report.files import render_as
from srs_eval.stats.users import AVERAGING_MODES
from tests.helpers.program import run_in_process
from tests.helpers.reports import check_page, many_lines, result_line, write_results


@pytest.mark.slow
def test_report_of_a_batch_has_its_figures_in_every_form(
    simulated_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    batch = ["batch", "--dataset", str(simulated_dataset), "--models", "AVG,90%,SM2,MOVING-AVG"]
    batched = run_in_process(*batch, "--out", out)
    assert batched.returncode == 0, batched.stderr
    batch_output = batched.stdout
    outputs = {name: tmp_path / name for name in ("r.html", "r.md", "csv")}
    report = ["report", str(out), "--baseline", str(out), "--columns", "logloss,ICI,smECE,seconds"]
    report += ["--html", str(outputs["r.html"]), "--md", str(outputs["r.md"])]
    assert main([*report, "--csv", str(outputs["csv"])]) == 0
    assert capsys.readouterr().out == ""
    html = outputs["r.html"].read_text(encoding="utf-8")
    check_page(html)
    assert str(tmp_path) not in html
    text = outputs["r.md"].read_text(encoding="utf-8")
    assert "smECE" in text
    assert "s / 10,000 reviews" in text
    assert "unchanged" in text
    assert "srs-eval " in text.split("Metric card")[1]
    assert "docs/protocol.md" in text.split("Metric card")[1]
    means = list(csv.DictReader((outputs["csv"] / "1-means-by-users.csv").open(encoding="utf-8")))
    results = [json.loads(line) for line in (out / "result" / "AVG.jsonl").open()]
    shared = {result["user"] for result in results}
    for name in ("90%", "SM2"):
        sizes = {
            result["user"]: result["size"]
            for result in map(json.loads, (out / "result" / f"{name}.jsonl").open())
        }
        same_size = {
            result["user"] for result in results if sizes.get(result["user"]) == result["size"]
        }
        # A model that shares no user has its own table.
        if shared & same_size:
            shared &= same_size
    expected = np.mean(
        [result["metrics"]["LogLoss"] for result in results if result["user"] in shared]
    )
    (average,) = (row for row in means if row["model"] == "average")
    assert float(average["log_loss"]) == pytest.approx(expected)
    assert (average["configuration"], average["file"]) == ("AVG", "AVG.jsonl")
    assert average["place"] == ""
    # A batch has printed the first table of each set of evaluated reviews.
    assert main(["report", str(out)]) == 0
    report_output = capsys.readouterr().out
    assert (
        0
        < batch_output.count("Evaluated on")
        == batch_output.count("Weighted by the number of reviews")
    )
    for table in batch_output.split("Weighted by the number of reviews\n")[1:]:
        assert re.split(r"\n\d columns? more", table.partition("\n\n")[0])[0] in report_output


def read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open(encoding="utf-8")))


def test_report_with_options_has_the_chosen_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = {"AVG": 0.4, "FSRS-5": 0.31, "FSRS-5-recency": 0.3, "DASH": 0.35, "OURS": 0.33}
    folder = write_results(
        tmp_path / "r", {name: many_lines(loss) for name, loss in losses.items()}
    )
    out = tmp_path / "csv"
    selection = ["--models", "avg,FSRS-5 recency,OURS", "--reference", "fsrs-5", "--users", "0-19"]
    layout = ["--matrix", "OURS,FSRS-5", "--digits", "5", "--csv", str(out), "--md", "-"]
    assert main(["report", str(folder), *selection, *layout]) == 0
    text = capsys.readouterr().out
    means = {row["configuration"]: row for row in read_rows(out / "means-by-users.csv")}
    assert list(means) == ["FSRS-5-recency", "FSRS-5", "OURS", "AVG"]
    assert means["FSRS-5"]["log_loss_difference"] == ""
    first = [json.loads(line)["metrics"]["LogLoss"] for line in many_lines(0.33)[:20]]
    less = [json.loads(line)["metrics"]["LogLoss"] for line in many_lines(0.31)[:20]]
    difference = float(means["OURS"]["log_loss_difference"])
    assert difference == pytest.approx(np.mean(first) - np.mean(less))
    assert f"{np.mean(first):.5f}±" in text
    assert "log loss vs FSRS-5" in text
    assert "< 0.001" in text.replace("\\", "")
    matrix = read_rows(out / "differences-by-users.csv")
    assert [row["configuration"] for row in matrix] == ["OURS", "FSRS-5"]
    assert float(matrix[0]["FSRS-5"]) == pytest.approx(difference)
    assert float(matrix[1]["OURS_low"]) == -float(matrix[0]["FSRS-5_high"])
    weights = np.log([50 + 10 * user for user in range(20)])
    (long,) = (
        row
        for row in read_rows(out / "results.csv")
        if row["configuration"] == "OURS"
        and row["weighted_by"] == "log reviews"
        and row["metric"] == "LogLoss"
    )
    assert long["file"] == "OURS.jsonl"
    assert float(long["mean"]) == pytest.approx(np.average(first, weights=weights))
    (pair,) = (
        row
        for row in read_rows(out / "pairs.csv")
        if row["configuration"] == "OURS" and row["other_configuration"] == "FSRS-5"
    )
    assert float(pair["r_p_holm"]) >= float(pair["r_p"]) > 0
    outputs = []
    for option in ("--users", "--means"):  # the old name of the option, and the present one
        assert main(["report", str(folder), option, "each"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


def test_learning_curve_has_bands_and_differences_to_the_average(tmp_path: Path) -> None:
    lines = {"AVG": many_lines(0.4), "DASH": many_lines(0.35)}
    folder = write_results(tmp_path / "r", lines)
    tables = {table.name: table for table in build_results_report([folder]).tables()}
    losses = {}
    for name, texts in lines.items():
        losses[name] = [json.loads(text)["metrics"]["LogLoss"] for text in texts]
    means = tables["by-size"]
    assert [column.title for column in means.columns][2:] == ["DASH", "average"]
    assert len(means.rows) == 10
    first = means.records()[0]
    assert (first["evaluated reviews"], first["users"]) == ("50 to 70", 3)
    assert first["DASH"] == pytest.approx(np.mean(losses["DASH"][:3]))
    assert first["DASH low"] < first["DASH"] < first["DASH high"]
    differences = tables["by-size-to-average"]
    assert [column.title for column in differences.columns][2:] == ["DASH"]
    for number, row in enumerate(differences.records()):
        users = slice(3 * number, 3 * number + 3)
        gains = np.subtract(losses["DASH"][users], losses["AVG"][users])
        assert row["DASH"] == pytest.approx(gains.mean())
        # Paired by user, and so narrower than the mean's interval.
        assert row["DASH high"] - row["DASH low"] < first["DASH high"] - first["DASH low"]


def test_learning_curve_without_the_average_has_no_differences(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", {"DASH": many_lines(0.35), "HLR": many_lines(0.4)})
    names = {table.name for table in build_results_report([folder]).tables()}
    assert "by-size" in names
    assert "by-size-to-average" not in names


def test_gain_of_a_higher_metric_is_above_zero(tmp_path: Path) -> None:
    lines = {"AVG": many_lines(0.4, auc=0.5), "DASH": many_lines(0.35, auc=0.7)}
    folder = write_results(tmp_path / "r", lines)
    report = build_results_report([folder], metric="AUC")
    (table,) = (table for table in report.tables() if table.name == "by-size-to-average")
    assert [row["DASH"] for row in table.records()] == pytest.approx([0.2] * 10)


@pytest.mark.slow
def test_tex_tables_and_pictures_fit_a_paper(tmp_path: Path) -> None:
    names = {"DASH": 0.3, "AVG": 0.5, "OUR_S-recency": 0.4}
    folder = write_results(tmp_path / "r", {name: many_lines(loss) for name, loss in names.items()})
    forms = ("tex", "png", "svg", "pdf")
    outputs = []
    for form in forms:
        outputs += [f"--{form}", str(tmp_path / form)]
    assert main(["report", str(folder), *outputs, "--inches", "5x3"]) == 0
    text = (tmp_path / "tex" / "means-by-users.tex").read_text(encoding="utf-8")
    assert "n = 30 users; 99~\\% confidence intervals (BCa bootstrap" in text
    assert "seed 0); best in bold.}" in text
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [row.count(" & ") for row in rows] == [5] * 4
    assert re.match(r"DASH & \\bfseries 0\.\d{3} \\pm 0\.\d{3} & ", rows[1])
    assert rows[2].startswith(r"OUR\_S-recency & 0.")
    assert re.search(r"\+0\.\d+ \[\+0\.\d+, \+0\.\d+\]", rows[2])
    for form, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        drawn = {
            picture.stem: picture.read_bytes() for picture in (tmp_path / form).glob(f"*.{form}")
        }
        assert {"means", "by-size", "distribution", "differences-by-reviews"} <= set(drawn)
        assert all(content.startswith(begins) for content in drawn.values())
    assert b'width="360pt" height="216pt"' in (tmp_path / "svg" / "means.svg").read_bytes()
    assert main(["report", str(folder), "--inches", "5x3x2"]) == 2


def test_report_in_the_terminal_fits_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = partial(Console, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr("srs_eval.cli.outputs.make_console", lambda stream: terminal(file=stream))
    folder = write_results(
        tmp_path / "r",
        {"AVG": many_lines(0.4), "FSRS-6": many_lines(0.3), "DASH": many_lines(0.35)},
    )
    assert main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "FSRS-6 has the lowest mean log loss" in out.replace("\n", " ")
    assert "Metric card" in out
    assert "more columns in" in out


def test_averages_of_a_batch_equal_the_raw_predictions(
    simulated_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas

    out = tmp_path / "out"
    batch = ["batch", "--dataset", str(simulated_dataset), "--models", "AVG,90%,MOVING-AVG"]
    assert run_in_process(*batch, "--out", out).returncode == 0
    report = [
        "report",
        str(out),
        "--average",
        ",".join(AVERAGING_MODES),
        "--csv",
        str(tmp_path / "csv"),
    ]
    assert main(report) == 2
    assert "evaluate with --raw" in capsys.readouterr().err
    assert run_in_process(*batch, "--out", out, "--raw").returncode == 0
    assert main(report) == 0
    path = tmp_path / "csv" / "1-averages-LogLoss.csv"
    (average,) = (
        row for row in csv.DictReader(path.open(encoding="utf-8")) if row["model"] == "average"
    )
    rows = pandas.read_parquet(out / "raw" / "AVG")
    loss = pandas.Series(-np.log(np.where(rows.y == 1, rows.p, 1 - rows.p).clip(2e-16, 1)))
    assert float(average["global"]) == pytest.approx(loss.mean(), abs=1e-6)
    for mode, keys in (("deck", ["user", "deck_id"]), ("card", ["user", "card_id"])):
        by_group = loss.groupby([rows[key] for key in keys]).mean()
        assert float(average[f"by_{mode}"]) == pytest.approx(by_group.mean(), abs=1e-6)
    # The average by users is the table's figure: models that learn while evaluated stand apart.
    means = csv.DictReader((tmp_path / "csv" / "1-means-by-users.csv").open(encoding="utf-8"))
    (of_table,) = (row for row in means if row["model"] == "average")
    assert float(average["by_user"]) == pytest.approx(float(of_table["log_loss"]), abs=1e-6)
    assert "moving average" not in path.read_text(encoding="utf-8")
    # Log loss by the card's reviews before, over users, and minus the average's.
    losses = {}
    for name in ("AVG", "90%"):
        rows = pandas.read_parquet(out / "raw" / name)
        rows["loss"] = -np.log(np.where(rows.y == 1, rows.p, 1 - rows.p).clip(2e-16, 1))
        losses[name] = rows[rows.reviews_before.between(3, 4)].groupby("user").loss.mean()
    by_reviews = read_rows(tmp_path / "csv" / "1-by-reviews-before.csv")
    (group,) = (row for row in by_reviews if row["before"] == "3-4")
    assert int(group["users"]) == len(losses["AVG"])
    assert float(group["AVG"]) == pytest.approx(losses["AVG"].mean())
    to_average = read_rows(tmp_path / "csv" / "1-by-reviews-before-to-average.csv")
    (group,) = (row for row in to_average if row["before"] == "3-4")
    difference = (losses["90%"] - losses["AVG"]).mean()
    assert float(group["90%"]) == pytest.approx(difference)
    assert float(group["90%_low"]) < difference < float(group["90%_high"])
    assert "AVG" not in group


@pytest.mark.slow
def test_averages_do_not_depend_on_the_years_names(simulated_dataset: Path, tmp_path: Path) -> None:
    """Check predictions under canonical names beside result files under those of the year."""
    models = "AVG,FSRS-6-dry-run,SM2"
    tables = []
    for year in ("2025", "2026"):
        out = tmp_path / year
        batch = ["batch", "--dataset", simulated_dataset, "--models", models, "--names", year]
        assert run_in_process(*batch, "--out", out, "--raw").returncode == 0
        report_tables = build_results_report([out], average=["global"]).tables()
        rows = [table.rows for table in report_tables if table.name.endswith("averages-LogLoss")]
        tables.append(rows)
    assert (tmp_path / "2026" / "result" / "FSRS-6-default-short.jsonl").is_file()
    assert sum(map(len, tables[0])) == 3
    assert tables[1] == tables[0]


@pytest.mark.slow
def test_averages_take_predictions_of_srs_benchmark(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"AVG": [result_line(1, 0.4, 2), result_line(2, 0.3, 1)]})
    (folder / "raw").mkdir()
    lines = [{"user": 1, "p": [0.5, 0.9], "y": [0, 1]}, {"user": 2, "p": [0.8], "y": [1]}]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "raw" / "AVG.jsonl").write_text(text)
    tables = {
        t.name: t for t in build_results_report([folder], average=["global", "user"]).tables()
    }
    assert [column.title for column in tables["averages-groups"].columns][1:3] == ["global", "user"]
    assert tables["averages-groups"].rows[0][1:3] == (3, 2)
    again = json.dumps({"user": 1, "p": [0.5], "y": [0]}) + "\n" + text
    (folder / "raw" / "AVG.jsonl").write_text(again)  # the last line of a repeated user counts
    tables = {
        t.name: t for t in build_results_report([folder], average=["global", "user"]).tables()
    }
    assert tables["averages-groups"].rows[0][1:3] == (3, 2)
    (folder / "raw" / "AVG.jsonl").write_text(text.replace("0.9", "1.9"))
    with pytest.raises(InputError, match="between 0 and 1"):
        build_results_report([folder], average=["global"])
    for p, y in ((0.5, 1), ([[0.5]], [[1]]), ([0.5], [1, 0]), (["a"], [1])):
        (folder / "raw" / "AVG.jsonl").write_text(json.dumps({"user": 1, "p": p, "y": y}))
        with pytest.raises(InputError, match="line 1: a user, and lists p and y of equal length"):
            build_results_report([folder], average=["global"])


@pytest.mark.parametrize("text", ["{}\n", "[]\n", '{"size": "a", "seconds": 1}\n'])
def test_damaged_timings_leave_out_the_speed_alone(tmp_path: Path, text: str) -> None:
    folder = write_results(tmp_path, {"AVG": [result_line(1, 0.4), result_line(2, 0.3)]})
    (folder / "timing").mkdir(exist_ok=True)
    (folder / "timing" / "AVG.jsonl").write_text(text)
    ((file,),) = (folder_files.files for folder_files in read_folders([folder]))
    assert file.seconds_per_10k is None


def format_predictions(users: dict[int, int], p: float, **extra: Any) -> str:
    """Return predictions: users with their numbers of reviews, of which all but one recall."""
    lines = []
    for user, size in users.items():
        y = [0] + [1] * (size - 1)
        lines.append({"user": user, "p": [p] * size, "y": y, **extra})
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_averages_are_over_users_whom_all_models_have(tmp_path: Path) -> None:
    """Check that users who lack predictions of a model, or have some only, are left out."""
    sizes = {1: 10, 2: 20, 3: 30}
    lines = [result_line(user, 0.3, size) for user, size in sizes.items()]
    folder = write_results(tmp_path, {"AVG": lines, "DASH": lines, "HLR": lines, "SM2": lines})
    raw = folder / "raw"
    raw.mkdir()
    (raw / "AVG.jsonl").write_text(format_predictions(sizes, 0.8))
    (raw / "DASH.jsonl").write_text(format_predictions({1: 10, 2: 20, 3: 29}, 0.8))
    (raw / "HLR.jsonl").write_text(format_predictions({2: 20, 3: 30}, 0.7))
    report = build_results_report([folder], average=["user", "global"])
    tables = {table.name: table for table in report.tables()}
    groups = {row[0]: row[1:3] for row in tables["averages-groups"].rows}
    assert set(groups.values()) == {(20, 1)}
    assert len(groups) == 3  # SM2 has no predictions
    loss = {row[0]: row[1:] for row in tables["averages-LogLoss"].rows}
    assert loss["average"][1] is None  # the baseline has no place
    assert [loss[name][1] for name in ("DASH", "HLR")] == [1, 2]
    assert loss["average"][0].value == loss["DASH"][0].value
    (raw / "HLR.jsonl").write_text(format_predictions({2: 19, 3: 29}, 0.7))
    with pytest.raises(InputError, match="do not cover the same reviews"):
        build_results_report([folder], average=["global"])


def test_averages_by_deck_need_predictions_with_decks(tmp_path: Path) -> None:
    import pandas

    folder = write_results(
        tmp_path, {"DASH": [result_line(1, 0.3, 4)], "HLR": [result_line(1, 0.4, 4)]}
    )
    (folder / "raw").mkdir()
    (folder / "raw" / "DASH.jsonl").write_text(format_predictions({1: 4}, 0.8))
    with pytest.raises(InputError, match="--average deck: no predictions"):
        build_results_report([folder], average=["deck"])
    rows = {"user": 1, "configuration": "HLR", "p": 0.7, "y": [0, 1, 1, 1], "deck_id": [1, 1, 2, 2]}
    pandas.DataFrame(rows).to_parquet(folder / "raw" / "others.parquet")
    report = build_results_report([folder], average=["user", "deck"])
    tables = {table.name: table for table in report.tables()}
    losses = {row[0]: row[1:] for row in tables["averages-LogLoss"].rows}
    assert losses["DASH"][2:] == (None, None)
    assert losses["HLR"][3] == 1
    assert "average" in render_as(report, "md")


def test_folder_named_twice_is_read_once(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", {"DASH": many_lines(0.3), "HLR": many_lines(0.4)})
    (tmp_path / "again").symlink_to(folder)
    (results,) = read_folders([folder, tmp_path / "again", folder / "result", folder])
    assert [file.label for file in results.files] == ["DASH", "HLR"]


def test_results_without_metrics_are_refused(tmp_path: Path) -> None:
    bare = json.dumps({"metrics": {}, "user": 1, "size": 2})
    with pytest.raises(InputError, match="no line contains a metric"):
        build_results_report([write_results(tmp_path, {"DASH": [bare]})])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--out", "x"], "No such option: --out"),
        (["check", "--repair"], "No such option: --repair"),
    ],
)
def test_options_of_another_action_are_refused(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path, {"DASH": many_lines(0.3)})
    assert main(["results", arguments[0], str(folder), *arguments[1:]]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{r}", "--metric", "loss"], "--metric takes"),
        (["{r}", "--columns", "LogLoss,speed"], "--columns takes"),
        (["{r}", "--average", "week"], "--average takes"),
        (["{r}", "--users", "all"], "--users takes ids"),
        (["{r}", "--models", "AVG,HLR"], 'no results for "HLR", only for average'),
        (["{r}", "--reference", "SM2"], 'no results for "SM2"'),
        (["{r}/none"], "is not a folder"),
        (["{t}"], "holds no result files"),
        (["{r}", "--html", "{t}/no/x.html"], "there is no folder"),
        (["{r}", "--html", "{r}/result/AVG.jsonl"], "is inside an input folder"),
        (["{r}", "--html", "-", "--md", "-"], "Only one document can go"),
        (["{r}", "--csv", "{r}"], "is inside an input folder"),
        (["{r}", "--png", "{r}/raw"], "is inside an input folder"),
        (["{r}", "--json", "{r}/setup.json"], "is inside an input folder"),
        (["{r}", "--csv"], "--csv takes a folder"),
    ],
)
def test_report_command_refuses_bad_input_in_a_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "r", {"AVG": many_lines(0.4)})
    formatted = [argument.format(r=folder, t=tmp_path) for argument in arguments]
    assert main(["report", *formatted]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
