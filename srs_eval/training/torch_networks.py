"""Torch helpers for networks: a device, one thread, and a layer of LSTM cells.

torch's own layer gives the same numbers. But on a CPU its backward pass fills, for each step, an
array as large as all steps together, so that its time grows with the square of the longest
history. Here each step writes into its rows of arrays that are allocated once, and values that do
not depend on another step are computed for all rows together.

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


def _resolve_device(context: Context) -> Any:
    """Return the torch device that the user asked for; raise InputError if it is missing."""
    import torch

    # Set before the GPU is used; without it, cuDNN's recurrent layers may add in any order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        try:
            device = torch.device(context.device)
        except RuntimeError:
            raise RuntimeError("torch has no such device") from None
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
    """Raise InputError if the device cannot be used."""
    _resolve_device(context)


@contextmanager
def use_device(context: Context) -> Iterator[Any]:
    """Provide the device for one training or prediction with the accuracy of float32.

    Raises InputError if the device is missing or its memory does not suffice.
    """
    import torch

    device = _resolve_device(context)
    try:
        with use_one_thread(), ExitStack() as stack:
            if device.type == "cuda":  # by default, cuDNN multiplies with ten bits of precision
                exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
                stack.enter_context(exact)
            yield device
    except RuntimeError as error:
        is_out_of_memory = isinstance(error, torch.cuda.OutOfMemoryError)
        if not is_out_of_memory and not re.search("out of memory|ALLOC_FAILED", str(error)):
            raise
        raise InputError(
            f"The device {context.device!r} does not have enough memory for this learner; "
            "perhaps another program uses it, too."
        ) from error


def release_device(context: Context) -> bool:
    """Give back the device memory that torch keeps; return False if the device is lost.

    After some errors a GPU no longer serves a process, whatever the process asks for.
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


def build_network(make: Callable[[], Any]) -> Any:
    """Make a torch network; torch's random numbers go on as if it had not been made."""
    import torch

    with torch.random.fork_rng(devices=[]):
        return make()


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Limit torch to one thread: several jobs share the cores, and sums keep their order."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# Layers of LSTM cells over histories of many lengths


def find_previous_rows(remaining: IntArray) -> IntArray:
    """Return, for each row from step two on, the row of the step before (rows - remaining[0],).

    The rows are the first steps of all histories, then their second steps and so on, the longest
    history first. `remaining` (steps,) is the number of histories that reach each step.
    """
    return np.arange(remaining[0], remaining.sum()) - np.repeat(remaining[:-1], remaining[1:])


@cache
def lstm_layer() -> Any:
    """Return the function (x, previous, remaining, w_ih, w_hh, b_ih, b_hh) -> h.

    h holds all rows (rows, m). `remaining`, the number of histories that reach each step, is a
    list, `previous` a tensor of `find_previous_rows`; the rest is as in torch.nn.LSTM.
    """
    import torch
    from torch import Tensor

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            x: Tensor,
            previous: Tensor,
            remaining: list[int],
            w_ih: Tensor,
            w_hh: Tensor,
            b_ih: Tensor,
            b_hh: Tensor,
        ) -> Tensor:
            m = w_hh.shape[1]
            gates = torch.addmm(b_ih + b_hh, x, w_ih.t())
            h, c, tanh_c = x.new_empty(3, len(x), m).unbind(0)
            previous_begin = 0
            begin = 0
            for n in remaining:
                rows = slice(begin, begin + n)
                previous_rows = slice(previous_begin, previous_begin + n)
                gate = gates[rows]
                cell = c[rows]
                if begin:
                    gate.addmm_(h[previous_rows], w_hh.t())
                gate[:, : 2 * m].sigmoid_()
                gate[:, 2 * m : 3 * m].tanh_()
                gate[:, 3 * m :].sigmoid_()
                enter, forget, new, leave = gate.split(m, 1)
                torch.mul(enter, new, out=cell)
                if begin:
                    cell.addcmul_(forget, c[previous_rows])
                torch.tanh(cell, out=tanh_c[rows])
                torch.mul(leave, tanh_c[rows], out=h[rows])
                previous_begin = begin
                begin += n
            ctx.save_for_backward(x, previous, w_ih, w_hh, gates, h, c, tanh_c)
            ctx.remaining = remaining
            return h

        @staticmethod
        def backward(ctx: Any, *bars: Tensor) -> Any:
            x, previous, w_ih, w_hh, gates, h, c, tanh_c = ctx.saved_tensors
            remaining = ctx.remaining
            first = remaining[0]
            m = w_hh.shape[1]
            enter, forget, new, leave = gates.split(m, 1)
            # The derivative of c, or of h for the last gate, with respect to each gate's input.
            # The loop turns it into the gradient of the loss.
            slope = torch.empty_like(gates)
            i, f, g, o = slope.split(m, 1)
            torch.mul(enter * (1 - enter), new, out=i)
            f[:first] = 0
            torch.mul((forget * (1 - forget))[first:], c[previous], out=f[first:])
            torch.mul(enter, 1 - new * new, out=g)
            torch.mul(leave * (1 - leave), tanh_c, out=o)
            slope_by_c = leave * (1 - tanh_c * tanh_c)
            h_bar = bars[0].clone()
            c_bar = torch.zeros_like(c)
            end = len(x)
            for step in range(len(remaining) - 1, -1, -1):
                n = remaining[step]
                rows = slice(end - n, end)
                gate = slope[rows]
                cell = c_bar[rows]
                cell.addcmul_(h_bar[rows], slope_by_c[rows])
                gate[:, : 3 * m].view(n, 3, m).mul_(cell[:, None])
                gate[:, 3 * m :].mul_(h_bar[rows])
                if step:
                    end -= n
                    previous_begin = end - remaining[step - 1]
                    previous_rows = slice(previous_begin, previous_begin + n)
                    h_bar[previous_rows].addmm_(gate, w_hh)
                    torch.mul(cell, forget[rows], out=c_bar[previous_rows])
            bias_bar = slope.sum(0)
            w_ih_bar = slope.t() @ x
            w_hh_bar = slope[first:].t() @ h[previous]
            return slope @ w_ih, None, None, w_ih_bar, w_hh_bar, bias_bar, bias_bar

    return Layer.apply
