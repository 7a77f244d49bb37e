"""The digest of a model's folder: everything below it that figures may depend on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from srs_eval.data import model_folder
from srs_eval.data.model_folder import FolderContent, read_model_folder
from srs_eval.data.outputs import write_file, write_folder
from srs_eval.report.export import to_json


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "mine.py"
    path.parent.mkdir()
    path.write_text("MODELS = ()\n")
    return path


def write_beside(file: Path, name: str, text: str = "1") -> Path:
    path = file.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "w.json",
        "data/w.json",
        "data/deep/er/w.npz",
        "a/b/net.py",
        "README.md",
        "results/setup.json",
    ],
)
def test_digest_changes_with_every_file_below(name: str, file: Path) -> None:
    before = read_model_folder(file)
    path = write_beside(file, name)
    added = read_model_folder(file)
    path.write_text("2")
    changed = read_model_folder(file)
    assert len({before.digest, added.digest, changed.digest}) == 3
    assert before.is_complete
    assert changed.is_complete
    assert (before.code_digest != changed.code_digest) == name.endswith(".py")


@pytest.mark.parametrize(
    "name",
    [
        "__pycache__/mine.pyc",
        "lib/__pycache__/x.pyc",
        ".git/index",
        ".venv/lib/x.py",
        ".hidden",
        "batch.log",
        "nohup.out",
        "logs/today.LOG",
        "Analysis.ipynb",
    ],
)
def test_digest_ignores_caches_hidden_files_and_logs(name: str, file: Path) -> None:
    before = read_model_folder(file)
    write_beside(file, name)
    assert read_model_folder(file) == before


def test_digest_ignores_a_virtual_environment(file: Path) -> None:
    before = read_model_folder(file)
    write_beside(file, "env/pyvenv.cfg")
    write_beside(file, "env/lib/numpy.py")
    assert read_model_folder(file) == before


@pytest.mark.parametrize("folder", ["results", "."])
def test_digest_ignores_results_of_a_batch(folder: str, file: Path) -> None:
    before = read_model_folder(file)
    kinds = ("result", "timing", "failed", "skipped", "raw/AVG", "evaluation/AVG")
    names = [".journal/AVG.jsonl", "setup.json"]
    names += [f"{kind}/x.jsonl" for kind in kinds]
    for name in names:
        write_beside(file, f"{folder}/{name}")
    assert read_model_folder(file) == before
    write_beside(file, f"{folder}/w.json")
    assert read_model_folder(file) != before


def test_digest_ignores_files_written_by_srs_eval(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(file.parent / "cache"))
    before = read_model_folder(file)
    write_beside(file, "cache/results/ab/ab.npz")
    write_file(file.parent / "run.json", to_json({"layout": 1, "srs_eval": "1.0.0"}).encode())
    write_folder(file.parent / "tables", {"ranking.csv": b"a,b\n"})
    assert read_model_folder(file) == before
    write_beside(file, "tables/ranking.csv", "mine\n")
    assert read_model_folder(file) != before


def test_digest_ignores_the_file_that_stdout_goes_to(file: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from srs_eval.data.model_folder import read_model_folder\n"
        "print(read_model_folder(Path(sys.argv[1])).digest, file=sys.stderr, flush=True)"
    )
    digests = []
    for name in ("first.txt", "second.txt"):
        with (file.parent / name).open("w") as stream:
            command = [sys.executable, "-c", script, str(file)]
            done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, check=True)
        digests.append(done.stderr)
        (file.parent / name).unlink()
    assert digests[0] == digests[1]
    assert digests[0].decode().strip() == read_model_folder(file).digest


def test_copy_of_a_model_has_another_digest(file: Path) -> None:
    copy = write_beside(file, "copy.py", file.read_text())
    assert read_model_folder(copy).digest != read_model_folder(file).digest
    assert read_model_folder(copy).code_digest != read_model_folder(file).code_digest


def test_links_are_followed_and_circles_and_pipes_skipped(file: Path) -> None:
    (file.parent / "loop").symlink_to(file.parent)
    (file.parent / "nowhere").symlink_to(file.parent / "nothing")
    elsewhere = file.parent.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "w.json").write_text("1")
    (file.parent / "data").symlink_to(elsewhere)
    if hasattr(os, "mkfifo"):
        os.mkfifo(file.parent / "pipe")
    before = read_model_folder(file)
    (elsewhere / "w.json").write_text("2")
    assert before.is_complete
    assert read_model_folder(file).digest != before.digest


def is_refused(content: FolderContent) -> bool:
    return not content.is_complete and content.digest == content.code_digest


def test_more_entries_than_the_bound_are_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "MAX_ENTRIES", 6)
    for number in range(4):
        write_beside(file, f"folder {number}/x")
    # Four folders, the model's file and the first folder's file are six entries; the second
    # folder's file is one too many.
    read: list[Path] = []
    real_scandir = os.scandir

    def scandir(path: Path) -> object:
        read.append(Path(path))
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert model_folder._files_below(file.parent) is None
    assert len(read) == 3
    before = read_model_folder(file)
    assert is_refused(before)
    write_beside(file, "folder 1/helper.py")
    after = read_model_folder(file)
    assert is_refused(after)
    assert after.digest != before.digest


def test_more_bytes_than_the_bound_are_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_beside(file, "large", "x" * 1_000)
    assert read_model_folder(file).is_complete
    monkeypatch.setattr(model_folder, "MAX_BYTES", 900)
    read: list[str] = []
    real_digest = model_folder.file_digest

    def digest(path: Path) -> str:
        read.append(path.name)
        return real_digest(path)

    monkeypatch.setattr(model_folder, "file_digest", digest)
    assert is_refused(read_model_folder(file))
    assert set(read) == {"mine.py"}


def test_digest_changes_if_size_and_time_stay_the_same(file: Path) -> None:
    """Check a change within one tick of the file system's clock."""
    path = write_beside(file, "w.json", "0.8")
    status = path.stat()
    before = read_model_folder(file)
    path.write_text("0.7")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert read_model_folder(file).digest != before.digest


def test_missing_model_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_model_folder(tmp_path / "none.py")
