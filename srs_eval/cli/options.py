"""Options that several commands share, in groups, and what commands leave.

A group is a function or a dataclass: its parameters are the options, its value is what they mean.
`command` puts groups in the place of parameters.
"""

from __future__ import annotations

import functools
import inspect
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from srs_eval.data.errors import InputError, counted, harmless
from srs_eval.data.memory import FOR_READING, prepare_for_evaluating, refuse_short_memory
from srs_eval.data.paths import settle_places
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


def command(
    function: Callable[..., Any], without: Sequence[str] = (), *, evaluates: bool = True
) -> Callable[..., Any]:
    """A function as typer takes it: where a parameter is a group, with the group's options.

    Groups go by the names of parameters, also in groups (`_GROUPS`). `without` names what of groups
    this command does not have. An option of the command itself stands for the group's of its name,
    with another default. One that only reads is not refused where there is little memory.
    """

    def is_group(name: str, of: Callable[..., Any]) -> bool:
        return name in _GROUPS and name not in without and _GROUPS[name] is not of

    def options_of(group: Callable[..., Any]) -> Iterator[inspect.Parameter]:
        for name, each in inspect.signature(group).parameters.items():
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                flags = (flag for flag in _flags() if flag.name not in without)
                yield from (_option(flag, group) for flag in flags)
            elif is_group(name, group):
                yield from options_of(_GROUPS[name])
            elif name not in without:
                yield _option(each, group)

    def made(group: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        given: dict[str, Any] = {}
        for name, each in inspect.signature(group).parameters.items():
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                names = (flag.name for flag in _flags() if flag.name in values)
                given |= {flag: values[flag] for flag in names}
            elif is_group(name, group):
                given[name] = made(_GROUPS[name], values)
            elif name in values:
                given[name] = values[name]
        return group(**given)

    options = {each.name: each for each in options_of(function)}

    @functools.wraps(function)
    def with_groups(**values: Any) -> Any:
        settle_places()
        if evaluates:
            prepare_for_evaluating()
        else:
            refuse_short_memory(FOR_READING)
        return made(function, {name: _absolute(name, value) for name, value in values.items()})

    ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options.values()]
    vars(with_groups)["__signature__"] = inspect.Signature(ordered)
    with_groups.__annotations__ = {each.name: each.annotation for each in ordered}
    return with_groups


_WRITTEN = ("html", "md", "csv", "png", "json", "tex", "svg", "pdf", "out")


def _absolute(name: str, value: Any) -> Any:
    """An option's value; what is written is named once and for all.

    The code of a model file may go to another folder.
    """
    if name not in _WRITTEN or value is None or str(value) == "-":
        return value
    return type(value)(Path(value).expanduser().absolute())


@functools.cache
def _declared() -> Mapping[str, Mapping[str, Any]]:
    """What `options.toml` says: by NAME or COMMAND.NAME, the panel with what typer takes."""
    text = Path(__file__).with_name("options.toml").read_text("utf-8")
    return {
        name: {"rich_help_panel": panel} | ({"help": said} if isinstance(said, str) else said)
        for panel, options in tomllib.loads(text).items()
        for name, said in options.items()
    }


def _option(parameter: inspect.Parameter, of: Callable[..., Any]) -> inspect.Parameter:
    """A parameter of a command or a group as typer takes it, with what `options.toml` says."""
    name, declared = parameter.name, _declared()
    said = dict(declared.get(f"{of.__name__.lstrip('_')}.{name}") or declared[name])
    if choices := said.pop("choices", ""):
        said["metavar"], kind = choices, Literal.__getitem__(tuple(choices.split("|")))
    else:  # options only: the types of groups and results are heavy imports
        kind = eval(str(parameter.annotation), vars(sys.modules[of.__module__]))
    if said.pop("argument", False):
        made = typer.Argument(show_default=False, help=said["help"], metavar=said.get("metavar"))
    else:
        spelled = name if said["rich_help_panel"] == _PROTOCOL_PANEL else name.replace("_", "-")
        made = typer.Option(said.pop("option", f"--{spelled}"), **said)
    return parameter.replace(annotation=Annotated[kind, made])


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


