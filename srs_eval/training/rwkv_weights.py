"""RWKV's weights, arranged: any size, all of it read from the tensors' shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.training.rwkv_inputs import Array32

_STACKS = 5
_ENDS, _TIME, _CHANNELS = (
    [line.split() for line in part.splitlines()]
    for part in Path(__file__).with_suffix(".txt").read_text("utf-8").split("\n\n")
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
