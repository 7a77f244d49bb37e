"""What networks need of torch: a device, one thread, and a layer of LSTM cells.

torch's own layer gives the same numbers. But when it goes back on a processor it fills, for
each step, an array as large as all steps together, so that its time grows with the square of the
longest history. Here each step writes its rows of arrays that are made once, and what does not
depend on the next step is computed for all rows together.

Equations and order of gates are those of torch.nn.LSTM: with i, f, g, o the input, forget, cell
and output gates, c = f c' + i g and h = o tanh c, primes being the step before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import IntArray
from srs_eval.training.hyperparameters import Context


def _device_of(context: Context) -> Any:
    """The torch device that the person asked for; InputError where it is not here."""
    import torch

    # Before the GPU is opened; otherwise cuDNN's recurrent layers may add in any order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        try:
            device = torch.device(context.device)
        except RuntimeError:
            raise RuntimeError("torch knows none of that name") from None
        if device.type == "meta":
            raise RuntimeError("it computes nothing")
        if device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise InputError(
            f"The device {context.device!r} cannot be used ({reason}); give another, or cpu."
        ) from error
    return device


def check_device(context: Context) -> None:
    """Raises InputError where the device cannot be used. A process of its own can run this."""
    _device_of(context)


@contextmanager
def on_device(context: Context) -> Iterator[Any]:
    """The device, for one training or prediction with the accuracy of float32.

    Raises InputError where the device is not here, and where its memory does not suffice.
    """
    import torch

    device = _device_of(context)
    try:
        with one_thread(), ExitStack() as stack:
            if device.type == "cuda":  # as torch comes, cuDNN multiplies with ten bits
                exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
                stack.enter_context(exact)
            yield device
    except RuntimeError as error:
        full = isinstance(error, torch.cuda.OutOfMemoryError)
        if not full and not re.search("out of memory|ALLOC_FAILED", str(error)):
            raise
        raise InputError(
            f"The device {context.device!r} has not enough memory for this learner; "
            "perhaps another program uses it, too."
        ) from error


def release_device(context: Context) -> bool:
    """Give back what torch keeps of the device's memory; False where the device is lost.

    After some errors a GPU does not serve a process any more, whatever that asks.
    """
    import torch

    try:
        device = torch.device(context.device)
        if device.type == "cuda" and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        torch.zeros(1, device=device).cpu()
    except RuntimeError:
        return False
    return True


def build(network: Callable[[], Any]) -> Any:
    """A new torch network, without a trace in torch's random stream."""
    import torch

    with torch.random.fork_rng(devices=[]):
        return network()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch: several jobs share the cores, and sums keep their order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Layers of LSTM cells over histories of many lengths


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
