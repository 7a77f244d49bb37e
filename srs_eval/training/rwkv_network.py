"""RWKV-7 over all reviews of a collection: matrix products in blocks, a scan for each entity.

Five stacks of layers are chained, by card, deck, note, preset and for all together. In a layer only
the state is sequential, and only within an entity: rows are sorted by entity, projections of a
block of rows are products, and one K x K state for each head goes from row to row. Rows that
ask for a prediction read the states and write none.

Any size: all of it is read from the tensors' shapes. float32 throughout, as the weights are.

Source: the network's authors' code (srs-benchmark rwkv/, github.com/Expertium/rwkv-state-quant
gpu_train/rwkv/model), read for facts; docs/models/rwkv.md has the formulas.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray, run_begins
from srs_eval.training.compile import compiled, specialised
from srs_eval.training.rwkv_inputs import INPUTS, Array32, Inputs

_ROWS = 512  # at once: what a layer holds of them stays in a core's cache
_MIXES = 8  # of the time mixer: r, k, v, d, a, g, k scale, v scale
_STACKS = 5
_EPS, _GROUP_EPS = 1e-5, 64e-5
_SPREAD = 18.5  # of the exponents that curves and points lie at
K = 0  # of a head; the kernel is compiled for each

Tick = Callable[[float], None]


class _Mixer(NamedTuple):
    """A time mixer. Matrices are (in, out)."""

    norm: Array32  # (2, d): weight and bias
    mix: Array32  # (8, d)
    products: tuple[Array32, ...]  # of the eight mixes: (d, .) each
    ranks: tuple[int, int, int, int]  # of the low-rank matrices of v, d, a, g
    low: Array32  # (sum of ranks, d): their second halves, one below another
    low_bias: Array32  # (3, d) of v, d, a
    scale_bias: Array32  # (2, heads) of k and v
    bonus: Array32  # (d,)
    group_norm: Array32  # (2, d)
    out: Array32  # (d, d)


class _Channels(NamedTuple):
    norm: Array32
    mix: Array32  # (1, d)
    inner: Array32  # (d, c)
    out: Array32  # (c, d)


class Network(NamedTuple):
    """The weights of a file, arranged for the computation."""

    width: int
    heads: int
    stacks: tuple[tuple[tuple[_Mixer, _Channels], ...], ...]
    tensors: Mapping[str, Array32]  # those of inputs and heads, by their names in files


# Weights on disk


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
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if offset < 0 or min([*size, 1]) < 1 or min([*stride, 0]) < 0 or last >= len(storage):
        raise ValueError("a tensor reaches beyond its storage")
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(storage[offset:], size, steps))


_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch", "FloatStorage"): "float32",
}


def network(tensors: Mapping[str, Array32], name: str) -> Network:
    """Any size. Raises InputError, which names the file `name`, for another network."""
    used: dict[str, Array32] = {}

    def tensor(key: str, *shape: int) -> Array32:
        """Of this shape, where -1 is any."""
        found = tensors.get(key)
        if found is None:
            raise InputError(f"{name} is no RWKV for reviews: it lacks the tensor {key}.")
        wrong = found.ndim != len(shape) or any(
            want not in (-1, is_) for want, is_ in zip(shape, found.shape, strict=True)
        )
        if wrong or found.dtype != np.float32 or not np.isfinite(found).all():
            raise InputError(
                f"{name} is no RWKV for reviews: {key} is {found.dtype} of {found.shape}."
            )
        used[key] = found
        return found

    def matrix(key: str, rows: int, columns: int) -> Array32:
        return np.ascontiguousarray(tensor(f"{key}.weight", rows, columns).T)

    def norm(key: str, size: int) -> Array32:
        return np.stack([tensor(f"{key}.{part}", size) for part in ("weight", "bias")])

    d = len(tensor("prehead_norm.weight", -1))
    first = "rwkv_modules.0.blocks.0.time_mixer"
    _, _, heads, k = tensor(f"{first}.bonus", 1, 1, -1, -1).shape
    if heads * k != d:
        raise InputError(f"{name} is no RWKV for reviews: {heads} heads of {k} are not {d}.")

    def mixer(at: str, is_first: bool) -> _Mixer:
        low, halves, bias = [], [], []
        for key in ("v_lora_simple", "d_lora_mlp", "a_lora_simple"):
            low.append(matrix(f"{at}.{key}.A", -1, d))
            halves.append(matrix(f"{at}.{key}.B_and_lamb", d, low[-1].shape[1]))
            bias.append(tensor(f"{at}.{key}.B_and_lamb.bias", d))
        low.append(matrix(f"{at}.lora_A_g", -1, d))
        halves.append(matrix(f"{at}.lora_B_g", d, low[-1].shape[1]))
        if is_first:  # it has no layer below to mix v with
            low[0], halves[0] = low[0][:, :0], halves[0][:0]
        r, k_, v, out = (matrix(f"{at}.W_{each}", d, d) for each in "rkvo")
        scales = [f"{at}.{each}_scale_linear" for each in "kv"]
        return _Mixer(
            norm=norm(f"{at}.layer_norm", d),
            mix=tensor(f"{at}.rkvdag_lerp", _MIXES, 1, 1, d).reshape(_MIXES, d),
            products=(r, k_, np.hstack([v, low[0]]), *low[1:])
            + tuple(matrix(each, heads, d) for each in scales),
            ranks=tuple(len(each) for each in halves),  # type: ignore[arg-type]
            low=np.concatenate(halves),
            low_bias=np.stack(bias),
            scale_bias=np.stack([tensor(f"{each}.bias", heads) for each in scales]),
            bonus=tensor(f"{at}.bonus", 1, 1, heads, k).reshape(d),
            group_norm=norm(f"{at}.out_group_norm", d),
            out=out,
        )

    def channels(at: str) -> _Channels:
        inner = matrix(f"{at}.W_k", -1, d)
        return _Channels(
            norm=norm(f"{at}.layer_norm", d),
            mix=tensor(f"{at}.lerp_k", 1, 1, d).reshape(1, d),
            inner=inner,
            out=matrix(f"{at}.W_v", d, inner.shape[1]),
        )

    stacks = []
    for stack in range(_STACKS):
        layers = 0
        while any(key.startswith(f"rwkv_modules.{stack}.blocks.{layers}.") for key in tensors):
            layers += 1
        blocks = [f"rwkv_modules.{stack}.blocks.{layer}" for layer in range(max(layers, 1))]
        stacks.append(
            tuple(
                (mixer(f"{at}.time_mixer", at is blocks[0]), channels(f"{at}.channel_mixer"))
                for at in blocks
            )
        )
    wide = len(tensor("features2card.0.bias", -1))
    ends = {"features2card.0": (wide, INPUTS), "features2card.3": (d, wide), "head_w.0": (d, d)}
    norm("features2card.2", wide), norm("prehead_norm", d), norm("head_w.2", d)
    for head, last, outputs in (
        ("head_p.0", "p_linear", 4),
        ("head_ahead_logits.0", "ahead_linear", -1),
        ("head_w.4", "w_linear", -1),
    ):
        inner = len(tensor(f"{head}.bias", -1))
        ends |= {head: (inner, d), last: (outputs, inner)}
    for key, shape in ends.items():
        tensor(f"{key}.weight", *shape)
        tensor(f"{key}.bias", len(tensors[f"{key}.weight"]))
    if unknown := sorted(set(tensors) - set(used)):
        raise InputError(f"{name} is no RWKV for reviews: it has a further tensor, {unknown[0]}.")
    kept = {key: used[key] for key in used if not key.startswith("rwkv_modules")}
    return Network(d, heads, tuple(stacks), kept)


# The computation


def predictions(
    net: Network, given: Inputs, asked: IntArray, elapsed_s: IntArray, tick: Tick,
    *, instant: bool = True, curve: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Recall at the reviews `asked` (k,), by both models; NaN where one is not wanted.

    The first: asked just before the review, after all earlier ones of the collection. The second: the curve after the
    card's review before, `elapsed_s` (k,) later; NaN at a card's first review.
    `asked` ascends. Calls `tick` with the fraction that is done.
    """
    reviews = np.arange(int(asked[-1]) + 1 if len(asked) else 0)
    queries = asked if instant else asked[:0]
    position = np.concatenate([queries, reviews])
    is_query = np.arange(len(position)) < len(queries)
    in_time = np.lexsort((~is_query, position))
    position, is_query = position[in_time], is_query[in_time]
    row_of = np.flatnonzero(~is_query)  # of each review
    x = _encoded(net, given, position, is_query)
    layers = sum(len(stack) for stack in net.stacks)
    done = 0
    for number, stack in enumerate(net.stacks):
        entity = given.entities[number][position] if number < len(given.entities) else 0 * position
        order = np.argsort(entity, kind="stable")
        here = x[order]
        for fraction in _run_stack(net, stack, here, entity[order], is_query[order]):
            tick(0.98 * (done + fraction * len(stack)) / layers)
        x[order] = here
        done += len(stack)
    p_instant, p_curve = (np.full(len(asked), np.nan) for _ in range(2))
    for part in _parts(len(asked)):
        if instant:
            p_instant[part] = _recall_now(net, x[np.flatnonzero(is_query)[part]])
        before = given.before[asked[part]]
        known = np.flatnonzero(before != asked[part])
        if curve and len(known):
            rows = x[row_of[before[known]]]
            p_curve[part.start + known] = _recall_later(net, rows, elapsed_s[part][known])
    tick(1.0)
    return p_instant, p_curve


