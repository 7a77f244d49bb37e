"""Check the types of arguments that users pass to public functions.

Each check takes the argument's name, a description of the expected value, and the value itself.
It raises InputError with one sentence: "jobs is a number of worker processes, not '2'."
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike

from srs_eval.data.errors import InputError, error_message, shorten

A_FLAG = "True or False"
A_WHOLE_NUMBER = "a whole number"
A_NUMBER = "a number"
A_FILE = "the path of a file"
A_FILE_OR_FOLDER = "the path of a file or folder"
NAMES = "a list of names"


def refuse(name: str, words: str, value: object) -> InputError:
    """Return the error for an argument that does not match its description."""
    return InputError(f"{name} is {words}, not {shown(value)}.")


def shown(value: object) -> str:
    """Return the repr of a value as one short line."""
    try:
        return shorten(repr(value))
    except Exception as error:  # an object of the user's may raise anything
        return f"a {type(value).__name__} that cannot be shown ({error_message(error)})"


def check_type(name: str, words: str, value: object, *kinds: type) -> None:
    """Raise InputError unless the value is an instance of one of the kinds."""
    if not isinstance(value, kinds):
        raise refuse(name, words, value)


def check_flag(name: str, value: object) -> None:
    """Raise InputError unless the value is True or False."""
    check_type(name, A_FLAG, value, bool)


def check_function(name: str, words: str, value: object) -> None:
    """Raise InputError unless the value is callable."""
    if not callable(value):
        raise refuse(name, words, value)


def check_path(name: str, words: str, value: object) -> None:
    """Raise InputError unless the value is a string or a path."""
    check_type(name, words, value, str, PathLike)


def check_whole_number(
    name: str, value: object, words: str = A_WHOLE_NUMBER, least: int | None = None
) -> None:
    """Raise InputError unless the value is a whole number (NumPy's too), at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise refuse(name, words, value)
    if least is not None and int(value) < least:
        raise refuse(name, words, value)


def check_number(name: str, value: object, words: str = A_NUMBER, least: float = -math.inf) -> None:
    """Raise InputError unless the value is a number (NumPy's too), at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise refuse(name, words, value)
    if least > -math.inf and not float(value) >= least:  # refuses NaN too
        raise refuse(name, words, value)


def check_numbers(name: str, words: str, value: object) -> None:
    """Raise InputError unless the value is a list, a tuple or an array of numbers."""
    if not is_list_of_numbers(value):
        raise refuse(name, words, value)


def is_list_of_numbers(value: object) -> bool:
    """Return whether a value is a list, a tuple or an array of numbers."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not is_list and not hasattr(value, "__array__"):
        return False
    return isinstance(value, Iterable) and all(map(_is_number, value))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise InputError unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise refuse(name, f"one of {', '.join(choices)}", value)


def check_texts(name: str, words: str, value: object) -> None:
    """Raise InputError unless the value is a collection of strings.

    A single string is refused, although it is a collection of letters.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise refuse(name, words, value)
    if not all(isinstance(text, str) for text in value):
        raise refuse(name, words, value)


def check_mapping(name: str, words: str, value: object) -> None:
    """Raise InputError unless the value is a dictionary whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refuse(name, words, value)
