"""Check that the result store keeps whole units, whatever happens to process and disk."""

from __future__ import annotations

import copy
import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.benchmark.check import check_folder
from srs_eval.benchmark.result_files import read_folders
from srs_eval.benchmark.setup import (
    describe_environment_differences,
    find_disagreement,
    list_environments,
    read_setup,
)
from srs_eval.benchmark.store import ResultStore, Unit, count_damaged_lines
from srs_eval.data.errors import InputError
from srs_eval.data.file_contents import write_atomically
from tests.helpers.batches import SETUP
from tests.helpers.program import read_results


def unit(user: int, status: Any = "done", configuration: str = "AVG") -> Unit:
    if status == "done":
        line = {"metrics": {"LogLoss": user / 7}, "user": user, "size": 10 * user}
        return Unit(configuration, user, "done", result_line=line, seconds=1.5, peak_mb=80.04)
    return Unit(configuration, user, status, reason=f"because of {user}")


def files(folder: Path) -> dict[str, bytes]:
    contents = {}
    for kind in ("result", "timing", "failed", "skipped"):
        for path in sorted((folder / kind).glob("*")):
            contents[f"{kind}/{path.name}"] = path.read_bytes()
    return contents


def test_files_are_renamed_to_another_years_spelling(tmp_path: Path) -> None:
    entry = SETUP["configurations"]["AVG"]
    old = {**SETUP, "names": "2025", "configurations": {"FSRS-6-dry-run": entry, "AVG": entry}}
    with ResultStore(tmp_path, old) as store:
        for name in ("AVG", "FSRS-6-dry-run"):
            store.append(unit(1, configuration=name))
        store.append(unit(2, "failed", configuration="FSRS-6-dry-run"))
        store.publish()
    before = files(tmp_path)
    with ResultStore(tmp_path, {**old, "names": "2026"}):
        pass
    renamed = {
        name.replace("6-dry-run", "6-default-short"): content for name, content in before.items()
    }
    timed = {
        name: content.replace(b"}\n", b', "time_ms": 1500.0}\n')
        for name, content in renamed.items()
        if name.startswith("result/")
    }
    assert files(tmp_path) == {**renamed, **timed}
    assert check_folder(tmp_path) == []
    assert list(read_results(tmp_path, "FSRS-6-dry-run")) == [1]
    with ResultStore(tmp_path, old) as store:
        assert store.statuses("FSRS-6-dry-run") == {1: "done", 2: "failed"}
    assert files(tmp_path) == before
    with ResultStore(tmp_path, {**old, "names": "2026"}, fresh=True):
        assert files(tmp_path) == {}


def test_a_set_up_without_names_keeps_the_stored_spelling(tmp_path: Path) -> None:
    entry = SETUP["configurations"]["AVG"]
    unnamed = {**SETUP, "configurations": {"FSRS-6-dry-run": entry}}
    with ResultStore(tmp_path, {**unnamed, "names": "2026"}) as store:
        store.append(unit(1, configuration="FSRS-6-dry-run"))
        store.publish()
    before = files(tmp_path)
    with ResultStore(tmp_path, unnamed) as store:
        store.publish(everything=True)
    assert files(tmp_path) == before
    assert (read_setup(tmp_path) or {})["names"] == "2026"
    with ResultStore(tmp_path, unnamed, fresh=True):
        assert files(tmp_path) == {}
        assert "names" not in (read_setup(tmp_path) or {})


def test_files_of_2026_mean_the_same_outside_their_folder(tmp_path: Path) -> None:
    names = ["FSRS-6", "FSRS-6-preset", "FSRS-6-preset-fallback_user", "FSRS-5-disable_short_term"]
    entry = SETUP["configurations"]["AVG"]
    setup = {**SETUP, "names": "2026", "configurations": dict.fromkeys(names, entry)}
    batch = tmp_path / "batch"
    alone = tmp_path / "alone"
    with ResultStore(batch, setup) as store:
        for name in names:
            store.append(unit(1, configuration=name))
        store.publish()
    shutil.copytree(batch / "result", alone)
    (folder,) = read_folders([alone])
    assert {file.name for file in folder.files} == set(names)


