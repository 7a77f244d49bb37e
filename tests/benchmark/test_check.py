"""Checking and merging folders of results."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from srs_eval.batch import run_batch
from srs_eval.benchmark.check import DamagedJournals, check_folder, merge_folders
from srs_eval.benchmark.plan import Ended
from srs_eval.benchmark.result_files import read_folders
from srs_eval.benchmark.setup import SETUP_FILE, read_setup
from srs_eval.benchmark.store import ResultStore, Unit
from srs_eval.cli.main import main
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError
from srs_eval.models.configurations import resolve_configurations
from tests.conftest import shared_or_skip
from tools.simulated import simulate_learner, write_dataset

MODELS = "AVG,MOVING-AVG,90%"
USERS = 4


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset({user: simulate_learner(user, 600) for user in range(1, USERS + 1)}, folder)
    return folder


@pytest.fixture(scope="module")
def made(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    list(run_batch(open_dataset(dataset), resolve_configurations(MODELS), out, jobs=1))
    return out


@pytest.fixture
def ours(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "ours"))


@pytest.fixture
def theirs(made: Path, tmp_path: Path) -> Path:
    """srs-benchmark's layout: result files and nothing else."""
    return Path(shutil.copytree(made / "result", tmp_path / "theirs"))


def run_again(dataset: Path, folder: Path, redo: set[str] | None = None) -> int:
    """Run the batch of a folder again and return the number of units that it has evaluated."""
    configurations = resolve_configurations(MODELS)
    events = list(run_batch(open_dataset(dataset), configurations, folder, jobs=1, redo=redo))
    ended = events[-1]
    assert isinstance(ended, Ended)
    return ended.done


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("*.jsonl"))}


def edited(path: Path, user: int, **changes: object) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["user"] == user:
            line["metrics"] |= changes.pop("metrics", {})  # type: ignore[arg-type]
            line |= changes
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_nothing_is_wrong_with_what_was_just_made(ours: Path, theirs: Path) -> None:
    assert check_folder(ours) == check_folder(theirs) == []
    assert main(["results", "check", str(ours), str(theirs)]) == 0


def test_a_name_that_decides_too_little_is_said_and_not_wrong(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(theirs / "AVG.jsonl", theirs / "HLR-secs.jsonl")
    stated = "no -short in its name: it may leave same-day reviews out; taken for HLR-short-secs"
    assert main(["results", "check", str(theirs)]) == 0
    out = capsys.readouterr().out
    assert f"HLR-secs.jsonl: {stated}\n" in out
    assert f"{theirs}: nothing is wrong" in out
    assert main(["report", str(theirs), "--md", "-"]) == 0
    assert f"HLR-secs: {stated}" in capsys.readouterr().out


def cut_off(path: Path) -> None:
    path.write_text(path.read_text()[:-30])


def repeated(path: Path) -> None:
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")


def unsorted(path: Path) -> None:
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def no_json(path: Path) -> None:
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first[: len(first) // 2] + "\n", *rest]))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_off, "cut off"),
        (repeated, "more than once (2)"),
        (unsorted, "not in order"),
        (no_json, "1 line cannot be read"),
    ],
)
def test_damaged_result_file_is_reported_and_written_anew_by_the_next_batch(
    damage, words: str, dataset: Path, made: Path, ours: Path, theirs: Path
) -> None:
    for folder, path in ((ours, ours / "result" / "AVG.jsonl"), (theirs, theirs / "AVG.jsonl")):
        damage(path)
        damaged = path.read_text()
        if folder == ours and words not in ("more than once (2)", "not in order"):
            with pytest.raises(InputError, match="run the same batch command again"):
                read_folders([folder])
        found = check_folder(folder)
        assert words in found[0].description
        assert {problem.path for problem in found} == {path}
        remedies = {problem.remedy for problem in found}
        if folder == theirs:
            assert remedies == {""}
            assert path.read_text() == damaged
            continue
        assert remedies == {"run the same batch command again to write the file anew"}
        assert run_again(dataset, ours) == 0
        assert check_folder(ours) == []
        assert texts(ours / "result") == texts(made / "result")


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"LogLoss": -0.1}, "LogLoss -0.1"),
        ({"AUC": 1.5}, "AUC 1.5"),
        ({"RMSE": None}, "no RMSE"),
        ({"RMSE": 0.31, "RMSE(bins)": 0.5}, "RMSE(bins) 0.5 above RMSE 0.31"),
        ({"RMSE": 0.31, "LogLoss": 0.0001}, "LogLoss 0.0001 where RMSE is 0.31"),
        ({"RMSE": 0.31, "LogLoss": 12}, "LogLoss 12 where RMSE is 0.31"),
    ],
)
def test_impossible_metric_is_reported(metrics: dict[str, float], words: str, theirs: Path) -> None:
    edited(theirs / "AVG.jsonl", 3, metrics=metrics)
    (found,) = check_folder(theirs)
    assert f"user 3: {words}" in found.description
    assert found.remedy == ""
    possible = {"LogLoss": 0.3, "AUC": float("nan"), "RMSE": 0.2, "RMSE(bins)": 0.2}
    edited(theirs / "AVG.jsonl", 3, metrics=possible)
    assert check_folder(theirs) == []  # an AUC that is undefined may be


