"""Draw charts with matplotlib for a light background; a dark page inverts them."""

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

    from srs_eval.advice.shown.predicted import RecallCurve
    from srs_eval.engine.ranking import RankingGroup
    from srs_eval.engine.result import Result
    from srs_eval.engine.session import LearnerSession
    from srs_eval.models.configurations import Configuration
    from srs_eval.stats.intervals import CalibrationGraph

_Arguments = ParamSpec("_Arguments")
_Series = Sequence[tuple[str, Sequence[tuple[float, float, float]]]]
"""Name and points (estimate, low, high) of each series; nan where there is no figure."""
_STYLE_FILE = Path(__file__).with_name("pictures.mplstyle")
_DOTS_PER_INCH = 72  # so that a point is a unit of the SVG
_PNG_SCALE = 2.5
_WIDTH = 860.0
SMALL_SIZE = 440.0, 330.0  # points; of a picture that stands beside others or fills a phone
_INK = "#1b1f24"
_SOFT_INK = "#5b6570"
# Colour-blind people can tell these apart, too.
_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#a8478a",
    "#b07d00",
    "#3d97d3",
    "#6b4fc8",
    "#6f7780",
)
_GUIDE_LINE_STYLE: dict[str, Any] = {"color": _SOFT_INK, "linewidth": 1, "linestyle": (0, (4, 3))}
"""Style of a reference line."""
_SIDE_LABEL_STYLE: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 10, "color": _INK}
_MARKERS = "osD^vPX*"
_NARROW_LABEL_LENGTH = 30  # letters in a line of a label, in a narrow picture
_MAX_TICK_LABELS = 5  # most labels below an axis
_MAX_SHORT_TICK_LABELS = 8  # most labels of three letters or fewer
_OUTLIER_FACTOR = 3.0  # times the median's distance from the best; values beyond hide the rest
_MIN_VALUES_TO_CUT = 5  # with fewer values, an axis leaves none out
_MIN_TEXT_SCALE = 0.7  # of text in a picture that is shrunk
_MEASURING_HEIGHT = 30.0  # inches; tall enough to measure what surrounds the axes
_MIN_ASPECT_RATIO = 0.6  # height of axes divided by their width
_LINE_SPACING = 1.25  # height of a row divided by its label's
_MAX_NAME_SHARE = 0.4  # share of the width that names of rows may take
_SPARE_LETTERS = 6  # added to a line, so that words of several lengths fill it
_MAX_LEGEND_COLUMNS = 4  # of a legend
_UNSURE_COLOUR = "#d5dade"  # of hatched squares
CALIBRATION_BINS = 20  # for one learner
_MIN_REVIEWS_IN_BIN = 10  # reviews in a point of a calibration graph


def _deferred(draw: Callable[_Arguments, Figure]) -> Callable[_Arguments, Callable[[], Figure]]:
    """Defer a drawing until it is needed, because matplotlib is slow to load."""

    @wraps(draw)
    def defer(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> Callable[[], Figure]:
        return lambda: draw(*arguments, **options)

    return defer


def render_picture(form: str, picture: Picture, inches: Sequence[float] = ()) -> bytes:
    """Render a picture as "png", "svg" or "pdf".

    `inches` are its width and optionally its height. Raises InputError if they are too small.
    """
    if form == "svg":
        return render_svg(picture, inches)[0]
    if form == "png":
        dots_per_inch = 300 if inches else _DOTS_PER_INCH * _PNG_SCALE
        content, _ = _save_to_bytes(
            picture,
            inches,
            format=form,
            facecolor="#ffffff",
            metadata={"Software": None},
            dpi=dots_per_inch,
        )
        return content
    # Without metadata, equal pictures are equal files.
    no_metadata = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    content, _ = _save_to_bytes(picture, inches, format=form, metadata=no_metadata)
    return content


def render_svg(picture: Picture, inches: Sequence[float] = ()) -> tuple[bytes, float]:
    """Render a picture as SVG; return the document and its width in points."""
    content, width = _save_to_bytes(
        picture, inches, format="svg", transparent=True, metadata={"Date": None}
    )
    # A page needs no metadata and no comments, and two decimals of a point are enough.
    content = re.sub(rb"<metadata>.*?</metadata>|<!--.*?-->", b"", content, flags=re.S)
    return re.sub(rb"(\d\.\d\d)\d+", rb"\1", content), width


def draw_figure(draw: Callable[[], Figure]) -> Figure:
    """Draw a picture in srs-eval's style for a notebook."""
    _load_matplotlib()
    import matplotlib

    with matplotlib.rc_context(fname=_STYLE_FILE):
        return draw()


@cache
def _figure_class() -> type[Figure]:
    """Return the class of all figures, whose import takes a while."""
    from matplotlib.figure import Figure

    class FigureOfNotebook(Figure):
        """Figure that notebooks show, also where pyplot is never imported."""

        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=_PNG_SCALE * _DOTS_PER_INCH / 2)
            return content.getvalue()

    return FigureOfNotebook


