"""Check that the protocol's options of every command decide how models are evaluated."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import NoReturn, get_args, get_type_hints

import pytest
import typer

from srs_eval.cli.main import app, main
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.models.configurations import Fit
from tools.simulated import simulate_learner, write_dataset

COMMANDS = ("run", "open", "demo", "export", "batch", "audit")
DECIDED_BY_MODELS = {"known_decks_only", "later_days_only"}
SPLITS = ("split", "train_until", "train_months")
MISSING_OPTIONS = {
    ("export", "short"),
    ("audit", "seed"),
    *product(("demo", "export", "audit"), SPLITS),
}
"""`--short` of `export` is a form of the report, not the protocol's flag. `--seed` of `audit` is
that of its search; its trainings have the seeds of `--repeats`. Answers, their pictures and audits
rest on the benchmark's folds."""

FLAGS = [flag.name for flag in fields(Protocol) if flag.name not in DECIDED_BY_MODELS]
COMMANDS_AND_FLAGS = [pair for pair in product(COMMANDS, FLAGS) if pair not in MISSING_OPTIONS]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset({3: simulate_learner(3, 60)}, folder)
    return folder


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Protocol, Fit]]:
    """Return a list that takes the protocol of the next command, and stop the command there."""
    arguments: list[tuple[Protocol, Fit]] = []

    def record(_: str, protocol: Protocol, fit: Fit) -> NoReturn:
        arguments.append((protocol, fit))
        raise InputError("The protocol is all that this test needs")

    monkeypatch.setattr("srs_eval.models.configurations.resolve_configurations", record)
    # Data sets take the benchmark's rows alone, whatever the protocol says.
    monkeypatch.setattr("srs_eval.cli.research.refuse_anki_rows", lambda flags: None)
    return arguments


def choose_other_value(flag: str) -> str | float:
    """Return a valid value of a flag of the protocol that is not its default."""
    default = getattr(Protocol(), flag)
    if flag == "train_until":
        return "2024-01-31"
    if isinstance(default, bool):
        return not default
    if isinstance(default, str):
        choices = get_args(get_type_hints(Protocol)[flag])
        return next(choice for choice in choices if choice != default)
    return default + 1


def call_command(command: str, options: list[str], dataset: Path) -> int:
    """Call a command with options, on a data set if it takes one, and return its exit code."""
    if command == "batch":
        options = [*options, "--dataset", str(dataset)]
    if command == "audit":
        options = [*options, str(dataset)]
    return main([command, *options])


@pytest.mark.parametrize(("command", "flag"), COMMANDS_AND_FLAGS)
def test_option_of_a_protocol_flag_reaches_the_protocol(
    command: str, flag: str, dataset: Path, received: list[tuple[Protocol, Fit]]
) -> None:
    value = choose_other_value(flag)
    options = [f"--{flag}"]
    if value is not True:
        options.append(str(value))
    call_command(command, options, dataset)
    assert received == [(replace(Protocol(), **{flag: value}), "trained")]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("fit", ["default", "S0"])
def test_option_of_a_fit_reaches_the_configurations(
    command: str, fit: str, dataset: Path, received: list[tuple[Protocol, Fit]]
) -> None:
    call_command(command, [f"--{fit}"], dataset)
    assert received == [(Protocol(), fit)]


def test_commands_with_protocol_options_are_those_tested_here() -> None:
    commands = set()
    for name, command in typer.main.get_group(app).commands.items():
        options = {parameter.name for parameter in command.params}
        if options & set(FLAGS) - {"rows", "short", "seed"}:  # other commands have these, too
            commands.add(name)
    assert commands == set(COMMANDS)
