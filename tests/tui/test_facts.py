"""Check tables that are drawn as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from srs_eval.report import formats
from srs_eval.tui.widgets.facts import align_columns


@given(
    st.lists(
        st.tuples(st.text("ab ", max_size=9), st.text("cd ", max_size=60).map(str.strip)),
        min_size=1,
    ),
    st.integers(24, 90),
)
def test_columns_keep_every_word_within_the_width(rows: list[tuple[str, str]], width: int) -> None:
    text = align_columns([tuple(map(Text, row)) for row in rows], width, right_aligned=[0])
    assert all(len(line) <= width for line in text.plain.split("\n"))
    words = " ".join(map(" ".join, rows))
    assert sorted(text.plain.replace(" ", "").replace("\n", "")) == sorted(words.replace(" ", ""))


@pytest.mark.parametrize("cells", [[], [("one",)], [("a", "b"), ("c",)]])
def test_columns_of_uneven_rows(cells: list[tuple[str, ...]]) -> None:
    text = align_columns([tuple(map(Text, row)) for row in cells], 40)
    assert [line.split() for line in text.plain.splitlines()] == [list(row) for row in cells]


@given(st.text("aé日本語ひ", max_size=30), st.integers(1, 30))
def test_a_wide_character_takes_two_columns(text: str, width: int) -> None:
    for shorter in (formats.truncate(text, width), formats.shorten_middle(text, width)):
        assert cell_len(shorter) <= width
        assert cell_len(text) > width or shorter == text
