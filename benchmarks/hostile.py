"""Measure memory, time and messages for 10 MB files that were made to do harm.

    python benchmarks/hostile.py [--megabytes 10]

Each file is read by `srs-eval inspect` in a process of its own: seconds of processor time, the
peak memory, and the last line that it printed. The limits are 20 s and 2 GB, and the exit code
must be 0 or 2.
"""

from __future__ import annotations

import argparse
import io
import operator
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import zstandard

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from tests.helpers.anki_files import field, make_collection, make_package, make_revlog  # noqa: E402
from tests.helpers.supermemo_files import format_repetition  # noqa: E402

MOST_S = 20.0
MOST_MB = 2048
# How files of these formats begin.
SQLITE = b"SQLite format 3\0"
ZIP = b"PK\3\4"
ZSTD = b"\x28\xb5\x2f\xfd"
BEGIN = 1_600_000_000_000
Entry = tuple[int, int, int, int, int, int, int, int]


def make_reviews(number: int) -> list[Entry]:
    return [(BEGIN + 60_000 * i, BEGIN + i // 9, -1, 3, 1, 0, 2500, 4000) for i in range(number)]


def make_table(size: int) -> bytes:
    lines = (f"{i // 9},3,{BEGIN + 60_000 * i},4000\n" for i in range(size // 24))
    return ("card_id,review_rating,review_time,review_duration\n" + "".join(lines)).encode()


def make_small_collection(size: int, folder: Path, preset: bytes | None = None) -> bytes:
    (folder / "c").unlink(missing_ok=True)
    return make_collection(folder / "c", entries=make_reviews(size), preset=preset).read_bytes()


def make_supermemo(size: int) -> bytes:
    head = (
        "Repetition history backup (SuperMemo 18)\r\nDate=Aug 11, 2023, Fri, 12:18\r\nItem #1\r\n"
    )
    lines = (format_repetition((i // 9, i % 3000, i % 9 + 1, 0, 4, 10)) for i in range(size // 80))
    return (head + "\r\n".join(lines)).encode()


def make_zeros(size: int) -> bytes:
    """Return zeros; Zstandard packs 30,000 of them into a byte: hundreds of gigabytes at most."""
    packed = io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(packed, closefd=False) as out:
        out.write(SQLITE)
        while packed.tell() < min(size, 1 << 17):
            out.write(bytes(1 << 24))
    return packed.getvalue()


def make_archive(size: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        for number in range(size // 110):
            package.writestr(f"{number}", b"")
    return out.getvalue()


def list_files(size: int, folder: Path) -> dict[str, Callable[[], bytes]]:
    noise = np.random.default_rng(1).bytes(size)
    packed = zstandard.ZstdCompressor().compress
    return {
        "collection": lambda: make_small_collection(size // 45, folder),
        "collection, packed": lambda: packed(make_small_collection(size // 4, folder)),
        "package": lambda: make_package(
            folder / "p", make_small_collection(size // 4, folder)
        ).read_bytes(),
        "a preset of one block": lambda: make_small_collection(9, folder, preset=field(1, noise)),
        "a preset of many parts": lambda: make_small_collection(
            9, folder, preset=b"\x08\x01" * (size // 2)
        ),
        "package of many names": lambda: make_archive(size),
        "packed zeros": lambda: make_zeros(size),
        "package of packed zeros": lambda: make_package(
            folder / "z", bytes(size * 90)
        ).read_bytes(),
        "export": lambda: make_revlog(make_reviews(size // 40), BEGIN // 1000),
        "export of empty parts": lambda: b"\x0a\x00" * (size // 2),
        "table": lambda: make_table(size),
        "table in one line": lambda: b"card_id,review_rating,review_time" + b"," * size,
        "table in one quotation": lambda: (
            b'card_id,review_rating,review_time\n"' + b"x\n" * (size // 2)
        ),
        "table of line ends": lambda: b"card_id,review_rating,review_time" + b"\n" * size,
        "SuperMemo": lambda: make_supermemo(size),
        **{
            f"noise after {name}": partial(operator.add, start, noise)
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
        kind, path = options.make
        Path(path).write_bytes(list_files(size, Path(path).parent)[kind]())
        return
    too_much = []
    print(f"{'file':26} {'MB':>5} {'s':>6} {'MB held':>8} {'exit':>4}  says")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "hostile"
        for kind in list_files(size, folder):
            # Made by another process: memory of this one would count as that of its children.
            making = (__file__, "--megabytes", str(options.megabytes), "--make", kind, str(path))
            subprocess.run([sys.executable, *making], check=True)
            command = [sys.executable, "-m", "srs_eval", "inspect", str(path)]
            with open(folder / "output", "w+", encoding="utf-8") as output:
                process = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=output)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                output.seek(0)
                words = " ".join(output.read().split())
            seconds = used.ru_utime + used.ru_stime
            held_mb = used.ru_maxrss // 1024
            print(
                f"{kind:26} {path.stat().st_size / 2**20:5.1f} {seconds:6.1f} {held_mb:8} "
                f"{process.returncode:4}  {words.replace(str(path), 'FILE')[:90]}",
                flush=True,
            )
            if seconds > MOST_S or held_mb > MOST_MB or process.returncode not in (0, 2):
                too_much.append(kind)
    sys.exit(f"Too much: {', '.join(too_much)}." if too_much else 0)


if __name__ == "__main__":
    main()
