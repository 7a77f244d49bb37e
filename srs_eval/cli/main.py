"""The command line. stdout carries data only; progress and words go to stderr.

Exit codes: 0 fine, 1 some model or user failed (the rest is there), 2 bad input or usage,
130 interrupted, 129 hung up, 143 terminated. Everything heavy is imported when a command
needs it, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from srs_eval.cli import doctor, learner, research
from srs_eval.cli.options import (
    BAD_INPUT,
    FINE,
    INTERRUPTED,
    SOME_FAILED,
    Outputs,
    check_targets,
    command,
    json_and_console,
)
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.memory import prepare_for_evaluating, short_memory_in_words
from srs_eval.report.console import model_stories, models_table, say, show

if TYPE_CHECKING:
    from typer.core import TyperGroup

    from srs_eval.engine.model_findings import Finding
    from srs_eval.models import Model
    from srs_eval.training.hyperparameters import Context

_ALIASES = {
    "binary": "two_buttons",
    "dry": "default",
    "dry_run": "default",
    "pretrain": "S0",
    "s0": "S0",
}


def _declared(name: str) -> str:
    """An option's name as all spellings of it are: dashes are underscores, aliases are followed."""
    name = name.replace("-", "_")
    return _ALIASES.get(name, name)


app = typer.Typer(
    name="srs-eval",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": _declared,
    },
    help="How well do memory models predict your own forgetting?\n\n"
    "`srs-eval [PATH]` opens the terminal app; without a terminal it is the same as "
    "`srs-eval run`, whose options it takes.",
)


