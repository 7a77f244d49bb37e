"""Check how much memory a process may take, and recognise errors caused by too little.

Where the system limits the memory of a process (`ulimit -v`), libraries fail in their own ways:
OpenBLAS tries for ever or ends the process, torch ends it, and others cannot load their parts. So
the limit is checked before they are loaded. Other errors are recognised by their messages.
"""

from __future__ import annotations

import errno
import mmap
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from srs_eval.data.errors import InputError, error_message

READING_BYTES = 160_000_000
"""Bytes of address space that any command takes."""
EVALUATING_BYTES = 800_000_000
"""Bytes of address space with the numerical libraries, their threads, and compiled kernels."""
_IMPORT_BYTES = {"torch": 600_000_000}
"""Bytes of address space that are needed to import a module."""
_LOW_MEMORY_BYTES = 150_000_000  # with less left, this explains an error that gives no reason
_MEGABYTE = 1_000_000
_MEMORY_ERROR_PATTERN = re.compile(
    "not enough memory|out of memory|can(no|')?t allocate memory|unable to allocate|bad_alloc"
    "|failed to map segment from shared object(?!: (Operation not permitted|Permission denied))"
    "|paging file is too small",
    re.IGNORECASE,
)
NOT_ENOUGH_MEMORY = (
    "There is not enough memory for this: close other programs, raise the limit if there is one "
    "(`ulimit -v`), or evaluate fewer models at once."
)


def check_memory_limit(needed: int) -> None:
    """Raise InputError if the system lets a process take less than it needs in all."""
    limit = _memory_limit()
    if limit is not None and limit < needed:
        raise InputError(
            f"There is not enough memory: a program may take {limit // _MEGABYTE:,} MB here "
            f"(`ulimit -v`), and this needs {needed // _MEGABYTE:,} MB. Raise the limit."
        )


def reserve_blas_memory() -> None:
    """Let OpenBLAS take its memory while there is enough. Raises InputError if there is not."""
    check_memory_limit(EVALUATING_BYTES)
    if _memory_limit() is None:
        return
    import numpy as np
    import scipy.linalg  # noqa: F401 - it has its own OpenBLAS

    square = np.ones((512, 512))
    np.matmul(square, square)  # makes OpenBLAS allocate its buffers


def require_memory(module: str) -> None:
    """Raise MemoryError if too little memory is left to import a large module."""
    needed = _IMPORT_BYTES.get(module)
    if needed is None or module in sys.modules or _memory_limit() is None:
        return
    if not _can_allocate(needed):
        raise MemoryError(f"{module} needs {needed // _MEGABYTE:,} MB")


def is_memory_error(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, means that memory was short."""
    chain = list(_error_chain(error))
    if any(_mentions_memory(cause) for cause in chain):
        return True
    is_unexplained = any(_is_unexplained(cause) for cause in chain)
    return is_unexplained and _memory_limit() is not None and not _can_allocate(_LOW_MEMORY_BYTES)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn errors caused by too little memory into one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if is_memory_error(error):
            raise InputError(NOT_ENOUGH_MEMORY) from error
        raise


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    seen = set[int]()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _mentions_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    is_of_library = isinstance(error, OSError | ImportError | RuntimeError)
    return is_of_library and bool(_MEMORY_ERROR_PATTERN.search(error_message(error)))


def _is_unexplained(error: BaseException) -> bool:
    """Return whether libraries raise this error for lack of memory, but for other reasons, too."""
    if isinstance(error, SystemError | ImportError):
        return True
    return isinstance(error, RuntimeError) and "can't start new thread" in error_message(error)


def _memory_limit() -> int | None:
    """Return the bytes that this process may take, None if there is no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _can_allocate(size: int) -> bool:
    """Return whether this process may take `size` more bytes, without keeping any."""
    reserve = getattr(mmap, "MAP_NORESERVE", 0)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve
    try:
        mmap.mmap(-1, size, flags=flags, prot=0).close()
    except (OSError, ValueError):
        return False
    return True
