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
from tests.cli.program import run_program
from tests.conftest import PATIENCE
from tests.helpers.golden import golden_dataset
from tools.simulated import simulate_learner, write_dataset

REPO = "open-spaced-repetition/anki-revlogs-10k"
USERS = 4
REVISION = "a" * 40

needs_hub = pytest.mark.skipif(
    not is_installed("huggingface_hub"), reason="needs srs-eval[download]"
)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lies on the hub."""
    folder = tmp_path_factory.mktemp("there")
    write_dataset({user: simulate_learner(user, 200) for user in range(1, USERS + 1)}, folder)
    (folder / "README.md").write_text("license: other\n")
    return folder


class Hub(ThreadingHTTPServer):
    """As much of the hub's interface as a download needs; it keeps account of what was asked."""

    daemon_threads = True

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder = folder
        self.home = home  # where its program keeps a token, were there one
        self.sent: Counter[str] = Counter()
        self.refuse: tuple[int, str] | None = None  # status, the hub's own word for it
        self.breaks_after: int | None = None  # so many files, then no more answers
        self.waits_after: int | None = None  # so many files, then an answer that takes long
        self.waiting = threading.Event()
        self.damages: set[str] = set()  # files that arrive changed
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
            self.answer(json.dumps([self.entry(each) for each in self.server.paths()]).encode())
        elif path == f"/api/datasets/{REPO}":
            self.answer(json.dumps({"id": REPO, "sha": REVISION}).encode())
        elif path.startswith(f"/datasets/{REPO}/resolve/"):
            self.send_file(path.split(f"/resolve/{REVISION}/", 1)[1].replace("%3D", "="))
        else:
            self.answer(b"", 404, {"X-Error-Code": "RepoNotFound"})

    def entry(self, name: str) -> dict:
        content = (self.server.folder / name).read_bytes()
        entry = {"type": "file", "path": name, "size": len(content), "oid": blob(content)}
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
        known = self.entry(name)
        headers = {
            "X-Repo-Commit": REVISION,
            "ETag": f'"{known["lfs"]["oid"] if "lfs" in known else known["oid"]}"',
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


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def hub(there: Path, tmp_path: Path) -> Iterator[Hub]:
    server = Hub(there, tmp_path / "home")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def download(hub: Hub, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return run_program("dataset", "download", folder, *more, env=hub.environment())


@pytest.mark.slow
@needs_hub
def test_download(hub: Hub, there: Path, tmp_path: Path) -> None:
    """A part first, then the rest; what is there is not fetched again; damage is mended."""
    folder = tmp_path / "here"
    done = download(hub, folder, "--users", "2-3,9-10")
    assert done.returncode == 0, done.stderr
    assert "forbids to pass them on" in done.stderr
    assert open_dataset(folder).users == [2, 3]
    assert (folder / "README.md").is_file()
    assert len(hub.sent) == 7
    for user in (2, 3):
        part = open_dataset(folder).table_files("revlogs", user)[0]
        assert _read_hub_digest(folder, part) == _compute_digest(part, reference="0" * 64)
    damaged = folder / "cards" / "user_id=2" / "data.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    done = download(hub, folder)
    assert done.returncode == 0, done.stderr
    assert "7 files fetched, 6 were there" in done.stderr
    assert hub.sent[damaged.relative_to(folder).as_posix()] == 2
    assert sum(hub.sent.values()) == 3 * USERS + 2
    for name in hub.paths():
        assert (folder / name).read_bytes() == (there / name).read_bytes()
    assert main(["dataset", "verify", str(folder)]) == 0


@pytest.mark.slow
@needs_hub
@pytest.mark.parametrize("name", ["README.md", "cards/user_id=2/data.parquet"])
def test_a_download_leaves_what_is_not_from_the_hub(hub: Hub, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "here" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    done = download(hub, tmp_path / "here")
    assert done.returncode == 2
    assert f'"{mine}" is not from the hub and is not overwritten' in done.stderr
    assert mine.read_text() == "mine\n"
    mine.rename(tmp_path / "elsewhere")
    assert download(hub, tmp_path / "here").returncode == 0


@pytest.mark.slow
@needs_hub
def test_an_interrupted_download_goes_on(hub: Hub, tmp_path: Path) -> None:
    hub.breaks_after = 5
    folder = tmp_path / "here"
    done = download(hub, folder)
    assert done.returncode == 2
    assert "error 503" in done.stderr
    assert "goes on from there" in done.stderr
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
def test_ctrl_c_keeps_what_has_come(hub: Hub, tmp_path: Path) -> None:
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
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said
    again = download(hub, folder)
    assert again.returncode == 0, again.stderr
    assert set(hub.sent.values()) == {1}


@pytest.mark.slow
@needs_hub
def test_a_wrong_hash_is_seen(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    name = "revlogs/user_id=1/data.parquet"
    hub.damages, hub.damage_times = {name}, 1
    done = download(hub, folder, "--users", "1")
    assert done.returncode == 0, done.stderr
    assert hub.sent[name] == 2
    hub.damages, hub.damage_times = {"cards/user_id=2/data.parquet"}, 10
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
        pytest.param((404, "RepoNotFound"), "knows no data set", marks=pytest.mark.slow),
        pytest.param((429, ""), "asks to wait", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_refusals_of_the_hub(
    hub: Hub, tmp_path: Path, refusal: tuple[int, str], words: str
) -> None:
    hub.refuse = refusal
    done = download(hub, tmp_path / "here")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 2  # what is to come, and why it does not


@pytest.mark.slow
@needs_hub
def test_what_cannot_be_downloaded(hub: Hub, tmp_path: Path) -> None:
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
    assert "cannot be made" in done.stderr


def test_too_little_space_is_said_before(tmp_path: Path) -> None:
    large = [dataset_hub._HubFile("revlogs/user_id=1/data.parquet", 1 << 60, "0" * 64)]
    with pytest.raises(InputError, match="GB free"):
        dataset_hub._check_space(tmp_path, large)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("srs_eval.data.errors.is_installed", lambda module: False)
    assert main(["dataset", "download", "nowhere"]) == 2
    assert "pip install 'srs-eval[download]'" in capsys.readouterr().err


# --- what lies here ----------------------------------------------------------------


def test_info(there: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "data"
    write_dataset({user: simulate_learner(user, 100 * user) for user in (1, 2, 5)}, folder)
    (folder / "decks" / "user_id=2" / "data.parquet").unlink()
    (folder / "revlogs" / "user_id=5" / "data.parquet").write_bytes(b"PAR1")
    found = describe_dataset(open_dataset(folder))
    assert found.users_without == {"cards": [], "decks": [2]}
    assert found.id_gaps == [(3, 4)]
    assert found.review_counts[2] == -1
    assert found.table_bytes["decks"] > 0
    lengths = [len(open_dataset(folder).load(user).rows or ()) for user in (1, 2)]
    assert found.known_review_counts.tolist() == lengths
    assert main(["dataset", "info", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "3, 1 to 5" in said
    assert f"{sum(lengths):,}; a user" in said
    assert "1 user whose file cannot be read" in said
    assert "decks of 1 user; the ids 3-4" in said
    assert main(["dataset", "info", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reviews"] == {"1": lengths[0], "2": lengths[1], "5": None}
    assert main(["dataset", "info", str(there)]) == 0
    assert "missing   nothing" in capsys.readouterr().out


def test_verify(there: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["dataset", "verify", str(there)]) == 0
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
    write_dataset({2: simulate_learner(9, 200)}, folder)  # whole, and not what the hub has
    (folder / "revlogs" / "user_id=3" / "data.parquet").write_bytes(sound)
    assert main(["dataset", "verify", str(folder)]) == 2
    said = capsys.readouterr()
    assert said.out.count("\n") == 2
    assert f"{file}: its content is not the hub's" in said.out
    assert "lacks the column" in said.out
    assert "2 users of 4" in said.err
    assert "--users 2,3" in said.err
    assert main(["dataset", "verify", str(folder), "--users", "1,4"]) == 0


def test_a_csv_data_set_is_of_its_own_repository(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """What `verify` advises fetches FSRS-Anki-20k; a damaged file is named once."""
    assert dataset_hub.resolve_repo(tmp_path / "new") == REPO
    assert dataset_hub.resolve_repo(there) == REPO
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
    dataset_hub._refuse_other_layout(there, REPO, [parquet])
    dataset_hub._refuse_other_layout(tmp_path / "new", REPO, [parquet])


def test_what_is_no_name_of_a_data_set_is_refused_before_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["dataset", "download", str(tmp_path), "--from", "x y z"]) == 2
    said = capsys.readouterr().err
    assert "OWNER/NAME" in said
    assert "https" not in said


@pytest.mark.parametrize(
    ("rating", "shown"),
    [
        (lambda count: [True, False] * (count // 2) + [True] * (count % 2), "true and false"),
        (lambda count: ["3"] * count, "values of the type string"),
    ],
)
def test_verify_refuses_ratings_that_are_no_numbers(
    rating: Callable[[int], list[object]],
    shown: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    write_dataset({1: simulate_learner(1, 200)}, tmp_path / "data")
    path = tmp_path / "data" / "revlogs" / "user_id=1" / "data.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("rating")
    table = table.set_column(place, "rating", pa.array(rating(len(table))))
    pq.write_table(table, path)
    assert main(["dataset", "verify", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().out
    assert f"holds {shown} in its column 'rating', where whole numbers belong" in said


def test_values_that_cannot_be(there: Path) -> None:
    rows = open_dataset(there).load(1).rows
    assert rows is not None
    assert _find_impossible_values(rows) == []
    for name, value in (("rating", 5), ("state", -1), ("day_offset", -4), ("elapsed_days", -2)):
        column = getattr(rows, name).copy()
        column[3] = value
        said = _find_impossible_values(replace(rows, **{name: column}))
        assert any(f"impossible {name} (row 4: {value})" in each for each in said)
    later = rows.day_offset.copy()
    later[0] = 10_000
    assert _find_impossible_values(replace(rows, day_offset=later)) == [
        "its days go back: the rows are not in order of review"
    ]


def test_golden_is_whole() -> None:
    dataset = golden_dataset()
    assert [each.problems for each in check_users(dataset, dataset.users)] == [[]] * len(
        dataset.users
    )


def test_options_that_do_not_go_together(there: Path) -> None:
    for wrong in (
        ["inform", str(there)],
        ["info", str(there), "--users", "1"],
        ["verify", str(there), "--from", REPO],
        ["verify", str(there), "--json"],
    ):
        assert main(["dataset", *wrong]) == 2
