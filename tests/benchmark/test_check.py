"""Check the commands that check and merge folders of results."""

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
def batch_folder(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    list(run_batch(open_dataset(dataset), resolve_configurations(MODELS), out, jobs=1))
    return out


@pytest.fixture
def ours(batch_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(batch_folder, tmp_path / "ours"))


@pytest.fixture
def upstream_folder(batch_folder: Path, tmp_path: Path) -> Path:
    """Return a folder in srs-benchmark's layout: result files and nothing else."""
    return Path(shutil.copytree(batch_folder / "result", tmp_path / "theirs"))


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


def test_check_finds_nothing_wrong_with_a_new_batch(ours: Path, upstream_folder: Path) -> None:
    assert check_folder(ours) == check_folder(upstream_folder) == []
    assert main(["results", "check", str(ours), str(upstream_folder)]) == 0


def test_check_notes_an_ambiguous_name_without_an_error(
    upstream_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(upstream_folder / "AVG.jsonl", upstream_folder / "HLR-secs.jsonl")
    stated = "no -short in its name: it may leave same-day reviews out; taken for HLR-short-secs"
    assert main(["results", "check", str(upstream_folder)]) == 0
    out = capsys.readouterr().out
    assert f"HLR-secs.jsonl: {stated}\n" in out
    assert f"{upstream_folder}: no errors" in out
    assert main(["report", str(upstream_folder), "--md", "-"]) == 0
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
def test_damaged_result_file_is_reported_and_batch_rewrites_it(
    damage, words: str, dataset: Path, batch_folder: Path, ours: Path, upstream_folder: Path
) -> None:
    for folder, path in (
        (ours, ours / "result" / "AVG.jsonl"),
        (upstream_folder, upstream_folder / "AVG.jsonl"),
    ):
        damage(path)
        damaged = path.read_text()
        if folder == ours and words not in ("more than once (2)", "not in order"):
            with pytest.raises(InputError, match="run the same batch command again"):
                read_folders([folder])
        problems = check_folder(folder)
        assert words in problems[0].description
        assert {problem.path for problem in problems} == {path}
        remedies = {problem.remedy for problem in problems}
        if folder == upstream_folder:
            assert remedies == {""}
            assert path.read_text() == damaged
            continue
        assert remedies == {"run the same batch command again to write the file anew"}
        assert run_again(dataset, ours) == 0
        assert check_folder(ours) == []
        assert texts(ours / "result") == texts(batch_folder / "result")


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"LogLoss": -0.1}, "LogLoss -0.1"),
        ({"AUC": 1.5}, "AUC 1.5"),
        ({"RMSE": None}, "no RMSE"),
        ({"RMSE": 0.31, "RMSE(bins)": 0.5}, "RMSE(bins) 0.5 above RMSE 0.31"),
        ({"RMSE": 0.31, "LogLoss": 0.0001}, "a log loss of 0.0001 cannot go with an RMSE of 0.31"),
        ({"RMSE": 0.31, "LogLoss": 12}, "a log loss of 12 cannot go with an RMSE of 0.31"),
    ],
)
def test_impossible_metric_is_reported(
    metrics: dict[str, float], words: str, upstream_folder: Path
) -> None:
    edited(upstream_folder / "AVG.jsonl", 3, metrics=metrics)
    (problem,) = check_folder(upstream_folder)
    assert f"user 3: {words}" in problem.description
    assert problem.remedy == ""
    possible = {"LogLoss": 0.3, "AUC": float("nan"), "RMSE": 0.2, "RMSE(bins)": 0.2}
    edited(upstream_folder / "AVG.jsonl", 3, metrics=possible)
    assert check_folder(upstream_folder) == []  # an AUC that is undefined may be


