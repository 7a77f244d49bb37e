"""Make a data set of any size in the layout of anki-revlogs-10k, for measuring, not evaluation.

    python benchmarks/make_dataset.py --users N --out DIR [--seed 1] [--median 25000]
                                      [--smallest 200] [--largest 500000]

Sizes are as unequal as the published ones of srs-benchmark: quantiles of the same distribution,
scaled to the median and cut off at the smallest and the largest, one user of that size included.
(There, half of 9,999 users have 12,500 evaluated reviews or more, the largest has 1.94 million.) A
few learners are simulated; each user has cards of one of them, drawn with repetition, begun on
other days, with other intervals and some other answers, so that histories are shared no more
than between the cards of one person. The same arguments give the same files.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srs_eval.data.reviews import IntArray
from srs_eval.data.rows import select_rows
from tools.simulated import simulate_learner

# Evaluated reviews at percentiles of the 9,999 users of srs-benchmark's result files.
PERCENTILES = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)
EVALUATED = (15, 785, 1635, 2354, 4780, 12500, 35995, 89759, 147034, 300246, 606633, 1939325)
# Reviews of a user.
MEDIAN = 25_000
SMALLEST = 200
LARGEST = 500_000
LEARNERS = 6  # that are simulated
REVIEWS = 20_000  # of each simulated learner
OTHER_ANSWER = 0.04  # share of answers that are changed
DAY_S = 86_400


@dataclass(frozen=True, eq=False)
class Template:
    """A simulated learner, with rows ordered by card."""

    start: IntArray  # (cards,) position of a card's first row
    length: IntArray  # (cards,)
    deck: IntArray  # (cards,)
    rating: IntArray  # (rows,)
    state: IntArray
    duration: IntArray
    elapsed_days: IntArray
    elapsed_seconds: IntArray
    decks: dict[str, IntArray]
    days: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="a data set for measuring")
    parser.add_argument("--users", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--median", type=int, default=MEDIAN)
    parser.add_argument("--smallest", type=int, default=SMALLEST)
    parser.add_argument("--largest", type=int, default=LARGEST)
    options = parser.parse_args(arguments)
    sizes = draw_sizes(
        options.users, options.seed, options.median, options.smallest, options.largest
    )
    start = time.process_time()
    pool = make_templates(options.seed)
    simulated = time.process_time()
    reviews = sum(
        write_user(options.out, user, int(size), pool, options.seed)
        for user, size in enumerate(sizes, start=1)
    )
    seconds = time.process_time() - simulated
    print(
        f"{options.users:,} users, {reviews:,} reviews: {reviews / seconds:,.0f} a second after "
        f"{simulated - start:.1f} s for {LEARNERS} simulated learners"
    )


def draw_sizes(users: int, seed: int, median: int, smallest: int, largest: int) -> IntArray:
    """Draw the number of reviews of each user: quantiles of the distribution, in random order."""
    shares = 100 * (np.arange(users) + 0.5) / users
    ratios = np.exp(np.interp(shares, PERCENTILES, np.log(EVALUATED))) / EVALUATED[5]
    sizes = np.clip((ratios * median).round().astype(np.int64), smallest, largest)
    sizes[-1] = largest
    return np.random.default_rng(seed).permutation(sizes)


def make_templates(seed: int) -> list[Template]:
    return [make_template(1_000 * seed + number) for number in range(LEARNERS)]


def make_template(seed: int) -> Template:
    log = simulate_learner(seed, REVIEWS).log()
    rows = select_rows(log, "benchmark").rows
    order = np.argsort(rows.card_id, kind="stable")
    card, start, length = np.unique(rows.card_id[order], return_index=True, return_counts=True)
    decks = [deck for deck in log.decks.values() if not deck.filtered]
    number = {deck.id: position for position, deck in enumerate(decks)}
    home = dict(zip(log.cards.card_id.tolist(), log.cards.deck_id.tolist(), strict=True))
    return Template(
        start=start,
        length=length,
        deck=np.array([number.get(home.get(card_id, -1), 0) for card_id in card.tolist()]),
        rating=rows.rating[order],
        state=rows.state[order],
        duration=rows.duration_ms[order],
        elapsed_days=rows.elapsed_days[order],
        elapsed_seconds=rows.elapsed_seconds[order],
        decks={
            "deck_id": np.arange(len(decks)),
            "parent_id": np.array([number.get(deck.parent_id or -1, -1) for deck in decks]),
            "preset_id": np.array([deck.preset_id or 0 for deck in decks]),
        },
        days=int(rows.day_offset[-1]) + 1,
    )


def write_user(folder: Path, user: int, size: int, pool: Sequence[Template], seed: int) -> int:
    """Write a user's three tables and return the number of reviews, exactly `size`."""
    import pyarrow
    import pyarrow.parquet

    random = np.random.default_rng((seed, user))
    base = pool[int(random.integers(len(pool)))]
    drawn = random.integers(len(base.start), size=size)  # more cards than needed
    ends = np.cumsum(base.length[drawn])
    cards = int(np.searchsorted(ends, size)) + 1
    drawn = drawn[:cards]
    ends = np.minimum(ends[:cards], size)
    length = np.diff(ends, prepend=0)
    card = np.repeat(np.arange(cards), length)
    row = np.arange(size) - np.repeat(ends - length, length)  # number within the card
    position = np.repeat(base.start[drawn], length) + row

    first = row == 0
    elapsed = base.elapsed_days[position]
    stretched = np.maximum(1, np.rint(elapsed * random.uniform(0.75, 1.33, size))).astype(np.int64)
    elapsed = np.where(elapsed > 0, stretched, elapsed)
    days_passed = np.cumsum(np.where(first, 0, elapsed))
    # A user with more cards begins them over more days, at about the same number a day.
    span = max(30, min(base.days * cards // len(base.start), 3_650))
    begins = random.integers(span, size=cards)
    day = begins[card] + days_passed - np.repeat(days_passed[ends - length], length)
    second = base.elapsed_seconds[position]
    second_of_day = np.clip(second, 0, None) % DAY_S
    rating = base.rating[position]
    is_changed = random.random(size) < OTHER_ANSWER
    rating = np.where(is_changed, random.integers(1, 5, size), rating)

    order = np.lexsort((row, card, day))
    day = day[order] - day[order][0]
    duration = base.duration[position] * random.uniform(0.7, 1.4, size)
    tables = {
        "revlogs": {
            "card_id": card[order],
            "day_offset": day,
            "rating": rating[order],
            "state": base.state[position][order],
            "duration": duration[order].astype(int),
            "elapsed_days": elapsed[order],
            "elapsed_seconds": np.where(
                first, -1, np.where(elapsed > 0, elapsed * DAY_S + second_of_day, second)
            )[order],
        },
        "cards": {
            "card_id": np.arange(cards),
            "note_id": np.arange(cards),
            "deck_id": base.deck[drawn],
        },
        "decks": base.decks,
    }
    for name, columns in tables.items():
        target = folder / name / f"user_id={user}"
        target.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table(columns), target / "data.parquet")
    return size


if __name__ == "__main__":
    main()
