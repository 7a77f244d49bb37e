"""Charts, drawn with matplotlib for a light background; a page in the dark inverts them."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.paths import cache_dir
from srs_eval.data.reviews import FloatArray
from srs_eval.report.document import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from srs_eval.advice.shown.predicted import Curve
    from srs_eval.engine.ranking import Group
    from srs_eval.engine.session import Result, Session
    from srs_eval.models.configurations import Configuration
    from srs_eval.stats.intervals import CalibrationGraph

_Given = ParamSpec("_Given")
_Series = Sequence[tuple[str, Sequence[tuple[float, float, float]]]]
"""Names, each with (estimate, low, high); nan for none."""
_STYLE = Path(__file__).with_name("pictures.mplstyle")
_DOTS_PER_INCH = 72  # so that a point is a unit of the SVG
_PNG_SCALE = 2.5
_WIDTH = 860.0
SMALL = 440.0, 330.0  # points of a picture that stands beside others, or fills a phone
_INK, _SOFT = "#1b1f24", "#5b6570"
# Told apart by the colour-blind, too.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#a8478a"),
    *("#b07d00", "#3d97d3", "#6b4fc8", "#6f7780"),
)
_GUIDE: dict[str, Any] = {"color": _SOFT, "linewidth": 1, "linestyle": (0, (4, 3))}
"""How a line to be held against is drawn."""
_BESIDE: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 10, "color": _INK}
_MARKERS = "osD^vPX*"
_NARROW_LABEL = 30  # letters of a line of a label, in a narrow picture
_TICKS = 5  # words below an axis
_FAR_OFF = 3.0  # times the middle's way from the best: what lies beyond that would hide the rest
_LEAST_CUT = 5  # labels from which an axis leaves out what is far off
_LEAST_SCALE = 0.7  # of text in a picture that is made smaller
_ROOM = 30.0  # inches of height in which a picture is measured
_LEAST_FORM = 0.6  # height of axes by their width
_LINE_SPACING = 1.25  # height of a row by that of its label
_MOST_OF_NAMES = 0.4  # share of the width that names of rows may take
_SPARE_LETTERS = 6  # of a line, so that words of several lengths fill it
_MOST_COLUMNS = 4  # of a legend
_UNSURE = "#d5dade"  # what is hatched
CALIBRATION_BINS = 20  # of a learner
_FEWEST_IN_BIN = 10  # reviews of a point of a calibration graph


def _drawn(draw: Callable[_Given, Figure]) -> Callable[_Given, Callable[[], Figure]]:
    """A drawing that waits until somebody looks, for matplotlib takes its time to load."""

    @wraps(draw)
    def waiting(*given: _Given.args, **options: _Given.kwargs) -> Callable[[], Figure]:
        return lambda: draw(*given, **options)

    return waiting


def drawn_as(form: str, picture: Picture, inches: Sequence[float] = ()) -> bytes:
    """A picture as "png", "svg" or "pdf"; `inches` are its width and perhaps its height.

    Raises InputError where it has no room in them.
    """
    if form == "svg":
        return svg(picture, inches)[0]
    how: dict[str, Any] = {"metadata": dict.fromkeys(("Creator", "Producer", "CreationDate"))}
    if form == "png":
        dots = 300 if inches else _DOTS_PER_INCH * _PNG_SCALE
        how = {"facecolor": "#ffffff", "metadata": {"Software": None}, "dpi": dots}
    return _saved(picture, inches, format=form, **how)[0]


def svg(picture: Picture, inches: Sequence[float] = ()) -> tuple[bytes, float]:
    """A picture as a document in SVG, and its width in points."""
    nothing = {"Date": None}
    content, width = _saved(picture, inches, format="svg", transparent=True, metadata=nothing)
    content = re.sub(rb"<metadata>.*?</metadata>|<!--.*?-->", b"", content, flags=re.S)
    return re.sub(rb"(\d\.\d\d)\d+", rb"\1", content), width


def as_figure(draw: Callable[[], Figure]) -> Figure:
    """A picture for a notebook, which shows figures where pyplot is loaded."""
    _load_matplotlib()
    from matplotlib import pyplot

    with pyplot.rc_context(fname=_STYLE):
        return draw()


@cache
def _load_matplotlib() -> None:
    """Import matplotlib, which writes a list of the machine's fonts: into srs-eval's own cache.

    Where the person has imported it or set MPLCONFIGDIR, all is as they want it. Their matplotlibrc
    counts in any case.
    """
    if "matplotlib" in sys.modules or os.environ.get("MPLCONFIGDIR"):
        return
    places = {"MPLCONFIGDIR": str(cache_dir() / "matplotlib")}
    settings = _matplotlibrc()
    if settings.is_file() and not os.environ.get("MATPLOTLIBRC"):
        places["MATPLOTLIBRC"] = str(settings)
    os.environ.update(places)
    try:
        import matplotlib
        import matplotlib.font_manager

        matplotlib.get_configdir()  # matplotlib remembers both
        matplotlib.get_cachedir()
    finally:
        for name in places:
            del os.environ[name]


def _matplotlibrc() -> Path:
    """Where a person's settings of matplotlib are, if there are any."""
    if sys.platform.startswith(("linux", "freebsd")):
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "matplotlib"
    else:
        folder = Path.home() / ".matplotlib"
    return folder / "matplotlibrc"