def _parts(n: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _ROWS, n)) for begin in range(0, n, _ROWS))


def _encoded(
    net: Network, given: Inputs, position: IntArray, is_query: NDArray[np.bool_]
) -> Array32:
    """The rows as the first stack takes them (m, d)."""
    x = np.empty((len(position), net.width), np.float32)
    for part in _parts(len(x)):
        wide = _silu(_linear(net, "features2card.0", given.at(position[part], is_query[part])))
        x[part] = _silu(_linear(net, "features2card.3", _norm(net, "features2card.2", wide)))
    return x


def _run_stack(
    net: Network,
    stack: tuple[tuple[_Mixer, _Channels], ...],
    x: Array32,
    entity: IntArray,
    is_query: NDArray[np.bool_],
) -> Iterator[float]:
    """Sends the rows (m, d), sorted by entity and then time, through layers, in place.

    Yields the fraction that is done.
    """
    d, heads = net.width, net.heads
    k = d // heads
    begins = run_begins(entity)
    place = np.arange(len(x))
    # A row's review before: the last one that is no query, of the same entity; else itself.
    last = np.maximum.accumulate(np.where(is_query, -1, place))
    before = np.concatenate([[-1], last[:-1]])[: len(x)]
    start = np.maximum.accumulate(np.where(begins, place, 0))
    before = np.where(before >= start, before, place)
    states = [np.zeros((heads, k, k), np.float32) for _ in stack]
    shifted = np.zeros((len(stack), 2, d), np.float32)  # the last review's values of the norms
    shift = compiled(_shift)
    mix = specialised(_mixed, str(k), {}, {"K": k})
    delta, y = (np.empty((_ROWS, d), np.float32) for _ in range(2))
    value, first_value, out = (np.empty((_ROWS, d), np.float32) for _ in range(3))
    mixes = np.empty((_MIXES, _ROWS, d), np.float32)
    scratch = np.empty((9, d), np.float32)
    for part in _parts(len(x)):
        rows, n = x[part], part.stop - part.start
        previous = np.maximum(before[part] - part.start, -1)
        reviews = np.flatnonzero(~is_query[part])
        delta[:] = 0
        for (mixer, channels), state, (time_y, channel_y) in zip(
            stack, states, shifted, strict=True
        ):
            shift(rows, delta, mixer.norm, mixer.mix, previous, time_y, mixes, y)
            time_y[:] = y[reviews[-1]] if len(reviews) else time_y
            widths = [each.shape[1] for each in mixer.products]
            projected = np.empty((n, sum(widths)), np.float32)
            end = 0
            for mixed, product, width in zip(mixes, mixer.products, widths, strict=True):
                np.matmul(mixed[:n], product, out=projected[:, end : end + width])
                end += width
            mix(
                projected, mixer.ranks, mixer.low, mixer.low_bias, mixer.scale_bias,
                mixer.bonus, mixer.group_norm, begins[part], is_query[part],
                state, first_value, scratch, out,
            )
            np.matmul(out[:n], mixer.out, out=delta[:n])
            shift(rows, delta, channels.norm, channels.mix, previous, channel_y, mixes, y)
            channel_y[:] = y[reviews[-1]] if len(reviews) else channel_y
            inner = mixes[0, :n] @ channels.inner
            np.maximum(inner, 0, out=inner)
            np.matmul(np.square(inner, out=inner), channels.out, out=delta[:n])
        rows += delta[:n]
        yield part.stop / len(x)


