"""What the figures of a model file may depend on: everything below its folder, within bounds."""

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


def put(file: Path, place: str, text: str = "1") -> Path:
    path = file.parent / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "place",
    [
        "w.json",
        "data/w.json",
        "data/deep/er/w.npz",
        "a/b/net.py",
        "README.md",
        "results/setup.json",
    ],
)
def test_every_file_below_counts(place: str, file: Path) -> None:
    before = read_model_folder(file)
    path = put(file, place)
    there = read_model_folder(file)
    path.write_text("2")
    changed = read_model_folder(file)
    assert len({before.digest, there.digest, changed.digest}) == 3
    assert before.is_complete
    assert changed.is_complete
    assert (before.code_digest != changed.code_digest) == place.endswith(".py")


@pytest.mark.parametrize(
    "place",
    [
        *(
            "__pycache__/mine.pyc",
            "lib/__pycache__/x.pyc",
            ".git/index",
            ".venv/lib/x.py",
            ".hidden",
        ),
        *("batch.log", "nohup.out", "logs/today.LOG", "Analysis.ipynb"),
    ],
)
def test_what_cannot_matter_does_not_count(place: str, file: Path) -> None:
    before = read_model_folder(file)
    put(file, place)
    assert read_model_folder(file) == before


def test_a_virtual_environment_of_any_name_does_not_count(file: Path) -> None:
    before = read_model_folder(file)
    put(file, "env/pyvenv.cfg")
    put(file, "env/lib/numpy.py")
    assert read_model_folder(file) == before


@pytest.mark.parametrize("folder", ["results", "."])
def test_results_of_a_batch_do_not_count(folder: str, file: Path) -> None:
    before = read_model_folder(file)
    kinds = ("result", "timing", "failed", "skipped", "raw/AVG", "evaluation/AVG")
    for place in (".journal/AVG.jsonl", "setup.json", *(f"{kind}/x.jsonl" for kind in kinds)):
        put(file, f"{folder}/{place}")
    assert read_model_folder(file) == before
    put(file, f"{folder}/w.json")
    assert read_model_folder(file) != before


def test_what_srs_eval_has_written_does_not_count(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(file.parent / "cache"))
    before = read_model_folder(file)
    put(file, "cache/results/ab/ab.npz")
    write_file(file.parent / "run.json", to_json({"layout": 1, "srs_eval": "1.0.0"}).encode())
    write_folder(file.parent / "tables", {"ranking.csv": b"a,b\n"})
    assert read_model_folder(file) == before
    put(file, "tables/ranking.csv", "mine\n")
    assert read_model_folder(file) != before


def test_a_file_that_is_printed_into_does_not_count(file: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from srs_eval.data.model_folder import read_model_folder\n"
        "print(read_model_folder(Path(sys.argv[1])).digest, file=sys.stderr, flush=True)"
    )
    said = []
    for name in ("first.txt", "second.txt"):
        with (file.parent / name).open("w") as stream:
            command = [sys.executable, "-c", script, str(file)]
            done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, check=True)
        said.append(done.stderr)
        (file.parent / name).unlink()
    assert said[0] == said[1]
    assert said[0].decode().strip() == read_model_folder(file).digest


def test_a_copy_of_a_model_is_another_model(file: Path) -> None:
    copy = put(file, "copy.py", file.read_text())
    assert read_model_folder(copy).digest != read_model_folder(file).digest
    assert read_model_folder(copy).code_digest != read_model_folder(file).code_digest


def test_links_and_pipes_end_no_walk(file: Path) -> None:
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


def refused(content: FolderContent) -> bool:
    return not content.is_complete and content.digest == content.code_digest


def test_more_entries_than_the_bound_are_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "MAX_ENTRIES", 6)
    for number in range(4):
        put(file, f"folder {number}/x")
    # Four folders, the model's file, what is in the first folder; in the second is one too many.
    read: list[Path] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (read.append(Path(path)), scan(path))[1])
    assert model_folder._files_below(file.parent) is None
    assert len(read) == 3
    before = read_model_folder(file)
    assert refused(before)
    put(file, "folder 1/helper.py")
    after = read_model_folder(file)
    assert refused(after)
    assert after.digest != before.digest


def test_more_bytes_than_the_bound_are_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(file, "large", "x" * 1_000)
    assert read_model_folder(file).is_complete
    monkeypatch.setattr(model_folder, "MAX_BYTES", 900)
    read: list[str] = []
    digest = model_folder.file_digest
    monkeypatch.setattr(
        model_folder, "file_digest", lambda path: (read.append(path.name), digest(path))[1]
    )
    assert refused(read_model_folder(file))
    assert set(read) == {"mine.py"}


def test_a_file_of_the_same_size_and_moment_counts(file: Path) -> None:
    """The clock of a file system ticks slower than a program writes."""
    path = put(file, "w.json", "0.8")
    about = path.stat()
    before = read_model_folder(file)
    path.write_text("0.7")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert read_model_folder(file).digest != before.digest


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_model_folder(tmp_path / "none.py")