def test_files_have_upstreams_lines_sorted_by_user(tmp_path: Path) -> None:
    with ResultStore(tmp_path, SETUP) as store:
        for result in (unit(3), unit(1), unit(2, "skipped"), unit(4, "failed")):
            store.append(result)
        store.publish()
    assert files(tmp_path) == {
        "result/AVG.jsonl": b'{"metrics": {"LogLoss": 0.14285714285714285}, '
        b'"user": 1, "size": 10}\n'
        b'{"metrics": {"LogLoss": 0.42857142857142855}, "user": 3, "size": 30}\n',
        "timing/AVG.jsonl": b'{"user": 1, "size": 10, "seconds": 1.5, "peak_mb": 80.0, '
        b'"time_ms": 1500.0}\n'
        b'{"user": 3, "size": 30, "seconds": 1.5, "peak_mb": 80.0, "time_ms": 1500.0}\n',
        "skipped/AVG.jsonl": b'{"user": 2, "reason": "because of 2"}\n',
        "failed/AVG.jsonl": b'{"user": 4, "reason": "because of 4"}\n',
    }


def test_a_unit_survives_without_publishing_or_closing(tmp_path: Path) -> None:
    program = (
        "import os, sys, json; from pathlib import Path; from srs_eval.benchmark.store import *\n"
        "store = ResultStore(Path(sys.argv[1]), json.loads(sys.argv[2]))\n"
        "store.append(Unit('AVG', 7, 'done', result_line={'user': 7, 'size': 1}))\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path), json.dumps(SETUP)], check=False)
    with ResultStore(tmp_path, SETUP) as store:
        assert store.statuses("AVG") == {7: "done"}


def test_later_record_replaces_and_empty_file_is_removed(tmp_path: Path) -> None:
    with ResultStore(tmp_path, SETUP) as store:
        store.append(unit(1, "failed"))
        store.publish()
        assert (tmp_path / "failed" / "AVG.jsonl").exists()
        store.append(unit(1))
        store.publish()
        assert store.statuses("AVG") == {1: "done"}
    assert set(files(tmp_path)) == {"result/AVG.jsonl", "timing/AVG.jsonl"}


@given(cut=st.integers(1, 400))
def test_a_torn_line_is_ignored_and_written_over(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    with ResultStore(folder, SETUP) as store:
        for user in (1, 2, 3):
            store.append(unit(user))
    journal = folder / ".journal" / "AVG.jsonl"
    content = journal.read_bytes()[:-cut]
    journal.write_bytes(content)
    intact = content.count(b"\n")
    with ResultStore(folder, SETUP) as store:
        assert sorted(store.statuses("AVG")) == list(range(1, intact + 1))
        for user in range(intact + 1, 4):
            store.append(unit(user))
        store.publish()
        assert sorted(store.statuses("AVG")) == [1, 2, 3]
    assert files(folder)["result/AVG.jsonl"].count(b"\n") == 3
    assert b"\n" not in journal.read_bytes().replace(b"}\n", b"")


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_its_unit_only(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    with ResultStore(folder, SETUP) as store:
        for user in range(1, 6):
            store.append(unit(user))
    journal = folder / ".journal" / "AVG.jsonl"
    content = bytearray(journal.read_bytes())
    content[position % len(content)] ^= 1 << bit
    journal.write_bytes(content)
    with ResultStore(folder, SETUP) as store:
        statuses = store.statuses("AVG")
        assert store.damaged_line_count
        # A damaged line end joins two lines.
        assert 3 <= len(statuses) <= 4


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    with ResultStore(tmp_path, SETUP), pytest.raises(InputError, match="Another batch"):
        ResultStore(tmp_path, SETUP)
    ResultStore(tmp_path, SETUP).close()


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (("srs_eval",), "2", "srs-eval 1, and this is 2"),
        (("data", "fingerprint"), "g", "data set is not the same"),
        (("options", "sm2_target"), 0.8, "sm2_target was 0.9 and is 0.8"),
        (("configurations", "AVG", "protocol", "gamma"), 2.0, "AVG had gamma 1.0 and has 2.0"),
        (("configurations", "AVG", "model_version"), 2, "AVG had model version 1 and has 2"),
        (
            ("configurations", "AVG", "hyperparameters"),
            {"epochs": 3},
            "AVG had hyperparameters none",
        ),
    ],
)
def test_another_set_up_is_refused(
    tmp_path: Path, keys: tuple[str, ...], value: object, words: str
) -> None:
    with ResultStore(tmp_path, SETUP) as store:
        store.append(unit(1))
        store.publish()
    before = files(tmp_path)
    changed = copy.deepcopy(SETUP)
    inner = changed
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    with pytest.raises(InputError, match="--fresh") as refusal:
        ResultStore(tmp_path, changed)
    assert words in str(refusal.value)
    assert files(tmp_path) == before
    with ResultStore(tmp_path, changed, fresh=True) as store:
        assert store.statuses("AVG") == {}
    assert files(tmp_path) == {}


def test_setup_without_former_hyperparameters_is_refused(tmp_path: Path) -> None:
    tuned = copy.deepcopy(SETUP)
    tuned["configurations"]["AVG"]["hyperparameters"] = {"epochs": 3}
    ResultStore(tmp_path, tuned).close()
    with pytest.raises(InputError, match=r"had hyperparameters .* and has none now"):
        ResultStore(tmp_path, SETUP)


def test_new_configurations_and_libraries_extend_the_setup(tmp_path: Path) -> None:
    ResultStore(tmp_path, SETUP).close()
    extended = copy.deepcopy(SETUP)
    extended["configurations"] = {"90%": SETUP["configurations"]["AVG"]}
    extended["environment"] = {"python": "4"}
    ResultStore(tmp_path, extended).close()
    stored = json.loads((tmp_path / "setup.json").read_text())
    assert set(stored["configurations"]) == {"AVG", "90%"}
    assert find_disagreement(stored, SETUP) == ""
    assert list_environments(stored) == [{"python": "3"}, {"python": "4"}]
    assert describe_environment_differences(stored) == ["python 3 and 4"]
    ResultStore(tmp_path, extended).close()
    assert list_environments(read_setup(tmp_path) or {}) == list_environments(stored)


def test_merge_keeps_all_environments(tmp_path: Path) -> None:
    for name, python in (("a", "3"), ("b", "4"), ("c", "3"), ("d", "5")):
        with ResultStore(tmp_path / name, {**SETUP, "environment": {"python": python}}) as store:
            store.append(unit(ord(name)))
    with ResultStore(tmp_path / "all", {**SETUP, "environment": {"python": "3"}}) as store:
        for name in "abcd":
            store.merge_from(tmp_path / name)
    setup = read_setup(tmp_path / "all") or {}
    assert [environment["python"] for environment in list_environments(setup)] == ["3", "4", "5"]
    assert describe_environment_differences(setup) == ["python 3 and 4 and 5"]
    assert describe_environment_differences(SETUP) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_refused_write_is_reported_and_loses_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Write half a line, then nothing: later lines are not appended to the half."""
    written = os.write
    room = [0]

    def full(handle: int, content: bytes) -> int:
        if room[0] <= 0:
            raise OSError(number, os.strerror(number))
        done = written(handle, bytes(content)[: room[0]])
        room[0] -= done
        return done

    with ResultStore(tmp_path, SETUP) as store:
        store.append(unit(1))
        monkeypatch.setattr(os, "write", full)
        for room[0] in (0, 1, 30, 100):
            with pytest.raises(InputError, match=f"cannot be written.*{os.strerror(number)}"):
                store.append(unit(2))
        monkeypatch.setattr(os, "write", written)
        store.append(unit(3))
        assert store.statuses("AVG") == {1: "done", 3: "done"}
        monkeypatch.setattr(os, "fsync", lambda handle: full(handle, b""))
        with pytest.raises(InputError, match="cannot be written"):
            store.publish()
        monkeypatch.undo()
        store.publish()
    assert list(read_results(tmp_path, "AVG")) == [1, 3]
    with ResultStore(tmp_path, SETUP) as store:
        assert store.statuses("AVG") == {1: "done", 3: "done"}
        assert store.damaged_line_count == 0
    assert not list(tmp_path.rglob("*.tmp"))


def test_results_of_other_origin_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "result").mkdir()
    foreign = tmp_path / "result" / "AVG.jsonl"
    foreign.write_text("{}\n")
    with pytest.raises(InputError, match="not from a batch"):
        ResultStore(tmp_path, SETUP)
    assert foreign.read_text() == "{}\n"


WRONG_VALUES: list[dict[str, Any]] = [
    {"configurations": []},
    {"configurations": {"AVG": {}}},
    {"configurations": {"AVG": 1}},
    {"data": {}},
    {"options": []},
    {"srs_eval": None},
    {"environment": []},
]
DAMAGED_SETUPS = [b"", b"[]", b"{", b'{"srs_eval": "1"}', b"\x00", b"\xff\xfe"]
DAMAGED_SETUPS += [json.dumps({**SETUP, **values}).encode() for values in WRONG_VALUES]


@pytest.mark.parametrize("content", DAMAGED_SETUPS)
def test_a_damaged_set_up_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "setup.json").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        ResultStore(tmp_path, SETUP)


def test_fresh_leaves_what_is_not_ours(tmp_path: Path) -> None:
    with ResultStore(tmp_path, SETUP) as store:
        store.append(unit(1))
        store.publish()
    (tmp_path / "result" / "notes.txt").write_text("mine")
    ResultStore(tmp_path, SETUP, fresh=True).close()
    assert files(tmp_path) == {"result/notes.txt": b"mine"}


def test_merging_takes_over_what_is_missing(tmp_path: Path) -> None:
    target = tmp_path / "here"
    source = tmp_path / "there"
    with ResultStore(target, SETUP) as store:
        store.append(unit(1))
        store.append(unit(2, "failed"))
    with ResultStore(source, SETUP) as store:
        for result in (unit(1), unit(2), unit(3, "skipped")):
            store.append(result)
    with ResultStore(target, SETUP) as store:
        assert store.merge_from(source) == 2
        assert store.statuses("AVG") == {1: "done", 2: "done", 3: "skipped"}
    later_version = {**SETUP, "srs_eval": "2"}
    with (
        ResultStore(target, later_version, fresh=True) as store,
        pytest.raises(InputError, match="merged"),
    ):
        store.merge_from(source)


def test_merge_takes_over_predictions_missing_in_the_target(tmp_path: Path) -> None:
    target = tmp_path / "here"
    source = tmp_path / "there"
    for folder, contents in ((target, {}), (source, {"raw": b"predictions"})):
        with ResultStore(folder, SETUP) as store:
            store.append(dataclasses.replace(unit(1), files=contents))
    with ResultStore(target, SETUP) as store:
        assert store.merge_from(source) == 1
        assert store.has_file("raw", "AVG", 1)
        assert store.merge_from(source) == 0
    with ResultStore(source, SETUP) as store:
        (target / "raw" / "AVG" / "user_id=1.parquet").unlink()
        assert store.merge_from(target) == 0


def test_skipped_unit_is_missing_once_its_module_is_installed(tmp_path: Path) -> None:
    """Check that units without a module count as skipped until it is installed or merged."""
    target = tmp_path / "here"
    source = tmp_path / "there"
    with ResultStore(target, SETUP) as store:
        store.append(dataclasses.replace(unit(1, "skipped"), missing_module="json"))  # is there
        store.append(dataclasses.replace(unit(2, "skipped"), missing_module="no_such_module"))
        store.append(unit(3, "skipped"))
    with ResultStore(source, SETUP) as store:
        for user in (1, 2, 3):
            store.append(unit(user))
    with ResultStore(target, SETUP) as store:
        assert store.statuses("AVG") == {2: "skipped", 3: "skipped"}
        assert store.merge_from(source) == 2
        assert store.statuses("AVG") == {1: "done", 2: "done", 3: "skipped"}


def test_damaged_line_counts_until_its_user_has_a_later_record(tmp_path: Path) -> None:
    with ResultStore(tmp_path, SETUP) as store:
        for user in (1, 2):
            store.append(unit(user))
    journal = tmp_path / ".journal" / "AVG.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content.replace(b"0.14", b"0.15"))
    assert count_damaged_lines(tmp_path) == {journal: 1}
    with ResultStore(tmp_path, SETUP) as store:
        store.append(unit(2))
        assert count_damaged_lines(tmp_path) == {journal: 1}
        store.append(unit(1))
    assert count_damaged_lines(tmp_path) == {}


def test_damaged_line_counts_once_however_often_it_is_read(tmp_path: Path) -> None:
    for name in ("here", "there"):
        with ResultStore(tmp_path / name, SETUP) as store:
            store.append(unit(1))
    journal = tmp_path / "here" / ".journal" / "AVG.jsonl"
    journal.write_bytes(journal.read_bytes() + b"damaged\n")
    with ResultStore(tmp_path / "here", SETUP) as store:
        store.merge_from(tmp_path / "there")
        store.statuses("AVG")
        assert store.damaged_line_count == 1


def test_store_in_an_impossible_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ResultStore(tmp_path / "file" / "out", SETUP)


def test_a_failed_replacement_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    write_atomically(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]
