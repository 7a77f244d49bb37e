"""Complete words of a command line in the shell."""

from __future__ import annotations


def complete_models(word: str) -> list[str]:
    """Return the spellings of a list of models and groups that `word` may become.

    Only the last name of a list is completed: "FSRS-6,DA" may become "FSRS-6,DASH".
    """
    from srs_eval.models.configurations import GROUPS, list_configuration_names

    earlier, comma, start = word.rpartition(",")
    names = (*GROUPS, *list_configuration_names())
    return [f"{earlier}{comma}{name}" for name in names if name.startswith(start)]


def complete_model(word: str) -> list[str]:
    """Return the names of configurations that begin with `word`."""
    from srs_eval.models.configurations import list_configuration_names

    names = list_configuration_names()
    return [name for name in names if name.startswith(word)]
