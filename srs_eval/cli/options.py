"""Define options that commands share, in groups, and write the outputs of commands.

A group is a function or a dataclass: its parameters are the options, and its result is what they
mean. `make_command` replaces the parameters that stand for groups.
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

from srs_eval.data.errors import InputError, format_count, sanitize
from srs_eval.data.memory import READING_BYTES, check_memory_limit, reserve_blas_memory
from srs_eval.data.paths import make_folders_absolute
from srs_eval.data.protocol import Protocol
from srs_eval.report.console import make_console, open_in_browser, render_document, say

if TYPE_CHECKING:
    from rich.console import Console

    from srs_eval.benchmark.setup import Ledger
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.models.configurations import Configuration, Fit, NamingYear
    from srs_eval.report.document import Document
    from srs_eval.training.hyperparameters import Context

SUCCESS = 0
PARTIAL_FAILURE = 1
BAD_INPUT = 2
INTERRUPTED = 130
_PROTOCOL_PANEL = "Protocol flags, named as in srs-benchmark"


def make_command(
    function: Callable[..., Any], without: Sequence[str] = (), *, evaluates: bool = True
) -> Callable[..., Any]:
    """Return a function for typer: parameters for groups are replaced by the groups' options.

    Groups are found by the names of parameters, also inside groups (`_GROUPS`). `without` names
    the options and groups that this command lacks. An option of the command itself replaces the
    group's option of the same name, with another default. A command that only reads (`evaluates`
    is False) is not refused where there is little memory.
    """

    def is_group(name: str, owner: Callable[..., Any]) -> bool:
        return name in _GROUPS and name not in without and _GROUPS[name] is not owner

    def list_options(group: Callable[..., Any]) -> Iterator[inspect.Parameter]:
        for name, parameter in inspect.signature(group).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                for flag in _flag_parameters():
                    if flag.name not in without:
                        yield _make_option(flag, group)
            elif is_group(name, group):
                yield from list_options(_GROUPS[name])
            elif name not in without:
                yield _make_option(parameter, group)

    def call_group(group: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        arguments: dict[str, Any] = {}
        for name, parameter in inspect.signature(group).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                for flag in _flag_parameters():
                    if flag.name in values:
                        arguments[flag.name] = values[flag.name]
            elif is_group(name, group):
                arguments[name] = call_group(_GROUPS[name], values)
            elif name in values:
                arguments[name] = values[name]
        return group(**arguments)

    options = {option.name: option for option in list_options(function)}

    @functools.wraps(function)
    def with_groups(**values: Any) -> Any:
        make_folders_absolute()
        if evaluates:
            reserve_blas_memory()
        else:
            check_memory_limit(READING_BYTES)
        values = {name: _make_absolute(name, value) for name, value in values.items()}
        return call_group(function, values)

    parameters = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options.values()
    ]
    vars(with_groups)["__signature__"] = inspect.Signature(parameters)
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups


_OUTPUT_OPTIONS = ("html", "md", "csv", "png", "json", "tex", "svg", "pdf", "out")


def _make_absolute(name: str, value: Any) -> Any:
    """Return an option's value, as an absolute path if it is an output.

    The code of a model file may change the working folder.
    """
    if name not in _OUTPUT_OPTIONS or value is None or str(value) == "-":
        return value
    return type(value)(Path(value).expanduser().absolute())


@functools.cache
def _load_declarations() -> Mapping[str, Mapping[str, Any]]:
    """Load `options.toml`: by NAME or COMMAND.NAME, the panel and the arguments for typer."""
    text = Path(__file__).with_name("options.toml").read_text("utf-8")
    declarations: dict[str, dict[str, Any]] = {}
    for panel, options in tomllib.loads(text).items():
        for name, declared in options.items():
            settings = {"help": declared} if isinstance(declared, str) else declared
            declarations[name] = {"rich_help_panel": panel, **settings}
    return declarations


def _make_option(parameter: inspect.Parameter, owner: Callable[..., Any]) -> inspect.Parameter:
    """Return a parameter of `owner`, a command or a group, as `options.toml` declares it."""
    name = parameter.name
    declarations = _load_declarations()
    owner_name = owner.__name__.lstrip("_")
    settings = dict(declarations.get(f"{owner_name}.{name}") or declarations[name])
    choices = settings.pop("choices", "")
    if choices:
        settings["metavar"] = choices
        kind = Literal.__getitem__(tuple(choices.split("|")))
    else:  # options only: types of groups and results are heavy imports
        kind = eval(str(parameter.annotation), vars(sys.modules[owner.__module__]))
    is_argument = settings.pop("argument", False)
    if is_argument:
        option = typer.Argument(
            show_default=False, help=settings["help"], metavar=settings.get("metavar")
        )
    else:
        is_flag = settings["rich_help_panel"] == _PROTOCOL_PANEL
        spelling = name if is_flag else name.replace("_", "-")
        option = typer.Option(settings.pop("option", f"--{spelling}"), **settings)
    return parameter.replace(annotation=Annotated[kind, option])


@dataclass(frozen=True)
class ProtocolFlags:
    """Protocol and fit from the command line, with which names of models are resolved."""

    protocol: Protocol
    fit: Fit
    ledger: Ledger | None = None  # of trainings that differ from the published ones

    def resolve(self, names: str) -> list[Configuration]:
        """Return the named configurations; with a ledger, `NAME` and `NAME-tuned` are tuned.

        Raises InputError.
        """
        from srs_eval.models.configurations import remove_tuned, resolve_configurations

        if self.ledger is None:
            return resolve_configurations(names, self.protocol, self.fit)
        requested = [name.strip() for name in names.split(",")]
        for name in requested:
            base = remove_tuned(name)
            if base != name:
                published = resolve_configurations(base, self.protocol, self.fit)
                _require_tuned(self.ledger, published, f"{base} is not")
        configurations = resolve_configurations(
            map(remove_tuned, requested), self.protocol, self.fit
        )
        return self.ledger.apply_to(configurations)

    def resolve_reference(self, name: str) -> Configuration:
        """Return the configuration of `--reference`, as published unless it is `NAME-tuned`.

        Raises InputError where the name means none or several.
        """
        from srs_eval.models.configurations import remove_tuned

        is_tuned = remove_tuned(name) != name
        flags = self if is_tuned else replace(self, ledger=None)
        configurations = flags.resolve(name)
        if len(configurations) != 1:
            raise InputError(f'--reference takes one model; "{name}" is {len(configurations)}.')
        return configurations[0]

    def with_ledger(self, ledger: Path | None, models: str) -> ProtocolFlags:
        """Return these flags with the trainings of a ledger, if there is one.

        Raises InputError where none of the models is in the ledger.
        """
        if ledger is None:
            return self
        from srs_eval.benchmark.setup import read_ledger

        trainings = read_ledger(ledger)
        flags = replace(self, ledger=trainings)
        _require_tuned(trainings, flags.resolve(models))
        return flags


def _require_tuned(
    ledger: Ledger,
    configurations: Sequence[Configuration],
    subject: str = "No model of --models is",
) -> None:
    """Raise InputError if a ledger names none of the models; `subject` begins the message."""
    for configuration in configurations:
        if configuration.name in ledger.entries or configuration.ledger:
            return
    entries = ", ".join(ledger.entries) or "nothing"
    raise InputError(f'{subject} in "{ledger.path}", which has {entries}.')


def _flag_parameters() -> Iterator[inspect.Parameter]:
    """Yield a parameter for each flag of the protocol and of the fit."""
    for name, settings in _load_declarations().items():
        default = getattr(Protocol(), name, False if name in ("default", "S0") else None)
        if settings["rich_help_panel"] == _PROTOCOL_PANEL and default is not None:
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(name, kind, default=default, annotation=type(default).__name__)


def _protocol_options(rows: str = "benchmark", **flags: Any) -> ProtocolFlags:
    """Return the flags: which reviews are evaluated, and how models are trained.

    `flags` are those of `_flag_parameters`.
    """
    uses_defaults = flags.pop("default")
    fits_s0 = flags.pop("S0")
    if uses_defaults and fits_s0:
        raise InputError("--default and --S0 exclude each other: leave one out.")
    protocol = Protocol(**{"rows": rows, **flags})
    if uses_defaults:
        return ProtocolFlags(protocol, "default")
    return ProtocolFlags(protocol, "S0" if fits_s0 else "trained")


def _context_options(
    sm2_target: float = 0.9,
    weights: Path | None = None,
    device: str = "cpu",
    model_file: list[Path] | None = None,
    features: Path | None = None,
    seen_users: bool = False,
) -> Context:
    """Return the settings of individual models."""
    from srs_eval.training.hyperparameters import Context, check_weights

    if not 0 < sm2_target < 1:
        raise InputError(f"--sm2-target must lie between 0 and 1, unlike {sm2_target:g}.")
    check_weights(weights)
    for path in model_file or ():
        _load_models(path)
    kind, colon, number = device.lower().partition(":")
    if kind not in ("cpu", "cuda", "mps", "xpu") or (colon and not number.isdecimal()):
        raise InputError(f'--device takes cpu, cuda, mps, xpu, or as in cuda:1, not "{device}".')
    if features is not None:
        features = features.expanduser().absolute()
    return Context(sm2_target, weights, features, seen_users, device.lower())


def _load_models(path: Path) -> None:
    """Load a model file, and print a note if its results are not kept.

    Raises InputError.
    """
    from srs_eval.data.model_folder import MAX_BYTES, MAX_ENTRIES
    from srs_eval.models import load_model_file

    models = load_model_file(path)
    if not all(model.has_known_code for model in models):
        say(
            f'Results of "{path.name}" are not kept for the next run: its folder has more than '
            f"{MAX_ENTRIES:,} files and folders, or more than {MAX_BYTES // 1_000_000} MB, and "
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
        """Return decks and presets in words, None for all."""
        return {
            "deck": ", ".join(self.deck or ()) or None,
            "preset": ", ".join(self.preset or ()) or None,
        }

    def load(self) -> ReviewLog:
        """Load the reviews, and report what was left out because the file holds it twice."""
        log = self.read()
        report_repeated_entries(log)
        return log

    def read(self) -> ReviewLog:
        """Load the reviews, for a command that shows the whole import summary.

        Raises InputError.
        """
        from srs_eval.anki_import import find_profiles, load_log
        from srs_eval.data.paths import anki_folders
        from srs_eval.data.rows import select_decks, select_presets

        if self.path is None:
            profiles = "; ".join(f'"{profile.path}"' for profile in find_profiles()[:5])
            if profiles:
                hint = f"Found on this machine: {profiles}."
            else:
                folders = ", ".join(f'"{folder}"' for folder in anki_folders(Path.home()))
                hint = (
                    f"No Anki profile was found in {folders}. To try it without a file: "
                    "srs-eval demo."
                )
            raise InputError(f"Which file? Give the path of a collection or export. {hint}")
        log = load_log(self.path, timezone=self.timezone, rollover=self.rollover, user=self.user)
        if self.deck:
            log = select_decks(log, *self.deck)
        if self.preset:
            log = select_presets(log, *self.preset)
        return log


def report_repeated_entries(log: ReviewLog, file_label: str = "") -> None:
    """Report how many entries of a file were left out because the file holds them twice.

    `file_label` names the file.
    """
    from srs_eval.data.readers.repeats import describe_repeats

    count = log.import_summary.repeated
    if count:
        say(f"{file_label}{describe_repeats(count)}")


def _equivalence_option(equivalence: float | None = None) -> float:
    """Return the largest difference in log loss that does not matter, as given or configured.

    Raises InputError.
    """
    from srs_eval.tui.config import load_config

    if equivalence is None:
        return load_config().equivalence
    if not 0 <= equivalence < 1:
        raise InputError(f"--equivalence takes a log loss from 0 to 1, not {equivalence:g}.")
    return equivalence


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Options for the evaluation of models on one collection."""

    source: Source = Source()
    flags: ProtocolFlags
    context: Context
    models: str = "all"
    predictions: Path | None = None
    jobs: int | None = None
    reference: str = "FSRS-6"
    no_cache: bool = False
    equivalence: float

    def __post_init__(self) -> None:
        from srs_eval.models.rwkv import add_rwkv_models

        object.__setattr__(self, "models", add_rwkv_models(self.models, self.context))

    def load(self) -> ReviewLog:
        """Load the reviews, together with the predictions of a file if there is one."""
        from srs_eval.engine.shared import add_predictions_file

        return add_predictions_file(self.source.load(), self.predictions)


