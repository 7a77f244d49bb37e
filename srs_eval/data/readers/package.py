"""Read Anki's exports: packages, extracted .anki21b files, and research exports (.revlog).

The one database in a package (.colpkg, .apkg) or an extracted file is unpacked. In a package,
`meta` decides which member that is; it is streamed into a private copy, never to its own name.
Sizes in a zip directory or a zstd frame may be wrong, so the unpacked bytes are counted and
compared with the database's own header; a zip bomb is stopped at its first block.
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
from srs_eval.data.readers.collection import build_entries
from srs_eval.data.readers.settings import parse_message
from srs_eval.data.reviews import (
    Cards,
    DayGrid,
    Deck,
    Entries,
    ImportSummary,
    IntArray,
    ReviewLog,
    make_unnamed_presets,
)

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")

# Members of a package by its version (anki: rslib/src/import_export/package/meta.rs).
_MEMBERS = {1: "collection.anki2", 2: "collection.anki21", 3: "collection.anki21b"}
_MAX_MEMBERS = 500_000
_MAX_DIRECTORY_BYTES = 32 << 20
_MAX_META_BYTES = 1 << 16
# Packing makes a collection about three times smaller; a ratio above this means a zip bomb.
_MAX_RATIO = 200
_ALWAYS_ALLOWED_BYTES = 64 << 20
_CHUNK = 1 << 18
# A block of zstd holds 128 kB and may come from 4 bytes, so this bounds what one call returns.
_ZSTD_CHUNK = 1 << 10


_OpenDatabase = AbstractContextManager[tuple[sqlite3.Connection, str]]


def open_package(path: Path, start: bytes) -> _OpenDatabase | None:
    """Open a private copy of a packed database: a connection to it, and its format in words.

    None for a file that does not begin like a package or an extracted collection.anki21b. Raises
    InputError for one that is damaged or holds no collection.
    """
    if start.startswith(_ZIP_MAGIC):
        return _open_zip(path)
    return _open_zstd(path) if start.startswith(_ZSTD_MAGIC) else None


@contextmanager
def _open_zip(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    name = printable(path)
    try:
        _check_directory(path, name)
        with zipfile.ZipFile(path) as archive:
            version = _read_version(archive, name)
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
                    chunks = _decompress(chunks, name)
                copy = _copy_database(chunks, name, _unpacked_size_limit(path))
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
            f"{name} is damaged or not an Anki package ({printable(error, 100)}); "
            "export it again from Anki."
        ) from error
    except OSError as error:
        raise InputError(
            f"{name} cannot be unpacked ({printable(error.strerror or error)})."
        ) from error
    # Only the exporter's extension distinguishes the two kinds of package.
    kind = "deck package" if path.suffix.lower() == ".apkg" else "collection package"
    with _connect(copy, name) as connection:
        yield connection, f"Anki {kind} (version {version})"


@contextmanager
def _open_zstd(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    name = printable(path)
    with files.file_errors(path), open(path, "rb") as source:
        chunks = iter(lambda: source.read(_CHUNK), b"")
        copy = _copy_database(_decompress(chunks, name), name, _unpacked_size_limit(path))
    with _connect(copy, name) as connection:
        yield connection, "extracted Anki collection (zstd)"


@contextmanager
def _connect(copy: files.PrivateFile, name: str) -> Iterator[sqlite3.Connection]:
    with copy:
        with files.database_errors(name):
            connection = copy.connect()
        with closing(connection):
            yield connection


def _check_directory(path: Path, name: str) -> None:
    """Refuse zip directories that are so large that listing them would fill the memory."""
    # The end record, whose comment may have 64 kB, is the last thing in the file. Before it may lie
    # the end record of zip64, with the numbers that need more than 16 or 32 bits.
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - (1 << 16) - 200))
        tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + 22:
        raise InputError(
            f"{name} is cut short or not a zip file (its directory is missing); "
            "copy it again or export it again from Anki."
        )
    member_count, directory_bytes = struct.unpack("<10xHI6x", tail[end : end + 22])
    needs_zip64 = member_count == 0xFFFF or directory_bytes == 0xFFFFFFFF
    end64 = tail.rfind(b"PK\x06\x06")
    if needs_zip64 and 0 <= end64 <= len(tail) - 56:
        member_count, directory_bytes = struct.unpack("<32xQQ8x", tail[end64 : end64 + 56])
    if member_count > _MAX_MEMBERS or directory_bytes > _MAX_DIRECTORY_BYTES:
        raise InputError(f"{name} lists too many files for an Anki package.")


def _read_version(archive: zipfile.ZipFile, name: str) -> int:
    """Read the package version from `meta`, or from the members if an old Anki wrote none."""
    try:
        meta = archive.getinfo("meta")
    except KeyError:
        return 2 if _MEMBERS[2] in archive.namelist() else 1
    with archive.open(meta) as source:
        content = source.read(_MAX_META_BYTES + 1)
    if len(content) > _MAX_META_BYTES:
        raise InputError(f"{name} is damaged (its version note is too long).")
    version_note = parse_message("PackageMetadata", content, f"{name} is damaged (version note)")
    version: int = version_note.version
    if version not in _MEMBERS:
        raise InputError(
            f"{name} was written by a newer version of Anki than srs-eval knows; "
            "export it with 'Support older Anki versions' ticked."
        )
    return version


def _decompress(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Stream one zstd frame. Raises InputError unless it is whole and ends where the input ends."""
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


def _unpacked_size_limit(path: Path) -> int:
    """Return the largest number of bytes that a packed file may unpack to."""
    return min(files.MAX_DATABASE_BYTES, _ALWAYS_ALLOWED_BYTES + _MAX_RATIO * path.stat().st_size)


