"""Options that several commands share, in groups.

A group is a function or a dataclass: its parameters are the options, its value is what they mean.
`takes` puts a group in the place of one parameter of a command.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol

if TYPE_CHECKING:
    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models.configurations import Configuration, Fit, Names
    from srs_eval.training.hyperparameters import Context

_PROTOCOL_PANEL = "Protocol flags, named as in srs-benchmark"
_ROWS_PANEL = "Which reviews count"
_RUN_PANEL = "How it runs"
_OUTPUT_PANEL = "Output"

# Spellings that are accepted besides the declared ones; dashes may stand for underscores.
_DEVICES = ("cpu", "cuda", "mps", "xpu")  # kinds that PyTorch knows, without their number
_ALIASES = {
    "--binary": "--two_buttons",
    "--dry": "--default",
    "--dry_run": "--default",
    "--pretrain": "--S0",
    "--s0": "--S0",
}


def takes(**groups: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each named parameter of a command by the options of a group."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        parameters: list[inspect.Parameter] = []
        owners: dict[str, str] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            if name not in groups:
                parameters.append(_evaluated(parameter, command))
                continue
            for option in _options_of(groups[name]):
                owners[option.name] = name
                parameters.append(option)

        @functools.wraps(command)
        def with_groups(**values: Any) -> Any:
            given: dict[str, dict[str, Any]] = {name: {} for name in groups}
            for option, group in owners.items():
                given[group][option] = values.pop(option)
            made = {name: groups[name](**options) for name, options in given.items()}
            return command(**values, **made)

        ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        with_groups.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        with_groups.__annotations__ = {each.name: each.annotation for each in ordered}
        return with_groups

    return decorate


@functools.cache
def _options_of(group: Callable[..., Any]) -> list[inspect.Parameter]:
    """A group's options, which several commands share."""
    made: list[inspect.Parameter] = []
    for each in inspect.signature(group).parameters.values():
        flags = each.kind is inspect.Parameter.VAR_KEYWORD
        made += _flags() if flags else [_evaluated(each, group)]
    return made


def _evaluated(parameter: inspect.Parameter, of: Callable[..., Any]) -> inspect.Parameter:
    # Options only: the types of groups and results are heavy imports.
    annotation = eval(parameter.annotation, vars(sys.modules[of.__module__]))
    return parameter.replace(annotation=annotation)


def option(
    meaning: str, *names: str, panel: str = _RUN_PANEL, metavar: str | None = None, **more: Any
) -> Any:
    """An option of typer, with what nearly all of ours have."""
    return typer.Option(*names, help=meaning, metavar=metavar, rich_help_panel=panel, **more)


rows_option = functools.partial(option, panel=_ROWS_PANEL)
output_option = functools.partial(option, panel=_OUTPUT_PANEL)


@dataclass(frozen=True)
class Flags:
    """Protocol and fit of the command line, and the models that they go with."""

    protocol: Protocol
    fit: Fit
    ledger: Ledger | None = None  # of trainings that are not as published

    def resolve(self, names: str) -> list[Configuration]:
        """What is named; with a ledger `NAME` and `NAME-tuned` are its. Raises InputError."""
        from srs_eval.models.configurations import resolve, untuned

        if self.ledger is None:
            return resolve(names, self.protocol, self.fit)
        words = [word.strip() for word in names.split(",")]
        for word in words:
            if (base := untuned(word)) != word:
                _refuse_untuned(
                    self.ledger, resolve(base, self.protocol, self.fit), f"{base} is not"
                )
        return self.ledger.tuned(resolve(map(untuned, words), self.protocol, self.fit))

    def held_against(self, name: str) -> Configuration:
        """The one that is meant by `--reference`: as published, unless `NAME-tuned` is named."""
        from srs_eval.models.configurations import untuned

        meant = (self if untuned(name) != name else replace(self, ledger=None)).resolve(name)
        if len(meant) != 1:
            raise InputError(f'--reference takes one model; "{name}" is {len(meant)}.')
        return meant[0]

    def set_up_by(self, ledger: Path | None, models: str) -> Flags:
        """The same with the trainings of a ledger, if there is one.

        Raises InputError where none of the models is in it.
        """
        if ledger is None:
            return self
        from srs_eval.benchmark.setup import read_ledger

        made = replace(self, ledger=(found := read_ledger(ledger)))
        _refuse_untuned(found, made.resolve(models))
        return made


def _refuse_untuned(
    ledger: Ledger,
    configurations: Sequence[Configuration],
    said: str = "No model of --models is",
) -> None:
    """Raises InputError where a ledger names none of the models; `said` is of whom it is said."""
    if not any(each.name in ledger.entries or each.ledger for each in configurations):
        there = ", ".join(ledger.entries) or "nothing"
        raise InputError(f'{said} in "{ledger.path}", which has {there}.')


