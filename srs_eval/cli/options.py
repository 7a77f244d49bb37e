"""Options that several commands share, in groups, and what commands leave.

A group is a function or a dataclass: its parameters are the options, its value is what they mean.
`command` puts groups in the place of parameters.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from srs_eval.data.errors import InputError, counted, harmless
from srs_eval.data.protocol import Protocol
from srs_eval.report.console import console_for, document_text, open_page, say

if TYPE_CHECKING:
    from rich.console import Console

    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models.configurations import Configuration, Fit, Names
    from srs_eval.report.document import Document
    from srs_eval.training.hyperparameters import Context

FINE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_PROTOCOL_PANEL = "Protocol flags, named as in srs-benchmark"
_ROWS_PANEL = "Which reviews count"
_RUN_PANEL = "How it runs"
_OUTPUT_PANEL = "Output"


def command(
    function: Callable[..., Any], without: Sequence[str] = (), **others: Callable[..., Any]
) -> Callable[..., Any]:
    """A function as typer takes it: where a parameter is a group, with the group's options.

    Groups go by the names of parameters, also in groups: those of `_GROUPS`, and `others`.
    `without` names what of groups this command does not have. An option of the command itself
    stands for the group's of its name, with another default.
    """
    groups = {**_GROUPS, **others}

    def is_group(name: str, of: Callable[..., Any]) -> bool:
        return name in groups and name not in without and groups[name] is not of

    def options_of(group: Callable[..., Any]) -> Iterator[inspect.Parameter]:
        for name, each in inspect.signature(group).parameters.items():
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                yield from _flags()
            elif is_group(name, group):
                yield from options_of(groups[name])
            elif name not in without:
                yield _evaluated(each, group)

    def made(group: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        given: dict[str, Any] = {}
        for name, each in inspect.signature(group).parameters.items():
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                given |= {flag: values[flag] for flag in _FLAGS}
            elif is_group(name, group):
                given[name] = made(groups[name], values)
            elif name in values:
                given[name] = values[name]
        return group(**given)

    options = {each.name: each for each in options_of(function)}

    @functools.wraps(function)
    def with_groups(**values: Any) -> Any:
        return made(function, values)

    ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options.values()]
    with_groups.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {each.name: each.annotation for each in ordered}
    return with_groups


def _evaluated(parameter: inspect.Parameter, of: Callable[..., Any]) -> inspect.Parameter:
    # Options only: the types of groups and results are heavy imports.
    annotation = eval(parameter.annotation, vars(sys.modules[of.__module__]))
    return parameter.replace(annotation=annotation)


def option(default: Any, meaning: str, *names: str, panel: str = _RUN_PANEL, **more: Any) -> Any:
    """An option of typer, with what nearly all of ours have.

    The default of a parameter or, with `...` in place of a default, what annotates one.
    """
    given = names if default is ... else (default, *names)
    return typer.Option(*given, help=meaning, rich_help_panel=panel, **more)


def rows_option(default: Any, meaning: str, *names: str, **more: Any) -> Any:
    return option(default, meaning, *names, panel=_ROWS_PANEL, **more)


def output_option(default: Any, meaning: str, *names: str, **more: Any) -> Any:
    return option(default, meaning, *names, panel=_OUTPUT_PANEL, **more)


_switch = functools.partial(output_option, ...)


def _to_file(what: str) -> Any:
    return output_option(..., f"{what} to a file, or to stdout with -.", metavar="FILE|-")


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
    ledger: Ledger, configurations: Sequence[Configuration], said: str = "No model of --models is"
) -> None:
    """Raises InputError where a ledger names none of the models; `said` is of whom it is said."""
    if not any(each.name in ledger.entries or each.ledger for each in configurations):
        there = ", ".join(ledger.entries) or "nothing"
        raise InputError(f'{said} in "{ledger.path}", which has {there}.')


RowsOption = Annotated[
    str,
    rows_option(
        ...,
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
    "train_equals_test": "Train on the reviews that are evaluated.",
    "no_test_same_day": "With --secs: same-day reviews are not evaluated.",
    "no_train_same_day": "With --secs: not trained on same-day reviews.",
    "equalize_test_with_non_secs": "With --secs: evaluate the reviews evaluated without.",
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
        made = option(..., meaning, f"--{name}", panel=_PROTOCOL_PANEL, metavar=metavar)
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=usual,
            annotation=Annotated[type(usual), made],
        )


def _protocol_options(rows: RowsOption = "benchmark", **flags: Any) -> Flags:
    """Which reviews are evaluated, and how models are trained; `flags` are `_FLAGS`."""
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
        ...,
        "A Python file with models of your own; may be repeated. Its code is run.",
        "--model-file",
        metavar="FILE",
    ),
]


WeightsOption = Annotated[
    Path | None, option(..., "Folder of weights, or RWKV's file.", metavar="DIR|FILE")
]


def _context_options(
    sm2_target: float = option(
        0.9,
        "Retention that SM-2's intervals are taken to aim at.",
        "--sm2-target",
        panel=_PROTOCOL_PANEL,
    ),
    weights: WeightsOption = None,
    device: str = option("cpu", "Where LSTM runs: cpu, cuda, mps, xpu."),
    model_file: ModelFileOption = None,
) -> Context:
    """Settings of single models."""
    from srs_eval.models import load_model_file
    from srs_eval.training.hyperparameters import Context, check_weights

    if not 0 < sm2_target < 1:
        raise InputError(f"--sm2-target must lie between 0 and 1, unlike {sm2_target:g}.")
    check_weights(weights)
    for path in model_file or ():
        load_model_file(path)
    kind, colon, number = device.lower().partition(":")
    one_of("--device", kind, ("cpu", "cuda", "mps", "xpu"))
    if colon and not number.isdecimal():
        raise InputError(f'--device takes a number after the colon, as in cuda:1, not "{device}".')
    return Context(sm2_target=sm2_target, weights=weights, device=device.lower())


@dataclass(frozen=True)
class Source:
    """A learner's file and how to read it."""

    path: Annotated[
        Path | None,
        typer.Argument(
            help="Collection, package, research export, CSV, or a data-set folder (with --user).",
            show_default=False,
        ),
    ] = None
    user: Annotated[int | None, rows_option(..., "Which user of a data-set folder.")] = None
    deck: Annotated[
        list[str] | None, rows_option(..., "Only this deck and those below it; may be repeated.")
    ] = None
    preset: Annotated[
        list[str] | None, rows_option(..., "Only decks with this preset; may be repeated.")
    ] = None
    timezone: Annotated[
        str | None,
        rows_option(..., "Where days begin: a zone such as Asia/Tokyo, UTC-7, or local."),
    ] = None
    rollover: Annotated[int | None, rows_option(..., "Hour at which days begin, 0-23.")] = None

    @property
    def narrowed_to(self) -> dict[str, str | None]:
        """Decks and presets in words, None for all."""
        named = {"deck": self.deck, "preset": self.preset}
        return {what: ", ".join(names or ()) or None for what, names in named.items()}

    def load(self) -> ReviewLog:
        from srs_eval.anki_import import find_profiles, load_log
        from srs_eval.data.rows import only_deck, only_preset

        if self.path is None:
            found = "; ".join(f'"{profile.path}"' for profile in find_profiles()[:5])
            hint = f" Found on this machine: {found}." if found else ""
            raise InputError(f"Which file? Give the path of a collection or export.{hint}")
        log = load_log(self.path, timezone=self.timezone, rollover=self.rollover, user=self.user)
        if self.deck:
            log = only_deck(log, *self.deck)
        return only_preset(log, *self.preset) if self.preset else log


