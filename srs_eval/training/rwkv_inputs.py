"""Compute RWKV's inputs, 92 numbers for every review of a collection, and arrange its weights.

These are 24 features, 40 numbers of random codes that tell cards, notes, decks and presets apart,
and 28 numbers for the position of the day in cycles. Their order, their formulas and the quirks
are those of the network's authors (srs-benchmark rwkv/, Expertium/rwkv-state-quant
gpu_train/rwkv/run_as_rnn.py): weights are useless with other inputs. docs/models/rwkv.md has the
list.

Weights may be of any size: all sizes are read from the tensors' shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import MISSING, FloatArray, IntArray, ReviewLog, Rows, mark_run_starts

CODE_SEED = 2025
"""Seed of the codes: another one changes the log loss of RWKV-Curve by about 0.001."""
_CODE_SIZES = (12, 12, 8, 8)  # of card, note, deck, preset
_PERIODS = np.array([3, 7, 30, 100, 365, 3650, 36500])  # days
_DAY_S = 86_400
_ANSWER_FEATURES = [8, 9, 10, 11, 12, 22]  # inputs about the answer: 0 before it is given
_GRADE_FEATURES = slice(9, 13)  # one for each of Again, Hard, Good and Easy
_QUERY_FEATURE = 23

Array32 = NDArray[np.float32]


class Reviews(NamedTuple):
    """The reviews of a collection in their order (n,); MISSING stands for an unknown id."""

    card: IntArray
    note: IntArray
    deck: IntArray
    preset: IntArray
    day: IntArray
    elapsed_days: IntArray  # -1 for a card's first review
    elapsed_seconds: IntArray  # -1 for a card's first review
    duration_ms: IntArray
    rating: IntArray
    state: IntArray  # as in `Rows`


def collect_reviews(log: ReviewLog, rows: Rows) -> Reviews:
    """Return the rows of a log with the ids of note, deck and preset, as far as it has them."""
    deck = log.deck_of(rows.card_id)
    return Reviews(
        card=rows.card_id,
        note=log.note_of(rows.card_id),
        deck=deck,
        preset=log.preset_of(deck),
        day=rows.day_offset,
        elapsed_days=rows.elapsed_days,
        elapsed_seconds=rows.elapsed_seconds,
        duration_ms=rows.duration_ms,
        rating=rows.rating,
        state=rows.state,
    )


def find_missing_inputs(reviews: Reviews) -> str:
    """Name what is unknown for all reviews, such as "answer times, notes"; "" if nothing is."""
    has_whole_days = reviews.elapsed_seconds % _DAY_S == 0
    absent = {
        "times of day": has_whole_days | (reviews.elapsed_seconds < 0),
        "answer times": reviews.duration_ms <= 0,
        "notes": reviews.note == MISSING,
        "decks": reviews.deck == MISSING,
        "presets": reviews.preset == MISSING,
    }
    return ", ".join(name for name, mask in absent.items() if mask.all())


@dataclass(frozen=True, eq=False)
class RwkvInputs:
    """Inputs for n reviews; `at` selects the network's inputs for some of them."""

    answers: Array32  # (n, 92): what the network sees after the answers
    entities: IntArray  # (4, n): number of the card, deck, note and preset
    before: IntArray  # (n,) position of the card's previous review; its own for the first

    def at(self, position: IntArray, query: NDArray[np.bool_]) -> Array32:
        """Return the inputs (k, 92) of the reviews at k positions, before the answer if `query`."""
        inputs = self.answers[position]
        query_rows = np.flatnonzero(query)
        inputs[query_rows[:, None], _ANSWER_FEATURES] = 0
        inputs[query_rows, _QUERY_FEATURE] = 1
        return inputs

    def with_ratings(self, position: IntArray, rating: IntArray) -> Array32:
        """Return the inputs (k, 92) after answers with other ratings (k,); 0 keeps the answer's."""
        inputs = self.answers[position]
        other = np.flatnonzero(rating)
        inputs[other, _GRADE_FEATURES] = rating[other, None] == np.arange(1, 5)
        return inputs


