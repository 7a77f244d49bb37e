"""Compare RWKV with the authors' own program, which reads review by review: time and differences.

    python benchmarks/rwkv.py REFERENCE [--reviews 1000] [--oracle]

REFERENCE is `gpu_train` of a checkout of github.com/Expertium/rwkv-state-quant; it needs torch.
Weights are random numbers in the shapes of the small and the large public files, reviews are
made up; both programs run on one thread, and processor time is measured. `--oracle` prints the
numbers that tests/models/test_rwkv.py compares ours with.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray
from srs_eval.training.rwkv_inputs import (
    CODE_SEED,
    Array32,
    Reviews,
    arrange_network,
    compute_inputs,
)
from srs_eval.training.rwkv_network import compute_predictions


class Size(NamedTuple):
    """Size of a network; layers and channels of each stack."""

    heads: int
    head: int
    layers: tuple[int, ...]
    channels: tuple[float, ...]  # as multiples of the width
    ranks: tuple[int, int, int, int]  # of v, d, a, g
    curves: int
    points: int

    @property
    def width(self) -> int:
        return self.heads * self.head


TINY = Size(2, 8, (1, 2, 1, 1, 2), (1, 1.5, 1, 2, 1), (3, 5, 4, 6), 8, 9)
SMALL = Size(2, 16, (1, 4, 3, 3, 3), (1,) * 5, (8, 16, 16, 16), 64, 64)
LARGE = Size(4, 32, (3, 4, 2, 3, 4), (1.5, 2, 1.5, 2, 2), (8, 16, 16, 16), 128, 128)


def make_weights(size: Size, seed: int = 1) -> dict[str, Array32]:
    """Make random tensors under the names of the public files."""
    d = size.width
    random = np.random.RandomState(seed)
    tensors: dict[str, Array32] = {}

    def add(name: str, *shape: int, scale: float = 0.1, around: float = 0.0) -> None:
        values = around + scale * random.standard_normal(shape)
        tensors[name] = values.astype(np.float32)

    def add_linear(name: str, outputs: int, inputs: int, bias: bool = True) -> None:
        add(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)
        if bias:
            add(f"{name}.bias", outputs)

    def add_norm(name: str, wide: int) -> None:
        add(f"{name}.weight", wide, around=1.0)
        add(f"{name}.bias", wide)

    add_linear("features2card.0", 4 * d, 92)
    add_norm("features2card.2", 4 * d)
    add_linear("features2card.3", d, 4 * d)
    for stack, (layers, channels) in enumerate(zip(size.layers, size.channels, strict=True)):
        for layer in range(layers):
            at = f"rwkv_modules.{stack}.blocks.{layer}.time_mixer"
            add_norm(f"{at}.layer_norm", d)
            add(f"{at}.rkvdag_lerp", 8, 1, 1, d, scale=0.4, around=0.5)
            add(f"{at}.bonus", 1, 1, size.heads, size.head)
            for name in ("W_r", "W_k", "W_v", "W_o"):
                add_linear(f"{at}.{name}", d, d, bias=False)
            for name in ("k_scale_linear", "v_scale_linear"):
                add_linear(f"{at}.{name}", size.heads, d)
            low = ("v_lora_simple", "d_lora_mlp", "a_lora_simple")
            for name, rank in zip(low, size.ranks, strict=False):
                add_linear(f"{at}.{name}.A", rank, d, bias=False)
                add_linear(f"{at}.{name}.B_and_lamb", d, rank)
            add_linear(f"{at}.lora_A_g", size.ranks[3], d, bias=False)
            add_linear(f"{at}.lora_B_g", d, size.ranks[3], bias=False)
            add_norm(f"{at}.out_group_norm", d)
            at = at.replace("time", "channel")
            add_norm(f"{at}.layer_norm", d)
            add(f"{at}.lerp_k", 1, 1, d, scale=0.4, around=0.5)
            add_linear(f"{at}.W_k", int(channels * d), d, bias=False)
            add_linear(f"{at}.W_v", d, int(channels * d), bias=False)
    add_norm("prehead_norm", d)
    add_linear("head_w.0", d, d)
    add_norm("head_w.2", d)
    for head, last, outputs in (
        ("head_w.4", "w_linear", size.curves),
        ("head_ahead_logits.0", "ahead_linear", size.points),
        ("head_p.0", "p_linear", 4),
    ):
        add_linear(head, 4 * d, d)
        add_linear(last, outputs, 4 * d)
    return tensors


def make_reviews(n: int, seed: int = 1) -> Reviews:
    """Make reviews of cards with siblings, in three decks of two presets; some ids are unknown."""
    random = np.random.RandomState(seed)
    gap = np.where(random.rand(n) < 0.05, 90_000 * random.rand(n) * 5, 60 * random.rand(n))
    second = np.cumsum(gap.astype(np.int64))
    day = second // 86_400
    card = (random.rand(n) ** 0.5 * (1 + np.arange(n) // 4)).astype(np.int64)
    order = np.argsort(card, kind="stable")
    first = np.diff(card[order], prepend=-1) != 0
    elapsed = [np.empty(n, np.int64) for _ in range(2)]
    for column, values in zip(elapsed, (day, second), strict=True):
        column[order] = np.where(first, -1, np.diff(values[order], prepend=0))
    deck = np.where(card % 11 == 5, -1, card % 3)
    return Reviews(
        card=card,
        note=np.where(card % 7 == 3, -1, card // 2),
        deck=deck,
        preset=np.where(deck == 2, -1, deck),
        day=day - day[0],
        elapsed_days=elapsed[0],
        elapsed_seconds=elapsed[1],
        duration_ms=np.exp(9 + random.standard_normal(n)).astype(np.int64),
        rating=random.choice([1, 2, 3, 4], n, p=[0.15, 0.1, 0.6, 0.15]),
        state=np.where(elapsed[0] < 0, 0, random.randint(1, 4, n)),
    )


def predict_ours(weights: Mapping[str, Array32], reviews: Reviews) -> tuple[FloatArray, FloatArray]:
    """Predict all reviews with both models; the curve is NaN at a card's first."""
    net = arrange_network(weights, "made up")
    inputs = compute_inputs(reviews, note_per_card=False)
    positions = np.arange(len(reviews.card))
    return compute_predictions(net, inputs, positions, reviews.elapsed_seconds, lambda done: None)


