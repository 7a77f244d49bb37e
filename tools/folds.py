"""Draw the folds and splits of docs/protocol.md: what a model is fitted to, and what it predicts.

    python -m tools.folds [--to docs]

The drawings have a background and colours of their own, for light and for dark pages.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
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
SPLITS: tuple[tuple[str, tuple[tuple[str, int, int], ...]], ...] = (
    ("--train-until", (("fitted", 1, 4), ("predicted", 5, 2))),
    ("  --train-months", (("later", 1, 2), ("fitted", 3, 2), ("predicted", 5, 2))),
    (
        "--train-months, fold 3",
        (("later", 1, 1), ("fitted", 2, 2), ("predicted", 4, 1), ("later", 5, 1), ("later", 6, 1)),
    ),
    ("--split cards: part 1", (("predicted", 1, 6),)),
    ("  parts 2 to 5", (("fitted", 1, 6),)),
)
"""Rows of the drawing of splits: a label, and bars with their kind, first part and parts."""
SPLITS_LEFT = 196
SPLITS_PART_WIDTH = 84
USERS_LEFT = 84
USERS_PART_WIDTH = 120
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


def draw_bar(
    kind: str,
    row: int,
    first: int,
    count: int = 1,
    *,
    left: int = LEFT,
    part_width: int = PART_WIDTH,
) -> str:
    """Draw so many parts of a learner's reviews, from the part `first` (from 1) on, as one bar."""
    x = left + (first - 1) * part_width
    y = TOP + row * ROW_HEIGHT
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{count * part_width - GAP}" '
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
    title = "Five folds: each model is fitted to what came before the part that it predicts"
    return draw_page(title, shapes, below + 44)


def draw_splits() -> str:
    """Draw a row for each split of `SPLITS`."""
    shapes = []
    end = SPLITS_LEFT + PARTS * SPLITS_PART_WIDTH - GAP
    shapes.append(draw_text("A learner’s reviews in order of time", SPLITS_LEFT, 26))
    shapes.append(f'<path class="axis" d="M{SPLITS_LEFT} 40H{end}m-7 -5l7 5l-7 5"/>')
    for row, (label, bars) in enumerate(SPLITS):
        line = TOP + row * ROW_HEIGHT + BAR_HEIGHT / 2 + 5
        is_continued = label.startswith(" ")
        shapes.append(draw_text(label.strip(), 36 if is_continued else 20, line))
        for kind, first, count in bars:
            shapes.append(
                draw_bar(kind, row, first, count, left=SPLITS_LEFT, part_width=SPLITS_PART_WIDTH)
            )
            if kind == "later":
                continue
            begin = SPLITS_LEFT + (first - 1) * SPLITS_PART_WIDTH
            middle = begin + (count * SPLITS_PART_WIDTH - GAP) / 2
            names = "middle on-colour" if kind == "predicted" else "middle"
            shapes.append(draw_text(kind, middle, line, names))
    title = "Other splits: by date, with a window of training, and by card"
    return draw_page(title, shapes, TOP + len(SPLITS) * ROW_HEIGHT + 8)


def draw_users() -> str:
    """Draw a row for each part of the users, with the parts that a model is first trained on."""
    shapes = []
    end = USERS_LEFT + FOLDS * USERS_PART_WIDTH - GAP
    shapes.append(draw_text("All users, dealt at random into five parts", USERS_LEFT, 26))
    shapes.append(f'<path class="axis" d="M{USERS_LEFT} 40H{end}"/>')
    for evaluated in range(1, FOLDS + 1):
        row = evaluated - 1
        line = TOP + row * ROW_HEIGHT + BAR_HEIGHT / 2 + 5
        shapes.append(draw_text(f"part {evaluated}", 20, line))
        for part in range(1, FOLDS + 1):
            is_evaluated = part == evaluated
            shapes.append(
                draw_bar(
                    "predicted" if is_evaluated else "fitted",
                    row,
                    part,
                    left=USERS_LEFT,
                    part_width=USERS_PART_WIDTH,
                )
            )
            middle = USERS_LEFT + (part - 1) * USERS_PART_WIDTH + (USERS_PART_WIDTH - GAP) / 2
            if is_evaluated:
                shapes.append(draw_text("evaluated", middle, line, "middle on-colour"))
            else:
                shapes.append(draw_text("trained on", middle, line, "middle"))
    below = TOP + FOLDS * ROW_HEIGHT + 16
    note = "Each evaluated user’s own reviews are then split by time into the five folds."
    shapes.append(draw_text(note, USERS_LEFT, below))
    title = "A split by users: for each part, a model is first trained on the users of the others"
    return draw_page(title, shapes, below + 18)


def draw_page(title: str, shapes: Sequence[str], height: int) -> str:
    """Return a drawing of these shapes on a page with a border."""
    page = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    lines = "\n".join((page, *shapes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n{lines}\n</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=Path("docs"))
    options = parser.parse_args()
    drawings = {"folds": draw_folds(), "splits": draw_splits(), "users": draw_users()}
    for name, drawing in drawings.items():
        (options.to / f"{name}.svg").write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main()
