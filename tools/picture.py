"""Make the pictures of README and tutorial: the app draws screens about the demo's learner.

    python tools/picture.py [--to docs] [--size 120x36]

Run it after a change of the answers. It takes as long as the app does to answer and to evaluate
the models of group `learner`; it needs no terminal and uses a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.data.paths import DEMO_FILE

MOST_SECONDS = 900
SETTLED_SECONDS = 2.0
# Names of pictures, and the keys to press before each.
SCREENS = {
    "screenshot": (),
    "evidence": ("enter",),
    "costs": ("escape", "w"),
    "ranking": ("escape", "m"),
}


async def capture_screens(
    collection: Path, size: tuple[int, int], state_folder: Path
) -> AsyncIterator[tuple[str, str]]:
    """Yield names and screens (columns, lines) as SVG, once all is answered and evaluated."""
    app = SrsEvalApp(
        collection,
        AppOptions(models="learner", use_cache=False),
        profiles=lambda: [],
        state_folder=state_folder,
    )
    async with app.run_test(size=size) as pilot:
        for _ in range(MOST_SECONDS * 5):
            await pilot.pause(0.2)
            session = app.session
            is_answered = session.answers_ended_at is not None and not session.overview.waiting
            is_evaluated = session.models.run.models and not session.models.run.is_running
            if is_answered and is_evaluated:
                break
        else:
            raise SystemExit(f"No answers after {MOST_SECONDS} seconds.")
        for name, keys in SCREENS.items():
            await pilot.press(*keys)
            await pilot.pause(SETTLED_SECONDS)
            if name == "costs":
                while app.screen.query_one("#box").border_subtitle:  # still working
                    await pilot.pause(SETTLED_SECONDS)
            yield name, app.export_screenshot()
    app.session.shut_down()


async def save_screens(folder: Path, size: tuple[int, int]) -> None:
    with tempfile.TemporaryDirectory() as state_folder:
        async for name, drawn in capture_screens(DEMO_FILE, size, Path(state_folder) / "state"):
            (folder / f"{name}.svg").write_text(drawn, encoding="utf-8")
            print(f"{name}.svg: {size[0]} x {size[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=Path("docs"))
    parser.add_argument("--size", default="120x36", help="columns x lines")
    options = parser.parse_args()
    columns, lines = map(int, options.size.split("x"))
    asyncio.run(save_screens(options.to, (columns, lines)))


if __name__ == "__main__":
    main()