@dataclass(frozen=True, kw_only=True)
class Running(EvaluationOptions):
    """Options for the ranking of models on one collection and for the files written."""

    setup: Path | None = None
    json: str | None = None
    csv: str | None = None
    all_models: bool = False
    names: NamingYear = "2025"


@dataclass(frozen=True)
class Outputs:
    """The requested forms of a report: files, `-` for stdout, and folders."""

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
    def _folder_targets(self) -> dict[str, Path]:
        from srs_eval.report.files import FOLDER_FORMS

        targets = {form: getattr(self, form) for form in FOLDER_FORMS}
        return {form: folder for form, folder in targets.items() if folder is not None}

    @property
    def _markdown_target(self) -> str | None:
        if self.md:
            return self.md
        return "-" if self.brief else None

    def check(self, *inputs: Path | None) -> None:
        """Refuse outputs that cannot be written; `inputs` are the files and folders read.

        Raises InputError.
        """
        check_targets(
            inputs, self.html, self._markdown_target, self.json, folders=self._folder_targets
        )
        self._picture_size()
        if self.open and self.html in (None, "-"):
            raise InputError("--open shows the page that --html writes: add --html FILE.")

    def _picture_size(self) -> list[float]:
        """Return the width and, if given, the height of pictures in inches.

        Raises InputError.
        """
        lengths = [] if self.inches is None else self.inches.lower().split("x")
        try:
            size = list(map(float, lengths))
        except ValueError:
            size = [0.0]
        if len(size) > 2 or not all(1 <= length <= 60 for length in size):
            raise InputError(f'--inches takes a size such as 6.5 or 6.5x4, not "{self.inches}".')
        return size

    def write(self, document: Document) -> None:
        """Write a report in the requested forms, or to the terminal if none is requested."""
        from srs_eval.report.files import render_as, write_document

        targets = {
            "html": self.html,
            "short" if self.brief else "md": self._markdown_target,
            "json": self.json,
        }
        for form, target in targets.items():
            if target is not None:
                write_output(target, render_as(document, form))
        files: list[Path] = []
        for form, folder in self._folder_targets.items():
            files += write_document(document, form, folder, self._picture_size())
        if files:
            say(f"{format_count(len(files), 'file')} written.")
        if self.open and self.html is not None:
            open_in_browser(Path(self.html))
        if self == Outputs():
            console = make_console(sys.stdout)
            console.print(render_document(document, console.width))


