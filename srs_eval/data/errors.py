"""The errors that a person can do something about."""

from __future__ import annotations

MOST_CHARACTERS = 400
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
    line = " ".join(text[: 10 * MOST_CHARACTERS].split())
    line = line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)
