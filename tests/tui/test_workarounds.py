"""Check that the app survives a terminal that is closed or sends no UTF-8."""

from __future__ import annotations

import errno
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from textual.drivers._writer_thread import WriterThread

from srs_eval.tui.workarounds import _SafeFile, is_terminal, with_safe_output


class Closed:
    """Fail like the file of a terminal that is gone."""

    def write(self, text: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def flush(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_writing_goes_on_where_nobody_reads() -> None:
    thread = WriterThread(_SafeFile(Closed()))  # type: ignore[arg-type]
    thread.start()
    for _ in range(100):  # more than Textual's queue holds
        thread.write("x")
    thread.stop()
    assert not thread.is_alive()


class Reader:
    """Raise errors, one at each read, like the reading thread of a driver."""

    def __init__(self, errors: list[Exception], file_number: int = -1) -> None:
        self.errors = errors
        self.fileno = file_number
        self.reads = 0
        self.codes: list[int] = []
        self._app = SimpleNamespace(exit=self.codes.append)
        self._loop = SimpleNamespace(call_soon_threadsafe=lambda function, code: function(code))

    def run_input_thread(self) -> None:
        self.reads += 1
        if self.errors:
            raise self.errors.pop(0)


def make_reader(*errors: Exception, **options: int) -> Any:
    return with_safe_output(Reader)(list(errors), **options)  # type: ignore[arg-type]


def test_bytes_that_are_no_utf_8_are_passed_over() -> None:
    reader = make_reader(*(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no") for _ in range(2)))
    reader.run_input_thread()
    assert reader.reads == 3
    assert not reader.codes


def test_closed_terminal_ends_the_app_without_an_error() -> None:
    with open(os.devnull) as file:
        error = OSError(errno.EIO, "Input/output error")
        reader = make_reader(error, file_number=file.fileno())
        reader.run_input_thread()
    assert reader.codes == [0]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_is_terminal_is_false_once_the_other_end_is_closed() -> None:
    import pty

    master, slave = pty.openpty()
    assert is_terminal(slave)
    with pytest.raises(OSError, match="no memory"):  # it is still there: another error
        make_reader(OSError(errno.ENOMEM, "no memory"), file_number=slave).run_input_thread()
    os.close(master)
    assert not is_terminal(slave)
    os.close(slave)
