"""Memory that is short: what a process may still take, and which errors come of too little.

Where the system limits what a process may take (`ulimit -v`), libraries fail in their own ways:
OpenBLAS tries for ever or ends the process, torch ends it, and others cannot load what they are
made of. So the limit is looked at before they are loaded. Other errors are told by what they say.
"""

from __future__ import annotations

import errno
import mmap
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from srs_eval.data.errors import InputError, in_one_line

FOR_READING = 160_000_000
"""Bytes of address space that any command takes."""
FOR_EVALUATING = 800_000_000
"""The same with the libraries that compute, their threads, and compiled kernels."""
_NEEDED_BY = {"torch": 600_000_000}
"""Bytes that are needed to import a module."""
_LITTLE = 150_000_000  # where less is left, an error without a reason comes of that
_MEGABYTE = 1_000_000
_WORDS = re.compile(
    "not enough memory|out of memory|can(no|')?t allocate memory|unable to allocate|bad_alloc"
    "|failed to map segment from shared object(?!: (Operation not permitted|Permission denied))"
    "|paging file is too small",
    re.IGNORECASE,
)
NOT_ENOUGH = (
    "There is not enough memory for this: close other programs, raise the limit if there is one "
    "(`ulimit -v`), or evaluate fewer models at once."
)


def refuse_short_memory(needed: int) -> None:
    """Raise InputError where the system lets a process take less than it needs in all."""
    limit = _limit()
    if limit is not None and limit < needed:
        raise InputError(
            f"There is not enough memory: a program may take {limit // _MEGABYTE:,} MB here "
            f"(`ulimit -v`), and this needs {needed // _MEGABYTE:,} MB. Raise the limit."
        )


def prepare_for_evaluating() -> None:
    """Let OpenBLAS take its memory while there is some. Raises InputError where there is not."""
    refuse_short_memory(FOR_EVALUATING)
    if _limit() is None:
        return
    import numpy as np
    import scipy.linalg  # noqa: F401 - it has an OpenBLAS of its own

    square = np.ones((512, 512))
    np.matmul(square, square)


def require_memory(module: str) -> None:
    """Raise MemoryError where too little is left to import a large module."""
    needed = _NEEDED_BY.get(module)
    if needed is None or module in sys.modules or _limit() is None:
        return
    if not _is_left(needed):
        raise MemoryError(f"{module} needs {needed // _MEGABYTE:,} MB")


def is_short_of_memory(error: BaseException) -> bool:
    """Whether an error, or one that it comes of, is that memory was short."""
    chain = list(_chain(error))
    if any(_says_so(each) for each in chain):
        return True
    speechless = any(_gives_no_reason(each) for each in chain)
    return speechless and _limit() is not None and not _is_left(_LITTLE)


@contextmanager
def short_memory_in_words() -> Iterator[None]:
    """Turn errors that come of too little memory into one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if is_short_of_memory(error):
            raise InputError(NOT_ENOUGH) from error
        raise


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, what it comes of, what that comes of, and so on."""
    seen = set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    by_a_library = isinstance(error, OSError | ImportError | RuntimeError)
    return by_a_library and bool(_WORDS.search(in_one_line(error)))


def _gives_no_reason(error: BaseException) -> bool:
    """Whether libraries raise this where they get no memory, but for other reasons, too."""
    if isinstance(error, SystemError | ImportError):
        return True
    return isinstance(error, RuntimeError) and "can't start new thread" in in_one_line(error)


def _limit() -> int | None:
    """Bytes that this process may take, None where there is no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _is_left(size: int) -> bool:
    """Whether this process may take so many bytes more; none is taken."""
    reserve = getattr(mmap, "MAP_NORESERVE", 0)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve
    try:
        mmap.mmap(-1, size, flags=flags, prot=0).close()
    except (OSError, ValueError):
        return False
    return True
