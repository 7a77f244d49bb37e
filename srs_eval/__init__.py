"""Measure how well memory models predict your own forgetting.

`__all__` names the public interface for notebooks (docs/notebook.md). Its members are imported
on first use, so that `import srs_eval` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srs_eval.data.paths import VERSION as __version__

_MODULE_BY_NAME = {
    **dict.fromkeys(
        ("compare", "evaluate", "load", "schedulability", "training_log"),
        "srs_eval.report.notebook",
    ),
    **dict.fromkeys(
        (
            "confidence_set",
            "evaluate_dataset",
            "leaderboard",
            "pairs",
            "read_results",
            "seed_spread",
        ),
        "srs_eval.report.result_frames",
    ),
    **dict.fromkeys(("line", "sentences", "tables"), "srs_eval.advice.shown"),
    "workload": "srs_eval.advice.workload.estimate",
    "Context": "srs_eval.training.hyperparameters",
    "InputError": "srs_eval.data.errors",
    **dict.fromkeys(
        ("Cost", "Ensemble", "Model", "OnlineModel", "TrainedModel"), "srs_eval.models"
    ),
    "Protocol": "srs_eval.data.protocol",
}
__all__ = [
    "Context",
    "Cost",
    "Ensemble",
    "InputError",
    "Model",
    "OnlineModel",
    "Protocol",
    "TrainedModel",
    "__version__",
    "compare",
    "confidence_set",
    "evaluate",
    "evaluate_dataset",
    "leaderboard",
    "line",
    "load",
    "pairs",
    "read_results",
    "schedulability",
    "seed_spread",
    "sentences",
    "tables",
    "training_log",
    "workload",
]

if TYPE_CHECKING:
    from srs_eval.advice.shown import line, sentences, tables
    from srs_eval.advice.workload.estimate import workload
    from srs_eval.data.errors import InputError
    from srs_eval.data.protocol import Protocol
    from srs_eval.models import Cost, Ensemble, Model, OnlineModel, TrainedModel
    from srs_eval.report.notebook import compare, evaluate, load, schedulability, training_log
    from srs_eval.report.result_frames import (
        confidence_set,
        evaluate_dataset,
        leaderboard,
        pairs,
        read_results,
        seed_spread,
    )
    from srs_eval.training.hyperparameters import Context


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'srs_eval' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_BY_NAME[name]), name)


def __dir__() -> list[str]:
    """Return the public names, which completion offers."""
    return __all__