def _saved(picture: Picture, inches: Sequence[float], **how: Any) -> tuple[bytes, float]:
    _load_matplotlib()
    import matplotlib

    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": picture.name}, _STYLE):
        drawing = picture.draw()
        if inches:
            _resize(drawing, *inches)
        drawing.savefig(content, **how)
    return content.getvalue(), float(drawing.get_size_inches()[0]) * _DOTS_PER_INCH


def _resize(drawing: Figure, width: float, height: float | None = None) -> None:
    """Give a drawing a size in inches; its text shrinks with it as far as it stays readable.

    Without a height it gets one that all has room in. Squares keep their form, and their text
    shrinks with them. Raises InputError where nothing could be seen in the height.
    """
    axes = drawing.axes[0]
    before, tall = drawing.get_size_inches()
    in_proportion = tall * width / before
    if axes.get_aspect() != "auto":
        height = height or in_proportion
        drawing.set_size_inches(width, height)
        _shrink(drawing, min(width / before, height / tall, 1))
        return
    drawing.draw_without_rendering()
    _, tall_axes = _axes_inches(drawing)
    shrunk_by = width / before if height is None else min(width / before, height / tall)
    scale = max(min(shrunk_by, 1), _LEAST_SCALE)
    _shrink(drawing, scale)
    drawing.set_size_inches(width, _ROOM)
    _wrap_labels(drawing)
    if drawing.legends:
        _put_legend_below(drawing)
    drawing.draw_without_rendering()
    axes_width, axes_height = _axes_inches(drawing)
    besides = _ROOM - axes_height
    if _has_rows(axes):
        least = _rows_inches(drawing)
        wanted = max(tall_axes * scale, least)
    else:
        least = _LEAST_FORM * axes_width
        wanted = max(in_proportion - besides, least)
    if height is not None and height < besides + least / 2:
        raise InputError(
            f"--inches {width:g}x{height:g}: a picture needs a height of {besides + least:.1f} at "
            "this width; leave the height out, and each gets what it needs."
        )
    drawing.set_size_inches(width, height or besides + wanted)


def _axes_inches(drawing: Figure) -> tuple[float, float]:
    """Width and height of what is within the axes, as last drawn."""
    box = drawing.axes[0].get_window_extent()
    return box.width / drawing.dpi, box.height / drawing.dpi


def _shrink(drawing: Figure, scale: float) -> None:
    """Make text, markers and lines smaller."""
    from matplotlib.collections import LineCollection
    from matplotlib.text import Text

    axes: Any = drawing.axes[0]
    ticks = axes.get_xticklabels()[0].get_fontsize(), axes.get_yticklabels()[0].get_fontsize()
    text: Any
    for text in drawing.findobj(Text):
        text.set_fontsize(text.get_fontsize() * scale)
    axes.tick_params(axis="x", labelsize=ticks[0] * scale)
    axes.tick_params(axis="y", labelsize=ticks[1] * scale)
    for line in axes.get_lines():
        line.set_markersize(line.get_markersize() * scale)
        line.set_linewidth(line.get_linewidth() * scale)
    for collection in axes.collections:
        if isinstance(collection, LineCollection):
            collection.set_linewidth(np.multiply(collection.get_linewidth(), scale).tolist())


def _has_rows(axes: Axes) -> bool:
    """Whether it has a row for each label, in place of a scale from top to bottom."""
    from matplotlib.ticker import FixedLocator

    return isinstance(axes.yaxis.get_major_locator(), FixedLocator)


