"""Check graphs in braille dots: the positions of marks and labels."""

from __future__ import annotations

from srs_eval.tui.widgets.plot import MARGIN, Axis, GraphMark, PlotGraph, draw_graph

SHARES = Axis(0.0, 1.0, ((0.0, "0"), (0.5, "50"), (1.0, "100")))


def lines(*marks: GraphMark, width: int = 16, height: int = 7) -> list[str]:
    drawn = draw_graph(PlotGraph(marks, SHARES, SHARES, "dim"), width, height).plain.splitlines()
    assert all(len(line) == width for line in drawn)
    return drawn


def test_curve_points_and_axes() -> None:
    diagonal = GraphMark([0.0, 1.0], [0.0, 1.0], "red")
    beyond = GraphMark([-1.0, -0.5], [2.0, 3.0], "blue")
    drawn = lines(diagonal, beyond, GraphMark([0.5, 0.9], [0.5, 7.0], "green", "●"))
    assert drawn == [
        "100 ┤         ⡠⠊",
        "    │      ⢀⠔⠊  ",
        " 50 ┤    ⢀●⠁    ",
        "    │  ⡠⠔⠁      ",
        "  0 ┤⡠⠊         ",
        "    └┬────┬────┬",
        "     0   50  100",
    ]


def test_no_room_is_no_graph() -> None:
    assert lines(width=MARGIN + 4) == lines(height=2) == []


def test_labels_do_not_overlap() -> None:
    assert lines(width=10)[-1].split() == ["0", "100"]
