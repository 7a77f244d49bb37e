"""Run `srs-eval` with models that misbehave; worker processes import this file too."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import numpy as np

from srs_eval import models
from srs_eval.cli.main import main
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, TrainedModel

MISBEHAVES = os.environ.get("TEST_MISBEHAVE") == "1"


def _killed(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    if MISBEHAVES and context.user == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.full(len(index), 0.8)


def _once(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    """Kill the first worker that comes to user 2."""
    if MISBEHAVES and context.user == 2:
        with suppress(FileExistsError):
            os.close(os.open(Path(os.environ["TEST_MEETING"]) / "killed", os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
    return np.full(len(index), 0.9)


def _raising(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    if MISBEHAVES and context.user == 3:
        raise ValueError("no such memory")
    return np.full(len(index), 0.7)


def _stuck(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    print("this must not reach stdout", flush=True)
    time.sleep(600)
    return np.full(len(index), 0.6)


def _hungry(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    if MISBEHAVES and context.user == 4:
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (200 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
        try:
            return np.ones(1 << 28)[index]
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    return np.full(len(index), 0.4)


def _slow(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    time.sleep(0.1)
    return np.full(len(index), 0.5)


def _losing(trials: Trials, parameters: object, index: IntArray, context: Context) -> FloatArray:
    """Break the device for this process from user 4 on."""
    import torch

    if MISBEHAVES and context.user == 4:
        torch.zeros = _no_answer
    return torch.zeros(len(index)).double().numpy() + 0.3


def _no_answer(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("CUDA error: unspecified launch failure")


for _name, _predict in {
    "KILLED": _killed,
    "ONCE": _once,
    "RAISING": _raising,
    "STUCK": _stuck,
    "HUNGRY": _hungry,
    "SLOW": _slow,
    "LOSING": _losing,
}.items():
    models.all_models()[_name] = TrainedModel(  # type: ignore[index]
        _name,
        family="baseline",
        parameters=0,
        predict=_predict,
        extra=True,
        uses_device=_name in os.environ.get("TEST_ON_DEVICE", "").split(","),
    )

if __name__ == "__main__":
    sys.exit(main())