def _shift(
    x: Array32,
    delta: Array32,
    norm: Array32,
    mix: Array32,
    previous: IntArray,
    carried: Array32,
    mixed: Array32,
    y: Array32,
) -> None:
    """x += delta; y = norm(x); s = y of each row's `previous`, `carried` for -1; y + mix (s - y).

    x (n, d), mix (j, d), mixed (j, n, d), y (n, d).
    """
    n, d = x.shape
    size = np.float32(d)
    for row in range(n):
        for c in range(d):
            x[row, c] += delta[row, c]
        mean = _total(x[row]) / size
        for c in range(d):
            y[row, c] = x[row, c] - mean
        scale = np.float32(1) / np.sqrt(_dot(y[row], y[row]) / size + np.float32(_EPS))
        for c in range(d):
            y[row, c] = y[row, c] * scale * norm[0, c] + norm[1, c]
        if previous[row] < 0:
            s = carried
        else:
            s = y[previous[row]]
        for j in range(len(mix)):
            for c in range(d):
                mixed[j, row, c] = y[row, c] + mix[j, c] * (s[c] - y[row, c])


def _mixed(
    projected: Array32,
    ranks: tuple[int, int, int, int],
    low: Array32,
    low_bias: Array32,
    scale_bias: Array32,
    bonus: Array32,
    norm: Array32,
    begins: NDArray[np.bool_],
    is_query: NDArray[np.bool_],
    state: Array32,
    first_value: Array32,
    scratch: Array32,
    out: Array32,
) -> None:
    """The time mixer of rows (n, .) behind its products; `out` (n, d) goes into the last one.

    `state` (heads, K keys, K values) goes from row to row; S <- S diag(w) + (v - S k)(a k)'.
    """
    n, d = len(projected), len(bonus)
    heads = d // K
    rank_v, rank_d, rank_a, rank_g = ranks
    total = rank_v + rank_d + rank_a + rank_g
    decay, rate, blend, gate = scratch[0], scratch[1], scratch[2], scratch[3]
    part, old, o = scratch[4], scratch[5], scratch[6]
    key, value = scratch[7], scratch[8]
    one, tiny, half = np.float32(1), np.float32(1e-12), np.float32(math.exp(-0.5))
    size = np.float32(K)
    for row in range(n):
        z = projected[row]
        # The low-rank parts lie behind r, k, v in the order v, d, a, g; then the scales.
        inner = z[3 * d : 3 * d + total]
        for j in range(rank_v, rank_v + rank_d):  # tanh
            inner[j] = one - np.float32(2) / (_exp(inner[j] + inner[j]) + one)
        for j in range(total - rank_g, total):
            inner[j] = one / (one + _exp(-inner[j]))
        for c in range(d):
            blend[c], decay[c], rate[c], gate[c] = low_bias[0, c], low_bias[1, c], low_bias[2, c], np.float32(0)
        _add(blend, inner, low, 0, rank_v)
        _add(decay, inner, low, rank_v, rank_v + rank_d)
        _add(rate, inner, low, rank_v + rank_d, total - rank_g)
        _add(gate, inner, low, total - rank_g, total)
        for c in range(d):
            decay[c] = _exp(-half / (one + _exp(-decay[c])))
        for c in range(d):
            rate[c] = one / (one + _exp(-rate[c]))
        for c in range(d):
            key[c] = z[d + c]
            value[c] = z[2 * d + c]
        if rank_v:
            for c in range(d):
                value[c] += (first_value[row, c] - value[c]) / (one + _exp(-blend[c]))
        else:
            for c in range(d):
                first_value[row, c] = value[c]
        if begins[row]:
            state[:] = 0
        keeps = not is_query[row]
        for h in range(heads):
            b = h * K
            k_scale, v_scale = z[3 * d + total + h], z[3 * d + total + heads + h]
            k_scale = one / (one + _exp(-k_scale - scale_bias[0, h]))
            v_scale = one / (one + _exp(-v_scale - scale_bias[1, h]))
            k_scale /= max(np.sqrt(_dot(key[b : b + K], key[b : b + K])), tiny)
            v_scale /= max(np.sqrt(_dot(value[b : b + K], value[b : b + K])), tiny)
            for c in range(b, b + K):
                key[c] *= k_scale
                value[c] *= v_scale
                rate[c] *= key[c]
                part[c] = z[c] * bonus[c]
            extra = _dot(part[b : b + K], rate[b : b + K])
            s = state[h]
            for c in range(K):
                old[c] = np.float32(0)
                o[c] = np.float32(0)
            for j in range(K):
                kj = key[b + j]
                for c in range(K):
                    old[c] += s[j, c] * kj
            for c in range(K):
                old[c] = value[b + c] - old[c]
            for j in range(K):
                wj, aj, rj = decay[b + j], rate[b + j], z[b + j]
                for c in range(K):
                    part[c] = s[j, c] * wj + old[c] * aj
                    o[c] += part[c] * rj
                if keeps:
                    for c in range(K):
                        s[j, c] = part[c]
            mean = _total(o[:K]) / size
            for c in range(K):
                o[c] -= mean
            scale = one / np.sqrt(_dot(o[:K], o[:K]) / size + np.float32(_GROUP_EPS))
            for c in range(K):
                at = b + c
                spread = o[c] * scale * norm[0, at] + norm[1, at]
                out[row, at] = gate[at] * (spread + extra * value[at])


