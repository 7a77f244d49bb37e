"""Outputs replace files that srs-eval wrote, and never another file."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import pytest

from srs_eval.batch import run_batch
from srs_eval.benchmark.audit import run_audit
from srs_eval.benchmark.check import merge_folders
from srs_eval.benchmark.store import ResultStore, Unit
from srs_eval.cli.main import main
from srs_eval.cli.outputs import Outputs
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError
from srs_eval.data.outputs import (
    _MANIFEST_NAME,
    check_outputs,
    is_written_by_srs_eval,
    write_file,
    write_folder,
)
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.document import Document, Picture, Section
from srs_eval.stats.tables import Column, Figure, Table
from tests.helpers.batches import SETUP
from tests.helpers.tables import format_log
from tools.simulated import simulate_learner, write_collection, write_dataset

LOG = format_log()
PRECIOUS = b"what somebody has written\n"
UNIT = Unit("AVG", 1, "done", result_line={"metrics": {"LogLoss": 0.1}, "user": 1, "size": 10})
posix = pytest.mark.skipif(os.name != "posix", reason="links")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "log.csv").write_text(LOG)
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_dataset({user: simulate_learner(user, 300) for user in (1, 2)}, folder)
    return folder


def read_contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_document(*names: str, title: str = "T") -> Document:
    from matplotlib.figure import Figure as Drawing

    columns = (Column("model"), Column("log loss"))
    blocks = [Table(name, name, columns, ((title, Figure(0.5)),)) for name in names]
    pictures = [Picture(name, name, Drawing) for name in names]
    return Document(title, ("So it is.",), (Section("S", (*blocks, *pictures)),))


def expect_refusal(capsys: pytest.CaptureFixture[str], *arguments: object, words: str = "") -> None:
    """Check that the command ends with code 2 and one sentence and changes no file."""
    before = read_contents(Path.cwd())
    assert main([*map(str, arguments)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1, message
    assert words in message
    assert read_contents(Path.cwd()) == before


# --- files that are read


def test_an_export_never_replaces_the_log_that_it_reads(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Export into the folder of a log that has the name of one of the report's tables."""
    (workspace / "log.csv").rename(workspace / "ranking.csv")
    for folder in (".", workspace, "../here"):
        expect_refusal(
            capsys, "export", "ranking.csv", "--csv", folder, words='ranking.csv" as its own file'
        )
    (workspace / "ranking.csv").rename(workspace / "ranking.CSV")
    expect_refusal(capsys, "export", "ranking.CSV", "--csv", ".", words="not overwritten")


