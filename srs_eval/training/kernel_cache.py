"""numba's cache of one kernel on disk, in a folder and under a name that hold all of its key.

A damaged cache or a full disk only means compiling: numba writes its files without a sync, so a
crash of the machine can leave them empty, and lets every error of reading and writing through.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from numba.core import caching

from srs_eval.training.compile import changed


class _Locator(caching._CacheLocator):
    def __init__(self, folder: Path, function: Any) -> None:
        self._folder = folder
        self._py_file = function.__code__.co_filename  # named in numba's warnings

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return ""


class _Results(caching.CompileResultCacheImpl):
    """numba's, without its search for a place."""

    def __init__(self, function: Any, locator: _Locator) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = locator
        self._filename_base = f"{function.__name__}.py{sys.version_info[0]}{sys.version_info[1]}"


class KernelCache(caching.FunctionCache):
    """The cache of one kernel's function in a folder; takes the place of a dispatcher's own."""

    def __init__(self, function: Any, folder: Path) -> None:
        locator = _Locator(folder, function)
        self._impl_class: Any = lambda function: _Results(function, locator)
        super().__init__(function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            with contextlib.suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(Exception):
            if not changed():
                super().save_overload(sig, data)