RowsOption = Annotated[
    str,
    rows_option(
        "benchmark: as for the published figures. anki: as Anki's own optimizer.",
        metavar="benchmark|anki",
    ),
]
_FLAGS = {
    "secs": "Intervals in fractions of a day.",
    "short": "Histories hold same-day reviews.",
    "recency": "Newer reviews weigh more in training.",
    "two_buttons": "Hard and Easy count as Good. Also --binary.",
    "default": "Default parameters, nothing is trained. Also --dry.",
    "S0": "Only initial stabilities are fitted. Also --pretrain.",
    "partitions": "Fit parameters for each deck or preset apart (none, deck, preset).",
    "fallback_user": "With --partitions: one with too little to train on gets the whole user's "
    "fit.",
    "train_equals_test": "Train on the reviews that are judged.",
    "no_test_same_day": "With --secs: same-day reviews are not judged.",
    "no_train_same_day": "With --secs: not trained on same-day reviews.",
    "equalize_test_with_non_secs": "With --secs: judge the reviews judged without.",
    "disable_short_term": "FSRS-5 without its same-day formulas.",
    "sched_penalties": "FSRS-7 is trained to shun leaps and very short intervals.",
    "n_splits": "Number of test folds.",
    "batch_size": "Reviews in a training batch.",
    "max_seq_len": "Longest history trained on; a card keeps twice as many reviews.",
    "gamma": "Strength of the pull towards the start (FSRS-5, FSRS-6, FSRS-7).",
}
"""Fields of `Protocol` and, in `default` and `S0`, what is fitted."""


def _flags() -> Iterator[inspect.Parameter]:
    """An option for each flag, with the default of the protocol's field."""
    for name, meaning in _FLAGS.items():
        usual = getattr(Protocol(), name, False)
        metavar = "WHAT" if isinstance(usual, str) else None
        made = option(meaning, f"--{name}", panel=_PROTOCOL_PANEL, metavar=metavar)
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=usual,
            annotation=Annotated[type(usual), made],
        )


def protocol_options(rows: RowsOption = "benchmark", **flags: Any) -> Flags:
    """Which reviews are judged, and how models are trained; `flags` are `_FLAGS`."""
    default, s0 = flags.pop("default"), flags.pop("S0")
    if default and s0:
        raise InputError("--default and --S0 exclude each other: leave one out.")
    one_of("--rows", rows, ("benchmark", "anki"))
    one_of("--partitions", flags["partitions"], ("none", "deck", "preset"))
    protocol = Protocol(**{"rows": rows, **flags})
    return Flags(protocol, "default" if default else "S0" if s0 else "trained")


ModelFileOption = Annotated[
    list[Path] | None,
    option(
        "A Python file with models of your own; may be repeated. Its code is run.",
        "--model-file",
        metavar="FILE",
    ),
]


def load_model_files(paths: Sequence[Path] | None) -> None:
    """Raises InputError."""
    if paths:
        from srs_eval.models import load_model_file

        for path in paths:
            load_model_file(path)


def context_options(
    sm2_target: Annotated[
        float,
        option(
            "Retention that SM-2's intervals are taken to aim at.",
            "--sm2-target",
            panel=_PROTOCOL_PANEL,
        ),
    ] = 0.9,
    weights: Annotated[
        Path | None, option("Folder of pretrained network weights.", metavar="DIR")
    ] = None,
    device: Annotated[str, option("Where LSTM runs: cpu, cuda, mps, xpu.")] = "cpu",
    model_file: ModelFileOption = None,
) -> Context:
    """Settings of single models."""
    from srs_eval.training.hyperparameters import Context

    if not 0 < sm2_target < 1:
        raise InputError(f"--sm2-target must lie between 0 and 1, unlike {sm2_target:g}.")
    if weights is not None and not weights.is_dir():
        raise InputError(f'--weights: there is no folder "{weights}".')
    load_model_files(model_file)
    kind, colon, number = device.lower().partition(":")
    one_of("--device", kind, _DEVICES)
    if colon and not number.isdecimal():
        raise InputError(f'--device takes a number after the colon, as in cuda:1, not "{device}".')
    return Context(sm2_target=sm2_target, weights=weights, device=device.lower())


@dataclass(frozen=True)
class Source:
    """A learner's file and how to read it."""

    path: Path | None
    user: int | None = None
    timezone: str | None = None
    rollover: int | None = None
    decks: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()

    @property
    def narrowed_to(self) -> dict[str, str | None]:
        """Decks and presets in words, None for all."""
        return {"deck": ", ".join(self.decks) or None, "preset": ", ".join(self.presets) or None}

    def load(self) -> ReviewLog:
        from srs_eval.anki_import import find_profiles, load_log
        from srs_eval.data.rows import only_deck, only_preset

        if self.path is None:
            found = "; ".join(f'"{profile.path}"' for profile in find_profiles()[:5])
            hint = f" Found on this machine: {found}." if found else ""
            raise InputError(f"Which file? Give the path of a collection or export.{hint}")
        log = load_log(self.path, timezone=self.timezone, rollover=self.rollover, user=self.user)
        if self.decks:
            log = only_deck(log, *self.decks)
        return only_preset(log, *self.presets) if self.presets else log