@pytest.mark.slow
def test_deviating_size_is_found_and_evaluated_again(
    dataset: Path,
    batch_folder: Path,
    ours: Path,
    upstream_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edited(upstream_folder / "90%.jsonl", 2, size=17)
    (problem,) = check_folder(upstream_folder)
    assert problem.path.name == "90%.jsonl"
    assert problem.description.startswith("1 user has a different number of reviews")
    assert "17 where the others have" in problem.description
    # In a folder of ours the journal decides: there it is wrong, too.
    line = json.loads((ours / "result" / "90%.jsonl").read_text().splitlines()[1])
    setup = read_setup(ours)
    assert setup is not None
    with ResultStore(ours, setup) as store:
        store.append(Unit("90%", 2, "done", result_line={**line, "size": 17}))
        store.publish()
    assert main(["results", "check", str(ours)]) == 1
    assert "; run the same batch command with --redo 90%\n" in capsys.readouterr().out
    assert run_again(dataset, ours) == 0  # the journal is whole: nothing seems to be missing
    assert main(["results", "check", str(ours)]) == 1
    assert run_again(dataset, ours, redo={"90%"}) == USERS
    assert texts(ours / "result") == texts(batch_folder / "result")
    assert check_folder(ours) == []


def test_merge_without_data_set_rewrites_a_changed_file(batch_folder: Path, ours: Path) -> None:
    edited(ours / "result" / "AVG.jsonl", 2, metrics={"LogLoss": -1.0}, size=17)
    (problem,) = check_folder(ours)
    assert "differs from its journal" in problem.description
    assert merge_folders([ours], ours) == (0, "")
    assert check_folder(ours) == []
    assert texts(ours / "result") == texts(batch_folder / "result")
    assert not (ours / "failed").exists()


def test_file_without_a_journal_is_foreign(dataset: Path, ours: Path) -> None:
    foreign = ours / "result" / "Mine.jsonl"
    foreign.write_text((ours / "result" / "AVG.jsonl").read_text())
    assert check_folder(ours) == []
    edited(foreign, 2, metrics={"RMSE": 7})
    (changed_metric,) = check_folder(ours)
    assert "impossible values" in changed_metric.description
    assert changed_metric.remedy == ""
    unsorted(foreign)
    changed = foreign.read_text()
    assert {problem.remedy for problem in check_folder(ours)} == {""}
    assert run_again(dataset, ours) == 0
    assert foreign.read_text() == changed


def test_a_whole_last_line_is_kept(upstream_folder: Path) -> None:
    path = upstream_folder / "AVG.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    assert check_folder(upstream_folder) == []


@pytest.mark.parametrize("layout", ["ours", "upstream"])
def test_check_reports_packed_files_that_cannot_be_unpacked(
    layout: str, ours: Path, upstream_folder: Path
) -> None:
    home = ours / "result" if layout == "ours" else upstream_folder
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
        problems = check_folder(home.parent if layout == "ours" else home)
        if words is None:
            assert problems == []
        else:
            (problem,) = problems
            assert words in problem.description
            assert not problem.remedy
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
def test_check_and_report_refuse_the_same_lines(
    changes: dict[str, object], upstream_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = upstream_folder / "AVG.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps({**json.loads(first), **changes}) + "\n", *rest]))
    (problem,) = check_folder(upstream_folder)
    assert "1 line cannot be read as results" in problem.description
    assert main(["report", str(upstream_folder)]) == 2
    assert f'"{path}", line 1: not a result' in capsys.readouterr().err
    assert problem.remedy == ""


def test_stale_results_are_said(ours: Path) -> None:
    setup = json.loads((ours / SETUP_FILE).read_text())
    setup["configurations"]["AVG"]["model_version"] -= 1
    setup["environment"]["code"] = "0" * 16
    (ours / SETUP_FILE).write_text(json.dumps(setup))
    stale, changed = check_folder(ours)
    assert "version 0 of the model" in stale.description
    assert stale.path.name == "AVG.jsonl"
    assert "a different build of srs-eval" in changed.description


def test_damaged_journal_line_is_reported_and_evaluated_again(
    dataset: Path, batch_folder: Path, ours: Path
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
    assert texts(ours / "result") == texts(batch_folder / "result")


def test_packed_files_are_checked(upstream_folder: Path) -> None:
    path = upstream_folder / "AVG.jsonl"
    packed = upstream_folder / "AVG.jsonl.gz"
    unsorted(path)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    (problem,) = check_folder(upstream_folder)
    assert "not in order" in problem.description
    assert problem.remedy == ""


def test_merge_of_parts_gives_the_whole(dataset: Path, batch_folder: Path, tmp_path: Path) -> None:
    folders = []
    for k, users in enumerate(([1, 3], [2, 4])):
        folder = tmp_path / f"part-{k}"
        list(
            run_batch(
                open_dataset(dataset), resolve_configurations(MODELS), folder, users=users, jobs=1
            )
        )
        folders.append(folder)
    assert merge_folders(folders, tmp_path / "whole") == (USERS * 3, "")
    assert texts(tmp_path / "whole" / "result") == texts(batch_folder / "result")
    assert main(["results", "merge", str(folders[0])]) == 2  # where to?
    # A part that the others are added to becomes the whole.
    assert merge_folders(folders, folders[1]) == (2 * 3, "")
    assert texts(folders[1] / "result") == texts(batch_folder / "result")


def test_a_refused_merge_leaves_nothing_behind(
    dataset: Path, batch_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Merge the two folders of an audit: as published, and as its halves have chosen."""
    setup = json.loads((batch_folder / "setup.json").read_text())
    chosen = {f"half {half}": {"epochs": 6 + half} for half in (1, 2)}
    name = next(iter(setup["configurations"]))
    setup["configurations"][name]["hyperparameters"] = chosen
    tuned = tmp_path / "tuned"
    out = tmp_path / "out"
    tuned.mkdir()
    (tuned / "setup.json").write_text(json.dumps(setup))
    assert main(["results", "merge", str(batch_folder), str(tuned), "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"{name} had hyperparameters none and has those chosen by an audit" in message
    assert "{" not in message
    assert not out.exists()
    for key in ("check", "label", "predictions"):
        wrong = {**setup["configurations"][name], key: ["x"]}
        damaged = {**setup, "configurations": {**setup["configurations"], name: wrong}}
        (tuned / "setup.json").write_text(json.dumps(damaged))
        assert main(["results", "merge", str(batch_folder), str(tuned), "--out", str(out)]) == 2
        assert 'setup.json" is damaged' in capsys.readouterr().err
    for content, words in (
        (json.dumps(setup), "cannot be merged"),
        ("{", 'setup.json" is damaged'),
        (None, "is not from a batch in this folder: choose another --out."),
    ):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(batch_folder, out)
        (out / "setup.json").unlink()
        if content is not None:
            (out / "setup.json").write_text(content)
        before = texts(out / "result")
        assert main(["results", "merge", str(batch_folder), "--out", str(out)]) == 2
        message = capsys.readouterr().err
        assert words in message
        assert "--fresh" not in message  # which merge has not
        assert texts(out / "result") == before


def test_merge_omits_damaged_units_only_on_request(
    batch_folder: Path, ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f'3 lines of "{ours}" (90% 1, AVG 2)' in message
    assert "--take-what-is-whole" in message
    assert not out.exists()
    before = {path: path.read_bytes() for path in batch_folder.rglob("*") if path.is_file()}
    assert main(["results", "merge", str(ours), "--out", str(batch_folder)]) == 1
    assert before == {path: path.read_bytes() for path in batch_folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*merging, "--take-what-is-whole"]) == 0
    message = capsys.readouterr().err
    assert "9 units taken over" in message
    assert f'left out: 3 lines of "{ours}" (90% 1, AVG 2)' in message
    assert len(texts(out / "result")["AVG.jsonl"].splitlines()) == USERS - 2
    assert main(["results", "check", str(ours), "--take-what-is-whole"]) == 2


def test_check_and_merge_refuse_folders_without_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no result files"):
        check_folder(tmp_path)
    with pytest.raises(InputError, match="holds no results"):
        merge_folders([tmp_path], tmp_path / "out")
    assert main(["results", "burn", str(tmp_path)]) == 2
    assert main(["results", "check", str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize(
    "folder", ["golden/expected", pytest.param("published", marks=pytest.mark.slow)]
)
def test_check_finds_nothing_wrong_with_the_reference(folder: str) -> None:
    assert check_folder(shared_or_skip(folder)) == []