@cache
def _load_matplotlib() -> None:
    """Import matplotlib, which writes its list of the machine's fonts into srs-eval's own cache.

    If the user has already imported it or set MPLCONFIGDIR, nothing is changed. The user's
    matplotlibrc applies in any case.
    """
    if "matplotlib" in sys.modules or os.environ.get("MPLCONFIGDIR"):
        return
    variables = {"MPLCONFIGDIR": str(cache_dir() / "matplotlib")}
    settings = _find_matplotlibrc()
    if settings.is_file() and not os.environ.get("MATPLOTLIBRC"):
        variables["MATPLOTLIBRC"] = str(settings)
    os.environ.update(variables)
    try:
        import matplotlib
        import matplotlib.font_manager

        matplotlib.get_configdir()  # both are cached, so the variables can go
        matplotlib.get_cachedir()
    finally:
        for name in variables:
            del os.environ[name]


def _find_matplotlibrc() -> Path:
    """Return the path of the user's matplotlib settings, which need not exist."""
    if sys.platform.startswith(("linux", "freebsd")):
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "matplotlib"
    else:
        folder = Path.home() / ".matplotlib"
    return folder / "matplotlibrc"


def _save_to_bytes(
    picture: Picture, inches: Sequence[float], **options: Any
) -> tuple[bytes, float]:
    _load_matplotlib()
    import matplotlib

    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": picture.name}, _STYLE_FILE):
        drawing = picture.draw()
        if inches:
            _resize(drawing, *inches)
        drawing.savefig(content, **options)
    return content.getvalue(), float(drawing.get_size_inches()[0]) * _DOTS_PER_INCH


def _resize(drawing: Figure, width: float, height: float | None = None) -> None:
    """Give a drawing a size in inches; its text shrinks with it while it stays readable.

    Without a height it gets one that has room for everything. Axes of a fixed aspect keep it, and
    their text shrinks with them. Raises InputError if nothing could be seen at that height.
    """
    axes = drawing.axes[0]
    old_width, old_height = drawing.get_size_inches()
    proportional_height = old_height * width / old_width
    if axes.get_aspect() != "auto":
        height = height or proportional_height
        drawing.set_size_inches(width, height)
        _shrink(drawing, min(width / old_width, height / old_height, 1))
        return
    drawing.draw_without_rendering()
    _, old_axes_height = _measure_axes(drawing)
    scale = width / old_width
    if height is not None:
        scale = min(scale, height / old_height)
    scale = max(min(scale, 1), _MIN_TEXT_SCALE)
    _shrink(drawing, scale)
    drawing.set_size_inches(width, _MEASURING_HEIGHT)
    _wrap_labels(drawing)
    if drawing.legends:
        _put_legend_below(drawing)
    drawing.draw_without_rendering()
    axes_width, axes_height = _measure_axes(drawing)
    margins = _MEASURING_HEIGHT - axes_height
    if _has_rows(axes):
        min_axes_height = _measure_rows(drawing)
        new_axes_height = max(old_axes_height * scale, min_axes_height)
    else:
        min_axes_height = _MIN_ASPECT_RATIO * axes_width
        new_axes_height = max(proportional_height - margins, min_axes_height)
    if height is not None and height < margins + min_axes_height / 2:
        raise InputError(
            f"--inches {width:g}x{height:g}: a picture needs a height of "
            f"{margins + min_axes_height:.1f} at "
            "this width; leave the height out, and each gets what it needs."
        )
    drawing.set_size_inches(width, height or margins + new_axes_height)