def source_options(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="Collection, package, research export, CSV, or a data-set folder (with --user).",
            show_default=False,
        ),
    ] = None,
    user: Annotated[int | None, rows_option("Which user of a data-set folder.")] = None,
    deck: Annotated[
        list[str] | None, rows_option("Only this deck and those below it; may be repeated.")
    ] = None,
    preset: Annotated[
        list[str] | None, rows_option("Only decks with this preset; may be repeated.")
    ] = None,
    timezone: Annotated[
        str | None,
        rows_option("Where days begin: a zone such as Asia/Tokyo, UTC-7, or local."),
    ] = None,
    rollover: Annotated[int | None, rows_option("Hour at which days begin, 0-23.")] = None,
) -> Source:
    """The learner's file."""
    return Source(path, user, timezone, rollover, tuple(deck or ()), tuple(preset or ()))


ModelsOption = Annotated[
    str,
    option(
        "Names, aliases and groups, separated by commas; `srs-eval models` lists them.",
        "--models",
        metavar="A,B|fast|all",
    ),
]
SetupOption = Annotated[
    Path | None,
    option(
        "Train what an audit's ledger names as it says, as NAME-tuned.", "--setup", metavar="LEDGER"
    ),
]
JobsOption = Annotated[
    int | None, option("Worker processes, one a core if left out.", "--jobs", min=0)
]
JsonOption = Annotated[
    str | None,
    output_option("Write JSON to a file, or to stdout with -.", "--json", metavar="FILE|-"),
]
_CsvOption = Annotated[
    str | None,
    output_option("Write CSV to a file, or to stdout with -.", "--csv", metavar="FILE|-"),
]
NamesOption = Annotated[
    str,
    output_option(
        "How files spell configurations: as srs-benchmark did in 2025, or since 2026.",
        "--names",
        metavar="2025|2026",
    ),
]
ReferenceOption = Annotated[
    str,
    option(
        "The model that others are held against besides the best.", "--reference", metavar="NAME"
    ),
]


def equivalence_option(
    equivalence: Annotated[
        float | None,
        option(
            "Differences in log loss within it do not matter; if left out as in config.toml.",
            "--equivalence",
        ),
    ] = None,
) -> float:
    """What does not matter; raises InputError."""
    from srs_eval.tui.config import load_config

    if equivalence is None:
        return load_config().equivalence
    if not 0 <= equivalence < 1:
        raise InputError(f"--equivalence takes a log loss from 0 to 1, not {equivalence:g}.")
    return equivalence


NoCacheOption = Annotated[bool, option("Neither use nor keep earlier results.", "--no-cache")]


@dataclass(frozen=True)
class Running:
    """How a ranking of one collection is made, and what is written of it."""

    models: ModelsOption = "all"
    setup: SetupOption = None
    jobs: JobsOption = None
    json: JsonOption = None
    csv: _CsvOption = None
    reference: ReferenceOption = "FSRS-6"
    names: NamesOption = "2025"
    no_cache: NoCacheOption = False


def demo_options(
    models: ModelsOption = "fast",
    jobs: JobsOption = None,
    json: JsonOption = None,
    csv: _CsvOption = None,
    reference: ReferenceOption = "FSRS-6",
) -> Running:
    """The same of `demo`."""
    return Running(models, None, jobs, json, csv, reference)


def refuse_rows_of_anki(flags: Flags) -> None:
    if flags.protocol.rows != "benchmark":
        raise InputError(
            f"The rows of data sets and tables are chosen already, as the benchmark does: "
            f"leave --rows {flags.protocol.rows} out."
        )


def names_of(year: str) -> Names:
    """The spelling that `--names` asks for; raises InputError."""
    from srs_eval.models.configurations import NAMES

    chosen = one_of("--names", year, NAMES)
    return next(each for each in NAMES if each == chosen)


def one_of(option: str, value: str, allowed: Sequence[str]) -> str:
    """The value, if it is allowed; raises InputError with the nearest that is."""
    if value in allowed:
        return value
    nearest = difflib.get_close_matches(value, allowed, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    raise InputError(f'{option} takes {", ".join(allowed)}, not "{value}".{hint}')


def normalised(arguments: Sequence[str], known: Sequence[str]) -> list[str]:
    """Arguments with every option in its declared spelling.

    Dashes and underscores are the same, aliases become their option, and a `--json` or
    `--csv` that nothing follows means stdout.
    """
    declared = {option.replace("_", "-"): option for option in known}
    made: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*made, argument, *rest]
        if not argument.startswith("--"):
            made.append(argument)
            continue
        name, equals, value = argument.partition("=")
        name = _ALIASES.get(f"--{name[2:].replace('-', '_')}", name)
        name = declared.get(f"--{name[2:].replace('_', '-')}", name)
        made.append(name + equals + value)
        bare = not equals and (not rest or rest[0].startswith("--"))
        if name in ("--json", "--csv") and bare:
            made.append("-")
    return made