def _flags() -> Iterator[inspect.Parameter]:
    """A parameter for each flag of the protocol and of what is fitted."""
    for name, said in _declared().items():
        usual = getattr(Protocol(), name, False if name in ("default", "S0") else None)
        if said["rich_help_panel"] == _PROTOCOL_PANEL and usual is not None:
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(name, kind, default=usual, annotation=type(usual).__name__)


def _protocol_options(rows: str = "benchmark", **flags: Any) -> Flags:
    """Which reviews are evaluated, and how models are trained; `flags` are `_flags`."""
    default, s0 = flags.pop("default"), flags.pop("S0")
    if default and s0:
        raise InputError("--default and --S0 exclude each other: leave one out.")
    protocol = Protocol(**{"rows": rows, **flags})
    return Flags(protocol, "default" if default else "S0" if s0 else "trained")


def _context_options(
    sm2_target: float = 0.9,
    weights: Path | None = None,
    device: str = "cpu",
    model_file: list[Path] | None = None,
    features: Path | None = None,
    seen_users: bool = False,
) -> Context:
    """Settings of single models."""
    from srs_eval.training.hyperparameters import Context, check_weights

    if not 0 < sm2_target < 1:
        raise InputError(f"--sm2-target must lie between 0 and 1, unlike {sm2_target:g}.")
    check_weights(weights)
    for path in model_file or ():
        _load_models(path)
    kind, colon, number = device.lower().partition(":")
    if kind not in ("cpu", "cuda", "mps", "xpu") or (colon and not number.isdecimal()):
        raise InputError(f'--device takes cpu, cuda, mps, xpu, or as in cuda:1, not "{device}".')
    features = features and features.expanduser().absolute()
    return Context(sm2_target, weights, features, seen_users, device.lower())


def _load_models(path: Path) -> None:
    """Load a model file; say so where its figures are not kept. Raises InputError."""
    from srs_eval.data.model_folder import MOST_BYTES, MOST_ENTRIES
    from srs_eval.models import load_model_file

    models = load_model_file(path)
    if not all(model.has_known_code for model in models):
        say(
            f'Results of "{path.name}" are not kept for the next run: its folder has more than '
            f"{MOST_ENTRIES:,} files and folders, or more than {MOST_BYTES // 1_000_000} MB, and "
            "any of them may have changed. Move it to a folder of its own."
        )


@dataclass(frozen=True)
class Source:
    """A learner's file and how to read it."""

    path: Path | None = None
    user: int | None = None
    deck: list[str] | None = None
    preset: list[str] | None = None
    timezone: str | None = None
    rollover: int | None = None

    @property
    def narrowed_to(self) -> dict[str, str | None]:
        """Decks and presets in words, None for all."""
        named = {"deck": self.deck, "preset": self.preset}
        return {what: ", ".join(names or ()) or None for what, names in named.items()}

    def load(self) -> ReviewLog:
        """The reviews; says what was left out of them because the file holds it twice."""
        log = self.read()
        say_repeated(log)
        return log

    def read(self) -> ReviewLog:
        """The reviews, for a command that shows the whole import summary. Raises InputError."""
        from srs_eval.anki_import import find_profiles, load_log
        from srs_eval.data.paths import anki_folders
        from srs_eval.data.rows import only_deck, only_preset

        if self.path is None:
            found = "; ".join(f'"{profile.path}"' for profile in find_profiles()[:5])
            if found:
                hint = f"Found on this machine: {found}."
            else:
                searched = ", ".join(f'"{folder}"' for folder in anki_folders(Path.home()))
                hint = (
                    f"No Anki profile was found in {searched}. To try it without a file: "
                    "srs-eval demo."
                )
            raise InputError(f"Which file? Give the path of a collection or export. {hint}")
        log = load_log(self.path, timezone=self.timezone, rollover=self.rollover, user=self.user)
        if self.deck:
            log = only_deck(log, *self.deck)
        return only_preset(log, *self.preset) if self.preset else log


