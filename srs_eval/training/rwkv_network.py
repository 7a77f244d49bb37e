"""RWKV-7 over all reviews of a collection: matrix products in blocks, a scan for each entity.

Five stacks of layers are chained, by card, deck, note, preset and for all together. In a layer only
the state is sequential, and only within an entity: rows are sorted by entity, projections of a
block of rows are products, and one K x K state for each head goes from row to row. Rows that
ask for a prediction, queries, read the states but do not change them.

float32 throughout, as the weights are.

Source: the code of the network's authors (srs-benchmark rwkv/,
github.com/Expertium/rwkv-state-quant gpu_train/rwkv/model), read for facts. docs/models/rwkv.md has
the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray, mark_run_starts
from srs_eval.training.compile import compile_kernel, specialise
from srs_eval.training.rwkv_inputs import Array32, RwkvInputs, RwkvNetwork, Stack

_ROWS_PER_BLOCK = 512  # rows at once: a layer's values for them stay in a core's cache
_NORM_EPSILON = 1e-5
_GROUP_NORM_EPSILON = 64e-5
_CURVE_SPREAD = 18.5  # range of ln seconds over which stabilities and points are spread
_HEAD_SIZE = 0  # size of a head; the kernel is compiled for each size


def compute_predictions(
    net: RwkvNetwork,
    inputs: RwkvInputs,
    positions: IntArray,
    elapsed_s: IntArray,
    tick: Callable[[float], None],
    *,
    instant: bool = True,
    curve: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Predict recall at the reviews `positions` (k,) by RWKV-Instant and by RWKV-Curve.

    The first prediction is made just before the review, after all earlier ones of the collection.
    The second reads the curve after the card's previous review, `elapsed_s` (k,) later; it is NaN
    at a card's first review. Without `instant` or `curve`, all of that model's are NaN. `positions`
    is ascending. Calls `tick` with the fraction that is done.
    """
    reviews = np.arange(int(positions[-1]) + 1 if len(positions) else 0)
    queries = positions if instant else positions[:0]
    position = np.concatenate([queries, reviews])
    is_query = np.arange(len(position)) < len(queries)
    order = np.lexsort((~is_query, position))  # by position, each query before its review
    position = position[order]
    is_query = is_query[order]
    row_of_review = np.flatnonzero(~is_query)

    def make_inputs(block: slice) -> Array32:
        return inputs.at(position[block], is_query[block])

    x = _encode(net, len(position), make_inputs)
    _run_stacks(net, inputs, x, position, is_query, tick)
    p_instant = np.full(len(positions), np.nan)
    p_curve = np.full(len(positions), np.nan)
    for block in _row_blocks(len(positions)):
        if instant:
            p_instant[block] = _predict_instant(net, x[np.flatnonzero(is_query)[block]])
        before = inputs.before[positions[block]]
        has_previous = np.flatnonzero(before != positions[block])
        if curve and len(has_previous):
            rows = x[row_of_review[before[has_previous]]]
            elapsed = elapsed_s[block][has_previous]
            p_curve[block.start + has_previous] = _predict_curve(net, rows, elapsed)
    tick(1.0)
    return p_instant, p_curve


def compute_curves_after_answers(
    net: RwkvNetwork,
    inputs: RwkvInputs,
    positions: IntArray,
    ratings: IntArray,
    elapsed_s: IntArray,
    tick: Callable[[float], None],
) -> FloatArray:
    """Return recall `elapsed_s` (t,) after answers that were not given, (k, r, t).

    Each of the reviews at `positions` (k,), in ascending order, is answered with each of the
    `ratings` (r,); all other inputs, its answer time too, are those of the review. What was really
    answered is known to the reviews that follow, as ever: an answer that was not given changes no
    state. Calls `tick` with the fraction that is done.
    """
    reviews = np.arange(int(positions[-1]) + 1 if len(positions) else 0)
    answered = np.repeat(positions, len(ratings))
    position = np.concatenate([answered, reviews])
    rating = np.concatenate([np.tile(ratings, len(positions)), 0 * reviews])  # 0: as it was given
    order = np.lexsort((rating == 0, position))  # by position, answers before the review itself
    position = position[order]
    rating = rating[order]
    is_made_up = rating > 0

    def make_inputs(block: slice) -> Array32:
        return inputs.with_ratings(position[block], rating[block])

    x = _encode(net, len(position), make_inputs)
    _run_stacks(net, inputs, x, position, is_made_up, tick)
    rows = np.flatnonzero(is_made_up)
    recall = np.empty((len(rows), len(elapsed_s)))
    for block in _row_blocks(len(rows)):
        share, points = _compute_curves(net, x[rows[block]])
        for number, seconds in enumerate(elapsed_s.tolist()):
            recall[block, number] = _read_curves(share, points, np.full(len(share), seconds))
    tick(1.0)
    return recall.reshape(len(positions), len(ratings), len(elapsed_s))