def _measure_axes(drawing: Figure) -> tuple[float, float]:
    """Return width and height of the area within the axes in inches, as last drawn."""
    box = drawing.axes[0].get_window_extent()
    return box.width / drawing.dpi, box.height / drawing.dpi


def _shrink(drawing: Figure, scale: float) -> None:
    """Make text, markers and lines smaller."""
    from matplotlib.collections import LineCollection
    from matplotlib.text import Text

    axes: Any = drawing.axes[0]
    x_fontsize = axes.get_xticklabels()[0].get_fontsize()
    y_fontsize = axes.get_yticklabels()[0].get_fontsize()
    text: Any
    for text in drawing.findobj(Text):
        text.set_fontsize(text.get_fontsize() * scale)
    axes.tick_params(axis="x", labelsize=x_fontsize * scale)
    axes.tick_params(axis="y", labelsize=y_fontsize * scale)
    for line in axes.get_lines():
        line.set_markersize(line.get_markersize() * scale)
        line.set_linewidth(line.get_linewidth() * scale)
    for collection in axes.collections:
        if isinstance(collection, LineCollection):
            collection.set_linewidth(np.multiply(collection.get_linewidth(), scale).tolist())


def _has_rows(axes: Axes) -> bool:
    """Return True if the axes have a row for each label in place of a vertical scale."""
    from matplotlib.ticker import FixedLocator

    return isinstance(axes.yaxis.get_major_locator(), FixedLocator)


def _measure_rows(drawing: Figure) -> float:
    """Return the height in inches that rows need so that their labels do not touch."""
    heights = [text.get_window_extent().height for text in drawing.axes[0].get_yticklabels()]
    return len(heights) * max(heights) * _LINE_SPACING / drawing.dpi


def _wrap_labels(drawing: Figure) -> None:
    """Break the names of rows and the words below an axis into lines if they are too long."""
    axes = drawing.axes[0]
    if _has_rows(axes):
        drawing.draw_without_rendering()
        names = [text.get_text() for text in axes.get_yticklabels()]
        widest = max(text.get_window_extent().width for text in axes.get_yticklabels())
        room = _MAX_NAME_SHARE * drawing.bbox.width
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
    """Move the legend of a drawing to its foot, in as many columns as there is room for."""
    (legend,) = drawing.legends
    fontsize = legend.get_texts()[0].get_fontsize()
    handles, names = drawing.axes[0].get_legend_handles_labels()
    for columns in range(min(_MAX_LEGEND_COLUMNS, len(names)), 0, -1):
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


