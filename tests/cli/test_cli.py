"""Check the command line as a person or a script meets it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from srs_eval.cli import options
from srs_eval.cli.learner import _choose_job_count
from srs_eval.cli.main import _insert_stdout, app, main
from srs_eval.cli.outputs import Outputs
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.run import Run
from srs_eval.models import all_models
from srs_eval.models.configurations import GROUPS, resolve_configurations
from srs_eval.report.console import show_run
from tests.conftest import PATIENCE, write_simulated_collection
from tests.helpers.batches import PROGRAM
from tests.helpers.program import run_in_process, run_program
from tools.simulated import simulate_learner, write_dataset

MODELS = "AVG,90%,SM2-short"
SYMBOLS = "─│╭╰━█▒●○✓!"  # of tables, bars and marks


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_collection(tmp_path_factory, 5, 1500)


# --- start-up and usage --------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--version"], f"srs-eval {VERSION}, Python {sys.version.split()[0]}, "),
        (["--help"], "Usage: srs-eval"),
        (["batch", "--help"], "Usage: srs-eval batch"),
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], words: str) -> None:
    """Check that the fastest answers load neither heavy packages nor those of other commands."""
    code = (
        f"import sys; from srs_eval.cli.main import main; main({arguments})\n"
        "heavy = 'numpy torch numba pandas pyarrow scipy textual matplotlib'.split()\n"
        "heavy += [f'srs_eval.{each}' for each in ('models', 'engine', 'advice', 'batch', 'app')]\n"
        "found = set(heavy) & set(sys.modules)\n"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert words in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "FILE", "--models", "FSRS6x"], "Did you mean"),
        (["run", "FILE", "--modles", "AVG"], "--modles"),
        (["run", "FILE", "--n_splits", "many"], "--n_splits"),
        (["run", "FILE", "--n_splits", "1"], "at least 2"),
        (["run", "FILE", "--gamma", "nan"], "--gamma must be 0 or more"),
        (["run", "FILE", "--gamma", "-3"], "--gamma must be 0 or more"),
        (["run", "FILE", "--jobs", "-1"], "--jobs"),
        (["run", "FILE", "--rows", "ankii"], "is not one of 'benchmark', 'anki'"),
        (["run", "FILE", "--partitions", "x"], "is not one of 'none', 'deck', 'preset'"),
        (["run", "FILE", "--default", "--S0"], "cannot be combined"),
        (["run", "FILE", "--no_test_same_day"], "without --secs"),
        (["run", "FILE", "--sm2-target", "1.5"], "between 0 and 1"),
        (["run", "FILE", "--weights", "/nowhere/at/all"], "no folder"),
        (["run", "FILE", "--json", "-", "--csv", "-"], "Only one document can go to stdout"),
        (["run", "FILE", "--models", "AVG", "--json", "/"], "is a folder"),
        (["run", "FILE", "--models", "AVG", "--json", "/nowhere/at/all"], "cannot be written"),
        (["run", "FILE", "--deck", "Nothing"], "This file has"),
        (["run", "FILE", "--preset", "Nothing"], "This file has"),
        (["run", "FILE", "--timezone", "Atlantis"], "Atlantis"),
        (["run", "FILE", "--rollover", "25"], "25"),
        (["run", "FILE", "FILE"], "extra argument"),
        (["run", "missing\x1b[31m.anki2"], "missing"),
        (["run"], "Which file?"),
        (["inspect", "no.anki2"], "no.anki2"),
        (["batch"], "--dataset"),
        (["batch", "--dataset", "nothing-of-that-name"], "nothing-of-that-name"),
        (["nothing-of-that-name"], "nothing-of-that-name"),
        ([""], ""),
    ],
)
def test_bad_usage_is_one_sentence_and_code_2(
    arguments: list[str],
    words: str,
    collection: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    code = main([str(collection) if argument == "FILE" else argument for argument in arguments])
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    sentences = [line for line in err.splitlines() if "reviews," not in line]
    assert len(sentences) == 1
    assert sentences[0].startswith("srs-eval: ")
    assert words in sentences[0]
    assert "\x1b" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [[], ["run"], ["inspect"], ["compare"]])
def test_without_a_profile_the_folders_are_named(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("ANKI_BASE", str(tmp_path / "elsewhere"))
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert "No Anki profile was found in" in message
    for folder in ("elsewhere", "Documents/Anki"):
        assert f'"{tmp_path / folder}"' in message
    assert "srs-eval demo" in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--two-buttons"], {"two_buttons": True}),
        (["--binary", "--dry"], {"two_buttons": True, "default": True}),
        (["--pretrain"], {"S0": True}),
        (["--dry-run"], {"default": True}),
        (["--n-splits=3", "--sm2_target", "0.8"], {"n_splits": 3, "sm2_target": 0.8}),
        (["--no-test-same-day", "--no_cache"], {"no_test_same_day": True, "no_cache": True}),
        (["--json", "--csv", "a_b-c"], {"json": "-", "csv": "a_b-c"}),
        (["--csv", "--secs"], {"csv": "-", "secs": True}),
        (["--json=a-b", "--", "--binary"], {"json": "a-b", "path": Path("--binary")}),
        (["--", "--json"], {"path": Path("--json")}),
        (["a_b"], {"path": Path("a_b")}),
    ],
)
def test_spellings_of_options(arguments: list[str], expected: dict[str, object]) -> None:
    group = typer.main.get_group(app)
    parent = group.make_context("srs-eval", ["run"])
    command = group.commands["run"]
    usual = command.make_context("run", [], parent=parent).params
    parsed = command.make_context("run", _insert_stdout(arguments), parent=parent).params
    assert parsed == {**usual, **expected}


def _list_parameters() -> list[Any]:
    group = typer.main.get_group(app)
    commands = [*group.commands.values()]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
    parameters = []
    for command in commands:
        parameters += command.params
    return parameters


def test_options_declared_are_options_of_a_command() -> None:
    used = {parameter.help for parameter in _list_parameters()}
    aliases = {
        name: alias.__metadata__[0].help
        for name, alias in vars(options).items()
        if hasattr(alias, "__metadata__")
    }
    assert len(aliases) > 90
    assert [name for name, text in aliases.items() if text not in used] == []


def test_flags_of_the_protocol_have_its_defaults() -> None:
    protocol = Protocol()
    flags = [
        parameter
        for parameter in _list_parameters()
        if parameter.rich_help_panel == "Protocol flags, named as in srs-benchmark"
        and hasattr(protocol, parameter.name)
    ]
    assert len(flags) > 5 * 15
    for flag in flags:
        assert flag.default == getattr(protocol, flag.name), flag.name


# --- run -----------------------------------------------------------------------


def test_json_on_stdout_is_data_only(collection: Path) -> None:
    done = run_program("run", collection, "--models", MODELS, "--json", "-")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(word))
    assert document["layout"] == 2
    assert document["source"]["path"] == str(collection)
    assert document["source"]["evaluated"] > 100
    assert {result["configuration"] for result in document["results"]} == set(MODELS.split(","))
    losses = [result["metrics"]["LogLoss"] for result in document["results"]]
    assert losses == sorted(losses)
    (group,) = document["groups"]
    place_by_name = {result["configuration"]: result["place"] for result in document["results"]}
    assert place_by_name["AVG"] is None
    assert sorted(filter(None, place_by_name.values())) == [1, 2]
    assert place_by_name[group["best"]] == 1
    average = next(result for result in document["results"] if result["configuration"] == "AVG")
    assert (
        average["to_baseline"] is average["standing"] is average["against_baseline_percent"] is None
    )
    assert group["baseline"]["log_loss"] == average["metrics"]["LogLoss"]
    assert group["baseline"]["half_width"] == average["log_loss_half_width"] > 0
    for result in document["results"]:
        loss = result["metrics"]["LogLoss"]
        if result is not average:
            difference = loss - average["metrics"]["LogLoss"]
            assert result["to_baseline"]["difference"] == pytest.approx(difference, abs=2e-6)
            percent = 100 * difference / average["metrics"]["LogLoss"]
            assert result["against_baseline_percent"] == pytest.approx(percent, abs=0.01)


def test_run_is_equal_for_any_jobs_and_spelling_of_flags(collection: Path, tmp_path: Path) -> None:
    documents = []
    for number, flags in enumerate(
        (["--two_buttons", "--jobs", "2", "--no-cache"], ["--binary", "--jobs", "0"])
    ):
        target = tmp_path / f"{number}.json"
        assert main([str(collection), "--models", MODELS, *flags, "--json", str(target)]) == 0
        document = json.loads(target.read_text())
        for result in document["results"]:
            del result["seconds"], result["cached"]
        documents.append(document)
    assert documents[0] == documents[1]
    assert documents[0]["protocol"]["two_buttons"] is True


def test_run_writes_csv_with_places(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(collection), "--models", MODELS, "--csv", "-", "--jobs", "0"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["configuration"] for line in lines if line["place"] == ""] == ["AVG"]
    assert [line["place"] for line in lines if line["place"]] == ["1", "2"]
    assert {line["words"] for line in lines} == {"average", "always 90 %", "SM2 short"}
    assert all(float(line["log_loss_half_width"]) > 0 for line in lines)
    assert {line["status"] for line in lines} == {"done"}
    assert all(0 < float(line["LogLoss"]) < 10 for line in lines)
    assert {line["size"] for line in lines} == {lines[0]["size"]}


def test_documents_can_have_names_of_2026(
    collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--models", "FSRS-6-dry-run,AVG", "--jobs", "0", "--reference", "FSRS-6-default")
    for names, name in (("2025", "FSRS-6-dry-run"), ("2026", "FSRS-6-default-short")):
        assert main(["run", str(collection), *options, "--names", names, "--csv", "-"]) == 0
        lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert {line["configuration"] for line in lines} == {"AVG", name}
        assert main(["run", str(collection), *options, "--names", names, "--json", "-"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {result["configuration"] for result in document["results"]} == {"AVG", name}
        assert document["groups"][0]["reference"] == name
        assert document["groups"][0]["baseline"]["configuration"] == "AVG"
    assert main(["run", str(collection), *options, "--names", "2027"]) == 2
    assert "is not one of '2025', '2026'" in capsys.readouterr().err


def test_misspelled_command_gets_a_suggestion_unless_it_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["comprae", "collection.anki2"]) == 2
    message = capsys.readouterr().err
    assert message == 'srs-eval: There is no command and no file "comprae". Did you mean compare?\n'
    Path("comprae").write_text("not a collection")
    for word in ("comprae", "collection.anki2", "zzz", "--models"):  # options are no commands
        assert main([word]) == 2
        assert "Did you mean" not in capsys.readouterr().err


def test_output_without_a_terminal_is_plain_whatever_the_window(
    collection: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    outputs = set()
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["run", str(collection), "--models", MODELS]) == 0
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        assert "\r" not in err
        outputs.add(out)
    (output,) = outputs
    lines = output.splitlines()
    for name in ("SM2 short", "always 90 %"):
        (row,) = [line for line in lines if line.startswith(f"{name}: ")]
        for word in ("log loss ", "±", "RMSE(bins) ", "AUC ", "log loss against average "):
            assert word in row
    assert not set(output) & set(SYMBOLS)
    assert "2 of 5: " in output


def test_plain_option_works_with_every_command_and_in_a_terminal(
    collection: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    for arguments in (
        ["--plain", "compare", str(collection)],
        ["inspect", str(collection), "--plain"],
        [str(collection), "--models", "AVG", "--plain"],  # no app
        ["models", "FSRS-6", "--plain"],
        ["compare", "--help", "--plain"],
    ):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert out
        assert "\x1b" not in out
        assert not set(out) & set(SYMBOLS)
        monkeypatch.setenv("TERM", "xterm-256color")


def test_run_compares_with_average_but_writes_requested_models(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    assert main(["run", str(collection), "--models", "90%", "--json", str(target)]) == 0
    (result,) = json.loads(target.read_text())["results"]
    assert result["configuration"] == "90%"
    assert result["against_baseline_percent"] is not None
    assert "the baseline" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--secs"], marks=pytest.mark.slow),
        ["--secs", "--short"],
        ["--secs", "--no_test_same_day"],
        ["--secs", "--short", "--no_test_same_day"],
        ["--secs", "--equalize_test_with_non_secs"],
        ["--train_equals_test"],
    ],
)
def test_one_group_is_evaluated_on_the_same_reviews(
    flags: list[str], collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = "90%,SM2,FSRSv4-dry-run,FSRS-5-dry-run,FSRS-6-dry-run,FSRS-7-dry-run"
    arguments = ["run", str(collection), "--models", models, *flags, "--jobs", "0", "--json", "-"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["results"]) == 6
    for result in document["results"]:
        assert result["size"] == document["groups"][result["group"]]["reviews"]
        assert result["against_baseline_percent"] is not None, result["configuration"]


def test_deck_option_includes_subdecks(
    collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from srs_eval.anki_import import load_log
    from srs_eval.data.rows import select_decks, select_presets

    log = load_log(collection)
    with_children = next(
        deck.name.split("::")[0] for deck in log.decks.values() if "::" in deck.name
    )
    deck_log = select_decks(log, with_children.upper())
    assert deck_log.entries is not None
    inside = {d.id for d in log.decks.values() if d.name.split("::")[0] == with_children}
    assert len(inside) > 1
    assert set(deck_log.deck_of(deck_log.entries.card_id).tolist()) <= inside
    assert log.entries is not None
    expected = sum(deck in inside for deck in log.deck_of(log.entries.card_id).tolist())
    assert len(deck_log.entries) == expected
    used = set(log.preset_of(log.cards.deck_id).tolist())
    preset = next(preset for preset in log.presets.values() if preset.id in used)
    of_preset = select_presets(log, preset.name)
    assert of_preset.entries is not None
    decks = of_preset.deck_of(of_preset.entries.card_id)
    assert set(of_preset.preset_of(decks).tolist()) == {preset.id}

    assert main(["run", str(collection), "--deck", with_children, "--models", "AVG", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"]["deck"] == with_children
    assert 0 < document["source"]["reviews"] <= expected


def test_one_user_of_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset({7: simulate_learner(1, 800), 8: simulate_learner(2, 5)}, tmp_path)
    assert main(["run", str(tmp_path), "--user", "7", "--models", "90%", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"]["user"] == 7
    # Where too little data leaves nothing to evaluate, that is told.
    assert main(["run", str(tmp_path), "--user", "8", "--models", "90%", "--json"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "Nothing can be evaluated" in err


@pytest.mark.parametrize("installed", [True, False])
def test_jobs_count_the_loading_of_installed_networks(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.data.errors.is_installed", lambda module: installed)
    trees = all_models()["GradientBoosting"]
    model = replace(trees, needs="torch")
    chosen = [replace(resolve_configurations("GradientBoosting")[0], model=model)]
    assert model.cost.seconds_besides > 1
    assert (_choose_job_count(chosen, 0) > 0) == installed


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes of a POSIX shell")
def test_a_closed_pipe_is_no_error(collection: Path) -> None:
    for arguments in ("models --json", f"run {collection} --models {MODELS} --json"):
        done = subprocess.run(
            f"{sys.executable} -m srs_eval {arguments} | true; echo ${{PIPESTATUS[0]}}",
            shell=True,
            executable="/bin/bash",
            capture_output=True,
            text=True,
        )
        assert done.stdout == "0\n"
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupting_a_run(tmp_path: Path) -> None:
    import signal

    write_dataset({1: simulate_learner(1, 800)}, tmp_path / "data")
    target = tmp_path / "out.json"
    process = subprocess.Popen(
        [
            sys.executable,
            PROGRAM,
            "run",
            tmp_path / "data",
            "--user=1",
            "--models=AVG,STUCK,STUCK-short",
            "--jobs=2",
            f"--json={target}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    stated = ""
    # Both models that never end have begun: the second one as soon as AVG was known to have ended.
    while stated.count("must not reach stdout") < 2:
        assert process.poll() is None
        stated += process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    err = stated + err
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "must not reach stdout" not in out
    assert "2 configurations had not finished" in err
    results = json.loads(target.read_text())["results"]
    assert [result["configuration"] for result in results] == ["AVG"]
    with pytest.raises(ProcessLookupError):
        _until_gone(process.pid)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupted_while_it_is_imported(tmp_path: Path) -> None:
    """Check that an early interrupt ends silently with code 130."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == os.environ['INTERRUPTED_AT']:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for module in ("srs_eval.cli.main", "typer", "srs_eval.cli.options", "numpy"):
        environment = {**os.environ, "PYTHONPATH": paths, "INTERRUPTED_AT": module}
        done = run_program("inspect", "no.anki2", env=environment)
        assert (module, done.returncode, done.stdout, done.stderr) == (module, 130, "", "")