def _run_stacks(
    net: RwkvNetwork,
    inputs: RwkvInputs,
    x: Array32,
    position: IntArray,
    is_query: NDArray[np.bool_],
    tick: Callable[[float], None],
) -> None:
    """Send the encoded rows (m, d) through all stacks, in place; queries change no state."""
    layers = sum(len(stack) for stack in net.stacks)
    done = 0
    for number, stack in enumerate(net.stacks):
        if number < len(inputs.entities):
            entity = inputs.entities[number][position]
        else:  # the last stack is that of the learner
            entity = 0 * position
        order = np.argsort(entity, kind="stable")
        sorted_x = x[order]
        for fraction in _run_stack(net, stack, sorted_x, entity[order], is_query[order]):
            tick(0.98 * (done + fraction * len(stack)) / layers)
        x[order] = sorted_x
        done += len(stack)


def _row_blocks(n: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _ROWS_PER_BLOCK, n)) for begin in range(0, n, _ROWS_PER_BLOCK))


def _encode(net: RwkvNetwork, rows: int, make_inputs: Callable[[slice], Array32]) -> Array32:
    """Encode the rows as the first stack takes them (rows, d); `make_inputs` makes a block's."""
    x = np.empty((rows, net.width), np.float32)
    for block in _row_blocks(rows):
        wide = _silu(_linear(net, "features2card.0", make_inputs(block)))
        normed = _norm(net, "features2card.2", wide)
        x[block] = _silu(_linear(net, "features2card.3", normed))
    return x


def _run_stack(
    net: RwkvNetwork,
    stack: Stack,
    x: Array32,
    entity: IntArray,
    is_query: NDArray[np.bool_],
) -> Iterator[float]:
    """Send the rows (m, d), sorted by entity and then time, through the layers, in place.

    Yields the fraction that is done.
    """
    d = net.width
    heads = net.heads
    k = d // heads
    begins = mark_run_starts(entity)
    row = np.arange(len(x))
    # A row's previous review: the last row of its entity that is not a query. Without one, itself.
    last = np.maximum.accumulate(np.where(is_query, -1, row))
    before = np.concatenate([[-1], last[:-1]])[: len(x)]
    start = np.maximum.accumulate(np.where(begins, row, 0))
    before = np.where(before >= start, before, row)
    states = [np.zeros((heads, k * k + 2 * k), np.float32) for _ in stack]
    # The normalised values of the last review, in both mixers of each layer.
    shifted = np.zeros((len(stack), 2, d), np.float32)
    shift = compile_kernel(_mix_with_previous)
    mix = specialise(_mix_time, str(k), {}, {"_HEAD_SIZE": k})
    delta = np.empty((_ROWS_PER_BLOCK, d), np.float32)
    y = np.empty((_ROWS_PER_BLOCK, d), np.float32)
    first_value = np.empty((_ROWS_PER_BLOCK, d), np.float32)
    out = np.empty((_ROWS_PER_BLOCK, d), np.float32)
    mixes = np.empty((len(stack[0][0].mix), _ROWS_PER_BLOCK, d), np.float32)
    wide = np.empty((3, _ROWS_PER_BLOCK, d), np.float32)
    low = np.empty((4, _ROWS_PER_BLOCK, d), np.float32)
    scratch = np.empty((2, d), np.float32)
    for block in _row_blocks(len(x)):
        rows = x[block]
        n = block.stop - block.start
        previous = np.maximum(before[block] - block.start, -1)  # -1: in an earlier block
        reviews = np.flatnonzero(~is_query[block])
        delta[:] = 0
        for number, ((mixer, channels), state, (time_y, channel_y)) in enumerate(
            zip(stack, states, shifted, strict=True)
        ):
            shift(rows, delta, mixer.norm, mixer.mix, previous, time_y, mixes, y)
            if len(reviews):
                time_y[:] = y[reviews[-1]]
            for mixed, matrix, projected in zip(mixes[:3], mixer.wide, wide, strict=True):
                np.matmul(mixed[:n], matrix, out=projected[:n])
            # The low-rank products of v, d, a and g.
            for index, ((inner, outer), projected) in enumerate(zip(mixer.low, low, strict=True)):
                if index == 0 and number == 0:
                    continue  # the first layer has no earlier one to take its v from
                half = mixes[2 + index, :n] @ inner
                if index == 1:
                    half = np.tanh(half)
                elif index == 3:
                    half = _sigmoid(half)
                np.matmul(half, outer, out=projected[:n])
            scales = np.stack(
                [
                    _sigmoid(mixed[:n] @ matrix + bias)
                    for mixed, matrix, bias in zip(
                        mixes[6:], mixer.scales, mixer.scale_bias, strict=True
                    )
                ]
            )
            r, wide_k, v = wide
            mix(
                r,
                wide_k,
                v,
                scales,
                low,
                mixer.bias,
                mixer.bonus,
                mixer.group_norm,
                begins[block],
                is_query[block],
                number == 0,
                state,
                first_value,
                scratch,
                out,
            )
            np.matmul(out[:n], mixer.out, out=delta[:n])
            shift(rows, delta, channels.norm, channels.mix, previous, channel_y, mixes, y)
            if len(reviews):
                channel_y[:] = y[reviews[-1]]
            inner = mixes[0, :n] @ channels.inner
            np.maximum(inner, 0, out=inner)
            np.square(inner, out=inner)
            np.matmul(inner, channels.out, out=delta[:n])
        rows += delta[:n]
        yield block.stop / len(x)


