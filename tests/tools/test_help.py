"""Check that the tools say what they do before they do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools import platforms, website
from tools.simulated import __main__ as simulated


@pytest.mark.parametrize("main", [platforms.main, website.main, simulated.main])
def test_help_is_printed_and_nothing_else_done(
    main: Callable[[list[str]], object], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    usage, _, description = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith("usage: ")
    assert description.split(".")[0].split()[0] in {"Check", "Make", "Simulate"}