def test_a_log_too_small_for_every_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "revlog.csv"
    log.write_text("card_id,review_rating,review_time\n1,3,1700000000000\n1,3,1700200000000\n")
    target = tmp_path / "out.json"
    assert main(["run", str(log), "--models", "AVG,FSRS-6", "--json", str(target)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    sentence = err.splitlines()[-1]
    assert sentence == (
        "srs-eval: Nothing can be evaluated: no usable reviews; you have 2 reviews so far, "
        "and most answers need 1,000 reviews on 20 days."
    )
    assert not target.exists()


def test_presets_without_usable_reviews_are_one_sentence(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check a collection with all cards suspended, then one with too few reviews.

    In the first, models are compared all the same, as in the app.
    """
    path = tmp_path / "collection.anki2"
    path.write_bytes(collection.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update cards set queue = -1")
    assert main(["compare", str(path), "--details"]) == 0
    out, message = capsys.readouterr()
    assert "Which model predicts best?" in out
    assert len(message.splitlines()) == 1
    for command in (["compare", "--question", "split"], ["workload"]):
        assert "all your cards are suspended" in message
        assert message.count("Anki's optimizer") == 1
        assert main([command[0], str(path), *command[1:]]) == 2
        message = capsys.readouterr().err.splitlines()[-1]
    assert "all your cards are suspended" in message
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update cards set queue = 2")
        connection.execute("delete from revlog where id not in (select id from revlog limit 3)")
    assert main(["compare", str(path)]) == 2
    out, message = capsys.readouterr()
    assert all(f"{number} of 5: " in out for number in range(1, 6))
    assert message.splitlines()[-1] == (
        "srs-eval: Too little data: no usable reviews (counting only the reviews that Anki's "
        "optimizer uses); you have 3 reviews so far, and most answers need 1,000 reviews on "
        "20 days."
    )


def _until_gone(group: int) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        os.killpg(group, 0)
        time.sleep(0.05)


# --- inspect, models, demo -----------------------------------------------------


def test_inspect_shows_the_figures_of_its_json(
    collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(collection)]) == 0
    table = capsys.readouterr().out
    assert main(["inspect", str(collection), "--json", "-"]) == 0
    inspection = json.loads(capsys.readouterr().out)
    assert inspection["entries_read"] >= 1500
    assert f"{inspection['entries_read']:,}" in table


def test_models_lists_every_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    listed = {model["configuration"]: model for model in models}
    assert listed["AVG"]["parameters"] == 0
    assert listed["AVG"]["trained"] is False
    assert listed["FSRS-6"]["parameters"] == 21
    assert listed["FSRS-6"]["trained"] is True
    assert listed["FSRS-6-dry-run"]["trained"] is False
    assert all(model["source"] and model["seconds_per_10k"] >= 0 for model in listed.values())
    assert listed["FSRS-6-dry-run"]["title"] == "FSRS-6 defaults (FSRS-6-dry-run)"
    repository = Path(__file__).resolve().parents[2]
    assert all((repository / model["file"]).is_file() for model in listed.values())
    assert listed["FSRS-6"]["file"].endswith("fsrs6.py")
    assert main(["models"]) == 0
    printed = capsys.readouterr()
    assert f"takes groups: {', '.join(GROUPS)}" in printed.err
    assert "sm2 is a group" in printed.err
    assert len(resolve_configurations("SM2")) == 1 < len(resolve_configurations("sm2"))
    lines = printed.out.splitlines()
    named = [line.partition(":")[0] for line in lines]
    assert named == list(dict.fromkeys(model["model"] for model in listed.values()))


def test_models_describes_named_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "fsrs-6-default", "moving-avg"]) == 0
    story = capsys.readouterr().out
    for word in ("fsrs-optimizer", "21", "FSRS-6 defaults (FSRS-6-dry-run)", "fsrs6.py"):
        assert word in story
    assert "learns from each review" in story
    assert "SM2" not in story
    assert main(["models", "FSRS-66"]) == 2
    for wrong in (["FSRS-6", "--users", "3"], ["check", "AVG", "--device", "gpu"]):
        assert main(["models", *wrong]) == 2
    assert "Did you mean" in capsys.readouterr().err


def test_demo_evaluates_a_simulated_learner(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--models", "baseline", "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["source"]["entries"] >= 20_000
    assert "reviews" in err


def test_layouts_are_documented(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(__file__).resolve().parents[2].joinpath("docs", "formats.md").read_text()
    spans = re.findall(r"`([^`]+)`", re.sub("```.*?```", "", text, flags=re.S))
    documented = {word.strip() for span in spans for word in span.split(",")}
    target = tmp_path / "out.csv"
    arguments = ["run", str(collection), "--models", "AVG,FSRS-6-dry-run"]
    assert main([*arguments, "--json", "--csv", str(target), "--jobs", "0"]) == 0
    document = json.loads(capsys.readouterr().out)
    header = next(csv.reader(target.open()))
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    written = {*document, *document["source"], *listed}
    for group in document["groups"]:
        written |= {*group, *(group["baseline"] or ())}
    for result in document["results"]:
        written |= {*result, *result["metrics"]}
    for model in listed["models"]:
        written |= {*model}
    assert written <= documented
    assert set(header) <= documented
    assert "parameters" in next(r for r in document["results"] if r["model"] == "FSRS-6")


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of("AVG,FSRS-6-dry-run,SM2-short")


def run_of(models: str) -> Run:
    configurations = resolve_configurations(models)
    run = Run.from_configurations(configurations)
    log = simulate_learner(5, 2_500).log()
    for event in evaluate(log, configurations, use_cache=False, jobs=0):
        run.apply(event)
    return run


@pytest.mark.parametrize("width", [20, 36, 50, 64, 67, 79, 80, 100, 110])
def test_log_loss_and_verdict_are_readable_at_any_width(width: int, run: Run) -> None:
    from rich.console import Console

    from srs_eval.report.console import _render_ranking
    from srs_eval.report.ranking_words import describe_standing

    text = io.StringIO()
    console = Console(file=text, width=width)
    for group in run.groups():
        console.print(_render_ranking(group, width))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    loss = f"{run.results_by_name()['AVG'].metrics.log_loss:.4f}"
    assert any((loss if width >= 30 else loss[:4]) in line for line in lines)
    if width >= 50:
        ranked = chain.from_iterable(group.lines for group in run.groups())
        verdicts = list(map(describe_standing, ranked))
        assert "below the baseline" in verdicts
        ends = [line.strip() for line in lines]
        for verdict in verdicts:
            assert any(end.endswith(f" {verdict}") for end in ends)


def test_no_name_is_broken_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Console(file=sys.stdout, width=80, force_terminal=True, color_system=None)
    show_run(run_of("AVG,RMSE-BINS-EXPLOIT"), terminal)
    assert "RMSE-BINS-EXPLOIT 1 " in capsys.readouterr().out


# --- where output must not or cannot go ----------------------------------------


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize("name", ["own", "other", "journal", "link"])
def test_no_option_overwrites_a_collection(
    command: str, name: str, collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "own"
    second_collection = tmp_path / "other"
    for path in (source, second_collection):
        path.write_bytes(collection.read_bytes())
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "own-wal").write_bytes(b"")
    target = tmp_path / ("own-wal" if name == "journal" else name)
    before = target.read_bytes()
    models = ["--models", "AVG"] if command == "run" else []
    assert main([command, str(source), *models, "--json", str(target)]) == 2
    assert "not overwritten" in capsys.readouterr().err
    assert target.read_bytes() == before
    assert (tmp_path / "link").is_symlink()


def test_a_csv_is_not_overwritten_by_its_results(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("card_id,review_rating,review_time\n1,3,1700000000000\n")
    before = log.read_bytes()
    assert main(["run", str(log), "--models", "AVG", "--csv", str(log)]) == 2
    assert log.read_bytes() == before


def test_targets_are_checked_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tmp_path / "missing"), "--json", str(tmp_path / "no" / "x")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_results_go_through_a_link(collection: Path, tmp_path: Path) -> None:
    target = tmp_path / "real.json"
    assert main(["models", "--json", str(target)]) == 0
    (tmp_path / "link.json").symlink_to(target)
    arguments = ["run", str(collection), "--models", "AVG", "--json", str(tmp_path / "link.json")]
    assert main(arguments) == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads(target.read_text())["results"]


@pytest.mark.skipif(os.name != "posix", reason="names that are no text")
@pytest.mark.parametrize(
    ("command", "target"),
    [
        pytest.param(["run", "--models", "AVG"], "-", marks=pytest.mark.slow),
        (["inspect"], "out.json"),
    ],
)
def test_path_that_is_not_unicode_is_read(
    command: list[str], target: str, collection: Path, tmp_path: Path
) -> None:
    path = os.fsencode(tmp_path) + b"/b\xff.anki2"
    try:
        Path(os.fsdecode(path)).write_bytes(collection.read_bytes())
    except OSError:
        pytest.skip("this file system takes text only")
    done = subprocess.run(
        [sys.executable, "-m", "srs_eval", *command, path, "--json", target],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    written = done.stdout if target == "-" else (tmp_path / target).read_bytes()
    assert json.loads(written.decode("utf-8"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="closed by the shell")
@pytest.mark.parametrize("closed", [pytest.param("2>&-", marks=pytest.mark.slow), ">&- 2>&- <&-"])
def test_run_works_with_closed_streams(closed: str, collection: Path) -> None:
    command = f'"$0" -m srs_eval run "$1" --models AVG --no-cache --jobs 1 {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, str(collection)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert ("average" in done.stdout) == (">&-" not in closed.split())


@pytest.mark.parametrize("flags", [["--timezone", "UTC"], ["--rollover", "3"], ["--rows", "anki"]])
def test_data_set_refuses_flags_of_collections(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset({3: simulate_learner(3, 300)}, tmp_path)
    assert main(["run", str(tmp_path), "--user", "3", "--models", "AVG", *flags]) == 2
    err = capsys.readouterr().err
    assert "data set" in err
    assert flags[0] in err


def test_a_ranking_is_folded_below_the_five_questions(
    collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(collection), "--models", "AVG,90%,SM2,MOVING-AVG", "--jobs", "0"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("srs_eval.report.export._BRIEF_RANKING_LENGTH", 2)
        assert main(run) == 0
        folded = capsys.readouterr().out
        assert main([*run, "--all-models"]) == 0
        unfolded = capsys.readouterr().out
    for title in ("1 of 5: What to do", "5 of 5: Anything wrong?"):
        assert folded.index(title) < folded.index("Evaluated on")
    assert "1 more model: add --all-models" in folded
    assert "y copies" not in folded
    assert "--all-models" not in unfolded
    assert len(unfolded.splitlines()) == len(folded.splitlines())


@pytest.mark.slow
def test_a_report_is_opened_and_told_in_short(
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    export = ["export", str(collection), "--models", "AVG,90%", "--jobs", "0"]
    assert main([*export, "--open"]) == 2
    assert "add --html FILE" in capsys.readouterr().err
    page = tmp_path / "report.html"
    assert main([*export, "--html", str(page), "--open", "--short"]) == 0
    short, messages = capsys.readouterr()
    assert opened == [page.as_uri()]
    assert f'open "{page}" yourself' in messages  # no browser took it
    lines = short.splitlines()
    assert 10 <= len(lines) <= 15
    assert "●)" in lines[2] or "○)" in lines[2]
    assert lines[2].startswith("- **1 What to do**: ")
    first, _, remainder = page.read_text("utf-8").partition("<h2>Your presets")
    assert first.count('class="card"') == 5
    assert "AVG" not in first
    assert "average" in remainder


@pytest.mark.slow
def test_export_short_changes_the_form_and_not_the_results(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    documents = []
    for number, flags in enumerate(([], ["--short"])):
        path = tmp_path / f"{number}.json"
        done = run_in_process("export", collection, "--models", "AVG,SM2", "--json", path, *flags)
        assert done.returncode == 0, done.stderr
        assert ("**1 What to do**" in done.stdout) == bool(flags)
        documents.append(json.loads(path.read_text("utf-8")))
    assert documents[0] == documents[1]


def test_forms_of_reports_have_names_that_no_flag_has() -> None:
    forms = {form.name for form in fields(Outputs)}
    assert not forms & {*(field.name for field in fields(Protocol)), "default", "S0"}


# --- the same review twice


def test_overlapping_exports_are_ranked_once_and_counted(collection: Path, tmp_path: Path) -> None:
    """Check that the results of two overlapping exports are those of the whole history."""
    with closing(sqlite3.connect(collection)) as database:
        entries = database.execute("select cid, ease, id from revlog where ease > 0").fetchall()
    lines = [",".join(map(str, entry)) for entry in entries]
    half = len(lines) // 2
    documents = []
    messages = []
    for name, rows in {
        "once.csv": lines,
        "twice.csv": lines[: half + 200] + lines[half - 100 :],
    }.items():
        table = "\n".join(["card_id,review_rating,review_time", *rows])
        (tmp_path / name).write_text(table, encoding="utf-8")
        done = run_in_process(
            "run", tmp_path / name, "--models", "AVG,FSRS-6-dry-run", "--json", "-"
        )
        assert done.returncode == 0
        documents.append(json.loads(done.stdout))
        messages.append(done.stderr)
    once, twice = documents
    once_metrics = [result["metrics"] for result in once["results"]]
    assert [result["metrics"] for result in twice["results"]] == once_metrics
    assert twice["source"]["reviews"] == once["source"]["reviews"]
    assert (once["source"]["repeated"], twice["source"]["repeated"]) == (0, 300)
    sentence = "300 entries repeat earlier entries; the repeats were left out."
    assert sentence in messages[1]
    assert "repeat earlier" not in messages[0]
    inspected = run_in_process("inspect", tmp_path / "twice.csv")
    assert sentence in " ".join(inspected.stdout.split())
    assert "repeat earlier" not in inspected.stderr
