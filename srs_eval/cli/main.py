"""Run the command line. stdout carries data only; progress and messages go to stderr.

Exit codes: 0 success, 1 some models or users failed (the other results exist), 2 bad input or
usage, 130 interrupted, 129 hung up, 143 terminated. Heavy modules are imported when a command
needs them, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import difflib
import os
import re
import signal
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from srs_eval.cli import doctor, learner, options, research
from srs_eval.cli.exit_codes import BAD_INPUT, INTERRUPTED, PARTIAL_FAILURE, SUCCESS
from srs_eval.cli.outputs import (
    Outputs,
    check_targets,
    make_absolute,
    write_json_and_pick_console,
    write_output,
)
from srs_eval.cli.settings import build_context, prepare_to_evaluate, prepare_to_read
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.memory import memory_errors, reserve_blas_memory
from srs_eval.report.console import (
    get_width,
    is_plain,
    render_model_details,
    render_models_table,
    request_plain_text,
    say,
    show,
)

if TYPE_CHECKING:
    from typer.core import TyperGroup

    from srs_eval.engine.model_mistakes import Mistake
    from srs_eval.models import Model

_PLAIN = "--plain"
_OPTIONS_BEFORE_COMMANDS = (
    "--help",
    "-h",
    "--version",
    "--install-completion",
    "--show-completion",
)
_OPTION_ALIASES = {
    "binary": "two_buttons",
    "dry": "default",
    "dry_run": "default",
    "pretrain": "S0",
    "s0": "S0",
}


def _normalize_option_name(name: str) -> str:
    """Return an option's name with underscores for dashes and with aliases resolved."""
    name = name.replace("-", "_")
    return _OPTION_ALIASES.get(name, name)


app = typer.Typer(
    name="srs-eval",
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": _normalize_option_name,
    },
    help="Measure how well memory models predict your own forgetting.\n\n"
    "`srs-eval [PATH]` opens the terminal app, and takes all options of `srs-eval run`. Without a "
    "terminal, or with --plain, --json, --csv, --setup or an option that changes how reviews are "
    "split, it runs `srs-eval run` instead.",
)


def report(
    *,
    html: options.Html = None,
    md: options.Md = None,
    csv: options.Csv = None,
    png: options.Png = None,
    json: options.Json = None,
    open: options.Open = False,
    tex: options.Tex = None,
    svg: options.Svg = None,
    pdf: options.Pdf = None,
    inches: options.Inches = None,
    folders: options.ReportFolders,
    baseline: options.Baseline = None,
    models: options.ReportModels = None,
    users: options.Users = None,
    means: options.Means = "common",
    reference: options.ReportReference = None,
    matrix: options.Matrix = None,
    metric: options.Metric = "LogLoss",
    columns: options.Columns = "LogLoss,RMSE(bins),AUC",
    average: options.Average = "user",
    digits: options.Digits = 0,
) -> int:
    """Show tables, comparisons and pictures of the results of many users."""
    from srs_eval.report.dataset import build_results_report

    prepare_to_evaluate()
    outputs = Outputs(
        html=make_absolute(html),
        md=make_absolute(md),
        csv=make_absolute(csv),
        png=make_absolute(png),
        json=make_absolute(json),
        open=open,
        tex=make_absolute(tex),
        svg=make_absolute(svg),
        pdf=make_absolute(pdf),
        inches=inches,
    )
    if users in ("common", "each"):  # --means was once called --users
        means = "each" if users == "each" else "common"
        users = None
    outputs.check(*folders, baseline)
    document = build_results_report(
        folders,
        metric=metric,
        columns=columns.split(","),
        means=means,
        average=average.split(","),
        baseline=baseline,
        models=models,
        users=users,
        reference=reference,
        matrix=matrix,
        digits=digits,
    )
    outputs.write(document)
    return SUCCESS


