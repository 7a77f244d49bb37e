"""srs-eval: how well do memory models predict your own forgetting?

The public interface for notebooks is `load`, `evaluate` and `compare`; all are imported
on first use, so that `import srs_eval` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "compare", "evaluate", "load"]

if TYPE_CHECKING:
    from srs_eval.report.notebook import compare, evaluate, load


def __getattr__(name: str) -> Any:
    if name in ("load", "evaluate", "compare"):
        from srs_eval.report import notebook as api

        return getattr(api, name)
    if name == "workload":
        from importlib import import_module

        return import_module("srs_eval.advice.workload")
    raise AttributeError(f"module 'srs_eval' has no attribute {name!r}")
