"""The README's picture: the answers to the demo's learner, drawn by the app itself.

    python benchmarks/picture.py [--to docs/screenshot.svg] [--size 120x36]

Run it after a change of the answers. It takes as long as the app does to answer and to evaluate
the models of group `learner`; without a terminal, in a folder of its own that is deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from srs_eval.app import Options, SrsEvalApp
from srs_eval.data.paths import DEMO_FILE

MOST_SECONDS = 900


async def picture(collection: Path, size: tuple[int, int], state_folder: Path) -> str:
    """The answers' screen (columns, lines) as SVG, once all is answered and evaluated."""
    app = SrsEvalApp(
        collection,
        Options(models="learner", use_cache=False),
        profiles=lambda: [],
        state_folder=state_folder,
    )
    async with app.run_test(size=size) as pilot:
        for _ in range(MOST_SECONDS * 5):
            await pilot.pause(0.2)
            answered = app.session.answers_ended is not None and not app.session.overview.waiting
            if answered and app.session.models.run.models and not app.session.models.run.running:
                break
        else:
            raise SystemExit(f"No answers after {MOST_SECONDS} seconds.")
        await pilot.pause(1.0)
        drawn = app.export_screenshot()
    app.session.shut_down()
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=Path("docs/screenshot.svg"))
    parser.add_argument("--size", default="120x36", help="columns x lines")
    options = parser.parse_args()
    columns, lines = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        drawn = asyncio.run(picture(DEMO_FILE, (columns, lines), Path(folder) / "state"))
    options.to.write_text(drawn, encoding="utf-8")
    print(f"{options.to}: {columns} x {lines}")


if __name__ == "__main__":
    main()