def _mix_with_previous(
    x: Array32,
    delta: Array32,
    norm: Array32,
    mix: Array32,
    previous: IntArray,
    carried: Array32,
    mixed: Array32,
    y: Array32,
) -> None:
    """Add `delta` to x, normalise it and mix each row with its previous one.

    x += delta; y = norm(x); s = y of each row's `previous`, or `carried` if that is -1;
    mixed = y + mix (s - y).

    x (n, d), mix (j, d), mixed (j, n, d), y (n, d).
    """
    n, d = x.shape
    size = np.float32(d)
    for row in range(n):
        for c in range(d):
            x[row, c] += delta[row, c]
        mean = _sum(x[row]) / size
        for c in range(d):
            y[row, c] = x[row, c] - mean
        scale = np.float32(1) / np.sqrt(_dot(y[row], y[row]) / size + np.float32(_NORM_EPSILON))
        for c in range(d):
            y[row, c] = y[row, c] * scale * norm[0, c] + norm[1, c]
        s = carried if previous[row] < 0 else y[previous[row]]
        for j in range(len(mix)):
            for c in range(d):
                mixed[j, row, c] = y[row, c] + mix[j, c] * (s[c] - y[row, c])


def _mix_time(
    r: Array32,
    k: Array32,
    v: Array32,
    scales: Array32,
    low: Array32,
    bias: Array32,
    bonus: Array32,
    norm: Array32,
    begins: NDArray[np.bool_],
    is_query: NDArray[np.bool_],
    is_first: bool,
    state: Array32,
    first_value: Array32,
    scratch: Array32,
    out: Array32,
) -> None:
    """Compute a time mixer for n rows, between its products: `out` (n, d) enters the last one.

    `low` (4, n, d) are the products for v, d, a and g, `scales` (2, n, heads) those of k and v.
    `state` goes from row to row. For each head it has S (K keys, K values) and 2 K numbers of
    scratch memory, v - S'k and o:

        o = S'r after  S <- diag(w) S + (a k) (v - S'k)'

    A query does not change S. r, k and v are overwritten.
    """
    size, eps, tiny = np.float32(_HEAD_SIZE), np.float32(_GROUP_NORM_EPSILON), np.float32(1e-24)
    decay, rate = scratch[0], scratch[1]
    for row in range(len(begins)):
        value, kept, z_v, z_d, z_a = v[row], first_value[row], low[0, row], low[1, row], low[2, row]
        _activate_row(value, kept, is_first, z_v, z_d, z_a, bias, decay, rate)
        if begins[row]:
            state[:] = 0
        for head in range(len(state)):
            s, begin = state[head], head * _HEAD_SIZE
            end = begin + _HEAD_SIZE
            kh, vh, rh = k[row, begin:end], value[begin:end], r[row, begin:end]
            wh, ah = decay[begin:end], rate[begin:end]
            k_scale = scales[0, row, head] / np.sqrt(max(_dot(kh, kh), tiny))
            v_scale = scales[1, row, head] / np.sqrt(max(_dot(vh, vh), tiny))
            for c in range(_HEAD_SIZE):
                kh[c] *= k_scale
                ah[c] *= kh[c]
                vh[c] *= v_scale
                s[_HEAD_SIZE * _HEAD_SIZE + c] = np.float32(0)
                s[_HEAD_SIZE * _HEAD_SIZE + _HEAD_SIZE + c] = np.float32(0)
            # S'k and S'diag(w) r at once, four keys at a time, so that fewer sums wait for others.
            for j in range(0, _HEAD_SIZE, 4):
                k0, k1, k2, k3 = kh[j], kh[j + 1], kh[j + 2], kh[j + 3]
                r0, r1 = wh[j] * rh[j], wh[j + 1] * rh[j + 1]
                r2, r3 = wh[j + 2] * rh[j + 2], wh[j + 3] * rh[j + 3]
                for c in range(_HEAD_SIZE):
                    i = j * _HEAD_SIZE + c
                    s0, s1, s2, s3 = (
                        s[i],
                        s[i + _HEAD_SIZE],
                        s[i + 2 * _HEAD_SIZE],
                        s[i + 3 * _HEAD_SIZE],
                    )
                    s[_HEAD_SIZE * _HEAD_SIZE + c] += (s0 * k0 + s1 * k1) + (s2 * k2 + s3 * k3)
                    s[_HEAD_SIZE * _HEAD_SIZE + _HEAD_SIZE + c] += (s0 * r0 + s1 * r1) + (
                        s2 * r2 + s3 * r3
                    )
            strength = _dot(ah, rh)
            for c in range(_HEAD_SIZE):
                s[_HEAD_SIZE * _HEAD_SIZE + c] = vh[c] - s[_HEAD_SIZE * _HEAD_SIZE + c]
                s[_HEAD_SIZE * _HEAD_SIZE + _HEAD_SIZE + c] += (
                    s[_HEAD_SIZE * _HEAD_SIZE + c] * strength
                )
            if not is_query[row]:
                for j in range(0, _HEAD_SIZE, 4):
                    w0, w1, w2, w3 = wh[j], wh[j + 1], wh[j + 2], wh[j + 3]
                    a0, a1, a2, a3 = ah[j], ah[j + 1], ah[j + 2], ah[j + 3]
                    for c in range(_HEAD_SIZE):
                        i, u = j * _HEAD_SIZE + c, s[_HEAD_SIZE * _HEAD_SIZE + c]
                        s[i] = s[i] * w0 + u * a0
                        s[i + _HEAD_SIZE] = s[i + _HEAD_SIZE] * w1 + u * a1
                        s[i + 2 * _HEAD_SIZE] = s[i + 2 * _HEAD_SIZE] * w2 + u * a2
                        s[i + 3 * _HEAD_SIZE] = s[i + 3 * _HEAD_SIZE] * w3 + u * a3
            o = s[_HEAD_SIZE * _HEAD_SIZE + _HEAD_SIZE :]
            mean = _sum(o) / size
            for c in range(_HEAD_SIZE):
                o[c] -= mean
                rh[c] *= bonus[begin + c]
            scale, extra = np.float32(1) / np.sqrt(_dot(o, o) / size + eps), _dot(rh, ah)
            for c in range(_HEAD_SIZE):
                normed = o[c] * scale * norm[0, begin + c] + norm[1, begin + c]
                out[row, begin + c] = low[3, row, begin + c] * (normed + extra * vh[c])