def say_repeated(log: ReviewLog, of: str = "") -> None:
    """Say how many entries of a file (`of` names it) were left out because it holds them twice."""
    from srs_eval.data.readers.repeats import repeats_in_words

    if count := log.import_summary.repeated:
        say(f"{of}{repeats_in_words(count)}")


def _equivalence_option(equivalence: float | None = None) -> float:
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
    models: str = "all"
    predictions: Path | None = None
    jobs: int | None = None
    reference: str = "FSRS-6"
    no_cache: bool = False
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

    setup: Path | None = None
    json: str | None = None
    csv: str | None = None
    all_models: bool = False
    names: Names = "2025"


@dataclass(frozen=True)
class Outputs:
    """The forms of a report that are asked for: files, `-` for stdout, and folders."""

    html: str | None = None
    md: str | None = None
    csv: Path | None = None
    png: Path | None = None
    json: str | None = None
    brief: bool = False  # --short, which is also a flag of the protocol
    open: bool = False
    tex: Path | None = None
    svg: Path | None = None
    pdf: Path | None = None
    inches: str | None = None

    @property
    def _folders(self) -> dict[str, Path]:
        from srs_eval.report.files import FOLDERS

        return {form: path for form in FOLDERS if (path := getattr(self, form)) is not None}

    @property
    def _md(self) -> str | None:
        return self.md or ("-" if self.brief else None)

    def check(self, *read: Path | None) -> None:
        """Refuse what cannot be written; `read` is what the work is on. Raises InputError."""
        check_targets(read, self.html, self._md, self.json, folders=self._folders)
        self._size()
        if self.open and self.html in (None, "-"):
            raise InputError("--open shows the page that --html writes: add --html FILE.")

    def _size(self) -> list[float]:
        """Width and perhaps height of pictures. Raises InputError."""
        said = [] if self.inches is None else self.inches.lower().split("x")
        try:
            size = list(map(float, said))
        except ValueError:
            size = [0.0]
        if len(size) > 2 or not all(1 <= each <= 60 for each in size):
            raise InputError(f'--inches takes a size such as 6.5 or 6.5x4, not "{self.inches}".')
        return size

    def write(self, document: Document) -> None:
        """A report in the forms that were asked for; in the terminal's where none was."""
        from srs_eval.report.files import as_text, write_as

        md = "short" if self.brief else "md"
        for form, target in (("html", self.html), (md, self._md), ("json", self.json)):
            if target is not None:
                write(target, as_text(document, form))
        written = [
            path
            for form, folder in self._folders.items()
            for path in write_as(document, form, folder, self._size())
        ]
        if written:
            say(f"{counted(len(written), 'file')} written.")
        if self.open and self.html is not None:
            open_page(Path(self.html))
        if self == Outputs():
            console = console_for(sys.stdout)
            console.print(document_text(document, console.width))


def check_targets(
    read: Sequence[Path | None], *files: str | None, folders: Mapping[str, Path] | None = None
) -> None:
    """Refuse what cannot be written, or would cost a person a file, before the work.

    `read` is what the work is on; `folders` go by the ending of their files. Raises InputError.
    """
    from srs_eval.data.paths import check_outputs

    if files.count("-") > 1:
        raise InputError("stdout can carry one document: give the others files.")
    folders = folders or {}
    if wrong := [form for form, path in folders.items() if path == Path("-")]:
        raise InputError(f"--{wrong[0]} takes a folder: name one for the files.")
    named = [Path(each).expanduser() for each in files if each is not None and each != "-"]
    check_outputs(named, list(folders.items()), [each for each in read if each is not None])


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

    write_file(Path(target).expanduser(), text.encode("utf-8", "replace"))  # paths may be no text


_GROUPS: dict[str, Callable[..., Any]] = {
    "source": Source,
    "flags": _protocol_options,
    "context": _context_options,
    "evaluation": Evaluation,
    "running": Running,
    "equivalence": _equivalence_option,
    "outputs": Outputs,
}
