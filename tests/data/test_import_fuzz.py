"""Hostile and damaged input: the readers answer with a log or an InputError, nothing else."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError
from srs_eval.report.export import to_json
from srs_eval.report.inspection import inspect_log
from tests.helpers.anki_files import (
    field,
    make_collection,
    make_package,
    make_revlog,
    plain_history,
)
from tests.helpers.fuzzing import damage, examples
from tests.helpers.supermemo_files import HISTORY as REPETITIONS
from tests.helpers.supermemo_files import format_history
from tests.retrievability import RWKV, make_cache

HISTORY = plain_history(3)
FORMATS = ("schema 18", "schema 11", "package 3", "package 2", "zstd", "revlog", "csv", "supermemo")


@pytest.fixture(scope="module")
def sound() -> Iterator[dict[str, bytes]]:
    """Yield one sound file of each format."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        new = make_collection(folder / "new", entries=HISTORY, page_size=512).read_bytes()
        old = make_collection(folder / "old", schema=11, entries=HISTORY, page_size=512)
        head = "id,cid,usn,ease,ivl,lastIvl,factor,time,type\n"
        lines = [f"{e[0]},{e[1]},0,{e[2]},{e[3]},{e[4]},{e[5]},{e[6]},{e[7]}\n" for e in HISTORY]
        yield {
            "schema 18": new,
            "schema 11": old.read_bytes(),
            "package 3": make_package(folder / "3", new, 3, media=b"").read_bytes(),
            "package 2": make_package(folder / "2", old.read_bytes(), 2).read_bytes(),
            "zstd": zstandard.ZstdCompressor().compress(new),
            "revlog": make_revlog(HISTORY, 1_700_740_800),
            "csv": (head + "".join(lines)).encode(),
            "supermemo": format_history(REPETITIONS).encode(),
        }


def is_read(content: bytes) -> bool:
    """Return whether the content is read as a log; anything but a log or one sentence fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "collection.anki2"
        path.write_bytes(content)
        log = None
        sentence = ""
        try:
            log = load_log(path)
        except InputError as error:
            sentence = str(error)
        assert [entry.name for entry in folder.iterdir()] == [path.name]
        assert path.read_bytes() == content
        if log is None:
            assert "\n" not in sentence
            assert str(path) in sentence
            return False
        to_json(inspect_log(log).to_document())
        return True


def test_sound_files_are_read(sound: dict[str, bytes]) -> None:
    assert set(sound) == set(FORMATS)
    assert all(is_read(content) for content in sound.values())


@pytest.mark.parametrize("kind", FORMATS)
@examples(50)
@given(data=st.data())
def test_damaged_file_is_a_log_or_an_input_error(
    kind: str, sound: dict[str, bytes], data: st.DataObject
) -> None:
    is_read(damage(sound[kind], data))


@examples(20)
@given(data=st.data())
def test_damaged_cache_does_not_stop_the_import(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = make_collection(Path(name) / "collection.anki2", entries=HISTORY, page_size=512)
        held_out = [(HISTORY[0][0], 0.75, "rwkv_review", 1, "test_fold", 0)]
        cache = make_cache(path, {RWKV: held_out})
        cache.write_bytes(damage(cache.read_bytes(), data))
        for given_ in load_log(path).external_predictions.values():
            assert "\n" not in given_.note


@examples(75)
@given(
    start=st.sampled_from([b"", b"SQLite format 3\0", b"PK\3\4", b"\x28\xb5\x2f\xfd", b"\n"]),
    rest=st.binary(max_size=400),
)
def test_random_bytes_are_refused(start: bytes, rest: bytes) -> None:
    assert not is_read(start + rest)


messages = st.recursive(
    st.one_of(st.integers(-(1 << 63), 1 << 63), st.binary(max_size=30), st.floats(width=32)),
    lambda inner: st.lists(st.tuples(st.integers(1, 50), inner), max_size=8),
    max_leaves=20,
)


def encode(message: object) -> bytes:
    if isinstance(message, list):
        fields = [(number, encode(v) if isinstance(v, list) else v) for number, v in message]
        return b"".join(field(number, value) for number, value in fields)
    return message if isinstance(message, bytes) else field(1, message)  # type: ignore[arg-type]


@examples(30)
@given(message=messages, argument=st.sampled_from(["preset", "deck_kind"]))
def test_collection_with_random_protobuf_does_not_crash(message: object, argument: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a"
        content = {argument: encode(message)}
        make_collection(path, entries=HISTORY, **content)  # type: ignore[arg-type]
        is_read(path.read_bytes())


@examples(50)
@given(message=messages, clock=st.integers(-(1 << 63), (1 << 63) - 1))
def test_export_of_random_protobuf_does_not_crash(message: object, clock: int) -> None:
    is_read(encode(message) + field(4, clock))
    is_read(field(1, encode(message)) + field(4, clock))
    is_read(field(2, encode(message)) + field(3, encode(message)) + make_revlog(HISTORY, clock))


@examples(20)
@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    number=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_collection_with_strange_names_and_numbers_is_read(name: str, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        entries = [
            (abs(number) % (1 << 62) + 1, number, number % 7, 1.5, 0, number, number, number)
        ]
        try:
            make_collection(path, entries=[*HISTORY, *entries], deck_name="x" + name)
        except sqlite3.IntegrityError:  # two entries at one time
            return
        assert is_read(path.read_bytes())


@examples(30)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_strange_table_is_a_log_or_an_input_error(text: str) -> None:
    is_read(("card_id,review_rating,review_time,review_duration\n" + text).encode())
    is_read(b"id,cid,ease,type,factor,time\n" + text.encode("utf-16"))


@pytest.mark.parametrize(
    "name", ["a;b", "a b", "ü\u202e", "x" * 200, "-rf", "%s{0}", "'\"", "a?b#c"]
)
def test_file_with_a_strange_name_is_read(
    name: str, tmp_path: Path, sound: dict[str, bytes]
) -> None:
    for kind in ("schema 18", "package 3"):
        path = tmp_path / name
        path.write_bytes(sound[kind])
        assert load_log(path).import_summary.entries_read == len(HISTORY)
