"""What Anki exports: packages (.colpkg, .apkg) and extracted .anki21b files, of which the one
database is unpacked, and research exports (.revlog).

One member is chosen by `meta` and streamed into a private copy, never to a name of its own.
Sizes in a zip directory or a zstd frame may lie either way, so the bytes that come out are
counted and held against the database's own header; a bomb stops at its first block.
"""

from __future__ import annotations

import itertools
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.days import StoredClock
from srs_eval.data.errors import InputError, printable
from srs_eval.data.readers import files
from srs_eval.data.readers.collection import entries_from_columns
from srs_eval.data.readers.settings import parse
from srs_eval.data.reviews import (
    Cards,
    DayGrid,
    Deck,
    Entries,
    ImportSummary,
    IntArray,
    ReviewLog,
    unnamed_presets,
)

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")

# Members of a package by its version (anki: rslib/src/import_export/package/meta.rs).
_MEMBERS = {1: "collection.anki2", 2: "collection.anki21", 3: "collection.anki21b"}
_MAX_MEMBERS = 500_000
_MAX_DIRECTORY_BYTES = 32 << 20
_MAX_META_BYTES = 1 << 16
# Collections shrink to a third or so; what grows beyond this is a bomb.
_MAX_RATIO = 200
_FREE_BYTES = 64 << 20
_CHUNK = 1 << 18
# A block of zstd holds 128 kB and may come from 4 bytes, so this bounds what one call returns.
_ZSTD_CHUNK = 1 << 10


_Opened = AbstractContextManager[tuple[sqlite3.Connection, str]]


def opened(path: Path, start: bytes) -> _Opened | None:
    """A connection to a private copy of a packed database, and words for the format.

    None for what does not begin like a package or an extracted collection.anki21b; InputError for
    one that is not sound or holds no collection.
    """
    if start.startswith(_ZIP_MAGIC):
        return _unpacked(path)
    return _decompressed_file(path) if start.startswith(_ZSTD_MAGIC) else None


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    name = printable(path)
    try:
        _check_directory(path, name)
        with zipfile.ZipFile(path) as archive:
            version = _version(archive, name)
            try:
                member = archive.getinfo(_MEMBERS[version])
            except KeyError:
                raise InputError(
                    f"{name} is a zip file without an Anki collection in it "
                    f"({_MEMBERS[version]} is missing); export it again from Anki."
                ) from None
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{name} is packed in a way that Anki does not use.")
            with archive.open(member) as source:
                chunks: Iterator[bytes] = iter(lambda: source.read(_CHUNK), b"")
                if version == 3:
                    chunks = _decompressed(chunks, name)
                copy = _database(chunks, name, _limit(path))
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        UnicodeError,
        ValueError,
        OverflowError,
        MemoryError,
    ) as error:
        raise InputError(
            f"{name} is damaged or no Anki package ({printable(error, 100)}); "
            "export it again from Anki."
        ) from error
    except OSError as error:
        raise InputError(
            f"{name} cannot be unpacked ({printable(error.strerror or error)})."
        ) from error
    # The exporter's extension is all that tells the two kinds of package apart.
    kind = "deck package" if path.suffix.lower() == ".apkg" else "collection package"
    with _connected(copy, name) as connection:
        yield connection, f"Anki {kind} (version {version})"