def _activate_row(
    value: Array32,
    first_value: Array32,
    is_first: bool,
    z_v: Array32,
    z_d: Array32,
    z_a: Array32,
    bias: Array32,
    decay: Array32,
    rate: Array32,
) -> None:
    """Mix a row's value with that of the stack's first layer; set its decay and rate (d,)."""
    one, half = np.float32(1), np.float32(math.exp(-0.5))
    if is_first:
        for c in range(len(value)):
            first_value[c] = value[c]
    else:
        for c in range(len(value)):
            value[c] += (first_value[c] - value[c]) / (one + _exp(-z_v[c] - bias[0, c]))
    for c in range(len(value)):
        decay[c] = _exp(-half / (one + _exp(-z_d[c] - bias[1, c])))
    for c in range(len(value)):
        rate[c] = one / (one + _exp(-z_a[c] - bias[2, c]))


def _sum(x: Array32) -> np.float32:
    """Return the sum, added up in eight parts as vectors do it."""
    a = np.float32(0)
    b = np.float32(0)
    c = np.float32(0)
    d = np.float32(0)
    e = np.float32(0)
    f = np.float32(0)
    g = np.float32(0)
    h = np.float32(0)
    whole = len(x) // 8 * 8
    for i in range(0, whole, 8):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
        e, f, g, h = e + x[i + 4], f + x[i + 5], g + x[i + 6], h + x[i + 7]
    for i in range(whole, len(x)):
        a += x[i]
    return ((a + e) + (b + f)) + ((c + g) + (d + h))


