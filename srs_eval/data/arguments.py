"""Check the types of arguments that users pass to public functions.

Each check takes the argument's name, the expected value in words, and the value itself. Any other
value raises InputError with one sentence: "jobs is a number of worker processes, not '2'."
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


def argument_error(name: str, expected: str, value: object) -> InputError:
    """Return the error for an argument that is not what is `expected`."""
    return InputError(f"{name} must be {expected}, not {describe_value(value)}.")


def describe_value(value: object) -> str:
    """Return the repr of a value as one short line, or why it has none."""
    try:
        return shorten(repr(value))
    except Exception as error:  # the repr of a user's own object may raise anything
        return f"a {type(value).__name__} that cannot be shown ({error_message(error)})"


def check_type(name: str, expected: str, value: object, *types: type) -> None:
    """Raise InputError unless the value is an instance of one of the types."""
    if not isinstance(value, types):
        raise argument_error(name, expected, value)


def check_flag(name: str, value: object) -> None:
    """Raise InputError unless the value is True or False."""
    check_type(name, A_FLAG, value, bool)


def check_function(name: str, expected: str, value: object) -> None:
    """Raise InputError unless the value is callable."""
    if not callable(value):
        raise argument_error(name, expected, value)


def check_path(name: str, expected: str, value: object) -> None:
    """Raise InputError unless the value is a string or a path."""
    check_type(name, expected, value, str, PathLike)


def check_whole_number(
    name: str, value: object, expected: str = A_WHOLE_NUMBER, least: int | None = None
) -> None:
    """Raise InputError unless the value is a whole number (NumPy's too), at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise argument_error(name, expected, value)
    if least is not None and int(value) < least:
        raise argument_error(name, expected, value)


def check_number(
    name: str, value: object, expected: str = A_NUMBER, least: float = -math.inf
) -> None:
    """Raise InputError unless the value is a number (NumPy's too), at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise argument_error(name, expected, value)
    if least > -math.inf and not float(value) >= least:  # refuses NaN too
        raise argument_error(name, expected, value)


def check_numbers(name: str, expected: str, value: object) -> None:
    """Raise InputError unless the value is a list, a tuple or an array of numbers."""
    if not is_list_of_numbers(value):
        raise argument_error(name, expected, value)


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
        raise argument_error(name, f"one of {', '.join(choices)}", value)


def check_texts(name: str, expected: str, value: object) -> None:
    """Raise InputError unless the value is a collection of strings.

    A single string is refused, too: it would count as a collection of letters.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise argument_error(name, expected, value)
    if not all(isinstance(text, str) for text in value):
        raise argument_error(name, expected, value)


def check_mapping(name: str, expected: str, value: object) -> None:
    """Raise InputError unless the value is a dictionary whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise argument_error(name, expected, value)
