"""RWKV's weights on disk: any size, all of it read from the tensors' shapes."""

from __future__ import annotations

import math
import pickle
import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.training.rwkv_inputs import INPUTS, Array32

_MIXES = 8  # of the time mixer: r, k, v, d, a, g, k scale, v scale
_STACKS = 5


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


def read_tensors(path: Path) -> dict[str, Array32]:
    """What a .safetensors or .pth file holds; nothing in it is run.

    Raises InputError where it cannot be read.
    """
    try:
        if path.suffix == ".pth":
            return _read_pth(path)
        from safetensors.numpy import load_file

        return load_file(path)
    except Exception as error:  # the libraries raise whatever they like
        raise InputError(
            f'"{path}" cannot be read as network weights ({type(error).__name__}).'
        ) from error


def _read_pth(path: Path) -> dict[str, Array32]:
    """The float32 tensors of what torch.save has made of a state_dict."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        (listing,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = listing.removesuffix("data.pkl")

        def storage(identity: tuple[Any, ...]) -> Array32:
            return np.frombuffer(archive.read(f"{folder}data/{identity[2]}"), "<f4")

        class Reader(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> Any:
                return _ALLOWED[module, name]  # and nothing else

            def persistent_load(self, identity: Any) -> Array32:
                return storage(identity)

        with archive.open(listing) as file:
            return dict(Reader(file).load())


def _tensor(storage: Array32, offset: int, size: Any, stride: Any, *rest: Any) -> Array32:
    steps = [4 * each for each in stride]
    if math.prod(size) > len(storage):
        raise ValueError("a tensor repeats its storage")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if offset < 0 or min([*size, 1]) < 1 or min([*stride, 0]) < 0 or last >= len(storage):
        raise ValueError("a tensor reaches beyond its storage")
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(storage[offset:], size, steps))


_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch", "FloatStorage"): "float32",
}


class _Tensors:
    """Of a file called `name`, of which each has to be used."""

    def __init__(self, tensors: Mapping[str, Array32], name: str) -> None:
        self.all, self.name = tensors, name
        self.used: dict[str, Array32] = {}

    def refusal(self, why: str) -> InputError:
        return InputError(f"{self.name} is no RWKV for reviews: {why}.")

    def tensor(self, key: str, *shape: int) -> Array32:
        """Of this shape, where -1 is any. Raises InputError for another."""
        found = self.all.get(key)
        if found is None:
            raise self.refusal(f"it lacks the tensor {key}")
        right = found.ndim == len(shape) and all(
            want in (-1, size) for want, size in zip(shape, found.shape, strict=True)
        )
        if not right or found.dtype != np.float32 or not np.isfinite(found).all():
            raise self.refusal(f"{key} is {found.dtype} of {found.shape}, or not finite")
        self.used[key] = found
        return found

    def matrix(self, key: str, outputs: int, taken: int) -> Array32:
        """(taken, outputs)"""
        return np.ascontiguousarray(self.tensor(f"{key}.weight", outputs, taken).T)

    def norm(self, key: str, size: int) -> Array32:
        return np.stack([self.tensor(f"{key}.{part}", size) for part in ("weight", "bias")])

    def mixer(self, at: str, d: int, heads: int) -> _Mixer:
        low, bias = [], []
        for key in ("v_lora_simple", "d_lora_mlp", "a_lora_simple"):
            half = self.matrix(f"{at}.{key}.A", -1, d)
            low.append((half, self.matrix(f"{at}.{key}.B_and_lamb", d, half.shape[1])))
            bias.append(self.tensor(f"{at}.{key}.B_and_lamb.bias", d))
        half = self.matrix(f"{at}.lora_A_g", -1, d)
        low.append((half, self.matrix(f"{at}.lora_B_g", d, half.shape[1])))
        scales = [f"{at}.{each}_scale_linear" for each in "kv"]
        return _Mixer(
            norm=self.norm(f"{at}.layer_norm", d),
            mix=self.tensor(f"{at}.rkvdag_lerp", _MIXES, 1, 1, d).reshape(_MIXES, d),
            wide=tuple(self.matrix(f"{at}.W_{each}", d, d) for each in "rkv"),
            low=tuple(low),
            scales=tuple(self.matrix(each, heads, d) for each in scales),
            bias=np.stack(bias),
            scale_bias=np.stack([self.tensor(f"{each}.bias", heads) for each in scales]),
            bonus=self.tensor(f"{at}.bonus", 1, 1, heads, d // heads).reshape(d),
            group_norm=self.norm(f"{at}.out_group_norm", d),
            out=self.matrix(f"{at}.W_o", d, d),
        )

    def channels(self, at: str, d: int) -> _Channels:
        inner = self.matrix(f"{at}.W_k", -1, d)
        return _Channels(
            norm=self.norm(f"{at}.layer_norm", d),
            mix=self.tensor(f"{at}.lerp_k", 1, 1, d).reshape(1, d),
            inner=inner,
            out=self.matrix(f"{at}.W_v", d, inner.shape[1]),
        )

    def ends(self, d: int) -> None:
        """Looks at inputs and heads."""
        wide = len(self.tensor("features2card.0.bias", -1))
        shapes = {"features2card.0": (wide, INPUTS), "features2card.3": (d, wide)}
        shapes["head_w.0"] = d, d
        for head, last, outputs in (
            ("head_p.0", "p_linear", 4),
            ("head_ahead_logits.0", "ahead_linear", -1),
            ("head_w.4", "w_linear", -1),
        ):
            inner = len(self.tensor(f"{head}.bias", -1))
            shapes |= {head: (inner, d), last: (outputs, inner)}
        for key, shape in shapes.items():
            self.tensor(f"{key}.bias", len(self.tensor(f"{key}.weight", *shape)))
        for key, size in {"features2card.2": wide, "prehead_norm": d, "head_w.2": d}.items():
            self.norm(key, size)


def network(tensors: Mapping[str, Array32], name: str) -> Network:
    """Any size. Raises InputError, which names the file `name`, for another network."""
    given = _Tensors(tensors, name)
    d = len(given.tensor("prehead_norm.weight", -1))
    bonus = given.tensor("rwkv_modules.0.blocks.0.time_mixer.bonus", 1, 1, -1, -1)
    heads, k = bonus.shape[2:]
    if heads * k != d or k % 4:
        raise given.refusal(f"it has {heads} heads of {k} for {d} numbers")
    stacks = []
    for stack in range(_STACKS):
        of_stack = (re.match(rf"rwkv_modules\.{stack}\.blocks\.(\d+)\.", key) for key in tensors)
        layers = len({found[1] for found in of_stack if found})
        blocks = [f"rwkv_modules.{stack}.blocks.{layer}" for layer in range(max(layers, 1))]
        stacks.append(
            tuple(
                (
                    given.mixer(f"{at}.time_mixer", d, heads),
                    given.channels(f"{at}.channel_mixer", d),
                )
                for at in blocks
            )
        )
    given.ends(d)
    if unknown := sorted(set(tensors) - set(given.used)):
        raise given.refusal(f"it has a further tensor, {unknown[0]}")
    kept = {key: each for key, each in given.used.items() if not key.startswith("rwkv_modules")}
    return Network(d, heads, tuple(stacks), kept)