@contextmanager
def _decompressed_file(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    name = printable(path)
    with files.file_errors(path), open(path, "rb") as source:
        chunks = iter(lambda: source.read(_CHUNK), b"")
        copy = _database(_decompressed(chunks, name), name, _limit(path))
    with _connected(copy, name) as connection:
        yield connection, "extracted Anki collection (zstd)"


@contextmanager
def _connected(copy: files.PrivateFile, name: str) -> Iterator[sqlite3.Connection]:
    with copy:
        with files.database_errors(name):
            connection = copy.connect()
        with closing(connection):
            yield connection


def _check_directory(path: Path, name: str) -> None:
    """Refuse directories so large that merely listing them would eat the memory."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - (1 << 16) - 200))
        tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + 22:
        raise InputError(
            f"{name} is cut short or no zip file (its directory is missing); "
            "copy it again or export it again from Anki."
        )
    members, directory = struct.unpack("<10xHI6x", tail[end : end + 22])
    large = tail.rfind(b"PK\x06\x06")
    if (members == 0xFFFF or directory == 0xFFFFFFFF) and 0 <= large <= len(tail) - 56:
        members, directory = struct.unpack("<32xQQ8x", tail[large : large + 56])
    if members > _MAX_MEMBERS or directory > _MAX_DIRECTORY_BYTES:
        raise InputError(f"{name} lists too many files for an Anki package.")


def _version(archive: zipfile.ZipFile, name: str) -> int:
    """Package version by `meta`, or by the members where an old Anki wrote none."""
    try:
        meta = archive.getinfo("meta")
    except KeyError:
        return 2 if _MEMBERS[2] in archive.namelist() else 1
    with archive.open(meta) as source:
        content = source.read(_MAX_META_BYTES + 1)
    if len(content) > _MAX_META_BYTES:
        raise InputError(f"{name} is damaged (its version note is too long).")
    version = parse("PackageMetadata", content, f"{name} is damaged (version note)").version
    if version not in _MEMBERS:
        raise InputError(
            f"{name} was written by a newer version of Anki than is known here; "
            "export it with 'Support older Anki versions' ticked."
        )
    return version


def _decompressed(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Stream one zstd frame; InputError unless it is whole and ends where the input ends."""
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    for chunk in chunks:
        for start in range(0, len(chunk), _ZSTD_CHUNK):
            if decoder.eof:
                raise InputError(f"{name} is damaged (bytes after its end); export it again.")
            try:
                output = decoder.decompress(chunk[start : start + _ZSTD_CHUNK])
            except (zstandard.ZstdError, MemoryError) as error:
                raise InputError(
                    f"{name} is damaged (its zstd data cannot be unpacked); "
                    "copy it again or export it again from Anki."
                ) from error
            if output:
                yield output
    if not decoder.eof or decoder.unused_data:
        raise InputError(
            f"{name} is cut short (its zstd data ends early); "
            "copy it again or export it again from Anki."
        )


def _limit(path: Path) -> int:
    """Most bytes that a packed file may unpack to."""
    return min(files.MAX_DATABASE_BYTES, _FREE_BYTES + _MAX_RATIO * path.stat().st_size)


def _database(chunks: Iterator[bytes], name: str, limit: int) -> files.PrivateFile:
    """A copy of a database that must be as long as its own header says, and within `limit`."""
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= files.HEADER_BYTES or not files.SQLITE_MAGIC.startswith(start[:16]):
            break
    header = files.sqlite_header(start)
    cut = InputError(
        f"{name} is cut short (the collection in it is not whole); "
        "copy it again or export it again from Anki."
    )
    if header is None:
        if files.SQLITE_MAGIC.startswith(start[:16]):
            raise cut
        raise InputError(
            f"{name} holds something else where the collection should be; "
            "export it again from Anki."
        )
    _, length = header
    most = limit if length is None else length
    if most > limit:
        raise _too_much(name)
    copy = files.PrivateFile(most)
    try:
        written = 0
        for chunk in itertools.chain([start], chunks):
            written += len(chunk)
            if written > most:
                raise _too_much(name)
            copy.stream.write(chunk)
        if length is not None and written != length:
            raise cut
        copy.stream.flush()
    except BaseException:
        copy.close()
        raise
    return copy


def _too_much(name: str) -> InputError:
    return InputError(
        f"{name} unpacks to more than an Anki package does; it is damaged or hostile."
    )


# Research exports: protobuf anki.stats.Dataset (anki: proto/anki/stats.proto)


_MAX_EXPORT_BYTES = 256 << 20
# A review takes 30 to 40 bytes; shorter records on average only swell when they are decoded.
_MIN_RECORD_BYTES = 16
_MAX_SHORT_RECORDS = 100_000


def read_research_export(
    real: Path, path: Path, grid: Callable[[Entries, StoredClock], DayGrid]
) -> ReviewLog:
    """What the file holds that a person calls `path`.

    Raises InputError for what is no .revlog file, cut short, or without reviews.
    """
    content, name = files.read_whole(real, _MAX_EXPORT_BYTES), printable(path)
    complaint = f"{name} is no collection, package, review-log table or .revlog file, or is damaged"
    most = _MAX_SHORT_RECORDS + len(content) // _MIN_RECORD_BYTES
    if _count_fields(content, most) > most:
        raise InputError(f"{complaint}; export it again from Anki.")
    dataset = parse("Dataset", content, complaint)
    if not 0 < dataset.next_day_at < 1 << 40:
        # The field comes last, so a file cut between two records parses but lacks it.
        raise InputError(f"{name} is cut short or no .revlog file; export it again from Anki.")
    columns = [
        _column(dataset.revlogs, field)
        for field in (
            *("id", "cid", "button_chosen", "review_kind", "ease_factor", "taken_millis"),
            "last_interval",
        )
    ]

    def two_with_one_id(first: int, second: int) -> InputError:
        return InputError(
            f"{name} holds two different reviews with the id {columns[0][second]} (its entries "
            f"{first + 1:,} and {second + 1:,}); export it again from Anki."
        )

    found = entries_from_columns(*columns, contradiction=two_with_one_id)
    entries = found.entries
    if not len(entries):
        raise InputError(f"{name} holds no reviews; choose another file.")
    cards = [_column(dataset.cards, field) for field in ("id", "note_id", "deck_id")]
    cards_once, first = np.unique(cards[0], return_index=True)
    none = np.zeros(len(cards_once), np.bool_)
    decks = {
        deck.id: Deck(
            id=deck.id, name="", preset_id=deck.preset_id, parent_id=deck.parent_id or None
        )
        for deck in dataset.decks
    }
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format="Anki research export (.revlog)",
            entries_read=found.read,
            notes=found.notes,
            repeated=found.repeated,
        ),
        entries=entries,
        cards=Cards(cards_once, cards[1][first], cards[2][first], none),
        decks=decks,
        presets=unnamed_presets(decks),
        day_grid=grid(entries, StoredClock(next_day_at_s=dataset.next_day_at)),
    )


def _count_fields(content: bytes, most: int) -> int:
    """Number of fields of a message, in the memory of one; no further than one above `most`.

    Stops where protobuf's decoder does: at a field that is cut or of no kind.
    """
    place = count = 0
    with suppress(IndexError):
        while place < len(content) and count <= most:
            tag, place = _varint(content, place)
            kind = tag & 7
            if kind > 5:
                break
            count += 1  # groups (3, 4) too, and what is in them
            if kind == 0:
                _, place = _varint(content, place)
            elif kind == 2:
                length, place = _varint(content, place)
                place += length
            elif kind in (1, 5):
                place += 8 if kind == 1 else 4
    return count


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """The number at `place`, and the place behind it; IndexError where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        part = content[place]
        place += 1
        value |= (part & 0x7F) << shift
        if part < 0x80:
            return value, place
    raise IndexError


def _column(messages: Any, field: str) -> IntArray:
    return np.fromiter(map(attrgetter(field), messages), np.int64, len(messages))
