"""The errors that a person can do something about."""

from __future__ import annotations


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
