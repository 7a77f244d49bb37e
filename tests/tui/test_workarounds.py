"""A terminal that is closed does not keep the app."""

from __future__ import annotations

import errno

from textual.drivers._writer_thread import WriterThread

from srs_eval.tui.workarounds import _Unfailing


class Closed:
    """What a file is whose terminal is gone."""

    def write(self, text: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def flush(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_writing_goes_on_where_nobody_reads() -> None:
    thread = WriterThread(_Unfailing(Closed()))  # type: ignore[arg-type]
    thread.start()
    for _ in range(100):  # more than Textual's queue holds
        thread.write("x")
    thread.stop()
    assert not thread.is_alive()
