"""`srs-eval report` on folders, as a person meets it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.benchmark.result_files import read_folders
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError
from srs_eval.report.dataset import build_results_report
from srs_eval.report.files import _render_markdown
from srs_eval.stats.users import AVERAGING_MODES
from tests.cli.program import run_in_process
from tests.report.helpers import check_page, many_lines, result_line, write_results


@pytest.mark.slow
def test_a_batch_and_its_report(
    simulated_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    batch = ["batch", "--dataset", str(simulated_dataset), "--models", "AVG,90%,SM2,MOVING-AVG"]
    batched = run_in_process(*batch, "--out", out)
    assert batched.returncode == 0, batched.stderr
    said = batched.stdout
    made = {name: tmp_path / name for name in ("r.html", "r.md", "csv")}
    report = ["report", str(out), "--baseline", str(out), "--columns", "logloss,ICI,smECE,seconds"]
    report += ["--html", str(made["r.html"]), "--md", str(made["r.md"])]
    assert main([*report, "--csv", str(made["csv"])]) == 0
    assert capsys.readouterr().out == ""
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
    assert float(average["log_loss"]) == pytest.approx(expected)
    assert (average["configuration"], average["file"]) == ("AVG", "AVG.jsonl")
    assert average["place"] == ""
    # A batch has told the first table of each set of evaluated reviews.
    assert main(["report", str(out)]) == 0
    shown = capsys.readouterr().out
    assert 0 < said.count("Evaluated on") == said.count("Weighted by the number of reviews")
    for table in said.split("Weighted by the number of reviews\n")[1:]:
        assert re.split(r"\n\d columns? more", table.partition("\n\n")[0])[0] in shown


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open(encoding="utf-8")))


def test_a_report_as_one_chooses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = {"AVG": 0.4, "FSRS-5": 0.31, "FSRS-5-recency": 0.3, "DASH": 0.35, "OURS": 0.33}
    folder = write_results(
        tmp_path / "r", {name: many_lines(loss) for name, loss in losses.items()}
    )
    out = tmp_path / "csv"
    chosen = ["--models", "avg,FSRS-5 recency,OURS", "--reference", "fsrs-5", "--users", "0-19"]
    how = ["--matrix", "OURS,FSRS-5", "--digits", "5", "--csv", str(out), "--md", "-"]
    assert main(["report", str(folder), *chosen, *how]) == 0
    text = capsys.readouterr().out
    means = {each["configuration"]: each for each in rows_of(out / "means-by-users.csv")}
    assert list(means) == ["FSRS-5-recency", "FSRS-5", "OURS", "AVG"]
    assert means["FSRS-5"]["log_loss_difference"] == ""
    first = [json.loads(each)["metrics"]["LogLoss"] for each in many_lines(0.33)[:20]]
    less = [json.loads(each)["metrics"]["LogLoss"] for each in many_lines(0.31)[:20]]
    difference = float(means["OURS"]["log_loss_difference"])
    assert difference == pytest.approx(np.mean(first) - np.mean(less))
    assert f"{np.mean(first):.5f}±" in text
    assert "log loss to FSRS-5" in text
    assert "< 0.001" in text.replace("\\", "")
    matrix = rows_of(out / "differences-by-users.csv")
    assert [each["configuration"] for each in matrix] == ["OURS", "FSRS-5"]
    assert float(matrix[0]["FSRS-5"]) == pytest.approx(difference)
    assert float(matrix[1]["OURS_low"]) == -float(matrix[0]["FSRS-5_high"])
    weights = np.log([50 + 10 * user for user in range(20)])
    (long,) = (
        each
        for each in rows_of(out / "results.csv")
        if (each["configuration"], each["weighted_by"], each["metric"])
        == ("OURS", "log reviews", "LogLoss")
    )
    assert long["file"] == "OURS.jsonl"
    assert float(long["mean"]) == pytest.approx(np.average(first, weights=weights))
    (pair,) = (
        each
        for each in rows_of(out / "pairs.csv")
        if (each["configuration"], each["other_configuration"]) == ("OURS", "FSRS-5")
    )
    assert float(pair["r_p_holm"]) >= float(pair["r_p"]) > 0
    said = []
    for option in ("--users", "--means"):  # as it was called, and as it is
        assert main(["report", str(folder), option, "each"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""


@pytest.mark.slow
def test_tables_and_pictures_for_a_paper(tmp_path: Path) -> None:
    names = {"DASH": 0.3, "AVG": 0.5, "OUR_S-recency": 0.4}
    folder = write_results(tmp_path / "r", {name: many_lines(loss) for name, loss in names.items()})
    forms = ("tex", "png", "svg", "pdf")
    outputs = [each for form in forms for each in (f"--{form}", str(tmp_path / form))]
    assert main(["report", str(folder), *outputs, "--inches", "5x3"]) == 0
    text = (tmp_path / "tex" / "means-by-users.tex").read_text(encoding="utf-8")
    assert "n = 30 users; 99~\\% confidence intervals (BCa bootstrap" in text
    assert "seed 0); best in bold.}" in text
    rows = [each for each in text.splitlines() if each.endswith(r" \\")]
    assert [each.count(" & ") for each in rows] == [5] * 4
    assert re.match(r"DASH & \\bfseries 0\.\d{3} \\pm 0\.\d{3} & ", rows[1])
    assert rows[2].startswith(r"OUR\_S-recency & 0.")
    assert re.search(r"\+0\.\d+ \[\+0\.\d+, \+0\.\d+\]", rows[2])
    for form, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        drawn = {each.stem: each.read_bytes() for each in (tmp_path / form).glob(f"*.{form}")}
        assert {"means", "by-size", "distribution", "differences-by-reviews"} <= set(drawn)
        assert all(each.startswith(begins) for each in drawn.values())
    assert b'width="360pt" height="216pt"' in (tmp_path / "svg" / "means.svg").read_bytes()
    assert main(["report", str(folder), "--inches", "5x3x2"]) == 2


def test_the_terminal_shows_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_results(
        tmp_path / "r",
        {"AVG": many_lines(0.4), "FSRS-6": many_lines(0.3), "DASH": many_lines(0.35)},
    )
    assert main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "FSRS-6 has the lowest mean log loss" in out.replace("\n", " ")
    assert "Metric card" in out
    assert "columns more" in out


def test_averages_of_a_batch(
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
        each for each in csv.DictReader(path.open(encoding="utf-8")) if each["model"] == "average"
    )
    rows = pandas.read_parquet(out / "raw" / "AVG")
    loss = pandas.Series(-np.log(np.where(rows.y == 1, rows.p, 1 - rows.p).clip(2e-16, 1)))
    assert float(average["global"]) == pytest.approx(loss.mean(), abs=1e-6)
    for mode, keys in (("deck", ["user", "deck_id"]), ("card", ["user", "card_id"])):
        by_group = loss.groupby([rows[key] for key in keys]).mean()
        assert float(average[f"by_{mode}"]) == pytest.approx(by_group.mean(), abs=1e-6)
    # By users it is the table's own figure, as models that learn while evaluated stand apart.
    means = csv.DictReader((tmp_path / "csv" / "1-means-by-users.csv").open(encoding="utf-8"))
    (of_table,) = (each for each in means if each["model"] == "average")
    assert float(average["by_user"]) == pytest.approx(float(of_table["log_loss"]), abs=1e-6)
    assert "moving average" not in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_averages_of_a_batch_with_names_of_2026(simulated_dataset: Path, tmp_path: Path) -> None:
    """Predictions lie under canonical names, result files under those of the year."""
    models, tables = "AVG,FSRS-6-dry-run,SM2", []
    for year in ("2025", "2026"):
        out = tmp_path / year
        batch = ["batch", "--dataset", simulated_dataset, "--models", models, "--names", year]
        assert run_in_process(*batch, "--out", out, "--raw").returncode == 0
        found = build_results_report([out], average=["global"]).tables()
        rows = [each.rows for each in found if each.name.endswith("averages-LogLoss")]
        tables.append(rows)
    assert (tmp_path / "2026" / "result" / "FSRS-6-default-short.jsonl").is_file()
    assert sum(map(len, tables[0])) == 3
    assert tables[1] == tables[0]


@pytest.mark.slow
def test_srs_benchmarks_predictions_are_read(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"AVG": [result_line(1, 0.4, 2), result_line(2, 0.3, 1)]})
    (folder / "raw").mkdir()
    lines = [{"user": 1, "p": [0.5, 0.9], "y": [0, 1]}, {"user": 2, "p": [0.8], "y": [1]}]
    text = "".join(f"{json.dumps(each)}\n" for each in lines)
    (folder / "raw" / "AVG.jsonl").write_text(text)
    tables = {
        t.name: t for t in build_results_report([folder], average=["global", "user"]).tables()
    }
    assert [column.title for column in tables["averages-groups"].columns][1:3] == ["global", "user"]
    assert tables["averages-groups"].rows[0][1:3] == (3, 2)
    again = json.dumps({"user": 1, "p": [0.5], "y": [0]}) + "\n" + text
    (folder / "raw" / "AVG.jsonl").write_text(again)  # of a repeated user the last line counts
    tables = {
        t.name: t for t in build_results_report([folder], average=["global", "user"]).tables()
    }
    assert tables["averages-groups"].rows[0][1:3] == (3, 2)
    (folder / "raw" / "AVG.jsonl").write_text(text.replace("0.9", "1.9"))
    with pytest.raises(InputError, match="between 0 and 1"):
        build_results_report([folder], average=["global"])
    for p, y in ((0.5, 1), ([[0.5]], [[1]]), ([0.5], [1, 0]), (["a"], [1])):
        (folder / "raw" / "AVG.jsonl").write_text(json.dumps({"user": 1, "p": p, "y": y}))
        with pytest.raises(InputError, match="line 1: lists p and y of one length"):
            build_results_report([folder], average=["global"])


@pytest.mark.parametrize("text", ["{}\n", "[]\n", '{"size": "a", "seconds": 1}\n'])
def test_damaged_timings_cost_the_speed_alone(tmp_path: Path, text: str) -> None:
    folder = write_results(tmp_path, {"AVG": [result_line(1, 0.4), result_line(2, 0.3)]})
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
    lines = [result_line(user, 0.3, size) for user, size in sizes.items()]
    folder = write_results(tmp_path, {"AVG": lines, "DASH": lines, "HLR": lines, "SM2": lines})
    raw = folder / "raw"
    raw.mkdir()
    (raw / "AVG.jsonl").write_text(predicted(sizes, 0.8))
    (raw / "DASH.jsonl").write_text(predicted({1: 10, 2: 20, 3: 29}, 0.8))
    (raw / "HLR.jsonl").write_text(predicted({2: 20, 3: 30}, 0.7))
    report = build_results_report([folder], average=["user", "global"])
    tables = {each.name: each for each in report.tables()}
    groups = {row[0]: row[1:3] for row in tables["averages-groups"].rows}
    assert set(groups.values()) == {(20, 1)}
    assert len(groups) == 3  # SM2 has none
    loss = {row[0]: row[1:] for row in tables["averages-LogLoss"].rows}
    assert loss["average"][1] is None  # the baseline has no place
    assert [loss[name][1] for name in ("DASH", "HLR")] == [1, 2]
    assert loss["average"][0].value == loss["DASH"][0].value
    (raw / "HLR.jsonl").write_text(predicted({2: 19, 3: 29}, 0.7))
    with pytest.raises(InputError, match="are not of the reviews"):
        build_results_report([folder], average=["global"])


def test_lists_know_no_decks(tmp_path: Path) -> None:
    import pandas

    folder = write_results(
        tmp_path, {"DASH": [result_line(1, 0.3, 4)], "HLR": [result_line(1, 0.4, 4)]}
    )
    (folder / "raw").mkdir()
    (folder / "raw" / "DASH.jsonl").write_text(predicted({1: 4}, 0.8))
    with pytest.raises(InputError, match="--average deck: no predictions"):
        build_results_report([folder], average=["deck"])
    rows = {"user": 1, "configuration": "HLR", "p": 0.7, "y": [0, 1, 1, 1], "deck_id": [1, 1, 2, 2]}
    pandas.DataFrame(rows).to_parquet(folder / "raw" / "others.parquet")
    report = build_results_report([folder], average=["user", "deck"])
    tables = {each.name: each for each in report.tables()}
    found = {row[0]: row[1:] for row in tables["averages-LogLoss"].rows}
    assert found["DASH"][2:] == (None, None)
    assert found["HLR"][3] == 1
    assert "average" in _render_markdown(report)


def test_a_folder_named_twice_is_one(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", {"DASH": many_lines(0.3), "HLR": many_lines(0.4)})
    (tmp_path / "again").symlink_to(folder)
    (found,) = read_folders([folder, tmp_path / "again", folder / "result", folder])
    assert [each.label for each in found.files] == ["DASH", "HLR"]


def test_results_without_metrics_are_said(tmp_path: Path) -> None:
    bare = json.dumps({"metrics": {}, "user": 1, "size": 2})
    with pytest.raises(InputError, match="no line holds a metric"):
        build_results_report([write_results(tmp_path, {"DASH": [bare]})])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--out", "x"], "No such option: --out"),
        (["check", "--repair"], "No such option: --repair"),
    ],
)
def test_options_of_the_other_action_are_refused(
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
        (["{r}", "--models", "AVG,HLR"], 'no results of "HLR", but of average'),
        (["{r}", "--reference", "SM2"], 'no results of "SM2"'),
        (["{r}/none"], "is no folder"),
        (["{t}"], "holds no result files"),
        (["{r}", "--html", "{t}/no/x.html"], "there is no folder"),
        (["{r}", "--html", "{r}/result/AVG.jsonl"], "lies in what is read"),
        (["{r}", "--html", "-", "--md", "-"], "stdout can carry one"),
        (["{r}", "--csv", "{r}"], "lies in what is read"),
        (["{r}", "--png", "{r}/raw"], "lies in what is read"),
        (["{r}", "--json", "{r}/setup.json"], "lies in what is read"),
        (["{r}", "--csv"], "--csv takes a folder"),
    ],
)
def test_bad_input_is_said_in_a_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "r", {"AVG": many_lines(0.4)})
    given_ = [each.format(r=folder, t=tmp_path) for each in arguments]
    assert main(["report", *given_]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