@pytest.mark.slow
def test_a_size_unlike_the_others_is_found_and_evaluated_again(
    dataset: Path, made: Path, ours: Path, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(theirs / "90%.jsonl", 2, size=17)
    (found,) = check_folder(theirs)
    assert found.path.name == "90%.jsonl"
    assert found.description.startswith("1 user with another number of reviews")
    assert "17 where the others have" in found.description
    # In a folder of ours the journal decides: there it is wrong, too.
    line = json.loads((ours / "result" / "90%.jsonl").read_text().splitlines()[1])
    setup = read_setup(ours)
    assert setup is not None
    with ResultStore(ours, setup) as store:
        store.append(Unit("90%", 2, "done", line={**line, "size": 17}))
        store.publish()
    assert main(["results", "check", str(ours)]) == 1
    assert "; run the same batch command with --redo 90%\n" in capsys.readouterr().out
    assert run_again(dataset, ours) == 0  # the journal is whole: nothing seems to be missing
    assert main(["results", "check", str(ours)]) == 1
    assert run_again(dataset, ours, redo={"90%"}) == USERS
    assert texts(ours / "result") == texts(made / "result")
    assert check_folder(ours) == []


def test_changed_file_is_written_anew_by_a_merge_without_the_data_set(
    made: Path, ours: Path
) -> None:
    edited(ours / "result" / "AVG.jsonl", 2, metrics={"LogLoss": -1.0}, size=17)
    (found,) = check_folder(ours)
    assert "not what its journal says" in found.description
    assert merge_folders([ours], ours) == (0, "")
    assert check_folder(ours) == []
    assert texts(ours / "result") == texts(made / "result")
    assert not (ours / "failed").exists()


def test_a_file_without_a_journal_is_anothers(dataset: Path, ours: Path) -> None:
    mine = ours / "result" / "Mine.jsonl"
    mine.write_text((ours / "result" / "AVG.jsonl").read_text())
    assert check_folder(ours) == []
    edited(mine, 2, metrics={"RMSE": 7})
    (found,) = check_folder(ours)
    assert "cannot be true" in found.description
    assert found.remedy == ""
    unsorted(mine)
    changed = mine.read_text()
    assert {problem.remedy for problem in check_folder(ours)} == {""}
    assert run_again(dataset, ours) == 0
    assert mine.read_text() == changed


def test_a_whole_last_line_is_kept(theirs: Path) -> None:
    path = theirs / "AVG.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    assert check_folder(theirs) == []


@pytest.mark.parametrize("where", ["ours", "theirs"])
def test_packed_files_that_cannot_be_unpacked_are_said(
    where: str, ours: Path, theirs: Path
) -> None:
    home = ours / "result" if where == "ours" else theirs
    packed = gzip.compress((home / "AVG.jsonl").read_bytes())
    damaged = bytearray(packed)
    damaged[20:60] = bytes(40)
    for name, content, words in (
        ("Cut.jsonl.gz", packed[:-20], "cannot be read (it is cut off or damaged)"),
        ("Damaged.jsonl.gz", bytes(damaged), "cannot be read"),
        ("Empty.jsonl.gz", b"", "it is empty"),
        ("Sound.jsonl.gz", packed, None),
    ):
        (home / name).write_bytes(content)
        found = check_folder(home.parent if where == "ours" else home)
        assert [words in each.description for each in found] == [True] * (words is not None)
        assert not any(each.remedy for each in found)
        (home / name).unlink()


@pytest.mark.parametrize(
    "changes",
    [
        {"size": "12"},
        {"size": -5},
        {"size": float("nan")},
        {"size": float("inf")},
        {"size": 10**30},
        {"user": float("inf")},
        {"user": "1"},
        {"metrics": []},
        {"parameters": 5},
        {"parameters": {"0": None}},
        {"parameters": {"0": "abc"}},
        {"parameters": [[1.0]]},
        {"parameters": [float("nan")]},
    ],
)
def test_check_and_report_agree_on_what_is_a_line(
    changes: dict[str, object], theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = theirs / "AVG.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps({**json.loads(first), **changes}) + "\n", *rest]))
    (found,) = check_folder(theirs)
    assert "1 line cannot be read as results" in found.description
    assert main(["report", str(theirs)]) == 2
    assert f'"{path}", line 1: not a result' in capsys.readouterr().err
    assert found.remedy == ""


def test_stale_results_are_said(ours: Path) -> None:
    setup = json.loads((ours / SETUP_FILE).read_text())
    setup["configurations"]["AVG"]["model_version"] -= 1
    setup["environment"]["code"] = "0" * 16
    (ours / SETUP_FILE).write_text(json.dumps(setup))
    stale, other = check_folder(ours)
    assert "version 0 of the model" in stale.description
    assert stale.path.name == "AVG.jsonl"
    assert "another state of srs-eval" in other.description


def test_damaged_journal_line_is_reported_and_evaluated_by_the_next_batch(
    dataset: Path, made: Path, ours: Path
) -> None:
    journal = ours / ".journal" / "AVG.jsonl"
    content = bytearray(journal.read_bytes())
    content[40] ^= 1
    journal.write_bytes(content)
    remedies = {problem.description: problem.remedy for problem in check_folder(ours)}
    remedy = "run the same batch command again to evaluate these units anew"
    assert remedies["1 line damaged"] == remedy
    assert run_again(dataset, ours) == 1
    assert check_folder(ours) == []
    assert texts(ours / "result") == texts(made / "result")


def test_packed_files_are_checked(theirs: Path) -> None:
    path = theirs / "AVG.jsonl"
    packed = theirs / "AVG.jsonl.gz"
    unsorted(path)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    (found,) = check_folder(theirs)
    assert "not in order" in found.description
    assert found.remedy == ""


def test_merging(dataset: Path, made: Path, tmp_path: Path) -> None:
    parts = []
    for k, users in enumerate(([1, 3], [2, 4])):
        part = tmp_path / f"part-{k}"
        list(
            run_batch(
                open_dataset(dataset), resolve_configurations(MODELS), part, users=users, jobs=1
            )
        )
        parts.append(part)
    assert merge_folders(parts, tmp_path / "whole") == (USERS * 3, "")
    assert texts(tmp_path / "whole" / "result") == texts(made / "result")
    assert main(["results", "merge", str(parts[0])]) == 2  # where to?
    # A part that the others are added to becomes the whole.
    assert merge_folders(parts, parts[1]) == (2 * 3, "")
    assert texts(parts[1] / "result") == texts(made / "result")


def test_a_refused_merge_leaves_nothing_behind(
    dataset: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of the two folders of an audit: evaluated as published, and as its halves have chosen."""
    setup = json.loads((made / "setup.json").read_text())
    chosen = {f"half {half}": {"epochs": 6 + half} for half in (1, 2)}
    name = next(iter(setup["configurations"]))
    setup["configurations"][name]["hyperparameters"] = chosen
    tuned, out = tmp_path / "tuned", tmp_path / "out"
    tuned.mkdir()
    (tuned / "setup.json").write_text(json.dumps(setup))
    assert main(["results", "merge", str(made), str(tuned), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{name} had hyperparameters none and has those that" in said
    assert "{" not in said
    assert not out.exists()
    for key in ("check", "label", "predictions"):
        wrong = {**setup["configurations"][name], key: ["x"]}
        damaged = {**setup, "configurations": {**setup["configurations"], name: wrong}}
        (tuned / "setup.json").write_text(json.dumps(damaged))
        assert main(["results", "merge", str(made), str(tuned), "--out", str(out)]) == 2
        assert 'setup.json" is damaged' in capsys.readouterr().err
    for content, words in (
        (json.dumps(setup), "cannot be merged"),
        ("{", 'setup.json" is damaged'),
        (None, "is not from a batch in this folder: choose another --out."),
    ):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
        (out / "setup.json").unlink()
        if content is not None:
            (out / "setup.json").write_text(content)
        before = texts(out / "result")
        assert main(["results", "merge", str(made), "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert "--fresh" not in said  # which merge has not
        assert texts(out / "result") == before


def test_damaged_units_are_not_left_out_of_a_merge_unasked(
    made: Path, ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, units in (("AVG", 2), ("90%", 1)):
        journal = ours / ".journal" / f"{name}.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        broken = [line.replace(b"LogLoss", b"LogLess") for line in lines[:units]]
        journal.write_bytes(b"".join([*broken, *lines[units:]]))
    out = tmp_path / "out"
    merging = ["results", "merge", str(ours), "--out", str(out)]
    with pytest.raises(DamagedJournals, match="3 lines"):
        merge_folders([ours], out)
    assert main(merging) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f'3 lines of "{ours}" (90% 1, AVG 2)' in said
    assert "--take-what-is-whole" in said
    assert not out.exists()
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert main(["results", "merge", str(ours), "--out", str(made)]) == 1
    assert before == {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*merging, "--take-what-is-whole"]) == 0
    said = capsys.readouterr().err
    assert "9 units taken over" in said
    assert f'left out: 3 lines of "{ours}" (90% 1, AVG 2)' in said
    assert len(texts(out / "result")["AVG.jsonl"].splitlines()) == USERS - 2
    assert main(["results", "check", str(ours), "--take-what-is-whole"]) == 2


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no result files"):
        check_folder(tmp_path)
    with pytest.raises(InputError, match="holds no results"):
        merge_folders([tmp_path], tmp_path / "out")
    assert main(["results", "burn", str(tmp_path)]) == 2
    assert main(["results", "check", str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize(
    "folder", ["golden/expected", pytest.param("published", marks=pytest.mark.slow)]
)
def test_nothing_is_wrong_with_the_reference(folder: str) -> None:
    assert check_folder(shared_or_skip(folder)) == []
