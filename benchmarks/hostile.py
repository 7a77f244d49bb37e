"""Measure memory, time and messages for 10 MB files that were made to do harm.

    python benchmarks/hostile.py [--megabytes 10]

Each file is read by `srs-eval inspect` in a process of its own: seconds of processor time, the
peak memory, and the last line that it printed. The limits are 20 s and 2 GB, and the exit code
must be 0 or 2.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zstandard

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from tests.data.anki_files import field, make_collection, make_package, make_revlog  # noqa: E402
from tests.data.test_supermemo import line_of  # noqa: E402

MOST_S, MOST_MB = 20.0, 2048
SQLITE, ZIP, ZSTD = b"SQLite format 3\0", b"PK\3\4", b"\x28\xb5\x2f\xfd"
BEGIN = 1_600_000_000_000
Entry = tuple[int, int, int, int, int, int, int, int]


def reviews(number: int) -> list[Entry]:
    return [(BEGIN + 60_000 * i, BEGIN + i // 9, -1, 3, 1, 0, 2500, 4000) for i in range(number)]


def table(size: int) -> bytes:
    lines = (f"{i // 9},3,{BEGIN + 60_000 * i},4000\n" for i in range(size // 24))
    return ("card_id,review_rating,review_time,review_duration\n" + "".join(lines)).encode()


def collection(size: int, folder: Path, **content: bytes) -> bytes:
    (folder / "c").unlink(missing_ok=True)
    return make_collection(folder / "c", entries=reviews(size), **content).read_bytes()


def supermemo(size: int) -> bytes:
    head = (
        "Repetition history backup (SuperMemo 18)\r\nDate=Aug 11, 2023, Fri, 12:18\r\nItem #1\r\n"
    )
    lines = (line_of((i // 9, i % 3000, i % 9 + 1, 0, 4, 10)) for i in range(size // 80))
    return (head + "\r\n".join(lines)).encode()


def zeros(size: int) -> bytes:
    """Return zeros; Zstandard packs 30,000 of them into a byte: hundreds of gigabytes at most."""
    packed = io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(packed, closefd=False) as out:
        out.write(SQLITE)
        while packed.tell() < min(size, 1 << 17):
            out.write(bytes(1 << 24))
    return packed.getvalue()


def archive(size: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for number in range(size // 110):
            made.writestr(f"{number}", b"")
    return out.getvalue()


def files(size: int, folder: Path) -> dict[str, Callable[[], bytes]]:
    noise = np.random.default_rng(1).bytes(size)
    packed = zstandard.ZstdCompressor().compress
    return {
        "collection": lambda: collection(size // 45, folder),
        "collection, packed": lambda: packed(collection(size // 4, folder)),
        "package": lambda: make_package(folder / "p", collection(size // 4, folder)).read_bytes(),
        "a preset of one block": lambda: collection(9, folder, preset=field(1, noise)),
        "a preset of many parts": lambda: collection(9, folder, preset=b"\x08\x01" * (size // 2)),
        "package of many names": lambda: archive(size),
        "packed zeros": lambda: zeros(size),
        "package of packed zeros": lambda: make_package(
            folder / "z", bytes(size * 90)
        ).read_bytes(),
        "export": lambda: make_revlog(reviews(size // 40), BEGIN // 1000),
        "export of empty parts": lambda: b"\x0a\x00" * (size // 2),
        "table": lambda: table(size),
        "table in one line": lambda: b"card_id,review_rating,review_time" + b"," * size,
        "table in one quotation": lambda: (
            b'card_id,review_rating,review_time\n"' + b"x\n" * (size // 2)
        ),
        "table of line ends": lambda: b"card_id,review_rating,review_time" + b"\n" * size,
        "SuperMemo": lambda: supermemo(size),
        **{
            f"noise after {name}": lambda start=start: start + noise
            for name, start in {"SQLite": SQLITE, "zip": ZIP, "zstd": ZSTD, "nothing": b""}.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = int(options.megabytes * 2**20)
    if options.make:
        what, path = options.make
        Path(path).write_bytes(files(size, Path(path).parent)[what]())
        return
    too_much = []
    print(f"{'file':26} {'MB':>5} {'s':>6} {'MB held':>8} {'exit':>4}  says")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "hostile"
        for what in files(size, folder):
            # Made by another process: memory of this one would count as that of its children.
            making = (__file__, "--megabytes", str(options.megabytes), "--make", what, str(path))
            subprocess.run([sys.executable, *making], check=True)
            command = [sys.executable, "-m", "srs_eval", "inspect", str(path)]
            with open(folder / "said", "w+", encoding="utf-8") as said:
                process = subprocess.Popen(command, cwd=HERE, stdout=said, stderr=said)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                said.seek(0)
                words = " ".join(said.read().split())
            seconds, held = used.ru_utime + used.ru_stime, used.ru_maxrss // 1024
            print(
                f"{what:26} {path.stat().st_size / 2**20:5.1f} {seconds:6.1f} {held:8} "
                f"{process.returncode:4}  {words.replace(str(path), 'FILE')[:90]}",
                flush=True,
            )
            if seconds > MOST_S or held > MOST_MB or process.returncode not in (0, 2):
                too_much.append(what)
    sys.exit(f"Too much: {', '.join(too_much)}." if too_much else 0)


if __name__ == "__main__":
    main()
