"""A transformer two numbers wide, on eight histories at once: forward, loss, gradient, AdamW.

One encoder and one decoder layer as torch.nn.Transformer has them (sums, then norms; ReLU; two
heads); the decoder has one query, a zero. At a width of 2, each head sees one number of a review,
and the norm of (a, b) is (n, -n) with n = d / sqrt(d^2 + 1e-5), d = (a - b) / 2. So little is
computed that the calls of a tensor library would take most of the time. Gradients are written by
hand, since attention is a loop over as many reviews as a history has, while `tracing` derives
gradients of steps without loops.

Parameters (127,) lie as in the network's state_dict: `w[at : at + 4]` is a map's matrix,
`w[bias : bias + 2]` its bias; a norm's two factors come before its two terms. Float64.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray
from srs_eval.training.cells import (
    POWER,
    cross_entropy_and_slope,
    recall_and_slope,
    take_adamw_step,
)
from srs_eval.training.elementwise import LANES
from srs_eval.training.simd import broadcast, exp, load, log, rows_of, store, where

_PARAMETERS = 127
_Q, _K, _V, _Q_BIAS, _K_BIAS, _V_BIAS, _OUT = 0, 4, 8, 12, 14, 16, 18  # within an attention
_INNER, _NORM_1, _NORM_2, _NORM = 24, 36, 40, 44  # of the encoder
_SELF, _CROSS, _D_INNER = 48, 72, 96  # of the decoder, like the next line
_D_NORM_1, _D_NORM_2, _D_NORM_3, _D_NORM = 108, 112, 116, 120
_FC = 124

# Rows kept for each review in the encoder: the attention's output, norms, the values in between.
_SEEN, _N1, _HIDDEN, _N2, _N3, _OF_REVIEW = 0, 2, 4, 6, 8, 10
# Rows kept for the query in the decoder.
_OWN, _D_N1, _Y1, _ASKS, _D_SEEN, _D_N2, _Y2, _D_HIDDEN, _D_N3, _D_N4 = range(0, 20, 2)


class Batch(NamedTuple):
    """n histories (a multiple of LANES) of at most l reviews; the last ones may be empty."""

    reviews: FloatArray  # (2 l, n) interval in days and rating, 0 after a history's end
    delta_t: FloatArray  # (n,) days to the evaluated review
    passes: FloatArray  # (n,) weight of a pass in that review
    failures: FloatArray  # (n,) weight of a failure
    dropout: FloatArray  # (count_dropout_factors(l), n); (1, 1) without dropout


def make_batch(
    histories: FloatArray, delta_t: FloatArray, y: FloatArray, weights: FloatArray
) -> Batch:
    """Return a batch of histories (l, n, 2), filled up with empty ones and without dropout."""
    n = len(delta_t)
    reviews = np.zeros((2 * len(histories), n + -n % LANES))
    reviews[:, :n] = histories.transpose(0, 2, 1).reshape(-1, n)

    def fill_up(values: FloatArray) -> FloatArray:
        return np.pad(values, (0, -n % LANES))

    passes, failures = fill_up(weights * y), fill_up(weights * (1 - y))
    return Batch(reviews, fill_up(delta_t), passes, failures, np.ones((1, 1)))


class _Scratch(NamedTuple):
    """Arrays that one pass uses."""

    mixed: FloatArray  # (6 l, LANES) queries, keys and values of the reviews
    memory: FloatArray  # (6 l, LANES) the encoder's output, its keys and values
    share: FloatArray  # (2 l (l + 1), LANES) attention by head and review, the query's last
    kept: FloatArray  # (_OF_REVIEW l + 20, LANES)
    bar: FloatArray  # (6 l, LANES) gradients
    w_bar: FloatArray  # (PARAMETERS, LANES)
    recall: FloatArray  # (n,)


def new_scratch(longest: int, n: int) -> _Scratch:
    """Allocate memory for histories of up to `longest` reviews and n predictions."""

    def rows(count: int) -> FloatArray:
        return np.zeros((count, LANES))

    return _Scratch(
        mixed=rows(6 * longest),
        memory=rows(6 * longest),
        share=rows(2 * longest * (longest + 1)),
        kept=rows(_OF_REVIEW * longest + 20),
        bar=rows(6 * longest),
        w_bar=rows(_PARAMETERS),
        recall=np.zeros(n),
    )


def count_dropout_factors(longest: int) -> int:
    """Return how many numbers of a history have a factor of dropout, each row of `Batch.dropout`.

    In torch's order they are, in the encoder, the shares of attention, its output, and the numbers
    inside and after the feed-forward part; then the same in the decoder, whose self-attention and
    attention to the reviews come one after the other.
    """
    return 2 * longest * longest + 6 * longest + 2 + 2 + 2 * longest + 2 + 2 + 2


# Parts, and their backward passes, which add to `sums` and return the gradients of the inputs


def _map(w, at, bias, a, b):
    return w[bias] + w[at] * a + w[at + 1] * b, w[bias + 1] + w[at + 2] * a + w[at + 3] * b


def _map_back(w, sums, at, bias, a, b, bar_a, bar_b):
    sums[at] += bar_a * a
    sums[at + 1] += bar_a * b
    sums[at + 2] += bar_b * a
    sums[at + 3] += bar_b * b
    sums[bias] += bar_a
    sums[bias + 1] += bar_b
    return w[at] * bar_a + w[at + 2] * bar_b, w[at + 1] * bar_a + w[at + 3] * bar_b


def _norm(kept, to, a, b):
    """Keep n and its derivative with respect to a, which is minus that with respect to b."""
    d = 0.5 * (a - b)
    size = d * d + 1e-5
    over = exp(-0.5 * log(size))
    kept[to] = d * over
    kept[to + 1] = 0.5e-5 * over / size


def _scaled(w, norm, n):
    """Return the two numbers of a norm, (n, -n) times its factors plus its terms."""
    return w[norm + 2] + w[norm] * n, w[norm + 3] - w[norm + 1] * n


def _norm_back(w, sums, norm, kept, to, bar_a, bar_b):
    """Go back through `_scaled` and `_norm`; return the gradient of a, which is minus that of b."""
    n, slope = kept[to], kept[to + 1]
    sums[norm] += bar_a * n
    sums[norm + 1] = sums[norm + 1] - bar_b * n
    sums[norm + 2] += bar_a
    sums[norm + 3] += bar_b
    return (w[norm] * bar_a - w[norm + 1] * bar_b) * slope


def _dropout_at(dropout, row, at):
    """Return the factors in a row of `Batch.dropout`."""
    return load(dropout[row], at) if len(dropout) > 1 else broadcast(1.0)


def _feed_forward(w, inner, kept, hidden, norm_to, a, b, dropout, m, step, at):
    """Apply two maps around a ReLU, and the norm of their sum with (a, b).

    Factors of dropout are in rows m and m + step, and in the rows after these.
    """
    c, d = _map(w, inner, inner + 4, a, b)
    c = where(c < 0.0, 0.0, c) * _dropout_at(dropout, m, at)
    d = where(d < 0.0, 0.0, d) * _dropout_at(dropout, m + 1, at)
    kept[hidden], kept[hidden + 1] = c, d
    c, d = _map(w, inner + 6, inner + 10, c, d)
    c, d = c * _dropout_at(dropout, m + step, at), d * _dropout_at(dropout, m + step + 1, at)
    _norm(kept, norm_to, a + c, b + d)


def _feed_forward_back(w, sums, inner, kept, hidden, a, b, dropout, m, step, at, bar):
    """Go back through `_feed_forward`; return the gradients of (a, b).

    `bar` is the gradient of the sum's first number, and minus that of its second.
    """
    c, d = kept[hidden], kept[hidden + 1]
    bar_c = bar * _dropout_at(dropout, m + step, at)
    bar_d = -bar * _dropout_at(dropout, m + step + 1, at)
    bar_c, bar_d = _map_back(w, sums, inner + 6, inner + 10, c, d, bar_c, bar_d)
    # Numbers that ReLU or dropout has made 0 get no gradient.
    bar_c = where(c > 0.0, bar_c, 0.0) * _dropout_at(dropout, m, at)
    bar_d = where(d > 0.0, bar_d, 0.0) * _dropout_at(dropout, m + 1, at)
    bar_a, bar_b = _map_back(w, sums, inner, inner + 4, a, b, bar_c, bar_d)
    return bar_a + bar, bar_b - bar


def _attend(q, rows, head, longest, share, to, dropout, m, at):
    """Return the mean of the reviews' values, weighted by one head's attention.

    Keys and values are in `rows`; the shares of attention stay in `share` from row `to` on. Their
    factors of dropout are in the rows from m on.
    """
    least = rows[2 + head]
    most = least
    for j in range(1, longest):
        k = rows[6 * j + 2 + head]
        least = where(k < least, k, least)
        most = where(most < k, k, most)
    # Subtract the largest logit, so that no exp overflows.
    top = q * where(q < 0.0, least, most)
    exp_sum = broadcast(0.0)
    for j in range(longest):
        e = exp(q * rows[6 * j + 2 + head] - top)
        share[to + j] = e
        exp_sum += e
    inverse = 1.0 / exp_sum
    seen = broadcast(0.0)
    for j in range(longest):
        attention = share[to + j] * inverse
        share[to + j] = attention
        seen += attention * _dropout_at(dropout, m + j, at) * rows[6 * j + 4 + head]
    return seen


def _attend_back(q, rows, head, longest, share, to, dropout, m, at, seen, seen_bar, bar):
    """Add to the gradients of keys and values in `bar`; return the gradient of q."""
    q_bar = broadcast(0.0)
    for j in range(longest):
        k, v = 6 * j + 2 + head, 6 * j + 4 + head
        through = share[to + j] * seen_bar
        factor = _dropout_at(dropout, m + j, at)
        bar[v] += through * factor
        logit_bar = through * (factor * rows[v] - seen)
        bar[k] += logit_bar * q
        q_bar += logit_bar * rows[k]
    return q_bar


# One batch


def _encode(w, batch, longest, at, mixed, share, kept):
    dropout = batch.dropout
    for i in range(longest):
        a, b = load(batch.reviews[2 * i], at), load(batch.reviews[2 * i + 1], at)
        mixed[6 * i], mixed[6 * i + 1] = _map(w, _Q, _Q_BIAS, a, b)
        mixed[6 * i + 2], mixed[6 * i + 3] = _map(w, _K, _K_BIAS, a, b)
        mixed[6 * i + 4], mixed[6 * i + 5] = _map(w, _V, _V_BIAS, a, b)
    m = 2 * longest * longest
    for i in range(longest):
        here = _OF_REVIEW * i
        for head in range(2):
            row = (head * longest + i) * longest
            kept[here + _SEEN + head] = _attend(
                mixed[6 * i + head], mixed, head, longest, share, row, dropout, row, at
            )
        a, b = _map(w, _OUT, _OUT + 4, kept[here + _SEEN], kept[here + _SEEN + 1])
        a = load(batch.reviews[2 * i], at) + a * _dropout_at(dropout, m + 2 * i, at)
        b = load(batch.reviews[2 * i + 1], at) + b * _dropout_at(dropout, m + 2 * i + 1, at)
        _norm(kept, here + _N1, a, b)
        a, b = _scaled(w, _NORM_1, kept[here + _N1])
        inside = m + 2 * longest + 2 * i
        _feed_forward(
            w, _INNER, kept, here + _HIDDEN, here + _N2, a, b, dropout, inside, 2 * longest, at
        )
        a, b = _scaled(w, _NORM_2, kept[here + _N2])
        _norm(kept, here + _N3, a, b)


def _encode_back(w, sums, batch, longest, at, mixed, share, kept, bar):
    """Go back through the encoder; `bar` holds the gradients of its output and is overwritten."""
    dropout = batch.dropout
    m = 2 * longest * longest
    for i in range(longest):
        here = _OF_REVIEW * i
        back = _norm_back(w, sums, _NORM, kept, here + _N3, bar[6 * i], bar[6 * i + 1])
        back = _norm_back(w, sums, _NORM_2, kept, here + _N2, back, -back)
        a, b = _scaled(w, _NORM_1, kept[here + _N1])
        inside = m + 2 * longest + 2 * i
        bar_a, bar_b = _feed_forward_back(
            w, sums, _INNER, kept, here + _HIDDEN, a, b, dropout, inside, 2 * longest, at, back
        )
        back = _norm_back(w, sums, _NORM_1, kept, here + _N1, bar_a, bar_b)
        # From here on, these rows of `bar` are gradients of what the heads saw, then of queries.
        bar[6 * i], bar[6 * i + 1] = _map_back(
            w,
            sums,
            _OUT,
            _OUT + 4,
            kept[here + _SEEN],
            kept[here + _SEEN + 1],
            back * _dropout_at(dropout, m + 2 * i, at),
            -back * _dropout_at(dropout, m + 2 * i + 1, at),
        )
        for k in range(2, 6):
            bar[6 * i + k] = broadcast(0.0)
    for i in range(longest):
        for head in range(2):
            row = (head * longest + i) * longest
            seen = kept[_OF_REVIEW * i + _SEEN + head]
            q, seen_bar = mixed[6 * i + head], bar[6 * i + head]
            bar[6 * i + head] = _attend_back(
                q, mixed, head, longest, share, row, dropout, row, at, seen, seen_bar, bar
            )
    for i in range(longest):
        a, b = load(batch.reviews[2 * i], at), load(batch.reviews[2 * i + 1], at)
        _map_back(w, sums, _Q, _Q_BIAS, a, b, bar[6 * i], bar[6 * i + 1])
        _map_back(w, sums, _K, _K_BIAS, a, b, bar[6 * i + 2], bar[6 * i + 3])
        _map_back(w, sums, _V, _V_BIAS, a, b, bar[6 * i + 4], bar[6 * i + 5])


def _decode(w, batch, longest, at, memory, share, kept, d):
    """Return the logarithm of the stability; the rows kept for the decoder begin at d."""
    dropout = batch.dropout
    for i in range(longest):
        a, b = _scaled(w, _NORM, kept[_OF_REVIEW * i + _N3])
        memory[6 * i], memory[6 * i + 1] = a, b
        memory[6 * i + 2], memory[6 * i + 3] = _map(w, _CROSS + _K, _CROSS + _K_BIAS, a, b)
        memory[6 * i + 4], memory[6 * i + 5] = _map(w, _CROSS + _V, _CROSS + _V_BIAS, a, b)
    m = 2 * longest * longest + 6 * longest
    # The query, a zero, attends to itself: its value is the bias.
    kept[d + _OWN] = w[_SELF + _V_BIAS] * _dropout_at(dropout, m, at)
    kept[d + _OWN + 1] = w[_SELF + _V_BIAS + 1] * _dropout_at(dropout, m + 1, at)
    a, b = _map(w, _SELF + _OUT, _SELF + _OUT + 4, kept[d + _OWN], kept[d + _OWN + 1])
    _norm(kept, d + _D_N1, a * _dropout_at(dropout, m + 2, at), b * _dropout_at(dropout, m + 3, at))
    a, b = _scaled(w, _D_NORM_1, kept[d + _D_N1])
    kept[d + _Y1], kept[d + _Y1 + 1] = a, b
    kept[d + _ASKS], kept[d + _ASKS + 1] = _map(w, _CROSS + _Q, _CROSS + _Q_BIAS, a, b)
    m += 4
    for head in range(2):
        row = 2 * longest * longest + head * longest
        q, there = kept[d + _ASKS + head], m + head * longest
        kept[d + _D_SEEN + head] = _attend(q, memory, head, longest, share, row, dropout, there, at)
    m += 2 * longest
    seen_a, seen_b = kept[d + _D_SEEN], kept[d + _D_SEEN + 1]
    a, b = _map(w, _CROSS + _OUT, _CROSS + _OUT + 4, seen_a, seen_b)
    a = kept[d + _Y1] + a * _dropout_at(dropout, m, at)
    b = kept[d + _Y1 + 1] + b * _dropout_at(dropout, m + 1, at)
    _norm(kept, d + _D_N2, a, b)
    a, b = _scaled(w, _D_NORM_2, kept[d + _D_N2])
    kept[d + _Y2], kept[d + _Y2 + 1] = a, b
    _feed_forward(w, _D_INNER, kept, d + _D_HIDDEN, d + _D_N3, a, b, dropout, m + 2, 2, at)
    a, b = _scaled(w, _D_NORM_3, kept[d + _D_N3])
    _norm(kept, d + _D_N4, a, b)
    a, b = _scaled(w, _D_NORM, kept[d + _D_N4])
    return w[_FC + 2] + w[_FC] * a + w[_FC + 1] * b


def _decode_back(w, sums, batch, longest, at, memory, share, kept, d, z_bar, bar):
    """Go back through the decoder; leave the gradients of the encoder's output in `bar`."""
    dropout = batch.dropout
    m = 2 * longest * longest + 8 * longest + 4
    a, b = _scaled(w, _D_NORM, kept[d + _D_N4])
    sums[_FC] += z_bar * a
    sums[_FC + 1] += z_bar * b
    sums[_FC + 2] += z_bar
    bar_a, bar_b = w[_FC] * z_bar, w[_FC + 1] * z_bar
    back = _norm_back(w, sums, _D_NORM, kept, d + _D_N4, bar_a, bar_b)
    back = _norm_back(w, sums, _D_NORM_3, kept, d + _D_N3, back, -back)
    a, b = kept[d + _Y2], kept[d + _Y2 + 1]
    bar_a, bar_b = _feed_forward_back(
        w, sums, _D_INNER, kept, d + _D_HIDDEN, a, b, dropout, m + 2, 2, at, back
    )
    own = _norm_back(w, sums, _D_NORM_2, kept, d + _D_N2, bar_a, bar_b)
    seen_a, seen_b = kept[d + _D_SEEN], kept[d + _D_SEEN + 1]
    a, b = own * _dropout_at(dropout, m, at), -own * _dropout_at(dropout, m + 1, at)
    bar_a, bar_b = _map_back(w, sums, _CROSS + _OUT, _CROSS + _OUT + 4, seen_a, seen_b, a, b)
    for k in range(6 * longest):
        bar[k] = broadcast(0.0)
    m -= 2 * longest
    row = 2 * longest * longest
    q = kept[d + _ASKS]
    bar_a = _attend_back(q, memory, 0, longest, share, row, dropout, m, at, seen_a, bar_a, bar)
    q = kept[d + _ASKS + 1]
    row, m = row + longest, m + longest
    bar_b = _attend_back(q, memory, 1, longest, share, row, dropout, m, at, seen_b, bar_b, bar)
    m -= longest + 4
    a, b = kept[d + _Y1], kept[d + _Y1 + 1]
    bar_a, bar_b = _map_back(w, sums, _CROSS + _Q, _CROSS + _Q_BIAS, a, b, bar_a, bar_b)
    back = _norm_back(w, sums, _D_NORM_1, kept, d + _D_N1, bar_a + own, bar_b - own)
    a, b = kept[d + _OWN], kept[d + _OWN + 1]
    bar_a, bar_b = back * _dropout_at(dropout, m + 2, at), -back * _dropout_at(dropout, m + 3, at)
    bar_a, bar_b = _map_back(w, sums, _SELF + _OUT, _SELF + _OUT + 4, a, b, bar_a, bar_b)
    value = _SELF + _V_BIAS
    sums[value] += bar_a * _dropout_at(dropout, m, at)
    sums[value + 1] += bar_b * _dropout_at(dropout, m + 1, at)
    for i in range(longest):
        here = 6 * i
        a, b = memory[here], memory[here + 1]
        k_a, k_b = _map_back(
            w, sums, _CROSS + _K, _CROSS + _K_BIAS, a, b, bar[here + 2], bar[here + 3]
        )
        v_a, v_b = _map_back(
            w, sums, _CROSS + _V, _CROSS + _V_BIAS, a, b, bar[here + 4], bar[here + 5]
        )
        bar[here], bar[here + 1] = k_a + v_a, k_b + v_b


