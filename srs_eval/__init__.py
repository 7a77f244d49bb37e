"""srs-eval: how well do memory models predict your own forgetting?

The public interface for notebooks is `load`, `evaluate`, `compare` and `workload`, and what makes
English of findings: `line`, `sentences`, `tables`. All are imported on first use, so that
`import srs_eval` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srs_eval.data.paths import VERSION as __version__

__all__ = [
    "__version__",
    "compare",
    "evaluate",
    "line",
    "load",
    "sentences",
    "tables",
    "workload",
]

if TYPE_CHECKING:
    from srs_eval.advice.shown import line, sentences, tables
    from srs_eval.advice.workload.estimate import workload
    from srs_eval.report.notebook import compare, evaluate, load


def __getattr__(name: str) -> Any:
    if name in ("load", "evaluate", "compare"):
        from srs_eval.report import notebook

        return getattr(notebook, name)
    if name in ("line", "sentences", "tables"):
        from srs_eval.advice import shown

        return getattr(shown, name)
    if name == "workload":
        from srs_eval.advice.workload.estimate import workload

        return workload
    raise AttributeError(f"module 'srs_eval' has no attribute {name!r}")