def _add(to: Array32, values: Array32, rows: Array32, begin: int, end: int) -> None:
    """to += values[begin:end] @ rows[begin:end]"""
    for j in range(begin, end):
        for c in range(len(to)):
            to[c] += values[j] * rows[j, c]


def _total(x: Array32) -> np.float32:
    """The sum, in eight parts: as vectors add."""
    a = b = c = d = e = f = g = h = np.float32(0)
    whole = len(x) // 8 * 8
    for i in range(0, whole, 8):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
        e, f, g, h = e + x[i + 4], f + x[i + 5], g + x[i + 6], h + x[i + 7]
    for i in range(whole, len(x)):
        a += x[i]
    return ((a + e) + (b + f)) + ((c + g) + (d + h))


def _dot(x: Array32, y: Array32) -> np.float32:
    a = b = c = d = e = f = g = h = np.float32(0)
    whole = len(x) // 8 * 8
    for i in range(0, whole, 8):
        a, b = a + x[i] * y[i], b + x[i + 1] * y[i + 1]
        c, d = c + x[i + 2] * y[i + 2], d + x[i + 3] * y[i + 3]
        e, f = e + x[i + 4] * y[i + 4], f + x[i + 5] * y[i + 5]
        g, h = g + x[i + 6] * y[i + 6], h + x[i + 7] * y[i + 7]
    for i in range(whole, len(x)):
        a += x[i] * y[i]
    return ((a + e) + (b + f)) + ((c + g) + (d + h))


