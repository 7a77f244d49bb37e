"""What this program can do without: packages of the extras in pyproject.toml."""

from __future__ import annotations

from importlib.util import find_spec

from srs_eval.data.errors import NotInstalled

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
