"""`srs-eval dataset`: what a folder holds, whether it is whole, and downloads from a made hub."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srs_eval.cli.main import main
from srs_eval.data import dataset_hub
from srs_eval.data.dataset_hub import (
    _compute_digest,
    _find_impossible_values,
    _read_hub_digest,
    check_users,
    describe_dataset,
)
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError, is_installed
from tests.conftest import PATIENCE
from tests.helpers.golden import golden_dataset
from tests.helpers.program import run_program
from tools.simulated import simulate_learner, write_dataset

REPO = "open-spaced-repetition/anki-revlogs-10k"
USERS = 4
REVISION = "a" * 40

needs_hub = pytest.mark.skipif(
    not is_installed("huggingface_hub"), reason="needs srs-eval[download]"
)


@pytest.fixture(scope="module")
def hub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files that lie on the hub and return their folder."""
    folder = tmp_path_factory.mktemp("there")
    write_dataset({user: simulate_learner(user, 200) for user in range(1, USERS + 1)}, folder)
    (folder / "README.md").write_text("license: other\n")
    return folder


class Hub(ThreadingHTTPServer):
    """Answer as the hub does, as far as a download asks, and count the files sent."""

    daemon_threads = True

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder = folder
        self.home = home
        """The folder where the hub's program would keep a token."""
        self.sent: Counter[str] = Counter()
        self.refuse: tuple[int, str] | None = None
        """The status of all answers, and the hub's code."""
        self.breaks_after: int | None = None
        """The number of files sent before all answers are errors."""
        self.waits_after: int | None = None
        """The number of files sent before an answer takes long."""
        self.waiting = threading.Event()
        self.damages: set[str] = set()
        """Files that arrive changed."""
        self.damage_times = 10

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HF_ENDPOINT": self.address,
            "HF_HOME": str(self.home),
            "no_proxy": "127.0.0.1",
        }

    def paths(self) -> list[str]:
        files = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [path.relative_to(self.folder).as_posix() for path in files]


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.server.refuse is not None:
            status, code = self.server.refuse
            self.answer(b"no", status, {"X-Error-Code": code})
        elif path.startswith("/api/datasets/") and "/tree/" in path:
            self.answer(json.dumps([self.entry(name) for name in self.server.paths()]).encode())
        elif path == f"/api/datasets/{REPO}":
            self.answer(json.dumps({"id": REPO, "sha": REVISION}).encode())
        elif path.startswith(f"/datasets/{REPO}/resolve/"):
            self.send_file(path.split(f"/resolve/{REVISION}/", 1)[1].replace("%3D", "="))
        else:
            self.answer(b"", 404, {"X-Error-Code": "RepoNotFound"})

    def entry(self, name: str) -> dict:
        content = (self.server.folder / name).read_bytes()
        entry = {
            "type": "file",
            "path": name,
            "size": len(content),
            "oid": compute_blob_hash(content),
        }
        if name.endswith(".parquet"):
            entry["lfs"] = {
                "oid": hashlib.sha256(content).hexdigest(),
                "size": len(content),
                "pointerSize": 130,
            }
        return entry

    def send_file(self, name: str) -> None:
        server = self.server
        content = (server.folder / name).read_bytes()
        entry = self.entry(name)
        headers = {
            "X-Repo-Commit": REVISION,
            "ETag": f'"{entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]}"',
        }
        if self.command == "GET":
            if server.breaks_after is not None and sum(server.sent.values()) >= server.breaks_after:
                return self.answer(b"", 503, {})
            if server.waits_after is not None and sum(server.sent.values()) >= server.waits_after:
                server.waiting.set()
                until = time.monotonic() + PATIENCE
                while server.waits_after is not None and time.monotonic() < until:
                    time.sleep(0.05)
            server.sent[name] += 1
            if name in server.damages and server.sent[name] <= server.damage_times:
                content = content[:-1] + bytes([content[-1] ^ 1])
        self.answer(content, 200, headers)
        return None

    def answer(self, content: bytes, status: int = 200, headers: dict | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def compute_blob_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def hub(hub_folder: Path, tmp_path: Path) -> Iterator[Hub]:
    server = Hub(hub_folder, tmp_path / "home")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def download(hub: Hub, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_program("dataset", "download", folder, *options, env=hub.environment())


@pytest.mark.slow
@needs_hub
def test_download_fetches_missing_and_damaged_files_only(
    hub: Hub, hub_folder: Path, tmp_path: Path
) -> None:
    """Download a few users first, damage one file, then download the rest."""
    folder = tmp_path / "here"
    done = download(hub, folder, "--users", "2-3,9-10")
    assert done.returncode == 0, done.stderr
    assert "not to pass it on" in done.stderr
    assert open_dataset(folder).users == [2, 3]
    assert (folder / "README.md").is_file()
    assert len(hub.sent) == 7
    for user in (2, 3):
        path = open_dataset(folder).table_files("revlogs", user)[0]
        assert _read_hub_digest(folder, path) == _compute_digest(path, reference="0" * 64)
    damaged = folder / "cards" / "user_id=2" / "data.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    done = download(hub, folder)
    assert done.returncode == 0, done.stderr
    assert "7 files downloaded, 6 were already here" in done.stderr
    assert hub.sent[damaged.relative_to(folder).as_posix()] == 2
    assert sum(hub.sent.values()) == 3 * USERS + 2
    for name in hub.paths():
        assert (folder / name).read_bytes() == (hub_folder / name).read_bytes()
    assert main(["dataset", "verify", str(folder)]) == 0


@pytest.mark.slow
@needs_hub
@pytest.mark.parametrize("name", ["README.md", "cards/user_id=2/data.parquet"])
def test_download_does_not_overwrite_other_files(hub: Hub, tmp_path: Path, name: str) -> None:
    file = tmp_path / "here" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    done = download(hub, tmp_path / "here")
    assert done.returncode == 2
    assert f'"{file}" is not from the hub and is not overwritten' in done.stderr
    assert file.read_text() == "mine\n"
    file.rename(tmp_path / "elsewhere")
    assert download(hub, tmp_path / "here").returncode == 0


@pytest.mark.slow
@needs_hub
def test_interrupted_download_continues_without_repeats(hub: Hub, tmp_path: Path) -> None:
    hub.breaks_after = 5
    folder = tmp_path / "here"
    done = download(hub, folder)
    assert done.returncode == 2
    assert "error 503" in done.stderr
    assert "run the same command to continue" in done.stderr
    assert "Traceback" not in done.stderr
    before = set(hub.sent)
    hub.breaks_after = None
    again = download(hub, folder)
    assert again.returncode == 0, again.stderr
    assert set(hub.sent.values()) == {1}
    assert before < set(hub.sent)
    assert not list(folder.rglob("*.incomplete"))


@pytest.mark.slow
@needs_hub
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_keeps_the_files_already_downloaded(hub: Hub, tmp_path: Path) -> None:
    hub.waits_after = 4
    folder = tmp_path / "here"
    process = subprocess.Popen(
        [sys.executable, "-m", "srs_eval", "dataset", "download", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=hub.environment(),
    )
    assert hub.waiting.wait(PATIENCE)
    process.send_signal(signal.SIGINT)
    hub.waits_after = None
    hub.waiting.clear()
    _, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "run the same command to continue" in messages
    assert "Traceback" not in messages
    again = download(hub, folder)
    assert again.returncode == 0, again.stderr
    assert set(hub.sent.values()) == {1}


@pytest.mark.slow
@needs_hub
def test_file_with_a_wrong_hash_is_fetched_again_or_refused(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    name = "revlogs/user_id=1/data.parquet"
    hub.damages = {name}
    hub.damage_times = 1
    done = download(hub, folder, "--users", "1")
    assert done.returncode == 0, done.stderr
    assert hub.sent[name] == 2
    hub.damages = {"cards/user_id=2/data.parquet"}
    hub.damage_times = 10
    refused = download(hub, folder, "--users", "2")
    assert refused.returncode == 2
    assert "cards/user_id=2/data.parquet" in refused.stderr
    assert "wrong hash" in refused.stderr
    assert not (folder / "cards" / "user_id=2" / "data.parquet").exists()


@needs_hub
@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((401, "GatedRepo"), "accept them at https://huggingface.co/datasets/" + REPO),
        pytest.param((403, "GatedRepo"), "hf auth login", marks=pytest.mark.slow),
        pytest.param((404, "RepoNotFound"), "has no data set", marks=pytest.mark.slow),
        pytest.param((429, ""), "asks you to wait", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_refusal_of_the_hub_is_explained_in_one_line(
    hub: Hub, tmp_path: Path, refusal: tuple[int, str], words: str
) -> None:
    hub.refuse = refusal
    done = download(hub, tmp_path / "here")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 2  # the announcement and the reason


@pytest.mark.slow
@needs_hub
def test_download_from_wrong_sources_is_refused(hub: Hub, tmp_path: Path) -> None:
    done = download(hub, tmp_path / "here", "--users", "77")
    assert done.returncode == 2
    assert "no user 77" in done.stderr
    done = download(hub, tmp_path / "here", "--from", "no-owner")
    assert done.returncode == 2
    assert "OWNER/NAME" in done.stderr
    gone = Hub(tmp_path, tmp_path)
    gone.server_close()
    done = download(gone, tmp_path / "here")
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = download(hub, blocked / "here")
    assert done.returncode == 2
    assert "cannot be created" in done.stderr


def test_too_little_space_is_refused_before_the_download(tmp_path: Path) -> None:
    large = [dataset_hub._HubFile("revlogs/user_id=1/data.parquet", 1 << 60, "0" * 64)]
    with pytest.raises(InputError, match="GB free"):
        dataset_hub._check_space(tmp_path, large)


def test_download_without_the_extra_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("srs_eval.data.errors.is_installed", lambda module: False)
    assert main(["dataset", "download", "nowhere"]) == 2
    assert "pip install 'srs-eval[download]'" in capsys.readouterr().err


# --- data sets on this computer ----------------------------------------------------


def test_info_counts_users_reviews_and_gaps(
    hub_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "data"
    write_dataset({user: simulate_learner(user, 100 * user) for user in (1, 2, 5)}, folder)
    (folder / "decks" / "user_id=2" / "data.parquet").unlink()
    (folder / "revlogs" / "user_id=5" / "data.parquet").write_bytes(b"PAR1")
    description = describe_dataset(open_dataset(folder))
    assert description.users_without == {"cards": [], "decks": [2]}
    assert description.id_gaps == [(3, 4)]
    assert description.review_counts[2] == -1
    assert description.table_bytes["decks"] > 0
    lengths = [len(open_dataset(folder).load(user).rows or ()) for user in (1, 2)]
    assert description.known_review_counts.tolist() == lengths
    assert main(["dataset", "info", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "3, 1 to 5" in output
    assert f"{sum(lengths):,}; {min(lengths):,} to {max(lengths):,} per user" in output
    assert "1 user whose file cannot be read" in output
    assert "decks of 1 user; the ids 3-4" in output
    assert main(["dataset", "info", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reviews"] == {"1": lengths[0], "2": lengths[1], "5": None}
    assert main(["dataset", "info", str(hub_folder)]) == 0
    assert "missing   nothing" in capsys.readouterr().out


def test_verify_reports_changed_and_unreadable_files(
    hub_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["dataset", "verify", str(hub_folder)]) == 0
    assert "4 users read, no hash to compare: nothing is wrong" in capsys.readouterr().out
    folder = tmp_path / "data"
    write_dataset({user: simulate_learner(user, 200) for user in range(1, USERS + 1)}, folder)
    file = folder / "cards" / "user_id=2" / "data.parquet"
    sound = file.read_bytes()
    note = folder / ".cache/huggingface/download/cards/user_id=2/data.parquet.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{REVISION}\n{hashlib.sha256(sound).hexdigest()}\n1.0\n")
    assert main(["dataset", "verify", str(folder)]) == 0
    assert "1 file with the hub's hash" in capsys.readouterr().out
    write_dataset({2: simulate_learner(9, 200)}, folder)  # complete, but not the hub's file
    (folder / "revlogs" / "user_id=3" / "data.parquet").write_bytes(sound)
    assert main(["dataset", "verify", str(folder)]) == 2
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 2
    assert f"{file}: its content differs from the hub's" in captured.out
    assert "lacks the column" in captured.out
    assert "2 users of 4" in captured.err
    assert "--users 2,3" in captured.err
    assert main(["dataset", "verify", str(folder), "--users", "1,4"]) == 0


def test_csv_data_set_is_fetched_from_its_own_repository(
    hub_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Check the repository that `verify` advises, and that a damaged file is named once."""
    assert dataset_hub.resolve_repo(tmp_path / "new") == REPO
    assert dataset_hub.resolve_repo(hub_folder) == REPO
    file = tmp_path / "mine" / "dataset" / "1" / "5.csv"
    file.parent.mkdir(parents=True)
    file.write_text("card_id,review_th,delta_t,rating\n1,1,x,3\n")
    folder = tmp_path / "mine"
    assert dataset_hub.resolve_repo(folder) == "open-spaced-repetition/FSRS-Anki-20k"
    assert main(["dataset", "verify", str(folder)]) == 2
    assert capsys.readouterr().out.count("5.csv") == 1
    parquet = dataset_hub._HubFile("revlogs/user_id=1/data.parquet", 1, "0" * 64)
    with pytest.raises(InputError, match="laid out as FSRS-Anki-20k"):
        dataset_hub._refuse_other_layout(folder, REPO, [parquet])
    dataset_hub._refuse_other_layout(hub_folder, REPO, [parquet])
    dataset_hub._refuse_other_layout(tmp_path / "new", REPO, [parquet])


def test_wrong_repository_name_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["dataset", "download", str(tmp_path), "--from", "x y z"]) == 2
    message = capsys.readouterr().err
    assert "OWNER/NAME" in message
    assert "https" not in message


@pytest.mark.parametrize(
    ("rating", "description"),
    [
        (lambda count: [True, False] * (count // 2) + [True] * (count % 2), "true and false"),
        (lambda count: ["3"] * count, "values of the type string"),
    ],
)
def test_verify_refuses_ratings_that_are_no_numbers(
    rating: Callable[[int], list[object]],
    description: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    write_dataset({1: simulate_learner(1, 200)}, tmp_path / "data")
    path = tmp_path / "data" / "revlogs" / "user_id=1" / "data.parquet"
    table = pq.read_table(path)
    index = table.column_names.index("rating")
    table = table.set_column(index, "rating", pa.array(rating(len(table))))
    pq.write_table(table, path)
    assert main(["dataset", "verify", str(tmp_path / "data")]) == 2
    output = capsys.readouterr().out
    assert f"holds {description} in its column 'rating', where whole numbers belong" in output


def test_impossible_values_are_found_with_their_row(hub_folder: Path) -> None:
    rows = open_dataset(hub_folder).load(1).rows
    assert rows is not None
    assert _find_impossible_values(rows) == []
    for name, value in (("rating", 5), ("state", -1), ("day_offset", -4), ("elapsed_days", -2)):
        column = getattr(rows, name).copy()
        column[3] = value
        problems = _find_impossible_values(replace(rows, **{name: column}))
        assert any(f"impossible {name} (row 4: {value})" in problem for problem in problems)
    later = rows.day_offset.copy()
    later[0] = 10_000
    assert _find_impossible_values(replace(rows, day_offset=later)) == [
        "its days are not in order, so its rows are not in the order of the reviews"
    ]


def test_golden_data_set_has_no_problems() -> None:
    dataset = golden_dataset()
    assert [checked.problems for checked in check_users(dataset, dataset.users)] == [[]] * len(
        dataset.users
    )


def test_options_that_exclude_each_other_are_refused(hub_folder: Path) -> None:
    for wrong in (
        ["inform", str(hub_folder)],
        ["info", str(hub_folder), "--users", "1"],
        ["verify", str(hub_folder), "--from", REPO],
        ["verify", str(hub_folder), "--json"],
    ):
        assert main(["dataset", *wrong]) == 2