def _exp(x: np.float32) -> np.float32:
    """e to the x within 1e-7 of itself: Cody and Waite's reduction, Cephes' polynomial."""
    x = min(max(x, np.float32(-87)), np.float32(88))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1)
    scale = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
    return p * scale.view(np.float32)


# Inputs and heads


def _linear(net: Network, key: str, x: Array32) -> Array32:
    return x @ net.tensors[f"{key}.weight"].T + net.tensors[f"{key}.bias"]


def _norm(net: Network, key: str, x: Array32) -> Array32:
    x = x - x.mean(axis=1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + np.float32(_EPS))
    return x * net.tensors[f"{key}.weight"] + net.tensors[f"{key}.bias"]


def _silu(x: Array32) -> Array32:
    return x / (1 + np.exp(-x))


def _softmax(x: Array32) -> FloatArray:
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _recall_now(net: Network, x: Array32) -> FloatArray:
    """Of rows that ask (k, d): not Again, the first of the four grades."""
    z = np.maximum(_linear(net, "head_p.0", _norm(net, "prehead_norm", x)), 0)
    found: FloatArray = 1 - _softmax(_linear(net, "p_linear", z))[:, 0]
    return found


def _recall_later(net: Network, x: Array32, elapsed_s: IntArray) -> FloatArray:
    """Of rows of answers (k, d), `elapsed_s` (k,) later: a mixture of exponentials, corrected."""
    z = _norm(net, "prehead_norm", x)
    wide = _norm(net, "head_w.2", np.maximum(_linear(net, "head_w.0", z), 0))
    share = _softmax(_linear(net, "w_linear", _linear(net, "head_w.4", wide)))
    points = _linear(net, "ahead_linear", np.maximum(_linear(net, "head_ahead_logits.0", z), 0))
    t = np.maximum(elapsed_s, 1).astype(np.float64)
    curves = 0.1 + np.expm1(np.linspace(0, _SPREAD, share.shape[1])) * math.exp(22 - _SPREAD)
    raw = 1e-5 + (1 - 2e-5) * (share * 0.9 ** (t[:, None] / curves)).sum(axis=1)
    at = 0.5 + np.expm1(np.linspace(0, _SPREAD, points.shape[1])) * math.exp(21 - _SPREAD)
    t = np.minimum(t, at[-1])
    right = np.searchsorted(at, t)
    row = np.arange(len(t))
    low, high = (points[row, right - 1].astype(np.float64), points[row, right])
    residual = low + (high - low) * (t - at[right - 1]) / (at[right] - at[right - 1])
    logit = np.log(raw / (1 - raw)) + 1e-5 + (1 - 2e-5) * residual
    return 1 / (1 + np.exp(-logit))