def _dot(x: Array32, y: Array32) -> np.float32:
    """Return the dot product, added up like `_sum`."""
    a = np.float32(0)
    b = np.float32(0)
    c = np.float32(0)
    d = np.float32(0)
    e = np.float32(0)
    f = np.float32(0)
    g = np.float32(0)
    h = np.float32(0)
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
    """Return e^x with a relative error of 1e-7: Cody and Waite's reduction, Cephes' polynomial."""
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


def _linear(net: RwkvNetwork, key: str, x: Array32) -> Array32:
    return x @ net.tensors[f"{key}.weight"].T + net.tensors[f"{key}.bias"]


def _norm(net: RwkvNetwork, key: str, x: Array32) -> Array32:
    x = x - x.mean(axis=1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + np.float32(_NORM_EPSILON))
    return x * net.tensors[f"{key}.weight"] + net.tensors[f"{key}.bias"]


def _silu(x: Array32) -> Array32:
    return x * _sigmoid(x)


def _sigmoid(x: Array32) -> Array32:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def _softmax(x: Array32) -> FloatArray:
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _predict_instant(net: RwkvNetwork, x: Array32) -> FloatArray:
    """Predict recall from query rows (k, d): not Again, the first of the four grades."""
    z = np.maximum(_linear(net, "head_p.0", _norm(net, "prehead_norm", x)), 0)
    recall: FloatArray = 1 - _softmax(_linear(net, "p_linear", z))[:, 0]
    return recall


def _predict_curve(net: RwkvNetwork, x: Array32, elapsed_s: IntArray) -> FloatArray:
    """Predict recall `elapsed_s` (k,) after the answers in rows (k, d)."""
    share, points = _compute_curves(net, x)
    return _read_curves(share, points, elapsed_s)


def _compute_curves(net: RwkvNetwork, x: Array32) -> tuple[FloatArray | Array32, Array32]:
    """Return the shares (k, curves) and the points (k, points) of curves after rows (k, d)."""
    z = _norm(net, "prehead_norm", x)
    wide = _norm(net, "head_w.2", np.maximum(_linear(net, "head_w.0", z), 0))
    share = _softmax(_linear(net, "w_linear", _linear(net, "head_w.4", wide)))
    points = _linear(net, "ahead_linear", np.maximum(_linear(net, "head_ahead_logits.0", z), 0))
    return share, points


def _read_curves(share: FloatArray | Array32, points: Array32, elapsed_s: IntArray) -> FloatArray:
    """Return the recall of curves (k,), each at its time `elapsed_s` (k,).

    A curve is a mixture of exponentials. A correction of its logit is linear between points.
    """
    t = np.maximum(elapsed_s, 1).astype(np.float64)
    stabilities = 0.1 + np.expm1(np.linspace(0, _CURVE_SPREAD, share.shape[1])) * math.exp(
        22 - _CURVE_SPREAD
    )
    raw = 1e-5 + (1 - 2e-5) * (share * 0.9 ** (t[:, None] / stabilities)).sum(axis=1)
    point_s = 0.5 + np.expm1(np.linspace(0, _CURVE_SPREAD, points.shape[1])) * math.exp(
        21 - _CURVE_SPREAD
    )
    t = np.minimum(t, point_s[-1])
    right = np.searchsorted(point_s, t)
    row = np.arange(len(t))
    low, high = (points[row, right - 1].astype(np.float64), points[row, right])
    residual = low + (high - low) * (t - point_s[right - 1]) / (point_s[right] - point_s[right - 1])
    logit = np.log(raw / (1 - raw)) + 1e-5 + (1 - 2e-5) * residual
    return 1 / (1 + np.exp(-logit))
