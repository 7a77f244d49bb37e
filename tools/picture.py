"""Make the pictures of README and tutorial: the app draws screens about the demo's learner.

    python tools/picture.py [--to docs] [--size 120x36]

The screens are also joined to a tour, tour.svg, which shows one after another for some seconds.
Run it after a change of the answers. It takes as long as the app does to answer and to evaluate
the models of group `learner`; it needs no terminal and uses a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.data.paths import DEMO_FILE

MOST_SECONDS = 900
SETTLED_SECONDS = 2.0
TOUR_SECONDS = 4.0  # for which the tour shows each screen
# Names of pictures, and the keys to press before each.
SCREENS = {
    "screenshot": (),
    "evidence": ("enter", "t"),
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
        await pilot.pause(SETTLED_SECONDS)
        yield "opening", app.export_screenshot()
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
    screens = {}
    with tempfile.TemporaryDirectory() as state_folder:
        async for name, drawn in capture_screens(DEMO_FILE, size, Path(state_folder) / "state"):
            screens[name] = drawn
    tour = join_screens(list(screens.values()))
    del screens["opening"]  # only the tour needs it
    for name, drawn in {**screens, "tour": tour}.items():
        (folder / f"{name}.svg").write_text(drawn, encoding="utf-8")
        print(f"{name}.svg: {size[0]} x {size[1]}")


def join_screens(screens: Sequence[str]) -> str:
    """Join screens as SVG to one that shows them in turn, without an end.

    Names within a screen are its own, as Textual derives them from what is drawn.
    """
    duration = TOUR_SECONDS * len(screens)
    share = 100 / len(screens)  # per cent of the time for which each is shown
    rules = [
        f"@keyframes turn {{ 0%, {share:.3f}% {{ opacity: 1 }} {share + 0.001:.3f}%, 100% "
        "{ opacity: 0 } }",
        f".screen {{ opacity: 0; animation: turn {duration:g}s infinite step-end }}",
    ]
    frames = []
    for number, screen in enumerate(screens):
        rules.append(f".screen-{number} {{ animation-delay: {TOUR_SECONDS * number:g}s }}")
        frames.append(f'<g class="screen screen-{number}">{screen}</g>')
    size = re.search(r'viewBox="[^"]+"', screens[0])
    assert size is not None
    style = f"<style>{' '.join(rules)}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size.group(0)}>{style}{"".join(frames)}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=Path("docs"))
    parser.add_argument("--size", default="120x36", help="columns x lines")
    options = parser.parse_args()
    columns, lines = map(int, options.size.split("x"))
    asyncio.run(save_screens(options.to, (columns, lines)))


if __name__ == "__main__":
    main()
