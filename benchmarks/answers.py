"""Measure how long `srs-eval compare` takes.

    python benchmarks/answers.py [--before CHECKOUT] [--collection FILE] [--repeat 3]

All questions, from the file (or the simulated log) to the last answer, kernels loaded: the
collection of the fixtures (five presets, 12,861 entries), and a simulated learner of 22,000
reviews in 20 decks, which have four presets, or one each. Each case is run in a fresh process by
the code of this checkout and, with --before, by that of another in turn. Printed are seconds of
processor time and of the clock, the least of `--repeat` runs; and with --before the ratio.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
REVIEWS = 22_000
DECKS = 20
CASES = {"collection": 0, "4 presets": 4, "20 presets": 20}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.child is not None:
        print(json.dumps(measure_case(options.child, options.collection)))
        return
    checkouts = {"now": HERE.parents[1]}
    heading = f"{'':24}{'CPU s':>9}{'clock s':>9}"
    if options.before:
        checkouts["before"] = options.before
        heading += "   of before"
    print(heading)
    for case in CASES:
        if case == "collection" and options.collection is None:
            continue
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
        for _ in range(options.repeat):
            for name, checkout in checkouts.items():
                runs[name].append(run_case(case, checkout.resolve(), options.collection))
        cpu = {}
        for name, times in runs.items():
            cpu[name] = min(seconds["cpu"] for seconds in times)
        clock = min(seconds["clock"] for seconds in runs["now"])
        words = "the fixtures' collection" if case == "collection" else f"20 decks, {case}"
        ratio = f"{cpu['now'] / cpu['before']:12.2f}" if "before" in cpu else ""
        print(f"{words:24}{cpu['now']:9.2f}{clock:9.2f}{ratio}", flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    fixture = HERE.parents[2] / "shared" / "anki" / "fixtures" / "collection.anki2"
    parser = argparse.ArgumentParser(description="how long `compare` takes")
    parser.add_argument("--before", type=Path, default=None, help="a checkout of the older code")
    parser.add_argument("--collection", type=Path, default=fixture if fixture.is_file() else None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", choices=CASES, default=None, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_case(case: str, checkout: Path, collection: Path | None) -> dict[str, float]:
    collection_arguments = [] if collection is None else ["--collection", str(collection)]
    done = subprocess.run(
        [sys.executable, str(HERE), "--child", case, *collection_arguments],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stderr.splitlines()[-1], file=sys.stderr)
        return {"cpu": math.nan, "clock": math.nan}
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def measure_case(case: str, collection: Path | None) -> dict[str, float]:
    import srs_eval

    if case != "collection":
        log = simulate_presets(CASES[case])
    srs_eval.compare(simulate_presets(2, 4_000, decks=2))  # loads the kernels
    cpu = time.process_time()
    clock = time.perf_counter()
    srs_eval.compare(srs_eval.load(str(collection)) if case == "collection" else log)
    return {"cpu": time.process_time() - cpu, "clock": time.perf_counter() - clock}


def simulate_presets(presets: int, reviews: int = REVIEWS, decks: int = DECKS) -> Any:
    """Simulate a learner whose cards lie in decks with presets, half of them in the first few."""
    from srs_eval.data.reviews import Deck, Preset
    from tools.simulated import simulate_learner

    log = simulate_learner(7, reviews).log()
    assert log.entries is not None
    changed = int(log.entries.time_ms[len(log.entries) * 2 // 3] // 1000)
    share = 1 / np.arange(1, decks + 1)
    deck = np.random.default_rng(1).choice(decks, len(log.cards.card_id), p=share / share.sum())
    stored = {6: next(iter(log.presets.values())).fsrs_parameters.get(6, ())}
    return replace(
        log,
        cards=replace(log.cards, deck_id=deck.astype(np.int64)),
        decks={k: Deck(k, f"Deck {k}", k % presets) for k in range(decks)},
        presets={
            k: Preset(k, f"Preset {k}", stored, 0.9, modified_s=changed) for k in range(presets)
        },
    )


if __name__ == "__main__":
    main()
