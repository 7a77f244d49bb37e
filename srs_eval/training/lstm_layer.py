"""A layer of LSTM cells over histories of many lengths, forth and back, on torch.

torch's own layer gives the same numbers. But when it goes back on a processor it fills, for each
step, an array as large as all steps together, so that its time grows with the square of the
longest history. Here each step writes its rows of arrays that are made once, and what does not
depend on the next step is computed for all rows together.

Equations and order of gates are those of torch.nn.LSTM: with i, f, g, o the input, forget, cell
and output gates, c = f c' + i g and h = o tanh c, primes being the step before.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.reviews import IntArray


def previous_rows(still: IntArray) -> IntArray:
    """Where each row from the second step on has its step before (rows - still[0],).

    Rows are all first steps, then all second ones and so on, the longest histories first;
    `still` (steps,) tells how many histories get so far.
    """
    return np.arange(still[0], still.sum()) - np.repeat(still[:-1], still[1:])


@cache
def layer() -> Any:
    """The function (x, previous, still, w_ih, w_hh, b_ih, b_hh) -> h, all rows (rows, m).

    `still` is a list, `previous` a tensor of `previous_rows`; the rest is as in torch.nn.LSTM.
    """
    import torch
    from torch import Tensor

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            x: Tensor,
            previous: Tensor,
            still: list[int],
            w_ih: Tensor,
            w_hh: Tensor,
            b_ih: Tensor,
            b_hh: Tensor,
        ) -> Tensor:
            m = w_hh.shape[1]
            gates = torch.addmm(b_ih + b_hh, x, w_ih.t())
            h, c, shown = x.new_empty(3, len(x), m).unbind(0)
            before = begin = 0
            for n in still:
                here, there = slice(begin, begin + n), slice(before, before + n)
                gate, cell = gates[here], c[here]
                if begin:
                    gate.addmm_(h[there], w_hh.t())
                gate[:, : 2 * m].sigmoid_()
                gate[:, 2 * m : 3 * m].tanh_()
                gate[:, 3 * m :].sigmoid_()
                enter, forget, new, leave = gate.split(m, 1)
                torch.mul(enter, new, out=cell)
                if begin:
                    cell.addcmul_(forget, c[there])
                torch.tanh(cell, out=shown[here])
                torch.mul(leave, shown[here], out=h[here])
                before, begin = begin, begin + n
            ctx.save_for_backward(x, previous, w_ih, w_hh, gates, h, c, shown)
            ctx.still = still
            return h

        @staticmethod
        def backward(ctx: Any, *bars: Tensor) -> Any:
            x, previous, w_ih, w_hh, gates, h, c, shown = ctx.saved_tensors
            still, m, first = ctx.still, w_hh.shape[1], ctx.still[0]
            enter, forget, new, leave = gates.split(m, 1)
            # How c (of the last gate: h) changes with what each gate is given; in the loop that
            # becomes the gradient.
            slope = torch.empty_like(gates)
            i, f, g, o = slope.split(m, 1)
            torch.mul(enter * (1 - enter), new, out=i)
            f[:first] = 0
            torch.mul((forget * (1 - forget))[first:], c[previous], out=f[first:])
            torch.mul(enter, 1 - new * new, out=g)
            torch.mul(leave * (1 - leave), shown, out=o)
            through = leave * (1 - shown * shown)
            h_bar, c_bar = bars[0].clone(), torch.zeros_like(c)
            end = len(x)
            for step in range(len(still) - 1, -1, -1):
                n = still[step]
                here = slice(end - n, end)
                gate, cell = slope[here], c_bar[here]
                cell.addcmul_(h_bar[here], through[here])
                gate[:, : 3 * m].view(n, 3, m).mul_(cell[:, None])
                gate[:, 3 * m :].mul_(h_bar[here])
                if step:
                    end -= n
                    there = slice(end - still[step - 1], end - still[step - 1] + n)
                    h_bar[there].addmm_(gate, w_hh)
                    torch.mul(cell, forget[here], out=c_bar[there])
            bias = slope.sum(0)
            w_ih_bar, w_hh_bar = slope.t() @ x, slope[first:].t() @ h[previous]
            return slope @ w_ih, None, None, w_ih_bar, w_hh_bar, bias, bias

    return Layer.apply