def compute_inputs(
    reviews: Reviews, seed: int = CODE_SEED, *, note_per_card: bool = True
) -> RwkvInputs:
    """Compute the inputs of all reviews.

    With `note_per_card`, each card whose note is unknown has its own note, as in the benchmark;
    else all of these cards share one, as in the authors' row-by-row program.
    """
    card = _number_ids(reviews.card)
    note = _number_ids(reviews.note)
    missing = [ids == MISSING for ids in (reviews.note, reviews.deck, reviews.preset)]
    if note_per_card:
        note = _number_ids(np.where(missing[0], note.max(initial=0) + 1 + card, note))
    deck = _number_ids(reviews.deck)
    preset = _number_ids(reviews.preset)
    day = reviews.day - reviews.day[:1].sum()  # since the first review, if there is one
    order = np.argsort(card, kind="stable")
    begins = mark_run_starts(card[order])
    first_of_card = np.empty(len(card), np.int64)  # position of the card's first review
    first_of_card[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    before = np.empty(len(card), np.int64)  # position of its previous review, or its own
    before[order] = np.where(begins, order, np.roll(order, 1))
    days = np.stack([day, day[first_of_card]])[:, :, None]
    angles = (2 * np.pi / _PERIODS) * (days % _PERIODS)
    waves = []
    for angle in angles:
        waves.append(np.sin(angle))
        waves.append(np.cos(angle))
    cycles = np.stack(waves, axis=2)
    blocks = [
        _compute_features(reviews, day, order, before, missing),
        *_draw_codes((card, note, deck, preset), seed),
        cycles.reshape(len(card), -1).astype(np.float32),
    ]
    return RwkvInputs(
        answers=np.concatenate(blocks, axis=1),
        entities=np.stack([card, deck, note, preset]),
        before=before,
    )


def _number_ids(ids: IntArray) -> IntArray:
    """Replace ids by 0, 1, ... in their order."""
    return np.unique(ids, return_inverse=True)[1]


def _draw_codes(entities: tuple[IntArray, ...], seed: int) -> Iterator[Array32]:
    """Yield the codes of each review's card, note, deck and preset, (n, size) each.

    An entity's code is drawn at its first review, as by torch.manual_seed(seed) and torch.randint.
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


def _log_or_zero(x: FloatArray | IntArray) -> FloatArray:
    """Return ln(1.00001 + x), or 0 where x is -1."""
    logarithm: FloatArray = np.log(np.maximum(1 + 1e-5 + x, 1e-5))
    return np.where(x == -1, 0.0, logarithm)


def _compute_day_phase(seconds: IntArray) -> tuple[FloatArray, FloatArray]:
    angle = (seconds % _DAY_S) * 2 * np.pi / _DAY_S
    return np.sin(angle), np.cos(angle)


def _compute_features(
    reviews: Reviews,
    day: IntArray,
    order: IntArray,
    before: IntArray,
    missing: list[NDArray[np.bool_]],
) -> Array32:
    """Compute the first 24 inputs (n, 24).

    `order` sorts the reviews by card; `before` is the position of the card's previous review.
    """
    n = len(day)
    position = np.arange(n)
    is_first = before == position

    def sum_over_card(values: IntArray) -> IntArray:
        """Return the sum of the card's values up to and including each review.

        The network's authors count the -1 of a first review, too.
        """
        sums = np.cumsum(values[order])
        starts = np.flatnonzero(is_first[order])
        sums -= np.repeat(sums[starts] - values[order][starts], np.diff([*starts, n]))
        sums_in_order = np.empty_like(sums)
        sums_in_order[order] = sums
        return sums_in_order

    seconds = reviews.elapsed_seconds
    days_sum = sum_over_card(reviews.elapsed_days)
    seconds_sum = sum_over_card(seconds)
    introduced = np.cumsum(is_first)  # number of cards, this review's included
    new_since = np.where(is_first, 0, introduced - introduced[before])
    reviews_since = np.where(is_first, 0, np.maximum(position - before - 1, 0))
    day_start = np.maximum.accumulate(np.where(mark_run_starts(day), position, 0))
    # Without any answer times, the input is 0, that of a mean answer time.
    has_answer_times = (reviews.duration_ms > 0).any()
    duration: FloatArray | IntArray = 0 * day
    if has_answer_times:
        duration = (np.log(10 + np.maximum(reviews.duration_ms, 0)) - 8.9) / 1.07
    columns = (
        (_log_or_zero(reviews.elapsed_days) - 1.51) / 1.62,
        (_log_or_zero(days_sum) - 2.14) / 2.25,
        (_log_or_zero(seconds) - 9.96) / 5.21,
        *_compute_day_phase(seconds),
        (_log_or_zero(seconds_sum) - 10.86) / 5.8,
        *_compute_day_phase(seconds_sum),
        duration,
        *(reviews.rating == rating for rating in (1, 2, 3, 4)),
        *missing,
        np.log(np.log(np.e + np.diff(day, prepend=0))),
        (day % 7 - 3) / 3,
        (np.log(3 + new_since) - 2.945) / 2.011,
        (np.log(3 + reviews_since) - 4.64) / 2.59,
        (np.log(3 + introduced - introduced[day_start] + is_first[day_start]) - 2.55) / 1.41,
        (np.log(3 + position - day_start) - 4.59) / 1.30,
        reviews.state - 2,
        np.zeros(n),
    )
    return np.stack(columns, axis=1).astype(np.float32)


# Weights

_STACK_COUNT = 5
_Shape = tuple[int | str, ...]
"""Sizes of a tensor. A word stands for a number that is the same throughout a table; d is the
width of the network, k that of a head."""
_INPUT_AND_HEAD_SHAPES: Mapping[str, _Shape] = {
    "prehead_norm.weight": ("d",),
    "prehead_norm.bias": ("d",),
    "features2card.0.weight": ("e", 92),
    "features2card.0.bias": ("e",),
    "features2card.2.weight": ("e",),
    "features2card.2.bias": ("e",),
    "features2card.3.weight": ("d", "e"),
    "features2card.3.bias": ("d",),
    "head_p.0.weight": ("p", "d"),
    "head_p.0.bias": ("p",),
    "p_linear.weight": (4, "p"),
    "p_linear.bias": (4,),
    "head_ahead_logits.0.weight": ("q", "d"),
    "head_ahead_logits.0.bias": ("q",),
    "ahead_linear.weight": ("points", "q"),
    "ahead_linear.bias": ("points",),
    "head_w.0.weight": ("d", "d"),
    "head_w.0.bias": ("d",),
    "head_w.2.weight": ("d",),
    "head_w.2.bias": ("d",),
    "head_w.4.weight": ("r", "d"),
    "head_w.4.bias": ("r",),
    "w_linear.weight": ("curves", "r"),
    "w_linear.bias": ("curves",),
}
_TIME_MIXER_SHAPES: Mapping[str, _Shape] = {
    "layer_norm.weight": ("d",),
    "layer_norm.bias": ("d",),
    "rkvdag_lerp": (8, 1, 1, "d"),
    "bonus": (1, 1, "heads", "k"),
    "W_r.weight": ("d", "d"),
    "W_k.weight": ("d", "d"),
    "W_v.weight": ("d", "d"),
    "W_o.weight": ("d", "d"),
    "k_scale_linear.weight": ("heads", "d"),
    "k_scale_linear.bias": ("heads",),
    "v_scale_linear.weight": ("heads", "d"),
    "v_scale_linear.bias": ("heads",),
    "v_lora_simple.A.weight": ("v", "d"),
    "v_lora_simple.B_and_lamb.weight": ("d", "v"),
    "v_lora_simple.B_and_lamb.bias": ("d",),
    "d_lora_mlp.A.weight": ("w", "d"),
    "d_lora_mlp.B_and_lamb.weight": ("d", "w"),
    "d_lora_mlp.B_and_lamb.bias": ("d",),
    "a_lora_simple.A.weight": ("a", "d"),
    "a_lora_simple.B_and_lamb.weight": ("d", "a"),
    "a_lora_simple.B_and_lamb.bias": ("d",),
    "lora_A_g.weight": ("g", "d"),
    "lora_B_g.weight": ("d", "g"),
    "out_group_norm.weight": ("d",),
    "out_group_norm.bias": ("d",),
}
_CHANNEL_MIXER_SHAPES: Mapping[str, _Shape] = {
    "layer_norm.weight": ("d",),
    "layer_norm.bias": ("d",),
    "lerp_k": (1, 1, "d"),
    "W_k.weight": ("c", "d"),
    "W_v.weight": ("d", "c"),
}
_SHARED_SIZES = ("d", "heads", "k")  # sizes that are the same in all tables


class _TimeMixer(NamedTuple):
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


class _ChannelMixer(NamedTuple):
    """A channel mixer."""

    norm: Array32
    mix: Array32  # (1, d)
    inner: Array32  # (d, c)
    out: Array32  # (c, d)


Stack = tuple[tuple[_TimeMixer, _ChannelMixer], ...]


class RwkvNetwork(NamedTuple):
    """The weights of a file, arranged for the computation."""

    width: int
    heads: int
    stacks: tuple[Stack, ...]
    tensors: Mapping[str, Array32]  # those of inputs and heads, by their names in files


def arrange_network(tensors: Mapping[str, Array32], name: str) -> RwkvNetwork:
    """Arrange the tensors of an RWKV of any size.

    Raises InputError, which names the file `name`, for another network.
    """
    used: set[str] = set()
    sizes: dict[str, int] = {}

    def refusal(reason: str) -> InputError:
        return InputError(f"{name} is not an RWKV network for reviews: {reason}.")

    def select_tensors(shapes: Mapping[str, _Shape], prefix: str = "") -> dict[str, Array32]:
        selected: dict[str, Array32] = {}
        module_sizes = {size: sizes[size] for size in _SHARED_SIZES if size in sizes}
        for key, shape in shapes.items():
            tensor = tensors.get(prefix + key)
            if tensor is None:
                raise refusal(f"it lacks the tensor {prefix}{key}")
            expected_shape = tuple(
                expected if isinstance(expected, int) else module_sizes.setdefault(expected, size)
                for expected, size in zip(shape, tensor.shape, strict=False)
            )
            has_shape = len(shape) == tensor.ndim and expected_shape == tensor.shape
            if not has_shape or tensor.dtype != np.float32 or not np.isfinite(tensor).all():
                raise refusal(f"{prefix}{key} is {tensor.dtype} of {tensor.shape}, or not finite")
            selected[key] = tensor
            used.add(prefix + key)
        sizes.update(module_sizes)
        return selected

    inputs_and_heads = select_tensors(_INPUT_AND_HEAD_SHAPES)
    stacks: list[Stack] = []
    for stack in range(_STACK_COUNT):
        layer_numbers: set[str] = set()
        for key in tensors:
            match = re.match(rf"rwkv_modules\.{stack}\.blocks\.(\d+)\.", key)
            if match:
                layer_numbers.add(match[1])
        layers = []
        for layer in range(max(len(layer_numbers), 1)):
            prefix = f"rwkv_modules.{stack}.blocks.{layer}"
            time_mixer = select_tensors(_TIME_MIXER_SHAPES, f"{prefix}.time_mixer.")
            arranged_time_mixer = _arrange_time_mixer(time_mixer)
            channel_mixer = select_tensors(_CHANNEL_MIXER_SHAPES, f"{prefix}.channel_mixer.")
            layers.append((arranged_time_mixer, _arrange_channel_mixer(channel_mixer)))
        stacks.append(tuple(layers))
    d, heads, k = (sizes[size] for size in _SHARED_SIZES)
    if heads * k != d or k % 4:
        raise refusal(f"it has {heads} heads of {k} for {d} numbers")
    unknown = sorted(set(tensors) - used)
    if unknown:
        raise refusal(f"it has an extra tensor, {unknown[0]}")
    return RwkvNetwork(d, heads, tuple(stacks), inputs_and_heads)


def _arrange_time_mixer(tensors: Mapping[str, Array32]) -> _TimeMixer:
    low = ("v_lora_simple", "d_lora_mlp", "a_lora_simple")
    halves = [(f"{key}.A", f"{key}.B_and_lamb") for key in low] + [("lora_A_g", "lora_B_g")]
    scales = ("k_scale_linear", "v_scale_linear")
    return _TimeMixer(
        norm=_stack_norm(tensors, "layer_norm"),
        mix=tensors["rkvdag_lerp"][:, 0, 0],
        wide=tuple(_transpose_weight(tensors, f"W_{letter}") for letter in "rkv"),
        low=tuple(
            (_transpose_weight(tensors, inner), _transpose_weight(tensors, outer))
            for inner, outer in halves
        ),
        scales=tuple(_transpose_weight(tensors, key) for key in scales),
        bias=np.stack([tensors[f"{key}.B_and_lamb.bias"] for key in low]),
        scale_bias=np.stack([tensors[f"{key}.bias"] for key in scales]),
        bonus=tensors["bonus"].ravel(),
        group_norm=_stack_norm(tensors, "out_group_norm"),
        out=_transpose_weight(tensors, "W_o"),
    )


def _arrange_channel_mixer(tensors: Mapping[str, Array32]) -> _ChannelMixer:
    return _ChannelMixer(
        norm=_stack_norm(tensors, "layer_norm"),
        mix=tensors["lerp_k"][0],
        inner=_transpose_weight(tensors, "W_k"),
        out=_transpose_weight(tensors, "W_v"),
    )


def _transpose_weight(tensors: Mapping[str, Array32], key: str) -> Array32:
    return np.ascontiguousarray(tensors[f"{key}.weight"].T)


def _stack_norm(tensors: Mapping[str, Array32], key: str) -> Array32:
    return np.stack([tensors[f"{key}.weight"], tensors[f"{key}.bias"]])
