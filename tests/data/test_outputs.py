"""What is written replaces what srs-eval wrote, and no other file of anybody's."""

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
from srs_eval.report.document import Column, Document, Figure, Picture, Section, Table
from tests.benchmark.test_store import SETUP, unit
from tools.simulated import simulate_learner, write_collection, write_dataset

LOG = "card_id,review_rating,review_time\n" + "".join(
    f"{k % 40},{1 + 2 * (k % 7 > 0)},{1_700_000_000_000 + k * 9_000_000}\n" for k in range(900)
)
PRECIOUS = b"what somebody has written\n"
posix = pytest.mark.skipif(os.name != "posix", reason="links")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def a_document(*names: str, title: str = "T") -> Document:
    from matplotlib.figure import Figure as Drawing

    columns = (Column("model"), Column("log loss"))
    blocks = [Table(each, each, columns, ((title, Figure(0.5)),)) for each in names]
    pictures = [Picture(each, each, Drawing) for each in names]
    return Document(title, ("So it is.",), (Section("S", (*blocks, *pictures)),))


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, words: str = "") -> None:
    """Code 2 and one sentence, and no file has changed."""
    before = contents(Path.cwd())
    assert main([*map(str, arguments)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert words in said
    assert contents(Path.cwd()) == before


# --- what is read


def test_an_export_never_replaces_the_log_that_it_reads(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of the report has the log's name."""
    (here / "log.csv").rename(here / "ranking.csv")
    for folder in (".", here, "../here"):
        refused(capsys, "export", "ranking.csv", "--csv", folder, words='ranking.csv" is not known')
    (here / "ranking.csv").rename(here / "ranking.CSV")
    refused(capsys, "export", "ranking.CSV", "--csv", ".", words="not overwritten")


@posix
@pytest.mark.parametrize("name", ["log.csv", "link.csv", "hard.csv", "../here/log.csv"])
def test_no_option_writes_to_what_is_read(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "link.csv").symlink_to(here / "log.csv")
    os.link(here / "log.csv", here / "hard.csv")
    for options in (["run", "log.csv", "--json"], ["run", "log.csv", "--csv"]):
        refused(capsys, *options, name, words="not overwritten")
    for form in ("--html", "--md", "--json"):
        refused(capsys, "export", "log.csv", form, name, words="not overwritten")


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_no_journal_appears_beside_a_collection(
    ending: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is none yet, and Anki would take one for its own."""
    (here / "c.anki2").write_bytes(b"SQLite format 3\0")
    refused(capsys, "run", "c.anki2", "--json", f"c.anki2{ending}", words="not overwritten")


def test_nothing_is_written_into_a_folder_that_is_read(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(dataset)
    (tmp_path / "link").symlink_to(dataset)
    for folder in (dataset, tmp_path / "link"):
        for arguments in (
            ["run", dataset, "--user", "1", "--json", folder / "x.json"],
            ["export", dataset, "--user", "1", "--csv", folder / "tables"],
            ["dataset", "info", dataset, "--json", folder / "revlogs" / "x.json"],
        ):
            assert main([*map(str, arguments)]) == 2
            assert "lies in what is read" in capsys.readouterr().err
    assert contents(dataset) == before


# --- what somebody else has written


@pytest.mark.parametrize(
    "arguments",
    [
        *(["run", "log.csv", form] for form in ("--json", "--csv")),
        *(["export", "log.csv", form] for form in ("--html", "--md", "--json")),
        *([command, "log.csv", "--json"] for command in ("inspect", "compare", "state")),
        ["workload", "log.csv", "--json"],
        ["models", "--json"],
        ["dataset", "info", "{dataset}", "--json"],
        ["audit", "{dataset}", "--html"],
    ],
    ids=" ".join,
)
def test_no_option_overwrites_what_somebody_has_written(
    arguments: list[str], here: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the work, so that none is lost."""
    (here / "mine").write_bytes(PRECIOUS)
    given = [each.format(dataset=dataset) for each in arguments]
    refused(capsys, *given, "mine", words='mine" is not known as a file that srs-eval wrote')


@pytest.mark.parametrize("option", ["--html", "--json", "--csv"])
def test_a_folder_that_takes_nothing_is_refused_before_the_work(
    option: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after minutes. Root may write everywhere, so what the system answers is made up."""
    closed, may = here / "closed", os.access
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and may(path, mode))
    refused(capsys, "export", "log.csv", option, closed / "new", words="cannot be written (")


@pytest.mark.parametrize("ending", ["csv", "png"])
def test_a_folder_with_files_of_others_is_refused(
    ending: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "out").mkdir()
    (here / "out" / f"mine.{ending.upper()}").write_bytes(PRECIOUS)
    refused(capsys, "export", "log.csv", f"--{ending}", "out", words="not overwritten")
    refused(capsys, "report", ".", f"--{ending}", "out", words="lies in what is read")


@pytest.mark.slow
def test_our_own_is_replaced_and_nothing_else(here: Path) -> None:
    """By the same report, by one with other tables, and from a folder that was copied."""
    out = here / "out"

    def write(*names: str, title: str = "T") -> None:
        document = a_document(*names, title=title)
        Outputs("r.html", "r.md", out, out, "r.json").write(document)

    write("ranking", "days")
    (out / "notes.txt").write_bytes(PRECIOUS)
    first = contents(here)
    write("ranking", "days", title="Another")
    second = contents(here)
    assert first.keys() == second.keys()
    changed = {path.name for path in first if first[path] != second[path]}
    assert changed == {"r.html", "r.md", "r.json", "ranking.csv", "days.csv", _MANIFEST_NAME}
    write("models")
    write("ranking")
    check_outputs([here / "r.html"], [("csv", out), ("png", out)])
    (out / "days.csv").write_text(f"{(out / 'days.csv').read_text()}edited\n")
    edited = contents(here)
    with pytest.raises(InputError, match=r"days\.csv.*not overwritten"):
        check_outputs([], [("csv", out)])
    with pytest.raises(InputError, match=r"days\.csv.*not overwritten"):
        write_folder(out, {"ranking.csv": b"new\n", "days.csv": b"new\n"})
    assert contents(here) == edited
    check_outputs([], [("png", out)])


@posix
def test_a_folder_holds_links_and_folders_of_others(here: Path) -> None:
    (here / "linked.csv").symlink_to(here / "log.csv")
    (here / "gone.csv").symlink_to(here / "nowhere")
    (here / "folder.csv").mkdir()
    os.mkfifo(here / "pipe.csv")
    for name in ("linked.csv", "gone.csv", "folder.csv", "pipe.csv"):
        with pytest.raises(InputError, match="not overwritten"):
            write_folder(here, {name: b"new\n"})
    assert (here / "log.csv").read_text() == LOG
    assert (here / "linked.csv").is_symlink()


def test_every_document_is_known_again(
    here: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second time it replaces the first; another's file in its place it would not."""
    collection = here / "c.anki2"
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
        target = here / "out"
        target.unlink(missing_ok=True)
        assert main([*arguments, str(target)]) == 0, capsys.readouterr().err
        assert is_written_by_srs_eval(target)
        assert main([*arguments, str(target)]) == 0
    for form in ("html", "md", "json"):
        Outputs(**{form: form}).write(a_document("a"))
        assert is_written_by_srs_eval(Path(form))


FORMS = ("html", "md", "csv", "png", "json")


def test_ours_of_another_kind_are_no_reports(here: Path, dataset: Path) -> None:
    """Set-ups, ledgers and results are not what an option may replace."""
    out = here / "results"
    list(run_batch(open_dataset(dataset), resolve_configurations("AVG"), out, jobs=1))
    (here / "app.json").write_text(json.dumps({"recent": []}))
    assert not [path for path in here.rglob("*") if path.is_file() and is_written_by_srs_eval(path)]


# --- two outputs of one name


@posix
def test_two_outputs_of_one_name_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Outputs("own.html").write(a_document("a"))
    (here / "link.html").symlink_to(here / "own.html")
    os.link(here / "own.html", here / "hard.html")
    (here / "dangling").symlink_to(here / "new")
    composed, apart = (unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD"))
    for one, other in (
        ("x", "x"),
        ("x", "./x"),
        ("x", "../here/x"),
        ("x", here / "x"),
        ("x", "X"),
        (composed, apart),
        ("dangling", "new"),
        ("own.html", "link.html"),
        ("own.html", "hard.html"),
    ):
        refused(capsys, "export", "log.csv", "--html", one, "--md", other, words="are one file")
    refused(capsys, "run", "log.csv", "--csv", "x", "--json", "x", words="are one file")
    refused(capsys, "run", "log.csv", "--csv", "--json", words="stdout can carry one")
    words = "lies in the folder of the csv files"
    refused(capsys, "export", "log.csv", "--csv", "out", "--html", "out/x.csv", words="no folder")
    (here / "out").mkdir()
    refused(capsys, "export", "log.csv", "--csv", "out", "--html", "out/x.CSV", words=words)
    for folder in ("new", "NEW", "new/deeper"):
        arguments = ("export", "log.csv", "--png", folder, "--html", "new")
        refused(capsys, *arguments, words="cannot be both")


@posix
def test_streams_and_devices_take_whatever_comes(here: Path) -> None:
    check_outputs([Path("/dev/null"), Path("/dev/null"), Path("/dev/stdout")])
    write_file(Path("/dev/null"), b"anything")


# --- half-way


def test_a_failure_half_way_costs_no_good_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a full disk nor a killed program; what came before is known as ours afterwards."""
    out = here / "out"
    write_folder(out, {"a.csv": b"a\n", "b.csv": b"b\n"})
    replace, left = os.replace, [2]

    def killed(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
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
def test_what_lies_where_a_file_is_prepared_is_not_written_to(here: Path) -> None:
    (here / ".x.json.srs-eval.tmp").symlink_to(here / "log.csv")
    write_file(here / "x.json", b"{}")
    assert (here / "log.csv").read_text() == LOG
    assert (here / "x.json").read_bytes() == b"{}"


# --- folders of results


@posix
@pytest.mark.parametrize("out", ["{d}", "{d}/results", "{d}/revlogs/x", "{d}/..", "{t}/link/x"])
def test_results_lie_in_no_data_set_and_no_data_set_among_results(
    out: str, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(dataset)
    place = out.format(d=dataset, t=tmp_path)
    before = contents(dataset)
    arguments = ["--models", "AVG", "--jobs", "1", "--out", place]
    assert main(["batch", "--dataset", str(dataset), *arguments]) == 2
    assert "lie in one another" in capsys.readouterr().err
    assert main(["audit", str(dataset), *arguments]) == 2
    assert "lie in one another" in capsys.readouterr().err
    assert contents(dataset) == before


@pytest.mark.parametrize(
    "name",
    [
        *(f"{folder}/AVG.jsonl" for folder in ("result", "timing", "failed", "skipped")),
        "raw/AVG/user_id=1.parquet",
        "evaluation/AVG/1.tsv",
        "evaluation/AVG/calibration-retention-1.png",
    ],
)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_batch_leaves_what_it_has_not_made(name: str, fresh: bool, tmp_path: Path) -> None:
    foreign = tmp_path / name
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(PRECIOUS)
    with pytest.raises(InputError, match="not from a batch in this folder"):
        ResultStore(tmp_path, SETUP, fresh=fresh)
    assert contents(tmp_path) == {foreign: PRECIOUS}
    # Where it holds other results of ours, too.
    others = {**SETUP, "configurations": {"90%": SETUP["configurations"]["AVG"]}}
    with ResultStore(tmp_path, others) as store:
        store.append(Unit("90%", 1, "done", line={"metrics": {}, "user": 1, "size": 1}))
        store.publish()
    with pytest.raises(InputError, match="not from a batch in this folder"):
        ResultStore(tmp_path, {**SETUP, "configurations": {**SETUP["configurations"]}}, fresh=fresh)
    with ResultStore(tmp_path / "part", SETUP) as store:
        store.append(unit(1))
    for write in (
        lambda: merge_folders([tmp_path / "part"], tmp_path),
        lambda: ResultStore(tmp_path, others).merge_from(tmp_path / "part"),
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
    """What it kept is known by the journal, which is there before it."""
    from dataclasses import replace

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with ResultStore(tmp_path, SETUP) as store:
        monkeypatch.setattr("srs_eval.benchmark.store._append", killed)
        with pytest.raises(KeyboardInterrupt):
            store.append(replace(unit(1), files={"raw": b"predictions"}))
        monkeypatch.undo()
    with ResultStore(tmp_path, SETUP) as store:
        store.append(replace(unit(1), files={"raw": b"predictions"}))
        assert store.has_file("raw", "AVG", 1)