def _rows_inches(drawing: Figure) -> float:
    """What rows need so that their labels do not touch."""
    heights = [text.get_window_extent().height for text in drawing.axes[0].get_yticklabels()]
    return len(heights) * max(heights) * _LINE_SPACING / drawing.dpi


def _wrap_labels(drawing: Figure) -> None:
    """Break the names of rows and the words below an axis into lines, where they are too long."""
    axes = drawing.axes[0]
    if _has_rows(axes):
        drawing.draw_without_rendering()
        names = [text.get_text() for text in axes.get_yticklabels()]
        widest = max(text.get_window_extent().width for text in axes.get_yticklabels())
        room = _MOST_OF_NAMES * drawing.bbox.width
        if widest > room:
            letters = int(max(map(len, names)) * room / widest)
            axes.set_yticks(axes.get_yticks(), [fill(name, letters) for name in names])
    drawing.draw_without_rendering()
    room = axes.get_window_extent().width
    label = axes.xaxis.label
    lines = math.ceil(label.get_window_extent().width / room)
    if lines > 1:
        text = label.get_text()
        label.set_text(fill(text, len(text) // lines + _SPARE_LETTERS))


def _put_legend_below(drawing: Figure) -> None:
    """The legend of a drawing again, at its foot, in as many columns as there is room for."""
    (legend,) = drawing.legends
    fontsize = legend.get_texts()[0].get_fontsize()
    handles, names = drawing.axes[0].get_legend_handles_labels()
    for columns in range(min(_MOST_COLUMNS, len(names)), 0, -1):
        drawing.legends.clear()
        legend = drawing.legend(
            handles,
            names,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=fontsize,
            labelcolor=_INK,
        )
        drawing.draw_without_rendering()
        if legend.get_window_extent().width <= drawing.bbox.width:
            return


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty drawing of some points with thin axes on two sides."""
    _load_matplotlib()
    from matplotlib.figure import Figure

    size = width / _DOTS_PER_INCH, height / _DOTS_PER_INCH
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained")
    return figure, figure.add_subplot()


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _marker(number: int) -> str:
    return _MARKERS[number % len(_MARKERS)]


@_drawn
def intervals(
    labels: Sequence[str],
    series: _Series,
    unit: str,
    baselines: Sequence[float] = (),
    own: int | None = None,
    width: float = _WIDTH,
) -> Figure:
    """A dot with whiskers for each label and series; (estimate, low, high), nan for none.

    `baselines` are lines through all, of each series its own. What lies far beyond the others is an
    arrow with its figure. `own` is a label that stands out.
    """
    from matplotlib.ticker import MaxNLocator

    least, last = _limits(series)
    step = 17.0 * len(series) + 7
    shown = labels if width >= _WIDTH else [fill(each, _NARROW_LABEL) for each in labels]
    figure, axes = _canvas(width, 70 + step * len(labels))
    places = np.arange(len(labels), dtype=float)
    for number, (name, values) in enumerate(series):
        estimate, low, high = np.array(values, dtype=float).reshape(-1, 3).T
        where = places + (number - (len(series) - 1) / 2) * 0.62 / max(len(series), 1)
        colour = _colour(number)
        axes.hlines(where, low, high, color=colour, linewidth=2)
        axes.plot(
            estimate, where, _MARKERS[number], color=colour, markersize=6, label=name, zorder=3
        )
        for place in np.flatnonzero(estimate > last):
            at = last, where[place]
            said = f"{estimate[place]:.2f} →"
            axes.annotate(said, at, (-2, 0), textcoords="offset points", **_BESIDE)
        if number == 0 and own is not None:
            axes.hlines(where[own], low[own], high[own], color=_COLOURS[1], linewidth=3)
            axes.plot(estimate[own], where[own], "*", color=_COLOURS[1], markersize=13, zorder=4)
    if np.isfinite(last):
        axes.set_xlim(least - 0.04 * (last - least), last)
        unit = f"{unit}; →: beyond the axis"
    for number, baseline in enumerate(baselines):
        of_series = {"color": _colour(number)} if len(series) > 1 else {}
        axes.axvline(
            baseline, **{**_GUIDE, **of_series}, zorder=0, label=f"baseline {series[number][0]}"
        )
    axes.set_yticks(places, shown)
    if width < _WIDTH:
        axes.tick_params(axis="y", labelsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=unit)
    if own is not None:
        axes.get_yticklabels()[own].set(color=_COLOURS[1], weight="bold")
    axes.grid(axis="x")
    if len(series) > 1:
        _legend(axes)
    return figure


def _limits(series: _Series) -> tuple[float, float]:
    """The least of all, and where an axis ends so that what is far off does not hide the rest.

    Inf where nothing is far off.
    """
    values = np.array([each for _, of_one in series for each in of_one], dtype=float).reshape(-1, 3)
    known = values[np.isfinite(values[:, 0])]
    if len(known) < _LEAST_CUT:
        return math.nan, math.inf
    least, middle = np.nanmin(known), float(np.median(np.fmax(known[:, 0], known[:, 2])))
    last = middle + _FAR_OFF * (middle - least)
    return least, last if known[:, 0].max() > last else math.inf


def ranking(group: Group, own: int | None = None) -> Callable[[], Figure]:
    """Log losses of a ranking with 95 % intervals, the baseline as a line; `own` stands out."""
    losses = [(i.estimate, i.low, i.high) for i in (line.log_loss for line in group.lines)]
    return intervals(
        [line.configuration.words for line in group.lines],
        [("log loss", losses)],
        "log loss, 95 % intervals",
        [] if group.baseline is None else [group.baseline.log_loss.estimate],
        own=own,
        width=SMALL[0],
    )


@_drawn
def lines(
    x: Sequence[float],
    series: Sequence[tuple[str, Sequence[Any]]],
    x_label: str,
    y_label: str,
    *,
    logarithmic: bool = False,
    ticks: Sequence[str] = (),
) -> Figure:
    """A line with markers for each series of figures, or of (estimate, low, high) with whiskers.

    `ticks` are words for the x, of a small picture; of many only some are shown.
    """
    figure, axes = _canvas(*(SMALL if ticks else (_WIDTH, 400)))
    for number, (name, values) in enumerate(series):
        colour = _colour(number)
        columns = np.array(values, dtype=float).reshape(len(values), -1).T
        axes.plot(
            x,
            columns[0],
            color=colour,
            marker=_marker(number),
            markersize=5,
            linewidth=1.8,
            linestyle="-" if number < len(_COLOURS) else "--",
            label=name,
        )
        if len(columns) > 1:
            axes.vlines(x, columns[1], columns[2], color=colour, linewidth=1)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if ticks:
        _name_ticks(axes, ticks)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.grid()
    if len(series) > 1:
        _legend(axes)
    return figure


@_drawn
def band(
    values: Sequence[tuple[float, float, float]],
    ticks: Sequence[str],
    y_label: str,
    *,
    zero: bool = False,
    mark: int | None = None,
) -> Figure:
    """A line through (estimate, low, high) with its band; perhaps lines through 0, at a place."""
    figure, axes = _canvas(*SMALL)
    estimate, low, high = np.array(values, dtype=float).reshape(-1, 3).T
    x = np.arange(len(estimate))
    colour = _COLOURS[0]
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, estimate, color=colour, linewidth=1.2)
    if zero:
        axes.axhline(0, **_GUIDE)
    if mark is not None:
        axes.axvline(mark, **_GUIDE)
    _name_ticks(axes, ticks)
    axes.set_ylabel(y_label)
    axes.grid(axis="y")
    return figure


@_drawn
def calibration(
    graphs: Sequence[tuple[str, CalibrationGraph]], size: tuple[float, float] = (520, 480)
) -> Figure:
    """Recalled over predicted recall with 95 % intervals; the diagonal is perfect."""
    figure, axes = _canvas(*size)
    least = 1.0
    for number, (name, graph) in enumerate(graphs):
        filled = graph.count >= _FEWEST_IN_BIN
        colour = _colour(number)
        axes.vlines(graph.predicted[filled], graph.low[filled], graph.high[filled], color=colour)
        look: dict[str, Any] = {"marker": _marker(number), "markersize": 6, "label": name}
        predicted, observed = graph.predicted[filled], graph.observed[filled]
        axes.plot(predicted, observed, color=colour, linewidth=0.8, **look)
        least = min([least, *graph.predicted[filled], *graph.low[filled]])
    least = max(0.0, least - 0.03)
    axes.plot([least, 1], [least, 1], **_GUIDE)
    axes.set(xlim=(least, 1.005), ylim=(least, 1.005), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set(xlabel="predicted recall", ylabel="recalled")
    axes.grid()
    _legend(axes)
    return figure


@_drawn
def curves(found: Sequence[Curve]) -> Figure:
    """Recall over the days since the review before: points with 95 % intervals; lines: expected."""
    figure, axes = _canvas(520, 400)
    for number, curve in enumerate(found):
        look: dict[str, Any] = {"color": _colour(number)}
        low, recalled, high = np.array([(i.low, i.estimate, i.high) for i in curve.recalled]).T
        axes.vlines(curve.days, low, high, linewidth=1, **look)
        axes.plot(curve.days, curve.expected, marker="_", linewidth=1.2, **look)
        axes.plot(curve.days, recalled, _MARKERS[number], markersize=6, label=curve.name, **look)
    last = max((day for curve in found for day in curve.days), default=1)
    axes.set(
        xscale="log", xlabel="days since the review before", ylabel="recalled; lines: expected"
    )
    axes.set_xticks(ticks := [2**k for k in range(12) if 2**k <= 1.5 * last], map(str, ticks))
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_ylim(top=1.005)
    axes.grid()
    _legend(axes)
    return figure


def calibration_png(
    session: Session, configuration: Configuration, user: int, result: Result
) -> bytes:
    """One configuration on one user, for `srs-eval batch --plot`."""
    from srs_eval.stats.intervals import calibration_graph

    name = f"{configuration.name}, user {user}"
    drawn = calibration([(name, calibration_graph(result.y, result.p))])
    return drawn_as("png", Picture(name, name, drawn))


@_drawn
def spreads(labels: Sequence[str], percentiles: FloatArray, unit: str) -> Figure:
    """A bar for each label from percentiles (7, k): thin 1-99, thicker 5-95, box 25-75, median."""
    figure, axes = _canvas(_WIDTH, 70 + 24 * len(labels))
    places = np.arange(len(labels))
    p1, p5, p25, p50, p75, p95, p99 = percentiles
    colour = _COLOURS[0]
    axes.hlines(places, p1, p99, color=colour, linewidth=1)
    axes.hlines(places, p5, p95, color=colour, linewidth=3)
    axes.barh(places, p75 - p25, left=p25, height=0.55, color=colour)
    axes.vlines(p50, places - 0.4, places + 0.4, color=_INK, linewidth=2.5)
    axes.set_yticks(places, labels)
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=unit)
    axes.grid(axis="x")
    return figure


@_drawn
def matrix(labels: Sequence[str], squares: Sequence[Sequence[tuple[str, float] | None]]) -> Figure:
    """A square with a text and a shade for each pair, the row's model against the column's.

    From 1, dark blue, to 0, bright yellow, which shades of grey tell apart, too; nan is hatched.
    """
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    count = len(labels)
    cell = 46.0 if count <= 14 else max(24.0, 1040.0 / count)
    size = 10.0 if count <= 14 else cell * 0.31
    texts = [square[0].split("\n") for of_row in squares for square in of_row if square]
    longest, most = max(map(len, sum(texts, ["-"]))), max(map(len, texts), default=1)
    small = min(size, cell / (0.66 * longest), cell / (1.3 * most))
    side = cell * count + 8.5 * size + 40
    figure, axes = _canvas(side, side)
    axes.spines[:].set_visible(False)
    for row, of_row in enumerate(squares):
        for column, square in enumerate(of_row):
            if square is None:
                continue
            text, shade = square
            if unsure := math.isnan(shade):
                look: dict[str, Any] = {"facecolor": "w", "edgecolor": _UNSURE, "hatch": "////"}
            else:
                look = {"facecolor": colormaps["cividis"](1 - shade)}
            axes.add_patch(Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, linewidth=0, **look))
            ink = "k" if unsure or shade < 0.5 else "w"
            written = axes.text(column, row, text, ha="center", va="center", fontsize=small)
            written.set_color(ink)
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
    options: dict[str, Any] = {"fontsize": max(size, 7.5), "color": _INK}
    axes.set_xticks(range(count), labels, rotation=50, ha="left", rotation_mode="anchor", **options)
    axes.set_yticks(range(count), labels, **options)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    return figure


def _name_ticks(axes: Axes, ticks: Sequence[str]) -> None:
    every = -(-len(ticks) // _TICKS)
    axes.set_xticks(range(0, len(ticks), every), ticks[::every])


def _legend(axes: Axes, columns: int = 0) -> None:
    axes.figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper left",
        ncols=columns or (4 if axes.bbox.width > SMALL[0] else 1),
        frameon=False,
        fontsize=11,
        labelcolor=_INK,
    )
