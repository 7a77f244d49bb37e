"""The errors that a person can do something about, and what sentences about them are made of."""

from __future__ import annotations

from importlib.util import find_spec

_MOST_CHARACTERS = 400
"""Of a reason, so that a line with it and the name of a configuration has at most 500."""


class InputError(Exception):
    """A file or an option is unusable. `str(error)` is one sentence for the person.

    The command line prints it to stderr and exits with code 2; the app shows it
    in a message. It says what is wrong with which file and what to do.
    """


class NotInstalled(InputError):
    """Something that this program can do without is not there. A skip with a reason."""

    def __init__(self, sentence: str, module: str = "") -> None:
        """`module` is what has to be installed, if it is one."""
        super().__init__(sentence)
        self.module = module


class NotEnoughData(Exception):
    """There are too few reviews that can be used, if any. A skip with a reason, no failure."""


def in_one_line(error: BaseException) -> str:
    """What an exception says, as a short line that can be shown anywhere; "" for nothing.

    Code of one's own may raise what has megabytes of text, escape sequences, or no text at all.
    """
    try:
        text = str(error)
    except BaseException as failure:
        if type(failure) is KeyboardInterrupt:  # Ctrl-C; what is derived from it is not
            raise
        return "its text cannot be read"
    return cut(text)


def described(error: BaseException) -> str:
    """The same with the kind of exception: "KeyError: 'stability'"."""
    return cut(": ".join(filter(None, (type(error).__name__, in_one_line(error)))))


def cut(text: str) -> str:
    """The beginning of a text in one line, without control characters."""
    line = " ".join(text[: 10 * _MOST_CHARACTERS].split())
    line = line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)


def counted(number: int, thing: str) -> str:
    """ "1 user", "1,000 users"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


# What this program can do without: packages of the extras in pyproject.toml

EXTRAS = {
    "torch": ("PyTorch", "networks"),
    "distributed": ("Dask", "cluster"),
    "huggingface_hub": ("huggingface_hub", "download"),
}
"""Module -> (its name for people, the extra that brings it)."""


def is_installed(module: str) -> bool:
    """Whether a module can be imported; nothing is imported."""
    return find_spec(module) is not None


def missing(module: str) -> str:
    """ "PyTorch: pip install 'srs-eval[networks]'"; "" where the module is there, or is ""."""
    if not module or is_installed(module):
        return ""
    name, extra = EXTRAS[module]
    return f"{name}: pip install 'srs-eval[{extra}]'"


def require(module: str, wanted_by: str) -> None:
    """Raises NotInstalled, with the command that adds it, where a module is not there."""
    if wanted := missing(module):
        raise NotInstalled(f"{wanted_by} needs {wanted}", module)