app.command(
    name="open",
    hidden=True,
    help="Open the terminal app. Without a terminal, or with --plain, --json, --csv, --setup "
    "or an option that changes how reviews are split, run `srs-eval run` instead.",
)(learner.run)
for _command in (
    learner.run,
    research.batch,
    learner.export,
    report,
    research.audit,
    learner.inspect,
    learner.compare,
    learner.workload,
    learner.state,
    learner.schedulability,
    doctor.doctor,
):
    app.command()(_command)
app.add_typer(research.results_app, name="results")
app.add_typer(research.dataset_app, name="dataset")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; users' mistakes never cause a traceback."""
    received_signals: list[int] = []
    try:
        with _interrupt_on_signals(received_signals):
            code = _run_to_exit_code(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = INTERRUPTED
    if received_signals:
        return 128 + received_signals[0]
    return code


def _run_to_exit_code(arguments: list[str]) -> int:
    """Run a command line and turn its result, or its exception, into an exit code."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # for names that the terminal cannot show
    try:
        with memory_errors():
            code = _invoke(arguments)
        sys.stdout.flush()
        return code if isinstance(code, int) else SUCCESS
    except InputError as error:
        return _report_bad_input(str(error))
    except NotEnoughData as error:
        return _report_bad_input(f"Too little data: {error}.")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        # After a closed pipe, typer and Rich raise SystemExit, and the first error is its context.
        if BrokenPipeError not in (type(end), type(end.__context__)):
            raise
        # The reader of the pipe has what it wanted. Python must not flush into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return SUCCESS
    except OSError as error:
        path = f' ("{error.filename}")' if error.filename else ""
        return _report_bad_input(f"{error.strerror or error}{path}.")
    except Exception as error:
        # Wrong usage, for whose errors typer has no public type. Other errors are mistakes of ours.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        sentence = str(format_message()).rstrip(".").replace("Value error, ", "")
        start, one_of, _ = sentence.partition(" is not one of ")
        choices = getattr(getattr(error, "param", None), "metavar", None)
        if one_of and choices:  # the message lists them differently from --help
            sentence = f"{start}{one_of}{', '.join(map(repr, choices.split('|')))}"
        context = getattr(error, "ctx", None)
        sentence = _spell_options(sentence, context, arguments)
        return _report_bad_input(f"{sentence}. {_suggest_help(context)}")


def _spell_options(sentence: str, context: Any, arguments: Sequence[str]) -> str:
    """Return the sentence with options spelled as they were typed, or else as --help has them."""
    spellings = {}
    for parameter in context.command.params if context else ():
        for option in (*parameter.opts, *parameter.secondary_opts):
            spellings[_normalize_option(option)] = option
    for argument in arguments:
        option = argument.partition("=")[0]
        spellings[_normalize_option(option)] = option

    def spell(match: re.Match[str]) -> str:
        return spellings.get(_normalize_option(match[0]), match[0])

    return re.sub(r"--\w[\w-]*", spell, sentence)


def _normalize_option(option: str) -> str:
    return f"--{_normalize_option_name(option.removeprefix('--'))}"


def _suggest_help(context: Any) -> str:
    """Return a sentence on where the options of a wrongly used command are listed."""
    if context is None or context.parent is None or context.info_name == "open":
        return "`srs-eval --help` lists commands, and `srs-eval run --help` lists options."
    return f"`{context.command_path} --help` lists its options."


def _invoke(arguments: list[str]) -> Any:
    """Run the command of a command line and return its result."""
    if _PLAIN in arguments:
        arguments = [argument for argument in arguments if argument != _PLAIN]
        request_plain_text()
    group = _make_command_group(is_plain=is_plain(sys.stdout))
    words = _insert_command(arguments, group)
    if words[:2] == ["models", "check"] and {"-h", "--help"} & set(words):
        print(_CHECK_HELP, end="")
        return SUCCESS
    defaults = _config_defaults(words[0])
    return group(args=words, prog_name="srs-eval", standalone_mode=False, default_map=defaults)


def _make_command_group(*, is_plain: bool) -> TyperGroup:
    """Make the group of all commands; `is_plain` help has no boxes, and whole sentences."""
    app.rich_markup_mode = None if is_plain else "rich"
    group = cast("TyperGroup", typer.main.get_command(app))  # with the options of completion
    if is_plain:
        for command in group.commands.values():
            command.short_help = (command.help or "").partition("\n")[0]
    return group


def _config_defaults(command: str) -> dict[str, dict[str, Any]]:
    """Return the option defaults that config.toml sets for a command."""
    if command not in ("open", "run", "export"):
        return {}
    from srs_eval.tui.config import load_config

    config = load_config()
    return {command: {"rows": config.rows, "models": config.models}}


def _replace_closed_streams() -> None:
    """Open the null device for streams that the caller has closed (`>&-`; None in Python)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - stays open until the program ends
            os.set_inheritable(stream.fileno(), True)  # worker processes get the same streams
            setattr(sys, name, stream)


def _insert_command(raw_arguments: list[str], group: TyperGroup) -> list[str]:
    """Return the arguments with the command `open` in front, unless they name a command."""
    arguments = _insert_stdout(raw_arguments)
    first = arguments[0] if arguments else ""
    if first in group.commands or first in _OPTIONS_BEFORE_COMMANDS:
        return arguments
    _refuse_misspelled_command(first, list(group.commands))
    return ["open", *arguments]


def _refuse_misspelled_command(word: str, commands: Sequence[str]) -> None:
    """Raise InputError if the first word is no file, but nearly the name of a command."""
    if word.startswith("-") or Path(word).suffix or Path(word).exists():
        return
    visible = [command for command in commands if command != "open"]
    nearest = difflib.get_close_matches(word.lower(), visible, n=2, cutoff=0.6)
    if nearest:
        raise InputError(
            f'There is no command and no file "{word}". Did you mean {" or ".join(nearest)}?'
        )


def _insert_stdout(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `-` (stdout) after a `--json` or `--csv` without a value."""
    completed: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":  # no options follow
            return [*completed, *arguments[position:]]
        completed.append(argument)
        is_last = position + 1 == len(arguments)
        has_no_value = is_last or arguments[position + 1].startswith("--")
        if argument in ("--json", "--csv") and has_no_value:
            completed.append("-")
    return completed


def _report_bad_input(sentence: str) -> int:
    """Print what is wrong with the input on stderr, and return the exit code for that."""
    from srs_eval.data.errors import printable

    say(f"srs-eval: {printable(sentence, None)}")
    return BAD_INPUT


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print(doctor.format_version())
        raise typer.Exit


@app.callback()
def _about(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
    ),
    plain: bool = typer.Option(  # taken off the command line before (`_invoke`)
        False,
        _PLAIN,
        help="Print plain text with one fact per line, without boxes, bars or symbols. Works with "
        "every command.",
    ),
) -> None:
    """Options before a command."""
    from srs_eval.data.readers.files import sweep_abandoned_copies

    sweep_abandoned_copies()


_CHECK_HELP = """\
Usage: srs-eval models check NAME|FILE... [--features FILE]

Check models for leaks, wrong gradients and invalid predictions.

NAME is a model of srs-eval, and FILE is a file with your own models. Each model is trained on
simulated learners with up to 8,000 reviews; your own reviews are not read. For every mistake, a
sentence says what is wrong and where to look. The command looks for

  - predictions that change if the outcome or the answer time of the predicted review changes, or
    if later reviews change: their outcomes, intervals, answer times, states or number;
  - fits that see more than their training part;
  - models that learn while they are evaluated, without `online`;
  - wrong or missing gradients, and training that ends too early;
  - hyperparameters that change nothing;
  - NaN, probabilities of exactly 0 or 1, and values that are not probabilities;
  - figures that change with the order of reviews, in a second run or in another process;
  - errors when there are few reviews, or when all answers are correct or all are wrong;
  - changes to the arrays that a model is given.

Options:
  --features FILE  A table for models that use one: CSV or parquet with card_id or note_id.

Exit codes: 0 nothing wrong was found, 1 something wrong was found, 2 the name or file cannot
be used.

The check takes a few seconds for a model with two parameters, and a minute for a network.
docs/adding-a-model.md explains what a model may read, and how to write one.
"""


def _describe_mistake(mistake: Mistake) -> str:
    """Describe what is wrong with a model, and where to look."""
    text = Path(__file__).with_name("mistakes.toml").read_text("utf-8")
    template = tomllib.loads(text)[mistake.kind]
    sentence = template.format_map(vars(mistake)).rstrip(".")
    return f"{mistake.configuration}: {sentence}."


def _check_models(targets: Sequence[str], features: Path | None) -> int:
    """Check models, given by name or by file, and return the exit code.

    Raises InputError if no model is named, or if a name or file cannot be used.
    """
    from srs_eval.engine.conformance import find_mistakes

    reserve_blas_memory()
    if not targets:
        raise InputError("Name a model or a file: srs-eval models check my_model.py.")
    models: dict[str, Model] = {}
    for target in targets:
        for model in _find_models(target):
            models[model.name] = model
    names = ", ".join(models)
    say(f"Checking {names} on simulated learners ...")
    has_mistakes = False
    for mistake in find_mistakes(list(models.values()), features):
        has_mistakes = True
        show(_describe_mistake(mistake))
    if not has_mistakes:
        show(f"Nothing wrong was found with {names}.")
    return PARTIAL_FAILURE if has_mistakes else SUCCESS


def _show_weights() -> int:
    """Print RWKV's weight files on this machine, and the public ones."""
    from srs_eval.models.rwkv import PUBLIC_WEIGHTS, find_weights

    weights = find_weights()
    for file in weights:
        origin = "which srs-eval does not know"
        if file.public_file:
            trained_users = file.public_file.trained_users
            origin = f"trained on users {trained_users[0]} to {trained_users[-1]}"
        show(f'Found: "{file.path}", {origin}.')
    if weights:
        show("--models all includes RWKV-Instant and RWKV-Curve; --weights FILE uses another file.")
    else:
        show("No weights of RWKV were found. If you have some, name them with --weights FILE.")
    show(
        "These are the public files. srs-eval downloads none of them, and knows of no licence for "
        "them. Each file was trained on the users listed beside it (of anki-revlogs-10k): for "
        "those users, use another file."
    )
    for public_file in PUBLIC_WEIGHTS:
        users = f"users {public_file.trained_users[0]} to {public_file.trained_users[-1]}"
        show(f"{public_file.name}: {public_file.parameters:,} parameters, {users}")
        show(f"  {public_file.url}")
        show(f"  SHA-256 {public_file.sha256}")
    return SUCCESS


def _print_vectors(names: Sequence[str], target: str) -> int:
    """Print the reference vectors of a model as JSON, or write them to a file.

    Raises InputError unless exactly one model is named.
    """
    from srs_eval.engine.reference_vectors import build_reference_vectors
    from srs_eval.report.export import to_json_by_case

    if len(names) != 1:
        raise InputError("Name one model: srs-eval models vectors FSRS-6 > vectors.json.")
    reserve_blas_memory()
    write_output(target, to_json_by_case(build_reference_vectors(names[0])))
    return SUCCESS


def _find_models(target: str) -> list[Model]:
    """Return the models of a file (a path with / or .py), or those that a name stands for."""
    from srs_eval.models import load_model_file
    from srs_eval.models.configurations import resolve_configurations

    if target.endswith(".py") or "/" in target:
        return list(load_model_file(Path(target)))
    return [configuration.model for configuration in resolve_configurations(target)]


@app.command()
def models(
    device: options.Device = "cpu",
    model_file: options.ModelFile = None,
    features: options.Features = None,
    names: options.ModelNames = None,
    json: options.Json = None,
    dataset: options.PretrainDataset = None,
    users: options.PretrainUsers = None,
    out: options.PretrainOut = None,
    seed: options.PretrainSeed = 0,
) -> int:
    """List every model, describe one, or check one: `srs-eval models check my_model.py`.

    `srs-eval models check --help` says what it looks for. `srs-eval models vectors FSRS-6` prints
    cases with which you can check another implementation.
    """
    from srs_eval.models.configurations import GROUPS
    from srs_eval.report.export import build_models_document

    prepare_to_read()
    json = make_absolute(json)
    out = make_absolute(out)
    context = build_context(device=device, model_file=model_file, features=features)
    check_targets([], json)
    action = ""
    if names and names[0] in ("check", "pretrain", "vectors", "weights"):
        action = names[0]
    if names and action == "vectors":
        return _print_vectors(names[1:], json or "-")
    if action and json is not None:
        raise InputError(f"`models {action}` prints sentences; it has no --json.")
    if action != "pretrain" and (dataset or users or out or seed):
        raise InputError("--dataset, --users, --out and --seed belong to `models pretrain`.")
    if names == ["weights"]:
        return _show_weights()
    if names and action == "pretrain":
        trainable: list[Model] = []
        for target in names[1:]:
            trainable += _find_models(target)
        if len(trainable) != 1 or dataset is None or users is None or out is None:
            raise InputError(
                "`models pretrain` takes a file with one model, --dataset, --users and --out."
            )
        return research.pretrain(trainable[0], dataset, users, out, context, seed)
    if names and action == "check":
        return _check_models(names[1:], context.features)
    document = build_models_document(names or ())
    console = write_json_and_pick_console(json, document)
    if console:
        if names:
            console.print(render_model_details(document["models"], get_width(console)))
        else:
            console.print(render_models_table(document["models"], get_width(console)))
            say(
                f"--models also takes groups: {', '.join(GROUPS)} (fast: all but neural). "
                "SM2 is a model; sm2 is a group. Equalized: evaluated on reviews of later days "
                "only, as most models are. Two buttons: Hard and Easy count as Good."
            )
    return SUCCESS


@app.command()
def config(init: options.ConfigInit = False) -> int:
    """Print where your settings are read from, and their current values."""
    from srs_eval.tui.config import config_path, load_config, write_commented_config

    path = config_path()
    if init:
        write_commented_config(path)
        show(f'"{path}" was written. Remove the # before a setting to change it.')
        return SUCCESS
    note = "" if path.exists() else ", which does not exist: these are the defaults"
    settings = load_config(path)
    if settings.theme is not None:
        from srs_eval.tui.screens.themes import check_theme

        check_theme(settings.theme)
    show(f"# {path}{note}")
    for line in settings.format_lines():
        show(line)
    return SUCCESS


app.command()(learner.demo)


@contextmanager
def _interrupt_on_signals(received_signals: list[int]) -> Iterator[None]:
    """Interrupt on a closed terminal or on `kill` as on Ctrl-C, so that everything is tidied up.

    The exit code says which signal it was. Signals are therefore added to `received_signals`: the
    exception alone can be lost on its way. Ignored signals (nohup) stay ignored.
    """

    def interrupt(number: int, _: object) -> None:
        received_signals.append(number)
        _detach_closed_terminal()
        raise KeyboardInterrupt

    with ExitStack() as previous_handlers:  # puts them back at the end
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    previous = signal.signal(number, interrupt)
                    previous_handlers.callback(signal.signal, number, previous or signal.SIG_DFL)
        yield


def _detach_closed_terminal() -> None:
    """Redirect streams of a closed terminal to the null device, as writing to them fails."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