def check_targets(
    inputs: Sequence[Path | None], *files: str | None, folders: Mapping[str, Path] | None = None
) -> None:
    """Refuse, before the work, outputs that cannot be written or would cost users a file.

    `inputs` are the files and folders read; `folders` maps the ending of files to their folder.
    Raises InputError.
    """
    from srs_eval.data.paths import check_outputs

    if files.count("-") > 1:
        raise InputError("stdout can carry one document: give the others files.")
    folders = folders or {}
    for form, folder in folders.items():
        if folder == Path("-"):
            raise InputError(f"--{form} takes a folder: name one for the files.")
    file_paths = [Path(file).expanduser() for file in files if file is not None and file != "-"]
    input_paths = [path for path in inputs if path is not None]
    check_outputs(file_paths, list(folders.items()), input_paths)


def write_json_and_pick_console(target: str | None, document: Any) -> Console | None:
    """Write JSON if requested; return the console for the rest, None if stdout has the JSON."""
    from srs_eval.report.export import to_json

    if target is not None:
        write_output(target, to_json(document))
    return None if target == "-" else make_console(sys.stdout)


def write_output(target: str, text: str) -> None:
    """Write text to a file, in one step, or to stdout for `-`; UTF-8 in any locale."""
    if target == "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")
        sys.stdout.write(sanitize(text))
        sys.stdout.flush()
        return
    from srs_eval.data.paths import write_file

    write_file(Path(target).expanduser(), text.encode("utf-8", "replace"))  # not all paths are text


_GROUPS: dict[str, Callable[..., Any]] = {
    "source": Source,
    "flags": _protocol_options,
    "context": _context_options,
    "evaluation": EvaluationOptions,
    "running": Running,
    "equivalence": _equivalence_option,
    "outputs": Outputs,
}