ModelsOption = Annotated[
    str,
    option(
        ...,
        "Names, aliases and groups, separated by commas; `srs-eval models` lists them.",
        metavar="A,B|fast|all",
    ),
]
SetupOption = Annotated[
    Path | None,
    option(..., "Train what an audit's ledger names as it says, as NAME-tuned.", metavar="LEDGER"),
]
PredictionsOption = Annotated[
    Path | None,
    option(
        ...,
        "Predictions of your own to compare: CSV or parquet with review_id (or card_id and "
        "time_ms), p, model.",
        metavar="FILE",
    ),
]
JobsOption = Annotated[int | None, option(..., "Worker processes, one a core if left out.", min=0)]
JsonOption = Annotated[str | None, _to_file("Write JSON")]
NamesOption = Annotated[
    str,
    output_option(
        ...,
        "How files spell configurations: as srs-benchmark did in 2025, or since 2026.",
        metavar="2025|2026",
    ),
]


def _equivalence_option(
    equivalence: float | None = option(
        None, "Differences in log loss within it do not matter; if left out as in config.toml."
    ),
) -> float:
    """What does not matter; raises InputError."""
    from srs_eval.tui.config import load_config

    if equivalence is None:
        return load_config().equivalence
    if not 0 <= equivalence < 1:
        raise InputError(f"--equivalence takes a log loss from 0 to 1, not {equivalence:g}.")
    return equivalence


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How models are evaluated on one collection."""

    source: Source = Source()
    flags: Flags
    context: Context
    models: ModelsOption = "all"
    predictions: PredictionsOption = None
    jobs: JobsOption = None
    reference: Annotated[
        str, option(..., "The model that others are held against besides the best.", metavar="NAME")
    ] = "FSRS-6"
    no_cache: Annotated[
        bool, option(..., "Neither use nor keep earlier results.", "--no-cache")
    ] = False
    equivalence: float

    def __post_init__(self) -> None:
        from srs_eval.models.rwkv import with_rwkv

        object.__setattr__(self, "models", with_rwkv(self.models, self.context))

    def load(self) -> ReviewLog:
        """The reviews, with predictions of a file beside them."""
        from srs_eval.engine.shared import with_file

        return with_file(self.source.load(), self.predictions)


@dataclass(frozen=True, kw_only=True)
class Running(Evaluation):
    """How a ranking of one collection is made, and what is written of it."""

    setup: SetupOption = None
    json: JsonOption = None
    csv: Annotated[str | None, _to_file("Write CSV")] = None
    all_models: Annotated[bool, _switch("Print all models, not only ten.", "--all-models")] = False
    names: NamesOption = "2025"


def names_of(year: str) -> Names:
    """The spelling that `--names` asks for; raises InputError."""
    from srs_eval.models.configurations import NAMES

    return cast("Names", one_of("--names", year, NAMES))


def one_of(option: str, value: str, allowed: Sequence[str]) -> str:
    """The value, if it is allowed; raises InputError with the nearest that is."""
    if value in allowed:
        return value
    nearest = difflib.get_close_matches(value, allowed, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    raise InputError(f'{option} takes {", ".join(allowed)}, not "{value}".{hint}')


@dataclass(frozen=True)
class Outputs:
    """The forms of a report that are asked for: files, `-` for stdout, and folders."""

    html: Annotated[str | None, _to_file("Write a page that opens offline")] = None
    md: Annotated[str | None, _to_file("Write Markdown")] = None
    csv: Annotated[
        Path | None, output_option(..., "Write every table to a folder.", metavar="DIR")
    ] = None
    png: Annotated[
        Path | None, output_option(..., "Write every picture to a folder.", metavar="DIR")
    ] = None
    json: JsonOption = None
    short: Annotated[bool, _switch("Markdown of a few lines, to post in a forum.", "--short")] = (
        False
    )
    open: Annotated[bool, _switch("Open the page in the browser.", "--open")] = False

    @property
    def _md(self) -> str | None:
        return self.md or ("-" if self.short else None)

    def check(self, *read: Path | None) -> None:
        """Refuse what cannot be written; `read` is what the work is on. Raises InputError."""
        check_targets(read, self.html, self._md, self.json, csv=self.csv, png=self.png)
        if self.open and self.html in (None, "-"):
            raise InputError("--open shows the page that --html writes: add --html FILE.")

    def write(self, document: Document) -> None:
        """A report in the forms that were asked for; in the terminal's where none was."""
        from srs_eval.report.files import as_text, write_as

        md = "short" if self.short else "md"
        for form, target in (("html", self.html), (md, self._md), ("json", self.json)):
            if target is not None:
                write(target, as_text(document, form))
        written: list[Path] = []
        for form, folder in (("csv", self.csv), ("png", self.png)):
            if folder is not None:
                written += write_as(document, form, folder)
        if written:
            say(f"{counted(len(written), 'file')} written.")
        if self.open and self.html is not None:
            open_page(Path(self.html))
        if self == Outputs():
            console = console_for(sys.stdout)
            console.print(document_text(document, console.width))