def report(
    outputs: Outputs,
    folders: list[Path],
    baseline: Path | None = None,
    models: str | None = None,
    users: str | None = None,
    means: Literal["common", "each"] = "common",
    reference: str | None = None,
    matrix: str | None = None,
    metric: str = "LogLoss",
    columns: str = "LogLoss,RMSE(bins),AUC",
    average: str = "user",
    digits: int = 0,
) -> int:
    """Tables, pairs and pictures of results of many users."""
    from srs_eval.report.dataset import dataset_report

    if users in ("common", "each"):  # what --means was called
        users, means = None, "each" if users == "each" else "common"
    outputs.check(*folders, baseline)
    document = dataset_report(
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
    return FINE


_FOR_PAPERS = ("tex", "svg", "pdf", "inches")  # outputs
app.command(hidden=True, name="open")(command(learner.open_or_run))
for _command in (
    command(learner.run),
    command(research.batch),
    command(learner.export, without=("short", *_FOR_PAPERS)),
    command(report, without=("brief",)),
    command(research.audit, without=("png", "brief", *_FOR_PAPERS)),
    command(learner.inspect, evaluates=False),
    command(learner.compare),
    command(learner.workload),
    command(learner.state),
    doctor.doctor,
):
    app.command()(_command)
app.add_typer(research.results, name="results")
app.add_typer(research.dataset, name="dataset")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code. Never a traceback for what a person did."""
    received: list[int] = []
    try:
        with _signals_interrupt(received):
            code = _end_of(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = INTERRUPTED
    return 128 + received[0] if received else code


def _end_of(given: list[str]) -> int:
    """Run a command line to its end, whichever it is: the exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show
    try:
        with short_memory_in_words():
            code = _run(given)
        sys.stdout.flush()
        return code if isinstance(code, int) else FINE
    except InputError as error:
        return _refuse(str(error))
    except NotEnoughData as error:
        return _refuse(f"Too little data: {error}.")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        # Or in its context, as typer and rich end after a closed pipe.
        if BrokenPipeError not in (type(end), type(end.__context__)):
            raise
        # The reader has what it wanted. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FINE
    except OSError as error:
        where = f' ("{error.filename}")' if error.filename else ""
        return _refuse(f"{error.strerror or error}{where}.")
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        sentence = str(message()).rstrip(".").replace("Value error, ", "")
        said, one_of, _ = sentence.partition(" is not one of ")
        if one_of and (choices := getattr(getattr(error, "param", None), "metavar", None)):
            sentence = (
                f"{said}{one_of}{', '.join(map(repr, choices.split('|')))}"  # spelled as in --help
            )
        return _refuse(f"{sentence}. `srs-eval --help` lists what there is.")


def _run(given: list[str]) -> Any:
    """What the command of a command line returns."""
    group = typer.main.get_group(app)
    command = _with_command(given, group)
    if command[:2] == ["models", "check"] and {"-h", "--help"} & set(command):
        print(_CHECK_HELP, end="")
        return FINE
    settled = _settled(command[0])
    return group(args=command, prog_name="srs-eval", standalone_mode=False, default_map=settled)


def _settled(command: str) -> dict[str, dict[str, Any]]:
    """Defaults of the options of the commands that config.toml has a say in."""
    if command not in ("open", "run", "export"):
        return {}
    from srs_eval.tui.config import load_config

    config = load_config()
    return {command: {"rows": config.rows, "models": config.models}}


def _open_closed_streams() -> None:
    """A stream that the caller has closed (`>&-`) is None in Python; nothing goes there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - as long as we run
            os.set_inheritable(stream.fileno(), True)  # workers have the same streams
            setattr(sys, name, stream)


def _with_command(given: list[str], group: TyperGroup) -> list[str]:
    """The arguments with a command in front: `open` where none is named."""
    arguments = _with_stdout(given)
    first = arguments[0] if arguments else ""
    if first in group.commands or first in ("--help", "-h", "--version"):
        return arguments
    return ["open", *arguments]


def _with_stdout(arguments: Sequence[str]) -> list[str]:
    """The arguments; a `--json` or `--csv` that nothing follows means stdout."""
    made: list[str] = []
    for k, argument in enumerate(arguments):
        if argument == "--":
            return [*made, *arguments[k:]]
        made.append(argument)
        following = [*arguments[k + 1 : k + 2], "--"][0]
        if argument in ("--json", "--csv") and following.startswith("--"):
            made.append("-")
    return made


def _refuse(sentence: str) -> int:
    from srs_eval.data.errors import printable

    say(f"srs-eval: {printable(sentence, None)}")
    return BAD_INPUT


def _show_version(asked: bool) -> None:
    if asked:
        print(doctor.about())
        raise typer.Exit


@app.callback()
def _about(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
    ),
) -> None:
    """Options before a command."""
    from srs_eval.data.readers.files import sweep_abandoned_copies

    sweep_abandoned_copies()


_CHECK_HELP = """\
Usage: srs-eval models check NAME|FILE... [--features FILE]

Check models for leaks, wrong gradients and invalid predictions.

A NAME is a model of srs-eval, a FILE one with models of your own. Each model is trained on
simulated learners, with up to 8,000 reviews; no file of yours is read. For every mistake a
sentence says what is wrong and where to look. The command looks for

  - predictions that change with their own outcome or answer time, or with anything of later
    reviews: outcomes, intervals, answer times, states, and whether there are any;
  - fits that see more than their training part;
  - learning while it is evaluated, without `online`;
  - wrong or missing gradients, and training that ends too early;
  - hyperparameters that change nothing;
  - NaN, and probabilities of 0, 1 or beyond;
  - other figures in another order, a second time or in another process;
  - failures with few reviews, or where all passed or all failed;
  - changes to the arrays that a model is given.

Options:
  --features FILE  A table for models that use one: CSV or parquet with card_id or note_id.

Exit codes: 0 nothing wrong was found, 1 something was, 2 the name or file cannot be used.

A model of two parameters takes a few seconds, a network a minute.
docs/adding-a-model.md says more: what a model may read, and how to write one.
"""


def _sentence_of(finding: Finding) -> str:
    """What is wrong, and where to look."""
    said = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text("utf-8"))
    words = said[finding.kind].format_map(vars(finding)).rstrip(".")
    return f"{finding.configuration}: {words}."


def _check_models(words: Sequence[str], features: Path | None) -> int:
    """Checks models by name, or those of a file; the exit code. Raises InputError."""
    from srs_eval.engine.conformance import findings

    prepare_for_evaluating()
    if not words:
        raise InputError("Name a model or a file: srs-eval models check my_model.py.")
    models = list({model.name: model for word in words for model in _meant(word)}.values())
    names = ", ".join(model.name for model in models)
    say(f"Checking {names} on simulated learners ...")
    wrong = False
    for finding in findings(models, features):
        wrong = True
        show(_sentence_of(finding))
    if not wrong:
        show(f"Nothing wrong was found with {names}.")
    return SOME_FAILED if wrong else FINE


def _tell_weights() -> int:
    """RWKV's files of this machine, and those that are public."""
    from srs_eval.models.rwkv import KNOWN, found_weights

    found = found_weights()
    for each in found:
        users = each.known and f"trained on users {each.known.users[0]} to {each.known.users[-1]}"
        show(f'Found: "{each.path}", {users or "which srs-eval does not know"}.')
    if found:
        show(
            "--models all has RWKV-Instant and RWKV-Curve with them; --weights FILE takes another."
        )
    else:
        show("No weights of RWKV were found: --weights FILE names yours.")
    show(
        "Public files follow; srs-eval fetches none. They have no licence that srs-eval knows of. "
        "Users are those of anki-revlogs-10k that a file was trained on: take another for them."
    )
    for known in KNOWN:
        users = f"users {known.users[0]} to {known.users[-1]}"
        show(f"{known.name}: {known.parameters:,} parameters, {users}")
        show(f"  {known.address}")
        show(f"  SHA-256 {known.sha256}")
    return FINE


def _meant(word: str) -> list[Model]:
    from srs_eval.models import load_model_file
    from srs_eval.models.configurations import resolve

    if word.endswith(".py") or "/" in word:
        return list(load_model_file(Path(word)))
    return [configuration.model for configuration in resolve(word)]


def models(
    context: Context,
    names: list[str] | None = None,
    json: str | None = None,
    dataset: str | None = None,
    users: str | None = None,
    out: Path | None = None,
) -> int:
    """List every model, describe one, or check one: `srs-eval models check my_model.py`.

    `srs-eval models check --help` says what is looked for.
    """
    from srs_eval.models.configurations import GROUPS
    from srs_eval.report.export import models_document

    check_targets([], json)
    action = names[0] if names and names[0] in ("check", "pretrain", "weights") else ""
    if action and json is not None:
        raise InputError(f"`models {action}` prints sentences; it has no --json.")
    if action != "pretrain" and (dataset or users or out):
        raise InputError("--dataset, --users and --out are of `models pretrain`.")
    if names == ["weights"]:
        return _tell_weights()
    if names and action == "pretrain":
        found = [model for word in names[1:] for model in _meant(word)]
        if len(found) != 1 or dataset is None or users is None or out is None:
            raise InputError(
                "`models pretrain` takes a file with one model, --dataset, --users and --out."
            )
        return research.pretrain(found[0], dataset, users, out, context)
    if names and action == "check":
        return _check_models(names[1:], context.features)
    document = models_document(names or ())
    if console := json_and_console(json, document):
        listed = document["models"]
        console.print(model_stories(listed) if names else models_table(listed, console.width))
        if not names:
            say(
                f"--models takes groups too: {', '.join(GROUPS)} (fast: all but neural). "
                "SM2 is a model, sm2 is the group. Equalized: evaluated on reviews of later days "
                "only, as most models are. Two buttons: Hard and Easy count as Good."
            )
    return FINE


_NOT_OF_MODELS = ("sm2_target", "weights", "seen_users")
app.command()(command(models, without=_NOT_OF_MODELS, evaluates=False))


@app.command()
def config() -> int:
    """Print where your settings are read from, and the values in force."""
    from srs_eval.tui.config import config_path, load_config

    path = config_path()
    there = "" if path.exists() else ", which is not there: these are the defaults"
    settled = load_config(path)
    if settled.theme is not None:
        from srs_eval.tui.screens.themes import check_theme

        check_theme(settled.theme)
    show(f"# {path}{there}")
    for line in settled.lines():
        show(line)
    return FINE


_NOT_OF_DEMO = ("source", "predictions", "setup", "names", "no_cache")
app.command()(command(learner.demo, without=_NOT_OF_DEMO))


@contextmanager
def _signals_interrupt(received: list[int]) -> Iterator[None]:
    """A closed terminal and `kill` interrupt as Ctrl-C does, so that everything is tidied up.

    The signals' numbers are added to `received`, for an exception can be lost on its way, and
    the exit code tells which it was. A hang-up that is to be survived (nohup) is.
    """

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        _give_up_lost_terminal()
        raise KeyboardInterrupt

    with ExitStack() as after:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    before = signal.signal(number, interrupt)
                    after.callback(signal.signal, number, before or signal.SIG_DFL)
        yield


def _give_up_lost_terminal() -> None:
    """Nothing can be said on a terminal that is closed, and to try is an error."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
