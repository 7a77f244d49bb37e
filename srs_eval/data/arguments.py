"""Refuse arguments of another type than a function takes, in one sentence.

Each function takes the argument's name, what it should be in words, and its value, and raises
InputError: "jobs is a number of worker processes, not '2'."
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike

from srs_eval.data.errors import InputError, cut, in_one_line

A_FLAG = "True or False"
A_WHOLE_NUMBER = "a whole number"
A_NUMBER = "a number"
A_FILE = "the path of a file"
A_FILE_OR_FOLDER = "the path of a file or folder"
NAMES = "a list of names"


def refuse(name: str, words: str, value: object) -> InputError:
    """Return the error for an argument that is not what the words say."""
    return InputError(f"{name} is {words}, not {shown(value)}.")


def shown(value: object) -> str:
    """Return how Python shows a value, in one short line."""
    try:
        return cut(repr(value))
    except Exception as error:  # of an object of the person's own
        return f"a {type(value).__name__} that cannot be shown ({in_one_line(error)})"


def check_type(name: str, words: str, value: object, *kinds: type) -> None:
    """Refuse a value of none of the kinds."""
    if not isinstance(value, kinds):
        raise refuse(name, words, value)


def check_flag(name: str, value: object) -> None:
    """Refuse all but True and False."""
    check_type(name, A_FLAG, value, bool)


def check_function(name: str, words: str, value: object) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise refuse(name, words, value)


def check_path(name: str, words: str, value: object) -> None:
    """Refuse all but a text and a path."""
    check_type(name, words, value, str, PathLike)


def check_whole_number(
    name: str, value: object, words: str = A_WHOLE_NUMBER, least: int | None = None
) -> None:
    """Refuse all but whole numbers, numpy's among them, from `least` on."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise refuse(name, words, value)
    if least is not None and int(value) < least:
        raise refuse(name, words, value)


def check_number(name: str, value: object, words: str = A_NUMBER, least: float = -math.inf) -> None:
    """Refuse all but numbers, numpy's among them, from `least` on."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise refuse(name, words, value)
    if least > -math.inf and not float(value) >= least:  # nor NaN
        raise refuse(name, words, value)


def check_numbers(name: str, words: str, value: object) -> None:
    """Refuse all but a list, a tuple or an array of numbers."""
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
    """Refuse all but one of some words."""
    if not isinstance(value, str) or value not in choices:
        raise refuse(name, f"one of {', '.join(choices)}", value)


def check_texts(name: str, words: str, value: object) -> None:
    """Refuse all but a collection of texts; a text is none, though it consists of letters."""
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise refuse(name, words, value)
    if not all(isinstance(text, str) for text in value):
        raise refuse(name, words, value)


def check_mapping(name: str, words: str, value: object) -> None:
    """Refuse all but a dictionary whose keys are texts."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refuse(name, words, value)