def _make_canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty drawing of a size in points, and its axes."""
    _load_matplotlib()
    inches = (width / _DOTS_PER_INCH, height / _DOTS_PER_INCH)
    figure = _figure_class()(figsize=inches, dpi=_DOTS_PER_INCH, layout="constrained")
    return figure, figure.add_subplot()


def _series_colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _series_marker(number: int) -> str:
    return _MARKERS[number % len(_MARKERS)]


@_deferred
def interval_chart(
    labels: Sequence[str],
    series: _Series,
    unit: str,
    baselines: Sequence[float] = (),
    own: int | None = None,
    width: float = _WIDTH,
) -> Figure:
    """Draw a dot with whiskers for each label and series: (estimate, low, high), nan for none.

    `baselines` are lines through all labels, one for each series. A value far beyond the others is
    an arrow with its figure. `own` is the index of a label that stands out.
    """
    from matplotlib.ticker import MaxNLocator

    axis_start, axis_end = _axis_limits(series)
    row_height = 17.0 * len(series) + 7
    figure, axes = _make_canvas(width, 70 + row_height * len(labels))
    rows = np.arange(len(labels), dtype=float)
    for number, (name, values) in enumerate(series):
        estimate, low, high = np.array(values, dtype=float).reshape(-1, 3).T
        # The series of a label lie below one another, centred on its row.
        y = rows + (number - (len(series) - 1) / 2) * 0.62 / max(len(series), 1)
        colour = _series_colour(number)
        axes.hlines(y, low, high, color=colour, linewidth=2)
        axes.plot(estimate, y, _MARKERS[number], color=colour, markersize=6, label=name, zorder=3)
        for row in np.flatnonzero(estimate > axis_end):
            axes.annotate(
                f"{estimate[row]:.2f} →",
                (axis_end, y[row]),
                (-2, 0),
                textcoords="offset points",
                **_SIDE_LABEL_STYLE,
            )
        if number == 0 and own is not None:
            axes.hlines(y[own], low[own], high[own], color=_COLOURS[1], linewidth=3)
            axes.plot(estimate[own], y[own], "*", color=_COLOURS[1], markersize=13, zorder=4)
    if np.isfinite(axis_end):
        axes.set_xlim(axis_start - 0.04 * (axis_end - axis_start), axis_end)
        unit = f"{unit}; →: beyond the axis"
    for number, baseline in enumerate(baselines):
        style = dict(_GUIDE_LINE_STYLE)
        if len(series) > 1:
            style["color"] = _series_colour(number)
        axes.axvline(baseline, **style, zorder=0, label=f"baseline {series[number][0]}")
    row_labels = labels
    if width < _WIDTH:
        row_labels = [fill(label, _NARROW_LABEL_LENGTH) for label in labels]
    axes.set_yticks(rows, row_labels)
    if width < _WIDTH:
        axes.tick_params(axis="y", labelsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=unit)
    if own is not None:
        axes.get_yticklabels()[own].set(color=_COLOURS[1], weight="bold")
    axes.grid(axis="x")
    if len(series) > 1:
        _add_legend(axes)
    return figure


def _axis_limits(series: _Series) -> tuple[float, float]:
    """Return the ends of an axis that leaves out far-off values, which would hide the rest.

    The second end is inf if no value is far off: the axis is then not limited.
    """
    triples = [triple for _, triples_of_series in series for triple in triples_of_series]
    values = np.array(triples, dtype=float).reshape(-1, 3)
    values = values[np.isfinite(values[:, 0])]
    if len(values) < _MIN_VALUES_TO_CUT:
        return math.nan, math.inf
    least = np.nanmin(values)
    median = float(np.median(np.fmax(values[:, 0], values[:, 2])))
    end = median + _OUTLIER_FACTOR * (median - least)
    if values[:, 0].max() > end:
        return least, end
    return least, math.inf


def ranking_chart(group: RankingGroup, own: int | None = None) -> Callable[[], Figure]:
    """Draw a ranking's log losses with 95 % intervals, the baseline as a line; `own` stands out."""
    losses = [line.log_loss for line in group.lines]
    bounds = [(loss.estimate, loss.low, loss.high) for loss in losses]
    baselines = []
    if group.baseline is not None:
        baselines.append(group.baseline.log_loss.estimate)
    return interval_chart(
        [line.configuration.words for line in group.lines],
        [("log loss", bounds)],
        "log loss, 95 % intervals",
        baselines,
        own=own,
        width=SMALL_SIZE[0],
    )


@_deferred
def line_chart(
    x: Sequence[float],
    series: Sequence[tuple[str, Sequence[Any]]],
    x_label: str,
    y_label: str,
    *,
    logarithmic: bool = False,
    ticks: Sequence[str] = (),
    has_bands: bool = False,
) -> Figure:
    """Draw a line with markers for each series.

    Its values are figures or (estimate, low, high), which get whiskers or, if `has_bands`, a band.
    `ticks` are labels for x in a small picture; if there are many, only some are shown.
    """
    size = SMALL_SIZE if ticks else (_WIDTH, 400)
    figure, axes = _make_canvas(*size)
    for number, (name, values) in enumerate(series):
        colour = _series_colour(number)
        columns = np.array(values, dtype=float).reshape(len(values), -1).T
        axes.plot(
            x,
            columns[0],
            color=colour,
            marker=_series_marker(number),
            markersize=5,
            linewidth=1.8,
            linestyle="-" if number < len(_COLOURS) else "--",
            label=name,
        )
        if len(columns) > 1 and has_bands:
            axes.fill_between(x, columns[1], columns[2], color=colour, alpha=0.15, linewidth=0)
        elif len(columns) > 1:
            axes.vlines(x, columns[1], columns[2], color=colour, linewidth=1)
    if logarithmic and any(np.isfinite(line.get_ydata()).any() for line in axes.lines):
        axes.set_xscale("log")  # fails where no point is drawn
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if ticks:
        _label_ticks(axes, ticks)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.grid()
    if len(series) > 1:
        _add_legend(axes)
    return figure