def transformer_pass(done, w, batch, adam, scratch):
    """Compute the recall of all histories into scratch.recall.

    If done < 0, it only evaluates. Otherwise it goes on training after `done` steps: it makes one
    more, which changes `w` and the state of `adam`.
    """
    mixed, memory, share = rows_of(scratch.mixed), rows_of(scratch.memory), rows_of(scratch.share)
    kept, bar, sums = rows_of(scratch.kept), rows_of(scratch.bar), rows_of(scratch.w_bar)
    longest = len(batch.reviews) // 2
    d = _OF_REVIEW * longest
    scratch.w_bar[:] = 0.0
    for at in range(0, len(batch.delta_t), LANES):
        _encode(w, batch, longest, at, mixed, share, kept)
        z = _decode(w, batch, longest, at, memory, share, kept, d)
        p, slope = recall_and_slope(POWER, z, load(batch.delta_t, at))
        store(scratch.recall, at, p)
        if done >= 0:
            _, z_bar = cross_entropy_and_slope(
                p, slope, load(batch.passes, at), load(batch.failures, at)
            )
            _decode_back(w, sums, batch, longest, at, memory, share, kept, d, z_bar, bar)
            _encode_back(w, sums, batch, longest, at, mixed, share, kept, bar)
    if done >= 0:
        take_adamw_step(w, sums, adam, done)
