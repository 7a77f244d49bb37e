"""What a desired retention costs: scheduler x memory x habits, day by day.

`estimate.workload` answers, better and better; `answers` puts it into words. It plays a preset's
cards forward: `simulator` for one course of events, `kernel` is its compiled loop. What goes in are
a `Deck` (today's cards: `today`), `Costs` (what answers cost and which buttons are pressed:
`habits`), `Settings` (the question) and one or two `Memory`: the one that decides on intervals and,
where the model may be wrong, the one that answers are drawn from. `draws` tells which other
parameters the learner's reviews allow, `preview` what the buttons would give.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srs_eval.advice.workload.estimate import Question, Workload, workload

__all__ = ["Question", "Workload", "workload"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from srs_eval.advice.workload import estimate

        return getattr(estimate, name)
    raise AttributeError(f"module 'srs_eval.advice.workload' has no attribute {name!r}")


class _Asked(ModuleType):
    """`srs_eval.workload(log)` is `srs_eval.workload.workload(log)`: room and question share
    their name."""

    def __call__(self, *arguments: Any, **options: Any) -> Generator[Workload]:
        from srs_eval.advice.workload.estimate import workload

        return workload(*arguments, **options)


sys.modules[__name__].__class__ = _Asked
