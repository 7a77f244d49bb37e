"""Draw the five folds of docs/protocol.md: what a model is fitted to, and what it predicts.

    python -m tools.folds [--to docs/folds.svg]

The drawing has a background and colours of its own, for light and for dark pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

FOLDS = 5
PARTS = FOLDS + 1
WIDTH = 720
LEFT = 84  # where the bars begin
TOP = 58
PART_WIDTH = 100
BAR_HEIGHT = 26
ROW_HEIGHT = 38
GAP = 3  # between bars
STYLE = """
    text { font: 14px system-ui, "DejaVu Sans", sans-serif; fill: #24292f }
    .page { fill: #ffffff; stroke: #d0d7de }
    .fitted { fill: #b6c6d8 }
    .predicted { fill: #c2410c }
    .later { fill: none; stroke: #8c959f; stroke-dasharray: 3 3 }
    .axis { fill: none; stroke: #57606a; stroke-width: 1.5 }
    .middle { text-anchor: middle }
    .on-colour { fill: #ffffff }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .page { fill: #0d1117; stroke: #30363d }
      .fitted { fill: #3b536e }
      .predicted { fill: #c2410c }
      .later { stroke: #6e7681 }
      .axis { stroke: #9198a1 }
      .on-colour { fill: #ffffff }
    }
"""


def draw_bar(kind: str, row: int, first: int, count: int = 1) -> str:
    """Draw so many parts of a learner's reviews, from the part `first` (from 1) on, as one bar."""
    x = LEFT + (first - 1) * PART_WIDTH
    y = TOP + row * ROW_HEIGHT
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{count * PART_WIDTH - GAP}" '
        f'height="{BAR_HEIGHT}" rx="3"/>'
    )


def draw_text(text: str, x: float, y: float, names: str = "") -> str:
    attribute = f' class="{names}"' if names else ""
    return f'<text{attribute} x="{x:g}" y="{y:g}">{text}</text>'


def draw_folds() -> str:
    """Draw a row for each fold, and a last row with everything that is evaluated."""
    shapes = []
    end = LEFT + PARTS * PART_WIDTH - GAP
    shapes.append(draw_text("A learner’s reviews in order of time, in six parts", LEFT, 26))
    shapes.append(f'<path class="axis" d="M{LEFT} 40H{end}m-7 -5l7 5l-7 5"/>')
    for fold in range(1, FOLDS + 1):
        row = fold - 1
        line = TOP + row * ROW_HEIGHT + BAR_HEIGHT / 2 + 5
        shapes.append(draw_text(f"fold {fold}", 20, line))
        shapes.append(draw_bar("fitted", row, 1, fold))
        shapes.append(draw_text("fitted", LEFT + (fold * PART_WIDTH - GAP) / 2, line, "middle"))
        shapes.append(draw_bar("predicted", row, fold + 1))
        middle = LEFT + fold * PART_WIDTH + (PART_WIDTH - GAP) / 2
        shapes.append(draw_text("predicted", middle, line, "middle on-colour"))
        for part in range(fold + 2, PARTS + 1):
            shapes.append(draw_bar("later", row, part))
    below = TOP + FOLDS * ROW_HEIGHT + 10
    for first, count, name in ((1, 1, "never evaluated"), (2, FOLDS, "evaluated, each part once")):
        left = LEFT + (first - 1) * PART_WIDTH
        right = left + count * PART_WIDTH - GAP
        shapes.append(f'<path class="axis" d="M{left} {below}v8H{right}v-8"/>')
        shapes.append(draw_text(name, (left + right) / 2, below + 26, "middle"))
    height = below + 44
    page = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    title = "Five folds: each model is fitted to what came before the part that it predicts"
    lines = "\n".join((page, *shapes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n{lines}\n</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=Path("docs/folds.svg"))
    options = parser.parse_args()
    options.to.write_text(draw_folds(), encoding="utf-8")


if __name__ == "__main__":
    main()
