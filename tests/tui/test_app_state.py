"""Check the saved state of the app, and that damage to it never matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srs_eval.tui.config import State, load_state, save_state
from tests.conftest import PATIENCE
from tests.helpers.marks import slow_except
from tests.tui.app_world import MODELS, is_on_screen, make_app, wait_until


def test_state_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    state = State(theme="nord", light_theme="solarized-light", bins=20)
    state = state.with_opened(Path("/a/collection.anki2"), 12, 5.0).with_opened(
        Path("/b ü.colpkg"), 3, 6.0
    )
    assert save_state(state, tmp_path / "new" / "folder")
    assert load_state(tmp_path / "new" / "folder") == state
    assert [recent.path for recent in state.recent] == ["/b ü.colpkg", "/a/collection.anki2"]
    assert [entry.name for entry in (tmp_path / "new" / "folder").iterdir()] == ["app.json"]


def test_a_file_is_listed_once_latest_first() -> None:
    state = State()
    for number in [*range(20), 15]:
        state = state.with_opened(Path(f"/{number}"), number, float(number))
    paths = [recent.path for recent in state.recent]
    assert paths[:3] == ["/15", "/19", "/18"]
    assert len(paths) == len(set(paths)) == 8
    assert "/15" not in [recent.path for recent in state.without_file("/15").recent]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[1]",
        b"\xff\xfe\x00",
        b'{"recent": 3, "theme": 7, "bins": "40"}',
        b'{"recent": [1, {"path": 3}, {"path": "a\\u0000b"}, {}], "bins": true, "theme": ""}',
        b"[" * 100_000,
    ],
)
def test_damaged_state_is_read_as_no_state(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "app.json").write_bytes(content)
    assert load_state(tmp_path) == State()


NUMBERS = ["NaN", "-Infinity", "1e999", "-1e300", "1" * 400, "-5", "0.5", "5e-324", "true", '"9"']


@pytest.mark.parametrize("number", slow_except({"NaN"}, NUMBERS), ids=lambda number: number[:10])
async def test_app_works_with_any_number_in_its_state(tmp_path: Path, number: str) -> None:
    (tmp_path / "app.json").write_text(
        f"""{{
            "recent": [{{"path": "/mine.anki2", "opened": {number}, "entries": {number}}}],
            "bins": {number}
        }}"""
    )
    app = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        app.session.open_file(Path("collection.anki2"))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
    assert load_state(tmp_path) == app.session.state
    stored = json.loads((tmp_path / "app.json").read_text(), parse_constant=pytest.fail)
    assert stored["recent"][0]["path"].endswith("collection.anki2")


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes among the files")
def test_state_in_a_pipe_is_read_as_no_state(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "app.json")
    script = (
        "import sys; from pathlib import Path; from srs_eval.tui.config import State, load_state; "
        "sys.exit(load_state(Path(sys.argv[1])) != State())"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path], timeout=PATIENCE, check=True)


def test_load_state_ignores_settings_of_newer_versions(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_text(
        json.dumps({"bins": 20, "later": {"a": 1}, "hidden": ["sm2", "later"]})
    )
    state = load_state(tmp_path)
    assert (state.bins, state.hidden) == (20, ("sm2",))
    assert save_state(state, tmp_path)


@settings(max_examples=25)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: (
    st.lists(inner) | st.dictionaries(
        st.sampled_from(["recent", "theme", "bins", "path", "opened", "entries", "extra"]), inner
    )
)))  # fmt: skip
def test_load_state_survives_any_content(content: object) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.json").write_text(json.dumps(content))
        state = load_state(Path(folder))
        assert save_state(state, Path(folder))
        assert load_state(Path(folder)) == state


def test_save_state_in_a_blocked_folder_is_harmless(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert not save_state(State(), blocked)
    assert load_state(blocked) == State()