def _copy_database(chunks: Iterator[bytes], name: str, limit: int) -> files.PrivateFile:
    """Copy a database, which must be as long as its own header says and within `limit`."""
    start = b""  # grows until it holds the header, or shows that this is not a database
    for chunk in chunks:
        start += chunk
        if len(start) >= files.HEADER_BYTES or not files.SQLITE_MAGIC.startswith(start[:16]):
            break
    header = files.parse_sqlite_header(start)
    cut_short = InputError(
        f"{name} is cut short (the collection in it is not whole); "
        "copy it again or export it again from Anki."
    )
    if header is None:
        if files.SQLITE_MAGIC.startswith(start[:16]):
            raise cut_short
        raise InputError(
            f"{name} holds something else where the collection should be; "
            "export it again from Anki."
        )
    _, length = header
    size_limit = limit if length is None else length
    if size_limit > limit:
        raise _bomb_error(name)
    copy = files.PrivateFile(size_limit)
    try:
        written = 0
        for chunk in itertools.chain([start], chunks):
            written += len(chunk)
            if written > size_limit:
                raise _bomb_error(name)
            copy.stream.write(chunk)
        if length is not None and written != length:
            raise cut_short
        copy.stream.flush()
    except BaseException:
        copy.close()
        raise
    return copy


def _bomb_error(name: str) -> InputError:
    return InputError(
        f"{name} unpacks to more than an Anki package does; it is damaged or hostile."
    )


# Research exports: protobuf anki.stats.Dataset (anki: proto/anki/stats.proto)


_MAX_EXPORT_BYTES = 256 << 20
# A review takes 30 to 40 bytes. Many shorter records can only be meant to fill the memory.
_MIN_RECORD_BYTES = 16
_MAX_SHORT_RECORDS = 100_000
_VARINT, _FIXED_64_BITS, _LENGTH_DELIMITED = range(3)  # wire types of protobuf
_FIXED_32_BITS = 5


def read_research_export(
    real: Path, path: Path, make_grid: Callable[[Entries, StoredClock], DayGrid]
) -> ReviewLog:
    """Read the research export `real`, which the user calls `path`.

    Raises InputError if it is not a .revlog file, cut short, or without reviews.
    """
    content = files.read_limited(real, _MAX_EXPORT_BYTES)
    name = printable(path)
    complaint = (
        f"{name} is not a collection, package, review-log table or .revlog file, or is damaged"
    )
    field_limit = _MAX_SHORT_RECORDS + len(content) // _MIN_RECORD_BYTES
    if _count_fields(content, field_limit) > field_limit:
        raise InputError(f"{complaint}; export it again from Anki.")
    dataset = parse_message("Dataset", content, complaint)
    if not 0 < dataset.next_day_at < 1 << 40:
        # The field comes last, so a file cut between two records parses but lacks it.
        raise InputError(f"{name} is cut short or not a .revlog file; export it again from Anki.")
    columns = [
        _read_field(dataset.revlogs, field)
        for field in (
            "id",
            "cid",
            "button_chosen",
            "review_kind",
            "ease_factor",
            "taken_millis",
            "last_interval",
        )
    ]

    def duplicate_id_error(first: int, second: int) -> InputError:
        return InputError(
            f"{name} holds two different reviews with the id {columns[0][second]} (its entries "
            f"{first + 1:,} and {second + 1:,}); export it again from Anki."
        )

    imported = build_entries(*columns, contradiction=duplicate_id_error)
    entries = imported.entries
    if not len(entries):
        raise InputError(f"{name} holds no reviews; choose another file.")
    card_id, first = np.unique(_read_field(dataset.cards, "id"), return_index=True)
    cards = Cards(
        card_id=card_id,
        note_id=_read_field(dataset.cards, "note_id")[first],
        deck_id=_read_field(dataset.cards, "deck_id")[first],
        suspended=np.zeros(len(card_id), np.bool_),
    )
    decks = {}
    for deck in dataset.decks:
        parent_id = deck.parent_id or None
        decks[deck.id] = Deck(id=deck.id, name="", preset_id=deck.preset_id, parent_id=parent_id)
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format="Anki research export (.revlog)",
            entries_read=imported.entries_read,
            notes=imported.notes,
            repeated=imported.repeated,
        ),
        entries=entries,
        cards=cards,
        decks=decks,
        presets=make_unnamed_presets(decks),
        day_grid=make_grid(entries, StoredClock(next_day_at_s=dataset.next_day_at)),
    )


def _count_fields(content: bytes, limit: int) -> int:
    """Count the fields of a message without keeping any; stop at one more than `limit`.

    Also stops where protobuf's decoder does: at a field that is cut, or of an unknown wire type.
    """
    offset = 0
    count = 0
    with suppress(IndexError):
        while offset < len(content) and count <= limit:
            tag, offset = _read_varint(content, offset)
            wire_type = tag & 7
            if wire_type > 5:
                break
            count += 1  # also for the begin and end of a group (3, 4), and the fields in it
            if wire_type == _VARINT:
                _, offset = _read_varint(content, offset)
            elif wire_type == _LENGTH_DELIMITED:
                length, offset = _read_varint(content, offset)
                offset += length
            elif wire_type == _FIXED_64_BITS:
                offset += 8
            elif wire_type == _FIXED_32_BITS:
                offset += 4
    return count


def _read_varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset`, and the offset after it. Raises IndexError if it is cut."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise IndexError


def _read_field(messages: Any, field: str) -> IntArray:
    return np.fromiter(map(attrgetter(field), messages), np.int64, len(messages))
