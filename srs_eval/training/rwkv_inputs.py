"""What RWKV is given: 92 numbers of every review of a collection, and weights.

24 features, 40 of random codes that tell cards, notes, decks and presets apart, and 28 of the
day's place in cycles. The order, the formulas and their quirks are those of the network's authors
(srs-benchmark rwkv/, Expertium/rwkv-state-quant gpu_train/rwkv/run_as_rnn.py): weights are worth
nothing with others. docs/models/rwkv.md has the list.

Weights may be of any size: all of it is read from the tensors' shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import MISSING, FloatArray, IntArray, ReviewLog, Rows, run_begins

SEED = 2025
"""Of the codes: another one changes the log loss of RWKV-Curve by about 0.001."""
_CODE_SIZES = (12, 12, 8, 8)  # of card, note, deck, preset
_PERIODS = np.array([3, 7, 30, 100, 365, 3650, 36500])  # days
_DAY_S = 86_400
_QUERIED = [8, 9, 10, 11, 12, 22]  # of the answer: 0 before it is given
_IS_QUERY = 23

Array32 = NDArray[np.float32]


class Reviews(NamedTuple):
    """The reviews of a collection in their order (n,); MISSING where an id is not known."""

    card: IntArray
    note: IntArray
    deck: IntArray
    preset: IntArray
    day: IntArray
    elapsed_days: IntArray  # -1 for a card's first
    elapsed_seconds: IntArray
    duration_ms: IntArray
    rating: IntArray
    state: IntArray  # as in `Rows`


def reviews_of(log: ReviewLog, rows: Rows) -> Reviews:
    """The rows of a log with the ids of note, deck and preset, as far as it tells them."""
    deck = log.deck_of(rows.card_id)
    return Reviews(
        *(
            rows.card_id,
            log.note_of(rows.card_id),
            deck,
            log.preset_of(deck),
            rows.day_offset,
            rows.elapsed_days,
        ),
        *(rows.elapsed_seconds, rows.duration_ms, rows.rating, rows.state),
    )


def lacking(reviews: Reviews) -> str:
    """What is not known of any review: "answer times, notes"; "" where nothing lacks."""
    absent = {
        "times of day": reviews.elapsed_seconds % _DAY_S * (reviews.elapsed_seconds >= 0) == 0,
        "answer times": reviews.duration_ms <= 0,
        "notes": reviews.note == MISSING,
        "decks": reviews.deck == MISSING,
        "presets": reviews.preset == MISSING,
    }
    return ", ".join(name for name, mask in absent.items() if mask.all())


@dataclass(frozen=True, eq=False)
class Inputs:
    """Of n reviews; `at` makes the network's inputs of some of them."""

    answers: Array32  # (n, 92): what the network sees when they have been given
    entities: IntArray  # (4, n): number of the card, deck, note and preset
    before: IntArray  # (n,) position of the card's review before; its own for the first

    def at(self, position: IntArray, query: NDArray[np.bool_]) -> Array32:
        """Inputs (k, 92) of the reviews at k positions; where `query`, before their answer."""
        found, asked = self.answers[position], np.flatnonzero(query)
        found[asked[:, None], _QUERIED] = 0
        found[asked, _IS_QUERY] = 1
        return found