@_deferred
def band_chart(
    values: Sequence[tuple[float, float, float]],
    ticks: Sequence[str],
    y_label: str,
    *,
    zero: bool = False,
    mark: int | None = None,
) -> Figure:
    """Draw a line through estimates with the band between low and high.

    `zero` adds a line at 0, `mark` a vertical line at an index.
    """
    figure, axes = _make_canvas(*SMALL_SIZE)
    estimate, low, high = np.array(values, dtype=float).reshape(-1, 3).T
    x = np.arange(len(estimate))
    colour = _COLOURS[0]
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, estimate, color=colour, linewidth=1.2)
    if zero:
        axes.axhline(0, **_GUIDE_LINE_STYLE)
    if mark is not None:
        axes.axvline(mark, **_GUIDE_LINE_STYLE)
    _label_ticks(axes, ticks)
    axes.set_ylabel(y_label)
    axes.grid(axis="y")
    return figure


@_deferred
def calibration_chart(
    graphs: Sequence[tuple[str, CalibrationGraph]], size: tuple[float, float] = (520, 480)
) -> Figure:
    """Draw recalled over predicted recall with 95 % intervals; the diagonal is perfect."""
    figure, axes = _make_canvas(*size)
    least = 1.0
    for number, (name, graph) in enumerate(graphs):
        filled = graph.count >= _MIN_REVIEWS_IN_BIN
        colour = _series_colour(number)
        predicted = graph.predicted[filled]
        low = graph.low[filled]
        axes.vlines(predicted, low, graph.high[filled], color=colour)
        axes.plot(
            predicted,
            graph.observed[filled],
            color=colour,
            linewidth=0.8,
            marker=_series_marker(number),
            markersize=6,
            label=name,
        )
        least = min([least, *predicted, *low])
    least = max(0.0, least - 0.03)
    axes.plot([least, 1], [least, 1], **_GUIDE_LINE_STYLE)
    axes.set(xlim=(least, 1.005), ylim=(least, 1.005), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set(xlabel="predicted recall", ylabel="recalled")
    axes.grid()
    _add_legend(axes)
    return figure


@_deferred
def forgetting_curve_chart(curves: Sequence[RecallCurve]) -> Figure:
    """Draw recall over the days since the previous review.

    Points with 95 % intervals show what was recalled, lines what was expected.
    """
    figure, axes = _make_canvas(520, 400)
    for number, curve in enumerate(curves):
        colour = _series_colour(number)
        bounds = [(interval.low, interval.estimate, interval.high) for interval in curve.recalled]
        low, recalled, high = np.array(bounds).T
        axes.vlines(curve.days, low, high, linewidth=1, color=colour)
        axes.plot(curve.days, curve.expected, marker="_", linewidth=1.2, color=colour)
        axes.plot(
            curve.days, recalled, _MARKERS[number], markersize=6, label=curve.name, color=colour
        )
    last_day = max((day for curve in curves for day in curve.days), default=1)
    axes.set(
        xscale="log", xlabel="days since the previous review", ylabel="recalled; lines: expected"
    )
    ticks = [2**k for k in range(12) if 2**k <= 1.5 * last_day]
    axes.set_xticks(ticks, map(str, ticks))
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_ylim(top=1.005)
    axes.grid()
    _add_legend(axes)
    return figure


def render_calibration_png(
    session: LearnerSession, configuration: Configuration, user: int, result: Result
) -> bytes:
    """Render the calibration of one configuration on one user, for `srs-eval batch --plot`."""
    from srs_eval.stats.intervals import compute_calibration_graph

    name = f"{configuration.name}, user {user}"
    chart = calibration_chart([(name, compute_calibration_graph(result.y, result.p))])
    return render_picture("png", Picture(name, name, chart))


@_deferred
def distribution_chart(labels: Sequence[str], percentiles: FloatArray, unit: str) -> Figure:
    """Draw a bar for each label from percentiles (7, k).

    The thin line spans 1-99, the thicker one 5-95, the box 25-75; a line marks the median.
    """
    figure, axes = _make_canvas(_WIDTH, 70 + 24 * len(labels))
    rows = np.arange(len(labels))
    p1, p5, p25, p50, p75, p95, p99 = percentiles
    colour = _COLOURS[0]
    axes.hlines(rows, p1, p99, color=colour, linewidth=1)
    axes.hlines(rows, p5, p95, color=colour, linewidth=3)
    axes.barh(rows, p75 - p25, left=p25, height=0.55, color=colour)
    axes.vlines(p50, rows - 0.4, rows + 0.4, color=_INK, linewidth=2.5)
    axes.set_yticks(rows, labels)
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=unit)
    axes.grid(axis="x")
    return figure


