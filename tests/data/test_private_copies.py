"""No private copy stays behind: real processes on a large file, ended in every way."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from srs_eval.data.readers import collection, files
from tests.conftest import PATIENCE
from tests.helpers.anki_files import folder_state, make_collection, make_package, plain_history
from tests.helpers.marks import slow_except

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")

ENTRIES = 200_000
ALL = len(plain_history()) + ENTRIES
SECRET = b"what is on a card"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a collection that takes a while to read: 30 MB of notes, many reviews."""
    path = tmp_path_factory.mktemp("large") / "collection.anki2"
    make_collection(path, entries=plain_history(), wal=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table notes (id integer primary key, flds text)")
        connection.execute(
            "with recursive n(x) as (select 1 union all select x + 1 from n where x < 300) "
            "insert into notes select x, ? || hex(randomblob(50000)) from n",
            (SECRET.decode(),),
        )
        connection.execute(
            "with recursive n(x) as (select 1 union all select x + 1 from n where x < ?) "
            "insert into revlog select 1720000000000 + x * 60000, 1600000000000 + x % 6, "
            "0, 3, 1, 1, 2500, 9, 1 from n",
            (ENTRIES,),
        )
    assert not Path(f"{path}-wal").exists()
    return path


@pytest.fixture(scope="module")
def large_with_wal(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the collection as Anki has it while open: one more review in the -wal."""
    path = tmp_path_factory.mktemp("open") / "collection.anki2"
    shutil.copyfile(large, path)
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('pragma wal_autocheckpoint=0'); "
        "c.execute('insert into revlog values (1800000000000, 7, 0, 3, 1, 1, 2500, 9, 1)'); "
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True)
    Path(f"{path}-shm").unlink(missing_ok=True)
    assert Path(f"{path}-wal").stat().st_size
    return path


@pytest.fixture(scope="module")
def large_package(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_package(tmp_path_factory.mktemp("package") / "a.colpkg", large.read_bytes())


def start(path: Path, folder: Path) -> subprocess.Popen[str]:
    return start_command(folder, "inspect", path)


def start_command(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "srs_eval", *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


def wait_for_copy(process: subprocess.Popen[Any], folder: Path) -> None:
    """Wait until the copy in the private folder has begun to grow."""
    end = time.monotonic() + PATIENCE
    while not any(path.stat().st_size for path in folder.glob("*/collection.anki2")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.slow
def test_no_copy_on_disk_without_journals(large: Path, large_package: Path, tmp_path: Path) -> None:
    """Check a collection at rest and a package; the user's folder stays unchanged."""
    before = folder_state(large.parent)
    for path in (large, large_package):
        process = start(path, tmp_path)
        seen: set[str] = set()  # Python itself writes tiny files to test the folder
        while process.poll() is None:
            seen |= {entry.name for entry in tmp_path.iterdir() if entry.is_dir()}
            seen |= {entry.name for entry in tmp_path.rglob("*") if size_of(entry) > 100}
            time.sleep(0.002)
        out, _ = process.communicate()
        assert process.returncode == 0
        assert f"{ALL:,}" in out
        assert seen == set()
    assert folder_state(large.parent) == before


@pytest.mark.parametrize(
    "number", slow_except({signal.SIGINT}, [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
)
def test_signal_while_copying_leaves_no_files(
    number: signal.Signals, large_with_wal: Path, tmp_path: Path
) -> None:
    before = folder_state(large_with_wal.parent)
    process = start(large_with_wal, tmp_path)
    wait_for_copy(process, tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert out == ""
    assert err.strip() == ""
    assert list(tmp_path.iterdir()) == []
    assert folder_state(large_with_wal.parent) == before


@pytest.mark.slow
def test_signal_at_any_time_leaves_no_files(large: Path, tmp_path: Path) -> None:
    """Send signals while modules are imported, the file is copied or SQLite reads."""
    began = time.monotonic()
    start(large, tmp_path).communicate(timeout=PATIENCE)
    duration = time.monotonic() - began
    signals = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
    tried = 0
    interrupted = 0
    while tried < 3 or not interrupted:  # durations vary
        number = signals[tried % 3]
        share = (0.5, 0.7)[tried % 2]
        began = time.monotonic()
        process = start(large, tmp_path)
        while process.poll() is None and time.monotonic() - began < share * duration:
            time.sleep(0.001)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
        # While Python starts and ends, the system handles signals. Python also ends itself with
        # SIGINT if our exception was raised, though caught, in code that it was executing.
        assert process.returncode in (0, -number, 128 + number, -signal.SIGINT)
        tried += 1
        if process.returncode == 128 + number:
            interrupted += 1
        if not interrupted:  # the first run may be much slower than the others
            duration *= 0.8 if process.returncode == 0 else 1.2
        assert err.strip() == ""
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_copy_of_a_killed_process_is_swept_by_the_next_start(
    large_with_wal: Path, tmp_path: Path
) -> None:
    """Check that any command sweeps the copy and leaves other folders."""
    own_paths = [tmp_path / "srs-eval-private-my-own.txt", tmp_path / "srs-eval-private-mine"]
    own_paths[1].mkdir()
    for path in (own_paths[0], own_paths[1] / "results.csv"):
        path.write_text("mine")
    process = start(large_with_wal, tmp_path)
    wait_for_copy(process, tmp_path)
    process.kill()
    process.communicate()
    (abandoned,) = (path for path in tmp_path.iterdir() if path not in own_paths)
    assert abandoned.stat().st_mode & 0o077 == 0
    subprocess.run(
        [sys.executable, "-m", "srs_eval", "models"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert set(tmp_path.iterdir()) == set(own_paths)
    assert (own_paths[1] / "results.csv").exists()


def test_copy_of_a_living_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    with files.PrivateFile(10, on_disk=True) as copy:
        assert copy.path is not None
        assert copy.path.exists()
        files.sweep_abandoned_copies()
        script = "from srs_eval.data.readers.files import sweep_abandoned_copies as s; s()"
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True
        )
        assert copy.path.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_too_large_for_memory_is_read_from_disk(
    large: Path,
    large_package: Path,
    large_with_wal: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from srs_eval.anki_import import load_log

    in_memory = load_log(large).fingerprint()
    monkeypatch.setattr(files, "_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    assert load_log(large).fingerprint() == in_memory
    assert load_log(large_package).fingerprint() == in_memory
    assert load_log(large_with_wal).import_summary.entries_read == ALL + 1
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_reported_and_leaves_no_files(large: Path, tmp_path: Path) -> None:
    pytest.importorskip("resource")
    code = (
        "import resource, sys; from srs_eval.cli.main import main; "
        "import srs_eval.report.inspection, numpy; "
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize(); "
        "resource.setrlimit(resource.RLIMIT_AS, (used + (45 << 20),) * 2); "
        "sys.exit(main(['inspect', sys.argv[1]]))"
    )
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs Linux, which tells how much memory is used")
    done = subprocess.run(
        [sys.executable, "-c", code, str(large)],
        env={**os.environ, "TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "does not fit into the free memory" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_interruption_swallowed_by_sqlite_is_raised_again(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupt while SQLite calls back, where it swallows the exception."""
    from srs_eval.anki_import import load_log

    looks = 0

    def interrupted() -> float:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KeyboardInterrupt
        return 0.0

    monkeypatch.setattr(collection.time, "monotonic", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_log(large)
    assert looks > 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["open", "inspect"])
def test_terminal_closed_while_copying_leaves_no_files(
    command: str, large_with_wal: Path, tmp_path: Path
) -> None:
    """Close the terminal of the app or of a command."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    terminal, program_terminal = os.openpty()

    def take_terminal() -> None:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(program_terminal, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "srs_eval", command, str(large_with_wal)],
        env={
            **os.environ,
            "TMPDIR": str(folder),
            "TERM": "xterm-256color",
            "SRS_EVAL_STATE_DIR": str(tmp_path / "state"),
        },
        stdin=program_terminal,
        stdout=program_terminal,
        stderr=program_terminal,
        preexec_fn=take_terminal,
    )
    os.close(program_terminal)
    try:
        wait_for_copy(process, folder)
        os.close(terminal)
        assert process.wait(timeout=PATIENCE) == (0 if command == "open" else 128 + signal.SIGHUP)
    finally:
        process.kill()
        process.wait()
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_nohup_survives_a_hang_up(large_with_wal: Path, tmp_path: Path) -> None:
    script = (
        "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "from srs_eval.cli.main import main; sys.exit(main(['inspect', sys.argv[1]]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(large_with_wal)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_copy(process, tmp_path)
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert f"{ALL + 1:,}" in out