def predict_reference(
    folder: Path, size: Size, weights: Mapping[str, Array32], reviews: Reviews
) -> tuple[FloatArray, FloatArray, float]:
    """Predict the same with the authors' program, row by row; also return its processor time."""
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, str(folder))
    for name in ("lmdb", "tomli", "tqdm"):  # needed for its training only
        sys.modules.setdefault(name, ModuleType(name))
    sys.modules["tqdm"].__dict__.setdefault("tqdm", iter)
    os.environ["RWKV_NO_JIT"] = "1"
    program: Any = importlib.import_module("rwkv.run_as_rnn")
    architecture: Any = importlib.import_module("rwkv.architecture")
    rank_v, rank_d, rank_a, rank_g = size.ranks
    stacks = [
        architecture.RWKV7Config(
            d_model=size.width,
            n_heads=size.heads,
            n_layers=layers,
            layer_offset=0,
            total_layers=layers,
            channel_mixer_factor=channels,
            decay_lora=rank_d,
            a_lora=rank_a,
            v0_mix_amt_lora=rank_v,
            gate_lora=rank_g,
            dropout=0.0,
            dropout_layer=0.0,
        )
        for layers, channels in zip(size.layers, size.channels, strict=True)
    ]
    config = architecture.AnkiRWKVConfig(
        d_model=size.width,
        modules=[(str(number), stack) for number, stack in enumerate(stacks)],
        dropout=0.0,
        num_curves=size.curves,
        num_points=size.points,
    )
    process = program.RNNProcess(None, torch.device("cpu"), torch.float32, config)
    process.rnn.load_state_dict({key: torch.from_numpy(tensor) for key, tensor in weights.items()})
    process.rnn.eval()
    torch.manual_seed(CODE_SEED)
    names = ("card_id", "note_id", "deck_id", "preset_id", "day_offset")
    columns = (*names, "elapsed_days", "elapsed_seconds", "duration", "rating", "state")
    ids = [np.where(column < 0, np.nan, column) for column in reviews[:4]]
    instant, curve = (np.full(len(ids[0]), np.nan) for _ in range(2))
    curves: dict[float, Any] = {}
    begin = time.process_time()
    for k, values in enumerate(zip(*ids, *reviews[4:], strict=True)):
        row = dict(zip(columns, values, strict=True))
        if row["card_id"] in curves:
            curve[k] = process.predict_func(curves[row["card_id"]], row["elapsed_seconds"]).item()
        instant[k] = process.imm_predict(row).item()
        curves[row["card_id"]] = process.process_row(row)
    return instant, curve, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("reference", type=Path)
    parser.add_argument("--reviews", type=int, default=1_000)
    parser.add_argument("--oracle", action="store_true", help="figures for the tests")
    options = parser.parse_args()
    if options.oracle:
        weights = make_weights(TINY)
        reviews = make_reviews(60)
        instant, curve, _ = predict_reference(options.reference, TINY, weights, reviews)
        for name, p in (("INSTANT", instant), ("CURVE", curve)):
            defined = p[~np.isnan(p)]
            print(f"{name} = {[round(float(value), 6) for value in defined]}")
        return
    print("| shapes | ours, s for 10,000 | theirs | times | largest difference |")
    print("|---|---|---|---|---|")
    for name, size in (("small", SMALL), ("large", LARGE)):
        weights = make_weights(size)
        reviews = make_reviews(options.reviews)
        predictions = predict_ours(weights, reviews)
        many = make_reviews(10_000)
        begin = time.process_time()
        predict_ours(weights, many)
        fast = time.process_time() - begin
        *expected, slow = predict_reference(options.reference, size, weights, reviews)
        slow *= 10_000 / options.reviews
        apart = max(np.nanmax(np.abs(a - b)) for a, b in zip(predictions, expected, strict=True))
        print(f"| {name} | {fast:.2f} | {slow:.0f} | {slow / fast:.0f} | {apart:.1g} |")


if __name__ == "__main__":
    main()
