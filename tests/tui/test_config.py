"""Check that the settings of config.toml hold, and that mistakes in it are one sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from srs_eval.app import AppOptions
from srs_eval.cli.main import main
from srs_eval.cli.settings import EvaluationOptions
from srs_eval.data.errors import InputError
from srs_eval.tui.config import SCREEN_ACTIONS, Config, _find_key_conflict, load_config
from srs_eval.tui.screens.answers import AnswersScreen
from srs_eval.tui.screens.dialogs import _read_help
from tests.conftest import PATIENCE
from tests.helpers.program import run_program
from tests.tui.app_world import (
    FILE,
    FakeEngine,
    is_on_screen,
    make_app,
    screen_text,
    to_import_summary,
    to_results,
    wait_until,
)
from tools.simulated import simulate_learner, write_collection, write_dataset


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, "utf-8")
    return path


def test_config_init_writes_an_explained_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SRS_EVAL_CONFIG_DIR", str(tmp_path / "settings"))
    assert main(["config", "--init"]) == 0
    path = tmp_path / "settings" / "config.toml"
    assert str(path) in capsys.readouterr().out
    assert load_config() == Config()
    text = path.read_text("utf-8")
    setting_lines = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    position = setting_lines.index(next(line for line in setting_lines if "reduced" in line)) + 1
    setting_lines.insert(position, "[keys]")
    changed = write(tmp_path, "\n".join(setting_lines))
    settings = tomllib.loads(changed.read_text("utf-8"))
    assert set(settings) == {setting.name for setting in fields(Config)}
    load_config(changed)  # all of them are valid
    assert main(["config", "--init"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert path.read_text("utf-8") == text


def test_config_prints_a_valid_file_with_current_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SRS_EVAL_CONFIG_DIR", str(tmp_path))
    assert main(["config"]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / "config.toml"
    assert printed.splitlines()[0].startswith(f"# {path}, which does not exist")
    write(tmp_path, printed)
    config = load_config()
    assert Config(**{**vars(config), "keys": {}}) == Config()
    all_actions = list(chain.from_iterable(SCREEN_ACTIONS.values()))
    assert config.keys == {action.id: action.key for action in all_actions}
    write(tmp_path, 'theme = "nord"\nequivalence = 0.01\n[keys]\ncancel = "z"\n')
    assert main(["config"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == f"# {path}"
    values = tomllib.loads(printed)
    assert (values["theme"], values["equivalence"], values["keys"]["cancel"]) == ("nord", 0.01, "z")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rows = ", "is not TOML"),
        ('colour = "red"', "there is no setting 'colour', only theme, rows"),
        ('rows = "all"', "rows must be benchmark or anki, not 'all'"),
        ('models = "FSRS-66"', 'models: There is no model "FSRS-66"'),
        ("theme = 3", "theme must be a name in quotes"),
        ("equivalence = true", "equivalence must be a log loss from 0 to 1"),
        ("equivalence = nan", "equivalence must be a log loss from 0 to 1"),
        ("equivalence = 1e999", "equivalence must be a log loss from 0 to 1, not inf"),
        (f"equivalence = {10**400}", "equivalence must be a log loss from 0 to 1, not 1000"),
        (f"equivalence = {'1' * 5_000}", "is not TOML"),  # more digits than Python reads
        (f"{'x' * 100_000} = 1", "there is no setting 'xxx"),
        (f"# {'x' * (1 << 20)}", "larger than 1,048,576 bytes"),
        ('reduced_motion = "yes"', "reduced_motion must be true or false"),
        ("keys = 3", "keys must be a table of actions"),
        ('[keys]\nfly = "x"', "there is no action fly, only help, "),
        ("[keys]\ncancel = 3", "keys must be a table of actions and their keys in quotes"),
        ('[keys]\ncancel = "o"', '"o" is the key of both cancel and order'),
        ('[keys]\nfilter = "q"', '"q" is the key of both filter and quit'),
    ],
    ids=lambda text: text[:30],
)
def test_config_mistake_is_one_sentence(
    text: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 600
    monkeypatch.setenv("SRS_EVAL_CONFIG_DIR", str(tmp_path))
    assert main(["config"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and devices among the files")
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
def test_config_that_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    commands = [["config"]]
    if kind == "a pipe":  # which would be waited for
        commands.append(["run", "x.anki2"])
    for command in commands:
        environment = {**os.environ, "SRS_EVAL_CONFIG_DIR": str(tmp_path)}
        done = run_program(*command, env=environment, timeout=PATIENCE)
        assert done.returncode == 2
        assert f"{path} cannot be read (not a regular file); fix or delete it." in done.stderr


def test_keys_may_be_exchanged(tmp_path: Path) -> None:
    path = write(tmp_path, '[keys]\ncancel = "o"\norder = "c"\n')
    assert load_config(path).keys == {"cancel": "o", "order": "c"}


def test_an_action_has_the_same_key_on_all_screens() -> None:
    assert _find_key_conflict({}) == ""
    by_id: dict[str, set[str]] = {}
    for screen_actions in SCREEN_ACTIONS.values():
        for action in screen_actions:
            by_id.setdefault(action.id, set()).add(action.key)
    assert [name for name, keys in by_id.items() if len(keys) > 1] == []


def test_a_key_means_the_same_on_all_screens() -> None:
    bindings = [binding for binding in AnswersScreen.BINDINGS if binding.action.startswith("pane")]
    panes = {str(binding.key) for binding in bindings}
    by_key: dict[str, set[str]] = {key: {"pane"} for key in panes}
    for action in chain.from_iterable(SCREEN_ACTIONS.values()):
        for key in action.key.split(","):
            by_key.setdefault(key, set()).add(action.id)
    assert len(panes) == 5
    assert {key: ids for key, ids in by_key.items() if len(ids) > 1} == {}


def test_each_screen_with_keys_is_explained() -> None:
    assert all(_read_help(name) for name in SCREEN_ACTIONS if name != "everywhere")


@pytest.mark.slow
def test_settings_hold_for_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SRS_EVAL_CONFIG_DIR", str(tmp_path))
    write_collection(simulate_learner(5, 600), tmp_path / "collection.anki2")
    run = ["run", str(tmp_path / "collection.anki2"), "--jobs", "0", "--json", "-"]
    import json

    write(tmp_path, 'rows = "anki"\nmodels = "90%"\nequivalence = 0.5\n')
    assert main(run) == 0
    settled = json.loads(capsys.readouterr().out)
    assert [result["configuration"] for result in settled["results"]] == ["90%"]
    assert settled["protocol"]["rows"] == "anki"
    assert main([*run, "--models", "Memrise", "--rows", "benchmark"]) == 0
    overridden = json.loads(capsys.readouterr().out)
    assert [result["configuration"] for result in overridden["results"]] == ["Memrise"]
    assert overridden["protocol"]["rows"] == "benchmark"
    assert main(["export", *run[1:], "--anonymous"]) == 0  # ranks what the app ranks
    ranking = json.loads(capsys.readouterr().out)["tables"]["ranking"]["rows"]
    assert [row["model"] for row in ranking] == ["average", "always 90 %"]
    # The rows of a data set are chosen already: what is settled for collections says nothing.
    write_dataset({1: simulate_learner(1, 600)}, tmp_path / "data")
    assert main(["run", str(tmp_path / "data"), "--user", "1", "--jobs", "0"]) == 0
    write(tmp_path, "rows = 3")
    done = subprocess.run(
        [sys.executable, "-m", "srs_eval", *run], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"srs-eval: {tmp_path / 'config.toml'}: rows must be")


def test_a_report_ranks_the_models_of_the_app() -> None:
    assert EvaluationOptions.models == AppOptions().models == Config().models == "all"


@pytest.mark.slow
async def test_keys_theme_and_threshold_hold_in_the_app(tmp_path: Path) -> None:
    config = Config(
        theme="nord", equivalence=0.5, reduced_motion=True, keys={"compare": "z", "table": "2"}
    )
    app = make_app(tmp_path, FILE, options=AppOptions(config=config))
    assert app.theme == "nord"
    assert app.animation_level == "none"
    async with app.run_test(size=(100, 90)) as pilot:
        await to_results(pilot, app)
        standings = {line.standing for line in app.session.models.run.groups()[0].lines}
        assert standings == {"best", "as good", None}
        await wait_until(pilot, lambda: "z Compare" in screen_text(app))
        await pilot.press("question_mark")
        await wait_until(pilot, is_on_screen(app, "HelpScreen"))
        assert re.search(r"\bz +Compare +Show two models", screen_text(app))
        await pilot.press("escape", "z")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        await wait_until(pilot, lambda: "Both are equally good" in screen_text(app))
        help_texts: list[Any] = [command.help for command in app.get_system_commands(app.screen)]
        assert any(text.endswith("(2)") and "numbers behind" in text for text in help_texts)


def test_unknown_theme_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="there is no theme 'nrd', only"):
        make_app(tmp_path, options=AppOptions(config=Config(theme="nrd")))
    monkeypatch.setenv("SRS_EVAL_CONFIG_DIR", str(tmp_path))
    path = write(tmp_path, 'theme = "nrd"')
    assert main(["config"]) == 2
    stated = capsys.readouterr()
    assert f"{path}: there is no theme 'nrd', only" in stated.err
    assert stated.out == ""


@pytest.mark.slow
async def test_palette_lists_possible_actions_first(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(100, 40)) as pilot:
        await to_import_summary(pilot)
        await pilot.press("enter")
        await wait_until(pilot, engine.holding.is_set)
        commands = list(app.get_system_commands(app.screen))
        possible = [command.title for command in commands if command.help.startswith("Here: ")]
        assert "Cancel" in possible
        assert "Run again" not in possible
        assert [command.title for command in commands[: len(possible)]] == possible
        await pilot.press("ctrl+p")
        await wait_until(pilot, lambda: "Here: Stop what is still running" in screen_text(app))
        engine.go.set()