@_deferred
def matrix_chart(
    labels: Sequence[str], squares: Sequence[Sequence[tuple[str, float] | None]]
) -> Figure:
    """Draw a square with a text and a shade for each pair: the row's model and the column's.

    Shades go from 1, dark blue, to 0, bright yellow, which differ in grey, too; nan is hatched.
    """
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    count = len(labels)
    # Sizes in points. Large matrices have smaller squares and letters.
    square_side = 46.0 if count <= 14 else max(24.0, 1040.0 / count)
    label_size = 10.0 if count <= 14 else square_side * 0.31
    texts = [square[0] for row_squares in squares for square in row_squares if square]
    longest = 1  # most letters in a line
    most_lines = 1
    for text in texts:
        lines = text.split("\n")
        longest = max(longest, *map(len, lines))
        most_lines = max(most_lines, len(lines))
    # A letter is at most 0.66 times as wide as its font size, a line 1.3 times as high.
    text_size = min(label_size, square_side / (0.66 * longest), square_side / (1.3 * most_lines))
    side = square_side * count + 8.5 * label_size + 40  # the squares, their labels, margins
    figure, axes = _make_canvas(side, side)
    axes.spines[:].set_visible(False)
    for row, row_squares in enumerate(squares):
        for column, square in enumerate(row_squares):
            if square is None:
                continue
            text, shade = square
            is_unsure = math.isnan(shade)
            style: dict[str, Any] = {}
            if is_unsure:
                style["facecolor"] = "w"
                style["edgecolor"] = _UNSURE_COLOUR
                style["hatch"] = "////"
            else:
                style["facecolor"] = colormaps["cividis"](1 - shade)
            corner = (column - 0.48, row - 0.48)
            axes.add_patch(Rectangle(corner, 0.96, 0.96, linewidth=0, **style))
            label = axes.text(column, row, text, ha="center", va="center", fontsize=text_size)
            label.set_color("k" if is_unsure or shade < 0.5 else "w")
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
    options: dict[str, Any] = {"fontsize": max(label_size, 7.5), "color": _INK}
    axes.set_xticks(range(count), labels, rotation=50, ha="left", rotation_mode="anchor", **options)
    axes.set_yticks(range(count), labels, **options)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    return figure


def _label_ticks(axes: Axes, ticks: Sequence[str]) -> None:
    is_short = max(map(len, ticks)) <= 3
    step = math.ceil(len(ticks) / (_MAX_SHORT_TICK_LABELS if is_short else _MAX_TICK_LABELS))
    axes.set_xticks(range(0, len(ticks), step), ticks[::step])


def _add_legend(axes: Axes, columns: int = 0) -> None:
    if columns == 0:
        columns = 4 if axes.bbox.width > SMALL_SIZE[0] else 1
    axes.figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=11,
        labelcolor=_INK,
    )