def check_targets(
    read: Sequence[Path | None],
    *files: str | None,
    csv: Path | None = None,
    png: Path | None = None,
) -> None:
    """Refuse what cannot be written, or would cost a person a file, before the work.

    `read` is what the work is on. Raises InputError.
    """
    from srs_eval.data.paths import check_outputs

    if files.count("-") > 1:
        raise InputError("stdout can carry one document: give the others files.")
    folders = [(ending, path) for ending, path in (("csv", csv), ("png", png)) if path is not None]
    if Path("-") in (csv, png):
        raise InputError("--csv and --png take a folder: name one for the files.")
    named = [Path(each).expanduser() for each in files if each is not None and each != "-"]
    check_outputs(named, folders, [each for each in read if each is not None])


def json_and_console(target: str | None, document: Any) -> Console | None:
    """Write JSON if it is asked for; where the rest is shown, None where stdout has the JSON."""
    from srs_eval.report.export import to_json

    if target is not None:
        write(target, to_json(document))
    return None if target == "-" else console_for(sys.stdout)


def write(target: str, text: str) -> None:
    """To a file, in one step, or to stdout for `-`; UTF-8 in any locale."""
    if target == "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")
        sys.stdout.write(harmless(text))
        sys.stdout.flush()
        return
    from srs_eval.data.paths import write_file

    content = text.encode("utf-8", "replace")  # a path need not be text
    write_file(Path(target).expanduser(), content)


_GROUPS: dict[str, Callable[..., Any]] = {
    "source": Source,
    "flags": _protocol_options,
    "context": _context_options,
    "evaluation": Evaluation,
    "running": Running,
    "equivalence": _equivalence_option,
    "outputs": Outputs,
}
