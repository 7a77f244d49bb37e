"""Compiled kernels on disk, each under the digest of what it was compiled from.

numba itself keeps them by the path and the date of the file of the outermost function, and so
notices no change of what that function calls. Here the digest (`kernel_source`) is the key,
with numba's settings, and neither path nor date counts. A damaged cache or a full disk only means
compiling: numba writes its files without a sync, so a crash of the machine can leave them empty,
and lets every error of reading and writing them through.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from numba.core import caching, config, types

from srs_eval.training import installed

_SETTINGS = (
    *("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML"),
    *("BOUNDSCHECK", "DEBUGINFO_DEFAULT"),
)
"""Settings of numba (NUMBA_OPT, ...) that change machine code; its own key has CPU and features."""


class _Locator(caching._CacheLocator):
    def __init__(self, folder: Path, function: Any, digest: str) -> None:
        self._folder = folder
        self._digest = digest
        self._py_file = function.__code__.co_filename  # named in numba's warnings

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return ""  # the name holds the digest


class _Results(caching.CompileResultCacheImpl):
    """numba's, without its search for a place."""

    def __init__(self, function: Any, locator: _Locator) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = locator
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        self._filename_base = f"{function.__name__}.{version}"


class KernelCache(caching.FunctionCache):
    """The cache of one kernel's function in a folder; takes the place of a dispatcher's own."""

    def __init__(self, function: Any, folder: Path, digest: str) -> None:
        locator = _Locator(folder, function, digest)
        self._impl_class: Any = lambda function: _Results(function, locator)
        super().__init__(function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:
            with contextlib.suppress(Exception):
                self.flush()
            return None
        if found is not None:
            with contextlib.suppress(OSError):
                os.utime(self._cache_file._index_path)  # in use
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if installed.changed():  # since the digest was made, perhaps before all was imported
            return
        with contextlib.suppress(Exception):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """With the settings, and the names of records' fields: numba compares types only."""
        settings = tuple(repr(getattr(config, name, None)) for name in _SETTINGS)
        return (*super()._index_key(sig, codegen), settings, tuple(map(_fields, sig)))


def _fields(kind: Any) -> tuple[Any, ...]:
    inner: Any = kind if isinstance(kind, types.BaseTuple) else ()
    return (getattr(kind, "fields", ()), *map(_fields, inner))
