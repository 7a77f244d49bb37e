"""Pictures: the folder where matplotlib may write, and narrow ones that can be read."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.data.errors import InputError
from srs_eval.report import pictures
from srs_eval.report.document import Picture
from tests.helpers.marks import slow_except

DRAWS = """
import numpy as np
from srs_eval.report import pictures
from srs_eval.report.document import Picture

draw = pictures.line_chart([1, 2], [("one", [1, 2]), ("two", [2, 1])], "x", "y")
for form in ("png", "svg", "pdf"):
    assert pictures.render_picture(form, Picture("one", "one", draw))
assert pictures.draw_figure(draw).get_axes()

import matplotlib

print(matplotlib.rcParams["font.style"])
"""


def draw_at_home(home: Path, **environment: str) -> str:
    """Return the script's output where `home` is the user's folder."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "MATPLOTLIBRC")
    }
    done = subprocess.run(
        [sys.executable, "-c", DRAWS],
        env={**inherited, "HOME": str(home), **environment},
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a home that HOME names")
def test_matplotlib_writes_into_srs_evals_cache(home: Path, tmp_path: Path) -> None:
    draw_at_home(home, SRS_EVAL_CACHE_DIR=str(tmp_path / "cache"))
    assert not list(home.iterdir())
    assert list((tmp_path / "cache" / "matplotlib").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a home that HOME names")
def test_matplotlib_writes_into_the_users_folder_if_set(home: Path, tmp_path: Path) -> None:
    chosen = {"MPLCONFIGDIR": str(tmp_path / "mine"), "SRS_EVAL_CACHE_DIR": str(tmp_path / "ours")}
    draw_at_home(home, **chosen)
    assert list((tmp_path / "mine").iterdir())
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: it lies elsewhere")
def test_users_matplotlibrc_is_read(home: Path, tmp_path: Path) -> None:
    folder = home / ".config" / "matplotlib"
    folder.mkdir(parents=True)
    (folder / "matplotlibrc").write_text("font.style: italic\n")
    assert draw_at_home(home, SRS_EVAL_CACHE_DIR=str(tmp_path / "cache")) == "italic"
    assert [path.name for path in folder.iterdir()] == ["matplotlibrc"]


# Sizes for papers

NAMES = (
    "GRU-P",
    "FSRS-6 recency",
    "FSRS-6",
    "average",
    "HLR",
    "SM2",
    "FSRS-5 S0 only",
    "FSRS-4.5",
    "FSRS-6 two buttons, on later days",
    "DASH",
    "FSRSv4",
    "Ebisu",
)
SIZES = (1_500.0, 3_200.0, 4_600.0, 7_100.0, 9_600.0, 14_000.0, 22_000.0, 33_000.0, 124_000.0)


def draw_means(count: int) -> Callable[[], Any]:
    middle = np.linspace(0.3, 0.6, count)
    rows = np.column_stack([middle, middle - 0.02, middle + 0.02])
    series = [("by users", rows.tolist()), ("by reviews", (rows - 0.04).tolist())]
    return pictures.interval_chart(NAMES[:count], series, "log loss", [0.36, 0.4])


def draw_distribution(count: int) -> Callable[[], Any]:
    middle = np.linspace(0.3, 0.6, count)
    percentiles = np.outer([0.1, 0.3, 0.6, 1.0, 1.4, 2.2, 3.3], middle)
    return pictures.distribution_chart(NAMES[:count], percentiles, "log loss")


def draw_by_size(count: int) -> Callable[[], Any]:
    height = np.linspace(0.9, 0.4, len(SIZES))
    series = [(name, (height + 0.02 * k).tolist()) for k, name in enumerate(NAMES[:count])]
    words = "evaluated reviews of a user (median of each group)"
    return pictures.line_chart(SIZES, series, words, "mean log loss", logarithmic=True)


KINDS = {"means": draw_means, "distribution": draw_distribution, "by size": draw_by_size}


def draw_resized(draw: Callable[[], Any], *inches: float) -> Any:
    """Draw at a size and lay out."""
    import matplotlib

    with matplotlib.rc_context(fname=pictures._STYLE_FILE), warnings.catch_warnings():
        warnings.simplefilter("error")  # as where axes have no room
        drawing = draw()
        pictures._resize(drawing, *inches)
        drawing.draw_without_rendering()
    return drawing


def find_boxes(drawing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the boxes that must not touch, by name: words, and the axes."""
    axes = drawing.axes[0]
    texts = [*axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label]
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.xaxis.get_major_ticks() if left <= tick.get_loc() <= right]
    texts += [tick.label1 for tick in ticks]
    if not pictures._has_rows(axes):
        texts = [text for text in texts if text not in axes.get_yticklabels()]
        texts += [t.label1 for t in axes.yaxis.get_major_ticks() if low <= t.get_loc() <= high]
    for legend in drawing.legends:
        texts += legend.get_texts()
    for text in texts:
        if text.get_text():
            yield text.get_text(), text.get_window_extent()
    yield "axes", axes.get_window_extent()


@pytest.mark.parametrize("width", slow_except({3.3}, [2.5, 3.3, 6.5, 14.0]))
@pytest.mark.parametrize("count", slow_except({6}, [1, 2, 3, 6, 8, 12]))
@pytest.mark.parametrize("kind", KINDS)
def test_boxes_of_a_picture_do_not_overlap_at_any_width(
    kind: str, count: int, width: float
) -> None:
    drawing = draw_resized(KINDS[kind](min(count, 8) if kind == "by size" else count), width)
    assert drawing.get_size_inches()[0] == width
    named_boxes = list(find_boxes(drawing))
    for (first_name, box), (second_name, second_box) in combinations(named_boxes, 2):
        apart = (
            box.x1 <= second_box.x0
            or second_box.x1 <= box.x0
            or box.y1 <= second_box.y0
            or second_box.y1 <= box.y0
        )
        assert apart, (first_name, second_name)
    for name, box in named_boxes:
        assert min(box.x0, box.y0) >= 0, name
        assert box.x1 <= drawing.bbox.x1, name
        assert box.y1 <= drawing.bbox.y1, name


@pytest.mark.parametrize("width", slow_except({3.3}, [3.3, 6.5]))
@pytest.mark.parametrize("count", slow_except({6}, [1, 6]))
@pytest.mark.parametrize("kind", KINDS)
def test_axes_have_room_for_every_model(kind: str, count: int, width: float) -> None:
    drawing = draw_resized(KINDS[kind](count), width)
    across, up = pictures._measure_axes(drawing)
    assert across > 0.55 * width
    if kind == "by size":
        assert 0.59 < up / across < 1
    else:
        assert up > 0.15 * count
    smallest = min(text.get_fontsize() for text in drawing.axes[0].get_yticklabels())
    assert smallest > 7


@pytest.mark.parametrize("kind", slow_except({"distribution"}, KINDS))
def test_legend_stands_below_the_axis(kind: str) -> None:
    drawing = draw_resized(KINDS[kind](6), 3.3)
    bottom = drawing.axes[0].xaxis.label.get_window_extent().y0
    assert all(legend.get_window_extent().y1 <= bottom for legend in drawing.legends)
    assert len(drawing.legends) == (kind != "distribution")


def test_chosen_height_is_kept() -> None:
    assert draw_resized(draw_means(4), 6.5, 4.0).get_size_inches().tolist() == [6.5, 4.0]


def test_height_without_room_is_refused() -> None:
    with pytest.raises(InputError, match=r"^--inches 3\.3x1: a picture needs a height of [12]\.\d"):
        pictures.render_picture("pdf", Picture("means", "means", draw_means(6)), (3.3, 1.0))