@posix
@pytest.mark.parametrize("name", ["log.csv", "link.csv", "hard.csv", "../here/log.csv"])
def test_no_option_writes_to_what_is_read(
    name: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "link.csv").symlink_to(workspace / "log.csv")
    os.link(workspace / "log.csv", workspace / "hard.csv")
    for options in (["run", "log.csv", "--json"], ["run", "log.csv", "--csv"]):
        expect_refusal(capsys, *options, name, words="not overwritten")
    for form in ("--html", "--md", "--json"):
        expect_refusal(capsys, "export", "log.csv", form, name, words="not overwritten")


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_output_named_like_a_journal_is_refused(
    ending: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check names of journals that do not exist yet: Anki would take them for its own."""
    (workspace / "c.anki2").write_bytes(b"SQLite format 3\0")
    expect_refusal(capsys, "run", "c.anki2", "--json", f"c.anki2{ending}", words="not overwritten")


def test_nothing_is_written_into_a_folder_that_is_read(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_contents(dataset)
    (tmp_path / "link").symlink_to(dataset)
    for folder in (dataset, tmp_path / "link"):
        for arguments in (
            ["run", dataset, "--user", "1", "--json", folder / "x.json"],
            ["export", dataset, "--user", "1", "--csv", folder / "tables"],
            ["dataset", "info", dataset, "--json", folder / "revlogs" / "x.json"],
        ):
            assert main([*map(str, arguments)]) == 2
            assert "is inside an input folder" in capsys.readouterr().err
    assert read_contents(dataset) == before


# --- files that somebody else has written


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "log.csv", "--json"],
        ["run", "log.csv", "--csv"],
        ["export", "log.csv", "--html"],
        ["export", "log.csv", "--md"],
        ["export", "log.csv", "--json"],
        ["inspect", "log.csv", "--json"],
        ["compare", "log.csv", "--json"],
        ["state", "log.csv", "--json"],
        ["workload", "log.csv", "--json"],
        ["models", "--json"],
        ["dataset", "info", "{dataset}", "--json"],
        ["audit", "{dataset}", "--html"],
    ],
    ids=" ".join,
)
def test_no_option_overwrites_a_file_of_somebody_else(
    arguments: list[str], workspace: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that the file is refused before the work, so that no result is lost."""
    (workspace / "mine").write_bytes(PRECIOUS)
    command = [argument.format(dataset=dataset) for argument in arguments]
    expect_refusal(capsys, *command, "mine", words='mine" as its own file')


@pytest.mark.parametrize("option", ["--html", "--json", "--csv"])
def test_unwritable_folder_is_refused_before_the_work(
    option: str,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Make up the system's answer, because root may write everywhere."""
    closed = workspace / "closed"
    real_access = os.access
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and real_access(path, mode))
    expect_refusal(capsys, "export", "log.csv", option, closed / "new", words="cannot be written (")


@pytest.mark.parametrize("ending", ["csv", "png"])
def test_a_folder_with_files_of_others_is_refused(
    ending: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "out").mkdir()
    (workspace / "out" / f"mine.{ending.upper()}").write_bytes(PRECIOUS)
    expect_refusal(capsys, "export", "log.csv", f"--{ending}", "out", words="not overwritten")
    expect_refusal(capsys, "report", ".", f"--{ending}", "out", words="is inside an input folder")


@pytest.mark.slow
def test_only_unchanged_files_of_srs_eval_are_replaced(workspace: Path) -> None:
    """Write the same report, one with other tables, and one into an edited folder."""
    out = workspace / "out"

    def write(*names: str, title: str = "T") -> None:
        document = make_document(*names, title=title)
        Outputs("r.html", "r.md", out, out, "r.json").write(document)

    write("ranking", "days")
    (out / "notes.txt").write_bytes(PRECIOUS)
    first = read_contents(workspace)
    write("ranking", "days", title="Another")
    second = read_contents(workspace)
    assert first.keys() == second.keys()
    changed = {path.name for path in first if first[path] != second[path]}
    assert changed == {"r.html", "r.md", "r.json", "ranking.csv", "days.csv", _MANIFEST_NAME}
    write("models")
    write("ranking")
    check_outputs([workspace / "r.html"], [("csv", out), ("png", out)])
    (out / "days.csv").write_text(f"{(out / 'days.csv').read_text()}edited\n")
    edited = read_contents(workspace)
    with pytest.raises(InputError, match=r"days\.csv.*not overwritten"):
        check_outputs([], [("csv", out)])
    with pytest.raises(InputError, match=r"days\.csv.*not overwritten"):
        write_folder(out, {"ranking.csv": b"new\n", "days.csv": b"new\n"})
    assert read_contents(workspace) == edited
    check_outputs([], [("png", out)])


@posix
def test_links_folders_and_pipes_are_not_overwritten(workspace: Path) -> None:
    (workspace / "linked.csv").symlink_to(workspace / "log.csv")
    (workspace / "gone.csv").symlink_to(workspace / "nowhere")
    (workspace / "folder.csv").mkdir()
    os.mkfifo(workspace / "pipe.csv")
    for name in ("linked.csv", "gone.csv", "folder.csv", "pipe.csv"):
        with pytest.raises(InputError, match="not overwritten"):
            write_folder(workspace, {name: b"new\n"})
    assert (workspace / "log.csv").read_text() == LOG
    assert (workspace / "linked.csv").is_symlink()


def test_every_document_is_recognised_and_replaced(
    workspace: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collection = workspace / "c.anki2"
    write_collection(simulate_learner(4, 600), collection)
    run = ["run", str(collection), "--models", "AVG", "--jobs", "0"]
    for arguments in (
        [*run, "--json"],
        [*run, "--csv"],
        ["inspect", str(collection), "--json"],
        ["compare", str(collection), "--question", "hard", "--json"],
        ["state", str(collection), "--json"],
        ["models", "--json"],
        ["dataset", "info", str(dataset), "--json"],
    ):
        target = workspace / "out"
        target.unlink(missing_ok=True)
        assert main([*arguments, str(target)]) == 0, capsys.readouterr().err
        assert is_written_by_srs_eval(target)
        assert main([*arguments, str(target)]) == 0
    for form in ("html", "md", "json"):
        Outputs(**{form: form}).write(make_document("a"))
        assert is_written_by_srs_eval(Path(form))


FORMS = ("html", "md", "csv", "png", "json")


def test_results_and_state_files_are_not_taken_for_reports(workspace: Path, dataset: Path) -> None:
    out = workspace / "results"
    list(run_batch(open_dataset(dataset), resolve_configurations("AVG"), out, jobs=1))
    (workspace / "app.json").write_text(json.dumps({"recent": []}))
    assert not [
        path for path in workspace.rglob("*") if path.is_file() and is_written_by_srs_eval(path)
    ]


# --- two outputs of one name


@posix
def test_two_outputs_of_one_name_are_refused(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Outputs("own.html").write(make_document("a"))
    (workspace / "link.html").symlink_to(workspace / "own.html")
    os.link(workspace / "own.html", workspace / "hard.html")
    (workspace / "dangling").symlink_to(workspace / "new")
    composed, apart = (unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD"))
    for first, second in (
        ("x", "x"),
        ("x", "./x"),
        ("x", "../here/x"),
        ("x", workspace / "x"),
        ("x", "X"),
        (composed, apart),
        ("dangling", "new"),
        ("own.html", "link.html"),
        ("own.html", "hard.html"),
    ):
        expect_refusal(
            capsys, "export", "log.csv", "--html", first, "--md", second, words="are the same file"
        )
    expect_refusal(capsys, "run", "log.csv", "--csv", "x", "--json", "x", words="are the same file")
    expect_refusal(capsys, "run", "log.csv", "--csv", "--json", words="Only one document can go")
    words = "lies in the folder of the csv files"
    expect_refusal(
        capsys, "export", "log.csv", "--csv", "out", "--html", "out/x.csv", words="no folder"
    )
    (workspace / "out").mkdir()
    expect_refusal(capsys, "export", "log.csv", "--csv", "out", "--html", "out/x.CSV", words=words)
    for folder in ("new", "NEW", "new/deeper"):
        arguments = ("export", "log.csv", "--png", folder, "--html", "new")
        expect_refusal(capsys, *arguments, words="cannot be created")


@posix
def test_streams_and_devices_accept_any_output(workspace: Path) -> None:
    check_outputs([Path("/dev/null"), Path("/dev/null"), Path("/dev/stdout")])
    write_file(Path("/dev/null"), b"anything")


# --- failures while writing


def test_failed_write_keeps_the_good_files(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a killed program and a full disk; files written earlier stay known as ours."""
    out = workspace / "out"
    write_folder(out, {"a.csv": b"a\n", "b.csv": b"b\n"})
    replace = os.replace
    remaining = 2

    def killed(source: Path, target: Path) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_folder(out, {"a.csv": b"new\n", "b.csv": b"new\n"})
    monkeypatch.undo()
    assert (out / "a.csv").read_bytes() == b"new\n"
    assert (out / "b.csv").read_bytes() == b"b\n"
    write_folder(out, {"a.csv": b"newer\n", "b.csv": b"newer\n"})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_folder(out, {"a.csv": b"newest\n"})
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in out.glob("*.csv")} == {
        "a.csv": b"newer\n",
        "b.csv": b"newer\n",
    }
    assert sorted(path.name for path in out.iterdir()) == [_MANIFEST_NAME, "a.csv", "b.csv"]


@posix
def test_link_at_the_temporary_path_is_not_followed(workspace: Path) -> None:
    (workspace / ".x.json.srs-eval.tmp").symlink_to(workspace / "log.csv")
    write_file(workspace / "x.json", b"{}")
    assert (workspace / "log.csv").read_text() == LOG
    assert (workspace / "x.json").read_bytes() == b"{}"


# --- folders of results


@posix
@pytest.mark.parametrize("out", ["{d}", "{d}/results", "{d}/revlogs/x", "{d}/..", "{t}/link/x"])
def test_results_inside_a_data_set_are_refused(
    out: str, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(dataset)
    folder = out.format(d=dataset, t=tmp_path)
    before = read_contents(dataset)
    arguments = ["--models", "AVG", "--jobs", "1", "--out", folder]
    assert main(["batch", "--dataset", str(dataset), *arguments]) == 2
    assert "must not be mixed" in capsys.readouterr().err
    assert main(["audit", str(dataset), *arguments]) == 2
    assert "must not be mixed" in capsys.readouterr().err
    assert read_contents(dataset) == before


@pytest.mark.parametrize(
    "name",
    [
        "result/AVG.jsonl",
        "timing/AVG.jsonl",
        "failed/AVG.jsonl",
        "skipped/AVG.jsonl",
        "raw/AVG/user_id=1.parquet",
        "evaluation/AVG/1.tsv",
        "evaluation/AVG/calibration-retention-1.png",
    ],
)
@pytest.mark.parametrize("fresh", [False, True])
def test_batch_refuses_a_folder_with_foreign_results(
    name: str, fresh: bool, tmp_path: Path
) -> None:
    foreign = tmp_path / name
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(PRECIOUS)
    with pytest.raises(InputError, match="not from a batch in this folder"):
        ResultStore(tmp_path, SETUP, fresh=fresh)
    assert read_contents(tmp_path) == {foreign: PRECIOUS}
    # The folder is refused if it holds other results of ours, too.
    other_setup = {**SETUP, "configurations": {"90%": SETUP["configurations"]["AVG"]}}
    with ResultStore(tmp_path, other_setup) as store:
        store.append(Unit("90%", 1, "done", result_line={"metrics": {}, "user": 1, "size": 1}))
        store.publish()
    with pytest.raises(InputError, match="not from a batch in this folder"):
        ResultStore(tmp_path, {**SETUP, "configurations": {**SETUP["configurations"]}}, fresh=fresh)
    with ResultStore(tmp_path / "part", SETUP) as store:
        store.append(UNIT)
    for write in (
        lambda: merge_folders([tmp_path / "part"], tmp_path),
        lambda: ResultStore(tmp_path, other_setup).merge_from(tmp_path / "part"),
    ):
        with pytest.raises(InputError, match="not from a batch in this folder"):
            write()
    assert foreign.read_bytes() == PRECIOUS
    assert (tmp_path / "result" / "90%.jsonl").exists()


def test_fresh_deletes_no_set_up_of_another_program(dataset: Path, tmp_path: Path) -> None:
    for name in ("setup.json", "audit.json", "ledger.json"):
        out = tmp_path / name / "out"
        out.mkdir(parents=True)
        (out / name).write_bytes(PRECIOUS)
        opened = open_dataset(dataset)
        for fresh in (False, True):
            with pytest.raises(InputError):
                list(
                    run_audit(
                        opened, resolve_configurations("AVG"), out, evaluate=run_batch, fresh=fresh
                    )
                )
            if name == "setup.json":
                with pytest.raises(InputError):
                    list(run_batch(opened, resolve_configurations("AVG"), out, fresh=fresh))
        assert (out / name).read_bytes() == PRECIOUS


def test_a_killed_first_unit_does_not_lock_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the journal, written first, shows whose the files are."""
    from dataclasses import replace

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with ResultStore(tmp_path, SETUP) as store:
        monkeypatch.setattr("srs_eval.benchmark.store._append_line", killed)
        with pytest.raises(KeyboardInterrupt):
            store.append(replace(UNIT, files={"raw": b"predictions"}))
        monkeypatch.undo()
    with ResultStore(tmp_path, SETUP) as store:
        store.append(replace(UNIT, files={"raw": b"predictions"}))
        assert store.has_file("raw", "AVG", 1)