def inputs(reviews: Reviews, seed: int = SEED, *, note_per_card: bool = True) -> Inputs:
    """The inputs of all reviews.

    `note_per_card`: each card whose note is not known has one of its own, as in the benchmark; else
    all of them share one, as in the authors' row-by-row program.
    """
    card, note = _numbered(reviews.card), _numbered(reviews.note)
    missing = [ids == MISSING for ids in (reviews.note, reviews.deck, reviews.preset)]
    if note_per_card:
        note = _numbered(np.where(missing[0], note.max(initial=0) + 1 + card, note))
    deck, preset = _numbered(reviews.deck), _numbered(reviews.preset)
    day = reviews.day - reviews.day[:1].sum()
    order = np.argsort(card, kind="stable")
    begins = run_begins(card[order])
    first_of_card = np.empty(len(card), np.int64)  # position of the card's first review
    first_of_card[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    before = np.empty(len(card), np.int64)  # position of its review before, or its own
    before[order] = np.where(begins, order, np.roll(order, 1))
    days = np.stack([day, day[first_of_card]])[:, :, None]
    turns = (2 * np.pi / _PERIODS) * (days % _PERIODS)
    cycles = np.stack([wave(turn) for turn in turns for wave in (np.sin, np.cos)], axis=2)
    parts = (
        _features(reviews, day, order, before, missing),
        *_codes((card, note, deck, preset), seed),
        cycles.reshape(len(card), -1).astype(np.float32),
    )
    return Inputs(np.concatenate(parts, axis=1), np.stack([card, deck, note, preset]), before)


def _numbered(ids: IntArray) -> IntArray:
    """0, 1, ... in place of the ids."""
    return np.unique(ids, return_inverse=True)[1]


def _codes(entities: tuple[IntArray, ...], seed: int) -> Iterator[Array32]:
    """The codes of each review's entities, drawn where they first come, in the order given.

    Sizes are `_CODE_SIZES`; torch.manual_seed(seed) and torch.randint draw the same.
    """
    drawn = np.zeros((len(entities[0]), 4), np.int64)
    first = [np.unique(numbers, return_index=True)[1] for numbers in entities]
    for column, (rows, size) in enumerate(zip(first, _CODE_SIZES, strict=True)):
        drawn[rows, column] = size
    ends = np.cumsum(drawn.ravel()).reshape(drawn.shape)
    random = np.random.RandomState(seed)
    stream = random.randint(0, 2**32, size=int(drawn.sum()), dtype=np.uint32)
    values = (stream % 4).astype(np.float32) - np.float32(1.5)
    for column, (numbers, rows) in enumerate(zip(entities, first, strict=True)):
        size = _CODE_SIZES[column]
        yield values[ends[rows, column, None] - size + np.arange(size)][numbers]


def _log(x: FloatArray | IntArray) -> FloatArray:
    """ln(1.00001 + x); 0 where x is -1."""
    found: FloatArray = np.log(np.maximum(1 + 1e-5 + x, 1e-5))
    return np.where(x == -1, 0.0, found)


def _day_phase(seconds: IntArray) -> tuple[FloatArray, FloatArray]:
    angle = (seconds % _DAY_S) * 2 * np.pi / _DAY_S
    return np.sin(angle), np.cos(angle)


def _features(
    reviews: Reviews,
    day: IntArray,
    order: IntArray,
    before: IntArray,
    missing: list[NDArray[np.bool_]],
) -> Array32:
    """The first 24 inputs (n, 24); `order` is by card, `before` the card's review before."""
    n = len(day)
    place = np.arange(n)
    is_first = before == place

    def so_far(values: IntArray) -> IntArray:
        """Sum over the card up to and including each review: a first one counts -1."""
        sums = np.cumsum(values[order])
        starts = np.flatnonzero(is_first[order])
        sums -= np.repeat(sums[starts] - values[order][starts], np.diff([*starts, n]))
        found = np.empty_like(sums)
        found[order] = sums
        return found

    seconds = reviews.elapsed_seconds
    days_sum, seconds_sum = so_far(reviews.elapsed_days), so_far(seconds)
    introduced = np.cumsum(is_first)  # cards, this review's included
    new_since = np.where(is_first, 0, introduced - introduced[before])
    others_since = np.where(is_first, 0, np.maximum(place - before - 1, 0))
    morning = np.maximum.accumulate(np.where(run_begins(day), place, 0))
    # Answer times that nobody measured are of mean length.
    timed = (reviews.duration_ms > 0).any()
    duration = (np.log(10 + np.maximum(reviews.duration_ms, 0)) - 8.9) / 1.07 if timed else 0 * day
    columns = (
        (_log(reviews.elapsed_days) - 1.51) / 1.62,
        (_log(days_sum) - 2.14) / 2.25,
        (_log(seconds) - 9.96) / 5.21,
        *_day_phase(seconds),
        (_log(seconds_sum) - 10.86) / 5.8,
        *_day_phase(seconds_sum),
        duration,
        *(reviews.rating == rating for rating in (1, 2, 3, 4)),
        *missing,
        np.log(np.log(np.e + np.diff(day, prepend=0))),
        (day % 7 - 3) / 3,
        (np.log(3 + new_since) - 2.945) / 2.011,
        (np.log(3 + others_since) - 4.64) / 2.59,
        (np.log(3 + introduced - introduced[morning] + is_first[morning]) - 2.55) / 1.41,
        (np.log(3 + place - morning) - 4.59) / 1.30,
        reviews.state - 2,
        np.zeros(n),
    )
    return np.stack(columns, axis=1).astype(np.float32)


# Weights

_STACKS = 5
_ENDS, _TIME, _CHANNELS = (
    [line.split() for line in part.splitlines()]
    for part in Path(__file__).with_name("rwkv_weights.txt").read_text("utf-8").split("\n\n")
)
"""Names and shapes of tensors: of inputs and heads, of a time mixer and of a channel mixer. A word
is a size of any number, the same in all of the part."""
_SHARED = ("d", "heads", "k")  # sizes that are the same in all parts


class _Mixer(NamedTuple):
    """A time mixer. Matrices are (in, out)."""

    norm: Array32  # (2, d): weight and bias
    mix: Array32  # (8, d), in the order r, k, v, d, a, g, k scale, v scale
    wide: tuple[Array32, ...]  # of r, k, v: (d, d)
    low: tuple[tuple[Array32, Array32], ...]  # of v, d, a, g: (d, rank) and (rank, d)
    scales: tuple[Array32, ...]  # of k and v: (d, heads)
    bias: Array32  # (3, d) of v, d, a
    scale_bias: Array32  # (2, heads)
    bonus: Array32  # (d,)
    group_norm: Array32  # (2, d)
    out: Array32  # (d, d)


class _Channels(NamedTuple):
    """A channel mixer."""

    norm: Array32
    mix: Array32  # (1, d)
    inner: Array32  # (d, c)
    out: Array32  # (c, d)


Stack = tuple[tuple[_Mixer, _Channels], ...]


class Network(NamedTuple):
    """The weights of a file, arranged for the computation."""

    width: int
    heads: int
    stacks: tuple[Stack, ...]
    tensors: Mapping[str, Array32]  # those of inputs and heads, by their names in files


def network(tensors: Mapping[str, Array32], name: str) -> Network:
    """Any size. Raises InputError, which names the file `name`, for another network."""
    used, sizes = set[str](), dict[str, int]()

    def refusal(why: str) -> InputError:
        return InputError(f"{name} is no RWKV for reviews: {why}.")

    def checked(shapes: list[list[str]], at: str = "") -> dict[str, Array32]:
        found, here = {}, {size: sizes[size] for size in _SHARED if size in sizes}
        for key, *shape in shapes:
            tensor = tensors.get(at + key)
            if tensor is None:
                raise refusal(f"it lacks the tensor {at}{key}")
            wanted = tuple(
                int(word) if word.isdecimal() else here.setdefault(word, size)
                for word, size in zip(shape, tensor.shape, strict=False)
            )
            right = len(shape) == tensor.ndim and wanted == tensor.shape
            if not right or tensor.dtype != np.float32 or not np.isfinite(tensor).all():
                raise refusal(f"{at}{key} is {tensor.dtype} of {tensor.shape}, or not finite")
            found[key] = tensor
            used.add(at + key)
        sizes.update(here)
        return found

    ends, stacks = checked(_ENDS), list[Stack]()
    for stack in range(_STACKS):
        of_stack = (re.match(rf"rwkv_modules\.{stack}\.blocks\.(\d+)\.", key) for key in tensors)
        layers = max(len({found[1] for found in of_stack if found}), 1)
        places = [f"rwkv_modules.{stack}.blocks.{layer}" for layer in range(layers)]
        stacks.append(
            tuple(
                (
                    _mixer(checked(_TIME, f"{place}.time_mixer.")),
                    _channels(checked(_CHANNELS, f"{place}.channel_mixer.")),
                )
                for place in places
            )
        )
    d, heads, k = (sizes[size] for size in _SHARED)
    if heads * k != d or k % 4:
        raise refusal(f"it has {heads} heads of {k} for {d} numbers")
    if unknown := sorted(set(tensors) - used):
        raise refusal(f"it has a further tensor, {unknown[0]}")
    return Network(d, heads, tuple(stacks), ends)


def _mixer(found: Mapping[str, Array32]) -> _Mixer:
    low = ("v_lora_simple", "d_lora_mlp", "a_lora_simple")
    halves = [(f"{key}.A", f"{key}.B_and_lamb") for key in low] + [("lora_A_g", "lora_B_g")]
    scales = ("k_scale_linear", "v_scale_linear")
    return _Mixer(
        norm=_norm(found, "layer_norm"),
        mix=found["rkvdag_lerp"][:, 0, 0],
        wide=tuple(_matrix(found, f"W_{each}") for each in "rkv"),
        low=tuple((_matrix(found, inner), _matrix(found, outer)) for inner, outer in halves),
        scales=tuple(_matrix(found, key) for key in scales),
        bias=np.stack([found[f"{key}.B_and_lamb.bias"] for key in low]),
        scale_bias=np.stack([found[f"{key}.bias"] for key in scales]),
        bonus=found["bonus"].ravel(),
        group_norm=_norm(found, "out_group_norm"),
        out=_matrix(found, "W_o"),
    )


def _channels(found: Mapping[str, Array32]) -> _Channels:
    norm, mix = _norm(found, "layer_norm"), found["lerp_k"][0]
    return _Channels(norm, mix, inner=_matrix(found, "W_k"), out=_matrix(found, "W_v"))


def _matrix(found: Mapping[str, Array32], key: str) -> Array32:
    return np.ascontiguousarray(found[f"{key}.weight"].T)


def _norm(found: Mapping[str, Array32], key: str) -> Array32:
    return np.stack([found[f"{key}.{part}"] for part in ("weight", "bias")])
